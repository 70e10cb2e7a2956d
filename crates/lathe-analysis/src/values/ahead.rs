//! Software pipelining: what an iteration fills buffers with runs in an earlier one.
//!
//! The tree before is first brought to slots: its iterations run in order and each fills what it reads, so that it means
//! the same if they share a few slots by turns. What is left is another order of the same statements, for those who
//! decide about order: each statement of the body is one of the body of the tree before, at an iteration that its
//! instance says; every one of these runs once; every dependence, those through slots among them, stays ordered.

use super::align::{Aligner, equal, flat};
use super::layout::injective;
use super::{Change, Place, allocated};
use crate::env::{Env, Item};
use crate::order::order_preserved;
use crate::values::instances_preserved;
use lathe_diagnostics::Code;
use lathe_ir::visit::{self, Path, refresh, substitute_stmt, vars_of};
use lathe_ir::{
    Access, BufId, Buffer, Expr, Label, Loop, Stmt, StmtKind, Store, Type, VarId, View, build, lower,
};
use lathe_poly::simplify::simplify_stmt;
use lathe_poly::{Linear, Ranges};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Whether the buffers of these names, which every iteration of a loop had for itself, have become `slots` of as many
/// iterations around the loop, and whether everything that the body did is done once for every iteration, early enough and
/// not too early. Gives how many pairs of statements were examined.
///
/// # Errors
/// What could not be shown, in words.
pub fn filled_ahead(c: &Change, names: &[String], slots: i64) -> Result<usize, String> {
    let place = c.place()?;
    let l = place.old.as_loop().ok_or("something else than a loop was changed")?;
    if l.step != 1 || !l.exec.is_ordered() || slots < 1 {
        return Err("the iterations have no order".into());
    }
    let (mut units, mut buffers) = (Vec::new(), Vec::new());
    flat(&l.body, &mut units, &mut buffers);
    let (filled, own): (Vec<Arc<Buffer>>, Vec<Arc<Buffer>>) = buffers
        .iter()
        .filter_map(|s: &&Stmt| s.allocated().cloned())
        .partition(|b| names.contains(&b.name.to_string()));
    if names.iter().any(|n| filled.iter().all(|b| *b.name != **n)) {
        return Err("a buffer is not allocated in the body of the loop".into());
    }
    let rooms = rooms(c, &place, &filled, slots)?;
    let env = c.env(&place.path);
    let slot = |at: &Expr| build::floor_mod(build::sub(at.clone(), l.lo.clone()), build::index(slots));
    let ids = filled.iter().map(|b| b.id).collect();
    let own = own.iter().map(|b| b.id).collect();
    let mut follow = Follow { c, place: &place, env: &env, l, units: &units, ids, own, slot: &slot, seen: 0 };
    let now = follow.stmt(place.new, &mut place.path.clone(), &mut Vec::new(), false)?;
    if follow.seen == 0 {
        return Err("the loop is gone".into());
    }
    let k = build::var(&l.binder);
    let of = |body: Stmt| Stmt::of(StmtKind::Loop(Loop { body, ..l.clone() }));
    let was = of(Stmt::seq((0..units.len()).map(|n| unit(n, &k))));
    let why = |r: crate::OrderRefusal| r.to_diagnostic(Code(""), "").message;
    instances_preserved(&env, &was, &now).map_err(why)?;
    let turns = visit::map_accesses(&l.body, &mut |a| {
        let (view, at) = by_subscripts(a, &follow.ids)?;
        Some(Access { view, indices: std::iter::once(slot(&k)).chain(at).collect(), ..a.clone() })
    });
    let body = of(without(&turns, &follow.ids));
    let turns = rooms.iter().fold(body, |body, b| Stmt::of(StmtKind::Alloc { buffer: b.clone(), body }));
    let proof = order_preserved(&env, &turns, place.new).map_err(why)?;
    if !proof.used_licence.is_empty() {
        return Err("a reduction was reordered".into());
    }
    Ok(proof.pairs + units.len())
}

