//! The interface of engines, which compile a function of the tree to callable code.
//!
//! * [`Engine`]: the trait. [`Capabilities`] declare what an engine supports; [`accept`] decides from them, before
//!   any code is generated, whether it supports a function; [`Object`] is compiled code that can be kept; [`Code`] is
//!   code that can be called.
//! * [`checks`], [`entry`]: the checks of arguments, and what every engine computes for them, as expressions.
//! * [`externals`]: functions that are defined elsewhere.
//! * [`memory`]: the memory behind descriptors, for engines whose code does not read descriptors itself.
//! * [`interpreter`]: the interpreter as an engine.

pub mod checks;
pub mod codes;
pub mod entry;
pub mod externals;
pub mod feature;
pub mod interpreter;
pub mod memory;
pub mod needs;
mod object;
pub mod printed;
mod program;

pub use checks::{CheckTable, check_table, dtype_of};
pub use codes::CODES;
pub use entry::{Entry, Field};
pub use feature::{Capabilities, Feature, Form, Statement, Step, Through};
pub use interpreter::Interpreter;
pub use needs::{Need, accept, missing, needs};
pub use object::Object;

use lathe_abi::{Array, KernelFn, Runtime};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Function, Module};
use std::any::Any;

/// How to generate code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The machine that the code is for; `None`: this one.
    pub target: Option<lathe_target::Code>,
    /// LLVM only: a list such as `+avx2,-avx512f`; `None`: those of the processor.
    pub features: Option<String>,
    /// 0: fast compilation; 2: for scheduled trees; 3: with the compiler's own vectorizers.
    pub opt_level: u8,
    /// The code may hold the body for unit innermost strides alone, and return [`lathe_abi::status::STRIDES`] for
    /// other arguments.
    pub unit_strides_only: bool,
    /// Interpreter only: nobody showed that parallel iterations keep out of each other's way, so that a run looks
    /// whether they do.
    pub races: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { target: None, features: None, opt_level: 2, unit_strides_only: false, races: false }
    }
}

/// Compiles functions of the tree. The same tree has the same result on every engine, bit for bit (payloads
/// of NaNs aside).
///
/// An engine inlines called functions, and keeps the checks of [`check_table`] with their numbers.
pub trait Engine: Send + Sync {
    /// The name that users write: `llvm`, `c`, `interpreter`.
    fn name(&self) -> &'static str;

    /// Its compiler with the version, in one line; measured results are kept under it.
    fn compiler(&self) -> String;

    /// What it supports. Everything else is refused by [`accept`] before [`Engine::compile`] is called.
    fn capabilities(&self) -> &Capabilities;

    /// What its code depends on besides the tree and the options: versions of compilers, the host machine. Kept code is
    /// found by it.
    ///
    /// # Errors
    /// When something that the engine needs is missing on this machine.
    fn fingerprint(&self) -> Result<String, Diagnostic>;

    /// Compiles a function that it takes. Operators and callees are looked up in the module.
    ///
    /// # Errors
    /// `E0703` on unknown machines, and what the compilers below say.
    fn compile(&self, module: &Module, func: &Function, options: &Options) -> Result<Object, Diagnostic>;

    /// Drops what this process keeps of earlier compilations: for who measures how long one takes.
    fn forget(&self) {}

    /// Loads code into this process (and onto a device). `func` has the name and the parameters of the function that
    /// was compiled.
    ///
    /// # Errors
    /// `E0705` for bytes that are not code of this engine.
    fn load(&self, object: &Object, func: &Function) -> Result<Box<dyn Code>, Diagnostic>;

    /// The forms of text or code that [`Engine::emit`] writes.
    fn forms(&self) -> &'static [&'static str] {
        &[]
    }

    /// Code in a form for reading, linking or shipping.
    ///
    /// # Errors
    /// As [`Engine::compile`]; `E0706` for a form that is not among [`Engine::forms`].
    fn emit(
        &self,
        _module: &Module,
        _func: &Function,
        form: &str,
        _options: &Options,
    ) -> Result<Vec<u8>, Diagnostic> {
        Err(no_form(self.name(), form, self.forms()))
    }
}

/// The refusal of a form that an engine does not write.
pub fn no_form(engine: &str, form: &str, has: &[&str]) -> Diagnostic {
    let d =
        Diagnostic::error(codes::FORM, format!("the engine `{engine}` does not produce the form `{form}`"));
    if has.is_empty() { d.help("it has none") } else { d.help(format!("it writes {}", has.join(", "))) }
}

/// What a call did on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceRun {
    /// Of all kernels, by the clock of the device.
    pub kernel_seconds: f64,
    /// Kernels that were started.
    pub launches: u64,
    pub to_device_bytes: u64,
    pub from_device_bytes: u64,
    pub copies: u64,
}

/// Code in memory, ready to be called from any thread.
pub trait Code: Any + Send + Sync {
    /// Runs the kernel: 0, the number of the check that failed, or a code of [`lathe_abi::status`].
    ///
    /// # Errors
    /// What has no number: faults that the interpreter finds, a device that fails.
    ///
    /// # Safety
    /// There is one valid descriptor per parameter of the function; those of written parameters may be written, and
    /// nothing else touches the memory during the call. The runtime's table is valid.
    unsafe fn call(&self, runtime: &Runtime, args: &[Array]) -> Result<i32, Diagnostic>;

    /// As [`Code::call`], for code without an entry that looks from time to time whether it is to end: then the result is
    /// [`lathe_abi::status::STOPPED`]. Other code runs to its end.
    ///
    /// # Errors
    /// As [`Code::call`].
    ///
    /// # Safety
    /// As [`Code::call`].
    unsafe fn call_asking(
        &self,
        runtime: &Runtime,
        args: &[Array],
        _end: &dyn Fn() -> bool,
    ) -> Result<i32, Diagnostic> {
        // SAFETY: the caller's promise.
        unsafe { self.call(runtime, args) }
    }

    /// Runs the kernel on a device's own memory that often, after one run as by [`Code::call`], and gives the seconds of
    /// each run by the device's clock; none for code that runs on the host.
    ///
    /// # Errors
    /// As [`Code::call`].
    ///
    /// # Safety
    /// As [`Code::call`].
    unsafe fn seconds(&self, _args: &[Array], _runs: usize) -> Result<Option<Vec<f64>>, Diagnostic> {
        Ok(None)
    }

    /// Starts the kernel on arrays that are in the memory of the code's device, after everything that was submitted to
    /// the stream before (a handle of the driver; 0: the default one), and returns without waiting for it. Kernels that
    /// contain checks of data or may divide by zero are waited for, since only then the status is known.
    ///
    /// # Errors
    /// `E0707` for code that does not run on a device, and for arrays that its kernels do not take; as [`Code::call`].
    ///
    /// # Safety
    /// As [`Code::call`], with the memory of the device; it stays until the stream has reached the end of the kernel.
    unsafe fn start(&self, _args: &[Array], _stream: u64) -> Result<i32, Diagnostic> {
        let text = "this code reads the memory of the host, not that of a device";
        Err(Diagnostic::error(codes::DEVICE_ARRAY, text).help("copy the arrays to the host first"))
    }

    /// What the call that ended last did on its device; none for code that runs on the host.
    fn last_run(&self) -> Option<DeviceRun> {
        None
    }

    /// The entry, if it is machine code of this process; it must not be called after this value is dropped.
    fn entry(&self) -> Option<KernelFn> {
        None
    }
}
