//! Expressions of the tree as evidence holds them.

use lathe_analysis::Env;
use lathe_ir::{Access, Binder, Expr, ExprKind, UnOp};
use lathe_strategy::Formula;
use std::borrow::Cow;

/// A variable in scope.
pub(crate) fn variable(b: &Binder) -> Formula {
    Formula::Var { var: b.name.clone(), id: b.id.0 }
}

/// So many operators of one expression are said.
const OPERATORS: usize = 1000;

/// An expression at a place. What is nested deeper than a record can be read, or is longer than anyone reads, is not said:
/// expressions that share parts may be long.
pub(crate) fn formula(env: &Env, e: &Expr) -> Formula {
    Writer { env, left: OPERATORS }.expr(e, Formula::DEPTH)
}

struct Writer<'w, 'e> {
    env: &'w Env<'e>,
    left: usize,
}

impl Writer<'_, '_> {
    fn expr(&mut self, e: &Expr, depth: usize) -> Formula {
        match e.kind() {
            ExprKind::Bool(v) => return Formula::Bool(*v),
            ExprKind::Int(v) => return Formula::Int(*v),
            ExprKind::Float(v) => return Formula::apply(format!("{:?}", v.get()), Vec::new()),
            ExprKind::Var(v) => return Formula::Var { var: self.env.name(*v), id: v.0 },
            _ => {}
        }
        if depth <= 1 || self.left == 0 {
            return Formula::unknown();
        }
        self.left -= 1;
        let (op, of): (Cow<'static, str>, Vec<&Expr>) = match e.kind() {
            ExprKind::Unary(UnOp::Neg, a) => ("-".into(), vec![a]),
            ExprKind::Unary(UnOp::Not, a) => ("not".into(), vec![a]),
            ExprKind::Binary(op, a, b) => (op.symbol().into(), vec![a, b]),
            ExprKind::Select(c, a, b) => ("select".into(), vec![c, a, b]),
            ExprKind::Cast(a) => (e.ty().to_string().into(), vec![a]),
            ExprKind::Math(f, es) => (f.name().into(), es.iter().collect()),
            ExprKind::Call(n, es) => (n.to_string().into(), es.iter().collect()),
            ExprKind::Load(a) => return self.load(a, depth),
            ExprKind::Address(a) => {
                let a = self.load(a, depth - 1);
                return Formula::apply("address", vec![a]);
            }
            ExprKind::Bitcast(_) | ExprKind::Aggregate(_) | ExprKind::Field(..) => return Formula::unknown(),
            ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) => {
                return Formula::unknown();
            }
        };
        Formula::apply(op, of.into_iter().map(|e| self.expr(e, depth - 1)).collect())
    }

    fn load(&mut self, a: &Access, depth: usize) -> Formula {
        let buffer = a.view.buffer().and_then(|b| self.env.buffer(b)).map(|b| b.name.clone());
        match buffer.or_else(|| a.view.global().cloned()) {
            Some(array) if depth > 1 => {
                let at = a.indices.iter().map(|e| self.expr(e, depth - 1)).collect();
                Formula::Load { array, at }
            }
            _ => Formula::unknown(),
        }
    }
}
