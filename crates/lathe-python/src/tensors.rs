//! Tensors of PyTorch as arguments of kernels, without copies and without a detour through numpy.
//!
//! A tensor is read here if it is nothing but memory of this machine: not of another class, not seen by a transform
//! (`torch.func`), a mode (fake tensors, tracing) or forward differentiation, and no gradient would be lost.
//! Everything else is the operator's business, which knows what these mean.
//!
//! The memory is read by DLPack's exchange table (`__dlpack_c_exchange_api__`, PyTorch from 2.10 on), else by the
//! tensor's own methods.

use crate::arrays::{Dims, Place, Problem, Read, fits_device};
use crate::refusals::argument_error;
use crate::signature::Param;
use lathe::Mode;
use lathe_abi::dtype;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyDict, PyTuple, PyType};
use std::ffi::{CStr, c_void};

/// `DLTensor` of `dlpack.h`.
#[repr(C)]
pub struct DlTensor {
    pub data: *mut c_void,
    pub device_type: i32,
    pub device_id: i32,
    pub ndim: i32,
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
    pub shape: *const i64,
    pub strides: *const i64,
    pub byte_offset: u64,
}

/// `DLPackExchangeAPI` of `dlpack.h`, version 1.
#[repr(C)]
struct Exchange {
    major: u32,
    minor: u32,
    previous: *const c_void,
    allocator: *const c_void,
    managed_from_object: *const c_void,
    managed_to_object: *const c_void,
    from_object: Option<unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> i32>,
    stream: *const c_void,
}

/// `DLDeviceType`: memory of the host, of a CUDA device, of the host and pinned for CUDA, managed by CUDA.
const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;
const CUDA_MANAGED: i32 = 13;

/// What is used of PyTorch, looked up once.
pub struct Torch {
    tensor: Py<PyType>,
    parameter: Py<PyType>,
    exchange: Option<&'static Exchange>,
    /// Functions that tell whether somebody watches: stacks of modes, the level of transforms, the tracer. None if this
    /// version has others: then somebody may.
    watchers: Option<[Py<PyAny>; 4]>,
    forward: Py<PyAny>,
    grad_enabled: Py<PyAny>,
    increment: Py<PyAny>,
    empty: Py<PyAny>,
    /// The current stream of a device, as the driver's handle; none in builds for the CPU alone.
    stream: Option<Py<PyAny>>,
    /// By our code of an element type.
    dtypes: [Option<Py<PyAny>>; 16],
}

static TORCH: PyOnceLock<Torch> = PyOnceLock::new();

// SAFETY: the exchange table is constant data of PyTorch, which is never unloaded.
unsafe impl Send for Exchange {}
// SAFETY: as above.
unsafe impl Sync for Exchange {}

/// Why a tensor was not read.
pub enum Trouble {
    /// As with an array of numpy.
    Problem(Problem),
    /// The operator knows what to do with it.
    Operator,
    Raise(PyErr),
}

impl From<PyErr> for Trouble {
    fn from(e: PyErr) -> Trouble {
        Trouble::Raise(e)
    }
}

/// PyTorch, if the program uses it and the object is one of its tensors.
pub fn of<'py>(object: &Bound<'py, PyAny>) -> Option<&'static Torch> {
    let py = object.py();
    let torch = match TORCH.get(py) {
        Some(t) => t,
        None => {
            let found = Torch::find(py).ok()??;
            let _ = TORCH.set(py, found);
            TORCH.get(py)?
        }
    };
    (torch.exact(object) || object.is_instance(torch.tensor.bind(py)).unwrap_or(false)).then_some(torch)
}

impl Torch {
    fn find(py: Python<'_>) -> PyResult<Option<Torch>> {
        // SAFETY: the interpreter is attached; a new reference, or null without an error.
        let torch = unsafe {
            Bound::from_owned_ptr_or_opt(py, ffi::PyImport_GetModule(intern!(py, "torch").as_ptr()))
        };
        let Some(torch) = torch else { return Ok(None) };
        let inner = torch.getattr("_C")?;
        let tensor: Bound<'_, PyType> = torch.getattr("Tensor")?.cast_into()?;
        let parameter: Bound<'_, PyType> = torch.getattr("nn")?.getattr("Parameter")?.cast_into()?;
        let watchers = || -> PyResult<[Py<PyAny>; 4]> {
            Ok([
                inner.getattr("_len_torch_function_stack")?.unbind(),
                inner.getattr("_len_torch_dispatch_stack")?.unbind(),
                inner.getattr("_functorch")?.getattr("maybe_current_level")?.unbind(),
                inner.getattr("_get_tracing_state")?.unbind(),
            ])
        };
        let mut dtypes = [const { None }; 16];
        for (code, name) in DTYPES {
            if let Some(d) = torch.getattr_opt(name)? {
                dtypes[code as usize] = Some(d.unbind());
            }
        }
        let autograd = torch.getattr("autograd")?;
        Ok(Some(Torch {
            exchange: exchange(&tensor),
            tensor: tensor.unbind(),
            parameter: parameter.unbind(),
            watchers: watchers().ok(),
            forward: autograd.getattr("forward_ad")?.unbind(),
            grad_enabled: torch.getattr("is_grad_enabled")?.unbind(),
            increment: autograd.getattr("graph")?.getattr("increment_version")?.unbind(),
            empty: torch.getattr("empty")?.unbind(),
            stream: inner.getattr_opt("_cuda_getCurrentRawStream")?.map(Bound::unbind),
            dtypes,
        }))
    }

