//! Devices that share buffers, and launches on them.

use super::arguments::{Argument, Grid, Part, What};
use super::kernel::{Kernel, Prepared};
use super::profile::Profile;
use super::shared::{Keep, Shared, State};
use crate::call::mode;
use crate::codes;
use crate::drivers::Drivers;
use crate::host::Known;
use crate::info::{DeviceInfo, devices_of};
use crate::kernels::{Invocation, Kernels};
use crate::marks::Opened;
use crate::split::{Array, Run};
use crate::work::{Memory, Outcome, Queue, Start};
use lathe_diagnostics::Diagnostic;
use lathe_engine::Code;
use lathe_engine::memory::Shape;
use lathe_host::{Access, Event, Executor, Place};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Queues for kernels of each device, so that independent kernels run side by side.
const STREAMS: usize = 8;

/// What was moved, started and compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub to_device_bytes: u64,
    pub from_device_bytes: u64,
    /// From one device to another.
    pub between_bytes: u64,
    pub copies: u64,
    pub launches: u64,
    pub evictions: u64,
    /// Sources that a compiler was asked to compile.
    pub compiled: u64,
    /// Compiled code that was kept from before, by this process or another.
    pub reused: u64,
}

/// Devices with numbers from 0, between which buffers move.
#[derive(Clone)]
pub struct Devices {
    shared: Arc<Shared>,
}

impl Devices {
    /// All devices of a kind: `cuda`, `opencl`.
    ///
    /// # Errors
    /// `E0841` where there is none; so for the others.
    pub fn of_kind(kind: &str) -> Result<Devices, Diagnostic> {
        Devices::open(devices_of(kind)?)
    }

    /// All devices of this machine.
    ///
    /// # Errors
    /// `E0841` where there is none.
    pub fn all() -> Result<Devices, Diagnostic> {
        let (infos, why) = crate::info::devices();
        match why.into_iter().next().filter(|_| infos.is_empty()) {
            Some(d) => Err(d),
            None => Devices::open(infos),
        }
    }

    /// One device by its number (`cuda:1`, `cuda` for the first), or all whose name contains a text (`H100`).
    ///
    /// # Errors
    /// `E0841` where there is none.
    pub fn named(name: &str) -> Result<Devices, Diagnostic> {
        crate::info::of_this_machine(name)?;
        let kind = name.split(':').next().unwrap_or(name);
        if ["cuda", "opencl"].contains(&kind) {
            let id = if name.contains(':') { name.to_string() } else { format!("{name}:0") };
            let all = devices_of(kind)?;
            let count = all.len();
            let found: Vec<DeviceInfo> = all.into_iter().filter(|d| d.id == id).collect();
            if found.is_empty() {
                let text = format!("there is no device `{id}`: this machine has {count} of this kind");
                return Err(Diagnostic::error(codes::NO_DEVICE, text));
            }
            return Devices::open(found);
        }
        Devices::choose(&|d| d.name.contains(name))
            .map_err(|d| d.note(format!("their names contain `{name}`")))
    }

    /// All devices with a property.
    ///
    /// # Errors
    /// `E0841` where there is none.
    pub fn choose(wanted: &dyn Fn(&DeviceInfo) -> bool) -> Result<Devices, Diagnostic> {
        let (all, _) = crate::info::devices();
        let names: Vec<String> = all.iter().map(|d| format!("{} ({})", d.id, d.name)).collect();
        let found: Vec<DeviceInfo> = all.into_iter().filter(wanted).collect();
        if found.is_empty() {
            let d = Diagnostic::error(codes::NO_DEVICE, "no device of this machine is as wanted");
            return Err(d.note(format!(
                "it has {}",
                if names.is_empty() { "none".into() } else { names.join(", ") }
            )));
        }
        Devices::open(found)
    }

