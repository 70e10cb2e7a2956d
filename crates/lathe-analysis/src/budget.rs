//! What all questions of an analysis may take together.
//!
//! Analyses that do not depend on one another may run side by side. Each begins with all that is left then ([`apart`]), and is
//! told how much would have been enough for the same result ([`Work::taken`]): whether analyses ran one after the other or at
//! the same time is not seen in what they found.

use std::cell::Cell;

thread_local! {
    /// What all searches of this thread may still take together: per node the square of its constraints.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    /// What was left when the analysis began that runs now, and how much of that would have been enough so far.
    static BEGAN: Cell<u64> = const { Cell::new(u64::MAX) };
    static NEEDED: Cell<u64> = const { Cell::new(0) };
}

/// Runs an analysis whose searches do so much work at most, all together: pairs of constraints, summed over their nodes.
/// Beyond that nothing is known any more, and a question is answered as one that could not be decided.
pub fn within_work<T>(most: u64, analysis: impl FnOnce() -> T) -> T {
    let before = LEFT.get();
    let (out, work) = apart(most.min(before), analysis);
    need(work.needed);
    // What was spent here is spent outside, too.
    LEFT.set(before - work.spent);
    out
}

/// Runs an analysis within half of what is left.
pub(crate) fn within_half<T>(analysis: impl FnOnce() -> T) -> T {
    let before = LEFT.get();
    let (out, work) = apart(before / 2, analysis);
    need(if work.needed < before / 2 { 2 * work.needed } else { before });
    LEFT.set(before - work.spent);
    out
}

/// What an analysis took.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    spent: u64,
    needed: u64,
}

impl Work {
    /// Takes the work off what this thread may still do, if so much is left that the analysis would have come to the same here.
    pub fn taken(&self) -> bool {
        let enough = LEFT.get() >= self.needed;
        if enough {
            need(self.needed);
            LEFT.set(LEFT.get() - self.spent);
        }
        enough
    }
}

/// Runs an analysis that may do so much work, and takes nothing off what else may be done on this thread.
pub fn apart<T>(most: u64, analysis: impl FnOnce() -> T) -> (T, Work) {
    let outside = (LEFT.replace(most), BEGAN.replace(most), NEEDED.replace(0));
    let out = analysis();
    let work = Work { spent: most - LEFT.get(), needed: NEEDED.get() };
    LEFT.set(outside.0);
    BEGAN.set(outside.1);
    NEEDED.set(outside.2);
    (out, work)
}

/// Whether nothing is known any more, because an analysis did all the work that it may do ([`within_work`]).
pub fn exhausted() -> bool {
    need(1);
    LEFT.get() == 0
}

/// What may still be done.
pub fn left() -> u64 {
    LEFT.get()
}

/// With so much left, what comes next is the same as with what is left.
pub(crate) fn need(enough: u64) {
    let spent = BEGAN.get().saturating_sub(LEFT.get());
    NEEDED.set(NEEDED.get().max(spent.saturating_add(enough.min(LEFT.get()))));
}

/// Takes work off what may still be done; whether there was any left.
pub(crate) fn spend(work: u64) -> bool {
    let left = LEFT.get();
    // Something has to be left behind it.
    need(work.saturating_add(1));
    LEFT.set(left.saturating_sub(work));
    left > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some work within nested limits, and what came of it.
    fn analysis() -> Vec<bool> {
        let mut out = vec![spend(10)];
        out.extend(within_work(30, || [spend(20), exhausted(), spend(5)]));
        out.extend(within_half(|| [spend(7), exhausted()]));
        out.push(spend(40));
        out.extend(within_work(8, || [spend(8), spend(1)]));
        out.push(exhausted());
        out
    }

    #[test]
    fn work_that_is_taken_off_is_that_of_an_analysis_in_its_turn() {
        for begun in [5, 36, 60, 76, 84, 100, 200] {
            let (found, work) = apart(begun, analysis);
            for left in 0..=begun {
                let (in_turn, alone) = apart(left, analysis);
                let (taken, after) = apart(left, || work.taken());
                if taken {
                    assert_eq!((&in_turn, alone.spent), (&found, after.spent), "{begun} {left}");
                }
            }
            // With what it had, it comes to the same, of course.
            assert!(apart(begun, || work.taken()).0);
        }
        let (_, work) = apart(200, analysis);
        assert!(apart(100, || work.taken()).0, "more than enough was left");
    }
}
