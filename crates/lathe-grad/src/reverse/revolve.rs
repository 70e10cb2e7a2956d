//! Checkpointed loops: the reverse sweep recomputes the state at the beginning of each iteration from a fixed number of
//! snapshots, which are placed so that the fewest iterations run again (binomial checkpointing; Griewank and Walther,
//! Algorithm 799: revolve, TOMS 26(1), 2000).
//!
//! With `s` snapshots and each iteration run forward at most `r` times before its reversal, `β(s, r) = C(s + r, s)` iterations can be
//! reversed. Snapshots lie on a stack: the state at the beginning of iteration `at[top]` is `kept[top]`. To reverse iteration
//! `e`, the state is taken from the top and advanced to `e`; on the way, snapshots that are free are taken where the
//! rest of the iterations can be reversed with those that are left. The first sweep does the same up to the end of the loop.

use super::Reverse;
use super::restore::When;
use crate::Kept;
use crate::arrays::{allocated, copy_array, fill, touched};
use crate::checkpoint::{Checkpointed, State, renamed};
use crate::node::{Scope, Site};
use lathe_diagnostics::Diagnostic;
use lathe_ir::build::{add, and, eq, floor_div, index, load, lt, max, min, mul, sub, var};
use lathe_ir::visit::{map_stmts, refresh, substitute_stmt};
use lathe_ir::{
    Access, BufId, Buffer, Executor, Expr, Label, Layout, Loop, Scalar, Space, Stmt, StmtKind, Type, VarId,
    View,
};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A checkpointed loop, and the arrays of its schedule.
pub struct Revolve {
    pub of: Checkpointed,
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
}

impl Revolve {
    fn owned(&self) -> Vec<Arc<Buffer>> {
        let Cells { at, top, here, reach, rounds } = &self.cells;
        let cells = [at, top, here, reach, rounds].into_iter().cloned();
        self.arrays.iter().flat_map(|(now, kept)| [now.clone(), kept.clone()]).chain(cells).collect()
    }
}

fn cell(b: &Arc<Buffer>) -> Access {
    Access::buffer(b.id, Type::INDEX, Vec::new())
}

fn value(b: &Arc<Buffer>) -> Expr {
    load(cell(b))
}

