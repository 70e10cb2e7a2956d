//! Preconditions of the code: every subscript in bounds, every `index` operation within 64 bits,
//! every stated fact true; for all sizes, data and iterations.

mod access;
mod fold;
mod report;

use crate::checks::{self, Needed};
use crate::codes::{OUT_OF_BOUNDS, UNDECIDED};
use crate::env::{Env, Item};
use crate::leaves::{buffer_indices, written_buffers};
use crate::refusal::sizes_text;
use crate::solve::Answer;
use crate::text::expr_text;
use crate::view::Facts;
use lathe_diagnostics::{Diagnostic, Places, Severity};
use lathe_ir::build::{boolean, index, load, max, min, not, select};
use lathe_ir::stmt::Atomic;
use lathe_ir::visit::{self, vars_of};
use lathe_ir::{
    Access, Arg, Binder, BufId, Buffer, Combine, Compute, Dim, Executor, Expr, ExprKind, Function, Loop,
    Module, Name, Reduce, Status, Stmt, StmtKind, Store, VarId, View,
};
use lathe_poly::Ranges;
use lathe_poly::ranges::Mark;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What becomes of the facts that the user stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assumptions {
    /// Each is checked where it is, or once outside of the loops around.
    #[default]
    Checked,
    /// Those that cost more than one comparison per call are trusted.
    Trusted,
}

/// Sets the status of every access: *proved* in bounds; *checked* where a guard of the code is needed
/// for that, or where a `check` statement, inserted before, establishes it (gathers, subscripts that depend
/// on scalar inputs, and others that are not affine); *assumed* where a fact of the user is needed. What is
/// none of these is an error with a counterexample.
///
/// `index` arithmetic that is not known to have a value gets a `check` before it, too: from here on no operation on
/// `index` that is evaluated overflows 64 bits or divides by 0.
pub fn prove_accesses(
    module: &Module,
    func: &Function,
    assumptions: Assumptions,
) -> (Function, Vec<Diagnostic>) {
    prove(module, func, assumptions, false)
}

/// As [`prove_accesses`] for a translation whose accesses are in bounds by the types of the program: those that are
/// proved stay so, and only the `index` arithmetic is looked at.
///
/// # Errors
/// What cannot be checked.
pub fn prove_arithmetic(module: &Module, func: &Function) -> Result<Function, Vec<Diagnostic>> {
    let (func, diagnostics) = prove(module, func, Assumptions::Checked, true);
    match diagnostics.iter().any(|d| d.severity == Severity::Error) {
        true => Err(diagnostics),
        false => Ok(func),
    }
}

