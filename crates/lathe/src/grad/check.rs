//! Whether derivatives agree with differences, and both modes with one another.

use super::{Mode, Passes, Request, differentiated};
use crate::codes;
use lathe_diagnostics::Diagnostic;
use lathe_grad::{shadow_name, widened};
use lathe_ir::interp::{self, ArrayValue, Options};
use lathe_ir::{Function, Mode as ParamMode, Module, VarId};
use lathe_model::count::Values;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// How far derivatives are from what they are compared with.
#[derive(Clone, Debug, Serialize)]
pub struct GradCheck {
    pub against: String,
    /// The largest distance of a tangent from its difference, relative to the largest of its array.
    pub max_rel_error: f64,
    /// The distance of `<J v, w>` and `<v, Jᵀ w>`, relative to the larger.
    pub adjoint_rel_error: f64,
    pub ok: bool,
}

/// Central differences leave so much: with steps of `1e-6` and f64.
const DIFFERENCES: f64 = 1e-5;
/// Both products are the same sum, in another order.
const ADJOINT: f64 = 1e-9;

pub(super) type Named = BTreeMap<String, ArrayValue>;

/// Compares the derivatives of a kernel, with all floats in f64, with central differences along a random direction,
/// and forward mode with reverse mode; the derivatives are made with the passes, the kernel is as it is. `values` are
/// the arrays of one call, in the order of parameters.
///
/// # Errors
/// What cannot be differentiated in one of the modes, and what a run says.
pub fn check(
    module: &Module,
    kernel: &Function,
    request: &Request,
    passes: &Passes,
    values: &[ArrayValue],
    sizes: &Values,
    seed: u64,
) -> Result<GradCheck, Diagnostic> {
    let (module, f) = widened(module, kernel);
    let derived = |mode, suffix: &str| {
        let name = format!("{}_{suffix}", kernel.name);
        let request = Request { mode, name, value: mode == Mode::Forward, ..request.clone() };
        differentiated(&module, &f, &request, passes)
    };
    let forward = derived(Mode::Forward, "jvp")?;
    // Not everything has a reverse mode: where forward mode was asked for, it is checked alone.
    let reverse = match (derived(Mode::Reverse, "vjp"), request.mode) {
        (Err(_), Mode::Forward) => None,
        (other, _) => Some(other?),
    };
    let unlimited = Options::default();
    let mut x = Named::new();
    for (p, a) in f.params.iter().zip(values).filter(|(p, _)| p.mode != ParamMode::Out) {
        x.insert(p.name().to_string(), wide(a));
    }
    let mut random = Random(seed ^ 0x6772_6164);
    let y = run(&module, &f, &x, sizes, &f, &unlimited)?;
    let mut direction = |of: &[String], from: &Named| -> Named {
        of.iter().filter_map(|n| Some((n.clone(), random.like(from.get(n)?)))).collect()
    };
    let (v, w) = (direction(&forward.wrt, &x), direction(&forward.of, &y));
    let h = 1e-6;
    let more = run(&module, &f, &moved(&x, &v, h), sizes, &f, &unlimited)?;
    let less = run(&module, &f, &moved(&x, &v, -h), sizes, &f, &unlimited)?;
    let with = |given: &Named, mode: Mode| -> Named {
        let mut all = x.clone();
        all.extend(given.iter().map(|(n, a)| (shadow_name(&f, n, mode), a.clone())));
        all
    };
    let tangents =
        run(&forward.within(&module), &forward.func, &with(&v, Mode::Forward), sizes, &f, &unlimited)?;
    let (mut worst, mut product) = (0f64, 0f64);
    for n in &forward.of {
        let Some(t) = tangents.get(&shadow_name(&f, n, Mode::Forward)) else { continue };
        let (t, a, b) = (reals(t), reals(&more[n]), reals(&less[n]));
        let d: Vec<f64> = a.iter().zip(&b).map(|(a, b)| (a - b) / (2.0 * h)).collect();
        let scale = t.iter().chain(&d).filter(|v| v.is_finite()).fold(1f64, |s, v| s.max(v.abs()));
        for (t, d) in t.iter().zip(&d) {
            let same = t == d || t.is_nan() && d.is_nan();
            let off = if same { 0.0 } else { (t - d).abs() / scale };
            worst = if off.is_nan() { f64::INFINITY } else { worst.max(off) };
        }
        product += dot(&t, &reals(&w[n]));
    }
    let mut apart = 0.0;
    let mut against = "central differences in f64".to_string();
    if let Some(reverse) = &reverse {
        against += " and the adjoint identity";
        let back =
            run(&reverse.within(&module), &reverse.func, &with(&w, Mode::Reverse), sizes, &f, &unlimited)?;
        let other: f64 = reverse
            .wrt
            .iter()
            .filter_map(|n| Some(dot(&reals(back.get(&shadow_name(&f, n, Mode::Reverse))?), &reals(&v[n]))))
            .sum();
        let scale = product.abs().max(other.abs()).max(1.0);
        apart = if product.is_nan() && other.is_nan() { 0.0 } else { (product - other).abs() / scale };
    }
    let ok = worst <= DIFFERENCES && apart <= ADJOINT;
    Ok(GradCheck { against, max_rel_error: worst, adjoint_rel_error: apart, ok })
}

