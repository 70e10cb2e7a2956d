//! Stores of which nothing is ever read: every element that they write is surely written again, by statements that stay,
//! before anything reads it.

use crate::budget::within_work;
use crate::copy::{Copy, Place, earlier, equal};
use crate::cover::{expand, uncovered};
use crate::defined::{copy_of_read, copy_of_write, in_both_branches};
use crate::env::{Env, Item};
use crate::isl_set::Projection;
use crate::leaves::{Leaf, Level, Relative, Role, Touch, leaves, relate, written_buffers};
use crate::memory::{self, Memory};
use crate::system::{Conj, Lin, eq};
use crate::translate::{Builder, Scope};
use crate::view::Written;
use lathe_ir::visit::{Path, walk};
use lathe_ir::{BufId, Executor, Expr, Function, Module};
use std::collections::BTreeSet;

/// What all questions about a label may take.
const WORK: u64 = 40_000_000;

/// Where the stores of a label stand that can be left out, all of them or some: whatever they write is written again by other statements
/// before it is read, for all sizes. Arrays that may share memory with others are not followed.
pub fn overwritten(module: &Module, func: &Function, label: &str) -> Vec<Path> {
    let memory = Memory::of(func);
    // What runs beside, or waits, is in no order that is followed here.
    if memory.touched(&func.body).anything {
        return Vec::new();
    }
    let mut arrays: BTreeSet<BufId> = BTreeSet::new();
    walk(&func.body, &mut |s, _| {
        if let Some(st) = s.as_store().filter(|st| st.label.as_str() == label)
            && let memory::Place::Buffer(id) = memory.place(&st.target.view)
        {
            arrays.insert(id);
        }
        true
    });
    let env = Env::root(module, func);
    let written = written_buffers(&func.body);
    within_work(WORK, || {
        arrays.into_iter().flat_map(|id| Array { env: &env, written: &written, id }.dead(label)).collect()
    })
}

struct Array<'e> {
    env: &'e Env<'e>,
    written: &'e Written,
    id: BufId,
}

/// One execution of a store, with the element that it writes.
#[derive(Clone)]
struct Start<'e> {
    builder: Builder<'e>,
    outer: Scope,
    store: Copy,
    cell: Vec<Lin>,
}

impl Start<'_> {
    /// The element is the one of these subscripts, in another execution.
    fn same_cell(&mut self, copy: &mut Copy, indices: &[Expr]) {
        for (e, cell) in indices.iter().zip(&self.cell) {
            let e = self.builder.value(&mut copy.scope, e);
            self.builder.system.push(eq(&e, cell));
        }
    }
}

/// A read of the array, in one execution.
#[derive(Clone, Copy)]
struct Reading<'l> {
    leaf: &'l Leaf<'l>,
    depth: usize,
    copy: &'l Copy,
}

impl<'e> Array<'e> {
    fn dead(&self, label: &str) -> Vec<Path> {
        let Ok(all) = leaves(&self.env.func.body, &[self.id].into()) else { return Vec::new() };
        let all: Vec<&Leaf> = all.iter().filter(|l| l.touches.iter().any(|t| t.buffer == self.id)).collect();
        let asked = |l: &&Leaf| l.stmt.as_store().is_some() && l.label.as_str() == label;
        // What may be left out itself overwrites nothing.
        let (asked, kept): (Vec<&Leaf>, Vec<&Leaf>) = all.iter().copied().partition(asked);
        let both = in_both_branches(&kept, self.id);
        let kept: Vec<&Leaf> = kept.into_iter().chain(&both).filter(|l| is_sure(l)).collect();
        let dead = |x: &&Leaf| {
            let start = if is_sure(x) { self.start(x) } else { None };
            start.is_some_and(|start| {
                self.is_overwritten(x, &start, &kept, None) && self.is_unread(x, &start, &all, &kept)
            })
        };
        let path = |x: &Leaf| x.path.iter().map(|s| s.position).collect();
        asked.into_iter().filter(dead).map(path).collect()
    }

