//! Programs as `open.rs` reads them, and choosing what to run from them.

use crate::codes;
pub use crate::failure::Failure;
use lathe_diagnostics::{Diagnostic, SourceMap, Span};
use lathe_ir::{Function, Type};
use lathe_lang::Generic;
use lathe_pattern::Decision;
use lathe_strategy::{Definition, Definitions};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// A loaded file with the sources that its diagnostics point into.
#[derive(Debug)]
pub struct Program {
    pub path: PathBuf,
    /// The files that it uses.
    pub used: Vec<PathBuf>,
    pub sources: SourceMap,
    pub lang: lathe_lang::Program,
    /// How each of its rules holds.
    pub rules: BTreeMap<String, Decision>,
    pub warnings: Vec<Diagnostic>,
}

/// Splits `FILE:NAME`; a file whose own name has a colon is taken as a whole if it exists.
pub fn split_target(target: &str) -> (PathBuf, Option<String>) {
    if Path::new(target).exists() {
        return (PathBuf::from(target), None);
    }
    match target.rsplit_once(':') {
        Some((file, name)) if !name.is_empty() && !name.contains('/') => {
            (PathBuf::from(file), Some(name.to_string()))
        }
        _ => (PathBuf::from(target), None),
    }
}

impl Program {
    /// Whether a place is in the file itself, and not in one that it uses.
    pub fn is_own(&self, span: Span) -> bool {
        self.lang.file == Some(span.file)
    }

    /// The kernel of a name, or the only one of the file; of a generic one, that for the usual types.
    ///
    /// # Errors
    /// `E0902`, with the names that there are.
    pub fn kernel(&self, name: Option<&str>) -> Result<&Function, Failure> {
        self.kernel_for(name, &BTreeMap::new())
    }

    /// As [`Program::kernel`], for these element types of a generic one.
    ///
    /// # Errors
    /// `E0902`, with the names or the types that there are.
    pub fn kernel_for(
        &self,
        name: Option<&str>,
        types: &BTreeMap<String, Type>,
    ) -> Result<&Function, Failure> {
        let mut seen = HashSet::new();
        let names = self.lang.kernels.iter().map(|k| self.generic_of(&k.name).map_or(&*k.name, |g| g.0));
        let names: Vec<&str> = names.filter(|n| seen.insert(*n)).collect();
        let file = self.path.display();
        let list = || format!("kernels of this file: {}", names.join(", "));
        let missing = |text: String| {
            Failure::one(&self.sources, Diagnostic::error(codes::NO_KERNEL, text).help(list()))
        };
        let funs: Vec<&str> = self.lang.funs.keys().map(String::as_str).collect();
        let chosen = match (name, names.as_slice()) {
            (Some(n), []) if funs.contains(&n) => n,
            (None, []) if funs.len() == 1 => funs[0],
            (_, []) => {
                let d = Diagnostic::error(codes::NO_KERNEL, format!("`{file}` has no kernel"));
                let help = match crate::tree::is_tree(&self.path) {
                    true => "write `func name(…)(…) stage plain { … }`",
                    false => "write `kernel name(…) -> (…) { … }`",
                };
                return Err(Failure::one(&self.sources, d.help(help)));
            }
            (Some(n), _) => n,
            (None, [only]) => only,
            (None, _) => {
                let default = self.path.file_stem().and_then(|s| s.to_str()).unwrap_or("");
                match names.iter().find(|n| **n == default) {
                    Some(n) => n,
                    None => {
                        let first = names[0];
                        let how = format!(
                            "name one: `{file}:{first}` in commands, `load(path, \"{first}\")` in Python"
                        );
                        let text = format!("`{file}` has several kernels, and none of the file's name");
                        let d = Diagnostic::error(codes::NO_KERNEL, text).note(list());
                        return Err(Failure::one(&self.sources, d.help(how)));
                    }
                }
            }
        };
        let named = |text: &str| text == chosen || self.generic_of(chosen).is_some_and(|g| g.0 == text);
        let own = names.iter().any(|n| named(n));
        let function = match self.lang.generics.get(chosen) {
            Some(g) => g.choose(types).map_err(|why| {
                let d = Diagnostic::error(
                    codes::NO_KERNEL,
                    format!("`{chosen}` cannot be instantiated for these types: {why}"),
                );
                let help = format!("an element type is chosen like a size: -D {}=f32", g.params[0]);
                Failure::one(&self.sources, d.help(help))
            })?,
            None => match types.keys().next() {
                Some(t) => return Err(missing(format!("`{chosen}` has no element type `{t}` to choose"))),
                None => chosen,
            },
        };
        match self.lang.module.functions.get(function) {
            Some(f) if own => Ok(f),
            _ if let Some(why) = self.lang.funs.get(chosen).and_then(|f| f.no_kernel.clone()) => {
                Err(Failure::one(&self.sources, why.note(format!("so `{chosen}` cannot be run on its own"))))
            }
            _ => Err(missing(format!("`{file}` has no kernel `{chosen}`"))),
        }
    }

    /// The generic kernel that a kernel is one choice of: its name, and all that it stands for.
    pub fn generic_of(&self, kernel: &str) -> Option<(&str, &Generic)> {
        let all = self.lang.generics.iter();
        all.map(|(n, g)| (n.as_str(), g)).find(|(_, g)| g.choices.iter().any(|c| c.1 == kernel))
    }

    /// Strategies that fit a kernel: its own, then those for any target, in the order of the source.
    pub fn strategies(&self, kernel: &str) -> Vec<&Definition> {
        self.lang.strategies_of(kernel).collect()
    }

    /// What strategies for a kernel or fun may call. For kernels the name of a step on loops is that step, whatever it
    /// means for terms.
    pub fn definitions(&self, target: &str) -> Definitions {
        let on_terms = self.lang.funs.contains_key(target);
        let kept = move |d: &&Definition| on_terms || lathe_transform::rule(&d.name).is_none();
        Definitions::new(self.lang.strategies_of(target).filter(kept).cloned())
    }

    /// The strategy of a name for a kernel; one for this very kernel wins over one for any.
    ///
    /// # Errors
    /// `E0903`, with the names that there are.
    pub fn strategy(&self, kernel: &str, name: &str) -> Result<&Definition, Failure> {
        let all = self.strategies(kernel);
        all.iter().find(|d| d.name == name).copied().ok_or_else(|| {
            let mut names: Vec<&str> = Vec::new();
            for d in &all {
                // The kernel's own strategy hides one of that name for any kernel.
                if !names.contains(&d.name.as_str()) {
                    names.push(&d.name);
                }
            }
            let d = Diagnostic::error(codes::NO_STRATEGY, format!("no strategy `{name}` for `{kernel}`"))
                .help(format!("applicable strategies: {}", names.join(", ")));
            Failure::one(&self.sources, d)
        })
    }
}
