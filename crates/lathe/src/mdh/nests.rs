//! Loops that are not in index notation: each nest gets the affine schedule that the cost model expects to be the
//! fastest, or stays as it is.

use super::affine::{CHECK, WITH_THREADS, affine, fused};
use super::arrays::{LARGE, bytes};
use super::candidates::{STEPS, Word, arguments, has, in_time, reduces, repeats};
use super::made::{Cost, Costs, Made, label};
use super::setting::Setting;
use super::{blocked, columns, interior, layouts, neighbours, pivots, recurrences, scatters, sums};
use crate::applied::Version;
use crate::parallel::each_in_turn;
use lathe_diagnostics::Diagnostic;
use lathe_ir::names::Role;
use lathe_ir::visit::{self, Path};
use lathe_ir::{BufId, Buffer, Function, Param, Stmt, StmtKind, VarId};
use lathe_runtime::Engine;
use lathe_transform::names::labels_in;
use lathe_transform::{Arg, Args, Cursor};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// A schedule must be so much better than the loops as they are: where something is reduced, and elsewhere, where the
/// model makes too little of the ends of shifted and skewed rows.
const CLEARLY: [f64; 2] = [0.9, 0.6];
/// The same of loops that are hardly ever slower: without guards, from nearer caches, and with lanes where there were none.
const SURELY: f64 = 0.95;
/// Where a schedule of a whole nest takes more of its time, inner nests are looked at, too.
const MUCH: f64 = 0.5;
/// Nests that are looked at: so many from the first one on.
const NESTS: usize = 16;
/// What checking all nests may take ([`lathe_analysis::within_work`]).
const WORK: u64 = 40_000_000;
/// What the loops of one nest may take, those inside of it apart.
const NEST: u64 = 40_000_000;
/// What all variables of a nest may take that get an element per iteration.
const EXPANDED: i64 = 64 << 20;
/// Widths of blocks of factorizations, for arrays larger than a square of the least width.
const BLOCKS: [i64; 2] = [64, 128];
const LEAST: i64 = 192;
/// Bytes of a row of a tile of time steps, where there are several: those that an element follows from are in the first cache.
const ROW: i64 = 4 << 10;

/// What a search asks for of a nest: nothing, the nest as it is, or with a schedule.
pub(super) type Asked<'a> =
    &'a (dyn Fn(&Setting, &Made, &Path) -> Result<Option<Option<Made>>, Diagnostic> + Sync);

/// The version with a schedule for every nest that gains by one; `sizes` are examples of those that it still has. Its
/// tree is as the steps left it, before and after.
///
/// # Errors
/// What is wrong with a schedule that a search asks for.
pub(super) fn scheduled(
    set: &Setting,
    v: Version,
    sizes: &BTreeMap<String, i64>,
    asked: Asked,
) -> Result<Version, Diagnostic> {
    // Lanes and threads of CPUs are nothing to a device.
    if set.model.is_some_and(for_devices) {
        return Ok(v);
    }
    lathe_analysis::within_work(WORK, || each(set, v, sizes, asked))
}

/// Schedules for the nests inside of a loop that gain by one.
pub(super) fn inside(set: &Setting, start: Made, path: &Path, sizes: &BTreeMap<String, i64>) -> Made {
    let costs = Costs::new(sizes, set.machine);
    let cost = |f: &Function| costs.of(f);
    let Some(l) = visit::at(&start.func.body, path).and_then(Stmt::as_loop) else { return start };
    let inner =
        nests(&l.body).into_iter().map(|p| path.iter().copied().chain([0]).chain(p).collect::<Path>());
    let inner: Vec<Path> = inner.collect();
    let mut left = NESTS;
    lathe_analysis::within_work(WORK, || {
        inner.iter().rev().fold(start, |made, path| {
            let found = nest(set, &made, path, sizes, &cost, &mut left);
            found.ok().flatten().unwrap_or(made)
        })
    })
}

/// Whether a model has cores of a device.
pub(super) fn for_devices(model: &str) -> bool {
    super::load_model(model, std::path::Path::new("")).is_ok_and(|m| {
        (0..m.layers()).any(|l| matches!(m.executor(l, 2), Some(lathe_ir::Executor::Level(_))))
    })
}

