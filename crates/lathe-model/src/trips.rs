//! How often loops run, and with what: what instructions and traffic both ask.

use crate::accesses::Known;
use lathe_ir::interp::evaluate;
use lathe_ir::visit::{self, vars_of};
use lathe_ir::{Executor, Expr, ExprKind, Loop, Stmt, VarId, build};
use std::collections::{HashMap, HashSet};

/// Whether bounds or conditions inside mention a variable, or what `let` names after it.
pub(crate) fn decides(s: &Stmt, var: VarId) -> bool {
    fn go(s: &Stmt, names: &mut HashSet<VarId>) -> bool {
        let mentioned = |e: &Expr, names: &HashSet<VarId>| !vars_of(e).is_disjoint(names);
        if let Some((binder, value, body)) = s.as_let() {
            if mentioned(value, names) {
                names.insert(binder.id);
            }
            return go(body, names);
        }
        let deciding: Vec<&Expr> = match s.as_compute() {
            Some(c) => c.dims.iter().flat_map(|d| [&d.lo, &d.hi]).collect(),
            None if s.label().is_some() || s.establishes().is_some() => Vec::new(),
            None => s.exprs(),
        };
        deciding.into_iter().any(|e| mentioned(e, names)) || s.children().any(|c| go(c, names))
    }
    go(s, &mut HashSet::from([var]))
}

/// How often a loop runs where data decide.
pub(crate) const UNKNOWN_TRIPS: f64 = 16.0;

/// The bounds of a loop. Data in them are taken as growing from each element to the next, as the places do where the rows of a
/// sparse matrix begin ([`Known::growth`], else [`UNKNOWN_TRIPS`]), so that blocks of such a row are fewer than its elements.
pub(crate) fn bounds(l: &Loop, values: &HashMap<VarId, i64>, known: &Known) -> Option<(i64, i64)> {
    if let (Some(lo), Some(hi)) = (evaluate(&l.lo, values), evaluate(&l.hi, values)) {
        return Some((lo, hi));
    }
    let grown = |e: &Expr| {
        let e = visit::map_expr(e, &mut |e| match e.kind() {
            ExprKind::Load(a) => {
                let at = a.indices.last().and_then(|at| evaluate(at, values));
                let ty = e.ty().scalar().filter(|ty| ty.is_int());
                let each = a.view.buffer().and_then(|b| known.growth.get(&b)).copied();
                let each = each.unwrap_or(UNKNOWN_TRIPS as i64);
                let value = at.zip(ty).map(|(at, ty)| build::int(ty, at.saturating_mul(each)));
                value.unwrap_or(e)
            }
            _ => e,
        });
        evaluate(&e, values)
    };
    grown(&l.lo).zip(grown(&l.hi))
}

/// What stands for numbers of steps and the like that are arguments.
pub(crate) const STEPS: i64 = 100;

/// The value of a loop's variable that stands for most of them: [`typical`], but of a wavefront, whose middle one is the
/// longest, the one halfway there.
pub(crate) fn typical_of(l: &Loop, lo: i64, hi: i64) -> i64 {
    let middle = typical(lo, hi, l.step);
    let mut body = &l.body;
    while let Some([one]) = body.as_seq() {
        body = one;
    }
    let diagonal = body.as_loop().is_some_and(|inner| {
        let told = [&inner.lo, &inner.hi].into_iter().all(|e| visit::mentions(e, l.binder.id));
        inner.exec == Executor::Cpu && told
    });
    if diagonal { typical(lo, middle.saturating_add(l.step), l.step) } else { middle }
}

/// The value of a loop's variable that stands for most of them: the middle one.
pub(crate) fn typical(lo: i64, hi: i64, step: i64) -> i64 {
    let [lo, hi, step] = [lo, hi, step.max(1)].map(i128::from);
    let trips = (hi - lo + step - 1).div_euclid(step);
    i64::try_from(lo + (trips - 1).max(0) / 2 * step).unwrap_or(i64::MAX)
}
