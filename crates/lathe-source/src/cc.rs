//! The machine's C compiler as an engine: source into a temporary folder, a shared object out of it.

use crate::codes;
use crate::{Style, emit_c, header, symbol};
use lathe_abi::{Array, KernelFn, Runtime};
use lathe_diagnostics::Diagnostic;
use lathe_engine::{Capabilities, Code, Engine, Form, Object, Options, no_form};
use lathe_ir::{Function, Module};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

/// The engine `c`. Its code is a shared object.
pub struct CEngine;

static CAPABILITIES: LazyLock<Capabilities> = LazyLock::new(|| {
    Capabilities::plain().executors(&["vector", "inscan", "cpu"]).forms(&[
        Form::NestedVectors,
        Form::ThreadsInLanes,
        Form::LaneArray,
        Form::LaneArgument,
    ])
});

/// What this engine takes.
pub(crate) fn capabilities() -> &'static Capabilities {
    &CAPABILITIES
}

impl Engine for CEngine {
    fn name(&self) -> &'static str {
        "c"
    }

    fn compiler(&self) -> String {
        version().map_or_else(|d| d.message, |v| v.lines().next().unwrap_or_default().to_string())
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn fingerprint(&self) -> Result<String, Diagnostic> {
        version()
    }

    fn compile(&self, module: &Module, func: &Function, options: &Options) -> Result<Object, Diagnostic> {
        let start = Instant::now();
        let source = emit_c(module, func, &Style::default())?;
        let emitted = start.elapsed();
        let start = Instant::now();
        let bytes = shared_object(&source.source, options)?;
        Ok(Object {
            engine: self.name().to_string(),
            fingerprint: self.fingerprint()?,
            symbol: symbol(func),
            checks: source.checks,
            bytes,
            times: vec![("emit".to_string(), emitted), ("cc".to_string(), start.elapsed())],
        })
    }

    fn load(&self, object: &Object, _: &Function) -> Result<Box<dyn Code>, Diagnostic> {
        let folder = folder()?;
        let file = folder.path().join("kernel.so");
        std::fs::write(&file, &object.bytes).map_err(io)?;
        // SAFETY: a library that the C compiler made from source of ours, without initializers. Damaged bytes are
        // found by the checksum of whoever kept them; the loader refuses what is no library.
        let library = unsafe { libloading::Library::new(&file) }.map_err(|e| {
            Diagnostic::error(codes::LOAD_FAILED, format!("the compiled code cannot be loaded: {e}"))
                .help("set TMPDIR to a folder from which code may be run")
        })?;
        let symbol = &object.symbol;
        // SAFETY: the symbol is the kernel that the source defines, with the type of the ABI.
        let entry = unsafe { library.get::<KernelFn>(symbol.as_bytes()) }.map(|s| *s);
        let entry = entry.map_err(|e| {
            Diagnostic::error(codes::LOAD_FAILED, format!("the compiled `{symbol}` cannot be found: {e}"))
        })?;
        // The file is mapped; its name is not needed any more.
        drop(folder);
        Ok(Box::new(Loaded { entry, _library: library }))
    }

    fn forms(&self) -> &'static [&'static str] {
        &["c", "header"]
    }

    fn emit(&self, module: &Module, func: &Function, form: &str, _: &Options) -> Result<Vec<u8>, Diagnostic> {
        match form {
            "c" => Ok(emit_c(module, func, &Style::default())?.source.into_bytes()),
            "header" => Ok(header(func)?.into_bytes()),
            _ => Err(no_form(self.name(), form, self.forms())),
        }
    }
}

/// A kernel in memory; the library keeps it there.
struct Loaded {
    entry: KernelFn,
    _library: libloading::Library,
}

impl Code for Loaded {
    unsafe fn call(&self, runtime: &Runtime, args: &[Array]) -> Result<i32, Diagnostic> {
        // SAFETY: the caller's promise is that of the ABI.
        Ok(unsafe { (self.entry)(runtime, args.as_ptr()) })
    }

