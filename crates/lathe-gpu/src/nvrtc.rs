//! NVRTC: CUDA C to a cubin or to PTX, with or without a device.

use crate::codes;
use crate::library::{function, open, python_packages};
use lathe_diagnostics::Diagnostic;
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

type Program = *mut c_void;

/// The library and its version.
pub struct Nvrtc {
    library: Library,
    _builtins: Option<Library>,
    pub version: (i32, i32),
}

/// What to make of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Cubin,
    Ptx,
}

/// The NVRTC of this machine, opened once.
///
/// # Errors
/// `E0842` where there is none.
pub fn nvrtc() -> Result<&'static Nvrtc, Diagnostic> {
    static FOUND: OnceLock<Result<Nvrtc, Diagnostic>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref().map_err(Clone::clone)
}

/// Folders in which it is searched for, in this order.
fn folders() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("LATHE_NVRTC") {
        return vec![named.into()];
    }
    let mut out = Vec::new();
    for root in ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os) {
        out.extend(["lib64", "lib"].map(|l| PathBuf::from(&root).join(l)));
    }
    out.push("/usr/local/cuda/lib64".into());
    out.extend(python_packages());
    // Where `scripts/setup.sh` puts it.
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    out.extend(cache.map(|c| c.join("lathe-nvrtc/nvidia/cu13/lib")));
    out
}

