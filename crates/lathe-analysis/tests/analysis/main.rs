//! The tests of the crate that build trees.

mod bounds;
mod defined;
mod kit;
mod oracle;
mod scan;
mod verdicts;
