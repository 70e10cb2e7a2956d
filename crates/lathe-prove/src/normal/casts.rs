//! Conversions: those that lose nothing go, those that cut off go into sums and products.

use super::Normal;
use crate::formula::{Formulas, Id, Op};
use crate::poly::Poly;
use lathe_ir::{BinOp, Scalar};

impl Normal {
    pub(super) fn cast(&mut self, f: &mut Formulas, to: Scalar, a: Id) -> Id {
        let from = f.ty(a);
        if from == to {
            return a;
        }
        if to == Scalar::Bool && from.is_int() {
            let zero = f.int(from, 0);
            return self.compare(f, BinOp::Ne, a, zero);
        }
        if let Op::Cast(b) = f.get(a).op {
            let first = f.ty(b);
            let narrows = from.is_int() && to.is_int() && to.bits() <= from.bits() && !first.is_float();
            let kept = keeps(first, from) && (to.is_float() || !from.is_float() || keeps(first, to));
            if to != Scalar::Bool && (narrows || kept) {
                return self.cast(f, to, b);
            }
        }
        // Cutting off high bits commutes with sums and products.
        if from.is_int() && to.is_int() && to.bits() <= from.bits() {
            let p = self.poly(f, a);
            let whole = p.terms().count() == 1 && p.terms().all(|(m, c)| c == 1 && m.len() == 1);
            if !whole && let Some(id) = self.cut(f, to, &p) {
                return id;
            }
        }
        f.cast(to, a)
    }

    fn cut(&mut self, f: &mut Formulas, to: Scalar, p: &Poly) -> Option<Id> {
        let mut sum = Poly::constant(to, 0);
        for (m, c) in p.terms() {
            let mut product = Poly::constant(to, c);
            for atom in m {
                let narrow = self.cast(f, to, *atom);
                product = product.times(&self.poly(f, narrow))?;
            }
            sum = sum.plus(1, &product)?;
        }
        self.sum(f, Some(sum))
    }
}

/// Whether every value of the first type is one of the second (a NaN becomes a NaN).
fn keeps(from: Scalar, to: Scalar) -> bool {
    let signed = |s: Scalar| s.is_signed();
    match (from, to) {
        (Scalar::Bool, _) => true,
        (_, Scalar::Bool) => false,
        (Scalar::F16, Scalar::F32 | Scalar::F64) | (Scalar::Bf16, Scalar::F32 | Scalar::F64) => true,
        (Scalar::F32, Scalar::F64) => true,
        (a, b) if a == b => true,
        (a, _) if a.is_float() => false,
        // Digits that a float has room for.
        (a, b) if b.is_float() => a.bits() - u32::from(signed(a)) <= precision(b),
        (a, b) if signed(a) == signed(b) => a.bits() <= b.bits(),
        (a, b) => !signed(a) && a.bits() < b.bits(),
    }
}

/// Binary digits of a float, the first one included.
pub(crate) fn precision(s: Scalar) -> u32 {
    match s {
        Scalar::F16 => 11,
        Scalar::Bf16 => 8,
        Scalar::F32 => 24,
        _ => 53,
    }
}
