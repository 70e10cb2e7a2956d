//! Checked transformations: one file per rule, each with its page, its legality, its rewrite and its tests.
//!
//! A rule gets a [`Cursor`] and [`Args`] and returns an [`Edit`] or a refusal; it never modifies
//! its input. [`apply`] runs one rule and completes its evidence.

mod affine_along;
pub mod affine_schedule;
pub mod args;
pub mod arithmetic;
pub mod blocks;
pub mod claims;
pub mod close;
pub mod codes;
pub mod convert;
pub mod cut;
pub mod decide;
mod device_trees;
mod dims;
pub mod executors;
mod failing;
pub mod fission;
mod forms;
pub mod fuse;
pub mod guard;
pub mod handle;
pub mod jam;
pub mod laws;
mod left_out;
pub mod levels;
pub mod move_range;
pub mod names;
pub mod nest;
pub mod omit;
pub mod open;
pub mod optimize;
pub mod predicates;
pub mod remap;
pub mod reorder;
pub mod rule;
mod runs;
mod search;
mod separate;
pub mod split;
pub mod storage;
pub mod subject;
pub mod taken;
pub mod tile;
pub mod to_reduction;
pub mod unroll;
pub mod vectorize;
pub mod work;

pub use args::{Arg, Args, IntoRefusal};
pub use codes::CODES;
pub use decide::decide;
pub use handle::{Handle, History, Made};
#[doc(hidden)]
pub use lathe_strategy::{
    RuleSignature,
    syntax::{Formal, Sort},
};
pub use optimize::{optimize, optimized};
pub use rule::{Cursor, Edit, Rule};
pub use subject::{Subject, apply, apply_rule, begin, go_on, open_all, replay, run};

/// Every rule that changes the structure of loops: one entry per file.
static STRUCTURAL: &[&Rule] = &[
    &open::RULE,
    &close::RULE,
    &split::RULE,
    &tile::RULE,
    &reorder::RULE,
    &fission::RULE,
    &fuse::RULE,
    &separate::RULE,
    &cut::CUT,
    &cut::PEEL,
    &omit::RULE,
    &unroll::RULE,
    &jam::RULE,
    &vectorize::RULE,
    &executors::PARALLEL,
    &executors::BIND,
    &executors::SERIAL,
    &levels::UNBIND,
    &levels::TO_SPMD,
    &levels::TO_PHASED,
    &move_range::REVERSE,
    &move_range::SHIFT,
    &remap::RULE,
    &guard::RULE,
    &to_reduction::RULE,
    &affine_schedule::RULE,
];

/// All rules, those that create or re-lay storage last.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    STRUCTURAL.iter().chain(optimize::RULES).chain(storage::RULES).copied()
}

/// The rule of a name, or of the name that it once had.
pub fn rule(name: &str) -> Option<&'static Rule> {
    let name = lathe_strategy::words::current(name);
    rules().find(|r| r.name() == name)
}
