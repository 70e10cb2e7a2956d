//! Reductions over all pairs of two sets, of which an input belongs to one or the other (record linkage, bodies that attract one
//! another, nearest neighbours): a thread has a few rows in registers, and what all rows meet goes through shared memory
//! in pieces. Where rows are few, blocks share the pairs of a row, whatever operator combines them.

use super::parts::{self, Parted};
use super::shape::{Array, Shape, Steps, divisor, threads};
use crate::lower::steps::{attempt, call, name, word};
use lathe_ir::names::{self, Role};
use lathe_strategy::Strategy;

const THREADS: u64 = 128;
/// Rows of a thread at most, times the results of a row.
const ROWS: [u64; 3] = [4, 2, 1];
const RESULTS: u64 = 8;
/// Blocks of which every processor has several, and so many that all are busy to the end; then with so many pairs of a row at least.
const BLOCKS: u64 = 1056;
const MANY: u64 = 4224;
const LONG: u64 = 2048;
/// Pairs of a row that are written out where nothing is copied.
const UNROLLED: [u64; 3] = [8, 4, 2];
/// Pairs of a row that are worth it.
const LEAST: u64 = 64;

/// The dimensions: blocks have those of the batch, threads rows, which may have a few results each.
struct Roles {
    batch: Vec<usize>,
    row: usize,
    results: Vec<usize>,
    k: usize,
}

pub fn forms(s: &Shape) -> Vec<Strategy> {
    let made = || {
        let roles = roles(s)?;
        let n = s.extent(roles.row);
        let results: u64 = roles.results.iter().map(|d| s.extent(*d)).product();
        let fits = |e: &u64| e * results <= RESULTS && n.is_multiple_of(e * 32);
        let each = ROWS.into_iter().filter(fits).find_map(|e| Some((e, threads(n / e, &[THREADS])?)));
        let (each, width) = each.unwrap_or((1, THREADS));
        Some(steps(s, &roles, each, width))
    };
    made().into_iter().collect()
}

fn roles(s: &Shape) -> Option<Roles> {
    let mut summed = (0..s.dims.len()).filter(|d| s.dims[*d].reduced);
    let (k, None) = (summed.next()?, summed.next()) else { return None };
    let free: Vec<usize> = s.output.over.iter().copied().collect::<Option<_>>()?;
    if !s.splits || !s.output.plain() || s.extent(k) < LEAST || free.len() + 1 < s.dims.len() {
        return None;
    }
    let alone = |d: usize, other: usize| s.inputs.iter().any(|i| i.uses(d) && !i.uses(other));
    let row = free.iter().copied().max_by_key(|d| s.extent(*d))?;
    let together = s.inputs.iter().any(|i| i.uses(row) && i.uses(k));
    if together || !alone(row, k) || !alone(k, row) || s.extent(row) < LEAST {
        return None;
    }
    let few = |d: &usize| *d != row && s.extent(*d) <= RESULTS;
    let results: Vec<usize> = free.iter().copied().filter(few).collect();
    let batch = free.iter().copied().filter(|d| *d != row && !few(d)).collect();
    let all: u64 = results.iter().map(|d| s.extent(*d)).product();
    (all <= RESULTS).then_some(Roles { batch, row, results, k })
}

