//! Phases: nests of thread loops, and which thread runs which iteration of them.

use lathe_ir::build::{ceil_div, floor_div, floor_mod, index, lt, mul, sub, var};
use lathe_ir::stmt::{Atomic, MemoryOrder};
use lathe_ir::visit::loads_of;
use lathe_ir::{Access, Binder, BufId, Executor, Expr, Loop, Stmt, StmtKind};
use lathe_poly::Ranges;

/// Whether the iterations of a loop are threads of a block, or of a cluster of blocks.
pub fn is_threads(e: &Executor) -> bool {
    matches!(e, Executor::Level(l) if matches!(&**l, "cluster" | "block" | "warp" | "lane"))
}

/// Whether the iterations of a loop are blocks that see each other's shared memory.
pub fn is_cluster(e: &Executor) -> bool {
    matches!(e, Executor::Level(l) if &**l == "cluster")
}

pub fn is_grid(e: &Executor) -> bool {
    matches!(e, Executor::Level(l) if &**l == "grid")
}

/// Whether the iterations of a loop are devices of one host.
pub fn is_device(e: &Executor) -> bool {
    *e == Executor::Device
}

/// Whether a loop with such an executor is in the subtree.
pub fn any_loop(s: &Stmt, wanted: &dyn Fn(&Executor) -> bool) -> bool {
    s.as_loop().is_some_and(|l| wanted(&l.exec)) || s.children().any(|c| any_loop(c, wanted))
}

pub fn has_threads(s: &Stmt) -> bool {
    any_loop(s, &is_threads)
}

/// The statement with its thread loops run by one thread, for which their iterations are in order.
pub fn in_sequence(s: &Stmt) -> Stmt {
    lathe_ir::visit::map_stmts(s, &mut |s| match s.as_loop() {
        Some(l) if is_threads(&l.exec) => {
            s.with_kind(StmtKind::Loop(Loop { exec: Executor::Serial, ..l.clone() }))
        }
        _ => s,
    })
}

pub fn has_barrier(s: &Stmt) -> bool {
    matches!(s.kind(), StmtKind::Barrier { .. }) || s.children().any(has_barrier)
}

/// One loop of a nest, without its body.
#[derive(Clone, Debug)]
pub struct Dim {
    pub exec: Executor,
    pub binder: Binder,
    pub lo: Expr,
    pub hi: Expr,
    pub step: i64,
    /// The most iterations that there are, if that is a constant.
    pub most: Option<i64>,
    /// There are always that many.
    pub exact: bool,
}

/// Thread loops, one directly inside of the other, outermost first.
#[derive(Clone, Debug)]
pub struct Chain {
    pub dims: Vec<Dim>,
    pub body: Stmt,
}

impl Chain {
    /// The nest that begins at a thread loop. `ranges` is what is known there.
    pub fn of(s: &Stmt, ranges: &mut Ranges) -> Chain {
        let mut dims = Vec::new();
        let mut here = s;
        let mut first = None;
        while let Some(l) = here.as_loop().filter(|l| is_threads(&l.exec)) {
            dims.push(dim(l, ranges));
            let mark = ranges.enter_child(here, 0);
            first.get_or_insert(mark);
            here = &l.body;
        }
        if let Some(mark) = first {
            ranges.leave(mark);
        }
        Chain { dims, body: here.clone() }
    }

    /// The product of the extents, if all have constant upper bounds.
    pub fn most(&self) -> Option<i64> {
        self.dims.iter().try_fold(1i64, |n, d| n.checked_mul(d.most?))
    }

    pub fn exact(&self) -> bool {
        self.dims.iter().all(|d| d.exact)
    }
}

/// What `look` is shown of an access: the nest of thread loops around it, and what is known there.
pub type Look<'a> = dyn FnMut(&Access, &Chain, &Ranges) -> Option<()> + 'a;

/// Shows every access to a buffer in a statement. `None` where a statement takes the buffer as a whole, an access is in
/// no thread loop, or `look` says so.
pub fn each_access(buffer: BufId, s: &Stmt, ranges: &mut Ranges, look: &mut Look) -> Option<()> {
    accesses_in(buffer, s, None, ranges, look)
}

