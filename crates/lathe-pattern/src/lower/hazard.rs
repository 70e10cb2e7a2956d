//! Whether an operator may write its accumulator while it reads it.

use lathe_ir::visit::{loads_of, walk};
use lathe_ir::{Access, BufId, Buffer, Expr, Stmt, StmtKind};
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
        match s.kind() {
            StmtKind::Store(_) | StmtKind::Reduce(_) => {
                let target = target_of(s);
                for e in s.exprs() {
                    for (b, l) in reads(e) {
                        let same = target.is_some_and(|t| t.view == l.view && t.indices == l.indices);
                        // Cells that the whole step leaves alone can be read anywhere.
                        found |= !same && stores_to(&all, b) > 0;
                    }
                }
            }
            // A name for cells that are written under it, and nowhere else.
            StmtKind::Let { value, body, .. } => {
                let inside = writes(body, &own);
                for (b, l) in reads(value) {
                    found |= stores_to(&inside, b) != stores_to(&all, b)
                        || inside.iter().any(|w| w.1.indices != l.indices);
                }
            }
            _ => found |= s.exprs().into_iter().any(|e| !reads(e).is_empty()),
        }
        true
    });
    found
}

fn target_of(s: &Stmt) -> Option<&Access> {
    match s.kind() {
        StmtKind::Store(st) => Some(&st.target),
        StmtKind::Reduce(r) => r.targets.first(),
        _ => None,
    }
}

fn writes(s: &Stmt, own: &dyn Fn(&Access) -> Option<BufId>) -> Vec<(BufId, Access)> {
    let mut out = Vec::new();
    walk(s, &mut |s, _| {
        if let Some(t) = target_of(s)
            && let Some(b) = own(t)
        {
            out.push((b, t.clone()));
        }
        true
    });
    out
}
