//! `dse`: dead store elimination.

use super::quiet::is_quiet;
use crate::args::Args;
use crate::rule;
use crate::work::Work;
use lathe_analysis::{Memory, Place, overwrites_all};
use lathe_ir::stmt::block::{Item, flat, rebuilt};
use lathe_ir::{Access, BufId, Buffer, Function, Stmt};
use lathe_strategy::Refusal;
use lathe_strategy::evidence::Simplified;
use std::collections::HashMap;
use std::sync::Arc;

rule! {
    /// `dse` removes a store to an element that a later store of the same block overwrites; a statement that writes one
    /// array, if a later statement in index notation (or a nest of loops around one store) writes every element of it;
    /// and final stores to a local array that is not read afterwards.
    ///
    /// **Legal** because nothing between the two reads the array, and the first can neither fail nor run forever.
    ///
    /// ```lathe
    /// kernel k(x: f32[N]) -> (y: f32[N]) {
    ///     y[i] = 0.0
    ///     y[i] = 2.0 * x[i]
    /// }
    /// strategy s for k = dse
    /// ```
    pub static RULE = dse, version 1, (), apply,
        "dead store elimination: removes stores that are overwritten before they are read";
}

fn apply(work: &mut Work, _: &Args) -> Result<(), Refusal> {
    work.pass(Simplified::Overwritten, remove)
}

pub fn remove(func: &mut Function) {
    let memory = Memory::of(func);
    let arrays: HashMap<BufId, Arc<Buffer>> =
        func.params.iter().filter_map(|p| p.array()).map(|b| (b.id, b.clone())).collect();
    let mut stores = Stores { memory, arrays };
    func.body = stores.block(&func.body.clone());
}

struct Stores {
    memory: Memory,
    /// Arrays in scope.
    arrays: HashMap<BufId, Arc<Buffer>>,
}

impl Stores {
    fn block(&mut self, s: &Stmt) -> Stmt {
        let mut items = flat(s);
        for i in &items {
            if let Item::Alloc(b, _) = i {
                self.arrays.insert(b.id, b.clone());
            }
        }
        for i in &mut items {
            if let Item::Do(s) = i {
                *s = self.inside(s);
            }
        }
        // From the end, so that what fed only a dead store is looked at after it.
        for n in (0..items.len()).rev() {
            if self.is_dead(&items, n) {
                items.remove(n);
            }
        }
        rebuilt(items)
    }

    fn inside(&mut self, s: &Stmt) -> Stmt {
        if s.children().len() == 0 {
            return s.clone();
        }
        let children = s.children().map(|c| self.block(c)).collect();
        s.with_children(children)
    }

    /// Whether an entry does nothing but write one array, of which nothing that it wrote is read.
    fn is_dead(&self, items: &[Item], n: usize) -> bool {
        let Item::Do(s) = &items[n] else { return false };
        let touched = self.memory.touched(s);
        let mut writes = touched.writes.iter();
        let (Some(place @ Place::Buffer(b)), None) = (writes.next().copied(), writes.next()) else {
            return false;
        };
        if touched.anything || !is_quiet(s) {
            return false;
        }
        for later in &items[n + 1..] {
            let s2 = match later {
                Item::Do(s) => s,
                Item::Let(_, value, _) if self.memory.read_by(value).contains(&place) => return false,
                Item::Let(..) | Item::Alloc(..) => continue,
            };
            let next = self.memory.touched(s2);
            if next.reads(place) {
                return false;
            }
            if self.arrays.get(&b).is_some_and(|a| overwrites_all(s2, a))
                || s.as_store().is_some_and(|st| overwrites(s2, &st.target))
            {
                return true;
            }
            // What names the element may name another one from here on.
            let own = s.as_store().map(|st| &st.target).into_iter().flat_map(Access::exprs);
            if own.into_iter().any(|e| next.changes(&self.memory.read_by(e))) {
                return false;
            }
        }
        // The end of the block is the end of its arrays.
        items.iter().any(|i| matches!(i, Item::Alloc(a, _) if a.id == b))
    }
}

/// Whether a statement stores to the very element, reading nothing of its array.
fn overwrites(s: &Stmt, target: &Access) -> bool {
    s.as_store().is_some_and(|o| o.target.view == target.view && o.target.indices == target.indices)
}
