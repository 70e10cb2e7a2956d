//! Kernels of Lathe on a device: what a launch of a function starts there, by its plan.

use crate::codes;
use crate::function::{Argument, Function, Grid};
use crate::host::{self, Known, Launch, Launcher, Value};
use crate::kept::Unpacked;
use crate::marks::Opened;
use crate::work::{Explain, Line, Memory, Outcome, Queue, Start, StatusPlace};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{BufId, Buffer, ParamKind};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// A function of the tree, loaded on a device.
pub(crate) struct Kernels {
    pub unpacked: Unpacked,
    pub functions: Vec<Function>,
    pub device: Opened,
}

impl Kernels {
    /// Whether kernels report how they ended.
    pub fn reports(&self) -> bool {
        self.unpacked.source.kernels.iter().any(|k| k.status)
    }

    /// What numbers of its status say.
    pub fn explain(self: &Arc<Self>) -> Explain {
        let kernels = Arc::clone(self);
        Arc::new(move |status| match status {
            lathe_abi::status::DIVISION_BY_ZERO => "an integer was divided by zero".to_string(),
            lathe_abi::status::SIZE_OVERFLOW => "the size of a local array does not fit 64 bits".to_string(),
            n => match usize::try_from(n - 1).ok().and_then(|n| kernels.unpacked.source.checks.get(n)) {
                Some(lathe_abi::CheckKind::User { code, message }) => format!("{message} ({code})"),
                _ => format!("the status {n}"),
            },
        })
    }
}

/// One launch of a function with known sizes and scalars.
pub(crate) struct Invocation {
    pub kernels: Arc<Kernels>,
    pub known: Known,
    /// Where the arrays begin in their buffers, in bytes.
    pub offsets: Vec<u64>,
    /// Where callers find the status who have their own words for it.
    pub seen: Option<Arc<AtomicI32>>,
    /// How many kernels were started.
    pub started: AtomicU64,
}

impl Start for Invocation {
    fn start(&self, queue: Queue, memory: &[Option<Memory>]) -> Result<Outcome, Diagnostic> {
        let arrays = self.kernels.unpacked.func.params.iter().filter_map(|p| match &p.kind {
            ParamKind::Array(b) => Some(b.id),
            ParamKind::Scalar(_) => None,
        });
        let mut session = Session::new(&self.kernels, queue);
        for ((id, memory), offset) in arrays.zip(memory).zip(&self.offsets) {
            session.borrow(id, memory.map(|m| (m, *offset)));
        }
        let ran = session.run(&self.known, &self.kernels.explain(), self.seen.clone());
        self.started.fetch_add(session.started, Ordering::Relaxed);
        ran
    }

    fn records(&self) -> bool {
        // Memory of a launch is recorded where it comes from the pool of the stream.
        !self.kernels.reports() && matches!(self.kernels.device, Opened::Cuda(d) if d.pools)
    }
}

/// What one launch has on the device.
pub(crate) struct Session<'a> {
    kernels: &'a Kernels,
    queue: Queue,
    memory: HashMap<BufId, Memory>,
    /// Memory of the caller; none for arrays without elements.
    borrowed: HashMap<BufId, Option<(Memory, u64)>>,
    status: Option<Memory>,
    /// By which blocks of a launch wait for one another, by the kernel and their bytes.
    turns: HashMap<(usize, u64), Memory>,
    started: u64,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        for m in self.memory.values().chain(&self.status).chain(self.turns.values()) {
            self.queue.0.give_back(*m);
        }
    }
}

