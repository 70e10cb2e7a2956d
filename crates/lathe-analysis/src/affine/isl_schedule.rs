//! isl's scheduler: units and dependences in, a tree of bands out. No isl object leaves this file.

use super::dependences::Dependence;
use super::{Context, Fuse, Member, Tree, Unit};
use crate::answers::answers;
use crate::isl_set::within;
use crate::system::{Col, Con, Conj};
use isl_rs::{
    Aff, Context as Isl, DimType, LibISLError, Options, ScheduleConstraints, ScheduleNode, ScheduleNodeType,
    Set, UnionMap, UnionSet,
};
use lathe_ir::VarId;
use lathe_poly::Affine;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// Operations that one schedule may take. isl counts what it allocates, and steps of its linear programs, which take the
/// longer the more parts there are of dependences, so that these are limited, too.
const BUDGET: u64 = 1_500_000;
/// Constraints of one domain, or of one dependence: what isl does before it begins to search takes no budget.
const MAX_CONSTRAINTS: usize = 48;
const MAX_PARTS: usize = 250;
/// Larger factors make no loops that anybody wants.
const MAX_FACTOR: i32 = 4;

/// A schedule of all units.
pub(super) fn schedule(
    context: &Context,
    units: &[Unit],
    dependences: &[Dependence],
    fuse: Fuse,
) -> Result<Tree, String> {
    if dependences.iter().map(|d| d.when.len()).sum::<usize>() > MAX_PARTS {
        return Err("there are too many dependences between the statements inside".into());
    }
    let names = Names::of(context, units, dependences);
    let domain: Vec<String> = units
        .iter()
        .enumerate()
        .map(|(n, u)| {
            let own: HashMap<Col, String> = numbered(&u.columns, 'x');
            format!("{} : {}", tuple(n, u, 'x'), names.conj(&u.domain, &own))
        })
        .collect();
    let map = |keep: &dyn Fn(&Dependence) -> bool| -> String {
        let parts: Vec<String> =
            dependences.iter().filter(|d| keep(d)).flat_map(|d| names.map(units, d)).collect();
        names.braces(&parts.join("; "))
    };
    let texts = [
        names.braces(&domain.join("; ")),
        names.context(context),
        map(&|d| !d.licensed),
        map(&|_| true),
        map(&|d| d.flow || d.licensed),
    ];
    let parts = units.iter().map(|u| &u.domain).chain(dependences.iter().flat_map(|d| &d.when));
    if parts.map(Vec::len).max().is_some_and(|n| n > MAX_CONSTRAINTS) {
        return Err("its subscripts and bounds are too long".to_string());
    }
    let iterators: Vec<Vec<VarId>> = units.iter().map(|u| u.iters.iter().map(|b| b.id).collect()).collect();
    let key = format!("{fuse:?} {iterators:?} {:?} {:?} {}", names.outer, names.sizes, texts.join("\n"));
    let all = answers();
    let found = all.schedule(&key).unwrap_or_else(|| {
        all.count();
        let found = ask(units, &names, &texts, fuse);
        all.keep_schedule(key, found.clone());
        found
    });
    found.ok_or_else(|| "isl found no schedule within its budget".to_string())
}

/// isl's schedule for a domain, a context, and validity, coincidence and
/// proximity relations, all given as text.
fn ask(units: &[Unit], names: &Names, texts: &[String; 5], fuse: Fuse) -> Option<Tree> {
    let found = within(BUDGET, |ctx| {
        let set = |f: fn(&Isl, i32) -> Result<isl_rs::Stat, LibISLError>, v: i32| f(ctx, v).map(|_| ());
        set(Options::set_schedule_max_coefficient, MAX_FACTOR)?;
        set(Options::set_schedule_serialize_sccs, i32::from(fuse == Fuse::None))?;
        set(Options::set_schedule_whole_component, i32::from(fuse == Fuse::Max))?;
        set(Options::set_schedule_maximize_band_depth, 1)?;
        let relation = |text: &str| UnionMap::read_from_str(ctx, text);
        let c = ScheduleConstraints::on_domain(UnionSet::read_from_str(ctx, &texts[0])?)?;
        let c = c.set_context(Set::read_from_str(ctx, &texts[1])?)?;
        let c = c.set_validity(relation(&texts[2])?)?;
        let c = c.set_coincidence(relation(&texts[3])?)?;
        let c = c.set_proximity(relation(&texts[4])?)?;
        let root = c.compute_schedule()?.get_root()?;
        let all: Vec<usize> = (0..units.len()).collect();
        tree(&Reader { units, names }, root.first_child()?, &all)
    });
    found.flatten()
}

