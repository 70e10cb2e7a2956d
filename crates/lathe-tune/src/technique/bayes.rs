//! Bayesian optimization: a Gaussian process tells what to expect of each candidate; the one with the highest expected
//! improvement, weighed by its chance to be valid, is measured next. Candidates are valid by construction.

use super::{Point, Technique, Trial};
use crate::evidence::fit;
use crate::gaussian::{Gaussian, Kernel, expected_improvement};
use crate::lattice::{Genes, Lattice};
use lathe_space::Space;
use num_bigint::BigUint;
use rand::SeedableRng;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;
use std::sync::Arc;

/// A space up to this size is the pool of candidates itself.
const WHOLE: usize = 5000;
/// Otherwise the pool has so many candidates, a quarter of them places for neighbours of the best; fewer where they have
/// many axes, so that comparing one point with all of them costs no more than so many numbers.
const POOL: usize = 2000;
const POOL_NUMBERS: usize = 40_000;
const POOL_LEAST: usize = 256;
/// So many candidates, times their axes, are exchanged at once.
const EXCHANGED_NUMBERS: usize = 20_000;
/// The process forgets what is neither good nor recent when it has seen so many.
const MEMORY: usize = 300;
const MEMORY_MANY: usize = 200;
/// With more axes than this, everything that costs time is done less often and with less.
const MANY: usize = 40;
/// Kernels are fitted to at most so many observations, by at most so many trials at a time.
const FITTED: usize = 80;
const TRIALS: usize = 150;
const TRIALS_MANY: usize = 60;
/// Among so many draws, the one farthest from all others becomes the next point of the design.
const SPREAD: usize = 5;

/// Bayesian optimization with a Matérn kernel over the scaled values, categories by Hamming distance.
#[derive(Default)]
pub struct Bayes {
    core: Option<Core>,
    settings: Settings,
}

/// How a model-guided search sees the world.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// So many points are spread over the space before the model is asked.
    pub design: usize,
    /// Factor on the deviation that the model predicts: less explores less.
    pub deviation: f64,
    /// Costs count at most so many deviations above their mean (of logarithms): how bad the bad ones are is no matter.
    pub clip: f64,
    /// Factor on the lengths over which costs are alike before anything is known.
    pub length: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { design: 4, deviation: 0.8, clip: 1.5, length: 1.5 }
    }
}

impl Bayes {
    pub fn new(settings: Settings) -> Bayes {
        Bayes { core: None, settings }
    }
}

struct Seen {
    places: Vec<f64>,
    genes: Genes,
    /// What is minimized: the logarithm of the cost where that exists.
    value: f64,
}

struct Core {
    lattice: Lattice,
    rng: ChaCha8Rng,
    settings: Settings,
    process: Gaussian,
    /// The configurations of the pool, which were measured, and where they are.
    pool: Vec<(Genes, BigUint)>,
    used: Vec<bool>,
    place: HashMap<BigUint, usize>,
    /// So many of the pool, at its end, are for neighbours; 0 where it is the whole space.
    near: usize,
    seen: Vec<Seen>,
    known: HashMap<BigUint, Option<f64>>,
    /// Some cost was not positive.
    negative: bool,
    /// Per candidate, how alike it is to valid and to invalid configurations.
    alike: Vec<[f32; 2]>,
    invalid: Vec<Vec<f64>>,
    /// The process does not contain these last observations of `seen` yet.
    fresh: usize,
    refit_at: usize,
    /// The process must be refitted from scratch, with or without another kernel.
    forgot: bool,
    /// Before so many measurements the pool is not exchanged again.
    near_at: usize,
    /// Where the next fit begins: one that had no time for every axis goes on there.
    fit_from: usize,
    best: f64,
    stale: bool,
    /// So many measurements in a row were invalid.
    streak: i32,
}