impl<'a> Session<'a> {
    pub fn new(kernels: &'a Kernels, queue: Queue) -> Session<'a> {
        Session {
            kernels,
            queue,
            memory: HashMap::new(),
            borrowed: HashMap::new(),
            status: None,
            turns: HashMap::new(),
            started: 0,
        }
    }

    /// The buffer is in this memory of the caller, from a byte on, and stays there.
    pub fn borrow(&mut self, buffer: BufId, memory: Option<(Memory, u64)>) {
        self.borrowed.insert(buffer, memory);
    }

    /// Keeps what the device still writes to.
    pub fn leave(&mut self) {
        self.memory.clear();
        self.turns.clear();
        self.status = None;
    }

    /// Starts the kernels; the status that they report will be in the outcome's place. What the host finds wrong before a
    /// launch is there at once.
    pub fn run(
        &mut self,
        known: &Known,
        explain: &Explain,
        seen: Option<Arc<AtomicI32>>,
    ) -> Result<Outcome, Diagnostic> {
        let line = self.queue.0;
        let reports = self.kernels.reports();
        if reports {
            let status = line.take("the status", 16)?;
            self.status = Some(status);
            line.zero(status, 16)?;
        }
        let failed = host::run(&self.kernels.unpacked.source, self, known)?;
        if failed != lathe_abi::status::OK {
            if let Some(seen) = &seen {
                seen.store(failed, Ordering::Release);
            }
            return Err(Diagnostic::error(lathe_host::codes::FAILED, explain(failed)));
        }
        let Some(status) = self.status else { return Ok(Outcome::None) };
        let place = StatusPlace::new(self.queue, Arc::clone(explain), seen)?;
        line.copy_status(status, &place)?;
        Ok(Outcome::Status(vec![place]))
    }

    fn at(&self, b: BufId) -> Result<Argument<'static>, Diagnostic> {
        match (self.memory.get(&b), self.borrowed.get(&b)) {
            (Some(m), _) => Ok(Argument::Memory(*m, 0)),
            (None, Some(Some((m, offset)))) => Ok(Argument::Memory(*m, *offset)),
            (None, Some(None)) => Ok(Argument::Null),
            (None, None) => {
                let text = format!("buffer #{} has no memory", b.0);
                Err(Diagnostic::error(lathe_engine::codes::DEFECT, text))
            }
        }
    }
}

impl Launcher for Session<'_> {
    fn alloc(&mut self, buffer: &Buffer, bytes: u64) -> Result<(), Diagnostic> {
        let made = self.queue.0.take(&format!("`{}`", buffer.name), bytes)?;
        if let Some(old) = self.memory.insert(buffer.id, made) {
            self.queue.0.give_back(old);
        }
        Ok(())
    }

    fn free(&mut self, buffer: BufId) {
        if let Some(m) = self.memory.remove(&buffer) {
            self.queue.0.give_back(m);
        }
    }

    fn launch(&mut self, l: &Launch) -> Result<(), Diagnostic> {
        let mut arguments: Vec<Argument> = Vec::new();
        for a in &l.arguments {
            arguments.push(match a {
                Value::Array(b) => self.at(*b)?,
                Value::Bytes(bytes, _) => Argument::Bytes(bytes),
                Value::Named(n, _) => {
                    let text = format!("`{n}` has no value");
                    return Err(Diagnostic::error(lathe_engine::codes::DEFECT, text));
                }
            });
        }
        if l.turns > 0 {
            let memory = match self.turns.get(&(l.number, l.turns)) {
                Some(m) => *m,
                None => {
                    let m = self.queue.0.take("what blocks wait for", l.turns)?;
                    self.turns.insert((l.number, l.turns), m);
                    m
                }
            };
            self.queue.0.zero(memory, l.turns)?;
            arguments.push(Argument::Memory(memory, 0));
        }
        if let (true, Some(status)) = (l.kernel.status, self.status) {
            arguments.push(Argument::Memory(status, 0));
        }
        let number = |n: u64, what: &str| {
            u32::try_from(n).map_err(|_| {
                let text = format!("`{}` has {n} {what}", l.kernel.name);
                Diagnostic::error(codes::DEVICE_LIMIT, text)
            })
        };
        let cuda = matches!(self.queue.0, Line::Cuda { .. });
        let shared = if cuda && l.kernel.dynamic { l.kernel.shared_bytes as u32 } else { 0 };
        let grid = Grid {
            blocks: [number(l.blocks, "blocks")?, 1, 1],
            threads: [number(l.threads, "threads")?, 1, 1],
            shared,
        };
        self.started += 1;
        self.kernels.functions[l.number].run(self.queue, &grid, &arguments)
    }
}
