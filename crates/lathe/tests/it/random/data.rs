//! Arguments of one call: small numbers mostly, awkward ones sometimes; dense arrays and any strides.

use super::rng::Rng;
use lathe::check::shadow::{Computed, Number};
use lathe_ir::interp::{self, ArrayValue, leaf_offsets};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Function, Mode, ParamKind, Scalar};
use lathe_runtime::Array;
use std::collections::HashMap;

/// What the numbers are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    Small,
    /// With NaN, infinities and -0.0.
    Special,
    /// Fractions: sums round.
    Fractions,
}

/// Values for every parameter; `None` where the sizes do not fit.
pub fn values(f: &Function, sizes: &[(String, i64)], flavour: Flavour, seed: u64) -> Option<Vec<ArrayValue>> {
    let mut r = Rng::new(seed);
    let known: HashMap<_, _> =
        f.sizes.iter().filter_map(|b| sizes.iter().find(|s| *s.0 == *b.name).map(|s| (b.id, s.1))).collect();
    let mut out = Vec::new();
    for p in &f.params {
        let ParamKind::Array(b) = &p.kind else { return None };
        let extent = |e| usize::try_from(interp::evaluate(e, &known)?).ok();
        let shape: Vec<usize> = b.extents.iter().map(extent).collect::<Option<_>>()?;
        let mut a = ArrayValue::zeros(b.elem.clone(), &shape);
        let subscripts = matches!(&**p.name(), "G" | "S");
        for at in 0..a.len() {
            for (leaf, (ty, _)) in leaf_offsets(&b.elem).into_iter().enumerate() {
                let bits = if subscripts { r.below(4) as u64 } else { number(&mut r, ty, flavour) };
                a.set_leaf(at, leaf, bits);
            }
        }
        out.push(if p.mode == Mode::Out { ArrayValue::undefined(b.elem.clone(), &shape) } else { a });
    }
    Some(out)
}

fn number(r: &mut Rng, ty: Scalar, flavour: Flavour) -> u64 {
    let small = r.below(9) as i64 - 4;
    let special = flavour == Flavour::Special && r.one_in(5);
    let value = match flavour {
        _ if special => *r.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e-40, 3e38]),
        Flavour::Fractions => (r.below(2000) as f64 - 1000.0) / 700.0,
        _ => small as f64,
    };
    match ty {
        Scalar::Bool => r.below(2) as u64,
        Scalar::F32 => u64::from((value as f32).to_bits()),
        Scalar::F64 => value.to_bits(),
        _ if ty.is_float() => ArrayValue::from_f64(ty, &[1], &[value]).leaf(0, 0).map_or(0, |v| v.bits),
        _ => {
            let v = if special { *r.pick(&[i64::MIN, i64::MAX, 127, -128, 255, 32767]) } else { small };
            ArrayValue::from_i64(ty, &[1], &[v]).leaf(0, 0).map_or(0, |v| v.bits)
        }
    }
}

/// The same as an array with strides: dense, or reversed, padded and permuted.
pub fn array(v: &ArrayValue, strided: Option<&mut Rng>) -> Option<Array> {
    let shape: Vec<i64> = v.shape.iter().map(|n| *n as i64).collect();
    let mut a = match strided {
        None => Array::zeros(v.ty.clone(), &shape).ok()?,
        Some(r) => {
            let mut order: Vec<usize> = (0..shape.len()).collect();
            if r.one_in(2) {
                order.reverse();
            }
            let mut strides = vec![0; shape.len()];
            let mut next = 1 + r.below(2) as i64;
            for d in order {
                strides[d] = if r.one_in(3) { -next } else { next };
                next *= shape[d].max(1);
                next += r.below(2) as i64;
            }
            Array::with_strides(v.ty.clone(), &shape, &strides).ok()?
        }
    };
    let size = v.ty.bytes() as usize;
    for at in 0..v.len() {
        let index: Vec<i64> = v.index_of(at).iter().map(|i| *i as i64).collect();
        a.element_mut(&index)?.copy_from_slice(&v.bytes()[at * size..][..size]);
    }
    Some(a)
}

/// The first difference, bit for bit (NaN equals NaN), among what was written.
pub fn difference(f: &Function, got: &[ArrayValue], want: &[ArrayValue]) -> Option<String> {
    compare(f, got, want, &|_, _, _, g, w| g.bits == w.bits)
}

/// The first difference beyond what the bounds of the program admit; how many values they say nothing about.
pub fn beyond(
    f: &Function,
    got: &[ArrayValue],
    want: &[ArrayValue],
    bounds: &Computed,
) -> Result<usize, String> {
    let undecided = std::cell::Cell::new(0);
    let within = |param: usize, at: usize, leaf: usize, x: ScalarValue, y: ScalarValue| {
        if x.bits == y.bits {
            return true;
        }
        match bounds.leaf(param, at, leaf) {
            Number::Float(a) if a.error.is_finite() => a.admits(x.to_f64(), y.to_f64()),
            Number::Bits(_) => false,
            Number::Float(_) | Number::Unknown => {
                undecided.set(undecided.get() + 1);
                true
            }
        }
    };
    match compare(f, got, want, &within) {
        Some(d) => Err(d),
        None => Ok(undecided.get()),
    }
}

type Same<'a> = &'a dyn Fn(usize, usize, usize, ScalarValue, ScalarValue) -> bool;

fn compare(f: &Function, got: &[ArrayValue], want: &[ArrayValue], same: Same) -> Option<String> {
    for (param, p) in f.params.iter().enumerate().filter(|(_, p)| p.mode != Mode::In) {
        let (g, w) = (&got[param], &want[param]);
        for at in 0..w.len() {
            for leaf in 0..leaf_offsets(&w.ty).len() {
                let (Some(x), Some(y)) = (g.leaf(at, leaf), w.leaf(at, leaf)) else { continue };
                let nan = x.ty.is_float() && x.to_f64().is_nan() && y.to_f64().is_nan();
                if !nan && !same(param, at, leaf, x, y) {
                    let (name, index) = (p.name(), w.index_of(at));
                    return Some(format!(
                        "{name}{index:?}: got {:?} ({:#x}), expected {:?} ({:#x})",
                        x.to_f64(),
                        x.bits,
                        y.to_f64(),
                        y.bits
                    ));
                }
            }
        }
    }
    None
}
