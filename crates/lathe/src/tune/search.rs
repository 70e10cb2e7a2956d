//! The search of any space with any cost function: what joins techniques, costs and the store.

use super::record::Record;
use crate::tune::codes;
use lathe_diagnostics::Diagnostic;
use lathe_measure::cost::{Answer, CostFunction, Sample};
use lathe_measure::store::{self, Evaluation, Key, SessionInfo, Winner};
use lathe_measure::worker::Fault;
use lathe_space::{Configuration, Space, Values};
use lathe_system::interrupt::interrupted;
use lathe_tune::technique::{Technique, portfolio};
use lathe_tune::{Cost, Ended, Invalid, Measured, Order, Outcome, Stop, Times, Tuned, Why};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is shown while a search runs.
#[derive(Clone, Debug)]
pub struct Progress {
    pub evaluations: u64,
    pub valid: u64,
    /// Of them taken from the store.
    pub known: u64,
    pub elapsed: Duration,
    /// 0 to 1.
    pub done: f64,
    pub remaining: Option<Duration>,
    pub best: Option<(Configuration, Cost)>,
}

/// How many threads a configuration runs with, where that is known.
pub(super) type Threads = Arc<dyn Fn(&Values) -> Option<u64> + Send + Sync>;

/// Hears of every evaluation.
type Show<'a> = Box<dyn FnMut(&Progress) + 'a>;

/// A search to be set up: of a space, with a cost function.
///
/// ```
/// use lathe::space::{Constraint, SpaceDef, TuningParameter, Value, parse};
/// use lathe::tune::{Tuner, space};
///
/// let def = SpaceDef::new()
///     .constant("N", Value::Int(1024))
///     .param(TuningParameter::int("WPT", 1, 1024).such_that(Constraint::divides(parse("N").unwrap())))
///     .param(TuningParameter::int("LS", 1, 1024).such_that(Constraint::divides(parse("N / WPT").unwrap())));
/// let found = Tuner::new(space(&def)?)
///     .until("200 evaluations")?
///     .seed(7)
///     .tune_fn(|c| {
///         let at = |n: &str| if let Some(Value::Int(v)) = c.get(n) { *v as f64 } else { f64::NAN };
///         Ok((at("WPT") - 8.0).abs() + (at("LS") - 32.0).abs())
///     })?;
/// assert_eq!(found.best.map(|b| b.1.cost.first()), Some(0.0));
/// # Ok::<(), lathe::Diagnostic>(())
/// ```
pub struct Tuner<'a> {
    space: Arc<Space>,
    technique: Option<Box<dyn Technique>>,
    stop: Option<Stop>,
    seed: u64,
    order: Order,
    negative: bool,
    starts: Vec<Values>,
    store: Option<(PathBuf, Key)>,
    fresh: bool,
    again: bool,
    threads: Option<Threads>,
    progress: Option<Show<'a>>,
}

/// What a search found.
#[derive(Debug)]
pub struct Found {
    /// The best configuration that is valid.
    pub best: Option<(Values, Sample)>,
    /// All valid samples, in the order in which they were measured.
    pub samples: Vec<(Values, Sample)>,
    /// Everything that happened.
    pub tuned: Tuned,
    /// Evaluations that were taken from the store.
    pub known: u64,
    /// Why it ended: `stopped`, `interrupted`, `exhausted`, …
    pub stopped: String,
    /// Why it could not go on, if it could not.
    pub fault: Option<Diagnostic>,
    pub(super) record: Record,
}

