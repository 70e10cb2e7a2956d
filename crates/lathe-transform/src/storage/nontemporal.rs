//! `nontemporal`: stores that bypass the caches.

use super::make::find_alloc;
use crate::args::Args;
use crate::codes;
use crate::rule;
use crate::work::Work;
use lathe_ir::{Space, StmtKind, Store};
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Refusal};

rule! {
    /// `nontemporal(B)` marks the stores labelled `B`: what they write bypasses the caches on its way to memory. Good
    /// for results that are larger than the caches and are not read again soon; engines use it where whole vectors are
    /// stored, and an ordinary store elsewhere.
    ///
    /// Always legal for stores into arrays in memory: the order of the program stays. Reductions read what they write
    /// and are refused; so are buffers in registers or on the stack.
    ///
    /// ```lathe
    /// kernel copy(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = A[i]
    /// }
    /// strategy streaming for copy = vectorize(i, vector(f32)) ; nontemporal(B)
    /// ```
    pub static NONTEMPORAL = nontemporal, version 1, (label: one Label), apply,
        "lets the stores of a label bypass the caches";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let (label, found) = work.labelled(args)?;
    for (path, s) in found {
        let Some(store) = s.as_store() else {
            let help =
                "a reduction reads what it writes; accumulate in registers first, and mark the copy out";
            let text = format!("`{label}` is not a plain store");
            return Err(work.refuse_at(codes::SHAPE, text, help, s.places()));
        };
        let id = store.target.view.buffer();
        let local = id.and_then(|id| find_alloc(work.cursor().func, id)).map(|(_, b)| b);
        if let Some(b) = local.filter(|b| matches!(b.space, Space::Stack | Space::Register)) {
            let text = format!("`{}` is not in memory but in space `{}`", b.name, b.space.name());
            let help = "mark the stores into the array itself";
            return Err(work.refuse_at(codes::UNSUPPORTED, text, help, s.places()));
        }
        let new = s.with_kind(StmtKind::Store(Store { nontemporal: true, ..store.clone() }));
        work.replace_as_is(&path, new, Kind::Bijection)?;
    }
    work.decide(Claim::RouteOnly { label }, "leave it as it is")
}
