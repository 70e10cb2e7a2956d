//! Expressions: what they evaluate to, and what has to exist for that.

use super::run::{Run, Step};
use super::term::{Slot, Term, What};
use crate::memory::Place;
use lathe_ir::visit::walk_expr;
use lathe_ir::{
    Access, BinOp, Expr, ExprKind, Function, Mode, Module, Name, ParamKind, Type, UnOp, VarId, View,
};
use lathe_poly::Linear;
use rustc_hash::FxHashMap;
use std::collections::HashMap;

/// So many stores to other elements are looked through.
const STORES: usize = 256;

/// Functions call one another at most so deep.
const DEPTH: usize = 64;

impl Run<'_, '_> {
    /// The values of all expressions of one statement, which share parts.
    pub fn values<'e>(&mut self, all: impl IntoIterator<Item = &'e Expr>) -> Vec<Term> {
        let mut done = FxHashMap::default();
        all.into_iter().map(|e| self.value(e, &mut done)).collect()
    }

    pub fn one(&mut self, e: &Expr) -> Term {
        self.value(e, &mut FxHashMap::default())
    }

    /// The value of an expression. `done` holds what the parts of this statement are, where they stand.
    fn value(&mut self, e: &Expr, done: &mut FxHashMap<(usize, usize), Term>) -> Term {
        match e.kind() {
            ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) => {
                return self.graph.make(What::Value(e.clone()), Vec::new());
            }
            ExprKind::Var(v) => {
                let known = self.vars.get(v).copied();
                return known.unwrap_or_else(|| self.graph.make(What::Value(e.clone()), Vec::new()));
            }
            _ => {}
        }
        let place = (e.address(), self.region());
        if let Some(t) = done.get(&place) {
            return *t;
        }
        let t = self.computed(e, done);
        done.insert(place, t);
        t
    }

    fn computed(&mut self, e: &Expr, done: &mut FxHashMap<(usize, usize), Term>) -> Term {
        match e.kind() {
            ExprKind::Load(a) => {
                let element = self.element_of(a, done);
                let slot = Slot::Memory(self.memory.place(&a.view));
                self.load(slot, element, e.ty())
            }
            ExprKind::Address(a) => {
                let element = self.element_of(a, done);
                self.graph.make(What::Address, vec![element])
            }
            ExprKind::Call(name, args) => {
                let args: Vec<Term> = args.iter().map(|a| self.value(a, done)).collect();
                self.call(name, args, e.ty())
            }
            ExprKind::Select(c, a, b) => {
                let c = self.value(c, done);
                let a = self.within(c, true, |run| run.value(a, done));
                let b = self.within(c, false, |run| run.value(b, done));
                self.built(e, &[c, a, b])
            }
            ExprKind::Binary(op @ (BinOp::And | BinOp::Or), a, b) if e.ty().is_bool() => {
                let a = self.value(a, done);
                let b = self.within(a, *op == BinOp::And, |run| run.value(b, done));
                self.built(e, &[a, b])
            }
            _ => {
                let parts: Vec<Term> = e.children().into_iter().map(|c| self.value(c, done)).collect();
                let t = self.built(e, &parts);
                self.asks(e, t);
                t
            }
        }
    }

    /// The operation of an expression on other operands.
    fn built(&mut self, e: &Expr, parts: &[Term]) -> Term {
        let parts = parts.iter().filter_map(|p| self.graph.stands(*p).cloned()).collect();
        self.graph.value(e.with_children(parts))
    }

    /// What the operation of an expression asks for.
    fn asks(&mut self, e: &Expr, t: Term) {
        match e.kind() {
            ExprKind::Binary(op, _, d) if op.is_division() && d.as_int().is_none_or(|d| d == 0) => {
                self.need(t)
            }
            // Nothing fails in a tree that was checked, where it stands.
            ExprKind::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Shl, ..)
            | ExprKind::Unary(UnOp::Neg, _)
            | ExprKind::Cast(_)
                if e.ty().is_index() =>
            {
                self.demand(t);
            }
            _ => {}
        }
    }

    /// The element that an access means.
    pub fn element(&mut self, a: &Access) -> Term {
        self.element_of(a, &mut FxHashMap::default())
    }

    fn element_of(&mut self, a: &Access, done: &mut FxHashMap<(usize, usize), Term>) -> Term {
        let of = a.exprs().into_iter().map(|e| self.value(e, done)).collect();
        self.graph.make(What::Element(erased(&a.view)), of)
    }

    /// What an element of memory holds.
    pub fn load(&mut self, slot: Slot, element: Term, ty: &Type) -> Term {
        let mut memory = self.content(slot);
        for _ in 0..STORES {
            let node = self.graph.node(memory).clone();
            let (What::Store, [before, there, value]) = (&node.what, node.of.as_slice()) else { break };
            if *there == element {
                if self.graph.stands(*value).is_some_and(|v| v.ty() == ty) {
                    return *value;
                }
                break;
            }
            if !self.apart(*there, element) {
                break;
            }
            memory = *before;
        }
        let t = self.graph.make(What::Load(ty.clone()), vec![memory, element]);
        self.demand(t);
        t
    }

    /// Memory with one element more known.
    pub fn store(&mut self, slot: Slot, element: Term, value: Term) {
        let memory = self.content(slot);
        let under = self.without(memory, element, STORES).unwrap_or(memory);
        let t = self.graph.make(What::Store, vec![under, element, value]);
        self.set(slot, t);
        let written = self.graph.make(What::Written(slot), vec![element]);
        self.demand(written);
    }

    /// Memory without stores to an element that is overwritten now, if there are any.
    fn without(&mut self, memory: Term, element: Term, left: usize) -> Option<Term> {
        let left = left.checked_sub(1)?;
        let node = self.graph.node(memory).clone();
        match (&node.what, node.of.as_slice()) {
            (What::Store, [before, there, _]) if *there == element => Some(*before),
            (What::Store, [before, there, value]) => {
                let before = self.without(*before, element, left)?;
                Some(self.graph.make(What::Store, vec![before, *there, *value]))
            }
            (What::Choice, [cond, then, other]) => {
                let both = [*then, *other].map(|t| self.without(t, element, left / 2));
                if both == [None, None] {
                    return None;
                }
                let [then, other] = [both[0].unwrap_or(*then), both[1].unwrap_or(*other)];
                Some(self.graph.choice(*cond, then, other))
            }
            (What::Around { .. }, _) => {
                let before = self.graph.before(memory)?;
                let stripped = self.without(before, element, left)?;
                self.graph.blind(memory).then(|| self.graph.starting(memory, stripped))
            }
            _ => None,
        }
    }

    /// Whether two elements are two elements in any case.
    fn apart(&self, a: Term, b: Term) -> bool {
        let (a, b) = (self.graph.node(a), self.graph.node(b));
        let (What::Element(v), What::Element(w)) = (&a.what, &b.what) else { return false };
        let differ = |(x, y): (&Term, &Term)| match (self.graph.stands(*x), self.graph.stands(*y)) {
            (Some(x), Some(y)) => Linear::difference(x, y).is_some_and(|d| d != 0),
            _ => false,
        };
        matches!(v, View::Buffer(_))
            && v == w
            && a.of.len() == b.of.len()
            && a.of.iter().zip(&b.of).any(differ)
    }

    /// A call of a function of the module: its value, if it is one.
    fn call(&mut self, name: &Name, args: Vec<Term>, ty: &Type) -> Term {
        if let Some((callee, value)) = only_value(self.module, name).filter(|_| self.calls.len() < DEPTH)
            && callee.params.len() == args.len()
            && !self.calls.contains(name)
            && !reaches(self.module, value, name)
        {
            let binders = callee.params.iter().filter_map(|p| match &p.kind {
                ParamKind::Scalar(b) => Some(b.id),
                ParamKind::Array(_) => None,
            });
            let own: HashMap<VarId, Term> = binders.zip(args).collect();
            let outside = std::mem::replace(&mut self.vars, own);
            self.calls.push(name.clone());
            let t = self.one(value);
            self.calls.pop();
            self.vars = outside;
            return t;
        }
        let shared = self.content(Slot::Memory(Place::Shared));
        let of = std::iter::once(shared).chain(args).collect();
        let t = self.graph.make(What::Call(name.clone(), ty.clone()), of);
        self.need(t);
        t
    }

    /// What is evaluated only where a condition is so.
    fn within<T>(&mut self, cond: Term, holds: bool, f: impl FnOnce(&mut Self) -> T) -> T {
        let step = self.branch(cond, holds);
        self.enter(step);
        let out = f(self);
        self.leave();
        out
    }

    /// What a condition says, without negations.
    pub fn branch(&mut self, cond: Term, holds: bool) -> Step {
        match self.graph.turned(cond) {
            Some(turned) => self.branch(turned, !holds),
            None => Step::Branch(cond, holds),
        }
    }
}

