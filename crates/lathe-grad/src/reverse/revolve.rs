//! Checkpointed loops: the reverse sweep recomputes the state at the beginning of each iteration from a fixed number of
//! snapshots, which are placed so that the fewest iterations run again (binomial checkpointing; Griewank and Walther,
//! Algorithm 799: revolve, TOMS 26(1), 2000).
//!
//! With `s` snapshots and each iteration run forward at most `r` times before its reversal, `β(s, r) = C(s + r, s)` iterations can be
//! reversed. Snapshots lie on a stack: the state at the beginning of iteration `at[top]` is `kept[top]`. To reverse iteration
//! `e`, the state is taken from the top and advanced to `e`; on the way, snapshots that are free are taken where the
//! rest of the iterations can be reversed with those that are left. The first sweep does the same up to the end of the loop.
//!
//! Where the end is not known (`while`), the first sweep takes a snapshot of every iteration, and one that is dispensable goes
//! for it where none is free: each has a level, and one before another of a higher level is dispensable. If there is none,
//! the last one goes, and the new one has the next level (Wang, Moin and Iaccarino, "Minimal Repetition Dynamic Checkpointing
//! Algorithm for Unsteady Adjoint Calculation", SIAM J. Sci. Comput. 31(4), 2009). So at every time the snapshots are
//! those from which the fewest runs of an iteration reverse all of them. They lie in places that a permutation names.

use super::Reverse;
use super::restore::When;
use crate::Kept;
use crate::arrays::{allocated, copy_array, fill, touched};
use crate::checkpoint::{Checkpointed, State, Which, renamed};
use crate::node::{Scope, ScopeId, Site, Trips};
use lathe_diagnostics::Diagnostic;
use lathe_ir::build::{add, and, eq, floor_div, index, load, lt, max, min, mul, sub, var};
use lathe_ir::visit::{map_stmts, refresh, substitute_stmt};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Executor, Expr, Label, Layout, Loop, Scalar, Space, Stmt, StmtKind, Type,
    VarId, View,
};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A checkpointed loop, and the arrays of its schedule.
pub struct Revolve {
    pub of: Checkpointed,
    /// The scope that an iteration is.
    pub body: ScopeId,
    /// For each state: as it is at the beginning of the iteration that is reversed, and the snapshots.
    arrays: Vec<(Arc<Buffer>, Arc<Buffer>)>,
    cells: Cells,
    /// What the loop's variable is called.
    name: String,
    snapshots: i64,
    /// Whether the loop has a reverse sweep.
    is_used: bool,
}

/// Integers of the schedule.
struct Cells {
    /// The iterations that the snapshots are of.
    at: Arc<Buffer>,
    /// The number of the last snapshot.
    top: Arc<Buffer>,
    /// The iteration that the state is of.
    here: Arc<Buffer>,
    /// `β(s, r)`, and `r`.
    reach: Arc<Buffer>,
    rounds: Arc<Buffer>,
    online: Option<Online>,
}

/// What is known of snapshots while the end of the loop is not.
struct Online {
    /// By their order: the levels, and the places.
    level: Arc<Buffer>,
    place: Arc<Buffer>,
    /// The one that is dispensable (0: none), and the highest level behind one.
    gone: Arc<Buffer>,
    high: Arc<Buffer>,
}

/// How iterations are told from one another: by values of a variable, if any.
struct Steps {
    name: String,
    var: Option<VarId>,
    lo: Expr,
    step: i64,
}

impl Steps {
    fn of(l: &Loop, lo: Expr) -> Steps {
        Steps { name: l.binder.name.to_string(), var: Some(l.binder.id), lo, step: l.step }
    }

    /// What an iteration holds, in the iteration of a number.
    fn at(&self, k: Expr, body: &Stmt) -> Stmt {
        let Some(v) = self.var else { return body.clone() };
        let here = add(self.lo.clone(), mul(k, index(self.step)));
        substitute_stmt(body, &HashMap::from([(v, here)]))
    }
}

