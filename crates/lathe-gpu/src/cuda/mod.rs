//! The engine `cuda`: NVRTC and the driver `libcuda`.

pub(crate) mod open;

use crate::kept::{Hosted, compiled, pack, unpack};
use crate::kernels::Kernels;
use crate::launches::launches;
use crate::loaded::Loaded;
use crate::marks::Opened;
use crate::numbered;
use crate::nvrtc::{Nvrtc, Output, nvrtc};
use lathe_device::Limits;
use lathe_diagnostics::Diagnostic;
use lathe_engine::{Capabilities, Code, Engine, Object, Options, no_form};
use lathe_ir::{Function, Module};
#[cfg(feature = "llvm")]
use lathe_source::device::{DeviceKernel, DeviceSource};
use lathe_source::device::{Language, capabilities, emit, print};
use open::device;
use std::sync::{Arc, LazyLock};
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

/// NVRTC if there is one.
fn compiler() -> Result<Compiler, Diagnostic> {
    match nvrtc() {
        Ok(n) => Ok(Compiler::Nvrtc(n)),
        #[cfg(feature = "llvm")]
        Err(_) => Ok(Compiler::Llvm),
        #[cfg(not(feature = "llvm"))]
        Err(d) => Err(d),
    }
}

/// The kernels of a source as PTX by LLVM.
#[cfg(feature = "llvm")]
fn ptx(module: &Module, func: &Function, source: &DeviceSource, arch: &str) -> Result<Vec<u8>, Diagnostic> {
    let known = |k: &DeviceKernel| lathe_llvm::ptx::Kernel {
        name: k.name.clone(),
        dynamic: k.dynamic,
        turns: k.turns > 0,
        status: k.status,
        after: k.after,
    };
    let kernels: Vec<_> = source.kernels.iter().map(known).collect();
    lathe_llvm::ptx::ptx(module, func, &kernels, arch, limits(arch))
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
        let compiler = compiler()?;
        let source = print(module, func, Language::Cuda, limits(&arch))?;
        let (stage, (code, took)) = match compiler {
            Compiler::Nvrtc(n) => {
                let nvrtc = || n.compile(&source.source, &arch, Output::Cubin);
                ("nvrtc", compiled(module, &source, nvrtc)?)
            }
            #[cfg(feature = "llvm")]
            Compiler::Llvm => ("llvm", compiled(module, &source, || ptx(module, func, &source, &arch))?),
        };
        // What the compiler did not take: printing, and the search for races beyond it.
        let emitted = start.elapsed().saturating_sub(took);
        Ok(Object {
            engine: self.name().to_string(),
            fingerprint: self.fingerprint()?,
            symbol: func.name.to_string(),
            checks: source.checks.clone(),
            bytes: pack(module, &source, &code),
            times: vec![("emit".to_string(), emitted), (stage.to_string(), took)],
        })
    }

    fn load(&self, object: &Object, _: &Function) -> Result<Box<dyn Code>, Diagnostic> {
        let device = device(self.number)?;
        let unpacked = unpack(object)?;
        Ok(Box::new(Loaded::new(Kernels::load(Arc::new(unpacked), Opened::Cuda(device))?)))
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
            let compiler = compiler()?;
            let source = emit(module, func, Language::Cuda, limits(arch))?;
            return match compiler {
                Compiler::Nvrtc(n) => n.compile(&source.source, arch, Output::Ptx),
                #[cfg(feature = "llvm")]
                Compiler::Llvm => ptx(module, func, &source, arch),
            };
        }
        if form == "cubin" {
            let (compiler, source) = (nvrtc()?, print(module, func, Language::Cuda, limits(arch))?);
            let nvrtc = || compiler.compile(&source.source, arch, Output::Cubin);
            return compiled(module, &source, nvrtc).map(|made| made.0);
        }
        let source = emit(module, func, Language::Cuda, limits(arch))?;
        match form {
            "cuda" => Ok(source.source.into_bytes()),
            "launches" => Ok(launches(&Hosted::from(&source))?.into_bytes()),
            _ => Err(no_form(self.name(), form, self.forms())),
        }
    }
}
