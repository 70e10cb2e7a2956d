//! Tuning a kernel: from its strategy's parameters to a checked winner in the store.

use super::hash::{Situation, kernel_key, strategy_hash};
use super::kernel::{Bounds, KernelCost, WorkerCommand};
use super::search::{Found, Progress, Tuner, stored};
use super::space::{StrategySpace, strategy_space};
use super::work::Setup;
use crate::applied::How;
use crate::build::Build;
use crate::data::{Given, make};
use crate::program::{Failure, Program};
use crate::report::CheckReport;
use lathe_diagnostics::Diagnostic;
use lathe_ir::Function;
use lathe_measure::cost::Sample;
use lathe_measure::store::{Key, Winner, hash_of};
use lathe_measure::worker::Fault;
use lathe_space::Values;
use lathe_target::Machine;
use lathe_tune::technique::Technique;
use lathe_tune::{Stop, Why};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to tune, and how.
pub struct KernelTuning {
    /// `None`: what would run without tuning.
    pub strategy: Option<String>,
    pub given: Given,
    /// Parameters that keep a value.
    pub fixed: Values,
    pub build: Build,
    pub machine: Machine,
    pub specialize: bool,
    pub threads: usize,
    /// The system model of decisions that name none.
    pub model: Option<String>,
    /// Wall time of the search and the final; checking the winner comes on top.
    pub budget: Option<Duration>,
    /// Further rules for the search.
    pub stop: Option<Stop>,
    pub technique: Option<Box<dyn Technique>>,
    pub seed: u64,
    /// Where results are kept; `None`: nowhere.
    pub store: Option<PathBuf>,
    /// Measures again what the store already has.
    pub fresh: bool,
    pub worker: WorkerCommand,
}

