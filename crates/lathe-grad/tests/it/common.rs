//! The oracle: the kernel with all floats in f64, run at two points on a line.

use lathe_diagnostics::{Diagnostic, SourceMap};
use lathe_filetest::{Inputs, Values as FromRanges};
use lathe_grad::{Derivative, Mode, Request, codes, differentiate, shadow_name};
use lathe_ir::interp::{self, ArrayValue, Options};
use lathe_ir::text::print_function;
use lathe_ir::{Function, Mode as ParamMode, Module, Scalar};
use std::collections::{BTreeMap, BTreeSet};

/// SplitMix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

pub struct NoFiles;

impl lathe_lang::Resolver for NoFiles {
    fn load(&mut self, _: &str, name: &str) -> Result<(String, String), String> {
        Err(format!("no file {name}"))
    }
}

/// The only kernel of a text.
pub fn kernel(text: &str) -> (Module, Function) {
    let mut map = SourceMap::new();
    let (p, _) = lathe_lang::load(&mut map, "test.lathe", text, &mut NoFiles)
        .unwrap_or_else(|e| panic!("{text}\n{}", e[0]));
    let f = p.module.functions[p.kernels[0].name.as_str()].clone();
    (p.module, f)
}

pub type Values = BTreeMap<String, ArrayValue>;

/// Where inputs are drawn from: away from 0, integers as subscripts of three elements.
pub const VALUES: &str = "0.25..1.25; ints 0..2";

/// Sizes, and inputs from the usual ranges.
pub fn given(sizes: &str) -> Inputs {
    Inputs::parse(sizes).expect("sizes").drawn_from(&FromRanges::parse(VALUES).expect("ranges"))
}

/// Inputs for every `in` and `inout` parameter.
pub fn drawn(f: &Function, at: &Inputs) -> Values {
    let all = f.params.iter().zip(at.arguments(f).expect("sizes with values"));
    all.filter(|(p, _)| p.mode != ParamMode::Out).map(|(p, a)| (p.name().to_string(), a)).collect()
}

/// Runs a function; all `out` and `inout` arrays afterwards.
pub fn run(m: &Module, f: &Function, inputs: &Values, at: &Inputs) -> Values {
    let sizes = at.sizes(f).expect("sizes with values");
    let mut outs = interp::outputs(f, &sizes).expect("shapes").into_iter();
    let mut args: Vec<ArrayValue> = f
        .params
        .iter()
        .map(|p| match p.mode {
            ParamMode::Out => outs.next().expect("an output"),
            _ => inputs.get(&**p.name()).unwrap_or_else(|| panic!("no input {}", p.name())).clone(),
        })
        .collect();
    interp::run(m, f, &mut args, &Options::default())
        .unwrap_or_else(|e| panic!("{}\n{}", e.diagnostic, print_function(f)));
    let all = f.params.iter().zip(args).filter(|(p, _)| p.mode != ParamMode::In);
    all.map(|(p, a)| (p.name().to_string(), a)).collect()
}

pub fn derive(m: &Module, f: &Function, mode: Mode) -> Result<Derivative, Diagnostic> {
    asked(m, f, mode, &Request::new(mode, ""))
}

/// What a request asks for, in a mode.
fn asked(m: &Module, f: &Function, mode: Mode, ask: &Request) -> Result<Derivative, Diagnostic> {
    let name = format!("{}_{}", f.name, if mode == Mode::Forward { "jvp" } else { "vjp" });
    let usual = Request::new(mode, name);
    let (wrt, of, checkpoints) = (ask.wrt.clone(), ask.of.clone(), ask.checkpoints);
    differentiate(m, f, &Request { wrt, of, allow_steps: ask.allow_steps, checkpoints, ..usual })
}

fn well_formed(m: &Module, f: &Function) {
    let errors = lathe_ir::verify::verify_function(m, f);
    assert!(errors.is_empty(), "{}\n{}", errors[0], print_function(f));
}

