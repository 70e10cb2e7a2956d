//! `to_reduction`: recognizes reductions in stores and conditions.

use crate::args::Args;
use crate::codes;
use crate::laws;
use crate::rule;
use crate::search::Search;
use crate::storage::{fresh_name, proved};
use crate::work::Work;
use lathe_analysis::{Assumptions, prove_accesses, prove_defined};
use lathe_diagnostics::Severity;
use lathe_ir::names::Role;
use lathe_ir::visit::{self, Path};
use lathe_ir::{
    Access, BinOp, Buffer, Executor, Expr, ExprKind, Function, Label, Loop, Module, Reduce, ReduceOp, Space,
    Stmt, StmtKind, Store, Type, build, reduce,
};
use lathe_prove::Which;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Construction, Obligation, Refusal};
use std::collections::HashMap;
use std::sync::Arc;

rule! {
    /// *Reduction recognition* and *if-conversion*: the statement `B` becomes a reduction, whose instances may be combined
    /// in any order, as those of `op=`:
    ///
    /// | of | becomes |
    /// |---|---|
    /// | `x = x + e`, `x = e + x`, `x = x - e`; likewise `*`, `min`, `max`, `and`, `or` | `x op= e` |
    /// | `if e > x { x = e }` over integers; likewise `>=`, `<`, `<=` | `x max= e`, `x min= e` |
    /// | `if c { x op= e }` | `x op= select(c, e, identity)` |
    /// | `x op= e` that keeps its order, of a fun's `reduceSeq` | `x op= e` in any order |
    /// | `for i { if e > x { x = e; p = f(i) } }`, without `p` over floating-point numbers, too | `(b, k) = argmax[i](e)`, and then `if b > x { x = b; p = f(k) }` once |
    ///
    /// **Legal** if `e` does not read `x`, the loops around are serial, and `x` exists and is initialized also where the
    /// condition does not hold. Sums and products of floating-point numbers written as `x = x + e` are combined in their
    /// order otherwise; using the step declares another order acceptable, which is recorded. `e > x` does not hold for a NaN,
    /// which is what `max` of it would be: the last form finds the first of the largest elements with NaNs left out
    /// (`select(e > -inf, e, -inf)`), and changes `x` and `p` only where that element is larger than `x`, so that results
    /// have the same bits. It needs `f` without accesses, and `>=` and `<=`, which find the last element, are refused. The
    /// inverse of `if c { x op= e }` is `guard`.
    ///
    /// ```lathe
    /// kernel positive(A: f64[M, N], y: inout f64[M]) {
    ///     for i in 0..M {
    ///         for j in 0..N {
    ///             if A[i, j] > 0 {
    ///                 y[i] += A[i, j]
    ///             }
    ///         }
    ///     }
    /// }
    /// strategy lanes for positive = to_reduction(y) ; affine_schedule(i, vector: vector(f64), lanes: any)
    /// ```
    pub static RULE = to_reduction, version 1, (label: one Label), apply,
        "recognizes a reduction in `x = x + e`, `if e > x { x = e }` or `if c { x += e }`";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let (label, found) = work.labelled(args)?;
    for (path, s) in found.into_iter().rev() {
        if let Some((path, new)) = searched(work, &path, &s) {
            let types = [new.value.elem.clone(), Type::INDEX];
            let (module, which) = (cursor.module, Which::Associative);
            work.relies_on(&laws::rely(
                work.rule(),
                module,
                cursor.func,
                &new.op,
                &types,
                which,
                s.places(),
            )?);
            work.replace_by_rule(&path, new.tree, Kind::Combine, Construction::Combined)?;
            if !exists(cursor.module, cursor.func, work.func()) {
                let text =
                    format!("the old value of `{label}` may not exist where the loop has no iterations");
                return Err(work.refuse_at(codes::SHAPE, text, "initialize it first", s.places()));
            }
            continue;
        }
        // The condition around, if the statement is all that it decides about.
        let (path, old) = match path.split_last().and_then(|(_, outer)| Some((outer, cursor.at(outer)?))) {
            Some((outer, around)) if around.as_if().is_some_and(|(_, t, e)| *t == s && e.is_none()) => {
                (outer.to_vec(), around.clone())
            }
            _ => (path, s.clone()),
        };
        let Some(new) = reduction(cursor.module, &old) else {
            let text = format!("`{label}` is no reduction");
            let help = "recognized are `x = x op e`, `if e > x { x = e; p = i }` alone in a loop, `if e > x { x = e }` over \
                        integers, and `if c { x op= e }`; for floating-point numbers write `x max= e`, which differs where there \
                        are NaNs";
            return Err(work.refuse_at(codes::SHAPE, text, help, s.places()));
        };
        let serial = |n: usize| {
            let around = cursor.at(&path[..n]).and_then(Stmt::as_loop);
            around.is_none_or(|l| matches!(l.exec, Executor::Serial | Executor::Unrolled))
        };
        if !(0..path.len()).all(serial) {
            let text = format!("a loop around `{label}` is not serial");
            return Err(work.refuse_at(
                codes::SHAPE,
                text,
                "use the step before such a loop is made",
                s.places(),
            ));
        }
        let types: Vec<Type> = new.targets.iter().map(|t| t.elem.clone()).collect();
        let which = match old.as_if() {
            Some((_, then, _)) if then.as_reduce().is_some() => &[Which::Identity][..],
            _ => &[Which::Associative, Which::Commutative],
        };
        for which in which {
            let law =
                laws::rely(work.rule(), cursor.module, cursor.func, &new.op, &types, *which, s.places())?;
            if !law.law.is_exact() {
                work.changes_rounding(&label);
                if *which == Which::Associative {
                    work.oblige(Obligation::stated(Claim::Unordered { label: label.clone() }));
                }
            }
            work.relies_on(&law);
        }
        let conditional = old.as_if().is_some();
        let new = Stmt::new(StmtKind::Reduce(new), old.places().clone());
        work.replace_by_rule(&path, new, Kind::Bijection, Construction::Combined)?;
        if conditional && !exists(cursor.module, cursor.func, work.func()) {
            let text = format!("`{label}` may access an element that exists only where the condition holds");
            return Err(work.refuse_at(
                codes::SHAPE,
                text,
                "initialize it, or leave the step out",
                s.places(),
            ));
        }
    }
    Ok(())
}

