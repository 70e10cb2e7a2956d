//! `auto` for sizes that are not known: versions for sizes of several shapes, and which of them is for which sizes.
//!
//! Decisions are made for a few examples: all sizes large, one of them small, all of them moderate. The model says what each
//! version costs at sizes all over the range and beyond, and a decision list (Rivest, Learning Decision Lists, 1987) of at
//! most [`MOST`] versions is made greedily, from each of them: in front of what there is comes the version, with the condition
//! on sizes, that lowers most what is lost beside the fastest version everywhere. A version in front of itself is one, with both
//! conditions.
//!
//! Where arrays may become larger than caches, two more versions may come in front of the list: one of those that there are, since
//! there rows are read a few at a time, and one for arrays that no cache holds, of which what is stored passes by the caches, and
//! sums run in blocks. On several threads it is one, for products of few rows with a matrix of which each thread's part is so large.

use super::DEFAULT_MODEL;
use super::setting::{Setting, Wanted};
use crate::applied::Version;
use crate::parallel::each;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Executor, Function, digest, visit};
use lathe_mdh::sizes::{self, Thin};
use lathe_model::{Estimate, estimates_with_sets};
use lathe_space::{BinOp, Expr, Value, Values, eval};
use lathe_strategy::Context;
use lathe_target::Machine;
use std::collections::{BTreeMap, HashSet};

type Sizes = BTreeMap<String, i64>;

/// So many versions serve all sizes, at most: each is compiled. On several threads it is one more, since small sizes run on one
/// there, and of large ones few rows, few columns and many of both are shared among threads in different ways.
const MOST: usize = 3;

/// A size that is small beside large ones: less than a vector. About one vector is the other.
const THIN: i64 = 2;

/// Sizes of which none is large.
const MODERATE: i64 = 32;

/// Rows beside a matrix that several threads read once.
const ROWS: i64 = 16;

/// Such a matrix is up to so many times as large as that of the examples.
const LARGER: u64 = 16;

/// So many sizes are made small in turn: decisions take time.
const TURNS: usize = 4;

/// Cycles of a call besides its loops: what is faster than this makes no difference.
const CALL: f64 = 2000.0;

/// A point beyond the examples counts for so many of the others, which there are more of.
const FAR_WEIGHT: f64 = 4.0;

/// Nodes that the model looks at for all points of a version: of large programs, whose estimates take long, it is asked about each
/// second point, or third, or fourth.
const LOOKS: usize = 1 << 17;
const STEP: usize = 4;

/// Powers of two that sizes, and the square roots of their product, are compared with: up to this one, and for the farthest.
const LIMITS: [u32; 2] = [10, 15];
const FAR_LIMITS: [u32; 2] = [28, 20];

/// What one more version must save on average, to be worth its code.
const WORTH: f64 = 0.01;

/// Fewer points than this are not worth several threads.
const SMALL: i64 = 1 << 15;

