//! The interface of statements, read only: what a statement evaluates, touches, binds and holds, whatever its kind.
//!
//! A pass that asks a question of every statement asks it here, so that it is right for a kind that comes later. A
//! decision per kind is an exhaustive `match` on [`StmtKind`]; one that concerns a single kind uses `as_loop` and the
//! like.

use super::{Arg, Atomic, Compute, Loop, Reduce, Stmt, StmtKind, Store};
use crate::buffer::Buffer;
use crate::expr::{Access, Expr, View};
use crate::ids::{Binder, BufId, Label, VarId};
use crate::ops::ReduceOp;
use std::sync::Arc;

/// What a statement does to the elements that it names itself. (Loads inside its expressions read.)
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AccessMode<'a> {
    Read,
    /// Overwrites without reading.
    Write,
    /// Target number `target` of an update `op=`: read and written.
    Reduce {
        target: usize,
        op: &'a ReduceOp,
        /// May be reordered among instances of the same label.
        licence: bool,
    },
    /// Reads, and writes if it says so, in one indivisible step.
    Atomic {
        writes: bool,
    },
    /// Reads and writes in an order that is not known: an argument of a call.
    Update,
    /// A hint; the element is not read, and need not exist.
    Prefetch,
}

impl AccessMode<'_> {
    /// The value that was there before matters.
    pub fn reads(self) -> bool {
        !matches!(self, AccessMode::Write | AccessMode::Prefetch)
    }

    /// The value that is there afterwards may be another.
    pub fn writes(self) -> bool {
        !matches!(self, AccessMode::Read | AccessMode::Atomic { writes: false } | AccessMode::Prefetch)
    }
}

/// What a statement touches: one element, or anything in a view.
#[derive(Clone, Copy, Debug)]
pub enum Touched<'a> {
    Element(&'a Access),
    Whole(&'a View),
}

impl<'a> Touched<'a> {
    pub fn view(self) -> &'a View {
        match self {
            Touched::Element(a) => &a.view,
            Touched::Whole(v) => v,
        }
    }

    /// The buffer below; none behind a pointer.
    pub fn buffer(self) -> Option<BufId> {
        self.view().buffer()
    }

    pub fn element(self) -> Option<&'a Access> {
        match self {
            Touched::Element(a) => Some(a),
            Touched::Whole(_) => None,
        }
    }
}

/// What a variable that a statement binds stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinderRole {
    Loop,
    /// A dimension of a compute: in scope in the compute's own expressions.
    Dim,
    Let,
    /// The value that an atomic found.
    Old,
    Token,
}

/// One part of a statement, in the order of evaluation; children are not parts ([`Stmt::children`]).
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// The label of a statement that touches memory in its own name, and which instance of it is executed here: never
    /// evaluated. (A compute has no such vector: its instances are the points of its dimensions.)
    Instance(&'a Label, &'a [Expr]),
    /// A bound, a condition, a value, an argument: evaluated when the statement runs.
    Expr(&'a Expr),
    /// What the statement itself touches; the expressions of the view, and subscripts, are evaluated too.
    Touch(Touched<'a>, AccessMode<'a>),
    /// A variable that is named, rather than evaluated: the loop of a barrier, the token of a wait.
    Variable(VarId),
    /// In scope in what comes after this part, children included.
    Bind(&'a Binder, BinderRole),
    /// A local buffer, whose extents are evaluated; in scope in the children.
    Buffer(&'a Arc<Buffer>),
}

impl<'a> Part<'a> {
    /// The expressions in a part.
    pub fn for_each_expr(self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            Part::Instance(_, all) => all.iter().for_each(f),
            Part::Expr(e) => f(e),
            Part::Touch(Touched::Element(a), _) => a.for_each_expr(f),
            Part::Touch(Touched::Whole(v), _) => v.for_each_expr(f),
            Part::Buffer(b) => b.extents.iter().for_each(f),
            Part::Variable(_) | Part::Bind(..) => {}
        }
    }
}

/// The child statements of a statement, in order.
#[derive(Clone)]
pub struct Children<'a> {
    list: std::slice::Iter<'a, Stmt>,
    other: Option<&'a Stmt>,
}

impl<'a> Iterator for Children<'a> {
    type Item = &'a Stmt;

    fn next(&mut self) -> Option<&'a Stmt> {
        self.list.next().or_else(|| self.other.take())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.list.len() + usize::from(self.other.is_some());
        (n, Some(n))
    }
}

impl ExactSizeIterator for Children<'_> {}

