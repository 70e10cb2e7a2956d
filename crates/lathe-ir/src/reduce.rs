//! The operators of reductions as expressions: their identity and how two values combine. Everyone who
//! gives reductions code (interpreter, `open`, privatization, engines) builds it from here.

use crate::build::{aggregate, and, binary, boolean, field, float, int, math, not, or, select};
use crate::complex::Complex;
use crate::expr::{Expr, ExprKind};
use crate::module::Module;
use crate::ops::{BinOp, MathFn, ReduceOp};
use crate::types::{Scalar, Type};
use crate::visit::map_expr;

/// The largest or smallest value of a scalar type (infinite for floats); `None` for `bool`.
pub fn extreme(ty: Scalar, largest: bool) -> Option<Expr> {
    Some(match ty {
        Scalar::Bool => return None,
        _ if ty.is_float() => float(ty, if largest { f64::INFINITY } else { f64::NEG_INFINITY }),
        _ if ty.is_signed() => {
            let max = i64::MAX >> (64 - ty.bits());
            int(ty, if largest { max } else { -max - 1 })
        }
        // The largest unsigned value is the complement of 0.
        _ => int(ty, if largest { -1 } else { 0 }),
    })
}

/// The value that changes nothing, one expression per target; `None` if the operator has none (or is
/// not defined on the types). For `argmin` it is (largest value, largest index), so that any real
/// pair wins; likewise `argmax`.
pub fn identity(module: &Module, op: &ReduceOp, types: &[Type]) -> Option<Vec<Expr>> {
    let number = |v: i64, t: &Type| {
        let s = t.scalar()?;
        if s.is_float() { Some(float(s, v as f64)) } else { s.is_int().then(|| int(s, v)) }
    };
    let each = |f: &dyn Fn(&Type) -> Option<Expr>| types.iter().map(f).collect::<Option<Vec<_>>>();
    match op {
        ReduceOp::Sum | ReduceOp::Prod => each(&|t| {
            let re = i64::from(*op == ReduceOp::Prod);
            match t.complex_part() {
                Some(part) => Some(aggregate(t.clone(), vec![float(part, re as f64), float(part, 0.0)])),
                None => number(re, t),
            }
        }),
        ReduceOp::Min => each(&|t| extreme(t.scalar()?, true)),
        ReduceOp::Max => each(&|t| extreme(t.scalar()?, false)),
        ReduceOp::All => each(&|t| t.is_bool().then(|| boolean(true))),
        ReduceOp::Any => each(&|t| t.is_bool().then(|| boolean(false))),
        ReduceOp::ArgMin | ReduceOp::ArgMax => {
            let [value, index] = types else { return None };
            if !index.is_int() {
                return None;
            }
            let value = extreme(value.scalar()?, *op == ReduceOp::ArgMin)?;
            Some(vec![value, extreme(index.scalar()?, true)?])
        }
        ReduceOp::User(name) => {
            let user = module.ops.get(name)?;
            let value = user.identity.clone()?;
            if types.len() == 1 && types[0] == user.ty {
                return Some(vec![value]);
            }
            (user.ty.fields() == types)
                .then(|| (0..types.len() as u32).map(|i| field(value.clone(), i)).collect())
        }
    }
}

