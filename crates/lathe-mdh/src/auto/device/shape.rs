//! What the templates use of a compute: its loops, and the strides of arrays along them.

use crate::lower::steps::{call, int, name, unroll, with, word};
use lathe_ir::names::Role;
use lathe_strategy::{Argument, Strategy};

/// A loop of a compute.
#[derive(Clone, Debug)]
pub struct Dim {
    pub name: String,
    pub extent: u64,
    pub reduced: bool,
}

/// An array that a compute reads or writes.
#[derive(Clone, Debug)]
pub struct Array {
    pub name: String,
    /// Bytes of an element.
    pub bytes: u64,
    /// Per dimension of the array, the loop that alone runs through it, one by one; neighbours of a stencil count as one.
    pub over: Vec<Option<usize>>,
    /// Per dimension of the array, the coefficients of the loops.
    pub subscripts: Vec<Vec<i64>>,
    /// Per loop, whether several of its neighbours are read.
    pub spread: Vec<bool>,
    /// It is local to the function.
    pub local: bool,
}

impl Array {
    /// The loop along which elements are contiguous.
    pub fn along(&self) -> Option<usize> {
        self.over.last().copied().flatten()
    }

    pub fn depends(&self, dim: usize) -> bool {
        self.over.contains(&Some(dim))
    }

    /// Whether a loop takes part in some dimension.
    pub fn uses(&self, dim: usize) -> bool {
        self.subscripts.iter().any(|c| c[dim] != 0)
    }

    /// Elements along a loop lie one by one in one of the dimensions, which has nothing else.
    pub fn plain_in(&self, dim: usize) -> bool {
        self.depends(dim) && !self.spread[dim] && self.subscripts.iter().filter(|c| c[dim] != 0).count() == 1
    }

    /// Every dimension has a loop of its own.
    pub fn plain(&self) -> bool {
        self.over.iter().all(Option::is_some) && !self.spread.contains(&true)
    }
}

/// A compute of constant sizes.
#[derive(Clone, Debug)]
pub struct Shape {
    pub label: String,
    /// Outermost first, as they are written.
    pub dims: Vec<Dim>,
    pub output: Array,
    pub inputs: Vec<Array>,
    /// Partial results may start from the identity, and be combined in any order.
    pub splits: bool,
    /// Results depend on those before along a loop.
    pub scans: bool,
    /// A sum of products of floats.
    pub products: bool,
    /// Some elements are structs.
    pub structs: bool,
    /// Some subscripts are data; `subscripts` and `over` have none in their place.
    pub gathers: bool,
}

impl Shape {
    pub fn reduces(&self) -> bool {
        self.dims.iter().any(|d| d.reduced)
    }

    /// Elements are scalars, and subscripts affine.
    pub fn usual(&self) -> bool {
        !self.structs && !self.gathers
    }

    pub fn extent(&self, dim: usize) -> u64 {
        self.dims[dim].extent
    }

    /// The name of a loop, with the label that tells it from others.
    pub fn path(&self, name: &str) -> String {
        format!("{}.{name}", self.label)
    }

    /// The path of a loop as it is written.
    pub fn dim(&self, dim: usize) -> String {
        self.path(&self.dims[dim].name)
    }
}

/// Steps, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Steps(Vec<Strategy>);

impl Steps {
    /// A rule with loops, statements or buffers, and named arguments.
    pub fn add(&mut self, rule: &str, of: &[&str], named: impl IntoIterator<Item = Argument>) {
        let of = of.iter().map(|n| Argument::positional(name(n)));
        self.0.push(with(rule, of.chain(named).collect()));
    }

    /// Blocks of `by` iterations.
    pub fn split(&mut self, path: &str, by: u64, outer: &str, inner: &str) {
        let by = Argument::positional(int(by));
        self.add("split", &[path], [by, word("outer", outer), word("inner", inner)]);
    }

    pub fn bind(&mut self, path: &str, to: &str) {
        self.add("bind", &[path, to], []);
    }

    pub fn unroll(&mut self, path: &str) {
        self.0.push(unroll(path));
    }

    pub fn reorder(&mut self, paths: &[String]) {
        if paths.len() > 1 {
            self.0.push(call("reorder", paths.iter().map(|p| name(p)).collect()));
        }
    }

    /// What a loop touches of a buffer gets storage of its own.
    pub fn stage(&mut self, buffer: &str, at: &str, space: &str) {
        self.add("stage", &[buffer], [word("at", at), word("space", space)]);
    }

    /// The loops of the tree reduction of `parts` partial results of a label, run by threads.
    pub fn tree(&mut self, label: &str, parts: u64) {
        for round in 0..parts.next_power_of_two().ilog2() {
            self.bind(&Role::Parts.of(Role::Halve.nth(label, round as usize)), "block");
        }
    }

    pub fn push(&mut self, step: Strategy) {
        self.0.push(step);
    }

    pub fn append(&mut self, steps: Steps) {
        self.0.extend(steps.0);
    }

    pub fn strategy(self) -> Strategy {
        Strategy::Seq(self.0)
    }
}

/// The largest of some divisors of a number.
pub fn divisor(n: u64, of: &[u64]) -> u64 {
    of.iter().copied().find(|d| n.is_multiple_of(*d)).unwrap_or(1)
}

/// How many threads share that many iterations evenly: a usual number, or else the largest that does; none if that is
/// less than a warp.
pub fn threads(n: u64, usual: &[u64]) -> Option<u64> {
    let most = usual.iter().copied().max()?;
    let even = usual.iter().copied().find(|t| n.is_multiple_of(*t));
    even.or_else(|| (32..=most).rev().find(|t| n.is_multiple_of(*t)))
}

/// Elements of that size that one load or store of a thread takes.
pub fn together(bytes: u64, n: u64) -> u64 {
    divisor(
        n,
        match bytes {
            0..=2 => &[8, 4, 2],
            3..=4 => &[4, 2],
            5..=8 => &[2],
            _ => &[],
        },
    )
}
