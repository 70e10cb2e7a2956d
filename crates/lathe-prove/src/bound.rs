//! Formulas over the reals: `f64` values with a bound of how far they are from the exact ones (running error
//! analysis: Higham, "Accuracy and Stability of Numerical Algorithms", section 3.3). Two formulas that are equal over
//! the reals differ by no more than their bounds, however they round.

use crate::formula::{Formulas, Id, Node, Op};
use crate::machine::{Machine, renumbered};
use crate::sample::mix;
use lathe_ir::scalar::{self, ScalarValue};
use lathe_ir::{BinOp, MathFn, Scalar, UnOp};
use std::collections::HashMap;

/// Half of the distance from 1 to the next number, and the least number.
const UNIT: f64 = f64::EPSILON / 2.0;
const TINY: f64 = f64::MIN_POSITIVE;
/// Beyond this a value is not a witness: it may overflow on the one side alone.
const LARGE: f64 = 1e290;

/// A value with its largest error; integers and `bool` are exact.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Approximate {
    Float(f64, f64),
    Exact(u64),
    /// Not known well enough, or none.
    None,
}
use Approximate::{Exact, Float, None as Unknown};

/// Formulas whose floats are `f64`: conversions among floats are left out. `None` where bits are reinterpreted.
pub(crate) fn widened(f: &Formulas, roots: &[Id]) -> Option<(Formulas, Vec<Id>)> {
    let mut out = Formulas::default();
    let mut at: HashMap<Id, Id> = HashMap::new();
    for id in f.under(roots) {
        let Node { op, ty } = f.get(id);
        let parts: Vec<Id> = f.parts(id).iter().map(|p| at[p]).collect();
        let wide = if ty.is_float() { Scalar::F64 } else { *ty };
        let new = match op {
            Op::Bitcast(_) => return None,
            Op::Const(v) if ty.is_float() => {
                out.constant(ScalarValue::float(Scalar::F64, scalar::to_f64(*ty, *v)))
            }
            Op::Cast(_) if out.ty(parts[0]) == wide => parts[0],
            op => out.add(renumbered(op, &parts), wide),
        };
        at.insert(id, new);
    }
    let roots = roots.iter().map(|r| at[r]).collect();
    Some((out, roots))
}

/// The roots of widened formulas on some assignments of their variables (by number).
pub(crate) fn run(
    f: &Formulas,
    roots: &[Id],
    vars: &[(u32, Scalar)],
    inputs: &[Vec<u64>],
    seed: u64,
) -> Vec<Vec<Approximate>> {
    let count = inputs.first().map_or(1, Vec::len);
    let mut columns: HashMap<Id, Vec<Approximate>> = HashMap::new();
    for id in f.under(roots) {
        let Node { op, ty } = f.get(id);
        let of = |a: &Id, n: usize| columns[a][n];
        let column: Vec<Approximate> = match op {
            Op::Var(v) => match vars.iter().position(|x| x.0 == *v) {
                Some(k) => inputs[k].iter().map(|b| input(*ty, *b)).collect(),
                None => vec![Unknown; count],
            },
            // An infinity that is written down is exact, and so are results computed from it.
            Op::Const(v) if ty.is_float() => vec![Float(scalar::to_f64(*ty, *v), 0.0); count],
            Op::Const(v) => vec![Exact(*v); count],
            Op::Math(g, v) if !g.is_exact() => {
                math(*g, &v.iter().map(|a| &columns[a][..]).collect::<Vec<_>>())
            }
            Op::Apply(g, v) => (0..count)
                .map(|n| {
                    let mut h = mix(seed ^ (u64::from(*g) << 32) ^ (n as u64 / 4));
                    for a in v {
                        match of(a, n) {
                            Exact(b) => h = mix(h ^ b),
                            Float(x, 0.0) => h = mix(h ^ x.to_bits()),
                            _ => return Unknown,
                        }
                    }
                    // Ordinary numbers: that functions may give others says nothing of rounding.
                    if *ty == Scalar::F64 {
                        Float((h >> 40) as f64 / 65536.0 - 128.0, 0.0)
                    } else {
                        Exact(crate::sample::any(*ty, h))
                    }
                })
                .collect(),
            _ => {
                let parts = f.parts(id);
                let from = parts.first().map_or(*ty, |a| f.ty(*a));
                (0..count)
                    .map(|n| {
                        let args: Vec<Approximate> = parts.iter().map(|a| of(a, n)).collect();
                        if args.iter().any(|a| matches!(a, Float(v, _) if v.is_infinite())) {
                            return of_infinity(op, *ty, from, &args);
                        }
                        known(operation(op, *ty, from, &args))
                    })
                    .collect()
            }
        };
        columns.insert(id, column);
    }
    roots.iter().map(|r| columns[r].clone()).collect()
}

