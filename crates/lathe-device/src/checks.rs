//! Checks outside of grids: those that are proved are gone, the others have threads of their own.

use crate::block::does_nothing;
use crate::phase::is_threads;
use lathe_ir::build::{add, can_fail, ceil_div, index, min, mul, sub, var};
use lathe_ir::stmt::Effects;
use lathe_ir::visit::{loads_of, map_stmts, substitute_stmt};
use lathe_ir::{Binder, Executor, Loop, Stmt, StmtKind};
use std::collections::HashMap;

/// Threads of a block that checks.
const THREADS: i64 = 256;

/// The statement without checks that are proved, for which threads would have to leave, and without loops of nothing else,
/// which would be kernels.
pub fn without_proved(s: &Stmt) -> Stmt {
    map_stmts(s, &mut |s| {
        let proved = matches!(s.kind(), StmtKind::Check { cond, .. } if cond.as_bool() == Some(true));
        let nothing = |l: &Loop| does_nothing(&l.body) && !can_fail(&l.lo) && !can_fail(&l.hi);
        match s.as_seq() {
            Some(all) => Stmt::seq(all.iter().filter(|c| c.as_seq().is_none_or(|c| !c.is_empty())).cloned()),
            None if proved || s.as_loop().is_some_and(nothing) => Stmt::empty(),
            None => s,
        }
    })
}

/// A loop of nothing but checks, as a grid: its iterations are independent. `fresh` makes variables.
pub fn spread(s: &Stmt, fresh: &mut dyn FnMut(&str) -> Binder) -> Option<Stmt> {
    let l = s.as_loop().filter(|l| l.exec == Executor::Serial && l.step == 1)?;
    if !only_checks(&l.body) || [&l.lo, &l.hi].into_iter().any(|e| !loads_of(e).is_empty()) {
        return None;
    }
    let level = |exec: &str| Executor::Level(exec.into());
    let few = l.lo.as_int().zip(l.hi.as_int()).is_some_and(|(lo, hi)| hi.saturating_sub(lo) < THREADS);
    if let Some(inner) = l.body.as_loop().filter(|i| few && i.exec == Executor::Serial) {
        let body = l.body.with_kind(StmtKind::Loop(Loop { exec: level("block"), ..inner.clone() }));
        return Some(s.with_kind(StmtKind::Loop(Loop { exec: level("grid"), body, ..l.clone() })));
    }
    let (block, thread) = (fresh("block"), fresh("thread"));
    let count = sub(l.hi.clone(), l.lo.clone());
    let first = mul(index(THREADS), var(&block));
    let at = add(l.lo.clone(), add(first.clone(), var(&thread)));
    let body = substitute_stmt(&l.body, &HashMap::from([(l.binder.id, at)]));
    let of = |binder, hi, exec, body| Loop { binder, lo: index(0), hi, step: 1, exec, body };
    let threads = min(index(THREADS), sub(count.clone(), first));
    let body = Stmt::of(StmtKind::Loop(of(thread, threads, level("block"), body)));
    Some(s.with_kind(StmtKind::Loop(of(block, ceil_div(count, THREADS), level("grid"), body))))
}

/// Whether a statement can do nothing but fail, on one thread.
fn only_checks(s: &Stmt) -> bool {
    let serial = |l: &Loop| !is_threads(&l.exec) && matches!(l.exec, Executor::Serial | Executor::Unrolled);
    s.as_loop().is_none_or(serial)
        && Effects::FAILS.contains(s.own_effects())
        && s.written().next().is_none()
        && s.children().all(only_checks)
}
