//! Scans of a vector in one pass: blocks keep their values in registers and exchange their totals in order while they run;
//! inside of a block the totals of a few neighbours each are combined in rounds, in shared memory.

use super::shape::{Shape, Steps, divisor};
use crate::lower::steps::word;
use lathe_ir::names::{self, Role};
use lathe_strategy::Strategy;
use std::collections::BTreeSet;

/// Threads of a block. More of them wait longer for one another.
const THREADS: u64 = 128;
/// Neighbours that a thread loads together.
const VECTOR: u64 = 4;
/// Elements of a block.
const BLOCKS: [u64; 3] = [4096, 2048, 1024];

pub fn form(s: &Shape) -> Option<Strategy> {
    let [dim] = &s.dims[..] else { return None };
    let all = s.inputs.iter().chain([&s.output]);
    let block = divisor(dim.extent, &BLOCKS);
    let fits = s.scans && block > 1 && s.output.over == [Some(0)];
    if !fits || !all.into_iter().all(|a| a.plain() && a.bytes <= 8) {
        return None;
    }
    let mut t = Steps::default();
    let (label, total) = (&s.label, Role::Total.of(&s.label));
    // The totals of blocks, and of neighbours.
    let (carry, inner) = (Role::Carry.of(label), names::again(Role::Carry.of(label), 1));
    t.split(&s.dim(0), block, "bx", "kx");
    let bx = s.path("bx");
    t.add("lookback", &[&Role::Running.of(label), &bx], []);
    t.add("promote", &[&Role::Running.of(label)], [word("space", "global")]);
    t.bind(&bx, "grid");
    let read: BTreeSet<&str> = s.inputs.iter().filter(|a| a.depends(0)).map(|a| a.name.as_str()).collect();
    read.iter().for_each(|a| t.stage(a, &bx, "register"));
    t.split(&s.path("kx"), VECTOR, "px", "vx");
    t.add("prescan", &[&Role::Run.of(label), &s.path("px")], [word("combine", "tree")]);
    t.add("promote", &[&inner], [word("space", "shared")]);

    // Pieces of as many elements as all threads load at once.
    let copies: Vec<String> = read.iter().map(names::copy_of).collect();
    let whole = copies.iter().map(|c| (c, names::dimension(c, 0)));
    let whole: Vec<_> = whole.chain([(&total, Role::Total.of(names::around(&total, "kx")))]).collect();
    for (at, path) in &whole {
        t.split(path, THREADS * VECTOR, "rx", "tx");
        t.split(&names::around(at, "tx"), VECTOR, "tx", "vx");
        t.reorder(&["tx", "rx", "vx"].map(|l| names::around(at, l)));
    }
    let pieces = names::again(&total, 1);
    let each = [(&pieces, Role::Total.of(names::around(&pieces, "px"))), (label, s.path("px"))];
    for (at, path) in &each {
        t.split(path, THREADS, "rx", "tx");
        t.reorder(&["tx", "rx"].map(|l| names::around(at, l)));
    }
    let tx = names::around(&total, "tx");
    let how = [word("at", &tx), word("space", "shared"), word("combine", "tree")];
    t.add("privatize", &[&carry, &tx], how);
    t.stage(&Role::Parts.of(&carry), &tx, "register");
    for at in whole.iter().map(|w| w.0).chain([&pieces, label]) {
        t.unroll(&names::around(at, "rx"));
        let vx = if *at == pieces { Role::Total.of("vx") } else { "vx".to_string() };
        t.unroll(&names::around(at, vx));
        t.bind(&names::around(at, "tx"), "block");
    }
    t.bind(&names::dimension(names::private(&carry), 0), "block");
    t.tree(&total, THREADS);
    for round in 0..(block / VECTOR).ilog2() {
        t.bind(&Role::Parts.of(Role::Double.nth(label, round as usize)), "block");
    }
    Some(t.strategy())
}
