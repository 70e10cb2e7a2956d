//! Sums of terms with integer coefficients: what subscripts and bounds are computed with.

use lathe_ir::build;
use lathe_ir::{BinOp, Expr, ExprKind, UnOp};

/// `Σ coefficient · atom + constant`; atoms are variables or opaque `index` expressions.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    pub terms: Vec<(Expr, i64)>,
    pub constant: i64,
}

impl Linear {
    pub fn constant(c: i64) -> Linear {
        Linear { terms: Vec::new(), constant: c }
    }

    /// Reads an `index` expression; what is not linear (or overflows) becomes an atom.
    pub fn of(e: &Expr) -> Linear {
        Linear::read(e).unwrap_or_else(|| Linear { terms: vec![(e.clone(), 1)], constant: 0 })
    }

    fn read(e: &Expr) -> Option<Linear> {
        match e.kind() {
            ExprKind::Int(c) => Some(Linear::constant(*c)),
            ExprKind::Unary(UnOp::Neg, a) => Linear::of(a).scale(-1),
            ExprKind::Binary(BinOp::Add, a, b) => Linear::of(a).plus(&Linear::of(b), 1),
            ExprKind::Binary(BinOp::Sub, a, b) => Linear::of(a).plus(&Linear::of(b), -1),
            ExprKind::Binary(BinOp::Mul, a, b) => match (a.as_int(), b.as_int()) {
                (_, Some(c)) => Linear::of(a).scale(c),
                (Some(c), _) => Linear::of(b).scale(c),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn scale(&self, by: i64) -> Option<Linear> {
        let terms: Option<Vec<_>> =
            self.terms.iter().map(|(e, c)| Some((e.clone(), c.checked_mul(by)?))).collect();
        let terms = terms?.into_iter().filter(|(_, c)| *c != 0).collect();
        Some(Linear { terms, constant: self.constant.checked_mul(by)? })
    }

    /// `self + by · other`
    pub fn plus(&self, other: &Linear, by: i64) -> Option<Linear> {
        let other = other.scale(by)?;
        let mut out = self.clone();
        out.constant = out.constant.checked_add(other.constant)?;
        for (e, c) in other.terms {
            match out.terms.iter_mut().find(|(x, _)| *x == e) {
                Some((_, d)) => *d = d.checked_add(c)?,
                None => out.terms.push((e, c)),
            }
        }
        out.terms.retain(|(_, c)| *c != 0);
        Some(out)
    }

    /// Back to an expression: positive terms, negative terms, constant.
    pub fn expr(&self) -> Expr {
        let times = |e: &Expr, c: i64| build::mul(e.clone(), build::index(c));
        let mut sum: Option<Expr> = None;
        for (e, c) in self.terms.iter().filter(|(_, c)| *c > 0) {
            let t = times(e, *c);
            sum = Some(match sum {
                Some(s) => build::add(s, t),
                None => t,
            });
        }
        let mut constant = self.constant;
        for (e, c) in self.terms.iter().filter(|(_, c)| *c < 0) {
            let s = sum.unwrap_or_else(|| build::index(std::mem::take(&mut constant)));
            sum = Some(build::sub(s, times(e, c.wrapping_neg())));
        }
        match sum {
            Some(s) => build::add(s, build::index(constant)),
            None => build::index(constant),
        }
    }

    /// `floor(self / by)` for a positive divisor.
    pub fn floor_div(&self, by: i64) -> Linear {
        if by == 1 {
            return self.clone();
        }
        if self.terms.iter().all(|(_, c)| c % by == 0) {
            let terms = self.terms.iter().map(|(e, c)| (e.clone(), c / by)).collect();
            return Linear { terms, constant: self.constant.div_euclid(by) };
        }
        Linear { terms: vec![(build::floor_div(self.expr(), build::index(by)), 1)], constant: 0 }
    }

    /// Is it at least zero, given that the atoms for which `natural` holds are?
    pub fn at_least_zero(&self, natural: &dyn Fn(&Expr) -> bool) -> bool {
        self.constant >= 0 && self.terms.iter().all(|(e, c)| *c > 0 && natural(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_ir::{Scalar, VarId};

    #[test]
    fn sums_cancel_and_come_back_readable() {
        let n = build::var_id(VarId(0), Scalar::Index);
        let m = build::var_id(VarId(1), Scalar::Index);
        let e = build::add(
            build::sub(build::sub(n.clone(), build::index(1)), build::sub(m.clone(), build::index(1))),
            build::index(1),
        );
        let want = build::add(build::sub(n.clone(), m), build::index(1));
        assert_eq!(Linear::of(&e).expr(), want);
        assert_eq!(Linear::of(&build::sub(n.clone(), n)).expr(), build::index(0));
    }

    #[test]
    fn division_is_exact_where_it_can_be() {
        let n = build::var_id(VarId(0), Scalar::Index);
        let twice = build::add(build::mul(n.clone(), build::index(2)), build::index(-1));
        assert_eq!(Linear::of(&twice).floor_div(2).expr(), build::add(n, build::index(-1)));
    }
}
