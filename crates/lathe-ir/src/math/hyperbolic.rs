//! Functions that lose digits if they are composed of exponentials, logarithms and roots: near 0, and near overflow.

use super::exp_log::{exp, exp_parts, log, power_of_two, scale, width};
use super::term::{Term, two_sum};
use crate::types::Scalar;
use std::f64::consts::LN_2;

/// From here on `e^x - 1` is `e^x`, and `e^-x` is negligible.
fn large(x: &Term) -> Term {
    x.like(if x.scalar() == Scalar::F32 { 17.0 } else { 40.0 })
}

/// `x` itself where it is 0, with its sign.
fn keep_zero(x: &Term, value: &Term) -> Term {
    x.is(&x.like(0.0)).select(x, value)
}

/// `e^x - 1` for `x` of moderate size.
fn expm1_moderate(x: &Term) -> Term {
    let w = width(x);
    let (p, k) = exp_parts(x);
    let s = power_of_two(&(k - x.like(w.magic).bits()), w);
    s.fma(&p, &(s.clone() - 1.0))
}

pub fn expm1(x: &Term) -> Term {
    let limit = large(x);
    let moderate =
        expm1_moderate(&x.gt(&limit).select(&limit, &x.lt(&-limit.clone()).select(&-limit.clone(), x)));
    keep_zero(x, &x.gt(&limit).select(&exp(x), &moderate))
}

/// `log(1 + x)`: the logarithm of the rounded sum, and what the rounding lost, divided by the sum.
pub fn log1p(x: &Term) -> Term {
    let (sum, error) = two_sum(&x.like(1.0), x);
    let value = log(&sum);
    let inside = sum.gt(&x.like(0.0)).and(&sum.lt(&x.like(f64::INFINITY)));
    keep_zero(x, &inside.select(&(value.clone() + error / sum.clone()), &value))
}

/// `e^a / 2` for a large `a`, up to where it overflows itself.
fn half_exp(a: &Term) -> Term {
    let w = width(a);
    let a = a.at_most(w.exp_limit);
    let (p, k) = exp_parts(&a);
    scale(&((p + 1.0) * 0.5), &k, w)
}

pub fn sinh(x: &Term) -> Term {
    let a = x.abs();
    let limit = large(x);
    let t = expm1_moderate(&a.gt(&limit).select(&limit, &a));
    let small = (t.clone() + t.clone() / (t + 1.0)) * 0.5;
    keep_zero(x, &a.gt(&limit).select(&half_exp(&a), &small).flip_sign(&x.sign_bit()))
}

pub fn cosh(x: &Term) -> Term {
    let a = x.abs();
    let limit = large(x);
    let half = exp(&a.gt(&limit).select(&limit, &a)) * 0.5;
    let small = half.clone() + x.like(0.25) / half;
    a.gt(&limit).select(&half_exp(&a), &small)
}

/// From here on `√(x² ± 1)` is `x`.
fn far(a: &Term) -> Term {
    a.gt(&a.like(if a.scalar() == Scalar::F32 { 1e5 } else { 1e9 }))
}

pub fn asinh(x: &Term) -> Term {
    let a = x.abs();
    let far = far(&a);
    let near = far.select(&a.like(1.0), &a);
    let square = near.clone() * near.clone();
    let root = (square.clone() + 1.0).sqrt();
    let small = log1p(&(near + square / (root + 1.0)));
    keep_zero(x, &far.select(&(log(&a) + LN_2), &small).flip_sign(&x.sign_bit()))
}

pub fn acosh(x: &Term) -> Term {
    let far = far(x);
    let t = far.select(&x.like(1.0), x) - 1.0;
    let small = log1p(&(t.clone() + t.fma(&t, &(t.clone() * 2.0)).sqrt()));
    let value = far.select(&(log(x) + LN_2), &small);
    x.lt(&x.like(1.0)).select(&x.invalid(), &value)
}

pub fn atanh(x: &Term) -> Term {
    let a = x.abs();
    let twice = a.clone() * 2.0;
    let value = log1p(&(twice / (x.like(1.0) - a))) * 0.5;
    keep_zero(x, &value.flip_sign(&x.sign_bit()))
}

/// `√(x² + y²)` without overflow on the way: large arguments are made smaller, small ones larger, by a power of 2.
pub fn hypot(x: &Term, y: &Term) -> Term {
    let (ax, ay) = (x.abs(), y.abs());
    let most = ax.max(&ay);
    let (limit, factor) = if x.scalar() == Scalar::F32 { (60.0f64, 90.0f64) } else { (500.0, 600.0) };
    let (up, down) = (x.like(factor.exp2()), x.like((-factor).exp2()));
    let one = x.like(1.0);
    let (huge, tiny) = (most.gt(&x.like(limit.exp2())), most.lt(&x.like((-limit).exp2())));
    let by = huge.select(&down, &tiny.select(&up, &one));
    let back = huge.select(&up, &tiny.select(&down, &one));
    let (u, v) = (ax.clone() * by.clone(), ay.clone() * by);
    let root = u.fma(&u, &(v.clone() * v)).sqrt() * back;
    let infinity = x.like(f64::INFINITY);
    ax.is(&infinity).or(&ay.is(&infinity)).select(&infinity, &root)
}
