//! The prover of `form ≥ 0`.
//!
//! Variables are replaced from the innermost loop outward by the bound that makes the form smallest, and `min`, `max`,
//! `//`, `%` and products by what bounds them, until the ranges of what is left decide. That is exact enough for the
//! bounds that transformations make, and costs a bounded number of steps per question.

use crate::form::Linear;
use crate::products;
use crate::ranges::Ranges;
use lathe_ir::{BinOp, Expr, ExprKind, VarId, build, visit};
use rustc_hash::FxHashMap;

/// How much one question may cost: replacements along all branches of the proof.
const BUDGET: u32 = 96;

impl Ranges {
    /// Whether `a ≤ b` is known.
    pub fn le(&self, a: &Expr, b: &Expr) -> bool {
        Linear::of(b).minus(&Linear::of(a)).is_some_and(|f| self.nonneg(&f))
    }

    /// Whether `a < b` is known.
    pub fn lt(&self, a: &Expr, b: &Expr) -> bool {
        let gap = Linear::of(b).minus(&Linear::of(a)).and_then(|f| f.offset(-1));
        gap.is_some_and(|f| self.nonneg(&f))
    }

    /// Whether a form is known to be ≥ 0.
    pub fn nonneg(&self, form: &Linear) -> bool {
        let range = self.sum(form);
        if range.lo >= 0 || range.hi < 0 {
            return range.lo >= 0;
        }
        let mut budget = BUDGET;
        self.prove(form.clone(), &mut budget)
            || self.facts.iter().any(|fact| {
                let mut budget = BUDGET / 4;
                form.minus(fact).is_some_and(|f| self.prove(f, &mut budget))
            })
    }

    /// Whether `c` (positive) is known to divide an expression.
    pub fn divides(&self, c: i64, e: &Expr) -> bool {
        self.divides_in(c, e, &mut FxHashMap::default())
    }

    /// `known` says it of values that variables stand for: of each it is found out once.
    fn divides_in(&self, c: i64, e: &Expr, known: &mut FxHashMap<VarId, bool>) -> bool {
        let f = Linear::of(e);
        let mut multiple = |e: &Expr| match e.kind() {
            ExprKind::Binary(BinOp::Mul, a, b) => {
                self.divides_atom(c, a, known) || self.divides_atom(c, b, known)
            }
            _ => self.divides_atom(c, e, known),
        };
        f.constant % c == 0 && f.terms.iter().all(|(a, k)| k % c == 0 || multiple(a))
    }

    fn divides_atom(&self, c: i64, e: &Expr, known: &mut FxHashMap<VarId, bool>) -> bool {
        if self.multiples.iter().any(|(of, d)| d % c == 0 && of == e) {
            return true;
        }
        let Some(b) = e.as_var().and_then(|v| self.bound(v)).filter(|b| b.value) else {
            return e.as_int().is_some_and(|v| v % c == 0);
        };
        if let Some(known) = known.get(&b.id) {
            return *known;
        }
        let yes = b.lo.as_ref().is_some_and(|value| self.divides_in(c, value, known));
        known.insert(b.id, yes);
        yes
    }

