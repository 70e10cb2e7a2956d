//! The record of a thread that runs kernels: for which call, and whether that is to end.

use super::{Limits, enter, watcher};
use lathe_abi::status;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering, compiler_fence};
use std::time::Duration;

type Ask = *const (dyn Fn() -> bool + 'static);

/// One record; they are made as threads need them, never given back, and used again by later threads.
#[repr(C)]
pub struct Thread {
    /// While generated code runs that may be left: the stack pointer to continue with; else 0. The first word:
    /// [`enter::enter`] writes it.
    resume: AtomicUsize,
    /// The system's number of the thread; 0: the record is free, below: it belongs to a thread that a fork left behind.
    pub(super) id: AtomicI32,
    /// The call that the thread works for; 0: none.
    pub(super) call: AtomicU64,
    /// Whether it made this call, or helps.
    pub(super) made: AtomicBool,
    /// When this call has to end, by [`watcher::now`]; 0: never.
    pub(super) deadline: AtomicU64,
    /// A call that is to end.
    pub(super) stopped: AtomicU64,
    /// A call that is to end because its time is over.
    pub(super) late: AtomicU64,
    /// A call that is to be asked whether it ends.
    pub(super) asked: AtomicU64,
    /// The call for which the watcher is about to send a signal.
    pub(super) signalled: AtomicU64,
    /// The call that the watcher saw here last, and how often.
    pub(super) seen: AtomicU64,
    pub(super) looks: AtomicU64,
    pub(super) next: AtomicPtr<Thread>,
    // Of this thread alone, its signal handler included.
    number: u64,
    calls: Cell<u64>,
    ask: Cell<Option<Ask>>,
    scratch: RefCell<Vec<*mut c_void>>,
}

// SAFETY: the cells are touched by the thread that owns the record alone.
unsafe impl Sync for Thread {}

/// All records, the newest first.
static ALL: AtomicPtr<Thread> = AtomicPtr::new(std::ptr::null_mut());

/// All records, free ones included.
pub fn all() -> impl Iterator<Item = &'static Thread> {
    let at = |p: *mut Thread| {
        // SAFETY: records are never given back.
        unsafe { p.as_ref() }
    };
    std::iter::successors(at(ALL.load(Ordering::Acquire)), move |t| at(t.next.load(Ordering::Acquire)))
}

/// What a call found, to be put back at its end: calls nest where what is asked makes a call.
pub struct Outer {
    call: u64,
    made: bool,
    deadline: u64,
    ask: Option<Ask>,
}

/// Gives the record back when its thread ends.
struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: as in `here`.
        if let Some(me) = unsafe { enter::record().as_ref() } {
            enter::set_record(std::ptr::null());
            me.call.store(0, Ordering::SeqCst);
            me.id.store(0, Ordering::SeqCst);
        }
    }
}

thread_local! {
    static OWNER: Owner = const { Owner };
}

