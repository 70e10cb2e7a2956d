//! What one version of a kernel may rely on: the condition under which the call takes it.
//!
//! The condition becomes a check at the front of the version's tree, before any step. So the steps know, for example,
//! that blocks of 8 have no remainder under `M % 8 == 0`, and their evidence says that a check stands for it; code that
//! is called in another way than through the dispatch still refuses sizes that it was not made for.

use lathe_diagnostics::Places;
use lathe_ir::{BinOp as TreeOp, Expr as TreeExpr, Function, Stmt, StmtKind, build};
use lathe_space::{BinOp, Expr, Value};

/// The function with a check of the condition at its front. What of the condition is not a comparison of sizes,
/// remainders of sizes and numbers is left out: it is not needed, and could overflow.
pub fn under(func: &Function, condition: &Expr) -> Function {
    let mut checks = Vec::new();
    conjuncts(func, condition, &mut checks);
    let message = format!("the sizes do not satisfy `{condition}`, which this version requires");
    let checks = checks.into_iter().map(|cond| {
        let kind = StmtKind::Check { cond, code: "version".into(), message: message.as_str().into() };
        Stmt::new(kind, Places::default())
    });
    Function { body: Stmt::seq(checks.chain([func.body.clone()])), ..func.clone() }
}

fn conjuncts(func: &Function, e: &Expr, out: &mut Vec<TreeExpr>) {
    match e {
        Expr::Binary(BinOp::And, a, b) => {
            conjuncts(func, a, out);
            conjuncts(func, b, out);
        }
        Expr::Binary(op, a, b) => {
            let op = match op {
                BinOp::Eq => TreeOp::Eq,
                BinOp::Ne => TreeOp::Ne,
                BinOp::Lt => TreeOp::Lt,
                BinOp::Le => TreeOp::Le,
                BinOp::Gt => TreeOp::Gt,
                BinOp::Ge => TreeOp::Ge,
                _ => return,
            };
            if let (Some(a), Some(b)) = (operand(func, a), operand(func, b)) {
                out.push(build::binary(op, a, b));
            }
        }
        _ => {}
    }
}

fn operand(func: &Function, e: &Expr) -> Option<TreeExpr> {
    match e {
        Expr::Value(Value::Int(v)) => Some(build::index(*v)),
        Expr::Name(n) => func.size(n).map(build::var),
        Expr::Binary(BinOp::Mod, a, b) => match &**b {
            Expr::Value(Value::Int(c)) if *c > 0 => {
                operand(func, a).map(|a| build::floor_mod(a, build::index(*c)))
            }
            _ => None,
        },
        _ => None,
    }
}
