//! Which buffers were read and written since the last barrier.
//!
//! A buffer whose first dimension are slots (`pipeline` makes such) counts slot by slot: subscripts `(k + 1) % n` and
//! `k % n` never name the same one. A slot is kept as the form `k + 1`, modulo `n`; where an iteration ends, what it
//! left is named by the next one's `k`.
//!
//! If the threads of a phase access distinct elements selected by their numbers, the threads of another phase
//! of the same shape access the same elements, each only its own.

use crate::phase::{Chain, Dim, is_cluster};
use lathe_ir::build::var_id;
use lathe_ir::lower::resolve;
use lathe_ir::stmt::{AtomicOp, MemoryOrder};
use lathe_ir::visit::{loads_of, walk};
use lathe_ir::{
    Access, BinOp, BufId, Expr, ExprKind, Function, Name, ReduceOp, Scalar, Stmt, StmtKind, VarId,
};
use lathe_poly::{Affine, Form};
use std::collections::{HashMap, HashSet};

/// A slot of a buffer: `form % of`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    form: Affine,
    of: i64,
}

impl Slot {
    /// The slot that an access names, of a buffer with that many.
    fn named(a: &Access, of: i64) -> Option<Slot> {
        let (_, indices) = resolve(a).ok()?;
        let first = indices.first()?;
        let form = match first.kind() {
            ExprKind::Binary(BinOp::FloorMod, e, n) if n.as_int() == Some(of) => Affine::of(e)?,
            _ => Affine::constant(first.as_int().filter(|c| (0..of).contains(c))?),
        };
        Some(Slot { form, of }.normal())
    }

    fn normal(mut self) -> Slot {
        self.form.constant = self.form.constant.rem_euclid(self.of);
        self
    }

    fn differs(&self, other: &Slot) -> bool {
        let gap = self.form.minus(&other.form).and_then(|d| d.as_constant());
        self.of == other.of && gap.is_some_and(|d| d % self.of != 0)
    }

    fn mentions(&self, v: VarId) -> bool {
        self.form.coefficient(&v) != 0
    }
}

/// Which element each thread of a phase touches, alone: the loops of the nest (whether of a cluster, and their
/// extents), and the subscripts, in which these loops go by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    shape: Vec<(bool, i64)>,
    indices: Vec<Expr>,
}

/// A buffer, or one slot of it, or one element per thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    buffer: BufId,
    slot: Option<Slot>,
    owned: Option<Owned>,
}

impl Owned {
    /// Every loop of the nest is a subscript by itself, and the others are constants.
    fn named(a: &Access, nest: &Chain) -> Option<Owned> {
        let extent = |d: &Dim| Some((is_cluster(&d.exec), d.most.filter(|_| d.exact)?));
        let shape = nest.dims.iter().map(extent).collect::<Option<Vec<_>>>()?;
        let plain = |d: &Dim| d.lo.as_int() == Some(0) && d.step == 1;
        let (_, indices) = resolve(a).ok()?;
        let mut seen = vec![false; shape.len()];
        let named = |i: &Expr| match i.as_var() {
            Some(v) => {
                let at = nest.dims.iter().position(|d| d.binder.id == v)?;
                seen[at] = true;
                Some(var_id(VarId(NUMBERED + u32::try_from(at).ok().filter(|n| *n < 64)?), Scalar::Index))
            }
            None => i.as_int().map(|_| i.clone()),
        };
        let indices = indices.iter().map(named).collect::<Option<Vec<_>>>()?;
        let all = seen.iter().zip(&shape).all(|(seen, (_, n))| *seen || *n == 1);
        (all && nest.dims.iter().all(plain)).then_some(Owned { shape, indices })
    }
}

impl Part {
    fn meets(&self, other: &Part) -> bool {
        let apart = |a: &Slot, b: &Slot| a.differs(b);
        let slots = self.slot.as_ref().zip(other.slot.as_ref());
        let mine = self.owned.is_some() && self.owned == other.owned;
        self.buffer == other.buffer && !mine && !slots.is_some_and(|(a, b)| apart(a, b))
    }
}

