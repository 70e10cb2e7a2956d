//! What is said about arguments that cannot be used.

use crate::arrays::Problem;
use crate::errors;
use crate::kernel::Kernel;
use crate::signature::Param;
use lathe::Diagnostic;
use pyo3::prelude::*;

/// The exception for an array that cannot be used.
pub fn refused(
    py: Python<'_>,
    kernel: &str,
    param: &Param,
    object: &Bound<'_, PyAny>,
    problem: Problem,
) -> PyErr {
    use lathe::runtime_codes as codes;
    let name = &param.name;
    let ty = param.describe();
    let dtype = || object.getattr("dtype").map_or_else(|_| "something else".to_string(), |d| d.to_string());
    let numpy = numpy_name(param);
    // What is written cannot be a copy.
    let allow = if param.mode == lathe::Mode::In {
        "pass copy=True to allow a copy of this input"
    } else {
        "pass an array created by numpy: numpy.empty(…)"
    };
    let (code, text, help) = match problem {
        Problem::NotAnArray => {
            let kind = object.get_type().name().map_or_else(|_| "object".to_string(), |n| n.to_string());
            let text = format!("`{name}` is an array of {ty}, but the argument is a `{kind}`");
            (codes::ARGUMENT_DTYPE, text, format!("numpy.asarray(…, dtype={numpy})"))
        }
        Problem::Subclass => {
            let kind = object.get_type().name().map_or_else(|_| "object".to_string(), |n| n.to_string());
            let text = format!("`{name}` is a `{kind}`, which kernels do not support");
            (codes::ARGUMENT_DTYPE, text, "pass its data as a plain array".to_string())
        }
        Problem::Dtype => {
            let text = format!("`{name}` is {ty}, but the argument holds {}", dtype());
            (codes::ARGUMENT_DTYPE, text, format!("convert it first: array.astype({numpy})"))
        }
        Problem::Swapped => {
            let text = format!("`{name}` does not have the native byte order ({})", dtype());
            (codes::ARGUMENT_DTYPE, text, allow.to_string())
        }
        Problem::Misaligned => {
            let text = format!("the elements of `{name}` are not aligned to their size");
            (codes::ARGUMENT_SIZE, text, allow.to_string())
        }
        Problem::OddStrides => {
            let text = format!("the strides of `{name}` are not multiples of the element size");
            (codes::ARGUMENT_SIZE, text, allow.to_string())
        }
        Problem::Rank => {
            let given = object.getattr("ndim").map_or_else(|_| "others".to_string(), |d| d.to_string());
            let text = format!("`{name}` has {} dimensions, but the argument has {given}", param.rank);
            (codes::ARGUMENT_RANK, text, "numpy.reshape or numpy.newaxis change their number".to_string())
        }
        Problem::Negated | Problem::Conjugated => {
            let what = if problem == Problem::Negated { "negated" } else { "conjugated" };
            let text =
                format!("`{name}` is written, but is a view whose elements are {what} when they are read");
            (codes::ARGUMENT_SIZE, text, "pass the tensor that it is a view of".to_string())
        }
        Problem::Gaps => {
            let text = format!("`{name}` is on a device and not in row-major order without gaps");
            (lathe::DEVICE_ARRAY, text, dense(param))
        }
        Problem::Unaligned => {
            let text = format!("`{name}` is on a device and does not begin at a multiple of 16 bytes");
            (lathe::DEVICE_ARRAY, text, dense(param))
        }
        Problem::ReadOnly => {
            let text = format!("`{name}` is written by `{}`, but the array is read-only", kernel);
            (codes::NOT_WRITABLE, text, "pass a writable array".to_string())
        }
    };
    argument_error(py, code, text, &[], Some(&help))
}

/// What to do about an array of a device that kernels do not take as it is.
fn dense(param: &Param) -> String {
    if param.mode == lathe::Mode::In {
        "pass copy=True to allow a copy of this input, or tensor.contiguous(), tensor.clone()".to_string()
    } else {
        "pass an array of its own: torch.empty(…)".to_string()
    }
}

pub fn reason(p: Problem) -> &'static str {
    match p {
        Problem::Swapped => "it does not have the native byte order",
        Problem::Misaligned => "its elements are not aligned to their size",
        Problem::Gaps => "it is not in row-major order without gaps",
        Problem::Unaligned => "it does not begin at a multiple of 16 bytes",
        Problem::OddStrides => "its strides are not multiples of the element size",
        _ => "it is not an array",
    }
}

fn numpy_name(param: &Param) -> String {
    let name = param.ty.to_string();
    match name.as_str() {
        "f16" | "f32" | "f64" => format!("numpy.float{}", &name[1..]),
        "c64" => "numpy.complex64".to_string(),
        "c128" => "numpy.complex128".to_string(),
        "bf16" => "ml_dtypes.bfloat16".to_string(),
        "index" => "numpy.int64".to_string(),
        "bool" => "numpy.bool_".to_string(),
        _ if param.scalar.is_none() && param.dtype == lathe_abi::dtype::AGGREGATE => {
            "kernel.dtype(…)".to_string()
        }
        n if n.starts_with('i') => format!("numpy.int{}", &n[1..]),
        n => format!("numpy.uint{}", n.trim_start_matches('u')),
    }
}

pub fn wrong_count(py: Python<'_>, kernel: &Kernel, given: usize) -> PyErr {
    let names: Vec<&str> =
        kernel.signature.inputs.iter().map(|i| kernel.signature.params[*i].name.as_str()).collect();
    let text = format!("`{}` takes {} arguments, {given} were given", kernel.name, names.len());
    let help = format!("in this order: {}; results go to out=", names.join(", "));
    argument_error(py, lathe::runtime_codes::ARGUMENT_COUNT, text, &[], Some(&help))
}

pub fn argument_error(
    py: Python<'_>,
    code: lathe::Code,
    text: impl Into<String>,
    notes: &[String],
    help: Option<&str>,
) -> PyErr {
    let mut d = Diagnostic::error(code, text);
    d.notes = notes.to_vec();
    d.help = help.map(str::to_string);
    errors::bare(py, d)
}
