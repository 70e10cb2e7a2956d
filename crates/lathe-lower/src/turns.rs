//! Updates in the order of iterations on threads: decoupled look-back (Merrill and Garland, NVR-2016-002).
//!
//! Whoever runs an iteration takes its number when it begins, so that the iterations that it waits for have begun, too, and
//! go on: none of them waits for a later one, however many threads there are. It publishes the value that it adds, goes back
//! to the nearest iteration that knows the sum of all before it and of itself, and adds up what the ones in between have
//! published, in order. So the result has the bits that one thread would give.
//!
//! An iteration that ended without its update would be waited for forever. Only loops whose iterations surely get there
//! are taken ([`fits`]); the others run in order (see [`crate::levels`]).

use crate::pitches::MAX_FRAME;
use lathe_diagnostics::Places;
use lathe_ir::build::{add, divides, eq, index, int, load, lt, not, select, sub, var};
use lathe_ir::names::Role;
use lathe_ir::stmt::{Atomic, AtomicOp, Effects, MemoryOrder};
use lathe_ir::visit::{loads_of, vars_of, walk};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Executor, Expr, Function, Label, Loop, Name, Reduce, Scalar, Space, Stmt,
    StmtKind, Store, Type,
};
use std::collections::HashSet;
use std::sync::Arc;

/// What a word says: nothing yet (0), the value of the iteration, the sum of all iterations up to it.
const OWN: i64 = 1;
const ALL: i64 = 2;

/// Whether threads may run the iterations of a loop that an update in their order names: each makes it once, whatever
/// happens, and all in one element, which nothing else in the loop touches.
pub fn fits(func: &Function, l: &Loop) -> bool {
    let scope = l.exec.name();
    let mut inner = HashSet::from([l.binder.id]);
    let mut turns = Vec::new();
    walk(&l.body, &mut |s, _| {
        inner.extend(s.as_let().map(|x| x.0.id));
        inner.extend(s.as_loop().map(|x| x.binder.id));
        if let StmtKind::Atomic(a) = s.kind() {
            inner.extend(a.old.as_ref().map(|b| b.id));
        }
        turns.extend(turn(s, &scope).cloned());
        true
    });
    let steady = |e: &Expr| loads_of(e).is_empty() && vars_of(e).is_disjoint(&inner);
    let aliased =
        |b: BufId| func.params.iter().any(|p| p.alias.is_some() && p.array().is_some_and(|a| a.id == b));
    let one = |a: &Atomic| {
        let Some(target) = a.target.view.buffer().filter(|b| !aliased(*b)) else { return false };
        let mut here = matches!(a.op, AtomicOp::Update(..)) && a.target.elem.scalar().is_some();
        a.target.for_each_expr(&mut |e| here &= steady(e));
        here && touches(&l.body, target) == 1
    };
    let plain = l.step == 1 && l.binder.ty == Scalar::Index && steady(&l.lo) && steady(&l.hi);
    plain && !turns.is_empty() && turns.iter().all(one) && arrives(&l.body, &scope)
}

/// Whether a `while` around a statement waits for another thread, to which it should leave the machine for a moment.
pub fn waits(body: &Stmt) -> bool {
    let effects = body.effects();
    effects.contains(Effects::ATOMIC) && !effects.contains(Effects::DIVERGES)
}

/// An update in the order of the iterations that a scope names.
fn turn<'a>(s: &'a Stmt, scope: &Name) -> Option<&'a Atomic> {
    if let StmtKind::Atomic(a) = s.kind() {
        return Some(a).filter(|a| a.order == MemoryOrder::InOrder && a.scope == *scope);
    }
    None
}

fn takes_turns(s: &Stmt, scope: &Name) -> bool {
    let mut found = false;
    walk(s, &mut |s, _| {
        found |= turn(s, scope).is_some();
        !found
    });
    found
}

/// How often a statement mentions a buffer.
fn touches(s: &Stmt, b: BufId) -> usize {
    let mut n = 0;
    walk(s, &mut |s, _| {
        n += s.touches().iter().filter(|t| t.0.buffer() == Some(b)).count();
        n += s.exprs().iter().flat_map(|e| loads_of(e)).filter(|a| a.view.buffer() == Some(b)).count();
        true
    });
    n
}

