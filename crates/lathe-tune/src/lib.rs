//! The search of the tuner: techniques, stop rules, costs, and the loop that joins them.
//!
//! Pure: it starts no process, reads no file, and knows no program. A [`TuningSession`] hands out configurations of
//! a space and takes their costs; the caller measures. [`Tuner`] sets one up.

mod cholesky;
pub mod clock;
pub mod codes;
pub mod cost;
mod evidence;
pub mod gaussian;
pub mod history;
pub mod lattice;
mod objectives;
pub mod pruning;
mod ranking;
pub mod recorded;
pub mod score;
pub mod session;
pub mod stop;
pub mod stop_text;
pub mod t4;
pub mod technique;
pub mod tuner;

pub use clock::{Clock, ManualClock, SystemClock};
pub use codes::CODES;
pub use cost::{Cost, Invalid, Order, Outcome, Why};
pub use history::{Ended, Entry, Measured, Times, Tuned};
pub use pruning::Pruning;
pub use recorded::RecordedTable;
pub use session::{Proposal, TuningSession};
pub use stop::{Improvement, Status, Stop, Window};
pub use technique::{Point, Technique, Trial};
pub use tuner::Tuner;
