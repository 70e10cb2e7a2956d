//! Linear forms over `index` expressions: a constant plus integer multiples of opaque atoms.

use crate::build;
use crate::expr::{Expr, ExprKind};
use crate::ops::{BinOp, UnOp};

/// `constant + Σ factor · atom`; atoms are distinct, factors are not 0, and the order is that of the text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Linear {
    pub terms: Vec<(Expr, i64)>,
    pub constant: i64,
}

impl Linear {
    pub fn constant(v: i64) -> Linear {
        Linear { terms: Vec::new(), constant: v }
    }

    /// The form of an `index` expression. What is not linear becomes an atom; `None` only when a
    /// constant does not fit 64 bits.
    pub fn of(e: &Expr) -> Option<Linear> {
        let mut out = Linear::default();
        out.add_expr(e, 1, &mut |atom| atom.clone())?;
        Some(out)
    }

    /// As [`Linear::of`]; every atom is rewritten first.
    pub fn of_with(e: &Expr, atoms: &mut dyn FnMut(&Expr) -> Expr) -> Option<Linear> {
        let mut out = Linear::default();
        out.add_expr(e, 1, atoms)?;
        Some(out)
    }

    fn add_expr(&mut self, e: &Expr, factor: i64, atoms: &mut dyn FnMut(&Expr) -> Expr) -> Option<()> {
        match e.kind() {
            ExprKind::Int(v) => {
                self.constant = self.constant.checked_add(v.checked_mul(factor)?)?;
            }
            ExprKind::Unary(UnOp::Neg, a) => self.add_expr(a, factor.checked_neg()?, atoms)?,
            ExprKind::Binary(BinOp::Add, a, b) => {
                self.add_expr(a, factor, atoms)?;
                self.add_expr(b, factor, atoms)?;
            }
            ExprKind::Binary(BinOp::Sub, a, b) => {
                self.add_expr(a, factor, atoms)?;
                self.add_expr(b, factor.checked_neg()?, atoms)?;
            }
            ExprKind::Binary(BinOp::Mul, a, b) => match (a.as_int(), b.as_int()) {
                (_, Some(c)) => self.add_expr(a, factor.checked_mul(c)?, atoms)?,
                (Some(c), _) => self.add_expr(b, factor.checked_mul(c)?, atoms)?,
                _ => self.add_atom(e, factor, atoms)?,
            },
            _ => self.add_atom(e, factor, atoms)?,
        }
        Some(())
    }

    fn add_atom(&mut self, e: &Expr, factor: i64, atoms: &mut dyn FnMut(&Expr) -> Expr) -> Option<()> {
        let atom = atoms(e);
        // A rewritten atom may have become linear itself.
        let again = match atom.kind() {
            ExprKind::Int(_) | ExprKind::Unary(UnOp::Neg, _) => true,
            ExprKind::Binary(BinOp::Add | BinOp::Sub, ..) => true,
            ExprKind::Binary(BinOp::Mul, a, b) => a.as_int().is_some() || b.as_int().is_some(),
            _ => false,
        };
        if again {
            return self.add_expr(&atom, factor, &mut |a| a.clone());
        }
        self.add_term(atom, factor)
    }

    /// Adds a multiple of an atom; `None` when a factor does not fit 64 bits.
    pub fn add_term(&mut self, atom: Expr, factor: i64) -> Option<()> {
        match self.terms.iter().position(|t| t.0 == atom) {
            Some(p) => {
                self.terms[p].1 = self.terms[p].1.checked_add(factor)?;
                if self.terms[p].1 == 0 {
                    self.terms.remove(p);
                }
            }
            None if factor != 0 => self.terms.push((atom, factor)),
            None => {}
        }
        Some(())
    }

    /// `self + factor · other`; `None` when a number does not fit 64 bits.
    pub fn plus(mut self, other: &Linear, factor: i64) -> Option<Linear> {
        self.constant = self.constant.checked_add(other.constant.checked_mul(factor)?)?;
        for (atom, f) in &other.terms {
            self.add_term(atom.clone(), f.checked_mul(factor)?)?;
        }
        Some(self)
    }

    /// All numbers multiplied.
    pub fn times(mut self, factor: i64) -> Option<Linear> {
        self.constant = self.constant.checked_mul(factor)?;
        for t in &mut self.terms {
            t.1 = t.1.checked_mul(factor)?;
        }
        Some(self)
    }

    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The parts whose numbers are, and are not, multiples of `c`: `self = c · first + second`.
    pub fn divide(&self, c: i64) -> (Linear, Linear) {
        let mut quotient = Linear::default();
        let mut rest = Linear::default();
        for (atom, f) in &self.terms {
            let into = if f.rem_euclid(c) == 0 { (&mut quotient, f / c) } else { (&mut rest, *f) };
            into.0.terms.push((atom.clone(), into.1));
        }
        quotient.constant = self.constant.div_euclid(c);
        rest.constant = self.constant.rem_euclid(c);
        (quotient, rest)
    }

    /// The expression, positive terms first.
    pub fn to_expr(&self) -> Expr {
        let mut sum: Option<Expr> = None;
        let positive = self.terms.iter().filter(|t| t.1 > 0);
        for (atom, f) in positive {
            let term = build::mul(atom.clone(), build::index(*f));
            sum = Some(match sum {
                Some(s) => build::add(s, term),
                None => term,
            });
        }
        let mut constant = self.constant;
        for (atom, f) in self.terms.iter().filter(|t| t.1 < 0) {
            let first = sum.take().unwrap_or_else(|| build::index(std::mem::take(&mut constant)));
            sum = Some(match f.checked_neg() {
                Some(f) => build::sub(first, build::mul(atom.clone(), build::index(f))),
                None => build::add(first, build::mul(atom.clone(), build::index(*f))),
            });
        }
        match sum {
            Some(s) => build::add(s, build::index(constant)),
            None => build::index(constant),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::VarId;
    use crate::types::Scalar;

    #[test]
    fn forms_collect_terms() {
        let v = |n| build::var_id(VarId(n), Scalar::Index);
        let four = build::index(4);
        // (4*(x + 2*y) - x) - 3*x = 8*y
        let e = build::sub(
            build::sub(build::mul(build::add(v(0), build::mul(v(1), build::index(2))), four), v(0)),
            build::mul(v(0), build::index(3)),
        );
        let f = Linear::of(&e).unwrap();
        assert_eq!(f.terms, vec![(v(1), 8)]);
        assert_eq!(f.to_expr(), build::mul(v(1), build::index(8)));
    }

    #[test]
    fn negative_forms_start_with_the_constant() {
        let x = build::var_id(VarId(0), Scalar::Index);
        let f = Linear { terms: vec![(x.clone(), -2)], constant: 5 };
        assert_eq!(f.to_expr(), build::sub(build::index(5), build::mul(x, build::index(2))));
    }
}
