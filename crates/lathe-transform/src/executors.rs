//! `parallel` and `serial`: who runs a loop's iterations.

use crate::args::{Args, IntoRefusal};
use crate::codes;
use crate::names::{find_all_loops, loops_around};
use crate::rule::{Cursor, Edit, Rule};
use crate::split::{executor_word, loop_at_work, require_serial};
use crate::work::Work;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Executor, Loop, Stage, Stmt, StmtKind};
use lathe_strategy::syntax::{Formal, Sort};
use lathe_strategy::{Refusal, RuleSignature};

pub static PARALLEL: Rule = Rule {
    signature: RuleSignature {
        name: "parallel",
        version: 1,
        formals: &[Formal { name: "loop", sort: Sort::Loop, optional: false, many: false }],
        summary: "runs the iterations of a loop on the threads of the host",
        page: "\
`parallel(i)` gives the iterations of `i` to the pool of threads, in any order and at the same time.

**Legal** if no iteration touches what another one writes. A reduction over the loop must be split up first, by
`privatize` or `factor`.

```lathe
kernel scale(A: f32[N]) -> (B: f32[N]) {
    B[i] = 2.0 * A[i]
}
strategy s for scale = parallel(i)
```",
    },
    apply: apply_parallel,
};

pub static SERIAL: Rule = Rule {
    signature: RuleSignature {
        name: "serial",
        version: 1,
        formals: &[Formal { name: "loop", sort: Sort::Loop, optional: false, many: false }],
        summary: "makes a parallel, vectorized or unrolled loop serial again",
        page: "\
`serial(i)` takes back `parallel`, `vectorize` or `unroll`: the iterations run in order, one after the other.

**Legal** always: that is the order that every other one was checked against.

```lathe
kernel scale(A: f32[N]) -> (B: f32[N]) {
    B[i] = 2.0 * A[i]
}
strategy s for scale = parallel(i) ; serial(i) ; split(i, 8)
```",
    },
    apply: apply_serial,
};

fn apply_parallel(cursor: &Cursor, args: &Args) -> Result<Edit, Refusal> {
    let mut work = Work::new(cursor, &PARALLEL.signature);
    let name = args.path(work.rule, "loop", 0)?;
    for path in find_all_loops(cursor, work.rule, &name)?.into_iter().rev() {
        let (l, s) = require_serial(&work, loop_at_work(&work, &path)?, "parallel")?;
        for outer in loops_around(&work.func.body, &path) {
            if let (Executor::Vector(_), o) = (&loop_at_work(&work, &outer)?.0.exec, &outer) {
                let name = loop_at_work(&work, o)?.0.binder.name;
                let d = Diagnostic::error(
                    codes::SHAPE,
                    format!("`parallel`: the loop is inside `{name}`, which is vectorized"),
                )
                .at_places(s.places(), "this loop")
                .help("make an outer loop parallel");
                return Err(d.into_refusal(work.rule));
            }
        }
        let new = s.with_kind(StmtKind::Loop(Loop { exec: Executor::Cpu, ..l }));
        work.replace_checked(&path, new, "bijection")?;
    }
    work.scheduled();
    Ok(work.finish())
}

fn apply_serial(cursor: &Cursor, args: &Args) -> Result<Edit, Refusal> {
    let mut work = Work::new(cursor, &SERIAL.signature);
    let name = args.path(work.rule, "loop", 0)?;
    for path in find_all_loops(cursor, work.rule, &name)?.into_iter().rev() {
        let (l, s) = loop_at_work(&work, &path)?;
        if !matches!(l.exec, Executor::Serial | Executor::Unrolled | Executor::Vector(_) | Executor::Cpu) {
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
        work.replace_by_rule(
            &path,
            new,
            "bijection",
            "a serial loop runs its iterations in the reference order",
        )?;
    }
    Ok(work.finish())
}

/// Whether a loop of the subtree satisfies a predicate on executors.
pub fn any_executor(s: &Stmt, wanted: &dyn Fn(&Executor) -> bool) -> bool {
    s.as_loop().is_some_and(|l| wanted(&l.exec)) || s.children().into_iter().any(|c| any_executor(c, wanted))
}

impl Work<'_> {
    /// The tree has executors or local arrays now.
    pub fn scheduled(&mut self) {
        self.func.stage = self.func.stage.max(Stage::Scheduled);
    }
}
