//! Devices are used without the interpreter's lock: whoever uses them may wait, for a device or for another thread that
//! does.
//!
//! A function of Python that a launch calls (`Device.call`) runs while the devices are locked. It must not use them, and
//! what is released meanwhile is released behind it.

use crate::errors;
use lathe::Diagnostic;
use pyo3::prelude::*;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// Whether a function that this thread runs was called by a launch.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// What was released within such functions.
static LATER: Mutex<Vec<Box<dyn Send>>> = Mutex::new(Vec::new());

/// Uses devices, without the interpreter's lock.
///
/// # Errors
/// Those of the function, as exceptions; `E0852` within a function that a launch calls.
pub fn away<R: Send>(py: Python<'_>, f: impl FnOnce() -> Result<R, Diagnostic> + Send) -> PyResult<R> {
    if WITHIN.get() {
        let d = Diagnostic::error(lathe::device::PART, "a function that a launch calls uses its devices");
        return Err(errors::bare(
            py,
            d.help("use the memory that it is given, and the devices after the call"),
        ));
    }
    py.detach(f).map_err(|d| errors::bare(py, d))
}

/// Runs a function that a launch calls.
pub fn within<R>(f: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            WITHIN.set(self.0);
        }
    }
    let _back = Back(WITHIN.replace(true));
    f()
}

/// Releases what was released within such functions.
pub fn settle() {
    let all = std::mem::take(&mut *LATER.lock().unwrap_or_else(PoisonError::into_inner));
    drop(all);
}

/// A value whose end uses devices: it ends without the interpreter's lock.
pub struct Away<T: Send + 'static> {
    value: ManuallyDrop<T>,
    /// The process that it belongs to. In a process that was forked from it, the devices' driver has no threads, and
    /// nothing may be waited for.
    process: u32,
}

impl<T: Send + 'static> Away<T> {
    pub fn new(value: T) -> Away<T> {
        Away { value: ManuallyDrop::new(value), process: std::process::id() }
    }
}

impl<T: Send + 'static> Deref for Away<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Send + 'static> Drop for Away<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        // SAFETY: it is not used again.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        if WITHIN.get() {
            LATER.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(value));
            return;
        }
        let mut value = Some(value);
        let ended = Python::try_attach(|py| {
            let value = value.take();
            py.detach(move || drop(value));
        });
        // The interpreter ends, and threads that it stopped may have the devices locked; the process gives them back.
        if ended.is_none() {
            std::mem::forget(value);
        }
    }
}
