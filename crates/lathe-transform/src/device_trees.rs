//! Device trees in both forms, phased and SPMD: what one form is made of the other, and whether two trees are the two
//! forms of one function.

use crate::codes;
use lathe_analysis::{Change, prove_concurrent};
use lathe_device::Limits;
use lathe_diagnostics::Diagnostic;
use lathe_ir::visit::walk;
use lathe_ir::{Function, Module, Stmt, StmtKind};
use lathe_lower::phases;
use lathe_poly::simplify::simplify_function;

/// The limits of devices that a step is given, as a claim holds them.
pub fn limits(threads: i64, cluster: i64) -> Limits {
    Limits { threads, cluster }
}

/// The kernels of a function, as engines take them.
pub fn spmd(func: &Function, limits: Limits) -> Result<Function, Diagnostic> {
    let func = phases::to_phased(func, &lathe_device::is_grid).unwrap_or_else(|_| func.clone());
    Ok(simplify_function(&lathe_device::to_spmd(&simplify_function(&func), limits)?))
}

/// What [`Claim::Phases`] says: both trees are free of races, and the one is what the other is divided into.
pub fn are_phases(c: &Change) -> Result<usize, String> {
    free_of_races(c.module, c.before).map_err(|d| d.message)?;
    free_of_races(c.module, c.after).map_err(|d| d.message)?;
    let made = phases::to_phased(c.before, &|_| true).map_err(|u| u.construct)?;
    same(&made, c.after)
}

/// What [`Claim::Threads`] says: both trees are free of races, and the one has the kernels of the other.
pub fn are_threads(c: &Change, threads: i64, cluster: i64) -> Result<usize, String> {
    free_of_races(c.module, c.before).map_err(|d| d.message)?;
    free_of_races(c.module, c.after).map_err(|d| d.message)?;
    let made = spmd(c.before, limits(threads, cluster)).map_err(|d| d.message)?;
    same(&made, c.after)
}

fn same(made: &Function, after: &Function) -> Result<usize, String> {
    if made.body != after.body {
        return Err("the tree is not what its phases and barriers make of it".into());
    }
    Ok(count(&made.body))
}

/// Statements that touch memory.
fn count(s: &Stmt) -> usize {
    usize::from(!s.touches().is_empty()) + s.children().map(count).sum::<usize>()
}

/// That no two iterations of a concurrent loop meet at one element without a barrier in between; a refusal otherwise, and
/// of asynchronous statements.
pub fn free_of_races(module: &Module, func: &Function) -> Result<(), Diagnostic> {
    let mut tokens = None;
    walk(&func.body, &mut |s, _| {
        if matches!(s.kind(), StmtKind::Token { .. }) {
            tokens.get_or_insert(s.places().clone());
        }
        tokens.is_none()
    });
    if let Some(places) = tokens {
        let text =
            format!("`{}` has asynchronous statements, whose order barriers alone do not tell", func.name);
        return Err(Diagnostic::error(codes::SHAPE, text).at_places(&places, "here"));
    }
    match prove_concurrent(module, func).into_iter().next() {
        Some(race) => Err(race),
        None => Ok(()),
    }
}
