//! Chains: adjacent computes over the same rows, producer and consumer. The rows are split into blocks and all computes
//! are run block by block, so that intermediate results stay in a cache and memory is traversed once. Rows may be
//! those of every matrix of a batch (attention: heads and positions).

use super::chain::{Chain, HEAVY, shared};
use super::sums;
use crate::choose::Setting;
use crate::choose::facts::{Facts, Reach};
use crate::homomorphism::{Homomorphism, Shaped};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{ExprKind, Function, Stmt, visit};
use lathe_target::Masks;
use std::collections::BTreeMap;

/// The fewest rows of a block of such a compute.
const FEWEST: u64 = 8;

/// The part of the second cache that a block of rows takes which come from beyond it, where functions of their elements take about as long:
/// what is passed on within the block stays near, and while one block is computed the processor reads ahead to the next. (Softmax, with 2 MB
/// of second cache, rows at a time: of 1024 `f32` 1, 4, 16, 64 take 7.6, 6.4, 5.0, 5.0 ms, 128 take 6.6; with AVX2 10.4, 9.1, 8.0, 9.3. Of
/// 131072 one or two take 0.72 of the time of eight. Layer normalization, where arithmetic takes no longer than the sums' latency, would
/// take 0.93 to 1.47 with few.)
const AHEAD: u64 = 16;
/// Short rows are as fast with any number from here on.
const MOST: u64 = 32;

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
    let locals = locals(func);
    for (run, behind_a_value) in runs(&func.body) {
        let mut n = 0;
        while n < run.len() {
            // With products in it, if their operands allow it; else of what memory alone decides.
            let found = [true, false].into_iter().find_map(|heavy| {
                let mut members: Vec<(&Homomorphism, Shaped)> = Vec::new();
                while let Some(next) = run.get(n + members.len()).and_then(|l| of(l)) {
                    let fits = light(&next.1) || heavy && hands_on_much(&next.1, s);
                    if !fits || members.last().is_some_and(|m| shared(m.0, next.0) == 0) {
                        break;
                    }
                    members.push(next);
                }
                let rest: Vec<_> = run[n + members.len()..].iter().map_while(|l| of(l)).collect();
                let short = || super::short::chain(&members, &locals, s);
                let sums = || sums::with(chain(&members, &locals, s)?, &members, &rest, s);
                let c = match members.len() {
                    0 => None,
                    1 => sums(),
                    _ if behind_a_value => sums(),
                    _ => short().or_else(sums).or_else(|| {
                        let mut c = chain(&members, &locals, s)?;
                        if let Some(rows) = few_rows(&c, &members, s) {
                            c.set_rows(rows);
                        }
                        Some(c)
                    }),
                }?;
                Some((c.labels.len(), c))
            });
            n += found.as_ref().map_or(1, |f| f.0);
            out.extend(found.map(|f| f.1));
        }
    }
    out
}

/// Names of the arrays that a function allocates.
fn locals(func: &Function) -> Vec<String> {
    let mut out = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        out.extend(s.allocated().map(|b| b.name.to_string()));
        true
    });
    out
}

/// Labels of adjacent computes, and whether they are where a named value is known.
fn runs(body: &Stmt) -> Vec<(Vec<String>, bool)> {
    let mut out = vec![(Vec::new(), false)];
    fn walk(s: &Stmt, behind: bool, out: &mut Vec<(Vec<String>, bool)>) {
        if let (Some(c), Some(last)) = (s.as_compute(), out.last_mut()) {
            last.0.push(c.label.to_string());
        } else if s.as_seq().is_some() || s.as_alloc().is_some() {
            s.children().for_each(|s| walk(s, behind, out));
        } else {
            let body = s.as_let().map(|l| l.2);
            out.push((Vec::new(), behind || body.is_some()));
            body.into_iter().for_each(|s| walk(s, true, out));
        }
    }
    walk(body, false, &mut out);
    out.retain(|r| r.0.len() > 1);
    out
}

/// Little work per element: memory-bound.
fn light(h: &Shaped) -> bool {
    let f = Facts::of(h);
    let elements = |r: &Reach| r.elements(&f.extents) as f64;
    let all: f64 = f.inputs.iter().chain(&f.outputs).map(elements).sum();
    f.reduced.len() < 4 && f.points() <= HEAVY * all
}

/// A product that reads or writes more than a cache would keep.
fn hands_on_much(h: &Shaped, s: &Setting) -> bool {
    let f = Facts::of(h);
    let much = |r: &Reach| r.footprint(&f.extents) > 8 * s.machine.l2_bytes;
    s.exact && f.reduced.len() < 5 && f.inputs.iter().chain(&f.outputs).any(much)
}

/// Bytes of one row of all arrays that have rows, once each, where `depth` dimensions are fixed; and of what all
/// rows share.
fn bytes(members: &[(&Homomorphism, Shaped)], depth: usize) -> (u64, u64) {
    bytes_of(members, depth, &|_| true)
}

