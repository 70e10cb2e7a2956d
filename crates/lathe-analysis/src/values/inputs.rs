//! What a statement computes its values from, and who else touches its array.

use super::{Change, allocated};
use crate::env::Env;
use crate::leaves::written_buffers;
use crate::memory::{Memory, Place};
use lathe_ir::visit::{self, loads_of, vars_of};
use lathe_ir::{BufId, Expr, Stmt, VarId};
use std::collections::{HashMap, HashSet};

/// Whether nothing in the changed place writes what the statements of a label compute their values from, but for arrays
/// that live in the place: of these, what writes them counts as well. Then it does not matter
/// when the values are computed. Gives how many statements were examined.
///
/// # Errors
/// What may be written, in words.
pub fn inputs_kept(c: &Change, label: &str) -> Result<usize, String> {
    let place = c.place()?;
    let memory = Memory::of(c.before);
    let touched = memory.touched(place.old);
    if touched.anything {
        return Err("something has an effect on others".into());
    }
    let found = Found::of(place.old);
    let own = |s: &&Computed| s.stmt.label().is_some_and(|l| l.as_str() == label);
    let mut left: Vec<&Computed> = found.all.iter().filter(own).collect();
    if left.is_empty() {
        return Err(format!("nothing computes `{label}`"));
    }
    let local: HashSet<BufId> = allocated(place.old).iter().map(|b| b.id).collect();
    let mut seen: HashSet<usize> = left.iter().map(|s| s.stmt.address()).collect();
    while let Some(s) = left.pop() {
        for p in found.reads(&memory, s) {
            match p {
                Place::Buffer(b) if local.contains(&b) => {
                    let more = found.all.iter().filter(|s| written_buffers(s.stmt).contains(&b));
                    left.extend(more.filter(|s| seen.insert(s.stmt.address())));
                }
                _ if touched.writes.contains(&p) => {
                    return Err(format!(
                        "something that `{label}` is computed from may be written meanwhile"
                    ));
                }
                Place::Buffer(_) | Place::Shared => {}
            }
        }
    }
    Ok(seen.len())
}

/// Whether only statements of a label write an array in the changed place, or touch it at all; a store that stands for the
/// first of its reductions, on the other branch, is one of them. Gives how many statements were examined.
///
/// # Errors
/// What could not be shown, in words.
pub fn only_by(c: &Change, label: &str, array: &str, reads: bool) -> Result<usize, String> {
    let place = c.place()?;
    let env = c.env(&place.path);
    let id = visible(&env, array).ok_or_else(|| format!("no array `{array}` is visible at the statement"))?;
    if Memory::of(c.before).touched(place.old).anything {
        return Err("something has an effect on others".into());
    }
    let (mut own, mut other, mut first) = (0, None, HashSet::new());
    let named = |s: &Stmt| s.label().is_some_and(|l| l.as_str() == label);
    visit::walk(place.old, &mut |s, _| {
        if let Some((_, then, Some(rest))) = s.as_if()
            && rest.as_reduce().is_some()
            && named(rest)
        {
            first.insert(then.address());
        }
        let writes = s.written().any(|v| v.buffer() == Some(id));
        let loads = || s.evaluated().into_iter().flat_map(loads_of).any(|a| a.view.buffer() == Some(id));
        if writes || reads && loads() {
            match named(s) || s.as_store().is_some() && first.contains(&s.address()) {
                true => own += 1,
                false => other = Some(s.clone()),
            }
        }
        true
    });
    match other {
        Some(_) => Err(format!("another statement than `{label}` touches `{array}`")),
        None if own == 0 => Err(format!("`{label}` does not touch `{array}`")),
        None => Ok(own),
    }
}

/// The innermost array of a name around a place.
fn visible(env: &Env, name: &str) -> Option<BufId> {
    let local = env.items.iter().rev().find_map(|i| match i {
        crate::env::Item::Alloc(b) if *b.name == *name => Some(b.id),
        _ => None,
    });
    local.or_else(|| env.func.array(name).map(|b| b.id))
}

/// A statement that touches memory, and what decides whether and for which iterations it runs.
struct Computed<'a> {
    stmt: &'a Stmt,
    around: Vec<&'a Expr>,
}

struct Found<'a> {
    all: Vec<Computed<'a>>,
    lets: HashMap<VarId, &'a Expr>,
}

impl<'a> Found<'a> {
    fn of(root: &'a Stmt) -> Found<'a> {
        let mut out = Found { all: Vec::new(), lets: HashMap::new() };
        let mut left: Vec<(&Stmt, Vec<&Expr>)> = vec![(root, Vec::new())];
        while let Some((stmt, around)) = left.pop() {
            if let Some((b, value, _)) = stmt.as_let() {
                out.lets.insert(b.id, value);
            }
            let mut inner = around.clone();
            if stmt.as_let().is_none() {
                inner.extend(stmt.evaluated());
            }
            left.extend(stmt.children().map(|c| (c, inner.clone())));
            if stmt.label().is_some() {
                out.all.push(Computed { stmt, around });
            }
        }
        out
    }

    /// The memory that a statement reads to compute its values, at its place and for its iterations.
    fn reads(&self, memory: &Memory, s: &Computed<'a>) -> HashSet<Place> {
        let mut out = HashSet::new();
        let mut left: Vec<&Expr> = s.stmt.evaluated();
        left.extend(&s.around);
        let mut seen: HashSet<VarId> = HashSet::new();
        while let Some(e) = left.pop() {
            out.extend(memory.read_by(e));
            left.extend(vars_of(e).iter().filter(|v| seen.insert(**v)).filter_map(|v| self.lets.get(v)));
        }
        out
    }
}
