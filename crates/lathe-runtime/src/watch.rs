//! Idle workers spin-wait for the next loop for a while before they sleep: to wake a sleeping thread costs the caller
//! several microseconds, and kernels are often called one after the other.
//!
//! Each worker looks at a place of its own, so that many that are called at the same time do not wait for each other. It can
//! be called before it says that it is done with a loop: the caller goes on as soon as the last one says so, often to the
//! next loop, which would otherwise have to do without that worker.

use crate::region::Region;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

/// How long a worker spins after a loop is over: longer than the time between two calls from Python, shorter than anyone
/// notices.
const PATIENCE: Duration = Duration::from_micros(100);
/// How long it spins while others are still at work on its loop. If those that are done first slept before the last one is,
/// they would be the last ones of the next loop, and so on.
const LONGEST: Duration = Duration::from_millis(10);
/// How often it looks before it asks for the time.
const LOOKS: usize = 32;

/// What a place holds while its worker does something else, or sleeps.
const AWAY: *mut Region = std::ptr::null_mut();
/// And while it spins, or is about to. Anything else is a loop that it has been given, as [`Arc::into_raw`] makes it.
const LOOKING: *mut Region = std::ptr::dangling_mut();

/// A worker's place, on lines of its own.
#[repr(align(128))]
struct Place(AtomicPtr<Region>);

pub struct Watch {
    places: Box<[Place]>,
}

impl Watch {
    pub fn new(workers: usize) -> Watch {
        Watch { places: (0..workers).map(|_| Place(AtomicPtr::new(AWAY))).collect() }
    }

    /// Gives a loop to all spinning workers, but `most` at most; how many take it.
    pub fn call(&self, region: &Arc<Region>, most: usize) -> usize {
        self.places.iter().filter(|p| p.give(region)).take(most).count()
    }

    /// Worker `me` helps with a loop, and then with those that it is given until there has been none for a while.
    pub fn help(&self, me: usize, region: &Arc<Region>) {
        let Some(place) = self.places.get(me) else { return region.help(me + 1, || {}) };
        let mut region = region.clone();
        loop {
            region.help(me + 1, || place.looks());
            let Some(next) = place.next(&region) else { break };
            region = next;
        }
    }
}

impl Place {
    fn turns(&self, from: *mut Region, to: *mut Region) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Gives a loop to the worker, if it spins.
    fn give(&self, region: &Arc<Region>) -> bool {
        let given = Arc::into_raw(region.clone()).cast_mut();
        let taken = self.turns(LOOKING, given);
        if !taken {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Arc::from_raw(given) });
        }
        taken
    }

    /// The worker can be called from now on.
    fn looks(&self) {
        self.turns(AWAY, LOOKING);
    }

    /// The loop after this one, if one comes while the worker spins.
    fn next(&self, region: &Region) -> Option<Arc<Region>> {
        self.looks();
        let begin = Instant::now();
        let mut over = begin;
        loop {
            for _ in 0..LOOKS {
                let given = self.0.load(Ordering::Acquire);
                if given != LOOKING {
                    self.0.store(AWAY, Ordering::Relaxed);
                    // SAFETY: `give` made it of an `Arc`, and only the worker of this place takes it, once.
                    return Some(unsafe { Arc::from_raw(given) });
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if !region.is_over() && now - begin < LONGEST {
                over = now;
            } else if now - over > PATIENCE && self.turns(LOOKING, AWAY) {
                // Where a caller was faster, what it gave is there.
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_void;

    unsafe extern "C" fn nothing(_: *mut c_void, _: i64, _: i64) -> i32 {
        0
    }

    fn region() -> Arc<Region> {
        Arc::new(Region::new(2, 2, (nothing, std::ptr::null_mut()), 0, false))
    }

    #[test]
    fn a_worker_can_be_called_before_it_is_done() {
        let watch = Watch::new(1);
        let (place, first, next) = (&watch.places[0], region(), region());
        assert_eq!(watch.call(&next, 1), 0);
        first.help(1, || {
            assert_eq!(watch.call(&next, 1), 0);
            place.looks();
            assert_eq!(watch.call(&next, 0), 0);
            assert_eq!(watch.call(&next, 1), 1);
            assert_eq!(watch.call(&next, 1), 0);
        });
        assert!(place.next(&first).is_some_and(|r| Arc::ptr_eq(&r, &next)));
        assert!(place.next(&next).is_none());
        assert_eq!(Arc::strong_count(&next), 1);
    }

    /// A worker whose loop is not over spins on: here until the caller is done, who begins when the worker would sleep
    /// otherwise.
    #[test]
    fn a_worker_spins_as_long_as_its_loop_runs() {
        let watch = Watch::new(1);
        let (place, first, next) = (&watch.places[0], region(), region());
        first.help(1, || place.looks());
        assert!(!first.is_over());
        let given = std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(2 * PATIENCE);
                // SAFETY: once, and the loop has no environment.
                unsafe { first.finish() };
                watch.call(&next, 1)
            });
            place.next(&first)
        });
        assert!(first.is_over());
        // Where the system lets a thread wait for too long, it sleeps after all.
        assert!(given.is_none_or(|r| Arc::ptr_eq(&r, &next)));
    }
}
