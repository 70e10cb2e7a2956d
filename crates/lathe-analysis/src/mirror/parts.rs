//! Partial results: every part of a reduction combines into elements of its own, which are combined in the end.

use super::{Check, Mirror, Staged, covered};
use crate::env::{Env, Item};
use crate::leaves::{Role, Touch, leaves, written_buffers};
use lathe_ir::{Expr, ExprKind, ReduceOp, Stmt, View};
use std::collections::HashSet;

/// A reduction, and what becomes of it.
pub struct Parts<'a> {
    pub op: &'a ReduceOp,
    /// What combining starts from: the identity of the operator.
    pub start: &'a Expr,
    pub before: &'a Stmt,
    /// Gives all elements of the buffer that value.
    pub init: &'a Stmt,
    /// The statement with the buffer in the place of the array.
    pub used: &'a Stmt,
    /// Combines the elements of the buffer into those of the array.
    pub combine: &'a Stmt,
}

/// Whether the array has the value in the end that it had, if the operator is associative and commutative and `start` is
/// its identity: every contribution goes to a position of its element, every such position starts from the identity, and
/// is combined into the element exactly once. Gives how many accesses were examined.
///
/// # Errors
/// What could not be shown, in words.
pub fn partial_results(env: &Env, p: &Parts, m: &Mirror) -> Result<usize, String> {
    let s = Staged { before: p.before, enter: &[], used: p.used, leave: &[], lives_on: true };
    let check = Check { env, s: &s, m, written: written_buffers(p.before) };
    check.ranks()?;
    let (array, buffer) = (m.array, m.buffer);
    let combines = |t: &Touch| matches!(&t.role, Role::Combine { op, licence: true, .. } if op == p.op);
    if !leaves(p.before, &[array.id].into())?.iter().flat_map(|l| &l.touches).all(combines) {
        return Err(format!("something else than a reduction with `{}` touches `{}`", p.op, array.name));
    }
    let mut examined = check.redirected()?;
    let of_buffer = |t: &&Touch| t.buffer == buffer.id;
    let filling = leaves(p.init, &[array.id, buffer.id].into())?;
    for l in &filling {
        let starts = l
            .stmt
            .as_store()
            .is_some_and(|st| st.target.view == View::Buffer(buffer.id) && st.value == *p.start);
        if !starts {
            return Err(format!("`{}` does not start from the identity", l.label));
        }
        examined += 1;
    }
    let filled = filling.iter().flat_map(|l| l.touches.iter().filter(of_buffer).map(move |t| (l, t, None)));
    let filled = check.positions(filled, true)?;
    let used = leaves(p.used, &[buffer.id].into())?;
    let touched = used.iter().flat_map(|l| l.touches.iter().map(move |t| (l, t, None)));
    let touched = check.positions(touched, false)?;
    check.inside(&touched)?;
    if !covered(touched.dims, &touched.parts, &filled.parts) {
        return Err(format!("an element of `{}` may not start from the identity", buffer.name));
    }
    let combining = leaves(p.combine, &[array.id, buffer.id].into())?;
    for l in &combining {
        let Some(r) = l.stmt.as_reduce().filter(|r| r.op == *p.op) else {
            return Err(format!("`{}` does not combine with `{}`", l.label, p.op));
        };
        let pair = r.targets.iter().zip(&r.values).find(|(t, _)| t.view == View::Buffer(array.id));
        let Some((target, ExprKind::Load(part))) = pair.map(|(t, v)| (t, v.kind())) else {
            return Err(format!("`{}` combines something else than a part", l.label));
        };
        let at = part.indices.get(m.own.len()..).unwrap_or(&[]);
        if part.view != View::Buffer(buffer.id) || !check.same_element(&l.items, &target.indices, at) {
            return Err(format!("`{}` combines a part into another element", l.label));
        }
        once(&l.items, &part.indices).ok_or_else(|| format!("`{}` may combine a part twice", l.label))?;
        examined += 1;
    }
    let [_] = combining.as_slice() else { return Err("parts are combined in several places".into()) };
    let read = |t: &&Touch| t.buffer == buffer.id && t.role == Role::Read;
    let combined = combining.iter().flat_map(|l| l.touches.iter().filter(read).map(move |t| (l, t, None)));
    let combined = check.positions(combined, true)?;
    if !covered(touched.dims, &touched.parts, &combined.parts) {
        return Err(format!("a part of `{}` may not be combined", array.name));
    }
    // Positions that nothing is combined into hold the identity, if anything.
    if !covered(combined.dims, &combined.parts, &filled.parts) {
        return Err(format!("an element of `{}` may be combined that has no value", buffer.name));
    }
    Ok(examined)
}

/// Whether different iterations have different subscripts: each is the variable of a loop, and no loop is without one.
fn once(items: &[Item], at: &[Expr]) -> Option<()> {
    let mut left: HashSet<_> = items.iter().filter_map(Item::binds).collect();
    at.iter().all(|e| e.as_var().is_some_and(|v| left.remove(&v))).then_some(())?;
    left.is_empty().then_some(())
}
