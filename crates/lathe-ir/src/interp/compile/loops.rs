//! Loops to instructions: one iteration after the other, or forked.

use super::*;

impl<'m> Compiler<'m> {
    pub(in crate::interp) fn bad_barrier(&self, why: &str) -> Diagnostic {
        self.at_site(Diagnostic::error(codes::BARRIER, "a barrier is not allowed here").note(why))
            .help("a barrier names a parallel loop around it, and every iteration must reach it")
    }

    pub(in crate::interp) fn loop_stmt(&mut self, l: &Loop, places: &Places) -> Result<(), Diagnostic> {
        self.begin_plain("the bounds of a loop", &[&l.lo, &l.hi], places);
        if l.step <= 0 {
            return Err(self.malformed("a loop whose step is not positive"));
        }
        let (lo, hi, step) = (self.expr(&l.lo)?, self.expr(&l.hi)?, self.constant(l.step as u64));
        if let Executor::Vector(width) = l.exec {
            self.emit(Instr::Width { lo, hi, step, width });
        }
        // Iterations that wait for one another are tasks.
        let mut tasks = false;
        walk(&l.body, &mut |s, _| {
            tasks |= matches!(s.kind(), StmtKind::Barrier { .. }) || is_spin(s) || is_turn(s);
            !matches!(s.kind(), StmtKind::Async { .. })
        });
        if tasks && !l.exec.is_ordered() {
            return self.forked_loop(l, lo, hi);
        }
        self.plain_loop(l, lo, hi, step)
    }

    pub(in crate::interp) fn plain_loop(
        &mut self,
        l: &Loop,
        lo: Reg,
        hi: Reg,
        step: Reg,
    ) -> Result<(), Diagnostic> {
        let parallel = !l.exec.is_ordered();
        let shuffled = parallel && matches!(self.flavour.order, Order::Seed(_));
        let traced = parallel && self.flavour.races;
        let i = self.bind(l.binder.id, 1);
        if traced {
            let executor = self.executor(&l.exec.name());
            self.emit(Instr::EnterParallel { executor });
        }
        let head = if shuffled {
            self.emit(Instr::Shuffle { lo, hi, step });
            self.emit(Instr::Draw { i, to: 0 })
        } else {
            self.emit(Instr::Move { d: i, a: lo });
            self.emit(Instr::JumpGe { a: i, b: hi, to: 0 })
        };
        let body = self.here();
        if traced {
            self.emit(Instr::Iteration { i });
        }
        self.loops.push((l.binder.name.clone(), i));
        let holds = parallel && !matches!(l.exec, Executor::Vector(_));
        self.holders.extend(holds.then(|| (l.binder.name.clone(), i)));
        let site = self.site;
        if parallel {
            self.in_strand(|c| c.stmt(&l.body))?;
        } else {
            self.stmt(&l.body)?;
        }
        self.site = site;
        self.loops.pop();
        if holds {
            self.holders.pop();
        }
        if shuffled {
            self.emit(Instr::Step);
            self.emit(Instr::Jump { to: head });
        } else {
            self.emit(Instr::Next { i, hi, step, to: body });
        }
        self.patch(head);
        if traced {
            self.emit(Instr::LeaveParallel);
        }
        Ok(())
    }

    /// A loop whose iterations wait for one another: they are tasks.
    pub(in crate::interp) fn forked_loop(&mut self, l: &Loop, lo: Reg, hi: Reg) -> Result<(), Diagnostic> {
        let i = self.bind(l.binder.id, 1);
        let fork = self.routine.forks.len() as u32;
        let name = l.binder.name.clone();
        let of = l.binder.id;
        let executor = self.executor(&l.exec.name());
        let code = ForkCode { of, executor, name: name.clone(), i, lo, hi, step: l.step, body: 0 };
        self.routine.forks.push(code);
        self.emit(Instr::Fork { fork });
        let over = self.emit(Instr::Jump { to: 0 });
        self.routine.forks[fork as usize].body = self.here();
        self.loops.push((name.clone(), i));
        self.holders.push((name, i));
        self.forked.push(of);
        self.in_strand(|c| c.stmt(&l.body))?;
        self.forked.pop();
        self.holders.pop();
        self.loops.pop();
        self.emit(Instr::EndTask);
        self.patch(over);
        Ok(())
    }

    /// A serial loop over a dimension of a compute; the body is made by `body`.
    pub(in crate::interp) fn count_loop(
        &mut self,
        dim: &crate::stmt::Dim,
        body: &mut dyn FnMut(&mut Self) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        if dim.binder.ty != Scalar::Index {
            return Err(self.malformed("a dimension whose index is not of type `index`"));
        }
        self.fresh_scope();
        let (lo, hi, step) = (self.expr(&dim.lo)?, self.expr(&dim.hi)?, self.constant(1));
        let i = self.bind(dim.binder.id, 1);
        self.emit(Instr::Move { d: i, a: lo });
        let head = self.emit(Instr::JumpGe { a: i, b: hi, to: 0 });
        let start = self.here();
        body(self)?;
        self.emit(Instr::Next { i, hi, step, to: start });
        self.patch(head);
        Ok(())
    }

    pub(in crate::interp) fn module(&self) -> &'m Module {
        self.module
    }
}
