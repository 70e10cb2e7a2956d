//! The oracle: the kernel with all floats in f64, run at two points on a line.

use lathe_diagnostics::{Diagnostic, SourceMap};
use lathe_grad::{Derivative, Mode, Request, codes, differentiate, shadow_name, widened};
use lathe_ir::interp::{self, ArrayValue, Options};
use lathe_ir::text::print_function;
use lathe_ir::{Function, Mode as ParamMode, Module, Scalar, VarId};
use std::collections::{BTreeMap, HashMap};

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

struct NoFiles;

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

/// How inputs are drawn.
#[derive(Clone, Copy)]
pub struct Draw {
    pub lo: f64,
    pub hi: f64,
    /// Integers are below it.
    pub below: i64,
    pub seed: u64,
}

impl Default for Draw {
    fn default() -> Draw {
        Draw { lo: 0.25, hi: 1.25, below: 3, seed: 1 }
    }
}

pub fn sizes_of(f: &Function, sizes: &[(&str, i64)]) -> HashMap<VarId, i64> {
    let value = |name: &str| sizes.iter().find(|s| s.0 == name).unwrap_or_else(|| panic!("no size {name}")).1;
    f.sizes.iter().map(|b| (b.id, value(&b.name))).collect()
}

fn shape(p: &lathe_ir::Param, sizes: &HashMap<VarId, i64>) -> Vec<usize> {
    let extent = |e| interp::evaluate(e, sizes).expect("an extent") as usize;
    p.array().map_or_else(Vec::new, |b| b.extents.iter().map(extent).collect())
}

fn scalar(p: &lathe_ir::Param) -> Scalar {
    match &p.kind {
        lathe_ir::ParamKind::Array(b) => b.elem.scalar().expect("scalars"),
        lathe_ir::ParamKind::Scalar(b) => b.ty,
    }
}

/// Inputs for every `in` and `inout` parameter.
pub fn inputs(f: &Function, sizes: &HashMap<VarId, i64>, draw: Draw) -> Values {
    let mut rng = Rng(draw.seed);
    let mut out = Values::new();
    for p in f.params.iter().filter(|p| p.mode != ParamMode::Out) {
        let (shape, ty) = (shape(p, sizes), scalar(p));
        let n = shape.iter().product::<usize>();
        let a = if ty.is_float() {
            let v: Vec<f64> = (0..n).map(|_| draw.lo + (draw.hi - draw.lo) * rng.unit()).collect();
            ArrayValue::from_f64(ty, &shape, &v)
        } else {
            let v: Vec<i64> = (0..n).map(|_| rng.below(draw.below as usize) as i64).collect();
            ArrayValue::from_i64(ty, &shape, &v)
        };
        out.insert(p.name().to_string(), a);
    }
    out
}

/// Runs a function; all `out` and `inout` arrays afterwards.
pub fn run(m: &Module, f: &Function, inputs: &Values, sizes: &HashMap<VarId, i64>) -> Values {
    let mut outs = interp::outputs(f, sizes).expect("shapes").into_iter();
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
    differentiate(
        m,
        f,
        &Request::new(mode, format!("{}_{}", f.name, if mode == Mode::Forward { "jvp" } else { "vjp" })),
    )
}

fn well_formed(m: &Module, f: &Function) {
    let errors = lathe_ir::verify::verify_function(m, f);
    assert!(errors.is_empty(), "{}\n{}", errors[0], print_function(f));
}

fn moved(inputs: &Values, along: &Values, h: f64) -> Values {
    let mut out = inputs.clone();
    for (name, v) in along {
        let a = &inputs[name];
        let new: Vec<f64> = a.to_f64_vec().iter().zip(v.to_f64_vec()).map(|(x, d)| x + h * d).collect();
        out.insert(name.clone(), ArrayValue::from_f64(Scalar::F64, &a.shape, &new));
    }
    out
}

fn random_like(a: &ArrayValue, rng: &mut Rng) -> ArrayValue {
    let v: Vec<f64> = (0..a.len()).map(|_| 2.0 * rng.unit() - 1.0).collect();
    ArrayValue::from_f64(Scalar::F64, &a.shape, &v)
}

fn dot(a: &ArrayValue, b: &ArrayValue) -> f64 {
    a.to_f64_vec().iter().zip(b.to_f64_vec()).map(|(x, y)| x * y).sum()
}

/// What may differ: rounding of the differences, relative to the largest value.
const TOLERANCE: f64 = 2e-5;

/// Forward mode beside central differences, reverse mode beside forward mode, the outputs beside the primal's.
pub fn check(text: &str, sizes: &[(&str, i64)], draw: Draw) {
    let (m, f) = kernel(text);
    let (m, f) = widened(&m, &f);
    check_function(&m, &f, sizes, draw, 1);
}

/// The same for the derivatives of the derivatives.
pub fn check_twice(text: &str, sizes: &[(&str, i64)], draw: Draw) {
    let (m, f) = kernel(text);
    let (m, f) = widened(&m, &f);
    check_function(&m, &f, sizes, draw, 2);
}

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

fn check_function(m: &Module, f: &Function, sizes: &[(&str, i64)], draw: Draw, order: u32) {
    match compare(m, f, sizes, draw, order, false) {
        Outcome::Agrees => {}
        Outcome::Differs(how) => panic!("{how}"),
        Outcome::Large => panic!("values are too large to be compared"),
        Outcome::Refused => panic!("a derivative has no derivative"),
    }
}

