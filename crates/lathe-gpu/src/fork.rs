//! Drivers do not survive a fork: the child has none of their threads.

use crate::codes;
use lathe_diagnostics::Diagnostic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn child() {
    FORKED.store(true, Ordering::Relaxed);
}

/// From now on a fork is noticed: a driver was opened.
pub(crate) fn watch() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        // SAFETY: the function only stores a flag, which is allowed in a child of a process with threads.
        unsafe { libc::pthread_atfork(None, None, Some(child)) };
    });
}

/// # Errors
/// `E0847` in a child of the process that opened a driver.
pub(crate) fn check() -> Result<(), Diagnostic> {
    if !FORKED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let text = "this process was forked from one that uses devices, and cannot use them";
    Err(Diagnostic::error(codes::FORKED, text)
        .help("start processes afresh (`spawn`), or use devices after the fork only"))
}
