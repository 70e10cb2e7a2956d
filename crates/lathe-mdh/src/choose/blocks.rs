//! Products of matrices that are small for the threads that share them: a grid of blocks of results, in which each thread
//! packs the columns of its own block, and reads its rows where they lie. So threads meet once in a call. Rows that lie across
//! pages are packed first, as a rule by all threads together. A block goes through the sum in pieces of which the second
//! cache keeps the columns of one tile (K. Goto and R. van de Geijn, *Anatomy of High-Performance Matrix Multiplication*,
//! 2008, §4).

use super::Setting;
use super::facts::{Facts, Reach};
use super::nest::{Nest, Packing, Part, Plan};
use super::tile::TURN;

/// Free indices of each side below which blocks give nothing, and those of the sum.
const SIDE: u64 = 64;
/// Points from which on threads pay, and up to which meeting gains more than packing once for all.
const POINTS: [f64; 2] = [(1u64 << 20) as f64, (1u64 << 30) as f64];
/// Tiles of a block per dimension, at most.
const TILES: u64 = 512;
/// Cycles per element of a copy in its order.
const COPY: f64 = 1.3;
/// Bytes per cycle that a thread gets from the last cache where all ask for some, and from the second.
const SHARED: f64 = 8.0;
const OWN: f64 = 32.0;
/// How much of such transfers does not overlap with arithmetic.
const SERIAL: f64 = 0.5;
/// Cycles per line of the last cache where none is known before it is read; some are on their way together.
const UNKNOWN: f64 = 24.0;
/// Cycles in which all threads meet.
const MEET: f64 = 16_000.0;

/// Who packs the rows of a product.
#[derive(Clone, Copy, PartialEq)]
enum Rows {
    /// They are read where they lie.
    Lie,
    /// Each thread those of its block.
    Own,
    /// All threads together, before any of them begins with a block.
    Together,
}

/// The dimensions of a product: of one input's rows, of the other's columns, and of the sum.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub sides: [usize; 2],
    pub sum: usize,
}

/// Whether this is a product of two matrices that is worth blocks on this machine.
pub(super) fn product(f: &Facts, s: &Setting) -> Option<Product> {
    let pays = s.threads > 1 && (POINTS[0]..=POINTS[1]).contains(&f.points());
    let long: Vec<usize> = (0..f.extents.len()).filter(|d| f.extents[*d] > 1).collect();
    let (sums, free): (Vec<usize>, Vec<usize>) = long.iter().partition(|d| f.reduced[**d]);
    let (&[sum], &[a, b], [x, y], [out]) = (&*sums, &*free, &*f.inputs, &*f.outputs) else { return None };
    let only = |r: &Reach, with: [usize; 2]| {
        long.iter().all(|d| r.depends(*d) == with.contains(d)) && with.iter().all(|d| r.plain(*d).is_some())
    };
    let packs = |r: &Reach| r.shifted == 1 && r.leaves == 1 && r.bytes <= 8;
    let apart = only(x, [a, sum]) && only(y, [b, sum]) || only(x, [b, sum]) && only(y, [a, sum]);
    let large = long.iter().all(|d| f.extents[*d] >= SIDE);
    let fits = pays && large && apart && only(out, [a, b]) && f.splits && f.block_of.is_none();
    (fits && x.input != y.input && packs(x) && packs(y)).then_some(Product { sides: [a, b], sum })
}

