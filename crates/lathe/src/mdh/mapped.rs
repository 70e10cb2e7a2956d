//! Loops on devices: a nest is mapped to the blocks of a grid and to their threads by the rules of Tensor Comprehensions
//! (Vasilache et al., 2019, section 5.3). Only loops whose iterations are independent are mapped: the outer ones of the outermost band
//! to blocks, and in each branch the innermost ones to threads, neighbours in memory to neighbouring threads. A parent is tried where
//! no child could be mapped. Loops around that depend on one another stay on the host, which launches what is inside once for each
//! of their iterations. A nest is tried as it is and with an affine schedule, which has independent loops outside where there are some; if that
//! leaves one thread, with tiles along diagonals.

use super::made::Made;
use super::nests::{data_variables, decided_by_data};
use super::setting::Setting;
use crate::applied::Version;
use lathe_analysis::within_work;
use lathe_ir::interp::evaluate;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Executor, Function, Stmt, VarId};
use lathe_transform::{Arg, Args};
use std::collections::HashMap;

/// Threads of a block.
const THREADS: i64 = 128;
/// Loops whose inner kernels give way to a kernel for all iterations are expected to take so much less of the time at least:
/// what is known of kernels by decisions is more than the number of their statements.
pub(super) const CLEARLY: f64 = 0.5;
/// Seconds of a launch, and of a statement by a thread alone; statements that a device runs at a time.
const LAUNCH: f64 = 3e-6;
const ALONE: f64 = 5e-8;
const CORES: f64 = 16384.0;
/// What checking all nests may take, and diagonals of one size of tiles ([`within_work`]).
const WORK: u64 = 80_000_000;
const FRONT_WORK: u64 = WORK / 2;
/// Sides of tiles along diagonals: small ones have more threads at a time, large ones fewer launches.
const FRONTS: [i64; 2] = [2, 8];
/// Nests that are looked at.
const NESTS: usize = 32;

/// The version with its loops on the device, as far as they can be.
pub(super) fn mapped(set: &Setting, v: Version) -> Version {
    let made = within_work(3 * WORK, || {
        let mut made = Made::of(&v.func);
        let all = outermost(&v.func.body);
        for path in all.into_iter().take(NESTS).rev() {
            made = best(set, made, &path);
        }
        for path in under_data(&made.func.body).into_iter().take(NESTS).rev() {
            made = one_block(set, made, &path);
        }
        made
    });
    if made.steps.is_empty() { v } else { made.after(v) }
}

/// The outermost loops that no core of a device has yet, where the host knows what is around them.
fn outermost(body: &Stmt) -> Vec<Path> {
    let mut out = Vec::new();
    visit::walk(body, &mut |s, p| {
        let free = s.as_loop().is_some() && !on_device(s);
        if free {
            out.push(p.to_vec());
        }
        let serial = s.as_loop().is_none_or(|l| l.exec == Executor::Serial);
        !free && serial && by_host(s)
    });
    out
}

/// The outermost loops below bounds or conditions that data in memory decide.
fn under_data(body: &Stmt) -> Vec<Path> {
    let (mut out, mut deciding): (Vec<Path>, Vec<Path>) = (Vec::new(), Vec::new());
    let variables = data_variables(body);
    visit::walk(body, &mut |s, p| {
        let under = deciding.iter().any(|d| d.len() < p.len() && p.starts_with(d));
        if under && s.as_loop().is_some() {
            out.extend((!on_device(s)).then(|| p.to_vec()));
            return false;
        }
        if decided_by_data(s, &variables) {
            deciding.push(p.to_vec());
        }
        true
    });
    out
}

/// A nest on the threads of one block, which decide together what the host cannot: its first loop whose iterations are
/// independent, or those of the nests inside.
fn one_block(set: &Setting, start: Made, path: &Path) -> Made {
    let (members, body) = band(&start.func, path);
    let found = members.iter().find_map(|l| bound(set, &start, l, "block"));
    if let Some(made) = found.filter(|m| runs(set, m)) {
        return made;
    }
    let mut inside = Vec::new();
    if let Some(s) = visit::at(&start.func.body, &body) {
        visit::walk(s, &mut |s, p| {
            inside.extend(s.as_loop().map(|_| joined(&body, p)));
            s.as_loop().is_none()
        });
    }
    inside.into_iter().rev().fold(start, |m, p| one_block(set, m, &p))
}

