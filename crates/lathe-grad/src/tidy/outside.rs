//! What all terms of a sum share stands outside of it: one division or multiplication instead of one for each term. Terms
//! that are the same up to the order of their factors are one, and terms whose sum is known are not added up again.

use super::{Cotangents, Line, factor, free, names_its_points};
use crate::arrays::{buffers_of, fill};
use crate::expr::zero;
use lathe_ir::build::{add, and, binary, float, load, lt, mul, neg, select, sub};
use lathe_ir::visit::{refresh, vars_of};
use lathe_ir::{BinOp, Combine, Compute, Dim, Expr, ExprKind, ReduceOp, Scalar, Stmt, StmtKind, UnOp, VarId};
use std::collections::HashSet;

pub fn taken(all: &mut Vec<Line>, new: Cotangents, next: &mut u32) {
    let mut n = 0;
    while n < all.len() {
        let found = all[n].compute().and_then(|c| apart(&all[..n], c, new));
        if let (Some((compute, rest)), Line::Do(s)) = (found, all[n].clone()) {
            all[n] = Line::Do(s.with_kind(StmtKind::Compute(compute)));
            if let Some(rest) = rest {
                n += 1;
                all.insert(n, Line::Do(refresh(&rest, next).with_places(s.places().clone())));
            }
        }
        n += 1;
    }
}

/// A multiple of a product.
#[derive(Clone)]
pub(super) struct Term {
    coefficient: f64,
    /// Factors, and whether they divide.
    factors: Vec<(Expr, bool)>,
}

/// What has more terms, or terms with more factors, is one itself.
const MAX: usize = 16;

impl Term {
    pub(super) fn of(e: &Expr, coefficient: f64) -> Term {
        let mut term = Term { coefficient, factors: Vec::new() };
        term.take(e, false);
        term
    }

    fn take(&mut self, e: &Expr, divides: bool) {
        match e.kind() {
            ExprKind::Binary(BinOp::Mul, a, b) if self.factors.len() < MAX => {
                self.take(a, divides);
                self.take(b, divides);
            }
            ExprKind::Binary(BinOp::Div, a, b) if self.factors.len() < MAX => {
                self.take(a, divides);
                self.take(b, !divides);
            }
            ExprKind::Unary(UnOp::Neg, a) => {
                self.coefficient = -self.coefficient;
                self.take(a, divides);
            }
            ExprKind::Float(v) if !divides && v.get().is_finite() => self.coefficient *= v.get(),
            _ => self.factors.push((e.clone(), divides)),
        }
    }

    /// Whether it has the same factors.
    fn is_like(&self, other: &Term) -> bool {
        let mut left = other.factors.clone();
        self.factors.len() == left.len() && self.factors.iter().all(|f| without(&mut left, f))
    }

    /// What is left of it where another one is taken out.
    pub(super) fn divided_by(mut self, other: &Term) -> Option<Term> {
        let all = other.factors.iter().all(|f| without(&mut self.factors, f));
        self.coefficient /= other.coefficient;
        (all && !other.factors.is_empty() && self.coefficient.is_finite()).then_some(self)
    }

    pub(super) fn times(mut self, e: Expr) -> Term {
        self.factors.insert(0, (e, false));
        self
    }

    pub(super) fn value(&self, like: &Expr) -> Option<Expr> {
        let over = self.factors.iter().filter(|f| !f.1).map(|f| f.0.clone()).reduce(mul);
        let number = || Some(float(like.ty().scalar()?, self.coefficient.abs()));
        let over = match over {
            Some(e) if self.coefficient.abs() == 1.0 => e,
            Some(e) => mul(number()?, e),
            None => number()?,
        };
        let under = self.factors.iter().filter(|f| f.1);
        let value = under.fold(over, |v, f| binary(BinOp::Div, v, f.0.clone()));
        Some(if self.coefficient < 0.0 { neg(value) } else { value })
    }
}

/// Takes a factor out, if it is there.
fn without(all: &mut Vec<(Expr, bool)>, f: &(Expr, bool)) -> bool {
    all.iter().position(|o| o == f).map(|n| all.remove(n)).is_some()
}

/// The terms of a value, and how many there were before those that are alike were one.
fn terms(e: &Expr) -> Option<(Vec<Term>, usize)> {
    fn go(e: &Expr, sign: f64, out: &mut Vec<Term>) {
        match e.kind() {
            ExprKind::Binary(BinOp::Add, a, b) if out.len() < MAX => {
                go(a, sign, out);
                go(b, sign, out);
            }
            ExprKind::Binary(BinOp::Sub, a, b) if out.len() < MAX => {
                go(a, sign, out);
                go(b, -sign, out);
            }
            ExprKind::Unary(UnOp::Neg, a) => go(a, -sign, out),
            _ => out.push(Term::of(e, sign)),
        }
    }
    let mut all = Vec::new();
    go(e, 1.0, &mut all);
    let before = all.len();
    let mut merged: Vec<Term> = Vec::new();
    for t in all {
        match merged.iter_mut().find(|m| m.is_like(&t)) {
            Some(m) => m.coefficient += t.coefficient,
            None => merged.push(t),
        }
    }
    // What vanishes is left to say so.
    let fits = merged.iter().all(|t| t.coefficient != 0.0 && t.coefficient.is_finite());
    fits.then_some((merged, before))
}

fn is_sum(d: &Dim) -> bool {
    d.combine == Combine::Reduce(ReduceOp::Sum)
}

