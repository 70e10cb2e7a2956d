//! Statements that may be moved, merged or removed for what they do themselves.

use lathe_ir::Stmt;
use lathe_ir::stmt::Effects;

/// Whether running a statement does nothing but read, write and take memory, and ends: it cannot fail, wait, or start
/// anything.
pub fn is_quiet(s: &Stmt) -> bool {
    Effects::ALLOCATES.contains(s.effects()) && !may_fail(s)
}

/// Whether an expression in a statement or what it holds may fail.
pub fn may_fail(s: &Stmt) -> bool {
    s.evaluated().into_iter().any(crate::failing::may_fail) || s.children().any(may_fail)
}
