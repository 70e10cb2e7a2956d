//! Ending a call before the kernel is done, at no cost inside of kernels.
//!
//! Generated code asks nothing. A watcher thread notices calls that take long and sends a signal (`SIGURG`, which is
//! ignored wherever nobody handles it) to the threads that work for them. The handler runs on such a thread, between two
//! instructions of generated code; it may ask the caller whether to end, and ends by continuing where the code was entered
//! ([`enter`]), with the status [`lathe_abi::status::STOPPED`]. Generated code holds nothing but scratch memory, which its
//! thread's record lists, so frames of it can be abandoned at any instruction. Functions of the runtime are never
//! abandoned: while one runs, its thread's record says so ([`Thread::outside`]).
//!
//! The same idea stops goroutines in loops without checks (Go, "Non-cooperative goroutine preemption", proposal 24543).
//! Where no entry is written for a processor, calls end at the pieces of parallel loops.

mod enter;
mod thread;
mod watcher;

pub use thread::{PATIENCE, Thread};

use lathe_abi::status;
use std::time::Duration;

/// What may end a call before its kernel is done. The contents of written arguments are unspecified then.
#[derive(Clone, Copy, Default)]
pub struct Limits<'a> {
    /// The longest time that the call may take; it ends at most a few hundredths of a second later.
    pub time: Option<Duration>,
    /// Asked on the calling thread, about every tenth of a second from then on: whether the call is to end. It may lock,
    /// allocate, and call kernels (but not one that the interpreter is running); it must not unwind.
    pub interrupt: Option<&'a dyn Fn() -> bool>,
}

impl std::fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Limits({:?}, interrupt: {})", self.time, self.interrupt.is_some())
    }
}

impl Limits<'_> {
    /// Whether nothing ends a call.
    pub fn none(&self) -> bool {
        self.time.is_none() && self.interrupt.is_none()
    }
}

/// Why a call ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Interrupted,
    Time,
}

/// A call that may be ended, on the thread that made it.
pub struct Watched<'a> {
    me: &'static Thread,
    call: u64,
    outer: thread::Outer,
    limits: Limits<'a>,
}

impl<'a> Watched<'a> {
    /// Begins; none if the system has no thread left for the watcher, and for a thread that is ending.
    pub fn begin(limits: Limits<'a>) -> Option<Watched<'a>> {
        let me = Thread::here()?;
        let (call, outer) = me.begin(&limits);
        let watched = Watched { me, call, outer, limits };
        watcher::awake().then_some(watched)
    }

    /// Runs generated code, which may be left at any instruction.
    ///
    /// # Safety
    /// Those of the code; it does nothing but what the engines of this crate make code do.
    pub unsafe fn enter(
        &self,
        code: lathe_abi::KernelFn,
        args: (*const lathe_abi::Runtime, *const lathe_abi::Array),
    ) -> i32 {
        // SAFETY: by the caller.
        unsafe { self.me.enter(code as *const (), args.0 as usize, args.1 as usize, 0) }
    }

    /// Whether to end, for code that asks: about as often as a watched call is asked.
    pub fn ask(&self) -> bool {
        self.me.poll();
        self.me.is_stopped(self.call)
    }

    /// Why the call ended early, if its status says so.
    pub fn reason(&self, result: i32) -> Option<Reason> {
        if result != status::STOPPED {
            return None;
        }
        Some(if self.limits.time.is_some() && self.me.is_late(self.call) {
            Reason::Time
        } else {
            Reason::Interrupted
        })
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.me.end(&self.outer);
    }
}
