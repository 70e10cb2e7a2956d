//! What launches are made of: memory of devices and of the host, queues, and what is started on them.

use crate::cuda::open as cuda;
use crate::opencl::open as opencl;
use lathe_diagnostics::Diagnostic;
use lathe_host::{Fault, FaultKind};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// An address.
    Cuda(u64),
    /// A `cl_mem`.
    OpenCl(usize),
}

impl Memory {
    /// The address or the handle.
    pub fn raw(self) -> u64 {
        match self {
            Memory::Cuda(p) => p,
            Memory::OpenCl(m) => m as u64,
        }
    }
}

/// Where a launch is started. What is started runs after everything that the queue was given before.
#[derive(Clone, Copy)]
pub struct Queue(pub(crate) Line);

/// A queue of a driver.
#[derive(Clone, Copy)]
pub(crate) enum Line {
    /// Its context is current.
    Cuda {
        device: &'static cuda::Opened,
        stream: usize,
    },
    OpenCl {
        device: &'static opencl::Opened,
        queue: usize,
    },
}

impl Queue {
    /// The stream (`CUstream`), or the queue (`cl_command_queue`).
    pub fn raw(self) -> u64 {
        match self.0 {
            Line::Cuda { stream, .. } => stream as u64,
            Line::OpenCl { queue, .. } => queue as u64,
        }
    }

    /// `cuda` or `opencl`.
    pub fn kind(self) -> &'static str {
        match self.0 {
            Line::Cuda { .. } => "cuda",
            Line::OpenCl { .. } => "opencl",
        }
    }
}

/// What is known of something that was started, once it has ended.
pub enum Outcome {
    /// Nothing but that it has ended.
    None,
    /// A status of 32 bits of each function, which the queue was told to copy here; 0 stands for success.
    Status(Vec<StatusPlace>),
}

/// Says what a status stands for.
pub(crate) type Explain = Arc<dyn Fn(i32) -> String + Send + Sync>;

/// Where a device writes a status of 32 bits.
pub struct StatusPlace {
    slot: Slot,
    /// What a status other than 0 stands for.
    pub(crate) explain: Explain,
    /// Where callers find it who have their own words for it.
    pub(crate) seen: Option<Arc<AtomicI32>>,
}

enum Slot {
    /// Pinned memory of the driver, so that the copy does not wait.
    Pinned(&'static cuda::Opened, usize),
    Boxed(Box<AtomicI32>),
}

impl StatusPlace {
    pub(crate) fn new(
        queue: Queue,
        explain: Explain,
        seen: Option<Arc<AtomicI32>>,
    ) -> Result<StatusPlace, Diagnostic> {
        let slot = match queue.0 {
            Line::Cuda { device, .. } => Slot::Pinned(device, device.slot()?),
            Line::OpenCl { .. } => Slot::Boxed(Box::default()),
        };
        Ok(StatusPlace { slot, explain, seen })
    }

    pub(crate) fn address(&self) -> *mut c_void {
        match &self.slot {
            Slot::Pinned(_, address) => *address as *mut c_void,
            Slot::Boxed(b) => b.as_ptr().cast(),
        }
    }

    /// What was written; the copy has ended.
    pub(crate) fn read(&self) -> i32 {
        match &self.slot {
            // SAFETY: a slot of four bytes and more that is ours until this value is dropped.
            Slot::Pinned(_, address) => unsafe { (*address as *const i32).read_volatile() },
            Slot::Boxed(b) => b.load(Ordering::Acquire),
        }
    }
}

impl Drop for StatusPlace {
    fn drop(&mut self) {
        if let Slot::Pinned(device, address) = self.slot {
            device.give_slot(address);
        }
    }
}

/// Something that launches start: kernels of Lathe, of the user, calls of libraries.
pub trait Start: Send + Sync {
    /// Starts it on the memory of each buffer that the launch uses, and returns.
    ///
    /// # Errors
    /// What the driver refuses.
    fn start(&self, queue: Queue, memory: &[Option<Memory>]) -> Result<Outcome, Diagnostic>;

    /// Whether it can be recorded on a device and started again from the record: it starts the same every time, and nothing
    /// of it is asked for at its end.
    fn records(&self) -> bool {
        true
    }

    /// Whether the queue has it only once the last of the launches that are started together was started.
    fn starts_later(&self) -> bool {
        false
    }
}

/// Where memory of the host comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Somebody else, who keeps it longer than this.
    Lent,
    /// The allocator of this program: so many bytes in front of the first page.
    Program(usize),
    /// Page-locked memory of the driver.
    Pinned,
    /// Memory that the driver moves.
    Managed,
}

