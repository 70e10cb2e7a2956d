//! How often one configuration is run.
//!
//! A configuration is run until one of four things is known, in this order:
//!
//! * **Hopeless**: its fastest run took more than `hopeless` times the best configuration's median. One run
//!   decides, on the assumption that no disturbance ever makes every run of a configuration that much slower.
//! * **Worse**: all of the first six runs took longer than the best median. If the configuration's median
//!   were at most the best's, each run would be faster than it with probability at least 1/2, so this happens
//!   with probability at most 2⁻⁶ = 1.6 %. (A sign test; it assumes nothing about the noise but that runs are
//!   independent. It is made once, so that looking repeatedly does not weaken it.) Fewer runs do where all of them
//!   are slower by a margin, on the assumption that no disturbance makes each of them that much slower.
//! * **Narrow**: the 95 % interval of the median (see [`crate::stats::median_interval`]) is at most `precision`
//!   wide, relative to the median.
//! * **Enough**: `max` runs, or `time` spent.

use crate::stats::{Summary, summarize};
use lathe_tune::Pruning;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// After so many runs a configuration is given up if the fastest took so many times the best.
const WORSE: [(usize, f64); 4] = [(2, 1.2), (3, 1.1), (4, 1.05), (6, 1.0)];

/// When to stop running one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Runs before those that count.
    pub warmup: usize,
    /// Fewer runs than this are never taken as enough.
    pub min: usize,
    pub max: usize,
    /// Time for all counted runs of one configuration.
    pub time: Duration,
    /// Relative width of the interval that is narrow enough.
    pub precision: f64,
    /// Beyond this multiple of the best, one run decides.
    pub hopeless: f64,
    /// A technique's own rules, which then replace `hopeless`.
    pub pruning: Option<Pruning>,
}

impl Default for Rule {
    fn default() -> Rule {
        Rule {
            warmup: 1,
            min: 6,
            max: 9,
            time: Duration::from_millis(300),
            precision: 0.01,
            hopeless: 1.5,
            pruning: None,
        }
    }
}

impl Rule {
    /// One run decides: for costs that are the same each time.
    pub fn once() -> Rule {
        Rule { warmup: 0, min: 1, max: 1, ..Rule::default() }
    }
}

/// What is known after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    More,
    Hopeless,
    Worse,
    Narrow,
    Enough,
}

/// The runs of one configuration, against the best one so far.
#[derive(Clone, Debug)]
pub struct Race {
    rule: Rule,
    /// The best configuration's median.
    best: Option<f64>,
    seconds: Vec<f64>,
    spent: f64,
}

impl Race {
    pub fn new(rule: Rule, best: Option<f64>) -> Race {
        Race { rule, best, seconds: Vec::new(), spent: 0.0 }
    }

    /// Takes the time of one run.
    pub fn push(&mut self, seconds: f64) -> Verdict {
        self.seconds.push(seconds);
        self.spent += seconds;
        let n = self.seconds.len();
        if let Some(best) = self.best {
            let fastest = self.seconds.iter().copied().fold(f64::INFINITY, f64::min);
            let hopeless = match self.rule.pruning {
                Some(p) => p.after_warm(fastest, self.best).is_some(),
                None => fastest > best * self.rule.hopeless,
            };
            if hopeless {
                return Verdict::Hopeless;
            }
            if WORSE.iter().any(|(runs, factor)| n == *runs && fastest > best * factor) {
                return Verdict::Worse;
            }
        }
        if n < self.rule.min.min(self.rule.max) && self.spent < self.rule.time.as_secs_f64() {
            return Verdict::More;
        }
        match self.summary() {
            Some(s)
                if n >= self.rule.min && (s.interval.1 - s.interval.0) <= self.rule.precision * s.median =>
            {
                Verdict::Narrow
            }
            _ if n >= self.rule.max || self.spent >= self.rule.time.as_secs_f64() => Verdict::Enough,
            _ => Verdict::More,
        }
    }

    /// The runs so far; `None` before the first.
    pub fn summary(&self) -> Option<Summary> {
        summarize(&self.seconds)
    }

    /// Times `call` until a verdict. The warm-up run counts where it alone shows that the rest is hopeless, and
    /// where it alone takes longer than all runs should.
    ///
    /// # Errors
    /// What `call` says.
    pub fn run<E>(mut self, mut call: impl FnMut() -> Result<f64, E>) -> Result<(Summary, Verdict), E> {
        for _ in 0..self.rule.warmup {
            let seconds = call()?;
            // A first run may be slower for reasons of its own (page faults, cold caches): twice as much is
            // allowed, and it never decides alone when it is short.
            let hopeless = match self.rule.pruning {
                Some(p) => p.after_first(seconds, self.best).is_some(),
                None => seconds > 0.01 && self.best.is_some_and(|b| seconds > 2.0 * self.rule.hopeless * b),
            };
            if hopeless {
                return Ok((self.single(seconds), Verdict::Hopeless));
            }
            if seconds > self.rule.time.as_secs_f64().max(1.0) {
                return Ok((self.single(seconds), Verdict::Enough));
            }
        }
        loop {
            let seconds = call()?;
            let verdict = self.push(seconds);
            if verdict != Verdict::More {
                let summary = self.summary().unwrap_or_else(|| self.single(seconds));
                return Ok((summary, verdict));
            }
        }
    }

