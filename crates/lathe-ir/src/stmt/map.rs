//! The interface of statements, rebuilding: the same statement with other parts, whatever its kind.

use super::parts::{AccessMode, BinderRole};
use super::{Arg, Atomic, Compute, Dim, Loop, Reduce, Stmt, StmtKind, Store};
use crate::buffer::Buffer;
use crate::expr::{Access, Expr, View};
use crate::ids::{Binder, Label, VarId};
use std::sync::Arc;

/// What becomes of each part of a statement; parts come in the order of [`Stmt::for_each_part`], children last. By
/// default every part stays as it is; what holds expressions maps these.
pub trait PartMap {
    fn expr(&mut self, e: &Expr) -> Expr {
        e.clone()
    }

    /// The label of a statement that has one, and its instance vector.
    fn labelled(&mut self, label: &Label, instance: &[Expr]) -> (Label, Vec<Expr>) {
        (label.clone(), instance.iter().map(|e| self.expr(e)).collect())
    }

    fn access(&mut self, a: &Access, _: AccessMode) -> Access {
        a.map_exprs(&mut |e| self.expr(e))
    }

    fn view(&mut self, v: &View, _: AccessMode) -> View {
        v.map_exprs(&mut |e| self.expr(e))
    }

    fn variable(&mut self, v: VarId) -> VarId {
        v
    }

    fn binder(&mut self, b: &Binder, _: BinderRole) -> Binder {
        b.clone()
    }

    fn buffer(&mut self, b: &Arc<Buffer>) -> Arc<Buffer> {
        let extents: Vec<Expr> = b.extents.iter().map(|e| self.expr(e)).collect();
        if extents == b.extents { b.clone() } else { Arc::new(Buffer { extents, ..(**b).clone() }) }
    }

    fn child(&mut self, s: &Stmt) -> Stmt {
        s.clone()
    }
}

impl Stmt {
    /// The same statement of other parts, with the same places.
    pub fn map_parts(&self, m: &mut impl PartMap) -> Stmt {
        let kind = match self.kind() {
            StmtKind::Seq(v) => StmtKind::Seq(v.iter().map(|s| m.child(s)).collect()),
            StmtKind::Let { binder, value, body } => {
                let value = m.expr(value);
                let binder = m.binder(binder, BinderRole::Let);
                StmtKind::Let { binder, value, body: m.child(body) }
            }
            StmtKind::Store(s) => {
                let (label, instance) = m.labelled(&s.label, &s.instance);
                let target = m.access(&s.target, AccessMode::Write);
                let value = m.expr(&s.value);
                StmtKind::Store(Store { label, instance, target, value, nontemporal: s.nontemporal })
            }
            StmtKind::Reduce(r) => {
                let (label, instance) = m.labelled(&r.label, &r.instance);
                let mode = |target| AccessMode::Reduce { target, op: &r.op, licence: r.licence };
                let targets = r.targets.iter().enumerate().map(|(n, a)| m.access(a, mode(n))).collect();
                let values = r.values.iter().map(|e| m.expr(e)).collect();
                let (op, licence, contract) = (r.op.clone(), r.licence, r.contract);
                StmtKind::Reduce(Reduce { label, instance, op, targets, values, licence, contract })
            }
            StmtKind::Atomic(a) => {
                let (label, instance) = m.labelled(&a.label, &a.instance);
                let target = m.access(&a.target, AccessMode::Atomic { writes: a.op.writes() });
                let op = a.op.map_exprs(&mut |e| m.expr(e));
                let old = a.old.as_ref().map(|b| m.binder(b, BinderRole::Old));
                let (order, scope) = (a.order, a.scope.clone());
                let body = m.child(&a.body);
                StmtKind::Atomic(Atomic { label, instance, target, op, order, scope, old, body })
            }
            StmtKind::Loop(l) => {
                let (lo, hi) = (m.expr(&l.lo), m.expr(&l.hi));
                let binder = m.binder(&l.binder, BinderRole::Loop);
                let body = m.child(&l.body);
                StmtKind::Loop(Loop { binder, lo, hi, step: l.step, exec: l.exec.clone(), body })
            }
            StmtKind::If { cond, then, other } => {
                let cond = m.expr(cond);
                let then = m.child(then);
                StmtKind::If { cond, then, other: other.as_ref().map(|o| m.child(o)) }
            }
            StmtKind::While { cond, body } => {
                let cond = m.expr(cond);
                StmtKind::While { cond, body: m.child(body) }
            }
            StmtKind::Alloc { buffer, body } => {
                let buffer = m.buffer(buffer);
                StmtKind::Alloc { buffer, body: m.child(body) }
            }
            StmtKind::Check { cond, code, message } => {
                StmtKind::Check { cond: m.expr(cond), code: code.clone(), message: message.clone() }
            }
            StmtKind::Assume { fact, provenance } => {
                StmtKind::Assume { fact: m.expr(fact), provenance: provenance.clone() }
            }
            StmtKind::Barrier { of, spaces } => {
                StmtKind::Barrier { of: m.variable(*of), spaces: spaces.clone() }
            }
            StmtKind::Prefetch(a) => StmtKind::Prefetch(m.access(a, AccessMode::Prefetch)),
            StmtKind::Token { token, body } => {
                let token = m.binder(token, BinderRole::Token);
                StmtKind::Token { token, body: m.child(body) }
            }
            StmtKind::Async { token, body } => {
                let token = m.variable(*token);
                StmtKind::Async { token, body: m.child(body) }
            }
            StmtKind::Wait { token, pending } => {
                StmtKind::Wait { token: m.variable(*token), pending: *pending }
            }
            StmtKind::Call { function, args } => {
                let arg = |a: &Arg| match a {
                    Arg::Value(e) => Arg::Value(m.expr(e)),
                    Arg::View(v) => Arg::View(m.view(v, AccessMode::Update)),
                };
                StmtKind::Call { function: function.clone(), args: args.iter().map(arg).collect() }
            }
            StmtKind::Compute(c) => StmtKind::Compute(compute(m, c)),
        };
        self.with_kind(kind)
    }

