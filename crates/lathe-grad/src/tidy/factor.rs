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
    let (found, ()) = known(before, c, |value| (*value == v).then_some(()))?;
    let value = outer.into_iter().fold(found, |v, f| mul(f, v));
    let value = if negative { neg(value) } else { value };
    Some(Compute { dims: free(c).cloned().collect(), values: vec![value], ..c.clone() })
}

/// An earlier sum over the points of `c`, each of whose free indices is one of `c`'s, of values that are what is looked for: the
/// element that holds it, and what was said of the values.
pub fn known<T>(before: &[Line], c: &Compute, what: impl Fn(&Expr) -> Option<T>) -> Option<(Expr, T)> {
    before.iter().enumerate().rev().find_map(|(m, l)| {
        let sum = l.compute()?;
        let said = |map| what(&substitute(&sum.values[0], &map)).map(|said| (map, said));
        let (map, said) = same_points(sum, c).into_iter().find_map(said)?;
        let target = &sum.targets[0];
        let read = l.touched();
        if before[m + 1..].iter().any(|x| x.written().iter().any(|w| read.contains(w))) {
            return None;
        }
        let indices = target.indices.iter().map(|i| substitute(i, &map)).collect();
        let sum = load(lathe_ir::Access { indices, status: lathe_ir::Status::Unproved, ..target.clone() });
        Some((sum, said))
    })
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

/// The indices of a sum as those of another one that goes over the same points for each of its elements, in all ways.
fn same_points(sum: &Compute, c: &Compute) -> Vec<HashMap<VarId, Expr>> {
    let (mine, theirs) = (sums(sum), sums(c));
    let (free_of, free_to): (Vec<&Dim>, Vec<&Dim>) = (free(sum).collect(), free(c).collect());
    let fits = sum.update.is_none()
        && sum.guard.is_none()
        && names_its_points(sum)
        && sum.targets[0].elem == *sum.values[0].ty()
        && mine.len() == theirs.len()
        && !mine.is_empty()
        && free_of.len() <= free_to.len()
        && free_of.len() <= MAX_FREE
        && mine.len() + free_of.len() == sum.dims.len()
        && mine.iter().zip(&theirs).all(|(a, b)| same_range(a, b));
    if !fits {
        return Vec::new();
    }
    let is = |(a, b): (&Dim, &Dim)| (a.binder.id, lathe_ir::build::var(&b.binder));
    let mut all = vec![(mine.into_iter().zip(theirs).map(is).collect::<HashMap<_, _>>(), free_to)];
    for a in free_of {
        let mut next = Vec::new();
        for (map, left) in &all {
            for (n, b) in left.iter().enumerate().filter(|(_, b)| same_range(a, b)) {
                let (mut map, mut left) = (map.clone(), left.clone());
                map.extend([is((a, b))]);
                left.remove(n);
                next.push((map, left));
            }
        }
        all = next;
    }
    all.into_iter().map(|(map, _)| map).collect()
}

/// With more free indices, there are too many ways to compare.
const MAX_FREE: usize = 4;
