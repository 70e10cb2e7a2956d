//! Sessions: stepping, stopping, remembering, failing.

use crate::kit::{constrained, one_point, smooth, space};
use lathe_space::{Blocks, Configuration, TuningParameter, Value};
use lathe_tune::codes;
use lathe_tune::technique::{Annealing, Coordinates, Exhaustive, Random};
use lathe_tune::{
    Cost, Ended, Invalid, ManualClock, Measured, Order, Outcome, Point, Stop, Technique, Trial, Tuner, Why,
    Window,
};
use num_bigint::BigUint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn random() -> Box<dyn Technique> {
    Box::new(Random::default())
}

#[test]
fn checklist_24_stop_rules_end_sessions_exactly() {
    let clock = ManualClock::default();
    let run = |stop: &str| {
        let stop = lathe_tune::stop_text::parse(stop).unwrap();
        let tick = clock.clone();
        let tuner = Tuner::new(constrained()).technique(random()).clock(clock.clone()).stop(stop).seed(4);
        let tuned = tuner.tune(|c| {
            tick.advance(Duration::from_secs(1));
            smooth(c)
        });
        let tuned = tuned.unwrap();
        assert_eq!(tuned.ended, Ended::Stopped);
        tuned
    };
    assert_eq!(run("evaluations(17)").evaluations(), 17);
    assert_eq!(run("duration<minutes>(1)").evaluations(), 60);
    let size = constrained().size().clone();
    assert_eq!(BigUint::from(run("fraction(0.5)").evaluations()), (size + 1u32) / 2u32);
    let by_cost = run("cost(1.5)");
    assert!(by_cost.best.unwrap().1.first() <= 1.5);
    assert_eq!(by_cost.improvements.last().unwrap().evaluation, by_cost.history.len() as u64);
    let still = run("speedup(1.01, 20)");
    let last = still.improvements.last().unwrap().evaluation;
    assert!(still.evaluations() >= last && still.evaluations() <= last + 20);
    let timed = run("speedup<seconds>(1.01, 20)");
    assert_eq!(timed.evaluations(), still.evaluations());
    assert_eq!(run("5s || evaluations(9)").evaluations(), 5);
    assert_eq!(run("5s && evaluations(9)").evaluations(), 9);
}

#[test]
fn checklist_25_the_defaults() {
    let space = space(vec![TuningParameter::int("a", 1, 9)]);
    let tuned = Tuner::new(space.clone()).tune(|c| crate::kit::number(c, "a")).unwrap();
    assert_eq!((tuned.technique.as_str(), tuned.evaluations()), ("portfolio", 9));
    let session = Tuner::new(space).session().unwrap();
    assert_eq!(session.stop().to_string(), "evaluations(9)");
}

#[test]
fn checklist_26_an_interrupt_keeps_the_best_so_far_and_the_log() {
    let flag = Arc::new(AtomicBool::new(false));
    let mut n = 0;
    let set = flag.clone();
    let tuned = Tuner::new(constrained()).technique(random()).interrupt(flag).tune(|c| {
        n += 1;
        set.store(n == 12, Ordering::SeqCst);
        smooth(c)
    });
    let tuned = tuned.unwrap();
    assert_eq!((tuned.ended.clone(), tuned.evaluations()), (Ended::Interrupted, 12));
    let least = tuned.history.iter().map(|e| e.outcome.cost().unwrap().first()).fold(f64::INFINITY, f64::min);
    assert_eq!(tuned.best.unwrap().1.first(), least);
}

#[test]
fn checklist_34_several_objectives() {
    let space = space(vec![TuningParameter::int("a", 1, 20)]);
    let at = |c: &Configuration| crate::kit::number(c, "a");
    // Time halves steps of ten; energy grows.
    let cost = |c: &Configuration| Cost::from(((at(c) / 10.0).floor(), 30.0 - at(c)));
    let run = |order| Tuner::new(space.clone()).order(order).tune(cost).unwrap();
    let best = |order| at(&run(order).best.unwrap().0);
    assert_eq!(best(Order::default()), 9.0);
    let compare = Arc::new(|a: &Cost, b: &Cost| a.numbers()[1].total_cmp(&b.numbers()[1]));
    let energy = Order::By { compare, objectives: 2 };
    assert_eq!(best(energy), 20.0);
    let tuned = run(Order::Pareto);
    let mut front: Vec<f64> =
        tuned.front.iter().map(|n| at(&tuned.history[*n as usize - 1].configuration)).collect();
    front.sort_by(f64::total_cmp);
    assert_eq!(front, [9.0, 19.0, 20.0]);
    let single = Tuner::new(space).tune(at).unwrap();
    assert_eq!(single.front.len(), 1);
}

