//! Data of tests: literal lists and formulas over indices, evaluated when the file is loaded.

use crate::{InputSpec, Number};
use lathe_ir::{BinOp, Expr, ExprKind, MathFn, Scalar, UnOp, VarId, build};
use std::collections::HashMap;

/// Integers that variables stand for.
pub type Env = HashMap<VarId, i64>;

/// The leaves of a closed expression, depth first; `None` for what data cannot say (loads, overflow,
/// division by zero).
pub fn leaves(e: &Expr, env: &Env) -> Option<Vec<Number>> {
    match e.kind() {
        ExprKind::Aggregate(parts) => {
            let all: Option<Vec<Vec<Number>>> = parts.iter().map(|p| leaves(p, env)).collect();
            Some(all?.concat())
        }
        _ => Some(vec![number(e, env)?]),
    }
}

/// The value of an `index` expression.
pub fn integer(e: &Expr, env: &Env) -> Option<i64> {
    match number(e, env)? {
        Number::Int(v) => Some(v),
        _ => None,
    }
}

fn round(ty: Scalar, v: f64) -> Number {
    match build::float(ty, v).kind() {
        ExprKind::Float(b) => Number::Float(b.get()),
        _ => Number::Float(v),
    }
}

fn number(e: &Expr, env: &Env) -> Option<Number> {
    let ty = e.ty().scalar()?;
    Some(match e.kind() {
        ExprKind::Bool(v) => Number::Bool(*v),
        ExprKind::Int(v) => Number::Int(*v),
        ExprKind::Float(v) => Number::Float(v.get()),
        ExprKind::Var(v) => Number::Int(*env.get(v)?),
        ExprKind::Unary(op, a) => match (op, number(a, env)?) {
            (UnOp::Neg, Number::Int(v)) => Number::Int(build::wrap(ty, v.checked_neg()?)),
            (UnOp::Neg, Number::Float(v)) => Number::Float(-v),
            (UnOp::Not, Number::Bool(v)) => Number::Bool(!v),
            (UnOp::Not, Number::Int(v)) => Number::Int(build::wrap(ty, !v)),
            _ => return None,
        },
        ExprKind::Binary(op, a, b) => binary(*op, ty, a, b, env)?,
        ExprKind::Select(c, a, b) => match number(c, env)? {
            Number::Bool(true) => number(a, env)?,
            _ => number(b, env)?,
        },
        ExprKind::Cast(a) => cast(ty, number(a, env)?),
        ExprKind::Math(f, args) => {
            let args: Option<Vec<Number>> = args.iter().map(|a| number(a, env)).collect();
            math(*f, ty, &args?)?
        }
        _ => return None,
    })
}

fn binary(op: BinOp, ty: Scalar, a: &Expr, b: &Expr, env: &Env) -> Option<Number> {
    let of = a.ty().scalar()?;
    Some(match (number(a, env)?, number(b, env)?) {
        (Number::Int(x), Number::Int(y)) if op.is_comparison() => {
            Number::Bool(build::fold_compare(op, of, x, y)?)
        }
        (Number::Int(x), Number::Int(y)) => Number::Int(build::fold_int(op, ty, x, y)?),
        (Number::Bool(x), Number::Bool(y)) => Number::Bool(match op {
            BinOp::And => x && y,
            BinOp::Or => x || y,
            BinOp::Xor | BinOp::Ne => x != y,
            BinOp::Eq => x == y,
            _ => return None,
        }),
        (Number::Float(x), Number::Float(y)) => match op {
            BinOp::Add => round(ty, x + y),
            BinOp::Sub => round(ty, x - y),
            BinOp::Mul => round(ty, x * y),
            BinOp::Div => round(ty, x / y),
            BinOp::Min if x.is_nan() || y.is_nan() => Number::Float(f64::NAN),
            BinOp::Max if x.is_nan() || y.is_nan() => Number::Float(f64::NAN),
            BinOp::Min => Number::Float(if x < y { x } else { y }),
            BinOp::Max => Number::Float(if x > y { x } else { y }),
            BinOp::Eq => Number::Bool(x == y),
            BinOp::Ne => Number::Bool(x != y),
            BinOp::Lt => Number::Bool(x < y),
            BinOp::Le => Number::Bool(x <= y),
            BinOp::Gt => Number::Bool(x > y),
            BinOp::Ge => Number::Bool(x >= y),
            _ => return None,
        },
        _ => return None,
    })
}

