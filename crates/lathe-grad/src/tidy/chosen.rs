//! Shadows that are zero but for the elements that one statement adds to, of which there are fewer than elements: what is
//! linear in such a shadow visits these elements only. The adjoint of a minimum reads what was chosen, not all of a row.

use super::{Cotangents, Line, is_map, loads_from, names_its_points};
use crate::arrays::{buffers_of, fill};
use lathe_ir::build::index;
use lathe_ir::names::Role;
use lathe_ir::visit::{loads_of, map_expr, refresh, substitute, vars_of};
use lathe_ir::{
    Access, BinOp, BufId, Combine, Compute, Dim, Expr, ExprKind, ReduceOp, Status, Stmt, StmtKind, UnOp,
    VarId,
};
use lathe_poly::Linear;
use std::collections::{HashMap, HashSet};

pub fn visited(all: &mut Vec<Line>, new: Cotangents, next: &mut u32) {
    let mut n = 0;
    while n < all.len() {
        let Some(found) = all[n].compute().and_then(|zero| readers(all, n, zero, new)) else {
            n += 1;
            continue;
        };
        for (reader, made) in found.readers.into_iter().rev() {
            let places = match &all[reader] {
                Line::Do(s) | Line::Open(s) => s.places().clone(),
            };
            let made = made.into_iter().map(|s| Line::Do(refresh(&s, next).with_places(places.clone())));
            all.splice(reader..=reader, made);
        }
        all.remove(found.adds);
        all.remove(n);
    }
}

struct Found {
    /// The line that adds to some elements.
    adds: usize,
    /// Lines that read, and what takes their place.
    readers: Vec<(usize, Vec<Stmt>)>,
}

/// Who reads the shadow that the line at `n` sets to zero, if all of them can do without it.
fn readers(all: &[Line], n: usize, zero: &Compute, new: Cotangents) -> Option<Found> {
    let b = zero.targets.first()?.view.buffer().filter(|b| new.has(*b))?;
    if !is_map(zero) || zero.update.is_some() || !is_zero(&zero.values[0]) || !is_all_of(all, n, zero, b) {
        return None;
    }
    let mut users = (n + 1..all.len()).filter(|m| all[*m].touched().contains(&b));
    let adds = users.next()?;
    let put = Put::of(all[adds].compute()?, zero, b)?;
    let read: HashSet<BufId> = put.reads().collect();
    let mut readers = Vec::new();
    for r in users {
        readers.push((r, put.instead(all[r].compute()?, zero, new)?));
    }
    let last = readers.last()?.0;
    let stands = !all[adds + 1..=last].iter().any(|l| l.written().iter().any(|w| read.contains(w)));
    (stands && !read.contains(&b)).then_some(Found { adds, readers })
}

fn is_zero(e: &Expr) -> bool {
    matches!(e.kind(), ExprKind::Float(v) if v.get() == 0.0)
}

/// Whether a line is the first that touches an array of this block, and writes all of it.
fn is_all_of(all: &[Line], n: usize, c: &Compute, b: BufId) -> bool {
    let opened = all[..n].iter().find_map(|l| match l {
        Line::Open(s) => s.as_alloc().map(|a| a.0).filter(|a| a.id == b),
        Line::Do(_) => None,
    });
    let whole = |extents: &[Expr]| {
        c.targets[0].indices.iter().zip(extents).all(|(i, extent)| {
            let d = c.dims.iter().find(|d| i.as_var() == Some(d.binder.id));
            d.is_some_and(|d| d.lo.as_int() == Some(0) && Linear::of(&d.hi) == Linear::of(extent))
        })
    };
    opened.is_some_and(|o| whole(&o.extents))
        && !all[..n].iter().any(|l| matches!(l, Line::Do(_)) && l.touched().contains(&b))
}

/// `target += value`, for points that have fewer dimensions than the array.
struct Put<'a> {
    compute: &'a Compute,
    target: &'a Access,
    value: Expr,
    of: BufId,
}

