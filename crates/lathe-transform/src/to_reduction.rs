//! `to_reduction`: recognizes reductions in stores and conditions.

use crate::args::Args;
use crate::codes;
use crate::laws;
use crate::rule;
use crate::work::Work;
use lathe_analysis::{Assumptions, prove_accesses, prove_defined};
use lathe_diagnostics::Severity;
use lathe_ir::visit;
use lathe_ir::{
    Access, BinOp, Executor, Expr, ExprKind, Function, Module, Reduce, ReduceOp, Stmt, StmtKind, Type, build,
    reduce,
};
use lathe_prove::Which;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Construction, Obligation, Refusal};

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
    ///
    /// **Legal** if `e` does not read `x`, the loops around are serial, and `x` exists and is initialized also where the
    /// condition does not hold. Sums and products of floating-point numbers written as `x = x + e` are combined in their
    /// order otherwise; using the step declares another order acceptable, which is recorded. Comparisons of floating-point
    /// numbers are refused: `max` of a NaN is NaN, where `e > x` does not hold. The inverse of the last line is `guard`.
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
        // The condition around, if the statement is all that it decides about.
        let (path, old) = match path.split_last().and_then(|(_, outer)| Some((outer, cursor.at(outer)?))) {
            Some((outer, around)) if around.as_if().is_some_and(|(_, t, e)| *t == s && e.is_none()) => {
                (outer.to_vec(), around.clone())
            }
            _ => (path, s.clone()),
        };
        let Some(new) = reduction(cursor.module, &old) else {
            let text = format!("`{label}` is no reduction");
            let help = "recognized are `x = x op e`, `if e > x { x = e }` over integers, and `if c { x op= e }`; for \
                        floating-point numbers write `x max= e`, which differs where there are NaNs";
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
