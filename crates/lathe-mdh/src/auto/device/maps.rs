//! Maps: threads process adjacent, contiguous elements. Stencils have several rows per thread, whose shared
//! neighbours are read once; transposes go through shared memory.

use super::shape::{Shape, Steps, divisor, together};
use crate::lower::steps::{data, int, named, word};
use lathe_ir::names::{self, Role};
use lathe_strategy::{Argument, Strategy};

/// Threads of a block.
const THREADS: u64 = 256;
/// Elements that a block has at most.
const ROUND: u64 = 8 * THREADS;
/// Elements that are worth a launch of their own for what vectors leave.
const LONG: u64 = 1 << 20;
/// Rows of a stencil that a thread or a block has.
const SIDES: [u64; 3] = [8, 4, 2];
/// Rows of a thread where other arrays are read, too: of them, more rows are no fewer reads.
const BESIDE_OTHERS: [u64; 1] = [2];
/// The side of a tile that is turned.
const TILE: u64 = 64;

/// A map in one of the forms, the special ones first.
pub fn forms(s: &Shape) -> Vec<Strategy> {
    if s.reduces() || !s.output.plain() || s.dims.is_empty() {
        return Vec::new();
    }
    [turned(s), stencil(s), plain(s)].into_iter().flatten().collect()
}

/// The loops from the one whose neighbours lie furthest apart to the one where they lie together.
fn order(s: &Shape) -> Option<Vec<usize>> {
    let order: Vec<usize> = s.output.over.iter().copied().collect::<Option<_>>()?;
    (order.len() == s.dims.len()).then_some(order)
}

fn plain(s: &Shape) -> Option<Strategy> {
    let order = order(s)?;
    let (last, outer) = order.split_last()?;
    let mut t = Steps::default();
    let mut n = s.extent(*last);
    let whole = n / ROUND * ROUND;
    // Of long rows of a length that vectors do not divide, the rest has threads of its own.
    let cut = outer.is_empty() && n != whole && n > LONG;
    if cut {
        t.add("cut", &[&s.dim(*last)], [Argument::positional(int(whole))]);
        n = whole;
    }
    let vector = together(s.output.bytes, n);
    let threads = (n / vector).max(1).next_power_of_two().min(THREADS);
    let rows = if outer.is_empty() { 1 } else { THREADS / threads };
    t.split(&s.dim(*last), threads * vector, "bx", "tx");
    if vector > 1 {
        t.split(&s.path("tx"), vector, "tx", "vx");
    }
    let mut blocks: Vec<String> = outer.iter().map(|d| s.dim(*d)).collect();
    let mut all = Vec::new();
    if rows > 1 {
        let row = blocks.pop()?;
        t.split(&row, rows, "by", "ty");
        blocks.push(s.path("by"));
        all.push(s.path("ty"));
    }
    blocks.push(s.path("bx"));
    all.push(s.path("tx"));
    let inner = (vector > 1).then(|| s.path("vx"));
    t.reorder(&blocks.iter().chain(&all).chain(&inner).cloned().collect::<Vec<_>>());
    blocks.iter().for_each(|b| t.bind(b, "grid"));
    all.iter().for_each(|b| t.bind(b, "block"));
    inner.iter().for_each(|v| t.unroll(v));
    if cut {
        t.bind(&Role::Rest.of(s.dim(*last)), "block");
    }
    Some(t.strategy())
}

/// Rows per thread and per block in the dimensions that neighbours are read along.
fn stencil(s: &Shape) -> Option<Strategy> {
    let order = order(s)?;
    let (last, outer) = order.split_last()?;
    let spread = |d: usize| s.inputs.iter().any(|i| i.spread[d]);
    let rows: Vec<usize> = outer.iter().copied().filter(|d| spread(*d)).collect();
    if rows.is_empty() || !s.inputs.iter().all(|i| i.along().is_none_or(|a| a == *last)) {
        return None;
    }
    let vector = divisor(s.extent(*last), &[2]);
    // Threads of a block are neighbours in two dimensions: what they share lies closer together than in one long row.
    let lines = rows.get(1).map_or(1, |d| divisor(s.extent(*d), &SIDES));
    let others = rows.len() == 1 && s.inputs.iter().any(|i| !i.over.is_empty() && i.name != s.inputs[0].name);
    let sides: &[u64] = if others { &BESIDE_OTHERS } else { &SIDES };
    let mut t = Steps::default();
    t.split(&s.dim(*last), THREADS / lines * vector, "bx", "tx");
    t.split(&s.path("tx"), vector, "tx", "vx");
    let (mut blocks, mut threads, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    for d in outer {
        let (side, role, of) = match rows.iter().position(|r| r == d) {
            Some(0) => (divisor(s.extent(*d), sides), "u", &mut inner),
            Some(1) => (lines, "t", &mut threads),
            _ => (1, "", &mut inner),
        };
        if side > 1 {
            t.split(&s.dim(*d), side, &format!("b{d}"), &format!("{role}{d}"));
            blocks.push(s.path(&format!("b{d}")));
            of.push(s.path(&format!("{role}{d}")));
        } else {
            blocks.push(s.dim(*d));
        }
    }
    blocks.push(s.path("bx"));
    threads.push(s.path("tx"));
    inner.push(s.path("vx"));
    let all = blocks.iter().chain(&threads).chain(&inner).cloned();
    t.reorder(&all.collect::<Vec<_>>());
    inner.iter().for_each(|u| t.unroll(u));
    blocks.iter().for_each(|b| t.bind(b, "grid"));
    threads.iter().for_each(|b| t.bind(b, "block"));
    Some(t.strategy())
}

/// A tile of an input whose rows are the results' columns: read along its rows, and written along the others.
fn turned(s: &Shape) -> Option<Strategy> {
    let order = order(s)?;
    let [across, along] = order[..] else { return None };
    let mut columns = s.inputs.iter().filter(|i| i.over == [Some(along), Some(across)] && i.plain());
    let (a, None) = (columns.next()?, columns.next()) else { return None };
    if a.local || !s.extent(along).is_multiple_of(TILE) || !s.extent(across).is_multiple_of(TILE) {
        return None;
    }
    let (name, mut t) = (&a.name, Steps::default());
    t.split(&s.dim(along), TILE, "bx", "tx");
    t.split(&s.dim(across), TILE, "by", "ty");
    t.reorder(&["bx", "by", "ty", "tx"].map(|l| s.path(l)));
    let layout = named("layout", data("pad", [1, TILE as usize + 1]));
    t.add("stage", &[name], [word("at", &s.path("by")), word("space", "shared"), layout]);
    let copied = |l: &str| names::around(names::copy_of(name), l);
    t.split(&copied("0"), 4, "uy", "ty");
    t.split(&s.path("ty"), 4, "uy", "ty");
    t.reorder(&["ty", "1", "uy"].map(copied));
    t.reorder(&["ty", "tx", "uy"].map(|l| s.path(l)));
    t.bind(&s.path("bx"), "grid");
    t.bind(&s.path("by"), "grid");
    for l in [copied("ty"), copied("1"), s.path("ty"), s.path("tx")] {
        t.bind(&l, "block");
    }
    Some(t.strategy())
}
