//! Iterated local search over values: better neighbours are taken at once, what is measured is not tried again, and
//! from an optimum the search jumps a little way off.

use super::{Point, Technique, Trial};
use crate::lattice::{Genes, Lattice};
use lathe_space::Space;
use num_bigint::BigUint;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;
use std::sync::Arc;

/// After so many optima in a row that are not the best, the search restarts somewhere.
const PATIENCE: u32 = 5;
/// How often something unknown is looked for before something known will do.
const TRIES: u32 = 200;

/// Greedy iterated local search.
#[derive(Default)]
pub struct LocalSearch {
    core: Option<Core>,
    patience: u32,
}

impl LocalSearch {
    /// As an arm of a bandit: asks for nothing until so many measurements in a row, of any arm, have not improved
    /// the best.
    pub fn after_stagnation(measurements: u32) -> LocalSearch {
        LocalSearch { core: None, patience: measurements }
    }
}

struct Core {
    lattice: Lattice,
    rng: ChaCha8Rng,
    known: HashMap<BigUint, f64>,
    here: Option<(Genes, f64)>,
    best: Option<(Genes, f64)>,
    /// Changes of `here` that were not looked at, the next one last.
    queue: Vec<(usize, u32)>,
    /// What was asked: the configuration, and whether it was a jump.
    asked: Vec<(Genes, BigUint, bool)>,
    failures: u32,
    /// Measurements since the best was improved.
    idle: u32,
}

impl Core {
    fn move_to(&mut self, genes: Genes, cost: f64) {
        self.queue = self.lattice.changes(&genes, &mut self.rng);
        self.queue.reverse();
        if self.best.as_ref().is_none_or(|b| cost < b.1) {
            self.best = Some((genes.clone(), cost));
            self.failures = 0;
            self.idle = 0;
        }
        self.here = Some((genes, cost));
    }

    /// The next unknown neighbour; walks through better ones that are known.
    fn neighbour(&mut self) -> Option<(Genes, BigUint)> {
        while let (Some(change), Some(here)) = (self.queue.pop(), &self.here) {
            let Some((genes, index)) = self.lattice.changed(&here.0, change) else { continue };
            match self.known.get(&index) {
                None => return Some((genes, index)),
                Some(cost) if *cost < here.1 => {
                    let cost = *cost;
                    self.move_to(genes, cost);
                }
                _ => {}
            }
        }
        None
    }

    /// Away from an optimum: a few parameters of the best are changed, or it restarts.
    fn jump(&mut self) -> (Genes, BigUint) {
        self.failures += 1;
        for attempt in 0..TRIES {
            let (genes, index) = match &self.best {
                Some(best) if self.failures <= PATIENCE => {
                    let changes = 2 + (attempt / 20) as usize + usize::from(self.rng.gen_bool(0.5));
                    self.lattice.kick(&best.0.clone(), changes, &mut self.rng)
                }
                _ => self.lattice.sample(&mut self.rng),
            };
            if !self.known.contains_key(&index) {
                if self.failures > PATIENCE {
                    self.failures = 0;
                }
                return (genes, index);
            }
        }
        self.lattice.sample(&mut self.rng)
    }

    fn learn(&mut self, trial: &Trial) {
        self.known.insert(trial.index.clone(), trial.cost_or_infinity());
        self.idle += 1;
    }
}

impl Technique for LocalSearch {
    fn name(&self) -> String {
        "local-search".to_string()
    }

    fn initialize(&mut self, space: &Arc<Space>, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let lattice = Lattice::new(space, &mut rng);
        self.core = Some(Core {
            lattice,
            rng,
            known: HashMap::new(),
            here: None,
            best: None,
            queue: Vec::new(),
            asked: Vec::new(),
            failures: 0,
            idle: 0,
        });
    }

    fn next_batch(&mut self, n: usize) -> Vec<Point> {
        let Some(core) = &mut self.core else { return Vec::new() };
        if core.idle < self.patience {
            return Vec::new();
        }
        while core.asked.len() < n {
            if let Some((genes, index)) = core.neighbour() {
                core.asked.push((genes, index, false));
                continue;
            }
            // A jump changes where we are, so it waits for what is pending.
            if core.asked.is_empty() {
                let (genes, index) = core.jump();
                core.asked.push((genes, index, true));
            }
            break;
        }
        core.asked.iter().map(|a| Point::Index(a.1.clone())).collect()
    }

    fn report(&mut self, trials: &[Trial]) {
        let Some(core) = &mut self.core else { return };
        let asked = std::mem::take(&mut core.asked);
        for (trial, (genes, _, jump)) in trials.iter().zip(asked) {
            core.learn(trial);
            let Some(cost) = trial.cost else { continue };
            if jump || core.here.as_ref().is_none_or(|h| cost < h.1) {
                core.move_to(genes, cost);
            }
        }
    }

    /// A better configuration than the best known one is where the search goes on.
    fn observe(&mut self, trials: &[Trial]) {
        let Some(core) = &mut self.core else { return };
        for trial in trials {
            core.learn(trial);
            if let Some(cost) = trial.cost
                && core.best.as_ref().is_none_or(|b| cost < b.1)
            {
                let genes = core.lattice.genes(&trial.index);
                core.move_to(genes, cost);
            }
        }
    }
}
