//! How the instances of the tree that a step leaves correspond to those of the tree that it got: read off the two trees,
//! whatever the step did.

use super::formula::{formula, variable};
use crate::dims::instance_dims;
use lathe_analysis::Env;
use lathe_analysis::env::Item;
use lathe_ir::difference::Difference;
use lathe_ir::stmt::Enters;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Compute, Dim, Executor, Function, Module, Stmt, VarId};
use lathe_strategy::evidence::{Bound, Copy, Formula, Kind, Relation};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// One relation per label whose copies changed; labels that are not among them run what they ran. `kind` is what
/// happened to those that both trees have.
pub(super) fn relations(module: &Module, old: &Function, new: &Function, kind: Kind) -> Vec<Relation> {
    let place = Difference::between(&old.body, &new.body);
    let mut was = Copies::new(Env::at(module, old, &place.path), &place.path);
    let mut now = Copies::new(Env::at(module, new, &place.path), &place.path);
    was.root(place.old, place.start, place.end);
    now.root(place.new, place.start, place.end);
    let mut out = Vec::new();
    for label in &was.order {
        let before = was.of.remove(label).unwrap_or_default();
        match now.of.remove(label) {
            Some(after) if !same(&before, &after) => {
                let kind = if kind == Kind::Contraction && loops(&before) == loops(&after) {
                    Kind::Bijection
                } else {
                    kind
                };
                out.push(Relation { label: label.clone(), kind, before, after });
            }
            Some(_) => {}
            None => {
                out.push(Relation { label: label.clone(), kind: Kind::Removed, before, after: Vec::new() })
            }
        }
    }
    for label in &now.order {
        if let Some(after) = now.of.remove(label) {
            out.push(Relation { label: label.clone(), kind: Kind::New, before: Vec::new(), after });
        }
    }
    out
}

/// In how many loops every copy stands.
fn loops(copies: &[Copy]) -> Vec<usize> {
    let around = |c: &Copy| c.domain.iter().filter(|b| matches!(***b, Bound::Loop { .. })).count();
    copies.iter().map(around).collect()
}

/// The values that have a name in the new tree and had none in the old one.
pub(super) fn named(module: &Module, old: &Function, new: &Function) -> Vec<(Formula, Formula)> {
    let mut known = HashSet::new();
    visit::walk(&old.body, &mut |s, _| {
        known.extend(s.as_let().map(|(b, ..)| b.id));
        true
    });
    let mut out = Vec::new();
    let mut env = Env::root(module, new);
    named_in(&new.body, &known, &mut env, &mut out);
    out
}

fn named_in<'a>(s: &'a Stmt, known: &HashSet<VarId>, env: &mut Env<'a>, out: &mut Vec<(Formula, Formula)>) {
    if let Some((b, value, _)) = s.as_let()
        && !known.contains(&b.id)
    {
        out.push((variable(b), formula(env, value)));
    }
    let outside = env.items.len();
    for (position, child) in s.children().enumerate() {
        if s.as_seq().is_none() {
            env.items.truncate(outside);
            env.enter(s, position);
        }
        named_in(child, known, env, out);
    }
    env.items.truncate(outside);
}

/// The same copies, wherever they stand.
fn same(a: &[Copy], b: &[Copy]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.domain == b.domain && a.instance == b.instance)
}

/// The copies of every label in a subtree.
struct Copies<'a> {
    env: Env<'a>,
    path: Path,
    domain: Vec<Arc<Bound>>,
    order: Vec<String>,
    of: HashMap<String, Vec<Copy>>,
}

impl<'a> Copies<'a> {
    fn new(env: Env<'a>, root: &[usize]) -> Copies<'a> {
        Copies { env, path: root.to_vec(), domain: Vec::new(), order: Vec::new(), of: HashMap::new() }
    }

    /// The changed place without what a sequence shares at its beginning and end.
    fn root(&mut self, s: &'a Stmt, start: usize, end: usize) {
        let Some(all) = s.as_seq() else { return self.stmt(s) };
        for (n, child) in all.iter().enumerate().take(all.len() - end) {
            if n >= start {
                self.path.push(n);
                self.stmt(child);
                self.path.pop();
            }
            self.env.pass(child);
        }
    }

    /// Goes down with the surroundings in hand, so that deep trees cost no more per statement than flat ones.
    fn stmt(&mut self, s: &'a Stmt) {
        if let Some((label, instance)) = s.labelled() {
            let copy = match s.as_compute() {
                Some(c) => self.compute(c),
                None => {
                    let instance = instance.iter().map(|e| formula(&self.env, e)).collect();
                    Copy { path: self.path.clone(), domain: self.domain.clone(), instance }
                }
            };
            match self.of.get_mut(label.as_str()) {
                Some(all) => all.push(copy),
                None => {
                    self.order.push(label.to_string());
                    self.of.insert(label.to_string(), vec![copy]);
                }
            }
        }
        let outside = self.env.items.len();
        for (position, child) in s.children().enumerate() {
            let around = self.domain.len();
            if s.as_seq().is_none() {
                self.domain.extend(self.bound(s, position).map(Arc::new));
                self.env.items.truncate(outside);
                self.env.enter(s, position);
            }
            self.path.push(position);
            self.stmt(child);
            self.path.pop();
            self.domain.truncate(around);
            self.env.pass(child);
        }
        self.env.items.truncate(outside);
    }

    /// A compute runs the instances of the statement that it opens to: a point of its box each.
    fn compute(&mut self, c: &'a Compute) -> Copy {
        let dims = instance_dims(c).unwrap_or_else(|| c.dims.iter().collect());
        let (outside, mut domain) = (self.env.items.len(), self.domain.clone());
        for d in &dims {
            let (lo, hi) = (formula(&self.env, &d.lo), formula(&self.env, &d.hi));
            domain.push(Arc::new(Bound::Loop { var: variable(&d.binder), lo, hi, step: 1 }));
            let Dim { binder, lo, hi, .. } = d;
            self.env.items.push(Item::Loop { binder, lo, hi, step: 1, exec: &Executor::Serial });
        }
        let guard = c.guard.as_ref().map(|g| Bound::Condition { cond: formula(&self.env, g), holds: true });
        domain.extend(guard.map(Arc::new));
        self.env.items.truncate(outside);
        let instance = dims.iter().map(|d| variable(&d.binder)).collect();
        Copy { path: self.path.clone(), domain, instance }
    }

    fn bound(&self, s: &Stmt, position: usize) -> Option<Bound> {
        let of = |e| formula(&self.env, e);
        Some(match s.enters(position) {
            Enters::Nothing | Enters::Alloc(_) => return None,
            Enters::Loop(l) => {
                Bound::Loop { var: variable(&l.binder), lo: of(&l.lo), hi: of(&l.hi), step: l.step }
            }
            Enters::Condition(cond, holds) => Bound::Condition { cond: of(cond), holds },
            Enters::Let(b, value) => Bound::Let { var: variable(b), value: Some(of(value)) },
            Enters::Value(b) => Bound::Let { var: variable(b), value: None::<Formula> },
            Enters::While(cond) => Bound::While { cond: of(cond) },
        })
    }
}
