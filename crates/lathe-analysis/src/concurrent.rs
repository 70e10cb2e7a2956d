//! Whether what a tree runs at the same time may run so: trees that no strategy made say it by themselves.
//!
//! The tree is held against the same one with all iterations in order, which is what `parallel` and `vectorize` are held
//! against. Threads of devices wait for one another at barriers, and tasks where their tokens are waited for: of trees
//! with such nothing is said here.

use crate::codes;
use crate::env::Env;
use crate::order::{order_of, order_preserved};
use crate::refusal::OrderRefusal;
use lathe_diagnostics::Diagnostic;
use lathe_ir::stmt::Effects;
use lathe_ir::visit::{map_stmts, walk};
use lathe_ir::{BufId, Executor, Function, Loop, Module, Stmt, StmtKind};

/// Refuses a function of which iterations that run at the same time touch one element, and one of them writes it.
/// Nothing for trees whose iterations run in order, or by the threads of a device.
pub fn prove_concurrent(module: &Module, func: &Function) -> Vec<Diagnostic> {
    let (mut concurrent, mut waits) = (false, false);
    walk(&func.body, &mut |s, _| {
        let exec = s.as_loop().map(|l| &l.exec);
        concurrent |= exec.is_some_and(|e| !e.is_ordered());
        waits |= exec.is_some_and(|e| !is_host(e));
        waits |= s.own_effects().contains(Effects::SYNCHRONIZES);
        true
    });
    if !concurrent || waits {
        return Vec::new();
    }
    let serial = map_stmts(&func.body, &mut in_order);
    match order_preserved(&Env::root(module, func), &serial, &func.body) {
        Ok(_) => Vec::new(),
        Err(r @ OrderRefusal::Violation(_)) => vec![r.to_diagnostic(codes::RACE, &func.name)],
        Err(OrderRefusal::Undecided(why)) => {
            let text = format!("`{}` could not be shown to be free of races: {why}", func.name);
            vec![Diagnostic::error(codes::RACE, text).at_places(func.body.places(), "this tree")]
        }
    }
}

/// Whether iterations of a statement that run at the same time touch no element of an array that one of them writes. Gives
/// how many pairs of statements were examined.
///
/// # Errors
/// What could not be shown, in words.
pub(crate) fn runs_apart(env: &Env, s: &Stmt, array: BufId) -> Result<usize, String> {
    let serial = map_stmts(s, &mut in_order);
    order_of(env, &serial, s, array).map_err(|r| r.to_diagnostic(codes::RACE, "").message)
}

fn is_host(e: &Executor) -> bool {
    e.is_ordered() || matches!(e, Executor::Vector(_) | Executor::Cpu)
}

fn in_order(s: Stmt) -> Stmt {
    match s.as_loop().filter(|l| !l.exec.is_ordered()) {
        Some(l) => s.with_kind(StmtKind::Loop(Loop { exec: Executor::Serial, ..l.clone() })),
        None => s,
    }
}