    /// Opens devices of the list that [`crate::info::devices`] gives.
    ///
    /// # Errors
    /// `E0841` and `E0843`.
    pub fn open(infos: Vec<DeviceInfo>) -> Result<Devices, Diagnostic> {
        let start = Instant::now();
        let number = |d: &DeviceInfo| d.id.rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let opened: Vec<Opened> =
            infos.iter().map(|d| Opened::new(d.kind, number(d))).collect::<Result<_, _>>()?;
        let (devices, drivers) = Drivers::new(&opened, STREAMS);
        let state = State {
            executor: Executor::new(devices, drivers),
            compiled: 0,
            reused: 0,
            compiling: Vec::new(),
            opening: start.elapsed().as_secs_f64(),
        };
        Ok(Devices { shared: Arc::new(Shared::new(infos, opened, state)) })
    }

    /// Compiled code is kept there from now on.
    pub fn keep_code(&self, keep: Arc<dyn Keep>) {
        self.shared.keep_code(keep);
    }

    /// Buffers take at most so many bytes of a device from now on; what does not fit leaves it, and comes back when it is used.
    ///
    /// # Errors
    /// `E0847`.
    pub fn bound(&self, device: usize, bytes: u64) -> Result<(), Diagnostic> {
        self.shared.lock()?.executor.bound(device, bytes);
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.shared.infos.len()
    }

    pub fn is_empty(&self) -> bool {
        self.shared.infos.is_empty()
    }

    /// # Errors
    /// `E0841` for a number that is too large.
    pub fn device(&self, number: usize) -> Result<Device, Diagnostic> {
        if number < self.len() {
            return Ok(Device { shared: Arc::clone(&self.shared), number });
        }
        let text = format!("there is no device {number} among {}", self.len());
        Err(Diagnostic::error(codes::NO_DEVICE, text))
    }

    pub fn iter(&self) -> impl Iterator<Item = Device> {
        let shared = Arc::clone(&self.shared);
        (0..self.len()).map(move |number| Device { shared: Arc::clone(&shared), number })
    }

    /// Waits until all that was launched has ended. What failed is reported where its results are used.
    ///
    /// # Errors
    /// `E0847`.
    pub fn finish(&self) -> Result<(), Diagnostic> {
        self.shared.lock()?.executor.finish();
        Ok(())
    }

    /// What was moved, started and compiled so far.
    ///
    /// # Errors
    /// `E0847`.
    pub fn counters(&self) -> Result<Counters, Diagnostic> {
        let state = self.shared.lock()?;
        let c = state.executor.counts();
        Ok(Counters {
            to_device_bytes: c.to_device_bytes,
            from_device_bytes: c.from_device_bytes,
            between_bytes: c.between_bytes,
            copies: c.copies,
            launches: c.launches,
            evictions: c.evictions,
            compiled: state.compiled,
            reused: state.reused,
        })
    }

    /// What the user should know: that a device is full, once for each.
    ///
    /// # Errors
    /// `E0847`.
    pub fn take_notices(&self) -> Result<Vec<String>, Diagnostic> {
        Ok(self.shared.lock()?.executor.take_notices())
    }

    /// Keeps from now on what runs when, for [`Devices::profile`]; or does not.
    ///
    /// # Errors
    /// `E0847`.
    pub fn keep_profile(&self, keep: bool) -> Result<(), Diagnostic> {
        let mut state = self.shared.lock()?;
        state.executor.finish();
        state.executor.driver().take_times(keep);
        state.executor.keep_profile(keep);
        Ok(())
    }

