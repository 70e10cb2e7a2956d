//! Operators without identity: the first element of every part starts it. In a tree that is
//! `if this is the first instance { C = value } else { C op= value }`, with the condition that all reduced loops are
//! at their beginning.

use super::*;
use crate::storage::begin::{beginnings, choice};
use lathe_ir::{BinOp, ExprKind};

/// How a reduction starts that has no identity to start from.
pub struct First {
    /// The function with the plain reduction in the place of the choice: for questions about what is touched.
    pub plain: Function,
    cond: Expr,
    /// Loops that are at their beginning where the condition holds, and where that is.
    begins: Vec<(VarId, i64)>,
    /// Loops around the loop that is cut, and inside of it, of these.
    outside: Vec<(VarId, i64)>,
    inside: Vec<(VarId, i64)>,
}

impl First {
    /// The way in which the one reduction into a buffer inside of a loop starts; none where it starts in another way.
    pub fn of(cursor: &Cursor, buffer: BufId, inner: &Path) -> Option<First> {
        let l = cursor.at(inner)?;
        let mine = |s: &Stmt| match choice(s) {
            Some((_, r)) => {
                r.as_reduce().is_some_and(|r| r.targets.iter().any(|t| t.view.buffer() == Some(buffer)))
            }
            None => false,
        };
        let mut found: Vec<(Path, Expr)> = Vec::new();
        visit::walk(l, &mut |s, p| {
            if mine(s)
                && let Some((cond, _)) = choice(s)
            {
                found.push((inner.iter().chain(p).copied().collect(), cond.clone()));
            }
            true
        });
        let [(path, cond)] = found.as_slice() else { return None };
        let here = Around::of(cursor.func, path);
        let cond = visit::substitute(cond, &here.lets);
        let mut begins = Vec::new();
        beginnings(&cond, &here, &mut begins)?;
        let own = names::loop_at(cursor, "privatize", inner).ok()?.binder.id;
        let at = here.binders.iter().position(|b| b.id == own)?;
        let part = |from: usize, to: usize| -> Vec<(VarId, i64)> {
            here.binders[from..to]
                .iter()
                .filter_map(|b| begins.iter().find(|x| x.0 == b.id).copied())
                .collect()
        };
        let (outside, inside) = (part(0, at), part(at + 1, here.binders.len()));
        if !begins.iter().any(|b| b.0 == own) {
            return None;
        }
        let body = visit::map_stmts(&cursor.func.body, &mut |s| match choice(&s) {
            Some((_, r)) if mine(&s) => r.clone(),
            _ => s,
        });
        let plain = Function { body, ..cursor.func.clone() };
        Some(First { plain, cond, begins, outside, inside })
    }

    /// How many parts there are: those that begin where everything between the target and the loop begins; later ones
    /// are not more. None where that cannot be told.
    pub fn count(&self, cursor: &Cursor, target: &Path, inner: &Path) -> Option<Expr> {
        let l = names::loop_at(cursor, "privatize", inner).ok()?;
        let here = Around::of(cursor.func, inner);
        let depth = Around::of(cursor.func, target).binders.len();
        let between: Vec<VarId> = here.binders[depth..].iter().map(|b| b.id).collect();
        let hi = bounds::normal(&visit::substitute(&l.hi, &here.lets));
        let falls = bounds::mins(&hi).iter().all(|f| {
            between.iter().all(|v| f.factor(*v) <= 0)
                && f.terms.iter().all(|(e, _)| {
                    e.as_var().is_some() || visit::vars_of(e).iter().all(|v| !between.contains(v))
                })
        });
        // Loops between that are not reduced have no beginning here: the number must not depend on them.
        let told = between
            .iter()
            .all(|v| self.outside.iter().any(|x| x.0 == *v) || !visit::vars_of(&l.hi).contains(v));
        let begin = |e: &Expr| {
            visit::substitute(&visit::substitute(e, &here.lets), &self.at(&self.outside, &between))
        };
        let mut count = build::max(build::index(0), build::sub(begin(&l.hi), begin(&l.lo)));
        // No part begins where a loop between has no iterations.
        for (n, b) in here.binders.iter().enumerate().skip(depth) {
            if self.outside.iter().any(|x| x.0 == b.id) {
                let some = build::lt(begin(&here.loops[n].lo), begin(&here.loops[n].hi));
                count = build::select(some, count, build::index(0));
            }
        }
        (falls && told).then_some(count)
    }

    /// Whether the part of one iteration of the loop has a first element: every loop inside runs where all others begin.
    /// `true` where that is always so; none where it cannot be told outside of the loops.
    pub fn has_first(&self, cursor: &Cursor, target: &Path, inner: &Path, own: &Expr) -> Option<Expr> {
        if self.parts_have_elements(cursor, inner) {
            return Some(build::boolean(true));
        }
        let l = cursor.at(inner)?;
        let depth = Around::of(cursor.func, target).binders.len();
        let mut all: HashMap<VarId, Expr> =
            self.begins.iter().map(|(v, lo)| (*v, build::index(*lo))).collect();
        Around::of(cursor.func, target).binders.iter().for_each(|b| drop(all.remove(&b.id)));
        all.insert(names::loop_at(cursor, "privatize", inner).ok()?.binder.id, own.clone());
        let mut parts = Vec::new();
        visit::walk(l, &mut |s, p| {
            if let Some(x) = s.as_loop().filter(|x| self.inside.iter().any(|b| b.0 == x.binder.id)) {
                let path: Path = inner.iter().chain(p).copied().collect();
                let lets = Around::of(cursor.func, &path).lets;
                let at = |e: &Expr| visit::substitute(&visit::substitute(e, &lets), &all);
                parts.push(build::lt(at(&x.lo), at(&x.hi)));
            }
            true
        });
        let bound: Vec<VarId> =
            Around::of(cursor.func, inner).binders[depth..].iter().map(|b| b.id).collect();
        let free = |e: &Expr| visit::vars_of(e).iter().all(|v| !bound.contains(v));
        let inner_bound = scope::bound_in(l);
        let told = parts.iter().all(|e| free(e) && visit::vars_of(e).is_disjoint(&inner_bound));
        told.then(|| parts.into_iter().reduce(build::and).unwrap_or(build::boolean(true)))
    }

