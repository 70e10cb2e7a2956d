//! The engine `cuda`: NVRTC and the driver `libcuda`.

use crate::call::{self, Borrowing, Device};
use crate::codes;
use crate::host::{Driver, Launch, Value};
use crate::kept::{Unpacked, pack, unpack};
use crate::launches::launches;
use crate::library::{function, open};
use crate::nvrtc::{Nvrtc, Output, nvrtc};
use crate::{MOST_DEVICES, numbered};
use lathe_abi::{Array, Runtime};
use lathe_device::Limits;
use lathe_diagnostics::Diagnostic;
use lathe_engine::{Capabilities, Code, Engine, Object, Options, no_form};
use lathe_ir::{BufId, Buffer, Function, Module};
#[cfg(feature = "llvm")]
use lathe_source::device::DeviceSource;
use lathe_source::device::{DeviceKernel, Language, capabilities, emit};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// One device of the driver.
pub struct Cuda {
    number: usize,
    name: &'static str,
}

impl Cuda {
    /// The one of number 0.
    pub const FIRST: &'static Cuda = &Cuda { number: 0, name: "cuda" };

    /// The device of a number: `cuda` is `cuda:0`. None above the numbers that can be named.
    pub fn number(n: usize) -> Option<&'static Cuda> {
        static ALL: LazyLock<Vec<Cuda>> =
            LazyLock::new(|| numbered("cuda", |number, name| Cuda { number, name }));
        ALL.get(n)
    }
}

/// What code is written for if there is no device and none was requested.
pub const USUAL: &str = "sm_90a";

/// The architecture that is asked for.
fn architecture(options: &Options) -> Option<&str> {
    options.target.as_ref().filter(|t| t.arch == "nvptx64").map(|t| t.cpu.as_str())
}

/// What devices of an architecture allow.
fn limits(arch: &str) -> Limits {
    Limits { cluster: lathe_target::cluster_blocks(arch), ..Limits::default() }
}

/// What makes code of kernels.
enum Compiler {
    Nvrtc(&'static Nvrtc),
    /// PTX, which the driver compiles.
    #[cfg(feature = "llvm")]
    Llvm,
}

/// NVRTC if there is one, and what its code is written for.
fn compiler(arch: &str) -> Result<(Compiler, Limits), Diagnostic> {
    match nvrtc() {
        Ok(n) => Ok((Compiler::Nvrtc(n), limits(arch))),
        #[cfg(feature = "llvm")]
        Err(_) => Ok((Compiler::Llvm, lathe_llvm::ptx::limits())),
        #[cfg(not(feature = "llvm"))]
        Err(d) => Err(d),
    }
}

/// What code of an object was written for: cubins, which are ELF files, for the architecture.
fn written_for(code: &[u8], arch: &str) -> Limits {
    #[cfg(feature = "llvm")]
    if !code.starts_with(b"\x7fELF") {
        return lathe_llvm::ptx::limits();
    }
    let _ = code;
    limits(arch)
}

/// The kernels of a source as PTX by LLVM.
#[cfg(feature = "llvm")]
fn ptx(module: &Module, func: &Function, source: &DeviceSource, arch: &str) -> Result<Vec<u8>, Diagnostic> {
    let known = |k: &DeviceKernel| lathe_llvm::ptx::Kernel {
        name: k.name.clone(),
        dynamic: k.dynamic,
        status: k.status,
    };
    let kernels: Vec<_> = source.kernels.iter().map(known).collect();
    lathe_llvm::ptx::ptx(module, func, &kernels, arch)
}

impl Engine for Cuda {
    fn name(&self) -> &'static str {
        self.name
    }

    fn compiler(&self) -> String {
        match nvrtc() {
            Ok(n) => format!("NVRTC {}.{}", n.version.0, n.version.1),
            #[cfg(feature = "llvm")]
            Err(_) => lathe_engine::Engine::compiler(&lathe_llvm::Llvm) + " (NVPTX)",
            #[cfg(not(feature = "llvm"))]
            Err(d) => d.message,
        }
    }

    fn capabilities(&self) -> &Capabilities {
        capabilities()
    }

    fn fingerprint(&self) -> Result<String, Diagnostic> {
        let d = device(self.number)?;
        Ok(format!("{} {} {}", self.compiler(), d.name, d.arch))
    }

