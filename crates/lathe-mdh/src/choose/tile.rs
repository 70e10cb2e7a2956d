//! The register tile: the dimension of the lanes, and the size in each
//! dimension. All candidates are compared by an estimate of cycles: arithmetic, loads, and the latency of chains.

use super::facts::{Facts, Reach};
use super::lines;
use lathe_target::{Machine, Masks};
use std::collections::HashSet;

/// Copies that are used fewer times cost more than they give.
pub(super) const REUSE: u64 = 6;
/// Bytes between neighbours of a sum above which they are rows of their own for the processor that reads ahead.
pub(super) const APART: u64 = 1024;
/// Cycles of arithmetic with an element from which on a copy in the order of the lanes pays.
const WORTH: u64 = 8;

/// A register tile.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    /// The dimension of the lanes, and how many there are.
    pub lanes: Option<(usize, u64)>,
    /// Per dimension, vectors for that of the lanes.
    pub side: Vec<u64>,
    /// Inputs that must be copied so that lanes read neighbours.
    pub packed: Vec<usize>,
    pub cycles: f64,
}

impl Tile {
    /// Indices per dimension.
    pub fn indices(&self, dim: usize) -> u64 {
        match self.lanes {
            Some((d, w)) if d == dim => self.side[dim] * w,
            _ => self.side[dim],
        }
    }

    pub fn all(&self) -> Vec<u64> {
        (0..self.side.len()).map(|d| self.indices(d)).collect()
    }
}

/// Cycles per element of a transposing copy.
pub(super) const TURN: f64 = 2.0;
/// Cycles that a line from beyond the first cache takes where the next ones are known.
const LINE_CYCLES: f64 = 4.0;
/// The part of the second cache's rate that loops reach beside arithmetic. (Products of 1152² matrices with tiles of 6 × 64 take 0.94 of
/// the time of 4 × 96.)
const SUSTAINED: f64 = 0.6;
/// Rows in memory that a processor reads ahead of and gathers writes for at a time.
const STREAMS: u64 = 12;
/// Cycles per line that arithmetic waits for in the long run where a sum streams more than the first cache keeps.
const STREAM_CYCLES: f64 = 2.0;
/// Multiply-adds that a tile with all of a few terms writes out: of the first layers of VGG, ResNet and MobileNet, with three channels,
/// 48 take 0.90 to 0.95 of the time of a loop over these, 84 take 1.3.
const WRITTEN_OUT: u64 = 48;
/// Long rows of a sum that are read side by side.
const AT_ONCE: u64 = 4;
/// Sides that are tried.
const SIDES: [u64; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16];

