//! When tuning ends: six rules, `and`, `or`, and the user's own.

use crate::cost::{Cost, Order};
use num_bigint::BigUint;
use num_traits::ToPrimitive;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A moment at which another configuration became the best. Under a tolerance it may be one that was measured before.
#[derive(Clone, Debug, PartialEq)]
pub struct Improvement {
    /// The 1-based number of the evaluation.
    pub evaluation: u64,
    pub at: Duration,
    pub index: BigUint,
    pub cost: Cost,
}

/// What stop rules can see of a running session.
#[derive(Clone, Copy, Debug)]
pub struct Status<'a> {
    /// Configurations measured, invalid ones included.
    pub evaluations: u64,
    pub valid: u64,
    /// Since the session began.
    pub elapsed: Duration,
    /// The number of configurations in the space.
    pub size: &'a BigUint,
    pub order: &'a Order,
    /// Every time that the best changed; the last is the best.
    pub improvements: &'a [Improvement],
}

impl Status<'_> {
    pub fn best(&self) -> Option<&Cost> {
        self.improvements.last().map(|i| &i.cost)
    }
}

/// The length over which [`Stop::Speedup`] looks back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Window {
    Time(Duration),
    Evaluations(u64),
}

/// A predicate over the status.
pub type Predicate = Arc<dyn Fn(&Status) -> bool + Send + Sync>;

/// When tuning ends.
#[derive(Clone)]
pub enum Stop {
    /// Wall time.
    Duration(Duration),
    /// So many configurations were measured.
    Evaluations(u64),
    /// This part (0 to 1) of the space was measured.
    Fraction(f64),
    /// The best cost is at most this.
    Cost(Cost),
    /// During the last so long, the best cost was not lowered by `factor` or more. Not before that much of the
    /// session has passed.
    Speedup {
        factor: f64,
        over: Window,
    },
    And(Vec<Stop>),
    Or(Vec<Stop>),
    /// The user's own rule, with a name for messages.
    User(String, Predicate),
}

impl Stop {
    /// The default: `evaluations(|SP|)`. Only exhaustive search is then sure to see the whole space.
    pub fn default_for(size: &BigUint) -> Stop {
        Stop::Evaluations(size.to_u64().unwrap_or(u64::MAX))
    }

    pub fn user(name: impl Into<String>, rule: impl Fn(&Status) -> bool + Send + Sync + 'static) -> Stop {
        Stop::User(name.into(), Arc::new(rule))
    }

    pub fn and(self, other: Stop) -> Stop {
        match self {
            Stop::And(mut all) => {
                all.push(other);
                Stop::And(all)
            }
            first => Stop::And(vec![first, other]),
        }
    }

    pub fn or(self, other: Stop) -> Stop {
        match self {
            Stop::Or(mut all) => {
                all.push(other);
                Stop::Or(all)
            }
            first => Stop::Or(vec![first, other]),
        }
    }

    /// Whether to end now.
    pub fn is_met(&self, s: &Status) -> bool {
        match self {
            Stop::Duration(d) => s.elapsed >= *d,
            Stop::Evaluations(n) => s.evaluations >= *n,
            Stop::Fraction(f) => s.evaluations as f64 >= f * s.size.to_f64().unwrap_or(f64::INFINITY),
            Stop::Cost(c) => s.best().is_some_and(|b| s.order.compare(b, c).is_le()),
            Stop::Speedup { factor, over } => {
                long_enough(s, *over) && !lowered(before(s, *over), s.best(), *factor)
            }
            Stop::And(all) => all.iter().all(|r| r.is_met(s)),
            Stop::Or(all) => all.iter().any(|r| r.is_met(s)),
            Stop::User(_, rule) => rule(s),
        }
    }

    /// The most evaluations that may still follow, so that batches do not measure beyond the end.
    pub fn left(&self, s: &Status) -> u64 {
        match self {
            Stop::Evaluations(n) => n.saturating_sub(s.evaluations),
            Stop::Fraction(f) => {
                let all = (f * s.size.to_f64().unwrap_or(f64::INFINITY)).ceil();
                if all < 1e18 { (all as u64).saturating_sub(s.evaluations) } else { u64::MAX }
            }
            Stop::And(all) => all.iter().map(|r| r.left(s)).max().unwrap_or(0),
            Stop::Or(all) => all.iter().map(|r| r.left(s)).min().unwrap_or(u64::MAX),
            Stop::Duration(_) | Stop::Cost(_) | Stop::Speedup { .. } | Stop::User(..) => u64::MAX,
        }
    }

