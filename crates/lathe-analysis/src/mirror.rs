//! Whether a local buffer stands for a window of an array: the theorem under all steps that redirect accesses.
//!
//! A rule says which element stands where: position `p` of the buffer is element `lo + step * p`. Then nothing of how it
//! found that is believed. Every access that was redirected touches the position of the element that it touched; copies
//! go between an element and its position; every element that is read was copied in, or written before; every element
//! that is written is copied out, where the array lives on. Each of these is a question about integer points.

mod again;
mod parts;

pub(crate) use again::{Again, recomputes};
pub use parts::reads_apart;
pub(crate) use parts::{Parts, partial_results};

use crate::copy::{Copy, Place};
use crate::cover::{expand, uncovered};
use crate::defined::written_before_read;
use crate::env::{Env, Item};
use crate::isl_set::Projection;
use crate::leaves::{Leaf, Role, Touch, leaves, written_buffers};
use crate::solve::{Answer, Reduced, solve, solve_from};
use crate::system::{Conj, Lin, eq, ge, gt};
use crate::translate::{Builder, Scope};
use lathe_ir::visit::{self, Memo, loads_of, vars_of};
use lathe_ir::{Access, BufId, Buffer, Expr, ExprKind, Scalar, Status, Stmt, VarId, View, build};
use std::collections::HashSet;

/// One dimension of a window of an array: it holds the elements `lo + step * p` for positions `p` in `0..size`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    pub lo: Expr,
    pub size: Expr,
    pub step: i64,
}

/// Where elements of an array stand in a buffer.
pub(crate) struct Mirror<'a> {
    pub array: &'a Buffer,
    pub buffer: &'a Buffer,
    /// Over variables outside of the statement.
    pub window: &'a [Dimension],
    /// The first subscripts of the buffer, where it holds several copies of the window: over variables of the statement.
    pub own: Vec<Expr>,
}

/// A statement, and what it becomes: `enter` copies in, `used` is the statement with the buffer in the place of the
/// array, `leave` copies out.
pub(crate) struct Staged<'a> {
    pub before: &'a Stmt,
    pub enter: &'a [Stmt],
    pub used: &'a Stmt,
    pub leave: &'a [Stmt],
    /// Somebody may read the array afterwards.
    pub lives_on: bool,
}

/// Whether the buffer has, wherever it is read, the value that the array had there, and whether the array has all values
/// in the end that it had. Gives how many accesses were examined.
///
/// # Errors
/// What could not be shown, in words.
pub(crate) fn mirrors(env: &Env, s: &Staged, m: &Mirror) -> Result<usize, String> {
    Check { env, s, m, pairs: &[(m.array.id, m.buffer.id)], written: written_buffers(s.before) }.run()
}

/// What becomes of loads from the array in the statement itself.
#[derive(Clone, Copy, PartialEq)]
enum Loads {
    Redirected,
    /// They stay: they are from elements that the statement leaves alone.
    Kept,
    /// These and other accesses may stay.
    Either,
}

struct Check<'e> {
    env: &'e Env<'e>,
    s: &'e Staged<'e>,
    m: &'e Mirror<'e>,
    /// Arrays that go to buffers in the statement, this one among them.
    pairs: &'e [(BufId, BufId)],
    written: HashSet<BufId>,
}

/// Sets of positions, as conjunctions over the surroundings and one unknown per dimension.
struct Positions {
    dims: u32,
    parts: Vec<Conj>,
}