impl StmtKind {
    /// Child statements in order, without allocation; a path is a list of positions in these lists.
    pub fn children(&self) -> Children<'_> {
        let (list, other) = match self {
            StmtKind::Seq(v) => (v.as_slice(), None),
            StmtKind::Let { body, .. }
            | StmtKind::While { body, .. }
            | StmtKind::Alloc { body, .. }
            | StmtKind::Token { body, .. }
            | StmtKind::Async { body, .. }
            | StmtKind::Loop(Loop { body, .. })
            | StmtKind::Atomic(Atomic { body, .. }) => (std::slice::from_ref(body), None),
            StmtKind::If { then, other, .. } => (std::slice::from_ref(then), other.as_ref()),
            StmtKind::Store(_)
            | StmtKind::Reduce(_)
            | StmtKind::Check { .. }
            | StmtKind::Assume { .. }
            | StmtKind::Barrier { .. }
            | StmtKind::Prefetch(_)
            | StmtKind::Wait { .. }
            | StmtKind::Call { .. }
            | StmtKind::Compute(_) => (&[][..], None),
        };
        Children { list: list.iter(), other }
    }

    /// Gives every part of the statement, in the order of evaluation.
    pub fn for_each_part<'a>(&'a self, f: &mut dyn FnMut(Part<'a>)) {
        let element = |a: &'a Access, mode: AccessMode<'a>| Part::Touch(Touched::Element(a), mode);
        match self {
            StmtKind::Seq(_) => {}
            StmtKind::Let { binder, value, .. } => {
                f(Part::Expr(value));
                f(Part::Bind(binder, BinderRole::Let));
            }
            StmtKind::Store(s) => {
                f(Part::Instance(&s.label, &s.instance));
                f(element(&s.target, AccessMode::Write));
                f(Part::Expr(&s.value));
            }
            StmtKind::Reduce(r) => {
                f(Part::Instance(&r.label, &r.instance));
                for (target, a) in r.targets.iter().enumerate() {
                    f(element(a, AccessMode::Reduce { target, op: &r.op, licence: r.licence }));
                }
                r.values.iter().for_each(|e| f(Part::Expr(e)));
            }
            StmtKind::Atomic(a) => {
                f(Part::Instance(&a.label, &a.instance));
                f(element(&a.target, AccessMode::Atomic { writes: a.op.writes() }));
                a.op.for_each_expr(&mut |e| f(Part::Expr(e)));
                a.old.iter().for_each(|b| f(Part::Bind(b, BinderRole::Old)));
            }
            StmtKind::Loop(l) => {
                f(Part::Expr(&l.lo));
                f(Part::Expr(&l.hi));
                f(Part::Bind(&l.binder, BinderRole::Loop));
            }
            StmtKind::If { cond, .. } | StmtKind::While { cond, .. } | StmtKind::Check { cond, .. } => {
                f(Part::Expr(cond));
            }
            StmtKind::Assume { fact, .. } => f(Part::Expr(fact)),
            StmtKind::Alloc { buffer, .. } => f(Part::Buffer(buffer)),
            StmtKind::Barrier { of, .. } => f(Part::Variable(*of)),
            StmtKind::Prefetch(a) => f(element(a, AccessMode::Prefetch)),
            StmtKind::Token { token, .. } => f(Part::Bind(token, BinderRole::Token)),
            StmtKind::Async { token, .. } | StmtKind::Wait { token, .. } => f(Part::Variable(*token)),
            StmtKind::Call { args, .. } => {
                for a in args {
                    match a {
                        Arg::Value(e) => f(Part::Expr(e)),
                        Arg::View(v) => f(Part::Touch(Touched::Whole(v), AccessMode::Update)),
                    }
                }
            }
            StmtKind::Compute(c) => compute_parts(c, f),
        }
    }
}

