//! Replaces math functions by their expansions.

use super::term::Term;
use super::{exp_log, hyperbolic, pow, trig};
use crate::build::math;
use crate::expr::{Expr, ExprKind};
use crate::func::Function;
use crate::ops::MathFn;
use crate::types::Scalar;
use crate::visit::{map_expr, map_stmts, walk_expr};

/// The expansion of `f(args)`; `f(args)` itself where `f` is exact or the type is not a float.
/// `f16` and `bf16` go through `f32`.
///
/// # Panics
/// When the number of arguments does not fit (as [`crate::build::math`]).
pub fn expand(f: MathFn, args: &[Expr]) -> Expr {
    let ty = args.first().and_then(|a| a.ty().scalar());
    let terms: Vec<Term> = args.iter().cloned().map(Term).collect();
    match (ty, &terms[..]) {
        (Some(ty @ (Scalar::F16 | Scalar::Bf16)), _) if !f.is_exact() => {
            let wide: Vec<Expr> = terms.iter().map(|t| t.cast(Scalar::F32).0).collect();
            Term(expand(f, &wide)).cast(ty).0
        }
        (Some(Scalar::F32 | Scalar::F64), [x]) => match f {
            MathFn::Exp => exp_log::exp(x).0,
            MathFn::Exp2 => exp_log::exp2(x).0,
            MathFn::Log => exp_log::log(x).0,
            MathFn::Log2 => exp_log::log2(x).0,
            MathFn::Sin => trig::sin(x).0,
            MathFn::Cos => trig::cos(x).0,
            MathFn::Tan => trig::tan(x).0,
            MathFn::Tanh => exp_log::tanh(x).0,
            MathFn::Sigmoid => exp_log::sigmoid(x).0,
            MathFn::Erf => exp_log::erf(x).0,
            MathFn::Atan => trig::atan(x).0,
            MathFn::Expm1 => hyperbolic::expm1(x).0,
            MathFn::Log1p => hyperbolic::log1p(x).0,
            MathFn::Log10 => exp_log::log10(x).0,
            MathFn::Sinh => hyperbolic::sinh(x).0,
            MathFn::Cosh => hyperbolic::cosh(x).0,
            MathFn::Asin => trig::asin(x).0,
            MathFn::Acos => trig::acos(x).0,
            MathFn::Asinh => hyperbolic::asinh(x).0,
            MathFn::Acosh => hyperbolic::acosh(x).0,
            MathFn::Atanh => hyperbolic::atanh(x).0,
            _ => math(f, args.to_vec()),
        },
        (Some(Scalar::F32 | Scalar::F64), [x, y]) => match f {
            MathFn::Pow => pow::pow(x, y).0,
            MathFn::Atan2 => trig::atan2(x, y).0,
            MathFn::Hypot => hyperbolic::hypot(x, y).0,
            _ => math(f, args.to_vec()),
        },
        _ => math(f, args.to_vec()),
    }
}

/// The expression with every math function that is not exact expanded; shared nodes once.
pub fn expand_expr(e: &Expr) -> Expr {
    let mut found = false;
    walk_expr(e, &mut |x| found |= matches!(x.kind(), ExprKind::Math(f, _) if !f.is_exact()));
    if !found {
        return e.clone();
    }
    map_expr(e, &mut |x| match x.kind() {
        ExprKind::Math(f, args) if !f.is_exact() => expand(*f, args),
        _ => x,
    })
}

/// The function with every expression expanded.
pub fn expand_function(f: &Function) -> Function {
    let mut out = f.clone();
    out.body = map_stmts(&f.body, &mut |s| {
        let old: Vec<Expr> = s.exprs().into_iter().cloned().collect();
        let new: Vec<Expr> = old.iter().map(expand_expr).collect();
        let same = old.iter().zip(&new).all(|(a, b)| a.address() == b.address());
        if same { s } else { s.with_exprs(new) }
    });
    out.result = f.result.as_ref().map(expand_expr);
    out
}
