//! `.tree` files as programs: their functions are run, explained, emitted and measured like kernels.
//!
//! A tree says by itself in which order it runs, on what cores and where its arrays live; so it needs no strategy, though
//! those that need no import can be applied. What nobody proved of it only the interpreter runs, which looks at every
//! access.

use crate::failure::{Failure, Read};
use crate::source::Nothing;
use lathe_analysis::Assumptions;
use lathe_diagnostics::{Diagnostic, FileId, Severity, SourceMap, Span};
use lathe_ir::{Function, Module};
use lathe_lang::KernelInfo;
use std::path::Path;

/// Whether a path names a file of tree text.
pub fn is_tree(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "tree")
}

/// Whether a text without a name is a tree: it has functions, which the language calls kernels and funs.
pub fn is_tree_text(text: &str) -> bool {
    text.lines().any(|l| l.starts_with("func ") || l.starts_with("extern "))
}

/// Parses and verifies tree text.
///
/// # Errors
/// What the parser or the verifier says.
pub(crate) fn from_text(path: &Path, text: &str) -> Result<Read, Failure> {
    let mut sources = SourceMap::new();
    let name = path.display().to_string();
    // An empty program: it has what needs no import.
    let empty = lathe_lang::load(&mut sources, &format!("{name} (strategies)"), "", &mut Nothing);
    let (mut lang, warnings) = empty.map_err(|d| Failure::many(&sources, d))?;
    let file = sources.add(name, text);
    let mut module = lathe_ir::text::parse_module(file, text).map_err(|d| Failure::many(&sources, d))?;
    let wrong = lathe_ir::verify::verify(&module);
    if !wrong.is_empty() {
        return Err(Failure::many(&sources, wrong));
    }
    lang.file = Some(file);
    lang.kernels = kernels(&module, file, text);
    // Checks are put into what is run when it is scheduled, and into what it calls here.
    for name in module.called() {
        if let Some(f) = module.functions.get(&name)
            && let (checked, wrong) = examined(&module, f)
            && wrong.is_empty()
        {
            module.functions.insert(name, checked);
        }
    }
    lang.module = module;
    Ok((sources, lang, warnings))
}

/// A function with the checks that its accesses need, and what can be neither proved nor checked.
pub(crate) fn examined(module: &Module, f: &Function) -> (Function, Vec<Diagnostic>) {
    let (checked, mut wrong) = lathe_analysis::prove_accesses(module, f, Assumptions::Checked);
    wrong.extend(lathe_analysis::prove_defined(module, &checked));
    wrong.retain(|d| d.severity == Severity::Error);
    (checked, wrong)
}

/// The functions that no other one calls: what the others are for. Functions with a result are for expressions.
fn kernels(module: &Module, file: FileId, text: &str) -> Vec<KernelInfo> {
    let called = module.called();
    let all = module.functions.values().filter(|f| f.result.is_none() && !called.contains(&f.name));
    all.map(|f| {
        let (start, end, doc) = declared(text, &f.name);
        KernelInfo { name: f.name.to_string(), span: Span::new(file, start, end), doc, sites: Vec::new() }
    })
    .collect()
}

/// Where a function begins, and the comment before it.
fn declared(text: &str, name: &str) -> (usize, usize, String) {
    let (mut at, mut doc) = (0, String::new());
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        let is_own = |rest: &str| rest.trim_matches('`') == name;
        if bare.strip_prefix("func ").and_then(|r| r.split_once('(')).is_some_and(|(n, _)| is_own(n.trim())) {
            return (at, at + line.trim_end().len(), doc.trim_end().to_string());
        }
        match bare.strip_prefix("# ") {
            Some(comment) => doc += &format!("{comment}\n"),
            None => doc.clear(),
        }
        at += line.len();
    }
    (0, 0, String::new())
}
