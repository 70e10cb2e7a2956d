//! Sums over all points at which an element is read: a gather where the subscripts can be solved for the indices, else
//! a scatter.

use lathe_ir::build::{and, eq, floor_div, floor_mod, index, le, lt, select, sub, var};
use lathe_ir::visit::{substitute, vars_of};
use lathe_ir::{Access, Combine, Compute, Dim, Expr, Function, Label, ReduceOp, Scalar, Status, VarId, View};
use lathe_poly::Linear;
use std::collections::{HashMap, HashSet};

/// `target += value` for all points of some dimensions where `cond` holds.
pub struct Term<'a> {
    pub dims: &'a [Dim],
    pub target: Access,
    pub value: Expr,
    pub cond: Option<Expr>,
}

/// The statement for a term. `extents` are those of the target; if `whole`, all of it is gone over where a part would
/// do, so that the statement covers it.
pub fn added(func: &mut Function, label: Label, t: Term, extents: &[Expr], whole: bool) -> Compute {
    gathered(func, &label, &t, extents, whole).unwrap_or_else(|| scattered(label, t))
}

fn mentions(e: &Expr, vars: &HashSet<VarId>) -> bool {
    vars_of(e).iter().any(|v| vars.contains(v))
}

fn gathered(func: &mut Function, label: &Label, t: &Term, extents: &[Expr], whole: bool) -> Option<Compute> {
    if !matches!(t.target.view, View::Buffer(_)) {
        return None;
    }
    let all: HashSet<VarId> = t.dims.iter().map(|d| d.binder.id).collect();
    let forms: Vec<Linear> = t.target.indices.iter().map(Linear::of).collect();
    // Dimensions may occur as such only.
    let plain = |f: &Linear| f.terms.iter().all(|(e, _)| e.as_var().is_some() || !mentions(e, &all));
    if !forms.iter().all(plain) {
        return None;
    }
    let own = |f: &Linear| -> Vec<(VarId, i64)> {
        f.terms.iter().filter_map(|(e, k)| Some((e.as_var()?, *k))).filter(|(v, _)| all.contains(v)).collect()
    };
    // Where the condition does not hold, the element need not exist: every subscript must range over elements.
    if t.cond.is_some() && forms.iter().any(|f| own(f).is_empty()) {
        return None;
    }
    // Indices that a subscript is, give or take a constant, are kept.
    let mut kept: Vec<VarId> = Vec::new();
    let mut solved: Vec<Option<usize>> = vec![None; forms.len()];
    for f in &forms {
        if let [(v, 1)] = own(f)[..]
            && t.cond.is_none()
            && !kept.contains(&v)
        {
            kept.push(v);
        }
    }
    // Of each other subscript one index becomes what the element says: a free one rather than one that is added over,
    // one that occurs as it is rather than a multiple.
    let mut gone: Vec<VarId> = Vec::new();
    for (n, f) in forms.iter().enumerate() {
        let mine = own(f);
        if mine.is_empty() || mine.iter().all(|(v, _)| kept.contains(v)) {
            continue;
        }
        let candidates = mine.iter().filter(|(v, _)| !kept.contains(v) && !gone.contains(v));
        let rank = |(v, k): &&(VarId, i64)| {
            let free = t.dims.iter().any(|d| d.binder.id == *v && d.combine == Combine::Concat);
            (!free, k.unsigned_abs())
        };
        let (v, _) = candidates.min_by_key(rank)?;
        gone.push(*v);
        solved[n] = t.dims.iter().position(|d| d.binder.id == *v);
    }
    let mut map: HashMap<VarId, Expr> = HashMap::new();
    let mut conds: Vec<Expr> = Vec::new();
    let mut fresh: Vec<Option<Dim>> = vec![None; forms.len()];
    let mut target = t.target.clone();
    for (n, d) in solved.iter().enumerate().filter_map(|(n, d)| Some((n, &t.dims[(*d)?]))) {
        let (f, v) = (&forms[n], d.binder.id);
        // What it is solved for must not be solved for itself.
        if own(f).iter().any(|(o, _)| *o != v && gone.contains(o)) {
            return None;
        }
        let (lo, hi) = if whole || t.cond.is_some() {
            (index(0), extents.get(n)?.clone())
        } else {
            span(f, t.dims, &all)?
        };
        let p = func.fresh_var(&*d.binder.name, Scalar::Index);
        let k = f.factor(v);
        let rest = f.clone().without(&var(&d.binder)).to_expr();
        let (top, k) = if k > 0 { (sub(var(&p), rest), k) } else { (sub(rest, var(&p)), k.checked_neg()?) };
        let value = floor_div(top.clone(), index(k));
        if k > 1 {
            conds.push(eq(floor_mod(top, index(k)), index(0)));
        }
        conds.push(le(d.lo.clone(), value.clone()));
        conds.push(lt(value.clone(), d.hi.clone()));
        map.insert(v, value);
        target.indices[n] = var(&p);
        fresh[n] = Some(Dim { binder: p, lo, hi, combine: Combine::Concat });
    }
    let with = |e: &Expr| substitute(e, &map);
    // Free indices in the order of the subscripts, then those that are added over.
    let mut free: Vec<Dim> = Vec::new();
    for (n, f) in forms.iter().enumerate() {
        if let Some(d) = &fresh[n] {
            free.push(d.clone());
            continue;
        }
        for (v, _) in own(f) {
            if let Some(d) = t.dims.iter().find(|d| d.binder.id == v)
                && !free.iter().any(|o| o.binder == d.binder)
            {
                free.push(Dim { combine: Combine::Concat, ..d.clone() });
            }
        }
    }
    let added = t.dims.iter().filter(|d| !kept.contains(&d.binder.id) && !gone.contains(&d.binder.id));
    let added: Vec<Dim> = added
        .map(|d| Dim {
            combine: Combine::Reduce(ReduceOp::Sum),
            lo: with(&d.lo),
            hi: with(&d.hi),
            ..d.clone()
        })
        .collect();
    let sums: HashSet<VarId> = added.iter().map(|d| d.binder.id).chain(gone.iter().copied()).collect();
    if free.iter().any(|d| mentions(&d.lo, &sums) || mentions(&d.hi, &sums)) {
        return None;
    }
    let cond = t.cond.as_ref().map(with);
    let inside = conds.iter().map(with).reduce(and);
    let cond = match (inside, cond) {
        // What it reads is there only inside.
        (Some(a), Some(b)) => Some(select(a, b, lathe_ir::build::boolean(false))),
        (a, b) => a.or(b),
    };
    let value = with(&t.value);
    let value = match cond {
        Some(c) => select(c, value.clone(), crate::expr::zero(value.ty())),
        None => value,
    };
    target.status = Status::Unproved;
    Some(Compute {
        label: label.clone(),
        dims: free.into_iter().chain(added).collect(),
        targets: vec![target],
        values: vec![value],
        guard: None,
        update: Some(ReduceOp::Sum),
    })
}

