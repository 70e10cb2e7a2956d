//! What lives across the barriers of a block: of the values, which are kept and which are computed again.
//!
//! Keeping a value costs a store and a load of its bytes; computing it again costs loading what it loads, which only
//! arrays that nothing writes can give again. Arithmetic is for nothing. So what is kept is a minimum cut, with bytes as weights, between what cannot be
//! computed again, or would have to be loaded, and what is named behind a barrier.

use super::waits;
use lathe_graph::Network;
use lathe_ir::build::divides;
use lathe_ir::stmt::block::Item;
use lathe_ir::visit::{loads_of, vars_of, walk, walk_expr};
use lathe_ir::{BufId, Expr, ExprKind, Function, Mode, Stmt, StmtKind, VarId};
use std::collections::HashSet;

/// Parameters that nothing writes.
pub fn never_written(func: &Function) -> HashSet<BufId> {
    let read = func.params.iter().filter(|p| p.mode == Mode::In && p.alias.is_none());
    let mut steady: HashSet<BufId> = read.filter_map(|p| p.array()).map(|b| b.id).collect();
    walk(&func.body, &mut |s, _| {
        for (t, mode) in s.touches() {
            if mode.writes()
                && let Some(b) = t.buffer()
            {
                steady.remove(&b);
            }
        }
        true
    });
    steady
}

/// Whether calls may end within a statement: what is behind the check may not be evaluated before.
pub fn has_checks(s: &Stmt) -> bool {
    matches!(s.kind(), StmtKind::Check { .. }) || s.children().any(has_checks)
}

/// How an entry of a block lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lives {
    /// In one phase.
    Within,
    /// A value that each phase computes which names it.
    Again,
    /// A value that is kept for later phases.
    Kept,
    /// A barrier, and what is the same for all iterations or is an array, and lives across one: phases end there.
    Ends,
}

/// One block of a loop.
pub struct Across<'a> {
    pub of: VarId,
    /// Whether all iterations find one value.
    pub uniform: &'a dyn Fn(&Expr) -> bool,
    /// Whether an array holds the same all the time.
    pub steady: &'a dyn Fn(BufId) -> bool,
    /// Whether a value is rather divided again than kept: where that is memory which all blocks see.
    pub divisions: bool,
    /// Checks guard what may be evaluated.
    pub checks: bool,
}

