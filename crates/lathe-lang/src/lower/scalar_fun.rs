//! Funs on scalars, as expressions.

use lathe_ir::{Binder, BufId, Expr, Function, Mode, Param, ParamKind, Stmt, Type, VarId, build, visit};
use std::collections::HashMap;

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

    pub fn params(&self) -> &[Binder] {
        &self.params
    }

    /// Its value with arguments in place of parameters, one for each.
    pub fn applied(&self, arguments: Vec<Expr>) -> Expr {
        let map = self.params.iter().map(|p| p.id).zip(arguments).collect();
        visit::substitute(&self.body, &map)
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
