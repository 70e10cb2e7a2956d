//! `to_spmd`, `to_phased` and `unbind`: device trees from one form to the other.

use crate::args::{Args, IntoRefusal};
use crate::codes;
use crate::device_trees::{free_of_races, limits, spmd};
use crate::rule;
use crate::split::executor_word;
use crate::work::Work;
use lathe_device::Limits;
use lathe_diagnostics::Diagnostic;
use lathe_ir::visit::walk;
use lathe_ir::{Executor, Loop, Stage, StmtKind};
use lathe_lower::phases;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Construction, Refusal};

rule! {
    /// `to_spmd` writes the kernels that a device runs out: in each grid one loop over the threads of a block, around
    /// everything that the kernel does. A barrier stands where a phase accesses what an earlier one wrote, or writes
    /// what it read, and nowhere else; serial code is run by one thread; what each thread alone uses becomes its own.
    /// It takes the whole function. `threads` is the most threads of a block (1024), `cluster` the most blocks of a
    /// cluster (1: they become threads of one block). Engines of devices do this by themselves; as a step it shows the
    /// kernels, which later steps may change.
    ///
    /// **Legal** if no two iterations of a concurrent loop access one element, one of them writing, with no barrier in
    /// between. The barriers are not trusted: the new tree is proved free of such pairs, too.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = split(i, 128) ; bind(i.o, grid) ; bind(i.i, block) ; to_spmd
    /// ```
    pub static TO_SPMD = to_spmd, version 1, (threads: optional Int, cluster: optional Int), apply_spmd,
        "one thread loop per kernel, with barriers where phases end";
}

rule! {
    /// `to_phased` divides every concurrent loop at its barriers: what stands between two of them becomes a loop of its
    /// own. Serial loops and conditions around a barrier go outside of these loops; a value or local array that lives
    /// across a barrier gets an element for each iteration; cheap values are computed again. A barrier of a grid
    /// divides the kernel. It takes the whole function, and undoes `to_spmd` but for the number of threads. Engines for
    /// CPUs do this by themselves.
    ///
    /// **Legal** if no two iterations of a concurrent loop access one element, one of them writing, with no barrier in
    /// between, and all iterations find the conditions and bounds around a barrier alike.
    ///
    /// ```lathe
    /// kernel turn(A: f32[N, 32]) -> (B: f32[N, 32]) {
    ///     B[i, j] = A[i, 31 - j]
    /// }
    /// strategy s for turn = bind(i, grid) ; stage(A, at: j, space: shared) ; bind(copy(A).1, block) ; bind(j, block) ; to_spmd ; to_phased
    /// ```
    pub static TO_PHASED = to_phased, version 1, (), apply_phased,
        "loops between barriers in place of barriers";
}

rule! {
    /// `unbind(i)` undoes `bind(i, …)`: the iterations run in order, one after the other.
    ///
    /// **Legal** if no barrier makes iterations of the loop wait for one another; `to_phased` takes these away.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = split(i, 128) ; bind(i.o, grid) ; unbind(i.o) ; parallel(i.o)
    /// ```
    pub static UNBIND = unbind, version 1, (loop: one Loop), apply_unbind,
        "makes a loop that is bound to cores serial again";
}

fn apply_spmd(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let rule = work.rule();
    let usual = Limits::default();
    let threads = args.opt_positive(rule, "threads", 0)?.unwrap_or(usual.threads);
    let cluster = args.opt_positive(rule, "cluster", 1)?.unwrap_or(usual.cluster);
    free_of_races(work.module(), work.func()).map_err(|d| d.into_refusal(rule))?;
    let made = spmd(work.func(), limits(threads, cluster)).map_err(|d| d.into_refusal(rule))?;
    work.whole(made, Stage::Machine);
    work.decide(Claim::Threads { threads, cluster }, "the interpreter runs the tree as it is")
}

fn apply_phased(work: &mut Work, _: &Args) -> Result<(), Refusal> {
    let rule = work.rule();
    free_of_races(work.module(), work.func()).map_err(|d| d.into_refusal(rule))?;
    let made = phases::to_phased(work.func(), &|_| true).map_err(|u| {
        let d = Diagnostic::error(codes::SHAPE, format!("`{rule}`: {}", u.construct))
            .at_places(&u.places, "here");
        u.help.map_or(d.clone(), |h| d.help(h)).into_refusal(rule)
    })?;
    work.whole(made, Stage::Scheduled);
    work.decide(Claim::Phases, "the interpreter runs the tree as it is")
}

fn apply_unbind(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    for path in work.loops(args)? {
        let (l, s) = work.loop_at(&path)?;
        let of = &l.binder.name;
        if !matches!(l.exec, Executor::Level(_) | Executor::Team | Executor::Device | Executor::Node) {
            let text = format!("`unbind`: `{of}` is {}, and not bound to cores", executor_word(&l.exec));
            return Err(work.refuse(codes::SHAPE, text));
        }
        let mut barrier = None;
        walk(&l.body, &mut |s, _| {
            if matches!(s.kind(), StmtKind::Barrier { of, .. } if *of == l.binder.id) {
                barrier.get_or_insert(s.places().clone());
            }
            barrier.is_none()
        });
        if let Some(places) = barrier {
            let text = format!("iterations of `{of}` wait for one another");
            let help = "`to_phased` divides the loop at its barriers";
            return Err(work.refuse_at(codes::SHAPE, text, help, &places));
        }
        let new = s.with_kind(StmtKind::Loop(Loop { exec: Executor::Serial, ..l }));
        work.replace_by_rule(&path, new, Kind::Bijection, Construction::Serial)?;
    }
    Ok(())
}
