//! What runs of strategies depend on besides the tree, and how long they may last.

use crate::bind::{Definitions, Facts};

/// Everything besides the tree that a run depends on.
pub struct Context<'a> {
    pub definitions: &'a Definitions,
    /// The kernel that is transformed; selects definitions `for` it.
    pub target: Option<&'a str>,
    pub facts: &'a Facts<'a>,
    /// The most rules that are tried.
    pub steps: u64,
}

/// Enough for every strategy that ends.
pub const STEPS: u64 = 100_000;

/// A step costs what the tree is large: so many nodes of trees may be looked at for each node of the first one.
pub(crate) const WORK: u64 = 400;

/// So many more for each step that is written: a sequence of many steps on a large tree ends, too.
pub(crate) const EACH: u64 = 8;

/// What smaller trees are taken for.
pub(crate) const LEAST: u64 = 1_000;

impl<'a> Context<'a> {
    pub fn new(definitions: &'a Definitions, target: Option<&'a str>, facts: &'a Facts<'a>) -> Context<'a> {
        Context { definitions, target, facts, steps: STEPS }
    }
}
