//! Thread loops around thread loops, with more than one statement between them: a block whose rows of threads
//! work on rows of data, say, each of which sums its row and then divides by the sum.
//!
//! The outer loop is distributed over its body, until every phase is one perfect nest of thread loops.
//! That is always legal, because its iterations are independent of one another, and every one still does its parts in
//! order. Local arrays of an iteration become parts of a buffer with one more dimension. Nests with fewer threads
//! than others leave the rest of a row of threads idle, so that a row's number is the same in all phases.

use crate::phase::{has_barrier, has_threads, is_cluster, is_threads, only_if};
use lathe_ir::build::{and, can_fail, index, lt, not, var};
use lathe_ir::lower::resolve;
use lathe_ir::visit::{loads_of, map_accesses, refresh, substitute_stmt, vars_of};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Executor, Expr, LayoutStep, Loop, Scalar, Stmt, StmtKind, VarId, View,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The block with every thread loop that can be distributed; others stay as they are.
pub fn distributed(s: &Stmt, next_id: &mut u32) -> Stmt {
    let inner: Vec<Stmt> = s.children().map(|c| distributed(c, next_id)).collect();
    let s =
        if s.children().zip(&inner).all(|(a, b)| a.ptr_eq(b)) { s.clone() } else { s.with_children(inner) };
    match s.as_loop() {
        Some(l) if is_threads(&l.exec) && !is_nest(&l.body) && has_threads(&l.body) && !has_barrier(&s) => {
            let mut id = *next_id;
            match Rows::of(l).and_then(|r| r.parts(&l.body, &mut id)) {
                Some(parts) => {
                    *next_id = id;
                    Stmt::seq(parts)
                }
                None => s,
            }
        }
        _ => s,
    }
}

/// Thread loops directly inside of one another, with none in the innermost body.
fn is_nest(s: &Stmt) -> bool {
    match s.as_loop() {
        Some(l) if is_threads(&l.exec) => is_nest(&l.body) || !has_threads(&l.body),
        _ => false,
    }
}

/// How many threads a nest of constant extents that begin at 0 takes.
fn size(s: &Stmt) -> Option<i64> {
    let Some(l) = s.as_loop().filter(|l| is_threads(&l.exec)) else { return Some(1) };
    size(&l.body)?.checked_mul(extent(l)?)
}

fn extent(l: &Loop) -> Option<i64> {
    (l.lo.as_int() == Some(0) && l.step == 1).then(|| l.hi.as_int()).flatten().filter(|n| *n > 0)
}

/// The most threads of a nest in a subtree.
fn widest(s: &Stmt) -> Option<i64> {
    if is_nest(s) {
        return size(s);
    }
    s.children().try_fold(1, |n, c| Some(n.max(widest(c)?)))
}

/// The loop that is distributed.
struct Rows<'a> {
    outer: &'a Loop,
    rows: i64,
    /// The threads of a row.
    width: i64,
}