    fn entry(&self) -> Option<KernelFn> {
        Some(self.entry)
    }
}

/// The compiler's command: `CC`, or `cc`. `CC` may hold arguments.
fn command() -> (OsString, Vec<String>) {
    let cc = std::env::var("CC").unwrap_or_default();
    let mut words = cc.split_whitespace().map(str::to_string);
    match words.next() {
        Some(program) => (program.into(), words.collect()),
        None => ("cc".into(), Vec::new()),
    }
}

/// The flags: no flag here lets the compiler change a result, except for the payload of NaNs.
fn flags(options: &Options) -> Vec<String> {
    let level = match options.opt_level {
        0 => "-O1",
        1 => "-O2",
        _ => "-O3",
    };
    let march = match &options.target {
        Some(t) => format!("-march={}", t.cpu),
        None => "-march=native".to_string(),
    };
    let fixed = "-std=gnu11 -fPIC -shared -ffp-contract=off -fno-math-errno -fno-trapping-math -w";
    [level.to_string(), march].into_iter().chain(fixed.split(' ').map(str::to_string)).collect()
}

/// The compiler's command and version; asked once in a process.
fn version() -> Result<String, Diagnostic> {
    static KNOWN: LazyLock<Mutex<HashMap<OsString, String>>> = LazyLock::new(Mutex::default);
    let (program, arguments) = command();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(v) = known.get(&program) {
        return Ok(v.clone());
    }
    let out = Command::new(&program).arg("--version").output().map_err(|e| no_compiler(&program, &e))?;
    let line = String::from_utf8_lossy(&out.stdout).lines().next().unwrap_or_default().to_string();
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let text =
        format!("{cc}: {line}\n{} {}\n{}", program.to_string_lossy(), arguments.join(" "), processor());
    known.insert(program, text.clone());
    Ok(text)
}

/// The processor's name, which `-march=native` depends on.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = |key: &str| text.lines().find(|l| l.starts_with(key)).unwrap_or_default().to_string();
    format!("{} {}", line("model name"), line("flags"))
}

fn no_compiler(program: &std::ffi::OsStr, e: &std::io::Error) -> Diagnostic {
    let shown = program.to_string_lossy();
    Diagnostic::error(codes::NO_COMPILER, format!("the C compiler `{shown}` cannot be run: {e}"))
        .help("install gcc or clang, or name one in the environment variable CC")
}

fn io(e: std::io::Error) -> Diagnostic {
    Diagnostic::error(codes::COMPILER_FAILED, format!("no temporary folder for the C compiler: {e}"))
        .help("set TMPDIR to a folder that can be written")
}

fn folder() -> Result<tempfile::TempDir, Diagnostic> {
    tempfile::Builder::new().prefix("lathe-").tempdir().map_err(io)
}

/// Compiles source text into a library's bytes.
fn shared_object(source: &str, options: &Options) -> Result<Vec<u8>, Diagnostic> {
    let folder = folder()?;
    let (input, output) = (folder.path().join("kernel.c"), folder.path().join("kernel.so"));
    std::fs::write(&input, source).map_err(io)?;
    run(&input, &output, options)?;
    std::fs::read(&output).map_err(io)
}

fn run(input: &Path, output: &Path, options: &Options) -> Result<(), Diagnostic> {
    let (program, arguments) = command();
    let shown = program.to_string_lossy().into_owned();
    let result = Command::new(&program)
        .args(arguments)
        .args(flags(options))
        .arg("-o")
        .args([output, input])
        .arg("-lm")
        .output();
    let result = result.map_err(|e| no_compiler(&program, &e))?;
    if result.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&result.stderr);
    let mut d = Diagnostic::error(
        codes::COMPILER_FAILED,
        format!("the C compiler `{shown}` failed ({})", result.status),
    );
    for line in text.lines().filter(|l| l.contains("error")).take(5) {
        d = d.note(line.trim());
    }
    Err(d.help("gcc from version 9 and clang from version 11 on are known to work"))
}