fn input(ty: Scalar, bits: u64) -> Approximate {
    known(if ty.is_float() { Float(scalar::to_f64(ty, bits), 0.0) } else { Exact(bits) })
}

fn known(a: Approximate) -> Approximate {
    match a {
        Float(v, e) if !(v.abs() < LARGE && e < LARGE) => Unknown,
        a => a,
    }
}

/// Rounded once, unless that lost nothing.
fn rounded(v: f64, e: f64, lossless: bool) -> Approximate {
    Float(v, if lossless { e } else { e + UNIT * v.abs() })
}

/// Rounded once; what is too small for a number may have become 0.
fn scaled(v: f64, e: f64, lossless: bool) -> Approximate {
    if lossless && (v == 0.0 || v.abs() > 1e-280) { Float(v, e) } else { rounded(v, e + TINY, false) }
}

/// What rounding a sum lost (Knuth's TwoSum).
fn lost(a: f64, b: f64) -> f64 {
    let s = a + b;
    let b2 = s - a;
    (a - (s - b2)) + (b - b2)
}

fn operation(op: &Op, ty: Scalar, from: Scalar, args: &[Approximate]) -> Approximate {
    use BinOp::*;
    match (op, args) {
        (Op::Select(..), [Exact(c), a, b]) => *(if *c != 0 { a } else { b }),
        (Op::Unary(UnOp::Neg, _), [Float(v, e)]) => Float(-v, *e),
        (Op::Unary(o, _), [Exact(a)]) => exact(scalar::unary(*o, ty, *a)),
        (Op::Binary(o, ..), [Exact(a), Exact(b)]) => exact(scalar::binary(*o, from, *a, *b)),
        (Op::Fits(o, ..), [Exact(a), Exact(b)]) => {
            Exact(u64::from(scalar::binary(*o, Scalar::Index, *a, *b).is_ok()))
        }
        (Op::Binary(o, ..), [Float(a, d), Float(b, e)]) => {
            let (a, b, d, e) = (*a, *b, *d, *e);
            match o {
                Add => rounded(a + b, d + e, lost(a, b) == 0.0),
                Sub => rounded(a - b, d + e, lost(a, -b) == 0.0),
                Mul => {
                    let zero = a == 0.0 || b == 0.0;
                    let lossless = if a * b == 0.0 { zero } else { a.mul_add(b, -(a * b)) == 0.0 };
                    scaled(a * b, a.abs() * e + b.abs() * d + d * e, lossless)
                }
                Div if b.abs() > 2.0 * e => {
                    let q = a / b;
                    let lossless = if q == 0.0 { a == 0.0 } else { q.mul_add(b, -a) == 0.0 };
                    scaled(q, (d + q.abs() * e) / (b.abs() - e), lossless)
                }
                Min => Float(a.min(b), d.max(e)),
                Max => Float(a.max(b), d.max(e)),
                o if o.is_comparison() => {
                    if d + e > 0.0 && a.is_finite() && b.is_finite() && (a - b).abs() <= 2.0 * (d + e) {
                        return Unknown;
                    }
                    exact(scalar::binary(*o, Scalar::F64, a.to_bits(), b.to_bits()))
                }
                _ => Unknown,
            }
        }
        (Op::Math(MathFn::Fma, _), [Float(a, d), Float(b, e), Float(c, g)]) => {
            scaled(a.mul_add(*b, *c), a.abs() * e + b.abs() * d + d * e + g, false)
        }
        (Op::Math(MathFn::Abs, _), [Float(v, e)]) => Float(v.abs(), *e),
        (Op::Math(MathFn::Sqrt, _), [Float(v, e)]) if *v >= 0.0 => {
            let root = v.sqrt();
            let far = ((v + e).sqrt() - root).max(root - (v - e).max(0.0).sqrt());
            rounded(root, far, root.mul_add(root, -v) == 0.0)
        }
        (Op::Math(g, _), [Float(v, e)]) => {
            let whole =
                |x: f64| scalar::exact_math(*g, Scalar::F64, x.to_bits()).map_or(f64::NAN, f64::from_bits);
            let same = whole(v - e) == whole(v + e);
            if same { Float(whole(*v), 0.0) } else { Unknown }
        }
        (Op::Math(g, _), [Exact(a)]) => exact(scalar::exact_math(*g, ty, *a)),
        (Op::Cast(_), [Exact(a)]) if ty == Scalar::F64 => match scalar::cast(from, ty, *a) {
            Ok(bits) => {
                let v = f64::from_bits(bits);
                rounded(v, 0.0, v.abs() < 9.0e15)
            }
            Err(_) => Unknown,
        },
        (Op::Cast(_), [Exact(a)]) => exact(scalar::cast(from, ty, *a)),
        (Op::Cast(_), [Float(v, e)]) => {
            let to = |x: f64| scalar::cast(Scalar::F64, ty, x.to_bits());
            let near_zero = ty == Scalar::Bool && *e > 0.0 && v.abs() <= 2.0 * e;
            if to(v - e) == to(v + e) && !near_zero { exact(to(*v)) } else { Unknown }
        }
        _ => Unknown,
    }
}

