//! Changes that have no meaning: trees that are the same without them.

use super::Change;
use super::align::Aligner;
use lathe_ir::stmt::{Atomic, AtomicOp};
use lathe_ir::{BufId, Buffer, Reduce, Stmt, StmtKind, Store, visit};
use lathe_poly::Ranges;
use lathe_poly::simplify::simplify_stmt;
use std::collections::HashSet;
use std::sync::Arc;

/// What is looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silent<'s> {
    /// Prefetches of an array.
    Prefetches(&'s str),
    /// Whether stores of a label bypass the caches.
    Route(&'s str),
    /// Whether licensed reductions of a label are one step each.
    Indivisible(&'s str),
}

/// Whether a step changed nothing else. Gives how many statements of that kind there are.
///
/// # Errors
/// What could not be shown, in words.
pub fn means_nothing(c: &Change, what: Silent) -> Result<usize, String> {
    let place = c.place()?;
    let env = c.env(&place.path);
    let mut seen = 0;
    let new = without(c, place.new, what, &mut seen);
    let none = HashSet::new();
    let same = |old: &Stmt, new: &Stmt| {
        let (written, through, tables) = (&place.written, &none, &none);
        let (uses, blocks) = (Vec::new(), Vec::new());
        let mut aligner = Aligner { env: &env, written, through, tables, uses, blocks, compared: 0 };
        aligner.stmts(&mut Vec::new(), old, new)
    };
    same(&without(c, place.old, what, &mut 0), &new).or_else(|why| {
        // What rules make is simplified.
        let old = simplify_stmt(place.old, &mut Ranges::at(c.before, &place.path));
        if old == *place.old { Err(why) } else { same(&without(c, &old, what, &mut 0), &new) }
    })?;
    Ok(seen)
}

fn without(c: &Change, s: &Stmt, what: Silent, seen: &mut usize) -> Stmt {
    let parameter = |id| c.after.params.iter().filter_map(|p| p.array()).find(|b| b.id == id).cloned();
    let array = |id| parameter(id).or_else(|| allocated(&c.after.body, id));
    let new = visit::map_stmts(s, &mut |s| {
        let plain = match what {
            Silent::Prefetches(name) => {
                if let Some(all) = s.as_seq() {
                    return Stmt::seq(all.iter().filter(|s| !s.is_empty()).cloned());
                }
                let StmtKind::Prefetch(a) = s.kind() else { return s };
                a.view.buffer().and_then(array).filter(|b| *b.name == *name).map(|_| Stmt::empty())
            }
            Silent::Route(name) => s.as_store().filter(|st| st.label.as_str() == name).map(|st| {
                let store = Store { nontemporal: false, ..st.clone() };
                s.with_kind(StmtKind::Store(store))
            }),
            Silent::Indivisible(name) => {
                let StmtKind::Atomic(a) = s.kind() else { return s };
                reduction_of(a)
                    .filter(|r| a.body.is_empty() && r.label.as_str() == name)
                    .map(|r| s.with_kind(StmtKind::Reduce(r)))
            }
        };
        *seen += usize::from(plain.is_some());
        plain.unwrap_or(s)
    });
    if new.as_seq().is_some_and(<[Stmt]>::is_empty) { Stmt::empty() } else { new }
}

fn allocated(s: &Stmt, id: BufId) -> Option<Arc<Buffer>> {
    let mut out = None;
    visit::walk(s, &mut |s, _| {
        out = out.take().or_else(|| s.allocated().filter(|b| b.id == id).cloned());
        out.is_none()
    });
    out
}

/// The reduction that an update of one element does whose old value nobody reads.
pub fn reduction_of(a: &Atomic) -> Option<Reduce> {
    let AtomicOp::Update(op, value) = &a.op else { return None };
    a.old.is_none().then(|| Reduce {
        label: a.label.clone(),
        instance: a.instance.clone(),
        op: op.clone(),
        targets: vec![a.target.clone()],
        values: vec![value.clone()],
        licence: true,
        contract: false,
    })
}
