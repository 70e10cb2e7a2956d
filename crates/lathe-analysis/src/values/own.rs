//! Arrays that a loop's iterations have each for itself, as parts of one.

use super::align::{Aligner, equal};
use super::layout::untouched;
use super::{Change, only_in};
use crate::env::{Env, Item};
use crate::solve::{Answer, Reduced, solve_from};
use crate::system::{Lin, ge, gt};
use crate::translate::Builder;
use lathe_ir::names;
use lathe_ir::visit::{self, loads_of, vars_of};
use lathe_ir::{Access, BufId, Buffer, Expr, Function, Stmt, VarId, View};
use lathe_poly::simplify::simplify_stmt;
use lathe_poly::{Linear, Ranges};
use std::collections::{HashMap, HashSet};

/// Whether the local arrays of a name that loops allocate anew in every iteration have become arrays outside of these
/// loops, of which every iteration has elements that no other one has: every access has the subscripts that it had after
/// some that tell the iterations apart. Gives how many accesses were examined.
///
/// # Errors
/// What could not be shown, in words.
pub fn elements_of_their_own(c: &Change, name: &str) -> Result<usize, String> {
    let place = c.place()?;
    let of = |a: &Stmt, b: &Stmt, is: &dyn Fn(&str) -> bool| {
        only_in(a, b).into_iter().filter(|b| is(&b.name)).collect::<Vec<_>>()
    };
    let old = of(place.old, place.new, &|n| n == name);
    // Side by side they have names of their own.
    let new = of(place.new, place.old, &|n| names::of_family(n, name));
    if old.is_empty() || old.len() != new.len() {
        return Err("not every array has become another one".into());
    }
    let env = c.env(&place.path);
    let mut back: HashMap<BufId, (BufId, usize)> = HashMap::new();
    let mut examined = 0;
    for (t, all) in old.iter().zip(&new) {
        let first = all.extents.len().checked_sub(t.extents.len()).ok_or("an array has fewer dimensions")?;
        if all.elem != t.elem || all.extents[first..] != t.extents[..] || !all.layout.is_row_major() {
            return Err(format!("the elements of `{name}` are others"));
        }
        back.insert(all.id, (t.id, first));
        let loops = between(place.old, t, place.new, all).ok_or("the loops between could not be followed")?;
        let mut found = Found { id: all.id, rank: first, own: None, env: &env, written: &place.written };
        let mut items = Vec::new();
        examined += found.see(place.new, &mut items)?;
        if let Some(own) = found.own {
            apart(&env, &place.written, &loops, &own, &all.extents)
                .map_err(|why| format!("`{name}` {why}"))?;
        }
    }
    let through: HashSet<BufId> = old.iter().chain(&new).map(|b| b.id).collect();
    let simpler = |f: &Function, s: &Stmt| simplify_stmt(s, &mut Ranges::at(f, &place.path));
    let compare = |before: &Stmt, after: &Stmt| {
        let after = visit::map_accesses(after, &mut |a| {
            let (to, first) = back.get(&a.view.buffer()?)?;
            let plain =
                a.view.buffer().is_some_and(|b| a.view == View::Buffer(b)) && a.indices.len() >= *first;
            plain.then(|| Access {
                view: View::Buffer(*to),
                indices: a.indices[*first..].to_vec(),
                ..a.clone()
            })
        });
        let none = HashSet::new();
        let (written, through) = (&place.written, &through);
        let mut aligner = Aligner {
            env: &env,
            written,
            through,
            tables: &none,
            uses: Vec::new(),
            blocks: Vec::new(),
            compared: 0,
        };
        aligner.stmts(&mut Vec::new(), before, &after)
    };
    compare(place.old, place.new).or_else(|why| {
        let (old, new) = (simpler(c.before, place.old), simpler(c.after, place.new));
        if old == *place.old && new == *place.new { Err(why) } else { compare(&old, &new) }
    })?;
    Ok(examined)
}

/// Whether nothing touches arrays of a name any more that the tree before had; gives how many that were.
///
/// # Errors
/// What could not be shown, in words.
pub fn unmentioned(c: &Change, name: &str) -> Result<usize, String> {
    let gone: Vec<_> =
        only_in(&c.before.body, &c.after.body).into_iter().filter(|b| &*b.name == name).collect();
    match gone.iter().find(|b| !untouched(c.after, b.id)) {
        _ if gone.is_empty() => Err(format!("`{name}` is still there")),
        Some(_) => Err(format!("something still touches `{name}`")),
        None => Ok(gone.len()),
    }
}

