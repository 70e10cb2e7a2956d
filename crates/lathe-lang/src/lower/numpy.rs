//! Functions by the names that numpy gives them: other names of the math table's functions, and what is put together from
//! arithmetic, comparisons and choices. What is put together is in the tree as that, so analyses, derivatives and engines
//! know nothing of it.

use super::expr::{Val, flexible, type_of};
use super::scope::Cx;
use crate::ast;
use lathe_diagnostics::Span;
use lathe_ir::{BinOp, Expr, MathFn, Scalar, Type, build};

/// Other names of functions.
const ALIASES: [(&str, &str); 13] = [
    ("arctan", "atan"),
    ("arcsin", "asin"),
    ("arccos", "acos"),
    ("arctan2", "atan2"),
    ("arcsinh", "asinh"),
    ("arccosh", "acosh"),
    ("arctanh", "atanh"),
    ("power", "pow"),
    ("rint", "round"),
    ("fix", "trunc"),
    ("fabs", "abs"),
    ("maximum", "max"),
    ("minimum", "min"),
];

/// What is put together, with the number of its arguments.
const COMPOSED: [(&str, usize); 14] = [
    ("square", 1),
    ("sign", 1),
    ("isnan", 1),
    ("isinf", 1),
    ("isfinite", 1),
    ("clip", 3),
    ("reciprocal", 1),
    ("rsqrt", 1),
    ("relu", 1),
    ("deg2rad", 1),
    ("rad2deg", 1),
    ("floordiv", 2),
    ("floormod", 2),
    ("fmod", 2),
];

/// The language's own name of a function.
pub fn own_name(name: &str) -> &str {
    ALIASES.iter().find(|a| a.0 == name).map_or(name, |a| a.1)
}

/// All names that are known here.
pub fn names<'a>() -> impl Iterator<Item = &'a str> {
    ALIASES.iter().map(|a| a.0).chain(COMPOSED.iter().map(|c| c.0))
}

impl Cx<'_> {
    /// A function that is put together; `None` if the name is not one of them.
    pub fn composed(
        &mut self,
        name: &str,
        args: &[&ast::Expr],
        hint: Option<&Type>,
        span: Span,
    ) -> Option<Option<Expr>> {
        let (_, count) = COMPOSED.iter().find(|c| c.0 == name)?;
        Some(self.composed_of(name, args, *count, hint, span))
    }

    fn composed_of(
        &mut self,
        name: &str,
        args: &[&ast::Expr],
        count: usize,
        hint: Option<&Type>,
        span: Span,
    ) -> Option<Expr> {
        self.arity(name, args, count, span)?;
        let hint = if name.starts_with("is") { None } else { hint };
        let (x, ty) = self.alike(args, hint)?;
        if ty.complex_part().is_some() {
            let vals = x.into_iter().zip(args).map(|(e, a)| (Val::Expr(e), a.span)).collect();
            return self.complex_function(name, vals, hint, span);
        }
        let Some(scalar) = ty.scalar().filter(|s| s.is_float() || s.is_int()) else {
            return self.operator(name, ty, span);
        };
        let whole = ["square", "sign", "clip", "relu", "floordiv", "floormod", "fmod"].contains(&name);
        if !scalar.is_float() && !whole {
            return self.operator(name, ty, span);
        }
        let c = |v: f64| constant(scalar, v);
        let a = x[0].clone();
        Some(match name {
            "square" => build::mul(a.clone(), a),
            // Of NaN it is NaN, of zeros they themselves.
            "sign" => {
                let low = if scalar.is_signed() || scalar.is_float() { c(-1.0) } else { c(0.0) };
                let negative = build::select(compare(BinOp::Lt, &a, &c(0.0)), low, a.clone());
                build::select(compare(BinOp::Gt, &a, &c(0.0)), c(1.0), negative)
            }
            "isnan" => compare(BinOp::Ne, &a, &a),
            "isinf" => compare(BinOp::Eq, &magnitude(&a), &c(f64::INFINITY)),
            "isfinite" => compare(BinOp::Lt, &magnitude(&a), &c(f64::INFINITY)),
            "clip" => {
                let low = build::binary(BinOp::Max, a, x[1].clone());
                build::binary(BinOp::Min, low, x[2].clone())
            }
            "relu" => build::binary(BinOp::Max, a, c(0.0)),
            "reciprocal" => build::binary(BinOp::Div, c(1.0), a),
            "rsqrt" => build::binary(BinOp::Div, c(1.0), build::math(MathFn::Sqrt, vec![a])),
            "deg2rad" => build::mul(a, c(std::f64::consts::PI / 180.0)),
            "rad2deg" => build::mul(a, c(180.0 / std::f64::consts::PI)),
            "floordiv" if scalar.is_int() => build::binary(BinOp::FloorDiv, a, x[1].clone()),
            "floormod" if scalar.is_int() => build::binary(BinOp::FloorMod, a, x[1].clone()),
            "fmod" if scalar.is_int() => build::binary(BinOp::TruncRem, a, x[1].clone()),
            "fmod" => remainder(&a, &x[1], scalar),
            "floordiv" => quotient(&a, &x[1], scalar).0,
            _ => quotient(&a, &x[1], scalar).1,
        })
    }

    /// Arguments of one type: literals take that of the others.
    fn alike(&mut self, args: &[&ast::Expr], hint: Option<&Type>) -> Option<(Vec<Expr>, Type)> {
        let mut learnt: Option<Type> = None;
        let mut vals = vec![None; args.len()];
        let (late, early): (Vec<usize>, Vec<usize>) = (0..args.len()).partition(|i| flexible(args[*i]));
        for i in early.into_iter().chain(late) {
            vals[i] = self.val(args[i], learnt.as_ref().or(hint));
            learnt = learnt.or_else(|| type_of(&vals[i]));
        }
        let imaginary = vals.iter().any(|v| matches!(v, Some(Val::Imaginary(_))));
        let usual = if imaginary { Type::complex(Scalar::F32)? } else { Type::F32 };
        let ty = learnt.or_else(|| hint.cloned()).unwrap_or(usual);
        let all: Option<Vec<Expr>> =
            vals.into_iter().zip(args).map(|(v, a)| self.coerce(v?, &ty, a.span)).collect();
        Some((all?, ty))
    }
}

