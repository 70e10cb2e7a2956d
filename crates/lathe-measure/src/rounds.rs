//! The measuring loop.

use crate::stats::{Summary, summarize};
use std::time::{Duration, Instant};

/// How much to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Rounds; in each, every candidate is timed once.
    pub runs: usize,
    /// Rounds before those that count.
    pub warmup: usize,
    /// A short call is repeated within a round until this much time has passed.
    pub at_least: Duration,
    /// Calls before each timing that do not count: they find the caches full of the other candidates' data.
    pub wake: usize,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { runs: 15, warmup: 2, at_least: Duration::from_millis(5), wake: 1 }
    }
}

/// Candidates that are measured, by their numbers. An error of any of these ends the measurement.
pub trait Runs<E> {
    /// Runs a candidate once: what is timed.
    ///
    /// # Errors
    /// Whatever the candidate says.
    fn call(&mut self, i: usize) -> Result<(), E>;

    /// Whether something has to be done before each call, which is then timed by itself.
    fn one_by_one(&self, _i: usize) -> bool {
        false
    }

    /// Comes before each call, untimed.
    ///
    /// # Errors
    /// Whatever is missing.
    fn ready(&mut self, _i: usize) -> Result<(), E> {
        Ok(())
    }

    /// Comes before the calls of a round and after them, untimed.
    ///
    /// # Errors
    /// What is wrong with what the round left.
    fn round(&mut self, _i: usize, _done: bool) -> Result<(), E> {
        Ok(())
    }
}

impl<E, F: FnMut(usize) -> Result<(), E>> Runs<E> for F {
    fn call(&mut self, i: usize) -> Result<(), E> {
        self(i)
    }
}

/// Seconds per call: one row per candidate, one column per round. `tick` hears of every finished round (progress bars).
///
/// # Errors
/// The first of a candidate.
pub fn rounds<E>(
    candidates: usize,
    plan: &Plan,
    runs: &mut impl Runs<E>,
    mut tick: impl FnMut(usize),
) -> Result<Vec<Vec<f64>>, E> {
    let mut times = vec![Vec::with_capacity(plan.runs); candidates];
    for round in 0..plan.warmup + plan.runs {
        for step in 0..candidates {
            // Rotating the order keeps one candidate from always running in another's wake.
            let i = (round + step) % candidates;
            runs.round(i, false)?;
            for _ in 0..plan.wake {
                runs.ready(i)?;
                runs.call(i)?;
            }
            let seconds = if runs.one_by_one(i) { apart(plan, runs, i)? } else { together(plan, runs, i)? };
            runs.round(i, true)?;
            if round >= plan.warmup {
                times[i].push(seconds);
            }
        }
        if round >= plan.warmup {
            tick(round - plan.warmup + 1);
        }
    }
    Ok(times)
}

/// Seconds per call, of calls in sequence.
fn together<E>(plan: &Plan, runs: &mut impl Runs<E>, i: usize) -> Result<f64, E> {
    let start = Instant::now();
    let mut calls = 0u32;
    while calls == 0 || start.elapsed() < plan.at_least {
        runs.call(i)?;
        calls += 1;
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(calls))
}

/// Seconds per call, of calls that something comes before each time. What comes before may take longer than they do,
/// and is given so many times their time at most.
fn apart<E>(plan: &Plan, runs: &mut impl Runs<E>, i: usize) -> Result<f64, E> {
    const BESIDE: u32 = 10;
    let start = Instant::now();
    let (mut calls, mut timed) = (0u32, Duration::ZERO);
    while calls == 0 || (timed < plan.at_least && start.elapsed() < BESIDE * plan.at_least) {
        runs.ready(i)?;
        let begin = Instant::now();
        runs.call(i)?;
        timed += begin.elapsed();
        calls += 1;
    }
    Ok(timed.as_secs_f64() / f64::from(calls))
}

/// The per-round ratios `base / other`: above 1 where `other` is faster.
pub fn speedup(base: &[f64], other: &[f64]) -> Option<Summary> {
    let ratios: Vec<f64> = base.iter().zip(other).map(|(a, b)| a / b).collect();
    summarize(&ratios)
}

/// The processors that a thread may use.
#[derive(Clone, Copy)]
pub struct Processors(libc::cpu_set_t);

const SET: usize = std::mem::size_of::<libc::cpu_set_t>();

