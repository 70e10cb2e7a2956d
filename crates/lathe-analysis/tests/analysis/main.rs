//! The tests of the crate that build trees.

mod atomics;
mod barriers;
mod bodies;
mod bounds;
mod concurrent;
mod defined;
mod kit;
mod mirror;
mod names;
mod oracle;
mod orders_of_loops;
mod runs;
mod same;
mod scan;
mod stand_ins;
mod verdicts;