/// The versions, each with the condition under which it runs if none before it does; `best` decides for sizes as given.
///
/// # Errors
/// As [`super::versions`].
pub(super) fn any(
    w: &Wanted,
    context: &Context,
    known: &Sizes,
    best: fn(&Setting, &Context, &Sizes) -> Result<Version, Diagnostic>,
) -> Result<Vec<Version>, Diagnostic> {
    let large = sizes::examples(w.set.module, w.set.func, known);
    // Values of a search are for the sizes that it was for.
    let params = Values::new();
    let one = Machine { threads: 1, ..w.set.machine.clone() };
    let made = |(machine, sizes): &(&Machine, Sizes)| {
        best(&Setting { machine, params: &params, ..w.set }, context, sizes)
    };
    let mut first = made(&(w.set.machine, large.clone()))?;
    let free: Vec<&str> = large.keys().map(String::as_str).filter(|n| !known.contains_key(*n)).collect();
    if first.taken.computes.is_empty() {
        return on_many_or_one(w, first, || made(&(&one, large.clone())));
    }
    let text = format!(
        "decisions are for any sizes, as for {}: known sizes give faster code",
        free.iter().map(|n| format!("{n} = {}", large[*n])).collect::<Vec<_>>().join(", ")
    );
    first.notes.push(text);
    // The model is of CPUs.
    if w.set.model.is_some_and(|m| m != DEFAULT_MODEL) {
        return Ok(vec![first]);
    }
    let resized = |change: &dyn Fn(&str, i64) -> i64| -> Sizes {
        let one = |(n, v): (&String, &i64)| {
            (n.clone(), if free.contains(&n.as_str()) { change(n, *v).min(*v) } else { *v })
        };
        large.iter().map(one).collect()
    };
    let windows = sizes::windows(w.set.module, w.set.func);
    let turns = free.iter().filter(|n| !windows.iter().any(|w| w == **n)).take(TURNS);
    let lanes = lanes(w.set.func, w.set.machine);
    let thin = |name: &str, size: i64| resized(&|n, v| if n == name { size } else { v });
    let mut others: Vec<(&Machine, Sizes)> =
        turns.flat_map(|name| [THIN, lanes].map(|size| (w.set.machine, thin(name, size)))).collect();
    others.push((&one, resized(&|_, _| MODERATE)));
    if w.set.machine.threads > 1 {
        others.push((&one, large.clone()));
    }
    // An example that no decisions fit has no version.
    let mut versions = vec![first];
    versions.extend(each(&others, made).into_iter().flatten());
    different(&mut versions);
    let all = sizes::spread(w.set.module, w.set.func, known);
    let nodes = versions.iter().map(|v| v.func.body.nodes()).max().unwrap_or(0);
    let step = all.len().saturating_mul(usize::try_from(nodes).unwrap_or(usize::MAX)) / LOOKS;
    let step = step.clamp(1, STEP);
    let mut points: Vec<Sizes> = all.into_iter().step_by(step).collect();
    let mut near = points.len();
    let shared = w.set.machine.threads > 1;
    let far = sizes::far(w.set.module, w.set.func, known);
    // Where the examples themselves are beyond the second cache, several threads share them, each kind in its way.
    let beyond = !shared && !far.is_empty() || far.len() > 1;
    let mut thin = Vec::new();
    let more = if beyond {
        points.extend(sizes::spread_far(w.set.module, w.set.func, known));
        // Few rows beside a large matrix: what is copied for many rows is not worth its copy there.
        let few = sizes::thin(w.set.module, w.set.func, known, (LARGER, ROWS, 2));
        points.extend(few.into_iter().flat_map(|t| t.around));
        far
    } else if shared {
        thin = sizes::thin(w.set.module, w.set.func, known, (w.set.machine.threads, ROWS, 1));
        points.extend(thin.iter().flat_map(|t| t.around.clone()).take(Set::BITS as usize - near));
        thin.iter().map(|t| t.example.clone()).collect()
    } else {
        Vec::new()
    };
    let at = |points: &[Sizes], v: &Version| estimates_with_sets(&v.func, points, w.set.machine);
    let mut estimates: Vec<Vec<Estimate>> = each(&versions, |v| at(&points, v));
    let most = MOST + usize::from(shared);
    // What is shared among threads has fewer versions in front for arrays beyond the caches: the list itself knows how lines and
    // pages follow each other.
    let cycles = if shared { Estimate::cycles_beyond } else { Estimate::cycles };
    let costs: Vec<Vec<f64>> =
        estimates.iter().map(|e| e[..near].iter().map(|e| cost(cycles(e))).collect()).collect();
    let mut list = decision_list(&losses(&costs), &conditions(&free, &points[..near], LIMITS), most);
    if !more.is_empty() {
        // A set has no room for all of them: the last near ones have made the list.
        let over = points.len().saturating_sub(Set::BITS as usize).min(near);
        points.drain(near - over..near);
        estimates.iter_mut().for_each(|e| drop(e.drain(near - over..near)));
        near -= over;
        let more: Vec<(&Machine, Sizes)> = more.into_iter().map(|s| (w.set.machine, s)).collect();
        let mut more: Vec<Version> = each(&more, made).into_iter().flatten().collect();
        different(&mut more);
        let of_examples = versions.len();
        estimates.extend(each(&more, |v| at(&points, v)));
        versions.extend(more);
        let costs: Vec<Vec<f64>> =
            estimates.iter().map(|e| e.iter().map(|e| cost(e.cycles_beyond())).collect()).collect();
        let losses = losses(&costs);
        let weights: Vec<f64> =
            (0..points.len()).map(|p| if p < near { 1.0 } else { FAR_WEIGHT / step as f64 }).collect();
        let of_more: f64 = weights[near..].iter().sum();
        let now = points.iter().enumerate().map(|(n, p)| losses[taken(&list, p)][n]).collect();
        // What the list has already stands where it is best.
        let others = (0..of_examples).filter(|v| list.iter().all(|l| l.0 != *v)).collect();
        let all = weights.iter().sum::<f64>();
        let rule = Rule { candidates: others, most: MOST + 1, least: WORTH * all, weights };
        let conditions = conditions(&free, &points, FAR_LIMITS);
        let start = in_front((now, list), &losses, &conditions, &rule);
        let candidates = (of_examples..losses.len()).collect();
        let rule = Rule { candidates, most: start.1.len() + 1, least: WORTH * of_more, ..rule };
        // Those beyond the caches are for large sizes, and those for a few rows are for few, whatever the model says of others, and for
        // so much work in all: what was asked about begins at the sizes of the examples, which are no limit of the others.
        let of_them: Vec<(Set, Expr)> = if beyond {
            conditions.into_iter().filter(|c| is_from(&c.1)).collect()
        } else {
            let few = conditions_of(&free, &points, FAR_LIMITS, &[BinOp::Lt]);
            few.into_iter().filter(|c| is_thin(&c.1, &thin)).collect()
        };
        list = in_front(start, &losses, &of_them, &rule).1;
        if let Some((_, Some(first))) = list.first_mut().filter(|l| l.0 >= of_examples && !beyond) {
            *first = halved(first, &thin);
        }
    }
    let take = |(n, condition): (usize, Option<Expr>)| Version { condition, ..versions[n].clone() };
    let mut out: Vec<Version> = list.into_iter().map(take).collect();
    let notes = std::mem::take(&mut versions[0].notes);
    out.iter_mut().for_each(|v| v.notes.clear());
    out[0].notes = notes;
    Ok(out)
}

