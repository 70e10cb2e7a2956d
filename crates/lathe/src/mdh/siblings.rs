//! Sums, extrema and the like over one array: loops of their own read it from memory once each; fused, once together. So do products of
//! one matrix with vectors on both sides, row by row.

use super::arrays::bytes;
use super::layouts::exchanged;
use super::made::{Costs, Made};
use super::setting::Setting;
use lathe_ir::interp::evaluate;
use lathe_ir::names::{self, Role};
use lathe_ir::visit::{self, Path};
use lathe_ir::{BufId, Buffer, Combine, Compute, Dim, Function, Param};
use lathe_transform::{Arg, Args};
use std::collections::{BTreeMap, HashSet};

/// The function with the loops of such reductions fused, where an array that they read is larger than the second cache;
/// `sizes` are examples of those that the function still has. None, if there are none.
pub(super) fn fused(set: &Setting, sizes: &BTreeMap<String, i64>) -> Option<Made> {
    let mut made = Made::of(set.func);
    for group in groups(set, sizes) {
        made = together(set, &made, &group).unwrap_or(made);
    }
    Some(made).filter(|m| !m.steps.is_empty())
}

/// The function with the loops over rows of two products of one matrix fused, one that sums over rows and one that sums over columns, where
/// the first cache does not hold the matrix: each row is read from the second one, or from memory, once. What is computed for each
/// row between the two, from the first one's results for the second one, is fused, too. Threads take parts of the rows, if the model expects a
/// gain. None, if there are none.
pub(super) fn by_rows(set: &Setting, sizes: &BTreeMap<String, i64>) -> Option<Made> {
    let costs = Costs::new(sizes, set.machine);
    let alone = rows(set, sizes, false)?;
    let shared = (set.machine.threads > 1).then(|| rows(set, sizes, true)).flatten();
    let better = |m: &Made| costs.of(&m.func) < costs.of(&alone.func);
    Some(shared.filter(better).unwrap_or(alone))
}

fn rows(set: &Setting, sizes: &BTreeMap<String, i64>, threads: bool) -> Option<Made> {
    let large = larger(set, sizes, set.machine.l1_bytes);
    let (mut found, mut maps): (Vec<(BufId, Compute, usize)>, _) = (Vec::new(), Vec::new());
    let mut mapped = HashSet::new();
    visit::walk(&set.func.body, &mut |s, _| {
        if let Some(c) = s.as_compute() {
            if c.dims.len() == 2 && c.dims.iter().all(|d| d.combine == Combine::Concat) {
                mapped.extend(c.values.iter().flat_map(visit::loads_of).filter_map(|a| a.view.buffer()));
            }
            if let Some((matrix, rows)) = by_row(c, &large) {
                found.push((matrix, c.clone(), rows));
            } else if c.dims.len() == 1 && c.dims[0].combine == Combine::Concat {
                maps.push((found.len(), c.clone()));
            }
        }
        s.as_loop().is_none()
    });
    let range_of = |d: &lathe_ir::Dim| (d.lo.clone(), d.hi.clone());
    let range = |(_, c, rows): &(BufId, Compute, usize)| range_of(&c.dims[*rows]);
    let mut made = Made::of(set.func);
    // What else reads the matrix once for its rows, as a normalization does, has all of it in one loop over rows (chains).
    for (n, first) in found.iter().enumerate().filter(|(_, f)| !mapped.contains(&f.0)) {
        let behind = found.iter().enumerate().skip(n + 1);
        let other = behind.clone().find(|(_, o)| o.0 == first.0 && range(o) == range(first));
        let next = other.and_then(|(m, o)| {
            let between = maps.iter().filter(|(k, _)| (n + 1..=m).contains(k)).map(|(_, c)| c);
            let between = linking(&first.1, &o.1, between.filter(|c| range_of(&c.dims[0]) == range(first)));
            let (first, second) = ((&first.1, first.2), (&o.1, o.2));
            let shared = if threads { Some(trips(&made.func, sizes, &first.0.dims[first.1])?) } else { None };
            let how = |at_once| both(set, &made, first, &between, second, (at_once, shared));
            between.is_empty().then(|| how(true)).flatten().or_else(|| how(false))
        });
        made = next.unwrap_or(made);
    }
    Some(made).filter(|m| !m.steps.is_empty())
}

