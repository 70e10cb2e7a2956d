//! Diagnostics as Python exceptions.

use lathe::{Diagnostic, Failure, Severity, SourceMap};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The exception for what went wrong; of several diagnostics the first error decides its class.
pub fn raised(py: Python<'_>, failure: &Failure) -> PyErr {
    let errors: Vec<&Diagnostic> =
        failure.diagnostics.iter().filter(|d| d.severity == Severity::Error).collect();
    let Some(first) = errors.first().copied().or(failure.diagnostics.first()) else {
        return pyo3::exceptions::PyRuntimeError::new_err("lathe failed without a message");
    };
    make(py, first, failure).unwrap_or_else(|e| e)
}

/// The exception for one diagnostic that no source is to blame for.
pub fn bare(py: Python<'_>, d: Diagnostic) -> PyErr {
    raised(py, &Failure::bare(d))
}

/// The exception for a diagnostic about a source.
pub fn at(py: Python<'_>, sources: &SourceMap, d: Diagnostic) -> PyErr {
    raised(py, &Failure::one(sources, d))
}

fn make(py: Python<'_>, first: &Diagnostic, failure: &Failure) -> PyResult<PyErr> {
    let sources = &failure.sources;
    let fields = PyDict::new(py);
    fields.set_item("code", first.code.0)?;
    fields.set_item("message", &first.message)?;
    fields.set_item("notes", &first.notes)?;
    fields.set_item("help", &first.help)?;
    if let Some(m) = first.marks.first() {
        let (line, column) = sources.line_column(m.span.file, m.span.start);
        fields.set_item("file", sources.name(m.span.file))?;
        fields.set_item("line", line)?;
        fields.set_item("column", column)?;
    }
    // All of them, that to blame first: for places that only Python knows.
    let (all, mut texts) = (PyList::empty(py), Vec::new());
    for d in std::iter::once(first).chain(failure.diagnostics.iter().filter(|d| !std::ptr::eq(*d, first))) {
        let shown = lathe::render::to_text(sources, d, false);
        let one = PyDict::new(py);
        one.set_item("code", d.code.0)?;
        one.set_item("message", &d.message)?;
        one.set_item("notes", &d.notes)?;
        one.set_item("help", &d.help)?;
        let marks: Vec<(&str, u32, u32, &str)> = (d.marks.iter())
            .map(|m| (sources.name(m.span.file), m.span.start, m.span.end, m.text.as_str()))
            .collect();
        one.set_item("marks", marks)?;
        one.set_item("shown", shown.trim_end())?;
        all.append(one)?;
        texts.push(shown);
    }
    fields.set_item("all", all)?;
    let text = texts.join("\n");
    let error = py.import("lathe.errors")?.getattr("_make")?.call1((text.trim_end(), fields))?;
    Ok(PyErr::from_value(error))
}
