//! The one table of math functions: expansion into arithmetic, maximal error, derivative.
//!
//! The functions that [`crate::ops::MathFn::is_exact`] does not name are *defined* by their expansion:
//! float and integer arithmetic, FMA, comparisons, selects and bitcasts, without loads or branches. So
//! they vectorize as any other code, and every engine gives the same bits.

mod coefficients;
mod exp_log;
mod expand;
mod hyperbolic;
mod pow;
mod table;
mod term;
mod trig;

pub use exp_log::scaled;
pub use expand::{expand, expand_expr, expand_function};
pub use table::{Entry, TABLE, derivative, entry, error_in_ulp};