    /// How far the session is, 0 to 1; 1 exactly when the rule is met. A bound on the cost, or a user's rule,
    /// tells nothing before it is met.
    pub fn progress(&self, s: &Status) -> f64 {
        if self.is_met(s) {
            return 1.0;
        }
        let part = match self {
            Stop::Duration(d) => s.elapsed.as_secs_f64() / d.as_secs_f64(),
            Stop::Evaluations(n) => s.evaluations as f64 / *n as f64,
            Stop::Fraction(f) => s.evaluations as f64 / (f * s.size.to_f64().unwrap_or(f64::INFINITY)),
            Stop::Cost(_) | Stop::User(..) => 0.0,
            // From the last improvement on, since each one may restart the wait.
            Stop::Speedup { over: Window::Time(t), .. } => {
                let since = s.improvements.last().map_or(Duration::ZERO, |i| i.at);
                s.elapsed.saturating_sub(since).as_secs_f64() / t.as_secs_f64()
            }
            Stop::Speedup { over: Window::Evaluations(n), .. } => {
                let since = s.improvements.last().map_or(0, |i| i.evaluation);
                s.evaluations.saturating_sub(since) as f64 / *n as f64
            }
            Stop::And(all) => all.iter().map(|r| r.progress(s)).fold(1.0, f64::min),
            Stop::Or(all) => all.iter().map(|r| r.progress(s)).fold(0.0, f64::max),
        };
        if part.is_finite() { part.clamp(0.0, 0.999_999) } else { 0.0 }
    }

    /// How long the session will probably still take, from the time that its progress took so far.
    pub fn remaining(&self, s: &Status) -> Option<Duration> {
        let p = self.progress(s);
        if p <= 0.0 {
            return None;
        }
        Duration::try_from_secs_f64(s.elapsed.as_secs_f64() * (1.0 - p) / p).ok()
    }
}

fn long_enough(s: &Status, over: Window) -> bool {
    match over {
        Window::Time(t) => s.elapsed >= t,
        Window::Evaluations(n) => s.evaluations >= n,
    }
}

/// The best cost when the window began.
fn before<'a>(s: &Status<'a>, over: Window) -> Option<&'a Cost> {
    let old = |i: &&Improvement| match over {
        Window::Time(t) => i.at <= s.elapsed.saturating_sub(t),
        Window::Evaluations(n) => i.evaluation <= s.evaluations.saturating_sub(n),
    };
    s.improvements.iter().rev().find(old).map(|i| &i.cost)
}

/// Whether the best cost went down by `factor` or more (the first objective's). A first valid configuration
/// always counts.
fn lowered(from: Option<&Cost>, to: Option<&Cost>, factor: f64) -> bool {
    match (from, to) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(from), Some(to)) => {
            let (a, b) = (from.first(), to.first());
            if b > 0.0 { a / b >= factor } else { a > b }
        }
    }
}

