//! What launches are given: parts with what a kernel does with them, numbers, and how many threads run.

use super::away::Away;
use super::part::{Part, Store};
use crate::arrays;
use crate::refusals::argument_error;
use lathe::device::Argument;
use lathe::device::source::Parameter;
use lathe::ir::Scalar;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyTuple};
use std::sync::Arc;

/// A part with what a kernel does with it.
#[pyclass(frozen, module = "lathe._lathe", name = "Tagged")]
pub struct Tagged {
    pub argument: Argument,
    pub part: Py<Part>,
    // Keeps the buffer.
    _store: Arc<Away<Store>>,
}

fn tagged(py: Python<'_>, part: Py<Part>, tag: fn(lathe::device::Part) -> Argument) -> PyResult<Tagged> {
    let p = part.get();
    Ok(Tagged { argument: tag(p.plain(py)?), _store: Arc::clone(p.store()), part })
}

/// The kernel reads it.
#[pyfunction]
pub fn read(py: Python<'_>, part: Py<Part>) -> PyResult<Tagged> {
    tagged(py, part, lathe::device::read)
}

/// The kernel writes all of it: what it does not write is undefined afterwards, and what was there is not copied.
#[pyfunction]
pub fn write(py: Python<'_>, part: Py<Part>) -> PyResult<Tagged> {
    tagged(py, part, lathe::device::write)
}

/// The kernel reads it, and writes some of it.
#[pyfunction]
pub fn read_write(py: Python<'_>, part: Py<Part>) -> PyResult<Tagged> {
    tagged(py, part, lathe::device::read_write)
}

/// How many threads run.
#[pyclass(frozen, module = "lathe._lathe", name = "Grid")]
pub struct Grid {
    pub grid: lathe::device::Grid,
    text: String,
}

#[pymethods]
impl Grid {
    fn __repr__(&self) -> &str {
        &self.text
    }
}

/// One to three extents: a number, or a tuple of them.
fn extents(given: &Bound<'_, PyAny>) -> PyResult<(u32, u32, u32)> {
    let wrong =
        || crate::keywords::option(given, "extents of a grid are one to three whole numbers below 2³²");
    if given.is_instance_of::<PyInt>() {
        return given.extract::<u32>().map(|n| (n, 1, 1)).map_err(|_| wrong());
    }
    let all: Vec<u32> = given.extract().map_err(|_| wrong())?;
    match all[..] {
        [x] => Ok((x, 1, 1)),
        [x, y] => Ok((x, y, 1)),
        [x, y, z] => Ok((x, y, z)),
        _ => Err(wrong()),
    }
}

/// Blocks, and threads in each, as CUDA says it; with so many bytes of shared memory.
#[pyfunction]
#[pyo3(signature = (blocks, threads, shared=0))]
pub fn dim3(blocks: &Bound<'_, PyAny>, threads: &Bound<'_, PyAny>, shared: u32) -> PyResult<Grid> {
    let grid = lathe::device::dim3(extents(blocks)?, extents(threads)?).shared(shared);
    Ok(Grid { grid, text: format!("dim3({blocks}, {threads}, shared={shared})") })
}

/// All threads, and those of a group, as OpenCL says it; groups must divide the whole.
#[pyfunction]
#[pyo3(signature = (global_, local, shared=0))]
pub fn nd_range(global_: &Bound<'_, PyAny>, local: &Bound<'_, PyAny>, shared: u32) -> PyResult<Grid> {
    let grid = lathe::device::nd_range(extents(global_)?, extents(local)?).shared(shared);
    Ok(Grid { grid, text: format!("nd_range({global_}, {local}, shared={shared})") })
}

/// Arguments of a kernel of the user's, in order.
pub fn arguments<'py>(
    kernel: &str,
    parameters: &[Parameter],
    given: impl Iterator<Item = Borrowed<'py, 'py, PyAny>>,
) -> PyResult<Vec<Argument>> {
    let mut wanted = parameters.iter().filter(|p| !p.local);
    let mut out = Vec::with_capacity(parameters.len());
    for object in given {
        if let Ok(t) = object.cast::<Tagged>() {
            wanted.next();
            out.push(t.get().argument.clone());
            continue;
        }
        out.push(number(kernel, wanted.next(), &object)?);
    }
    Ok(out)
}

