//! `omit`: stores that are overwritten before anything reads them are left out.

use crate::args::Args;
use crate::codes;
use crate::left_out::{removable, without};
use crate::rule;
use crate::work::Work;
use lathe_diagnostics::Places;
use lathe_ir::Stmt;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Refusal};

rule! {
    /// `omit(B)` removes every store labelled `B` whose elements are all written again before anything reads them, and loops that
    /// are left without statements. Other stores of the label stay, so that `peel` and `cut` come first where only the
    /// interior of an array is overwritten.
    ///
    /// **Legal** where, for all sizes, other stores write each of these elements later, and before each read of it. They must run
    /// whatever the data say. Parameters that may overlap, barriers and asynchronous statements are not followed: such stores stay.
    /// Refused if no store can be removed.
    ///
    /// ```lathe
    /// kernel smooth(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = A[i]
    ///     for i in 1..N - 1 {
    ///         B[i] = A[i - 1] + A[i + 1]
    ///     }
    /// }
    /// strategy s for smooth = peel(B.i) ; cut(B.i, N - 1) ; omit(B)
    /// ```
    pub static RULE = omit, version 1, (label: one Label), apply,
        "dead store elimination by elements: removes stores that later ones overwrite before they are read";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let (label, found) = work.labelled(args)?;
    let focus = work.cursor().focus;
    let mut paths = removable(work.module(), work.func(), &label);
    paths.retain(|p| p.starts_with(&focus));
    if paths.is_empty() {
        let text = format!("no store of `{label}` is overwritten by others before anything may read it");
        let help = "`cut` its loops where the part begins that other statements overwrite for all sizes";
        let places = found.first().map_or_else(Places::none, |f| f.1.places().clone());
        return Err(work.refuse_at(codes::VALUE, text, help, &places));
    }
    let old = work.at(&focus)?.clone();
    let new = without(&old, &mut focus.clone(), &paths).unwrap_or_else(Stmt::empty);
    work.replace(&focus, new, Kind::Subset)?;
    work.decide(Claim::Overwritten { label }, "leave it as it is")
}
