//! Random kernels under random strategies at random sizes: interpreter, engines and evidence must agree.
//!
//! `LATHE_CASES` sets the number of cases (300 without), `LATHE_SEED` the first seed. Every case asks the
//! interpreter three times and LLVM with one and two threads; every 25th asks the C compiler too, which
//! takes a tenth of a second for each. A failing case is made smaller and printed as a `.lathe` file.

mod case;
mod data;
mod kernels;
mod nests;
pub mod rng;
mod searches;
mod shrink;
mod steps;

use case::{Case, Outcome, Pools, Steps};
use data::Flavour;
use rng::Rng;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often the C compiler is asked.
const C_EVERY: u64 = 25;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn make(seed: u64) -> Case {
    let mut r = Rng::new(seed);
    let source = kernels::source(&mut r);
    let mut size = || match r.below(12) {
        0 => *r.pick(&[17, 33]),
        n => (n - 1) as i64 % 10,
    };
    let mut sizes: Vec<(String, i64)> = ["N", "M", "K"].map(|n| (n.to_string(), size())).into();
    if r.one_in(10) {
        sizes[2].1 = 70;
    }
    let flavour = *r.pick(&[Flavour::Small, Flavour::Small, Flavour::Special, Flavour::Fractions]);
    Case {
        seed,
        source,
        steps: Steps::Random(2 + r.below(12)),
        sizes,
        flavour,
        strided: r.one_in(3),
        c: seed.is_multiple_of(C_EVERY),
    }
}

/// What all cases together did.
#[derive(Default)]
struct Tally {
    cases: u64,
    accepted: BTreeMap<String, usize>,
    refused: BTreeMap<String, usize>,
    ran: BTreeMap<&'static str, usize>,
    limits: BTreeMap<String, usize>,
    skipped: BTreeMap<String, (usize, u64)>,
    failures: Vec<(Case, Outcome)>,
}

impl Tally {
    fn add(&mut self, seed: u64, o: &Outcome) {
        self.cases += 1;
        for s in &o.accepted {
            *self.accepted.entry(s.clone()).or_default() += 1;
        }
        for s in &o.refused {
            *self.refused.entry(s.clone()).or_default() += 1;
        }
        for (n, c) in &o.ran {
            *self.ran.entry(n).or_default() += c;
        }
        for (n, c) in &o.limits {
            *self.limits.entry(n.clone()).or_default() += c;
        }
        if let Some(why) = &o.skipped {
            self.skipped.entry(why.clone()).or_insert((0, seed)).0 += 1;
        }
    }

    fn print(&self) {
        println!("{} cases", self.cases);
        println!("accepted steps: {:?}", self.accepted);
        println!("refused steps: {:?}", self.refused);
        for (name, n) in &self.ran {
            println!("{name}: {n} ({:.1} %)", 100.0 * *n as f64 / self.cases.max(1) as f64);
        }
        for (what, n) in &self.limits {
            println!("limit of an engine, {n} x {what}");
        }
        let skipped: usize = self.skipped.values().map(|s| s.0).sum();
        println!("skipped: {skipped}");
        let mut why: Vec<_> = self.skipped.iter().collect();
        why.sort_by_key(|s| std::cmp::Reverse(s.1.0));
        for (text, (n, seed)) in why.into_iter().take(12) {
            println!("  {n} x {text} (first: seed {seed})");
        }
    }
}

