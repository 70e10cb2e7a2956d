//! Chains of computes over the same rows (softmax, normalizations): a row is read once and stays in registers, results of a
//! whole row are in shared memory. Short rows have a warp each, longer ones a block, and the longest a cluster of blocks.

use super::Form;
use super::shape::{Array, Shape, Steps, threads};
use crate::lower::steps::word;
use lathe_ir::names::{self, Role};
use std::collections::BTreeSet;

/// Bytes of a row that a thread keeps of every array.
const KEPT: u64 = 128;
/// The same where blocks of a cluster have a row: they wait longer for one another, so that more of them are better that
/// are small.
const KEPT_APART: u64 = 256;
/// Bytes that such a block has of a row in shared memory, three of which a multiprocessor has room for.
const PART: u64 = 72 << 10;
const THREADS: u64 = 256;
const WARP: u64 = 32;
const ROWS: u64 = 4;
const VECTOR: u64 = 4;
/// Blocks of a cluster that has a row.
const CLUSTERS: [u64; 7] = [2, 3, 4, 5, 6, 7, 8];

/// Who has a row of that many elements: how many blocks, and how many threads of each. They share it evenly, and what a
/// thread has of it fits its registers.
fn team(column: u64, clusters: u64) -> Option<(u64, u64)> {
    let fits = |blocks: u64, usual: &[u64]| {
        let even = blocks <= clusters && column.is_multiple_of(blocks * VECTOR);
        let t = threads(column / VECTOR / blocks, usual).filter(|_| even)?;
        (column / (blocks * t) * 4 <= kept_by(blocks)).then_some((blocks, t))
    };
    // Blocks that are small first: more of them run on a processor, one loading while another waits.
    let usual = [&[THREADS][..], &[2 * THREADS, THREADS]];
    let alone = usual.into_iter().find_map(|u| fits(1, u));
    let apart = |u: &[u64]| CLUSTERS.into_iter().find_map(|b| fits(b, u));
    // Of a length with few divisors, any number of threads that a block can have.
    alone.or_else(|| usual.into_iter().find_map(apart)).or_else(|| apart(&[4 * THREADS]))
}

fn kept_by(blocks: u64) -> u64 {
    if blocks == 1 { KEPT } else { KEPT_APART }
}

/// What a compute of a chain does: its loops are those of the batch, the row, and the elements of a row.
enum Part {
    /// Something for each element of a row.
    Elements,
    /// A result for each row, of all of its elements.
    Reduced,
    /// Something for each row.
    Once,
}

fn part(s: &Shape, extents: &[u64]) -> Option<Part> {
    let rank = extents.len();
    let column = rank - 1;
    let same = s.dims.len() <= rank && s.dims.iter().zip(extents).all(|(d, n)| d.extent == *n);
    let prefix: Vec<Option<usize>> = (0..column).map(Some).collect();
    let whole: Vec<Option<usize>> = (0..rank).map(Some).collect();
    let plain = |a: &Array| {
        let lies = a.over.is_empty() || a.over == prefix || a.over == whole || a.over == [Some(column)];
        a.plain() && lies && a.bytes == 4
    };
    if !same || !s.inputs.iter().chain([&s.output]).all(plain) || s.dims[..column].iter().any(|d| d.reduced) {
        return None;
    }
    match s.dims.get(column) {
        None => (s.output.over == prefix).then_some(Part::Once),
        Some(d) if d.reduced => (s.splits && s.output.over == prefix).then_some(Part::Reduced),
        Some(_) => (s.output.over == whole).then_some(Part::Elements),
    }
}

/// The chains of a function, each one compute after the other; `clusters`: blocks of a cluster at most; `others`: whether
/// anything but these computes uses an array.
pub fn forms(all: &[Option<Shape>], clusters: u64, others: &dyn Fn(&str, &[&Shape]) -> bool) -> Vec<Form> {
    let (mut out, mut n) = (Vec::new(), 0);
    while n < all.len() {
        let run: Vec<&Shape> = all[n..].iter().map_while(|s| s.as_ref().filter(|s| !s.scans)).collect();
        // Rows may lie in the first dimension only, or in those of a batch, too.
        let found = (2..=3).find_map(|rank| {
            let extents: Vec<u64> = run.first()?.dims.get(..rank)?.iter().map(|d| d.extent).collect();
            let fits = |s: &&Shape| part(s, &extents).is_some();
            let chain: Vec<&Shape> = run.iter().copied().take_while(fits).collect();
            Some((chain.len(), form(&chain, &extents, clusters, others)?))
        });
        n += found.as_ref().map_or(1, |f| f.0);
        out.extend(found.map(|f| f.1));
    }
    out
}