/// `a ⊕ b`, one expression per target; `None` if the operator is not defined on the types.
pub fn combine(module: &Module, op: &ReduceOp, a: &[Expr], b: &[Expr]) -> Option<Vec<Expr>> {
    if a.len() != b.len() || a.iter().zip(b).any(|(x, y)| x.ty() != y.ty()) {
        return None;
    }
    let numeric = |e: &Expr| e.ty().is_float() || e.ty().is_int();
    let each = |bin: BinOp, fits: &dyn Fn(&Expr) -> bool| {
        let one = |(x, y): (&Expr, &Expr)| fits(x).then(|| binary(bin, x.clone(), y.clone()));
        a.iter().zip(b).map(one).collect::<Option<Vec<_>>>()
    };
    match op {
        ReduceOp::Sum => a.iter().zip(b).map(|(x, y)| added(x, y)).collect(),
        ReduceOp::Prod if a.iter().any(|x| x.ty().complex_part().is_some()) => {
            a.iter().zip(b).map(|(x, y)| multiplied(x, y)).collect()
        }
        ReduceOp::Prod => each(BinOp::Mul, &numeric),
        ReduceOp::Min => each(BinOp::Min, &numeric),
        ReduceOp::Max => each(BinOp::Max, &numeric),
        ReduceOp::All => each(BinOp::And, &|e| e.ty().is_bool()),
        ReduceOp::Any => each(BinOp::Or, &|e| e.ty().is_bool()),
        ReduceOp::ArgMin => arg_extreme(BinOp::Lt, a, b),
        ReduceOp::ArgMax => arg_extreme(BinOp::Gt, a, b),
        ReduceOp::User(name) => {
            let user = module.ops.get(name)?;
            let whole = |v: &[Expr]| match v {
                [one] if *one.ty() == user.ty => Some(one.clone()),
                _ if v.iter().map(|e| e.ty().clone()).eq(user.ty.fields()) => {
                    Some(aggregate(user.ty.clone(), v.to_vec()))
                }
                _ => None,
            };
            let (x, y) = (whole(a)?, whole(b)?);
            let value = map_expr(&user.body, &mut |e| match e.kind() {
                ExprKind::Load(l) if l.view.buffer() == Some(user.a) => x.clone(),
                ExprKind::Load(l) if l.view.buffer() == Some(user.b) => y.clone(),
                _ => e,
            });
            if a.len() == 1 && *a[0].ty() == user.ty {
                return Some(vec![value]);
            }
            Some((0..a.len() as u32).map(|i| field(value.clone(), i)).collect())
        }
    }
}

/// `a + b` of numbers, complex ones by their parts.
fn added(a: &Expr, b: &Expr) -> Option<Expr> {
    if a.ty().complex_part().is_some() {
        let part = |i| binary(BinOp::Add, field(a.clone(), i), field(b.clone(), i));
        return Some(aggregate(a.ty().clone(), vec![part(0), part(1)]));
    }
    (a.ty().is_float() || a.ty().is_int()).then(|| binary(BinOp::Add, a.clone(), b.clone()))
}

/// `a * b` of complex numbers.
fn multiplied(a: &Expr, b: &Expr) -> Option<Expr> {
    a.ty().complex_part()?;
    Complex::of(a).mul(&Complex::of(b)).value()
}

/// A sum's new value where products are added with one rounding (`Reduce.contract`): `x * y` is `fma(x, y, old)`. Of a
/// complex value each part that is `fma(x, y, z)` becomes `fma(x, y, fma(…, old))`, so that both products of a part are
/// added to the old value one after the other. Other values are added as they are.
pub fn contracted(old: Expr, value: &Expr) -> Expr {
    if let (Some(_), ExprKind::Aggregate(parts)) = (value.ty().complex_part(), value.kind()) {
        let parts = parts.iter().zip(0..).map(|(v, i)| chained(field(old.clone(), i), v)).collect();
        return aggregate(value.ty().clone(), parts);
    }
    match value.kind() {
        ExprKind::Binary(BinOp::Mul, x, y) if value.ty().is_float() => {
            math(MathFn::Fma, vec![x.clone(), y.clone(), old])
        }
        _ => added(&old, value).unwrap_or(old),
    }
}

fn chained(old: Expr, value: &Expr) -> Expr {
    match value.kind() {
        ExprKind::Binary(BinOp::Mul, x, y) => math(MathFn::Fma, vec![x.clone(), y.clone(), old]),
        ExprKind::Math(MathFn::Fma, args) => {
            math(MathFn::Fma, vec![args[0].clone(), args[1].clone(), chained(old, &args[2])])
        }
        _ => binary(BinOp::Add, old, value.clone()),
    }
}

