//! The AUC bandit of OpenTuner: of several techniques, the one that improved the best most often and most lately
//! is asked next.

use super::arms::Arms;
use super::{Annealing, Coordinates, PatternSearch, Point, Technique, Torczon, Trial};
use lathe_space::Space;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many uses are remembered.
pub const AUC_WINDOW: usize = 500;
/// The weight of arms that were rarely used.
pub const AUC_C: f64 = 0.05;

#[derive(Clone, Copy, Debug, Default)]
struct Arm {
    uses: u64,
    /// The sum of the positions, among the arm's uses in the window, of those that improved the best.
    sum: u64,
    improvements: u64,
}

/// The scores of the arms over a sliding window; every update takes constant time.
#[derive(Clone, Debug)]
pub struct Auc {
    limit: usize,
    c: f64,
    window: VecDeque<(usize, bool)>,
    arms: Vec<Arm>,
}

impl Auc {
    pub fn new(arms: usize, window: usize, c: f64) -> Auc {
        Auc { limit: window.max(1), c, window: VecDeque::new(), arms: vec![Arm::default(); arms] }
    }

    /// An arm was used, and did or did not improve the best cost.
    pub fn push(&mut self, arm: usize, improved: bool) {
        if self.window.len() == self.limit
            && let Some((old, improved)) = self.window.pop_front()
        {
            let a = &mut self.arms[old];
            // All positions move down by one; the oldest use leaves from position one.
            a.sum -= a.improvements;
            a.improvements -= u64::from(improved);
            a.uses -= 1;
        }
        self.window.push_back((arm, improved));
        let a = &mut self.arms[arm];
        a.uses += 1;
        if improved {
            a.sum += a.uses;
            a.improvements += 1;
        }
    }

    /// `AUC + C sqrt(2 log2(|window|) / uses)`, infinite for an arm that the window does not hold. AUC is the part
    /// that improvements have in the area under the curve: `2 / (n (n + 1))` times the sum of their positions.
    pub fn score(&self, arm: usize) -> f64 {
        let a = self.arms[arm];
        if a.uses == 0 {
            return f64::INFINITY;
        }
        let n = a.uses as f64;
        let area = 2.0 * a.sum as f64 / (n * (n + 1.0));
        area + self.c * (2.0 * (self.window.len() as f64).log2() / n).sqrt()
    }

    /// The arms, best score first; equal ones in random order.
    pub fn order(&self, rng: &mut ChaCha8Rng) -> Vec<usize> {
        let mut arms: Vec<usize> = (0..self.arms.len()).collect();
        arms.shuffle(rng);
        arms.sort_by(|a, b| self.score(*b).total_cmp(&self.score(*a)));
        arms
    }
}

/// The AUC bandit over any techniques. By default those of ATF: annealing, pattern search, and Torczon's.
pub struct AucBandit {
    name: &'static str,
    arms: Arms,
    auc: Auc,
    window: usize,
    c: f64,
    best: f64,
    rng: ChaCha8Rng,
}

impl AucBandit {
    pub fn new(arms: Vec<Box<dyn Technique>>) -> AucBandit {
        AucBandit::with(arms, AUC_WINDOW, AUC_C)
    }

    /// With another window or another weight of rarely used arms.
    pub fn with(arms: Vec<Box<dyn Technique>>, window: usize, c: f64) -> AucBandit {
        let auc = Auc::new(arms.len(), window, c);
        let rng = ChaCha8Rng::seed_from_u64(0);
        AucBandit { name: "auc-bandit", arms: Arms::new(arms), auc, window, c, best: f64::INFINITY, rng }
    }

    /// Under another name.
    pub fn named(mut self, name: &'static str) -> AucBandit {
        self.name = name;
        self
    }

    pub fn scores(&self) -> &Auc {
        &self.auc
    }
}

impl Default for AucBandit {
    fn default() -> AucBandit {
        AucBandit::new(vec![
            Box::new(Coordinates::new(Annealing::default())),
            Box::new(Coordinates::new(PatternSearch::default())),
            Box::new(Coordinates::new(Torczon::default())),
        ])
    }
}

impl Technique for AucBandit {
    fn name(&self) -> String {
        self.name.to_string()
    }

    fn initialize(&mut self, space: &Arc<Space>, seed: u64) {
        self.rng = ChaCha8Rng::seed_from_u64(seed);
        self.auc = Auc::new(self.arms.all.len(), self.window, self.c);
        self.best = f64::INFINITY;
        self.arms.initialize(space, seed);
    }

    fn next_batch(&mut self, n: usize) -> Vec<Point> {
        let order = self.auc.order(&mut self.rng);
        self.arms.ask(order, n)
    }

    fn report(&mut self, trials: &[Trial]) {
        let arms = self.arms.report(trials);
        for (arm, trial) in arms.into_iter().zip(trials) {
            let improved = trial.cost.is_some_and(|c| c < self.best);
            self.auc.push(arm, improved);
            self.best = self.best.min(trial.cost_or_infinity());
        }
    }

    fn observe(&mut self, trials: &[Trial]) {
        self.best = trials.iter().fold(self.best, |b, t| b.min(t.cost_or_infinity()));
        self.arms.observe(trials);
    }

    fn finalize(&mut self) {
        self.arms.finalize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    /// The definition, computed from the whole window.
    fn reference(window: &[(usize, bool)], arm: usize, c: f64) -> f64 {
        let uses: Vec<bool> = window.iter().filter(|u| u.0 == arm).map(|u| u.1).collect();
        if uses.is_empty() {
            return f64::INFINITY;
        }
        let n = uses.len() as f64;
        let positions =
            uses.iter().enumerate().filter(|(_, improved)| **improved).map(|(i, _)| i as f64 + 1.0);
        2.0 / (n * (n + 1.0)) * positions.sum::<f64>() + c * (2.0 * (window.len() as f64).log2() / n).sqrt()
    }

    #[test]
    fn checklist_21_scores_equal_the_slow_reference_after_every_push() {
        let mut rng = ChaCha8Rng::seed_from_u64(21);
        for limit in [1, 7, AUC_WINDOW] {
            let mut auc = Auc::new(4, limit, AUC_C);
            let mut all = Vec::new();
            for _ in 0..3 * limit + 50 {
                let (arm, improved) = (rng.gen_range(0..4), rng.gen_bool(0.2));
                auc.push(arm, improved);
                all.push((arm, improved));
                let window = &all[all.len().saturating_sub(limit)..];
                for arm in 0..4 {
                    let (fast, slow) = (auc.score(arm), reference(window, arm, AUC_C));
                    assert!(fast == slow || (fast - slow).abs() < 1e-12, "{fast} and {slow}");
                }
            }
        }
    }

    #[test]
    fn checklist_21_the_arm_that_improves_is_preferred() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut auc = Auc::new(3, AUC_WINDOW, AUC_C);
        let mut used = [0; 3];
        for _ in 0..600 {
            let arm = auc.order(&mut rng)[0];
            used[arm] += 1;
            auc.push(arm, arm == 1 && rng.gen_bool(0.3));
        }
        assert!(used[1] > 5 * used[0] && used[1] > 5 * used[2], "{used:?}");
        assert!(used[0] > 0 && used[2] > 0);
    }

    #[test]
    fn equal_arms_are_used_in_random_order() {
        let auc = Auc::new(3, AUC_WINDOW, AUC_C);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut first = [0; 3];
        (0..300).for_each(|_| first[auc.order(&mut rng)[0]] += 1);
        assert!(first.iter().all(|n| *n > 60), "{first:?}");
    }
}
