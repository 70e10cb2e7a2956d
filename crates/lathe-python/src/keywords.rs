//! The keywords of a call: options, and arguments by name.

use crate::code::Choice;
use crate::kernel::Kernel;
use crate::refusals::argument_error;
use lathe::nearest;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the keywords of a call ask for.
#[derive(Default)]
pub struct Asked<'py> {
    pub out: Option<Bound<'py, PyAny>>,
    pub choice: Option<Choice>,
    pub threads: Option<usize>,
    pub copy: bool,
    pub timeout: Option<Duration>,
    pub debug: bool,
    pub named: Vec<(usize, Bound<'py, PyAny>)>,
}

/// Sorts the keywords: options first, then names of parameters.
pub fn asked<'py>(kernel: &Kernel, kwargs: &Bound<'py, PyDict>) -> PyResult<Asked<'py>> {
    let mut all = Asked::default();
    let mut choice = Choice::default();
    let mut chosen = false;
    for (key, value) in kwargs.iter() {
        let key = key.extract::<std::borrow::Cow<'_, str>>()?;
        // A parameter of the kernel hides an option of that name.
        if let Some(at) = kernel.signature.inputs.iter().find(|i| kernel.signature.params[**i].name == *key) {
            all.named.push((*at, value));
            continue;
        }
        if value.is_none() && OPTIONS.contains(&&*key) {
            continue;
        }
        match &*key {
            "out" => all.out = Some(value),
            "threads" => {
                all.threads = Some(threads(&value)?);
            }
            "timeout" => all.timeout = Some(timeout(&value)?),
            "debug" => match value.cast::<PyBool>() {
                Ok(b) => all.debug = b.is_true(),
                Err(_) => return Err(option(&value, "`debug` is True or False")),
            },
            "copy" => match value.cast::<PyBool>() {
                Ok(b) => all.copy = b.is_true(),
                Err(_) => return Err(option(&value, "`copy` is True or False")),
            },
            "strategy" => {
                chosen = true;
                (choice.strategy, choice.more) = strategy(&value)?;
            }
            "params" => {
                chosen = true;
                choice.params = params(&value)?;
            }
            "specialize" => {
                chosen = true;
                choice.specialize = sizes(&value)?;
            }
            other => {
                let names: Vec<&str> = kernel
                    .signature
                    .inputs
                    .iter()
                    .map(|i| kernel.signature.params[*i].name.as_str())
                    .collect();
                let near = nearest(other, OPTIONS.into_iter().chain(names.iter().copied()));
                let near = near.map(|o| format!("did you mean `{o}`?"));
                let text = format!("`{}` has no argument `{other}`", kernel.name);
                let mut notes = vec![
                    format!("its arguments: {}", names.join(", ")),
                    format!("options: {}", OPTIONS.join(", ")),
                ];
                if kernel.signature.outputs.iter().any(|o| kernel.signature.params[*o].name == other) {
                    notes.push(format!("`{other}` is a result: it is returned, or written to out="));
                }
                let py = value.py();
                return Err(argument_error(py, lathe::codes::OPTION, text, &notes, near.as_deref()));
            }
        }
    }
    if !choice.params.is_empty() && choice.strategy.is_none() {
        return Err(option(kwargs, "`params` requires a strategy: strategy=…"));
    }
    if chosen {
        // Code for fewer threads than the machine has is other code.
        choice.threads = all.threads;
        all.choice = Some(choice);
    }
    Ok(all)
}

/// A strategy by its name, or one that was made in Python, with its definition.
pub fn strategy(value: &Bound<'_, PyAny>) -> PyResult<(Option<String>, Option<String>)> {
    if let Ok(name) = value.extract::<String>() {
        return Ok((Some(name), None));
    }
    if value.is_instance_of::<Kernel>() {
        return Err(option(value, "a strategy is a name, or what lathe.strategy made"));
    }
    let text = value.call_method0("source").and_then(|t| t.extract::<String>());
    let name = value.getattr("name").and_then(|t| t.extract::<String>());
    match (name, text) {
        (Ok(name), Ok(text)) => Ok((Some(name), Some(text))),
        _ => Err(option(value, "a strategy is a name, or what lathe.strategy made")),
    }
}

/// Values of parameters as text.
pub fn params(given: &Bound<'_, PyAny>) -> PyResult<BTreeMap<String, String>> {
    let what = "`params` is a dictionary of parameters and their values";
    let dict = given.cast::<PyDict>().map_err(|_| option(given, what))?;
    let mut out = BTreeMap::new();
    for (name, value) in dict.iter() {
        let text = if let Ok(b) = value.cast::<PyBool>() {
            b.is_true().to_string()
        } else {
            value.str()?.to_string()
        };
        out.insert(name.extract::<String>().map_err(|_| option(given, what))?, text);
    }
    Ok(out)
}

/// Values of sizes.
pub fn sizes(given: &Bound<'_, PyAny>) -> PyResult<BTreeMap<String, i64>> {
    given.extract().map_err(|_| option(given, "`specialize` is a dictionary of sizes and whole numbers"))
}

/// A number of threads.
pub fn threads(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    let n: Option<usize> = if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() };
    n.filter(|n| *n > 0).ok_or_else(|| option(value, "`threads` is a whole number, at least 1"))
}

/// A time above 0, in seconds.
fn timeout(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: Option<f64> = if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() };
    let time = seconds.filter(|s| *s > 0.0).and_then(|s| Duration::try_from_secs_f64(s).ok());
    time.ok_or_else(|| option(value, "`timeout` is a number of seconds above 0"))
}

/// The options of a call.
const OPTIONS: [&str; 8] = ["out", "strategy", "params", "threads", "copy", "specialize", "timeout", "debug"];

/// The exception for an option whose value has no meaning.
pub fn option(value: &Bound<'_, PyAny>, what: &str) -> PyErr {
    let py = value.py();
    let given = value.repr().map_or_else(|_| "an object".to_string(), |r| r.to_string());
    let short: String = given.chars().take(60).collect();
    argument_error(py, lathe::codes::OPTION, what, &[format!("given: {short}")], None)
}
