//! Devices that share buffers, what they counted, and when what ran.

use super::away::{Away, away};
use super::launch::Launch;
use super::part::Part;
use crate::errors;
use crate::refusals::argument_error;
use lathe::Cache;
use lathe::device::{Combine, DeviceInfo};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Devices with numbers from 0, between which buffers move. What is compiled for them is kept in the user's cache.
#[pyclass(subclass, frozen, weakref, module = "lathe._lathe", name = "Devices")]
pub struct Devices {
    pub all: Away<lathe::device::Devices>,
}

#[pymethods]
impl Devices {
    /// Opens devices by their ids (`cuda:1`), of which one may be there several times.
    #[new]
    fn new(py: Python<'_>, ids: Vec<String>) -> PyResult<Devices> {
        let all = away(py, || {
            let kinds = |kind: &str| ids.iter().any(|i| i.split(':').next() == Some(kind));
            let mut found: Vec<DeviceInfo> = Vec::new();
            for kind in ["cuda", "opencl"].into_iter().filter(|k| kinds(k)) {
                found.extend(lathe::device::devices_of(kind)?);
            }
            let mut wanted = Vec::new();
            for id in &ids {
                match found.iter().find(|d| d.id == *id) {
                    Some(d) => wanted.push(d.clone()),
                    // Says what there is.
                    None => return lathe::device::Devices::named(id),
                }
            }
            lathe::device::Devices::open(wanted)
        })?;
        if let Some(cache) = Cache::user() {
            lathe::device::keep_code(&all, cache);
        }
        Ok(Devices { all: Away::new(all) })
    }

    fn __len__(&self) -> usize {
        self.all.len()
    }

    /// Starts a kernel of Lathe on all of these devices, which its loops over devices share, and returns.
    #[pyo3(signature = (kernel, *args, **options))]
    fn launch<'py>(
        this: &Bound<'py, Self>,
        kernel: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        super::launch::launch_on(this, kernel, args, options)
    }

    /// What the driver says of a device.
    fn info<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyDict>> {
        let device = self.all.device(number).map_err(|d| errors::bare(py, d))?;
        crate::devices::described(py, device.info())
    }

    /// The n-th part becomes, on the n-th device, the combination of all parts: "sum", "product", "max", "min".
    #[pyo3(signature = (parts, combine="sum"))]
    fn all_reduce(this: &Bound<'_, Self>, parts: Vec<Py<Part>>, combine: &str) -> PyResult<Launch> {
        let (py, combine) = (this.py(), combination(this.py(), combine)?);
        let parts = plain(py, &parts)?;
        let all = &*this.get().all;
        Launch::of(this, away(py, || all.all_reduce(combine, &parts))?)
    }

    /// The n-th part becomes, on the n-th device, the combination of the n-th pieces of all arrays.
    #[pyo3(signature = (arrays, parts, combine="sum"))]
    fn reduce_scatter(
        this: &Bound<'_, Self>,
        arrays: Vec<Py<Part>>,
        parts: Vec<Py<Part>>,
        combine: &str,
    ) -> PyResult<Launch> {
        let (py, combine) = (this.py(), combination(this.py(), combine)?);
        let (arrays, parts) = (plain(py, &arrays)?, plain(py, &parts)?);
        let all = &*this.get().all;
        Launch::of(this, away(py, || all.reduce_scatter(combine, &arrays, &parts))?)
    }

    /// The n-th part becomes, on the n-th device, what the part of the device `root` is.
    #[pyo3(signature = (parts, root=0))]
    fn broadcast(this: &Bound<'_, Self>, parts: Vec<Py<Part>>, root: usize) -> PyResult<Launch> {
        let (py, parts) = (this.py(), plain(this.py(), &parts)?);
        let all = &*this.get().all;
        Launch::of(this, away(py, || all.broadcast(root, &parts))?)
    }

    /// The n-th array becomes, on the n-th device, all parts, one after the other.
    fn all_gather(this: &Bound<'_, Self>, parts: Vec<Py<Part>>, arrays: Vec<Py<Part>>) -> PyResult<Launch> {
        let py = this.py();
        let (parts, arrays) = (plain(py, &parts)?, plain(py, &arrays)?);
        let all = &*this.get().all;
        Launch::of(this, away(py, || all.all_gather(&parts, &arrays))?)
    }

    /// Buffers take at most so many bytes of a device from now on; what does not fit leaves it, and comes back when it is used.
    fn bound(&self, py: Python<'_>, device: usize, bytes: u64) -> PyResult<()> {
        away(py, || {
            self.all.device(device)?;
            self.all.bound(device, bytes)
        })
    }

    /// Waits until all that was launched has ended. What failed is raised where its results are used.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        away(py, || self.all.finish())
    }

    /// What was moved, started and compiled so far.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let c = away(py, || self.all.counters())?;
        let out = PyDict::new(py);
        out.set_item("to_device_bytes", c.to_device_bytes)?;
        out.set_item("from_device_bytes", c.from_device_bytes)?;
        out.set_item("between_bytes", c.between_bytes)?;
        out.set_item("copies", c.copies)?;
        out.set_item("launches", c.launches)?;
        out.set_item("evictions", c.evictions)?;
        out.set_item("compiled", c.compiled)?;
        out.set_item("reused", c.reused)?;
        Ok(out)
    }

    /// What the user should know: that a device is full, once for each.
    fn take_notices(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        away(py, || self.all.take_notices())
    }

    /// Takes times from now on, for `profile`, or does not.
    fn keep_profile(&self, py: Python<'_>, keep: bool) -> PyResult<()> {
        away(py, || self.all.keep_profile(keep))
    }

    /// Waits for all that was launched; what ran since the profile was begun or taken the last time.
    fn profile(&self, py: Python<'_>) -> PyResult<DeviceProfile> {
        Ok(DeviceProfile(away(py, || self.all.profile())?))
    }
}

