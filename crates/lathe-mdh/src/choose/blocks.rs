//! Products of matrices on threads: a grid of blocks of results, in which rows are read where they lie. Each thread packs the
//! columns of its own block, so that threads meet once in a call, and a block goes through the sum in pieces of which the second
//! cache keeps the columns of one tile (K. Goto and R. van de Geijn, *Anatomy of High-Performance Matrix Multiplication*, 2008,
//! §4), of large products the whole sum at once. Where so many threads share the columns that packing them again and again takes
//! longer than it takes to get what other threads have packed, all of them pack all columns first. There are several blocks for each
//! thread: those that run faster take more of them. Rows that lie across pages are packed first, as a rule by all threads together.

use super::Setting;
use super::facts::{Facts, Reach};
use super::nest::{Nest, Packing, Part, Plan};
use super::tile::TURN;

/// Free indices of each side below which blocks give nothing, and those of the sum.
const SIDE: u64 = 64;
/// Points from which on threads pay, and up to which each may pack its own columns in pieces of the sum.
const POINTS: [f64; 2] = [(1u64 << 20) as f64, (1u64 << 30) as f64];
/// So many threads pack columns together.
const MANY: u64 = 4;
/// How much of a block all others wait for the slowest thread, however many blocks each has, for each doubling of the threads:
/// measured, with 2 to 4 blocks for each of 2 to 16 threads of a server.
const UNEVEN: f64 = 0.13;
/// Tiles of a block per dimension, at most.
const TILES: u64 = 512;
/// Cycles per byte of a copy in its order.
const COPY: f64 = 0.125;
/// Bytes per cycle that a thread gets from the last cache where all ask for some, from its second one, and of what other threads
/// have just written. (With 2 instead of 8, and a copy at 0.5 instead of 1.3 cycles for four bytes, the form is taken that is the
/// fastest of 10 for products of 512² and 1024² matrices on 4, 8 and 16 threads of a server: 0.85 to 0.94 of the time.)
const SHARED: f64 = 8.0;
const OWN: f64 = 32.0;
const OTHERS: f64 = 2.0;
/// Tiles of columns that stay in the second cache beside a block's rows.
const BESIDE: u64 = 4;
/// How much of such transfers does not overlap with arithmetic.
const SERIAL: f64 = 0.25;
/// Cycles per line of the last cache where none is known before it is read; some are on their way together.
const UNKNOWN: f64 = 24.0;

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

/// How the columns are packed, and how the sum is cut.
#[derive(Clone, Copy)]
struct Columns {
    /// By all threads before, instead of by each thread for its block.
    together: bool,
    depth: u64,
    passes: u64,
}

/// The dimensions of a product: of one input's rows, of the other's columns, and of the sum.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub sides: [usize; 2],
    pub sum: usize,
}

