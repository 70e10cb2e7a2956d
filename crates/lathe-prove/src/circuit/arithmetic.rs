//! Circuits of machine arithmetic on words of wires, lowest bit first.

use super::gates::{Gates, Wire};
use lathe_ir::{BinOp, Scalar};

pub(super) fn each(a: &[Wire], b: &[Wire], mut f: impl FnMut(Wire, Wire) -> Wire) -> Vec<Wire> {
    a.iter().zip(b).map(|(x, y)| f(*x, *y)).collect()
}

pub(super) fn choose(g: &mut Gates, c: Wire, a: &[Wire], b: &[Wire]) -> Vec<Wire> {
    each(a, b, |x, y| g.choose(c, x, y))
}

/// Sum and carry.
pub(super) fn add(g: &mut Gates, a: &[Wire], b: &[Wire], carry: Wire) -> (Vec<Wire>, Wire) {
    let mut carry = carry;
    let sum = each(a, b, |x, y| {
        let half = g.xor(x, y);
        let sum = g.xor(half, carry);
        carry = g.choose(half, carry, x);
        sum
    });
    (sum, carry)
}

/// Difference, and whether nothing was borrowed (`a >= b` without signs).
pub(super) fn subtract(g: &mut Gates, a: &[Wire], b: &[Wire]) -> (Vec<Wire>, Wire) {
    let b: Vec<Wire> = b.iter().map(|w| w.not()).collect();
    add(g, a, &b, Wire::TRUE)
}

pub(super) fn negate(g: &mut Gates, a: &[Wire]) -> Vec<Wire> {
    subtract(g, &vec![Wire::FALSE; a.len()], a).0
}

pub(super) fn multiply(g: &mut Gates, a: &[Wire], b: &[Wire]) -> Vec<Wire> {
    let n = a.len();
    // The operand with constant bits is walked over: its zeros add nothing.
    let (a, b) = if a.iter().all(|w| w.is_constant()) { (b, a) } else { (a, b) };
    let mut sum = vec![Wire::FALSE; n];
    for (k, bit) in b.iter().enumerate() {
        if *bit == Wire::FALSE {
            continue;
        }
        let row: Vec<Wire> =
            (0..n).map(|i| if i < k { Wire::FALSE } else { g.and(a[i - k], *bit) }).collect();
        sum = add(g, &sum, &row, Wire::FALSE).0;
    }
    sum
}

pub(super) fn any(g: &mut Gates, a: &[Wire]) -> Wire {
    a.iter().fold(Wire::FALSE, |x, y| g.or(x, *y))
}

pub(super) fn equal(g: &mut Gates, a: &[Wire], b: &[Wire]) -> Wire {
    let differ = each(a, b, |x, y| g.xor(x, y));
    any(g, &differ).not()
}

pub(super) fn less(g: &mut Gates, a: &[Wire], b: &[Wire], signed: bool) -> Wire {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    if signed && let (Some(x), Some(y)) = (a.last_mut(), b.last_mut()) {
        (*x, *y) = (x.not(), y.not());
    }
    subtract(g, &a, &b).1.not()
}

/// The amount is taken modulo the width, which is a power of two.
pub(super) fn shift(g: &mut Gates, a: &[Wire], by: &[Wire], left: bool, signed: bool) -> Vec<Wire> {
    let n = a.len();
    let fill = if signed && !left { a[n - 1] } else { Wire::FALSE };
    let mut out = a.to_vec();
    for (k, bit) in by.iter().enumerate().take(n.trailing_zeros() as usize) {
        let far = 1usize << k;
        let moved: Vec<Wire> = (0..n)
            .map(|i| {
                let from = if left { i.checked_sub(far) } else { Some(i + far) };
                from.and_then(|i| out.get(i)).copied().unwrap_or(fill)
            })
            .collect();
        out = choose(g, *bit, &moved, &out);
    }
    out
}

/// Quotient and remainder without signs, by long division; of no meaning for a divisor of 0.
fn divide_unsigned(g: &mut Gates, a: &[Wire], b: &[Wire]) -> (Vec<Wire>, Vec<Wire>) {
    let n = a.len();
    let mut rest = vec![Wire::FALSE; n + 1];
    let divisor: Vec<Wire> = b.iter().copied().chain([Wire::FALSE]).collect();
    let mut quotient = vec![Wire::FALSE; n];
    for k in (0..n).rev() {
        rest.rotate_right(1);
        rest[0] = a[k];
        let (less, enough) = subtract(g, &rest, &divisor);
        quotient[k] = enough;
        rest = choose(g, enough, &less, &rest);
    }
    rest.truncate(n);
    (quotient, rest)
}

