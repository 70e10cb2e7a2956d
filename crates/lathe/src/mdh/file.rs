//! `.mdh` files: homomorphisms in the notation of the thesis, one kernel per definition. Structs, operators and strategies
//! are declared as in `.lathe` files; such an item begins a line and ends at an empty one.

use crate::failure::{Failure, Read};
use crate::source::Nothing;
use lathe_diagnostics::{SourceMap, Span};
use lathe_lang::KernelInfo;
use std::collections::BTreeMap;
use std::path::Path;

/// Whether a path is one of a file in the notation of homomorphisms.
pub fn is_notation(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "mdh")
}

/// Whether a text without a path is one in that notation: it begins a definition with `:=`, which `.lathe` files do not have.
pub fn is_notation_text(text: &str) -> bool {
    text.contains("md_hom") && !names(&split(text).1).is_empty()
}

/// Reads definitions as kernels. Type parameters stand for `f32`.
///
/// # Errors
/// `E1221`, at the place where the text is another one.
pub fn from_text(path: &Path, text: &str) -> Result<Read, Failure> {
    let mut sources = SourceMap::new();
    let name = path.display().to_string();
    let (items, definitions) = split(text);
    let names = names(&definitions);
    // With what every kernel may use without importing it.
    let mut lang = match lathe_lang::load_beside(&mut sources, &name, &items, &mut Nothing, &names) {
        Ok((lang, _)) => lang,
        Err(diagnostics) => return Err(Failure { sources, diagnostics }),
    };
    let file = sources.add(name, text);
    let own = std::mem::take(&mut lang.module);
    let module = lathe_mdh::notation::parse_with(file, &definitions, &BTreeMap::new(), own)
        .map_err(|d| Failure::one(&sources, d))?;
    let mut kernels: Vec<KernelInfo> = Vec::new();
    for name in module.functions.keys() {
        let start = definition(text, name);
        let span = Span::new(file, start, start + name.len());
        let doc = comment_before(text, start);
        kernels.push(KernelInfo { name: name.to_string(), span, doc, sites: Vec::new() });
    }
    kernels.sort_by_key(|k| k.span.start);
    lang.module = module;
    lang.kernels = kernels;
    Ok((sources, lang, Vec::new()))
}

/// The items of the language, and everything else: both as long as the text, with blanks for what is not theirs, so
/// that places stay what they are.
fn split(text: &str) -> (String, String) {
    let (mut items, mut rest) = (String::new(), String::new());
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        inside = match line.trim() {
            "" => false,
            t => inside || ["struct ", "op ", "strategy "].iter().any(|w| t.starts_with(w)),
        };
        let blank: String = line
            .chars()
            .map(|c| if c == '\n' { "\n".to_string() } else { " ".repeat(c.len_utf8()) })
            .collect();
        let (own, other) = if inside { (&mut items, &mut rest) } else { (&mut rest, &mut items) };
        own.push_str(line);
        other.push_str(&blank);
    }
    (items, rest)
}

/// The names that definitions begin with.
fn names(definitions: &str) -> Vec<&str> {
    let name = |line: &str| -> Option<usize> {
        let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        let rest = line[end..].trim_start();
        (end > 0 && (rest.starts_with('<') || rest.starts_with(":="))).then_some(end)
    };
    definitions.lines().map(str::trim_start).filter_map(|line| Some(&line[..name(line)?])).collect()
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
