//! Kernels of the user's own, in CUDA C or OpenCL C.

use super::arguments::{Argument, Grid, What};
use super::shared::{Keep, Shared};
use super::source::{Parameter, find};
use super::translate::{to_cuda, to_opencl};
use crate::codes;
use crate::function::{self, Function, Made, Module};
use crate::marks::Opened;
use crate::nvrtc::nvrtc;
use crate::work::{Memory, Outcome, Queue, Start};
use lathe_diagnostics::Diagnostic;
use lathe_source::device::Language;
use smallvec::SmallVec;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// A kernel of the user's. It is compiled for a device when that device needs it first; its clones share what was compiled.
#[derive(Clone)]
pub struct Kernel {
    language: Language,
    source: Arc<str>,
    name: Arc<str>,
    parameters: Arc<[Parameter]>,
    flags: Vec<String>,
    /// By the kind and the number of the device.
    made: Made,
}

impl Kernel {
    /// The only kernel of a source in CUDA C.
    ///
    /// # Errors
    /// `E0848` where there is none, or several: [`Kernel::of`] takes a name.
    pub fn cuda(source: &str) -> Result<Kernel, Diagnostic> {
        Kernel::of(source, Language::Cuda, None)
    }

    /// The only kernel of a source in OpenCL C.
    ///
    /// # Errors
    /// As [`Kernel::cuda`].
    pub fn opencl(source: &str) -> Result<Kernel, Diagnostic> {
        Kernel::of(source, Language::OpenCl, None)
    }

    /// The kernel of a name, or the only one, of a file: CUDA C, or OpenCL C where the name ends in `.cl`.
    ///
    /// # Errors
    /// `E0848` where there is no such kernel, or the file cannot be read.
    pub fn file(path: &Path, name: Option<&str>) -> Result<Kernel, Diagnostic> {
        let text = std::fs::read_to_string(path).map_err(|e| {
            let text = format!("cannot read the kernels in `{}`: {e}", path.display());
            Diagnostic::error(codes::KERNEL_NAME, text)
        })?;
        let opencl = path.extension().is_some_and(|e| e == "cl");
        Kernel::of(&text, if opencl { Language::OpenCl } else { Language::Cuda }, name)
    }

    /// The kernel of a name, or the only one.
    ///
    /// # Errors
    /// `E0848` where there is no such kernel.
    pub fn of(source: &str, language: Language, name: Option<&str>) -> Result<Kernel, Diagnostic> {
        let found = find(source, language, name)?;
        Ok(Kernel {
            language,
            source: source.into(),
            name: found.name.into(),
            parameters: found.parameters.into(),
            flags: Vec::new(),
            made: Made::default(),
        })
    }

