//! Definedness: outputs are written everywhere, and nothing is read before it is written.

use crate::budget::within_work;
use crate::codes::{UNINITIALIZED, UNWRITTEN};
use crate::copy::{Copy, Place, earlier, equal};
use crate::cover::{expand, uncovered};
use crate::env::{Env, Item};
use crate::isl_set::Projection;
use crate::leaves::{Leaf, Level, Relative, Role, Touch, buffer_indices, leaves, relate, written_buffers};
use crate::refusal::{instance_text, sizes_text};
use crate::system::{Conj, Lin, eq, gt};
use crate::translate::{Builder, Scope};
use crate::view::Written;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::summary::Base;
use lathe_ir::visit::{vars_of, walk};
use lathe_ir::{
    Arg, BufId, Buffer, Combine, Executor, Expr, Function, Mode, Module, Name, Stmt, StmtKind, VarId, View,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What all questions about a function may take.
const WORK: u64 = 40_000_000;

/// Outputs whose cells are not all written on every run, with one unwritten cell and sizes; and reads
/// of outputs and local arrays before they are written, where that can be decided.
pub fn prove_defined(module: &Module, func: &Function) -> Vec<Diagnostic> {
    within_work(WORK, || defined(module, func))
}

fn defined(module: &Module, func: &Function) -> Vec<Diagnostic> {
    let mut env = Env::root(module, func);
    // Facts about the sizes, wherever the body begins with them.
    func.body.as_seq().unwrap_or(&[]).iter().for_each(|s| env.pass(s));
    let written = written_buffers(&func.body);
    let mut out = Vec::new();
    let mut followed: Vec<Arc<Buffer>> = Vec::new();
    for buffer in func.params.iter().filter(|p| p.mode == Mode::Out).filter_map(|p| p.array()) {
        match unwritten(&env, &written, buffer, &func.body) {
            Some(d) => out.push(d),
            None => followed.push(buffer.clone()),
        }
    }
    walk(&func.body, &mut |s, _| {
        followed.extend(s.allocated().cloned());
        true
    });
    let ids: HashSet<BufId> = followed.iter().map(|b| b.id).collect();
    // What cannot be followed (barriers, calls) is left to the interpreter.
    let Ok(all) = leaves(&func.body, &ids) else { return out };
    let mut touching: HashMap<BufId, Vec<&Leaf>> = HashMap::new();
    for leaf in &all {
        let mut seen = HashSet::new();
        for t in leaf.touches.iter().filter(|t| seen.insert(t.buffer)) {
            touching.entry(t.buffer).or_default().push(leaf);
        }
    }
    for buffer in &followed {
        let of = touching.get(&buffer.id).map(Vec::as_slice).unwrap_or(&[]);
        out.extend(uninitialized(&env, &written, buffer, of));
    }
    out
}

/// A write that is executed whenever its surroundings say so.
#[derive(Clone)]
struct Sure<'a> {
    items: Vec<Item<'a>>,
    cells: Cells<'a>,
}

#[derive(Clone)]
enum Cells<'a> {
    All,
    At(Vec<Expr>),
    /// What is in both, for the same values of the names around: what the branches of a condition write, whatever it
    /// says.
    Both(Arc<(Sure<'a>, Sure<'a>)>),
}

impl<'a> Sure<'a> {
    /// The surroundings without the names that neither the rest of them nor the subscripts use: such a name may
    /// stand for anything, say for data, and takes nothing away. With all names that they and the subscripts use.
    fn relevant(&self) -> (Vec<&Item<'a>>, HashSet<VarId>) {
        let mut used: HashSet<VarId> = match &self.cells {
            Cells::All => HashSet::new(),
            Cells::At(indices) => indices.iter().flat_map(vars_of).collect(),
            Cells::Both(both) => both.0.relevant().1.into_iter().chain(both.1.relevant().1).collect(),
        };
        let mut out = Vec::new();
        for item in self.items.iter().rev() {
            match item {
                Item::Let(b, value) if used.contains(&b.id) => used.extend(vars_of(value)),
                Item::Let(..) => continue,
                Item::Loop { lo, hi, .. } => used.extend(vars_of(lo).union(&vars_of(hi))),
                Item::Cond(e, _) | Item::While(e) | Item::Fact(e, _) | Item::Checked(e) => {
                    used.extend(vars_of(e))
                }
                Item::Size(_) | Item::Scalar(_) | Item::Opaque(_) | Item::Alloc(_) => {}
            }
            out.push(item);
        }
        out.reverse();
        (out, used)
    }