/// The best tile; `exact`: extents are constants of the code; one loop over tiles is shared by so many threads.
pub fn best(f: &Facts, m: &Machine, exact: bool, threads: u64) -> Tile {
    let dims = f.extents.len();
    let none = Tile { lanes: None, side: vec![1; dims], packed: Vec::new(), cycles: f.points() * f.work };
    let width = m.lanes(f.widest);
    if f.scanned.contains(&true) || width < 2 {
        return none;
    }
    let mut best: Option<Tile> = None;
    for v in 0..dims {
        let n = f.extents[v];
        if n < 2 || (f.reduced[v] && !f.splits) {
            continue;
        }
        // Lanes of results are stored together, or the copy out of the registers takes them apart.
        let apart = stored_apart(f, v);
        if apart && !(exact && taken_apart(f, v, width)) {
            continue;
        }
        let width = width.min(n.next_power_of_two());
        let rows: Vec<usize> = (0..dims).filter(|d| *d != v && !f.reduced[*d] && f.extents[*d] > 1).collect();
        let vectors: &[u64] = if f.reduces { &[1, 2, 3, 4, 6, 8] } else { &[1, 2, 4] };
        // A tile may be as wide as all columns, though the last vector is partial: rows are read once then. Many vectors
        // would leave registers for too few rows.
        let whole = exact && f.reduces && !f.reduced[v] && m.masks != Masks::None;
        let fits = |s: u64| match apart {
            true => n.is_multiple_of(width * s),
            false => s == 1 || width * s <= n || whole && s <= 3 && s == n.div_ceil(width),
        };
        for side_v in vectors.iter().filter(|s| fits(**s)) {
            let mut side = whole_windows(f, v, exact);
            side[v] = *side_v;
            let try_one = |side: &[u64], best: &mut Option<Tile>| {
                let estimate = estimate(f, m, (v, width), side, exact);
                let even = estimate.map(|t| Tile { cycles: t.cycles * uneven(f, &t, threads), ..t });
                if let Some(t) = even
                    && best.as_ref().is_none_or(|b| t.cycles < b.cycles * 0.999)
                {
                    *best = Some(t);
                }
            };
            try_one(&side, &mut best);
            // Results that are written once gain from rows only what these share: lines, or most of their windows.
            if !f.reduces {
                let dense = |d: usize| {
                    let wide: Vec<u64> = (0..dims).map(|x| if x == d { 4 } else { 1 }).collect();
                    f.inputs.iter().any(|r| overlap(r, v, &wide))
                };
                let shares = |a: usize| comes_again(f, a, m) && again_matters(f, a, m);
                for a in rows.iter().copied().filter(|a| shares(*a) || dense(*a)) {
                    for sa in [2, 4].into_iter().filter(|s| *s <= f.extents[a]) {
                        side[a] = sa;
                        try_one(&side, &mut best);
                    }
                    side[a] = 1;
                }
                continue;
            }
            // Rows of sums gain where they share what they read, or while a chain of additions goes on.
            let ends =
                (0..dims).all(|d| !f.reduced[d] || side[d] * if d == v { width } else { 1 } >= f.extents[d]);
            let shares = |d: usize| {
                let wide: Vec<u64> = (0..dims).map(|x| if x == d { 4 } else { side[x] }).collect();
                f.inputs.iter().any(|r| loads(r, v, &wide) < 4.0 * loads(r, v, &side))
            };
            let mut rows: Vec<usize> = rows.iter().copied().filter(|d| !ends || shares(*d)).collect();
            // Of equal tiles the first one is taken: rows that share what they read, and are written side by side.
            let apart = |d: usize| f.outputs.first().map_or(0, |o| o.stride[d].unsigned_abs());
            if !f.reduced[v] {
                rows.sort_by_key(|d| (!shares(*d), apart(*d)));
            }
            // A window of results is whole, or not in registers: its elements share lines of what lanes sum up. So is what the sum
            // runs through last, where these are few: a loop over them would begin again and again.
            let window: Vec<usize> = windows(f, v);
            let few = if exact { few_terms(f, v, &side) } else { None };
            let plain = side.clone();
            let forms = [(false, false), (true, false), (false, true)];
            for (whole, terms) in forms.into_iter().filter(|x| !x.0 || !window.is_empty()) {
                side.clone_from(&plain);
                match few.filter(|_| terms) {
                    Some(d) => side[d] = f.extents[d],
                    None if terms => continue,
                    None => {}
                }
                window.iter().filter(|_| whole).for_each(|d| side[*d] = f.extents[*d]);
                let rows: Vec<usize> =
                    rows.iter().copied().filter(|d| !whole || !window.contains(d)).collect();
                let fits = |side: &[u64]| !terms || side.iter().product::<u64>() <= WRITTEN_OUT;
                for (n, a) in rows.iter().enumerate() {
                    for sa in SIDES.iter().filter(|s| **s > 1 && **s <= f.extents[*a]) {
                        side[*a] = *sa;
                        if !fits(&side) {
                            break;
                        }
                        try_one(&side, &mut best);
                        for b in rows.iter().skip(n + 1) {
                            for sb in [2, 3, 4].iter().filter(|s| **s <= f.extents[*b]) {
                                side[*b] = *sb;
                                if fits(&side) {
                                    try_one(&side, &mut best);
                                }
                            }
                            side[*b] = 1;
                        }
                    }
                    side[*a] = 1;
                }
            }
        }
    }
    best.unwrap_or(none)
}

/// Whether the results of neighbouring lanes would lie apart in memory, though those of another dimension are neighbours.
pub(super) fn stored_apart(f: &Facts, v: usize) -> bool {
    !f.reduced[v]
        && f.outputs.iter().any(|o| o.stride[v].abs() > 1)
        && f.outputs.iter().any(|o| o.stride.contains(&1))
}

