//! Cost functions: what a configuration costs, measured.
//!
//! [`Scripts`] runs a command, or a script that compiles and one that runs; [`Callable`] is a function of
//! Rust. A configuration whose program fails is invalid, with the reason; what makes measuring impossible at
//! all (a script without permission to run) is an error.

mod callable;
mod copies;
mod gold;
mod named;
mod place;
mod scripts;
mod shell;
mod step;
mod substitute;

pub use callable::{Callable, CheckedCallable};
pub use gold::{Comparator, Gold};
pub use scripts::{Scripts, ScriptsCost};
pub use substitute::{Tokens, substitute};

use crate::worker::Fault;
use lathe_space::Values;
use lathe_tune::{Cost, Pruning, Times};

/// What measuring one configuration gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub cost: Cost,
    /// 95 % interval of the first number, where it was measured more than once.
    pub interval: Option<(f64, f64)>,
    pub runs: u64,
}

impl From<Cost> for Sample {
    fn from(cost: Cost) -> Sample {
        Sample { cost, interval: None, runs: 1 }
    }
}

/// What came of measuring one configuration, and where the time went as far as that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub done: Result<Sample, Fault>,
    /// In seconds; all 0 where only the caller's clock knows.
    pub times: Times,
    /// The single runs, in seconds.
    pub runtimes: Vec<f64>,
}

impl Answer {
    /// Whether nothing more can be measured, or is wanted.
    pub fn ends_all(&self) -> bool {
        matches!(self.done, Err(Fault::Fatal(_) | Fault::Interrupted))
    }
}

impl From<Result<Sample, Fault>> for Answer {
    fn from(done: Result<Sample, Fault>) -> Answer {
        Answer { done, times: Times::default(), runtimes: Vec::new() }
    }
}

/// Anything that gives a configuration a cost. Costs are minimized.
pub trait CostFunction {
    /// Measures one configuration; `best` is the best cost so far, beyond which nothing need be exact.
    ///
    /// # Errors
    /// Why the configuration has no cost, or why none can be measured.
    fn measure(&mut self, configuration: &Values, best: Option<&Cost>) -> Result<Sample, Fault>;

    /// How many configurations it likes to be given at once: because it compiles, or measures, several side by side.
    fn batch(&self) -> usize {
        1
    }

    /// Measures several, and says of each, by its position, what came of it as soon as that is known. After an
    /// answer that nothing can be measured, or that the user wants to stop, others may be missing.
    fn measure_all(&mut self, all: &[Values], best: Option<&Cost>, answer: &mut dyn FnMut(usize, Answer)) {
        for (i, configuration) in all.iter().enumerate() {
            let done = Answer::from(self.measure(configuration, best));
            let stop = done.ends_all();
            answer(i, done);
            if stop {
                return;
            }
        }
    }

    /// The technique asks for candidates to be given up by these rules.
    fn prune(&mut self, _rules: Pruning) {}

    /// Whether a cost that was measured before may be believed, now that it is better than all others: a cost function
    /// that compares results does so, unless it has done so already.
    ///
    /// # Errors
    /// Why it may not.
    fn believe(&mut self, _configuration: &Values) -> Result<(), Fault> {
        Ok(())
    }
}

impl<T: CostFunction + ?Sized> CostFunction for &mut T {
    fn measure(&mut self, configuration: &Values, best: Option<&Cost>) -> Result<Sample, Fault> {
        (**self).measure(configuration, best)
    }

    fn batch(&self) -> usize {
        (**self).batch()
    }

    fn measure_all(&mut self, all: &[Values], best: Option<&Cost>, answer: &mut dyn FnMut(usize, Answer)) {
        (**self).measure_all(all, best, answer);
    }

    fn prune(&mut self, rules: Pruning) {
        (**self).prune(rules);
    }

    fn believe(&mut self, configuration: &Values) -> Result<(), Fault> {
        (**self).believe(configuration)
    }
}