    /// Waits for all that was launched; what ran since the profile was begun or taken the last time.
    ///
    /// # Errors
    /// `E0847`.
    pub fn profile(&self) -> Result<Profile, Diagnostic> {
        let mut state = self.shared.lock()?;
        state.executor.finish();
        let ran = state.executor.take_profile();
        let devices = self.shared.infos.iter().map(|d| (d.id.clone(), d.name.clone())).collect();
        Ok(Profile::new(devices, state.opening, std::mem::take(&mut state.compiling), ran))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Devices {
    /// Starts a function of Lathe whose loops over devices (`bind(i, device)`) run on all of these devices, iterations in turn;
    /// what is outside of them runs on the first one. Each device gets the parts of arrays that its iterations use.
    /// Arguments as for [`Device::start`].
    ///
    /// # Errors
    /// As [`Device::start`]; `E0850` for devices of different kinds.
    pub fn start(
        &self,
        compiled: &Compiled,
        arguments: &[Argument],
        shapes: &[Shape],
    ) -> Result<Result<Vec<Launch>, i32>, Diagnostic> {
        let (first, shared) = (self.device(0)?, self.shared());
        let team: Vec<Arc<Kernels>> = (0..self.len())
            .map(|n| {
                let (own, here) = (compiled.0.device, shared.opened(n));
                if own.name() != here.name() {
                    let text = format!(
                        "`{}` was compiled for {}, not for {}",
                        compiled.0.unpacked.host.function.name,
                        own.name(),
                        here.name()
                    );
                    return Err(Diagnostic::error(codes::ARGUMENTS, text));
                }
                compiled.0.on(here)
            })
            .collect::<Result<_, _>>()?;
        let (accesses, work) = match first.invocation(&Compiled(Arc::clone(&team[0])), arguments, shapes)? {
            Ok(made) => made,
            Err(failed) => return Ok(Err(failed)),
        };
        let params =
            team[0].unpacked.host.function.params.iter().filter_map(|p| Some((p.array()?.id, p.mode)));
        let array = |((id, mode), a): ((_, lathe_ir::Mode), &Access)| Array {
            id,
            buffer: a.buffer,
            range: a.range.clone(),
            defined: mode != lathe_ir::Mode::Out,
        };
        let arrays = params.zip(&accesses).map(array).collect();
        let run = Run { team, known: work.known, arrays, seen: None, started: work.started };
        let given = run.launch(&mut shared.lock()?.executor)?;
        let launch = |event| Launch { shared: Arc::clone(shared), event };
        Ok(given.map(|g| g.events.into_iter().map(launch).collect()))
    }
}

/// One of [`Devices`].
#[derive(Clone)]
pub struct Device {
    pub(crate) shared: Arc<Shared>,
    number: usize,
}

/// A function of Lathe that was compiled for a device.
#[derive(Clone)]
pub struct Compiled(Arc<Kernels>);

impl Compiled {
    /// The code of an engine, if that is a device.
    pub fn of(code: &dyn Code) -> Option<Compiled> {
        let any: &dyn Any = code;
        any.downcast_ref::<crate::loaded::Loaded>().map(|l| Compiled(Arc::clone(&l.kernels)))
    }
}

/// A launch that was given to a device.
#[derive(Clone)]
pub struct Launch {
    pub(crate) shared: Arc<Shared>,
    pub(crate) event: Event,
}

impl Launch {
    /// Waits for it.
    ///
    /// # Errors
    /// `E0854` where it or what it needs failed.
    pub fn wait(&self) -> Result<(), Diagnostic> {
        self.shared.lock()?.executor.finish_event(self.event)
    }
}

impl Device {
    /// Its number among the [`Devices`].
    pub fn number(&self) -> usize {
        self.number
    }

    pub fn info(&self) -> &DeviceInfo {
        &self.shared.infos[self.number]
    }

    /// Starts a kernel of the user's once its arguments are there, and returns.
    ///
    /// # Errors
    /// `E0842` where it does not compile, `E0844` for grids and `E0850` for arguments that it does not take, and
    /// `E0851` to `E0855`.
    pub fn launch(&self, kernel: &Kernel, grid: Grid, arguments: &[Argument]) -> Result<Launch, Diagnostic> {
        let prepared = self.prepare(kernel, grid, arguments)?;
        let accesses = self.accesses(kernel.name(), arguments)?;
        self.give(kernel.name(), &accesses, &prepared)
    }

    /// Compiles a kernel now, which its first launch would do otherwise.
    ///
    /// # Errors
    /// `E0842`.
    pub fn compile(&self, kernel: &Kernel) -> Result<(), Diagnostic> {
        kernel.on(&self.shared, self.number).map(|_| ())
    }

    pub(crate) fn prepare(
        &self,
        kernel: &Kernel,
        grid: Grid,
        arguments: &[Argument],
    ) -> Result<Prepared, Diagnostic> {
        let function = kernel.on(&self.shared, self.number)?;
        kernel.prepare(function, self.shared.opened(self.number), grid, arguments)
    }

    /// Starts a function of Lathe, whose compiler knows what it reads and writes. `arguments` are in its order, `shapes` what
    /// it is told of each. The number of the check of shapes or types that does not hold comes back in place of a launch.
    ///
    /// # Errors
    /// As [`Device::launch`].
    pub fn start(
        &self,
        compiled: &Compiled,
        arguments: &[Argument],
        shapes: &[Shape],
    ) -> Result<Result<Launch, i32>, Diagnostic> {
        match self.invocation(compiled, arguments, shapes)? {
            Ok((accesses, work)) => {
                self.give(&compiled.0.unpacked.host.function.name, &accesses, &work).map(Ok)
            }
            Err(failed) => Ok(Err(failed)),
        }
    }

    /// A launch of a function of Lathe: what it uses, and what starts it.
    pub(crate) fn invocation(
        &self,
        compiled: &Compiled,
        arguments: &[Argument],
        shapes: &[Shape],
    ) -> Result<Result<(Accesses, Invocation), i32>, Diagnostic> {
        let kernels = &compiled.0;
        let func = &kernels.unpacked.host.function;
        if !kernels.device.is(self.shared.opened(self.number)) {
            let text = format!(
                "`{}` was compiled for {}, not for {}",
                func.name,
                kernels.device.name(),
                self.info().name
            );
            return Err(Diagnostic::error(codes::ARGUMENTS, text));
        }
        // Places of buffers of other devices would mean nothing beside these.
        arguments.iter().try_for_each(|a| match &a.0 {
            What::Array { part, .. } => self.owns(part),
            What::Scalar { .. } => Ok(()),
        })?;
        // SAFETY: scalars are values of the arguments, which are borrowed here.
        let known: Known = match unsafe { crate::call::known(&kernels.unpacked, shapes) }? {
            Ok(known) => known,
            Err(failed) => return Ok(Err(failed)),
        };
        let mut accesses = Accesses::new();
        for (p, a) in func.params.iter().zip(arguments) {
            if let What::Array { part, .. } = &a.0 {
                let access = self.access(part, mode(p.mode))?;
                if access.range.start % lathe_abi::DEVICE_ALIGNMENT as u64 != 0 {
                    let text = format!("`{}` begins at byte {} of its buffer", p.name(), access.range.start);
                    let d = Diagnostic::error(codes::ARGUMENTS, text);
                    return Err(d.help("kernels of Lathe take parts that begin at multiples of 16 bytes"));
                }
                accesses.push(access);
            }
        }
        let offsets = accesses.iter().map(|a| a.range.start).collect();
        let started = Arc::new(AtomicU64::new(0));
        let work = Invocation { kernels: Arc::clone(kernels), known, offsets, seen: None, started };
        Ok(Ok((accesses, work)))
    }

    /// Starts something that uses buffers as the tags say: a library that takes addresses (or `cl_mem`) and a stream (or a
    /// command queue).
    ///
    /// # Errors
    /// As [`Device::launch`]; what the function refuses fails the launch.
    pub fn call(
        &self,
        name: &str,
        arguments: &[Argument],
        library: impl Fn(&Library) -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Launch, Diagnostic> {
        let accesses = self.accesses(name, arguments)?;
        let offsets = accesses.iter().map(|a| a.range.start).collect();
        self.give(name, &accesses, &Called { offsets, library })
    }

    /// Copies what is not there of a part to the device, without waiting.
    ///
    /// # Errors
    /// As [`Device::launch`].
    pub fn prefetch(&self, part: impl Into<Part>) -> Result<(), Diagnostic> {
        let access = self.access(&part.into(), lathe_host::Mode::Read)?;
        self.shared.lock()?.executor.prefetch(self.number, &access)
    }

    /// Whether the newest elements of a part lie here, or will once what is under way has ended.
    ///
    /// # Errors
    /// `E0847`, `E0850`.
    pub fn has(&self, part: impl Into<Part>) -> Result<bool, Diagnostic> {
        let access = self.access(&part.into(), lathe_host::Mode::Read)?;
        let state = self.shared.lock()?;
        Ok(state.executor.host().is_current(access.buffer, &access.range, Place::device(self.number)))
    }

    pub(crate) fn give(
        &self,
        name: &str,
        accesses: &[Access],
        work: &(dyn Start + 'static),
    ) -> Result<Launch, Diagnostic> {
        let event = self.shared.lock()?.executor.launch(name, self.number, accesses, work)?;
        Ok(Launch { shared: Arc::clone(&self.shared), event })
    }

    fn owns(&self, part: &Part) -> Result<(), Diagnostic> {
        if part.of != Arc::as_ptr(&self.shared) as usize {
            let d = Diagnostic::error(codes::ARGUMENTS, "a buffer belongs to other devices than the launch");
            return Err(d.help("make the buffer of the same `Devices`"));
        }
        Ok(())
    }

    pub(crate) fn access(&self, part: &Part, mode: lathe_host::Mode) -> Result<Access, Diagnostic> {
        self.owns(part)?;
        Ok(Access { buffer: part.buffer, range: part.range.clone(), mode })
    }

    pub(crate) fn accesses(&self, name: &str, arguments: &[Argument]) -> Result<Accesses, Diagnostic> {
        let mut out = Accesses::new();
        for a in arguments {
            match &a.0 {
                What::Array { part, mode: Some(mode) } => out.push(self.access(part, *mode)?),
                What::Array { mode: None, .. } => {
                    let text = format!("`{name}` is given a buffer without what it does with it");
                    let d = Diagnostic::error(codes::ARGUMENTS, text);
                    return Err(d.help("say read(…), write(…) or read_write(…)"));
                }
                What::Scalar { .. } => {}
            }
        }
        Ok(out)
    }
}

/// What the buffers among arguments are used for.
pub(crate) type Accesses = SmallVec<[Access; 8]>;

/// What a library is given at a launch.
pub struct Library<'a> {
    queue: Queue,
    memory: &'a [Option<Memory>],
    offsets: &'a [u64],
}

impl Library<'_> {
    /// The stream (`CUstream`), or the command queue (`cl_command_queue`): what the library starts must go there.
    pub fn queue(&self) -> u64 {
        self.queue.raw()
    }

    /// `cuda` or `opencl`.
    pub fn kind(&self) -> &'static str {
        self.queue.kind()
    }

    /// The address of the n-th buffer among the arguments (CUDA: of its part; OpenCL: the `cl_mem`); none where it has no
    /// element.
    pub fn pointer(&self, n: usize) -> Option<u64> {
        let memory = (*self.memory.get(n)?)?;
        match memory {
            Memory::Cuda(p) => Some(p + self.offsets.get(n)?),
            Memory::OpenCl(m) => Some(m as u64),
        }
    }

    /// Where the part begins in its `cl_mem`, in bytes.
    pub fn offset(&self, n: usize) -> u64 {
        self.offsets.get(n).copied().unwrap_or(0)
    }
}

struct Called<F> {
    offsets: Vec<u64>,
    library: F,
}

impl<F: Fn(&Library) -> Result<(), String> + Send + Sync> Start for Called<F> {
    fn start(&self, queue: Queue, memory: &[Option<Memory>]) -> Result<Outcome, Diagnostic> {
        let library = Library { queue, memory, offsets: &self.offsets };
        (self.library)(&library).map_err(|text| Diagnostic::error(lathe_host::codes::FAILED, text))?;
        Ok(Outcome::None)
    }
}
