//! Products of variables, as atoms of linear forms in one spelling: `i * (n * m)` and `m * i * n` are one atom.

use crate::form::Linear;
use lathe_ir::visit::{Memo, operands};
use lathe_ir::{BinOp, Expr, ExprKind, UnOp, build};

/// Sums that would get more terms stay products.
const MAX_TERMS: usize = 24;
/// Products that would get more factors are left as they are written.
const MAX_FACTORS: usize = 32;

/// The form of an `index` expression with products of sums multiplied out.
pub(crate) fn expand(e: &Expr) -> Linear {
    expand_in(e, &mut Memo::default())
}

/// As [`expand`], with what was expanded before.
pub(crate) fn expand_in(e: &Expr, memo: &mut Memo<Linear>) -> Linear {
    memo.of(e, |memo| {
        let form = match e.kind() {
            ExprKind::Unary(UnOp::Neg, a) => expand_in(a, memo).scaled(-1),
            ExprKind::Binary(op, a, b)
                if e.ty().is_index() && matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul) =>
            {
                let (x, y) = (expand_in(a, memo), expand_in(b, memo));
                match op {
                    BinOp::Add => x.plus(&y, 1),
                    BinOp::Sub => x.minus(&y),
                    _ => multiply(&x, &y),
                }
            }
            _ => Some(Linear::of(e)),
        };
        form.unwrap_or_else(|| Linear::atom(e.clone()))
    })
}

/// The product of two forms; `None` where it has too many terms or factors, or a number does not fit 64 bits.
pub(crate) fn multiply(a: &Linear, b: &Linear) -> Option<Linear> {
    if a.terms.len() * b.terms.len() > MAX_TERMS {
        return None;
    }
    let mut out = a.scaled(b.constant)?.plus(&b.scaled(a.constant)?, 1)?;
    out.constant = a.constant.checked_mul(b.constant)?;
    for (x, j) in &a.terms {
        for (y, k) in &b.terms {
            out.add_term(product(x, y)?, j.checked_mul(*k)?)?;
        }
    }
    Some(out)
}

/// The factors of a product that is an atom. One with too many is a factor by itself.
pub(crate) fn factors(e: &Expr) -> Vec<Expr> {
    of_product(e).unwrap_or_else(|| vec![e.clone()])
}

/// As many factors as there is room for.
fn of_product(e: &Expr) -> Option<Vec<Expr>> {
    if e.ty().is_index() { operands(BinOp::Mul, e, MAX_FACTORS) } else { Some(vec![e.clone()]) }
}

/// The product of two atoms, in the one spelling; `None` where it has too many factors.
fn product(a: &Expr, b: &Expr) -> Option<Expr> {
    let mut all = of_product(a)?;
    all.extend(of_product(b)?);
    (all.len() <= MAX_FACTORS).then(|| of(all))
}

/// The product of factors, in the one spelling.
pub(crate) fn of(mut all: Vec<Expr>) -> Expr {
    all.sort_by_key(Expr::structural_hash);
    all.into_iter().reduce(build::mul).unwrap_or_else(|| build::index(1))
}

/// What `a ≤ most // max(factor, 1)` says, where `a` and the factor are not negative: `product ≤ most`.
pub(crate) struct Bounded {
    pub factor: Expr,
    pub product: Expr,
    pub most: i64,
}

/// The bound of a product that `a ≤ b` states.
pub(crate) fn bounded(a: &Expr, b: &Expr) -> Option<Bounded> {
    let ExprKind::Binary(BinOp::FloorDiv, c, by) = b.kind() else { return None };
    let ExprKind::Binary(BinOp::Max, factor, one) = by.kind() else { return None };
    let form = multiply(&expand(a), &expand(factor))?;
    match form.terms.as_slice() {
        [(product, 1)] if form.constant == 0 && one.as_int() == Some(1) => {
            Some(Bounded { factor: factor.clone(), product: product.clone(), most: c.as_int()? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_ir::{Scalar, VarId};

    #[test]
    fn products_have_one_spelling() {
        let v = |n| build::var_id(VarId(n), Scalar::Index);
        let (i, n, m) = (v(0), v(1), v(2));
        let mul = build::mul;
        let a = mul(mul(i.clone(), n.clone()), m.clone());
        let b = mul(m.clone(), mul(n.clone(), i.clone()));
        assert_eq!(expand(&a), expand(&b));
        // (i - 1)·n = i·n - n
        let less = mul(build::sub(i.clone(), build::index(1)), n.clone());
        assert_eq!(expand(&less), expand(&mul(n.clone(), i)).minus(&Linear::atom(n)).unwrap());
    }
}
