//! Sums of products of two arrays with any number of dimensions: contractions of tensors, convolutions, capsules, many
//! small products. The dimensions are rows (of the first array and the result), columns (of the second and the
//! result), those of the batch (of all three) and those that are summed. A block has a tile of some rows and columns, as
//! in a product of matrices; a thread has up to 4 × 4 results. What a step of the sum touches of each array goes through
//! shared memory, windows of convolutions included. Tiles divide their dimensions: others have the decisions of a model.

use super::parts::{self, Parted};
use super::shape::{Array, Shape, Steps};
use crate::lower::steps::{data, int, named, word};
use lathe_ir::names::{self, Role};
use lathe_strategy::Strategy;

/// Threads of a block at most, and along each side of a tile, which has more where the other one has fewer.
const THREADS: u64 = 256;
const SIDE: u64 = 16;
const LONGEST: u64 = 64;
const WARP: u64 = 32;
/// Blocks that are enough for all processors.
const BLOCKS: u64 = 128;
/// Blocks of which every processor has several: these blocks are small.
const MANY: u64 = 528;
/// Results that a thread has along a side.
const PIECE: u64 = 4;
/// Terms of a sum between two copies.
const DEPTH: u64 = 16;
/// The same where the innermost dimensions are short.
const MOST: u64 = 64;
/// Copies of a thread that are written out.
const UNROLLED: u64 = 16;

/// One side of a tile: the extents of the tile per dimension, and the dimension of which a thread has several.
struct Side {
    dims: Vec<(usize, u64)>,
    piece: (usize, u64),
}

impl Side {
    fn threads(&self) -> u64 {
        self.dims.iter().map(|d| d.1).product::<u64>() / self.piece.1
    }
}

pub fn forms(s: &Shape) -> Vec<Strategy> {
    contraction(s).into_iter().collect()
}

fn contraction(s: &Shape) -> Option<Strategy> {
    let [a, b] = &s.inputs[..] else { return None };
    let float = |x: &Array| x.bytes == 4;
    let fits = s.splits && s.products && a.name != b.name && float(a) && float(b) && float(&s.output);
    let spread = a.spread.iter().chain(&b.spread).any(|s| *s);
    if !fits || spread || !s.output.plain() {
        return None;
    }
    let of = |kind: fn(bool, bool) -> bool, reduced: bool| -> Vec<usize> {
        let here = |d: &usize| s.dims[*d].reduced == reduced && kind(a.uses(*d), b.uses(*d));
        (0..s.dims.len()).filter(here).collect()
    };
    let batch = of(|a, b| a && b, false);
    let rows = of(|a, b| a && !b, false);
    let columns = of(|a, b| !a && b, false);
    let summed = of(|a, b| a || b, true);
    let all = batch.len() + rows.len() + columns.len() + summed.len();
    if rows.is_empty() || columns.is_empty() || summed.is_empty() || all < s.dims.len() {
        return None;
    }
    let threads = |sides: &[Side; 2]| sides[0].threads() * sides[1].threads();
    let usual = [side(s, a, &rows, SIDE)?, side(s, b, &columns, SIDE)?];
    // Where one side has few threads, the other one may have more: as long as every processor has a block.
    let beside = |other: &Side| (THREADS / other.threads()).clamp(SIDE, LONGEST);
    let second = side(s, b, &columns, beside(&usual[0]))?;
    let large = [side(s, a, &rows, beside(&second))?, second];
    let sides = if threads(&usual) < WARP || blocks(s, &large) >= BLOCKS { large } else { usual };
    if !(WARP..=THREADS).contains(&threads(&sides)) {
        return None;
    }
    // Where processors would have nothing to do, blocks share the longest sum.
    let k = summed.iter().copied().max_by_key(|d| s.extent(*d))?;
    let tiles = blocks(s, &sides);
    let parts = if tiles < BLOCKS { parts::count(s, k, tiles, MANY, DEPTH) } else { 1 };
    if tiles * parts < 2 {
        return None;
    }
    Some(steps(s, &sides, &summed, (k, parts), threads(&sides)))
}

/// How many tiles there are.
fn blocks(s: &Shape, sides: &[Side; 2]) -> u64 {
    let results: u64 = s.output.over.iter().flatten().map(|d| s.extent(*d)).fold(1, u64::saturating_mul);
    results / sides.iter().flat_map(|side| &side.dims).map(|d| d.1).product::<u64>()
}

