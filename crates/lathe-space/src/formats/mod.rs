//! Spaces and tuned programs in text: directives in sources, ATF's JSON, and the T1 format.

pub mod directives;
mod expression;
pub mod json;
mod program;
mod range;
pub mod substitute;
pub mod t1;
mod typed;

pub use program::{AbortCondition, Api, Input, Kernel, Script, TuningProgram};
