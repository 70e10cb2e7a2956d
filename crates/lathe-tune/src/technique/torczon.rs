//! Torczon's multi-directional search: the whole simplex is reflected about its best corner, then expanded or
//! contracted, so that a stage can be measured in parallel.

use super::coordinates::{Probe, SMALL, Stages, along, cheapest, extent, move_others, point, simplex};
use rand_chacha::ChaCha8Rng;

const SIDE: f64 = 0.1;
const EXPAND: f64 = 2.0;
const CONTRACT: f64 = 0.5;

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Simplex,
    Reflect,
    /// Carries the reflected corners.
    Expand(Vec<Probe>),
    Contract,
}

/// Torczon's multi-directional search with restarts.
#[derive(Clone, Debug)]
pub struct Torczon {
    phase: Phase,
    /// The best one first.
    corners: Vec<Probe>,
}

impl Default for Torczon {
    fn default() -> Torczon {
        Torczon { phase: Phase::Simplex, corners: Vec::new() }
    }
}

impl Torczon {
    /// The corners but the best one at `t` times their distance from it, on the same side if `t` is positive.
    fn scaled(&self, t: f64) -> Vec<Vec<f64>> {
        let best = &self.corners[0].at;
        self.corners[1..].iter().map(|p| along(best, t, &p.at, best)).collect()
    }

    fn reflect(&mut self, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        if extent(&self.corners) < SMALL {
            return self.begin(self.corners[0].at.len(), rng);
        }
        self.phase = Phase::Reflect;
        self.scaled(-1.0)
    }
}

impl Stages for Torczon {
    fn name(&self) -> &'static str {
        "torczon"
    }

    fn begin(&mut self, dimensions: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        *self = Torczon::default();
        simplex(point(dimensions, rng), || SIDE)
    }

    fn next(&mut self, measured: &[Probe], rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        let least = measured[cheapest(measured)].cost;
        match std::mem::replace(&mut self.phase, Phase::Simplex) {
            Phase::Simplex => {
                self.corners = measured.to_vec();
                let best = cheapest(measured);
                self.corners.swap(0, best);
                self.reflect(rng)
            }
            Phase::Reflect if least < self.corners[0].cost => {
                self.phase = Phase::Expand(measured.to_vec());
                self.scaled(-EXPAND)
            }
            Phase::Reflect => {
                self.phase = Phase::Contract;
                self.scaled(CONTRACT)
            }
            Phase::Expand(reflected) => {
                let expanded_wins = least < reflected[cheapest(&reflected)].cost;
                move_others(&mut self.corners, if expanded_wins { measured.to_vec() } else { reflected });
                self.reflect(rng)
            }
            Phase::Contract => {
                move_others(&mut self.corners, measured.iter().cloned());
                self.reflect(rng)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn the_first_simplex_has_one_offset_per_corner() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let stage = Torczon::default().begin(4, &mut rng);
        assert_eq!(stage.len(), 5);
        for (i, p) in stage[1..].iter().enumerate() {
            let moved: Vec<usize> = (0..4).filter(|j| p[*j] != stage[0][*j]).collect();
            assert_eq!(moved, [i]);
        }
    }

    #[test]
    fn it_descends_to_the_bottom_of_a_bowl() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut search = Torczon::default();
        let mut stage = search.begin(3, &mut rng);
        let mut best = f64::INFINITY;
        for _ in 0..100 {
            let probe =
                |p: &Vec<f64>| Probe { at: p.clone(), cost: p.iter().map(|v| (v - 0.4).powi(2)).sum() };
            let measured: Vec<Probe> = stage.iter().map(probe).collect();
            best = measured.iter().fold(best, |b, p| b.min(p.cost));
            stage = search.next(&measured, &mut rng);
        }
        assert!(best < 1e-4, "{best}");
    }
}
