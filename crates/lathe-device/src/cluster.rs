//! Clusters: blocks that run at the same time, wait for one another, and see each other's shared memory.
//!
//! Loops of a cluster are thread loops like any other: those of all its blocks are numbered as if they were one large
//! block's. What the loops share lies in the memory of the first block, where all blocks reach it, but for buffers of
//! which every block accesses consecutive elements of one dimension, those that its number selects: of these, every block
//! has its part, and only its threads wait for one another before they meet there.

use crate::phase::{Chain, bounds, each_access, has_threads, is_cluster, is_threads};
use lathe_ir::build::index;
use lathe_ir::lower::resolve;
use lathe_ir::visit::{loads_of, map_accesses, walk};
use lathe_ir::{Access, Binder, BufId, Buffer, Expr, Space, Stmt, StmtKind, VarId, View};
use lathe_poly::{Linear, Ranges};
use std::collections::HashSet;
use std::sync::Arc;

/// How many blocks the clusters of a kernel have: as many as the largest of its loops asks for, if all have constant
/// bounds and that is at most `limit`.
pub fn blocks(kernel: &Stmt, limit: i64) -> Option<i64> {
    let mut most = Some(1);
    walk(kernel, &mut |s, _| {
        if let Some(l) = s.as_loop().filter(|l| is_cluster(&l.exec)) {
            let n = l.hi.as_int().filter(|_| l.lo.as_int() == Some(0) && l.step == 1);
            most = most.zip(n).map(|(a, b)| a.max(b));
        }
        true
    });
    most.filter(|n| (2..=limit).contains(n))
}

/// What every thread runs, with a barrier of the cluster before what its blocks share is first touched, and one at
/// the end: the first block's memory is there while that block runs.
pub fn bracketed(body: Stmt, shared: &[Arc<Buffer>], rank: &Binder) -> Stmt {
    if shared.is_empty() {
        return body;
    }
    let barrier = || Stmt::of(StmtKind::Barrier { of: rank.id, spaces: Vec::new() });
    Stmt::seq([begun(&body, shared, &barrier), barrier()])
}

fn begun(s: &Stmt, shared: &[Arc<Buffer>], barrier: &dyn Fn() -> Stmt) -> Stmt {
    let touches = |s: &Stmt| {
        let mut found = false;
        walk(s, &mut |s, _| {
            let loads = s.evaluated().into_iter().flat_map(loads_of);
            let all = loads.filter_map(|a| a.view.buffer()).collect::<Vec<_>>();
            let touched = s.touches();
            let mut ids = all.into_iter().chain(touched.iter().filter_map(|(t, _)| t.buffer()));
            found |= ids.any(|id| shared.iter().any(|b| b.id == id));
            !found
        });
        found
    };
    if let Some(all) = s.as_seq() {
        let Some(first) = all.iter().position(touches) else { return s.clone() };
        let begin = |(k, c): (usize, &Stmt)| if k == first { begun(c, shared, barrier) } else { c.clone() };
        return Stmt::seq(all.iter().enumerate().map(begin));
    }
    if s.as_alloc().is_some() {
        let inside = s.children().map(|c| begun(c, shared, barrier)).collect();
        return s.with_children(inside);
    }
    if touches(s) { Stmt::seq([barrier(), s.clone()]) } else { s.clone() }
}

/// Whether a nest is one loop over the blocks of the cluster, of each of which one thread runs it.
pub fn is_blocks(nest: &Chain, cluster: Option<&(Binder, i64)>) -> bool {
    let [d] = &nest.dims[..] else { return false };
    let plain = d.lo.as_int() == Some(0) && d.step == 1 && d.exact;
    is_cluster(&d.exec) && plain && cluster.is_some_and(|(_, blocks)| d.most == Some(*blocks))
}

/// The buffers that a statement writes, its own aside.
pub fn written(s: &Stmt) -> HashSet<BufId> {
    let (mut out, mut own) = (HashSet::new(), HashSet::new());
    walk(s, &mut |s, _| {
        own.extend(s.allocated().map(|b| b.id));
        out.extend(s.touches().iter().filter(|(_, mode)| mode.writes()).filter_map(|(t, _)| t.buffer()));
        true
    });
    &out - &own
}

