//! The threads that run `cpu` loops: a work-stealing pool with a stated number of them.

use crate::codes;
use crate::scratch::{scratch_alloc, scratch_free};
use lathe_abi::{LoopBody, Runtime};
use lathe_diagnostics::Diagnostic;
use std::ffi::c_void;

/// How many pieces per thread a loop is cut into at most: enough for stealing to even out.
const PIECES_PER_THREAD: i64 = 8;

/// Options of a pool.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// 0: as many as the process may run on.
    pub threads: usize,
    /// Keeps worker `i` on the `i`-th processor that the process may run on (for measurements).
    pub pin: bool,
}

struct Inner {
    threads: usize,
    /// None for one thread: loops then run where they are called.
    pool: Option<rayon_core::ThreadPool>,
}

/// A pool; kernels are called with one.
pub struct Pool {
    inner: Box<Inner>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} threads)", self.inner.threads)
    }
}

impl Pool {
    /// A pool of `threads` threads; 0 means as many as the process may run on.
    ///
    /// # Errors
    /// `E0818` when the system refuses to start them.
    pub fn new(threads: usize) -> Result<Pool, Diagnostic> {
        Pool::with_options(&PoolOptions { threads, pin: false })
    }

    /// # Errors
    /// As [`Pool::new`].
    pub fn with_options(options: &PoolOptions) -> Result<Pool, Diagnostic> {
        let most = rayon_core::max_num_threads().min(4096);
        if options.threads > most {
            return Err(Diagnostic::error(
                codes::POOL,
                format!("a pool of {} threads cannot be started: at most {most}", options.threads),
            ));
        }
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if options.threads == 0 { available } else { options.threads };
        let pool = if threads == 1 {
            None
        } else {
            let processors = if options.pin { processors() } else { Vec::new() };
            let built = rayon_core::ThreadPoolBuilder::new()
                .num_threads(threads)
                .thread_name(|i| format!("lathe-{i}"))
                .start_handler(move |i| {
                    if let Some(cpu) = processors.get(i % processors.len().max(1)) {
                        pin_to(*cpu);
                    }
                })
                .build();
            Some(built.map_err(|e| {
                Diagnostic::error(codes::POOL, format!("a pool of {threads} threads cannot be started: {e}"))
                    .help("ask for fewer threads")
            })?)
        };
        Ok(Pool { inner: Box::new(Inner { threads, pool }) })
    }

    pub fn threads(&self) -> usize {
        self.inner.threads
    }

    /// The table that kernels get; valid as long as the pool.
    pub fn runtime(&self) -> Runtime {
        Runtime {
            ctx: std::ptr::from_ref::<Inner>(&self.inner).cast_mut().cast(),
            parallel_for,
            alloc: scratch_alloc,
            free: scratch_free,
        }
    }

    /// Runs `f` on a thread of the pool (here, for a pool of one): a kernel called from inside pays
    /// no hand-over for its loops.
    pub fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        match &self.inner.pool {
            Some(pool) => pool.install(f),
            None => f(),
        }
    }
}

/// A loop's environment, which its bodies may share by the kernel's own rules.
#[derive(Clone, Copy)]
struct Shared {
    body: LoopBody,
    env: *mut c_void,
}

// SAFETY: the kernel that calls `parallel_for` states that its body may run on any thread.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// # Safety
    /// The kernel's call of `parallel_for` is still running, and the range is within its count.
    unsafe fn run(self, begin: i64, end: i64) -> i32 {
        // SAFETY: by the caller.
        unsafe { (self.body)(self.env, begin, end) }
    }
}

/// `parallel_for` of the runtime table. The status of the lowest failing iteration wins, so that
/// the result does not depend on the split.
unsafe extern "C" fn parallel_for(ctx: *mut c_void, count: i64, body: LoopBody, env: *mut c_void) -> i32 {
    if count <= 0 {
        return 0;
    }
    // SAFETY: `ctx` is the `Inner` of the pool that made the table, which outlives the call.
    let inner = unsafe { &*ctx.cast::<Inner>() };
    let shared = Shared { body, env };
    let pool = match &inner.pool {
        Some(pool) if count > 1 => pool,
        // SAFETY: the kernel's own call, on its own thread.
        _ => return unsafe { shared.run(0, count) },
    };
    let grain = (count / (inner.threads as i64 * PIECES_PER_THREAD)).max(1);
    if pool.current_thread_index().is_some() {
        split(shared, 0, count, grain)
    } else {
        pool.install(|| split(shared, 0, count, grain))
    }
}

