//! Sums, extrema and the like over one array: loops of their own read it from memory once each; fused, once together.

use super::made::Made;
use super::nests::bytes;
use super::setting::Setting;
use lathe_ir::names;
use lathe_ir::visit::{self, Path};
use lathe_ir::{BufId, Buffer, Combine, Compute, Function, Param};
use lathe_transform::{Arg, Args};
use std::collections::{BTreeMap, HashSet};

/// The function with the loops of such reductions fused, where an array that they read is larger than the second cache;
/// `sizes` are examples of those that the function still has. None, if there are none.
pub(super) fn fused(set: &Setting, sizes: &BTreeMap<String, i64>) -> Option<Made> {
    let mut made = Made::of(set.func);
    for group in groups(set, sizes) {
        made = together(set, &made, &group).unwrap_or(made);
    }
    Some(made).filter(|m| !m.steps.is_empty())
}

/// A reduction of all its indices: its label and their names.
type Reduction = (String, Vec<String>);

fn groups(set: &Setting, sizes: &BTreeMap<String, i64>) -> Vec<Vec<Reduction>> {
    let large = large(set, sizes);
    let mut found: Vec<(Compute, HashSet<BufId>, Vec<Reduction>)> = Vec::new();
    visit::walk(&set.func.body, &mut |s, _| {
        if let Some(c) = s.as_compute().filter(|c| reduces_all(c)) {
            let loads = c.values.iter().flat_map(visit::loads_of).filter_map(|a| a.view.buffer());
            let reads: HashSet<BufId> = loads.filter(|b| large.contains(b)).collect();
            let this = (c.label.to_string(), c.dims.iter().map(|d| d.binder.name.to_string()).collect());
            let same = |other: &Compute| {
                other.dims.len() == c.dims.len()
                    && other.dims.iter().zip(&c.dims).all(|(a, b)| a.lo == b.lo && a.hi == b.hi)
            };
            match found.iter_mut().find(|f| same(&f.0) && !f.1.is_disjoint(&reads)) {
                Some(group) => group.2.push(this),
                None if !reads.is_empty() => found.push((c.clone(), reads, vec![this])),
                None => {}
            }
        }
        // Loops around them have their own arrays.
        s.as_loop().is_none()
    });
    found.into_iter().map(|f| f.2).filter(|g| g.len() > 1).collect()
}

/// Nothing but reductions over ranges that do not depend on one another.
fn reduces_all(c: &Compute) -> bool {
    let ids: Vec<_> = c.dims.iter().map(|d| d.binder.id).collect();
    let free = |e: &lathe_ir::Expr| visit::vars_of(e).iter().all(|v| !ids.contains(v));
    !c.dims.is_empty()
        && c.guard.is_none()
        && c.update.is_none()
        && c.targets.len() == 1
        && c.dims.iter().all(|d| matches!(d.combine, Combine::Reduce(_)) && free(&d.lo) && free(&d.hi))
}

/// Arrays that the second cache does not hold.
fn large(set: &Setting, sizes: &BTreeMap<String, i64>) -> HashSet<BufId> {
    let bytes = bytes(set.func, sizes);
    let mut out = HashSet::new();
    let mut add = |b: &Buffer| {
        if bytes(b) > set.machine.l2_bytes as i64 {
            out.insert(b.id);
        }
    };
    set.func.params.iter().filter_map(Param::array).for_each(|b| add(b));
    visit::walk(&set.func.body, &mut |s, _| {
        s.allocated().into_iter().for_each(|b| add(b));
        true
    });
    out
}

/// One loop for as many of them as can have one; the others stay what they are.
fn together(set: &Setting, start: &Made, group: &[Reduction]) -> Option<Made> {
    let ((first, indices), others) = group.split_first()?;
    let opened =
        |m: &Made, label: &str| m.then(set, &compute(&m.func, label)?, "open", &Args::default()).ok();
    let mut made = opened(start, first)?;
    let alone = made.steps.len();
    for (label, own) in others {
        let next = opened(&made, label).and_then(|mut m| {
            for (a, b) in indices.iter().zip(own) {
                let mut args = Args::default();
                args.push(None, Arg::Path(names::around(first, a)));
                args.push(None, Arg::Path(names::around(label, b)));
                m = m.everywhere(set, "fuse", &args).ok()?;
            }
            Some(m)
        });
        made = next.unwrap_or(made);
    }
    (made.steps.len() > alone).then_some(made)
}

fn compute(func: &Function, label: &str) -> Option<Path> {
    let mut out = None;
    visit::walk(&func.body, &mut |s, p| {
        if s.as_compute().is_some_and(|c| c.label.as_str() == label) {
            out = Some(p.to_vec());
        }
        out.is_none()
    });
    out
}
