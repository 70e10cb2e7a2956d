//! `unroll_and_jam`: an outer loop's iterations side by side in the innermost bodies.

use crate::args::Args;
use crate::blocks::blocks;
use crate::codes;
use crate::nest::{around, mentions};
use crate::rule;
use crate::work::Work;
use lathe_ir::build::var;
use lathe_ir::expr::{Access, View};
use lathe_ir::names::Role;
use lathe_ir::stmt::Effects;
use lathe_ir::{Buffer, Executor, Layout, Loop, Stmt, StmtKind, visit};
use lathe_strategy::Refusal;
use std::sync::Arc;

rule! {
    /// `unroll_and_jam(i, 4)` executes four iterations of `i` at a time inside the inner loops, so that values loaded
    /// there are reused by all four. The loop over full blocks is `i.o`, the copies are unrolled as `i.i`, and the
    /// remaining iterations, fewer than four, run in `i.rest`. Local arrays of an iteration get one more dimension, the
    /// copies.
    ///
    /// **Legal** if every dependence keeps its order, and the bounds of the inner loops do not depend on `i`.
    ///
    /// ```lathe
    /// kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
    ///     C[i, j] = sum[k](A[i, k] * B[k, j])
    /// }
    /// strategy s for gemm = unroll_and_jam(i, 4)
    /// ```
    pub static RULE = unroll_and_jam, version 1, (loop: one Loop, factor: one Int), apply,
        "unroll-and-jam: executes several iterations of an outer loop together inside the inner loops";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let factor = args.positive(work.rule(), "factor", 1)?;
    if factor > crate::unroll::MOST {
        return Err(
            work.refuse(codes::UNSUPPORTED, format!("`unroll_and_jam`: {factor} copies are too many"))
        );
    }
    for path in work.loops(args)? {
        let (l, s) = work.serial_loop(&path)?;
        let mut b = blocks(work, &l, &s, factor, &path, Executor::Serial);
        b.inner.exec = Executor::Unrolled;
        let inner = Loop { body: Stmt::empty(), ..b.inner.clone() };
        let jammed = push_down(work, &b.inner.body, &inner, &s)?;
        let main = around(&b.outer, s.places(), jammed);
        work.replace_checked(&path, Stmt::seq([main].into_iter().chain(b.rest)))?;
    }
    crate::unroll::finish(work)
}

/// Whether a local array can get one more dimension: it lies in memory row by row, and only subscripts reach it.
fn expands(buffer: &Buffer, body: &Stmt) -> bool {
    let mut plain = buffer.layout == Layout::row_major();
    plain &= body.effects().without(Effects::ALLOCATES).is_none();
    let mut whole = true;
    visit::map_accesses(body, &mut |a| {
        whole &= a.view.buffer() != Some(buffer.id) || a.view == View::Buffer(buffer.id);
        None
    });
    plain && whole
}

/// The loop `inner` around each innermost body instead of around all.
fn push_down(work: &mut Work, s: &Stmt, inner: &Loop, at: &Stmt) -> Result<Stmt, Refusal> {
    if let Some(v) = s.as_seq() {
        let all = v.iter().map(|s| push_down(work, s, inner, at)).collect::<Result<Vec<_>, _>>()?;
        return Ok(s.with_children(all));
    }
    if let Some(l) = s.as_loop()
        && matches!(l.exec, Executor::Serial | Executor::Unrolled)
    {
        let b = inner.binder.id;
        if mentions(&l.lo, b) || mentions(&l.hi, b) {
            let text = format!("the bounds of `{}` depend on the loop", l.binder.name);
            return Err(work.refuse_loop(s, text, "unroll without jamming: `unroll(i, 4)`"));
        }
        return Ok(around(l, s.places(), push_down(work, &l.body, inner, at)?));
    }
    // A local array of every iteration: copies that run side by side have one each.
    if let Some((buffer, body)) = s.as_alloc()
        && expands(buffer, body)
    {
        let wide = Arc::new(Buffer {
            id: work.fresh_buf(),
            extents: std::iter::once(&inner.hi).chain(&buffer.extents).cloned().collect(),
            ..(**buffer).clone()
        });
        let own = var(&inner.binder);
        let body = visit::map_accesses(body, &mut |a| {
            let indices = || std::iter::once(&own).chain(&a.indices).cloned().collect();
            (a.view == View::Buffer(buffer.id)).then(|| Access {
                view: View::Buffer(wide.id),
                indices: indices(),
                ..a.clone()
            })
        });
        let body = push_down(work, &body, inner, at)?;
        return Ok(s.with_kind(StmtKind::Alloc { buffer: wide, body }));
    }
    // Every place gets a loop variable of its own.
    let binder = work.part_called(&inner.binder.name, Role::Inner, &inner.binder);
    let body = crate::nest::substitute(s, inner.binder.id, var(&binder));
    Ok(around(&Loop { binder, ..inner.clone() }, at.places(), body))
}
