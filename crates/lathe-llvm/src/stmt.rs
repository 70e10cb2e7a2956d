//! Statements.

use crate::alloc;
use crate::emit::{Emitter, Lanes, Result, defect, unsupported};
use crate::externals;
use crate::inscan;
use crate::loops;
use crate::nests;
use crate::parallel;
use crate::value::Leaf;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_engine::codes;
use lathe_ir::{Executor, Expr, Stmt, StmtKind, Store};
use lathe_lower::reductions;
use std::collections::HashMap;

impl Emitter<'_> {
    pub fn stmt(&mut self, s: &Stmt) -> Result<()> {
        self.written(s)?;
        if self.device.copies.ends_group(s) {
            self.end_group();
        }
        Ok(())
    }

    fn written(&mut self, s: &Stmt) -> Result<()> {
        let places = s.places();
        match s.kind() {
            StmtKind::Seq(all) if self.kernel => self.sequence(all),
            StmtKind::Seq(all) => all.iter().try_for_each(|s| self.stmt(s)),
            StmtKind::Let { .. } => self.lets(s),
            StmtKind::Store(st) => {
                self.forget();
                if self.kernel && self.copied(st, None)? { Ok(()) } else { self.store(st, places) }
            }
            // A halving that is not within a warp.
            StmtKind::Reduce(r) if self.kernel => {
                let stores = reductions::stores(self.module, r, places, &mut self.device.next_id);
                let stores = stores.ok_or_else(|| defect(format!("`{}` is not defined here", r.op)))?;
                self.stmt(&stores)
            }
            StmtKind::Loop(l) => {
                self.forget();
                let mark = self.ranges.enter_child(s, 0);
                // A nest begins outside of all loops, those whose iterations are lanes or copies included.
                let within = std::mem::replace(&mut self.frame.of_loop, true);
                let apart = self.apart && !within && l.exec == Executor::Serial;
                let out = if apart { nests::apart(self, s, l) } else { self.run_loop(l, places) };
                self.frame.of_loop = within;
                self.ranges.leave(mark);
                out
            }
            StmtKind::If { cond, then, other } => {
                self.forget();
                if let Some(a) = self.is_turn_of_warp(s) {
                    return self.child(s, 0, |e| e.turn_of_warp(a));
                }
                self.branch(s, cond, then, other.as_ref())
            }
            StmtKind::While { cond, body } => {
                self.forget();
                loops::while_loop(self, cond, body)
            }
            StmtKind::Alloc { buffer, body } => {
                self.forget();
                alloc::alloc(self, buffer, body, places)
            }
            StmtKind::Check { cond, code, message } => {
                self.forget();
                let number = self.table.user(code, message);
                let number = number.ok_or_else(|| defect(format!("check `{code}` has no number")))?;
                let status = self.ir.i32(number);
                let failed = match self.scalar(cond)? {
                    Leaf::Uniform(c) => self.ir.not(c),
                    c => {
                        let c = c.at(self.ir, self.width());
                        self.any_lane(self.ir.not(c))
                    }
                };
                self.fail_if(failed, status);
                Ok(())
            }
            StmtKind::Assume { .. } => Ok(()),
            // Calls of functions of the module are gone.
            StmtKind::Call { function, args } => {
                self.forget();
                externals::call(self, function, args, places)?;
                self.forget();
                Ok(())
            }
            StmtKind::Reduce(_) | StmtKind::Compute(_) => {
                Err(defect("a statement that is gone after lowering"))
            }
            StmtKind::Atomic(a) => {
                self.forget();
                self.atomic(a)?;
                self.stmt(&a.body)
            }
            // Lanes would ask for one line many times.
            StmtKind::Prefetch(_) if self.frame.lanes.is_some() || self.kernel => Ok(()),
            StmtKind::Prefetch(a) => {
                self.forget();
                let place = self.place(a)?;
                self.prefetch(&place);
                Ok(())
            }
            StmtKind::Barrier { of, .. } if self.kernel => {
                self.forget();
                self.wait_for_copies(s);
                if self.device.rank == Some(*of) {
                    self.wait_for_cluster();
                    return Ok(());
                }
                let all = self.ir.i32(0);
                self.ir.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", &[], &[all]);
                Ok(())
            }
            StmtKind::Barrier { .. } => Err(unsupported("a barrier", places)),
            StmtKind::Token { .. } | StmtKind::Async { .. } | StmtKind::Wait { .. } => {
                Err(unsupported("an asynchronous statement", places))
            }
        }
    }

    /// Names in a row; nothing is written between them, so their values share what they have in common.
    fn lets(&mut self, s: &Stmt) -> Result<()> {
        self.forget();
        let mut marks = Vec::new();
        let mut inside = s;
        while let Some((binder, value, body)) = inside.as_let() {
            let v = self.scalar(value)?;
            self.frame.vars.insert(binder.id, v);
            marks.push(self.ranges.enter_child(inside, 0));
            inside = body;
        }
        let out = self.stmt(inside);
        marks.into_iter().rev().for_each(|mark| self.ranges.leave(mark));
        out
    }

    pub fn run_loop(&mut self, l: &lathe_ir::Loop, places: &Places) -> Result<()> {
        match &l.exec {
            Executor::Serial => loops::serial(self, l, places),
            Executor::Unrolled => loops::unrolled(self, l, places),
            Executor::Vector(w) => loops::vector(self, l, *w, places),
            Executor::InScan(w) => inscan::run(self, l, *w, places),
            Executor::Cpu => parallel::cpu_loop(self, l, places),
            other => {
                let name = match other {
                    Executor::Level(n) => n.to_string(),
                    _ => format!("{other:?}").to_lowercase(),
                };
                let what = format!("loop `{}`, run by `{name}`", l.binder.name);
                Err(unsupported(&what, places).help("CPUs run `cpu`, `vector` and `serial` loops"))
            }
        }
    }

    /// Emits one branch of an `if`, with what its condition says.
    pub fn child(
        &mut self,
        s: &Stmt,
        child: usize,
        emit: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let mark = self.ranges.enter_child(s, child);
        let out = emit(self);
        self.ranges.leave(mark);
        out
    }

    /// Begins a statement: values of the last one are not shared, since memory may have changed.
    pub fn forget(&mut self) {
        self.frame.memo = vec![HashMap::new()];
    }

    fn collision(&self, label: &lathe_ir::Label, places: &Places) -> Diagnostic {
        Diagnostic::error(
            codes::LANES_COLLIDE,
            format!("all lanes of a vector loop would write one element in `{label}`"),
        )
        .at_places(places, "the target does not depend on the vector loop")
        .help("split the reduction into one partial result per lane first (`factor`), or vectorize another loop")
    }

    fn store(&mut self, st: &Store, places: &Places) -> Result<()> {
        let v = self.expr(&st.value)?;
        let place = self.place(&st.target)?;
        if self.is_shared(&place) {
            return Err(self.collision(&st.label, places));
        }
        self.store_place(&place, &v, st.nontemporal);
        Ok(())
    }

    /// Emits a body for the lanes where `cond` holds, jumping over it if there are none.
    fn masked(&mut self, cond: crate::ir::Value, body: &Stmt) -> Result<()> {
        let Some(l) = self.frame.lanes else { return Err(defect("a lane mask outside of a vector loop")) };
        let any = self.any_lane(cond);
        let (then, join) = (self.block("lanes"), self.block("join"));
        self.ir.cond_br(any, then, join);
        self.ir.at_end(then);
        let mask = l.mask.map_or(cond, |m| self.ir.and(m, cond));
        self.frame.lanes =
            Some(Lanes { mask: Some(mask), first: None, count: None, maybe_empty: false, ..l });
        self.stmt(body)?;
        self.frame.lanes = Some(l);
        self.ir.br(join);
        self.ir.at_end(join);
        Ok(())
    }

    fn branch(&mut self, s: &Stmt, cond: &Expr, then: &Stmt, other: Option<&Stmt>) -> Result<()> {
        let ir = self.ir;
        match self.scalar(cond)? {
            Leaf::Uniform(c) => {
                let (yes, no, join) = (self.block("then"), self.block("else"), self.block("join"));
                ir.cond_br(c, yes, no);
                ir.at_end(yes);
                self.child(s, 0, |e| e.stmt(then))?;
                ir.br(join);
                ir.at_end(no);
                if let Some(other) = other {
                    self.stmt(other)?;
                }
                ir.br(join);
                ir.at_end(join);
                Ok(())
            }
            c => {
                let c = c.at(ir, self.width());
                self.child(s, 0, |e| e.masked(c, then))?;
                match other {
                    Some(other) => self.masked(ir.not(c), other),
                    None => Ok(()),
                }
            }
        }
    }
}
