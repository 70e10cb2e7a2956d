//! The annealing of OpenTuner and of ATF's reference code: every dimension is tried in both directions, the
//! temperature falls and starts again.

use super::coordinates::{Probe, Stages, cheapest, point, uniform};
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

const HOT: f64 = 30.0;
const STEPS: u32 = 100;

/// Annealing with a falling temperature over the neighbours in every dimension.
#[derive(Clone, Debug, Default)]
pub struct PseudoAnnealing {
    best: Option<Probe>,
    time: u32,
}

impl PseudoAnnealing {
    /// From 30 down to 0 in a hundred steps, again and again.
    fn temperature(&self) -> f64 {
        HOT * (1.0 - f64::from(self.time % (STEPS + 1)) / f64::from(STEPS))
    }

    fn around(&self, at: &[f64], rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        let step = (-(20.0 + f64::from(self.time) / 100.0) / (self.temperature() + 1.0)).exp();
        let mut out = Vec::with_capacity(2 * at.len());
        for i in 0..at.len() {
            for sign in [1.0, -1.0] {
                let mut p = at.to_vec();
                p[i] += sign * step * uniform(rng);
                out.push(p);
            }
        }
        out
    }
}

/// The probability of accepting a point of this cost.
fn passes(cost: f64, best: f64, temperature: f64) -> f64 {
    let relative = if best > 0.0 { cost / best } else { 1.0 + cost - best };
    if relative <= 1.0 {
        return 1.0;
    }
    let exponent = 50.0 * (1.0 - relative) / temperature;
    if temperature <= 0.0 || exponent < -10.0 || exponent.is_nan() { 0.0 } else { exponent.exp() }
}

impl Stages for PseudoAnnealing {
    fn name(&self) -> &'static str {
        "pseudo-annealing"
    }

    fn begin(&mut self, dimensions: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        *self = PseudoAnnealing::default();
        vec![point(dimensions, rng)]
    }

    fn next(&mut self, measured: &[Probe], rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        let candidate = &measured[cheapest(measured)];
        let best = match self.best.take() {
            Some(best) if best.cost <= candidate.cost => best,
            _ => candidate.clone(),
        };
        let temperature = self.temperature();
        let mut order: Vec<&Probe> = measured.iter().collect();
        order.shuffle(rng);
        let passing = order.into_iter().find(|p| rng.gen_bool(passes(p.cost, best.cost, temperature)));
        let here = passing.unwrap_or(&best).at.clone();
        self.best = Some(best);
        self.time += 1;
        self.around(&here, rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acceptance_follows_the_relative_cost() {
        assert_eq!(passes(1.0, 1.0, 10.0), 1.0);
        assert_eq!(passes(2.0, 1.0, 0.0), 0.0);
        assert!((passes(1.1, 1.0, 10.0) - (-0.5f64).exp()).abs() < 1e-12);
        assert_eq!(passes(9.0, 1.0, 10.0), 0.0);
        assert_eq!(passes(f64::INFINITY, 1.0, 10.0), 0.0);
    }

    #[test]
    fn the_temperature_falls_and_starts_again() {
        let at = |time| PseudoAnnealing { best: None, time }.temperature();
        assert_eq!((at(0), at(100), at(101)), (30.0, 0.0, 30.0));
        assert!((at(50) - 15.0).abs() < 1e-12);
    }
}
