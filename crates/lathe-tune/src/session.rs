//! The search loop, turned inside out: a session hands out configurations and takes their costs. The caller
//! measures, in whatever process, device or order it likes.

use crate::clock::Clock;
use crate::codes;
use crate::cost::{Cost, Order, Outcome, accept, dominates};
use crate::history::{Ended, Entry, Measured, Tuned};
use crate::objectives::Objectives;
use crate::ranking::Ranking;
use crate::stop::{Improvement, Status, Stop};
use crate::technique::{Point, Technique, Trial};
use lathe_diagnostics::Diagnostic;
use lathe_space::{Blocks, Configuration, Space};
use num_bigint::{BigUint, RandBigInt};
use num_traits::ToPrimitive;
use rand_chacha::ChaCha8Rng;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// After so many batches in a row that held nothing new, the session itself draws a configuration.
const BARREN: u32 = 100;
/// After so many refused configurations in a row, a session gives up.
const REFUSED: u64 = 100_000;
/// How often a new configuration is drawn before the space is searched for one in order.
const DRAWS: u32 = 100;

/// A configuration to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    pub index: BigUint,
    pub configuration: Configuration,
    /// What the technique asked for, or the coordinates of the configuration.
    pub coordinates: Vec<f64>,
    /// A starting point, not the technique's choice.
    pub start: bool,
}

/// What a batch of the technique waits for.
enum Slot {
    Known {
        point: Point,
        index: BigUint,
    },
    /// The number of a pending proposal.
    Asked {
        point: Point,
        proposal: usize,
    },
}

/// What measuring a configuration came to, as techniques see it.
type Memo = HashMap<BigUint, Option<f64>>;

/// Whether a configuration is refused before anything is spent on it.
pub type Refusal = Arc<dyn Fn(&Configuration) -> bool + Send + Sync>;

/// A running search. Made by [`crate::Tuner::session`].
pub struct TuningSession {
    pub(crate) space: Arc<Space>,
    pub(crate) technique: Box<dyn Technique>,
    pub(crate) stop: Stop,
    pub(crate) seed: u64,
    pub(crate) blocks: Blocks,
    pub(crate) negative: bool,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) interrupt: Option<Arc<AtomicBool>>,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) starts: VecDeque<BigUint>,
    pub(crate) rng: ChaCha8Rng,
    pub(crate) began: Duration,
    pub(crate) state: State,
}

/// What changes while a session runs.
#[derive(Default)]
pub(crate) struct State {
    memo: Memo,
    ranking: Ranking,
    history: Vec<Entry>,
    improvements: Vec<Improvement>,
    front: Vec<u64>,
    valid: u64,
    objectives: Objectives,
    /// Points of the technique's batch that wait for an answer.
    slots: Vec<Slot>,
    pending: Vec<Proposal>,
    /// When the pending configurations were proposed, and how long choosing each took.
    handed_out: Duration,
    search: Duration,
    ended: Option<Ended>,
}

impl State {
    pub fn new(order: Order) -> State {
        let objectives = Objectives::new(order.objectives());
        State { ranking: Ranking::new(order), objectives, ..State::default() }
    }
}

impl TuningSession {
    /// The next configuration to measure; `None` when the session has ended. Its cost must be reported before the
    /// next one is asked for.
    pub fn get_configuration(&mut self) -> Result<Option<Proposal>, Diagnostic> {
        Ok(self.next_batch(1)?.pop())
    }

    /// Reports the cost, or the fault, of the configuration that was proposed last.
    pub fn report_cost(&mut self, measured: impl Into<Measured>) -> Result<(), Diagnostic> {
        self.report(vec![measured.into()])
    }

    /// At most `n` configurations to measure at once, in any order; none when the session has ended.
    pub fn next_batch(&mut self, n: usize) -> Result<Vec<Proposal>, Diagnostic> {
        if !self.state.pending.is_empty() {
            return Err(Diagnostic::error(
                codes::ORDER,
                format!("{} configurations still have no cost", self.state.pending.len()),
            )
            .help("report them before asking for more"));
        }
        let before = self.clock.now();
        let left = self.stop.left(&self.status()).to_usize().unwrap_or(usize::MAX);
        let n = n.max(1).min(left.max(1));
        if !self.over() {
            self.fill(n);
        }
        self.state.handed_out = self.clock.now();
        let spent = self.state.handed_out.saturating_sub(before);
        self.state.search = spent / (self.state.pending.len().max(1) as u32);
        Ok(self.state.pending.clone())
    }

