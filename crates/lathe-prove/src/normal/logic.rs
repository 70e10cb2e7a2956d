//! Booleans, selections, and operators that are associative, commutative and idempotent.

use crate::formula::{Formulas, Id, Op};
use lathe_ir::{BinOp, Scalar, UnOp};
use std::collections::BTreeSet;

/// Operators on `bool`, by `and`, `xor` and `not`.
pub(super) fn binary(f: &mut Formulas, op: BinOp, a: Id, b: Id) -> Id {
    match op {
        BinOp::Or | BinOp::Max => {
            let (a, b) = (f.not(a), f.not(b));
            let both = many(f, BinOp::And, a, b);
            f.not(both)
        }
        BinOp::And | BinOp::Min => many(f, BinOp::And, a, b),
        _ => many(f, op, a, b),
    }
}

pub(super) fn compare(f: &mut Formulas, op: BinOp, a: Id, b: Id) -> Id {
    match op {
        BinOp::Eq => {
            let differ = many(f, BinOp::Xor, a, b);
            f.not(differ)
        }
        BinOp::Lt => {
            let a = f.not(a);
            many(f, BinOp::And, a, b)
        }
        // a <= b
        _ => {
            let b = f.not(b);
            let both = many(f, BinOp::And, a, b);
            f.not(both)
        }
    }
}

/// A chain of one associative and commutative operator, sorted: `And`, `Or`, `Min` and `Max` keep one of equal
/// operands, `Xor` none of two.
pub(super) fn many(f: &mut Formulas, op: BinOp, a: Id, b: Id) -> Id {
    let ty = f.ty(a);
    let mut operands = BTreeSet::new();
    let mut left = vec![a, b];
    while let Some(x) = left.pop() {
        match f.get(x).op {
            Op::Binary(o, p, q) if o == op => left.extend([p, q]),
            _ if op == BinOp::Xor && operands.remove(&x) => {}
            _ => {
                operands.insert(x);
            }
        }
    }
    let mut constant: Option<Id> = None;
    let mut rest = Vec::new();
    for x in operands {
        match f.value(x) {
            Some(_) => {
                constant = Some(match constant {
                    None => x,
                    Some(c) => f.binary(op, c, x),
                });
            }
            None => rest.push(x),
        }
    }
    if op == BinOp::And && ty == Scalar::Bool {
        let contradicts = |x: &Id| match f.get(*x).op {
            Op::Unary(UnOp::Not, y) => rest.contains(&y),
            _ => false,
        };
        if rest.iter().any(contradicts) || constant.is_some_and(|c| f.is_false(c)) {
            return f.boolean(false);
        }
        constant = None;
    }
    let zero = |f: &Formulas, c: Id| f.value(c).is_some_and(|v| v.bits == 0) && !ty.is_float();
    match (op, constant) {
        (BinOp::Xor | BinOp::Or, Some(c)) if zero(f, c) && !rest.is_empty() => constant = None,
        (BinOp::And, Some(c)) if zero(f, c) => return c,
        // On `bool`, xor with true is `not`.
        (BinOp::Xor, Some(c)) if f.is_true(c) && !rest.is_empty() => {
            let x = rest.into_iter().reduce(|a, b| f.binary(op, a, b)).unwrap_or(c);
            return f.not(x);
        }
        _ => {}
    }
    let empty =
        if op == BinOp::And && ty == Scalar::Bool { f.boolean(true) } else { f.add(Op::Const(0), ty) };
    rest.into_iter().chain(constant).reduce(|a, b| f.binary(op, a, b)).unwrap_or(empty)
}

pub(super) fn select(f: &mut Formulas, c: Id, a: Id, b: Id) -> Id {
    if let Op::Unary(UnOp::Not, d) = f.get(c).op {
        return select(f, d, b, a);
    }
    if f.ty(a) == Scalar::Bool {
        // c ? true : b is c or b, and so on.
        let not = f.not(c);
        match () {
            () if f.is_true(a) => return binary(f, BinOp::Or, c, b),
            () if f.is_false(a) => return many(f, BinOp::And, not, b),
            () if f.is_true(b) => return binary(f, BinOp::Or, not, a),
            () if f.is_false(b) => return many(f, BinOp::And, c, a),
            () => {}
        }
    }
    f.select(c, a, b)
}
