//! Functions of inputs that do not change along some dimensions of a compute are evaluated once, into an array.

use crate::arrays::{allocated, fill, written};
use lathe_ir::build::{index, load, max, sub, var};
use lathe_ir::visit::{loads_of, map_expr, map_stmts, refresh, substitute, vars_of};
use lathe_ir::{
    Access, Buffer, Combine, Compute, Dim, Expr, ExprKind, Function, Space, Stmt, StmtKind, VarId, View,
};
use lathe_poly::Linear;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

struct Hoisted {
    dims: Vec<Dim>,
    value: Expr,
    buffer: Arc<Buffer>,
}

pub fn hoisted(mut func: Function) -> Function {
    let changed = written(&func.body);
    let inputs = func.params.iter().filter_map(|p| p.array()).filter(|b| !changed.contains(&b.id));
    let inputs: Vec<Arc<Buffer>> = inputs.cloned().collect();
    let mut known: HashSet<VarId> = func.sizes.iter().map(|b| b.id).collect();
    known.extend(func.params.iter().filter_map(|p| match &p.kind {
        lathe_ir::ParamKind::Scalar(b) => Some(b.id),
        lathe_ir::ParamKind::Array(_) => None,
    }));
    let mut found: Vec<Hoisted> = Vec::new();
    let body = func.body.clone();
    let body = map_stmts(&body, &mut |s| {
        let Some(c) = s.as_compute() else { return s };
        let values: Vec<Expr> =
            c.values.iter().map(|v| without(v, c, &inputs, &known, &mut found, &mut func)).collect();
        if values == c.values { s } else { s.with_kind(StmtKind::Compute(Compute { values, ..c.clone() })) }
    });
    let mut before = Vec::new();
    for h in &found {
        let indices = h.dims.iter().map(|d| sub(var(&d.binder), d.lo.clone())).collect();
        let target = Access::buffer(h.buffer.id, h.buffer.elem.clone(), indices);
        let s = fill(h.buffer.name.to_string(), h.dims.clone(), target, h.value.clone());
        before.push(refresh(&s, &mut func.next_id));
    }
    // Checks and stated facts come first: what extents are, for one.
    let facts = match body.as_seq() {
        Some(list) => list.iter().take_while(|s| s.establishes().is_some()).count(),
        None => 0,
    };
    let list: Vec<Stmt> = body.as_seq().map_or_else(|| vec![body.clone()], <[Stmt]>::to_vec);
    let (first, rest) = list.split_at(facts);
    let body = Stmt::seq(first.iter().cloned().chain(before).chain(rest.iter().cloned()));
    func.body = allocated(found.into_iter().map(|h| h.buffer), body);
    func
}

/// Whether every subscript is a dimension over all of the array: such elements exist, whether or not there is a point that
/// reads them.
fn is_all(a: &Access, b: &Buffer, dims: &[Dim]) -> bool {
    a.indices.iter().zip(&b.extents).all(|(i, extent)| {
        let d = dims.iter().find(|d| i.as_var() == Some(d.binder.id));
        d.is_some_and(|d| d.lo.as_int() == Some(0) && Linear::of(&d.hi) == Linear::of(extent))
    })
}

/// A size is never negative.
pub fn extent(d: &Dim) -> Expr {
    let n = sub(d.hi.clone(), d.lo.clone());
    if matches!(n.kind(), ExprKind::Var(_)) { n } else { max(n, index(0)) }
}

/// A value with such functions read from arrays.
fn without(
    e: &Expr,
    c: &Compute,
    inputs: &[Arc<Buffer>],
    known: &HashSet<VarId>,
    found: &mut Vec<Hoisted>,
    func: &mut Function,
) -> Expr {
    map_expr(e, &mut |x| {
        if !matches!(x.kind(), ExprKind::Math(..)) || x.ty().scalar().is_none() {
            return x;
        }
        let vars = vars_of(&x);
        let mut dims: Vec<Dim> = c.dims.iter().filter(|d| vars.contains(&d.binder.id)).cloned().collect();
        // In the order in which arrays name them: rows stay rows.
        let named: Vec<VarId> =
            loads_of(&x).iter().flat_map(|a| a.indices.iter().filter_map(Expr::as_var)).collect();
        dims.sort_by_key(|d| named.iter().position(|v| *v == d.binder.id));
        let outside = |v: &VarId| known.contains(v) || dims.iter().any(|d| d.binder.id == *v);
        let bounds = dims.iter().flat_map(|d| [&d.lo, &d.hi]);
        // No larger than one of the arrays that it reads.
        let is_small = loads_of(&x).iter().any(|a| a.indices.len() == dims.len());
        let fits = !dims.is_empty()
            && is_small
            && dims.len() < c.dims.len()
            && vars.iter().all(outside)
            && loads_of(&x).iter().all(|a| {
                let hoisted = found.iter().map(|h| &h.buffer).find(|b| a.view == View::Buffer(b.id));
                let input = inputs.iter().find(|b| a.view == View::Buffer(b.id));
                hoisted.or(input).is_some_and(|b| is_all(a, b, &dims))
            })
            && bounds.into_iter().all(|e| vars_of(e).is_subset(known) && loads_of(e).is_empty())
            && c.guard.is_none();
        if !fits {
            return x;
        }
        let same = found.iter().position(|h| {
            let map: HashMap<VarId, Expr> =
                h.dims.iter().zip(&dims).map(|(a, b)| (a.binder.id, var(&b.binder))).collect();
            h.dims.len() == dims.len()
                && h.dims.iter().zip(&dims).all(|(a, b)| super::same_range(a, b))
                && substitute(&h.value, &map) == x
        });
        let n = same.unwrap_or_else(|| {
            let free = dims.iter().map(|d| Dim { combine: Combine::Concat, ..d.clone() }).collect();
            let buffer = Buffer::local(
                func.fresh_buf(),
                format!("{}.once", c.label),
                x.ty().clone(),
                dims.iter().map(extent).collect(),
                Space::Host,
            );
            found.push(Hoisted { dims: free, value: x.clone(), buffer });
            found.len() - 1
        });
        let at = dims.iter().map(|d| sub(var(&d.binder), d.lo.clone())).collect();
        load(Access::buffer(found[n].buffer.id, x.ty().clone(), at))
    })
}
