//! What tasks wait for: other iterations, asynchronous bodies, tokens; and how many iterations a loop has.

pub use super::turns::TaskId;
use super::turns::Turns;
use crate::ids::VarId;

/// The iterations of one execution of a loop with barriers.
pub struct Group {
    pub of: VarId,
    /// Number of the loop's executor.
    pub executor: u32,
    /// The group of the task that forked it.
    pub parent: Option<usize>,
    pub owner: TaskId,
    pub turns: Turns,
    /// Number of the loop's execution, for races.
    pub instance: u32,
    /// Tasks in it and in the groups inside it that can still reach a barrier of its loop: not ended,
    /// not waiting there, not waiting for a group of their own.
    pub open: usize,
    /// Iterations that have not ended.
    pub left: usize,
    pub size: usize,
    /// Who waits at a barrier of this loop, with the spaces that the barrier orders.
    pub waiting: Vec<(TaskId, u8)>,
}

/// An asynchronous body that was started.
#[derive(Default)]
pub struct AsyncBody {
    pub done: bool,
    /// The strand that waits for it: the one that started it.
    pub waiter: Option<TaskId>,
}

/// An open token: the bodies that were started under it and not awaited yet, in that order.
pub type Token = Vec<usize>;

/// Number of iterations of a loop.
pub fn trips(lo: i64, hi: i64, step: i64) -> i64 {
    if hi <= lo {
        return 0;
    }
    let span = i128::from(hi) - i128::from(lo);
    let n = (span + i128::from(step) - 1) / i128::from(step.max(1));
    i64::try_from(n).unwrap_or(i64::MAX)
}