/// The tile along some dimensions, of at most so many threads: first along the one in which results or elements are contiguous.
fn side(s: &Shape, of: &Array, dims: &[usize], most: u64) -> Option<Side> {
    let contiguous = |x: &Array| x.along().filter(|d| dims.contains(d));
    let first = contiguous(&s.output).or_else(|| contiguous(of)).or(dims.last().copied())?;
    // Neighbours in memory belong to one tile: next comes the dimension along which copies are contiguous.
    let next = contiguous(of).filter(|d| *d != first);
    let others =
        next.into_iter().chain(dims.iter().rev().copied().filter(|d| *d != first && Some(*d) != next));
    let mut tile = Side { dims: Vec::new(), piece: (first, 1) };
    for d in std::iter::once(first).chain(others) {
        let n = s.extent(d);
        // What a thread has several of decides how many there may be.
        if d == first {
            let p = [PIECE, 2, 1].into_iter().find(|p| n.is_multiple_of(*p))?;
            tile.piece.1 = p;
            let t = (1..=most).rev().find(|t| n.is_multiple_of(t * p))?;
            tile.dims.push((d, t * p));
            continue;
        }
        let left = most / tile.threads().max(1);
        if let Some(t) = (2..=left).rev().find(|t| n.is_multiple_of(*t)) {
            tile.dims.push((d, t));
        }
    }
    // A dimension of one element is no side.
    (tile.threads() * tile.piece.1 >= 4).then_some(tile)
}

/// How many terms of each summed dimension lie between two copies, the innermost first.
fn depth(s: &Shape, summed: &[usize]) -> Vec<(usize, u64)> {
    let contiguous = |x: &Array| x.along().filter(|d| summed.contains(d));
    let first = s.inputs.iter().find_map(contiguous).or(summed.last().copied());
    let mut out: Vec<(usize, u64)> = Vec::new();
    let others = summed.iter().rev().copied().filter(|d| Some(*d) != first);
    for d in first.into_iter().chain(others) {
        let (n, had) = (s.extent(d), out.iter().map(|d| d.1).product::<u64>());
        if had == 1 {
            let whole = if n <= 2 * DEPTH {
                n
            } else {
                (1..=DEPTH).rev().find(|t| n.is_multiple_of(*t)).unwrap_or(1)
            };
            out.push((d, whole));
        } else if had < DEPTH / 2 && n * had <= MOST && out.iter().all(|d| d.1 == s.extent(d.0)) {
            out.push((d, n));
        }
    }
    out
}

/// `parted`: the sum that has parts, and how many.
fn steps(s: &Shape, sides: &[Side; 2], summed: &[usize], parted: (usize, u64), threads: u64) -> Strategy {
    let mut t = Steps::default();
    t.add("fma", &[&s.label], []);
    let parted = parts::divide(s, parted.0, parted.1, &mut t);
    let Parted { shape: s, first, out, before } = &parted;
    let (l, depth) = (&s.label, &depth(s, summed));
    // Names of the loops inside and outside of a tile.
    let tiles: Vec<(usize, u64)> = sides.iter().flat_map(|side| side.dims.iter().copied()).collect();
    let tile = |d: usize| tiles.iter().chain(depth).find(|t| t.0 == d).map_or(1, |t| t.1);
    // Loops of results with parts have names that are no names of dimensions: all that is in a tile is cut.
    let renamed = |d: usize| *before > 0 && !s.dims[d].reduced;
    let cut = |d: usize| tile(d) > 1 && (tile(d) < s.extent(d) || renamed(d));
    let inside = |d: usize| if cut(d) { format!("t{d}") } else { s.dims[d].name.clone() };
    let outside = |d: usize| if cut(d) { format!("b{d}") } else { s.dims[d].name.clone() };
    let free: Vec<usize> = s.output.over.iter().copied().flatten().collect();
    for d in free.iter().copied().filter(|d| cut(*d)) {
        t.split(&parted.dim(d), tile(d), &outside(d), &inside(d));
    }
    let has_outside = |d: &usize| cut(*d) || tile(*d) < s.extent(*d) || s.extent(*d) == 1;
    let has_inside = |d: &usize| tile(*d) > 1;
    let around_tiles = |d: &usize| if cut(*d) { s.path(&outside(*d)) } else { parted.dim(*d) };
    let grid: Vec<String> = free.iter().filter(|d| has_outside(d)).map(around_tiles).collect();
    let tiled: Vec<usize> = free.iter().copied().filter(has_inside).collect();
    let within: Vec<String> = tiled.iter().map(|d| s.path(&inside(*d))).collect();
    t.reorder(&grid.iter().chain(&within).cloned().collect::<Vec<_>>());
    if let Some(at) = within.first() {
        t.add("fission", &[at], [word("after", first)]);
    }
    parted.parts().iter().for_each(|p| t.bind(p, "grid"));
    grid.iter().for_each(|g| t.bind(g, "grid"));
    let block = grid.last().cloned().unwrap_or_default();
    t.stage(out, &block, "register");
    for d in summed.iter().copied().filter(|d| cut(*d)) {
        t.split(&parted.dim(d), tile(d), &outside(d), &inside(d));
    }
    let around: Vec<String> =
        summed.iter().filter(|d| tile(**d) < s.extent(**d)).map(|d| s.path(&outside(*d))).collect();
    let terms: Vec<String> =
        summed.iter().filter(|d| tile(**d) > 1 || s.extent(**d) == 1).map(|d| inside(*d)).collect();
    let terms_of: Vec<String> = terms.iter().map(|x| s.path(x)).collect();
    t.reorder(&around.iter().chain(&within).chain(&terms_of).cloned().collect::<Vec<_>>());
    let at = around.last().unwrap_or(&block);
    for (a, side) in s.inputs.iter().zip(sides) {
        let mut how = vec![word("at", at), word("space", "shared")];
        how.extend(layout(a, side, &tile));
        t.add("stage", &[&a.name], how);
    }
    // A thread has neighbours of two dimensions.
    let statements = [first.clone(), l.clone(), Role::Out.of(names::copy_of(out))];
    let position = |d: usize| before + free.iter().position(|f| *f == d).unwrap_or(0);
    for (n, at) in statements.iter().enumerate() {
        let name = |d: usize| if n == 2 { position(d).to_string() } else { inside(d) };
        let mut pieces = Vec::new();
        let mut own: Vec<String> = Vec::new();
        for d in &tiled {
            match sides.iter().find(|side| side.piece.0 == *d && side.piece.1 > 1) {
                Some(side) => {
                    t.split(&format!("{at}.{}", name(*d)), side.piece.1, &format!("w{d}"), &format!("e{d}"));
                    pieces.push(format!("e{d}"));
                    own.push(format!("w{d}"));
                }
                None => own.push(name(*d)),
            }
        }
        let summed: &[String] = if n == 1 { &terms } else { &[] };
        let order = own.iter().chain(summed).chain(&pieces).map(|x| format!("{at}.{x}"));
        t.reorder(&order.collect::<Vec<_>>());
        let unrolled = summed.iter().chain(&pieces);
        unrolled.for_each(|x| t.unroll(&format!("{at}.{x}")));
        own.iter().for_each(|x| t.bind(&format!("{at}.{x}"), "block"));
    }
    for a in &s.inputs {
        copy(s, a, &tile, threads, &mut t);
    }
    if let Some(k) = around.last() {
        t.add("pipeline", &[k], [named("stages", int(2))]);
    }
    t.strategy()
}

