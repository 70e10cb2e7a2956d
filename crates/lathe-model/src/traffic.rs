//! Bytes that move between the caches.
//!
//! The footprint of a loop is the union of what its iterations touch. As long as what one iteration touches fits a
//! cache, iterations find there what they share with the one before, and the loop moves its footprint once; where it
//! does not fit, every iteration moves its own. (The reasoning of blocking for caches: Lam, Rothberg and Wolf 1991.)
//! Lines that several threads write move from core to core (false sharing).

mod handed;
mod jumps;
pub(crate) use jumps::PLACES;

use crate::accesses::{Known, Place, loads};
use crate::count::Values;
use crate::trips::{UNKNOWN_TRIPS, bounds, typical_of};
use lathe_ir::interp::evaluate;
use lathe_ir::{BinOp, Buffer, Executor, Expr, ExprKind, Loop, Space, Stmt, VarId, visit};
use lathe_poly::Affine;
use lathe_target::Machine;

use std::sync::Arc;

/// Bytes that come from beyond the first, the second and the last cache.
pub type Moved = [f64; 3];

/// A box of elements of one buffer.
#[derive(Clone)]
pub(crate) struct Region {
    pub(crate) buffer: Arc<Buffer>,
    /// `None`: any subscript.
    pub(crate) dims: Vec<Option<Span>>,
    /// No more elements than this.
    pub(crate) points: f64,
    /// The offsets of the rows that are touched, which leave out corners of the box; none if a loop runs over several rows, or
    /// nobody knows which.
    rows: Vec<Vec<i64>>,
    /// The part of the box that is touched: a loop that moves it along several dimensions, as in a skewed nest, leaves out
    /// corners.
    pub(crate) part: f64,
    /// Whether its lines come one by one.
    alone: bool,
    /// Whether the pages of it that are looked up again and again are counted.
    counted: bool,
    /// How often a byte moves: written ones come and go.
    weight: f64,
    route: Route,
}

/// How what is written goes to memory.
#[derive(Clone, Copy, PartialEq)]
enum Route {
    Cached,
    /// By non-temporal stores, bypassing the caches.
    Past,
    /// Through the caches, but for so many of a thousand rows, which begin where vectors do, and whose first and last lines
    /// leave in parts.
    Parts(u64),
}

/// `Σ terms + lo ..= Σ terms + hi`
#[derive(Clone)]
pub(crate) struct Span {
    terms: Vec<(VarId, i64)>,
    lo: i64,
    hi: i64,
}

impl Region {
    /// Whether it is written by non-temporal stores.
    pub(crate) fn past(&self) -> bool {
        self.route == Route::Past
    }
}

pub struct Traffic<'a> {
    pub machine: &'a Machine,
    pub known: &'a Known,
    /// Whether rows with a power of two between them share sets of a cache.
    pub sets: bool,
    /// Of loops that go from row to row, those of no more rows find each row's next line soon enough.
    pub rows: f64,
    pub values: Values,
    /// Iterations that threads run at the same time, of the loops around.
    pub at_once: f64,
    /// Cycles that [`Traffic::of`] found stores to wait for, and cores for lines that others write.
    pub waits: f64,
    /// Lines from beyond the second cache that [`Traffic::of`] found to come one by one.
    pub jumps: f64,
    /// Pages of packed rows that it found to be looked up.
    pub pages: f64,
}

impl<'a> Traffic<'a> {
    pub fn new(machine: &'a Machine, known: &'a Known) -> Traffic<'a> {
        Traffic {
            machine,
            known,
            sets: false,
            rows: 0.0,
            values: Values::new(),
            at_once: 1.0,
            waits: 0.0,
            jumps: 0.0,
            pages: 0.0,
        }
    }
}