/// Whether lanes whose results lie apart are worth it: of results in memory too few are neighbours to fill a vector, as in small
/// matrices of a field of matrices (windows share what they read by lanes of the sum), and sums stay in registers long enough.
fn taken_apart(f: &Facts, v: usize, width: u64) -> bool {
    let summed = |c: &Vec<i64>| (0..c.len()).any(|d| f.reduced[d] && c[d] != 0);
    let window = |d: usize| f.inputs.iter().any(|r| r.subscripts.iter().any(|c| c[d] != 0 && summed(c)));
    let short = |d: usize| f.outputs.iter().all(|o| o.stride[d] != 1) || (f.extents[d] < width && !window(d));
    let sum: u64 = (0..f.extents.len()).filter(|d| f.reduced[*d]).map(|d| f.extents[d]).product();
    f.reduces
        && f.extents[v].is_multiple_of(width)
        && sum >= width
        && (0..f.extents.len()).all(short)
        && f.outputs.iter().all(|o| o.bytes <= 8 && o.plain(v).is_some())
}

/// Small windows (filters) whose neighbours share what they read are fully unrolled.
fn whole_windows(f: &Facts, v: usize, exact: bool) -> Vec<u64> {
    let mut side = vec![1; f.extents.len()];
    let window = |d: usize| {
        f.reduced[d]
            && d != v
            && f.inputs
                .iter()
                .any(|r| r.subscripts.iter().any(|c| c[d] != 0 && c.iter().filter(|x| **x != 0).count() > 1))
    };
    let size: u64 = (0..side.len()).filter(|d| f.reduced[*d]).map(|d| f.extents[d]).product();
    if exact && !f.reduced[v] && size <= 32 && (0..side.len()).all(|d| !f.reduced[d] || window(d)) {
        (0..side.len()).filter(|d| f.reduced[*d]).for_each(|d| side[d] = f.extents[d]);
    }
    side
}

/// The dimension of a sum that it runs through last, if that has so few indices that a tile holds all of them, and there are others
/// around it, as of the channels of an image.
fn few_terms(f: &Facts, v: usize, side: &[u64]) -> Option<usize> {
    let long = |d: &usize| f.reduced[*d] && f.extents[*d] > 1;
    let step = |d: &usize| f.inputs.iter().map(|r| r.stride[*d].unsigned_abs()).max();
    let last = (0..side.len()).filter(long).min_by_key(step)?;
    let whole = (2..=4).contains(&f.extents[last]) && side[last] == 1;
    (!f.reduced[v] && whole && (0..side.len()).filter(long).count() > 1).then_some(last)
}

/// Short dimensions of the results along which an input is shifted that lanes sum up, as for the gradient of a filter.
fn windows(f: &Facts, v: usize) -> Vec<usize> {
    let shifts = |d: usize| {
        let shifted = |c: &Vec<i64>| c[d] != 0 && c[v] != 0;
        d != v
            && !f.reduced[d]
            && (2..=4).contains(&f.extents[d])
            && f.inputs.iter().any(|r| r.subscripts.iter().any(shifted))
    };
    (0..f.extents.len()).filter(|d| f.reduced[v] && shifts(*d)).collect()
}

/// Cycles for the lines that a tile of sums along its lanes streams from beyond the first cache, where a window of results
/// may share them.
fn streamed(f: &Facts, m: &Machine, (v, width): (usize, u64), side: &[u64]) -> f64 {
    let all: Vec<u64> = (0..side.len()).map(|d| if f.reduced[d] { f.extents[d] } else { side[d] }).collect();
    let bytes: u64 = f.inputs.iter().map(|r| r.footprint(&all)).sum();
    if bytes <= m.l1_bytes || windows(f, v).is_empty() {
        return 0.0;
    }
    let lines = |r: &Reach| {
        let rows = r.subscripts.iter().filter(|c| c[v] == 0);
        let span =
            |c: &Vec<i64>| (0..side.len()).map(|d| c[d].unsigned_abs() * (side[d] - 1)).sum::<u64>() + 1;
        rows.map(span).product::<u64>() as f64 * (side[v] * width * r.bytes) as f64 / m.line_bytes as f64
    };
    f.inputs.iter().filter(|r| r.depends(v)).map(lines).sum::<f64>() * STREAM_CYCLES
}