impl Nest<'_> {
    /// None where no tile has its lanes along a side of the product.
    pub(super) fn blocks(&self, p: Product) -> Option<Plan> {
        let (column, width) = self.t.lanes?;
        let row = *p.sides.iter().find(|d| **d != column)?;
        if !p.sides.contains(&column) || self.tile[p.sum] != 1 {
            return None;
        }
        self.at.registers?;
        let m = self.s.machine;
        let input = |d: usize| self.f.inputs.iter().find(|r| r.depends(d));
        let (rows_of, columns_of) = (input(row)?, input(column)?);
        let kept = self.tile[column] * columns_of.bytes;
        let deepest = (m.l2_bytes / 4 / kept.max(1)).max(32);
        let passes = self.f.extents[p.sum].div_ceil(deepest);
        let depth = self.f.extents[p.sum].div_ceil(passes).next_multiple_of(8).min(self.f.extents[p.sum]);
        let passes = self.f.extents[p.sum].div_ceil(depth);
        let vectors = self.tile.iter().product::<u64>() as f64 / width as f64 / m.vector_units.max(1) as f64;
        let result = self.f.outputs.first().map_or(4, |r| r.bytes);
        let threads = self.s.threads.max(1);
        let scattered = self.scattered(rows_of, |_| depth);
        let ways = |rows: u64, columns: u64| {
            let mut inside = vec![1; self.tile.len()];
            (inside[row], inside[p.sum]) = (rows * self.tile[row], depth);
            match self.rows_pay(rows_of, row, &inside, columns) {
                _ if scattered => [Rows::Lie, Rows::Own, Rows::Together].as_slice(),
                true => &[Rows::Own],
                false => &[Rows::Lie],
            }
        };
        let cost = |rows: u64, columns: u64, way: Rows| {
            let (of_rows, of_columns) = (rows * self.tile[row] * depth, columns * self.tile[column] * depth);
            let results = rows * self.tile[row] * columns * self.tile[column] * result;
            // An index of the sum waits for a line of its own.
            let waits = if scattered && way == Rows::Lie { UNKNOWN } else { 0.0 };
            let arithmetic = (rows * columns * (depth + 1)) as f64 * vectors.max(waits);
            let turned = if way == Rows::Own { TURN * of_rows as f64 } else { 0.0 };
            let again = if results > m.l2_bytes / 3 { SHARED } else { OWN };
            // Rows that the second cache does not keep come again for each tile of columns.
            let times = if of_rows * rows_of.bytes > m.l2_bytes { columns } else { 1 };
            let read = times * of_rows * rows_of.bytes + of_columns * columns_of.bytes;
            let moved = read as f64 / SHARED + 2.0 * results as f64 / again;
            let blocks = self.trips[row].div_ceil(rows) * self.trips[column].div_ceil(columns);
            let one = arithmetic + COPY * of_columns as f64 + turned + SERIAL * moved;
            let all = rows_of.elements(&self.f.extents).div_ceil(threads * passes) as f64;
            let before = if way == Rows::Together { TURN * all + MEET } else { 0.0 };
            before + blocks.div_ceil(threads) as f64 * one
        };
        // Parts of each dimension, as even as tiles allow.
        let sides = |d: usize| {
            let mut all: Vec<u64> =
                (1..=self.trips[d].min(TILES)).map(|n| self.trips[d].div_ceil(n)).collect();
            all.dedup();
            all
        };
        let columns = sides(column);
        let all = sides(row).into_iter().flat_map(|r| columns.iter().map(move |c| (r, *c)));
        let all = all.flat_map(|(r, c)| ways(r, c).iter().map(move |way| (r, c, *way)));
        let all = all.map(|(r, c, way)| (cost(r, c, way), r, c, way));
        let (_, rows, columns, way) = all.min_by(|a, b| a.0.total_cmp(&b.0))?;

        let grid = self.at.threads.filter(|_| self.s.threads > 1).unwrap_or(self.at.block);
        let part = |layer, dim, parts| Part { layer, dim, parts };
        let mut loops = vec![
            part(grid, row, self.trips[row].div_ceil(rows)),
            part(grid, column, self.trips[column].div_ceil(columns)),
            part(self.at.outer, p.sum, passes),
        ];
        loops.retain(|l| l.parts > 1);
        let from = loops.len();
        loops.extend([part(self.at.inner, column, columns), part(self.at.inner, row, rows)]);
        loops.retain(|l| l.parts > 1);
        let registers = Some(loops.len());
        loops.push(part(self.at.inner, p.sum, depth));
        loops.extend(self.tile_loops());
        loops.retain(|l| l.parts > 1);
        let packing = |r: &Reach| {
            let of_rows = r.depends(row);
            let input = r.input.filter(|_| !of_rows || way != Rows::Lie)?;
            let from = if of_rows && way == Rows::Together { 0 } else { from };
            let layout = self.layout(r, &loops[from..], Some(if of_rows { row } else { column }));
            Some(Packing { input, from, layout })
        };
        let copies = self.f.inputs.iter().filter_map(packing).collect();
        Some(Plan { copies, registers, far: passes == 1 && self.far(), loops })
    }
}
