//! Threads for the loops of a derivative, and how what they share is added up: plainly where every iteration has elements of
//! its own, by partial results where all add to the same ones (a reduction), by copies of an array where elements are
//! found through data and the array is small, or else by atomic updates. All of it is steps that a strategy may write, each
//! held to the same checks; what no step can run in threads stays in order.
//!
//! Partial results and copies belong to chunks of a fixed number of iterations and are combined in order, so bits depend on no
//! number of threads; with atomics, they may differ with every run.

use crate::account::{Accumulation, made};
use crate::codes::{self, refuse};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::build::sub;
use lathe_ir::interp::evaluate;
use lathe_ir::visit::{self, Path, loads_of, vars_of};
use lathe_ir::{Access, BufId, Executor, Function, Loop, Module, Reduce, ReduceOp, Stmt, StmtKind, VarId};
use lathe_poly::Linear;
use lathe_strategy::Evidence;
use lathe_transform::rule::Cursor;
use lathe_transform::{Arg, Args};
use std::collections::{BTreeSet, HashMap, HashSet};

/// How cotangents that iterations share are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The first that is possible: plain, a reduction, copies where they are small, atomics.
    Auto,
    /// Only what needs nothing runs in threads.
    Plain,
    /// That, and reductions into elements that all iterations share.
    Reduce,
    /// Copies for all that is shared, of any size.
    Private,
    /// Atomic updates for all that is shared.
    Atomic,
}

/// A derivative whose loops run in threads.
#[derive(Clone, Debug)]
pub struct InThreads {
    pub func: Function,
    /// What was done, with what shows that it is legal.
    pub steps: Vec<Evidence>,
    /// How statements add up that run in threads.
    pub accumulation: Accumulation,
}

/// Iterations that share one partial result. A copy of an array with no more elements takes no longer than they do.
const CHUNK: i64 = 1024;

/// Operations that take less time than threads do to start and to meet.
const TINY: u64 = 1 << 14;

/// A loop of fewer iterations has nothing to share out; loops in it may.
const FEW: i64 = 8;

/// The loops of a derivative in threads. `sizes` are those that are known: they say which arrays are small.
///
/// # Errors
/// `E1302` for atomics that are to be deterministic; what `open` refuses.
pub fn in_threads(
    module: &Module,
    func: &Function,
    how: How,
    deterministic: bool,
    sizes: &HashMap<VarId, i64>,
) -> Result<InThreads, Diagnostic> {
    if deterministic && how == How::Atomic {
        let text = "atomic updates come in any order: their sums are not deterministic";
        return Err(refuse(codes::UNSUPPORTED, text, &Places::none())
            .help("let it be `auto`, `reduce` or `private`, or leave `deterministic` out"));
    }
    let mut b = Builder {
        module,
        how,
        deterministic,
        sizes,
        now: InThreads { func: func.clone(), steps: Vec::new(), accumulation: Accumulation::default() },
    };
    b.step(&Path::new(), "open", &[]).map_err(|r| *r.diagnostic)?;
    for v in outermost(&b.now.func.body) {
        b.nest(v);
    }
    if deterministic {
        b.now.func.body = in_order(&b.now.func.body);
    }
    Ok(b.now)
}

/// The statements of a function with those that add up outside of threads in their order: a schedule that is chosen later must not have them
/// add up by the number of threads.
fn in_order(s: &Stmt) -> Stmt {
    if s.as_loop().is_some_and(|l| l.exec == Executor::Cpu) {
        return s.clone();
    }
    if let Some(r) = s.as_reduce() {
        return s.with_kind(StmtKind::Reduce(Reduce { licence: false, ..r.clone() }));
    }
    s.with_children(s.children().map(in_order).collect())
}

struct Builder<'a> {
    module: &'a Module,
    how: How,
    deterministic: bool,
    sizes: &'a HashMap<VarId, i64>,
    now: InThreads,
}

/// A statement that adds to an array that outlives a loop.
struct Shared {
    label: String,
    name: String,
    /// Whether all iterations add to the same elements.
    is_uniform: bool,
    /// Whether the array has no more elements than a chunk has iterations.
    is_small: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Partial,
    Atomic,
}