impl<'a> Tuner<'a> {
    pub fn new(space: impl Into<Arc<Space>>) -> Tuner<'a> {
        Tuner {
            space: space.into(),
            technique: None,
            stop: None,
            seed: 0,
            order: Order::default(),
            negative: false,
            starts: Vec::new(),
            store: None,
            fresh: false,
            again: false,
            threads: None,
            progress: None,
        }
    }

    /// The default is a bandit over a portfolio of techniques.
    pub fn technique(mut self, technique: Box<dyn Technique>) -> Tuner<'a> {
        self.technique = Some(technique);
        self
    }

    /// A technique by its name.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn technique_named(self, name: &str) -> Result<Tuner<'a>, Diagnostic> {
        Ok(self.technique(lathe_tune::technique::by_name(name)?))
    }

    /// When to stop, as text: `60s`, `200 evaluations || cost <= 0.5`, `duration<minutes>(10)`.
    ///
    /// # Errors
    /// For what is not a stop rule.
    pub fn until(self, rule: &str) -> Result<Tuner<'a>, Diagnostic> {
        Ok(self.stop(lathe_tune::stop_text::parse(rule)?))
    }

    /// When to stop; the default is when as many configurations were tried as the space has.
    pub fn stop(mut self, stop: Stop) -> Tuner<'a> {
        self.stop = Some(stop);
        self
    }

    /// Equal seeds and costs give equal searches.
    pub fn seed(mut self, seed: u64) -> Tuner<'a> {
        self.seed = seed;
        self
    }

    /// How costs of several numbers are compared.
    pub fn order(mut self, order: Order) -> Tuner<'a> {
        self.order = order;
        self
    }

    pub fn negative_costs(mut self, allowed: bool) -> Tuner<'a> {
        self.negative = allowed;
        self
    }

    /// Where to begin; values that are not valid are moved to the nearest ones that are.
    pub fn start(mut self, values: Values) -> Tuner<'a> {
        self.starts.push(values);
        self
    }

    /// Keeps every evaluation and the winner under a key; what is there is not measured again.
    pub fn store(mut self, path: impl Into<PathBuf>, key: Key) -> Tuner<'a> {
        self.store = Some((path.into(), key));
        self
    }

    /// Measures again what the store already has.
    pub fn fresh(mut self, fresh: bool) -> Tuner<'a> {
        self.fresh = fresh;
        self
    }

    /// Measures again what the store says took too long, or too much memory: its limits may have been others.
    pub fn retry_limits(mut self, again: bool) -> Tuner<'a> {
        self.again = again;
        self
    }

    /// How many threads a configuration runs with: techniques that give up early on candidates with too few of them
    /// (the genetic one) refuse those before they cost anything.
    pub fn threads(mut self, of: impl Fn(&Values) -> Option<u64> + Send + Sync + 'static) -> Tuner<'a> {
        self.threads = Some(Arc::new(of));
        self
    }

    /// Called after every batch of evaluations.
    pub fn on_progress(mut self, show: impl FnMut(&Progress) + 'a) -> Tuner<'a> {
        self.progress = Some(Box::new(show));
        self
    }

    /// Searches with a function of Rust.
    ///
    /// # Errors
    /// As [`Tuner::tune`].
    pub fn tune_fn<C: Into<Cost>>(
        self,
        f: impl FnMut(&Values) -> Result<C, Invalid>,
    ) -> Result<Found, Diagnostic> {
        self.tune(&mut lathe_measure::cost::Callable(f))
    }

    /// Searches, and keeps the winner.
    ///
    /// # Errors
    /// What keeps the search from beginning, or from finding anything valid.
    pub fn tune(self, cost: &mut dyn CostFunction) -> Result<Found, Diagnostic> {
        let mut found = self.search(cost)?;
        let winner = found.best.as_ref().map(|(v, s)| Winner::new(v.clone(), stored(s), None));
        found.end(winner.as_ref());
        found.valid()
    }

    /// The values of this space's parameters among all that are given.
    fn point(&self, values: &Values) -> Option<Configuration> {
        let own = values.iter().filter(|(n, _)| self.space.param(n).is_some());
        self.space.read(&own.map(|(n, v)| (n.clone(), v.clone())).collect())
    }

    /// Searches; what is to be kept as the winner is the caller's choice.
    pub(super) fn search(mut self, cost: &mut dyn CostFunction) -> Result<Found, Diagnostic> {
        let technique = self.technique.take().unwrap_or_else(|| Box::new(portfolio()));
        let technique_rules = technique.pruning();
        let info = SessionInfo { technique: technique.name(), seed: self.seed };
        let mut record = match &self.store {
            Some((path, key)) => {
                Record::open(path, key, &info, |e| !(self.fresh || self.again && limited(e)))?
            }
            None => Record::default(),
        };
        // What earlier searches measured comes first, and takes no time: the search goes on where they ended.
        let old = record.old.iter().map(|w| &w.configuration);
        let near = record.near.iter().map(|n| &n.winner.configuration);
        let all = record.order.iter().chain(old).chain(&self.starts).chain(near);
        let starts: Vec<Configuration> = all.filter_map(|v| self.point(v)).collect();
        let mut setup = lathe_tune::Tuner::new(Arc::clone(&self.space))
            .technique(technique)
            .seed(self.seed)
            .order(self.order.clone())
            .negative_costs(self.negative)
            .starting_points(starts);
        if let Some(stop) = self.stop.take() {
            setup = setup.stop(stop);
        }
        if let Some(rules) = technique_rules {
            cost.prune(rules);
            if let Some(threads) = self.threads.take() {
                setup =
                    setup.refuse(move |c| threads(&c.to_values()).is_some_and(|n| rules.before(n).is_some()));
            }
        }
        let mut session = setup.session()?;
        let (mut samples, mut known, mut fault) = (Vec::<(Values, Sample)>::new(), 0, None);
        let mut by_user = false;
        while fault.is_none() && !by_user {
            let before = Instant::now();
            if interrupted() {
                by_user = true;
                break;
            }
            let batch = session.next_batch(cost.batch())?;
            if batch.is_empty() {
                break;
            }
            let search_s = before.elapsed().as_secs_f64() / batch.len() as f64;
            let best = session.best().map(|b| b.1.clone());
            let all: Vec<Values> = batch.iter().map(|p| p.configuration.to_values()).collect();
            let mut answers: Vec<Option<Measured>> = Vec::new();
            let mut new: Vec<usize> = Vec::new();
            let mut least = best.as_ref().map(Cost::first);
            for (i, values) in all.iter().enumerate() {
                match record.known(values).map(|e| recalled(&e.outcome)) {
                    Some(outcome) if self.negative || !outcome.as_ref().is_ok_and(negative) => {
                        known += 1;
                        // A result that is better than all others is not believed because it is written down.
                        let outcome = match outcome {
                            Ok(s) if least.is_none_or(|l| s.cost.first() < l) => match cost.believe(values) {
                                Ok(()) => {
                                    least = Some(s.cost.first());
                                    Ok(s)
                                }
                                Err(Fault::Invalid(i)) => {
                                    let outcome = store::Outcome::Invalid(i.clone());
                                    record.add(Evaluation::new(values.clone(), outcome));
                                    Err(i)
                                }
                                Err(Fault::Fatal(d)) => {
                                    fault = Some(d);
                                    break;
                                }
                                Err(Fault::Interrupted) => {
                                    by_user = true;
                                    break;
                                }
                            },
                            other => other,
                        };
                        answers.push(Some(told(&outcome, Times::default(), Vec::new())));
                        samples.extend(outcome.ok().map(|s| (values.clone(), s)));
                    }
                    _ => {
                        new.push(i);
                        answers.push(None);
                    }
                }
            }
            answers.resize(all.len(), None);
            if fault.is_some() || by_user {
                new.clear();
            }
            let asked: Vec<Values> = new.iter().map(|i| all[*i].clone()).collect();
            let mut start = Instant::now();
            cost.measure_all(&asked, best.as_ref(), &mut |at, answer| {
                let Some(i) = new.get(at).copied() else { return };
                let run = start.elapsed().as_secs_f64();
                start = Instant::now();
                let Answer { done, mut times, runtimes } = answer;
                if times == Times::default() {
                    times.run = run;
                }
                let outcome = match done {
                    Ok(sample) => Ok(sample),
                    Err(Fault::Invalid(i)) => Err(i),
                    Err(Fault::Fatal(d)) => {
                        fault = Some(d);
                        return;
                    }
                    Err(Fault::Interrupted) => {
                        by_user = true;
                        return;
                    }
                };
                record.add(Evaluation {
                    coordinates: Some(batch[i].coordinates.clone()),
                    measured_s: run,
                    search_s,
                    ..Evaluation::new(all[i].clone(), kept(&outcome))
                });
                answers[i] = Some(told(&outcome, times, runtimes));
                samples.extend(outcome.ok().map(|s| (all[i].clone(), s)));
            });
            let whole: Option<Vec<Measured>> = answers.iter().cloned().collect();
            let reported = match whole {
                Some(all) => session.report(all),
                None => session.break_off(answers),
            };
            if let Err(d) = reported {
                fault = fault.or(Some(d));
                break;
            }
            if let Some(show) = &mut self.progress {
                let status = session.status();
                show(&Progress {
                    evaluations: status.evaluations,
                    valid: status.valid,
                    known,
                    elapsed: status.elapsed,
                    done: session.progress(),
                    remaining: session.remaining(),
                    best: session.best().map(|(c, v)| (c.clone(), v.clone())),
                });
            }
        }
        let tuned = session.finish();
        let stopped = match (&tuned.ended, by_user, &fault) {
            (_, true, _) => "interrupted",
            (_, _, Some(_)) | (Ended::Failed(_), ..) => "failed",
            (Ended::Stopped | Ended::Running, ..) => "stopped",
            (Ended::Interrupted, ..) => "interrupted",
            (Ended::Exhausted, ..) => "exhausted",
            (Ended::Finished, ..) => "finished",
            (Ended::Refused, ..) => "refused",
        };
        let best = tuned.best.as_ref().and_then(|(c, _)| {
            let values = c.to_values();
            samples.iter().rev().find(|s| s.0 == values).cloned()
        });
        Ok(Found { best, samples, tuned, known, stopped: stopped.to_string(), fault, record })
    }
}

impl Found {
    /// Ends the record in the store.
    pub(super) fn end(&mut self, winner: Option<&Winner>) {
        self.record.end(&self.stopped, winner);
    }

    /// An error if nothing valid was found, else what was found.
    pub(super) fn valid(mut self) -> Result<Found, Diagnostic> {
        if self.best.is_some() {
            return Ok(self);
        }
        match self.fault.take() {
            Some(d) => Err(d),
            None if self.tuned.history.is_empty() && self.stopped == "interrupted" => {
                Err(Diagnostic::error(codes::NOTHING_VALID, "interrupted before anything was measured"))
            }
            None => Err(self.nothing_valid()),
        }
    }

    /// Why the store does not have everything, if it does not.
    pub fn store_trouble(&self) -> Option<&Diagnostic> {
        self.record.trouble.as_ref()
    }

    /// The name of this search's entry in the store.
    pub fn entry(&self) -> Option<String> {
        self.record.digest()
    }

    /// How often each kind of invalid configuration occurred, with the first one's message.
    pub fn reasons(&self) -> BTreeMap<String, (u64, String)> {
        let mut out: BTreeMap<String, (u64, String)> = BTreeMap::new();
        for e in &self.tuned.history {
            if let Outcome::Invalid(i) = &e.outcome {
                let kind = i.why.word().to_string();
                out.entry(kind).or_insert_with(|| (0, format!("{} ({})", i.message, e.configuration))).0 += 1;
            }
        }
        out
    }

    fn nothing_valid(&self) -> Diagnostic {
        let n = self.tuned.history.len();
        let mut d = Diagnostic::error(
            codes::NOTHING_VALID,
            format!("none of the {n} configurations that were tried is valid"),
        );
        for (kind, (count, first)) in self.reasons() {
            d = d.note(format!("{count} {kind}, the first: {first}"));
        }
        d.help("run one configuration by hand first")
    }
}

/// As the session is told.
fn told(outcome: &Result<Sample, Invalid>, times: Times, runtimes: Vec<f64>) -> Measured {
    let outcome = match outcome {
        Ok(sample) => Outcome::Valid(sample.cost.clone()),
        Err(i) => Outcome::Invalid(i.clone()),
    };
    Measured { outcome, times, runtimes }
}

fn negative(s: &Sample) -> bool {
    s.cost.numbers().iter().any(|c| *c < 0.0)
}

/// Whether a configuration is invalid only because of a limit.
fn limited(e: &Evaluation) -> bool {
    matches!(&e.outcome, store::Outcome::Invalid(i) if matches!(i.why, Why::Timeout | Why::Memory))
}

/// A sample as the store keeps it.
pub(super) fn stored(s: &Sample) -> store::Measured {
    store::Measured { costs: s.cost.numbers().to_vec(), interval: s.interval, runs: s.runs }
}

fn kept(outcome: &Result<Sample, Invalid>) -> store::Outcome {
    match outcome {
        // JSON has no such numbers; the session says that they are none.
        Ok(s) if s.cost.numbers().iter().any(|c| !c.is_finite()) => {
            store::Outcome::Invalid(Invalid::new(Why::NotANumber, format!("the cost is {}", s.cost)))
        }
        Ok(s) => store::Outcome::Measured(stored(s)),
        Err(i) => store::Outcome::Invalid(i.clone()),
    }
}

fn recalled(outcome: &store::Outcome) -> Result<Sample, Invalid> {
    match outcome {
        store::Outcome::Measured(m) => {
            Ok(Sample { cost: Cost::new(m.costs.clone()), interval: m.interval, runs: m.runs })
        }
        store::Outcome::Invalid(i) => Err(i.clone()),
    }
}
