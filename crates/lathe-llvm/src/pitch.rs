//! How far apart the rows of a buffer of the frame lie. Vectors along rows that end within a vector would overlap with
//! the next row, and memory whose vectors overlap does not become registers: such rows are as long as whole vectors.

use lathe_ir::stmt::AccessMode;
use lathe_ir::{Access, BufId, Buffer, Executor, Stmt, VarId, visit};
use lathe_poly::Linear;

/// The elements of such a buffer and its strides, where they differ from those of dense rows.
pub fn strides(buffer: &Buffer, body: &Stmt) -> Option<(u64, Vec<i64>)> {
    let extents: Vec<i64> = buffer.extents.iter().map(|x| x.as_int()).collect::<Option<_>>()?;
    let row = *extents.last().filter(|n| extents.len() > 1 && **n > 0 && buffer.layout.is_row_major())?;
    let lanes = i64::from(lanes_along_rows(body, buffer.id));
    if row % lanes == 0 {
        return None;
    }
    let mut strides = vec![1; extents.len()];
    let mut step = (row + lanes - 1) / lanes * lanes;
    for d in (0..extents.len() - 1).rev() {
        strides[d] = step;
        step = step.checked_mul(extents[d].max(0))?;
    }
    Some((step as u64, strides))
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
