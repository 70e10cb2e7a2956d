//! Statements that overwrite whole arrays.

use crate::leaves::written_buffers;
use lathe_ir::visit::loads_of;
use lathe_ir::{BufId, Buffer, Combine, Expr, Stmt, VarId, View};
use lathe_poly::Linear;

/// Whether a statement in index notation, or a nest of loops around one store, overwrites every element of an array. What
/// else the loops hold does not write the array.
pub fn overwrites_all(s: &Stmt, array: &Buffer) -> bool {
    let mut ranges: Vec<(VarId, &Expr, &Expr)> = Vec::new();
    let mut here = s;
    while let Some(l) = here.as_loop().filter(|l| l.step == 1) {
        ranges.push((l.binder.id, &l.lo, &l.hi));
        let (mut all, mut allocated) = (Vec::new(), Vec::new());
        entries(&l.body, &mut all, &mut allocated);
        let mut writers = all.into_iter().filter(|s| written_buffers(s).contains(&array.id));
        match (writers.next(), writers.next()) {
            (Some(one), None) if !allocated.contains(&array.id) => here = one,
            _ => return false,
        }
    }
    let target = if let Some(st) = here.as_store() {
        &st.target
    } else if let Some(c) = here.as_compute().filter(|c| c.update.is_none() && c.guard.is_none()) {
        let free = c.dims.iter().filter(|d| d.combine == Combine::Concat);
        ranges.extend(free.map(|d| (d.binder.id, &d.lo, &d.hi)));
        let [target] = &c.targets[..] else { return false };
        target
    } else {
        return false;
    };
    let whole = |i: &Expr, extent: &Expr| {
        let range = i.as_var().and_then(|v| ranges.iter().find(|r| r.0 == v));
        range.is_some_and(|(_, lo, hi)| lo.as_int() == Some(0) && Linear::of(hi) == Linear::of(extent))
    };
    target.view == View::Buffer(array.id)
        && ranges.len() == target.indices.len()
        && target.indices.len() == array.extents.len()
        && target.indices.iter().zip(&array.extents).all(|(i, e)| whole(i, e))
        && target.indices.iter().enumerate().all(|(n, i)| !target.indices[..n].contains(i))
        && array.extents.iter().all(|e| loads_of(e).is_empty())
}

/// The statements of a block, and the arrays that live in it.
fn entries<'a>(s: &'a Stmt, out: &mut Vec<&'a Stmt>, allocated: &mut Vec<BufId>) {
    let mut left = vec![s];
    while let Some(s) = left.pop() {
        allocated.extend(s.allocated().map(|b| b.id));
        match (s.as_seq(), s.as_let(), s.as_alloc()) {
            (Some(all), ..) => left.extend(all),
            (_, Some((.., body)), _) | (.., Some((_, body))) => left.push(body),
            _ => out.push(s),
        }
    }
}
