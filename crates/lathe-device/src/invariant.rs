//! Loads that are the same in all iterations of a thread's loops, from what its block shares: a thread reads them once,
//! before its loops. Compilers of kernels keep such loads in the loops where something else is written there.

use lathe_ir::build::load;
use lathe_ir::visit::{Memo, loads_of, map_expr, map_exprs, vars_of, walk};
use lathe_ir::{Access, BinOp, Binder, BufId, Expr, ExprKind, Scalar, Status, Stmt, StmtKind, VarId};
use std::collections::HashSet;

/// The code of one thread in a phase, with such loads in front. `varying`: variables that are not bound around it;
/// `shared`: whose elements may be read earlier, as far as the code writes none of them.
pub fn hoisted(
    body: Stmt,
    varying: &[VarId],
    shared: &dyn Fn(BufId) -> bool,
    fresh: &mut dyn FnMut(&str, Scalar) -> Binder,
) -> Stmt {
    let (mut bound, mut written): (HashSet<VarId>, HashSet<BufId>) =
        (varying.iter().copied().collect(), HashSet::new());
    walk(&body, &mut |s, _| {
        bound.extend(s.as_loop().map(|l| l.binder.id));
        bound.extend(s.as_let().map(|l| l.0.id));
        if let StmtKind::Atomic(a) = s.kind() {
            bound.extend(a.old.as_ref().map(|b| b.id));
        }
        let touches = s.touches();
        written.extend(touches.iter().filter(|(_, mode)| mode.writes()).filter_map(|(t, _)| t.buffer()));
        true
    });
    let mut found: Vec<Access> = Vec::new();
    in_loops(&body, false, &mut found);
    found.retain(|a| {
        let known = a.view.buffer().is_some_and(|b| shared(b) && !written.contains(&b));
        let fixed = |e: &Expr| vars_of(e).is_disjoint(&bound) && loads_of(e).is_empty();
        known && a.status != Status::Unproved && a.elem.scalar().is_some() && a.indices.iter().all(fixed)
    });
    found.into_iter().fold(body, |body, a| {
        let Some(ty) = a.elem.scalar() else { return body };
        let binder = fresh("once", ty);
        let here = lathe_ir::build::var(&binder);
        let body = map_exprs(&body, &mut |e| {
            map_expr(e, &mut |e| match e.kind() {
                ExprKind::Load(b) if *b == a => here.clone(),
                _ => e,
            })
        });
        Stmt::of(StmtKind::Let { binder, value: load(a), body })
    })
}

/// Loads that surely happen, in loops that surely run.
fn in_loops(s: &Stmt, inside: bool, out: &mut Vec<Access>) {
    if inside {
        s.evaluated().into_iter().for_each(|e| sure(e, out));
    }
    if let Some(l) = s.as_loop() {
        let runs = l.lo.as_int().zip(l.hi.as_int()).is_some_and(|(lo, hi)| lo < hi);
        if runs {
            in_loops(&l.body, true, out);
        }
    } else if s.as_if().is_none() && !matches!(s.kind(), StmtKind::While { .. }) {
        s.children().for_each(|c| in_loops(c, inside, out));
    }
}

/// Loads of an expression that no other value of it leaves out.
fn sure(e: &Expr, out: &mut Vec<Access>) {
    sure_in(e, &mut Memo::default(), out);
}

fn sure_in(e: &Expr, seen: &mut Memo<()>, out: &mut Vec<Access>) {
    seen.of(e, |seen| sure_of_node(e, seen, out));
}

fn sure_of_node(e: &Expr, seen: &mut Memo<()>, out: &mut Vec<Access>) {
    match e.kind() {
        ExprKind::Load(a) => {
            if !out.contains(a) {
                out.push(a.clone());
            }
            a.indices.iter().for_each(|i| sure_in(i, seen, out));
        }
        ExprKind::Select(cond, ..) => sure_in(cond, seen, out),
        ExprKind::Binary(BinOp::And | BinOp::Or, first, _) => sure_in(first, seen, out),
        _ => e.children().into_iter().for_each(|c| sure_in(c, seen, out)),
    }
}