    /// Says that a cell is one of those that are written.
    fn holds(&self, builder: &mut Builder, scope: &mut Scope, cell: &[Lin]) {
        for item in self.relevant().0 {
            builder.item(scope, item);
        }
        match &self.cells {
            Cells::All => {}
            Cells::At(indices) => {
                for (c, e) in cell.iter().zip(indices) {
                    let at = builder.value(scope, e);
                    builder.system.eq(c, &at);
                }
            }
            Cells::Both(both) => {
                both.0.holds(builder, &mut scope.clone(), cell);
                both.1.holds(builder, scope, cell);
            }
        }
    }

    /// Whether two statements right in their branches write the same element.
    fn is(&self, other: &Sure) -> bool {
        matches!((&self.cells, &other.cells), (Cells::At(x), Cells::At(y)) if x == y)
            && self.items.is_empty()
            && other.items.is_empty()
    }

    /// What two branches write, with the items around both.
    fn both(items: &[Item<'a>], a: &Sure<'a>, b: &Sure<'a>) -> Option<Sure<'a>> {
        // Other constants are other cells.
        if let (Cells::At(x), Cells::At(y)) = (&a.cells, &b.cells)
            && x.iter().zip(y).any(|(x, y)| differ(x, y))
        {
            return None;
        }
        Some(Sure { items: items.to_vec(), cells: Cells::Both(Arc::new((a.clone(), b.clone()))) })
    }
}

fn differ(a: &Expr, b: &Expr) -> bool {
    matches!((a.as_int(), b.as_int()), (Some(a), Some(b)) if a != b)
}

/// Pairs of writes, one of each branch of a condition, that are looked at.
const MAX_PAIRS: usize = 256;

/// Elements of an output that are not certain to be written.
fn unwritten(env: &Env, written: &Written, buffer: &Arc<Buffer>, body: &Stmt) -> Option<Diagnostic> {
    let mut finder = Finder { env, written, buffer: buffer.id, unsure: false };
    let writes = finder.writes(body, &mut Vec::new());
    let start = |shared: &[Expr]| {
        let mut builder = Builder::new(written);
        let mut outer = builder.surroundings(env);
        builder.share(&mut outer, shared);
        let extents: Vec<Lin> = buffer.extents.iter().map(|e| builder.value(&mut outer, e)).collect();
        let cell: Vec<Lin> = extents.iter().map(|_| Lin::atom(builder.system.fresh())).collect();
        for (c, n) in cell.iter().zip(&extents) {
            builder.system.ge(c, &Lin::default());
            builder.system.push(gt(n, c));
        }
        (builder, outer, cell)
    };
    let written_cells = |w: &Sure, shared: &[Expr]| {
        let (mut builder, mut scope, cell) = start(shared);
        w.holds(&mut builder, &mut scope, &cell);
        builder
    };
    // Values that are not affine are the same for the cells and for all writes.
    let mut shared: Vec<Expr> = Vec::new();
    for w in &writes {
        let met = written_cells(w, &shared).shared_values();
        shared.extend(met.into_iter().filter(|e| !shared.contains(e)).collect::<Vec<_>>());
    }
    let (builder, outer, cell) = start(&shared);
    let dims = builder.system.columns;
    let (mut all, mut sure) = (Vec::new(), Vec::new());
    // A value that is not affine may never be what the cell needs.
    let mut unsure = !shared.is_empty() || finder.unsure;
    unsure |= expand(&builder.system, dims, &mut all).is_err();
    for w in &writes {
        let builder = written_cells(w, &shared);
        if !builder.system.exact || expand(&builder.system, dims, &mut sure).is_err() {
            unsure = true;
        }
    }
    let found = uncovered(&Projection { dims, parts: &all }, &Projection { dims, parts: &sure });
    let name = &buffer.name;
    let message = match &found {
        Some(None) => return None,
        Some(Some(point)) if !unsure => {
            let at: Vec<i64> = cell.iter().filter_map(|c| c.at(point)).collect();
            format!("`{}` is never written{}", instance_text(name, &at), with_values(env, &outer, point))
        }
        _ => format!("`{name}` cannot be shown to be fully written"),
    };
    Some(
        Diagnostic::error(UNWRITTEN, message)
            .at_places(&places_of_writes(body, buffer.id), "written here")
            .note("the elements of an output are undefined until the kernel writes them")
            .help(format!("make `{name}` `inout` to keep the caller's values, or write a default first")),
    )
}

struct Finder<'e, 'w> {
    env: &'e Env<'e>,
    written: &'w Written,
    buffer: BufId,
    /// A write was found that may not happen, or may not be where it seems.
    unsure: bool,
}

impl Finder<'_, '_> {
    fn writes<'a>(&mut self, s: &'a Stmt, items: &mut Vec<Item<'a>>) -> Vec<Sure<'a>> {
        let mut within = |f: &mut Self, child: &'a Stmt, item: Option<Item<'a>>| {
            let n = items.len();
            items.extend(item);
            let out = f.writes(child, items);
            items.truncate(n);
            out
        };
        match s.kind() {
            StmtKind::Seq(_)
            | StmtKind::Let { .. }
            | StmtKind::Loop(_)
            | StmtKind::Alloc { .. }
            | StmtKind::Token { .. }
            | StmtKind::Async { .. }
            | StmtKind::Atomic(_) => {
                // Where a buffer lives does not decide whether something is written.
                let item = |n| Item::entering(s, n).filter(|i| !matches!(i, Item::Alloc(_)));
                s.children().enumerate().flat_map(|(n, c)| within(self, c, item(n))).collect()
            }
            StmtKind::If { cond, then, other } => {
                let yes = within(self, then, Some(Item::Cond(cond, true)));
                let no = other.as_ref().map(|o| within(self, o, Some(Item::Cond(cond, false))));
                if self.expressible(cond) {
                    return yes.into_iter().chain(no.into_iter().flatten()).collect();
                }
                // Whatever the data say, what both branches write is written.
                let depth = items.len();
                let inner = |mut w: Sure<'a>| {
                    w.items.drain(..=depth);
                    w
                };
                let yes: Vec<Sure> = yes.into_iter().map(inner).collect();
                let no: Vec<Sure> = no.into_iter().flatten().map(inner).collect();
                let same = |a: &Sure, all: &[Sure]| all.iter().any(|b| a.is(b));
                self.unsure |= !(yes.iter().all(|w| same(w, &no)) && no.iter().all(|w| same(w, &yes)));
                if yes.len() * no.len() > MAX_PAIRS {
                    self.unsure = true;
                    return Vec::new();
                }
                let mut out = Vec::new();
                for a in &yes {
                    match same(a, &no) {
                        true => out.push(Sure { items: items.clone(), cells: a.cells.clone() }),
                        false => out.extend(no.iter().filter_map(|b| Sure::both(items, a, b))),
                    }
                }
                out
            }
            StmtKind::While { body, .. } => {
                self.unsure |= !within(self, body, None).is_empty();
                Vec::new()
            }
            StmtKind::Store(st) => {
                if st.target.view.buffer() != Some(self.buffer) {
                    return Vec::new();
                }
                let indices = buffer_indices(&st.target.view, &st.target.indices);
                self.unsure |= indices.is_none();
                let sure = |indices| Sure { items: items.clone(), cells: Cells::At(indices) };
                indices.into_iter().map(sure).collect()
            }
            StmtKind::Compute(c) => {
                if c.update.is_some() {
                    return Vec::new();
                }
                let reduced = c.dims.iter().any(|d| matches!(d.combine, Combine::Reduce(_)));
                let mut here = items.clone();
                for d in c.dims.iter().filter(|d| !matches!(d.combine, Combine::Reduce(_))) {
                    let (lo, hi) = (&d.lo, &d.hi);
                    here.push(Item::Loop { binder: &d.binder, lo, hi, step: 1, exec: &Executor::Serial });
                }
                // With a reduction, cells without any instance get the identity.
                if let (Some(g), false) = (&c.guard, reduced) {
                    here.push(Item::Cond(g, true));
                }
                let targets = c.targets.iter().filter(|t| t.view.buffer() == Some(self.buffer));
                targets
                    .filter_map(|t| buffer_indices(&t.view, &t.indices))
                    .map(|indices| Sure { items: here.clone(), cells: Cells::At(indices) })
                    .collect()
            }
            StmtKind::Call { function, args } => {
                let Some(callee) = self.env.module.callee(function) else { return Vec::new() };
                // A region that is declared for an output says that no more of it is written.
                let part = |b: &Buffer| {
                    let touches = callee.summary.map_or(&[][..], |s| &s.touches);
                    touches.iter().any(|t| t.base == Base::Param(b.id) && t.region.is_some())
                };
                let whole = args.iter().zip(callee.params).any(|(a, p)| {
                    p.mode == Mode::Out
                        && !p.array().is_some_and(|b| part(b))
                        && matches!(a, Arg::View(View::Buffer(b)) if *b == self.buffer)
                });
                if whole { vec![Sure { items: items.clone(), cells: Cells::All }] } else { Vec::new() }
            }
            // They read what they write, so that what was there before must be defined; or write nothing.
            StmtKind::Reduce(_)
            | StmtKind::Check { .. }
            | StmtKind::Assume { .. }
            | StmtKind::Barrier { .. }
            | StmtKind::Prefetch(_)
            | StmtKind::Wait { .. } => Vec::new(),
        }
    }

    /// Whether a condition can be stated exactly (its variables may be anything).
    fn expressible(&self, cond: &Expr) -> bool {
        let mut builder = Builder::new(self.written);
        builder.assert(&mut Scope::default(), cond, true);
        builder.assert(&mut Scope::default(), cond, false);
        builder.system.exact
    }
}

/// A read of a buffer that no earlier write reaches; `leaves` are those that touch it.
fn uninitialized(env: &Env, written: &Written, buffer: &Arc<Buffer>, leaves: &[&Leaf]) -> Option<Diagnostic> {
    leaves.iter().find_map(|leaf| {
        let mut asked = leaf.touches.iter().filter(|t| reads(t, buffer));
        asked.find_map(|touch| unreached(env, written, buffer, leaves, (leaf, touch)))
    })
}

fn reads(t: &Touch, buffer: &Buffer) -> bool {
    t.buffer == buffer.id && matches!(t.role, Role::Read | Role::Combine { .. })
}

/// Whether every element of a buffer that the statement reads, or that its statements of one label read, was surely
/// written before, within the statement. Iterations without an order count as none before another; what cannot be
/// followed or decided counts as not written.
pub fn written_before_read(env: &Env, root: &Stmt, buffer: &Buffer, by: Option<&str>) -> bool {
    let written = written_buffers(root);
    let Ok(all) = leaves(root, &[buffer.id].into()) else { return false };
    let all: Vec<&Leaf> = all.iter().filter(|l| l.touches.iter().any(|t| t.buffer == buffer.id)).collect();
    let both = in_both_branches(&all, buffer.id);
    let writers: Vec<&Leaf> = all.iter().copied().chain(&both).collect();
    let readers = all.iter().filter(|l| by.is_none_or(|label| l.label.as_str() == label));
    readers
        .flat_map(|leaf| leaf.touches.iter().map(move |t| (leaf, t)))
        .filter(|x| x.1.buffer == buffer.id && x.1.role != Role::Write)
        .all(|(leaf, touch)| reached(env, &written, buffer, &writers, (leaf, touch)).is_some_and(|yes| yes))
}

/// Writes that both branches of a condition do, as writes that happen whatever it says.
pub(crate) fn in_both_branches<'a>(all: &[&Leaf<'a>], buffer: BufId) -> Vec<Leaf<'a>> {
    let writes = |l: &Leaf| {
        let own = l.touches.iter().filter(|t| t.buffer == buffer && t.role == Role::Write);
        own.filter_map(|t| t.indices.clone()).collect::<Vec<_>>()
    };
    // The condition right around a leaf: how many steps lead to its `if`.
    let condition = |l: &Leaf| {
        let Some(Item::Cond(..)) = l.items.last() else { return None };
        let conditions = l.items.iter().filter(|i| matches!(i, Item::Cond(..))).count();
        let mut around = l.path.iter().enumerate().filter(|(_, s)| s.stmt.as_if().is_some());
        around.nth(conditions - 1).map(|(n, _)| n)
    };
    let mut out: Vec<Leaf> = Vec::new();
    let mut todo: Vec<Leaf> = all.iter().map(|l| (*l).clone()).collect();
    while let Some(one) = todo.pop() {
        let Some(at) = condition(&one) else { continue };
        let other = |o: &&Leaf| {
            condition(o) == Some(at)
                && o.items.len() == one.items.len()
                && o.path[at].stmt.ptr_eq(one.path[at].stmt)
                && o.path[at].position != one.path[at].position
                && writes(o).iter().any(|w| writes(&one).contains(w))
        };
        let Some(twin) = all.iter().copied().chain(&out).find(other) else { continue };
        let shared = writes(twin);
        let mut merged = one.clone();
        merged.items.pop();
        merged.touches.retain(|t| {
            t.buffer == buffer
                && t.role == Role::Write
                && t.indices.as_ref().is_some_and(|i| shared.contains(i))
        });
        todo.push(merged.clone());
        out.push(merged);
    }
    out
}

