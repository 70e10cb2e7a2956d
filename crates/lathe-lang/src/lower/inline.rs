//! What expressions of kernels take in: funs on scalars that they call, with arguments in place of parameters, and values
//! that a block names.

use super::expr::Val;
use super::scalar_fun::ScalarFun;
use super::scope::{Cx, Entity};
use crate::ast::{self, Ident};
use crate::codes;
use lathe_diagnostics::Span;
use lathe_ir::{Expr, Type, build};

/// So many operations may stand in an expression, written out, with what is named and called in it.
const MOST: usize = 20_000;

impl Cx<'_> {
    /// The call of a fun on scalars.
    pub(super) fn inlined(
        &mut self,
        name: &str,
        f: &ScalarFun,
        args: &[&ast::Expr],
        span: Span,
    ) -> Option<Expr> {
        self.arity(name, args, f.params().len(), span)?;
        let given: Vec<Option<Expr>> =
            args.iter().zip(f.params()).map(|(a, p)| self.expr_as(a, &p.ty.into())).collect();
        let given = given.into_iter().collect::<Option<Vec<_>>>()?;
        self.bounded(f.applied(given), span)
    }

    /// `{ let a = e; … value }`
    pub(super) fn named(
        &mut self,
        lets: &[(Ident, ast::Expr)],
        value: &ast::Expr,
        hint: Option<&Type>,
        span: Span,
    ) -> Option<Val> {
        self.scopes.push(Default::default());
        let mut ok = true;
        for (name, e) in lets {
            let known = self.expr(e, None);
            ok &= known.is_some();
            if let Some(i) = self.active(&name.text) {
                let at = self.st.indices[i].span;
                self.errors.push(super::types::duplicate("index or name", name, at));
                ok = false;
            }
            // Named all the same: its uses are not at fault.
            let known = known.unwrap_or_else(|| build::float(lathe_ir::Scalar::F32, 0.0));
            ok &= self.declare(name, Entity::Named(known, "a `let`"));
        }
        let value = if ok { self.val(value, hint) } else { None };
        self.scopes.pop();
        match value? {
            Val::Expr(e) => self.bounded(e, span).map(Val::Expr),
            literal => Some(literal),
        }
    }

    /// The expression, if it is of a size that compilers take once all is written out.
    fn bounded(&mut self, e: Expr, span: Span) -> Option<Expr> {
        let mut left = MOST;
        if count(&e, &mut left) {
            return Some(e);
        }
        let mark = format!("more than {MOST} operations, written out");
        self.error(codes::NESTING, "this expression is too large", span, mark);
        self.help("name parts of it by `let` statements, or store them in an array");
        None
    }
}

/// Whether an expression has no more operations than are left; takes them off.
fn count(e: &Expr, left: &mut usize) -> bool {
    *left = left.saturating_sub(1);
    *left > 0 && e.children().into_iter().all(|c| count(c, left))
}
