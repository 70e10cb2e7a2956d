//! Arrays of numpy as arguments of kernels, without copies.

use crate::signature::Param;
use lathe::ir::{Mode, Scalar, Type};
use lathe_abi::dtype;
use numpy::npyffi::{self, PY_ARRAY_API, PyArrayObject, flags};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

/// Type numbers of numpy that do not depend on the platform (`int64` is `long` on Linux).
mod number {
    pub const BOOL: i32 = 0;
    /// The last of numbers, in single to extended precision, real and complex.
    pub const LAST: i32 = 16;
    pub const VOID: i32 = 20;
    pub const HALF: i32 = 23;
    /// Types that packages register, `bfloat16` among them.
    pub const USER: i32 = 256;
}

/// What a call reads off an array. Extents and strides are the caller's copies.
#[derive(Clone, Copy)]
pub struct Read {
    pub data: *mut std::ffi::c_void,
    pub dtype: u32,
    pub place: Place,
}

/// In whose memory an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Host,
    /// That of the CUDA device of this number.
    Cuda(i32),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Host => f.write_str("the host's memory"),
            Place::Cuda(n) => write!(f, "the memory of cuda:{n}"),
        }
    }
}

/// Whether kernels of devices take an array of these extents and strides as it is.
pub fn fits_device(data: *mut std::ffi::c_void, shape: &[i64], strides: &[i64]) -> Result<(), Problem> {
    if shape.contains(&0) {
        return Ok(());
    }
    if !lathe_abi::is_dense(shape, strides) {
        return Err(Problem::Gaps);
    }
    let aligned = (data as usize).is_multiple_of(lathe_abi::DEVICE_ALIGNMENT);
    if aligned { Ok(()) } else { Err(Problem::Unaligned) }
}

/// Extents, then strides, of each array of a call.
pub type Dims = smallvec::SmallVec<[i64; 48]>;

/// Why an array cannot be used as it is; the words that a message needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Not an array of numpy at all.
    NotAnArray,
    Subclass,
    Dtype,
    Swapped,
    Misaligned,
    OddStrides,
    Rank,
    ReadOnly,
    /// A tensor of PyTorch that is to be negated when it is read.
    Negated,
    /// A tensor of PyTorch that is to be conjugated when it is read.
    Conjugated,
    /// On a device, not in row-major order without gaps.
    Gaps,
    /// On a device, not at a multiple of what kernels access at once.
    Unaligned,
}

/// The object as an array, if its type is exactly numpy's.
#[inline]
fn exact(py: Python<'_>, object: *mut ffi::PyObject) -> bool {
    // SAFETY: a living object; the interpreter is attached.
    unsafe { npyffi::PyArray_CheckExact(py, object) != 0 }
}

/// The ABI's code of a numpy type; `None` for those that no kernel has.
#[inline]
fn code(py: Python<'_>, number: i32, kind: u8, bytes: i64) -> Option<u32> {
    Some(match number {
        number::BOOL => dtype::BOOL,
        number::HALF => dtype::F16,
        number::VOID => dtype::AGGREGATE,
        n if n >= number::USER => return (n == bfloat16(py)?).then_some(dtype::BF16),
        _ => match (kind, bytes) {
            (b'f', 4) => dtype::F32,
            (b'f', 8) => dtype::F64,
            (b'c', 8) => dtype::C64,
            (b'c', 16) => dtype::C128,
            (b'i', 1) => dtype::I8,
            (b'i', 2) => dtype::I16,
            (b'i', 4) => dtype::I32,
            (b'i', 8) => dtype::I64,
            (b'u', 1) => dtype::U8,
            (b'u', 2) => dtype::U16,
            (b'u', 4) => dtype::U32,
            (b'u', 8) => dtype::U64,
            _ => return None,
        },
    })
}

/// The type number of `ml_dtypes.bfloat16`, if that package is loaded.
fn bfloat16(py: Python<'_>) -> Option<i32> {
    static NUMBER: PyOnceLock<i32> = PyOnceLock::new();
    if let Some(n) = NUMBER.get(py) {
        return Some(*n);
    }
    let found = || -> PyResult<i32> {
        let ty = py.import("sys")?.getattr("modules")?.get_item("ml_dtypes")?.getattr("bfloat16")?;
        py.import("numpy")?.call_method1("dtype", (ty,))?.getattr("num")?.extract()
    };
    let n = found().ok()?;
    let _ = NUMBER.set(py, n);
    Some(n)
}