/// The smallest value of a subscript and one more than the largest; `None` if ranges depend on one another.
fn span(f: &Linear, dims: &[Dim], all: &HashSet<VarId>) -> Option<(Expr, Expr)> {
    let (mut lo, mut hi) = (f.clone(), f.clone());
    for d in dims {
        let k = f.factor(d.binder.id);
        if k == 0 {
            continue;
        }
        if mentions(&d.lo, all) || mentions(&d.hi, all) {
            return None;
        }
        let (first, last) = (Linear::of(&d.lo), Linear::of(&sub(d.hi.clone(), index(1))));
        let (down, up) = if k > 0 { (first, last) } else { (last, first) };
        let atom = var(&d.binder);
        lo = lo.without(&atom).plus(&down, k)?;
        hi = hi.without(&atom).plus(&up, k)?;
    }
    Some((lo.to_expr(), hi.offset(1)?.to_expr()))
}

/// One point after the other adds to the element that it read.
fn scattered(label: Label, t: Term) -> Compute {
    // Indices of the target, and what their ranges depend on, are free.
    let mut free: HashSet<VarId> = t.target.exprs().into_iter().flat_map(vars_of).collect();
    for d in t.dims.iter().rev() {
        if free.contains(&d.binder.id) {
            free.extend([&d.lo, &d.hi].into_iter().flat_map(vars_of));
        }
    }
    let dims = t.dims.iter().map(|d| {
        let combine =
            if free.contains(&d.binder.id) { Combine::Concat } else { Combine::Reduce(ReduceOp::Sum) };
        Dim { combine, ..d.clone() }
    });
    let dims: Vec<Dim> = dims.collect();
    Compute {
        label,
        dims,
        targets: vec![t.target],
        values: vec![t.value],
        guard: t.cond,
        update: Some(ReduceOp::Sum),
    }
}
