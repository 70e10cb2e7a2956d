//! `accumulate`: a reduction's target lives in registers while its loop runs.

use super::options::{self, Pad};
use super::stage::{self, Options};
use crate::args::Args;
use crate::names;
use crate::rule;
use crate::work::Work;
use lathe_ir::{Layout, Space};
use lathe_strategy::Refusal;

const RULE: &str = "accumulate";

rule! {
    /// `accumulate(C, at: k.i)` is `stage` *around* the loop `k.i` instead of inside of it, with `space: register`: the
    /// elements of `C` that the whole loop updates are loaded once before it, and stored once after it. The loops
    /// inside that run over the elements must have constant bounds and be unrolled or vectorized afterwards, so that
    /// the subscripts become constants. Arguments, labels and legality are those of `stage`.
    ///
    /// ```lathe
    /// kernel mv(A: f32[M, N], x: f32[N]) -> (y: f32[M]) {
    ///     y[i] = sum[j](A[i, j] * x[j])
    /// }
    /// strategy kept for mv = accumulate(y, at: j)
    /// ```
    pub static ACCUMULATE = accumulate, version 1,
        (array: one Buffer, at: one Loop, space: optional Word, name: optional Word, layout: optional Data, pad: optional Data, window: optional Data, invariant: optional Loop),
        apply,
        "scalar replacement: keeps the elements that a loop updates in registers while it runs";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let buffer = names::find_buffer(cursor, RULE, &args.path(RULE, "array", 0)?)?;
    let target = names::find_one_loop(cursor, RULE, &args.path(RULE, "at", 1)?)?;
    let rank = buffer.extents.len();
    let layout = options::layout(RULE, args, usize::MAX, rank)?;
    let whole = layout == Layout::row_major();
    let options = Options {
        space: options::space(RULE, args, 2)?.unwrap_or(Space::Register),
        name: args.opt_path(RULE, "name", 3)?,
        pad: options::pads(RULE, args, &layout, rank)?
            .into_iter()
            .map(|p| if whole && p != Pad::Exact { Pad::Whole } else { p })
            .collect(),
        layout,
        window: options::window(work, args, &target, rank)?,
        apart: options::invariant(work, args, &target)?,
    };
    stage::stage_around(work, &target, &buffer, &options)
}
