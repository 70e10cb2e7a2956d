//! Whether a change of order keeps every dependence (ARCHITECTURE.md, "How legality is kept").

use crate::env::Env;
use crate::refusal::{OrderProof, OrderRefusal};
use lathe_ir::Stmt;

/// Are all conflicting pairs of instances of `before` still ordered the same way in `after`?
///
/// Instances are matched by label and instance vector. Reductions with a licence (same label, same
/// operator) may be reordered among themselves, which is recorded in
/// [`OrderProof::used_licence`] where it happens, but must remain ordered.
pub fn order_preserved(env: &Env, before: &Stmt, after: &Stmt) -> Result<OrderProof, OrderRefusal> {
    if before == after {
        return Ok(OrderProof { facts: env.facts(), ..OrderProof::default() });
    }
    Err(OrderRefusal::Undecided("the trees differ".into()))
}
