//! `parallel`, `bind` and `serial`: the executors of loops.

use crate::args::Args;
use crate::codes;
use crate::names::loops_around;
use crate::rule;
use crate::split::executor_word;
use crate::work::Work;
use lathe_ir::{Executor, Loop, Stmt, StmtKind};
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Construction, Refusal};

rule! {
    /// `parallel(i)` distributes the iterations of `i` over the thread pool; they run concurrently, in any order. Of
    /// loops of that name inside of each other, those of at most one iteration stay as they are.
    ///
    /// **Legal** if no iteration accesses what another one writes. A reduction over the loop must be split into partial
    /// results first, by `privatize` or `factor`.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = parallel(i)
    /// ```
    pub static PARALLEL = parallel, version 1, (loop: one Loop), apply_parallel,
        "runs the iterations of a loop on host threads (OpenMP: parallel for)";
}

/// The executors that `bind` accepts, and their nesting depth; lanes are deepest.
pub const CORES: [(&str, usize); 8] = [
    ("node", 0),
    ("device", 1),
    ("team", 2),
    ("grid", 2),
    ("cluster", 3),
    ("block", 4),
    ("warp", 4),
    ("lane", 5),
];

rule! {
    /// `bind(i, grid)` assigns every iteration of `i` to a block of a device's grid, `bind(j, block)` every iteration
    /// of `j` to a thread of the block; `warp` and `lane` are the groups of threads and the threads in them, `cluster`
    /// the blocks of a group, `device` and `node` several devices and machines, `team` several groups of threads.
    /// Nested loops of one kind are its dimensions. One thread loop follows another one as if a barrier stood between:
    /// nothing of the first is left to do when the second begins.
    ///
    /// Engines for CPUs run them, too: the outermost grid on threads, all others in order.
    ///
    /// **Legal** if no iteration accesses what another one writes, and if coarser executors are outside of finer ones:
    /// no grid inside of a block.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = split(i, 128) ; bind(i.o, grid) ; bind(i.i, block)
    /// ```
    pub static BIND = bind, version 1, (loop: one Loop, cores: one Word), apply_bind,
        "binds a loop to the cores of a device, to several devices, or to several machines";
}

rule! {
    /// `serial(i)` undoes `parallel`, `vectorize` or `unroll`: the iterations run in order, one after the other.
    ///
    /// **Legal** always: that is the reference order that every other order was checked against.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = parallel(i) ; serial(i) ; split(i, 8)
    /// ```
    pub static SERIAL = serial, version 1, (loop: one Loop), apply_serial,
        "makes a parallel, vectorized or unrolled loop serial again";
}

fn apply_parallel(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let all = work.loops(args)?;
    for path in &all {
        let (l, s) = work.serial_loop(path)?;
        // One iteration inside of a loop of the same name is part of that loop's, and nothing to share.
        let inside = all.iter().any(|o| o.len() < path.len() && path.starts_with(o));
        if inside && lathe_poly::constant_trips(&l).is_some_and(|n| n <= 1) {
            continue;
        }
        for outer in loops_around(&work.func().body, path) {
            let o = work.loop_at(&outer)?.0;
            if let Executor::Vector(_) = o.exec {
                let text = format!("the loop is inside `{}`, which is vectorized", o.binder.name);
                return Err(work.refuse_loop(&s, text, "make an outer loop parallel"));
            }
        }
        let new = s.with_kind(StmtKind::Loop(Loop { exec: Executor::Cpu, ..l }));
        work.replace_checked(path, new)?;
    }
    work.scheduled();
    Ok(())
}

fn apply_bind(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let words: Vec<&str> = CORES.iter().map(|c| c.0).collect();
    let Some(word) = args.opt_word(work.rule(), "cores", 1, &words)? else {
        return Err(work.refuse(codes::ARGUMENT, "`bind` needs an executor: `bind(i, grid)`"));
    };
    let exec = match word {
        "node" => Executor::Node,
        "device" => Executor::Device,
        "team" => Executor::Team,
        level => Executor::Level(level.into()),
    };
    for path in work.loops(args)? {
        let (l, s) = work.serial_loop(&path)?;
        for outer in loops_around(&work.func().body, &path) {
            let around = work.loop_at(&outer)?.0;
            let wrong = match depth(&around.exec) {
                Some(d) => Some(d) > depth(&exec),
                None => !around.exec.is_ordered(),
            };
            if wrong {
                let (name, word_of) = (&around.binder.name, executor_word(&around.exec));
                let text = format!(
                    "the loop is inside `{name}`, which is {word_of}: a `{word}` loop cannot be inside it"
                );
                let help = "`reorder` the loops so that coarser executors are outside";
                return Err(work.refuse_loop(&s, text, help));
            }
        }
        let finer = |e: &Executor| match depth(e) {
            Some(d) => Some(d) < depth(&exec),
            None => *e == Executor::Cpu,
        };
        if any_executor(&l.body, &finer) {
            let text =
                format!("`bind`: `{}` contains a loop with a coarser executor than `{word}`", l.binder.name);
            return Err(work.refuse(codes::SHAPE, text));
        }
        let new = s.with_kind(StmtKind::Loop(Loop { exec: exec.clone(), ..l }));
        work.replace_checked(&path, new)?;
    }
    work.scheduled();
    Ok(())
}

/// The nesting depth of an executor of a device; none: it does not belong to a device.
fn depth(e: &Executor) -> Option<usize> {
    let word = match e {
        Executor::Node => "node",
        Executor::Device => "device",
        Executor::Team => "team",
        Executor::Level(l) => l,
        _ => return None,
    };
    CORES.iter().find(|c| c.0 == word).map(|c| c.1)
}

fn apply_serial(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    for path in work.loops(args)? {
        let (l, s) = work.loop_at(&path)?;
        if !matches!(
            l.exec,
            Executor::Serial | Executor::Unrolled | Executor::Vector(_) | Executor::InScan(_) | Executor::Cpu
        ) {
            return Err(work.refuse(
                codes::UNSUPPORTED,
                format!(
                    "`serial`: `{}` is {}, which this version cannot undo",
                    l.binder.name,
                    executor_word(&l.exec)
                ),
            ));
        }
        let new = s.with_kind(StmtKind::Loop(Loop { exec: Executor::Serial, ..l }));
        work.replace_by_rule(&path, new, Kind::Bijection, Construction::Serial)?;
    }
    Ok(())
}

/// Whether a loop of the subtree satisfies a predicate on executors.
pub fn any_executor(s: &Stmt, wanted: &dyn Fn(&Executor) -> bool) -> bool {
    s.as_loop().is_some_and(|l| wanted(&l.exec)) || s.children().any(|c| any_executor(c, wanted))
}
