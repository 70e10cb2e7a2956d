//! The default technique.

use super::{AucBandit, Bayes, LocalSearch};

/// The AUC bandit over a model-guided and a local search, which learn from each other's measurements.
pub fn portfolio() -> AucBandit {
    AucBandit::new(vec![Box::new(Bayes::default()), Box::new(LocalSearch::default())]).named("portfolio")
}
