//! Events: points in the work of devices, their dependences, and their outcomes.

use crate::plan::Stream;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

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
    name: Arc<str>,
    stream: Stream,
    /// What makes the bytes that it reads and had not ended. Other events it waits for only overwrite or read what it
    /// overwrites: that one of these fails does not concern it.
    needs: Few,
    /// Set where it cannot be done any more; it ends in its turn all the same, since others may wait for what it
    /// waits for.
    failure: Option<Failure>,
}

/// A list of events that is mostly short.
pub(crate) type Few = SmallVec<[Event; 4]>;

/// The events that have not ended, and those that failed.
#[derive(Clone, Debug, Default)]
pub struct Events {
    next: u64,
    /// By number, so that one is found by its distance from the first, or by halving; none for what ended before others
    /// that were planned before it.
    pending: VecDeque<(Event, Option<Pending>)>,
    /// How many of these have not ended.
    live: usize,
    failed: BTreeMap<Event, Failure>,
    /// The newest event of a stream that another one has waited for: what comes there is behind it anyway.
    waited: BTreeMap<(Stream, Stream), Event>,
    /// The name of the last action: launches of one kernel share it.
    name: Option<Arc<str>>,
}

impl Events {
    fn find(&self, e: Event) -> Option<usize> {
        let first = self.pending.front()?.0;
        let near = usize::try_from(e.0.checked_sub(first.0)?).ok()?;
        match self.pending.get(near) {
            Some((found, _)) if *found == e => Some(near),
            _ => self.pending.binary_search_by_key(&e, |p| p.0).ok(),
        }
    }

    fn get(&self, e: Event) -> Option<&Pending> {
        self.find(e).and_then(|n| self.pending[n].1.as_ref())
    }

    /// A name that was given to the last action is shared with it.
    pub(crate) fn named(&mut self, name: &str) -> Arc<str> {
        match &self.name {
            Some(last) if **last == *name => Arc::clone(last),
            _ => Arc::clone(self.name.insert(name.into())),
        }
    }

    /// A new event on a stream: it `needs` some events and comes `after` others. Of these the ones come back that
    /// have not ended and are not implied by the order of a stream, which is what a driver must wait for.
    pub(crate) fn add(
        &mut self,
        name: Arc<str>,
        stream: Stream,
        mut needs: Few,
        after: &Few,
    ) -> (Event, Vec<Event>) {
        let event = Event(self.next);
        self.next += 1;
        // A stream runs in order: to wait for its newest event is to wait for all.
        let mut newest: SmallVec<[(Stream, Event); 4]> = SmallVec::new();
        for e in needs.iter().chain(after) {
            let known = |p: &&Pending| self.waited.get(&(stream, p.stream)).is_some_and(|w| w >= e);
            if let Some(p) = self.get(*e).filter(|p| p.stream != stream && !known(p)) {
                match newest.iter_mut().find(|n| n.0 == p.stream) {
                    Some(known) => known.1 = known.1.max(*e),
                    None => newest.push((p.stream, *e)),
                }
            }
        }
        needs.retain(|e| self.is_pending(*e));
        self.pending.push_back((event, Some(Pending { name, stream, needs, failure: None })));
        self.live += 1;
        self.waited.extend(newest.iter().map(|(other, e)| ((stream, *other), *e)));
        let mut waits: Vec<Event> = newest.into_iter().map(|n| n.1).collect();
        waits.sort_unstable();
        (event, waits)
    }

    pub(crate) fn done(&mut self, e: Event) {
        let Some(ended) = self.find(e).and_then(|n| self.pending[n].1.take()) else { return };
        self.live -= 1;
        if let Some(failure) = ended.failure {
            self.failed.insert(e, failure);
        }
        while self.pending.front().is_some_and(|p| p.1.is_none()) {
            self.pending.pop_front();
        }
        // One that does not end must not keep the places of all that end after it.
        if self.pending.len() > 2 * self.live + 256 {
            self.pending.retain(|p| p.1.is_some());
        }
    }

    /// What an event stands for will not happen, and neither will what needs it; all of these come back.
    pub(crate) fn fail(&mut self, e: Event, why: &str) -> Vec<Event> {
        let Some(at) = self.find(e) else { return Vec::new() };
        let Some(p) = self.pending[at].1.as_mut() else { return Vec::new() };
        let name = p.name.to_string();
        p.failure.get_or_insert(Failure { name, why: why.to_string() });
        let mut out = vec![e];
        // What needs an event is planned after it.
        for n in at + 1..self.pending.len() {
            let Some(p) = self.pending[n].1.as_ref().filter(|p| p.failure.is_none()) else { continue };
            let cause = p.needs.iter().find_map(|n| self.failure(*n)).cloned();
            if let (Some(cause), (later, Some(p))) = (cause, &mut self.pending[n]) {
                p.failure = Some(cause);
                out.push(*later);
            }
        }
        out
    }

    /// Why an event has not happened, or will not.
    pub fn failure(&self, e: Event) -> Option<&Failure> {
        self.get(e).and_then(|p| p.failure.as_ref()).or_else(|| self.failed.get(&e))
    }

    pub fn is_pending(&self, e: Event) -> bool {
        self.get(e).is_some()
    }

    /// The stream of an event that has not ended.
    pub(crate) fn stream(&self, e: Event) -> Option<Stream> {
        self.get(e).map(|p| p.stream)
    }

    /// Drops the failures that nothing refers to any more.
    pub(crate) fn keep_failures(&mut self, of: &dyn Fn(Event) -> bool) {
        self.failed.retain(|e, _| of(*e));
    }

    /// What has not ended on a device.
    pub(crate) fn of_device(&self, device: u32) -> Vec<(Event, Stream)> {
        let all = self.pending.iter().filter_map(|(e, p)| Some((*e, p.as_ref()?.stream)));
        all.filter(|(_, s)| s.device == device).collect()
    }

    /// How many have not ended.
    pub fn pending(&self) -> usize {
        self.live
    }
}
