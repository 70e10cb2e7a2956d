//! How much work a tree is ([`count`]), and how long a machine takes for it ([`estimate`]).
//!
//! Counts are of the source, before any strategy. Estimates are of what strategies made of it, to compare strategies
//! with each other on one machine: no more is claimed of their seconds.

mod accesses;
pub mod count;
mod estimate;
mod instructions;
mod sets;
mod traffic;
mod trips;

pub use accesses::copies;
pub use estimate::{Estimate, estimate, estimates_with_sets, handed, rows_apart};
