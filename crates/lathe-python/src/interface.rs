//! Arrays in the memory of CUDA devices that are no tensors of PyTorch (CuPy's, Numba's), by
//! `__cuda_array_interface__`, versions 2 and 3.

use crate::arrays::{Dims, Place, Problem, Read, fits_device};
use crate::signature::Param;
use lathe::Mode;
use lathe_abi::dtype;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use smallvec::SmallVec;

/// Reads an array: `dims` gets the extents, then the strides in elements. `None` for objects without the interface.
pub fn read(
    object: &Bound<'_, PyAny>,
    param: &Param,
    dims: &mut Dims,
) -> PyResult<Option<Result<Read, Problem>>> {
    let py = object.py();
    if object.is_instance_of::<PyType>() {
        return Ok(None);
    }
    let Some(told) = object.getattr_opt(intern!(py, "__cuda_array_interface__"))? else { return Ok(None) };
    let Ok(told) = told.cast_into::<PyDict>() else { return Ok(None) };
    let Some(found) = memory(&told)? else { return Ok(Some(Err(Problem::Dtype))) };
    if found.code != param.dtype && !(param.is_index() && found.code == dtype::I64) {
        return Ok(Some(Err(Problem::Dtype)));
    }
    if found.shape.len() != param.rank {
        return Ok(Some(Err(Problem::Rank)));
    }
    if found.read_only && param.mode != Mode::In {
        return Ok(Some(Err(Problem::ReadOnly)));
    }
    let data = std::ptr::with_exposed_provenance_mut(found.address);
    let Some(strides) = found.strides(param.bytes) else { return Ok(Some(Err(Problem::OddStrides))) };
    if let Err(p) = fits_device(data, &found.shape, &strides) {
        return Ok(Some(Err(p)));
    }
    dims.extend_from_slice(&found.shape);
    dims.extend(strides);
    Ok(Some(Ok(Read { data, dtype: param.dtype, place: Place::Cuda(device(object)?) })))
}

/// What the dictionary of an array says.
struct Memory {
    address: usize,
    read_only: bool,
    code: u32,
    shape: SmallVec<[i64; 8]>,
    /// In bytes; none for arrays in row-major order.
    strides: Option<SmallVec<[i64; 8]>>,
}

impl Memory {
    /// In elements, if they are whole numbers of them.
    fn strides(&self, bytes: i64) -> Option<SmallVec<[i64; 8]>> {
        if let Some(s) = &self.strides {
            let whole = |s: &i64| (s % bytes == 0).then_some(s / bytes);
            return s.iter().map(whole).collect();
        }
        let mut step = 1i64;
        let mut out: SmallVec<[i64; 8]> = SmallVec::from_elem(1, self.shape.len());
        for (s, n) in out.iter_mut().zip(&self.shape).rev() {
            *s = step;
            step = step.saturating_mul((*n).max(1));
        }
        Some(out)
    }
}

/// Reads the dictionary; `None` for masked arrays and element types that no kernel has.
fn memory(told: &Bound<'_, PyDict>) -> PyResult<Option<Memory>> {
    let get = |name: &str| Ok::<_, PyErr>(told.get_item(name)?.filter(|v| !v.is_none()));
    let (Some(data), Some(shape), Some(kind)) = (get("data")?, get("shape")?, get("typestr")?) else {
        return Ok(None);
    };
    let (address, read_only): (usize, bool) = data.extract()?;
    let Some(code) = element(&kind.extract::<String>()?).filter(|_| get("mask").is_ok_and(|m| m.is_none()))
    else {
        return Ok(None);
    };
    let strides = get("strides")?.map(|s| s.extract()).transpose()?;
    Ok(Some(Memory { address, read_only, code, shape: shape.extract()?, strides }))
}

/// Our code for an element type as numpy writes it, in the byte order of CUDA devices.
fn element(kind: &str) -> Option<u32> {
    Some(match kind {
        "|b1" => dtype::BOOL,
        "|i1" => dtype::I8,
        "<i2" => dtype::I16,
        "<i4" => dtype::I32,
        "<i8" => dtype::I64,
        "|u1" => dtype::U8,
        "<u2" => dtype::U16,
        "<u4" => dtype::U32,
        "<u8" => dtype::U64,
        "<f2" => dtype::F16,
        "<f4" => dtype::F32,
        "<f8" => dtype::F64,
        "<c8" => dtype::C64,
        "<c16" => dtype::C128,
        _ => return None,
    })
}

/// The number of the device; the interface does not have it, but DLPack does.
fn device(object: &Bound<'_, PyAny>) -> PyResult<i32> {
    let py = object.py();
    match object.getattr_opt(intern!(py, "__dlpack_device__"))? {
        Some(f) => Ok(f.call0()?.extract::<(i32, i32)>()?.1),
        None => Ok(0),
    }
}