    /// Reports what measuring the last batch came to, in its order. An error is the cost function's: the rest of
    /// the batch is recorded, the session has ended, and what it found is kept.
    pub fn report(&mut self, measured: Vec<Measured>) -> Result<(), Diagnostic> {
        if self.state.pending.is_empty() || measured.len() != self.state.pending.len() {
            return Err(Diagnostic::error(
                codes::ORDER,
                format!("{} costs for {} configurations", measured.len(), self.state.pending.len()),
            )
            .help("every proposed configuration needs exactly one reported cost"));
        }
        let pending = std::mem::take(&mut self.state.pending);
        let mut indices = Vec::with_capacity(pending.len());
        let mut failed = None;
        for (proposal, m) in pending.into_iter().zip(measured) {
            indices.push(proposal.index.clone());
            match self.judge(m.outcome) {
                Ok(outcome) => self.record(proposal, Measured { outcome, ..m }),
                Err(d) => failed = failed.or(Some(d)),
            }
        }
        if let Some(d) = failed {
            self.end(Ended::Failed(d.clone()));
            return Err(d);
        }
        self.answer(&indices);
        Ok(())
    }

    /// Ends the session in the middle of a batch: `measured` are the first of its answers that are known, in its order;
    /// a configuration without one is forgotten.
    pub fn break_off(&mut self, measured: Vec<Option<Measured>>) -> Result<(), Diagnostic> {
        self.state.slots.clear();
        let pending = std::mem::take(&mut self.state.pending);
        let mut failed = None;
        for (proposal, m) in pending.into_iter().zip(measured) {
            let Some(m) = m else { continue };
            match self.judge(m.outcome) {
                Ok(outcome) => self.record(proposal, Measured { outcome, ..m }),
                Err(d) => failed = failed.or(Some(d)),
            }
        }
        self.end(Ended::Interrupted);
        failed.map_or(Ok(()), Err)
    }

    /// Program-guided tuning: runs the caller's routine with the next configuration, or with the best one once the
    /// session has ended, and returns its result. The routine measures itself.
    pub fn make_step<R>(
        &mut self,
        run: impl FnOnce(&Configuration) -> (Measured, R),
    ) -> Result<R, Diagnostic> {
        if let Some(proposal) = self.get_configuration()? {
            let (measured, result) = run(&proposal.configuration);
            self.report_cost(measured)?;
            return Ok(result);
        }
        match self.best() {
            Some((configuration, _)) => Ok(run(configuration).1),
            None => {
                Err(Diagnostic::error(codes::ORDER, "the session has ended without a valid configuration")
                    .note(format!("it ended because: {:?}", self.ended()))
                    .help("check that the program runs with at least one configuration"))
            }
        }
    }

    /// The best valid configuration so far, and its cost.
    pub fn best(&self) -> Option<(&Configuration, &Cost)> {
        let (entry, cost) = self.state.ranking.best()?;
        Some((&self.state.history[entry].configuration, cost))
    }

