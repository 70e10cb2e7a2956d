//! Kernels of Lathe on buffers: the compiler knows what they read and write.

use super::away::away;
use super::part::Part;
use crate::arrays;
use crate::code::{DeviceId, code_on};
use crate::errors;
use crate::generic;
use crate::kernel::Kernel;
use crate::keywords::{asked, option};
use crate::refusals::{argument_error, wrong_count};
use lathe::device::{Argument, Device};
use lathe::{Built, Diagnostic};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Starts a kernel, compiled for the kind of a device, with its arguments: inputs, then results, in its order. Arrays are
/// buffers. `made` is given what was started, and whether this process compiled the code.
pub fn launch<'py, L: Send>(
    device: &Device,
    kernel: &Bound<'py, Kernel>,
    given: &Bound<'py, PyTuple>,
    options: Option<&Bound<'py, PyDict>>,
    start: &(impl Fn(&Built, &[Argument]) -> Result<L, Diagnostic> + Sync),
    made: impl Fn(Python<'py>, L, bool) -> PyResult<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    generic::call(kernel, |k| {
        let (launch, new) = one(device, k, given, options, start)?;
        made(k.py(), launch, new)
    })
}

fn one<'py, L: Send>(
    device: &Device,
    kernel: &Bound<'py, Kernel>,
    given: &Bound<'py, PyTuple>,
    options: Option<&Bound<'py, PyDict>>,
    start: &(impl Fn(&Built, &[Argument]) -> Result<L, Diagnostic> + Sync),
) -> PyResult<(L, bool)> {
    let (py, kernel) = (kernel.py(), kernel.get());
    let params = &kernel.signature.params;
    if given.len() != params.len() {
        return Err(wrong_count_of_all(py, kernel, given.len()));
    }
    let mut arguments = Vec::with_capacity(params.len());
    let mut parts: Vec<Option<Bound<'py, Part>>> = Vec::with_capacity(params.len());
    for (p, object) in params.iter().zip(given.iter()) {
        if let Some(ty) = p.scalar {
            let bits = arrays::scalar(py, &object, ty).map_err(|e| {
                let text = format!("`{}` is a number of type {}", p.name, p.describe());
                let code = lathe::runtime_codes::ARGUMENT_DTYPE;
                argument_error(py, code, text, &[e.value(py).to_string()], None)
            })?;
            arguments.push(Argument::scalar(&bits.to_le_bytes()[..p.bytes as usize], Some(p.dtype)));
            parts.push(None);
            continue;
        }
        let Ok(part) = object.cast_into::<Part>() else {
            let text = format!("`{}` of `{}` is an array of a device", p.name, kernel.name);
            let help = "a buffer of the device's `Devices`, or a part of one; arrays of other packages: call the kernel";
            return Err(argument_error(py, lathe::device::ARGUMENTS, text, &[], Some(help)));
        };
        let elements = part.get().elements();
        let mut same = elements.code == p.dtype || (p.is_index() && elements.code == lathe_abi::dtype::I64);
        if same && p.dtype == lathe_abi::dtype::AGGREGATE {
            same = elements.descr.bind(py).eq(arrays::descr(py, &p.ty)?)?;
        }
        if !same {
            let descr = elements.descr.bind(py);
            let text = format!("`{}` is {}, but the argument holds {descr}", p.name, p.describe());
            return Err(argument_error(py, lathe::runtime_codes::ARGUMENT_DTYPE, text, &[], None));
        }
        arguments.push(part.get().shaped(py, p.dtype)?.into());
        parts.push(Some(part));
    }
    let choice = match options.filter(|o| !o.is_empty()) {
        None => None,
        Some(o) => {
            let asked = asked(kernel, o)?;
            let others = asked.out.is_some()
                || asked.copy
                || asked.threads.is_some()
                || asked.timeout.is_some()
                || !asked.named.is_empty();
            if others {
                return Err(option(
                    o,
                    "launches on buffers have the options strategy, params and specialize",
                ));
            }
            asked.choice
        }
    };
    let Some(id) = DeviceId::named(&device.info().id) else {
        return Err(argument_error(py, lathe::codes::DEVICE, "a device without a number", &[], None));
    };
    let shape = |p: usize| parts[p].as_ref().map_or(&[][..], |p| p.get().extents());
    let code = code_on(py, kernel, id, choice, &|i| kernel.signature.size(i, &shape))?;
    let started = away(py, || Ok(start(&code.built, &arguments)))?;
    let launch = started.map_err(|d| errors::at(py, &kernel.program.sources, d))?;
    Ok((launch, code.built.was_compiled()))
}

/// As [`wrong_count`], where results are arguments, too.
fn wrong_count_of_all(py: Python<'_>, kernel: &Kernel, given: usize) -> PyErr {
    if kernel.signature.outputs.is_empty() {
        return wrong_count(py, kernel, given);
    }
    let names: Vec<&str> = kernel.signature.params.iter().map(|p| p.name.as_str()).collect();
    let text = format!("`{}` takes {} buffers and numbers, {given} were given", kernel.name, names.len());
    let help = format!("inputs, then results: {}", names.join(", "));
    argument_error(py, lathe::runtime_codes::ARGUMENT_COUNT, text, &[], Some(&help))
}
