//! Lines that come one by one: a processor reads ahead along a few rows of memory, each within a page. Where a loop goes from row to
//! row and takes little of each, the next line of a row is asked for after it has forgotten the row, and arithmetic waits. And pages of
//! packed rows: it knows the places of so many, and looks the others up again and again.

use super::{Region, Traffic};
use crate::accesses::innermost;
use lathe_ir::Loop;

/// Bytes of a page: nothing is read ahead beyond one.
const PAGE: f64 = 4096.0;
/// Pages whose places are known at once.
const KNOWN: f64 = 64.0;
/// Pages whose places are known without a walk through tables: entries of second-level TLBs of current processors are 1,536 to 3,072.
pub(crate) const PLACES: f64 = 2048.0;
/// So many rows are followed at a time.
const ROWS: f64 = 32.0;
/// Bytes of neighbours in a row that are not enough to follow it.
const SHORT: f64 = 512.0;

impl Traffic<'_> {
    /// Whether a loop around goes from row to row of a region as one of its iterations touches it, most of them on pages of their own.
    pub(super) fn jumps_along(&self, r: &Region, l: &Loop, trips: f64) -> bool {
        let (Some(last), false) = (innermost(&r.buffer), !self.sets || r.alone || r.past()) else {
            return false;
        };
        let by = |d: usize| {
            let terms = r.dims[d].iter().flat_map(|s| &s.terms);
            terms
                .filter(|t| t.0 == l.binder.id)
                .map(|t| t.1.saturating_mul(l.step).unsigned_abs())
                .sum::<u64>()
        };
        let mut moved = (0..r.dims.len()).filter(|d| by(*d) > 0);
        let (Some(d), None, Some(steps)) = (moved.next(), moved.next(), self.strides(r)) else {
            return false;
        };
        let short = self.wide(r, last) * self.element(r) <= SHORT;
        let many = trips > ROWS && trips * self.wide(r, d) > self.rows;
        d != last && many && short && by(d) as f64 * steps[d] > PAGE / 2.0
    }

    /// Pages of packed rows that each iteration of a loop runs through, if these are more than what is known at once.
    pub(super) fn pages_again(&self, r: &Region, l: &Loop) -> Option<f64> {
        let packed = self.sets && !r.counted && !r.buffer.layout.steps.is_empty();
        let moves = |s: &super::Span| s.terms.iter().any(|t| t.0 == l.binder.id);
        let pages = self.size(r) / PAGE;
        (packed && pages > KNOWN && !r.dims.iter().flatten().any(moves)).then_some(pages)
    }

    /// Lines of those regions that come one by one.
    pub(super) fn alone<'r>(&self, regions: impl IntoIterator<Item = &'r Region>) -> f64 {
        let line = self.machine.line_bytes.max(1) as f64;
        regions.into_iter().filter(|r| r.alone).map(|r| self.size(r) / line).sum()
    }
}