    /// Whether the object is a tensor or a parameter, and of no class of its own.
    fn exact(&self, object: &Bound<'_, PyAny>) -> bool {
        let ty = object.get_type_ptr();
        ty == self.tensor.as_ptr().cast() || ty == self.parameter.as_ptr().cast()
    }

    /// Whether nobody watches what is done with tensors.
    pub fn quiet(&self, py: Python<'_>) -> PyResult<bool> {
        let Some([functions, dispatch, level, tracer]) = &self.watchers else { return Ok(false) };
        let none = |f: &Py<PyAny>| Ok::<_, PyErr>(f.call0(py)?.is_none(py));
        let zero = |f: &Py<PyAny>| f.call0(py)?.extract::<usize>(py).map(|n| n == 0);
        Ok(zero(functions)? && zero(dispatch)? && none(level)? && none(tracer)?)
    }

    /// Refuses a tensor if a gradient or a tangent would be lost.
    fn differentiated(&self, object: &Bound<'_, PyAny>, param: &Param) -> PyResult<()> {
        let py = object.py();
        let wanted = object.getattr(intern!(py, "requires_grad"))?.is_truthy()?;
        if wanted && self.grad_enabled.call0(py)?.is_truthy(py)? {
            return Err(lost(py, &param.name, param.mode));
        }
        let level: i64 = self.forward.getattr(py, intern!(py, "_current_level"))?.extract(py)?;
        if level >= 0 {
            let pair = self.forward.call_method1(py, intern!(py, "unpack_dual"), (object,))?;
            if !pair.getattr(py, intern!(py, "tangent"))?.is_none(py) {
                let text = format!(
                    "`{}` has a tangent, but kernels have no rule for forward-mode differentiation",
                    param.name
                );
                let help = "differentiate in reverse mode: torch.func.vjp, backward()";
                return Err(argument_error(py, lathe::codes::GRADIENT, text, &[], Some(help)));
            }
        }
        Ok(())
    }

    /// Reads a tensor: `dims` gets the extents, then the strides.
    pub fn read(&self, object: &Bound<'_, PyAny>, param: &Param, dims: &mut Dims) -> Result<Read, Trouble> {
        let py = object.py();
        if !self.exact(object) {
            return Err(Trouble::Operator);
        }
        self.differentiated(object, param)?;
        let found = match self.exchange {
            Some(e) => shared(py, e, object, dims),
            None => told(object, dims),
        };
        let Some(Told { data, code, bytes, rank, place }) = found else { return Err(Trouble::Operator) };
        let start = dims.len() - 2 * rank;
        let refused = |p: Problem, dims: &mut Dims| {
            dims.truncate(start);
            Err(Trouble::Problem(p))
        };
        let same = code == param.dtype || (param.is_index() && code == dtype::I64);
        if !same || bytes != param.bytes {
            return refused(Problem::Dtype, dims);
        }
        // A view of what is to be negated, or conjugated, when it is read.
        if matches!(code, dtype::F16 | dtype::BF16 | dtype::F32 | dtype::F64 | dtype::C64 | dtype::C128)
            && object.call_method0(intern!(py, "is_neg"))?.is_truthy()?
        {
            return refused(Problem::Negated, dims);
        }
        if matches!(code, dtype::C64 | dtype::C128)
            && object.call_method0(intern!(py, "is_conj"))?.is_truthy()?
        {
            return refused(Problem::Conjugated, dims);
        }
        if rank != param.rank {
            return refused(Problem::Rank, dims);
        }
        if let Place::Cuda(_) = place
            && let Err(p) = fits_device(data, &dims[start..start + rank], &dims[start + rank..])
        {
            return refused(p, dims);
        }
        let empty = dims[start..start + rank].contains(&0);
        if !empty && (data as usize).rem_euclid(bytes as usize) != 0 {
            return refused(Problem::Misaligned, dims);
        }
        Ok(Read { data, dtype: param.dtype, place })
    }

