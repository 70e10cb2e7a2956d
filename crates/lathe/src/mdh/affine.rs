//! Affine schedules of a nest: the model ranks what the step would make for each candidate, and only the best ones are checked,
//! which takes far longer.

use super::blocked;
use super::candidates::{Candidates, Word, across_rows, arguments, candidates, has, reduces, rows_jammed};
use super::made::{Cost, Made};
use super::setting::Setting;
use super::sums;
use crate::parallel::each_in_turn;
use lathe_diagnostics::Diagnostic;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Function, Stmt};
use lathe_strategy::Refusal;
use lathe_transform::affine_schedule::{Proposal, Proposals, proposing};
use lathe_transform::names::labels_in;
use lathe_transform::storage::with_fma;
use lathe_transform::{Arg, Args, Cursor};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A schedule on threads must be expected to take so much of the time of the best one without; on more threads than a
/// few, of that of the loops as they are, too: all of them would be busy for little, and calls on one would be slower.
pub(super) const WITH_THREADS: f64 = 0.7;
const FEW: f64 = 4.0;
/// What the cost of rows side by side is multiplied by where they are compared with lanes.
const SURER: f64 = 1.3;
/// Schedules of a nest that are checked, from the one that is expected to be the fastest.
const CHECKED: usize = 2;
/// What checking one schedule may take: one without and one with threads, which are refused more often.
pub(super) const CHECK: [u64; 2] = [16_000_000, 8_000_000];

/// Offers affine schedules of a nest, whose arrays may be large: the model ranks what the step would make; only the best ones
/// are checked.
pub(super) fn affine(
    set: &Setting,
    start: &Made,
    (path, large, sizes): (&Path, bool, &BTreeMap<String, i64>),
    (least, rest): (f64, f64),
    cost: Cost,
    offer: &mut dyn FnMut(Option<Made>),
) -> Result<(), Diagnostic> {
    let cursor = Cursor { focus: path.clone(), ..Cursor::new(set.module, &start.func) };
    let of = Affine { set, start, path, sizes, least, rest, cost };
    let all = candidates(set, &start.func, path, large);
    proposing(&cursor, |proposals| of.offered(&all, proposals, offer)).unwrap_or(Ok(()))
}

/// A nest whose affine schedules are offered.
struct Affine<'a> {
    set: &'a Setting<'a>,
    start: &'a Made,
    path: &'a Path,
    /// Examples of the sizes that the function has.
    sizes: &'a BTreeMap<String, i64>,
    /// What the function must take less than.
    least: f64,
    /// What the function takes without the nest.
    rest: f64,
    cost: Cost<'a>,
}

/// What arguments are expected to take, and the function that they make.
type Ranked<'a> = (f64, &'a Args, Function);

