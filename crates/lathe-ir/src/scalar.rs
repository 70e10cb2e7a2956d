//! Exact meaning of the scalar operators on runtime values: what [`crate::ops`] and [`crate::expr`]
//! say in words. The interpreter runs on it, and the tests of engines compare with it.
//!
//! A runtime value is 64 raw bits beside its [`Scalar`] type: integers as `i64` reduced to the range of
//! their type (`u64` as its own bits), `bool` as 0 or 1, floats as their IEEE bits in the low end.
//! `f16` and `bf16` are computed in `f32` and rounded once.

use crate::build::{fold_compare, fold_int, wrap};
use crate::ops::{BinOp, MathFn, UnOp};
use crate::types::Scalar;

/// Why an operation has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undefined {
    DivisionByZero,
    /// An `index` result does not fit 64 bits.
    IndexOverflow,
    /// The operator is not defined on the type (refused by the verifier).
    NoSuchOperation,
}

/// A value together with its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalarValue {
    pub ty: Scalar,
    pub bits: u64,
}

impl ScalarValue {
    pub fn float(ty: Scalar, v: f64) -> ScalarValue {
        ScalarValue { ty, bits: of_f64(ty, v) }
    }

    pub fn int(ty: Scalar, v: i64) -> ScalarValue {
        ScalarValue { ty, bits: wrap(ty, v) as u64 }
    }

    pub fn boolean(v: bool) -> ScalarValue {
        ScalarValue { ty: Scalar::Bool, bits: u64::from(v) }
    }

    /// The value as `f64`; exact for every float type and for integers below 2⁵³.
    pub fn to_f64(self) -> f64 {
        to_f64(self.ty, self.bits)
    }

    /// The value as `i64`; floats saturate.
    pub fn to_i64(self) -> i64 {
        if self.ty.is_float() { to_f64(self.ty, self.bits) as i64 } else { self.bits as i64 }
    }
}

impl std::fmt::Display for ScalarValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.ty {
            Scalar::Bool => write!(f, "{}", self.bits != 0),
            Scalar::U64 => write!(f, "{}", self.bits),
            Scalar::F32 => write!(f, "{:?}", f32::from_bits(self.bits as u32)),
            t if t.is_float() => write!(f, "{:?}", self.to_f64()),
            _ => write!(f, "{}", self.bits as i64),
        }
    }
}

/// The value of float bits, widened.
#[inline]
pub fn to_f64(ty: Scalar, bits: u64) -> f64 {
    match ty {
        Scalar::F32 => f64::from(f32::from_bits(bits as u32)),
        Scalar::F64 => f64::from_bits(bits),
        Scalar::F16 => half::f16::from_bits(bits as u16).to_f64(),
        Scalar::Bf16 => half::bf16::from_bits(bits as u16).to_f64(),
        Scalar::U64 => bits as f64,
        _ => bits as i64 as f64,
    }
}

/// The bits of a float rounded to the type (to nearest, ties to even, once).
#[inline]
pub fn of_f64(ty: Scalar, v: f64) -> u64 {
    match ty {
        Scalar::F32 => u64::from((v as f32).to_bits()),
        Scalar::F64 => v.to_bits(),
        // Through `f32` rounded to odd, so that the second rounding sees what the first one lost.
        Scalar::F16 => u64::from(half::f16::from_f32(narrow_to_odd(v)).to_bits()),
        Scalar::Bf16 => u64::from(half::bf16::from_f32(narrow_to_odd(v)).to_bits()),
        _ => v as i64 as u64,
    }
}

/// Rounds to the `f32` with odd last bit when inexact, which makes a later rounding to fewer bits exact.
fn narrow_to_odd(v: f64) -> f32 {
    let f = v as f32;
    if f64::from(f) == v || v.is_nan() || v.is_infinite() {
        return f;
    }
    if f.is_infinite() {
        return f32::MAX.copysign(f);
    }
    if f.to_bits() & 1 == 1 {
        return f;
    }
    let toward_larger_magnitude = v.abs() > f64::from(f.abs());
    f32::from_bits(if toward_larger_magnitude { f.to_bits() + 1 } else { f.to_bits() - 1 })
}

