//! `unroll`: iterations written out one after the other.

use crate::args::Args;
use crate::blocks::blocks;
use crate::codes;
use crate::nest::{around, trip_count};
use crate::rule;
use crate::work::Work;
use lathe_ir::visit::Path;
use lathe_ir::{Executor, Loop, Stmt, StmtKind};
use lathe_poly::simplify::simplify_expr;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Construction, Refusal};

rule! {
    /// `unroll(i)` unrolls a loop completely; its trip count must be constant. `unroll(i, 4)` unrolls it by a factor of
    /// four: `i.o` runs over full blocks, `i.i` is unrolled, and if 4 does not divide the trip count, a loop `i.rest`
    /// runs the remaining iterations.
    ///
    /// **Legal** always: the order of the iterations stays.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = unroll(i, 4)
    /// ```
    pub static RULE = unroll, version 1, (loop: one Loop, factor: optional Int), apply,
        "unrolls a loop, fully or by a factor";
}

/// The most statements that unrolled loops write out, all of a function together: engines make code of each.
pub const MOST: i64 = 8192;

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let factor = args.opt_positive(work.rule(), "factor", 1)?;
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
            (None, None) => {
                let text = format!("the number of iterations of `{name}` is not constant");
                let help = format!(
                    "`unroll({name}, 4)` unrolls by a factor of four; after a split, `separate` makes full blocks first"
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
            let trips = trips.as_int().or_else(known).unwrap_or(1).max(0) as u64;
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
