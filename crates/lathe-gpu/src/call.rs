//! A call: arguments checked, a launch on the device of the kernel, results copied back; and a start on memory that is on the
//! device already.

use crate::drivers::Drivers;
use crate::host::{Known, Value};
use crate::kept::Unpacked;
use crate::kernels::{Invocation, Kernels, Session};
use crate::limit::limit;
use crate::marks::Opened;
use crate::split::{self, Array, Given};
use crate::work::{HostBytes, HostKind, Memory, Outcome, Queue};
use lathe_abi::{Array as Descriptor, DEVICE_ALIGNMENT as ALIGNED, status};
use lathe_diagnostics::Diagnostic;
use lathe_engine::memory::Shape;
use lathe_engine::{DeviceRun, codes};
use lathe_host::{Access, BufferId, Executor, Ran};
use lathe_ir::{Mode, ParamKind, Scalar};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// What a call gave.
#[derive(Default)]
pub(crate) struct Called {
    /// 0, or the number of the check that failed.
    pub status: i32,
    /// Of each run on what is on the device.
    pub seconds: Vec<f64>,
    pub run: DeviceRun,
}

impl Called {
    fn failed(status: i32) -> Called {
        Called { status, ..Called::default() }
    }
}

/// Runs the function once on these arguments. With `times`, runs the kernels that often more, on what is on the device
/// then.
///
/// # Errors
/// Those of the driver.
///
/// # Safety
/// As [`lathe_engine::Code::call`].
pub(crate) unsafe fn call(
    kernels: &Arc<Kernels>,
    args: &[Descriptor],
    times: usize,
) -> Result<Called, Diagnostic> {
    let func = &kernels.unpacked.host.function;
    // SAFETY: the caller's promise: valid descriptors.
    let shapes: Vec<Shape> = args.iter().map(|a| unsafe { Shape::of(a) }).collect();
    // SAFETY: as above.
    let known = match unsafe { known(&kernels.unpacked, &shapes) }? {
        Ok(k) => k,
        Err(failed) => return Ok(Called::failed(failed)),
    };
    let team = split::team(kernels, split::wanted(kernels, &known)?)?;
    let opened: Vec<Opened> = team.iter().map(|k| k.device).collect();
    let (devices, drivers) = Drivers::new(&opened, 1);
    let mut executor = Executor::new(devices, drivers);
    executor.driver().take_times(true);
    executor.keep_profile(true);
    let mut arrays = Vec::new();
    for (p, s) in func.params.iter().zip(&shapes) {
        let Some(b) = p.array() else { continue };
        // SAFETY: as above; written parameters are lent for writing.
        let host = unsafe { memory_of(s, p.mode) }?;
        let bytes = host.len() as u64;
        let defined = p.mode != Mode::Out;
        let buffer = executor.buffer(host, bytes, defined, false);
        arrays.push(Array { id: b.id, buffer, range: 0..bytes, defined });
    }
    let seen = Arc::new(AtomicI32::new(status::OK));
    let started = Arc::new(AtomicU64::new(0));
    let run = Work::new(kernels, team, known, arrays, Arc::clone(&seen), Arc::clone(&started));
    let ended = run.launch(&mut executor).and_then(|given| {
        let Ok(given) = given else { return Ok(given) };
        given.events.iter().try_for_each(|event| executor.finish_event(*event))?;
        Ok(Ok(given))
    });
    let given = match ended {
        Ok(Ok(given)) => given,
        Ok(Err(failed)) => return Ok(Called::failed(failed)),
        Err(d) => {
            return match seen.load(Ordering::Acquire) {
                status::OK if executor.driver().late => Err(late(d)),
                status::OK => Err(d),
                failed => Ok(Called::failed(failed)),
            };
        }
    };
    let arrays = func.params.iter().zip(&shapes).filter(|(p, _)| p.array().is_some());
    for ((_, s), (a, written)) in
        arrays.zip(run.arrays().iter().zip(&given.written)).filter(|((p, _), _)| p.mode != Mode::In)
    {
        for part in written {
            executor.access(&read(a.buffer, part.clone()))?;
        }
        if !s.is_dense() {
            let host = executor.access(&read(a.buffer, 0..0))?;
            // SAFETY: a written parameter, whose memory was lent for that; the executor says that its copy is whole.
            unsafe { s.scatter(host.slice()) };
        }
    }
    executor.finish();
    let counts = executor.counts();
    let run_of = DeviceRun {
        kernel_seconds: spent(&executor.take_profile()),
        launches: started.load(Ordering::Relaxed),
        to_device_bytes: counts.to_device_bytes,
        from_device_bytes: counts.from_device_bytes,
        copies: counts.copies,
    };
    let mut seconds = Vec::new();
    for _ in 0..times {
        // Some of these may be under way at once on one device; several devices begin together.
        if run.devices() > 1 {
            executor.finish();
        }
        if run.launch(&mut executor)?.is_err() {
            break;
        }
        if run.devices() > 1 {
            executor.finish();
            seconds.push(spent(&executor.take_profile()));
        }
    }
    if run.devices() == 1 {
        executor.finish();
        seconds = kernels_of(&executor.take_profile()).map(|r| r.interval.end - r.interval.start).collect();
    }
    Ok(Called { status: status::OK, seconds, run: run_of })
}

