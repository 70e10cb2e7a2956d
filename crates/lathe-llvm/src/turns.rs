//! Updates in the order of blocks, by decoupled look-back (Merrill and Garland, NVR-2016-002): what the CUDA C of
//! `lathe-source` says, on the same words of memory. One thread of a block looks back, at one block after the other.

use crate::emit::{Emitter, Result, Turns, defect};
use crate::ir::Value;
use crate::value::Leaf;
use lathe_ir::Scalar;
use lathe_ir::stmt::{Atomic, AtomicOp};
use llvm_sys::LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic as RELAXED;
use llvm_sys::LLVMIntPredicate as I;

/// What a word says: nothing yet (0), the value of the block, the value of all blocks up to it.
const OWN: i64 = 1;
const ALL: i64 = 2;

/// Where the words of an update are, and what they hold.
struct Words {
    first: Value,
    count: i64,
    s: Scalar,
}

impl Emitter<'_> {
    /// Takes the number of the block: blocks with smaller ones run, or have run.
    pub fn ticket(&mut self, name: &str, thread: Value, memory: Value) -> Value {
        let ir = self.ir;
        let word = ir.int_ty(32);
        let shared = ir.shared_memory(&format!("{name}.ticket"), Some(4));
        let (take, taken) = (self.block("take"), self.block("taken"));
        ir.cond_br(ir.icmp(I::LLVMIntEQ, thread, ir.i64(0)), take, taken);
        ir.at_end(take);
        let add = llvm_sys::LLVMAtomicRMWBinOp::LLVMAtomicRMWBinOpAdd;
        let mine = ir.atomic_rmw(add, memory, ir.i32(1), RELAXED);
        ir.store(mine, shared, 4);
        ir.br(taken);
        ir.at_end(taken);
        ir.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", &[], &[ir.i32(0)]);
        ir.zext(ir.load(word, shared, 4), ir.int_ty(64))
    }

    /// All writes before are seen before those behind.
    pub fn fence_of_device(&self) {
        self.ir.intrinsic("llvm.nvvm.membar.gl", &[], &[]);
    }

    /// The update of the element at `at`, by the one thread that is here; the bits that were there, which are those of all
    /// blocks before.
    pub fn turn(&mut self, a: &Atomic, at: Value, v: Value, s: Scalar) -> Result<Value> {
        let ir = self.ir;
        let Some(turns) = self.device.turns else {
            return Err(defect("an order where no block has a number"));
        };
        let words = if s.bytes() <= 4 { 1 } else { 3 };
        self.device.turns = Some(Turns { words: turns.words + words, ..turns });
        let (i64_ty, u) = (ir.int_ty(64), ir.int_ty(s.bytes() as u32 * 8));
        let offset = ir.add_index(ir.i64(1), ir.mul_index(ir.i64(turns.words), turns.blocks));
        let w = Words { first: ir.element(i64_ty, turns.memory, offset), count: words, s };
        let mine = self.to_bits(v, s);

        let (first, later, ready) = (self.block("first"), self.block("later"), self.block("ready"));
        ir.cond_br(ir.icmp(I::LLVMIntEQ, turns.block, ir.i64(0)), first, later);
        ir.at_end(first);
        let begin = ir.atomic_load(u, at, RELAXED, s.bytes());
        ir.br(ready);

        ir.at_end(later);
        self.publish(&w, turns.block, OWN, mine);
        let (last, head) = (ir.sub(turns.block, ir.i64(1)), self.block("back"));
        // The nearest block's value begins the sum.
        let near = self.seen(&w, last);
        let here = ir.here();
        ir.br(head);
        ir.at_end(head);
        let (block, sum, says) = (ir.phi(i64_ty), ir.phi(u), ir.phi(i64_ty));
        ir.incoming(block, last, here);
        ir.incoming(sum, near.0, here);
        ir.incoming(says, near.1, here);
        let (more, all) = (self.block("more"), self.block("all"));
        ir.cond_br(ir.icmp(I::LLVMIntEQ, says, ir.i64(ALL)), all, more);
        ir.at_end(more);
        let next = ir.sub(block, ir.i64(1));
        let far = self.seen(&w, next);
        let both = self.both(a, (far.0, sum), s)?;
        let end = ir.here();
        ir.incoming(block, next, end);
        ir.incoming(sum, both, end);
        ir.incoming(says, far.1, end);
        ir.br(head);
        ir.at_end(all);
        ir.br(ready);

        ir.at_end(ready);
        let before = ir.phi(u);
        ir.incoming(before, begin, first);
        ir.incoming(before, sum, all);
        let after = self.both(a, (before, mine), s)?;
        self.publish(&w, turns.block, ALL, after);
        let (write, done) = (self.block("last"), self.block("updated"));
        let end = ir.sub(turns.blocks, ir.i64(1));
        ir.cond_br(ir.icmp(I::LLVMIntEQ, turns.block, end), write, done);
        ir.at_end(write);
        ir.atomic_store(after, at, RELAXED, s.bytes());
        ir.br(done);
        ir.at_end(done);
        Ok(before)
    }

    fn word(&self, w: &Words, block: Value, n: i64) -> Value {
        let at = self.ir.add_index(self.ir.mul_index(block, self.ir.i64(w.count)), self.ir.i64(n));
        self.ir.element(self.ir.int_ty(64), w.first, at)
    }

    /// Lets the blocks behind see a value of a block: in one word with what it is, or before the word that says so.
    fn publish(&self, w: &Words, block: Value, what: i64, bits: Value) {
        let ir = self.ir;
        let wide = if w.s.bytes() == 8 { bits } else { ir.zext(bits, ir.int_ty(64)) };
        let word = self.word(w, block, 0);
        if w.count == 1 {
            ir.atomic_store(ir.or(wide, ir.i64(what << 32)), word, RELAXED, 8);
            return;
        }
        ir.atomic_store(wide, self.word(w, block, what), RELAXED, 8);
        self.fence_of_device();
        ir.atomic_store(ir.i64(what), word, RELAXED, 8);
    }

    /// Waits for a value of a block: its bits, and what it is.
    fn seen(&self, w: &Words, block: Value) -> (Value, Value) {
        let ir = self.ir;
        let i64_ty = ir.int_ty(64);
        let (again, there) = (self.block("wait"), self.block("there"));
        ir.br(again);
        ir.at_end(again);
        let word = ir.atomic_load(i64_ty, self.word(w, block, 0), RELAXED, 8);
        let says = if w.count == 1 { ir.lshr(word, ir.i64(32)) } else { word };
        ir.cond_br(ir.icmp(I::LLVMIntEQ, says, ir.i64(0)), again, there);
        ir.at_end(there);
        if w.count == 1 {
            return (ir.trunc(word, ir.int_ty(w.s.bytes() as u32 * 8)), says);
        }
        self.fence_of_device();
        let at = ir.add_index(ir.mul_index(block, ir.i64(w.count)), says);
        (ir.atomic_load(i64_ty, ir.element(i64_ty, w.first, at), RELAXED, 8), says)
    }

    /// `far ⊕ near`, all as bits.
    fn both(&mut self, a: &Atomic, (far, near): (Value, Value), s: Scalar) -> Result<Value> {
        let AtomicOp::Update(op, _) = &a.op else { return Err(defect("an order of what is no update")) };
        let types = [a.target.elem.clone()];
        let (far, near) = (Leaf::Uniform(self.of_bits(far, s)), Leaf::Uniform(self.of_bits(near, s)));
        let new = self.reduce(op, &types, &[vec![far]], &[vec![near]])?;
        let new = new.first().and_then(|n| n.first().copied()).ok_or_else(|| defect("a value is missing"))?;
        Ok(self.to_bits(new.at(self.ir, None), s))
    }
}
