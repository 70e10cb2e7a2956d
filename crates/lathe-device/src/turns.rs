//! Updates in the order of blocks: which kernels have such, and whether each of their blocks makes them once.

use crate::block::{Result, no_kernel};
use lathe_ir::stmt::{Atomic, MemoryOrder};
use lathe_ir::visit::{map_stmts, walk};
use lathe_ir::{BinOp, Binder, BufId, Expr, ExprKind, Stmt, StmtKind};

/// The update that a statement is, if it is one in the order of iterations.
pub fn in_order(s: &Stmt) -> Option<&Atomic> {
    match s.kind() {
        StmtKind::Atomic(a) if a.order == MemoryOrder::InOrder => Some(a),
        _ => None,
    }
}

/// The code of a kernel's threads, and whether its blocks take turns. `blocks`: how many there are, if that is a constant;
/// `global`: memory that blocks share.
///
/// # Errors
/// `E0831` where not every block makes such an update once.
pub fn turns(
    body: &Stmt,
    thread: &Binder,
    threads: i64,
    blocks: Option<i64>,
    global: &dyn Fn(BufId) -> bool,
) -> Result<(Stmt, bool)> {
    let shared = |a: &Atomic| a.target.view.buffer().is_some_and(global);
    let mut any = false;
    walk(body, &mut |s, _| {
        any |= in_order(s).is_some_and(shared);
        true
    });
    let takes = any && blocks != Some(1);
    if takes {
        once(body, thread, threads == 1, &shared)?;
    }
    // The threads of a block make the others one after the other, in their order.
    let body = map_stmts(body, &mut |s| match in_order(&s) {
        Some(a) if !(takes && shared(a)) => {
            s.with_kind(StmtKind::Atomic(Atomic { order: MemoryOrder::Relaxed, ..a.clone() }))
        }
        _ => s,
    });
    Ok((body, takes))
}

/// Whether one thread runs each update, once. `alone`: one thread runs the statement.
fn once(s: &Stmt, thread: &Binder, alone: bool, shared: &dyn Fn(&Atomic) -> bool) -> Result<()> {
    if let Some(a) = in_order(s).filter(|a| shared(a)) {
        let no = |what: &str| no_kernel(format!("`{}` in the order of blocks {what}", a.label), s.places());
        if &*a.scope != "grid" {
            return Err(no("among other executors than those of the grid"));
        }
        if !alone {
            return Err(no("by more than one thread of a block, or several times, or under a condition"));
        }
        return once(&a.body, thread, false, shared);
    }
    if let Some((cond, then, other)) = s.as_if() {
        once(then, thread, one_thread(cond, thread), shared)?;
        return other.map_or(Ok(()), |o| once(o, thread, false, shared));
    }
    let again = s.as_loop().is_some() || matches!(s.kind(), StmtKind::While { .. });
    s.children().try_for_each(|c| once(c, thread, alone && !again, shared))
}

/// Whether a condition holds for the first thread alone.
fn one_thread(cond: &Expr, thread: &Binder) -> bool {
    matches!(cond.kind(), ExprKind::Binary(BinOp::Eq, a, b) if a.as_var() == Some(thread.id) && b.as_int() == Some(0))
}
