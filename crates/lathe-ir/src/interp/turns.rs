//! Atomics that take place in the order of iterations: every iteration of the loops that the scope names waits for those
//! before it.
//!
//! In the innermost of these loops an iteration has had its turn once it made its update or ended; in those further
//! outside, once it ended.

use super::failure::Trap;
use std::collections::HashMap;

pub type TaskId = usize;

/// An atomic: its routine, and its site there.
pub type Which = (u32, u32);

/// The turns of one atomic in one execution of a loop.
#[derive(Default)]
struct Turn {
    /// The first iteration that has not had its turn.
    next: usize,
    waiting: HashMap<usize, TaskId>,
}

/// What iterations of one execution of a loop wait for.
#[derive(Default)]
pub struct Turns {
    ended: Vec<bool>,
    /// The first iteration that has not ended.
    alive: usize,
    each: HashMap<Which, Turn>,
    /// Iterations of loops inside that wait for the end of an earlier iteration.
    outside: Vec<TaskId>,
}

impl Turns {
    pub fn of(iterations: usize) -> Turns {
        Turns { ended: vec![false; iterations], ..Turns::default() }
    }

    /// An iteration has ended: who may go on.
    pub fn end(&mut self, iteration: usize) -> Vec<TaskId> {
        if let Some(ended) = self.ended.get_mut(iteration) {
            *ended = true;
        }
        self.alive = from(&self.ended, self.alive);
        let mut woken = std::mem::take(&mut self.outside);
        for t in self.each.values_mut().filter(|t| t.next == iteration) {
            t.next = from(&self.ended, t.next);
            woken.extend(t.waiting.remove(&t.next));
        }
        woken
    }

    /// Whether an iteration of a loop further outside must wait, `me` with it: an earlier one has not ended.
    pub fn waits_outside(&mut self, iteration: usize, me: TaskId) -> bool {
        let waits = self.alive < iteration;
        if waits {
            self.outside.push(me);
        }
        waits
    }

    /// Takes the turn of an iteration, and gives who may go on; `None` if it is not its turn, so that `me` waits.
    pub fn take(
        &mut self,
        which: Which,
        iteration: usize,
        me: TaskId,
    ) -> Result<Option<Option<TaskId>>, Trap> {
        let turn = self.each.entry(which).or_default();
        turn.next = from(&self.ended, turn.next);
        if iteration < turn.next {
            return Err(Trap::Barrier("an iteration makes its update in order more than once"));
        }
        if iteration > turn.next {
            turn.waiting.insert(iteration, me);
            return Ok(None);
        }
        turn.next = from(&self.ended, turn.next + 1);
        Ok(Some(turn.waiting.remove(&turn.next)))
    }

    /// Somebody who waits, when nothing can go on.
    pub fn stuck(&self) -> Option<TaskId> {
        let waiting = self.each.values().flat_map(|t| t.waiting.values());
        waiting.chain(&self.outside).copied().min()
    }
}

/// The first iteration from `at` on that has not ended.
fn from(ended: &[bool], at: usize) -> usize {
    at + ended.get(at..).map_or(0, |rest| rest.iter().take_while(|e| **e).count())
}