    fn compile(&self, module: &Module, func: &Function, options: &Options) -> Result<Object, Diagnostic> {
        let start = Instant::now();
        let arch = match architecture(options) {
            Some(a) => a.to_string(),
            None => device(self.number)?.arch.clone(),
        };
        let (compiler, limits) = compiler(&arch)?;
        let source = emit(module, func, Language::Cuda, limits)?;
        let emitted = start.elapsed();
        let start = Instant::now();
        let (stage, code) = match compiler {
            Compiler::Nvrtc(n) => ("nvrtc", n.compile(&source.source, &arch, Output::Cubin)?),
            #[cfg(feature = "llvm")]
            Compiler::Llvm => ("llvm", ptx(module, func, &source, &arch)?),
        };
        Ok(Object {
            engine: self.name().to_string(),
            fingerprint: self.fingerprint()?,
            symbol: func.name.to_string(),
            checks: source.checks,
            bytes: pack(module, func, &code),
            times: vec![("emit".to_string(), emitted), (stage.to_string(), start.elapsed())],
        })
    }

    fn load(&self, object: &Object, _: &Function) -> Result<Box<dyn Code>, Diagnostic> {
        let device = device(self.number)?;
        let unpacked = unpack(object, Language::Cuda, &|code| written_for(code, &device.arch))?;
        let loaded = device.load(&unpacked.code, &unpacked.source.kernels)?;
        Ok(Box::new(Loaded { unpacked, device, module: loaded.0, functions: loaded.1, one: Mutex::new(()) }))
    }

    fn forms(&self) -> &'static [&'static str] {
        if self.number == 0 { &["cuda", "ptx", "cubin", "launches"] } else { &[] }
    }

    fn emit(
        &self,
        module: &Module,
        func: &Function,
        form: &str,
        options: &Options,
    ) -> Result<Vec<u8>, Diagnostic> {
        let arch = architecture(options).unwrap_or(USUAL);
        if form == "ptx" {
            let (compiler, limits) = compiler(arch)?;
            let source = emit(module, func, Language::Cuda, limits)?;
            return match compiler {
                Compiler::Nvrtc(n) => n.compile(&source.source, arch, Output::Ptx),
                #[cfg(feature = "llvm")]
                Compiler::Llvm => ptx(module, func, &source, arch),
            };
        }
        let source = emit(module, func, Language::Cuda, limits(arch))?;
        match form {
            "cuda" => Ok(source.source.into_bytes()),
            "cubin" => nvrtc()?.compile(&source.source, arch, Output::Cubin),
            "launches" => Ok(launches(&source)?.into_bytes()),
            _ => Err(no_form(self.name(), form, self.forms())),
        }
    }
}

type Result_ = c_int;
type Handle = *mut c_void;

/// The functions of the driver that are used.
#[derive(Clone, Copy)]
struct Calls {
    error: extern "C" fn(Result_, *mut *const c_char) -> Result_,
    set_context: extern "C" fn(Handle) -> Result_,
    get_context: extern "C" fn(*mut Handle) -> Result_,
    load: extern "C" fn(*mut Handle, *const c_void) -> Result_,
    function: extern "C" fn(*mut Handle, Handle, *const c_char) -> Result_,
    set_function: extern "C" fn(Handle, c_int, c_int) -> Result_,
    unload: extern "C" fn(Handle) -> Result_,
    alloc: extern "C" fn(*mut u64, usize) -> Result_,
    free: extern "C" fn(u64) -> Result_,
    /// In the order of a stream, from a pool of the device.
    alloc_on: extern "C" fn(*mut u64, usize, Handle) -> Result_,
    free_on: extern "C" fn(u64, Handle) -> Result_,
    to_device: extern "C" fn(u64, *const c_void, usize) -> Result_,
    to_host: extern "C" fn(*mut c_void, u64, usize) -> Result_,
    fill: extern "C" fn(u64, u8, usize, Handle) -> Result_,
    #[allow(clippy::type_complexity, reason = "the driver's own list of arguments")]
    launch: extern "C" fn(
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
    event: extern "C" fn(*mut Handle, c_uint) -> Result_,
    destroy_event: extern "C" fn(Handle) -> Result_,
    record: extern "C" fn(Handle, Handle) -> Result_,
    query: extern "C" fn(Handle) -> Result_,
    elapsed: extern "C" fn(*mut f32, Handle, Handle) -> Result_,
}

/// A device with its context.
struct Opened {
    calls: Calls,
    context: usize,
    name: String,
    arch: String,
    /// Bytes of shared memory that a block can ask for.
    most_shared: u64,
    most_threads: u64,
    /// Whether memory can be allocated in the order of a stream.
    pools: bool,
    _library: libloading::Library,
}

const NOT_READY: Result_ = 600;

fn missing(text: String) -> Diagnostic {
    Diagnostic::error(codes::NO_DEVICE, text)
        .help("`--device cpu` runs everywhere; `lathe doctor` lists what is available")
}

/// The device of a number, opened once.
fn device(number: usize) -> Result<&'static Opened, Diagnostic> {
    static ALL: [OnceLock<Result<Opened, Diagnostic>>; MOST_DEVICES] =
        [const { OnceLock::new() }; MOST_DEVICES];
    ALL[number].get_or_init(|| opened(number)).as_ref().map_err(Clone::clone)
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
        to_device: function!(l, "cuMemcpyHtoD_v2", _)?,
        to_host: function!(l, "cuMemcpyDtoH_v2", _)?,
        fill: function!(l, "cuMemsetD8Async", _)?,
        launch: function!(l, "cuLaunchKernel", _)?,
        event: function!(l, "cuEventCreate", _)?,
        destroy_event: function!(l, "cuEventDestroy_v2", _)?,
        record: function!(l, "cuEventRecord", _)?,
        query: function!(l, "cuEventQuery", _)?,
        elapsed: function!(l, "cuEventElapsedTime", _)?,
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
    if get(&mut device, number as c_int) != 0
        || name(text.as_mut_ptr(), 255, device) != 0
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
    Ok(Opened { calls, context, name, arch, most_shared, most_threads, pools, _library: library })
}

