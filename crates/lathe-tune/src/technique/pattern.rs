//! Pattern search after Hooke and Jeeves: explore every dimension, then jump on in the direction that helped.

use super::coordinates::{Probe, Stages, along, point};
use rand_chacha::ChaCha8Rng;

const FIRST_STEP: f64 = 0.1;
/// Below this step the search restarts somewhere else.
const LAST_STEP: f64 = 1e-3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Start,
    /// The point at which the pattern led us.
    Jump,
    /// `here` moved in this dimension, up or down.
    Explore {
        dimension: usize,
        up: bool,
    },
}

/// Hooke and Jeeves' pattern search with restarts.
#[derive(Clone, Debug)]
pub struct PatternSearch {
    phase: Phase,
    step: f64,
    /// The best point before exploring.
    base: Probe,
    /// Where exploring is.
    here: Probe,
}

impl Default for PatternSearch {
    fn default() -> PatternSearch {
        let nowhere = Probe { at: Vec::new(), cost: f64::INFINITY };
        PatternSearch { phase: Phase::Start, step: FIRST_STEP, base: nowhere.clone(), here: nowhere }
    }
}

impl PatternSearch {
    fn explore(&mut self, dimension: usize, up: bool) -> Vec<Vec<f64>> {
        self.phase = Phase::Explore { dimension, up };
        let mut p = self.here.at.clone();
        p[dimension] += if up { self.step } else { -self.step };
        vec![p]
    }

    /// Every dimension was explored.
    fn decide(&mut self, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        if self.here.cost < self.base.cost {
            let ahead = along(&self.here.at, 1.0, &self.here.at, &self.base.at);
            self.base = self.here.clone();
            self.phase = Phase::Jump;
            return vec![ahead];
        }
        let jumped = self.here.at != self.base.at;
        self.here = self.base.clone();
        if !jumped {
            self.step *= 0.5;
        }
        if self.step < LAST_STEP {
            return self.begin(self.base.at.len(), rng);
        }
        self.explore(0, true)
    }
}

impl Stages for PatternSearch {
    fn name(&self) -> &'static str {
        "pattern-search"
    }

    fn begin(&mut self, dimensions: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        *self = PatternSearch::default();
        vec![point(dimensions, rng)]
    }

    fn next(&mut self, measured: &[Probe], rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        let probe = measured[0].clone();
        match self.phase {
            Phase::Start => {
                self.base = probe.clone();
                self.here = probe;
                self.explore(0, true)
            }
            Phase::Jump => {
                self.here = probe;
                self.explore(0, true)
            }
            Phase::Explore { dimension, up } => {
                let better = probe.cost < self.here.cost;
                if better {
                    self.here = probe;
                }
                if up && !better {
                    self.explore(dimension, false)
                } else if dimension + 1 < self.here.at.len() {
                    self.explore(dimension + 1, true)
                } else {
                    self.decide(rng)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn it_descends_to_the_bottom_of_a_bowl() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut search = PatternSearch::default();
        let mut stage = search.begin(3, &mut rng);
        let mut best = f64::INFINITY;
        for _ in 0..200 {
            assert_eq!(stage.len(), 1);
            let cost: f64 = stage[0].iter().map(|v| (v - 0.4).powi(2)).sum();
            best = best.min(cost);
            stage = search.next(&[Probe { at: stage[0].clone(), cost }], &mut rng);
        }
        assert!(best < 1e-4, "{best}");
    }
}
