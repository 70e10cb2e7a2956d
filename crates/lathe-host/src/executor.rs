//! Carries plans out: gives their actions to a driver, keeps the memory of devices, and reports what ended and how.

use crate::Event;
use crate::codes;
use crate::driver::{Driver, Fault, FaultKind, Interval, Side};
use crate::host::{Counts, Device, Host};
use crate::plan::{Access, Action, BufferId, Place, Plan, Stream};
use crate::pool::{Block, Pool};
use lathe_diagnostics::Diagnostic;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// So many launches and copies may be under way before their ends are asked for.
const LOOK: usize = 64;

/// What ran when, for a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    pub stream: Stream,
    /// The name of a launch, or what a copy is.
    pub name: String,
    /// Bytes of a copy; none for launches.
    pub bytes: Option<u64>,
    pub interval: Interval,
}

/// An action under way.
struct Started<M> {
    event: Event,
    mark: M,
    /// What it waited for in other streams.
    after: Vec<Event>,
    /// For the profile.
    what: Option<(String, Option<u64>)>,
}

/// Buffers and devices, with a driver.
pub struct Executor<D: Driver> {
    pub(crate) host: Host,
    pub(crate) driver: D,
    pub(crate) memory: BTreeMap<(usize, BufferId), Block<D::Memory>>,
    pub(crate) hosts: BTreeMap<BufferId, D::Host>,
    pub(crate) pools: Vec<Pool<D::Memory>>,
    /// What each stream of each device was given and has not ended, in its order, which is that of the events' numbers.
    streams: Vec<Vec<VecDeque<Started<D::Mark>>>>,
    /// Memory of the host of released buffers, until these events have ended.
    released: Vec<(Vec<Event>, D::Host)>,
    /// Buffers whose memory on the host a device may still use that was lost: it is never given back.
    stuck: BTreeSet<BufferId>,
    /// The actions of the last launch, whose memory is used again.
    plan: Plan,
    since: usize,
    profile: Option<Vec<Ran>>,
    notices: Vec<String>,
}

impl<D: Driver> Executor<D> {
    pub fn new(devices: Vec<Device>, driver: D) -> Executor<D> {
        Executor {
            pools: devices.iter().map(|d| Pool::new(d.bytes)).collect(),
            streams: devices.iter().map(|_| Vec::new()).collect(),
            host: Host::new(devices),
            driver,
            memory: BTreeMap::new(),
            hosts: BTreeMap::new(),
            released: Vec::new(),
            stuck: BTreeSet::new(),
            plan: Plan::default(),
            since: 0,
            profile: None,
            notices: Vec::new(),
        }
    }

