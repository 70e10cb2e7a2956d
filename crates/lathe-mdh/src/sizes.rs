//! Sizes that nobody gave, taken as large: examples that decisions for any sizes can be made for.

use crate::homomorphism::Homomorphism;
use lathe_ir::interp::evaluate;
use lathe_ir::{Function, Module, VarId};
use std::collections::{BTreeMap, HashMap};

/// What a size is taken as, from the largest; where the extents of a function would multiply to too much, smaller.
const LARGE: [i64; 4] = [1024, 256, 64, 16];

/// A size that is subtracted from others is that of a window.
const WINDOW: i64 = 3;

/// Such a size is at most.
const WINDOWS: i64 = 8;

/// Points all over the range.
const SPREAD: u32 = 84;

/// Points of which all sizes are large, and as many that multiply to as much: the range itself has few of either, and they
/// take the most time. Rows with a power of two between them share sets of caches, so every other point has such sizes.
const BEYOND: usize = 18;

/// Points of the largest compute, about.
const POINTS: f64 = 4e9;

/// Elements of the largest array of those that no cache holds, and points of a compute with them, at most.
const FAR: f64 = (1u64 << 26) as f64;
const LONGEST: f64 = (1u64 << 36) as f64;

/// Of sizes whose arrays are so many times as large as those of others, there are some between them.
const APART: f64 = 4096.0;

/// Sizes are at most so many times those of the examples for several threads, as a power of two.
const THREADS: u32 = 6;

/// A size is small if it is less than so many times that of its example.
const FEW: i64 = 4;

/// Points with a small size, for each of the parts.
const AROUND: u32 = 4;

/// Points from the examples to sizes whose arrays no cache holds.
const FAR_POINTS: u32 = 8;

/// A value for every size of a function: those that are given, and for the others large ones, such that every extent
/// of every compute is large, as far as they allow it.
pub fn examples(module: &Module, func: &Function, given: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    let read = computes(module, func);
    let windows: Vec<VarId> =
        func.sizes.iter().map(|b| b.id).filter(|v| subtracted(&read, func, *v)).collect();
    let with = |large: i64| -> BTreeMap<String, i64> {
        let one = |b: &lathe_ir::Binder| {
            let value = if windows.contains(&b.id) { WINDOW } else { large };
            (b.name.to_string(), given.get(&*b.name).copied().unwrap_or(value))
        };
        func.sizes.iter().map(one).collect()
    };
    let fits = LARGE.iter().map(|n| with(*n)).find(|s| points(&read, s) <= POINTS);
    fits.unwrap_or_else(|| with(LARGE[LARGE.len() - 1]))
}

/// Larger sizes than the [`examples`]: those whose largest array no cache holds, so that what is stored passes by the caches
/// and sums run in blocks, as far as a call with them ends soon; and some between these, where they are far apart.
pub fn far(module: &Module, func: &Function, given: &BTreeMap<String, i64>) -> Vec<BTreeMap<String, i64>> {
    let (read, large) = (computes(module, func), examples(module, func, given));
    let windows = windows(module, func);
    let with = |size: &dyn Fn(i64) -> i64| -> BTreeMap<String, i64> {
        let free = |name: &String| !given.contains_key(name) && !windows.contains(name);
        large.iter().map(|(name, v)| (name.clone(), if free(name) { size(*v) } else { *v })).collect()
    };
    let elements = |sizes: &BTreeMap<String, i64>| elements(func, sizes, &|_| true);
    let fits = |s: &i64| {
        let sizes = with(&|v| v.max(*s));
        elements(&sizes) <= FAR && points(&read, &sizes) <= LONGEST
    };
    let Some(size) = (0..=26).rev().map(|e| 1 << e).find(fits) else { return Vec::new() };
    let far = with(&|v| v.max(size));
    let between = with(&|v| power(((v as f64) * (v.max(size) as f64)).sqrt() as i64));
    let apart = elements(&far) / elements(&large) > APART;
    [far].into_iter().chain(apart.then_some(between)).filter(|s| *s != large).collect()
}

