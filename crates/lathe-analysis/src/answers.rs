//! What isl answered, for all threads that work for one purpose.

use rustc_hash::FxHashMap;
use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// isl's last answers: a search asks much about a tree that the steps which it then takes ask again. A thread begins with
/// none; threads that help it share its own ([`answers`], [`Answers::share`]).
#[derive(Clone, Default)]
pub struct Answers(Arc<All>);

#[derive(Default)]
struct All {
    points: Mutex<FxHashMap<Vec<i64>, Kept>>,
    /// Those of its scheduler, whatever the one who asks makes of them.
    schedules: Mutex<Vec<(Vec<i64>, Found)>>,
    asked: AtomicU64,
}

/// A schedule, as the one who asked for it keeps it.
type Found = Arc<dyn Any + Send + Sync>;

/// A point as values of unknowns in their order, or that there is none; `None` if isl gave up or failed.
pub(crate) type Answer = Option<Option<Vec<i64>>>;

/// An answer, and what the question counted as.
#[derive(Clone)]
pub(crate) struct Kept {
    pub answer: Answer,
    pub work: u64,
    /// With so much left to do, isl was not stopped earlier.
    pub needed: u64,
}

/// So many answers are kept.
const POINTS: usize = 4096;
const SCHEDULES: usize = 32;

thread_local! {
    static OWN: RefCell<Answers> = RefCell::default();
}

/// Those that this thread uses.
pub fn answers() -> Answers {
    OWN.with_borrow(Answers::clone)
}

/// How many questions isl was asked by this thread so far, and by those that share its answers, schedules among them; those are not
/// that it had answered before.
pub fn questions() -> u64 {
    answers().0.asked.load(Relaxed)
}

/// Nothing is left half done by a thread that panicked.
fn lock<T>(all: &Mutex<T>) -> MutexGuard<'_, T> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Answers {
    /// This thread uses these from now on, and adds its own.
    pub fn share(self) {
        OWN.set(self);
    }

    /// One more question.
    pub(crate) fn count(&self) {
        self.0.asked.fetch_add(1, Relaxed);
    }

    pub(crate) fn point(&self, question: &[i64]) -> Option<Kept> {
        lock(&self.0.points).get(question).cloned()
    }

    pub(crate) fn keep_point(&self, question: Vec<i64>, kept: Kept) {
        let mut all = lock(&self.0.points);
        if all.len() >= POINTS {
            all.clear();
        }
        all.insert(question, kept);
    }

    pub(crate) fn schedule<T: Clone + 'static>(&self, question: &[i64]) -> Option<T> {
        let all = lock(&self.0.schedules);
        all.iter().find(|r| r.0 == question).and_then(|r| r.1.downcast_ref::<T>().cloned())
    }

    pub(crate) fn keep_schedule<T: Send + Sync + 'static>(&self, question: Vec<i64>, found: T) {
        let mut all = lock(&self.0.schedules);
        all.truncate(SCHEDULES - 1);
        all.insert(0, (question, Arc::new(found)));
    }
}
