//! Homomorphisms for users: the step `mdh(…)` of strategies, the strategy `auto`, system models from files.
//!
//! `mdh(…)` says as much of the 15 decisions as its author wants to; what it leaves free is chosen by the cost model,
//! or searched by the tuner. It stands for steps on loops, which depend on sizes: so a strategy with `mdh` in it
//! makes a version for the sizes that are known, with these baked in, and another one, the loops as written, for
//! all others.

use lathe_ir::Function;

mod affine;
mod any;
mod arrays;
mod batches;
mod blocked;
mod borders;
mod call;
mod calls;
mod candidates;
mod columns;
mod complete;
mod cores;
mod expand;
mod file;
mod forms;
mod interior;
mod layouts;
mod made;
mod mapped;
mod neighbours;
mod nests;
mod patterns;
mod pictures;
mod pivots;
mod raise;
mod recurrences;
mod reductions;
mod scatters;
mod setting;
mod siblings;
mod space;
mod stencils;
mod sums;
mod versions;

pub use crate::choice::{AUTO, STEP};
pub use crate::machine::model as load_model;
pub(crate) use calls::{named_models, uses};
pub use expand::{Chosen, Taken};
pub use file::is_notation_text;
pub(crate) use file::{from_text, is_notation};
pub(crate) use patterns::{closed, versions as versions_of_fun};
pub use pictures::pictures;
pub(crate) use setting::{Setting, Wanted, labels};
pub(crate) use space::{FreeSpace, free_space};
pub(crate) use versions::{auto_space, versions};

/// The system model where none is named: threads, registers and vectors of a CPU.
pub const DEFAULT_MODEL: &str = "cpu";

/// Whether a kernel has something in index notation, which decisions could be about.
pub fn has_computes(kernel: &Function) -> bool {
    !labels(kernel).is_empty()
}

/// Whether a kernel has something that `auto` could schedule: index notation, or loops.
pub fn has_loops(kernel: &Function) -> bool {
    let mut found = false;
    lathe_ir::visit::walk(&kernel.body, &mut |s, _| {
        found |= s.as_compute().is_some() || s.as_loop().is_some();
        !found
    });
    found
}
