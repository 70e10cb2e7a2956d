//! Techniques in turn, one request each.

use super::arms::Arms;
use super::{
    Coordinates, DifferentialEvolution, ParticleSwarm, PatternSearch, Point, PseudoAnnealing, Technique,
    Torczon, Trial,
};
use lathe_space::Space;
use std::sync::Arc;

/// Cycles over its arms.
pub struct RoundRobin {
    arms: Arms,
    turn: usize,
}

impl RoundRobin {
    pub fn new(arms: Vec<Box<dyn Technique>>) -> RoundRobin {
        RoundRobin { arms: Arms::new(arms), turn: 0 }
    }
}

impl Default for RoundRobin {
    fn default() -> RoundRobin {
        RoundRobin::new(vec![
            Box::new(Coordinates::new(PseudoAnnealing::default())),
            Box::new(Coordinates::new(DifferentialEvolution::default())),
            Box::new(Coordinates::new(ParticleSwarm::default())),
            Box::new(Coordinates::new(PatternSearch::default())),
            Box::new(Coordinates::new(Torczon::default())),
        ])
    }
}

impl Technique for RoundRobin {
    fn name(&self) -> String {
        "round-robin".to_string()
    }

    fn initialize(&mut self, space: &Arc<Space>, seed: u64) {
        self.turn = 0;
        self.arms.initialize(space, seed);
    }

    fn next_batch(&mut self, n: usize) -> Vec<Point> {
        let count = self.arms.all.len();
        let first = self.turn;
        self.turn = (first + 1) % count.max(1);
        self.arms.ask((0..count).map(|i| (first + i) % count), n)
    }

    fn report(&mut self, trials: &[Trial]) {
        self.arms.report(trials);
    }

    fn observe(&mut self, trials: &[Trial]) {
        self.arms.observe(trials);
    }

    fn finalize(&mut self) {
        self.arms.finalize();
    }
}
