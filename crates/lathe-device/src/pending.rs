//! Which buffers were read and written since the last barrier.

use lathe_ir::visit::{loads_of, walk};
use lathe_ir::{BufId, Expr, Function, Name, Stmt};
use std::collections::{HashMap, HashSet};

/// Reads and writes, by buffer. Buffers of one alias class count as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    reads: HashSet<BufId>,
    writes: HashSet<BufId>,
}

impl Touched {
    /// Whether running both without a barrier between could let two threads meet at an element.
    pub fn conflicts(&self, next: &Touched) -> bool {
        let meets = |a: &HashSet<BufId>, b: &HashSet<BufId>| a.intersection(b).next().is_some();
        meets(&self.writes, &next.writes)
            || meets(&self.writes, &next.reads)
            || meets(&self.reads, &next.writes)
    }

    pub fn add(&mut self, other: &Touched) {
        self.reads.extend(&other.reads);
        self.writes.extend(&other.writes);
    }

    pub fn clear(&mut self) {
        self.reads.clear();
        self.writes.clear();
    }

    pub fn contains(&self, other: &Touched) -> bool {
        other.reads.is_subset(&self.reads) && other.writes.is_subset(&self.writes)
    }
}

/// One representative per alias class.
pub fn classes(func: &Function) -> HashMap<BufId, BufId> {
    let mut first: HashMap<Name, BufId> = HashMap::new();
    let mut out = HashMap::new();
    for p in &func.params {
        if let (Some(b), Some(class)) = (p.array(), &p.alias) {
            out.insert(b.id, *first.entry(class.clone()).or_insert(b.id));
        }
    }
    out
}

/// Who counts, and as what.
pub struct View<'a> {
    pub classes: &'a HashMap<BufId, BufId>,
    /// Buffers that each thread has for itself.
    pub private: &'a HashSet<BufId>,
}

impl View<'_> {
    fn class(&self, b: BufId) -> Option<BufId> {
        (!self.private.contains(&b)).then(|| self.classes.get(&b).copied().unwrap_or(b))
    }

    /// What the loads of an expression read.
    pub fn of_exprs<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> Touched {
        let mut out = Touched::default();
        for e in exprs {
            let read = loads_of(e).into_iter().filter_map(|a| a.view.buffer());
            out.reads.extend(read.filter_map(|b| self.class(b)));
        }
        out
    }

    /// What a statement touches, its own local buffers aside.
    pub fn of(&self, s: &Stmt) -> Touched {
        let mut out = Touched::default();
        let mut own = HashSet::new();
        walk(s, &mut |s, _| {
            if let Some(b) = s.allocated() {
                own.insert(b.id);
            }
            out.add(&self.of_exprs(s.evaluated()));
            for (t, mode) in s.touches() {
                let Some(b) = t.buffer().and_then(|b| self.class(b)) else { continue };
                if mode.reads() {
                    out.reads.insert(b);
                }
                if mode.writes() {
                    out.writes.insert(b);
                }
            }
            true
        });
        out.reads.retain(|b| !own.contains(b));
        out.writes.retain(|b| !own.contains(b));
        out
    }
}