    fn start(&self, x: &Leaf) -> Option<Start<'e>> {
        let own = x.touches.iter().find(|t| t.buffer == self.id && t.role == Role::Write)?;
        let mut builder = Builder::new(self.written);
        let outer = builder.surroundings(self.env);
        let mut store = Copy::new(&mut builder, &outer, x, &Place::own(x));
        let cell = own.indices.as_ref()?.iter().map(|e| builder.value(&mut store.scope, e)).collect();
        Some(Start { builder, outer, store, cell })
    }

    /// Whether stores that stay surely write what a store wrote, after it, and before a read where there is one.
    fn is_overwritten(&self, x: &Leaf, start: &Start, kept: &[&Leaf], until: Option<Reading>) -> bool {
        if start.builder.system.symbolic {
            return false;
        }
        let dims = start.builder.system.columns;
        let (mut asked, mut reached) = (Vec::new(), Vec::new());
        if expand(&start.builder.system, dims, &mut asked).is_err() {
            return false;
        }
        if asked.is_empty() {
            return true;
        }
        for y in kept {
            let own = y.touches.iter().filter(|t| t.buffer == self.id && t.role == Role::Write);
            for target in own.filter_map(|t| t.indices.as_deref()) {
                let mut all = start.clone();
                all.builder.system.exact = true;
                let Some(mut copy) = copy_of_write(&mut all.builder, &all.outer, y) else { continue };
                all.same_cell(&mut copy, target);
                all.builder.system.clause(self.surely((x, &all.store), (y, y.path.len(), &copy)));
                if let Some(z) = until {
                    all.builder.system.clause(self.surely((y, &copy), (z.leaf, z.depth, z.copy)));
                }
                let system = &all.builder.system;
                let mut parts = Vec::new();
                if system.exact && !system.symbolic && expand(system, dims, &mut parts).is_ok() {
                    reached.extend(parts);
                }
            }
        }
        let missing = uncovered(&Projection { dims, parts: &asked }, &Projection { dims, parts: &reached });
        missing == Some(None)
    }

    /// Whether whatever may read, after a store, the element that it wrote finds what others wrote in between.
    fn is_unread(&self, x: &Leaf, start: &Start, all: &[&Leaf], kept: &[&Leaf]) -> bool {
        let reads = |t: &&Touch| t.buffer == self.id && t.role != Role::Write;
        all.iter().flat_map(|z| z.touches.iter().filter(reads).map(move |t| (*z, t))).all(|(z, read)| {
            let mut both = start.clone();
            let mut copy = copy_of_read(&mut both.builder, &both.outer, z, read);
            if let Some(indices) = &read.indices {
                both.same_cell(&mut copy, indices);
            }
            let after = self.maybe((x, &both.store), (z, read.depth, &copy));
            both.builder.system.clause(after);
            self.is_overwritten(x, &both, kept, Some(Reading { leaf: z, depth: read.depth, copy: &copy }))
        })
    }

    /// The loops that two places share, within the life of the array, and which of the two comes first in one iteration of them.
    fn shared<'l>(&self, a: &'l Leaf, b: (&Leaf, usize)) -> (Vec<Level<'l>>, usize, Relative) {
        let (common, relative) = relate(&a.path, &b.0.path[..b.1]);
        // Each execution of an allocation has storage of its own.
        let own = a.allocated_at(self.id).map_or(0, |steps| a.levels(steps).len());
        (a.levels(common), own, relative)
    }

    /// The cases in which an execution of a statement is surely over when another one begins.
    fn surely(&self, (a, x): (&Leaf, &Copy), (b, depth, y): (&Leaf, usize, &Copy)) -> Vec<Conj> {
        let (levels, own, relative) = self.shared(a, (b, depth));
        let ordered = |l: &usize| in_order(&levels[*l]);
        let mut out: Vec<Conj> =
            (own..levels.len()).filter(ordered).map(|l| earlier(&levels, l, x, y)).collect();
        out.extend((relative == Relative::First).then(|| equal(&levels, x, y)));
        out
    }

    /// The cases in which an execution of a statement may come before another one.
    fn maybe(&self, (a, x): (&Leaf, &Copy), (b, depth, y): (&Leaf, usize, &Copy)) -> Vec<Conj> {
        let (levels, own, relative) = self.shared(a, (b, depth));
        let mut out: Vec<Conj> = (own..levels.len()).map(|l| earlier(&levels, l, x, y)).collect();
        let others = (own..levels.len()).filter(|l| !in_order(&levels[*l]));
        out.extend(others.map(|l| earlier(&levels, l, y, x)));
        out.extend((relative == Relative::First).then(|| equal(&levels, x, y)));
        out
    }
}

/// How often it runs, and for which values, is known.
fn is_sure(l: &Leaf) -> bool {
    l.whiles() == 0 && !l.items.iter().any(|i| matches!(i, Item::Opaque(_)))
}

/// Whether the iterations of a loop run one after the other.
fn in_order(level: &Level) -> bool {
    matches!(level, Level::While(_) | Level::Loop(_, Executor::Serial | Executor::Unrolled))
}