/// The large matrix of whose rows a sum of two indices takes one after the other in memory, and which index runs over rows.
fn by_row(c: &Compute, large: &HashSet<BufId>) -> Option<(BufId, usize)> {
    let sums = c.dims.iter().filter(|d| matches!(d.combine, Combine::Reduce(_))).count();
    if c.dims.len() != 2 || sums != 1 || c.guard.is_some() || c.targets.len() != 1 {
        return None;
    }
    let loads: Vec<_> = c.values.iter().flat_map(visit::loads_of).collect();
    loads.iter().find_map(|a| {
        let ([row, column], Some(id)) = (a.indices.as_slice(), a.view.buffer()) else { return None };
        let of = |e: &lathe_ir::Expr| c.dims.iter().position(|d| e.as_var() == Some(d.binder.id));
        let (row, column) = (of(row)?, of(column)?);
        (row != column && large.contains(&id)).then_some((id, row))
    })
}

/// Of statements that stand between two others, those through which the second one depends on the first one.
fn linking<'a>(
    first: &Compute,
    second: &Compute,
    between: impl DoubleEndedIterator<Item = &'a Compute>,
) -> Vec<&'a Compute> {
    let written = |c: &Compute| c.targets.iter().filter_map(|t| t.view.buffer()).collect::<HashSet<_>>();
    let read = |c: &Compute| {
        let mut all: Vec<_> = c.values.iter().chain(&c.guard).flat_map(visit::loads_of).collect();
        all.extend(c.update.iter().flat_map(|_| c.targets.iter().cloned()));
        all.iter().filter_map(|a| a.view.buffer()).collect::<HashSet<_>>()
    };
    let mut reached = written(first);
    let mut out: Vec<&Compute> = Vec::new();
    for c in between {
        if !reached.is_disjoint(&read(c)) {
            reached.extend(written(c));
            out.push(c);
        }
    }
    let mut needed = read(second);
    let mut kept: Vec<&Compute> = Vec::new();
    for c in out.into_iter().rev().filter(|c| c.targets.len() == 1) {
        if !needed.is_disjoint(&written(c)) {
            needed.extend(read(c));
            kept.push(c);
        }
    }
    kept.reverse();
    kept
}

/// Rows of a block: so many vectors of partial sums stay in registers while the columns run by.
const ROWS: i64 = 8;
/// The fewest blocks of a thread.
const FEWEST: i64 = 8;

/// How often a dimension runs.
fn trips(func: &Function, sizes: &BTreeMap<String, i64>, d: &Dim) -> Option<i64> {
    let known = func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    evaluate(&d.hi, &known)?.checked_sub(evaluate(&d.lo, &known)?)
}

/// Blocks of rows of a thread; `None` if there are few.
fn part(set: &Setting, blocks: i64) -> Option<i64> {
    let threads = set.machine.threads as i64;
    (blocks >= FEWEST * threads).then(|| blocks / threads + 1)
}

