//! Bounds of linear forms over loops, as forms: the box that a loop nest touches, the constant that an extent is at most.
//!
//! A bound is a *set* of forms: an upper bound means their minimum, a lower bound their maximum, so that the `min` of a
//! split loop's end keeps all it knows. Bounds are found here; that a form is not negative is proved in one place,
//! [`crate::prove`].

use crate::form::Linear;
pub use crate::ranged::Ranged;
use crate::ranges::Ranges;
use lathe_ir::visit::{Memo, distinct_operands};
use lathe_ir::{BinOp, Expr, ExprKind, Loop, UnOp, VarId, build, visit};
use std::collections::HashSet;

/// No more alternatives than this are kept for one bound; dropping some is always sound.
const MAX_FORMS: usize = 24;

/// The form of an `index` expression; parts that are not linear become atoms in a normal form, so that
/// `min(a, b)` and `min(b, a)` are one atom.
pub fn normal(e: &Expr) -> Linear {
    normal_in(e, &mut Memo::default())
}

fn normal_in(e: &Expr, memo: &mut Memo<Linear>) -> Linear {
    memo.of(e, |memo| normal_node(e, memo))
}

fn normal_node(e: &Expr, memo: &mut Memo<Linear>) -> Linear {
    let mut normal = |e: &Expr| normal_in(e, memo);
    match e.kind() {
        ExprKind::Int(v) => Linear::constant(*v),
        ExprKind::Unary(UnOp::Neg, a) => normal(a).scaled(-1).unwrap_or_else(|| Linear::atom(e.clone())),
        ExprKind::Binary(BinOp::Add, a, b) => {
            normal(a).plus(&normal(b), 1).unwrap_or_else(|| Linear::atom(e.clone()))
        }
        ExprKind::Binary(BinOp::Sub, a, b) => {
            normal(a).plus(&normal(b), -1).unwrap_or_else(|| Linear::atom(e.clone()))
        }
        ExprKind::Binary(BinOp::Mul, a, b) => {
            let (x, y) = (normal(a), normal(b));
            let product = match (x.as_constant(), y.as_constant()) {
                (Some(c), _) => y.scaled(c),
                (_, Some(c)) => x.scaled(c),
                _ => None,
            };
            product.unwrap_or_else(|| Linear::atom(build::mul(x.to_expr(), y.to_expr())))
        }
        ExprKind::Binary(op @ (BinOp::Min | BinOp::Max), ..) => {
            extreme(*op, distinct_operands(*op, e).iter().map(normal).collect())
        }
        ExprKind::Binary(op @ (BinOp::FloorDiv | BinOp::FloorMod), a, b) => {
            let (x, y) = (normal(a), normal(b));
            if let (BinOp::FloorDiv, Some(d)) = (op, y.as_constant())
                && let Some(q) = x.divided(d)
            {
                return q;
            }
            let e = build::binary(*op, x.to_expr(), y.to_expr());
            e.as_int().map_or_else(|| Linear::atom(e), Linear::constant)
        }
        _ => Linear::atom(e.clone()),
    }
}

/// The `min` or `max` of forms: duplicates and those a constant apart are merged, the rest sorted.
fn extreme(op: BinOp, parts: Vec<Linear>) -> Linear {
    let mut kept: Vec<Linear> = Vec::new();
    for p in parts {
        match kept.iter_mut().find(|k| k.same_terms(&p)) {
            Some(k) if op == BinOp::Min => k.constant = k.constant.min(p.constant),
            Some(k) => k.constant = k.constant.max(p.constant),
            None => kept.push(p),
        }
    }
    if kept.len() == 1 {
        return kept.remove(0);
    }
    // Constants first, then by hash: any fixed order serves.
    let mut parts: Vec<Expr> = kept.iter().map(Linear::to_expr).collect();
    parts.sort_by_key(|e| (e.as_int().is_none(), e.structural_hash()));
    let all = parts.into_iter().reduce(|a, b| build::binary(op, a, b));
    all.map_or_else(|| Linear::constant(0), Linear::atom)
}

/// Adds a form to a bound unless a form with the same terms is there already; then the tighter one stays.
fn insert(forms: &mut Vec<Linear>, f: Linear) {
    if let Some(g) = forms.iter_mut().find(|g| g.same_terms(&f)) {
        g.constant = g.constant.min(f.constant);
    } else if forms.len() < MAX_FORMS {
        forms.push(f);
    }
}