/// The nests that have schedules. Loops that only copy and the like are as the decisions want them.
pub(super) fn own(set: &Setting, func: &Function) -> Vec<Path> {
    let known = labels_in(&set.func.body);
    let own = |l: &String| known.iter().any(|k| l == k || Role::Init.is_of(l, k));
    let mut all = nests(&func.body);
    all.retain(|p| visit::at(&func.body, p).is_some_and(|s| labels_in(s).iter().any(own)));
    all.truncate(NESTS);
    all
}

fn each(
    set: &Setting,
    mut v: Version,
    sizes: &BTreeMap<String, i64>,
    asked: Asked,
) -> Result<Version, Diagnostic> {
    let costs = Costs::new(sizes, set.machine);
    let cost = |f: &Function| costs.of(f);
    let (mut left, mut made) = (NESTS, Made::of(&v.func));
    // From the last one to the first: paths of earlier ones stay what they are.
    for path in own(set, &v.func).into_iter().rev() {
        let found = match asked(set, &made, &path)? {
            Some(found) => Ok(found),
            None => nest(set, &made, &path, sizes, &cost, &mut left),
        };
        let so_far = found.as_ref().ok().and_then(Option::as_ref);
        let kept = sums::in_registers(set, so_far.unwrap_or(&made), &path);
        // A schedule of what could be kept in a register as it is written is compared with that.
        let as_it_is = so_far.and_then(|found| {
            let least = cost(&kept.as_ref().unwrap_or(found).func);
            sums::in_registers(set, &made, &path).filter(|m| cost(&m.func) < least)
        });
        match (as_it_is.or(kept), found) {
            (Some(next), _) | (None, Ok(Some(next))) => made = next,
            (None, Ok(None)) => {}
            (None, Err(d)) => {
                let label = label(&v.func.body, &path);
                v.notes.push(format!(
                    "the loops around `{label}` are left as written: {}: {}",
                    d.code, d.message
                ));
            }
        }
    }
    made = layouts::laid_out(set, made, &cost);
    // Copies that were made of local arrays are not copied back where nobody reads these.
    let copied = made.steps.iter().any(|s| s.0.starts_with("accumulate"));
    if let Some(next) = copied.then(|| made.everywhere(set, "dce", &Args::default()).ok()).flatten()
        && cost(&next.func) < cost(&made.func)
    {
        made = next;
    }
    Ok(made.after(v))
}

/// The best schedule of a nest; where it cannot be scheduled, or little is gained, that of each nest inside of it.
/// Why there is none at all.
fn nest(
    set: &Setting,
    start: &Made,
    path: &Path,
    sizes: &BTreeMap<String, i64>,
    cost: Cost,
    left: &mut usize,
) -> Result<Option<Made>, Diagnostic> {
    if *left == 0 {
        return Ok(None);
    }
    *left -= 1;
    let (whole, refused) = lathe_analysis::within_work(NEST, || best(set, start, path, sizes, cost));
    let much = whole.as_ref().is_some_and(|w| cost(&w.func) < cost(&start.func) * MUCH);
    if much && refused.is_none() {
        return Ok(whole);
    }
    let inner: Vec<Path> = visit::at(&start.func.body, path)
        .and_then(Stmt::as_loop)
        .map(|l| {
            nests(&l.body).into_iter().map(|p| path.iter().copied().chain([0]).chain(p).collect()).collect()
        })
        .unwrap_or_default();
    let mut parts = start.clone();
    for path in inner.into_iter().rev() {
        if let Ok(Some(next)) = nest(set, &parts, &path, sizes, cost, left) {
            parts = next;
        }
    }
    let parts = Some(parts).filter(|p| p.steps.len() > start.steps.len());
    let better = |a: &Made, b: &Made| cost(&a.func) < cost(&b.func);
    match (whole, parts, refused) {
        (Some(whole), Some(parts), _) => Ok(Some(if better(&parts, &whole) { parts } else { whole })),
        (None, None, Some(d)) => Err(d),
        (whole, parts, _) => Ok(whole.or(parts)),
    }
}