/// A sum of what differs between its terms, and what becomes of it; of a map, its value with fewer terms.
fn apart(before: &[Line], c: &Compute, new: Cotangents) -> Option<(Compute, Option<Stmt>)> {
    let ([target], [value]) = (&c.targets[..], &c.values[..]) else { return None };
    let b = target.view.buffer().filter(|b| new.has(*b))?;
    let wide = matches!(value.ty().scalar(), Some(Scalar::F32 | Scalar::F64)) && target.elem == *value.ty();
    let known = c.dims.iter().all(|d| is_sum(d) || d.combine == Combine::Concat);
    if !wide || !known {
        return None;
    }
    let (mut all, count) = terms(value)?;
    let fewer = all.len() < count;
    let alone = names_its_points(c) && c.guard.is_none() && c.update.is_none();
    let added: HashSet<VarId> = c.dims.iter().filter(|d| is_sum(d)).map(|d| d.binder.id).collect();
    let reads_target = |t: &Term| t.factors.iter().any(|f| buffers_of(&f.0).any(|r| r == b));
    let outer = |all: &[Term]| shared(all, &added, c).filter(|outer| alone && !reads_target(outer));
    let (mut known, mut outside) = (Vec::new(), outer(&all));
    if alone && outside.is_none() && all.len() > 1 {
        // What is left is worth it if something stands outside of it.
        let (found, others) = summed(before, c, &all, &added);
        if let Some(taken) = outer(&others).filter(|_| !found.is_empty()) {
            (known, all, outside) = (found, others, Some(taken));
        }
    }
    let outer = outside;
    if let Some(outer) = &outer {
        for t in &mut all {
            for f in &outer.factors {
                without(&mut t.factors, f);
            }
            t.coefficient /= outer.coefficient;
        }
    } else if !fewer {
        return None;
    }
    let sum = Compute { values: vec![total(&all, value)?], ..c.clone() };
    let Some(mut whole) = outer else { return Some((sum, None)) };
    whole.factors.insert(0, (load(target.clone()), false));
    // Of no terms, it is zero, whatever it would be multiplied by.
    let some = c.dims.iter().filter(|d| is_sum(d)).map(|d| lt(d.lo.clone(), d.hi.clone())).reduce(and)?;
    let all_terms: Vec<Term> = [vec![whole], known].concat();
    let rest = select(some, total(&all_terms, value)?, zero(&target.elem));
    let made = fill(format!("{}.whole", c.label), free(c).cloned().collect(), target.clone(), rest);
    Some((sum, Some(made)))
}

/// The sum of some terms.
fn total(all: &[Term], like: &Expr) -> Option<Expr> {
    let (first, others) = all.split_first()?;
    others.iter().try_fold(first.value(like)?, |sum, t| {
        let amount = Term { coefficient: t.coefficient.abs(), ..t.clone() }.value(like)?;
        Some(if t.coefficient < 0.0 { sub(sum, amount) } else { add(sum, amount) })
    })
}

/// Terms whose sums are known, as multiples of these sums, and the others. The sums have fewer indices: where terms differ in
/// every element, their sums may be large and the sum of their differences small.
fn summed(before: &[Line], c: &Compute, all: &[Term], added: &HashSet<VarId>) -> (Vec<Term>, Vec<Term>) {
    let (mut known, mut others) = (Vec::new(), Vec::new());
    for t in all {
        let (inner, outer): (Vec<_>, Vec<_>) =
            t.factors.iter().cloned().partition(|f| !vars_of(&f.0).is_disjoint(added));
        let inner = Term { coefficient: 1.0, factors: inner };
        let multiple = |value: &Expr| {
            let one = Term::of(value, 1.0);
            (one.coefficient != 0.0 && one.is_like(&inner)).then_some(one.coefficient)
        };
        let is_sum = !inner.factors.is_empty();
        let fewer = |sum: &Expr| matches!(sum.kind(), ExprKind::Load(a) if a.indices.len() < c.targets[0].indices.len());
        let found = is_sum.then(|| factor::known(before, c, multiple)).flatten();
        match found.filter(|(sum, _)| fewer(sum)) {
            Some((sum, times)) => known.push(Term {
                coefficient: t.coefficient / times,
                factors: [vec![(sum, false)], outer].concat(),
            }),
            None => others.push(t.clone()),
        }
    }
    (known, others)
}

/// What all terms of a sum have in common and is the same for all of its points, if it is better off outside.
fn shared(all: &[Term], added: &HashSet<VarId>, c: &Compute) -> Option<Term> {
    let same = |f: &(Expr, bool)| vars_of(&f.0).is_disjoint(added);
    let mut factors: Vec<(Expr, bool)> = all.first()?.factors.iter().filter(|f| same(f)).cloned().collect();
    for t in &all[1..] {
        let mut left = t.factors.clone();
        factors.retain(|f| without(&mut left, f));
    }
    // Something to add up remains.
    let varies = all.iter().all(|t| t.factors.iter().any(|f| !f.1 && !same(f)));
    let long = c.dims.iter().filter(|d| is_sum(d)).all(|d| d.lo.as_int().zip(d.hi.as_int()).is_none());
    let pays = factors.iter().any(|f| f.1) || long && !factors.is_empty();
    if added.is_empty() || !varies || !pays {
        return None;
    }
    let coefficient = if let [one] = all { one.coefficient } else { 1.0 };
    Some(Term { coefficient, factors })
}
