//! The thread pools of this process, by their number of threads, and what a fork does to them.
//!
//! A child process has none of its parent's threads. So every pool belongs to a process, and the child makes its own.
//! While a process forks nobody compiles, so that the child finds no lock held by a thread that it does not have.

use crate::errors;
use lathe::{ArgView, Built, Diagnostic, Pool};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Pools are never given back: kernels may run on them from any thread at any time.
type Pools = HashMap<usize, &'static Pool>;

/// Locked for moments; a program of XLA that was exported elsewhere may do so without the interpreter's lock.
static POOLS: Mutex<Option<Pools>> = Mutex::new(None);

/// The pool of calls that do not say how many threads they want.
static USUAL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

/// How many threads such calls use; 0: all that the process may run on.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The pool for a call.
pub fn pool(py: Python<'_>, threads: Option<usize>) -> PyResult<&'static Pool> {
    let Some(threads) = threads else {
        let usual = USUAL.load(Ordering::Acquire);
        if !usual.is_null() {
            // SAFETY: only pools that are never given back are stored there.
            return Ok(unsafe { &*usual });
        }
        let pool = made(py, THREADS.load(Ordering::Relaxed))?;
        USUAL.store(std::ptr::from_ref(pool).cast_mut(), Ordering::Release);
        return Ok(pool);
    };
    made(py, threads)
}

fn made(py: Python<'_>, threads: usize) -> PyResult<&'static Pool> {
    of_threads(threads).map_err(|d| errors::bare(py, d))
}

/// The pool for a call that comes without the interpreter.
pub fn pool_anywhere(threads: Option<usize>) -> Result<&'static Pool, Diagnostic> {
    of_threads(threads.unwrap_or_else(|| THREADS.load(Ordering::Relaxed)))
}

fn of_threads(threads: usize) -> Result<&'static Pool, Diagnostic> {
    let mut pools = POOLS.lock().unwrap_or_else(|p| p.into_inner());
    let pools = pools.get_or_insert_default();
    if let Some(pool) = pools.get(&threads) {
        return Ok(pool);
    }
    let pool: &'static Pool = Box::leak(Box::new(Pool::new(threads)?));
    pools.insert(threads, pool);
    Ok(pool)
}

/// How many threads kernels use that are not told; 0 means all that the process may run on.
#[pyfunction]
pub fn set_threads(threads: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = threads.py();
    let whole = if threads.is_instance_of::<PyBool>() { None } else { threads.extract::<usize>().ok() };
    let Some(threads) = whole else {
        return Err(crate::keywords::option(threads, "the number of threads; 0 means all"));
    };
    let pool = made(py, threads)?;
    THREADS.store(threads, Ordering::Relaxed);
    USUAL.store(std::ptr::from_ref(pool).cast_mut(), Ordering::Release);
    Ok(())
}

/// How many threads kernels use that are not told.
#[pyfunction]
pub fn get_threads(py: Python<'_>) -> PyResult<usize> {
    Ok(pool(py, None)?.threads())
}

/// Whether somebody compiles; at most one does at a time. No lock that a child could find locked.
static BUSY: AtomicBool = AtomicBool::new(false);
/// Whether the thread that forks holds the right to compile.
static FORKING: AtomicBool = AtomicBool::new(false);

/// The right to compile, given back when it is dropped. It is waited for without the interpreter's lock.
pub struct Compiling(());

impl Compiling {
    pub fn begin() -> Compiling {
        while BUSY.swap(true, Ordering::Acquire) {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        Compiling(())
    }
}

impl Drop for Compiling {
    fn drop(&mut self) {
        BUSY.store(false, Ordering::Release);
    }
}

/// Makes the code that a call takes, where none before it did. The interpreter's lock is not held.
pub fn make_ready(built: &Built, views: &[ArgView]) -> Result<(), Diagnostic> {
    if built.is_ready(views) {
        return Ok(());
    }
    let _right = Compiling::begin();
    built.ready(views)
}

/// Before a fork: waits for whoever compiles.
#[pyfunction]
pub fn before_fork(py: Python<'_>) {
    py.detach(|| std::mem::forget(Compiling::begin()));
    FORKING.store(true, Ordering::SeqCst);
}

/// After a fork, in the parent (`child` is false) and in the child.
#[pyfunction]
pub fn after_fork(child: bool) {
    if child {
        // The parent's pools have no threads here. They stay as they are, since nothing of them can be waited for.
        *POOLS.lock().unwrap_or_else(|p| p.into_inner()) = None;
        USUAL.store(std::ptr::null_mut(), Ordering::Release);
        // The thread that forked is the only one, and so the main one.
        crate::interrupts::is_main_thread();
    }
    if FORKING.swap(false, Ordering::SeqCst) {
        drop(Compiling(()));
    }
}
