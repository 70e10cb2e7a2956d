//! Polynomials over the integers modulo a power of two: what `+`, `-`, `*` of a machine type compute.

use crate::formula::{Formulas, Id, Op};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{BinOp, Scalar};
use std::collections::BTreeMap;

/// Larger ones are kept as they are written.
const TERMS: usize = 300;
const DEGREE: usize = 12;

/// Coefficients by monomials; a monomial is a sorted list of formulas that are neither sums nor products.
#[derive(Clone, Debug, PartialEq)]
pub struct Poly {
    ty: Scalar,
    terms: BTreeMap<Vec<Id>, u64>,
}

fn mask(ty: Scalar) -> u64 {
    if ty.bits() >= 64 { u64::MAX } else { (1 << ty.bits()) - 1 }
}

impl Poly {
    pub fn constant(ty: Scalar, v: u64) -> Poly {
        let mut out = Poly { ty, terms: BTreeMap::new() };
        out.put(Vec::new(), v);
        out
    }

    pub fn atom(ty: Scalar, a: Id) -> Poly {
        Poly { ty, terms: BTreeMap::from([(vec![a], 1)]) }
    }

    fn put(&mut self, m: Vec<Id>, c: u64) {
        let at = self.terms.entry(m).or_insert(0);
        *at = at.wrapping_add(c) & mask(self.ty);
    }

    fn clean(mut self) -> Option<Poly> {
        self.terms.retain(|_, c| *c != 0);
        let small = self.terms.len() <= TERMS && self.terms.keys().all(|m| m.len() <= DEGREE);
        small.then_some(self)
    }

    /// `self + factor * o`; `None` if it gets too large, as for [`Poly::times`].
    pub fn plus(&self, factor: u64, o: &Poly) -> Option<Poly> {
        let mut out = self.clone();
        for (m, c) in &o.terms {
            out.put(m.clone(), c.wrapping_mul(factor));
        }
        out.clean()
    }

    pub fn times(&self, o: &Poly) -> Option<Poly> {
        if self.terms.len() * o.terms.len() > 4 * TERMS {
            return None;
        }
        let mut out = Poly { ty: self.ty, terms: BTreeMap::new() };
        for (m, c) in &self.terms {
            for (n, d) in &o.terms {
                let mut both = [m.as_slice(), n.as_slice()].concat();
                both.sort_unstable();
                out.put(both, c.wrapping_mul(*d));
            }
        }
        out.clean()
    }

    /// The terms, the coefficients as non-negative numbers below the modulus.
    pub fn terms(&self) -> impl Iterator<Item = (&[Id], u64)> {
        self.terms.iter().map(|(m, c)| (m.as_slice(), *c))
    }

    pub fn as_constant(&self) -> Option<u64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    /// Of `p` and `-p` the one that is chosen for both.
    pub fn without_sign(self) -> Poly {
        let leads = self.terms.values().next().copied().unwrap_or(0);
        if leads <= leads.wrapping_neg() & mask(self.ty) {
            return self;
        }
        let terms = self.terms.iter().map(|(m, c)| (m.clone(), c.wrapping_neg() & mask(self.ty))).collect();
        Poly { ty: self.ty, terms }
    }

    /// The one formula that all equal polynomials have.
    pub fn formula(&self, f: &mut Formulas) -> Id {
        let mut sum: Option<Id> = None;
        for (m, c) in &self.terms {
            // Negative coefficients are subtracted, for the sake of the circuits.
            let negative = c.wrapping_neg() & mask(self.ty);
            let minus = negative < *c && !m.is_empty();
            let c = f.constant(ScalarValue::int(self.ty, if minus { negative } else { *c } as i64));
            let product = m.iter().copied().reduce(|a, b| f.add(Op::Binary(BinOp::Mul, a, b), self.ty));
            let term = match product {
                None => c,
                Some(p) if f.value(c).is_some_and(|v| v.bits == 1) => p,
                Some(p) => f.add(Op::Binary(BinOp::Mul, p, c), self.ty),
            };
            sum = Some(match (sum, minus) {
                (None, false) => term,
                (None, true) => {
                    let zero = f.int(self.ty, 0);
                    f.add(Op::Binary(BinOp::Sub, zero, term), self.ty)
                }
                (Some(s), false) => f.add(Op::Binary(BinOp::Add, s, term), self.ty),
                (Some(s), true) => f.add(Op::Binary(BinOp::Sub, s, term), self.ty),
            });
        }
        sum.unwrap_or_else(|| f.int(self.ty, 0))
    }
}
