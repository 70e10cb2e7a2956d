//! Calls of kernels from Python.

use crate::arrays::{self, Dims, Place, Problem, Read};
use crate::code::{Choice, compile, sizes_of};
use crate::errors;
use crate::interface;
use crate::kernel::Kernel;
use crate::keywords::{Asked, asked};
use crate::pools::pool;
use crate::refusals::{argument_error, reason, refused, wrong_count};
use crate::signature::{Param, Source};
use crate::tensors::{self, Torch, Trouble};
use lathe::ir::Mode;
use lathe::{ArgView, Diagnostic, Pool, Prepared};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFloat, PyInt, PyTuple};
use smallvec::SmallVec;
use std::sync::Arc;

/// One argument as a descriptor is made of it: where its extents and strides begin.
#[derive(Clone, Copy)]
struct Slot {
    data: *mut std::ffi::c_void,
    dtype: u32,
    at: usize,
}

/// Everything of one call while it is prepared. Pointers into the vectors are taken when nothing is added any more.
struct Call<'py, 'k> {
    py: Python<'py>,
    kernel: &'k Kernel,
    /// Extents, then strides, of each array.
    dims: Dims,
    /// One for each parameter.
    slots: SmallVec<[Slot; 12]>,
    /// Values of scalar parameters.
    values: SmallVec<[u64; 12]>,
    /// What was made for this call and must live as long.
    keep: SmallVec<[Bound<'py, PyAny>; 4]>,
    copy: bool,
    /// Where all arrays are, once one was seen.
    place: Option<Place>,
    /// An input that is not an array of numpy, which decides what kind of arrays come back.
    foreign: Option<Bound<'py, PyAny>>,
    /// Set where tensors of PyTorch decide that.
    torch: Option<&'static Torch>,
    /// Whether tensors can be read here, once it was asked.
    quiet: Option<bool>,
    /// Which results the call made itself.
    made_here: SmallVec<[bool; 4]>,
    /// Tensors that the kernel changes.
    changed: SmallVec<[Bound<'py, PyAny>; 2]>,
    /// Whether operators of other packages may be called instead.
    hands_on: HandsOn,
}

/// To whose operators a call may be dispatched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HandsOn {
    Nobody,
    /// An operator of JAX returns its results and writes to no array of the caller.
    Torch,
    Anybody,
}

/// Why a call is not prepared.
pub enum Stop {
    Raise(PyErr),
    /// The operator of PyTorch, or of JAX, is what is to be called.
    Torch,
    Jax,
}

impl From<PyErr> for Stop {
    fn from(e: PyErr) -> Stop {
        Stop::Raise(e)
    }
}

/// What a call runs on.
#[derive(Clone, Copy)]
enum On {
    Host(&'static Pool),
    Stream(u64),
}

/// What runs without the interpreter's lock.
struct Work<'a, 'b> {
    code: &'a Prepared,
    /// On the host, what runs parallel loops; on a device, the stream.
    on: On,
    views: &'a mut SmallVec<[ArgView<'b>; 12]>,
}

// SAFETY: the views point to memory that the caller's arrays keep alive; a kernel may run on any thread.
unsafe impl Send for Work<'_, '_> {}

impl Work<'_, '_> {
    fn run(self) -> Result<(), Diagnostic> {
        match self.on {
            On::Host(pool) => self.code.built.call_views(pool, self.views),
            // SAFETY: arrays of a device that the caller holds. Their packages give memory back in the order of the stream
            // on which the kernel was started, so that it stays until the kernel is done.
            On::Stream(stream) => unsafe { self.code.built.start(self.views, stream) },
        }
    }
}

/// Calls a kernel with the arguments of Python.
pub fn call<'py>(
    object: &Bound<'py, Kernel>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Py<PyAny>> {
    match here(object, args, kwargs, HandsOn::Anybody) {
        Ok(results) => Ok(results),
        Err(Stop::Raise(e)) => Err(e),
        Err(other) => {
            let py = object.py();
            static BY_TORCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            static BY_JAX: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let (door, module) = match other {
                Stop::Jax => (&BY_JAX, "lathe.jax"),
                _ => (&BY_TORCH, "lathe.torch"),
            };
            let direct = match door.get(py) {
                Some(f) => f,
                None => {
                    let found = py.import(module)?.getattr("direct")?.unbind();
                    door.get_or_init(py, || found)
                }
            };
            Ok(direct.bind(py).call1((object, args, kwargs))?.unbind())
        }
    }
}

