//! Idle workers spin-wait for the next loop for a while before they sleep: to wake a sleeping thread costs the caller
//! several microseconds, and kernels are often called one after the other.
//!
//! Each worker looks at a place of its own, so that many that are called at the same time do not wait for each other.

use crate::region::Region;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a worker spins: longer than the time between two calls from Python, shorter than anyone notices.
const PATIENCE: Duration = Duration::from_micros(100);
/// How often it looks before it asks for the time.
const LOOKS: usize = 32;

/// The worker does something else, or sleeps.
const AWAY: u8 = 0;
/// It spins.
const LOOKING: u8 = 1;
/// A caller is about to give it a loop.
const TAKEN: u8 = 2;
/// It has one.
const CALLED: u8 = 3;

/// A worker's place, on lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Place {
    state: AtomicU8,
    post: Mutex<Option<Arc<Region>>>,
}

impl Place {
    fn post(&self) -> std::sync::MutexGuard<'_, Option<Arc<Region>>> {
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turns(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

pub struct Watch {
    places: Box<[Place]>,
}

impl Watch {
    pub fn new(workers: usize) -> Watch {
        Watch { places: (0..workers).map(|_| Place::default()).collect() }
    }

    /// Gives a loop to all spinning workers, but `most` at most; how many take it.
    pub fn call(&self, region: &Arc<Region>, most: usize) -> usize {
        let mut come = 0;
        for p in &self.places {
            if come == most {
                break;
            }
            if p.state.load(Ordering::Relaxed) == LOOKING && p.turns(LOOKING, TAKEN) {
                *p.post() = Some(region.clone());
                p.state.store(CALLED, Ordering::Release);
                come += 1;
            }
        }
        come
    }

    /// Worker `me` helps with a loop, and then with those that it is given until there has been none for a while.
    pub fn help(&self, me: usize, region: &Arc<Region>) {
        region.help(me + 1);
        while let Some(next) = self.places.get(me).and_then(Place::next) {
            next.help(me + 1);
        }
    }
}

impl Place {
    fn next(&self) -> Option<Arc<Region>> {
        // A worker that helps while it waits for another loop looks already.
        if !self.turns(AWAY, LOOKING) {
            return None;
        }
        let begin = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if self.state.load(Ordering::Acquire) == CALLED {
                    let given = self.post().take();
                    self.state.store(AWAY, Ordering::Release);
                    return given;
                }
                std::hint::spin_loop();
            }
            // Where a caller was faster, what it gives is there in a moment.
            if begin.elapsed() > PATIENCE && self.turns(LOOKING, AWAY) {
                return None;
            }
        }
    }
}