/// The same of the arrays of some names.
fn bytes_of(members: &[(&Homomorphism, Shaped)], depth: usize, counts: &dyn Fn(&str) -> bool) -> (u64, u64) {
    let (mut own, mut common) = (BTreeMap::<&str, u64>::new(), BTreeMap::<&str, u64>::new());
    for (h, shaped) in members {
        let f = Facts::of(shaped);
        let mut row = f.extents.clone();
        row[..depth].fill(1);
        for r in f.inputs.iter().chain(&f.outputs) {
            let name = r.input.map_or_else(|| h.outputs[0].name(), |n| h.inputs[n].name());
            if !counts(name) {
                continue;
            }
            let all = if r.depends(depth - 1) { &mut own } else { &mut common };
            let here = all.entry(name).or_default();
            *here = (*here).max(r.footprint(&row));
        }
    }
    (own.values().sum(), common.values().sum())
}

/// How many rows at a time are enough where arrays come from beyond the second cache and functions of their elements take about as
/// long: the block's bytes are few. Rows of any length end in partial vectors, which are many then, and slow without masks.
fn few_rows(c: &Chain, members: &[(&Homomorphism, Shaped)], s: &Setting) -> Option<u64> {
    // What one compute passes to the next stays in a cache.
    let (own, _) = bytes_of(members, c.dims[0].len(), &|name| !c.arrays.iter().any(|a| a == name));
    let batches = members[0].1.extents[..c.dims[0].len() - 1].iter().product::<u64>();
    let all = own.saturating_mul(c.all).saturating_mul(batches);
    let rows = (s.machine.l2_bytes / AHEAD / own.max(1)).clamp(1, MOST);
    // Full blocks, if some are not much smaller.
    let full = (rows / 2..=rows).rev().find(|r| *r > 0 && c.all.is_multiple_of(*r));
    let mut functions = false;
    members.iter().flat_map(|m| &m.0.values).for_each(|v| {
        visit::walk_expr(v, &mut |e| {
            functions |= matches!(e.kind(), ExprKind::Math(f, _) if !f.is_exact());
        });
    });
    let memory = members.iter().all(|m| light(&m.1)) && all > 2 * s.machine.l2_bytes;
    let ends = s.exact || s.machine.masks == Masks::Cheap;
    (functions && memory && ends && rows < c.rows).then_some(full.unwrap_or(rows))
}

/// Bytes that are read again in every iteration of the loops around the rows, where `depth` dimensions are shared.
fn again(members: &[(&Homomorphism, Shaped)], depth: usize) -> u64 {
    let of = |h: &Shaped| -> u64 {
        let f = Facts::of(h);
        let mut one = f.extents.clone();
        one[..depth - 1].fill(1);
        let stays = |r: &&Reach| (0..depth - 1).any(|d| !r.depends(d));
        f.inputs.iter().filter(stays).map(|r| r.footprint(&one)).sum()
    };
    members.iter().map(|m| of(&m.1)).max().unwrap_or(0)
}

fn chain(members: &[(&Homomorphism, Shaped)], locals: &[String], s: &Setting) -> Option<Chain> {
    let heavy = members.iter().any(|m| !light(&m.1));
    let one = || members.first().map(|m| shared(m.0, m.0));
    let most = members.windows(2).map(|w| shared(w[0].0, w[1].0)).min().or_else(one)?;
    let l2 = s.machine.l2_bytes;
    let fits = |depth: usize| {
        let (row, common) = bytes(members, depth);
        // Products read what their rows share again and again.
        let room = if heavy { (l2 * 3 / 4).checked_sub(common)? } else { l2 / 2 };
        Some(room / row.max(1))
    };
    // As few loops around as leave some rows for a block; a matrix that all of them share is not a batch.
    let batch = |depth: usize| !heavy || again(members, depth) <= l2 * 3 / 4;
    let depth =
        (1..=most).find(|d| fits(*d) >= Some(FEWEST) && batch(*d)).or((!heavy && most > 0).then_some(1))?;
    let extents = &members.first()?.1.extents;
    let n = extents[depth - 1];
    // Threads take the outermost loop that has enough iterations.
    let threads = extents[..depth].iter().position(|n| *n >= 4 * s.threads).unwrap_or(depth - 1);
    let enough = if threads + 1 == depth { n.div_ceil(4 * s.threads) } else { n };
    let rows = fits(depth)?.clamp(1, enough.max(1)).min(256);
    // Full blocks, if that does not make them much smaller; else whole vectors of rows.
    let whole = (rows / 2 + 1..=rows).rev().find(|r| n.is_multiple_of(*r));
    let rows = whole.unwrap_or(if rows >= 8 { rows / 8 * 8 } else { rows });
    if n < 2 || heavy && rows < FEWEST {
        return None;
    }
    let named = |h: &Homomorphism| h.dims[..depth].iter().map(|d| d.name.clone()).collect();
    let made = members.iter().flat_map(|m| &m.0.outputs).map(|o| o.name().to_string());
    Some(Chain {
        labels: members.iter().map(|m| m.0.name.clone()).collect(),
        dims: members.iter().map(|m| named(m.0)).collect(),
        rows,
        all: n,
        blocks: n.div_ceil(rows),
        divides: n.is_multiple_of(rows),
        arrays: made.filter(|a| locals.contains(a)).collect(),
        threads,
        terms: Vec::new(),
        lanes: None,
        sums: Vec::new(),
    })
}
