//! Errors and derivatives of the math functions.

use crate::build::{add, binary, float, math, mul, neg, select, sub};
use crate::expr::Expr;
use crate::ops::{BinOp, MathFn};
use crate::types::Scalar;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub f: MathFn,
    /// Largest error in units in the last place of the true result (0.5: correctly rounded), as the
    /// tests bound it.
    pub ulp_f32: f64,
    pub ulp_f64: f64,
    /// Where the bound holds, and what is given elsewhere.
    pub domain: &'static str,
}

const fn row(f: MathFn, ulp_f32: f64, ulp_f64: f64, domain: &'static str) -> Entry {
    Entry { f, ulp_f32, ulp_f64, domain }
}

const TRIGONOMETRIC: &str = "|x| < 2^50; NaN beyond";

/// Every math function.
pub static TABLE: &[Entry] = &[
    row(MathFn::Abs, 0.0, 0.0, "all"),
    row(MathFn::Sqrt, 0.5, 0.5, "all"),
    row(MathFn::Fma, 0.5, 0.5, "all"),
    row(MathFn::Floor, 0.0, 0.0, "all"),
    row(MathFn::Ceil, 0.0, 0.0, "all"),
    row(MathFn::Round, 0.0, 0.0, "all"),
    row(MathFn::Trunc, 0.0, 0.0, "all"),
    row(MathFn::Exp, 1.0, 1.0, "all"),
    row(MathFn::Exp2, 1.0, 1.0, "all"),
    row(MathFn::Log, 1.0, 1.0, "all; NaN below 0"),
    row(MathFn::Log2, 1.0, 1.0, "all; NaN below 0"),
    row(MathFn::Sin, 1.5, 1.0, TRIGONOMETRIC),
    row(MathFn::Cos, 1.5, 1.0, TRIGONOMETRIC),
    row(MathFn::Tan, 3.0, 2.5, TRIGONOMETRIC),
    row(MathFn::Tanh, 2.0, 2.0, "all"),
    row(MathFn::Sigmoid, 2.5, 2.5, "all"),
    row(MathFn::Erf, 1.5, 1.5, "all"),
    row(MathFn::Pow, 0.75, 1.0, "all; special cases as C's pow"),
    row(MathFn::Atan, 1.5, 1.5, "all"),
    row(MathFn::Atan2, 2.5, 2.5, "all; special cases as C's atan2"),
    row(MathFn::Expm1, 2.0, 2.0, "all"),
    row(MathFn::Log1p, 2.0, 2.0, "all; NaN below -1"),
    row(MathFn::Log10, 1.0, 1.0, "all; NaN below 0"),
    row(MathFn::Sinh, 2.5, 2.5, "all"),
    row(MathFn::Cosh, 2.0, 2.0, "all"),
    row(MathFn::Asin, 3.0, 3.0, "|x| <= 1; NaN beyond"),
    row(MathFn::Acos, 3.0, 3.0, "|x| <= 1; NaN beyond"),
    row(MathFn::Asinh, 3.0, 3.0, "all"),
    row(MathFn::Acosh, 3.0, 3.0, "all; NaN below 1"),
    row(MathFn::Atanh, 3.0, 3.0, "|x| <= 1; NaN beyond"),
    row(MathFn::Hypot, 1.25, 1.25, "all; infinite with an infinite argument"),
];

/// The row of a function.
pub fn entry(f: MathFn) -> Option<&'static Entry> {
    TABLE.iter().find(|e| e.f == f)
}

