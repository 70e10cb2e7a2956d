//! Techniques that see only the cube (0, 1]^L: they work in stages, each a list of points to measure.

use super::{Point, Technique, Trial};
use lathe_space::Space;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// A measured point of the cube. What is invalid costs infinity.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    pub at: Vec<f64>,
    pub cost: f64,
}

/// A search in the cube, as a function from what one stage measured to the points of the next. [`Coordinates`]
/// makes a [`Technique`] of it: it cuts stages into batches and waits until a stage is complete.
pub trait Stages: Send {
    fn name(&self) -> &'static str;

    /// The first stage. `dimensions` is at least 1; the points may lie anywhere, [`wrap`] brings them back.
    fn begin(&mut self, dimensions: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>>;

    /// The next stage, which must not be empty; `measured` is the last one in its order.
    fn next(&mut self, measured: &[Probe], rng: &mut ChaCha8Rng) -> Vec<Vec<f64>>;
}

/// Runs [`Stages`] as a technique.
pub struct Coordinates<S> {
    stages: S,
    rng: ChaCha8Rng,
    /// The points of this stage; the first `measured.len()` are known, the first `asked` were proposed.
    stage: Vec<Vec<f64>>,
    asked: usize,
    measured: Vec<Probe>,
}

impl<S: Stages> Coordinates<S> {
    pub fn new(stages: S) -> Coordinates<S> {
        let rng = ChaCha8Rng::seed_from_u64(0);
        Coordinates { stages, rng, stage: Vec::new(), asked: 0, measured: Vec::new() }
    }
}

impl<S: Stages> Technique for Coordinates<S> {
    fn name(&self) -> String {
        self.stages.name().to_string()
    }

    fn initialize(&mut self, space: &Arc<Space>, seed: u64) {
        self.rng = ChaCha8Rng::seed_from_u64(seed);
        self.asked = 0;
        self.measured.clear();
        // A space of constants only still has its one point.
        self.stage = self.stages.begin(space.dimensions().max(1), &mut self.rng);
    }

    fn next_batch(&mut self, n: usize) -> Vec<Point> {
        let end = self.stage.len().min(self.asked + n);
        let batch = &self.stage[self.asked..end];
        self.asked = end;
        batch.iter().map(|p| Point::Coordinates(p.iter().map(|v| wrap(*v)).collect())).collect()
    }

    fn report(&mut self, trials: &[Trial]) {
        for trial in trials {
            let at = self.stage[self.measured.len()].clone();
            self.measured.push(Probe { at, cost: trial.cost_or_infinity() });
        }
        if self.measured.len() == self.stage.len() {
            let measured = std::mem::take(&mut self.measured);
            self.stage = self.stages.next(&measured, &mut self.rng);
            self.asked = 0;
        }
    }
}

/// Brings a coordinate into (0, 1] by leaving out whole numbers.
pub fn wrap(v: f64) -> f64 {
    let inside = v - v.floor();
    if inside > 0.0 { inside } else { 1.0 }
}

/// Brings a coordinate into (0, 1] by moving it to the nearer end.
pub fn clamp(v: f64) -> f64 {
    v.clamp(1e-9, 1.0)
}

/// A uniform draw from (0, 1].
pub fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    1.0 - rng.r#gen::<f64>()
}

/// A uniform draw from the cube.
pub fn point(dimensions: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    (0..dimensions).map(|_| uniform(rng)).collect()
}

/// `a + t * (b - c)`.
pub(crate) fn along(a: &[f64], t: f64, b: &[f64], c: &[f64]) -> Vec<f64> {
    a.iter().zip(b.iter().zip(c)).map(|(a, (b, c))| a + t * (b - c)).collect()
}

/// The index of the cheapest probe.
pub(crate) fn cheapest(probes: &[Probe]) -> usize {
    (0..probes.len()).min_by(|a, b| probes[*a].cost.total_cmp(&probes[*b].cost)).unwrap_or(0)
}

/// The largest distance in one dimension from the first probe.
pub(crate) fn extent(probes: &[Probe]) -> f64 {
    let mut widest: f64 = 0.0;
    for p in probes {
        for (a, b) in p.at.iter().zip(&probes[0].at) {
            widest = widest.max((a - b).abs());
        }
    }
    widest
}

/// The corners of a new simplex: a point, and one more in every dimension, a length to the side that has room.
pub(crate) fn simplex(first: Vec<f64>, mut length: impl FnMut() -> f64) -> Vec<Vec<f64>> {
    let mut all = vec![first.clone()];
    for i in 0..first.len() {
        let mut p = first.clone();
        let length = length();
        p[i] += if p[i] <= 0.5 { length } else { -length };
        all.push(p);
    }
    all
}

/// Exchanges all corners of a simplex but the first; then the cheapest is the first.
pub(crate) fn move_others(corners: &mut Vec<Probe>, others: impl IntoIterator<Item = Probe>) {
    corners.truncate(1);
    corners.extend(others);
    let best = cheapest(corners);
    corners.swap(0, best);
}

/// A simplex smaller than this restarts.
pub(crate) const SMALL: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_stay_in_the_half_open_cube() {
        for (v, to) in [(0.0, 1.0), (1.0, 1.0), (-0.25, 0.75), (1.25, 0.25), (-3.0, 1.0), (f64::NAN, 1.0)] {
            assert_eq!(wrap(v), to);
        }
        assert!(clamp(0.0) > 0.0 && clamp(7.0) == 1.0);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert!((0..1000).all(|_| (f64::MIN_POSITIVE..=1.0).contains(&uniform(&mut rng))));
    }
}