    /// Refuses a tensor as a number if a gradient would be lost.
    pub fn number(&self, object: &Bound<'_, PyAny>, param: &Param) -> PyResult<()> {
        self.differentiated(object, param)
    }

    /// A new tensor, with unspecified elements; `None` for an element type that PyTorch does not have.
    pub fn made<'py>(
        &self,
        py: Python<'py>,
        code: u32,
        shape: &[i64],
        place: Place,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let code = if code == dtype::INDEX { dtype::I64 } else { code };
        let Some(Some(dtype)) = self.dtypes.get(code as usize) else { return Ok(None) };
        let options = PyDict::new(py);
        options.set_item(intern!(py, "dtype"), dtype)?;
        // The default may be another device.
        match place {
            Place::Host => options.set_item(intern!(py, "device"), intern!(py, "cpu"))?,
            // A number is the one of the accelerator.
            Place::Cuda(n) => options.set_item(intern!(py, "device"), n)?,
        }
        let args = (PyTuple::new(py, shape)?,);
        Ok(Some(self.empty.bind(py).call(args, Some(&options))?))
    }

    /// The stream on which PyTorch works on a device now.
    pub fn stream(&self, py: Python<'_>, device: i32) -> PyResult<u64> {
        self.stream.as_ref().map_or(Ok(0), |f| f.call1(py, (device,))?.extract(py))
    }

    /// Says that the elements of a tensor have changed: gradients that need the old ones are refused.
    pub fn changed(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        self.increment.call1(object.py(), (object,)).map(|_| ())
    }
}

/// The exception for a gradient that a call would lose.
fn lost(py: Python<'_>, name: &str, mode: Mode) -> PyErr {
    let (text, help) = if mode == Mode::In {
        (
            format!("`{name}` requires a gradient, which a direct call of a kernel does not provide"),
            "lathe.torch.op(kernel, vjp=…) is differentiable; if no gradient is needed: tensor.detach() or \
             torch.no_grad()",
        )
    } else {
        (
            format!("`{name}` requires a gradient but would be modified in place"),
            "pass a tensor that requires none, or modify it under torch.no_grad()",
        )
    };
    argument_error(py, lathe::codes::GRADIENT, text, &[], Some(help))
}

/// PyTorch's names of the element types.
const DTYPES: [(u32, &str); 15] = [
    (dtype::BOOL, "bool"),
    (dtype::I8, "int8"),
    (dtype::I16, "int16"),
    (dtype::I32, "int32"),
    (dtype::I64, "int64"),
    (dtype::U8, "uint8"),
    (dtype::U16, "uint16"),
    (dtype::U32, "uint32"),
    (dtype::U64, "uint64"),
    (dtype::F16, "float16"),
    (dtype::BF16, "bfloat16"),
    (dtype::F32, "float32"),
    (dtype::F64, "float64"),
    (dtype::C64, "complex64"),
    (dtype::C128, "complex128"),
];

