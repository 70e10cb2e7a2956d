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
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { runs: 15, warmup: 2, at_least: Duration::from_millis(5) }
    }
}

/// Seconds per call: one row per candidate, one column per round. `call(i)` runs candidate `i` once;
/// an error ends the measurement. `tick` hears of every finished round (progress bars).
pub fn rounds<E>(
    candidates: usize,
    plan: &Plan,
    mut call: impl FnMut(usize) -> Result<(), E>,
    mut tick: impl FnMut(usize),
) -> Result<Vec<Vec<f64>>, E> {
    let mut times = vec![Vec::with_capacity(plan.runs); candidates];
    for round in 0..plan.warmup + plan.runs {
        for step in 0..candidates {
            // Rotating the order keeps one candidate from always running in another's wake.
            let i = (round + step) % candidates;
            let start = Instant::now();
            let mut calls = 0u32;
            while calls == 0 || start.elapsed() < plan.at_least {
                call(i)?;
                calls += 1;
            }
            let seconds = start.elapsed().as_secs_f64() / f64::from(calls);
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

/// The per-round ratios `base / other`: above 1 where `other` is faster.
pub fn speedup(base: &[f64], other: &[f64]) -> Option<Summary> {
    let ratios: Vec<f64> = base.iter().zip(other).map(|(a, b)| a / b).collect();
    summarize(&ratios)
}

/// Binds the calling thread (and threads that it starts later) to the first `n` processors it may use.
/// Returns whether the system did so.
pub fn pin_to_first(n: usize) -> bool {
    // SAFETY: both calls get a set of the size that they are told; a zeroed set is a valid set.
    unsafe {
        let size = std::mem::size_of::<libc::cpu_set_t>();
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size, &mut allowed) != 0 {
            return false;
        }
        let mut wanted: libc::cpu_set_t = std::mem::zeroed();
        let mut found = 0;
        for cpu in 0..libc::CPU_SETSIZE as usize {
            if found < n && libc::CPU_ISSET(cpu, &allowed) {
                libc::CPU_SET(cpu, &mut wanted);
                found += 1;
            }
        }
        found > 0 && libc::sched_setaffinity(0, size, &wanted) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_runs_in_every_round() {
        let plan = Plan { runs: 3, warmup: 1, at_least: Duration::ZERO };
        let mut order = Vec::new();
        let times = rounds(
            2,
            &plan,
            |i| {
                order.push(i);
                Ok::<(), ()>(())
            },
            |_| {},
        );
        assert_eq!(times.map(|t| t.iter().map(Vec::len).collect::<Vec<_>>()), Ok(vec![3, 3]));
        assert_eq!(order, vec![0, 1, 1, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn an_error_ends_the_measurement() {
        assert_eq!(rounds(1, &Plan::default(), |_| Err::<(), _>("no"), |_| {}), Err("no"));
    }

    #[test]
    fn speedups_are_ratios_per_round() {
        let s = speedup(&[2.0, 4.0, 6.0], &[1.0, 2.0, 2.0]);
        assert_eq!(s.map(|s| s.median), Some(2.0));
    }
}
