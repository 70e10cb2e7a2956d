//! Local arrays that stand for windows of others. A step says which window; everything else is found in the trees: the
//! statement that the local array was put around, what fills it before that, and what is done with it behind.

use super::{Change, only_in};
use crate::env::{Env, Item};
use crate::leaves::{leaves, written_buffers};
use crate::memory::{Memory, Place as Cell};
use crate::mirror::{Again, Dimension, Mirror, Parts, Staged, erased, mirrors, partial_results, recomputes};
use crate::races::runs_apart;
use lathe_ir::stmt::Effects;
use lathe_ir::visit::{self, Path, loads_of};
use lathe_ir::{BufId, Buffer, Expr, Stmt, VarId, View, build};
use lathe_poly::simplify::simplify_stmt;
use lathe_poly::{Linear, Ranges};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Whether the new local array `buffer` stands for a window of `array` in the statement that it was put around: every
/// access goes to the position of its element, what is read was copied in or written before, what is written is copied
/// out, and nothing else is in the tree. Gives how many accesses were examined.
///
/// # Errors
/// What could not be shown, in words.
pub fn stands_for(c: &Change, array: &str, buffer: &str, window: &[Dimension]) -> Result<usize, String> {
    let around = Around::of(c, &[buffer])?;
    let (array, buffer) = (named(&around.env, array)?, around.made[0].clone());
    let pieces = around.pieces(&[(array.id, buffer.id)])?;
    let staged = Staged {
        before: &pieces.before,
        enter: &pieces.enter,
        used: &pieces.used,
        leave: &pieces.leave,
        lives_on: true,
    };
    let m = Mirror { array: &array, buffer: &buffer, window, own: Vec::new() };
    mirrors(&around.env, &staged, &m)
}

/// An array of a reduction, and the local array that holds its partial results: one more dimension before those of the
/// window.
pub struct Part<'a> {
    pub array: &'a str,
    pub buffer: &'a str,
    pub window: Vec<Dimension>,
}

/// Whether every contribution to the arrays in the statement that the new local arrays were put around goes to a partial
/// result of its own, number `own` (over variables of the statement), and these are combined in the end, each once. None
/// where partial results start from no identity. Gives how many accesses were examined.
pub fn combined_from(c: &Change, parts: &[Part], own: &Expr) -> Option<Result<usize, String>> {
    let names: Vec<&str> = parts.iter().map(|p| p.buffer).collect();
    let around = match Around::of(c, &names) {
        Ok(around) => around,
        Err(why) => return Some(Err(why)),
    };
    let arrays: HashSet<BufId> =
        parts.iter().filter_map(|p| named(&around.env, p.array).ok()).map(|b| b.id).collect();
    if begins(around.old, &arrays) { None } else { Some(combined(&around, parts, own)) }
}

fn combined(around: &Around, parts: &[Part], own: &Expr) -> Result<usize, String> {
    let (mut arrays, mut pairs) = (Vec::new(), Vec::new());
    for p in parts {
        let array = named(&around.env, p.array)?;
        let buffer = around.made.iter().find(|b| *b.name == *p.buffer).ok_or("a local array is missing")?;
        pairs.push((array.id, buffer.id));
        arrays.push((array, buffer.clone()));
    }
    let pieces = around.pieces(&pairs)?;
    let fills = |s: &&Stmt, id: BufId| written_buffers(s) == HashSet::from([id]);
    if !pieces.enter.iter().all(|s| pairs.iter().any(|p| fills(&s, p.1))) {
        return Err("something was added in front of the statement".into());
    }
    let combine = Stmt::seq(pieces.leave.iter().cloned());
    let mut examined = 0;
    for ((array, buffer), part) in arrays.iter().zip(parts) {
        let mut found = None;
        visit::walk(&pieces.used, &mut |s, _| {
            if let (None, Some(r)) = (&found, s.as_reduce()) {
                let n = r.targets.iter().position(|t| t.view == View::Buffer(buffer.id));
                found = n.map(|n| (r.clone(), n));
            }
            found.is_none()
        });
        let (r, n) = found.ok_or_else(|| format!("nothing is combined into `{}`", buffer.name))?;
        let types: Vec<_> = r.targets.iter().map(|t| t.elem.clone()).collect();
        let identity = lathe_ir::reduce::identity(around.env.module, &r.op, &types);
        let start = identity.and_then(|i| i.get(n).cloned()).ok_or("the operator has no identity")?;
        let init = Stmt::seq(pieces.enter.iter().filter(|s| fills(s, buffer.id)).cloned());
        let (op, before, used) = (&r.op, &pieces.before, &pieces.used);
        let p = Parts { op, start: &start, before, init: &init, used, combine: &combine, pairs: &pairs };
        let m = Mirror { array, buffer, window: &part.window, own: vec![own.clone()] };
        examined += partial_results(&around.env, &p, &m)?;
    }
    Ok(examined)
}

