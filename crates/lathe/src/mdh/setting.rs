//! What decisions are made for.

use lathe_ir::{Function, Module, visit};
use lathe_space::Values;
use lathe_target::Machine;
use std::collections::BTreeMap;
use std::path::Path;

/// What decisions are made for.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub module: &'a Module,
    /// With its computes; its sizes are constants, or unknown.
    pub func: &'a Function,
    pub machine: &'a Machine,
    /// Instead of the usual one, where a step names none.
    pub model: Option<&'a str>,
    /// Where files of models that steps name are.
    pub folder: &'a Path,
    /// Values for free entries, from a search.
    pub params: &'a Values,
}

/// What versions are made for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub set: Setting<'a>,
    /// Sizes that are known, but not constants of the function.
    pub sizes: &'a BTreeMap<String, i64>,
    /// Whether calls with other sizes are worth decisions.
    pub others: bool,
    /// What cannot be done is left as it is written, with a note that says why; but not with values of a search.
    pub lenient: bool,
}

/// The labels of the computes of a function.
pub(crate) fn labels(func: &Function) -> Vec<String> {
    let mut out = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        out.extend(s.as_compute().map(|c| c.label.to_string()));
        true
    });
    out
}
