//! Atomics: the machine's instruction where it has one for the type, else a loop around compare-and-swap.

use crate::emit::{Emitter, Result, defect};
use crate::ir::{Ty, Value};
use crate::value::Leaf;
use lathe_ir::stmt::{Atomic, AtomicOp, MemoryOrder};
use lathe_ir::{ReduceOp, Scalar};
use llvm_sys::LLVMAtomicOrdering as O;
use llvm_sys::LLVMAtomicRMWBinOp as Rmw;
use llvm_sys::LLVMIntPredicate as I;

/// LLVM's name of an order, and of the order that a failed exchange has.
fn orders(order: MemoryOrder) -> (O, O) {
    use O::*;
    match order {
        MemoryOrder::Relaxed | MemoryOrder::InOrder => {
            (LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic)
        }
        MemoryOrder::Acquire => (LLVMAtomicOrderingAcquire, LLVMAtomicOrderingAcquire),
        MemoryOrder::Release => (LLVMAtomicOrderingRelease, LLVMAtomicOrderingMonotonic),
        MemoryOrder::AcqRel => (LLVMAtomicOrderingAcquireRelease, LLVMAtomicOrderingAcquire),
        MemoryOrder::SeqCst => {
            (LLVMAtomicOrderingSequentiallyConsistent, LLVMAtomicOrderingSequentiallyConsistent)
        }
    }
}

/// The instruction that combines integers in memory.
fn instruction(op: &ReduceOp, s: Scalar) -> Option<Rmw> {
    use Rmw::*;
    Some(match op {
        ReduceOp::Sum if s.is_int() => LLVMAtomicRMWBinOpAdd,
        ReduceOp::Min if s.is_int() && s.is_signed() => LLVMAtomicRMWBinOpMin,
        ReduceOp::Max if s.is_int() && s.is_signed() => LLVMAtomicRMWBinOpMax,
        ReduceOp::Min if s.is_int() => LLVMAtomicRMWBinOpUMin,
        ReduceOp::Max if s.is_int() => LLVMAtomicRMWBinOpUMax,
        ReduceOp::All if s == Scalar::Bool => LLVMAtomicRMWBinOpAnd,
        ReduceOp::Any if s == Scalar::Bool => LLVMAtomicRMWBinOpOr,
        _ => return None,
    })
}

impl Emitter<'_> {
    /// The access itself; what it found is bound for the statements inside.
    pub fn atomic(&mut self, a: &Atomic) -> Result<()> {
        let ir = self.ir;
        let s = a.target.elem.scalar().ok_or_else(|| defect("an atomic on several scalars"))?;
        let mut values = Vec::new();
        let mut failed = None;
        a.op.for_each_expr(&mut |e| match self.scalar(e) {
            Ok(v) => values.push(v.at(self.ir, None)),
            Err(d) => failed = Some(d),
        });
        if let Some(d) = failed {
            return Err(d);
        }
        let place = self.place(&a.target)?;
        let Some(at) = self.address(&place, s) else { return Err(defect("an atomic of several lanes")) };
        let bits = ir.int_ty(s.bytes() as u32 * 8);
        if self.kernel && a.order == MemoryOrder::InOrder {
            let [v] = values[..] else { return Err(defect("an atomic with a wrong number of values")) };
            let old = self.turn(a, at, v, s)?;
            self.found(a, old, s);
            return Ok(());
        }
        // What orders other accesses of a device is a fence.
        if self.kernel && a.order.releases() {
            self.fence_of_device();
        }
        let (order, otherwise) = self.orders(a.order);
        let old = match (&a.op, values.as_slice()) {
            (AtomicOp::Load, _) => ir.atomic_load(bits, at, order, s.bytes()),
            (AtomicOp::Store(_), [v]) if a.old.is_none() => {
                ir.atomic_store(self.to_bits(*v, s), at, order, s.bytes());
                return Ok(());
            }
            (AtomicOp::Store(_) | AtomicOp::Exchange(_), [v]) => {
                // A store that tells what it found exchanges; an order that it may have, an exchange may have.
                ir.atomic_rmw(Rmw::LLVMAtomicRMWBinOpXchg, at, self.to_bits(*v, s), order)
            }
            (AtomicOp::CompareExchange { .. }, [expected, desired]) => {
                let (expected, desired) = (self.to_bits(*expected, s), self.to_bits(*desired, s));
                let pair = ir.compare_exchange(at, expected, desired, order, otherwise);
                ir.extract_value(pair, 0)
            }
            (AtomicOp::Update(op, _), [v]) => match instruction(op, s) {
                Some(rmw) => ir.atomic_rmw(rmw, at, self.to_bits(*v, s), order),
                None => self.combined_in_memory(a, op, *v, (at, bits, s))?,
            },
            _ => return Err(defect("an atomic with a wrong number of values")),
        };
        if self.kernel && a.order.acquires() {
            self.fence_of_device();
        }
        self.found(a, old, s);
        Ok(())
    }

    /// The orders of an instruction.
    fn orders(&self, order: MemoryOrder) -> (O, O) {
        orders(if self.kernel { MemoryOrder::Relaxed } else { order })
    }

    /// Binds what an atomic found.
    pub fn found(&mut self, a: &Atomic, old: Value, s: Scalar) {
        if let Some(binder) = &a.old {
            let old = self.of_bits(old, s);
            self.frame.vars.insert(binder.id, Leaf::Uniform(old));
        }
    }

    /// `element op= v` by compare-and-swap, until no other thread came between; the bits that were there.
    fn combined_in_memory(
        &mut self,
        a: &Atomic,
        op: &ReduceOp,
        v: Value,
        (at, bits, s): (Value, Ty, Scalar),
    ) -> Result<Value> {
        let ir = self.ir;
        let (order, otherwise) = self.orders(a.order);
        let first = ir.atomic_load(bits, at, orders(MemoryOrder::Relaxed).0, s.bytes());
        let before = ir.here();
        let (again, done) = (self.block("again"), self.block("updated"));
        ir.br(again);
        ir.at_end(again);
        let seen = ir.phi(bits);
        ir.incoming(seen, first, before);
        let old = Leaf::Uniform(self.of_bits(seen, s));
        let types = [a.target.elem.clone()];
        let new = self.reduce(op, &types, &[vec![old]], &[vec![Leaf::Uniform(v)]])?;
        let new = new.first().and_then(|n| n.first().copied()).ok_or_else(|| defect("a value is missing"))?;
        let new = self.to_bits(new.at(ir, None), s);
        let pair = ir.compare_exchange(at, seen, new, order, otherwise);
        ir.incoming(seen, ir.extract_value(pair, 0), ir.here());
        ir.cond_br(ir.extract_value(pair, 1), done, again);
        ir.at_end(done);
        Ok(seen)
    }

    /// A scalar as the bits that it has in memory.
    pub fn to_bits(&self, v: Value, s: Scalar) -> Value {
        let bits = self.ir.int_ty(s.bytes() as u32 * 8);
        match s {
            Scalar::Bool => self.ir.zext(v, bits),
            _ if self.ir.type_of(v) == bits => v,
            _ => self.ir.bitcast(v, bits),
        }
    }

    pub fn of_bits(&self, bits: Value, s: Scalar) -> Value {
        match s {
            Scalar::Bool => self.ir.icmp(I::LLVMIntNE, bits, self.ir.zero(self.ir.type_of(bits))),
            _ if self.ir.type_of(bits) == self.ir.scalar_ty(s) => bits,
            _ => self.ir.bitcast(bits, self.ir.scalar_ty(s)),
        }
    }
}