impl Core {
    fn new(space: &Arc<Space>, seed: u64, settings: Settings) -> Core {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let lattice = Lattice::new(space, &mut rng);
        let whole = lattice.all().filter(|all| all.len() <= WHOLE);
        let axes = lattice.free().len().max(1);
        let size = (POOL_NUMBERS / axes).clamp(POOL_LEAST, POOL);
        let near = if whole.is_none() { size / 4 } else { 0 };
        let mut place = HashMap::new();
        let pool = whole.unwrap_or_else(|| {
            let mut pool = Vec::new();
            for _ in 0..size {
                let (genes, index) = lattice.sample(&mut rng);
                if !place.contains_key(&index) {
                    place.insert(index.clone(), pool.len());
                    pool.push((genes, index));
                }
            }
            pool
        });
        if near == 0 {
            place = pool.iter().enumerate().map(|(i, (_, index))| (index.clone(), i)).collect();
        }
        let kernel = Kernel::new(lattice.free().map(|a| a.category).collect(), settings.length);
        let places: Vec<Vec<f64>> = pool.iter().map(|(g, _)| lattice.places(g)).collect();
        Core {
            settings,
            process: Gaussian::new(kernel, &places),
            used: vec![false; pool.len()],
            alike: vec![[0.0; 2]; pool.len()],
            lattice,
            rng,
            pool,
            place,
            near,
            seen: Vec::new(),
            known: HashMap::new(),
            negative: false,
            invalid: Vec::new(),
            fresh: 0,
            refit_at: 0,
            forgot: false,
            near_at: 0,
            fit_from: 0,
            best: f64::INFINITY,
            stale: false,
            streak: 0,
        }
    }

    fn learn(&mut self, trial: &Trial) {
        if self.known.insert(trial.index.clone(), trial.cost).is_some() {
            return;
        }
        if let Some(i) = self.place.get(&trial.index) {
            self.used[*i] = true;
        }
        let genes = self.lattice.genes(&trial.index);
        let places = self.lattice.places(&genes);
        self.streak = if trial.cost.is_some() { 0 } else { self.streak + 1 };
        match trial.cost {
            Some(cost) => {
                if cost <= 0.0 && !self.negative {
                    self.negative = true;
                    self.unscale();
                }
                let value = if self.negative { cost } else { cost.ln() };
                self.seen.push(Seen { places: places.clone(), genes, value });
                self.fresh += 1;
                if value < self.best {
                    self.best = value;
                    self.stale = true;
                }
            }
            None => self.invalid.push(places.clone()),
        }
        match self.invalid.len() {
            0 => {}
            // The first: until now nobody asked how alike candidates are.
            1 if trial.cost.is_none() => self.liken_all(),
            _ => self.liken(&places, usize::from(trial.cost.is_none())),
        }
    }

    /// The costs are not logarithms any more.
    fn unscale(&mut self) {
        for s in &mut self.seen {
            s.value = s.value.exp();
        }
        self.best = self.best.exp();
    }

    fn liken(&mut self, places: &[f64], which: usize) {
        for (alike, k) in self.alike.iter_mut().zip(self.process.alike(places)) {
            alike[which] += k * k;
        }
    }

    fn liken_all(&mut self) {
        self.alike.fill([0.0; 2]);
        if self.invalid.is_empty() {
            return;
        }
        for i in 0..self.seen.len() {
            let places = self.seen[i].places.clone();
            self.liken(&places, 0);
        }
        for i in 0..self.invalid.len() {
            let places = self.invalid[i].clone();
            self.liken(&places, 1);
        }
    }

    /// The chance of a candidate to be valid; counts the more, the longer nothing was.
    fn chance(&self, candidate: usize) -> f64 {
        if self.invalid.is_empty() {
            return 1.0;
        }
        let share = self.seen.len() as f64 / (self.seen.len() + self.invalid.len()) as f64;
        let [valid, invalid] = self.alike[candidate].map(f64::from);
        ((valid + 0.3 * share) / (valid + invalid + 0.3)).powi(1 + self.streak / 3)
    }

    /// Brings the process up to date; refits its kernel now and then.
    fn update(&mut self) {
        if self.seen.len() > self.memory() {
            self.forget();
        }
        let n = self.seen.len();
        if n >= self.refit_at {
            self.refit_at = n + (n / if self.many() { 2 } else { 3 }).max(4);
            self.refit();
        } else if self.forgot {
            self.restart(self.process.kernel().clone());
        } else {
            for s in &self.seen[n - self.fresh..] {
                self.process.push(s.places.clone());
            }
        }
        self.forgot = false;
        self.fresh = 0;
        if self.near > 0 && self.stale && self.known.len() >= self.near_at {
            self.go_near();
            self.near_at = self.known.len() + self.lattice.free().len() / MANY;
            self.stale = false;
        }
        self.stale &= self.near > 0;
    }