/// The partial derivative of `f(args)` by argument `which`, as an expression over the same arguments.
/// Where there is none (a step, a kink), it is that of the side that evaluates to a number: 0.
/// `None` if there is no such argument, or the arguments are not floats.
pub fn derivative(f: MathFn, args: &[Expr], which: usize) -> Option<Expr> {
    let ty = args.first()?.ty().scalar().filter(|t| t.is_float())?;
    let x = args.get(which)?.clone();
    if args.len() != f.arity() {
        return None;
    }
    let c = |v: f64| float(ty, v);
    let this = || math(f, args.to_vec());
    let call = |g: MathFn, a: Expr| math(g, vec![a]);
    let div = |a: Expr, b: Expr| binary(BinOp::Div, a, b);
    let square = |a: Expr| mul(a.clone(), a);
    let is = |op: BinOp, a: &Expr, v: f64| binary(op, a.clone(), float(ty, v));
    Some(match (f, which) {
        (MathFn::Abs, _) => {
            let not_positive = select(is(BinOp::Lt, &x, 0.0), c(-1.0), c(0.0));
            select(is(BinOp::Gt, &x, 0.0), c(1.0), not_positive)
        }
        (MathFn::Sqrt, _) => div(c(0.5), this()),
        (MathFn::Fma, 0) => args[1].clone(),
        (MathFn::Fma, 1) => args[0].clone(),
        (MathFn::Fma, _) => c(1.0),
        (MathFn::Floor | MathFn::Ceil | MathFn::Round | MathFn::Trunc, _) => c(0.0),
        (MathFn::Exp, _) => this(),
        (MathFn::Exp2, _) => mul(this(), c(std::f64::consts::LN_2)),
        (MathFn::Log, _) => div(c(1.0), x),
        (MathFn::Log2, _) => div(c(std::f64::consts::LOG2_E), x),
        (MathFn::Sin, _) => call(MathFn::Cos, x),
        (MathFn::Cos, _) => neg(call(MathFn::Sin, x)),
        (MathFn::Tan, _) => add(square(this()), c(1.0)),
        (MathFn::Tanh, _) => sub(c(1.0), square(this())),
        (MathFn::Sigmoid, _) => mul(this(), sub(c(1.0), this())),
        (MathFn::Erf, _) => mul(c(std::f64::consts::FRAC_2_SQRT_PI), call(MathFn::Exp, neg(square(x)))),
        (MathFn::Pow, 0) => {
            let (base, y) = (args[0].clone(), args[1].clone());
            let lower = math(MathFn::Pow, vec![base, sub(y.clone(), c(1.0))]);
            // x^0 is 1 everywhere, at 0 too, where the formula would say 0 times infinity.
            select(is(BinOp::Eq, &y, 0.0), c(0.0), mul(y, lower))
        }
        (MathFn::Pow, _) => {
            let base = args[0].clone();
            let by_log = mul(this(), call(MathFn::Log, base.clone()));
            select(is(BinOp::Eq, &base, 0.0), c(0.0), by_log)
        }
        (MathFn::Atan, _) => div(c(1.0), add(square(x), c(1.0))),
        (MathFn::Atan2, _) => {
            let (y, x) = (args[0].clone(), args[1].clone());
            let norm = add(square(x.clone()), square(y.clone()));
            div(if which == 0 { x } else { neg(y) }, norm)
        }
        (MathFn::Expm1, _) => call(MathFn::Exp, x),
        (MathFn::Log1p, _) => div(c(1.0), add(x, c(1.0))),
        (MathFn::Log10, _) => div(c(std::f64::consts::LOG10_E), x),
        (MathFn::Sinh, _) => call(MathFn::Cosh, x),
        (MathFn::Cosh, _) => call(MathFn::Sinh, x),
        (MathFn::Asin | MathFn::Acos, _) => {
            let root = call(MathFn::Sqrt, mul(sub(c(1.0), x.clone()), add(c(1.0), x)));
            div(c(if f == MathFn::Asin { 1.0 } else { -1.0 }), root)
        }
        (MathFn::Asinh, _) => div(c(1.0), math(MathFn::Hypot, vec![x, c(1.0)])),
        (MathFn::Acosh, _) => {
            let root = mul(call(MathFn::Sqrt, sub(x.clone(), c(1.0))), call(MathFn::Sqrt, add(x, c(1.0))));
            div(c(1.0), root)
        }
        (MathFn::Atanh, _) => div(c(1.0), mul(sub(c(1.0), x.clone()), add(c(1.0), x))),
        // At the origin, a kink, it is 0.
        (MathFn::Hypot, _) => select(is(BinOp::Eq, &this(), 0.0), c(0.0), div(x, this())),
    })
}

/// The distance of two values in units in the last place of `want`, as [`Entry`] counts: `got` and
/// `want` are values of type `ty`, `want` before its rounding. 0 for two NaN or equal infinities.
pub fn error_in_ulp(ty: Scalar, got: f64, want: f64) -> f64 {
    if (got.is_nan() && want.is_nan()) || got == want {
        return 0.0;
    }
    let (digits, lowest, largest) = match ty {
        Scalar::F16 => (11, -24, 65504.0),
        Scalar::Bf16 => (8, -133, f64::from(f32::MAX)),
        Scalar::F32 => (24, -149, f64::from(f32::MAX)),
        _ => (53, -1074, f64::MAX),
    };
    if got.is_nan() || want.is_nan() {
        return f64::INFINITY;
    }
    // Beyond the largest value, infinity is right.
    let clamp = |v: f64| v.clamp(-largest, largest);
    let (got, want) = (clamp(got), clamp(want));
    let exponent =
        if want == 0.0 { lowest } else { (want.abs().log2().floor() as i32 - digits + 1).max(lowest) };
    (got - want).abs() / 2f64.powi(exponent.max(-1000)) * 2f64.powi((-1000 - exponent).max(0))
}
