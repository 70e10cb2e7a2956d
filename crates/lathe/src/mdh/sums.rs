//! Reductions that run innermost in a nest: partial results in lanes, where the elements lie side by side in memory.

use super::made::{Cost, Made};
use super::setting::Setting;
use lathe_ir::interp::evaluate;
use lathe_ir::names::{self, Role};
use lathe_ir::stmt::block::{self, Item};
use lathe_ir::visit::{self, Path};
use lathe_ir::{
    Access, BufId, Executor, Function, Loop, Param, ReduceOp, Space, Stmt, StmtKind, VarId, build,
};
use lathe_poly::{Affine, Linear, constant_trips};
use lathe_target::{Machine, Masks};
use lathe_transform::names::labels_in;
use lathe_transform::{Arg, Args};
use std::collections::BTreeMap;

/// Vectors of partial results side by side, and how many there are where the latency of two would take longer than their loads.
const VECTORS: i64 = 2;
const MANY: i64 = 4;
/// These must take so much of the time: their rest is longer, and who waits for the result waits for one more sum.
const CLEARLY: f64 = 0.9;
/// Vectors of a row that are computed at a time, where the loop's own instructions would take longer than a longer rest.
const WIDE: [i64; 2] = [2, 4];
/// Loops that are looked at in one nest.
const LOOPS: usize = 8;
/// Blocks of a loop for each thread, and the fewest iterations of one.
const BLOCKS: i64 = 4;
const BLOCK: i64 = 1 << 14;

/// The nest with every such loop in lanes; `None` if there is none that takes them.
pub(super) fn in_lanes(set: &Setting, start: &Made, nest: &Path, cost: Cost) -> Option<Made> {
    let mut made = start.clone();
    let mut found = loops(&start.func, nest);
    found.truncate(LOOPS);
    // From the last one to the first: paths of earlier ones stay what they are.
    for (path, names) in found.into_iter().rev() {
        let l = visit::at(&made.func.body, &path).and_then(Stmt::as_loop);
        let by_data = l.is_some_and(|l| [&l.lo, &l.hi].into_iter().any(|e| !visit::loads_of(e).is_empty()));
        let rest = match by_data {
            // Of short rows the end is guessed wrong less often where lanes are masked out than where they have a loop.
            true if set.machine.masks == Masks::Cheap => Rest::Masked,
            true => Rest::Apart,
            false => Rest::Parts,
        };
        let some = |vectors: i64| one(set, &made, &path, &names, rest, vectors);
        let many = || (rest == Rest::Parts && names.waits(set.machine)).then(|| some(MANY)).flatten();
        let found = some(VECTORS).map(|two| match many() {
            Some(many) if clearly(&made, &path, &two, &many, cost) => many,
            _ => two,
        });
        made = found.unwrap_or(made);
    }
    (made.steps.len() > start.steps.len()).then_some(made)
}

/// Whether the loop of sums at a path takes clearly less time as the second form has it.
fn clearly(start: &Made, path: &Path, a: &Made, b: &Made, cost: Cost) -> bool {
    let Some(s) = visit::at(&start.func.body, path) else { return false };
    let Some(l) = s.as_loop() else { return false };
    // What else the function does is the same, with lanes in the nest.
    let (lo, hi, exec) = (build::index(0), build::index(0), Executor::Vector(2));
    let nothing = s.with_kind(StmtKind::Loop(Loop { lo, hi, exec, body: Stmt::empty(), ..l.clone() }));
    let Some(body) = visit::replace_at(&start.func.body, path, nothing) else { return false };
    let others = cost(&Function { body, ..start.func.clone() });
    cost(&b.func) - others < (cost(&a.func) - others) * CLEARLY
}

