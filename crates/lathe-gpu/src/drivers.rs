//! The drivers of CUDA and OpenCL as one driver of plans.

use crate::cuda::open as cuda;
use crate::limit::limit;
use crate::marks::{Marked, Opened, cuda_result, failed, fault_of_cuda};
use crate::opencl::open as opencl;
use crate::work::{HostBytes, Line, Memory, Outcome, Queue, Start};
use lathe_diagnostics::Diagnostic;
use lathe_host::{Device, Driver, Fault, FaultKind, Interval, Side, Stream};
use std::ffi::{c_int, c_uint, c_void};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Several devices.
pub(crate) struct Drivers {
    devices: Vec<Opened>,
    /// The first queue of each: a device that is listed twice has queues for both.
    first: Vec<usize>,
    /// When the times of each begin, where they are taken.
    base: Vec<Option<Arc<Marked>>>,
    times: bool,
    /// Something did not end in time.
    pub late: bool,
}

impl Drivers {
    /// Opens the devices for an executor, each with so many queues for kernels.
    pub fn new(devices: &[Opened], streams: usize) -> (Vec<Device>, Drivers) {
        let one = |(n, d): (usize, &Opened)| {
            let bytes = match d {
                Opened::Cuda(d) => d.free_bytes(),
                Opened::OpenCl(d) => d.bytes,
            };
            let reaches = |other: &Opened| match (d, other) {
                _ if d.is(*other) => true,
                (Opened::Cuda(a), Opened::Cuda(b)) => a.enter().is_ok_and(|_entered| a.reach(b)),
                _ => false,
            };
            let peers =
                devices.iter().enumerate().filter(|(m, o)| *m != n && reaches(o)).map(|p| p.0).collect();
            Device { name: d.name().to_string(), bytes: Some(bytes), streams, peers }
        };
        let all = devices.iter().enumerate().map(one).collect();
        let base = devices.iter().map(|_| None).collect();
        let before = |n: usize| devices[..n].iter().filter(|d| d.is(devices[n])).count();
        let first = (0..devices.len()).map(|n| before(n) * (streams + 2)).collect();
        (all, Drivers { devices: devices.to_vec(), first, base, times: false, late: false })
    }

    /// From now on the times of actions are taken, or not.
    pub fn take_times(&mut self, take: bool) {
        self.times = take;
        self.base.iter_mut().for_each(|b| *b = None);
        if take {
            for n in 0..self.devices.len() {
                let stream = Stream { device: n as u32, number: 2 };
                self.base[n] = self.mark(stream, &[]).ok();
            }
        }
    }

    fn line(&self, stream: Stream) -> Result<Line, Fault> {
        let number = self.first[stream.device as usize] + stream.number as usize;
        match self.devices[stream.device as usize] {
            Opened::Cuda(device) => {
                device.stream(number).map(|stream| Line::Cuda { device, stream }).map_err(failed)
            }
            Opened::OpenCl(device) => {
                device.queue(number).map(|queue| Line::OpenCl { device, queue }).map_err(failed)
            }
        }
    }

    /// Waits for the mark of another action. That this one failed is its own matter, and is told under its name.
    fn reach(&mut self, mark: &Arc<Marked>) -> Result<(), Fault> {
        match self.wait(mark) {
            Err(fault) if fault.kind == FaultKind::Lost => Err(fault),
            _ => Ok(()),
        }
    }

    /// Does something in a stream between marks.
    fn act(
        &mut self,
        stream: Stream,
        after: &[Arc<Marked>],
        what: &dyn Fn(Line) -> Result<Outcome, Fault>,
    ) -> Result<Arc<Marked>, Fault> {
        // Marks of other drivers and contexts are waited for by the host.
        let here = self.devices[stream.device as usize];
        for m in after {
            let known = match (here, m.device) {
                (Opened::Cuda(_), Opened::Cuda(_)) => true,
                (Opened::OpenCl(a), Opened::OpenCl(b)) => a.number == b.number,
                _ => false,
            };
            if !known {
                self.reach(m)?;
            }
        }
        match here {
            Opened::Cuda(device) => self.act_cuda(device, stream, after, what),
            Opened::OpenCl(device) => self.act_opencl(device, stream, after, what),
        }
    }