impl Across<'_> {
    /// How each entry lives.
    pub fn of(&self, items: &[Item]) -> Vec<Lives> {
        let mut ends: Vec<bool> =
            items.iter().map(|i| matches!(i, Item::Do(s) if waits(s, self.of))).collect();
        let mut lives = vec![Lives::Within; items.len()];
        let Some(last) = ends.iter().rposition(|e| *e) else { return lives };
        let named: Vec<Named> = items.iter().map(Named::of).collect();
        let alike = self.alike(items);
        let (kept, again) = loop {
            // Named behind an end of phases that follows it.
            let crosses: Vec<bool> = (0..items.len())
                .map(|k| {
                    let Some(next) = (k + 1..=last).find(|n| ends[*n]) else { return false };
                    let behind = |is: &dyn Fn(&Named) -> bool| named[next..].iter().any(is);
                    match &items[k] {
                        Item::Let(binder, ..) => behind(&|n| n.vars.contains(&binder.id)),
                        Item::Alloc(buffer, _) => behind(&|n| n.bufs.contains(&buffer.id)),
                        Item::Do(_) => false,
                    }
                })
                .collect();
            let kept = self.kept(items, &named, &crosses, &alike);
            let again = again(items, &named, &crosses, &alike, &kept);
            let more: Vec<usize> = (0..items.len())
                .filter(|k| !ends[*k])
                .filter(|k| match &items[*k] {
                    Item::Let(binder, ..) if alike[*k] => {
                        // What is computed again names it, too.
                        crosses[*k] || again.iter().any(|n| named[*n].vars.contains(&binder.id))
                    }
                    Item::Alloc(..) => crosses[*k],
                    Item::Let(..) | Item::Do(_) => false,
                })
                .collect();
            if more.is_empty() {
                break (kept, again);
            }
            more.into_iter().for_each(|k| ends[k] = true);
        };
        for k in 0..items.len() {
            if ends[k] {
                lives[k] = Lives::Ends;
            } else if kept.contains(&k) {
                lives[k] = Lives::Kept;
            } else if again.contains(&k) {
                lives[k] = Lives::Again;
            }
        }
        lives
    }

    /// The values to keep.
    fn kept(&self, items: &[Item], named: &[Named], crosses: &[bool], alike: &[bool]) -> HashSet<usize> {
        let mut graph = Network::default();
        // The node of each value, and the value of each node.
        let mut nodes: Vec<Option<usize>> = vec![None; items.len()];
        let mut values: Vec<Option<usize>> = Vec::new();
        for (k, item) in items.iter().enumerate() {
            let Item::Let(binder, value, _) = item else { continue };
            if alike[k] {
                continue;
            }
            let node = graph.node(Some(2 * binder.ty.bytes()));
            values.push(Some(k));
            nodes[k] = Some(node);
            match self.cost(value) {
                None => graph.source(node),
                Some(0) => {}
                Some(bytes) => {
                    let load = graph.node(Some(bytes));
                    values.push(None);
                    graph.source(load);
                    graph.edge(load, node);
                }
            }
            for (j, other) in items[..k].iter().enumerate() {
                if let (Item::Let(b, ..), Some(from)) = (other, nodes[j])
                    && named[k].vars.contains(&b.id)
                {
                    graph.edge(from, node);
                }
            }
            if crosses[k] {
                graph.sink(node);
            }
        }
        let cut = graph.minimum_cut().unwrap_or_default();
        cut.into_iter().filter_map(|n| values[n]).collect()
    }

    /// Which entries are values that all iterations find alike.
    fn alike(&self, items: &[Item]) -> Vec<bool> {
        let mut own = HashSet::new();
        let alike = items.iter().map(|item| match item {
            Item::Let(binder, value, _) => {
                let alike = (self.uniform)(value) && vars_of(value).is_disjoint(&own);
                own.extend((!alike).then_some(binder.id));
                alike
            }
            Item::Alloc(..) | Item::Do(_) => false,
        });
        alike.collect()
    }

    /// Bytes that are loaded to compute a value again from those that it names; none where that gives no such value.
    fn cost(&self, value: &Expr) -> Option<u64> {
        let guarded = self.checks && (divides(value) || !loads_of(value).is_empty());
        let mut possible = !guarded && (self.divisions || !divides(value));
        walk_expr(value, &mut |e| possible &= !matches!(e.kind(), ExprKind::Call(..) | ExprKind::Address(_)));
        let mut bytes = 0;
        for a in loads_of(value) {
            possible &= a.view.buffer().is_some_and(|b| (self.steady)(b));
            bytes += a.elem.bytes();
        }
        possible.then_some(bytes)
    }
}

/// The values that phases compute again: those named behind a barrier, and what they are computed from, up to what
/// is kept.
fn again(
    items: &[Item],
    named: &[Named],
    crosses: &[bool],
    alike: &[bool],
    kept: &HashSet<usize>,
) -> HashSet<usize> {
    let is_value = |k: usize| !alike[k] && !kept.contains(&k);
    let mut again: HashSet<usize> = HashSet::new();
    for k in (0..items.len()).rev() {
        let Item::Let(binder, ..) = &items[k] else { continue };
        let operand = again.iter().any(|n| named[*n].vars.contains(&binder.id));
        if is_value(k) && (crosses[k] || operand) {
            again.insert(k);
        }
    }
    again
}

/// What a statement names, with all that it holds.
#[derive(Default)]
struct Named {
    vars: HashSet<VarId>,
    bufs: HashSet<BufId>,
}

impl Named {
    fn of(item: &Item) -> Named {
        let mut named = Named::default();
        match item {
            Item::Let(_, value, _) => named.expr(value),
            Item::Alloc(buffer, _) => buffer.extents.iter().for_each(|e| named.expr(e)),
            Item::Do(s) => walk(s, &mut |s, _| {
                s.exprs().into_iter().for_each(|e| named.expr(e));
                named.bufs.extend(s.touches().iter().filter_map(|(t, _)| t.buffer()));
                true
            }),
        }
        named
    }

    fn expr(&mut self, e: &Expr) {
        self.vars.extend(vars_of(e));
        self.bufs.extend(loads_of(e).iter().filter_map(|a| a.view.buffer()));
    }
}
