//! Arrays that are filled as a whole before other loops overwrite most of them, such as images of which only the interior is
//! computed: only the border is filled. The loops of the fill are cut where the part begins that is overwritten, and that part
//! is left out.

use super::interior::argument;
use super::made::Made;
use super::setting::Setting;
use lathe_analysis::{Memory, Place};
use lathe_ir::interp::evaluate;
use lathe_ir::visit;
use lathe_ir::{Access, Binder, BufId, Combine, Executor, Expr, Stmt, VarId};
use lathe_poly::Affine;
use lathe_transform::{Arg, Args};
use std::collections::{BTreeMap, HashMap};

/// The function with fills of borders alone; `sizes` are examples of those that it still has. None, if nothing is filled that is
/// overwritten.
pub(super) fn alone(set: &Setting, sizes: &BTreeMap<String, i64>) -> Option<Made> {
    let known = set.func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    let fills = Fills { set, memory: Memory::of(set.func), known };
    let mut made = Made::of(set.func);
    visit::walk(&set.func.body, &mut |s, _| {
        let all = s.as_seq().unwrap_or(&[]);
        for (n, first) in all.iter().enumerate() {
            if let Some((fill, part)) = fills.overwritten(first, &all[n + 1..]) {
                made = fills.left_out(&made, &fill, &part).unwrap_or_else(|| made.clone());
            }
        }
        true
    });
    Some(made).filter(|m| !m.steps.is_empty())
}

struct Fills<'a> {
    set: &'a Setting<'a>,
    memory: Memory,
    known: HashMap<VarId, i64>,
}

/// A loop, or an index.
struct Range<'s> {
    binder: &'s Binder,
    lo: &'s Expr,
    hi: &'s Expr,
}

/// A statement around which nothing but loops stands, and which writes one element in each iteration.
struct Write<'s> {
    label: &'s str,
    /// In index notation.
    compute: bool,
    array: BufId,
    ranges: Vec<Range<'s>>,
}

impl Fills<'_> {
    /// A fill, and the part of each subscript, from and up to where, that a later statement of its block overwrites.
    fn overwritten<'s>(&self, s: &'s Stmt, later: &[Stmt]) -> Option<(Write<'s>, Vec<[Affine; 2]>)> {
        let fill = self.write(s)?;
        let place = Place::Buffer(fill.array);
        for next in later {
            let touched = self.memory.touched(next);
            if touched.reads(place) {
                return None;
            }
            if touched.writes(place) {
                return self.part(next, fill.array).map(|part| (fill, part));
            }
        }
        None
    }

    /// The one statement of a nest, if it writes an array at the loops' variables.
    fn write<'s>(&self, mut s: &'s Stmt) -> Option<Write<'s>> {
        let mut ranges = Vec::new();
        while let Some(l) = s.as_loop().filter(|l| l.step == 1 && l.exec == Executor::Serial) {
            ranges.push(Range { binder: &l.binder, lo: &l.lo, hi: &l.hi });
            s = &l.body;
        }
        let (label, target) = if let Some(st) = s.as_store() {
            (&st.label, &st.target)
        } else {
            let c =
                s.as_compute().filter(|c| ranges.is_empty() && c.update.is_none() && c.guard.is_none())?;
            let [target] = &c.targets[..] else { return None };
            if c.dims.iter().any(|d| d.combine != Combine::Concat) {
                return None;
            }
            ranges.extend(c.dims.iter().map(|d| Range { binder: &d.binder, lo: &d.lo, hi: &d.hi }));
            (&c.label, target)
        };
        let Place::Buffer(array) = self.memory.place(&target.view) else { return None };
        let plain = target.indices.len() == ranges.len()
            && target.indices.iter().zip(&ranges).all(|(i, r)| i.as_var() == Some(r.binder.id));
        let compute = s.as_compute().is_some();
        (plain && !ranges.is_empty()).then_some(Write { label: label.as_str(), compute, array, ranges })
    }

    /// What the first store into an array writes of each of its subscripts.
    fn part(&self, s: &Stmt, array: BufId) -> Option<Vec<[Affine; 2]>> {
        let mut ranges: HashMap<VarId, (Expr, Expr)> = HashMap::new();
        let mut found: Option<Access> = None;
        visit::walk(s, &mut |s, _| {
            if let Some(l) = s.as_loop().filter(|l| l.step == 1) {
                ranges.insert(l.binder.id, (l.lo.clone(), l.hi.clone()));
            }
            let targets = match (s.as_store(), s.as_compute()) {
                (Some(st), _) => std::slice::from_ref(&st.target),
                (_, Some(c)) => &c.targets,
                _ => &[],
            };
            if let Some(target) = targets.iter().find(|t| found.is_none() && t.view.buffer() == Some(array)) {
                found = Some(target.clone());
                let dims = s.as_compute().map_or(&[][..], |c| &c.dims);
                ranges.extend(dims.iter().map(|d| (d.binder.id, (d.lo.clone(), d.hi.clone()))));
            }
            found.is_none()
        });
        let of_sizes = |f: &Affine| f.terms.iter().all(|t| self.set.func.sizes.iter().any(|b| b.id == t.0));
        let one = |i: &Expr| {
            let at = Affine::of(i)?;
            let (v, _) = at.terms.iter().find(|t| ranges.contains_key(&t.0)).filter(|t| t.1 == 1)?;
            let (lo, hi) = &ranges[v];
            let rest = at.clone().without(v);
            let (from, to) = (Affine::of(lo)?.plus(&rest, 1)?, Affine::of(hi)?.plus(&rest, 1)?);
            (of_sizes(&from) && of_sizes(&to)).then_some([from, to])
        };
        found?.indices.iter().map(one).collect()
    }

    /// The steps that leave out a part of a fill. What is left of a loop keeps its name, so that each step names one loop.
    fn left_out(&self, start: &Made, fill: &Write, part: &[[Affine; 2]]) -> Option<Made> {
        let value = |e: &Expr| evaluate(e, &self.known);
        let label = || Arg::Path(fill.label.to_string());
        let step = |made: &Made, rule: &str, args: Vec<Arg>| {
            let mut all = Args::default();
            args.into_iter().for_each(|a| all.push(None, a));
            made.everywhere(self.set, rule, &all).ok()
        };
        let mut made = start.clone();
        if fill.compute {
            made = step(&made, "open", vec![label()])?;
        }
        for (range, [from, to]) in fill.ranges.iter().zip(part) {
            let name = || Arg::Path(format!("{}.{}", fill.label, range.binder.name));
            let before = from.plus(&Affine::of(range.lo)?, -1)?;
            if !before.terms.is_empty() || value(&from.to_expr())? >= value(&to.to_expr())? {
                return None;
            }
            if before.constant > 0 {
                made = step(&made, "peel", vec![name(), Arg::Int(before.constant)])?;
            }
            if value(&to.to_expr())? < value(range.hi)? {
                made = step(&made, "cut", vec![name(), argument(&made.func, to)?])?;
            }
        }
        step(&made, "omit", vec![label()])
    }
}
