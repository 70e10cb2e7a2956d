//! Amounts of memory over the sizes: what a number of arrays holds, and which of two amounts is less.

use crate::Kept;
use lathe_ir::build::{add, index, mul};
use lathe_ir::interp::evaluate;
use lathe_ir::visit::vars_of;
use lathe_ir::{BinOp, Expr, ExprKind, VarId};
use lathe_poly::Linear;
use std::collections::HashMap;

/// What a size counts as where it is not known, when one of several arrays is chosen.
const TYPICAL: i64 = 64;

/// The bytes of arrays; 0 for none.
pub fn total(kept: &[Kept]) -> Expr {
    let bytes = |k: &Kept| {
        let size = index(k.elem.bytes() as i64);
        k.extents.iter().cloned().fold(size, mul)
    };
    collected(kept.iter().map(bytes).reduce(add).unwrap_or_else(|| index(0)))
}

/// An amount whose equal products of extents are one, times a number.
fn collected(e: Expr) -> Expr {
    let Some(all) = products(&e) else { return e };
    let mut out: Vec<Product> = Vec::new();
    for p in all {
        let same =
            |q: &&mut Product| q.factors.len() == p.factors.len() && apart(&q.factors, &p.factors).is_empty();
        match out.iter_mut().find(same) {
            Some(q) => match q.times.checked_add(p.times) {
                Some(times) => q.times = times,
                None => return e,
            },
            None => out.push(p),
        }
    }
    let product = |p: Product| p.factors.into_iter().fold(index(p.times), mul);
    out.into_iter().map(product).reduce(add).unwrap_or_else(|| index(0))
}

/// Factors of one product that another one lacks.
fn apart<'f>(all: &'f [Expr], but: &[Expr]) -> Vec<&'f Expr> {
    let mut left: Vec<&Expr> = but.iter().collect();
    all.iter().filter(|f| left.iter().position(|o| o == f).map(|n| left.swap_remove(n)).is_none()).collect()
}

/// A number for an amount, to compare it with others: at the sizes that are known, and typical ones. `None` where it
/// depends on data.
pub fn weight(amount: &Expr, sizes: &HashMap<VarId, i64>) -> Option<u64> {
    let mut all: HashMap<VarId, i64> = vars_of(amount).into_iter().map(|v| (v, TYPICAL)).collect();
    all.extend(sizes);
    u64::try_from(evaluate(amount, &all)?).ok()
}

/// Whether an amount is at most another: at the sizes that are known, or else for all sizes from 1 on.
pub fn at_most(a: &Expr, b: &Expr, sizes: &HashMap<VarId, i64>) -> bool {
    if let (Some(a), Some(b)) = (evaluate(a, sizes), evaluate(b, sizes)) {
        return a <= b;
    }
    let (Some(less), Some(mut more)) = (products(a), products(b)) else { return false };
    // The largest first: each product of one takes a part of a product of the other that is no smaller.
    let mut less = less;
    less.sort_by_key(|p| std::cmp::Reverse(p.factors.len()));
    more.sort_by_key(|p| p.factors.len());
    less.iter().all(|p| {
        let mut left = p.times;
        for q in more.iter_mut().filter(|q| covers(&q.factors, &p.factors)) {
            let taken = left.min(q.times);
            (left, q.times) = (left - taken, q.times - taken);
        }
        left == 0
    })
}

/// A number of times a product of extents.
struct Product {
    times: i64,
    factors: Vec<Expr>,
}

