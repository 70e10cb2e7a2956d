//! Statements and the whole arrays that they fill, allocate, read and write.

use crate::expr::{load_of, zero};
use lathe_ir::build::{cast, index, var};
use lathe_ir::visit::{for_each_load, vars_of, walk};
use lathe_ir::{
    Access, BufId, Buffer, Combine, Compute, Dim, Expr, Function, Label, Scalar, Stmt, StmtKind, Store,
    VarId, View,
};
use lathe_poly::Linear;
use std::collections::HashSet;
use std::sync::Arc;

/// `target = value`, for all points.
pub fn fill(label: String, dims: Vec<Dim>, target: Access, value: Expr) -> Stmt {
    let label = Label::new(label);
    if dims.is_empty() {
        let store = Store::new(label, Vec::new(), target, value);
        return Stmt::of(StmtKind::Store(store));
    }
    let (targets, values) = (vec![target], vec![value]);
    Stmt::of(StmtKind::Compute(Compute { label, dims, targets, values, guard: None, update: None }))
}

/// A dimension over each extent of a buffer, with the access to the element.
pub fn elements(b: &Buffer, func: &mut Function) -> (Vec<Dim>, Access) {
    let dims: Vec<Dim> = b
        .extents
        .iter()
        .enumerate()
        .map(|(n, e)| Dim {
            binder: func.fresh_var(format!("i{n}"), Scalar::Index),
            lo: index(0),
            hi: e.clone(),
            combine: Combine::Concat,
        })
        .collect();
    let indices = dims.iter().map(|d| var(&d.binder)).collect();
    (dims, Access::buffer(b.id, b.elem.clone(), indices))
}

/// Every element becomes 0.
pub fn zero_array(b: &Buffer, func: &mut Function) -> Stmt {
    let (dims, target) = elements(b, func);
    fill(format!("{}.zero", b.name), dims, target, zero(&b.elem))
}

/// Every element of one array goes to another, converted.
pub fn copy_array(from: &Buffer, to: &Buffer, func: &mut Function) -> Stmt {
    let (dims, target) = elements(to, func);
    let value = cast(to.elem.clone(), load_of(&target, from.id, from.elem.clone()));
    fill(lathe_ir::names::copy_of(&from.name), dims, target, value)
}

/// Whether subscripts tell apart the values of some variables: each is determined, one after the other.
pub fn determines(indices: &[Expr], vars: &[VarId]) -> bool {
    let mut open: HashSet<VarId> = vars.iter().copied().collect();
    let forms: Vec<Linear> = indices.iter().map(Linear::of).collect();
    while !open.is_empty() {
        let found = forms.iter().find_map(|f| {
            let mut own = f.terms.iter().filter(|t| vars_of(&t.0).iter().any(|v| open.contains(v)));
            let found = own.next()?.0.as_var()?;
            own.next().is_none().then_some(found)
        });
        match found {
            Some(v) => open.remove(&v),
            None => return false,
        };
    }
    true
}

/// The arrays that a statement or what it holds reads or writes.
pub fn touched(s: &Stmt) -> HashSet<BufId> {
    let mut out = Vec::new();
    walk(s, &mut |x, _| {
        out.extend(x.touches().iter().filter_map(|t| t.0.buffer()));
        x.exprs().into_iter().for_each(|e| for_each_load(e, &mut |a| out.extend(a.view.buffer())));
        true
    });
    each_once(out)
}

/// Most arrays are touched again and again: a set that takes each one once is made faster.
fn each_once(mut all: Vec<BufId>) -> HashSet<BufId> {
    all.sort_unstable();
    all.dedup();
    all.into_iter().collect()
}

/// The arrays that a statement or what it holds writes.
pub fn written(s: &Stmt) -> HashSet<BufId> {
    let mut out = HashSet::new();
    walk(s, &mut |x, _| {
        out.extend(x.written().filter_map(View::buffer));
        true
    });
    out
}

/// A body among local arrays.
pub fn allocated(
    buffers: impl IntoIterator<Item = Arc<Buffer>, IntoIter: DoubleEndedIterator>,
    body: Stmt,
) -> Stmt {
    buffers.into_iter().rev().fold(body, |body, buffer| Stmt::of(StmtKind::Alloc { buffer, body }))
}

/// Arrays that an expression reads.
pub fn buffers_of(e: &Expr) -> impl Iterator<Item = BufId> {
    let mut out = Vec::new();
    for_each_load(e, &mut |a| out.extend(a.view.buffer()));
    out.into_iter()
}