impl Affine<'_> {
    fn offered(
        &self,
        all: &Candidates,
        proposals: &mut Proposals,
        offer: &mut dyn FnMut(Option<Made>),
    ) -> Result<(), Diagnostic> {
        let (now, threads) = (self.expected(&self.start.func), self.set.machine.threads as f64);
        let mut refused = None;
        let alone: Vec<&Args> = all.alone.iter().collect();
        let found = self.ranked(&alone, proposals, &mut refused);
        // What candidates on one thread are expected to take.
        let expected: Vec<Option<f64>> = found.iter().map(|r| r.as_ref().map(|r| r.0)).collect();
        let ranked: Vec<Ranked> = found.into_iter().flatten().collect();
        let mut any = !ranked.is_empty();
        let mut unchecked = None;
        let alone = self.best(ranked, f64::INFINITY, false, &mut unchecked, offer);
        // Schedules on threads are compared with the best one without: the model knows less of them, and more are refused.
        let gain = WITH_THREADS.max(FEW / threads);
        // Of the nest: what else the function does is the same.
        let of = |all: f64, share: f64| self.rest + (all - self.rest) * share;
        let most = alone.map_or(f64::INFINITY, |alone| of(alone, WITH_THREADS)).min(of(now, gain));
        // No more than all threads gain; what is refused on one thread is on several.
        let worth =
            |n: usize| expected.get(n).copied().flatten().is_some_and(|e| of(e, 1.0 / threads) <= most);
        let concurrent = all.on_threads.iter().filter(|c| c.1.is_none_or(worth)).map(|c| &c.0);
        let found = self.ranked(&concurrent.collect::<Vec<_>>(), proposals, &mut refused);
        let ranked: Vec<Ranked> = found.into_iter().flatten().collect();
        any |= !ranked.is_empty();
        if let Some(d) = refused.filter(|_| !any) {
            return Err(d);
        }
        let concurrent = self.best(ranked, most, true, &mut unchecked, offer);
        // What is reduced may run innermost in another order.
        if reduces(&self.start.func, self.path) {
            let mut orders = vec![Args::default()];
            if self.set.machine.threads > 1 {
                orders.push(arguments(&[("parallel", Word::Name("outer"))]));
            }
            let lanes = |made: &Made| sums::in_lanes(self.set, made, self.path, self.cost);
            for args in orders {
                // An order that leads to none need not be checked.
                let gains =
                    |f: Function| lanes(&Made::of(&f)).is_some_and(|m| (self.cost)(&m.func) < self.least);
                let proposed = proposals.planned(&args).and_then(|p| proposals.made(p));
                if proposed.is_ok_and(gains)
                    && let Ok(made) = self.start.then(self.set, self.path, "affine_schedule", &args)
                {
                    offer(lanes(&made));
                }
            }
        }
        unchecked.filter(|_| alone.or(concurrent).is_none()).map_or(Ok(()), Err)
    }

    /// What a function is expected to take once the products of the nest are rounded where they are added up: whether arithmetic or
    /// memory limits a schedule, and so which one is the fastest, is only seen then.
    fn expected(&self, func: &Function) -> f64 {
        let fused = visit::at(&func.body, self.path).and_then(|nest| {
            let labels = licensed(nest);
            let new = with_fma(nest, |l| labels.iter().any(|k| k == l));
            visit::replace_at(&func.body, self.path, new)
        });
        match fused {
            Some(body) => (self.cost)(&Function { body, ..func.clone() }),
            None => (self.cost)(func),
        }
    }

    /// What each of some arguments is expected to make of the function, if it is not refused.
    fn ranked<'b>(
        &self,
        all: &[&'b Args],
        proposals: &mut Proposals,
        refused: &mut Option<Diagnostic>,
    ) -> Vec<Option<Ranked<'b>>> {
        let planned: Vec<Result<Proposal, Refusal>> =
            all.iter().map(|args| proposals.planned(args)).collect();
        let mut different: Vec<Proposal> = planned.iter().flatten().copied().collect();
        let mut seen = HashSet::new();
        different.retain(|p| seen.insert(*p));
        let proposals = &*proposals;
        let made = each_in_turn(&different, |p| proposals.made(*p).map(|f| (self.expected(&f), f)));
        let made: HashMap<Proposal, _> = different.into_iter().zip(made).collect();
        let priced = |(args, planned): (&&'b Args, Result<Proposal, Refusal>)| {
            match planned.and_then(|p| made[&p].clone()) {
                // Lanes are surer than chains that overlap.
                Ok((cost, f)) if rows_jammed(args) => Some((cost * SURER, *args, f)),
                Ok((cost, f)) if across_rows(args) => Some((cost + self.apart(&f), *args, f)),
                Ok((cost, f)) => Some((cost, *args, f)),
                Err(r) => {
                    refused.get_or_insert(*r.diagnostic);
                    None
                }
            }
        };
        all.iter().zip(planned).map(priced).collect()
    }

    /// Cycles for lines of thousands of rows beyond those of the loops as they are: lanes across rows touch a page of each before they
    /// come back to the first.
    fn apart(&self, f: &Function) -> f64 {
        let waits = |f: &Function| lathe_model::rows_apart(f, self.sizes, self.set.machine);
        (waits(f) - waits(&self.start.func)).max(0.0)
    }

    /// Offers the first one that is not refused of those that are expected to be the fastest, and to take so much at most; gives
    /// what it is expected to take.
    fn best(
        &self,
        mut ranked: Vec<Ranked>,
        most: f64,
        threads: bool,
        refused: &mut Option<Diagnostic>,
        offer: &mut dyn FnMut(Option<Made>),
    ) -> Option<f64> {
        ranked.retain(|r| r.0 < self.least && r.0 <= most);
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut tried: Vec<Function> = Vec::new();
        for (expected, args, f) in ranked.into_iter().take(CHECKED) {
            // Other arguments may ask for the same loops.
            if tried.contains(&f) {
                continue;
            }
            let (made, spent) = lathe_analysis::within_work(CHECK[usize::from(threads)], || {
                let made = self.start.then(self.set, self.path, "affine_schedule", args);
                (made, lathe_analysis::exhausted())
            });
            match made {
                Ok(made) => {
                    let made = fused(self.set, made, self.path);
                    offer(Some(blocked::in_registers(self.set, made, self.path, false)));
                    return Some(expected);
                }
                Err(d) => refused.get_or_insert(d),
            };
            // What takes too long along one diagonal does along another.
            if threads && spent {
                break;
            }
            tried.push(f);
        }
        None
    }
}

/// With products rounded once where they are added up, as far as that is so.
pub(super) fn fused(set: &Setting, mut made: Made, path: &Path) -> Made {
    let labels = visit::at(&made.func.body, path).map(licensed).unwrap_or_default();
    for label in labels {
        let mut args = Args::default();
        args.push(None, Arg::Path(label));
        made = made.then(set, path, "fma", &args).unwrap_or(made);
    }
    made
}

/// Labels of sums that may be rounded otherwise, and whose products are not rounded once yet.
fn licensed(nest: &Stmt) -> Vec<String> {
    let mut labels = labels_in(nest);
    labels.retain(|label| {
        has(nest, &|s| s.as_reduce().is_some_and(|r| r.licence && !r.contract && r.label.as_str() == label))
    });
    labels
}