/// `S0[x0, x1]`
fn tuple(unit: usize, u: &Unit, letter: char) -> String {
    let iters: Vec<String> = (0..u.iters.len()).map(|n| format!("{letter}{n}")).collect();
    format!("S{unit}[{}]", iters.join(", "))
}

fn numbered(columns: &[Col], letter: char) -> HashMap<Col, String> {
    columns.iter().enumerate().map(|(n, c)| (*c, format!("{letter}{n}"))).collect()
}

/// What the surroundings are called in isl's texts, and numbers that are so large that they are sizes.
struct Names {
    outer: BTreeMap<Col, VarId>,
    sizes: Vec<i64>,
}

/// Numbers above are written as a size and a difference of at most [`NEAR`]: what holds for every size holds for this
/// one, and isl's linear programs, which are exact, take ten times as long with large numbers.
const SIZE: i64 = 16;
const NEAR: i64 = 8;

impl Names {
    fn of(context: &Context, units: &[Unit], dependences: &[Dependence]) -> Names {
        let all = std::iter::once(&context.cons)
            .chain(units.iter().map(|u| &u.domain))
            .chain(dependences.iter().flat_map(|d| &d.when));
        let numbers = all.flatten().filter(|c| !large(c)).map(|c| c.lin.constant.abs());
        let mut numbers: Vec<i64> = numbers.filter(|n| *n > SIZE).collect();
        numbers.sort_unstable();
        let mut sizes: Vec<i64> = Vec::new();
        for n in numbers {
            if sizes.last().is_none_or(|s| n - s > NEAR) {
                sizes.push(n);
            }
        }
        Names { outer: context.variables.iter().map(|(v, c)| (*c, *v)).collect(), sizes }
    }

    fn number(&self, n: i64) -> String {
        let near = |s: &i64| n.abs() - s >= 0 && n.abs() - s <= NEAR;
        match self.sizes.iter().position(near).filter(|_| n.abs() > SIZE) {
            Some(k) => format!("{0}n{k} + {0}{1}", if n < 0 { "-" } else { "" }, n.abs() - self.sizes[k]),
            None => n.to_string(),
        }
    }

    fn braces(&self, inside: &str) -> String {
        let outer = self.outer.keys().map(|c| format!("p{c}"));
        let all: Vec<String> = outer.chain((0..self.sizes.len()).map(|k| format!("n{k}"))).collect();
        format!("[{}] -> {{ {inside} }}", all.join(", "))
    }

    fn context(&self, context: &Context) -> String {
        let mut all = vec![self.conj(&context.cons, &HashMap::new())];
        all.extend((0..self.sizes.len()).map(|k| format!("n{k} > {SIZE}")));
        self.braces(&format!(": {}", all.join(" and ")))
    }

    fn map(&self, units: &[Unit], d: &Dependence) -> Vec<String> {
        let mut own = numbered(&d.columns.0, 'x');
        own.extend(numbered(&d.columns.1, 'y'));
        let (x, y) = (tuple(d.from, &units[d.from], 'x'), tuple(d.to, &units[d.to], 'y'));
        d.when.iter().map(|c| format!("{x} -> {y} : {}", self.conj(c, &own))).collect()
    }

    /// A conjunction, with unnamed variables existentially quantified.
    fn conj(&self, cons: &Conj, own: &HashMap<Col, String>) -> String {
        let mut free: Vec<Col> = cons.iter().flat_map(|c| c.lin.terms.iter().map(|t| t.0)).collect();
        free.retain(|c| !own.contains_key(c) && !self.outer.contains_key(c));
        free.sort_unstable();
        free.dedup();
        let name = |c: &Col| match own.get(c) {
            Some(n) => n.clone(),
            None if self.outer.contains_key(c) => format!("p{c}"),
            None => format!("e{c}"),
        };
        let one = |c: &Con| {
            let mut text = self.number(c.lin.constant);
            for (col, k) in &c.lin.terms {
                let _ = write!(text, " + {k} {}", name(col));
            }
            format!("{text} {} 0", if c.eq { "=" } else { ">=" })
        };
        let all: Vec<String> = cons.iter().filter(|c| !large(c)).map(one).collect();
        let body = if all.is_empty() { "true".to_string() } else { all.join(" and ") };
        if free.is_empty() {
            return body;
        }
        let bound: Vec<String> = free.iter().map(name).collect();
        format!("exists ({} : {body})", bound.join(", "))
    }
}

