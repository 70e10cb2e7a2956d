//! Differential evolution: a member is challenged by another one plus the difference of two more.

use super::coordinates::{Probe, Stages, along, point};
use rand::Rng;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;

const POPULATION: usize = 30;
const DIFFERENCE: f64 = 0.7;
const CROSSOVER: f64 = 0.2;
/// How often an invalid first member is drawn again before it is kept as it is.
const REDRAWS: u32 = 10;

/// Differential evolution over the cube.
#[derive(Clone, Debug, Default)]
pub struct DifferentialEvolution {
    population: Vec<Probe>,
    /// The first generation is not complete yet; counts its redraws.
    redraws: Option<u32>,
}

impl DifferentialEvolution {
    fn challenger(&self, member: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let mut p = self.population[member].at.clone();
        let others: Vec<usize> = index::sample(rng, self.population.len(), 4)
            .into_iter()
            .filter(|i| *i != member)
            .take(3)
            .collect();
        let at = |i: usize| &self.population[others[i]].at;
        let donor = along(at(0), DIFFERENCE, at(1), at(2));
        let surely = rng.gen_range(0..p.len());
        for (i, v) in p.iter_mut().enumerate() {
            if i == surely || rng.gen_bool(CROSSOVER) {
                *v = donor[i];
            }
        }
        p
    }

    fn generation(&self, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        (0..self.population.len()).map(|i| self.challenger(i, rng)).collect()
    }
}

impl Stages for DifferentialEvolution {
    fn name(&self) -> &'static str {
        "differential-evolution"
    }

    fn begin(&mut self, dimensions: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        *self = DifferentialEvolution { population: Vec::new(), redraws: Some(0) };
        (0..POPULATION).map(|_| point(dimensions, rng)).collect()
    }

    fn next(&mut self, measured: &[Probe], rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        if let Some(redraws) = self.redraws {
            for probe in measured {
                if probe.cost.is_finite() || redraws >= REDRAWS {
                    self.population.push(probe.clone());
                }
            }
            let missing = POPULATION - self.population.len();
            if missing > 0 {
                self.redraws = Some(redraws + 1);
                let dimensions = measured[0].at.len();
                return (0..missing).map(|_| point(dimensions, rng)).collect();
            }
            self.redraws = None;
            return self.generation(rng);
        }
        for (member, probe) in self.population.iter_mut().zip(measured) {
            // At equal cost the newcomer wins, so that the population wanders over plateaus.
            if probe.cost <= member.cost {
                *member = probe.clone();
            }
        }
        self.generation(rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn every_challenger_differs_and_the_better_one_stays() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let mut search = DifferentialEvolution::default();
        let mut stage = search.begin(3, &mut rng);
        let cost = |p: &[f64]| p.iter().map(|v| (v.rem_euclid(1.0) - 0.4).powi(2)).sum::<f64>();
        for _ in 0..60 {
            assert_eq!(stage.len(), POPULATION);
            let before: Vec<f64> = search.population.iter().map(|p| p.cost).collect();
            let measured: Vec<Probe> = stage.iter().map(|p| Probe { at: p.clone(), cost: cost(p) }).collect();
            stage = search.next(&measured, &mut rng);
            for (old, new) in before.iter().zip(&search.population) {
                assert!(new.cost <= *old);
            }
            for (member, challenger) in search.population.iter().zip(&stage) {
                assert_ne!(&member.at, challenger);
            }
        }
        assert!(search.population.iter().any(|p| p.cost < 1e-3));
    }

    #[test]
    fn invalid_first_members_are_drawn_again_but_not_forever() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let mut search = DifferentialEvolution::default();
        let mut stage = search.begin(3, &mut rng);
        let mut rounds = 0;
        while search.redraws.is_some() {
            let measured: Vec<Probe> =
                stage.iter().map(|p| Probe { at: p.clone(), cost: f64::INFINITY }).collect();
            stage = search.next(&measured, &mut rng);
            rounds += 1;
        }
        assert_eq!(rounds, REDRAWS + 1);
        assert_eq!(stage.len(), POPULATION);
    }
}