/// Whether earlier writes surely reach all that one read touches.
pub(crate) fn reached(
    env: &Env,
    written: &Written,
    buffer: &Buffer,
    all: &[&Leaf],
    (reader, read): (&Leaf, &Touch),
) -> Option<bool> {
    let place = Place::of(read);
    let start = {
        let mut builder = Builder::new(written);
        let outer = builder.surroundings(env);
        let mut x = copy_of_read(&mut builder, &outer, reader, read);
        let at = read.indices.as_ref().map(|all| {
            let cell = |e| builder.value(&mut x.scope, e);
            all.iter().map(cell).collect::<Vec<Lin>>()
        });
        at.map(|at| (builder, outer, x, at))
    }?;
    let builder = &start.0;
    if builder.system.symbolic {
        return None;
    }
    let dims = builder.system.columns;
    let (mut asked, mut reached) = (Vec::new(), Vec::new());
    expand(&builder.system, dims, &mut asked).ok()?;
    for writer in all {
        // What such a name stands for decides whether the write happens.
        if writer.whiles() > 0 || writer.items.iter().any(|i| matches!(i, Item::Opaque(_))) {
            continue;
        }
        for write in writer.touches.iter().filter(|t| t.buffer == buffer.id && t.role == Role::Write) {
            let Some(target) = &write.indices else { continue };
            let (common, relative) = relate(&writer.path, &reader.path[..place.depth]);
            let levels = writer.levels(common);
            let (mut builder, outer, x, at) = start.clone();
            builder.system.exact = true;
            let Some(mut y) = copy_of_write(&mut builder, &outer, writer) else { continue };
            for (e, cell) in target.iter().zip(&at) {
                let e = builder.value(&mut y.scope, e);
                builder.system.push(eq(&e, cell));
            }
            // Each execution of an allocation has storage of its own.
            let own = writer.allocated_at(buffer.id).map_or(0, |steps| writer.levels(steps).len());
            let ordered = |l: &usize| matches!(levels[*l], Level::Loop(_, e) if e.is_ordered());
            let mut before: Vec<Conj> =
                (own..levels.len()).filter(ordered).map(|l| earlier(&levels, l, &y, &x)).collect();
            if relative == Relative::First {
                before.push(equal(&levels, &y, &x));
            }
            builder.system.clause(before);
            let mut parts = Vec::new();
            if builder.system.exact
                && !builder.system.symbolic
                && expand(&builder.system, dims, &mut parts).is_ok()
            {
                reached.extend(parts);
            }
        }
    }
    let missing = uncovered(&Projection { dims, parts: &asked }, &Projection { dims, parts: &reached })?;
    Some(missing.is_none())
}