/// The nest with its other innermost loops in lanes, as far as they take them: where a schedule makes some lanes in a nest, no compiler
/// below makes others ([`visit::leaves_lanes`]).
pub(super) fn others_in_lanes(set: &Setting, start: &Made, nest: &Path, cost: Cost) -> Option<Made> {
    let mut found: Vec<(Path, String, i64)> = Vec::new();
    visit::walk(visit::at(&start.func.body, nest)?, &mut |s, p| {
        if let Some((name, lanes)) = row(set, s) {
            found.push((nest.iter().chain(p).copied().collect(), name, lanes));
        }
        true
    });
    let mut made = start.clone();
    for (path, name, lanes) in found.into_iter().rev() {
        let wide = |vectors: i64| {
            let mut args = Args::default();
            args.push(None, Arg::Path(name.clone()));
            args.push(None, Arg::Int(lanes * vectors));
            args.push(Some("tail"), Arg::Path("separate".to_string()));
            made.then(set, &path, "vectorize", &args).ok().map(|m| (cost(&m.func), m))
        };
        // What one vector cannot do, more cannot either.
        let one = wide(1);
        let more = one.is_some().then(|| WIDE.into_iter().filter_map(wide)).into_iter().flatten();
        let best = one.into_iter().chain(more).min_by(|a, b| a.0.total_cmp(&b.0));
        made = best.map_or(made, |b| b.1);
    }
    (made.steps.len() > start.steps.len()).then_some(made)
}

/// The variable and lanes of a serial loop without loops in it that writes another element in every iteration. What only copies is
/// left: the compiler below makes one `memcpy` of it.
fn row(set: &Setting, s: &Stmt) -> Option<(String, i64)> {
    let l = s.as_loop().filter(|l| l.exec == Executor::Serial)?;
    let moves = |a: &Access| a.indices.iter().any(|e| visit::vars_of(e).contains(&l.binder.id));
    let (mut fits, mut bytes) = (!lathe_model::copies(l), 8);
    visit::walk(&l.body, &mut |s, _| {
        fits &= s.as_loop().is_none();
        for (a, mode) in s.accesses() {
            fits &= !mode.writes() || moves(a);
            bytes = bytes.min(a.elem.bytes().max(1) as i64);
        }
        fits
    });
    let lanes = (set.machine.vector_bytes as i64 / bytes).max(2);
    let short = Linear::difference(&l.hi, &l.lo).is_some_and(|n| n < lanes);
    (fits && !short).then(|| (l.binder.name.to_string(), lanes))
}

/// The nest with what loops that may end early combine into one element kept in a register: no compiler may put off the stores of
/// loops with checks in them. `None` if there are none.
pub(super) fn in_registers(set: &Setting, start: &Made, nest: &Path) -> Option<Made> {
    let mut found = Vec::new();
    visit::walk(visit::at(&start.func.body, nest)?, &mut |s, p| {
        let Some(l) = s.as_loop().filter(|l| l.exec == Executor::Serial) else { return true };
        let (mut checks, mut sums) = (false, Vec::new());
        for item in block::flat(&l.body) {
            let Item::Do(s) = item else { continue };
            checks |= matches!(s.kind(), StmtKind::Check { .. });
            let stays = |a: &&Access| !a.indices.iter().any(|e| visit::vars_of(e).contains(&l.binder.id));
            let target = s.as_reduce().and_then(|r| r.targets.first()).filter(stays);
            if let (Some(t), Some(label)) = (target, s.label()) {
                let own = t.view.buffer().filter(|b| !is_register(&start.func, *b));
                sums.extend(own.map(|b| (b, names::around(label, &l.binder.name))));
            }
        }
        if checks && !sums.is_empty() {
            let at: Path = nest.iter().chain(p).copied().collect();
            found.push((at, sums));
        }
        true
    });
    let mut made = start.clone();
    for (path, sums) in found.into_iter().rev() {
        for (buffer, at) in sums {
            let mut args = Args::default();
            args.push(None, Arg::Path(array(&start.func, buffer)?));
            args.push(Some("at"), Arg::Path(at));
            made = made.then(set, &path, "accumulate", &args).unwrap_or(made);
        }
    }
    (made.steps.len() > start.steps.len()).then_some(made)
}

