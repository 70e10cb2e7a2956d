//! Local arrays that every iteration of a loop fills before it reads them become arrays of an iteration (array
//! privatization): nothing of them needs to be kept from one iteration to the reverse sweep, and their shadows begin at
//! zero in every iteration.

use lathe_ir::visit::{loads_of, map_stmts};
use lathe_ir::{Access, BufId, Buffer, Compute, Expr, Function, Stmt, StmtKind, VarId, View};
use lathe_poly::Linear;
use std::sync::Arc;

/// The function with local arrays as far inside as they can be.
pub fn sunk(func: &Function) -> Function {
    let body = map_stmts(&func.body, &mut |s| match s.as_alloc() {
        Some((buffer, body)) => into_loop(buffer, body).unwrap_or(s),
        None => s,
    });
    Function { body, ..func.clone() }
}

/// The statement with the array inside of the loop that alone uses it.
fn into_loop(buffer: &Arc<Buffer>, s: &Stmt) -> Option<Stmt> {
    if let Some(list) = s.as_seq() {
        let mut users = list.iter().enumerate().filter(|(_, c)| touches(c, buffer.id));
        let (n, only) = users.next()?;
        if users.next().is_some() {
            return None;
        }
        let mut list = list.to_vec();
        list[n] = into_loop(buffer, only)?;
        return Some(Stmt::seq(list));
    }
    if let Some((other, body)) = s.as_alloc() {
        let body = into_loop(buffer, body)?;
        return Some(s.with_kind(StmtKind::Alloc { buffer: other.clone(), body }));
    }
    let inside = if let StmtKind::While { body, .. } = s.kind() { body } else { &s.as_loop()?.body };
    if s.exprs().into_iter().flat_map(loads_of).any(|a| a.view.buffer() == Some(buffer.id)) {
        return None;
    }
    let body = match into_loop(buffer, inside) {
        Some(further) => further,
        None if is_filled_first(buffer, inside) => {
            Stmt::of(StmtKind::Alloc { buffer: buffer.clone(), body: inside.clone() })
        }
        None => return None,
    };
    Some(s.with_children(vec![body]))
}

fn touches(s: &Stmt, b: BufId) -> bool {
    crate::arrays::touched(s).contains(&b)
}

/// Whether the first statement of a body that touches an array writes all that any statement of it reads.
fn is_filled_first(buffer: &Buffer, body: &Stmt) -> bool {
    let mut list = Vec::new();
    flat(body, &mut list);
    let mut users = list.iter().filter(|s| touches(s, buffer.id));
    let Some(c) = users.next().and_then(|s| s.as_compute()) else { return false };
    let own = |a: &Access| a.view.buffer() == Some(buffer.id);
    let [target] = &c.targets[..] else { return false };
    let reads = c.dims.iter().flat_map(|d| [&d.lo, &d.hi]).chain(&c.values).chain(&target.indices);
    if !own(target) || c.update.is_some() || c.guard.is_some() || reads.flat_map(loads_of).any(|a| own(&a)) {
        return false;
    }
    let Some(filled) = region(c, target) else { return false };
    let whole = filled
        .iter()
        .zip(&buffer.extents)
        .all(|((lo, hi), e)| lo.as_constant() == Some(0) && *hi == Linear::of(e));
    // Ranges over what is outside of the statement only, and the same for every other one.
    whole || users.all(|s| keeps_to(s, buffer.id, &filled))
}

/// Whether a statement that touches an array is a compute, all of whose accesses go over one box.
pub fn keeps_to(s: &Stmt, b: BufId, filled: &[(Linear, Linear)]) -> bool {
    let own = |a: &Access| a.view.buffer() == Some(b);
    s.as_compute().is_some_and(|c| {
        let around = c.dims.iter().flat_map(|d| [&d.lo, &d.hi]).chain(&c.guard);
        let around = around.chain(c.targets.iter().flat_map(|t| &t.indices));
        let read = c.values.iter().flat_map(loads_of).chain(c.targets.iter().cloned());
        !around.flat_map(loads_of).any(|a| own(&a))
            && read.into_iter().filter(own).all(|a| region(c, &a).as_deref() == Some(filled))
    })
}

/// Statements in a row, out of the sequences and local arrays around them.
pub fn flat(s: &Stmt, out: &mut Vec<Stmt>) {
    if let Some(list) = s.as_seq() {
        list.iter().for_each(|c| flat(c, out));
    } else if let Some((_, body)) = s.as_alloc() {
        flat(body, out);
    } else {
        out.push(s.clone());
    }
}

/// The box that an access of a compute goes over, if every subscript is a dimension of its own give or take a constant.
pub fn region(c: &Compute, a: &Access) -> Option<Vec<(Linear, Linear)>> {
    let mut seen: Vec<VarId> = Vec::new();
    let ranges = a.indices.iter().map(|i| {
        let form = Linear::of(i);
        let [(atom, 1)] = &form.terms[..] else { return None };
        let d = c.dims.iter().find(|d| atom.as_var() == Some(d.binder.id))?;
        let inner = |e: &Expr| c.dims.iter().any(|o| lathe_ir::visit::vars_of(e).contains(&o.binder.id));
        if seen.contains(&d.binder.id)
            || inner(&d.lo)
            || inner(&d.hi)
            || !loads_of(&d.lo).is_empty()
            || !loads_of(&d.hi).is_empty()
        {
            return None;
        }
        seen.push(d.binder.id);
        Some((Linear::of(&d.lo).offset(form.constant)?, Linear::of(&d.hi).offset(form.constant)?))
    });
    let ranges: Vec<_> = ranges.collect::<Option<_>>()?;
    (matches!(a.view, View::Buffer(_)) && !ranges.is_empty()).then_some(ranges)
}
