//! How large statements are.

use super::Stmt;
use crate::expr::Expr;
use rustc_hash::FxHashSet;

pub(super) fn nodes(s: &Stmt) -> u64 {
    let mut seen = FxHashSet::default();
    s.exprs().into_iter().for_each(|e| add(e, &mut seen));
    let own = 1 + seen.len() as u64;
    s.children().fold(own, |n, c| n.saturating_add(c.nodes()))
}

fn add(e: &Expr, seen: &mut FxHashSet<Expr>) {
    if seen.insert(e.clone()) {
        e.children().into_iter().for_each(|c| add(c, seen));
    }
}
