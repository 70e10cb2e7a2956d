//! Functions with loops over devices: every launch on the device of its iteration, with the parts of arrays that it uses.
//!
//! The plan of a function is a program of launches; here each of them is a launch of the executor, which is told which bytes
//! of each array it reads and writes ([`lathe_device::reach`]). Copies, halos and order follow, as for launches of the user's.
//! Iterations go to devices in turn; what is outside of these loops runs on the first one.

use crate::codes;
use crate::drivers::Drivers;
use crate::host::{self, Known, Launch, Launcher, Value};
use crate::info::devices_of;
use crate::kernels::{Kernels, Session};
use crate::marks::Opened;
use crate::work::{HostBytes, HostKind, Memory, Outcome, Queue, Start};
use lathe_abi::status;
use lathe_diagnostics::Diagnostic;
use lathe_host::pieces::Pieces;
use lathe_host::{Access, BufferId, Event, Executor, Mode};
use lathe_ir::{BufId, Buffer};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// An array of the function in a buffer of the executor.
#[derive(Clone)]
pub(crate) struct Array {
    pub id: BufId,
    pub buffer: BufferId,
    /// Where it lies there, in bytes.
    pub range: Range<u64>,
    /// What it held before counts.
    pub defined: bool,
}

/// A run of a function on several devices.
pub(crate) struct Run {
    /// The kernels on each device of the executor.
    pub team: Vec<Arc<Kernels>>,
    pub known: Known,
    pub arrays: Vec<Array>,
    /// Where callers find the status who have their own words for it.
    pub seen: Option<Arc<AtomicI32>>,
    /// How many kernels were started.
    pub started: Arc<AtomicU64>,
}

/// What a run gave the executor.
pub(crate) struct Given {
    pub events: Vec<Event>,
    /// Of each array, the parts that a launch may have written, in bytes of its buffer.
    pub written: Vec<Vec<Range<u64>>>,
}

/// How many devices the loops over devices of a function ask for: at least one.
///
/// # Errors
/// What the host cannot compute.
pub(crate) fn wanted(kernels: &Kernels, known: &Known) -> Result<u64, Diagnostic> {
    struct Count(Vec<u64>, u64);
    impl Launcher for Count {
        fn alloc(&mut self, _: &Buffer, _: u64) -> Result<(), Diagnostic> {
            Ok(())
        }
        fn free(&mut self, _: BufId) {}
        fn enter_device(&mut self, iteration: u64, of: u64) {
            let place = place(&self.0, iteration, of);
            self.0.push(place);
            self.1 = self.1.max(place.saturating_add(1));
        }
        fn leave_device(&mut self) {
            self.0.pop();
        }
        fn launch(&mut self, _: &Launch) -> Result<(), Diagnostic> {
            Ok(())
        }
    }
    let hosted = &kernels.unpacked.host;
    if !hosted.plan.has_devices() {
        return Ok(1);
    }
    let mut count = Count(Vec::new(), 1);
    host::run(hosted, &mut count, known)?;
    Ok(count.1)
}

/// The number of an iteration among those of all loops over devices around.
fn place(around: &[u64], iteration: u64, of: u64) -> u64 {
    around.last().copied().unwrap_or(0).saturating_mul(of).saturating_add(iteration)
}