/// SplitMix64, so that a check is the same everywhere.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn like(&mut self, a: &ArrayValue) -> ArrayValue {
        let v: Vec<f64> = reals(a).iter().map(|_| 2.0 * self.unit() - 1.0).collect();
        of_reals(a, &v)
    }
}

/// An array with all its floats in double precision.
pub(super) fn wide(a: &ArrayValue) -> ArrayValue {
    of_reals(a, &reals(a))
}

/// The floats of an array, those of structs one after the other.
pub(super) fn reals(a: &ArrayValue) -> Vec<f64> {
    let leaves = a.ty.leaves();
    let floats: Vec<usize> = (0..leaves.len()).filter(|k| leaves[*k].is_float()).collect();
    let each = (0..a.len()).flat_map(|n| floats.iter().map(move |k| (n, *k)));
    each.map(|(n, k)| a.leaf(n, k).map_or(f64::NAN, |v| v.to_f64())).collect()
}

/// An array like another one, with these numbers, in double precision, in place of its floats.
fn of_reals(like: &ArrayValue, numbers: &[f64]) -> ArrayValue {
    let mut out = ArrayValue::zeros(lathe_grad::wide(&like.ty), &like.shape);
    let mut numbers = numbers.iter();
    for n in 0..like.len() {
        for (k, ty) in like.ty.leaves().into_iter().enumerate() {
            let bits = match ty.is_float() {
                true => numbers.next().map(|v| v.to_bits()),
                false => like.leaf(n, k).map(|v| v.bits),
            };
            bits.into_iter().for_each(|bits| out.set_leaf(n, k, bits));
        }
    }
    out
}

fn moved(x: &Named, along: &Named, h: f64) -> Named {
    let mut out = x.clone();
    for (name, v) in along {
        let Some(a) = x.get(name) else { continue };
        let new: Vec<f64> = reals(a).iter().zip(reals(v)).map(|(x, d)| x + h * d).collect();
        out.insert(name.clone(), of_reals(a, &new));
    }
    out
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Runs a function on inputs by name; what it gives, by name. Sizes are those of `like`, by name.
pub(super) fn run(
    module: &Module,
    f: &Function,
    inputs: &Named,
    sizes: &Values,
    like: &Function,
    options: &Options,
) -> Result<Named, Diagnostic> {
    let by_name: HashMap<&str, i64> =
        like.sizes.iter().filter_map(|b| Some((&*b.name, *sizes.get(&b.id)?))).collect();
    let own: HashMap<VarId, i64> =
        f.sizes.iter().filter_map(|b| Some((b.id, *by_name.get(&*b.name)?))).collect();
    let mut outs = interp::outputs(f, &own)?.into_iter();
    let missing = |name: &str| {
        let text = format!("the check has no value for `{name}`");
        Diagnostic::error(codes::INPUT, text).help("differentiate without --check")
    };
    let mut args = Vec::new();
    for p in &f.params {
        let value = match p.mode {
            ParamMode::Out => outs.next(),
            _ => inputs.get(&**p.name()).cloned(),
        };
        args.push(value.ok_or_else(|| missing(p.name()))?);
    }
    interp::run(module, f, &mut args, options).map_err(|e| *e.diagnostic)?;
    let named = f.params.iter().zip(args).filter(|(p, _)| p.mode != ParamMode::In);
    Ok(named.map(|(p, a)| (p.name().to_string(), a)).collect())
}
