//! The engines of this build, and kernels: code of one of them with what a call needs to know.

use crate::codes;
use crate::externals;
use crate::locals::Locals;
use crate::signature::Signature;
use lathe_abi::{CheckKind, KernelFn};
use lathe_diagnostics::Diagnostic;
use lathe_engine::{Code, Object, Options};
use lathe_gpu::{Cuda, MOST_DEVICES, OpenCl};
use lathe_ir::{Function, Module};
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// One of the engines of this build; see [`lathe_engine::Engine`] for what it can do.
#[derive(Clone, Copy)]
pub struct Engine(&'static dyn lathe_engine::Engine);

impl Engine {
    /// LLVM, in this process.
    #[cfg(feature = "llvm")]
    pub const LLVM: Engine = Engine(&lathe_llvm::Llvm);
    /// The machine's C compiler.
    pub const C: Engine = Engine(&lathe_source::CEngine);
    pub const INTERPRETER: Engine = Engine(&lathe_engine::Interpreter);

    /// Every engine of this build, the default one first. A new engine is an entry here.
    pub const ALL: &[Engine] = &[
        #[cfg(feature = "llvm")]
        Engine::LLVM,
        Engine::C,
        Engine::INTERPRETER,
    ];

    /// Whether an engine makes code of a function: the interpreter, which runs every tree, makes none.
    ///
    /// # Errors
    /// Why the first one does not take it, if none does.
    pub fn any_takes(module: &Module, func: &Function) -> Result<(), Diagnostic> {
        let module = &*Engine::default().resolved(module);
        let compilers = Engine::ALL.iter().filter(|e| **e != Engine::INTERPRETER);
        let mut refused = None;
        for e in compilers {
            match lathe_engine::accept(e.name(), e.capabilities(), module, func) {
                Ok(()) => return Ok(()),
                Err(d) => refused = refused.or(Some(d)),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// A device as an engine: `cuda`, `cuda:1`, `opencl`, … Whether this machine has it turns out when it is used.
    ///
    /// # Errors
    /// `E0823` for names of no kind of device, and for numbers beyond those that can be named.
    pub fn device(name: &str) -> Result<Engine, Diagnostic> {
        let (kind, number) = name.split_once(':').unwrap_or((name, "0"));
        let number = number.parse::<usize>().ok();
        let found: Option<&'static dyn lathe_engine::Engine> = match kind {
            "cuda" => number.and_then(Cuda::number).map(|c| c as _),
            "opencl" => number.and_then(OpenCl::number).map(|c| c as _),
            _ => None,
        };
        found.map(Engine).ok_or_else(|| {
            Diagnostic::error(codes::NO_ENGINE, format!("`{name}` is not a device")).help(format!(
                "cpu, interpreter, cuda, cuda:1, opencl, opencl:1, … up to number {}",
                MOST_DEVICES - 1
            ))
        })
    }

    /// The module as the engine's code is made of it: with the meanings of external functions that are not given, and on
    /// devices, which call none, of all.
    pub fn resolved(self, module: &Module) -> Cow<'_, Module> {
        let device = self.is_device();
        lathe_engine::externals::with_meanings(module, &|name| !device && externals::given(name))
    }

    /// Whether code runs in memory of its own, on a device.
    pub fn is_device(self) -> bool {
        Engine::device(self.name()).is_ok()
    }

    /// The first device of each kind.
    pub fn devices() -> [Engine; 2] {
        [Engine(Cuda::FIRST), Engine(OpenCl::FIRST)]
    }

    /// # Errors
    /// `E0823` for names of no engine, or of none in this build.
    pub fn named(name: &str) -> Result<Engine, Diagnostic> {
        let found = Engine::ALL.iter().find(|e| e.name() == name).copied();
        found.or_else(|| Engine::device(name).ok()).ok_or_else(|| {
            let names: Vec<&str> = Engine::ALL.iter().map(|e| e.name()).collect();
            let d =
                Diagnostic::error(codes::NO_ENGINE, format!("this build of Lathe has no engine `{name}`"));
            let d = d.help(format!("it has {}", names.join(", ")));
            if name == "llvm" { d.note("build with the cargo feature `llvm` to get it") } else { d }
        })
    }
}

impl Default for Engine {
    /// LLVM where it was built in, else C.
    fn default() -> Engine {
        Engine::ALL[0]
    }
}

impl Deref for Engine {
    type Target = dyn lathe_engine::Engine;

    fn deref(&self) -> &(dyn lathe_engine::Engine + 'static) {
        self.0
    }
}

impl PartialEq for Engine {
    fn eq(&self, other: &Engine) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Engine {}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({})", self.name())
    }
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A compiled function, ready to be called from any thread.
pub struct Kernel {
    pub(crate) code: Box<dyn Code>,
    /// Of the code, where it is machine code of this process.
    pub(crate) entry: Option<KernelFn>,
    pub(crate) checks: Vec<CheckKind>,
    pub(crate) signature: Signature,
    times: Vec<(String, Duration)>,
    /// What its local arrays take of the host's memory.
    pub(crate) locals: Locals,
    /// How the body for any strides is made, and that body once a call has needed it.
    general: Option<General>,
    any_strides: OnceLock<Result<Box<dyn Code>, Diagnostic>>,
}

/// Makes the body for any strides: a kernel of the same function, compiled without `unit_strides_only`.
pub type General = Box<dyn Fn() -> Result<Kernel, Diagnostic> + Send + Sync>;

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({})", self.signature.function.name)
    }
}