fn unreached(
    env: &Env,
    written: &Written,
    buffer: &Arc<Buffer>,
    all: &[&Leaf],
    (reader, read): (&Leaf, &Touch),
) -> Option<Diagnostic> {
    let subscripts = read.indices.as_ref()?;
    // What is written somewhere, nobody knows where, may be what is read.
    let lost = |t: &Touch| t.buffer == buffer.id && t.role == Role::Write && t.indices.is_none();
    if all.iter().any(|l| l.touches.iter().any(lost)) {
        return None;
    }
    let place = Place::of(read);
    let start = {
        let mut builder = Builder::new(written);
        let outer = builder.surroundings(env);
        let mut x = copy_of_read(&mut builder, &outer, reader, read);
        let at: Vec<Lin> = subscripts.iter().map(|e| builder.value(&mut x.scope, e)).collect();
        (builder, outer, x, at)
    };
    let (builder, outer, mut x, at) = start.clone();
    if !builder.system.exact || builder.system.symbolic {
        return None;
    }
    let dims = builder.system.columns;
    let (mut reads, mut reached) = (Vec::new(), Vec::new());
    expand(&builder.system, dims, &mut reads).ok()?;
    for writer in all {
        for write in writer.touches.iter().filter(|t| t.buffer == buffer.id && t.role == Role::Write) {
            let Some(target) = &write.indices else { return None };
            let (common, relative) = relate(&writer.path, &reader.path[..place.depth]);
            let levels = writer.levels(common);
            let (mut builder, outer, x, at) = start.clone();
            let mut y = copy_of_write(&mut builder, &outer, writer)?;
            for (e, cell) in target.iter().zip(&at) {
                let e = builder.value(&mut y.scope, e);
                builder.system.push(eq(&e, cell));
            }
            // Each execution of an allocation has storage of its own.
            let own = writer.allocated_at(buffer.id).map_or(0, |steps| writer.levels(steps).len());
            let mut before: Vec<Conj> = (own..levels.len()).map(|l| earlier(&levels, l, &y, &x)).collect();
            if relative == Relative::First {
                before.push(equal(&levels, &y, &x));
            }
            builder.system.clause(before);
            if !builder.system.exact {
                return None;
            }
            expand(&builder.system, dims, &mut reached).ok()?;
        }
        // Writes through a reduction or an atomic read first, and are found missing there.
    }
    let point = uncovered(&Projection { dims, parts: &reads }, &Projection { dims, parts: &reached })??;
    let cell: Vec<i64> = at.iter().filter_map(|l| l.at(&point)).collect();
    let mut builder = builder;
    let instance: Vec<i64> =
        x.instance(&mut builder, reader).iter().filter_map(|l| l.as_ref()?.at(&point)).collect();
    Some(
        Diagnostic::error(
            UNINITIALIZED,
            format!(
                "`{}` is read before it is written, by `{}`{}",
                instance_text(&buffer.name, &cell),
                instance_text(reader.label.as_str(), &instance),
                with_values(env, &outer, &point)
            ),
        )
        .at_places(reader.stmt.places(), "read here")
        .help(format!("write `{}` first", buffer.name)),
    )
}