impl Revolve {
    fn owned(&self) -> Vec<Arc<Buffer>> {
        let Cells { at, top, here, reach, rounds, online } = &self.cells;
        let more = online.iter().flat_map(|o| [&o.level, &o.place, &o.gone, &o.high]);
        let cells = [at, top, here, reach, rounds].into_iter().chain(more).cloned();
        self.arrays.iter().flat_map(|(now, kept)| [now.clone(), kept.clone()]).chain(cells).collect()
    }
}

fn cell(b: &Arc<Buffer>) -> Access {
    Access::buffer(b.id, Type::INDEX, Vec::new())
}

fn value(b: &Arc<Buffer>) -> Expr {
    load(cell(b))
}

fn element(b: &Arc<Buffer>, at: Expr) -> Access {
    Access::buffer(b.id, Type::INDEX, vec![at])
}

impl Reverse<'_> {
    pub fn revolve(&mut self, of: Checkpointed, body: ScopeId, name: &str, snapshots: i64) -> Revolve {
        let mut made = |name: String, like: &Buffer, extents: Vec<Expr>| {
            let space = if extents.is_empty() { Space::Register } else { Space::Host };
            let id = self.func.fresh_buf();
            let layout = Layout::row_major();
            Arc::new(Buffer { id, name: name.into(), extents, space, layout, ..like.clone() })
        };
        let arrays = of.states.iter().map(|s| {
            let now = made(format!("{}.state", s.outer.name), &s.outer, s.outer.extents.clone());
            let all = [index(snapshots)].into_iter().chain(s.outer.extents.iter().cloned()).collect();
            (now, made(format!("{}.kept", s.outer.name), &s.outer, all))
        });
        let arrays = arrays.collect();
        let number = Buffer {
            id: BufId(0),
            name: "".into(),
            elem: Type::INDEX,
            extents: Vec::new(),
            space: Space::Register,
            layout: Layout::row_major(),
        };
        let mut one = |what: &str, extents| made(format!("{name}.{what}"), &number, extents);
        let is_online = matches!(of.which, Which::While(_));
        let online = is_online.then(|| Online {
            level: one("level", vec![index(snapshots)]),
            place: one("place", vec![index(snapshots)]),
            gone: one("gone", Vec::new()),
            high: one("high", Vec::new()),
        });
        let cells = Cells {
            online,
            at: one("at", vec![index(snapshots)]),
            top: one("top", Vec::new()),
            here: one("here", Vec::new()),
            reach: one("reach", Vec::new()),
            rounds: one("rounds", Vec::new()),
        };
        Revolve { of, body, arrays, cells, name: name.to_string(), snapshots, is_used: false }
    }

    /// The loop, if it is checkpointed.
    pub fn revolving(&self, body: ScopeId) -> Option<usize> {
        self.revolves.iter().position(|r| r.body == body)
    }

    /// Where the state that an iteration begins with is, when it is not the first sweep that asks: also of what the
    /// iteration works on, as long as it has not changed the element.
    pub fn again(&self, site: &Site, a: &Access, when: When) -> Option<Access> {
        let id = a.view.buffer().filter(|_| when != When::Forward(0))?;
        let around = |r: &&Revolve| site.loops.iter().any(|l| l.body == r.body);
        self.revolves.iter().filter(around).find_map(|r| {
            let n = r.of.states.iter().position(|s| s.outer.id == id || s.inner.id == id)?;
            let fits = r.of.states[n].outer.id == id || self.is_as_begun(site, a, id, r.body);
            fits.then(|| Access { view: View::Buffer(r.arrays[n].0.id), ..a.clone() })
        })
    }

    /// Whether an element of what an iteration works on still is what it was when the iteration began.
    fn is_as_begun(&self, site: &Site, a: &Access, id: BufId, body: ScopeId) -> bool {
        let all = self.writes.get(&id).map_or(&[][..], Vec::as_slice);
        // The first statement of the iteration makes it so.
        let first = all.iter().map(|w| w.site.id).min();
        let mut others = all.iter().filter(|w| Some(w.site.id) != first);
        matches!(a.view, View::Buffer(_)) && !others.any(|w| self.may_precede(site, a, w, body))
    }

    /// The body among the arrays of schedules that are used.
    pub fn with_schedules(&self, body: Stmt) -> Stmt {
        let used = touched(&body);
        let all = self.revolves.iter().filter(|r| r.is_used).flat_map(Revolve::owned);
        allocated(all.filter(|b| used.contains(&b.id)).collect::<Vec<_>>(), body)
    }

    /// The snapshots, as what is kept.
    pub fn snapshots(&self) -> Vec<Kept> {
        let of = |r: &Revolve, (s, (_, kept)): (&State, &(Arc<Buffer>, Arc<Buffer>))| Kept {
            of: s.outer.name.to_string(),
            label: r.name.clone(),
            extents: kept.extents.clone(),
            elem: kept.elem.clone(),
        };
        let used = self.revolves.iter().filter(|r| r.is_used);
        used.flat_map(|r| r.of.states.iter().zip(&r.arrays).map(|x| of(r, x)).collect::<Vec<_>>()).collect()
    }

    /// The first sweep over the loop, with its first snapshots.
    pub fn first_sweep(
        &mut self,
        n: usize,
        site: &Rc<Site>,
        l: &Loop,
        body: &Scope,
    ) -> Result<Option<Stmt>, Diagnostic> {
        let Some(inside) = self.run(&body.body, 0)? else { return Ok(None) };
        let inside = self.run_numbered(body.id, 0, inside);
        let lo = self.restore(site, &[], &l.lo, None, When::Forward(0))?;
        let hi = self.restore(site, &[], &l.hi, None, When::Forward(0))?;
        let inside = self.in_place(n, body, &inside);
        let r = &self.revolves[n];
        if !r.is_used {
            let again = Loop { lo, hi, body: inside, ..l.clone() };
            return Ok(Some(Stmt::new(StmtKind::Loop(again), site.places.clone())));
        }
        let outer: Vec<Arc<Buffer>> = r.of.states.iter().map(|s| s.outer.clone()).collect();
        let (at, top, here) = (r.cells.at.clone(), r.cells.top.clone(), r.cells.here.clone());
        let trips = trips(l, lo.clone(), hi);
        let mut list = vec![
            self.set(cell(&top), index(0)),
            self.set(cell(&here), index(0)),
            self.set(element(&at, index(0)), index(0)),
        ];
        list.extend(self.taken(n, &outer, index(0)));
        let (name, sizes) = (format!("{}.trips", l.binder.name), trips);
        let end = self.func.fresh_var(name, Scalar::Index);
        let steps = Steps::of(l, lo);
        list.push(self.advance(n, &steps, &inside, &outer, var(&end), sub(var(&end), index(1))));
        Ok(Some(Stmt::of(StmtKind::Let { binder: end, value: sizes, body: Stmt::seq(list) })))
    }

    /// An iteration of the first sweep, on the arrays that are carried themselves.
    fn in_place(&self, n: usize, body: &Scope, inside: &Stmt) -> Stmt {
        let in_place = self.revolves[n].of.states.iter().map(|s| (s.inner.id, s.outer.id)).collect();
        let inside = without_copies(&renamed(inside, &in_place));
        let used = touched(&inside);
        let mine = body.buffers.iter().filter(|b| used.contains(&b.id)).cloned().collect::<Vec<_>>();
        allocated(mine, inside)
    }

    /// The first sweep over a `while`, with the snapshots that there are when it ends.
    pub fn first_until(
        &mut self,
        n: usize,
        site: &Rc<Site>,
        cond: &Expr,
        body: &Scope,
        trips: &Trips,
    ) -> Result<Option<Stmt>, Diagnostic> {
        let Some(inside) = self.run(&body.body, 0)? else { return Ok(None) };
        let inside = self.run_numbered(body.id, 0, inside);
        self.volatile.insert(site.id);
        let cond = self.restore(site, &[], cond, None, When::Forward(0))?;
        let inside = self.in_place(n, body, &inside);
        let r = &self.revolves[n];
        let until = |body| Stmt::new(StmtKind::While { cond, body }, site.places.clone());
        if !r.is_used {
            return Ok(Some(until(inside)));
        }
        let states: Vec<Arc<Buffer>> = r.of.states.iter().map(|s| s.outer.clone()).collect();
        let (at, top, snapshots) = (r.cells.at.clone(), r.cells.top.clone(), r.snapshots);
        let place = r.cells.online.as_ref().map(|o| o.place.clone());
        self.needs.extend(trips.cell.view.buffer().map(|b| (0, b)));
        let mut list = vec![self.set(cell(&top), index(0)), self.set(element(&at, index(0)), index(0))];
        if let Some(place) = place {
            let p = self.func.fresh_var("p", Scalar::Index);
            let each = self.set(element(&place, var(&p)), var(&p));
            list.push(serial(p, index(0), index(snapshots), each));
        }
        list.extend(self.taken(n, &states, index(0)));
        let keep = self.keep_another(n, &states, load(trips.cell.clone()));
        list.push(until(Stmt::seq(keep.into_iter().chain([inside]))));
        Ok(Some(Stmt::seq(list)))
    }

    /// The snapshot of an iteration of unknown many, in the place of another one if there is no free one.
    fn keep_another(&mut self, n: usize, states: &[Arc<Buffer>], number: Expr) -> Option<Stmt> {
        let r = &self.revolves[n];
        let last = r.snapshots - 1;
        let (at, top) = (r.cells.at.clone(), r.cells.top.clone());
        let Online { level, place, gone, high } = r.cells.online.as_ref()?;
        let [level, place, gone, high] = [level, place, gone, high].map(Arc::clone);
        if last < 1 {
            return None;
        }
        let when = |cond, then, other| Stmt::of(StmtKind::If { cond, then, other });
        let [back, from, k, moved] =
            ["back", "from", "k", "moved"].map(|what| self.func.fresh_var(what, Scalar::Index));
        // From the last but one to the second: the first one is always kept.
        let of = || load(element(&level, var(&from)));
        let found = and(eq(value(&gone), index(0)), lt(of(), value(&high)));
        let found = when(found, self.set(cell(&gone), var(&from)), None);
        let higher = self.set(cell(&high), max(value(&high), of()));
        let look = Stmt::seq([found, higher]);
        let here = sub(index(last - 1), var(&back));
        let look = Stmt::of(StmtKind::Let { binder: from, value: here, body: look });
        let look = serial(back, index(0), index(last - 1), look);
        // Those behind it move up, and the place becomes that of the new one.
        let up = [&at, &level, &place]
            .map(|a| self.set(element(a, var(&k)), load(element(a, add(var(&k), index(1))))));
        let moves = serial(k, value(&gone), index(last), Stmt::seq(up));
        let free = self.set(element(&place, index(last)), var(&moved));
        let again = self.set(element(&level, index(last)), index(0));
        let without = Stmt::of(StmtKind::Let {
            binder: moved,
            value: load(element(&place, value(&gone))),
            body: Stmt::seq([moves, free, again]),
        });
        let next = add(load(element(&level, index(last))), index(1));
        let next = self.set(element(&level, index(last)), next);
        let start =
            [self.set(cell(&gone), index(0)), self.set(cell(&high), load(element(&level, index(last))))];
        let full = when(lt(index(0), value(&gone)), without, Some(next));
        let full = Stmt::seq(start.into_iter().chain([look, full]));
        let more = Stmt::seq([
            self.set(cell(&top), add(value(&top), index(1))),
            self.set(element(&level, value(&top)), index(0)),
        ]);
        let room = when(lt(value(&top), index(last)), more, Some(full));
        let now = self.set(element(&at, value(&top)), number.clone());
        let taken = self.taken(n, states, value(&top));
        let body = Stmt::seq([room, now].into_iter().chain(taken));
        let s = when(lt(index(0), number), body, None);
        Some(refresh(&s, &mut self.func.next_id))
    }

    /// The reverse sweep over the loop.
    pub fn last_sweep(
        &mut self,
        n: usize,
        site: &Rc<Site>,
        l: &Loop,
        scope: &Scope,
    ) -> Result<Option<Stmt>, Diagnostic> {
        let Some(back) = self.back_scope(scope)? else { return Ok(None) };
        let back = self.numbered_back(scope.id, back);
        let lo = self.restore(site, &[], &l.lo, None, When::Back)?;
        let hi = self.restore(site, &[], &l.hi, None, When::Back)?;
        let all = trips(l, lo.clone(), hi);
        self.turned(n, site, scope, Steps::of(l, lo), all, &back).map(Some)
    }

    /// The reverse sweep over a `while`.
    pub fn last_until(
        &mut self,
        n: usize,
        site: &Rc<Site>,
        trips: &Trips,
        scope: &Scope,
    ) -> Result<Option<Stmt>, Diagnostic> {
        let Some(back) = self.back_scope(scope)? else { return Ok(None) };
        let back = self.numbered_back(scope.id, back);
        let all = self.restore(&trips.site, &[], &load(trips.cell.clone()), None, When::Back)?;
        let steps = Steps { name: "while".into(), var: None, lo: index(0), step: 1 };
        self.turned(n, site, scope, steps, all, &back).map(Some)
    }

    /// The iterations in reverse, each on the state that it began with.
    fn turned(
        &mut self,
        n: usize,
        site: &Rc<Site>,
        scope: &Scope,
        steps: Steps,
        all: Expr,
        back: &Stmt,
    ) -> Result<Stmt, Diagnostic> {
        let end = self.func.fresh_var(format!("{}.trips", steps.name), Scalar::Index);
        let done = self.func.fresh_var(&*steps.name, Scalar::Index);
        let e = self.func.fresh_var(format!("{}.last", steps.name), Scalar::Index);
        let used = touched(back);
        let is_needed = self.revolves[n].arrays.iter().any(|(now, _)| used.contains(&now.id));
        let restored = if is_needed { self.restored_state(n, &steps, scope, &var(&e))? } else { Vec::new() };
        let body = Stmt::seq(restored.into_iter().chain([steps.at(var(&e), back)]));
        let value = sub(sub(var(&end), index(1)), var(&done));
        let body = Stmt::of(StmtKind::Let { binder: e, value, body });
        let turned = serial(done, index(0), var(&end), body).with_places(site.places.clone());
        Ok(Stmt::of(StmtKind::Let { binder: end, value: all, body: turned }))
    }

    /// Brings the state at the beginning of iteration `e` about, and gives its snapshot free.
    fn restored_state(
        &mut self,
        n: usize,
        steps: &Steps,
        scope: &Scope,
        e: &Expr,
    ) -> Result<Vec<Stmt>, Diagnostic> {
        self.revolves[n].is_used = true;
        let outer: Vec<_> = self.revolves[n].of.states.iter().map(|s| (0, s.outer.id)).collect();
        self.needs.extend(outer);
        let again = self.again_once(n, scope)?;
        let r = &self.revolves[n];
        let (at, top, here) = (r.cells.at.clone(), r.cells.top.clone(), r.cells.here.clone());
        let now: Vec<Arc<Buffer>> = r.arrays.iter().map(|a| a.0.clone()).collect();
        let last = || load(element(&at, value(&top)));
        let mut list = vec![self.set(cell(&here), last())];
        list.extend(self.given(n, &now, value(&top)));
        list.push(self.advance(n, steps, &again, &now, e.clone(), e.clone()));
        let free = self.set(cell(&top), sub(value(&top), index(1)));
        let cond = and(eq(last(), e.clone()), lt(index(0), value(&top)));
        list.push(Stmt::of(StmtKind::If { cond, then: free, other: None }));
        Ok(list)
    }

    /// What of an iteration must run again for the state that it ends with, on the states that iterations begin with.
    fn again_once(&mut self, n: usize, scope: &Scope) -> Result<Stmt, Diagnostic> {
        let states = self.revolves[n].of.states.clone();
        // What the adjoints of the iteration need is another question.
        let others: Vec<_> = self.needs.iter().filter(|x| x.0 == scope.id).copied().collect();
        self.needs.retain(|x| x.0 != scope.id);
        self.needs.extend(states.iter().map(|s| (scope.id, s.inner.id)));
        let around = self.bare.replace(scope.id);
        let s = self.forward(scope)?.unwrap_or_else(Stmt::empty);
        self.bare = around;
        self.needs.retain(|x| x.0 != scope.id);
        self.needs.extend(others);
        let ends = self.revolves[n].arrays.iter().map(|a| a.0.clone()).collect::<Vec<_>>();
        let in_place = states.iter().zip(&ends).map(|(s, now)| (s.inner.id, now.id)).collect();
        let s = without_copies(&renamed(&s, &in_place));
        let used = touched(&s);
        Ok(allocated(scope.buffers.iter().filter(|b| used.contains(&b.id)).cloned().collect::<Vec<_>>(), s))
    }

    /// Runs iterations from `here` on until `limit`, and takes snapshots; `last` is the iteration that is reversed first.
    fn advance(
        &mut self,
        n: usize,
        steps_of: &Steps,
        inside: &Stmt,
        states: &[Arc<Buffer>],
        limit: Expr,
        last: Expr,
    ) -> Stmt {
        let r = &self.revolves[n];
        let snapshots = r.snapshots;
        let Cells { at, top, here, reach, rounds, .. } = &r.cells;
        let [at, top, here, reach, rounds] = [at, top, here, reach, rounds].map(Arc::clone);
        let name = steps_of.name.clone();
        let mut fresh = |what: &str| self.func.fresh_var(format!("{name}.{what}"), Scalar::Index);
        let [left, free, ahead, pass, from, k] =
            ["left", "free", "ahead", "pass", "from", "k"].map(&mut fresh);
        // β(s, r), the first that is enough, from β(s, r - 1).
        let together = || add(var(&free), value(&rounds));
        let more = Stmt::seq([
            self.set(cell(&rounds), add(value(&rounds), index(1))),
            self.set(cell(&reach), floor_div(mul(value(&reach), together()), max(value(&rounds), index(1)))),
        ]);
        let enough = StmtKind::While { cond: lt(value(&reach), var(&left)), body: more };
        let all = || max(together(), index(1));
        let rest = floor_div(mul(value(&reach), var(&free)), all());
        let before = floor_div(mul(value(&reach), value(&rounds)), all());
        let before =
            floor_div(mul(before, sub(value(&rounds), index(1))), max(sub(together(), index(1)), index(1)));
        let steps = max(max(sub(var(&left), rest), before), index(1));
        let steps = max(min(steps, sub(var(&left), index(1))), index(1));
        let body = steps_of.at(var(&k), inside);
        let run = serial(k, var(&from), add(var(&from), var(&ahead)), body);
        let push = [
            self.set(cell(&top), add(value(&top), index(1))),
            self.set(element(&at, value(&top)), value(&here)),
        ];
        let push = Stmt::seq(push.into_iter().chain(self.taken(n, states, value(&top))));
        let cond = and(lt(value(&here), limit.clone()), lt(value(&top), index(snapshots - 1)));
        let body = Stmt::seq([
            run,
            self.set(cell(&here), add(var(&from), var(&ahead))),
            Stmt::of(StmtKind::If { cond, then: push, other: None }),
        ]);
        let named = |binder, value, body| Stmt::of(StmtKind::Let { binder, value, body });
        let body = named(ahead, steps, body);
        let start = [self.set(cell(&reach), index(1)), self.set(cell(&rounds), index(0))];
        let body = Stmt::seq(start.into_iter().chain([Stmt::of(enough), body]));
        let body = named(free, sub(index(snapshots), value(&top)), body);
        let body = named(left, sub(add(last, index(1)), var(&from)), body);
        let body = named(from, value(&here), body);
        let then = Stmt::of(StmtKind::If { cond: lt(value(&here), limit), then: body, other: None });
        // Each pass takes a snapshot, or reaches the last iteration, or goes beyond it.
        let s = serial(pass, index(0), index(snapshots + 1), then);
        refresh(&s, &mut self.func.next_id)
    }

    /// States into a snapshot.
    fn taken(&mut self, n: usize, states: &[Arc<Buffer>], at: Expr) -> Vec<Stmt> {
        self.copies(n, states, at, true)
    }

    /// A snapshot into states.
    fn given(&mut self, n: usize, states: &[Arc<Buffer>], at: Expr) -> Vec<Stmt> {
        self.copies(n, states, at, false)
    }

    fn copies(&mut self, n: usize, states: &[Arc<Buffer>], at: Expr, keep: bool) -> Vec<Stmt> {
        let at = match &self.revolves[n].cells.online {
            Some(o) => load(element(&o.place, at)),
            None => at,
        };
        let all: Vec<_> =
            states.iter().cloned().zip(self.revolves[n].arrays.iter().map(|a| a.1.clone())).collect();
        all.into_iter()
            .map(|(state, kept)| {
                // A copy of the state's shape, one of whose sides is a part of the snapshots.
                let like = copy_array(&state, &state, &mut self.func);
                let label = self.label(&Label::new(&*kept.name), if keep { "take" } else { "restore" });
                let part = |a: &Access| {
                    let indices = [at.clone()].into_iter().chain(a.indices.iter().cloned()).collect();
                    Access::buffer(kept.id, kept.elem.clone(), indices)
                };
                let (dims, target) = match (like.as_compute(), like.as_store()) {
                    (Some(c), _) => (c.dims.clone(), c.targets[0].clone()),
                    (_, Some(s)) => (Vec::new(), s.target.clone()),
                    _ => (Vec::new(), Access::buffer(state.id, state.elem.clone(), Vec::new())),
                };
                let (to, from) = if keep { (part(&target), target) } else { (target.clone(), part(&target)) };
                fill(label.to_string(), dims, to, load(from))
            })
            .collect()
    }

    fn set(&mut self, target: Access, value: Expr) -> Stmt {
        let label = self.label(&Label::new("schedule"), "set");
        fill(label.to_string(), Vec::new(), target, value)
    }
}

/// How often a loop runs.
fn trips(l: &Loop, lo: Expr, hi: Expr) -> Expr {
    max(floor_div(add(sub(hi, lo), index(l.step - 1)), index(l.step)), index(0))
}

/// A loop over numbers.
fn serial(binder: Binder, lo: Expr, hi: Expr, body: Stmt) -> Stmt {
    Stmt::of(StmtKind::Loop(Loop { binder, lo, hi, step: 1, exec: Executor::Serial, body }))
}

/// The statement without copies of elements to themselves.
fn without_copies(s: &Stmt) -> Stmt {
    map_stmts(s, &mut |s| {
        let own = |target: &Access, value: &Expr| *value == load(target.clone());
        let same = s.as_compute().is_some_and(|c| own(&c.targets[0], &c.values[0]))
            || s.as_store().is_some_and(|s| own(&s.target, &s.value));
        if same { Stmt::empty() } else { s }
    })
}
