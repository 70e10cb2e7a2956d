//! Machines and system models by name or from a file.

use lathe_diagnostics::Diagnostic;
use lathe_target::{Machine, Model, codes};
use std::path::{Path, PathBuf};

/// The machine of a name (`x86-64-v3`, `znver4`), the one in a file, or the one at hand (`host`).
///
/// # Errors
/// `E0703` where there is neither, and what is wrong with the file.
pub fn open(name: &str) -> Result<Machine, Diagnostic> {
    let path = Path::new(name);
    if name == "host" {
        return Ok(Machine::host());
    }
    if !is_file(name, path) {
        return Machine::find(name);
    }
    let mut machine =
        text(path, codes::MACHINE).and_then(|t| Machine::parse(&t).map_err(|d| within(d, path)))?;
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    machine.origin = whole.display().to_string();
    Ok(machine)
}

/// The levels of a machine that comes with Lathe, or of the one in a file; a relative path begins at `folder`.
///
/// # Errors
/// `E1202` where there is neither, and what is wrong with the file.
pub fn model(name: &str, folder: &Path) -> Result<Model, Diagnostic> {
    let path = folder.join(name);
    if !is_file(name, &path) {
        return Model::named(name);
    }
    text(&path, codes::MODEL).and_then(|t| Model::parse(&t).map_err(|d| within(d, &path)))
}

/// Refuses to run code for another machine, which would end the process without a message.
///
/// # Errors
/// `E0910`, with what is missing here.
pub fn runs_here(machine: &Machine) -> Result<(), Diagnostic> {
    let lacking = machine.lacking_here();
    if lacking.is_empty() {
        return Ok(());
    }
    let text =
        format!("code for `{}` does not run here: this machine lacks {}", machine.name, lacking.join(", "));
    Err(Diagnostic::error(crate::codes::UNAVAILABLE, text)
        .help("leave --cpu out to run; `lathe emit --cpu` writes code for any CPU"))
}

/// The machine with one of its devices (`cuda`, `cuda:1`, …): what runs there is scheduled for the device's architecture;
/// where there is no such device, for the one that code is written for.
pub fn with_device(m: Machine, device: &str) -> Machine {
    match lathe_runtime::device::architecture(device) {
        Some(arch) => made_for(m, &arch),
        None if device.split(':').next() == Some("cuda") => made_for(m, lathe_runtime::device::USUAL),
        None => m,
    }
}

/// The machine with a device of an NVIDIA architecture.
pub fn made_for(mut m: Machine, arch: &str) -> Machine {
    (m.code.arch, m.code.cpu) = ("nvptx64".to_string(), arch.to_string());
    m
}

/// The machine where its code runs on the one at hand: a level of an architecture (`x86-64-v3`) says nothing about
/// caches and threads, so that they are those at hand. What a user's file says stands.
pub fn here(m: Machine) -> Machine {
    if m.origin != m.name || !m.lacking_here().is_empty() {
        return m;
    }
    let host = Machine::host();
    Machine {
        l1_bytes: host.l1_bytes,
        l2_bytes: host.l2_bytes,
        l3_bytes: host.l3_bytes,
        threads: host.threads,
        vector_units: if m.vector_bytes == host.vector_bytes { host.vector_units } else { m.vector_units },
        ..m
    }
}

/// The file that a machine or a model is read from, if its name is that of one; a relative path begins at `folder`.
pub fn file(name: &str, folder: &Path) -> Option<PathBuf> {
    let path = folder.join(name);
    is_file(name, &path).then_some(path)
}

fn is_file(name: &str, path: &Path) -> bool {
    name.ends_with(".toml") || name.ends_with(".json") || name.contains('/') || path.is_file()
}

fn text(path: &Path, code: lathe_diagnostics::Code) -> Result<String, Diagnostic> {
    crate::source::read(path)
        .map_err(|e| Diagnostic::error(code, format!("cannot read the machine `{}`: {e}", path.display())))
}

fn within(d: Diagnostic, path: &Path) -> Diagnostic {
    d.note(format!("in {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_for_other_machines_is_not_run() {
        assert!(runs_here(&Machine::host()).is_ok());
        for name in Machine::names() {
            let m = open(&name).unwrap();
            assert_eq!(runs_here(&m).is_ok(), m.lacking_here().is_empty(), "{name}");
        }
        let foreign = if cfg!(target_arch = "x86_64") { "aarch64" } else { "x86-64" };
        let d = runs_here(&open(foreign).unwrap()).unwrap_err();
        assert!(d.message.contains("lacks"), "{d}");
        assert_eq!(open("no such name").unwrap_err().code, codes::MACHINE);
    }

    #[test]
    fn levels_that_run_here_have_the_caches_at_hand() {
        let host = Machine::host();
        let runs = |m: &Machine| m.lacking_here().is_empty();
        for m in Machine::names().iter().map(|n| open(n).unwrap()) {
            let on = here(m.clone());
            assert_eq!((&on.code, on.vector_bytes, on.masks), (&m.code, m.vector_bytes, m.masks));
            let caches = (on.l2_bytes, on.l3_bytes, on.threads);
            let want = if runs(&m) { &host } else { &m };
            assert_eq!(caches, (want.l2_bytes, want.l3_bytes, want.threads), "{}", m.name);
            let own = Machine { origin: "/some/file.toml".to_string(), ..m };
            assert_eq!(here(own.clone()), own);
        }
    }

    #[test]
    fn files_describe_any_machine() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mine.toml");
        std::fs::write(
            &file,
            "format = 1\nname = \"mine\"\nbase = \"x86-64-v3\"\n[facts]\nl2_bytes = 4096\n",
        )
        .unwrap();
        let m = open(&file.display().to_string()).unwrap();
        assert_eq!((m.name.as_str(), m.l2_bytes, m.code.cpu.as_str()), ("mine", 4096, "x86-64-v3"));
        assert_eq!(open(&m.origin).unwrap(), m);
        assert_eq!(model("mine.toml", dir.path()).unwrap().name, "mine");
        std::fs::write(&file, "format = 9\nname = \"mine\"").unwrap();
        let d = open(&file.display().to_string()).unwrap_err();
        assert!(d.message.contains("format 9") && d.notes[0].contains("mine.toml"), "{d}");
        // Levels alone, as older versions wrote them.
        let old = dir.path().join("old.json");
        let text = r#"{ "name": "old", "memories": [{ "layer": "M" }], "cores": [{ "layer": "C", "executor": "cpu" }] }"#;
        std::fs::write(&old, text).unwrap();
        assert_eq!(model("old.json", dir.path()).unwrap().layers(), 2);
        assert_eq!(model("gone.json", dir.path()).unwrap_err().code, codes::MODEL);
    }
}