impl Processors {
    /// Those of the calling thread; `None` if the system does not say.
    pub fn allowed() -> Option<Processors> {
        // SAFETY: the call gets a set of the size that it is told; a zeroed set is a valid set.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            (libc::sched_getaffinity(0, SET, &mut set) == 0).then_some(Processors(set))
        }
    }

    /// The first `n` of them.
    pub fn first(&self, n: usize) -> Processors {
        // SAFETY: the sets are valid, and no number is beyond their end.
        unsafe {
            let mut wanted: libc::cpu_set_t = std::mem::zeroed();
            let own = (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &self.0));
            own.take(n).for_each(|cpu| libc::CPU_SET(cpu, &mut wanted));
            Processors(wanted)
        }
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        // SAFETY: the set is valid.
        usize::try_from(unsafe { libc::CPU_COUNT(&self.0) }).unwrap_or(0)
    }

    /// Binds the calling thread, and threads that it starts later, to them. Returns whether the system did so.
    pub fn bind(&self) -> bool {
        // SAFETY: the call gets a set of the size that it is told.
        self.count() > 0 && unsafe { libc::sched_setaffinity(0, SET, &self.0) == 0 }
    }
}

/// Binds the calling thread (and threads that it starts later) to the first `n` processors it may use.
/// Returns whether the system did so.
pub fn pin_to_first(n: usize) -> bool {
    Processors::allowed().is_some_and(|all| all.first(n).bind())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_runs_in_every_round() {
        let plan = Plan { runs: 3, warmup: 1, at_least: Duration::ZERO, wake: 0 };
        let mut order = Vec::new();
        let times = rounds(
            2,
            &plan,
            &mut |i| {
                order.push(i);
                Ok::<(), ()>(())
            },
            |_| {},
        );
        assert_eq!(times.map(|t| t.iter().map(Vec::len).collect::<Vec<_>>()), Ok(vec![3, 3]));
        assert_eq!(order, vec![0, 1, 1, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn what_comes_before_calls_and_after_rounds() {
        #[derive(Default)]
        struct Logged(String);
        impl Runs<()> for Logged {
            fn call(&mut self, i: usize) -> Result<(), ()> {
                self.0 += if i == 0 { "c" } else { "C" };
                Ok(())
            }
            fn one_by_one(&self, i: usize) -> bool {
                i == 0
            }
            fn ready(&mut self, _: usize) -> Result<(), ()> {
                self.0 += "r";
                Ok(())
            }
            fn round(&mut self, _: usize, done: bool) -> Result<(), ()> {
                self.0 += if done { "] " } else { "[" };
                Ok(())
            }
        }
        let mut log = Logged::default();
        let plan = Plan { runs: 1, warmup: 0, at_least: Duration::ZERO, wake: 1 };
        assert!(rounds(2, &plan, &mut log, |_| {}).is_ok());
        assert_eq!(log.0, "[rcrc] [rCC] ");
    }

    #[test]
    fn a_thread_is_bound_and_released() {
        let all = Processors::allowed().expect("a set");
        let bound = std::thread::spawn(move || {
            let one = pin_to_first(1) && Processors::allowed().is_some_and(|p| p.count() == 1);
            one && all.bind() && Processors::allowed().is_some_and(|p| p.count() == all.count())
        });
        assert!(bound.join().is_ok_and(|ok| ok));
        assert!(!all.first(0).bind());
    }

    #[test]
    fn waking_calls_are_not_counted() {
        let plan = Plan { runs: 2, warmup: 0, at_least: Duration::ZERO, wake: 2 };
        let mut calls = [0; 2];
        let mut count = |i: usize| {
            calls[i] += 1;
            Ok::<(), ()>(())
        };
        let times = rounds(2, &plan, &mut count, |_| {}).unwrap();
        assert_eq!((times[0].len(), calls), (2, [6, 6]));
    }

    #[test]
    fn an_error_ends_the_measurement() {
        assert_eq!(rounds(1, &Plan::default(), &mut |_| Err::<(), _>("no"), |_| {}), Err("no"));
    }

    #[test]
    fn speedups_are_ratios_per_round() {
        let s = speedup(&[2.0, 4.0, 6.0], &[1.0, 2.0, 2.0]);
        assert_eq!(s.map(|s| s.median), Some(2.0));
    }
}
