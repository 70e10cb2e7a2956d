//! Blocked factorizations, triangular solves and orthogonalization: the loop that is summed over runs in blocks (`affine_schedule(blocks: …)`), and
//! what each block ends with is a matrix product: the operand that rows share is packed into panels (Goto and van de
//! Geijn, 2008), and a tile of the results stays in registers. Before that, the block is applied to rows and columns, many of which are
//! solved side by side. Where several statements wait for one another there, as in modified
//! Gram-Schmidt, whose projections read what the one before subtracted, tiles of columns go through a block in its order.

use super::made::{Cost, Made};
use super::setting::Setting;
use super::sums::array;
use lathe_ir::names::{self, Role};
use lathe_ir::visit::{self, Path};
use lathe_ir::{Access, Executor, Function, Stmt, VarId};
use lathe_transform::names::labels_in;
use lathe_transform::{Arg, Args};
use std::collections::HashSet;

/// Results in registers side by side: vectors in a row. Rows take half of the registers.
const VECTORS: i64 = 2;

/// The nest in blocks of so many iterations of what is summed over, and whether rows or columns are solved side by side; `None` if it is no such nest. Where the machine has threads,
/// products run on them, and so do rows of a block that do not depend on one another, if `cost` is less.
pub(super) fn blocked(
    set: &Setting,
    start: &Made,
    path: &Path,
    width: i64,
    cost: Cost,
) -> Option<(Made, bool)> {
    let mut bytes = 8;
    visit::walk(visit::at(&start.func.body, path)?, &mut |s, _| {
        bytes = s.accesses().map(|(a, _)| a.elem.bytes() as i64).fold(bytes, |n, b| n.min(b.max(1)));
        true
    });
    let lanes = set.machine.vector_bytes as i64 / bytes;
    if lanes < 2 {
        return None;
    }
    if let Some(made) = with_rows_solved(set, start, path, (width, lanes), cost) {
        return Some((made, true));
    }
    let (mut made, parts) = in_blocks(set, start, path, width, Some(lanes))?;
    let args = arguments(&[("vector", lanes)]);
    for part in parts.into_iter().rev() {
        let at: Path = path.iter().copied().chain(part).collect();
        let s = visit::at(&made.func.body, &at)?;
        let better = match Product::of(&made.func, s) {
            Some(p) => product(set, &made, &at, &p, lanes, cost),
            None => Some(other(set, &made, &at, lanes, &args, cost)),
        };
        made = better.unwrap_or(made);
    }
    Some((made, false))
}

/// The nest in blocks, with lanes or without, and the paths of its parts, from the first to the last.
fn in_blocks(
    set: &Setting,
    start: &Made,
    path: &Path,
    width: i64,
    lanes: Option<i64>,
) -> Option<(Made, Vec<Path>)> {
    // What does not wait for the sums, such as values that they begin with, has loops of its own.
    let mut blocks = arguments(&[("blocks", width)]);
    if let Some(n) = lanes {
        blocks.push(Some("vector"), Arg::Int(n));
    }
    blocks.push(Some("fuse"), name("none"));
    let made = start.then(set, path, "affine_schedule", &blocks).ok()?;
    let parts = parts(visit::at(&made.func.body, path)?);
    Some((made, parts))
}