/// Calls a kernel with arrays and tensors that are nothing but memory; `NotImplemented` where an operator knows better.
pub fn call_plain<'py>(
    object: &Bound<'py, Kernel>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Py<PyAny>> {
    match here(object, args, kwargs, HandsOn::Torch) {
        Ok(results) => Ok(results),
        Err(Stop::Raise(e)) => Err(e),
        Err(_) => Ok(object.py().NotImplemented()),
    }
}

fn here<'py>(
    object: &Bound<'py, Kernel>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    hands_on: HandsOn,
) -> Result<Py<PyAny>, Stop> {
    let py = object.py();
    let (call, results, on, code) = prepared(py, object.get(), args, kwargs, hands_on)?;
    let mut views = call.views();
    let done = py.detach({
        let work = Work { code: &code, on, views: &mut views };
        move || work.run()
    });
    drop(views);
    if let Some(torch) = call.torch {
        for t in &call.changed {
            torch.changed(t)?;
        }
    }
    match done {
        Ok(()) => Ok(call.back(results)?),
        Err(d) => Err(call.failed(d).into()),
    }
}

/// The code that a call with these arguments runs.
pub fn code_of<'py>(
    py: Python<'py>,
    kernel: &Kernel,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Arc<Prepared>> {
    match prepared(py, kernel, args, kwargs, HandsOn::Nobody) {
        Ok(p) => Ok(p.3),
        Err(Stop::Raise(e)) => Err(e),
        Err(_) => {
            let text = "what is traced, or is not memory of this machine, does not say what a call would run";
            Err(argument_error(py, lathe::codes::DEVICE, text, &[], Some("pass non-empty arrays")))
        }
    }
}

/// Everything of a call but the run itself.
#[inline(always)]
fn prepared<'py, 'k>(
    py: Python<'py>,
    kernel: &'k Kernel,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    hands_on: HandsOn,
) -> Result<(Call<'py, 'k>, Results<'py>, On, Arc<Prepared>), Stop> {
    let asked = match kwargs {
        Some(k) if !k.is_empty() => asked(kernel, k)?,
        _ => Asked::default(),
    };
    let signature = &kernel.signature;
    let n = signature.params.len();
    let mut call = Call {
        py,
        kernel,
        dims: SmallVec::new(),
        slots: SmallVec::from_elem(Slot { data: std::ptr::null_mut(), dtype: 0, at: 0 }, n),
        values: SmallVec::from_elem(0, n),
        keep: SmallVec::new(),
        copy: asked.copy,
        place: None,
        foreign: None,
        torch: None,
        quiet: None,
        made_here: SmallVec::new(),
        changed: SmallVec::new(),
        hands_on: if asked.out.is_some() && hands_on == HandsOn::Anybody { HandsOn::Torch } else { hands_on },
    };
    if asked.named.is_empty() {
        if args.len() != signature.inputs.len() {
            return Err(wrong_count(py, kernel, args.len()).into());
        }
        for (at, object) in signature.inputs.iter().zip(args.iter_borrowed()) {
            call.input(*at, &object)?;
        }
    } else {
        call.named(args, &asked.named)?;
    }
    let results = call.outputs(asked.out)?;
    if let Some(Place::Cuda(device)) = call.place {
        let code = call.code_on(device, asked.choice)?;
        let stream = call.stream(device)?;
        return Ok((call, results, On::Stream(stream), code));
    }
    let pool = pool(py, asked.threads)?;
    // The sizes are read off the inputs as the call saw them.
    let code: Arc<Prepared> = match asked.choice {
        None => kernel.usual(pool.threads()).code(py, kernel, &|i| call.size(i))?,
        Some(mut c) => {
            // Decisions are made for the sizes of this call.
            if c.strategy.as_deref() == Some("auto") {
                c.sizes = sizes_of(kernel, &|i| call.size(i));
                c.threads = Some(pool.threads());
            }
            match kernel.chosen(&c) {
                Some(code) => code,
                None => {
                    let made = compile(py, kernel, &c, false)?;
                    kernel.keep(c, Arc::clone(&made));
                    made
                }
            }
        }
    };
    Ok((call, results, On::Host(pool), code))
}

