//! Timing: nothing is measured once. Candidates run in interleaved rounds in one process; what is
//! reported is the median with its spread, and of two candidates the median of the per-round ratios.

pub mod ceilings;
pub mod rounds;
pub mod stats;

pub use rounds::{Plan, rounds};
pub use stats::{Summary, median, median_interval};