/// Whether a buffer is in registers already.
fn is_register(func: &Function, id: BufId) -> bool {
    let mut found = false;
    visit::walk(&func.body, &mut |s, _| {
        found |= s.allocated().is_some_and(|b| b.id == id && b.space == Space::Register);
        !found
    });
    found
}

/// The loop of a nest in blocks for threads, each with partial results of its own, and these in lanes; `None` if the nest
/// is no such loop, or is too short.
pub(super) fn on_threads(
    set: &Setting,
    start: &Made,
    nest: &Path,
    sizes: &BTreeMap<String, i64>,
) -> Option<Made> {
    let threads = set.machine.threads as i64;
    let s = visit::at(&start.func.body, nest)?;
    let (l, names) = (s.as_loop()?, summed(&start.func, s)?);
    let known = start.func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    let n = evaluate(&l.hi, &known)?.checked_sub(evaluate(&l.lo, &known)?)?;
    let whole = set.machine.vector_bytes as i64 * VECTORS;
    let block = n.checked_div(BLOCKS * threads)?.max(BLOCK) / whole * whole;
    if threads < 2 || n < 2 * block {
        return None;
    }
    let own = names::around(&names.labels[0], &names.var);
    let (outer, inner) = (Role::Outer.of(&own), Role::Inner.of(&names.var));
    let step =
        |m: &Made, rule: &str, args: Vec<Arg>, name: Option<&String>| m.naming(set, nest, rule, args, name);
    let at = |path: &String| Arg::Path(path.clone());
    let mut made = step(start, "split", vec![Arg::Path(own), Arg::Int(block)], None)?;
    let mut arrays = Vec::new();
    for array in &names.arrays {
        let part = Role::Cores.numbered(array, 1);
        made = step(&made, "privatize", vec![at(array), at(&outer)], Some(&part))?;
        arrays.push(part);
    }
    made = one(set, &made, nest, &Names { arrays, var: inner, ..names }, Rest::Parts, VECTORS)?;
    step(&made, "parallel", vec![at(&outer)], None)
}

/// Reductions of one loop: labels, the arrays that they combine into, each once, and the loop's variable.
struct Names {
    labels: Vec<String>,
    arrays: Vec<String>,
    var: String,
    bytes: i64,
    /// Elements that an iteration loads and the next one does not.
    loads: usize,
    /// Instructions that combine.
    combine: f64,
}

impl Names {
    /// Whether partial results wait for one another longer than for loads and arithmetic, were they [`VECTORS`] side by side.
    fn waits(&self, machine: &Machine) -> bool {
        let costs = &machine.costs;
        let busy = (self.loads as f64 / costs.loads_per_cycle).max(self.combine / costs.arithmetic_per_cycle);
        VECTORS as f64 * busy < machine.fma_latency as f64
    }
}

/// Serial loops around reductions, and stores to an element of their own, of which each iteration takes neighbouring elements.
fn loops(func: &Function, nest: &Path) -> Vec<(Path, Names)> {
    let mut out = Vec::new();
    let Some(root) = visit::at(&func.body, nest) else { return out };
    visit::walk(root, &mut |s, p| {
        if let Some(names) = summed(func, s) {
            out.push((nest.iter().chain(p).copied().collect(), names));
        }
        true
    });
    out
}

