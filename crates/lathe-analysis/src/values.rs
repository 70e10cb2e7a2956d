//! What steps owe that make, remove or re-lay arrays, decided from the tree before and the tree after alone: nobody says
//! how the one became the other. Two trees are walked together from the place where they differ; arrays that only one of
//! them has are looked through, and what remains must say the same.

mod ahead;
mod align;
mod blocks;
mod layout;
mod own;
mod silent;
mod tables;

pub use ahead::filled_ahead;
pub(crate) use align::equal;
pub use blocks::starts_from_totals;
pub use layout::relaid;
pub use own::{elements_of_their_own, unmentioned};
pub use silent::{Silent, means_nothing};
pub use tables::{Tables, holds_values};

use crate::env::Env;
use crate::leaves::written_buffers;
use lathe_ir::difference::Difference;
use lathe_ir::visit::Path;
use lathe_ir::{BufId, Buffer, Function, Module, Stmt, visit};
use std::collections::HashSet;
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