/// Without those whose code others before have, too: a size that one nest out of many depends on changes little.
fn different(versions: &mut Vec<Version>) {
    let mut seen = HashSet::new();
    versions.retain(|v| seen.insert(digest(&v.func)));
}

/// What a call costs whose loops take so many cycles: small differences are alike at small and at large sizes.
fn cost(cycles: f64) -> f64 {
    (cycles + CALL).ln()
}

/// The version of a list that runs for some sizes.
fn taken(list: &List, sizes: &Sizes) -> usize {
    let value = |n: &str| sizes.get(n).map(|v| Value::Int(*v));
    let holds = |e: &Expr| eval(e, &value) == Ok(Value::Bool(true));
    list.iter().find(|(_, c)| c.as_ref().is_none_or(holds)).map_or(0, |v| v.0)
}

/// Elements of a vector, of the widest that the function's arrays have.
fn lanes(f: &Function, m: &Machine) -> i64 {
    let bytes = f.params.iter().filter_map(|p| p.array()).map(|b| b.elem.bytes()).max();
    i64::try_from(m.vector_bytes / bytes.unwrap_or(1).max(1)).unwrap_or(THIN).max(THIN)
}

/// What has no decisions for index notation: on all threads where the sizes multiply to much, on one elsewhere.
fn on_many_or_one(
    w: &Wanted,
    mut large: Version,
    small: impl FnOnce() -> Result<Version, Diagnostic>,
) -> Result<Vec<Version>, Diagnostic> {
    if w.set.machine.threads < 2 || !on_threads(&large.func) {
        return Ok(vec![large]);
    }
    let mut small = small()?;
    small.notes.clear();
    let names: Vec<&str> = w.set.func.sizes.iter().map(|b| &*b.name).collect();
    large.condition = product(&names).map(|p| compare(BinOp::Ge, p, SMALL));
    Ok(vec![large, small])
}

fn on_threads(f: &Function) -> bool {
    let mut found = false;
    visit::walk(&f.body, &mut |s, _| {
        found |= s.as_loop().is_some_and(|l| l.exec == Executor::Cpu);
        !found
    });
    found
}

fn product(names: &[&str]) -> Option<Expr> {
    let times = |a, b| Expr::Binary(BinOp::Mul, Box::new(a), Box::new(b));
    names.iter().map(|n| Expr::Name((*n).to_string())).reduce(times)
}

