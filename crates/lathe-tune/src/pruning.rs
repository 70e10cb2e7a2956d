//! Giving up early on configurations that cannot win, after Tensor Comprehensions: what is once started on a GPU cannot
//! be killed, so that hopeless candidates should not be started, or not be started again.

use crate::cost::{Invalid, Why};
use serde::{Deserialize, Serialize};

/// When a candidate is dropped: a technique names the rules ([`crate::Technique::pruning`]), and whoever measures
/// keeps to them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pruning {
    /// A candidate that would run with fewer threads is not run at all.
    pub least_threads: u64,
    /// A candidate whose very first run takes so many times the best time is not run again.
    pub first_run: f64,
    /// The same once it is warm.
    pub warm_run: f64,
}

impl Default for Pruning {
    fn default() -> Pruning {
        Pruning { least_threads: 256, first_run: 100.0, warm_run: 5.0 }
    }
}

impl Pruning {
    /// Before running: the reason to skip a candidate that would run with so many threads.
    pub fn before(&self, threads: u64) -> Option<Invalid> {
        (threads < self.least_threads).then(|| {
            let text = format!("{threads} threads are fewer than the required {}", self.least_threads);
            Invalid::new(Why::Refused, text)
        })
    }

    /// After the first run, which may still load and warm up.
    pub fn after_first(&self, seconds: f64, best: Option<f64>) -> Option<Invalid> {
        slower(seconds, best, self.first_run, "the first run")
    }

    /// After a warm run.
    pub fn after_warm(&self, seconds: f64, best: Option<f64>) -> Option<Invalid> {
        slower(seconds, best, self.warm_run, "a warm run")
    }

    /// The longest that a first run may take before it can be given up.
    pub fn limit(&self, best: Option<f64>) -> Option<f64> {
        best.map(|b| b * self.first_run)
    }
}

fn slower(seconds: f64, best: Option<f64>, factor: f64, what: &str) -> Option<Invalid> {
    let best = best.filter(|b| *b > 0.0)?;
    (seconds > factor * best).then(|| {
        Invalid::new(Why::Timeout, format!("{what} took {:.1} times as long as the best", seconds / best))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_dropped_beyond_the_factors_only() {
        let p = Pruning::default();
        assert!(p.before(255).is_some() && p.before(256).is_none());
        assert!(p.after_first(100.0, Some(1.0)).is_none() && p.after_first(100.1, Some(1.0)).is_some());
        assert!(p.after_warm(5.0, Some(1.0)).is_none());
        assert_eq!(p.after_warm(5.1, Some(1.0)).map(|i| i.why), Some(Why::Timeout));
        assert!(p.after_warm(5.1, None).is_none() && p.after_warm(5.1, Some(0.0)).is_none());
        assert_eq!(p.limit(Some(0.5)), Some(50.0));
    }
}