/// An operation on an infinity: what IEEE arithmetic says, unless that is a NaN.
fn of_infinity(op: &Op, ty: Scalar, from: Scalar, args: &[Approximate]) -> Approximate {
    match operation(op, ty, from, args) {
        Float(v, _) if v.is_nan() => Unknown,
        // These return one of their operands as it is.
        a if matches!(op, Op::Select(..) | Op::Binary(BinOp::Min | BinOp::Max, ..)) => a,
        Float(v, _) => Float(v, 0.0),
        a => a,
    }
}

fn exact(r: Result<u64, scalar::Undefined>) -> Approximate {
    r.map_or(Unknown, Exact)
}

/// A math function at the values, and at the ends of what they may be.
fn math(g: MathFn, args: &[&[Approximate]]) -> Vec<Approximate> {
    let mut f = Formulas::default();
    let vars: Vec<Id> = (0..args.len() as u32).map(|n| f.var(n, Scalar::F64)).collect();
    let root = f.add(Op::Math(g, vars), Scalar::F64);
    let m = Machine::new(&f, &[root]);
    let count = args[0].len();
    // The value, then each argument moved down and up.
    let points = 1 + 2 * args.len();
    let mut columns: Vec<Vec<u64>> = vec![Vec::with_capacity(points * count); args.len()];
    for n in 0..count {
        for p in 0..points {
            for (k, (c, values)) in columns.iter_mut().zip(args).enumerate() {
                let (v, e) = match values[n] {
                    Float(v, e) => (v, e),
                    _ => (f64::NAN, 0.0),
                };
                let moved = match p {
                    0 => v,
                    p if (p - 1) / 2 != k => v,
                    p if p % 2 == 1 => v - step(v, e),
                    _ => v + step(v, e),
                };
                c.push(moved.to_bits());
            }
        }
    }
    let out = m.run(&columns, 0).remove(0);
    let value = |n: usize| out[n].map_or(f64::NAN, f64::from_bits);
    (0..count)
        .map(|n| {
            let v = value(points * n);
            let far: f64 = (0..args.len())
                .map(|k| {
                    let moved =
                        (1..=2).map(|s| (value(points * n + 2 * k + s) - v).abs()).fold(0.0, f64::max);
                    match args[k][n] {
                        Float(x, e) if e > 0.0 => moved * (e / step(x, e)),
                        _ => 0.0,
                    }
                })
                .sum();
            // A few units beyond what arithmetic rounds.
            if args.iter().any(|a| matches!(a[n], Float(x, _) if x.is_infinite())) {
                return if v.is_nan() { Unknown } else { Float(v, 0.0) };
            }
            known(Float(v, 2.0 * far + 8.0 * UNIT * v.abs() + TINY))
        })
        .collect()
}

/// How far a function's argument is moved to see how far its value moves: by its error, if that is no less than what
/// rounding would hide.
fn step(v: f64, e: f64) -> f64 {
    e.max(v.abs() * 1e-7).max(1e-290)
}

/// Whether two approximations may be of one number, and whether that says something.
pub(crate) fn agree(a: Approximate, b: Approximate) -> Option<(bool, bool)> {
    match (a, b) {
        (Exact(a), Exact(b)) => Some((a == b, true)),
        (Float(a, d), Float(b, e)) => {
            let bound = 4.0 * (d + e);
            if a.is_infinite() || b.is_infinite() {
                return Some((a == b, true));
            }
            let size = a.abs().max(b.abs());
            Some(((a - b).abs() <= bound, bound <= 1e-4 * size || bound <= 8.0 * TINY))
        }
        _ => None,
    }
}
