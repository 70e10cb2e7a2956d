//! What queues of both drivers do for kernels: memory for the time of a launch, zeros, and a status.

use crate::cuda::open as cuda;
use crate::marks::failed;
use crate::opencl::open as opencl;
use crate::work::{Line, Memory, StatusPlace};
use lathe_diagnostics::Diagnostic;
use lathe_host::Fault;
use std::ffi::c_void;

impl Line {
    /// What the queue was given starts without anyone waiting for it.
    pub(crate) fn flush(self) -> Result<(), Fault> {
        match self {
            Line::Cuda { .. } => Ok(()),
            Line::OpenCl { device, queue } => {
                device.check("starting", (device.calls.flush)(queue as opencl::Handle)).map_err(failed)
            }
        }
    }

    /// Memory for what the queue is given from now on.
    pub(crate) fn take(self, what: &str, bytes: u64) -> Result<Memory, Diagnostic> {
        let size = usize::try_from(bytes.max(16)).unwrap_or(usize::MAX);
        match self {
            Line::Cuda { device, stream } => {
                let mut p = 0;
                let done = match device.pools {
                    true => (device.calls.alloc_on)(&mut p, size, stream as cuda::Handle),
                    false => (device.calls.alloc)(&mut p, size),
                };
                device.check(&format!("allocating {bytes} bytes for {what}"), done)?;
                Ok(Memory::Cuda(p))
            }
            Line::OpenCl { device, .. } => {
                let mut failed = 0;
                let none = std::ptr::null_mut();
                let made =
                    (device.calls.buffer)(device.context as opencl::Handle, 1, size, none, &mut failed);
                device.check(&format!("allocating {bytes} bytes for {what}"), failed)?;
                Ok(Memory::OpenCl(made as usize))
            }
        }
    }

    /// Memory is not needed by what the queue is given from now on.
    pub(crate) fn give_back(self, memory: Memory) {
        match (self, memory) {
            (Line::Cuda { device, stream }, Memory::Cuda(p)) => {
                match device.pools {
                    true => (device.calls.free_on)(p, stream as cuda::Handle),
                    false => (device.calls.free)(p),
                };
            }
            // What was started keeps it until its end.
            (Line::OpenCl { device, .. }, Memory::OpenCl(m)) => {
                (device.calls.release_buffer)(m as opencl::Handle);
            }
            _ => {}
        }
    }

    /// Fills memory with zeros.
    pub(crate) fn zero(self, memory: Memory, bytes: u64) -> Result<(), Diagnostic> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        match self {
            Line::Cuda { device, stream } => {
                let done = (device.calls.fill)(memory.raw(), 0, size, stream as cuda::Handle);
                device.check("clearing memory", done)
            }
            Line::OpenCl { device, queue } => {
                let (pattern, none) = (0u32, std::ptr::null_mut());
                let done = (device.calls.fill)(
                    queue as opencl::Handle,
                    memory.raw() as opencl::Handle,
                    std::ptr::from_ref(&pattern).cast(),
                    4,
                    0,
                    size,
                    0,
                    none,
                    none,
                );
                device.check("clearing memory", done)
            }
        }
    }

    /// Copies bytes from one place of its device's memory to another.
    pub(crate) fn copy(self, from: (Memory, u64), to: (Memory, u64), bytes: u64) -> Result<(), Diagnostic> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (a, b) = (from.0.raw(), to.0.raw());
        match self {
            Line::Cuda { device, stream } => {
                let c = device.context as cuda::Handle;
                let done = (device.calls.between)(b + to.1, c, a + from.1, c, size, stream as cuda::Handle);
                device.check("copying on the device", done)
            }
            Line::OpenCl { .. } if size == 0 => Ok(()),
            Line::OpenCl { device, queue } => {
                let (a, b) = (a as opencl::Handle, b as opencl::Handle);
                let (at, to, none) = (from.1 as usize, to.1 as usize, std::ptr::null_mut());
                let done = (device.calls.between)(queue as opencl::Handle, a, b, at, to, size, 0, none, none);
                device.check("copying on the device", done)
            }
        }
    }

    /// Copies a status of 32 bits to its place.
    pub(crate) fn copy_status(self, from: Memory, place: &StatusPlace) -> Result<(), Diagnostic> {
        let to: *mut c_void = place.address();
        match self {
            Line::Cuda { device, stream } => {
                let done = (device.calls.to_host_on)(to, from.raw(), 4, stream as cuda::Handle);
                device.check("reading the status", done)
            }
            Line::OpenCl { device, queue } => {
                let none = std::ptr::null_mut();
                let m = from.raw() as opencl::Handle;
                let done = (device.calls.read)(queue as opencl::Handle, m, 0, 0, 4, to, 0, none, none);
                device.check("reading the status", done)
            }
        }
    }
}
