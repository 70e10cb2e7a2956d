//! Sine, cosine, tangent and their inverses.

use super::coefficients::*;
use super::exp_log::{pick, round_scaled};
use super::term::{Term, fast_two_sum, two_product, two_sum};
use crate::types::Scalar;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI};

/// π/2 is the sum of these.
const HALF_PI: [f64; 3] = [FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_183_3e-33];

/// Beyond, the reduction below has too few digits, and the functions are NaN.
const LARGEST: f64 = (1u64 << 50) as f64;

/// `a = n π/2 + r + low` with `|r| <= π/4` for `0 <= a < 2^50`: sine and cosine of the remainder, and
/// the low bits of `n`, as bits of the integer of the width. In `f64` for both widths: an `f32` argument
/// near a multiple of π/2 then keeps all its digits (Cody and Waite; the products are exact by FMA).
fn reduced(a: &Term) -> (Term, Term, Term) {
    let narrow = a.scalar() == Scalar::F32;
    let wide = a.cast(Scalar::F64);
    let (n, quadrant) = round_scaled(&wide, FRAC_2_PI);
    let first = n.fma_const(-HALF_PI[0], &wide);
    if narrow {
        let r = n.fma_const(-HALF_PI[1], &first).cast(Scalar::F32);
        let z = r.clone() * r.clone();
        let sine = (r.clone() * z.clone()).fma(&z.poly(&SIN_F32), &r);
        let cosine = z.fma(&z.fma(&z.poly(&COS_F32), &a.like(-0.5)), &a.like(1.0));
        return (sine, cosine, quadrant.cast(Scalar::I32));
    }
    let (second, error) = two_product(&n, &a.like(-HALF_PI[1]));
    let (r, low) = two_sum(&first, &second);
    let low = n.fma_const(-HALF_PI[2], &(low + error));
    let (r, low) = fast_two_sum(&r, &low);
    let z = r.clone() * r.clone();
    let half = z.clone() * 0.5;
    let one = a.like(1.0);
    let by_low = low.clone() * (one.clone() - half.clone());
    let sine = r.clone() + (r.clone() * z.clone()).fma(&z.poly(&SIN_F64), &by_low);
    let (rough, error) = fast_two_sum(&one, &-half);
    let square = z.clone() * z.clone();
    let fine = square.fma(&z.poly(&COS_F64), &(error - r * low));
    (sine, rough + fine, quadrant)
}

/// NaN outside of the domain.
fn in_domain(a: &Term, value: &Term) -> Term {
    a.lt(&a.like(LARGEST)).select(value, &a.invalid())
}

fn is_odd(quadrant: &Term) -> Term {
    quadrant.and(&quadrant.int_like(1)).is_not(&quadrant.int_like(0))
}

/// The sign bit where the quadrant's second bit is set.
fn second_bit_as_sign(quadrant: &Term) -> Term {
    quadrant.and(&quadrant.int_like(2)).shl(i64::from(quadrant.scalar().bits()) - 2)
}

pub fn sin(x: &Term) -> Term {
    let a = x.abs();
    let (sine, cosine, quadrant) = reduced(&a);
    let sign = x.sign_bit().xor(&second_bit_as_sign(&quadrant));
    in_domain(&a, &is_odd(&quadrant).select(&cosine, &sine).flip_sign(&sign))
}

pub fn cos(x: &Term) -> Term {
    let a = x.abs();
    let (sine, cosine, quadrant) = reduced(&a);
    let sign = second_bit_as_sign(&(quadrant.clone() + quadrant.int_like(1)));
    in_domain(&a, &is_odd(&quadrant).select(&sine, &cosine).flip_sign(&sign))
}

pub fn tan(x: &Term) -> Term {
    let a = x.abs();
    let (sine, cosine, quadrant) = reduced(&a);
    let odd = is_odd(&quadrant);
    let value = odd.select(&-cosine.clone(), &sine) / odd.select(&sine, &cosine);
    in_domain(&a, &value.flip_sign(&x.sign_bit()))
}

/// `atan(num / den)` beyond an angle known in two parts.
fn atan_kernel(t: &Term, high: &Term, low: &Term) -> Term {
    let z = t.clone() * t.clone();
    let p = z.poly(pick(t, &ATAN_F32, &ATAN_F64));
    high.clone() + (t.clone() + (t.clone() * z).fma(&p, low))
}

/// An angle as a constant of the type and the rest.
fn angle(x: &Term, v: f64, rest: f64) -> (Term, Term) {
    if x.scalar() == Scalar::F32 {
        (x.like(v), x.like(v - f64::from(v as f32)))
    } else {
        (x.like(v), x.like(rest))
    }
}

/// The arcus tangent of a non-negative number, reduced to `t <= 1/2` with one division.
fn atan_positive(a: &Term) -> Term {
    // Between 1/2 and 2 the difference below is exact.
    let (middle, large) = (a.gt(&a.like(0.5)), a.gt(&a.like(2.0)));
    let one = a.like(1.0);
    let choose = |l: &Term, m: &Term, s: &Term| large.select(l, &middle.select(m, s));
    let num = choose(&-one.clone(), &(a.clone() - 1.0), a);
    let den = choose(a, &(a.clone() + 1.0), &one);
    let zero = a.like(0.0);
    let quarter = angle(a, FRAC_PI_4, HALF_PI[1] / 2.0);
    let half = angle(a, FRAC_PI_2, HALF_PI[1]);
    let high = choose(&half.0, &quarter.0, &zero);
    let low = choose(&half.1, &quarter.1, &zero);
    atan_kernel(&(num / den), &high, &low)
}

pub fn atan(x: &Term) -> Term {
    atan_positive(&x.abs()).flip_sign(&x.sign_bit())
}

/// The angle whose sine is `x`: of a triangle with the other side `√(1 - x²)`. Beyond 1 the root is NaN.
pub fn asin(x: &Term) -> Term {
    let one = x.like(1.0);
    let side = ((one.clone() - x.clone()) * (one + x.clone())).sqrt();
    atan2(x, &side)
}

/// Twice the angle whose tangent is `√((1 - x) / (1 + x))`: no digit is lost near 1.
pub fn acos(x: &Term) -> Term {
    let one = x.like(1.0);
    atan2(&(one.clone() - x.clone()).sqrt(), &(one + x.clone()).sqrt()) * 2.0
}

pub fn atan2(y: &Term, x: &Term) -> Term {
    let (ay, ax) = (y.abs(), x.abs());
    let (large, small) = (ay.max(&ax), ay.min(&ax));
    let (one, zero) = (x.like(1.0), x.like(0.0));
    let ratio = small.clone() / large.clone();
    let ratio = small.is(&x.like(f64::INFINITY)).select(&one, &ratio);
    let ratio = large.is(&zero).select(&zero, &ratio);
    let angle_in_octant = atan_positive(&ratio);
    let back = |v: f64, rest: f64, r: &Term| {
        let (high, low) = angle(x, v, rest);
        high - (r.clone() - low)
    };
    let upper = back(FRAC_PI_2, HALF_PI[1], &angle_in_octant);
    let r = ay.gt(&ax).select(&upper, &angle_in_octant);
    let sign = x.sign_bit();
    let left = sign.is_not(&sign.int_like(0));
    let r = left.select(&back(PI, 2.0 * HALF_PI[1], &r), &r);
    r.flip_sign(&y.sign_bit())
}
