//! Sums over the rows of a chain, as the products that derivatives end in: what the computes before made of a block of rows is added up
//! while a cache still has it, so that the array between never is as long as the rows. First values are written before all blocks.

use super::chain::{Chain, HEAVY, shared};
use crate::choose::Setting;
use crate::choose::facts::{Facts, Reach};
use crate::homomorphism::{Homomorphism, Shaped};
use lathe_ir::{Combine, ReduceOp};
use std::collections::BTreeMap;

/// The part of the second cache that results may take: each block reads and writes them again.
const RESULTS: u64 = 4;

/// A chain with such sums at its end, for sizes that are constants: those behind it as far as they are sums; `None` if there are none.
pub fn with(
    mut made: Chain,
    members: &[(&Homomorphism, Shaped)],
    behind: &[(&Homomorphism, Shaped)],
    s: &Setting,
) -> Option<Chain> {
    if !s.exact {
        return None;
    }
    let (batch, threads) = (made.dims[0].len() - 1, s.threads > 1);
    // Blocks on threads would add to the same elements.
    if threads && made.threads >= batch {
        return None;
    }
    let first = members.first()?.0;
    let handed = handed(members, &made.arrays, batch);
    let sums: Vec<_> =
        behind.iter().map_while(|m| sum(first, m, (batch, &handed), s).map(|row| (m, row))).collect();
    let large = |m: &(&Homomorphism, Shaped)| {
        let f = Facts::of(&m.1);
        let reads = |r: &&Reach| r.input.is_some_and(|n| handed.contains_key(m.0.inputs[n].name()));
        f.inputs.iter().filter(reads).any(|r| r.footprint(&f.extents) > s.machine.l2_bytes / 2)
    };
    if !sums.iter().any(|m| large(m.0)) {
        return None;
    }
    for ((h, _), row) in sums {
        let inner = |n: &usize| *n >= batch && *n != row;
        made.labels.push(h.name.clone());
        made.dims.push(h.dims[..batch].iter().chain([&h.dims[row]]).map(|d| d.name.clone()).collect());
        made.sums.push((0..h.dims.len()).filter(inner).map(|n| h.dims[n].name.clone()).collect());
    }
    Some(made)
}

/// The local arrays that a chain writes, and which of their dimensions the rows are.
fn handed<'h>(
    members: &[(&'h Homomorphism, Shaped)],
    arrays: &[String],
    batch: usize,
) -> BTreeMap<&'h str, usize> {
    let mut out = BTreeMap::new();
    for (h, shaped) in members {
        for (o, r) in h.outputs.iter().zip(Facts::of(shaped).outputs) {
            let at = r.subscripts.iter().position(|c| c[batch] != 0);
            out.extend(at.filter(|_| arrays.iter().any(|a| a == o.name())).map(|at| (o.name(), at)));
        }
    }
    out
}

/// Which dimension of a compute is the rows, if it sums over them and its results are small.
fn sum(
    first: &Homomorphism,
    (h, shaped): &(&Homomorphism, Shaped),
    (batch, handed): (usize, &BTreeMap<&str, usize>),
    s: &Setting,
) -> Option<usize> {
    let rows = &first.dims[batch];
    let f = Facts::of(shaped);
    // What the chain made of its rows is read row by row.
    let is_rows_of = |r: &Reach, n: usize| {
        let at = r.input.and_then(|i| handed.get(h.inputs[i].name()));
        at.is_none_or(|at| r.subscripts[*at].iter().enumerate().all(|(d, c)| (*c != 0) == (d == n)))
    };
    let is_row = |n: &usize| {
        let d = &h.dims[*n];
        matches!(d.combine, Combine::Reduce(_))
            && !d.ordered
            && (&d.lo, &d.hi) == (&rows.lo, &rows.hi)
            && f.inputs.iter().all(|r| is_rows_of(r, *n))
    };
    let row = (batch..h.dims.len()).find(is_row)?;
    let elements = |r: &Reach| r.elements(&f.extents) as f64;
    let all: f64 = f.inputs.iter().chain(&f.outputs).map(elements).sum();
    let mut one = f.extents.clone();
    one[..batch].fill(1);
    let results: u64 = f.outputs.iter().map(|r| r.footprint(&one)).sum();
    let fits = h.op == Some(ReduceOp::Sum)
        && shared(first, h) >= batch
        && f.points() <= HEAVY * all
        && results <= s.machine.l2_bytes / RESULTS;
    fits.then_some(row)
}
