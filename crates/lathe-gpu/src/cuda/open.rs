//! A device of the driver `libcuda`: its functions, its context, what it keeps for all who use it.

use crate::codes;
use crate::library::{Devices, function, missing, open};
use lathe_diagnostics::Diagnostic;
use lathe_source::device::DeviceKernel;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

pub(crate) type Result_ = c_int;
pub(crate) type Handle = *mut c_void;

/// The functions of the driver that are used.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    pub error: extern "C" fn(Result_, *mut *const c_char) -> Result_,
    pub set_context: extern "C" fn(Handle) -> Result_,
    pub get_context: extern "C" fn(*mut Handle) -> Result_,
    pub load: extern "C" fn(*mut Handle, *const c_void) -> Result_,
    pub function: extern "C" fn(*mut Handle, Handle, *const c_char) -> Result_,
    pub set_function: extern "C" fn(Handle, c_int, c_int) -> Result_,
    pub unload: extern "C" fn(Handle) -> Result_,
    pub alloc: extern "C" fn(*mut u64, usize) -> Result_,
    pub free: extern "C" fn(u64) -> Result_,
    /// In the order of a stream, from a pool of the device.
    pub alloc_on: extern "C" fn(*mut u64, usize, Handle) -> Result_,
    pub free_on: extern "C" fn(u64, Handle) -> Result_,
    pub fill: extern "C" fn(u64, u8, usize, Handle) -> Result_,
    #[allow(clippy::type_complexity, reason = "the driver's own list of arguments")]
    pub launch: extern "C" fn(
        Handle,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        Handle,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> Result_,
    pub event: extern "C" fn(*mut Handle, c_uint) -> Result_,
    pub record: extern "C" fn(Handle, Handle) -> Result_,
    pub query: extern "C" fn(Handle) -> Result_,
    pub elapsed: extern "C" fn(*mut f32, Handle, Handle) -> Result_,
    pub memory: extern "C" fn(*mut usize, *mut usize) -> Result_,
    pub stream: extern "C" fn(*mut Handle, c_uint) -> Result_,
    pub wait: extern "C" fn(Handle, Handle, c_uint) -> Result_,
    pub to_device_on: extern "C" fn(u64, *const c_void, usize, Handle) -> Result_,
    pub to_host_on: extern "C" fn(*mut c_void, u64, usize, Handle) -> Result_,
    /// To memory in a context from memory in another.
    pub between: extern "C" fn(u64, Handle, u64, Handle, usize, Handle) -> Result_,
    /// Memory of the host that the device reads by itself.
    pub pinned: extern "C" fn(*mut *mut c_void, usize, c_uint) -> Result_,
    pub free_pinned: extern "C" fn(*mut c_void) -> Result_,
    /// Memory that the host and all devices use by one address.
    pub managed: extern "C" fn(*mut u64, usize, c_uint) -> Result_,
    pub reaches: extern "C" fn(*mut c_int, c_int, c_int) -> Result_,
    pub reach: extern "C" fn(Handle, c_uint) -> Result_,
    pub capture: extern "C" fn(Handle, c_int) -> Result_,
    pub captured: extern "C" fn(Handle, *mut Handle) -> Result_,
    pub graph: extern "C" fn(*mut Handle, Handle, u64) -> Result_,
    pub run_graph: extern "C" fn(Handle, Handle) -> Result_,
    pub destroy_graph: extern "C" fn(Handle) -> Result_,
    pub destroy_run: extern "C" fn(Handle) -> Result_,
}

/// A device with its context.
pub(crate) struct Opened {
    pub calls: Calls,
    pub context: usize,
    pub name: String,
    pub arch: String,
    /// Bytes of shared memory that a block can ask for.
    pub most_shared: u64,
    pub most_threads: u64,
    /// Whether memory can be allocated in the order of a stream.
    pub pools: bool,
    pub number: usize,
    /// The driver's own number of it.
    pub ordinal: c_int,
    pub bytes: u64,
    /// Memory that moves by itself can be used by the host while kernels run.
    pub managed: bool,
    /// By number: 0 for copies to the device, 1 for copies from it, the rest for kernels.
    streams: Mutex<Vec<usize>>,
    /// Events that nobody uses: without times, and with them.
    events: [Mutex<Vec<usize>>; 2],
    /// Places of pinned memory that nobody uses.
    slots: Mutex<Vec<usize>>,
    /// Something on it did not end, or it was lost after a fault.
    given_up: AtomicBool,
    _library: libloading::Library,
}

