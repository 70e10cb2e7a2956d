//! Buffers and their parts. A buffer is the part that is all of it.

use super::away::{Away, away};
use super::elements::Elements;
use super::open::Devices;
use crate::arrays;
use crate::refusals::argument_error;
use lathe::Diagnostic;
use lathe::device::{Buffer, MappedBuffer, PinnedBuffer};
use numpy::npyffi::{self, PyArrayObject};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PySlice, PyTuple};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The bytes of a buffer, in memory of the host of one of three kinds.
pub enum Store {
    Plain(Buffer<u8>),
    Pinned(PinnedBuffer<u8>),
    Mapped(MappedBuffer<u8>),
}

macro_rules! each {
    ($store:expr, $b:ident => $e:expr) => {
        match $store {
            Store::Plain($b) => $e,
            Store::Pinned($b) => $e,
            Store::Mapped($b) => $e,
        }
    };
}

impl Store {
    fn made(kind: &str, devices: &lathe::device::Devices, bytes: usize) -> Result<Store, Diagnostic> {
        Ok(match kind {
            "pinned" => Store::Pinned(PinnedBuffer::new(devices, bytes)?),
            "mapped" => Store::Mapped(MappedBuffer::new(devices, bytes)?),
            _ => Store::Plain(Buffer::new(devices, bytes)?),
        })
    }

    /// These bytes, for a launch.
    pub fn part(&self, range: Range<usize>) -> Result<lathe::device::Part, Diagnostic> {
        each!(self, b => b.part(range))
    }

    fn set(&self, start: usize, data: &[u8]) -> Result<(), Diagnostic> {
        each!(self, b => b.set(start, data))
    }

    fn get(&self, range: Range<usize>, to: &mut [u8]) -> Result<(), Diagnostic> {
        each!(self, b => b.with(range, |from| to.copy_from_slice(from)))
    }
}

/// Elements of a buffer that lie behind each other, with a shape. Made directly, it is all of a new buffer.
#[pyclass(subclass, frozen, weakref, module = "lathe._lathe", name = "Part")]
pub struct Part {
    store: Arc<Away<Store>>,
    elements: Arc<Elements>,
    /// The first element.
    start: u64,
    shape: SmallVec<[i64; 6]>,
    devices: Py<Devices>,
}

fn wrong(py: Python<'_>, text: impl Into<String>, help: &str) -> PyErr {
    argument_error(py, lathe::device::PART, text, &[], Some(help))
}

impl Part {
    fn of(&self, py: Python<'_>, start: u64, shape: SmallVec<[i64; 6]>) -> Part {
        Part {
            store: Arc::clone(&self.store),
            elements: Arc::clone(&self.elements),
            start,
            shape,
            devices: self.devices.clone_ref(py),
        }
    }

    fn count(&self) -> u64 {
        self.shape.iter().product::<i64>() as u64
    }

    fn bytes(&self) -> Range<usize> {
        let (start, end) = (self.start, self.start + self.count());
        (start * self.elements.bytes) as usize..(end * self.elements.bytes) as usize
    }

    pub fn elements(&self) -> &Arc<Elements> {
        &self.elements
    }

    pub fn extents(&self) -> &[i64] {
        &self.shape
    }

    /// What keeps the buffer.
    pub fn store(&self) -> &Arc<Away<Store>> {
        &self.store
    }

    /// The part, as launches of kernels of the user's take it.
    pub fn plain(&self, py: Python<'_>) -> PyResult<lathe::device::Part> {
        self.store.part(self.bytes()).map_err(|d| crate::errors::bare(py, d))
    }

    /// The part, as kernels of Lathe take it: elements of the type of this code, in its shape.
    pub fn shaped(&self, py: Python<'_>, code: u32) -> PyResult<lathe::device::Part> {
        Ok(self.plain(py)?.typed(code, self.elements.bytes).shaped(&self.shape))
    }
}

#[pymethods]
impl Part {
    /// A buffer of devices, in memory of the host of a kind (`plain`, `pinned`, `mapped`), with elements of a type and a
    /// shape; of an array in row-major order if there is one, else uninitialized.
    #[new]
    #[pyo3(signature = (devices, kind, dtype, shape, data=None))]
    fn new(
        py: Python<'_>,
        devices: Py<Devices>,
        kind: &str,
        dtype: &Bound<'_, PyAny>,
        shape: SmallVec<[i64; 6]>,
        data: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Part> {
        let elements = Arc::new(Elements::of(dtype)?);
        let count = shape.iter().try_fold(1i64, |n, e| n.checked_mul(*e).filter(|_| *e >= 0));
        let bytes = count.and_then(|n| n.checked_mul(elements.bytes as i64)).filter(|n| *n < 1 << 62);
        let Some(bytes) = bytes else {
            return Err(wrong(py, format!("a buffer of the shape {shape:?}"), "extents of 0 and more"));
        };
        let on = devices.get();
        let store = away(py, || Store::made(kind, &on.all, bytes as usize))?;
        let part = Part { store: Arc::new(Away::new(store)), elements, start: 0, shape, devices };
        if let Some(data) = data {
            part.set(py, data)?;
        }
        Ok(part)
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// numpy's description of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.elements.descr.clone_ref(py)
    }

    #[getter]
    fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> u64 {
        self.count()
    }

    #[getter]
    fn nbytes(&self) -> u64 {
        self.count() * self.elements.bytes
    }

    /// The devices that it is for.
    #[getter]
    fn devices(&self, py: Python<'_>) -> Py<Devices> {
        self.devices.clone_ref(py)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        match self.shape.first() {
            Some(n) => Ok(*n as usize),
            None => Err(wrong(py, "a buffer without dimensions has no length", "part.size")),
        }
    }

    /// Rows `a:b` along the first dimension, or all with `...`.
    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Part> {
        if key.is_instance_of::<PyEllipsis>() {
            return Ok(self.of(py, self.start, self.shape.clone()));
        }
        let help = "part[a:b] along the first dimension; part.numpy() gives elements";
        let (Ok(slice), Some(n)) = (key.cast::<PySlice>(), self.shape.first().copied()) else {
            return Err(wrong(py, "a part of a buffer is a slice of its first dimension", help));
        };
        // Unlike elsewhere in Python, what is outside of the buffer is refused: a kernel would write elsewhere.
        let bound = |name, usual: i64| -> PyResult<i64> {
            let v = slice.getattr(name)?;
            if v.is_none() {
                return Ok(usual);
            }
            let v: i64 = v.extract()?;
            Ok(if v < 0 { v + n } else { v })
        };
        let (start, stop) = (bound(intern!(py, "start"), 0)?, bound(intern!(py, "stop"), n)?);
        let step = slice.getattr(intern!(py, "step"))?;
        if !(step.is_none() || step.extract::<i64>().is_ok_and(|s| s == 1)) {
            return Err(wrong(py, "a part of a buffer has a step", help));
        }
        if start < 0 || stop < start || stop > n {
            return Err(wrong(py, format!("rows {start} to {stop} of a buffer of {n}"), help));
        }
        let row: i64 = self.shape[1..].iter().product();
        let mut shape = self.shape.clone();
        shape[0] = stop - start;
        Ok(self.of(py, self.start + (start * row) as u64, shape))
    }

    /// Writes elements from the host: an array of this shape, or one value for all of them.
    fn __setitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.__getitem__(py, key)?.set(py, value)
    }