    fn memory(&self) -> usize {
        if self.many() { MEMORY_MANY } else { MEMORY }
    }

    fn trials(&self) -> usize {
        if self.many() { TRIALS_MANY } else { TRIALS }
    }

    fn many(&self) -> bool {
        self.lattice.free().len() > MANY
    }

    /// Keeps the best third and the latest third.
    fn forget(&mut self) {
        let mut order: Vec<usize> = (0..self.seen.len()).collect();
        order.sort_by(|a, b| self.seen[*a].value.total_cmp(&self.seen[*b].value));
        let third = self.memory() / 3;
        let recent = self.seen.len() - third;
        let mut kept: Vec<usize> = order[..third].iter().copied().chain(recent..self.seen.len()).collect();
        kept.sort_unstable();
        kept.dedup();
        let mut old: Vec<Option<Seen>> = std::mem::take(&mut self.seen).into_iter().map(Some).collect();
        let before = old.len();
        self.seen = kept.into_iter().filter_map(|i| old[i].take()).collect();
        self.forgot = true;
        // A fit that has time for all numbers is worth it with every new selection; others come as often as they would.
        let whole = 6 * (2 * self.lattice.free().len() + 1) <= self.trials();
        self.refit_at = if whole { 0 } else { self.refit_at.saturating_sub(before - self.seen.len()) };
    }

    fn refit(&mut self) {
        let mut kernel = self.process.kernel().clone();
        let values = self.values();
        let n = self.seen.len();
        if n >= 5 {
            // The best half, and as many of the others.
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
            let half = FITTED / 2;
            let mut chosen: Vec<usize> = order[..n.min(half)].to_vec();
            if n > half {
                let rest = &order[half..];
                chosen.extend(
                    index::sample(&mut self.rng, rest.len(), rest.len().min(half)).iter().map(|i| rest[i]),
                );
            }
            let mean = chosen.iter().map(|i| values[*i]).sum::<f64>() / chosen.len() as f64;
            let points: Vec<&[f64]> = chosen.iter().map(|i| self.seen[*i].places.as_slice()).collect();
            let centred: Vec<f64> = chosen.iter().map(|i| values[*i] - mean).collect();
            self.fit_from = fit(&mut kernel, &points, &centred, self.fit_from, self.trials());
        }
        self.restart(kernel);
    }

    fn restart(&mut self, kernel: Kernel) {
        self.process.restart(kernel);
        for s in &self.seen {
            self.process.push(s.places.clone());
        }
        self.liken_all();
    }

    /// Exchanges part of the pool for neighbours of the best configurations.
    fn go_near(&mut self) {
        let mut order: Vec<usize> = (0..self.seen.len()).collect();
        order.sort_by(|a, b| self.seen[*a].value.total_cmp(&self.seen[*b].value));
        let axes = self.lattice.free().len().max(1);
        let most = (EXCHANGED_NUMBERS / axes).clamp(32, self.near).min(self.pool.len());
        let first = self.pool.len().saturating_sub(self.near);
        let mut new: Vec<(usize, Vec<f64>)> = Vec::new();
        for i in order.into_iter().take(3) {
            let genes = self.seen[i].genes.clone();
            for change in self.lattice.changes(&genes, &mut self.rng) {
                if new.len() >= most || first + new.len() >= self.pool.len() {
                    return self.exchange(&new);
                }
                let Some((genes, index)) = self.lattice.changed(&genes, change) else { continue };
                if self.place.contains_key(&index) || self.known.contains_key(&index) {
                    continue;
                }
                let slot = first + new.len();
                new.push((slot, self.lattice.places(&genes)));
                self.place.remove(&self.pool[slot].1);
                self.place.insert(index.clone(), slot);
                self.pool[slot] = (genes, index);
                self.used[slot] = false;
            }
        }
        self.exchange(&new);
    }

    /// The model learns of candidates that take the places of others.
    fn exchange(&mut self, new: &[(usize, Vec<f64>)]) {
        self.process.replace(new);
        if self.invalid.is_empty() {
            return;
        }
        let kernel = self.process.kernel();
        for (slot, places) in new {
            let sum = |points: &mut dyn Iterator<Item = &Vec<f64>>| {
                points.map(|p| kernel.of(p, places).powi(2)).sum::<f64>() as f32
            };
            self.alike[*slot] =
                [sum(&mut self.seen.iter().map(|s| &s.places)), sum(&mut self.invalid.iter())];
        }
    }

