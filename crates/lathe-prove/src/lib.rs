//! Equations between scalar expressions, decided in machine arithmetic.
//!
//! * [`formula`], [`mod@read`]: expressions as shared formulas, and when they have values.
//! * [`mod@decide`]: whether formulas are equal for all values. Integers and `bool` by proofs: normal forms of the ring of
//!   integers modulo a power of two (`normal`), all values where there are few, circuits and a SAT solver (`circuit`,
//!   `sat`). Floats by the same as far as bits go, else by tests on special values, all magnitudes, and near ties of
//!   comparisons (`sample`, `guide`).
//! * [`rounding`]: formulas that are equal over the reals, up to how they round.
//! * [`operator`]: the laws of combine operators, asked by everyone who relies on one.

mod bound;
mod circuit;
pub mod codes;
pub mod decide;
pub mod formula;
mod guide;
mod machine;
mod normal;
pub mod operator;
mod poly;
pub mod read;
pub mod rounding;
pub mod sample;
mod sat;

pub use codes::CODES;
pub use decide::{Counterexample, Equality, Proof, Question, Verdict, decide};
pub use formula::{Formulas, Id, Op};
pub use normal::Normal;
pub use operator::{Broken, Law, Which, law};

/// Changes whenever a verdict may: part of the key under which verdicts are kept.
pub const VERSION: u32 = 1;

#[cfg(test)]
mod tests;
