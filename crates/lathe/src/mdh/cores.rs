//! Which loops run on threads, once all of them are known. A loop on threads leaves each core its part of what it writes, and what runs
//! next on other cores waits for these lines: a loop that gains by threads on its own may lose more than that around it, and
//! one that gains little may keep lines where they are. So loops change places one at a time, as long as the whole function gains. Where
//! lines go from core to core and threads take little off the whole function, all of it runs on one.

use super::made::Made;
use super::setting::Setting;
use crate::applied::Version;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Executor, Function, Loop, Stmt, StmtKind};
use lathe_transform::{Arg, Args};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Where less of a function's time is spent waiting for lines of other cores, nothing is changed, unless threads save less than this, too: then
/// nothing runs on them, since what such lines cost is not known better than that.
const LITTLE: f64 = 0.05;
/// What changes must take the function's time to.
const CLEARLY: f64 = 0.95;
/// Loops that are looked at.
const LOOPS: usize = 128;

/// A loop that could run on threads, or does.
struct Place {
    path: Path,
    threads: bool,
}

/// The version with other loops on threads, if that is expected to be faster.
pub(super) fn placed(set: &Setting, v: Version, sizes: &BTreeMap<String, i64>) -> Version {
    if set.machine.threads < 2 {
        return v;
    }
    let alone = |f: &Function| lathe_model::estimate(f, sizes, set.machine).cycles();
    let handed = |f: &Function| lathe_model::handed(f, sizes, set.machine);
    let (computed, waited) = (alone(&v.func), handed(&v.func));
    let all = places(&v.func.body);
    if waited < LITTLE * computed {
        let none = vec![false; all.len()];
        let serial = with(&v.func, &all, &none);
        if waited > 0.0
            && all.iter().any(|p| p.threads)
            && !has_threads(&serial.body)
            && computed + waited > alone(&serial) * (1.0 - LITTLE)
            && let Ok(made) = applied(set, &v.func, &all, &none)
        {
            return made.after(v);
        }
        return v;
    }
    if all.len() > LOOPS {
        return v;
    }
    let mut times = Times { func: &v.func, all: &all, alone: &alone, handed: &handed, known: HashMap::new() };
    let mut refused = HashSet::new();
    loop {
        let Some(chosen) = chosen(&mut times, &refused, (computed + waited) * CLEARLY) else { return v };
        match applied(set, &v.func, &all, &chosen) {
            Ok(made) => return made.after(v),
            // Iterations that depend on each other stay in order.
            Err(at) if refused.insert(at) => {}
            Err(_) => return v,
        }
    }
}

/// The loops that run on threads, and those beside them, with none on threads inside.
fn places(body: &Stmt) -> Vec<Place> {
    let mut out = Vec::new();
    visit::walk(body, &mut |s, p| {
        let Some(l) = s.as_loop() else { return true };
        let threads = l.exec == Executor::Cpu;
        // Loops on threads inside of each other share one range of iterations: one of them alone would leave the others many forks.
        let own = (threads || l.exec == Executor::Serial) && !has_threads(&l.body);
        if own {
            out.push(Place { path: p.to_vec(), threads });
        }
        !own && l.exec == Executor::Serial
    });
    out
}

/// Whether a loop of a statement runs on threads.
pub(super) fn has_threads(s: &Stmt) -> bool {
    super::candidates::has(s, &|s| s.as_loop().is_some_and(|l| l.exec == Executor::Cpu))
}

/// What a function takes with some of its loops on threads.
struct Times<'a> {
    func: &'a Function,
    all: &'a [Place],
    alone: &'a dyn Fn(&Function) -> f64,
    handed: &'a dyn Fn(&Function) -> f64,
    /// The cycles of each such function, and of these those until lines come from other cores, if anyone asked.
    known: HashMap<Vec<bool>, (f64, Option<f64>)>,
}

impl Times<'_> {
    /// How many cycles the function takes with these loops on threads, if it is fewer than so many.
    fn below(&mut self, most: f64, state: &[bool]) -> Option<f64> {
        let (alone, handed) = match self.known.get(state) {
            Some((alone, handed)) if handed.is_some() || *alone >= most => (*alone, handed.unwrap_or(0.0)),
            known => {
                let func = with(self.func, self.all, state);
                let alone = known.map_or_else(|| (self.alone)(&func), |k| k.0);
                let handed = (alone < most).then(|| (self.handed)(&func));
                self.known.insert(state.to_vec(), (alone, handed));
                (alone, handed.unwrap_or(0.0))
            }
        };
        Some(alone + handed).filter(|all| *all < most)
    }
}

/// Which loops run on threads, if that takes the function below so many cycles: from what it has, from none, and from all, one loop
/// after the other as far as it gains.
fn chosen(times: &mut Times, refused: &HashSet<usize>, most: f64) -> Option<Vec<bool>> {
    let all = times.all;
    let now: Vec<bool> = all.iter().map(|p| p.threads).collect();
    let may: Vec<bool> = (0..all.len()).map(|n| all[n].threads || !refused.contains(&n)).collect();
    let mut best = (most, None);
    for (begin, flips) in [(vec![false; all.len()], false), (now, true), (may.clone(), true)] {
        let mut state = begin;
        let mut cost = times.below(f64::INFINITY, &state)?;
        for n in (0..all.len()).filter(|n| flips && may[*n]) {
            state[n] = !state[n];
            match times.below(cost, &state) {
                Some(other) => cost = other,
                None => state[n] = !state[n],
            }
        }
        if cost < best.0 {
            best = (cost, Some(state));
        }
    }
    best.1
}

/// The function with these loops on threads, whether that is legal or not.
fn with(func: &Function, all: &[Place], state: &[bool]) -> Function {
    let mut body = func.body.clone();
    for (place, threads) in all.iter().zip(state).filter(|(p, threads)| p.threads != **threads) {
        let exec = if *threads { Executor::Cpu } else { Executor::Serial };
        let changed = visit::at(&body, &place.path).and_then(|s| Some((s, s.as_loop()?.clone())));
        let changed = changed.map(|(s, l)| s.with_kind(StmtKind::Loop(Loop { exec, ..l })));
        body = changed.and_then(|s| visit::replace_at(&body, &place.path, s)).unwrap_or(body);
    }
    Function { body, ..func.clone() }
}

/// The steps that put these loops on threads, and others in order.
///
/// # Errors
/// Which loop cannot run there.
fn applied(set: &Setting, func: &Function, all: &[Place], state: &[bool]) -> Result<Made, usize> {
    let mut made = Made::of(func);
    for (n, (place, threads)) in all.iter().zip(state).enumerate().filter(|(_, (p, t))| p.threads != **t) {
        let name = visit::at(&made.func.body, &place.path).and_then(Stmt::as_loop);
        let mut args = Args::default();
        args.push(None, Arg::Path(name.ok_or(n)?.binder.name.to_string()));
        let rule = if *threads { "parallel" } else { "serial" };
        made = made.then(set, &place.path, rule, &args).map_err(|_| n)?;
    }
    Ok(made)
}
