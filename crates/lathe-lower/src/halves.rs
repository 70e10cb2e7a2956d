//! Floats of 16 bits: arithmetic on them is that of `f32`, rounded; `fma`, which rounds once, is that of `f64`.
//!
//! What is left of them is to be moved, and for `f16` to be converted from and to `f32`; `bf16` are bits. A value is
//! rounded twice without harm if the first rounding is *to odd*: an inexact result gets an odd last bit, so the second
//! rounding still sees on which side of a tie it lay (Boldo and Melquiond, "Emulation of a FMA and correctly rounded
//! sums", 2008).

use lathe_ir::build::{add, and, binary, cast, eq, float, int, lt, math, mul, neg, not, or, select, sub};
use lathe_ir::visit::{map_expr, map_exprs, walk_expr};
use lathe_ir::{BinOp, Expr, ExprKind, Function, MathFn, Scalar, Stmt, UnOp};

/// The function with their arithmetic in `f32`.
pub fn in_floats(func: &Function) -> Function {
    Function { body: stmt(&func.body), ..func.clone() }
}

/// The same of a statement.
pub fn stmt(s: &Stmt) -> Stmt {
    map_exprs(s, &mut expr)
}

/// The same of an expression.
pub fn expr(e: &Expr) -> Expr {
    let mut found = false;
    walk_expr(e, &mut |x| found |= half(x).is_some());
    if !found {
        return e.clone();
    }
    map_expr(e, &mut node)
}

/// The type of an expression, if it is such a float.
fn half(e: &Expr) -> Option<Scalar> {
    e.ty().scalar().filter(|s| matches!(s, Scalar::F16 | Scalar::Bf16))
}

/// A node whose operands are done.
fn node(e: Expr) -> Expr {
    let first = match e.kind() {
        ExprKind::Unary(_, a) | ExprKind::Binary(_, a, _) | ExprKind::Cast(a) => half(a),
        ExprKind::Math(_, args) => args.first().and_then(half),
        _ => None,
    };
    match (e.kind(), first, half(&e)) {
        (ExprKind::Unary(UnOp::Neg, a), Some(s), _) => through_bits(s, a, BinOp::Xor, 0x8000),
        (ExprKind::Math(MathFn::Abs, args), Some(s), _) => through_bits(s, &args[0], BinOp::And, 0x7fff),
        (ExprKind::Binary(op, a, b), Some(s), _) => {
            let value = binary(*op, up(a), up(b));
            if op.is_comparison() { value } else { down(s, value) }
        }
        (ExprKind::Math(MathFn::Fma, args), Some(s), _) => down(s, to_odd(&fused(args))),
        (ExprKind::Math(f, args), Some(s), _) => down(s, math(*f, args.iter().map(up).collect())),
        (ExprKind::Cast(a), Some(_), Some(s)) => down(s, up(a)),
        (ExprKind::Cast(a), Some(_), None) => cast(e.ty().clone(), up(a)),
        (ExprKind::Cast(a), None, Some(s)) => down(s, nearly(a)),
        _ => e,
    }
}

/// The same bits as another type.
fn as_bits(s: Scalar, a: Expr) -> Expr {
    match a.kind() {
        ExprKind::Bitcast(b) if b.ty().scalar() == Some(s) => b.clone(),
        _ => Expr::new(ExprKind::Bitcast(a), s.into()),
    }
}

fn through_bits(s: Scalar, a: &Expr, op: BinOp, mask: i64) -> Expr {
    as_bits(s, binary(op, as_bits(Scalar::U16, a.clone()), int(Scalar::U16, mask)))
}

/// The value as `f32`; exact.
fn up(a: &Expr) -> Expr {
    match (a.kind(), half(a)) {
        (ExprKind::Float(v), _) => float(Scalar::F32, v.get()),
        (_, Some(Scalar::Bf16)) => {
            let bits = cast(Scalar::U32.into(), as_bits(Scalar::U16, a.clone()));
            as_bits(Scalar::F32, binary(BinOp::Shl, bits, int(Scalar::U32, 16)))
        }
        (_, Some(_)) => Expr::new(ExprKind::Cast(a.clone()), Scalar::F32.into()),
        _ => a.clone(),
    }
}

