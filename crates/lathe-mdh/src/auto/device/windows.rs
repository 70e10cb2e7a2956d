//! Weighted windows (convolutions of an image with few weights, sums and extrema of neighbourhoods): a thread has a few rows of
//! neighbouring results in registers, and as all terms are written out, it reads every element of its windows once.

use super::shape::{Shape, Steps, divisor, threads};
use crate::lower::steps::word;
use lathe_ir::names::{self, Role};
use lathe_strategy::Strategy;

const THREADS: u64 = 256;
/// Rows of a thread.
const ROWS: [u64; 3] = [8, 4, 2];
/// Neighbours of a thread in a row.
const VECTOR: [u64; 2] = [4, 2];
/// Terms of a window, and of all windows of a thread.
const WINDOW: u64 = 128;
const TERMS: u64 = 2048;
/// Threads that keep a device busy.
const BUSY: u64 = 1 << 16;

pub fn forms(s: &Shape) -> Vec<Strategy> {
    window(s).into_iter().collect()
}

fn window(s: &Shape) -> Option<Strategy> {
    let free: Vec<usize> = s.output.over.iter().copied().collect::<Option<_>>()?;
    let (last, outer) = free.split_last()?;
    let terms: Vec<usize> = (0..s.dims.len()).filter(|d| s.dims[*d].reduced).collect();
    let all: u64 = terms.iter().map(|d| s.extent(*d)).product();
    // Neighbours of which results share elements.
    let slides = |d: usize| {
        let shared = |c: &Vec<i64>| c[d] != 0 && terms.iter().any(|r| c[*r] != 0);
        s.inputs.iter().any(|i| i.subscripts.iter().any(shared))
    };
    let fits = s.splits && s.output.plain() && !terms.is_empty() && all <= WINDOW;
    if !fits || free.len() + terms.len() < s.dims.len() || !free.iter().any(|d| slides(*d)) {
        return None;
    }
    let row = outer.iter().copied().find(|d| slides(*d));
    let results: u64 = free.iter().map(|d| s.extent(*d)).product();
    let n = s.extent(*last);
    let vector = if row.is_some() { divisor(n, &[2]) } else { divisor(n, &VECTOR) };
    let width = threads(n / vector, &[THREADS])?;
    let many = |r: &u64| results / (r * vector) >= BUSY || *r == 2;
    let holds = |r: &u64| row.is_some_and(|d| s.extent(d).is_multiple_of(*r)) && all * r * vector <= TERMS;
    let rows = ROWS.into_iter().find(|r| holds(r) && many(r)).unwrap_or(1);
    let (l, out, init) = (&s.label, &s.output.name, Role::Init.of(&s.label));
    let mut t = Steps::default();
    if s.products {
        t.add("fma", &[l], []);
    }
    let mut grid: Vec<String> = outer.iter().map(|d| s.dim(*d)).collect();
    let mut inner: Vec<&str> = Vec::new();
    if let Some(d) = row.filter(|_| rows > 1) {
        t.split(&s.dim(d), rows, "by", "uy");
        let at = outer.iter().position(|o| *o == d)?;
        grid[at] = s.path("by");
        inner.push("uy");
    }
    t.split(&s.dim(*last), width * vector, "bx", "tx");
    if vector > 1 {
        t.split(&s.path("tx"), vector, "tx", "vx");
        inner.push("vx");
    }
    grid.push(s.path("bx"));
    let first = inner.first()?;
    let own: Vec<String> = inner.iter().map(|x| s.path(x)).collect();
    t.reorder(&[grid.clone(), vec![s.path("tx")], own.clone()].concat());
    t.add("fission", &[&s.path(first)], [word("after", &init)]);
    t.stage(out, &s.path("tx"), "register");
    let summed: Vec<String> = terms.iter().map(|d| s.dim(*d)).collect();
    t.reorder(&[summed.clone(), own.clone()].concat());
    summed.iter().chain(&own).for_each(|x| t.unroll(x));
    inner.iter().for_each(|x| t.unroll(&names::around(&init, x)));
    let written = Role::Out.of(names::copy_of(out));
    let position = |d: usize| free.iter().position(|f| *f == d).unwrap_or(0);
    let copied = [row.filter(|_| rows > 1), Some(*last).filter(|_| vector > 1)];
    copied.into_iter().flatten().for_each(|d| t.unroll(&names::dimension(&written, position(d))));
    grid.iter().for_each(|g| t.bind(g, "grid"));
    t.bind(&s.path("tx"), "block");
    Some(t.strategy())
}
