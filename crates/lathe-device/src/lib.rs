//! Device trees. A **phased** tree has loops of threads (`block`, `warp`, `lane`) in sequence inside of a
//! `grid`, as if a barrier stood between; that is what strategies make, and serial execution of it is always right. An
//! **SPMD** tree has one loop of threads per kernel, around everything that the kernel does, with barriers; that is
//! what devices run. Where blocks form clusters, a loop over the cluster's blocks stands around the loop of threads.
//!
//! * [`to_spmd`]: phased to SPMD. Loops of threads around others are distributed over the phases inside of them;
//!   barriers stand where a phase touches what an earlier one wrote, or writes what it read, and nowhere else; serial
//!   code is run by one thread; what each thread alone uses is a register of that thread.
//! * [`plan()`]: what the host does to run an SPMD function: memory, loops, launches with their arguments.
//!
//! Both are trees or plain data, so that all of it but speed is tested with the interpreter.

mod block;
mod cluster;
pub mod codes;
pub mod copies;
mod distribute;
mod invariant;
mod owner;
mod pending;
mod phase;
pub mod plan;
mod spmd;

pub use codes::CODES;
pub use plan::{Argument, Cluster, Item, KernelPlan, Plan, plan};
pub use spmd::{Limits, to_spmd};