impl Opened {
    fn check(&self, what: &str, result: Result_) -> Result<(), Diagnostic> {
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
    fn enter(&self) -> Result<Entered<'_>, Diagnostic> {
        let mut before: Handle = std::ptr::null_mut();
        self.check("asking for the context", (self.calls.get_context)(&mut before))?;
        self.check("entering the context", (self.calls.set_context)(self.context as Handle))?;
        Ok(Entered { calls: &self.calls, before })
    }

    /// The module of a cubin, or of PTX, and its kernels.
    fn load(&self, cubin: &[u8], kernels: &[DeviceKernel]) -> Result<(usize, Vec<usize>), Diagnostic> {
        let _entered = self.enter()?;
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
        let mut functions = Vec::new();
        for k in kernels {
            if k.shared_bytes > self.most_shared {
                let text = format!(
                    "a block of `{}` has {} bytes of shared memory, {} gives at most {}",
                    k.name, k.shared_bytes, self.name, self.most_shared
                );
                return Err(Diagnostic::error(codes::DEVICE_LIMIT, text).help("use smaller tiles"));
            }
            let name = CString::new(k.name.as_str()).unwrap_or_default();
            let mut f: Handle = std::ptr::null_mut();
            self.check(
                &format!("finding `{}`", k.name),
                (self.calls.function)(&mut f, module, name.as_ptr()),
            )?;
            if k.dynamic {
                // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self.check(
                    "requesting shared memory",
                    (self.calls.set_function)(f, 8, k.shared_bytes as c_int),
                )?;
            }
            functions.push(f as usize);
        }
        Ok((module as usize, functions))
    }
}

/// See [`Opened::enter`].
struct Entered<'a> {
    calls: &'a Calls,
    before: Handle,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        (self.calls.set_context)(self.before);
    }
}

struct Loaded {
    unpacked: Unpacked,
    device: &'static Opened,
    module: usize,
    functions: Vec<usize>,
    /// One call at a time: what a call has on the device is its own.
    one: Mutex<()>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            (self.device.calls.unload)(self.module as Handle);
        }
    }
}

impl Code for Loaded {
    unsafe fn call(&self, _: &Runtime, args: &[Array]) -> Result<i32, Diagnostic> {
        // SAFETY: the caller's promise.
        unsafe { self.run(args, 0) }.map(|r| r.0)
    }

    unsafe fn seconds(&self, args: &[Array], runs: usize) -> Result<Option<Vec<f64>>, Diagnostic> {
        // SAFETY: the caller's promise.
        unsafe { self.run(args, runs) }.map(|r| Some(r.1))
    }