/// Linear upper bounds of a form: itself, and what follows from the meaning of its atoms.
fn uppers_of(l: &Linear, depth: usize) -> Vec<Linear> {
    let mut out = vec![l.clone()];
    if depth == 0 {
        return out;
    }
    without_quotients(l).into_iter().for_each(|f| insert(&mut out, f));
    for (atom, c) in &l.terms {
        let Some(rest) = l.plus(&Linear::atom(atom.clone()), c.wrapping_neg()) else { continue };
        for bound in atom_uppers(atom, *c, depth) {
            if let Some(f) = rest.plus(&bound, 1) {
                for g in uppers_of(&f, depth - 1) {
                    insert(&mut out, g);
                }
            }
        }
    }
    out
}

/// Upper bounds without two quotients of nearly the same: `a·((x + p) // d) - a·m·((x + q) // (d·m))` is what a block of
/// `m` parts has left of these, at most `a·(m - 1 + ⌈(p - q) / d⌉)`.
fn without_quotients(l: &Linear) -> Vec<Linear> {
    fn quotient((atom, c): &(Expr, i64)) -> Option<(Linear, i64, &Expr, i64)> {
        match atom.kind() {
            ExprKind::Binary(BinOp::FloorDiv, x, d) => {
                Some((normal(x), d.as_int().filter(|d| *d > 0)?, atom, *c))
            }
            _ => None,
        }
    }
    let divides = |t: &&(Expr, i64)| matches!(t.0.kind(), ExprKind::Binary(BinOp::FloorDiv, ..));
    let mut out = Vec::new();
    if l.terms.iter().filter(divides).count() < 2 {
        return out;
    }
    let all: Vec<_> = l.terms.iter().filter_map(quotient).collect();
    for (x, d, fine, a) in all.iter().filter(|q| q.3 > 0) {
        for (y, e, coarse, b) in all.iter().filter(|q| q.3 < 0 && q.1 % d == 0) {
            let parts = e / d;
            if !x.same_terms(y) || a.checked_mul(-parts) != Some(*b) {
                continue;
            }
            let apart = y.constant.checked_sub(x.constant).and_then(|p| p.div_euclid(*d).checked_neg());
            let most = apart.and_then(|p| (parts - 1).checked_add(p)?.checked_mul(*a));
            let rest = l.plus(&Linear::atom((*fine).clone()), -a);
            let rest = rest.and_then(|r| r.plus(&Linear::atom((*coarse).clone()), b.wrapping_neg()));
            out.extend(rest.zip(most).and_then(|(r, m)| r.offset(m)));
        }
    }
    out
}

