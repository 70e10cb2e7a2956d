//! Arithmetic in a sum that one index of the results does not change, as `alpha * A[i, k]` in a product: where that index
//! takes many values, it is done once for all of them, in a compute of its own before. In a tile of registers it would be done for every
//! row, beside few multiplications that it serves, and would need the same units.

use crate::choose::Setting;
use crate::choose::facts::work;
use crate::homomorphism::{Homomorphism, Shaped};
use crate::lower::steps::{call, name};
use lathe_ir::names::{self, Role};
use lathe_ir::{
    Access, Buffer, Combine, Compute, Dim, Expr, Function, Module, Space, Stmt, StmtKind, VarId, build, visit,
};
use lathe_strategy::Strategy;
use lathe_transform::storage::{replaced, unchanged};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Vectors of results that use a value, from which on it is computed before: storing and loading it takes the time of a few.
const VECTORS: u64 = 8;

/// A function with such computes, and the steps that do the same to its loops.
pub struct Hoisted {
    pub func: Function,
    pub steps: Vec<Strategy>,
}

/// For computes for which `alone` holds, with sizes that are constants.
pub fn first(
    module: &Module,
    func: &Function,
    alone: &dyn Fn(&str) -> bool,
    sizes: &BTreeMap<String, i64>,
    s: &Setting,
) -> Hoisted {
    let mut out = Hoisted { func: func.clone(), steps: Vec::new() };
    if !s.exact {
        return out;
    }
    let mut next = func.clone();
    let body = visit::map_stmts(&func.body, &mut |stmt| {
        let found = stmt.as_compute().filter(|c| alone(c.label.as_str()));
        let Some((c, over)) = found.and_then(|c| Some((c, wanted(module, func, c, sizes, s)?))) else {
            return stmt;
        };
        let Some(new) = apart(&mut next, c, over.id, &stmt) else { return stmt };
        let of = names::around(&c.label, &over.name);
        out.steps.push(call("hoist", vec![name(c.label.as_str()), name(&of)]));
        new
    });
    out.func = Function { body, next_id: next.next_id, ..func.clone() };
    out
}

/// The index over which the most is saved.
fn wanted(
    module: &Module,
    func: &Function,
    c: &Compute,
    sizes: &BTreeMap<String, i64>,
    s: &Setting,
) -> Option<lathe_ir::Binder> {
    // What may be another array, too, may be what the values are computed from.
    let written: Vec<_> = c.targets.iter().map(|t| t.view.buffer()).collect();
    let shared = func.params.iter().any(|p| p.alias.is_some() && written.contains(&p.array().map(|b| b.id)));
    if c.update.is_some() || c.guard.is_some() || shared || c.values.len() != 1 {
        return None;
    }
    let h = Homomorphism::of(module, func, Some(c.label.as_str())).ok()?;
    let shaped: Shaped = h.at(sizes).ok()?;
    if shaped.extents.contains(&0) || !h.identity {
        return None;
    }
    let own: HashSet<VarId> = c.dims.iter().map(|d| d.binder.id).collect();
    let extent = |v: &VarId| {
        let at = h.dims.iter().position(|d| d.id == *v);
        at.map_or(1, |n| shaped.extents[n])
    };
    let pays = |over: &Dim| {
        let all = unchanged(&c.values, &own, over.binder.id);
        let reduced = |e: &Expr| {
            let vars = visit::vars_of(e);
            c.dims.iter().any(|d| d.combine != Combine::Concat && vars.contains(&d.binder.id))
        };
        let uses = |e: &Expr| {
            let vars = visit::vars_of(e);
            own.iter().filter(|v| !vars.contains(v)).map(&extent).fold(1, u64::saturating_mul)
        };
        let kept = |e: &Expr| {
            let lanes = s.machine.lanes(e.ty().scalar().map_or(8, |t| t.bytes()));
            let reads = visit::loads_of(e).iter().any(|a| written.contains(&a.view.buffer()));
            work(e) >= 1.0 && reduced(e) && !reads && uses(e) >= VECTORS * lanes
        };
        !all.is_empty() && all.iter().all(kept)
    };
    let free = c.dims.iter().filter(|d| d.combine == Combine::Concat && pays(d));
    free.max_by_key(|d| extent(&d.binder.id)).map(|d| d.binder.clone())
}

/// `C.map`, which computes what one index does not change, and `C`, which reads it.
fn apart(func: &mut Function, c: &Compute, over: VarId, s: &Stmt) -> Option<Stmt> {
    let own: HashSet<VarId> = c.dims.iter().map(|d| d.binder.id).collect();
    let values = unchanged(&c.values, &own, over);
    let (mut all, mut loads, mut buffers) = (Vec::new(), Vec::new(), Vec::new());
    for (n, value) in values.iter().enumerate() {
        let (label, array) = (Role::Map.nth(&c.label, n), Role::Values.nth(&c.label, n));
        if func.body.may_name(&label) || func.body.may_name(&array) || func.array(&array).is_some() {
            return None;
        }
        let vars = visit::vars_of(value);
        let dims: Vec<Dim> = (c.dims.iter().filter(|d| vars.contains(&d.binder.id)))
            .map(|d| Dim { combine: Combine::Concat, ..d.clone() })
            .collect();
        let extent = |d: &Dim| build::max(build::index(0), build::sub(d.hi.clone(), d.lo.clone()));
        let extents = dims.iter().map(extent).collect();
        let buffer: Arc<Buffer> =
            Buffer::local(func.fresh_buf(), array, value.ty().clone(), extents, Space::Host);
        let index = |d: &Dim| build::sub(build::var(&d.binder), d.lo.clone());
        let at = Access::buffer(buffer.id, buffer.elem.clone(), dims.iter().map(index).collect());
        loads.push(build::load(at.clone()));
        let map = Compute {
            label: lathe_ir::Label::new(label),
            dims,
            targets: vec![at],
            values: vec![value.clone()],
            ..c.clone()
        };
        all.push(visit::refresh(&s.with_kind(StmtKind::Compute(map)), &mut func.next_id));
        buffers.push(buffer);
    }
    let rest =
        Compute { values: c.values.iter().map(|v| replaced(v, &values, &loads)).collect(), ..c.clone() };
    all.push(s.with_kind(StmtKind::Compute(rest)));
    let alloc = |body, buffer| Stmt::new(StmtKind::Alloc { buffer, body }, s.places().clone());
    Some(buffers.into_iter().rev().fold(Stmt::seq(all), alloc))
}
