//! Atomic updates in the order of iterations (`inorder`): whose turn it is.
//!
//! Every iteration of the innermost loop that the scope names has one turn: it makes the update once, or ends without it.
//! A loop between that one and the update would ask for a second turn, which never comes.

use crate::env::{Env, Item};
use crate::leaves::{Leaf, Level};
use lathe_ir::stmt::{Atomic, MemoryOrder};
use lathe_ir::{Executor, Name, StmtKind};

/// Whether iterations of a loop make two updates in their order: instances of one atomic that says so, of which each
/// iteration makes one. Copies of it wait for their own kind alone.
pub(crate) fn takes_turns(level: &Level, a: &Leaf, b: &Leaf) -> bool {
    let Some(x) = update(a).filter(|_| std::ptr::eq(a, b)) else { return false };
    let named = |l: &Level| matches!(l, Level::Loop(_, exec) if exec.name() == x.scope);
    named(level) && a.levels(a.path.len()).iter().skip_while(|l| !named(l)).all(named)
}

/// Whether an iteration of the loops that a leaf's scope names would make its update several times.
pub(crate) fn takes_several_turns(env: &Env, leaf: &Leaf) -> bool {
    let Some(x) = update(leaf) else { return false };
    let here = leaf.levels(leaf.path.len());
    let inside = here.iter().map(|l| match l {
        Level::Loop(_, exec) => exec.name() == x.scope,
        Level::While(_) => false,
    });
    let levels: Vec<bool> = around(env, &x.scope).chain(inside).collect();
    levels.contains(&true) && levels.last() == Some(&false)
}

/// Whether a loop around a place is named by a scope.
pub(crate) fn within(env: &Env, scope: &Name) -> bool {
    around(env, scope).any(|named| named)
}

/// Of each loop around a place, whether a scope names it.
fn around<'a>(env: &'a Env, scope: &'a Name) -> impl Iterator<Item = bool> + 'a {
    let named = move |exec: &Executor| exec.name() == *scope;
    env.items.iter().filter_map(move |i| match i {
        Item::Loop { exec, .. } => Some(named(exec)),
        Item::While(_) => Some(false),
        _ => None,
    })
}

fn update<'a>(leaf: &Leaf<'a>) -> Option<&'a Atomic> {
    let StmtKind::Atomic(x) = leaf.stmt.kind() else { return None };
    Some(x).filter(|x| x.order == MemoryOrder::InOrder)
}
