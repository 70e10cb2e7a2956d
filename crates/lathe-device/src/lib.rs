//! Device trees. A **phased** tree has thread loops (`block`, `warp`, `lane`) in sequence inside of a
//! `grid`, as if separated by barriers; strategies create this form, and its serial execution is always correct. An
//! **SPMD** tree has one thread loop per kernel, around everything that the kernel does, with barriers; that is
//! what devices run. Where blocks form clusters, a loop over the cluster's blocks encloses the thread loop.
//!
//! * [`to_spmd`]: phased to SPMD. Thread loops around others are distributed over the phases inside of them;
//!   barriers are inserted only where a phase accesses what an earlier one wrote, or writes what it read; serial
//!   code is run by one thread; what each thread alone uses is a register of that thread.
//! * [`plan()`]: what the host does to run an SPMD function: memory, loops, launches with their arguments.
//! * [`reach()`](reach::reach): which elements a launch reads and writes, once sizes are known, so that a host with several
//!   devices moves no others. Loops bound to `device` stay loops of the host, whose iterations each have a device.
//!
//! Both are trees or plain data, so that all of it but speed is tested with the interpreter.

mod block;
mod checks;
mod cluster;
pub mod codes;
pub mod constants;
pub mod copies;
mod distribute;
mod groups;
mod held;
mod invariant;
mod owner;
mod pending;
mod phase;
pub mod plan;
pub mod reach;
mod resident;
pub mod shuffles;
mod spmd;
pub mod turns;

pub use codes::CODES;
pub use groups::Copies;
pub use held::{layout_over, prove_held};
pub use phase::is_grid;
pub use plan::{Argument, Cluster, Item, KernelPlan, Plan, plan};
pub use resident::resident_blocks;
pub use spmd::{Limits, to_spmd};
