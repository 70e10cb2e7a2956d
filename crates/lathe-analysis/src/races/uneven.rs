//! Barriers that not all iterations of their loop are shown to reach equally often.
//!
//! Between a concurrent loop and its barrier, bounds of loops and conditions must have one value for all its
//! iterations: they must not depend on its variable, on those of concurrent loops inside of it, or on memory of single
//! iterations. One element of memory that all iterations share has one value for all of them, if there are no races:
//! whoever wrote it is separated by a barrier from all that read it, or from none. That there are none is shown with the
//! reads of these conditions among the accesses.

use crate::codes;
use crate::text::expr_text;
use lathe_diagnostics::Diagnostic;
use lathe_ir::stmt::Enters;
use lathe_ir::visit::{loads_of, vars_of};
use lathe_ir::{BufId, Expr, Function, Stmt, StmtKind, VarId};
use std::collections::HashSet;

/// Refuses barriers that stand under conditions or in loops that iterations of their loop may find different.
pub(super) fn uneven_barriers(func: &Function) -> Vec<Diagnostic> {
    let mut search = Search { func, around: Vec::new(), found: Vec::new() };
    search.visit(&func.body);
    search.found
}

struct Search<'a> {
    func: &'a Function,
    around: Vec<(&'a Stmt, usize)>,
    found: Vec<Diagnostic>,
}

impl<'a> Search<'a> {
    fn visit(&mut self, s: &'a Stmt) {
        if let StmtKind::Barrier { of, .. } = s.kind() {
            self.barrier(s, *of);
        }
        for (n, child) in s.children().enumerate() {
            self.around.push((s, n));
            self.visit(child);
            self.around.pop();
        }
    }

    fn barrier(&mut self, barrier: &Stmt, of: VarId) {
        let owner = self.around.iter().position(|(s, _)| s.as_loop().is_some_and(|l| l.binder.id == of));
        let Some(owner) = owner else { return };
        let mut varying = Varying::between(of);
        for (s, position) in &self.around[owner + 1..] {
            let uneven = match s.enters(*position) {
                Enters::Loop(l) => [&l.lo, &l.hi].into_iter().find(|e| varying.differs(e)),
                Enters::Condition(cond, _) | Enters::While(cond) => Some(cond).filter(|e| varying.differs(e)),
                Enters::Let(..) | Enters::Value(_) | Enters::Alloc(_) | Enters::Nothing => None,
            };
            varying.enter(s, *position);
            if let Some(e) = uneven {
                let (name, text) = (self.name(of), self.text(e));
                let d = Diagnostic::error(
                    codes::DIVERGENT,
                    format!("`barrier {name}` depends on `{text}`, which may differ between the iterations of `{name}`"),
                )
                .at_places(barrier.places(), "not all iterations are shown to reach this barrier equally often")
                .at_places(s.places(), "under this statement")
                .help("put the barrier outside, or under a condition that all iterations find the same");
                self.found.push(d);
                return;
            }
        }
    }

    fn name(&self, v: VarId) -> lathe_ir::Name {
        let local = self.around.iter().find_map(|(s, n)| match s.enters(*n) {
            Enters::Loop(l) if l.binder.id == v => Some(&l.binder),
            Enters::Let(b, _) | Enters::Value(b) if b.id == v => Some(b),
            _ => None,
        });
        let found = local.or_else(|| self.func.sizes.iter().find(|b| b.id == v));
        found.map_or_else(|| "?".into(), |b| b.name.clone())
    }

    fn text(&self, e: &Expr) -> String {
        let buffer = |id: BufId| {
            let local = self.around.iter().filter_map(|(s, _)| s.allocated()).find(|b| b.id == id);
            let param = || self.func.params.iter().filter_map(|p| p.array()).find(|b| b.id == id);
            local.or_else(param).map(|b| b.name.clone())
        };
        expr_text(e, &|v| self.name(v), &buffer)
    }
}

/// What may differ between the iterations of a concurrent loop, at a place inside of it.
pub(super) struct Varying {
    vars: HashSet<VarId>,
    /// Arrays that each iteration has for itself.
    own: HashSet<BufId>,
}

impl Varying {
    /// At the beginning of the loop's body.
    pub fn between(of: VarId) -> Varying {
        Varying { vars: HashSet::from([of]), own: HashSet::new() }
    }

    /// Goes into a child.
    pub fn enter(&mut self, s: &Stmt, position: usize) {
        match s.enters(position) {
            Enters::Loop(l) if !l.exec.is_ordered() => {
                self.vars.insert(l.binder.id);
            }
            Enters::Let(binder, value) if self.differs(value) => {
                self.vars.insert(binder.id);
            }
            Enters::Value(binder) => {
                self.vars.insert(binder.id);
            }
            Enters::Alloc(buffer) => {
                self.own.insert(buffer.id);
            }
            Enters::Loop(_)
            | Enters::Let(..)
            | Enters::Condition(..)
            | Enters::While(_)
            | Enters::Nothing => {}
        }
    }

    /// Whether an expression may have different values.
    pub fn differs(&self, e: &Expr) -> bool {
        let shared = |b: Option<BufId>| b.is_some_and(|b| !self.own.contains(&b));
        vars_of(e).iter().any(|v| self.vars.contains(v))
            || loads_of(e).iter().any(|l| !shared(l.view.buffer()))
    }
}
