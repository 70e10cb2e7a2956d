//! `cut` and `peel`: a loop's range in two parts.

use crate::args::Args;
use crate::names::find_one_loop;
use crate::rule;
use crate::separate::cut_loop;
use crate::split::iteration;
use crate::work::Work;
use lathe_ir::build::{add, index, sub};
use lathe_ir::names::Role;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Construction, Refusal};

rule! {
    /// `cut(i, 100)` makes two loops: `i` up to (not including) 100, and `i.rest` from there. The value may use sizes
    /// and loops around, for example `cut(i, N - 1)`; outside of the range one of the loops is empty.
    ///
    /// **Legal** always: the order of the iterations stays.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = cut(i, N // 2)
    /// ```
    pub static CUT = cut, version 1, (loop: one Loop, at: one Data), apply_cut,
        "index-set splitting: cuts the range of a loop at a value";
}

rule! {
    /// `peel(i)` gives the first iteration of `i` a loop of its own, `i.peel`; `peel(i, 3)` the first three, and
    /// `peel(i, 3, from: end)` the last three.
    ///
    /// **Legal** always: the order of the iterations stays.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = peel(i)
    /// ```
    pub static PEEL = peel, version 1, (loop: one Loop, count: optional Int, from: optional Word), apply_peel,
        "loop peeling: takes the first (or last) iterations of a loop out of it";
}

fn apply_cut(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let path = find_one_loop(&work.cursor(), work.rule(), &args.path(work.rule(), "loop", 0)?)?;
    let at = work.index_argument(args, "at", 1, &path)?;
    let (l, s) = work.serial_loop(&path)?;
    let new = cut_loop(work, &l, s.places(), at, Role::Rest, false);
    work.replace_by_rule(&path, new, Kind::Bijection, Construction::Cut)?;
    Ok(())
}

fn apply_peel(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let count = args.opt_positive(work.rule(), "count", 1)?.unwrap_or(1);
    let from = args.opt_word(work.rule(), "from", 2, &["start", "end"])?.unwrap_or("start");
    for path in work.loops(args)? {
        let (l, s) = work.serial_loop(&path)?;
        let first = from == "start";
        let at = if first {
            iteration(&l, index(count))
        } else {
            let trips = crate::nest::trip_count(&l);
            add(l.lo.clone(), lathe_ir::build::mul(sub(trips, index(count)), index(l.step)))
        };
        let new = cut_loop(work, &l, s.places(), at, Role::Peel, first);
        work.replace_by_rule(&path, new, Kind::Bijection, Construction::Cut)?;
    }
    Ok(())
}
