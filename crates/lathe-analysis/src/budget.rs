//! What all questions of an analysis may take together.

use std::cell::Cell;

thread_local! {
    /// What all searches of this thread may still take together: per node the square of its constraints.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    /// How many questions this thread asked isl.
    static QUESTIONS: Cell<u64> = const { Cell::new(0) };
}

/// How many questions isl was asked by this thread so far, schedules among them; those are not that it had answered before.
pub fn questions() -> u64 {
    QUESTIONS.get()
}

/// One more question.
pub(crate) fn count() {
    QUESTIONS.set(QUESTIONS.get() + 1);
}

/// Runs an analysis whose searches do so much work at most, all together: pairs of constraints, summed over their nodes.
/// Beyond that nothing is known any more, and a question is answered as one that could not be decided.
pub fn within_work<T>(most: u64, analysis: impl FnOnce() -> T) -> T {
    let before = LEFT.get();
    let most = most.min(before);
    LEFT.set(most);
    let out = analysis();
    // What was spent here is spent outside, too.
    LEFT.set(before - (most - LEFT.get()));
    out
}

/// Whether nothing is known any more, because an analysis did all the work that it may do ([`within_work`]).
pub fn exhausted() -> bool {
    LEFT.get() == 0
}

/// What may still be done.
pub(crate) fn left() -> u64 {
    LEFT.get()
}

/// Takes work off what may still be done; whether there was any left.
pub(crate) fn spend(work: u64) -> bool {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(work));
    left > 0
}