#[test]
fn checklist_38_online_tuning_uses_every_call() {
    let space = space(vec![TuningParameter::int("a", 1, 50)]);
    let mut session = Tuner::new(space).stop(Stop::Evaluations(u64::MAX)).session().unwrap();
    let (mut sum, mut late) = (0.0, 0.0);
    for call in 0..1000 {
        let result = session.make_step(|c| {
            let cost = 1.0 + crate::kit::number(c, "a");
            (Measured::from(cost), cost)
        });
        sum += result.as_ref().unwrap();
        late += if call >= 500 { result.unwrap() } else { 0.0 };
    }
    // After the whole space was seen, every call runs the best configuration.
    assert_eq!(late, 500.0 * 2.0);
    assert!(sum < 1000.0 * 4.0);
    assert_eq!((session.history().len(), session.ended()), (50, &Ended::Exhausted));
    assert_eq!(session.progress(), 1.0);
}

#[test]
fn checklist_38_plain_mode_and_misuse() {
    let mut session = Tuner::new(constrained()).technique(random()).session().unwrap();
    let out_of_turn = |e: Result<(), lathe_diagnostics::Diagnostic>| e.unwrap_err().code == codes::ORDER;
    assert!(out_of_turn(session.report_cost(1.0)));
    let first = session.get_configuration().unwrap().unwrap();
    assert!(out_of_turn(session.get_configuration().map(|_| ())));
    assert!(out_of_turn(session.make_step(|_| (1.0.into(), ()))));
    assert!(out_of_turn(session.report(vec![1.0.into(), 2.0.into()])));
    session.report_cost(3.0).unwrap();
    assert!(out_of_turn(session.report_cost(3.0)));
    assert_eq!(session.best(), Some((&first.configuration, &3.0.into())));
    let tuned = session.finish();
    assert_eq!((tuned.ended.clone(), tuned.evaluations()), (Ended::Running, 1));

    let mut hopeless = Tuner::new(one_point()).session().unwrap();
    let fail = || Measured::from(Outcome::Invalid(Invalid::new(Why::Timeout, "slow")));
    assert_eq!(hopeless.make_step(|_| (fail(), 5)), Ok(5));
    assert_eq!(hopeless.make_step(|_| (fail(), 5)).unwrap_err().code, codes::ORDER);
}

#[test]
fn checklist_39_every_evaluation_is_logged() {
    let clock = ManualClock::default();
    let mut session = Tuner::new(constrained())
        .technique(Box::new(Coordinates::new(Annealing::default())))
        .clock(clock.clone())
        .blocks(Blocks::Equal)
        .stop(Stop::Evaluations(30))
        .session()
        .unwrap();
    while let Some(p) = session.get_configuration().unwrap() {
        clock.advance(Duration::from_millis(250));
        let mut m = Measured::from(smooth(&p.configuration));
        if p.index.bit(0) {
            m.outcome = Outcome::Invalid(Invalid::new(Why::Wrong, "differs from gold"));
        }
        m.times.compile = 0.125;
        m.runtimes = vec![0.1, 0.2];
        assert_eq!(session.space().at(&p.coordinates, Blocks::Equal), p.index);
        session.report_cost(m).unwrap();
    }
    let tuned = session.finish();
    for (i, e) in tuned.history.iter().enumerate() {
        assert_eq!((e.number, e.at), (i as u64 + 1, Duration::from_millis(250 * (i as u64 + 1))));
        assert_eq!((e.times.total, e.times.compile, e.runtimes.len()), (0.25, 0.125, 2));
        assert_eq!((e.outcome.cost().is_none(), e.start), (e.index.bit(0), false));
        assert_eq!(e.coordinates.len(), 4);
    }
    let best = tuned.evaluations_to_best().unwrap() as usize - 1;
    assert_eq!(tuned.best.unwrap().0, tuned.history[best].configuration);
    assert!(tuned.improvements.windows(2).all(|w| w[1].cost.first() < w[0].cost.first()));
}

