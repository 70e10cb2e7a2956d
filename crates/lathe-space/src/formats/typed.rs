//! Values with their static types, and how values of different types go together.

use crate::expr::{BinOp, Expr, Value};
use crate::param::ParamType;

/// Static types, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    Bool,
    Int,
    Float,
    Str,
    Unknown,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Typed {
    pub e: Expr,
    pub ty: Ty,
}

pub(crate) fn typed_name(name: &str, ty: Option<ParamType>) -> Typed {
    let ty = match ty {
        Some(ParamType::Bool) => Ty::Bool,
        Some(ParamType::Int) => Ty::Int,
        Some(ParamType::Float) => Ty::Float,
        Some(ParamType::Str) => Ty::Str,
        None => Ty::Unknown,
    };
    Typed { e: Expr::Name(name.to_string()), ty }
}

pub(crate) fn word(s: String) -> Typed {
    Typed { e: Expr::Value(Value::Str(s)), ty: Ty::Str }
}

/// A value with its type.
pub(crate) fn literal(v: Value) -> Typed {
    let ty = match v {
        Value::Bool(_) => Ty::Bool,
        Value::Int(_) => Ty::Int,
        Value::Float(_) => Ty::Float,
        Value::Str(_) => Ty::Str,
    };
    Typed { e: Expr::Value(v), ty }
}

pub(crate) fn joined(a: Ty, b: Ty) -> Ty {
    let number = |t: Ty| if t == Ty::Bool { Ty::Int } else { t };
    match (number(a), number(b)) {
        (Ty::Float, _) | (_, Ty::Float) => Ty::Float,
        (Ty::Int, Ty::Int) => Ty::Int,
        _ => Ty::Unknown,
    }
}

pub(crate) fn binary(op: BinOp, a: Typed, b: Typed, ty: Ty) -> Typed {
    Typed { e: Expr::Binary(op, Box::new(a.e), Box::new(b.e)), ty }
}

pub(crate) fn arithmetic(op: BinOp, a: Typed, b: Typed) -> Typed {
    let (a, b) = (number(a), number(b));
    let ty = joined(a.ty, b.ty);
    binary(op, a, b, ty)
}

/// A truth value as a number.
pub(crate) fn number(v: Typed) -> Typed {
    if v.ty == Ty::Bool { Typed { e: Expr::Call("int".into(), vec![v.e]), ty: Ty::Int } } else { v }
}

/// Two sides of a comparison: a truth value beside a number is one.
pub(crate) fn alike(a: Typed, b: Typed) -> (Typed, Typed) {
    let numeric = |t: Ty| matches!(t, Ty::Int | Ty::Float);
    if a.ty == Ty::Bool && numeric(b.ty) {
        (number(a), b)
    } else if b.ty == Ty::Bool && numeric(a.ty) {
        (a, number(b))
    } else {
        (a, b)
    }
}

/// A value as a condition: numbers are true unless 0, words unless empty.
pub(crate) fn truth(v: Typed) -> Typed {
    let against = |zero: Value| {
        let e = Expr::Binary(BinOp::Ne, Box::new(v.e.clone()), Box::new(Expr::Value(zero)));
        Typed { e, ty: Ty::Bool }
    };
    match v.ty {
        Ty::Bool | Ty::Unknown => v,
        Ty::Int | Ty::Float => against(Value::Int(0)),
        Ty::Str => against(Value::Str(String::new())),
    }
}

/// A disjunction that is nested as little as possible.
pub(crate) fn balanced(mut parts: Vec<Typed>) -> Option<Typed> {
    while parts.len() > 1 {
        let mut next = Vec::with_capacity(parts.len().div_ceil(2));
        let mut it = parts.into_iter();
        while let Some(a) = it.next() {
            next.push(match it.next() {
                Some(b) => binary(BinOp::Or, a, b, Ty::Bool),
                None => a,
            });
        }
        parts = next;
    }
    parts.pop()
}
