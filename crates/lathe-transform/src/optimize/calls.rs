//! `inline` without an argument: calls of functions that only compute a value become that value.

use lathe_ir::visit::{map_expr, map_exprs, substitute};
use lathe_ir::{Expr, ExprKind, Function, Mode, Module, ParamKind, VarId};
use std::collections::HashMap;

/// Functions call one another at most so deep before the rest stays a call.
const DEPTH: usize = 16;

/// Puts values in the place of calls, where the callee is a value of its scalars, and calls neither itself nor too deep.
pub fn values_of_calls(module: &Module, func: &mut Function) {
    for _ in 0..DEPTH {
        let mut changed = false;
        let body = map_exprs(&func.body, &mut |e| {
            map_expr(e, &mut |x| match called(module, &x) {
                Some(value) => {
                    changed = true;
                    value
                }
                None => x,
            })
        });
        if !changed {
            return;
        }
        func.body = body;
    }
}

fn called(module: &Module, e: &Expr) -> Option<Expr> {
    let ExprKind::Call(name, args) = e.kind() else { return None };
    let callee = module.functions.get(name)?;
    let value = callee.result.as_ref().filter(|_| callee.body.is_empty() && callee.sizes.is_empty())?;
    if callee.params.len() != args.len() || calls(value, name) {
        return None;
    }
    let mut map: HashMap<VarId, Expr> = HashMap::new();
    for (p, a) in callee.params.iter().zip(args) {
        match &p.kind {
            ParamKind::Scalar(b) if p.mode == Mode::In => map.insert(b.id, a.clone()),
            ParamKind::Scalar(_) | ParamKind::Array(_) => return None,
        };
    }
    Some(substitute(value, &map))
}

fn calls(e: &Expr, name: &str) -> bool {
    let mut found = false;
    lathe_ir::visit::walk_expr(e, &mut |x| {
        found |= matches!(x.kind(), ExprKind::Call(n, _) if &**n == name);
    });
    found
}
