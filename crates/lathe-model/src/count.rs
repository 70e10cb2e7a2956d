//! How much a computation must do: operations and bytes of the *source*, for rates in reports.
//!
//! Counted on the tree before any strategy, so that redundant work of a schedule never makes it look
//! faster. Floating-point additions, multiplications, divisions, minima, maxima and math functions count
//! one each (a fused multiply-add two). Where data decide how much runs, there is no count.

use crate::trips::decides;
use lathe_ir::interp::evaluate;
use lathe_ir::stmt::AtomicOp;
use lathe_ir::visit::{vars_of, walk_expr};
use lathe_ir::{Combine, Expr, ExprKind, Function, MathFn, Mode, Stmt, StmtKind, VarId};
use std::collections::HashMap;

/// Values of sizes and loop variables.
pub type Values = HashMap<VarId, i64>;

/// Floating-point operations of one call, or `None` where data decide or counting would take too long.
pub fn flops(func: &Function, sizes: &Values) -> Option<f64> {
    let mut budget = 1_000_000u64;
    count(&func.body, &mut sizes.clone(), &mut budget)
}

/// Bytes that must move at least once: every array read or written once; read and written, twice.
pub fn bytes(func: &Function, sizes: &Values) -> Option<f64> {
    let mut total = 0f64;
    for p in &func.params {
        if let Some(b) = p.array() {
            let mut n = b.elem.bytes() as f64;
            for e in &b.extents {
                n *= evaluate(e, sizes)? as f64;
            }
            total += if p.mode == Mode::InOut { 2.0 * n } else { n };
        }
    }
    Some(total)
}

fn count(s: &Stmt, values: &mut Values, budget: &mut u64) -> Option<f64> {
    *budget = budget.checked_sub(1)?;
    match s.kind() {
        StmtKind::Seq(v) => v.iter().try_fold(0.0, |sum, s| Some(sum + count(s, values, budget)?)),
        StmtKind::Let { binder, value, body } => {
            match evaluate(value, values) {
                Some(v) => values.insert(binder.id, v),
                None => values.remove(&binder.id),
            };
            Some(ops(value) + count(body, values, budget)?)
        }
        StmtKind::Loop(l) => {
            let (lo, hi) = (evaluate(&l.lo, values)?, evaluate(&l.hi, values)?);
            if hi <= lo {
                return Some(0.0);
            }
            let trips = (hi.checked_sub(lo)? - 1) / l.step + 1;
            if !decides(&l.body, l.binder.id) {
                values.insert(l.binder.id, lo);
                return Some(trips as f64 * count(&l.body, values, budget)?);
            }
            let mut total = 0.0;
            for t in 0..trips {
                values.insert(l.binder.id, lo + t * l.step);
                total += count(&l.body, values, budget)?;
            }
            Some(total)
        }
        StmtKind::If { cond, then, other } => {
            if evaluate(cond, values)? != 0 {
                count(then, values, budget)
            } else {
                other.as_ref().map_or(Some(0.0), |o| count(o, values, budget))
            }
        }
        StmtKind::Alloc { body, .. } | StmtKind::Token { body, .. } | StmtKind::Async { body, .. } => {
            count(body, values, budget)
        }
        StmtKind::Store(st) => Some(ops(&st.value)),
        StmtKind::Reduce(r) => Some(r.values.iter().map(ops).sum::<f64>() + combine(&r.op, &r.values)),
        StmtKind::Atomic(a) => {
            let mut n = 0.0;
            a.op.for_each_expr(&mut |e| n += ops(e));
            if let AtomicOp::Update(op, value) = &a.op {
                n += combine(op, std::slice::from_ref(value));
            }
            Some(n + count(&a.body, values, budget)?)
        }
        StmtKind::Compute(c) => {
            let mut points = 1.0;
            let mut per_point: f64 = c.values.iter().map(ops).sum();
            let mut op = c.update.clone();
            for d in &c.dims {
                points *= evaluate(&d.hi, values)?.saturating_sub(evaluate(&d.lo, values)?).max(0) as f64;
                if let Combine::Reduce(o) | Combine::Scan(o) = &d.combine {
                    op = Some(o.clone());
                }
            }
            if let Some(op) = &op {
                per_point += combine(op, &c.values);
            }
            if c.guard.as_ref().is_some_and(|g| !vars_of(g).is_empty()) {
                return None;
            }
            Some(points * per_point)
        }
        StmtKind::Check { .. }
        | StmtKind::Assume { .. }
        | StmtKind::Barrier { .. }
        | StmtKind::Prefetch(_)
        | StmtKind::Wait { .. } => Some(0.0),
        StmtKind::While { .. } | StmtKind::Call { .. } => None,
    }
}

/// Operations of one combination: none on what are not floats.
fn combine(op: &lathe_ir::ReduceOp, values: &[Expr]) -> f64 {
    let floats = values.iter().flat_map(|v| v.ty().leaves()).any(|s| s.is_float());
    match op {
        lathe_ir::ReduceOp::All | lathe_ir::ReduceOp::Any => 0.0,
        _ if floats => 1.0,
        _ => 0.0,
    }
}

/// Floating-point operations of one evaluation; shared subexpressions once, both branches of `select`.
fn ops(e: &Expr) -> f64 {
    let mut n = 0.0;
    walk_expr(e, &mut |x| {
        n += match x.kind() {
            ExprKind::Binary(op, a, _) if a.ty().is_float() && !op.is_comparison() => 1.0,
            ExprKind::Math(MathFn::Fma, _) => 2.0,
            ExprKind::Math(MathFn::Abs, _) => 0.0,
            ExprKind::Math(..) if x.ty().is_float() => 1.0,
            _ => 0.0,
        };
    });
    n
}