    /// The same elements in another shape, of as many.
    #[pyo3(signature = (*shape))]
    fn reshape(&self, py: Python<'_>, shape: &Bound<'_, PyTuple>) -> PyResult<Part> {
        let one = shape.get_item(0).ok().filter(|s| shape.len() == 1 && s.is_instance_of::<PyTuple>());
        let shape: SmallVec<[i64; 6]> = match one {
            Some(s) => s.extract()?,
            None => shape.extract()?,
        };
        let count = shape.iter().try_fold(1i64, |n, e| n.checked_mul(*e).filter(|_| *e >= 0));
        if count != Some(self.count() as i64) {
            let text = format!("{} elements in the shape {:?}", self.count(), &shape[..]);
            return Err(wrong(py, text, "as many elements in every shape"));
        }
        Ok(self.of(py, self.start, shape))
    }

    /// Writes elements from the host, once everything that uses them has ended: an array of this shape, or one value for
    /// all of them.
    fn set(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let module = py.import(intern!(py, "lathe.device"))?;
        let shape = PyTuple::new(py, &self.shape)?;
        let array = module.call_method1(intern!(py, "_values"), (data, &self.elements.descr, shape))?;
        let range = self.bytes();
        let from = memory(&array, range.len())?;
        // SAFETY: as many bytes of an array of numpy, which `array` keeps; other threads leave it alone, as with numpy.
        let data: &[u8] = unsafe { std::slice::from_raw_parts(from, range.len()) };
        away(py, || self.store.set(range.start, data))
    }

    /// A copy of the elements as an array of numpy (or in one, given as `out`), once everything that writes them has ended.
    ///
    /// What failed before is raised here, with the name of the launch.
    #[pyo3(signature = (out=None))]
    fn numpy<'py>(&self, py: Python<'py>, out: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let array = match out {
            None => {
                let mut shape: SmallVec<[i64; 6]> = self.shape.clone();
                arrays::new(py, self.elements.descr.bind(py), &mut shape)?
            }
            Some(out) => {
                let module = py.import(intern!(py, "lathe.device"))?;
                let shape = PyTuple::new(py, &self.shape)?;
                module.call_method1(intern!(py, "_into"), (out, &self.elements.descr, shape))?;
                out.clone()
            }
        };
        let range = self.bytes();
        let to = memory(&array, range.len())?;
        // SAFETY: as many bytes of an array of numpy, which `array` keeps; other threads leave it alone, as with numpy.
        let data: &mut [u8] = unsafe { std::slice::from_raw_parts_mut(to, range.len()) };
        away(py, || self.store.get(range, data))?;
        Ok(array)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(wrong(py, "elements of a buffer are copied to the host", "numpy.asarray(part)"));
        }
        let array = self.numpy(py, None)?;
        match dtype.filter(|d| !d.is_none()) {
            Some(d) => array.call_method1(intern!(py, "astype"), (d,)),
            None => Ok(array),
        }
    }

    fn __repr__(slf: &Bound<'_, Part>) -> PyResult<String> {
        let this = slf.get();
        let (name, descr) = (slf.get_type().name()?, this.elements.descr.bind(slf.py()));
        Ok(format!("<{name} {:?} of {descr}>", &this.shape[..]))
    }
}

/// Where an array of numpy in row-major order lies, which has so many bytes.
fn memory(array: &Bound<'_, PyAny>, bytes: usize) -> PyResult<*mut u8> {
    let object = array.as_ptr();
    // SAFETY: a living object; an array has these fields.
    unsafe {
        let is = npyffi::PyArray_Check(array.py(), object) != 0;
        if is && array.getattr(intern!(array.py(), "nbytes"))?.extract::<usize>()? == bytes {
            let data: *mut u8 = (*object.cast::<PyArrayObject>()).fields.data.cast();
            // A slice of no element begins anywhere but nowhere.
            return Ok(if data.is_null() { std::ptr::NonNull::dangling().as_ptr() } else { data });
        }
    }
    Err(pyo3::exceptions::PyTypeError::new_err("an array of numpy of the buffer's size"))
}
