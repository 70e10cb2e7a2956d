//! Scalar operators on values, one lane or many: the meaning of `lathe_ir::ops` in LLVM.
//!
//! No operation carries a fast-math flag, so that the bits are the interpreter's.

use crate::emit::{Emitter, Result};
use crate::ir::{Value, Width};
use lathe_abi::status;
use lathe_ir::{BinOp, MathFn, Scalar, UnOp};
use llvm_sys::LLVMIntPredicate as I;
use llvm_sys::LLVMRealPredicate as F;

impl Emitter<'_> {
    /// A constant integer of a scalar type in all lanes.
    pub fn int_const(&self, s: Scalar, v: i64, width: Width) -> Value {
        self.ir.splat_const(self.ir.int(s.bits(), v), width)
    }

    pub fn unary(&mut self, op: UnOp, s: Scalar, a: Value) -> Value {
        match op {
            UnOp::Not => self.ir.not(a),
            UnOp::Neg if s.is_float() => self.ir.fneg(a),
            UnOp::Neg => self.ir.neg(a),
        }
    }

    /// Both operands are of type `s`; comparisons give `i1`.
    pub fn binary(&mut self, op: BinOp, s: Scalar, a: Value, b: Value, width: Width) -> Result<Value> {
        if s.is_float() {
            return Ok(self.float_binary(op, s, a, b, width));
        }
        Ok(self.int_binary(op, s, a, b, width))
    }

    fn float_binary(&self, op: BinOp, s: Scalar, a: Value, b: Value, width: Width) -> Value {
        let ir = self.ir;
        let ty = ir.widen(ir.scalar_ty(s), width);
        match op {
            BinOp::Add => ir.fadd(a, b),
            BinOp::Sub => ir.fsub(a, b),
            BinOp::Mul => ir.fmul(a, b),
            BinOp::Min | BinOp::Max => self.extremum(op, s, a, b, width).unwrap_or_else(|| {
                ir.intrinsic(if op == BinOp::Min { "llvm.minimum" } else { "llvm.maximum" }, &[ty], &[a, b])
            }),
            BinOp::Eq => ir.fcmp(F::LLVMRealOEQ, a, b),
            BinOp::Ne => ir.fcmp(F::LLVMRealUNE, a, b),
            BinOp::Lt => ir.fcmp(F::LLVMRealOLT, a, b),
            BinOp::Le => ir.fcmp(F::LLVMRealOLE, a, b),
            BinOp::Gt => ir.fcmp(F::LLVMRealOGT, a, b),
            BinOp::Ge => ir.fcmp(F::LLVMRealOGE, a, b),
            // The other operators take integers only; `/` is what remains.
            _ => ir.fdiv(a, b),
        }
    }

    fn int_binary(&mut self, op: BinOp, s: Scalar, a: Value, b: Value, width: Width) -> Value {
        let ir = self.ir;
        let signed = s.is_signed();
        let pick = |yes: I, no: I| if signed { yes } else { no };
        let extremum = |yes: &'static str, no: &'static str| if signed { yes } else { no };
        let ty = ir.widen(ir.scalar_ty(s), width);
        let shift = |b: Value| ir.and(b, self.int_const(s, i64::from(s.bits()) - 1, width));
        match op {
            // `index` is established not to overflow at the call.
            BinOp::Add if s == Scalar::Index => ir.add_index(a, b),
            BinOp::Sub if s == Scalar::Index => ir.sub_index(a, b),
            BinOp::Mul if s == Scalar::Index => ir.mul_index(a, b),
            BinOp::Add => ir.add(a, b),
            BinOp::Sub => ir.sub(a, b),
            BinOp::Mul => ir.mul(a, b),
            BinOp::Min => ir.intrinsic(extremum("llvm.smin", "llvm.umin"), &[ty], &[a, b]),
            BinOp::Max => ir.intrinsic(extremum("llvm.smax", "llvm.umax"), &[ty], &[a, b]),
            BinOp::And => ir.and(a, b),
            BinOp::Or => ir.or(a, b),
            BinOp::Xor => ir.xor(a, b),
            BinOp::Shl => ir.shl(a, shift(b)),
            BinOp::Shr if signed => ir.ashr(a, shift(b)),
            BinOp::Shr => ir.lshr(a, shift(b)),
            BinOp::Eq => ir.icmp(I::LLVMIntEQ, a, b),
            BinOp::Ne => ir.icmp(I::LLVMIntNE, a, b),
            BinOp::Lt => ir.icmp(pick(I::LLVMIntSLT, I::LLVMIntULT), a, b),
            BinOp::Le => ir.icmp(pick(I::LLVMIntSLE, I::LLVMIntULE), a, b),
            BinOp::Gt => ir.icmp(pick(I::LLVMIntSGT, I::LLVMIntUGT), a, b),
            BinOp::Ge => ir.icmp(pick(I::LLVMIntSGE, I::LLVMIntUGE), a, b),
            _ => self.divide(op, s, a, b, width),
        }
    }

    /// The four integer divisions. A zero divisor in a lane that takes part fails the run; division
    /// of the least number by -1 wraps.
    fn divide(&mut self, op: BinOp, s: Scalar, a: Value, b: Value, width: Width) -> Value {
        let ir = self.ir;
        let zero = self.int_const(s, 0, width);
        let one = self.int_const(s, 1, width);
        let is_zero = ir.icmp(I::LLVMIntEQ, b, zero);
        let mut b = b;
        if !ir.is_zero(is_zero) {
            let bad = if width.is_some() { self.any_lane(is_zero) } else { is_zero };
            self.fail_if(bad, ir.i32(status::DIVISION_BY_ZERO));
            if width.is_some() || self.device.failed.is_some() {
                b = ir.select(is_zero, one, b);
            }
        }
        let quotient = matches!(op, BinOp::FloorDiv | BinOp::TruncDiv);
        if !s.is_signed() {
            return if quotient { ir.udiv(a, b) } else { ir.urem(a, b) };
        }
        let floors = matches!(op, BinOp::FloorDiv | BinOp::FloorMod);
        let power = ir.as_splat(b, width).filter(|c| *c > 0 && (*c as u64).is_power_of_two());
        if let (Some(c), true) = (power, floors) {
            return match op {
                BinOp::FloorDiv => ir.ashr(a, self.int_const(s, i64::from(c.trailing_zeros()), width)),
                _ => ir.and(a, self.int_const(s, c - 1, width)),
            };
        }
        let minus_one = ir.icmp(I::LLVMIntEQ, b, self.int_const(s, -1, width));
        let safe = ir.select(minus_one, one, b);
        let (q, r) = (ir.sdiv(a, safe), ir.srem(a, safe));
        let q = ir.select(minus_one, ir.neg(a), q);
        if !floors {
            return if quotient { q } else { r };
        }
        let inexact = ir.icmp(I::LLVMIntNE, r, zero);
        let opposite = ir.icmp(I::LLVMIntSLT, ir.xor(r, b), zero);
        let adjust = ir.and(inexact, opposite);
        match op {
            BinOp::FloorDiv => ir.add(q, ir.sext(adjust, ir.type_of(q))),
            _ => ir.add(r, ir.select(adjust, b, zero)),
        }
    }

    /// The exactly rounded math functions.
    pub fn math(&mut self, f: MathFn, s: Scalar, args: &[Value], width: Width) -> Value {
        let ir = self.ir;
        let ty = ir.widen(ir.scalar_ty(s), width);
        let name = match f {
            MathFn::Abs if s.is_int() => {
                return ir.intrinsic("llvm.abs", &[ty], &[args[0], ir.int(1, 0)]);
            }
            MathFn::Abs => return ir.intrinsic("llvm.fabs", &[ty], args),
            MathFn::Sqrt => "llvm.sqrt",
            MathFn::Fma => "llvm.fma",
            MathFn::Floor => "llvm.floor",
            MathFn::Ceil => "llvm.ceil",
            MathFn::Round => "llvm.roundeven",
            _ => "llvm.trunc",
        };
        ir.intrinsic(name, &[ty], args)
    }

    /// Value conversion; of floats of 16 bits, those between `f16` and `f32`.
    pub fn cast(&self, from: Scalar, to: Scalar, v: Value, width: Width) -> Value {
        let ir = self.ir;
        let to_ty = ir.widen(ir.scalar_ty(to), width);
        match (from.is_float(), to.is_float()) {
            _ if from == to => v,
            (true, _) if to == Scalar::Bool => ir.fcmp(F::LLVMRealUNE, v, ir.zero(ir.type_of(v))),
            (false, _) if to == Scalar::Bool => ir.icmp(I::LLVMIntNE, v, ir.zero(ir.type_of(v))),
            (true, true) if from.bits() < to.bits() => ir.fpext(v, to_ty),
            (true, true) => ir.fptrunc(v, to_ty),
            (true, false) => {
                let name = if to.is_signed() { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
                ir.intrinsic(name, &[to_ty, ir.type_of(v)], &[v])
            }
            (false, true) if from.is_signed() => ir.sitofp(v, to_ty),
            (false, true) => ir.uitofp(v, to_ty),
            _ if to.bits() < from.bits() => ir.trunc(v, to_ty),
            _ if to.bits() == from.bits() => v,
            _ if from.is_signed() => ir.sext(v, to_ty),
            _ => ir.zext(v, to_ty),
        }
    }
}
