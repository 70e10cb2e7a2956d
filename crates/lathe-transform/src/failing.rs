//! Operations that can fail a run.

use lathe_ir::{Expr, ExprKind, visit};

/// Whether evaluating the expression can fail the run: integer division by what is not a constant, or a
/// call whose body is not known here.
pub fn may_fail(e: &Expr) -> bool {
    let mut hit = false;
    visit::walk_expr(e, &mut |x| match x.kind() {
        ExprKind::Binary(op, _, d) if op.is_division() => {
            hit |= d.as_int().is_none_or(|d| d == 0);
        }
        ExprKind::Call(..) => hit = true,
        _ => {}
    });
    hit
}
