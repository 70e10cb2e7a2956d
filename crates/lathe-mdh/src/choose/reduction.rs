//! The loops of a sum: a tile of results in registers, rows times columns of it, and what is copied on the way.

use super::facts::Reach;
use super::lines::{held, lines_of_tile};
use super::nest::{Nest, Packing, Part, Plan, SMALL};
use super::tile::{APART, REUSE, TURN, from_memory, stays};

/// Rows of an input that is read once are read side by side, as many as the processor fetches ahead: from memory where little
/// arithmetic hides what it waits for, where few results read them, and else. Results are loaded and stored once for all of them.
/// Intel's second cache follows 32 pages (*Intel 64 and IA-32 Architectures Optimization Reference Manual*, data prefetching):
/// 16 x 4096 x 25088 takes 32 ms there with 16 or 32 rows, 48 with 64, 145 with 128; a Zen 4 is as fast with any number. With 32
/// instead of 16, 32 x 1000 x 2048 takes 0.92 to 0.95 of its time, 4 x 2048 x 2048 1.02 and 8 x 4096 x 8192 1.06 to 1.2.
const STREAMS: [u64; 3] = [8, 16, 32];
/// Results per element from which on they are more.
const MANY: u64 = 16;
/// Packing a row costs less than one part in so many of the arithmetic that reads it, or it is read where it lies.
const SMALL_PART: f64 = 24.0;
/// Results per vector below which memory decides, not arithmetic.
const FEW: u64 = 4;
/// Lines of different rows that are on their way at once.
const AHEAD: u64 = 4;
/// Bytes after which places of the first cache come again, on most CPUs; and of a page.
const PAGE: u64 = 4096;
/// Pages of packed columns that every tile of rows runs through, at most: most processors know the places of 64 at once. Where there
/// are more, a block of the sum has so many that as many are left to rows, results, and what comes next: products of 2048² and 4096²
/// matrices take 0.95 of the time with 512 terms in a block instead of 352 and 384.
const PAGES: u64 = 64;
const BLOCK: u64 = 32;

/// The inputs by what they give the tile of results: its rows, or its columns, which lanes take.
struct Sides<'a> {
    /// The dimension with the rows of the tile.
    row: Option<usize>,
    lanes: Option<usize>,
    rows: Vec<&'a Reach>,
    columns: Vec<&'a Reach>,
    /// Free dimensions that both sides depend on, or none.
    batch: Vec<usize>,
    /// Free dimensions of one side, the tile's last.
    by_row: Vec<usize>,
    by_column: Vec<usize>,
}

impl Sides<'_> {
    /// Lanes over results, not over the sum.
    fn free_lanes(&self, reduced: &[bool]) -> Option<usize> {
        self.lanes.filter(|v| !reduced[*v])
    }
}

/// The rows inside of the columns, and what is left of them outside: dimensions with their trips.
struct Rows {
    inner: Vec<(usize, u64)>,
    outer: Vec<(usize, u64)>,
    /// The box that the inner ones run through.
    inside: Vec<u64>,
}

/// The divisor of a number that is nearest to another one, and not far from it; else that one.
fn divisor_near(n: u64, to: u64) -> u64 {
    let near = (to - to / 4..=to + to / 2).filter(|d| n.is_multiple_of(*d));
    near.min_by_key(|d| d.abs_diff(to)).unwrap_or(to)
}

fn footprint(all: &[&Reach], tile: &[u64]) -> u64 {
    all.iter().map(|r| r.footprint(tile)).sum()
}

