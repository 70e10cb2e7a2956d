//! Launches on a device, and sequences of them.

use super::arguments::{Grid, arguments, tagged_only};
use super::away::{away, settle, within};
use super::compiled;
use super::kernel::DeviceKernel;
use super::memory::DeviceMemory;
use super::open::Devices;
use super::part::Part;
use crate::kernel::Kernel;
use crate::keywords::option;
use crate::refusals::argument_error;
use lathe::device::{Argument, Library};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::{SmallVec, smallvec};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A device that was opened with others.
#[pyclass(subclass, frozen, weakref, module = "lathe._lathe", name = "Device")]
pub struct Device {
    device: lathe::device::Device,
    // Ends last, without the interpreter's lock.
    devices: Py<Devices>,
}

/// A launch that was given to a device; of a kernel that several devices share, all that was given to them.
#[pyclass(frozen, module = "lathe._lathe", name = "Launch")]
pub struct Launch {
    launches: SmallVec<[lathe::device::Launch; 1]>,
    /// Of a kernel of Lathe: `new` if this process compiled it, else `cached`.
    #[pyo3(get)]
    compiled: Option<&'static str>,
    // Ends last, without the interpreter's lock.
    _devices: Py<Devices>,
}

#[pymethods]
impl Launch {
    /// Waits for it; what failed is raised, with the name of what failed first.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        away(py, || self.launches.iter().try_for_each(lathe::device::Launch::wait))
    }
}

impl Launch {
    /// Launches that several devices were given together.
    pub fn of(devices: &Bound<'_, Devices>, launches: Vec<lathe::device::Launch>) -> PyResult<Launch> {
        Ok(Launch { launches: launches.into(), compiled: None, _devices: devices.clone().unbind() })
    }
}

impl Device {
    fn launched(&self, py: Python<'_>, launch: lathe::device::Launch) -> Launch {
        Launch { launches: smallvec![launch], compiled: None, _devices: self.devices.clone_ref(py) }
    }
}

/// Starts a kernel of Lathe on all devices.
pub fn launch_on<'py>(
    devices: &Bound<'py, Devices>,
    kernel: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let py = kernel.py();
    let Ok(kernel) = kernel.cast::<Kernel>() else {
        return Err(option(kernel, "a launch on several devices takes a kernel of lathe.kernel"));
    };
    let all = &devices.get().all;
    let first = all.device(0).map_err(|d| crate::errors::bare(py, d))?;
    let start = |built: &lathe::Built, arguments: &[Argument]| built.launch_on(all, arguments);
    let made = |py: Python<'py>, launches: Vec<_>, new| {
        let compiled = Some(if new { "new" } else { "cached" });
        Ok(Py::new(py, Launch { compiled, ..Launch::of(devices, launches)? })?.into_any())
    };
    compiled::launch(&first, kernel, args, options, &start, made)
}

/// The grid and the arguments of a launch of a kernel of the user's.
fn given(kernel: &DeviceKernel, args: &Bound<'_, PyTuple>) -> PyResult<(lathe::device::Grid, Vec<Argument>)> {
    let mut all = args.iter_borrowed();
    let grid = all.next().and_then(|g| g.cast::<Grid>().ok().map(|g| g.get().grid));
    let Some(grid) = grid else {
        let text = format!("`{}` is launched without a grid", kernel.kernel.name());
        let help = "device.launch(kernel, dim3(blocks, threads), …), or nd_range(global, local)";
        return Err(argument_error(args.py(), lathe::device::ARGUMENTS, text, &[], Some(help)));
    };
    Ok((grid, arguments(kernel.kernel.name(), kernel.kernel.parameters(), all)?))
}

#[pymethods]
impl Device {
    #[new]
    fn new(py: Python<'_>, devices: Py<Devices>, number: usize) -> PyResult<Device> {
        let device = devices.get().all.device(number).map_err(|d| crate::errors::bare(py, d))?;
        Ok(Device { device, devices })
    }

