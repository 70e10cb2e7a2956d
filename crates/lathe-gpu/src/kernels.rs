//! Kernels of Lathe on a device: what a launch of a function starts there, by its plan.

use crate::codes;
use crate::function::{Argument, Function, Grid, Module};
use crate::host::{self, Known, Launch, Launcher, Value};
use crate::kept::Unpacked;
use crate::marks::Opened;
use crate::work::{Explain, Line, Memory, Outcome, Queue, Start, StatusPlace};
use lathe_device::reach::{self, Reach};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{BufId, Buffer, ParamKind, VarId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A function of the tree, loaded on a device.
pub(crate) struct Kernels {
    pub unpacked: Arc<Unpacked>,
    pub functions: Vec<Function>,
    pub device: Opened,
    /// The same on other devices.
    others: Mutex<Vec<Arc<Kernels>>>,
    /// What launches touch, by the kernel and what is known at them.
    reaches: Mutex<HashMap<Place, Arc<Vec<Reach>>>>,
}

/// A kernel's number, and the variables that have values there.
type Place = (usize, Vec<(VarId, i64)>);

/// The largest array of the kernel that has the most shared memory, and its bytes.
fn largest(host: &crate::kept::Hosted) -> Option<(String, u64)> {
    let (_, kernel) = host.kernels.iter().zip(&host.plan.kernels).max_by_key(|(k, _)| k.shared_bytes)?;
    let all = kernel.shared.iter().chain(kernel.cluster.iter().flat_map(|c| &c.shared));
    let bytes = |b: &lathe_ir::Buffer| {
        let n = b.extents.iter().try_fold(1u64, |n, e| n.checked_mul(u64::try_from(e.as_int()?).ok()?))?;
        n.checked_mul(b.elem.bytes())
    };
    all.filter_map(|b| Some((b.name.to_string(), bytes(b)?))).max_by_key(|(_, n)| *n)
}

/// More of them are not remembered.
const MOST_PLACES: usize = 1 << 12;

impl Kernels {
    /// # Errors
    /// Those of the device.
    pub fn load(unpacked: Arc<Unpacked>, device: Opened) -> Result<Kernels, Diagnostic> {
        let host = Arc::clone(&unpacked);
        Kernels::loaded(unpacked, device).map_err(|d| {
            match largest(&host.host).filter(|_| d.code == codes::DEVICE_LIMIT) {
                Some((name, bytes)) => d.note(format!("its largest array is `{name}`, of {bytes} bytes")),
                None => d,
            }
        })
    }

    fn loaded(unpacked: Arc<Unpacked>, device: Opened) -> Result<Kernels, Diagnostic> {
        let kernels = &unpacked.host.kernels;
        let (module, handles) = match device {
            Opened::Cuda(device) => {
                let (module, handles) = device.load(&unpacked.code, kernels)?;
                (Module::Cuda { device, module }, handles)
            }
            Opened::OpenCl(device) => {
                let (program, handles) = device.build(unpacked.text()?, kernels)?;
                (Module::OpenCl { device, program }, handles)
            }
        };
        let module = Arc::new(module);
        let named = handles.iter().zip(kernels);
        let functions = named.map(|(h, k)| Function::new(Arc::clone(&module), *h, &k.name)).collect();
        Ok(Kernels { unpacked, functions, device, others: Mutex::default(), reaches: Mutex::default() })
    }

    /// The same on another device, for whose kind the code was made.
    ///
    /// # Errors
    /// Those of the device.
    pub fn on(self: &Arc<Self>, device: Opened) -> Result<Arc<Kernels>, Diagnostic> {
        if self.device.is(device) {
            return Ok(Arc::clone(self));
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = others.iter().find(|k| k.device.is(device)) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(Kernels::load(Arc::clone(&self.unpacked), device)?);
        others.push(Arc::clone(&made));
        Ok(made)
    }

    /// What a launch reads and writes.
    pub fn reach(&self, kernel: usize, known: &Known) -> Arc<Vec<Reach>> {
        let mut values: Vec<(VarId, i64)> = known.integers.iter().map(|(v, n)| (*v, *n)).collect();
        values.sort_unstable();
        let mut all = self.reaches.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_PLACES {
            all.clear();
        }
        let made = all.entry((kernel, values)).or_insert_with(|| {
            Arc::new(reach::reach(&self.unpacked.host.plan.kernels[kernel], &known.integers))
        });
        Arc::clone(made)
    }

    /// Whether kernels report how they ended.
    pub fn reports(&self) -> bool {
        self.unpacked.host.kernels.iter().any(|k| k.status)
    }

    /// What numbers of its status say.
    pub fn explain(self: &Arc<Self>) -> Explain {
        let kernels = Arc::clone(self);
        Arc::new(move |status| match status {
            lathe_abi::status::DIVISION_BY_ZERO => "an integer was divided by zero".to_string(),
            lathe_abi::status::SIZE_OVERFLOW => "the size of a local array does not fit 64 bits".to_string(),
            n => match usize::try_from(n - 1).ok().and_then(|n| kernels.unpacked.host.checks.get(n)) {
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
    pub started: Arc<AtomicU64>,
}

impl Start for Invocation {
    fn start(&self, queue: Queue, memory: &[Option<Memory>]) -> Result<Outcome, Diagnostic> {
        let arrays = self.kernels.unpacked.host.function.params.iter().filter_map(|p| match &p.kind {
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
        self.begin(self.kernels.reports())?;
        let failed = host::run(&self.kernels.unpacked.host, self, known)?;
        if failed != lathe_abi::status::OK {
            if let Some(seen) = &seen {
                seen.store(failed, Ordering::Release);
            }
            return Err(Diagnostic::error(lathe_host::codes::FAILED, explain(failed)));
        }
        self.end(explain, seen)
    }

    /// Starts one kernel alone; what it reports will be in the outcome's place.
    pub fn run_one(
        &mut self,
        launch: &Launch,
        explain: &Explain,
        seen: Option<Arc<AtomicI32>>,
    ) -> Result<Outcome, Diagnostic> {
        self.begin(launch.kernel.status)?;
        self.launch(launch)?;
        self.end(explain, seen)
    }

    fn begin(&mut self, reports: bool) -> Result<(), Diagnostic> {
        if reports {
            let status = self.queue.0.take("the status", 16)?;
            self.status = Some(status);
            self.queue.0.zero(status, 16)?;
        }
        Ok(())
    }

    fn end(&self, explain: &Explain, seen: Option<Arc<AtomicI32>>) -> Result<Outcome, Diagnostic> {
        let Some(status) = self.status else { return Ok(Outcome::None) };
        let place = StatusPlace::new(self.queue, Arc::clone(explain), seen)?;
        self.queue.0.copy_status(status, &place)?;
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
            if l.kernel.after == Some(1) {
                self.queue.0.copy((status, 0), (status, 4), 4)?;
            }
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
