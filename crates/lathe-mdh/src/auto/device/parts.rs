//! Long sums with few results: blocks share the terms of a sum, too. Every part of it has results of its own in global
//! memory, and a second kernel adds these up, always in the same order.

use super::shape::{Shape, Steps, together};
use crate::lower::steps::word;
use lathe_ir::names::{self, Role};

/// Threads of a block that adds up.
const THREADS: u64 = 128;
/// Parts that a thread adds up without a loop.
const UNROLLED: u64 = 32;
/// Results that are enough for threads which have four neighbours each.
const MANY: u64 = 1 << 16;

/// Terms of all sums that are worth a part.
const LEAST: u64 = 64;

/// How many parts the sum over `k` has where there are `blocks` of results: so many that there are up to `enough` blocks,
/// each with the same number of terms, a multiple of `step`.
pub fn count(s: &Shape, k: usize, blocks: u64, enough: u64, step: u64) -> u64 {
    let n = s.extent(k);
    let terms: u64 = s.dims.iter().filter(|d| d.reduced).map(|d| d.extent).product();
    let fits = |p: &u64| n.is_multiple_of(p * step) && terms / p >= LEAST;
    (1..=enough / blocks.max(1)).rev().find(fits).unwrap_or(1)
}

/// What a compute is once its sum has parts: the same with another array of results, whose first dimension is that of the
/// parts, and fewer terms.
pub struct Parted {
    pub shape: Shape,
    /// The label of the first values of the results.
    pub first: String,
    /// The results' array, and how many dimensions it has before those of the compute.
    pub out: String,
    pub before: usize,
}

impl Parted {
    /// The path of a loop. The loops of results have the names of the array with the parts.
    pub fn dim(&self, d: usize) -> String {
        let at = self.shape.output.over.iter().position(|o| *o == Some(d));
        match at {
            Some(p) if self.before > 0 => names::dimension(&self.first, p + 1),
            _ => self.shape.dim(d),
        }
    }

    /// The loop over the parts.
    pub fn parts(&self) -> Option<String> {
        (self.before > 0).then(|| names::dimension(&self.first, 0))
    }
}

/// Divides the sum over `k` into parts, and writes the kernel that adds them up. The output is plain.
pub fn divide(s: &Shape, k: usize, parts: u64, t: &mut Steps) -> Parted {
    let (l, out) = (&s.label, &s.output.name);
    if parts == 1 {
        return Parted { shape: s.clone(), first: Role::Init.of(l), out: out.clone(), before: 0 };
    }
    let name = &s.dims[k].name;
    t.split(&s.dim(k), s.extent(k) / parts, "parts", name);
    let free: Vec<usize> = s.output.over.iter().copied().flatten().collect();
    let summed = (0..s.dims.len()).filter(|d| s.dims[*d].reduced);
    let order = free.iter().copied().chain(summed).map(|d| s.dim(d));
    t.reorder(&std::iter::once(s.path("parts")).chain(order).collect::<Vec<_>>());
    let private = names::private(out);
    let buffer = format!("{out}.parts");
    let how = [word("space", "global"), word("name", &buffer)];
    t.add("privatize", &[out, &s.path("parts")], how);
    t.add("fuse", &[&names::dimension(&private, 0), &s.path("parts")], []);
    for (p, d) in free.iter().enumerate() {
        t.add("fuse", &[&names::dimension(&private, p + 1), &s.dim(*d)], []);
    }
    add_up(s, &free, parts, t);
    let mut shape = s.clone();
    shape.dims[k].extent /= parts;
    Parted { shape, first: private, out: buffer, before: 1 }
}

fn add_up(s: &Shape, free: &[usize], parts: u64, t: &mut Steps) {
    let (first, sum) = (Role::Init.of(&s.label), Role::Combine.of(&s.label));
    let at = |d: usize| names::around(&first, &s.dims[d].name);
    for (p, d) in free.iter().enumerate() {
        t.add("fuse", &[&at(*d), &names::dimension(&sum, p)], []);
    }
    let terms = Role::Parts.of(&sum);
    let Some((last, outer)) = free.split_last() else { return };
    let results: u64 = free.iter().map(|d| s.extent(*d)).product();
    let vector = if results >= MANY { together(s.output.bytes, s.extent(*last)) } else { 1 };
    let threads = (s.extent(*last) / vector).next_power_of_two().min(THREADS);
    let here = |x: &str| names::around(&first, x);
    t.split(&at(*last), threads * vector, "xb", "xt");
    t.split(&here("xt"), vector, "xt", "xv");
    let mut grid: Vec<String> = outer.iter().map(|d| at(*d)).collect();
    let mut block = Vec::new();
    if let Some(row) = grid.last_mut().filter(|_| threads < THREADS) {
        t.split(row, THREADS / threads, "yb", "yt");
        *row = here("yb");
        block.push(here("yt"));
    }
    grid.push(here("xb"));
    block.push(here("xt"));
    t.reorder(&grid.iter().chain(&block).cloned().chain([here("xv")]).collect::<Vec<_>>());
    t.add("fission", &[&here("xv")], [word("after", &first)]);
    t.reorder(&[terms.clone(), names::around(&sum, "xv")]);
    t.stage(&s.output.name, &here("xt"), "register");
    grid.iter().for_each(|g| t.bind(g, "grid"));
    block.iter().for_each(|b| t.bind(b, "block"));
    if parts <= UNROLLED {
        t.unroll(&terms);
    }
    for x in [here("xv"), names::around(&sum, "xv")] {
        t.unroll(&x);
    }
    t.unroll(&names::dimension(Role::Out.of(names::copy_of(&s.output.name)), free.len() - 1));
}
