//! Tapes that keep the same values. Of two places between which nothing changes an element, one tape is enough: in one
//! iteration of the loops around both, or in an iteration of one of them and the next, where the state after iteration
//! `t` is the state before iteration `t + 1` (and the last state is stored behind the loop).

use super::Reverse;
use super::tape::{End, Tape};
use crate::node::{Around, ScopeId};
use lathe_ir::build::{add, floor_div, index, load, lt, mul, sub, var};
use lathe_ir::visit::{map_accesses, substitute, vars_of};
use lathe_ir::{Access, BufId, Combine, Dim, Expr, Stmt, VarId, View};
use lathe_poly::Linear;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A tape in the place of another.
struct Way {
    /// Its subscripts, in the variables of the other's place.
    subscripts: Vec<Expr>,
    /// The first of them are those of the other tape: numbers of iterations of loops around both.
    same: usize,
    /// The loop whose next iteration stored the value, and what is stored behind it.
    end: Option<End>,
}

/// What is around a place, inside of the loops that two places share.
struct Inner {
    ranges: Vec<Dim>,
}

impl Inner {
    fn of(&self, v: VarId) -> Option<&Dim> {
        self.ranges.iter().find(|d| d.binder.id == v)
    }
}

impl Reverse<'_> {
    /// The reverse sweep with as few tapes of the outermost scope as keep what it reads.
    pub fn with_shared_tapes(&mut self, back: Stmt) -> Stmt {
        let mut served = Vec::new();
        let mut n = 0;
        while n < self.tapes.len() {
            let found = match self.tapes[n].ends.is_empty() {
                true => self.server(&self.tapes[n], Some(n)),
                false => None,
            };
            let Some((by, way)) = found else {
                n += 1;
                continue;
            };
            if let Some(end) = way.end.clone() {
                self.tapes[by].lengthen(end);
            }
            let by = self.tapes[by].buffer.id;
            served.push(Served { tape: self.tapes.remove(n), by, way });
            // What could not be served by this tape may be served by what served it.
            n = 0;
        }
        read_from(&back, &served)
    }

    /// A tape that keeps the values of another one, and how.
    fn server(&self, of: &Tape, but: Option<usize>) -> Option<(usize, Way)> {
        let others = || (0..self.tapes.len()).filter(|n| Some(*n) != but);
        let now = others().find_map(|n| Some((n, self.in_iteration(&self.tapes[n], of)?)));
        now.or_else(|| others().find_map(|n| Some((n, self.in_next(&self.tapes[n], of)?))))
    }

    /// Whether one of two tapes can take the place of the other.
    pub fn is_one(&self, a: &Tape, b: &Tape) -> bool {
        let way = |a, b| self.in_iteration(a, b).or_else(|| self.in_next(a, b)).is_some();
        way(a, b) || way(b, a)
    }

    /// Tape `a` for `b`, where both places are in one iteration of all loops that they share.
    fn in_iteration(&self, a: &Tape, b: &Tape) -> Option<Way> {
        let shared = shared(a, b);
        if !b.site.branches.starts_with(&a.site.branches) {
            return None;
        }
        let (x, y) = (a.access()?, b.access()?);
        let scope = shared.checked_sub(1).map_or(0, |n| a.site.loops[n].body);
        let (first, last) = if a.site.id <= b.site.id { ((a, x), (b, y)) } else { ((b, y), (a, x)) };
        let after = |w: &super::Write| self.may_overwrite(&first.0.site, first.1, w, scope);
        let before = |w: &super::Write| self.may_precede(&last.0.site, last.1, w, scope);
        let subscripts = self.subscripts(a, b, shared, None)?;
        let between = self.writes_in(x, scope).any(|w| after(w) && before(w));
        (!between).then_some(Way { subscripts, same: a.position_of(shared), end: None })
    }

    /// Tape `a` for `b`, where the place of `a` reads in the next iteration of a loop what that of `b` reads in this one.
    fn in_next(&self, a: &Tape, b: &Tape) -> Option<Way> {
        (0..shared(a, b)).rev().find_map(|n| {
            let l = &a.site.loops[n];
            let (x, y) = (a.access()?, b.access()?);
            if !l.is_bounded || a.site.branches.len() != l.branches {
                return None;
            }
            let subscripts = self.subscripts(a, b, n, Some(l))?;
            let lost = self.writes_in(x, l.body).any(|w| {
                self.may_overwrite(&b.site, y, w, l.body) || self.may_precede(&a.site, x, w, l.body)
            });
            let end = self.end(a, b, n, &subscripts)?;
            (!lost).then_some(Way { subscripts, same: a.position_of(n), end: Some(end) })
        })
    }

    fn writes_in<'s>(&'s self, a: &Access, scope: ScopeId) -> impl Iterator<Item = &'s super::Write> {
        let all = a.view.buffer().and_then(|b| self.writes.get(&b)).into_iter().flatten();
        all.filter(move |w| scope == 0 || w.site.loops.iter().any(|l| l.body == scope))
    }

    /// Loops and dimensions around a place from some depth on, if all of them have constant bounds.
    fn inner(&self, t: &Tape, from: usize) -> Option<Inner> {
        let mut ranges = Vec::new();
        for l in &t.site.loops[from..] {
            if !l.is_bounded || l.step != 1 {
                return None;
            }
            let (binder, lo, hi) = (l.binder.clone(), l.lo.clone(), l.hi.clone());
            ranges.push(Dim { binder, lo, hi, combine: Combine::Concat });
        }
        ranges.extend(t.dims.iter().cloned());
        let constant =
            |e: &Expr| vars_of(e).iter().all(|v| self.constants.contains(v)) && !Linear::of(e).reads();
        ranges.iter().all(|d| constant(&d.lo) && constant(&d.hi)).then_some(Inner { ranges })
    }

    /// The subscripts with which tape `a` has the element of `b`, where both are in one iteration of the first `common`
    /// loops, and `a` is in the next one of `next`.
    fn subscripts(&self, a: &Tape, b: &Tape, common: usize, next: Option<&Around>) -> Option<Vec<Expr>> {
        let (x, y) = (a.access()?, b.access()?);
        let home = x.view.buffer().and_then(|b| self.scope_of.get(&b));
        let plain = |t: &Tape| t.scope == 0 && t.ahead.is_none();
        if x.view != y.view
            || !matches!(x.view, View::Buffer(_))
            || home != Some(&0)
            || !plain(a)
            || !plain(b)
            || a.under.is_some()
            || a.buffer.elem != b.buffer.elem
            || x.indices.iter().chain(&y.indices).any(reads)
        {
            return None;
        }
        let outer = a.box_from();
        if outer != b.box_from() || outer > common || a.counted != b.counted {
            return None;
        }
        let inside = common + usize::from(next.is_some());
        let (mine, theirs) = (self.inner(a, inside)?, self.inner(b, inside)?);
        let around: HashSet<VarId> = a.site.loops[..inside].iter().map(|l| l.binder.id).collect();
        let known = |form: &Linear, inner: &Inner| {
            let all = form.terms.iter().flat_map(|t| vars_of(&t.0));
            let is_known =
                |v: VarId| self.constants.contains(&v) || around.contains(&v) || inner.of(v).is_some();
            !form.reads() && all.into_iter().all(is_known)
        };
        let step = next.map(|l| (l.binder.id, add(var(&l.binder), index(l.step))));
        let step: HashMap<VarId, Expr> = step.into_iter().collect();
        // Where the other place is, in terms of the variables of this one.
        let mut solved: HashMap<VarId, Expr> = HashMap::new();
        for (f, g) in x.indices.iter().zip(&y.indices) {
            let (f, g) = (Linear::of(&substitute(f, &step)), Linear::of(g));
            if !known(&f, &mine) || !known(&g, &theirs) {
                return None;
            }
            let mut own = f.terms.iter().filter(|t| vars_of(&t.0).iter().any(|v| mine.of(*v).is_some()));
            let Some((atom, 1)) = own.next() else {
                let apart = own.next().is_some() || f != g;
                if apart {
                    return None;
                }
                continue;
            };
            let v = atom.as_var()?;
            if own.next().is_some() {
                return None;
            }
            let rest = f.clone().without(atom);
            let at = g.minus(&rest)?;
            let d = mine.of(v)?;
            if !is_within(&at, d, &theirs) || solved.insert(v, at.to_expr()).is_some() {
                return None;
            }
        }
        if mine.ranges.iter().any(|d| !solved.contains_key(&d.binder.id)) {
            return None;
        }
        let position = next.map(|_| a.position_of(common));
        let all = a.indices.iter().enumerate();
        let all = all.map(|(n, i)| {
            let i = substitute(i, &solved);
            if Some(n) == position { add(i, index(1)) } else { i }
        });
        Some(all.collect())
    }

    /// What is stored behind a loop for its last iteration.
    fn end(&self, a: &Tape, b: &Tape, depth: usize, subscripts: &[Expr]) -> Option<End> {
        let l = &a.site.loops[depth];
        let (x, y) = (a.access()?, b.access()?);
        let trips = floor_div(add(sub(l.hi.clone(), l.lo.clone()), index(l.step - 1)), index(l.step));
        let position = a.position_of(depth);
        let moves = x.indices.iter().any(|i| vars_of(i).contains(&l.binder.id));
        // Of elements that stay, all are stored; of others, those that the other place read last.
        let last = add(l.lo.clone(), mul(sub(trips.clone(), index(1)), index(l.step)));
        let last = HashMap::from([(l.binder.id, last)]);
        let (dims, access, indices) = if moves {
            if b.under.is_some() || b.site.branches.len() != l.branches {
                return None;
            }
            let indices = y.indices.iter().map(|i| substitute(i, &last)).collect();
            let to = subscripts.iter().map(|i| substitute(i, &last)).collect::<Vec<_>>();
            (self.inner(b, depth + 1)?.ranges, Access { indices, ..y.clone() }, to)
        } else {
            (self.inner(a, depth + 1)?.ranges, x.clone(), a.indices.clone())
        };
        let mut indices = indices;
        indices[position] = trips;
        let under = lt(l.lo.clone(), l.hi.clone());
        Some(End { body: l.body, position, dims, access, indices, under })
    }

    /// What tapes keep of the state behind a loop.
    pub fn end_stores(&mut self, body: ScopeId, outside: &[Around]) -> Vec<Stmt> {
        let mut out = Vec::new();
        for n in 0..self.tapes.len() {
            for end in self.tapes[n].ends.clone().into_iter().filter(|e| e.body == body) {
                self.needs.extend(end.access.view.buffer().map(|b| (0, b)));
                let (site, to) = (self.tapes[n].site.clone(), self.tapes[n].buffer.clone());
                let target = Access::buffer(to.id, to.elem.clone(), end.indices);
                let value = load(end.access);
                out.push(self.store_on_tape(&site, outside, end.dims, target, value, Some(end.under)));
            }
        }
        out
    }
}

