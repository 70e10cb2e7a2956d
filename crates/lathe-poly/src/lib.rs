//! Index arithmetic: facts about `index` expressions, and consequences of them.
//!
//! * [`form`]: linear forms; [`interval`]: ranges of numbers.
//! * [`ranges`]: what is known at a place of a function. [`prove`]: inequalities that follow. [`value`]: where values
//!   lie, and whether `index` arithmetic stays within 64 bits.
//! * [`bounds`]: bounds of forms over loops, as forms.
//! * [`fits`]: the conditions under which it does, as expressions.
//! * [`simplify`]: simpler expressions with the same values. [`sizes`]: the sizes of a function from its arguments.

pub mod bounds;
pub mod fits;
pub mod form;
pub mod interval;
mod products;
pub mod prove;
mod ranged;
pub mod ranges;
pub mod simplify;
pub mod sizes;
pub mod value;

pub use bounds::{MOST_GUARDED, constant_trips, mins, most_trips, trips_over};
pub use form::{Affine, Atom, Form, Linear, gcd};
pub use interval::Interval;
pub use ranges::Ranges;
pub use value::Value;
