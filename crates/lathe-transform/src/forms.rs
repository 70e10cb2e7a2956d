//! Forms of rewriting that are decided although they change more than loops: what `guard` leaves out, lanes that combine
//! in their order, and reductions in the place of stores and conditions.

use crate::failing::may_fail;
use crate::runs::runs_kept;
use crate::search::same_search;
use lathe_analysis::Change;
use lathe_ir::lower;
use lathe_ir::visit::{Path, loads_of, map_stmts};
use lathe_ir::{
    Access, BinOp, Executor, Expr, ExprKind, Function, Label, Loop, Module, Reduce, ReduceOp, Stmt, StmtKind,
    build, reduce,
};
use lathe_poly::Ranges;
use lathe_poly::simplify::simplify_expr;

/// Whether the tree after is the tree before but for reductions that run only where they do not add the identity. That it
/// is the identity of the operator is a claim of its own.
pub fn guarded(c: &Change) -> Result<usize, String> {
    let mut compared = 0;
    left_out(c, &c.before.body, &c.after.body, &mut Path::new(), &mut compared)?;
    Ok(compared)
}

fn left_out(c: &Change, old: &Stmt, new: &Stmt, path: &mut Path, compared: &mut usize) -> Result<(), String> {
    if old.ptr_eq(new) || old == new {
        return Ok(());
    }
    *compared += 1;
    let changed = || match old.label() {
        Some(label) => format!("`{label}` was changed"),
        None => "a statement was changed".to_string(),
    };
    if let Some(r) = old.as_reduce() {
        return if is_guarded(c, r, new, path) { Ok(()) } else { Err(changed()) };
    }
    let same = old.children().len() == new.children().len()
        && old.children().len() > 0
        && old.with_children(new.children().cloned().collect()) == *new;
    if !same {
        return Err(changed());
    }
    for (n, (a, b)) in old.children().zip(new.children()).enumerate() {
        path.push(n);
        left_out(c, a, b, path, compared)?;
        path.pop();
    }
    Ok(())
}

/// `if cond { B op= v }` for `B op= select(cond, v, e)`, where `e` is the identity.
fn is_guarded(c: &Change, r: &Reduce, new: &Stmt, path: &[usize]) -> bool {
    let Some((cond, then, None)) = new.as_if() else { return false };
    let Some(q) = then.as_reduce() else { return false };
    let types: Vec<_> = r.targets.iter().map(|t| t.elem.clone()).collect();
    let Some(nothing) = reduce::identity(c.module, &r.op, &types) else { return false };
    let outside = Ranges::at(c.before, path);
    let mut inside = outside.clone();
    inside.learn(cond, true);
    let same = |a: &Expr, b: &Expr, at: &Ranges| a == b || simplify_expr(a, at) == *b;
    let value = |((v, q), nothing): ((&Expr, &Expr), &Expr)| {
        let ExprKind::Select(own, yes, no) = v.kind() else { return false };
        let kept = no == nothing && same(own, cond, &outside) && same(yes, q, &inside);
        let turned = yes == nothing && same(&build::not(own.clone()), cond, &outside) && same(no, q, &inside);
        (kept || turned) && !may_fail(q)
    };
    q.values.len() == r.values.len()
        && nothing.len() == r.values.len()
        && Reduce { values: q.values.clone(), ..r.clone() } == *q
        && r.values.iter().zip(&q.values).zip(&nothing).all(value)
}

/// Whether the tree after, its lanes that combine in order taken one after the other, runs what the tree before runs. That
/// the operator is associative is a claim of its own.
pub fn in_order(c: &Change) -> Option<Result<usize, String>> {
    let (before, after) = match (serial(c.before), serial(c.after)) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(why), _) | (_, Err(why)) => return Some(Err(why)),
    };
    runs_kept(&Change { module: c.module, before: &before, after: &after })
}

/// The function with such lanes one after the other.
fn serial(f: &Function) -> Result<Function, String> {
    let mut wrong = None;
    let body = map_stmts(&f.body, &mut |s| {
        let Some((l, width)) = s.as_loop().and_then(|l| match l.exec {
            Executor::InScan(width) => Some((l, width)),
            _ => None,
        }) else {
            return s;
        };
        if let Err(why) = lower::in_order(l, width) {
            wrong = Some(format!("the lanes of `{}` cannot combine in order: {why}", l.binder.name));
        }
        s.with_kind(StmtKind::Loop(Loop { exec: Executor::Serial, ..l.clone() }))
    });
    match wrong {
        Some(why) => Err(why),
        None => Ok(Function { body, ..f.clone() }),
    }
}