impl Tape {
    /// The depth from which on loops around the place have a subscript of their own.
    fn box_from(&self) -> usize {
        let loops = self.indices.len() - usize::from(self.counted.is_some()) - self.dims.len();
        self.site.loops.len() - loops
    }

    /// How many subscripts come before that of the loop at some depth.
    fn position_of(&self, depth: usize) -> usize {
        usize::from(self.counted.is_some()) + depth - self.box_from()
    }

    /// One entry more along a loop.
    fn lengthen(&mut self, end: End) {
        if !self.ends.iter().any(|e| e.body == end.body) {
            let mut extents = self.buffer.extents.clone();
            extents[end.position] = add(extents[end.position].clone(), index(1));
            self.buffer = Arc::new(lathe_ir::Buffer { extents, ..(*self.buffer).clone() });
        }
        if !self.ends.iter().any(|e| (e.body, &e.access) == (end.body, &end.access)) {
            self.ends.push(end);
        }
    }
}

fn reads(e: &Expr) -> bool {
    let mut found = false;
    lathe_ir::visit::walk_expr(e, &mut |x| found |= matches!(x.kind(), lathe_ir::ExprKind::Load(_)));
    found
}

/// How many loops two places share.
fn shared(a: &Tape, b: &Tape) -> usize {
    let both = a.site.loops.iter().zip(&b.site.loops);
    both.take_while(|(p, q)| p.binder.id == q.binder.id).count()
}

