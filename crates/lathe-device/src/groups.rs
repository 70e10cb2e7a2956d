//! Which barriers wait for which copies, where copies to shared memory are asynchronous.
//!
//! A thread's copies end in the order of their groups, a group for each statement that only copies (`cp.async.commit_group`).
//! What a copy touches is safe to touch behind a barrier before which every thread has waited for its own part of that copy.
//! That is the last barrier before the access, and no earlier one needs to wait; of the groups that were started later,
//! those may still be under way (`cp.async.wait_group`). So copies overlap with all that lies between, barriers included.

use crate::pending::{Touched, View};
use crate::plan::KernelPlan;
use crate::shuffles;
use lathe_ir::visit::walk;
use lathe_ir::{Executor, Label, Stmt, StmtKind};
use std::collections::{HashMap, HashSet};

/// The asynchronous copies of a kernel. It speaks of the statements of that kernel's body, as long as they live.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    labels: HashSet<Label>,
    groups: HashSet<usize>,
    waits: HashMap<usize, u32>,
    /// Every barrier waits for all copies.
    everywhere: bool,
}

impl Copies {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Whether the stores of that label are copies.
    pub fn contains(&self, label: &Label) -> bool {
        self.labels.contains(label)
    }

    /// The labels of copies.
    pub fn labels(&self) -> impl Iterator<Item = &Label> {
        self.labels.iter()
    }

    /// Whether what a statement copies is a group.
    pub fn ends_group(&self, s: &Stmt) -> bool {
        self.groups.contains(&address(s))
    }

    /// What a thread waits for before a barrier: all groups but so many, the newest ones; `None`: nothing.
    pub fn waits(&self, barrier: &Stmt) -> Option<u32> {
        if self.everywhere { Some(0) } else { self.waits.get(&address(barrier)).copied() }
    }
}

/// Statements that are equal may stand in several places.
fn address(s: &Stmt) -> usize {
    std::ptr::from_ref(s.kind()) as usize
}

/// Where a kernel waits for the copies with these labels.
pub fn groups(kernel: &KernelPlan, view: &View, labels: HashSet<Label>) -> Copies {
    let mut found =
        Search { kernel, view, labels: &labels, waits: HashMap::new(), groups: HashSet::new(), end: None };
    let mut repeats = false;
    walk(&kernel.body, &mut |s, _| {
        repeats |= matches!(s.kind(), StmtKind::While { .. });
        !repeats
    });
    let mut known = !labels.is_empty() && !repeats;
    while known {
        found.end = None;
        found.stmt(&kernel.body, false, &mut Vec::new());
        match found.end {
            None => break,
            Some(End::Waits) => {}
            Some(End::Unknown) => known = false,
        }
    }
    let Search { waits, mut groups, .. } = found;
    if waits.values().all(|n| *n == 0) {
        groups.clear();
    }
    if known {
        Copies { labels, groups, waits, everywhere: false }
    } else {
        Copies { everywhere: !labels.is_empty(), labels, ..Copies::default() }
    }
}

/// A group of copies under way.
#[derive(Clone, PartialEq)]
struct Group {
    touched: Touched,
    /// How many groups are newer, at least.
    newer: u32,
    /// The last barrier since, and how many groups were newer there.
    barrier: Option<(usize, u32)>,
}

/// Why a walk over the kernel ended early.
enum End {
    /// A barrier waits for more than was known.
    Waits,
    /// It was not found where to wait.
    Unknown,
}

struct Search<'v, 'a> {
    kernel: &'v KernelPlan,
    view: &'v View<'a>,
    labels: &'v HashSet<Label>,
    waits: HashMap<usize, u32>,
    groups: HashSet<usize>,
    end: Option<End>,
}

/// More groups than this are not told apart.
const MOST: u32 = 8;
/// More rounds than this of one loop find nothing new.
const ROUNDS: usize = 16;