    /// Every loop inside runs at least once.
    fn parts_have_elements(&self, cursor: &Cursor, inner: &Path) -> bool {
        let Some(l) = cursor.at(inner) else { return false };
        let mut fine = true;
        visit::walk(l, &mut |s, p| {
            let Some(x) = s.as_loop().filter(|x| self.inside.iter().any(|b| b.0 == x.binder.id)) else {
                return true;
            };
            let path: Path = inner.iter().chain(p).copied().collect();
            let mut here = Around::of(cursor.func, &path);
            here.loops.iter_mut().for_each(more_bounds);
            let (lo, hi) = (visit::substitute(&x.lo, &here.lets), visit::substitute(&x.hi, &here.lets));
            // `lo < a // c` where `c * (lo + 1) <= a`.
            let (end, step) = match hi.kind() {
                ExprKind::Binary(BinOp::FloorDiv, a, c) if c.as_int().is_some_and(|c| c > 0) => {
                    (a.clone(), c.clone())
                }
                _ => (hi.clone(), build::index(1)),
            };
            let begin = build::mul(build::add(lo, build::index(1)), step);
            let form = bounds::normal(&build::sub(end, begin));
            let some = bounds::mins(&form).iter().all(|f| bounds::nonneg(f, &here.loops, &here.sizes));
            fine &= some;
            true
        });
        fine
    }

    fn at(&self, which: &[(VarId, i64)], of: &[VarId]) -> HashMap<VarId, Expr> {
        which.iter().filter(|x| of.contains(&x.0)).map(|(v, lo)| (*v, build::index(*lo))).collect()
    }

    /// In the statement with the partial results: every part starts with its first element.
    pub fn restart(&self, s: &Stmt, locals: &[Arc<Buffer>], target_depth: &[VarId]) -> Stmt {
        let starts = |x: &Stmt| match choice(x) {
            Some((_, r)) => {
                matches!(r.kind(), StmtKind::Reduce(r) if r.targets.iter().any(|t| locals.iter().any(|l| t.view == View::Buffer(l.id))))
            }
            None => false,
        };
        let inner = self.outside.iter().filter(|x| !target_depth.contains(&x.0)).chain(&self.inside);
        let cond = inner.fold(build::boolean(true), |c, (v, lo)| {
            build::and(c, build::eq(build::var_id(*v, Scalar::Index), build::index(*lo)))
        });
        visit::map_stmts(s, &mut |x| match x.as_if().filter(|_| starts(&x)) {
            // One element per part: nothing is left to reduce.
            Some((_, then, Some(r))) if cond.as_bool() == Some(true) => named_as(then, r),
            Some(_) => x.with_exprs(vec![cond.clone()]),
            None => x,
        })
    }

    /// The first part, where nothing was combined before, is stored; the others are combined.
    pub fn combine(&self, reduce: Stmt, part: &Binder, around: &Around, exists: &Expr) -> Stmt {
        let Some(r) = reduce.as_reduce() else { return reduce };
        let stay: Vec<VarId> = around.binders.iter().map(|b| b.id).collect();
        let rest: HashMap<VarId, Expr> = self
            .begins
            .iter()
            .filter(|b| !stay.contains(&b.0))
            .map(|(v, lo)| (*v, build::index(*lo)))
            .collect();
        let before = visit::substitute(&self.cond, &rest);
        let cond = build::and(build::eq(build::var(part), build::index(0)), before);
        let stores = r.targets.iter().zip(&r.values).enumerate().map(|(n, (t, v))| {
            let store =
                Store::new(Label::new(Role::Init.nth(&r.label, n)), r.instance.clone(), t.clone(), v.clone());
            Stmt::new(StmtKind::Store(store), reduce.places().clone())
        });
        let then = Stmt::seq(stores.collect::<Vec<_>>());
        let places = reduce.places().clone();
        let then = Stmt::new(StmtKind::If { cond, then, other: Some(reduce) }, places.clone());
        match exists.as_bool() {
            Some(true) => then,
            _ => Stmt::new(StmtKind::If { cond: exists.clone(), then, other: None }, places),
        }
    }
}

/// The stores that begin a reduction, by its name.
fn named_as(stores: &Stmt, reduce: &Stmt) -> Stmt {
    let mut label = reduce.label().cloned();
    visit::map_stmts(stores, &mut |s| match s.as_store() {
        Some(st) => match label.take() {
            Some(label) => s.with_kind(StmtKind::Store(Store { label, ..st.clone() })),
            None => s,
        },
        None => s,
    })
}

/// What lies below `min(a, b) // c` lies below `a // c` and below `b // c`.
fn more_bounds(l: &mut bounds::Ranged) {
    if let ExprKind::Binary(BinOp::FloorDiv, a, c) = l.hi.kind()
        && let Some(c) = c.as_int().filter(|c| *c > 0)
    {
        let each = bounds::mins(&bounds::normal(a));
        l.below.extend(each.iter().map(|f| build::floor_div(f.to_expr(), build::index(c))));
    }
}
