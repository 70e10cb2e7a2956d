//! Zeros that nobody reads. Where a loop begins after the first element (`for i in 1..N`), the cotangent of what it stored
//! is zero from there on, for whatever came before; where all of that was the first element alone, nothing reads the zeros, but
//! they would stand between maps that add to the same elements.

use super::Line;
use super::apart::apart;
use super::merge::centred;
use lathe_ir::{BufId, Compute, Expr, ExprKind, Stmt};
use std::collections::HashSet;

pub fn removed(all: &mut Vec<Line>) {
    // Their scope ends with these lines.
    let local: HashSet<BufId> = all
        .iter()
        .filter_map(|l| match l {
            Line::Open(s) => s.as_alloc().map(|a| a.0.id),
            Line::Do(_) => None,
        })
        .collect();
    for n in (0..all.len()).rev() {
        let dead = match &all[n] {
            Line::Do(s) => match s.as_compute() {
                Some(c) => is_dead(c, &all[n + 1..], &local),
                None => is_dead_store(s, &all[n + 1..], &local),
            },
            Line::Open(_) => false,
        };
        if dead {
            all.remove(n);
        }
    }
}

/// Whether a constant goes to an element of a local array that no later line touches.
fn is_dead_store(s: &Stmt, later: &[Line], local: &HashSet<BufId>) -> bool {
    let Some(st) = s.as_store() else { return false };
    let b = st.target.view.buffer().filter(|b| local.contains(b));
    is_constant(&st.value) && b.is_some_and(|b| later.iter().all(|l| !l.touched().contains(&b)))
}

fn is_constant(e: &Expr) -> bool {
    matches!(e.kind(), ExprKind::Float(_) | ExprKind::Int(_))
}

/// Whether a map gives constants to elements of a local array, none of which a later line touches.
fn is_dead(c: &Compute, later: &[Line], local: &HashSet<BufId>) -> bool {
    let b = c.targets.first().and_then(|t| t.view.buffer()).filter(|b| local.contains(b));
    let (Some(b), Some(c)) = (b, centred(c)) else { return false };
    is_constant(&c.values[0]) && c.update.is_none() && later.iter().all(|l| apart(l, b, &c))
}