    /// Its number among the devices that it was opened with.
    #[getter]
    fn number(&self) -> usize {
        self.device.number()
    }

    /// The devices that it was opened with.
    #[getter]
    fn devices(&self, py: Python<'_>) -> Py<Devices> {
        self.devices.clone_ref(py)
    }

    /// Starts a kernel once its arguments are there, and returns.
    #[pyo3(signature = (kernel, *args, **options))]
    fn launch<'py>(
        &self,
        kernel: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let py = kernel.py();
        if let Ok(own) = kernel.cast::<DeviceKernel>() {
            if let Some(o) = options.filter(|o| !o.is_empty()) {
                return Err(option(o, "launches of kernels in CUDA C and OpenCL C have no options"));
            }
            let own = own.get();
            let (grid, arguments) = given(own, args)?;
            let launch = away(py, || self.device.launch(&own.kernel, grid, &arguments))?;
            return Ok(Py::new(py, self.launched(py, launch))?.into_any());
        }
        let Ok(kernel) = kernel.cast::<Kernel>() else {
            return Err(option(kernel, "a launch takes a kernel of lathe.kernel or of lathe.device.Kernel"));
        };
        let made = |py: Python<'py>, launch, new| {
            let compiled = Some(if new { "new" } else { "cached" });
            Ok(Py::new(py, Launch { compiled, ..self.launched(py, launch) })?.into_any())
        };
        let start = |built: &lathe::Built, arguments: &[Argument]| built.launch(&self.device, arguments);
        compiled::launch(&self.device, kernel, args, options, &start, made)
    }

    /// Compiles a kernel in CUDA C or OpenCL C now, which its first launch would do otherwise.
    fn compile(&self, py: Python<'_>, kernel: &DeviceKernel) -> PyResult<()> {
        away(py, || self.device.compile(&kernel.kernel))
    }

    /// Copies what is not there of a part to the device, without waiting.
    fn prefetch(&self, py: Python<'_>, part: &Part) -> PyResult<()> {
        let part = part.plain(py)?;
        away(py, || self.device.prefetch(part))
    }

    /// Whether the newest elements of a part lie here, or will once what is under way has ended.
    fn has(&self, py: Python<'_>, part: &Part) -> PyResult<bool> {
        let part = part.plain(py)?;
        away(py, || self.device.has(part))
    }

    /// Calls a function that gives work to the device's stream, with the memory of each buffer.
    fn call_<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        args: &Bound<'py, PyTuple>,
        function: Py<PyAny>,
    ) -> PyResult<Launch> {
        let tagged = tagged_only(name, args)?;
        let arguments: Vec<Argument> = tagged.iter().map(|t| t.get().argument.clone()).collect();
        let parts: Vec<Py<Part>> = tagged.iter().map(|t| t.get().part.clone_ref(py)).collect();
        let number = self.device.info().id.split(':').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
        let raised = Arc::new(Mutex::new(None));
        let said = Arc::clone(&raised);
        let library = move |library: &Library<'_>| {
            let done = Python::try_attach(|py| within(|| called(py, &function, &parts, library, number)));
            let Some(done) = done else { return Err("the interpreter ends".to_string()) };
            done.map_err(|e| {
                let text = Python::attach(|py| e.value(py).to_string());
                *said.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                text
            })
        };
        let launch = away(py, || {
            let launched = self.device.call(name, &arguments, library);
            settle();
            Ok(launched)
        })?;
        // What the function raised says more than that it failed.
        if let Some(e) = raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(e);
        }
        launch.map(|l| self.launched(py, l)).map_err(|d| crate::errors::bare(py, d))
    }
}