/// The same with the rows of a block, or its columns, solved side by side: lanes are rows, so that none waits for another one. `None` if
/// no part is so.
fn with_rows_solved(
    set: &Setting,
    start: &Made,
    path: &Path,
    (width, lanes): (i64, i64),
    cost: Cost,
) -> Option<Made> {
    let (mut made, parts) = in_blocks(set, start, path, width, None)?;
    let part = |p: &Path| visit::at(&made.func.body, path).and_then(|s| visit::at(s, p));
    if !parts.iter().filter_map(part).any(|s| side_by_side(&made.func, s).is_some()) {
        return None;
    }
    let args = arguments(&[("vector", lanes)]);
    let mut any = false;
    for part in parts.into_iter().rev() {
        let at: Path = path.iter().copied().chain(part).collect();
        let s = visit::at(&made.func.body, &at)?;
        if let Some(p) = Product::of(&made.func, s) {
            made = product(set, &made, &at, &p, lanes, cost).unwrap_or(made);
            continue;
        }
        if let Some(next) = solved(set, &made, &at, lanes) {
            made = on_threads(set, &next, &at, cost).unwrap_or(next);
            any = true;
            continue;
        }
        let laned = made.then(set, &at, "affine_schedule", &args).ok();
        let rest = other(set, &made, &at, lanes, &args, cost);
        made = laned.filter(|l| cost(&l.func) < cost(&rest.func)).unwrap_or(rest);
    }
    any.then_some(made)
}

/// A part that is no product: an update by several statements, tiles of rows or columns, or the block itself.
fn other(set: &Setting, made: &Made, at: &Path, lanes: i64, args: &Args, cost: Cost) -> Made {
    if let Some(best) = updates(set, made, at, args, cost) {
        return best;
    }
    let Some(s) = visit::at(&made.func.body, at) else { return made.clone() };
    let alone = s.as_loop().is_some() && visit::leaves_lanes(s);
    // Rows and columns of the block are in tiles, which are independent.
    let tiles = has_role(s, Role::Tile);
    let within: Path = at.iter().copied().chain(tiles.then_some(0)).collect();
    let shared = || tiles.then(|| shared(set, made, &within, lanes)).flatten();
    let turned = alone.then(|| shared().or_else(|| turned(set, made, &within, lanes))).flatten();
    let (so_far, nest) = turned.unwrap_or_else(|| match alone {
        true => (inside(set, made.clone(), at, args, cost), at.clone()),
        false => (made.clone(), at.clone()),
    });
    let nest = if tiles { at.clone() } else { nest };
    on_threads(set, &so_far, &nest, cost).unwrap_or(so_far)
}

/// Vectors of rows side by side: additions to one of them take as long as those to so many.
const ROWS: i64 = 4;

/// A tile of rows or columns that a block is applied to, each by itself, one element after the other: lanes are rows, which lie side
/// by side in a copy, and what is subtracted from an element stays in registers. The block is copied, too.
fn solved(set: &Setting, start: &Made, tile: &Path, lanes: i64) -> Option<Made> {
    let (over, first) = side_by_side(&start.func, visit::at(&start.func.body, tile)?)?;
    let nest: Path = tile.iter().copied().chain([0]).collect();
    let mut made = start.clone();
    if first != over {
        made = step(set, &made, &nest, "reorder", vec![name(&over), name(&first)], &[])?;
    }
    let s = visit::at(&made.func.body, &nest)?;
    let array = written(&made.func, s)?;
    let sums = sums(s);
    let mut along = true;
    let row = s.as_loop()?.binder.id;
    visit::walk(s, &mut |s, _| {
        let last = |a: &Access| a.indices.last().is_some_and(|e| visit::vars_of(e).contains(&row));
        along &= s.accesses().all(|(a, mode)| !mode.writes() || last(a));
        true
    });
    let kept = [("at", name(&over)), ("space", name("host"))];
    let block = [&kept[..], &[("invariant", name(&over))]].concat();
    made = step(set, &made, tile, "accumulate", vec![name(&array)], &block)?;
    if !along {
        let turned = [&kept[..], &[("layout", call("permute", &[1, 0]))]].concat();
        made = step(set, &made, tile, "accumulate", vec![name(&array)], &turned)?;
    }
    let array = written(&made.func, visit::at(&made.func.body, &named(&made, tile, &over)?)?)?;
    for (label, over) in &sums {
        let at = name(&names::around(label, over));
        let named = [("at", at.clone()), ("invariant", at), ("space", name("register"))];
        made = step(set, &made, tile, "accumulate", vec![name(&array)], &named)?;
        made = step(set, &made, tile, "fma", vec![name(label)], &[]).unwrap_or(made);
    }
    let tail = [("tail", name("separate"))];
    step(set, &made, tile, "vectorize", vec![name(&over), Arg::Int(ROWS * lanes)], &tail)
}