/// Whether a reduction into one of some arrays begins with its first element, which is stored in its place.
fn begins(s: &Stmt, arrays: &HashSet<BufId>) -> bool {
    let mut found = false;
    visit::walk(s, &mut |s, _| {
        if let Some((_, then, Some(other))) = s.as_if() {
            let reduces = other.as_reduce().is_some() && !written_buffers(other).is_disjoint(arrays);
            found |= reduces && !written_buffers(then).is_disjoint(arrays);
        }
        !found
    });
    found
}

/// Whether the nests that computed the local array `name` stand, restricted to a window, in front of a statement now that
/// holds all that reads it: every read finds the value that it found, and nothing that the nests read is written until
/// then. Gives how many accesses were examined.
///
/// # Errors
/// What could not be shown, in words.
pub fn computed_again(c: &Change, name: &str, window: &[Dimension]) -> Result<usize, String> {
    let place = c.place()?;
    let ([array], [buffer]) =
        (one_named(place.old, place.new, name)?, one_named(place.new, place.old, name)?);
    if !super::layout::untouched(c.after, array.id) {
        return Err(format!("`{name}` is still touched where it was"));
    }
    let found = path_of(place.new, buffer.id).ok_or("the local array is gone")?;
    let mut nests = Vec::new();
    let memory = Memory::of(c.before);
    let rest = without_nests(place.old, array.id, &memory, &mut nests)?;
    let (Some(before), Some(new)) = (visit::at(&rest, &found), visit::at(place.new, &found)) else {
        return Err("something else was changed".into());
    };
    if visit::replace_at(place.new, &found, before.clone()).as_ref() != Some(&rest) || nests.is_empty() {
        return Err("something else was changed".into());
    }
    let path: Path = place.path.iter().chain(&found).copied().collect();
    let simpler = |s: &Stmt| simplify_stmt(s, &mut Ranges::at(c.after, &path));
    let (_, body) = new.as_alloc().ok_or("the local array is gone")?;
    let pairs = [(array.id, buffer.id)];
    let pieces = split(body, before, &pairs)
        .or_else(|| split(body, &simpler(before), &pairs))
        .ok_or("the statement itself was changed")?;
    if !pieces.leave.is_empty() || pieces.enter.len() != nests.len() {
        return Err(format!("something else than what computes `{name}` was added"));
    }
    let mut was = HashMap::new();
    for nest in &nests {
        moved(nest, &array, window, &mut was)?;
    }
    let both: Vec<(Stmt, Stmt)> = nests.into_iter().zip(pieces.enter).collect();
    let again =
        Again { nests: &both, was: &was, before: &pieces.before, used: &pieces.used, simpler: &simpler };
    let m = Mirror { array: &array, buffer: &buffer, window, own: Vec::new() };
    recomputes(&Env::at(c.module, c.after, &path), &again, &m)
}