    /// The same statement with another label and instance vector (a compute has none); itself if it has no label.
    pub fn relabelled(&self, label: Label, instance: Vec<Expr>) -> Stmt {
        self.map_changed(&mut Relabel { label, instance })
    }

    /// As [`Stmt::map_parts`], but the very same statement if nothing becomes another.
    pub fn map_changed(&self, m: &mut impl PartMap) -> Stmt {
        let new = self.map_parts(m);
        if new == *self { self.clone() } else { new }
    }

    /// The same statement around other children, of the same number and order.
    pub fn with_children(&self, new: Vec<Stmt>) -> Stmt {
        if self.children().len() == 0 {
            return self.clone();
        }
        if self.as_seq().is_some() {
            return self.with_kind(StmtKind::Seq(new));
        }
        self.map_parts(&mut Replace { children: new.into_iter(), exprs: None })
    }

    /// The same statement with one child replaced; itself if there is no such child.
    pub fn with_child(&self, position: usize, new: Stmt) -> Stmt {
        let children = self.children().enumerate();
        self.with_children(
            children.map(|(n, c)| if n == position { new.clone() } else { c.clone() }).collect(),
        )
    }

    /// The same statement with other expressions, as many as [`Stmt::exprs`] gives, in that order.
    pub fn with_exprs(&self, new: Vec<Expr>) -> Stmt {
        if new.is_empty() {
            return self.clone();
        }
        self.map_parts(&mut Replace { children: Vec::new().into_iter(), exprs: Some(new.into_iter()) })
    }
}

fn compute(m: &mut impl PartMap, c: &Compute) -> Compute {
    let (label, _) = m.labelled(&c.label, &[]);
    let dims = c.dims.iter().map(|d| {
        let (lo, hi) = (m.expr(&d.lo), m.expr(&d.hi));
        Dim { binder: m.binder(&d.binder, BinderRole::Dim), lo, hi, combine: d.combine.clone() }
    });
    let dims = dims.collect();
    let mode = |target| match &c.update {
        Some(op) => AccessMode::Reduce { target, op, licence: false },
        None => AccessMode::Write,
    };
    let targets = c.targets.iter().enumerate().map(|(n, a)| m.access(a, mode(n))).collect();
    let values = c.values.iter().map(|e| m.expr(e)).collect();
    let guard = c.guard.as_ref().map(|e| m.expr(e));
    Compute { label, dims, targets, values, guard, update: c.update.clone() }
}

/// Puts new children or new expressions in the place of the old ones.
struct Replace {
    children: std::vec::IntoIter<Stmt>,
    exprs: Option<std::vec::IntoIter<Expr>>,
}

impl PartMap for Replace {
    fn expr(&mut self, e: &Expr) -> Expr {
        match &mut self.exprs {
            Some(new) => new.next().expect("as many expressions as before"),
            None => e.clone(),
        }
    }

    fn child(&mut self, s: &Stmt) -> Stmt {
        match self.exprs {
            Some(_) => s.clone(),
            None => self.children.next().expect("as many children as before"),
        }
    }
}

/// Puts another label and instance vector in the place of the old ones.
struct Relabel {
    label: Label,
    instance: Vec<Expr>,
}

impl PartMap for Relabel {
    fn labelled(&mut self, _: &Label, _: &[Expr]) -> (Label, Vec<Expr>) {
        (self.label.clone(), self.instance.clone())
    }
}
