//! Copies of arrays are read where they came from, and cheap maps are computed by the one map that reads them.

use super::{Line, is_map};
use lathe_ir::visit::{loads_of, map_expr, map_exprs, substitute, walk_expr};
use lathe_ir::{BinOp, BufId, Combine, Compute, Expr, ExprKind, Stmt, UnOp, VarId};
use std::collections::{HashMap, HashSet};

pub fn inlined(all: &mut Vec<Line>) {
    let mut touched: Vec<HashSet<BufId>> = all.iter().map(Line::touched).collect();
    let mut n = 0;
    while n < all.len() {
        match all[n].compute().and_then(|c| readers(all, &touched, n, c).map(|r| (r, c.clone()))) {
            Some((readers, c)) => {
                for r in readers {
                    if let Line::Do(s) = &all[r] {
                        all[r] = Line::Do(replaced(s, &c));
                        touched[r] = all[r].touched();
                    }
                }
                all.remove(n);
                touched.remove(n);
            }
            None => n += 1,
        }
    }
}

/// The lines that read what a map writes, if they can read what it is made of instead.
fn readers(all: &[Line], touched: &[HashSet<BufId>], n: usize, c: &Compute) -> Option<Vec<usize>> {
    let b = c.targets.first()?.view.buffer()?;
    // What is allocated here is used by lines of this block only.
    let is_local =
        all[..n].iter().any(|l| matches!(l, Line::Open(s) if s.as_alloc().is_some_and(|a| a.0.id == b)));
    if !is_local
        || !is_map(c)
        || c.update.is_some()
        || (0..n).any(|m| matches!(all[m], Line::Do(_)) && touched[m].contains(&b))
    {
        return None;
    }
    let found: Vec<usize> = (n + 1..all.len()).filter(|m| touched[*m].contains(&b)).collect();
    let last = *found.last()?;
    // Every one is a compute of this block, which writes other arrays.
    let fits = found.iter().all(|m| {
        all[*m].compute().is_some_and(|r| {
            let around = r.dims.iter().flat_map(|d| [&d.lo, &d.hi]).chain(&r.guard);
            let around = around.chain(r.targets.iter().flat_map(|t| &t.indices));
            !all[*m].written().contains(&b) && !around.flat_map(loads_of).any(|a| a.view.buffer() == Some(b))
        })
    });
    let read: Vec<BufId> = loads_of(&c.values[0]).iter().filter_map(|a| a.view.buffer()).collect();
    let stands = !all[n + 1..=last].iter().any(|l| l.written().iter().any(|w| read.contains(w)));
    let (copy, cheap) = cost(&c.values[0]);
    let one = found.len() == 1
        && all[found[0]].compute().is_some_and(|r| r.dims.iter().all(|d| d.combine == Combine::Concat));
    (fits && stands && (copy || cheap && one)).then_some(found)
}

/// Whether a value is that of one element, and whether it is but a few sums and products of elements.
fn cost(e: &Expr) -> (bool, bool) {
    let (mut loads, mut ops, mut other) = (0, 0, false);
    walk_expr(e, &mut |x| match x.kind() {
        ExprKind::Load(_) => loads += 1,
        ExprKind::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul, ..) => ops += usize::from(x.ty().is_float()),
        ExprKind::Unary(UnOp::Neg, _) | ExprKind::Float(_) | ExprKind::Int(_) | ExprKind::Var(_) => {}
        _ => other = true,
    });
    (loads <= 1 && ops == 0 && !other, loads <= 3 && ops <= 3 && !other)
}

fn replaced(s: &Stmt, c: &Compute) -> Stmt {
    let b = c.targets[0].view.buffer();
    map_exprs(s, &mut |e| {
        map_expr(e, &mut |x| match x.kind() {
            ExprKind::Load(a) if a.view.buffer() == b => {
                let at = c.targets[0].indices.iter().zip(&a.indices);
                let map: HashMap<VarId, Expr> =
                    at.filter_map(|(v, e)| Some((v.as_var()?, e.clone()))).collect();
                substitute(&c.values[0], &map)
            }
            _ => x,
        })
    })
}
