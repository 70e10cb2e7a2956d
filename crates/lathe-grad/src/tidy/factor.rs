//! `Σ c · v` is `c · Σ v` where `c` is the same for all points, if the sum of `v` is already computed: the cotangent of a
//! log-sum-exp's shift is one.

use super::{Line, free, names_its_points, same_range};
use lathe_ir::build::{load, mul, neg};
use lathe_ir::visit::{substitute, vars_of};
use lathe_ir::{BinOp, Combine, Compute, Dim, Expr, ExprKind, ReduceOp, StmtKind, UnOp, VarId};
use std::collections::{HashMap, HashSet};

pub fn factored(all: &mut [Line]) {
    for n in 0..all.len() {
        if let Some(c) = all[n].compute().and_then(|c| multiple(&all[..n], c))
            && let Line::Do(s) = &all[n]
        {
            all[n] = Line::Do(s.with_kind(StmtKind::Compute(c)));
        }
    }
}

fn sums(c: &Compute) -> Vec<&Dim> {
    c.dims.iter().filter(|d| d.combine == Combine::Reduce(ReduceOp::Sum)).collect()
}

/// A sum as a multiple of an earlier one.
fn multiple(before: &[Line], c: &Compute) -> Option<Compute> {
    let added: HashSet<VarId> = sums(c).iter().map(|d| d.binder.id).collect();
    if added.is_empty()
        || free(c).count() == 0
        || added.len() + free(c).count() != c.dims.len()
        || c.guard.is_some()
        || c.values.len() != 1
    {
        return None;
    }
    let mut factors = Vec::new();
    let negative = product(&c.values[0], &mut factors);
    let (mut inner, outer): (Vec<Expr>, Vec<Expr>) =
        factors.into_iter().partition(|f| !vars_of(f).is_disjoint(&added));
    let v = inner.pop().filter(|_| inner.is_empty())?;
    let found = before.iter().enumerate().rev().find_map(|(m, l)| {
        let sum = l.compute()?;
        let map = same_points(sum, c)?;
        let is_same = substitute(&sum.values[0], &map) == v;
        let stands = || {
            let read = l.touched();
            !before[m + 1..].iter().any(|x| x.written().iter().any(|w| read.contains(w)))
        };
        (is_same && stands()).then(|| {
            let target = &sum.targets[0];
            let indices = target.indices.iter().map(|i| substitute(i, &map)).collect();
            load(lathe_ir::Access { indices, status: lathe_ir::Status::Unproved, ..target.clone() })
        })
    })?;
    let value = outer.into_iter().fold(found, |v, f| mul(f, v));
    let value = if negative { neg(value) } else { value };
    Some(Compute { dims: free(c).cloned().collect(), values: vec![value], ..c.clone() })
}

/// What has more factors is one itself.
const MAX_FACTORS: usize = 64;

/// The factors of a product, and whether it is negated.
fn product(e: &Expr, out: &mut Vec<Expr>) -> bool {
    match e.kind() {
        ExprKind::Binary(BinOp::Mul, a, b) if out.len() < MAX_FACTORS => product(a, out) ^ product(b, out),
        ExprKind::Unary(UnOp::Neg, a) => !product(a, out),
        _ => {
            out.push(e.clone());
            false
        }
    }
}

/// The indices of a sum as those of another one that goes over the same points.
fn same_points(sum: &Compute, c: &Compute) -> Option<HashMap<VarId, Expr>> {
    let (mine, theirs) = (sums(sum), sums(c));
    let (free_of, free_to): (Vec<&Dim>, Vec<&Dim>) = (free(sum).collect(), free(c).collect());
    let fits = sum.update.is_none()
        && sum.guard.is_none()
        && names_its_points(sum)
        && mine.len() == theirs.len()
        && !mine.is_empty()
        && free_of.len() == free_to.len()
        && mine.len() + free_of.len() == sum.dims.len();
    let pairs: Vec<(&Dim, &Dim)> =
        mine.into_iter().zip(theirs).chain(free_of.into_iter().zip(free_to)).collect();
    (fits && pairs.iter().all(|(a, b)| same_range(a, b)))
        .then(|| pairs.into_iter().map(|(a, b)| (a.binder.id, lathe_ir::build::var(&b.binder))).collect())
}