/// Cycles that a tile of sums along its lanes waits for what is read once, from beyond the second cache: as many for each row, so that
/// no more rows are taken than hide the latency of additions, where the first cache keeps what all rows share. (8192 sums of as many
/// products take 0.80 of the time with 2 rows at a time instead of 16, which begin at the same place of a page; 8000 take 0.78, 1400
/// 0.98; 40 sums of 100000 would take 1.43 times as long.) Rows that are prefetched on their way, not one tile of them after the other,
/// are best read four at a time, also where a small part of the second cache keeps what they share: 8192 sums of as many take 0.93 of
/// the time, 4096 of 16384 products 0.5 to 0.7, 256 of 32768 0.95; 64 sums of 262144 would take 1.1 times as long.
fn read_once(f: &Facts, m: &Machine, (v, width): (usize, u64), side: &[u64]) -> f64 {
    let once = |r: &&Reach| {
        let again = |d: usize| !f.reduced[d] && !r.depends(d) && f.extents[d] > 1;
        r.depends(v) && r.footprint(&f.extents) > m.l2_bytes && !(0..side.len()).any(again)
    };
    let cycles = |r: &Reach| {
        let memory = m.core_bytes_per_cycle.max(1) as f64;
        let rate = if from_memory(f, r, m) { memory } else { m.costs.l3_bytes_per_cycle };
        loads(r, v, side) * (width * r.bytes) as f64 / rate
    };
    let row: Vec<u64> = (0..side.len()).map(|d| if f.reduced[d] { f.extents[d] } else { 1 }).collect();
    let shared: u64 = f.inputs.iter().filter(|r| !once(r)).map(|r| r.footprint(&f.extents)).sum();
    let long = f.inputs.iter().filter(once).any(|r| 2 * r.footprint(&row) > m.l1_bytes);
    // One sum has no rows.
    if f.reduces
        && f.reduced[v]
        && f.results() > 1
        && shared <= if long { m.l2_bytes / 8 } else { m.l1_bytes }
    {
        let of_rows = |d: &usize| !f.reduced[*d] && f.inputs.iter().filter(once).any(|r| r.depends(*d));
        let rows: u64 = (0..side.len()).filter(of_rows).map(|d| side[d]).product();
        let others = if long { rows.abs_diff(AT_ONCE) as f64 / 32.0 } else { 0.0 };
        f.inputs.iter().filter(once).map(cycles).sum::<f64>() * (1.0 + others)
    } else {
        0.0
    }
}

/// How much longer the busiest thread takes than the average, where threads share the loop over tiles that suits them best.
fn uneven(f: &Facts, t: &Tile, threads: u64) -> f64 {
    let free = || (0..f.extents.len()).filter(|d| !f.reduced[*d]);
    if threads < 2 || !f.reduces || free().all(|d| f.extents[d] < threads) {
        return 1.0;
    }
    let each = |d: usize| {
        let trips = f.extents[d].div_ceil(t.indices(d));
        (trips.div_ceil(threads) * threads) as f64 / trips as f64
    };
    free().map(each).fold(4.0, f64::min)
}

