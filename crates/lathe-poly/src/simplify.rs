//! Simplifies `index` arithmetic by the ranges of the variables in scope: sums become linear forms,
//! `min`, `max`, comparisons, `//` and `%` disappear where their result is known. Wrapping integers and
//! floats are left alone. Linear in the size of the tree.
//!
//! No operation that is written here overflows 64 bits: an expression takes the place of another one only where the
//! ranges show that.

use crate::form::{Linear, gcd};
use crate::ranges::Ranges;
use lathe_ir::{BinOp, Expr, ExprKind, Function, Stmt, UnOp, build};
use std::collections::HashMap;

/// The function with every expression simplified in its scope.
pub fn simplify_function(func: &Function) -> Function {
    let mut ranges = Ranges::of_function(func);
    Function { body: simplify_stmt(&func.body, &mut ranges), ..func.clone() }
}

/// A statement with every expression simplified; `ranges` says what holds around it. Branches that are
/// never taken and loops that are known to be empty disappear; loops of one iteration stay.
pub fn simplify_stmt(s: &Stmt, ranges: &mut Ranges) -> Stmt {
    let s = match s.as_compute() {
        // A compute's own dimensions scope over its accesses.
        Some(c) => {
            let mut inner = ranges.clone();
            let bounds: Vec<Expr> =
                c.dims.iter().flat_map(|d| [&d.lo, &d.hi]).map(|e| simplify_expr(e, ranges)).collect();
            for (d, b) in c.dims.iter().zip(bounds.chunks(2)) {
                inner.enter_loop(d.binder.id, &b[0], &b[1]);
            }
            let old = s.exprs();
            let new = old.iter().enumerate().map(|(i, e)| match bounds.get(i) {
                Some(b) => b.clone(),
                None => simplify_expr(e, &inner),
            });
            let new: Vec<Expr> = new.collect();
            if old.iter().zip(&new).all(|(a, b)| *a == b) { s.clone() } else { s.with_exprs(new) }
        }
        None => {
            let old = s.exprs();
            let new: Vec<Expr> = old.iter().map(|e| simplify_expr(e, ranges)).collect();
            if old.iter().zip(&new).all(|(a, b)| *a == b) { s.clone() } else { s.with_exprs(new) }
        }
    };
    if let Some((cond, then, other)) = s.as_if() {
        match cond.as_bool() {
            Some(true) => return simplify_stmt(then, ranges),
            Some(false) => return other.map_or_else(Stmt::empty, |o| simplify_stmt(o, ranges)),
            None => {}
        }
    }
    if s.as_loop().is_some_and(|l| ranges.le(&l.hi, &l.lo)) {
        return Stmt::empty();
    }
    let new: Vec<Stmt> = s
        .children()
        .enumerate()
        .map(|(i, c)| {
            let mark = ranges.enter_child(&s, i);
            let c = simplify_stmt(c, ranges);
            ranges.leave(mark);
            c
        })
        .collect();
    if s.children().zip(&new).all(|(a, b)| a.ptr_eq(b)) {
        return s.clone();
    }
    if s.as_seq().is_none() {
        return s.with_children(new);
    }
    let flat = Stmt::seq(new.into_iter().filter(|c| !c.is_empty()));
    if flat.as_seq().is_some() { flat.with_places(s.places().clone()) } else { flat }
}

/// An expression simplified in a scope.
pub fn simplify_expr(e: &Expr, ranges: &Ranges) -> Expr {
    Simplifier { ranges, memo: HashMap::new() }.expr(e)
}

struct Simplifier<'a> {
    ranges: &'a Ranges,
    /// Finished nodes by address.
    memo: HashMap<usize, Expr>,
}

