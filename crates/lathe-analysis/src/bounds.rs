//! Bounds of accesses: every subscript of every access, for all sizes and iterations.

mod report;

use crate::checks::{self, Needed};
use crate::codes::{OUT_OF_BOUNDS, UNDECIDED};
use crate::env::{Env, Item};
use crate::leaves::{buffer_indices, written_buffers};
use crate::refusal::sizes_text;
use crate::solve::Answer;
use crate::text::expr_text;
use crate::view::Facts;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::build::{boolean, load, select};
use lathe_ir::visit::vars_of;
use lathe_ir::{
    Access, Binder, BufId, Buffer, Combine, Compute, Dim, Executor, Expr, ExprKind, Function, Loop, Module,
    Name, Reduce, Status, Stmt, StmtKind, Store, VarId, View,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Sets the status of every access: *proved* in bounds; *checked* where a guard of the code is needed
/// for that, or where a `check` statement, inserted before, establishes it (gathers, subscripts that depend
/// on scalar inputs, and others that are not affine); *assumed* where a fact of the user is needed. What is
/// none of these is an error with a counterexample.
///
/// An `assume` over sizes and scalar inputs alone, outside of loops and branches, costs one comparison a
/// call: it gets a `check` before it, and is no promise any more.
pub fn prove_accesses(module: &Module, func: &Function) -> (Function, Vec<Diagnostic>) {
    let written = written_buffers(&func.body);
    let env = Env::root(module, func);
    let mut prover = Prover {
        func: func.clone(),
        names: HashMap::new(),
        buffers: HashMap::new(),
        diagnostics: Vec::new(),
        loops: Vec::new(),
        provenance: Vec::new(),
        data: HashSet::new(),
        floating: Vec::new(),
        top: true,
        established: Vec::new(),
    };
    for b in func.params.iter().filter_map(|p| p.array()) {
        prover.buffers.insert(b.id, b.clone());
    }
    for item in &env.items {
        if let Item::Size(b) | Item::Scalar(b) = item {
            prover.names.insert(b.id, b.name.clone());
        }
        if let Item::Scalar(b) = item {
            prover.data.insert(b.id);
        }
    }
    let mut facts = Facts::new(&env, &written);
    let body = prover.stmt(&mut facts, &func.body);
    let body = checks::at_entry(func, std::mem::take(&mut prover.floating), body);
    if let Some(result) = &func.result {
        let mut checks = Vec::new();
        let result = prover.expr(&facts, result, &boolean(true), &mut HashMap::new(), &mut checks);
        prover.uncheckable(&checks, &Places::none());
        prover.func.result = Some(result);
    }
    prover.func.body = body;
    (prover.func, prover.diagnostics)
}

struct Prover {
    func: Function,
    names: HashMap<VarId, Name>,
    buffers: HashMap<BufId, Arc<Buffer>>,
    diagnostics: Vec<Diagnostic>,
    /// Loops around the current place, for counterexamples.
    loops: Vec<Binder>,
    /// Who stated the facts in force.
    provenance: Vec<Name>,
    /// Variables whose values scalar inputs decide: scalars, and what is computed from them.
    data: HashSet<VarId>,
    /// Checks that read no memory, on their way out of the loops around.
    floating: Vec<Needed>,
    /// What checks of the code said so far.
    established: Vec<Expr>,
    /// No loop and no condition is around the current place.
    top: bool,
}

type Memo = HashMap<usize, Expr>;

impl Prover {
    fn stmt(&mut self, facts: &mut Facts, s: &Stmt) -> Stmt {
        let mut checks = Vec::new();
        let always = boolean(true);
        let mut memo = Memo::new();
        let new = match s.kind() {
            StmtKind::Seq(list) => {
                let known = self.provenance.len();
                let mut inner = facts.clone();
                let out: Vec<Stmt> = list.iter().map(|c| self.stmt(&mut inner, c)).collect();
                self.provenance.truncate(known);
                return if out.iter().zip(list).all(|(a, b)| a.ptr_eq(b)) {
                    s.clone()
                } else {
                    Stmt::seq(out).with_places(s.places().clone())
                };
            }
            StmtKind::Let { binder, value, body } => {
                self.names.insert(binder.id, binder.name.clone());
                let value = self.expr(facts, value, &always, &mut memo, &mut checks);
                self.depends(binder, &[&value]);
                let mut inner = facts.clone();
                inner.bind(&Item::Let(binder, &value));
                let mark = self.floating.len();
                let body = self.stmt(&mut inner, body);
                let body = self.settle(mark, body, |n| n.outside_let(binder.id, &value));
                s.with_kind(StmtKind::Let { binder: binder.clone(), value, body })
            }
            StmtKind::Loop(l) => {
                self.names.insert(l.binder.id, l.binder.name.clone());
                let lo = self.expr(facts, &l.lo, &always, &mut memo, &mut checks);
                let hi = self.expr(facts, &l.hi, &always, &mut memo, &mut checks);
                let mut inner = facts.clone();
                inner.bind(&Item::Loop { binder: &l.binder, lo: &lo, hi: &hi, step: l.step, exec: &l.exec });
                self.depends(&l.binder, &[&lo, &hi]);
                self.loops.push(l.binder.clone());
                let mark = self.floating.len();
                let top = std::mem::replace(&mut self.top, false);
                let body = self.stmt(&mut inner, &l.body);
                self.top = top;
                self.loops.pop();
                let body = self.settle(mark, body, |n| n.outside_loop(l.binder.id, &lo, &hi, l.step));
                s.with_kind(StmtKind::Loop(Loop { lo, hi, body, ..l.clone() }))
            }
            StmtKind::If { cond, then, other } => {
                let cond = self.expr(facts, cond, &always, &mut memo, &mut checks);
                let then = self.branch(facts, &cond, true, then);
                let other = other.as_ref().map(|o| self.branch(facts, &cond, false, o));
                s.with_kind(StmtKind::If { cond, then, other })
            }
            StmtKind::While { cond, body } => {
                let cond = self.expr(facts, cond, &always, &mut memo, &mut checks);
                self.uncheckable(&checks, s.places());
                checks.clear();
                let body = self.branch(facts, &cond, true, body);
                s.with_kind(StmtKind::While { cond, body })
            }
            StmtKind::Alloc { buffer, body } => {
                self.buffers.insert(buffer.id, buffer.clone());
                let body = self.stmt(&mut facts.clone(), body);
                s.with_kind(StmtKind::Alloc { buffer: buffer.clone(), body })
            }
            StmtKind::Store(st) => {
                let value = self.expr(facts, &st.value, &always, &mut memo, &mut checks);
                let target = self.access(facts, &st.target, &always, &mut memo, &mut checks);
                s.with_kind(StmtKind::Store(Store { target, value, ..st.clone() }))
            }
            StmtKind::Reduce(r) => {
                let values =
                    r.values.iter().map(|v| self.expr(facts, v, &always, &mut memo, &mut checks)).collect();
                let targets = r
                    .targets
                    .iter()
                    .map(|t| self.access(facts, t, &always, &mut memo, &mut checks))
                    .collect();
                s.with_kind(StmtKind::Reduce(Reduce { targets, values, ..r.clone() }))
            }
            StmtKind::Atomic(a) => {
                let op = a.op.map_exprs(&mut |e| self.expr(facts, e, &always, &mut memo, &mut checks));
                let target = self.access(facts, &a.target, &always, &mut memo, &mut checks);
                let mut inner = facts.clone();
                if let Some(old) = &a.old {
                    self.names.insert(old.id, old.name.clone());
                    inner.bind(&Item::Opaque(old));
                }
                let mark = self.floating.len();
                let body = self.stmt(&mut inner, &a.body);
                let body = self.settle(mark, body, |_| None);
                s.with_kind(StmtKind::Atomic(lathe_ir::stmt::Atomic { target, op, body, ..a.clone() }))
            }
            StmtKind::Compute(c) => {
                let (compute, guards) = self.compute(facts, c, s.places());
                let new = if compute == *c { s.clone() } else { s.with_kind(StmtKind::Compute(compute)) };
                return Stmt::seq(guards.into_iter().chain([new]));
            }
            StmtKind::Check { cond, code, message } => {
                let cond = self.expr(facts, cond, &always, &mut memo, &mut checks);
                facts.guard(&cond, true);
                self.established.push(cond.clone());
                s.with_kind(StmtKind::Check { cond, code: code.clone(), message: message.clone() })
            }
            StmtKind::Assume { fact, provenance } => {
                if self.top && checks::is_pure(fact) {
                    facts.guard(fact, true);
                    if self.established.contains(fact) {
                        return s.clone();
                    }
                    return Stmt::seq([checks::of_assumption(fact, provenance, s.places()), s.clone()]);
                }
                // Its loads get their status, too, so that they are the same expressions as in what follows.
                let fact = self.expr(facts, fact, &always, &mut memo, &mut checks);
                facts.assume(&fact);
                self.provenance.push(provenance.clone());
                s.with_kind(StmtKind::Assume { fact, provenance: provenance.clone() })
            }
            StmtKind::Token { body, .. } | StmtKind::Async { body, .. } => {
                let mut inner = facts.clone();
                let mark = self.floating.len();
                let body = self.stmt(&mut inner, body);
                let body = self.settle(mark, body, |_| None);
                s.with_child(0, body)
            }
            StmtKind::Call { function, args } => {
                let args = args
                    .iter()
                    .map(|a| match a {
                        lathe_ir::Arg::Value(e) => {
                            lathe_ir::Arg::Value(self.expr(facts, e, &always, &mut memo, &mut checks))
                        }
                        view => view.clone(),
                    })
                    .collect();
                s.with_kind(StmtKind::Call { function: function.clone(), args })
            }
            StmtKind::Barrier { .. } | StmtKind::Wait { .. } | StmtKind::Prefetch(_) => return s.clone(),
        };
        let new = if new == *s { s.clone() } else { new };
        if checks.is_empty() {
            return new;
        }
        let mut guards = Vec::new();
        for needed in checks {
            let needed = needed.at(s.places());
            facts.guard(&needed.cond(), true);
            if needed.is_pure() {
                self.float(needed);
            } else {
                guards.push(needed.stmt());
            }
        }
        Stmt::seq(guards.into_iter().chain([new]))
    }

    /// A part that is reached only where a condition has the given value.
    fn branch(&mut self, facts: &Facts, cond: &Expr, holds: bool, s: &Stmt) -> Stmt {
        let mut inner = facts.clone();
        inner.guard(cond, holds);
        let mark = self.floating.len();
        let top = std::mem::replace(&mut self.top, false);
        let new = self.stmt(&mut inner, s);
        self.top = top;
        self.settle(mark, new, |_| None)
    }

    /// Takes the checks that floated out of a body further out where `outside` says how; the others stand
    /// before the body.
    fn settle(&mut self, mark: usize, body: Stmt, outside: impl Fn(&Needed) -> Option<Needed>) -> Stmt {
        let mut here = Vec::new();
        for needed in self.floating.split_off(mark.min(self.floating.len())) {
            match outside(&needed) {
                Some(out) => self.float(out),
                None => here.push(needed.stmt()),
            }
        }
        if here.is_empty() { body } else { Stmt::seq(here.into_iter().chain([body])) }
    }

    fn float(&mut self, needed: Needed) {
        if !self.floating.iter().any(|n| n.same(&needed)) {
            self.floating.push(needed);
        }
    }

    /// Notes whether scalar inputs decide the value of a variable.
    fn depends(&mut self, binder: &Binder, on: &[&Expr]) {
        if on.iter().any(|e| self.is_data(e)) {
            self.data.insert(binder.id);
        }
    }

    fn is_data(&self, e: &Expr) -> bool {
        vars_of(e).iter().any(|v| self.data.contains(v))
    }

    /// A compute, and the loops of checks that go before it.
    fn compute(&mut self, facts: &Facts, c: &Compute, places: &Places) -> (Compute, Vec<Stmt>) {
        let always = boolean(true);
        let (mut cells, mut points) = (facts.clone(), facts.clone());
        let (mut cell_checks, mut checks) = (Vec::new(), Vec::new());
        let mut dims = Vec::with_capacity(c.dims.len());
        for d in &c.dims {
            self.names.insert(d.binder.id, d.binder.name.clone());
            self.depends(&d.binder, &[&d.lo, &d.hi]);
            let mut memo = Memo::new();
            let lo = self.expr(&points, &d.lo, &always, &mut memo, &mut cell_checks);
            let hi = self.expr(&points, &d.hi, &always, &mut memo, &mut cell_checks);
            self.uncheckable(&cell_checks, places);
            cell_checks.clear();
            let item = Item::Loop { binder: &d.binder, lo: &lo, hi: &hi, step: 1, exec: &Executor::Serial };
            points.bind(&item);
            // A cell is written even if nothing is reduced into it.
            if !matches!(d.combine, Combine::Reduce(_)) {
                cells.bind(&item);
            }
            dims.push(lathe_ir::Dim { lo, hi, ..d.clone() });
        }
        self.loops.extend(c.dims.iter().map(|d| d.binder.clone()));
        let guard = c.guard.as_ref().map(|g| self.expr(&points, g, &always, &mut Memo::new(), &mut checks));
        let under = guard.clone().unwrap_or(always);
        if let Some(g) = &guard {
            points.guard(g, true);
        }
        let mut memo = Memo::new();
        let values = c.values.iter().map(|v| self.expr(&points, v, &under, &mut memo, &mut checks)).collect();
        let reduced = c.dims.iter().any(|d| matches!(d.combine, Combine::Reduce(_)));
        let targets = c
            .targets
            .iter()
            .map(|t| {
                if reduced {
                    self.access(&cells, t, &boolean(true), &mut Memo::new(), &mut cell_checks)
                } else {
                    self.access(&points, t, &under, &mut Memo::new(), &mut cell_checks)
                }
            })
            .collect();
        self.loops.truncate(self.loops.len() - c.dims.len());
        let compute = Compute { dims, targets, values, guard, ..c.clone() };
        // Checks over the same dimensions share their loops.
        let mut nests: Vec<(Vec<&Dim>, Vec<Stmt>)> = Vec::new();
        for (needed, cells) in [(cell_checks, reduced), (checks, false)] {
            let dims: Vec<&Dim> =
                compute.dims.iter().filter(|d| !(cells && matches!(d.combine, Combine::Reduce(_)))).collect();
            for n in needed {
                let (n, dims) = n.at(places).outside_dims(&dims);
                if dims.is_empty() && n.is_pure() {
                    self.float(n);
                } else if let Some(last) = nests.last_mut().filter(|last| last.0 == dims) {
                    last.1.push(n.stmt());
                } else {
                    nests.push((dims, vec![n.stmt()]));
                }
            }
        }
        let out: Vec<Stmt> = nests
            .into_iter()
            .map(|(dims, list)| checks::loops_over(&mut self.func, &dims, Stmt::seq(list)))
            .collect();
        (compute, out)
    }

    /// Proves the loads of an expression; `under` is the condition under which it is evaluated.
    fn expr(
        &mut self,
        facts: &Facts,
        e: &Expr,
        under: &Expr,
        memo: &mut Memo,
        out: &mut Vec<Needed>,
    ) -> Expr {
        if e.children().is_empty() && !matches!(e.kind(), ExprKind::Load(_)) {
            return e.clone();
        }
        if let Some(done) = memo.get(&e.address()) {
            return done.clone();
        }
        let new = match e.kind() {
            ExprKind::Load(a) => {
                let proved = self.access(facts, a, under, memo, out);
                if proved == *a { e.clone() } else { load(proved) }
            }
            ExprKind::Select(c, a, b) => {
                let cond = self.expr(facts, c, under, memo, out);
                let mut branch = |e: &Expr, holds: bool| {
                    let mut inner = facts.clone();
                    inner.guard(&cond, holds);
                    let c = if holds { cond.clone() } else { lathe_ir::build::not(cond.clone()) };
                    self.expr(&inner, e, &select(under.clone(), c, boolean(false)), &mut Memo::new(), out)
                };
                let (x, y) = (branch(a, true), branch(b, false));
                select(cond, x, y)
            }
            _ => {
                let old = e.children();
                let new: Vec<Expr> = old.iter().map(|c| self.expr(facts, c, under, memo, out)).collect();
                if old.iter().zip(&new).all(|(a, b)| a.address() == b.address()) {
                    e.clone()
                } else {
                    e.with_children(new)
                }
            }
        };
        memo.insert(e.address(), new.clone());
        new
    }

    fn access(
        &mut self,
        facts: &Facts,
        a: &Access,
        under: &Expr,
        memo: &mut Memo,
        out: &mut Vec<Needed>,
    ) -> Access {
        let inner = a.exprs().into_iter().map(|e| self.expr(facts, e, under, memo, out)).collect();
        let a = a.with_exprs(inner);
        if matches!(a.status, Status::Assumed(_)) {
            return a;
        }
        let Some(dims) = self.dimensions(&a) else {
            self.diagnostics.push(
                Diagnostic::error(UNDECIDED, format!("`{}` cannot be shown to be in bounds", self.text(&a)))
                    .at_places(&a.places, "accessed here")
                    .help("only arrays and slices of arrays are followed"),
            );
            return a;
        };
        let mut status = Status::Proved;
        for (subscript, extent) in dims {
            status = weaker(status, self.subscript(facts, &a, (&subscript, &extent), under, out));
        }
        Access { status, ..a }
    }

    /// Subscripts of the underlying buffer with the extents they must stay below.
    fn dimensions(&self, a: &Access) -> Option<Vec<(Expr, Expr)>> {
        let extents = match &a.view {
            View::Reshape { base, extents } => {
                // Each subscript within the extents; the product fits by the view's own obligation.
                let View::Buffer(_) = **base else { return None };
                return Some(a.indices.iter().cloned().zip(extents.iter().cloned()).collect());
            }
            view => self.buffers.get(&view.buffer()?)?.extents.clone(),
        };
        let indices = buffer_indices(&a.view, &a.indices)?;
        Some(indices.into_iter().zip(extents).collect())
    }

    fn subscript(
        &mut self,
        facts: &Facts,
        a: &Access,
        (subscript, extent): (&Expr, &Expr),
        under: &Expr,
        out: &mut Vec<Needed>,
    ) -> Status {
        let found = facts.outside(subscript, extent);
        let Some(counter) = &found.counterexample else {
            return match found.tier {
                0 => Status::Proved,
                1 => Status::Checked,
                _ => {
                    let mut who: Vec<&str> = self.provenance.iter().map(|p| &**p).collect();
                    who.dedup();
                    Status::Assumed(who.join(", ").into())
                }
            };
        };
        match counter {
            // What an input decides is looked at when it is known.
            Answer::Point(point) if found.exact && !self.is_data(subscript) && !self.is_data(extent) => {
                self.out_of_bounds(facts, a, (subscript, extent), point, &found);
                Status::Unproved
            }
            _ => {
                let needed = Needed::new(under, subscript, extent, self.text(a));
                if !out.iter().any(|n| n.same(&needed)) {
                    out.push(needed);
                }
                Status::Checked
            }
        }
    }
}

/// The status of an access from those of its subscripts.
fn weaker(a: Status, b: Status) -> Status {
    let rank = |s: &Status| match s {
        Status::Proved => 0,
        Status::Checked => 1,
        Status::Assumed(_) => 2,
        Status::Unproved => 3,
    };
    if rank(&a) >= rank(&b) { a } else { b }
}

/// Buffers that are written, for a whole function.
pub(crate) type Written = HashSet<BufId>;
