//! Statements of the primal in the derived function: the forward sweep, and recomputation in iterations of the
//! reverse sweep. They include only statements whose results are needed, transitively.

use super::Reverse;
use super::restore::{Tape, When};
use crate::arrays::{allocated, fill, touched};
use crate::codes::{self, refuse};
use crate::node::{Leaf, Node, Scope, ScopeId, Site};
use lathe_diagnostics::Diagnostic;
use lathe_ir::build::{add, index, load, max, sub};
use lathe_ir::stmt::PartMap;
use lathe_ir::visit::{loads_of, refresh};
use lathe_ir::{
    Access, Buffer, Compute, Executor, Expr, Label, Loop, Reduce, ReduceOp, Stmt, StmtKind, Store, Type,
    build,
};
use std::rc::Rc;
use std::sync::Arc;

impl Reverse<'_> {
    /// What of a scope must run forward, once all needs of it are known.
    pub fn forward(&mut self, scope: &Scope) -> Result<Option<Stmt>, Diagnostic> {
        loop {
            let known = (self.needs.len(), self.tapes.len(), self.counters.len());
            let labels = self.labels.clone();
            let s = self.run(&scope.body, scope.id)?;
            if known == (self.needs.len(), self.tapes.len(), self.counters.len()) {
                return Ok(s);
            }
            // What is needed needs more.
            self.labels = labels;
        }
    }

    pub fn run(&mut self, n: &Node, of: ScopeId) -> Result<Option<Stmt>, Diagnostic> {
        let when = When::Forward(of);
        Ok(match n {
            Node::Seq(list) => {
                let mut out = Vec::new();
                for c in list {
                    out.extend(self.run(c, of)?);
                }
                (!out.is_empty()).then(|| Stmt::seq(out))
            }
            Node::Let { site, binder, value, body } => {
                let before = self.tape_stores(site, of)?;
                let body = match self.run(body, of)? {
                    Some(body) => {
                        let value = self.restore(site, &[], value, None, when)?;
                        let kind = StmtKind::Let { binder: binder.clone(), value, body };
                        Some(Stmt::new(kind, site.places.clone()))
                    }
                    None => None,
                };
                joined(before, body)
            }
            Node::If { site, cond, then, other } => {
                let before = self.tape_stores(site, of)?;
                let then = self.run(then, of)?;
                let other = match other {
                    Some(o) => self.run(o, of)?,
                    None => None,
                };
                let s = if then.is_some() || other.is_some() {
                    let cond = self.restore(site, &[], cond, None, when)?;
                    let kind = StmtKind::If { cond, then: then.unwrap_or_else(Stmt::empty), other };
                    Some(Stmt::new(kind, site.places.clone()))
                } else {
                    None
                };
                joined(before, s)
            }
            Node::Loop { site, l, body } => {
                if let Some(n) = self.revolving(l.binder.id).filter(|_| of == 0) {
                    let before = self.tape_stores(site, of)?;
                    return Ok(joined(before, self.first_sweep(n, site, l, body)?));
                }
                let before = self.tape_stores(site, of)?;
                let s = match self.run_scope(body, of)? {
                    Some(body) => {
                        let lo = self.restore(site, &[], &l.lo, None, when)?;
                        let hi = self.restore(site, &[], &l.hi, None, when)?;
                        Some(Stmt::new(
                            StmtKind::Loop(Loop { lo, hi, body, ..l.clone() }),
                            site.places.clone(),
                        ))
                    }
                    None => None,
                };
                joined(before, s)
            }
            Node::While { site, cond, body } => match self.run_scope(body, of)? {
                Some(body) => {
                    let cond = self.restore(site, &[], cond, None, when)?;
                    // What decides how long it runs is needed, too: it is asked for above, and comes next time.
                    Some(Stmt::new(StmtKind::While { cond, body }, site.places.clone()))
                }
                None => None,
            },
            Node::Keep(site, s) => {
                let pure = s.exprs().iter().all(|e| loads_of(e).is_empty());
                if of != 0 && !pure {
                    return Ok(None);
                }
                for e in s.exprs() {
                    self.restore(site, &[], e, None, when)?;
                }
                (of == 0).then(|| s.clone())
            }
            Node::Leaf(l) => self.run_leaf(l, of)?,
        })
    }

    fn run_scope(&mut self, s: &Scope, of: ScopeId) -> Result<Option<Stmt>, Diagnostic> {
        let Some(body) = self.run(&s.body, of)? else { return Ok(None) };
        // What is needed, and what only the same statements write.
        let used = touched(&body);
        let mine = s.buffers.iter().filter(|b| used.contains(&b.id));
        Ok(Some(allocated(mine.cloned().collect::<Vec<_>>(), body)))
    }

    fn run_leaf(&mut self, l: &Leaf, of: ScopeId) -> Result<Option<Stmt>, Diagnostic> {
        let before = self.tape_stores(&l.site, of)?;
        let depth = |s: ScopeId| l.site.loops.iter().position(|a| a.body == s).map_or(0, |p| p + 1);
        let written: Vec<_> = l.writes().into_iter().filter_map(|w| w.0.view.buffer()).collect();
        let scope_of = |b: &lathe_ir::BufId| self.scope_of.get(b).copied().unwrap_or(0);
        let (inside, outside): (Vec<_>, Vec<_>) =
            written.into_iter().partition(|b| depth(scope_of(b)) >= depth(of));
        if !inside.iter().any(|b| self.needs.contains(&(of, *b))) {
            return Ok(joined(before, None));
        }
        if !outside.is_empty() {
            let text = format!(
                "`{}` writes both an array local to an iteration and one that outlives it",
                l.site.label
            );
            return Err(
                refuse(codes::UNSUPPORTED, text, &l.site.places).help("declare both in the same scope")
            );
        }
        let dims = l.stmt.as_compute().map(|c| c.dims.clone()).unwrap_or_default();
        let mut map = Again { r: self, site: &l.site, dims: &dims, of, failure: None, label: None };
        if of != 0 {
            let label = map.r.label(&l.site.label, "again");
            map.label = Some(label);
        }
        let s = l.stmt.map_parts(&mut map);
        if let Some(d) = map.failure {
            return Err(d);
        }
        // What an update starts from is needed, too.
        for (a, mode) in l.stmt.accesses() {
            if mode.reads() && mode.writes() {
                self.needs.extend(a.view.buffer().filter(|b| inside.contains(b)).map(|b| (of, b)));
            }
        }
        Ok(joined(before, Some(s)))
    }

    /// What is kept for a site in a scope, stored before the site runs.
    fn tape_stores(&mut self, site: &Rc<Site>, of: ScopeId) -> Result<Vec<Stmt>, Diagnostic> {
        if self.bare == Some(of) {
            return Ok(Vec::new());
        }
        let mine: Vec<usize> = (0..self.tapes.len())
            .filter(|n| self.tapes[*n].site.id == site.id && self.tapes[*n].scope == of)
            .collect();
        let mut out = Vec::new();
        for n in mine {
            out.push(self.tape_store(n)?);
        }
        let counter = self.counters.iter().find(|c| c.site.id == site.id && c.scope == of);
        if let Some(position) = counter.map(|c| c.position.clone()) {
            out.push(step(&position, site, 1));
        }
        Ok(out)
    }

    fn tape_store(&mut self, n: usize) -> Result<Stmt, Diagnostic> {
        let Tape { scope, site, access, under, buffer, indices, dims, .. } = &self.tapes[n];
        let (scope, site, dims) = (*scope, site.clone(), dims.clone());
        let (access, under) = (access.clone(), under.clone());
        let target = Access::buffer(buffer.id, buffer.elem.clone(), indices.clone());
        let when = When::Forward(scope);
        let under = match &under {
            Some(u) => Some(self.restore(&site, &dims, u, None, when)?),
            None => None,
        };
        self.needs.extend(access.view.buffer().map(|b| (scope, b)));
        let value = load(self.restore_access(&site, &dims, &access, under.as_ref(), when)?);
        let label = self.label(&site.label, "tape");
        if !dims.is_empty() {
            let (targets, values) = (vec![target], vec![value]);
            let c = Compute { label, dims, targets, values, guard: under, update: None };
            let s = Stmt::new(StmtKind::Compute(c), site.places.clone());
            return Ok(refresh(&s, &mut self.func.next_id));
        }
        let instance = site.loops.iter().map(|l| build::var(&l.binder)).collect();
        let s = Store::new(label, instance, target, value);
        let s = Stmt::new(StmtKind::Store(s), site.places.clone());
        Ok(match under {
            Some(cond) => Stmt::new(StmtKind::If { cond, then: s, other: None }, site.places.clone()),
            None => s,
        })
    }

    /// A statement of the reverse sweep after what takes the counters of its site one back.
    pub fn popped(&self, site: &Rc<Site>, s: Stmt) -> Stmt {
        let mine = self.counters.iter().filter(|c| c.site.id == site.id);
        let back: Vec<Stmt> = mine.map(|c| step(&c.position, site, -1)).collect();
        Stmt::seq(back.into_iter().chain([s]))
    }

    /// A scope in the reverse sweep: its shadows, what must run again, and the adjoints.
    pub fn back_scope(&mut self, s: &Scope) -> Result<Option<Stmt>, Diagnostic> {
        for b in &s.buffers {
            if self.act.of_buffer(b.id) {
                self.shadow(b);
            }
        }
        let Some(back) = self.back(&s.body)? else { return Ok(None) };
        let back = self.zeroed(s, back);
        let needed = |this: &Self| {
            s.buffers.iter().any(|b| this.needs.contains(&(s.id, b.id)))
                || this.tapes.iter().any(|t| t.scope == s.id)
        };
        let again = if needed(self) { self.forward(s)? } else { None };
        let body = Stmt::seq(again.into_iter().chain([back]));
        Ok(Some(self.in_scope(s, body)))
    }

    /// A body among the local arrays of a scope that it uses.
    pub fn in_scope(&mut self, s: &Scope, body: Stmt) -> Stmt {
        let body = self.with_tapes(s.id, body);
        let used = touched(&body);
        let all = s.buffers.iter().flat_map(|b| [Some(b), self.bars.get(&b.id)]).flatten();
        let all: Vec<Arc<Buffer>> = all.filter(|b| used.contains(&b.id)).cloned().collect();
        allocated(all, body)
    }

    /// A body among the tapes of a scope; what is counted is counted first.
    fn with_tapes(&mut self, scope: ScopeId, body: Stmt) -> Stmt {
        let mut body = body;
        let mine: Vec<Arc<Buffer>> =
            self.tapes.iter().filter(|t| t.scope == scope).map(|t| t.buffer.clone()).collect();
        for buffer in mine.into_iter().rev() {
            // Extents that read memory are read once.
            let mut lets = Vec::new();
            let extents = buffer.extents.iter().map(|e| {
                if loads_of(e).is_empty() {
                    return e.clone();
                }
                let b = self.func.fresh_var(format!("{}.extent", buffer.name), lathe_ir::Scalar::Index);
                lets.push((b.clone(), e.clone()));
                build::var(&b)
            });
            let buffer = Arc::new(Buffer { extents: extents.collect(), ..(*buffer).clone() });
            body = allocated([buffer], body);
            for (binder, value) in lets {
                body = Stmt::of(StmtKind::Let { binder, value, body });
            }
        }
        let counters: Vec<_> = self
            .counters
            .iter()
            .filter(|c| c.scope == scope)
            .map(|c| (c.site.clone(), c.total.clone(), c.position.clone()))
            .collect();
        for (site, total, position) in counters {
            let start = assign(&position, &site, index(0), "position");
            body = allocated([position.clone()], Stmt::seq([start, body]));
            let count = Arc::new(Buffer {
                id: self.func.fresh_buf(),
                name: format!("{}.count", site.label).into(),
                ..(*position).clone()
            });
            let value = load(Access::buffer(count.id, Type::INDEX, Vec::new()));
            let counted = Stmt::of(StmtKind::Let { binder: total, value, body });
            let start = assign(&count, &site, index(0), "uncounted");
            let nest = refresh(&count_nest(&count, &site, scope), &mut self.func.next_id);
            body = allocated([count], Stmt::seq([start, nest, counted]));
        }
        body
    }
}

