//! Exponentials and logarithms.

use super::coefficients::*;
use super::term::{Term, fast_two_sum};
use crate::expr::{Expr, ExprKind};
use crate::ops::BinOp;
use crate::types::Scalar;
use crate::visit::walk_expr;
use std::f64::consts::LOG2_E;

/// What differs between the two widths.
pub struct Width {
    /// Adding it rounds to an integer, which then is in the low bits.
    pub magic: f64,
    pub mantissa: i64,
    pub bias: i64,
    /// `ln 2` with trailing zeros, so that integers times it are exact, and the rest.
    pub ln2: (f64, f64),
    pub smallest_normal: f64,
    /// Arguments of `exp` beyond give infinity or 0.
    pub exp_limit: f64,
    pub log2_e_low: f64,
    /// What `log10 e` is beyond the type's nearest number, and `log10 2` as [`Width::ln2`].
    pub log10_e_low: f64,
    pub log10_2: (f64, f64),
}

const F32: Width = Width {
    magic: 12_582_912.0,
    mantissa: 23,
    bias: 127,
    ln2: (0.693_359_375, -2.121_944_4e-4),
    smallest_normal: 1.175_494_4e-38,
    exp_limit: 105.0,
    log2_e_low: 1.925_963e-8,
    log10_e_low: -1.010_305e-8,
    log10_2: (0.301_025_390_625, 4.605_039e-6),
};

const F64: Width = Width {
    magic: 6_755_399_441_055_744.0,
    mantissa: 52,
    bias: 1023,
    ln2: (0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10),
    smallest_normal: 2.225_073_858_507_201_4e-308,
    exp_limit: 750.0,
    log2_e_low: 2.035_527_374_093_103_3e-17,
    log10_e_low: 1.098_319_650_216_765e-17,
    log10_2: (0.301_029_995_663_952_83, 2.836_339_455_104_496_4e-14),
};

/// The constants of a term's type.
pub fn width(x: &Term) -> &'static Width {
    if x.scalar() == Scalar::F32 { &F32 } else { &F64 }
}

pub fn pick<'a>(x: &Term, narrow: &'a [f64], wide: &'a [f64]) -> &'a [f64] {
    if x.scalar() == Scalar::F32 { narrow } else { wide }
}

/// Rounds `x * factor` to an integer: as a float, and as an integer in the low bits of one.
pub fn round_scaled(x: &Term, factor: f64) -> (Term, Term) {
    let magic = x.like(width(x).magic);
    let shifted = x.fma_const(factor, &magic);
    (shifted.clone() - magic, shifted.bits())
}

/// `2^k` for the integer in the low bits of `k`, which must be the exponent of a normal number.
pub fn power_of_two(k: &Term, w: &Width) -> Term {
    (k.clone() + k.int_like(w.bias)).shl(w.mantissa).bits()
}

/// `p * 2^k` with one rounding, for all exponents that matter: in two steps, of which the first is exact.
pub fn scale(p: &Term, k: &Term, w: &Width) -> Term {
    // The integer from the bits of the shifted float.
    let k = k.clone() - p.like(w.magic).bits();
    let half = k.shr(1);
    let rest = k - half.clone();
    p.clone() * power_of_two(&half, w) * power_of_two(&rest, w)
}

/// Of a product that `scale` wrote for an integer in the low bits of a float: the other factor, and that integer as a float.
/// Machines may have an instruction for it. Where one of the two is not a number, the product is none either.
pub fn scaled(e: &Expr) -> Option<(Expr, Expr)> {
    let ExprKind::Binary(BinOp::Mul, first, _) = e.kind() else { return None };
    let ExprKind::Binary(BinOp::Mul, p, half) = first.kind() else { return None };
    let ExprKind::Bitcast(_) = half.kind() else { return None };
    let p = Term(p.clone());
    let w = width(&p);
    let mut shifted = None;
    walk_expr(half, &mut |x| match x.kind() {
        ExprKind::Bitcast(from) if from.ty() == e.ty() && !matches!(from.kind(), ExprKind::Float(_)) => {
            shifted.get_or_insert_with(|| Term(from.clone()));
        }
        _ => {}
    });
    let shifted = shifted?;
    (scale(&p, &shifted.bits(), w).0 == *e).then(|| (p.0.clone(), (shifted - p.like(w.magic)).0))
}

/// `e^x = (1 + p) 2^k`: `p`, and the bits of the shifted float that hold `k`.
pub fn exp_parts(x: &Term) -> (Term, Term) {
    let (n, k) = round_scaled(x, LOG2_E);
    let (high, low) = width(x).ln2;
    let r = n.fma_const(-high, x);
    let r = n.fma_const(-low, &r);
    let q = r.poly(pick(x, &EXPM1_F32, &EXPM1_F64));
    ((r.clone() * r.clone()).fma(&q, &r), k)
}

pub fn exp(x: &Term) -> Term {
    let w = width(x);
    let x = x.at_most(w.exp_limit).at_least(-w.exp_limit);
    let (p, k) = exp_parts(&x);
    scale(&(p + 1.0), &k, w)
}

pub fn exp2(x: &Term) -> Term {
    let w = width(x);
    let limit = w.exp_limit * 1.45;
    let x = x.at_most(limit).at_least(-limit);
    let (n, k) = round_scaled(&x, 1.0);
    let r = x.clone() - n;
    let q = r.poly(pick(&x, &EXP2_F32, &EXP2_F64));
    scale(&r.fma(&q, &x.like(1.0)), &k, w)
}