/// One loop over blocks of rows for two computes. Each takes such a block from memory or the second cache, vector by vector along
/// its rows; both take a vector `at_once`, where neither needs the other one's results. Then every row has three vectors that stay in
/// registers: its elements, its partial sums, and its factor. (bicg's 1900 by 2100, with 4 rows and AVX2, 8 and AVX-512: 0.93 and 0.85 of
/// the time of two loops.) Of so many rows in all, each thread takes a part, and sums over rows into an array of its own.
fn both(
    set: &Setting,
    start: &Made,
    first: (&Compute, usize),
    between: &[&Compute],
    second: (&Compute, usize),
    (at_once, shared): (bool, Option<i64>),
) -> Option<Made> {
    let most = if at_once { set.machine.vector_registers as i64 / 4 } else { ROWS };
    let block = ROWS.min(most).max(1);
    let lanes = first.0.values.first()?.ty().scalar()?.bytes().max(1) as i64;
    let lanes = set.machine.vector_bytes as i64 / lanes;
    if lanes < 2 {
        return None;
    }
    let name = |c: &Compute, d: usize| names::around(&c.label, &c.dims[d].binder.name);
    let path = |name: &str| Arg::Path(name.to_string());
    let step = |m: &Made, rule: &str, args: Vec<Arg>, named: &[(&str, &str)]| {
        let mut all = Args::default();
        args.into_iter().for_each(|a| all.push(None, a));
        named.iter().for_each(|(n, v)| all.push(Some(n), path(v)));
        m.everywhere(set, rule, &all).ok()
    };
    let mut made = start.clone();
    let mut unrolled = Vec::new();
    for (c, rows) in [first, second] {
        let (row, column) = (name(c, rows), name(c, 1 - rows));
        let parts = |n: &String| (Role::Outer.of(n), Role::Inner.of(n));
        let ((ro, ri), (co, ci)) = (parts(&row), parts(&column));
        let at = compute(&made.func, c.label.as_str())?;
        made = made.then(set, &at, "open", &Args::default()).ok()?;
        made = step(&made, "split", vec![path(&row), Arg::Int(block)], &[])?;
        made = step(&made, "split", vec![path(&column), Arg::Int(lanes)], &[])?;
        made = step(&made, "reorder", [&ro, &co, &ri, &ci].map(|n| path(n)).to_vec(), &[])?;
        if matches!(c.dims[1 - rows].combine, Combine::Reduce(_)) {
            let array = super::sums::array(&made.func, c.targets.first()?.view.buffer()?)?;
            let args = vec![path(&array), path(&ci)];
            made = step(&made, "factor", args, &[("at", &co), ("combine", "tree")])?;
            let args = vec![path(&Role::Parts.of(&array)), exchanged(2)];
            made = step(&made, "set_layout", args, &[])?;
        }
        made = step(&made, "separate", vec![path(&co)], &[]).unwrap_or(made);
        made = step(&made, "vectorize", vec![path(&ci), Arg::Int(lanes)], &[])?;
        unrolled.push((ri, c.label.to_string()));
    }
    for c in between {
        let row = name(c, 0);
        let at = compute(&made.func, c.label.as_str())?;
        made = made.then(set, &at, "open", &Args::default()).ok()?;
        made = step(&made, "split", vec![path(&row), Arg::Int(block)], &[])?;
        unrolled.push((Role::Inner.of(&row), c.label.to_string()));
    }
    let rows: Vec<String> = [first]
        .into_iter()
        .chain(between.iter().map(|c| (*c, 0)))
        .chain([second])
        .map(|(c, rows)| Role::Outer.of(name(c, rows)))
        .collect();
    for next in &rows[1..] {
        made = step(&made, "fuse", vec![path(&rows[0]), path(next)], &[])?;
    }
    if at_once {
        let columns = [first, second].map(|(c, rows)| path(&Role::Outer.of(name(c, 1 - rows))));
        made = step(&made, "fuse", columns.to_vec(), &[])?;
    }
    let mut blocks = rows[0].clone();
    if let Some(rows) = shared {
        let part = part(set, rows / block)?;
        made = step(&made, "split", vec![path(&blocks), Arg::Int(part)], &[])?;
        let outer = Role::Outer.of(&blocks);
        for (c, _) in [first, second].iter().filter(|(c, n)| matches!(c.dims[*n].combine, Combine::Reduce(_)))
        {
            let array = super::sums::array(&made.func, c.targets.first()?.view.buffer()?)?;
            let own = Role::Cores.numbered(&array, 1);
            made = step(&made, "privatize", vec![path(&array), path(&outer)], &[("name", &own)])?;
        }
        made = step(&made, "parallel", vec![path(&outer)], &[])?;
        blocks = Role::Inner.of(&blocks);
    }
    // What follows makes it faster where it can be done.
    made = step(&made, "separate", vec![path(&blocks)], &[]).unwrap_or(made);
    for (row, label) in unrolled {
        made = step(&made, "unroll", vec![path(&row)], &[]).unwrap_or(made);
        made = step(&made, "fma", vec![path(&label)], &[]).unwrap_or(made);
    }
    Some(made)
}

