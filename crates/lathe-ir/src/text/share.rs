//! Which subexpressions of a statement are written once, before it.

use crate::expr::{Expr, ExprKind};
use std::collections::HashMap;

/// Smaller shared expressions are repeated: `8 * i.o + i.i` reads better where it is used.
const MIN_SIZE: u64 = 12;
/// Nodes of this height are bound as well, so that no text nests deeper than the parser allows.
const MAX_HEIGHT: u32 = 64;

/// The nodes to bind, each after those that it uses.
pub(crate) fn shared(roots: &[&Expr]) -> Vec<Expr> {
    let mut walk = Walk::default();
    for r in roots {
        walk.count(r);
    }
    let mut out = Vec::new();
    for r in roots {
        walk.select(r, &mut out);
    }
    out
}

#[derive(Default)]
struct Walk {
    uses: HashMap<usize, u32>,
    /// Size as a tree (saturating), and height above the nearest bound nodes.
    done: HashMap<usize, (u64, u32)>,
}

impl Walk {
    fn count(&mut self, e: &Expr) {
        let n = self.uses.entry(e.address()).or_insert(0);
        *n += 1;
        if *n == 1 {
            for c in e.children() {
                self.count(c);
            }
        }
    }

    fn select(&mut self, e: &Expr, out: &mut Vec<Expr>) -> (u64, u32) {
        if let Some(d) = self.done.get(&e.address()) {
            return *d;
        }
        let (mut size, mut height) = (1u64, 0u32);
        for c in e.children() {
            let (s, h) = self.select(c, out);
            size = size.saturating_add(s);
            height = height.max(h + 1);
        }
        let leaf =
            matches!(e.kind(), ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_));
        let often = self.uses.get(&e.address()).is_some_and(|n| *n > 1) && size >= MIN_SIZE;
        if !leaf && (often || height >= MAX_HEIGHT) {
            out.push(e.clone());
            height = 0;
        }
        self.done.insert(e.address(), (size, height));
        (size, height)
    }
}
