//! Lanes a few elements apart in memory, as columns of narrow arrays and fields of records are: the whole vectors in which they lie, and
//! shuffles. A gather takes the elements one by one, and LLVM leaves it in a loop that stores anything, whatever it does not alias.

use crate::emit::Emitter;
use crate::ir::Value;
use crate::memory::Place;
use crate::value::Leaf;
use lathe_ir::Scalar;

/// Farther apart, most of what is loaded would not be used.
const MOST_APART: i64 = 4;

impl Emitter<'_> {
    /// The scalars at byte `at` of the elements of all lanes, if they lie so and no lane is masked out: what is between them is within
    /// the array, too.
    pub fn load_strided(&mut self, p: &Place, at: u64, s: Scalar) -> Option<Value> {
        let lanes = self.frame.lanes.filter(|l| l.mask.is_none() && !l.maybe_empty && self.x86)?;
        let Leaf::Linear { base, step } = p.offset() else { return None };
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
}