impl<'a> Put<'a> {
    fn of(c: &'a Compute, zero: &Compute, b: BufId) -> Option<Put<'a>> {
        let ([target], [value]) = (&c.targets[..], &c.values[..]) else { return None };
        let value = match (&c.update, value.kind()) {
            (Some(ReduceOp::Sum), _) => value.clone(),
            (None, ExprKind::Binary(BinOp::Add, own, v)) if is_load_of(own, target) => v.clone(),
            _ => return None,
        };
        let free = c.dims.iter().all(|d| d.combine == Combine::Concat);
        let fits = target.view == zero.targets[0].view && free && c.dims.len() < zero.dims.len();
        fits.then_some(Put { compute: c, target, value, of: b })
    }

    /// Arrays that are read where it adds.
    fn reads(&self) -> impl Iterator<Item = BufId> {
        let bounds = self.compute.dims.iter().flat_map(|d| [&d.lo, &d.hi]);
        let all = bounds.chain(&self.compute.guard).chain(&self.target.indices).chain([&self.value]);
        all.flat_map(buffers_of).collect::<Vec<_>>().into_iter()
    }

    /// A compute that is linear in the array as a sum over the elements that were added to.
    fn instead(&self, c: &Compute, zero: &Compute, new: Cotangents) -> Option<Vec<Stmt>> {
        let ([to], [value]) = (&c.targets[..], &c.values[..]) else { return None };
        let is_shadow = to.view.buffer().is_some_and(|b| b != self.of && new.has(b));
        let sums =
            c.dims.iter().all(|d| matches!(d.combine, Combine::Concat | Combine::Reduce(ReduceOp::Sum)));
        let plain = c.guard.is_none() && c.update.is_none() && sums && names_its_points(c);
        if !is_shadow || !plain || !linear(value, self.of) {
            return None;
        }
        let loads = loads_from(value, self.of);
        let at = &loads.first()?.indices;
        if loads.iter().any(|a| a.indices != *at) {
            return None;
        }
        // Each subscript is an index of its own, over all elements.
        let mut map: HashMap<VarId, Expr> = HashMap::new();
        for (n, i) in at.iter().enumerate() {
            let d = c.dims.iter().find(|d| i.as_var() == Some(d.binder.id))?;
            let all = zero.targets[0].indices[n].as_var();
            let all = zero.dims.iter().find(|z| Some(z.binder.id) == all)?;
            let first = map.insert(d.binder.id, self.target.indices[n].clone());
            if first.is_some() || !super::same_range(d, all) {
                return None;
            }
        }
        let with = |e: &Expr| {
            let e = map_expr(e, &mut |x| match x.kind() {
                ExprKind::Load(a) if a.view.buffer() == Some(self.of) => self.value.clone(),
                _ => x,
            });
            unproved(&substitute(&e, &map))
        };
        // The value that was added is in terms of other variables, whatever their numbers are.
        let mine: HashSet<VarId> = c.dims.iter().map(|d| d.binder.id).collect();
        if self.compute.dims.iter().any(|d| mine.contains(&d.binder.id)) {
            return None;
        }
        let indices: Vec<Expr> = to.indices.iter().map(with).collect();
        let named: HashSet<VarId> = indices.iter().flat_map(vars_of).collect();
        let rest = c.dims.iter().filter(|d| !map.contains_key(&d.binder.id));
        let dims = self.compute.dims.iter().chain(rest).map(|d| {
            let sum = Combine::Reduce(ReduceOp::Sum);
            let combine = if named.contains(&d.binder.id) { Combine::Concat } else { sum };
            Dim { combine, ..d.clone() }
        });
        let target = Access { indices, status: Status::Unproved, ..to.clone() };
        let free = c.dims.iter().filter(|d| d.combine == Combine::Concat).cloned().collect();
        let nothing = lathe_ir::build::cast(to.elem.clone(), index(0));
        let sum = Compute {
            label: c.label.clone(),
            dims: dims.collect(),
            targets: vec![target],
            values: vec![with(value)],
            guard: self.compute.guard.clone(),
            update: Some(ReduceOp::Sum),
        };
        let zero = fill(Role::Init.of(&c.label), free, to.clone(), nothing);
        Some(vec![zero, Stmt::of(StmtKind::Compute(sum))])
    }
}

fn is_load_of(e: &Expr, target: &Access) -> bool {
    matches!(e.kind(), ExprKind::Load(a) if a.view == target.view && a.indices == target.indices)
}

/// Elements that are read at other subscripts than before.
fn unproved(e: &Expr) -> Expr {
    map_expr(e, &mut |x| match x.kind() {
        ExprKind::Load(a) => lathe_ir::build::load(Access { status: Status::Unproved, ..a.clone() }),
        _ => x,
    })
}

/// Whether a value is a sum of multiples of elements of an array.
fn linear(e: &Expr, b: BufId) -> bool {
    let reads = |e: &Expr| loads_of(e).iter().any(|a| a.view.buffer() == Some(b));
    match e.kind() {
        ExprKind::Load(a) => a.view.buffer() == Some(b) && !a.indices.iter().any(reads),
        ExprKind::Unary(UnOp::Neg, x) => linear(x, b),
        ExprKind::Binary(BinOp::Add | BinOp::Sub, x, y) => linear(x, b) && linear(y, b),
        ExprKind::Binary(BinOp::Mul, x, y) => linear(x, b) && !reads(y) || linear(y, b) && !reads(x),
        ExprKind::Binary(BinOp::Div, x, y) => linear(x, b) && !reads(y),
        _ => false,
    }
}