/// Whether the local array `name` has become one for each run of a statement inside, which holds a window of it: that
/// statement alone touched it, reads only what it wrote before, and touches nothing beyond the window. Gives how many
/// accesses were examined.
///
/// # Errors
/// What could not be shown, in words.
pub fn begins_empty(c: &Change, name: &str, window: &[Dimension]) -> Result<usize, String> {
    let place = c.place()?;
    let ([array], [buffer]) =
        (one_named(place.old, place.new, name)?, one_named(place.new, place.old, name)?);
    if !super::layout::untouched(c.after, array.id) {
        return Err(format!("`{name}` is touched outside of the statement"));
    }
    let changed = || "something else was changed".to_string();
    let outside = path_of(place.old, array.id).ok_or_else(changed)?;
    let (_, inner) = visit::at(place.old, &outside).and_then(Stmt::as_alloc).ok_or_else(changed)?;
    let rest = visit::replace_at(place.old, &outside, inner.clone()).ok_or_else(changed)?;
    let found = path_of(place.new, buffer.id).ok_or_else(changed)?;
    let before = visit::at(&rest, &found).ok_or_else(changed)?;
    let (_, used) = visit::at(place.new, &found).and_then(Stmt::as_alloc).ok_or_else(changed)?;
    if visit::replace_at(place.new, &found, before.clone()).as_ref() != Some(&rest) {
        return Err(changed());
    }
    let path: Path = place.path.iter().chain(&found).copied().collect();
    let pairs = [(array.id, buffer.id)];
    let simpler = || simplify_stmt(before, &mut Ranges::at(c.after, &path));
    let pieces =
        split(used, before, &pairs).or_else(|| split(used, &simpler(), &pairs)).ok_or_else(changed)?;
    if !pieces.enter.is_empty() || !pieces.leave.is_empty() {
        return Err("a statement was added".into());
    }
    let (before, used) = (&pieces.before, &pieces.used);
    let staged = Staged { before, enter: &[], used, leave: &[], lives_on: false };
    let m = Mirror { array: &array, buffer: &buffer, window, own: Vec::new() };
    mirrors(&Env::at(c.module, c.after, &path), &staged, &m)
}

/// The only local array of a name that the first statement has, and not the second.
fn one_named(a: &Stmt, b: &Stmt, name: &str) -> Result<[Arc<Buffer>; 1], String> {
    let all: Vec<_> = only_in(a, b).into_iter().filter(|b| *b.name == *name).collect();
    all.try_into().map_err(|_| format!("`{name}` did not become one local array"))
}

/// What the variables of the loops over the array's dimensions were, if those count from the window's start now.
fn moved(
    nest: &Stmt,
    array: &Buffer,
    window: &[Dimension],
    was: &mut HashMap<VarId, Expr>,
) -> Result<(), String> {
    for l in leaves(nest, &[array.id].into())? {
        for t in l.touches.iter().filter(|t| t.role.writes()) {
            for (e, d) in t.indices.iter().flatten().zip(window) {
                let form = Linear::of(e);
                let [(v, 1)] = form.terms.as_slice() else { continue };
                let from =
                    Linear::of(&d.lo).offset(form.constant.checked_neg().ok_or("numbers are too large")?);
                if let (Some(id), Some(from)) = (v.as_var(), from) {
                    was.insert(id, build::add(v.clone(), from.to_expr()));
                }
            }
        }
    }
    Ok(())
}