fn kernels_of(ran: &[Ran]) -> impl Iterator<Item = &Ran> {
    ran.iter().filter(|r| r.bytes.is_none())
}

/// Seconds from the first launch to the end of the last, on the device where that is longest: every device has a clock of its
/// own.
fn spent(ran: &[Ran]) -> f64 {
    let mut devices: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for r in kernels_of(ran) {
        let d = devices.entry(r.stream.device).or_insert((f64::INFINITY, f64::NEG_INFINITY));
        *d = (d.0.min(r.interval.start), d.1.max(r.interval.end));
    }
    devices.values().map(|d| d.1 - d.0).fold(0.0, f64::max)
}

/// What a call gives the executor: one launch for all of the function, or one for each kernel, on the device of its iteration.
enum Work {
    One { name: String, work: Arc<Invocation>, accesses: Vec<Access>, arrays: Vec<Array> },
    Split(split::Run),
}

impl Work {
    fn new(
        kernels: &Arc<Kernels>,
        team: Vec<Arc<Kernels>>,
        known: Known,
        arrays: Vec<Array>,
        seen: Arc<AtomicI32>,
        started: Arc<AtomicU64>,
    ) -> Work {
        let seen = Some(seen);
        if team.len() > 1 {
            return Work::Split(split::Run { team, known, arrays, seen, started });
        }
        let modes = kernels
            .unpacked
            .host
            .function
            .params
            .iter()
            .filter(|p| p.array().is_some())
            .map(|p| mode(p.mode));
        let access = |(a, mode): (&Array, _)| Access { buffer: a.buffer, range: a.range.clone(), mode };
        let accesses = arrays.iter().zip(modes).map(access).collect();
        let offsets = vec![0; arrays.len()];
        let work = Invocation { kernels: Arc::clone(kernels), known, offsets, seen, started };
        let name = format!("`{}`", kernels.unpacked.host.function.name);
        Work::One { name, work: Arc::new(work), accesses, arrays }
    }

    fn arrays(&self) -> &[Array] {
        match self {
            Work::One { arrays, .. } => arrays,
            Work::Split(run) => &run.arrays,
        }
    }

    fn devices(&self) -> usize {
        match self {
            Work::One { .. } => 1,
            Work::Split(run) => run.team.len(),
        }
    }

    fn launch(&self, executor: &mut Executor<Drivers>) -> Result<Result<Given, i32>, Diagnostic> {
        match self {
            Work::One { name, work, accesses, .. } => {
                let event = executor.launch(name, 0, accesses, &**work)?;
                let written = |a: &Access| if a.mode.writes() { vec![a.range.clone()] } else { Vec::new() };
                Ok(Ok(Given { events: vec![event], written: accesses.iter().map(written).collect() }))
            }
            Work::Split(run) => run.launch(executor),
        }
    }
}

fn read(buffer: BufferId, range: Range<u64>) -> Access {
    Access { buffer, range, mode: lathe_host::Mode::Read }
}

/// What a launch does with a parameter.
pub(crate) fn mode(mode: Mode) -> lathe_host::Mode {
    match mode {
        Mode::In => lathe_host::Mode::Read,
        Mode::Out => lathe_host::Mode::Write,
        Mode::InOut => lathe_host::Mode::ReadWrite,
    }
}

/// The elements of an argument as devices take them: where they are, or a copy of them.
///
/// # Safety
/// The shape is that of a valid descriptor, whose memory stays as long as what comes back.
unsafe fn memory_of(s: &Shape, mode: Mode) -> Result<HostBytes, Diagnostic> {
    let bytes = s.count() * s.elem_bytes as usize;
    if s.is_dense() {
        // SAFETY: the caller's promise; dense arrays are their elements, one after the other.
        return Ok(unsafe { HostBytes::lent(s.address as *mut u8, bytes) });
    }
    let fault = |f: lathe_host::Fault| Diagnostic::error(lathe_host::codes::MEMORY, f.text);
    let mut host = HostBytes::new(bytes as u64, HostKind::Plain, None).map_err(fault)?;
    if mode != Mode::Out {
        // SAFETY: the caller's promise; memory that nobody else has yet.
        unsafe { host.slice_mut().copy_from_slice(&s.gather()) };
    }
    Ok(host)
}

fn late(d: Diagnostic) -> Diagnostic {
    let text = d.message.clone();
    Diagnostic::error(crate::codes::DEVICE_TIME, text).help("LATHE_DEVICE_SECONDS allows more")
}

