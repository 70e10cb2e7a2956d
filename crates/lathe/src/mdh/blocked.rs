//! Blocked factorizations and triangular solves: the loop that is summed over runs in blocks (`affine_schedule(blocks: …)`), and
//! what each block ends with is a matrix product: the operand that rows share is packed into panels (Goto and van de
//! Geijn, 2008), and a tile of the results stays in registers.

use super::made::Made;
use super::setting::Setting;
use super::sums::array;
use lathe_ir::names;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Access, Executor, Function, Stmt, VarId};
use lathe_transform::names::labels_in;
use lathe_transform::{Arg, Args};
use std::collections::HashSet;

/// Results in registers side by side: vectors in a row. Rows take half of the registers.
const VECTORS: i64 = 2;

/// The nest in blocks of so many iterations of what is summed over; `None` if it is no such nest. Where the machine has threads,
/// products run on them, and so do rows of a block that do not depend on one another, if `cost` is less.
pub(super) fn blocked(
    set: &Setting,
    start: &Made,
    path: &Path,
    width: i64,
    cost: &dyn Fn(&Function) -> f64,
) -> Option<Made> {
    let mut bytes = 8;
    visit::walk(visit::at(&start.func.body, path)?, &mut |s, _| {
        bytes = s.accesses().map(|(a, _)| a.elem.bytes() as i64).fold(bytes, |n, b| n.min(b.max(1)));
        true
    });
    let lanes = set.machine.vector_bytes as i64 / bytes;
    if lanes < 2 {
        return None;
    }
    let args = arguments(&[("blocks", width), ("vector", lanes)]);
    let mut made = start.then(set, path, "affine_schedule", &args).ok()?;
    // From the last part to the first: paths of earlier ones stay what they are.
    let parts = parts(visit::at(&made.func.body, path)?);
    for part in parts.into_iter().rev() {
        let at: Path = path.iter().copied().chain(part).collect();
        let s = visit::at(&made.func.body, &at)?;
        let better = match Product::of(&made.func, s) {
            Some(p) => product(set, &made, &at, &p, lanes),
            None => {
                let alone = s.as_loop().is_some() && visit::leaves_lanes(s);
                let turned = alone.then(|| turned(set, &made, &at, lanes)).flatten();
                let (so_far, nest) = turned.unwrap_or_else(|| (made.clone(), at));
                Some(on_threads(set, &so_far, &nest, cost).unwrap_or(so_far))
            }
        };
        made = better.unwrap_or(made);
    }
    Some(made)
}

/// The paths of the parts of a loop over blocks.
fn parts(s: &Stmt) -> Vec<Path> {
    match s.as_loop().map(|l| l.body.as_seq().map_or(0, <[Stmt]>::len)) {
        None => Vec::new(),
        Some(0) => vec![vec![0]],
        Some(n) => (0..n).map(|k| vec![0, k]).collect(),
    }
}

/// Three loops around an update of an element by the product of two.
struct Product {
    label: String,
    /// The outermost loop, and that over rows.
    first: String,
    rows: String,
    /// The array whose elements all rows share, how many dimensions it has, and that of the columns.
    shared: String,
    rank: usize,
    dim: usize,
}

impl Product {
    fn of(func: &Function, s: &Stmt) -> Option<Product> {
        let mut loops = Vec::new();
        let mut here = s;
        while let Some(l) = here.as_loop() {
            if l.exec != Executor::Serial {
                return None;
            }
            loops.push((l.binder.id, l.binder.name.to_string()));
            here = &l.body;
        }
        let (label, r) = (here.label()?, here.as_reduce()?);
        let ([target], 3, true) = (r.targets.as_slice(), loops.len(), r.licence) else { return None };
        let mentions = |a: &Access, v: VarId| a.indices.iter().any(|e| visit::vars_of(e).contains(&v));
        let columns =
            loops.iter().find(|l| target.indices.last().is_some_and(|e| e.as_var() == Some(l.0)))?;
        let rows = loops.iter().find(|l| l.0 != columns.0 && mentions(target, l.0))?;
        loops.iter().find(|l| !mentions(target, l.0))?;
        let loads: Vec<Access> = r.values.iter().flat_map(visit::loads_of).collect();
        let of_columns = |a: &&Access| mentions(a, columns.0) && !mentions(a, rows.0);
        let shared = loads.iter().find(of_columns)?;
        let dim = shared.indices.iter().position(|e| e.as_var() == Some(columns.0))?;
        Some(Product {
            label: label.to_string(),
            first: loops[0].1.clone(),
            rows: rows.1.clone(),
            shared: array(func, shared.view.buffer()?)?,
            rank: shared.indices.len(),
            dim,
        })
    }
}