/// The floats of an array, those of structs one after the other.
pub fn reals(a: &ArrayValue) -> Vec<f64> {
    let leaves = a.ty.leaves();
    let floats: Vec<usize> = (0..leaves.len()).filter(|k| leaves[*k].is_float()).collect();
    let each = (0..a.len()).flat_map(|n| floats.iter().map(move |k| (n, *k)));
    each.filter_map(|(n, k)| a.leaf(n, k)).map(|v| v.to_f64()).collect()
}

/// An array like another one, with these floats.
pub fn with_reals(like: &ArrayValue, numbers: &[f64]) -> ArrayValue {
    let mut out = like.clone();
    let mut numbers = numbers.iter();
    for n in 0..like.len() {
        for (k, ty) in like.ty.leaves().into_iter().enumerate().filter(|l| l.1.is_float()) {
            assert_eq!(ty, Scalar::F64);
            out.set_leaf(n, k, numbers.next().expect("as many numbers").to_bits());
        }
    }
    out
}

fn moved(inputs: &Values, along: &Values, h: f64) -> Values {
    let mut out = inputs.clone();
    for (name, v) in along {
        let a = &inputs[name];
        let new: Vec<f64> = reals(a).iter().zip(reals(v)).map(|(x, d)| x + h * d).collect();
        out.insert(name.clone(), with_reals(a, &new));
    }
    out
}

fn random_like(a: &ArrayValue, rng: &mut Rng) -> ArrayValue {
    let v: Vec<f64> = reals(a).iter().map(|_| 2.0 * rng.unit() - 1.0).collect();
    with_reals(a, &v)
}

fn dot(a: &ArrayValue, b: &ArrayValue) -> f64 {
    reals(a).iter().zip(reals(b)).map(|(x, y)| x * y).sum()
}

/// What may differ: rounding of the differences, relative to the largest value.
const TOLERANCE: f64 = 2e-5;

/// How a comparison ended, faults aside, which panic.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Agrees,
    /// Differences and tangents are not the same: a fault, or a tie or a condition nearby.
    Differs(String),
    /// Values are so large that differences say nothing.
    Large,
    /// A tape's size is data.
    Refused,
}

/// Forward mode beside central differences, reverse mode beside forward mode, the outputs beside the primal's: what is
/// asked for of a function in f64; for `order` 2, of its derivatives, too. Where forward mode is asked for, there may be
/// no other.
pub fn compare(m: &Module, f: &Function, ask: &Request, at: &Inputs, order: u32) -> Outcome {
    compare_all(m, f, ask, at, (order, false))
}

