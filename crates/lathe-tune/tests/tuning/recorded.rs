//! Recorded tables: written, read, searched.

use crate::kit::{constrained, one_point, smooth};
use lathe_tune::t4::Results;
use lathe_tune::technique::Exhaustive;
use lathe_tune::{Invalid, Outcome, RecordedTable, Stop, Tuner, Why, codes};
use std::time::Duration;

#[test]
fn a_recorded_search_can_be_searched_again() {
    let space = constrained();
    let tuned = Tuner::new(space.clone())
        .technique(Box::new(Exhaustive::default()))
        .tune(|c| {
            let v = smooth(c);
            if v > 5.0 {
                Outcome::Invalid(Invalid::new(Why::Timeout, "over the limit"))
            } else {
                Outcome::Valid(v.into())
            }
        })
        .unwrap();
    let written = Results::of(&tuned, &["time"], Duration::from_secs(1_700_000_000)).write();
    let results = Results::read(written.as_bytes()).unwrap();
    assert_eq!(results.results.len(), tuned.history.len());
    assert!(results.results[0].timestamp.starts_with("2023-11-14"));
    let table = RecordedTable::new(space.clone(), &results).unwrap();
    assert_eq!((table.len(), table.is_empty()), (tuned.history.len(), false));
    for (c, entry) in space.iter().zip(&tuned.history) {
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs();
        match (table.measure(&c).outcome, &entry.outcome) {
            (Outcome::Valid(a), Outcome::Valid(b)) => assert!(close(a.first(), b.first())),
            (a, b) => assert_eq!(&a, b),
        }
    }
    let failed = table.costs().iter().filter(|c| c.is_infinite()).count() as u64;
    assert_eq!(failed, tuned.evaluations() - tuned.valid());
    let again = Tuner::new(space).stop(Stop::Evaluations(60)).tune(|c| table.measure(c)).unwrap();
    assert!(again.best.unwrap().1.first() < 1.5);
}

#[test]
fn results_must_fit_the_space() {
    let tuned = Tuner::new(one_point()).tune(|_| 1.0).unwrap();
    let results = Results::of(&tuned, &["time"], Duration::ZERO);
    let other = RecordedTable::new(constrained(), &results);
    assert_eq!(other.err().map(|d| d.code), Some(codes::RESULTS_SPACE));
    let mut outside = results.clone();
    outside.results[0].configuration.insert("a".into(), lathe_space::Value::Int(8));
    let refused = RecordedTable::new(one_point(), &outside);
    assert_eq!(refused.err().map(|d| d.code), Some(codes::RESULTS_SPACE));
    // What has but one value need not be recorded; what was not recorded is invalid.
    outside.results[0].configuration.clear();
    assert!(RecordedTable::new(one_point(), &outside).is_ok());
    let empty = RecordedTable::new(one_point(), &Results::default()).unwrap();
    let c = one_point().configuration(&0u32.into()).unwrap();
    assert!(empty.is_empty() && empty.measure(&c).outcome.cost().is_none());
}
