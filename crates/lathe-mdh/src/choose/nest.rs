//! The loops around a tile in registers: their order, blocks for the caches, copies, and what threads take.

use super::Setting;
use super::facts::{Facts, Reach};
use super::layers::Layers;
use super::tile::Tile;

/// A nest, outermost loop first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub loops: Vec<Part>,
    pub copies: Vec<Packing>,
    /// From this loop on, results are in registers.
    pub registers: Option<usize>,
    /// Results go past the caches.
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
const SMALL: f64 = 40_000.0;
/// Copies that are used fewer times cost more than they give.
const REUSE: u64 = 6;

struct Nest<'a> {
    f: &'a Facts,
    s: &'a Setting<'a>,
    t: &'a Tile,
    at: &'a Layers,
    tile: Vec<u64>,
    trips: Vec<u64>,
}

pub fn plan(f: &Facts, s: &Setting, t: &Tile, at: &Layers) -> Plan {
    let tile = t.all();
    let trips = f.extents.iter().zip(&tile).map(|(n, t)| n.div_ceil(*t)).collect();
    let n = Nest { f, s, t, at, tile, trips };
    let mut p = if f.reduces && !f.scanned.contains(&true) { n.reduction() } else { n.map() };
    p.loops.retain(|l| l.parts > 1);
    p
}