fn form(
    chain: &[&Shape],
    extents: &[u64],
    clusters: u64,
    others: &dyn Fn(&str, &[&Shape]) -> bool,
) -> Option<Form> {
    let first = chain.first().filter(|_| chain.len() > 1)?;
    let [.., row, column] = *extents else { return None };
    let rank = extents.len();
    let of = |s: &Shape| part(s, extents);
    let sums: Vec<&Shape> = chain.iter().copied().filter(|s| matches!(of(s), Some(Part::Reduced))).collect();
    let whole: Vec<&Shape> = chain.iter().copied().filter(|s| s.dims.len() == rank).collect();
    let results: BTreeSet<&str> = chain
        .iter()
        .filter(|s| !matches!(of(s), Some(Part::Elements)))
        .map(|s| s.output.name.as_str())
        .collect();
    // Every result of a row belongs to the chain: nobody else reads it.
    let local = chain.iter().filter(|s| results.contains(s.output.name.as_str())).all(|s| s.output.local);
    if sums.is_empty() || !local || results.iter().any(|r| others(r, chain)) {
        return None;
    }
    let short = column <= 1024 && column.is_multiple_of(WARP * VECTOR) && row.is_multiple_of(ROWS);
    if !column.is_multiple_of(VECTOR) {
        return None;
    }
    let (blocks, threads) = if short { (1, WARP) } else { team(column, clusters)? };
    let mut t = Steps::default();
    for depth in 0..rank - 1 {
        for s in &chain[1..] {
            t.add("fuse", &[&first.dim(depth), &s.dim(depth)], []);
        }
    }
    let mut at = first.dim(rank - 2);
    if short {
        t.split(&at, ROWS, "by", "ty");
        at = first.path("ty");
    }
    results.iter().for_each(|r| t.add("localize", &[r], [word("at", &at), word("space", "shared")]));
    (0..rank - 2).for_each(|depth| t.bind(&first.dim(depth), "grid"));
    t.bind(&if short { first.path("by") } else { at.clone() }, "grid");
    // What several computes touch of a row is kept; what is written is copied out.
    let long = |a: &&Array| a.over.len() == rank;
    let touched: Vec<&Array> =
        chain.iter().flat_map(|s| s.inputs.iter().chain([&s.output])).filter(long).collect();
    let names: BTreeSet<&str> = touched.iter().map(|a| a.name.as_str()).collect();
    let uses =
        |n: &str| chain.iter().filter(|s| s.inputs.iter().chain([&s.output]).any(|a| a.name == n)).count();
    let written = |n: &str| chain.iter().any(|s| s.output.name == n);
    let read = |n: &str| chain.iter().any(|s| s.inputs.iter().any(|a| a.name == n));
    let held: Vec<&str> = names.iter().copied().filter(|n| uses(n) > 1 && (read(n) || !written(n))).collect();
    if held.len() as u64 * (column / (blocks * threads) * 4) > 2 * kept_by(blocks) {
        return None;
    }
    // Of one array, twice the threads have room beside one another, and half as much to do between barriers.
    let much = held.len() == 1 && blocks > 1 && column / (blocks * threads) * 4 > KEPT;
    let even = column.is_multiple_of(2 * blocks * threads * VECTOR);
    let threads = if much && even && threads <= THREADS { 2 * threads } else { threads };
    // What is only read may lie in shared memory: its copies keep no registers, in which the rest has room to load ahead.
    let apart = blocks > 1 && matches!(held[..], [n] if !written(n)) && column / blocks * 4 <= PART;
    let mut loops: Vec<(String, String)> =
        whole.iter().map(|s| (s.label.clone(), s.dims[rank - 1].name.clone())).collect();
    for n in held {
        t.stage(n, &at, if apart { "shared" } else { "register" });
        let copy = names::copy_of(n);
        let copy = if written(n) { Role::Out.of(copy) } else { copy };
        loops.push((copy, (rank - 1).to_string()));
    }
    for (at, dimension) in &loops {
        if apart {
            // Each block's part is in one piece.
            t.split(&format!("{at}.{dimension}"), column / blocks, "cx", "rx");
            t.split(&format!("{at}.rx"), threads * VECTOR, "rx", "tx");
        } else {
            t.split(&format!("{at}.{dimension}"), blocks * threads * VECTOR, "rx", "tx");
            if blocks > 1 {
                t.split(&format!("{at}.tx"), threads * VECTOR, "cx", "tx");
            }
        }
        t.split(&format!("{at}.tx"), VECTOR, "tx", "vx");
        let order = ["cx", "tx", "rx", "vx"].into_iter().skip(usize::from(blocks == 1));
        t.reorder(&order.map(|l| format!("{at}.{l}")).collect::<Vec<_>>());
    }
    for s in &sums {
        let (out, tx) = (&s.output.name, s.path("tx"));
        let how = [word("at", &tx), word("space", "shared"), word("combine", "tree")];
        t.add("privatize", &[out, &tx], how);
        t.stage(&Role::Parts.of(out), &tx, "register");
        if blocks > 1 {
            let cx = s.path("cx");
            let how = [word("at", &cx), word("space", "shared"), word("name", &format!("{out}.blocks"))];
            t.add("privatize", &[out, &cx], how);
        }
    }
    for (at, _) in &loops {
        t.unroll(&format!("{at}.rx"));
        t.unroll(&format!("{at}.vx"));
    }
    if short {
        t.bind(&at, "block");
    }
    if blocks > 1 {
        loops.iter().for_each(|(at, _)| t.bind(&format!("{at}.cx"), "cluster"));
    }
    loops.iter().for_each(|(at, _)| t.bind(&format!("{at}.tx"), "block"));
    for s in &sums {
        let private = names::private(&s.output.name);
        t.bind(&names::dimension(&private, 0), "block");
        if blocks > 1 {
            t.bind(&names::dimension(names::dimension(private, 2), 0), "cluster");
        }
        t.tree(&s.label, threads);
        if blocks > 1 {
            // What the blocks have lies in another one's memory: one thread asks for all of it at once.
            let met = Role::Combine.of(Role::Combine.of(&s.label));
            t.unroll(&Role::Parts.of(&met));
            t.stage(&s.output.name, &names::dimension(&met, 0), "register");
        }
    }
    Some(Form { labels: chain.iter().map(|s| s.label.clone()).collect(), strategy: t.strategy() })
}