pub(crate) const NOT_READY: Result_ = 600;

/// The device of a number, opened once.
pub(crate) fn device(number: usize) -> Result<&'static Opened, Diagnostic> {
    static ALL: Devices<Opened> = Devices::new();
    ALL.get(number, opened)
}

fn opened(number: usize) -> Result<Opened, Diagnostic> {
    let library = open(&["libcuda.so.1", "libcuda.so"]).map_err(|e| {
        missing("this machine has no driver for CUDA devices (libcuda.so.1)".to_string()).note(e)
    })?;
    open_in(library, number).map_err(|e| match e {
        Why::Text(t) => Diagnostic::error(codes::DRIVER, t),
        Why::Missing(t) => missing(t),
    })
}

enum Why {
    Text(String),
    Missing(String),
}

impl From<String> for Why {
    fn from(t: String) -> Why {
        Why::Text(t)
    }
}

fn open_in(library: libloading::Library, number: usize) -> Result<Opened, Why> {
    let l = &library;
    let init = function!(l, "cuInit", extern "C" fn(c_uint) -> Result_)?;
    let count = function!(l, "cuDeviceGetCount", extern "C" fn(*mut c_int) -> Result_)?;
    let get = function!(l, "cuDeviceGet", extern "C" fn(*mut c_int, c_int) -> Result_)?;
    let name = function!(l, "cuDeviceGetName", extern "C" fn(*mut c_char, c_int, c_int) -> Result_)?;
    let memory = function!(l, "cuDeviceTotalMem_v2", extern "C" fn(*mut usize, c_int) -> Result_)?;
    let attribute = function!(l, "cuDeviceGetAttribute", extern "C" fn(*mut c_int, c_int, c_int) -> Result_)?;
    let retain = function!(l, "cuDevicePrimaryCtxRetain", extern "C" fn(*mut Handle, c_int) -> Result_)?;
    let calls = Calls {
        error: function!(l, "cuGetErrorString", _)?,
        set_context: function!(l, "cuCtxSetCurrent", _)?,
        get_context: function!(l, "cuCtxGetCurrent", _)?,
        load: function!(l, "cuModuleLoadData", _)?,
        function: function!(l, "cuModuleGetFunction", _)?,
        set_function: function!(l, "cuFuncSetAttribute", _)?,
        unload: function!(l, "cuModuleUnload", _)?,
        alloc: function!(l, "cuMemAlloc_v2", _)?,
        free: function!(l, "cuMemFree_v2", _)?,
        alloc_on: function!(l, "cuMemAllocAsync", _)?,
        free_on: function!(l, "cuMemFreeAsync", _)?,
        fill: function!(l, "cuMemsetD8Async", _)?,
        launch: function!(l, "cuLaunchKernel", _)?,
        event: function!(l, "cuEventCreate", _)?,
        record: function!(l, "cuEventRecord", _)?,
        query: function!(l, "cuEventQuery", _)?,
        elapsed: function!(l, "cuEventElapsedTime", _)?,
        memory: function!(l, "cuMemGetInfo_v2", _)?,
        stream: function!(l, "cuStreamCreate", _)?,
        wait: function!(l, "cuStreamWaitEvent", _)?,
        to_device_on: function!(l, "cuMemcpyHtoDAsync_v2", _)?,
        to_host_on: function!(l, "cuMemcpyDtoHAsync_v2", _)?,
        between: function!(l, "cuMemcpyPeerAsync", _)?,
        pinned: function!(l, "cuMemHostAlloc", _)?,
        free_pinned: function!(l, "cuMemFreeHost", _)?,
        managed: function!(l, "cuMemAllocManaged", _)?,
        reaches: function!(l, "cuDeviceCanAccessPeer", _)?,
        reach: function!(l, "cuCtxEnablePeerAccess", _)?,
        capture: function!(l, "cuStreamBeginCapture_v2", _)?,
        captured: function!(l, "cuStreamEndCapture", _)?,
        graph: function!(l, "cuGraphInstantiateWithFlags", _)?,
        run_graph: function!(l, "cuGraphLaunch", _)?,
        destroy_graph: function!(l, "cuGraphDestroy", _)?,
        destroy_run: function!(l, "cuGraphExecDestroy", _)?,
    };
    let mut n = 0;
    if init(0) != 0 || count(&mut n) != 0 {
        return Err(Why::Missing("the CUDA driver finds no device".to_string()));
    }
    if number as c_int >= n {
        return Err(Why::Missing(format!(
            "there is no device `cuda:{number}`: this machine has {n}, numbered from 0"
        )));
    }
    let mut device = 0;
    let mut text = [0 as c_char; 256];
    let mut context: Handle = std::ptr::null_mut();
    let mut bytes = 0usize;
    if get(&mut device, number as c_int) != 0
        || name(text.as_mut_ptr(), 255, device) != 0
        || memory(&mut bytes, device) != 0
        || retain(&mut context, device) != 0
    {
        return Err(Why::Text(format!("the device `cuda:{number}` cannot be opened")));
    }
    let fact = |which: c_int| {
        let mut v = 0;
        if attribute(&mut v, which, device) == 0 { v } else { 0 }
    };
    // Compute capability (75, 76), shared memory that a block can ask for (97), threads of a block (1).
    let (major, minor) = (fact(75), fact(76));
    let arch = format!("sm_{major}{minor}{}", if major >= 9 { "a" } else { "" });
    // SAFETY: the driver ends the name with a zero, and the array does.
    let name = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned();
    let (most_shared, most_threads) = (fact(97).max(0) as u64, fact(1).max(0) as u64);
    // Memory pools (115).
    let pools = fact(115) != 0;
    let context = context as usize;
    // Managed memory (83), and that both sides may use it at once (89).
    let managed = fact(83) != 0 && fact(89) != 0;
    Ok(Opened {
        calls,
        context,
        name,
        arch,
        most_shared,
        most_threads,
        pools,
        number,
        ordinal: device,
        bytes: bytes as u64,
        managed,
        streams: Mutex::default(),
        events: Default::default(),
        slots: Mutex::default(),
        given_up: AtomicBool::new(false),
        _library: library,
    })
}