/// Whether a value is in the range of a dimension for all points of another place.
fn is_within(at: &Linear, d: &Dim, over: &Inner) -> bool {
    let mut ends = (at.to_expr(), at.to_expr());
    for t in &at.terms {
        let mut vars = vars_of(&t.0).into_iter().filter(|v| over.of(*v).is_some());
        let Some(v) = vars.next() else { continue };
        let Some(r) = over.of(v).filter(|_| t.0.as_var() == Some(v) && t.1 == 1) else { return false };
        let (lo, hi) = (r.lo.clone(), sub(r.hi.clone(), index(1)));
        ends =
            (substitute(&ends.0, &HashMap::from([(v, lo)])), substitute(&ends.1, &HashMap::from([(v, hi)])));
    }
    let at_least = |a: &Expr, b: &Expr| {
        Linear::of(a).minus(&Linear::of(b)).and_then(|d| d.as_constant()).is_some_and(|d| d >= 0)
    };
    at_least(&ends.0, &d.lo) && at_least(&sub(d.hi.clone(), index(1)), &ends.1)
}

/// A tape that another one serves.
struct Served {
    tape: Tape,
    by: BufId,
    way: Way,
}

/// A sweep that reads those tapes that serve others. One that serves may be served by one that comes later.
fn read_from(back: &Stmt, served: &[Served]) -> Stmt {
    if served.is_empty() {
        return back.clone();
    }
    map_accesses(back, &mut |x| {
        let mut out: Option<Access> = None;
        for s in served {
            let x = out.as_ref().unwrap_or(x);
            if x.view == View::Buffer(s.tape.buffer.id) {
                out = Some(s.read(x));
            }
        }
        out
    })
}

impl Served {
    /// An element of the tape as one of that which serves it.
    fn read(&self, x: &Access) -> Access {
        let b = &self.tape;
        let number = usize::from(b.counted.is_some());
        let loops = b.site.loops[b.box_from()..].iter().map(|l| (&l.binder, &l.lo, l.step));
        let dims = b.dims.iter().map(|d| (&d.binder, &d.lo, 1));
        // The variables of the place, from the subscripts: bounds may have variables of loops further out.
        let mut here: HashMap<VarId, Expr> = HashMap::new();
        for ((v, lo, step), i) in loops.chain(dims).zip(&x.indices[number..]) {
            let value = add(substitute(lo, &here), mul(i.clone(), index(step)));
            here.insert(v.id, Linear::of(&value).to_expr());
        }
        let indices = self.way.subscripts.iter().enumerate().map(|(n, i)| match &self.way.end {
            _ if n < self.way.same => x.indices[n].clone(),
            Some(end) if n == end.position => add(x.indices[n].clone(), index(1)),
            _ => Linear::of(&substitute(i, &here)).to_expr(),
        });
        let indices = indices.collect();
        Access { view: View::Buffer(self.by), indices, ..x.clone() }
    }
}