fn estimate(f: &Facts, m: &Machine, lanes: (usize, u64), side: &[u64], exact: bool) -> Option<Tile> {
    let (v, width) = lanes;
    let registers = m.vector_registers as f64;
    let dims = side.len();
    let product = |keep: &dyn Fn(usize) -> bool| {
        (0..dims).filter(|d| keep(*d)).map(|d| side[d] as f64).product::<f64>()
    };
    let sums = if f.reduces { product(&|d| !f.reduced[d] || d == v) } else { 0.0 };
    let (mut vectors, mut scalars, mut gathered, mut held) = (0.0, 0.0, 0.0, 0.0f64);
    let mut packed = Vec::new();
    let mut extra = 0.0;
    let (mut afar, mut smallest) = (1.0, 8.0f64);
    // Bytes that each term takes from the second cache.
    let mut second = 0.0;
    let panel: Vec<u64> = (0..dims)
        .map(|d| if f.reduced[d] { f.extents[d] } else { side[d] * if d == v { width } else { 1 } })
        .collect();
    let beyond = f.inputs.iter().any(|r| stays(f, r, m) && rows_from_beyond(r, v, f, m));
    for r in &f.inputs {
        let count = loads(r, v, side);
        // What the sum does not run through is loaded once.
        if f.reduces && !(0..dims).any(|d| f.reduced[d] && r.depends(d)) {
            held += if r.depends(v) { count * r.leaves as f64 } else { 0.0 };
            continue;
        }
        if !r.depends(v) {
            scalars += count * r.leaves as f64 * if crowded(r, side, m) { 4.0 } else { 1.0 };
            continue;
        }
        let mut cost = 1.0;
        if r.stride[v].abs() != 1 || r.bytes > 8 {
            // Copied first, if the lanes' index is a dimension of its own and the copy is used often enough; else
            // lanes are gathered.
            let uses: f64 = (0..dims).filter(|d| !r.depends(*d)).map(|d| f.extents[d] as f64).product();
            let uses = uses * f.blocks(r) as f64;
            let (Some(n), Some(_)) = (r.input, r.plain(v).filter(|_| f.reduces && r.bytes <= 8)) else {
                // Lanes that collect structs do nothing else meanwhile.
                let to = if r.bytes > 8 { &mut gathered } else { &mut vectors };
                *to += count * r.leaves as f64 * width as f64 * 1.5;
                continue;
            };
            if f.reduced[v] || uses < 4.0 {
                vectors += count * r.leaves as f64 * width as f64 * 1.5;
                continue;
            }
            extra += r.elements(&f.extents) as f64 * TURN / f.blocks(r) as f64;
            packed.push(n);
        } else if r.shifted > 1
            || r.subscripts.iter().any(|c| c[v] != 0 && c.iter().filter(|x| **x != 0).count() > 1)
        {
            // Vectors that cross lines are two loads.
            cost = 1.0 + (width as f64 - 1.0) * r.bytes as f64 / m.line_bytes as f64;
        } else if f.reduces && !f.reduced[v] {
            if !beyond && stays(f, r, m) {
                cost = 1.0 + lines::crossing(r, lanes, &f.extents, m);
            }
            if side[v] > 1 && from_afar(r, v, side, f, m) {
                afar = 1.3;
            }
        }
        vectors += count * cost;
        if r.footprint(&panel) > m.l1_bytes / 2 {
            second += count * (width * r.bytes) as f64;
        }
        smallest = smallest.min(count);
        let shared = (0..dims).any(|d| side[d] > 1 && !r.depends(d));
        held += if shared { count.min(product(&|d| !f.reduced[d])) } else { 1.0 };
    }
    // Where lanes run along a sum, both sides are vectors: registers hold the smaller one, and the others pass by.
    let held = if f.reduces && f.reduced[v] { held.min(smallest + 1.0) } else { held.min(8.0) };
    // Masks that are vectors take a register, too.
    let mask = side[v] * width > f.extents[v] && m.masks == Masks::Dear && side[v] > 1;
    if f.reduces && sums + held + 1.0 + f64::from(u8::from(mask)) > registers {
        return None;
    }
    let all = product(&|_| true);
    let chain = if f.reduces { product(&|d| f.reduced[d] && d != v) * m.fma_latency as f64 } else { 0.0 };
    // Of vectors as many are loaded per cycle as are added, of scalars two.
    let units = m.vector_units.max(1) as f64;
    let (arithmetic, loads) = (all * f.work / units, vectors / units + scalars * 0.5);
    // In a loop over a sum arithmetic waits at times for loads, though there is time for all of them; not where some of its terms are
    // written out, whose loads may come long before, nor where rows come from beyond the second cache, which fewer vectors of more rows
    // read better (32 x 1000 x 2048 on eight threads takes 1.6 times as long with 4 x 64 instead of 8 x 32).
    let mut terms = (0..dims).filter(|d| f.reduced[*d] && *d != v && f.extents[*d] > 1).peekable();
    let goes_on = terms.peek().is_some() && terms.all(|d| side[d] == 1);
    let second = second / (SUSTAINED * m.costs.l2_bytes_per_cycle);
    let both = match goes_on && !beyond && !f.reduced[v] {
        // Both wait for the second cache, too, but only where it can hardly keep up.
        true => ((arithmetic.powi(4) + loads.powi(4)).powi(2) + second.powi(8)).sqrt().sqrt().sqrt(),
        false => arithmetic.max(loads),
    };
    let cycles = both.max(chain) * afar + gathered;
    let cycles = cycles.max(streamed(f, m, lanes, side));
    let cycles = cycles + if f.reduces { 0.0 } else { neighbours(f, m, (v, width), side)? };
    // Overheads of loops, once per tile.
    let cycles = cycles + 1.0 + if f.reduces { 0.0 } else { 1.0 };
    let cycles = cycles.max(read_once(f, m, lanes, side));
    let mut times = 1.0;
    for d in 0..dims {
        let t = side[d] * if d == v { width } else { 1 };
        let (n, rest) = (f.extents[d] / t, f.extents[d] % t);
        // Lanes are masked; of other partial tiles each index is done alone, slowly, unless copies make room.
        let partial = match rest {
            0 => 0.0,
            _ if d == v && n == 0 => 1.0 + 0.2 / side[d] as f64,
            _ if d == v => 1.2,
            // Copies make room for a full one.
            _ if f.reduces && !f.reduced[v] && columns(f, d, side, lanes) => 1.0,
            // Of results, they are written out as full ones are.
            _ if f.reduces && !f.reduced[d] && !f.reduced[v] => 1.3,
            _ if f.reduces && !exact => 1.5,
            r => (r as f64 * 1.5).min(4.0),
        };
        times *= n as f64 + partial;
    }
    let mut total = cycles * times + extra;
    if f.reduced[v] {
        // Partial results of lanes are added at the end, one by one.
        total += f.results() as f64 * (width as f64 * side[v] as f64) * 0.7;
    } else if f.reduces {
        // Rows of a tile that are pages apart are written slowly.
        let far = |d: usize| d != v && f.outputs.iter().any(|o| o.stride[d].unsigned_abs() * o.bytes >= 4096);
        let bytes: u64 = f.outputs.iter().map(|o| o.footprint(&f.extents)).sum();
        let each = if bytes > m.l2_bytes { 1.5 * product(&far) } else { 2.0 };
        total += f.results() as f64 / width as f64 * each;
        let t = Tile { lanes: Some(lanes), side: side.to_vec(), packed: Vec::new(), cycles: 0.0 };
        // So are short pieces of rows that no near cache holds: each begins with a line that comes alone.
        if bytes > m.l2_bytes {
            let near = lines::soon(f, m, &t.all(), v);
            let pieces = |o: &Reach| o.footprint(&f.extents) as f64 / lines::together(f, o, &near) as f64;
            total += f.outputs.iter().map(pieces).sum::<f64>() * m.costs.alone;
        }
        // A line that would bypass the caches is read before, where it leaves the registers in parts.
        if lines::far(f, m) && !lines::lines_of_tile(f, m, &t.all()) {
            total += (bytes / m.core_bytes_per_cycle.max(1)) as f64;
        }
        if stored_apart(f, v) {
            total += f.results() as f64 * TURN;
        }
    }
    Some(Tile { lanes: Some(lanes), side: side.to_vec(), packed, cycles: total })
}

