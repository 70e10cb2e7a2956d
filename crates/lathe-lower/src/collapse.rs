//! Loops on threads directly inside of each other become one, as OpenMP's `collapse` does: a grid of blocks is then shared
//! as a whole, threads meet once, and no loop that runs on threads waits inside of another one.
//!
//! Only where the numbers of iterations are constants, whose product is one; other loops on threads that lie inside of
//! each other share the threads of the pool.

use lathe_ir::build::{add, floor_div, floor_mod, index, mul, var};
use lathe_ir::visit::vars_of;
use lathe_ir::{Executor, Expr, Function, Loop, Stmt, StmtKind};
use lathe_poly::Linear;

/// The function with one loop in the place of those that lie directly inside of each other.
pub fn nested(func: &Function) -> Function {
    let mut out = func.clone();
    out.body = stmt(&mut out, &func.body);
    out
}

fn stmt(func: &mut Function, s: &Stmt) -> Stmt {
    let inner = s.children().map(|c| stmt(func, c)).collect();
    let s = s.with_children(inner);
    let both = s.as_loop().and_then(|outer| Some((outer, outer.body.as_loop()?)));
    both.and_then(|(outer, inner)| one(func, &s, outer, inner)).unwrap_or(s)
}

/// The constant number of iterations of a loop.
fn trips(l: &Loop) -> Option<i64> {
    let extent = Linear::difference(&l.hi, &l.lo)?;
    Some(extent.max(0).checked_add(l.step - 1)? / l.step)
}

fn one(func: &mut Function, s: &Stmt, outer: &Loop, inner: &Loop) -> Option<Stmt> {
    let threads = outer.exec == Executor::Cpu && inner.exec == Executor::Cpu;
    let depends = |e: &Expr| vars_of(e).contains(&outer.binder.id);
    if !threads || depends(&inner.lo) || depends(&inner.hi) {
        return None;
    }
    let columns = trips(inner)?;
    let all = trips(outer)?.checked_mul(columns)?;
    // The values of the variables fit, as before: they are those that the loops had.
    let both = func.fresh_var(format!("{}.{}", outer.binder.name, inner.binder.name), outer.binder.ty);
    let at = |l: &Loop, n: Expr| add(l.lo.clone(), mul(n, index(l.step)));
    let given = |l: &Loop, n: Expr, body: Stmt| {
        let kind = StmtKind::Let { binder: l.binder.clone(), value: at(l, n), body };
        Stmt::new(kind, s.places().clone())
    };
    let width = index(columns.max(1));
    let column = floor_mod(var(&both), width.clone());
    let row = floor_div(var(&both), width);
    let body = given(outer, row, given(inner, column, inner.body.clone()));
    let l = Loop { binder: both, lo: index(0), hi: index(all), step: 1, exec: Executor::Cpu, body };
    Some(Stmt::new(StmtKind::Loop(l), s.places().clone()))
}
