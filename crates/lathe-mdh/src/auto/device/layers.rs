//! Chains of small layers over the same rows (perceptrons): a block has a row, keeps what is between the layers in shared memory,
//! and reads all weights. That is worth it while weights come from the caches faster than kernels can be launched.

use super::Form;
use super::shape::{Shape, Steps};
use crate::lower::steps::word;
use lathe_ir::names::{self, Role};
use std::collections::BTreeSet;

/// Results that threads share at a time, and threads of each.
const OUTPUTS: u64 = 32;
const LANES: u64 = 32;
/// The longest row.
const ROW: u64 = 1024;
/// Terms that a thread adds up at a time.
const VECTOR: u64 = 4;
const UNROLLED: u64 = 32;
/// Bytes from the second cache in the time that a kernel more takes.
const LAUNCH: u64 = 8 << 20;

/// The chains of layers, each one compute after the other; `others`: whether anything but these computes uses an array.
pub fn forms(all: &[Option<Shape>], others: &dyn Fn(&str, &[&Shape]) -> bool) -> Vec<Form> {
    let (mut out, mut n) = (Vec::new(), 0);
    while n < all.len() {
        let rows = all[n].as_ref().and_then(|s| s.dims.first()).map(|d| d.extent);
        let fits = |s: &&Shape| s.dims.first().map(|d| d.extent) == rows && layer(s);
        let chain: Vec<&Shape> = all[n..].iter().map_while(|s| s.as_ref().filter(fits)).collect();
        let found = form(&chain, others);
        n += found.as_ref().map_or(1, |_| chain.len());
        out.extend(found);
    }
    out
}

/// `[row, output; term]`, or `[row, output]`.
fn layer(s: &Shape) -> bool {
    let [b, o, rest @ ..] = &s.dims[..] else { return false };
    let reduces = rest.len() == 1 && rest[0].reduced && s.splits && rest[0].extent <= ROW;
    let arrays = s.inputs.iter().chain([&s.output]);
    let small = |a: &super::shape::Array| a.plain() && a.bytes == 4 && !a.over.is_empty();
    !s.scans
        && !b.reduced
        && !o.reduced
        && (rest.is_empty() || reduces)
        && o.extent <= ROW
        && s.output.over == [Some(0), Some(1)]
        && arrays.clone().all(|a| small(a) || a.over.is_empty())
        && s.inputs.iter().all(|a| !a.uses(0) || a.over.first() == Some(&Some(0)) && a.over.len() == 2)
}

fn form(chain: &[&Shape], others: &dyn Fn(&str, &[&Shape]) -> bool) -> Option<Form> {
    let sums: Vec<&Shape> = chain.iter().copied().filter(|s| s.reduces()).collect();
    let first = *chain.first()?;
    let rows = first.extent(0);
    // What all rows read.
    let weights: u64 = chain
        .iter()
        .flat_map(|s| s.inputs.iter().filter(|a| !a.uses(0)).map(move |a| (s, a)))
        .map(|(s, a)| a.over.iter().flatten().map(|d| s.extent(*d)).product::<u64>() * a.bytes)
        .sum();
    if sums.len() < 2 || weights.saturating_mul(rows) > LAUNCH * (chain.len() as u64 - 1) {
        return None;
    }
    let mut t = Steps::default();
    for s in sums.iter().filter(|s| s.products) {
        t.add("fma", &[&s.label], []);
    }
    for s in &chain[1..] {
        t.add("fuse", &[&first.dim(0), &s.dim(0)], []);
    }
    let at = first.dim(0);
    t.bind(&at, "grid");
    let made: BTreeSet<&str> = chain.iter().map(|s| s.output.name.as_str()).collect();
    let own = |n: &str| chain.iter().any(|s| s.output.name == n && s.output.local) && !others(n, chain);
    for a in &made {
        match own(a) {
            true => t.add("localize", &[a], [word("at", &at), word("space", "shared")]),
            false => t.stage(a, &at, "shared"),
        }
    }
    let read: BTreeSet<&str> = chain
        .iter()
        .flat_map(|s| &s.inputs)
        .filter(|a| a.uses(0) && !made.contains(a.name.as_str()))
        .map(|a| a.name.as_str())
        .collect();
    for a in &read {
        t.stage(a, &at, "shared");
        t.bind(&names::dimension(names::copy_of(a), 1), "block");
    }
    for s in &sums {
        sum(s, own(&s.output.name), &mut t);
    }
    for s in chain.iter().filter(|s| !s.reduces()) {
        t.bind(&s.dim(1), "block");
    }
    for a in made.iter().filter(|a| !own(a)) {
        t.bind(&names::dimension(Role::Out.of(names::copy_of(a)), 1), "block");
    }
    Some(Form { labels: chain.iter().map(|s| s.label.clone()).collect(), strategy: t.strategy() })
}

/// The largest divisor of a number up to another one.
fn share(n: u64, most: u64) -> u64 {
    (1..=most.min(n)).rev().find(|d| n.is_multiple_of(*d)).unwrap_or(1)
}

/// A few threads have a result, and combine what they have.
fn sum(s: &Shape, local: bool, t: &mut Steps) {
    let (n, k) = (s.extent(1), s.extent(2));
    let (outputs, lanes) = (share(n, OUTPUTS), share(k, LANES));
    let out = if local { s.output.name.clone() } else { Role::Staged.of(&s.output.name) };
    let mut own = s.dim(1);
    if outputs < n {
        t.split(&own, outputs, "ro", "to");
        t.reorder(&["to", "ro"].map(|x| s.path(x)));
        own = s.path("to");
    }
    let each = k / lanes;
    let mut terms = s.dim(2);
    if each > 1 {
        // Neighbours first, as far as a load takes them.
        let vector = share(each, VECTOR);
        t.split(&terms, lanes * vector, "rk", "tk");
        t.split(&s.path("tk"), vector, "tk", "vk");
        t.reorder(&["tk", "rk", "vk"].map(|x| s.path(x)));
        terms = s.path("tk");
    }
    let how = [word("at", &terms), word("space", "shared"), word("combine", "tree")];
    t.add("privatize", &[&out, &terms], how);
    if each > 1 {
        t.stage(&Role::Parts.of(&out), &terms, "register");
        if each <= UNROLLED {
            ["rk", "vk"].iter().for_each(|x| t.unroll(&s.path(x)));
        }
    }
    t.bind(&own, "block");
    t.bind(&terms, "block");
    t.bind(&names::dimension(names::private(&out), 0), "block");
    t.tree(&s.label, lanes);
    if outputs < n && n / outputs <= UNROLLED {
        t.unroll(&s.path("ro"));
    }
}