#[inline]
fn narrow(ty: Scalar, bits: u64) -> f32 {
    match ty {
        Scalar::F16 => half::f16::from_bits(bits as u16).to_f32(),
        Scalar::Bf16 => half::bf16::from_bits(bits as u16).to_f32(),
        _ => f32::from_bits(bits as u32),
    }
}

#[inline]
fn of_f32(ty: Scalar, v: f32) -> u64 {
    match ty {
        Scalar::F16 => u64::from(half::f16::from_f32(v).to_bits()),
        Scalar::Bf16 => u64::from(half::bf16::from_f32(v).to_bits()),
        _ => u64::from(v.to_bits()),
    }
}

macro_rules! float_binary {
    ($op:expr, $a:expr, $b:expr, $wrap:expr) => {{
        use BinOp::*;
        let (a, b) = ($a, $b);
        match $op {
            Add => $wrap(a + b),
            Sub => $wrap(a - b),
            Mul => $wrap(a * b),
            Div => $wrap(a / b),
            // NaN wins; -0 < +0 (equal values differ at most in the sign bit).
            Min => $wrap(if a.is_nan() || b.is_nan() {
                a + b
            } else if a < b || (a == b && a.is_sign_negative()) {
                a
            } else {
                b
            }),
            Max => $wrap(if a.is_nan() || b.is_nan() {
                a + b
            } else if a > b || (a == b && a.is_sign_positive()) {
                a
            } else {
                b
            }),
            Eq => u64::from(a == b),
            Ne => u64::from(a != b),
            Lt => u64::from(a < b),
            Le => u64::from(a <= b),
            Gt => u64::from(a > b),
            Ge => u64::from(a >= b),
            _ => return Err(Undefined::NoSuchOperation),
        }
    }};
}

/// `a op b` for two values of type `ty`; comparisons give `bool`.
#[inline]
pub fn binary(op: BinOp, ty: Scalar, a: u64, b: u64) -> Result<u64, Undefined> {
    Ok(match ty {
        Scalar::F32 => {
            let wrap = |v: f32| u64::from(v.to_bits());
            float_binary!(op, f32::from_bits(a as u32), f32::from_bits(b as u32), wrap)
        }
        Scalar::F64 => float_binary!(op, f64::from_bits(a), f64::from_bits(b), f64::to_bits),
        Scalar::F16 | Scalar::Bf16 => {
            float_binary!(op, narrow(ty, a), narrow(ty, b), |v| of_f32(ty, v))
        }
        Scalar::Bool => match op {
            BinOp::And | BinOp::Min => a & b,
            BinOp::Or | BinOp::Max => a | b,
            BinOp::Xor => a ^ b,
            _ if op.is_comparison() => u64::from(fold_compare(op, ty, a as i64, b as i64) == Some(true)),
            _ => return Err(Undefined::NoSuchOperation),
        },
        Scalar::Index => return index_binary(op, a as i64, b as i64),
        _ => return int_binary(op, ty, a as i64, b as i64),
    })
}

fn int_binary(op: BinOp, ty: Scalar, a: i64, b: i64) -> Result<u64, Undefined> {
    if op.is_comparison() {
        return Ok(u64::from(fold_compare(op, ty, a, b) == Some(true)));
    }
    match (fold_int(op, ty, a, b), op) {
        (Some(v), _) => Ok(v as u64),
        (None, BinOp::Div) => Err(Undefined::NoSuchOperation),
        (None, _) => Err(Undefined::DivisionByZero),
    }
}

fn index_binary(op: BinOp, a: i64, b: i64) -> Result<u64, Undefined> {
    use BinOp::*;
    let overflow = Undefined::IndexOverflow;
    match op {
        Add => a.checked_add(b).ok_or(overflow).map(|v| v as u64),
        Sub => a.checked_sub(b).ok_or(overflow).map(|v| v as u64),
        Mul => a.checked_mul(b).ok_or(overflow).map(|v| v as u64),
        FloorDiv | TruncDiv if a == i64::MIN && b == -1 => Err(overflow),
        Shl => {
            let by = (b as u64 % 64) as u32;
            let v = a.wrapping_shl(by);
            if v >> by == a { Ok(v as u64) } else { Err(overflow) }
        }
        _ => int_binary(op, Scalar::Index, a, b),
    }
}

