//! Particle swarm: particles are drawn to the best point that they saw, and to the best that any of them saw.

use super::coordinates::{Probe, Stages, cheapest, point, wrap};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

const PARTICLES: usize = 30;
const PULL: f64 = 2.05;
/// A particle crosses the cube in no fewer steps than two: without a bound, speeds grow until they are noise.
const FASTEST: f64 = 0.5;

#[derive(Clone, Debug)]
struct Particle {
    at: Vec<f64>,
    speed: Vec<f64>,
    best: Probe,
}

/// One swarm of thirty particles.
#[derive(Clone, Debug, Default)]
pub struct ParticleSwarm {
    particles: Vec<Particle>,
}

impl Stages for ParticleSwarm {
    fn name(&self) -> &'static str {
        "particle-swarm"
    }

    fn begin(&mut self, dimensions: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        self.particles.clear();
        (0..PARTICLES).map(|_| point(dimensions, rng)).collect()
    }

    fn next(&mut self, measured: &[Probe], rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        if self.particles.is_empty() {
            let new =
                |p: &Probe| Particle { at: p.at.clone(), speed: vec![0.0; p.at.len()], best: p.clone() };
            self.particles = measured.iter().map(new).collect();
        } else {
            for (particle, probe) in self.particles.iter_mut().zip(measured) {
                if probe.cost < particle.best.cost {
                    particle.best = probe.clone();
                }
            }
        }
        let bests: Vec<Probe> = self.particles.iter().map(|p| p.best.clone()).collect();
        let global = &bests[cheapest(&bests)].at;
        let moved = |p: &mut Particle| {
            for (i, best) in global.iter().enumerate() {
                let own = rng.gen_range(0.0..PULL) * (p.best.at[i] - p.at[i]);
                let shared = rng.gen_range(0.0..PULL) * (best - p.at[i]);
                p.speed[i] = (p.speed[i] + own + shared).clamp(-FASTEST, FASTEST);
                p.at[i] = wrap(p.at[i] + p.speed[i]);
            }
            p.at.clone()
        };
        self.particles.iter_mut().map(moved).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn particles_stay_inside_and_remember_their_best() {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        let mut swarm = ParticleSwarm::default();
        let mut stage = swarm.begin(2, &mut rng);
        for _ in 0..50 {
            assert_eq!(stage.len(), PARTICLES);
            assert!(stage.iter().flatten().all(|v| *v > 0.0 && *v <= 1.0));
            let probe =
                |p: &Vec<f64>| Probe { at: p.clone(), cost: p.iter().map(|v| (v - 0.4).powi(2)).sum() };
            let measured: Vec<Probe> = stage.iter().map(probe).collect();
            stage = swarm.next(&measured, &mut rng);
            for (p, m) in swarm.particles.iter().zip(&measured) {
                assert!(p.best.cost <= m.cost);
            }
        }
        assert!(swarm.particles.iter().any(|p| p.best.cost < 1e-3));
    }
}