/// At most so many devices that are like the one of the kernels, which is the first; or those that `LATHE_DEVICES` names
/// (`cuda:0,cuda:1`), of which one may be named several times.
///
/// # Errors
/// `E0841` for what is no such device.
pub(crate) fn team(kernels: &Arc<Kernels>, most: u64) -> Result<Vec<Arc<Kernels>>, Diagnostic> {
    let (kind, number) = match kernels.device {
        Opened::Cuda(d) => ("cuda", d.number),
        Opened::OpenCl(d) => ("opencl", d.number),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if most <= 1 {
        return Ok(vec![Arc::clone(kernels)]);
    }
    let named = std::env::var("LATHE_DEVICES").ok().filter(|n| !n.trim().is_empty());
    let own = format!("{kind}:{number}");
    let alike: Vec<String> =
        devices_of(kind)?.into_iter().filter(|d| d.name == kernels.device.name()).map(|d| d.id).collect();
    let ids: Vec<String> = match named {
        None => std::iter::once(own.clone()).chain(alike.into_iter().filter(|d| *d != own)).collect(),
        Some(list) => {
            let ids: Vec<String> = list.split(',').map(|d| d.trim().to_string()).collect();
            if let Some(bad) = ids.iter().find(|d| !alike.contains(d)) {
                let text =
                    format!("LATHE_DEVICES names `{bad}`, which is no device like `{own}` of this machine");
                return Err(Diagnostic::error(codes::NO_DEVICE, text)
                    .help(format!("devices that can run the same code: {}", alike.join(", "))));
            }
            ids
        }
    };
    let number = |id: &str| id.rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    ids.iter().take(most).map(|id| kernels.on(Opened::new(kind, number(id))?)).collect()
}

impl Run {
    /// Gives the executor all launches. The number of a check that the host finds wrong comes back in place of them; what was
    /// started before it runs.
    ///
    /// # Errors
    /// As [`Executor::launch`].
    pub fn launch(&self, executor: &mut Executor<Drivers>) -> Result<Result<Given, i32>, Diagnostic> {
        let arrays = self.arrays.iter().map(|a| (a.id, Held::new(a))).collect();
        let hosted = &self.team[0].unpacked.host;
        let mut split = Split { run: self, executor, arrays, around: Vec::new(), events: Vec::new() };
        let ran = host::run(hosted, &mut split, &self.known);
        let own: Vec<BufferId> = split.arrays.values().filter(|h| h.own).map(|h| h.array.buffer).collect();
        own.into_iter().for_each(|b| split.executor.release(b));
        let failed = ran?;
        if failed != status::OK {
            return Ok(Err(failed));
        }
        let written = self.arrays.iter().map(|a| split.arrays[&a.id].written()).collect();
        Ok(Ok(Given { events: split.events, written }))
    }
}

/// An array, and what was written of it by this run.
struct Held {
    array: Array,
    /// The run allocated it.
    own: bool,
    touched: Pieces<bool>,
}

impl Held {
    fn new(array: &Array) -> Held {
        let touched = Pieces::new(array.range.end - array.range.start, false);
        Held { array: array.clone(), own: false, touched }
    }

    fn written(&self) -> Vec<Range<u64>> {
        let all = 0..self.touched.len();
        let start = self.array.range.start;
        let written = self.touched.of(&all).filter(|p| *p.1);
        written.map(|(r, _)| start + r.start..start + r.end).collect()
    }

    /// What a launch does with bytes of the array that it reads, or writes some or all of. Bytes that mean nothing yet are
    /// not read; those that do stay as they are where they are not written.
    fn accesses(&mut self, range: &Range<u64>, writes: bool, out: &mut Vec<Access>) {
        let (start, buffer) = (self.array.range.start, self.array.buffer);
        for (r, touched) in self.touched.of(range) {
            let mode = match (writes, self.array.defined || *touched) {
                (false, false) => continue,
                (false, true) => Mode::Read,
                (true, false) => Mode::Write,
                (true, true) => Mode::ReadWrite,
            };
            out.push(Access { buffer, range: start + r.start..start + r.end, mode });
        }
    }
}

struct Split<'a> {
    run: &'a Run,
    executor: &'a mut Executor<Drivers>,
    arrays: HashMap<BufId, Held>,
    /// The places of the loops over devices around, outermost first.
    around: Vec<u64>,
    events: Vec<Event>,
}