    /// With one more flag for the compiler: `-DN=4`, `-maxrregcount=32`.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Kernel {
        self.flags.push(flag.to_string());
        self.made = Made::default();
        self
    }

    /// With more flags, and what was compiled with them before.
    pub(crate) fn flagged(&self, more: Vec<String>, made: Made) -> Kernel {
        let flags = self.flags.iter().cloned().chain(more).collect();
        Kernel { flags, made, ..self.clone() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// In the order of the source, as far as its words tell.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// What makes it this kernel: language, flags, name, source.
    pub(crate) fn identity(&self) -> [String; 4] {
        let language = format!("{:?}", self.language);
        [language, self.flags.join(" "), self.name.to_string(), self.source.to_string()]
    }

    /// The kernel on a device: from before, from what is kept, or compiled now.
    pub(crate) fn on(&self, shared: &Arc<Shared>, device: usize) -> Result<Arc<Function>, Diagnostic> {
        let opened = shared.opened(device);
        let key = match opened {
            Opened::Cuda(d) => (true, d.number),
            Opened::OpenCl(d) => (false, d.number),
        };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, f)) = made.iter().find(|m| m.0 == key) {
            return Ok(Arc::clone(f));
        }
        let start = Instant::now();
        let (function, compiled) = match opened {
            Opened::Cuda(d) => {
                let source = match self.language {
                    Language::Cuda => self.source.to_string(),
                    Language::OpenCl => to_cuda(&self.source)?,
                };
                let (code, compiled) = self.cubin(&source, &d.arch, shared.keep())?;
                let _entered = d.enter()?;
                let module = d.load_module(&code.1)?;
                let module = Arc::new(Module::Cuda { device: d, module });
                let Module::Cuda { module: m, .. } = &*module else { return Err(no_code(&self.name)) };
                let handle = d.function(*m, &code.0)?;
                (Function::new(module, handle, &self.name), compiled)
            }
            Opened::OpenCl(d) => {
                let source = match self.language {
                    Language::Cuda => to_opencl(&self.source)?,
                    Language::OpenCl => self.source.to_string(),
                };
                let flags = self.flags.join(" ");
                let keep = shared.keep();
                let key = ["opencl", &d.name, &d.driver, &flags, &source];
                let kept = keep.as_ref().and_then(|k| k.get(&key)).and_then(|b| d.program_from(&b, &flags));
                let compiled = kept.is_none();
                let program = match kept {
                    Some(p) => p,
                    None => {
                        let p = d.program(&source, &flags)?;
                        if let (Some(keep), Some(bytes)) = (&keep, d.binary(p)) {
                            keep.put(&key, &bytes);
                        }
                        p
                    }
                };
                let module = Arc::new(Module::OpenCl { device: d, program });
                let handle = d.kernel(program, &self.name)?;
                (Function::new(module, handle, &self.name), compiled)
            }
        };
        let function = Arc::new(function);
        made.push((key, Arc::clone(&function)));
        let mut state = shared.lock()?;
        state.compiled += u64::from(compiled);
        state.reused += u64::from(!compiled);
        let what = if compiled { "compile" } else { "load" };
        state.compiling.push((format!("{what} {}", self.name), start.elapsed().as_secs_f64()));
        Ok(function)
    }

    /// The name that the compiler gave the kernel, and its code; whether it was compiled now.
    fn cubin(
        &self,
        source: &str,
        arch: &str,
        keep: Option<Arc<dyn Keep>>,
    ) -> Result<((String, Vec<u8>), bool), Diagnostic> {
        let flags = self.flags.join(" ");
        let key = ["cuda", arch, &flags, &self.name, source];
        if let Some(code) = keep.as_ref().and_then(|k| k.get(&key)).and_then(|b| unpacked(&b)) {
            return Ok((code, false));
        }
        let (name, cubin) = nvrtc()?.compile_kernel(source, arch, &self.flags, &self.name)?;
        if let Some(keep) = keep {
            let mut bytes = (name.len() as u32).to_le_bytes().to_vec();
            bytes.extend(name.as_bytes());
            bytes.extend(&cubin);
            keep.put(&key, &bytes);
        }
        Ok(((name, cubin), true))
    }

    /// A launch of it, whose arguments were compared with its parameters.
    pub(crate) fn prepare(
        &self,
        function: Arc<Function>,
        device: Opened,
        grid: Grid,
        arguments: &[Argument],
    ) -> Result<Prepared, Diagnostic> {
        let refuse = |text: String| Err(Diagnostic::error(codes::ARGUMENTS, text));
        let Some(blocks) = grid.blocks() else {
            return refuse(format!("`{}`: groups do not divide all threads: {grid:?}", self.name));
        };
        let threads: u64 = blocks.threads.iter().map(|n| u64::from(*n)).product();
        let most = match device {
            Opened::Cuda(d) => d.most_threads,
            Opened::OpenCl(d) => d.most_threads,
        };
        if threads == 0 || threads > most {
            let text = format!(
                "a block of `{}` has {threads} threads, {} allows 1 to {most}",
                self.name,
                device.name()
            );
            return Err(Diagnostic::error(codes::DEVICE_LIMIT, text));
        }
        let wanted = self.parameters.iter().filter(|p| !p.local).count();
        if wanted != arguments.len() {
            let names: Vec<&str> =
                self.parameters.iter().filter(|p| !p.local).map(|p| p.name.as_str()).collect();
            let text = format!("`{}` takes {wanted} arguments, {} were given", self.name, arguments.len());
            return Err(Diagnostic::error(codes::ARGUMENTS, text)
                .help(format!("in this order: {}", names.join(", "))));
        }
        let (mut given, mut rest, mut buffers) = (SmallVec::new(), arguments.iter(), 0);
        for p in self.parameters.iter() {
            if p.local {
                given.push(Given::Local(grid.shared));
                continue;
            }
            let Some(a) = rest.next() else { break };
            match &a.0 {
                What::Array { part, .. } if p.pointer => {
                    given.push(Given::Memory(buffers, part.range.start));
                    buffers += 1;
                }
                What::Array { .. } => {
                    return refuse(format!("`{}` of `{}` is a scalar, not a buffer", p.name, self.name));
                }
                What::Scalar { .. } if p.pointer => {
                    return refuse(format!("`{}` of `{}` is a buffer, not a scalar", p.name, self.name));
                }
                What::Scalar { bytes, length, .. } => {
                    if p.bytes.is_some_and(|b| b != usize::from(*length)) {
                        let (b, name) = (p.bytes.unwrap_or(0), &self.name);
                        return refuse(format!(
                            "`{}` of `{name}` has {b} bytes, the argument {length}",
                            p.name
                        ));
                    }
                    given.push(Given::Bytes(*bytes, *length));
                }
            }
        }
        Ok(Prepared { function, grid: blocks, given })
    }
}

fn no_code(name: &str) -> Diagnostic {
    Diagnostic::error(codes::DEVICE_COMPILER, format!("there is no code of `{name}`"))
}

/// What was kept: a name and a cubin.
fn unpacked(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let (length, rest) = bytes.split_at_checked(4)?;
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let (name, cubin) = rest.split_at_checked(length)?;
    // An ELF file.
    let name = std::str::from_utf8(name).ok()?.to_string();
    cubin.starts_with(b"\x7fELF").then(|| (name, cubin.to_vec()))
}

/// A launch that is ready.
pub(crate) struct Prepared {
    function: Arc<Function>,
    grid: function::Grid,
    given: SmallVec<[Given; 6]>,
}

enum Given {
    /// The buffer of that number among the accesses, from a byte on.
    Memory(usize, u64),
    Bytes([u8; 32], u8),
    Local(u32),
}

impl Start for Prepared {
    fn start(&self, queue: Queue, memory: &[Option<Memory>]) -> Result<Outcome, Diagnostic> {
        if self.grid.blocks.contains(&0) {
            return Ok(Outcome::None);
        }
        let mut arguments: SmallVec<[function::Argument; 8]> = SmallVec::new();
        for g in &self.given {
            arguments.push(match g {
                Given::Memory(n, offset) => match memory.get(*n).copied().flatten() {
                    Some(m) => function::Argument::Memory(m, *offset),
                    None => function::Argument::Null,
                },
                Given::Bytes(bytes, length) => function::Argument::Bytes(&bytes[..usize::from(*length)]),
                Given::Local(bytes) => function::Argument::Local(*bytes),
            });
        }
        self.function.run(queue, &self.grid, &arguments)?;
        Ok(Outcome::None)
    }
}
