//! Reductions: of everything by blocks and threads, of rows by a block or a warp each. Threads read neighbours at a time,
//! and their partial results are combined by a tree reduction.

use super::parts::{self, Parted};
use super::shape::{Array, Shape, Steps, divisor, threads, together};
use crate::lower::steps::word;
use lathe_ir::names::{self, Role};
use lathe_strategy::Strategy;

const THREADS: u64 = 256;
/// Blocks that a reduction of everything has at most.
const BLOCKS: u64 = 1024;
/// Threads of a warp, which a short row has.
const WARP: u64 = 32;
/// Rows of which columns have sums.
const LONG: u64 = 256;
/// So few rows leave processors without a block; then there are up to so many blocks, whose threads have so many terms at least.
const FEW: u64 = 132;
const SHARED: u64 = 528;
const UNROLLED: u64 = 8;
/// Rows of warps in a block.
const ROWS: u64 = 4;

pub fn forms(s: &Shape) -> Vec<Strategy> {
    [rows(s), everything(s), columns(s)].into_iter().flatten().collect()
}

/// Sums over the rows of a matrix: threads of a block have neighbouring columns, in several rows at a time, and blocks share
/// the rows.
fn columns(s: &Shape) -> Option<Strategy> {
    let mut summed = (0..s.dims.len()).filter(|d| s.dims[*d].reduced);
    let (k, None) = (summed.next()?, summed.next()) else { return None };
    let j = s.output.along()?;
    let lies = |i: &Array| !i.depends(j) || i.along() == Some(j) && i.plain();
    let alone = (0..s.dims.len()).all(|d| d == j || d == k || s.extent(d) == 1);
    let both = s.inputs.iter().any(|i| i.depends(j) && i.depends(k));
    let n = s.extent(j);
    if !(s.splits && s.output.plain() && alone && both && s.inputs.iter().all(lies)) || s.extent(k) < LONG {
        return None;
    }
    let vector = together(s.inputs.iter().chain([&s.output]).map(|i| i.bytes).max()?, n);
    let lanes = threads(n / vector, &[2 * WARP, WARP])?;
    let tiles = n / (vector * lanes);
    let mut t = Steps::default();
    if s.products {
        t.add("fma", &[&s.label], []);
    }
    let lines = divisor(s.extent(k), &[8, 4, 2]);
    let parts = if tiles < BLOCKS { parts::count(s, k, tiles, BLOCKS, lines) } else { 1 };
    let parted = parts::divide(s, k, parts, &mut t);
    let Parted { shape: s, first, out, before } = &parted;
    let l = &s.label;
    t.split(&parted.dim(j), lanes * vector, "bx", "tx");
    t.split(&s.path("tx"), vector, "tx", "vx");
    let free: Vec<usize> = s.output.over.iter().copied().flatten().collect();
    let others = free.iter().filter(|d| **d != j).map(|d| parted.dim(*d));
    let outer: Vec<String> = parted.parts().into_iter().chain(others).chain([s.path("bx")]).collect();
    t.reorder(&outer.iter().cloned().chain([s.path("tx"), s.path("vx")]).collect::<Vec<_>>());
    t.add("fission", &[&s.path("tx")], [word("after", first)]);
    t.split(&s.dim(k), lines, "kx", "ky");
    t.reorder(&["ky", "tx", "kx", "vx"].map(|x| names::around(l, x)));
    let (ky, tx) = (s.path("ky"), names::around(l, "tx"));
    t.add("privatize", &[out, &ky], [word("at", &ky), word("space", "shared"), word("combine", "tree")]);
    let own = Role::Parts.of(out);
    t.stage(&own, &tx, "register");
    t.split(&s.path("kx"), divisor(s.extent(k) / lines, &[8, 4, 2]), "kx", "ux");
    t.unroll(&s.path("ux"));
    let last = before + free.len() - 1;
    let private = names::private(out);
    let copied = names::copy_of(&own);
    for x in [names::around(first, "vx"), names::around(l, "vx")] {
        t.unroll(&x);
    }
    for label in [copied.clone(), Role::Out.of(&copied)] {
        t.unroll(&names::dimension(label, last + 1));
    }
    outer.iter().for_each(|b| t.bind(b, "grid"));
    let combine = names::again(Role::Combine.of(l), *before);
    let block = [
        names::around(first, "tx"),
        ky,
        tx,
        names::dimension(&private, 0),
        names::dimension(&private, last + 1),
        names::dimension(combine, last),
    ];
    block.iter().for_each(|b| t.bind(b, "block"));
    Some(t.strategy())
}

