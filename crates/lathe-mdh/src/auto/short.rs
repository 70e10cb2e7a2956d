//! Sums of a few terms that one formula maps at once, as in a moving average, `sum[k](x[i + k]) / 8`: results stay in
//! registers between the two computes, and terms are written out, so that vectors that several terms read are loaded
//! once.

use super::chain::{Chain, shared};
use crate::choose::Setting;
use crate::choose::facts::{Facts, Reach, work};
use crate::homomorphism::{Homomorphism, Shaped};
use lathe_ir::{Combine, ReduceOp};

/// The most terms that are written out.
const TERMS: u64 = 16;
/// Vectors of full width that hold the results of a block.
const VECTORS: u64 = 4;
/// Cycles of a load within a cache line; of one that crosses lines. Measured on a server core with two loads a cycle.
const WITHIN: f64 = 0.5;
const ACROSS: f64 = 1.5;

/// A chain of this kind; its rows are a block of the last dimension.
pub fn chain(members: &[(&Homomorphism, Shaped)], locals: &[String], s: &Setting) -> Option<Chain> {
    let [(sum, of_sum), (map, of_map)] = members else { return None };
    let (f, g) = (Facts::of(of_sum), Facts::of(of_map));
    let depth = map.dims.len();
    let fixed = |n: usize| sum.dims[n].lo.as_int().is_some() && sum.dims[n].hi.as_int().is_some();
    let terms: u64 = f.extents.get(depth..)?.iter().product();
    let is_sum = shared(sum, map) == depth
        && f.reduced[depth..].iter().all(|r| *r)
        && (depth..sum.dims.len()).all(|n| fixed(n) && !sum.dims[n].ordered)
        && sum.op == Some(ReduceOp::Sum)
        && (2..=TERMS).contains(&terms);
    let made = sum.outputs.first().filter(|_| sum.outputs.len() == 1)?;
    let last = depth.checked_sub(1)?;
    let lines = |r: &Reach| matches!(r.stride[last], 0 | 1) && r.leaves == 1;
    let is_map = map.dims.iter().all(|d| matches!(d.combine, Combine::Concat))
        && locals.iter().any(|l| l == made.name())
        && [&f, &g].iter().all(|f| f.inputs.iter().chain(&f.outputs).all(lines));
    let widest = f.widest.max(g.widest);
    let full = s.machine.vector_bytes / widest.max(1);
    let rows = VECTORS * full;
    if !is_sum || !is_map || full < 2 || of_map.extents[last] < 4 * rows {
        return None;
    }
    // Of a term; the addition is fused, or what it has.
    let operations = sum.values.iter().map(work).sum::<f64>().max(1.0) * terms as f64;
    let adds = |lanes: u64| operations / lanes as f64 / 2.0;
    let cycles = |lanes: u64| loads(&f, last, lanes, rows, s.machine.line_bytes / widest).max(adds(lanes));
    let half = (full / 2).max(2);
    let lanes = if cycles(half) < cycles(full) { half } else { full };
    let n = of_map.extents[last];
    let dims = |h: &Homomorphism| h.dims[..depth].iter().map(|d| d.name.clone()).collect();
    Some(Chain {
        labels: vec![sum.name.clone(), map.name.clone()],
        dims: vec![dims(sum), dims(map)],
        rows,
        all: n,
        blocks: n.div_ceil(rows),
        divides: n.is_multiple_of(rows),
        arrays: vec![made.name().to_string()],
        threads: of_map.extents[..depth].iter().position(|n| *n >= 4 * s.threads).unwrap_or(last),
        terms: sum.dims[depth..].iter().map(|d| d.name.clone()).collect(),
        lanes: Some(lanes),
        sums: Vec::new(),
    })
}

/// Cycles of the loads for a result.
fn loads(f: &Facts, last: usize, lanes: u64, rows: u64, line: u64) -> f64 {
    let vectors = rows / lanes;
    let mut loads = 0.0;
    for r in f.inputs.iter().filter(|r| r.depends(last)) {
        // Terms that read the vectors of a block at another offset, and those that read other vectors.
        let slides = |d: &usize| r.subscripts.iter().any(|c| c[last] != 0 && c[*d] != 0);
        let depends = (0..f.extents.len()).filter(|d| f.reduced[*d] && r.depends(*d));
        let (along, others): (Vec<usize>, Vec<usize>) = depends.partition(slides);
        let shifts = 1 + along.iter().map(|d| f.extents[*d] - 1).sum::<u64>();
        let apart: u64 = others.iter().map(|d| f.extents[*d]).product();
        let each = if shifts <= lanes { vectors * shifts } else { (vectors - 1) * lanes + shifts };
        let across = if shifts > 1 { (lanes - 1) as f64 / line.max(1) as f64 } else { 0.0 };
        loads += (each * apart) as f64 * (ACROSS * across + WITHIN * (1.0 - across));
    }
    loads / rows as f64
}