/// Runs cases from the first seed on, shrinks those that fail, and says what all did.
fn run_all(first: u64, cases: u64, make: fn(u64) -> Case) -> Tally {
    let keep = number("LATHE_FAILURES", 3) as usize;
    let next = AtomicU64::new(first);
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(8) {
            scope.spawn(|| {
                let pool = |n| lathe::Pool::new(n).expect("threads");
                let pools = Pools(pool(1), pool(2));
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + cases {
                        return;
                    }
                    if std::env::var_os("LATHE_TRACE").is_some() {
                        eprintln!("seed {seed}");
                    }
                    let mut case = make(seed);
                    let mut outcome = case::run(&mut case, &pools);
                    let failed = outcome.failed.is_some();
                    if failed && std::env::var_os("LATHE_NO_SHRINK").is_none() {
                        (case, outcome) = shrink::shrink(&case, outcome, &pools);
                    }
                    let mut t = tally.lock().expect("no thread panics");
                    t.add(seed, &outcome);
                    if failed {
                        t.failures.push((case, outcome));
                        if t.failures.len() >= keep {
                            next.store(first + cases, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().expect("no thread panics");
    tally.print();
    for (case, outcome) in &tally.failures {
        if let Some(w) = &outcome.failed {
            println!("---- {}: {}\n{case}{}", w.kind, w.text, w.tree);
        }
    }
    assert!(tally.failures.is_empty(), "{} cases failed", tally.failures.len());
    tally
}

/// Fewer say nothing: the analysis or the interpreter did not take them.
fn most_say_something(tally: &Tally) {
    let skipped: usize = tally.skipped.values().map(|s| s.0).sum();
    assert!(skipped as u64 <= tally.cases / 3, "{skipped} of {} cases say nothing", tally.cases);
}

/// Nests through `affine_schedule`: 25, or a fortieth of `LATHE_CASES`.
#[test]
fn affine_schedules_agree_about_random_nests() {
    let cases = (number("LATHE_CASES", 1000) / 40).max(1);
    let tally = run_all(number("LATHE_SEED", 1), cases, nests::case);
    most_say_something(&tally);
    let accepted = tally.accepted.get("affine_schedule").copied().unwrap_or(0) as u64;
    assert!(accepted >= tally.cases / 6, "{accepted} of {} nests were scheduled", tally.cases);
}

/// Such nests, with borders, through `auto`: 15, or a hundredth of `LATHE_CASES`.
#[test]
fn auto_agrees_about_random_nests() {
    let cases = (number("LATHE_CASES", 1000) / 100).max(15);
    let make = |seed| Case { steps: Steps::Auto, ..nests::with_borders(seed) };
    let tally = run_all(number("LATHE_SEED", 1), cases, make);
    most_say_something(&tally);
    let scheduled = tally.accepted.get("affine_schedule").copied().unwrap_or(0);
    assert!(scheduled > 0, "no nest of {} was scheduled", tally.cases);
}

/// Searches for the largest and smallest elements: 25, or a fortieth of `LATHE_CASES`.
#[test]
fn searches_agree_about_special_values() {
    let cases = (number("LATHE_CASES", 1000) / 40).max(25);
    let tally = run_all(number("LATHE_SEED", 1), cases, searches::case);
    most_say_something(&tally);
    let accepted = |step: &str| tally.accepted.get(step).copied().unwrap_or(0) as u64;
    assert!(accepted("to_reduction") >= tally.cases / 5 && accepted("factor") >= tally.cases / 8);
}

#[test]
fn everything_agrees_about_random_programs() {
    let tally = run_all(number("LATHE_SEED", 1), number("LATHE_CASES", 300), make);
    if tally.cases >= 2000 {
        // A rule that random programs hardly ever take is not tested by them. What engines do not run, cores of devices
        // and index notation, is tested where the rules are; so is what wants loops that were fused for it. Whole nests have
        // cases of their own.
        let elsewhere = ["open", "close", "bind", "localize", "affine_schedule", "expand", "to_reduction"];
        let rare: Vec<&str> = lathe_transform::rules()
            .map(|r| r.name())
            .filter(|n| {
                !elsewhere.contains(n)
                    && tally.accepted.get(*n).is_none_or(|c| (*c as u64) < tally.cases / 500)
            })
            .collect();
        assert!(rare.is_empty(), "hardly ever accepted: {rare:?}");
    }
    most_say_something(&tally);
}