fn summed(func: &Function, s: &Stmt) -> Option<Names> {
    let l = s.as_loop().filter(|l| l.exec == Executor::Serial && l.step == 1)?;
    let v = l.binder.id;
    let moves = |a: &Access| a.indices.iter().any(|e| visit::vars_of(e).contains(&v));
    let (mut labels, mut arrays, mut bytes, mut left) = (Vec::new(), Vec::new(), 1, vec![&l.body]);
    let (mut loaded, mut combine): (Vec<Access>, f64) = (Vec::new(), 0.0);
    while let Some(s) = left.pop() {
        if let Some(all) = s.as_seq() {
            left.extend(all.iter().rev());
            continue;
        }
        // Lanes check their subscripts together.
        if matches!(s.kind(), StmtKind::Check { .. }) {
            continue;
        }
        // What an iteration stores beside is its own.
        if let Some(st) = s.as_store() {
            let own = moves(&st.target) && next(&st.target, v);
            let loads = visit::loads_of(&st.value);
            if !own || !loads.iter().all(|a| !moves(a) || next(a, v) || gathered(a)) {
                return None;
            }
            continue;
        }
        let (label, r) = (s.label()?, s.as_reduce()?);
        // What several values are combined into has a name for each, and the first stands for all.
        let target = r.targets.first()?;
        let loads: Vec<Access> = r.values.iter().flat_map(visit::loads_of).collect();
        let fits = r.licence && !r.targets.iter().any(moves) && loads.iter().any(moves);
        if !fits || !loads.iter().all(|a| !moves(a) || next(a, v) || gathered(a)) {
            return None;
        }
        labels.push(label.to_string());
        let array = array(func, target.view.buffer()?)?;
        if !arrays.contains(&array) {
            arrays.push(array);
        }
        bytes = r.targets.iter().map(|t| t.elem.bytes() as i64).fold(bytes, i64::max);
        let new = loads.into_iter().filter(|a| moves(a) && !loaded.contains(a)).collect::<Vec<_>>();
        loaded.extend(new);
        combine += match &r.op {
            // What is no number goes through.
            ReduceOp::Min | ReduceOp::Max if target.elem.is_float() => 4.0,
            ReduceOp::ArgMin | ReduceOp::ArgMax | ReduceOp::User(_) => 8.0,
            _ => 1.0,
        };
    }
    let (var, loads) = (l.binder.name.to_string(), loaded.len());
    (!labels.is_empty()).then_some(Names { labels, arrays, var, bytes, loads, combine })
}

pub(super) fn array(func: &Function, id: BufId) -> Option<String> {
    let mut out =
        func.params.iter().filter_map(Param::array).find(|b| b.id == id).map(|b| b.name.to_string());
    visit::walk(&func.body, &mut |s, _| {
        out = out.take().or_else(|| s.allocated().filter(|b| b.id == id).map(|b| b.name.to_string()));
        out.is_none()
    });
    out
}

/// Whether the next iteration takes the next element in memory, or the one before.
fn next(a: &Access, v: VarId) -> bool {
    let Some((last, others)) = a.indices.split_last() else { return false };
    let outside = others.iter().all(|e| !visit::vars_of(e).contains(&v));
    outside && Affine::of(last).is_some_and(|f| f.coefficient(&v).abs() == 1)
}

/// Whether data says which elements are taken: a lane gathers its own.
fn gathered(a: &Access) -> bool {
    a.indices.iter().any(|e| !visit::loads_of(e).is_empty())
}

/// What becomes of iterations that are no whole vector.
#[derive(Clone, Copy, PartialEq)]
enum Rest {
    /// They have a loop of their own, which adds to the partial results.
    Parts,
    /// The same, which adds to the element itself in a register: that waits for no vector, nor does a vector wait for it.
    Apart,
    /// They are lanes of a last vector, of which others are masked out.
    Masked,
}

/// The name of the array that a reduction combines into.
fn target(func: &Function, label: &str) -> Option<String> {
    let mut found = None;
    visit::walk(&func.body, &mut |s, _| {
        let of = s.as_reduce().filter(|_| s.label().is_some_and(|l| l.as_str() == label));
        found = found.take().or_else(|| of?.targets.first()?.view.buffer());
        found.is_none()
    });
    array(func, found?)
}