#[test]
fn checklist_41_what_an_unconstrained_search_never_finds() {
    // Each tile divides the one before: of 4096^6 combinations a vanishing part is valid.
    let mut params = vec![crate::kit::such_that(TuningParameter::int("t0", 1, 4096), "4096 % t0 == 0")];
    for i in 1..6 {
        let p = TuningParameter::int(format!("t{i}"), 1, 4096);
        params.push(crate::kit::such_that(p, &format!("t{} % t{i} == 0", i - 1)));
    }
    let space = space(params);
    assert!(space.size() * BigUint::from(10u32).pow(15) < *space.unconstrained());
    let tuned =
        Tuner::new(space).stop(Stop::Evaluations(50)).tune(|c| 1.0 + crate::kit::number(c, "t5")).unwrap();
    assert_eq!((tuned.evaluations(), tuned.valid()), (50, 50));
}

#[test]
fn starting_points_come_first() {
    let space = constrained();
    let at = |i: u32| space.configuration(&BigUint::from(i)).unwrap();
    // One that violates a + b <= 40.
    let mut values = at(0).to_values();
    values.insert("a".into(), Value::Int(30));
    values.insert("b".into(), Value::Int(30));
    let invalid = space.read(&values).unwrap();
    let tuner =
        Tuner::new(space.clone()).technique(random()).starting_points([at(7), at(7), invalid.clone(), at(3)]);
    let tuned = tuner.stop(Stop::Evaluations(6)).tune(smooth).unwrap();
    let starts: Vec<bool> = tuned.history.iter().map(|e| e.start).collect();
    assert_eq!(starts, [true, true, true, false, false, false]);
    assert_eq!(tuned.history[0].configuration, at(7));
    assert_eq!(space.nearest(&invalid).as_ref(), Some(&tuned.history[1].index));
    let other = one_point().configuration(&BigUint::ZERO).unwrap();
    let refused = Tuner::new(space).starting_points([other]).session();
    assert_eq!(refused.err().map(|d| d.code), Some(codes::START));
}

#[test]
fn equal_starting_points_are_measured_once_also_in_one_batch() {
    let space = space(vec![TuningParameter::int("a", 1, 6)]);
    let start = space.configuration(&BigUint::from(2u32)).unwrap();
    let tuner = Tuner::new(space).starting_points([start.clone(), start.clone(), start]);
    let tuned =
        tuner.tune_in_batches(2, |all| all.iter().map(|c| crate::kit::number(c, "a").into()).collect());
    let tuned = tuned.unwrap();
    let mut all: Vec<&BigUint> = tuned.history.iter().map(|e| &e.index).collect();
    all.sort();
    all.dedup();
    assert_eq!((all.len(), tuned.evaluations(), tuned.ended), (6, 6, Ended::Exhausted));
}

#[test]
fn techniques_learn_of_starting_points_and_get_stored_costs_again() {
    /// Asks for configuration 3, over and over.
    struct Again(Arc<std::sync::Mutex<Vec<Trial>>>);
    impl Technique for Again {
        fn name(&self) -> String {
            "again".to_string()
        }
        fn initialize(&mut self, _: &Arc<lathe_space::Space>, _: u64) {}
        fn next_batch(&mut self, _: usize) -> Vec<Point> {
            vec![Point::Index(3u32.into())]
        }
        fn report(&mut self, trials: &[Trial]) {
            self.0.lock().unwrap().extend_from_slice(trials);
        }
        fn observe(&mut self, trials: &[Trial]) {
            self.report(trials);
        }
    }
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let space = constrained();
    let start = space.configuration(&BigUint::from(9u32)).unwrap();
    let tuner = Tuner::new(space).technique(Box::new(Again(seen.clone()))).starting_points([start]);
    let mut n = 0.0;
    let count = |_: &Configuration| {
        n += 1.0;
        n
    };
    let tuned = tuner.stop(Stop::Evaluations(4)).tune(count).unwrap();
    // The start, what it asked for, and then what the session draws because nothing new comes.
    assert_eq!(tuned.evaluations(), 4);
    let seen = seen.lock().unwrap();
    assert_eq!((seen[0].index.clone(), seen[0].cost), (9u32.into(), Some(1.0)));
    assert!(seen[1..].iter().all(|t| t.index != 3u32.into() || t.cost == Some(2.0)));
    assert!(seen.len() > 100);
}

