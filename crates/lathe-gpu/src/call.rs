//! A call: arguments checked, copied to the device, kernels run, results copied back.

use crate::host::{self, Driver, Known, Value};
use crate::kept::Unpacked;
use lathe_abi::{Array, DEVICE_ALIGNMENT as ALIGNED, status};
use lathe_diagnostics::Diagnostic;
use lathe_engine::codes;
use lathe_engine::memory::Shape;
use lathe_ir::{BufId, Mode, ParamKind, Scalar};
use std::time::Duration;

/// A driver that copies and waits.
pub trait Device: Driver {
    /// # Errors
    /// What the driver refuses; so for all below.
    fn upload(&mut self, buffer: BufId, bytes: &[u8]) -> Result<(), Diagnostic>;

    fn download(&mut self, buffer: BufId, bytes: &mut [u8]) -> Result<(), Diagnostic>;

    /// Clears the status that kernels write.
    fn clear(&mut self) -> Result<(), Diagnostic>;

    /// Waits for all that was started; the status.
    fn finish(&mut self) -> Result<i32, Diagnostic>;

    /// Notes the time on the device; [`Device::between`] tells it once all is finished.
    fn mark(&mut self) -> Result<(), Diagnostic>;

    /// Seconds between the last two marks.
    fn between(&mut self) -> Result<f64, Diagnostic>;
}

/// How long a call may take: `LATHE_DEVICE_SECONDS`, or a minute.
pub fn limit() -> Duration {
    let given = std::env::var("LATHE_DEVICE_SECONDS").ok().and_then(|s| s.parse::<u64>().ok());
    Duration::from_secs(given.unwrap_or(60).max(1))
}

/// Runs the function once on these arguments: 0, or the number of the check that failed. With `times`, runs the kernels
/// that often more, on what is on the device then, and gives the seconds that each took there.
///
/// # Errors
/// Those of the driver.
///
/// # Safety
/// As [`lathe_engine::Code::call`].
pub unsafe fn call(
    u: &Unpacked,
    device: &mut dyn Device,
    args: &[Array],
    times: usize,
) -> Result<(i32, Vec<f64>), Diagnostic> {
    let params = &u.func.params;
    // SAFETY: the caller's promise: valid descriptors.
    let shapes: Vec<Shape> = args.iter().map(|a| unsafe { Shape::of(a) }).collect();
    // SAFETY: as above.
    let known = match unsafe { known(u, &shapes) }? {
        Ok(k) => k,
        Err(failed) => return Ok((failed, Vec::new())),
    };
    let mut held = Held { device, buffers: Vec::new() };
    for (p, s) in params.iter().zip(&shapes) {
        if let ParamKind::Array(b) = &p.kind {
            held.device.alloc(b, s.count() as u64 * s.elem_bytes)?;
            held.buffers.push(b.id);
            if p.mode != Mode::Out {
                // SAFETY: as above.
                held.device.upload(b.id, &unsafe { s.gather() })?;
            }
        }
    }
    let device = &mut *held.device;
    device.clear()?;
    let mut result = host::run(&u.source, device, &known)?;
    let found = device.finish()?;
    if result == status::OK {
        result = found;
    }
    for (p, s) in params.iter().zip(&shapes).filter(|(p, _)| p.mode != Mode::In) {
        if let ParamKind::Array(b) = &p.kind {
            let mut bytes = vec![0u8; s.count() * s.elem_bytes as usize];
            device.download(b.id, &mut bytes)?;
            // SAFETY: a written parameter, whose memory was lent for that.
            unsafe { s.scatter(&bytes) };
        }
    }
    let mut seconds = Vec::new();
    if result == status::OK {
        for _ in 0..times {
            device.mark()?;
            host::run(&u.source, device, &known)?;
            device.mark()?;
            device.finish()?;
            seconds.push(device.between()?);
        }
    }
    Ok((result, seconds))
}

/// A device that also runs kernels on memory of others.
pub trait Borrowing: Device {
    /// The buffer is at this address of the device, and stays there.
    fn borrow(&mut self, buffer: BufId, address: u64);
}

/// Starts the function on arrays in the device's memory; waits only for kernels that report a status.
///
/// # Errors
/// As [`lathe_engine::Code::start`].
///
/// # Safety
/// As [`lathe_engine::Code::start`].
pub unsafe fn start(u: &Unpacked, device: &mut dyn Borrowing, args: &[Array]) -> Result<i32, Diagnostic> {
    // SAFETY: the caller's promise: valid descriptors.
    let shapes: Vec<Shape> = args.iter().map(|a| unsafe { Shape::of(a) }).collect();
    // SAFETY: as above.
    let known = match unsafe { known(u, &shapes) }? {
        Ok(k) => k,
        Err(failed) => return Ok(failed),
    };
    for (p, s) in u.func.params.iter().zip(&shapes) {
        if let ParamKind::Array(b) = &p.kind {
            if !s.is_dense() || (s.count() > 0 && !s.address.is_multiple_of(ALIGNED)) {
                return Err(not_dense(p.name(), s));
            }
            device.borrow(b.id, s.address as u64);
        }
    }
    let reports = u.source.kernels.iter().any(|k| k.status);
    if reports {
        device.clear()?;
    }
    let failed = host::run(&u.source, device, &known)?;
    if failed != status::OK || !reports { Ok(failed) } else { device.finish() }
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
unsafe fn known(u: &Unpacked, shapes: &[Shape]) -> Result<Result<Known, i32>, Diagnostic> {
    let params = &u.func.params;
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
    for s in &u.func.sizes {
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

/// Gives the memory of the arguments back, however the call ends.
struct Held<'a> {
    device: &'a mut dyn Device,
    buffers: Vec<BufId>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for b in &self.buffers {
            self.device.free(*b);
        }
    }
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