/// Whether a statement that holds updates gets to each of them once, without a way to fail before, or to wait for others.
fn arrives(s: &Stmt, scope: &Name) -> bool {
    if !takes_turns(s, scope) {
        return true;
    }
    if let Some(all) = s.as_seq() {
        let last = all.iter().rposition(|s| takes_turns(s, scope)).unwrap_or(0);
        return all[..=last]
            .iter()
            .all(|s| if takes_turns(s, scope) { arrives(s, scope) } else { harmless(s) });
    }
    if let Some((buffer, body)) = s.as_alloc() {
        return in_frame(buffer) && arrives(body, scope);
    }
    if let Some((_, value, body)) = s.as_let() {
        return !divides(value) && arrives(body, scope);
    }
    turn(s, scope).is_some_and(|a| {
        let mut fails = false;
        a.op.for_each_expr(&mut |e| fails |= divides(e));
        a.target.for_each_expr(&mut |e| fails |= divides(e));
        !fails && arrives(&a.body, scope)
    })
}

/// Whether a statement ends without a failure, as far as its subscripts and `index` arithmetic are known to.
fn harmless(s: &Stmt) -> bool {
    let threads = s.as_loop().is_some_and(|l| l.exec == Executor::Cpu);
    let own = !threads && s.allocated().map_or(s.own_effects().is_none(), |b| in_frame(b));
    let mut fails = s.exprs().into_iter().any(divides);
    for (touched, _) in s.touches() {
        if let Some(a) = touched.element() {
            a.for_each_expr(&mut |e| fails |= divides(e));
        }
    }
    own && !fails && s.children().all(harmless)
}

/// Whether a local array needs no memory that there may not be.
fn in_frame(b: &Buffer) -> bool {
    let count = b.extents.iter().try_fold(b.elem.bytes(), |n, x| n.checked_mul(x.as_int()?.max(0) as u64));
    let frame = matches!(b.space, Space::Register | Space::Stack | Space::Fragment);
    // Lanes may have one each.
    frame && count.is_some_and(|n| n <= MAX_FRAME / 64)
}

/// The function with numbers that are taken, and words by which iterations tell each other what they know, in place of
/// updates in the order of a loop on threads.
pub fn by_tickets(func: &Function) -> Function {
    let mut out = func.clone();
    out.body = stmt(&mut out, &func.body);
    out
}

fn stmt(func: &mut Function, s: &Stmt) -> Stmt {
    let scope = Executor::Cpu.name();
    let inner: Vec<Stmt> = s.children().map(|c| stmt(func, c)).collect();
    let same = s.children().zip(&inner).all(|(a, b)| a.ptr_eq(b));
    let s = if same { s.clone() } else { s.with_children(inner) };
    match s.as_loop().filter(|l| l.exec == Executor::Cpu && takes_turns(&l.body, &scope)) {
        Some(l) => Tickets::new(func, l, s.places()).make(func, l),
        None => s,
    }
}

/// The names that the iterations of a loop share.
struct Tickets {
    places: Places,
    /// How many iterations there are, and which number an iteration took.
    count: Binder,
    ticket: Binder,
    /// The next number.
    next: Arc<Buffer>,
    words: Vec<Words>,
}

/// By iteration: what its word says, what it adds, and the sum of all up to it.
struct Words {
    says: Arc<Buffer>,
    own: Arc<Buffer>,
    all: Arc<Buffer>,
}

fn cell(b: &Arc<Buffer>, at: Vec<Expr>) -> Access {
    Access::buffer(b.id, b.elem.clone(), at)
}

fn word(n: i64) -> Expr {
    int(Scalar::U32, n)
}

impl Tickets {
    fn new(func: &mut Function, l: &Loop, places: &Places) -> Tickets {
        let name = &l.binder.name;
        let (count, ticket) = (
            func.fresh_var(format!("{name}.count"), Scalar::Index),
            func.fresh_var(format!("{name}.ticket"), Scalar::Index),
        );
        let id = func.fresh_buf();
        let next = Buffer::local(id, Role::Next.of(name), Scalar::Index.into(), Vec::new(), Space::Host);
        Tickets { places: places.clone(), count, ticket, next, words: Vec::new() }
    }