fn steps(s: &Shape, roles: &Roles, each: u64, width: u64) -> Strategy {
    let Roles { batch, row, results, k } = roles;
    let mut t = Steps::default();
    if s.products {
        t.add("fma", &[&s.label], []);
    }
    let batches: u64 = batch.iter().map(|d| s.extent(*d)).product();
    let tiles = batches * s.extent(*row).div_ceil(each * width);
    // A piece has an element for each thread.
    let piece = if s.extent(*k).is_multiple_of(width) { width } else { divisor(s.extent(*k), &UNROLLED) };
    let some = parts::count(s, *k, tiles, BLOCKS, piece);
    let many = if LONG.is_multiple_of(piece) { parts::count(s, *k, tiles, MANY, LONG) } else { 1 };
    let parts = some.max(many);
    let free: Vec<usize> = s.output.over.iter().copied().flatten().collect();
    let parted = parts::divide(s, *k, parts, &mut t);
    let Parted { shape: s, first, out, before } = &parted;
    let l = &s.label;
    t.split(&parted.dim(*row), each * width, "bi", "ti");
    if each > 1 {
        t.split(&s.path("ti"), width, "ei", "ti");
    }
    // Loops of results with parts have names that are no names of dimensions: these get some.
    let own: Vec<String> = results.iter().map(|d| format!("c{d}")).collect();
    for (d, c) in results.iter().zip(&own) {
        t.split(&parted.dim(*d), s.extent(*d), &format!("o{d}"), c);
    }
    let grid: Vec<String> = batch
        .iter()
        .map(|d| parted.dim(*d))
        .chain(results.iter().map(|d| s.path(&format!("o{d}"))))
        .chain([s.path("bi")])
        .collect();
    let inner: Vec<String> = (each > 1).then(|| "ei".to_string()).into_iter().chain(own).collect();
    let of = |at: &str, inner: &[String]| inner.iter().map(|x| names::around(at, x)).collect::<Vec<_>>();
    t.reorder(&[grid.clone(), vec![s.path("ti")], of(l, &inner)].concat());
    t.add("fission", &[&s.path("ti")], [word("after", first)]);
    parted.parts().iter().for_each(|p| t.bind(p, "grid"));
    grid.iter().for_each(|g| t.bind(g, "grid"));
    t.stage(out, &s.path("bi"), "register");
    t.split(&s.dim(*k), piece, "bk", "tk");
    t.reorder(&[vec![s.path("bk"), s.path("ti"), s.path("tk")], of(l, &inner)].concat());
    // An array that both sides read is in the caches anyway.
    let sides = |a: &Array, d: usize| {
        s.inputs.iter().filter(|i| i.name == a.name).all(|i| i.uses(d) && i.plain_in(d))
    };
    let mut seen: Vec<&str> = Vec::new();
    let mut copies = Steps::default();
    for a in &s.inputs {
        if seen.contains(&a.name.as_str()) {
            continue;
        }
        seen.push(&a.name);
        let copied = names::copy_of(&a.name);
        if sides(a, *row) && !batch.iter().any(|d| a.uses(*d)) {
            t.stage(&a.name, &s.path("bi"), "register");
            share(a, *row, &copied, (each, width), &mut copies);
        } else if sides(a, *k) && piece == width && !batch.iter().any(|d| a.uses(*d)) {
            t.stage(&a.name, &s.path("bk"), "shared");
            share(a, *k, &copied, (1, width), &mut copies);
        }
    }
    t.append(copies);
    let written = Role::Out.of(names::copy_of(out));
    let position = |d: usize| before + free.iter().position(|f| *f == d).unwrap_or(0);
    let row_of_out = position(*row).to_string();
    if each > 1 {
        t.split(&names::around(&written, &row_of_out), width, "ei", "ti");
    }
    let thread = if each > 1 { "ti" } else { &row_of_out };
    let others: Vec<String> = (each > 1)
        .then(|| "ei".to_string())
        .into_iter()
        .chain(results.iter().map(|d| position(*d).to_string()))
        .collect();
    t.reorder(&[vec![names::around(&written, thread)], of(&written, &others)].concat());
    for (at, inner) in [(first, &inner), (l, &inner), (&written, &others)] {
        of(at, inner).iter().for_each(|x| t.unroll(x));
    }
    for (at, thread) in [(first, "ti"), (l, "ti"), (&written, thread)] {
        t.bind(&names::around(at, thread), "block");
    }
    if piece < width && piece > 1 {
        t.unroll(&s.path("tk"));
    }
    // Where few pairs matter, only these are computed.
    t.push(attempt(call("guard", vec![name(l)])));
    t.strategy()
}

/// The threads copy what they touch along a loop, a few elements each.
fn share(a: &Array, d: usize, copied: &str, (each, width): (u64, u64), t: &mut Steps) {
    let Some(p) = a.over.iter().position(|o| *o == Some(d)) else { return };
    let at = |x: &str| names::around(copied, x);
    let mut own = p.to_string();
    let mut rest: Vec<String> = Vec::new();
    if each > 1 {
        t.split(&at(&own), width, "ei", "ti");
        own = "ti".to_string();
        rest.push(at("ei"));
    }
    rest.extend((0..a.over.len()).filter(|q| *q != p).map(|q| at(&q.to_string())));
    t.reorder(&std::iter::once(at(&own)).chain(rest.iter().cloned()).collect::<Vec<_>>());
    rest.iter().for_each(|x| t.push(attempt(crate::lower::steps::unroll(x))));
    t.bind(&at(&own), "block");
}
