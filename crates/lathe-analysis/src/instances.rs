//! Whether two trees execute the same instances.

use crate::env::Env;
use crate::refusal::OrderRefusal;
use lathe_ir::Stmt;

/// Every instance that `before` executes is executed exactly once by `after`.
pub fn instances_preserved(_env: &Env, before: &Stmt, after: &Stmt) -> Result<(), OrderRefusal> {
    if before == after { Ok(()) } else { Err(OrderRefusal::Undecided("the trees differ".into())) }
}
