//! Kernels that are generic in their element types, as Python calls them: what the arrays are chooses.

use crate::errors;
use crate::kernel::Kernel;
use lathe::{Diagnostic, Type};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The kernels of the other choices, made when the first call needs one.
#[derive(Default)]
pub struct Others {
    all: OnceLock<Vec<Py<Kernel>>>,
    /// The one that was called last, which is asked first; 0 stands for the kernel itself.
    last: AtomicUsize,
}

impl Others {
    fn all(&self, py: Python<'_>, kernel: &Kernel) -> PyResult<&[Py<Kernel>]> {
        if let Some(all) = self.all.get() {
            return Ok(all);
        }
        let names = kernel.program.generic_of(&kernel.name).map(|g| &g.1.choices);
        let mut all = Vec::new();
        for (_, name) in names.into_iter().flatten().filter(|c| c.1 != kernel.name) {
            let function = kernel.program.kernel(Some(name)).map_err(|f| errors::raised(py, &f))?;
            let other = Kernel::of(function, &kernel.program, &kernel.text).with_defaults_of(py, kernel);
            all.push(Py::new(py, other)?);
        }
        Ok(self.all.get_or_init(|| all))
    }
}

/// Calls the kernel of the choice that the arrays fit. One that was asked for by its own name is called as it is.
pub fn call<'py>(
    object: &Bound<'py, Kernel>,
    call: impl Fn(&Bound<'py, Kernel>) -> PyResult<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    let (py, kernel) = (object.py(), object.get());
    let Some(others) = &kernel.others_of else { return call(object) };
    let last = others.last.load(Ordering::Relaxed);
    let first = if last == 0 { object.clone() } else { others.all(py, kernel)?[last - 1].bind(py).clone() };
    let wrong = match call(&first) {
        Err(e) if is_dtype(py, &e)? => e,
        done => return done,
    };
    // The message is about the kernel itself, whichever was asked first.
    let mut said = (last == 0).then_some(wrong);
    let all = others.all(py, kernel)?;
    for n in (0..=all.len()).filter(|n| *n != last) {
        let other = if n == 0 { object.clone() } else { all[n - 1].bind(py).clone() };
        match call(&other) {
            Err(e) if is_dtype(py, &e)? => said = if n == 0 { Some(e) } else { said },
            done => {
                others.last.store(n, Ordering::Relaxed);
                return done;
            }
        }
    }
    match said {
        Some(e) => Err(e),
        None => call(object),
    }
}

fn is_dtype(py: Python<'_>, e: &PyErr) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = match CLASS.get(py) {
        Some(c) => c,
        None => {
            let found = py.import("lathe.errors")?.getattr("DtypeError")?.unbind();
            CLASS.get_or_init(py, || found)
        }
    };
    Ok(e.is_instance(py, class.bind(py)))
}

/// The name of the kernel for these element types.
pub fn choice(py: Python<'_>, kernel: &Kernel, types: &BTreeMap<String, String>) -> PyResult<String> {
    let wrong = |text: String| {
        let d = Diagnostic::error(lathe::codes::NO_KERNEL, text);
        errors::bare(py, d.help("write kernel.typed(T=lathe.f64) for a kernel<T in {f32, f64}>"))
    };
    let Some((name, generic)) = kernel.program.generic_of(&kernel.name) else {
        return Err(wrong(format!("`{}` is not generic in its element types", kernel.name)));
    };
    let mut given = BTreeMap::new();
    for (n, text) in types {
        let scalar = Type::element_named(text);
        given.insert(
            n.clone(),
            scalar.ok_or_else(|| wrong(format!("`{text}` is not a scalar or complex type")))?,
        );
    }
    let chosen = generic.choose(&given).map(str::to_string);
    chosen.map_err(|why| wrong(format!("`{name}` cannot be instantiated for these types: {why}")))
}