    /// The values of the observations, with mean 0 and deviation 1.
    fn values(&self) -> Vec<f64> {
        let n = self.seen.len().max(1) as f64;
        let mean = self.seen.iter().map(|s| s.value).sum::<f64>() / n;
        let variance = self.seen.iter().map(|s| (s.value - mean).powi(2)).sum::<f64>() / n;
        let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
        self.seen.iter().map(|s| ((s.value - mean) / deviation).min(self.settings.clip)).collect()
    }

    /// A point far from all that was seen.
    fn spread(&mut self, chosen: &[usize]) -> Option<usize> {
        let free: Vec<usize> =
            (0..self.pool.len()).filter(|i| !self.used[*i] && !chosen.contains(i)).collect();
        if free.is_empty() {
            return None;
        }
        let draws = index::sample(&mut self.rng, free.len(), free.len().min(SPREAD));
        let kernel = self.process.kernel();
        let places = |i: usize| self.lattice.places(&self.pool[i].0);
        let chosen: Vec<Vec<f64>> = chosen.iter().map(|c| places(*c)).collect();
        let nearest = |i: usize| {
            let here = places(i);
            let seen = self.seen.iter().map(|s| &s.places).chain(&self.invalid);
            seen.chain(&chosen).map(|p| kernel.of(p, &here)).fold(0.0, f64::max)
        };
        draws.iter().map(|d| free[d]).min_by(|a, b| nearest(*a).total_cmp(&nearest(*b)))
    }

    /// The candidate with the greatest expected improvement.
    fn promising(&mut self, values: &[f64], chosen: &[usize]) -> Option<usize> {
        let (mean, deviation) = self.process.predict(values);
        let best = values.iter().copied().fold(f64::INFINITY, f64::min);
        let mut top: Option<(usize, f64)> = None;
        for i in 0..self.pool.len() {
            if self.used[i] || chosen.contains(&i) {
                continue;
            }
            let gain = expected_improvement(
                best,
                f64::from(mean[i]),
                f64::from(deviation[i]) * self.settings.deviation,
            ) * self.chance(i);
            if top.is_none_or(|t| gain > t.1) {
                top = Some((i, gain));
            }
        }
        top.map(|t| t.0)
    }

    fn ask(&mut self, n: usize) -> Vec<usize> {
        let mut chosen = Vec::new();
        let measured = self.seen.len() + self.invalid.len();
        if measured < self.settings.design || self.seen.len() < 2 {
            while chosen.len() < n.min(self.settings.design.saturating_sub(measured).max(1)) {
                let Some(i) = self.spread(&chosen) else { break };
                chosen.push(i);
            }
            return chosen;
        }
        self.update();
        let mut values = self.values();
        while chosen.len() < n {
            let Some(i) = self.promising(&values, &chosen) else { break };
            chosen.push(i);
            if chosen.len() < n {
                // As if it had been measured and come out average, so that the next one lies elsewhere.
                let believed = self.lattice.places(&self.pool[i].0);
                self.process.push(believed);
                values.push(0.0);
            }
        }
        while self.process.len() > self.seen.len() {
            self.process.pop();
        }
        chosen
    }
}

impl Technique for Bayes {
    fn name(&self) -> String {
        "bayes".to_string()
    }

    fn initialize(&mut self, space: &Arc<Space>, seed: u64) {
        self.core = Some(Core::new(space, seed, self.settings.clone()));
    }

    fn next_batch(&mut self, n: usize) -> Vec<Point> {
        let Some(core) = &mut self.core else { return Vec::new() };
        let chosen = core.ask(n);
        if chosen.is_empty() {
            // The pool is used up.
            return vec![Point::Index(core.lattice.space().sample(&mut core.rng))];
        }
        chosen.into_iter().map(|i| Point::Index(core.pool[i].1.clone())).collect()
    }

    fn report(&mut self, trials: &[Trial]) {
        self.observe(trials);
    }

    fn observe(&mut self, trials: &[Trial]) {
        if let Some(core) = &mut self.core {
            trials.iter().for_each(|t| core.learn(t));
        }
    }
}
