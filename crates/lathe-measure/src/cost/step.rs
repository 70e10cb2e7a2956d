//! What is run for a configuration: a script, in which names are replaced, or a command for the shell.

use super::Scripts;
use crate::codes;
use lathe_diagnostics::Diagnostic;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(super) fn missing(what: &str, path: &Path, e: &std::io::Error) -> Diagnostic {
    Diagnostic::error(codes::SCRIPT, format!("the {what} `{}`: {e}", path.display()))
        .help("paths are relative to the folder of the tuned program")
}

/// A text in which names are replaced.
#[derive(Debug)]
pub(super) struct Text {
    /// As it is called in the folder to work in.
    pub name: PathBuf,
    pub text: String,
    pub permissions: std::fs::Permissions,
}

impl Text {
    pub fn read(scripts: &Scripts, path: &Path) -> Result<Text, Diagnostic> {
        let full = scripts.folder.join(path);
        let text = std::fs::read_to_string(&full).map_err(|e| missing("file", &full, &e))?;
        let permissions = std::fs::metadata(&full).map_err(|e| missing("file", &full, &e))?.permissions();
        // What lies in a folder below keeps its place; what lies elsewhere only its name.
        let name = match full.strip_prefix(&scripts.folder) {
            Ok(inside) if inside.components().all(|c| matches!(c, std::path::Component::Normal(_))) => {
                inside.to_path_buf()
            }
            _ => PathBuf::from(full.file_name().unwrap_or_default()),
        };
        Ok(Text { name, text, permissions })
    }
}

/// Something that is run.
#[derive(Debug)]
pub(super) enum Step {
    Script(Text),
    Command(String),
}

impl Step {
    pub fn new(scripts: &Scripts, what: &str) -> Result<Step, Diagnostic> {
        let path = Path::new(what.trim());
        let full = scripts.folder.join(path);
        if full.is_dir() && !what.trim().is_empty() {
            let text = format!("the script `{}` is a folder", full.display());
            return Err(Diagnostic::error(codes::SCRIPT, text).help("name the script in it"));
        }
        if !full.is_file() {
            // A single word with a slash is meant as a path.
            let lone = !what.trim().contains(char::is_whitespace);
            if what.trim().is_empty() || (lone && (what.contains('/') || what.ends_with(".sh"))) {
                let e = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(missing("script", &full, &e));
            }
            return Ok(Step::Command(what.to_string()));
        }
        if !may_run(&full) {
            let text = format!("the script `{}` may not be run", full.display());
            return Err(Diagnostic::error(codes::SCRIPT, text)
                .help(format!("give it the permission: chmod +x {}", path.display())));
        }
        match Text::read(scripts, path) {
            Ok(text) => Ok(Step::Script(text)),
            // A program of machine code has no text in which names could be replaced.
            Err(_) => Ok(Step::Command(shell_quoted(&full))),
        }
    }
}

fn may_run(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the text ends with a zero and lives during the call.
    unsafe { libc::access(name.as_ptr(), libc::X_OK) == 0 }
}

fn shell_quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}