/// A search for the largest or smallest element as a reduction.
struct Searched {
    op: ReduceOp,
    value: Arc<Buffer>,
    tree: Stmt,
}

/// The loop in which a store is what a comparison with the old value decides about, as a reduction that finds the first of
/// the largest elements, and the comparison with that one. None, where integers need no position, too: they have `max`.
fn searched(work: &mut Work, path: &[usize], s: &Stmt) -> Option<(Path, Searched)> {
    let func = work.cursor().func;
    let at = (0..path.len()).rev().find(|n| {
        let outer = visit::at(&func.body, &path[..*n]);
        outer.is_some_and(|s| s.as_loop().is_some())
    })?;
    let old = visit::at(&func.body, &path[..at])?;
    let l = old.as_loop().filter(|l| l.exec == Executor::Serial)?;
    let search = Search::of(func, l)?;
    let st = s.as_store().filter(|st| st.target == search.best.target && st.label == search.best.label)?;
    if st.value.ty().is_int() && search.others.is_empty() {
        return None;
    }
    let elem = st.target.elem.clone();
    let op = if search.larger { ReduceOp::ArgMax } else { ReduceOp::ArgMin };
    let start = reduce::identity(work.module(), &op, &[elem.clone(), Type::INDEX])?;
    let name = fresh_name(func, &Role::Best.of(&st.label));
    let second = fresh_name(func, &Role::Out.of(&name));
    let made =
        |name: &str, elem: &Type, id| Buffer::local(id, name, elem.clone(), Vec::new(), Space::Register);
    let value = made(&name, &elem, work.fresh_buf());
    let position = made(&second, &Type::INDEX, work.fresh_buf());
    let targets = [proved(value.id, &elem, Vec::new()), proved(position.id, &Type::INDEX, Vec::new())];
    let (found, place) = (build::load(targets[0].clone()), build::load(targets[1].clone()));
    let outside = |all: &[Expr]| -> Vec<Expr> {
        all.iter().filter(|e| !visit::vars_of(e).contains(&l.binder.id)).cloned().collect()
    };
    let stmt = |kind| Stmt::new(kind, s.places().clone());
    let init = |n: usize| {
        let label = Label::new(Role::Init.nth(&name, n));
        let target = targets[n].clone();
        stmt(StmtKind::Store(Store::new(label, outside(&st.instance), target, start[n].clone())))
    };
    let e = search.value.clone();
    // Neither a NaN nor what is as small as nothing at all is found.
    let counted = match e.ty().is_float() {
        true => build::select(
            build::binary(search.op(), e.clone(), start[0].clone()),
            e.clone(),
            start[0].clone(),
        ),
        false => e.clone(),
    };
    let body = stmt(StmtKind::Reduce(Reduce {
        label: Label::new(&name),
        instance: st.instance.clone(),
        op: op.clone(),
        targets: targets.to_vec(),
        values: vec![counted, build::var(&l.binder)],
        licence: true,
        contract: false,
    }));
    let search_loop = old.with_kind(StmtKind::Loop(Loop { body, ..l.clone() }));
    let stores = search.stores.iter().map(|(s, st)| {
        let value = match st.target == search.best.target {
            true => found.clone(),
            false => {
                visit::substitute(&search.written(&st.value), &HashMap::from([(l.binder.id, place.clone())]))
            }
        };
        s.with_kind(StmtKind::Store(Store { value, instance: outside(&st.instance), ..(*st).clone() }))
    });
    let cond = build::binary(search.op(), found.clone(), build::load(search.best.target.clone()));
    let then = Stmt::seq(stores.collect::<Vec<_>>());
    let last = stmt(StmtKind::If { cond, then, other: None });
    let whole = Stmt::seq([init(0), init(1), search_loop, last]);
    let whole = stmt(StmtKind::Alloc { buffer: position, body: whole });
    let tree = stmt(StmtKind::Alloc { buffer: value.clone(), body: whole });
    Some((path[..at].to_vec(), Searched { op, value, tree }))
}