/// An access to one of some buffers, as one by subscripts alone.
fn by_subscripts(a: &Access, ids: &HashSet<BufId>) -> Option<(View, Vec<Expr>)> {
    a.view.buffer().filter(|b| ids.contains(b))?;
    let (id, indices) = lower::resolve(a).ok()?;
    Some((View::Buffer(id), indices))
}

/// The statement without the allocations of some buffers.
fn without(s: &Stmt, ids: &HashSet<BufId>) -> Stmt {
    visit::map_stmts(s, &mut |s| match s.as_alloc() {
        Some((b, body)) if ids.contains(&b.id) => body.clone(),
        _ => s,
    })
}

/// The buffers with their slots, as they are in the tree after; they have what each had, once for every slot.
fn rooms(c: &Change, place: &Place, filled: &[Arc<Buffer>], slots: i64) -> Result<Vec<Arc<Buffer>>, String> {
    let mut out = Vec::new();
    for b in filled {
        let wrong = || format!("`{}` has not the elements that it needs", b.name);
        let all: Vec<Arc<Buffer>> = allocated(place.new).into_iter().filter(|n| n.id == b.id).collect();
        let [room] = all.as_slice() else { return Err(wrong()) };
        let (first, rest) = room.extents.split_first().ok_or_else(wrong)?;
        if room.elem != b.elem || first.as_int() != Some(slots) || rest != b.extents {
            return Err(wrong());
        }
        if !room.layout.is_row_major() {
            injective(c, &place.path, room)?;
        }
        out.push(room.clone());
    }
    Ok(out)
}

/// Stands for one statement of the body, at an iteration.
fn unit(n: usize, iteration: &Expr) -> Stmt {
    Stmt::of(StmtKind::Store(Store {
        label: Label::new(format!("#{n}")),
        instance: vec![iteration.clone()],
        target: Access::buffer(BufId(u32::MAX), Type::INDEX, Vec::new()),
        value: build::index(0),
        nontemporal: false,
    }))
}

struct Follow<'e, 'a> {
    c: &'e Change<'a>,
    place: &'e Place<'a>,
    env: &'e Env<'a>,
    l: &'e Loop,
    units: &'e [&'a Stmt],
    /// Buffers with slots, and those that still live in one iteration.
    ids: HashSet<BufId>,
    own: HashSet<BufId>,
    slot: &'e dyn Fn(&Expr) -> Expr,
    /// How often the loop was found.
    seen: usize,
}