fn find() -> Result<Nvrtc, Diagnostic> {
    let mut last = String::from("no libnvrtc.so in the folders that are searched");
    for folder in folders() {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
        files.sort();
        let starts = |p: &PathBuf, start: &str| {
            p.file_name()
                .and_then(|n| n.to_str())
                .is_some_and(|n| n.starts_with(start) && !n.contains(".alt."))
        };
        let Some(main) = files.iter().find(|p| starts(p, "libnvrtc.so")) else { continue };
        // Loaded by its place, so that the library that wants it by name finds it.
        let builtins = files.iter().find(|p| starts(p, "libnvrtc-builtins.so"));
        // SAFETY: a part of NVRTC, without initializers that matter.
        let builtins = builtins.and_then(|p| unsafe { Library::new(p) }.ok());
        // SAFETY: NVRTC itself.
        match unsafe { Library::new(main) }.map_err(|e| e.to_string()).and_then(|l| opened(l, builtins)) {
            Ok(n) => return Ok(n),
            Err(e) => last = e,
        }
    }
    if std::env::var_os("LATHE_NVRTC").is_none() {
        match open(&["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]).and_then(|l| opened(l, None)) {
            Ok(n) => return Ok(n),
            Err(e) => last = e,
        }
    }
    Err(Diagnostic::error(codes::DEVICE_COMPILER, "NVRTC, the compiler of CUDA C, was not found")
        .note(last)
        .help("install CUDA, or: pip install 'nvidia-cuda-nvrtc==13.0.*'; LATHE_NVRTC names its folder"))
}

fn opened(library: Library, builtins: Option<Library>) -> Result<Nvrtc, String> {
    let version = function!(library, "nvrtcVersion", extern "C" fn(*mut c_int, *mut c_int) -> c_int)?;
    let (mut major, mut minor) = (0, 0);
    match version(&mut major, &mut minor) {
        0 => Ok(Nvrtc { library, _builtins: builtins, version: (major, minor) }),
        e => Err(format!("nvrtcVersion failed ({e})")),
    }
}

impl Nvrtc {
    /// Compiles a source for an architecture such as `sm_90a`.
    ///
    /// # Errors
    /// `E0842` with the compiler's log.
    pub fn compile(&self, source: &str, arch: &str, output: Output) -> Result<Vec<u8>, Diagnostic> {
        let flags = ["--fmad=false".to_string()];
        self.compile_in(source, arch, output, &flags, None).unwrap_or_else(unusable).map(|made| made.1)
    }

    /// Compiles a source of the user's to a cubin; what the compiler calls the kernel of a name comes with it.
    ///
    /// # Errors
    /// As [`Nvrtc::compile`].
    pub fn compile_kernel(
        &self,
        source: &str,
        arch: &str,
        flags: &[String],
        kernel: &str,
    ) -> Result<(String, Vec<u8>), Diagnostic> {
        self.compile_in(source, arch, Output::Cubin, flags, Some(kernel)).unwrap_or_else(unusable)
    }

    fn compile_in(
        &self,
        source: &str,
        arch: &str,
        output: Output,
        flags: &[String],
        kernel: Option<&str>,
    ) -> Result<Result<(String, Vec<u8>), Diagnostic>, String> {
        type Text = *const c_char;
        type Create = extern "C" fn(*mut Program, Text, Text, c_int, *const Text, *const Text) -> c_int;
        type Compile = extern "C" fn(Program, c_int, *const Text) -> c_int;
        type Size = extern "C" fn(Program, *mut usize) -> c_int;
        type Get = extern "C" fn(Program, *mut c_char) -> c_int;
        type Name = extern "C" fn(Program, Text) -> c_int;
        type Lowered = extern "C" fn(Program, Text, *mut Text) -> c_int;
        let l = &self.library;
        let create = function!(l, "nvrtcCreateProgram", Create)?;
        let compile = function!(l, "nvrtcCompileProgram", Compile)?;
        let destroy = function!(l, "nvrtcDestroyProgram", extern "C" fn(*mut Program) -> c_int)?;
        let (log_size, log) =
            (function!(l, "nvrtcGetProgramLogSize", Size)?, function!(l, "nvrtcGetProgramLog", Get)?);
        let (size, get) = match output {
            Output::Cubin => (function!(l, "nvrtcGetCUBINSize", Size)?, function!(l, "nvrtcGetCUBIN", Get)?),
            Output::Ptx => (function!(l, "nvrtcGetPTXSize", Size)?, function!(l, "nvrtcGetPTX", Get)?),
        };
        let text = CString::new(source).map_err(|e| e.to_string())?;
        let mut program: Program = std::ptr::null_mut();
        let none = std::ptr::null();
        if let e @ 1.. = create(&mut program, text.as_ptr(), c"lathe.cu".as_ptr(), 0, none, none) {
            return Err(format!("nvrtcCreateProgram failed ({e})"));
        }
        let kernel = kernel.map(CString::new).transpose().map_err(|e| e.to_string())?;
        if let Some(kernel) = &kernel {
            function!(l, "nvrtcAddNameExpression", Name)?(program, kernel.as_ptr());
        }
        let read = |size: Size, get: Get| -> Result<Vec<u8>, String> {
            let mut n = 0usize;
            if size(program, &mut n) != 0 {
                return Err("no size of the result".to_string());
            }
            let mut bytes = vec![0u8; n];
            match get(program, bytes.as_mut_ptr().cast()) {
                0 => Ok(bytes),
                e => Err(format!("no result ({e})")),
            }
        };
        let arch = match output {
            Output::Cubin => arch.to_string(),
            Output::Ptx => arch.replace("sm_", "compute_"),
        };
        let options = [format!("--gpu-architecture={arch}"), "-default-device".to_string()];
        let options = options.into_iter().chain(flags.iter().cloned());
        let options: Vec<CString> = options.filter_map(|o| CString::new(o).ok()).collect();
        let pointers: Vec<Text> = options.iter().map(|o| o.as_ptr()).collect();
        let result = compile(program, pointers.len() as c_int, pointers.as_ptr());
        let made = if result == 0 {
            let mut lowered = String::new();
            if let Some(kernel) = &kernel {
                let mut text: Text = std::ptr::null();
                match function!(l, "nvrtcGetLoweredName", Lowered)?(program, kernel.as_ptr(), &mut text) {
                    // SAFETY: a text of the program, which is not destroyed yet.
                    0 => lowered = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
                    e => return Err(format!("no name of the kernel ({e})")),
                }
            }
            read(size, get).map(|bytes| Ok((lowered, bytes)))
        } else {
            read(log_size, log).map(|log| {
                let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_string();
                let mut d = Diagnostic::error(
                    codes::DEVICE_COMPILER,
                    format!("NVRTC {}.{} failed for `{arch}`", self.version.0, self.version.1),
                );
                for line in log.lines().filter(|l| l.contains("error")).take(5) {
                    d = d.note(line.trim());
                }
                Err(d.help("architectures are written as `sm_80`, `sm_90a`, …"))
            })
        };
        destroy(&mut program);
        let mut made = made?;
        // The text ends with a zero.
        if let (Ok((_, bytes)), Output::Ptx) = (&mut made, output) {
            while bytes.last() == Some(&0) {
                bytes.pop();
            }
        }
        Ok(made)
    }
}

fn unusable<T>(why: String) -> Result<T, Diagnostic> {
    Err(Diagnostic::error(codes::DEVICE_COMPILER, format!("NVRTC cannot be used: {why}")))
}
