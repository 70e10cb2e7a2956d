//! isl's scheduler: units and dependences in, a tree of bands out. isl objects are known here and in `relations.rs` alone.

use super::dependences::Dependence;
use super::parameters::Names;
use super::relations::Question;
use super::{Context, Fuse, Member, Tree, Unit};
use crate::answers::answers;
use crate::isl_set::within;
use crate::system::Col;
use isl_rs::{Aff, Context as Isl, DimType, LibISLError, Options, ScheduleNode, ScheduleNodeType, UnionSet};
use lathe_poly::Affine;
use std::collections::BTreeMap;

/// Operations that one schedule may take. isl counts what it allocates, and steps of its linear programs, which take the
/// longer the more parts there are of dependences, so that these are limited, too.
const BUDGET: u64 = 200_000;
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
    let parts = units.iter().map(|u| &u.domain).chain(dependences.iter().flat_map(|d| &d.when));
    if parts.map(Vec::len).max().is_some_and(|n| n > MAX_CONSTRAINTS) {
        return Err("its subscripts and bounds are too long".to_string());
    }
    let question = Question::of(&names, context, units, dependences);
    let mut key = question.key();
    key.push(fuse as i64);
    let all = answers();
    let found = all.schedule(&key).unwrap_or_else(|| {
        all.count();
        let found = ask(units, &names, &question, fuse);
        all.keep_schedule(key, found.clone());
        found
    });
    found.ok_or_else(|| "isl found no schedule within its budget".to_string())
}

/// isl's answer to a question.
fn ask(units: &[Unit], names: &Names, question: &Question, fuse: Fuse) -> Option<Tree> {
    let found = within(BUDGET, |ctx| {
        let set = |f: fn(&Isl, i32) -> Result<isl_rs::Stat, LibISLError>, v: i32| f(ctx, v).map(|_| ());
        set(Options::set_schedule_max_coefficient, MAX_FACTOR)?;
        set(Options::set_schedule_serialize_sccs, i32::from(fuse == Fuse::None))?;
        set(Options::set_schedule_whole_component, i32::from(fuse == Fuse::Max))?;
        set(Options::set_schedule_maximize_band_depth, 1)?;
        let root = question.constraints(ctx)?.compute_schedule()?.get_root()?;
        let all: Vec<usize> = (0..units.len()).collect();
        tree(&Reader { units, names }, root.first_child()?, &all)
    });
    found.flatten()
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
