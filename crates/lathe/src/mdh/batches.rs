//! Nests over one range, such as the heads of attention or the images of a batch, of which one passes arrays on to the next: where these are
//! larger than the second cache, but what one iteration passes on is not, the nests run one iteration after the other, with arrays for one.

use super::arrays::bytes;
use super::made::{Costs, Made, label};
use super::setting::Setting;
use crate::applied::Version;
use lathe_ir::interp::evaluate;
use lathe_ir::names;
use lathe_ir::visit::{self, Path};
use lathe_ir::{BufId, Buffer, Executor, Function, Loop, Space, Stmt};
use lathe_transform::names::labels_in;
use lathe_transform::{Arg, Args};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Outermost loops that are looked at.
const LOOPS: usize = 64;
/// What the model may make of the fused nests: it knows little of which parts of an array a cache still holds.
const AT_MOST: f64 = 1.02;

/// The version with such nests fused.
pub(super) fn fused(set: &Setting, v: Version, sizes: &BTreeMap<String, i64>) -> Version {
    let start = Made::of(&v.func);
    let made = together(set, &start, sizes);
    let costs = Costs::new(sizes, set.machine);
    let fits = |m: &Made| costs.of(&m.func) <= costs.of(&start.func) * AT_MOST;
    match made.filter(fits) {
        Some(made) => made.after(v),
        None => v,
    }
}

fn together(set: &Setting, start: &Made, sizes: &BTreeMap<String, i64>) -> Option<Made> {
    let mut made = start.clone();
    let mut refused = HashSet::new();
    let mut groups: Vec<Group> = Vec::new();
    // The first loop of a group keeps its name, so that a fused pair is found again.
    while let Some(pair) = pair(set, &made.func, sizes, &refused) {
        match joined(set, &made, &pair) {
            Some(next) => {
                made = next;
                match groups.iter_mut().find(|g| g.at == pair.first) {
                    Some(group) => group.threads |= pair.threads,
                    None => groups.push(Group { at: pair.first.clone(), threads: pair.threads }),
                }
            }
            None => drop(refused.insert((pair.first, pair.second))),
        }
    }
    let step = |m: &Made, rule: &str, args: Vec<Arg>, at: Option<&String>| {
        let mut all = Args::default();
        args.into_iter().for_each(|a| all.push(None, a));
        at.into_iter().for_each(|n| all.push(Some("at"), Arg::Path(n.clone())));
        m.everywhere(set, rule, &all).ok()
    };
    for Group { at, threads } in groups.iter().rev() {
        for b in locals(&made.func) {
            made = step(&made, "localize", vec![Arg::Path(b.name.to_string())], Some(at)).unwrap_or(made);
        }
        if *threads {
            made = step(&made, "parallel", vec![Arg::Path(at.clone())], None)?;
        }
    }
    (!groups.is_empty()).then_some(made)
}

/// Fused loops: the name of the loop, and whether some of them ran on threads.
struct Group {
    at: String,
    threads: bool,
}

/// Two loops that could be one, by their names.
struct Pair {
    first: String,
    second: String,
    threads: bool,
}

fn joined(set: &Setting, start: &Made, pair: &Pair) -> Option<Made> {
    let step = |m: &Made, rule: &str, names: &[&String]| {
        let mut args = Args::default();
        names.iter().for_each(|n| args.push(None, Arg::Path((*n).clone())));
        m.everywhere(set, rule, &args).ok()
    };
    let mut made = start.clone();
    for name in [&pair.first, &pair.second].into_iter().filter(|_| pair.threads) {
        // Refused for what is serial already.
        made = step(&made, "serial", &[name]).unwrap_or(made);
    }
    step(&made, "fuse", &[&pair.first, &pair.second])
}

/// The first two loops, with none between them, across which one of their range passes much on to another.
fn pair(
    set: &Setting,
    func: &Function,
    sizes: &BTreeMap<String, i64>,
    refused: &HashSet<(String, String)>,
) -> Option<Pair> {
    let known = func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    let trips = |l: &Loop| evaluate(&l.hi, &known)?.checked_sub(evaluate(&l.lo, &known)?);
    let of = bytes(func, sizes);
    let (l1, l2) = (set.machine.l1_bytes as i64, set.machine.l2_bytes as i64);
    let locals = locals(func);
    let all = outermost(&func.body);
    let all: Vec<(&Path, &Loop)> = all.iter().filter_map(|p| Some((p, loop_at(func, p)?))).collect();
    let same = |a: &Loop, b: &Loop| a.lo == b.lo && a.hi == b.hi && a.step == 1 && b.step == 1;
    let runs = all.chunk_by(|a, b| same(a.1, b.1)).filter(|run| run.len() > 1);
    let sets = |run: &[(&Path, &Loop)], of: fn(&Stmt) -> HashSet<BufId>| -> HashSet<BufId> {
        run.iter().flat_map(|(_, l)| of(&l.body)).collect()
    };
    let pairs = runs.flat_map(|run| (1..run.len()).map(move |n| run.split_at(n)));
    pairs.into_iter().find_map(|(before, behind)| {
        let ((first, a), (second, b)) = (before.last()?, behind.first()?);
        let n = trips(a).filter(|n| *n > 1)?;
        let threads = [a, b].iter().any(|l| l.exec == Executor::Cpu);
        let shared = !threads || n % set.machine.threads.max(1) as i64 == 0;
        let much = |b: &Arc<Buffer>| of(b) > l2 && (l1..=l2).contains(&(of(b) / n));
        let (written, touched) = (sets(before, written), sets(behind, touched));
        let passes = locals.iter().any(|b| written.contains(&b.id) && touched.contains(&b.id) && much(b));
        let name = |path: &Path, l: &Loop| names::around(label(&func.body, path), &l.binder.name);
        let pair = Pair { first: name(first, a), second: name(second, b), threads };
        let new = !refused.contains(&(pair.first.clone(), pair.second.clone()));
        (passes && shared && new).then_some(pair)
    })
}

fn loop_at<'f>(func: &'f Function, path: &Path) -> Option<&'f Loop> {
    let s = visit::at(&func.body, path)?;
    s.as_loop().filter(|l| matches!(l.exec, Executor::Serial | Executor::Cpu))
}

/// The outermost loops of a function that do something, as many as are looked at.
fn outermost(body: &Stmt) -> Vec<Path> {
    let mut out = Vec::new();
    visit::walk(body, &mut |s, p| {
        let named = s.as_loop().filter(|_| !labels_in(s).is_empty());
        out.extend(named.map(|_| p.to_vec()));
        s.as_loop().is_none()
    });
    out.truncate(LOOPS);
    out
}

fn written(s: &Stmt) -> HashSet<BufId> {
    let mut out = HashSet::new();
    visit::walk(s, &mut |s, _| {
        out.extend(s.accesses().filter(|(_, mode)| mode.writes()).filter_map(|(a, _)| a.view.buffer()));
        true
    });
    out
}

fn touched(s: &Stmt) -> HashSet<BufId> {
    let mut out = written(s);
    visit::walk(s, &mut |s, _| {
        let loads = s.exprs().into_iter().flat_map(visit::loads_of);
        out.extend(loads.filter_map(|a| a.view.buffer()));
        true
    });
    out
}

/// Arrays in memory that the function allocates outside of loops.
fn locals(func: &Function) -> Vec<Arc<Buffer>> {
    let mut out = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        out.extend(s.allocated().filter(|b| b.space == Space::Host).cloned());
        s.as_loop().is_none()
    });
    out
}
