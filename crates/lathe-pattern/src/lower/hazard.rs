//! Whether an operator may write its accumulator while it reads it.

use lathe_ir::stmt::Touched;
use lathe_ir::visit::{loads_of, walk};
use lathe_ir::{Access, BufId, Buffer, Expr, Stmt};
use std::sync::Arc;

/// Whether a step reads one of the buffers at a place that it may have written before, or will write for
/// another element: everything but reading the very cell that is written next.
pub(super) fn reads_elsewhere(step: &Stmt, buffers: &[Arc<Buffer>]) -> bool {
    let own = |a: &Access| buffers.iter().find(|b| a.view.buffer() == Some(b.id)).map(|b| b.id);
    let all = writes(step, &own);
    let stores_to = |all: &[(BufId, Access)], b: BufId| all.iter().filter(|w| w.0 == b).count();
    let mut found = false;
    walk(step, &mut |s, _| {
        let reads = |e: &Expr| -> Vec<(BufId, Access)> {
            loads_of(e).into_iter().filter_map(|l| Some((own(&l)?, l))).collect()
        };
        let written: Vec<&Access> = targets(s).collect();
        if let Some((_, value, body)) = s.as_let() {
            // A name for cells that are written under it, and nowhere else.
            let inside = writes(body, &own);
            for (b, l) in reads(value) {
                found |= stores_to(&inside, b) != stores_to(&all, b)
                    || inside.iter().any(|w| w.1.indices != l.indices);
            }
        } else if !written.is_empty() && s.as_compute().is_none() {
            for (b, l) in s.exprs().into_iter().flat_map(reads) {
                let same = written.iter().any(|t| t.view == l.view && t.indices == l.indices);
                // Cells that the whole step leaves alone can be read anywhere.
                found |= !same && stores_to(&all, b) > 0;
            }
        } else {
            let whole =
                |t: Touched| t.element().is_none() && buffers.iter().any(|b| t.buffer() == Some(b.id));
            found |= s.exprs().into_iter().any(|e| !reads(e).is_empty());
            found |= s.touches().into_iter().any(|t| whole(t.0));
        }
        true
    });
    found
}

/// The elements that a statement itself writes.
fn targets(s: &Stmt) -> impl Iterator<Item = &Access> {
    s.accesses().filter(|a| a.1.writes()).map(|a| a.0)
}

fn writes(s: &Stmt, own: &dyn Fn(&Access) -> Option<BufId>) -> Vec<(BufId, Access)> {
    let mut out = Vec::new();
    walk(s, &mut |s, _| {
        out.extend(targets(s).filter_map(|t| Some((own(t)?, t.clone()))));
        true
    });
    out
}
