//! Calls of kernels from Python.

use crate::arrays::{self, Problem};
use crate::code::compile;
use crate::errors;
use crate::kernel::Kernel;
use crate::keywords::{Asked, asked};
use crate::pools::pool;
use crate::refusals::{argument_error, reason, refused, wrong_count};
use crate::signature::{Param, Source};
use lathe::ir::Mode;
use lathe::{ArgView, Diagnostic, Pool, Prepared};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
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
    dims: SmallVec<[i64; 48]>,
    /// One for each parameter.
    slots: SmallVec<[Slot; 12]>,
    /// Values of scalar parameters.
    values: SmallVec<[u64; 12]>,
    /// What was made for this call and must live as long.
    keep: SmallVec<[Bound<'py, PyAny>; 4]>,
    copy: bool,
    /// An input that is no array of numpy, which decides what kind of arrays come back.
    foreign: Option<Bound<'py, PyAny>>,
}

/// What runs without the interpreter's lock.
struct Work<'a, 'b> {
    code: &'a Prepared,
    pool: &'a Pool,
    views: &'a mut SmallVec<[ArgView<'b>; 12]>,
}

// SAFETY: the views point to memory that the caller's arrays keep alive; a kernel may run on any thread.
unsafe impl Send for Work<'_, '_> {}

impl Work<'_, '_> {
    fn run(self) -> Result<(), Diagnostic> {
        self.code.built.call_views(self.pool, self.views)
    }
}

/// Calls a kernel with the arguments of Python.
pub fn call<'py>(
    py: Python<'py>,
    kernel: &Kernel,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let (call, results, pool, code) = prepared(py, kernel, args, kwargs)?;
    let mut views = call.views();
    let done = py.detach({
        let work = Work { code: &code, pool, views: &mut views };
        move || work.run()
    });
    drop(views);
    match done {
        Ok(()) => call.back(results),
        Err(d) => Err(call.failed(d)),
    }
}

/// The code that a call with these arguments runs.
pub fn code_of<'py>(
    py: Python<'py>,
    kernel: &Kernel,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Arc<Prepared>> {
    Ok(prepared(py, kernel, args, kwargs)?.3)
}

