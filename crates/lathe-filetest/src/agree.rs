//! Runs of the interpreter: of one function, and of the same function before and after steps.

use crate::Inputs;
use lathe_ir::interp::{self, ArrayValue, Failure, Globals, Options, Order, Program, leaf_offsets};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Function, Mode, Module, Scalar};

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

/// Whether two functions leave the same results. `Ok(false)`: both fail alike.
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
                            "`{name}` is {g}, not {w}, at position {at}, in order {order:?}"
                        ));
                    }
                }
            }
            (Err(w), Err(g)) if alike(w, g) => {}
            (Err(w), Err(g)) => return Err(format!("it fails differently than before: {g}, not {w}")),
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
