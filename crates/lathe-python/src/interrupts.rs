//! Signals that arrive during a call, and its time limit.
//!
//! Python handles signals on its main thread, between instructions of its own. So the runtime asks on that thread, about
//! ten times a second, while a kernel runs there: handlers run as they would anywhere else, and what they raise ends the
//! call. Calls of other threads are not asked, as no function of Python is.

use lathe::{ArgView, Built, Diagnostic, Limits, Pool};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Why there is no result.
pub enum Ended {
    Refused(Diagnostic),
    /// What a handler of a signal raised.
    Raised(PyErr),
}

/// The thread that signals are handled on, as the system's library of threads calls it.
static MAIN: AtomicUsize = AtomicUsize::new(0);

fn here() -> usize {
    // SAFETY: asks for a number only.
    unsafe { libc::pthread_self() as usize }
}

/// Called on the main thread: when the module is loaded, and after a fork in the child.
pub fn is_main_thread() {
    MAIN.store(here(), Ordering::Relaxed);
}

/// Finds the main thread, which need not be the one that loads the module.
pub fn find_main_thread(py: Python<'_>) -> PyResult<()> {
    let main = py.import("threading")?.call_method0("main_thread")?.getattr("ident")?;
    MAIN.store(main.extract()?, Ordering::Relaxed);
    Ok(())
}

/// Calls a kernel; the interpreter's lock is not held.
pub fn call(built: &Built, pool: &Pool, views: &mut [ArgView], time: Option<Duration>) -> Result<(), Ended> {
    if here() != MAIN.load(Ordering::Relaxed) {
        return built.call_within(pool, views, &Limits { time, interrupt: None }).map_err(Ended::Refused);
    }
    let raised = RefCell::new(None);
    let ask = || match Python::attach(|py| py.check_signals()) {
        Ok(()) => false,
        Err(e) => {
            *raised.borrow_mut() = Some(e);
            true
        }
    };
    let done = built.call_within(pool, views, &Limits { time, interrupt: Some(&ask) });
    match raised.take() {
        Some(e) => Err(Ended::Raised(e)),
        None => done.map_err(Ended::Refused),
    }
}
