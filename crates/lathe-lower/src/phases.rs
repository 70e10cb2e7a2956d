//! Barriers, by fission of the loops that they belong to: what stands between two barriers of a concurrent loop becomes a
//! loop of its own, serial loops and conditions around a barrier go outside of these, and values that live across
//! one get an element for each iteration, or are computed again from others (`phases/across.rs`).
//!
//! It is legal where no two iterations access one element, one writing, without a barrier in between, and all
//! iterations reach each barrier equally often (`lathe_analysis::prove_concurrent`): within a phase the iterations are
//! independent, so it may end anywhere, and what all iterations find alike can be asked once. The scheme is that of
//! work-item loops in OpenCL on CPUs (Jääskeläinen et al., "pocl: A performance-portable OpenCL implementation", section
//! 4; Stratton et al., "MCUDA", section 3), for any concurrent loop, and loops in loops.

mod across;

use across::{Across, Lives};
use lathe_diagnostics::Places;
use lathe_ir::build::{add, floor_div, index, load, lt, sub, var};
use lathe_ir::lower::{Unsupported, resolve};
use lathe_ir::stmt::Atomic;
use lathe_ir::stmt::block::{Item, flat, rebuilt};
use lathe_ir::visit::{loads_of, map_accesses, refresh, substitute_stmt, vars_of, walk};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Executor, Expr, Function, Label, Layout, Loop, Space, Stmt, StmtKind,
    Store, Type, VarId, View,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Given what makes the store of a value, a statement that computes and stores it.
type Define<'d> = &'d dyn Fn(&dyn Fn(Expr) -> Stmt) -> Stmt;

type Result<T> = std::result::Result<T, Unsupported>;

/// The function without barriers of the loops that `which` names.
///
/// # Errors
/// A barrier under a condition or in a loop that iterations may find different, one in an asynchronous statement, and
/// local arrays that live across one and whose extents differ between iterations, or that are used as a whole.
pub fn to_phased(func: &Function, which: &dyn Fn(&Executor) -> bool) -> Result<Function> {
    if !has_barrier(&func.body) {
        return Ok(func.clone());
    }
    let mut labels = HashSet::new();
    walk(&func.body, &mut |s, _| {
        labels.extend(s.label().cloned());
        true
    });
    let steady = across::never_written(func);
    let mut p = Phases { which, next_id: func.next_id, labels, steady, around: Vec::new() };
    let body = p.stmt(&func.body)?;
    Ok(Function { body, next_id: p.next_id, ..func.clone() })
}

fn has_barrier(s: &Stmt) -> bool {
    matches!(s.kind(), StmtKind::Barrier { .. }) || s.children().any(has_barrier)
}

fn waits(s: &Stmt, of: VarId) -> bool {
    matches!(s.kind(), StmtKind::Barrier { of: o, .. } if *o == of) || s.children().any(|c| waits(c, of))
}

struct Phases<'w> {
    which: &'w dyn Fn(&Executor) -> bool,
    next_id: u32,
    labels: HashSet<Label>,
    /// Arrays that hold the same all the time.
    steady: HashSet<BufId>,
    /// Variables of the loops around: instances of the statements that are made.
    around: Vec<Expr>,
}

impl Phases<'_> {
    fn stmt(&mut self, s: &Stmt) -> Result<Stmt> {
        if !has_barrier(s) {
            return Ok(s.clone());
        }
        let Some(l) = s.as_loop() else {
            let inner = s.children().map(|c| self.stmt(c)).collect::<Result<_>>()?;
            return Ok(s.with_children(inner));
        };
        self.around.push(var(&l.binder));
        let body = self.stmt(&l.body);
        self.around.pop();
        let l = Loop { body: body?, ..l.clone() };
        if l.exec.is_ordered() || !(self.which)(&l.exec) || !waits(&l.body, l.binder.id) {
            return Ok(s.with_kind(StmtKind::Loop(l)));
        }
        let mut fission = Fission {
            of: l.binder.id,
            name: l.binder.name.to_string(),
            private: HashSet::from([l.binder.id]),
            context: Vec::new(),
            later: Vec::new(),
            instance: self.around.clone(),
            labels: &mut self.labels,
            steady: self.steady.clone(),
            checks: across::has_checks(&l.body),
            next_id: self.next_id,
            loops: vec![(Loop { body: Stmt::empty(), ..l.clone() }, s.places().clone())],
        };
        fission.instance.push(var(&l.binder));
        let phases = fission.block(&l.body);
        self.next_id = fission.next_id;
        let phases = phases?;
        Ok(if_any(&l, Stmt::seq(phases)))
    }
}