/// A number, or a short vector or struct of them, for a parameter.
fn number(kernel: &str, parameter: Option<&Parameter>, object: &Bound<'_, PyAny>) -> PyResult<Argument> {
    let py = object.py();
    let refuse =
        |text: String, help: &str| argument_error(py, lathe::device::ARGUMENTS, text, &[], Some(help));
    if object.is_instance_of::<Part>() {
        let text = format!("`{kernel}` is given a buffer without what it does with it");
        return Err(refuse(text, "read(…), write(…) or read_write(…)"));
    }
    let name = parameter.map_or("an argument", |p| p.name.as_str());
    let known = parameter.filter(|p| !p.pointer).and_then(|p| scalar(&p.ty));
    // Numbers of numpy have a type; others get that of the parameter.
    let typed = object.hasattr(intern!(py, "tobytes"))? && object.hasattr(intern!(py, "dtype"))?;
    if let Some(scalar) = known {
        let bits = arrays::scalar(py, object, scalar).map_err(|e| {
            let kind = object.get_type().name().map_or_else(|_| "an object".to_string(), |n| n.to_string());
            refuse(format!("`{name}` of `{kernel}` is {scalar}, the argument is a `{kind}`"), &e.to_string())
        })?;
        let bytes = (scalar.bits() as usize).div_ceil(8);
        return Ok(Argument::scalar(&bits.to_le_bytes()[..bytes], None));
    }
    if typed {
        let bytes = object.call_method0(intern!(py, "tobytes"))?;
        let bytes = bytes.cast::<PyBytes>()?.as_bytes();
        if bytes.len() <= 32 {
            return Ok(Argument::scalar(bytes, None));
        }
        let text = format!("`{name}` of `{kernel}` has {} bytes", bytes.len());
        return Err(refuse(text, "scalars have at most 32 bytes: pass a buffer"));
    }
    let kind = object.get_type().name().map_or_else(|_| "an object".to_string(), |n| n.to_string());
    let what = if parameter.is_some_and(|p| p.pointer) { "a buffer" } else { "of a type that is not known" };
    Err(refuse(
        format!("`{name}` of `{kernel}` is {what}, the argument is a `{kind}`"),
        "buffers as read(…), write(…), read_write(…); scalars of numpy, vectors as arrays of numpy: numpy.float32([1, 2, 3, 4])",
    ))
}

/// The scalar type that a type of CUDA C or OpenCL C is, as far as both agree.
fn scalar(ty: &str) -> Option<Scalar> {
    Some(match ty {
        "bool" => Scalar::Bool,
        "char" | "signed char" | "int8_t" => Scalar::I8,
        "short" | "short int" | "int16_t" => Scalar::I16,
        "int" | "signed" | "signed int" | "int32_t" => Scalar::I32,
        "long long" | "long long int" | "int64_t" | "long" | "long int" => Scalar::I64,
        "unsigned char" | "uchar" | "uint8_t" => Scalar::U8,
        "unsigned short" | "ushort" | "uint16_t" => Scalar::U16,
        "unsigned" | "unsigned int" | "uint" | "uint32_t" => Scalar::U32,
        "unsigned long long" | "unsigned long" | "ulong" | "size_t" | "uint64_t" => Scalar::U64,
        "half" => Scalar::F16,
        "float" => Scalar::F32,
        "double" => Scalar::F64,
        _ => return None,
    })
}

/// Buffers among arguments that are all tagged, for a call of a library.
pub fn tagged_only(name: &str, given: &Bound<'_, PyTuple>) -> PyResult<Vec<Py<Tagged>>> {
    let one = |object: Bound<'_, PyAny>| -> PyResult<Py<Tagged>> {
        object.cast::<Tagged>().map(|t| t.clone().unbind()).map_err(|_| {
            let kind = object.get_type().name().map_or_else(|_| "an object".to_string(), |n| n.to_string());
            let text = format!("`{name}` is given a `{kind}`");
            let help =
                "buffers as read(…), write(…), read_write(…); the function sees everything else itself";
            argument_error(object.py(), lathe::device::ARGUMENTS, text, &[], Some(help))
        })
    };
    given.iter().map(one).collect()
}