fn both(op: BinOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn compare(op: BinOp, a: Expr, value: i64) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(Expr::Value(Value::Int(value))))
}

/// A set of points.
type Set = u128;

/// The points of a set, in their order.
fn members(set: Set) -> impl Iterator<Item = usize> {
    let halves = [(0, set as u64), (64, (set >> 64) as u64)];
    halves.into_iter().flat_map(|(from, mut half)| {
        std::iter::from_fn(move || {
            let at = (half != 0).then(|| from + half.trailing_zeros() as usize);
            half &= half.wrapping_sub(1);
            at
        })
    })
}

/// Conditions on free sizes, with the points at which each holds: comparisons of a size, or of the product of all, with
/// a power of two below limits, and two of these together.
fn conditions(free: &[&str], points: &[Sizes], limits: [u32; 2]) -> Vec<(Set, Expr)> {
    conditions_of(free, points, limits, &[BinOp::Lt, BinOp::Ge])
}

/// The same, where sizes are compared by some operators only.
fn conditions_of(
    free: &[&str],
    points: &[Sizes],
    [sizes, roots]: [u32; 2],
    by: &[BinOp],
) -> Vec<(Set, Expr)> {
    let holding = |value: &dyn Fn(&Sizes) -> f64, op: BinOp, limit: i64| -> Set {
        let holds = |p: &Sizes| match op {
            BinOp::Lt => value(p) < limit as f64,
            _ => value(p) >= limit as f64,
        };
        points.iter().enumerate().filter(|(_, p)| holds(p)).fold(0, |set, (n, _)| set | 1 << n)
    };
    let mut single = Vec::new();
    for op in [BinOp::Lt, BinOp::Ge] {
        for name in free.iter().filter(|_| by.contains(&op)) {
            for limit in (1..sizes).map(|e| 1 << e) {
                let of = |p: &Sizes| p[*name] as f64;
                single.push((holding(&of, op, limit), compare(op, Expr::Name((*name).to_string()), limit)));
            }
        }
        if free.len() > 1
            && let Some(all) = product(free)
        {
            for limit in (3..roots).map(|e| 1 << (2 * e)) {
                let of = |p: &Sizes| free.iter().map(|n| p[*n] as f64).product();
                single.push((holding(&of, op, limit), compare(op, all.clone(), limit)));
            }
        }
    }
    let mut out: Vec<(Set, Expr)> = Vec::new();
    let mut add = |set: Set, e: &dyn Fn() -> Expr| {
        // The simplest of those that say the same of these points.
        if set != 0 && out.iter().all(|o| o.0 != set) {
            out.push((set, e()));
        }
    };
    for (set, e) in &single {
        add(*set, &|| e.clone());
    }
    for (n, (a, x)) in single.iter().enumerate() {
        for (b, y) in &single[n + 1..] {
            add(a & b, &|| both(BinOp::And, x.clone(), y.clone()));
        }
    }
    out
}

/// Whether a condition holds from some sizes on.
fn is_from(e: &Expr) -> bool {
    match e {
        Expr::Binary(BinOp::And, a, b) => is_from(a) && is_from(b),
        Expr::Binary(op, ..) => *op == BinOp::Ge,
        _ => false,
    }
}

/// Whether a condition holds only where one of some sizes is small.
fn is_thin(e: &Expr, thin: &[Thin]) -> bool {
    match e {
        Expr::Binary(BinOp::And, a, b) => is_thin(a, thin) || is_thin(b, thin),
        Expr::Binary(BinOp::Lt, a, b) => thin.iter().any(|t| {
            **a == Expr::Name(t.size.clone()) && matches!(**b, Expr::Value(Value::Int(n)) if n <= t.below)
        }),
        _ => false,
    }
}

/// The same for half as many rows: the model knows too little of results that come again with each block of the sum. (60 x 1024 x 1024
/// would take 1.2 times as long as with packed columns, 30 x 1024 x 1024 as long.)
fn halved(e: &Expr, thin: &[Thin]) -> Expr {
    match e {
        Expr::Binary(op @ (BinOp::And | BinOp::Or), a, b) => both(*op, halved(a, thin), halved(b, thin)),
        Expr::Binary(BinOp::Lt, a, b) if is_thin(e, thin) => match **b {
            Expr::Value(Value::Int(n)) if thin.iter().any(|t| t.below == n) => {
                Expr::Binary(BinOp::Lt, a.clone(), Box::new(Expr::Value(Value::Int(n / 2))))
            }
            _ => e.clone(),
        },
        _ => e.clone(),
    }
}

