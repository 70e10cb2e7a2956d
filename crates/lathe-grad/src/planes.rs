//! Local arrays that are only touched plane by plane, under constant subscripts (`g[0, x, y]`, `g[1, x, y]`, …), are as
//! many arrays: what is known of an array as a whole, that an iteration fills it or that its shadow is zero, is known of each plane then.

use lathe_ir::visit::{map_accesses, map_stmts};
use lathe_ir::{Access, BufId, Buffer, Function, Stmt, StmtKind, View};
use std::sync::Arc;

/// The most planes.
const MOST: i64 = 16;

/// The function with an array for each plane.
pub fn apart(func: &Function) -> Function {
    let mut next = func.next_id;
    let body = map_stmts(&func.body, &mut |s| match s.as_alloc() {
        Some((b, body)) => of(b, body, &mut next).unwrap_or(s),
        None => s,
    });
    Function { body, next_id: next, ..func.clone() }
}

fn of(b: &Arc<Buffer>, body: &Stmt, next: &mut u32) -> Option<Stmt> {
    if b.extents.len() < 2 || !b.layout.is_row_major() {
        return None;
    }
    let planes = |d: &usize| b.extents[*d].as_int().filter(|n| (2..=MOST).contains(n));
    let d = (0..b.extents.len()).find(|d| planes(d).is_some_and(|n| is_apart(b.id, *d, n, body)))?;
    let n = planes(&d)?;
    let mut extents = b.extents.clone();
    extents.remove(d);
    let made: Vec<Arc<Buffer>> = (0..n)
        .map(|k| {
            *next += 1;
            let name = format!("{}.{k}", b.name).into();
            Arc::new(Buffer { id: BufId(*next - 1), name, extents: extents.clone(), ..(**b).clone() })
        })
        .collect();
    let body = map_accesses(body, &mut |a| {
        let plane = a.indices.get(d).filter(|_| a.view == View::Buffer(b.id))?.as_int()?;
        let mut indices = a.indices.clone();
        indices.remove(d);
        let view = View::Buffer(made.get(usize::try_from(plane).ok()?)?.id);
        Some(Access { view, indices, ..a.clone() })
    });
    let within = |body, buffer| Stmt::of(StmtKind::Alloc { buffer, body });
    Some(made.into_iter().rev().fold(body, within))
}

/// Whether every subscript of a dimension is the number of a plane.
fn is_apart(b: BufId, d: usize, n: i64, body: &Stmt) -> bool {
    let (mut apart, mut elements) = (true, 0);
    map_accesses(body, &mut |a| {
        if a.view.buffer() == Some(b) {
            let plane = a.indices.get(d).and_then(|i| i.as_int());
            apart &= a.view == View::Buffer(b) && plane.is_some_and(|k| (0..n).contains(&k));
            elements += 1;
        }
        None
    });
    let mut whole = false;
    lathe_ir::visit::walk(body, &mut |s, _| {
        whole |= s.touches().iter().any(|t| t.0.buffer() == Some(b) && t.0.element().is_none());
        !whole
    });
    apart && elements > 0 && !whole
}