    fn act_cuda(
        &mut self,
        device: &'static cuda::Opened,
        stream: Stream,
        after: &[Arc<Marked>],
        what: &dyn Fn(Line) -> Result<Outcome, Fault>,
    ) -> Result<Arc<Marked>, Fault> {
        let _entered = device.enter().map_err(failed)?;
        let line = self.line(stream)?;
        let Line::Cuda { stream: s, .. } = line else {
            return Err(Fault::new(FaultKind::Failed, "no stream"));
        };
        let (c, s) = (&device.calls, s as cuda::Handle);
        for m in after.iter().filter(|m| matches!(m.device, Opened::Cuda(_))) {
            cuda_result(device, "waiting for an event", (c.wait)(s, m.end as cuda::Handle, 0))?;
        }
        let times = self.times;
        let mut marked = Marked {
            device: Opened::Cuda(device),
            begin: 0,
            end: 0,
            times,
            outcome: Outcome::None,
            reached: AtomicBool::new(false),
        };
        if times {
            marked.begin = device.event(true).map_err(failed)?;
            cuda_result(device, "recording an event", (c.record)(marked.begin as cuda::Handle, s))?;
        }
        marked.outcome = what(line)?;
        marked.end = device.event(times).map_err(failed)?;
        cuda_result(device, "recording an event", (c.record)(marked.end as cuda::Handle, s))?;
        Ok(Arc::new(marked))
    }

    fn act_opencl(
        &mut self,
        device: &'static opencl::Opened,
        stream: Stream,
        after: &[Arc<Marked>],
        what: &dyn Fn(Line) -> Result<Outcome, Fault>,
    ) -> Result<Arc<Marked>, Fault> {
        let line = self.line(stream)?;
        let Line::OpenCl { queue, .. } = line else { return Err(Fault::new(FaultKind::Failed, "no queue")) };
        let (c, q) = (&device.calls, queue as opencl::Handle);
        let here = |m: &&Arc<Marked>| matches!(m.device, Opened::OpenCl(d) if d.number == device.number);
        let events: Vec<opencl::Handle> =
            after.iter().filter(here).map(|m| m.end as opencl::Handle).collect();
        let check = |what: &str, result: c_int| device.check(what, result).map_err(failed);
        if !events.is_empty() {
            let none = std::ptr::null_mut();
            check("waiting for events", (c.barrier)(q, events.len() as c_uint, events.as_ptr(), none))?;
        }
        let marker = |at: &mut usize| {
            let mut e: opencl::Handle = std::ptr::null_mut();
            let made = (c.marker)(q, 0, std::ptr::null_mut(), &mut e);
            *at = e as usize;
            check("making an event", made)
        };
        let mut marked = Marked {
            device: Opened::OpenCl(device),
            begin: 0,
            end: 0,
            times: self.times,
            outcome: Outcome::None,
            reached: AtomicBool::new(false),
        };
        if self.times {
            marker(&mut marked.begin)?;
        }
        marked.outcome = what(line)?;
        marker(&mut marked.end)?;
        check("starting", (c.flush)(q))?;
        Ok(Arc::new(marked))
    }

    fn copy_on(
        line: Line,
        from: &Side<'_, HostBytes, Memory>,
        to: &Side<'_, HostBytes, Memory>,
        range: &Range<u64>,
        devices: &[Opened],
    ) -> Result<(), Fault> {
        let bytes = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let at = range.start;
        let on_host = |h: &HostBytes| h.address().wrapping_add(at as usize);
        match line {
            Line::Cuda { device, stream } => {
                let (c, s) = (&device.calls, stream as cuda::Handle);
                match (from, to) {
                    (Side::Host(h), Side::Device(_, m)) => {
                        let done = (c.to_device_on)(m.raw() + at, on_host(h).cast_const().cast(), bytes, s);
                        cuda_result(device, "copying to the device", done)
                    }
                    (Side::Device(_, m), Side::Host(h)) => {
                        let done = (c.to_host_on)(on_host(h).cast(), m.raw() + at, bytes, s);
                        cuda_result(device, "copying from the device", done)
                    }
                    (Side::Device(a, m), Side::Device(b, n)) => {
                        let context = |n: usize| devices[n].cuda().map_or(0, |d| d.context) as cuda::Handle;
                        let done =
                            (c.between)(n.raw() + at, context(*b), m.raw() + at, context(*a), bytes, s);
                        cuda_result(device, "copying between devices", done)
                    }
                    (Side::Host(_), Side::Host(_)) => Ok(()),
                }
            }
            Line::OpenCl { device, queue } => {
                let (c, q) = (&device.calls, queue as opencl::Handle);
                let (none, at) = (std::ptr::null_mut(), at as usize);
                let done = match (from, to) {
                    (Side::Host(h), Side::Device(_, m)) => {
                        let m = m.raw() as opencl::Handle;
                        (c.write)(q, m, 0, at, bytes, on_host(h).cast_const().cast(), 0, none, none)
                    }
                    (Side::Device(_, m), Side::Host(h)) => {
                        let m = m.raw() as opencl::Handle;
                        (c.read)(q, m, 0, at, bytes, on_host(h).cast::<c_void>(), 0, none, none)
                    }
                    // Contexts of OpenCL do not see each other, so that both are on one device.
                    (Side::Device(_, m), Side::Device(_, n)) => {
                        let (m, n) = (m.raw() as opencl::Handle, n.raw() as opencl::Handle);
                        (c.between)(q, m, n, at, at, bytes, 0, none, none)
                    }
                    (Side::Host(_), Side::Host(_)) => return Ok(()),
                };
                device.check("copying", done).map_err(failed)
            }
        }
    }

