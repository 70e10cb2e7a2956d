//! Lines that one core has written, or holds, and that another one touches next: loops on threads leave each thread its part of what
//! they write, and whatever runs next on other cores gets these lines from there. A loop that gains by threads on its own may
//! lose that again around it.
//!
//! Which arrays are where follows from the order of the statements. A loop on threads divides an array along the dimension that
//! its variable moves, and loops that divide it alike find their parts where they left them.

use super::{Region, Traffic, close};
use crate::trips::{bounds, typical_of};
use lathe_ir::interp::evaluate;
use lathe_ir::{BufId, Executor, Loop, Stmt, visit};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Who has the lines of an array.
#[derive(Clone, Copy, PartialEq)]
enum Holder {
    /// The thread that runs what is not in loops on threads.
    One,
    /// Each thread its part, along this dimension; `None`: nobody knows which.
    Parts(Option<usize>),
    /// Several have read what another one wrote.
    All,
}

/// Where an array is: who has it, how much of it, and how many bytes had been touched by then.
struct Held {
    by: Holder,
    bytes: f64,
    at: f64,
}

struct Walk<'t, 'a> {
    traffic: &'t mut Traffic<'a>,
    held: HashMap<BufId, Held>,
    touched: f64,
    lines: f64,
}

impl Traffic<'_> {
    /// Lines that the slowest thread gets from other cores, in a call whose data are where the last call left them.
    pub fn handed(&mut self, body: &Stmt) -> f64 {
        if self.machine.threads < 2 || !on_threads(body) {
            return 0.0;
        }
        let mut walk = Walk { traffic: self, held: HashMap::new(), touched: 0.0, lines: 0.0 };
        walk.go(body, 1.0);
        walk.lines = 0.0;
        walk.go(body, 1.0);
        walk.lines
    }
}

/// Whether a loop in a statement runs on threads.
fn on_threads(s: &Stmt) -> bool {
    let mut found = false;
    visit::walk(s, &mut |s, _| {
        found |= s.as_loop().is_some_and(|l| l.exec == Executor::Cpu);
        !found
    });
    found
}

impl Walk<'_, '_> {
    fn go(&mut self, s: &Stmt, times: f64) {
        if !on_threads(s) {
            let (regions, _) = self.traffic.go(s);
            self.touch(&regions, |_| Holder::One, &HashSet::new(), times);
            return;
        }
        if let Some(l) = s.as_loop() {
            return self.go_loop(l, times);
        }
        if let Some((binder, value, _)) = s.as_let()
            && let Some(v) = evaluate(value, &self.traffic.values)
        {
            self.traffic.values.insert(binder.id, v);
        }
        s.children().for_each(|c| self.go(c, times));
    }

    fn go_loop(&mut self, l: &Loop, times: f64) {
        let Some((lo, hi)) = bounds(l, &self.traffic.values, self.traffic.known) else {
            return self.go(&l.body, times);
        };
        let trips = ((hi as f64 - lo as f64).max(0.0) / l.step as f64).ceil();
        if trips == 0.0 {
            return;
        }
        self.traffic.values.insert(l.binder.id, typical_of(l, lo, hi));
        if l.exec == Executor::Cpu {
            let (mut regions, _) = self.traffic.go(&l.body);
            let along: HashMap<BufId, HashSet<Option<usize>>> = divided(&regions, l);
            let begins = super::moved_along(l);
            for r in &mut regions {
                let b = r.buffer.clone();
                let values = &self.traffic.values;
                let extent = |d: usize| evaluate(&b.extents[d], values).map_or(f64::INFINITY, |n| n as f64);
                close(r, l, (lo, begins.as_ref()), trips, &extent);
            }
            let mut own = HashSet::new();
            visit::walk(&l.body, &mut |s, _| {
                own.extend(s.allocated().map(|b| b.id));
                true
            });
            let by = |b: BufId| match along.get(&b).map(|all| all.iter().copied().collect::<Vec<_>>()) {
                Some(all) if all.len() == 1 => Holder::Parts(all[0]),
                _ => Holder::Parts(None),
            };
            self.touch(&regions, by, &own, times);
        } else {
            self.go(&l.body, times);
            if trips > 1.0 {
                // From the second time on, arrays are where the time before left them.
                self.go(&l.body, times * (trips - 1.0));
            }
        }
        self.traffic.values.remove(&l.binder.id);
    }

    /// Statements that run on some cores touch regions of arrays, but for those that belong to one iteration.
    fn touch(&mut self, all: &[Region], by: impl Fn(BufId) -> Holder, own: &HashSet<BufId>, times: f64) {
        let threads = self.traffic.machine.threads.max(1) as f64;
        let room = self.traffic.room(1);
        let mut arrays: BTreeMap<BufId, (f64, bool)> = BTreeMap::new();
        for r in all.iter().filter(|r| !own.contains(&r.buffer.id)) {
            // What bypasses the caches is in none.
            let bytes = if r.route == super::Route::Cached { self.traffic.size(r) } else { 0.0 };
            let a = arrays.entry(r.buffer.id).or_default();
            *a = (a.0 + bytes, a.1 || r.weight > 1.0);
        }
        let bytes: f64 = arrays.values().map(|a| a.0).sum();
        for (id, (bytes, written)) in arrays {
            let by = by(id);
            let before = self.held.get(&id);
            // Of what was touched long ago, nothing is in the caches of a core any more.
            let kept =
                |h: &Held| room * if h.by == Holder::One { 1.0 } else { threads } - (self.touched - h.at);
            let moves = before.map_or(0.0, |h| bytes.min(h.bytes).min(kept(h)).max(0.0));
            let share = before.map_or(0.0, |h| share(h.by, by, written, threads));
            self.lines += times * moves * share / self.traffic.machine.line_bytes.max(1) as f64;
            let by = match before {
                Some(h) if !written && (share > 0.0 || h.by == Holder::All) => Holder::All,
                _ => by,
            };
            let most = before.map_or(0.0, |h| if written { 0.0 } else { h.bytes });
            self.held.insert(id, Held { by, bytes: bytes.max(most), at: self.touched });
        }
        self.touched += bytes;
    }
}

/// The dimensions along which the iterations of a loop divide arrays.
fn divided(regions: &[Region], l: &Loop) -> HashMap<BufId, HashSet<Option<usize>>> {
    let mut out: HashMap<BufId, HashSet<Option<usize>>> = HashMap::new();
    for r in regions {
        let moves = |d: &Option<super::Span>| {
            d.as_ref().is_some_and(|s| s.terms.iter().any(|t| t.0 == l.binder.id && t.1 != 0))
        };
        out.entry(r.buffer.id).or_default().insert(r.dims.iter().position(moves));
    }
    out
}

/// Of the bytes that one holder has and another one touches, how much the slowest thread gets from other cores.
fn share(from: Holder, to: Holder, written: bool, threads: f64) -> f64 {
    let others = (threads - 1.0) / threads;
    match (from, to) {
        (Holder::One, Holder::One) => 0.0,
        (Holder::All, _) if !written => 0.0,
        (Holder::Parts(a), Holder::Parts(b)) if a.is_some() && a == b => 0.0,
        (Holder::All | Holder::Parts(_), Holder::One) => others,
        (Holder::One | Holder::All, Holder::Parts(Some(_))) => 1.0 / threads,
        (Holder::One | Holder::All, Holder::Parts(None)) => 1.0,
        (Holder::Parts(_), Holder::Parts(Some(_))) => others / threads,
        (Holder::Parts(_), Holder::Parts(None)) => others,
        (_, Holder::All) => 0.0,
    }
}
