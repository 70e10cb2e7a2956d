//! Scalar operators on values: the meaning that trees give them.

use crate::codes;
use lathe_diagnostics::Diagnostic;
use lathe_ir::scalar::{self, ScalarValue, Undefined};
use lathe_ir::{BinOp, Expr, ExprKind, MathFn, Scalar, UnOp, build, math as table};

type Out = Result<ScalarValue, Diagnostic>;

fn value(ty: Scalar, r: Result<u64, Undefined>, what: &str) -> Out {
    r.map(|bits| ScalarValue { ty, bits }).map_err(|u| {
        let why = match u {
            Undefined::DivisionByZero => "divides by zero",
            Undefined::IndexOverflow => "overflows 64 bits",
            Undefined::NoSuchOperation => "is not defined on the type",
        };
        Diagnostic::error(codes::NO_VALUE, format!("`{what}` {why}"))
    })
}

pub fn unary(op: UnOp, a: ScalarValue) -> Out {
    value(a.ty, scalar::unary(op, a.ty, a.bits), if op == UnOp::Neg { "-" } else { "not" })
}

pub fn binary(op: BinOp, a: ScalarValue, b: ScalarValue) -> Out {
    let ty = if op.is_comparison() { Scalar::Bool } else { a.ty };
    value(ty, scalar::binary(op, a.ty, a.bits, b.bits), op.symbol())
}

pub fn cast(to: Scalar, a: ScalarValue) -> Out {
    value(to, scalar::cast(a.ty, to, a.bits), to.name())
}

pub fn math(f: MathFn, args: &[ScalarValue]) -> Out {
    let ty = args[0].ty;
    match f {
        MathFn::Fma => {
            Ok(ScalarValue { ty, bits: scalar::fma(ty, args[0].bits, args[1].bits, args[2].bits) })
        }
        _ if f.is_exact() => value(ty, scalar::exact_math(f, ty, args[0].bits), f.name()),
        _ => {
            let args: Vec<Expr> = args.iter().map(constant).collect();
            constant_value(&table::expand(f, &args))
        }
    }
}

/// A value as a constant of the tree.
pub fn constant(v: &ScalarValue) -> Expr {
    match v.ty {
        Scalar::Bool => build::boolean(v.bits != 0),
        t if t.is_float() => build::float(t, v.to_f64()),
        t => build::int(t, v.bits as i64),
    }
}

/// An integer of a type, if the type has it.
pub fn integer(s: Scalar, v: i128) -> Option<ScalarValue> {
    if s == Scalar::U64 {
        return u64::try_from(v).ok().map(|bits| ScalarValue { ty: s, bits });
    }
    let v = i64::try_from(v).ok()?;
    (s.is_int() && build::wrap(s, v) == v).then(|| ScalarValue::int(s, v))
}

/// The value of an expression without variables and loads.
fn constant_value(e: &Expr) -> Out {
    let ty = e.ty().scalar().unwrap_or(Scalar::Bool);
    match e.kind() {
        ExprKind::Bool(v) => Ok(ScalarValue::boolean(*v)),
        ExprKind::Int(v) => Ok(ScalarValue { ty, bits: *v as u64 }),
        ExprKind::Float(v) => Ok(ScalarValue::float(ty, v.get())),
        ExprKind::Unary(op, a) => unary(*op, constant_value(a)?),
        ExprKind::Binary(op, a, b) => binary(*op, constant_value(a)?, constant_value(b)?),
        ExprKind::Select(c, a, b) => constant_value(if constant_value(c)?.bits != 0 { a } else { b }),
        ExprKind::Cast(a) => cast(ty, constant_value(a)?),
        ExprKind::Bitcast(a) => {
            let a = constant_value(a)?;
            value(ty, scalar::bitcast(a.ty, ty, a.bits), "bitcast")
        }
        ExprKind::Math(f, args) => math(*f, &args.iter().map(constant_value).collect::<Result<Vec<_>, _>>()?),
        _ => Err(Diagnostic::error(codes::NO_VALUE, "an expression without a value")),
    }
}
