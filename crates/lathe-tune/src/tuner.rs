//! How a search is set up, and the loop for callers that only have a cost function.

use crate::clock::{Clock, SystemClock};
use crate::codes;
use crate::cost::Order;
use crate::history::{Measured, Tuned};
use crate::session::{Refusal, State, TuningSession};
use crate::stop::Stop;
use crate::technique::{Technique, portfolio};
use lathe_diagnostics::Diagnostic;
use lathe_space::{Blocks, Configuration, Space};
use num_bigint::BigUint;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A search to be: the space, and how to search it.
///
/// The default is the AUC bandit over the arms of [`portfolio`], until as many configurations were measured as the
/// space has.
pub struct Tuner {
    space: Arc<Space>,
    technique: Option<Box<dyn Technique>>,
    stop: Option<Stop>,
    seed: u64,
    blocks: Blocks,
    order: Order,
    negative: bool,
    clock: Box<dyn Clock>,
    interrupt: Option<Arc<AtomicBool>>,
    refusal: Option<Refusal>,
    starts: Vec<Configuration>,
}

impl Tuner {
    pub fn new(space: impl Into<Arc<Space>>) -> Tuner {
        Tuner {
            space: space.into(),
            technique: None,
            stop: None,
            seed: 0,
            blocks: Blocks::Weighted,
            order: Order::default(),
            negative: false,
            clock: Box::new(SystemClock::default()),
            interrupt: None,
            refusal: None,
            starts: Vec::new(),
        }
    }

    pub fn technique(mut self, technique: Box<dyn Technique>) -> Tuner {
        self.technique = Some(technique);
        self
    }

    pub fn stop(mut self, stop: Stop) -> Tuner {
        self.stop = Some(stop);
        self
    }

    /// Equal seeds (and costs) give equal searches.
    pub fn seed(mut self, seed: u64) -> Tuner {
        self.seed = seed;
        self
    }

    /// How coordinates are mapped: in proportion to the configurations below (the default: a uniform point is a
    /// uniform configuration), or in equal blocks.
    pub fn blocks(mut self, blocks: Blocks) -> Tuner {
        self.blocks = blocks;
        self
    }

    pub fn order(mut self, order: Order) -> Tuner {
        self.order = order;
        self
    }

    /// The objective is not a time: it may be below zero.
    pub fn negative_costs(mut self, allowed: bool) -> Tuner {
        self.negative = allowed;
        self
    }

    pub fn clock(mut self, clock: impl Clock + 'static) -> Tuner {
        self.clock = Box::new(clock);
        self
    }

    /// When the flag is set, no further configuration is proposed.
    pub fn interrupt(mut self, flag: Arc<AtomicBool>) -> Tuner {
        self.interrupt = Some(flag);
        self
    }

    /// Configurations to try first: defaults, winners for similar sizes. Invalid ones are moved to the nearest
    /// valid configuration.
    pub fn starting_points(mut self, starts: impl IntoIterator<Item = Configuration>) -> Tuner {
        self.starts.extend(starts);
        self
    }

    /// A check that costs nothing compared to measuring: what it says true for is not measured, and does not count
    /// as an evaluation.
    pub fn refuse(mut self, refusal: impl Fn(&Configuration) -> bool + Send + Sync + 'static) -> Tuner {
        self.refusal = Some(Arc::new(refusal));
        self
    }

    /// Begins the search. An error if the space is empty or a starting point has other parameters.
    pub fn session(self) -> Result<TuningSession, Diagnostic> {
        if self.space.size() == &BigUint::ZERO {
            return Err(Diagnostic::error(codes::EMPTY, "the space has no valid configuration")
                .help("widen the ranges or loosen the constraints"));
        }
        let mut starts = Vec::new();
        for c in &self.starts {
            let index = self.space.index_of(c).or_else(|| self.space.nearest(c)).ok_or_else(|| {
                Diagnostic::error(codes::START, format!("the starting point {c} does not fit the space"))
            })?;
            starts.push(index);
        }
        let stop = self.stop.unwrap_or_else(|| Stop::default_for(self.space.size()));
        let mut technique = self.technique.unwrap_or_else(|| Box::new(portfolio()));
        technique.initialize(&self.space, self.seed);
        let began = self.clock.now();
        Ok(TuningSession {
            space: self.space,
            technique,
            stop,
            seed: self.seed,
            blocks: self.blocks,
            negative: self.negative,
            clock: self.clock,
            interrupt: self.interrupt,
            refusal: self.refusal,
            starts: starts.into(),
            rng: ChaCha8Rng::seed_from_u64(self.seed ^ 0x5e55_1011),
            began,
            state: State::new(self.order),
        })
    }

    /// Searches with this cost function. A failing cost function ends the search; what it found is in the result.
    pub fn tune<M: Into<Measured>>(
        self,
        mut cost: impl FnMut(&Configuration) -> M,
    ) -> Result<Tuned, Diagnostic> {
        self.tune_in_batches(1, |batch| batch.iter().map(|c| cost(c).into()).collect())
    }

    /// Searches with a cost function that measures up to `n` configurations at once.
    pub fn tune_in_batches(
        self,
        n: usize,
        mut cost: impl FnMut(&[Configuration]) -> Vec<Measured>,
    ) -> Result<Tuned, Diagnostic> {
        let mut session = self.session()?;
        loop {
            let batch: Vec<Configuration> =
                session.next_batch(n)?.into_iter().map(|p| p.configuration).collect();
            if batch.is_empty() {
                return Ok(session.finish());
            }
            // A failure is kept in the session, which has then ended.
            if session.report(cost(&batch)).is_err() && session.ended() == &crate::history::Ended::Running {
                return Err(Diagnostic::error(
                    codes::ORDER,
                    format!("the cost function did not answer for each of {} configurations", batch.len()),
                ));
            }
        }
    }
}
