//! Conversions between scalar types, with the roundings that hardware lacks written out.
//!
//! A value is rounded twice without harm if the first rounding is *to odd*: an inexact result gets an
//! odd last bit, so the second rounding still sees on which side of a tie it lay (Boldo and
//! Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).

use crate::emit::Emitter;
use crate::ir::{Value, Width};
use lathe_ir::Scalar;
use llvm_sys::LLVMIntPredicate as I;
use llvm_sys::LLVMRealPredicate as F;

/// Widens `f16` or `bf16`; exact.
pub fn to_f32(e: &Emitter, s: Scalar, v: Value, width: Width) -> Value {
    let ir = e.ir;
    let f32s = ir.widen(ir.scalar_ty(Scalar::F32), width);
    if s == Scalar::F16 {
        return ir.fpext(v, f32s);
    }
    let bits = ir.zext(v, ir.widen(ir.int_ty(32), width));
    ir.bitcast(ir.shl(bits, e.int_const(Scalar::I32, 16, width)), f32s)
}

/// Rounds an `f32` to `f16` or `bf16`, ties to even.
pub fn from_f32(e: &Emitter, s: Scalar, v: Value, width: Width) -> Value {
    let ir = e.ir;
    if s == Scalar::F16 {
        return ir.fptrunc(v, ir.widen(ir.scalar_ty(s), width));
    }
    let c = |v| e.int_const(Scalar::I32, v, width);
    let bits = ir.bitcast(v, ir.widen(ir.int_ty(32), width));
    let odd = ir.and(ir.lshr(bits, c(16)), c(1));
    let rounded = ir.lshr(ir.add(bits, ir.add(odd, c(0x7fff))), c(16));
    let quiet = ir.or(ir.lshr(bits, c(16)), c(0x40));
    let is_nan = ir.fcmp(F::LLVMRealUNO, v, v);
    ir.trunc(ir.select(is_nan, quiet, rounded), ir.widen(ir.int_ty(16), width))
}

/// Rounds an `f64` to `f32`, to odd: the neighbour with an odd last bit on the side of the error,
/// unless there is no error or the bits are odd already.
fn f64_to_odd_f32(e: &Emitter, v: Value, width: Width) -> Value {
    let ir = e.ir;
    let f32s = ir.widen(ir.scalar_ty(Scalar::F32), width);
    let f64s = ir.widen(ir.scalar_ty(Scalar::F64), width);
    let near = ir.fptrunc(v, f32s);
    let error = ir.fsub(v, ir.fpext(near, f64s));
    let bits = ir.bitcast(near, ir.widen(ir.int_ty(32), width));
    let c = |v| e.int_const(Scalar::I32, v, width);
    let zero = ir.zero(f64s);
    let inexact = ir.fcmp(F::LLVMRealONE, error, zero);
    let even = ir.icmp(I::LLVMIntEQ, ir.and(bits, c(1)), c(0));
    let up = ir.fcmp(F::LLVMRealOGT, error, zero);
    let positive = ir.fcmp(F::LLVMRealOGT, near, ir.zero(f32s));
    // A zero that is inexact moves away from zero; its sign is that of the value.
    let is_zero = ir.fcmp(F::LLVMRealOEQ, near, ir.zero(f32s));
    let away = ir.or(is_zero, ir.not(ir.xor(up, positive)));
    let moved = ir.add(bits, ir.select(away, c(1), c(-1)));
    ir.bitcast(ir.select(ir.and(inexact, even), moved, bits), f32s)
}

/// Value conversion between two scalar types (`ExprKind::Cast`).
pub fn cast(e: &Emitter, from: Scalar, to: Scalar, v: Value, width: Width) -> Value {
    let ir = e.ir;
    if from == to {
        return v;
    }
    let small = |s| matches!(s, Scalar::F16 | Scalar::Bf16);
    if small(from) {
        let wide = to_f32(e, from, v, width);
        return cast(e, Scalar::F32, to, wide, width);
    }
    let to_ty = ir.widen(ir.scalar_ty(to), width);
    match (from, to) {
        (_, Scalar::Bool) if from.is_float() => ir.fcmp(F::LLVMRealUNE, v, ir.zero(ir.type_of(v))),
        (_, Scalar::Bool) => ir.icmp(I::LLVMIntNE, v, ir.zero(ir.type_of(v))),
        (Scalar::F64, t) if small(t) => from_f32(e, t, f64_to_odd_f32(e, v, width), width),
        (Scalar::F32, t) if small(t) => from_f32(e, t, v, width),
        (Scalar::F32, Scalar::F64) => ir.fpext(v, to_ty),
        (Scalar::F64, Scalar::F32) => ir.fptrunc(v, to_ty),
        (f, t) if f.is_float() => {
            let name = if t.is_signed() { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
            ir.intrinsic(name, &[to_ty, ir.type_of(v)], &[v])
        }
        (f, t) if small(t) => {
            let wide = sticky_f64(e, f, v, width);
            cast(e, Scalar::F64, t, wide, width)
        }
        (f, t) if t.is_float() => {
            if f.is_signed() {
                ir.sitofp(v, to_ty)
            } else {
                ir.uitofp(v, to_ty)
            }
        }
        (f, t) if t.bits() < f.bits() => ir.trunc(v, to_ty),
        (f, t) if t.bits() == f.bits() => v,
        (f, _) if f.is_signed() => ir.sext(v, to_ty),
        _ => ir.zext(v, to_ty),
    }
}

/// An integer as an `f64` that rounds to `f16` and `bf16` as the integer itself does: the low bits of
/// large numbers are folded into one.
fn sticky_f64(e: &Emitter, from: Scalar, v: Value, width: Width) -> Value {
    let ir = e.ir;
    let f64s = ir.widen(ir.scalar_ty(Scalar::F64), width);
    if from.bits() < 64 {
        return if from.is_signed() { ir.sitofp(v, f64s) } else { ir.uitofp(v, f64s) };
    }
    let c = |v| e.int_const(Scalar::I64, v, width);
    let negative = ir.icmp(I::LLVMIntSLT, v, c(0));
    let negative = if from.is_signed() { negative } else { ir.zero(ir.type_of(negative)) };
    let magnitude = ir.select(negative, ir.neg(v), v);
    let low = ir.icmp(I::LLVMIntNE, ir.and(magnitude, c(0xfff)), c(0));
    let folded = ir.or(ir.and(magnitude, c(!0xfff)), ir.select(low, c(0x1000), c(0)));
    let is_large = ir.icmp(I::LLVMIntUGT, magnitude, c(1 << 32));
    let wide = ir.uitofp(ir.select(is_large, folded, magnitude), f64s);
    ir.select(negative, ir.fneg(wide), wide)
}
