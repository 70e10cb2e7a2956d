//! Affine forms and intervals of index expressions, without isl.

use crate::env::Env;
use lathe_ir::{BinOp, Expr, ExprKind, Scalar, UnOp, VarId};
use std::collections::BTreeMap;

/// `sum of coefficient * variable, plus a constant`; no term has coefficient zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affine {
    pub terms: BTreeMap<VarId, i64>,
    pub constant: i64,
}

impl Affine {
    pub fn constant(c: i64) -> Affine {
        Affine { terms: BTreeMap::new(), constant: c }
    }

    pub fn var(v: VarId) -> Affine {
        Affine { terms: BTreeMap::from([(v, 1)]), constant: 0 }
    }

    /// The coefficient of a variable; zero where it does not occur.
    pub fn coefficient(&self, v: VarId) -> i64 {
        self.terms.get(&v).copied().unwrap_or(0)
    }

    pub fn is_constant(&self) -> bool {
        self.terms.is_empty()
    }

    /// `self + k * other`; `None` on overflow.
    pub fn add_scaled(&self, other: &Affine, k: i64) -> Option<Affine> {
        let mut out = self.clone();
        out.constant = out.constant.checked_add(other.constant.checked_mul(k)?)?;
        for (v, c) in &other.terms {
            let e = out.terms.entry(*v).or_insert(0);
            *e = e.checked_add(c.checked_mul(k)?)?;
            if *e == 0 {
                out.terms.remove(v);
            }
        }
        Some(out)
    }

    /// `k * self`; `None` on overflow.
    pub fn scale(&self, k: i64) -> Option<Affine> {
        Affine::default().add_scaled(self, k)
    }

    /// The expression, with positive terms first.
    pub fn to_expr(&self) -> Expr {
        use lathe_ir::build::{add, index, mul, sub, var_id};
        let term = |v: VarId, c: i64| mul(var_id(v, Scalar::Index), index(c));
        let mut out = index(0);
        for (v, c) in self.terms.iter().filter(|t| *t.1 > 0) {
            out = add(out, term(*v, *c));
        }
        for (v, c) in self.terms.iter().filter(|t| *t.1 < 0) {
            out = match c.checked_neg() {
                Some(n) if out.as_int() != Some(0) => sub(out, term(*v, n)),
                _ => add(out, term(*v, *c)),
            };
        }
        add(out, index(self.constant))
    }
}

/// The affine form of an `index` expression over its variables; `None` if it has none (or the
/// coefficients overflow).
pub fn affine(e: &Expr) -> Option<Affine> {
    if !e.ty().is_index() {
        return None;
    }
    match e.kind() {
        ExprKind::Int(v) => Some(Affine::constant(*v)),
        ExprKind::Var(v) => Some(Affine::var(*v)),
        ExprKind::Unary(UnOp::Neg, a) => affine(a)?.scale(-1),
        ExprKind::Binary(BinOp::Add, a, b) => affine(a)?.add_scaled(&affine(b)?, 1),
        ExprKind::Binary(BinOp::Sub, a, b) => affine(a)?.add_scaled(&affine(b)?, -1),
        ExprKind::Binary(BinOp::Mul, a, b) => {
            let (x, y) = (affine(a)?, affine(b)?);
            if y.is_constant() {
                x.scale(y.constant)
            } else if x.is_constant() {
                y.scale(x.constant)
            } else {
                None
            }
        }
        _ => None,
    }
}

type Range = (Option<i64>, Option<i64>);

/// Constant bounds (both inclusive) of an integer expression, from the bounds of the variables in
/// scope; `None` on a side where there is none.
pub fn range_of(e: &Expr, env: &Env) -> (Option<i64>, Option<i64>) {
    range_at(e, env, 0)
}

/// Bounds of variables may mention other variables, so the recursion is cut at a depth.
const MAX_DEPTH: usize = 24;