fn constant(ty: Scalar, v: f64) -> Expr {
    if ty.is_float() { build::float(ty, v) } else { build::int(ty, v as i64) }
}

fn compare(op: BinOp, a: &Expr, b: &Expr) -> Expr {
    build::binary(op, a.clone(), b.clone())
}

fn magnitude(a: &Expr) -> Expr {
    build::math(MathFn::Abs, vec![a.clone()])
}

/// Quotient rounded down, and the remainder with the divisor's sign, as Python and numpy have them. The remainder of a
/// rounded quotient is exact by FMA; where it has the wrong sign, the quotient was rounded up to a whole number.
fn quotient(a: &Expr, b: &Expr, ty: Scalar) -> (Expr, Expr) {
    let (zero, one) = (build::float(ty, 0.0), build::float(ty, 1.0));
    let q = build::math(MathFn::Floor, vec![build::binary(BinOp::Div, a.clone(), b.clone())]);
    let r = build::math(MathFn::Fma, vec![build::neg(q.clone()), b.clone(), a.clone()]);
    // Nothing is taken of a number by an infinite divisor, and none times infinity is no number.
    let infinity = build::float(ty, f64::INFINITY);
    let whole = build::and(
        compare(BinOp::Eq, &magnitude(b), &infinity),
        compare(BinOp::Lt, &magnitude(a), &infinity),
    );
    let r = build::select(whole, a.clone(), r);
    let below = build::and(compare(BinOp::Gt, b, &zero), compare(BinOp::Lt, &r, &zero));
    let above = build::and(compare(BinOp::Lt, b, &zero), compare(BinOp::Gt, &r, &zero));
    let wrong = build::binary(BinOp::Or, below, above);
    let quotient = build::select(wrong.clone(), build::sub(q.clone(), one), q);
    (quotient, build::select(wrong, build::add(r.clone(), b.clone()), r))
}

/// The remainder with the dividend's sign, as C and numpy have it.
fn remainder(a: &Expr, b: &Expr, ty: Scalar) -> Expr {
    let zero = build::float(ty, 0.0);
    let r = quotient(&magnitude(a), &magnitude(b), ty).1;
    // A zero keeps its sign; a remainder that is NaN stays one.
    let kept = build::select(compare(BinOp::Eq, a, &zero), build::sub(a.clone(), r.clone()), r.clone());
    build::select(compare(BinOp::Lt, a, &zero), build::neg(r), kept)
}
