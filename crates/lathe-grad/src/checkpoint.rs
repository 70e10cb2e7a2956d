//! Checkpoints: a loop that carries arrays from one iteration to the next works, in every iteration, on copies of them
//! that live for this iteration. What its reverse sweep needs is then recomputed from the state at its beginning, and
//! that comes from few snapshots (`reverse::revolve`) instead of a tape with an entry for every iteration.

use crate::arrays::{allocated, copy_array};
use lathe_ir::visit::{map_accesses, map_stmts};
use lathe_ir::{Access, BufId, Buffer, Function, Loop, Space, Stmt, StmtKind, VarId};
use std::collections::HashMap;
use std::sync::Arc;

/// A loop that is checkpointed.
#[derive(Clone)]
pub struct Checkpointed {
    /// The variable of the loop.
    pub time: VarId,
    pub states: Vec<State>,
}

/// An array that a loop carries.
#[derive(Clone)]
pub struct State {
    pub outer: Arc<Buffer>,
    /// What an iteration works on: a copy of `outer` when it begins, which becomes `outer` when it ends.
    pub inner: Arc<Buffer>,
}

/// The function with copies of the arrays that loops carry, by the loops' variables.
pub fn split(func: &mut Function, loops: Vec<(VarId, Vec<Arc<Buffer>>)>) -> Vec<Checkpointed> {
    let mut out = Vec::new();
    for (time, carried) in loops {
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
        func.body = map_stmts(&func.body, &mut |s| match s.as_loop().filter(|l| l.binder.id == time) {
            Some(l) => {
                let body = renamed(&l.body, &inner);
                let body = Stmt::seq(before.iter().cloned().chain([body]).chain(after.iter().cloned()));
                let body = allocated(states.iter().map(|s| s.inner.clone()).collect::<Vec<_>>(), body);
                s.with_kind(StmtKind::Loop(Loop { body, ..l.clone() }))
            }
            None => s,
        });
        out.push(Checkpointed { time, states });
    }
    out
}

/// The statement with arrays instead of others.
pub fn renamed(s: &Stmt, to: &HashMap<BufId, BufId>) -> Stmt {
    map_accesses(s, &mut |a| {
        let of = a.view.buffer().filter(|b| to.contains_key(b))?;
        let view = a.view.map_buffer(&mut |b| if b == of { to[&of] } else { b });
        Some(Access { view, ..a.clone() })
    })
}