    /// The state of a mark: whether it was reached.
    fn ask(&self, mark: &Marked) -> Result<bool, Fault> {
        match mark.device {
            Opened::Cuda(d) => match (d.calls.query)(mark.end as cuda::Handle) {
                0 => Ok(true),
                cuda::NOT_READY => Ok(false),
                other => {
                    let mut fault = fault_of_cuda(d, "running the kernels", other);
                    fault.kind = FaultKind::Lost;
                    Err(fault)
                }
            },
            Opened::OpenCl(d) => {
                let mut state: c_int = 0;
                // CL_EVENT_COMMAND_EXECUTION_STATUS: 0 is complete, negative a failure.
                let at = std::ptr::from_mut(&mut state).cast();
                let asked =
                    (d.calls.event_info)(mark.end as opencl::Handle, 0x11d3, 4, at, std::ptr::null_mut());
                d.check("asking for the state", asked).map_err(failed)?;
                match state {
                    0 => Ok(true),
                    1.. => Ok(false),
                    _ => Err(failed(d.check("running the kernels", state).err().unwrap_or_else(|| {
                        Diagnostic::error(crate::codes::DRIVER, "running the kernels failed")
                    }))),
                }
            }
        }
    }
}

impl Driver for Drivers {
    type Memory = Memory;
    type Host = HostBytes;
    type Mark = Arc<Marked>;
    type Work = Arc<dyn Start>;

    fn allocate(&mut self, device: usize, bytes: u64) -> Result<Memory, Fault> {
        let size = usize::try_from(bytes.max(16)).unwrap_or(usize::MAX);
        match self.devices[device] {
            Opened::Cuda(d) => {
                let _entered = d.enter().map_err(failed)?;
                let mut p = 0;
                let what = format!("allocating {bytes} bytes");
                cuda_result(d, &what, (d.calls.alloc)(&mut p, size))?;
                Ok(Memory::Cuda(p))
            }
            Opened::OpenCl(d) => {
                let mut error = 0;
                let none = std::ptr::null_mut();
                let made = (d.calls.buffer)(d.context as opencl::Handle, 1, size, none, &mut error);
                let done = d.check(&format!("allocating {bytes} bytes"), error);
                // CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY, CL_INVALID_BUFFER_SIZE
                let kind =
                    if [-4, -5, -6, -61].contains(&error) { FaultKind::Memory } else { FaultKind::Failed };
                done.map_err(|d| Fault::new(kind, d.message))?;
                Ok(Memory::OpenCl(made as usize))
            }
        }
    }

    fn attach(&mut self, device: usize, host: &HostBytes) -> Result<Memory, Fault> {
        match self.devices[device] {
            // By one address everywhere: pinned memory and managed memory.
            Opened::Cuda(d) => match host.is_of_cuda() {
                true => Ok(Memory::Cuda(host.address() as u64)),
                false => Err(Fault::new(
                    FaultKind::Failed,
                    format!("{} does not see this memory of the host", d.name),
                )),
            },
            Opened::OpenCl(d) if d.unified => {
                let mut error = 0;
                let (bytes, at) = (host.len().max(16), host.address().cast());
                // CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR
                let made = (d.calls.buffer)(d.context as opencl::Handle, 9, bytes, at, &mut error);
                d.check("sharing memory of the host", error).map_err(failed)?;
                Ok(Memory::OpenCl(made as usize))
            }
            Opened::OpenCl(d) => {
                let text = format!("{} has memory of its own: use plain or pinned buffers", d.name);
                Err(Fault::new(FaultKind::Failed, text))
            }
        }
    }

    fn free(&mut self, device: usize, memory: Memory) {
        match (self.devices[device], memory) {
            (Opened::Cuda(d), Memory::Cuda(p)) => {
                if let Ok(_entered) = d.enter() {
                    (d.calls.free)(p);
                }
            }
            (Opened::OpenCl(d), Memory::OpenCl(m)) => {
                (d.calls.release_buffer)(m as opencl::Handle);
            }
            _ => {}
        }
    }

