//! What steps owe that make, remove or re-lay arrays, decided from the tree before and the tree after alone: nobody says
//! how the one became the other. Two trees are walked together from the place where they differ; arrays that only one of
//! them has are looked through, and what remains must say the same.

mod ahead;
mod align;
mod blocks;
mod conditions;
mod content;
mod inputs;
mod layout;
mod own;
mod runs;
mod silent;
mod tables;
mod windows;

pub use ahead::filled_ahead;
pub(crate) use align::{Aligner, entered, equal};
pub use blocks::{starts_from_totals, starts_in_order};
pub use conditions::{instances_preserved, same_instances};
pub use content::same_content;
pub use inputs::{inputs_kept, only_by};
pub use layout::relaid;
pub use own::{elements_of_their_own, unmentioned};
pub use runs::same_runs;
pub use silent::{Silent, means_nothing, reduction_of};
pub use tables::{Tables, holds_values};
pub use windows::{Part, begins_empty, combined_from, computed_again, shares_nothing, stands_for};

use crate::env::Env;
use crate::instances::Unkept;
use crate::leaves::written_buffers;
use crate::order::order_preserved;
use lathe_diagnostics::Code;
use lathe_ir::difference::Difference;
use lathe_ir::visit::Path;
use lathe_ir::{BufId, Buffer, Function, Label, Module, Stmt, visit};
use lathe_poly::Ranges;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A function before and after a step.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    pub module: &'a Module,
    pub before: &'a Function,
    pub after: &'a Function,
}

/// Where the trees differ, and what they have there.
pub(crate) struct Place<'a> {
    pub path: Path,
    pub old: &'a Stmt,
    pub new: &'a Stmt,
    /// What a statement of either writes.
    pub written: HashSet<BufId>,
}

impl<'a> Change<'a> {
    pub(crate) fn place(&self) -> Result<Place<'a>, String> {
        if self.before.sizes != self.after.sizes || self.before.params != self.after.params {
            return Err("the parameters were changed".into());
        }
        let Difference { mut path, mut old, mut new, .. } =
            Difference::between(&self.before.body, &self.after.body);
        // Trees that were read from files share nothing.
        while let Some(n) = other_child(old, new) {
            let (Some(x), Some(y)) = (old.child(n), new.child(n)) else { break };
            path.push(n);
            (old, new) = (x, y);
        }
        let mut written = written_buffers(old);
        written.extend(written_buffers(new));
        Ok(Place { path, old, new, written })
    }

    /// The surroundings of a place in the tree before.
    pub(crate) fn env(&self, path: &[usize]) -> Env<'a> {
        Env::at(self.module, self.before, path)
    }
}

/// Whether every pair of conflicting accesses keeps its order from one tree to the other. Gives how many pairs of statements
/// were examined; none where a step gave instances other names, so that the trees do not say which is which.
pub fn order_kept(c: &Change) -> Option<Result<usize, String>> {
    let place = match c.place() {
        Ok(place) => place,
        Err(why) => return Some(Err(why)),
    };
    let (old, new) = (ranks(place.old), ranks(place.new));
    if old.iter().any(|(label, rank)| new.get(label).is_some_and(|n| n != rank)) {
        return None;
    }
    let kept = order_preserved(&c.env(&place.path), place.old, place.new);
    Some(kept.map(|proof| proof.pairs).map_err(|r| r.to_diagnostic(Code(""), "").message))
}

/// How long the instance vectors of every label are.
fn ranks(s: &Stmt) -> HashMap<Label, HashSet<usize>> {
    let mut out: HashMap<Label, HashSet<usize>> = HashMap::new();
    visit::walk(s, &mut |s, _| {
        if let Some((label, instance)) = s.labelled() {
            out.entry(label.clone()).or_default().insert(instance.len());
        }
        true
    });
    out
}

/// Whether both trees execute the same instances, each once. Gives how many statements were compared; none where that
/// depends on data.
pub fn instances_kept(c: &Change) -> Option<Result<usize, String>> {
    let place = match c.place() {
        Ok(place) => place,
        Err(why) => return Some(Err(why)),
    };
    match same_instances(&c.env(&place.path), place.old, place.new) {
        Ok(compared) => Some(Ok(compared)),
        Err(Unkept { why, known }) => known.then_some(Err(why)),
    }
}

/// Whether every labelled statement does what it did, for the same instance. Gives how many statements were compared; none
/// where that could not be decided.
pub fn content_kept(c: &Change) -> Option<Result<usize, String>> {
    let place = match c.place() {
        Ok(place) => place,
        Err(why) => return Some(Err(why)),
    };
    match same_content(&c.env(&place.path), place.old, place.new, &|| Ranges::at(c.before, &place.path)) {
        Ok(compared) => Some(Ok(compared)),
        Err(Unkept { why, known }) => known.then_some(Err(why)),
    }
}

/// The child in which two statements differ, if they differ in nothing else.
fn other_child(old: &Stmt, new: &Stmt) -> Option<usize> {
    if old.children().len() != new.children().len() {
        return None;
    }
    let mut others = old.children().zip(new.children()).enumerate().filter(|(_, (x, y))| x != y);
    let (Some((n, (_, child))), None) = (others.next(), others.next()) else { return None };
    (old.with_child(n, child.clone()) == *new).then_some(n)
}

/// The arrays that a statement allocates, in the order of the text.
pub(crate) fn allocated(s: &Stmt) -> Vec<Arc<Buffer>> {
    let mut out = Vec::new();
    visit::walk(s, &mut |s, _| {
        out.extend(s.allocated().cloned());
        true
    });
    out
}

/// The arrays that the first statement allocates, and not the second.
pub(crate) fn only_in(a: &Stmt, b: &Stmt) -> Vec<Arc<Buffer>> {
    let there: HashSet<BufId> = allocated(b).iter().map(|b| b.id).collect();
    allocated(a).into_iter().filter(|b| !there.contains(&b.id)).collect()
}
