//! What evaluating an expression gives: where the value lies, and whether it has one: `index` arithmetic stays within 64
//! bits, and no divisor is 0.

use crate::form::Linear;
use crate::interval::Interval;
use crate::products;
use crate::ranges::Ranges;
use lathe_ir::visit::Memo;
use lathe_ir::{BinOp, Expr, ExprKind, MathFn, Scalar, UnOp};

/// What is known of the evaluation of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Where the result lies if there is one; of floats and aggregates nothing is said.
    pub range: Interval,
    /// No operation inside fails: no `index` operation overflows 64 bits, no division is by 0.
    pub fits: bool,
}

/// As many selects teach their arms something: these are looked at again, and so are selects in them.
const MAX_ARMS: usize = 32;
/// Steps of learning that count as an arm.
const STEPS: usize = 128;

/// What was found out about the nodes of an expression, for questions under one set of ranges.
pub(crate) struct Known {
    /// Whether it is asked if operations fit. Ranges do not depend on it, and the prover, which `fits` may ask, asks
    /// for ranges only.
    fits: bool,
    /// How many more arms are looked at with their condition.
    arms: usize,
    done: Memo<Value>,
    forms: Memo<Linear>,
}

impl Known {
    pub fn new(fits: bool) -> Known {
        Known { fits, arms: MAX_ARMS, done: Memo::default(), forms: Memo::default() }
    }

    /// For other ranges, with so many arms.
    fn with_arms(&self, arms: usize) -> Known {
        Known { arms, ..Known::new(self.fits) }
    }

    /// For what stands under a further condition, which `visit` gets. What is looked at in
    /// all is counted together.
    pub fn under<R>(&mut self, visit: impl FnOnce(&mut Known) -> R) -> R {
        let mut inner = self.with_arms(self.arms.saturating_sub(1));
        let out = visit(&mut inner);
        self.arms = inner.arms;
        out
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
            _ => {
                let known = Known::new(false);
                let arms = if self.learning { 0 } else { known.arms };
                self.value_in(e, &mut Known { arms, ..known }).range
            }
        }
    }

    /// Whether no operation of an expression fails, for all values of what is in scope: no `index` operation overflows
    /// 64 bits, no integer is divided by 0. Loads are taken to be in order.
    pub fn fits(&self, e: &Expr) -> bool {
        matches!(e.kind(), ExprKind::Int(_) | ExprKind::Var(_)) || self.value(e).fits
    }

    /// As [`Ranges::fits`], with what earlier questions found out.
    pub(crate) fn fits_in(&self, e: &Expr, known: &mut Known) -> bool {
        self.value_in(e, known).fits
    }

    /// What is known of the evaluation of an expression.
    pub fn value(&self, e: &Expr) -> Value {
        self.value_in(e, &mut Known::new(true))
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

    fn value_in(&self, e: &Expr, memo: &mut Known) -> Value {
        if let ExprKind::Int(_) | ExprKind::Var(_) | ExprKind::Float(_) | ExprKind::Bool(_) = e.kind() {
            return Value { range: self.leaf(e), fits: true };
        }
        memo.done.visit();
        if let Some(done) = memo.done.get(e) {
            return *done;
        }
        let out = self.node(e, memo);
        if memo.done.is_large() {
            memo.done.insert(e, out);
        }
        out
    }

    fn node(&self, e: &Expr, memo: &mut Known) -> Value {
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
                let (a, b) = if memo.arms == 0 {
                    (self.value_in(x, memo), self.value_in(y, memo))
                } else {
                    self.arms(c, x, y, memo)
                };
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
    fn result(&self, e: &Expr, fits: bool, made: Option<Interval>, memo: &mut Known) -> Value {
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
            truth = self.product(e, memo).and_then(|p| p.meet(truth)).unwrap_or(truth);
        }
        let inside = all.contains(truth) || memo.fits && fits && self.stays(e, memo);
        Value { range: truth.meet(all).unwrap_or(all), fits: fits && inside }
    }

    /// Where a product lies, from what is known of the products that it is a sum of.
    fn product(&self, e: &Expr, memo: &mut Known) -> Option<Interval> {
        if !matches!(e.kind(), ExprKind::Binary(BinOp::Mul, ..)) {
            return None;
        }
        let form = products::expand_in(e, &mut memo.forms);
        form.terms.iter().try_fold(Interval::point(form.constant), |sum, (atom, k)| {
            let range = if atom.as_var().is_some() { self.leaf(atom) } else { self.known(atom)? };
            Some(sum.plus(range.times(Interval::point(*k))))
        })
    }

    /// Whether a sum or product of parts that fit is within 64 bits as a whole.
    fn stays(&self, e: &Expr, memo: &mut Known) -> bool {
        let sum = matches!(
            e.kind(),
            ExprKind::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul, ..) | ExprKind::Unary(UnOp::Neg, _)
        );
        if !sum {
            return false;
        }
        let form = products::expand_in(e, &mut memo.forms);
        if form == Linear::atom(e.clone()) {
            return false;
        }
        let below = Linear::constant(i64::MAX).minus(&form);
        let above = form.offset(i64::MAX);
        below.is_some_and(|f| self.nonneg(&f)) && above.is_some_and(|f| self.nonneg(&f))
    }

    /// Both arms of a `select`: what its condition says is used where it is needed.
    fn arms(&self, c: &Expr, x: &Expr, y: &Expr, memo: &mut Known) -> (Value, Value) {
        let mut plain = memo.with_arms(0);
        let (a, b) = (self.value_in(x, &mut plain), self.value_in(y, &mut plain));
        if a.fits && b.fits {
            return (a, b);
        }
        (self.value_under(c, true, x, memo), self.value_under(c, false, y, memo))
    }

    /// An arm of a `select`.
    fn value_under(&self, cond: &Expr, holds: bool, e: &Expr, memo: &mut Known) -> Value {
        let mut inner = self.clone();
        let possible = inner.learn(cond, holds);
        memo.arms = memo.arms.saturating_sub((inner.taken() - self.taken()) / STEPS);
        if possible {
            memo.under(|memo| inner.value_in(e, memo))
        } else {
            // It is never evaluated.
            Value { range: Interval::point(0), fits: true }
        }
    }
}