/// Everything of a call but the run itself.
#[inline(always)]
fn prepared<'py, 'k>(
    py: Python<'py>,
    kernel: &'k Kernel,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<(Call<'py, 'k>, Results<'py>, &'static Pool, Arc<Prepared>)> {
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
        foreign: None,
    };
    if asked.named.is_empty() {
        if args.len() != signature.inputs.len() {
            return Err(wrong_count(py, kernel, args.len()));
        }
        for (at, object) in signature.inputs.iter().zip(args.iter_borrowed()) {
            call.input(*at, &object)?;
        }
    } else {
        call.named(args, &asked.named)?;
    }
    let results = call.outputs(asked.out)?;
    let pool = pool(py, asked.threads)?;
    // The sizes are read off the inputs as the call saw them.
    let code: Arc<Prepared> = match asked.choice {
        None => kernel.usual(pool.threads()).code(py, kernel, &|i| call.size(i))?,
        Some(mut c) => {
            // Decisions are taken for the sizes at hand.
            if c.strategy.as_deref() == Some("auto") {
                let sizes = kernel.signature.sizes.iter().enumerate();
                c.sizes = sizes.map(|(i, s)| (s.0.clone(), call.size(i))).collect();
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
    Ok((call, results, pool, code))
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

    /// Takes an argument for a parameter.
    fn input(&mut self, at: usize, object: &Bound<'py, PyAny>) -> PyResult<()> {
        let param = &self.kernel.signature.params[at];
        if let Some(ty) = param.scalar {
            let v = arrays::scalar(self.py, object, ty).map_err(|e| self.bad_scalar(param, object, e))?;
            // Numbers lie in the low bytes.
            self.values[at] = v;
            self.slots[at] = Slot { data: std::ptr::null_mut(), dtype: param.dtype, at: 0 };
            return Ok(());
        }
        let start = self.dims.len();
        // SAFETY: a living object.
        let read = unsafe { arrays::read(self.py, object.as_ptr(), param, &mut self.dims) };
        let problem = match read {
            Ok(r) if param.dtype != lathe_abi::dtype::AGGREGATE => {
                self.slots[at] = Slot { data: r.data, dtype: r.dtype, at: start };
                return Ok(());
            }
            Ok(r) => {
                let same = object.getattr("dtype")?.eq(arrays::descr(self.py, &param.ty)?)?;
                if same {
                    self.slots[at] = Slot { data: r.data, dtype: r.dtype, at: start };
                    return Ok(());
                }
                self.dims.truncate(start);
                Problem::Dtype
            }
            Err(p) => {
                self.dims.truncate(start);
                p
            }
        };
        let array = self.adapted(param, object, problem)?;
        let start = self.dims.len();
        // SAFETY: as above.
        match unsafe { arrays::read(self.py, array.as_ptr(), param, &mut self.dims) } {
            Ok(r) => {
                self.slots[at] = Slot { data: r.data, dtype: r.dtype, at: start };
                self.keep.push(array);
                Ok(())
            }
            Err(p) => {
                self.dims.truncate(start);
                Err(refused(self.py, &self.kernel.name, param, &array, p))
            }
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
                    self.foreign.get_or_insert_with(|| object.clone());
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
    fn outputs(&mut self, out: Option<Bound<'py, PyAny>>) -> PyResult<Results<'py>> {
        let kernel = self.kernel;
        let outputs = &kernel.signature.outputs;
        let given: Option<SmallVec<[Bound<'py, PyAny>; 4]>> = match out {
            None => None,
            Some(o) => match o.cast::<PyTuple>() {
                Ok(t) if outputs.len() != 1 || t.len() == 1 => Some(t.iter().collect()),
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
            ));
        }
        let mut arrays: SmallVec<[Bound<'py, PyAny>; 4]> = SmallVec::new();
        for (i, at) in outputs.iter().enumerate() {
            let one = given.as_ref().map(|g| &g[i]).filter(|o| !o.is_none());
            match one {
                Some(o) => {
                    self.input(*at, o)?;
                    arrays.push(o.clone());
                }
                None => {
                    let array = self.made(i, *at)?;
                    self.input(*at, &array)?;
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
            let text = format!("the extents of the result `{}` do not follow from the arguments", param.name);
            return Err(argument_error(
                self.py,
                lathe::runtime_codes::ARGUMENT_SHAPE,
                text,
                &[],
                Some("give an array of the wanted shape: out=…"),
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
        if let Some(like) = &self.foreign {
            let interop = py.import(intern!(py, "lathe._interop"))?;
            for r in &mut results {
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
    fn named(&mut self, args: &Bound<'py, PyTuple>, named: &[(usize, Bound<'py, PyAny>)]) -> PyResult<()> {
        let inputs = &self.kernel.signature.inputs;
        if args.len() + named.len() != inputs.len() {
            return Err(wrong_count(self.py, self.kernel, args.len() + named.len()));
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
                    ));
                }
            };
            self.input(*at, &object)?;
        }
        Ok(())
    }

    fn bad_scalar(&self, param: &Param, object: &Bound<'py, PyAny>, e: PyErr) -> PyErr {
        let kind = object.get_type().name().map_or_else(|_| "an object".to_string(), |n| n.to_string());
        let text =
            format!("`{}` is a number of type {}, but the argument is {kind}", param.name, param.describe());
        argument_error(
            self.py,
            lathe::runtime_codes::ARGUMENT_DTYPE,
            text,
            &[e.value(self.py).to_string()],
            None,
        )
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
        errors::at(self.py, &self.kernel.program.sources, d)
    }
}

type Results<'py> = SmallVec<[Bound<'py, PyAny>; 4]>;
