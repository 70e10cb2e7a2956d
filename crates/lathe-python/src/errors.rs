//! Diagnostics as Python exceptions.

use lathe::{Diagnostic, Failure, Severity, SourceMap};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The exception for what went wrong; of several diagnostics the first error decides its class.
pub fn raised(py: Python<'_>, failure: &Failure) -> PyErr {
    let errors: Vec<&Diagnostic> =
        failure.diagnostics.iter().filter(|d| d.severity == Severity::Error).collect();
    let Some(first) = errors.first().copied().or(failure.diagnostics.first()) else {
        return pyo3::exceptions::PyRuntimeError::new_err("lathe failed without saying why");
    };
    let shown: Vec<String> =
        failure.diagnostics.iter().map(|d| lathe::render::to_text(&failure.sources, d, false)).collect();
    make(py, first, &failure.sources, shown.join("\n")).unwrap_or_else(|e| e)
}

/// The exception for one diagnostic that no source is to blame for.
pub fn bare(py: Python<'_>, d: Diagnostic) -> PyErr {
    raised(py, &Failure::bare(d))
}

/// The exception for a diagnostic about a source.
pub fn at(py: Python<'_>, sources: &SourceMap, d: Diagnostic) -> PyErr {
    raised(py, &Failure::one(sources, d))
}

fn make(py: Python<'_>, d: &Diagnostic, sources: &SourceMap, text: String) -> PyResult<PyErr> {
    let fields = PyDict::new(py);
    fields.set_item("code", d.code.0)?;
    fields.set_item("message", &d.message)?;
    fields.set_item("notes", &d.notes)?;
    fields.set_item("help", &d.help)?;
    if let Some(m) = d.marks.first() {
        let (line, column) = sources.line_column(m.span.file, m.span.start);
        fields.set_item("file", sources.name(m.span.file))?;
        fields.set_item("line", line)?;
        fields.set_item("column", column)?;
    }
    let error = py.import("lathe.errors")?.getattr("_make")?.call1((text.trim_end(), fields))?;
    Ok(PyErr::from_value(error))
}