/// Parts as launches take them.
fn plain(py: Python<'_>, parts: &[Py<Part>]) -> PyResult<Vec<lathe::device::Part>> {
    parts.iter().map(|p| p.get().shaped(py, p.get().elements().code)).collect()
}

fn combination(py: Python<'_>, name: &str) -> PyResult<Combine> {
    Ok(match name {
        "sum" => Combine::Sum,
        "product" => Combine::Product,
        "max" => Combine::Max,
        "min" => Combine::Min,
        _ => {
            let text = format!("`{name}` is no combination of parts");
            let help = "sum, product, max, min";
            return Err(argument_error(py, lathe::device::ARGUMENTS, text, &[], Some(help)));
        }
    })
}

/// Initialization, compilation, transfers and execution.
#[pyclass(frozen, module = "lathe._lathe", name = "Profile")]
pub struct DeviceProfile(lathe::device::profile::Profile);

/// A device's number, its queue, a name, bytes of a copy, and the seconds at which it began and ended.
type Span = (Option<usize>, u32, String, Option<u64>, f64, f64);

#[pymethods]
impl DeviceProfile {
    /// A table: what took how long, by name.
    fn text(&self) -> String {
        self.0.text()
    }

    /// All of it as JSON.
    fn json(&self) -> String {
        self.0.json()
    }

    /// A picture: a row for each queue, time from left to right.
    fn svg(&self) -> String {
        self.0.svg()
    }

    /// The trace that `chrome://tracing` and Perfetto show.
    fn chrome(&self) -> String {
        self.0.chrome()
    }

    /// What devices did, in the order in which it began: the device's number, its queue, a name, bytes of a copy (`None` for
    /// kernels), and when it began and ended, in seconds.
    fn spans(&self) -> Vec<Span> {
        let one =
            |s: &lathe::device::profile::Span| (s.device, s.queue, s.name.clone(), s.bytes, s.start, s.end);
        self.0.spans.iter().map(one).collect()
    }

    fn _repr_svg_(&self) -> String {
        self.0.svg()
    }

    fn __str__(&self) -> String {
        self.0.text()
    }
}
