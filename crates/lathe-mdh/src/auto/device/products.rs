//! Matrix products in any layout: tiles of both inputs go through shared memory, and while one pair is
//! used, the next is prefetched (double buffering). A thread has its results in registers, in pieces of 4 × 4. Partial
//! tiles are filled with zeros, so that all blocks run full ones, and only results that exist are stored.

use super::parts::{self, Parted};
use super::shape::{Array, Shape, Steps, divisor};
use crate::lower::steps::{data, int, named, truth, word};
use lathe_ir::names::{self, Role};
use lathe_strategy::Strategy;

/// Products with fewer results have smaller blocks, so that every processor has some.
const LARGE: u64 = 1_500_000;
/// Steps of a sum at a time where tiles of a large product are whole.
const DEEP: u64 = 32;
/// Blocks of which every processor has one or two.
const BLOCKS: u64 = 264;
/// Parts of a sum that are worth a kernel which adds them up.
const LEAST: u64 = 3;

/// The tile of a block.
struct Tile {
    /// Rows and columns of results.
    sides: [u64; 2],
    depth: u64,
    /// Rows of blocks of 4 × 4 results per thread, and of columns.
    rows: u64,
    columns: u64,
    threads: u64,
}

impl Tile {
    fn new(sides: [u64; 2], depth: u64, rows: u64, columns: u64) -> Tile {
        Tile { sides, depth, rows, columns, threads: sides[0] * sides[1] / (16 * rows * columns) }
    }
}

/// The dimensions of a product: of the batch, rows, columns, and the one that is summed.
struct Roles {
    batch: usize,
    i: usize,
    j: usize,
    k: usize,
}

pub fn forms(s: &Shape) -> Vec<Strategy> {
    let of = |d: usize| s.dims[d].extent;
    let Some(roles) = roles(s) else { return Vec::new() };
    let Roles { batch, i, j, k } = roles;
    let results: u64 = (0..batch).chain([i, j]).map(of).fold(1, u64::saturating_mul);
    let least = of(i).min(of(j));
    let side = |d: usize| if of(d) >= 128 { 128 } else { 64 };
    let tile = if of(i).max(of(j)) >= 128 && least >= 64 && results > LARGE {
        // Deeper tiles take fewer barriers; where they are partial, a thread has no registers for that.
        let whole =
            of(i).is_multiple_of(side(i)) && of(j).is_multiple_of(side(j)) && of(k).is_multiple_of(DEEP);
        Tile::new([side(i), side(j)], if whole { DEEP } else { 16 }, 2, 2)
    } else if least >= 64 {
        Tile::new([64, 64], 32, 2, 1)
    } else if batch > 0 && least >= 32 {
        Tile::new([32, 32], 32, 1, 1)
    } else {
        return Vec::new();
    };
    // What is left of long sums is a step of its own.
    let long = of(k) >= 4 * tile.depth;
    let depth = if long { tile.depth } else { divisor(of(k), &[tile.depth, 16, 8]) };
    if depth == 1 {
        return Vec::new();
    }
    // Where most processors would have nothing to do, they have parts of the sums.
    let tiles: u64 =
        (0..batch).map(of).product::<u64>() * of(i).div_ceil(tile.sides[0]) * of(j).div_ceil(tile.sides[1]);
    let parts = |step: u64| if 2 * tiles < BLOCKS { parts::count(s, k, tiles, BLOCKS, step) } else { 1 };
    let divided = [32, 16, 8].into_iter().filter(|d| *d <= depth).find(|d| parts(*d) >= LEAST);
    let (parts, depth) = divided.map_or((1, depth), |d| (parts(d), d));
    vec![product(s, &roles, &Tile { depth, ..tile }, parts)]
}

/// What each dimension is for: the batch has the outermost ones, in all arrays.
fn roles(s: &Shape) -> Option<Roles> {
    let batch = s.output.over.len().checked_sub(2)?;
    let shared = |x: &Array| (0..batch).all(|d| x.over.get(d) == Some(&Some(d)));
    let [Some(i), Some(j)] = s.output.over[batch..] else { return None };
    let [a, b] = &s.inputs[..] else { return None };
    let k = (batch..batch + 3).find(|d| *d != i && *d != j)?;
    let uses = |x: &Array, d: usize| {
        x.plain() && x.over.len() == batch + 2 && x.depends(d) && x.depends(k) && shared(x)
    };
    let free = (0..batch).chain([i, j]).all(|d| !s.dims[d].reduced);
    let fits = s.dims.len() == batch + 3 && s.dims[k].reduced && free && shared(&s.output);
    let inputs = uses(a, i) && uses(b, j) || uses(a, j) && uses(b, i);
    (fits && inputs && s.splits && s.products && a.name != b.name && a.bytes == 4 && b.bytes == 4)
        .then_some(Roles { batch, i, j, k })
}

