//! The interface of statements, what holds where: what a child may rely on, and what follows a statement.

use super::{Loop, Stmt, StmtKind};
use crate::buffer::Buffer;
use crate::expr::Expr;
use crate::ids::Binder;
use crate::types::Name;
use std::sync::Arc;

/// What a statement adds around one of its children.
#[derive(Clone, Copy, Debug)]
pub enum Enters<'a> {
    Nothing,
    Let(&'a Binder, &'a Expr),
    /// One iteration.
    Loop(&'a Loop),
    /// Only where the condition is so.
    Condition(&'a Expr, bool),
    /// One iteration of a `while`; the condition held where it began.
    While(&'a Expr),
    Alloc(&'a Arc<Buffer>),
    /// A variable of which nothing is known: what an atomic found, a token.
    Value(&'a Binder),
}

/// What holds from a statement on, for all that follows it in the same sequence.
#[derive(Clone, Copy, Debug)]
pub enum Establishes<'a> {
    /// The call fails otherwise.
    Checked(&'a Expr),
    /// Somebody says so.
    Assumed(&'a Expr, &'a Name),
}

impl Stmt {
    /// What holds in the child at a position beyond what holds in its parent. (Of earlier children of a sequence,
    /// [`Stmt::establishes`] says what is added.)
    pub fn enters(&self, position: usize) -> Enters<'_> {
        match self.kind() {
            StmtKind::Let { binder, value, .. } => Enters::Let(binder, value),
            StmtKind::Loop(l) => Enters::Loop(l),
            StmtKind::If { cond, .. } => Enters::Condition(cond, position == 0),
            StmtKind::While { cond, .. } => Enters::While(cond),
            StmtKind::Alloc { buffer, .. } => Enters::Alloc(buffer),
            StmtKind::Token { token, .. } => Enters::Value(token),
            StmtKind::Atomic(a) => a.old.as_ref().map_or(Enters::Nothing, Enters::Value),
            StmtKind::Seq(_)
            | StmtKind::Async { .. }
            | StmtKind::Store(_)
            | StmtKind::Reduce(_)
            | StmtKind::Check { .. }
            | StmtKind::Assume { .. }
            | StmtKind::Barrier { .. }
            | StmtKind::Prefetch(_)
            | StmtKind::Wait { .. }
            | StmtKind::Call { .. }
            | StmtKind::Compute(_) => Enters::Nothing,
        }
    }

    /// The body of a scope that, where nothing follows the statement, is the rest of its block: of a `let`, a local
    /// buffer, a token, an atomic that gives its old value. A block may hold thousands of them: what walks through it
    /// takes them in a loop.
    pub fn rest_of_block(&self) -> Option<&Stmt> {
        match self.enters(0) {
            Enters::Let(..) | Enters::Alloc(_) | Enters::Value(_) => self.child(0),
            Enters::Nothing | Enters::Loop(_) | Enters::Condition(..) | Enters::While(_) => None,
        }
    }

    /// The condition of a check or an assumption.
    pub fn establishes(&self) -> Option<Establishes<'_>> {
        if let StmtKind::Check { cond, .. } = self.kind() {
            Some(Establishes::Checked(cond))
        } else if let StmtKind::Assume { fact, provenance } = self.kind() {
            Some(Establishes::Assumed(fact, provenance))
        } else {
            None
        }
    }
}