/// Reads an array: `dims` gets the extents, then the strides in elements.
///
/// # Safety
/// `object` is a living object.
#[inline]
pub unsafe fn read(
    py: Python<'_>,
    object: *mut ffi::PyObject,
    param: &Param,
    dims: &mut Dims,
) -> Result<Read, Problem> {
    if !exact(py, object) {
        // SAFETY: a living object.
        let subclass = unsafe { npyffi::PyArray_Check(py, object) != 0 };
        return Err(if subclass { Problem::Subclass } else { Problem::NotAnArray });
    }
    // SAFETY: an array, whose fields are as numpy lays them out; the interpreter's lock is held, so nobody changes them.
    unsafe {
        let a = &(*object.cast::<PyArrayObject>()).fields;
        let d = &(*a.descr).fields;
        let bytes = npyffi::PyDataType_ELSIZE(py, a.descr) as i64;
        let Some(found) = code(py, d.type_num, d.kind as u8, bytes) else { return Err(Problem::Dtype) };
        let same = found == param.dtype || (param.is_index() && found == dtype::I64);
        if !same || bytes != param.bytes {
            return Err(Problem::Dtype);
        }
        if d.byteorder as u8 == b'>' {
            return Err(Problem::Swapped);
        }
        if a.flags & flags::NPY_ARRAY_ALIGNED == 0 {
            return Err(Problem::Misaligned);
        }
        let rank = a.nd as usize;
        if rank != param.rank {
            return Err(Problem::Rank);
        }
        if param.mode != Mode::In && a.flags & flags::NPY_ARRAY_WRITEABLE == 0 {
            return Err(Problem::ReadOnly);
        }
        for i in 0..rank {
            dims.push(*a.dimensions.add(i) as i64);
        }
        let mut odd = false;
        for i in 0..rank {
            let s = *a.strides.add(i) as i64;
            // Almost always a power of two.
            let steps =
                if bytes & (bytes - 1) == 0 { s >> bytes.trailing_zeros() } else { s.div_euclid(bytes) };
            // Along at most one element the stride plays no part.
            odd |= steps * bytes != s && *a.dimensions.add(i) > 1;
            dims.push(steps);
        }
        if odd {
            dims.truncate(dims.len() - 2 * rank);
            return Err(Problem::OddStrides);
        }
        Ok(Read { data: a.data.cast(), dtype: param.dtype, place: Place::Host })
    }
}

/// A new array for a result, in row-major order, with unspecified elements.
pub fn new<'py>(
    py: Python<'py>,
    descr: &Bound<'py, PyAny>,
    shape: &mut [i64],
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the description is one of numpy's, whose reference this call takes over; the shape has as many entries
    // as it says.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            descr.clone().into_ptr().cast(),
            shape.len() as i32,
            shape.as_mut_ptr().cast(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, array).map_err(|e| no_array(py, &e))
    }
}

/// The exception for an array that numpy does not make: there is not enough memory, or it would be too large.
fn no_array(py: Python<'_>, e: &PyErr) -> PyErr {
    let d = lathe::Diagnostic::error(lathe::runtime_codes::NO_MEMORY, "no memory for a result");
    crate::errors::bare(py, d.note(e.value(py).to_string()))
}

/// A view of an array with other extents and strides (in bytes). That it stays within the array is the caller's part:
/// this is for the package itself.
#[pyfunction]
pub fn strided<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    mut shape: smallvec::SmallVec<[isize; 8]>,
    mut strides: smallvec::SmallVec<[isize; 8]>,
) -> PyResult<Bound<'py, PyAny>> {
    let object = array.as_ptr();
    // SAFETY: a living object.
    if unsafe { npyffi::PyArray_Check(py, object) } == 0 || shape.len() != strides.len() {
        return Err(pyo3::exceptions::PyTypeError::new_err("an array, with as many strides as extents"));
    }
    // SAFETY: an array. The view takes over a reference to the description and one to the array.
    unsafe {
        let a = &(*object.cast::<PyArrayObject>()).fields;
        ffi::Py_INCREF(a.descr.cast());
        let view = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            a.descr,
            shape.len() as i32,
            shape.as_mut_ptr().cast(),
            strides.as_mut_ptr().cast(),
            a.data.cast(),
            a.flags & flags::NPY_ARRAY_WRITEABLE,
            std::ptr::null_mut(),
        );
        let view = Bound::from_owned_ptr_or_err(py, view)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, view.as_ptr().cast(), array.clone().into_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(view)
    }
}

/// How arrays lie, as a key: type, byte order, alignment, extents and strides of each. `None` if one of them is not
/// exactly an array of numpy, or of a type that its number does not tell (structs, dates, texts). The first argument
/// is not an array.
#[pyfunction]
pub fn lying<'py>(py: Python<'py>, args: &Bound<'py, PyTuple>) -> Option<Bound<'py, PyBytes>> {
    let mut key: smallvec::SmallVec<[i64; 64]> = smallvec::SmallVec::new();
    for object in args.iter_borrowed().skip(1) {
        if !exact(py, object.as_ptr()) {
            return None;
        }
        // SAFETY: an array, whose fields are as numpy lays them out; the interpreter's lock is held.
        unsafe {
            let a = &(*object.as_ptr().cast::<PyArrayObject>()).fields;
            let d = &(*a.descr).fields;
            let plain =
                d.type_num <= number::LAST || d.type_num == number::HALF || d.type_num >= number::USER;
            if !plain {
                return None;
            }
            let aligned = i64::from(a.flags & flags::NPY_ARRAY_ALIGNED != 0);
            key.push(
                i64::from(d.type_num) << 24
                    | i64::from(d.byteorder as u8) << 16
                    | aligned << 8
                    | i64::from(a.nd as u8),
            );
            for i in 0..a.nd as usize {
                key.push(*a.dimensions.add(i) as i64);
                key.push(*a.strides.add(i) as i64);
            }
        }
    }
    // SAFETY: initialized numbers, read as their bytes.
    let bytes = unsafe { std::slice::from_raw_parts(key.as_ptr().cast::<u8>(), size_of_val(key.as_slice())) };
    Some(PyBytes::new(py, bytes))
}

