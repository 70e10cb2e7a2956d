//! The devices of this machine.

use lathe::device::DeviceInfo;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The devices of a kind, or of all, each as a dictionary. Drivers of other kinds are not loaded: some start threads.
#[pyfunction]
pub fn devices(py: Python<'_>, kind: Option<String>) -> PyResult<Bound<'_, PyList>> {
    let all = py.detach(|| match kind {
        Some(kind) => lathe::device::devices_of(&kind).unwrap_or_default(),
        None => lathe::device::devices().0,
    });
    let out = PyList::empty(py);
    for d in &all {
        out.append(described(py, d)?)?;
    }
    Ok(out)
}

/// What the driver says of a device.
pub fn described<'py>(py: Python<'py>, d: &DeviceInfo) -> PyResult<Bound<'py, PyDict>> {
    let one = PyDict::new(py);
    one.set_item("id", &d.id)?;
    one.set_item("kind", d.kind)?;
    one.set_item("name", &d.name)?;
    one.set_item("arch", &d.arch)?;
    one.set_item("memory_bytes", d.memory_bytes)?;
    one.set_item("multiprocessors", d.multiprocessors)?;
    one.set_item("shared_bytes", d.shared_bytes)?;
    one.set_item("features", &d.features)?;
    Ok(one)
}
