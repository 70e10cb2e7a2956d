//! How a reduction begins that has no identity: `if this is the first instance { C = value } else { C op= value }`,
//! where the first instance is that of all reduced loops at their beginnings.

use super::scope::Around;
use crate::rule::Cursor;
use lathe_ir::expr::{Expr, View};
use lathe_ir::visit::{self, Path, distinct_operands};
use lathe_ir::{BinOp, BufId, ExprKind, Scalar, Stmt, Store, VarId, build};
use lathe_poly::bounds;

/// `if cond { C = value } else { C op= value }` with one value per target.
pub fn choice(s: &Stmt) -> Option<(&Expr, &Stmt)> {
    let (cond, then, Some(other)) = s.as_if()? else { return None };
    let r = other.as_reduce()?;
    let stores = then.as_seq().unwrap_or(std::slice::from_ref(then));
    let starts = stores.len() == r.targets.len()
        && stores.iter().zip(r.targets.iter().zip(&r.values)).all(|(s, (t, v))| {
            let same = |s: &Store| s.value == *v && s.target.view == t.view && s.target.indices == t.indices;
            s.as_store().is_some_and(same)
        });
    starts.then_some((cond, other))
}

/// The loops that a condition `a == x and b == y and …` finds at their beginnings: sums of loop variables with positive
/// factors that are as small as they can be. None for any other condition.
pub fn beginnings(cond: &Expr, here: &Around, out: &mut Vec<(VarId, i64)>) -> Option<()> {
    distinct_operands(BinOp::And, cond).iter().try_for_each(|part| beginning(part, here, out))
}

fn beginning(cond: &Expr, here: &Around, out: &mut Vec<(VarId, i64)>) -> Option<()> {
    if cond.as_bool() == Some(true) {
        return Some(());
    }
    let ExprKind::Binary(op, a, b) = cond.kind() else { return None };
    if *op != BinOp::Eq || !a.ty().is_index() {
        return None;
    }
    let form = bounds::normal(a).minus(&bounds::normal(b))?;
    let sign = form.terms.first()?.1.signum();
    let mut least = form.constant;
    for (e, c) in &form.terms {
        let v = e.as_var()?;
        let l = here.loops.iter().find(|l| l.var == v)?;
        let lo = bounds::normal(&l.lo).as_constant()?;
        if c.signum() != sign {
            return None;
        }
        least = least.checked_add(c.checked_mul(lo)?)?;
        out.push((v, lo));
    }
    (least == 0).then_some(())
}

/// Whether the reductions into a buffer that a statement holds go on from what was computed before it: some loop around
/// the statement is beyond its beginning; `false` where all loops that are reduced stand in the statement. None where
/// no reduction begins in it.
pub fn resumes(cursor: &Cursor, target: &Path, stmt: &Stmt, buffer: BufId) -> Option<Expr> {
    let outside = Around::of(cursor.func, target).binders;
    let mut found: Vec<Vec<(VarId, i64)>> = Vec::new();
    let mut told = true;
    visit::walk(stmt, &mut |s, p| {
        if let Some((cond, reduce)) = choice(s)
            && let Some(r) = reduce.as_reduce()
            && r.targets.iter().any(|t| t.view == View::Buffer(buffer))
        {
            let path: Path = target.iter().chain(p).copied().collect();
            let here = Around::of(cursor.func, &path);
            let mut begins = Vec::new();
            told &= beginnings(&visit::substitute(cond, &here.lets), &here, &mut begins).is_some();
            begins.retain(|b| outside.iter().any(|o| o.id == b.0));
            begins.sort();
            found.push(begins);
        }
        true
    });
    let begins = found.first().filter(|b| told && found.iter().all(|x| x == *b))?;
    let beyond = |(v, lo): &(VarId, i64)| build::lt(build::index(*lo), build::var_id(*v, Scalar::Index));
    Some(begins.iter().map(beyond).reduce(build::or).unwrap_or(build::boolean(false)))
}