impl Launcher for Split<'_> {
    fn alloc(&mut self, buffer: &Buffer, bytes: u64) -> Result<(), Diagnostic> {
        let host = HostBytes::new(bytes, HostKind::Plain, None)
            .map_err(|f| Diagnostic::error(lathe_host::codes::MEMORY, f.text))?;
        let id = self.executor.buffer(host, bytes, false, false);
        let array = Array { id: buffer.id, buffer: id, range: 0..bytes, defined: false };
        if let Some(old) = self.arrays.insert(buffer.id, Held { own: true, ..Held::new(&array) }) {
            self.executor.release(old.array.buffer);
        }
        Ok(())
    }

    fn free(&mut self, buffer: BufId) {
        if let Some(h) = self.arrays.remove(&buffer) {
            self.executor.release(h.array.buffer);
        }
    }

    fn enter_device(&mut self, iteration: u64, of: u64) {
        self.around.push(place(&self.around, iteration, of));
    }

    fn leave_device(&mut self) {
        self.around.pop();
    }

    fn launch(&mut self, l: &Launch) -> Result<(), Diagnostic> {
        let count = self.run.team.len() as u64;
        let device = (self.around.last().copied().unwrap_or(0) % count) as usize;
        let kernels = &self.run.team[device];
        // Each launch has a status of its own here: what must not run after a failure waits.
        if l.kernel.after.is_some() {
            self.events.iter().try_for_each(|event| self.executor.finish_event(*event))?;
        }
        let mut accesses = Vec::new();
        let mut places = Vec::new();
        for r in kernels.reach(l.number, l.known).iter() {
            let Some(held) = self.arrays.get_mut(&r.buffer) else {
                let text = format!("buffer #{} has no memory", r.buffer.0);
                return Err(Diagnostic::error(lathe_engine::codes::DEFECT, text));
            };
            let first = accesses.len();
            let all = held.array.range.end - held.array.range.start;
            let bytes = |e: &Range<u64>| match r.len {
                Some(len) => {
                    let size = all.checked_div(len).unwrap_or(0);
                    e.start * size..e.end * size
                }
                None => 0..all,
            };
            r.reads.iter().for_each(|e| held.accesses(&bytes(e), false, &mut accesses));
            r.writes.iter().for_each(|e| held.accesses(&bytes(e), true, &mut accesses));
            r.writes.iter().for_each(|e| held.touched.change(&bytes(e), |_, touched| *touched = true));
            let at = (accesses.len() > first).then_some(first);
            places.push((r.buffer, at, held.array.range.start));
        }
        let work = One {
            kernels: Arc::clone(kernels),
            number: l.number,
            blocks: l.blocks,
            threads: l.threads,
            arguments: l.arguments.clone(),
            turns: l.turns,
            places,
            seen: self.run.seen.clone(),
            started: Arc::clone(&self.run.started),
        };
        let name = format!("`{}`", kernels.unpacked.host.function.name);
        self.events.push(self.executor.launch(&name, device, &accesses, &work)?);
        Ok(())
    }
}

/// One kernel of a function.
struct One {
    kernels: Arc<Kernels>,
    number: usize,
    blocks: u64,
    threads: u64,
    arguments: Vec<Value>,
    turns: u64,
    /// For each array, which access tells its memory (none where no element is used), and where it begins there.
    places: Vec<(BufId, Option<usize>, u64)>,
    seen: Option<Arc<AtomicI32>>,
    started: Arc<AtomicU64>,
}

impl Start for One {
    fn start(&self, queue: Queue, memory: &[Option<Memory>]) -> Result<Outcome, Diagnostic> {
        let mut session = Session::new(&self.kernels, queue);
        for (id, at, offset) in &self.places {
            let memory = at.and_then(|at| memory.get(at).copied().flatten());
            session.borrow(*id, memory.map(|m| (m, *offset)));
        }
        let known = Known::default();
        let launch = Launch {
            number: self.number,
            kernel: &self.kernels.unpacked.host.kernels[self.number],
            blocks: self.blocks,
            threads: self.threads,
            arguments: self.arguments.clone(),
            turns: self.turns,
            known: &known,
        };
        let ran = session.run_one(&launch, &self.kernels.explain(), self.seen.clone());
        self.started.fetch_add(1, Ordering::Relaxed);
        ran
    }
}