/// Reads and writes, by buffer. Buffers of one alias class count as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    reads: Vec<Part>,
    writes: Vec<Part>,
    /// Atomic updates whose order nobody can tell, with their operators: two of one operator may meet.
    updates: Vec<(Part, ReduceOp)>,
}

fn add<T: PartialEq>(to: &mut Vec<T>, part: T) {
    if !to.contains(&part) {
        to.push(part);
    }
}

/// The operator of an update whose old value is unused, which commutes with other updates by the same operator.
fn free_update(s: &Stmt) -> Option<&ReduceOp> {
    if let StmtKind::Atomic(a) = s.kind()
        && let (AtomicOp::Update(op, _), MemoryOrder::Relaxed, None) = (&a.op, a.order, &a.old)
    {
        return Some(op).filter(|op| !matches!(op, ReduceOp::User(_)));
    }
    None
}

impl Touched {
    /// Whether running both without a barrier in between could be a race.
    pub fn conflicts(&self, next: &Touched) -> bool {
        let meets = |a: &[Part], b: &[Part]| a.iter().any(|a| b.iter().any(|b| a.meets(b)));
        let updated = |a: &Touched, b: &Touched| {
            let plain = || b.reads.iter().chain(&b.writes);
            a.updates.iter().any(|(u, _)| plain().any(|p| u.meets(p)))
        };
        let mixed = |(a, p): &(Part, ReduceOp), (b, q): &(Part, ReduceOp)| p != q && a.meets(b);
        meets(&self.writes, &next.writes)
            || meets(&self.writes, &next.reads)
            || meets(&self.reads, &next.writes)
            || updated(self, next)
            || updated(next, self)
            || self.updates.iter().any(|a| next.updates.iter().any(|b| mixed(a, b)))
    }

    pub fn add(&mut self, other: &Touched) {
        other.reads.iter().for_each(|p| add(&mut self.reads, p.clone()));
        other.writes.iter().for_each(|p| add(&mut self.writes, p.clone()));
        other.updates.iter().for_each(|p| add(&mut self.updates, p.clone()));
    }

    /// What is left without some buffers.
    pub fn without(&self, buffers: &HashSet<BufId>) -> Touched {
        let other = |p: &Part| !buffers.contains(&p.buffer);
        let mut out = self.clone();
        out.reads.retain(other);
        out.writes.retain(other);
        out.updates.retain(|(p, _)| other(p));
        out
    }

    pub fn contains(&self, other: &Touched) -> bool {
        let all = |a: &[Part], b: &[Part]| b.iter().all(|p| a.contains(p));
        let updates = other.updates.iter().all(|u| self.updates.contains(u));
        all(&self.reads, &other.reads) && all(&self.writes, &other.writes) && updates
    }

    fn renamed(&mut self, f: impl Fn(Slot) -> Option<Slot>) {
        for all in [&mut self.reads, &mut self.writes] {
            for p in std::mem::take(all) {
                add(all, Part { slot: p.slot.and_then(&f), ..p });
            }
        }
        for (p, op) in std::mem::take(&mut self.updates) {
            add(&mut self.updates, (Part { slot: p.slot.and_then(&f), ..p }, op));
        }
    }

    /// A variable goes out of scope, or is about to name something else.
    pub fn forget(&mut self, v: VarId) {
        self.renamed(|s| (!s.mentions(v)).then_some(s));
    }

    /// A loop over `v` begins at `lo`: slots with a number are named by its first iteration, as those that it leaves will be
    /// by the next.
    pub fn enters(&mut self, v: VarId, lo: i64) {
        self.renamed(|s| {
            if s.form.as_constant().is_none() {
                return Some(s);
            }
            let form = s.form.plus(&Form::atom(v), 1)?.offset(lo.checked_neg()?)?;
            Some(Slot { form, of: s.of }.normal())
        });
    }