/// numpy's description of an element type. Struct types become structured types of the same layout.
///
/// # Errors
/// Without `ml_dtypes` there is no `bfloat16`.
pub fn descr<'py>(py: Python<'py>, ty: &Type) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    let plain = |name: &str| numpy.call_method1("dtype", (name,));
    if let Some(part) = ty.complex_part() {
        return plain(if part == Scalar::F32 { "complex64" } else { "complex128" });
    }
    let Some(s) = ty.scalar() else {
        let (names, formats) = (PyList::empty(py), PyList::empty(py));
        let fields: Vec<String> = match ty {
            Type::Struct(s) => s.fields.iter().map(|f| f.0.to_string()).collect(),
            _ => (0..ty.fields().len()).map(|i| format!("f{i}")).collect(),
        };
        for (name, field) in fields.into_iter().zip(ty.fields()) {
            names.append(name)?;
            formats.append(descr(py, &field)?)?;
        }
        let spec = PyDict::new(py);
        spec.set_item("names", names)?;
        spec.set_item("formats", formats)?;
        spec.set_item("offsets", ty.offsets())?;
        spec.set_item("itemsize", ty.bytes())?;
        return numpy.call_method1("dtype", (spec,));
    };
    match s {
        Scalar::Bool => plain("bool"),
        Scalar::Index => plain("int64"),
        Scalar::Bf16 => {
            let ty = py.import("ml_dtypes").and_then(|m| m.getattr("bfloat16"));
            let ty = ty.map_err(|_| {
                let text = "arrays of bf16 need the package `ml_dtypes`";
                let d = lathe::Diagnostic::error(lathe::codes::UNAVAILABLE, text);
                crate::errors::bare(py, d.help("pip install ml_dtypes"))
            })?;
            numpy.call_method1("dtype", (ty,))
        }
        Scalar::F16 => plain("float16"),
        Scalar::F32 => plain("float32"),
        Scalar::F64 => plain("float64"),
        Scalar::I8 => plain("int8"),
        Scalar::I16 => plain("int16"),
        Scalar::I32 => plain("int32"),
        Scalar::I64 => plain("int64"),
        Scalar::U8 => plain("uint8"),
        Scalar::U16 => plain("uint16"),
        Scalar::U32 => plain("uint32"),
        Scalar::U64 => plain("uint64"),
    }
}

/// The bits of a scalar argument, in the low bytes.
///
/// # Errors
/// `TypeError` for what is not a number of this kind, `OverflowError` for what does not fit.
pub fn scalar(py: Python<'_>, object: &Bound<'_, PyAny>, ty: Scalar) -> PyResult<u64> {
    let overflow = || pyo3::exceptions::PyOverflowError::new_err(format!("it does not fit {ty}"));
    if ty.is_float() {
        // SAFETY: a living object; an error is fetched right away.
        let v = unsafe { ffi::PyFloat_AsDouble(object.as_ptr()) };
        if v == -1.0
            && let Some(e) = PyErr::take(py)
        {
            return Err(e);
        }
        let lost = |narrow: f64| v.is_finite() && !narrow.is_finite();
        return match ty {
            Scalar::F64 => Ok(v.to_bits()),
            Scalar::F32 if !lost(f64::from(v as f32)) => Ok(u64::from((v as f32).to_bits())),
            Scalar::F16 if !lost(half::f16::from_f64(v).to_f64()) => {
                Ok(u64::from(half::f16::from_f64(v).to_bits()))
            }
            Scalar::Bf16 if !lost(half::bf16::from_f64(v).to_f64()) => {
                Ok(u64::from(half::bf16::from_f64(v).to_bits()))
            }
            _ => Err(overflow()),
        };
    }
    if ty == Scalar::Bool {
        // An array of no dimension gives its element.
        let array = object.cast::<numpy::PyArray0<bool>>().ok().map(|a| a.call_method0("item"));
        let found = array.transpose()?.as_ref().unwrap_or(object).extract::<bool>();
        return found.map(u64::from).map_err(|_| pyo3::exceptions::PyTypeError::new_err("a bool is needed"));
    }
    // SAFETY: a living object; a new reference or an error.
    let whole = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyNumber_Index(object.as_ptr()))? };
    let bits = ty.bits();
    if ty.is_signed() {
        let v: i64 = whole.extract().map_err(|_| overflow())?;
        let fits = bits == 64 || (-(1i64 << (bits - 1))..1i64 << (bits - 1)).contains(&v);
        return if fits { Ok(v as u64) } else { Err(overflow()) };
    }
    let v: u64 = whole.extract().map_err(|_| overflow())?;
    if bits == 64 || v < 1u64 << bits { Ok(v) } else { Err(overflow()) }
}
