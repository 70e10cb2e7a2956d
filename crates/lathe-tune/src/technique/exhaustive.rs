//! Every configuration once, in the order of the space.

use super::{Point, Technique, Trial};
use lathe_space::Space;
use num_bigint::BigUint;
use std::sync::Arc;

/// Exhaustive search; the only technique that surely finds the best configuration.
#[derive(Clone, Debug, Default)]
pub struct Exhaustive {
    next: BigUint,
    size: BigUint,
}

impl Technique for Exhaustive {
    fn name(&self) -> String {
        "exhaustive".to_string()
    }

    fn initialize(&mut self, space: &Arc<Space>, _seed: u64) {
        *self = Exhaustive { next: BigUint::ZERO, size: space.size().clone() };
    }

    fn next_batch(&mut self, n: usize) -> Vec<Point> {
        let mut out = Vec::new();
        while out.len() < n && self.next < self.size {
            out.push(Point::Index(self.next.clone()));
            self.next += 1u32;
        }
        out
    }

    fn report(&mut self, _trials: &[Trial]) {}
}
