//! Sums and the like of rows of a table, whose numbers are data: neighbouring threads have neighbouring columns, and a thread asks
//! for several rows at once, since each comes from memory.

use super::shape::{Shape, Steps, divisor, together};
use crate::lower::steps::word;
use lathe_ir::names::{self, Role};
use lathe_strategy::Strategy;

/// Threads of a block.
const THREADS: u64 = 128;
/// Blocks of which every processor has several.
const BLOCKS: u64 = 1056;
/// Rows that a thread asks for at once: a few where there are many blocks, else as many bytes as its registers hold.
const AHEAD: u64 = 16;
const REGISTERS: u64 = 800;

/// For a compute whose subscripts that are data count as none.
pub fn form(s: &Shape) -> Option<Strategy> {
    let mut summed = (0..s.dims.len()).filter(|d| s.dims[*d].reduced);
    let (k, None) = (summed.next()?, summed.next()) else { return None };
    let free: Vec<usize> = s.output.over.iter().copied().collect::<Option<_>>()?;
    let (last, outer) = free.split_last()?;
    let lies = |a: &super::shape::Array| !a.uses(*last) || a.along() == Some(*last);
    if !s.output.plain() || s.scans || free.len() + 1 < s.dims.len() || !s.inputs.iter().all(lies) {
        return None;
    }
    let n = s.extent(*last);
    let vector = together(s.inputs.iter().chain([&s.output]).map(|a| a.bytes).max()?, n);
    let width = (1..=THREADS).rev().find(|t| (n / vector).is_multiple_of(*t))?;
    let (l, out) = (&s.label, &s.output.name);
    let mut t = Steps::default();
    let mut grid: Vec<String> = outer.iter().map(|d| s.dim(*d)).collect();
    let all: u64 = outer.iter().map(|d| s.extent(*d)).product();
    let most = if all >= BLOCKS { AHEAD } else { REGISTERS / (vector * s.output.bytes).max(1) };
    let ahead = (1..=most).rev().find(|u| s.extent(k).is_multiple_of(*u))?;
    t.split(&s.dim(k), ahead, "ra", "ua");
    t.split(&s.dim(*last), width * vector, "bx", "tx");
    t.split(&s.path("tx"), vector, "tx", "vx");
    grid.push(s.path("bx"));
    // A thread has its columns of several lists, where lists are short.
    let mut own = vec![s.path("tx")];
    let lists = outer.last().map(|d| (*d, divisor(s.extent(*d), &[8, 4, 2])));
    let lists = lists.filter(|x| x.1 > 1 && width * x.1 <= THREADS && all / x.1 >= BLOCKS);
    if let Some((d, rows)) = lists {
        let at = grid.len() - 2;
        t.split(&s.dim(d), rows, "by", "ty");
        grid[at] = s.path("by");
        own.insert(0, s.path("ty"));
    }
    t.reorder(&[grid.clone(), own.clone(), vec![s.path("vx")]].concat());
    t.add("fission", &[&s.path("vx")], [word("after", &Role::Init.of(l))]);
    t.stage(out, &s.path("tx"), "register");
    t.reorder(&["ra", "ua", "vx"].map(|x| s.path(x)));
    grid.iter().for_each(|g| t.bind(g, "grid"));
    own.iter().for_each(|x| t.bind(x, "block"));
    ["ua", "vx"].iter().for_each(|x| t.unroll(&s.path(x)));
    t.unroll(&names::around(Role::Init.of(l), "vx"));
    t.unroll(&names::dimension(Role::Out.of(names::copy_of(out)), free.len() - 1));
    Some(t.strategy())
}
