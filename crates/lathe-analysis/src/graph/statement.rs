//! Statements: what slots hold after them.

use super::run::{Run, Step};
use super::term::{Key, Kind, Slot, Term, What};
use crate::memory::Place;
use crate::overwrite::overwrites_all;
use lathe_ir::stmt::block::{Item, flat};
use lathe_ir::stmt::{BinderRole, Part};
use lathe_ir::{
    Access, BufId, Combine, Compute, Expr, ExprKind, Loop, Reduce, Stmt, StmtKind, Type, VarId, build,
    reduce, visit,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;

/// The first variable that an operand of an operator has.
const OPERANDS: u32 = 1 << 30;

impl Run<'_, '_> {
    pub fn block(&mut self, s: &Stmt) {
        for item in flat(s) {
            self.begin();
            if self.graph.is_spent() {
                return;
            }
            match &item {
                Item::Let(b, value, _) => {
                    let t = self.one(value);
                    self.vars.insert(b.id, t);
                }
                Item::Alloc(b, _) => {
                    let of = self.values(&b.extents);
                    let t = self.graph.make(What::Undefined(b.id, b.elem.clone()), of);
                    self.content.insert(Slot::Memory(Place::Buffer(b.id)), t);
                }
                Item::Do(s) => self.statement(s),
            }
        }
    }

    /// What is not known here has an effect that nothing is known of.
    fn statement(&mut self, s: &Stmt) {
        if let Some(st) = s.as_store() {
            let value = self.one(&st.value);
            let element = self.element(&st.target);
            self.store(self.slot(&st.target), element, value);
        } else if let Some(r) = s.as_reduce() {
            self.reduce(r);
        } else if let Some(l) = s.as_loop() {
            self.iterations(s, l);
        } else if let StmtKind::While { cond, body } = s.kind() {
            self.repeated(s, cond, body);
        } else if let Some((cond, then, other)) = s.as_if() {
            self.either(cond, then, other);
        } else if let Some(c) = s.as_compute() {
            self.compute(s, c);
        } else if let StmtKind::Check { cond, code, message } = s.kind() {
            let cond = self.one(cond);
            let before = self.content(Slot::World);
            let t = self.graph.make(What::Check(code.clone(), message.clone()), vec![before, cond]);
            self.set(Slot::World, t);
        } else if let StmtKind::Assume { fact, provenance } = s.kind() {
            let fact = self.one(fact);
            let before = self.content(Slot::Facts);
            let t = self.graph.make(What::Fact(provenance.clone()), vec![before, fact]);
            self.set(Slot::Facts, t);
        } else if !matches!(s.kind(), StmtKind::Prefetch(_)) {
            self.event(s);
        }
    }

    fn slot(&self, a: &Access) -> Slot {
        Slot::Memory(self.memory.place(&a.view))
    }

    /// An update is a store of what its operator makes of the element.
    fn reduce(&mut self, r: &Reduce) {
        let values = self.values(&r.values);
        let elements: Vec<Term> = r.targets.iter().map(|t| self.element(t)).collect();
        if let ([target], [value], [element], false) =
            (&r.targets[..], &values[..], &elements[..], r.contract)
        {
            let slot = self.slot(target);
            let operand = |n: u32, ty: &Type| Expr::new(ExprKind::Var(VarId(OPERANDS + n)), ty.clone());
            let (a, b) = (operand(0, &target.elem), operand(1, r.values[0].ty()));
            if let Some([made]) = reduce::combine(self.module, &r.op, &[a], &[b]).as_deref() {
                let old = self.load(slot, *element, &target.elem);
                let own = [(VarId(OPERANDS), old), (VarId(OPERANDS + 1), *value)];
                let outside = std::mem::replace(&mut self.vars, own.into());
                let t = self.one(made);
                self.vars = outside;
                return self.store(slot, *element, t);
            }
        }
        let slots: Vec<Slot> = r.targets.iter().map(|t| self.slot(t)).collect();
        let before: Vec<Term> = slots.iter().map(|s| self.content(*s)).collect();
        let of: Vec<Term> = before.into_iter().chain(elements.iter().copied()).chain(values).collect();
        for (n, (slot, element)) in slots.into_iter().zip(elements).enumerate() {
            let mut of = of.clone();
            // Targets may be in one array.
            of.push(self.content(slot));
            let t = self.graph.make(What::Reduced(r.op.clone(), n, r.contract), of);
            self.set(slot, t);
            let written = self.graph.make(What::Written(slot), vec![element]);
            self.demand(written);
        }
    }

    /// The slots that a statement may change.
    fn changed(&mut self, s: &Stmt) -> BTreeSet<Slot> {
        let mut out = BTreeSet::from([Slot::World, Slot::Facts]);
        out.extend(self.written(s).iter());
        if out.contains(&Slot::Memory(Place::Shared)) && self.memory.touched(s).anything {
            out.extend(self.everything());
        }
        out
    }

    /// The memory that a statement writes, without what never runs.
    fn written(&mut self, s: &Stmt) -> Rc<BTreeSet<Slot>> {
        if let Some(known) = self.writes.get(&s.address()) {
            return known.clone();
        }
        let own = self.memory.own(s);
        let mut out: BTreeSet<Slot> = own.writes.iter().map(|p| Slot::Memory(*p)).collect();
        if own.anything {
            out.insert(Slot::Memory(Place::Shared));
        }
        let never = |n: usize| match (s.as_loop(), s.as_if()) {
            (Some(l), _) => matches!((l.lo.as_int(), l.hi.as_int()), (Some(lo), Some(hi)) if lo >= hi),
            (_, Some((cond, ..))) => cond.as_bool().is_some_and(|holds| holds == (n == 1)),
            _ => false,
        };
        for (n, c) in s.children().enumerate() {
            if !never(n) {
                out.extend(self.written(c).iter());
            }
        }
        let out = Rc::new(out);
        self.writes.insert(s.address(), out.clone());
        out
    }

    fn everything(&self) -> impl Iterator<Item = Slot> {
        let arrays: Vec<BufId> = self.arrays.keys().copied().collect();
        let places = arrays.into_iter().map(Place::Buffer).chain([Place::Shared]);
        places.map(Slot::Memory).chain([Slot::World, Slot::Facts])
    }

    /// Every slot that changes is what it is where any iteration begins. Gives what they were.
    fn begins(&mut self, key: Key, changed: &BTreeSet<Slot>) -> BTreeMap<Slot, Term> {
        let before: BTreeMap<Slot, Term> = changed.iter().map(|s| (*s, self.content(*s))).collect();
        for s in changed {
            let entry = self.graph.make(What::Entry(key, *s), Vec::new());
            self.content.insert(*s, entry);
        }
        before
    }

    /// After the last iteration.
    fn ends(&mut self, key: Key, kind: &Kind, head: &[Term], before: BTreeMap<Slot, Term>) {
        let both: BTreeMap<Slot, (Term, Term)> =
            before.into_iter().map(|(s, before)| (s, (before, self.content(s)))).collect();
        for s in both.keys() {
            let t = self.graph.around((key, kind), head, &both, *s);
            self.content.insert(*s, t);
        }
    }

    fn iterations(&mut self, s: &Stmt, l: &Loop) {
        let head = self.values([&l.lo, &l.hi]);
        let runs = match (self.graph.int(head[0]), self.graph.int(head[1])) {
            (Some(lo), Some(hi)) => lo < hi,
            _ => true,
        };
        if !runs {
            return;
        }
        let key = Key::Loop(l.binder.id);
        let changed = self.changed(s);
        let before = self.begins(key, &changed);
        self.worlds.insert(key, before[&Slot::World]);
        if !l.exec.is_ordered() {
            let mut own = HashSet::new();
            visit::walk(&l.body, &mut |s, _| {
                own.extend(s.allocated().map(|b| b.id));
                true
            });
            self.parallel.push((l.binder.id, own));
        }
        self.enter(Step::Loop(l.binder.id, head[0], head[1]));
        self.block(&l.body);
        self.leave();
        if !l.exec.is_ordered() {
            self.parallel.pop();
        }
        let kind = Kind::Loop { step: l.step, exec: l.exec.clone() };
        self.ends(key, &kind, &head, before);
        self.forget(s, &changed);
    }

    /// What a statement overwrites as a whole has no content before it. That it reads nothing of it says the term, not the
    /// tree: what is read may be what was just stored.
    fn forget(&mut self, s: &Stmt, changed: &BTreeSet<Slot>) {
        let size = usize::try_from(s.nodes()).unwrap_or(usize::MAX);
        for slot in changed {
            let Slot::Memory(Place::Buffer(b)) = slot else { continue };
            self.graph.spend(size);
            if self.graph.is_spent() {
                return;
            }
            if self.arrays.get(b).is_some_and(|a| overwrites_all(s, a)) {
                let t = self.content(*slot);
                if self.graph.before(t).is_some() && self.graph.blind(t) {
                    let nothing = self.graph.make(What::Overwritten(*b), Vec::new());
                    let t = self.graph.starting(t, nothing);
                    self.content.insert(*slot, t);
                }
            }
        }
    }

    fn repeated(&mut self, s: &Stmt, cond: &Expr, body: &Stmt) {
        self.whiles += 1;
        let key = Key::While(self.whiles);
        let changed = self.changed(s);
        let before = self.begins(key, &changed);
        self.worlds.insert(key, before[&Slot::World]);
        let cond = self.one(cond);
        self.enter(Step::While(cond));
        self.block(body);
        // It may run forever.
        let world = self.content(Slot::World);
        let world = self.graph.make(What::Need, vec![world, cond]);
        self.set(Slot::World, world);
        self.leave();
        self.whiles -= 1;
        self.ends(key, &Kind::While, &[cond], before);
    }

    fn either(&mut self, cond: &Expr, then: &Stmt, other: Option<&Stmt>) {
        let cond = self.one(cond);
        let stands = self.graph.stands(cond).and_then(Expr::as_bool);
        if let Some(holds) = stands {
            return match (holds, other) {
                (true, _) => self.block(then),
                (false, Some(other)) => self.block(other),
                (false, None) => {}
            };
        }
        let before = self.content.clone();
        let mut branch = |holds: bool, s: Option<&Stmt>| {
            let step = self.branch(cond, holds);
            self.enter(step);
            s.into_iter().for_each(|s| self.block(s));
            self.leave();
            std::mem::replace(&mut self.content, before.clone())
        };
        let then = branch(true, Some(then));
        let other = branch(false, other);
        let slots: BTreeSet<Slot> = then.keys().chain(other.keys()).copied().collect();
        for s in slots {
            let initial = self.content(s);
            let (a, b) =
                (then.get(&s).copied().unwrap_or(initial), other.get(&s).copied().unwrap_or(initial));
            let t = self.graph.choice(cond, a, b);
            self.content.insert(s, t);
        }
    }

    fn compute(&mut self, s: &Stmt, c: &Compute) {
        let changed: BTreeSet<Slot> = c.targets.iter().map(|t| self.slot(t)).collect();
        let fails = !s.own_effects().is_none();
        let world = self.content(Slot::World);
        let before = self.begins(Key::Compute, &changed);
        let mut head = Vec::new();
        for d in &c.dims {
            let bounds = self.values([&d.lo, &d.hi]);
            self.enter(Step::Loop(d.binder.id, bounds[0], bounds[1]));
            head.extend(bounds);
        }
        let guard = c.guard.as_ref().map(|g| self.one(g));
        if let Some(guard) = guard {
            let step = self.branch(guard, true);
            self.enter(step);
        }
        let elements: Vec<Term> = c.targets.iter().map(|t| self.element(t)).collect();
        let values = self.values(&c.values);
        for (t, element) in c.targets.iter().zip(&elements) {
            let written = self.graph.make(What::Written(self.slot(t)), vec![*element]);
            self.demand(written);
        }
        for _ in 0..c.dims.len() + usize::from(guard.is_some()) {
            self.leave();
        }
        let entries = changed.iter().map(|s| self.content(*s)).collect::<Vec<_>>();
        let of = entries.into_iter().chain(elements).chain(values).chain(guard).collect();
        let point = self.graph.make(What::Point(c.targets.len()), of);
        for s in &changed {
            self.set(*s, point);
        }
        let dims: Vec<(VarId, Combine)> = c.dims.iter().map(|d| (d.binder.id, d.combine.clone())).collect();
        let kind = Kind::Compute { dims, update: c.update.clone(), guarded: c.guard.is_some() };
        self.ends(Key::Compute, &kind, &head, before);
        self.forget(s, &changed);
        if fails {
            let mut of = vec![world];
            of.extend(changed.iter().map(|s| self.content(*s)));
            let t = self.graph.make(What::Event(*s.with_children(Vec::new()).digest()), of);
            self.set(Slot::World, t);
        }
    }

    /// A statement that others see, or that sees others: nothing is known of memory after it.
    fn event(&mut self, s: &Stmt) {
        let mut of = vec![self.content(Slot::World)];
        of.extend(self.values(s.evaluated()));
        let touched = s.touches().into_iter().map(|t| Slot::Memory(self.memory.place(t.0.view())));
        for slot in touched.collect::<Vec<_>>() {
            of.push(self.content(slot));
        }
        let erased = |e: &Expr| Expr::new(ExprKind::Var(VarId(u32::MAX)), e.ty().clone());
        let exprs = s.exprs().into_iter().map(erased).collect();
        let empty = s.children().map(|_| Stmt::empty()).collect();
        let what = What::Event(*s.with_exprs(exprs).with_children(empty).digest());
        let event = self.graph.make(what, of);
        let slots: Vec<Slot> = self.everything().collect();
        for slot in slots {
            let before = self.content(slot);
            let t = match slot {
                Slot::World => event,
                Slot::Facts => before,
                Slot::Memory(_) => self.graph.make(What::After(slot), vec![event, before]),
            };
            self.set(slot, t);
        }
        s.for_each_part(&mut |p| {
            if let Part::Bind(b, BinderRole::Old) = p {
                let t = self.graph.make(What::Found(Type::from(b.ty)), vec![event]);
                self.vars.insert(b.id, t);
            }
        });
        for child in s.children() {
            self.block(child);
        }
        if s.children().len() > 0 {
            self.begin();
            let before = self.content(Slot::World);
            let end = self.graph.make(What::Value(build::boolean(true)), Vec::new());
            let t = self.graph.make(What::Need, vec![before, end]);
            self.set(Slot::World, t);
        }
    }
}
