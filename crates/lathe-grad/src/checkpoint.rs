//! Checkpoints: a loop that carries arrays from one iteration to the next works, in every iteration, on copies of them
//! that live for this iteration. What its reverse sweep needs is then recomputed from the state at its beginning, and
//! that comes from few snapshots (`reverse::revolve`) instead of a tape with an entry for every iteration.

use crate::arrays::{allocated, copy_array};
use lathe_ir::visit::map_accesses;
use lathe_ir::{Access, BufId, Buffer, Function, Space, Stmt, StmtKind, VarId};
use std::collections::HashMap;
use std::sync::Arc;

/// Which loop of a function: by its variable, or by its number among those that have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    For(VarId),
    While(usize),
}

/// A loop that is checkpointed.
#[derive(Clone)]
pub struct Checkpointed {
    pub which: Which,
    pub states: Vec<State>,
}

/// An array that a loop carries.
#[derive(Clone)]
pub struct State {
    pub outer: Arc<Buffer>,
    /// What an iteration works on: a copy of `outer` when it begins, which becomes `outer` when it ends.
    pub inner: Arc<Buffer>,
}

/// The function with copies of the arrays that loops carry.
pub fn split(func: &mut Function, loops: Vec<(Which, Vec<Arc<Buffer>>)>) -> Vec<Checkpointed> {
    let mut out = Vec::new();
    for (which, carried) in loops {
        let states = carried.into_iter().map(|outer| {
            let id = func.fresh_buf();
            let space = if outer.extents.is_empty() { Space::Register } else { Space::Host };
            let name = format!("{}.now", outer.name).into();
            State { inner: Arc::new(Buffer { id, name, space, ..(*outer).clone() }), outer }
        });
        let states: Vec<State> = states.collect();
        let mut copies = |all: &mut dyn Iterator<Item = (&Buffer, &Buffer)>| {
            all.map(|(from, to)| copy_array(from, to, func)).collect::<Vec<Stmt>>()
        };
        let before = copies(&mut states.iter().map(|s| (&*s.outer, &*s.inner)));
        let after = copies(&mut states.iter().map(|s| (&*s.inner, &*s.outer)));
        let inner = states.iter().map(|s| (s.outer.id, s.inner.id)).collect();
        let on_copies = |body: &Stmt| {
            let body = renamed(body, &inner);
            let body = Stmt::seq(before.iter().cloned().chain([body]).chain(after.iter().cloned()));
            allocated(states.iter().map(|s| s.inner.clone()).collect::<Vec<_>>(), body)
        };
        func.body = in_loop(&func.body, which, &mut 0, &on_copies);
        out.push(Checkpointed { which, states });
    }
    out
}

/// The statement with another body of one loop; `whiles` is how many loops without variable were before it.
fn in_loop(s: &Stmt, which: Which, whiles: &mut usize, f: &dyn Fn(&Stmt) -> Stmt) -> Stmt {
    let here = if let Some(l) = s.as_loop() {
        which == Which::For(l.binder.id)
    } else if matches!(s.kind(), StmtKind::While { .. }) {
        *whiles += 1;
        which == Which::While(*whiles - 1)
    } else {
        false
    };
    let new: Vec<Stmt> = s.children().map(|c| in_loop(c, which, whiles, f)).collect();
    let new: Vec<Stmt> = if here { new.iter().map(f).collect() } else { new };
    let same = s.children().zip(&new).all(|(a, b)| a.ptr_eq(b));
    if same { s.clone() } else { s.with_children(new) }
}

/// The statement with arrays instead of others.
pub fn renamed(s: &Stmt, to: &HashMap<BufId, BufId>) -> Stmt {
    map_accesses(s, &mut |a| {
        let of = a.view.buffer().filter(|b| to.contains_key(b))?;
        let view = a.view.map_buffer(&mut |b| if b == of { to[&of] } else { b });
        Some(Access { view, ..a.clone() })
    })
}
