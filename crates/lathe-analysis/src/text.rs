//! Short texts of expressions for messages.

use lathe_ir::{BinOp, BufId, Expr, ExprKind, Name, UnOp, VarId};
use std::cell::Cell;

/// As many parts of an expression are written; what is left of longer ones is `…`.
const MAX_PARTS: usize = 64;

/// The expression as a user would write it; parts that have no short form are `…`.
pub(crate) fn expr_text(
    e: &Expr,
    name: &dyn Fn(VarId) -> Name,
    buffer: &dyn Fn(BufId) -> Option<Name>,
) -> String {
    written(e, name, buffer, &Cell::new(MAX_PARTS))
}

fn written(
    e: &Expr,
    name: &dyn Fn(VarId) -> Name,
    buffer: &dyn Fn(BufId) -> Option<Name>,
    left: &Cell<usize>,
) -> String {
    if left.get() == 0 {
        return "…".to_string();
    }
    left.set(left.get() - 1);
    let go = |e: &Expr| written(e, name, buffer, left);
    let list = |es: &[Expr]| es.iter().map(&go).collect::<Vec<_>>().join(", ");
    match e.kind() {
        ExprKind::Bool(v) => v.to_string(),
        ExprKind::Int(v) => v.to_string(),
        ExprKind::Float(v) => format!("{:?}", v.get()),
        ExprKind::Var(v) => name(*v).to_string(),
        ExprKind::Unary(UnOp::Neg, a) => format!("-{}", operand(a, &go)),
        ExprKind::Unary(UnOp::Not, a) => format!("not {}", operand(a, &go)),
        ExprKind::Binary(BinOp::Add, a, b) if b.as_int().is_some_and(|c| c < 0) => {
            format!("{} - {}", operand(a, &go), b.as_int().unwrap_or(0).unsigned_abs())
        }
        ExprKind::Binary(op, a, b) => {
            let s = op.symbol();
            let call = s.len() > 2 && s != "and";
            if call {
                format!("{s}({}, {})", go(a), go(b))
            } else {
                format!("{} {s} {}", operand(a, &go), operand(b, &go))
            }
        }
        ExprKind::Select(c, a, b) => format!("select({}, {}, {})", go(c), go(a), go(b)),
        ExprKind::Cast(a) => format!("{}({})", e.ty(), go(a)),
        ExprKind::Math(f, es) => format!("{}({})", f.name(), list(es)),
        ExprKind::Load(a) => {
            let below = a.view.buffer().and_then(buffer);
            match below.or_else(|| a.view.global().cloned()) {
                Some(n) => format!("{n}[{}]", list(&a.indices)),
                None => "…".to_string(),
            }
        }
        ExprKind::Address(a) => format!("address({})", go(&lathe_ir::build::load(a.clone()))),
        ExprKind::Call(n, es) => format!("{n}({})", list(es)),
        ExprKind::Bitcast(_) | ExprKind::Aggregate(_) | ExprKind::Field(..) => "…".to_string(),
    }
}

fn operand(e: &Expr, go: &dyn Fn(&Expr) -> String) -> String {
    match e.kind() {
        ExprKind::Binary(..) => format!("({})", go(e)),
        _ => go(e),
    }
}
