//! Statements of the primal in the derived function: the forward sweep, and recomputation in iterations of the
//! reverse sweep. They include only statements whose results are needed, transitively.

use super::Reverse;
use super::restore::When;
use super::tape::Tape;
use crate::arrays::{allocated, touched};
use crate::codes::{self, refuse};
use crate::node::{Around, Leaf, Node, Scope, ScopeId, Site};
use lathe_diagnostics::Diagnostic;
use lathe_ir::build::{and, load};
use lathe_ir::stmt::PartMap;
use lathe_ir::visit::{loads_of, refresh};
use lathe_ir::{Access, BufId, Buffer, Compute, Dim, Expr, ExprKind, Label, Stmt, StmtKind, Store, build};
use std::collections::BTreeMap;
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
                // Where iterations are counted, only what runs is checked.
                let later = |n: &Node| self.counting.is_some() && matches!(n, Node::Keep(..));
                let (checks, others): (Vec<usize>, Vec<usize>) =
                    (0..list.len()).partition(|n| later(&list[*n]));
                let mut out = BTreeMap::new();
                for n in others {
                    out.extend(self.run(&list[n], of)?.map(|s| (n, s)));
                }
                if out.is_empty() {
                    return Ok(None);
                }
                for n in checks {
                    out.extend(self.run(&list[n], of)?.map(|s| (n, s)));
                }
                Some(Stmt::seq(out.into_values()))
            }
            Node::Let { site, binder, value, body, .. } => {
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
                let before = self.tape_stores(site, of)?;
                let revolves = self.revolving(body.id).filter(|_| of == 0 && self.counting.is_none());
                let s = match revolves {
                    Some(n) => self.first_sweep(n, site, l, body)?,
                    None => self.run_loop(site, l, body, of)?,
                };
                let s = joined(before, s);
                let keeps = of == 0 && self.bare != Some(0) && self.counting.is_none();
                let after = if keeps { self.end_stores(body.id, &site.loops) } else { Vec::new() };
                joined(s.into_iter().collect(), (!after.is_empty()).then(|| Stmt::seq(after)))
            }
            Node::While { site, cond, body, trips, .. } => {
                let before = self.tape_stores(site, of)?;
                let revolves = self.revolving(body.id).filter(|_| of == 0 && self.counting.is_none());
                let s = match (revolves, trips) {
                    (Some(n), Some(t)) => self.first_until(n, site, cond, body, t)?,
                    _ => self.run_until(site, cond, body, of)?,
                };
                let s = joined(before, s);
                let after = match trips {
                    Some(t) => self.tape_stores(&t.site, of)?,
                    None => Vec::new(),
                };
                joined(s.into_iter().collect(), (!after.is_empty()).then(|| Stmt::seq(after)))
            }
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

    pub fn run_scope(&mut self, s: &Scope, of: ScopeId) -> Result<Option<Stmt>, Diagnostic> {
        let Some(body) = self.run(&s.body, of)? else { return Ok(None) };
        // What is needed, and what only the same statements write.
        let used = touched(&body);
        let mine = s.buffers.iter().filter(|b| used.contains(&b.id));
        Ok(Some(allocated(mine.cloned().collect::<Vec<_>>(), body)))
    }

    fn run_leaf(&mut self, l: &Leaf, of: ScopeId) -> Result<Option<Stmt>, Diagnostic> {
        let when = When::Forward(of);
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
        let into = inside.clone();
        let mut map = Again { r: self, site: &l.site, dims: &dims, of, into, failure: None, label: None };
        if of != 0 || map.r.counting.is_some() {
            let suffix = if map.r.counting.is_some() { "counted" } else { "again" };
            map.label = Some(map.r.label(&l.site.label, suffix));
        }
        let s = l.stmt.map_parts(&mut map);
        if let Some(d) = map.failure {
            return Err(d);
        }
        for a in l.call.iter().flat_map(crate::calls::Call::reads) {
            self.still(l, &a, when)?;
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
        if self.bare == Some(of) || self.counting.is_some() {
            return Ok(Vec::new());
        }
        let mine: Vec<usize> = (0..self.tapes.len())
            .filter(|n| self.tapes[*n].at == site.id && self.tapes[*n].scope == of)
            .collect();
        let mut out = Vec::new();
        for n in mine {
            out.push(self.tape_store(n)?);
        }
        Ok(out)
    }

    fn tape_store(&mut self, n: usize) -> Result<Stmt, Diagnostic> {
        let Tape { scope, site, value, under, buffer, indices, dims, .. } = &self.tapes[n];
        let (scope, site, dims) = (*scope, site.clone(), dims.clone());
        let (value, under) = (value.clone(), under.clone());
        let target = Access::buffer(buffer.id, buffer.elem.clone(), indices.clone());
        let when = When::Forward(scope);
        let under = match &under {
            Some(u) => Some(self.restore(&site, &dims, u, None, when)?),
            None => None,
        };
        let value = match value.kind() {
            ExprKind::Load(a) => {
                self.needs.extend(a.view.buffer().map(|b| (scope, b)));
                load(self.restore_access(&site, &dims, a, under.as_ref(), when)?)
            }
            _ => self.restore(&site, &dims, &value, under.as_ref(), when)?,
        };
        let ahead = self.tapes[n].ahead.clone();
        let depth = ahead.as_ref().map_or(site.loops.len(), |a| a.depth);
        let exists = ahead.iter().flat_map(|a| a.under.clone());
        let under = exists.chain(under).reduce(and);
        let dims: Vec<_> = ahead.iter().flat_map(|a| a.dims.clone()).chain(dims).collect();
        Ok(self.store_on_tape(&site, &site.loops[..depth], dims, target, value, under))
    }

    /// `target = value` for all points of some dimensions, inside of some loops around a site.
    pub fn store_on_tape(
        &mut self,
        site: &Site,
        around: &[Around],
        dims: Vec<Dim>,
        target: Access,
        value: Expr,
        under: Option<Expr>,
    ) -> Stmt {
        let label = self.label(&site.label, "tape");
        if !dims.is_empty() {
            let (targets, values) = (vec![target], vec![value]);
            let c = Compute { label, dims, targets, values, guard: under, update: None };
            let s = Stmt::new(StmtKind::Compute(c), site.places.clone());
            return refresh(&s, &mut self.func.next_id);
        }
        let instance = around.iter().filter(|l| l.is_bounded).map(|l| build::var(&l.binder)).collect();
        let s = Store::new(label, instance, target, value);
        let s = Stmt::new(StmtKind::Store(s), site.places.clone());
        match under {
            Some(cond) => Stmt::new(StmtKind::If { cond, then: s, other: None }, site.places.clone()),
            None => s,
        }
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
        self.in_scope(s, body).map(Some)
    }

    /// A body among the local arrays of a scope that it uses.
    pub fn in_scope(&mut self, s: &Scope, body: Stmt) -> Result<Stmt, Diagnostic> {
        let body = self.with_tapes(s.id, body);
        let body = self.counted(s, body)?;
        let used = touched(&body);
        let all = s.buffers.iter().flat_map(|b| [Some(b), self.bars.get(&b.id)]).flatten();
        let all: Vec<Arc<Buffer>> = all.filter(|b| used.contains(&b.id)).cloned().collect();
        Ok(allocated(all, body))
    }

    /// A body among the tapes of a scope.
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
        body
    }
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
    /// What it writes.
    into: Vec<BufId>,
    label: Option<Label>,
    failure: Option<Diagnostic>,
}

impl PartMap for Again<'_, '_, '_> {
    fn expr(&mut self, e: &Expr) -> Expr {
        match self.r.restore_into(self.site, self.dims, e, None, When::Forward(self.of), &self.into) {
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