/// The loop over the rows, or columns, of a tile, and the first loop in the tile; `None` if it is none, or adds nothing up to one array.
fn side_by_side(func: &Function, tile: &Stmt) -> Option<(String, String)> {
    let l = tile.as_loop()?;
    let mut loops: Vec<String> = Vec::new();
    let mut here = &l.body;
    while let Some(inner) = here.as_loop() {
        loops.push(inner.binder.name.to_string());
        here = &inner.body;
    }
    let over = loops.iter().find(|n| Role::Tile.is_of(&l.binder.name, n))?.clone();
    let one = written(func, &l.body).is_some() && !sums(&l.body).is_empty();
    one.then(|| (over, loops.swap_remove(0)))
}

/// What is added up in a nest, each with its innermost loop, over which it is.
fn sums(nest: &Stmt) -> Vec<(String, String)> {
    let mut out = Vec::new();
    visit::walk(nest, &mut |s, _| {
        if let Some(l) = s.as_loop()
            && let (Some(label), Some(r)) = (l.body.label(), l.body.as_reduce())
            && r.targets.iter().all(|t| t.indices.iter().all(|e| !visit::vars_of(e).contains(&l.binder.id)))
        {
            out.push((label.to_string(), l.binder.name.to_string()));
        }
        true
    });
    out
}

/// The paths of the parts of loops over blocks, and those of the other outermost loops.
fn parts(s: &Stmt) -> Vec<Path> {
    let mut out = Vec::new();
    visit::walk(s, &mut |s, p| {
        let Some(l) = s.as_loop() else { return true };
        let at = |k: &[usize]| p.iter().chain(k).copied().collect::<Path>();
        match l.body.as_seq() {
            Some(all) if all.iter().any(is_rest) => out.extend((0..all.len()).map(|k| at(&[0, k]))),
            None if is_rest(&l.body) => out.push(at(&[0])),
            _ => out.push(at(&[])),
        }
        false
    });
    out
}

/// Whether a loop is that of an update at the end of a block.
fn is_rest(s: &Stmt) -> bool {
    has_role(s, Role::Rest)
}

fn has_role(s: &Stmt, role: Role) -> bool {
    let name = s.as_loop().map(|l| l.binder.name.to_string()).unwrap_or_default();
    name.rsplit_once('.').is_some_and(|(base, _)| role.is_of(&name, base))
}

/// Columns of a tile that a block updates by several statements.
const WIDTHS: [i64; 3] = [64, 32, 16];

/// An update by several statements in tiles of the width that is expected to be the fastest; `None` if it is none.
fn updates(set: &Setting, start: &Made, at: &Path, lanes: &Args, cost: Cost) -> Option<Made> {
    let s = visit::at(&start.func.body, at)?;
    s.as_loop()?.body.as_loop().filter(|l| is_rest(s) && l.body.as_seq().is_some())?;
    let all = WIDTHS.iter().filter_map(|w| update(set, start, at, *w, lanes, cost));
    all.min_by(|a, b| cost(&a.func).total_cmp(&cost(&b.func)))
}