impl Traffic<'_> {
    /// What a body moves where it runs again and again: what fits a cache stays there.
    pub fn of(&mut self, body: &Stmt) -> Moved {
        let (regions, mut moved) = self.go(body);
        let past: f64 = regions.iter().filter(|r| r.past()).map(|r| self.size(r)).sum();
        let parted: f64 = regions.iter().map(|r| self.parted(r)).sum();
        for (level, m) in moved.iter_mut().enumerate() {
            if self.fits(&regions, level) {
                *m = 0.0;
            }
        }
        if self.fits(&regions, 1) {
            self.jumps = 0.0;
        }
        let threads = self.threads(body);
        moved[2] += past / threads;
        self.waits += parted * self.machine.costs.parted / threads;
        moved
    }

    /// How many threads move bytes from memory, if any loop runs on them.
    fn threads(&self, body: &Stmt) -> f64 {
        let mut parallel = false;
        visit::walk(body, &mut |s, _| {
            parallel |= s.as_loop().is_some_and(|l| l.exec == Executor::Cpu);
            !parallel
        });
        if parallel { self.most(2) } else { 1.0 }
    }

    /// How many threads get the bytes of one at most, from beyond each cache: memory is shared by all.
    fn most(&self, level: usize) -> f64 {
        let m = self.machine;
        let threads = m.threads.max(1) as f64;
        match level {
            2 => {
                threads.min((m.memory_bytes_per_cycle as f64 / m.core_bytes_per_cycle.max(1) as f64).max(1.0))
            }
            _ => threads,
        }
    }

    fn go(&mut self, s: &Stmt) -> (Vec<Region>, Moved) {
        if let Some(l) = s.as_loop() {
            return self.of_loop(l);
        }
        if let Some((cond, then, other)) = s.as_if() {
            return match (evaluate(cond, &self.values), other) {
                (Some(0), None) => (Vec::new(), [0.0; 3]),
                (Some(0), Some(o)) => self.go(o),
                (Some(_), _) => self.go(then),
                (None, _) => self.all(s),
            };
        }
        if let Some((binder, value, body)) = s.as_let() {
            if let Some(v) = evaluate(value, &self.values) {
                self.values.insert(binder.id, v);
            }
            return self.go(body);
        }
        if s.children().next().is_some() {
            return self.all(s);
        }
        let regions = self.touched(s);
        let bytes = self.bytes(&regions);
        (regions, [bytes; 3])
    }

    /// Children one after the other, and what the statement itself touches.
    fn all(&mut self, s: &Stmt) -> (Vec<Region>, Moved) {
        let mut regions = self.touched(s);
        let mut sum = [self.bytes(&regions); 3];
        for c in s.children() {
            let (r, m) = self.go(c);
            for region in r {
                add(&mut regions, region);
            }
            (0..3).for_each(|i| sum[i] += m[i]);
        }
        let bytes = self.bytes(&regions);
        for (level, m) in sum.iter_mut().enumerate() {
            if self.fits(&regions, level) {
                *m = m.min(bytes);
            }
        }
        (regions, sum)
    }

    fn of_loop(&mut self, l: &Loop) -> (Vec<Region>, Moved) {
        let bounds = bounds(l, &self.values, self.known);
        let trips = match bounds {
            Some((lo, hi)) => ((hi as f64 - lo as f64).max(0.0) / l.step as f64).ceil(),
            None => UNKNOWN_TRIPS,
        };
        if trips == 0.0 {
            return (Vec::new(), [0.0; 3]);
        }
        if let Some((lo, hi)) = bounds {
            self.values.insert(l.binder.id, typical_of(l, lo, hi));
        }
        let around = self.at_once;
        if l.exec == Executor::Cpu {
            self.at_once *= trips;
        }
        let (waited, jumped) = (std::mem::take(&mut self.waits), std::mem::take(&mut self.jumps));
        let looked_up = std::mem::take(&mut self.pages);
        let (all, (mut regions, moved)) = (self.at_once, self.go(&l.body));
        // Those that the loops around left.
        let threads = |n: f64| n.min(self.machine.threads.max(1) as f64);
        // Each thread begins with as many iterations, which follow one another.
        let contended = self.contended(&regions, l) * threads(trips) * self.machine.costs.contended;
        self.waits =
            waited + (trips * self.waits + contended * threads(all)) / (threads(all) / threads(around));
        self.at_once = around;
        self.values.remove(&l.binder.id);
        let fits: Vec<bool> = (0..moved.len()).map(|level| self.fits(&regions, level)).collect();
        let begins = moved_along(l);
        let by_data = self.known.by_data(l);
        let mut apart = trips * self.jumps;
        let mut pages = trips * self.pages;
        for r in &mut regions {
            let jumps = self.jumps_along(r, l, trips);
            if let Some(n) = self.pages_again(r, l) {
                r.counted = true;
                pages += trips * n;
            }
            // Where a row of a sparse matrix is, data say: no two are the same.
            let moves = |s: &Span| s.terms.iter().any(|t| t.0 == l.binder.id);
            for d in r.dims.iter_mut().filter(|d| by_data && d.as_ref().is_some_and(moves)) {
                *d = None;
                r.rows.clear();
            }
            let buffer = r.buffer.clone();
            let extent =
                |d: usize| evaluate(&buffer.extents[d], &self.values).map_or(f64::INFINITY, |n| n as f64);
            close(r, l, (bounds.map_or(0, |b| b.0), begins.as_ref()), trips, &extent);
            if jumps {
                r.alone = true;
                apart += self.alone([&*r]);
            }
        }
        let mut merged = Vec::new();
        regions.into_iter().for_each(|r| add(&mut merged, r));
        let union = self.bytes(&merged);
        let mut out = [0.0; 3];
        for (level, m) in out.iter_mut().enumerate() {
            let apart = trips * moved[level];
            *m = if fits[level] { apart.min(union) } else { apart };
            // Threads move bytes at the same time: those that the loops around left.
            *m /= all.min(self.most(level)) / around.min(self.most(level));
        }
        let apart = if fits[1] { apart.min(self.alone(&merged)) } else { apart };
        self.jumps = jumped + apart / (threads(all) / threads(around));
        self.pages = looked_up + pages / (threads(all) / threads(around));
        (merged, out)
    }

    /// Lines that an iteration of a loop on threads writes, and that the one before writes, too, if that is another thread's: those in
    /// which its rows begin, where these are shorter than lines, or begin within them.
    fn contended(&self, regions: &[Region], l: &Loop) -> f64 {
        if l.exec != Executor::Cpu || self.machine.threads < 2 {
            return 0.0;
        }
        let line = self.machine.line_bytes.max(1) as i64;
        let of = |r: &Region| {
            let last = crate::accesses::innermost(&r.buffer)?;
            let moves = |s: &Span| s.terms.iter().any(|t| t.0 == l.binder.id);
            // Each has rows of its own, or all have the same, or data say which: then every write may find another's line.
            let others = |d: &usize| *d != last && r.dims[*d].as_ref().is_some_and(moves);
            let span = r.dims[last].as_ref().filter(|s| moves(s))?;
            if (0..r.dims.len()).any(|d| others(&d)) {
                return None;
            }
            let bytes = r.buffer.elem.bytes() as i64;
            let within = |s: &Span| {
                let begins = |k: i64, step: i64| k.saturating_mul(step).saturating_mul(bytes) % line != 0;
                s.terms.iter().any(|t| begins(t.1, if t.0 == l.binder.id { l.step } else { 1 }))
            };
            let mut rest = (0..r.dims.len()).filter(|d| *d != last).map(|d| r.dims[d].as_ref());
            let rows = rest.try_fold(1.0, |n, s| s.map(|s| n * (s.hi as f64 - s.lo as f64 + 1.0)));
            within(span).then_some(rows.unwrap_or(r.points))
        };
        regions.iter().filter(|r| r.weight > 1.0).filter_map(of).sum()
    }

    /// What a statement itself touches.
    fn touched(&self, s: &Stmt) -> Vec<Region> {
        let mut out = Vec::new();
        let past = s.as_store().is_some_and(|st| st.nontemporal);
        let targets = s.accesses().map(|(a, mode)| (a.clone(), mode.writes()));
        let all: Vec<_> = targets.chain(loads(s).into_iter().map(|a| (a, false))).collect();
        for (a, written) in all {
            let Some(place) = Place::of(&a, self.known, &self.values) else { continue };
            if matches!(place.buffer.space, Space::Register) {
                continue;
            }
            let span = |f: &Option<lathe_poly::Affine>| {
                f.as_ref().map(|f| Span { terms: f.terms.clone(), lo: f.constant, hi: f.constant })
            };
            let dims: Vec<_> = place.subscripts.iter().map(span).collect();
            let rows = offsets(&place.buffer, &dims).into_iter().collect();
            let route = if past && written { self.route(&place.buffer) } else { Route::Cached };
            let weight = if written && route != Route::Past { 2.0 } else { 1.0 };
            add(
                &mut out,
                Region {
                    buffer: place.buffer,
                    dims,
                    points: 1.0,
                    rows,
                    part: 1.0,
                    alone: false,
                    counted: false,
                    weight,
                    route,
                },
            );
        }
        out
    }

    /// Where non-temporal stores go. Where rows begin where vectors do, all of them are, and what follows fills their lines.
    fn route(&self, b: &Buffer) -> Route {
        let vector = self.machine.vector_bytes.max(1);
        let row = self.row(b) as u64;
        if b.extents.len() < 2 || row.is_multiple_of(vector) {
            return Route::Past;
        }
        // Every so many rows begin where the first one does.
        let every = vector >> row.trailing_zeros().min(vector.trailing_zeros());
        Route::Parts(1000 / every.max(1))
    }

    /// Bytes of the innermost dimension as it is declared.
    fn row(&self, b: &Buffer) -> f64 {
        let row = b.extents.last().and_then(|e| evaluate(e, &self.values)).unwrap_or(0).max(0);
        row as f64 * b.elem.leaves().iter().map(|s| s.bytes()).sum::<u64>() as f64
    }

    /// Lines that leave in parts.
    fn parted(&self, r: &Region) -> f64 {
        match r.route {
            Route::Parts(share) => {
                let rows = self.size(r) / self.row(&r.buffer).max(1.0);
                2.0 * rows * share as f64 / 1000.0
            }
            _ => 0.0,
        }
    }

    /// Bytes that move, where each element moves once.
    fn bytes(&self, regions: &[Region]) -> f64 {
        regions.iter().filter(|r| !r.past()).map(|r| self.size(r) * r.weight).sum()
    }

    /// Bytes of an element.
    pub(crate) fn element(&self, r: &Region) -> f64 {
        r.buffer.elem.leaves().iter().map(|s| s.bytes()).sum::<u64>() as f64
    }

    pub(crate) fn extent(&self, r: &Region, d: usize) -> f64 {
        evaluate(&r.buffer.extents[d], &self.values).map_or(f64::INFINITY, |n| n as f64)
    }

    /// Elements of a dimension that a region has.
    pub(crate) fn wide(&self, r: &Region, d: usize) -> f64 {
        match &r.dims[d] {
            Some(s) => (s.hi as f64 - s.lo as f64 + 1.0).min(self.extent(r, d)),
            None => self.extent(r, d).min(r.points),
        }
    }

    /// Bytes of the lines that a region touches.
    pub(crate) fn size(&self, r: &Region) -> f64 {
        let line = self.machine.line_bytes.max(1) as f64;
        let bytes = self.element(r);
        let wide = |d: usize| self.wide(r, d);
        let last = crate::accesses::innermost(&r.buffer);
        let rows: f64 = (0..r.dims.len()).filter(|d| Some(*d) != last).map(wide).product();
        let rows = if r.rows.is_empty() { rows } else { rows.min(r.rows.len() as f64) };
        let row = last.map_or(1.0, wide) * bytes;
        let whole = last.is_some_and(|d| wide(d) >= self.extent(r, d));
        // Adjacent rows share lines.
        let row = if whole { row } else { (row / line).ceil() * line };
        (rows * row * r.part).min(r.points * line).max(bytes)
    }
}

