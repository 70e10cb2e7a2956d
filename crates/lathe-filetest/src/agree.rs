//! Runs of the interpreter: of one function, and of the same function before and after steps.

use lathe_ir::interp::{self, ArrayValue, Failure, Globals, Options, Order, Program, leaf_offsets};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Function, Mode, Module, ParamKind, Scalar, Type};
use std::collections::HashMap;
use std::fmt;

/// Values of sizes and scalar parameters, and the range that all other inputs are drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    named: Vec<(String, i64)>,
    values: (i64, i64),
}

impl fmt::Display for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> = self.named.iter().map(|(n, v)| format!("{n}={v}")).collect();
        f.write_str(&named.join(" "))
    }
}

impl Inputs {
    /// `N=4 M=3`, also with commas.
    ///
    /// # Errors
    /// What is no size with a value.
    pub fn parse(text: &str) -> Result<Inputs, String> {
        let words = text.split([' ', ',']).filter(|w| !w.is_empty());
        let one = |w: &str| {
            let (name, value) = w.split_once('=')?;
            Some((name.to_string(), value.parse().ok()?))
        };
        let named = words.map(|w| one(w).ok_or_else(|| format!("`{w}` is no size: write `N=4`")));
        Ok(Inputs { named: named.collect::<Result<_, _>>()?, values: (-9, 9) })
    }

    /// The same with another range, if there is one.
    pub fn drawn_from(self, values: Option<(i64, i64)>) -> Inputs {
        Inputs { values: values.unwrap_or(self.values), ..self }
    }

    fn get(&self, name: &str) -> Option<i64> {
        self.named.iter().find(|n| n.0 == name).map(|n| n.1)
    }

    /// The arguments of a function; the same for the same inputs.
    fn arguments(&self, func: &Function) -> Result<Vec<ArrayValue>, String> {
        let mut known = HashMap::new();
        for b in &func.sizes {
            known.insert(b.id, self.get(&b.name).ok_or_else(|| format!("`{}` has no value", b.name))?);
        }
        let mut random = Random(7);
        let mut out = Vec::new();
        for p in &func.params {
            let (ty, shape): (Type, Vec<usize>) = match &p.kind {
                ParamKind::Scalar(b) => (b.ty.into(), Vec::new()),
                ParamKind::Array(b) => {
                    let extent = |e| interp::evaluate(e, &known).and_then(|v| usize::try_from(v).ok());
                    let shape: Option<Vec<usize>> = b.extents.iter().map(extent).collect();
                    (b.elem.clone(), shape.ok_or_else(|| format!("`{}` has no such shape", b.name))?)
                }
            };
            let mut a = ArrayValue::undefined(ty, &shape);
            if p.mode != Mode::Out {
                self.fill(&mut a, self.get(p.name()).filter(|_| p.array().is_none()), &mut random);
            }
            out.push(a);
        }
        Ok(out)
    }

    fn fill(&self, a: &mut ArrayValue, given: Option<i64>, random: &mut Random) {
        let leaves = leaf_offsets(&a.ty);
        for position in 0..a.len() {
            for (leaf, (ty, _)) in leaves.iter().enumerate() {
                let v = given.unwrap_or_else(|| random.between(self.values));
                let value = match ty {
                    Scalar::Bool => ScalarValue::boolean(v & 1 == 1),
                    ty if ty.is_float() => ScalarValue::float(*ty, v as f64),
                    ty => ScalarValue::int(*ty, v),
                };
                a.set_leaf(position, leaf, value.bits);
            }
        }
    }
}

/// Small random integers.
struct Random(u64);

impl Random {
    fn between(&mut self, (lo, hi): (i64, i64)) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        lo + ((self.0 >> 33) % (hi - lo + 1) as u64) as i64
    }
}

/// What a run is for.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    /// Undefined elements are compared like others.
    Compare,
    /// Outputs must be written as a whole.
    Show,
}

impl Purpose {
    /// Iterations that a run may take: more than any comparison takes, few enough for a run that never ends.
    fn most_steps(self) -> u64 {
        match self {
            Purpose::Compare => 1_000_000,
            Purpose::Show => 10_000,
        }
    }
}

/// What a run leaves: written parameters and globals, by name.
type Left = Vec<(String, ArrayValue)>;

fn run(
    module: &Module,
    func: &Function,
    inputs: &Inputs,
    order: Order,
    purpose: Purpose,
) -> Result<Result<Left, Failure>, String> {
    let mut args = inputs.arguments(func)?;
    let mut globals = Globals::of(module).map_err(|d| d.to_string())?;
    let options = Options { order, races: true, max_steps: Some(purpose.most_steps()), ..Options::default() };
    let ran = Program::new(module, func, order, true)
        .map_err(Failure::from)
        .and_then(|p| p.run_with(&mut args, &mut globals, &options))
        .and_then(|_| if purpose == Purpose::Show { Ok(interp::unwritten(func, &args)?) } else { Ok(()) });
    if let Err(failure) = ran {
        return Ok(Err(failure));
    }
    let written = func.params.iter().zip(args).filter(|(p, _)| p.mode != Mode::In);
    let mut left: Left = written.map(|(p, a)| (p.name().to_string(), a)).collect();
    let kept = module.globals.keys().filter_map(|n| Some((n.to_string(), globals.get(n)?.clone())));
    left.extend(kept);
    Ok(Ok(left))
}

