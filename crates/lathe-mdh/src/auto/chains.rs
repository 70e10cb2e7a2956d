//! Chains: computes that follow one another and run over the same rows. The rows are done in blocks, all computes
//! for one block after the other, so that what they hand on stays in a cache; memory is passed over once.

use crate::choose::Setting;
use crate::choose::facts::{Facts, Reach};
use crate::homomorphism::{Homomorphism, Shaped};
use crate::lower::steps::{attempt, call, int, name};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Combine, Function, Stmt, StmtKind};
use lathe_strategy::Strategy;
use std::collections::BTreeMap;

/// Computes that are done together.
pub struct Chain {
    pub labels: Vec<String>,
    /// Per compute, the dimension of the rows and its name.
    dims: Vec<(usize, String)>,
    /// Rows that are done at a time.
    pub rows: u64,
    /// Whether blocks are full for sure.
    pub divides: bool,
}

/// Operations per element from which a compute rather has a nest of its own.
const HEAVY: f64 = 64.0;

impl Chain {
    /// Cuts the rows and makes one loop of all loops over blocks.
    pub fn begin(&self) -> Vec<Strategy> {
        let block = |n: usize| format!("{}.{}.f", self.labels[n], self.dims[n].1);
        let mut out = Vec::new();
        for (l, (_, dim)) in self.labels.iter().zip(&self.dims) {
            let args = vec![
                name(&format!("{l}.{dim}")),
                int(self.rows),
                name(&format!("{dim}.f")),
                name(&format!("{dim}.b")),
            ];
            out.push(call("split", args));
        }
        for n in 1..self.labels.len() {
            out.push(attempt(call("fuse", vec![name(&block(n - 1)), name(&block(n))])));
        }
        out
    }

    /// Blocks are taken by threads.
    pub fn end(&self) -> Vec<Strategy> {
        let all = self.labels.iter().zip(&self.dims);
        all.map(|(l, (_, dim))| attempt(call("parallel", vec![name(&format!("{l}.{dim}.f"))]))).collect()
    }

    /// The homomorphism of one block; its dimension of rows.
    pub fn shrink(&self, label: &str, h: &mut Shaped) -> Option<usize> {
        let n = self.labels.iter().position(|l| l == label)?;
        let dim = self.dims[n].0;
        h.extents[dim] = h.extents[dim].min(self.rows);
        Some(dim)
    }

    /// The loop over the rows of a block.
    pub fn inner(&self, label: &str) -> String {
        let n = self.labels.iter().position(|l| l == label).unwrap_or(0);
        format!("{}.b", self.dims[n].1)
    }
}

/// All chains of a function: neighbours in one sequence of statements.
pub fn find(
    func: &Function,
    labels: &[String],
    read: &[Result<Homomorphism, Diagnostic>],
    sizes: &BTreeMap<String, i64>,
    s: &Setting,
) -> Vec<Chain> {
    let mut out = Vec::new();
    let of = |label: &str| {
        let h = read[labels.iter().position(|l| l == label)?].as_ref().ok()?;
        Some((h, h.at(sizes).ok()?))
    };
    for run in runs(&func.body) {
        let mut n = 0;
        while n < run.len() {
            let mut members: Vec<(&Homomorphism, Shaped)> = Vec::new();
            while let Some(next) = run.get(n).and_then(|l| of(l)) {
                if !light(&next.1) || members.last().is_some_and(|m| !continues(m.0, next.0)) {
                    break;
                }
                members.push(next);
                n += 1;
            }
            if members.len() < 2 {
                n += usize::from(members.is_empty());
                continue;
            }
            out.extend(chain(&members, s));
        }
    }
    out
}

/// Labels of computes that stand next to one another.
fn runs(body: &Stmt) -> Vec<Vec<String>> {
    let mut out = vec![Vec::new()];
    fn walk(s: &Stmt, out: &mut Vec<Vec<String>>) {
        match s.kind() {
            StmtKind::Compute(c) => {
                if let Some(last) = out.last_mut() {
                    last.push(c.label.to_string());
                }
            }
            StmtKind::Seq(all) => all.iter().for_each(|s| walk(s, out)),
            StmtKind::Alloc { body, .. } => walk(body, out),
            _ => out.push(Vec::new()),
        }
    }
    walk(body, &mut out);
    out.retain(|r| r.len() > 1);
    out
}

/// The dimension of rows: the first one, if its results are kept apart.
fn rows(h: &Homomorphism) -> Option<usize> {
    let free = |d: usize| matches!(h.dims[d].combine, Combine::Concat);
    (!h.dims.is_empty() && free(0)).then_some(0)
}

/// Both run over the same rows, and row by row: the later one reads of what the earlier one writes its own row only.
fn continues(a: &Homomorphism, b: &Homomorphism) -> bool {
    let (Some(x), Some(y)) = (rows(a), rows(b)) else { return false };
    let (p, q) = (&a.dims[x], &b.dims[y]);
    p.lo == q.lo && p.hi == q.hi
}

/// Little work per element: memory decides.
fn light(h: &Shaped) -> bool {
    let f = Facts::of(h);
    let elements = |r: &Reach| r.elements(&f.extents) as f64;
    let all: f64 = f.inputs.iter().chain(&f.outputs).map(elements).sum();
    f.reduced.len() < 4 && f.points() <= HEAVY * all && rows(h.h).is_some()
}

fn chain(members: &[(&Homomorphism, Shaped)], s: &Setting) -> Option<Chain> {
    let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
    for (h, shaped) in members {
        let f = Facts::of(shaped);
        let dim = rows(h)?;
        let mut row = f.extents.clone();
        row[dim] = 1;
        for r in f.inputs.iter().chain(&f.outputs).filter(|r| r.depends(dim)) {
            let name = match r.input {
                Some(n) => h.inputs[n].name(),
                None => h.outputs[0].name(),
            };
            let here = bytes.entry(name.to_string()).or_default();
            *here = (*here).max(r.footprint(&row));
        }
    }
    let row: u64 = bytes.values().sum();
    let n = members.first()?.1.extents.first().copied()?;
    let most = n.div_ceil(4 * s.threads).max(1);
    let rows = (s.machine.l2_bytes / 2 / row.max(1)).clamp(1, most.max(1)).min(256);
    let rows = if rows >= 8 { rows / 8 * 8 } else { rows };
    if n < 2 {
        return None;
    }
    Some(Chain {
        labels: members.iter().map(|m| m.0.name.clone()).collect(),
        dims: members.iter().map(|m| rows_named(m.0)).collect::<Option<_>>()?,
        rows,
        divides: n.is_multiple_of(rows),
    })
}

fn rows_named(h: &Homomorphism) -> Option<(usize, String)> {
    rows(h).map(|d| (d, h.dims[d].name.clone()))
}