/// An update by statements that wait for one another, such as a projection and what it is subtracted from: a tile of its
/// columns stays in the second cache while all iterations of the block run on it, in their order. Tiles do not depend on
/// one another.
fn update(set: &Setting, start: &Made, at: &Path, width: i64, lanes: &Args, cost: Cost) -> Option<Made> {
    let over = visit::at(&start.func.body, at)?.as_loop()?;
    let along = over.body.as_loop()?;
    let (over, along) = (over.binder.name.to_string(), along.binder.name.to_string());
    let [tiles, inner] = [Role::Outer, Role::Inner].map(|r| r.of(&along));
    let made = step(set, start, at, "split", vec![name(&along), Arg::Int(width)], &[])?;
    let made = step(set, &made, at, "reorder", vec![name(&tiles), name(&over)], &[])?;
    let nest = named(&made, at, &inner)?;
    let made = made.then(set, &nest, "affine_schedule", lanes).ok()?;
    Some(on_threads(set, &made, at, cost).unwrap_or(made))
}

/// Lanes must be worth their steps.
const GAIN: f64 = 0.99;

/// Inner nests of a part in lanes, each if that is faster.
fn inside(set: &Setting, start: Made, at: &Path, lanes: &Args, cost: Cost) -> Made {
    let mut nests: Vec<Path> = Vec::new();
    if let Some(s) = visit::at(&start.func.body, at) {
        visit::walk(s, &mut |s, p| {
            let inner = s.as_loop().is_some_and(|_| !p.is_empty());
            if inner && visit::leaves_lanes(s) {
                nests.push(at.iter().chain(p).copied().collect());
            }
            !inner
        });
    }
    let mut made = start;
    for nest in nests.into_iter().rev() {
        let next = made.then(set, &nest, "affine_schedule", lanes).ok();
        made = match next.filter(|n| cost(&n.func) < cost(&made.func) * GAIN) {
            Some(next) => next,
            None => inside(set, made, &nest, lanes, cost),
        };
    }
    made
}