/// Whether neighbours along a dimension are read again after more than the first cache keeps.
fn comes_again(f: &Facts, d: usize, m: &Machine) -> bool {
    f.inputs.iter().any(|r| r.neighbours(d)) && bytes(f, &between(f, d)) > m.l1_bytes
}

/// Whether it matters that they come from the second cache: not where the rows in between are there, all else comes from beyond,
/// and a core waits longer for that than for arithmetic; more rows at a time are then no more than further places for the processor
/// to read ahead of. (With two planes of 58 x 108 x 138 side by side a step takes 1.05 of the time with 16 lanes, 1.09 with 8; of
/// 20 x 60 x 140, which the second cache keeps, 0.87.)
fn again_matters(f: &Facts, d: usize, m: &Machine) -> bool {
    let moved = |r: &Reach| r.bytes * if r.input.is_some() { 1 } else { 2 };
    let far = f.inputs.iter().chain(&f.outputs).map(moved).sum::<u64>() as f64 / m.costs.l3_bytes_per_cycle;
    let arithmetic = f.work / m.vector_units.max(1) as f64 / m.lanes(f.widest).max(1) as f64;
    bytes(f, &f.extents) <= m.l2_bytes || bytes(f, &between(f, d)) > m.l2_bytes / 2 || arithmetic >= far
}

