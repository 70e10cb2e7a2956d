//! One parallel loop: the caller and the threads that come to help take pieces of its range until none is left.
//!
//! The caller begins at once and never waits for a thread that has not begun: a loop that is over before the others
//! have woken up costs them nothing. Each thread begins with a slice of its own, the same in every loop of as many
//! iterations, so that neighbouring iterations stay together and a thread finds in its caches, and in the memory next to it,
//! what it touched before; it helps with the others' slices after that.

use crate::stop::{PATIENCE, Thread as Record};
use lathe_abi::{LoopBody, status};
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How many pieces per thread a loop is cut into at most: enough for helping to even out.
const PIECES_PER_THREAD: i64 = 8;
/// How long the caller looks whether the others are done before it sleeps, where each thread has a processor; else it
/// would take the time that it waits for.
const SPINS: Duration = Duration::from_micros(500);
/// How often it looks before it asks for the time.
const LOOKS: usize = 32;
/// Set in `state` once nobody may begin any more; the rest counts who is at work.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The pieces from `next` to `end` are still to be done; on a line of its own.
#[repr(align(64))]
struct Slice {
    next: AtomicI64,
    end: i64,
}

pub struct Region {
    body: LoopBody,
    env: *mut c_void,
    slices: Vec<Slice>,
    grain: i64,
    state: AtomicUsize,
    /// The first iteration of the lowest piece that failed, and its status.
    failed: Mutex<Option<(i64, i32)>>,
    caller: Thread,
    /// The call that may be ended before the loop is over; 0: none.
    call: u64,
    /// Whether the caller looks for a while whether the others are done before it sleeps.
    spins: bool,
}

// SAFETY: `env` is only touched between `enter` and `leave`, while the call of `parallel_for` that it belongs to runs,
// and the kernel that makes this call states that its body may run on any thread.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// A loop over `0..count` for `threads` threads, the caller among them, in a call that may be ended (or 0). The caller
    /// `spins` before it sleeps.
    pub fn new(
        threads: usize,
        count: i64,
        (body, env): (LoopBody, *mut c_void),
        call: u64,
        spins: bool,
    ) -> Region {
        let parts = (threads as i64).min(count).max(1);
        let bound = |n: i64| (i128::from(count) * i128::from(n) / i128::from(parts)) as i64;
        let slice = |n: i64| Slice { next: AtomicI64::new(bound(n)), end: bound(n + 1) };
        Region {
            body,
            env,
            slices: (0..parts).map(slice).collect(),
            grain: (count / (parts * PIECES_PER_THREAD)).max(1),
            state: AtomicUsize::new(0),
            failed: Mutex::new(None),
            caller: std::thread::current(),
            call,
            spins,
        }
    }

    /// What a thread does that comes to help: nothing, if the loop is over. Slice `first` is its own; the caller's is 0. Just
    /// before it says that it is done, it is `free`: the caller may begin the next loop at once.
    pub fn help(&self, first: usize, free: impl FnOnce()) {
        if self.enter() {
            let me = if self.call == 0 { None } else { Record::here() };
            let before = me.map(|m| m.works_for(self.call));
            self.work(first, me);
            if let (Some(me), Some(before)) = (me, before) {
                me.works_for(before);
            }
            free();
            self.leave();
        }
    }

    /// What the caller does; afterwards all iterations have run, and no thread touches the environment any more. The
    /// status of the lowest failing iteration, so that it does not depend on who did what.
    ///
    /// # Safety
    /// Called once, by the thread that made the region, while the environment lives.
    pub unsafe fn finish(&self) -> i32 {
        let me = if self.call == 0 { None } else { Record::existing() };
        self.work(0, me);
        let mut at_work = self.state.fetch_or(CLOSED, Ordering::AcqRel);
        let mut spins = self.spins && at_work & !CLOSED != 0;
        let (begin, mut looks) = (spins.then(Instant::now), 0);
        while at_work & !CLOSED != 0 {
            if spins {
                std::hint::spin_loop();
                looks += 1;
                spins = looks % LOOKS != 0 || begin.is_some_and(|b| b.elapsed() < SPINS);
            } else if let Some(me) = me {
                me.poll();
                std::thread::park_timeout(PATIENCE);
            } else {
                std::thread::park();
            }
            at_work = self.state.load(Ordering::Acquire);
        }
        let failed = self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        failed.map_or(0, |f| f.1)
    }

    /// Whether nobody is at work any more.
    pub fn is_over(&self) -> bool {
        self.state.load(Ordering::Relaxed) == CLOSED
    }

    fn enter(&self) -> bool {
        let open = self.state.fetch_add(1, Ordering::AcqRel) & CLOSED == 0;
        if !open {
            self.leave();
        }
        open
    }

    fn leave(&self) {
        if self.state.fetch_sub(1, Ordering::AcqRel) == CLOSED + 1 {
            self.caller.unpark();
        }
    }

    fn work(&self, first: usize, me: Option<&Record>) {
        for n in 0..self.slices.len() {
            let slice = &self.slices[(first + n) % self.slices.len()];
            // To look at a slice that is done takes its line from nobody.
            while slice.next.load(Ordering::Relaxed) < slice.end {
                let begin = slice.next.fetch_add(self.grain, Ordering::Relaxed);
                if begin >= slice.end {
                    break;
                }
                let end = slice.end.min(begin + self.grain);
                // SAFETY: `finish` has not returned, since this thread is at work, so the environment lives; every
                // iteration is taken once.
                let status = unsafe {
                    match me {
                        None => (self.body)(self.env, begin, end),
                        Some(me) if me.is_stopped(self.call) => status::STOPPED,
                        Some(me) => {
                            let (begin, end) = (begin as usize, end as usize);
                            me.enter(self.body as *const (), self.env as usize, begin, end)
                        }
                    }
                };
                if status != 0 {
                    let mut failed = self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    if failed.is_none_or(|f| begin < f.0) {
                        *failed = Some((begin, status));
                    }
                }
            }
        }
    }
}
