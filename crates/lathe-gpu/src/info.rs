//! The available devices, as the drivers report them, without opening any.

use crate::MOST_DEVICES;
use crate::codes;
use crate::library::{function, open};
use lathe_diagnostics::Diagnostic;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

/// A device that `--device` can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// `cuda:0`, `opencl:1`.
    pub id: String,
    /// `cuda` or `opencl`.
    pub kind: &'static str,
    pub name: String,
    /// The platform that it belongs to, and the number of that among the driver's platforms.
    pub platform: String,
    pub platform_number: usize,
    /// The target of code: `sm_90a`; for OpenCL, the version that the device supports.
    pub arch: String,
    pub memory_bytes: u64,
    /// Multiprocessors, compute units.
    pub multiprocessors: u64,
    /// What one block can have.
    pub shared_bytes: u64,
    /// What not every device has.
    pub features: Vec<&'static str>,
}

/// The devices of both kinds; where a kind has none, why.
pub fn devices() -> (Vec<DeviceInfo>, Vec<Diagnostic>) {
    let (mut all, mut why) = (Vec::new(), Vec::new());
    for kind in ["cuda", "opencl"] {
        match devices_of(kind) {
            Ok(devices) => all.extend(devices),
            Err(d) => why.push(d),
        }
    }
    (all, why)
}

/// The devices of a kind, `cuda` or `opencl`; the driver of the other kind is not loaded.
///
/// # Errors
/// `E0841` where there is none, with the reason.
pub fn devices_of(kind: &str) -> Result<Vec<DeviceInfo>, Diagnostic> {
    let found = match kind {
        "cuda" => cuda(),
        "opencl" => opencl(),
        _ => {
            of_this_machine(kind)?;
            Err(format!("`{kind}` is not a kind of device: cuda, opencl"))
        }
    };
    found.map_err(|text| Diagnostic::error(codes::NO_DEVICE, text))
}

/// Refuses devices of other machines by their names: a host with `@` or `://`, or the word `remote`.
///
/// # Errors
/// `E0841`.
pub(crate) fn of_this_machine(name: &str) -> Result<(), Diagnostic> {
    if !(name.contains('@') || name.contains("://") || name.starts_with("remote")) {
        return Ok(());
    }
    let text = format!(
        "`{name}` is a device of another machine: that needs a daemon there, which Lathe does not have"
    );
    Err(Diagnostic::error(codes::NO_DEVICE, text).help("run the program on that machine"))
}

/// The architecture of a device of CUDA that this machine has: `cuda:1`, or `cuda` for the first one.
pub fn architecture(name: &str) -> Option<String> {
    let number = match name.split_once(':') {
        Some((kind, number)) => number.parse::<c_int>().ok().filter(|_| kind == "cuda")?,
        None => Some(0).filter(|_| name == "cuda")?,
    };
    // Only this device is asked: every compilation begins here.
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let (library, n) = driver().ok()?;
    let get = function!(library, "cuDeviceGet", extern "C" fn(*mut c_int, c_int) -> c_int).ok()?;
    let attribute = function!(library, "cuDeviceGetAttribute", Attribute).ok()?;
    let mut device = 0;
    ((0..n).contains(&number) && get(&mut device, number) == 0).then(|| target(attribute, device))
}

/// A library of devices: what it is for, its version or why it cannot be used, and how to get it.
pub type Finding = (&'static str, Result<String, String>, &'static str);

/// The libraries that devices need, as far as this machine has them.
pub fn libraries() -> Vec<Finding> {
    let version = |names: &[&str], symbol: &str| -> Result<i32, String> {
        type Version = extern "C" fn(*mut c_int) -> c_int;
        let library = open(names)?;
        // SAFETY: functions of this name give their version in a number.
        let found = unsafe { library.get::<Version>(symbol.as_bytes()) }.map_err(|e| e.to_string())?;
        let mut v = 0;
        match found(&mut v) {
            0 => Ok(v),
            e => Err(format!("{symbol} failed ({e})")),
        }
    };
    let cuda = version(&["libcuda.so.1", "libcuda.so"], "cuDriverGetVersion");
    let cuda = cuda.map(|v| format!("CUDA {}.{}", v / 1000, v % 1000 / 10));
    let nvrtc = crate::nvrtc::nvrtc().map(|n| format!("NVRTC {}.{}", n.version.0, n.version.1));
    let opencl = open(&["libOpenCL.so.1", "libOpenCL.so"]).map(|_| "libOpenCL.so.1".to_string());
    let nccl = crate::nccl::nccl().map(|n| n.found.clone());
    vec![
        ("CUDA driver", cuda, "install the driver of the NVIDIA device (it comes with libcuda.so.1)"),
        ("NVRTC", nvrtc.map_err(|d| d.message), "install CUDA, or: pip install 'nvidia-cuda-nvrtc==13.0.*'"),
        (
            "OpenCL",
            opencl,
            "install the device's driver with the loader (ocl-icd-libopencl1); for CPUs: pocl-opencl-icd",
        ),
        ("NCCL", nccl.map_err(|d| d.message), crate::nccl::HOW),
    ]
}