/// `x = (1 + f) 2^e` with `1 + f` in `[√½, √2]`, for positive finite `x`, subnormal or not: `f`, `e`.
pub fn log_parts(x: &Term) -> (Term, Term) {
    let w = width(x);
    let up = (w.mantissa + 1) as f64;
    let tiny = x.lt(&x.like(w.smallest_normal));
    let bits = tiny.select(&(x.clone() * up.exp2()), x).bits();
    let root = x.like(std::f64::consts::FRAC_1_SQRT_2).bits();
    let e = (bits.clone() - root).shr(w.mantissa);
    let m = (bits - e.shl(w.mantissa)).bits();
    // The integer becomes a float through the low bits of a shifted one.
    let magic = x.like(w.magic);
    let e = (e + magic.bits()).bits() - magic;
    (m - 1.0, e - tiny.select(&x.like(up), &x.like(0.0)))
}

/// `log(1 + f) = f + y` with a small `y`.
fn log_near_one(f: &Term) -> Term {
    let square = f.clone() * f.clone();
    if f.scalar() == Scalar::F32 {
        let cubic = square.clone() * f.clone() * f.poly(&LOG_F32);
        return square.fma_const(-0.5, &cubic);
    }
    let s = f.clone() / (f.clone() + 2.0);
    let z = s.clone() * s.clone();
    let tail = z.clone() * z.poly(&LOG_F64);
    let half = square * 0.5;
    s.fma(&(half.clone() + tail), &-half)
}

/// The values at and beyond the ends of a logarithm's domain around its value inside.
fn log_ends(x: &Term, inside: &Term) -> Term {
    let (zero, infinity) = (x.like(0.0), x.like(f64::INFINITY));
    let positive = x.is(&infinity).select(&infinity, inside);
    let other = x.is(&zero).select(&x.like(f64::NEG_INFINITY), &x.invalid());
    x.gt(&zero).select(&positive, &other)
}

pub fn log(x: &Term) -> Term {
    let (f, e) = log_parts(x);
    let (high, low) = width(x).ln2;
    let y = e.fma_const(low, &log_near_one(&f));
    log_ends(x, &e.fma_const(high, &(f + y)))
}

pub fn log2(x: &Term) -> Term {
    let (f, e) = log_parts(x);
    let (log, rest) = fast_two_sum(&f, &log_near_one(&f));
    let factor = x.like(LOG2_E);
    let high = log.clone() * factor.clone();
    let low = log.fma(&factor, &-high.clone());
    let low = rest.fma(&factor, &log.fma_const(width(x).log2_e_low, &low));
    // Where `e` is not 0, it is larger than the rest.
    let (sum, error) = fast_two_sum(&e, &high);
    log_ends(x, &(sum + (error + low)))
}

pub fn log10(x: &Term) -> Term {
    let w = width(x);
    let (f, e) = log_parts(x);
    let (log, rest) = fast_two_sum(&f, &log_near_one(&f));
    let factor = x.like(std::f64::consts::LOG10_E);
    let high = log.clone() * factor.clone();
    let low = log.fma(&factor, &-high.clone());
    let low = rest.fma(&factor, &log.fma_const(w.log10_e_low, &low));
    // The exponent's part is exact, and larger than the rest where it is not 0.
    let (sum, error) = fast_two_sum(&(e.clone() * w.log10_2.0), &high);
    log_ends(x, &(sum + (error + e.fma_const(w.log10_2.1, &low))))
}

pub fn sigmoid(x: &Term) -> Term {
    let e = exp(&-x.abs());
    let one = x.like(1.0);
    x.lt(&x.like(0.0)).select(&e, &one) / (e + 1.0)
}

pub fn tanh(x: &Term) -> Term {
    let a = x.abs().at_most(if x.scalar() == Scalar::F32 { 10.0 } else { 20.0 });
    let w = width(x);
    let (p, k) = exp_parts(&(a.clone() * 2.0));
    let s = power_of_two(&(k - x.like(w.magic).bits()), w);
    let value = if x.scalar() == Scalar::F32 {
        let z = a.clone() * a.clone();
        let small = (a.clone() * z.clone()).fma(&z.poly(&TANH_F32), &a);
        let large = a.like(1.0) - a.like(2.0) / (s.fma(&p, &s) + 1.0);
        a.lt(&a.like(0.55)).select(&small, &large)
    } else {
        let minus_one = s.fma(&p, &(s.clone() - 1.0));
        minus_one.clone() / (minus_one + 2.0)
    };
    value.flip_sign(&x.sign_bit())
}

pub fn erf(x: &Term) -> Term {
    let w = width(x);
    let a = x.abs().at_most(if x.scalar() == Scalar::F32 { 4.0 } else { 6.0 });
    let small = a.fma(&(a.clone() * a.clone()).poly(pick(x, &ERF_F32, &ERF_F64)), &a);
    let exponent = (a.clone() - 1.0).poly(pick(x, &ERFC_LOG_F32, &ERFC_LOG_F64));
    let (p, k) = exp_parts(&-exponent);
    let s = power_of_two(&(k - x.like(w.magic).bits()), w);
    let one = x.like(1.0);
    let large = one.clone() - s.fma(&p, &s);
    a.lt(&one).select(&small, &large).flip_sign(&x.sign_bit())
}
