//! Tuning problems that files describe: by directives in a source, by a JSON form, or by the T1 format.

use super::codes;
use crate::program::Failure;
use lathe_diagnostics::{Diagnostic, SourceMap};
use lathe_space::formats::{self, Script, TuningProgram};
use std::path::{Path, PathBuf};

/// What a file describes.
#[derive(Clone, Debug)]
pub struct Described {
    pub file: PathBuf,
    pub program: TuningProgram,
    /// The program's text without its directives, where they are in it.
    pub text: Option<String>,
    /// What directives call `$1`, `$2`, …
    pub arguments: Vec<String>,
}

impl Described {
    /// The files that are read to tune it: what describes it, its source, what its scripts name, and what these include.
    pub fn files(&self) -> Vec<PathBuf> {
        let folder = self.file.parent().unwrap_or(Path::new(""));
        let p = &self.program;
        let scripts = [&p.compile_script, &p.run_script].into_iter().flatten();
        let named = scripts.flat_map(Script::words).chain(p.program_source.clone());
        let named = named.map(|n| folder.join(n)).filter(|f| f.is_file());
        let mut all: Vec<PathBuf> = std::iter::once(self.file.clone()).chain(named).collect();
        let mut n = 0;
        while n < all.len().min(MOST_FILES) {
            let found = included(&all[n]);
            all.extend(found.into_iter().filter(|f| !all.contains(f)).collect::<Vec<_>>());
            n += 1;
        }
        all
    }
}

/// So many files are searched for what they include, and each up to this size.
const MOST_FILES: usize = 1000;
const LARGEST: u64 = 1 << 20;

/// The files that C or C++ sources beside them are made of: `#include "name"`.
fn included(file: &Path) -> Vec<PathBuf> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let text = lathe_system::files::read_text(file, LARGEST).unwrap_or_default();
    let name = |line: &str| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        Some(folder.join(rest.trim_start().strip_prefix('"')?.split_once('"')?.0))
    };
    text.lines().filter_map(name).filter_map(|f| f.canonicalize().ok()).filter(|f| f.is_file()).collect()
}

/// Which notation a file is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Directives,
    Json,
    T1,
}

fn form(text: &str) -> Option<Form> {
    if formats::directives::found(text) {
        return Some(Form::Directives);
    }
    if !text.trim_start().starts_with('{') {
        return None;
    }
    // T1 calls its parts otherwise. What is not JSON is explained by the reader of forms.
    let json: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let t1 = json.is_some_and(|j| j.get("ConfigurationSpace").is_some());
    Some(if t1 { Form::T1 } else { Form::Json })
}

/// Reads a file in any of the notations. `arguments` are what directives call `$1`, `$2`, …
///
/// # Errors
/// `E0901` if it cannot be read; `E1087` if it is in none of them; what its reader says.
pub fn describe_program(file: &Path, arguments: &[String]) -> Result<Described, Failure> {
    let text = super::packed::read_text(file).map_err(|d| {
        Failure::bare(d.help("FILE.lathe:KERNEL, a program with `#atf::` directives, or a JSON form"))
    })?;
    let text = crate::source::without_mark(text);
    let mut sources = SourceMap::new();
    let id = sources.add(file.display().to_string(), text.as_str());
    let fail = |d: Diagnostic| Failure::one(&sources, d);
    let (program, stripped) = match form(&text) {
        Some(Form::Directives) => {
            let program = formats::directives::parse(&text, id, arguments).map_err(fail)?;
            (program, Some(formats::directives::strip(&text)))
        }
        Some(Form::Json) => (formats::json::parse(&text, id).map_err(fail)?, None),
        Some(Form::T1) => {
            let space = formats::t1::parse(&text, id).map_err(fail)?.space;
            (TuningProgram { space, ..TuningProgram::default() }, None)
        }
        None => {
            let d = Diagnostic::error(
                codes::FORM,
                format!("`{}` does not describe a tuning problem", file.display()),
            );
            return Err(fail(d.help(
                "it has neither `#atf::` directives nor is it a JSON object; kernels are in files that end in .lathe",
            )));
        }
    };
    if stripped.is_none() && !arguments.is_empty() {
        let d = Diagnostic::error(codes::OPTIONS, format!("`{}` takes no arguments", file.display()));
        return Err(fail(d.help("only directives have them: #atf::var::N $1")));
    }
    Ok(Described { file: file.to_path_buf(), program, text: stripped, arguments: arguments.to_vec() })
}
