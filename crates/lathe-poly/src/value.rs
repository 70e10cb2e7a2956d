//! What evaluating an expression gives: where the value lies, and whether it has one: `index` arithmetic stays within 64
//! bits, and no divisor is 0.

use crate::form::Linear;
use crate::interval::Interval;
use crate::products;
use crate::ranges::Ranges;
use lathe_ir::{BinOp, Expr, ExprKind, MathFn, Scalar, UnOp};
use std::collections::HashMap;

/// What is known of the evaluation of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Where the result lies if there is one; of floats and aggregates nothing is said.
    pub range: Interval,
    /// No operation inside fails: no `index` operation overflows 64 bits, no division is by 0.
    pub fits: bool,
}

/// Shared parts are looked up from so many nodes on.
const SMALL: usize = 48;

/// Values by node, once an expression is large.
struct Memo {
    /// Whether it is asked if operations fit. Ranges do not depend on it, and the prover, which `fits` may ask, asks
    /// for ranges only.
    fits: bool,
    visits: usize,
    done: HashMap<usize, Value>,
}

impl Memo {
    fn new(fits: bool) -> Memo {
        Memo { fits, visits: 0, done: HashMap::new() }
    }
}

/// The scalar type of an expression, `bool` where it has none.
fn scalar(e: &Expr) -> Scalar {
    e.ty().scalar().unwrap_or(Scalar::Bool)
}

impl Ranges {
    /// Where the value of an expression of an integer type lies.
    pub fn range(&self, e: &Expr) -> Interval {
        match e.kind() {
            ExprKind::Int(_) | ExprKind::Var(_) => self.leaf(e),
            _ => self.value_in(e, &mut Memo::new(false)).range,
        }
    }

    /// Whether no operation of an expression fails, for all values of what is in scope: no `index` operation overflows
    /// 64 bits, no integer is divided by 0. Loads are taken to be in order.
    pub fn fits(&self, e: &Expr) -> bool {
        matches!(e.kind(), ExprKind::Int(_) | ExprKind::Var(_)) || self.value(e).fits
    }

    /// What is known of the evaluation of an expression.
    pub fn value(&self, e: &Expr) -> Value {
        self.value_in(e, &mut Memo::new(true))
    }

    /// Where a sum lies.
    pub fn sum(&self, form: &Linear) -> Interval {
        let term = |(atom, k): &(Expr, i64)| self.truth(atom).times(Interval::point(*k));
        form.terms.iter().map(term).fold(Interval::point(form.constant), Interval::plus)
    }

    /// Where an atom lies as a number. A product in a form need not be computed anywhere: multiplying sums out makes
    /// products that the program does not have, so that nothing says that they fit 64 bits but what is known of their
    /// factors and of themselves.
    pub(crate) fn truth(&self, atom: &Expr) -> Interval {
        if !matches!(atom.kind(), ExprKind::Binary(BinOp::Mul, ..)) || !atom.ty().is_index() {
            return self.range(atom);
        }
        let factors = products::factors(atom);
        let all = factors.iter().map(|f| self.range(f)).reduce(Interval::times);
        let range = self.narrowed(atom, all.unwrap_or(Interval::INDEX));
        self.narrowed(&products::of(factors), range)
    }

    fn leaf(&self, e: &Expr) -> Interval {
        match e.kind() {
            ExprKind::Int(v) if scalar(e) == Scalar::U64 => Interval::point(*v as u64),
            ExprKind::Int(v) => Interval::point(*v),
            ExprKind::Var(v) => {
                let range = self.bound(*v).map_or_else(|| Interval::of_type(scalar(e)), |b| b.range);
                self.narrowed(e, range)
            }
            _ => Interval::of_type(scalar(e)),
        }
    }

    /// The range of an atom with what conditions say about it.
    fn narrowed(&self, e: &Expr, range: Interval) -> Interval {
        self.known(e).and_then(|k| k.meet(range)).unwrap_or(range)
    }

    fn value_in(&self, e: &Expr, memo: &mut Memo) -> Value {
        if let ExprKind::Int(_) | ExprKind::Var(_) | ExprKind::Float(_) | ExprKind::Bool(_) = e.kind() {
            return Value { range: self.leaf(e), fits: true };
        }
        memo.visits += 1;
        if memo.visits > SMALL
            && let Some(done) = memo.done.get(&e.address())
        {
            return *done;
        }
        let out = self.node(e, memo);
        if memo.visits > SMALL {
            memo.done.insert(e.address(), out);
        }
        out
    }

