//! Kernels that are loaded on a device, and how one of them is started.

use crate::codes;
use crate::cuda::open as cuda;
use crate::opencl::open as opencl;
use crate::work::{Line, Memory, Queue};
use lathe_diagnostics::Diagnostic;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Code on a device.
pub(crate) enum Module {
    Cuda { device: &'static cuda::Opened, module: usize },
    OpenCl { device: &'static opencl::Opened, program: usize },
}

impl Drop for Module {
    fn drop(&mut self) {
        match self {
            Module::Cuda { device, module } => {
                if let Ok(_entered) = device.enter() {
                    (device.calls.unload)(*module as cuda::Handle);
                }
            }
            Module::OpenCl { device, program } => {
                (device.calls.release_program)(*program as opencl::Handle);
            }
        }
    }
}

/// A kernel of a module.
pub(crate) struct Function {
    module: Arc<Module>,
    handle: usize,
    pub name: String,
    /// In OpenCL the arguments of a kernel are a state of it.
    one: Mutex<()>,
    /// The most shared memory that it may be given at a launch.
    shared: AtomicU32,
}

impl Drop for Function {
    fn drop(&mut self) {
        if let Module::OpenCl { device, .. } = &*self.module {
            (device.calls.release_kernel)(self.handle as opencl::Handle);
        }
    }
}

/// A kernel on devices, by their kind and number.
pub(crate) type Made = Arc<Mutex<Vec<((bool, usize), Arc<Function>)>>>;

/// What a kernel is given.
pub(crate) enum Argument<'a> {
    /// Memory from this byte on.
    Memory(Memory, u64),
    /// No memory: no byte of it is used.
    Null,
    Bytes(&'a [u8]),
    /// So many bytes of memory of each block; kernels of OpenCL have parameters for it.
    Local(u32),
}

/// How many blocks, and how many threads each has; and bytes of shared memory that are asked for at the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub blocks: [u32; 3],
    pub threads: [u32; 3],
    pub shared: u32,
}

/// Arguments that need no memory of the allocator.
const INLINE: usize = 32;

impl Function {
    pub fn new(module: Arc<Module>, handle: usize, name: &str) -> Function {
        Function {
            module,
            handle,
            name: name.to_string(),
            one: Mutex::new(()),
            shared: AtomicU32::new(48 << 10),
        }
    }

    /// Starts it.
    pub fn run(&self, queue: Queue, grid: &Grid, arguments: &[Argument]) -> Result<(), Diagnostic> {
        match queue.0 {
            Line::Cuda { device, stream } => self.run_cuda(device, stream, grid, arguments),
            Line::OpenCl { device, queue } => self.run_opencl(device, queue, grid, arguments),
        }
    }

    fn threads(&self, grid: &Grid, most: u64, name: &str) -> Result<(), Diagnostic> {
        let threads: u64 = grid.threads.iter().map(|n| u64::from(*n)).product();
        if threads <= most && threads > 0 {
            return Ok(());
        }
        let text = format!("a block of `{}` has {threads} threads, {name} allows 1 to {most}", self.name);
        Err(Diagnostic::error(codes::DEVICE_LIMIT, text))
    }

    fn run_cuda(
        &self,
        device: &cuda::Opened,
        stream: usize,
        grid: &Grid,
        arguments: &[Argument],
    ) -> Result<(), Diagnostic> {
        self.threads(grid, device.most_threads, &device.name)?;
        if grid.shared > self.shared.load(Ordering::Relaxed) {
            device.allow_shared(self.handle, grid.shared)?;
            self.shared.store(grid.shared, Ordering::Relaxed);
        }
        // The driver reads an argument from its address, as many bytes as the kernel declares.
        let mut inline = ([0u64; INLINE], [std::ptr::null_mut::<c_void>(); INLINE]);
        let more = if arguments.len() > INLINE { arguments.len() } else { 0 };
        let mut heap = (vec![0u64; more], vec![std::ptr::null_mut::<c_void>(); more]);
        let (words, places): (&mut [u64], &mut [*mut c_void]) = match more {
            0 => (&mut inline.0, &mut inline.1),
            _ => (&mut heap.0, &mut heap.1),
        };
        for ((a, word), place) in arguments.iter().zip(words).zip(places.iter_mut()) {
            *word = match a {
                Argument::Memory(m, offset) => m.raw() + offset,
                Argument::Null | Argument::Local(_) => 0,
                Argument::Bytes(b) if b.len() <= 8 => {
                    let mut all = [0u8; 8];
                    all[..b.len()].copy_from_slice(b);
                    u64::from_le_bytes(all)
                }
                Argument::Bytes(b) => {
                    *place = b.as_ptr().cast_mut().cast();
                    continue;
                }
            };
            *place = std::ptr::from_mut(word).cast();
        }
        let ([x, y, z], [a, b, c]) = (grid.blocks, grid.threads);
        let none = std::ptr::null_mut();
        let f = self.handle as cuda::Handle;
        let (s, at) = (stream as cuda::Handle, places.as_mut_ptr());
        let started = (device.calls.launch)(f, x, y, z, a, b, c, grid.shared, s, at, none);
        match started {
            0 => Ok(()),
            _ => device.check(&format!("starting `{}`", self.name), started),
        }
    }