/// An amount as a sum of products.
fn products(e: &Expr) -> Option<Vec<Product>> {
    const MOST: usize = 256;
    Some(match e.kind() {
        ExprKind::Int(v) if *v >= 0 => vec![Product { times: *v, factors: Vec::new() }],
        ExprKind::Binary(BinOp::Add, a, b) => {
            let mut all = products(a)?;
            all.extend(products(b)?);
            (all.len() <= MOST).then_some(all)?
        }
        ExprKind::Binary(BinOp::Mul, a, b) => {
            let (a, b) = (products(a)?, products(b)?);
            let mut all = Vec::new();
            for (p, q) in a.iter().flat_map(|p| b.iter().map(move |q| (p, q))) {
                let factors = p.factors.iter().chain(&q.factors).cloned().collect();
                all.push(Product { times: p.times.checked_mul(q.times)?, factors });
            }
            (all.len() <= MOST).then_some(all)?
        }
        _ => vec![Product { times: 1, factors: vec![e.clone()] }],
    })
}

/// Whether a product of extents is at least another: each factor of the one has a factor of its own in the other.
fn covers(large: &[Expr], small: &[Expr]) -> bool {
    let mut free: Vec<&Expr> = large.iter().collect();
    // Those that are the same go together first.
    let (same, rest): (Vec<&Expr>, Vec<&Expr>) = small.iter().partition(|s| large.contains(s));
    same.into_iter().chain(rest).all(|s| {
        let found = free.iter().position(|l| *l == s).or_else(|| free.iter().position(|l| is_less(s, l)));
        found.map(|n| free.swap_remove(n)).is_some()
    })
}

fn is_less(a: &Expr, b: &Expr) -> bool {
    Linear::of(inner(b)).minus(&Linear::of(inner(a))).and_then(|d| d.as_constant()).is_some_and(|d| d >= 0)
}

/// An extent without its lower bound of 0.
pub fn inner(e: &Expr) -> &Expr {
    match e.kind() {
        ExprKind::Binary(BinOp::Max, a, b) if b.as_int() == Some(0) => a,
        ExprKind::Binary(BinOp::Max, a, b) if a.as_int() == Some(0) => b,
        _ => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_ir::Scalar;
    use lathe_ir::build::{max, sub, var_id};

    #[test]
    fn equal_products_are_one() {
        let [n, m] = [1, 2].map(|id| var_id(VarId(id), Scalar::Index));
        let state = |extra: i64| Kept {
            of: String::new(),
            label: String::new(),
            extents: vec![add(m.clone(), index(extra)), n.clone()],
            elem: lathe_ir::Type::INDEX,
        };
        let at = HashMap::from([(VarId(1), 3), (VarId(2), 5)]);
        let all = total(&[state(0), state(1), state(0)]);
        assert_eq!(products(&all).map(|p| p.len()), Some(2));
        assert_eq!(evaluate(&all, &at), Some(8 * 3 * 16));
    }

    #[test]
    fn amounts_are_compared_for_all_sizes() {
        let [n, m, t] = [1, 2, 3].map(|id| var_id(VarId(id), Scalar::Index));
        let less = |a: &Expr, b: &Expr| at_most(a, b, &HashMap::new());
        let shorter = max(sub(n.clone(), index(2)), index(0));
        let both = add(mul(n.clone(), t.clone()), mul(t.clone(), m.clone()));
        let all = mul(mul(t.clone(), n.clone()), m.clone());
        assert!(less(&mul(t.clone(), n.clone()), &mul(n.clone(), t.clone())));
        assert!(less(&mul(t.clone(), shorter.clone()), &mul(t.clone(), n.clone())));
        assert!(!less(&mul(t.clone(), n.clone()), &mul(t.clone(), shorter)));
        assert!(less(&n, &all) && !less(&all, &n) && !less(&n, &m));
        // With extents of 1 the sum is more.
        assert!(!less(&both, &all) && less(&both, &mul(index(2), all.clone())));
        assert!(!less(&mul(index(3), n.clone()), &mul(index(2), n.clone())));
        let known = HashMap::from([(VarId(1), 2), (VarId(2), 3), (VarId(3), 5)]);
        assert!(at_most(&both, &all, &known) && !at_most(&all, &both, &known));
        assert_eq!(weight(&all, &HashMap::from([(VarId(3), 2)])), Some(2 * 64 * 64));
    }
}