fn exchange(tensor: &Bound<'_, PyType>) -> Option<&'static Exchange> {
    const NAME: &CStr = c"dlpack_exchange_api";
    let capsule = tensor.getattr_opt("__dlpack_c_exchange_api__").ok()??;
    let table = capsule.cast::<PyCapsule>().ok()?.pointer_checked(Some(NAME)).ok()?;
    // SAFETY: by the protocol the capsule holds a table that lives as long as the process.
    let table = unsafe { table.cast::<Exchange>().as_ref() };
    (table.major == 1 && table.from_object.is_some()).then_some(table)
}

/// What a tensor says of its memory.
struct Told {
    data: *mut c_void,
    code: u32,
    bytes: i64,
    rank: usize,
    place: Place,
}

/// What the exchange table says of a tensor.
fn shared(py: Python<'_>, table: &Exchange, object: &Bound<'_, PyAny>, dims: &mut Dims) -> Option<Told> {
    let from = table.from_object?;
    let mut out = std::mem::MaybeUninit::<DlTensor>::zeroed();
    // SAFETY: a living tensor, of the class that the table is from; the interpreter is attached.
    if unsafe { from(object.as_ptr().cast(), out.as_mut_ptr()) } != 0 {
        drop(PyErr::take(py));
        return None;
    }
    // SAFETY: filled in by the call; zeros are a value of each field.
    let t = unsafe { out.assume_init() };
    let place = match t.device_type {
        CPU | CUDA_HOST => Place::Host,
        CUDA | CUDA_MANAGED => Place::Cuda(t.device_id),
        _ => return None,
    };
    if t.lanes != 1 {
        return None;
    }
    let code = dlpack_type(t.code, t.bits);
    let rank = usize::try_from(t.ndim).ok()?;
    if rank > 0 {
        // SAFETY: the tensor holds `ndim` extents, and as many strides if any.
        unsafe {
            dims.extend_from_slice(std::slice::from_raw_parts(t.shape, rank));
            if t.strides.is_null() {
                let start = dims.len() - rank;
                let mut step = 1;
                let mut strides: smallvec::SmallVec<[i64; 8]> = smallvec::smallvec![1; rank];
                for d in (0..rank).rev() {
                    strides[d] = step;
                    step *= dims[start + d].max(1);
                }
                dims.extend(strides);
            } else {
                dims.extend_from_slice(std::slice::from_raw_parts(t.strides, rank));
            }
        }
    }
    let data = t.data.cast::<u8>().wrapping_add(t.byte_offset as usize).cast();
    Some(Told { data, code, bytes: i64::from(t.bits).div_euclid(8), rank, place })
}

/// Our code for an element type of DLPack; one that no kernel has for all others.
fn dlpack_type(code: u8, bits: u8) -> u32 {
    match (code, bits) {
        (0, 8) => dtype::I8,
        (0, 16) => dtype::I16,
        (0, 32) => dtype::I32,
        (0, 64) => dtype::I64,
        (1, 8) => dtype::U8,
        (1, 16) => dtype::U16,
        (1, 32) => dtype::U32,
        (1, 64) => dtype::U64,
        (2, 16) => dtype::F16,
        (2, 32) => dtype::F32,
        (2, 64) => dtype::F64,
        (4, 16) => dtype::BF16,
        (5, 64) => dtype::C64,
        (5, 128) => dtype::C128,
        (6, 8) => dtype::BOOL,
        _ => u32::MAX,
    }
}

/// The same, by the tensor's own methods.
fn told(object: &Bound<'_, PyAny>, dims: &mut Dims) -> Option<Told> {
    let py = object.py();
    let mut found = || -> PyResult<Option<Told>> {
        let place = if object.getattr(intern!(py, "is_cpu"))?.is_truthy()? {
            Place::Host
        } else if object.getattr(intern!(py, "is_cuda"))?.is_truthy()? {
            Place::Cuda(object.call_method0(intern!(py, "get_device"))?.extract()?)
        } else {
            return Ok(None);
        };
        let strided = object.getattr(intern!(py, "layout"))?.str()? == "torch.strided";
        if !strided {
            return Ok(None);
        }
        let name = object.getattr(intern!(py, "dtype"))?.str()?.to_string();
        let name = name.trim_start_matches("torch.");
        let code = DTYPES.iter().find(|d| d.1 == name).map_or(u32::MAX, |d| d.0);
        let bytes: i64 = object.call_method0(intern!(py, "element_size"))?.extract()?;
        let shape: smallvec::SmallVec<[i64; 8]> = object.getattr(intern!(py, "shape"))?.extract()?;
        let strides: smallvec::SmallVec<[i64; 8]> = object.call_method0(intern!(py, "stride"))?.extract()?;
        let data: usize = object.call_method0(intern!(py, "data_ptr"))?.extract()?;
        let rank = shape.len();
        dims.extend(shape);
        dims.extend(strides);
        Ok(Some(Told { data: std::ptr::with_exposed_provenance_mut(data), code, bytes, rank, place }))
    };
    found().ok().flatten()
}

/// The class of JAX's arrays, once one was seen.
static JAX_ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Whether an object is an array of JAX with elements; false before [`of_jax`] has seen the first one.
pub fn is_jax_array(object: &Bound<'_, PyAny>) -> bool {
    JAX_ARRAY.get(object.py()).is_some_and(|t| t.as_ptr() == object.get_type_ptr().cast())
}

/// Whether an object belongs to JAX: one of its arrays, or what stands for one while a function is traced.
pub fn of_jax(object: &Bound<'_, PyAny>) -> bool {
    let py = object.py();
    if is_jax_array(object) {
        return true;
    }
    let ty = object.get_type();
    let Ok(module) = ty.getattr(intern!(py, "__module__")) else { return false };
    let Ok(name) = module.extract::<std::borrow::Cow<'_, str>>() else { return false };
    if !(name.starts_with("jaxlib") || name.starts_with("jax.") || name == "jax") {
        return false;
    }
    let array = || py.import("sys")?.getattr("modules")?.get_item("jax")?.getattr("Array");
    let found = array().and_then(|a| object.is_instance(&a)).unwrap_or(false);
    if found && ty.name().is_ok_and(|n| n == "ArrayImpl") {
        let _ = JAX_ARRAY.set(py, ty.unbind());
    }
    found
}