impl<'a> Follow<'_, 'a> {
    /// The tree after, with one statement for each of the body.
    fn stmt(
        &mut self,
        s: &'a Stmt,
        path: &mut Path,
        items: &mut Vec<Item<'a>>,
        inside: bool,
    ) -> Result<Stmt, String> {
        let through = s.as_seq().is_some()
            || s.allocated()
                .is_some_and(|b| if inside { self.own.contains(&b.id) } else { self.ids.contains(&b.id) });
        let the_loop = s.as_loop().filter(|x| !inside && x.binder == self.l.binder);
        if let Some(x) = the_loop {
            let same = |a: &Expr, b: &Expr| a == b || equal(self.env, &self.place.written, items, a, b);
            if x.step != 1 || x.exec != self.l.exec || !same(&x.lo, &self.l.lo) || !same(&x.hi, &self.l.hi) {
                return Err("the loop runs otherwise".into());
            }
            self.seen += 1;
        } else if !through {
            if let Some(found) = self.unit_at(s, path, items, inside) {
                return Ok(found);
            }
            if s.as_if().is_none() {
                return Err(match s.label() {
                    Some(l) => format!("`{l}` does something else than before"),
                    None => "a statement does something else than before".into(),
                });
            }
        }
        let inside = inside || the_loop.is_some();
        let around = items.len();
        let mut children = Vec::new();
        for (n, child) in s.children().enumerate() {
            if s.as_seq().is_none() {
                items.truncate(around);
                items.extend(Item::entering(s, n));
            }
            path.push(n);
            children.push(self.stmt(child, path, items, inside)?);
            path.pop();
            items.extend(Item::after(child));
        }
        items.truncate(around);
        if through { Ok(Stmt::seq(children)) } else { Ok(s.with_children(children)) }
    }

    /// Which statement of the body this is, and at which iteration.
    fn unit_at(&self, s: &Stmt, path: &Path, items: &[Item], inside: bool) -> Option<Stmt> {
        let k = &self.l.binder;
        let (n, at) = self.units.iter().enumerate().find_map(|(n, u)| {
            let same = inside.then(|| build::var(k));
            let told = self.iteration(u, s);
            let at = same.into_iter().chain(told).find(|at| self.is(u, at, s, path, items))?;
            Some((n, at))
        })?;
        Some(unit(n, &at))
    }

    /// The iteration that the first instance in a statement says.
    fn iteration(&self, unit: &Stmt, s: &Stmt) -> Option<Expr> {
        let first = |s: &Stmt| {
            let mut found: Option<(Label, Vec<Expr>)> = None;
            visit::walk(s, &mut |s, _| {
                if let (None, Some((l, i))) = (&found, s.labelled()) {
                    found = Some((l.clone(), i.to_vec()));
                }
                found.is_none()
            });
            found
        };
        let ((label, was), (same, now)) = (first(unit)?, first(s)?);
        let k = self.l.binder.id;
        (label == same).then_some(())?;
        was.iter().zip(&now).find_map(|(was, now)| {
            let form = Linear::of(was);
            let factor = form.factor(k);
            let rest = form.without(&build::var(&self.l.binder));
            if factor < 1 || rest.mentions(&bound(unit)) {
                return None;
            }
            let at = Linear::of(now).minus(&rest)?;
            let whole = at.constant % factor == 0 && !at.mentions(&bound(s));
            Some(at.divided(factor).filter(|_| whole)?.to_expr())
        })
    }

    /// Whether a statement is one of the body at an iteration, with the slots of that iteration.
    fn is(&self, unit: &Stmt, at: &Expr, s: &Stmt, path: &Path, items: &[Item]) -> bool {
        let slot = (self.slot)(at);
        let mut slots: Vec<Expr> = Vec::new();
        let mut plain = true;
        let back = visit::map_accesses(s, &mut |a| {
            a.view.buffer().filter(|b| self.ids.contains(b))?;
            let (first, rest) = a.indices.split_first()?;
            plain &= matches!(a.view, View::Buffer(_));
            if !slots.contains(first) {
                slots.push(first.clone());
            }
            Some(Access { indices: rest.to_vec(), ..a.clone() })
        });
        let own = bound(s);
        let written = &self.place.written;
        let turn = |x: &Expr| {
            vars_of(x).is_disjoint(&own) && (*x == slot || equal(self.env, written, items, x, &slot))
        };
        if !plain || !slots.iter().all(turn) {
            return false;
        }
        let unit = visit::map_accesses(unit, &mut |a| {
            let (view, indices) = by_subscripts(a, &self.ids)?;
            Some(Access { view, indices, ..a.clone() })
        });
        let there = substitute_stmt(&unit, &HashMap::from([(self.l.binder.id, at.clone())]));
        // Copies have binders of their own: with the same numbers, they can be compared.
        let first = self.c.before.next_id.max(self.c.after.next_id);
        let canonical = |s: &Stmt| refresh(s, &mut { first });
        let now = canonical(&back);
        self.same(&canonical(&there), &now, items) || {
            let there = simplify_stmt(&there, &mut Ranges::at(self.c.after, path));
            self.same(&canonical(&there), &now, items)
        }
    }

    fn same(&self, a: &Stmt, b: &Stmt, items: &[Item]) -> bool {
        let none = HashSet::new();
        let (env, written) = (self.env, &self.place.written);
        let mut aligner = Aligner {
            env,
            written,
            through: &none,
            tables: &none,
            uses: Vec::new(),
            blocks: Vec::new(),
            compared: 0,
        };
        a == b || aligner.stmts(&mut items.to_vec(), a, b).is_ok()
    }
}

/// The variables that a statement binds.
fn bound(s: &Stmt) -> HashSet<VarId> {
    let mut out = HashSet::new();
    visit::walk(s, &mut |s, _| {
        out.extend(s.binders().into_iter().map(|b| b.0.id));
        true
    });
    out
}
