//! `fma`: a product that is added is computed with one rounding (FMA).

use crate::args::Args;
use crate::codes;
use crate::rule;
use crate::work::Work;
use lathe_ir::expr::{Expr, ExprKind};
use lathe_ir::{BinOp, MathFn, Reduce, ReduceOp, Stmt, StmtKind, Store, UnOp, build, reduce, visit};
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Obligation, Refusal};

rule! {
    /// `fma(C)` turns a sum of products into fused multiply-adds in every statement labelled `C`: `C += a*b` and `C +=
    /// -(a*b)` add the product without rounding it first (a complex `C += a*b` the two products of each part, one after
    /// the other), and `a*b + c` inside an expression becomes `fma(a, b, c)`. Nothing else in Lathe fuses
    /// floating-point operations (LLVM: `fp-contract`). The step was called `contract`; that name is still accepted.
    ///
    /// The result may differ in its last bits (it is usually nearer to the exact one), so the step is recorded among
    /// those that change rounding. Refused where there is no floating-point product that is added.
    ///
    /// ```lathe
    /// kernel dot(x: f32[N], y: f32[N]) -> (s: f32) {
    ///     s = sum[i](x[i] * y[i])
    /// }
    /// strategy fused for dot = fma(s)
    /// ```
    pub static FMA = fma, version 1, (label: one Label), apply,
        "computes a product that is added with one rounding (FMA)";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let (label, found) = work.labelled(args)?;
    let mut changed = false;
    let mut places = lathe_diagnostics::Places::none();
    for (path, s) in found {
        places = places.union(s.places());
        let Some(new) = with_one_rounding(&s) else {
            let text = format!("`{label}` is neither a store nor a reduction");
            return Err(work.refuse_at(codes::SHAPE, text, "`open` it into loops first", s.places()));
        };
        changed |= &new != s.kind();
        work.replace_as_is(&path, s.with_kind(new), Kind::Bijection)?;
    }
    if !changed {
        let text = format!("`{label}` adds no floating-point product");
        return Err(work.refuse_at(codes::SHAPE, text, "leave the step out", &places));
    }
    work.changes_rounding(&label);
    work.oblige(Obligation::stated(Claim::RoundedOnce { label }));
    Ok(())
}

/// What the step makes of the statements of a tree whose labels `takes` takes: for cost models, which need no evidence.
pub fn with_fma(root: &Stmt, takes: impl Fn(&str) -> bool) -> Stmt {
    visit::map_stmts(root, &mut |s| match with_one_rounding(&s) {
        Some(new) if &new != s.kind() && s.label().is_some_and(|l| takes(l.as_str())) => s.with_kind(new),
        _ => s,
    })
}

/// A store or a reduction whose products that are added are rounded once.
fn with_one_rounding(s: &Stmt) -> Option<StmtKind> {
    Some(match (s.as_store(), s.as_reduce()) {
        (Some(st), _) => StmtKind::Store(Store { value: fuse(&st.value), ..st.clone() }),
        (_, Some(r)) => {
            let sum = r.op == ReduceOp::Sum;
            let value = |v: &Expr| if sum { fuse(&signed(v)) } else { fuse(v) };
            let values: Vec<Expr> = r.values.iter().map(value).collect();
            let product = sum && values.iter().any(reduce::adds_products);
            StmtKind::Reduce(Reduce { values, contract: r.contract || product, ..r.clone() })
        }
        (None, None) => return None,
    })
}

/// A negative product as one of a negative factor, which is the same number.
fn signed(e: &Expr) -> Expr {
    let ExprKind::Unary(UnOp::Neg, product) = e.kind() else { return e.clone() };
    match product.kind() {
        ExprKind::Binary(BinOp::Mul, a, b) if e.ty().is_float() => {
            build::mul(build::unary(UnOp::Neg, a.clone()), b.clone())
        }
        _ => e.clone(),
    }
}

/// `a*b + c` and `c + a*b` become `fma(a, b, c)`, `c - a*b` becomes `fma(-a, b, c)`, `a*b - c` becomes
/// `fma(a, b, -c)`; of two products that are added, the right one is fused, as in a running sum.
fn fuse(e: &Expr) -> Expr {
    let product = |e: &Expr| match e.kind() {
        ExprKind::Binary(BinOp::Mul, a, b) if e.ty().is_float() => Some((a.clone(), b.clone())),
        _ => None,
    };
    visit::map_expr(e, &mut |x| {
        let ExprKind::Binary(op @ (BinOp::Add | BinOp::Sub), l, r) = x.kind() else { return x };
        let minus = *op == BinOp::Sub;
        if let Some((a, b)) = product(r) {
            let a = if minus { build::unary(UnOp::Neg, a) } else { a };
            return build::math(MathFn::Fma, vec![a, b, l.clone()]);
        }
        if let Some((a, b)) = product(l) {
            let c = if minus { build::unary(UnOp::Neg, r.clone()) } else { r.clone() };
            return build::math(MathFn::Fma, vec![a, b, c]);
        }
        x
    })
}