/// The statement without the allocation of an array and the nests that compute it: children of one sequence that do nothing
/// else, before everything that reads it. Nothing that they read is written between them and the last read.
fn without_nests(s: &Stmt, id: BufId, memory: &Memory, nests: &mut Vec<Stmt>) -> Result<Stmt, String> {
    if let Some((b, body)) = s.as_alloc() {
        let body = without_nests(body, id, memory, nests)?;
        return Ok(if b.id == id { body } else { s.with_child(0, body) });
    }
    let computes = |s: &&Stmt| touches(s, id, true) && !touches(s, id, false);
    let Some(all) = s.as_seq().filter(|all| all.iter().any(|s| computes(&s))) else {
        if s.as_loop().is_some() && touches(s, id, true) {
            return Err("a loop runs around what computes the array".into());
        }
        let children =
            s.children().map(|child| match touches(child, id, true) || touches(child, id, false) {
                true => without_nests(child, id, memory, nests),
                false if allocates(child, id) => without_nests(child, id, memory, nests),
                false => Ok(child.clone()),
            });
        return Ok(s.with_children(children.collect::<Result<_, _>>()?));
    };
    let (mut kept, mut read, mut between) = (Vec::new(), HashSet::new(), Vec::new());
    let last = all.iter().rposition(|s| touches(s, id, false)).unwrap_or(0);
    for (n, s) in all.iter().enumerate() {
        if !computes(&s) {
            if touches(s, id, true) {
                return Err("something else computes the array".into());
            }
            between.extend((n <= last && !nests.is_empty()).then_some(s));
            kept.push(s.clone());
            continue;
        }
        if n > last || kept.iter().any(|s| touches(s, id, false)) {
            return Err("the array is read before it is complete".into());
        }
        let own: HashSet<BufId> = super::allocated(s).iter().map(|b| b.id).chain([id]).collect();
        let mut pure = true;
        visit::walk(s, &mut |s, _| {
            pure &= s.own_effects().without(Effects::ALLOCATES).is_none() && s.as_compute().is_none();
            pure &= s.written().all(|v| v.buffer().is_some_and(|b| own.contains(&b)));
            pure
        });
        if !pure {
            return Err("what computes the array does more than that".into());
        }
        read.extend(memory.touched(s).reads.iter().copied());
        read.retain(|p| !own.iter().any(|b| *p == Cell::Buffer(*b)));
        nests.push(s.clone());
    }
    if memory.changing(&read, between.into_iter()).is_some() {
        return Err("something that the array is computed from is written before it would be computed".into());
    }
    Ok(Stmt::seq(kept))
}

fn allocates(s: &Stmt, id: BufId) -> bool {
    path_of(s, id).is_some()
}

/// Whether a statement writes elements of an array, or reads any by a load.
fn touches(s: &Stmt, id: BufId, writes: bool) -> bool {
    let mut found = false;
    visit::walk(s, &mut |s, _| {
        found |= match writes {
            true => s.written().any(|v| v.buffer() == Some(id)),
            false => s.exprs().into_iter().flat_map(loads_of).any(|a| a.view.buffer() == Some(id)),
        };
        !found
    });
    found
}

/// Whether nothing else touches `array` while the new local array `buffer` stands for a part of it: it shares its memory
/// with no other array, and what runs at the same time touches no element of it that is written meanwhile. Gives how many
/// pairs of accesses were examined.
///
/// # Errors
/// What could not be shown, in words.
pub fn shares_nothing(c: &Change, array: &str, buffer: &str) -> Result<usize, String> {
    let place = c.place()?;
    let made = only_in(place.new, place.old);
    let made = made.iter().find(|b| *b.name == *buffer).ok_or("the local array is gone")?;
    let inner = path_of(place.new, made.id).ok_or("the local array is gone")?;
    let path: Path = place.path.iter().chain(&inner).copied().collect();
    let array = named(&Env::at(c.module, c.after, &path), array)?;
    let aliased = |p: &lathe_ir::Param| p.alias.is_some() && p.array().is_some_and(|a| a.id == array.id);
    if c.after.params.iter().any(aliased) {
        return Err(format!("`{}` may alias another array", array.name));
    }
    let mut here = &c.after.body;
    for (n, position) in path.iter().enumerate() {
        if here.as_loop().is_some_and(|l| !l.exec.is_ordered()) {
            if !written_buffers(here).contains(&array.id) {
                break;
            }
            let env = Env::at(c.module, c.after, &path[..n]);
            return runs_apart(&env, here, array.id).map_err(|why| {
                format!(
                    "what runs at the same time may touch elements of `{}` that are copied: {why}",
                    array.name
                )
            });
        }
        here = here.child(*position).ok_or("the place is gone")?;
    }
    Ok(1)
}

/// Where an array is allocated in a statement.
fn path_of(s: &Stmt, id: BufId) -> Option<Path> {
    let mut found = None;
    visit::walk(s, &mut |s, p| {
        if found.is_none() && s.allocated().is_some_and(|b| b.id == id) {
            found = Some(p.to_vec());
        }
        found.is_none()
    });
    found
}

