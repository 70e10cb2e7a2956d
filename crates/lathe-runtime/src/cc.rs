//! The machine's C compiler as an engine: source into a temporary folder, a shared object out of it.

use crate::codes;
use crate::engine::{Code, Options};
use lathe_abi::{CheckKind, KernelFn};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Function, Module};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A function compiled by the C compiler.
pub(crate) struct Built {
    pub code: Code,
    pub checks: Vec<CheckKind>,
    pub times: Vec<(String, Duration)>,
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
    let march = match &options.cpu {
        Some(cpu) => format!("-march={cpu}"),
        None => "-march=native".to_string(),
    };
    let fixed = "-std=gnu11 -fPIC -shared -ffp-contract=off -fno-math-errno -fno-trapping-math -w";
    [level.to_string(), march].into_iter().chain(fixed.split(' ').map(str::to_string)).collect()
}

/// # Errors
/// Those of `lathe-source`; `E0819` without a compiler, `E0820` when it fails, `E0821` when the loader does.
pub(crate) fn compile(module: &Module, func: &Function, options: &Options) -> Result<Built, Diagnostic> {
    let start = Instant::now();
    let source = lathe_source::emit_c(module, func, &lathe_source::Options::default())?;
    let emitted = start.elapsed();
    let start = Instant::now();
    let (library, folder) = shared_object(&source.source, options)?;
    let symbol = lathe_source::symbol(func);
    // SAFETY: the symbol is the kernel that the source defines, with the type of the ABI.
    let entry = unsafe { library.get::<KernelFn>(symbol.as_bytes()) }.map(|s| *s);
    let entry = entry.map_err(|e| {
        Diagnostic::error(codes::LOAD_FAILED, format!("the compiled `{symbol}` cannot be found: {e}"))
    })?;
    // The file is mapped; its name is not needed any more.
    drop(folder);
    let times = vec![("emit".to_string(), emitted), ("cc".to_string(), start.elapsed())];
    Ok(Built { code: Code { entry, _owner: Box::new(library) }, checks: source.checks, times })
}

/// Compiles source text into a loaded library; the folder holds its files.
pub(crate) fn shared_object(
    source: &str,
    options: &Options,
) -> Result<(libloading::Library, tempfile::TempDir), Diagnostic> {
    let io = |e: std::io::Error| {
        Diagnostic::error(codes::COMPILER_FAILED, format!("no temporary folder for the C compiler: {e}"))
            .help("set TMPDIR to a folder that can be written")
    };
    let folder = tempfile::Builder::new().prefix("lathe-").tempdir().map_err(io)?;
    let (input, output) = (folder.path().join("kernel.c"), folder.path().join("kernel.so"));
    std::fs::write(&input, source).map_err(io)?;
    run(&input, &output, options)?;
    // SAFETY: the library was just compiled from source of ours, without initializers.
    let library = unsafe { libloading::Library::new(&output) }.map_err(|e| {
        Diagnostic::error(codes::LOAD_FAILED, format!("the compiled code cannot be loaded: {e}"))
            .help("set TMPDIR to a folder from which code may be run")
    })?;
    Ok((library, folder))
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
    let result = result.map_err(|e| {
        Diagnostic::error(codes::NO_COMPILER, format!("the C compiler `{shown}` cannot be run: {e}"))
            .help("install gcc or clang, or name one in the environment variable CC")
    })?;
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