/// As the tree's casts: to integers saturating, then wrapping to narrow ones.
fn cast(ty: Scalar, v: Number) -> Number {
    match v {
        Number::Bool(b) if ty.is_float() => Number::Float(f64::from(u8::from(b))),
        Number::Bool(b) if ty.is_int() => Number::Int(i64::from(b)),
        Number::Int(v) if ty.is_float() => round(ty, v as f64),
        Number::Int(v) if ty.is_int() => Number::Int(build::wrap(ty, v)),
        Number::Int(v) => Number::Bool(v != 0),
        Number::Float(v) if ty.is_float() => round(ty, v),
        Number::Float(v) if ty.is_int() => {
            let (lo, hi) = match (ty.is_signed(), ty.bits()) {
                (true, 64) => (i64::MIN as f64, i64::MAX as f64),
                (true, n) => (-(2f64.powi(n as i32 - 1)), 2f64.powi(n as i32 - 1) - 1.0),
                (false, n) => (0.0, 2f64.powi(n.min(63) as i32) - 1.0),
            };
            Number::Int(if v.is_nan() { 0 } else { v.clamp(lo, hi) as i64 })
        }
        Number::Float(v) => Number::Bool(v != 0.0),
        b @ Number::Bool(_) => b,
    }
}

/// Inputs need not be the same bits on every machine, so the library's functions serve.
fn math(f: MathFn, ty: Scalar, args: &[Number]) -> Option<Number> {
    if let (MathFn::Abs, [Number::Int(v)]) = (f, args) {
        return Some(Number::Int(build::wrap(ty, v.checked_abs()?)));
    }
    let x: Option<Vec<f64>> = args
        .iter()
        .map(|a| match a {
            Number::Float(v) => Some(*v),
            _ => None,
        })
        .collect();
    let v = match (f, x?.as_slice()) {
        (MathFn::Abs, [x]) => x.abs(),
        (MathFn::Sqrt, [x]) => x.sqrt(),
        (MathFn::Fma, [x, y, z]) => x.mul_add(*y, *z),
        (MathFn::Floor, [x]) => x.floor(),
        (MathFn::Ceil, [x]) => x.ceil(),
        (MathFn::Round, [x]) => x.round_ties_even(),
        (MathFn::Trunc, [x]) => x.trunc(),
        (MathFn::Exp, [x]) => x.exp(),
        (MathFn::Exp2, [x]) => x.exp2(),
        (MathFn::Log, [x]) => x.ln(),
        (MathFn::Log2, [x]) => x.log2(),
        (MathFn::Sin, [x]) => x.sin(),
        (MathFn::Cos, [x]) => x.cos(),
        (MathFn::Tan, [x]) => x.tan(),
        (MathFn::Tanh, [x]) => x.tanh(),
        (MathFn::Sigmoid, [x]) => 1.0 / (1.0 + (-x).exp()),
        (MathFn::Pow, [x, y]) => x.powf(*y),
        (MathFn::Atan, [x]) => x.atan(),
        (MathFn::Atan2, [x, y]) => x.atan2(*y),
        (MathFn::Expm1, [x]) => x.exp_m1(),
        (MathFn::Log1p, [x]) => x.ln_1p(),
        (MathFn::Log10, [x]) => x.log10(),
        (MathFn::Sinh, [x]) => x.sinh(),
        (MathFn::Cosh, [x]) => x.cosh(),
        (MathFn::Asin, [x]) => x.asin(),
        (MathFn::Acos, [x]) => x.acos(),
        (MathFn::Asinh, [x]) => x.asinh(),
        (MathFn::Acosh, [x]) => x.acosh(),
        (MathFn::Atanh, [x]) => x.atanh(),
        (MathFn::Hypot, [x, y]) => x.hypot(*y),
        _ => return None,
    };
    Some(round(ty, v))
}

impl InputSpec {
    /// `random(seed)`, `random(seed, lo, hi)`, `iota`, `constant(v)`: the specifications with a name.
    pub fn named(name: &str, args: &[Number]) -> Option<InputSpec> {
        match (name, args) {
            ("random", [Number::Int(seed)]) => Some(InputSpec::Random { seed: *seed as u64, range: None }),
            ("random", [Number::Int(seed), lo, hi]) => {
                Some(InputSpec::Random { seed: *seed as u64, range: Some((lo.as_f64(), hi.as_f64())) })
            }
            ("iota", []) => Some(InputSpec::Iota),
            ("constant", [v]) => Some(InputSpec::Constant(*v)),
            _ => None,
        }
    }
}
