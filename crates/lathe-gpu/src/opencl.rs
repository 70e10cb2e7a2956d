//! The engine `opencl`: the devices of all platforms that `libOpenCL` knows, in its order.

use crate::call::{self, Device};
use crate::codes;
use crate::host::{Driver, Launch, Value};
use crate::info::{Ids, Platforms, opencl_devices};
use crate::kept::{Unpacked, pack, unpack};
use crate::library::{function, open};
use crate::{MOST_DEVICES, numbered};
use lathe_abi::{Array, Runtime};
use lathe_device::Limits;
use lathe_diagnostics::Diagnostic;
use lathe_engine::{Capabilities, Code, Engine, Object, Options, no_form};
use lathe_ir::{BufId, Buffer, Function, Module};
use lathe_source::device::{Language, capabilities, emit};
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// One device.
pub struct OpenCl {
    number: usize,
    name: &'static str,
}

impl OpenCl {
    /// The one of number 0.
    pub const FIRST: &'static OpenCl = &OpenCl { number: 0, name: "opencl" };

    /// The device of a number: `opencl` is `opencl:0`. None above the numbers that can be named.
    pub fn number(n: usize) -> Option<&'static OpenCl> {
        static ALL: LazyLock<Vec<OpenCl>> =
            LazyLock::new(|| numbered("opencl", |number, name| OpenCl { number, name }));
        ALL.get(n)
    }
}

impl Engine for OpenCl {
    fn name(&self) -> &'static str {
        self.name
    }

    fn compiler(&self) -> String {
        device(self.number).map_or_else(|d| d.message, |d| format!("{} {}", d.name, d.driver))
    }

    fn capabilities(&self) -> &Capabilities {
        capabilities()
    }

    fn fingerprint(&self) -> Result<String, Diagnostic> {
        let d = device(self.number)?;
        Ok(format!("{} {}", d.name, d.driver))
    }

    fn compile(&self, module: &Module, func: &Function, _: &Options) -> Result<Object, Diagnostic> {
        let start = Instant::now();
        let d = device(self.number)?;
        let source = emit(module, func, Language::OpenCl, d.limits())?;
        Ok(Object {
            engine: self.name().to_string(),
            fingerprint: self.fingerprint()?,
            symbol: func.name.to_string(),
            checks: source.checks,
            // The driver keeps what it compiles.
            bytes: pack(module, func, &[]),
            times: vec![("emit".to_string(), start.elapsed())],
        })
    }

    fn load(&self, object: &Object, _: &Function) -> Result<Box<dyn Code>, Diagnostic> {
        let d = device(self.number)?;
        let unpacked = unpack(object, Language::OpenCl, &|_| d.limits())?;
        let (program, kernels) = d.build(&unpacked)?;
        Ok(Box::new(Loaded { unpacked, device: d, program, kernels, one: Mutex::new(()) }))
    }

    fn forms(&self) -> &'static [&'static str] {
        if self.number == 0 { &["opencl"] } else { &[] }
    }

    fn emit(&self, module: &Module, func: &Function, form: &str, _: &Options) -> Result<Vec<u8>, Diagnostic> {
        match form {
            "opencl" => Ok(emit(module, func, Language::OpenCl, Limits::default())?.source.into_bytes()),
            _ => Err(no_form(self.name(), form, self.forms())),
        }
    }
}

