//! A thin wrapper around expressions, so that expansions can be written as formulas.

use crate::build;
use crate::expr::Expr;
use crate::ops::{BinOp, MathFn, UnOp};
use crate::types::Scalar;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A scalar expression with operators. Both operands of an operator have one type.
#[derive(Clone)]
pub struct Term(pub Expr);

impl Term {
    pub fn scalar(&self) -> Scalar {
        self.0.ty().scalar().unwrap_or(Scalar::F64)
    }

    /// A constant of the same type.
    pub fn like(&self, v: f64) -> Term {
        Term(build::float(self.scalar(), v))
    }

    /// An integer constant of the same type.
    pub fn int_like(&self, v: i64) -> Term {
        Term(build::int(self.scalar(), v))
    }

    fn binary(&self, op: BinOp, o: &Term) -> Term {
        Term(build::binary(op, self.0.clone(), o.0.clone()))
    }

    /// `self * a + b` with one rounding.
    pub fn fma(&self, a: &Term, b: &Term) -> Term {
        Term(build::math(MathFn::Fma, vec![self.0.clone(), a.0.clone(), b.0.clone()]))
    }

    /// `self * a + b` for constants.
    pub fn fma_const(&self, a: f64, b: &Term) -> Term {
        self.fma(&self.like(a), b)
    }

    /// Horner's scheme; lowest coefficient first.
    pub fn poly(&self, coefficients: &[f64]) -> Term {
        let mut highest_first = coefficients.iter().rev();
        let first = self.like(highest_first.next().copied().unwrap_or(0.0));
        highest_first.fold(first, |sum, c| sum.fma(self, &self.like(*c)))
    }

    pub fn abs(&self) -> Term {
        Term(build::math(MathFn::Abs, vec![self.0.clone()]))
    }

    pub fn sqrt(&self) -> Term {
        Term(build::math(MathFn::Sqrt, vec![self.0.clone()]))
    }

    pub fn trunc(&self) -> Term {
        Term(build::math(MathFn::Trunc, vec![self.0.clone()]))
    }

    pub fn lt(&self, o: &Term) -> Term {
        self.binary(BinOp::Lt, o)
    }

    pub fn gt(&self, o: &Term) -> Term {
        self.binary(BinOp::Gt, o)
    }

    pub fn is(&self, o: &Term) -> Term {
        self.binary(BinOp::Eq, o)
    }

    pub fn is_not(&self, o: &Term) -> Term {
        self.binary(BinOp::Ne, o)
    }

    pub fn min(&self, o: &Term) -> Term {
        self.binary(BinOp::Min, o)
    }

    pub fn max(&self, o: &Term) -> Term {
        self.binary(BinOp::Max, o)
    }

    pub fn and(&self, o: &Term) -> Term {
        self.binary(BinOp::And, o)
    }

    pub fn or(&self, o: &Term) -> Term {
        self.binary(BinOp::Or, o)
    }

    pub fn xor(&self, o: &Term) -> Term {
        self.binary(BinOp::Xor, o)
    }

    pub fn not(&self) -> Term {
        Term(build::unary(UnOp::Not, self.0.clone()))
    }

    pub fn shl(&self, by: i64) -> Term {
        self.binary(BinOp::Shl, &self.int_like(by))
    }

    pub fn shr(&self, by: i64) -> Term {
        self.binary(BinOp::Shr, &self.int_like(by))
    }

    /// `a` where this condition holds, else `b`.
    pub fn select(&self, a: &Term, b: &Term) -> Term {
        Term(build::select(self.0.clone(), a.0.clone(), b.0.clone()))
    }

    pub fn cast(&self, to: Scalar) -> Term {
        Term(build::cast(to.into(), self.0.clone()))
    }

    /// The bits as the signed integer of the same width, or back.
    pub fn bits(&self) -> Term {
        let to = match self.scalar() {
            Scalar::F32 => Scalar::I32,
            Scalar::I32 => Scalar::F32,
            Scalar::I64 => Scalar::F64,
            _ => Scalar::I64,
        };
        Term(Expr::new(crate::expr::ExprKind::Bitcast(self.0.clone()), to.into()))
    }

    /// At most `limit`; NaN stays.
    pub fn at_most(&self, limit: f64) -> Term {
        let limit = self.like(limit);
        self.gt(&limit).select(&limit, self)
    }

    /// At least `limit`; NaN stays.
    pub fn at_least(&self, limit: f64) -> Term {
        let limit = self.like(limit);
        self.lt(&limit).select(&limit, self)
    }

    /// The sign bit of a float, as bits of an integer with all others 0.
    pub fn sign_bit(&self) -> Term {
        let bits = self.bits();
        bits.and(&bits.int_like(i64::MIN >> (64 - bits.scalar().bits())))
    }

    /// Flips the sign where the bits of `sign` say so.
    pub fn flip_sign(&self, sign: &Term) -> Term {
        self.bits().xor(sign).bits()
    }

    /// NaN for a finite or NaN `self`, and for infinities too.
    pub fn invalid(&self) -> Term {
        let zero = self.clone() - self.clone();
        zero * self.like(f64::INFINITY)
    }
}

/// Sum and its rounding error (Knuth).
pub fn two_sum(a: &Term, b: &Term) -> (Term, Term) {
    let sum = a.clone() + b.clone();
    let bb = sum.clone() - a.clone();
    let error = (a.clone() - (sum.clone() - bb.clone())) + (b.clone() - bb);
    (sum, error)
}

/// Sum and its rounding error where `|a| >= |b|` (Dekker).
pub fn fast_two_sum(a: &Term, b: &Term) -> (Term, Term) {
    let sum = a.clone() + b.clone();
    let error = b.clone() - (sum.clone() - a.clone());
    (sum, error)
}

/// Product and its rounding error.
pub fn two_product(a: &Term, b: &Term) -> (Term, Term) {
    let product = a.clone() * b.clone();
    let error = a.fma(b, &-product.clone());
    (product, error)
}

macro_rules! operator {
    ($trait:ident, $method:ident, $op:expr) => {
        impl $trait for Term {
            type Output = Term;
            fn $method(self, o: Term) -> Term {
                self.binary($op, &o)
            }
        }
        impl $trait<f64> for Term {
            type Output = Term;
            fn $method(self, o: f64) -> Term {
                let o = self.like(o);
                self.binary($op, &o)
            }
        }
    };
}

operator!(Add, add, BinOp::Add);
operator!(Sub, sub, BinOp::Sub);
operator!(Mul, mul, BinOp::Mul);
operator!(Div, div, BinOp::Div);

impl Neg for Term {
    type Output = Term;
    fn neg(self) -> Term {
        Term(build::neg(self.0))
    }
}
