//! Computes to instructions. This is what a `compute` means: for all indices of the concatenated
//! dimensions, in order, the values over the reduced dimensions, in lexicographic order, are combined
//! from the identity (or from the first value, where there is none) into the targets. A scan goes in
//! order over its dimension, with the reduced ones inside, and stores after each step.

use super::code::{Instr, Reg};
use super::compile::Compiler;
use crate::build::{field, var};
use crate::ops::ReduceOp;
use crate::reduce;
use crate::stmt::{Combine, Compute, Dim};
use crate::types::Type;
use lathe_diagnostics::{Diagnostic, Places};

/// The running value of a reduction: registers per target, and, for operators without identity, a
/// flag that says whether there is a value yet.
struct Running {
    regs: Vec<Reg>,
    started: Option<Reg>,
}

impl Compiler<'_> {
    pub(super) fn compute_stmt(&mut self, c: &Compute, places: &Places) -> Result<(), Diagnostic> {
        let of = |want: fn(&Combine) -> bool| c.dims.iter().filter(move |d| want(&d.combine));
        let free: Vec<&Dim> = of(|k| *k == Combine::Concat).collect();
        let scans: Vec<&Dim> = of(|k| matches!(k, Combine::Scan(_))).collect();
        let reduced: Vec<&Dim> = of(|k| matches!(k, Combine::Reduce(_))).collect();
        let indices: Vec<_> = c.dims.iter().map(|d| var(&d.binder)).collect();
        self.fresh_scope();
        self.enter_site(Some(&c.label), "a compute", &indices, places);
        if scans.len() > 1 {
            return Err(self.unsupported(
                "a compute with two scanned dimensions",
                "write one compute per scanned dimension",
            ));
        }
        let mut ops = c.dims.iter().filter_map(|d| match &d.combine {
            Combine::Concat => None,
            Combine::Reduce(op) | Combine::Scan(op) => Some(op),
        });
        let op = ops.next();
        if ops.any(|o| Some(o) != op) {
            return Err(self.malformed("a compute whose dimensions have different operators"));
        }
        let scan = scans.first().copied();
        self.free_dims(&free, &mut |this| match op {
            None => this.point(c),
            Some(op) => this.reduction(c, op, scan, &reduced),
        })
    }

    fn free_dims(
        &mut self,
        dims: &[&Dim],
        body: &mut dyn FnMut(&mut Self) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        match dims.split_first() {
            None => body(self),
            Some((d, rest)) => self.count_loop(d, &mut |this| this.free_dims(rest, body)),
        }
    }

    /// One instance: `body` is skipped where the guard does not hold.
    fn guarded(
        &mut self,
        c: &Compute,
        body: &mut dyn FnMut(&mut Self) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        self.fresh_scope();
        self.name_instance();
        let Some(guard) = &c.guard else { return body(self) };
        let holds = self.expr(guard)?;
        let skip = self.emit(Instr::JumpUnless { c: holds, to: 0 });
        body(self)?;
        self.patch(skip);
        Ok(())
    }

    fn values(&mut self, c: &Compute) -> Result<Vec<Reg>, Diagnostic> {
        let values = c.values.iter().map(|v| self.expr(v)).collect::<Result<Vec<_>, _>>()?;
        let types = types(c);
        if values.len() == types.len() {
            return Ok(values);
        }
        // One value of an aggregate type for a target per component.
        match &c.values[..] {
            [v] if v.ty().fields() == types => {
                (0..types.len() as u32).map(|i| self.expr(&field(v.clone(), i))).collect()
            }
            _ => Err(self.malformed("a compute whose values do not fit its targets")),
        }
    }

    /// No dimension is combined: a store, or an update of each cell.
    fn point(&mut self, c: &Compute) -> Result<(), Diagnostic> {
        self.guarded(c, &mut |this| {
            let values = this.values(c)?;
            this.write(c, values)
        })
    }

    /// Writes values to the targets, through the compute's update.
    fn write(&mut self, c: &Compute, mut values: Vec<Reg>) -> Result<(), Diagnostic> {
        let types = types(c);
        let accesses = c.targets.iter().map(|t| self.access(t)).collect::<Result<Vec<_>, _>>()?;
        if let Some(op) = &c.update {
            let old: Vec<Reg> = accesses.iter().zip(&types).map(|(a, t)| self.load_through(*a, t)).collect();
            values = self.combined(op, &types, &old, &values)?;
        }
        for ((access, ty), v) in accesses.into_iter().zip(&types).zip(values) {
            self.store(access, ty, v);
        }
        Ok(())
    }

    fn reduction(
        &mut self,
        c: &Compute,
        op: &ReduceOp,
        scan: Option<&Dim>,
        reduced: &[&Dim],
    ) -> Result<(), Diagnostic> {
        let types = types(c);
        // An update by the operator itself goes on from the old value.
        let from_old = scan.is_none() && c.update.as_ref() == Some(op);
        let mut running = self.start(op, &types)?;
        if from_old {
            running.started = None;
            self.fresh_scope();
            self.name_instance();
            for (k, (target, ty)) in c.targets.iter().zip(&types).enumerate() {
                let access = self.access(target)?;
                let old = self.load_through(access, ty);
                self.assign(running.regs[k], old, ty);
            }
        }
        let plain = Compute { update: None, ..c.clone() };
        let stored = if from_old { &plain } else { c };
        match scan {
            None => {
                self.fold(c, op, &types, &running, reduced)?;
                self.finish(stored, &running)
            }
            Some(s) => self.count_loop(s, &mut |this| {
                this.fold(c, op, &types, &running, reduced)?;
                this.finish(stored, &running)
            }),
        }
    }

    fn start(&mut self, op: &ReduceOp, types: &[Type]) -> Result<Running, Diagnostic> {
        let regs = types.iter().map(|t| self.alloc(super::code::leaf_count(t))).collect::<Vec<_>>();
        self.fresh_scope();
        match reduce::identity(self.module(), op, types) {
            Some(start) => {
                for ((d, e), t) in regs.iter().zip(&start).zip(types) {
                    let r = self.expr(&crate::math::expand_expr(e))?;
                    self.assign(*d, r, t);
                }
                Ok(Running { regs, started: None })
            }
            None => {
                let started = self.alloc(1);
                let no = self.constant(0);
                self.emit(Instr::Move { d: started, a: no });
                Ok(Running { regs, started: Some(started) })
            }
        }
    }

    /// Combines one value per instance of the reduced dimensions into the running value.
    fn fold(
        &mut self,
        c: &Compute,
        op: &ReduceOp,
        types: &[Type],
        running: &Running,
        reduced: &[&Dim],
    ) -> Result<(), Diagnostic> {
        self.free_dims(reduced, &mut |this| {
            this.guarded(c, &mut |this| {
                let values = this.values(c)?;
                let Some(started) = running.started else {
                    return this.combine_into(op, types, &running.regs, &values);
                };
                let first = this.emit(Instr::JumpUnless { c: started, to: 0 });
                this.combine_into(op, types, &running.regs, &values)?;
                let end = this.emit(Instr::Jump { to: 0 });
                this.patch(first);
                for ((d, v), t) in running.regs.iter().zip(&values).zip(types) {
                    this.assign(*d, *v, t);
                }
                let yes = this.constant(1);
                this.emit(Instr::Move { d: started, a: yes });
                this.patch(end);
                Ok(())
            })
        })
    }

    fn combine_into(
        &mut self,
        op: &ReduceOp,
        types: &[Type],
        into: &[Reg],
        values: &[Reg],
    ) -> Result<(), Diagnostic> {
        let mut sum = self.combined(op, types, into, values)?;
        if types.len() > 1 {
            // All results before the first assignment: one may be the other's operand.
            for (v, t) in sum.iter_mut().zip(types) {
                let copy = self.alloc(super::code::leaf_count(t));
                self.assign(copy, *v, t);
                *v = copy;
            }
        }
        for ((d, v), t) in into.iter().zip(sum).zip(types) {
            self.assign(*d, v, t);
        }
        Ok(())
    }

    fn finish(&mut self, c: &Compute, running: &Running) -> Result<(), Diagnostic> {
        self.fresh_scope();
        self.name_instance();
        if let Some(started) = running.started {
            let fine = self.emit(Instr::JumpIf { c: started, to: 0 });
            self.emit(Instr::EmptyReduction);
            self.patch(fine);
        }
        self.write(c, running.regs.clone())
    }

    fn assign(&mut self, d: Reg, a: Reg, ty: &Type) {
        for i in 0..super::code::leaf_count(ty) {
            self.emit(Instr::Move { d: d + i, a: a + i });
        }
    }
}

fn types(c: &Compute) -> Vec<Type> {
    c.targets.iter().map(|t| t.elem.clone()).collect()
}