/// What a fact of a CUDA device is called, and its number (`CUdevice_attribute`).
const CUDA_FEATURES: [(&str, c_int); 5] = [
    ("managed_memory", 83),
    ("cooperative_launch", 95),
    ("memory_pools", 115),
    ("clusters", 120),
    ("host_page_tables", 100),
];

type Attribute = extern "C" fn(*mut c_int, c_int, c_int) -> c_int;

/// The driver, and how many devices it finds; the lock of [`STARTING`] is held.
fn driver() -> Result<(libloading::Library, c_int), String> {
    let library = open(&["libcuda.so.1", "libcuda.so"])
        .map_err(|e| format!("this machine has no driver for CUDA devices (libcuda.so.1): {e}"))?;
    let l = &library;
    let init = function!(l, "cuInit", extern "C" fn(c_uint) -> c_int)?;
    let count = function!(l, "cuDeviceGetCount", extern "C" fn(*mut c_int) -> c_int)?;
    let mut n = 0;
    if init(0) != 0 || count(&mut n) != 0 || n == 0 {
        return Err("the CUDA driver finds no device".to_string());
    }
    Ok((library, n.min(MOST_DEVICES as c_int)))
}

/// The target of code for a device: its compute capability has the numbers 75 and 76.
fn target(attribute: Attribute, device: c_int) -> String {
    let (mut major, mut minor) = (0, 0);
    attribute(&mut major, 75, device);
    attribute(&mut minor, 76, device);
    format!("sm_{major}{minor}{}", if major >= 9 { "a" } else { "" })
}

fn cuda() -> Result<Vec<DeviceInfo>, String> {
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let (library, n) = driver()?;
    let l = &library;
    let get = function!(l, "cuDeviceGet", extern "C" fn(*mut c_int, c_int) -> c_int)?;
    let name = function!(l, "cuDeviceGetName", extern "C" fn(*mut c_char, c_int, c_int) -> c_int)?;
    let memory = function!(l, "cuDeviceTotalMem_v2", extern "C" fn(*mut usize, c_int) -> c_int)?;
    let attribute = function!(l, "cuDeviceGetAttribute", Attribute)?;
    let mut out = Vec::new();
    for number in 0..n {
        let (mut device, mut bytes) = (0, 0usize);
        let mut text = [0 as c_char; 256];
        if get(&mut device, number) != 0
            || name(text.as_mut_ptr(), 255, device) != 0
            || memory(&mut bytes, device) != 0
        {
            return Err(format!("the device `cuda:{number}` does not answer"));
        }
        let fact = |which: c_int| {
            let mut v = 0;
            if attribute(&mut v, which, device) == 0 { v.max(0) as u64 } else { 0 }
        };
        // Multiprocessors (16), shared memory that a block can ask for (97).
        out.push(DeviceInfo {
            id: format!("cuda:{number}"),
            kind: "cuda",
            // SAFETY: the driver ends the name with a zero, and the array does.
            name: unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned(),
            platform: "CUDA".to_string(),
            platform_number: 0,
            arch: target(attribute, device),
            memory_bytes: bytes as u64,
            multiprocessors: fact(16),
            shared_bytes: fact(97),
            features: CUDA_FEATURES.iter().filter(|f| fact(f.1) != 0).map(|f| f.0).collect(),
        });
    }
    Ok(out)
}

