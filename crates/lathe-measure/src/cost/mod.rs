//! Cost functions: what a configuration costs, measured.
//!
//! [`Scripts`] runs a command, or a script that compiles and one that runs; [`Callable`] is a function of
//! Rust. A configuration whose program fails is invalid, with the reason; what makes measuring impossible at
//! all (a script without permission to run) is an error.

mod callable;
mod gold;
mod scripts;
mod substitute;

pub use callable::{Callable, CheckedCallable};
pub use gold::{Comparator, Gold};
pub use scripts::{Scripts, ScriptsCost};
pub use substitute::{Tokens, substitute};

use crate::worker::Fault;
use lathe_space::Values;
use lathe_tune::Cost;

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
}

impl<T: CostFunction + ?Sized> CostFunction for Box<T> {
    fn measure(&mut self, configuration: &Values, best: Option<&Cost>) -> Result<Sample, Fault> {
        (**self).measure(configuration, best)
    }
}

impl<T: CostFunction + ?Sized> CostFunction for &mut T {
    fn measure(&mut self, configuration: &Values, best: Option<&Cost>) -> Result<Sample, Fault> {
        (**self).measure(configuration, best)
    }
}