/// How the host's memory of a buffer is allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HostKind {
    /// Ordinary memory.
    #[default]
    Plain,
    /// Page-locked memory, which is copied faster, and while kernels run.
    Pinned,
    /// Memory that devices use without copies of the whole buffer.
    Mapped,
}

/// Memory of the host for one buffer.
pub struct HostBytes {
    address: *mut u8,
    bytes: usize,
    owner: Owner,
    /// The device whose driver allocated it.
    device: Option<&'static cuda::Opened>,
}

// SAFETY: memory that only its owner uses; what devices do with it is ordered by the plans of the executor that has it.
unsafe impl Send for HostBytes {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for HostBytes {}

/// Where memory begins that devices share or lock.
const PAGE: usize = 4096;

impl HostBytes {
    /// With room for the first page to begin in it: what an allocator aligns so far it also fills with zeros itself, and
    /// memory that only devices use would be touched.
    fn layout(bytes: usize) -> Result<std::alloc::Layout, Fault> {
        let all = bytes.saturating_add(PAGE);
        std::alloc::Layout::from_size_align(all, 16)
            .map_err(|_| Fault::new(FaultKind::Memory, format!("{bytes} bytes are too many")))
    }

    /// Memory that holds something: zeros, or what the driver left there.
    pub(crate) fn new(
        bytes: u64,
        kind: HostKind,
        cuda: Option<&'static cuda::Opened>,
    ) -> Result<HostBytes, Fault> {
        let short = || Fault::new(FaultKind::Memory, format!("the host has no {bytes} bytes of memory"));
        let bytes = usize::try_from(bytes).map_err(|_| short())?;
        let fault = |d: Diagnostic| Fault::new(FaultKind::Memory, d.message);
        if let (HostKind::Pinned | HostKind::Mapped, Some(device)) = (kind, cuda) {
            let _entered = device.enter().map_err(fault)?;
            let c = &device.calls;
            let mut p: *mut c_void = std::ptr::null_mut();
            if kind == HostKind::Mapped && device.managed {
                let mut address = 0u64;
                // CU_MEM_ATTACH_GLOBAL
                device
                    .check("allocating managed memory", (c.managed)(&mut address, bytes.max(1), 1))
                    .map_err(fault)?;
                p = address as usize as *mut c_void;
            } else {
                // CU_MEMHOSTALLOC_PORTABLE, and _DEVICEMAP
                device
                    .check("allocating pinned memory", (c.pinned)(&mut p, bytes.max(1), 3))
                    .map_err(fault)?;
            }
            let owner = match kind == HostKind::Mapped && device.managed {
                true => Owner::Managed,
                false => Owner::Pinned,
            };
            let made = HostBytes { address: p.cast(), bytes, owner, device: Some(device) };
            return Ok(made);
        }
        let layout = HostBytes::layout(bytes)?;
        // SAFETY: the layout has a size.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        if start.is_null() {
            return Err(short());
        }
        let before = start.align_offset(PAGE);
        let address = start.wrapping_add(before);
        Ok(HostBytes { address, bytes, owner: Owner::Program(before), device: None })
    }

    /// Memory of somebody else.
    ///
    /// # Safety
    /// So many bytes at the address may be read, and written if copies go there, until this value is dropped.
    pub(crate) unsafe fn lent(address: *mut u8, bytes: usize) -> HostBytes {
        HostBytes { address, bytes, owner: Owner::Lent, device: None }
    }

    /// Whether devices of CUDA see it by its address.
    pub(crate) fn is_of_cuda(&self) -> bool {
        self.device.is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.address
    }

    /// The bytes; nothing that is under way may write them.
    ///
    /// # Safety
    /// The executor said that the host may read these bytes, and starts nothing while they are borrowed.
    pub(crate) unsafe fn slice(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: memory of that size, which no one writes by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }
    }

    /// The bytes, for writing; nothing that is under way may use them.
    ///
    /// # Safety
    /// The executor said that the host may write these bytes, and starts nothing while they are borrowed.
    pub(crate) unsafe fn slice_mut(&mut self) -> &mut [u8] {
        if self.bytes == 0 {
            return &mut [];
        }
        // SAFETY: memory of that size, which no one uses by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes) }
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        match (self.owner, self.device) {
            (Owner::Pinned, Some(device)) => {
                if let Ok(_entered) = device.enter() {
                    (device.calls.free_pinned)(self.address.cast());
                }
            }
            (Owner::Managed, Some(device)) => {
                if let Ok(_entered) = device.enter() {
                    (device.calls.free)(self.address as u64);
                }
            }
            (Owner::Program(before), _) => {
                if let Ok(layout) = HostBytes::layout(self.bytes) {
                    // SAFETY: allocated with this layout, so many bytes before.
                    unsafe { std::alloc::dealloc(self.address.wrapping_sub(before), layout) }
                }
            }
            _ => {}
        }
    }
}