#[test]
fn refused_configurations_cost_nothing() {
    let space = constrained();
    let even = |c: &Configuration| crate::kit::number(c, "a") % 2.0 == 0.0;
    for (name, technique) in [("random", random()), ("exhaustive", Box::new(Exhaustive::default()))] {
        let tuner = Tuner::new(space.clone()).technique(technique).refuse(even);
        let tuned = tuner.stop(Stop::Evaluations(100)).tune(smooth).unwrap();
        assert_eq!(tuned.evaluations(), 100, "{name}");
        assert!(tuned.history.iter().all(|e| !even(&e.configuration)));
    }
    let all = Tuner::new(space).technique(random()).refuse(|_| true).tune(smooth).unwrap();
    assert_eq!((all.evaluations(), all.ended), (0, Ended::Exhausted));
}

#[test]
fn failures_of_the_cost_function_end_the_search_and_lose_nothing() {
    let mut n = 0;
    let tuned = Tuner::new(constrained()).technique(random()).tune(|c| {
        n += 1;
        if n == 6 { -1.0 } else { smooth(c) }
    });
    let tuned = tuned.unwrap();
    assert_eq!(tuned.evaluations(), 5);
    assert!(tuned.best.is_some());
    assert!(matches!(&tuned.ended, Ended::Failed(d) if d.code == codes::NEGATIVE));
    let allowed = Tuner::new(constrained()).technique(random()).negative_costs(true);
    let tuned = allowed.stop(Stop::Evaluations(9)).tune(|c| -smooth(c)).unwrap();
    assert!(tuned.best.unwrap().1.first() < 0.0);
    // NaN is the configuration's fault.
    let tuner = Tuner::new(constrained()).technique(random()).stop(Stop::Evaluations(9));
    let tuned = tuner.tune(|_| f64::NAN).unwrap();
    assert_eq!((tuned.evaluations(), tuned.valid()), (9, 0));
    assert!(matches!(&tuned.history[0].outcome, Outcome::Invalid(i) if i.why == Why::NotANumber));
    let too_few = Tuner::new(constrained()).tune_in_batches(2, |_| vec![]);
    assert_eq!(too_few.err().map(|d| d.code), Some(codes::ORDER));
}

#[test]
fn a_cost_with_another_number_of_objectives_is_invalid_wherever_it_comes() {
    let space = space(vec![TuningParameter::int("a", 1, 24)]);
    for odd in [1.0, 2.0, 7.0, 24.0] {
        let tuner =
            Tuner::new(space.clone()).technique(Box::new(lathe_tune::technique::Exhaustive::default()));
        let cost = |c: &Configuration| match crate::kit::number(c, "a") {
            // Better than all others, if it could be compared with them.
            a if a == odd => Cost::from((-3.0, 4.0)),
            a => Cost::from((a - 10.0).abs()),
        };
        let tuned = tuner.negative_costs(true).tune(cost).unwrap();
        assert_eq!((tuned.evaluations(), tuned.valid(), &tuned.ended), (24, 23, &Ended::Exhausted), "{odd}");
        assert_eq!(tuned.best.unwrap().1, Cost::from(0.0));
        let wrong: Vec<_> = tuned.history.iter().filter(|e| e.outcome.cost().is_none()).collect();
        assert_eq!((wrong.len(), crate::kit::number(&wrong[0].configuration, "a")), (1, odd));
        assert!(matches!(&wrong[0].outcome, Outcome::Invalid(i) if i.why == Why::NotANumber));
        // Improvements and the front are those of the costs that count.
        let falls = tuned.improvements.windows(2).all(|w| w[1].cost.first() < w[0].cost.first());
        assert!(falls && tuned.improvements.iter().all(|i| i.cost.numbers().len() == 1));
        assert_eq!(tuned.front.len(), 1);
    }
}