/// What each version loses at each point beside the fastest one there, of the logarithm of the cycles of every version at
/// every point. To be many times slower at a few points is worse than to be a little slower at many.
fn losses(costs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let points = costs.first().map_or(0, Vec::len);
    let least: Vec<f64> =
        (0..points).map(|p| costs.iter().map(|c| c[p]).fold(f64::INFINITY, f64::min)).collect();
    let loss = |(cost, least): (&f64, &f64)| (cost - least) + (cost - least).powi(2);
    costs.iter().map(|c| c.iter().zip(&least).map(loss).collect()).collect()
}

/// Versions by their number, each with its condition, the last without one; `losses` says what every version loses at every
/// point.
fn decision_list(losses: &[Vec<f64>], conditions: &[(Set, Expr)], most: usize) -> List {
    let from = |default| list_before(default, losses, conditions, most);
    let all = (0..losses.len()).map(from);
    all.min_by(|a, b| a.0.total_cmp(&b.0)).map(|best| best.1).unwrap_or_default()
}

/// What is put in front of one version, and what is lost in all, with what versions must be worth.
fn list_before(default: usize, losses: &[Vec<f64>], conditions: &[(Set, Expr)], most: usize) -> (f64, List) {
    let start = (losses[default].clone(), vec![(default, None)]);
    let weights = vec![1.0; losses[default].len()];
    let least = WORTH * weights.len() as f64;
    let rule = Rule { candidates: (0..losses.len()).collect(), most, least, weights };
    let (now, out) = in_front(start, losses, conditions, &rule);
    let versions = WORTH * (now.len() * out.len()) as f64;
    (now.iter().sum::<f64>() + versions, out)
}

/// Versions by their number, each with its condition.
type List = Vec<(usize, Option<Expr>)>;

/// What may come in front of a list.
struct Rule {
    candidates: Vec<usize>,
    /// Versions of the list in the end.
    most: usize,
    /// What each must save in all.
    least: f64,
    /// How much each point counts.
    weights: Vec<f64>,
}

/// A condition of [`conditions`], with one more of them beside it where the gain is then larger than `least`.
fn narrowed(
    (set, condition): &(Set, Expr),
    least: f64,
    conditions: &[(Set, Expr)],
    gain: &dyn Fn(Set) -> f64,
) -> (Set, Expr) {
    let single = conditions.iter().filter(|c| !matches!(c.1, Expr::Binary(BinOp::And, ..)));
    let with = single.map(|(s, e)| (gain(s & set), s & set, e)).filter(|c| c.0 > least);
    match with.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((_, set, e)) => (set, both(BinOp::And, condition.clone(), e.clone())),
        None => (*set, condition.clone()),
    }
}

