//! Results of a call: arrays that the caller gives, or new ones of the kind of the arguments.

use super::{Call, Results, Stop};
use crate::arrays::{self, Place};
use crate::refusals::argument_error;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

impl<'py> Call<'py, '_> {
    /// Takes the results' arrays: those given by `out`, or new ones.
    pub(super) fn outputs(&mut self, out: Option<Bound<'py, PyAny>>) -> Result<Results<'py>, Stop> {
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
    pub(super) fn made(&self, i: usize, at: usize) -> PyResult<Bound<'py, PyAny>> {
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

    /// What the call returns.
    pub(super) fn back(&self, mut results: Results<'py>) -> PyResult<Py<PyAny>> {
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
}