/// Buffers that only serial code writes, which writes nothing else: every block runs that code for itself, on a copy of
/// its own, which its threads read without waiting for another block.
pub fn copied(kernel: &Stmt) -> HashSet<BufId> {
    let mut out = HashSet::new();
    walk(kernel, &mut |s, _| {
        out.extend(s.allocated().filter(|b| b.space == Space::Shared).map(|b| b.id));
        true
    });
    let mut serial = Vec::new();
    units(kernel, &mut serial, &mut out);
    loop {
        let before = out.len();
        for s in &serial {
            let all = written(s);
            if !(all.is_subset(&out) && plain(s)) {
                out.retain(|b| !all.contains(b));
            }
        }
        if out.len() == before {
            return out;
        }
    }
}

/// Serial statements; what threads write is taken from `out`.
fn units(s: &Stmt, serial: &mut Vec<Stmt>, out: &mut HashSet<BufId>) {
    if s.as_loop().is_some_and(|l| is_threads(&l.exec)) {
        let all = written(s);
        out.retain(|b| !all.contains(b));
    } else if has_threads(s) || s.as_seq().is_some() {
        s.children().for_each(|c| units(c, serial, out));
    } else {
        serial.push(s.clone());
    }
}

/// Nothing but loops and stores: running it again changes nothing else.
fn plain(s: &Stmt) -> bool {
    let here = s.as_store().is_some()
        || s.as_reduce().is_some()
        || s.as_loop().is_some()
        || s.as_let().is_some()
        || s.as_if().is_some()
        || s.as_seq().is_some()
        || s.as_alloc().is_some();
    let assumed = s.children().len() == 0 && s.touches().is_empty() && s.own_effects().is_none();
    (here || assumed) && s.children().all(plain)
}

/// A buffer of which every block of a cluster uses one part, along one of its dimensions: that part, and the body with
/// accesses to it.
pub fn own(
    buffer: &Arc<Buffer>,
    body: &Stmt,
    ranges: &Ranges,
    cluster: (i64, i64),
) -> Option<(Arc<Buffer>, Stmt)> {
    let along = |dim| own_along(dim, buffer, body, ranges, cluster);
    (0..buffer.extents.len()).filter(|_| buffer.layout.is_row_major()).find_map(along)
}

fn own_along(
    dim: usize,
    buffer: &Arc<Buffer>,
    body: &Stmt,
    ranges: &Ranges,
    (blocks, threads): (i64, i64),
) -> Option<(Arc<Buffer>, Stmt)> {
    let part = buffer.extents[dim].as_int().filter(|n| n % blocks == 0)? / blocks;
    let mut ranks = HashSet::new();
    each_access(buffer.id, body, &mut ranges.clone(), &mut |a, chain, ranges| {
        let rank = every_block_once(chain, (blocks, threads))?;
        let within = in_part(&resolve(a).ok()?.1[dim], rank, part)?;
        let (least, most) = bounds(ranges, &within);
        ranks.insert(rank);
        (least? >= 0 && most? < part).then_some(())
    })?;
    let body = map_accesses(body, &mut |a| {
        let (id, mut indices) = resolve(a).ok().filter(|r| r.0 == buffer.id)?;
        let within = ranks.iter().find_map(|rank| in_part(&indices[dim], *rank, part))?;
        if part == 1 {
            indices.remove(dim);
        } else {
            indices[dim] = within;
        }
        Some(Access { view: View::Buffer(id), indices, ..a.clone() })
    });
    let mut extents = buffer.extents.clone();
    if part == 1 {
        extents.remove(dim);
    } else {
        extents[dim] = index(part);
    }
    Some((Arc::new(Buffer { extents, ..(**buffer).clone() }), body))
}

/// The loop over the blocks of a nest that has every thread of the cluster once, or one of every block.
fn every_block_once(chain: &Chain, (blocks, threads): (i64, i64)) -> Option<VarId> {
    let outer = chain.dims.first().filter(|d| is_cluster(&d.exec))?;
    let plain = outer.lo.as_int() == Some(0) && outer.step == 1 && outer.most == Some(blocks);
    let whole = chain.exact() && (chain.dims.len() == 1 || chain.most() == Some(threads));
    (plain && whole).then_some(outer.binder.id)
}

/// The subscript in a block's part of so many elements: what is left without the block's number.
fn in_part(subscript: &Expr, rank: VarId, part: i64) -> Option<Expr> {
    let form = Linear::of(subscript);
    let own = form.terms.iter().find(|(atom, k)| atom.as_var() == Some(rank) && *k == part)?;
    let rest = form.clone().without(&own.0);
    (!rest.mentions(&HashSet::from([rank]))).then(|| rest.to_expr())
}