/// Whether [`contracted`] has anything to contract: a product of floats, or a complex number with one in a part.
pub fn adds_products(value: &Expr) -> bool {
    let product = |e: &Expr| matches!(e.kind(), ExprKind::Binary(BinOp::Mul, ..)) && e.ty().is_float();
    match value.kind() {
        ExprKind::Aggregate(parts) if value.ty().complex_part().is_some() => {
            parts.iter().all(|p| match p.kind() {
                ExprKind::Binary(BinOp::Add | BinOp::Sub, a, b) => product(a) || product(b),
                ExprKind::Math(MathFn::Fma, _) => true,
                _ => product(p),
            })
        }
        _ => product(value),
    }
}

/// Whether an expression is never a NaN by its form: a constant, or what compares at all and a constant otherwise.
pub fn is_number(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Float(v) => !v.get().is_nan(),
        ExprKind::Select(c, yes, no) => {
            let orders = |o: &BinOp| matches!(o, BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge | BinOp::Eq);
            let compared =
                matches!(c.kind(), ExprKind::Binary(o, x, y) if orders(o) && (x == yes || y == yes));
            (compared || is_number(yes)) && is_number(no)
        }
        _ => false,
    }
}

/// Keeps `a` unless `b` is strictly better, or as good with a smaller index. A NaN is better than all
/// numbers.
fn arg_extreme(better: BinOp, a: &[Expr], b: &[Expr]) -> Option<Vec<Expr>> {
    let ([va, ia], [vb, ib]) = (a, b) else { return None };
    if va.ty().is_bool() || va.ty().scalar().is_none() || !ia.ty().is_int() {
        return None;
    }
    let op = |o: BinOp, x: &Expr, y: &Expr| binary(o, x.clone(), y.clone());
    let earlier = op(BinOp::Lt, ib, ia);
    let mut take = or(op(better, vb, va), and(op(BinOp::Eq, va, vb), earlier.clone()));
    if va.ty().is_float() && !is_number(vb) {
        let (na, nb) = (op(BinOp::Ne, va, va), op(BinOp::Ne, vb, vb));
        // With a NaN on either side the comparisons above are false.
        let by_nan = and(nb, or(not(na), earlier));
        take = or(take, by_nan);
    }
    Some(vec![select(take.clone(), vb.clone(), va.clone()), select(take, ib.clone(), ia.clone())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{index, var_id};
    use crate::ids::VarId;

    #[test]
    fn what_compares_is_a_number() {
        let x = var_id(VarId(0), Scalar::F32);
        let least = float(Scalar::F32, f64::NEG_INFINITY);
        let above = select(binary(BinOp::Gt, x.clone(), least.clone()), x.clone(), least.clone());
        assert!(is_number(&least) && is_number(&above));
        let other = select(binary(BinOp::Ne, x.clone(), least.clone()), x.clone(), least.clone());
        let nothing =
            select(binary(BinOp::Gt, least.clone(), x.clone()), x.clone(), float(Scalar::F32, f64::NAN));
        assert!(!is_number(&x) && !is_number(&other) && !is_number(&nothing));
    }

    #[test]
    fn identities_are_the_extremes() {
        let m = Module::default();
        let one = |op: ReduceOp, t: Scalar| identity(&m, &op, &[t.into()]).map(|v| v[0].clone());
        assert_eq!(one(ReduceOp::Min, Scalar::I8), Some(int(Scalar::I8, 127)));
        assert_eq!(one(ReduceOp::Max, Scalar::I64), Some(int(Scalar::I64, i64::MIN)));
        assert_eq!(one(ReduceOp::Min, Scalar::U16), Some(int(Scalar::U16, 65535)));
        assert_eq!(one(ReduceOp::Max, Scalar::F32), Some(float(Scalar::F32, f64::NEG_INFINITY)));
        assert_eq!(one(ReduceOp::Sum, Scalar::Bool), None);
        let pair = identity(&m, &ReduceOp::ArgMin, &[Type::F32, Type::INDEX]);
        assert_eq!(pair.map(|v| v[1].clone()), Some(index(i64::MAX)));
    }
}