impl fmt::Display for Stop {
    /// In the notation that [`crate::stop_text::parse`] reads; a user's rule shows its name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, all: &[Stop], sign: &str| {
            for (i, r) in all.iter().enumerate() {
                f.write_str(if i > 0 { sign } else { "" })?;
                if matches!(r, Stop::And(_) | Stop::Or(_)) { write!(f, "({r})")? } else { write!(f, "{r}")? }
            }
            Ok(())
        };
        match self {
            Stop::Duration(d) => write!(f, "duration<seconds>({})", d.as_secs_f64()),
            Stop::Evaluations(n) => write!(f, "evaluations({n})"),
            Stop::Fraction(v) => write!(f, "fraction({v})"),
            Stop::Cost(c) => write!(f, "cost({c})"),
            Stop::Speedup { factor, over: Window::Time(t) } => {
                write!(f, "speedup<seconds>({factor}, {})", t.as_secs_f64())
            }
            Stop::Speedup { factor, over: Window::Evaluations(n) } => write!(f, "speedup({factor}, {n})"),
            Stop::And(all) => list(f, all, " && "),
            Stop::Or(all) => list(f, all, " || "),
            Stop::User(name, _) => f.write_str(name),
        }
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Run {
        evaluations: u64,
        elapsed: Duration,
        size: BigUint,
        order: Order,
        improvements: Vec<Improvement>,
    }

    impl Run {
        /// Improvements as (evaluation = second, cost).
        fn new(evaluations: u64, costs: &[(u64, f64)]) -> Run {
            let improvements = costs
                .iter()
                .map(|(n, c)| Improvement {
                    evaluation: *n,
                    at: Duration::from_secs(*n),
                    index: BigUint::from(*n),
                    cost: (*c).into(),
                })
                .collect();
            let elapsed = Duration::from_secs(evaluations);
            Run { evaluations, elapsed, size: BigUint::from(1000u32), order: Order::default(), improvements }
        }

        fn status(&self) -> Status<'_> {
            Status {
                evaluations: self.evaluations,
                valid: self.evaluations,
                elapsed: self.elapsed,
                size: &self.size,
                order: &self.order,
                improvements: &self.improvements,
            }
        }

        fn meets(&self, s: &Stop) -> bool {
            assert_eq!(s.is_met(&self.status()), s.progress(&self.status()) == 1.0);
            s.is_met(&self.status())
        }
    }

    #[test]
    fn checklist_24_duration_and_evaluations_end_exactly_at_the_bound() {
        let d = Stop::Duration(Duration::from_secs(10));
        assert!(!Run::new(9, &[]).meets(&d) && Run::new(10, &[]).meets(&d));
        let e = Stop::Evaluations(10);
        assert!(!Run::new(9, &[]).meets(&e) && Run::new(10, &[]).meets(&e));
        assert!(Run::new(0, &[]).meets(&Stop::Evaluations(0)));
    }

    #[test]
    fn checklist_24_a_fraction_counts_of_the_space() {
        let f = Stop::Fraction(0.25);
        assert!(!Run::new(249, &[]).meets(&f) && Run::new(250, &[]).meets(&f));
        assert!(Run::new(0, &[]).meets(&Stop::Fraction(0.0)));
    }

    #[test]
    fn checklist_24_a_cost_is_met_when_it_is_reached() {
        let c = Stop::Cost(0.5.into());
        assert!(!Run::new(9, &[]).meets(&c) && !Run::new(9, &[(1, 0.51)]).meets(&c));
        assert!(Run::new(9, &[(1, 0.51), (2, 0.5)]).meets(&c));
    }

    #[test]
    fn checklist_24_stagnation_by_count_and_by_time() {
        for over in [Window::Evaluations(10), Window::Time(Duration::from_secs(10))] {
            let s = Stop::Speedup { factor: 2.0, over };
            // Too early; nothing valid at all; a first valid one; lowered enough; lowered too little.
            assert!(!Run::new(9, &[]).meets(&s));
            assert!(Run::new(10, &[]).meets(&s));
            assert!(!Run::new(30, &[(25, 4.0)]).meets(&s));
            assert!(!Run::new(30, &[(5, 4.0), (25, 2.0)]).meets(&s));
            assert!(Run::new(30, &[(5, 4.0), (25, 2.1)]).meets(&s));
            // The window begins after evaluation 20: what happened there is old.
            assert!(Run::new(30, &[(5, 4.0), (20, 1.0)]).meets(&s));
            assert!(!Run::new(30, &[(5, 4.0), (21, 1.0)]).meets(&s));
        }
        let below_zero = Stop::Speedup { factor: 2.0, over: Window::Evaluations(10) };
        assert!(!Run::new(30, &[(5, 1.0), (25, -1.0)]).meets(&below_zero));
    }

    #[test]
    fn checklist_24_rules_combine() {
        let e = |n| Stop::Evaluations(n);
        let r = e(5).and(e(10)).or(e(20).and(Stop::Cost(1.0.into())));
        assert!(!Run::new(9, &[]).meets(&r) && Run::new(10, &[]).meets(&r));
        let r = e(5).and(Stop::Cost(1.0.into()));
        assert!(!Run::new(9, &[]).meets(&r) && Run::new(9, &[(2, 1.0)]).meets(&r));
        let user = Stop::user("three valid", |s| s.valid >= 3);
        assert!(!Run::new(2, &[]).meets(&user) && Run::new(3, &[]).meets(&user));
        assert_eq!(user.to_string(), "three valid");
    }

    #[test]
    fn checklist_25_the_default_is_the_size_of_the_space() {
        assert_eq!(Stop::default_for(&BigUint::from(66u32)).to_string(), "evaluations(66)");
        let huge = Stop::default_for(&(BigUint::from(1u32) << 100));
        assert!(!Run::new(1_000_000, &[]).meets(&huge));
    }

    #[test]
    fn batches_know_how_much_is_left() {
        let run = Run::new(25, &[]);
        let left = |r: Stop| r.left(&run.status());
        assert_eq!(left(Stop::Evaluations(30)), 5);
        assert_eq!(left(Stop::Fraction(0.1)), 75);
        assert_eq!(left(Stop::Evaluations(30).and(Stop::Cost(1.0.into()))), u64::MAX);
        assert_eq!(left(Stop::Evaluations(30).or(Stop::Cost(1.0.into()))), 5);
    }

    #[test]
    fn progress_and_expected_end() {
        let run = Run::new(25, &[(20, 3.0)]);
        let r = Stop::Evaluations(100).or(Stop::Cost(1.0.into()));
        assert_eq!(r.progress(&run.status()), 0.25);
        assert_eq!(r.remaining(&run.status()), Some(Duration::from_secs(75)));
        let both = Stop::Evaluations(100).and(Stop::Evaluations(50));
        assert_eq!(both.progress(&run.status()), 0.25);
        let still = Stop::Speedup { factor: 1.1, over: Window::Evaluations(10) };
        assert_eq!(still.progress(&run.status()), 0.5);
        assert_eq!(Stop::Cost(1.0.into()).remaining(&run.status()), None);
    }
}
