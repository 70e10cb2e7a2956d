//! Matrix products in any layout: tiles of both inputs go through shared memory, and while one pair is
//! used, the next is prefetched (double buffering). A thread has its results in registers, in pieces of 4 × 4. Partial
//! tiles are filled with zeros, so that all blocks run full ones, and only results that exist are stored.

use super::shape::{Array, Shape, Steps, divisor};
use crate::lower::steps::{data, int, named, truth, word};
use lathe_ir::names::{self, Role};
use lathe_strategy::Strategy;

/// Products with fewer results have smaller blocks, so that every processor has some.
const LARGE: u64 = 1_500_000;

/// The tile of a block.
struct Tile {
    side: u64,
    depth: u64,
    /// Rows of blocks of 4 × 4 results per thread, and of columns.
    rows: u64,
    columns: u64,
    threads: u64,
}

pub fn forms(s: &Shape) -> Vec<Strategy> {
    let of = |d: usize| s.dims[d].extent;
    let Some((i, j, k)) = roles(s) else { return Vec::new() };
    let tile = if of(i) * of(j) <= LARGE {
        Tile { side: 64, depth: 32, rows: 2, columns: 1, threads: 128 }
    } else {
        Tile { side: 128, depth: 16, rows: 2, columns: 2, threads: 256 }
    };
    // What is left of long sums is a step of its own.
    let long = of(k) >= 4 * tile.depth;
    let depth = if long { tile.depth } else { divisor(of(k), &[tile.depth, 16, 8]) };
    if depth == 1 || of(i).min(of(j)) < tile.side {
        return Vec::new();
    }
    vec![product(s, (i, j, k), &Tile { depth, ..tile })]
}

/// Rows, columns and the dimension that is summed.
fn roles(s: &Shape) -> Option<(usize, usize, usize)> {
    let [Some(i), Some(j)] = s.output.over[..] else { return None };
    let [a, b] = &s.inputs[..] else { return None };
    let k = (0..3).find(|d| *d != i && *d != j)?;
    let uses = |x: &Array, d: usize| x.plain() && x.over.len() == 2 && x.depends(d) && x.depends(k);
    let fits = s.dims.len() == 3 && s.dims[k].reduced && !s.dims[i].reduced && !s.dims[j].reduced;
    let inputs = uses(a, i) && uses(b, j) || uses(a, j) && uses(b, i);
    (fits && inputs && s.splits && s.products && a.name != b.name && a.bytes == 4 && b.bytes == 4)
        .then_some((i, j, k))
}

fn product(s: &Shape, (i, j, k): (usize, usize, usize), tile: &Tile) -> Strategy {
    let (l, out) = (&s.label, &s.output.name);
    let mut t = Steps::default();
    t.add("fma", &[l], []);
    t.split(&s.dim(i), tile.side, "bi", "ti");
    t.split(&s.dim(j), tile.side, "bj", "tj");
    t.reorder(&["bi", "bj", "ti", "tj"].map(|x| s.path(x)));
    let first = Role::Init.of(l);
    t.add("fission", &[&s.path("ti")], [word("after", &first)]);
    t.bind(&s.path("bi"), "grid");
    t.bind(&s.path("bj"), "grid");
    t.stage(out, &s.path("bj"), "register");
    t.split(&s.dim(k), tile.depth, "bk", "tk");
    t.reorder(&["bk", "ti", "tj"].map(|x| s.path(x)));
    let partial = [i, j].iter().any(|d| !s.extent(*d).is_multiple_of(tile.side));
    let rest = !s.extent(k).is_multiple_of(tile.depth);
    let bk = s.path("bk");
    for a in &s.inputs {
        // Rows of the tile in shared memory run along the results.
        let mut how = vec![word("at", &bk), word("space", "shared")];
        if a.along() == Some(k) {
            let layouts = [data("permute", [1, 0]), data("pad", [1, tile.side as usize + 4])];
            how.extend(layouts.map(|l| named("layout", l)));
        }
        how.extend((partial || rest).then(|| truth("pad")));
        t.add("stage", &[&a.name], how);
    }
    if partial {
        [&first, l]
            .iter()
            .for_each(|at| ["ti", "tj"].iter().for_each(|x| t.add("pad", &[&format!("{at}.{x}")], [])));
    }
    // Warps wi × wj, in each threads li × lj; a thread has pieces ri × rj of ei × ej.
    let (ri, rj) = (tile.side / tile.rows, tile.side / tile.columns);
    let lanes = if tile.columns == 1 { 32 } else { 32.min(rj) };
    let statements = [first, l.clone(), Role::Out.of(names::copy_of(out))];
    for (n, at) in statements.iter().enumerate() {
        let (rows, columns) = if n == 2 { ("0", "1") } else { ("ti", "tj") };
        t.split(&format!("{at}.{rows}"), ri, "ri", "wi");
        t.split(&format!("{at}.wi"), 16, "wi", "li");
        t.split(&format!("{at}.li"), 4, "li", "ei");
        if tile.columns > 1 {
            t.split(&format!("{at}.{columns}"), rj, "rj", "wj");
            t.split(&format!("{at}.wj"), lanes, "wj", "lj");
        } else {
            t.split(&format!("{at}.{columns}"), lanes, "wj", "lj");
        }
        t.split(&format!("{at}.lj"), 4, "lj", "ej");
    }
    let pieces: &[&str] = if tile.columns > 1 { &["ri", "ei", "rj", "ej"] } else { &["ri", "ei", "ej"] };
    for (n, at) in statements.iter().enumerate() {
        let summed: &[&str] = if n == 1 { &["tk"] } else { &[] };
        let order = ["wi", "wj", "li", "lj"].iter().chain(summed).chain(pieces);
        t.reorder(&order.map(|x| format!("{at}.{x}")).collect::<Vec<_>>());
    }
    for at in &statements {
        pieces.iter().for_each(|p| t.unroll(&format!("{at}.{p}")));
    }
    for at in &statements {
        ["wi", "wj", "li", "lj"].iter().for_each(|p| t.bind(&format!("{at}.{p}"), "block"));
    }
    for a in &s.inputs {
        copy(a, a.along() == Some(k), tile, &mut t);
    }
    if rest {
        t.add("separate", &[&bk], []);
        t.unroll(&s.path(&Role::Rest.of("tk")));
    }
    t.unroll(&s.path("tk"));
    t.add("pipeline", &[&bk], [named("stages", int(2))]);
    t.strategy()
}

/// The threads copy a tile: element by element where it is turned, else four neighbours at a time.
fn copy(a: &Array, turned: bool, tile: &Tile, t: &mut Steps) {
    let at = |x: &str| names::around(names::copy_of(&a.name), x);
    let width = if turned { tile.depth } else { tile.side / 4 };
    t.split(&at("0"), tile.threads / width, "uc", "tc");
    if turned {
        t.reorder(&[at("tc"), at("1"), at("uc")]);
        t.unroll(&at("uc"));
        t.bind(&at("tc"), "block");
        t.bind(&at("1"), "block");
    } else {
        t.split(&at("1"), 4, "tx", "vx");
        t.reorder(&[at("tc"), at("tx"), at("uc"), at("vx")]);
        t.unroll(&at("uc"));
        t.unroll(&at("vx"));
        t.bind(&at("tc"), "block");
        t.bind(&at("tx"), "block");
    }
}