/// The labels of what is in index notation inside of loops.
pub(super) fn computes_in_loops(func: &Function) -> Vec<String> {
    let mut out = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        let Some(l) = s.as_loop() else { return true };
        visit::walk(&l.body, &mut |s, _| {
            out.extend(s.as_compute().map(|c| c.label.to_string()));
            true
        });
        false
    });
    out
}

/// The variables whose values come from memory.
pub(super) fn data_variables(body: &Stmt) -> HashSet<VarId> {
    let mut out = HashSet::new();
    visit::walk(body, &mut |s, _| {
        if let Some((binder, value, _)) = s.as_let()
            && from_data(value, &out)
        {
            out.insert(binder.id);
        }
        true
    });
    out
}

/// Whether an expression depends on memory, by itself or by variables.
fn from_data(e: &lathe_ir::Expr, variables: &HashSet<VarId>) -> bool {
    !visit::loads_of(e).is_empty() || visit::vars_of(e).into_iter().any(|v| variables.contains(&v))
}

/// Whether data in memory decide if, or how often, what is in a statement runs.
pub(super) fn decided_by_data(s: &Stmt, variables: &HashSet<VarId>) -> bool {
    s.as_let().is_none() && s.exprs().into_iter().any(|e| from_data(e, variables))
}

/// The labels of what is in index notation where data in memory decide whether, or how often, it runs.
pub(super) fn computes_under_data(func: &Function) -> Vec<String> {
    fn find(s: &Stmt, under: bool, variables: &HashSet<VarId>, out: &mut Vec<String>) {
        if let Some(c) = s.as_compute() {
            out.extend(under.then(|| c.label.to_string()));
            return;
        }
        let under = under || decided_by_data(s, variables);
        s.children().for_each(|c| find(c, under, variables, out));
    }
    let mut out = Vec::new();
    find(&func.body, false, &data_variables(&func.body), &mut out);
    out
}

/// The best schedule of a nest, if one is clearly better than none; why the loops of all of it cannot be scheduled
/// together.
fn best(
    set: &Setting,
    whole: &Made,
    path: &Path,
    sizes: &BTreeMap<String, i64>,
    cost: Cost,
) -> (Option<Made>, Option<Diagnostic>) {
    let func = &whole.func;
    let nothing = Stmt::seq(Vec::new());
    let rest = visit::replace_at(&func.body, path, nothing)
        .map_or(0.0, |body| cost(&Function { body, ..func.clone() }));
    let clearly = if reduces(func, path) { CLEARLY[0] } else { CLEARLY[1] };
    let least = rest + (cost(func) - rest) * clearly;
    let runs = |f: &Function| Engine::any_takes(set.module, f).is_ok();
    let ran = runs(func);
    // Lanes that write one element and the like are legal, and no engine takes them.
    let priced = |made: Made| (!ran || runs(&made.func)).then(|| (cost(&made.func), made));
    let large = large(set, whole, path, sizes);
    let lanes_beside = |made: Option<Made>| {
        // The compiler below makes no lanes beside others.
        let others = made.as_ref().and_then(|m| sums::others_in_lanes(set, m, path, cost));
        ways(others.map(|m| fused(set, m, path)).into_iter().chain(made))
    };
    // None depends on what the others find.
    let mut all: Vec<Box<dyn Fn() -> Ways + Sync + '_>> = vec![
        Box::new(|| ways(large.then(|| rows_in_time(set, whole, path, cost)).flatten())),
        Box::new(|| lanes_beside(sums::in_lanes(set, whole, path, cost))),
        Box::new(|| ways(recurrences::in_lanes(set, whole, path, cost))),
        Box::new(|| {
            let together = lathe_analysis::within_work(CHECK[0], || neighbours::together(set, whole, path));
            lanes_beside(together.map(|made| sums::in_lanes(set, &made, path, cost).unwrap_or(made)))
        }),
        Box::new(|| ways(sums::on_threads(set, whole, path, sizes))),
        Box::new(|| ways(scatters::on_threads(set, whole, path, sizes, (rest, cost)))),
        Box::new(|| ways(rows(set, whole, path, cost))),
        Box::new(|| of_all_loops(set, whole, path, sizes, (least, rest), cost)),
    ];
    let usual = all.len();
    // These are surer to gain what is expected of them.
    for threads in [false, true].into_iter().filter(|threads| !threads || set.machine.threads > 1) {
        all.push(Box::new(move || ways(interior::interior(set, whole, path, sizes, threads))));
        all.push(Box::new(move || ways(pivots::cut(set, whole, path, threads))));
    }
    if large {
        all.push(Box::new(|| ways(in_columns(set, whole, path, sizes))));
    }
    let mut found = each_in_turn(&all, |way| {
        let Ways { made, refused } = way();
        (made.into_iter().filter_map(priced).collect::<Vec<_>>(), refused)
    });
    let surer = found.split_off(usual);
    let (mut best, mut refused): (Option<(f64, Made)>, _) = (None, None);
    for (made, why) in found {
        for (c, made) in made {
            if c < best.as_ref().map_or(least, |b| b.0) {
                best = Some((c, made));
            }
        }
        refused = refused.or(why);
    }
    let clear = rest + (cost(func) - rest) * SURELY;
    for (c, made) in surer.into_iter().flat_map(|found| found.0) {
        // What is on threads already is no surer than this.
        let gain = |other: &Made| match on_threads(&made, path) && !on_threads(other, path) {
            true => WITH_THREADS,
            false => 1.0,
        };
        if c < best.as_ref().map_or(clear, |b| rest + (b.0 - rest) * gain(&b.1)) {
            best = Some((c, made));
        }
    }
    (best.map(|b| b.1), refused)
}