/// Whether no access of the tree after needs a check, or reads what nobody wrote, where that was not so before.
fn exists(module: &Module, before: &Function, after: &Function) -> bool {
    let needed = |f: &Function| {
        let (f, found) = prove_accesses(module, f, Assumptions::Trusted);
        let mut checks = found.iter().filter(|d| d.severity == Severity::Error).count();
        visit::walk(&f.body, &mut |s, _| {
            checks += usize::from(matches!(s.kind(), StmtKind::Check { .. }));
            true
        });
        (checks, prove_defined(module, &f).len())
    };
    let (old, new) = (needed(before), needed(after));
    new.0 <= old.0 && new.1 <= old.1
}

/// The reduction that a statement is, with the condition around it.
fn reduction(module: &Module, s: &Stmt) -> Option<Reduce> {
    if let Some((cond, then, None)) = s.as_if()
        && let Some(r) = then.as_reduce()
    {
        let ([target], [value]) = (&r.targets[..], &r.values[..]) else { return None };
        let neutral = reduce::identity(module, &r.op, std::slice::from_ref(&target.elem))?.pop()?;
        let reads = visit::loads_of(cond).iter().any(|a| a.view == target.view);
        let value = build::select(cond.clone(), value.clone(), neutral);
        return (!reads && !r.contract).then(|| Reduce { values: vec![value], ..r.clone() });
    }
    if let Some(r) = s.as_reduce() {
        let own = |a: &Access| r.targets.iter().any(|t| t.view == a.view);
        let reads = r.values.iter().flat_map(visit::loads_of).any(|a| own(&a));
        return (!r.licence && !r.contract && !reads).then(|| Reduce { licence: true, ..r.clone() });
    }
    let st = match s.as_if() {
        Some((_, then, None)) => then.as_store()?,
        _ => s.as_store()?,
    };
    let (op, value) = match s.as_if() {
        Some((cond, _, _)) => {
            let max = compares(cond, &st.target, &st.value)?;
            (if max { ReduceOp::Max } else { ReduceOp::Min }, st.value.clone())
        }
        None => updated(&st.target, &st.value)?,
    };
    // Of a value that depends on the old one, no part can be combined apart from the others.
    let reads =
        visit::loads_of(&value).iter().any(|a| a.view == st.target.view && a.indices == st.target.indices);
    // Sums of indices do not wrap: in another order, one may be beyond 64 bits.
    let wraps = !st.target.elem.is_index() || matches!(op, ReduceOp::Min | ReduceOp::Max);
    let plain = !st.nontemporal && matches!(st.target.elem, Type::Scalar(_)) && wraps;
    (plain && !reads).then(|| Reduce {
        label: st.label.clone(),
        instance: st.instance.clone(),
        op,
        targets: vec![st.target.clone()],
        values: vec![value],
        licence: true,
        contract: false,
    })
}

/// `x op e` or `e op x`: the operator and `e`.
fn updated(x: &Access, value: &Expr) -> Option<(ReduceOp, Expr)> {
    let ExprKind::Binary(op, a, b) = value.kind() else { return None };
    let reduces = match op {
        BinOp::Add | BinOp::Sub => ReduceOp::Sum,
        BinOp::Mul => ReduceOp::Prod,
        BinOp::Min => ReduceOp::Min,
        BinOp::Max => ReduceOp::Max,
        BinOp::And => ReduceOp::All,
        BinOp::Or => ReduceOp::Any,
        _ => return None,
    };
    if *op == BinOp::Sub {
        return is(a, x).then(|| (reduces, build::neg(b.clone())));
    }
    let e = if is(a, x) {
        b
    } else if is(b, x) {
        a
    } else {
        return None;
    };
    Some((reduces, e.clone()))
}

/// Whether a condition is `e > x`, and not `e < x`; none, if it is neither, or if an order between the two may not exist.
fn compares(cond: &Expr, x: &Access, e: &Expr) -> Option<bool> {
    let ExprKind::Binary(op, a, b) = cond.kind() else { return None };
    let more = match op {
        BinOp::Gt | BinOp::Ge => true,
        BinOp::Lt | BinOp::Le => false,
        _ => return None,
    };
    match e.ty().is_int() {
        true if a == e && is(b, x) => Some(more),
        true if b == e && is(a, x) => Some(!more),
        _ => None,
    }
}

fn is(e: &Expr, x: &Access) -> bool {
    matches!(e.kind(), ExprKind::Load(a) if a.view == x.view && a.indices == x.indices)
}