type Handle = *mut c_void;
type Info = extern "C" fn(Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;

#[derive(Clone, Copy)]
struct Calls {
    source: extern "C" fn(Handle, c_uint, *const *const c_char, *const usize, *mut c_int) -> Handle,
    build: extern "C" fn(Handle, c_uint, *const Handle, *const c_char, Handle, Handle) -> c_int,
    log: extern "C" fn(Handle, Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int,
    kernel: extern "C" fn(Handle, *const c_char, *mut c_int) -> Handle,
    buffer: extern "C" fn(Handle, u64, usize, Handle, *mut c_int) -> Handle,
    argument: extern "C" fn(Handle, c_uint, usize, *const c_void) -> c_int,
    write:
        extern "C" fn(Handle, Handle, c_uint, usize, usize, *const c_void, c_uint, Handle, Handle) -> c_int,
    read: extern "C" fn(Handle, Handle, c_uint, usize, usize, *mut c_void, c_uint, Handle, Handle) -> c_int,
    run: extern "C" fn(
        Handle,
        Handle,
        c_uint,
        *const usize,
        *const usize,
        *const usize,
        c_uint,
        Handle,
        *mut Handle,
    ) -> c_int,
    marker: extern "C" fn(Handle, c_uint, Handle, *mut Handle) -> c_int,
    flush: extern "C" fn(Handle) -> c_int,
    event_info: Info,
    times: Info,
    release_buffer: extern "C" fn(Handle) -> c_int,
    release_event: extern "C" fn(Handle) -> c_int,
    release_kernel: extern "C" fn(Handle) -> c_int,
    release_program: extern "C" fn(Handle) -> c_int,
}

struct Opened {
    calls: Calls,
    id: usize,
    context: usize,
    queue: usize,
    name: String,
    driver: String,
    most_threads: u64,
    most_shared: u64,
    _library: libloading::Library,
}

fn missing(text: String) -> Diagnostic {
    Diagnostic::error(codes::NO_DEVICE, text)
        .help("`--device cpu` runs everywhere; `lathe doctor` lists what is available")
}

fn device(number: usize) -> Result<&'static Opened, Diagnostic> {
    static ALL: [OnceLock<Result<Opened, Diagnostic>>; MOST_DEVICES] =
        [const { OnceLock::new() }; MOST_DEVICES];
    ALL[number].get_or_init(|| opened(number)).as_ref().map_err(Clone::clone)
}

fn opened(number: usize) -> Result<Opened, Diagnostic> {
    let library = open(&["libOpenCL.so.1", "libOpenCL.so"])
        .map_err(|e| missing("this machine has no OpenCL (libOpenCL.so.1)".to_string()).note(e))?;
    let l = &library;
    let found = (|| -> Result<_, String> {
        type Context = extern "C" fn(Handle, c_uint, *const Handle, Handle, Handle, *mut c_int) -> Handle;
        type Queue = extern "C" fn(Handle, Handle, u64, *mut c_int) -> Handle;
        let platforms = function!(l, "clGetPlatformIDs", Platforms)?;
        let devices = function!(l, "clGetDeviceIDs", Ids)?;
        let info = function!(l, "clGetDeviceInfo", Info)?;
        let context = function!(l, "clCreateContext", Context)?;
        let queue = function!(l, "clCreateCommandQueue", Queue)?;
        let calls = Calls {
            source: function!(l, "clCreateProgramWithSource", _)?,
            build: function!(l, "clBuildProgram", _)?,
            log: function!(l, "clGetProgramBuildInfo", _)?,
            kernel: function!(l, "clCreateKernel", _)?,
            buffer: function!(l, "clCreateBuffer", _)?,
            argument: function!(l, "clSetKernelArg", _)?,
            write: function!(l, "clEnqueueWriteBuffer", _)?,
            read: function!(l, "clEnqueueReadBuffer", _)?,
            run: function!(l, "clEnqueueNDRangeKernel", _)?,
            marker: function!(l, "clEnqueueMarkerWithWaitList", _)?,
            flush: function!(l, "clFlush", _)?,
            event_info: function!(l, "clGetEventInfo", _)?,
            times: function!(l, "clGetEventProfilingInfo", _)?,
            release_buffer: function!(l, "clReleaseMemObject", _)?,
            release_event: function!(l, "clReleaseEvent", _)?,
            release_kernel: function!(l, "clReleaseKernel", _)?,
            release_program: function!(l, "clReleaseProgram", _)?,
        };
        Ok((platforms, devices, info, context, queue, calls))
    })();
    let (platforms, devices, info, context, queue, calls) =
        found.map_err(|e| Diagnostic::error(codes::DRIVER, format!("this OpenCL is not usable: {e}")))?;
    let all = opencl_devices(platforms, devices);
    let Some(id) = all.get(number).copied() else {
        let text = match all.len() {
            0 => "OpenCL finds no device on this machine".to_string(),
            n => format!("there is no device `opencl:{number}`: this machine has {n}, numbered from 0"),
        };
        return Err(missing(text));
    };
    let text = |which: c_uint| {
        let mut bytes = [0u8; 256];
        let mut n = 0usize;
        info(id, which, 256, bytes.as_mut_ptr().cast(), &mut n);
        String::from_utf8_lossy(&bytes[..n.min(256)]).trim_end_matches('\0').to_string()
    };
    let number_of = |which: c_uint| {
        let mut v = 0u64;
        info(id, which, 8, std::ptr::from_mut(&mut v).cast(), std::ptr::null_mut());
        v
    };
    let mut failed = 0;
    let none = std::ptr::null_mut();
    let c = context(none, 1, &id, none, none, &mut failed);
    // With times of what runs in it.
    let q = if failed == 0 { queue(c, id, 2, &mut failed) } else { none };
    if failed != 0 {
        return Err(Diagnostic::error(
            codes::DRIVER,
            format!("the device `opencl:{number}` cannot be opened ({failed})"),
        ));
    }
    // CL_DEVICE_NAME, CL_DRIVER_VERSION, CL_DEVICE_MAX_WORK_GROUP_SIZE, CL_DEVICE_LOCAL_MEM_SIZE
    let (name, driver) = (text(0x102b), text(0x102d));
    let (most_threads, most_shared) = (number_of(0x1004), number_of(0x1023));
    Ok(Opened {
        calls,
        id: id as usize,
        context: c as usize,
        queue: q as usize,
        name,
        driver,
        most_threads,
        most_shared,
        _library: library,
    })
}

impl Opened {
    fn limits(&self) -> Limits {
        Limits { threads: (self.most_threads as i64).clamp(1, 1024), ..Limits::default() }
    }

    fn check(&self, what: &str, result: c_int) -> Result<(), Diagnostic> {
        if result == 0 {
            return Ok(());
        }
        Err(Diagnostic::error(codes::DRIVER, format!("{what} on {} failed ({result})", self.name)))
    }

    fn build(&self, u: &Unpacked) -> Result<(usize, Vec<usize>), Diagnostic> {
        let source = &u.source;
        for k in &source.kernels {
            if k.shared_bytes > self.most_shared {
                let text = format!(
                    "a block of `{}` has {} bytes of shared memory, {} gives at most {}",
                    k.name, k.shared_bytes, self.name, self.most_shared
                );
                return Err(Diagnostic::error(codes::DEVICE_LIMIT, text).help("use smaller tiles"));
            }
        }
        let c = &self.calls;
        let text = CString::new(source.source.as_str()).unwrap_or_default();
        let (pointer, mut failed) = (text.as_ptr(), 0);
        let program = (c.source)(self.context as Handle, 1, &pointer, std::ptr::null(), &mut failed);
        self.check("taking the source", failed)?;
        let id = self.id as Handle;
        let none = std::ptr::null_mut();
        let mut built =
            (c.build)(program, 1, &id, c"-cl-fp32-correctly-rounded-divide-sqrt".as_ptr(), none, none);
        if built != 0 {
            // A device whose division is not rounded so refuses to be asked.
            built = (c.build)(program, 1, &id, c"".as_ptr(), none, none);
        }
        if built != 0 {
            let mut log = vec![0u8; 1 << 16];
            let mut n = 0usize;
            (c.log)(program, id, 0x1183, log.len(), log.as_mut_ptr().cast(), &mut n);
            let log = String::from_utf8_lossy(&log[..n.min(1 << 16)]).into_owned();
            let mut d = Diagnostic::error(
                codes::DEVICE_COMPILER,
                format!("{} did not compile the kernels ({built})", self.name),
            );
            for line in log.lines().filter(|l| l.contains("error")).take(5) {
                d = d.note(line.trim());
            }
            return Err(d);
        }
        let mut kernels = Vec::new();
        for k in &source.kernels {
            let name = CString::new(k.name.as_str()).unwrap_or_default();
            kernels.push((c.kernel)(program, name.as_ptr(), &mut failed) as usize);
            self.check(&format!("finding `{}`", k.name), failed)?;
        }
        Ok((program as usize, kernels))
    }
}

struct Loaded {
    unpacked: Unpacked,
    device: &'static Opened,
    program: usize,
    kernels: Vec<usize>,
    /// A kernel's arguments are a state of it: one call at a time.
    one: Mutex<()>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        for k in &self.kernels {
            (self.device.calls.release_kernel)(*k as Handle);
        }
        (self.device.calls.release_program)(self.program as Handle);
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
}

impl Loaded {
    unsafe fn run(&self, args: &[Array], times: usize) -> Result<(i32, Vec<f64>), Diagnostic> {
        let _alone = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let mut s = Session {
            code: self,
            memory: HashMap::new(),
            status: 0,
            turns: HashMap::new(),
            marks: Vec::new(),
        };
        s.status = s.take("the status", 16)?;
        // SAFETY: the caller's promise.
        unsafe { call::call(&self.unpacked, &mut s, args, times) }
    }
}

struct Session<'a> {
    code: &'a Loaded,
    memory: HashMap<BufId, usize>,
    status: usize,
    /// By which blocks of a launch wait for one another, by the kernel and their bytes.
    turns: HashMap<(usize, u64), usize>,
    marks: Vec<usize>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let c = &self.code.device.calls;
        for p in self.memory.values().chain([&self.status]).chain(self.turns.values()).filter(|p| **p != 0) {
            (c.release_buffer)(*p as Handle);
        }
        for e in &self.marks {
            (c.release_event)(*e as Handle);
        }
    }
}

