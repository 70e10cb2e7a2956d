//! The one table of math functions: expansion into arithmetic, maximal error, derivative.

mod expand;

pub use expand::{expand_expr, expand_function};