/// `derived`: the function is a derivative already, which may have local arrays of extents that are data.
fn compare_all(
    m: &Module,
    f: &Function,
    ask: &Request,
    at: &Inputs,
    (order, derived): (u32, bool),
) -> Outcome {
    let refused = |d: &Diagnostic| {
        d.code == codes::TAPE || derived && [codes::UNSUPPORTED, codes::SIZE].contains(&d.code)
    };
    let (jvp, vjp) = match (asked(m, f, Mode::Forward, ask), asked(m, f, Mode::Reverse, ask)) {
        (Ok(jvp), Ok(vjp)) => (jvp, Some(vjp)),
        (Ok(jvp), Err(_)) if ask.mode == Mode::Forward => (jvp, None),
        (Ok(jvp), Err(d)) if derived && refused(&d) => (jvp, None),
        (Err(d), _) | (_, Err(d)) if refused(&d) => return Outcome::Refused,
        (Err(d), _) | (_, Err(d)) => panic!("{d}\n{}", print_function(f)),
    };
    let with = |d: &Derivative| d.within(m);
    well_formed(&with(&jvp), &jvp.func);
    vjp.iter().for_each(|d| well_formed(&with(d), &d.func));
    let mut rng = Rng(0x5eed);
    let x = drawn(f, at);
    let y = run(m, f, &x, at);
    let v: Values = jvp.wrt.iter().map(|n| (n.clone(), random_like(&x[n], &mut rng))).collect();
    let w: Values = jvp.of.iter().map(|n| (n.clone(), random_like(&y[n], &mut rng))).collect();
    let shown = |d: &Derivative| print_function(&d.func);
    let trees =
        || format!("{}\n{}\n{}", print_function(f), shown(&jvp), vjp.as_ref().map(shown).unwrap_or_default());

    // Tangents.
    let h = 1e-6;
    let (more, less) = (run(m, f, &moved(&x, &v, h), at), run(m, f, &moved(&x, &v, -h), at));
    let mut given = x.clone();
    given.extend(v.iter().map(|(n, a)| (shadow_name(f, n, Mode::Forward), a.clone())));
    let forward = run(&with(&jvp), &jvp.func, &given, at);
    let all = y.values().chain(forward.values());
    if all.flat_map(reals).any(|v| v.is_nan() || v.abs() >= 1e5) {
        return Outcome::Large;
    }
    let mut outcome = Outcome::Agrees;
    let mut product = 0.0;
    for n in &jvp.of {
        let differences = reals(&more[n]).into_iter().zip(reals(&less[n]));
        let differences: Vec<f64> = differences.map(|(a, b)| (a - b) / (2.0 * h)).collect();
        let tangents = reals(&forward[&shadow_name(f, n, Mode::Forward)]);
        let scale = tangents.iter().chain(&differences).fold(1.0f64, |s, t| s.max(t.abs()));
        for (k, (d, t)) in differences.iter().zip(&tangents).enumerate() {
            if (d - t).abs() > TOLERANCE * scale {
                outcome = Outcome::Differs(format!("{n}_dot[{k}] = {t}, differences say {d}\n{}", trees()));
            }
        }
        product += dot(&forward[&shadow_name(f, n, Mode::Forward)], &w[n]);
        assert_eq!(reals(&forward[n]), reals(&y[n]), "{n} of the tangents\n{}", trees());
    }

    in_two_directions(m, f, &jvp, Mode::Forward, (ask, &given, &forward), at);
    within_pattern(m, f, &jvp, ask, &x, at);

    // Cotangents.
    let Some(vjp) = &vjp else { return outcome };
    let mut given = x.clone();
    given.extend(w.iter().map(|(n, a)| (shadow_name(f, n, Mode::Reverse), a.clone())));
    let back = run(&with(vjp), &vjp.func, &given, at);
    if back.values().flat_map(reals).any(|v| v.is_nan() || v.abs() >= 1e5) {
        return Outcome::Large;
    }
    in_two_directions(m, f, vjp, Mode::Reverse, (ask, &given, &back), at);
    let mut other = 0.0;
    for n in &vjp.wrt {
        other += dot(&back[&shadow_name(f, n, Mode::Reverse)], &v[n]);
    }
    let scale = product.abs().max(other.abs()).max(1.0);
    assert!((product - other).abs() <= 1e-8 * scale, "<Jv, w> = {product}, <v, Jᵀw> = {other}\n{}", trees());

    // The value beside the cotangents.
    let request = Request { value: true, mode: Mode::Reverse, name: "both".into(), ..ask.clone() };
    let made = differentiate(m, f, &request).expect("a derivative");
    let (all, both) = (with(&made), made.func);
    well_formed(&all, &both);
    let got = run(&all, &both, &given, at);
    for (n, a) in &y {
        assert_eq!(reals(&got[n]), reals(a), "{n} beside its cotangents\n{}", print_function(&both));
    }
    for n in &vjp.wrt {
        let n = shadow_name(f, n, Mode::Reverse);
        assert_eq!(reals(&got[&n]), reals(&back[&n]), "{n}\n{}", print_function(&both));
    }
    if order > 1 && outcome == Outcome::Agrees {
        // Everything by everything: a derivative is a function like any other.
        let all = Request { allow_steps: ask.allow_steps, ..Request::new(Mode::Reverse, "") };
        outcome = compare_all(&with(&jvp), &jvp.func, &all, at, (order - 1, true));
        if outcome == Outcome::Agrees {
            outcome = compare_all(&with(vjp), &vjp.func, &all, at, (order - 1, true));
        }
    }
    outcome
}