/// Whether two functions leave the same behind. `Ok(false)`: both fail alike.
///
/// # Errors
/// How they differ.
pub fn agree(
    module: &Module,
    old: &Function,
    new: &Function,
    inputs: &Inputs,
    within: f64,
) -> Result<bool, String> {
    let want = run(module, old, inputs, Order::Reference, Purpose::Compare)?;
    for order in [Order::Reference, Order::Seed(3), Order::Seed(11)] {
        match (&want, &run(module, new, inputs, order, Purpose::Compare)?) {
            (Ok(want), Ok(got)) => {
                for ((name, w), (_, g)) in want.iter().zip(got) {
                    if let Some(at) = differs(w, g, within) {
                        let (w, g) = (element(w, at), element(g, at));
                        return Err(format!(
                            "`{name}` is {g} and not {w} at position {at}, in order {order:?}"
                        ));
                    }
                }
            }
            (Err(w), Err(g)) if alike(w, g) => {}
            (Err(w), Err(g)) => return Err(format!("it fails otherwise than before: {g}, and not {w}")),
            (Ok(_), Err(g)) => return Err(format!("it fails, in order {order:?}: {g}")),
            (Err(w), Ok(_)) => return Err(format!("it runs, but failed before: {w}")),
        }
    }
    Ok(want.is_ok())
}

/// Whether two runs fail for the same reason. What index notation reduces without a first element, loops check before.
fn alike(w: &Failure, g: &Failure) -> bool {
    let (w, g) = (w.diagnostic.code, g.diagnostic.code);
    w == g || (w, g) == (interp::codes::EMPTY_REDUCTION, interp::codes::CHECK_FAILED)
}

/// The first position where two arrays differ.
fn differs(want: &ArrayValue, got: &ArrayValue, within: f64) -> Option<usize> {
    if want.shape != got.shape {
        return Some(0);
    }
    let leaves = leaf_offsets(&want.ty).len();
    (0..want.len()).find(|at| {
        let (w, g) = (want.is_defined(*at), got.is_defined(*at));
        w != g
            || (w
                && (0..leaves).any(|leaf| {
                    want.leaf(*at, leaf).zip(got.leaf(*at, leaf)).is_none_or(|(w, g)| !near(w, g, within))
                }))
    })
}

fn near(w: ScalarValue, g: ScalarValue, within: f64) -> bool {
    if w == g || !w.ty.is_float() {
        return w == g;
    }
    let (w, g) = (w.to_f64(), g.to_f64());
    (w.is_nan() && g.is_nan()) || (w - g).abs() <= within * w.abs().max(g.abs()).max(1.0)
}

/// What a run gives in every order: one line per output, or the code of the failure.
pub fn outcome(module: &Module, func: &Function, inputs: &Inputs) -> Result<Result<String, String>, String> {
    let mut found: Vec<Result<String, String>> = Vec::new();
    for order in std::iter::once(Order::Reference).chain((0..20).map(Order::Seed)) {
        let one = match run(module, func, inputs, order, Purpose::Show)? {
            Ok(left) => Ok(left.iter().map(|(n, a)| format!("{n} = {}\n", text(a))).collect()),
            Err(failure) => Err(failure.diagnostic.code.to_string()),
        };
        if !found.contains(&one) {
            found.push(one);
        }
    }
    // Another order may be needed to show a failure.
    let mut failures = found.iter().filter_map(|f| f.as_ref().err());
    match (failures.next(), failures.next(), found.first()) {
        (Some(code), None, _) => Ok(Err(code.clone())),
        (None, _, Some(Ok(left))) if found.len() == 1 => Ok(Ok(left.clone())),
        _ => Err(format!("its results depend on the order: {found:?}")),
    }
}

fn element(a: &ArrayValue, position: usize) -> String {
    if !a.is_defined(position) {
        return "undefined".to_string();
    }
    let leaves: Vec<String> =
        (0..leaf_offsets(&a.ty).len()).filter_map(|k| a.leaf(position, k)).map(scalar).collect();
    if leaves.len() == 1 { leaves.concat() } else { format!("({})", leaves.join(", ")) }
}

fn scalar(v: ScalarValue) -> String {
    match v.ty {
        Scalar::Bool => (v.bits != 0).to_string(),
        ty if ty.is_float() => format!("{:?}", v.to_f64()),
        Scalar::U64 => v.bits.to_string(),
        _ => v.to_i64().to_string(),
    }
}

/// `[[1, 2], [3, 4]]`; a scalar stands alone.
fn text(a: &ArrayValue) -> String {
    fn go(a: &ArrayValue, shape: &[usize], at: &mut usize) -> String {
        let Some((n, rest)) = shape.split_first() else {
            *at += 1;
            return element(a, *at - 1);
        };
        let parts: Vec<String> = (0..*n).map(|_| go(a, rest, at)).collect();
        format!("[{}]", parts.join(", "))
    }
    go(a, &a.shape, &mut 0)
}