impl Reverse<'_> {
    pub fn revolve(&mut self, of: Checkpointed, name: &str, snapshots: i64) -> Revolve {
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
        let cells = Cells {
            at: one("at", vec![index(snapshots)]),
            top: one("top", Vec::new()),
            here: one("here", Vec::new()),
            reach: one("reach", Vec::new()),
            rounds: one("rounds", Vec::new()),
        };
        Revolve { of, arrays, cells, name: name.to_string(), snapshots, is_used: false }
    }

    /// The loop, if it is checkpointed.
    pub fn revolving(&self, time: VarId) -> Option<usize> {
        self.revolves.iter().position(|r| r.of.time == time)
    }

    /// Where the state that an iteration begins with is, when it is not the first sweep that asks.
    pub fn again(&self, site: &Site, a: &Access, when: When) -> Option<Access> {
        let id = a.view.buffer().filter(|_| when != When::Forward(0))?;
        let around = |v: VarId| site.loops.iter().any(|l| l.binder.id == v);
        self.revolves.iter().filter(|r| around(r.of.time)).find_map(|r| {
            let n = r.of.states.iter().position(|s| s.outer.id == id)?;
            Some(Access { view: View::Buffer(r.arrays[n].0.id), ..a.clone() })
        })
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
        let r = &self.revolves[n];
        let in_place = r.of.states.iter().map(|s| (s.inner.id, s.outer.id)).collect();
        let inside = without_copies(&renamed(&inside, &in_place));
        let used = touched(&inside);
        let mine = body.buffers.iter().filter(|b| used.contains(&b.id)).cloned().collect::<Vec<_>>();
        let inside = allocated(mine, inside);
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
            self.set(Access::buffer(at.id, Type::INDEX, vec![index(0)]), index(0)),
        ];
        list.extend(self.taken(n, &outer, index(0)));
        let (name, sizes) = (format!("{}.trips", l.binder.name), trips);
        let end = self.func.fresh_var(name, Scalar::Index);
        list.push(self.advance(n, l, lo, &inside, &outer, var(&end), sub(var(&end), index(1))));
        Ok(Some(Stmt::of(StmtKind::Let { binder: end, value: sizes, body: Stmt::seq(list) })))
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
        let end = self.func.fresh_var(format!("{}.trips", l.binder.name), Scalar::Index);
        let done = self.func.fresh_var(&*l.binder.name, Scalar::Index);
        let e = self.func.fresh_var(format!("{}.last", l.binder.name), Scalar::Index);
        let used = touched(&back);
        let is_needed = self.revolves[n].of.states.iter().any(|s| used.contains(&s.inner.id));
        let restored = if is_needed { self.restored_state(n, l, &lo, scope, &var(&e))? } else { Vec::new() };
        let body = Stmt::seq(restored.into_iter().chain([at_step(l, &lo, var(&e), &back)]));
        let value = sub(sub(var(&end), index(1)), var(&done));
        let body = Stmt::of(StmtKind::Let { binder: e, value, body });
        let turned =
            Loop { binder: done, lo: index(0), hi: var(&end), step: 1, exec: Executor::Serial, body };
        let turned = Stmt::new(StmtKind::Loop(turned), site.places.clone());
        let s = Stmt::of(StmtKind::Let { binder: end, value: all, body: turned });
        Ok(Some(s))
    }

    /// Brings the state at the beginning of iteration `e` about, and gives its snapshot free.
    fn restored_state(
        &mut self,
        n: usize,
        l: &Loop,
        lo: &Expr,
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
        let last = || load(Access::buffer(at.id, Type::INDEX, vec![value(&top)]));
        let mut list = vec![self.set(cell(&here), last())];
        list.extend(self.given(n, &now, value(&top)));
        list.push(self.advance(n, l, lo.clone(), &again, &now, e.clone(), e.clone()));
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
    #[allow(clippy::too_many_arguments)]
    fn advance(
        &mut self,
        n: usize,
        l: &Loop,
        lo: Expr,
        inside: &Stmt,
        states: &[Arc<Buffer>],
        limit: Expr,
        last: Expr,
    ) -> Stmt {
        let r = &self.revolves[n];
        let snapshots = r.snapshots;
        let Cells { at, top, here, reach, rounds } = &r.cells;
        let [at, top, here, reach, rounds] = [at, top, here, reach, rounds].map(Arc::clone);
        let name = l.binder.name.clone();
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
        let run = Loop {
            binder: k.clone(),
            lo: var(&from),
            hi: add(var(&from), var(&ahead)),
            step: 1,
            exec: Executor::Serial,
            body: at_step(l, &lo, var(&k), inside),
        };
        let push = [
            self.set(cell(&top), add(value(&top), index(1))),
            self.set(Access::buffer(at.id, Type::INDEX, vec![value(&top)]), value(&here)),
        ];
        let push = Stmt::seq(push.into_iter().chain(self.taken(n, states, value(&top))));
        let cond = and(lt(value(&here), limit.clone()), lt(value(&top), index(snapshots - 1)));
        let body = Stmt::seq([
            Stmt::of(StmtKind::Loop(run)),
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
        let passes = Loop {
            binder: pass,
            lo: index(0),
            hi: index(snapshots + 1),
            step: 1,
            exec: Executor::Serial,
            body: then,
        };
        let s = Stmt::of(StmtKind::Loop(passes));
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

/// What an iteration holds, in the iteration of a number.
fn at_step(l: &Loop, lo: &Expr, k: Expr, body: &Stmt) -> Stmt {
    let here = add(lo.clone(), mul(k, index(l.step)));
    substitute_stmt(body, &HashMap::from([(l.binder.id, here)]))
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