    pub fn driver(&mut self) -> &mut D {
        &mut self.driver
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn counts(&self) -> Counts {
        self.host.counts()
    }

    /// Keeps from now on what ran when, where the driver takes times.
    pub fn keep_profile(&mut self, keep: bool) {
        self.profile = keep.then(Vec::new);
    }

    /// What ran since the last time, in the order in which it ended.
    pub fn take_profile(&mut self) -> Vec<Ran> {
        self.profile.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What the user should know: that buffers were evicted, once for each device.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// A buffer in this memory of the host, whose bytes count if they are `defined`; `shared`: devices use the memory of the
    /// host.
    pub fn buffer(&mut self, host: D::Host, bytes: u64, defined: bool, shared: bool) -> BufferId {
        let id = if shared { self.host.shared(bytes, defined) } else { self.host.buffer(bytes, defined) };
        self.hosts.insert(id, host);
        id
    }

    /// Starts a kernel on a device once all that it needs is there, and returns. `work` gets the memory of each access's
    /// buffer, in the order of the accesses.
    ///
    /// # Errors
    /// As [`Host::launch`]; `E0853` where the driver has no memory; `E0854` where it refuses the launch.
    pub fn launch(
        &mut self,
        name: &str,
        device: usize,
        accesses: &[Access],
        work: &D::Work,
    ) -> Result<Event, Diagnostic> {
        self.since += 1;
        if self.since >= LOOK {
            self.poll();
            self.host.tidy();
        }
        // Memory first: without it nothing is planned, and all data stays where it is.
        let mut plan = std::mem::take(&mut self.plan);
        plan.clear();
        self.host.reserve(name, device, accesses, &mut plan)?;
        if !plan.actions.is_empty() {
            self.evicted(&plan);
            self.carry_out(&plan)?;
            plan.clear();
        }
        let plan = self.host.launch_reserved(name, device, accesses, &[], plan);
        let mut refused = None;
        for a in &plan.actions {
            match a {
                Action::Launch { .. } => refused = self.start(name, device, accesses, work, a),
                other => self.carry_out_one(other)?,
            }
        }
        let event = plan.event;
        self.plan = plan;
        match (refused, event) {
            (Some(fault), _) => Err(refusal(name, &fault)),
            (None, Some(event)) => Ok(event),
            (None, None) => Err(Diagnostic::error(codes::FAILED, format!("{name} was not launched"))),
        }
    }

    /// Gives the launch of a plan to the driver; what it refuses.
    fn start(
        &mut self,
        name: &str,
        device: usize,
        accesses: &[Access],
        work: &D::Work,
        launch: &Action,
    ) -> Option<Fault> {
        let Action::Launch { event, stream, after, replaces } = launch else { return None };
        if !self.may_start(*event) {
            self.skip(*event, *stream, after);
            return None;
        }
        let marks = self.marks_of(after);
        let started = {
            let memory: SmallVec<[Option<&D::Memory>; 8]> =
                accesses.iter().map(|a| self.memory.get(&(device, a.buffer)).map(|b| &b.memory)).collect();
            self.driver.launch(*stream, &marks, work, &memory, *replaces)
        };
        let refused = started.as_ref().err().cloned();
        self.started(*event, *stream, after, started, || (name.to_string(), None));
        refused
    }

    /// Starts kernels on several devices that wait for one another: all memory and all copies first, so that the driver is
    /// given nothing else in between. Where what one of them needs fails, all fail. Each device is in the list once, and what
    /// one writes none of the others uses.
    ///
    /// # Errors
    /// As [`Executor::launch`].
    pub fn launch_together(
        &mut self,
        name: &str,
        launches: &[(usize, &[Access], &D::Work)],
    ) -> Result<Vec<Event>, Diagnostic> {
        self.poll();
        self.host.tidy();
        for (device, accesses, _) in launches {
            let mut room = Plan::default();
            self.host.reserve(name, *device, accesses, &mut room)?;
            self.evicted(&room);
            self.carry_out(&room)?;
            accesses.iter().filter(|a| a.mode.reads()).try_for_each(|a| self.prefetch(*device, a))?;
        }
        // Each needs what any of them needs: where one cannot do its part, nobody can.
        let others: Vec<Event> = launches.iter().flat_map(|l| self.host.makers(l.0, l.1)).collect();
        let mut planned = Vec::new();
        for (device, accesses, work) in launches {
            let plan = self.host.launch_reserved(name, *device, accesses, &others, Plan::default());
            for a in &plan.actions {
                match a {
                    Action::Launch { .. } => planned.push((*device, *accesses, *work, a.clone())),
                    other => self.carry_out_one(other)?,
                }
            }
        }
        let events = planned.iter().filter_map(|p| match &p.3 {
            Action::Launch { event, .. } => Some(*event),
            _ => None,
        });
        let events: Vec<Event> = events.collect();
        if let Some(e) = events.iter().find(|e| !self.may_start(**e)) {
            let why = self.host.events().failure(*e).map_or_else(String::new, |f| f.why.clone());
            events.iter().for_each(|e| self.host.refuse(*e, &why));
        }
        let mut refused: Option<Fault> = None;
        for (device, accesses, work, launch) in &planned {
            let fault = self.start(name, *device, accesses, work, launch);
            if let Some(fault) = fault {
                events.iter().for_each(|e| self.host.refuse(*e, &fault.text));
                refused.get_or_insert(fault);
            }
        }
        match refused {
            Some(fault) => Err(refusal(name, &fault)),
            None => Ok(events),
        }
    }

    /// Waits until the host may use a part of a buffer, and gives the buffer's memory on the host; it may be used so until
    /// the next launch.
    ///
    /// # Errors
    /// As [`Host::access`] and [`Host::accessed`].
    pub fn access(&mut self, access: &Access) -> Result<&mut D::Host, Diagnostic> {
        let plan = self.host.access(access)?;
        self.carry_out(&plan)?;
        self.wait(&plan.wait);
        self.host.accessed(access)?;
        self.hosts
            .get_mut(&access.buffer)
            .ok_or_else(|| Diagnostic::error(codes::PART, "the host uses a buffer that was released"))
    }

    /// Copies what a device does not have of a part of a buffer to it, without waiting.
    ///
    /// # Errors
    /// As [`Executor::launch`].
    pub fn prefetch(&mut self, device: usize, access: &Access) -> Result<(), Diagnostic> {
        let accesses = std::slice::from_ref(access);
        let mut room = Plan::default();
        self.host.reserve("a prefetch", device, accesses, &mut room)?;
        self.evicted(&room);
        self.carry_out(&room)?;
        let plan = self.host.prefetch(device, access)?;
        self.carry_out(&plan)
    }

    /// The memory of a buffer on a device, if it has some there.
    pub fn memory(&self, device: usize, buffer: BufferId) -> Option<&D::Memory> {
        self.memory.get(&(device, buffer)).map(|b| &b.memory)
    }

    /// Waits for a launch alone: whether it and what it needs went well.
    ///
    /// # Errors
    /// `E0854` with what failed first.
    pub fn finish_event(&mut self, event: Event) -> Result<(), Diagnostic> {
        self.wait(&[event]);
        self.host.outcome(event)
    }

    /// Gives a buffer's memory back, everywhere, once nothing uses it; does not wait.
    pub fn release(&mut self, buffer: BufferId) {
        let plan = self.host.release(buffer);
        // What is given back needs no driver now.
        let _ = self.carry_out(&plan);
        if let Some(host) = self.hosts.remove(&buffer) {
            match (self.stuck.remove(&buffer), plan.wait.is_empty()) {
                (true, _) => std::mem::forget(host),
                (false, true) => drop(host),
                (false, false) => self.released.push((plan.wait, host)),
            }
        }
    }

    /// Buffers take at most so many bytes of a device from now on; what is there stays until room is needed.
    pub fn bound(&mut self, device: usize, bytes: u64) {
        if let Some(pool) = self.pools.get_mut(device) {
            pool.bound = Some(bytes);
            self.host.devices[device].bytes = Some(bytes);
        }
    }

    /// Waits until everything has ended.
    pub fn finish(&mut self) {
        let all: Vec<Event> = self.streams.iter().flatten().flatten().map(|s| s.event).collect();
        self.wait(&all);
        self.poll();
        self.host.tidy();
    }

    /// A device does nothing any more, says someone who is not the driver.
    pub fn lost(&mut self, device: usize, why: &str) {
        // What had ended before is not blamed, as far as the driver still knows.
        for s in self.streams_of(device) {
            while let Some(mark) = self.queue(s).and_then(|q| q.front()).map(|s| s.mark.clone()) {
                match self.driver.ended(&mark) {
                    Ok(true) => self.ended(s, None),
                    Err(f) if f.kind == FaultKind::Failed => self.ended(s, Some(f)),
                    _ => break,
                }
            }
        }
        self.driver.lost(device);
        // A device that does not answer may still use what it was given.
        let events = self.host.events();
        let used = |e: &Event| events.stream(*e).is_some_and(|s| s.device as usize == device);
        self.stuck.extend(self.host.users(&used));
        let (stuck, released) =
            std::mem::take(&mut self.released).into_iter().partition(|r| r.0.iter().any(used));
        self.released = released;
        let stuck: Vec<_> = stuck;
        stuck.into_iter().for_each(std::mem::forget);
        self.host.lost(device, why);
        for queue in std::mem::take(&mut self.streams[device]) {
            queue.into_iter().for_each(|s| self.host.done(s.event));
        }
        self.memory.retain(|(d, _), _| *d != device);
        // The memory went with the device: no block is given back to the driver.
        self.pools[device] = Pool::new(self.host.device(device).bytes);
    }

    /// Asks what has ended.
    pub fn poll(&mut self) {
        self.since = 0;
        for device in 0..self.streams.len() {
            for s in self.streams_of(device) {
                // Where the newest action has ended, drivers know it of the others without being asked.
                if let Some(mark) = self.queue(s).and_then(|q| q.back()).map(|s| s.mark.clone()) {
                    let _ = self.driver.ended(&mark);
                }
                self.settle(s);
            }
        }
        let events = self.host.events();
        let pending = |e: Event| events.is_pending(e);
        self.pools.iter_mut().for_each(|pool| pool.settle(&pending));
        self.released.retain(|(events, _)| events.iter().any(|e| pending(*e)));
    }

    /// Takes what has ended from the front of a stream.
    fn settle(&mut self, stream: Stream) {
        while self.settle_front(stream) {}
    }

    /// Whether the first action of a stream had ended.
    fn settle_front(&mut self, stream: Stream) -> bool {
        let Some(front) = self.queue(stream).and_then(VecDeque::front) else { return false };
        let (event, mark, after) = (front.event, front.mark.clone(), front.after.clone());
        let ended = self.driver.ended(&mark);
        if ended == Ok(false) {
            return false;
        }
        // What it waited for has ended, too: how, is said first.
        for e in after {
            while let Some(other) = self.given(e).map(|g| g.0) {
                if !self.settle_front(other) {
                    break;
                }
            }
        }
        // Its device may have turned out to be lost.
        if self.given(event).is_some() {
            self.ended(stream, ended.err());
        }
        true
    }

    /// The first action of a stream has ended.
    fn ended(&mut self, stream: Stream, fault: Option<Fault>) {
        if let Some(f) = fault.as_ref().filter(|f| f.kind == FaultKind::Lost) {
            return self.lost(stream.device as usize, &f.text);
        }
        let Some(s) = self.queue_mut(stream).pop_front() else { return };
        if let (Some(profile), Some((name, bytes))) = (&mut self.profile, s.what)
            && let Some(interval) = self.driver.interval(&s.mark)
        {
            profile.push(Ran { stream, name, bytes, interval });
        }
        match fault {
            None => self.host.done(s.event),
            Some(f) => self.host.failed(s.event, &f.text),
        }
    }

    pub(crate) fn wait(&mut self, events: &[Event]) {
        for e in events {
            // What is before it in its stream ends first.
            while let Some((stream, mark)) = self.given(*e).map(|(s, started)| (s, started.mark.clone())) {
                match self.driver.wait(&mark) {
                    Err(f) if f.kind == FaultKind::Lost => self.lost(stream.device as usize, &f.text),
                    _ => self.settle(stream),
                }
            }
        }
    }

    /// Whether what an action needs did not fail.
    fn may_start(&self, event: Event) -> bool {
        self.host.events().failure(event).is_none()
    }

    fn marks_of(&self, events: &[Event]) -> SmallVec<[D::Mark; 4]> {
        events.iter().filter_map(|e| self.given(*e).map(|g| g.1.mark.clone())).collect()
    }

    fn streams_of(&self, device: usize) -> impl Iterator<Item = Stream> + use<D> {
        let numbers = 0..self.streams[device].len() as u32;
        numbers.map(move |number| Stream { device: device as u32, number })
    }

    fn queue(&self, stream: Stream) -> Option<&VecDeque<Started<D::Mark>>> {
        self.streams[stream.device as usize].get(stream.number as usize)
    }

    fn queue_mut(&mut self, stream: Stream) -> &mut VecDeque<Started<D::Mark>> {
        let (all, number) = (&mut self.streams[stream.device as usize], stream.number as usize);
        if all.len() <= number {
            all.resize_with(number + 1, VecDeque::new);
        }
        &mut all[number]
    }

    /// The stream and the action of an event, if the driver was given it and has not ended it.
    fn given(&self, event: Event) -> Option<(Stream, &Started<D::Mark>)> {
        let stream = self.host.events().stream(event)?;
        let queue = self.queue(stream)?;
        let at = queue.binary_search_by_key(&event, |s| s.event).ok()?;
        Some((stream, &queue[at]))
    }

    /// An action was given to the driver, or was refused; then it ends in its turn without having been done.
    fn started(
        &mut self,
        event: Event,
        stream: Stream,
        after: &[Event],
        started: Result<D::Mark, Fault>,
        what: impl FnOnce() -> (String, Option<u64>),
    ) {
        let mark = match started {
            Ok(mark) => mark,
            Err(fault) if fault.kind == FaultKind::Lost => return self.gone(event, stream, &fault),
            Err(fault) => {
                self.host.refuse(event, &fault.text);
                return self.skip(event, stream, after);
            }
        };
        let what = self.profile.is_some().then(what);
        self.push(event, stream, after, mark, what);
    }

    /// An action was given to a device that turned out to be lost.
    fn gone(&mut self, event: Event, stream: Stream, fault: &Fault) {
        // What was given to it before fails first.
        self.lost(stream.device as usize, &fault.text);
        self.host.done(event);
    }

    /// An action that will not be done ends in its turn.
    fn skip(&mut self, event: Event, stream: Stream, after: &[Event]) {
        let marks = self.marks_of(after);
        match self.driver.mark(stream, &marks) {
            Ok(mark) => self.push(event, stream, after, mark, None),
            Err(fault) => self.gone(event, stream, &fault),
        }
    }

    fn push(
        &mut self,
        event: Event,
        stream: Stream,
        after: &[Event],
        mark: D::Mark,
        what: Option<(String, Option<u64>)>,
    ) {
        let started = Started { event, mark, after: after.to_vec(), what };
        self.queue_mut(stream).push_back(started);
    }

    fn carry_out(&mut self, plan: &Plan) -> Result<(), Diagnostic> {
        plan.actions.iter().try_for_each(|a| self.carry_out_one(a))
    }

    fn carry_out_one(&mut self, action: &Action) -> Result<(), Diagnostic> {
        match action {
            Action::Allocate { at, buffer, bytes } => self.allocate(*at, *buffer, *bytes),
            Action::Copy { event, buffer, from, to, range, stream, after } => {
                self.copy(*event, *buffer, (*from, *to), range, *stream, after);
                Ok(())
            }
            Action::Free { at, buffer, after } => {
                self.free(*at, *buffer, after);
                Ok(())
            }
            Action::Launch { .. } => Ok(()),
        }
    }

    fn copy(
        &mut self,
        event: Event,
        buffer: BufferId,
        (from, to): (Place, Place),
        range: &Range<u64>,
        stream: Stream,
        after: &[Event],
    ) {
        if !self.may_start(event) {
            return self.skip(event, stream, after);
        }
        let marks = self.marks_of(after);
        let (memory, hosts) = (&self.memory, &self.hosts);
        let side = |place: Place| match place.number() {
            None => hosts.get(&buffer).map(Side::Host),
            Some(n) => memory.get(&(n, buffer)).map(|b| Side::Device(n, &b.memory)),
        };
        let started = match (side(from), side(to)) {
            (Some(from), Some(to)) => self.driver.copy(stream, &marks, from, to, range),
            _ => Err(Fault::new(FaultKind::Failed, "the buffer has no memory there")),
        };
        let what = || {
            let name = match (from.number(), to.number()) {
                (None, _) => "copy to the device",
                (_, None) => "copy from the device",
                _ => "copy between devices",
            };
            (name.to_string(), Some(range.end - range.start))
        };
        self.started(event, stream, after, started, what);
    }

    /// Tells the user about the first eviction of a device.
    fn evicted(&mut self, plan: &Plan) {
        for (at, _) in &plan.evicted {
            let Some(n) = at.number() else { continue };
            if self.host.first_eviction(n) {
                let text = format!(
                    "`{}` is full: buffers that were not used for the longest time leave it, and come back when they are used",
                    self.host.device(n).name
                );
                self.notices.push(text);
            }
        }
    }
}

/// What a driver refuses, under the name of what was to be done.
pub(crate) fn refusal(name: &str, fault: &Fault) -> Diagnostic {
    match fault.kind {
        FaultKind::Memory => Diagnostic::error(codes::MEMORY, format!("{name}: {}", fault.text))
            .help("release buffers, or use smaller ones"),
        FaultKind::Failed => Diagnostic::error(codes::FAILED, format!("{name} failed: {}", fault.text)),
        FaultKind::Lost => Diagnostic::error(codes::LOST, format!("{name} failed: {}", fault.text)),
    }
}

impl<D: Driver> Drop for Executor<D> {
    fn drop(&mut self) {
        self.finish();
        for ((device, _), block) in std::mem::take(&mut self.memory) {
            match block.size {
                Some(_) => self.driver.free(device, block.memory),
                None => self.driver.detach(device, block.memory),
            }
        }
        for (device, pool) in self.pools.iter_mut().enumerate() {
            pool.clear_all().into_iter().for_each(|m| self.driver.free(device, m));
        }
        for buffer in std::mem::take(&mut self.stuck) {
            if let Some(host) = self.hosts.remove(&buffer) {
                std::mem::forget(host);
            }
        }
    }
}
