//! Building and taking apart nests of loops.

use lathe_diagnostics::Places;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Executor, Expr, Loop, Stmt, StmtKind, VarId};
use std::collections::HashMap;

/// A serial loop of step 1.
pub fn serial(binder: lathe_ir::Binder, lo: Expr, hi: Expr, body: Stmt, places: &Places) -> Stmt {
    let l = Loop { binder, lo, hi, step: 1, exec: Executor::Serial, body };
    Stmt::new(StmtKind::Loop(l), places.clone())
}

/// The same loop around another body.
pub fn around(l: &Loop, places: &Places, body: Stmt) -> Stmt {
    Stmt::new(StmtKind::Loop(Loop { body, ..l.clone() }), places.clone())
}

/// The statement with one variable replaced.
pub fn substitute(s: &Stmt, var: VarId, by: Expr) -> Stmt {
    visit::substitute_stmt(s, &HashMap::from([(var, by)]))
}

/// Renames every loop of a subtree (names are for people: ids stay).
pub fn rename_loops(s: &Stmt, f: &dyn Fn(&str) -> String) -> Stmt {
    visit::map_stmts(s, &mut |s| match s.as_loop() {
        Some(l) => {
            let binder = lathe_ir::Binder { name: f(&l.binder.name).into(), ..l.binder.clone() };
            s.with_kind(StmtKind::Loop(Loop { binder, ..l.clone() }))
        }
        None => s,
    })
}

/// The number of iterations of a loop: `ceil((hi - lo) / step)`; negative extents count as they are.
pub fn trip_count(l: &Loop) -> Expr {
    use lathe_ir::build::{ceil_div, sub};
    let n = sub(l.hi.clone(), l.lo.clone());
    if l.step == 1 { n } else { ceil_div(n, l.step) }
}

/// Whether the variable occurs in an expression of the subtree's loop bounds.
pub fn in_bounds(s: &Stmt, v: VarId) -> bool {
    let own = s.as_loop().is_some_and(|l| mentions(&l.lo, v) || mentions(&l.hi, v));
    own || s.children().any(|c| in_bounds(c, v))
}

pub fn mentions(e: &Expr, v: VarId) -> bool {
    visit::vars_of(e).contains(&v)
}

/// The longer path, one position further.
pub fn child(path: &[usize], position: usize) -> Path {
    path.iter().copied().chain([position]).collect()
}

/// Whether a path leads to a loop.
pub fn is_loop(root: &Stmt, path: &[usize]) -> bool {
    visit::at(root, path).is_some_and(|s| s.as_loop().is_some())
}