impl Nest<'_> {
    pub(super) fn reduction(&self) -> Plan {
        let f = self.f;
        let sides = self.sides();
        let free_lanes = sides.free_lanes(&f.reduced);
        let mut k: Vec<(usize, u64)> = self.by_input().into_iter().map(|d| (d, self.trips[d])).collect();
        let mut panel = self.tile.clone();
        self.dims().filter(|d| f.reduced[*d]).for_each(|d| panel[d] = f.extents[d]);
        let packed = self.packed(&sides, k.last().map(|x| x.0));
        let outer_k = self.sum_blocks(&sides, &packed, &mut k, &mut panel);
        // Blocks of the sum leave room to columns and results, which come again with each.
        let part = if outer_k.is_some() && !packed.is_empty() { 4 } else { 2 };
        let rows = self.row_blocks(&sides, &panel, self.s.machine.l2_bytes / part);
        let strips = outer_k.filter(|_| packed.is_empty()).and_then(|_| self.strips(&sides));

        let inner = |d: usize, parts: u64| Part { layer: self.at.inner, dim: d, parts };
        let mut loops: Vec<Part> = sides.batch.iter().map(|d| inner(*d, self.trips[*d])).collect();
        let copies_from = loops.iter().filter(|l| l.parts > 1).count() + usize::from(outer_k.is_some());
        loops.extend(strips);
        loops.extend(outer_k);
        loops.extend(rows.outer.iter().map(|(d, n)| Part { layer: self.at.block, dim: *d, parts: *n }));
        let rows_from = loops.len();
        let in_strip = |d: usize| strips.filter(|s| s.dim == d).map_or(1, |s| s.parts);
        loops.extend(sides.by_column.iter().map(|d| inner(*d, self.trips[*d].div_ceil(in_strip(*d)))));
        loops.extend(rows.inner.iter().map(|(d, n)| inner(*d, *n)));
        let candidates = loops.len();
        let before = loops.clone();
        if strips.is_none_or(|s| Some(s.layer) != self.at.threads) {
            self.share(&mut loops, candidates);
        }
        // What threads could not take of the results, they take of the sum.
        let mut by_sum = None;
        if loops == before && f.splits && outer_k.is_none() {
            by_sum = self.share_sum(&mut k);
        }
        let outside = usize::from(by_sum.is_some());
        let moved = |at: usize| {
            // One loop more, if the threads' loop got blocks; one more outside of all, if they share the sum.
            let n = before[..at].iter().zip(&loops).take_while(|(a, b)| a == b).count();
            let blocks = usize::from(n < at && loops.len() > before.len());
            loops[..at + blocks].iter().filter(|l| l.parts > 1).count() + outside
        };
        let (rows_from, kept) = (moved(rows_from), moved(candidates));
        let mut loops: Vec<Part> = by_sum.into_iter().chain(loops.iter().copied()).collect();
        loops.extend(k.iter().map(|(d, n)| inner(*d, *n)));
        loops.extend(self.tile_loops());
        loops.retain(|l| l.parts > 1);

        let copies = self.copies(&sides, packed, &rows.inside, &loops, (copies_from + outside, rows_from));
        let registers = (free_lanes.is_some() && self.at.registers.is_some()).then_some(kept);
        Plan {
            loops,
            copies,
            registers,
            far: self.far() && lines_of_tile(f, self.s.machine, &self.tile) && outer_k.is_none(),
        }
    }

    fn sides(&self) -> Sides<'_> {
        let lanes = self.t.lanes.map(|l| l.0);
        let free = self.by_output();
        let row = free
            .iter()
            .copied()
            .filter(|d| Some(*d) != lanes && self.t.side[*d] > 1)
            // Rather of an input that the lanes do not run through, so that the others give the columns.
            .max_by_key(|d| {
                let with_lanes = |r: &Reach| r.depends(*d) && lanes.is_some_and(|v| r.depends(v));
                (self.t.side[*d], !self.f.inputs.iter().any(with_lanes))
            });
        let of_row = |r: &&Reach| match row {
            Some(d) => r.depends(d),
            None => !lanes.is_some_and(|v| r.depends(v)),
        };
        let (rows, columns): (Vec<&Reach>, Vec<&Reach>) = self.f.inputs.iter().partition(of_row);
        let uses = |all: &[&Reach], d: usize| all.iter().any(|r| r.depends(d));
        let (mut batch, mut by_row, mut by_column) = (Vec::new(), Vec::new(), Vec::new());
        for d in free {
            match (uses(&rows, d), uses(&columns, d)) {
                (true, false) => by_row.push(d),
                (false, true) => by_column.push(d),
                _ => batch.push(d),
            }
        }
        let last = |all: &mut Vec<usize>, d: Option<usize>| {
            if let Some(d) = d.filter(|d| all.contains(d)) {
                all.retain(|x| *x != d);
                all.push(d);
            }
        };
        last(&mut by_row, row);
        // Rows and lanes of one input, as in a stencil: along the lanes it is read on.
        last(&mut by_row, lanes);
        last(&mut by_column, lanes);
        Sides { row, lanes, rows, columns, batch, by_row, by_column }
    }

    /// Whether neighbours along the innermost index of the sum lie far apart, for a tile that is part of a dimension.
    fn far_apart(&self, r: &Reach, innermost: Option<usize>, d: Option<usize>) -> bool {
        let extents = &self.f.extents;
        innermost.zip(d).is_some_and(|(k, d)| {
            extents[d] > self.tile[d] && r.stride[k].unsigned_abs() * r.bytes >= 256 && extents[k] >= 64
        })
    }

    /// Inputs that are copied for the lanes: where neighbours are not neighbours in memory, or rows are far apart and
    /// used often.
    fn packed(&self, sides: &Sides, innermost: Option<usize>) -> Vec<usize> {
        let times = |r: &Reach| {
            let other = |d: &usize| !self.f.reduced[*d] && !r.depends(*d);
            self.dims().filter(other).map(|d| self.trips[d]).product::<u64>() * self.f.blocks(r)
        };
        let m = self.s.machine;
        let mut packed = self.t.packed.clone();
        if let Some(v) = sides.free_lanes(&self.f.reduced) {
            let crowded = |r: &Reach| {
                innermost.is_some_and(|k| (r.stride[k].unsigned_abs() * r.bytes).is_multiple_of(PAGE))
            };
            // Vectors that cross lines seldom, or never, are read from the second cache as fast in any order, unless rows lie so
            // that they take a part of the first one only.
            let steps = |r: &Reach| innermost.map_or(0, |k| r.stride[k].unsigned_abs() * r.bytes);
            let places = |r: &Reach| PAGE >> steps(r).trailing_zeros().min(PAGE.trailing_zeros());
            let lines = |r: &Reach| self.tile[v] * r.bytes / m.line_bytes;
            let even = |r: &Reach| {
                steps(r).is_multiple_of(m.line_bytes) && 2 * places(r) * lines(r) * m.line_bytes >= PAGE
            };
            let short = |r: &Reach| 2 * m.vector_bytes <= m.line_bytes || even(r);
            let pays = |r: &&&Reach| {
                r.plain(v).is_some()
                    && self.far_apart(r, innermost, Some(v))
                    && times(r) >= REUSE
                    && (!stays(self.f, r, m) || crowded(r))
                    && !(short(r) && r.footprint(&self.f.extents) <= m.l2_bytes / 2 && !crowded(r))
            };
            packed.extend(sides.columns.iter().filter(pays).filter_map(|r| r.input));
        }
        packed.sort_unstable();
        packed.dedup();
        packed
    }

    /// Blocks of the sum: what a tile needs of it fits the second cache; rows that are not copied are read some at a
    /// time. The loops `k` and the panel shrink to a block.
    fn sum_blocks(
        &self,
        sides: &Sides,
        packed: &[usize],
        k: &mut [(usize, u64)],
        panel: &mut [u64],
    ) -> Option<Part> {
        let extents = &self.f.extents;
        let free_lanes = sides.free_lanes(&self.f.reduced);
        free_lanes?;
        let &(d, n) = k.iter().max_by_key(|x| extents[x.0])?;
        let l2 = self.s.machine.l2_bytes;
        let need = footprint(&sides.rows, panel) + footprint(&sides.columns, panel);
        let fits = (need > l2 * 3 / 4).then(|| (extents[d] * (l2 / 2) / need).max(32) / 16 * 16);
        let panels: Vec<&Reach> =
            sides.columns.iter().copied().filter(|r| r.input.is_some_and(|n| packed.contains(&n))).collect();
        let pages = footprint(&panels, panel).div_ceil(PAGE);
        // A block more is a meeting more of all threads.
        let known = if self.s.threads == 1 { PAGES } else { 2 * PAGES };
        let short = (pages > known).then(|| extents[d].div_ceil(pages.div_ceil(BLOCK)).next_multiple_of(16));
        let kc = if self.loose(sides, packed, d) {
            let waits = self.columns_from_memory(sides) && self.rows(sides) < FEW;
            let rows: u64 = sides.by_row.iter().map(|d| extents[*d]).product();
            divisor_near(extents[d], STREAMS[if waits { 0 } else { 1 + usize::from(rows >= MANY) }])
        } else if let Some(kc) = fits.into_iter().chain(short).min() {
            kc
        } else {
            extents[d].div_ceil(self.sum_passes(sides, panel)?).next_multiple_of(16)
        };
        let each = kc.div_ceil(self.tile[d]);
        if each >= n {
            return None;
        }
        k.iter_mut().filter(|x| x.0 == d).for_each(|x| x.1 = each);
        panel[d] = each * self.tile[d];
        Some(Part { layer: self.at.outer, dim: d, parts: n.div_ceil(each) })
    }

    /// In how many blocks of the sum the least is moved: columns that no cache keeps come again for each block of rows, of
    /// which the second cache holds more if the sum is shorter; results come again for each block of the sum. None unless
    /// that saves half.
    fn sum_passes(&self, sides: &Sides, panel: &[u64]) -> Option<u64> {
        let (extents, l2) = (&self.f.extents, self.s.machine.l2_bytes);
        let columns = footprint(&sides.columns, extents);
        let rows = footprint(&sides.rows, extents);
        let results: u64 = self.f.outputs.iter().map(|r| r.footprint(extents)).sum();
        if self.s.threads > 1 || columns < 8 * l2 || footprint(&sides.rows, panel) > l2 / 4 {
            return None;
        }
        let moved = |passes: u64| {
            let again = if passes > 1 { 2 * passes } else { 1 };
            (rows / passes).div_ceil(l2 / 2) * columns + again * results
        };
        let best = (1..=16).min_by_key(|p| moved(*p))?;
        (2 * moved(best) < moved(1)).then_some(best)
    }

    /// Whether columns are read where they are, each index of the sum in a row of memory of its own.
    fn loose(&self, sides: &Sides, packed: &[usize], d: usize) -> bool {
        let free_lanes = sides.free_lanes(&self.f.reduced);
        let innermost = self.by_input().last().copied();
        // Of what all threads read, each has its part in its second cache.
        let whole = footprint(&sides.columns, &self.f.extents);
        self.f.extents[d] > 192
            && whole / self.s.threads.max(1) > self.s.machine.l2_bytes
            && sides.columns.iter().any(|r| {
                r.input.is_none_or(|n| !packed.contains(&n))
                    && self.far_apart(r, innermost, free_lanes)
                    && r.stride[d].unsigned_abs() * r.bytes >= APART
            })
    }

    fn columns_from_memory(&self, sides: &Sides) -> bool {
        sides.columns.iter().any(|r| from_memory(self.f, r, self.s.machine))
    }

    /// Results per vector that a tile reads of the columns.
    fn rows(&self, sides: &Sides) -> u64 {
        let free = self.dims().filter(|d| Some(*d) != sides.lanes && !self.f.reduced[*d]);
        free.map(|d| self.t.side[d]).product()
    }

    /// Some indices of the sum at once, where each is a line of a row of its own in memory: they are on their way
    /// together, while arithmetic goes on.
    pub(super) fn reads_ahead(&self) -> Option<(usize, u64)> {
        let sides = self.sides();
        self.at.registers.and(sides.free_lanes(&self.f.reduced))?;
        let k = self.by_input();
        let d = *k.iter().max_by_key(|d| self.f.extents[**d])?;
        let packed = self.packed(&sides, k.last().copied());
        let fits = self.tile[d] == 1
            && self.loose(&sides, &packed, d)
            && self.rows(&sides) >= FEW
            && self.columns_from_memory(&sides);
        fits.then_some((d, AHEAD))
    }

    /// Columns outside of the blocks of the sum, where nothing is copied for all of them: as many as threads, which
    /// then meet once only, and so few in each that a cache keeps the results from one block to the next. Where sizes are examples,
    /// twice as many: other sizes have parts for all threads, too.
    fn strips(&self, sides: &Sides) -> Option<Part> {
        let d = *sides.by_column.iter().max_by_key(|d| self.trips[**d])?;
        let wanted = self.s.threads > 1 && self.t.cycles > SMALL && self.trips[d] >= self.s.threads;
        let elsewhere = sides.batch.iter().any(|b| self.trips[*b] >= 2 * self.s.threads);
        let threads = self.at.threads.filter(|_| wanted && !elsewhere);
        let results: u64 = self.f.outputs.iter().map(|r| r.footprint(&self.f.extents)).sum();
        let held = results.div_ceil(self.s.machine.l2_bytes / 2);
        let each = self.s.threads * if self.s.exact { 1 } else { 2 };
        let parts = threads.map_or(held, |_| held.next_multiple_of(each)).min(self.trips[d]);
        let each = self.trips[d].div_ceil(parts.max(1));
        let parts = self.trips[d].div_ceil(each);
        (parts > 1).then_some(Part { layer: threads.unwrap_or(self.at.outer), dim: d, parts })
    }

    /// Rows whose inputs fit a part of the second cache together are inside of the columns.
    fn row_blocks(&self, sides: &Sides, panel: &[u64], room: u64) -> Rows {
        let extents = &self.f.extents;
        // Columns that a cache holds all of need no rows inside of them: results are then written in their order.
        let mut all_columns = panel.to_vec();
        sides.by_column.iter().for_each(|d| all_columns[*d] = extents[*d]);
        let columns = footprint(&sides.columns, &all_columns);
        let held = columns <= room;
        // Of few columns not even a tile's rows are inside: lines of results are then written as neighbours.
        let few = self.s.exact && columns <= self.s.machine.l1_bytes / 2;
        let by_column = sides.by_column.iter().any(|d| self.trips[*d] > 1);
        let mut out = Rows { inner: Vec::new(), outer: Vec::new(), inside: panel.to_vec() };
        let mut full = false;
        for d in sides.by_row.iter().rev().copied() {
            let mut with = out.inside.clone();
            with[d] = extents[d];
            let need = footprint(&sides.rows, &with);
            let alone = need > room && sides.by_column.iter().all(|c| self.trips[*c] < 2);
            let of_tile = Some(d) == sides.row || Some(d) == sides.lanes;
            if full || held && !of_tile || few && by_column || alone {
                out.outer.insert(0, (d, self.trips[d]));
            } else if need <= room {
                out.inside = with;
                out.inner.insert(0, (d, self.trips[d]));
            } else {
                full = true;
                let block = (self.trips[d] * room / need.max(1)).max(1);
                // Enough blocks for all threads.
                let block = block.min(self.trips[d].div_ceil(2 * self.s.threads)).max(1);
                out.inside[d] = block * self.tile[d];
                out.inner.insert(0, (d, block));
                out.outer.insert(0, (d, self.trips[d].div_ceil(block)));
            }
        }
        out
    }

    /// Whether the rows of a box are copied that are read so many times: what lies apart is read as fast where it is, as long as
    /// a cache keeps it, unless rows begin at the same place of a page, and so take the same few lines of the first cache.
    pub(super) fn rows_pay(&self, r: &Reach, row: usize, inside: &[u64], times: u64) -> bool {
        let m = self.s.machine;
        let once = |n: usize| self.f.inputs.iter().filter(|x| x.input == Some(n)).count() == 1;
        let vectors = self.t.lanes.map_or(1, |l| self.t.side[l.0]) as f64 / m.vector_units.max(1) as f64;
        let apart = r.stride[row].unsigned_abs() * r.bytes;
        let crowded =
            inside[row] >= m.l1_ways && self.tile[row] + 2 > m.l1_ways && apart.is_multiple_of(PAGE);
        let bytes = held(self.f, r, inside, m);
        let pays = times as f64 * vectors >= SMALL_PART * TURN;
        r.plain(row).is_some()
            && r.shifted == 1
            && r.input.is_some_and(once)
            && times >= REUSE
            && (crowded || self.scattered(r, |d| inside[d]) || (pays && bytes > m.l1_bytes / 2))
    }

    /// Whether rows are read along an index of the sum of so many steps that jump over whole pages: each of them is a line of its
    /// own, and all of these share so few sets of the second cache that they are gone before the next tile of rows, which
    /// lies in the same lines.
    pub(super) fn scattered(&self, r: &Reach, depth: impl Fn(usize) -> u64) -> bool {
        let m = self.s.machine;
        let step = |d: usize| r.stride[d].unsigned_abs() * r.bytes;
        let lost = |d: usize| depth(d) > m.l2_bytes >> step(d).trailing_zeros();
        self.dims().any(|d| self.f.reduced[d] && step(d) > 0 && step(d).is_multiple_of(PAGE) && lost(d))
    }

    /// Copies for the lanes, and of rows that are used often and do not fit the first cache; each from its loop on.
    fn copies(
        &self,
        sides: &Sides,
        packed: Vec<usize>,
        inside: &[u64],
        loops: &[Part],
        (lanes_from, rows_from): (usize, usize),
    ) -> Vec<Packing> {
        let f = self.f;
        let mut copies = Vec::new();
        for input in packed {
            let Some(r) = sides.columns.iter().chain(&sides.rows).find(|r| r.input == Some(input)) else {
                continue;
            };
            let layout = self.layout(r, &loops[lanes_from.min(loops.len())..], sides.lanes);
            copies.push(Packing { input, from: lanes_from, layout });
        }
        let (Some(row), Some(_)) = (sides.row, sides.free_lanes(&f.reduced)) else { return copies };
        let times = sides.by_column.iter().map(|d| self.trips[*d]).product::<u64>();
        for r in sides.rows.iter().filter(|r| self.rows_pay(r, row, inside, times)) {
            let Some(input) = r.input.filter(|_| f.extents[row] > self.tile[row]) else { continue };
            if !copies.iter().any(|c| c.input == input) {
                let layout = self.layout(r, &loops[rows_from.min(loops.len())..], Some(row));
                copies.push(Packing { input, from: rows_from, layout });
            }
        }
        copies
    }
}