/// `op a` for a value of type `ty`.
#[inline]
pub fn unary(op: UnOp, ty: Scalar, a: u64) -> Result<u64, Undefined> {
    Ok(match (op, ty) {
        (UnOp::Neg, Scalar::F32) => a ^ (1 << 31),
        (UnOp::Neg, Scalar::F64) => a ^ (1 << 63),
        (UnOp::Neg, Scalar::F16 | Scalar::Bf16) => a ^ (1 << 15),
        (UnOp::Not, Scalar::Bool) => a ^ 1,
        (UnOp::Neg, Scalar::Index) => {
            return (a as i64).checked_neg().ok_or(Undefined::IndexOverflow).map(|v| v as u64);
        }
        (UnOp::Neg, _) if ty.is_int() => wrap(ty, (a as i64).wrapping_neg()) as u64,
        (UnOp::Not, _) if ty.is_int() => wrap(ty, !(a as i64)) as u64,
        _ => return Err(Undefined::NoSuchOperation),
    })
}

/// `a * b + c` with one rounding.
#[inline]
pub fn fma(ty: Scalar, a: u64, b: u64, c: u64) -> u64 {
    match ty {
        Scalar::F64 => f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits(),
        Scalar::F16 | Scalar::Bf16 => {
            let [a, b, c] = [a, b, c].map(|v| f64::from(narrow(ty, v)));
            // The product is exact; the sum is rounded to odd, so that rounding it again sees on which side of a tie it was.
            let (product, sum) = (a * b, a * b + c);
            let back = sum - product;
            let error = (product - (sum - back)) + (c - back);
            let inexact = error != 0.0 && !error.is_nan();
            let odd = match inexact && sum.to_bits() & 1 == 0 {
                true if (error > 0.0) == (sum > 0.0) => f64::from_bits(sum.to_bits() + 1),
                true => f64::from_bits(sum.to_bits() - 1),
                false => sum,
            };
            of_f64(ty, odd)
        }
        _ => of_f32(ty, narrow(ty, a).mul_add(narrow(ty, b), narrow(ty, c))),
    }
}

/// An exact function of one argument (see [`MathFn::is_exact`]).
pub fn exact_math(f: MathFn, ty: Scalar, a: u64) -> Result<u64, Undefined> {
    macro_rules! apply {
        ($v:expr, $wrap:expr) => {{
            let v = $v;
            match f {
                MathFn::Sqrt => $wrap(v.sqrt()),
                MathFn::Floor => $wrap(v.floor()),
                MathFn::Ceil => $wrap(v.ceil()),
                MathFn::Round => $wrap(v.round_ties_even()),
                MathFn::Trunc => $wrap(v.trunc()),
                _ => return Err(Undefined::NoSuchOperation),
            }
        }};
    }
    Ok(match (f, ty) {
        (MathFn::Abs, Scalar::F32) => a & !(1 << 31),
        (MathFn::Abs, Scalar::F64) => a & !(1 << 63),
        (MathFn::Abs, Scalar::F16 | Scalar::Bf16) => a & !(1 << 15),
        (MathFn::Abs, Scalar::Index) => {
            return (a as i64).checked_abs().ok_or(Undefined::IndexOverflow).map(|v| v as u64);
        }
        (MathFn::Abs, _) if ty.is_signed() => wrap(ty, (a as i64).wrapping_abs()) as u64,
        (MathFn::Abs, _) if ty.is_int() => a,
        (_, Scalar::F64) => apply!(f64::from_bits(a), f64::to_bits),
        (_, _) if ty.is_float() => apply!(narrow(ty, a), |v| of_f32(ty, v)),
        _ => return Err(Undefined::NoSuchOperation),
    })
}

