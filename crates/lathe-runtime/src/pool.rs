//! The threads that run `cpu` loops: the one that calls, and a pool of others that come to help.

use crate::codes;
use crate::region::Region;
use crate::scratch::{scratch_alloc, scratch_free};
use crate::stop::Thread;
use crate::watch::Watch;
use lathe_abi::{LoopBody, Runtime, status};
use lathe_diagnostics::Diagnostic;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Options of a pool.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// 0: as many as the process may use, by its processors and the limits of its control group.
    pub threads: usize,
    pub placement: Placement,
}

/// Where the threads that help run. The one that calls is the user's and stays where it is. No thread leaves the processors
/// that the process may run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Where the system puts them.
    Free,
    /// Anywhere but on the processor of the caller: woken there, they would wait until it is done.
    #[default]
    Apart,
    /// Each on a processor of its own, on different cores as far as there are some: for processes that have the machine
    /// to themselves.
    Pinned,
}

/// The variable that says where threads run: `free`, `apart`, or `pinned`.
pub const PLACEMENT: &str = "LATHE_PLACEMENT";

impl Placement {
    /// What a word of the variable says.
    ///
    /// # Errors
    /// `E0818` for any other word.
    pub fn of(word: &str) -> Result<Placement, Diagnostic> {
        match word {
            "free" => Ok(Placement::Free),
            "apart" | "" => Ok(Placement::Apart),
            "pinned" => Ok(Placement::Pinned),
            other => {
                let text =
                    format!("{PLACEMENT} is `{}`, which is no placement of threads", other.escape_debug());
                Err(Diagnostic::error(codes::POOL, text).help("`free`, `apart` (the default), or `pinned`"))
            }
        }
    }
}

struct Inner {
    threads: usize,
    /// Where threads that help may run, if there is a processor for each thread and they are not pinned.
    places: Option<Places>,
    /// Where idle workers spin-wait for the next loop, if the process may use a processor for each thread.
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
    /// A pool of `threads` threads, placed as the variable [`PLACEMENT`] says; 0 means as many as the process may use.
    ///
    /// # Errors
    /// `E0818` when the system refuses to start them, or the variable says what there is not.
    pub fn new(threads: usize) -> Result<Pool, Diagnostic> {
        let word = std::env::var_os(PLACEMENT).unwrap_or_default();
        let placement = Placement::of(&word.to_string_lossy())?;
        Pool::with_options(&PoolOptions { threads, placement })
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
            let own = if options.placement == Placement::Pinned { one_per_core(&all) } else { Vec::new() };
            let helpers = helpers.clone();
            let built = rayon_core::ThreadPoolBuilder::new()
                .num_threads(threads - 1)
                .thread_name(|i| format!("lathe-{i}"))
                .start_handler(move |i| {
                    // SAFETY: asks for a number only.
                    let id = unsafe { libc::gettid() };
                    helpers.lock().unwrap_or_else(PoisonError::into_inner).push(id);
                    // The first one is left to the caller.
                    if let Some(cpu) = own.get((i + 1) % own.len().max(1)) {
                        pin_to(*cpu);
                    }
                })
                .build();
            Some(built.map_err(|e| {
                Diagnostic::error(codes::POOL, format!("a pool of {threads} threads cannot be started: {e}"))
                    .help("request fewer threads")
            })?)
        };
        // Threads that spin take time from others where there are more of them than the process may use: of processors, or
        // of their time by the limits of its control group.
        let room = pool.is_some() && threads <= all.len().min(available);
        let watch = room.then(|| Arc::new(Watch::new(threads - 1)));
        let apart = room && options.placement == Placement::Apart;
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
            wait,
            externals: std::ptr::null(),
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
    let spins = inner.watch.is_some();
    let region = Arc::new(Region::new(inner.threads, count, (body, env), call, spins));
    let helpers = (inner.threads - 1).min(usize::try_from(count - 1).unwrap_or(usize::MAX));
    let come = inner.watch.as_ref().map_or(0, |w| w.call(&region, helpers));
    for _ in come..helpers {
        let (region, watch) = (region.clone(), inner.watch.clone());
        pool.spawn(move || {
            let me = rayon_core::current_thread_index().unwrap_or(0);
            match watch {
                Some(watch) => watch.help(me, &region),
                None => region.help(me + 1, || {}),
            }
        });
    }
    // SAFETY: made here, and the kernel's environment lives until this returns.
    unsafe { region.finish() }
}

/// How often a thread that waits for another one looks before it lets other threads have its processor: the one that it waits
/// for may be among them.
const WAITS: u32 = 64;

thread_local! {
    static WAITED: Cell<u32> = const { Cell::new(0) };
}