    fn make(mut self, func: &mut Function, l: &Loop) -> Stmt {
        let body = self.turns(func, &l.body);
        let here = Let { binder: l.binder.clone(), value: add(l.lo.clone(), var(&self.ticket)) };
        let run = func.fresh_var(Role::Run.of(&l.binder.name), Scalar::Index);
        let take = self.stmt(StmtKind::Atomic(Atomic {
            label: self.named("take"),
            instance: vec![var(&run)],
            target: cell(&self.next, Vec::new()),
            op: AtomicOp::Update(lathe_ir::ReduceOp::Sum, index(1)),
            order: MemoryOrder::Relaxed,
            scope: Executor::Cpu.name(),
            old: Some(self.ticket.clone()),
            body: here.around(body, &self.places),
        }));
        let run = self.each(run, index(0), var(&self.count), Executor::Cpu, take);
        let mut all = vec![self.store("next", Vec::new(), cell(&self.next, Vec::new()), index(0))];
        for w in &self.words {
            let k = func.fresh_var(format!("{}.clear", l.binder.name), Scalar::Index);
            let clear = self.store("clear", vec![var(&k)], cell(&w.says, vec![var(&k)]), word(0));
            all.push(self.each(k, index(0), var(&self.count), Executor::Serial, clear));
        }
        all.push(run);
        let mut made = Stmt::seq(all);
        for b in self.words.iter().flat_map(|w| [&w.all, &w.own, &w.says]).chain([&self.next]) {
            made = self.alloc(b, made);
        }
        // Bounds of an empty loop may be so far apart that their difference leaves 64 bits.
        let some = lt(l.lo.clone(), l.hi.clone());
        let count = select(some, sub(l.hi.clone(), l.lo.clone()), index(0));
        Let { binder: self.count.clone(), value: count }.around(made, &self.places)
    }

    /// The body with words in place of its updates.
    fn turns(&mut self, func: &mut Function, s: &Stmt) -> Stmt {
        if !takes_turns(s, &Executor::Cpu.name()) {
            return s.clone();
        }
        let inner: Vec<Stmt> = s.children().map(|c| self.turns(func, c)).collect();
        let s = s.with_children(inner);
        match turn(&s, &Executor::Cpu.name()) {
            Some(a) => self.turn(func, a),
            None => s,
        }
    }