/// For each size that may be small while the largest input does not depend on it: such sizes, the others so large that each of
/// several threads has as much of that input as one has of that of the [`examples`], who read it once. Sizes around them begin
/// at some part of those of the examples, and are the more.
pub fn thin(
    module: &Module,
    func: &Function,
    given: &BTreeMap<String, i64>,
    (threads, small, part): (u64, i64, u32),
) -> Vec<Thin> {
    let (most, windows) = (examples(module, func, given), windows(module, func));
    let free = |name: &String| !given.contains_key(name) && !windows.contains(name);
    let times = |n: i64| -> BTreeMap<String, i64> {
        most.iter().map(|(name, v)| (name.clone(), if free(name) { v * n } else { *v })).collect()
    };
    let read = |p: &lathe_ir::Param| p.mode == lathe_ir::Mode::In;
    let largest = |sizes: &BTreeMap<String, i64>| elements(func, sizes, &read);
    let enough = |sizes: &BTreeMap<String, i64>| largest(sizes) >= threads as f64 * largest(&most);
    let Some(far) = (0..=THREADS).map(|e| times(1 << e)).find(enough) else { return Vec::new() };
    let one = |name: &String| {
        let with = |n: i64| -> BTreeMap<String, i64> {
            far.iter().map(|(x, v)| (x.clone(), if x == name { n } else { *v })).collect()
        };
        let example = with(small.min(most[name]));
        let range =
            |x: &str| if x == name { (1, FEW * small) } else { ((most[x] / i64::from(part)).max(1), far[x]) };
        let around =
            usual((1..=AROUND * part).map(|n| point(n, &far, given, &windows, &range)), given, &windows);
        (largest(&example) == largest(&far) && points(&computes(module, func), &example) <= POINTS)
            .then(|| Thin { size: name.clone(), below: FEW * small, around: around.collect(), example })
    };
    most.keys().filter(|n| free(n)).filter_map(one).collect()
}

/// Sizes of which one is small, and an input that does not depend on it large.
#[derive(Clone, Debug)]
pub struct Thin {
    /// The name of the one that is small, which is less than this.
    pub size: String,
    pub below: i64,
    pub example: BTreeMap<String, i64>,
    pub around: Vec<BTreeMap<String, i64>>,
}

/// Elements of the largest array of some parameters.
fn elements(func: &Function, sizes: &BTreeMap<String, i64>, of: &dyn Fn(&lathe_ir::Param) -> bool) -> f64 {
    let at: HashMap<VarId, i64> =
        func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    let one = |b: &lathe_ir::Buffer| {
        let extents = b.extents.iter().map(|x| evaluate(x, &at).map(|n| n as f64));
        extents.product::<Option<f64>>()
    };
    func.params.iter().filter(|p| of(p)).filter_map(|p| p.array()).filter_map(|b| one(b)).fold(0.0, f64::max)
}

/// Points of the largest compute.
fn points(all: &[Homomorphism], sizes: &BTreeMap<String, i64>) -> f64 {
    let all = all.iter().filter_map(|h| h.at(sizes).ok());
    all.map(|s| s.extents.iter().map(|n| *n as f64).product()).fold(0.0, f64::max)
}

fn computes(module: &Module, func: &Function) -> Vec<Homomorphism> {
    let labels = crate::auto::labels(func);
    labels.iter().filter_map(|l| Homomorphism::of(module, func, Some(l)).ok()).collect()
}

/// The sizes of a function that are those of windows, by name.
pub fn windows(module: &Module, func: &Function) -> Vec<String> {
    let read = computes(module, func);
    func.sizes.iter().filter(|b| subtracted(&read, func, b.id)).map(|b| b.name.to_string()).collect()
}