impl Kernel {
    /// A kernel of compiled code. `func` has the name and the parameters of the function that was compiled;
    /// `general` makes the body for any strides, if the code was compiled with `unit_strides_only`.
    ///
    /// # Errors
    /// `E0705` for code of another engine, compiler or machine, and for bytes that do not load.
    pub fn load(
        engine: Engine,
        func: &Function,
        object: Object,
        general: Option<General>,
    ) -> Result<Kernel, Diagnostic> {
        let start = Instant::now();
        let here = (engine.name(), engine.fingerprint()?);
        if (object.engine.as_str(), &object.fingerprint) != (here.0, &here.1) {
            let text = format!("`{}` was compiled by `{}`", object.symbol, object.engine);
            return Err(Diagnostic::error(
                lathe_engine::codes::OBJECT,
                format!("{text} for another machine"),
            )
            .note(format!("for: {}", object.fingerprint))
            .note(format!("here: {} {}", here.0, here.1)));
        }
        let code = engine.load(&object, func)?;
        let mut times = object.times;
        times.push(("load".to_string(), start.elapsed()));
        Ok(Kernel {
            entry: code.entry(),
            code,
            checks: object.checks,
            signature: Signature::of(func),
            times,
            locals: Locals::on(engine.is_device(), func),
            general,
            any_strides: OnceLock::new(),
        })
    }

    /// What the local arrays take, where the function that the code was loaded for is not the one that was compiled.
    pub fn with_locals(self, locals: Locals) -> Kernel {
        Kernel { locals, ..self }
    }

    pub fn locals(&self) -> &Locals {
        &self.locals
    }

    /// The code, for callers that keep the rules of `lathe-abi` themselves; it may return `status::STRIDES`.
    pub fn code(&self) -> &dyn Code {
        &*self.code
    }

    /// The kernel's entry, if it is machine code of this process, for callers that keep the rules of `lathe-abi`
    /// themselves. It must not be called after this value is dropped, and may return `status::STRIDES`.
    pub fn entry(&self) -> Option<KernelFn> {
        self.entry
    }

    /// What the numbers that the entry returns stand for; number 1 is the first.
    pub fn checks(&self) -> &[CheckKind] {
        &self.checks
    }

    /// Wall-clock time of every stage of the compilation, in order.
    pub fn times(&self) -> &[(String, Duration)] {
        &self.times
    }

    /// The body for any strides, compiled now if no call needed it before.
    pub(crate) fn any_strides(&self) -> Result<&dyn Code, Diagnostic> {
        let made = self.any_strides.get_or_init(|| match &self.general {
            Some(make) => make().map(|k| k.code),
            None => Err(Diagnostic::error(
                codes::ARGUMENT_SIZE,
                format!("`{}` was compiled for dense arguments only", self.signature.function.name),
            )),
        });
        made.as_ref().map(|c| &**c).map_err(Clone::clone)
    }
}

/// Compiles a function. The function is one of the module's or made from one of them; its operators
/// and callees are looked up in the module. The body for any strides is compiled when the first call needs it.
///
/// # Errors
/// Those of the engine: `E07xx`, and what its compiler says.
pub fn compile(
    engine: Engine,
    module: &Module,
    func: &Function,
    options: &Options,
) -> Result<Kernel, Diagnostic> {
    let module = &*engine.resolved(module);
    let general = {
        let (module, func) = (module.clone(), func.clone());
        let options = Options { unit_strides_only: false, ..options.clone() };
        Box::new(move || Kernel::load(engine, &func, engine.compile(&module, &func, &options)?, None))
    };
    let options = Options { unit_strides_only: true, ..options.clone() };
    Kernel::load(engine, func, engine.compile(module, func, &options)?, Some(general))
}
