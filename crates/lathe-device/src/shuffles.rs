//! Halvings of partial results within one warp, which printers make shuffles of: neighbours hand their registers on, and no
//! barrier is needed.
//!
//! The tree says it with shared memory: `if t < 16 { P[t] op= P[t + 16] }`, a barrier, `if t < 8 { P[t] op= P[t + 8] }`,
//! and so on. The first warp does all of them in registers, in the same order, and writes the same elements at the end.
//! Where threads are rows of `n`, `t % n` stands for `t`, and every row does it for itself.

use lathe_ir::visit::{fold, substitute};
use lathe_ir::{Access, BinOp, BufId, Expr, ExprKind, Reduce, Scalar, Stmt, StmtKind, VarId, View};
use lathe_poly::Linear;
use std::collections::HashMap;

/// Threads that execute in step.
pub const WARP: i64 = 32;

/// `if lane < half { targets op= what lies `half` further }`.
pub struct Halving<'a> {
    pub half: i64,
    /// The threads of a row; `None` where all threads of the block are one.
    pub row: Option<i64>,
    pub reduce: &'a Reduce,
    /// Of every target, in terms of the thread's number.
    pub indices: Vec<Vec<Expr>>,
}

fn buffer(a: &Access) -> Option<BufId> {
    match a.view {
        View::Buffer(id) => Some(id),
        _ => None,
    }
}

/// Variables that stand for values, and what is below them.
fn named<'s>(mut s: &'s Stmt, names: &mut HashMap<VarId, Expr>) -> &'s Stmt {
    while let Some((binder, value, inside)) = s.as_let() {
        names.insert(binder.id, substitute(value, names));
        s = inside;
    }
    s
}

/// `thread`, or `thread % row`.
fn row_of(lane: &Expr, thread: VarId) -> Option<Option<i64>> {
    match lane.kind() {
        ExprKind::Var(v) => (*v == thread).then_some(None),
        ExprKind::Binary(BinOp::FloorMod, t, n) => {
            let n = n.as_int().filter(|n| *n > 1 && (WARP % n == 0 || n % WARP == 0));
            n.filter(|_| t.as_var() == Some(thread)).map(Some)
        }
        _ => None,
    }
}

/// Whether all threads of a row compute the same.
fn uniform(e: &Expr, thread: VarId, row: Option<i64>) -> bool {
    fold(e, &mut |e, parts: Vec<bool>| match (e.kind(), row) {
        (ExprKind::Var(v), _) => *v != thread,
        (ExprKind::Binary(BinOp::FloorDiv, t, n), Some(row))
            if t.as_var() == Some(thread) && n.as_int() == Some(row) =>
        {
            true
        }
        _ => !parts.contains(&false),
    })
}

impl<'a> Halving<'a> {
    /// The halving that a statement is.
    pub fn of(s: &'a Stmt, thread: VarId) -> Option<Halving<'a>> {
        let mut names = HashMap::new();
        let (cond, then, None) = named(s, &mut names).as_if()? else { return None };
        let ExprKind::Binary(BinOp::Lt, lane, half) = cond.kind() else { return None };
        let (lane, half) = (substitute(lane, &names), half.as_int()?);
        let row = row_of(&lane, thread)?;
        if row.is_some_and(|n| 2 * half > n) {
            return None;
        }
        let reduce = named(then, &mut names).as_reduce()?;
        let here = |a: &Access| {
            Some((buffer(a)?, a.indices.iter().map(|i| substitute(i, &names)).collect::<Vec<_>>()))
        };
        let mut out = Vec::new();
        for (target, value) in reduce.targets.iter().zip(&reduce.values) {
            if !target.elem.scalar().is_some_and(in_registers) {
                return None;
            }
            let ExprKind::Load(from) = value.kind() else { return None };
            let ((id, to), (source, from)) = (here(target)?, here(from)?);
            if id != source || to.len() != from.len() {
                return None;
            }
            // One subscript is the lane; the others are the same for the row.
            let at = to.iter().position(|e| *e == lane)?;
            let apart = Linear::difference(&from[at], &lane) == Some(half);
            let others = |k: usize| k == at || (to[k] == from[k] && uniform(&to[k], thread, row));
            if !apart || !(0..to.len()).all(others) {
                return None;
            }
            out.push(to);
        }
        Some(Halving { half, row, reduce, indices: out })
    }

    pub fn targets(&self) -> &'a [Access] {
        &self.reduce.targets
    }

    /// The targets, in terms of the thread's number.
    pub fn elements(&self) -> Vec<Access> {
        let each = self.targets().iter().zip(&self.indices);
        each.map(|(t, indices)| Access { indices: indices.clone(), ..t.clone() }).collect()
    }

    /// The same operator on the same partial results.
    fn goes_on(&self, next: &Halving) -> bool {
        let buffers = |h: &Halving| h.reduce.targets.iter().map(buffer).collect::<Vec<_>>();
        next.half * 2 == self.half
            && self.row == next.row
            && self.reduce.op == next.reduce.op
            && buffers(self) == buffers(next)
            && self.indices == next.indices
    }
}

/// Whether the threads of the block wait for one another here.
fn is_barrier(s: &Stmt, thread: VarId) -> bool {
    matches!(s.kind(), StmtKind::Barrier { of, .. } if *of == thread)
}

/// Whether nobody of the block goes on before all have come here.
pub fn waits(s: &Stmt, thread: VarId, rank: Option<VarId>) -> bool {
    matches!(s.kind(), StmtKind::Barrier { of, .. } if *of == thread || Some(*of) == rank)
}

/// How many statements of a sequence, from its first, are halvings within a warp; and these.
pub fn halvings(all: &[Stmt], thread: VarId) -> Option<(usize, Vec<Halving<'_>>)> {
    // Within rows that are parts of a warp, every thread has an element.
    let fits = |h: &Halving| h.half * 2 <= WARP && h.row.is_none_or(|n| n > WARP || h.half * 2 == n);
    let first = Halving::of(all.first()?, thread).filter(fits)?;
    let (mut count, mut out) = (1, vec![first]);
    while let [barrier, next, ..] = &all[count..] {
        let next = Halving::of(next, thread).filter(|h| out.last().is_some_and(|l| l.goes_on(h)));
        let Some(next) = next.filter(|_| is_barrier(barrier, thread)) else { break };
        out.push(next);
        count += 2;
    }
    (out.len() > 1).then_some((count, out))
}

/// What shuffles take.
fn in_registers(ty: Scalar) -> bool {
    matches!(
        ty,
        Scalar::F32 | Scalar::F64 | Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64 | Scalar::Index
    )
}