/// Where the row of one element is, beside its terms, if that is known.
fn offsets(b: &Buffer, dims: &[Option<Span>]) -> Option<Vec<i64>> {
    let last = crate::accesses::innermost(b);
    let outer = dims.iter().enumerate().filter(|(d, _)| Some(*d) != last);
    outer.map(|(_, s)| s.as_ref().map(|s| s.lo)).collect()
}

/// Where a loop begins that runs through a tile, as in `for i in t * 32..min(t * 32 + 32, N)`: loops around move it as a whole.
fn moved_along(l: &Loop) -> Option<Affine> {
    let lo = Affine::of(&l.lo).filter(|lo| !lo.terms.is_empty())?;
    let as_wide = |hi: &Expr| Affine::of(hi).is_some_and(|hi| hi.same_terms(&lo));
    let tile = match l.hi.kind() {
        ExprKind::Binary(BinOp::Min, a, b) => as_wide(a) || as_wide(b),
        _ => as_wide(&l.hi),
    };
    tile.then_some(lo)
}

/// What a region is when a loop around it has run, which begins at a number, or with loops around it.
fn close(
    r: &mut Region,
    l: &Loop,
    (lo, begins): (i64, Option<&Affine>),
    trips: f64,
    extent: &dyn Fn(usize) -> f64,
) {
    let far = (trips - 1.0).min(1e15) as i64;
    let mut mentioned = false;
    // Dimensions that move; of each iteration's box, the part that the next one has too; how much larger the box grows.
    let (mut moved, mut kept, mut grown) = (0, 1.0, 1.0);
    for (n, d) in r.dims.iter_mut().enumerate() {
        let Some(span) = d else {
            mentioned = true;
            continue;
        };
        let Some(at) = span.terms.iter().position(|t| t.0 == l.binder.id) else { continue };
        mentioned = true;
        let (_, k) = span.terms.remove(at);
        let first = k.saturating_mul(begins.map_or(lo, |b| b.constant));
        for (v, by) in begins.into_iter().flat_map(|b| &b.terms) {
            match span.terms.iter_mut().find(|t| t.0 == *v) {
                Some(t) => t.1 = t.1.saturating_add(k.saturating_mul(*by)),
                None => span.terms.push((*v, k.saturating_mul(*by))),
            }
        }
        let reach = k.saturating_mul(far.saturating_mul(l.step));
        let wide = |s: &Span| s.hi as f64 - s.lo as f64 + 1.0;
        let before = wide(span);
        span.lo = span.lo.saturating_add(first).saturating_add(reach.min(0));
        span.hi = span.hi.saturating_add(first).saturating_add(reach.max(0));
        if Some(n) != crate::accesses::innermost(&r.buffer) {
            r.rows.clear();
        }
        moved += 1;
        kept *= (1.0 - k.saturating_mul(l.step).unsigned_abs() as f64 / before).max(0.0);
        grown *= (wide(span).min(extent(n)) / before).max(1.0);
    }
    if moved > 1 {
        r.part *= ((1.0 + (trips - 1.0) * (1.0 - kept)) / grown).min(1.0);
    }
    if mentioned {
        r.points *= trips;
    }
}

/// One region for those of one buffer that move together.
fn add(all: &mut Vec<Region>, new: Region) {
    let together = |r: &Region| {
        r.buffer.id == new.buffer.id
            && r.route == new.route
            && r.dims.iter().zip(&new.dims).all(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => {
                    a.terms.len() == b.terms.len() && a.terms.iter().all(|t| b.terms.contains(t))
                }
                (None, None) => true,
                _ => false,
            })
    };
    let Some(old) = all.iter_mut().find(|r| together(r)) else { return all.push(new) };
    old.points += new.points;
    old.weight = old.weight.max(new.weight);
    old.part = old.part.max(new.part);
    old.alone |= new.alone;
    old.counted |= new.counted;
    if old.rows.is_empty() || new.rows.is_empty() {
        old.rows.clear();
    } else {
        let known = std::mem::take(&mut old.rows);
        old.rows = known
            .into_iter()
            .chain(new.rows)
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect();
    }
    for (a, b) in old.dims.iter_mut().zip(new.dims) {
        if let (Some(a), Some(b)) = (a, b) {
            (a.lo, a.hi) = (a.lo.min(b.lo), a.hi.max(b.hi));
        }
    }
}
