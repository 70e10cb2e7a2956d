//! Code in forms for reading, linking and shipping.

mod versions;

use crate::applied::Version;
use crate::build::Build;
use crate::codes;
use crate::schedule::Schedule;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Function, Module, Name};
use lathe_runtime::Engine;
use std::io::Write;
use std::path::Path;

/// What to emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emit {
    Tree,
    Llvm,
    Asm,
    Object,
    C,
    Header,
    Cuda,
    Opencl,
    Ptx,
    Cubin,
    /// What a program that loads a cubin itself has to launch.
    Launches,
}

impl Emit {
    /// As users and engines write it.
    pub fn word(self) -> &'static str {
        match self {
            Emit::Tree => "tree",
            Emit::Llvm => "llvm",
            Emit::Asm => "asm",
            Emit::Object => "object",
            Emit::C => "c",
            Emit::Header => "header",
            Emit::Cuda => "cuda",
            Emit::Opencl => "opencl",
            Emit::Ptx => "ptx",
            Emit::Cubin => "cubin",
            Emit::Launches => "launches",
        }
    }

    /// The device that such code is for.
    pub fn device(self) -> Option<&'static str> {
        match self {
            Emit::Opencl => Some("opencl"),
            Emit::Cuda | Emit::Ptx | Emit::Cubin | Emit::Launches => Some("cuda"),
            Emit::Tree | Emit::Llvm | Emit::Asm | Emit::Object | Emit::C | Emit::Header => None,
        }
    }
}

/// Emits a schedule. Several versions become one function that decides by its sizes; in the tree form it calls them. That
/// form is a file that every command takes, as one program.
///
/// # Errors
/// What an engine does not take, and forms that this build lacks.
pub fn emit(schedule: &Schedule, form: Emit, build: &Build) -> Result<Vec<u8>, Diagnostic> {
    if form == Emit::Tree {
        return Ok(trees(schedule).into_bytes());
    }
    schedule.proved()?;
    let devices = Engine::devices();
    let func = match (form.device(), &schedule.versions[..]) {
        // Versions that are chosen by sizes have kernels of their own.
        (Some(_), [only]) => only.func.clone(),
        _ => versions::one_function(schedule)?,
    };
    let options = build.options(false);
    let word = form.word();
    // Machine code has the name that the header says: not every name of a kernel is one of C, or may be linked to.
    let func = match form {
        Emit::Llvm | Emit::Asm | Emit::Object => {
            lathe_ir::Function { name: lathe_source::symbol(&func).into(), ..func }
        }
        _ => func,
    };
    match Engine::ALL.iter().chain(&devices).find(|e| e.forms().contains(&word)) {
        Some(engine) => engine.emit(&engine.resolved(&schedule.module), &func, word, &options),
        None => Err(Diagnostic::error(codes::UNAVAILABLE, "this build has no LLVM engine")
            .help("--to c works everywhere; or build with the cargo feature `llvm`")),
    }
}

/// The versions of a schedule with what they call and refer to. Several are numbered, and a function of the kernel's name
/// chooses among them.
fn trees(schedule: &Schedule) -> String {
    let module = &schedule.module;
    let mut rest = Module { functions: Default::default(), ..module.clone() };
    for v in &schedule.versions {
        rest.functions.extend(module.reached(&v.func));
    }
    let own = &schedule.plain.name;
    rest.functions.remove(own);
    if let [only] = &schedule.versions[..] {
        rest.functions.insert(own.clone(), Function { name: own.clone(), ..only.func.clone() });
        return lathe_ir::text::print_module(&rest);
    }
    let mut names: Vec<Name> = Vec::new();
    for v in &schedule.versions {
        let numbers = (1..).map(|n| Name::from(format!("{own}_{n}")));
        let free = |n: &Name| !rest.functions.contains_key(n) && !names.contains(n);
        names.extend(numbers.into_iter().find(free).or_else(|| Some(v.func.name.clone())));
    }
    let numbered = |v: &Version, name: &Name| Function { name: name.clone(), ..v.func.clone() };
    let one = match versions::chooser(schedule, &names) {
        Ok(Some(one)) => {
            let all = schedule.versions.iter().zip(&names).map(|(v, n)| (n.clone(), numbered(v, n)));
            rest.functions.extend(all);
            Ok(one)
        }
        // Versions that nothing may call are in the function.
        Ok(None) => versions::one_function(schedule),
        Err(d) => Err(d),
    };
    match one {
        Ok(one) => {
            rest.functions.insert(own.clone(), Function { name: own.clone(), ..one });
            lathe_ir::text::print_module(&rest)
        }
        // What no tree decides is told; the versions are there one by one.
        Err(refused) => {
            let mut out = lathe_ir::text::print_module(&rest);
            out += &format!("# No code selects a version: {}.\n", refused.message);
            for (v, name) in schedule.versions.iter().zip(&names) {
                let when = v.condition.as_ref().map(|c| format!("# when {c}\n")).unwrap_or_default();
                out += &format!("\n{when}{}", lathe_ir::text::print_function(&numbered(v, name)));
            }
            out
        }
    }
}

/// Writes a file as a whole: beside its place first, then moved, so that an old file stays whole on failure.
///
/// # Errors
/// `E0907`.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Diagnostic> {
    let fail = |e: std::io::Error| {
        Diagnostic::error(codes::OUTPUT, format!("cannot write `{}`: {e}", path.display()))
    };
    // Through a symbolic link, so that the link itself stays.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let old = target.metadata().ok();
    if let Some(m) = &old {
        let why = match (m.is_file(), m.permissions().readonly()) {
            (false, _) => "it is not a regular file",
            (true, true) => "it is read-only",
            (true, false) => "",
        };
        if !why.is_empty() {
            return Err(fail(std::io::Error::other(why)));
        }
    }
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".lathe-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The process's mask is applied to it, as for any new file.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder).map_err(fail)?;
    file.write_all(bytes).map_err(fail)?;
    if let Some(m) = old {
        file.as_file().set_permissions(m.permissions()).map_err(fail)?;
    }
    file.persist(&target).map_err(|e| fail(e.error))?;
    Ok(())
}