/// Whether this is a product of two matrices that is worth blocks on this machine.
pub(super) fn product(f: &Facts, s: &Setting) -> Option<Product> {
    let pays = s.threads > 1 && f.points() >= POINTS[0];
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
    /// None where no tile has its lanes along a side of the product, or few threads would cut large sums: those are blocks of other
    /// loops.
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
        let whole = self.f.extents[p.sum];
        let deepest = (m.l2_bytes / 4 / kept.max(1)).max(32);
        let depth = whole.div_ceil(whole.div_ceil(deepest)).next_multiple_of(8).min(whole);
        let own = Columns { together: false, depth, passes: whole.div_ceil(depth) };
        let at_once =
            (kept * whole <= m.l2_bytes / 2).then_some(Columns { together: false, depth: whole, passes: 1 });
        let many = self.s.threads >= MANY;
        let own = match self.f.points() <= POINTS[1] {
            true => Some(own),
            false => at_once,
        };
        let together = at_once.filter(|_| many).map(|c| Columns { together: true, ..c });
        let vectors = self.tile.iter().product::<u64>() as f64 / width as f64 / m.vector_units.max(1) as f64;
        let result = self.f.outputs.first().map_or(4, |r| r.bytes);
        let threads = self.s.threads.max(1);
        let uneven = UNEVEN * (threads as f64).log2();
        let meet = m.costs.wake + m.costs.wake_each * threads as f64;
        let scattered = |depth: u64| self.scattered(rows_of, |_| depth);
        let ways = |rows: u64, columns: u64, how: Columns| {
            let mut inside = vec![1; self.tile.len()];
            (inside[row], inside[p.sum]) = (rows * self.tile[row], how.depth);
            match self.rows_pay(rows_of, row, &inside, columns) {
                _ if scattered(how.depth) => [Rows::Lie, Rows::Own, Rows::Together].as_slice(),
                true => &[Rows::Own],
                false => &[Rows::Lie],
            }
        };
        let cost = |rows: u64, columns: u64, how: Columns, way: Rows| {
            let of_rows = rows * self.tile[row] * how.depth;
            let of_columns = columns * self.tile[column] * how.depth;
            let results = rows * self.tile[row] * columns * self.tile[column] * result;
            // An index of the sum waits for a line of its own.
            let waits = if way == Rows::Lie && scattered(how.depth) { UNKNOWN } else { 0.0 };
            let arithmetic = (rows * columns * (how.depth + 1)) as f64 * vectors.max(waits);
            let turned = if way == Rows::Own { TURN * of_rows as f64 } else { 0.0 };
            let bytes_of_rows = of_rows * rows_of.bytes;
            let bytes_of_columns = of_columns * columns_of.bytes;
            let packed = if how.together { 0.0 } else { COPY * bytes_of_columns as f64 };
            let again = if results > m.l2_bytes / 3 { SHARED } else { OWN };
            // Rows that the second cache does not keep beside the columns of some tiles come again for each tile of columns.
            let kept_beside = bytes_of_rows + BESIDE * kept * how.depth <= m.l2_bytes;
            let times = if kept_beside { 1 } else { columns };
            let from = if how.together { OTHERS } else { SHARED };
            // More columns than it keeps leave it when they are packed, and come back.
            let leave = if how.together || bytes_of_columns <= m.l2_bytes / 2 { 1 } else { 3 };
            let read = (times * bytes_of_rows) as f64 / SHARED + (leave * bytes_of_columns) as f64 / from;
            let moved = read + 2.0 * results as f64 / again;
            let one = (arithmetic + packed + turned + SERIAL * moved) * how.passes as f64;
            // What all threads do before they begin with blocks.
            let all = |each: f64, n: u64| meet + each * n as f64 / threads as f64;
            let rows_before = match way {
                Rows::Together => all(TURN, rows_of.elements(&self.f.extents)),
                _ => 0.0,
            };
            let columns_before = match how.together {
                true => all(COPY, columns_of.footprint(&self.f.extents)),
                false => 0.0,
            };
            let blocks = self.trips[row].div_ceil(rows) * self.trips[column].div_ceil(columns);
            (blocks.div_ceil(threads) as f64 + uneven) * one + rows_before + columns_before
        };
        // Parts of each dimension, as even as tiles allow.
        let sides = |d: usize| {
            let mut all: Vec<u64> =
                (1..=self.trips[d].min(TILES)).map(|n| self.trips[d].div_ceil(n)).collect();
            all.dedup();
            all
        };
        let (all_rows, all_columns) = (sides(row), sides(column));
        let all = all_rows.iter().flat_map(|r| all_columns.iter().map(move |c| (*r, *c)));
        let all = own.into_iter().chain(together).flat_map(|how| all.clone().map(move |(r, c)| (r, c, how)));
        let all = all.flat_map(|(r, c, how)| ways(r, c, how).iter().map(move |way| (r, c, how, *way)));
        let all = all.map(|(r, c, how, way)| (cost(r, c, how, way), r, c, how, way));
        let (_, rows, columns, how, way) = all.min_by(|a, b| a.0.total_cmp(&b.0))?;

        let grid = self.at.threads.filter(|_| self.s.threads > 1).unwrap_or(self.at.block);
        let part = |layer, dim, parts| Part { layer, dim, parts };
        let mut loops = vec![
            part(grid, row, self.trips[row].div_ceil(rows)),
            part(grid, column, self.trips[column].div_ceil(columns)),
            part(self.at.outer, p.sum, how.passes),
        ];
        loops.retain(|l| l.parts > 1);
        let from = loops.len();
        loops.extend([part(self.at.inner, column, columns), part(self.at.inner, row, rows)]);
        loops.retain(|l| l.parts > 1);
        let registers = Some(loops.len());
        loops.push(part(self.at.inner, p.sum, how.depth));
        loops.extend(self.tile_loops());
        loops.retain(|l| l.parts > 1);
        let packing = |r: &Reach| {
            let of_rows = r.depends(row);
            let input = r.input.filter(|_| !of_rows || way != Rows::Lie)?;
            let before = if of_rows { way == Rows::Together } else { how.together };
            let from = if before { 0 } else { from };
            let layout = self.layout(r, &loops[from..], Some(if of_rows { row } else { column }));
            Some(Packing { input, from, layout })
        };
        let copies = self.f.inputs.iter().filter_map(packing).collect();
        Some(Plan { copies, registers, far: how.passes == 1 && self.far(), loops })
    }
}