/// The innermost array of a name.
fn named(env: &Env, name: &str) -> Result<Arc<Buffer>, String> {
    let local = env.items.iter().rev().find_map(|i| match i {
        Item::Alloc(b) if *b.name == *name => Some((*b).clone()),
        _ => None,
    });
    let param = || env.func.params.iter().filter_map(|p| p.array()).find(|b| *b.name == *name).cloned();
    local.or_else(param).ok_or_else(|| format!("no array `{name}` is visible at the statement"))
}

/// The statement that a step put local arrays around.
struct Around<'a> {
    c: Change<'a>,
    path: Path,
    env: Env<'a>,
    old: &'a Stmt,
    made: Vec<Arc<Buffer>>,
    body: &'a Stmt,
}

/// What stands in a local array's allocation.
struct Pieces {
    /// The statement as it was, and with the local array.
    before: Stmt,
    used: Stmt,
    enter: Vec<Stmt>,
    leave: Vec<Stmt>,
}

impl<'a> Around<'a> {
    /// Nothing but this statement differs.
    fn of(c: &Change<'a>, names: &[&str]) -> Result<Around<'a>, String> {
        let place = c.place()?;
        let mut made = only_in(place.new, place.old);
        made.retain(|b| names.contains(&&*b.name));
        let outermost = made.first().filter(|_| made.len() == names.len());
        let at = outermost.and_then(|b| path_of(place.new, b.id)).ok_or("a local array is missing")?;
        let (Some(old), Some(new)) = (visit::at(place.old, &at), visit::at(place.new, &at)) else {
            return Err("something else was changed".into());
        };
        if visit::replace_at(place.new, &at, old.clone()).as_ref() != Some(place.old) {
            return Err("something else was changed".into());
        }
        let mut body = new;
        for b in &made {
            match body.as_alloc() {
                Some((inner, rest)) if inner.id == b.id => body = rest,
                _ => return Err("the local arrays do not live around one statement".into()),
            }
        }
        let path: Path = place.path.iter().chain(&at).copied().collect();
        let env = c.env(&path);
        Ok(Around { c: *c, path, env, old, made, body })
    }

    fn pieces(&self, pairs: &[(BufId, BufId)]) -> Result<Pieces, String> {
        // What rules make is simplified.
        let simpler = || simplify_stmt(self.old, &mut Ranges::at(self.c.before, &self.path));
        split(self.body, self.old, pairs)
            .or_else(|| split(self.body, &simpler(), pairs))
            .ok_or_else(|| "the statement itself was changed".to_string())
    }
}

/// Whether a statement does nothing but store and combine: it says nothing that others rely on.
fn moves(s: &Stmt) -> bool {
    let mut plain = true;
    visit::walk(s, &mut |s, _| {
        plain &= s.establishes().is_none() && s.own_effects().without(Effects::ALLOCATES).is_none();
        plain
    });
    plain
}

/// The statements of a sequence before and after those of `old`, which may go to local arrays now.
fn split(body: &Stmt, old: &Stmt, pairs: &[(BufId, BufId)]) -> Option<Pieces> {
    let sequence = |s: &Stmt| s.as_seq().map_or_else(|| vec![s.clone()], <[Stmt]>::to_vec);
    let all = sequence(body);
    let plain = |all: &[Stmt]| all.iter().map(|s| erased(s, pairs)).collect::<Vec<_>>();
    let (have, wanted) = (plain(&all), plain(&sequence(old)));
    let last = have.len().checked_sub(wanted.len())?;
    let first = (0..=last).find(|n| have[*n..*n + wanted.len()] == wanted)?;
    let (enter, rest) = all.split_at(first);
    let (used, leave) = rest.split_at(wanted.len());
    if !enter.iter().chain(leave).all(moves) {
        return None;
    }
    Some(Pieces {
        before: old.clone(),
        used: Stmt::seq(used.iter().cloned()),
        enter: enter.to_vec(),
        leave: leave.to_vec(),
    })
}
