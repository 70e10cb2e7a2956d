//! A device of OpenCL: the functions of `libOpenCL`, its context, the queues that all who use it share.

use crate::codes;
use crate::info::{Ids, Platforms, STARTING, opencl_devices};
use crate::library::{Devices, function, missing, open};
use lathe_device::Limits;
use lathe_diagnostics::Diagnostic;
use lathe_source::device::DeviceKernel;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

pub(crate) type Handle = *mut c_void;
type Info = extern "C" fn(Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;

#[derive(Clone, Copy)]
pub(crate) struct Calls {
    pub source: extern "C" fn(Handle, c_uint, *const *const c_char, *const usize, *mut c_int) -> Handle,
    pub build: extern "C" fn(Handle, c_uint, *const Handle, *const c_char, Handle, Handle) -> c_int,
    pub log: extern "C" fn(Handle, Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int,
    pub kernel: extern "C" fn(Handle, *const c_char, *mut c_int) -> Handle,
    pub buffer: extern "C" fn(Handle, u64, usize, Handle, *mut c_int) -> Handle,
    pub argument: extern "C" fn(Handle, c_uint, usize, *const c_void) -> c_int,
    pub write:
        extern "C" fn(Handle, Handle, c_uint, usize, usize, *const c_void, c_uint, Handle, Handle) -> c_int,
    pub read:
        extern "C" fn(Handle, Handle, c_uint, usize, usize, *mut c_void, c_uint, Handle, Handle) -> c_int,
    pub run: extern "C" fn(
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
    pub marker: extern "C" fn(Handle, c_uint, Handle, *mut Handle) -> c_int,
    pub flush: extern "C" fn(Handle) -> c_int,
    pub event_info: Info,
    pub times: Info,
    pub release_buffer: extern "C" fn(Handle) -> c_int,
    pub release_event: extern "C" fn(Handle) -> c_int,
    pub release_kernel: extern "C" fn(Handle) -> c_int,
    pub release_program: extern "C" fn(Handle) -> c_int,
    pub between: extern "C" fn(Handle, Handle, Handle, usize, usize, usize, c_uint, Handle, Handle) -> c_int,
    pub memory: Info,
    program_info: Info,
    #[allow(clippy::type_complexity, reason = "the driver's own list of arguments")]
    from_binary: extern "C" fn(
        Handle,
        c_uint,
        *const Handle,
        *const usize,
        *const *const u8,
        *mut c_int,
        *mut c_int,
    ) -> Handle,
    pub part: extern "C" fn(Handle, u64, c_uint, *const c_void, *mut c_int) -> Handle,
    queue: extern "C" fn(Handle, Handle, u64, *mut c_int) -> Handle,
    pub fill:
        extern "C" fn(Handle, Handle, *const c_void, usize, usize, usize, c_uint, Handle, Handle) -> c_int,
    pub barrier: extern "C" fn(Handle, c_uint, *const Handle, *mut Handle) -> c_int,
}

pub(crate) struct Opened {
    pub calls: Calls,
    pub id: usize,
    pub context: usize,
    pub name: String,
    pub driver: String,
    pub most_threads: u64,
    pub most_shared: u64,
    pub number: usize,
    pub bytes: u64,
    /// Where a part of a buffer may begin, in bytes.
    pub alignment: u64,
    /// It uses the memory of the host.
    pub unified: bool,
    /// In-order queues by number: 0 for copies to the device, 1 for copies from it, the rest for kernels.
    queues: Mutex<Vec<usize>>,
    _library: libloading::Library,
}

/// The device of a number, opened once.
pub(crate) fn device(number: usize) -> Result<&'static Opened, Diagnostic> {
    static ALL: Devices<Opened> = Devices::new();
    ALL.get(number, opened)
}

fn opened(number: usize) -> Result<Opened, Diagnostic> {
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let library = open(&["libOpenCL.so.1", "libOpenCL.so"])
        .map_err(|e| missing("this machine has no OpenCL (libOpenCL.so.1)".to_string()).note(e))?;
    let l = &library;
    let found = (|| -> Result<_, String> {
        type Context = extern "C" fn(Handle, c_uint, *const Handle, Handle, Handle, *mut c_int) -> Handle;
        let platforms = function!(l, "clGetPlatformIDs", Platforms)?;
        let devices = function!(l, "clGetDeviceIDs", Ids)?;
        let info = function!(l, "clGetDeviceInfo", Info)?;
        let context = function!(l, "clCreateContext", Context)?;
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
            between: function!(l, "clEnqueueCopyBuffer", _)?,
            memory: function!(l, "clGetMemObjectInfo", _)?,
            program_info: function!(l, "clGetProgramInfo", _)?,
            from_binary: function!(l, "clCreateProgramWithBinary", _)?,
            part: function!(l, "clCreateSubBuffer", _)?,
            queue: function!(l, "clCreateCommandQueue", _)?,
            fill: function!(l, "clEnqueueFillBuffer", _)?,
            barrier: function!(l, "clEnqueueBarrierWithWaitList", _)?,
        };
        Ok((platforms, devices, info, context, calls))
    })();
    let (platforms, devices, info, context, calls) =
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
    if failed != 0 {
        return Err(Diagnostic::error(
            codes::DRIVER,
            format!("the device `opencl:{number}` cannot be opened ({failed})"),
        ));
    }
    // CL_DEVICE_NAME, CL_DRIVER_VERSION, CL_DEVICE_MAX_WORK_GROUP_SIZE, CL_DEVICE_LOCAL_MEM_SIZE
    let (name, driver) = (text(0x102b), text(0x102d));
    let (most_threads, most_shared) = (number_of(0x1004), number_of(0x1023));
    // CL_DEVICE_GLOBAL_MEM_SIZE, CL_DEVICE_MEM_BASE_ADDR_ALIGN (in bits), CL_DEVICE_HOST_UNIFIED_MEMORY
    let (bytes, alignment, unified) = (number_of(0x101f), number_of(0x1019) / 8, number_of(0x1035) != 0);
    Ok(Opened {
        calls,
        id: id as usize,
        context: c as usize,
        name,
        driver,
        most_threads,
        most_shared,
        number,
        bytes,
        alignment: alignment.max(1),
        unified,
        queues: Mutex::default(),
        _library: library,
    })
}

impl Opened {
    pub fn limits(&self) -> Limits {
        Limits { threads: (self.most_threads as i64).clamp(1, 1024), ..Limits::default() }
    }

    pub fn check(&self, what: &str, result: c_int) -> Result<(), Diagnostic> {
        if result == 0 {
            return Ok(());
        }
        Err(Diagnostic::error(codes::DRIVER, format!("{what} on {} failed ({result})", self.name)))
    }

    /// The queue of a number, made when it is first used, with times of what runs in it.
    pub fn queue(&self, number: usize) -> Result<usize, Diagnostic> {
        let mut all = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        while all.len() <= number {
            let mut failed = 0;
            let made = (self.calls.queue)(self.context as Handle, self.id as Handle, 2, &mut failed);
            self.check("making a queue", failed)?;
            all.push(made as usize);
        }
        Ok(all[number])
    }

    /// The program of Lathe's kernels, and the kernels.
    pub fn build(&self, source: &str, kernels: &[DeviceKernel]) -> Result<(usize, Vec<usize>), Diagnostic> {
        for k in kernels {
            if k.shared_bytes > self.most_shared {
                let text = format!(
                    "a block of `{}` has {} bytes of shared memory, {} gives at most {}",
                    k.name, k.shared_bytes, self.name, self.most_shared
                );
                return Err(Diagnostic::error(codes::DEVICE_LIMIT, text).help("use smaller tiles"));
            }
        }
        let program = match self.program(source, "-cl-fp32-correctly-rounded-divide-sqrt") {
            Ok(p) => p,
            // A device whose division is not rounded so refuses to be asked.
            Err(_) => self.program(source, "")?,
        };
        let named = |k: &DeviceKernel| self.kernel(program, &k.name);
        Ok((program, kernels.iter().map(named).collect::<Result<_, _>>()?))
    }

    /// Compiles a source.
    pub fn program(&self, source: &str, options: &str) -> Result<usize, Diagnostic> {
        let c = &self.calls;
        let (text, options) =
            (CString::new(source).unwrap_or_default(), CString::new(options).unwrap_or_default());
        let (pointer, mut failed) = (text.as_ptr(), 0);
        let program = (c.source)(self.context as Handle, 1, &pointer, std::ptr::null(), &mut failed);
        self.check("taking the source", failed)?;
        let (id, none) = (self.id as Handle, std::ptr::null_mut());
        let built = (c.build)(program, 1, &id, options.as_ptr(), none, none);
        if built == 0 {
            return Ok(program as usize);
        }
        let mut log = vec![0u8; 1 << 16];
        let mut n = 0usize;
        (c.log)(program, id, 0x1183, log.len(), log.as_mut_ptr().cast(), &mut n);
        (c.release_program)(program);
        let log = String::from_utf8_lossy(&log[..n.min(1 << 16)]).into_owned();
        let mut d = Diagnostic::error(
            codes::DEVICE_COMPILER,
            format!("{} did not compile the kernels ({built})", self.name),
        );
        for line in log.lines().filter(|l| l.contains("error")).take(5) {
            d = d.note(line.trim());
        }
        Err(d)
    }

    /// What the driver compiled, for [`Opened::program_from`].
    pub fn binary(&self, program: usize) -> Option<Vec<u8>> {
        let ask = |what: c_uint, bytes: usize, to: *mut c_void| {
            (self.calls.program_info)(program as Handle, what, bytes, to, std::ptr::null_mut()) == 0
        };
        let mut size = 0usize;
        // CL_PROGRAM_BINARY_SIZES, CL_PROGRAM_BINARIES: a number and a pointer for each device, here one.
        if !ask(0x1165, 8, std::ptr::from_mut(&mut size).cast()) || size == 0 {
            return None;
        }
        let mut bytes = vec![0u8; size];
        let mut at = bytes.as_mut_ptr();
        ask(0x1166, 8, std::ptr::from_mut(&mut at).cast()).then_some(bytes)
    }

    /// A program that was kept; none where the driver does not take it any more.
    pub fn program_from(&self, bytes: &[u8], options: &str) -> Option<usize> {
        let options = CString::new(options).ok()?;
        let (id, none) = (self.id as Handle, std::ptr::null_mut());
        let (size, at, mut state, mut failed) = (bytes.len(), bytes.as_ptr(), 0, 0);
        let context = self.context as Handle;
        let program = (self.calls.from_binary)(context, 1, &id, &size, &at, &mut state, &mut failed);
        if failed != 0 || state != 0 {
            return None;
        }
        if (self.calls.build)(program, 1, &id, options.as_ptr(), none, none) != 0 {
            (self.calls.release_program)(program);
            return None;
        }
        Some(program as usize)
    }

    pub fn kernel(&self, program: usize, name: &str) -> Result<usize, Diagnostic> {
        let (text, mut failed) = (CString::new(name).unwrap_or_default(), 0);
        let kernel = (self.calls.kernel)(program as Handle, text.as_ptr(), &mut failed);
        self.check(&format!("finding `{name}`"), failed)?;
        Ok(kernel as usize)
    }
}