impl Builder<'_> {
    fn step(&mut self, focus: &Path, rule: &str, args: &[Arg]) -> Result<(), lathe_strategy::Refusal> {
        let mut all = Args::default();
        args.iter().for_each(|a| all.push(None, a.clone()));
        let cursor = Cursor { focus: focus.clone(), ..Cursor::new(self.module, &self.now.func) };
        let edit = lathe_transform::apply(&cursor, rule, &all)?;
        self.now.func = edit.func;
        self.now.steps.push(edit.evidence);
        Ok(())
    }

    /// A loop, or those in it.
    fn nest(&mut self, v: VarId) {
        let Some((path, body)) = self.find(v) else { return };
        let Some(own) = visit::at(&self.now.func.body, &path) else { return };
        if operations(own, self.sizes).is_some_and(|n| n < TINY) {
            return;
        }
        let is_short = own.as_loop().and_then(|l| trips(l, self.sizes)).is_some_and(|n| n < FEW);
        if !is_short && self.in_threads_by(v, &[]) {
            self.count(&body, &[]);
            return;
        }
        let shared = self.shared(v, &body);
        for ways in self.choices(&shared).into_iter().filter(|_| !is_short) {
            let all: Vec<(&Shared, Way)> = shared.iter().zip(ways).collect();
            if self.in_threads_by(v, &all) {
                self.count(&body, &all);
                return;
            }
        }
        for inner in outermost(&body) {
            self.nest(inner);
        }
    }

    /// The combinations of ways that are tried, in order.
    fn choices(&self, shared: &[Shared]) -> Vec<Vec<Way>> {
        let all = |way: fn(&Shared) -> Way| shared.iter().map(way).collect::<Vec<_>>();
        let partial = || all(|_| Way::Partial);
        if shared.is_empty() {
            return Vec::new();
        }
        let uniform = shared.iter().all(|s| s.is_uniform);
        match self.how {
            How::Plain => Vec::new(),
            How::Reduce => {
                if uniform {
                    vec![partial()]
                } else {
                    Vec::new()
                }
            }
            How::Private => vec![partial()],
            How::Atomic => vec![all(|_| Way::Atomic)],
            How::Auto if self.deterministic => vec![partial()],
            How::Auto => {
                let first = all(|s| if s.is_uniform || s.is_small { Way::Partial } else { Way::Atomic });
                let rest = [partial(), all(|_| Way::Atomic)];
                let mut out = vec![first];
                for r in rest {
                    if !out.contains(&r) {
                        out.push(r);
                    }
                }
                out
            }
        }
    }

    /// Runs a loop in threads, with the ways in which statements add up; nothing is changed where a step is refused.
    fn in_threads_by(&mut self, v: VarId, ways: &[(&Shared, Way)]) -> bool {
        let before = self.now.clone();
        let done = self.try_threads(v, ways).is_some();
        if !done {
            self.now = before;
        }
        done
    }

    fn try_threads(&mut self, v: VarId, ways: &[(&Shared, Way)]) -> Option<()> {
        let (path, _) = self.find(v)?;
        let mut v = v;
        let partial: BTreeSet<&str> =
            ways.iter().filter(|w| w.1 == Way::Partial).map(|w| &*w.0.name).collect();
        if !partial.is_empty() {
            let name = self.name(v)?;
            self.step(&path, "split", &[Arg::Path(name), Arg::Int(CHUNK)]).ok()?;
            v = outermost(visit::at(&self.now.func.body, &path)?).first().copied()?;
        }
        for array in partial {
            let (path, _) = self.find(v)?;
            let name = self.name(v)?;
            self.step(&path, "privatize", &[Arg::Path(array.to_string()), Arg::Path(name)]).ok()?;
        }
        for (s, _) in ways.iter().filter(|w| w.1 == Way::Atomic) {
            let (path, _) = self.find(v)?;
            self.step(&path, "atomic", &[Arg::Path(s.label.clone())]).ok()?;
        }
        let (path, _) = self.find(v)?;
        let name = self.name(v)?;
        self.step(&path, "parallel", &[Arg::Path(name)]).ok()
    }

    /// Statements of a loop that add to arrays that outlive it, other than each iteration to elements of its own.
    fn shared(&self, v: VarId, body: &Stmt) -> Vec<Shared> {
        let mut inside: HashSet<VarId> = HashSet::from([v]);
        let mut locals: HashSet<BufId> = HashSet::new();
        let mut reduces: Vec<Reduce> = Vec::new();
        visit::walk(body, &mut |s, _| {
            inside.extend(s.binders().into_iter().map(|b| b.0.id));
            locals.extend(s.allocated().map(|b| b.id));
            reduces.extend(s.as_reduce().filter(|r| adds(r)).cloned());
            true
        });
        let fixed = |a: &Access| {
            a.indices.iter().all(|i| loads_of(i).is_empty() && vars_of(i).iter().all(|x| !inside.contains(x)))
        };
        let own = |a: &Access| {
            let forms = a.indices.iter().map(Linear::of);
            forms.into_iter().any(|f| {
                let mut terms = f.terms.iter();
                f.factor(v) != 0
                    && terms.all(|t| t.0.as_var() == Some(v) || loads_of(&t.0).is_empty())
                    && vars_of(&f.to_expr()).iter().all(|x| *x == v || !inside.contains(x))
            })
        };
        let of = |b: BufId| reduces.iter().filter(move |r| r.targets[0].view.buffer() == Some(b));
        let mut out = Vec::new();
        for r in &reduces {
            let Some(b) = r.targets[0].view.buffer().filter(|b| !locals.contains(b)) else { continue };
            let apart = of(b).all(|o| own(&o.targets[0]) && o.targets[0].indices == r.targets[0].indices);
            let Some(buffer) = self.array(b).filter(|_| !apart) else { continue };
            let count = buffer.extents.iter().cloned().fold(lathe_ir::build::index(1), lathe_ir::build::mul);
            let elements = evaluate(&count, self.sizes);
            out.push(Shared {
                label: r.label.to_string(),
                name: buffer.name.to_string(),
                is_uniform: of(b).all(|o| fixed(&o.targets[0])),
                is_small: elements.is_some_and(|n| n <= CHUNK),
            });
        }
        out
    }

    /// Counts the statements of a loop that runs in threads, by how they add up.
    fn count(&mut self, body: &Stmt, ways: &[(&Shared, Way)]) {
        let a = &mut self.now.accumulation;
        let mut all = 0;
        visit::walk(body, &mut |s, _| {
            all += usize::from(s.as_reduce().is_some_and(adds));
            true
        });
        for (s, way) in ways {
            match way {
                Way::Atomic => a.atomic += 1,
                Way::Partial if s.is_uniform => a.reduction += 1,
                Way::Partial => a.private += 1,
            }
        }
        a.plain += all.saturating_sub(ways.len());
    }

    fn array(&self, b: BufId) -> Option<std::sync::Arc<lathe_ir::Buffer>> {
        let param = self.now.func.params.iter().filter_map(|p| p.array()).find(|x| x.id == b).cloned();
        let mut local = None;
        visit::walk(&self.now.func.body, &mut |s, _| {
            local = local.take().or_else(|| s.allocated().filter(|x| x.id == b).cloned());
            true
        });
        param.or(local)
    }

    /// The loop of a variable: where it is, and its body.
    fn find(&self, v: VarId) -> Option<(Path, Stmt)> {
        let mut found = None;
        visit::walk(&self.now.func.body, &mut |s, path| {
            if let Some(l) = s.as_loop().filter(|l| l.binder.id == v) {
                found = Some((path.to_vec(), l.body.clone()));
            }
            found.is_none()
        });
        found
    }

    fn name(&self, v: VarId) -> Option<String> {
        let (path, _) = self.find(v)?;
        visit::at(&self.now.func.body, &path)?.as_loop().map(|l| l.binder.name.to_string())
    }
}

