//! Sizes that nobody gave, taken as large: examples that decisions for any sizes can be made for.

use crate::homomorphism::Homomorphism;
use lathe_ir::interp::evaluate;
use lathe_ir::{Function, Module, VarId};
use std::collections::{BTreeMap, HashMap};

/// What a size is taken as, from the largest; where the extents of a function would multiply to too much, smaller.
const LARGE: [i64; 4] = [1024, 256, 64, 16];

/// A size that is subtracted from others is that of a window.
const WINDOW: i64 = 3;

/// Points of the largest compute, about.
const POINTS: f64 = 4e9;

/// A value for every size of a function: those that are given, and for the others large ones, such that every extent
/// of every compute is large, as far as they allow it.
pub fn examples(module: &Module, func: &Function, given: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    let read: Vec<Homomorphism> = crate::auto::labels(func)
        .iter()
        .filter_map(|l| Homomorphism::of(module, func, Some(l)).ok())
        .collect();
    let windows: Vec<VarId> =
        func.sizes.iter().map(|b| b.id).filter(|v| subtracted(&read, func, *v)).collect();
    let with = |large: i64| -> BTreeMap<String, i64> {
        let one = |b: &lathe_ir::Binder| {
            let value = if windows.contains(&b.id) { WINDOW } else { large };
            (b.name.to_string(), given.get(&*b.name).copied().unwrap_or(value))
        };
        func.sizes.iter().map(one).collect()
    };
    let points = |sizes: &BTreeMap<String, i64>| {
        let all = read.iter().filter_map(|h| h.at(sizes).ok());
        all.map(|s| s.extents.iter().map(|n| *n as f64).product()).fold(0.0, f64::max)
    };
    let fits = LARGE.iter().map(|n| with(*n)).find(|s| points(s) <= POINTS);
    fits.unwrap_or_else(|| with(LARGE[LARGE.len() - 1]))
}

/// Whether some extent becomes smaller as a size grows.
fn subtracted(all: &[Homomorphism], func: &Function, size: VarId) -> bool {
    let base = 1 << 20;
    let at = |v: i64| -> HashMap<VarId, i64> {
        func.sizes.iter().map(|b| (b.id, if b.id == size { v } else { base })).collect()
    };
    let (one, two) = (at(16), at(17));
    let extent = |d: &crate::Dimension, sizes: &HashMap<VarId, i64>| {
        Some(evaluate(&d.hi, sizes)? - evaluate(&d.lo, sizes)?)
    };
    all.iter().flat_map(|h| &h.dims).any(|d| extent(d, &two) < extent(d, &one))
}