fn range_at(e: &Expr, env: &Env, depth: usize) -> Range {
    if depth > MAX_DEPTH {
        return (None, None);
    }
    let go = |e: &Expr| range_at(e, env, depth + 1);
    let typed = type_range(e);
    let found = match e.kind() {
        ExprKind::Int(v) if e.ty().scalar() != Some(Scalar::U64) => (Some(*v), Some(*v)),
        ExprKind::Var(v) => match env.var_bounds(*v) {
            Some((lo, hi)) => (
                lo.and_then(|l| go(l).0),
                // A loop's upper bound is exclusive.
                hi.and_then(|h| go(h).1).and_then(|h| h.checked_sub(1)),
            ),
            None => match env.var_value(*v) {
                Some(value) => go(value),
                None if env.is_size(*v) => (Some(0), None),
                None => (None, None),
            },
        },
        ExprKind::Cast(a) if e.ty().is_int() && a.ty().is_int() => {
            let inner = go(a);
            if within(inner, typed) { inner } else { (None, None) }
        }
        ExprKind::Select(_, a, b) => {
            let (x, y) = (go(a), go(b));
            (x.0.zip(y.0).map(|(a, b)| a.min(b)), x.1.zip(y.1).map(|(a, b)| a.max(b)))
        }
        ExprKind::Unary(UnOp::Neg, a) if e.ty().is_index() => {
            let x = go(a);
            (x.1.and_then(i64::checked_neg), x.0.and_then(i64::checked_neg))
        }
        ExprKind::Binary(op, a, b) => binary_range(*op, go(a), go(b), e.ty().is_index()),
        _ => (None, None),
    };
    (found.0.or(typed.0), found.1.or(typed.1))
}

/// What the type alone says.
fn type_range(e: &Expr) -> Range {
    match e.ty().scalar() {
        Some(Scalar::I8) => (Some(i64::from(i8::MIN)), Some(i64::from(i8::MAX))),
        Some(Scalar::I16) => (Some(i64::from(i16::MIN)), Some(i64::from(i16::MAX))),
        Some(Scalar::I32) => (Some(i64::from(i32::MIN)), Some(i64::from(i32::MAX))),
        Some(Scalar::U8) => (Some(0), Some(i64::from(u8::MAX))),
        Some(Scalar::U16) => (Some(0), Some(i64::from(u16::MAX))),
        Some(Scalar::U32) => (Some(0), Some(i64::from(u32::MAX))),
        _ => (None, None),
    }
}

fn within(inner: Range, outer: Range) -> bool {
    let low = match (inner.0, outer.0) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(i), Some(o)) => i >= o,
    };
    let high = match (inner.1, outer.1) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(i), Some(o)) => i <= o,
    };
    low && high
}

fn binary_range(op: BinOp, x: Range, y: Range, exact: bool) -> Range {
    let both =
        |a: Option<i64>, b: Option<i64>, f: fn(i64, i64) -> Option<i64>| a.zip(b).and_then(|(a, b)| f(a, b));
    match op {
        BinOp::Add if exact => (both(x.0, y.0, i64::checked_add), both(x.1, y.1, i64::checked_add)),
        BinOp::Sub if exact => (both(x.0, y.1, i64::checked_sub), both(x.1, y.0, i64::checked_sub)),
        BinOp::Mul if exact => mul_range(x, y),
        BinOp::Min => (both(x.0, y.0, |a, b| Some(a.min(b))), min_known(x.1, y.1)),
        BinOp::Max => (max_known(x.0, y.0), both(x.1, y.1, |a, b| Some(a.max(b)))),
        BinOp::FloorDiv => match y {
            (Some(a), Some(b)) if a == b && a > 0 => {
                (x.0.map(|v| v.div_euclid(a)), x.1.map(|v| v.div_euclid(a)))
            }
            _ => (None, None),
        },
        BinOp::FloorMod => match y {
            (Some(a), Some(b)) if a == b && a > 0 => match x {
                (Some(lo), Some(hi)) if lo >= 0 && hi < a => (Some(lo), Some(hi)),
                _ => (Some(0), Some(a - 1)),
            },
            _ => (None, None),
        },
        _ => (None, None),
    }
}

fn min_known(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a.map_or(b, |a| Some(b.map_or(a, |b| a.min(b))))
}

fn max_known(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a.map_or(b, |a| Some(b.map_or(a, |b| a.max(b))))
}

fn mul_range(x: Range, y: Range) -> Range {
    if let (Some(a), Some(b), Some(c), Some(d)) = (x.0, x.1, y.0, y.1) {
        let all: Option<Vec<i64>> =
            [(a, c), (a, d), (b, c), (b, d)].iter().map(|(p, q)| p.checked_mul(*q)).collect();
        return all.map_or((None, None), |v| (v.iter().min().copied(), v.iter().max().copied()));
    }
    // Half-open ranges: only non-negative factors are worth following.
    let (Some(a), Some(c)) = (x.0, y.0) else { return (None, None) };
    if a < 0 || c < 0 {
        return (None, None);
    }
    (a.checked_mul(c), x.1.zip(y.1).and_then(|(b, d)| b.checked_mul(d)))
}