impl Thread {
    /// The record of this thread; none while the thread ends.
    pub fn here() -> Option<&'static Thread> {
        match Thread::existing() {
            Some(me) => Some(me),
            None => Thread::claimed(),
        }
    }

    /// The record, if the thread has one.
    #[inline]
    pub fn existing() -> Option<&'static Thread> {
        // SAFETY: records are never given back.
        unsafe { enter::record().as_ref() }
    }

    #[cold]
    fn claimed() -> Option<&'static Thread> {
        OWNER.try_with(|_| ()).ok()?;
        // SAFETY: asks for a number only.
        let id = unsafe { libc::gettid() };
        let free = |t: &&Thread| t.id.compare_exchange(0, id, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        let me = all().find(free).unwrap_or_else(|| {
            static RECORDS: AtomicU64 = AtomicU64::new(0);
            let number = RECORDS.fetch_add(1, Ordering::Relaxed) + 1;
            let new: &'static Thread = Box::leak(Box::new(Thread {
                resume: AtomicUsize::new(0),
                id: AtomicI32::new(id),
                call: AtomicU64::new(0),
                made: AtomicBool::new(false),
                deadline: AtomicU64::new(0),
                stopped: AtomicU64::new(0),
                late: AtomicU64::new(0),
                asked: AtomicU64::new(0),
                signalled: AtomicU64::new(0),
                seen: AtomicU64::new(0),
                looks: AtomicU64::new(0),
                next: AtomicPtr::new(std::ptr::null_mut()),
                number,
                calls: Cell::new(0),
                ask: Cell::new(None),
                scratch: RefCell::default(),
            }));
            let mut first = ALL.load(Ordering::Acquire);
            loop {
                new.next.store(first, Ordering::Release);
                let at = std::ptr::from_ref(new).cast_mut();
                match ALL.compare_exchange(first, at, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => break new,
                    Err(other) => first = other,
                }
            }
        });
        enter::set_record(me);
        watcher::unblock();
        Some(me)
    }

    /// Begins a call of this thread: its number, and what it interrupts.
    pub(super) fn begin(&self, limits: &Limits) -> (u64, Outer) {
        let outer = Outer {
            call: self.call.load(Ordering::Relaxed),
            made: self.made.load(Ordering::Relaxed),
            deadline: self.deadline.load(Ordering::Relaxed),
            ask: self.ask.get(),
        };
        self.calls.set(self.calls.get() + 1);
        let call = self.number << 40 | self.calls.get() & ((1 << 40) - 1);
        let deadline = limits.time.map_or(0, watcher::after);
        // SAFETY: only the lifetime changes; `end` takes it away before the borrow ends.
        let ask = limits.interrupt.map(|f| unsafe {
            std::mem::transmute::<*const (dyn Fn() -> bool + '_), Ask>(std::ptr::from_ref(f))
        });
        self.call.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.ask.set(ask);
        self.deadline.store(deadline, Ordering::Relaxed);
        self.made.store(true, Ordering::Relaxed);
        self.call.store(call, Ordering::SeqCst);
        (call, outer)
    }

    pub(super) fn end(&self, outer: &Outer) {
        self.works_for(0);
        self.ask.set(outer.ask);
        self.deadline.store(outer.deadline, Ordering::Relaxed);
        self.made.store(outer.made, Ordering::Relaxed);
        if outer.call != 0 {
            self.call.store(outer.call, Ordering::SeqCst);
        }
    }

    /// The call that the thread works for.
    pub fn call(&self) -> u64 {
        self.call.load(Ordering::Relaxed)
    }

    /// Sets the call that the thread works for, and gives that of before. A signal for that one has arrived when this
    /// returns: it must not interrupt what has nothing to do with the call.
    pub fn works_for(&self, call: u64) -> u64 {
        let before = self.call.swap(call, Ordering::SeqCst);
        if before != 0 && before != call && self.signalled.load(Ordering::SeqCst) == before {
            while self.signalled.load(Ordering::SeqCst) == before {
                std::hint::spin_loop();
            }
            // Signals arrive at the latest when a call of the system returns.
            // SAFETY: asks for a number only.
            unsafe { libc::getppid() };
        }
        before
    }

    pub fn is_stopped(&self, call: u64) -> bool {
        self.stopped.load(Ordering::Relaxed) == call
    }

    pub(super) fn is_late(&self, call: u64) -> bool {
        self.late.load(Ordering::Relaxed) == call
    }

    /// Asks the caller whether to end, if it is time; on the thread that made the call, outside of generated code.
    pub fn poll(&self) {
        let call = self.call();
        if call == 0 || self.asked.load(Ordering::Relaxed) != call {
            return;
        }
        self.asked.store(0, Ordering::Relaxed);
        if let Some(ask) = self.ask.get() {
            // SAFETY: set by `begin`, taken away by `end`; what it borrows lives as long.
            if unsafe { (*ask)() } {
                self.stopped.store(call, Ordering::Relaxed);
            }
        }
    }

    /// Runs generated code that may be left at any instruction; then what it had allocated is given back.
    ///
    /// # Safety
    /// Those of the code.
    pub unsafe fn enter(&self, code: *const (), a: usize, b: usize, c: usize) -> i32 {
        let mark = self.scratch.borrow().len();
        compiler_fence(Ordering::SeqCst);
        // SAFETY: by the caller.
        let result = unsafe { enter::enter(code, a, b, c, self) };
        compiler_fence(Ordering::SeqCst);
        if result == status::STOPPED {
            self.cleared(mark);
        }
        result
    }

    #[cold]
    fn cleared(&self, mark: usize) {
        let left: Vec<*mut c_void> = self.scratch.borrow_mut().drain(mark..).collect();
        for memory in left {
            // SAFETY: allocated by the code that was left, which has given nothing of it back.
            unsafe { crate::scratch::give_back(memory) };
        }
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx") {
            // Upper halves of vectors that the code left in use would make what follows slow.
            // SAFETY: the processor has the instruction.
            unsafe { zero_upper() };
        }
    }

    /// Notes scratch memory that generated code of this thread got.
    pub fn got(&self, memory: *mut c_void) {
        if self.call() != 0 && !memory.is_null() {
            self.scratch.borrow_mut().push(memory);
        }
    }

    /// Forgets scratch memory that generated code gives back.
    pub fn gave(&self, memory: *mut c_void) {
        let mut all = self.scratch.borrow_mut();
        if let Some(at) = all.iter().rposition(|m| *m == memory) {
            all.remove(at);
        }
    }

    /// From now on, until what is returned is dropped, a function of the runtime runs on this thread, which must not be
    /// abandoned. None for threads without a record, which never are.
    #[inline]
    pub fn outside() -> Option<Outside> {
        let me = Thread::existing()?;
        let resume = me.resume.load(Ordering::Relaxed);
        me.resume.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Some(Outside { me, resume })
    }

    /// What the signal handler does: asks, and leaves generated code.
    ///
    /// # Safety
    /// Called by the handler on this thread, with its context.
    pub(super) unsafe fn interrupted(&self, context: *mut c_void) {
        let resume = self.resume.load(Ordering::Relaxed);
        if resume == 0 {
            return;
        }
        // Generated code stands still: what is asked may do what a function of the runtime may.
        self.resume.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.poll();
        compiler_fence(Ordering::SeqCst);
        self.resume.store(resume, Ordering::Relaxed);
        let call = self.call();
        if call != 0 && self.is_stopped(call) {
            // SAFETY: the thread runs generated code that was entered with this stack pointer.
            unsafe { enter::leave(context, resume) };
        }
    }
}

/// A function of the runtime is running; see [`Thread::outside`].
pub struct Outside {
    pub me: &'static Thread,
    resume: usize,
}

impl Drop for Outside {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.me.resume.store(self.resume, Ordering::Relaxed);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
fn zero_upper() {
    std::arch::x86_64::_mm256_zeroupper();
}

/// How long a thread that waits for others sleeps before it looks whether it is asked something.
pub const PATIENCE: Duration = Duration::from_millis(20);