fn one(set: &Setting, start: &Made, path: &Path, names: &Names, rest: Rest, vectors: i64) -> Option<Made> {
    let lanes = set.machine.vector_bytes as i64 / names.bytes;
    if lanes < 2 {
        return None;
    }
    let Names { labels, var, arrays, .. } = names;
    let parts = if rest == Rest::Masked { lanes } else { lanes * vectors };
    let own = names::around(&labels[0], var);
    let (outer, inner) = (Role::Outer.of(&own), Role::Inner.of(&own));
    let step = |m: &Made, rule: &str, args: Vec<Arg>, named: &[(&str, &str)]| {
        let mut all = Args::default();
        args.into_iter().for_each(|a| all.push(None, a));
        named.iter().for_each(|(n, v)| all.push(Some(n), Arg::Path((*v).to_string())));
        m.then(set, path, rule, &all).ok()
    };
    let at = |path: &String| Arg::Path(path.clone());
    let (mut made, mut arrays) = (start.clone(), arrays.clone());
    if rest == Rest::Apart {
        for array in &arrays {
            made = step(&made, "accumulate", vec![at(array)], &[("at", &own)])?;
        }
        arrays = labels.iter().map(|label| target(&made.func, label)).collect::<Option<_>>()?;
        arrays.dedup();
    }
    made = step(&made, "split", vec![Arg::Path(own), Arg::Int(parts)], &[])?;
    if rest == Rest::Apart {
        made = step(&made, "separate", vec![at(&outer)], &[])?;
    }
    let mut first = Vec::new();
    for array in &arrays {
        let before = made.func.clone();
        made = step(&made, "factor", vec![at(array), at(&inner)], &[("at", &outer), ("combine", "tree")])?;
        first.extend(first_values(&before, &made.func).into_iter().map(|l| names::dimension(l, 0)));
    }
    if rest == Rest::Parts {
        made = step(&made, "separate", vec![at(&outer)], &[]).unwrap_or(made);
    }
    made = step(&made, "vectorize", vec![at(&inner), Arg::Int(lanes)], &[])?;
    // What follows makes it faster where it can be done.
    let mut more = |rule: &str, path: String, number: Option<i64>| {
        let args = std::iter::once(Arg::Path(path)).chain(number.map(Arg::Int)).collect();
        if let Some(next) = step(&made, rule, args, &[]) {
            made = next;
        }
    };
    more("unroll", Role::Outer.of(&inner), None);
    if rest == Rest::Parts {
        let rest = Role::Rest.of(&inner);
        more("vectorize", rest.clone(), Some(lanes));
        more("unroll", Role::Outer.of(rest), None);
    }
    for first in first {
        more("vectorize", first.clone(), Some(lanes));
        more("unroll", Role::Outer.of(first), None);
    }
    for label in labels {
        for round in 0..(parts / 2).max(1).ilog2() {
            let pairs = (parts / 2) >> round;
            let parts = Role::Parts.of(Role::Halve.nth(label, round as usize));
            more("vectorize", parts, Some(pairs.min(lanes)));
        }
        more("fma", label.clone(), None);
    }
    Some(if rest == Rest::Parts { made } else { written_out(set, made, path) })
}

/// The nest with its loops of one iteration written out, which keep what they index from registers: rows may be as short as they are.
fn written_out(set: &Setting, mut made: Made, nest: &Path) -> Made {
    let mut once = Vec::new();
    if let Some(s) = visit::at(&made.func.body, nest) {
        visit::walk(s, &mut |s, _| {
            let l = s.as_loop().filter(|l| l.exec == Executor::Serial && constant_trips(l) == Some(1));
            once.extend(l.map(|l| l.binder.name.to_string()));
            true
        });
    }
    for name in once {
        let mut args = Args::default();
        args.push(None, Arg::Path(name));
        made = made.then(set, nest, "unroll", &args).unwrap_or(made);
    }
    made
}

/// The labels of the statements that give partial results their first values.
fn first_values(before: &Function, after: &Function) -> Vec<String> {
    let known = labels_in(&before.body);
    let mut out = Vec::new();
    visit::walk(&after.body, &mut |s, _| {
        out.extend(s.as_store().map(|st| st.label.to_string()).filter(|l| !known.contains(l)));
        true
    });
    out
}
