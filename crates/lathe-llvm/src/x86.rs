//! Instructions of x86 that LLVM does not find by itself, with the same bits: the least and largest floats of two vectors, and
//! products with powers of two.

use crate::emit::{Emitter, Result};
use crate::ir::{Value, Width};
use crate::value::Val;
use lathe_ir::{BinOp, Expr, Scalar, math};
use llvm_sys::LLVMRealPredicate as F;

/// Which of two numbers `vrange` takes, in the order in which -0 is below 0, with its own sign.
const LEAST: i32 = 0b0100;
const LARGEST: i32 = 0b0101;
/// Rounding as the machine is set to.
const CURRENT: i32 = 4;

impl Emitter<'_> {
    /// The suffix of an instruction on floats of this many lanes, if a register of AVX or AVX-512 holds them exactly.
    fn packed(&self, s: Scalar, width: Width) -> Option<(&'static str, u32)> {
        let of = match s {
            Scalar::F32 => "ps",
            Scalar::F64 => "pd",
            _ => return None,
        };
        let bits = width? * s.bits();
        let fits = bits == 128 || bits == 256 || bits == 512 && self.avx512;
        (self.x86 && (self.avx2 || self.avx512) && fits).then_some((of, bits))
    }

    /// An instruction of AVX-512 on two whole vectors.
    fn whole(&self, name: &str, (a, b): (Value, Value), s: Scalar, width: u32, more: &[Value]) -> Value {
        let ir = self.ir;
        let bits = width * s.bits();
        let of = if s == Scalar::F32 { "ps" } else { "pd" };
        let mut args = vec![a, b];
        args.extend(more);
        // All lanes take part, and nothing comes from elsewhere.
        args.extend([ir.poison(ir.type_of(a)), ir.int(width.max(8), -1)]);
        if bits == 512 {
            args.push(ir.i32(CURRENT));
        }
        ir.intrinsic(&format!("llvm.x86.avx512.mask.{name}.{of}.{bits}"), &[], &args)
    }

    /// `minimum` and `maximum` of IEEE 754-2019: -0 is less than 0, and what is not a number goes on. LLVM compares signs and
    /// selects three times.
    pub fn extremum(&self, op: BinOp, s: Scalar, a: Value, b: Value, width: Width) -> Option<Value> {
        self.packed(s, width)?;
        let (ir, lanes) = (self.ir, width?);
        let least = op == BinOp::Min;
        if let Some(one) = self.beside_constant(least, a, b).or_else(|| self.beside_constant(least, b, a)) {
            return Some(one);
        }
        let number = if self.avx512 {
            self.whole("range", (a, b), s, lanes, &[ir.i32(if least { LEAST } else { LARGEST })])
        } else {
            // Of two zeros each takes the other one, so that both together have the sign of both.
            let order = if least { F::LLVMRealOLT } else { F::LLVMRealOGT };
            let [one, other] = [(a, b), (b, a)].map(|(x, y)| ir.select(ir.fcmp(order, x, y), x, y));
            let (floats, ints) = (ir.type_of(a), ir.widen(ir.int_ty(s.bits()), width));
            let [one, other] = [one, other].map(|v| ir.bitcast(v, ints));
            ir.bitcast(if least { ir.or(one, other) } else { ir.and(one, other) }, floats)
        };
        Some(ir.select(ir.fcmp(F::LLVMRealUNO, a, b), ir.fadd(a, b), number))
    }

    /// The same for a constant that is a number: what is not one is on the other side, which is taken unless a comparison holds. Only
    /// the zero that is before another one is taken where neither is less (0 of `max(x, 0)`).
    fn beside_constant(&self, least: bool, constant: Value, x: Value) -> Option<Value> {
        let ir = self.ir;
        let number = ir.real(constant).filter(|n| !n.is_nan())?;
        let (before, not_after) =
            if least { (F::LLVMRealOLT, F::LLVMRealULT) } else { (F::LLVMRealOGT, F::LLVMRealUGT) };
        Some(match number == 0.0 && number.is_sign_negative() == least {
            true => ir.select(ir.fcmp(not_after, x, constant), x, constant),
            false => ir.select(ir.fcmp(before, constant, x), constant, x),
        })
    }

    /// A product with a power of two as expansions of functions write it, in one instruction; none where it is another
    /// expression, or the machine has none.
    pub fn scaled(&mut self, e: &Expr, s: Scalar) -> Result<Option<Val>> {
        if !self.avx512 || self.packed(s, self.width()).is_none() {
            return Ok(None);
        }
        let Some((p, power)) = math::scaled(e) else { return Ok(None) };
        let leaves = [self.scalar(&p)?, self.scalar(&power)?];
        if leaves.iter().all(|l| l.is_uniform()) {
            return Ok(None);
        }
        self.lanewise(&leaves, |e, v, w| Ok(e.whole("scalef", (v[0], v[1]), s, w.unwrap_or(1), &[])))
            .map(Some)
    }
}