/// What depends on no input of a direction has no tangent along it.
fn within_pattern(m: &Module, f: &Function, jvp: &Derivative, ask: &Request, x: &Values, at: &Inputs) {
    let ask = Request { wrt: jvp.wrt.clone(), of: jvp.of.clone(), name: "pattern".into(), ..ask.clone() };
    let pattern = match lathe_grad::sparsity(m, f, &ask) {
        Ok(d) => d.func,
        Err(d) if [codes::SPARSITY, codes::UNSUPPORTED, codes::SIZE].contains(&d.code) => return,
        Err(d) => panic!("{d}\n{}", print_function(f)),
    };
    well_formed(m, &pattern);
    let dot = |n: &String| shadow_name(f, n, Mode::Forward);
    let mut rng = Rng(0x5e75);
    for _ in 0..3 {
        let (mut real, mut truth) = (x.clone(), x.clone());
        for n in &jvp.wrt {
            let a = &x[n];
            let some: Vec<i64> = (0..a.len()).map(|_| i64::from(rng.below(3) == 0)).collect();
            let numbers: Vec<f64> = some.iter().map(|s| *s as f64 * (0.5 + rng.unit())).collect();
            real.insert(dot(n), ArrayValue::from_f64(Scalar::F64, &a.shape, &numbers));
            truth.insert(dot(n), ArrayValue::from_i64(Scalar::Bool, &a.shape, &some));
        }
        let tangents = run(&jvp.within(m), &jvp.func, &real, at);
        let depends = run(m, &pattern, &truth, at);
        for n in &jvp.of {
            let pairs = reals(&tangents[&dot(n)]).into_iter().zip(depends[&dot(n)].to_i64_vec());
            for (k, (t, d)) in pairs.enumerate() {
                assert!(t == 0.0 || d != 0, "{n}[{k}]\n{}\n{}", print_function(f), print_function(&pattern));
            }
        }
    }
}

/// Vector modes: a direction and its double have the bits of the derivative along it, and of their doubles.
fn in_two_directions(
    m: &Module,
    f: &Function,
    d: &Derivative,
    mode: Mode,
    (ask, given, found): (&Request, &Values, &Values),
    at: &Inputs,
) {
    let size = "two_directions";
    let ask = Request { wrt: d.wrt.clone(), of: d.of.clone(), name: "lanes".into(), mode, ..ask.clone() };
    let value = mode == Mode::Forward;
    let both = match differentiate(m, f, &Request { value, directions: Some(size.into()), ..ask }) {
        Ok(both) => both.func,
        Err(e) if !d.also.is_empty() && e.code == codes::UNSUPPORTED => return,
        Err(e) => panic!("{e}\n{}", print_function(f)),
    };
    well_formed(m, &both);
    let shadows: BTreeSet<String> = d.wrt.iter().chain(&d.of).map(|n| shadow_name(f, n, mode)).collect();
    let twice = |a: &ArrayValue| {
        let mut out = ArrayValue::zeros(a.ty.clone(), &[&a.shape[..], &[2]].concat());
        for n in 0..a.len() {
            for k in 0..a.ty.leaves().len() {
                let Some(v) = a.leaf(n, k) else { continue };
                let double = if v.ty.is_float() { (2.0 * v.to_f64()).to_bits() } else { v.bits };
                out.set_leaf(2 * n, k, v.bits);
                out.set_leaf(2 * n + 1, k, double);
            }
        }
        out
    };
    let mut given = given.clone();
    for n in &shadows {
        if let Some(a) = given.get(n).map(&twice) {
            given.insert(n.clone(), a);
        }
    }
    let got = run(m, &both, &given, &Inputs::parse(&format!("{at} {size}=2")).expect("sizes"));
    for (n, a) in found {
        let want = if shadows.contains(n) { twice(a) } else { a.clone() };
        assert_eq!(reals(&got[n]), reals(&want), "{n} in two directions\n{}", print_function(&both));
    }
}
