//! Engines: who turns a function of the tree into code that can be called.

use crate::call::Signature;
use crate::cc;
use crate::codes;
use lathe_abi::{CheckKind, KernelFn};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Function, Module};
use std::any::Any;
use std::sync::OnceLock;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// LLVM, in this process.
    Llvm,
    /// The machine's C compiler.
    C,
}

impl Default for Engine {
    /// LLVM where it was built in, else C.
    fn default() -> Engine {
        if cfg!(feature = "llvm") { Engine::Llvm } else { Engine::C }
    }
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Engine::Llvm => "llvm",
            Engine::C => "c",
        }
    }

    pub fn from_name(name: &str) -> Option<Engine> {
        [Engine::Llvm, Engine::C].into_iter().find(|e| e.name() == name)
    }
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// How to generate code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// A processor name (LLVM's, or what the C compiler takes after `-march=`); `None`: this machine's.
    pub cpu: Option<String>,
    /// LLVM only: a list such as `+avx2,-avx512f`.
    pub features: Option<String>,
    /// 0 to 3.
    pub opt_level: u8,
    /// Compiles the body for any strides only when the first call needs it.
    pub lazy_strides: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { cpu: None, features: None, opt_level: 2, lazy_strides: true }
    }
}

/// Code in memory; `_owner` keeps it there.
pub(crate) struct Code {
    pub entry: KernelFn,
    pub _owner: Box<dyn Any + Send + Sync>,
}

/// A compiled function, ready to be called from any thread.
pub struct Kernel {
    pub(crate) code: Code,
    pub(crate) checks: Vec<CheckKind>,
    pub(crate) signature: Signature,
    times: Vec<(String, Duration)>,
    /// How the body for any strides is made, and that body once a call has needed it.
    general: Option<General>,
    any_strides: OnceLock<Result<Code, Diagnostic>>,
}

/// Makes the body for any strides: a kernel of the same function, compiled without `lazy_strides`.
pub type General = Box<dyn Fn() -> Result<Kernel, Diagnostic> + Send + Sync>;

/// Machine code of a kernel that is not loaded: what can be kept in a file and loaded again by the same build of Lathe
/// on the same machine.
#[derive(Clone, Debug)]
pub struct Object {
    pub bytes: Vec<u8>,
    /// What the numbers that the kernel returns stand for; number 1 is the first.
    pub checks: Vec<CheckKind>,
    /// Wall-clock time of every stage of the compilation, in order.
    pub times: Vec<(String, Duration)>,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({})", self.signature.function.name)
    }
}

impl Kernel {
    /// The kernel's entry, for callers that keep the rules of `lathe-abi` themselves. It must not be
    /// called after this value is dropped, and may return `status::STRIDES` if it was compiled with
    /// `lazy_strides`.
    pub fn entry(&self) -> KernelFn {
        self.code.entry
    }

    /// What the numbers that the entry returns stand for; number 1 is the first.
    pub fn checks(&self) -> &[CheckKind] {
        &self.checks
    }

    /// Wall-clock time of every stage of the compilation, in order.
    pub fn times(&self) -> &[(String, Duration)] {
        &self.times
    }

    /// The entry of the body for any strides, compiled now if no call needed it before.
    pub(crate) fn any_strides(&self) -> Result<KernelFn, Diagnostic> {
        let made = self.any_strides.get_or_init(|| match &self.general {
            Some(make) => make().map(|k| k.code),
            None => Err(Diagnostic::error(
                codes::ARGUMENT_SIZE,
                format!("`{}` was compiled for dense arguments only", self.signature.function.name),
            )),
        });
        made.as_ref().map(|c| c.entry).map_err(Clone::clone)
    }
}

/// Compiles a function. The function is one of the module's or made from one of them; its operators
/// and callees are looked up in the module.
///
/// # Errors
/// Those of the engine (`E07xx`); `E0823` when the engine is not in this build; `E0819` to `E0821` of the
/// C compiler.
pub fn compile(
    engine: Engine,
    module: &Module,
    func: &Function,
    options: &Options,
) -> Result<Kernel, Diagnostic> {
    match engine {
        #[cfg(feature = "llvm")]
        Engine::Llvm => with_llvm(module, func, options),
        #[cfg(not(feature = "llvm"))]
        Engine::Llvm => Err(Diagnostic::error(codes::NO_ENGINE, "this build of Lathe has no LLVM engine")
            .help("use `--engine c`, or build with the feature `llvm`")),
        Engine::C => {
            let built = cc::compile(module, func, options)?;
            Ok(Kernel {
                code: built.code,
                checks: built.checks,
                signature: Signature::of(func),
                times: built.times,
                general: None,
                any_strides: OnceLock::new(),
            })
        }
    }
}

#[cfg(feature = "llvm")]
fn with_llvm(module: &Module, func: &Function, options: &Options) -> Result<Kernel, Diagnostic> {
    let general = options.lazy_strides.then(|| {
        let (module, func) = (module.clone(), func.clone());
        let options = Options { lazy_strides: false, ..options.clone() };
        Box::new(move || with_llvm(&module, &func, &options)) as General
    });
    Kernel::load(func, object(module, func, options)?, general)
}

/// Compiles a function with LLVM to an object, which [`Kernel::load`] loads.
///
/// # Errors
/// As [`compile`].
#[cfg(feature = "llvm")]
pub fn object(module: &Module, func: &Function, options: &Options) -> Result<Object, Diagnostic> {
    let llvm = lathe_llvm::Options {
        cpu: options.cpu.clone(),
        features: options.features.clone(),
        opt_level: options.opt_level,
        unit_strides_only: options.lazy_strides,
    };
    let o = lathe_llvm::object(module, func, &llvm)?;
    Ok(Object { bytes: o.bytes, checks: o.checks, times: o.times })
}

#[cfg(feature = "llvm")]
impl Kernel {
    /// A kernel of a loaded object. `func` has the name and the parameters of the function that was compiled;
    /// `general` makes the body for any strides, if the object was compiled with `lazy_strides`.
    ///
    /// # Errors
    /// `E0705` for bytes that are no object of this function.
    pub fn load(func: &Function, object: Object, general: Option<General>) -> Result<Kernel, Diagnostic> {
        let Object { bytes, checks, times } = object;
        let compiled = lathe_llvm::Object { bytes, checks, times }.load(&func.name)?;
        Ok(Kernel {
            checks: compiled.checks().to_vec(),
            times: compiled.times().to_vec(),
            signature: Signature::of(func),
            code: Code { entry: compiled.entry(), _owner: Box::new(compiled) },
            general,
            any_strides: OnceLock::new(),
        })
    }
}

/// The processor that code is made for where none is named, with its features: what kept objects depend on.
#[cfg(feature = "llvm")]
pub fn host() -> String {
    let (cpu, features) = lathe_llvm::host();
    format!("{cpu} {features}")
}