/// An execution of a read, where it happens.
pub(crate) fn copy_of_read(builder: &mut Builder, outer: &Scope, reader: &Leaf, read: &Touch) -> Copy {
    let mut copy = Copy::new(builder, outer, reader, &Place::of(read));
    read.when.iter().for_each(|(cond, holds)| builder.assert(&mut copy.scope, cond, *holds));
    copy
}

/// An execution of a write; of a compute that reduces, of its cells.
pub(crate) fn copy_of_write(builder: &mut Builder, outer: &Scope, writer: &Leaf) -> Option<Copy> {
    if writer.dims.is_empty() {
        return Some(Copy::new(builder, outer, writer, &Place::own(writer)));
    }
    let c = writer.stmt.as_compute()?;
    let reduced = c.dims.iter().any(|d| matches!(d.combine, Combine::Reduce(_)));
    if c.update.is_some() || (c.guard.is_some() && !reduced) {
        return None;
    }
    let mut cells = writer.clone();
    cells.dims = &[];
    let mut copy = Copy::new(builder, outer, &cells, &Place::own(&cells));
    for d in c.dims.iter().filter(|d| !matches!(d.combine, Combine::Reduce(_))) {
        builder.range(&mut copy.scope, d.binder.id, &d.lo, &d.hi, 1);
    }
    Some(copy)
}

fn with_values(env: &Env, outer: &Scope, point: &[i64]) -> String {
    let values: Vec<(Name, i64)> = env
        .items
        .iter()
        .filter_map(|i| match i {
            Item::Size(b) | Item::Loop { binder: b, .. } => Some(*b),
            _ => None,
        })
        .filter_map(|b| Some((b.name.clone(), *point.get(outer.col(b.id)? as usize)?)))
        .collect();
    if values.is_empty() { String::new() } else { format!(", with {}", sizes_text(&values)) }
}

fn places_of_writes(body: &Stmt, buffer: BufId) -> Places {
    let mut out = Places::none();
    walk(body, &mut |s, _| {
        if s.written().any(|v| v.buffer() == Some(buffer)) {
            out = out.union(s.places());
        }
        true
    });
    out
}
