//! Which subexpressions of a statement are written once, before it.

use crate::expr::{Expr, ExprKind};
use std::collections::HashMap;

/// Smaller shared expressions are repeated: `8 * i.o + i.i` reads better where it is used.
const MIN_SIZE: u64 = 12;
/// Nodes of this height are bound as well, so that no text nests deeper than the parser allows.
const MAX_HEIGHT: u32 = 64;

/// Equal nodes of this size are one, though they were made apart: what is long is not printed twice.
const LARGE: u64 = 64;

/// The nodes to bind, each after those that it uses, and with the addresses of all nodes that it stands for.
pub(crate) fn shared(roots: &[&Expr]) -> Vec<(Expr, Vec<usize>)> {
    let mut walk = Walk::default();
    for r in roots {
        walk.count(r);
    }
    let mut out = Vec::new();
    for r in roots {
        walk.select(r, &mut out);
    }
    let mut twins: HashMap<usize, Vec<usize>> = HashMap::new();
    walk.first.iter().for_each(|(of, first)| twins.entry(*first).or_default().push(*of));
    let with_twins = |e: Expr| {
        let mut addresses = twins.remove(&e.address()).unwrap_or_default();
        addresses.push(e.address());
        (e, addresses)
    };
    out.into_iter().map(with_twins).collect()
}

#[derive(Default)]
struct Walk {
    uses: HashMap<usize, u32>,
    /// The size of a node as a tree, saturating.
    size: HashMap<usize, u64>,
    large: HashMap<Expr, usize>,
    /// The node that was met first, of those that are equal and large.
    first: HashMap<usize, usize>,
    /// Size as a tree (saturating), and height above the nearest bound nodes.
    done: HashMap<usize, (u64, u32)>,
}

impl Walk {
    fn size(&mut self, e: &Expr) -> u64 {
        if let Some(n) = self.size.get(&e.address()) {
            return *n;
        }
        let n = e.children().into_iter().fold(1u64, |n, c| n.saturating_add(self.size(c)));
        self.size.insert(e.address(), n);
        n
    }

    fn key(&self, e: &Expr) -> usize {
        self.first.get(&e.address()).copied().unwrap_or_else(|| e.address())
    }

    fn count(&mut self, e: &Expr) {
        if self.size(e) >= LARGE {
            let first = *self.large.entry(e.clone()).or_insert_with(|| e.address());
            if first != e.address() {
                self.first.insert(e.address(), first);
            }
        }
        let n = self.uses.entry(self.key(e)).or_insert(0);
        *n += 1;
        if *n == 1 {
            for c in e.children() {
                self.count(c);
            }
        }
    }

    fn select(&mut self, e: &Expr, out: &mut Vec<Expr>) -> (u64, u32) {
        let key = self.key(e);
        if let Some(d) = self.done.get(&key) {
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
        let often = self.uses.get(&key).is_some_and(|n| *n > 1) && size >= MIN_SIZE;
        if !leaf && (often || height >= MAX_HEIGHT) {
            out.push(e.clone());
            height = 0;
        }
        self.done.insert(key, (size, height));
        (size, height)
    }
}
