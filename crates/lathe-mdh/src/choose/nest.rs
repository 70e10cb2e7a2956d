//! The loops around a register tile: their order, cache blocks, copies, and the work of threads.

use super::Setting;
use super::facts::{Facts, Reach};
use super::layers::Layers;
use super::lines;
use super::tile::{self, Tile};

/// A nest, outermost loop first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub loops: Vec<Part>,
    pub copies: Vec<Packing>,
    /// From this loop on, results are in registers.
    pub registers: Option<usize>,
    /// Results bypass the caches.
    pub far: bool,
}

/// Parts of a dimension at a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    pub layer: usize,
    pub dim: usize,
    pub parts: u64,
}

/// A copy of an input, used from this loop on.
#[derive(Clone, Debug, PartialEq)]
pub struct Packing {
    pub input: usize,
    pub from: usize,
    pub layout: Vec<usize>,
}

/// Estimated cycles below which threads cost more than they give.
pub(super) const SMALL: f64 = 8_000.0;

/// Fewer blocks of a scan for each thread are taken in rounds.
const ROUNDS: u64 = 8;
/// Elements of a block of a scan that waits for those before it, at most; and, for each thread, at least: the blocks of all
/// threads learn one after the other what they start from, while one is computed.
const TURN: u64 = 1 << 16;
const LEAST: u64 = 2048;
/// Shorter scans are taken in rounds: what a thread adds up is in its caches still when it is read again.
const LONG: u64 = 1 << 21;
/// A last cache that many processors share keeps no more of what all threads of a scan write, however large it is.
const SHARED: u64 = 32 << 20;

/// What is known before there are loops.
pub(super) struct Nest<'a> {
    pub f: &'a Facts,
    pub s: &'a Setting<'a>,
    pub t: &'a Tile,
    pub at: &'a Layers,
    /// The tile in registers, per dimension; and how often it fits the extent.
    pub tile: Vec<u64>,
    pub trips: Vec<u64>,
}

pub fn plan(f: &Facts, s: &Setting, t: &Tile, at: &Layers) -> Plan {
    let mut t = t.clone();
    if let Some((k, n)) = Nest::new(f, s, &t, at).reads_ahead() {
        t.side[k] = n;
    }
    let n = Nest::new(f, s, &t, at);
    let mut p = if f.reduces && !f.scanned.contains(&true) { n.reduction() } else { n.map() };
    p.loops.retain(|l| l.parts > 1);
    p
}