/// `derived`: the function is a derivative already, which may have local arrays of extents that are data.
pub fn compare(
    m: &Module,
    f: &Function,
    sizes: &[(&str, i64)],
    draw: Draw,
    order: u32,
    derived: bool,
) -> Outcome {
    let refused = |d: &Diagnostic| d.code == codes::TAPE || derived && d.code == codes::UNSUPPORTED;
    let (jvp, vjp) = match (derive(m, f, Mode::Forward), derive(m, f, Mode::Reverse)) {
        (Ok(jvp), Ok(vjp)) => (jvp, vjp),
        (Err(d), _) | (_, Err(d)) if refused(&d) => return Outcome::Refused,
        (Err(d), _) | (_, Err(d)) => panic!("{d}\n{}", print_function(f)),
    };
    well_formed(m, &jvp.func);
    well_formed(m, &vjp.func);
    let at = sizes_of(f, sizes);
    let mut rng = Rng(draw.seed ^ 0x5eed);
    let x = inputs(f, &at, draw);
    let y = run(m, f, &x, &at);
    let v: Values = jvp.wrt.iter().map(|n| (n.clone(), random_like(&x[n], &mut rng))).collect();
    let w: Values = jvp.of.iter().map(|n| (n.clone(), random_like(&y[n], &mut rng))).collect();
    let trees =
        || format!("{}\n{}\n{}", print_function(f), print_function(&jvp.func), print_function(&vjp.func));

    // Tangents.
    let h = 1e-6;
    let (more, less) = (run(m, f, &moved(&x, &v, h), &at), run(m, f, &moved(&x, &v, -h), &at));
    let mut given = x.clone();
    given.extend(v.iter().map(|(n, a)| (shadow_name(f, n, Mode::Forward), a.clone())));
    let at_jvp = sizes_of(&jvp.func, sizes);
    let forward = run(m, &jvp.func, &given, &at_jvp);
    let all = y.values().chain(forward.values()).filter(|a| a.ty.is_float());
    if all.flat_map(|a| a.to_f64_vec()).any(|v| v.is_nan() || v.abs() >= 1e5) {
        return Outcome::Large;
    }
    let mut outcome = Outcome::Agrees;
    let mut product = 0.0;
    for n in &jvp.of {
        let differences = more[n].to_f64_vec().into_iter().zip(less[n].to_f64_vec());
        let differences: Vec<f64> = differences.map(|(a, b)| (a - b) / (2.0 * h)).collect();
        let tangents = forward[&shadow_name(f, n, Mode::Forward)].to_f64_vec();
        let scale = tangents.iter().chain(&differences).fold(1.0f64, |s, t| s.max(t.abs()));
        for (k, (d, t)) in differences.iter().zip(&tangents).enumerate() {
            if (d - t).abs() > TOLERANCE * scale {
                outcome = Outcome::Differs(format!("{n}_dot[{k}] = {t}, differences say {d}\n{}", trees()));
            }
        }
        product += dot(&forward[&shadow_name(f, n, Mode::Forward)], &w[n]);
        assert_eq!(forward[n].to_f64_vec(), y[n].to_f64_vec(), "{n} of the tangents\n{}", trees());
    }

    // Cotangents.
    let mut given = x.clone();
    given.extend(w.iter().map(|(n, a)| (shadow_name(f, n, Mode::Reverse), a.clone())));
    let at_vjp = sizes_of(&vjp.func, sizes);
    let back = run(m, &vjp.func, &given, &at_vjp);
    if back
        .values()
        .filter(|a| a.ty.is_float())
        .flat_map(|a| a.to_f64_vec())
        .any(|v| v.is_nan() || v.abs() >= 1e5)
    {
        return Outcome::Large;
    }
    let mut other = 0.0;
    for n in &vjp.wrt {
        other += dot(&back[&shadow_name(f, n, Mode::Reverse)], &v[n]);
    }
    let scale = product.abs().max(other.abs()).max(1.0);
    assert!((product - other).abs() <= 1e-8 * scale, "<Jv, w> = {product}, <v, Jᵀw> = {other}\n{}", trees());

    // The value beside the cotangents.
    let request = Request { value: true, ..Request::new(Mode::Reverse, "both") };
    let both = differentiate(m, f, &request).expect("a derivative").func;
    well_formed(m, &both);
    let got = run(m, &both, &given, &sizes_of(&both, sizes));
    for (n, a) in &y {
        assert_eq!(
            got[n].to_f64_vec(),
            a.to_f64_vec(),
            "{n} beside its cotangents\n{}",
            print_function(&both)
        );
    }
    for n in &vjp.wrt {
        let n = shadow_name(f, n, Mode::Reverse);
        assert_eq!(got[&n].to_f64_vec(), back[&n].to_f64_vec(), "{n}\n{}", print_function(&both));
    }
    if order > 1 && outcome == Outcome::Agrees {
        outcome = compare(m, &jvp.func, sizes, draw, order - 1, true);
        if outcome == Outcome::Agrees {
            outcome = compare(m, &vjp.func, sizes, draw, order - 1, true);
        }
    }
    outcome
}
