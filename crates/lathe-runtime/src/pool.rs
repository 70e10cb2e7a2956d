//! The threads that run `cpu` loops: the one that calls, and a pool of others that come to help.

use crate::codes;
use crate::region::Region;
use crate::scratch::{scratch_alloc, scratch_free};
use crate::stop::Thread;
use crate::watch::Watch;
use lathe_abi::{LoopBody, Runtime};
use lathe_diagnostics::Diagnostic;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Options of a pool.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// 0: as many as the process may run on.
    pub threads: usize,
    /// Keeps the threads that help on processors of their own, the last ones that the process may run on (for
    /// measurements).
    pub pin: bool,
}

struct Inner {
    threads: usize,
    /// Where threads that help may run, if there is a processor for each thread and they are not pinned.
    places: Option<Places>,
    /// Where idle workers spin-wait for the next loop, if there is a processor for each thread.
    watch: Option<Arc<Watch>>,
    /// All threads but the caller's. None for one thread: loops then run where they are called.
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
        let all = processors();
        let helpers = Arc::new(Mutex::new(Vec::new()));
        let pool = if threads == 1 {
            None
        } else {
            let processors = if options.pin { all.clone() } else { Vec::new() };
            let helpers = helpers.clone();
            let built = rayon_core::ThreadPoolBuilder::new()
                .num_threads(threads - 1)
                .thread_name(|i| format!("lathe-{i}"))
                .start_handler(move |i| {
                    // SAFETY: asks for a number only.
                    let id = unsafe { libc::gettid() };
                    helpers.lock().unwrap_or_else(PoisonError::into_inner).push(id);
                    if let Some(cpu) = processors.iter().rev().nth(i % processors.len().max(1)) {
                        pin_to(*cpu);
                    }
                })
                .build();
            Some(built.map_err(|e| {
                Diagnostic::error(codes::POOL, format!("a pool of {threads} threads cannot be started: {e}"))
                    .help("request fewer threads")
            })?)
        };
        let watch = (pool.is_some() && threads <= all.len()).then(Arc::default);
        let apart = pool.is_some() && !options.pin && threads <= all.len();
        let places = apart.then(|| Places {
            all,
            helpers,
            process: std::process::id(),
            caller: AtomicUsize::new(usize::MAX),
        });
        Ok(Pool { inner: Box::new(Inner { threads, places, watch, pool }) })
    }

    pub fn threads(&self) -> usize {
        self.inner.threads
    }

    /// The table that kernels get; valid as long as the pool.
    pub fn runtime(&self) -> Runtime {
        Runtime {
            version: u64::from(lathe_abi::VERSION),
            ctx: std::ptr::from_ref::<Inner>(&self.inner).cast_mut().cast(),
            parallel_for,
            alloc: scratch_alloc,
            free: scratch_free,
        }
    }
}

/// Keeps the threads that help off the processor of the caller: woken there, they would wait until it is done.
struct Places {
    /// The processors of the process.
    all: Vec<usize>,
    /// The system's numbers of the threads, and the process that they belong to: a fork has none of them.
    helpers: Arc<Mutex<Vec<libc::pid_t>>>,
    process: u32,
    /// The processor of the last caller.
    caller: AtomicUsize,
}

impl Places {
    fn apart(&self) {
        // SAFETY: asks for a number only.
        let Ok(here) = usize::try_from(unsafe { libc::sched_getcpu() }) else { return };
        if self.caller.load(Ordering::Relaxed) == here || std::process::id() != self.process {
            return;
        }
        self.caller.store(here, Ordering::Relaxed);
        let others = self.all.iter().copied().filter(|c| *c != here);
        for id in self.helpers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            may_run_on(*id, others.clone());
        }
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
    let pool = match &inner.pool {
        Some(pool) if count > 1 => pool,
        // SAFETY: the kernel's own call, on its own thread. Both may be left together: nothing is held here.
        _ => return unsafe { body(env, 0, count) },
    };
    let outside = Thread::outside();
    let call = outside.as_ref().map_or(0, |o| o.me.call());
    if let Some(places) = inner.places.as_ref().filter(|_| pool.current_thread_index().is_none()) {
        places.apart();
    }
    let region = Arc::new(Region::new(inner.threads, count, (body, env), call));
    let helpers = (inner.threads - 1).min(usize::try_from(count - 1).unwrap_or(usize::MAX));
    let come = inner.watch.as_ref().map_or(0, |w| w.call(&region, helpers));
    for _ in come..helpers {
        let (region, watch) = (region.clone(), inner.watch.clone());
        pool.spawn(move || match watch {
            Some(watch) => watch.help(&region),
            None => region.help(),
        });
    }
    // SAFETY: made here, and the kernel's environment lives until this returns.
    unsafe { region.finish() }
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
    may_run_on(0, [cpu].into_iter());
}

/// Lets a thread (0: the calling one) run on these processors only; a refusal is ignored.
fn may_run_on(thread: libc::pid_t, cpus: impl Iterator<Item = usize>) {
    // SAFETY: the processors are within the set, and the set lives through the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.filter(|c| *c < libc::CPU_SETSIZE as usize).for_each(|c| libc::CPU_SET(c, &mut set));
        libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &set);
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

    /// Loops one right after the other, with a short pause, and after the workers have gone to sleep; from several
    /// callers.
    #[test]
    fn threads_that_look_out_run_every_iteration_once() {
        let pool = Pool::new(2).unwrap();
        let calls = |pauses: &[u64]| {
            let rt = pool.runtime();
            for pause in pauses {
                for count in [2, 3, 100] {
                    let sum = AtomicI64::new(0);
                    let env = std::ptr::from_ref(&sum).cast_mut().cast();
                    // SAFETY: the table belongs to a living pool.
                    assert_eq!(unsafe { (rt.parallel_for)(rt.ctx, count, add, env) }, 0);
                    assert_eq!(sum.into_inner(), (0..count).sum::<i64>());
                }
                std::thread::sleep(std::time::Duration::from_micros(*pause));
            }
        };
        std::thread::scope(|s| {
            for n in 0..3 {
                let pauses: Vec<u64> = (0..300).map(|i| [0, 0, 0, 20, 100, 300][(i + n) % 6]).collect();
                let calls = &calls;
                s.spawn(move || calls(&pauses));
            }
        });
        // A pool may be dropped while its workers spin-wait.
        drop(pool);
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
        }
    }

    #[test]
    fn too_many_threads_are_refused() {
        assert_eq!(Pool::new(1_000_000).unwrap_err().code, codes::POOL);
    }
}
