//! Reductions: of everything by blocks and threads, of rows by a block or a warp each. Threads read neighbours at a time,
//! and their partial results are combined by a tree reduction.

use super::shape::{Shape, Steps, divisor, threads, together};
use crate::lower::steps::word;
use lathe_ir::names::{self, Role};
use lathe_strategy::Strategy;

const THREADS: u64 = 256;
/// Blocks that a reduction of everything has at most.
const BLOCKS: u64 = 1024;
/// Threads of a warp, which a short row has.
const WARP: u64 = 32;
/// Rows of warps in a block.
const ROWS: u64 = 4;

pub fn forms(s: &Shape) -> Vec<Strategy> {
    [rows(s), everything(s)].into_iter().flatten().collect()
}

/// The one loop that is reduced, along which all large inputs lie together.
fn reduced(s: &Shape) -> Option<usize> {
    let mut all = (0..s.dims.len()).filter(|d| s.dims[*d].reduced);
    let (one, None) = (all.next()?, all.next()) else { return None };
    let lies = |i: &super::shape::Array| !i.depends(one) || i.along() == Some(one);
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

/// Rows of one result each.
fn rows(s: &Shape) -> Option<Strategy> {
    let k = reduced(s).filter(|_| s.dims.len() > 1)?;
    let n = s.extent(k);
    let vector = together(s.inputs.iter().filter(|i| i.depends(k)).map(|i| i.bytes).max()?, n);
    let free: Vec<usize> = (0..s.dims.len()).filter(|d| *d != k).collect();
    let outer = *free.last()?;
    let short = n <= 1024 && n.is_multiple_of(WARP * vector) && s.extent(outer).is_multiple_of(ROWS);
    let width = if short { WARP } else { threads(n / vector, &[THREADS, 128])? };
    let mut t = Steps::default();
    if s.products {
        t.add("fma", &[&s.label], []);
    }
    let mut blocks: Vec<String> = free.iter().map(|d| s.dim(*d)).collect();
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
