//! Arguments of a call: numbers, arrays and tensors as the kernel sees them, used in place or copied where the call allows it.

use super::{Call, HandsOn, Slot, Stop};
use crate::arrays::{self, Problem, Read};
use crate::device::Part;
use crate::interface;
use crate::refusals::{argument_error, reason, refused, wrong_count};
use crate::signature::Param;
use crate::tensors::{self, Torch, Trouble};
use lathe::ir::Mode;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyFloat, PyInt, PyTuple};
use smallvec::SmallVec;

impl<'py> Call<'py, '_> {
    /// Takes what was read of an array, whose extents begin at `start`.
    pub(super) fn take(&mut self, at: usize, r: Read, start: usize) -> PyResult<()> {
        self.slots[at] = Slot { data: r.data, dtype: r.dtype, at: start };
        match self.place {
            None => self.place = Some(r.place),
            Some(p) if p == r.place => {}
            Some(p) => {
                let name = &self.kernel.signature.params[at].name;
                let text = format!("`{name}` is in {}, but an argument before it in {p}", r.place);
                let help = "a call's arrays are all in one place: tensor.to(device), tensor.cpu()";
                return Err(argument_error(self.py, lathe::codes::DEVICE, text, &[], Some(help)));
            }
        }
        Ok(())
    }

    /// Takes an argument for a parameter.
    pub(super) fn input(&mut self, at: usize, object: &Bound<'py, PyAny>) -> Result<(), Stop> {
        let param = &self.kernel.signature.params[at];
        if let Some(ty) = param.scalar {
            if !(object.is_exact_instance_of::<PyFloat>() || object.is_exact_instance_of::<PyInt>()) {
                self.traced(param, object)?;
            }
            let v = arrays::scalar(self.py, object, ty).map_err(|e| bad_number(param, object, &e))?;
            // Numbers lie in the low bytes.
            self.values[at] = v;
            self.slots[at] = Slot { data: std::ptr::null_mut(), dtype: param.dtype, at: 0 };
            return Ok(());
        }
        let start = self.dims.len();
        if let Some(number) = self.complex_number(param, object)? {
            self.keep.push(number.clone());
            return self.input(at, &number);
        }
        // SAFETY: a living object.
        let read = unsafe { arrays::read(self.py, object.as_ptr(), param, &mut self.dims) };
        let problem = match read {
            Ok(r) if param.dtype != lathe_abi::dtype::AGGREGATE => return Ok(self.take(at, r, start)?),
            Ok(r) => {
                let same = object.getattr("dtype")?.eq(arrays::descr(self.py, &param.ty)?)?;
                if same {
                    return Ok(self.take(at, r, start)?);
                }
                self.dims.truncate(start);
                Problem::Dtype
            }
            Err(p) => {
                self.dims.truncate(start);
                if p == Problem::NotAnArray {
                    if self.hands_on != HandsOn::Nobody && object.is_instance_of::<Part>() {
                        return Err(Stop::Buffers);
                    }
                    if self.hands_on == HandsOn::Anybody && tensors::is_jax_array(object) {
                        return Err(Stop::Jax);
                    }
                    if let Some(torch) = tensors::of(object) {
                        return self.tensor(torch, at, object);
                    }
                    if self.hands_on == HandsOn::Anybody && tensors::of_jax(object) {
                        return Err(Stop::Jax);
                    }
                    if let Some(found) = interface::read(object, param, &mut self.dims)? {
                        return self.on_a_device(at, object, found, start);
                    }
                }
                p
            }
        };
        let array = self.adapted(param, object, problem)?;
        let start = self.dims.len();
        // SAFETY: as above.
        match unsafe { arrays::read(self.py, array.as_ptr(), param, &mut self.dims) } {
            Ok(r) => {
                self.keep.push(array);
                Ok(self.take(at, r, start)?)
            }
            Err(p) => {
                self.dims.truncate(start);
                Err(refused(self.py, &self.kernel.name, param, &array, p).into())
            }
        }
    }

    /// A number of Python, or numpy's of the parameter's type or of its parts, as the array that stands for a complex
    /// number; `None` for all other parameters and arguments.
    fn complex_number(
        &self,
        param: &Param,
        object: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyAny>>, Stop> {
        use lathe_abi::dtype;
        if !matches!(param.dtype, dtype::C64 | dtype::C128) || param.rank > 0 || param.mode != Mode::In {
            return Ok(None);
        }
        let numpy = || self.py.import(intern!(self.py, "numpy"))?.getattr(intern!(self.py, "generic"));
        let number = object.is_instance_of::<PyComplex>()
            || object.is_instance_of::<PyFloat>()
            || object.is_instance_of::<PyInt>()
            || object.is_instance(&numpy()?)?;
        if !number {
            return Ok(None);
        }
        let interop = self.py.import(intern!(self.py, "lathe._interop"))?;
        let descr = arrays::descr(self.py, &param.ty)?;
        let made = interop.call_method1(intern!(self.py, "complex_number"), (object, descr, &param.name))?;
        Ok(Some(made))
    }

    /// Takes an array of another package on a device.
    pub(super) fn on_a_device(
        &mut self,
        at: usize,
        object: &Bound<'py, PyAny>,
        found: Result<Read, Problem>,
        start: usize,
    ) -> Result<(), Stop> {
        let param = &self.kernel.signature.params[at];
        if self.torch.is_none() {
            self.foreign.get_or_insert_with(|| object.clone());
        }
        match found {
            Ok(r) => Ok(self.take(at, r, start)?),
            Err(p @ (Problem::Gaps | Problem::Unaligned)) if self.copy && param.mode == Mode::In => {
                let interop = self.py.import(intern!(self.py, "lathe._interop"))?;
                let copy = interop
                    .call_method1(intern!(self.py, "tensor_copy"), (object, &param.name, reason(p)))?;
                self.keep.push(copy.clone());
                self.input(at, &copy)
            }
            Err(p) => Err(refused(self.py, &self.kernel.name, param, object, p).into()),
        }
    }

    /// A number that is not a Python number: one that is traced, or that has a gradient, is not looked into here.
    pub(super) fn traced(&mut self, param: &Param, object: &Bound<'py, PyAny>) -> Result<(), Stop> {
        if let Some(torch) = tensors::of(object) {
            if !self.quiet(torch)? {
                return Err(Stop::Torch);
            }
            return torch.number(object, param).map_err(Stop::Raise);
        }
        if self.hands_on == HandsOn::Anybody && tensors::of_jax(object) {
            return Err(Stop::Jax);
        }
        Ok(())
    }

    pub(super) fn quiet(&mut self, torch: &Torch) -> PyResult<bool> {
        if let Some(q) = self.quiet {
            return Ok(q);
        }
        let q = torch.quiet(self.py)?;
        self.quiet = Some(q);
        Ok(q)
    }

    /// Takes a tensor of PyTorch for a parameter.
    pub(super) fn tensor(
        &mut self,
        torch: &'static Torch,
        at: usize,
        object: &Bound<'py, PyAny>,
    ) -> Result<(), Stop> {
        let param = &self.kernel.signature.params[at];
        if !self.quiet(torch)? {
            return Err(Stop::Torch);
        }
        if self.foreign.is_none() {
            self.torch = Some(torch);
        }
        let start = self.dims.len();
        match torch.read(object, param, &mut self.dims) {
            Ok(r) => {
                if param.mode != Mode::In {
                    self.changed.push(object.clone());
                }
                Ok(self.take(at, r, start)?)
            }
            Err(Trouble::Operator) => Err(Stop::Torch),
            Err(Trouble::Raise(e)) => Err(Stop::Raise(e)),
            Err(Trouble::Problem(p @ (Problem::Negated | Problem::Conjugated))) if param.mode == Mode::In => {
                let method = if p == Problem::Negated {
                    intern!(self.py, "resolve_neg")
                } else {
                    intern!(self.py, "resolve_conj")
                };
                let negated = object.call_method0(method)?;
                let done = self.tensor(torch, at, &negated);
                self.keep.push(negated);
                done
            }
            Err(Trouble::Problem(p @ (Problem::Misaligned | Problem::Gaps | Problem::Unaligned)))
                if self.copy && param.mode == Mode::In =>
            {
                let interop = self.py.import(intern!(self.py, "lathe._interop"))?;
                let why = reason(p);
                let copy =
                    interop.call_method1(intern!(self.py, "tensor_copy"), (object, &param.name, why))?;
                let done = self.tensor(torch, at, &copy);
                self.keep.push(copy);
                done
            }
            Err(Trouble::Problem(p)) => Err(refused(self.py, &self.kernel.name, param, object, p).into()),
        }
    }

    /// Takes a tensor that was made for a result.
    pub(super) fn tensor_made(
        &mut self,
        torch: &Torch,
        at: usize,
        object: &Bound<'py, PyAny>,
    ) -> Result<(), Stop> {
        let param = &self.kernel.signature.params[at];
        let start = self.dims.len();
        match torch.read(object, param, &mut self.dims) {
            Ok(r) => Ok(self.take(at, r, start)?),
            // Of an element type that PyTorch does not have.
            Err(_) => self.input(at, object),
        }
    }

    /// An array of numpy for an object that cannot be used as it is, if there is one.
    pub(super) fn adapted(
        &mut self,
        param: &Param,
        object: &Bound<'py, PyAny>,
        problem: Problem,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let interop = py.import(intern!(py, "lathe._interop"))?;
        match problem {
            Problem::NotAnArray => {
                // Memory of other packages is shared, never copied unasked.
                let array = interop.call_method1(intern!(py, "view"), (object, param.mode != Mode::In))?;
                if !array.is_none() {
                    if self.torch.is_none() {
                        self.foreign.get_or_insert_with(|| object.clone());
                    }
                    return self.copied(&interop, param, array);
                }
                if !self.copy || param.mode != Mode::In {
                    return Err(refused(self.py, &self.kernel.name, param, object, problem));
                }
            }
            Problem::Subclass => {
                let array = interop.call_method1(intern!(py, "plain"), (object,))?;
                if array.is_none() {
                    return Err(refused(self.py, &self.kernel.name, param, object, problem));
                }
                return self.copied(&interop, param, array);
            }
            Problem::Swapped | Problem::Misaligned | Problem::OddStrides
                if self.copy && param.mode == Mode::In => {}
            _ => return Err(refused(self.py, &self.kernel.name, param, object, problem)),
        }
        self.copied(&interop, param, object.clone())
    }

    /// The array itself where it can be used, else a copy if the call allows one; a warning says so.
    pub(super) fn copied(
        &self,
        interop: &Bound<'py, PyAny>,
        param: &Param,
        array: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut dims = SmallVec::new();
        // SAFETY: a living object.
        let problem = match unsafe { arrays::read(self.py, array.as_ptr(), param, &mut dims) } {
            Ok(_) => return Ok(array),
            Err(p) => p,
        };
        let curable = matches!(
            problem,
            Problem::Swapped | Problem::Misaligned | Problem::OddStrides | Problem::NotAnArray
        );
        if !(self.copy && curable && param.mode == Mode::In) {
            return Err(refused(self.py, &self.kernel.name, param, &array, problem));
        }
        let descr = arrays::descr(self.py, &param.ty)?;
        let why = reason(problem);
        interop.call_method1(intern!(self.py, "copy"), (array, descr, &param.name, why))
    }

    /// Positional arguments, those given by name, and defaults.
    pub(super) fn named(
        &mut self,
        args: &Bound<'py, PyTuple>,
        named: &[(usize, Bound<'py, PyAny>)],
    ) -> Result<(), Stop> {
        let inputs = &self.kernel.signature.inputs;
        let given = args.len() + named.len();
        if given > inputs.len() || given < inputs.len() && !self.kernel.has_defaults() {
            return Err(wrong_count(self.py, self.kernel, given).into());
        }
        for (i, at) in inputs.iter().enumerate() {
            let positional = (i < args.len()).then(|| args.get_item(i)).transpose()?;
            let by_name = named.iter().find(|n| n.0 == *at).map(|n| n.1.clone());
            let object = match (positional, by_name) {
                (Some(o), None) | (None, Some(o)) => Some(o),
                (None, None) => self.kernel.default_of(self.py, *at),
                (Some(_), Some(_)) => None,
            };
            let Some(object) = object else {
                let name = &self.kernel.signature.params[*at].name;
                let what = if i < args.len() { "is given twice" } else { "is missing" };
                let text = format!("the argument `{name}` of `{}` {what}", self.kernel.name);
                let code = lathe::runtime_codes::ARGUMENT_COUNT;
                return Err(argument_error(self.py, code, text, &[], None).into());
            };
            self.input(*at, &object)?;
        }
        Ok(())
    }
}

/// Refuses what is not a number for a scalar parameter's type.
pub fn check_number(py: Python<'_>, param: &Param, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(ty) = param.scalar else { return Ok(()) };
    arrays::scalar(py, object, ty).map(|_| ()).map_err(|e| bad_number(param, object, &e))
}

fn bad_number(param: &Param, object: &Bound<'_, PyAny>, e: &PyErr) -> PyErr {
    let py = object.py();
    let kind = object.get_type().name().map_or_else(|_| "an object".to_string(), |n| n.to_string());
    let text =
        format!("`{}` is a number of type {}, but the argument is {kind}", param.name, param.describe());
    argument_error(py, lathe::runtime_codes::ARGUMENT_DTYPE, text, &[e.value(py).to_string()], None)
}