impl Nest<'_> {
    fn dims(&self) -> std::ops::Range<usize> {
        0..self.tile.len()
    }

    /// Free dimensions, those with the largest steps through the results first.
    fn by_output(&self) -> Vec<usize> {
        let mut free: Vec<usize> = self.dims().filter(|d| !self.f.reduced[*d]).collect();
        let step = |d: usize| self.f.outputs.first().map_or(0, |o| o.stride[d].abs());
        free.sort_by_key(|d| std::cmp::Reverse(step(*d)));
        free
    }

    /// Reduced dimensions, those with the largest steps through the inputs first.
    fn by_input(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.dims().filter(|d| self.f.reduced[*d]).collect();
        let step = |d: usize| self.f.inputs.iter().map(|r| r.stride[d].abs()).max().unwrap_or(0);
        all.sort_by_key(|d| std::cmp::Reverse(step(*d)));
        all
    }

    /// The loops of the tile itself.
    fn tile_loops(&self) -> Vec<Part> {
        let mut out = Vec::new();
        let part = |layer: Option<usize>, dim, parts| layer.map(|layer| Part { layer, dim, parts });
        let lanes = self.t.lanes.map(|l| l.0);
        let order = self.dims().filter(|d| Some(*d) != lanes).chain(lanes);
        for d in order {
            out.extend(part(self.at.registers, d, self.t.side[d]));
        }
        out.extend(self.t.lanes.and_then(|(d, w)| part(self.at.lanes, d, w.min(self.f.extents[d]))));
        out
    }

    /// What threads take: the first of the loops with enough iterations for all; many iterations in blocks.
    fn share(&self, loops: &mut Vec<Part>, candidates: usize) {
        let Some(threads) = self.at.threads.filter(|_| self.s.threads > 1 && self.t.cycles > SMALL) else {
            return;
        };
        let enough = |l: &Part, times: u64| {
            l.parts >= times * self.s.threads && !self.f.reduced[l.dim] && !self.f.scanned[l.dim]
        };
        // Of two loops of a dimension, the outer one.
        let first = |n: usize| loops[..n].iter().all(|l| l.dim != loops[n].dim);
        let pick = [4, 2, 1]
            .iter()
            .find_map(|times| (0..candidates).find(|n| first(*n) && enough(&loops[*n], *times)));
        let Some(n) = pick else { return };
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
        let order = self.by_output();
        let mut loops: Vec<Part> = Vec::new();
        let inner = |d: usize, parts: u64| Part { layer: self.at.inner, dim: d, parts };
        // Neighbours along an outer dimension come again after everything inside of it.
        let l2 = self.s.machine.l2_bytes / 2;
        let outermost = order.iter().position(|d| self.f.inputs.iter().any(|r| self.neighbours(r, *d)));
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
        if before == loops && self.s.threads > 1 {
            self.share_scan(&mut loops);
        }
        loops.extend(self.by_input().into_iter().map(|d| inner(d, self.trips[d])));
        loops.extend(self.tile_loops());
        Plan { loops, far: self.far(), ..Plan::default() }
    }

    /// A scan in rounds: in each, every thread takes one block, and the block fits the second cache, because it is
    /// passed over twice.
    fn share_scan(&self, loops: &mut Vec<Part>) {
        let (Some(threads), [only]) = (self.at.threads, loops.as_slice()) else { return };
        let d = only.dim;
        if !self.f.scanned[d] || !self.f.identity {
            return;
        }
        let all: u64 =
            self.f.inputs.iter().chain(&self.f.outputs).map(|r| r.footprint(&self.f.extents)).sum();
        let fits = self.s.machine.l2_bytes / 2 / (all / self.f.extents[d]).max(1);
        let block = fits.min(self.f.extents[d] / (4 * self.s.threads)) / 1024 * 1024;
        if block > 0 {
            loops[0].parts = block;
            loops.insert(0, Part { layer: threads, dim: d, parts: self.s.threads });
        }
    }

    fn neighbours(&self, r: &Reach, d: usize) -> bool {
        r.shifted > 1 && r.subscripts.iter().enumerate().any(|(k, c)| c[d] != 0 && r.spread[k] > 0)
    }

    /// Results that no cache would keep.
    fn far(&self) -> bool {
        let bytes: u64 = self.f.outputs.iter().map(|r| r.footprint(&self.f.extents)).sum();
        bytes > 8 * self.s.machine.l2_bytes
    }

    fn reduction(&self) -> Plan {
        let f = self.f;
        let lanes = self.t.lanes.map(|l| l.0);
        let free = self.by_output();
        let row = free
            .iter()
            .copied()
            .filter(|d| Some(*d) != lanes && self.t.side[*d] > 1)
            .max_by_key(|d| self.t.side[*d]);
        let rows: Vec<&Reach> = f
            .inputs
            .iter()
            .filter(|r| row.map_or(!lanes.is_some_and(|v| r.depends(v)), |d| r.depends(d)))
            .collect();
        let columns: Vec<&Reach> = f
            .inputs
            .iter()
            .filter(|r| row.map_or(lanes.is_some_and(|v| r.depends(v)), |d| !r.depends(d)))
            .collect();
        let uses = |all: &[&Reach], d: usize| all.iter().any(|r| r.depends(d));
        let (mut batch, mut by_row, mut by_column) = (Vec::new(), Vec::new(), Vec::new());
        for d in free.iter().copied() {
            match (uses(&rows, d), uses(&columns, d)) {
                (true, false) => by_row.push(d),
                (false, true) => by_column.push(d),
                _ => batch.push(d),
            }
        }
        // The loops of the tile are innermost of their kind.
        let last = |all: &mut Vec<usize>, d: Option<usize>| {
            if let Some(d) = d.filter(|d| all.contains(d)) {
                all.retain(|x| *x != d);
                all.push(d);
            }
        };
        last(&mut by_row, row);
        last(&mut by_column, lanes);

        let l2 = self.s.machine.l2_bytes;
        let mut k: Vec<(usize, u64)> = self.by_input().into_iter().map(|d| (d, self.trips[d])).collect();
        let whole =
            |tile: &mut Vec<u64>| self.dims().filter(|d| f.reduced[*d]).for_each(|d| tile[d] = f.extents[d]);
        let sum = |all: &[&Reach], tile: &[u64]| all.iter().map(|r| r.footprint(tile)).sum::<u64>();
        let mut panel = self.tile.clone();
        whole(&mut panel);

        // Copies of what lanes read: where neighbours are not neighbours in memory, or rows are far apart and used often.
        let times = |r: &Reach| {
            self.dims().filter(|d| !f.reduced[*d] && !r.depends(*d)).map(|d| self.trips[d]).product::<u64>()
        };
        let innermost = k.last().map(|x| x.0);
        let far_apart = |r: &Reach, d: Option<usize>| {
            innermost.zip(d).is_some_and(|(k, d)| {
                f.extents[d] > self.tile[d]
                    && r.stride[k].unsigned_abs() * r.bytes >= 256
                    && f.extents[k] >= 64
            })
        };
        let mut packed = self.t.packed.clone();
        let free_lanes = lanes.filter(|v| !f.reduced[*v]);
        if let Some(v) = free_lanes {
            let more =
                columns.iter().filter(|r| r.plain(v).is_some() && far_apart(r, Some(v)) && times(r) >= REUSE);
            packed.extend(more.filter_map(|r| r.input));
        }
        packed.sort_unstable();
        packed.dedup();

        // Blocks of the sum: what a tile needs of it fits the second cache; rows that are not copied are read some
        // at a time.
        let mut outer_k = None;
        if let (Some(_), Some(&(d, n))) = (free_lanes, k.iter().max_by_key(|x| f.extents[x.0])) {
            let need = sum(&rows, &panel) + sum(&columns, &panel);
            let loose = columns.iter().any(|r| {
                r.input.is_none_or(|n| !packed.contains(&n))
                    && far_apart(r, free_lanes)
                    && r.stride[d].unsigned_abs() * r.bytes >= 1024
            });
            let kc = if loose && f.extents[d] > 192 {
                Some(96)
            } else if need > l2 * 3 / 4 {
                Some((f.extents[d] * (l2 / 2) / need).max(32) / 16 * 16)
            } else {
                None
            };
            if let Some(kc) = kc.filter(|kc| *kc < f.extents[d] && self.tile[d] == 1) {
                outer_k = Some(Part { layer: self.at.outer, dim: d, parts: n.div_ceil(kc) });
                k.iter_mut().filter(|x| x.0 == d).for_each(|x| x.1 = kc);
                panel[d] = kc;
            }
        }

        // Rows whose inputs fit the second cache together are inside of the columns.
        let mut inside = panel.clone();
        let mut inner_rows: Vec<(usize, u64)> = Vec::new();
        let mut outer_rows: Vec<(usize, u64)> = Vec::new();
        let mut full = false;
        // Columns that a cache holds all of need no rows inside of them: results are then written in their order.
        let mut all_columns = panel.clone();
        by_column.iter().for_each(|d| all_columns[*d] = f.extents[*d]);
        let held = sum(&columns, &all_columns) <= l2 / 2;
        for d in by_row.iter().rev().copied() {
            let mut with = inside.clone();
            with[d] = f.extents[d];
            let need = sum(&rows, &with);
            if full
                || (held && Some(d) != row)
                || (need > l2 / 2 && by_column.iter().all(|c| self.trips[*c] < 2))
            {
                outer_rows.insert(0, (d, self.trips[d]));
            } else if need <= l2 / 2 {
                inside = with;
                inner_rows.insert(0, (d, self.trips[d]));
            } else {
                full = true;
                let block = (self.trips[d] * (l2 / 2) / need.max(1)).max(1);
                // Enough blocks for all threads.
                let block = block.min(self.trips[d].div_ceil(2 * self.s.threads)).max(1);
                inner_rows.insert(0, (d, block));
                outer_rows.insert(0, (d, self.trips[d].div_ceil(block)));
            }
        }
        let mut loops: Vec<Part> = Vec::new();
        loops.extend(batch.iter().map(|d| Part { layer: self.at.inner, dim: *d, parts: self.trips[*d] }));
        let copies_from = loops.iter().filter(|l| l.parts > 1).count() + usize::from(outer_k.is_some());
        loops.extend(outer_k);
        loops.extend(outer_rows.iter().map(|(d, n)| Part { layer: self.at.block, dim: *d, parts: *n }));
        let rows_from = loops.len();
        loops.extend(by_column.iter().map(|d| Part { layer: self.at.inner, dim: *d, parts: self.trips[*d] }));
        loops.extend(inner_rows.iter().map(|(d, n)| Part { layer: self.at.inner, dim: *d, parts: *n }));
        let candidates = loops.len();
        let before = loops.clone();
        self.share(&mut loops, candidates);
        // What threads could not take of the results, they take of the sum.
        let shared = loops != before;
        let mut by_sum = None;
        if !shared && f.splits && outer_k.is_none() {
            by_sum = self.share_sum(&mut k);
        }
        let moved = |at: usize| {
            // One loop more, if the threads' loop got blocks; one more outside of all, if they share the sum.
            let n = before[..at].iter().zip(&loops).take_while(|(a, b)| a == b).count();
            let blocks = usize::from(n < at && loops.len() > before.len());
            loops[..at + blocks].iter().filter(|l| l.parts > 1).count() + usize::from(by_sum.is_some())
        };
        let (rows_from, kept) = (moved(rows_from), moved(candidates));
        let mut loops: Vec<Part> = by_sum.into_iter().chain(loops.iter().copied()).collect();
        loops.extend(k.iter().map(|(d, n)| Part { layer: self.at.inner, dim: *d, parts: *n }));
        loops.extend(self.tile_loops());
        loops.retain(|l| l.parts > 1);

        let mut copies = Vec::new();
        for input in packed {
            let Some(r) = columns.iter().chain(&rows).find(|r| r.input == Some(input)) else { continue };
            let layout = self.layout(r, &loops, lanes);
            copies.push(Packing { input, from: copies_from + usize::from(by_sum.is_some()), layout });
        }
        if let (Some(row), Some(_)) = (row, free_lanes) {
            let often = by_column.iter().map(|d| self.trips[*d]).product::<u64>() >= REUSE;
            for r in rows.iter().filter(|r| often && r.plain(row).is_some() && r.shifted == 1) {
                let Some(input) =
                    r.input.filter(|n| f.inputs.iter().filter(|x| x.input == Some(*n)).count() == 1)
                else {
                    continue;
                };
                let large = r.footprint(&inside) > self.s.machine.l1_bytes / 2;
                if large && f.extents[row] > self.tile[row] && !copies.iter().any(|c| c.input == input) {
                    copies.push(Packing {
                        input,
                        from: rows_from,
                        layout: self.layout(r, &loops, Some(row)),
                    });
                }
            }
        }
        let registers = (free_lanes.is_some() && self.at.registers.is_some()).then_some(kept);
        Plan { loops, copies, registers, far: self.far() && outer_k.is_none() }
    }

    /// The sum in parts, one after the other taken by threads; few results, so that partial ones are cheap.
    fn share_sum(&self, k: &mut [(usize, u64)]) -> Option<Part> {
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
    fn layout(&self, r: &Reach, loops: &[Part], tile: Option<usize>) -> Vec<usize> {
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
