//! A chain of computes over the same rows, and the steps that run them block by block.

use crate::homomorphism::{Homomorphism, Shaped};
use crate::lower::Inside;
use crate::lower::steps::{attempt, call, int, name, named, with, word};
use lathe_ir::Combine;
use lathe_ir::names::{self, Role};
use lathe_strategy::{Argument, Strategy};

/// Operations per element from which a compute rather has a nest of its own.
pub(super) const HEAVY: f64 = 64.0;

/// Fused computes.
pub struct Chain {
    pub labels: Vec<String>,
    /// Per compute, the names of the dimensions that all share: those of the batch, and the rows last.
    pub(super) dims: Vec<Vec<String>>,
    /// Rows that are processed at a time.
    pub rows: u64,
    /// Rows in all, and how many blocks that makes.
    pub(super) all: u64,
    pub(super) blocks: u64,
    /// Whether blocks are full for sure.
    pub divides: bool,
    /// Local arrays that one compute writes and the next one reads.
    pub(super) arrays: Vec<String>,
    /// Which of the shared loops threads take.
    pub(super) threads: usize,
    /// The terms of a sum that are written out, and how many lanes take rows: blocks are in registers.
    pub(super) terms: Vec<String>,
    pub(super) lanes: Option<u64>,
    /// Of the last computes, which sum over the rows: the loops inside of those over blocks, which are around the sum's own.
    pub(super) sums: Vec<Vec<String>>,
}

impl Chain {
    /// The shared loop of a compute at a depth, once the rows are cut.
    fn shared(&self, compute: usize, depth: usize) -> String {
        let all = &self.dims[compute];
        let dim = &all[depth];
        let l = if depth + 1 == all.len() { Role::Shared.of(dim) } else { dim.clone() };
        names::around(&self.labels[compute], l)
    }

    /// Other numbers of rows that a search may try.
    pub fn choices(&self) -> Vec<u64> {
        if let Some(w) = self.lanes {
            return [1, 2, 4, 8].map(|n| n * w).into();
        }
        let powers = (0..10).map(|n| 1 << n);
        powers.chain([self.rows / 2, 2 * self.rows]).filter(|r| (1..=self.all / 2).contains(r)).collect()
    }

    /// With this many rows at a time.
    pub fn set_rows(&mut self, rows: u64) {
        self.rows = rows.clamp(1, self.all.max(1));
        self.blocks = self.all.div_ceil(self.rows);
        self.divides = self.all.is_multiple_of(self.rows);
    }

    /// Cuts the rows into blocks, fuses the loops over blocks, and contracts intermediate arrays to one block.
    pub fn begin(&self) -> Vec<Strategy> {
        let mut out = Vec::new();
        for (l, dims) in self.labels.iter().zip(&self.dims) {
            let Some(dim) = dims.last() else { continue };
            let args = vec![
                name(&names::around(l, dim)),
                int(self.rows),
                name(&Role::Shared.of(dim)),
                name(&Role::Rows.of(dim)),
            ];
            out.push(call("split", args));
        }
        let first = self.labels.len() - self.sums.len();
        for (n, inner) in (first..).zip(&self.sums) {
            // First values are what is left outside.
            let blocks = (0..self.dims[n].len()).map(|depth| self.shared(n, depth));
            let inner = inner.iter().map(|d| names::around(&self.labels[n], d));
            let order = blocks.chain(inner).map(|l| name(&l)).collect();
            out.push(attempt(call("reorder", order)));
        }
        for n in 1..self.labels.len() {
            for depth in 0..self.dims[n].len() {
                let both = vec![name(&self.shared(n - 1, depth)), name(&self.shared(n, depth))];
                out.push(attempt(call("fuse", both)));
            }
        }
        let at = self.shared(0, self.dims[0].len() - 1);
        for a in &self.arrays {
            let mut args = vec![Argument::positional(name(a)), named("at", name(&at))];
            args.extend(self.lanes.map(|_| word("space", "register")));
            out.push(attempt(with("localize", args)));
        }
        if let Some(lanes) = self.lanes {
            out.push(attempt(call("separate", vec![name(&at)])));
            out.extend(self.in_registers(lanes));
        }
        out
    }

    /// Blocks are distributed over threads.
    pub fn end(&self) -> Vec<Strategy> {
        let loops = (0..self.labels.len()).map(|n| self.shared(n, self.threads));
        loops.map(|l| attempt(call("parallel", vec![name(&l)]))).collect()
    }

    /// Where the loops of a compute stand; its homomorphism becomes that of one block.
    pub fn inside(&self, label: &str, h: &mut Shaped) -> Inside {
        let Some(n) = self.labels.iter().position(|l| l == label) else { return Inside::default() };
        let Some((rows, batch)) = self.dims[n].split_last() else { return Inside::default() };
        // A sum has its rows further in.
        let at = h.h.dims.iter().position(|d| d.name == *rows).unwrap_or(batch.len());
        // What the last one writes, and has not read, is not needed for long.
        let read = |name: &str| h.h.inputs.iter().any(|o| o.name() == name);
        let is_last = self.sums.is_empty() && n + 1 == self.labels.len();
        if is_last && !h.h.outputs.iter().any(|o| read(o.name())) {
            h.written = h.extents[..at].iter().fold(self.blocks, |n, e| n.saturating_mul(*e));
        }
        h.extents[..batch.len()].fill(1);
        h.extents[at] = h.extents[at].min(self.rows);
        h.block_of = Some((at, self.blocks));
        Inside {
            loops: [(rows.clone(), Role::Rows.of(rows))].into(),
            around: batch.iter().cloned().collect(),
            shared: Some((at, Role::Shared.of(rows))),
        }
    }

    /// The loops of a block: lanes innermost, terms written out.
    fn in_registers(&self, lanes: u64) -> Vec<Strategy> {
        let mut out = Vec::new();
        let rows = |n: usize| self.dims[n].last().map(|d| Role::Rows.of(d)).unwrap_or_default();
        let vectors = |label: &str, rows: &str| {
            let l = names::around(label, rows);
            let steps =
                [("vectorize", vec![name(&l), int(lanes)]), ("unroll", vec![name(&Role::Outer.of(&l))])];
            steps.map(|(step, args)| attempt(call(step, args)))
        };
        let at = |l: &String| name(&names::around(&self.labels[0], l));
        let order: Vec<_> = self.terms.iter().chain([&rows(0)]).map(at).collect();
        out.push(attempt(call("reorder", order)));
        out.extend(vectors(&self.labels[0], &rows(0)));
        out.extend(vectors(&Role::Init.of(&self.labels[0]), &rows(0)));
        out.extend(vectors(&self.labels[1], &rows(1)));
        out.extend(self.terms.iter().map(|t| attempt(call("unroll", vec![at(t)]))));
        out
    }
}

/// How many leading dimensions two computes share: both run through the same indices, and keep their results apart.
/// That the later one reads what its own row wrote is for `fuse` to check.
pub fn shared(a: &Homomorphism, b: &Homomorphism) -> usize {
    let same = |x: usize| {
        let (p, q) = (&a.dims[x], &b.dims[x]);
        let free = |c: &Combine| matches!(c, Combine::Concat);
        free(&p.combine) && free(&q.combine) && p.lo == q.lo && p.hi == q.hi
    };
    (0..a.dims.len().min(b.dims.len())).take_while(|x| same(*x)).count()
}