    fn turn(&mut self, func: &mut Function, a: &Atomic) -> Stmt {
        let AtomicOp::Update(op, value) = &a.op else {
            return Stmt::new(StmtKind::Atomic(a.clone()), self.places.clone());
        };
        let elem = &a.target.elem;
        let mut shared = |what: &str, elem: Type| {
            let extents = vec![var(&self.count)];
            Buffer::local(func.fresh_buf(), format!("{}.{what}", a.label), elem, extents, Space::Host)
        };
        let w = Words {
            says: shared("says", Scalar::U32.into()),
            own: shared("own", elem.clone()),
            all: shared("all", elem.clone()),
        };
        let mut local = |what: &str, elem: Type| {
            let name = format!("{}.{what}", a.label);
            Buffer::local(func.fresh_buf(), name, elem, Vec::new(), Space::Register)
        };
        let before = local("before", elem.clone());
        let after = local("after", elem.clone());
        let (at, seen) = (local("at", Scalar::Index.into()), local("seen", Scalar::U32.into()));
        let (found, between) = (
            func.fresh_var(format!("{}.found", a.label), Scalar::U32),
            func.fresh_var(format!("{}.between", a.label), Scalar::Index),
        );
        let t = var(&self.ticket);
        let me = |b: &Arc<Buffer>| cell(b, vec![t.clone()]);
        let value_of = |b: &Arc<Buffer>| load(cell(b, Vec::new()));
        let set = |b: &Arc<Buffer>, e: Expr| self.store("look", vec![t.clone()], cell(b, Vec::new()), e);
        let combine = |to: &Arc<Buffer>, from: Expr| {
            let reduce = Reduce {
                label: self.named("combine"),
                instance: vec![t.clone()],
                op: op.clone(),
                targets: vec![cell(to, Vec::new())],
                values: vec![from],
                licence: false,
                contract: false,
            };
            self.stmt(StmtKind::Reduce(reduce))
        };
        let publish = |says: i64| {
            let op = AtomicOp::Store(word(says));
            self.atomic("publish", me(&w.says), op, MemoryOrder::Release, None, Stmt::empty())
        };

        // Back to an iteration that knows all, past those whose own values are there.
        let there = cell(&w.says, vec![value_of(&at)]);
        let keep = set(&seen, var(&found));
        let look = self.atomic("look", there, AtomicOp::Load, MemoryOrder::Acquire, Some(found), keep);
        let wait = self.stmt(StmtKind::While { cond: eq(value_of(&seen), word(0)), body: look });
        let back = Stmt::seq([set(&at, sub(value_of(&at), index(1))), set(&seen, word(0)), wait]);
        let back = self.stmt(StmtKind::While { cond: not(eq(value_of(&seen), word(ALL))), body: back });
        // And forth again.
        let nearer = load(cell(&w.own, vec![var(&between)]));
        let add_up = combine(&before, nearer);
        let first = add(value_of(&at), index(1));
        let forth = self.each(between, first, t.clone(), Executor::Serial, add_up);
        let known = set(&before, load(cell(&w.all, vec![value_of(&at)])));
        let behind =
            Stmt::seq([publish(OWN), set(&at, t.clone()), set(&seen, word(OWN)), back, known, forth]);
        let behind = self.alloc(&at, self.alloc(&seen, behind));
        let begin = set(&before, load(a.target.clone()));
        let begin = self.branch(eq(t.clone(), index(0)), begin, Some(behind));
        let own = self.store("own", vec![t.clone()], me(&w.own), value.clone());
        let sum = Stmt::seq([set(&after, value_of(&before)), combine(&after, load(me(&w.own)))]);
        let all = self.store("all", vec![t.clone()], me(&w.all), value_of(&after));
        let last = self.store("last", Vec::new(), a.target.clone(), value_of(&after));
        let last = self.branch(eq(t.clone(), sub(var(&self.count), index(1))), last, None);
        let published = Stmt::seq([sum, all, publish(ALL), last]);
        // The first one never says less than all, so that nobody goes back any further.
        let turn = Stmt::seq([own, begin, self.alloc(&after, published)]);
        let rest = match &a.old {
            Some(old) => {
                Let { binder: old.clone(), value: value_of(&before) }.around(a.body.clone(), &self.places)
            }
            None => a.body.clone(),
        };
        self.words.push(w);
        self.alloc(&before, Stmt::seq([turn, rest]))
    }

    fn stmt(&self, kind: StmtKind) -> Stmt {
        Stmt::new(kind, self.places.clone())
    }

    fn named(&self, what: &str) -> Label {
        Label::new(format!("{}.{what}", self.ticket.name))
    }

    fn store(&self, what: &str, instance: Vec<Expr>, target: Access, value: Expr) -> Stmt {
        self.stmt(StmtKind::Store(Store::new(self.named(what), instance, target, value)))
    }

    fn atomic(
        &self,
        what: &str,
        target: Access,
        op: AtomicOp,
        order: MemoryOrder,
        old: Option<Binder>,
        body: Stmt,
    ) -> Stmt {
        let (label, instance, scope) = (self.named(what), vec![var(&self.ticket)], Executor::Cpu.name());
        self.stmt(StmtKind::Atomic(Atomic { label, instance, target, op, order, scope, old, body }))
    }

    fn each(&self, binder: Binder, lo: Expr, hi: Expr, exec: Executor, body: Stmt) -> Stmt {
        self.stmt(StmtKind::Loop(Loop { binder, lo, hi, step: 1, exec, body }))
    }

    fn alloc(&self, buffer: &Arc<Buffer>, body: Stmt) -> Stmt {
        self.stmt(StmtKind::Alloc { buffer: buffer.clone(), body })
    }

    fn branch(&self, cond: Expr, then: Stmt, other: Option<Stmt>) -> Stmt {
        self.stmt(StmtKind::If { cond, then, other })
    }
}

/// A name for a value.
struct Let {
    binder: Binder,
    value: Expr,
}

impl Let {
    fn around(self, body: Stmt, places: &Places) -> Stmt {
        Stmt::new(StmtKind::Let { binder: self.binder, value: self.value, body }, places.clone())
    }
}
