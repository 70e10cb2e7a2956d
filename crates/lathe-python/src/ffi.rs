//! Kernels as foreign functions of XLA: what `jax.jit` calls without Python.
//!
//! The types follow the C header `xla/ffi/api/c_api.h` (version 0 of the interface), as far as they are used. One
//! function serves all kernels; which one is meant stands in the call's attribute `kernel`.

use crate::code::{Choice, compile};
use crate::kernel::Kernel;
use crate::pools::pool;
use crate::signature::Param;
use lathe::ir::Mode;
use lathe::{ArgView, Pool, Prepared};
use lathe_abi::dtype;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::{Arc, RwLock};

#[repr(C)]
struct Extension {
    struct_size: usize,
    kind: i32,
    next: *mut Extension,
}

#[repr(C)]
struct Version {
    struct_size: usize,
    extension: *mut Extension,
    major: i32,
    minor: i32,
}

#[repr(C)]
struct Metadata {
    struct_size: usize,
    version: Version,
    traits: u32,
    state_type: i64,
}

#[repr(C)]
struct MetadataExtension {
    base: Extension,
    metadata: *mut Metadata,
}

#[repr(C)]
struct ErrorArgs {
    struct_size: usize,
    extension: *mut Extension,
    message: *const c_char,
    code: i32,
}

#[repr(C)]
struct Api {
    struct_size: usize,
    extension: *mut Extension,
    version: Version,
    internal: *const c_void,
    error: unsafe extern "C" fn(*mut ErrorArgs) -> *mut c_void,
}

#[repr(C)]
struct Buffer {
    struct_size: usize,
    extension: *mut Extension,
    dtype: i32,
    data: *mut c_void,
    rank: i64,
    dims: *const i64,
}

/// `XLA_FFI_Args` and `XLA_FFI_Rets`.
#[repr(C)]
struct Buffers {
    struct_size: usize,
    extension: *mut Extension,
    size: i64,
    types: *const i32,
    all: *const *const Buffer,
}

#[repr(C)]
struct Span {
    text: *const c_char,
    length: usize,
}

#[repr(C)]
struct Scalar {
    dtype: i32,
    value: *const c_void,
}

#[repr(C)]
struct Attributes {
    struct_size: usize,
    extension: *mut Extension,
    size: i64,
    types: *const i32,
    names: *const *const Span,
    all: *const *const c_void,
}

#[repr(C)]
struct Frame {
    struct_size: usize,
    extension: *mut Extension,
    api: *const Api,
    context: *mut c_void,
    stage: i32,
    args: Buffers,
    results: Buffers,
    attributes: Attributes,
}

/// The major version of the interface, and the oldest minor one that has all that is used.
const VERSION: (i32, i32) = (0, 1);
const METADATA: i32 = 1;
const EXECUTE: i32 = 3;
const SCALAR: i32 = 3;
const S64: i32 = 5;
const INVALID_ARGUMENT: i32 = 3;

/// The interface's code of an element type, by ours.
fn xla_type(code: u32) -> Option<i32> {
    Some(match code {
        dtype::BOOL => 1,
        dtype::I8 => 2,
        dtype::I16 => 3,
        dtype::I32 => 4,
        dtype::I64 | dtype::INDEX => S64,
        dtype::U8 => 6,
        dtype::U16 => 7,
        dtype::U32 => 8,
        dtype::U64 => 9,
        dtype::F16 => 10,
        dtype::F32 => 11,
        dtype::F64 => 12,
        dtype::BF16 => 16,
        _ => return None,
    })
}

/// A parameter, as a call of XLA must match it.
struct Slot {
    name: String,
    dtype: u32,
    xla: i32,
    bytes: u64,
    rank: usize,
    written: bool,
}

/// A kernel that XLA may call. It is never given back, since compiled programs hold its number.
struct Entry {
    slots: Vec<Slot>,
    code: Arc<Prepared>,
    pool: &'static Pool,
}

static ENTRIES: RwLock<Vec<&'static Entry>> = RwLock::new(Vec::new());

/// Compiles a kernel for XLA and returns its number.
#[pyfunction]
#[pyo3(signature = (kernel, how, threads=None))]
pub fn ffi_register(py: Python<'_>, kernel: &Kernel, how: Choice, threads: Option<usize>) -> PyResult<i64> {
    let slot = |p: &Param| -> PyResult<Slot> {
        let refused = |why: &str| PyValueError::new_err(format!("`{}` {why}", p.name));
        if p.mode == Mode::InOut {
            return Err(refused("is changed in place, which operators of JAX do not do"));
        }
        let xla = xla_type(p.dtype).ok_or_else(|| refused("has elements that JAX does not have"))?;
        let written = p.mode != Mode::In;
        Ok(Slot { name: p.name.clone(), dtype: p.dtype, xla, bytes: p.bytes as u64, rank: p.rank, written })
    };
    let slots = kernel.signature.params.iter().map(slot).collect::<PyResult<_>>()?;
    let code = compile(py, kernel, &how, false)?;
    let entry: &'static Entry = Box::leak(Box::new(Entry { slots, code, pool: pool(py, threads)? }));
    let mut all = ENTRIES.write().unwrap_or_else(|p| p.into_inner());
    all.push(entry);
    Ok(all.len() as i64 - 1)
}

