//! The keywords of a call: options, and arguments by name.

use crate::code::Choice;
use crate::kernel::Kernel;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

/// What the keywords of a call ask for.
#[derive(Default)]
pub struct Asked<'py> {
    pub out: Option<Bound<'py, PyAny>>,
    pub choice: Option<Choice>,
    pub threads: Option<usize>,
    pub copy: bool,
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
        if value.is_none() && ["out", "strategy", "params", "threads", "copy", "specialize"].contains(&&*key)
        {
            continue;
        }
        match &*key {
            "out" => all.out = Some(value),
            "threads" => {
                let n: usize = value.extract()?;
                if n == 0 {
                    return Err(PyValueError::new_err("threads must be at least 1"));
                }
                all.threads = Some(n);
            }
            "copy" => all.copy = value.cast::<PyBool>()?.is_true(),
            "strategy" => {
                chosen = true;
                (choice.strategy, choice.more) = strategy(&value)?;
            }
            "params" => {
                chosen = true;
                choice.params = params(value.cast::<PyDict>()?)?;
            }
            "specialize" => {
                chosen = true;
                choice.specialize = value.extract()?;
            }
            other => {
                let names: Vec<&str> = kernel
                    .signature
                    .inputs
                    .iter()
                    .map(|i| kernel.signature.params[*i].name.as_str())
                    .collect();
                return Err(PyTypeError::new_err(format!(
                    "`{}` has no argument `{other}`; its arguments: {}; options: out, strategy, params, threads, \
                     copy, specialize",
                    kernel.name,
                    names.join(", ")
                )));
            }
        }
    }
    if chosen {
        all.choice = Some(choice);
    }
    Ok(all)
}

/// A strategy by its name, or one that was made in Python, with its definition.
pub fn strategy(value: &Bound<'_, PyAny>) -> PyResult<(Option<String>, Option<String>)> {
    if let Ok(name) = value.extract::<String>() {
        return Ok((Some(name), None));
    }
    let text = value.call_method0("source").and_then(|t| t.extract::<String>());
    let name = value.getattr("name").and_then(|t| t.extract::<String>());
    match (name, text) {
        (Ok(name), Ok(text)) => Ok((Some(name), Some(text))),
        _ => Err(PyTypeError::new_err("a strategy is a name, or what lathe.strategy made")),
    }
}

/// Values of parameters as text.
pub fn params(given: &Bound<'_, PyDict>) -> PyResult<std::collections::BTreeMap<String, String>> {
    let mut out = std::collections::BTreeMap::new();
    for (name, value) in given.iter() {
        let text = if let Ok(b) = value.cast::<PyBool>() {
            b.is_true().to_string()
        } else {
            value.str()?.to_string()
        };
        out.insert(name.extract::<String>()?, text);
    }
    Ok(out)
}
