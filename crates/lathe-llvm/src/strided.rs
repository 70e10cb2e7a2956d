//! Lanes a few elements apart in memory, as columns of narrow arrays and fields of records are: the whole vectors in which they lie, and
//! shuffles. A gather takes the elements one by one, and LLVM leaves it in a loop that stores anything, whatever it does not alias.
//!
//! And lanes that are as far apart as only the run knows, in arrays whose strides are given: from one address on, each at a multiple of
//! the distance, which no loop changes. Addresses that are computed lane by lane are several times as much code, of which most machines
//! without gathers then take each apart again.

use crate::emit::{Emitter, Lanes};
use crate::ir::Value;
use crate::memory::Place;
use crate::value::Leaf;
use lathe_ir::Scalar;
use llvm_sys::LLVMIntPredicate as I;

/// Farther apart, most of what is loaded would not be used.
const MOST_APART: i64 = 4;

impl Emitter<'_> {
    /// The scalars at byte `at` of the elements of all lanes, if they lie so and no lane is masked out: what is between them is within
    /// the array, too.
    pub fn load_strided(&mut self, p: &Place, at: u64, s: Scalar) -> Option<Value> {
        let lanes = self.frame.lanes.filter(|l| l.mask.is_none() && !l.maybe_empty && self.x86)?;
        let Some(Leaf::Linear { base, step }) = p.offset() else { return None };
        let (size, bytes) = (p.buf.decl.elem.bytes(), s.bytes());
        if p.buf.fields.is_some() || !size.is_multiple_of(bytes) || !at.is_multiple_of(bytes) {
            return None;
        }
        let apart = step.checked_abs()?.checked_mul((size / bytes) as i64)?;
        let register = if self.bit_masks { 64 } else { 16 << u32::from(self.avx2) };
        let (width, part) = (i64::from(lanes.width), i64::from(lanes.width).min(register / bytes as i64));
        if !(2..=MOST_APART).contains(&apart) || part < 2 || !lanes.width.is_power_of_two() {
            return None;
        }
        let ir = self.ir;
        let lowest = if step > 0 { base } else { ir.add_index(base, ir.i64(step * (width - 1))) };
        let first = ir.add_index(ir.mul_index(lowest, ir.i64(size as i64)), ir.i64(at as i64));
        let first = ir.element(ir.int_ty(8), p.buf.ptr, first);
        let mut parts: Vec<Value> =
            (0..width / part).map(|n| self.every(first, n * part * apart, (part, apart), s)).collect();
        while parts.len() > 1 {
            let n = lanes.width / parts.len() as u32;
            parts = parts.chunks(2).map(|two| ir.shuffle(two[0], two[1], 0..2 * n)).collect();
        }
        let v = parts.pop()?;
        Some(if step > 0 { v } else { ir.reverse(v, lanes.width) })
    }

    /// `n` scalars, `apart` from each other, from the scalar `from` on: of as many vectors, the last of which ends with the last scalar.
    fn every(&self, first: Value, from: i64, (n, apart): (i64, i64), s: Scalar) -> Value {
        let ir = self.ir;
        let begin = |k: i64| if k + 1 < apart { k * n } else { (n - 1) * apart + 1 - n };
        let vector = ir.widen(ir.memory_ty(s), Some(n as u32));
        let load =
            |k: i64| ir.load(vector, ir.element(ir.memory_ty(s), first, ir.i64(from + begin(k))), s.bytes());
        let holds = |lane: i64| (lane * apart / n).min(apart - 1);
        (1..apart).fold(load(0), |all, k| {
            let lane = |l: i64| match holds(l) {
                h if h == k => n + l * apart - begin(k),
                // The first vector is as it was loaded; later, lanes found so far are in their places.
                0 if k == 1 => l * apart,
                _ => l,
            };
            ir.shuffle(all, load(k), (0..n).map(|l| lane(l) as u32))
        })
    }

    /// Their scalars, from a first address on and so many bytes apart.
    pub fn load_apart(&mut self, (first, bytes): (Value, Value), l: &Lanes, s: Scalar) -> Value {
        let ir = self.ir;
        let ty = ir.memory_ty(s);
        let vector = ir.widen(ty, Some(l.width));
        if self.takes_vectors(l) {
            let mask = l.mask.unwrap_or_else(|| self.all_lanes(l.width));
            return self.gather(vector, self.lanes_at(first, bytes, l.width), mask, s.bytes());
        }
        let zeros = l.mask.map(|_| self.idle_word(0));
        let one = |n| ir.load(ty, self.lane_at((first, bytes), l, n, zeros), s.bytes());
        (0..l.width).fold(ir.poison(vector), |v, n| ir.insert(v, one(n), n))
    }

    /// The same, stored.
    pub fn store_apart(&mut self, (first, bytes): (Value, Value), l: &Lanes, v: Value, align: u64) {
        let ir = self.ir;
        if self.takes_vectors(l) {
            let mask = l.mask.unwrap_or_else(|| self.all_lanes(l.width));
            return self.scatter(v, self.lanes_at(first, bytes, l.width), mask, align);
        }
        let nowhere = l.mask.map(|_| self.idle_word(1));
        for n in 0..l.width {
            ir.store(ir.lane(v, n), self.lane_at((first, bytes), l, n, nowhere), align);
        }
    }

    /// Whether the machine has gathers whose masks are bits, or LLVM shall take them apart.
    fn takes_vectors(&self, l: &Lanes) -> bool {
        self.bit_masks || l.mask.is_some() && !self.x86
    }

    fn idle_word(&mut self, n: i64) -> Value {
        const BYTES: u64 = 8;
        let (ir, allocas) = (self.ir, self.frame.allocas);
        let words = *self.frame.idle.get_or_insert_with(|| {
            let here = ir.here();
            ir.at_end(allocas);
            let words = ir.alloca(ir.array_ty(ir.int_ty(64), 2), BYTES);
            ir.store(ir.i64(0), words, BYTES);
            // LLVM would make branches of addresses of which it knows one.
            let words = ir.opaque(words);
            ir.at_end(here);
            words
        });
        ir.element(ir.int_ty(64), words, ir.i64(n))
    }

    /// Where a lane is, or another place if it takes no part.
    fn lane_at(&self, (first, bytes): (Value, Value), l: &Lanes, n: u32, other: Option<Value>) -> Value {
        let ir = self.ir;
        let lane = ir.i64(i64::from(n));
        let at = ir.element(ir.int_ty(8), first, ir.mul_index(bytes, lane));
        let (Some(mask), Some(other)) = (l.mask, other) else { return at };
        let takes_part = match l.count {
            Some(count) => ir.icmp(I::LLVMIntSLT, lane, count),
            None => ir.lane(mask, n),
        };
        ir.select(takes_part, at, other)
    }

    fn lanes_at(&self, first: Value, bytes: Value, width: u32) -> Value {
        let ir = self.ir;
        ir.element(ir.int_ty(8), first, ir.mul_index(ir.splat(bytes, width), ir.ramp(1, width)))
    }
}