#[test]
fn an_order_that_no_cost_suits_ends_the_search() {
    let space = space(vec![TuningParameter::int("a", 1, 40)]);
    let order = || Order::By {
        compare: Arc::new(|a: &Cost, b: &Cost| a.first().total_cmp(&b.first())),
        objectives: 2,
    };
    let tuned = Tuner::new(space.clone()).order(order()).tune(|_| 1.0).unwrap();
    assert!(matches!(&tuned.ended, Ended::Failed(d) if d.code == codes::OBJECTIVES));
    assert!(tuned.best.is_none() && tuned.evaluations() < 40);
    // One that does suffices to go on.
    let mut n = 0;
    let tuned = Tuner::new(space).order(order()).tune(|_| {
        n += 1;
        if n == 5 { Cost::from((1.0, 2.0)) } else { Cost::from(1.0) }
    });
    let tuned = tuned.unwrap();
    assert_eq!((tuned.evaluations(), tuned.valid(), &tuned.ended), (40, 1, &Ended::Exhausted));
}

#[test]
fn a_space_that_was_measured_to_its_end_is_exhausted_whatever_the_stop_rule_says() {
    for name in ["exhaustive", "random", "portfolio"] {
        let technique = lathe_tune::technique::by_name(name).unwrap();
        let space = space(vec![TuningParameter::int("a", 1, 9)]);
        let tuned = Tuner::new(space).technique(technique).tune(|c| crate::kit::number(c, "a")).unwrap();
        assert_eq!((tuned.evaluations(), tuned.ended), (9, Ended::Exhausted), "{name}");
    }
}

#[test]
fn negative_objectives_are_searched_by_every_technique() {
    for name in lathe_tune::technique::NAMES {
        let technique = lathe_tune::technique::by_name(name).unwrap();
        let tuner = Tuner::new(constrained()).technique(technique).negative_costs(true);
        let mut n = 0;
        let cost = |c: &Configuration| {
            n += 1;
            // First positive, so that logarithms are taken until they cannot be.
            if n < 12 { smooth(c) } else { smooth(c) - 4.0 }
        };
        let tuned = tuner.stop(Stop::Evaluations(80)).tune(cost).unwrap();
        assert_eq!(tuned.evaluations(), 80, "{name}");
    }
}

#[test]
fn batches_hold_different_configurations_and_do_not_overshoot() {
    for name in lathe_tune::technique::NAMES {
        let technique = lathe_tune::technique::by_name(name).unwrap();
        let tuner = Tuner::new(constrained()).technique(technique).stop(Stop::Evaluations(50));
        let tuned = tuner.tune_in_batches(8, |batch| {
            assert!(!batch.is_empty() && batch.len() <= 8);
            for (i, c) in batch.iter().enumerate() {
                assert!(!batch[..i].contains(c), "{name}");
            }
            batch.iter().map(|c| smooth(c).into()).collect()
        });
        assert_eq!(tuned.unwrap().evaluations(), 50, "{name}");
    }
}

#[test]
fn progress_grows_and_the_end_can_be_foreseen() {
    let clock = ManualClock::default();
    let tuner = Tuner::new(constrained()).technique(random()).clock(clock.clone());
    let mut session = tuner.stop(Stop::Evaluations(10).or(Stop::Cost(0.0.into()))).session().unwrap();
    let mut last = -1.0;
    while let Some(p) = session.get_configuration().unwrap() {
        clock.advance(Duration::from_secs(2));
        session.report_cost(smooth(&p.configuration)).unwrap();
        assert!(session.progress() > last);
        last = session.progress();
        let left = 2 * (10 - session.history().len() as u64);
        assert_eq!(session.remaining().map(|t| t.as_secs_f64().round() as u64), Some(left));
    }
    assert_eq!(last, 1.0);
    let window = Window::Time(Duration::from_secs(5));
    let stale = Stop::Speedup { factor: 1.5, over: window };
    assert!(stale.progress(&session.status()) > 0.0);
}
