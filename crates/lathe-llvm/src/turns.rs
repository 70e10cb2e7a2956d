//! Updates in the order of blocks, by decoupled look-back (Merrill and Garland, NVR-2016-002): what the CUDA C of
//! `lathe-source` says, on the same words of memory. The first warp of a block looks back at 32 blocks at once; where one
//! thread is alone, it does at one block after the other.

use crate::emit::{Emitter, Result, Turns, defect};
use crate::ir::Value;
use crate::value::Leaf;
use lathe_device::shuffles::WARP;
use lathe_device::turns::of_first_thread;
use lathe_ir::stmt::{Atomic, AtomicOp};
use lathe_ir::{Scalar, Stmt};
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

    /// The words of the next update.
    fn words(&mut self, s: Scalar) -> Result<(Turns, Words)> {
        let ir = self.ir;
        let turns = self.device.turns.ok_or_else(|| defect("an order where no block has a number"))?;
        let count = if s.bytes() <= 4 { 1 } else { 3 };
        self.device.turns = Some(Turns { words: turns.words + count, ..turns });
        let offset = ir.add_index(ir.i64(1), ir.mul_index(ir.i64(turns.words), turns.blocks));
        Ok((turns, Words { first: ir.element(ir.int_ty(64), turns.memory, offset), count, s }))
    }

    /// The update of the element at `at`, by the one thread that is here; the bits that were there, which are those of all
    /// blocks before.
    pub fn turn(&mut self, a: &Atomic, at: Value, v: Value, s: Scalar) -> Result<Value> {
        let (turns, w) = self.words(s)?;
        let mine = self.to_bits(v, s);
        let before = self.before(turns, at, s, |code| code.looked_back_alone(a, (turns, &w), mine))?;
        self.end_turn(a, (turns, &w), at, (before, mine))?;
        Ok(before)
    }

    /// The bits before this block's update: those of the element for the first block, those that `later` finds for others.
    fn before(
        &mut self,
        turns: Turns,
        at: Value,
        s: Scalar,
        later: impl FnOnce(&mut Self) -> Result<Value>,
    ) -> Result<Value> {
        let ir = self.ir;
        let u = ir.int_ty(s.bytes() as u32 * 8);
        let (first, others, ready) = (self.block("first"), self.block("later"), self.block("ready"));
        ir.cond_br(ir.icmp(I::LLVMIntEQ, turns.block, ir.i64(0)), first, others);
        ir.at_end(first);
        let begin = ir.atomic_load(u, at, RELAXED, s.bytes());
        ir.br(ready);
        ir.at_end(others);
        let found = later(self)?;
        let back = ir.here();
        ir.br(ready);

        ir.at_end(ready);
        let before = ir.phi(u);
        ir.incoming(before, begin, first);
        ir.incoming(before, found, back);
        Ok(before)
    }

    /// One thread publishes what its block adds and looks at one block after the other, the nearest first.
    fn looked_back_alone(&mut self, a: &Atomic, (turns, w): (Turns, &Words), mine: Value) -> Result<Value> {
        let (ir, s) = (self.ir, w.s);
        let (i64_ty, u) = (ir.int_ty(64), ir.int_ty(s.bytes() as u32 * 8));
        self.publish(w, turns.block, OWN, mine);
        let (last, head) = (ir.sub(turns.block, ir.i64(1)), self.block("back"));
        // The nearest block's value begins the sum.
        let near = self.seen(w, last);
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
        let far = self.seen(w, next);
        let both = self.both(a, (far.0, sum), s)?;
        let end = ir.here();
        ir.incoming(block, next, end);
        ir.incoming(sum, both, end);
        ir.incoming(says, far.1, end);
        ir.br(head);
        ir.at_end(all);
        Ok(sum)
    }

    /// Publishes what all blocks up to this one have; the last block leaves it in the element.
    fn end_turn(
        &mut self,
        a: &Atomic,
        (turns, w): (Turns, &Words),
        at: Value,
        (before, mine): (Value, Value),
    ) -> Result<()> {
        let ir = self.ir;
        let after = self.both(a, (before, mine), w.s)?;
        self.publish(w, turns.block, ALL, after);
        let (write, done) = (self.block("last"), self.block("updated"));
        let end = ir.sub(turns.blocks, ir.i64(1));
        ir.cond_br(ir.icmp(I::LLVMIntEQ, turns.block, end), write, done);
        ir.at_end(write);
        ir.atomic_store(after, at, RELAXED, w.s.bytes());
        ir.br(done);
        ir.at_end(done);
        Ok(())
    }

    /// The update in order that the first thread makes, and nothing else, where all of its warp are there.
    pub fn is_turn_of_warp<'s>(&self, s: &'s Stmt) -> Option<&'s Atomic> {
        let (thread, _) = self.device.threads.filter(|(_, threads)| *threads >= WARP)?;
        of_first_thread(s, thread).filter(|_| self.device.turns.is_some())
    }

    /// The update that the first thread makes, by its warp.
    pub fn turn_of_warp(&mut self, a: &Atomic) -> Result<()> {
        let ir = self.ir;
        let s = a.target.elem.scalar().ok_or_else(|| defect("an atomic on several scalars"))?;
        let thread = self.device.threads.map(|t| t.0).ok_or_else(|| defect("a kernel without threads"))?;
        let Some(&Leaf::Uniform(lane)) = self.frame.vars.get(&thread) else {
            return Err(defect("a kernel without threads"));
        };
        let AtomicOp::Update(_, value) = &a.op else { return Err(defect("an order of what is no update")) };
        let (warp, rest) = (self.block("warp"), self.block("turned"));
        ir.cond_br(ir.icmp(I::LLVMIntSLT, lane, ir.i64(WARP)), warp, rest);
        ir.at_end(warp);
        // All lanes compute what the first one adds.
        self.frame.vars.insert(thread, Leaf::Uniform(ir.i64(0)));
        let value = self.scalar(value)?.at(ir, None);
        let place = self.place(&a.target)?;
        self.frame.vars.insert(thread, Leaf::Uniform(lane));
        self.forget();
        let at = self.address(&place, s).ok_or_else(|| defect("an atomic of several lanes"))?;
        let (turns, w) = self.words(s)?;
        let mine = self.to_bits(value, s);
        let found = self.before(turns, at, s, |code| code.looked_back(a, (turns, &w), lane, mine))?;
        let end = self.block("end");
        ir.cond_br(self.is_first(lane), end, rest);
        ir.at_end(end);
        self.end_turn(a, (turns, &w), at, (found, mine))?;
        self.found(a, found, s);
        self.forget();
        self.stmt(&a.body)?;
        ir.br(rest);
        ir.at_end(rest);
        self.forget();
        Ok(())
    }

    fn is_first(&self, lane: Value) -> Value {
        self.ir.icmp(I::LLVMIntEQ, lane, self.ir.i64(0))
    }

    /// The warp looks at 32 blocks at once, each lane at one, the nearest first, back to one that knows all before it; the
    /// bits that the first lane has at the end are those of all blocks before.
    fn looked_back(
        &mut self,
        a: &Atomic,
        (turns, w): (Turns, &Words),
        lane: Value,
        mine: Value,
    ) -> Result<Value> {
        let ir = self.ir;
        let (word, i64_ty, u) = (ir.int_ty(32), ir.int_ty(64), ir.int_ty(w.s.bytes() as u32 * 8));
        let zero = ir.i64(0);
        let (publish, published) = (self.block("publish"), self.block("published"));
        ir.cond_br(self.is_first(lane), publish, published);
        ir.at_end(publish);
        self.publish(w, turns.block, OWN, mine);
        ir.br(published);
        ir.at_end(published);
        let window = self.block("window");
        let nearest = ir.sub(turns.block, ir.i64(1));
        ir.br(window);
        ir.at_end(window);
        let (last, sum, any) = (ir.phi(i64_ty), ir.phi(u), ir.phi(ir.int_ty(1)));
        ir.incoming(last, nearest, published);
        ir.incoming(sum, ir.zero(u), published);
        ir.incoming(any, ir.int(1, 0), published);
        let block = ir.sub(last, lane);
        // Before the first block there is nothing.
        let there = ir.icmp(I::LLVMIntSGE, block, zero);
        let block = ir.select(there, block, zero);

        let (again, seen) = (self.block("wait"), self.block("there"));
        ir.br(again);
        ir.at_end(again);
        let found = ir.atomic_load(i64_ty, self.word(w, block, 0), RELAXED, 8);
        let found = ir.select(there, found, zero);
        let says = if w.count == 1 { ir.lshr(found, ir.i64(32)) } else { found };
        let all = ir.int(32, 0xffff_ffff);
        let ballot = |c: Value| ir.intrinsic("llvm.nvvm.vote.ballot.sync", &[], &[all, c]);
        let known = ballot(ir.icmp(I::LLVMIntNE, says, zero));
        let whole = ballot(ir.icmp(I::LLVMIntEQ, says, ir.i64(ALL)));
        let ends = ir.icmp(I::LLVMIntNE, whole, ir.i32(0));
        // Of the lanes up to the nearest block that knows all, or of all lanes.
        let nearer = ir.sub(ir.and(whole, ir.neg(whole)), ir.i32(1));
        let missing = ir.and(ir.not(known), ir.select(ends, nearer, all));
        ir.cond_br(ir.icmp(I::LLVMIntNE, missing, ir.i32(0)), again, seen);

        ir.at_end(seen);
        let zeros = ir.intrinsic("llvm.cttz", &[word], &[whole, ir.int(1, 0)]);
        let farthest = ir.zext(ir.select(ends, zeros, ir.i32(WARP as i32 - 1)), i64_ty);
        let within = |step: i64| ir.icmp(I::LLVMIntSLE, ir.add(lane, ir.i64(step)), farthest);
        let mut value = self.value_of(w, block, found, within(0));
        for step in [1, 2, 4, 8, 16] {
            let other = self.of_lane_beyond(value, w.s, 0xffff_ffff, step, 0x1f);
            value = self.if_so(within(step), value, |e| e.both(a, (other, value), w.s))?;
        }
        let sum_here = self.if_so(any, value, |e| e.both(a, (value, sum), w.s))?;
        let (end, next) = (ir.here(), self.block("all"));
        ir.incoming(last, ir.sub(last, ir.i64(WARP)), end);
        ir.incoming(sum, sum_here, end);
        ir.incoming(any, ir.int(1, 1), end);
        ir.cond_br(ends, next, window);
        ir.at_end(next);
        Ok(sum_here)
    }

    /// A value that is made where a condition holds, and another elsewhere.
    fn if_so(
        &mut self,
        cond: Value,
        otherwise: Value,
        make: impl FnOnce(&mut Self) -> Result<Value>,
    ) -> Result<Value> {
        let ir = self.ir;
        let (yes, join, here) = (self.block("yes"), self.block("join"), ir.here());
        ir.cond_br(cond, yes, join);
        ir.at_end(yes);
        let made = make(self)?;
        let end = ir.here();
        ir.br(join);
        ir.at_end(join);
        let v = ir.phi(ir.type_of(otherwise));
        ir.incoming(v, otherwise, here);
        ir.incoming(v, made, end);
        Ok(v)
    }

    /// The value that a block has published, whose word is known; of lanes that need none, anything.
    fn value_of(&mut self, w: &Words, block: Value, word: Value, needed: Value) -> Value {
        let ir = self.ir;
        let u = ir.int_ty(w.s.bytes() as u32 * 8);
        if w.count == 1 {
            return ir.trunc(word, u);
        }
        let (read, done, here) = (self.block("read"), self.block("done"), ir.here());
        ir.cond_br(needed, read, done);
        ir.at_end(read);
        let v = self.wide(w, block, word);
        ir.br(done);
        ir.at_end(done);
        let out = ir.phi(u);
        ir.incoming(out, ir.zero(u), here);
        ir.incoming(out, v, read);
        out
    }

    /// The value of a block behind the word that says which there is.
    fn wide(&self, w: &Words, block: Value, says: Value) -> Value {
        let (ir, i64_ty) = (self.ir, self.ir.int_ty(64));
        self.fence_of_device();
        let at = ir.add_index(ir.mul_index(block, ir.i64(w.count)), says);
        ir.atomic_load(i64_ty, ir.element(i64_ty, w.first, at), RELAXED, 8)
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
        (self.wide(w, block, says), says)
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