/// Value conversion, as [`crate::expr::ExprKind::Cast`]; only `u64` to `index` can fail.
pub fn cast(from: Scalar, to: Scalar, a: u64) -> Result<u64, Undefined> {
    if from == to {
        return Ok(a);
    }
    if from.is_float() {
        let v = to_f64(from, a);
        return Ok(match to {
            Scalar::Bool => u64::from(v != 0.0),
            _ if to.is_float() => of_f64(to, v),
            Scalar::I8 => i64::from(v as i8) as u64,
            Scalar::I16 => i64::from(v as i16) as u64,
            Scalar::I32 => i64::from(v as i32) as u64,
            Scalar::U8 => u64::from(v as u8),
            Scalar::U16 => u64::from(v as u16),
            Scalar::U32 => u64::from(v as u32),
            Scalar::U64 => v as u64,
            _ => v as i64 as u64,
        });
    }
    Ok(match to {
        Scalar::Bool => u64::from(a != 0),
        Scalar::F64 if from == Scalar::U64 => (a as f64).to_bits(),
        Scalar::F64 => (a as i64 as f64).to_bits(),
        Scalar::F32 if from == Scalar::U64 => u64::from((a as f32).to_bits()),
        Scalar::F32 => u64::from((a as i64 as f32).to_bits()),
        Scalar::F16 | Scalar::Bf16 => of_f64(to, int_to_odd(from, a)),
        Scalar::Index if from == Scalar::U64 && (a as i64) < 0 => return Err(Undefined::IndexOverflow),
        _ => wrap(to, a as i64) as u64,
    })
}

/// An integer as `f64`, rounded to odd when inexact (see [`narrow_to_odd`]).
fn int_to_odd(from: Scalar, a: u64) -> f64 {
    let negative = from != Scalar::U64 && (a as i64) < 0;
    let magnitude = if negative { (a as i64).unsigned_abs() } else { a };
    // Keep 53 bits and fold all that is cut off into the last one.
    let cut = (64 - magnitude.leading_zeros()).saturating_sub(53);
    let lost = magnitude & ((1u64 << cut) - 1) != 0;
    let kept = (magnitude >> cut) | u64::from(lost);
    let v = kept as f64 * (1u64 << cut) as f64;
    if negative { -v } else { v }
}

