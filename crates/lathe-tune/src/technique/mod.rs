//! Search techniques: one file each, behind one interface.
//!
//! Some see the space as a cube of coordinates ([`coordinates`]), some as a list of indices (exhaustive, random),
//! some as values of parameters ([`crate::lattice`]). The driver takes all three kinds of points.

mod annealing;
mod arms;
mod bandit;
mod bayes;
pub mod coordinates;
mod evolution;
mod exhaustive;
mod genetic;
mod local;
mod named;
mod nelder_mead;
mod pattern;
mod portfolio;
mod pseudo_annealing;
mod random;
mod round_robin;
mod swarm;
mod torczon;

pub use annealing::{Annealing, acceptance};
pub use bandit::{AUC_C, AUC_WINDOW, Auc, AucBandit};
pub use bayes::{Bayes, Settings as BayesSettings};
pub use coordinates::{Coordinates, Probe, Stages};
pub use evolution::DifferentialEvolution;
pub use exhaustive::Exhaustive;
pub use genetic::Genetic;
pub use local::LocalSearch;
pub use named::{NAMES, by_name};
pub use nelder_mead::NelderMead;
pub use pattern::PatternSearch;
pub use portfolio::portfolio;
pub use pseudo_annealing::PseudoAnnealing;
pub use random::Random;
pub use round_robin::RoundRobin;
pub use swarm::ParticleSwarm;
pub use torczon::Torczon;

use crate::pruning::Pruning;
use lathe_space::{Configuration, Space};
use num_bigint::BigUint;
use std::sync::Arc;

/// What a technique asks to measure.
#[derive(Clone, Debug, PartialEq)]
pub enum Point {
    /// A point of the cube (0, 1]^L, one coordinate per level of the space.
    Coordinates(Vec<f64>),
    /// A number below the size of the space.
    Index(BigUint),
    /// Values for all parameters. If they violate a constraint, the nearest valid configuration is meant.
    Configuration(Configuration),
}

/// What became of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    pub point: Point,
    /// The configuration that the point meant.
    pub index: BigUint,
    /// Smaller is better; `None` if the configuration is invalid.
    pub cost: Option<f64>,
}

impl Trial {
    pub fn cost_or_infinity(&self) -> f64 {
        self.cost.unwrap_or(f64::INFINITY)
    }
}

/// A search technique. Users may implement it: the driver knows nothing else about techniques.
///
/// The driver alternates strictly: [`Technique::next_batch`], then [`Technique::report`] with one trial for each
/// point of the batch, in its order. A point that was measured before is reported at once with its stored cost.
/// With the same space, seed and reports, a technique must ask for the same points.
pub trait Technique: Send {
    fn name(&self) -> String;

    /// Begins a search; forgets an earlier one.
    fn initialize(&mut self, space: &Arc<Space>, seed: u64);

    /// At least one and at most `n` points that can be measured independently. None, if the search is over.
    fn next_batch(&mut self, n: usize) -> Vec<Point>;

    fn report(&mut self, trials: &[Trial]);

    /// Learns what others measured: starting points, and the points of the other arms of a bandit.
    fn observe(&mut self, _trials: &[Trial]) {}

    /// Rules by which candidates are given up early, where the technique has its own.
    fn pruning(&self) -> Option<Pruning> {
        None
    }

    /// The search is over.
    fn finalize(&mut self) {}
}