/// The box that is run through from one index of a dimension to the next.
pub(super) fn between(f: &Facts, d: usize) -> Vec<u64> {
    let step = |x: usize| f.outputs.first().map_or(0, |o| o.stride[x].abs());
    (0..f.extents.len()).map(|x| if step(x) < step(d) { f.extents[x] } else { 1 }).collect()
}

/// Bytes that a box touches.
pub(super) fn bytes(f: &Facts, box_of: &[u64]) -> u64 {
    f.inputs.iter().chain(&f.outputs).map(|r| r.footprint(box_of)).fold(0, u64::saturating_add)
}

/// Cycles for the lines that a tile of a stencil takes from beyond the first cache. Rows side by side share those of
/// their neighbours, as long as registers hold what they compute, and the hardware prefetcher tracks all of them.
fn neighbours(f: &Facts, m: &Machine, (v, width): (usize, u64), side: &[u64]) -> Option<f64> {
    let again: Vec<bool> = (0..side.len()).map(|d| d != v && comes_again(f, d, m)).collect();
    let rows: u64 = (0..side.len()).filter(|d| *d != v).map(|d| side[d]).product();
    let (mut lines, mut streams) = (0.0, rows * f.outputs.len() as u64);
    for r in f.inputs.iter().filter(|r| r.shifted > 1) {
        let mut apart = 1;
        for (c, spread) in r.subscripts.iter().zip(&r.spread) {
            let with = |d: &usize| *d != v && c[*d] != 0;
            let span: u64 = (0..side.len()).filter(with).map(|d| c[d].unsigned_abs() * (side[d] - 1)).sum();
            apart *= span + 1 + if (0..side.len()).any(|d| with(&d) && again[d]) { *spread } else { 0 };
        }
        lines += apart as f64 * side[v] as f64 * ((width * r.bytes) as f64 / m.line_bytes as f64);
        streams += apart;
    }
    // What is loaded once passes by; what is computed side by side, and some of what it shares, is held.
    let held = 2 * rows * side[v] <= m.vector_registers && streams <= STREAMS;
    (rows == 1 || held).then_some(lines * LINE_CYCLES)
}

/// Whether the inputs that rows of a tile read are used for many columns, so that they are copied.
fn columns(f: &Facts, d: usize, side: &[u64], (v, width): (usize, u64)) -> bool {
    let mut with = f.inputs.iter().filter(|r| r.depends(d));
    let others = |r: &Reach| {
        (0..side.len())
            .filter(|x| !f.reduced[*x] && !r.depends(*x))
            .map(|x| f.extents[x] / side[x] / if x == v { width } else { 1 })
            .product::<u64>()
    };
    with.all(|r| r.plain(d).is_some() && !r.depends(v) && others(r) >= 24)
}

/// Whether the rows of a tile lie so that they share few sets of the first cache, and are more than a set holds. Of windows, rows
/// that several have in common count once.
pub(super) fn crowded(r: &Reach, side: &[u64], m: &Machine) -> bool {
    let way = m.l1_bytes / m.l1_ways.max(1);
    let same = |d: usize| (r.stride[d].unsigned_abs() * r.bytes).is_multiple_of(way);
    let rows = |c: &Vec<i64>| {
        let of = (0..side.len()).filter(|d| c[*d] != 0 && same(*d));
        of.map(|d| c[d].unsigned_abs() * (side[d] - 1)).sum::<u64>() + 1
    };
    r.subscripts.iter().map(rows).product::<u64>() > m.l1_ways
}