impl<'a> Nest<'a> {
    pub(super) fn new(f: &'a Facts, s: &'a Setting<'a>, t: &'a Tile, at: &'a Layers) -> Nest<'a> {
        let tile = t.all();
        let trips = f.extents.iter().zip(&tile).map(|(n, t)| n.div_ceil(*t)).collect();
        Nest { f, s, t, at, tile, trips }
    }

    pub(super) fn dims(&self) -> std::ops::Range<usize> {
        0..self.tile.len()
    }

    /// Free dimensions, those with the largest steps through the results first.
    pub(super) fn by_output(&self) -> Vec<usize> {
        let mut free: Vec<usize> = self.dims().filter(|d| !self.f.reduced[*d]).collect();
        let step = |d: usize| self.f.outputs.first().map_or(0, |o| o.stride[d].abs());
        free.sort_by_key(|d| std::cmp::Reverse(step(*d)));
        free
    }

    /// Reduced dimensions, those with the largest steps through the inputs first.
    pub(super) fn by_input(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.dims().filter(|d| self.f.reduced[*d]).collect();
        let step = |d: usize| self.f.inputs.iter().map(|r| r.stride[d].abs()).max().unwrap_or(0);
        all.sort_by_key(|d| std::cmp::Reverse(step(*d)));
        all
    }

    /// The loops of the tile itself: sums outside, so that instructions that follow one another add to different results, and of
    /// these the ones that move a window along the tile inside, whose next iteration reads most of the same. (A convolution of
    /// 224 x 224 with 5 x 5 takes 0.8 of the time of results one after the other.) Rows of windows that the first cache cannot hold
    /// beside each other are read as results come.
    pub(super) fn tile_loops(&self) -> Vec<Part> {
        let (f, m, side) = (self.f, self.s.machine, &self.t.side);
        let part = |layer: Option<usize>, dim, parts| layer.map(|layer| Part { layer, dim, parts });
        let lanes = self.t.lanes.map(|l| l.0);
        let of_tile = |d: usize| Some(d) != lanes && !f.reduced[d] && side[d] > 1;
        let moves = |c: &[i64], d: usize| c[d] != 0 && (0..c.len()).any(|o| of_tile(o) && c[o] != 0);
        let window = |r: &Reach, d: usize| r.subscripts.iter().any(|c| moves(c, d));
        let crowded = |r: &Reach, d: usize| window(r, d) && tile::crowded(r, side, m);
        let sum =
            |d: usize, of: &dyn Fn(&Reach, usize) -> bool| f.reduced[d] && f.inputs.iter().any(|r| of(r, d));
        let mut order: Vec<usize> = self.dims().filter(|d| Some(*d) != lanes).collect();
        if !order.iter().any(|d| sum(*d, &crowded)) {
            order.sort_by_key(|d| (!f.reduced[*d], f.splits && sum(*d, &window)));
        }
        let mut out = Vec::new();
        for d in order.into_iter().chain(lanes) {
            out.extend(part(self.at.registers, d, side[d]));
        }
        out.extend(self.t.lanes.and_then(|(d, w)| part(self.at.lanes, d, w.min(f.extents[d]))));
        out
    }

    /// What threads take: the first of the loops with enough iterations for all, many iterations in blocks; else two
    /// neighbours.
    pub(super) fn share(&self, loops: &mut Vec<Part>, candidates: usize) {
        let Some(threads) = self.at.threads.filter(|_| self.s.threads > 1 && self.t.cycles > SMALL) else {
            return;
        };
        let enough = |l: &Part, times: u64| {
            l.parts >= times * self.s.threads && !self.f.reduced[l.dim] && !self.f.scanned[l.dim]
        };
        // Of two loops of a dimension, the outer one.
        let first = |n: usize| loops[..n].iter().all(|l| l.dim != loops[n].dim);
        // Outer loops first, if they give all threads the same; else one with many iterations.
        let even = |l: &Part| enough(l, 2) && l.parts.is_multiple_of(self.s.threads);
        let pick = (0..candidates)
            .find(|n| first(*n) && (enough(&loops[*n], 4) || even(&loops[*n])))
            .or_else(|| {
                [2, 1]
                    .iter()
                    .find_map(|times| (0..candidates).find(|n| first(*n) && enough(&loops[*n], *times)))
            });
        let Some(n) = pick else {
            // No loop alone: two nested ones that have enough iterations together.
            let together = |n: &usize| {
                let (a, b) = (&loops[*n], &loops[*n + 1]);
                let free = |l: &Part| l.parts > 1 && !self.f.reduced[l.dim] && !self.f.scanned[l.dim];
                let all = a.parts.saturating_mul(b.parts);
                let even = all >= 2 * self.s.threads || all.is_multiple_of(self.s.threads);
                a.dim != b.dim && free(a) && free(b) && first(*n) && first(*n + 1) && even
            };
            if let Some(n) = (0..candidates.saturating_sub(1)).find(together) {
                (loops[n].layer, loops[n + 1].layer) = (threads, threads);
            }
            return;
        };
        let l = loops[n];
        let most = 16 * self.s.threads;
        let each = l.parts.div_ceil(most);
        loops[n] = Part { layer: threads, dim: l.dim, parts: l.parts.div_ceil(each) };
        if each > 1 {
            loops.insert(n + 1, Part { layer: self.at.rest, dim: l.dim, parts: each });
        }
    }

    /// Every index gives a result of its own.
    fn map(&self) -> Plan {
        let mut order = self.by_output();
        if order.first().is_some_and(|d| self.shared_by_rows(*d)) {
            order.rotate_left(1);
        }
        let mut loops: Vec<Part> = Vec::new();
        let inner = |d: usize, parts: u64| Part { layer: self.at.inner, dim: d, parts };
        // Neighbours along an outer dimension come again after everything inside of it.
        let l2 = self.s.machine.l2_bytes / 2;
        let outermost = order.iter().position(|d| self.f.inputs.iter().any(|r| r.neighbours(*d)));
        let mut block = None;
        if let Some(n) = outermost
            && n + 1 < order.len()
        {
            let mut tile: Vec<u64> = vec![1; self.tile.len()];
            order[n + 1..].iter().for_each(|d| tile[*d] = self.f.extents[*d]);
            let need: u64 = self.f.inputs.iter().chain(&self.f.outputs).map(|r| r.footprint(&tile)).sum();
            let d = order[n + 1];
            if need > l2 && n + 2 < order.len() {
                let fits = (self.f.extents[d] * l2 / need).max(4);
                let size = (1..=fits).rev().find(|s| s.is_power_of_two()).unwrap_or(4).max(self.tile[d]);
                block = Some((d, size.div_ceil(self.tile[d])));
            }
        }
        if let Some((d, each)) = block {
            loops.push(Part { layer: self.at.block, dim: d, parts: self.trips[d].div_ceil(each) });
        }
        for d in &order {
            let parts = block.filter(|b| b.0 == *d).map_or(self.trips[*d], |b| b.1);
            loops.push(inner(*d, parts));
        }
        let candidates = loops.len();
        let before = loops.clone();
        self.share(&mut loops, candidates);
        let turns = before == loops && self.share_scan(&mut loops);
        loops.extend(self.by_input().into_iter().map(|d| inner(d, self.trips[d])));
        loops.extend(self.tile_loops());
        let machine = self.s.machine;
        let most = (8 * machine.l2_bytes).max((machine.l3_bytes / 2).min(SHARED));
        Plan { loops, far: self.far() || turns && self.larger(most), ..Plan::default() }
    }

    /// Whether rows are innermost: what all of them read would be gone from the first cache with each row, and the second one keeps
    /// everything. (Layer normalization of 4096 columns, 16 rows at a time, reads scale and shift: 0.7 to 0.9 of its time.)
    fn shared_by_rows(&self, d: usize) -> bool {
        let (f, m) = (self.f, self.s.machine);
        let again = f.inputs.iter().any(|r| !r.depends(d) && self.t.lanes.is_some_and(|l| r.depends(l.0)));
        self.t.lanes.is_some_and(|l| l.0 != d)
            && !f.scanned.contains(&true)
            && again
            && tile::bytes(f, &tile::between(f, d)) > m.l1_bytes
            && tile::bytes(f, &f.extents) <= m.l2_bytes
    }

    /// A scan in blocks that fit the second cache, because what they read is traversed twice; so does what they write, unless
    /// that bypasses the caches. If there are many, in one pass, in which threads exchange the totals of their blocks; else
    /// in rounds, in each of which every thread takes one. Whether it is one pass.
    fn share_scan(&self, loops: &mut Vec<Part>) -> bool {
        let (Some(threads), [only]) = (self.at.threads, loops.as_slice()) else { return false };
        let d = only.dim;
        if !self.f.scanned[d] || !self.f.identity || self.s.threads < 2 {
            return false;
        }
        let bytes = |all: &[Reach]| all.iter().map(|r| r.footprint(&self.f.extents)).sum::<u64>();
        let kept = bytes(&self.f.inputs) + if self.far() { 0 } else { bytes(&self.f.outputs) };
        let fits = self.s.machine.l2_bytes / 2 / (kept / self.f.extents[d]).max(1);
        let most = self.f.extents[d] / (ROUNDS * self.s.threads);
        let turns = (fits / 2).min(TURN).min(most / 1024 * 1024);
        if self.f.turns && self.f.extents[d] >= LONG && turns >= LEAST * self.s.threads {
            loops[0].parts = turns;
            loops.insert(0, Part { layer: threads, dim: d, parts: self.f.extents[d].div_ceil(turns) });
            return true;
        }
        let block = fits.min(self.f.extents[d] / (4 * self.s.threads)) / 1024 * 1024;
        if block > 0 {
            loops[0].parts = block;
            loops.insert(0, Part { layer: threads, dim: d, parts: self.s.threads });
        }
        false
    }

    /// Results that no cache would keep, in whole lines, because only these bypass the caches.
    pub(super) fn far(&self) -> bool {
        lines::far(self.f, self.s.machine)
    }

    /// Results of more bytes, in whole lines.
    fn larger(&self, most: u64) -> bool {
        lines::larger(self.f, self.s.machine, most)
    }

    /// The sum in parts, one after the other taken by threads; few results, so that partial ones are cheap.
    pub(super) fn share_sum(&self, k: &mut [(usize, u64)]) -> Option<Part> {
        let threads = self.at.threads.filter(|_| self.s.threads > 1 && self.t.cycles > SMALL)?;
        let (d, n) = k.iter_mut().max_by_key(|x| x.1)?;
        let parts = (*n / 256).min(16 * self.s.threads).min((1 << 20) / self.f.results().max(1));
        if parts < 2 {
            return None;
        }
        *n = n.div_ceil(parts);
        Some(Part { layer: threads, dim: *d, parts })
    }

    /// The dimensions of an input in the order in which the loops run through it; that of the tile is cut.
    pub(super) fn layout(&self, r: &Reach, loops: &[Part], tile: Option<usize>) -> Vec<usize> {
        let rank = r.subscripts.len();
        let cut = tile.and_then(|d| r.plain(d).filter(|_| self.f.extents[d] > self.tile[d] || !self.s.exact));
        let last = tile.and_then(|d| r.plain(d));
        let first = |k: usize| {
            let at = loops.iter().position(|l| r.subscripts[k][l.dim] != 0 && !self.of_tile(l));
            at.unwrap_or(0)
        };
        let mut order: Vec<usize> = (0..rank).filter(|k| cut == Some(*k) || last != Some(*k)).collect();
        order.sort_by_key(|k| first(*k));
        order.extend(last);
        order
    }

    fn of_tile(&self, l: &Part) -> bool {
        Some(l.layer) == self.at.registers || Some(l.layer) == self.at.lanes
    }
}