/// What one way of scheduling a nest comes to, and why all of its loops cannot be scheduled together.
struct Ways {
    made: Vec<Made>,
    refused: Option<Diagnostic>,
}

fn ways(made: impl IntoIterator<Item = Made>) -> Ways {
    Ways { made: made.into_iter().collect(), refused: None }
}

/// New loops for the whole nest, in blocks or not.
fn of_all_loops(
    set: &Setting,
    whole: &Made,
    path: &Path,
    sizes: &BTreeMap<String, i64>,
    (least, rest): (f64, f64),
    cost: Cost,
) -> Ways {
    let mut made = Vec::new();
    let start = match expanded(set, whole, path, sizes) {
        Ok(start) => start,
        Err(d) => return Ways { made, refused: Some(d) },
    };
    if blocks(&whole.func, path, sizes) {
        let blocked =
            |w: &i64| lathe_analysis::within_work(NEST, || blocked::blocked(set, &start, path, *w, cost));
        let all: Vec<(Made, bool)> = each_in_turn(&BLOCKS, blocked).into_iter().flatten().collect();
        // No other form is as fast as rows that do not wait for one another, though the model may think so: it does not know how long
        // elements of one row wait.
        let solved = all.iter().any(|b| b.1);
        made.extend(all.into_iter().filter(|b| b.1 == solved).map(|b| b.0));
        if solved {
            return ways(made);
        }
    }
    let many = (path, large(set, &start, path, sizes), sizes);
    let refused = affine(set, &start, many, (least, rest), cost, &mut |m| made.extend(m)).err();
    Ways { made, refused }
}

/// Passes over independent columns block by block, on one thread and on several.
fn in_columns(set: &Setting, whole: &Made, path: &Path, sizes: &BTreeMap<String, i64>) -> Vec<Made> {
    let Some((made, over)) = columns::in_blocks(set, whole, path, sizes) else { return Vec::new() };
    let mut args = Args::default();
    args.push(None, Arg::Path(over));
    let threads = (set.machine.threads > 1).then(|| made.then(set, path, "parallel", &args).ok());
    [made].into_iter().chain(threads.flatten()).collect()
}

/// Whether loops of a nest run on threads.
fn on_threads(made: &Made, path: &Path) -> bool {
    let threads = |s: &Stmt| s.as_loop().is_some_and(|l| l.exec == lathe_ir::Executor::Cpu);
    visit::at(&made.func.body, path).is_some_and(|s| has(s, &threads))
}