fn accesses_in(
    buffer: BufId,
    s: &Stmt,
    around: Option<&Chain>,
    ranges: &mut Ranges,
    look: &mut Look,
) -> Option<()> {
    let is_it = |t: &Option<BufId>| *t == Some(buffer);
    if s.touches().iter().any(|(t, _)| is_it(&t.buffer()) && t.element().is_none()) {
        return None;
    }
    let loads = s.evaluated().into_iter().flat_map(loads_of);
    let all: Vec<Access> = s.accesses().map(|(a, _)| a.clone()).chain(loads).collect();
    for a in all.iter().filter(|a| is_it(&a.view.buffer())) {
        look(a, around?, ranges)?;
    }
    let begins = around.is_none() && s.as_loop().is_some_and(|l| is_threads(&l.exec));
    let own = begins.then(|| Chain::of(s, ranges));
    let around = own.as_ref().or(around);
    for (k, child) in s.children().enumerate() {
        let mark = ranges.enter_child(s, k);
        let done = accesses_in(buffer, child, around, ranges, look);
        ranges.leave(mark);
        done?;
    }
    Some(())
}

/// Constant bounds of an expression, as far as it has such: larger numbers are those that any size may have.
pub fn bounds(ranges: &Ranges, e: &Expr) -> (Option<i64>, Option<i64>) {
    let range = ranges.range(e);
    let small = |v: i128| i32::try_from(v).ok().map(i64::from);
    (small(range.lo), small(range.hi))
}

fn dim(l: &Loop, ranges: &Ranges) -> Dim {
    let (least, most) = bounds(ranges, &sub(l.hi.clone(), l.lo.clone()));
    let trips = |n: i64| (n.max(0) + l.step - 1) / l.step.max(1);
    let most = most.map(trips);
    Dim {
        exec: l.exec.clone(),
        binder: l.binder.clone(),
        lo: l.lo.clone(),
        hi: l.hi.clone(),
        step: l.step,
        most,
        exact: most.is_some() && least.map(trips) == most,
    }
}

/// The body for iteration number `at` of a nest whose extents are at most `extents`: variables bound, iterations
/// beyond the extents skipped. `whole`: `at` is below the product of the extents anyway.
pub fn iteration(dims: &[Dim], extents: &[i64], at: &Expr, whole: bool, body: Stmt) -> Stmt {
    let product: i64 = extents.iter().product();
    let mut out = body;
    // Innermost first, so that bounds see the variables further out.
    for d in dims.iter().rev().filter(|d| !d.exact) {
        out = only_if(lt(var(&d.binder), d.hi.clone()), out);
    }
    let mut inner = 1;
    for (k, (d, n)) in dims.iter().zip(extents).enumerate().rev() {
        let number = floor_div(at.clone(), index(inner));
        let number = if k == 0 { number } else { floor_mod(number, index(*n)) };
        let value = lathe_ir::build::add(d.lo.clone(), mul(number, index(d.step)));
        out = Stmt::of(StmtKind::Let { binder: d.binder.clone(), value, body: out });
        inner *= n;
    }
    if whole { out } else { only_if(lt(at.clone(), index(product)), out) }
}

/// Cyclic distribution of the iterations of a loop: thread `tid` runs numbers `tid`, `tid + threads`, …
pub struct Dealt {
    pub round: Binder,
    pub at: Binder,
}

/// A loop over the rounds of `count` iterations distributed over `threads`; `body` is for iteration `at`.
pub fn dealt(names: &Dealt, tid: &Expr, threads: i64, count: &Expr, body: Stmt) -> Stmt {
    let full = count.as_int().is_some_and(|n| n % threads == 0);
    let inside = if full { body } else { only_if(lt(var(&names.at), count.clone()), body) };
    let value = lathe_ir::build::add(mul(var(&names.round), index(threads)), tid.clone());
    Stmt::of(StmtKind::Loop(Loop {
        binder: names.round.clone(),
        lo: index(0),
        hi: ceil_div(count.clone(), threads),
        step: 1,
        exec: Executor::Serial,
        body: Stmt::of(StmtKind::Let { binder: names.at.clone(), value, body: inside }),
    }))
}

pub fn only_if(cond: Expr, then: Stmt) -> Stmt {
    match cond.as_bool() {
        Some(true) => then,
        _ => Stmt::of(StmtKind::If { cond, then, other: None }),
    }
}

/// The update that a statement is, if it is one in the order of iterations.
pub fn in_order(s: &Stmt) -> Option<&Atomic> {
    if let StmtKind::Atomic(a) = s.kind() {
        Some(a).filter(|a| a.order == MemoryOrder::InOrder)
    } else {
        None
    }
}
