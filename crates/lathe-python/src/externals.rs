//! External functions of Python and of libraries; what they are given by is in `_externals.py`.

use crate::errors;
use lathe::externals;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Gives the external function of a name: the address of a function with the interface of kernels, which stays.
#[pyfunction]
pub fn give_external(name: &str, address: usize) -> PyResult<()> {
    if address == 0 {
        return Err(pyo3::exceptions::PyValueError::new_err("a function has an address"));
    }
    // SAFETY: `_externals.py` passes addresses of functions that it made with this interface and keeps.
    unsafe { externals::give(name, std::mem::transmute::<usize, lathe_abi::KernelFn>(address)) };
    Ok(())
}

/// Loads a library of external functions.
#[pyfunction]
pub fn link_external(py: Python<'_>, library: PathBuf) -> PyResult<()> {
    // Code of the library may run, and may want the interpreter.
    py.detach(|| externals::link(&library)).map_err(|d| errors::bare(py, d))
}
