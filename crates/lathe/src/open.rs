//! Opening `.lathe`, `.mdh` and `.tree` files.

use crate::failure::{Failure, Read};
use crate::program::Program;
use crate::{codes, mdh, source, tree};
use lathe_diagnostics::{Diagnostic, SourceMap};
use lathe_lang::Resolver;
use std::path::{Path, PathBuf};

/// `use "file"` is relative to the file that says it.
#[derive(Default)]
struct Files {
    read: Vec<PathBuf>,
}

impl Resolver for Files {
    fn load(&mut self, from: &str, name: &str) -> Result<(String, String), String> {
        let path = Path::new(from).parent().unwrap_or(Path::new(".")).join(name);
        let text = source::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let canonical = path.canonicalize().unwrap_or(path);
        self.read.push(canonical.clone());
        Ok((canonical.display().to_string(), text))
    }
}

impl Program {
    /// What the front end made of a file, with its rules decided: nobody uses a rule before.
    ///
    /// # Errors
    /// `E1117` for rules that do not hold, `E1115` and `E1118` for those of which that cannot be told.
    fn new(path: PathBuf, (sources, lang, warnings): Read) -> Result<Program, Failure> {
        let rules = crate::rules::decide(&lang.rules, &sources)?;
        Program { path, used: Vec::new(), sources, lang, rules, warnings }.checked()
    }

    /// Reads and checks a file with everything that it uses.
    ///
    /// # Errors
    /// `E0901` if the file cannot be read; else what the front end says.
    pub fn open(path: impl AsRef<Path>) -> Result<Program, Failure> {
        let path = path.as_ref();
        let text = source::read(path).map_err(|e| {
            Failure::bare(
                Diagnostic::error(codes::NO_FILE, format!("cannot read `{}`: {e}", path.display()))
                    .help("a target is FILE or FILE:NAME, e.g. examples/gemm.lathe:gemm"),
            )
        })?;
        Program::from_text(path, &text)
    }

    /// Like [`Program::open`] for a text in memory; `path` is where it would lie.
    ///
    /// # Errors
    /// What the front end says.
    pub fn from_text(path: impl AsRef<Path>, text: &str) -> Result<Program, Failure> {
        Program::read(path.as_ref(), text, None)
    }

    /// As [`Program::from_text`], with the `print` and `assert` of a kernel.
    pub(crate) fn for_debugging(path: &Path, text: &str, kernel: &str) -> Result<Program, Failure> {
        Program::read(path, text, Some(kernel))
    }

    fn read(path: &Path, text: &str, debug: Option<&str>) -> Result<Program, Failure> {
        let path = path.to_path_buf();
        let text = text.strip_prefix(source::MARK).unwrap_or(text);
        let mut files = Files::default();
        let read = if mdh::is_notation(&path) {
            mdh::from_text(&path, text)
        } else if tree::is_tree(&path) {
            tree::from_text(&path, text)
        } else {
            let mut sources = SourceMap::new();
            let name = path.display().to_string();
            let loaded = match debug {
                None => lathe_lang::load(&mut sources, &name, text, &mut files),
                Some(kernel) => lathe_lang::load_debugging(&mut sources, &name, text, &mut files, kernel),
            };
            match loaded {
                Ok((lang, warnings)) => Ok((sources, lang, warnings)),
                Err(diagnostics) => Err(Failure { sources, diagnostics }),
            }
        };
        Ok(Program { used: files.read, ..Program::new(path, read?)? })
    }

    /// The files that it is made of, and those of the models that its strategies name.
    pub fn files(&self) -> Vec<PathBuf> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let named = self.lang.strategies.iter().flat_map(|d| mdh::named_models(&d.body));
        let models = named.filter_map(|name| crate::machine::file(&name, folder));
        std::iter::once(self.path.clone()).chain(self.used.iter().cloned()).chain(models).collect()
    }

    /// What only this crate knows to be wrong with a file.
    fn checked(self) -> Result<Program, Failure> {
        let diagnostics = crate::fun::captures(&self);
        if diagnostics.is_empty() {
            crate::grad::filled(self)
        } else {
            Err(Failure { sources: self.sources, diagnostics })
        }
    }
}