fn prove(
    module: &Module,
    func: &Function,
    assumptions: Assumptions,
    typed: bool,
) -> (Function, Vec<Diagnostic>) {
    let written = written_buffers(&func.body);
    let env = Env::root(module, func);
    let ranges = Ranges::of_function(func);
    let mut prover = Prover {
        module: Module { ops: module.ops.clone(), globals: module.globals.clone(), ..Module::default() },
        func: func.clone(),
        assumptions,
        typed,
        names: HashMap::new(),
        buffers: HashMap::new(),
        diagnostics: Vec::new(),
        loops: Vec::new(),
        provenance: Vec::new(),
        data: HashSet::new(),
        floating: Vec::new(),
        top: true,
        established: Vec::new(),
        everywhere: ranges.clone(),
        ranges,
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
    let body = crate::within_work(WORK, || prover.stmt(&mut facts, &func.body));
    let body = prover.settle(0, body, |_, _| None);
    if let Some(result) = &func.result {
        let mut checks = Vec::new();
        let result = prover.evaluated(&facts, result, &boolean(true), &mut Memo::default(), &mut checks);
        prover.uncheckable(&checks, &Places::none());
        prover.func.result = Some(result);
    }
    prover.func.body = body;
    (prover.func, prover.diagnostics)
}

struct Prover {
    /// The operators of users, and the globals.
    module: Module,
    func: Function,
    assumptions: Assumptions,
    /// Accesses that are proved already are not looked at.
    typed: bool,
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
    /// What is known at the current place.
    ranges: Ranges,
    /// What is known of variables wherever they are in scope.
    everywhere: Ranges,
}

/// What proving all accesses of a function may take ([`crate::within_work`]): what is not proved is checked.
const WORK: u64 = 160_000_000;

type Memo = visit::Memo<Expr>;

impl Prover {
    /// Trees nest deeply in sequences and allocations, so that these have small frames of their own.
    fn stmt(&mut self, facts: &mut Facts, s: &Stmt) -> Stmt {
        if let Some(list) = s.as_seq() {
            return self.sequence(facts, s, list);
        }
        match s.as_alloc() {
            Some((buffer, body)) => self.allocation(facts, s, buffer, body),
            None => self.other(facts, s),
        }
    }

    #[inline(never)]
    fn sequence(&mut self, facts: &Facts, s: &Stmt, list: &[Stmt]) -> Stmt {
        let before = self.ranges.mark();
        let known = self.provenance.len();
        let mut inner = facts.clone();
        let mut out = Vec::with_capacity(list.len());
        for c in list {
            out.push(self.stmt(&mut inner, c));
        }
        self.provenance.truncate(known);
        self.ranges.leave(before);
        if out.iter().zip(list).all(|(a, b)| a.ptr_eq(b)) {
            s.clone()
        } else {
            Stmt::seq(out).with_places(s.places().clone())
        }
    }

    #[inline(never)]
    fn allocation(&mut self, facts: &mut Facts, s: &Stmt, buffer: &Arc<Buffer>, body: &Stmt) -> Stmt {
        let before = self.ranges.mark();
        let (buffer, checks) = self.allocated(facts, buffer);
        let mut inner = facts.clone();
        let body = self.inside(|r| r.enter_alloc(&buffer), |p| p.stmt(&mut inner, body));
        self.guarded(facts, s, s.with_kind(StmtKind::Alloc { buffer, body }), checks, before)
    }

    #[inline(never)]
    fn allocated(&mut self, facts: &Facts, buffer: &Arc<Buffer>) -> (Arc<Buffer>, Vec<Needed>) {
        let (always, mut memo, mut checks) = (boolean(true), Memo::default(), Vec::new());
        let extents: Vec<Expr> = buffer
            .extents
            .iter()
            .map(|e| self.evaluated(facts, e, &always, &mut memo, &mut checks))
            .collect();
        let buffer = if extents == buffer.extents {
            buffer.clone()
        } else {
            Arc::new(Buffer { extents, ..(**buffer).clone() })
        };
        self.buffers.insert(buffer.id, buffer.clone());
        (buffer, checks)
    }

    /// The statement after the checks that it needs, except those that are hoisted further out.
    #[inline(never)]
    fn guarded(&mut self, facts: &mut Facts, s: &Stmt, new: Stmt, checks: Vec<Needed>, before: Mark) -> Stmt {
        let new = if new == *s { s.clone() } else { new };
        let mut guards = Vec::new();
        for needed in checks {
            let needed = needed.at(s.places());
            self.guard(facts, &needed.cond(&self.everywhere));
            if needed.is_pure() && !matches!(s.kind(), StmtKind::While { .. }) {
                self.float(needed);
            } else {
                guards.push(needed.stmt(&self.everywhere));
            }
        }
        self.ranges.pass(before);
        if guards.is_empty() { new } else { Stmt::seq(guards.into_iter().chain([new])) }
    }

    #[inline(never)]
    fn other(&mut self, facts: &mut Facts, s: &Stmt) -> Stmt {
        let before = self.ranges.mark();
        let mut checks = Vec::new();
        let always = boolean(true);
        let mut memo = Memo::default();
        macro_rules! evaluated {
            ($e:expr) => {
                self.evaluated(facts, $e, &always, &mut memo, &mut checks)
            };
        }
        macro_rules! access {
            ($a:expr) => {
                self.access(facts, $a, &always, &mut memo, &mut checks)
            };
        }
        let new = match s.kind() {
            StmtKind::Seq(_) | StmtKind::Alloc { .. } => return self.stmt(facts, s),
            StmtKind::Let { binder, value, body } => {
                self.names.insert(binder.id, binder.name.clone());
                let value = evaluated!(value);
                self.depends(binder, &[&value]);
                self.everywhere.enter_let(binder.id, &value);
                let mut inner = facts.clone();
                inner.bind(&Item::Let(binder, &value));
                let mark = self.floating.len();
                let body = self.inside(|r| r.enter_let(binder.id, &value), |p| p.stmt(&mut inner, body));
                let body = self.settle(mark, body, |n, _| n.outside_let(binder.id, &value));
                s.with_kind(StmtKind::Let { binder: binder.clone(), value, body })
            }
            StmtKind::Loop(l) => {
                self.names.insert(l.binder.id, l.binder.name.clone());
                let (lo, hi) = (evaluated!(&l.lo), evaluated!(&l.hi));
                let mut inner = facts.clone();
                inner.bind(&Item::Loop { binder: &l.binder, lo: &lo, hi: &hi, step: l.step, exec: &l.exec });
                self.depends(&l.binder, &[&lo, &hi]);
                self.everywhere.know_loop(l.binder.id, &lo, &hi);
                self.loops.push(l.binder.clone());
                let mark = self.floating.len();
                let top = std::mem::replace(&mut self.top, false);
                let enter = |r: &mut Ranges| r.enter_loop(l.binder.id, &lo, &hi);
                let body = self.inside(enter, |p| p.stmt(&mut inner, &l.body));
                self.top = top;
                self.loops.pop();
                let range = (&lo, &hi, l.step);
                let within = self.within(mark, l.binder.id, range);
                let body = self.settle(mark, body, |n, r| n.outside_loop(l.binder.id, range, r));
                // What reads the data that is the range stays directly before the loop.
                let (pure, here): (Vec<_>, Vec<_>) =
                    self.floating.drain(mark.min(self.floating.len())..).partition(Needed::is_pure);
                self.floating.extend(pure);
                checks.extend(here);
                let (lo, hi) = within.unwrap_or((lo, hi));
                s.with_kind(StmtKind::Loop(Loop { lo, hi, body, ..l.clone() }))
            }
            StmtKind::If { cond, then, other } => {
                let cond = evaluated!(cond);
                let then = self.branch(facts, &cond, true, then);
                let other = other.as_ref().map(|o| self.branch(facts, &cond, false, o));
                s.with_kind(StmtKind::If { cond, then, other })
            }
            StmtKind::While { cond, body } => {
                let cond = evaluated!(cond);
                let body = self.branch(facts, &cond, true, body);
                // What the condition needs is looked at before each time that it is evaluated.
                let again: Vec<Stmt> =
                    checks.iter().map(|n| n.clone().at(s.places()).stmt(&self.everywhere)).collect();
                let body = if again.is_empty() { body } else { Stmt::seq([body].into_iter().chain(again)) };
                s.with_kind(StmtKind::While { cond, body })
            }
            StmtKind::Store(st) => {
                let value = evaluated!(&st.value);
                let target = access!(&st.target);
                s.with_kind(StmtKind::Store(Store { target, value, ..st.clone() }))
            }
            StmtKind::Reduce(r) => {
                let values = r.values.iter().map(|v| evaluated!(v)).collect();
                let targets = r.targets.iter().map(|t| access!(t)).collect();
                let mut new = Reduce { targets, values, ..r.clone() };
                new.licence &= !self.accumulation(&new, &mut checks);
                s.with_kind(StmtKind::Reduce(new))
            }
            StmtKind::Atomic(a) => {
                let op = a.op.map_exprs(&mut |e| evaluated!(e));
                let target = access!(&a.target);
                self.atomic(&Atomic { target: target.clone(), op: op.clone(), ..a.clone() });
                let mut inner = facts.clone();
                if let Some(old) = &a.old {
                    self.names.insert(old.id, old.name.clone());
                    inner.bind(&Item::Opaque(old));
                }
                let mark = self.floating.len();
                let body = self.inside(|_| {}, |p| p.stmt(&mut inner, &a.body));
                let body = self.settle(mark, body, |_, _| None);
                s.with_kind(StmtKind::Atomic(Atomic { target, op, body, ..a.clone() }))
            }
            StmtKind::Compute(c) => {
                let (compute, guards) = self.compute(facts, c, s.places());
                let new = match self.folded(&compute, s.places()) {
                    Some(loops) => loops,
                    None if compute == *c => s.clone(),
                    None => s.with_kind(StmtKind::Compute(compute)),
                };
                self.ranges.pass(before);
                return Stmt::seq(guards.into_iter().chain([new]));
            }
            StmtKind::Check { cond, code, message } => {
                let cond = evaluated!(cond);
                self.guard(facts, &cond);
                self.established.push(cond.clone());
                s.with_kind(StmtKind::Check { cond, code: code.clone(), message: message.clone() })
            }
            StmtKind::Assume { fact, provenance } => {
                // Its loads get their status, so that they are the same expressions as in what follows.
                let fact = evaluated!(fact);
                let stated = StmtKind::Assume { fact: fact.clone(), provenance: provenance.clone() };
                let cheap = self.top && checks::is_pure(&fact);
                if cheap && self.established.contains(&fact) {
                    self.guard(facts, &fact);
                } else if cheap || self.assumptions == Assumptions::Checked {
                    checks.push(Needed::assumption(&fact, provenance));
                } else {
                    facts.assume(&fact);
                    self.provenance.push(provenance.clone());
                }
                s.with_kind(stated)
            }
            StmtKind::Token { body, .. } | StmtKind::Async { body, .. } => {
                let mut inner = facts.clone();
                let mark = self.floating.len();
                let body = self.inside(|_| {}, |p| p.stmt(&mut inner, body));
                let body = self.settle(mark, body, |_, _| None);
                s.with_child(0, body)
            }
            StmtKind::Call { function, args } => {
                let args = args
                    .iter()
                    .map(|a| match a {
                        Arg::Value(e) => Arg::Value(evaluated!(e)),
                        view => view.clone(),
                    })
                    .collect();
                s.with_kind(StmtKind::Call { function: function.clone(), args })
            }
            StmtKind::Barrier { .. } | StmtKind::Wait { .. } | StmtKind::Prefetch(_) => return s.clone(),
        };
        self.guarded(facts, s, new, checks, before)
    }

    /// Uses a condition that holds from here on.
    fn guard(&mut self, facts: &mut Facts, cond: &Expr) {
        facts.guard(cond, true);
        self.ranges.assume(cond);
    }

    /// Something that happens inside of a statement.
    fn inside<T>(&mut self, enter: impl FnOnce(&mut Ranges), f: impl FnOnce(&mut Prover) -> T) -> T {
        let mark = self.ranges.deeper();
        enter(&mut self.ranges);
        let out = f(self);
        self.ranges.leave(mark);
        out
    }

    /// A part that is reached only where a condition has the given value.
    fn branch(&mut self, facts: &Facts, cond: &Expr, holds: bool, s: &Stmt) -> Stmt {
        let mut inner = facts.clone();
        inner.guard(cond, holds);
        let mark = self.floating.len();
        let top = std::mem::replace(&mut self.top, false);
        let enter = |r: &mut Ranges| {
            r.learn(cond, holds);
        };
        let new = self.inside(enter, |p| p.stmt(&mut inner, s));
        self.top = top;
        self.settle(mark, new, |_, _| None)
    }

    /// Hoists the checks of a body further out where `outside` says how; the others are
    /// placed before the body.
    fn settle(
        &mut self,
        mark: usize,
        body: Stmt,
        outside: impl Fn(&Needed, &Ranges) -> Option<Needed>,
    ) -> Stmt {
        let mut here = Vec::new();
        for needed in self.floating.split_off(mark.min(self.floating.len())) {
            match outside(&needed, &self.everywhere) {
                Some(out) => self.float(out),
                None => here.push(needed.stmt(&self.everywhere)),
            }
        }
        if here.is_empty() { body } else { Stmt::seq(here.into_iter().chain([body])) }
    }

    /// The range of a loop, if it is data and a check is about to say that the loop's variable is a subscript: within the
    /// extent, which changes nothing where the check holds, and bounds what steps compute from the range.
    fn within(&self, mark: usize, v: VarId, (lo, hi, step): (&Expr, &Expr, i64)) -> Option<(Expr, Expr)> {
        if step != 1 || (checks::is_pure(lo) && checks::is_pure(hi)) {
            return None;
        }
        let extent = self.floating.get(mark..)?.iter().find_map(|n| n.subscript(v))?;
        let end = |e: &Expr| min(max(index(0), e.clone()), extent.clone());
        checks::is_pure(extent).then(|| (end(lo), end(hi)))
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
    fn compute(&mut self, facts: &mut Facts, c: &Compute, places: &Places) -> (Compute, Vec<Stmt>) {
        let mark = self.ranges.deeper();
        let always = boolean(true);
        let (mut cells, mut points) = (facts.clone(), facts.clone());
        // What is needed, and how many dimensions it may be about; of reduced ones only where a point is.
        let mut needed: Vec<(Needed, usize, bool)> = Vec::new();
        let mut note = |list: &mut Vec<Needed>, dims: usize, cells: bool| {
            needed.extend(list.drain(..).map(|n| (n, dims, cells)));
        };
        let mut checks = Vec::new();
        let mut dims = Vec::with_capacity(c.dims.len());
        for (n, d) in c.dims.iter().enumerate() {
            self.names.insert(d.binder.id, d.binder.name.clone());
            self.depends(&d.binder, &[&d.lo, &d.hi]);
            let mut memo = Memo::default();
            let lo = self.evaluated(&points, &d.lo, &always, &mut memo, &mut checks);
            let hi = self.evaluated(&points, &d.hi, &always, &mut memo, &mut checks);
            note(&mut checks, n, false);
            let item = Item::Loop { binder: &d.binder, lo: &lo, hi: &hi, step: 1, exec: &Executor::Serial };
            points.bind(&item);
            // A cell is written even if nothing is reduced into it.
            if !matches!(d.combine, Combine::Reduce(_)) {
                cells.bind(&item);
            }
            self.ranges.enter_loop(d.binder.id, &lo, &hi);
            self.everywhere.know_loop(d.binder.id, &lo, &hi);
            dims.push(lathe_ir::Dim { lo, hi, ..d.clone() });
        }
        let all = dims.len();
        self.loops.extend(c.dims.iter().map(|d| d.binder.clone()));
        let guard =
            c.guard.as_ref().map(|g| self.evaluated(&points, g, &always, &mut Memo::default(), &mut checks));
        note(&mut checks, all, false);
        let reduced = c.dims.iter().any(|d| matches!(d.combine, Combine::Reduce(_)));
        let under = guard.clone().unwrap_or(boolean(true));
        let unguarded = self.ranges.mark();
        if let Some(g) = &guard {
            points.guard(g, true);
            self.ranges.assume(g);
        }
        let mut memo = Memo::default();
        let values =
            c.values.iter().map(|v| self.evaluated(&points, v, &under, &mut memo, &mut checks)).collect();
        note(&mut checks, all, false);
        if reduced {
            self.ranges.leave(unguarded);
        }
        let targets = c
            .targets
            .iter()
            .map(|t| {
                if reduced {
                    self.access(&cells, t, &boolean(true), &mut Memo::default(), &mut checks)
                } else {
                    self.access(&points, t, &under, &mut Memo::default(), &mut checks)
                }
            })
            .collect();
        note(&mut checks, all, reduced);
        self.loops.truncate(self.loops.len() - c.dims.len());
        self.ranges.leave(mark);
        let compute = Compute { dims, targets, values, guard, ..c.clone() };
        // Checks over the same dimensions share their loops.
        let mut nests: Vec<(Vec<&Dim>, Vec<Stmt>)> = Vec::new();
        for (n, among, cells) in needed {
            let free = |d: &&Dim| !(cells && matches!(d.combine, Combine::Reduce(_)));
            let dims: Vec<&Dim> = compute.dims[..among].iter().filter(free).collect();
            let (n, dims) = n.at(places).outside_dims(&dims, &self.everywhere);
            if dims.is_empty() && n.is_pure() {
                self.guard(facts, &n.cond(&self.everywhere));
                self.float(n);
            } else if let Some(last) = nests.last_mut().filter(|last| last.0 == dims) {
                last.1.push(n.stmt(&self.everywhere));
            } else {
                nests.push((dims, vec![n.stmt(&self.everywhere)]));
            }
        }
        let out: Vec<Stmt> = nests
            .into_iter()
            .map(|(dims, list)| checks::loops_over(&mut self.func, &dims, Stmt::seq(list)))
            .collect();
        (compute, out)
    }
}