/// `count += trips` in the loops around a site that lie in a scope.
fn count_nest(count: &Arc<Buffer>, site: &Rc<Site>, scope: ScopeId) -> Stmt {
    let loops = site.loops_in(scope);
    let trips = |l: &crate::node::Around| {
        let steps = build::floor_div(add(sub(l.hi.clone(), l.lo.clone()), index(l.step - 1)), index(l.step));
        max(steps, index(0))
    };
    let Some((last, outer)) = loops.split_last() else { return add_to(count, site, index(1), "count") };
    let mut body = add_to(count, site, trips(last), "count");
    for l in outer.iter().rev() {
        // A loop that the count does not depend on is counted all the same: it is run.
        body = Stmt::of(StmtKind::Loop(Loop {
            binder: l.binder.clone(),
            lo: l.lo.clone(),
            hi: l.hi.clone(),
            step: l.step,
            exec: Executor::Serial,
            body,
        }));
    }
    body
}

fn step(position: &Arc<Buffer>, site: &Rc<Site>, by: i64) -> Stmt {
    add_to(position, site, index(by), if by > 0 { "push" } else { "pop" })
}

fn target(b: &Arc<Buffer>) -> Access {
    Access::buffer(b.id, b.elem.clone(), Vec::new())
}

fn add_to(b: &Arc<Buffer>, site: &Rc<Site>, by: Expr, suffix: &str) -> Stmt {
    // The trips of the innermost loop are counted at once.
    let loops = if suffix == "count" { site.loops.len().saturating_sub(1) } else { site.loops.len() };
    let instance = site.loops[..loops].iter().map(|l| build::var(&l.binder)).collect();
    let label = Label::new(format!("{}.{suffix}", site.label));
    let (targets, values, op) = (vec![target(b)], vec![by], ReduceOp::Sum);
    let r = Reduce { label, instance, op, targets, values, licence: false, contract: false };
    Stmt::new(StmtKind::Reduce(r), site.places.clone())
}

