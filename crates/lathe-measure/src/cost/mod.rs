//! Cost functions: what a configuration costs, measured.
//!
//! [`Scripts`] runs a command, or a script that compiles and one that runs; [`Callable`] is a function of
//! Rust. A configuration whose program fails is invalid, with the reason; what makes measuring impossible at
//! all (a script without permission to run) is an error.

mod callable;
mod gold;
mod named;
mod place;
mod scripts;
mod step;
mod substitute;

pub use callable::{Callable, CheckedCallable};
pub use gold::{Comparator, Gold};
pub use scripts::{Scripts, ScriptsCost};
pub use substitute::{Tokens, substitute};

use crate::worker::Fault;
use lathe_space::Values;
use lathe_tune::{Cost, Pruning};

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
    fn measure_all(
        &mut self,
        all: &[Values],
        best: Option<&Cost>,
        answer: &mut dyn FnMut(usize, Result<Sample, Fault>),
    ) {
        for (i, configuration) in all.iter().enumerate() {
            let done = self.measure(configuration, best);
            let stop = matches!(done, Err(Fault::Fatal(_) | Fault::Interrupted));
            answer(i, done);
            if stop {
                return;
            }
        }
    }

    /// The technique asks for candidates to be given up by these rules.
    fn prune(&mut self, _rules: Pruning) {}
}

impl<T: CostFunction + ?Sized> CostFunction for &mut T {
    fn measure(&mut self, configuration: &Values, best: Option<&Cost>) -> Result<Sample, Fault> {
        (**self).measure(configuration, best)
    }

    fn batch(&self) -> usize {
        (**self).batch()
    }

    fn measure_all(
        &mut self,
        all: &[Values],
        best: Option<&Cost>,
        answer: &mut dyn FnMut(usize, Result<Sample, Fault>),
    ) {
        (**self).measure_all(all, best, answer);
    }

    fn prune(&mut self, rules: Pruning) {
        (**self).prune(rules);
    }
}
