//! Whether two nodes say the same. Expressions are graphs: equal ones that were made apart share no nodes, and have
//! exponentially many paths (`a1 = f(a0, a0)`, `a2 = f(a1, a1)`, …). So a comparison that became large remembers which
//! pairs of nodes it has found equal, until the outermost one ends; a difference ends all of it at once.

use super::{ExprKind, ExprNode};
use rustc_hash::FxHashSet;
use std::cell::{Cell, RefCell};

/// As many pairs are compared before any is remembered: most expressions are smaller, and need no table.
const SMALL: u32 = 64;

thread_local! {
    /// How many comparisons are under way, one inside of the other.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// How many pairs the outermost one has compared.
    static PAIRS: Cell<u32> = const { Cell::new(0) };
    /// The addresses of nodes that are known to be equal. Both roots are alive, so the addresses mean what they did.
    static EQUAL: RefCell<FxHashSet<(usize, usize)>> = RefCell::default();
}

/// One comparison; the outermost one forgets what was found, however it ends.
struct Comparison;

impl Comparison {
    fn begin() -> Comparison {
        DEPTH.set(DEPTH.get() + 1);
        Comparison
    }
}

impl Drop for Comparison {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 && PAIRS.replace(0) > SMALL {
            EQUAL.take();
        }
    }
}

/// Whether the kinds of two nodes are equal, each pair compared once.
pub(super) fn nodes(a: &ExprNode, b: &ExprNode) -> bool {
    // What has no parts needs no memory.
    if matches!(a.kind, ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_)) {
        return a.kind == b.kind;
    }
    let pairs = PAIRS.get().saturating_add(1);
    if pairs <= SMALL {
        let _comparison = Comparison::begin();
        PAIRS.set(pairs);
        return a.kind == b.kind;
    }
    let pair = (std::ptr::from_ref(a) as usize, std::ptr::from_ref(b) as usize);
    if EQUAL.with_borrow(|known| known.contains(&pair)) {
        return true;
    }
    let _comparison = Comparison::begin();
    PAIRS.set(pairs);
    let equal = a.kind == b.kind;
    if equal {
        EQUAL.with_borrow_mut(|known| known.insert(pair));
    }
    equal
}

#[cfg(test)]
mod tests {
    use super::super::Expr;
    use crate::build::{add, int, max, mul, sub, var_id};
    use crate::ids::VarId;
    use crate::types::Scalar::I64;

    /// Each link uses the one before twice, so there are `2^links` paths.
    fn chain(first: &Expr, links: u32) -> Expr {
        (0..links).fold(first.clone(), |e, k| mul(e.clone(), max(e, int(I64, i64::from(k)))))
    }

    #[test]
    fn equal_graphs_that_share_nothing_are_compared_pair_by_pair() {
        let x = var_id(VarId(0), I64);
        let (a, b) = (chain(&x, 200), chain(&x, 200));
        assert_ne!(a.address(), b.address());
        assert_eq!(a, b);
        // In a table, too.
        let table = std::collections::HashMap::from([(a.clone(), 1)]);
        assert_eq!(table.get(&b), Some(&1));
    }

    #[test]
    fn what_differs_anywhere_differs() {
        let (x, y) = (var_id(VarId(0), I64), var_id(VarId(1), I64));
        assert_ne!(chain(&x, 200), chain(&y, 200));
        assert_ne!(add(chain(&x, 99), chain(&x, 99)), add(chain(&x, 99), chain(&y, 99)));
        // What one comparison found is no news to the next one.
        (0..9).for_each(|n| assert_eq!(chain(&x, 40 + n) == chain(&x, 44), n == 4));
        assert_ne!(sub(chain(&x, 50), x.clone()), chain(&x, 50));
    }
}