/// An `f32` rounded to the type, ties to even.
fn down(s: Scalar, v: Expr) -> Expr {
    if s == Scalar::F16 {
        return Expr::new(ExprKind::Cast(v), s.into());
    }
    let c = |v| int(Scalar::U32, v);
    let bits = as_bits(Scalar::U32, v.clone());
    let upper = binary(BinOp::Shr, bits.clone(), c(16));
    let odd = and(upper.clone(), c(1));
    let rounded = binary(BinOp::Shr, add(add(bits, odd), c(0x7fff)), c(16));
    let is_nan = binary(BinOp::Ne, v.clone(), v);
    let bits = select(is_nan, or(upper, c(0x40)), rounded);
    as_bits(s, cast(Scalar::U16.into(), bits))
}

/// Any other scalar as an `f32` that rounds to 16 bits as it does itself.
fn nearly(a: &Expr) -> Expr {
    match a.ty().scalar() {
        Some(Scalar::F64) => to_odd(a),
        Some(s) if s.is_int() && s.bits() == 64 => to_odd(&folded(s, a)),
        Some(s) if s.is_int() && s.bits() == 32 => to_odd(&cast(Scalar::F64.into(), a.clone())),
        _ => cast(Scalar::F32.into(), a.clone()),
    }
}

/// An `f64` as an `f32`, rounded to odd: the neighbour with an odd last bit on the side of the error, unless there is no
/// error or the bits are odd already.
fn to_odd(a: &Expr) -> Expr {
    let near = cast(Scalar::F32.into(), a.clone());
    let error = sub(a.clone(), cast(Scalar::F64.into(), near.clone()));
    let bits = as_bits(Scalar::I32, near.clone());
    let (zero, c) = (float(Scalar::F64, 0.0), |v| int(Scalar::I32, v));
    let (up, down) = (lt(zero.clone(), error.clone()), lt(error, zero));
    let even = eq(and(bits.clone(), c(1)), c(0));
    // A zero that is inexact moves away from zero; its sign is that of the value.
    let is_zero = eq(near.clone(), float(Scalar::F32, 0.0));
    let away = or(is_zero, eq(up.clone(), lt(float(Scalar::F32, 0.0), near)));
    let moved = add(bits.clone(), select(away, c(1), c(-1)));
    as_bits(Scalar::F32, select(and(or(up, down), even), moved, bits))
}

/// A product and a sum of three such floats as an `f64`, rounded to odd: the product is exact, and the error of the sum is
/// known (Knuth's two-sum).
fn fused(args: &[Expr]) -> Expr {
    let wide = |a: &Expr| cast(Scalar::F64.into(), up(a));
    let product = mul(wide(&args[0]), wide(&args[1]));
    let term = wide(&args[2]);
    let near = add(product.clone(), term.clone());
    let back = sub(near.clone(), product.clone());
    let error = add(sub(product, sub(near.clone(), back.clone())), sub(term, back));
    let bits = as_bits(Scalar::I64, near.clone());
    let (zero, c) = (float(Scalar::F64, 0.0), |v| int(Scalar::I64, v));
    let (more, less) = (lt(zero.clone(), error.clone()), lt(error, zero.clone()));
    let even = eq(and(bits.clone(), c(1)), c(0));
    let away = eq(more.clone(), lt(zero, near));
    let moved = add(bits.clone(), select(away, c(1), c(-1)));
    as_bits(Scalar::F64, select(and(or(more, less), even), moved, bits))
}

/// An integer of 64 bits as an `f64` that rounds to 16 bits as the integer itself does: the low bits of large numbers are
/// folded into one.
fn folded(s: Scalar, a: &Expr) -> Expr {
    let a = cast(Scalar::I64.into(), a.clone());
    let negative = |yes: Expr, no: Expr| match s.is_signed() {
        true => select(lt(a.clone(), int(Scalar::I64, 0)), yes, no),
        false => no,
    };
    let c = |v| int(Scalar::U64, v);
    let magnitude = cast(Scalar::U64.into(), negative(neg(a.clone()), a.clone()));
    let rest = not(eq(and(magnitude.clone(), c(0xfff)), c(0)));
    let sticky = or(and(magnitude.clone(), c(!0xfff)), select(rest, c(0x1000), c(0)));
    let large = lt(c(1 << 32), magnitude.clone());
    let wide = cast(Scalar::F64.into(), select(large, sticky, magnitude));
    negative(neg(wide.clone()), wide)
}