/// The dimension of an array in which a thread has neighbours comes last in shared memory.
fn layout(a: &Array, side: &Side, tile: &dyn Fn(usize) -> u64) -> Vec<lathe_strategy::Argument> {
    let rank = a.over.len();
    let Some(p) = a.over.iter().position(|o| *o == Some(side.piece.0)) else { return Vec::new() };
    if p + 1 == rank || side.piece.1 == 1 {
        return Vec::new();
    }
    let order: Vec<usize> = (0..rank).filter(|d| *d != p).chain([p]).collect();
    let padded = data("pad", [rank - 1, tile(side.piece.0) as usize + 4]);
    vec![named("layout", data("permute", order)), named("layout", padded)]
}

/// The threads copy what a step touches: neighbours by neighbours, as far as there are threads.
fn copy(s: &Shape, a: &Array, tile: &dyn Fn(usize) -> u64, threads: u64, t: &mut Steps) {
    let at = |x: &str| names::around(names::copy_of(&a.name), x);
    let extent = |p: usize| -> u64 {
        let reach = |d: usize| a.subscripts[p][d].unsigned_abs() * (tile(d) - 1);
        (0..s.dims.len()).map(reach).sum::<u64>() + 1
    };
    let (mut left, mut serial, mut own) = (threads, Vec::new(), Vec::new());
    for p in (0..a.over.len()).rev().filter(|p| extent(*p) > 1) {
        let n = extent(p);
        let mine = (1..=left.min(n)).rev().find(|t| n.is_multiple_of(*t)).unwrap_or(1);
        left /= mine;
        if mine == n {
            own.push(at(&p.to_string()));
        } else if mine == 1 {
            serial.push((at(&p.to_string()), n));
        } else {
            t.split(&at(&p.to_string()), mine, &format!("u{p}"), &format!("x{p}"));
            own.push(at(&format!("x{p}")));
            serial.push((at(&format!("u{p}")), n / mine));
        }
    }
    own.reverse();
    serial.reverse();
    t.reorder(&own.iter().cloned().chain(serial.iter().map(|s| s.0.clone())).collect::<Vec<_>>());
    if serial.iter().map(|s| s.1).product::<u64>() <= UNROLLED {
        serial.iter().for_each(|s| t.unroll(&s.0));
    }
    own.iter().for_each(|x| t.bind(x, "block"));
}