impl Stmt {
    /// Child statements in order, without allocation; a path is a list of positions in these lists.
    pub fn children(&self) -> Children<'_> {
        self.kind().children()
    }

    /// The child at a position.
    pub fn child(&self, position: usize) -> Option<&Stmt> {
        self.children().nth(position)
    }

    /// Gives every part of the statement, in the order of evaluation.
    pub fn for_each_part<'a>(&'a self, f: &mut dyn FnMut(Part<'a>)) {
        self.kind().for_each_part(f);
    }

    /// The label and the instance vector, where the statement has them.
    pub fn labelled(&self) -> Option<(&Label, &[Expr])> {
        let mut out = None;
        self.for_each_part(&mut |p| {
            if let Part::Instance(label, instance) = p {
                out = Some((label, instance));
            }
        });
        out
    }

    pub fn label(&self) -> Option<&Label> {
        self.labelled().map(|l| l.0)
    }

    /// The instance vector; empty without a label.
    pub fn instance(&self) -> &[Expr] {
        self.labelled().map_or(&[], |l| l.1)
    }

    /// What the statement itself touches, children and loads in expressions excluded.
    pub fn touches(&self) -> Vec<(Touched<'_>, AccessMode<'_>)> {
        let mut out = Vec::new();
        self.for_each_part(&mut |p| {
            if let Part::Touch(t, mode) = p {
                out.push((t, mode));
            }
        });
        out
    }

    /// The elements that the statement itself names, with what it does to them.
    pub fn accesses(&self) -> impl Iterator<Item = (&Access, AccessMode<'_>)> {
        self.touches().into_iter().filter_map(|(t, mode)| Some((t.element()?, mode)))
    }

    /// The views that the statement itself writes, children excluded.
    pub fn written(&self) -> impl Iterator<Item = &View> {
        self.touches().into_iter().filter(|t| t.1.writes()).map(|t| t.0.view())
    }

    /// The expressions that are directly in this statement, children excluded, in the order of evaluation:
    /// instance, what targets are made of, values, bounds, conditions.
    pub fn exprs(&self) -> Vec<&Expr> {
        let mut out = Vec::new();
        self.for_each_part(&mut |p| p.for_each_expr(&mut |e| out.push(e)));
        out
    }

    /// The expressions that are evaluated when the statement runs: all but the instance vector.
    pub fn evaluated(&self) -> Vec<&Expr> {
        let mut out = Vec::new();
        self.for_each_part(&mut |p| {
            if !matches!(p, Part::Instance(..)) {
                p.for_each_expr(&mut |e| out.push(e));
            }
        });
        out
    }

    /// The variables that the statement binds, with what they stand for.
    pub fn binders(&self) -> Vec<(&Binder, BinderRole)> {
        let mut out = Vec::new();
        self.for_each_part(&mut |p| {
            if let Part::Bind(b, role) = p {
                out.push((b, role));
            }
        });
        out
    }

    /// The local buffer that lives in the statement's body.
    pub fn allocated(&self) -> Option<&Arc<Buffer>> {
        self.as_alloc().map(|a| a.0)
    }

    // One kind: for what concerns it alone.

    pub fn as_seq(&self) -> Option<&[Stmt]> {
        if let StmtKind::Seq(v) = self.kind() { Some(v) } else { None }
    }

    pub fn as_let(&self) -> Option<(&Binder, &Expr, &Stmt)> {
        if let StmtKind::Let { binder, value, body } = self.kind() {
            Some((binder, value, body))
        } else {
            None
        }
    }

    pub fn as_store(&self) -> Option<&Store> {
        if let StmtKind::Store(s) = self.kind() { Some(s) } else { None }
    }

    pub fn as_reduce(&self) -> Option<&Reduce> {
        if let StmtKind::Reduce(r) = self.kind() { Some(r) } else { None }
    }

    pub fn as_loop(&self) -> Option<&Loop> {
        if let StmtKind::Loop(l) = self.kind() { Some(l) } else { None }
    }

    /// Condition, then, else.
    pub fn as_if(&self) -> Option<(&Expr, &Stmt, Option<&Stmt>)> {
        if let StmtKind::If { cond, then, other } = self.kind() {
            Some((cond, then, other.as_ref()))
        } else {
            None
        }
    }

    pub fn as_alloc(&self) -> Option<(&Arc<Buffer>, &Stmt)> {
        if let StmtKind::Alloc { buffer, body } = self.kind() { Some((buffer, body)) } else { None }
    }

    pub fn as_compute(&self) -> Option<&Compute> {
        if let StmtKind::Compute(c) = self.kind() { Some(c) } else { None }
    }
}

fn compute_parts<'a>(c: &'a Compute, f: &mut dyn FnMut(Part<'a>)) {
    f(Part::Instance(&c.label, &[]));
    for d in &c.dims {
        f(Part::Expr(&d.lo));
        f(Part::Expr(&d.hi));
        f(Part::Bind(&d.binder, BinderRole::Dim));
    }
    for (target, a) in c.targets.iter().enumerate() {
        let mode = match &c.update {
            Some(op) => AccessMode::Reduce { target, op, licence: false },
            None => AccessMode::Write,
        };
        f(Part::Touch(Touched::Element(a), mode));
    }
    c.values.iter().for_each(|e| f(Part::Expr(e)));
    c.guard.iter().for_each(|e| f(Part::Expr(e)));
}
