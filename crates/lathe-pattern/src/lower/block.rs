//! Statements being put together: what opens a scope reaches to the end of its block.

use super::Lower;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::stmt::block::{Item, rebuilt};
use lathe_ir::{Expr, Stmt, StmtKind};

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
        Ok(rebuilt(inner))
    }

    pub(super) fn emit(&mut self, kind: StmtKind) {
        let s = Stmt::new(kind, self.places.clone());
        self.items.push(Item::Do(s));
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
                self.items.push(Item::Let(b, e, Places::none()));
                v
            }
            _ => e,
        }
    }
}
