//! Calls of kernels from Python.

mod arguments;
mod results;

use crate::arrays::{Dims, Place};
use crate::code::{DeviceId, code_on, compile, sizes_of};
use crate::errors;
use crate::interrupts::{self, Ended};
use crate::kernel::Kernel;
use crate::keywords::{Asked, asked};
use crate::pools::{make_ready, pool};
use crate::refusals::argument_error;
use crate::signature::{Param, Source};
use crate::tensors::Torch;
pub use arguments::check_number;
use lathe::ir::Mode;
use lathe::{ArgView, Diagnostic, Pool, Prepared};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

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
    /// Buffers of `lathe.device`, on which a kernel is launched.
    Buffers,
    /// The kernel with its `print` and `assert` is what is to be called.
    Debug,
}

impl From<PyErr> for Stop {
    fn from(e: PyErr) -> Stop {
        Stop::Raise(e)
    }
}

/// What a call runs on.
#[derive(Clone, Copy)]
enum On {
    Host(&'static Pool, Option<Duration>),
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

/// What makes the code of a call without the interpreter's lock.
struct Ready<'a, 'b>(&'a Prepared, &'a mut SmallVec<[ArgView<'b>; 12]>);

// SAFETY: as for `Work`; nothing but extents is read.
unsafe impl Send for Ready<'_, '_> {}

impl Ready<'_, '_> {
    fn make(self) -> Result<(), Diagnostic> {
        make_ready(&self.0.built, self.1)
    }
}

impl Work<'_, '_> {
    fn run(self) -> Result<(), Ended> {
        match self.on {
            On::Host(pool, time) => {
                make_ready(&self.code.built, self.views).map_err(Ended::Refused)?;
                interrupts::call(&self.code.built, pool, self.views, time)
            }
            // SAFETY: arrays of a device that the caller holds. Their packages give memory back in the order of the stream
            // on which the kernel was started, so that it stays until the kernel is done.
            On::Stream(stream) => {
                unsafe { self.code.built.start(self.views, stream) }.map_err(Ended::Refused)
            }
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
        Err(Stop::Debug) => {
            let module = object.py().import("lathe._debugging")?;
            Ok(module.call_method1("call", (object, args, kwargs))?.unbind())
        }
        Err(Stop::Buffers) => {
            let module = object.py().import("lathe._buffers")?;
            Ok(module.call_method1("direct", (object, args, kwargs))?.unbind())
        }
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
        Err(Ended::Refused(d)) => Err(call.failed(d).into()),
        Err(Ended::Raised(e)) => Err(e.into()),
    }
}

/// The code that a call with these arguments runs, ready for it.
pub fn code_of<'py>(
    py: Python<'py>,
    kernel: &Kernel,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Arc<Prepared>> {
    match prepared(py, kernel, args, kwargs, HandsOn::Nobody) {
        Ok((call, _, on, code)) => {
            let mut views = call.views();
            let ready = Ready(&code, &mut views);
            match on {
                On::Host(..) => py.detach(move || ready.make()).map_err(|d| call.failed(d))?,
                On::Stream(_) => {}
            }
            drop(views);
            Ok(code)
        }
        Err(Stop::Raise(e)) => Err(e),
        Err(Stop::Debug) => {
            let text = "`debug` is an option of calls";
            Err(argument_error(py, lathe::codes::OPTION, text, &[], None))
        }
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
    if asked.debug {
        return Err(Stop::Debug);
    }
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
    if asked.named.is_empty() && args.len() == signature.inputs.len() {
        for (at, object) in signature.inputs.iter().zip(args.iter_borrowed()) {
            call.input(*at, &object)?;
        }
    } else {
        call.named(args, &asked.named)?;
    }
    let results = call.outputs(asked.out)?;
    if let Some(Place::Cuda(device)) = call.place {
        let code = code_on(py, kernel, DeviceId::cuda(device), asked.choice, &|i| call.size(i))?;
        if asked.timeout.is_some() {
            let text = "kernels of devices run to their end: `timeout` is for calls on the host";
            return Err(argument_error(py, lathe::codes::OPTION, text, &[], None).into());
        }
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
    Ok((call, results, On::Host(pool, asked.timeout), code))
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

type Results<'py> = SmallVec<[Bound<'py, PyAny>; 4]>;
