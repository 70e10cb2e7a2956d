//! What IEEE arithmetic gives bit for bit, NaN payloads aside.

use crate::formula::{Formulas, Id, Op};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{BinOp, UnOp};

/// Negation changes the sign bit alone: it moves out of products and quotients.
pub(super) fn neg(f: &mut Formulas, a: Id) -> Id {
    match f.get(a).op {
        Op::Unary(UnOp::Neg, b) => b,
        _ => f.unary(UnOp::Neg, a),
    }
}

/// Without its sign, and whether it had one; constants have theirs taken, too.
fn unsigned(f: &mut Formulas, a: Id) -> (Id, bool) {
    if let Op::Unary(UnOp::Neg, b) = f.get(a).op {
        return (b, true);
    }
    match f.value(a) {
        Some(v) if !v.to_f64().is_nan() && v.to_f64().is_sign_negative() => (neg(f, a), true),
        _ => (a, false),
    }
}

pub(super) fn binary(f: &mut Formulas, op: BinOp, a: Id, b: Id) -> Id {
    use BinOp::*;
    let ty = f.ty(a);
    let number = |f: &Formulas, x: Id| f.value(x).map(ScalarValue::to_f64);
    match op {
        // a - b is a + (-b)
        Sub => {
            let b = neg(f, b);
            binary(f, Add, a, b)
        }
        Add => {
            let negative_zero = |v: Option<f64>| v.is_some_and(|v| v == 0.0 && v.is_sign_negative());
            if negative_zero(number(f, b)) {
                return a;
            }
            if negative_zero(number(f, a)) {
                return b;
            }
            if a == b {
                let two = f.constant(ScalarValue::float(ty, 2.0));
                return binary(f, Mul, a, two);
            }
            f.binary(Add, a.min(b), a.max(b))
        }
        Mul | Div => {
            let ((x, m), (y, n)) = (unsigned(f, a), unsigned(f, b));
            let product = positive(f, op, x, y);
            if m != n { neg(f, product) } else { product }
        }
        Min | Max => super::logic::many(f, op, a, b),
        _ => f.binary(op, a, b),
    }
}

/// A product or quotient of what has no sign of its own.
fn positive(f: &mut Formulas, op: BinOp, a: Id, b: Id) -> Id {
    let ty = f.ty(a);
    let number = |x: Id| f.value(x).map(ScalarValue::to_f64);
    match (op, number(a), number(b)) {
        (_, _, Some(1.0)) => a,
        (BinOp::Mul, Some(1.0), _) => b,
        // The reciprocal of a power of two is exact: both round the same number.
        (BinOp::Div, _, Some(v)) if is_power_of_two(v) => {
            let reciprocal = ScalarValue::float(ty, 1.0 / v);
            if reciprocal.to_f64() == 1.0 / v && (1.0 / v).is_normal() {
                let r = f.constant(reciprocal);
                positive(f, BinOp::Mul, a, r)
            } else {
                f.binary(op, a, b)
            }
        }
        (BinOp::Mul, ..) => f.binary(op, a.min(b), a.max(b)),
        _ => f.binary(op, a, b),
    }
}

fn is_power_of_two(v: f64) -> bool {
    v.is_normal() && v > 0.0 && v.to_bits() & ((1 << 52) - 1) == 0
}

/// `Eq`, `Lt`, `Le`.
pub(super) fn compare(f: &mut Formulas, op: BinOp, a: Id, b: Id) -> Id {
    use BinOp::*;
    match op {
        Lt if a == b => f.boolean(false),
        // Whether it is a number.
        Le | Eq if a == b => match f.get(a).op {
            Op::Cast(x) if !f.ty(x).is_float() => f.boolean(true),
            Op::Const(_) => f.binary(Eq, a, a),
            _ => f.add(Op::Binary(Eq, a, a), lathe_ir::Scalar::Bool),
        },
        Eq => f.binary(Eq, a.min(b), a.max(b)),
        _ => f.binary(op, a, b),
    }
}
