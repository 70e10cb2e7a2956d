//! Index arithmetic: what is known of `index` expressions, and what follows from it.
//!
//! * [`form`]: linear forms.
//! * [`ranges`]: what is known at a place of a function, and inequalities that follow.
//! * [`simplify`]: simpler expressions with the same values.

pub mod form;
pub mod ranges;
pub mod simplify;

pub use form::{Affine, Atom, Form, Linear, gcd};
pub use ranges::Ranges;