/// The same bits as another type of the same width.
pub fn bitcast(from: Scalar, to: Scalar, a: u64) -> Result<u64, Undefined> {
    if from.bits() != to.bits() {
        return Err(Undefined::NoSuchOperation);
    }
    let raw = if from.bits() == 64 { a } else { a & ((1u64 << from.bits()) - 1) };
    Ok(if to.is_int() { wrap(to, raw as i64) as u64 } else { raw })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32b(v: f32) -> u64 {
        u64::from(v.to_bits())
    }

    /// Against integers: every finite `f16` is a multiple of 2^-24, so a product and a sum are one of 2^-48.
    #[test]
    fn fused_products_of_halves_round_once() {
        let half = |v: u64| half::f16::from_bits(v as u16);
        let exact = |v: u64| (half(v).to_f64() * 2f64.powi(24)) as i128;
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) & 0xffff
        };
        let ties = [[0x4200, 0x3556, 0x0001], [0x4200, 0x3556, 0x8001], [0x3c01, 0x3c01, 0x1001]];
        let drawn = std::iter::repeat_with(|| [random(), random(), random()]).take(200_000);
        let mut inexact = 0;
        for [a, b, c] in ties.into_iter().chain(drawn) {
            let got = fma(Scalar::F16, a, b, c);
            if [a, b, c, got].iter().any(|v| !half(*v).is_finite()) {
                continue;
            }
            let want = exact(a) * exact(b) + (exact(c) << 24);
            let off = |v: u64| ((exact(v) << 24) - want).abs();
            inexact += u32::from(off(got) != 0);
            for neighbour in [got.wrapping_sub(1), got + 1].map(|v| v & 0xffff) {
                if half(neighbour).is_finite()
                    && half(neighbour).is_sign_negative() == half(got).is_sign_negative()
                {
                    let nearer = off(got) < off(neighbour) || (off(got) == off(neighbour) && got & 1 == 0);
                    assert!(nearer, "{a:#x} * {b:#x} + {c:#x} = {got:#x}");
                }
            }
        }
        assert!(inexact > 10_000);
        // bf16: 259/256 less a little is nearer to 258/256 than to 260/256.
        let b = |v: f32| u64::from(half::bf16::from_f32(v).to_bits());
        let got = fma(Scalar::Bf16, b(7.0), b(37.0 / 256.0), b(-(2f32.powi(-100))));
        assert_eq!(got, b(258.0 / 256.0));
    }

    #[test]
    fn min_and_max_propagate_nan_and_order_zeros() {
        let (nan, pz, nz) = (f32b(f32::NAN), f32b(0.0), f32b(-0.0));
        for op in [BinOp::Min, BinOp::Max] {
            for (a, b) in [(nan, pz), (pz, nan)] {
                let r = binary(op, Scalar::F32, a, b).unwrap();
                assert!(f32::from_bits(r as u32).is_nan());
            }
        }
        for (a, b) in [(pz, nz), (nz, pz)] {
            assert_eq!(binary(BinOp::Min, Scalar::F32, a, b), Ok(nz));
            assert_eq!(binary(BinOp::Max, Scalar::F32, a, b), Ok(pz));
        }
    }

    #[test]
    fn integers_wrap_and_index_does_not() {
        let max = i64::MAX as u64;
        assert_eq!(binary(BinOp::Add, Scalar::I64, max, 1), Ok(i64::MIN as u64));
        assert_eq!(binary(BinOp::Add, Scalar::Index, max, 1), Err(Undefined::IndexOverflow));
        assert_eq!(binary(BinOp::Mul, Scalar::U8, 200, 2), Ok(144));
        assert_eq!(binary(BinOp::FloorDiv, Scalar::I32, 1, 0), Err(Undefined::DivisionByZero));
        let min = i64::from(i32::MIN) as u64;
        assert_eq!(binary(BinOp::FloorDiv, Scalar::I32, min, -1i64 as u64), Ok(min));
        assert_eq!(binary(BinOp::Shl, Scalar::I8, 1, 9), Ok(2));
        assert_eq!(binary(BinOp::Shr, Scalar::I8, -2i64 as u64, 1), Ok(-1i64 as u64));
        assert_eq!(unary(UnOp::Not, Scalar::U8, 1), Ok(254));
        assert_eq!(unary(UnOp::Neg, Scalar::Index, i64::MIN as u64), Err(Undefined::IndexOverflow));
    }

    #[test]
    fn casts_saturate_and_round_once() {
        let f = |v: f64| v.to_bits();
        assert_eq!(cast(Scalar::F64, Scalar::I8, f(300.0)), Ok(127));
        assert_eq!(cast(Scalar::F64, Scalar::U16, f(-3.0)), Ok(0));
        assert_eq!(cast(Scalar::F64, Scalar::I32, f(f64::NAN)), Ok(0));
        assert_eq!(cast(Scalar::I32, Scalar::I8, 300), Ok(44));
        assert_eq!(cast(Scalar::F64, Scalar::Bool, f(f64::NAN)), Ok(1));
        assert_eq!(cast(Scalar::U64, Scalar::Index, u64::MAX), Err(Undefined::IndexOverflow));
        // 1 + 2^-11 + 2^-40: half way in f32's view, above half way in truth.
        let v = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(to_f64(Scalar::F16, of_f64(Scalar::F16, v)), 1.0 + 2f64.powi(-10));
        // 2^62 + 2^54 + 1 is just above half way between two bf16 numbers.
        let big = (1i64 << 62) + (1 << 54) + 1;
        let r = cast(Scalar::I64, Scalar::Bf16, big as u64).unwrap();
        assert_eq!(to_f64(Scalar::Bf16, r), 2f64.powi(62) + 2f64.powi(55));
        assert_eq!(to_f64(Scalar::F16, of_f64(Scalar::F16, 1e300)), f64::INFINITY);
    }

    #[test]
    fn bitcast_keeps_canonical_integers() {
        assert_eq!(bitcast(Scalar::F32, Scalar::I32, f32b(-0.0)), Ok(i64::from(i32::MIN) as u64));
        assert_eq!(bitcast(Scalar::I32, Scalar::F32, i64::from(i32::MIN) as u64), Ok(1 << 31));
        assert_eq!(bitcast(Scalar::I32, Scalar::F64, 0), Err(Undefined::NoSuchOperation));
    }
}
