//! Kernels of the user's, in CUDA C or OpenCL C.

use super::away::away;
use lathe::device::{Kernel, Language};
use pyo3::prelude::*;
use std::path::PathBuf;

/// A kernel in CUDA C (`cuda`) or OpenCL C (`opencl`). It is compiled for a device when that device needs it first; on
/// devices of the other kind it is translated.
#[pyclass(subclass, frozen, weakref, module = "lathe._lathe", name = "DeviceKernel")]
pub struct DeviceKernel {
    pub kernel: Kernel,
}

#[pymethods]
impl DeviceKernel {
    /// The kernel of a name, or the only one, of a source; of a file if `source` is its path and `language` is `None`.
    #[new]
    #[pyo3(signature = (source, language, name=None, flags=None))]
    fn new(
        py: Python<'_>,
        source: String,
        language: Option<&str>,
        name: Option<&str>,
        flags: Option<Vec<String>>,
    ) -> PyResult<DeviceKernel> {
        let kernel = away(py, || {
            let kernel = match language {
                Some("opencl") => Kernel::of(&source, Language::OpenCl, name)?,
                Some(_) => Kernel::of(&source, Language::Cuda, name)?,
                None => Kernel::file(&PathBuf::from(source), name)?,
            };
            Ok(flags.iter().flatten().fold(kernel, |k, f| k.flag(f)))
        })?;
        Ok(DeviceKernel { kernel })
    }

    #[getter]
    fn name(&self) -> &str {
        self.kernel.name()
    }

    /// The parameters: name, and the type of a scalar, `*` for a buffer, `__local` for memory of a block.
    #[getter]
    fn parameters(&self) -> Vec<(String, String)> {
        let ty = |p: &lathe::device::source::Parameter| match (p.local, p.pointer) {
            (true, _) => "__local".to_string(),
            (_, true) => "*".to_string(),
            _ => p.ty.clone(),
        };
        self.kernel.parameters().iter().map(|p| (p.name.clone(), ty(p))).collect()
    }

    fn __repr__(&self) -> String {
        format!("<kernel {} of a device>", self.kernel.name())
    }
}

/// A source in CUDA C as OpenCL C, as far as it has a counterpart.
#[pyfunction]
pub fn to_opencl(py: Python<'_>, source: &str) -> PyResult<String> {
    away(py, || lathe::device::to_opencl(source))
}

/// A source in OpenCL C as CUDA C, as far as it has a counterpart.
#[pyfunction]
pub fn to_cuda(py: Python<'_>, source: &str) -> PyResult<String> {
    away(py, || lathe::device::to_cuda(source))
}
