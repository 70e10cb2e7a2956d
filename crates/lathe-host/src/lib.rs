//! The host's side of devices: which copies are needed, and which actions must be ordered.
//!
//! A user launches kernels and says, or a compiler knows, which parts of which buffers each one reads and writes. From
//! that alone follow allocations, copies and order (Rasch's HCA, section 3.3 of the thesis, and the data-flow runtimes
//! that it is compared with there): a [`Host`] keeps, interval by interval, in which places the newest bytes of a buffer
//! lie, and turns launches and accesses of the host into [`Action`]s. It moves nothing itself: an [`Executor`] gives
//! the actions to a [`Driver`], in the order of the plan, and reports their outcomes ([`Host::done`], [`Host::failed`],
//! [`Host::lost`]). So what is decided here is plain data, no driver of a real device is in this crate, and
//! [`simulated`] devices test all of it.
//!
//! What holds:
//!
//! * Nothing is copied to where it is current, nothing is copied back that nobody reads, and a launch that overwrites
//!   bytes does not fetch them first ([`pieces`]).
//! * Two actions that touch common bytes of one place, at least one writing, are ordered: by a stream, or by an event
//!   that the later one waits for ([`host`]).
//! * Launches return at once; only accesses of the host wait, and a failure is reported there, under the name of its
//!   launch.
//! * A device never holds more than its bound; what must leave it is written back first if it is the only copy
//!   (`evict.rs`).

mod blocks;
mod buffer;
pub mod codes;
pub mod driver;
pub mod events;
mod evict;
pub mod executor;
pub mod host;
pub mod pieces;
pub mod plan;
mod pool;
pub mod simulated;
mod streams;

pub use codes::CODES;
pub use driver::{Driver, Fault, FaultKind, Interval, Side};
pub use events::Event;
pub use executor::{Executor, Ran};
pub use host::{Counts, Device, Host};
pub use plan::{Access, Action, BufferId, Mode, Place, Plan, Stream};
