//! Powers.

use super::coefficients::*;
use super::exp_log::{log_parts, power_of_two, round_scaled, scale, width};
use super::term::{Term, fast_two_sum, two_product, two_sum};
use crate::types::Scalar;
use std::f64::consts::{LN_2, LOG2_E};

/// `x^y`, with the special cases of C's `pow`.
pub fn pow(x: &Term, y: &Term) -> Term {
    let a = x.abs();
    let magnitude = if x.scalar() == Scalar::F32 { through_f64(&a, y) } else { in_two_parts(&a, y) };
    let (zero, one, infinity) = (x.like(0.0), x.like(1.0), x.like(f64::INFINITY));
    // 0 and infinity: the result is the one or the other.
    let vanishes = a.is(&zero).xor(&y.lt(&zero));
    let extreme = a.is(&zero).or(&a.is(&infinity));
    let magnitude = extreme.select(&vanishes.select(&zero, &infinity), &magnitude);
    let half = y.clone() * 0.5;
    let whole = y.is(&y.trunc());
    let odd = whole.and(&half.is_not(&half.trunc()));
    let sign = x.sign_bit();
    let signed = magnitude.flip_sign(&odd.select(&sign, &sign.int_like(0)));
    // A negative base has no power that is not whole; that of -infinity is the limit.
    let undefined = x.lt(&zero).and(&whole.not()).and(&x.is_not(&x.like(f64::NEG_INFINITY)));
    let nan = x.is_not(x).or(&y.is_not(y));
    let value = undefined.select(&x.invalid(), &nan.select(&(x.clone() + y.clone()), &signed));
    y.is(&zero).or(&x.is(&one)).select(&one, &value)
}

/// An `f32` power with the logarithm and the exponential in `f64`: no digit that matters is lost.
fn through_f64(a: &Term, y: &Term) -> Term {
    let (a, y) = (a.cast(Scalar::F64), y.cast(Scalar::F64));
    let (f, e) = log_parts(&a);
    let s = f.clone() / (f + 2.0);
    let z = s.clone() * s.clone();
    let log = (s.clone() * z.clone()).fma(&z.poly(&LOG_F64), &(s * 2.0));
    let exponent =
        (y.at_most(1e30).at_least(-1e30) * log.fma_const(LOG2_E, &e)).at_most(300.0).at_least(-300.0);
    let w = width(&a);
    let (n, k) = round_scaled(&exponent, 1.0);
    let r = exponent - n;
    let p = r.fma(&r.poly(&EXP2_F64), &a.like(1.0));
    (p * power_of_two(&(k - a.like(w.magic).bits()), w)).cast(Scalar::F32)
}

/// An `f64` power with the logarithm in two parts, to about 100 bits where they matter.
fn in_two_parts(a: &Term, y: &Term) -> Term {
    let (high, low) = log2_in_two_parts(a);
    // Larger exponents overflow or vanish all the same, unless the base is 1.
    let y = y.at_most(1e21).at_least(-1e21);
    let (product, error) = two_product(&y, &high);
    let error = y.fma(&low, &error);
    let limited = product.at_most(1100.0).at_least(-1100.0);
    let error = product.is(&limited).select(&error, &a.like(0.0));
    let (n, k) = round_scaled(&limited, 1.0);
    let r = limited - n;
    let (r, rest) = fast_two_sum(&r, &error);
    // 2^(r + rest): the rest is a factor near 1.
    let q = r.fma(&r.poly(&EXP2_F64), &a.like(1.0));
    let q = (q.clone() * rest).fma_const(LN_2, &q);
    scale(&q, &k, width(a))
}

/// `log2` of a positive finite number as an unevaluated sum.
fn log2_in_two_parts(a: &Term) -> (Term, Term) {
    let (f, e) = log_parts(a);
    let two = a.like(2.0);
    // s = f / (2 + f) in two parts.
    let (den, den_low) = fast_two_sum(&two, &f);
    let s = f.clone() / den.clone();
    let left = (-s.clone()).fma(&den, &f);
    let left = (-s.clone()).fma(&den_low, &left);
    let s_low = left / den;
    // The cubic term, 2/3 s³ and what follows, in two parts.
    let (z, z_low) = two_product(&s, &s);
    let z_low = (s.clone() * 2.0).fma(&s_low, &z_low);
    let tail = z.clone() * z.poly(&LOG_TAIL_F64);
    let (c, c_low) = fast_two_sum(&a.like(2.0 / 3.0), &tail);
    let c_low = c_low + 3.700_743_415_417_188e-17;
    let (zc, zc_low) = two_product(&z, &c);
    let zc_low = z.fma(&c_low, &z_low.fma(&c, &zc_low));
    let (t, t_low) = two_product(&s, &zc);
    let t_low = s.fma(&zc_low, &s_low.fma(&zc, &t_low));
    let (log, log_low) = fast_two_sum(&(s * 2.0), &t);
    let log_low = log_low + (s_low.fma(&two, &t_low));
    // Times log2(e), plus the exponent.
    let factor = a.like(LOG2_E);
    let (m, m_low) = two_product(&log, &factor);
    let m_low = log.fma_const(width(a).log2_e_low, &log_low.fma(&factor, &m_low));
    let (sum, error) = two_sum(&e, &m);
    fast_two_sum(&sum, &(error + m_low))
}
