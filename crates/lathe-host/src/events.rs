//! Events: points in the work of devices, their dependences, and their outcomes.

use crate::plan::Stream;
use std::collections::BTreeMap;

/// The end of one action. Numbers grow in the order in which actions are planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Event(pub(crate) u64);

/// Why the action of an event failed, or will never run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What failed first: the name of the launch, or the copy.
    pub name: String,
    pub why: String,
}

#[derive(Clone, Debug)]
struct Pending {
    name: String,
    stream: Stream,
    /// What makes the bytes that it reads. Other events it waits for only overwrite or read what it overwrites: that
    /// one of these fails does not concern it.
    needs: Vec<Event>,
    /// Set where it cannot be done any more; it ends in its turn all the same, since others may wait for what it
    /// waits for.
    failure: Option<Failure>,
}

/// The events that have not ended, and those that failed.
#[derive(Clone, Debug, Default)]
pub struct Events {
    next: u64,
    pending: BTreeMap<Event, Pending>,
    failed: BTreeMap<Event, Failure>,
}

impl Events {
    /// A new event on a stream: it `needs` some events and comes `after` others. Of these the ones come back that
    /// have not ended and are not implied by the order of a stream, which is what a driver must wait for.
    pub(crate) fn add(
        &mut self,
        name: &str,
        stream: Stream,
        needs: Vec<Event>,
        after: Vec<Event>,
    ) -> (Event, Vec<Event>) {
        let event = Event(self.next);
        self.next += 1;
        // A stream runs in order: to wait for its newest event is to wait for all.
        let mut newest: BTreeMap<Stream, Event> = BTreeMap::new();
        for e in needs.iter().chain(&after) {
            if let Some(p) = self.pending.get(e).filter(|p| p.stream != stream) {
                let known = newest.entry(p.stream).or_insert(*e);
                *known = (*known).max(*e);
            }
        }
        self.pending.insert(event, Pending { name: name.to_string(), stream, needs, failure: None });
        let mut waits: Vec<Event> = newest.into_values().collect();
        waits.sort_unstable();
        (event, waits)
    }

    pub(crate) fn done(&mut self, e: Event) {
        if let Some(failure) = self.pending.remove(&e).and_then(|p| p.failure) {
            self.failed.insert(e, failure);
        }
    }

    /// What an event stands for will not happen, and neither will what needs it; all of these come back.
    pub(crate) fn fail(&mut self, e: Event, why: &str) -> Vec<Event> {
        let Some(p) = self.pending.get_mut(&e) else { return Vec::new() };
        let name = p.name.clone();
        p.failure.get_or_insert(Failure { name, why: why.to_string() });
        let mut out = vec![e];
        // What needs an event is planned after it.
        let later: Vec<Event> = self.pending.range(e..).map(|p| *p.0).skip(1).collect();
        for l in later {
            let cause = self.pending[&l].needs.iter().find_map(|n| self.failure(*n)).cloned();
            if let (Some(cause), Some(p)) = (cause, self.pending.get_mut(&l).filter(|p| p.failure.is_none()))
            {
                p.failure = Some(cause);
                out.push(l);
            }
        }
        out
    }

    /// Why an event has not happened, or will not.
    pub fn failure(&self, e: Event) -> Option<&Failure> {
        self.pending.get(&e).and_then(|p| p.failure.as_ref()).or_else(|| self.failed.get(&e))
    }

    pub fn is_pending(&self, e: Event) -> bool {
        self.pending.contains_key(&e)
    }

    /// Drops the failures that nothing refers to any more.
    pub(crate) fn keep_failures(&mut self, of: &dyn Fn(Event) -> bool) {
        self.failed.retain(|e, _| of(*e));
    }

    /// What has not ended on a device.
    pub(crate) fn of_device(&self, device: u32) -> Vec<(Event, Stream)> {
        let here = self.pending.iter().filter(|(_, p)| p.stream.device == device);
        here.map(|(e, p)| (*e, p.stream)).collect()
    }

    /// How many have not ended.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}