/// Whether an input comes from memory at each call: no cache keeps it.
pub(super) fn from_memory(f: &Facts, r: &Reach, m: &Machine) -> bool {
    r.footprint(&f.extents) > m.l3_bytes.max(m.l2_bytes)
}

/// Whether an element is used so seldom that it is not worth a copy in the order of the lanes.
pub(super) fn stays(f: &Facts, r: &Reach, m: &Machine) -> bool {
    let other = |d: &usize| !f.reduced[*d] && !r.depends(*d);
    let uses = (0..f.extents.len()).filter(other).map(|d| f.extents[d]).product::<u64>() * f.blocks(r);
    uses / (m.lanes(f.widest) * m.vector_units).max(1) < WORTH
}

/// Whether rows that lie far apart are read where they are, from memory, by too few rows of results for a copy to pay: the
/// hardware prefetcher works best if each of them is one line at a time.
fn from_afar(r: &Reach, v: usize, side: &[u64], f: &Facts, m: &Machine) -> bool {
    let uses =
        (0..side.len()).filter(|d| !f.reduced[*d] && !r.depends(*d)).map(|d| f.extents[d]).product::<u64>();
    uses < 8 * REUSE && rows_from_beyond(r, v, f, m) && from_memory(f, r, m)
}

/// Whether rows along the sum lie far apart, and are more than the second cache holds.
fn rows_from_beyond(r: &Reach, v: usize, f: &Facts, m: &Machine) -> bool {
    // Of what a batch has many of, one at a time.
    let alone = |d: usize| if f.reduced[d] || d == v { f.extents[d] } else { 1 };
    let box_of_one: Vec<u64> = (0..f.extents.len()).map(alone).collect();
    let apart = (0..f.extents.len()).any(|d| f.reduced[d] && r.stride[d].unsigned_abs() * r.bytes >= APART);
    apart && r.footprint(&box_of_one) > m.l2_bytes
}

/// Distinct elements (vectors along the lanes) that a tile reads.
fn loads(r: &Reach, v: usize, side: &[u64]) -> f64 {
    let vectors = r.subscripts.iter().filter(|c| c[v] != 0).map(|_| side[v] as f64).product::<f64>();
    let tile: u64 = (0..side.len()).filter(|d| *d != v).map(|d| side[d]).product();
    if r.shifted > 1 && tile > 1 && r.shifted * tile <= WINDOWS {
        return distinct(r, v, side) as f64 * vectors;
    }
    let span = |c: &Vec<i64>| {
        let others = c.iter().zip(side).enumerate().filter(|x| x.0 != v);
        others.map(|(_, (c, s))| c.unsigned_abs() * (s - 1)).sum::<u64>() + 1
    };
    r.subscripts.iter().map(|c| span(c) as f64).product::<f64>() * r.shifted as f64 * vectors
}

/// Of windows that cover so much in all, what they share is counted.
const WINDOWS: u64 = 512;

/// Whether the windows of a tile have most of what they read in common with others.
fn overlap(r: &Reach, v: usize, side: &[u64]) -> bool {
    let tile: u64 = (0..side.len()).filter(|d| *d != v).map(|d| side[d]).product();
    r.shifted > 1 && 2.0 * loads(r, v, side) < (r.shifted * tile * side[v]) as f64
}

/// Elements that the windows of a tile cover together, along all dimensions but that of the lanes.
fn distinct(r: &Reach, v: usize, side: &[u64]) -> usize {
    let mut all: HashSet<Vec<i64>> = r.offsets.iter().cloned().collect();
    for d in (0..side.len()).filter(|d| *d != v && r.depends(*d)) {
        let moved = |x: &Vec<i64>, t: u64| {
            let step = |(x, c): (&i64, &Vec<i64>)| x + c[d] * t as i64;
            x.iter().zip(&r.subscripts).map(step).collect::<Vec<i64>>()
        };
        all = all.iter().flat_map(|x| (0..side[d]).map(move |t| moved(x, t))).collect();
    }
    all.len()
}
