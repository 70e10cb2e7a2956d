//! Derivatives that files give (`derivative f = g`): each is compared with the automatic one before it is used.

use super::check::{Named, reals, run, wide};
use super::{Mode, Passes, Request, differentiated};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_grad::{codes, custom, widened};
use lathe_ir::interp::{ArrayValue, Options};
use lathe_ir::{Function, Module, Scalar};
use serde::Serialize;
use std::collections::BTreeMap;

/// What is known of a derivative that a file gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// It agrees with the automatic derivative on samples.
    Tested,
    /// There is no automatic derivative, or none that can be run on samples: the file is believed.
    Declared,
}

impl Evidence {
    pub fn name(self) -> &'static str {
        match self {
            Evidence::Tested => "tested",
            Evidence::Declared => "declared",
        }
    }
}

/// Extents of the samples.
const SIZES: [i64; 3] = [3, 4, 2];
const SAMPLES: u64 = 3;
/// Iterations that a run of a sample may take.
const STEPS: u64 = 1_000_000;
const BYTES: u64 = 64 << 20;
/// Both are computed in f64, in different ways.
const APART: f64 = 1e-6;

/// Whether a function computes the derivative of another one that a module gives it for.
///
/// # Errors
/// `E1307` for other parameters than those of the derivative, and for other values.
pub fn evidence(module: &Module, func: &Function, rule: &Function) -> Result<Evidence, Diagnostic> {
    let mode = custom::fits(func, rule)?;
    let (mut module, rule) = widened(module, rule);
    let Some(func) = module.functions.get(&func.name).cloned() else { return Ok(Evidence::Declared) };
    module.derivatives.remove(&func.name);
    let request =
        Request { value: mode == Mode::Forward, allow_steps: false, ..Request::new(mode, "derivative") };
    let Ok(automatic) = differentiated(&module, &func, &request, &Passes::default()) else {
        return Ok(Evidence::Declared);
    };
    let module = automatic.within(&module);
    let mut known = Evidence::Declared;
    for seed in 0..SAMPLES {
        if compared(&module, &func, &automatic.func, &rule, seed)? == Evidence::Tested {
            known = Evidence::Tested;
        }
    }
    Ok(known)
}

/// One sample: of any sign first, then of positive numbers, which more functions are defined for.
fn compared(
    module: &Module,
    func: &Function,
    automatic: &Function,
    rule: &Function,
    seed: u64,
) -> Result<Evidence, Diagnostic> {
    let named = |f: &Function| -> BTreeMap<String, i64> {
        f.sizes.iter().zip(SIZES.iter().cycle()).map(|(b, n)| (b.name.to_string(), *n)).collect()
    };
    let given = crate::data::Given { sizes: named(func), seed, ..Default::default() };
    let Ok(data) = crate::data::make_in(module, automatic, &given) else { return Ok(Evidence::Declared) };
    let Ok(values) = crate::convert::to_values(&data.arrays) else { return Ok(Evidence::Declared) };
    let mut x = Named::new();
    for (p, a) in automatic.params.iter().zip(&values).filter(|(p, _)| p.mode != lathe_ir::Mode::Out) {
        let a = wide(a);
        let positive = |v: f64| v.abs() + 0.25;
        let a = match a.ty.is_float() && seed > 0 {
            true => {
                let new: Vec<f64> = a.to_f64_vec().into_iter().map(positive).collect();
                ArrayValue::from_f64(Scalar::F64, &a.shape, &new)
            }
            false => a,
        };
        x.insert(p.name().to_string(), a);
    }
    let limits = Options { max_steps: Some(STEPS), max_bytes: BYTES, ..Options::default() };
    let Ok(wanted) = run(module, automatic, &x, &data.sizes, automatic, &limits) else {
        return Ok(Evidence::Declared);
    };
    let no = |text: String| codes::refuse(codes::RULE, text, &Places::none());
    let sizes = custom::sizes_of(func, rule);
    let own = rule.sizes.iter().filter_map(|b| {
        let value = lathe_ir::interp::evaluate(sizes.get(&b.id)?, &data.sizes)?;
        Some((b.id, value))
    });
    let got = match run(module, rule, &x, &own.collect(), rule, &limits) {
        Ok(got) => got,
        Err(d) if d.code == lathe_ir::interp::codes::LIMIT => return Ok(Evidence::Declared),
        Err(d) => {
            let text =
                format!("`{}` fails where the automatic derivative of `{}` does not", rule.name, func.name);
            return Err(no(text).note(d.to_string()));
        }
    };
    let mut known = Evidence::Declared;
    for (name, want) in &wanted {
        let Some(found) = got.get(name) else { continue };
        let (a, b) = (reals(want), reals(found));
        let scale = a.iter().filter(|v| v.is_finite()).fold(1f64, |s, v| s.max(v.abs()));
        for (n, (a, b)) in a.iter().zip(&b).enumerate() {
            // Where the function is not defined, anything will do.
            if !a.is_finite() {
                continue;
            }
            known = Evidence::Tested;
            let apart = (a - b).abs();
            if apart.is_nan() || apart > APART * scale {
                let text = format!("`{}` does not compute the derivative of `{}`", rule.name, func.name);
                let note = format!(
                    "element {n} of `{name}` is {b:e} on a sample, and {a:e} by automatic differentiation"
                );
                return Err(no(text).note(note).help(format!(
                    "correct `{}`; where the automatic derivative is not what is wanted, `{}` has to be written \
                     so that it has none, as with `floor`",
                    rule.name, func.name
                )));
            }
        }
    }
    Ok(known)
}
