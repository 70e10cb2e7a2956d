//! Several techniques that share one search: whose points are whose.

use super::{Point, Technique, Trial};
use lathe_space::Space;
use std::sync::Arc;

pub(crate) struct Arms {
    pub all: Vec<Box<dyn Technique>>,
    /// Which arm asked for how many of the pending points, in order.
    pending: Vec<(usize, usize)>,
}

impl Arms {
    pub fn new(all: Vec<Box<dyn Technique>>) -> Arms {
        Arms { all, pending: Vec::new() }
    }

    pub fn initialize(&mut self, space: &Arc<Space>, seed: u64) {
        self.pending.clear();
        for (i, arm) in self.all.iter_mut().enumerate() {
            // Arms of one kind must not walk in step.
            arm.initialize(space, seed ^ (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
    }

    /// Asks the arms in this order until there are `n` points or no arm is left.
    pub fn ask(&mut self, order: impl IntoIterator<Item = usize>, n: usize) -> Vec<Point> {
        let mut out = Vec::new();
        for arm in order {
            if out.len() >= n {
                break;
            }
            let points = self.all[arm].next_batch(n - out.len());
            if !points.is_empty() {
                self.pending.push((arm, points.len()));
                out.extend(points);
            }
        }
        out
    }

    /// Hands every trial to the arm that asked for it, and shows it to the others; gives the arm of each.
    pub fn report(&mut self, trials: &[Trial]) -> Vec<usize> {
        let mut asked_by = Vec::with_capacity(trials.len());
        let mut rest = trials;
        for (asker, count) in std::mem::take(&mut self.pending) {
            let (own, others) = rest.split_at(count.min(rest.len()));
            for (i, arm) in self.all.iter_mut().enumerate() {
                if i == asker { arm.report(own) } else { arm.observe(own) }
            }
            asked_by.extend(std::iter::repeat_n(asker, own.len()));
            rest = others;
        }
        asked_by
    }

    pub fn observe(&mut self, trials: &[Trial]) {
        self.all.iter_mut().for_each(|arm| arm.observe(trials));
    }

    pub fn finalize(&mut self) {
        self.all.iter_mut().for_each(|arm| arm.finalize());
    }
}