/// `wait` of the runtime table. A thread waits for one that has begun, which goes on as soon as it has a processor.
unsafe extern "C" fn wait(ctx: *mut c_void) -> i32 {
    let outside = Thread::outside();
    // SAFETY: `ctx` is the `Inner` of the pool that made the table, which outlives the call.
    let inner = unsafe { &*ctx.cast::<Inner>() };
    let waited = WAITED.try_with(|w| w.replace(w.get().wrapping_add(1))).unwrap_or(0);
    if inner.watch.is_some() && waited % WAITS != WAITS - 1 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
    // A call that ends leaves those out that have not begun, and those that it leaves while they run: nobody may wait for them.
    let Some(me) = outside.as_ref().map(|o| o.me).filter(|me| me.call() != 0) else { return 0 };
    me.poll();
    if me.is_stopped(me.call()) { status::STOPPED } else { 0 }
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

/// Processors in an order in which those of other cores come before a second one of the same core.
fn one_per_core(all: &[usize]) -> Vec<usize> {
    let core = |cpu: usize| {
        let of = |what: &str| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{what}");
            std::fs::read_to_string(path).ok()?.trim().parse::<i64>().ok()
        };
        of("physical_package_id").zip(of("core_id")).unwrap_or((-1, cpu as i64))
    };
    in_turn(all, core)
}

/// The first of each group, then the second of each, and so on.
fn in_turn(all: &[usize], group: impl Fn(usize) -> (i64, i64)) -> Vec<usize> {
    let mut seen = std::collections::HashMap::<(i64, i64), usize>::new();
    let mut turns: Vec<(usize, usize)> = Vec::new();
    for cpu in all {
        let n = seen.entry(group(*cpu)).or_default();
        turns.push((*n, *cpu));
        *n += 1;
    }
    turns.sort_unstable();
    turns.into_iter().map(|t| t.1).collect()
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
            let placement = [Placement::Free, Placement::Apart, Placement::Pinned][threads % 3];
            let pool = Pool::with_options(&PoolOptions { threads, placement }).unwrap();
            let rt = pool.runtime();
            for _ in 0..20 {
                // SAFETY: as above; `fail` does not use its environment.
                let status = unsafe { (rt.parallel_for)(rt.ctx, 500, fail, std::ptr::null_mut()) };
                assert_eq!(status, 5);
            }
        }
    }

    #[test]
    fn threads_are_placed_on_different_cores_first() {
        // Two threads per core, numbered one after the other, and core by core.
        assert_eq!(in_turn(&[0, 1, 2, 3, 4, 5], |c| (0, c as i64 / 2)), [0, 2, 4, 1, 3, 5]);
        assert_eq!(in_turn(&[1, 2, 3], |c| (0, c as i64 % 2)), [1, 2, 3]);
        assert_eq!(in_turn(&[], |_| (0, 0)), Vec::<usize>::new());
        let all = processors();
        let mut own = one_per_core(&all);
        own.sort_unstable();
        assert_eq!(own, all);
        assert_eq!(Placement::of("pinned").unwrap(), Placement::Pinned);
        assert_eq!(Placement::of("").unwrap(), Placement::default());
        assert_eq!(Placement::of("everywhere").unwrap_err().code, codes::POOL);
    }

    /// No thread runs where the process may not, wherever threads are placed.
    #[test]
    fn threads_stay_on_the_processors_of_the_process() {
        let all = processors();
        for placement in [Placement::Free, Placement::Apart, Placement::Pinned] {
            let pool = Pool::with_options(&PoolOptions { threads: 3, placement }).unwrap();
            let (rt, sum) = (pool.runtime(), AtomicI64::new(0));
            let env = std::ptr::from_ref(&sum).cast_mut().cast();
            // SAFETY: the table belongs to a living pool.
            unsafe { (rt.parallel_for)(rt.ctx, 100, add, env) };
            let inside = pool.inner.pool.as_ref().unwrap().broadcast(|_| processors());
            for mine in inside {
                assert!(!mine.is_empty() && mine.iter().all(|c| all.contains(c)), "{placement:?}: {mine:?}");
                assert!(placement != Placement::Pinned || mine.len() == 1, "{mine:?}");
            }
        }
    }

    /// Where threads outnumber what the process may use, none of them spins, nor does the caller.
    #[test]
    fn threads_without_a_processor_do_not_spin() {
        let most = processors().len();
        assert!(Pool::new(most + 1).unwrap().inner.watch.is_none());
        assert!(Pool::new(1).unwrap().inner.watch.is_none());
    }

    #[test]
    fn too_many_threads_are_refused() {
        assert_eq!(Pool::new(1_000_000).unwrap_err().code, codes::POOL);
    }
}
