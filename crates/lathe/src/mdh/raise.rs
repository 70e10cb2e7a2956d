//! Loops that are equivalent to index notation are raised to it: names of values are written out (`inline`), variables are
//! expanded (`expand`), nests are distributed (`fission`, `affine_schedule`), and each part is raised (`close`). Decisions can then be made for the result.

use super::candidates::{Word, arguments};
use super::made::Made;
use super::nests::apart;
use super::setting::Setting;
use lathe_ir::names::Role;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Access, BufId, Combine, ExprKind, Stmt};
use lathe_transform::{Arg, Args};
use std::collections::{BTreeMap, BTreeSet};

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
    let nested = computes(&here(&made)?).next().is_some();
    if nested {
        made = step(&made, "open", &Args::default())?;
    }
    for name in named(&here(&made)?) {
        let mut args = Args::default();
        args.push(None, Arg::Path(name));
        made = step(&made, "inline", &args)?;
    }
    let (stay, within) = accumulators(&here(&made)?);
    // Decisions make most of these arrays small again; who takes them looks at what is left.
    made = apart(set, &made, path, (sizes, i64::MAX), &stay).ok()?;
    let whole = made.clone();
    let labels = lathe_transform::names::labels_in(&here(&made)?);
    // What sets a sum to its identity stays with the sum.
    let cut = |l: &&String| !within.contains(l) && !labels.iter().any(|k| Role::Init.is_of(l, k));
    for label in labels.iter().filter(cut) {
        let mut args = Args::default();
        args.push(None, Arg::Path(label.clone()));
        // Inner loops first, then those around them.
        while let Some(next) = step(&made, "fission", &args) {
            made = next;
        }
    }
    let closed = |m: &Made| {
        let made = step(m, "close", &Args::default())?;
        let now = here(&made)?;
        let reduces = computes(&now).any(|c| c);
        (reduces && loops(&now).is_empty()).then_some(made)
    };
    // Statements that were in index notation are numbered inside of the loops around only: `fission` does not know which one is which, and
    // a schedule numbers them anew.
    let scheduled = || step(&whole, "affine_schedule", &arguments(&[("fuse", Word::Name("none"))]));
    closed(&made).or_else(|| closed(&nested.then(scheduled).flatten()?))
}

/// Variables that hold a reduction until it is stored, which `close` raises as a whole, and the labels of what they hold.
fn accumulators(nest: &Stmt) -> (Vec<BufId>, Vec<String>) {
    let mut out = (Vec::new(), Vec::new());
    visit::walk(nest, &mut |s, _| {
        let Some((b, body)) = s.as_alloc() else { return true };
        let Some([init, sum, store]) = body.as_seq() else { return true };
        let own = |a: &Access| a.view.buffer() == Some(b.id) && a.indices.is_empty();
        let begins = init.as_store().is_some_and(|st| own(&st.target));
        let ends = store.as_store().is_some_and(|st| matches!(st.value.kind(), ExprKind::Load(a) if own(a)));
        if begins && ends && sum.as_loop().is_some() {
            out.0.push(b.id);
            out.1.extend(init.label().map(ToString::to_string));
            out.1.extend(lathe_transform::names::labels_in(sum));
        }
        true
    });
    out
}

/// Names of values that loops stand in the scope of.
pub(super) fn named(nest: &Stmt) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    visit::walk(nest, &mut |s, _| {
        out.extend(s.as_let().filter(|l| !loops(l.2).is_empty()).map(|l| l.0.name.to_string()));
        true
    });
    out
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