pub(super) fn divide(g: &mut Gates, op: BinOp, a: &[Wire], b: &[Wire], signed: bool) -> Vec<Wire> {
    use BinOp::*;
    if !signed {
        let (q, r) = divide_unsigned(g, a, b);
        return if matches!(op, FloorDiv | TruncDiv) { q } else { r };
    }
    let n = a.len();
    let (s, t) = (a[n - 1], b[n - 1]);
    let magnitude = |g: &mut Gates, w: &[Wire], sign: Wire| {
        let minus = negate(g, w);
        choose(g, sign, &minus, w)
    };
    let (x, y) = (magnitude(g, a, s), magnitude(g, b, t));
    let (q, r) = divide_unsigned(g, &x, &y);
    let opposite = g.xor(s, t);
    let (q, r) = (magnitude(g, &q, opposite), magnitude(g, &r, s));
    match op {
        TruncDiv => q,
        TruncRem => r,
        _ => {
            // Down instead of towards zero.
            let inexact = any(g, &r);
            let adjust = g.and(inexact, opposite);
            if op == FloorDiv {
                let ones = vec![adjust; n];
                add(g, &q, &ones, Wire::FALSE).0
            } else {
                let more = add(g, &r, b, Wire::FALSE).0;
                choose(g, adjust, &more, &r)
            }
        }
    }
}

/// Bits of the fraction.
fn fraction(ty: Scalar) -> usize {
    match ty {
        Scalar::F16 => 10,
        Scalar::Bf16 => 7,
        Scalar::F32 => 23,
        _ => 52,
    }
}

pub(super) fn is_nan(g: &mut Gates, a: &[Wire], ty: Scalar) -> Wire {
    let (low, n) = (fraction(ty), a.len());
    let largest = a[low..n - 1].iter().fold(Wire::TRUE, |x, y| g.and(x, *y));
    let some = any(g, &a[..low]);
    g.and(largest, some)
}

/// The same bits, or both no number.
pub(super) fn same_value(g: &mut Gates, a: &[Wire], b: &[Wire], ty: Scalar) -> Wire {
    let (s, t) = (is_nan(g, a, ty), is_nan(g, b, ty));
    let (both, bits) = (g.and(s, t), equal(g, a, b));
    g.or(both, bits)
}

fn both_zero(g: &mut Gates, a: &[Wire], b: &[Wire]) -> Wire {
    let n = a.len();
    let (x, y) = (any(g, &a[..n - 1]), any(g, &b[..n - 1]));
    g.or(x, y).not()
}

pub(super) fn float_equal(g: &mut Gates, a: &[Wire], b: &[Wire], ty: Scalar) -> Wire {
    let (zeros, bits) = (both_zero(g, a, b), equal(g, a, b));
    let equal = g.or(zeros, bits);
    let (s, t) = (is_nan(g, a, ty), is_nan(g, b, ty));
    let nan = g.or(s, t);
    g.and(equal, nan.not())
}

/// In the order of numbers, `-0` before `+0`; of no meaning where one is a NaN.
pub(super) fn float_before(g: &mut Gates, a: &[Wire], b: &[Wire]) -> Wire {
    // Bits of negative numbers count downwards.
    let key = |g: &mut Gates, w: &[Wire]| {
        let sign = w[w.len() - 1];
        let mut out: Vec<Wire> = w.iter().map(|x| g.xor(*x, sign)).collect();
        let last = out.len() - 1;
        out[last] = sign.not();
        out
    };
    let (x, y) = (key(g, a), key(g, b));
    less(g, &x, &y, false)
}

pub(super) fn float_less(g: &mut Gates, a: &[Wire], b: &[Wire], ty: Scalar) -> Wire {
    let before = float_before(g, a, b);
    let zeros = both_zero(g, a, b);
    let (s, t) = (is_nan(g, a, ty), is_nan(g, b, ty));
    let nan = g.or(s, t);
    let out = g.and(before, zeros.not());
    g.and(out, nan.not())
}
