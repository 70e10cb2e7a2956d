//! What a sum adds up and a map computes anyway, the map computes first, and the sum reads it: one array in the place of
//! several.

use super::outside::Term;
use super::share::among;
use super::{Cotangents, Line, is_map};
use crate::arrays::buffers_of;
use lathe_ir::build::load;
use lathe_ir::visit::{loads_of, substitute, vars_of, walk_expr};
use lathe_ir::{
    Access, BufId, Combine, Compute, ExprKind, Function, ReduceOp, Scalar, Status, StmtKind, VarId,
};
use std::collections::HashSet;

pub(super) fn read(all: &mut [Line], new: Cotangents, func: &Function) {
    if func.params.iter().any(|p| p.alias.is_some()) {
        return;
    }
    let mut n = 0;
    while n < all.len() {
        if let Some((m, sum)) = found(all, n, new) {
            if let Line::Do(s) = &all[n] {
                all[n] = Line::Do(s.with_kind(StmtKind::Compute(sum)));
            }
            if m > n {
                n += moved(all, m, n);
            }
        }
        n += 1;
    }
}

/// A map that holds what the sum in line `n` adds up, or factors of it, and the sum as it reads that.
fn found(all: &[Line], n: usize, new: Cotangents) -> Option<(usize, Compute)> {
    let c = all[n].compute().filter(|c| is_sum(c, new))?;
    let own = Term::of(&c.values[0], 1.0);
    let near = (n + 1..all.len()).chain((0..n).rev());
    near.filter_map(|m| Some((m, all[m].compute()?))).find_map(|(m, o)| {
        if !holds(o) || (if m > n { !goes_before(all, n, m, o) } else { !stands(all, m, n, o) }) {
            return None;
        }
        among(&o.dims, &c.dims).into_iter().find_map(|map| {
            let held = Term::of(&substitute(&o.values[0], &map), 1.0);
            let indices = o.targets[0].indices.iter().map(|i| substitute(i, &map)).collect();
            let target = Access { indices, status: Status::Unproved, ..o.targets[0].clone() };
            let value = own.clone().divided_by(&held)?.times(load(target)).value(&c.values[0])?;
            Some((m, Compute { values: vec![value], ..c.clone() }))
        })
    })
}

/// A sum of floats into a cotangent.
fn is_sum(c: &Compute, new: Cotangents) -> bool {
    let sums = |d: &lathe_ir::Dim| d.combine == Combine::Reduce(ReduceOp::Sum);
    let ([target], [value]) = (&c.targets[..], &c.values[..]) else { return false };
    target.view.buffer().is_some_and(|b| new.has(b))
        && matches!(value.ty().scalar(), Some(Scalar::F32 | Scalar::F64))
        && c.guard.is_none()
        && c.dims.iter().any(sums)
        && c.dims.iter().all(|d| sums(d) || d.combine == Combine::Concat)
}

/// Whether a map's value reads several elements, none of its own.
fn holds(o: &Compute) -> bool {
    let [value] = &o.values[..] else { return false };
    let mut calls = false;
    walk_expr(value, &mut |x| calls |= matches!(x.kind(), ExprKind::Call(..)));
    let target = o.targets.first().and_then(|t| t.view.buffer());
    is_map(o)
        && o.update.is_none()
        && o.targets[0].elem == *value.ty()
        && !calls
        && loads_of(value).len() > 1
        && !buffers_of(value).any(|b| Some(b) == target)
}

fn reads(o: &Compute) -> HashSet<BufId> {
    o.values.iter().flat_map(buffers_of).collect()
}

/// Whether the map in line `m`, and what it read, are the same before line `n`.
fn stands(all: &[Line], m: usize, n: usize, o: &Compute) -> bool {
    let mut needed = reads(o);
    needed.extend(o.targets[0].view.buffer());
    all[m + 1..n].iter().all(|l| l.written().is_disjoint(&needed))
}

/// Whether the map in line `m` may run before the lines from `n` on.
fn goes_before(all: &[Line], n: usize, m: usize, o: &Compute) -> bool {
    let Some(target) = o.targets[0].view.buffer() else { return false };
    let read = reads(o);
    let around = o.dims.iter().flat_map(|d| [&d.lo, &d.hi]);
    let mentioned: HashSet<VarId> = around.chain(&o.values).flat_map(vars_of).collect();
    all[n..m].iter().all(|l| match l {
        Line::Do(s) => {
            s.as_compute().is_some() && l.written().is_disjoint(&read) && !l.touched().contains(&target)
        }
        Line::Open(s) => match (s.as_let(), s.as_alloc()) {
            (Some((binder, value, _)), _) => {
                !mentioned.contains(&binder.id) && !buffers_of(value).any(|b| b == target)
            }
            (_, Some((buffer, _))) => !read.contains(&buffer.id),
            _ => false,
        },
    })
}

/// Moves a map, and the array that it writes if that is made on the way, in front of line `n`: how many lines that are.
fn moved(all: &mut [Line], m: usize, n: usize) -> usize {
    let target = all[m].compute().and_then(|o| o.targets[0].view.buffer());
    let made = (n..m)
        .find(|k| matches!(&all[*k], Line::Open(s) if s.as_alloc().is_some_and(|a| Some(a.0.id) == target)));
    all[n..=m].rotate_right(1);
    let Some(k) = made else { return 1 };
    // It is one line further behind now.
    all[n..=k + 1].rotate_right(1);
    2
}
