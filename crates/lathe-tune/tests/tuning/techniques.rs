//! Every technique on every kind of space.

use crate::kit::{constrained, one_point, smooth, space};
use lathe_space::{Configuration, Space, TuningParameter};
use lathe_tune::technique::{
    Annealing, AucBandit, Coordinates, Exhaustive, NAMES, Probe, Random, Stages, acceptance, by_name,
};
use lathe_tune::{Ended, Invalid, Measured, Outcome, Point, Stop, Technique, Trial, Tuner, Why};
use num_bigint::BigUint;
use num_traits::ToPrimitive;
use rand_chacha::ChaCha8Rng;
use std::collections::HashSet;
use std::sync::Arc;

fn tuner(space: &Arc<Space>, technique: &str, seed: u64) -> Tuner {
    Tuner::new(space.clone()).technique(by_name(technique).unwrap()).seed(seed)
}

#[test]
fn checklist_18_exhaustive_search_visits_every_configuration_once() {
    let space = constrained();
    let tuned = Tuner::new(space.clone()).technique(Box::new(Exhaustive::default())).tune(smooth).unwrap();
    let visited: HashSet<BigUint> = tuned.history.iter().map(|e| e.index.clone()).collect();
    assert_eq!(BigUint::from(visited.len()), *space.size());
    assert_eq!(tuned.history.len(), visited.len());
    let least = space.iter().map(|c| smooth(&c)).fold(f64::INFINITY, f64::min);
    assert_eq!(tuned.best.unwrap().1, least.into());
}

#[test]
fn checklist_20_a_user_technique_needs_only_the_interface() {
    /// Asks for the configuration after the best one.
    #[derive(Default)]
    struct After {
        size: u64,
        best: Option<(u64, f64)>,
        step: u64,
    }
    impl Technique for After {
        fn name(&self) -> String {
            "after".to_string()
        }
        fn initialize(&mut self, space: &Arc<Space>, _seed: u64) {
            self.size = space.size().to_u64().unwrap_or(u64::MAX);
        }
        fn next_batch(&mut self, _n: usize) -> Vec<Point> {
            self.step += 1;
            let from = self.best.map_or(0, |b| b.0);
            vec![Point::Index(BigUint::from((from + self.step) % self.size))]
        }
        fn report(&mut self, trials: &[Trial]) {
            for t in trials {
                let (index, cost) = (t.index.to_u64().unwrap_or(0), t.cost_or_infinity());
                if self.best.is_none_or(|b| cost < b.1) {
                    self.best = Some((index, cost));
                    self.step = 0;
                }
            }
        }
    }
    let tuner = Tuner::new(constrained()).technique(Box::new(After::default()));
    let tuned = tuner.stop(Stop::Evaluations(300)).tune(smooth).unwrap();
    assert_eq!((tuned.technique.as_str(), tuned.evaluations()), ("after", 300));
    let in_a_bandit = AucBandit::new(vec![Box::new(After::default()), Box::new(Random::default())]);
    let tuner = Tuner::new(constrained()).technique(Box::new(in_a_bandit));
    assert!(tuner.stop(Stop::Evaluations(100)).tune(smooth).unwrap().best.unwrap().1.first() < 4.0);
}

/// The mean over seeds of the best cost.
fn mean_best(space: &Arc<Space>, technique: &str, seeds: u64, cost: fn(&Configuration) -> f64) -> f64 {
    let best = |seed| {
        let t = tuner(space, technique, seed).stop(Stop::Evaluations(120));
        t.tune(cost).unwrap().best.unwrap().1.first()
    };
    (0..seeds).map(best).sum::<f64>() / seeds as f64
}

#[test]
fn checklist_23_every_search_beats_random_on_a_smooth_cost() {
    let space = constrained();
    let random = mean_best(&space, "random", 24, smooth);
    for name in NAMES.iter().filter(|n| !["random", "exhaustive", "thesis-annealing"].contains(n)) {
        let seeds = if ["portfolio", "bayes"].contains(name) { 4 } else { 24 };
        let own = mean_best(&space, name, seeds, smooth);
        assert!(own < random, "{name} reaches {own}, random {random}");
    }
    // At a fixed temperature of 4, annealing needs costs of that order.
    let large = |c: &Configuration| 40.0 * smooth(c);
    let (own, random) = (mean_best(&space, "thesis-annealing", 24, large), 40.0 * random);
    assert!(own < random, "thesis-annealing reaches {own}, random {random}");
}