/// The function itself, as `jax.ffi.register_ffi_target` takes it.
#[pyfunction]
pub fn ffi_capsule(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
    const NAME: &CStr = c"xla._CUSTOM_CALL_TARGET";
    let function = std::ptr::NonNull::new(handler as *mut c_void);
    let function = function.ok_or_else(|| PyValueError::new_err("a function has no address"))?;
    // SAFETY: a function lives as long as the process.
    unsafe { PyCapsule::new_with_pointer(py, function, NAME) }
}

/// Called by XLA at every stage of a program.
///
/// # Safety
/// `frame` is as the interface says.
unsafe extern "C" fn handler(frame: *mut Frame) -> *mut c_void {
    // SAFETY: by the caller, for all that follows.
    unsafe {
        let f = &*frame;
        if let Some(e) = f.extension.as_ref()
            && e.kind == METADATA
        {
            let m = &mut *(*f.extension.cast::<MetadataExtension>()).metadata;
            m.version = Version {
                struct_size: size_of::<Version>(),
                extension: std::ptr::null_mut(),
                major: VERSION.0,
                minor: VERSION.1,
            };
            m.traits = 0;
            if m.struct_size >= size_of::<Metadata>() {
                m.state_type = 0;
            }
            return std::ptr::null_mut();
        }
        if f.stage != EXECUTE {
            return std::ptr::null_mut();
        }
        match execute(f) {
            Ok(()) => std::ptr::null_mut(),
            Err(text) => {
                // The text is copied.
                let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
                let mut args = ErrorArgs {
                    struct_size: size_of::<ErrorArgs>(),
                    extension: std::ptr::null_mut(),
                    message: text.as_ptr(),
                    code: INVALID_ARGUMENT,
                };
                ((*f.api).error)(&mut args)
            }
        }
    }
}

/// # Safety
/// As [`handler`].
unsafe fn number(f: &Frame) -> Option<usize> {
    let a = &f.attributes;
    for i in 0..usize::try_from(a.size).ok()? {
        // SAFETY: by the caller: there are `size` of each.
        unsafe {
            let name = &**a.names.add(i);
            let name = std::slice::from_raw_parts(name.text.cast::<u8>(), name.length);
            if name == b"kernel" && *a.types.add(i) == SCALAR {
                let value = &*(*a.all.add(i)).cast::<Scalar>();
                let n = (value.dtype == S64).then(|| value.value.cast::<i64>().read_unaligned());
                return usize::try_from(n?).ok();
            }
        }
    }
    None
}

/// # Safety
/// As [`handler`].
unsafe fn execute(f: &Frame) -> Result<(), String> {
    // SAFETY: by the caller.
    let number = unsafe { number(f) };
    let entry = number.and_then(|n| ENTRIES.read().unwrap_or_else(|p| p.into_inner()).get(n).copied());
    let Some(entry) = entry else { return Err("lathe: no such kernel in this process".to_string()) };
    let (inputs, outputs): (Vec<usize>, Vec<usize>) =
        (0..entry.slots.len()).partition(|i| !entry.slots[*i].written);
    if f.args.size != inputs.len() as i64 || f.results.size != outputs.len() as i64 {
        return Err("lathe: a call with another number of arguments".to_string());
    }
    // For each parameter its buffer and strides.
    let mut found: Vec<(*const Buffer, Vec<i64>)> = vec![(std::ptr::null(), Vec::new()); entry.slots.len()];
    for (buffers, which) in [(&f.args, &inputs), (&f.results, &outputs)] {
        for (n, at) in which.iter().enumerate() {
            let slot = &entry.slots[*at];
            // SAFETY: by the caller: there are as many buffers, with as many extents.
            let (buffer, shape) = unsafe {
                let b = *buffers.all.add(n);
                let rank = usize::try_from((*b).rank).unwrap_or(0);
                (b, if rank == 0 { &[][..] } else { std::slice::from_raw_parts((*b).dims, rank) })
            };
            // SAFETY: as above.
            let given = unsafe { (*buffer).dtype };
            if given != slot.xla || shape.len() != slot.rank {
                return Err(format!(
                    "lathe: `{}` has another element type or number of dimensions",
                    slot.name
                ));
            }
            let mut strides = vec![1i64; shape.len()];
            for d in (1..shape.len()).rev() {
                strides[d - 1] = strides[d].saturating_mul(shape[d].max(1));
            }
            found[*at] = (buffer, strides);
        }
    }
    let views = entry.slots.iter().zip(&found).map(|(slot, (buffer, strides))| {
        // SAFETY: the buffers live until this call returns; XLA lets nobody else touch results meanwhile.
        unsafe {
            let raw = lathe_abi::Array {
                data: (**buffer).data,
                shape: (**buffer).dims,
                strides: strides.as_ptr(),
                dtype: slot.dtype,
                rank: slot.rank as u32,
                elem_bytes: slot.bytes,
            };
            ArgView::from_raw(raw, slot.written)
        }
    });
    let mut views: Vec<ArgView> = views.collect();
    entry.code.built.call_views(entry.pool, &mut views).map_err(|d| d.to_string())
}
