//! Iterations that no box holds: those of `while`, and of loops whose bounds are data. They are numbered in the order in
//! which they run, over all executions of the loop in a scope. How many there are is counted when the scope begins, by the part of
//! it that decides how long its loops run, on copies of what it writes; then tapes have their shapes. The reverse
//! sweep goes through the numbers backwards.

use super::Reverse;
use super::restore::When;
use crate::arrays::{allocated, copy_array, fill, touched, written};
use crate::checkpoint::renamed;
use crate::codes::{self, refuse};
use crate::node::{Around, Scope, ScopeId, Site};
use lathe_diagnostics::Diagnostic;
use lathe_ir::build::{add, floor_div, index, load, max, sub, var};
use lathe_ir::visit::{loads_of, refresh};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Expr, Label, Loop, Mode, Reduce, ReduceOp, Scalar, Space, Stmt, StmtKind,
    Type,
};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// Numbers the iterations of a loop in one run of a scope.
pub struct Counter {
    pub scope: ScopeId,
    /// The body of the loop.
    pub body: ScopeId,
    /// What its variable is called.
    name: String,
    /// The loops around an iteration, this one included, and how many of them are outside of the scope.
    around: Vec<Around>,
    outside: usize,
    /// How many iterations there are.
    pub total: Binder,
    /// The number of the iteration that runs.
    pub number: Binder,
    /// How many have begun: forward those that are done, in reverse those that are left.
    position: Arc<Buffer>,
}

