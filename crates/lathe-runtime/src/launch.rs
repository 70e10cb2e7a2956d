//! Kernels on buffers of devices.

use crate::array::{ArgView, row_major};
use crate::codes;
use crate::engine::Kernel;
use lathe_abi::dtype;
use lathe_diagnostics::Diagnostic;
use lathe_engine::memory::Shape;
use lathe_gpu::device::{Argument, Compiled, Device, Devices, Launch, Seen, Sequence};
use std::ffi::c_void;

/// Arguments of a launch as kernels see them. Elements of buffers are not where the descriptors say: nothing reads them.
pub struct Views<'a> {
    arguments: &'a [Argument],
    shapes: Vec<(Vec<i64>, Vec<i64>)>,
}

impl<'a> Views<'a> {
    pub fn new(arguments: &'a [Argument]) -> Views<'a> {
        let shape = |a: &Argument| match a.seen() {
            Seen::Array { shape, count, .. } => {
                let shape = shape.map_or_else(|| vec![count], <[i64]>::to_vec);
                let strides = row_major(&shape);
                (shape, strides)
            }
            Seen::Scalar { .. } => Default::default(),
        };
        Views { shapes: arguments.iter().map(shape).collect(), arguments }
    }

    /// # Errors
    /// `E0811` where a shape has more elements than its part.
    pub fn check(&self) -> Result<(), Diagnostic> {
        for (n, (a, (shape, _))) in self.arguments.iter().zip(&self.shapes).enumerate() {
            let Seen::Array { count, .. } = a.seen() else { continue };
            let elements = shape.iter().try_fold(1i64, |n, e| n.checked_mul(*e).filter(|_| *e >= 0));
            if elements != Some(count) {
                let text = format!("argument {n} has {count} elements, but the shape {shape:?}");
                return Err(Diagnostic::error(codes::ARGUMENT_SHAPE, text));
            }
        }
        Ok(())
    }

    /// The descriptors.
    pub fn views(&self) -> Vec<ArgView<'_>> {
        let one = |(a, (shape, strides)): (&Argument, &'_ (Vec<i64>, Vec<i64>))| {
            let (data, code, elem_bytes) = match a.seen() {
                Seen::Array { dtype, elem_bytes, place, .. } => (place as *mut c_void, dtype, elem_bytes),
                Seen::Scalar { bytes, dtype } => {
                    (bytes.as_ptr().cast_mut().cast(), dtype, bytes.len() as u64)
                }
            };
            let raw = lathe_abi::Array {
                data,
                shape: shape.as_ptr(),
                strides: strides.as_ptr(),
                dtype: code.unwrap_or(dtype::AGGREGATE),
                rank: shape.len() as u32,
                elem_bytes,
            };
            // SAFETY: as many extents and strides as the rank says, which live as long as the view. Elements of scalars are
            // there; those of arrays are on a device, and whoever takes these views only looks at shapes and scalars.
            unsafe { ArgView::from_raw(raw, true) }
        };
        self.arguments.iter().zip(&self.shapes).map(one).collect()
    }
}

/// Starts a kernel of Lathe on buffers of a device, and returns. What it reads and writes is known.
///
/// # Errors
/// `E0808` to `E0817` for arguments, `E0707` for a kernel that was not compiled for a device, and those of
/// [`Device::launch`].
pub fn start(kernel: &Kernel, device: &Device, arguments: &[Argument]) -> Result<Launch, Diagnostic> {
    given(kernel, arguments, |compiled, shapes| device.start(compiled, arguments, shapes))
}

/// Starts a kernel of Lathe on buffers of several devices of one kind: its loops over devices run on all of them
/// ([`Devices::start`]).
///
/// # Errors
/// As [`start`].
pub fn start_on(
    kernel: &Kernel,
    devices: &Devices,
    arguments: &[Argument],
) -> Result<Vec<Launch>, Diagnostic> {
    given(kernel, arguments, |compiled, shapes| devices.start(compiled, arguments, shapes))
}

/// One more launch in a sequence, whose device is that of the kernel and the buffers.
///
/// # Errors
/// As [`start`].
pub fn add(kernel: &Kernel, sequence: &mut Sequence, arguments: &[Argument]) -> Result<(), Diagnostic> {
    given(kernel, arguments, |compiled, shapes| sequence.add_compiled(compiled, arguments, shapes))
}

/// Does something with the code of a kernel and what it is told of its arguments; explains the check that does not hold.
fn given<R>(
    kernel: &Kernel,
    arguments: &[Argument],
    take: impl FnOnce(&Compiled, &[Shape]) -> Result<Result<R, i32>, Diagnostic>,
) -> Result<R, Diagnostic> {
    let Some(compiled) = Compiled::of(kernel.code()) else {
        let text = format!("`{}` was compiled for the host", kernel.name());
        let d = Diagnostic::error(lathe_engine::codes::DEVICE_ARRAY, text);
        return Err(d.help("compile it with the engine of the device: Engine::device(\"cuda\")"));
    };
    let views = Views::new(arguments);
    views.check()?;
    let args = views.views();
    if args.len() != kernel.function().params.len() {
        return Err(kernel.wrong_count(args.len()));
    }
    let array = |p: &lathe_ir::Param| p.array().is_some();
    for (p, a) in kernel.function().params.iter().zip(arguments) {
        if array(p) != matches!(a.seen(), Seen::Array { .. }) {
            let text = format!("`{}` is {}", p.name(), if array(p) { "an array" } else { "a scalar" });
            return Err(Diagnostic::error(codes::ARGUMENT_RANK, text));
        }
    }
    // SAFETY: extents and strides are there.
    let shapes: Vec<Shape> = args.iter().map(|a| unsafe { Shape::of(&a.raw) }).collect();
    take(&compiled, &shapes)?.map_err(|status| kernel.explain(status, &args))
}