/// Where a loop of that name is.
fn named(made: &Made, at: &Path, name: &str) -> Option<Path> {
    let mut found = None;
    visit::walk(visit::at(&made.func.body, at)?, &mut |s, p| {
        if s.as_loop().is_some_and(|l| *l.binder.name == *name) {
            found = found.take().or_else(|| Some(at.iter().chain(p).copied().collect()));
        }
        found.is_none()
    });
    found
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
fn product(set: &Setting, start: &Made, at: &Path, p: &Product, lanes: i64, cost: Cost) -> Option<Made> {
    let wide = VECTORS * lanes;
    let high = (set.machine.vector_registers as i64 / (2 * VECTORS)).max(2);
    let mut made = packed(set, start, at, p, wide, lanes, cost)?;
    // The nest is inside of what holds its copy.
    let nest = named(&made, at, &p.first)?;
    let mut args = arguments(&[("vector", wide), ("jam", high)]);
    if set.machine.threads > 1 {
        args.push(Some("parallel"), name("outer"));
    }
    made = made.then(set, &nest, "affine_schedule", &args).ok()?;
    made = in_registers(set, made, &nest, true);
    Some(step(set, &made, at, "fma", vec![name(&p.label)], &[]).unwrap_or(made))
}

/// With a copy of what all rows share: panels as wide as a tile, row by row.
fn packed(
    set: &Setting,
    start: &Made,
    at: &Path,
    p: &Product,
    wide: i64,
    lanes: i64,
    cost: Cost,
) -> Option<Made> {
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
    // Rows of the copy do not depend on one another.
    let rows = named(&made, at, &names::dimension(&copy, 0));
    let made = rows.and_then(|rows| on_threads(set, &made, &rows, cost)).unwrap_or(made);
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

/// What the loops of a nest around full tiles add up is in registers until these loops end, where no other access forbids it. If not
/// `all`, only where the compiler below does not see to it: it cannot tell elements of one array apart.
pub(super) fn in_registers(set: &Setting, mut made: Made, nest: &Path, all: bool) -> Made {
    for path in visit::at(&made.func.body, nest).map(tiles).unwrap_or_default().into_iter().rev() {
        let path: Path = nest.iter().copied().chain(path).collect();
        if all || visit::at(&made.func.body, &path).is_some_and(reads_what_it_adds_to) {
            made = summed(set, &made, &path).unwrap_or(made);
        }
    }
    made
}

/// Whether values that are added up to elements of an array come from this array.
fn reads_what_it_adds_to(s: &Stmt) -> bool {
    let mut found = false;
    visit::walk(s, &mut |s, _| {
        if let Some(r) = s.as_reduce() {
            let loads = || r.values.iter().flat_map(visit::loads_of);
            found |= r.targets.iter().any(|t| loads().any(|a| a.view.buffer() == t.view.buffer()));
        }
        !found
    });
    found
}

/// What a loop around a full tile adds up is in registers until it ends.
fn summed(set: &Setting, start: &Made, at: &Path) -> Option<Made> {
    let l = visit::at(&start.func.body, at)?.as_loop()?;
    let over = l.binder.name.to_string();
    let (mut target, mut wide) = (None, 0);
    visit::walk(&l.body, &mut |s, _| {
        if let Some(Executor::Vector(n)) = s.as_loop().map(|l| &l.exec) {
            wide = *n as i64;
        }
        true
    });
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
fn on_threads(set: &Setting, start: &Made, at: &Path, cost: Cost) -> Option<Made> {
    let l = visit::at(&start.func.body, at)?.as_loop()?;
    if set.machine.threads < 2 || l.exec != Executor::Serial {
        return None;
    }
    let made = step(set, start, at, "parallel", vec![name(&l.binder.name)], &[])?;
    (cost(&made.func) < cost(&start.func)).then_some(made)
}

/// Rows that all read one block by its columns, which are stored as rows meanwhile; lanes are elements of one row. With where the
/// nest is then.
fn shared(set: &Setting, start: &Made, at: &Path, lanes: i64) -> Option<(Made, Path)> {
    let s = visit::at(&start.func.body, at)?;
    let over = s.as_loop()?.binder.name.to_string();
    let array = name(&written(&start.func, s)?);
    let layout = call("permute", &[1, 0]);
    let named_args =
        [("at", name(&over)), ("space", name("host")), ("invariant", name(&over)), ("layout", layout)];
    let made = step(set, start, at, "accumulate", vec![array], &named_args)?;
    in_lanes(set, made, at, &over, lanes)
}

/// A nest whose lanes would be elements of one column: its part of the array is stored by columns meanwhile. With where the nest
/// is then.
fn turned(set: &Setting, start: &Made, at: &Path, lanes: i64) -> Option<(Made, Path)> {
    let s = visit::at(&start.func.body, at)?;
    let over = s.as_loop()?.binder.name.to_string();
    let mut args = Args::default();
    args.push(None, name(&written(&start.func, s)?));
    args.push(Some("at"), name(&over));
    args.push(Some("space"), name("host"));
    args.push(Some("layout"), call("permute", &[1, 0]));
    let made = start.then(set, at, "accumulate", &args).ok()?;
    in_lanes(set, made, at, &over, lanes)
}

/// The nest over `over` in lanes, and where it is; `None` if it has none.
fn in_lanes(set: &Setting, made: Made, at: &Path, over: &str, lanes: i64) -> Option<(Made, Path)> {
    let nest = named(&made, at, over)?;
    let made = made.then(set, &nest, "affine_schedule", &arguments(&[("vector", lanes)])).ok()?;
    let lanes = !visit::leaves_lanes(visit::at(&made.func.body, &nest)?);
    lanes.then_some((made, nest))
}

/// The one array that a nest writes, if it has two dimensions.
fn written(func: &Function, s: &Stmt) -> Option<String> {
    let mut all = HashSet::new();
    visit::walk(s, &mut |s, _| {
        let written = s.accesses().filter(|(_, m)| m.writes());
        all.extend(written.filter_map(|(a, _)| Some((a.view.buffer()?, a.indices.len()))));
        true
    });
    match all.into_iter().collect::<Vec<_>>()[..] {
        [(buffer, 2)] => array(func, buffer),
        _ => None,
    }
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
