//! Trees that strategies or programs of devices made, in order: the form that is differentiated. Iterations that run at the
//! same time and touch nothing of one another but through atomic updates may run one after the other, with each barrier
//! between two loops (`lathe_lower::phases`); an asynchronous body may run where it is started. So the derivative
//! is that of one of the orders which the function allows, and all give the same values. What comes out is a plain function,
//! with the loops and labels that were there.

use crate::codes::{self, refuse};
use lathe_diagnostics::Diagnostic;
use lathe_ir::visit::{map_stmts, walk};
use lathe_ir::{Buffer, Executor, Function, Layout, Loop, Module, Space, Stage, Stmt, StmtKind};
use std::sync::Arc;

/// The function in order.
///
/// # Errors
/// `E1302` where iterations at the same time are not shown to be independent, and for barriers that no loop can end at.
pub fn serial(module: &Module, func: &Function) -> Result<Function, Diagnostic> {
    let mut concurrent = func.stage != Stage::Plain;
    walk(&func.body, &mut |s, _| {
        concurrent |= s.as_loop().is_some_and(|l| l.exec != Executor::Serial);
        concurrent |= matches!(s.kind(), StmtKind::Atomic(_)) || matches!(s.kind(), StmtKind::Prefetch(_));
        concurrent |= matches!(s.kind(), StmtKind::Token { .. });
        !concurrent
    });
    if !concurrent {
        return Ok(func.clone());
    }
    if let Some(race) = lathe_analysis::prove_concurrent(module, func).into_iter().next() {
        let text = format!("what runs at the same time in `{}` is not shown to be independent", func.name);
        let places = func.body.places();
        return Err(refuse(codes::UNSUPPORTED, text, places).note(race.to_string()));
    }
    let phased = lathe_lower::phases::to_phased(func, &|_| true).map_err(|u| {
        let d = refuse(codes::UNSUPPORTED, format!("{} is not differentiated", u.construct), &u.places);
        match u.help {
            Some(help) => d.help(help),
            None => d,
        }
    })?;
    let body = map_stmts(&phased.body, &mut |s| in_order(&s));
    Ok(Function { body, stage: Stage::Plain, ..phased })
}

fn in_order(s: &Stmt) -> Stmt {
    if let StmtKind::Loop(l) = s.kind()
        && l.exec != Executor::Serial
        && !matches!(l.exec, Executor::InScan(_))
    {
        return s.with_kind(StmtKind::Loop(Loop { exec: Executor::Serial, ..l.clone() }));
    }
    if let StmtKind::Atomic(a) = s.kind()
        && let Some(update) = lathe_analysis::reduction_of(a)
    {
        return Stmt::seq([s.with_kind(StmtKind::Reduce(update)), a.body.clone()]);
    }
    if let StmtKind::Token { body, .. } | StmtKind::Async { body, .. } = s.kind() {
        return body.clone();
    }
    if let StmtKind::Wait { .. } | StmtKind::Prefetch(_) = s.kind() {
        return Stmt::empty();
    }
    let Some((buffer, body)) = s.as_alloc() else { return s.clone() };
    let space = if buffer.extents.is_empty() { Space::Register } else { Space::Host };
    let own = Buffer { space, layout: Layout::row_major(), ..(**buffer).clone() };
    s.with_kind(StmtKind::Alloc { buffer: Arc::new(own), body: body.clone() })
}
