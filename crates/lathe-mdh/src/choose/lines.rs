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
    let whole = |r: &Reach| {
        let mut dims: Vec<usize> = (0..tile.len()).filter(|d| r.stride[*d] != 0).collect();
        dims.sort_unstable_by_key(|d| r.stride[*d].unsigned_abs());
        let (mut together, mut full) = (1, true);
        for d in dims {
            if !full || r.stride[d].unsigned_abs() != together {
                break;
            }
            full = tile[d] >= f.extents[d];
            together *= tile[d].min(f.extents[d]);
        }
        (together * r.bytes).is_multiple_of(m.line_bytes)
    };
    f.outputs.iter().all(whole)
}
