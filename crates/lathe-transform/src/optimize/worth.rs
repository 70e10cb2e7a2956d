//! Which expressions are worth a name of their own, and where they are evaluated.

use lathe_ir::{BinOp, Expr, ExprKind, Scalar, Stmt, visit};
use std::collections::HashSet;

/// Numbers that cost something. Integers stay where they are: analyses read subscripts and bounds.
fn is_number(e: &Expr) -> bool {
    e.ty().scalar().is_some_and(Scalar::is_float)
}

fn is_leaf(e: &Expr) -> bool {
    matches!(e.kind(), ExprKind::Float(_) | ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::Var(_))
}

/// Something computed, not just read.
pub fn is_computed(e: &Expr) -> bool {
    is_number(e) && !is_leaf(e) && !matches!(e.kind(), ExprKind::Load(_) | ExprKind::Cast(_))
}

/// Something computed or read.
pub fn is_read(e: &Expr) -> bool {
    is_number(e) && !is_leaf(e) && !is_cheap(e)
}

/// A conversion of an integer costs as much as keeping it.
fn is_cheap(e: &Expr) -> bool {
    matches!(e.kind(), ExprKind::Cast(a) if is_leaf(a))
}

/// Whether an expression has a value wherever its variables do: it reads nothing and cannot fail.
pub fn is_total(e: &Expr) -> bool {
    let mut total = !crate::failing::may_fail(e);
    visit::walk_expr(e, &mut |x| total &= !matches!(x.kind(), ExprKind::Load(_) | ExprKind::Address(_)));
    total
}

/// The expressions that a statement evaluates whenever it runs, once, before it writes: not those of index notation,
/// which are evaluated for every point, or for none.
pub fn roots(s: &Stmt) -> Vec<Expr> {
    let once = s.as_store().is_some()
        || s.as_reduce().is_some()
        || s.as_if().is_some()
        || s.as_let().is_some()
        || s.as_loop().is_some();
    if once { s.evaluated().into_iter().cloned().collect() } else { Vec::new() }
}

/// The parts of an expression that are evaluated whenever it is, and that `fits`; of nested ones the largest.
pub fn certain(e: &Expr, fits: &mut impl FnMut(&Expr) -> bool, out: &mut Vec<Expr>) {
    let parts = |e: &Expr| match e.kind() {
        ExprKind::Select(c, ..) => vec![c.clone()],
        ExprKind::Binary(BinOp::And | BinOp::Or, a, _) => vec![a.clone()],
        _ => e.children().into_iter().cloned().collect(),
    };
    largest(e, &parts, fits, &mut HashSet::new(), out);
}

/// All parts of an expression that `fits`; of nested ones the largest.
pub fn anywhere(e: &Expr, fits: &mut impl FnMut(&Expr) -> bool, out: &mut Vec<Expr>) {
    largest(e, &|e| e.children().into_iter().cloned().collect(), fits, &mut HashSet::new(), out);
}

/// The largest expressions that `fits`, of an expression and what `parts` says to look at in it, each once.
fn largest(
    e: &Expr,
    parts: &impl Fn(&Expr) -> Vec<Expr>,
    fits: &mut impl FnMut(&Expr) -> bool,
    seen: &mut HashSet<usize>,
    out: &mut Vec<Expr>,
) {
    if !seen.insert(e.address()) {
        return;
    }
    if !fits(e) {
        parts(e).iter().for_each(|c| largest(c, parts, fits, seen, out));
    } else if !out.contains(e) {
        out.push(e.clone());
    }
}

/// An expression with one part replaced, wherever it occurs.
pub fn replaced(e: &Expr, part: &Expr, by: &Expr) -> Expr {
    visit::map_expr(e, &mut |x| if x == *part { by.clone() } else { x })
}

/// A statement, and all that it holds, with one part of its expressions replaced.
pub fn replaced_in(s: &Stmt, part: &Expr, by: &Expr) -> Stmt {
    visit::map_exprs(s, &mut |e| replaced(e, part, by))
}

/// All that the expressions of a statement and what it holds compute.
pub fn parts(s: &Stmt, out: &mut HashSet<Expr>) {
    for e in s.evaluated() {
        visit::walk_expr(e, &mut |x| {
            out.insert(x.clone());
        });
    }
    s.children().for_each(|c| parts(c, out));
}