/// A product with packed panels, and tiles of the results in registers.
fn product(set: &Setting, start: &Made, at: &Path, p: &Product, lanes: i64) -> Option<Made> {
    let wide = VECTORS * lanes;
    let high = (set.machine.vector_registers as i64 / (2 * VECTORS)).max(2);
    let mut made = packed(set, start, at, p, wide, lanes)?;
    // The nest is inside of what holds its copy.
    let mut nest = at.clone();
    let mut found = None;
    visit::walk(visit::at(&made.func.body, at)?, &mut |s, path| {
        if s.as_loop().is_some_and(|l| *l.binder.name == *p.first) {
            found = found.take().or_else(|| Some(path.to_vec()));
        }
        found.is_none() && s.as_loop().is_none()
    });
    nest.extend(found?);
    let mut args = arguments(&[("vector", wide), ("jam", high)]);
    if set.machine.threads > 1 {
        args.push(Some("parallel"), name("outer"));
    }
    made = made.then(set, &nest, "affine_schedule", &args).ok()?;
    for path in tiles(visit::at(&made.func.body, &nest)?).into_iter().rev() {
        let path: Path = nest.iter().copied().chain(path).collect();
        made = in_registers(set, &made, &path, wide).unwrap_or(made);
    }
    Some(step(set, &made, at, "fma", vec![name(&p.label)], &[]).unwrap_or(made))
}

/// With a copy of what all rows share: panels as wide as a tile, row by row.
fn packed(set: &Setting, start: &Made, at: &Path, p: &Product, wide: i64, lanes: i64) -> Option<Made> {
    let mut args = Args::default();
    args.push(None, name(&p.shared));
    args.push(Some("at"), name(&p.first));
    args.push(Some("space"), name("host"));
    args.push(Some("invariant"), name(&p.rows));
    args.push(Some("layout"), call("tile", &[p.dim as i64, wide]));
    // Panels first, then everything else, and the columns of a panel last.
    let panel = p.dim as i64;
    let others = (0..=p.rank as i64).filter(|d| *d != panel && *d != panel + 1);
    let order: Vec<i64> = std::iter::once(panel).chain(others).chain([panel + 1]).collect();
    args.push(Some("layout"), call("permute", &order));
    let made = start.then(set, at, "accumulate", &args).ok()?;
    let Some(copy) = new_labels(&start.func, &made.func).pop() else { return Some(made) };
    if p.dim + 1 != p.rank {
        return Some(made);
    }
    let along = names::dimension(&copy, p.dim);
    let tail = [("tail", name("separate"))];
    Some(step(set, &made, at, "vectorize", vec![name(&along), Arg::Int(lanes)], &tail).unwrap_or(made))
}

/// The loops around full tiles of results.
fn tiles(s: &Stmt) -> Vec<Path> {
    let mut out = Vec::new();
    let lanes = |s: &Stmt| s.as_loop().is_some_and(|l| matches!(l.exec, Executor::Vector(_)));
    let full = |s: &Stmt| s.as_loop().is_some_and(|l| l.exec == Executor::Unrolled && lanes(&l.body));
    visit::walk(s, &mut |s, p| {
        if s.as_loop().is_some_and(|l| l.exec == Executor::Serial && full(&l.body)) {
            out.push(p.to_vec());
        }
        true
    });
    out
}

