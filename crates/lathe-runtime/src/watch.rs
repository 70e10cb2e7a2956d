//! Idle workers spin-wait for the next loop for a while before they sleep: to wake a sleeping thread costs the caller
//! several microseconds, and kernels are often called one after the other.

use crate::region::Region;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a worker spins: longer than the time between two calls from Python, shorter than anyone notices.
const PATIENCE: Duration = Duration::from_micros(100);
/// How often it looks before it asks for the time.
const LOOKS: usize = 32;

#[derive(Default)]
pub struct Watch {
    /// Never more than there are spinning workers: each takes one before it stops.
    posted: Mutex<VecDeque<Arc<Region>>>,
    /// How many are posted, to be looked at without the lock.
    count: AtomicUsize,
    /// How many workers spin; changed under the lock.
    watching: AtomicUsize,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Region>>> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a loop to all spinning workers, but `most` at most; how many take it.
    pub fn call(&self, region: &Arc<Region>, most: usize) -> usize {
        if self.watching.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let mut posted = self.lock();
        let free = self.watching.load(Ordering::Relaxed) - posted.len();
        let come = free.min(most);
        posted.extend(std::iter::repeat_n(region, come).cloned());
        self.count.store(posted.len(), Ordering::Release);
        come
    }

    /// Helps with a loop, and then with those that are posted until nothing has been for a while.
    pub fn help(&self, region: &Arc<Region>) {
        region.help();
        while let Some(next) = self.next() {
            next.help();
        }
    }

    fn next(&self) -> Option<Arc<Region>> {
        {
            let _posted = self.lock();
            self.watching.fetch_add(1, Ordering::Relaxed);
        }
        let begin = Instant::now();
        let mut late = false;
        loop {
            for _ in 0..LOOKS {
                if self.count.load(Ordering::Acquire) > 0 {
                    break;
                }
                std::hint::spin_loop();
            }
            if !late && self.count.load(Ordering::Acquire) == 0 {
                late = begin.elapsed() > PATIENCE;
                if !late {
                    continue;
                }
            }
            let mut posted = self.lock();
            let taken = posted.pop_front();
            self.count.store(posted.len(), Ordering::Release);
            if taken.is_some() || late {
                self.watching.fetch_sub(1, Ordering::Relaxed);
                return taken;
            }
        }
    }
}
