//! On which queue of a device an action runs.

use crate::Event;
use crate::events::Events;
use crate::plan::{Access, Stream};
use smallvec::SmallVec;
use std::sync::Arc;

/// The queues of one device: one for copies to it, one for copies from it, two for copies from the devices before and behind it,
/// so that halos of both sides and bytes of the host arrive beside kernels and one another, and several for launches, so
/// that independent ones run side by side.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    device: u32,
    /// What each queue for launches was given last.
    last: Vec<Option<Last>>,
}

#[derive(Clone, Debug)]
struct Last {
    event: Event,
    name: Arc<str>,
    accesses: Accesses,
}

/// Accesses of a launch; mostly few.
pub(crate) type Accesses = SmallVec<[Access; 6]>;

const UP: u32 = 0;
const DOWN: u32 = 1;
const FROM_BEFORE: u32 = 2;
const FROM_BEHIND: u32 = 3;
const LAUNCHES: u32 = 4;

impl Stream {
    /// How many queues of a device are for copies; those for launches have the next numbers.
    pub const OF_COPIES: usize = LAUNCHES as usize;

    /// The first queue for launches of a device.
    pub fn first_launch(device: usize) -> Stream {
        Stream { device: device as u32, number: LAUNCHES }
    }

    /// Whether kernels run there, and no copies.
    pub fn is_launch(self) -> bool {
        self.number >= LAUNCHES
    }
}

impl Streams {
    pub(crate) fn new(device: u32, launches: usize) -> Streams {
        Streams { device, last: vec![None; launches.max(1)] }
    }

    pub(crate) fn up(&self) -> Stream {
        Stream { device: self.device, number: UP }
    }

    pub(crate) fn down(&self) -> Stream {
        Stream { device: self.device, number: DOWN }
    }

    /// For copies from the memory of another device.
    pub(crate) fn across(&self, from: usize) -> Stream {
        let number = if (from as u32) < self.device { FROM_BEFORE } else { FROM_BEHIND };
        Stream { device: self.device, number }
    }

    /// For a launch after these events: the queue whose last action it waits for anyway, else one that has nothing to do,
    /// else the one that was used the longest ago.
    pub(crate) fn launch(&self, after: [&[Event]; 2], events: &Events) -> Stream {
        let last = |n: &usize| self.last[*n].as_ref().map(|l| l.event);
        let all = || 0..self.last.len();
        let follows = all().filter(|n| last(n).is_some_and(|e| after.iter().any(|a| a.contains(&e))));
        let newest = follows.max_by_key(last);
        let idle = || all().find(|n| last(n).is_none_or(|e| !events.is_pending(e)));
        let oldest = || all().min_by_key(last);
        let n = newest.or_else(idle).or_else(oldest).unwrap_or(0);
        Stream { device: self.device, number: LAUNCHES + n as u32 }
    }

    /// Remembers a launch that a queue was given. Whether it replaces the launch before it there: the same kernel uses all
    /// that that one used, so that whoever must wait for that one must wait for this one, too, and a failure of either has
    /// the same name.
    pub(crate) fn given(
        &mut self,
        stream: Stream,
        event: Event,
        name: Arc<str>,
        accesses: &Accesses,
    ) -> bool {
        let last = stream.number.checked_sub(LAUNCHES).and_then(|n| self.last.get_mut(n as usize));
        let Some(last) = last else { return false };
        let covers = |of: &Access, by: &Access| {
            of.buffer == by.buffer
                && by.range.start <= of.range.start
                && of.range.end <= by.range.end
                && (by.mode.writes() || !of.mode.writes())
        };
        match last {
            Some(l) => {
                let same =
                    l.name == name && l.accesses.iter().all(|of| accesses.iter().any(|by| covers(of, by)));
                (l.event, l.name) = (event, name);
                l.accesses.clone_from(accesses);
                same
            }
            None => {
                *last = Some(Last { event, name, accesses: accesses.clone() });
                false
            }
        }
    }
}