impl Session<'_> {
    fn take(&self, what: &str, bytes: u64) -> Result<usize, Diagnostic> {
        let d = self.code.device;
        let mut failed = 0;
        let size = usize::try_from(bytes.max(16)).unwrap_or(usize::MAX);
        let made = (d.calls.buffer)(d.context as Handle, 1, size, std::ptr::null_mut(), &mut failed);
        d.check(&format!("allocating {bytes} bytes for {what}"), failed)?;
        Ok(made as usize)
    }

    fn at(&self, b: BufId) -> Result<usize, Diagnostic> {
        let found = self.memory.get(&b).copied();
        found.ok_or_else(|| {
            Diagnostic::error(lathe_engine::codes::DEFECT, format!("buffer #{} has no memory", b.0))
        })
    }

    fn write(&self, to: usize, bytes: &[u8]) -> Result<(), Diagnostic> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (d, none) = (self.code.device, std::ptr::null_mut());
        let q = d.queue as Handle;
        let done = (d.calls.write)(q, to as Handle, 1, 0, bytes.len(), bytes.as_ptr().cast(), 0, none, none);
        d.check("copying to the device", done)
    }

    fn read(&self, from: usize, bytes: &mut [u8]) -> Result<(), Diagnostic> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (d, none) = (self.code.device, std::ptr::null_mut());
        let q = d.queue as Handle;
        let done =
            (d.calls.read)(q, from as Handle, 1, 0, bytes.len(), bytes.as_mut_ptr().cast(), 0, none, none);
        d.check("copying from the device", done)
    }

    /// An event that is complete once all that was started before is.
    fn marker(&mut self) -> Result<Handle, Diagnostic> {
        let d = self.code.device;
        let mut e: Handle = std::ptr::null_mut();
        d.check("making an event", (d.calls.marker)(d.queue as Handle, 0, std::ptr::null_mut(), &mut e))?;
        self.marks.push(e as usize);
        Ok(e)
    }
}

