//! `test` items: a kernel's results beside the test's own formula or data.

mod file;

pub use file::{ProgramReport, check_program};

use crate::build::Built;
use crate::codes;
use crate::convert::to_values;
use crate::data::{self, Given};
use crate::debug;
use crate::program::{Failure, Program};
use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::{self, ArrayValue};
use lathe_ir::{Function, Mode, ParamKind};
use lathe_runtime::Pool;

/// Who runs the kernel of a test.
pub enum Runner<'a> {
    Interpreter,
    /// Compiled code, by whatever strategy.
    Built {
        built: &'a Built,
        pool: &'a Pool,
    },
}

/// Iterations of loops after which a test is said not to end: some seconds.
const STEPS: u64 = 50_000_000;

fn limits() -> interp::Options {
    interp::Options { max_steps: Some(STEPS), ..interp::Options::default() }
}

/// Runs a kernel with its `print` and `assert` in the interpreter; gives what it printed.
fn debugged_run(
    program: &Program,
    kernel: &Function,
    values: &mut Vec<ArrayValue>,
) -> Result<Vec<String>, Diagnostic> {
    let function = program.lang.module.functions.get(&kernel.name).unwrap_or(kernel);
    values.extend(to_values(std::slice::from_ref(&debug::log()?))?);
    let done = interp::run(&program.lang.module, function, values, &limits());
    let log = values
        .pop()
        .map_or_else(Vec::new, |v| (0..v.len()).filter_map(|i| Some(v.leaf(i, 0)?.bits as i64)).collect());
    let shown = program.shown(&kernel.name, &log);
    match (shown.failed, done) {
        (Some(f), _) => Err(debug::failed(&kernel.name, &f)),
        (None, Err(f)) => Err(*f.diagnostic),
        (None, Ok(_)) => Ok(shown.printed),
    }
}

/// Runs one `test` item; gives what its kernel printed, if the interpreter ran it.
///
/// # Errors
/// `E0909` with the first element that differs, or what running says.
pub fn run_test(
    program: &Program,
    test: &lathe_lang::TestDef,
    runner: Runner,
) -> Result<Vec<String>, Failure> {
    let fail = |d: Diagnostic| Failure::one(&program.sources, d.at(test.span, "in this test"));
    let kernel = program.kernel(Some(&test.kernel))?;
    let sizes = test.sizes.iter().cloned().collect();
    let module = &program.lang.module;
    let mut printed = Vec::new();
    let mut made = data::make_in(module, kernel, &Given { sizes, ..Given::default() }).map_err(fail)?;
    let bounds = data::subscript_bounds(module, kernel, &made.sizes);
    for (name, spec) in &test.inputs {
        let at = kernel.params.iter().position(|p| &**p.name() == name.as_str());
        if let Some((i, a)) = at.and_then(|i| Some((i, made.arrays.get_mut(i)?))) {
            let below = match &kernel.params[i].kind {
                ParamKind::Array(b) => bounds.arrays.get(&b.id).copied(),
                ParamKind::Scalar(b) => bounds.scalars.get(&b.id).copied(),
            };
            crate::inputs::fill(a, spec, below).map_err(fail)?;
        }
    }
    let inputs: Vec<ArrayValue> = to_values(&made.arrays).map_err(fail)?;
    let got: Vec<ArrayValue> = match runner {
        Runner::Interpreter => {
            let mut values = inputs.clone();
            for (v, p) in values.iter_mut().zip(&kernel.params) {
                if p.mode == Mode::Out {
                    *v = ArrayValue::undefined(v.ty.clone(), &v.shape);
                }
            }
            let debugged = program.debugging(&test.kernel)?;
            match &debugged {
                None => {
                    interp::run(module, kernel, &mut values, &limits()).map_err(|f| fail(*f.diagnostic))?;
                }
                Some(p) => printed = debugged_run(p, kernel, &mut values).map_err(fail)?,
            }
            values
        }
        Runner::Built { built, pool } => {
            built.call(pool, &mut made.arrays).map_err(fail)?;
            to_values(&made.arrays).map_err(fail)?
        }
    };
    // The expected function takes the kernel's inputs and gives the expected outputs, by the same names.
    let expected = &test.expected;
    let mut values = Vec::new();
    for p in &expected.params {
        let at = kernel.params.iter().position(|k| k.name() == p.name());
        let Some(at) = at else {
            return Err(fail(Diagnostic::error(
                codes::TEST_FAILED,
                format!("`{}` is not a parameter", p.name()),
            )));
        };
        values.push(if p.mode == Mode::Out {
            ArrayValue::undefined(inputs[at].ty.clone(), &inputs[at].shape)
        } else {
            inputs[at].clone()
        });
    }
    interp::run(&program.lang.module, expected, &mut values, &limits()).map_err(|f| fail(*f.diagnostic))?;
    let outputs = expected.params.iter().zip(&values).filter(|(p, _)| p.mode != Mode::In);
    for (p, want) in outputs {
        let Some(at) = kernel.params.iter().position(|k| k.name() == p.name()) else { continue };
        if let Some(wrong) = first_wrong(test, p.name(), &got[at], want) {
            let text = format!("test \"{}\" of `{}` fails", test.name, test.kernel);
            return Err(fail(Diagnostic::error(codes::TEST_FAILED, text).note(wrong)));
        }
    }
    Ok(printed)
}

/// The first element that is not as expected.
fn first_wrong(
    test: &lathe_lang::TestDef,
    name: &str,
    got: &ArrayValue,
    want: &ArrayValue,
) -> Option<String> {
    let leaves = want.ty.leaves().len();
    for at in 0..want.len() {
        for leaf in 0..leaves {
            let (g, w) = (got.leaf(at, leaf)?, want.leaf(at, leaf)?);
            // Integers may be too large for floats to tell them apart.
            let equal = g.bits == w.bits;
            let exact = !w.ty.is_float() && !test.tolerances.contains_key(name);
            if equal || (!exact && test.admits(name, g.to_f64(), w.to_f64())) {
                continue;
            }
            let element = crate::check::element(name, &want.shape, at);
            let text =
                format!("{element}: got {}, expected {}", crate::check::shown(g), crate::check::shown(w));
            let within =
                test.tolerances.get(name).map(|t| format!(", within {t:e} of its magnitude, or of 1"));
            return Some(text + &within.unwrap_or_default());
        }
    }
    None
}
