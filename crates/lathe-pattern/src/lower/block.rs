//! Statements being put together: what opens a scope reaches to the end of its block.

use super::Lower;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Binder, Buffer, Expr, Stmt, StmtKind};
use std::sync::Arc;

pub(super) enum Item {
    Stmt(Stmt),
    Alloc(Arc<Buffer>),
    Let(Binder, Expr),
}

/// The statement that a block is.
pub(super) fn fold(items: Vec<Item>) -> Stmt {
    let mut rest: Vec<Stmt> = Vec::new();
    for i in items.into_iter().rev() {
        let body = |rest: &mut Vec<Stmt>| {
            rest.reverse();
            Stmt::seq(std::mem::take(rest))
        };
        match i {
            Item::Stmt(s) => rest.push(s),
            Item::Alloc(buffer) => {
                let places = lathe_diagnostics::Places::none();
                let body = body(&mut rest);
                rest.push(Stmt::new(StmtKind::Alloc { buffer, body }, places));
            }
            Item::Let(binder, value) => {
                let body = body(&mut rest);
                rest.push(Stmt::of(StmtKind::Let { binder, value, body }));
            }
        }
    }
    rest.reverse();
    Stmt::seq(rest)
}

impl Lower<'_> {
    /// What `f` emits, as a statement of its own.
    pub(super) fn block(
        &mut self,
        f: impl FnOnce(&mut Self) -> Result<(), Diagnostic>,
    ) -> Result<Stmt, Diagnostic> {
        let outer = std::mem::take(&mut self.items);
        let result = f(self);
        let inner = std::mem::replace(&mut self.items, outer);
        result?;
        Ok(fold(inner))
    }

    pub(super) fn emit(&mut self, kind: StmtKind) {
        let s = Stmt::new(kind, self.places.clone());
        self.items.push(Item::Stmt(s));
    }

    /// A name for a number, if it is more than a name or a constant.
    pub(super) fn name_number(&mut self, hint: &str, e: Expr) -> Expr {
        let simple = e.as_var().is_some()
            || matches!(
                e.kind(),
                lathe_ir::ExprKind::Int(_) | lathe_ir::ExprKind::Bool(_) | lathe_ir::ExprKind::Float(_)
            );
        match e.ty().scalar() {
            Some(s) if !simple => {
                let b = self.func.fresh_var(if hint == "_" { "x" } else { hint }, s);
                let v = lathe_ir::build::var(&b);
                self.items.push(Item::Let(b, e));
                v
            }
            _ => e,
        }
    }
}