    fn node(&self, e: &Expr, memo: &mut Memo) -> Value {
        let ty = scalar(e);
        let own = |fits, range| Value { range: self.narrowed(e, range), fits };
        match e.kind() {
            ExprKind::Unary(op, a) => {
                let a = self.value_in(a, memo);
                match op {
                    UnOp::Neg if ty.is_int() => self.result(e, a.fits, Some(a.range.negated()), memo),
                    _ => own(a.fits, Interval::of_type(ty)),
                }
            }
            ExprKind::Binary(op, x, y) => {
                let (a, b) = (self.value_in(x, memo), self.value_in(y, memo));
                let divides = memo.fits && op.is_division();
                let fits = a.fits && b.fits && !(divides && self.may_be_zero(y));
                let at = scalar(x);
                if op.is_comparison() || !at.is_int() {
                    return own(fits, Interval::of_type(ty));
                }
                let shift = matches!(op, BinOp::Shl | BinOp::Shr);
                let modulo = shift && !Interval::new(0, at.bits() - 1).contains(b.range);
                let made = if modulo { None } else { Interval::binary(*op, a.range, b.range) };
                self.result(e, fits, made, memo)
            }
            ExprKind::Select(c, x, y) => {
                let c_value = self.value_in(c, memo);
                let (mut a, mut b) = (self.value_in(x, memo), self.value_in(y, memo));
                if !(a.fits && b.fits) {
                    (a, b) = (self.value_under(c, true, x, memo), self.value_under(c, false, y, memo));
                }
                own(c_value.fits && a.fits && b.fits, a.range.join(b.range))
            }
            ExprKind::Cast(x) => {
                let a = self.value_in(x, memo);
                let from = scalar(x);
                if from.is_float() || !ty.is_int() {
                    return own(a.fits, Interval::of_type(ty));
                }
                self.result(e, a.fits, Some(a.range), memo)
            }
            ExprKind::Math(f, all) => {
                let values: Vec<Value> = all.iter().map(|a| self.value_in(a, memo)).collect();
                let fits = values.iter().all(|v| v.fits);
                match values.first() {
                    Some(a) if *f == MathFn::Abs && ty.is_int() => {
                        self.result(e, fits, Some(a.range.magnitude()), memo)
                    }
                    _ => own(fits, Interval::of_type(ty)),
                }
            }
            ExprKind::Load(_)
            | ExprKind::Address(_)
            | ExprKind::Bitcast(_)
            | ExprKind::Aggregate(_)
            | ExprKind::Field(..)
            | ExprKind::Call(..) => {
                let fits = e.children().into_iter().all(|c| self.value_in(c, memo).fits);
                own(fits, Interval::of_type(ty))
            }
            ExprKind::Int(_) | ExprKind::Var(_) | ExprKind::Float(_) | ExprKind::Bool(_) => {
                own(true, self.leaf(e))
            }
        }
    }

    /// The result of an operation of an integer type that would be `made` without bounds: `index` arithmetic either
    /// fits or fails, other types wrap.
    fn result(&self, e: &Expr, fits: bool, made: Option<Interval>, memo: &Memo) -> Value {
        let all = Interval::of_type(scalar(e));
        if !e.ty().is_index() {
            let range = made.filter(|m| all.contains(*m)).unwrap_or(all);
            return Value { range: self.narrowed(e, range), fits };
        }
        let Some(made) = made else {
            // Of the operations that are not followed, shifts alone can overflow 64 bits.
            let shift = matches!(e.kind(), ExprKind::Binary(BinOp::Shl, ..));
            return Value { range: self.narrowed(e, all), fits: fits && !shift };
        };
        // What is known of a product is known of what it is in truth.
        let mut truth = self.narrowed(e, made);
        if !all.contains(truth) {
            truth = self.product(e).and_then(|p| p.meet(truth)).unwrap_or(truth);
        }
        let inside = all.contains(truth) || memo.fits && fits && self.stays(e);
        Value { range: truth.meet(all).unwrap_or(all), fits: fits && inside }
    }

    /// Where a product lies, from what is known of the products that it is a sum of.
    fn product(&self, e: &Expr) -> Option<Interval> {
        if !matches!(e.kind(), ExprKind::Binary(BinOp::Mul, ..)) {
            return None;
        }
        let form = products::expand(e);
        form.terms.iter().try_fold(Interval::point(form.constant), |sum, (atom, k)| {
            let range = if atom.as_var().is_some() { self.leaf(atom) } else { self.known(atom)? };
            Some(sum.plus(range.times(Interval::point(*k))))
        })
    }

    /// Whether a sum or product of parts that fit is within 64 bits as a whole.
    fn stays(&self, e: &Expr) -> bool {
        let sum = matches!(
            e.kind(),
            ExprKind::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul, ..) | ExprKind::Unary(UnOp::Neg, _)
        );
        if !sum {
            return false;
        }
        let form = products::expand(e);
        if form == Linear::atom(e.clone()) {
            return false;
        }
        let below = Linear::constant(i64::MAX).minus(&form);
        let above = form.offset(i64::MAX);
        below.is_some_and(|f| self.nonneg(&f)) && above.is_some_and(|f| self.nonneg(&f))
    }

    /// An arm of a `select`.
    fn value_under(&self, cond: &Expr, holds: bool, e: &Expr, memo: &Memo) -> Value {
        let mut inner = self.clone();
        if inner.learn(cond, holds) {
            inner.value_in(e, &mut Memo::new(memo.fits))
        } else {
            // It is never evaluated.
            Value { range: Interval::point(0), fits: true }
        }
    }
}
