//! Expressions to instructions: each shared node once, equal computations once, selects lazily.

use super::code::{AccessCode, ArgCode, CallCode, HeldCode, Instr, Reg, Scope, ViewCode, leaf_count};
use super::compile::Compiler;
use crate::buffer::Space;
use crate::expr::{Access, Expr, ExprKind, View};
use crate::ops::{BinOp, MathFn, UnOp};
use crate::types::{Name, Scalar, Type};
use lathe_diagnostics::Diagnostic;
use std::collections::HashSet;

impl Compiler<'_> {
    /// Code that computes an expression; its leaves are in consecutive registers from the result on.
    pub(super) fn expr(&mut self, e: &Expr) -> Result<Reg, Diagnostic> {
        if let Some(r) = self.scopes.iter().rev().find_map(|s| s.nodes.get(&e.address())) {
            return Ok(*r);
        }
        let r = self.fresh_expr(e)?;
        // The address stays unique as long as the node lives.
        self.keep.push(e.clone());
        if let Some(s) = self.scopes.last_mut() {
            s.nodes.insert(e.address(), r);
        }
        Ok(r)
    }

    fn fresh_expr(&mut self, e: &Expr) -> Result<Reg, Diagnostic> {
        match e.kind() {
            ExprKind::Bool(v) => Ok(self.constant(u64::from(*v))),
            ExprKind::Int(v) => Ok(self.constant(*v as u64)),
            ExprKind::Float(v) => {
                let ty = self.scalar(e)?;
                Ok(self.constant(crate::scalar::of_f64(ty, v.get())))
            }
            ExprKind::Var(v) => match self.vars.get(v) {
                Some(r) => Ok(*r),
                None => Err(self.malformed("a variable that is not in scope")),
            },
            ExprKind::Unary(op, a) => self.unary(*op, a),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b),
            ExprKind::Select(c, a, b) => self.select(c, a, b),
            ExprKind::Cast(a) => {
                let (from, to, r) = (self.scalar(a)?, self.scalar(e)?, self.expr(a)?);
                Ok(self.value(|d| Instr::Cast { from, to, d, a: r }))
            }
            ExprKind::Bitcast(a) => {
                let (from, to, r) = (self.scalar(a)?, self.scalar(e)?, self.expr(a)?);
                if from.bits() != to.bits() {
                    return Err(self.malformed("a bitcast between different widths"));
                }
                Ok(self.value(|d| Instr::Bitcast { from, to, d, a: r }))
            }
            ExprKind::Math(f, args) => self.math(*f, args),
            ExprKind::Load(a) => self.load(a),
            ExprKind::Address(a) => {
                let access = self.access(a)?;
                Ok(self.value(|d| Instr::Address { d, access }))
            }
            ExprKind::Aggregate(parts) => {
                let mut leaves = Vec::new();
                for p in parts {
                    let r = self.expr(p)?;
                    leaves.extend((0..leaf_count(p.ty())).map(|i| r + i));
                }
                let d = self.alloc(leaves.len() as u32);
                for (i, a) in leaves.into_iter().enumerate() {
                    self.emit(Instr::Move { d: d + i as u32, a });
                }
                Ok(d)
            }
            ExprKind::Field(a, i) => {
                let fields = a.ty().fields();
                if *i as usize >= fields.len() {
                    return Err(self.malformed("a component that does not exist in its type"));
                }
                let before: u32 = fields[..*i as usize].iter().map(leaf_count).sum();
                Ok(self.expr(a)? + before)
            }
            ExprKind::Call(name, args) => self.call_expr(name, args, e.ty()),
        }
    }

    pub(super) fn scalar(&self, e: &Expr) -> Result<Scalar, Diagnostic> {
        e.ty().scalar().ok_or_else(|| self.malformed("an aggregate where a scalar is expected"))
    }

    /// Emits a pure one-register instruction unless an equal one was emitted already.
    pub(super) fn value(&mut self, make: impl Fn(Reg) -> Instr) -> Reg {
        let key = make(0);
        if let Some(r) = self.scopes.iter().rev().find_map(|s| s.values.get(&key)) {
            return *r;
        }
        let d = self.alloc(1);
        self.emit(make(d));
        if let Some(s) = self.scopes.last_mut() {
            s.values.insert(key, d);
        }
        d
    }

    fn unary(&mut self, op: UnOp, a: &Expr) -> Result<Reg, Diagnostic> {
        let (ty, a) = (self.scalar(a)?, self.expr(a)?);
        Ok(self.value(|d| Instr::Unary { op, ty, d, a }))
    }

    fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Result<Reg, Diagnostic> {
        let ty = self.scalar(a)?;
        if self.scalar(b)? != ty {
            return Err(self.malformed("operands of different types"));
        }
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        Ok(self.value(|d| match (op, ty) {
            (BinOp::Add, Scalar::Index) => Instr::AddIndex { d, a, b },
            (BinOp::Mul, Scalar::Index) => Instr::MulIndex { d, a, b },
            (BinOp::Add, Scalar::F32) => Instr::AddF32 { d, a, b },
            (BinOp::Mul, Scalar::F32) => Instr::MulF32 { d, a, b },
            (BinOp::Add, Scalar::F64) => Instr::AddF64 { d, a, b },
            (BinOp::Mul, Scalar::F64) => Instr::MulF64 { d, a, b },
            _ => Instr::Binary { op, ty, d, a, b },
        }))
    }

    fn math(&mut self, f: MathFn, args: &[Expr]) -> Result<Reg, Diagnostic> {
        if args.len() != f.arity() {
            return Err(self.malformed("a math function with a wrong number of arguments"));
        }
        if !f.is_exact() {
            return Err(self.malformed("a math function that has no expansion on its type"));
        }
        let ty = self.scalar(&args[0])?;
        let regs = args.iter().map(|a| self.expr(a)).collect::<Result<Vec<_>, _>>()?;
        match regs[..] {
            [a, b, c] if ty.is_float() => Ok(self.value(|d| Instr::Fma { ty, d, a, b, c })),
            [a] if ty.is_float() || f == MathFn::Abs => Ok(self.value(|d| Instr::Math { f, ty, d, a })),
            _ => Err(self.malformed("a math function on integers")),
        }
    }

    fn select(&mut self, c: &Expr, a: &Expr, b: &Expr) -> Result<Reg, Diagnostic> {
        let n = leaf_count(a.ty());
        let cond = self.expr(c)?;
        if n == 1 && self.cannot_fail(a) && self.cannot_fail(b) {
            let (a, b) = (self.expr(a)?, self.expr(b)?);
            return Ok(self.value(|d| Instr::Select { d, c: cond, a, b }));
        }
        // What both branches surely need is computed before them: nested selects over shared nodes
        // would else double the code at each level.
        let needed = surely_needed(a);
        for node in needed_by_both(b, &needed) {
            self.expr(&node)?;
        }
        let d = self.alloc(n);
        let to_other = self.emit(Instr::JumpUnless { c: cond, to: 0 });
        self.branch(a, d, n)?;
        let to_end = self.emit(Instr::Jump { to: 0 });
        self.patch(to_other);
        self.branch(b, d, n)?;
        self.patch(to_end);
        Ok(d)
    }

    fn branch(&mut self, e: &Expr, d: Reg, n: u32) -> Result<(), Diagnostic> {
        self.scopes.push(Scope::default());
        // What could fail when it was looked at may have been computed since.
        self.safe.retain(|_, safe| *safe);
        let r = self.expr(e);
        self.scopes.pop();
        let r = r?;
        for i in 0..n {
            self.emit(Instr::Move { d: d + i, a: r + i });
        }
        Ok(())
    }

    /// Whether evaluating it can neither fail nor touch memory, so that laziness does not matter. What
    /// has been computed already cannot fail any more.
    fn cannot_fail(&mut self, e: &Expr) -> bool {
        if self.scopes.iter().any(|s| s.nodes.contains_key(&e.address())) {
            return true;
        }
        if let Some(known) = self.safe.get(&e.address()) {
            return *known;
        }
        let here = match e.kind() {
            ExprKind::Load(_) | ExprKind::Address(_) | ExprKind::Call(..) | ExprKind::Aggregate(_) => false,
            ExprKind::Unary(op, _) => !(e.ty().is_index() && *op == UnOp::Neg),
            ExprKind::Binary(op, a, b) => {
                use BinOp::*;
                match op {
                    FloorDiv | FloorMod | TruncDiv | TruncRem => {
                        !e.ty().is_index() && b.as_int().is_some_and(|v| v != 0)
                    }
                    Add | Sub | Mul | Shl => !a.ty().is_index(),
                    _ => true,
                }
            }
            ExprKind::Cast(a) => !(e.ty().is_index() && a.ty().scalar() == Some(Scalar::U64)),
            ExprKind::Math(..) => !e.ty().is_index(),
            _ => true,
        };
        let safe = here && e.children().into_iter().all(|c| self.cannot_fail(c));
        self.keep.push(e.clone());
        self.safe.insert(e.address(), safe);
        safe
    }

    /// The code of a load. Loads are pure within one statement: nothing is written before all its
    /// expressions are computed.
    fn load(&mut self, a: &Access) -> Result<Reg, Diagnostic> {
        let access = self.access(a)?;
        match a.elem.scalar() {
            Some(ty) => Ok(self.value(|d| Instr::Load { ty, d, access })),
            None => {
                let d = self.alloc(leaf_count(&a.elem));
                self.emit(Instr::LoadMany { d, access });
                Ok(d)
            }
        }
    }

    /// Stores consecutive registers through an access that is already compiled.
    pub(super) fn store(&mut self, access: u32, elem: &Type, a: Reg) {
        match elem.scalar() {
            Some(ty) => self.emit(Instr::Store { ty, a, access }),
            None => self.emit(Instr::StoreMany { a, access }),
        };
    }

    /// Loads again through an access that is already compiled (the old value of a reduction).
    pub(super) fn load_through(&mut self, access: u32, elem: &Type) -> Reg {
        let d = self.alloc(leaf_count(elem));
        match elem.scalar() {
            Some(ty) => self.emit(Instr::Load { ty, d, access }),
            None => self.emit(Instr::LoadMany { d, access }),
        };
        d
    }

    /// Code for the subscripts of an access; the number of its entry.
    pub(super) fn access(&mut self, a: &Access) -> Result<u32, Diagnostic> {
        let index = a.indices.iter().map(|i| self.expr(i)).collect::<Result<Vec<_>, _>>()?;
        let (slot, index) = self.resolve(&a.view, &a.elem, index)?;
        let key = (slot, index.clone(), a.elem.clone());
        if let Some(known) = self.access_keys.get(&key) {
            return Ok(*known);
        }
        let held = self.held(slot, &index)?;
        let id = self.routine.accesses.len() as u32;
        self.routine.accesses.push(AccessCode {
            slot,
            index: index.into(),
            held,
            leaves: super::array::leaf_offsets(&a.elem).into(),
            bytes: a.elem.bytes(),
            places: a.places.clone(),
            counted: self.spaces.get(&slot) != Some(&Space::Register),
            atomic: None,
        });
        self.access_keys.insert(key, id);
        Ok(id)
    }

    /// Who has the element of a distributed array.
    fn held(&mut self, slot: u32, index: &[Reg]) -> Result<Option<Box<HeldCode>>, Diagnostic> {
        let Some((buffer, outside)) = self.distributed.get(&slot).cloned() else { return Ok(None) };
        let subscripts = index.iter().map(|r| self.stand_in(&Type::Scalar(Scalar::Index), *r)).collect();
        let Ok(dims) = crate::lower::laid(&buffer, subscripts) else {
            return Err(self.malformed("a layout that does not fit its array"));
        };
        let around: Box<[(Name, Reg)]> = self.holders.get(outside..).unwrap_or_default().into();
        let mut owners = Vec::new();
        for d in dims {
            let Some(over) = d.over else { continue };
            let iteration = self.expr(&d.index)?;
            let holder = around.iter().rev().find(|l| l.0 == over).map(|l| l.1);
            owners.push((over, iteration, holder));
        }
        Ok(Some(Box::new(HeldCode { owners: owners.into(), around })))
    }

    /// Looks through slices and reshapes: a slot and subscripts into it.
    fn resolve(&mut self, view: &View, elem: &Type, index: Vec<Reg>) -> Result<(u32, Vec<Reg>), Diagnostic> {
        match view {
            View::Buffer(b) => match self.bufs.get(b) {
                Some(slot) => Ok((*slot, index)),
                None => Err(self.malformed("a buffer that is not in scope")),
            },
            View::Slice { base, offsets, steps } => {
                if offsets.len() != index.len() || steps.len() != index.len() {
                    return Err(self.malformed("a slice with a wrong number of dimensions"));
                }
                let mut inner = Vec::new();
                for ((offset, step), i) in offsets.iter().zip(steps).zip(index) {
                    let (offset, step) = (self.expr(offset)?, self.constant(*step as u64));
                    let scaled = self.value(|d| Instr::MulIndex { d, a: i, b: step });
                    inner.push(self.value(|d| Instr::AddIndex { d, a: scaled, b: offset }));
                }
                self.resolve(base, elem, inner)
            }
            View::Reshape { base, extents } => {
                if extents.len() != index.len() {
                    return Err(self.malformed("a reshape with a wrong number of dimensions"));
                }
                let mut linear = self.constant(0);
                for (dim, (e, i)) in extents.iter().zip(index).enumerate() {
                    let e = self.expr(e)?;
                    self.emit(Instr::Within { a: i, b: e, dim: dim as u32 });
                    let scaled = self.value(|d| Instr::MulIndex { d, a: linear, b: e });
                    linear = self.value(|d| Instr::AddIndex { d, a: scaled, b: i });
                }
                self.resolve(base, elem, vec![linear])
            }
            View::Reinterpret { .. } | View::Deref { .. } => Ok((self.view_slot(view, elem)?, index)),
            View::Global(name) => Ok((self.global_slot(name)?, index)),
        }
    }

    /// A slot that holds the view as a buffer of its own (for calls, reinterpreted bytes and pointers); `elem` is the
    /// type of its elements.
    pub(super) fn view_slot(&mut self, view: &View, elem: &Type) -> Result<u32, Diagnostic> {
        let (from, code) = match view {
            View::Buffer(b) => {
                let slot = self.bufs.get(b).copied();
                return slot.ok_or_else(|| self.malformed("a buffer that is not in scope"));
            }
            View::Global(name) => return self.global_slot(name),
            View::Deref { pointer, class } => {
                let pointer = self.expr(pointer)?;
                let slot = self.new_slot(class, Space::Host);
                let (elem_bytes, align, class) = (elem.bytes(), elem.align(), class.clone());
                return Ok(self.made_view(slot, ViewCode::Deref { pointer, class, elem_bytes, align }));
            }
            View::Slice { base, offsets, steps } => {
                let from = self.view_slot(base, elem)?;
                let offsets = offsets.iter().map(|e| self.expr(e)).collect::<Result<Vec<_>, _>>()?;
                (from, ViewCode::Slice { from, offsets, steps: steps.clone() })
            }
            View::Reshape { base, extents } => {
                let from = self.view_slot(base, elem)?;
                let extents = extents.iter().map(|e| self.expr(e)).collect::<Result<Vec<_>, _>>()?;
                (from, ViewCode::Reshape { from, extents })
            }
            View::Reinterpret { base, elem: seen, align } => {
                // Below a pointer, bytes.
                let from = self.view_slot(base, &Scalar::U8.into())?;
                (from, ViewCode::Reinterpret { from, elem_bytes: seen.bytes(), align: *align })
            }
        };
        let name = self.routine.slot_names[from as usize].clone();
        let slot = self.new_slot(&name, self.spaces.get(&from).copied().unwrap_or(Space::Host));
        Ok(self.made_view(slot, code))
    }

    fn made_view(&mut self, slot: u32, code: ViewCode) -> u32 {
        self.routine.views.push((slot, code));
        let view = self.routine.views.len() as u32 - 1;
        self.emit(Instr::View { view });
        slot
    }

    fn global_slot(&mut self, name: &Name) -> Result<u32, Diagnostic> {
        if let Some((slot, _)) = self.routine.globals.iter().find(|g| g.1 == *name) {
            return Ok(*slot);
        }
        let Some(global) = self.module().globals.get(name) else {
            return Err(self.malformed("a global that the module does not have"));
        };
        let slot = self.new_slot(name, global.space);
        self.routine.globals.push((slot, name.clone()));
        Ok(slot)
    }

    fn call_expr(&mut self, name: &str, args: &[Expr], ty: &Type) -> Result<Reg, Diagnostic> {
        let (routine, _, summary) = self.routine_of(name)?;
        let mut code = Vec::new();
        for a in args {
            code.push(ArgCode::Value(self.expr(a)?, a.ty().clone()));
        }
        let result = self.alloc(leaf_count(ty));
        self.routine.calls.push(CallCode { routine, args: code, result: Some(result), summary });
        let call = self.routine.calls.len() as u32 - 1;
        self.emit(Instr::Call { call });
        Ok(result)
    }
}

/// Children that are computed whenever the node is: all but the branches of a select.
fn strict_children(e: &Expr) -> Vec<&Expr> {
    match e.kind() {
        ExprKind::Select(c, ..) => vec![c],
        _ => e.children(),
    }
}

fn surely_needed(e: &Expr) -> HashSet<usize> {
    let mut seen = HashSet::new();
    let mut work = vec![e];
    while let Some(x) = work.pop() {
        if seen.insert(x.address()) {
            work.extend(strict_children(x));
        }
    }
    seen
}

/// The topmost inner nodes that `e` surely needs and that are in `other`.
fn needed_by_both(e: &Expr, other: &HashSet<usize>) -> Vec<Expr> {
    let mut out = Vec::new();
    let mut seen = HashSet::new();
    let mut work = vec![e];
    while let Some(x) = work.pop() {
        if !seen.insert(x.address()) {
            continue;
        }
        if other.contains(&x.address()) {
            out.push(x.clone());
        } else {
            work.extend(strict_children(x));
        }
    }
    out
}
