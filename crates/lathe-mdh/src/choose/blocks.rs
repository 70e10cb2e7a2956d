//! Products of matrices that are small for many threads: both inputs are packed once, by
//! all threads; a grid of blocks of results is shared among these; a block goes through the sum in pieces of which the
//! first cache keeps the columns of one tile, and the second the rows of the block (K. Goto and R. van de Geijn, *Anatomy of
//! High-Performance Matrix Multiplication*, 2008, §4). So threads meet three times in a call, however large it is.

use super::Setting;
use super::facts::{Facts, Reach};
use super::nest::{Nest, Packing, Part, Plan};
use super::tile::Tile;

/// Free indices of each side below which blocks give nothing, and those of the sum.
const SIDE: u64 = 64;
/// Points from which on packing pays, and up to which meeting seldom gains more than packing what the second cache keeps.
const POINTS: [f64; 2] = [(1u64 << 20) as f64, (1u64 << 28) as f64];
/// From so many threads on, blocks are shared in two dimensions: each thread then reads a part of both inputs.
const MANY: u64 = 12;
/// Tiles of a block per dimension, at most.
const TILES: u64 = 64;
/// Bytes per cycle that a thread gets from the last cache where all ask for some, and from the second.
const SHARED: f64 = 8.0;
const OWN: f64 = 32.0;
/// How much of such transfers does not overlap with arithmetic.
const SERIAL: f64 = 0.5;

/// The dimensions of a product: of one input's rows, of the other's columns, and of the sum.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub sides: [usize; 2],
    pub sum: usize,
}

/// Whether this is a product of two matrices that is worth blocks on this machine.
pub(super) fn product(f: &Facts, s: &Setting) -> Option<Product> {
    let pays = s.threads >= MANY && (POINTS[0]..=POINTS[1]).contains(&f.points());
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
        let bytes = |d: usize| self.f.inputs.iter().find(|r| r.depends(d)).map_or(4, |r| r.bytes);
        let kept = self.tile[column] * bytes(column);
        let deepest = (m.l1_bytes * 2 / 3 / kept.max(1)).max(32);
        let passes = self.f.extents[p.sum].div_ceil(deepest);
        let depth = self.f.extents[p.sum].div_ceil(passes).next_multiple_of(8).min(self.f.extents[p.sum]);
        let passes = self.f.extents[p.sum].div_ceil(depth);
        let vectors = self.tile.iter().product::<u64>() as f64 / width as f64 / m.vector_units.max(1) as f64;
        let result = self.f.outputs.first().map_or(4, |r| r.bytes);
        let cost = |rows: u64, columns: u64| {
            let of_rows = rows * self.tile[row] * depth * bytes(row);
            let of_columns = columns * self.tile[column] * depth * bytes(column);
            let results = rows * self.tile[row] * columns * self.tile[column] * result;
            if rows > 1 && of_rows > m.l2_bytes / 2 {
                return f64::INFINITY;
            }
            let arithmetic = (rows * columns * depth) as f64 * vectors;
            let again = if results > m.l2_bytes / 3 { SHARED } else { OWN };
            let moved = (of_rows + of_columns) as f64 / SHARED + 2.0 * results as f64 / again;
            let blocks = self.trips[row].div_ceil(rows) * self.trips[column].div_ceil(columns);
            blocks.div_ceil(self.s.threads.max(1)) as f64 * (arithmetic + SERIAL * moved)
        };
        let sides = |d: usize| 1..=self.trips[d].min(TILES);
        let all = sides(row).flat_map(|r| sides(column).map(move |c| (cost(r, c), r, c)));
        let (_, rows, columns) = all.min_by(|a, b| a.0.total_cmp(&b.0))?;

        let grid = self.at.threads.filter(|_| self.s.threads > 1).unwrap_or(self.at.block);
        let part = |layer, dim, parts| Part { layer, dim, parts };
        let mut loops = vec![
            part(grid, row, self.trips[row].div_ceil(rows)),
            part(grid, column, self.trips[column].div_ceil(columns)),
            part(self.at.outer, p.sum, passes),
            part(self.at.inner, column, columns),
            part(self.at.inner, row, rows),
        ];
        loops.retain(|l| l.parts > 1);
        let registers = Some(loops.len());
        loops.push(part(self.at.inner, p.sum, depth));
        loops.extend(self.tile_loops());
        loops.retain(|l| l.parts > 1);
        let packing = |r: &Reach| {
            let along = if r.depends(column) { column } else { row };
            let input = r.input?;
            Some(Packing { input, from: 0, layout: self.layout(r, &loops, Some(along)) })
        };
        let copies = self.f.inputs.iter().filter_map(packing).collect();
        Some(Plan { copies, registers, far: passes == 1 && self.far(), loops })
    }
}

/// The tile of a product whose inputs are packed.
pub(super) fn tile(f: &Facts, s: &Setting, p: Product) -> Option<Tile> {
    let t = super::tile::packed(f, s.machine, s.exact);
    t.lanes.filter(|l| p.sides.contains(&l.0)).is_some().then_some(t)
}
