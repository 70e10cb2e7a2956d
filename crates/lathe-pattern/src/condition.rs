//! Conditions over sizes (`N % 4 == 0`, `N >= 2`) as facts.

use crate::ast::{Ast, AstKind};
use crate::codes;
use crate::facts::Fact;
use crate::nat::Nat;
use crate::parse::nat_of;
use lathe_diagnostics::Diagnostic;
use lathe_ir::BinOp;

/// A condition over sizes as a fact.
pub fn fact_of(e: &Ast) -> Result<Vec<Fact>, Diagnostic> {
    let one = Nat::constant(1);
    let wrong = || {
        Diagnostic::error(codes::ARGUMENTS, "this is not a condition over sizes")
            .at(e.span, "conditions are `N % 4 == 0` and `N >= 2`")
    };
    let AstKind::Binary(op, a, b) = &*e.kind else { return Err(wrong()) };
    match op {
        BinOp::And => Ok([fact_of(a)?, fact_of(b)?].concat()),
        BinOp::Eq => {
            if let AstKind::Binary(BinOp::FloorMod, n, d) = &*a.kind
                && nat_of(b)?.is_zero()
            {
                return Ok(vec![Fact::Divides(nat_of(d)?, nat_of(n)?)]);
            }
            let (a, b) = (nat_of(a)?, nat_of(b)?);
            Ok(vec![Fact::AtMost(a.clone(), b.clone()), Fact::AtMost(b, a)])
        }
        BinOp::Le => Ok(vec![Fact::AtMost(nat_of(a)?, nat_of(b)?)]),
        BinOp::Ge => Ok(vec![Fact::AtMost(nat_of(b)?, nat_of(a)?)]),
        BinOp::Lt => Ok(vec![Fact::AtMost(nat_of(a)?.plus(&one), nat_of(b)?)]),
        BinOp::Gt => Ok(vec![Fact::AtMost(nat_of(b)?.plus(&one), nat_of(a)?)]),
        _ => Err(wrong()),
    }
}