fn product(s: &Shape, roles: &Roles, tile: &Tile, parts: u64) -> Strategy {
    let Roles { batch, i, j, k } = *roles;
    let mut t = Steps::default();
    t.add("fma", &[&s.label], []);
    let parted = parts::divide(s, k, parts, &mut t);
    let Parted { shape: s, first, out, before } = &parted;
    let l = &s.label;
    t.split(&parted.dim(i), tile.sides[0], "bi", "ti");
    t.split(&parted.dim(j), tile.sides[1], "bj", "tj");
    t.reorder(&["bi", "bj", "ti", "tj"].map(|x| s.path(x)));
    t.add("fission", &[&s.path("ti")], [word("after", first)]);
    parted.parts().iter().for_each(|p| t.bind(p, "grid"));
    (0..batch).for_each(|b| t.bind(&parted.dim(b), "grid"));
    t.bind(&s.path("bi"), "grid");
    t.bind(&s.path("bj"), "grid");
    t.stage(out, &s.path("bj"), "register");
    t.split(&s.dim(k), tile.depth, "bk", "tk");
    t.reorder(&["bk", "ti", "tj"].map(|x| s.path(x)));
    let partial = [i, j].iter().zip(tile.sides).any(|(d, side)| !s.extent(*d).is_multiple_of(side));
    let rest = !s.extent(k).is_multiple_of(tile.depth);
    let bk = s.path("bk");
    for a in &s.inputs {
        // Rows of the tile in shared memory run along the results.
        let mut how = vec![word("at", &bk), word("space", "shared")];
        if a.along() == Some(k) {
            let turned: Vec<usize> = (0..batch).chain([batch + 1, batch]).collect();
            let side = tile.sides[usize::from(!a.depends(i))];
            let layouts = [data("permute", turned), data("pad", [batch + 1, side as usize + 4])];
            how.extend(layouts.map(|l| named("layout", l)));
        }
        how.extend((partial || rest).then(|| truth("pad")));
        t.add("stage", &[&a.name], how);
    }
    if partial {
        [first, l]
            .iter()
            .for_each(|at| ["ti", "tj"].iter().for_each(|x| t.add("pad", &[&format!("{at}.{x}")], [])));
    }
    // Warps wi × wj, in each threads li × lj; a thread has pieces ri × rj of ei × ej.
    let (ri, rj) = (tile.sides[0] / tile.rows, tile.sides[1] / tile.columns);
    let lanes = if tile.columns == 1 { 32 } else { 32.min(rj) };
    let statements = [first.clone(), l.clone(), Role::Out.of(names::copy_of(out))];
    for (n, at) in statements.iter().enumerate() {
        let (rows, columns) = match n {
            2 => ((before + batch).to_string(), (before + batch + 1).to_string()),
            _ => ("ti".to_string(), "tj".to_string()),
        };
        if tile.rows > 1 {
            t.split(&format!("{at}.{rows}"), ri, "ri", "wi");
        }
        let wi = if tile.rows > 1 { "wi" } else { &rows };
        t.split(&format!("{at}.{wi}"), 16, "wi", "li");
        t.split(&format!("{at}.li"), 4, "li", "ei");
        if tile.columns > 1 {
            t.split(&format!("{at}.{columns}"), rj, "rj", "wj");
            t.split(&format!("{at}.wj"), lanes, "wj", "lj");
        } else {
            t.split(&format!("{at}.{columns}"), lanes, "wj", "lj");
        }
        t.split(&format!("{at}.lj"), 4, "lj", "ej");
    }
    let pieces: &[&str] = match (tile.rows, tile.columns) {
        (1, _) => &["ei", "ej"],
        (_, 1) => &["ri", "ei", "ej"],
        _ => &["ri", "ei", "rj", "ej"],
    };
    for (n, at) in statements.iter().enumerate() {
        let summed: &[&str] = if n == 1 { &["tk"] } else { &[] };
        // In this order of its updates, few of a thread's multiply-adds read three registers of one bank.
        let updates: &[&str] = if n == 1 && pieces.len() == 4 && tile.depth == DEEP {
            &["ei", "ej", "ri", "rj"]
        } else {
            pieces
        };
        let order = ["wi", "wj", "li", "lj"].iter().chain(summed).chain(updates);
        t.reorder(&order.map(|x| format!("{at}.{x}")).collect::<Vec<_>>());
    }
    for at in &statements {
        pieces.iter().for_each(|p| t.unroll(&format!("{at}.{p}")));
    }
    for at in &statements {
        ["wi", "wj", "li", "lj"].iter().for_each(|p| t.bind(&format!("{at}.{p}"), "block"));
    }
    for a in &s.inputs {
        let side = tile.sides[usize::from(!a.depends(i))];
        copy(a, a.along() == Some(k), (batch, side), tile, &mut t);
    }
    if rest {
        t.add("separate", &[&bk], []);
        t.unroll(&s.path(&Role::Rest.of("tk")));
    }
    t.unroll(&s.path("tk"));
    if s.extent(k) > tile.depth {
        t.add("pipeline", &[&bk], [named("stages", int(2))]);
    }
    t.strategy()
}

/// The threads copy a tile: element by element where it is turned, else four neighbours at a time.
fn copy(a: &Array, turned: bool, (batch, side): (usize, u64), tile: &Tile, t: &mut Steps) {
    let at = |x: &str| names::around(names::copy_of(&a.name), x);
    let [rows, columns] = [batch, batch + 1].map(|d| d.to_string());
    let width = if turned { tile.depth } else { side / 4 };
    t.split(&at(&rows), (tile.threads / width).max(1), "uc", "tc");
    if turned {
        t.reorder(&[at("tc"), at(&columns), at("uc")]);
        t.unroll(&at("uc"));
        t.bind(&at("tc"), "block");
        t.bind(&at(&columns), "block");
    } else {
        t.split(&at(&columns), 4, "tx", "vx");
        t.reorder(&[at("tc"), at("tx"), at("uc"), at("vx")]);
        t.unroll(&at("uc"));
        t.unroll(&at("vx"));
        t.bind(&at("tc"), "block");
        t.bind(&at("tx"), "block");
    }
}