impl<'py> Call<'py, '_> {
    fn shape(&self, param: usize) -> &[i64] {
        let at = self.slots[param].at;
        self.dims.get(at..at + self.kernel.signature.params[param].rank).unwrap_or(&[])
    }

    /// The value of the kernel's `i`-th size.
    fn size(&self, i: usize) -> i64 {
        self.kernel.signature.size(i, &|p| self.shape(p))
    }

    /// The code of a call on a device.
    fn code_on(&self, device: i32, choice: Option<Choice>) -> PyResult<Arc<Prepared>> {
        let (py, kernel) = (self.py, self.kernel);
        let Some(mut c) = choice else {
            return kernel.on_device(device).code(py, kernel, &|i| self.size(i));
        };
        c.device = Some(device);
        // Decisions are made for the sizes of this call.
        c.sizes = sizes_of(kernel, &|i| self.size(i));
        if let Some(code) = kernel.chosen(&c) {
            return Ok(code);
        }
        let made = compile(py, kernel, &c, false)?;
        kernel.keep(c, Arc::clone(&made));
        Ok(made)
    }

    /// The stream on which the arrays' package works.
    fn stream(&self, device: i32) -> PyResult<u64> {
        match (self.torch, &self.foreign) {
            (Some(torch), _) => torch.stream(self.py, device),
            (None, Some(like)) => {
                let interop = self.py.import(intern!(self.py, "lathe._interop"))?;
                interop.call_method1(intern!(self.py, "stream"), (like,))?.extract()
            }
            (None, None) => Ok(0),
        }
    }

    /// Takes what was read of an array, whose extents begin at `start`.
    fn take(&mut self, at: usize, r: Read, start: usize) -> PyResult<()> {
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
    fn input(&mut self, at: usize, object: &Bound<'py, PyAny>) -> Result<(), Stop> {
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

    /// Takes an array of another package on a device.
    fn on_a_device(
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
    fn traced(&mut self, param: &Param, object: &Bound<'py, PyAny>) -> Result<(), Stop> {
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

    fn quiet(&mut self, torch: &Torch) -> PyResult<bool> {
        if let Some(q) = self.quiet {
            return Ok(q);
        }
        let q = torch.quiet(self.py)?;
        self.quiet = Some(q);
        Ok(q)
    }

    /// Takes a tensor of PyTorch for a parameter.
    fn tensor(&mut self, torch: &'static Torch, at: usize, object: &Bound<'py, PyAny>) -> Result<(), Stop> {
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
            Err(Trouble::Problem(Problem::Negated)) if param.mode == Mode::In => {
                let negated = object.call_method0(intern!(self.py, "resolve_neg"))?;
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
    fn tensor_made(&mut self, torch: &Torch, at: usize, object: &Bound<'py, PyAny>) -> Result<(), Stop> {
        let param = &self.kernel.signature.params[at];
        let start = self.dims.len();
        match torch.read(object, param, &mut self.dims) {
            Ok(r) => Ok(self.take(at, r, start)?),
            // Of an element type that PyTorch does not have.
            Err(_) => self.input(at, object),
        }
    }

    /// An array of numpy for an object that cannot be used as it is, if there is one.
    fn adapted(
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
    fn copied(
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

    /// Takes the results' arrays: those given by `out`, or new ones.
    fn outputs(&mut self, out: Option<Bound<'py, PyAny>>) -> Result<Results<'py>, Stop> {
        let kernel = self.kernel;
        let outputs = &kernel.signature.outputs;
        let given: Option<SmallVec<[Bound<'py, PyAny>; 4]>> = match out {
            None => None,
            Some(o) => match o.cast::<PyTuple>() {
                Ok(t) => Some(t.iter().collect()),
                _ => Some(SmallVec::from_iter([o])),
            },
        };
        if let Some(g) = &given
            && g.len() != outputs.len()
        {
            let text =
                format!("`{}` has {} results, but `out` holds {}", kernel.name, outputs.len(), g.len());
            return Err(argument_error(
                self.py,
                lathe::codes::OUTPUT,
                text,
                &[],
                Some("out=(first, second)"),
            )
            .into());
        }
        let mut arrays: SmallVec<[Bound<'py, PyAny>; 4]> = SmallVec::new();
        for (i, at) in outputs.iter().enumerate() {
            let one = given.as_ref().map(|g| &g[i]).filter(|o| !o.is_none());
            match one {
                Some(o) => {
                    self.input(*at, o)?;
                    self.made_here.push(false);
                    arrays.push(o.clone());
                }
                None => {
                    let array = self.made(i, *at)?;
                    match self.torch {
                        Some(torch) if self.foreign.is_none() => self.tensor_made(torch, *at, &array)?,
                        _ => self.input(*at, &array)?,
                    }
                    self.made_here.push(true);
                    arrays.push(array);
                }
            }
        }
        Ok(arrays)
    }

    /// A new array for the `i`-th result.
    fn made(&self, i: usize, at: usize) -> PyResult<Bound<'py, PyAny>> {
        let kernel = self.kernel;
        let param = &kernel.signature.params[at];
        let mut extents: SmallVec<[i64; 8]> = SmallVec::from_elem(0, param.rank);
        let value = |p: usize| match kernel.signature.params[p].scalar {
            // Narrow numbers were sign extended when they were taken.
            Some(_) => self.values[p] as i64,
            None => 0,
        };
        let known = kernel.signature.extents(at, &|p| self.shape(p), &value, &mut extents);
        if !known {
            let text = format!("the arguments do not determine the extents of the result `{}`", param.name);
            return Err(argument_error(
                self.py,
                lathe::runtime_codes::ARGUMENT_SHAPE,
                text,
                &[],
                Some("pass an array of the required shape: out=…"),
            ));
        }
        if let Some(bad) = extents.iter().position(|e| *e < 0) {
            let text = format!(
                "dimension {bad} of the result `{}` would have {} elements",
                param.name, extents[bad]
            );
            return Err(argument_error(
                self.py,
                lathe::runtime_codes::ARGUMENT_SHAPE,
                text,
                &self.sizes(),
                None,
            ));
        }
        if let Some(torch) = self.torch
            && let Some(t) = torch.made(self.py, param.dtype, &extents, self.place.unwrap_or(Place::Host))?
        {
            return Ok(t);
        }
        if let (Some(Place::Cuda(_)), Some(like)) = (self.place, &self.foreign) {
            let interop = self.py.import(intern!(self.py, "lathe._interop"))?;
            let shape = PyTuple::new(self.py, &extents)?;
            let descr = kernel.descr(self.py, i, &param.ty)?;
            return interop.call_method1(intern!(self.py, "empty_like"), (like, shape, descr, &param.name));
        }
        let descr = kernel.descr(self.py, i, &param.ty)?;
        arrays::new(self.py, descr.bind(self.py), &mut extents)
    }

    /// The descriptors of all arguments.
    fn views<'a>(&'a self) -> SmallVec<[ArgView<'a>; 12]> {
        let params = &self.kernel.signature.params;
        let one = |(i, (slot, p)): (usize, (&Slot, &Param))| {
            let data = match p.scalar {
                Some(_) => std::ptr::from_ref(&self.values[i]).cast_mut().cast(),
                None => slot.data,
            };
            let shape = self.dims.as_ptr().wrapping_add(slot.at);
            let raw = lathe_abi::Array {
                data,
                shape,
                strides: shape.wrapping_add(p.rank),
                dtype: slot.dtype,
                rank: p.rank as u32,
                elem_bytes: p.bytes as u64,
            };
            // SAFETY: extents and strides lie in `self`, which the views borrow; the memory belongs to arrays that the
            // caller holds. That other threads leave it alone is the caller's part of the contract, as with numpy.
            unsafe { ArgView::from_raw(raw, p.mode != Mode::In) }
        };
        self.slots.iter().zip(params).enumerate().map(one).collect()
    }

    /// What the call returns.
    fn back(&self, mut results: Results<'py>) -> PyResult<Py<PyAny>> {
        let py = self.py;
        if let Some(like) = self.foreign.as_ref().filter(|_| self.place == Some(Place::Host)) {
            let interop = py.import(intern!(py, "lathe._interop"))?;
            for r in results.iter_mut().zip(&self.made_here).filter(|r| *r.1).map(|r| r.0) {
                *r = interop.call_method1(intern!(py, "like"), (&*r, like))?;
            }
        }
        Ok(match results.len() {
            0 => py.None(),
            1 => results.remove(0).unbind(),
            _ => PyTuple::new(py, results)?.into_any().unbind(),
        })
    }

    /// Positional arguments and those given by name.
    fn named(
        &mut self,
        args: &Bound<'py, PyTuple>,
        named: &[(usize, Bound<'py, PyAny>)],
    ) -> Result<(), Stop> {
        let inputs = &self.kernel.signature.inputs;
        if args.len() + named.len() != inputs.len() {
            return Err(wrong_count(self.py, self.kernel, args.len() + named.len()).into());
        }
        for (i, at) in inputs.iter().enumerate() {
            let by_name = named.iter().find(|n| n.0 == *at).map(|n| &n.1);
            let object = match (i < args.len(), by_name) {
                (true, None) => args.get_item(i)?,
                (false, Some(o)) => o.clone(),
                (given, _) => {
                    let name = &self.kernel.signature.params[*at].name;
                    let what = if given { "is given twice" } else { "is missing" };
                    return Err(argument_error(
                        self.py,
                        lathe::runtime_codes::ARGUMENT_COUNT,
                        format!("the argument `{name}` of `{}` {what}", self.kernel.name),
                        &[],
                        None,
                    )
                    .into());
                }
            };
            self.input(*at, &object)?;
        }
        Ok(())
    }

    /// Each size, and which argument says so.
    fn sizes(&self) -> Vec<String> {
        let signature = &self.kernel.signature;
        let one = |(i, (name, source)): (usize, &(String, Source))| {
            let of = &signature.params[source.param].name;
            format!("{name} = {}, by dimension {} of `{of}`", self.size(i), source.dim)
        };
        signature.sizes.iter().enumerate().map(one).collect()
    }

    /// The exception for a call that the kernel refused.
    fn failed(&self, mut d: Diagnostic) -> PyErr {
        // Code with sizes baked in knows numbers only.
        if d.code == lathe::runtime_codes::ARGUMENT_SHAPE && d.notes.is_empty() {
            d.notes = self.sizes();
        }
        // A check that was made for an access: at least the kernel is shown.
        if d.code == lathe::runtime_codes::CHECK_FAILED
            && d.marks.is_empty()
            && let Some(k) = self.kernel.program.lang.kernels.iter().find(|k| k.name == self.kernel.name)
        {
            d = d.at(k.span, "in this kernel");
        }
        errors::at(self.py, &self.kernel.program.sources, d)
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

type Results<'py> = SmallVec<[Bound<'py, PyAny>; 4]>;