/// What is asked once is not asked where there are no iterations.
fn if_any(l: &Loop, then: Stmt) -> Stmt {
    let cond = lt(l.lo.clone(), l.hi.clone());
    if cond.as_bool() == Some(true) { then } else { Stmt::of(StmtKind::If { cond, then, other: None }) }
}

/// One loop that is divided.
struct Fission<'l> {
    of: VarId,
    name: String,
    /// It, and concurrent loops inside of it around barriers of it; without their bodies.
    loops: Vec<(Loop, Places)>,
    /// Variables that differ between its iterations.
    private: HashSet<VarId>,
    /// Values that each phase computes again, in order.
    context: Vec<(Binder, Expr)>,
    /// Those among them of the phase that is being made, which names them itself.
    later: Vec<(Binder, Expr)>,
    instance: Vec<Expr>,
    labels: &'l mut HashSet<Label>,
    /// Arrays that hold the same all the time: those of the caller, and kept values once they are there.
    steady: HashSet<BufId>,
    /// Whether there are checks in it.
    checks: bool,
    next_id: u32,
}

impl Fission<'_> {
    fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn kept<T>(&self, why: impl std::fmt::Display, places: &Places) -> Result<T> {
        let of = &self.name;
        Err(Unsupported::new(format!("`barrier {of}` {why}"))
            .help(format!(
                "put `barrier {of}` where all iterations of `{of}` find the same conditions and bounds"
            ))
            .at(places))
    }

    /// Whether all iterations find one value, whichever of them asks, and when within a phase.
    fn uniform(&self, e: &Expr) -> bool {
        vars_of(e).iter().all(|v| !self.private.contains(v))
            && loads_of(e).iter().all(|a| a.view.buffer().is_some())
    }

    /// The phases of a block, each in the loops.
    fn block(&mut self, s: &Stmt) -> Result<Vec<Stmt>> {
        let (mut out, mut run) = (Vec::new(), Vec::new());
        let items = flat(s);
        let grid = self.loops.iter().any(|(l, _)| &*l.exec.name() == "grid");
        let across = Across {
            of: self.of,
            uniform: &|e| self.uniform(e),
            steady: &|b| self.steady.contains(&b),
            divisions: grid,
            checks: self.checks,
        };
        let lives = across.of(&items);
        // Arrays of kept values, and what was there before them.
        let mut arrays: Vec<(usize, Arc<Buffer>, Places)> = Vec::new();
        for (k, item) in items.iter().enumerate() {
            let rest = || rebuilt(items[k + 1..].to_vec());
            match (lives[k], item) {
                (Lives::Within, _) => run.push(item.clone()),
                (Lives::Again, Item::Let(binder, value, _)) => {
                    run.push(item.clone());
                    self.later.push((binder.clone(), value.clone()));
                }
                (Lives::Kept, Item::Let(binder, _, places)) => {
                    let (buffer, element) = self.element(binder, places)?;
                    let label = self.label(&binder.name);
                    let store = self.stored(&label, &element, var(binder), places);
                    arrays.push((out.len(), buffer, places.clone()));
                    run.extend([item.clone(), Item::Do(store)]);
                    self.later.push((binder.clone(), load(element)));
                }
                (_, Item::Do(s)) => {
                    self.flush(&mut run, &mut out);
                    self.around_barrier(s, &mut out)?;
                }
                (_, Item::Let(binder, value, places)) => {
                    self.flush(&mut run, &mut out);
                    let body = Stmt::seq(self.block(&rest())?);
                    let (binder, value) = (binder.clone(), value.clone());
                    out.push(Stmt::new(StmtKind::Let { binder, value, body }, places.clone()));
                    return Ok(around(out, arrays));
                }
                (_, Item::Alloc(buffer, places)) => {
                    self.flush(&mut run, &mut out);
                    let (buffer, rest) = self.expanded(buffer, &rest(), places)?;
                    let body = Stmt::seq(self.block(&rest)?);
                    out.push(Stmt::new(StmtKind::Alloc { buffer, body }, places.clone()));
                    return Ok(around(out, arrays));
                }
            }
        }
        self.flush(&mut run, &mut out);
        Ok(around(out, arrays))
    }

    /// A statement with a barrier in it.
    fn around_barrier(&mut self, s: &Stmt, out: &mut Vec<Stmt>) -> Result<()> {
        if let StmtKind::If { cond, then, other } = s.kind() {
            if !self.uniform(cond) {
                return self.kept("under a condition that its iterations may find different", s.places());
            }
            let then = Stmt::seq(self.block(then)?);
            let other = match other {
                Some(o) => Some(Stmt::seq(self.block(o)?)),
                None => None,
            };
            out.push(s.with_kind(StmtKind::If { cond: cond.clone(), then, other }));
        } else if let StmtKind::While { cond, body } = s.kind() {
            if !self.uniform(cond) {
                return self.kept("in a loop that its iterations may end at different times", s.places());
            }
            let body = Stmt::seq(self.block(body)?);
            out.push(s.with_kind(StmtKind::While { cond: cond.clone(), body }));
        } else if let StmtKind::Loop(l) = s.kind() {
            if !(self.uniform(&l.lo) && self.uniform(&l.hi)) {
                return self.kept("in a loop whose bounds its iterations may find different", s.places());
            }
            self.instance.push(var(&l.binder));
            let made = self.repeated(l, s);
            self.instance.pop();
            out.push(made?);
        } else if let StmtKind::Atomic(a) = s.kind() {
            let alone = |body| s.with_kind(StmtKind::Atomic(Atomic { body, ..a.clone() }));
            match &a.old {
                Some(old) if names_var(&a.body, old.id) => {
                    let define = |store: &dyn Fn(Expr) -> Stmt| alone(store(var(old)));
                    out.push(self.kept_value(old, s.places(), &define, &a.body)?);
                }
                _ => {
                    let bare = Atomic { old: None, body: Stmt::empty(), ..a.clone() };
                    self.phase(s.with_kind(StmtKind::Atomic(bare)), out);
                    out.extend(self.block(&a.body)?);
                }
            }
        } else if !matches!(s.kind(), StmtKind::Barrier { .. }) {
            return self.kept("in an asynchronous statement", s.places());
        }
        Ok(())
    }

    /// A loop around a barrier: outside of the phases, if it runs its iterations in order.
    fn repeated(&mut self, l: &Loop, s: &Stmt) -> Result<Stmt> {
        if l.exec.is_ordered() {
            let body = Stmt::seq(self.block(&l.body)?);
            return Ok(s.with_kind(StmtKind::Loop(Loop { exec: Executor::Serial, body, ..l.clone() })));
        }
        if !(loads_of(&l.lo).is_empty() && loads_of(&l.hi).is_empty()) {
            return self.kept(format!("in `{}`, whose bounds are loaded", l.binder.name), s.places());
        }
        self.loops.push((Loop { body: Stmt::empty(), ..l.clone() }, s.places().clone()));
        self.private.insert(l.binder.id);
        let phases = self.block(&l.body);
        self.loops.pop();
        Ok(if_any(l, Stmt::seq(phases?)))
    }

    fn flush(&mut self, run: &mut Vec<Item>, out: &mut Vec<Stmt>) {
        let run = std::mem::take(run);
        if run.iter().any(|i| matches!(i, Item::Do(s) if !s.is_empty())) {
            self.phase(rebuilt(run), out);
        }
        // Phases behind this one find its values no more.
        self.private.extend(self.later.iter().map(|(binder, _)| binder.id));
        self.context.append(&mut self.later);
    }

    /// A statement in the loops, with the values that it names.
    fn phase(&mut self, s: Stmt, out: &mut Vec<Stmt>) {
        let mut body = s;
        for (binder, value) in self.context.iter().rev() {
            if names_var(&body, binder.id) {
                let (binder, value) = (binder.clone(), value.clone());
                body = Stmt::of(StmtKind::Let { binder, value, body });
            }
        }
        for (l, places) in self.loops.iter().rev() {
            body = Stmt::new(StmtKind::Loop(Loop { body, ..l.clone() }), places.clone());
        }
        out.push(refresh(&body, &mut self.next_id));
    }

    /// A value that lives across a barrier, as an element of each iteration, around the phases of `rest`. `define` gives
    /// the statement that computes it, around the store of the value that it names.
    fn kept_value(&mut self, binder: &Binder, places: &Places, define: Define, rest: &Stmt) -> Result<Stmt> {
        let (buffer, element) = self.element(binder, places)?;
        let label = self.label(&binder.name);
        let store = |value: Expr| self.stored(&label, &element, value, places);
        let mut body = Vec::new();
        self.phase(define(&store), &mut body);
        let rest = substitute_stmt(rest, &HashMap::from([(binder.id, load(element.clone()))]));
        body.extend(self.block(&rest)?);
        Ok(Stmt::new(StmtKind::Alloc { buffer, body: Stmt::seq(body) }, places.clone()))
    }

    /// An array with an element for the value of each iteration, and that element.
    fn element(&mut self, binder: &Binder, places: &Places) -> Result<(Arc<Buffer>, Access)> {
        let elem = Type::from(binder.ty);
        let id = BufId(self.id());
        let (extents, at) = self.dimensions(&binder.name, places)?;
        let buffer = Buffer::local(id, binder.name.clone(), elem.clone(), extents, Space::Host);
        self.steady.insert(id);
        Ok((self.placed(buffer, Space::Register), Access::buffer(id, elem, at).at(places.clone())))
    }

    /// The store of a value in its element.
    fn stored(&self, label: &Label, element: &Access, value: Expr, places: &Places) -> Stmt {
        let store = Store::new(label.clone(), self.instance.clone(), element.clone(), value);
        Stmt::new(StmtKind::Store(store), places.clone())
    }

    /// The label of the store of a value: of a second one of that name, `x.2`.
    fn label(&mut self, name: &str) -> Label {
        let numbered = (2..).map(|n| format!("{name}.{n}"));
        let mut all = std::iter::once(name.to_string()).chain(numbered).map(Label::new);
        let free = all.find(|l| !self.labels.contains(l)).unwrap_or_else(|| Label::new(name));
        self.labels.insert(free.clone());
        free
    }

    /// A local array of an iteration as part of one of all, whose first dimensions are the iterations.
    fn expanded(
        &mut self,
        buffer: &Arc<Buffer>,
        rest: &Stmt,
        places: &Places,
    ) -> Result<(Arc<Buffer>, Stmt)> {
        let (mut extents, at) = self.dimensions(&buffer.name, places)?;
        if !buffer.extents.iter().all(|e| self.uniform(e) && loads_of(e).is_empty()) {
            let why =
                format!("with `{}` around it, whose extents its iterations may find different", buffer.name);
            return self.kept(why, places);
        }
        extents.extend(buffer.extents.iter().cloned());
        let mut whole = used_whole(rest, buffer.id);
        let new = map_accesses(rest, &mut |a| {
            if a.view.buffer() != Some(buffer.id) {
                return None;
            }
            let Ok((id, indices)) = resolve(a) else {
                whole = true;
                return None;
            };
            let indices = at.iter().cloned().chain(indices).collect();
            Some(Access { view: View::Buffer(id), indices, ..a.clone() })
        });
        if whole {
            return self.kept(format!("with `{}` around it, which is used as a whole", buffer.name), places);
        }
        let layout = Layout::row_major();
        Ok((self.placed(Arc::new(Buffer { extents, layout, ..(**buffer).clone() }), buffer.space), new))
    }

    /// How many iterations there are in each of the loops, and which is this.
    fn dimensions(&self, what: &str, places: &Places) -> Result<(Vec<Expr>, Vec<Expr>)> {
        let (mut extents, mut at) = (Vec::new(), Vec::new());
        for (l, _) in &self.loops {
            if !(self.uniform(&l.lo) && self.uniform(&l.hi)) {
                let name = &l.binder.name;
                return self.kept(format!("after `{what}`, in a loop `{name}` of varying length"), places);
            }
            let span = sub(l.hi.clone(), l.lo.clone());
            extents.push(floor_div(add(span, index(l.step - 1)), index(l.step)));
            at.push(floor_div(sub(var(&l.binder), l.lo.clone()), index(l.step)));
        }
        Ok((extents, at))
    }

    /// In the given space, if all iterations are in one block and the size is a constant; else in ordinary memory.
    fn placed(&self, b: Arc<Buffer>, space: Space) -> Arc<Buffer> {
        let constant = b.extents.iter().all(|e| e.as_int().is_some());
        let blocks = self.loops.iter().any(|(l, _)| &*l.exec.name() == "grid");
        let space = match space {
            _ if blocks => Space::Global,
            Space::Register | Space::Stack | Space::Fragment if !constant => Space::Host,
            other => other,
        };
        Arc::new(Buffer { space, ..(*b).clone() })
    }
}

/// Statements in arrays, each of which is there from a statement on.
fn around(mut all: Vec<Stmt>, arrays: Vec<(usize, Arc<Buffer>, Places)>) -> Vec<Stmt> {
    for (from, buffer, places) in arrays.into_iter().rev() {
        let body = Stmt::seq(all.split_off(from));
        all.push(Stmt::new(StmtKind::Alloc { buffer, body }, places));
    }
    all
}

fn names_var(s: &Stmt, v: VarId) -> bool {
    s.exprs().into_iter().any(|e| vars_of(e).contains(&v)) || s.children().any(|c| names_var(c, v))
}

fn used_whole(s: &Stmt, b: BufId) -> bool {
    s.touches().iter().any(|(t, _)| t.buffer() == Some(b) && t.element().is_none())
        || s.children().any(|c| used_whole(c, b))
}
