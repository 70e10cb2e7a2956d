//! The default technique.

use super::{AucBandit, Bayes, LocalSearch};

/// After so many measurements without improvement, the local search takes part.
const STAGNATION: u32 = 60;

/// The AUC bandit with its usual window and weight, over two model-guided searches and a local one.
///
/// The two models differ only in their draws: fitted to different parts of what was seen, they err differently, and
/// each learns from what the other measures. On tables of costs that is worth more than any setting of one model. The
/// local search is for costs that no smooth model explains. The bandit of the thesis, over annealing, pattern search
/// and Torczon's simplex, is [`AucBandit::default`].
pub fn portfolio() -> AucBandit {
    AucBandit::new(vec![
        Box::new(Bayes::default()),
        Box::new(Bayes::default()),
        Box::new(LocalSearch::after_stagnation(STAGNATION)),
    ])
    .named("portfolio")
}