/// A machine limit, which gives no information. Without a constraint there are more iterations and dependences, never
/// fewer.
fn large(c: &Con) -> bool {
    c.lin.constant.unsigned_abs() > u64::from(u32::MAX)
}

struct Reader<'a> {
    units: &'a [Unit],
    names: &'a Names,
}

/// `None`: an expression that has no form as loops.
fn tree(r: &Reader, node: ScheduleNode, units: &[usize]) -> Result<Option<Tree>, LibISLError> {
    let of_children = |node: &ScheduleNode| -> Result<Option<Tree>, LibISLError> {
        let mut parts = Vec::new();
        for n in 0..node.n_children()? {
            let filter = node.get_child(n)?;
            let inside = units_of(&filter.filter_get_filter()?)?;
            let Some(t) = tree(r, filter.first_child()?, &inside)? else { return Ok(None) };
            parts.push((inside, t));
        }
        Ok(Some(Tree::Sequence(parts)))
    };
    match node.get_type()? {
        ScheduleNodeType::Leaf => Ok(Some(Tree::Leaf)),
        ScheduleNodeType::Context => tree(r, node.first_child()?, units),
        ScheduleNodeType::Sequence | ScheduleNodeType::Set => of_children(&node),
        ScheduleNodeType::Band => {
            let partial = node.band_get_partial_schedule()?;
            let mut members = Vec::new();
            for n in 0..node.band_n_member()? {
                let list = partial.get_at(n)?.get_pw_aff_list()?;
                let mut rows = BTreeMap::new();
                for i in 0..list.size()? {
                    let one = list.get_at(i)?;
                    let unit = number(one.get_tuple_id(DimType::In)?.get_name()?);
                    let Some(row) = unit.and_then(|u| Some((u, r.units.get(u)?))) else { return Ok(None) };
                    if !one.isa_aff()? {
                        return Ok(None);
                    }
                    let Some(form) = affine(r, row.1, &one.as_aff()?)? else { return Ok(None) };
                    rows.insert(row.0, form);
                }
                if units.iter().any(|u| !rows.contains_key(u)) {
                    return Ok(None);
                }
                members.push(Member { rows, coincident: node.band_member_get_coincident(n)?, alone: true });
            }
            let permutable = node.band_get_permutable()?;
            let Some(child) = tree(r, node.first_child()?, units)? else { return Ok(None) };
            Ok(Some(Tree::Band { members, permutable, child: Box::new(child) }))
        }
        _ => Ok(None),
    }
}

fn number(name: &str) -> Option<usize> {
    name.strip_prefix('S')?.parse().ok()
}

fn units_of(set: &UnionSet) -> Result<Vec<usize>, LibISLError> {
    let list = set.get_set_list()?;
    let mut out = Vec::new();
    for n in 0..list.size()? {
        out.extend(number(list.get_at(n)?.get_tuple_name()?));
    }
    out.sort_unstable();
    Ok(out)
}

/// A form over the iterators of a unit and the surroundings; `None` where there are divisions.
fn affine(r: &Reader, unit: &Unit, a: &Aff) -> Result<Option<Affine>, LibISLError> {
    let mut out = Affine::constant(a.get_constant_val()?.get_num_si()?);
    if a.get_denominator_val()?.get_num_si()? != 1 || a.dim(DimType::Div)? != 0 {
        return Ok(None);
    }
    for (n, b) in unit.iters.iter().enumerate() {
        let k = a.get_coefficient_val(DimType::In, n as i32)?.get_num_si()?;
        if out.add_term(b.id, k).is_none() {
            return Ok(None);
        }
    }
    for n in 0..a.dim(DimType::Param)? {
        let name = a.get_dim_name(DimType::Param, n as u32)?.to_string();
        let k = a.get_coefficient_val(DimType::Param, n)?.get_num_si()?;
        if k == 0 {
            continue;
        }
        let size = name.strip_prefix('n').and_then(|c| r.names.sizes.get(c.parse::<usize>().ok()?));
        if let Some(size) = size {
            let Some(sum) = size.checked_mul(k).and_then(|v| v.checked_add(out.constant)) else {
                return Ok(None);
            };
            out.constant = sum;
            continue;
        }
        let col: Option<Col> = name.strip_prefix('p').and_then(|c| c.parse().ok());
        let Some(v) = col.and_then(|c| r.names.outer.get(&c)) else { return Ok(None) };
        if out.add_term(*v, k).is_none() {
            return Ok(None);
        }
    }
    Ok(Some(out))
}