    /// The loop over `v` goes on: what was `v` is `v - step` now.
    pub fn next_iteration(&mut self, v: VarId, step: i64) {
        self.renamed(|s| {
            let back = s.form.coefficient(&v).checked_mul(step)?.checked_neg()?;
            let form: Form<VarId> = s.form.offset(back)?;
            Some(Slot { form, of: s.of }.normal())
        });
    }
}

/// One representative per alias class.
pub fn classes(func: &Function) -> HashMap<BufId, BufId> {
    let mut first: HashMap<Name, BufId> = HashMap::new();
    let mut out = HashMap::new();
    for p in &func.params {
        if let (Some(b), Some(class)) = (p.array(), &p.alias) {
            out.insert(b.id, *first.entry(class.clone()).or_insert(b.id));
        }
    }
    out
}

/// Who counts, and as what.
pub struct View<'a> {
    pub classes: &'a HashMap<BufId, BufId>,
    /// Buffers that each thread has for itself.
    pub private: &'a HashSet<BufId>,
    /// How many slots a buffer of the block has, if its first dimension has a constant size.
    pub slots: &'a HashMap<BufId, i64>,
    /// The nest of threads that runs it.
    pub nest: Option<&'a Chain>,
}

/// Where numbers of variables begin that stand for the loops of any nest.
const NUMBERED: u32 = u32::MAX - 64;

impl View<'_> {
    fn class(&self, b: BufId) -> Option<BufId> {
        (!self.private.contains(&b)).then(|| self.classes.get(&b).copied().unwrap_or(b))
    }

    fn part(&self, a: &Access) -> Option<Part> {
        let buffer = self.class(a.view.buffer()?)?;
        let slot = self.slots.get(&buffer).and_then(|n| Slot::named(a, *n));
        let alone = !self.classes.contains_key(&buffer);
        let owned = self.nest.filter(|_| alone).and_then(|nest| Owned::named(a, nest));
        Some(Part { buffer, slot, owned })
    }

    /// What the loads of an expression read.
    pub fn of_exprs<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> Touched {
        let mut out = Touched::default();
        for e in exprs {
            for a in loads_of(e) {
                self.part(&a).into_iter().for_each(|p| add(&mut out.reads, p));
            }
        }
        out
    }

    /// What a statement touches, its own local buffers aside.
    pub fn of(&self, s: &Stmt) -> Touched {
        let mut out = Touched::default();
        let (mut own, mut bound) = (HashSet::new(), Vec::new());
        walk(s, &mut |s, _| {
            own.extend(s.allocated().map(|b| b.id));
            bound.extend(s.as_loop().map(|l| l.binder.id));
            bound.extend(s.as_let().map(|l| l.0.id));
            if let StmtKind::Atomic(a) = s.kind() {
                bound.extend(a.old.as_ref().map(|b| b.id));
            }
            out.add(&self.of_exprs(s.evaluated()));
            for (t, mode) in s.touches() {
                let element = t.element().and_then(|a| self.part(a));
                let whole = || Some(Part { buffer: self.class(t.buffer()?)?, slot: None, owned: None });
                let Some(p) = element.or_else(whole) else { continue };
                if let Some(op) = free_update(s) {
                    add(&mut out.updates, (Part { owned: None, ..p }, op.clone()));
                    continue;
                }
                if mode.reads() {
                    add(&mut out.reads, p.clone());
                }
                if mode.writes() {
                    add(&mut out.writes, p);
                }
            }
            true
        });
        out.reads.retain(|p| !own.contains(&p.buffer));
        out.writes.retain(|p| !own.contains(&p.buffer));
        out.updates.retain(|(p, _)| !own.contains(&p.buffer));
        bound.into_iter().for_each(|v| out.forget(v));
        out
    }
}