impl Opened {
    pub fn check(&self, what: &str, result: Result_) -> Result<(), Diagnostic> {
        if result == 0 {
            return Ok(());
        }
        let mut text = std::ptr::null();
        let said = if (self.calls.error)(result, &mut text) == 0 && !text.is_null() {
            // SAFETY: a text of the driver, which stays.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        } else {
            "no error text".to_string()
        };
        Err(Diagnostic::error(codes::DRIVER, format!("{what} on {} failed: {said} ({result})", self.name)))
    }

    /// Makes the device's context this thread's current one until the guard is dropped: the caller may use another device.
    /// Without a current context, a thread uses the first device, whose context may as well stay.
    ///
    /// # Errors
    /// `E0855` for a device that was given up: most of what its driver is asked for would wait for what does not end. So
    /// whatever is on such a device stays there.
    pub fn enter(&self) -> Result<Entered<'_>, Diagnostic> {
        self.answers()?;
        let mut before: Handle = std::ptr::null_mut();
        self.check("asking for the context", (self.calls.get_context)(&mut before))?;
        let here = before as usize == self.context;
        if !here {
            self.check("entering the context", (self.calls.set_context)(self.context as Handle))?;
        }
        let stays = here || before.is_null() && self.number == 0;
        Ok(Entered { calls: &self.calls, before: (!stays).then_some(before) })
    }

    /// Something on this device did not end in time, or there was a fault: nothing is asked of it any more by this process.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// # Errors
    /// `E0855` for a device that was given up.
    pub fn answers(&self) -> Result<(), Diagnostic> {
        if !self.given_up.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = format!(
            "{} was given up: something that this process started there failed, or does not end",
            self.name
        );
        Err(Diagnostic::error(lathe_host::codes::LOST, text)
            .help("other processes can use it once this one has ended"))
    }

    /// The stream of a number, made when it is first used; it is not ordered with the default stream.
    pub fn stream(&self, number: usize) -> Result<usize, Diagnostic> {
        let mut all = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        while all.len() <= number {
            let mut made: Handle = std::ptr::null_mut();
            self.check("making a stream", (self.calls.stream)(&mut made, 1))?;
            all.push(made as usize);
        }
        Ok(all[number])
    }

    /// An event that nobody else uses.
    pub fn event(&self, times: bool) -> Result<usize, Diagnostic> {
        let kept = self.events[usize::from(times)].lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(e) = kept {
            return Ok(e);
        }
        let mut e: Handle = std::ptr::null_mut();
        // CU_EVENT_DISABLE_TIMING
        let flags = if times { 0 } else { 2 };
        self.check("making an event", (self.calls.event)(&mut e, flags))?;
        Ok(e as usize)
    }

    /// An event is not used any more.
    pub fn give_back(&self, event: usize, times: bool) {
        self.events[usize::from(times)].lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// 64 bytes of pinned memory that nobody else uses; the context must be current.
    pub fn slot(&self) -> Result<usize, Diagnostic> {
        let mut all = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            let mut p: *mut c_void = std::ptr::null_mut();
            self.check("allocating pinned memory", (self.calls.pinned)(&mut p, 4096, 1))?;
            all.extend((0..64).map(|n| p as usize + 64 * n));
        }
        Ok(all.pop().unwrap_or_default())
    }

    pub fn give_slot(&self, address: usize) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).push(address);
    }

    /// Memory that is free now.
    pub fn free_bytes(&self) -> u64 {
        let (mut free, mut all) = (0usize, 0usize);
        match self.enter() {
            Ok(_entered) if (self.calls.memory)(&mut free, &mut all) == 0 => free as u64,
            _ => self.bytes,
        }
    }

    /// Whether it reads the memory of another device by itself; its context must be current.
    pub fn reach(&self, other: &Opened) -> bool {
        let mut able = 0;
        // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
        (self.calls.reaches)(&mut able, self.ordinal, other.ordinal) == 0
            && able != 0
            && [0, 704].contains(&(self.calls.reach)(other.context as Handle, 0))
    }

    /// The module of a cubin, or of PTX; the context must be current.
    pub fn load_module(&self, cubin: &[u8]) -> Result<usize, Diagnostic> {
        let mut module: Handle = std::ptr::null_mut();
        // PTX is a text that ends with a zero.
        let text = (!cubin.starts_with(b"\x7fELF")).then(|| [cubin, &[0]].concat());
        let code = text.as_deref().unwrap_or(cubin);
        let loaded = (self.calls.load)(&mut module, code.as_ptr().cast());
        self.check("loading the code", loaded).map_err(|d| {
            d.help(format!(
                "the device runs code for {}; code for other architectures does not load",
                self.arch
            ))
        })?;
        Ok(module as usize)
    }

    /// A kernel of a module.
    pub fn function(&self, module: usize, name: &str) -> Result<usize, Diagnostic> {
        let text = CString::new(name).unwrap_or_default();
        let mut f: Handle = std::ptr::null_mut();
        let found = (self.calls.function)(&mut f, module as Handle, text.as_ptr());
        self.check(&format!("finding `{name}`"), found)?;
        Ok(f as usize)
    }

    /// Lets launches of a kernel ask for so much shared memory.
    pub fn allow_shared(&self, function: usize, bytes: u32) -> Result<(), Diagnostic> {
        if u64::from(bytes) > self.most_shared {
            let text = format!(
                "a block has {bytes} bytes of shared memory, {} gives at most {}",
                self.name, self.most_shared
            );
            return Err(Diagnostic::error(codes::DEVICE_LIMIT, text));
        }
        // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        let set = (self.calls.set_function)(function as Handle, 8, bytes as c_int);
        self.check("requesting shared memory", set)
    }

    /// The module of a cubin, and its kernels.
    pub fn load(&self, cubin: &[u8], kernels: &[DeviceKernel]) -> Result<(usize, Vec<usize>), Diagnostic> {
        let _entered = self.enter()?;
        let module = self.load_module(cubin)?;
        let mut functions = Vec::new();
        for k in kernels {
            if k.shared_bytes > self.most_shared {
                let text = format!(
                    "a block of `{}` has {} bytes of shared memory, {} gives at most {}",
                    k.name, k.shared_bytes, self.name, self.most_shared
                );
                return Err(Diagnostic::error(codes::DEVICE_LIMIT, text).help("use smaller tiles"));
            }
            let f = self.function(module, &k.name)?;
            if k.dynamic {
                self.allow_shared(f, k.shared_bytes as u32)?;
            }
            functions.push(f);
        }
        Ok((module, functions))
    }
}

/// See [`Opened::enter`].
pub(crate) struct Entered<'a> {
    calls: &'a Calls,
    before: Option<Handle>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            (self.calls.set_context)(before);
        }
    }
}
