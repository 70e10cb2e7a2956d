//! Reductions inside of scans or updates: inside of a scan every row depends on the previous one, and
//! an update starts from the old values. Reduced first, rows are independent of one another, the reduction is one
//! like any other, and one value per row is left to be scanned or added.

use crate::homomorphism::{Homomorphism, read};
use crate::lower::steps::{call, name};
use lathe_ir::names::Role;
use lathe_ir::{
    Access, Buffer, Combine, Compute, Dim, Function, Module, Space, Stmt, StmtKind, build, visit,
};
use lathe_strategy::Strategy;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The function with two computes in the place of each scan of reductions and of each reduction into old values, and the
/// steps that do the same to its
/// loops.
pub fn first(module: &Module, func: &Function, sizes: &BTreeMap<String, i64>) -> (Function, Vec<Strategy>) {
    let (mut new, mut steps) = (func.clone(), Vec::new());
    let mut next = func.clone();
    new.body = visit::map_stmts(&func.body, &mut |s| match s.as_compute() {
        Some(c) if wanted(module, func, c, sizes) => {
            steps.push(call("prereduce", vec![name(c.label.as_str())]));
            two(&mut next, c, &s)
        }
        _ => s,
    });
    new.next_id = next.next_id;
    (new, steps)
}

/// Loops with at most one iteration disappear when the compute is lowered.
fn wanted(module: &Module, func: &Function, c: &Compute, sizes: &BTreeMap<String, i64>) -> bool {
    let updates = c.update.is_some();
    // What may be another array, too, keeps its order.
    let id = |t: &Access| t.view.buffer();
    let shared =
        |t: &Access| func.params.iter().any(|p| p.alias.is_some() && p.array().map(|b| b.id) == id(t));
    if updates && c.targets.iter().any(shared) {
        return false;
    }
    let part = Compute { update: None, ..c.clone() };
    let found = if updates {
        read(module, func, &part)
    } else {
        Homomorphism::of(module, func, Some(c.label.as_str()))
    };
    let Ok(h) = found else { return false };
    let Ok(shaped) = h.at(sizes) else { return false };
    let count = |f: &dyn Fn(&Combine) -> bool| {
        let all = h.dims.iter().zip(&shaped.extents).filter(|d| f(&d.0.combine));
        all.map(|d| *d.1).fold(1, u64::saturating_mul)
    };
    h.identity
        && !shaped.extents.contains(&0)
        && count(&|k: &Combine| matches!(k, Combine::Scan(_)) || updates && *k == Combine::Concat) > 1
        && count(&|k: &Combine| matches!(k, Combine::Reduce(_))) > 1
}

/// `C.part`, which reduces, and `C`, which scans or adds what it gives.
fn two(func: &mut Function, c: &Compute, s: &Stmt) -> Stmt {
    let scanned = c.dims.iter().filter(|d| matches!(d.combine, Combine::Scan(_)));
    let kept: Vec<&Dim> = c.dims.iter().filter(|d| d.combine == Combine::Concat).chain(scanned).collect();
    let buffers: Vec<Arc<Buffer>> = (c.targets.iter().enumerate())
        .map(|(n, t)| {
            let extent = |d: &&Dim| build::max(build::index(0), build::sub(d.hi.clone(), d.lo.clone()));
            Buffer::local(
                func.fresh_buf(),
                Role::Part.nth(&c.label, n),
                t.elem.clone(),
                kept.iter().map(extent).collect(),
                Space::Host,
            )
        })
        .collect();
    let at = |dims: &[&Dim], b: &Buffer| {
        let index = |d: &&Dim| build::sub(build::var(&d.binder), d.lo.clone());
        Access::buffer(b.id, b.elem.clone(), dims.iter().map(index).collect())
    };
    let free = |d: &Dim| match d.combine {
        Combine::Scan(_) => Dim { combine: Combine::Concat, ..d.clone() },
        _ => d.clone(),
    };
    let part = Compute {
        label: lathe_ir::Label::new(Role::Part.of(&c.label)),
        dims: c.dims.iter().map(free).collect(),
        targets: buffers.iter().map(|b| at(&kept, b)).collect(),
        update: None,
        ..c.clone()
    };
    let part = visit::refresh(&s.with_kind(StmtKind::Compute(part)), &mut func.next_id);
    let rest = Compute {
        dims: kept.iter().map(|d| (*d).clone()).collect(),
        values: buffers.iter().map(|b| build::load(at(&kept, b))).collect(),
        ..c.clone()
    };
    let both = Stmt::seq([part, s.with_kind(StmtKind::Compute(rest))]);
    buffers
        .into_iter()
        .rev()
        .fold(both, |body, buffer| Stmt::new(StmtKind::Alloc { buffer, body }, s.places().clone()))
}