/// Starts the function on arrays in the device's memory; waits only for kernels that report a status.
///
/// # Errors
/// As [`lathe_engine::Code::start`].
///
/// # Safety
/// As [`lathe_engine::Code::start`].
pub(crate) unsafe fn start(
    kernels: &Arc<Kernels>,
    queue: Queue,
    args: &[Descriptor],
    finish: &dyn Fn() -> Result<bool, Diagnostic>,
) -> Result<i32, Diagnostic> {
    // SAFETY: the caller's promise: valid descriptors.
    let shapes: Vec<Shape> = args.iter().map(|a| unsafe { Shape::of(a) }).collect();
    // SAFETY: as above.
    let known = match unsafe { known(&kernels.unpacked, &shapes) }? {
        Ok(k) => k,
        Err(failed) => return Ok(failed),
    };
    let mut session = Session::new(kernels, queue);
    for (p, s) in kernels.unpacked.host.function.params.iter().zip(&shapes) {
        if let ParamKind::Array(b) = &p.kind {
            if !s.is_dense() || (s.count() > 0 && !s.address.is_multiple_of(ALIGNED)) {
                return Err(not_dense(p.name(), s));
            }
            session.borrow(b.id, Some((Memory::Cuda(s.address as u64), 0)));
        }
    }
    let seen = Arc::new(AtomicI32::new(status::OK));
    match session.run(&known, &kernels.explain(), Some(Arc::clone(&seen))) {
        Ok(Outcome::None) => Ok(status::OK),
        Ok(Outcome::Status(places)) => {
            let start = std::time::Instant::now();
            while !finish()? {
                if start.elapsed() > limit() {
                    // The device still writes to what it was given.
                    kernels.device.give_up();
                    std::mem::forget(places);
                    session.leave();
                    let text = format!(
                        "`{}` did not finish within {} s",
                        kernels.unpacked.host.function.name,
                        limit().as_secs()
                    );
                    return Err(late(Diagnostic::error(crate::codes::DEVICE_TIME, text)));
                }
                match start.elapsed().as_micros() {
                    0..=500 => std::hint::spin_loop(),
                    _ => std::thread::sleep(std::time::Duration::from_micros(50)),
                }
            }
            let bad = places.iter().map(|p| p.read()).find(|s| *s != status::OK);
            Ok(bad.unwrap_or(status::OK))
        }
        Err(d) => match seen.load(Ordering::Acquire) {
            status::OK => Err(d),
            failed => Ok(failed),
        },
    }
}

fn not_dense(name: &str, s: &Shape) -> Diagnostic {
    let text = if s.is_dense() {
        format!("`{name}` begins at an address that is not a multiple of {ALIGNED} bytes")
    } else {
        format!(
            "`{name}` has gaps or another order than row-major: shape {:?}, strides {:?}",
            s.extents, s.strides
        )
    };
    Diagnostic::error(codes::DEVICE_ARRAY, text).help("copy it on the device first")
}

/// Sizes and scalars of a call, or the number of the check that its arguments fail. Elements of arrays are not read.
///
/// # Safety
/// The shapes are those of valid descriptors, one per parameter; scalars are in the memory of the host.
pub(crate) unsafe fn known(u: &Unpacked, shapes: &[Shape]) -> Result<Result<Known, i32>, Diagnostic> {
    let params = &u.host.function.params;
    let scalar = |at: usize| match &params[at].kind {
        // SAFETY: as above; this is called once types and ranks are known to be right.
        ParamKind::Scalar(b) => integer(b.ty, &unsafe { shapes[at].gather() }),
        ParamKind::Array(_) => None,
    };
    let sizes = match u.entry.check(shapes, &scalar) {
        Ok(known) => known,
        Err(failed) => return Ok(Err(failed)),
    };
    for (b, pb) in params.iter().enumerate() {
        for (a, pa) in params[..b].iter().enumerate() {
            let written = pa.mode != Mode::In || pb.mode != Mode::In;
            if written && pa.alias.is_some() && pa.alias == pb.alias && shapes[a].meets(&shapes[b]) {
                let text = format!(
                    "on a device, `{}` and `{}` have memory of their own, but they share it here",
                    pa.name(),
                    pb.name()
                );
                return Err(
                    Diagnostic::error(codes::UNSUPPORTED, text).help("use another engine for such arguments")
                );
            }
        }
    }
    let mut known = Known::default();
    for s in &u.host.function.sizes {
        known.size(s.id, sizes.get(&s.id).copied().unwrap_or(0));
    }
    for (p, s) in params.iter().zip(shapes) {
        if let ParamKind::Scalar(b) = &p.kind {
            // SAFETY: as above.
            let bytes = unsafe { s.gather() };
            known.integers.extend(integer(b.ty, &bytes).map(|v| (b.id, v)));
            known.scalars.insert(b.id, Value::Bytes(bytes, b.ty));
        }
    }
    Ok(Ok(known))
}

/// The value of an integer or `bool` scalar.
fn integer(ty: Scalar, bytes: &[u8]) -> Option<i64> {
    if ty.is_float() {
        return None;
    }
    let mut all = [0u8; 8];
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let raw = i64::from_le_bytes(all);
    let unused = 64 - 8 * bytes.len() as u32;
    Some(if ty.is_signed() { raw << unused >> unused } else { raw })
}
