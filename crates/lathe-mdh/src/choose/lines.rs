//! Cache lines of results: which results bypass the caches, and whether a tile of them is whole lines.

use super::facts::{Facts, Reach};
use lathe_target::Machine;

/// Results that no cache would keep, in whole lines, because only these bypass the caches: what lies together makes lines, and
/// all else begins at lines.
pub(super) fn far(f: &Facts, m: &Machine) -> bool {
    larger(f, m, (8 * m.l2_bytes).max(m.l3_bytes / 2))
}

/// Results of more bytes, in whole lines.
pub(super) fn larger(f: &Facts, m: &Machine, most: u64) -> bool {
    let bytes: u64 = f.outputs.iter().map(|r| r.footprint(&f.extents)).sum();
    let whole = |r: &Reach| {
        let extents = r.stride.iter().zip(&f.extents);
        let mut steps: Vec<(u64, u64)> =
            extents.map(|(s, n)| (s.unsigned_abs(), *n)).filter(|s| s.0 > 0).collect();
        steps.sort_unstable();
        let mut together = 1;
        steps.iter().all(|(step, n)| {
            // Rows begin at lines, or several share one.
            let inside = *step == together && m.line_bytes.is_multiple_of(step * r.bytes);
            together *= n;
            inside || (step * r.bytes).is_multiple_of(m.line_bytes)
        })
    };
    bytes.saturating_mul(f.written) > most && f.outputs.iter().all(whole)
}

/// Whether the results of a tile are whole lines: of a line that leaves the registers in parts, each part would go to memory
/// alone.
pub(super) fn lines_of_tile(f: &Facts, m: &Machine, tile: &[u64]) -> bool {
    f.outputs.iter().all(|o| together(f, o, tile).is_multiple_of(m.line_bytes))
}

/// Bytes of a tile's results that lie together in memory.
pub(super) fn together(f: &Facts, o: &Reach, tile: &[u64]) -> u64 {
    let mut dims: Vec<usize> = (0..tile.len()).filter(|d| o.stride[*d] != 0).collect();
    dims.sort_unstable_by_key(|d| o.stride[*d].unsigned_abs());
    let (mut together, mut full) = (1, true);
    for d in dims {
        if !full || o.stride[d].unsigned_abs() != together {
            break;
        }
        full = tile[d] >= f.extents[d];
        together *= tile[d].min(f.extents[d]);
    }
    together * o.bytes
}

/// Bytes of cache that a box of an input takes: what lies apart takes a line of its own.
pub(super) fn held(f: &Facts, r: &Reach, tile: &[u64], m: &Machine) -> u64 {
    let run = together(f, r, tile);
    let steps = (0..tile.len()).filter(|d| tile[*d] > 1).map(|d| r.stride[d].unsigned_abs() * r.bytes);
    let apart = steps.filter(|step| *step > run).min().unwrap_or(run);
    (r.footprint(tile) / run.max(1)).saturating_mul(apart.min(m.line_bytes).max(run))
}

/// The box of results that are written soon after those of a tile with lanes along `v`: whole rows of lanes, if these are the innermost loop
/// because the first cache holds what they read, and all rows of the tile's longest side, if it holds these results.
pub(super) fn soon(f: &Facts, m: &Machine, tile: &[u64], v: usize) -> Vec<u64> {
    let mut near = tile.to_vec();
    let free = (0..tile.len()).filter(|d| *d != v && !f.reduced[*d]);
    let row = free.max_by_key(|d| tile[*d]).filter(|d| tile[*d] > 1);
    let columns = f.inputs.iter().filter(|r| row.is_none_or(|d| !r.depends(d)));
    let mut one = tile.to_vec();
    (0..one.len()).filter(|d| f.reduced[*d] || *d == v).for_each(|d| one[d] = f.extents[d]);
    let read: u64 = columns.filter(|r| r.depends(v)).map(|r| r.footprint(&one)).sum();
    if row.is_none() || read <= m.l1_bytes / 2 {
        near[v] = f.extents[v];
    }
    let mut all = near.clone();
    row.into_iter().chain([v]).for_each(|d| all[d] = f.extents[d]);
    let written: u64 = f.outputs.iter().map(|o| o.footprint(&all)).sum();
    if written <= m.l1_bytes / 2 { all } else { near }
}

/// Which part of the vectors of lanes in a row cross lines, and so are two loads: rows begin where their lengths let them.
pub(super) fn crossing(r: &Reach, (v, width): (usize, u64), extents: &[u64], m: &Machine) -> f64 {
    let vector = width * r.bytes;
    let rows = (0..extents.len()).filter(|d| *d != v && extents[*d] > 1);
    let steps = rows.map(|d| r.stride[d].unsigned_abs() * r.bytes).chain([vector, m.line_bytes]);
    // Lines are powers of two, so that all that begins begins at multiples of one.
    let apart = 1u64 << steps.filter(|s| *s > 0).map(u64::trailing_zeros).min().unwrap_or(0);
    let starts = m.line_bytes / apart.min(m.line_bytes);
    let crosses = |n: &u64| n * apart + vector > m.line_bytes && vector <= m.line_bytes;
    (0..starts).filter(crosses).count() as f64 / starts as f64
}
