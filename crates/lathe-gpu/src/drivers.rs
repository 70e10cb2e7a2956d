//! The drivers of CUDA and OpenCL as one driver of plans.

use crate::cuda::open as cuda;
use crate::limit::limit;
use crate::marks::{Event, Known, Mark, Opened, cuda_result, failed, fault_of_cuda};
use crate::opencl::open as opencl;
use crate::work::{HostBytes, Line, Memory, Outcome, Queue, Start, StatusPlace};
use lathe_diagnostics::Diagnostic;
use lathe_host::{Device, Driver, Fault, FaultKind, Interval, Side, Stream};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ffi::{c_int, c_uint, c_void};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A stream: how many actions it was given and how many have ended. Events are behind some of them only: behind the last
/// where someone asks, and behind one that is followed by another which does not replace it.
struct Tail {
    line: Line,
    given: u64,
    ended: u64,
    /// How many actions each event is behind, in their order; those that are known to have been reached are gone.
    events: VecDeque<(u64, Arc<Event>)>,
}

/// Several devices.
pub(crate) struct Drivers {
    devices: Vec<Opened>,
    /// The first queue of each: a device that is listed twice has queues for both.
    first: Vec<usize>,
    /// What each stream was given, by device and number.
    tails: Vec<Vec<Option<Tail>>>,
    /// When the times of each begin, where they are taken.
    base: Vec<Option<Arc<Event>>>,
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
        let tails = devices.iter().map(|_| Vec::new()).collect();
        let before = |n: usize| devices[..n].iter().filter(|d| d.is(devices[n])).count();
        let first = (0..devices.len()).map(|n| before(n) * (streams + Stream::OF_COPIES)).collect();
        (all, Drivers { devices: devices.to_vec(), first, tails, base, times: false, late: false })
    }

    /// From now on the times of actions are taken, or not.
    pub fn take_times(&mut self, take: bool) {
        self.times = take;
        self.base.iter_mut().for_each(|b| *b = None);
        if take {
            for n in 0..self.devices.len() {
                let stream = Stream::first_launch(n);
                let mark = self.mark(stream, &[]).ok().and_then(|m| m.known);
                self.base[n] = mark.and_then(|k| k.times.as_ref().map(|t| Arc::clone(&t.1)));
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

    /// A stream, made when it is first used; the context of its device is current.
    fn tail(&mut self, stream: Stream) -> Result<&mut Tail, Fault> {
        let (device, number) = (stream.device as usize, stream.number as usize);
        if self.tails[device].get(number).is_none_or(Option::is_none) {
            let line = self.line(stream)?;
            let all = &mut self.tails[device];
            all.resize_with(all.len().max(number + 1), || None);
            all[number] = Some(Tail { line, given: 0, ended: 0, events: VecDeque::new() });
        }
        let tail = self.tails[device][number].as_mut();
        tail.ok_or_else(|| Fault::new(FaultKind::Failed, "there is no such stream"))
    }

    /// Waits for the mark of another action. That this one failed is its own matter, and is told under its name.
    fn reach(&mut self, mark: &Mark) -> Result<(), Fault> {
        match self.wait(mark) {
            Err(fault) if fault.kind == FaultKind::Lost => Err(fault),
            _ => Ok(()),
        }
    }

    /// Does something in a stream behind marks, and behind what the stream was given before.
    fn act(
        &mut self,
        stream: Stream,
        after: &[Mark],
        replaces: bool,
        times: bool,
        what: &dyn Fn(Line) -> Result<Outcome, Fault>,
    ) -> Result<Mark, Fault> {
        // Marks of other drivers and contexts are waited for by the host.
        let here = self.devices[stream.device as usize];
        let known = |m: &Mark| match (here, self.devices[m.stream.device as usize]) {
            (Opened::Cuda(_), Opened::Cuda(_)) => true,
            (Opened::OpenCl(a), Opened::OpenCl(b)) => a.number == b.number,
            _ => false,
        };
        let (known, others): (SmallVec<[&Mark; 4]>, SmallVec<[&Mark; 4]>) =
            after.iter().partition(|m| known(m));
        others.into_iter().try_for_each(|m| self.reach(m))?;
        let mut behind: SmallVec<[Arc<Event>; 4]> = SmallVec::new();
        for m in known {
            behind.extend(self.behind(m)?);
        }
        let _entered = match here {
            Opened::Cuda(device) => Some(device.enter().map_err(failed)?),
            Opened::OpenCl(_) => None,
        };
        let tail = self.tail(stream)?;
        if !replaces || times {
            tail.close(false)?;
        }
        tail.wait_for(&behind)?;
        let begin = if times { Some(tail.event(true)?) } else { None };
        let outcome = what(tail.line)?;
        tail.given += 1;
        let times = match begin {
            Some(begin) => tail.close(true)?.map(|end| (begin, end)),
            None => None,
        };
        tail.line.flush()?;
        let known = match (&outcome, &times) {
            (Outcome::None, None) => None,
            _ => Some(Arc::new(Known { times, outcome, ended: AtomicBool::new(false) })),
        };
        Ok(Mark { stream, at: tail.given, known })
    }

    /// An event behind the action of a mark; none where it has ended.
    fn behind(&mut self, mark: &Mark) -> Result<Option<Arc<Event>>, Fault> {
        let (device, number) = (mark.stream.device as usize, mark.stream.number as usize);
        if self.tails[device].get(number).is_some_and(|t| t.as_ref().is_some_and(|t| t.ended >= mark.at)) {
            return Ok(None);
        }
        let _entered = match self.devices[mark.stream.device as usize] {
            Opened::Cuda(device) => Some(device.enter().map_err(failed)?),
            Opened::OpenCl(_) => None,
        };
        let tail = self.tail(mark.stream)?;
        if tail.events.back().is_none_or(|e| e.0 < mark.at) {
            tail.close(false)?;
        }
        Ok(tail.events.iter().find(|e| e.0 >= mark.at).map(|e| Arc::clone(&e.1)))
    }

    /// Whether a stream has reached an action.
    fn reached(&mut self, mark: &Mark) -> Result<bool, Fault> {
        loop {
            let Some(event) = self.behind(mark)? else { return Ok(true) };
            let tail = self.tail(mark.stream)?;
            // Events are reached in their order: the first one is asked.
            let (at, first) = tail.events.front().map_or((mark.at, &event), |f| (f.0, &f.1));
            if !ask(first)? {
                return Ok(false);
            }
            tail.ended = at;
            tail.events.pop_front();
        }
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
}

impl Tail {
    /// An event behind what the stream was given so far.
    fn event(&self, times: bool) -> Result<Event, Fault> {
        match self.line {
            Line::Cuda { device, stream } => {
                let handle = device.event(times).map_err(failed)?;
                let event = Event { device: Opened::Cuda(device), handle, times };
                let recorded = (device.calls.record)(handle as cuda::Handle, stream as cuda::Handle);
                cuda_result(device, "recording an event", recorded)?;
                Ok(event)
            }
            Line::OpenCl { device, queue } => {
                let mut e: opencl::Handle = std::ptr::null_mut();
                let made = (device.calls.marker)(queue as opencl::Handle, 0, std::ptr::null_mut(), &mut e);
                device.check("making an event", made).map_err(failed)?;
                self.line.flush()?;
                Ok(Event { device: Opened::OpenCl(device), handle: e as usize, times })
            }
        }
    }

    /// Has an event behind the last action, unless that has ended; what it is, if it was made now.
    fn close(&mut self, times: bool) -> Result<Option<Arc<Event>>, Fault> {
        if self.given <= self.events.back().map_or(self.ended, |e| e.0) {
            return Ok(None);
        }
        let event = Arc::new(self.event(times)?);
        self.events.push_back((self.given, Arc::clone(&event)));
        Ok(Some(event))
    }

    /// What comes now in the stream waits for events.
    fn wait_for(&self, events: &[Arc<Event>]) -> Result<(), Fault> {
        if events.is_empty() {
            return Ok(());
        }
        match self.line {
            Line::Cuda { device, stream } => events.iter().try_for_each(|e| {
                let waits = (device.calls.wait)(stream as cuda::Handle, e.handle as cuda::Handle, 0);
                cuda_result(device, "waiting for an event", waits)
            }),
            Line::OpenCl { device, queue } => {
                let events: SmallVec<[opencl::Handle; 4]> =
                    events.iter().map(|e| e.handle as opencl::Handle).collect();
                let (count, none) = (events.len() as c_uint, std::ptr::null_mut());
                let waits = (device.calls.barrier)(queue as opencl::Handle, count, events.as_ptr(), none);
                device.check("waiting for events", waits).map_err(failed)
            }
        }
    }
}

/// Whether an event was reached.
fn ask(event: &Event) -> Result<bool, Fault> {
    match event.device {
        Opened::Cuda(d) => match (d.calls.query)(event.handle as cuda::Handle) {
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
                (d.calls.event_info)(event.handle as opencl::Handle, 0x11d3, 4, at, std::ptr::null_mut());
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

impl Driver for Drivers {
    type Memory = Memory;
    type Host = HostBytes;
    type Mark = Mark;
    type Work = dyn Start;

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
        after: &[Mark],
        from: Side<'_, HostBytes, Memory>,
        to: Side<'_, HostBytes, Memory>,
        range: &Range<u64>,
    ) -> Result<Mark, Fault> {
        // To memory that is not pinned, a driver copies while its caller waits, however long: that wait has no limit.
        if matches!(&to, Side::Host(h) if !h.is_of_cuda()) {
            after.iter().try_for_each(|m| self.reach(m))?;
        }
        let devices = self.devices.clone();
        let copy = |line: Line| Drivers::copy_on(line, &from, &to, range, &devices).map(|()| Outcome::None);
        self.act(stream, after, false, self.times, &copy)
    }

    fn launch(
        &mut self,
        stream: Stream,
        after: &[Mark],
        work: &(dyn Start + 'static),
        memory: &[Option<&Memory>],
        replaces: bool,
    ) -> Result<Mark, Fault> {
        let memory: SmallVec<[Option<Memory>; 8]> = memory.iter().map(|m| m.copied()).collect();
        let start = |line: Line| work.start(Queue(line), &memory).map_err(failed);
        // What starts later has no event behind it before that, and no times.
        let times = self.times && !work.starts_later();
        self.act(stream, after, replaces, times, &start)
    }

    fn mark(&mut self, stream: Stream, after: &[Mark]) -> Result<Mark, Fault> {
        self.act(stream, after, false, self.times, &|_| Ok(Outcome::None))
    }

    fn ended(&mut self, mark: &Mark) -> Result<bool, Fault> {
        if !self.reached(mark)? {
            return Ok(false);
        }
        let Some(known) = &mark.known else { return Ok(true) };
        known.ended.store(true, Ordering::Relaxed);
        match &known.outcome {
            Outcome::None => Ok(true),
            Outcome::Status(places) => {
                let bad = |p: &&StatusPlace| p.read() != lathe_abi::status::OK;
                let Some(place) = places.iter().find(bad) else { return Ok(true) };
                let status = place.read();
                if let Some(seen) = &place.seen {
                    seen.store(status, Ordering::Release);
                }
                Err(Fault::new(FaultKind::Failed, (place.explain)(status)))
            }
        }
    }

    fn wait(&mut self, mark: &Mark) -> Result<(), Fault> {
        let (start, limit) = (Instant::now(), limit());
        let device = self.devices[mark.stream.device as usize];
        loop {
            if self.ended(mark)? {
                return Ok(());
            }
            let waited = start.elapsed();
            if waited > limit {
                self.late = true;
                let text = format!(
                    "it did not finish on {} within {} s (LATHE_DEVICE_SECONDS allows more)",
                    device.name(),
                    limit.as_secs()
                );
                return Err(Fault::new(FaultKind::Lost, text));
            }
            // A device that is the processor needs it.
            let own = matches!(device, Opened::OpenCl(_));
            match waited.as_micros() {
                0..=500 if !own => std::hint::spin_loop(),
                0..=5000 => std::thread::sleep(Duration::from_micros(20)),
                _ => std::thread::sleep(Duration::from_micros(if own { 500 } else { 50 })),
            }
        }
    }

    fn lost(&mut self, device: usize) {
        self.devices[device].give_up();
    }

    fn interval(&mut self, mark: &Mark) -> Option<Interval> {
        let (begin, end) = mark.known.as_ref()?.times.as_ref()?;
        let device = self.devices[mark.stream.device as usize];
        let number = self.devices.iter().position(|d| d.is(device))?;
        let base = Arc::clone(self.base[number].as_ref()?);
        match device {
            Opened::Cuda(d) => {
                let _entered = d.enter().ok()?;
                let since = |e: &Event| {
                    let (mut ms, from) = (0f32, base.handle as cuda::Handle);
                    let asked = (d.calls.elapsed)(&mut ms, from, e.handle as cuda::Handle);
                    (asked == 0).then_some(f64::from(ms) * 1e-3)
                };
                Some(Interval { start: since(begin)?, end: since(end)? })
            }
            Opened::OpenCl(d) => {
                let at = |e: &Event| {
                    let mut ns = 0u64;
                    let to = std::ptr::from_mut(&mut ns).cast();
                    // CL_PROFILING_COMMAND_END
                    let asked =
                        (d.calls.times)(e.handle as opencl::Handle, 0x1283, 8, to, std::ptr::null_mut());
                    (asked == 0).then_some(ns as f64 * 1e-9)
                };
                let from = at(&base)?;
                Some(Interval { start: at(begin)? - from, end: at(end)? - from })
            }
        }
    }
}