    unsafe fn start(&self, args: &[Array], stream: u64) -> Result<i32, Diagnostic> {
        let _entered = self.device.enter()?;
        let mut s = self.session(stream as usize as Handle)?;
        // SAFETY: the caller's promise.
        unsafe { call::start(&self.unpacked, &mut s, args) }
    }
}

impl Loaded {
    unsafe fn run(&self, args: &[Array], times: usize) -> Result<(i32, Vec<f64>), Diagnostic> {
        let _alone = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let _entered = self.device.enter()?;
        let mut s = self.session(std::ptr::null_mut())?;
        // SAFETY: the caller's promise.
        unsafe { call::call(&self.unpacked, &mut s, args, times) }
    }

    fn session(&self, stream: Handle) -> Result<Session<'_>, Diagnostic> {
        let mut s = Session {
            code: self,
            stream,
            memory: HashMap::new(),
            borrowed: HashMap::new(),
            status: 0,
            turns: HashMap::new(),
            events: Vec::new(),
        };
        if self.unpacked.source.kernels.iter().any(|k| k.status) {
            s.status = s.take("the status", 16)?;
        }
        Ok(s)
    }
}

impl Borrowing for Session<'_> {
    fn borrow(&mut self, buffer: BufId, address: u64) {
        self.borrowed.insert(buffer, address);
    }
}

/// What one call has on the device.
struct Session<'a> {
    code: &'a Loaded,
    /// Everything is done in its order.
    stream: Handle,
    memory: HashMap<BufId, u64>,
    /// Memory of the caller.
    borrowed: HashMap<BufId, u64>,
    /// 0 where no kernel reports one.
    status: u64,
    /// By which blocks of a launch wait for one another, by the kernel and their bytes.
    turns: HashMap<(usize, usize), u64>,
    events: Vec<usize>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        for p in self.memory.values().chain([&self.status]).chain(self.turns.values()).filter(|p| **p != 0) {
            self.give_back(*p);
        }
        for e in &self.events {
            (self.code.device.calls.destroy_event)(*e as Handle);
        }
    }
}

impl Session<'_> {
    fn at(&self, b: BufId) -> Result<u64, Diagnostic> {
        let found = self.memory.get(&b).or_else(|| self.borrowed.get(&b)).copied();
        found.ok_or_else(|| {
            Diagnostic::error(lathe_engine::codes::DEFECT, format!("buffer #{} has no memory", b.0))
        })
    }

    fn take(&self, what: &str, bytes: u64) -> Result<u64, Diagnostic> {
        let d = self.code.device;
        let size = usize::try_from(bytes.max(16)).unwrap_or(usize::MAX);
        let mut p = 0;
        let done = if d.pools {
            (d.calls.alloc_on)(&mut p, size, self.stream)
        } else {
            (d.calls.alloc)(&mut p, size)
        };
        d.check(&format!("allocating {bytes} bytes for {what}"), done)?;
        Ok(p)
    }

    fn give_back(&self, p: u64) {
        let d = self.code.device;
        if d.pools {
            (d.calls.free_on)(p, self.stream);
        } else {
            (d.calls.free)(p);
        }
    }

    fn event(&mut self) -> Result<Handle, Diagnostic> {
        let d = self.code.device;
        let mut e: Handle = std::ptr::null_mut();
        d.check("making an event", (d.calls.event)(&mut e, 0))?;
        self.events.push(e as usize);
        d.check("recording an event", (d.calls.record)(e, self.stream))?;
        Ok(e)
    }
}

