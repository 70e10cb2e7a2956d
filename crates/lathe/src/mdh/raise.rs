//! Loops that are equivalent to index notation are raised to it: variables are expanded (`expand`), nests are
//! distributed (`fission`), and each part is raised (`close`). Decisions can then be made for the result.

use super::made::Made;
use super::nests::apart;
use super::setting::Setting;
use lathe_ir::names::Role;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Combine, Stmt};
use lathe_transform::{Arg, Args};
use std::collections::BTreeMap;

/// The steps that make statements in index notation of every nest of which nothing else is left, and which reduces;
/// `sizes` are examples of those that the function still has. None, if there is no such nest.
pub(super) fn raised(set: &Setting, sizes: &BTreeMap<String, i64>) -> Option<Made> {
    let mut made = Made::of(set.func);
    for path in loops(&set.func.body).into_iter().rev() {
        made = one(set, &made, &path, sizes).unwrap_or(made);
    }
    Some(made).filter(|m| !m.steps.is_empty())
}

/// The outermost loops; statements in index notation are none.
fn loops(body: &Stmt) -> Vec<Path> {
    let mut out = Vec::new();
    visit::walk(body, &mut |s, p| {
        out.extend(s.as_loop().map(|_| p.to_vec()));
        s.as_loop().is_none()
    });
    out
}

fn one(set: &Setting, before: &Made, path: &Path, sizes: &BTreeMap<String, i64>) -> Option<Made> {
    let here = |m: &Made| -> Option<Stmt> { visit::at(&m.func.body, path).cloned() };
    let step = |m: &Made, rule: &str, args: &Args| m.then(set, path, rule, args).ok();
    let mut made = before.clone();
    if computes(&here(&made)?).next().is_some() {
        made = step(&made, "open", &Args::default())?;
    }
    made = apart(set, &made, path, sizes).ok()?;
    let labels = lathe_transform::names::labels_in(&here(&made)?);
    // What sets a sum to its identity stays with the sum.
    for label in labels.iter().filter(|l| !labels.iter().any(|k| Role::Init.is_of(l, k))) {
        let mut args = Args::default();
        args.push(None, Arg::Path(label.clone()));
        made = step(&made, "fission", &args).unwrap_or(made);
    }
    made = step(&made, "close", &Args::default())?;
    let now = here(&made)?;
    let reduces = computes(&now).any(|c| c);
    (reduces && loops(&now).is_empty()).then_some(made)
}

/// Of every statement in index notation whether it reduces.
fn computes(s: &Stmt) -> impl Iterator<Item = bool> {
    let mut out = Vec::new();
    visit::walk(s, &mut |s, _| {
        let reduces = |d: &lathe_ir::Dim| matches!(d.combine, Combine::Reduce(_));
        out.extend(s.as_compute().map(|c| c.dims.iter().any(reduces)));
        true
    });
    out.into_iter()
}
