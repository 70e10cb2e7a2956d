//! Buffers as a library sees them during a call: addresses on a device, for PyTorch and CuPy without copies.

use super::elements::Elements;
use crate::refusals::argument_error;
use crate::tensors::DlTensor;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use smallvec::SmallVec;
use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The memory of a part on a device, as long as the call takes that it is given to.
#[pyclass(frozen, module = "lathe._lathe", name = "Memory")]
pub struct DeviceMemory {
    pub elements: Arc<Elements>,
    pub shape: SmallVec<[i64; 6]>,
    /// An address, or a `cl_mem`; none where there is no element.
    pub pointer: Option<u64>,
    /// Where the part begins in a `cl_mem`, in bytes.
    #[pyo3(get)]
    pub offset: u64,
    /// The stream, or the command queue.
    #[pyo3(get)]
    pub queue: u64,
    /// `cuda` or `opencl`.
    #[pyo3(get)]
    pub kind: &'static str,
    /// The number of the device among those of its kind.
    #[pyo3(get)]
    pub number: i32,
    /// The call has returned.
    pub ended: AtomicBool,
}

/// `kDLCUDA`.
const CUDA: i32 = 2;

/// `DLManagedTensor` of `dlpack.h`.
#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// What a capsule owns.
#[repr(C)]
struct Exported {
    managed: Managed,
    shape: SmallVec<[i64; 6]>,
    strides: SmallVec<[i64; 6]>,
    _memory: Py<DeviceMemory>,
}

const NAME: &CStr = c"dltensor";

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: `managed` is the first field of what `__dlpack__` made, and is deleted once.
    let exported = unsafe { Box::from_raw(managed.cast::<Exported>()) };
    // Any thread may end a tensor.
    let _ = Python::try_attach(|_| drop(exported));
}

unsafe extern "C" fn unused(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: a capsule. Who took the tensor over has renamed it.
    unsafe {
        if pyo3::ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) != 0 {
            let managed = pyo3::ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr());
            delete(managed.cast());
        }
    }
}

impl DeviceMemory {
    /// The address of the first element, while the call runs, on a device of CUDA.
    fn address(&self, py: Python<'_>) -> PyResult<u64> {
        let refuse =
            |text: &str, help| Err(argument_error(py, lathe::device::ARGUMENTS, text, &[], Some(help)));
        if self.ended.load(Ordering::Acquire) {
            return refuse("memory of a call that has returned", "part.numpy(), or another call");
        }
        if self.kind != "cuda" {
            let help = "pyopencl: pyopencl.Buffer.from_int_ptr(memory.pointer), memory.offset";
            return refuse("memory of OpenCL has no address: `pointer` is a cl_mem", help);
        }
        Ok(self.pointer.unwrap_or(0))
    }

    fn strides(&self) -> SmallVec<[i64; 6]> {
        let mut step = 1i64;
        let mut out: SmallVec<[i64; 6]> = SmallVec::from_elem(1, self.shape.len());
        for (s, n) in out.iter_mut().zip(&self.shape).rev() {
            *s = step;
            step = step.saturating_mul((*n).max(1));
        }
        out
    }
}

#[pymethods]
impl DeviceMemory {
    /// An address (CUDA) or a `cl_mem` (OpenCL); `None` where there is no element.
    #[getter]
    fn pointer(&self) -> Option<u64> {
        self.pointer.filter(|_| !self.ended.load(Ordering::Acquire))
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// numpy's description of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.elements.descr.clone_ref(py)
    }

    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let address = self.address(py)?;
        let out = PyDict::new(py);
        out.set_item("version", 3)?;
        out.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        out.set_item("typestr", self.elements.descr.bind(py).getattr(intern!(py, "str"))?)?;
        out.set_item("data", (address, false))?;
        out.set_item("strides", py.None())?;
        // 0 is not allowed there, and 1 is the stream that is called 0.
        out.set_item("stream", self.queue.max(1))?;
        Ok(out)
    }

    fn __dlpack_device__(&self, py: Python<'_>) -> PyResult<(i32, i32)> {
        self.address(py)?;
        Ok((CUDA, self.number))
    }

    /// The memory by DLPack. It is used on the stream of the call: whoever works on another one is refused.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<i64>,
        max_version: Option<&Bound<'py, PyAny>>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let (py, this) = (slf.py(), slf.get());
        let _ = max_version;
        let address = this.address(py)?;
        let refuse =
            |text: &str, help| Err(argument_error(py, lathe::device::ARGUMENTS, text, &[], Some(help)));
        if copy == Some(true) || dl_device.is_some_and(|d| d != (CUDA, this.number)) {
            return refuse("memory of a call is neither copied nor moved by DLPack", "part.numpy()");
        }
        // 1 and 2 stand for the two default streams, -1 for no stream.
        let given = stream.map(|s| if s == 1 { 0 } else { s as u64 });
        if given.is_some_and(|s| s != this.queue && s != u64::MAX) {
            return refuse(
                "memory of a call is used on another stream than that of the call",
                "the stream is memory.queue; PyTorch and CuPy have it as their current one within the function",
            );
        }
        let Some((code, bits)) = this.elements.dlpack() else {
            return refuse("DLPack has no type for these elements", "memory.pointer");
        };
        let exported = Box::new(Exported {
            managed: Managed {
                tensor: DlTensor {
                    data: address as usize as *mut c_void,
                    device_type: CUDA,
                    device_id: this.number,
                    ndim: this.shape.len() as i32,
                    code,
                    bits,
                    lanes: 1,
                    shape: std::ptr::null(),
                    strides: std::ptr::null(),
                    byte_offset: 0,
                },
                context: std::ptr::null_mut(),
                deleter: Some(delete),
            },
            shape: this.shape.clone(),
            strides: this.strides(),
            _memory: slf.clone().unbind(),
        });
        let raw = Box::into_raw(exported);
        // SAFETY: it was made above and nobody else has it; extents lie in it and move no more. The capsule owns it until
        // somebody takes it over, who calls the deleter.
        unsafe {
            (*raw).managed.tensor.shape = (*raw).shape.as_ptr();
            (*raw).managed.tensor.strides = (*raw).strides.as_ptr();
            let pointer = std::ptr::NonNull::new_unchecked(raw.cast());
            PyCapsule::new_with_pointer_and_destructor(py, pointer, NAME, Some(unused))
        }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let descr = self.elements.descr.bind(py);
        format!("<memory {:?} of {descr} on {}:{}>", &self.shape[..], self.kind, self.number)
    }
}
