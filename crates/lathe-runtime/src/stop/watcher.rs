//! The thread that notices calls which take long, and sends signals to the threads that work for them.

use super::thread::{Thread, all};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::time::{Duration, Instant};

/// How often it looks.
const TICK: Duration = Duration::from_millis(20);
/// How often while a call is being ended.
const SOON: Duration = Duration::from_millis(2);
/// After so many looks at one call it is asked whether to end, and after so many more again.
const ASK: u64 = 4;
/// After so many looks that found no call it sleeps until there is one.
const IDLE: u32 = 25;

/// What is sent: without a handler it is ignored, and debuggers pass it on without stopping.
const SIGNAL: i32 = libc::SIGURG;

/// What the watcher does, as a word that it sleeps on.
static STATE: AtomicU32 = AtomicU32::new(NONE);
/// There is no such thread in this process.
const NONE: u32 = 0;
const ASLEEP: u32 = 1;
const AWAKE: u32 = 2;

/// Nanoseconds since the first question, more than 0.
pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// So much later than now.
pub fn after(time: Duration) -> u64 {
    now().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).max(1)
}

/// Makes sure that the watcher looks; false if the system has no thread for it.
#[inline]
pub fn awake() -> bool {
    STATE.load(Ordering::SeqCst) == AWAKE || wake()
}

#[cold]
fn wake() -> bool {
    if STATE.compare_exchange(ASLEEP, AWAKE, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        // SAFETY: the word lives as long as the process.
        unsafe { libc::syscall(libc::SYS_futex, &STATE, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
        return true;
    }
    if STATE.compare_exchange(NONE, AWAKE, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        return true;
    }
    prepare();
    // Signals of the process are for the threads of its programs.
    let before = mask(libc::SIG_SETMASK, every);
    let started = std::thread::Builder::new().name("lathe-watch".into()).stack_size(128 << 10).spawn(watch);
    // SAFETY: the mask of before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    if started.is_err() {
        STATE.store(NONE, Ordering::SeqCst);
    }
    started.is_ok()
}

fn every(set: &mut libc::sigset_t) {
    // SAFETY: fills a set.
    unsafe { libc::sigfillset(set) };
}

/// Changes this thread's mask of signals; gives the one of before.
fn mask(how: i32, fill: impl Fn(&mut libc::sigset_t)) -> libc::sigset_t {
    // SAFETY: sets are filled before they are read.
    unsafe {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
        libc::sigemptyset(&mut set);
        fill(&mut set);
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
        libc::pthread_sigmask(how, &set, &mut before);
        before
    }
}

/// Lets the signal through to this thread.
pub fn unblock() {
    mask(libc::SIG_UNBLOCK, |set| {
        // SAFETY: adds to a set.
        unsafe { libc::sigaddset(set, SIGNAL) };
    });
}

/// Once in a process: what a child of a fork forgets, since it has none of the other threads.
fn prepare() {
    static ONCE: Once = Once::new();
    extern "C" fn child() {
        let me = Thread::existing();
        for t in all() {
            // SAFETY: asks for a number only.
            let id = if me.is_some_and(|m| std::ptr::eq(m, t)) { unsafe { libc::gettid() } } else { -1 };
            if id < 0 {
                t.call.store(0, Ordering::SeqCst);
            }
            t.signalled.store(0, Ordering::SeqCst);
            t.id.store(id, Ordering::SeqCst);
        }
        STATE.store(NONE, Ordering::SeqCst);
    }
    // SAFETY: the handler stores to words that live as long as the process.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(child));
    });
}

fn watch() {
    let mut idle = 0;
    loop {
        let (calls, ending) = look();
        idle = if calls { 0 } else { idle + 1 };
        if idle > IDLE {
            // Who begins a call from here on finds the watcher asleep; who began one before is found by a last look.
            STATE.store(ASLEEP, Ordering::SeqCst);
            if all().any(|t| t.call.load(Ordering::SeqCst) != 0) {
                let _ = STATE.compare_exchange(ASLEEP, AWAKE, Ordering::SeqCst, Ordering::SeqCst);
            }
            while STATE.load(Ordering::SeqCst) == ASLEEP {
                let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
                let forever = std::ptr::null::<libc::timespec>();
                // SAFETY: the word lives as long as the process.
                unsafe { libc::syscall(libc::SYS_futex, &STATE, wait, ASLEEP, forever) };
            }
            idle = 0;
        }
        std::thread::sleep(if ending { SOON } else { TICK });
    }
}

/// Looks once: whether there are calls, and whether one of them is being ended.
fn look() -> (bool, bool) {
    let (mut calls, mut ending) = (false, false);
    let time = now();
    for t in all() {
        let call = t.call.load(Ordering::SeqCst);
        if call == 0 || !t.made.load(Ordering::Relaxed) {
            continue;
        }
        calls = true;
        let deadline = t.deadline.load(Ordering::Relaxed);
        if deadline != 0 && time >= deadline && t.call.load(Ordering::SeqCst) == call {
            t.late.store(call, Ordering::Relaxed);
            t.stopped.store(call, Ordering::Relaxed);
        }
        let looks = if t.seen.swap(call, Ordering::Relaxed) == call {
            t.looks.load(Ordering::Relaxed) + 1
        } else {
            0
        };
        t.looks.store(looks, Ordering::Relaxed);
        if t.is_stopped(call) {
            ending = true;
            for helper in all().filter(|h| h.call.load(Ordering::SeqCst) == call) {
                helper.stopped.store(call, Ordering::Relaxed);
                signal(helper, call);
            }
        } else if looks % ASK == ASK - 1 {
            t.asked.store(call, Ordering::Relaxed);
            signal(t, call);
        }
    }
    (calls, ending)
}

/// Sends the signal to a thread that works for a call. It does not leave the call meanwhile.
fn signal(t: &Thread, call: u64) {
    install();
    t.signalled.store(call, Ordering::SeqCst);
    let id = t.id.load(Ordering::SeqCst);
    if t.call.load(Ordering::SeqCst) == call && id > 0 {
        // SAFETY: a thread of this process, which stays in the call; the signal is handled.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, SIGNAL) };
    }
    t.signalled.store(0, Ordering::SeqCst);
}

/// The handler of before, as its address; ours calls it for signals that are not ours.
static BEFORE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// Makes sure that the signal is handled here: whoever replaced the handler is called by it.
fn install() {
    let ours = handler as *const () as usize;
    // SAFETY: valid descriptions of actions.
    unsafe {
        let mut found = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        libc::sigaction(SIGNAL, std::ptr::null(), &mut found);
        if found.sa_sigaction == ours {
            return;
        }
        BEFORE.store(found.sa_sigaction, Ordering::SeqCst);
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = ours;
        // Calls of the system go on, and what is asked may be interrupted in turn.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_NODEFER;
        libc::sigaction(SIGNAL, &action, std::ptr::null_mut());
    }
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: what the system gives to a handler; another's handler gets the same.
    unsafe {
        if (*info).si_code == libc::SI_TKILL && (*info).si_pid() == libc::getpid() {
            let errno = libc::__errno_location();
            let before = *errno;
            if let Some(me) = Thread::existing() {
                me.interrupted(context);
            }
            *errno = before;
            return;
        }
        let other = BEFORE.load(Ordering::SeqCst);
        if other != libc::SIG_DFL && other != libc::SIG_IGN {
            type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);
            std::mem::transmute::<*const (), Handler>(other as *const ())(signal, info, context);
        }
    }
}