/// A tuned kernel.
#[derive(Debug)]
pub struct KernelTuned {
    /// The strategy that the parameters belong to.
    pub strategy: String,
    pub sizes: BTreeMap<String, i64>,
    /// The winner, with the parameters that were not searched.
    pub params: Values,
    pub sample: Sample,
    /// How long the strategy's own values take, if they were measured.
    pub default: Option<f64>,
    pub check: Option<CheckReport>,
    /// Why the winner was not compared with the reference, if it was not.
    pub unchecked: Option<String>,
    pub space: StrategySpace,
    /// Keys of the results that the search began with, and in what they differ.
    pub near: Vec<(Key, Vec<&'static str>)>,
    pub found: Found,
    /// Measuring processes that were needed.
    pub processes: u64,
}

/// In the end the best few are measured side by side, in stages: so many, for such a part of the time, at most so many
/// rounds. Times of the search were taken at different moments, and the best of many such times is partly luck; the
/// rounds of the last stage decide.
const STAGES: [(usize, f64, usize); 3] = [(12, 0.25, 7), (6, 0.25, 15), (3, 0.5, 41)];

/// The strategy's defaults run along there, unless the search found something so many times as fast; and they win where
/// the best is not faster by more than this.
const WORTH: f64 = 10.0;
const NOISE: f64 = 1.01;

/// In so many seconds a search has time to check whole results; in fewer, it checks so much less of them.
const UNHURRIED: f64 = 300.0;

/// The share of a budget that is kept for them.
const FINAL: f64 = 0.15;

/// Searches the parameters of a strategy for one kernel and its sizes.
///
/// # Errors
/// `E1085` if the strategy has no parameters with ranges, `E1086` if nothing valid was found; what binding, the
/// space, the store or the worker refuse.
pub fn tune_kernel(
    program: &Program,
    kernel: &Function,
    t: KernelTuning,
    mut show: impl FnMut(&Progress),
) -> Result<KernelTuned, Failure> {
    let fail = |d: Diagnostic| Failure::one(&program.sources, d);
    let sizes = make(kernel, &t.given).map_err(fail)?.named_sizes(kernel);
    let how = How {
        strategy: t.strategy.clone(),
        sizes: sizes.clone(),
        threads: Some(t.threads),
        model: t.model.clone(),
        ..How::default()
    };
    let asked = crate::which::candidates(program, kernel, &how)?[0].name.to_string();
    let space = strategy_space(program, kernel, &asked, &how, &t.machine, &t.fixed)?;
    let strategy = space.definition.name.clone();
    let situation = Situation {
        sizes: &sizes,
        inputs: &t.given.inputs,
        build: &t.build,
        specialize: t.specialize,
        threads: t.threads,
    };
    let key = Key {
        strategy: strategy.clone(),
        strategy_hash: strategy_hash(program, &kernel.name, &space.definition),
        space_hash: hash_of(&[&space.text]),
        ..kernel_key(program, kernel, situation)
    };
    let file = program.path.canonicalize().unwrap_or_else(|_| program.path.clone());
    let setup = Setup {
        file,
        kernel: kernel.name.to_string(),
        strategy: strategy.clone(),
        sizes: sizes.clone(),
        inputs: t.given.inputs.clone(),
        seed: t.given.seed,
        threads: t.threads,
        engine: t.build.engine.name().to_string(),
        machine: t.machine.origin.clone(),
        specialize: t.specialize,
        model: t.model.clone(),
        checking: t.budget.map_or(1.0, |b| (b.as_secs_f64() / UNHURRIED).min(1.0)),
    };
    let first =
        t.budget.unwrap_or(Duration::from_secs(60)).clamp(Duration::from_secs(2), Duration::from_secs(60));
    let mut bounds = Bounds::default();
    if t.build.engine.is_device() {
        // Drivers reserve far more addresses than the machine has memory.
        bounds.memory = None;
    }
    let mut cost = KernelCost::new(&t.worker, &setup, space.fixed.clone(), first, bounds).map_err(fail)?;
    let mut tuner =
        Tuner::new(space.space.clone()).seed(t.seed).fresh(t.fresh).retry_limits(true).on_progress(&mut show);
    if let Some(technique) = t.technique {
        tuner = tuner.technique(technique);
    }
    let searching = t.budget.map(|b| Stop::Duration(b.mul_f64(1.0 - FINAL)));
    tuner = match (searching, t.stop) {
        (Some(a), Some(b)) => tuner.stop(a.or(b)),
        (Some(one), None) | (None, Some(one)) => tuner.stop(one),
        (None, None) => tuner,
    };
    if let Some(default) = &space.default {
        tuner = tuner.start(default.clone());
    }
    if let Some(path) = &t.store {
        tuner = tuner.store(path, key);
    }
    let mut found = tuner.search(&mut cost).map_err(fail)?;
    let near = found.record.near.iter().map(|n| (n.key.clone(), n.differs.clone())).collect();
    let finals = t.budget.unwrap_or(Duration::from_secs(60)).mul_f64(FINAL);
    let (winner, default) = finish(&mut cost, &found, space.default.as_ref(), finals);
    let Some((values, sample, check, unchecked)) = winner else {
        found.end(None);
        let d = match found.best {
            None => found.valid().err(),
            Some(_) => None,
        };
        return Err(fail(d.unwrap_or_else(|| {
            let text = "every configuration that was checked against the reference run gives a wrong result";
            Diagnostic::error(super::codes::NOTHING_VALID, text)
                .help("this is a bug in Lathe: please report it with the file, the strategy and the seed")
        })));
    };
    let checked = check.as_ref().map(|c| c.against.clone());
    let mut params = space.fixed.clone();
    params.extend(values);
    found.end(Some(&Winner::new(params.clone(), stored(&sample), checked)));
    Ok(KernelTuned {
        strategy,
        sizes,
        params,
        sample,
        default,
        check,
        unchecked,
        space,
        near,
        found,
        processes: cost.processes(),
    })
}

type Checked = (Values, Sample, Option<CheckReport>, Option<String>);

/// Measures the best few side by side, and takes the fastest whose result is right, if there is one; also the time
/// with the strategy's defaults. What was measured stands, whatever happens here.
fn finish(
    cost: &mut KernelCost,
    found: &Found,
    author: Option<&Values>,
    time: Duration,
) -> (Option<Checked>, Option<f64>) {
    let mut best: Vec<(Values, Sample)> = Vec::new();
    let mut rest: Vec<(Values, Sample)> = Vec::new();
    let mut sorted = found.samples.clone();
    sorted.sort_by(|a, b| a.1.cost.first().total_cmp(&b.1.cost.first()));
    for s in sorted {
        // What is much slower than the best has no chance, unless the best are wrong.
        let near = best.first().is_none_or(|b| s.1.cost.first() <= 1.25 * b.1.cost.first());
        if best.iter().any(|b| b.0 == s.0) {
            continue;
        }
        if near && best.len() < STAGES[0].0 { best.push(s) } else { rest.push(s) }
    }
    // The strategy's defaults run along: what they take at the same time is what the winner is compared with.
    let of = |best: &[(Values, Sample)]| {
        let own = best.iter().find(|b| Some(&b.0) == author);
        own.map(|b| b.1.cost.first())
    };
    let own = found.samples.iter().find(|s| Some(&s.0) == author);
    if let (Some(own), None, Some(first)) = (own, of(&best), best.first())
        && own.1.cost.first() <= WORTH * first.1.cost.first()
    {
        best.push(own.clone());
    }
    if found.stopped != "interrupted" {
        for (most, share, rounds) in STAGES {
            // Slow ones are fewer.
            let fit = best
                .first()
                .map_or(0.0, |b| share * time.as_secs_f64() / (12.0 * b.1.cost.first().max(1e-9)));
            let (most, mut left) = (most.min((fit as usize).max(2)), 0);
            best.retain(|b| {
                left += 1;
                left <= most || Some(&b.0) == author
            });
            if best.len() < 2 || !side_by_side(cost, &mut best, time.mul_f64(share), rounds) {
                break;
            }
        }
    }
    let default = of(&best).or(own.map(|o| o.1.cost.first()));
    if let (Some(own), Some(first)) = (of(&best), best.first().map(|b| b.1.cost.first()))
        && own <= NOISE * first
    {
        best.sort_by_key(|b| Some(&b.0) != author);
    }
    let limit = (10 * time).max(Duration::from_secs(60));
    best.extend(rest);
    (verified(cost, best, limit), default)
}

/// Measures all in interleaved rounds, as many as the time allows, and sorts them; false if that failed.
fn side_by_side(cost: &mut KernelCost, best: &mut [(Values, Sample)], time: Duration, most: usize) -> bool {
    let all: Vec<Values> = best.iter().map(|b| b.0.clone()).collect();
    // Every timing comes after a call that does not count.
    let round: f64 = best.iter().map(|b| 2.0 * b.1.cost.first().max(0.001)).sum();
    let runs = ((time.as_secs_f64() / round) as usize).clamp(3, most);
    let limit = 4 * time + Duration::from_secs_f64(10.0 * round * runs as f64) + Duration::from_secs(30);
    let Ok(samples) = cost.compare(&all, runs, limit) else { return false };
    for (b, s) in best.iter_mut().zip(samples) {
        b.1 = s;
    }
    best.sort_by(|a, b| a.1.cost.first().total_cmp(&b.1.cost.first()));
    true
}

/// The first of them whose result is right, by a reference run that may take so long. So long all of them together may
/// take, once one was found wrong.
fn verified(cost: &mut KernelCost, best: Vec<(Values, Sample)>, limit: Duration) -> Option<Checked> {
    let mut unverified = None;
    let start = Instant::now();
    for (values, sample) in best {
        if start.elapsed() > limit {
            break;
        }
        let why = match cost.check(&values, limit) {
            Ok(report) => return Some((values, sample, Some(report), None)),
            Err(Fault::Invalid(i)) if i.why == Why::Wrong => continue,
            Err(Fault::Invalid(i)) if i.why == Why::Timeout => {
                return Some((values, sample, None, Some(format!("the reference run: {}", i.message))));
            }
            // Perhaps another one does not crash.
            Err(Fault::Invalid(i)) => i.message,
            Err(Fault::Interrupted) => return Some((values, sample, None, Some("interrupted".to_string()))),
            Err(Fault::Fatal(d)) => return unverified.or(Some((values, sample, None, Some(d.message)))),
        };
        unverified.get_or_insert((values, sample, None, Some(why)));
    }
    unverified
}
