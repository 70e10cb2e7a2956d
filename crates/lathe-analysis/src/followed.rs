//! Where instances of the statements of an old tree are in a new one.

use crate::copy::{Copy, Place, same_iteration};
use crate::leaves::Leaf;
use crate::refusal::{OrderRefusal, Undecided};
use crate::solve::{Reduced, refuted};
use crate::system::Lin;
use crate::translate::{Builder, Scope};
use lathe_ir::Label;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// A statement instance of the old tree, and where it may be in the new one.
#[derive(Clone, Copy)]
pub(crate) struct Followed<'f> {
    pub old: (&'f Leaf<'f>, Place, &'f Copy, &'f [Option<Lin>]),
    pub new: (&'f Leaf<'f>, Place),
}

impl Followed<'_> {
    /// The same instance in the new tree, and whether it could be matched exactly.
    pub fn copy(&self, builder: &mut Builder, outer: &Scope) -> Result<(Copy, bool), OrderRefusal> {
        let ((old, was, known, instance), (new, now)) = (self.old, self.new);
        let own = was == Place::own(old) && now == Place::own(new);
        if own && same_iteration(old, new) {
            return Ok((known.clone(), true));
        }
        let mut copy = Copy::new(builder, outer, new, &now);
        let exact = std::mem::replace(&mut builder.system.exact, true);
        let vector = copy.instance(builder, new);
        if vector.len() != instance.len() {
            let why = format!("the statement `{}` changed the length of its instance vector", new.label);
            return Err(OrderRefusal::Undecided(Undecided::at(why, &[new])));
        }
        for (o, n) in instance.iter().zip(&vector) {
            if let (Some(o), Some(n)) = (o, n) {
                builder.system.eq(o, n);
            }
        }
        let matched = builder.system.exact;
        builder.system.exact &= exact;
        Ok((copy, matched))
    }
}

/// Which copies of a statement in the new tree may run instances of one of its copies in the old tree. Where a tree has several
/// copies, as full and partial tiles, most pairs of them share none: to know that once saves asking of each pair of statements, in
/// each pair of places, whether their order is wrong there.
pub(crate) struct Whereabouts<'n> {
    /// Labels of which the old tree has several copies.
    several: HashSet<&'n Label>,
    /// What is known of a copy in the old tree and one in the new one, by their addresses.
    known: RefCell<HashMap<(usize, usize), bool>>,
}

impl<'n> Whereabouts<'n> {
    pub fn of(old: &'n [Leaf]) -> Whereabouts<'n> {
        let (mut seen, mut several) = (HashSet::new(), HashSet::new());
        for leaf in old {
            if !seen.insert(leaf.label) {
                several.insert(leaf.label);
            }
        }
        Whereabouts { several, known: RefCell::default() }
    }

    /// The copies in the new tree that may run instances of one in the old tree, in surroundings that both trees have.
    pub fn within<'l, 'a>(
        &self,
        start: &(Builder, Scope),
        (old, at): (&Leaf, Place),
        new: &[&'l Leaf<'a>],
    ) -> Vec<&'l Leaf<'a>> {
        let asks = new.len() > 1 && at == Place::own(old) && self.several.contains(old.label);
        new.iter().filter(|n| !asks || self.meet(start, old, n)).copied().collect()
    }

    fn meet(&self, start: &(Builder, Scope), old: &Leaf, new: &Leaf) -> bool {
        let key = (std::ptr::from_ref(old).addr(), std::ptr::from_ref(new).addr());
        let known = self.known.borrow().get(&key).copied();
        known.unwrap_or_else(|| {
            let may = same_iteration(old, new) || may_meet(start.clone(), old, new);
            self.known.borrow_mut().insert(key, may);
            may
        })
    }
}

/// Whether a copy of a statement in the new tree may run an instance of one in the old tree, as far as elimination tells.
fn may_meet((mut builder, outer): (Builder, Scope), old: &Leaf, new: &Leaf) -> bool {
    let (was, now) = (Place::own(old), Place::own(new));
    let mut copy = Copy::new(&mut builder, &outer, old, &was);
    let instance = copy.instance(&mut builder, old);
    let followed = Followed { old: (old, was, &copy, &instance), new: (new, now) };
    if followed.copy(&mut builder, &outer).is_err() {
        return true;
    }
    let mut state = Reduced::default();
    state.absorb(&builder.system.cons) && !refuted(&state, &builder.system.clauses)
}
