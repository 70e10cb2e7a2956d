//! NCCL: what devices of CUDA that are connected do together. The library is opened at run time; PyTorch's wheel brings one.

use crate::codes;
use crate::library::{function, open, python_packages};
use lathe_diagnostics::Diagnostic;
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

pub(crate) type Communicator = *mut c_void;

/// How the elements of devices are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    Sum,
    Product,
    Max,
    Min,
}

/// What NCCL is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    AllReduce(Combine),
    ReduceScatter(Combine),
    Broadcast(usize),
    AllGather,
}

impl Combine {
    /// Its number in `nccl.h`.
    pub(crate) fn number(self) -> c_int {
        match self {
            Combine::Sum => 0,
            Combine::Product => 1,
            Combine::Max => 2,
            Combine::Min => 3,
        }
    }
}

/// The functions that are used, and where they are from.
pub(crate) struct Nccl {
    error: extern "C" fn(c_int) -> *const c_char,
    init: extern "C" fn(*mut Communicator, c_int, *const c_int) -> c_int,
    start: extern "C" fn() -> c_int,
    end: extern "C" fn() -> c_int,
    #[allow(clippy::type_complexity, reason = "the library's own list of arguments")]
    reduce:
        extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Communicator, *mut c_void) -> c_int,
    scatter:
        extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Communicator, *mut c_void) -> c_int,
    broadcast:
        extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Communicator, *mut c_void) -> c_int,
    gather: extern "C" fn(*const c_void, *mut c_void, usize, c_int, Communicator, *mut c_void) -> c_int,
    abort: extern "C" fn(Communicator) -> c_int,
    /// `NCCL 2.27.3 (/…/libnccl.so.2)`.
    pub found: String,
    _library: Library,
}

/// How to get it.
pub(crate) const HOW: &str = "only for reductions over several NVIDIA devices: install libnccl2, or: pip install \
                              nvidia-nccl-cu13 (PyTorch brings it), or set LATHE_NCCL to its folder";

/// The NCCL of this machine, opened once.
///
/// # Errors
/// `E0856` where there is none.
pub(crate) fn nccl() -> Result<&'static Nccl, Diagnostic> {
    static FOUND: OnceLock<Result<Nccl, String>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref().map_err(|e| {
        Diagnostic::error(codes::NCCL, "this machine has no NCCL (libnccl.so.2)").note(e.clone()).help(HOW)
    })
}

/// Where it may be, in this order; then where the system looks.
fn folders() -> Vec<PathBuf> {
    match std::env::var_os("LATHE_NCCL") {
        Some(named) => vec![named.into()],
        None => python_packages(),
    }
}

fn find() -> Result<Nccl, String> {
    let mut last = None;
    for path in folders().into_iter().map(|f| f.join("libnccl.so.2")).filter(|p| p.is_file()) {
        // SAFETY: NCCL, whose initializers do what loading it means.
        let library = unsafe { Library::new(&path) }.map_err(|e| e.to_string());
        match library.and_then(|l| opened(l, &path.display().to_string())) {
            Ok(n) => return Ok(n),
            Err(e) => last = Some(e),
        }
    }
    let named = std::env::var_os("LATHE_NCCL").is_some();
    match (last, named) {
        (Some(e), _) => Err(e),
        (None, true) => Err("the folder that LATHE_NCCL names has no libnccl.so.2".to_string()),
        (None, false) => open(&["libnccl.so.2", "libnccl.so"]).and_then(|l| opened(l, "libnccl.so.2")),
    }
}

fn opened(library: Library, place: &str) -> Result<Nccl, String> {
    let l = &library;
    let version = function!(l, "ncclGetVersion", extern "C" fn(*mut c_int) -> c_int)?;
    let mut v = 0;
    if version(&mut v) != 0 {
        return Err(format!("{place} does not say its version"));
    }
    Ok(Nccl {
        error: function!(l, "ncclGetErrorString", _)?,
        init: function!(l, "ncclCommInitAll", _)?,
        start: function!(l, "ncclGroupStart", _)?,
        end: function!(l, "ncclGroupEnd", _)?,
        reduce: function!(l, "ncclAllReduce", _)?,
        scatter: function!(l, "ncclReduceScatter", _)?,
        broadcast: function!(l, "ncclBroadcast", _)?,
        gather: function!(l, "ncclAllGather", _)?,
        abort: function!(l, "ncclCommAbort", _)?,
        found: format!("NCCL {}.{}.{} ({place})", v / 10_000, v % 10_000 / 100, v % 100),
        _library: library,
    })
}

impl Nccl {
    fn check(&self, what: &str, result: c_int) -> Result<(), String> {
        if result == 0 {
            return Ok(());
        }
        let text = (self.error)(result);
        // SAFETY: a text of the library, which stays.
        let text = if text.is_null() { "".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy() };
        Err(format!("NCCL: {what} failed: {text} ({result})"))
    }

    /// One communicator for each of these devices, by the driver's numbers.
    pub fn communicators(&self, devices: &[c_int]) -> Result<Vec<usize>, String> {
        let mut made = vec![std::ptr::null_mut(); devices.len()];
        let count = devices.len() as c_int;
        self.check("connecting the devices", (self.init)(made.as_mut_ptr(), count, devices.as_ptr()))?;
        Ok(made.into_iter().map(|c| c as usize).collect())
    }

    /// What follows starts at [`Nccl::end`], together.
    pub fn start(&self) -> Result<(), String> {
        self.check("beginning", (self.start)())
    }

    pub fn end(&self) -> Result<(), String> {
        self.check("starting", (self.end)())
    }

    /// One device's part of what all do together: from an address to another, which may be the same.
    pub fn ask(
        &self,
        asked: Asked,
        [from, to]: [u64; 2],
        (count, element): (usize, c_int),
        (communicator, stream): (usize, u64),
    ) -> Result<(), String> {
        let (from, to) = (from as usize as *const c_void, to as usize as *mut c_void);
        let (c, stream) = (communicator as Communicator, stream as usize as *mut c_void);
        let (what, done) = match asked {
            Asked::AllReduce(op) => {
                ("a reduction", (self.reduce)(from, to, count, element, op.number(), c, stream))
            }
            Asked::ReduceScatter(op) => {
                ("a reduction", (self.scatter)(from, to, count, element, op.number(), c, stream))
            }
            Asked::Broadcast(root) => {
                ("a broadcast", (self.broadcast)(from, to, count, element, root as c_int, c, stream))
            }
            Asked::AllGather => ("a gather", (self.gather)(from, to, count, element, c, stream)),
        };
        self.check(what, done)
    }

    /// Gives a communicator up, whatever it was doing.
    pub fn abort(&self, communicator: usize) {
        (self.abort)(communicator as Communicator);
    }
}
