//! Conditions under which integer arithmetic has a value: `index` stays within 64 bits, and no divisor is 0.
//!
//! `index` is machine arithmetic that never wraps: an operation whose result does not fit 64 bits fails the call, and so
//! does a division by 0. Engines need no checks, and simplification may drop and move operations freely, because every
//! operation that is evaluated was shown to have a value ([`Ranges::fits`]), or is behind a check of the condition that
//! is made here. The condition itself computes nothing that could fail.

use crate::interval::Interval;
use crate::ranges::Ranges;
use crate::value::Known;
use lathe_ir::build::{and, boolean, cast, eq, index, int, le, max, min, or, select};
use lathe_ir::visit::Memo;
use lathe_ir::{BinOp, Expr, ExprKind, MathFn, Scalar, UnOp, build};

const MAX: i64 = i64::MAX;
const MIN: i64 = i64::MIN;

/// `a and b`, where `b` is evaluated only if `a` holds.
pub fn both(a: Expr, b: Expr) -> Expr {
    match (a.as_bool(), b.as_bool()) {
        (Some(true), _) => b,
        (Some(false), _) | (_, Some(true)) => a,
        _ if a == b => a,
        _ => select(a, b, boolean(false)),
    }
}

/// The condition under which evaluating an expression fails nowhere; `None` where it never does. Loads are taken to be
/// in order: they have checks of their own.
pub fn condition(e: &Expr, ranges: &Ranges) -> Option<Expr> {
    asked(e, ranges, &mut Memo::default(), &mut Known::new(true))
}

/// As [`condition`], without the parts that `memo` has: what they need was asked where this is evaluated only after it.
fn asked(e: &Expr, ranges: &Ranges, memo: &mut Memo<()>, known: &mut Known) -> Option<Expr> {
    if memo.is_long() {
        return plain(e, ranges, &mut Memo::default(), known);
    }
    memo.visit();
    if memo.get(e).is_some() || ranges.fits_in(e, known) {
        return None;
    }
    memo.insert(e, ());
    let ExprKind::Select(c, a, b) = e.kind() else {
        let parts = e.children().into_iter().filter_map(|c| asked(c, ranges, memo, known));
        let mut parts: Vec<Expr> = parts.collect();
        parts.extend(operation(e, ranges));
        return parts.into_iter().reduce(both);
    };
    let first = asked(c, ranges, memo, known);
    let mut arm = |e: &Expr, holds| {
        let mut inner = ranges.clone();
        let possible = inner.learn_for(c, holds, memo);
        possible.then(|| memo.under(|memo| known.under(|known| asked(e, &inner, memo, known)))).flatten()
    };
    let (x, y) = (arm(a, true), arm(b, false));
    first.into_iter().chain(of_arms(c, x, y)).reduce(both)
}

/// As [`condition`], where conditions of selects teach nothing: that of a node is the same wherever it stands, and found
/// once.
fn plain(e: &Expr, ranges: &Ranges, memo: &mut Memo<Option<Expr>>, known: &mut Known) -> Option<Expr> {
    memo.of(e, |memo| {
        if ranges.fits_in(e, known) {
            return None;
        }
        if let ExprKind::Select(c, a, b) = e.kind() {
            let first = plain(c, ranges, memo, known);
            let (x, y) = (plain(a, ranges, memo, known), plain(b, ranges, memo, known));
            return first.into_iter().chain(of_arms(c, x, y)).reduce(both);
        }
        let parts = e.children().into_iter().filter_map(|c| plain(c, ranges, memo, known));
        let mut parts: Vec<Expr> = parts.collect();
        parts.extend(operation(e, ranges));
        parts.into_iter().reduce(both)
    })
}

/// The condition of a select from those of its arms.
fn of_arms(c: &Expr, x: Option<Expr>, y: Option<Expr>) -> Option<Expr> {
    (x.is_some() || y.is_some()).then(|| {
        let always = || boolean(true);
        select(c.clone(), x.unwrap_or_else(always), y.unwrap_or_else(always))
    })
}

/// Whether the operation of a node may fail, for operands that have values.
pub fn may_fail(e: &Expr, ranges: &Ranges) -> bool {
    operation(e, ranges).is_some()
}

/// Gives the operations of an expression that may fail, with what is known where they are; each once in all places
/// that are evaluated only after it was.
pub fn failing(e: &Expr, ranges: &mut Ranges, f: &mut dyn FnMut(&Expr, &Ranges)) {
    fail(e, ranges, &mut Memo::default(), &mut Known::new(true), f);
}

