//! `inline` without an argument: calls of functions that only compute a value become that value.

use lathe_analysis::{only_value, reaches};
use lathe_ir::visit::{map_expr, map_exprs, substitute};
use lathe_ir::{Expr, ExprKind, Function, Module, ParamKind, VarId};
use std::collections::HashMap;

/// Functions call one another at most so deep before the rest stays a call.
const DEPTH: usize = 16;

/// Puts values in the place of calls, where the callee is a value of its scalars, and does not call itself, or others too deep.
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
    let (callee, value) = only_value(module, name)?;
    if callee.params.len() != args.len() || reaches(module, value, name) {
        return None;
    }
    let scalars = callee.params.iter().filter_map(|p| match &p.kind {
        ParamKind::Scalar(b) => Some(b.id),
        ParamKind::Array(_) => None,
    });
    let map: HashMap<VarId, Expr> = scalars.zip(args.iter().cloned()).collect();
    Some(substitute(value, &map))
}
