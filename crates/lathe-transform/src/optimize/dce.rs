//! `dce`: dead code elimination.

use crate::args::Args;
use crate::failing::may_fail;
use crate::rule;
use crate::work::Work;
use lathe_analysis::{Memory, Place};
use lathe_ir::stmt::{AccessMode, Effects};
use lathe_ir::visit::{loads_of, vars_of};
use lathe_ir::{BufId, Expr, Function, Stmt, StmtKind, VarId, build};
use lathe_strategy::Refusal;
use lathe_strategy::evidence::Simplified;
use std::collections::HashSet;

rule! {
    /// `dce` removes statements that write only local arrays on which no result depends, cyclic ones included (`t = t +
    /// 1`), then unused `let`s, empty loops and conditions, untaken branches of constant conditions, and unused arrays.
    ///
    /// **Legal** because what is removed can neither fail nor run forever, and nothing that remains reads it: checks,
    /// `while` loops, calls, atomics and synchronization are kept.
    ///
    /// ```lathe
    /// kernel k(x: f32[N]) -> (y: f32[N]) {
    ///     var unused: f32[N]
    ///     unused[i] = exp(x[i])
    ///     y[i] = 2.0 * x[i]
    /// }
    /// strategy s for k = dce
    /// ```
    pub static RULE = dce, version 1, (), apply,
        "dead code elimination: removes code that does not affect any result";
}

fn apply(work: &mut Work, _: &Args) -> Result<(), Refusal> {
    work.pass(Simplified::Unread, remove)
}

/// Removes dead code.
pub fn remove(func: &mut Function) {
    let mut live = Live::of(func);
    live.result(func);
    while live.mark(&func.body) {}
    func.body = live.sweep(&func.body);
}

struct Live {
    memory: Memory,
    /// Local arrays that results come from.
    buffers: HashSet<BufId>,
    locals: HashSet<BufId>,
    vars: HashSet<VarId>,
    grown: bool,
}

impl Live {
    fn of(func: &Function) -> Live {
        let mut locals = HashSet::new();
        lathe_ir::visit::walk(&func.body, &mut |s, _| {
            locals.extend(s.allocated().map(|b| b.id));
            true
        });
        Live { memory: Memory::of(func), buffers: HashSet::new(), locals, vars: HashSet::new(), grown: false }
    }

    fn result(&mut self, func: &Function) {
        if let Some(e) = &func.result {
            self.needs(&e.clone());
        }
    }

    fn needs(&mut self, e: &Expr) {
        for v in vars_of(e) {
            self.grown |= self.vars.insert(v);
        }
        for b in loads_of(e).iter().filter_map(|a| a.view.buffer()) {
            self.grown |= self.buffers.insert(b);
        }
    }

    /// Whether a statement itself has a live result or a side effect.
    fn acts(&self, s: &Stmt) -> bool {
        let only = s.own_effects().without(Effects::ALLOCATES) != Effects::NONE;
        let written =
            s.touches().into_iter().filter(|t| t.1.writes()).any(|t| match self.memory.place(t.0.view()) {
                Place::Buffer(b) => !self.locals.contains(&b) || self.buffers.contains(&b),
                Place::Shared => true,
            });
        // Hints and facts mean nothing, and are kept for those who use them.
        let said = s.establishes().is_some() || matches!(s.kind(), StmtKind::Prefetch(_));
        only || written || said || s.evaluated().into_iter().any(may_fail)
    }

    /// Notes what is needed by statements that stay; whether that was more than before.
    fn mark(&mut self, s: &Stmt) -> bool {
        self.grown = false;
        self.stays(s);
        self.grown
    }

    fn stays(&mut self, s: &Stmt) -> bool {
        let mut stays = self.acts(s);
        // From the end, where results are: a chain is marked in one go.
        let children: Vec<&Stmt> = s.children().collect();
        for c in children.into_iter().rev() {
            stays |= self.stays(c);
        }
        // A `let` or an array stays as long as it is used, and so does what it is made of.
        let used = match (s.as_let(), s.as_alloc()) {
            (Some((b, value, _)), _) => self.vars.contains(&b.id) || may_fail(value),
            (_, Some((b, _))) => self.buffers.contains(&b.id),
            _ => stays,
        };
        if used {
            // Instances are named, too.
            for e in s.exprs() {
                self.needs(e);
            }
        }
        if stays {
            for (t, mode) in s.touches() {
                // An update reads what only it may ever have asked for.
                let reads = mode.reads() && !matches!(mode, AccessMode::Reduce { .. });
                if let Some(b) = t.buffer().filter(|_| reads || mode.writes()) {
                    self.grown |= self.buffers.insert(b);
                }
            }
            for v in s.touches().iter().flat_map(|t| views_vars(t.0.view())) {
                self.grown |= self.vars.insert(v);
            }
        }
        stays
    }

    fn sweep(&self, s: &Stmt) -> Stmt {
        if let Some(list) = s.as_seq() {
            let left: Vec<Stmt> = list.iter().map(|c| self.sweep(c)).filter(|c| !c.is_empty()).collect();
            return if left.iter().zip(list).all(|(a, b)| a.ptr_eq(b)) && left.len() == list.len() {
                s.clone()
            } else {
                Stmt::seq(left)
            };
        }
        if let Some((b, value, body)) = s.as_let() {
            let body = self.sweep(body);
            return if self.vars.contains(&b.id) || may_fail(value) { s.with_child(0, body) } else { body };
        }
        if let Some((b, body)) = s.as_alloc() {
            let body = self.sweep(body);
            return if self.buffers.contains(&b.id) { s.with_child(0, body) } else { body };
        }
        if let Some((cond, then, other)) = s.as_if() {
            return self.branch(s, cond, then, other);
        }
        if let Some(l) = s.as_loop() {
            if let (Some(lo), Some(hi)) = (l.lo.as_int(), l.hi.as_int())
                && hi <= lo
            {
                return Stmt::empty();
            }
            let body = s.child(0).map_or_else(Stmt::empty, |c| self.sweep(c));
            let dead = body.is_empty() && !self.acts(s);
            return if dead { Stmt::empty() } else { s.with_child(0, body) };
        }
        if s.children().len() > 0 {
            let children = s.children().map(|c| self.sweep(c)).collect();
            return s.with_children(children);
        }
        if self.acts(s) { s.clone() } else { Stmt::empty() }
    }

    fn branch(&self, s: &Stmt, cond: &Expr, then: &Stmt, other: Option<&Stmt>) -> Stmt {
        let (then, other) = (self.sweep(then), other.map(|o| self.sweep(o)).filter(|o| !o.is_empty()));
        match cond.as_bool() {
            Some(true) => return then,
            Some(false) => return other.unwrap_or_else(Stmt::empty),
            None => {}
        }
        let kind =
            |cond: Expr, then: Stmt, other: Option<Stmt>| s.with_kind(StmtKind::If { cond, then, other });
        match (then.is_empty(), other) {
            (true, None) if !may_fail(cond) => Stmt::empty(),
            (true, Some(o)) => kind(build::not(cond.clone()), o, None),
            (_, other) => kind(cond.clone(), then, other),
        }
    }
}

fn views_vars(v: &lathe_ir::View) -> Vec<VarId> {
    let mut out = Vec::new();
    v.for_each_expr(&mut |e| out.extend(vars_of(e)));
    out
}