/// How often a loop runs, where the sizes say so.
fn trips(l: &Loop, sizes: &HashMap<VarId, i64>) -> Option<i64> {
    evaluate(&sub(l.hi.clone(), l.lo.clone()), sizes).map(|n| n.max(0) / l.step.max(1))
}

/// How many operations a statement does; `None` where the sizes do not say.
fn operations(s: &Stmt, sizes: &HashMap<VarId, i64>) -> Option<u64> {
    if let Some(l) = s.as_loop() {
        let trips = u64::try_from(trips(l, sizes)?).ok()?;
        return Some(operations(&l.body, sizes)?.saturating_mul(trips));
    }
    if matches!(s.kind(), StmtKind::While { .. }) || matches!(s.kind(), StmtKind::Call { .. }) {
        return None;
    }
    let own = s.exprs().into_iter().fold(1u64, |n, e| {
        let mut nodes = 0;
        visit::walk_expr(e, &mut |_| nodes += 1);
        n.saturating_add(nodes)
    });
    s.children().try_fold(own, |n, c| Some(n.saturating_add(operations(c, sizes)?)))
}

/// Whether a statement adds a cotangent to a shadow.
fn adds(r: &Reduce) -> bool {
    r.op == ReduceOp::Sum && r.targets.len() == 1 && made(r.label.as_str(), "bar").is_some()
}

/// The variables of the outermost loops in a statement, in the order of the text.
fn outermost(s: &Stmt) -> Vec<VarId> {
    let mut out = Vec::new();
    visit::walk(s, &mut |s, _| {
        out.extend(s.as_loop().map(|l| l.binder.id));
        s.as_loop().is_none()
    });
    out
}
