//! A sum of quotients by what is the same for all of its terms is the quotient of a sum: one division instead of one for
//! each term.

use super::{Cotangents, Line, free, names_its_points};
use crate::arrays::{buffers_of, fill};
use crate::expr::zero;
use lathe_ir::build::{and, binary, load, lt, mul, neg, select};
use lathe_ir::visit::{refresh, vars_of};
use lathe_ir::{BinOp, Combine, Compute, Dim, Expr, ExprKind, ReduceOp, Scalar, Stmt, StmtKind, UnOp, VarId};
use std::collections::HashSet;

pub fn divided(all: &mut Vec<Line>, new: Cotangents, next: &mut u32) {
    let mut n = 0;
    while n < all.len() {
        let found = all[n].compute().and_then(|c| apart(c, new));
        if let (Some((sum, quotient)), Line::Do(s)) = (found, all[n].clone()) {
            let quotient = refresh(&quotient, next).with_places(s.places().clone());
            all[n] = Line::Do(s.with_kind(StmtKind::Compute(sum)));
            n += 1;
            all.insert(n, Line::Do(quotient));
        }
        n += 1;
    }
}

/// A product of what depends on the terms and what does not.
#[derive(Default)]
struct Product {
    negative: bool,
    /// Factors, and whether they divide.
    factors: Vec<(Expr, bool)>,
}

/// What has more factors is one itself.
const MAX_FACTORS: usize = 64;

impl Product {
    fn take(&mut self, e: &Expr, divides: bool) {
        match e.kind() {
            ExprKind::Binary(BinOp::Mul, a, b) if self.factors.len() < MAX_FACTORS => {
                self.take(a, divides);
                self.take(b, divides);
            }
            ExprKind::Binary(BinOp::Div, a, b) if self.factors.len() < MAX_FACTORS => {
                self.take(a, divides);
                self.take(b, !divides);
            }
            ExprKind::Unary(UnOp::Neg, a) => {
                self.negative = !self.negative;
                self.take(a, divides);
            }
            _ => self.factors.push((e.clone(), divides)),
        }
    }
}

fn is_sum(d: &Dim) -> bool {
    d.combine == Combine::Reduce(ReduceOp::Sum)
}

/// The sum of what depends on the terms, and what becomes of it.
fn apart(c: &Compute, new: Cotangents) -> Option<(Compute, Stmt)> {
    let ([target], [value]) = (&c.targets[..], &c.values[..]) else { return None };
    let b = target.view.buffer().filter(|b| new.has(*b))?;
    let wide = matches!(value.ty().scalar(), Some(Scalar::F32 | Scalar::F64)) && target.elem == *value.ty();
    let added: HashSet<VarId> = c.dims.iter().filter(|d| is_sum(d)).map(|d| d.binder.id).collect();
    let plain = c.guard.is_none() && c.update.is_none() && names_its_points(c);
    if !wide || !plain || added.is_empty() || added.len() + free(c).count() != c.dims.len() {
        return None;
    }
    let mut all = Product::default();
    all.take(value, false);
    let (inner, outer): (Vec<_>, Vec<_>) =
        all.factors.into_iter().partition(|f| !vars_of(&f.0).is_disjoint(&added));
    // Factors alone cost little, and stay where they keep a product from becoming too large.
    let (by, others): (Vec<_>, Vec<_>) = outer.into_iter().partition(|f| f.1);
    let own = by.iter().any(|f| buffers_of(&f.0).any(|r| r == b));
    if by.is_empty() || own || inner.iter().all(|f| f.1) {
        return None;
    }
    let (over, under): (Vec<_>, Vec<_>) = others.into_iter().chain(inner).partition(|f| !f.1);
    let product = over.into_iter().map(|f| f.0).reduce(mul)?;
    let term = under.into_iter().fold(product, |p, f| binary(BinOp::Div, p, f.0));
    let term = if all.negative { neg(term) } else { term };
    let sum = Compute { values: vec![term], ..c.clone() };
    let quotient = by.into_iter().fold(load(target.clone()), |q, f| binary(BinOp::Div, q, f.0));
    // Of no terms, it is zero, whatever it would be divided by.
    let some = c.dims.iter().filter(|d| is_sum(d)).map(|d| lt(d.lo.clone(), d.hi.clone())).reduce(and)?;
    let quotient = select(some, quotient, zero(&target.elem));
    let made = fill(format!("{}.quotient", c.label), free(c).cloned().collect(), target.clone(), quotient);
    Some((sum, made))
}
