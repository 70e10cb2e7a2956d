//! The machine's C compiler as an engine: source into a temporary folder, a shared object out of it.

use crate::codes;
use crate::{Style, emit_c, header, symbol};
use lathe_abi::{Array, KernelFn, Runtime};
use lathe_diagnostics::Diagnostic;
use lathe_engine::{Capabilities, Code, Engine, Form, Object, Options, no_form};
use lathe_ir::{Function, Module};
use lathe_system::folder::Folder;
use lathe_system::process::{Ended, run_trusted};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The engine `c`. Its code is a shared object.
pub struct CEngine;

static CAPABILITIES: LazyLock<Capabilities> = LazyLock::new(|| {
    Capabilities::plain().executors(&["vector", "inscan", "cpu"]).forms(&[
        Form::NestedVectors,
        Form::ThreadsInLanes,
        Form::LaneArray,
        Form::LaneArgument,
        Form::External,
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
        // All symbols are bound now: a call may be left at any instruction of the code, but not in the middle of the loader.
        let library = unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| {
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
    _library: Library,
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

/// The compiler's command: the environment variable `CC`, or `cc`, or for another architecture the cross compiler as
/// distributions name it (`aarch64-linux-gnu-gcc`). `CC` may be a path, with blanks in it or not, or a command with
/// arguments, quoted as for a shell.
fn command(arch: Option<&str>) -> Vec<OsString> {
    let cc = std::env::var_os("CC").unwrap_or_default();
    let words = words(&cc);
    if !words.is_empty() {
        return words;
    }
    match arch.filter(|a| *a != std::env::consts::ARCH && is_word(a)) {
        Some(arch) => vec![format!("{arch}-linux-gnu-gcc").into()],
        None => vec!["cc".into()],
    }
}

fn words(cc: &OsStr) -> Vec<OsString> {
    if Path::new(cc).is_file() {
        return vec![cc.to_owned()];
    }
    // Arguments may follow a path with blanks.
    let Some(text) = cc.to_str() else { return vec![cc.to_owned()] };
    let ends = text.match_indices(' ').map(|b| b.0).rev();
    for end in ends.filter(|e| text[..*e].contains('/')) {
        if Path::new(&text[..end]).is_file()
            && let Some(rest) = shlex::split(&text[end..])
        {
            return std::iter::once(text[..end].to_string()).chain(rest).map(OsString::from).collect();
        }
    }
    let split = shlex::split(text).unwrap_or_else(|| vec![text.to_string()]);
    split.into_iter().map(OsString::from).collect()
}

/// How long the compiler may take, where the environment variable `LATHE_CC_SECONDS` does not say otherwise.
const PATIENCE: f64 = 300.0;

fn patience() -> Result<Duration, Diagnostic> {
    let Some(set) = std::env::var_os("LATHE_CC_SECONDS").filter(|v| !v.is_empty()) else {
        return Ok(Duration::from_secs_f64(PATIENCE));
    };
    let seconds = set.to_str().and_then(|s| s.trim().parse::<f64>().ok()).filter(|s| *s > 0.0);
    seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()).ok_or_else(|| {
        let text = format!("LATHE_CC_SECONDS is `{}`, which is no number of seconds", set.display());
        Diagnostic::error(codes::COMPILER_FAILED, text).help("unset it, or set it to a number above 0")
    })
}

/// What a machine file calls something goes to the compiler as a word, never as a path or a flag.
fn is_word(s: &str) -> bool {
    s.starts_with(|c: char| c.is_ascii_alphanumeric())
        && s.chars().all(|c| c.is_ascii_alphanumeric() || "_-.+".contains(c))
}

/// The flags: no flag here lets the compiler change a result, except for the payload of NaNs.
fn flags(options: &Options) -> Vec<String> {
    let level = match options.opt_level {
        0 => "-O1",
        1 => "-O2",
        _ => "-O3",
    };
    let march = match &options.target {
        // GCC names a level and its extensions where LLVM has a processor and features.
        Some(t) if t.arch == "aarch64" && t.cpu == "generic" => {
            let sve = if t.features.split(',').any(|f| f == "+sve") { "armv8.2-a+sve" } else { "armv8-a" };
            format!("-march={sve}")
        }
        Some(t) if t.arch == "aarch64" => format!("-mcpu={}", t.cpu),
        Some(t) => format!("-march={}", t.cpu),
        None => "-march=native".to_string(),
    };
    let fixed = "-std=gnu11 -fPIC -shared -ffp-contract=off -fno-math-errno -fno-trapping-math -w";
    [level.to_string(), march].into_iter().chain(fixed.split(' ').map(str::to_string)).collect()
}

/// The compiler's command and version; asked once in a process.
fn version() -> Result<String, Diagnostic> {
    /// A compiler that does not say its version soon says nothing.
    const SOON: Duration = Duration::from_secs(20);
    static KNOWN: LazyLock<Mutex<HashMap<Vec<OsString>, String>>> = LazyLock::new(Mutex::default);
    let words = command(None);
    let (program, arguments) = split(&words);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(v) = known.get(&words) {
        return Ok(v.clone());
    }
    let mut command = Command::new(program);
    command.args(arguments).arg("--version");
    let out = run_trusted(command, SOON.min(patience()?)).map_err(|e| no_compiler(program, &e))?;
    let line = out.output.lines().next().unwrap_or_default();
    let shown: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
    let text = format!("{}: {line}\n{}", shown.join(" "), processor());
    known.insert(words, text.clone());
    Ok(text)
}

/// The processor's name, which `-march=native` depends on.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = |key: &str| text.lines().find(|l| l.starts_with(key)).unwrap_or_default().to_string();
    format!("{} {}", line("model name"), line("flags"))
}

fn no_compiler(program: &OsStr, e: &std::io::Error) -> Diagnostic {
    let shown = program.to_string_lossy();
    Diagnostic::error(codes::NO_COMPILER, format!("the C compiler `{shown}` cannot be run: {e}"))
        .help("install gcc or clang, or name one in the environment variable CC")
}

fn io(e: std::io::Error) -> Diagnostic {
    Diagnostic::error(codes::COMPILER_FAILED, format!("no temporary folder for the C compiler: {e}"))
        .help("set TMPDIR to a folder that only you can write")
}

/// Whoever could write into it could have any code run: it is private from its creation on.
fn folder() -> Result<Folder, Diagnostic> {
    Folder::new("cc").map_err(io)
}

/// Compiles source text into a library's bytes.
fn shared_object(source: &str, options: &Options) -> Result<Vec<u8>, Diagnostic> {
    let folder = folder()?;
    let (input, output) = (folder.path().join("kernel.c"), folder.path().join("kernel.so"));
    std::fs::write(&input, source).map_err(io)?;
    run(&input, &output, options)?;
    std::fs::read(&output).map_err(io)
}

/// A command's program and its arguments.
fn split(words: &[OsString]) -> (&OsStr, &[OsString]) {
    words.split_first().map_or((OsStr::new("cc"), &[]), |(p, rest)| (p, rest))
}

fn run(input: &Path, output: &Path, options: &Options) -> Result<(), Diagnostic> {
    let words = command(options.target.as_ref().map(|t| t.arch.as_str()));
    let (program, arguments) = split(&words);
    let shown = program.to_string_lossy().into_owned();
    let mut command = Command::new(program);
    command.args(arguments).args(flags(options)).arg("-o").args([output, input]).arg("-lm");
    // Its own temporary files lie there, too: TMPDIR may be relative, and begin with a dash.
    command.envs(input.parent().map(|folder| ("TMPDIR", folder)));
    let limit = patience()?;
    let done = run_trusted(command, limit).map_err(|e| no_compiler(program, &e))?;
    let failed =
        |why: String| Diagnostic::error(codes::COMPILER_FAILED, format!("the C compiler `{shown}` {why}"));
    match done.ended {
        Ended::Well => Ok(()),
        Ended::Timeout => Err(failed(format!("took longer than {:.1} s", limit.as_secs_f64()))
            .help("the environment variable LATHE_CC_SECONDS gives it more time")),
        ended => {
            let errors = done.errors.lines().filter(|l| l.contains("error")).take(5);
            let d = errors.fold(failed(format!("failed ({})", ended.text())), |d, l| d.note(l.trim()));
            Err(d.help("gcc from version 9 and clang from version 11 on are known to work"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_is_a_path_or_a_command() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my compilers/cc one");
        std::fs::create_dir(dir.path().join("my compilers")).unwrap();
        std::fs::write(&path, "").unwrap();
        let path = path.display().to_string();
        let of = |text: &str| -> Vec<String> {
            words(OsStr::new(text)).iter().map(|w| w.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(of("gcc -m64"), ["gcc", "-m64"]);
        assert_eq!(of("ccache '/a b/gcc'"), ["ccache", "/a b/gcc"]);
        assert_eq!(of(&path), [path.as_str()]);
        assert_eq!(of(&format!("{path} -O1 '-DX=a b'")), [path.as_str(), "-O1", "-DX=a b"]);
        assert_eq!(of("  "), Vec::<String>::new());
        assert_eq!(of("gcc '"), ["gcc '"]);
    }
}
