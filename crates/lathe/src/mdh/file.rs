//! `.mdh` files: homomorphisms in the notation of the thesis, one kernel per definition.

use crate::program::{Failure, Program};
use lathe_diagnostics::{SourceMap, Span};
use lathe_lang::{KernelInfo, Resolver};
use std::collections::BTreeMap;
use std::path::Path;

/// A file of definitions has nothing to import.
struct Nothing;

impl Resolver for Nothing {
    fn load(&mut self, _: &str, name: &str) -> Result<(String, String), String> {
        Err(format!("`{name}` cannot be used here"))
    }
}

/// Whether a path is one of a file in the notation of homomorphisms.
pub fn is_notation(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "mdh")
}

/// Reads definitions as kernels. Type parameters stand for `f32`.
///
/// # Errors
/// `E1221`, at the place where the text is another one.
pub fn from_text(path: &Path, text: &str) -> Result<Program, Failure> {
    let mut sources = SourceMap::new();
    let name = path.display().to_string();
    // What every kernel may use without importing it.
    let (mut lang, _) = lathe_lang::load(&mut sources, &format!("{name} (nothing of it)"), "", &mut Nothing)
        .map_err(|diagnostics| Failure { sources: sources.clone(), diagnostics })?;
    let file = sources.add(name, text);
    let module = lathe_mdh::notation::parse(file, text, &BTreeMap::new())
        .map_err(|d| Failure::one(&sources, d))?;
    let mut kernels: Vec<KernelInfo> = Vec::new();
    for name in module.functions.keys() {
        let start = definition(text, name);
        let span = Span::new(file, start, start + name.len());
        kernels.push(KernelInfo { name: name.to_string(), span, doc: comment_before(text, start) });
    }
    kernels.sort_by_key(|k| k.span.start);
    lang.module.functions.extend(module.functions);
    lang.kernels = kernels;
    Ok(Program { path: path.to_path_buf(), sources, lang, warnings: Vec::new() })
}

/// Where the definition of a name begins.
fn definition(text: &str, name: &str) -> usize {
    let mut from = 0;
    while let Some(at) = text[from..].find(name).map(|at| at + from) {
        let line = text[..at].rfind('\n').map_or(0, |n| n + 1);
        let first = text[line..at].trim().is_empty();
        let after = text[at + name.len()..].trim_start();
        if first && (after.starts_with('<') || after.starts_with(":=")) {
            return at;
        }
        from = at + name.len();
    }
    0
}

/// The comment lines just before a place.
fn comment_before(text: &str, start: usize) -> String {
    let before: Vec<&str> = text[..start].lines().collect();
    let comments = before.iter().rev().take_while(|l| l.trim_start().starts_with('#'));
    let mut lines: Vec<&str> = comments.map(|l| l.trim_start().trim_start_matches('#').trim()).collect();
    lines.reverse();
    lines.join("\n")
}
