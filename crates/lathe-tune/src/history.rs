//! What happened in a session: every evaluation, every improvement, and what came of it.

use crate::cost::{Cost, Outcome};
use crate::stop::Improvement;
use lathe_diagnostics::Diagnostic;
use lathe_space::Configuration;
use num_bigint::BigUint;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Where the time of one evaluation went, in seconds. Cost functions fill in what they know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Spent by the technique to choose the configuration.
    pub search: f64,
    pub compile: f64,
    pub run: f64,
    pub validate: f64,
    /// From handing the configuration out to getting its cost, by the session's clock.
    pub total: f64,
}

/// What a cost function delivers for one configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub outcome: Outcome,
    pub times: Times,
    /// The single runtimes behind the cost, where there are any.
    pub runtimes: Vec<f64>,
}

impl From<Outcome> for Measured {
    fn from(outcome: Outcome) -> Measured {
        Measured { outcome, times: Times::default(), runtimes: Vec::new() }
    }
}

impl<C: Into<Cost>> From<C> for Measured {
    fn from(cost: C) -> Measured {
        Measured::from(Outcome::Valid(cost.into()))
    }
}

/// One evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Counts from 1.
    pub number: u64,
    /// When its outcome was known, since the session began.
    pub at: Duration,
    pub index: BigUint,
    pub configuration: Configuration,
    /// The coordinates that the technique asked for, or those of the configuration.
    pub coordinates: Vec<f64>,
    pub outcome: Outcome,
    pub times: Times,
    pub runtimes: Vec<f64>,
    /// It was a starting point, not the technique's choice.
    pub start: bool,
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// It has not.
    Running,
    /// Its stop rule was met before every configuration was measured.
    Stopped,
    /// The interrupt flag was set.
    Interrupted,
    /// Every configuration was measured.
    Exhausted,
    /// The technique had nothing more to ask.
    Finished,
    /// Only configurations were left that are refused before measuring, as far as was looked.
    Refused,
    /// The cost function failed, as opposed to the configuration.
    Failed(Diagnostic),
}

/// The result of tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// The best configuration with its cost; none if all that were measured are invalid.
    pub best: Option<(Configuration, Cost)>,
    pub ended: Ended,
    pub technique: String,
    pub seed: u64,
    pub elapsed: Duration,
    pub history: Vec<Entry>,
    pub improvements: Vec<Improvement>,
    /// Numbers of the evaluations that no other one dominates; several where there are several objectives.
    pub front: Vec<u64>,
}

impl Tuned {
    /// The number of the evaluation that found the best configuration.
    pub fn evaluations_to_best(&self) -> Option<u64> {
        self.improvements.last().map(|i| i.evaluation)
    }

    pub fn evaluations(&self) -> u64 {
        self.history.len() as u64
    }

    pub fn valid(&self) -> u64 {
        self.history.iter().filter(|e| e.outcome.cost().is_some()).count() as u64
    }
}
