//! Simulated annealing as CLTune and ATF do it: a random neighbour, a fixed temperature.

use super::coordinates::{Probe, Stages, point, uniform};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// The probability of going from a cost to another at temperature `t`: 1 if it is lower, else
/// `exp(-(next - now) / t)`.
pub fn acceptance(now: f64, next: f64, t: f64) -> f64 {
    if next < now {
        1.0
    } else if now.is_infinite() {
        // From one invalid point to the next: nothing is lost.
        1.0
    } else {
        (-(next - now) / t).exp()
    }
}

/// Simulated annealing with a fixed temperature.
#[derive(Clone, Debug)]
pub struct Annealing {
    temperature: f64,
    /// Costs are counted in percent of the best cost so far, so that the unit of time does not matter.
    normalized: bool,
    now: Option<Probe>,
    best: f64,
}

impl Default for Annealing {
    /// Temperature 4 on costs in percent of the best: what is 4 % worse is accepted with probability 1/e.
    fn default() -> Annealing {
        Annealing { normalized: true, ..Annealing::thesis() }
    }
}

impl Annealing {
    /// Temperature 4 on costs as they are, which depends on their unit.
    pub fn thesis() -> Annealing {
        Annealing { temperature: 4.0, normalized: false, now: None, best: f64::INFINITY }
    }

    pub fn temperature(mut self, t: f64) -> Annealing {
        self.temperature = t;
        self
    }

    fn scaled(&self, cost: f64) -> f64 {
        if self.normalized && self.best != 0.0 && self.best.is_finite() {
            100.0 * cost / self.best.abs()
        } else {
            cost
        }
    }
}

/// Changes one random coordinate, and each other one with probability 1/L: mostly by a small step, at times to
/// anywhere.
fn neighbour(at: &[f64], rng: &mut ChaCha8Rng) -> Vec<f64> {
    let surely = rng.gen_range(0..at.len());
    let often = 1.0 / at.len() as f64;
    let mut out = at.to_vec();
    for (i, v) in out.iter_mut().enumerate() {
        if i != surely && !rng.gen_bool(often) {
            continue;
        }
        if rng.gen_bool(0.2) {
            *v = uniform(rng);
        } else {
            // Two uniform draws: small steps are more frequent. No wrapping: the ends are not neighbours.
            let step = 0.3 * (uniform(rng) - uniform(rng));
            *v = (*v + step).clamp(1e-9, 1.0);
        }
    }
    out
}

impl Stages for Annealing {
    fn name(&self) -> &'static str {
        if self.normalized { "annealing" } else { "thesis-annealing" }
    }

    fn begin(&mut self, dimensions: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        self.now = None;
        self.best = f64::INFINITY;
        vec![point(dimensions, rng)]
    }

    fn next(&mut self, measured: &[Probe], rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        for probe in measured {
            self.best = self.best.min(probe.cost);
            let accepted = self.now.as_ref().is_none_or(|now| {
                let p = acceptance(self.scaled(now.cost), self.scaled(probe.cost), self.temperature);
                rng.gen_bool(p.clamp(0.0, 1.0))
            });
            if accepted {
                self.now = Some(probe.clone());
            }
        }
        let from = self.now.as_ref().map_or(&measured[0].at, |p| &p.at);
        vec![neighbour(from, rng)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn checklist_22_the_acceptance_rule() {
        let mut rng = ChaCha8Rng::seed_from_u64(22);
        for (now, next) in [(10.0, 9.0), (10.0, 10.0), (10.0, 12.0), (10.0, 14.0), (10.0, 30.0)] {
            let expected = if next < now { 1.0 } else { (-(next - now) / 4.0f64).exp() };
            let mut accepted = 0;
            const RUNS: u32 = 20_000;
            for _ in 0..RUNS {
                let mut search = Annealing::thesis();
                search.begin(2, &mut rng);
                let old = Probe { at: vec![0.5, 0.5], cost: now };
                let new = Probe { at: vec![0.7, 0.7], cost: next };
                search.next(&[old], &mut rng);
                search.next(std::slice::from_ref(&new), &mut rng);
                accepted += u32::from(search.now == Some(new));
            }
            let rate = f64::from(accepted) / f64::from(RUNS);
            // Five standard deviations.
            let allowed = 5.0 * (expected * (1.0 - expected) / f64::from(RUNS)).sqrt() + 1e-12;
            assert!((rate - expected).abs() <= allowed, "{now} to {next}: {rate} instead of {expected}");
        }
    }

    #[test]
    fn normalized_costs_have_no_unit() {
        let path = |unit: f64| {
            let mut rng = ChaCha8Rng::seed_from_u64(3);
            let mut search = Annealing::default();
            let mut at = search.begin(3, &mut rng);
            for _ in 0..200 {
                let cost = unit * (1.0 + at[0].iter().map(|v| (v - 0.3).powi(2)).sum::<f64>());
                at = search.next(&[Probe { at: at[0].clone(), cost }], &mut rng);
            }
            at
        };
        assert_eq!(path(1.0), path(1024.0));
    }

    #[test]
    fn it_leaves_invalid_points() {
        assert_eq!(acceptance(f64::INFINITY, 3.0, 4.0), 1.0);
        assert_eq!(acceptance(f64::INFINITY, f64::INFINITY, 4.0), 1.0);
        assert_eq!(acceptance(3.0, f64::INFINITY, 4.0), 0.0);
    }
}