impl Simplifier<'_> {
    fn expr(&mut self, e: &Expr) -> Expr {
        if let ExprKind::Int(_) | ExprKind::Var(_) | ExprKind::Float(_) | ExprKind::Bool(_) = e.kind() {
            return e.clone();
        }
        if let Some(done) = self.memo.get(&e.address()) {
            return done.clone();
        }
        let new = self.node(e);
        let out = if new == *e { e.clone() } else { new };
        self.memo.insert(e.address(), out.clone());
        out
    }

    fn node(&mut self, e: &Expr) -> Expr {
        let sum = matches!(
            e.kind(),
            ExprKind::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul, ..) | ExprKind::Unary(UnOp::Neg, _)
        );
        if e.ty().is_index() && sum {
            let sum = Linear::of_with(e, &mut |atom| self.atom(atom)).to_expr();
            return self.fitting(sum, e).unwrap_or_else(|| self.parts(e));
        }
        self.atom(e)
    }

    /// The expression, if it is the old one or stays within 64 bits.
    fn fitting(&self, new: Expr, old: &Expr) -> Option<Expr> {
        (new == *old || self.ranges.fits(&new)).then_some(new)
    }

    /// The node with its children simplified.
    fn parts(&mut self, e: &Expr) -> Expr {
        let old = e.children();
        let new: Vec<Expr> = old.iter().map(|c| self.expr(c)).collect();
        let same = old.iter().zip(&new).all(|(a, b)| a.address() == b.address());
        if same { e.clone() } else { e.with_children(new) }
    }

    /// A node that is not a sum: its children, then the node itself.
    fn atom(&mut self, e: &Expr) -> Expr {
        let e = self.parts(e);
        let ExprKind::Binary(op, a, b) = e.kind() else { return e };
        if !a.ty().is_index() {
            return e;
        }
        match op {
            BinOp::Min | BinOp::Max => {
                let (small, large) = if *op == BinOp::Min { (a, b) } else { (b, a) };
                if self.ranges.le(a, b) {
                    small.clone()
                } else if self.ranges.le(b, a) {
                    large.clone()
                } else {
                    self.shared_offset(*op, a, b).and_then(|new| self.fitting(new, &e)).unwrap_or(e)
                }
            }
            BinOp::FloorDiv | BinOp::FloorMod => {
                self.division(*op, a, b).and_then(|new| self.fitting(new, &e)).unwrap_or(e)
            }
            BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge | BinOp::Eq | BinOp::Ne => {
                self.comparison(*op, a, b).map_or(e, build::boolean)
            }
            _ => e,
        }
    }

    /// `min(x + 1, x + n)` is `x + min(1, n)`: so bounds like `min(i + 8, n) - i` become simple.
    fn shared_offset(&self, op: BinOp, a: &Expr, b: &Expr) -> Option<Expr> {
        let (la, lb) = (Linear::of(a), Linear::of(b));
        let mut shared = Linear::default();
        for t in &la.terms {
            if lb.terms.contains(t) {
                shared.terms.push(t.clone());
            }
        }
        if shared.terms.is_empty() {
            return None;
        }
        let (ra, rb) = (la.minus(&shared)?, lb.minus(&shared)?);
        Some(build::add(build::binary(op, ra.to_expr(), rb.to_expr()), shared.to_expr()))
    }

    fn division(&self, op: BinOp, a: &Expr, b: &Expr) -> Option<Expr> {
        let c = b.as_int().filter(|c| *c > 0)?;
        let (mut quotient, mut rest) = Linear::of(a).divide(c);
        // A term that `c` is known to divide leaves nothing.
        let term = |(atom, k): &(Expr, i64)| build::mul(atom.clone(), build::index(*k));
        let (whole, left) = rest.terms.into_iter().partition(|t| self.ranges.divides(c, &term(t)));
        rest.terms = left;
        for t in &whole {
            let part = Linear { terms: vec![(build::floor_div(term(t), b.clone()), 1)], constant: 0 };
            quotient = quotient.plus(&part, 1)?;
        }
        let small = self.ranges.nonneg(&rest)
            && Linear::constant(c - 1).minus(&rest).is_some_and(|f| self.ranges.nonneg(&f));
        match (op, small) {
            (BinOp::FloorDiv, true) => Some(quotient.to_expr()),
            (_, true) => Some(rest.to_expr()),
            (BinOp::FloorDiv, false) if !quotient.terms.is_empty() || quotient.constant != 0 => {
                // The constant stays inside: `(n + 7) // 8` is what people read.
                let whole = Linear { constant: 0, ..quotient.clone() };
                if whole.terms.is_empty() {
                    return None;
                }
                let inside = rest.offset(quotient.constant.checked_mul(c)?)?;
                Some(build::add(whole.to_expr(), build::floor_div(inside.to_expr(), b.clone())))
            }
            (BinOp::FloorMod, false) if !quotient.terms.is_empty() => {
                Some(build::floor_mod(rest.to_expr(), b.clone()))
            }
            _ => self.division_of_blocks(op, &quotient, &rest, c),
        }
    }

    /// `(16 * o + i) // 64` with `i` below 16 is `o // 4`, and `% 64` is `16 * (o % 4) + i`: so lanes within a block of a layout
    /// stay neighbours.
    fn division_of_blocks(&self, op: BinOp, quotient: &Linear, rest: &Linear, c: i64) -> Option<Expr> {
        let factors = rest.terms.iter().map(|t| t.1.unsigned_abs()).filter(|k| *k > 1);
        let block = factors.fold(c.unsigned_abs(), gcd) as i64;
        if block < 2 || block == c {
            return None;
        }
        let (mut whole, mut within) = (Linear::default(), Linear::constant(rest.constant.rem_euclid(block)));
        whole.constant = rest.constant.div_euclid(block);
        for (atom, k) in &rest.terms {
            match k % block {
                0 => whole.terms.push((atom.clone(), k / block)),
                _ => within.terms.push((atom.clone(), *k)),
            }
        }
        let inside = !within.terms.is_empty()
            && self.ranges.nonneg(&within)
            && Linear::constant(block - 1).minus(&within).is_some_and(|f| self.ranges.nonneg(&f));
        let by = build::index(c / block);
        match op {
            _ if !inside || whole.terms.is_empty() => None,
            BinOp::FloorDiv => Some(build::add(quotient.to_expr(), build::floor_div(whole.to_expr(), by))),
            _ => {
                let first = build::mul(build::floor_mod(whole.to_expr(), by), build::index(block));
                Some(build::add(first, within.to_expr()))
            }
        }
    }

    fn comparison(&self, op: BinOp, a: &Expr, b: &Expr) -> Option<bool> {
        let r = self.ranges;
        let decide = |yes: bool, no: bool| {
            if yes {
                Some(true)
            } else if no {
                Some(false)
            } else {
                None
            }
        };
        match op {
            BinOp::Lt => decide(r.lt(a, b), r.le(b, a)),
            BinOp::Le => decide(r.le(a, b), r.lt(b, a)),
            BinOp::Gt => decide(r.lt(b, a), r.le(a, b)),
            BinOp::Ge => decide(r.le(b, a), r.lt(a, b)),
            BinOp::Eq => decide(r.le(a, b) && r.le(b, a), r.lt(a, b) || r.lt(b, a)),
            BinOp::Ne => decide(r.lt(a, b) || r.lt(b, a), r.le(a, b) && r.le(b, a)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_ir::{Scalar, StmtKind, VarId};

    fn v(n: u32) -> Expr {
        build::var_id(VarId(n), Scalar::Index)
    }

    /// v0 is a size, v1 in 0..v0 // 8, v2 in 0..8, v3 in 0..100.
    fn scope() -> Ranges {
        let mut r = Ranges::default();
        r.enter_size(VarId(0));
        r.enter_loop(VarId(1), &build::index(0), &build::floor_div(v(0), build::index(8)));
        r.enter_loop(VarId(2), &build::index(0), &build::index(8));
        r.enter_loop(VarId(3), &build::index(0), &build::index(100));
        r
    }

    fn eight_times(e: Expr) -> Expr {
        build::mul(e, build::index(8))
    }

    #[test]
    fn full_tiles_lose_their_min() {
        let e = build::min(build::index(8), build::sub(v(0), eight_times(v(1))));
        assert_eq!(simplify_expr(&e, &scope()), build::index(8));
    }

    #[test]
    fn division_of_a_split_gives_back_its_parts() {
        let i = build::add(eight_times(v(1)), v(2));
        assert_eq!(simplify_expr(&build::floor_div(i.clone(), build::index(8)), &scope()), v(1));
        assert_eq!(simplify_expr(&build::floor_mod(i, build::index(8)), &scope()), v(2));
        let unknown = build::floor_mod(v(3), build::index(8));
        assert_eq!(simplify_expr(&unknown, &scope()), unknown);
    }

    #[test]
    fn lanes_within_a_block_of_a_layout_stay_neighbours() {
        let i = build::add(eight_times(v(1)), v(2));
        let (by, of) = (build::index(32), |e: Expr| build::floor_mod(e, build::index(4)));
        let block = build::floor_div(v(1), build::index(4));
        assert_eq!(simplify_expr(&build::floor_div(i.clone(), by.clone()), &scope()), block);
        let want = build::add(eight_times(of(v(1))), v(2));
        assert_eq!(simplify_expr(&build::floor_mod(i, by.clone()), &scope()), want);
        // A lane may lie in the next block, or a block of the layout end within one of lanes.
        let across = build::floor_div(build::add(eight_times(v(1)), v(3)), by);
        assert_eq!(simplify_expr(&across, &scope()), across);
        let uneven = build::floor_div(build::add(eight_times(v(1)), v(2)), build::index(12));
        assert_eq!(simplify_expr(&uneven, &scope()), uneven);
    }

    #[test]
    fn nested_splits_become_one_sum() {
        let e = eight_times(build::add(build::mul(v(1), build::index(4)), v(2)));
        let want = build::add(build::mul(v(1), build::index(32)), eight_times(v(2)));
        assert_eq!(simplify_expr(&e, &scope()), want);
    }

    #[test]
    fn what_is_not_known_stays() {
        let e = build::min(build::index(8), build::sub(v(0), build::index(1)));
        assert_eq!(simplify_expr(&e, &scope()), e);
        assert_eq!(simplify_expr(&build::lt(v(2), build::index(8)), &scope()), build::boolean(true));
        let open = build::lt(v(3), v(0));
        assert_eq!(simplify_expr(&open, &scope()), open);
    }

    #[test]
    fn what_is_known_to_divide_leaves_nothing() {
        let mut r = scope();
        let by = |e: Expr, c: i64| build::floor_div(e, build::index(c));
        let up = by(build::add(v(0), build::index(7)), 8);
        assert_eq!(simplify_expr(&up, &r), up);
        let multiple = build::eq(build::floor_mod(v(0), build::index(16)), build::index(0));
        r.assume(&multiple);
        assert_eq!(simplify_expr(&up, &r), by(v(0), 8));
        assert_eq!(simplify_expr(&build::floor_mod(v(0), build::index(4)), &r), build::index(0));
        // 32 does not divide every multiple of 16.
        let coarse = by(build::add(v(0), build::index(31)), 32);
        assert_eq!(simplify_expr(&coarse, &r), coarse);
        // In blocks of 8 every block is full.
        let last = build::sub(by(build::add(v(0), build::index(7)), 8), build::index(1));
        let left = build::min(build::index(8), build::sub(v(0), eight_times(last)));
        assert_eq!(simplify_expr(&left, &r), build::index(8));
    }

    /// A check at the front holds for what follows it, and stays itself.
    #[test]
    fn checks_are_facts_for_what_follows() {
        let cond = build::eq(build::floor_mod(v(0), build::index(8)), build::index(0));
        let check = |cond: &Expr| {
            let kind = StmtKind::Check { cond: cond.clone(), code: "c".into(), message: "m".into() };
            Stmt::new(kind, lathe_diagnostics::Places::default())
        };
        let never = check(&build::boolean(false));
        let decided = StmtKind::If { cond: cond.clone(), then: never.clone(), other: None };
        let after = Stmt::new(decided, lathe_diagnostics::Places::default());
        let out = simplify_stmt(&Stmt::seq([check(&cond), after.clone()]), &mut scope());
        assert_eq!(out, Stmt::seq([check(&cond), never]));
        let s = Stmt::seq([after.clone(), check(&cond)]);
        assert_eq!(simplify_stmt(&s, &mut scope()), s);
    }

    #[test]
    fn conditions_are_facts() {
        let mut r = scope();
        r.assume(&build::lt(v(3), v(0)));
        let e = build::min(build::add(v(3), build::index(1)), v(0));
        assert_eq!(simplify_expr(&e, &r), build::add(v(3), build::index(1)));
    }
}
