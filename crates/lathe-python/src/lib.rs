//! The compiled part of the Python package `lathe`: what costs time at a call, and the way into the session.
//!
//! * `kernel`: the class of kernels; `call`: a call, from Python's arguments to the kernel's descriptors, with its
//!   `keywords`, and `refusals` of what cannot be used.
//! * `code`: compiled versions; `pools`: threads, and forks.
//! * `arrays`, `signature`: numpy's arrays and a kernel's parameters.
//! * `tensors`: tensors of PyTorch, read without numpy; `interface`: other arrays on CUDA devices.
//! * `device`: devices, buffers and launches, in a folder of their own.
//! * `externals`: functions that kernels call. `errors`: diagnostics as exceptions. `tune`: searches; `interrupts`: signals during calls. `ffi`: kernels that XLA calls,
//!   `ffi_cuda` on devices of CUDA.

mod arrays;
mod call;
mod code;
mod device;
mod devices;
mod errors;
mod externals;
mod ffi;
mod ffi_cuda;
mod generic;
mod interface;
mod interrupts;
mod kernel;
mod keywords;
mod pools;
mod refusals;
mod signature;
mod tensors;
mod tune;

use pyo3::prelude::*;

#[pymodule(name = "_lathe")]
mod module {
    use pyo3::exceptions::PyImportError;
    use pyo3::prelude::*;

    /// Thread pools, compiled code and numpy's own state belong to the process, so there is one module in it.
    #[pymodule_init]
    fn init() -> PyResult<()> {
        // SAFETY: the interpreter is attached.
        let id = unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) };
        if id == 0 {
            return Python::attach(super::interrupts::find_main_thread);
        }
        let text =
            "lathe works in the main interpreter only, not in a sub-interpreter: use threads or processes";
        Err(PyImportError::new_err(text))
    }

    #[pymodule_export]
    use super::arrays::{lying, strided};
    #[pymodule_export]
    use super::device::{
        Device, DeviceKernel, DeviceMemory, DeviceProfile, Devices, Grid, Launch, Part, Sequence, Tagged,
        dim3, nd_range, read, read_write, to_cuda, to_opencl, write,
    };
    #[pymodule_export]
    use super::devices::devices;
    #[pymodule_export]
    use super::externals::{give_external, link_external};
    #[pymodule_export]
    use super::ffi::{ffi_capsule, ffi_content};
    #[pymodule_export]
    use super::ffi_cuda::ffi_cuda_capsule;
    #[pymodule_export]
    use super::kernel::{Kernel, cache_folder, explain_code, fail, format_source};
    #[pymodule_export]
    use super::pools::{after_fork, before_fork, get_threads, set_threads};
    #[pymodule_export]
    use super::tune::{count_space, tune_command, tune_function, tune_kernel, work};
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python packages have")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
