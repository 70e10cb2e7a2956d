//! `reverse` and `shift`: renumbering of iterations.

use crate::args::Args;
use crate::names::find_one_loop;
use crate::nest::substitute;
use crate::rule;
use crate::split::iteration;
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
    for path in work.loops(args)? {
        let (l, s) = work.serial_loop(&path)?;
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
    let path = find_one_loop(&work.cursor(), work.rule(), &args.path(work.rule(), "loop", 0)?)?;
    let by = work.index_argument(args, "by", 1, &path)?;
    let (l, s) = work.serial_loop(&path)?;
    let body = substitute(&l.body, l.binder.id, sub(var(&l.binder), by.clone()));
    let moved = Loop { lo: add(l.lo.clone(), by.clone()), hi: add(l.hi.clone(), by), body, ..l };
    work.replace_by_rule(&path, s.with_kind(StmtKind::Loop(moved)), Kind::Bijection, Construction::Shifted)?;
    Ok(())
}