/// What a loop adds up is in registers until it ends.
fn in_registers(set: &Setting, start: &Made, at: &Path, wide: i64) -> Option<Made> {
    let l = visit::at(&start.func.body, at)?.as_loop()?;
    let over = l.binder.name.to_string();
    let mut target = None;
    visit::walk(&l.body, &mut |s, _| {
        let t = s.as_reduce().and_then(|r| r.targets.first());
        target = target.or_else(|| t.and_then(|t| Some((t.view.buffer()?, t.indices.len()))));
        target.is_none()
    });
    let (buffer, rank) = target?;
    let mut args = Args::default();
    args.push(None, name(&array(&start.func, buffer)?));
    args.push(Some("at"), name(&over));
    args.push(Some("invariant"), name(&over));
    let mut made = start.then(set, at, "accumulate", &args).ok()?;
    for label in new_labels(&start.func, &made.func) {
        for d in (0..rank).rev() {
            let loop_name = name(&names::dimension(&label, d));
            made = match d + 1 == rank {
                true => step(set, &made, at, "vectorize", vec![loop_name, Arg::Int(wide)], &[])?,
                false => step(set, &made, at, "unroll", vec![loop_name], &[])?,
            };
        }
    }
    Some(made)
}

/// A loop whose iterations do not depend on one another on threads, if that is faster.
fn on_threads(set: &Setting, start: &Made, at: &Path, cost: &dyn Fn(&Function) -> f64) -> Option<Made> {
    let l = visit::at(&start.func.body, at)?.as_loop()?;
    if set.machine.threads < 2 || l.exec != Executor::Serial {
        return None;
    }
    let made = step(set, start, at, "parallel", vec![name(&l.binder.name)], &[])?;
    (cost(&made.func) < cost(&start.func)).then_some(made)
}

/// A nest whose lanes would be elements of one column: its part of the array is stored by columns meanwhile. With where the nest
/// is then.
fn turned(set: &Setting, start: &Made, at: &Path, lanes: i64) -> Option<(Made, Path)> {
    let s = visit::at(&start.func.body, at)?;
    let over = s.as_loop()?.binder.name.to_string();
    let mut written = HashSet::new();
    visit::walk(s, &mut |s, _| {
        written.extend(
            s.accesses()
                .filter(|(_, m)| m.writes())
                .filter_map(|(a, _)| Some((a.view.buffer()?, a.indices.len()))),
        );
        true
    });
    let [(buffer, 2)] = written.into_iter().collect::<Vec<_>>()[..] else { return None };
    let mut args = Args::default();
    args.push(None, name(&array(&start.func, buffer)?));
    args.push(Some("at"), name(&over));
    args.push(Some("space"), name("host"));
    args.push(Some("layout"), call("permute", &[1, 0]));
    let mut made = start.then(set, at, "accumulate", &args).ok()?;
    let mut found = None;
    visit::walk(visit::at(&made.func.body, at)?, &mut |s, path| {
        if s.as_loop().is_some_and(|l| *l.binder.name == *over) {
            found = found.take().or_else(|| Some(path.to_vec()));
        }
        found.is_none() && s.as_loop().is_none()
    });
    let nest: Path = at.iter().copied().chain(found?).collect();
    made = made.then(set, &nest, "affine_schedule", &arguments(&[("vector", lanes)])).ok()?;
    let lanes = !visit::leaves_lanes(visit::at(&made.func.body, &nest)?);
    lanes.then_some((made, nest))
}

fn step(
    set: &Setting,
    made: &Made,
    at: &Path,
    rule: &str,
    positional: Vec<Arg>,
    named: &[(&str, Arg)],
) -> Option<Made> {
    let mut args = Args::default();
    positional.into_iter().for_each(|a| args.push(None, a));
    named.iter().for_each(|(n, a)| args.push(Some(n), a.clone()));
    made.then(set, at, rule, &args).ok()
}

fn arguments(all: &[(&str, i64)]) -> Args {
    let mut args = Args::default();
    all.iter().for_each(|(n, v)| args.push(Some(n), Arg::Int(*v)));
    args
}

fn name(of: &str) -> Arg {
    Arg::Path(of.to_string())
}

fn call(name: &str, parts: &[i64]) -> Arg {
    let parts = parts.iter().map(|p| lathe_space::Expr::Value(lathe_space::Value::Int(*p))).collect();
    Arg::Data(lathe_space::Expr::Call(name.to_string(), parts))
}

/// Labels that a step made, in the order of the text.
fn new_labels(before: &Function, after: &Function) -> Vec<String> {
    let known: HashSet<String> = labels_in(&before.body).into_iter().collect();
    let mut out = labels_in(&after.body);
    out.retain(|l| !known.contains(l));
    out.dedup();
    out
}
