//! The sets of a cache that a part of an array takes: rows with a power of two between them share a few, and the others stay
//! empty.

use super::traffic::{Region, Traffic};
use crate::accesses::innermost;

/// Lines of one set of the second cache, at least.
const WAYS: u64 = 8;

impl Traffic<'_> {
    fn cache(&self, level: usize) -> u64 {
        let m = self.machine;
        [m.l1_bytes, m.l2_bytes, m.l3_bytes.max(m.l2_bytes)][level]
    }

    /// Bytes of a cache that one body may count on.
    pub(crate) fn room(&self, level: usize) -> f64 {
        0.8 * self.cache(level) as f64
    }

    /// Whether a cache keeps these regions from one iteration to the next.
    pub(crate) fn fits(&self, regions: &[Region], level: usize) -> bool {
        // The place of a line in the last cache is not that of its address.
        let ways = [self.machine.l1_ways, WAYS].get(level).copied().filter(|_| self.sets);
        let taken = |r: &Region| ways.map_or_else(|| self.size(r), |w| self.crowded(r, self.cache(level), w));
        regions.iter().filter(|r| !r.past()).map(taken).sum::<f64>() <= self.room(level)
    }

    /// Bytes of a cache that a region takes, with those that its rows leave empty.
    fn crowded(&self, r: &Region, cache: u64, ways: u64) -> f64 {
        let size = self.size(r);
        let Some(strides) = self.strides(r) else { return size };
        let last = innermost(&r.buffer);
        let mut outer = (0..strides.len()).filter(|d| Some(*d) != last && self.wide(r, *d) > 1.0);
        let (Some(d), None) = (outer.next(), outer.next()) else { return size };
        let rows = self.wide(r, d).min(r.points);
        let step = 1u64 << (strides[d] as u64).trailing_zeros().min(40);
        if step < self.machine.line_bytes || rows <= ways as f64 {
            return size;
        }
        (rows * step.min(cache / ways.max(1)) as f64).max(size)
    }

    /// Bytes between neighbours of each dimension; none where a layout says where they are, or an extent is not known.
    pub(crate) fn strides(&self, r: &Region) -> Option<Vec<f64>> {
        if !r.buffer.layout.steps.is_empty() {
            return None;
        }
        let mut step = self.element(r);
        let mut out = vec![0.0; r.dims.len()];
        for d in (0..r.dims.len()).rev() {
            out[d] = step;
            step *= self.extent(r, d);
        }
        out.iter().all(|s| s.is_finite()).then_some(out)
    }
}
