//! What is run for a configuration: a program with arguments, or a command for the shell.

use super::{Scripts, shell};
use crate::codes;
use lathe_diagnostics::Diagnostic;
use lathe_space::formats::Script;
use lathe_system::files;
use rustix::fs::{Access, AtFlags, CWD};
use std::path::{Component, Path, PathBuf};

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
        let text = files::read_text(&full, files::TEXT).map_err(|e| missing("file", &full, &e))?;
        let permissions = std::fs::metadata(&full).map_err(|e| missing("file", &full, &e))?.permissions();
        // What lies in a folder below keeps its place; what lies elsewhere only its name.
        let name = below(&scripts.folder, &full)
            .unwrap_or_else(|| PathBuf::from(full.file_name().unwrap_or_default()));
        Ok(Text { name, text, permissions })
    }
}

/// The part of a path below a folder.
fn below(folder: &Path, full: &Path) -> Option<PathBuf> {
    let inside: PathBuf =
        full.strip_prefix(folder).ok()?.components().filter(|c| !matches!(c, Component::CurDir)).collect();
    inside.components().all(|c| matches!(c, Component::Normal(_))).then_some(inside)
}

/// Something that is run.
#[derive(Debug)]
pub(super) enum Step {
    /// A text of the program's folder, in which names are replaced; then its arguments.
    Script(Text, Vec<String>),
    /// What lies under this name in the folder to work in: a program of machine code, or what the compile step makes.
    Inside(PathBuf, Vec<String>),
    /// A program of the system.
    Program(PathBuf, Vec<String>),
    /// Text for the shell.
    Shell(String),
}

impl Step {
    /// `made`: a step before it may make files.
    pub fn new(scripts: &Scripts, what: &Script, made: bool) -> Result<Step, Diagnostic> {
        let (first, arguments) = match what {
            Script::Shell(text) => (text.trim(), Vec::new()),
            Script::List(words) => match words.split_first() {
                Some((first, rest)) => (first.as_str(), rest.to_vec()),
                None => ("", Vec::new()),
            },
        };
        let path = Path::new(first);
        let full = scripts.folder.join(path);
        if first.is_empty() {
            return Err(missing("script", &full, &std::io::ErrorKind::NotFound.into()));
        }
        if full.is_dir() {
            let text = format!("the script `{}` is a folder", full.display());
            return Err(Diagnostic::error(codes::SCRIPT, text).help("name the script in it"));
        }
        if full.is_file() {
            return Step::of_file(scripts, path, &full, arguments, made);
        }
        if let Script::Shell(text) = what {
            // A single word with a slash is meant as a path.
            let lone =
                !first.contains(char::is_whitespace) && (first.contains('/') || first.ends_with(".sh"));
            if !lone {
                return Ok(Step::Shell(text.clone()));
            }
        } else if !first.contains('/') {
            return Ok(Step::Program(first.into(), arguments));
        }
        match below(&scripts.folder, &full) {
            Some(inside) if made => Ok(Step::Inside(inside, arguments)),
            _ => Err(missing("script", &full, &std::io::ErrorKind::NotFound.into())),
        }
    }

    fn of_file(
        scripts: &Scripts,
        path: &Path,
        full: &Path,
        arguments: Vec<String>,
        made: bool,
    ) -> Result<Step, Diagnostic> {
        let inside = below(&scripts.folder, full);
        if rustix::fs::accessat(CWD, full, Access::EXEC_OK, AtFlags::empty()).is_err() {
            if let (Some(inside), true) = (inside, made) {
                return Ok(Step::Inside(inside, arguments));
            }
            let text = format!("the script `{}` is not executable", full.display());
            return Err(Diagnostic::error(codes::SCRIPT, text)
                .help(format!("make it executable: chmod +x {}", path.display())));
        }
        // A program of machine code has no text in which names could be replaced.
        Ok(match (Text::read(scripts, path), inside) {
            (Ok(text), _) => Step::Script(text, arguments),
            (Err(_), Some(inside)) => Step::Inside(inside, arguments),
            (Err(_), None) => Step::Program(full.to_path_buf(), arguments),
        })
    }

    /// All that decides what it does, as far as it is text.
    pub fn text(&self) -> String {
        let with = |first: &str, rest: &[String]| {
            let words: Vec<String> = rest.iter().map(|w| shell::word(w)).collect();
            if words.is_empty() { first.to_string() } else { format!("{first}\n{}", words.join(" ")) }
        };
        match self {
            Step::Script(t, rest) => with(&t.text, rest),
            Step::Inside(p, rest) | Step::Program(p, rest) => with(&p.display().to_string(), rest),
            Step::Shell(text) => text.clone(),
        }
    }
}
