//! Updates in the order of blocks: which kernels have such, and whether each of their blocks makes them once.

use crate::block::{Result, no_kernel};
pub use crate::phase::in_order;
use lathe_ir::stmt::{Atomic, MemoryOrder};
use lathe_ir::visit::{map_stmts, walk};
use lathe_ir::{BinOp, Binder, BufId, Expr, ExprKind, Stmt, StmtKind, VarId};

/// The code of a kernel's threads, and whether its blocks take turns. `blocks`: how many there are, if that is a constant;
/// `global`: memory that blocks share.
///
/// # Errors
/// `E0831` where not every block makes such an update once, or threads make one in their order.
pub fn turns(
    body: &Stmt,
    thread: &Binder,
    threads: i64,
    blocks: Option<i64>,
    global: &dyn Fn(BufId) -> bool,
) -> Result<(Stmt, bool)> {
    let shared = |a: &Atomic| a.target.view.buffer().is_some_and(global);
    let turn = |a: &Atomic| blocks != Some(1) && of_blocks(a) && shared(a);
    once(body, thread, Where { every: true, alone: threads == 1 }, &turn)?;
    let mut takes = false;
    walk(body, &mut |s, _| {
        takes |= in_order(s).is_some_and(turn);
        true
    });
    // One thread makes the others one after the other, or they are of different blocks and elements.
    let body = map_stmts(body, &mut |s| match in_order(&s) {
        Some(a) if !turn(a) => {
            s.with_kind(StmtKind::Atomic(Atomic { order: MemoryOrder::Relaxed, ..a.clone() }))
        }
        _ => s,
    });
    Ok((body, takes))
}

fn of_blocks(a: &Atomic) -> bool {
    &*a.scope == "grid"
}

/// What is known of a statement of the threads.
#[derive(Clone, Copy)]
struct Where {
    /// Every block runs it, once.
    every: bool,
    /// One thread runs it.
    alone: bool,
}

/// Whether one thread of every block runs each update that blocks take turns at, once, and one thread those in the order of
/// threads.
fn once(s: &Stmt, thread: &Binder, at: Where, turn: &dyn Fn(&Atomic) -> bool) -> Result<()> {
    let perhaps = Where { every: false, ..at };
    if let Some(a) = in_order(s) {
        let no = |what: &str| no_kernel(format!("`{}` in the order of {what}", a.label), s.places());
        if turn(a) && !(at.every && at.alone) {
            return Err(no(
                "blocks, by more than one thread of a block, or several times, or under a condition",
            ));
        }
        if !of_blocks(a) && !at.alone {
            return Err(no(&format!("`{}`", a.scope)));
        }
        return once(&a.body, thread, perhaps, turn);
    }
    if let Some((cond, then, other)) = s.as_if() {
        let first = one_thread(cond, thread.id);
        let inside = if first { Where { alone: true, ..at } } else { perhaps };
        once(then, thread, inside, turn)?;
        return other.map_or(Ok(()), |o| once(o, thread, perhaps, turn));
    }
    let again = s.as_loop().is_some() || matches!(s.kind(), StmtKind::While { .. });
    let inside = if again { perhaps } else { at };
    s.children().try_for_each(|c| once(c, thread, inside, turn))
}

/// The update in order that a statement is, if the first thread makes it and does nothing else: where its whole warp is
/// there, all of that may look back.
pub fn of_first_thread(s: &Stmt, thread: VarId) -> Option<&Atomic> {
    let (cond, then, None) = s.as_if()? else { return None };
    in_order(then).filter(|_| one_thread(cond, thread))
}

/// Whether a condition holds for the first thread alone.
fn one_thread(cond: &Expr, thread: VarId) -> bool {
    matches!(cond.kind(), ExprKind::Binary(BinOp::Eq, a, b) if a.as_var() == Some(thread) && b.as_int() == Some(0))
}