impl Check<'_> {
    fn run(&self) -> Result<usize, String> {
        let (array, buffer) = (self.m.array.id, self.m.buffer.id);
        if !self.m.own.is_empty() {
            return Err("one copy of a window is staged".into());
        }
        self.ranks()?;
        let mut examined = self.redirected(Loads::Either)? + self.others_apart()?;
        let (mut copied, mut filled) = (Vec::new(), Vec::new());
        for s in self.s.enter {
            for leaf in leaves(s, &[array, buffer].into())? {
                examined += 1;
                match self.copying(&leaf, false)? {
                    Some((when, cond)) => copied.push((leaf, when, cond)),
                    None => filled.push(leaf),
                }
            }
        }
        let mut left = Vec::new();
        for s in self.s.leave {
            for leaf in leaves(s, &[array, buffer].into())? {
                examined += 1;
                match self.copying(&leaf, true)? {
                    Some((when, _)) => left.push((leaf, when)),
                    None => return Err("the statement is followed by something other than a copy".into()),
                }
            }
        }
        let enter = self.positions(copied.iter().map(|(l, t, c)| (l, t, c.as_ref())), true)?;
        self.untouched(&enter, &filled)?;
        let used = leaves(self.s.used, &[buffer].into())?;
        let of = |writes: bool| {
            used.iter().flat_map(move |l| {
                let wanted = move |t: &&Touch| if writes { t.role.writes() } else { t.role != Role::Write };
                l.touches.iter().filter(wanted).map(move |t| (l, t, None))
            })
        };
        let reads = self.positions(of(false), false)?;
        let mut back = self.positions(left.iter().map(|(l, t)| (l, t, None)), false)?;
        let mut asked = reads.parts;
        asked.append(&mut back.parts);
        if !covered(enter.dims, &asked, &enter.parts) && !self.written_first() {
            return Err(format!(
                "an element of `{}` may be read that was neither copied in nor written before it",
                self.m.buffer.name
            ));
        }
        let writes = self.positions(of(true), false)?;
        self.inside(&writes)?;
        if self.s.lives_on {
            let left = self.positions(left.iter().map(|(l, t)| (l, t, None)), true)?;
            if !covered(writes.dims, &writes.parts, &left.parts) {
                return Err(format!(
                    "an element of `{}` may be written that is not copied out",
                    self.m.array.name
                ));
            }
        }
        Ok(examined)
    }

    fn ranks(&self) -> Result<(), String> {
        let rank = self.m.array.extents.len();
        let fits = self.m.window.len() == rank && self.m.buffer.extents.len() == self.m.own.len() + rank;
        if !fits {
            return Err("the window has another rank".into());
        }
        let room = &self.m.buffer.extents[self.m.own.len()..];
        let no_more = |(d, n): (&Dimension, &Expr)| d.size == *n || self.at_most(&d.size, n);
        if self.m.window.iter().zip(room).all(no_more) {
            Ok(())
        } else {
            Err(format!("`{}` is smaller than the window", self.m.buffer.name))
        }
    }

    /// Whether a number is never larger than another one, both outside of the statement.
    fn at_most(&self, a: &Expr, b: &Expr) -> bool {
        let mut builder = Builder::new(&self.written);
        let mut outer = builder.surroundings(self.env);
        let (a, b) = (builder.value(&mut outer, a), builder.value(&mut outer, b));
        let Some(larger) = gt(&a, &b) else { return false };
        builder.system.cons.push(larger);
        solve(&builder.system) == Answer::Empty
    }

    /// The statement is what it was but for the subscripts of redirected accesses, and these say the same.
    fn redirected(&self, loads: Loads) -> Result<usize, String> {
        let (array, buffer) = (self.m.array.id, self.m.buffer.id);
        if erased(self.s.before, self.pairs) != erased(self.s.used, self.pairs) {
            return Err("the statement itself was changed".into());
        }
        let kept = |load: bool| load && loads == Loads::Kept;
        let mut was = Vec::new();
        self.each(self.s.before, &mut Vec::new(), &mut |items, a, load| {
            if a.view.buffer() == Some(array) {
                was.push((items.to_vec(), a.clone(), kept(load)));
            }
        });
        let mut now = Vec::new();
        let mut missed = false;
        self.each(self.s.used, &mut Vec::new(), &mut |_, a, load| {
            let here = a.view.buffer().filter(|b| [array, buffer].contains(b));
            missed |= loads != Loads::Either && here.is_some_and(|b| (b == array) != kept(load));
            now.extend(here.map(|_| a.clone()));
        });
        if missed || was.len() != now.len() {
            return Err(format!("not every access to `{}` was redirected", self.m.array.name));
        }
        for ((items, a, kept), b) in was.iter().zip(&now) {
            if a == b && (*kept || loads == Loads::Either) {
                continue;
            }
            let plain = a.view == View::Buffer(array) && b.view == View::Buffer(buffer);
            let (own, at) = b.indices.split_at(self.m.own.len().min(b.indices.len()));
            let same_copy = own.len() == self.m.own.len()
                && own.iter().zip(&self.m.own).all(|(x, y)| self.equal(items, x, y));
            if !plain || !same_copy || !self.same_element(items, &a.indices, at) {
                return Err(format!(
                    "an access to `{}` may refer to a different element",
                    self.m.buffer.name
                ));
            }
        }
        Ok(was.len())
    }

    /// What still goes to the array, while the buffer stands for the window, writes nothing of the window, and reads
    /// nothing of it where the buffer is written. Gives how many accesses were examined.
    fn others_apart(&self) -> Result<usize, String> {
        let (array, buffer) = (self.m.array.id, self.m.buffer.id);
        let used = leaves(self.s.used, &[array, buffer].into())?;
        let all = || used.iter().flat_map(|l| l.touches.iter().map(move |t| (l, t)));
        let written = all().any(|(_, t)| t.buffer == buffer && t.role.writes());
        let mut examined = 0;
        for (l, t) in all().filter(|(_, t)| t.buffer == array && (written || t.role.writes())) {
            examined += 1;
            if !self.outside(l, t) {
                return Err(format!(
                    "`{}` may access an element of `{}` that `{}` stands for",
                    l.label, self.m.array.name, self.m.buffer.name
                ));
            }
        }
        Ok(examined)
    }

    /// An access to the array touches nothing of the window.
    fn outside(&self, leaf: &Leaf, touch: &Touch) -> bool {
        let (mut builder, outer, cell) = self.start();
        let mut x = Copy::new(&mut builder, &outer, leaf, &Place::of(touch));
        for (c, holds) in &touch.when {
            builder.assert(&mut x.scope, c, *holds);
        }
        let Some(indices) = touch.indices.as_ref().filter(|i| i.len() == cell.len()) else { return false };
        let mut scope = outer.clone();
        for ((e, c), d) in indices.iter().zip(&cell).zip(self.m.window) {
            let at = builder.value(&mut x.scope, e);
            let (lo, n) = (builder.value(&mut scope, &d.lo), builder.value(&mut scope, &d.size));
            let Some(there) = lo.combine(1, c, d.step) else { return false };
            builder.system.push(eq(&at, &there));
            builder.system.ge(c, &Lin::default());
            builder.system.push(gt(&n, c));
        }
        solve(&builder.system) == Answer::Empty
    }

    /// Every access of a subtree with what surrounds it, in a fixed order.
    /// `f` gets whether it is a load, and not an element that the statement names itself.
    fn each<'a>(
        &self,
        s: &'a Stmt,
        items: &mut Vec<Item<'a>>,
        f: &mut impl FnMut(&[Item<'a>], &Access, bool),
    ) {
        for (a, _) in s.accesses() {
            f(items, a, false);
        }
        for e in s.exprs() {
            for a in loads_of(e) {
                f(items, &a, true);
            }
        }
        let around = items.len();
        for (n, child) in s.children().enumerate() {
            if s.as_seq().is_none() {
                items.truncate(around);
                items.extend(Item::entering(s, n));
            }
            self.each(child, items, f);
            items.extend(Item::after(child));
        }
        items.truncate(around);
    }

    /// Whether positions are those of the elements: `lo + step * p == e` in every dimension, wherever this is evaluated.
    fn same_element(&self, items: &[Item], elements: &[Expr], positions: &[Expr]) -> bool {
        elements.len() == self.m.window.len()
            && positions.len() == elements.len()
            && elements.iter().zip(positions).zip(self.m.window).all(
                |((e, p), Dimension { lo, step, .. })| {
                    let mut names = Vec::new();
                    let e = self.abstracted(items, e, &mut names, true);
                    let p = self.abstracted(items, p, &mut names, false);
                    let there = build::add(lo.clone(), build::mul(p, build::index(*step)));
                    self.equal(items, &e, &there)
                },
            )
    }

    /// The expression with a variable for each outermost load; a load from the buffer has the variable of the one from
    /// the array that it stands for.
    fn abstracted(&self, items: &[Item], e: &Expr, names: &mut Vec<Access>, is_element: bool) -> Expr {
        self.abstracted_in(items, e, names, is_element, &mut Memo::default())
    }

    fn abstracted_in(
        &self,
        items: &[Item],
        e: &Expr,
        names: &mut Vec<Access>,
        is_element: bool,
        memo: &mut Memo<Expr>,
    ) -> Expr {
        memo.of(e, |memo| self.abstracted_node(items, e, names, is_element, memo))
    }

    fn abstracted_node(
        &self,
        items: &[Item],
        e: &Expr,
        names: &mut Vec<Access>,
        is_element: bool,
        memo: &mut Memo<Expr>,
    ) -> Expr {
        if let ExprKind::Load(a) = e.kind() {
            let known = names.iter().position(|n| {
                n == a
                    || (!is_element
                        && n.view == View::Buffer(self.m.array.id)
                        && a.view == View::Buffer(self.m.buffer.id)
                        && self.same_element(items, &n.indices, &a.indices))
            });
            let n = known.unwrap_or_else(|| {
                names.push(a.clone());
                names.len() - 1
            });
            // Numbers from the other end than those of the function's variables.
            let v = build::var_id(VarId(u32::MAX - n as u32), Scalar::Index);
            return if e.ty().is_index() { v } else { e.clone() };
        }
        let old = e.children();
        if old.is_empty() {
            return e.clone();
        }
        let new = old.into_iter().map(|c| self.abstracted_in(items, c, names, is_element, memo)).collect();
        e.with_children(new)
    }

    /// Whether two index expressions are equal wherever they are evaluated.
    fn equal(&self, items: &[Item], a: &Expr, b: &Expr) -> bool {
        crate::values::equal(self.env, &self.written, items, a, b)
    }

    /// What a copying statement copies: the access to the buffer, and under which condition; none for one that fills the
    /// buffer with a constant. Elements and positions correspond, and both exist.
    fn copying(&self, leaf: &Leaf, out: bool) -> Result<Option<(Touch, Option<Expr>)>, String> {
        let (array, buffer) = (self.m.array, self.m.buffer);
        let Some(store) = leaf.stmt.as_store() else { return Err("a copy is not a store".into()) };
        let (value, cond) = match store.value.kind() {
            ExprKind::Select(c, yes, no) if !out && loads_of(no).is_empty() => (yes, Some(c.clone())),
            _ => (&store.value, None),
        };
        let source = match value.kind() {
            ExprKind::Load(a) => Some(a),
            _ if loads_of(value).is_empty() && !out => None,
            _ => return Err("a copy computes something".into()),
        };
        let (element, position) =
            if out { (Some(&store.target), source) } else { (source, Some(&store.target)) };
        let Some(position) = position.filter(|p| p.view == View::Buffer(buffer.id)) else {
            return Err(format!("a copy does not access `{}`", buffer.name));
        };
        let touch = |a: &Access, role: Role| Touch {
            buffer: buffer.id,
            indices: Some(a.indices.clone()),
            role,
            depth: leaf.path.len(),
            items: leaf.items.len(),
            when: Vec::new(),
        };
        let at = touch(position, if out { Role::Read } else { Role::Write });
        let Some(element) = element else {
            self.exists(leaf, &position.indices, buffer.extents.iter(), &buffer.name, None)?;
            return Ok(None);
        };
        if element.view != View::Buffer(array.id) {
            return Err(format!("a copy does not access `{}`", array.name));
        }
        let ends: Vec<&Expr> =
            if cond.is_some() { buffer.extents.iter().collect() } else { self.ends().collect() };
        self.exists(leaf, &position.indices, ends.into_iter(), &buffer.name, None)?;
        self.exists(leaf, &element.indices, array.extents.iter(), &array.name, cond.as_ref())?;
        if !self.same_element(&leaf.items, &element.indices, &position.indices) {
            return Err(format!("`{}` stores an element at the position of another", leaf.label));
        }
        Ok(Some((at, cond)))
    }

    /// Subscripts of a copy are inside of an array.
    fn exists<'x>(
        &self,
        leaf: &Leaf,
        at: &[Expr],
        ends: impl Iterator<Item = &'x Expr>,
        name: &str,
        cond: Option<&Expr>,
    ) -> Result<(), String> {
        let mut builder = Builder::new(&self.written);
        let outer = builder.surroundings(self.env);
        let mut x = Copy::new(&mut builder, &outer, leaf, &Place::own(leaf));
        if let Some(c) = cond {
            builder.assert(&mut x.scope, c, true);
        }
        for (e, end) in at.iter().zip(ends) {
            let (i, n) = (builder.value(&mut x.scope, e), builder.value(&mut x.scope, end));
            for outside in [gt(&Lin::default(), &i), ge(&i, &n)] {
                let mut system = builder.system.clone();
                system.push(outside);
                if solve(&system) != Answer::Empty {
                    return Err(format!("`{}` may touch elements of `{name}` that do not exist", leaf.label));
                }
            }
        }
        Ok(())
    }

    /// A system whose first unknowns are the surroundings, what is not affine in them, and a position.
    fn start(&self) -> (Builder<'_>, Scope, Vec<Lin>) {
        let mut builder = Builder::new(&self.written);
        let mut outer = builder.surroundings(self.env);
        let fixed: HashSet<VarId> = self.env.items.iter().filter_map(Item::binds).collect();
        let mut share = |e: &Expr| {
            visit::walk_expr(e, &mut |x| {
                if x.ty().is_index() && !vars_of(x).is_empty() && vars_of(x).is_subset(&fixed) {
                    builder.value(&mut outer, x);
                }
            });
        };
        self.m.array.extents.iter().chain(&self.m.buffer.extents).for_each(&mut share);
        self.m.window.iter().flat_map(|w| [&w.lo, &w.size]).for_each(&mut share);
        for s in self.s.enter.iter().chain(self.s.leave) {
            visit::walk(s, &mut |s, _| {
                s.exprs().into_iter().for_each(&mut share);
                true
            });
        }
        let cell = self.m.buffer.extents.iter().map(|_| Lin::atom(builder.system.fresh())).collect();
        builder.system.exact = true;
        (builder, outer, cell)
    }

    /// The positions that accesses touch. With `exactly`, only those that surely are; else at most these: elements that
    /// the program touches exist.
    fn positions<'l, 'a: 'l>(
        &self,
        all: impl Iterator<Item = (&'l Leaf<'a>, &'l Touch, Option<&'l Expr>)>,
        exactly: bool,
    ) -> Result<Positions, String> {
        let start = self.start();
        let dims = start.0.system.columns;
        let mut parts = Vec::new();
        for (leaf, touch, cond) in all {
            let (mut builder, outer, cell) = start.clone();
            let shared = builder.shared();
            let mut x = Copy::new(&mut builder, &outer, leaf, &Place::of(touch));
            for (c, holds) in &touch.when {
                builder.assert(&mut x.scope, c, *holds);
            }
            if let Some(c) = cond {
                builder.assert(&mut x.scope, c, true);
            }
            let Some(indices) = &touch.indices else { return Err("an access cannot be analyzed".into()) };
            for (e, c) in indices.iter().zip(&cell) {
                let at = builder.value(&mut x.scope, e);
                builder.system.push(eq(&at, c));
            }
            if exactly && (!builder.system.exact || builder.shared() > shared) {
                continue;
            }
            if !exactly {
                let mut scope = outer.clone();
                let at = &cell[self.m.own.len()..];
                for ((c, d), extent) in at.iter().zip(self.m.window).zip(&self.m.array.extents) {
                    let (lo, n) = (builder.value(&mut scope, &d.lo), builder.value(&mut scope, extent));
                    let Some(at) = lo.combine(1, c, d.step) else { continue };
                    builder.system.ge(&at, &Lin::default());
                    builder.system.push(gt(&n, &at));
                }
            }
            expand(&builder.system, dims, &mut parts)?;
        }
        Ok(Positions { dims, parts })
    }

    /// What fills the buffer with constants overwrites no copy.
    fn untouched(&self, copied: &Positions, filled: &[Leaf]) -> Result<(), String> {
        if filled.is_empty() {
            return Ok(());
        }
        let mut constants = Vec::new();
        for leaf in filled {
            let touches = leaf.touches.iter().filter(|t| t.buffer == self.m.buffer.id);
            constants.extend(self.positions(touches.map(|t| (leaf, t, None)), false)?.parts);
        }
        for a in &copied.parts {
            for b in &constants {
                let mut state = Reduced::default();
                // Unknowns beyond the shared ones are other ones in each.
                let columns =
                    1 + a.iter().chain(b).flat_map(|c| &c.lin.terms).map(|t| t.0).max().unwrap_or(0);
                let b: Conj = b.iter().map(|c| c.moved(copied.dims, columns)).collect();
                if state.absorb(a)
                    && state.absorb(&b)
                    && solve_from(&state, &[], &[], 2 * columns) != Answer::Empty
                {
                    return Err(format!(
                        "elements of `{}` are overwritten after they were copied in",
                        self.m.buffer.name
                    ));
                }
            }
        }
        Ok(())
    }

    /// The ends of the positions of the window in each dimension of the buffer.
    fn ends(&self) -> impl Iterator<Item = &Expr> {
        let own = self.m.buffer.extents.iter().take(self.m.own.len());
        own.chain(self.m.window.iter().map(|d| &d.size))
    }

    /// Positions that are touched are in the window.
    fn inside(&self, writes: &Positions) -> Result<(), String> {
        let (mut builder, mut outer, cell) = self.start();
        let columns = |parts: &[Conj]| {
            let all = parts.iter().flatten().flat_map(|c| &c.lin.terms);
            1 + all.map(|t| t.0).max().unwrap_or(0).max(writes.dims)
        };
        for (c, end) in cell.iter().zip(self.ends()) {
            let n = builder.value(&mut outer, end);
            for part in &writes.parts {
                for outside in [gt(&Lin::default(), c), ge(c, &n)] {
                    let mut state = Reduced::default();
                    let more: Conj = outside.into_iter().collect();
                    if more.is_empty() {
                        return Err("numbers grow too large".into());
                    }
                    if state.absorb(part)
                        && solve_from(
                            &state,
                            &more,
                            &builder.system.clauses,
                            columns(&writes.parts).max(builder.system.columns),
                        ) != Answer::Empty
                    {
                        return Err(format!(
                            "an element may be accessed that `{}` has no position for",
                            self.m.buffer.name
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Everything that is read from the buffer was surely written before.
    fn written_first(&self) -> bool {
        let parts = self.s.enter.iter().chain([self.s.used]).chain(self.s.leave).cloned();
        written_before_read(self.env, &Stmt::seq(parts), self.m.buffer, None)
    }
}

/// The statement with nothing but the array for every access to an array or the buffer that it goes to.
pub(crate) fn erased(s: &Stmt, pairs: &[(BufId, BufId)]) -> Stmt {
    visit::map_accesses(s, &mut |a| {
        let View::Buffer(id) = a.view else { return None };
        let (array, _) = pairs.iter().find(|p| p.0 == id || p.1 == id)?;
        Some(Access { status: Status::Proved, ..Access::buffer(*array, a.elem.clone(), Vec::new()) })
    })
}

/// Every point of `a` is one of `b`, in the first unknowns.
fn covered(dims: u32, a: &[Conj], b: &[Conj]) -> bool {
    if b.is_empty() {
        return a.iter().all(|x| {
            let columns = x.iter().flat_map(|c| &c.lin.terms).map(|t| t.0 + 1).max().unwrap_or(0).max(dims);
            let mut state = Reduced::default();
            !state.absorb(x) || solve_from(&state, &[], &[], columns) == Answer::Empty
        });
    }
    a.is_empty()
        || matches!(uncovered(&Projection { dims, parts: a }, &Projection { dims, parts: b }), Some(None))
}