    fn single(&self, s: f64) -> Summary {
        Summary { runs: 1, median: s, min: s, max: s, interval: (s, s) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples `base * (1 + noise)`, with now and then a run that was disturbed.
    struct Noise(u64);

    impl Noise {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }

        fn sample(&mut self, base: f64, noise: f64) -> f64 {
            let disturbed = if self.unit() < 0.05 { 1.3 } else { 1.0 };
            base * disturbed * (1.0 + noise * (2.0 * self.unit() - 1.0))
        }
    }

    fn race(noise: &mut Noise, base: f64, spread: f64, best: Option<f64>) -> (Summary, Verdict) {
        let rule = Rule { warmup: 0, time: Duration::from_secs(1000), ..Rule::default() };
        Race::new(rule, best).run(|| Ok::<f64, ()>(noise.sample(base, spread))).unwrap()
    }

    #[test]
    fn hopeless_ones_are_run_once() {
        let (s, v) = race(&mut Noise(1), 4.0, 0.05, Some(1.0));
        assert_eq!((s.runs, v), (1, Verdict::Hopeless));
    }

    #[test]
    fn a_techniques_own_rules_decide_what_is_hopeless() {
        let rule =
            Rule { time: Duration::from_secs(1000), pruning: Some(Pruning::default()), ..Rule::default() };
        let runs = |cold: f64, warm: f64| {
            let mut next = cold;
            let race = Race::new(rule, Some(1.0));
            let (s, v) = race.run(|| Ok::<f64, ()>(std::mem::replace(&mut next, warm))).unwrap();
            (s.runs, v)
        };
        assert_eq!(runs(99.0, 4.0), (2, Verdict::Worse));
        assert_eq!(runs(101.0, 1.0), (1, Verdict::Hopeless));
        assert_eq!(runs(99.0, 6.0), (1, Verdict::Hopeless));
    }

    #[test]
    fn the_less_worse_the_more_runs() {
        for (base, runs) in [(1.3, 2), (1.15, 3), (1.08, 4), (1.03, 6)] {
            let (s, v) = race(&mut Noise(2), base, 0.02, Some(1.0));
            assert_eq!((s.runs, v), (runs, Verdict::Worse), "{base}");
        }
    }

    #[test]
    fn quiet_ones_end_early_and_noisy_ones_at_the_bound() {
        let (s, v) = race(&mut Noise(3), 1.0, 0.001, None);
        assert!(s.runs < 9 && v == Verdict::Narrow, "{s:?}");
        let (s, v) = race(&mut Noise(4), 1.0, 0.5, None);
        assert_eq!((s.runs, v), (9, Verdict::Enough));
    }

    /// A configuration as good as the best is given up with the probability that is stated, and no more.
    #[test]
    fn equally_good_ones_are_seldom_given_up() {
        let mut noise = Noise(5);
        let rule =
            Rule { warmup: 0, max: 40, time: Duration::from_secs(1000), precision: 0.0, ..Rule::default() };
        let mut given_up = 0;
        for _ in 0..4000 {
            // Without disturbances the median is 1.
            let call = || Ok::<f64, ()>(1.0 + 0.1 * (2.0 * noise.unit() - 1.0));
            let (_, v) = Race::new(rule, Some(1.0)).run(call).unwrap();
            given_up += usize::from(v == Verdict::Worse);
        }
        // 2^-6 of 4000 is 62.5; five standard deviations above it are 102.
        assert!((20..102).contains(&given_up), "{given_up}");
    }

    #[test]
    fn better_ones_are_never_given_up_and_time_ends_the_rest() {
        let mut noise = Noise(6);
        for _ in 0..500 {
            let (_, v) = race(&mut noise, 0.8, 0.1, Some(1.0));
            assert!(matches!(v, Verdict::Narrow | Verdict::Enough), "{v:?}");
        }
        let rule = Rule { time: Duration::from_millis(10), warmup: 0, ..Rule::default() };
        let (s, v) = Race::new(rule, None).run(|| Ok::<f64, ()>(0.006)).unwrap();
        assert_eq!((s.runs, v), (2, Verdict::Enough));
        let long = Rule { warmup: 1, ..rule };
        assert_eq!(Race::new(long, None).run(|| Ok::<f64, ()>(1.5)).unwrap().0.runs, 1);
        assert_eq!(Race::new(Rule::once(), None).run(|| Ok::<f64, ()>(7.0)).unwrap().0.runs, 1);
        assert_eq!(Race::new(rule, None).run(|| Err::<f64, _>("no")), Err("no"));
    }
}