impl Driver for Session<'_> {
    fn alloc(&mut self, buffer: &Buffer, bytes: u64) -> Result<(), Diagnostic> {
        let p = self.take(&format!("`{}`", buffer.name), bytes)?;
        if let Some(old) = self.memory.insert(buffer.id, p) {
            self.give_back(old);
        }
        Ok(())
    }

    fn free(&mut self, buffer: BufId) {
        if let Some(p) = self.memory.remove(&buffer) {
            self.give_back(p);
        }
    }

    fn launch(&mut self, l: &Launch) -> Result<(), Diagnostic> {
        let d = self.code.device;
        if l.threads > d.most_threads {
            let text = format!(
                "a block of `{}` has {} threads, {} allows {}",
                l.kernel.name, l.threads, d.name, d.most_threads
            );
            return Err(Diagnostic::error(codes::DEVICE_LIMIT, text));
        }
        // Every argument in 8 bytes of its own, at whose address the driver reads as many as the kernel declares.
        let mut words: Vec<u64> = Vec::new();
        for a in &l.arguments {
            words.push(match a {
                Value::Array(b) => self.at(*b)?,
                Value::Bytes(bytes, _) => {
                    let mut all = [0u8; 8];
                    all[..bytes.len()].copy_from_slice(bytes);
                    u64::from_le_bytes(all)
                }
                Value::Named(n, _) => {
                    return Err(Diagnostic::error(
                        lathe_engine::codes::DEFECT,
                        format!("`{n}` has no value"),
                    ));
                }
            });
        }
        if l.turns > 0 {
            let size = usize::try_from(l.turns).unwrap_or(usize::MAX);
            let p = match self.turns.get(&(l.number, size)) {
                Some(p) => *p,
                None => {
                    let p = self.take("what blocks wait for", l.turns)?;
                    self.turns.insert((l.number, size), p);
                    p
                }
            };
            d.check("clearing what blocks wait for", (d.calls.fill)(p, 0, size, self.stream))?;
            words.push(p);
        }
        if l.kernel.status {
            words.push(self.status);
        }
        let mut places: Vec<*mut c_void> = words.iter_mut().map(|w| std::ptr::from_mut(w).cast()).collect();
        let shared = if l.kernel.dynamic { l.kernel.shared_bytes } else { 0 };
        let f = self.code.functions[l.number] as Handle;
        let (blocks, threads, shared) = (l.blocks as c_uint, l.threads as c_uint, shared as c_uint);
        let started = (d.calls.launch)(
            f,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            shared,
            self.stream,
            places.as_mut_ptr(),
            std::ptr::null_mut(),
        );
        d.check(&format!("starting `{}`", l.kernel.name), started)
    }
}

impl Device for Session<'_> {
    fn upload(&mut self, buffer: BufId, bytes: &[u8]) -> Result<(), Diagnostic> {
        let d = self.code.device;
        d.check(
            "copying to the device",
            (d.calls.to_device)(self.at(buffer)?, bytes.as_ptr().cast(), bytes.len()),
        )
    }

    fn download(&mut self, buffer: BufId, bytes: &mut [u8]) -> Result<(), Diagnostic> {
        let d = self.code.device;
        let at = self.at(buffer)?;
        d.check("copying from the device", (d.calls.to_host)(bytes.as_mut_ptr().cast(), at, bytes.len()))
    }

    fn clear(&mut self) -> Result<(), Diagnostic> {
        let d = self.code.device;
        match self.status {
            0 => Ok(()),
            status => d.check("clearing the status", (d.calls.fill)(status, 0, 16, self.stream)),
        }
    }

    fn finish(&mut self) -> Result<i32, Diagnostic> {
        let d = self.code.device;
        let end = self.event()?;
        let (start, limit) = (Instant::now(), call::limit());
        loop {
            match (d.calls.query)(end) {
                NOT_READY if start.elapsed() > limit => {
                    let text = format!(
                        "`{}` did not finish on {} within {} s",
                        self.code.unpacked.func.name,
                        d.name,
                        limit.as_secs()
                    );
                    // What the device still writes to must stay.
                    self.memory.clear();
                    self.turns.clear();
                    self.status = 0;
                    return Err(
                        Diagnostic::error(codes::DEVICE_TIME, text).help("LATHE_DEVICE_SECONDS allows more")
                    );
                }
                NOT_READY if start.elapsed().as_micros() > 500 => {
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
                NOT_READY => std::hint::spin_loop(),
                result => break d.check("running the kernels", result)?,
            }
        }
        if self.status == 0 {
            return Ok(lathe_abi::status::OK);
        }
        let mut status = [0u8; 4];
        d.check("reading the status", (d.calls.to_host)(status.as_mut_ptr().cast(), self.status, 4))?;
        Ok(i32::from_le_bytes(status))
    }

    fn mark(&mut self) -> Result<(), Diagnostic> {
        self.event().map(|_| ())
    }

    fn between(&mut self) -> Result<f64, Diagnostic> {
        let d = self.code.device;
        // The last event is that of `finish`.
        let [.., a, b, _] = self.events[..] else { return Ok(0.0) };
        let mut ms = 0f32;
        d.check("reading times", (d.calls.elapsed)(&mut ms, a as Handle, b as Handle))?;
        Ok(f64::from(ms) * 1e-3)
    }
}