/// Upper bounds of `c · atom` that do not mention the atom.
fn atom_uppers(atom: &Expr, c: i64, depth: usize) -> Vec<Linear> {
    let ExprKind::Binary(op, a, b) = atom.kind() else { return Vec::new() };
    let (x, y) = (normal(a), normal(b));
    match (op, c > 0) {
        // The bound is a minimum: each side alone is one.
        (BinOp::Min, true) | (BinOp::Max, false) => {
            [x.scaled(c), y.scaled(c)].into_iter().flatten().collect()
        }
        // The bound is a maximum: what bounds both sides.
        (BinOp::Min, false) | (BinOp::Max, true) => {
            let sides = (x.scaled(c), y.scaled(c));
            let (Some(x), Some(y)) = sides else { return Vec::new() };
            let ys = uppers_of(&y, depth - 1);
            let mut out = Vec::new();
            for f in uppers_of(&x, depth - 1) {
                if let Some(g) = ys.iter().find(|g| g.same_terms(&f)) {
                    out.push(Linear { constant: f.constant.max(g.constant), ..f });
                }
            }
            out
        }
        (BinOp::FloorDiv, positive) => {
            let Some(d) = y.as_constant().filter(|d| *d > 0) else { return Vec::new() };
            if positive {
                let mut out = Vec::new();
                for f in uppers_of(&x, depth - 1) {
                    if let Some(q) = f.divided(d) {
                        out.extend(q.scaled(c));
                    } else if c % d == 0 {
                        out.extend(f.scaled(c / d));
                    }
                }
                out
            } else if c % d == 0 {
                // x // d ≥ (x - d + 1) / d
                x.offset(1 - d).and_then(|x| x.scaled(c / d)).into_iter().collect()
            } else {
                Vec::new()
            }
        }
        (BinOp::FloorMod, positive) => match y.as_constant() {
            Some(d) if d > 0 => vec![Linear::constant(if positive { c.saturating_mul(d - 1) } else { 0 })],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Upper bounds of a form once the variables of `scope` (outermost first) range over their loops.
pub fn uppers(l: &Linear, scope: &[Ranged]) -> Vec<Linear> {
    let mut forms = Vec::new();
    for f in uppers_of(l, 3) {
        insert(&mut forms, f);
    }
    for r in scope.iter().rev() {
        let one: HashSet<VarId> = [r.var].into();
        let mut next = Vec::new();
        for f in forms {
            let c = f.factor(r.var);
            let Some(rest) = f.plus(&Linear::atom(build::var_id(r.var, lathe_ir::Scalar::Index)), -c) else {
                continue;
            };
            if c == 0 && !rest.mentions(&one) {
                insert(&mut next, rest);
                continue;
            }
            if rest.mentions(&one) {
                for f in quotient_uppers(&rest, r).into_iter().filter(|f| c == 0 && !f.mentions(&one)) {
                    insert(&mut next, f);
                }
                continue;
            }
            let ends: Vec<Option<Linear>> = if c > 0 {
                std::iter::once(&r.hi)
                    .chain(&r.below)
                    .map(|h| normal(h).offset(-1).and_then(|h| h.scaled(c)))
                    .collect()
            } else {
                vec![normal(&r.lo).scaled(c)]
            };
            for bound in ends.into_iter().flatten() {
                if let Some(f) = rest.plus(&bound, 1) {
                    for g in uppers_of(&f, 3) {
                        insert(&mut next, g);
                    }
                }
            }
        }
        forms = next;
    }
    forms
}

/// Upper bounds of a form in which a loop's variable is in one quotient: a quotient rises and falls with what is
/// divided.
fn quotient_uppers(l: &Linear, r: &Ranged) -> Vec<Linear> {
    let own = |e: &Expr| visit::vars_of(e).contains(&r.var);
    let mut found = l.terms.iter().filter(|t| own(&t.0));
    let (Some((atom, c)), None) = (found.next(), found.next()) else { return Vec::new() };
    let ExprKind::Binary(BinOp::FloorDiv, a, b) = atom.kind() else { return Vec::new() };
    let (Some(d), Some(rest)) =
        (b.as_int().filter(|d| *d > 0), l.plus(&Linear::atom(atom.clone()), c.wrapping_neg()))
    else {
        return Vec::new();
    };
    let scope = std::slice::from_ref(r);
    let ends = if *c > 0 { uppers(&normal(a), scope) } else { lowers(&normal(a), scope) };
    let quotient = |x: &Linear| normal(&build::floor_div(x.to_expr(), build::index(d)));
    ends.iter().filter_map(|x| rest.plus(&quotient(x), *c)).collect()
}

/// Lower bounds, likewise.
pub fn lowers(l: &Linear, scope: &[Ranged]) -> Vec<Linear> {
    let Some(negated) = l.scaled(-1) else { return Vec::new() };
    uppers(&negated, scope).into_iter().filter_map(|f| f.scaled(-1)).collect()
}

/// Whether the form is never negative where the variables of `scope` range over their loops, given that the variables of
/// `sizes` are not: asked of [`Ranges::nonneg`].
pub fn nonneg(l: &Linear, scope: &[Ranged], sizes: &HashSet<VarId>) -> bool {
    if let Some(c) = l.as_constant() {
        return c >= 0;
    }
    let mut ranges = Ranges::default();
    let mut sizes: Vec<&VarId> = sizes.iter().collect();
    sizes.sort_unstable();
    sizes.into_iter().for_each(|v| ranges.enter_size(*v));
    let plain = |e: &Expr| normal(e).to_expr();
    for r in scope {
        let hi = r.below.iter().fold(plain(&r.hi), |hi, b| build::min(hi, plain(b)));
        ranges.enter_loop(r.var, &plain(&r.lo), &hi);
    }
    ranges.nonneg(l)
}

/// The least constant upper bound that is known.
pub fn constant_upper(l: &Linear, scope: &[Ranged]) -> Option<i64> {
    uppers(l, scope).iter().filter_map(Linear::as_constant).min()
}

/// Drops forms that are never below another one of the (upper) bound.
pub fn prune(forms: Vec<Linear>, scope: &[Ranged], sizes: &HashSet<VarId>) -> Vec<Linear> {
    let mut kept = forms;
    let mut i = 0;
    while i < kept.len() {
        let useless = (0..kept.len())
            .any(|j| j != i && kept[i].minus(&kept[j]).is_some_and(|d| nonneg(&d, scope, sizes)));
        if useless && kept.len() > 1 {
            kept.remove(i);
        } else {
            i += 1;
        }
    }
    kept
}

/// The minimum of the forms as an expression; constants first.
pub fn min_expr(forms: &[Linear]) -> Option<Expr> {
    let mut parts: Vec<Expr> = forms.iter().map(Linear::to_expr).collect();
    parts.sort_by_key(|e| e.as_int().is_none());
    parts.into_iter().reduce(build::min)
}

/// The forms that a minimum is taken of; one form stands for itself.
pub fn mins(l: &Linear) -> Vec<Linear> {
    for (atom, c) in &l.terms {
        if *c == 1 && matches!(atom.kind(), ExprKind::Binary(BinOp::Min, ..)) {
            let parts: Vec<Linear> = distinct_operands(BinOp::Min, atom).iter().map(normal).collect();
            let rest = l.minus(&normal(atom));
            return parts.iter().filter_map(|p| rest.as_ref()?.plus(p, 1)).collect();
        }
    }
    vec![l.clone()]
}

/// The number of iterations of a loop, where it is constant.
pub fn constant_trips(l: &Loop) -> Option<i64> {
    Linear::difference(&l.hi, &l.lo).map(|span| trips_over(l, span))
}

/// The most iterations that an unrolled loop may have if their number is not constant: each is guarded by a comparison with
/// the loop's end.
pub const MOST_GUARDED: i64 = 64;

/// The most iterations that a loop can have at a place: their number, or else the least constant that is known to bound it.
pub fn most_trips(l: &Loop, here: &Ranges) -> Option<i64> {
    if let Some(n) = constant_trips(l) {
        return Some(n);
    }
    let span = normal(&l.hi).minus(&normal(&l.lo))?;
    let range = i64::try_from(here.sum(&span).hi).ok();
    let span = range.into_iter().chain(constant_upper(&span, &here.around())).min()?;
    Some(trips_over(l, span))
}

/// The number of iterations of a loop whose bounds are so far apart.
pub fn trips_over(l: &Loop, span: i64) -> i64 {
    if span <= 0 { 0 } else { (span - 1) / l.step + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_ir::Scalar;

    fn v(n: u32) -> Expr {
        build::var_id(VarId(n), Scalar::Index)
    }

    fn c(n: i64) -> Expr {
        build::index(n)
    }

    /// `for o in 0..ceil(n/t) { for i in 0..min(t, n - t*o) }`
    fn split(n: &Expr, t: i64, o: u32, i: u32) -> Vec<Ranged> {
        vec![
            Ranged::new(VarId(o), c(0), build::ceil_div(n.clone(), t)),
            Ranged::new(VarId(i), c(0), build::min(c(t), build::sub(n.clone(), build::mul(c(t), v(o))))),
        ]
    }

    #[test]
    fn a_split_loop_covers_what_it_did_before() {
        let n = v(0);
        let scope = split(&n, 32, 1, 2);
        let e = normal(&build::add(build::mul(c(32), v(1)), v(2)));
        let forms = prune(uppers(&e, &scope), &[], &[VarId(0)].into());
        assert_eq!(forms, vec![normal(&build::sub(n, c(1)))]);
        assert!(nonneg(&e, &scope, &HashSet::new()));
    }

    #[test]
    fn two_levels_of_splits_keep_constant_and_exact_bounds() {
        // x = min(4096, n - 4096*jo), split by 32 once more
        let (n, jo) = (v(0), v(9));
        let x = build::min(c(4096), build::sub(n, build::mul(c(4096), jo)));
        let scope = split(&x, 32, 1, 2);
        let e = normal(&build::add(build::mul(v(1), c(32)), v(2)));
        assert_eq!(constant_upper(&e, &scope), Some(4095));
        let forms = prune(uppers(&e, &scope), &[], &[VarId(0)].into());
        assert_eq!(forms, vec![normal(&x).offset(-1).unwrap()]);
    }

    #[test]
    fn a_padded_inner_loop_stays_within_the_rounded_extent() {
        let x = build::min(c(64), build::sub(v(0), build::mul(c(64), v(9))));
        let scope =
            [Ranged::new(VarId(1), c(0), build::ceil_div(x.clone(), 32)), Ranged::new(VarId(2), c(0), c(32))];
        let e = normal(&build::add(build::mul(v(1), c(32)), v(2)));
        let rounded = normal(&build::mul(build::ceil_div(x, 32), c(32)));
        let gap = rounded.minus(&e).and_then(|g| g.offset(-1)).unwrap();
        assert!(nonneg(&gap, &scope, &HashSet::new()));
        assert!(!nonneg(&gap.offset(-1).unwrap(), &scope, &HashSet::new()));
    }

    #[test]
    fn a_quotient_is_bounded_by_that_of_the_ends() {
        // for i in 0..5 { for o in 0..(n - i + 4) // 5 { … } }
        let n = v(0);
        let end = build::floor_div(build::add(build::sub(n.clone(), v(1)), c(4)), c(5));
        let scope = [Ranged::new(VarId(1), c(0), c(5)), Ranged::new(VarId(2), c(0), end)];
        let most = normal(&build::sub(build::floor_div(build::add(n, c(4)), c(5)), c(1)));
        assert_eq!(uppers(&normal(&v(2)), &scope), vec![most]);
        // It rises with what is added to it, and falls where it is subtracted.
        let q = |x: Expr| normal(&build::floor_div(x, c(2)));
        assert_eq!(constant_upper(&q(build::add(v(1), c(3))), &scope), Some(3));
        assert!(nonneg(&q(v(1)), &scope, &HashSet::new()));
        assert!(!nonneg(&q(build::sub(v(1), c(1))), &scope, &HashSet::new()));
    }

    /// What a block of so many parts has left of them, by all numbers; the bound is reached.
    #[test]
    fn quotients_of_parts_and_of_blocks_bound_what_a_block_has_left() {
        let n = v(0);
        for (d, parts, p, q) in
            [(16, 8, 15, 0), (16, 8, 0, 0), (4, 1, 3, 0), (4, 3, -5, 2), (4, 2, 2, -9), (1, 4, 0, 3)]
        {
            let quotient = |add: i64, d: i64| build::floor_div(build::add(n.clone(), c(add)), c(d));
            let left = build::sub(quotient(p, d), build::mul(c(parts), quotient(q, d * parts)));
            let most = constant_upper(&normal(&left), &[]);
            let value = |n: i64| (n + p).div_euclid(d) - parts * (n + q).div_euclid(d * parts);
            let real = (0..400).map(value).max();
            assert!(most >= real, "{d} {parts} {p} {q}: {most:?} {real:?}");
            assert!(most.is_some_and(|m| m <= real.unwrap() + 1), "{d} {parts} {p} {q}: {most:?} {real:?}");
        }
    }

    #[test]
    fn a_loop_over_what_tiles_leave_has_a_constant_bound() {
        // for o in n // 128..(n + 127) // 128 { for i in 0..(n + 15) // 16 - 8 * o { for j in 0..n - 128 * o { … } } }
        let n = v(0);
        let mut here = Ranges::default();
        here.enter_size(VarId(0));
        here.enter_loop(VarId(1), &build::floor_div(n.clone(), c(128)), &build::ceil_div(n.clone(), 128));
        let over = |hi: Expr| {
            let binder = lathe_ir::Binder { id: VarId(2), name: "i".into(), ty: Scalar::Index };
            let (lo, body) = (c(0), lathe_ir::Stmt::empty());
            most_trips(&Loop { binder, lo, hi, step: 1, exec: lathe_ir::Executor::Serial, body }, &here)
        };
        assert_eq!(over(build::sub(build::ceil_div(n.clone(), 16), build::mul(c(8), v(1)))), Some(8));
        assert_eq!(over(build::sub(n.clone(), build::mul(c(128), v(1)))), Some(127));
        assert_eq!(over(build::min(c(7), n.clone())), Some(7));
        assert!(over(n).is_none_or(|most| most > MOST_GUARDED));
    }

    #[test]
    fn a_tile_of_a_split_loop_is_not_empty() {
        let n = v(0);
        let scope = &split(&n, 8, 1, 2)[..1];
        let len = normal(&build::min(c(8), build::sub(n, build::mul(c(8), v(1)))));
        assert!(nonneg(&len.offset(-1).unwrap(), scope, &HashSet::new()));
    }
}
