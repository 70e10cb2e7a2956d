//! What a local array holds only to be copied into another one is written there at once.

use super::{Line, is_map};
use crate::checkpoint::renamed;
use lathe_ir::{BufId, Buffer, Compute, Expr, ExprKind, Param, View};
use lathe_poly::Linear;
use std::collections::HashSet;
use std::sync::Arc;

/// `arrays`: those that are not of this block, as far as they are known.
pub fn written(all: &mut Vec<Line>, arrays: &[Arc<Buffer>]) {
    let mut touched: Vec<HashSet<BufId>> = all.iter().map(Line::touched).collect();
    let mut n = 0;
    while n < all.len() {
        let Some((from, to)) = all[n].compute().and_then(|c| copy(all, &touched, arrays, n, c)) else {
            n += 1;
            continue;
        };
        for m in 0..n {
            if let Line::Do(s) = &all[m]
                && touched[m].contains(&from)
            {
                all[m] = Line::Do(renamed(s, &[(from, to)].into()));
                touched[m] = all[m].touched();
            }
        }
        all.remove(n);
        touched.remove(n);
    }
}

/// From where to where the line at `n` copies all of an array of this block, if nothing else reads that array behind it, and
/// nothing touches the other one since it began to be written.
fn copy(
    all: &[Line],
    touched: &[HashSet<BufId>],
    arrays: &[Arc<Buffer>],
    n: usize,
    c: &Compute,
) -> Option<(BufId, BufId)> {
    let ([target], [value]) = (&c.targets[..], &c.values[..]) else { return None };
    let ExprKind::Load(read) = value.kind() else { return None };
    let (View::Buffer(to), View::Buffer(from)) = (&target.view, &read.view) else { return None };
    if !is_map(c) || c.update.is_some() || read.indices != target.indices || to == from {
        return None;
    }
    let opened = |b: &BufId| {
        all[..n].iter().enumerate().find_map(|(m, l)| match l {
            Line::Open(s) => s.as_alloc().map(|a| a.0).filter(|a| a.id == *b).map(|a| (m, a)),
            Line::Do(_) => None,
        })
    };
    let (_, local) = opened(from)?;
    let (begin, other) = match opened(to) {
        Some((m, b)) => (m, b),
        None => (0, arrays.iter().find(|b| b.id == *to)?),
    };
    let same = |a: &[Expr], b: &[Expr]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Linear::of(a) == Linear::of(b))
    };
    let whole = target.indices.iter().zip(&local.extents).all(|(i, extent)| {
        let d = c.dims.iter().find(|d| i.as_var() == Some(d.binder.id));
        d.is_some_and(|d| d.lo.as_int() == Some(0) && Linear::of(&d.hi) == Linear::of(extent))
    });
    let alike =
        local.elem == other.elem && local.space == other.space && same(&local.extents, &other.extents);
    let first = (0..n).find(|m| matches!(all[*m], Line::Do(_)) && touched[*m].contains(from))?;
    let alone = !touched[n + 1..].iter().any(|t| t.contains(from))
        && !touched[first..n].iter().any(|t| t.contains(to))
        && !all.iter().zip(touched).any(|(l, t)| matches!(l, Line::Open(_)) && t.contains(from));
    // Whatever is computed of it must be all that the other one gets: what is not a compute may leave elements as they are.
    let computes = all[first..n].iter().zip(&touched[first..n]).filter(|x| x.1.contains(from));
    let known = computes.into_iter().all(|x| x.0.compute().is_some());
    (whole && alike && alone && known && begin <= first).then_some((*from, *to))
}

/// The arrays that a function is given.
pub fn given(params: &[Param]) -> Vec<Arc<Buffer>> {
    params.iter().filter_map(|p| p.array().cloned()).collect()
}