/// The one loop that is reduced, along which all large inputs lie together.
fn reduced(s: &Shape) -> Option<usize> {
    let mut all = (0..s.dims.len()).filter(|d| s.dims[*d].reduced);
    let (one, None) = (all.next()?, all.next()) else { return None };
    let lies = |i: &Array| !i.depends(one) || i.along() == Some(one);
    (s.splits && s.inputs.iter().all(lies) && s.output.plain()).then_some(one)
}

/// Partial results of `threads` threads along a loop, each of which takes `vector` neighbours at a time.
fn partial(s: &Shape, t: &mut Steps, over: &str, (threads, vector): (u64, u64), rounds: u64) {
    let out = &s.output.name;
    t.split(over, threads * vector, "rx", "tx");
    t.split(&s.path("tx"), vector, "tx", "vx");
    t.reorder(&["tx", "rx", "vx"].map(|l| s.path(l)));
    let tx = s.path("tx");
    let how = [word("at", &tx), word("space", "shared"), word("combine", "tree")];
    t.add("privatize", &[out, &tx], how);
    t.stage(&Role::Parts.of(out), &tx, "register");
    t.split(&s.path("rx"), divisor(rounds, &[8, 4, 2]), "rx", "ux");
}

fn run(s: &Shape, t: &mut Steps, parts: u64) {
    t.unroll(&s.path("ux"));
    t.unroll(&s.path("vx"));
    t.bind(&s.path("tx"), "block");
    t.bind(&names::dimension(names::private(&s.output.name), 0), "block");
    t.tree(&s.label, parts);
}

fn everything(s: &Shape) -> Option<Strategy> {
    let k = reduced(s).filter(|_| s.dims.len() == 1)?;
    let n = s.extent(k);
    let vector = together(s.inputs.iter().map(|i| i.bytes).max()?, n);
    let width = threads(n / vector, &[THREADS])?;
    let per = width * vector;
    let blocks = (2..=BLOCKS).rev().find(|b| n.is_multiple_of(b * per) && n / (b * per) >= 8)?;
    let out = &s.output.name;
    let mut t = Steps::default();
    t.split(&s.dim(k), n / blocks, "bx", "kx");
    partial(s, &mut t, &s.path("kx"), (width, vector), n / blocks / per);
    let bx = s.path("bx");
    let name = word("name", &format!("{out}.blocks"));
    t.add("privatize", &[out, &bx], [word("space", "global"), name, word("combine", "tree")]);
    let first = names::dimension(names::dimension(names::private(out), 2), 0);
    t.add("fuse", &[&first, &bx], []);
    t.bind(&first, "grid");
    run(s, &mut t, width);
    t.tree(&Role::Combine.of(&s.label), blocks);
    Some(t.strategy())
}

/// Rows of one result each. Where these are few, several blocks have a row.
fn rows(s: &Shape) -> Option<Strategy> {
    let k = reduced(s).filter(|_| s.dims.len() > 1)?;
    let vector = together(s.inputs.iter().filter(|i| i.depends(k)).map(|i| i.bytes).max()?, s.extent(k));
    let free: Vec<usize> = (0..s.dims.len()).filter(|d| *d != k).collect();
    let outer = *free.last()?;
    let mut t = Steps::default();
    if s.products {
        t.add("fma", &[&s.label], []);
    }
    let all: u64 = free.iter().map(|d| s.extent(*d)).product();
    let parts = match all < FEW && s.output.plain() {
        true => parts::count(s, k, all, SHARED, THREADS * vector * UNROLLED),
        false => 1,
    };
    let parted = parts::divide(s, k, parts, &mut t);
    let mut blocks: Vec<String> = free.iter().map(|d| parted.dim(*d)).collect();
    blocks.extend(parted.parts());
    let s = &Shape { output: Array { name: parted.out.clone(), ..s.output.clone() }, ..parted.shape.clone() };
    let n = s.extent(k);
    let short =
        n <= 1024 && n.is_multiple_of(WARP * vector) && s.extent(outer).is_multiple_of(ROWS) && parts == 1;
    let width = if short { WARP } else { threads(n / vector, &[THREADS, 128])? };
    if short {
        let row = blocks.pop()?;
        t.split(&row, ROWS, "by", "ty");
        blocks.push(s.path("by"));
    }
    partial(s, &mut t, &s.dim(k), (width, vector), n / width / vector);
    blocks.iter().for_each(|b| t.bind(b, "grid"));
    if short {
        t.bind(&s.path("ty"), "block");
    }
    run(s, &mut t, width);
    Some(t.strategy())
}
