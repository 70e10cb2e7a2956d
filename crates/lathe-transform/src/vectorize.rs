//! `vectorize`: iterations become lanes of vector instructions.

use crate::args::{Args, IntoRefusal};
use crate::blocks::blocks;
use crate::codes;
use crate::executors::any_executor;
use crate::names::loops_around;
use crate::nest::{around, trip_count};
use crate::rule;
use crate::split::{executor_word, split};
use crate::work::Work;
use lathe_diagnostics::Diagnostic;
use lathe_ir::build::index;
use lathe_ir::{Executor, Loop, Stmt, StmtKind};
use lathe_strategy::Refusal;

rule! {
    /// `vectorize(i, n)` runs `n` iterations of `i` at a time: `vector(f32)` is as many as a vector of the machine has
    /// lanes of `f32`. A loop of at most `n` iterations becomes lanes as it is, and keeps its name; a longer one is
    /// split into `i.o` and the lanes `i.i`. Where `n` does not divide, the lanes beyond the end are masked off; with
    /// `tail: separate` the remainder runs in a separate loop `i.rest` instead, so that the full blocks need no masks.
    ///
    /// **Legal** if no iteration accesses what another one of the same block writes. A reduction over the loop must be
    /// split into partial results first, by `privatize` or `factor`.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = vectorize(i, vector(f32))
    /// ```
    pub static RULE = vectorize, version 1, (loop: one Loop, width: one Int, tail: optional Word), apply,
        "vectorization: runs iterations as lanes of vector instructions";
}

/// The widest vectors, in lanes: those of bytes in the widest registers, eightfold.
const WIDEST: i64 = 512;

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let width = args.positive(work.rule(), "width", 1)?;
    let tail = args.opt_word(work.rule(), "tail", 2, &["masked", "separate"])?.unwrap_or("masked");
    if width > WIDEST || !(width as u64).is_power_of_two() {
        let d = Diagnostic::error(codes::ARGUMENT, format!("`vectorize`: {width} is not a number of lanes"));
        return Err(d.help(format!("give a power of two up to {WIDEST}")).into_refusal(work.rule()));
    }
    for path in work.loops(args)? {
        let (l, s) = work.serial_loop(&path)?;
        not_nested(work, &path, &l, &s)?;
        let lanes = Executor::Vector(width as u32);
        let at_most = work.ranges(&path).le(&trip_count(&l), &index(width));
        let new = if at_most && l.step == 1 {
            s.with_kind(StmtKind::Loop(Loop { exec: lanes, ..l }))
        } else if tail == "masked" {
            let both = split(work, &l, &s, width, (None, None));
            with_inner_executor(&both, lanes)
        } else {
            let mut b = blocks(work, &l, &s, width, &path, lanes.clone());
            b.inner.exec = lanes;
            let inner = Stmt::new(StmtKind::Loop(b.inner), s.places().clone());
            Stmt::seq([around(&b.outer, s.places(), inner)].into_iter().chain(b.rest))
        };
        work.replace_checked(&path, new)?;
    }
    work.scheduled();
    Ok(())
}

fn with_inner_executor(both: &Stmt, exec: Executor) -> Stmt {
    let Some(outer) = both.as_loop() else { return both.clone() };
    let Some(inner) = outer.body.as_loop() else { return both.clone() };
    let inner = outer.body.with_kind(StmtKind::Loop(Loop { exec, ..inner.clone() }));
    around(outer, both.places(), inner)
}

/// Lanes inside lanes, or threads inside lanes, do not exist.
fn not_nested(work: &Work, path: &[usize], l: &Loop, s: &Stmt) -> Result<(), Refusal> {
    let help = "vectorize one loop of a nest, and make only loops outside of it parallel";
    if any_executor(&l.body, &|e| !e.is_ordered() || matches!(e, Executor::InScan(_))) {
        let text = format!("a loop inside `{}` is already vectorized or parallel", l.binder.name);
        return Err(work.refuse_loop(s, text, help));
    }
    for outer in loops_around(&work.func().body, path) {
        let o = work.loop_at(&outer)?.0;
        if matches!(o.exec, Executor::Vector(_)) {
            let text = format!("the loop is inside `{}`, which is {}", o.binder.name, executor_word(&o.exec));
            return Err(work.refuse_loop(s, text, help));
        }
    }
    Ok(())
}