impl<'a> Rows<'a> {
    fn of(outer: &'a Loop) -> Option<Rows<'a>> {
        Some(Rows { outer, rows: extent(outer)?, width: widest(&outer.body)? })
    }

    fn differs(&self, e: &Expr) -> bool {
        vars_of(e).contains(&self.outer.binder.id) || !loads_of(e).is_empty()
    }

    /// Phases that do what the loop does around `s`; `None` where a bound or a value differs from row to row.
    fn parts(&self, s: &Stmt, next_id: &mut u32) -> Option<Vec<Stmt>> {
        if let Some(all) = s.as_seq() {
            let mut out = Vec::new();
            for run in all.chunk_by(|a, b| !has_threads(a) && !has_threads(b)) {
                match run {
                    [one] => out.extend(self.parts(one, next_id)?),
                    many => out.extend(self.parts_alone(Stmt::seq(many.to_vec()), next_id)?),
                }
            }
            return Some(out);
        }
        if !has_threads(s) {
            return self.parts_alone(s.clone(), next_id);
        }
        if is_nest(s) {
            let nest = self.widened(s)?;
            return Some(vec![self.row(nest, next_id)]);
        }
        if let Some((buffer, body)) = s.as_alloc() {
            let (buffer, body) = self.expanded(buffer, body)?;
            let body = Stmt::seq(self.parts(&body, next_id)?);
            return Some(vec![s.with_kind(StmtKind::Alloc { buffer, body })]);
        }
        if let Some((binder, value, body)) = s.as_let() {
            if !loads_of(value).is_empty() {
                return None;
            }
            return self.parts(&substitute_stmt(body, &HashMap::from([(binder.id, value.clone())])), next_id);
        }
        if let Some((cond, then, other)) = s.as_if() {
            if !loads_of(cond).is_empty() {
                return None;
            }
            if self.differs(cond) {
                let mut out = self.parts(&guarded(cond, then), next_id)?;
                if let Some(other) = other {
                    out.extend(self.parts(&guarded(&not(cond.clone()), other), next_id)?);
                }
                return Some(out);
            }
            let then = Stmt::seq(self.parts(then, next_id)?);
            let other = match other {
                Some(o) => Some(Stmt::seq(self.parts(o, next_id)?)),
                None => None,
            };
            return Some(vec![s.with_kind(StmtKind::If { cond: cond.clone(), then, other })]);
        }
        let l = s.as_loop().filter(|l| matches!(l.exec, Executor::Serial | Executor::Unrolled))?;
        if self.differs(&l.lo) || self.differs(&l.hi) {
            return None;
        }
        let body = Stmt::seq(self.parts(&l.body, next_id)?);
        Some(vec![s.with_kind(StmtKind::Loop(Loop { body, ..l.clone() }))])
    }

    /// Code without threads: the first thread of every row runs it.
    fn parts_alone(&self, s: Stmt, next_id: &mut u32) -> Option<Vec<Stmt>> {
        if is_cluster(&self.outer.exec) {
            return Some(vec![self.row(s, next_id)]);
        }
        let id = VarId(*next_id);
        *next_id += 1;
        let one = Stmt::of(StmtKind::Loop(Loop {
            binder: Binder { id, name: "first".into(), ty: Scalar::Index },
            lo: index(0),
            hi: index(1),
            step: 1,
            exec: Executor::Level("block".into()),
            body: s,
        }));
        let one = self.widened(&one)?;
        Some(vec![self.row(one, next_id)])
    }

    /// A nest of threads with as many threads as a row has.
    fn widened(&self, s: &Stmt) -> Option<Stmt> {
        let all = size(s)?;
        if all == self.width {
            return Some(s.clone());
        }
        let l = s.as_loop()?;
        let own = extent(l)?;
        let inner = all / own;
        if self.width % inner != 0 {
            return None;
        }
        let body = inside(&l.body, &lt(var(&l.binder), index(own)));
        Some(s.with_kind(StmtKind::Loop(Loop { hi: index(self.width / inner), body, ..l.clone() })))
    }

    /// The loop over the rows around a part.
    fn row(&self, part: Stmt, next_id: &mut u32) -> Stmt {
        refresh(&Stmt::of(StmtKind::Loop(Loop { body: part, ..self.outer.clone() })), next_id)
    }

    /// A buffer of every iteration as one of all, whose first dimension is the row.
    fn expanded(&self, buffer: &Arc<Buffer>, body: &Stmt) -> Option<(Arc<Buffer>, Stmt)> {
        let distributed = buffer.layout.is_distributed();
        if !(distributed || buffer.layout.is_row_major()) || buffer.extents.iter().any(|e| self.differs(e)) {
            return None;
        }
        let mut plain = true;
        let new = map_accesses(body, &mut |a| {
            if a.view.buffer() != Some(buffer.id) {
                return None;
            }
            let Ok((id, indices)) = resolve(a) else {
                plain = false;
                return None;
            };
            let indices = [var(&self.outer.binder)].into_iter().chain(indices).collect();
            Some(Access { view: View::Buffer(id), indices, ..a.clone() })
        });
        if !plain || whole(body, buffer.id) {
            return None;
        }
        let extents = [index(self.rows)].into_iter().chain(buffer.extents.iter().cloned()).collect();
        let mut layout = buffer.layout.clone();
        if distributed {
            layout = layout.behind_one();
            layout.steps.push(LayoutStep::Distribute { dim: 0, over: self.outer.binder.name.clone() });
        }
        Some((Arc::new(Buffer { extents, layout, ..(**buffer).clone() }), new))
    }
}

/// Whether a statement names a buffer other than by its elements.
fn whole(s: &Stmt, buffer: BufId) -> bool {
    s.touches().iter().any(|(t, _)| t.buffer() == Some(buffer) && t.element().is_none())
        || s.children().any(|c| whole(c, buffer))
}

/// A condition around the innermost body of a nest of threads.
fn inside(s: &Stmt, cond: &Expr) -> Stmt {
    match s.as_loop() {
        Some(l) if is_threads(&l.exec) => {
            s.with_kind(StmtKind::Loop(Loop { body: inside(&l.body, cond), ..l.clone() }))
        }
        _ => match s.as_if() {
            Some((inner, then, None)) if loads_of(inner).is_empty() && !can_fail(inner) => {
                only_if(and(cond.clone(), inner.clone()), then.clone())
            }
            _ => only_if(cond.clone(), s.clone()),
        },
    }
}

/// A condition around everything that a subtree does, inside of its buffers, loops and nests of threads.
fn guarded(cond: &Expr, s: &Stmt) -> Stmt {
    if is_nest(s) {
        return inside(s, cond);
    }
    if !has_threads(s) {
        return only_if(cond.clone(), s.clone());
    }
    s.with_children(s.children().map(|c| guarded(cond, c)).collect())
}
