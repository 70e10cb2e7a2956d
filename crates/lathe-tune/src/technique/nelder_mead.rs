//! The simplex method of Nelder and Mead, with the coefficients of OpenTuner and restarts.

use super::coordinates::{Probe, SMALL, Stages, along, clamp, extent, move_others, point, simplex, uniform};
use rand_chacha::ChaCha8Rng;

/// Twice the usual length: at the usual one, a simplex tends to become flat.
const REFLECT: f64 = 2.0;
const EXPAND: f64 = 2.0;
const CONTRACT: f64 = 0.5;
const SHRINK: f64 = 0.5;

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// The corners of a new simplex.
    Simplex,
    Reflect,
    /// Carries the reflected point.
    Expand(Probe),
    Contract,
    /// All corners but the best one, moved towards it.
    Shrink,
}

/// Nelder and Mead's downhill simplex.
#[derive(Clone, Debug)]
pub struct NelderMead {
    phase: Phase,
    /// Sorted by cost whenever a phase begins.
    corners: Vec<Probe>,
}

impl Default for NelderMead {
    fn default() -> NelderMead {
        NelderMead { phase: Phase::Simplex, corners: Vec::new() }
    }
}

impl NelderMead {
    fn centre(&self) -> Vec<f64> {
        let others = &self.corners[..self.corners.len() - 1];
        (0..others[0].at.len())
            .map(|i| others.iter().map(|p| p.at[i]).sum::<f64>() / others.len() as f64)
            .collect()
    }

    fn inside(p: Vec<f64>) -> Vec<Vec<f64>> {
        vec![p.into_iter().map(clamp).collect()]
    }

    fn reflect(&mut self, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        self.corners.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        if extent(&self.corners) < SMALL {
            return self.begin(self.corners[0].at.len(), rng);
        }
        self.phase = Phase::Reflect;
        let (centre, worst) = (self.centre(), &self.corners[self.corners.len() - 1]);
        NelderMead::inside(along(&centre, REFLECT, &centre, &worst.at))
    }

    fn replace_worst(&mut self, p: Probe) {
        self.corners.pop();
        self.corners.push(p);
    }
}

impl Stages for NelderMead {
    fn name(&self) -> &'static str {
        "nelder-mead"
    }

    /// A random corner, and one more in every dimension, a random length to the side that has room.
    fn begin(&mut self, dimensions: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        *self = NelderMead::default();
        simplex(point(dimensions, rng), || 0.1 + 0.3 * uniform(rng))
    }

    fn next(&mut self, measured: &[Probe], rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        let probe = measured[0].clone();
        match std::mem::replace(&mut self.phase, Phase::Simplex) {
            Phase::Simplex => {
                self.corners = measured.to_vec();
                self.reflect(rng)
            }
            Phase::Reflect => {
                let n = self.corners.len();
                if probe.cost < self.corners[0].cost {
                    let centre = self.centre();
                    let further = along(&centre, EXPAND, &probe.at, &centre);
                    self.phase = Phase::Expand(probe);
                    return NelderMead::inside(further);
                }
                if probe.cost < self.corners[n.saturating_sub(2)].cost {
                    self.replace_worst(probe);
                    return self.reflect(rng);
                }
                if probe.cost < self.corners[n - 1].cost {
                    self.replace_worst(probe);
                }
                self.phase = Phase::Contract;
                let (centre, worst) = (self.centre(), &self.corners[n - 1]);
                NelderMead::inside(along(&centre, CONTRACT, &worst.at, &centre))
            }
            Phase::Expand(reflected) => {
                self.replace_worst(if probe.cost < reflected.cost { probe } else { reflected });
                self.reflect(rng)
            }
            Phase::Contract => {
                if probe.cost < self.corners[self.corners.len() - 1].cost {
                    self.replace_worst(probe);
                    return self.reflect(rng);
                }
                self.phase = Phase::Shrink;
                let best = &self.corners[0].at;
                self.corners[1..].iter().map(|p| along(best, SHRINK, &p.at, best)).collect()
            }
            Phase::Shrink => {
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
    fn it_descends_a_narrow_valley() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut search = NelderMead::default();
        let mut stage = search.begin(2, &mut rng);
        assert_eq!(stage.len(), 3);
        let mut best = f64::INFINITY;
        for _ in 0..300 {
            let probe = |p: &Vec<f64>| {
                let (x, y) = (p[0] - 0.6, p[1] - 0.6);
                Probe { at: p.clone(), cost: (x + y).powi(2) * 20.0 + (x - y).powi(2) }
            };
            let measured: Vec<Probe> = stage.iter().map(probe).collect();
            best = measured.iter().fold(best, |b, p| b.min(p.cost));
            stage = search.next(&measured, &mut rng);
            assert!(!stage.is_empty());
        }
        assert!(best < 1e-3, "{best}");
    }

    #[test]
    fn a_plateau_of_invalid_points_is_left() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut search = NelderMead::default();
        let mut stage = search.begin(2, &mut rng);
        let mut seen = Vec::new();
        for _ in 0..200 {
            let measured: Vec<Probe> =
                stage.iter().map(|p| Probe { at: p.clone(), cost: f64::INFINITY }).collect();
            seen.extend(stage.iter().map(|p| p[0]));
            stage = search.next(&measured, &mut rng);
        }
        let spread = seen.iter().fold(0.0f64, |m, v| m.max(*v)) - seen.iter().fold(1.0f64, |m, v| m.min(*v));
        assert!(spread > 0.7, "it stays in a corner: {spread}");
    }
}