    fn run_opencl(
        &self,
        device: &opencl::Opened,
        queue: usize,
        grid: &Grid,
        arguments: &[Argument],
    ) -> Result<(), Diagnostic> {
        self.threads(grid, device.most_threads, &device.name)?;
        let c = &device.calls;
        let k = self.handle as opencl::Handle;
        let _alone = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let mut parts = Parts { device, parts: Vec::new() };
        for (n, a) in arguments.iter().enumerate() {
            let done = match a {
                Argument::Bytes(b) => (c.argument)(k, n as u32, b.len(), b.as_ptr().cast()),
                Argument::Local(bytes) => (c.argument)(k, n as u32, *bytes as usize, std::ptr::null()),
                Argument::Null => (c.argument)(k, n as u32, 8, std::ptr::null()),
                Argument::Memory(m, offset) => {
                    let handle = match offset {
                        0 => m.raw() as usize,
                        _ => parts.from(*m, *offset)?,
                    };
                    (c.argument)(k, n as u32, 8, std::ptr::from_ref(&handle).cast())
                }
            };
            device.check(&format!("giving `{}` its arguments", self.name), done)?;
        }
        let local = grid.threads.map(|n| n as usize);
        let mut global = local;
        for (g, blocks) in global.iter_mut().zip(grid.blocks) {
            *g *= blocks as usize;
        }
        let none = std::ptr::null_mut();
        let q = queue as opencl::Handle;
        let dimensions = (1..3).rev().find(|d| global[*d] > 1).map_or(1, |d| d as u32 + 1);
        let started = (c.run)(
            q,
            k,
            dimensions,
            std::ptr::null(),
            global.as_ptr(),
            local.as_ptr(),
            0,
            none,
            std::ptr::null_mut(),
        );
        device.check(&format!("starting `{}`", self.name), started)
    }
}

/// Parts of buffers for one launch, which keeps what it uses.
struct Parts<'a> {
    device: &'a opencl::Opened,
    parts: Vec<usize>,
}

impl Parts<'_> {
    fn from(&mut self, memory: Memory, offset: u64) -> Result<usize, Diagnostic> {
        if !offset.is_multiple_of(self.device.alignment) {
            let text = format!(
                "a part begins at byte {offset} of its buffer; on {} parts begin at multiples of {} bytes",
                self.device.name, self.device.alignment
            );
            let d = Diagnostic::error(codes::DEVICE_LIMIT, text);
            return Err(
                d.help("use larger parts, or give the kernel the whole buffer and the place of its part")
            );
        }
        let mut bytes = 0usize;
        let size = std::ptr::from_mut(&mut bytes).cast();
        // CL_MEM_SIZE
        let asked =
            (self.device.calls.memory)(memory.raw() as opencl::Handle, 0x1102, 8, size, std::ptr::null_mut());
        self.device.check("asking for the size of a buffer", asked)?;
        let region = [offset as usize, bytes.saturating_sub(offset as usize)];
        let mut failed = 0;
        // CL_BUFFER_CREATE_TYPE_REGION
        let made = (self.device.calls.part)(
            memory.raw() as opencl::Handle,
            0,
            0x1220,
            region.as_ptr().cast(),
            &mut failed,
        );
        self.device.check("making a part of a buffer", failed)?;
        self.parts.push(made as usize);
        Ok(made as usize)
    }
}

impl Drop for Parts<'_> {
    fn drop(&mut self) {
        for p in &self.parts {
            (self.device.calls.release_buffer)(*p as opencl::Handle);
        }
    }
}
