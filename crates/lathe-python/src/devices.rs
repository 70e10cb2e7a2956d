//! The devices of this machine.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The devices that arrays may be on, each as a dictionary, and why there are no others.
#[pyfunction]
pub fn devices(py: Python<'_>) -> PyResult<(Bound<'_, PyList>, Vec<String>)> {
    let (all, why) = py.detach(lathe::device::devices);
    let out = PyList::empty(py);
    for d in all {
        let one = PyDict::new(py);
        one.set_item("id", d.id)?;
        one.set_item("kind", d.kind)?;
        one.set_item("name", d.name)?;
        one.set_item("arch", d.arch)?;
        one.set_item("memory_bytes", d.memory_bytes)?;
        one.set_item("multiprocessors", d.multiprocessors)?;
        one.set_item("shared_bytes", d.shared_bytes)?;
        one.set_item("features", d.features)?;
        out.append(one)?;
    }
    Ok((out, why.into_iter().map(|d| d.message).collect()))
}
