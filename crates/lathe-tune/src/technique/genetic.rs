//! The genetic search of Tensor Comprehensions: every gene of a child comes from one of three parents.

use super::{Point, Technique, Trial};
use crate::lattice::{Genes, Lattice};
use crate::pruning::Pruning;
use lathe_space::Space;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

const POPULATION: usize = 20;
/// How many of the best live on.
const ELITE: usize = 10;
/// The probability that a gene is drawn again.
const MUTATION: f64 = 0.1;

/// A genetic algorithm with three parents per child, drawn in proportion to their fitness, which is inversely
/// proportional to the cost.
#[derive(Default)]
pub struct Genetic {
    core: Option<Core>,
}

struct Core {
    lattice: Lattice,
    rng: ChaCha8Rng,
    /// Valid members, best first.
    parents: Vec<(Genes, f64)>,
    children: Vec<(Genes, f64)>,
    /// Answers of this generation, invalid ones included.
    answered: usize,
    asked: usize,
}

impl Core {
    fn fitness(&self, member: usize) -> f64 {
        let (best, cost) = (self.parents[0].1, self.parents[member].1);
        if best > 0.0 { best / cost } else { 1.0 / (1.0 + member as f64) }
    }

    fn parent(&mut self) -> usize {
        let total: f64 = (0..self.parents.len()).map(|i| self.fitness(i)).sum();
        let mut at = self.rng.gen_range(0.0..1.0) * total;
        for i in 0..self.parents.len() {
            at -= self.fitness(i);
            if at < 0.0 {
                return i;
            }
        }
        self.parents.len() - 1
    }

    fn child(&mut self) -> Genes {
        if self.parents.len() < 3 {
            return self.lattice.sample(&mut self.rng).0;
        }
        let three = [self.parent(), self.parent(), self.parent()];
        let mut genes = Vec::with_capacity(self.lattice.axes().len());
        for axis in 0..self.lattice.axes().len() {
            let from = three[self.rng.gen_range(0..3)];
            let mutated = self.rng.gen_bool(MUTATION);
            genes.push(if mutated {
                self.lattice.any_value(axis, &mut self.rng)
            } else {
                self.parents[from].0[axis]
            });
        }
        genes
    }

    fn next_generation(&mut self) {
        self.parents.truncate(ELITE);
        self.parents.append(&mut self.children);
        self.parents.sort_by(|a, b| a.1.total_cmp(&b.1));
        self.parents.dedup();
        self.parents.truncate(POPULATION);
        (self.asked, self.answered) = (0, 0);
    }
}

impl Technique for Genetic {
    fn name(&self) -> String {
        "genetic".to_string()
    }

    fn initialize(&mut self, space: &Arc<Space>, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let lattice = Lattice::new(space, &mut rng);
        let (parents, children) = (Vec::new(), Vec::new());
        self.core = Some(Core { lattice, rng, parents, children, answered: 0, asked: 0 });
    }

    fn next_batch(&mut self, n: usize) -> Vec<Point> {
        let Some(core) = &mut self.core else { return Vec::new() };
        let n = n.min(POPULATION - core.asked);
        core.asked += n;
        (0..n)
            .map(|_| {
                let child = core.child();
                match core.lattice.configuration(&child) {
                    Some(c) => Point::Configuration(c),
                    None => Point::Index(core.lattice.sample(&mut core.rng).1),
                }
            })
            .collect()
    }

    fn report(&mut self, trials: &[Trial]) {
        let Some(core) = &mut self.core else { return };
        for trial in trials {
            if let Some(cost) = trial.cost {
                // Not what was asked but what was measured: a child may have been repaired.
                let genes = core.lattice.genes(&trial.index);
                core.children.push((genes, cost));
            }
        }
        core.answered += trials.len();
        if core.answered >= POPULATION {
            core.next_generation();
        }
    }

    /// Those of Tensor Comprehensions.
    fn pruning(&self) -> Option<Pruning> {
        Some(Pruning::default())
    }

    /// Good configurations of others become parents of the next generation.
    fn observe(&mut self, trials: &[Trial]) {
        let Some(core) = &mut self.core else { return };
        for trial in trials {
            if let Some(cost) = trial.cost {
                let genes = core.lattice.genes(&trial.index);
                core.children.push((genes, cost));
            }
        }
    }
}
