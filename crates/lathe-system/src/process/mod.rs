//! Programs that may crash, hang, flood their output, or leave processes behind.

mod limits;
mod run;
mod tree;

pub use limits::{Limits, confine};
pub use run::{Ended, Finished, GLANCE, Kept, run, run_trusted};
pub use tree::end;
