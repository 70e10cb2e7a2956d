//! Launches that are repeated: one launch for all of them, which devices of CUDA run as a graph.

use super::arguments::{Argument, Grid};
use super::kernel::Kernel;
use super::open::{Compiled, Device, Launch};
use crate::cuda::open as cuda;
use crate::work::{Line, Memory, Outcome, Queue, Start};
use lathe_diagnostics::Diagnostic;
use lathe_engine::memory::Shape;
use lathe_host::pieces::Pieces;
use lathe_host::{Access, BufferId, Mode};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Launches on one device, in their order.
pub struct Sequence {
    device: Device,
    name: String,
    steps: Vec<Step>,
    /// What it reads and writes as a whole, and what starts it; made when it runs first.
    made: Option<(Vec<Access>, Arc<Steps>)>,
}

struct Step {
    accesses: Vec<Access>,
    work: Arc<dyn Start>,
}

impl Sequence {
    pub fn new(device: &Device, name: &str) -> Sequence {
        Sequence { device: device.clone(), name: name.to_string(), steps: Vec::new(), made: None }
    }

    /// One more launch, after those that are there.
    ///
    /// # Errors
    /// As [`Device::launch`]; nothing is started.
    pub fn add(&mut self, kernel: &Kernel, grid: Grid, arguments: &[Argument]) -> Result<(), Diagnostic> {
        let work: Arc<dyn Start> = Arc::new(self.device.prepare(kernel, grid, arguments)?);
        let accesses = self.device.accesses(kernel.name(), arguments)?.into_vec();
        self.steps.push(Step { accesses, work });
        self.made = None;
        Ok(())
    }

    /// One more launch of a function of Lathe, as [`Device::start`] takes it. The number of the check of shapes or types that
    /// does not hold comes back.
    ///
    /// # Errors
    /// As [`Device::start`]; nothing is started.
    pub fn add_compiled(
        &mut self,
        compiled: &Compiled,
        arguments: &[Argument],
        shapes: &[Shape],
    ) -> Result<Result<(), i32>, Diagnostic> {
        Ok(match self.device.invocation(compiled, arguments, shapes)? {
            Ok((accesses, work)) => {
                self.steps.push(Step { accesses: accesses.into_vec(), work: Arc::new(work) });
                self.made = None;
                Ok(())
            }
            Err(failed) => Err(failed),
        })
    }

    /// The device of its launches.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Starts all of them, as one launch.
    ///
    /// # Errors
    /// As [`Device::launch`].
    pub fn launch(&mut self) -> Result<Launch, Diagnostic> {
        let (accesses, steps) = self.made.get_or_insert_with(|| {
            let accesses = together(&self.steps);
            let place = |a: &Access| accesses.iter().position(|o| o.buffer == a.buffer).unwrap_or(usize::MAX);
            let steps = self.steps.iter();
            let steps =
                steps.map(|s| (s.accesses.iter().map(place).collect(), Arc::clone(&s.work))).collect();
            let steps = Steps { steps, graph: Mutex::new(None) };
            (accesses, Arc::new(steps))
        });
        self.device.give(&self.name, accesses, &**steps)
    }
}

/// What a sequence does with its buffers as a whole: a part that is written in full before it is read is only written.
fn together(steps: &[Step]) -> Vec<Access> {
    #[derive(Clone, Copy, PartialEq, Eq, Default)]
    struct Use {
        needed: bool,
        written: bool,
    }
    let mut buffers: BTreeMap<BufferId, Pieces<Use>> = BTreeMap::new();
    for s in steps {
        for a in &s.accesses {
            let end =
                steps.iter().flat_map(|s| &s.accesses).filter(|o| o.buffer == a.buffer).map(|o| o.range.end);
            let pieces = buffers
                .entry(a.buffer)
                .or_insert_with(|| Pieces::new(end.max().unwrap_or(0), Use::default()));
            if a.mode.reads() {
                pieces.change(&a.range, |_, u| u.needed |= !u.written);
            }
        }
        for a in s.accesses.iter().filter(|a| a.mode.writes()) {
            if let Some(pieces) = buffers.get_mut(&a.buffer) {
                pieces.change(&a.range, |_, u| u.written = true);
            }
        }
    }
    let mut out = Vec::new();
    for (buffer, pieces) in buffers {
        for (range, u) in pieces.of(&(0..pieces.len())) {
            let mode = match (u.needed, u.written) {
                (false, false) => continue,
                (true, false) => Mode::Read,
                (false, true) => Mode::Write,
                (true, true) => Mode::ReadWrite,
            };
            out.push(Access { buffer, range, mode });
        }
    }
    out
}

/// The places of each step's buffers among those of the sequence, and its launch.
struct Steps {
    steps: Vec<(Vec<usize>, Arc<dyn Start>)>,
    graph: Mutex<Option<Graph>>,
}

impl Steps {
    fn each(&self, queue: Queue, memory: &[Option<Memory>]) -> Result<Outcome, Diagnostic> {
        let mut reported = Vec::new();
        for (places, work) in &self.steps {
            let own: Vec<Option<Memory>> = places.iter().map(|p| memory.get(*p).copied().flatten()).collect();
            match work.start(queue, &own)? {
                Outcome::None => {}
                Outcome::Status(places) => reported.extend(places),
            }
        }
        Ok(if reported.is_empty() { Outcome::None } else { Outcome::Status(reported) })
    }
}

impl Start for Steps {
    fn start(&self, queue: Queue, memory: &[Option<Memory>]) -> Result<Outcome, Diagnostic> {
        let Line::Cuda { device, stream } = queue.0 else { return self.each(queue, memory) };
        if !self.steps.iter().all(|s| s.1.records()) {
            return self.each(queue, memory);
        }
        let mut graph = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
        if graph.as_ref().is_none_or(|g| g.memory != memory) {
            *graph = None;
            // What the stream is given now is written down instead of being run; no other thread is concerned.
            const THREAD_LOCAL: i32 = 1;
            let c = &device.calls;
            device.check("recording a graph", (c.capture)(stream as cuda::Handle, THREAD_LOCAL))?;
            let started = self.each(queue, memory);
            let mut recorded: cuda::Handle = std::ptr::null_mut();
            let ended = (c.captured)(stream as cuda::Handle, &mut recorded);
            started?;
            device.check("recording a graph", ended)?;
            let mut run: cuda::Handle = std::ptr::null_mut();
            let made = (c.graph)(&mut run, recorded, 0);
            (c.destroy_graph)(recorded);
            device.check("making a graph", made)?;
            *graph = Some(Graph { device, run: run as usize, memory: memory.to_vec() });
        }
        let Some(g) = graph.as_ref() else { return Ok(Outcome::None) };
        let run = (device.calls.run_graph)(g.run as cuda::Handle, stream as cuda::Handle);
        device.check("starting a graph", run)?;
        Ok(Outcome::None)
    }
}

/// A graph of CUDA, for memory at these addresses.
struct Graph {
    device: &'static cuda::Opened,
    run: usize,
    memory: Vec<Option<Memory>>,
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            (self.device.calls.destroy_run)(self.run as cuda::Handle);
        }
    }
}