#[test]
fn checklist_23_annealing_over_coordinates_beats_annealing_over_indices() {
    /// The thesis' annealing on the list of configurations: a neighbour is a nearby index.
    struct Flat {
        now: Option<(f64, f64)>,
    }
    impl Stages for Flat {
        fn name(&self) -> &'static str {
            "flat"
        }
        fn begin(&mut self, dimensions: usize, _: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
            self.now = None;
            vec![vec![0.37; dimensions]]
        }
        fn next(&mut self, measured: &[Probe], rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
            use rand::Rng;
            let new = (measured[0].at[0], 20.0 * measured[0].cost);
            let accepted = self.now.is_none_or(|now| rng.gen_bool(acceptance(now.1, new.1, 4.0)));
            if accepted {
                self.now = Some(new);
            }
            let at = (self.now.unwrap_or(new).0 + rng.gen_range(-0.02..0.02)).clamp(0.001, 1.0);
            vec![vec![at; measured[0].at.len()]]
        }
    }
    /// Maps the first coordinate to an index.
    struct OnList(Coordinates<Flat>, BigUint);
    impl Technique for OnList {
        fn name(&self) -> String {
            "on-list".to_string()
        }
        fn initialize(&mut self, space: &Arc<Space>, seed: u64) {
            self.1 = space.size().clone();
            self.0.initialize(space, seed);
        }
        fn next_batch(&mut self, n: usize) -> Vec<Point> {
            let size = self.1.to_f64().unwrap_or(1.0);
            let to_index = |p: Point| match p {
                Point::Coordinates(c) => Point::Index(BigUint::from((c[0] * size) as u64 % size as u64)),
                other => other,
            };
            self.0.next_batch(n).into_iter().map(to_index).collect()
        }
        fn report(&mut self, trials: &[Trial]) {
            self.0.report(trials);
        }
    }
    let space = constrained();
    let run = |seed, technique: Box<dyn Technique>| {
        let t = Tuner::new(space.clone()).technique(technique).seed(seed).stop(Stop::Evaluations(120));
        t.tune(smooth).unwrap().best.unwrap().1.first()
    };
    let flat = |seed| run(seed, Box::new(OnList(Coordinates::new(Flat { now: None }), BigUint::ZERO)));
    let cube = |seed| run(seed, Box::new(Coordinates::new(Annealing::default())));
    let (flat, cube): (f64, f64) = ((0..24).map(flat).sum(), (0..24).map(cube).sum());
    assert!(cube < flat, "{} and {}", cube / 24.0, flat / 24.0);
}

#[test]
fn equal_seeds_give_equal_searches_and_others_differ() {
    let space = constrained();
    for name in NAMES {
        let run = |seed| {
            let tuned = tuner(&space, name, seed).stop(Stop::Evaluations(40)).tune(smooth).unwrap();
            tuned.history.into_iter().map(|e| (e.index, e.coordinates)).collect::<Vec<_>>()
        };
        assert_eq!(run(5), run(5), "{name}");
        assert!(name == "exhaustive" || run(5) != run(6), "{name}");
    }
}

#[test]
fn nothing_is_measured_twice_and_small_spaces_are_exhausted() {
    let spaces = [
        one_point(),
        space(vec![TuningParameter::bool("p"), TuningParameter::strings("q", ["x", "y", "z"])]),
        space(vec![TuningParameter::int("a", 1, 11)]),
    ];
    for space in &spaces {
        for name in NAMES {
            for batch in [1, 4] {
                let mut measured = HashSet::new();
                let tuned = tuner(space, name, 1).tune_in_batches(batch, |batch| {
                    let cost = |c: &Configuration| {
                        assert!(measured.insert(c.to_string()), "{name} measures {c} again");
                        Measured::from(c.to_string().len() as f64)
                    };
                    batch.iter().map(cost).collect()
                });
                let tuned = tuned.unwrap();
                assert_eq!(BigUint::from(tuned.history.len()), *space.size(), "{name}");
                assert!(matches!(tuned.ended, Ended::Stopped | Ended::Exhausted | Ended::Finished));
            }
        }
    }
}

#[test]
fn a_space_where_everything_fails_is_searched_to_its_end() {
    let space = space(vec![TuningParameter::int("a", 1, 8), TuningParameter::ints("b", [1, 2, 4, 8])]);
    for name in NAMES {
        let fail = |_: &Configuration| Outcome::Invalid(Invalid::new(Why::Runtime, "no luck"));
        let tuned = tuner(&space, name, 3).tune(fail).unwrap();
        assert_eq!(tuned.best, None, "{name}");
        assert_eq!((tuned.evaluations(), tuned.valid()), (32, 0), "{name}");
        assert_eq!(tuned.evaluations_to_best(), None);
    }
}

#[test]
fn most_configurations_may_fail() {
    let space = constrained();
    let cost = |c: &Configuration| {
        let v = smooth(c);
        if v < 4.0 && ((v * 1e4) as u64).is_multiple_of(3) {
            Outcome::Valid(v.into())
        } else {
            Outcome::Invalid(Invalid::new(Why::Compile, "too much"))
        }
    };
    for name in NAMES {
        let tuned = tuner(&space, name, 3).stop(Stop::Evaluations(250)).tune(cost).unwrap();
        assert_eq!(tuned.evaluations(), 250, "{name}");
        assert!(tuned.best.is_some() || name == "exhaustive", "{name}");
    }
}

#[test]
fn random_search_draws_uniformly() {
    let space = space(vec![
        TuningParameter::int("a", 1, 6),
        crate::kit::such_that(TuningParameter::int("b", 1, 6), "a % b == 0"),
    ]);
    let n = space.size().to_usize().unwrap();
    let mut technique = Random::default();
    technique.initialize(&space, 16);
    let mut counts = vec![0u32; n];
    const DRAWS: u32 = 14_000;
    for point in technique.next_batch(DRAWS as usize) {
        let Point::Index(i) = point else { panic!("not an index") };
        counts[i.to_usize().unwrap()] += 1;
    }
    let expected = f64::from(DRAWS) / n as f64;
    let chi2: f64 = counts.iter().map(|c| (f64::from(*c) - expected).powi(2) / expected).sum();
    // 14 configurations: 13 degrees of freedom, 99.9 % below 34.5.
    assert_eq!(n, 14);
    assert!(chi2 < 34.5, "{chi2}");
}

#[test]
fn a_huge_space_is_searched_too() {
    let params = (0..40).map(|i| TuningParameter::int(format!("p{i}"), 1, 64)).collect();
    let space = space(params);
    let cost = |c: &Configuration| 1.0 + c.names().iter().map(|n| crate::kit::number(c, n)).sum::<f64>();
    for name in NAMES {
        let tuned = tuner(&space, name, 3).stop(Stop::Evaluations(60)).tune(cost).unwrap();
        assert_eq!(tuned.evaluations(), 60, "{name}");
    }
}