/// Sizes all over the range up to the [`examples`], as many small ones as large ones; then some from an eighth of these to
/// four times them, and some up to four times them that multiply to as much, though a few of them may be small. Sizes that
/// are given stay. The points of a Halton sequence (Halton 1960): evenly spread in every dimension, and always the same.
pub fn spread(module: &Module, func: &Function, given: &BTreeMap<String, i64>) -> Vec<BTreeMap<String, i64>> {
    let most = examples(module, func, given);
    let windows = windows(module, func);
    let at = |n: u32, range: &dyn Fn(i64) -> (i64, i64)| {
        point(n, &most, given, &windows, &|name| range(most[name]))
    };
    let (eighth, four) = (|most: i64| (most / 8).max(1), |most: i64| most * 4);
    let product = |sizes: &BTreeMap<String, i64>| sizes.values().map(|v| *v as f64).product::<f64>();
    let least = product(&at(0, &|most| (eighth(most), four(most))));
    let all = (1..=SPREAD).map(|n| at(n, &|most| (1, most)));
    let large = (1..).map(|n| at(n, &|most| (eighth(most), four(most)))).take(BEYOND);
    let thin = (1..).map(|n| at(n, &|most| (1, four(most))));
    let much = thin.take(16 * BEYOND).filter(move |s| product(s) >= least);
    all.chain(usual(large.chain(much.take(BEYOND)), given, &windows)).collect()
}

/// Sizes from the [`examples`] to those that are [`far`].
pub fn spread_far(
    module: &Module,
    func: &Function,
    given: &BTreeMap<String, i64>,
) -> Vec<BTreeMap<String, i64>> {
    let (most, windows) = (examples(module, func, given), windows(module, func));
    let Some(far) = far(module, func, given).into_iter().next() else { return Vec::new() };
    let at = |n| point(n, &far, given, &windows, &|name| (most[name], far[name]));
    usual((1..=FAR_POINTS).map(at), given, &windows).collect()
}

/// A point of the sequence, each size in its range.
fn point(
    n: u32,
    names: &BTreeMap<String, i64>,
    given: &BTreeMap<String, i64>,
    windows: &[String],
    range: &dyn Fn(&str) -> (i64, i64),
) -> BTreeMap<String, i64> {
    const BASES: [u32; 8] = [2, 3, 5, 7, 11, 13, 17, 19];
    let mut bases = BASES.iter().cycle();
    let mut one = |name: &String| {
        let base = *bases.next().unwrap_or(&2);
        let (from, to) = if windows.contains(name) { (1, WINDOWS) } else { range(name) };
        let part = |of: f64| from as f64 * ((to as f64 + 1.0) / from as f64).powf(of);
        (name.clone(), given.get(name).copied().unwrap_or(part(halton(n, base)) as i64))
    };
    names.keys().map(&mut one).collect()
}

/// Every other one of those that take the most time has the sizes that most arrays have.
fn usual<'a>(
    all: impl Iterator<Item = BTreeMap<String, i64>> + 'a,
    given: &'a BTreeMap<String, i64>,
    windows: &'a [String],
) -> impl Iterator<Item = BTreeMap<String, i64>> + 'a {
    let free = |name: &String| !given.contains_key(name) && !windows.contains(name);
    all.enumerate().map(move |(n, s)| match n % 2 {
        0 => s,
        _ => s.into_iter().map(|(name, v)| if free(&name) { (name, power(v)) } else { (name, v) }).collect(),
    })
}

/// The power of two next to a number.
fn power(n: i64) -> i64 {
    1 << (n.max(1) as f64).log2().round() as u32
}

/// The digits of a number behind the point, the last one first: between 0 and 1.
fn halton(mut n: u32, base: u32) -> f64 {
    let (mut out, mut digit) = (0.0, 1.0);
    while n > 0 {
        digit /= f64::from(base);
        out += digit * f64::from(n % base);
        n /= base;
    }
    out
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
