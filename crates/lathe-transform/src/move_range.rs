//! `reverse` and `shift`: renumbering of iterations.

use crate::args::{Args, IntoRefusal, wrong};
use crate::codes;
use crate::convert::{arg_expr, to_index, variable_at};
use crate::names::{find_all_loops, find_one_loop};
use crate::nest::substitute;
use crate::rule;
use crate::split::{iteration, loop_at_work, require_serial};
use crate::work::Work;
use lathe_ir::build::{add, index, sub, var};
use lathe_ir::{Loop, StmtKind};
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Construction, Refusal};

rule! {
    /// `reverse(i)` runs the iterations of `i` from the last to the first. The loop counts from 0 afterwards.
    ///
    /// **Legal** if no iteration depends on another one.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = reverse(i)
    /// ```
    pub static REVERSE = reverse, version 1, (loop: one Loop), apply_reverse,
        "loop reversal: runs the iterations of a loop backwards";
}

rule! {
    /// `shift(i, 2)` makes `i` run over `lo + 2 .. hi + 2` and uses `i - 2` inside: only the numbering changes. It
    /// aligns loops before `fuse`. The amount may use sizes.
    ///
    /// **Legal** always.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = shift(i, 2)
    /// ```
    pub static SHIFT = shift, version 1, (loop: one Loop, by: one Data), apply_shift,
        "loop shifting: adds a constant to a loop's variable";
}

fn apply_reverse(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let name = args.path(work.rule(), "loop", 0)?;
    for path in find_all_loops(cursor, work.rule(), &name)?.into_iter().rev() {
        let (l, s) = require_serial(work, loop_at_work(work, &path)?, "reverse")?;
        let count = crate::nest::trip_count(&l);
        let binder = work.fresh(&l.binder.name);
        let last_first = sub(sub(count.clone(), index(1)), var(&binder));
        let body = substitute(&l.body, l.binder.id, iteration(&l, last_first));
        let new = crate::nest::serial(binder, index(0), count, body, s.places());
        work.replace_checked(&path, new)?;
    }
    Ok(())
}

fn apply_shift(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let name = args.path(work.rule(), "loop", 0)?;
    let Some((by, span)) = args.get("by", 1) else {
        return Err(work.refuse(codes::ARGUMENT, "`shift` needs an amount"));
    };
    let path = find_one_loop(cursor, work.rule(), &name)?;
    let by = to_index(&arg_expr(by), &|n| variable_at(cursor.func, &path, n))
        .map_err(|e| wrong(format!("`shift`: {e}"), span).into_refusal(work.rule()))?;
    let (l, s) = require_serial(work, loop_at_work(work, &path)?, "shift")?;
    let body = substitute(&l.body, l.binder.id, sub(var(&l.binder), by.clone()));
    let moved = Loop { lo: add(l.lo.clone(), by.clone()), hi: add(l.hi.clone(), by), body, ..l };
    work.replace_by_rule(&path, s.with_kind(StmtKind::Loop(moved)), Kind::Bijection, Construction::Shifted)?;
    Ok(())
}
