//! Facts about trees that need integer sets: domains, accesses, conflicts, order, bounds, definedness.
//!
//! Every question is put as "is there an integer point": sizes, iterations, matched iterations of the
//! new tree and floor quotients are the unknowns. If there is no point, that is a proof; a point
//! is a concrete counterexample. isl decides; cheaper exact methods are tried first.

pub mod affine;
mod answers;
mod bounds;
mod budget;
mod calls;
mod checks;
pub mod codes;
mod copy;
mod cover;
mod dead;
mod defined;
mod descend;
mod eliminate;
pub mod env;
mod followed;
mod graph;
mod instances;
mod isl_set;
mod kept;
mod leaves;
mod memory;
mod mirror;
mod order;
mod overwrite;
mod padding;
mod races;
mod refusal;
mod scan;
mod solve;
mod system;
mod text;
mod translate;
mod turns;
mod values;
mod view;

pub use answers::{Answers, answers, questions};
pub use bounds::{Assumptions, prove_accesses, prove_arithmetic};
pub use budget::{Work, apart, exhausted, left, within_work};
pub use calls::prove_calls;
pub use codes::CODES;
pub use dead::overwritten;
pub use defined::{prove_defined, written_before_read};
pub use env::Env;
pub use graph::{computes_the_same, only_value, reaches};
pub use instances::Unkept;
pub use memory::{Memory, Place, Touched};
pub use mirror::{Dimension, reads_apart};
pub use order::order_preserved;
pub use overwrite::overwrites_all;
pub use padding::padded;
pub use races::{certain_race, prove_concurrent};
pub use refusal::{DepKind, OrderProof, OrderRefusal, Undecided, Violation};
pub use scan::{Scan, scan_affine};
pub use values::{
    Change, Part, Silent, Tables, begins_empty, combined_from, computed_again, content_kept,
    elements_of_their_own, filled_ahead, holds_values, inputs_kept, instances_kept, instances_preserved,
    means_nothing, only_by, order_kept, reduction_of, relaid, same_content, same_instances, same_runs,
    shares_nothing, stands_for, starts_from_totals, starts_in_order, unmentioned,
};