impl Driver for Session<'_> {
    fn alloc(&mut self, buffer: &Buffer, bytes: u64) -> Result<(), Diagnostic> {
        let made = self.take(&format!("`{}`", buffer.name), bytes)?;
        if let Some(old) = self.memory.insert(buffer.id, made) {
            (self.code.device.calls.release_buffer)(old as Handle);
        }
        Ok(())
    }

    fn free(&mut self, buffer: BufId) {
        if let Some(p) = self.memory.remove(&buffer) {
            (self.code.device.calls.release_buffer)(p as Handle);
        }
    }

    fn launch(&mut self, l: &Launch) -> Result<(), Diagnostic> {
        let d = self.code.device;
        let k = self.code.kernels[l.number] as Handle;
        let mut turns = 0;
        if l.turns > 0 {
            turns = match self.turns.get(&(l.number, l.turns)) {
                Some(p) => *p,
                None => self.take("what blocks wait for", l.turns)?,
            };
            self.turns.insert((l.number, l.turns), turns);
            self.write(turns, &vec![0; usize::try_from(l.turns).unwrap_or(usize::MAX)])?;
        }
        let mut number = 0;
        let mut set = |bytes: &[u8]| {
            let done = (d.calls.argument)(k, number, bytes.len(), bytes.as_ptr().cast());
            number += 1;
            d.check(&format!("giving `{}` its arguments", l.kernel.name), done)
        };
        for a in &l.arguments {
            match a {
                Value::Array(b) => set(&self.at(*b)?.to_ne_bytes())?,
                Value::Bytes(bytes, _) => set(bytes)?,
                Value::Named(n, _) => {
                    return Err(Diagnostic::error(
                        lathe_engine::codes::DEFECT,
                        format!("`{n}` has no value"),
                    ));
                }
            }
        }
        if l.turns > 0 {
            set(&turns.to_ne_bytes())?;
        }
        if l.kernel.status {
            set(&self.status.to_ne_bytes())?;
        }
        let (local, none) = (l.threads as usize, std::ptr::null_mut());
        let global = l.blocks as usize * local;
        let q = d.queue as Handle;
        let started =
            (d.calls.run)(q, k, 1, std::ptr::null(), &global, &local, 0, none, std::ptr::null_mut());
        d.check(&format!("starting `{}`", l.kernel.name), started)
    }
}

