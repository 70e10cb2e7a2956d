//! Work spread over a limited number of threads, with results in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The threads that may still be started.
pub(crate) struct Threads(AtomicUsize);

impl Threads {
    /// The calling thread and `n - 1` more; 0 means one per processor.
    pub fn new(n: usize) -> Threads {
        let all = || std::thread::available_parallelism().map_or(1, |n| n.get());
        Threads(AtomicUsize::new(if n == 0 { all() } else { n }.saturating_sub(1)))
    }

    /// `f` of 0 to `n - 1`, in that order in the result.
    pub fn map<T: Send>(&self, n: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let mut extra = 0;
        let take = |free: usize| {
            let wanted = free.min(n.saturating_sub(1));
            (wanted > 0).then(|| free - wanted)
        };
        if let Ok(free) = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, take) {
            extra = free.min(n.saturating_sub(1));
        }
        if extra == 0 {
            return (0..n).map(f).collect();
        }
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(n));
        let work = || {
            let mut own = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= n {
                    break;
                }
                own.push((i, f(i)));
            }
            done.lock().unwrap_or_else(|e| e.into_inner()).extend(own);
        };
        std::thread::scope(|s| {
            for _ in 0..extra {
                s.spawn(work);
            }
            work();
        });
        self.0.fetch_add(extra, Ordering::AcqRel);
        let mut all = done.into_inner().unwrap_or_else(|e| e.into_inner());
        all.sort_by_key(|(i, _)| *i);
        all.into_iter().map(|(_, t)| t).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        for n in [1, 2, 5] {
            let threads = Threads::new(n);
            let squares = threads.map(100, |i| threads.map(3, |j| i * j).into_iter().sum::<usize>());
            assert_eq!(squares, (0..100).map(|i| 3 * i).collect::<Vec<_>>());
            assert_eq!(threads.0.load(Ordering::Relaxed), n - 1);
        }
    }
}