/// Whether a statement's own bounds, conditions and values do not depend on memory.
fn by_host(s: &Stmt) -> bool {
    s.exprs().into_iter().all(|e| visit::loads_of(e).is_empty())
}

/// Whether a loop of a statement is bound, or has lanes.
fn on_device(s: &Stmt) -> bool {
    let mut found = false;
    visit::walk(s, &mut |s, _| {
        found |= s.as_loop().is_some_and(|l| l.exec != Executor::Serial);
        !found
    });
    found
}

fn best(set: &Setting, start: Made, path: &Path) -> Made {
    let within =
        |m: &Made| visit::at(&m.func.body, path).map_or(f64::INFINITY, |s| time(s, &mut HashMap::new()));
    let mut all = vec![start.clone()];
    for fuse in [None, Some("none")] {
        let mut args = Args::default();
        if let Some(f) = fuse {
            args.push(Some("fuse"), Arg::Path(f.to_string()));
        }
        all.extend(start.then(set, path, "affine_schedule", &args));
    }
    let tried = |found: Option<(f64, Made)>, made: Made| {
        let Some(here) = visit::at(&made.func.body, path) else { return found };
        let inside: Vec<Path> = outermost(here).into_iter().map(|p| joined(path, &p)).collect();
        let made = inside.into_iter().rev().fold(made, |m, p| nest(set, m, &p));
        let (cost, least) = (within(&made), found.as_ref().map_or(within(&start), |f| f.0));
        if cost < least { Some((cost, made)) } else { found }
    };
    let mut found = within_work(WORK, || all.into_iter().fold(None, tried));
    if found.is_none() {
        // Whatever the others took; of the whole nest, or of what is inside of its first loop.
        let (members, _) = band(&start.func, path);
        let each = |at: &Member| FRONTS.map(|side| within_work(FRONT_WORK, || fronts(set, &start, at, side)));
        found = members.iter().take(2).flat_map(each).flatten().fold(None, tried);
    }
    found.map_or(start, |f| f.1)
}

/// Where every loop of a nest carries dependences: tiles along diagonals, one diagonal after the other. Of a diagonal each
/// tile is a block of one thread, since tiles differ in what they do.
fn fronts(set: &Setting, start: &Made, (path, name): &Member, side: i64) -> Option<Made> {
    let mut args = Args::default();
    args.push(None, Arg::Path(name.clone()));
    args.push(Some("tile"), Arg::Int(side));
    args.push(Some("parallel"), Arg::Path("wavefront".to_string()));
    let mut made = start.then(set, path, "affine_schedule", &args).ok()?;
    // The step is for threads of the host.
    while let Some((at, name)) = on_threads(&made.func, path) {
        let mut args = Args::default();
        args.push(None, Arg::Path(name.clone()));
        made = made.then(set, &at, "serial", &args).ok()?;
        made = bound(set, &made, &(at, name), "grid")?;
    }
    Some(made).filter(|m| m.steps.len() > start.steps.len() + 1 && runs(set, m))
}

fn on_threads(func: &Function, path: &Path) -> Option<Member> {
    let mut found = None;
    visit::walk(visit::at(&func.body, path)?, &mut |s, p| {
        if let Some(l) = s.as_loop().filter(|l| l.exec == Executor::Cpu) {
            found.get_or_insert((joined(path, p), l.binder.name.to_string()));
        }
        found.is_none()
    });
    found
}

fn joined(path: &[usize], more: &[usize]) -> Path {
    path.iter().chain(more).copied().collect()
}

/// One loop of a band: its path and its name.
type Member = (Path, String);

/// The loops of a nest that have nothing beside them, from the outermost one on, and the body of the last one.
fn band(func: &Function, path: &Path) -> (Vec<Member>, Path) {
    let (mut out, mut at) = (Vec::new(), path.clone());
    while let Some(l) = visit::at(&func.body, &at).and_then(Stmt::as_loop) {
        out.push((at.clone(), l.binder.name.to_string()));
        at.push(0);
    }
    (out, at)
}

