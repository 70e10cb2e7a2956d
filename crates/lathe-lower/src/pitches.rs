//! How far apart the rows of a buffer of the frame lie. Vectors along rows that end within a vector would overlap with
//! the next row, and memory whose vectors overlap does not become registers: such rows are as long as whole vectors.

use lathe_ir::stmt::AccessMode;
use lathe_ir::{
    Access, BufId, Buffer, Executor, Function, Layout, LayoutStep, Space, Stmt, StmtKind, VarId, visit,
};
use lathe_poly::Linear;
use std::sync::Arc;

/// Frames hold no more than this, in bytes.
pub const MAX_FRAME: u64 = 256 << 10;

/// The function with such rows apart.
pub fn apart(func: &Function) -> Function {
    Function { body: stmt(&func.body), ..func.clone() }
}

fn stmt(s: &Stmt) -> Stmt {
    // Where every lane has a buffer of its own, lanes lie side by side.
    if s.as_loop().is_some_and(|l| matches!(l.exec, Executor::Vector(w) if w > 1)) {
        return s.clone();
    }
    let new: Vec<Stmt> = s.children().map(stmt).collect();
    let same = s.children().zip(&new).all(|(a, b)| a.ptr_eq(b));
    let s = if same { s.clone() } else { s.with_children(new) };
    let padded = s.as_alloc().and_then(|(b, body)| Some((padded(b, body)?, body)));
    match padded {
        Some((buffer, body)) => s.with_kind(StmtKind::Alloc { buffer, body: body.clone() }),
        None => s,
    }
}

/// The buffer with longer rows, where it has rows that end within a vector.
fn padded(buffer: &Buffer, body: &Stmt) -> Option<Arc<Buffer>> {
    let framed = matches!(buffer.space, Space::Stack | Space::Register) && buffer.layout.is_row_major();
    let extents: Vec<i64> = buffer.extents.iter().map(|x| x.as_int()).collect::<Option<_>>()?;
    let (row, rows) = extents.split_last().filter(|(n, rows)| framed && !rows.is_empty() && **n > 0)?;
    let lanes = i64::from(lanes_along_rows(body, buffer.id));
    if row % lanes == 0 {
        return None;
    }
    let long = u64::try_from(*row).ok()?.next_multiple_of(lanes as u64);
    let count = rows.iter().try_fold(long, |n, x| n.checked_mul((*x).max(0) as u64))?;
    if count.checked_mul(buffer.elem.bytes())? > MAX_FRAME {
        return None;
    }
    let layout = Layout { steps: vec![LayoutStep::Pad { dim: rows.len(), multiple: lanes as u64 }] };
    Some(Arc::new(Buffer { layout, ..buffer.clone() }))
}
/// The widest vectors that run along the last subscript of a buffer.
fn lanes_along_rows(body: &Stmt, id: BufId) -> u32 {
    let mut vectors: Vec<(VarId, u32)> = Vec::new();
    let mut most = 1;
    visit::walk(body, &mut |s, _| {
        let mut note = |a: &Access| {
            let last = a.indices.last().filter(|_| a.view.buffer() == Some(id)).map(Linear::of);
            let Some(form) = last else { return };
            let runs = |var: VarId| {
                let mut with = form.terms.iter().filter(|t| visit::vars_of(&t.0).contains(&var));
                with.next().is_some_and(|t| t.1 == 1) && with.next().is_none()
            };
            most = vectors.iter().filter(|v| runs(v.0)).map(|v| v.1).fold(most, u32::max);
        };
        s.exprs().into_iter().flat_map(visit::loads_of).for_each(|a| note(&a));
        s.accesses().filter(|a| a.1 != AccessMode::Prefetch).for_each(|a| note(a.0));
        if let Some(Executor::Vector(w)) = s.as_loop().map(|l| &l.exec) {
            vectors.extend(s.binders().into_iter().map(|b| (b.0.id, *w)));
        }
        true
    });
    most
}
