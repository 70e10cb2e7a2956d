//! Patterns from text to trees: typing, evaluation, rewriting, translation.

mod decide;
mod eval;
mod extending;
mod files;
mod matmul;
mod random_lowering;
mod rules;
mod saturate;
mod stencils;
mod support;
mod tiling;
mod types;
mod users;