/// A view without its expressions.
fn erased(v: &View) -> View {
    v.map_exprs(&mut |e| Expr::new(ExprKind::Var(VarId(u32::MAX)), e.ty().clone()))
}

/// A function that is nothing but a value of its scalars, and that value.
pub fn only_value<'m>(module: &'m Module, name: &Name) -> Option<(&'m Function, &'m Expr)> {
    let callee = module.functions.get(name)?;
    let plain = callee.params.iter().all(|p| matches!(p.kind, ParamKind::Scalar(_)) && p.mode == Mode::In);
    let value = callee.result.as_ref()?;
    (plain && callee.body.is_empty() && callee.sizes.is_empty()).then_some((callee, value))
}

/// Whether an expression calls a function, or one that calls it.
pub fn reaches(module: &Module, e: &Expr, name: &Name) -> bool {
    let (mut seen, mut left): (Vec<Name>, Vec<&Expr>) = (Vec::new(), vec![e]);
    while let Some(e) = left.pop() {
        let mut found: Vec<Name> = Vec::new();
        walk_expr(e, &mut |x| {
            if let ExprKind::Call(n, _) = x.kind() {
                found.push(n.clone());
            }
        });
        for n in found {
            if n == *name {
                return true;
            }
            if !seen.contains(&n) {
                left.extend(only_value(module, &n).map(|c| c.1));
                seen.push(n);
            }
        }
    }
    false
}
