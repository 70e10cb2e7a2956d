//! A variable with its range, as expressions: what the bounds of a form are asked over.

use lathe_ir::{Expr, VarId};

/// A variable with its range `lo..hi` (the range is not empty where the variable is in scope).
#[derive(Clone, Debug)]
pub struct Ranged {
    pub var: VarId,
    pub lo: Expr,
    pub hi: Expr,
    /// Further exclusive upper bounds, from the conditions that the code is under.
    pub below: Vec<Expr>,
}

impl Ranged {
    pub fn new(var: VarId, lo: Expr, hi: Expr) -> Ranged {
        Ranged { var, lo, hi, below: Vec::new() }
    }
}