    fn detach(&mut self, device: usize, memory: Memory) {
        // The host's memory is the host's; OpenCL made an object for it.
        if let Memory::OpenCl(_) = memory {
            self.free(device, memory);
        }
    }

    fn copy(
        &mut self,
        stream: Stream,
        after: &[Arc<Marked>],
        from: Side<'_, HostBytes, Memory>,
        to: Side<'_, HostBytes, Memory>,
        range: &Range<u64>,
    ) -> Result<Arc<Marked>, Fault> {
        // To memory that is not pinned, a driver copies while its caller waits, however long: that wait has no limit.
        if matches!(&to, Side::Host(h) if !h.is_of_cuda()) {
            after.iter().try_for_each(|m| self.reach(m))?;
        }
        let devices = self.devices.clone();
        let copy = |line: Line| Drivers::copy_on(line, &from, &to, range, &devices).map(|()| Outcome::None);
        self.act(stream, after, &copy)
    }

    fn launch(
        &mut self,
        stream: Stream,
        after: &[Arc<Marked>],
        work: Arc<dyn Start>,
        memory: &[Option<&Memory>],
    ) -> Result<Arc<Marked>, Fault> {
        let memory: Vec<Option<Memory>> = memory.iter().map(|m| m.copied()).collect();
        let start = |line: Line| work.start(Queue(line), &memory).map_err(failed);
        self.act(stream, after, &start)
    }

    fn mark(&mut self, stream: Stream, after: &[Arc<Marked>]) -> Result<Arc<Marked>, Fault> {
        self.act(stream, after, &|_| Ok(Outcome::None))
    }

    fn ended(&mut self, mark: &Arc<Marked>) -> Result<bool, Fault> {
        if !mark.reached.load(Ordering::Relaxed) {
            if !self.ask(mark)? {
                return Ok(false);
            }
            mark.reached.store(true, Ordering::Relaxed);
        }
        match &mark.outcome {
            Outcome::None => Ok(true),
            Outcome::Status(place) => match place.read() {
                lathe_abi::status::OK => Ok(true),
                status => {
                    if let Some(seen) = &place.seen {
                        seen.store(status, Ordering::Release);
                    }
                    Err(Fault::new(FaultKind::Failed, (place.explain)(status)))
                }
            },
        }
    }

    fn wait(&mut self, mark: &Arc<Marked>) -> Result<(), Fault> {
        let (start, limit) = (Instant::now(), limit());
        loop {
            if self.ended(mark)? {
                return Ok(());
            }
            let waited = start.elapsed();
            if waited > limit {
                self.late = true;
                let text = format!(
                    "it did not finish on {} within {} s (LATHE_DEVICE_SECONDS allows more)",
                    mark.device.name(),
                    limit.as_secs()
                );
                return Err(Fault::new(FaultKind::Lost, text));
            }
            // A device that is the processor needs it.
            let own = matches!(mark.device, Opened::OpenCl(_));
            match waited.as_micros() {
                0..=500 if !own => std::hint::spin_loop(),
                0..=5000 => std::thread::sleep(Duration::from_micros(20)),
                _ => std::thread::sleep(Duration::from_micros(if own { 500 } else { 50 })),
            }
        }
    }

    fn interval(&mut self, mark: &Arc<Marked>) -> Option<Interval> {
        let number = self.devices.iter().position(|d| d.is(mark.device))?;
        let base = Arc::clone(self.base[number].as_ref()?);
        if !mark.times || mark.begin == 0 {
            return None;
        }
        match mark.device {
            Opened::Cuda(d) => {
                let _entered = d.enter().ok()?;
                let since = |e: usize| {
                    let mut ms = 0f32;
                    let asked = (d.calls.elapsed)(&mut ms, base.end as cuda::Handle, e as cuda::Handle);
                    (asked == 0).then_some(f64::from(ms) * 1e-3)
                };
                Some(Interval { start: since(mark.begin)?, end: since(mark.end)? })
            }
            Opened::OpenCl(d) => {
                let at = |e: usize| {
                    let mut ns = 0u64;
                    let to = std::ptr::from_mut(&mut ns).cast();
                    // CL_PROFILING_COMMAND_END
                    let asked = (d.calls.times)(e as opencl::Handle, 0x1283, 8, to, std::ptr::null_mut());
                    (asked == 0).then_some(ns as f64 * 1e-9)
                };
                let from = at(base.end)?;
                Some(Interval { start: at(mark.begin)? - from, end: at(mark.end)? - from })
            }
        }
    }
}