fn nest(set: &Setting, start: Made, path: &Path) -> Made {
    let independent = |m: &Made, l: &Member| bound(set, m, l, "grid").is_some();
    let (mut members, mut body) = band(&start.func, path);
    let mut made = start.clone();
    let mut own: Vec<bool> = members.iter().map(|l| independent(&made, l)).collect();
    // Independent loops go outside of others, if they may.
    let sorted: Vec<Member> = {
        let (yes, no): (Vec<_>, Vec<_>) = members.iter().cloned().zip(&own).partition(|x| *x.1);
        yes.into_iter().chain(no).map(|x| x.0).collect()
    };
    if sorted != members
        && own.contains(&true)
        && let Some(next) = reordered(set, &made, path, &sorted)
    {
        made = next;
        (members, body) = band(&made.func, path);
        own = members.iter().map(|l| independent(&made, l)).collect();
    }
    let Some(first) = own.iter().position(|o| *o) else {
        // Nothing in the band: each nest inside is launched in every iteration.
        let around = members.iter().filter_map(|l| visit::at(&made.func.body, &l.0));
        if !around.into_iter().all(by_host) {
            return start;
        }
        let inside = visit::at(&made.func.body, &body).map(outermost).unwrap_or_default();
        return inside.into_iter().rev().fold(made, |m, p| nest(set, m, &joined(&body, &p)));
    };
    let last = own[first..].iter().position(|o| !*o).map_or(own.len(), |n| first + n);
    // Neighbours in memory are neighbouring threads.
    let along = (first..last).max_by_key(|n| contiguous(&made.func, &members[*n].0));
    if let Some(n) = along.filter(|n| n + 1 < last) {
        let mut order = members.clone();
        let l = order.remove(n);
        order.insert(last - 1, l);
        if let Some(next) = reordered(set, &made, path, &order) {
            made = next;
            (members, body) = band(&made.func, path);
        }
    }
    placed(set, &made, &members[first..last], &body).unwrap_or(start)
}

fn reordered(set: &Setting, made: &Made, path: &Path, order: &[Member]) -> Option<Made> {
    let mut args = Args::default();
    order.iter().for_each(|l| args.push(None, Arg::Path(l.1.clone())));
    made.then(set, path, "reorder", &args).ok()
}

fn bound(set: &Setting, made: &Made, l: &Member, cores: &str) -> Option<Made> {
    let mut args = Args::default();
    args.push(None, Arg::Path(l.1.clone()));
    args.push(None, Arg::Path(cores.to_string()));
    made.then(set, &l.0, "bind", &args).ok()
}

/// The loop in pieces of a block: blocks outside, threads inside.
fn cut(set: &Setting, made: &Made, l: &Member) -> Option<Made> {
    let mut args = Args::default();
    args.push(None, Arg::Path(l.1.clone()));
    args.push(None, Arg::Int(THREADS));
    let made = made.then(set, &l.0, "split", &args).ok()?;
    let name = |p: &Path| Some(visit::at(&made.func.body, p)?.as_loop()?.binder.name.to_string());
    let mut inner = joined(&l.0, &[0]);
    while visit::at(&made.func.body, &inner)?.as_let().is_some() {
        inner.push(0);
    }
    let (outer, inner) = ((l.0.clone(), name(&l.0)?), (inner.clone(), name(&inner)?));
    bound(set, &bound(set, &made, &inner, "block")?, &outer, "grid")
}

/// A band of independent loops on blocks and threads: the first of some ways that a device takes.
fn placed(set: &Setting, made: &Made, band: &[Member], body: &Path) -> Option<Made> {
    let (last, outer) = band.split_last()?;
    let blocks = |m: Made, of: &[Member]| of.iter().try_fold(m, |m, l| bound(set, &m, l, "grid"));
    let pieces = || blocks(cut(set, made, last)?, outer);
    let whole = || blocks(bound(set, made, last, "block")?, outer).filter(|_| !outer.is_empty());
    // Loops inside are the threads'; what is beside them is one thread's.
    let inside = || {
        let below = outermost(visit::at(&made.func.body, body)?);
        let mut next = made.clone();
        for p in below.into_iter().rev().map(|p| joined(body, &p)) {
            let name = visit::at(&next.func.body, &p)?.as_loop()?.binder.name.to_string();
            next = bound(set, &next, &(p, name), "block").unwrap_or(next);
        }
        blocks(next.clone(), band).filter(|_| next.steps.len() > made.steps.len())
    };
    let second = || {
        let [a, b, ..] = band else { return None };
        bound(set, &bound(set, made, b, "block")?, a, "grid")
    };
    let first = || cut(set, made, band.first()?);
    let ways: [&dyn Fn() -> Option<Made>; 5] = [&pieces, &whole, &second, &first, &inside];
    let found = ways.iter().filter_map(|w| w()).filter(|m| runs(set, m));
    let cost = |m: &Made| time(&m.func.body, &mut HashMap::new());
    found.min_by(|a, b| cost(a).total_cmp(&cost(b)))
}

