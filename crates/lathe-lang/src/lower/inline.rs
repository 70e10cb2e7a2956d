//! What expressions of kernels take in: funs on scalars that they call, with arguments in place of parameters, and values
//! that a block names.

use super::expr::Val;
use super::scope::{Cx, Entity};
use crate::ast::{self, Ident};
use crate::codes;
use lathe_diagnostics::Span;
use lathe_ir::{Binder, BufId, Expr, Function, Mode, Param, ParamKind, Stmt, Type, VarId, build, visit};
use std::collections::HashMap;

/// So many operations may stand in an expression, written out, with what is named and called in it.
const MOST: usize = 20_000;

/// A fun on scalars, as an expression.
pub struct ScalarFun {
    params: Vec<Binder>,
    body: Expr,
}

impl ScalarFun {
    /// Of the fun's translation; none where it has arrays, or more than an expression for each result.
    pub fn of(f: &Function) -> Option<ScalarFun> {
        let inputs = f.params.iter().filter(|p| p.mode == Mode::In);
        let params = inputs.map(scalar).collect::<Option<Vec<_>>>()?;
        let outputs = f.params.iter().filter(|p| p.mode != Mode::In);
        let outputs =
            outputs.map(|p| p.array().filter(|b| b.extents.is_empty())).collect::<Option<Vec<_>>>()?;
        let mut found: Vec<Option<Expr>> = vec![None; outputs.len()];
        results(&f.body, &HashMap::new(), &mut |store| {
            let at = outputs.iter().position(|b| Some(b.id) == store.0)?;
            found[at].replace(store.1).is_none().then_some(())
        })?;
        let mut parts = found.into_iter().collect::<Option<Vec<_>>>()?;
        let body = match parts.len() {
            0 => return None,
            1 => parts.remove(0),
            _ => build::aggregate(Type::Tuple(parts.iter().map(|e| e.ty().clone()).collect()), parts),
        };
        Some(ScalarFun { params, body })
    }
}

fn scalar(p: &Param) -> Option<Binder> {
    if let ParamKind::Scalar(b) = &p.kind { Some(b.clone()) } else { None }
}

/// What a statement of stores and bindings stores, with what is bound written out; none if it does anything else.
fn results(
    s: &Stmt,
    bound: &HashMap<VarId, Expr>,
    found: &mut dyn FnMut((Option<BufId>, Expr)) -> Option<()>,
) -> Option<()> {
    if let Some((binder, value, body)) = s.as_let() {
        let mut bound = bound.clone();
        bound.insert(binder.id, visit::substitute(value, &bound));
        return results(body, &bound, found);
    }
    if let Some(parts) = s.as_seq() {
        return parts.iter().try_for_each(|p| results(p, bound, found));
    }
    let store = s.as_store()?;
    let value = visit::substitute(&store.value, bound);
    visit::loads_of(&value).is_empty().then_some(())?;
    found((store.target.view.buffer(), value))
}

impl Cx<'_> {
    /// The call of a fun on scalars.
    pub(super) fn inlined(
        &mut self,
        name: &str,
        f: &ScalarFun,
        args: &[&ast::Expr],
        span: Span,
    ) -> Option<Expr> {
        self.arity(name, args, f.params.len(), span)?;
        let given: Vec<Option<Expr>> =
            args.iter().zip(&f.params).map(|(a, p)| self.expr_as(a, &p.ty.into())).collect();
        let given = given.into_iter().collect::<Option<Vec<_>>>()?;
        let map = f.params.iter().map(|p| p.id).zip(given).collect();
        self.bounded(visit::substitute(&f.body, &map), span)
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