/// A reduction of all its indices: its label and their names.
type Reduction = (String, Vec<String>);

fn groups(set: &Setting, sizes: &BTreeMap<String, i64>) -> Vec<Vec<Reduction>> {
    let large = larger(set, sizes, set.machine.l2_bytes);
    let mut found: Vec<(Compute, HashSet<BufId>, Vec<Reduction>)> = Vec::new();
    visit::walk(&set.func.body, &mut |s, _| {
        if let Some(c) = s.as_compute().filter(|c| reduces_all(c)) {
            let loads = c.values.iter().flat_map(visit::loads_of).filter_map(|a| a.view.buffer());
            let reads: HashSet<BufId> = loads.filter(|b| large.contains(b)).collect();
            let this = (c.label.to_string(), c.dims.iter().map(|d| d.binder.name.to_string()).collect());
            let same = |other: &Compute| {
                other.dims.len() == c.dims.len()
                    && other.dims.iter().zip(&c.dims).all(|(a, b)| a.lo == b.lo && a.hi == b.hi)
            };
            match found.iter_mut().find(|f| same(&f.0) && !f.1.is_disjoint(&reads)) {
                Some(group) => group.2.push(this),
                None if !reads.is_empty() => found.push((c.clone(), reads, vec![this])),
                None => {}
            }
        }
        // Loops around them have their own arrays.
        s.as_loop().is_none()
    });
    found.into_iter().map(|f| f.2).filter(|g| g.len() > 1).collect()
}

/// Nothing but reductions over ranges that do not depend on one another.
fn reduces_all(c: &Compute) -> bool {
    let ids: Vec<_> = c.dims.iter().map(|d| d.binder.id).collect();
    let free = |e: &lathe_ir::Expr| visit::vars_of(e).iter().all(|v| !ids.contains(v));
    !c.dims.is_empty()
        && c.guard.is_none()
        && c.update.is_none()
        && c.targets.len() == 1
        && c.dims.iter().all(|d| matches!(d.combine, Combine::Reduce(_)) && free(&d.lo) && free(&d.hi))
}

/// Arrays that a cache of so many bytes does not hold.
fn larger(set: &Setting, sizes: &BTreeMap<String, i64>, cache: u64) -> HashSet<BufId> {
    let bytes = bytes(set.func, sizes);
    let mut out = HashSet::new();
    let mut add = |b: &Buffer| {
        if bytes(b) > cache as i64 {
            out.insert(b.id);
        }
    };
    set.func.params.iter().filter_map(Param::array).for_each(|b| add(b));
    visit::walk(&set.func.body, &mut |s, _| {
        s.allocated().into_iter().for_each(|b| add(b));
        true
    });
    out
}

/// One loop for as many of them as can have one; the others stay what they are.
fn together(set: &Setting, start: &Made, group: &[Reduction]) -> Option<Made> {
    let ((first, indices), others) = group.split_first()?;
    let opened =
        |m: &Made, label: &str| m.then(set, &compute(&m.func, label)?, "open", &Args::default()).ok();
    let mut made = opened(start, first)?;
    let alone = made.steps.len();
    for (label, own) in others {
        let next = opened(&made, label).and_then(|mut m| {
            for (a, b) in indices.iter().zip(own) {
                let mut args = Args::default();
                args.push(None, Arg::Path(names::around(first, a)));
                args.push(None, Arg::Path(names::around(label, b)));
                m = m.everywhere(set, "fuse", &args).ok()?;
            }
            Some(m)
        });
        made = next.unwrap_or(made);
    }
    (made.steps.len() > alone).then_some(made)
}

fn compute(func: &Function, label: &str) -> Option<Path> {
    let mut out = None;
    visit::walk(&func.body, &mut |s, p| {
        if s.as_compute().is_some_and(|c| c.label.as_str() == label) {
            out = Some(p.to_vec());
        }
        out.is_none()
    });
    out
}
