//! Decisions as pictures, whether or not there is code for them.

use super::call::{Call, mark};
use super::calls::calls;
use super::expand::decide;
use super::setting::{Setting, labels};
use crate::applied::How;
use crate::program::{Failure, Program};
use crate::schedule::{plain, specialize};
use crate::which::choose;
use lathe_diagnostics::Diagnostic;
use lathe_ir::Function;
use lathe_space::{Value, Values};
use lathe_strategy::Context;
use lathe_target::Machine;
use std::collections::BTreeMap;
use std::path::Path;

/// The decisions that the strategy takes for the sizes of `how`, one picture (SVG) per compute, with its label. None
/// where sizes are missing or the strategy takes no decisions.
///
/// # Errors
/// What is wrong with a step `mdh(…)`, and which rule its decisions break.
pub fn pictures(
    program: &Program,
    kernel: &Function,
    how: &How,
    machine: &Machine,
) -> Result<Vec<(String, String)>, Failure> {
    let fail = |d: Diagnostic| Failure::one(&program.sources, d);
    let definition = choose(program, kernel, how, machine)?.definition;
    if !how.knows(kernel) {
        return Ok(Vec::new());
    }
    let machine = &Machine { threads: how.threads.map_or(machine.threads, |n| n as u64), ..machine.clone() };
    let mut sizes = how.sizes.clone();
    sizes.extend(how.specialize.clone());
    let func = plain(program, kernel, how.assumptions)?;
    let func = if func.sizes.is_empty() { func } else { specialize(&func, &sizes).map_err(fail)? };
    let facts = |n: &str| sizes.get(n).map(|v| Value::Int(*v)).or_else(|| machine.fact(n));
    let values: Values = how.params.iter().map(|(n, v)| (n.clone(), lathe_space::parse_value(v))).collect();
    let (given, params): (Values, Values) =
        values.into_iter().partition(|(n, _)| definition.params.iter().any(|p| p.name == *n));
    let (body, _) = lathe_strategy::instantiate(definition, &given, &facts).map_err(fail)?;
    let definitions = program.definitions(&kernel.name);
    let context = Context::new(&definitions, Some(&kernel.name), &facts);
    let set = Setting {
        module: &program.lang.module,
        func: &func,
        machine,
        model: how.model.as_deref(),
        folder: program.path.parent().unwrap_or(Path::new("")),
        params: &params,
    };
    let all = labels(&func);
    let mut out: Vec<(String, String)> = Vec::new();
    for step in calls(&context, &body).map_err(fail)? {
        let call = Call::read(&step.args, step.span).map_err(fail)?;
        let wanted = match &call.of {
            Some(one) => vec![one.clone()],
            None => all.clone(),
        };
        for label in wanted {
            let d = match decide(&set, &call, Some(&label), all.len()) {
                Ok(d) => d,
                // Of several computes some may be no homomorphisms.
                Err(_) if step.lenient || (call.of.is_none() && all.len() > 1) => continue,
                Err(d) => return Err(fail(d)),
            };
            let shaped = d.h.at(&BTreeMap::new()).map_err(|e| fail(mark(e, step.span)))?;
            let picture = lathe_mdh::picture::picture(&shaped, &d.model, &d.full, &d.fixed);
            out.extend(picture.map(|p| (label, p)));
        }
    }
    Ok(out)
}