fn assign(b: &Arc<Buffer>, site: &Rc<Site>, value: Expr, suffix: &str) -> Stmt {
    let label = format!("{}.{suffix}", site.label);
    fill(label, Vec::new(), target(b), value).with_places(site.places.clone())
}

fn joined(before: Vec<Stmt>, s: Option<Stmt>) -> Option<Stmt> {
    if before.is_empty() {
        return s;
    }
    Some(Stmt::seq(before.into_iter().chain(s)))
}

/// A statement of the primal at another time.
struct Again<'r, 'a, 's> {
    r: &'r mut Reverse<'a>,
    site: &'s Rc<Site>,
    dims: &'s [lathe_ir::Dim],
    of: ScopeId,
    label: Option<Label>,
    failure: Option<Diagnostic>,
}

impl PartMap for Again<'_, '_, '_> {
    fn expr(&mut self, e: &Expr) -> Expr {
        match self.r.restore(self.site, self.dims, e, None, When::Forward(self.of)) {
            Ok(e) => e,
            Err(d) => {
                self.failure.get_or_insert(d);
                e.clone()
            }
        }
    }

    fn labelled(&mut self, label: &Label, instance: &[Expr]) -> (Label, Vec<Expr>) {
        (self.label.clone().unwrap_or_else(|| label.clone()), instance.to_vec())
    }
}