/// Whether a device takes the function: with barriers where phases end, nothing else is in its way.
fn runs(set: &Setting, made: &Made) -> bool {
    made.everywhere(set, "to_spmd", &Args::default()).is_ok()
}

/// How many accesses in a loop have neighbouring elements in neighbouring iterations, less those that lie apart.
fn contiguous(func: &Function, path: &Path) -> i64 {
    let Some(l) = visit::at(&func.body, path).and_then(Stmt::as_loop) else { return 0 };
    let mut n = 0;
    visit::walk(&l.body, &mut |s, _| {
        let loads = s.exprs().into_iter().flat_map(visit::loads_of);
        for a in s.accesses().map(|(a, _)| a.clone()).chain(loads) {
            let uses = |e: &lathe_ir::Expr| visit::vars_of(e).contains(&l.binder.id);
            let Some((last, others)) = a.indices.split_last() else { continue };
            n += i64::from(uses(last)) - i64::from(others.iter().any(uses));
        }
        true
    });
    n
}

/// Seconds that a function is expected to take on a device, roughly: launches, and statements.
pub(super) fn expected(func: &Function) -> f64 {
    time(&func.body, &mut HashMap::new())
}

/// What a statement takes on a device, roughly. `at`: variables in the middle of their ranges.
fn time(s: &Stmt, at: &mut HashMap<VarId, i64>) -> f64 {
    if let Some(l) = s.as_loop() {
        if !on_device(s) {
            return LAUNCH + work(s, at).0 * ALONE;
        }
        if l.exec == Executor::Serial {
            let n = trips(l, at);
            return n * time(&l.body, at);
        }
        let (all, cores) = work(s, at);
        return LAUNCH + all * ALONE / cores.clamp(1.0, CORES);
    }
    let inner: f64 = taken(s, at).into_iter().map(|c| time(c, at)).sum();
    if s.label().is_some() { LAUNCH } else { inner }
}

/// The parts of a statement that run where variables are in the middle of their ranges.
fn taken<'a>(s: &'a Stmt, at: &HashMap<VarId, i64>) -> Vec<&'a Stmt> {
    match s.as_if().and_then(|(cond, then, other)| Some((evaluate(cond, at)?, then, other))) {
        Some((0, _, other)) => other.into_iter().collect(),
        Some((_, then, _)) => vec![then],
        None => s.children().collect(),
    }
}

/// Statements that are run, and how many of them at a time.
fn work(s: &Stmt, at: &mut HashMap<VarId, i64>) -> (f64, f64) {
    if let Some(l) = s.as_loop() {
        let n = trips(l, at);
        let (all, cores) = work(&l.body, at);
        return (n * all, if l.exec == Executor::Serial { cores } else { n * cores });
    }
    let own = f64::from(u8::from(s.label().is_some()));
    let parts = taken(s, at)
        .into_iter()
        .map(|c| work(c, at))
        .fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.0 / b.1.max(1.0)));
    // What runs one after the other: by as many as take the same time.
    let all = own + parts.0;
    (all, if parts.1 > 0.0 { (parts.0 / parts.1).max(1.0) } else { 1.0 })
}

fn trips(l: &lathe_ir::Loop, at: &mut HashMap<VarId, i64>) -> f64 {
    let (lo, hi) = (evaluate(&l.lo, at).unwrap_or(0), evaluate(&l.hi, at).unwrap_or(64));
    at.insert(l.binder.id, lo.saturating_add(hi) / 2);
    (hi.saturating_sub(lo) as f64 / l.step.max(1) as f64).max(1.0)
}