impl Device for Session<'_> {
    fn upload(&mut self, buffer: BufId, bytes: &[u8]) -> Result<(), Diagnostic> {
        self.write(self.at(buffer)?, bytes)
    }

    fn download(&mut self, buffer: BufId, bytes: &mut [u8]) -> Result<(), Diagnostic> {
        self.read(self.at(buffer)?, bytes)
    }

    fn clear(&mut self) -> Result<(), Diagnostic> {
        self.write(self.status, &[0; 16])
    }

    fn finish(&mut self) -> Result<i32, Diagnostic> {
        let d = self.code.device;
        let end = self.marker()?;
        d.check("starting the kernels", (d.calls.flush)(d.queue as Handle))?;
        let (start, limit) = (Instant::now(), call::limit());
        loop {
            let mut state: c_int = 0;
            // CL_EVENT_COMMAND_EXECUTION_STATUS: 0 is complete, negative a failure.
            let asked = (d.calls.event_info)(
                end,
                0x11d3,
                4,
                std::ptr::from_mut(&mut state).cast(),
                std::ptr::null_mut(),
            );
            d.check("asking for the state", asked)?;
            if state <= 0 {
                d.check("running the kernels", state)?;
                break;
            }
            if start.elapsed() > limit {
                let text = format!(
                    "`{}` did not finish on {} within {} s",
                    self.code.unpacked.func.name,
                    d.name,
                    limit.as_secs()
                );
                self.memory.clear();
                self.turns.clear();
                self.status = 0;
                return Err(
                    Diagnostic::error(codes::DEVICE_TIME, text).help("LATHE_DEVICE_SECONDS allows more")
                );
            }
            std::thread::sleep(Duration::from_micros(if start.elapsed().as_millis() < 5 { 20 } else { 500 }));
        }
        let mut status = [0u8; 4];
        self.read(self.status, &mut status)?;
        Ok(i32::from_le_bytes(status))
    }

    fn mark(&mut self) -> Result<(), Diagnostic> {
        self.marker().map(|_| ())
    }

    fn between(&mut self) -> Result<f64, Diagnostic> {
        let d = self.code.device;
        let [.., a, b, _] = self.marks[..] else { return Ok(0.0) };
        let end_of = |e: usize| {
            let mut ns = 0u64;
            // CL_PROFILING_COMMAND_END
            let read = (d.calls.times)(
                e as Handle,
                0x1283,
                8,
                std::ptr::from_mut(&mut ns).cast(),
                std::ptr::null_mut(),
            );
            d.check("reading times", read).map(|()| ns)
        };
        Ok((end_of(b)?.saturating_sub(end_of(a)?)) as f64 * 1e-9)
    }
}