impl Search<'_, '_> {
    fn stmt(&mut self, s: &Stmt, unrolled: bool, pending: &mut Vec<Group>) {
        if self.end.is_some() {
            return;
        }
        if matches!(s.kind(), StmtKind::Barrier { .. }) {
            let at = address(s);
            let left = self.waits.get(&at).copied().unwrap_or(u32::MAX);
            pending.retain(|g| g.newer < left);
            pending.iter_mut().for_each(|g| g.barrier = Some((at, g.newer)));
            return self.known(!unrolled);
        }
        if self.only_copies(s) {
            let touched = self.view.of(s);
            self.meets(&touched, pending);
            pending.iter_mut().for_each(|g| g.newer = (g.newer + 1).min(MOST));
            union(pending, &[Group { touched, newer: 0, barrier: None }]);
            self.groups.insert(address(s));
            return self.known(!unrolled);
        }
        if s.children().len() == 0 {
            return self.meets(&self.view.of(s), pending);
        }
        self.meets(&self.view.of_exprs(s.evaluated()), pending);
        if let Some(l) = s.as_loop() {
            // Who prints its iterations apart prints other statements.
            let unrolled = unrolled || l.exec == Executor::Unrolled;
            let (mut stable, outside) = (false, pending.clone());
            if let Some(lo) = l.lo.as_int().filter(|_| self.copies(&l.body)) {
                pending.iter_mut().for_each(|g| g.touched.enters(l.binder.id, lo));
            }
            for _ in 0..ROUNDS {
                let before = pending.clone();
                self.stmt(&l.body, unrolled, pending);
                pending.iter_mut().for_each(|g| g.touched.next_iteration(l.binder.id, l.step));
                union(pending, &before);
                stable = *pending == before || self.end.is_some();
                if stable {
                    break;
                }
            }
            self.known(stable);
            pending.iter_mut().for_each(|g| g.touched.forget(l.binder.id));
            // It may not run at all.
            union(pending, &outside);
        } else if s.as_if().is_some() {
            let before = pending.clone();
            let mut after = if s.children().len() < 2 { before.clone() } else { Vec::new() };
            for child in s.children() {
                let mut way = before.clone();
                self.stmt(child, unrolled, &mut way);
                union(&mut after, &way);
            }
            *pending = after;
        } else if let Some(all) = s.as_seq() {
            self.sequence(all, unrolled, pending);
        } else {
            s.children().for_each(|c| self.stmt(c, unrolled, pending));
            if let Some((binder, ..)) = s.as_let() {
                pending.iter_mut().for_each(|g| g.touched.forget(binder.id));
            }
        }
    }

    /// Barriers between halvings within a warp are none where they become shuffles; one stands before them.
    fn sequence(&mut self, all: &[Stmt], unrolled: bool, pending: &mut Vec<Group>) {
        let (thread, rank) = (self.kernel.thread.id, self.kernel.cluster.as_ref().map(|c| c.rank.id));
        let mut at = 0;
        while at < all.len() {
            let behind = at > 0 && shuffles::waits(&all[at - 1], thread, rank);
            let run = shuffles::halvings(&all[at..], thread).filter(|_| behind).map_or(1, |(n, _)| n);
            for s in all[at..at + run].iter().step_by(2) {
                self.stmt(s, unrolled, pending);
            }
            at += run;
        }
    }

    fn known(&mut self, known: bool) {
        if !known && self.end.is_none() {
            self.end = Some(End::Unknown);
        }
    }

    /// Whether something in a statement copies.
    fn copies(&self, s: &Stmt) -> bool {
        s.as_store().is_some_and(|st| self.labels.contains(&st.label)) || s.children().any(|c| self.copies(c))
    }

    /// Whether a statement does nothing but copy.
    fn only_copies(&self, s: &Stmt) -> bool {
        if let Some(st) = s.as_store() {
            return self.labels.contains(&st.label);
        }
        let plain =
            s.as_loop().is_some() || s.as_if().is_some() || s.as_let().is_some() || s.as_seq().is_some();
        plain && s.children().len() > 0 && s.children().all(|c| self.only_copies(c))
    }

    /// What is touched while copies are under way: the last barrier has waited for those that it meets.
    fn meets(&mut self, touched: &Touched, pending: &[Group]) {
        for g in pending.iter().filter(|g| g.touched.conflicts(touched)) {
            let Some((barrier, newer)) = g.barrier else { return self.known(false) };
            let waits = self.waits.entry(barrier).or_insert(u32::MAX);
            if newer < *waits {
                *waits = newer;
                self.end.get_or_insert(End::Waits);
            }
        }
    }
}

fn union(to: &mut Vec<Group>, from: &[Group]) {
    for g in from {
        if !to.contains(g) {
            to.push(g.clone());
        }
    }
}