/// A list with what is worth to be in front of it, one after the other, and what is lost then at each point.
fn in_front(
    (mut now, mut out): (Vec<f64>, List),
    losses: &[Vec<f64>],
    conditions: &[(Set, Expr)],
    rule: &Rule,
) -> (Vec<f64>, List) {
    let points = now.len();
    while out.len() < rule.most {
        let mut found: Option<(f64, usize, usize)> = None;
        for v in &rule.candidates {
            let gain = |p: usize| rule.weights[p] * (now[p] - losses[*v][p]);
            let gains: Vec<f64> = (0..points).map(gain).collect();
            // No set of points gains more than those that gain something.
            let most: f64 = gains.iter().filter(|g| **g > 0.0).sum();
            if found.is_some_and(|f| most <= f.0) {
                continue;
            }
            for (c, (set, _)) in conditions.iter().enumerate() {
                let gain = members(*set).map(|p| gains[p]).sum();
                if found.is_none_or(|f| gain > f.0) {
                    found = Some((gain, *v, c));
                }
            }
        }
        let Some((gain, v, c)) = found.filter(|f| f.0 > rule.least) else { break };
        let gains =
            |set: Set| -> f64 { members(set).map(|p| rule.weights[p] * (now[p] - losses[v][p])).sum() };
        let (set, condition) = narrowed(&conditions[c], gain + rule.least, conditions, &gains);
        members(set).for_each(|p| now[p] = losses[v][p]);
        match out.first_mut().filter(|first| first.0 == v) {
            Some((_, Some(first))) => *first = both(BinOp::Or, condition, first.clone()),
            _ => out.insert(0, (v, Some(condition))),
        }
    }
    (now, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_takes_each_version_where_it_is_best_and_none_that_gains_little() {
        let sizes = |m: i64, n: i64| BTreeMap::from([("M".to_string(), m), ("N".to_string(), n)]);
        let points: Vec<Sizes> =
            [1, 4, 20, 100, 700].iter().flat_map(|m| [1, 6, 50, 300].map(|n| sizes(*m, n))).collect();
        let all = conditions(&["M", "N"], &points, LIMITS);
        let of = |cost: &dyn Fn(i64, i64) -> f64| -> Vec<f64> {
            points.iter().map(|p| cost(p["M"], p["N"])).collect()
        };
        let general = of(&|_, _| 10.0);
        let thin = of(&|_, n| if n < 8 { 9.0 } else { 13.0 });
        let product = of(&|m, n| if m * n >= 4096 { 8.0 } else { 12.0 });
        let hardly = of(&|m, _| if m == 1 { 9.98 } else { 11.0 });
        let text = |list: Vec<(usize, Option<Expr>)>| -> Vec<(usize, String)> {
            list.into_iter().map(|(v, c)| (v, c.map_or(String::new(), |c| c.to_string()))).collect()
        };
        let got = text(decision_list(&[general.clone(), thin, product, hardly.clone()], &all, MOST));
        assert_eq!(
            got.iter().map(|(v, c)| (*v, c.as_str())).collect::<Vec<_>>(),
            [(1, "N < 8 and M * N < 1024"), (2, "M * N >= 4096"), (0, "")]
        );
        assert_eq!(text(decision_list(&[general, hardly], &all, MOST)), [(0, String::new())]);
    }

    /// The conditions and versions of the list for two versions: one that costs 10 everywhere, and one that is better where `wins` holds.
    fn lists(wins: &dyn Fn(i64, i64, i64) -> bool, elsewhere: f64) -> Vec<(usize, String)> {
        let names = ["M", "N", "K"].map(str::to_string);
        let sizes = [1, 4, 20, 100];
        let all = sizes.iter().flat_map(|m| sizes.iter().flat_map(move |n| sizes.map(|k| [*m, *n, k])));
        let points: Vec<Sizes> = all.map(|p| names.iter().cloned().zip(p).collect()).collect();
        let conditions = conditions(&["M", "N", "K"], &points, LIMITS);
        let cost = |p: &Sizes| if wins(p["M"], p["N"], p["K"]) { 9.0 } else { elsewhere };
        let costs = [vec![10.0; points.len()], points.iter().map(cost).collect()];
        let list = decision_list(&losses(&costs), &conditions, MOST);
        list.into_iter().map(|(v, c)| (v, c.map_or(String::new(), |c| c.to_string()))).collect()
    }

    #[test]
    fn a_condition_gets_one_more_part_where_that_is_worth_it() {
        let points: Vec<Sizes> =
            [1, 4, 20, 100].map(|k| BTreeMap::from([("K".to_string(), k), ("M".to_string(), 1)])).into();
        let all = conditions(&["K", "M"], &points, LIMITS);
        let few = (0b1111, compare(BinOp::Lt, Expr::Name("M".into()), 8));
        let gain = |set: Set| members(set).map(|p| [-3.0, -1.0, 2.0, 4.0][p]).sum::<f64>();
        let (set, condition) = narrowed(&few, gain(few.0) + 1.0, &all, &gain);
        assert_eq!((set, condition.to_string().as_str()), (0b1100, "M < 8 and K >= 8"));
        let (set, condition) = narrowed(&few, gain(few.0) + 5.0, &all, &gain);
        assert_eq!((set, condition.to_string().as_str()), (0b1111, "M < 8"));
    }

    #[test]
    fn a_version_in_front_of_itself_is_there_once() {
        let list = lists(&|m, n, _| m < 2 || m > 50 && n > 50, 13.0);
        assert_eq!(list, [(1, "M >= 32 and N >= 32 or M < 2".to_string()), (0, String::new())]);
    }
}