/// The loops of the old tree around the array that are not around the new one.
fn between<'a>(old: &'a Stmt, t: &Buffer, new: &'a Stmt, all: &Buffer) -> Option<Vec<Item<'a>>> {
    let around = around(old, t.id)?;
    let outside: HashSet<VarId> = self::around(new, all.id)?.iter().filter_map(Item::binds).collect();
    let inner: Vec<Item> =
        around.into_iter().filter(|i| i.binds().is_none_or(|v| !outside.contains(&v))).collect();
    inner.iter().all(|i| !matches!(i, Item::While(_) | Item::Opaque(_))).then_some(inner)
}

/// What surrounds the allocation of an array.
fn around(root: &Stmt, id: BufId) -> Option<Vec<Item<'_>>> {
    if root.allocated().is_some_and(|b| b.id == id) {
        return Some(Vec::new());
    }
    root.children().enumerate().find_map(|(n, child)| {
        let inner = around(child, id)?;
        Some(Item::entering(root, n).into_iter().chain(inner).collect())
    })
}

/// The first subscripts of all accesses to an array.
struct Found<'e> {
    id: BufId,
    rank: usize,
    own: Option<Vec<Expr>>,
    env: &'e Env<'e>,
    written: &'e HashSet<BufId>,
}

impl Found<'_> {
    fn see<'a>(&mut self, s: &'a Stmt, items: &mut Vec<Item<'a>>) -> Result<usize, String> {
        let (mut count, id) = (0, self.id);
        for (t, _) in s.touches().into_iter().filter(|(t, _)| t.buffer() == Some(id)) {
            self.access(t.element().ok_or("an array is given away as a whole")?, items)?;
            count += 1;
        }
        for a in s.exprs().into_iter().flat_map(loads_of).filter(|a| a.view.buffer() == Some(id)) {
            self.access(&a, items)?;
            count += 1;
        }
        if s.exprs().into_iter().any(visit::takes_address) {
            return Err("the address of an element is taken".into());
        }
        let around = items.len();
        for (n, child) in s.children().enumerate() {
            if s.as_seq().is_none() {
                items.truncate(around);
                items.extend(Item::entering(s, n));
            }
            count += self.see(child, items)?;
            items.extend(Item::after(child));
        }
        items.truncate(around);
        Ok(count)
    }

    fn access(&mut self, a: &Access, items: &[Item]) -> Result<(), String> {
        if a.view != View::Buffer(self.id) || a.indices.len() < self.rank {
            return Err("an array is used otherwise than by subscripts".into());
        }
        let now = &a.indices[..self.rank];
        let own = self.own.get_or_insert_with(|| now.to_vec());
        let (env, written) = (self.env, self.written);
        let same = own.iter().zip(now).all(|(x, y)| x == y || equal(env, written, items, x, y));
        if same { Ok(()) } else { Err("an access may touch the element of another iteration".into()) }
    }
}

/// Whether different iterations have different subscripts, which exist: each is the variable of a loop, but for what does
/// not change in the loops, and no loop is without one.
fn apart(
    env: &Env,
    written: &HashSet<BufId>,
    loops: &[Item],
    own: &[Expr],
    extents: &[Expr],
) -> Result<(), &'static str> {
    let all: HashSet<VarId> = loops.iter().filter_map(Item::binds).collect();
    let mut left: HashSet<VarId> =
        loops.iter().filter(|i| matches!(i, Item::Loop { .. })).filter_map(Item::binds).collect();
    for e in own {
        let form = Linear::of(e);
        let mut mine = form.terms.iter().filter(|t| !vars_of(&t.0).is_disjoint(&all));
        if let (Some((v, 1 | -1)), None) = (mine.next(), mine.next()) {
            v.as_var().map(|v| left.remove(&v));
        }
    }
    if !left.is_empty() {
        return Err("may have one element for two iterations");
    }
    let mut builder = Builder::new(written);
    let mut scope = builder.surroundings(env);
    for item in loops {
        builder.item(&mut scope, item);
    }
    let mut outside = Vec::new();
    for (e, extent) in own.iter().zip(extents) {
        let (at, n) = (builder.value(&mut scope, e), builder.value(&mut scope, extent));
        outside.extend([gt(&Lin::default(), &at), ge(&at, &n)]);
    }
    let mut state = Reduced::default();
    let system = &builder.system;
    let inside = !state.absorb(&system.cons)
        || outside.into_iter().all(|o| {
            o.is_some_and(|o| solve_from(&state, &[o], &system.clauses, system.columns) == Answer::Empty)
        });
    if inside { Ok(()) } else { Err("may have no element for an iteration") }
}