/// Whether a nest may be worth blocks: it reduces, and its arrays are larger than a few blocks.
fn blocks(func: &Function, path: &Path, sizes: &BTreeMap<String, i64>) -> bool {
    reduces(func, path) && touched(func, path, sizes) > LEAST * LEAST * 8
}

/// The outermost loop of a nest on threads, each of which takes further iterations when it is done with its own: where inner
/// loops are sums in lanes, or their ranges depend on data, such as rows of sparse matrices. Others have affine schedules.
fn rows(set: &Setting, whole: &Made, path: &Path, cost: Cost) -> Vec<Made> {
    let Some(l) = visit::at(&whole.func.body, path).and_then(Stmt::as_loop) else { return Vec::new() };
    let by_data = |s: &Stmt| {
        s.as_loop().is_some_and(|l| [&l.lo, &l.hi].into_iter().any(|e| !visit::loads_of(e).is_empty()))
    };
    if set.machine.threads < 2 || !has(&l.body, &repeats) {
        return Vec::new();
    }
    let mut args = Args::default();
    args.push(None, Arg::Path(l.binder.name.to_string()));
    let of_data = has(&l.body, &|s| by_data(s) || matches!(s.kind(), StmtKind::While { .. }));
    let lanes = sums::in_lanes(set, whole, path, cost);
    let inner = of_data.then(|| sums::in_registers(set, whole, path).unwrap_or_else(|| whole.clone()));
    let on_threads = |m: Made| {
        let alone = cost(&m.func);
        let made = m.then(set, path, "parallel", &args).ok();
        made.filter(|m| of_data || cost(&m.func) < alone * WITH_THREADS)
    };
    lanes.into_iter().chain(inner).filter_map(on_threads).collect()
}

pub(super) fn large(set: &Setting, made: &Made, path: &Path, sizes: &BTreeMap<String, i64>) -> bool {
    touched(&made.func, path, sizes) > LARGE.saturating_mul(set.machine.l2_bytes as i64)
}

/// Time steps over rows, in tiles of both, whose rows are in lanes: tiles of one row are long; of several, so short that the
/// rows that an element follows from stay in the first cache.
fn rows_in_time(set: &Setting, start: &Made, path: &Path, cost: Cost) -> Option<Made> {
    let nest = visit::at(&start.func.body, path)?;
    let (mut depth, mut bytes) = (0, 8);
    visit::walk(nest, &mut |s, p| {
        bytes = s.accesses().map(|(a, _)| a.elem.bytes() as i64).fold(bytes, |n, b| n.min(b.max(1)));
        let above =
            (0..=p.len()).filter(|n| visit::at(nest, &p[..*n]).is_some_and(|s| s.as_loop().is_some()));
        depth = depth.max(above.count());
        true
    });
    if !(2..=3).contains(&depth) || !in_time(nest) || reduces(&start.func, path) {
        return None;
    }
    let lanes = (set.machine.vector_bytes as i64 / bytes).max(2);
    let tiled = |steps: i64| {
        let mut all = vec![
            ("vector", Word::Number(lanes)),
            ("tile", Word::Number(steps)),
            ("lanes", Word::Name("none")),
        ];
        all.extend((depth > 2).then_some(("row", Word::Number(ROW / bytes))));
        arguments(&all)
    };
    let args = if depth == 2 {
        tiled(STEPS[0])
    } else {
        // Only the one that is expected to be the fastest is checked.
        let cursor = Cursor { focus: path.clone(), ..Cursor::new(set.module, &start.func) };
        let all = STEPS.map(tiled);
        let best = lathe_transform::affine_schedule::proposing(&cursor, |proposals| {
            let expected = all.iter().filter_map(|a| {
                let planned = proposals.planned(a).ok()?;
                Some((cost(&proposals.made(planned).ok()?), a))
            });
            expected.min_by(|a, b| a.0.total_cmp(&b.0)).map(|b| b.1.clone())
        });
        best.flatten()?
    };
    let made = start.then(set, path, "affine_schedule", &args).ok()?;
    Some(sums::others_in_lanes(set, &made, path, cost).unwrap_or(made))
}