/// Calls the function, which keeps nothing of the memory that it is given.
fn called(
    py: Python<'_>,
    function: &Py<PyAny>,
    parts: &[Py<Part>],
    library: &Library<'_>,
    number: i32,
) -> PyResult<()> {
    let one = |(n, part): (usize, &Py<Part>)| {
        let part = part.get();
        let memory = DeviceMemory {
            elements: Arc::clone(part.elements()),
            shape: part.extents().into(),
            pointer: library.pointer(n),
            offset: library.offset(n),
            queue: library.queue(),
            kind: library.kind(),
            number,
            ended: AtomicBool::new(false),
        };
        Py::new(py, memory)
    };
    let all: Vec<Py<DeviceMemory>> = parts.iter().enumerate().map(one).collect::<PyResult<_>>()?;
    let done = function.bind(py).call1(PyTuple::new(py, all.iter().map(|m| m.bind(py)))?).map(|_| ());
    // Tensors that share the memory hold on to it.
    // SAFETY: living objects.
    let kept = || all.iter().any(|m| unsafe { pyo3::ffi::Py_REFCNT(m.as_ptr()) } > 1);
    if done.is_ok() && kept() {
        py.import(intern!(py, "gc"))?.call_method0(intern!(py, "collect"))?;
    }
    all.iter().for_each(|m| m.get().ended.store(true, Ordering::Release));
    done?;
    if kept() {
        let text = "the function kept an array that shares the memory of a buffer";
        let help = "the memory is the buffer's: copy what is needed later";
        return Err(argument_error(py, lathe::device::ARGUMENTS, text, &[], Some(help)));
    }
    Ok(())
}

/// Launches on one device that are started as one, which CUDA runs as a graph.
#[pyclass(frozen, weakref, module = "lathe._lathe", name = "Sequence")]
pub struct Sequence {
    device: lathe::device::Device,
    sequence: Mutex<lathe::device::Sequence>,
    /// Keeps the buffers.
    tagged: Mutex<Vec<Py<PyTuple>>>,
    devices: Py<Devices>,
}

#[pymethods]
impl Sequence {
    #[new]
    #[pyo3(signature = (device, name="sequence"))]
    fn new(py: Python<'_>, device: &Device, name: &str) -> Sequence {
        let sequence = Mutex::new(lathe::device::Sequence::new(&device.device, name));
        let (device, devices) = (device.device.clone(), device.devices.clone_ref(py));
        Sequence { device, sequence, tagged: Mutex::default(), devices }
    }

    /// One more launch, as `Device.launch` takes it, after those that are there; nothing is started.
    #[pyo3(signature = (kernel, *args, **options))]
    fn add<'py>(
        &self,
        kernel: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<()> {
        let py = kernel.py();
        let sequence = || self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(own) = kernel.cast::<DeviceKernel>() {
            if let Some(o) = options.filter(|o| !o.is_empty()) {
                return Err(option(o, "launches of kernels in CUDA C and OpenCL C have no options"));
            }
            let own = own.get();
            let (grid, arguments) = given(own, args)?;
            away(py, || sequence().add(&own.kernel, grid, &arguments))?;
        } else {
            let Ok(kernel) = kernel.cast::<Kernel>() else {
                return Err(option(
                    kernel,
                    "a launch takes a kernel of lathe.kernel or of lathe.device.Kernel",
                ));
            };
            let add = |built: &lathe::Built, arguments: &[Argument]| built.add_to(&mut sequence(), arguments);
            compiled::launch(&self.device, kernel, args, options, &add, |py, (), _| Ok(py.None()))?;
        }
        self.tagged.lock().unwrap_or_else(PoisonError::into_inner).push(args.clone().unbind());
        Ok(())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        away(py, || Ok(self.sequence.lock().unwrap_or_else(PoisonError::into_inner).len()))
    }

    /// Starts all of them, as one launch.
    fn launch(&self, py: Python<'_>) -> PyResult<Launch> {
        let launch = away(py, || self.sequence.lock().unwrap_or_else(PoisonError::into_inner).launch())?;
        Ok(Launch { launches: smallvec![launch], compiled: None, _devices: self.devices.clone_ref(py) })
    }
}
