//! Placement of buffers by the decisions: all allocations, and how many bytes each takes.
//!
//! A buffer exists once per value of the part numbers of all outer levels, and holds what the inner levels
//! need (thesis, App. .8). Consecutive levels with one region and layout share an allocation. Cores that
//! share a region share the buffer, so that their parts are in it, too.

use crate::decisions::{Decisions, Level, Phase, Placement, Spot, at, by_position};
use crate::homomorphism::Shaped;
use crate::model::Model;
use crate::view::Operand;
use lathe_ir::Combine;

/// One allocation of a buffer, other than the caller's own array.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    pub buffer: String,
    pub region: usize,
    pub layout: Vec<usize>,
    /// The first level, in order, that uses it; none: only the scalar function does.
    pub level: Option<Level>,
    /// Its rank; the number of levels for the scalar function.
    pub rank: usize,
    /// Indices of the homomorphism that one instance covers, per dimension.
    pub tile: Vec<u64>,
    /// For one instance of the region.
    pub bytes: u64,
}

/// All allocations that complete decisions ask for; none where a decision is free.
pub fn allocations(h: &Shaped, model: &Model, d: &Decisions) -> Option<Vec<Allocation>> {
    let mut out = Vec::new();
    let reads = h.h.inputs.iter().zip(&d.reads).zip(&d.operands);
    for ((o, p), s) in reads {
        of_buffer(h, model, d, (Phase::Down, o, p, s), &mut out)?;
    }
    let writes = h.h.outputs.iter().zip(&d.writes).zip(&d.results);
    for ((o, p), s) in writes {
        of_buffer(h, model, d, (Phase::Up, o, p, s), &mut out)?;
    }
    Some(out)
}

type Use<'a> = (Phase, &'a Operand, &'a Placement, &'a Spot);

fn of_buffer(h: &Shaped, model: &Model, d: &Decisions, u: Use, out: &mut Vec<Allocation>) -> Option<()> {
    let (phase, operand, placement, spot) = u;
    let order = by_position(&d.steps(phase).order)?;
    // The caller's array.
    let mut here = (0, (0..operand.rank()).collect::<Vec<usize>>());
    let levels = order.iter().map(|l| Some(*l)).chain([None]).enumerate();
    for (rank, level) in levels {
        let next = match level {
            Some(l) => (*at(&placement.region, l)?, at(&placement.layout, l)?.clone()),
            None => (spot.region?, spot.layout.clone()?),
        };
        if next == here {
            continue;
        }
        here = next.clone();
        let scope = if level.is_some() { phase } else { Phase::Scalar };
        let order = if level.is_some() { order.clone() } else { by_position(&d.steps(scope).order)? };
        let tile = tile(h, model, d, scope, &order, rank, next.0)?;
        let bytes = bytes(h, operand, &tile, phase == Phase::Up);
        out.push(Allocation {
            buffer: operand.name().to_string(),
            region: next.0,
            layout: next.1,
            level,
            rank,
            tile,
            bytes,
        });
    }
    Some(())
}

/// The indices that an instance covers at a rank of a phase.
fn tile(
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    phase: Phase,
    order: &[Level],
    rank: usize,
    region: usize,
) -> Option<Vec<u64>> {
    let shared_within = model.memories.get(region)?.per.as_deref().and_then(|c| model.layer(c));
    let mut tile = vec![1u64; h.extents.len()];
    for (r, l) in order.iter().enumerate() {
        let layer = at(&d.steps(phase).assignment, *l)?.layer;
        // Cores that have regions of their own hold their own parts only.
        let inside = match model.core(layer) {
            Some(_) => shared_within.is_none_or(|c| layer > c),
            None => r >= rank,
        };
        if inside {
            tile[l.dim] = tile[l.dim].saturating_mul(d.parts_at(*l));
        }
    }
    Some(tile.iter().zip(&h.extents).map(|(t, n)| (*t).min((*n).max(1))).collect())
}

/// The bytes of the box of elements that a tile reads or writes.
pub(crate) fn bytes(h: &Shaped, o: &Operand, tile: &[u64], output: bool) -> u64 {
    let count: Vec<u64> = tile
        .iter()
        .zip(&h.h.dims)
        .map(|(t, d)| if output && matches!(d.combine, Combine::Reduce(_)) { 1 } else { *t })
        .collect();
    let cells = (0..o.rank()).map(|k| {
        let range = o.range(k, &h.first, &count, &h.sizes);
        range.map_or(0, |(lo, hi)| hi.saturating_sub(lo).unsigned_abs().saturating_add(1))
    });
    cells.fold(o.buffer.elem.bytes(), u64::saturating_mul)
}