    pub fn status(&self) -> Status<'_> {
        Status {
            evaluations: self.state.history.len() as u64,
            valid: self.state.valid,
            elapsed: self.clock.now().saturating_sub(self.began),
            size: self.space.size(),
            order: self.state.ranking.order(),
            improvements: &self.state.improvements,
        }
    }

    /// How far the session is, 0 to 1.
    pub fn progress(&self) -> f64 {
        if self.state.ended.is_some() { 1.0 } else { self.stop.progress(&self.status()) }
    }

    /// How long it will probably still take, if that can be told.
    pub fn remaining(&self) -> Option<Duration> {
        self.stop.remaining(&self.status())
    }

    pub fn history(&self) -> &[Entry] {
        &self.state.history
    }

    pub fn ended(&self) -> &Ended {
        self.state.ended.as_ref().unwrap_or(&Ended::Running)
    }

    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The best cost so far as one number, for limits on the time of the next one.
    pub fn best_number(&self) -> Option<f64> {
        self.best().map(|(_, c)| c.first())
    }

    /// Ends the session, wherever it is, with what it found. Unreported proposals are dropped.
    pub fn finish(mut self) -> Tuned {
        self.technique.finalize();
        let best = self.best().map(|(c, v)| (c.clone(), v.clone()));
        let elapsed = self.clock.now().saturating_sub(self.began);
        Tuned {
            best,
            ended: self.state.ended.unwrap_or(Ended::Running),
            technique: self.technique.name(),
            seed: self.seed,
            elapsed,
            history: self.state.history,
            improvements: self.state.improvements,
            front: self.state.front,
        }
    }

    fn end(&mut self, how: Ended) {
        self.state.ended.get_or_insert(how);
    }

    fn all_measured(&self) -> bool {
        self.space.size() <= &BigUint::from(self.state.memo.len())
    }

    /// Whether the session has ended, or ends now.
    fn over(&mut self) -> bool {
        if self.state.ended.is_none() {
            if self.interrupt.as_ref().is_some_and(|f| f.load(Ordering::SeqCst)) {
                self.end(Ended::Interrupted);
            } else if self.all_measured() {
                // Said first: as many evaluations as there are configurations is also the usual stop rule.
                self.end(Ended::Exhausted);
            } else if self.stop.is_met(&self.status()) {
                self.end(Ended::Stopped);
            }
        }
        self.state.ended.is_some()
    }

    /// Finds up to `n` configurations that were not measured yet.
    fn fill(&mut self, n: usize) {
        while self.state.pending.len() < n {
            let Some(index) = self.starts.pop_front() else { break };
            // Several searches may have ended with the same winner.
            let known = self.state.memo.contains_key(&index)
                || self.state.pending.iter().any(|p| p.index == index)
                || self.refuse(&index);
            if !known {
                self.propose(index, None, true);
            }
        }
        if !self.state.pending.is_empty() {
            return;
        }
        let (mut barren, mut refused) = (0, 0);
        while self.state.pending.is_empty() {
            if self.all_measured() {
                return self.end(Ended::Exhausted);
            }
            if barren >= BARREN {
                barren = 0;
                let Some(index) = self.draw() else { return self.end(Ended::Exhausted) };
                if !self.refuse(&index) {
                    self.propose(index, None, false);
                    return;
                }
                refused += 1;
                self.observe(&index);
            }
            if refused >= REFUSED {
                return self.end(Ended::Refused);
            }
            let points = self.technique.next_batch(n);
            if points.is_empty() {
                return self.end(Ended::Finished);
            }
            for point in points {
                let known = self.state.memo.len();
                self.take(point);
                refused += (self.state.memo.len() - known) as u64;
            }
            barren += 1;
            if self.state.pending.is_empty() {
                self.answer(&[]);
            }
        }
    }

    /// Files a point of the technique as known or as a proposal.
    fn take(&mut self, point: Point) {
        let index = match &point {
            Point::Coordinates(c) => self.space.at(c, self.blocks),
            Point::Index(i) if i < self.space.size() => i.clone(),
            Point::Index(i) => i % self.space.size(),
            Point::Configuration(c) => {
                self.space.index_of(c).or_else(|| self.space.nearest(c)).unwrap_or(BigUint::ZERO)
            }
        };
        if let Some(proposal) = self.state.pending.iter().position(|p| p.index == index) {
            self.state.slots.push(Slot::Asked { point, proposal });
        } else if self.state.memo.contains_key(&index) || self.refuse(&index) {
            self.state.slots.push(Slot::Known { point, index });
        } else {
            let coordinates = if let Point::Coordinates(c) = &point { Some(c.clone()) } else { None };
            self.state.slots.push(Slot::Asked { point, proposal: self.state.pending.len() });
            self.propose(index, coordinates, false);
        }
    }

    fn propose(&mut self, index: BigUint, coordinates: Option<Vec<f64>>, start: bool) {
        let Some(configuration) = self.space.configuration(&index) else { return };
        let coordinates = coordinates.unwrap_or_else(|| self.space.coordinates(&index, self.blocks));
        self.state.pending.push(Proposal { index, configuration, coordinates, start });
    }

    /// Whether the configuration is refused before it is measured; remembered, but no evaluation.
    fn refuse(&mut self, index: &BigUint) -> bool {
        let Some(refusal) = &self.refusal else { return false };
        let refused = self.space.configuration(index).is_some_and(|c| refusal(&c));
        if refused {
            self.state.memo.insert(index.clone(), None);
        }
        refused
    }

    /// A configuration that was not measured yet, uniformly drawn unless few are left.
    fn draw(&mut self) -> Option<BigUint> {
        for _ in 0..DRAWS {
            let index = self.space.sample(&mut self.rng);
            if !self.state.memo.contains_key(&index) {
                return Some(index);
            }
        }
        let size = self.space.size();
        let mut index = self.rng.gen_biguint_below(size);
        for _ in 0..=self.state.memo.len() {
            if !self.state.memo.contains_key(&index) {
                return Some(index);
            }
            index += 1u32;
            if &index >= size {
                index = BigUint::ZERO;
            }
        }
        None
    }

    fn trial(&self, point: Point, index: BigUint) -> Trial {
        let cost = self.state.memo.get(&index).copied().flatten();
        Trial { point, index, cost }
    }

    fn observe(&mut self, index: &BigUint) {
        let trial = self.trial(Point::Index(index.clone()), index.clone());
        self.technique.observe(&[trial]);
    }

    /// Tells the technique about its batch, or about configurations that it did not ask for.
    fn answer(&mut self, measured: &[BigUint]) {
        if self.state.slots.is_empty() {
            measured.iter().for_each(|i| self.observe(i));
            return;
        }
        let slots = std::mem::take(&mut self.state.slots);
        let trials: Vec<Trial> = slots
            .into_iter()
            .map(|slot| match slot {
                Slot::Known { point, index } => self.trial(point, index),
                Slot::Asked { point, proposal } => self.trial(point, measured[proposal].clone()),
            })
            .collect();
        self.technique.report(&trials);
    }

    fn judge(&mut self, outcome: Outcome) -> Result<Outcome, Diagnostic> {
        match accept(outcome, self.negative)? {
            Outcome::Valid(cost) => self.state.objectives.judge(cost),
            invalid => Ok(invalid),
        }
    }

    fn record(&mut self, proposal: Proposal, m: Measured) {
        let now = self.clock.now();
        let mut times = m.times;
        times.search = self.state.search.as_secs_f64();
        times.total = now.saturating_sub(self.state.handed_out).as_secs_f64();
        let at = self.state.history.len();
        self.state.history.push(Entry {
            number: at as u64 + 1,
            at: now.saturating_sub(self.began),
            index: proposal.index,
            configuration: proposal.configuration,
            coordinates: proposal.coordinates,
            outcome: m.outcome,
            times,
            runtimes: m.runtimes,
            start: proposal.start,
        });
        match self.state.objectives.settle(&mut self.state.history) {
            true => self.rank_again(),
            false => self.rank(at),
        }
    }

    /// Ranks all evaluations again.
    fn rank_again(&mut self) {
        let state = &mut self.state;
        state.ranking = Ranking::new(state.ranking.order().clone());
        state.valid = 0;
        state.improvements.clear();
        state.front.clear();
        (0..self.state.history.len()).for_each(|at| self.rank(at));
    }

    /// Ranks an evaluation among all before it.
    fn rank(&mut self, at: usize) {
        let state = &mut self.state;
        let entry = &state.history[at];
        let ranked = entry.outcome.cost().map(|cost| state.ranking.push(at, cost));
        state.memo.insert(entry.index.clone(), ranked.map(|r| r.number));
        let Some(ranked) = ranked else { return };
        state.valid += 1;
        if ranked.changed
            && let Some((best, cost)) = state.ranking.best()
        {
            state.improvements.push(Improvement {
                evaluation: entry.number,
                at: entry.at,
                index: state.history[best].index.clone(),
                cost: cost.clone(),
            });
        }
        self.put_on_front(at);
    }

    /// Keeps the evaluations that nothing dominates; of equal ones the first.
    fn put_on_front(&mut self, at: usize) {
        let history = &self.state.history;
        let of = |n: u64| history[n as usize - 1].outcome.cost();
        let number = at as u64 + 1;
        let Some(cost) = of(number) else { return };
        let kept_out = |n: &u64| of(*n).is_some_and(|c| c == cost || dominates(c, cost));
        if self.state.front.iter().any(kept_out) {
            return;
        }
        let mut front = std::mem::take(&mut self.state.front);
        front.retain(|n| !of(*n).is_some_and(|c| dominates(cost, c)));
        front.push(number);
        self.state.front = front;
    }
}