/// Halves the range until pieces are small, and lets idle threads steal the halves.
fn split(shared: Shared, begin: i64, end: i64, grain: i64) -> i32 {
    if end - begin <= grain {
        // SAFETY: called only while `parallel_for` runs, with a part of its range.
        return unsafe { shared.run(begin, end) };
    }
    let middle = begin + (end - begin) / 2;
    let (a, b) = rayon_core::join(
        move || split(shared, begin, middle, grain),
        move || split(shared, middle, end, grain),
    );
    if a != 0 { a } else { b }
}

/// The processors that this process may run on.
fn processors() -> Vec<usize> {
    // SAFETY: an all-zero set is a valid value, filled by the call; on failure it is not used.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize).filter(|c| libc::CPU_ISSET(*c, &set)).collect()
    }
}

/// Keeps the calling thread on one processor; a refusal is ignored, it costs only steadiness.
pub fn pin_to(cpu: usize) {
    if cpu >= libc::CPU_SETSIZE as usize {
        return;
    }
    // SAFETY: `cpu` is within the set, and the set lives through the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering};

    unsafe extern "C" fn add(env: *mut c_void, begin: i64, end: i64) -> i32 {
        // SAFETY: the tests pass an `AtomicI64`.
        let sum = unsafe { &*env.cast::<AtomicI64>() };
        sum.fetch_add((begin..end).sum::<i64>(), Ordering::Relaxed);
        0
    }

    unsafe extern "C" fn fail(_: *mut c_void, begin: i64, end: i64) -> i32 {
        (begin..end).find(|i| *i % 7 == 5).map_or(0, |i| i as i32)
    }

    struct Nested {
        rt: Runtime,
        sum: AtomicI64,
    }

    unsafe extern "C" fn nested(env: *mut c_void, begin: i64, end: i64) -> i32 {
        // SAFETY: the test passes a `Nested`.
        let n = unsafe { &*env.cast::<Nested>() };
        for _ in begin..end {
            let sum = std::ptr::from_ref(&n.sum).cast_mut().cast();
            // SAFETY: a table of a living pool, and `add` takes an `AtomicI64`.
            unsafe { (n.rt.parallel_for)(n.rt.ctx, 10, add, sum) };
        }
        0
    }

    #[test]
    fn every_iteration_runs_once() {
        for threads in [1, 2, 3] {
            let pool = Pool::new(threads).unwrap();
            assert_eq!(pool.threads(), threads);
            let rt = pool.runtime();
            for count in [-5, 0, 1, 2, 17, 1000] {
                let sum = AtomicI64::new(0);
                let env = std::ptr::from_ref(&sum).cast_mut().cast();
                // SAFETY: the table belongs to a living pool.
                assert_eq!(unsafe { (rt.parallel_for)(rt.ctx, count, add, env) }, 0);
                assert_eq!(sum.into_inner(), (0..count).sum::<i64>());
            }
            let nest = Nested { rt, sum: AtomicI64::new(0) };
            let env = std::ptr::from_ref(&nest).cast_mut().cast();
            // SAFETY: as above.
            assert_eq!(unsafe { (rt.parallel_for)(rt.ctx, 20, nested, env) }, 0);
            assert_eq!(nest.sum.into_inner(), 900);
        }
    }

    #[test]
    fn the_lowest_failure_wins() {
        for threads in [1, 2, 4] {
            let pool = Pool::with_options(&PoolOptions { threads, pin: true }).unwrap();
            let rt = pool.runtime();
            for _ in 0..20 {
                // SAFETY: as above; `fail` does not use its environment.
                let status = unsafe { (rt.parallel_for)(rt.ctx, 500, fail, std::ptr::null_mut()) };
                assert_eq!(status, 5);
            }
            assert_eq!(pool.install(|| 3), 3);
        }
    }

    #[test]
    fn too_many_threads_are_refused() {
        assert_eq!(Pool::new(1_000_000).unwrap_err().code, codes::POOL);
    }
}
