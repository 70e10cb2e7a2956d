//! What touches the machine: timing, cost functions, worker processes, and the store of results.
//!
//! Nothing is measured once. Candidates run in interleaved rounds in one process; what is reported is the
//! median with its spread, and of two candidates the median of the per-round ratios. Configurations that are
//! tried run in a process of their own ([`worker`]), so that one that crashes or hangs costs only itself.

pub mod ceilings;
pub mod codes;
pub mod cost;
pub mod portability;
pub mod rounds;
pub mod stats;
pub mod store;
pub mod worker;

pub use codes::CODES;
pub use rounds::{Plan, rounds};
pub use stats::{Summary, median, median_interval};
pub use store::Store;