    /// Proves `form ≥ 0`.
    fn prove(&self, form: Linear, budget: &mut u32) -> bool {
        if let Some(c) = form.as_constant() {
            return c >= 0;
        }
        if *budget == 0 {
            return false;
        }
        *budget -= 1;
        let Some(at) = self.next(&form) else { return false };
        let mut rest = form;
        let (atom, k) = rest.terms.remove(at);
        // `rest + k · e ≥ 0` for an expression `e` that bounds the atom from the side that counts.
        let with = |rest: &Linear, e: &Expr, plus: i64, budget: &mut u32| {
            Linear::of(e).offset(plus).and_then(|l| rest.plus(&l, k)).is_some_and(|f| self.prove(f, budget))
        };
        // Nothing bounds the atom but its range, if any.
        let by_range = |rest: &Linear, budget: &mut u32| {
            let range = self.truth(&atom);
            let end = i64::try_from(if k > 0 { range.lo } else { range.hi }).ok();
            let left = end.and_then(|end| rest.offset(end.checked_mul(k)?));
            left.is_some_and(|f| self.prove(f, budget))
        };
        match atom.kind() {
            ExprKind::Var(v) => match self.bound(*v).map(|b| (b.value, &b.lo, &b.hi)) {
                Some((true, Some(value), _)) => with(&rest, value, 0, budget),
                Some((_, Some(lo), _)) if k > 0 => with(&rest, lo, 0, budget),
                Some((_, Some(lo), Some(hi))) if k < 0 => with(&rest, end(lo, hi), -1, budget),
                Some((_, None, Some(hi))) if k < 0 => with(&rest, hi, -1, budget),
                _ => by_range(&rest, budget),
            },
            ExprKind::Binary(op @ (BinOp::Min | BinOp::Max), a, b) => {
                // The atom is one of both; it is bounded by each of them from one side.
                if (*op == BinOp::Min) == (k < 0) {
                    with(&rest, a, 0, budget) || with(&rest, b, 0, budget)
                } else {
                    with(&rest, a, 0, budget) && with(&rest, b, 0, budget)
                }
            }
            ExprKind::Binary(BinOp::FloorDiv, a, b) => {
                let Some(c) = b.as_int().filter(|c| *c > 0) else { return by_range(&rest, budget) };
                let left = rest.clone();
                // a - (c-1) ≤ c·q ≤ a. Scale so that the factor is a multiple of c; integers below 0
                // are at most -1, hence the slack.
                let (scaled, factor) = if k % c == 0 {
                    (Some(rest), k / c)
                } else {
                    (rest.scaled(c).and_then(|r| r.offset(c - 1)), k)
                };
                let bound = Linear::of(a).offset(if k > 0 { 1 - c } else { 0 });
                let by_dividend = match (scaled, bound) {
                    (Some(s), Some(b)) => s.plus(&b, factor).is_some_and(|f| self.prove(f, budget)),
                    _ => false,
                };
                // Nothing negative becomes negative by a division.
                by_dividend || k > 0 && self.prove(Linear::of(a), budget) && self.prove(left, budget)
            }
            ExprKind::Binary(BinOp::FloorMod, _, b) => {
                let Some(c) = b.as_int().filter(|c| *c > 0) else { return by_range(&rest, budget) };
                with(&rest, &build::index(if k > 0 { 0 } else { c - 1 }), 0, budget)
            }
            ExprKind::Select(_, a, b) if atom.ty().is_index() => {
                with(&rest, a, 0, budget) && with(&rest, b, 0, budget)
            }
            ExprKind::Binary(BinOp::Mul, a, b) if atom.ty().is_index() => {
                let sign = |e: &Expr, budget: &mut u32| self.prove(Linear::of(e), budget);
                // A product of values that cannot be negative.
                k > 0 && sign(a, budget) && sign(b, budget) && self.prove(rest.clone(), budget)
                    || k < 0
                        && self
                            .outer_product(&atom)
                            .is_some_and(|p| rest.plus(&p, k).is_some_and(|f| self.prove(f, budget)))
                    || by_range(&rest, budget)
            }
            _ => by_range(&rest, budget),
        }
    }

    /// The atom to replace: of the innermost loop, and of several one that is in no other, whose bound may cancel what
    /// it is made of.
    fn next(&self, form: &Linear) -> Option<usize> {
        let depths: Vec<usize> = form.terms.iter().map(|t| self.depth_of(&t.0)).collect();
        let deepest = depths.iter().max()?;
        let mut ties = (0..depths.len()).rev().filter(|t| depths[*t] == *deepest);
        let mut at = ties.next()?;
        for t in ties {
            if within(&form.terms[at].0, &form.terms[t].0) {
                at = t;
            }
        }
        Some(at)
    }

    /// What a product is at most: the innermost variable of a loop replaced by its last value, where the other factors
    /// are not negative.
    fn outer_product(&self, product: &Expr) -> Option<Linear> {
        let mut all = products::factors(product);
        if all.iter().any(|f| self.range(f).lo < 0) {
            return None;
        }
        let inner = (0..all.len()).max_by_key(|n| self.depth_of(&all[*n]))?;
        let v = all.remove(inner).as_var()?;
        let b = self.bound(v)?;
        let last = match (b.value, &b.lo, &b.hi) {
            (true, Some(value), _) => products::expand(value),
            (false, Some(lo), Some(hi)) => products::expand(end(lo, hi)).offset(-1)?,
            (false, None, Some(hi)) => products::expand(hi).offset(-1)?,
            _ => return None,
        };
        products::multiply(&last, &Linear::atom(products::of(all)))
    }
}

/// Where a loop runs at all, `lo..max(lo, e)` ends at `e`.
fn end<'a>(lo: &Expr, hi: &'a Expr) -> &'a Expr {
    match hi.kind() {
        ExprKind::Binary(BinOp::Max, a, b) if a == lo => b,
        ExprKind::Binary(BinOp::Max, a, b) if b == lo => a,
        _ => hi,
    }
}

/// Whether an expression is a part of another one.
fn within(part: &Expr, whole: &Expr) -> bool {
    let mut found = false;
    visit::walk_expr(whole, &mut |e| found |= e == part);
    found
}
