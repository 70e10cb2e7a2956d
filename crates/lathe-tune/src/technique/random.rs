//! Uniform draws over the valid configurations.

use super::{Point, Technique, Trial};
use lathe_space::Space;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Random search: each configuration is equally likely, whatever the shape of the space.
#[derive(Clone, Debug, Default)]
pub struct Random {
    state: Option<(Arc<Space>, ChaCha8Rng)>,
}

impl Technique for Random {
    fn name(&self) -> String {
        "random".to_string()
    }

    fn initialize(&mut self, space: &Arc<Space>, seed: u64) {
        self.state = Some((space.clone(), ChaCha8Rng::seed_from_u64(seed)));
    }

    fn next_batch(&mut self, n: usize) -> Vec<Point> {
        let Some((space, rng)) = &mut self.state else { return Vec::new() };
        (0..n).map(|_| Point::Index(space.sample(rng))).collect()
    }

    fn report(&mut self, _trials: &[Trial]) {}
}