fn fail(
    e: &Expr,
    ranges: &mut Ranges,
    memo: &mut Memo<()>,
    known: &mut Known,
    f: &mut dyn FnMut(&Expr, &Ranges),
) {
    memo.visit();
    if memo.get(e).is_some() || ranges.fits_in(e, known) {
        return;
    }
    memo.insert(e, ());
    if may_fail(e, ranges) {
        f(e, ranges);
    }
    match e.kind() {
        ExprKind::Select(c, a, b) if !memo.is_long() => {
            fail(c, ranges, memo, known, f);
            for (arm, holds) in [(a, true), (b, false)] {
                let mark = ranges.mark();
                if ranges.learn_for(c, holds, memo) {
                    memo.under(|memo| known.under(|known| fail(arm, ranges, memo, known, f)));
                }
                ranges.leave(mark);
            }
        }
        _ => e.children().into_iter().for_each(|c| fail(c, ranges, memo, known, f)),
    }
}

/// The condition of the operation alone, for operands that have values.
fn operation(e: &Expr, ranges: &Ranges) -> Option<Expr> {
    match e.kind() {
        ExprKind::Cast(a) if e.ty().is_index() && a.ty().scalar() == Some(Scalar::U64) => {
            (ranges.range(a).hi > Interval::INDEX.hi).then(|| le(a.clone(), int(Scalar::U64, MAX)))
        }
        ExprKind::Binary(op, a, b) if op.is_division() => {
            let zero = ranges.may_be_zero(b).then(|| build::binary(BinOp::Ne, b.clone(), zero_like(b)));
            zero.into_iter().chain(quotient(e, a, b, ranges)).reduce(both)
        }
        _ if !e.ty().is_index() => None,
        ExprKind::Unary(UnOp::Neg, a) => negated(a, ranges),
        ExprKind::Math(MathFn::Abs, all) => all.first().and_then(|a| negated(a, ranges)),
        ExprKind::Binary(op, a, b) => {
            let (x, y) = (ranges.range(a), ranges.range(b));
            match op {
                BinOp::Add => sum(a, b, x, y),
                BinOp::Sub => difference(a, b, x, y),
                BinOp::Mul => product(a, b, x, y),
                BinOp::Shl => {
                    let wide = |e: &Expr| cast(Scalar::I64.into(), e.clone());
                    let there = build::binary(BinOp::Shl, wide(a), wide(b));
                    let back = build::binary(BinOp::Shr, there, wide(b));
                    Some(eq(back, wide(a)))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn zero_like(e: &Expr) -> Expr {
    int(e.ty().scalar().unwrap_or(Scalar::Index), 0)
}

/// The quotient of the least number and -1 does not fit 64 bits.
fn quotient(e: &Expr, a: &Expr, b: &Expr, ranges: &Ranges) -> Option<Expr> {
    let divides = matches!(e.kind(), ExprKind::Binary(BinOp::FloorDiv | BinOp::TruncDiv, ..));
    if !divides || !e.ty().is_index() || !ranges.range(b).contains(Interval::point(-1)) {
        return None;
    }
    negated(a, ranges).map(|fits| or(fits, build::not(eq(b.clone(), index(-1)))))
}

fn negated(a: &Expr, ranges: &Ranges) -> Option<Expr> {
    (ranges.range(a).lo == i128::from(MIN)).then(|| le(index(-MAX), a.clone()))
}

/// `lo ≤ e ≤ hi`, as far as the range of `e` does not say so.
fn between(e: &Expr, lo: Option<Expr>, hi: Option<Expr>) -> Option<Expr> {
    let low = lo.map(|lo| le(lo, e.clone()));
    let high = hi.map(|hi| le(e.clone(), hi));
    match (low, high) {
        (Some(a), Some(b)) => Some(and(a, b)),
        (a, b) => a.or(b),
    }
}

/// The larger of an expression and 0, and the smaller one.
fn parts(e: &Expr, range: Interval) -> (Expr, Expr) {
    let zero = || index(0);
    match (range.lo >= 0, range.hi <= 0) {
        (true, true) => (zero(), zero()),
        (true, false) => (e.clone(), zero()),
        (false, true) => (zero(), e.clone()),
        (false, false) => (max(e.clone(), zero()), min(e.clone(), zero())),
    }
}

fn sum(a: &Expr, b: &Expr, x: Interval, y: Interval) -> Option<Expr> {
    // The one that is known better goes to the other side.
    if b.as_int().is_none() && (a.as_int().is_some() || x.magnitude().hi < y.magnitude().hi) {
        return sum(b, a, y, x);
    }
    let whole = x.plus(y);
    let (above, below) = parts(b, y);
    let hi = (whole.hi > Interval::INDEX.hi).then(|| build::sub(index(MAX), above));
    let lo = (whole.lo < Interval::INDEX.lo).then(|| build::sub(index(MIN), below));
    between(a, lo, hi)
}

fn difference(a: &Expr, b: &Expr, x: Interval, y: Interval) -> Option<Expr> {
    let whole = x.plus(y.negated());
    let over = whole.hi > Interval::INDEX.hi;
    let under = whole.lo < Interval::INDEX.lo;
    // What is known better goes to the other side, where its sign says which end counts.
    if x.magnitude().hi < y.magnitude().hi && b.as_int().is_none() {
        if x.lo >= 0 {
            return over.then(|| le(build::sub(a.clone(), index(MAX)), b.clone()));
        }
        if x.hi < 0 {
            return under.then(|| le(b.clone(), build::sub(a.clone(), index(MIN))));
        }
    }
    let (above, below) = parts(b, y);
    let hi = over.then(|| build::add(below, index(MAX)));
    let lo = under.then(|| build::add(above, index(MIN)));
    between(a, lo, hi)
}

fn product(a: &Expr, b: &Expr, x: Interval, y: Interval) -> Option<Expr> {
    let (a, b, x, y) = if a.as_int().is_some() { (b, a, y, x) } else { (a, b, x, y) };
    if let Some(c) = b.as_int() {
        let c = i128::from(c);
        // MIN ≤ c · a ≤ MAX
        let (p, q) = match c {
            0 => return None,
            c if c > 0 => (-(-i128::from(MIN)).div_euclid(c), i128::from(MAX).div_euclid(c)),
            c => (-i128::from(MAX).div_euclid(-c), (-i128::from(MIN)).div_euclid(-c)),
        };
        let bound = |v: i128| i64::try_from(v).ok().map(index);
        let lo = bound(p).filter(|_| x.lo < p);
        let hi = bound(q).filter(|_| x.hi > q);
        return between(a, lo, hi);
    }
    if x.lo >= 0 && y.lo >= 0 {
        // In a form from which a bound of the product can be read (`products::bounded`).
        let most = build::floor_div(index(MAX), max(b.clone(), index(1)));
        return Some(le(a.clone(), most));
    }
    // The product as machines compute it is right if dividing it gives back the operand.
    let wide = |e: &Expr| cast(Scalar::I64.into(), e.clone());
    let made = build::mul(wide(a), wide(b));
    let back = eq(build::binary(BinOp::TruncDiv, made, wide(b)), wide(a));
    let negated = le(index(-MAX), a.clone());
    let by_minus_one = select(eq(b.clone(), index(-1)), negated, back);
    Some(select(eq(b.clone(), index(0)), boolean(true), by_minus_one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_ir::interp::evaluate;
    use lathe_ir::{MathFn, VarId};
    use std::collections::HashMap;

    const NUMBERS: [i64; 17] = [
        0,
        1,
        -1,
        2,
        -2,
        7,
        -7,
        1 << 31,
        -(1 << 31),
        3037000499,
        3037000500,
        1 << 62,
        -(1 << 62),
        MAX,
        MAX - 1,
        MIN,
        MIN + 1,
    ];

    fn v(n: u32) -> Expr {
        build::var_id(VarId(n), Scalar::Index)
    }

    fn operations(a: &Expr, b: &Expr) -> Vec<Expr> {
        let ops = [
            BinOp::Add,
            BinOp::Sub,
            BinOp::Mul,
            BinOp::FloorDiv,
            BinOp::FloorMod,
            BinOp::TruncDiv,
            BinOp::TruncRem,
            BinOp::Shl,
        ];
        let mut out: Vec<Expr> = ops.iter().map(|op| build::binary(*op, a.clone(), b.clone())).collect();
        out.push(build::neg(a.clone()));
        out.push(build::math(MathFn::Abs, vec![a.clone()]));
        out
    }

    /// Whether evaluating fails: the interpreter's own arithmetic.
    fn holds(e: &Expr, at: &HashMap<VarId, i64>) -> bool {
        let condition = condition(e, &Ranges::default()).unwrap_or_else(|| boolean(true));
        let said = evaluate(&condition, at).unwrap_or_else(|| panic!("{condition:?} fails at {at:?}"));
        assert_eq!(said == 1, evaluate(e, at).is_some(), "{e:?} at {at:?}: {condition:?}");
        said == 1
    }

    #[test]
    fn conditions_hold_exactly_where_operations_fit() {
        let mut told = [0, 0];
        for (a, b) in NUMBERS.iter().flat_map(|a| NUMBERS.map(|b| (*a, b))) {
            let at = HashMap::from([(VarId(0), a), (VarId(1), b)]);
            let mut all = operations(&v(0), &v(1));
            all.extend(operations(&v(0), &index(b)));
            all.extend(operations(&index(a), &v(1)));
            for e in all {
                told[usize::from(holds(&e, &at))] += 1;
            }
        }
        assert!(told[0] > 1000 && told[1] > 1000, "{told:?}");
    }

    /// Ranges around the operands leave parts of a condition out, never a part that counts.
    #[test]
    fn conditions_hold_exactly_within_ranges() {
        let ends = [MIN, -(1 << 62), -5, -1, 0, 1, 5, 1 << 62, MAX];
        let mut r = 1u64;
        let mut next = move || {
            r = r.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (r >> 33) as usize
        };
        for _ in 0..4000 {
            let mut range = || {
                let (p, q) = (ends[next() % ends.len()], ends[next() % ends.len()]);
                (p.min(q), p.max(q))
            };
            let (x, y) = (range(), range());
            let mut ranges = Ranges::default();
            for (n, (lo, hi)) in [(0, x), (1, y)] {
                ranges.learn(&and(le(index(lo), v(n)), le(v(n), index(hi))), true);
            }
            let e = operations(&v(0), &v(1)).swap_remove(next() % 10);
            let made = condition(&e, &ranges).unwrap_or_else(|| boolean(true));
            for (a, b) in [(x.0, y.0), (x.0, y.1), (x.1, y.0), (x.1, y.1)] {
                let at = HashMap::from([(VarId(0), a), (VarId(1), b)]);
                let said = evaluate(&made, &at).unwrap_or_else(|| panic!("{made:?} fails at {at:?}"));
                assert_eq!(said == 1, evaluate(&e, &at).is_some(), "{e:?} at {at:?}: {made:?}");
            }
        }
    }

    #[test]
    fn operations_inside_come_first() {
        // (x + 5) * y, and an arm of a select that is guarded
        let e = build::mul(build::add(v(0), index(5)), v(1));
        for (x, y) in NUMBERS.iter().flat_map(|a| NUMBERS.map(|b| (*a, b))) {
            holds(&e, &HashMap::from([(VarId(0), x), (VarId(1), y)]));
        }
        let guarded = select(le(v(0), index(9)), build::add(v(0), index(5)), index(0));
        assert_eq!(condition(&guarded, &Ranges::default()), None);
        let unguarded = select(le(index(9), v(0)), build::add(v(0), index(5)), index(0));
        for x in NUMBERS {
            holds(&unguarded, &HashMap::from([(VarId(0), x), (VarId(1), 0)]));
        }
    }

    /// Each link uses the one before twice; a condition per path would never end.
    #[test]
    fn chains_have_as_many_conditions_as_links() {
        let links: [fn(Expr) -> Expr; 4] = [
            |e| build::add(e.clone(), e),
            |e| build::mul(build::add(e.clone(), index(1)), e),
            |e| select(le(index(3), e.clone()), build::add(e.clone(), index(7)), build::sub(e, index(9))),
            |e| select(le(v(1), index(3)), build::add(e.clone(), index(7)), build::sub(e, v(1))),
        ];
        for link in links {
            let e = (0..60).fold(v(0), |e, _| link(e));
            assert!(condition(&e, &Ranges::default()).is_some());
            let mut told = 0;
            failing(&e, &mut Ranges::default(), &mut |_, _| told += 1);
            assert!((60..60_000).contains(&told), "{told}");
            // Short ones are exact.
            let e = (0..9).fold(v(0), |e, _| link(e));
            NUMBERS.iter().for_each(|x| {
                holds(&e, &HashMap::from([(VarId(0), *x), (VarId(1), 2)]));
            });
        }
    }

    #[test]
    fn a_condition_is_known_where_it_was_checked() {
        for e in operations(&v(0), &index(5)).into_iter().take(3) {
            let mut ranges = Ranges::default();
            let made = condition(&e, &ranges).expect("it may overflow 64 bits");
            ranges.assume(&made);
            assert_eq!(condition(&e, &ranges), None, "{made:?}");
        }
        let mut ranges = Ranges::default();
        (0..2).for_each(|n| ranges.enter_size(VarId(n)));
        let product = build::mul(v(0), v(1));
        let made = condition(&product, &ranges).expect("2^94 is too much");
        ranges.assume(&made);
        assert!(ranges.fits(&product) && ranges.fits(&build::mul(v(1), v(0))));
        assert!(!ranges.fits(&build::add(product, index(1))));
    }
}