/// A nest as its affine schedules take it.
///
/// # Errors
/// As [`apart`].
pub(super) fn expanded(
    set: &Setting,
    start: &Made,
    path: &Path,
    sizes: &BTreeMap<String, i64>,
) -> Result<Made, Diagnostic> {
    apart(set, start, path, (sizes, EXPANDED), &[])
}

/// Variables that are declared around inner loops get an element per iteration, so that they tie no iterations together;
/// except those that are to stay.
pub(super) fn apart(
    set: &Setting,
    start: &Made,
    path: &Path,
    (sizes, most): (&BTreeMap<String, i64>, i64),
    stay: &[BufId],
) -> Result<Made, Diagnostic> {
    let mut made = start.clone();
    let nest = visit::at(&start.func.body, path);
    let Some((nest, outer)) = nest.and_then(|n| Some((n, n.as_loop()?))) else { return Ok(made) };
    let mut around: Vec<String> = Vec::new();
    visit::walk(nest, &mut |s, _| {
        let moves =
            |a: &(&Arc<Buffer>, &Stmt)| !stay.contains(&a.0.id) && has(a.1, &|s| s.as_loop().is_some());
        around.extend(s.as_alloc().filter(moves).map(|a| a.0.name.to_string()));
        true
    });
    // The step takes all of one name.
    around.sort();
    around.dedup();
    for name in around {
        let mut args = Args::default();
        args.push(None, Arg::Path(name));
        args.push(Some("at"), Arg::Path(outer.binder.name.to_string()));
        made = made.then(set, path, "expand", &args)?;
    }
    let bytes = bytes(&made.func, sizes);
    let mut here = visit::at(&made.func.body, path);
    let mut total = 0i64;
    while let Some((b, inside)) = here.and_then(Stmt::as_alloc) {
        total = total.saturating_add(bytes(b));
        here = Some(inside);
    }
    if total > most {
        let text = "expanding its variables to an element per iteration would take too much memory";
        return Err(Diagnostic::error(lathe_transform::codes::UNSUPPORTED, text.to_string()));
    }
    Ok(made)
}

/// Whether the arrays that a function allocates take little more than those of another one.
pub(super) fn takes_no_more(func: &Function, than: &Function, sizes: &BTreeMap<String, i64>) -> bool {
    let all = |f: &Function| {
        let (bytes, mut total) = (bytes(f, sizes), 0i64);
        visit::walk(&f.body, &mut |s, _| {
            // Extents that follow a loop are those of a block.
            let known = |b: &&Arc<Buffer>| bytes(b) < i64::MAX;
            s.allocated().filter(known).into_iter().for_each(|b| total = total.saturating_add(bytes(b)));
            true
        });
        total
    };
    all(func) <= all(than).saturating_add(EXPANDED)
}

/// Bytes of all arrays that a nest touches.
fn touched(func: &Function, path: &Path, sizes: &BTreeMap<String, i64>) -> i64 {
    let mut here = HashSet::new();
    if let Some(nest) = visit::at(&func.body, path) {
        visit::walk(nest, &mut |s, _| {
            here.extend(s.accesses().filter_map(|(a, _)| a.view.buffer()));
            let loads = s.exprs().into_iter().flat_map(visit::loads_of);
            here.extend(loads.filter_map(|a| a.view.buffer()));
            true
        });
    }
    let bytes = bytes(func, sizes);
    let mut total = 0i64;
    let mut add = |b: &Buffer| {
        if here.contains(&b.id) {
            total = total.saturating_add(bytes(b));
        }
    };
    func.params.iter().filter_map(Param::array).for_each(|b| add(b));
    visit::walk(&func.body, &mut |s, _| {
        s.allocated().into_iter().for_each(|b| add(b));
        true
    });
    total
}

/// The outermost loops that are not vectorized yet.
fn nests(body: &Stmt) -> Vec<Path> {
    let mut out = Vec::new();
    visit::walk(body, &mut |s, p| {
        if s.as_loop().is_some_and(|l| l.exec == lathe_ir::Executor::Serial) && visit::leaves_lanes(s) {
            out.push(p.to_vec());
        }
        s.as_loop().is_none()
    });
    out
}