/// What a feature of an OpenCL device is called, and the extension that stands for it.
const OPENCL_FEATURES: [(&str, &str); 5] = [
    ("f64", "cl_khr_fp64"),
    ("f16", "cl_khr_fp16"),
    ("atomics_64", "cl_khr_int64_base_atomics"),
    ("subgroups", "cl_khr_subgroups"),
    ("spirv", "cl_khr_il_program"),
];

type Handle = *mut c_void;
/// `clGetPlatformIDs`.
pub(crate) type Platforms = extern "C" fn(c_uint, *mut Handle, *mut c_uint) -> c_int;
/// `clGetDeviceIDs`.
pub(crate) type Ids = extern "C" fn(Handle, u64, c_uint, *mut Handle, *mut c_uint) -> c_int;

/// One thread at a time asks what devices there are, and opens them: loaders and drivers start with that, and not all of them
/// are safe then.
pub(crate) static STARTING: Mutex<()> = Mutex::new(());

/// The devices of all platforms of OpenCL, in its order, which gives them their numbers.
pub(crate) fn opencl_devices(platforms: Platforms, ids: Ids) -> Vec<Handle> {
    let mut all: Vec<Handle> = Vec::new();
    let mut list = [std::ptr::null_mut(); 16];
    let mut n = 0;
    if platforms(16, list.as_mut_ptr(), &mut n) == 0 {
        for p in &list[..(n as usize).min(16)] {
            let mut here = [std::ptr::null_mut(); 16];
            let mut n = 0;
            // CL_DEVICE_TYPE_ALL
            if ids(*p, 0xffff_ffff, 16, here.as_mut_ptr(), &mut n) == 0 {
                all.extend(&here[..(n as usize).min(16)]);
            }
        }
    }
    all
}

fn opencl() -> Result<Vec<DeviceInfo>, String> {
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    type Info = extern "C" fn(Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;
    let library = open(&["libOpenCL.so.1", "libOpenCL.so"])
        .map_err(|e| format!("this machine has no OpenCL (libOpenCL.so.1): {e}"))?;
    let l = &library;
    let platforms = function!(l, "clGetPlatformIDs", Platforms)?;
    let ids = function!(l, "clGetDeviceIDs", Ids)?;
    let info = function!(l, "clGetDeviceInfo", Info)?;
    let about = function!(l, "clGetPlatformInfo", Info)?;
    let mut list = [std::ptr::null_mut(); 16];
    let mut n = 0;
    let known = if platforms(16, list.as_mut_ptr(), &mut n) == 0 { (n as usize).min(16) } else { 0 };
    let mut found = opencl_devices(platforms, ids);
    if found.is_empty() {
        return Err("OpenCL finds no device on this machine".to_string());
    }
    found.truncate(MOST_DEVICES);
    let one = |(number, id): (usize, &Handle)| {
        let said = |ask: Info, of: Handle, which: c_uint| {
            let mut bytes = vec![0u8; 1 << 14];
            let mut n = 0usize;
            ask(of, which, bytes.len(), bytes.as_mut_ptr().cast(), &mut n);
            bytes.truncate(n);
            String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_string()
        };
        let text = |which: c_uint| said(info, *id, which);
        // Counts have 32 bits and sizes 64; what is not written stays 0.
        let fact = |which: c_uint| {
            let mut v = 0u64;
            info(*id, which, 8, std::ptr::from_mut(&mut v).cast(), std::ptr::null_mut());
            v
        };
        // CL_DEVICE_PLATFORM, CL_PLATFORM_NAME
        let platform = fact(0x1031) as usize as Handle;
        let platform_number = list[..known].iter().position(|p| *p == platform).unwrap_or(0);
        // CL_DEVICE_EXTENSIONS, _NAME, _VERSION, _GLOBAL_MEM_SIZE, _MAX_COMPUTE_UNITS, _LOCAL_MEM_SIZE
        let extensions = text(0x1030);
        let has = |name: &str| extensions.split_whitespace().any(|e| e == name);
        DeviceInfo {
            id: format!("opencl:{number}"),
            kind: "opencl",
            name: text(0x102b),
            platform: said(about, platform, 0x0902),
            platform_number,
            arch: text(0x102f),
            memory_bytes: fact(0x101f),
            multiprocessors: fact(0x1002),
            shared_bytes: fact(0x1023),
            features: OPENCL_FEATURES.iter().filter(|f| has(f.1)).map(|f| f.0).collect(),
        }
    };
    Ok(found.iter().enumerate().map(one).collect())
}