impl Reverse<'_> {
    /// The counter of a loop around a site in a scope: of the one that so many are in.
    pub fn counter(&mut self, site: &Site, scope: ScopeId, outer: usize) -> usize {
        let outside = site.loops.len() - site.loops_in(scope).len();
        let around = site.loops[..=outside + outer].to_vec();
        let last = &around[outside + outer];
        let (body, name) = (last.body, last.binder.name.to_string());
        if let Some(n) = self.counters.iter().position(|c| c.body == body && c.scope == scope) {
            return n;
        }
        let position = self.cell(&format!("{name}.position"));
        let total = self.func.fresh_var(format!("{name}.runs"), Scalar::Index);
        let number = self.func.fresh_var(format!("{name}.number"), Scalar::Index);
        self.counters.push(Counter { scope, body, name, around, outside, total, number, position });
        self.counters.len() - 1
    }

    fn cell(&mut self, name: &str) -> Arc<Buffer> {
        Buffer::local(self.func.fresh_buf(), name, Type::INDEX, Vec::new(), Space::Register)
    }

    /// Whether iterations must run in the very reverse of the forward order, for their numbers.
    pub fn is_numbered(&self, body: ScopeId) -> bool {
        self.counters.iter().any(|c| c.around[c.outside..].iter().any(|l| l.body == body))
    }

    /// An iteration in the run of a scope, with its numbers.
    fn numbered(&self, body: ScopeId, of: ScopeId, s: Stmt) -> Stmt {
        if self.bare == Some(of) {
            return s;
        }
        let mine = self.counters.iter().filter(|c| c.body == body && c.scope == of);
        mine.fold(s, |s, c| Stmt::seq([c.with_number(s), c.step(1)]))
    }

    /// An iteration of the reverse sweep, with its numbers.
    pub fn numbered_back(&self, body: ScopeId, s: Stmt) -> Stmt {
        let mine = self.counters.iter().filter(|c| c.body == body);
        mine.fold(s, |s, c| Stmt::seq([c.step(-1), c.with_number(s)]))
    }

    /// The body of a scope behind the counting of its iterations.
    pub fn counted(&mut self, s: &Scope, body: Stmt) -> Result<Stmt, Diagnostic> {
        let mine: Vec<usize> = (0..self.counters.len()).filter(|n| self.counters[*n].scope == s.id).collect();
        if mine.is_empty() {
            return Ok(body);
        }
        let counts = mine.iter().map(|n| {
            let name = format!("{}.count", self.counters[*n].name);
            (self.counters[*n].body, self.cell(&name))
        });
        let counts: HashMap<ScopeId, Arc<Buffer>> = counts.collect();
        let counting = self.counting.replace(counts.clone());
        // What the iterations themselves need is another question.
        let needed: HashSet<_> = self.needs.iter().filter(|n| n.0 == s.id).copied().collect();
        self.needs.retain(|n| n.0 != s.id);
        let run = self.forward(s);
        self.needs.retain(|n| n.0 != s.id);
        self.needs.extend(needed);
        self.counting = counting;
        let run = self.on_copies(s, run?.unwrap_or_else(Stmt::empty));
        let cells: Vec<Arc<Buffer>> = mine.iter().map(|n| counts[&self.counters[*n].body].clone()).collect();
        let zero = |c: &Arc<Buffer>| fill(format!("{}.zero", c.name), Vec::new(), target(c), index(0));
        let start: Vec<Stmt> = cells.iter().map(zero).collect();
        let mut body = body;
        for n in &mine {
            let c = &self.counters[*n];
            body = allocated([c.position.clone()], Stmt::seq([zero(&c.position), body]));
            let value = load(target(&counts[&c.body]));
            body = Stmt::of(StmtKind::Let { binder: c.total.clone(), value, body });
        }
        Ok(allocated(cells, Stmt::seq(start.into_iter().chain([run, body]))))
    }

    /// The run of a scope on copies of all that it writes.
    fn on_copies(&mut self, s: &Scope, run: Stmt) -> Stmt {
        let (changed, used) = (written(&run), touched(&run));
        let params: Vec<_> = self.func.params.iter().filter(|_| s.id == 0).cloned().collect();
        let given = params.iter().filter_map(|p| Some((p.array()?.clone(), p.mode == Mode::InOut)));
        let local = s.buffers.iter().map(|b| (b.clone(), false));
        let (mut locals, mut before, mut names) = (Vec::new(), Vec::new(), HashMap::<BufId, BufId>::new());
        for (b, has_value) in given.chain(local).filter(|(b, _)| used.contains(&b.id)) {
            if !changed.contains(&b.id) {
                continue;
            }
            let space = if b.extents.is_empty() { Space::Register } else { Space::Host };
            let name = format!("{}.counted", b.name).into();
            let copy = Arc::new(Buffer { id: self.func.fresh_buf(), name, space, ..(*b).clone() });
            if has_value {
                before.push(copy_array(&b, &copy, &mut self.func));
            }
            names.insert(b.id, copy.id);
            locals.push(copy);
        }
        let run = refresh(&renamed(&run, &names), &mut self.func.next_id);
        allocated(locals, Stmt::seq(before.into_iter().chain([run])))
    }

    /// A loop in the run of a scope, or what counts its iterations; `None` if there is nothing to do in it.
    pub fn run_loop(
        &mut self,
        site: &Rc<Site>,
        l: &Loop,
        body: &Scope,
        of: ScopeId,
    ) -> Result<Option<Stmt>, Diagnostic> {
        let inside = self.run_scope(body, of)?;
        if inside.is_none() && self.count_of(body.id, of).is_none() {
            return Ok(None);
        }
        let lo = self.restore(site, &[], &l.lo, None, When::Forward(of))?;
        let hi = self.restore(site, &[], &l.hi, None, When::Forward(of))?;
        let Some(inside) = inside else {
            let trips = max(floor_div(add(sub(hi, lo), index(l.step - 1)), index(l.step)), index(0));
            // Nothing in it is counted for itself.
            let at_once = |(c, cell): (&Counter, &Arc<Buffer>)| c.add_to(cell, trips, "count");
            return Ok(self.count_of(body.id, of).map(at_once));
        };
        let body = self.run_numbered(body.id, of, inside);
        let kind = StmtKind::Loop(Loop { lo, hi, body, ..l.clone() });
        Ok(Some(Stmt::new(kind, site.places.clone())))
    }

    /// A `while` in the run of a scope.
    pub fn run_until(
        &mut self,
        site: &Rc<Site>,
        cond: &Expr,
        body: &Scope,
        of: ScopeId,
    ) -> Result<Option<Stmt>, Diagnostic> {
        let inside = self.run_scope(body, of)?;
        if inside.is_none() && self.count_of(body.id, of).is_none() {
            return Ok(None);
        }
        // What decides how long it runs is asked for every time: a value that is kept is that of the first time.
        let depth = |s: ScopeId| site.loops.iter().position(|l| l.body == s).map_or(0, |p| p + 1);
        let lost = loads_of(cond).into_iter().find(|a| {
            let Some(b) = a.view.buffer() else { return false };
            let inside = |w: &super::Write| w.site.loops.iter().any(|l| l.body == body.id);
            depth(self.scope_of.get(&b).copied().unwrap_or(0)) < depth(of)
                && self.writes.get(&b).is_some_and(|all| all.iter().any(inside))
        });
        if let Some(a) = lost {
            let text =
                format!("values of `{}` would have to be kept for a loop that is recomputed", self.name(&a));
            return Err(refuse(codes::TAPE, text, &site.places)
                .help("declare what the loop computes in one scope with what its condition reads"));
        }
        self.volatile.insert(site.id);
        let cond = self.restore(site, &[], cond, None, When::Forward(of))?;
        let body = self.run_numbered(body.id, of, inside.unwrap_or_else(Stmt::empty));
        Ok(Some(Stmt::new(StmtKind::While { cond, body }, site.places.clone())))
    }

    /// An iteration in the run of a scope, counted or with its numbers.
    pub fn run_numbered(&self, body: ScopeId, of: ScopeId, s: Stmt) -> Stmt {
        match self.count_of(body, of) {
            Some((c, cell)) => Stmt::seq([s, c.add_to(cell, index(1), "count")]),
            None => self.numbered(body, of, s),
        }
    }

    /// What counts the iterations with a body, where they are counted.
    fn count_of(&self, body: ScopeId, of: ScopeId) -> Option<(&Counter, &Arc<Buffer>)> {
        let cell = self.counting.as_ref()?.get(&body)?;
        Some((self.counters.iter().find(|c| c.body == body && c.scope == of)?, cell))
    }
}

impl Counter {
    /// A statement with the number of the iteration.
    fn with_number(&self, body: Stmt) -> Stmt {
        let value = load(target(&self.position));
        Stmt::of(StmtKind::Let { binder: self.number.clone(), value, body })
    }

    fn step(&self, by: i64) -> Stmt {
        self.add_to(&self.position, index(by), if by > 0 { "push" } else { "pop" })
    }

    fn add_to(&self, cell: &Arc<Buffer>, by: Expr, suffix: &str) -> Stmt {
        // What is counted at once is counted before the loop.
        let at_once = by.as_int().is_none();
        let loops = &self.around[..self.around.len() - usize::from(at_once)];
        let instance = loops.iter().filter(|l| l.is_bounded).map(|l| var(&l.binder)).collect();
        let label = Label::new(format!("{}.{suffix}", self.name));
        let (targets, values, op) = (vec![target(cell)], vec![by], ReduceOp::Sum);
        let r = Reduce { label, instance, op, targets, values, licence: false, contract: false };
        Stmt::of(StmtKind::Reduce(r))
    }
}

fn target(b: &Arc<Buffer>) -> Access {
    Access::buffer(b.id, b.elem.clone(), Vec::new())
}
