//! On which queue of a device an action runs.

use crate::Event;
use crate::events::Events;
use crate::plan::Stream;

/// The queues of one device: one for copies to it, one for copies from it, so that both run beside kernels, and several for
/// launches, so that independent ones run side by side.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    device: u32,
    /// What each queue for launches was given last.
    last: Vec<Option<Event>>,
}

const UP: u32 = 0;
const DOWN: u32 = 1;
const LAUNCHES: u32 = 2;

impl Stream {
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

    /// For a launch after these events: the queue whose last action it waits for anyway, else one that has nothing to do,
    /// else the one that was used the longest ago.
    pub(crate) fn launch(&self, after: &[Event], events: &Events) -> Stream {
        let follows = (0..self.last.len()).filter(|n| self.last[*n].is_some_and(|e| after.contains(&e)));
        let newest = follows.max_by_key(|n| self.last[*n]);
        let idle = || (0..self.last.len()).find(|n| self.last[*n].is_none_or(|e| !events.is_pending(e)));
        let oldest = || (0..self.last.len()).min_by_key(|n| self.last[*n]);
        let n = newest.or_else(idle).or_else(oldest).unwrap_or(0);
        Stream { device: self.device, number: LAUNCHES + n as u32 }
    }

    pub(crate) fn given(&mut self, stream: Stream, event: Event) {
        if let Some(last) = stream.number.checked_sub(LAUNCHES).and_then(|n| self.last.get_mut(n as usize)) {
            *last = Some(event);
        }
    }
}