/// Whether the tree after is the tree before but for reductions that give their elements the values that stores and
/// conditions gave them. Laws of operators are claims of their own.
pub fn combined(c: &Change) -> Result<usize, String> {
    let mut compared = 0;
    reduced(c, &c.before.body, &c.after.body, &mut compared)?;
    Ok(compared)
}

fn reduced(c: &Change, old: &Stmt, new: &Stmt, compared: &mut usize) -> Result<(), String> {
    if old.ptr_eq(new) || old == new {
        return Ok(());
    }
    *compared += 1;
    if new.as_reduce().is_some_and(|r| gives(c.module, old, r)) || same_search(c, old, new) {
        return Ok(());
    }
    let alike = old.children().len() == new.children().len()
        && old.children().len() > 0
        && old.with_children(new.children().cloned().collect()) == *new;
    if !alike {
        let what = old.label().map_or("a statement".to_string(), |l| format!("`{l}`"));
        return Err(format!("{what} was changed"));
    }
    old.children().zip(new.children()).try_for_each(|(a, b)| reduced(c, a, b, compared))
}

/// Whether a statement gives one element the value that a reduction gives it, and is this instance.
fn gives(module: &Module, old: &Stmt, new: &Reduce) -> bool {
    // The same one, but for its order.
    if let Some(r) = old.as_reduce() {
        let reads = |a: &Access| r.targets.iter().any(|t| t.view == a.view);
        return new.licence
            && *r == Reduce { licence: r.licence, ..new.clone() }
            && !r.values.iter().flat_map(loads_of).any(|a| reads(&a));
    }
    let ([target], [value]) = (&new.targets[..], &new.values[..]) else { return false };
    let x = build::load(target.clone());
    let combine = |e: &Expr| {
        Some(reduce::combine(module, &new.op, std::slice::from_ref(&x), std::slice::from_ref(e))?.remove(0))
    };
    let (cond, inner) = match old.as_if() {
        Some((cond, then, None)) => (Some(cond), then),
        Some(_) => return false,
        None => (None, old),
    };
    let own = |a: &Access, label: &Label, instance: &[Expr]| {
        a.view == target.view
            && a.indices == target.indices
            && *label == new.label
            && *instance == *new.instance
    };
    let reads = |e: &Expr| loads_of(e).iter().any(|a| a.view == target.view && a.indices == target.indices);
    if let Some(r) = inner.as_reduce() {
        let ([t], [v], Some(cond)) = (&r.targets[..], &r.values[..], cond) else { return false };
        let neutral = reduce::identity(module, &r.op, std::slice::from_ref(&t.elem));
        let selects = matches!(value.kind(), ExprKind::Select(c, yes, no)
            if c == cond && yes == v && neutral.as_deref() == Some(std::slice::from_ref(no)));
        let kept = r.op == new.op && r.licence == new.licence && r.contract == new.contract;
        return own(t, &r.label, &r.instance) && selects && kept && !reads(cond);
    }
    let Some(st) = inner.as_store().filter(|st| own(&st.target, &st.label, &st.instance)) else {
        return false;
    };
    if reads(value) || new.contract || st.nontemporal {
        return false;
    }
    match cond {
        Some(cond) => {
            let (larger, smaller) = (&[BinOp::Gt, BinOp::Ge], &[BinOp::Lt, BinOp::Le]);
            let ExprKind::Binary(op, a, b) = cond.kind() else { return false };
            let ops = match new.op {
                ReduceOp::Max => [larger, smaller],
                ReduceOp::Min => [smaller, larger],
                _ => return false,
            };
            let fits = (*a == st.value && *b == x && ops[0].contains(op))
                || (*a == x && *b == st.value && ops[1].contains(op));
            fits && st.value == *value && value.ty().is_int()
        }
        None => match (combine(value).as_ref().map(Expr::kind), st.value.kind()) {
            (Some(ExprKind::Binary(p, x, e)), ExprKind::Binary(q, a, b)) if p == q => {
                (a == x && b == e) || (a == e && b == x)
            }
            (Some(ExprKind::Binary(BinOp::Add, x, e)), ExprKind::Binary(BinOp::Sub, a, b)) => {
                a == x && *e == build::neg(b.clone())
            }
            _ => false,
        },
    }
}
