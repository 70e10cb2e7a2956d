//! Ctrl-C, a request to terminate, and the end of a terminal as a flag that long work looks at.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

/// From now on Ctrl-C, a request to terminate, and the end of the terminal only set a flag; a second one of the same
/// kind ends the process as usual.
pub fn on_interrupt() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to an atomic; the structure is fully set before it is used.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Runs `f` with Ctrl-C only setting the flag that [`interrupted`] reads; then it does again what it did before.
pub fn with_interrupts<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(libc::sigaction);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: what `sigaction` gave for this signal.
            unsafe { libc::sigaction(libc::SIGINT, &self.0, std::ptr::null_mut()) };
            INTERRUPTED.store(false, Ordering::SeqCst);
        }
    }
    INTERRUPTED.store(false, Ordering::SeqCst);
    // SAFETY: as in `on_interrupt`.
    let _restore = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut old: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGINT, &action, &mut old);
        Restore(old)
    };
    f()
}

/// Whether the user asked to stop since [`on_interrupt`] or [`with_interrupts`].
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}
