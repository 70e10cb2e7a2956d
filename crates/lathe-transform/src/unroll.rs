//! `unroll`: iterations written out one after the other.

use crate::args::{Args, IntoRefusal};
use crate::blocks::blocks;
use crate::codes;
use crate::nest::{around, trip_count};
use crate::rule;
use crate::work::Work;
use lathe_diagnostics::Diagnostic;
use lathe_ir::visit::Path;
use lathe_ir::{Executor, Loop, Stmt, StmtKind};
use lathe_poly::simplify::simplify_expr;
use lathe_poly::{MOST_GUARDED, most_trips};
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Construction, Refusal};

rule! {
    /// `unroll(i)` unrolls a loop completely; its trip count must be constant. `unroll(i, 4)` unrolls it by a factor of
    /// four: `i.o` runs over full blocks, `i.i` is unrolled, and if 4 does not divide the trip count, a loop `i.rest`
    /// runs the remaining iterations. `unroll(i, tail: guarded)` also takes a loop whose trip count is not constant, but has
    /// a constant bound (64 at most), as what `separate` leaves of a tile has: as many iterations are written out, each
    /// guarded by a comparison with the loop's end, so that what they compute stays in registers.
    ///
    /// **Legal** always: the order of the iterations stays.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = unroll(i, 4)
    /// ```
    pub static RULE = unroll, version 1, (loop: one Loop, factor: optional Int, tail: optional Word), apply,
        "unrolls a loop, fully or by a factor";
}

/// The most statements that unrolled loops write out, all of a function together: engines make code of each.
pub const MOST: i64 = 8192;

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let factor = args.opt_positive(work.rule(), "factor", 1)?;
    let guarded = args.opt_word(work.rule(), "tail", 2, &["guarded"])?.is_some();
    if guarded && factor.is_some() {
        let d = Diagnostic::error(codes::ARGUMENT, "`unroll`: a factor leaves no iterations to guard");
        return Err(d
            .help("leave out the factor; or apply `unroll(i.rest, tail: guarded)` afterwards")
            .into_refusal(work.rule()));
    }
    for path in work.loops(args)? {
        let (l, s) = work.serial_loop(&path)?;
        let name = &l.binder.name;
        let extent = simplify_expr(&trip_count(&l), &work.ranges(&path)).as_int();
        if let Some(n) = factor.or(extent).filter(|n| *n > MOST) {
            let text =
                format!("`unroll`: {n} iterations of `{name}` are too many to unroll (at most {MOST})");
            return Err(work.refuse(codes::UNSUPPORTED, text));
        }
        let new = match (factor, extent) {
            (None, Some(_)) => s.with_kind(StmtKind::Loop(Loop { exec: Executor::Unrolled, ..l })),
            (None, None)
                if guarded && most_trips(&l, &work.ranges(&path)).is_some_and(|n| n <= MOST_GUARDED) =>
            {
                s.with_kind(StmtKind::Loop(Loop { exec: Executor::Unrolled, ..l }))
            }
            (None, None) if guarded => {
                let text = format!(
                    "no constant of at most {MOST_GUARDED} bounds the number of iterations of `{name}`"
                );
                let help = format!(
                    "split the loop first, and unroll the inner one, or unroll by a factor: `unroll({name}, 4)`"
                );
                return Err(work.refuse_loop(&s, text, help));
            }
            (None, None) => {
                let text = format!("the number of iterations of `{name}` is not constant");
                let help = format!(
                    "`unroll({name}, 4)` unrolls by a factor of four; after a split, `separate` makes full blocks first, and `tail: guarded` takes partial ones, too"
                );
                return Err(work.refuse_loop(&s, text, help));
            }
            (Some(f), Some(n)) if n <= f => {
                s.with_kind(StmtKind::Loop(Loop { exec: Executor::Unrolled, ..l }))
            }
            (Some(f), _) => {
                let mut b = blocks(work, &l, &s, f, &path, Executor::Serial);
                b.inner.exec = Executor::Unrolled;
                let inner = Stmt::new(StmtKind::Loop(b.inner), s.places().clone());
                Stmt::seq([around(&b.outer, s.places(), inner)].into_iter().chain(b.rest))
            }
        };
        work.replace_by_rule(&path, new, Kind::Bijection, Construction::Unrolled)?;
    }
    finish(work)
}

/// The edit, unless unrolled loops would write out more than engines compile in reasonable time.
pub(crate) fn finish(work: &mut Work) -> Result<(), Refusal> {
    work.scheduled();
    let n = written_out(work, &work.func().body, &mut Vec::new(), None);
    if n > MOST as u64 {
        let text = format!("`{}`: {n} statements are too many to unroll (at most {MOST})", work.rule());
        return Err(work.refuse(codes::UNSUPPORTED, text));
    }
    Ok(())
}

/// The statements that unrolled loops write out; `copies` of everything here, if a loop around is unrolled.
fn written_out(work: &Work, s: &Stmt, path: &mut Path, copies: Option<u64>) -> u64 {
    let copies = match s.as_loop().filter(|l| l.exec == Executor::Unrolled) {
        Some(l) => {
            let trips = trip_count(l);
            let known = || simplify_expr(&trips, &work.ranges(path)).as_int();
            let most = || most_trips(l, &work.ranges(path));
            let trips = trips.as_int().or_else(known).or_else(most).unwrap_or(1).max(0) as u64;
            Some(copies.unwrap_or(1).saturating_mul(trips))
        }
        None => copies,
    };
    let mut n = if s.label().is_some() { copies.unwrap_or(0) } else { 0 };
    for (k, c) in s.children().enumerate() {
        path.push(k);
        n = n.saturating_add(written_out(work, c, path, copies));
        path.pop();
    }
    n
}
