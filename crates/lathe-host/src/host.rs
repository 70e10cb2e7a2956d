//! The state of all buffers, and the plans for launches and accesses of the host.

use crate::buffer::Buffer;
use crate::codes;
use crate::events::{Event, Events, Failure, Few};
use crate::plan::{Access, Action, BufferId, Mode, Place, Plan, Stream};
use crate::streams::{Accesses, Streams};
use lathe_diagnostics::Diagnostic;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// What is known about a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// For messages.
    pub name: String,
    /// How much memory buffers may take there; `None`: no bound.
    pub bytes: Option<u64>,
    /// Queues for launches.
    pub streams: usize,
    /// The devices, by number, whose memory it can read without going through the host.
    pub peers: Vec<usize>,
}

/// What was asked of drivers so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub to_device_bytes: u64,
    pub from_device_bytes: u64,
    /// From one device to another.
    pub between_bytes: u64,
    pub copies: u64,
    pub launches: u64,
    pub evictions: u64,
}

/// Buffers, devices, and what is under way between them.
#[derive(Clone, Debug)]
pub struct Host {
    pub(crate) devices: Vec<Device>,
    streams: Vec<Streams>,
    lost: Vec<bool>,
    /// Whether the user was told that a device is full.
    told: Vec<bool>,
    pub(crate) buffers: BTreeMap<BufferId, Buffer>,
    pub(crate) events: Events,
    pub(crate) counts: Counts,
    next: u64,
    clock: u64,
}

impl Host {
    pub fn new(devices: Vec<Device>) -> Host {
        let streams = devices.iter().zip(0..).map(|(d, n)| Streams::new(n, d.streams)).collect();
        Host {
            lost: vec![false; devices.len()],
            told: vec![false; devices.len()],
            devices,
            streams,
            buffers: BTreeMap::new(),
            events: Events::default(),
            counts: Counts::default(),
            next: 0,
            clock: 0,
        }
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn events(&self) -> &Events {
        &self.events
    }

    /// A buffer of so many bytes. Whether it is `defined`: its bytes on the host count.
    pub fn buffer(&mut self, bytes: u64, defined: bool) -> BufferId {
        self.insert(Buffer::new(bytes, self.devices.len() + 1, defined, false))
    }

    /// A buffer whose memory on the host is that of all devices, too: nothing of it is copied, and no device holds it.
    pub fn shared(&mut self, bytes: u64, defined: bool) -> BufferId {
        self.insert(Buffer::new(bytes, self.devices.len() + 1, defined, true))
    }

    fn insert(&mut self, buffer: Buffer) -> BufferId {
        let id = BufferId(self.next);
        self.next += 1;
        self.buffers.insert(id, buffer);
        id
    }

    /// Whether a buffer is one of [`Host::shared`].
    pub fn is_shared(&self, buffer: BufferId) -> bool {
        self.buffers.get(&buffer).is_some_and(|b| b.shared)
    }

    pub(crate) fn device(&self, n: usize) -> &Device {
        &self.devices[n]
    }

    /// Whether this is the first time that someone asks so of a device.
    pub(crate) fn first_eviction(&mut self, device: usize) -> bool {
        !std::mem::replace(&mut self.told[device], true)
    }

    /// Whether the newest bytes of a range lie at a place, or will once what is under way has ended.
    pub fn is_current(&self, buffer: BufferId, range: &Range<u64>, at: Place) -> bool {
        let Some(b) = self.buffers.get(&buffer) else { return false };
        b.pieces.of(range).all(|(_, c)| c[b.at(at).index()].valid)
    }

    /// Memory on a device for what a launch or a prefetch uses; what must leave the device for that is written back first.
    ///
    /// # Errors
    /// As [`Host::launch`]; nothing is planned then.
    pub fn reserve(
        &mut self,
        name: &str,
        device: usize,
        accesses: &[Access],
        plan: &mut Plan,
    ) -> Result<(), Diagnostic> {
        let at = Place::device(device);
        if self.lost.get(device).is_none_or(|l| *l) {
            let why = match self.devices.get(device) {
                Some(d) => format!("the device {device} (`{}`) was lost", d.name),
                None => format!("there is no device {device}"),
            };
            let text = format!("`{name}` cannot be launched: {why}");
            return Err(Diagnostic::error(codes::LOST, text));
        }
        for a in accesses {
            self.possible(name, a)?;
        }
        let mut used: SmallVec<[BufferId; 8]> =
            accesses.iter().filter(|a| !a.range.is_empty()).map(|a| a.buffer).collect();
        used.sort_unstable();
        used.dedup();
        self.make_room(at, &used, plan)?;
        self.clock += 1;
        for id in &used {
            let b = self.buffers.get_mut(id).expect("it was looked at above");
            b.used[at.index()] = self.clock;
            if !b.allocated[at.index()] {
                b.allocated[at.index()] = true;
                plan.actions.push(Action::Allocate { at, buffer: *id, bytes: b.pieces.len() });
            }
        }
        Ok(())
    }

    /// The memory that was reserved on a device could not be allocated, except where it is there.
    pub(crate) fn unreserve(&mut self, device: usize, there: &dyn Fn(BufferId) -> bool) {
        let at = Place::device(device).index();
        self.buffers.iter_mut().filter(|(id, _)| !there(**id)).for_each(|(_, b)| b.allocated[at] = false);
    }

    /// Copies of what a device does not have of a part of a buffer.
    ///
    /// # Errors
    /// As [`Host::launch`].
    pub fn prefetch(&mut self, device: usize, access: &Access) -> Result<Plan, Diagnostic> {
        let mut plan = Plan::default();
        self.reserve("a prefetch", device, std::slice::from_ref(access), &mut plan)?;
        self.fetch(access.buffer, Place::device(device), &access.range, &mut plan);
        Ok(plan)
    }

    /// A launch on a device: memory, copies of what it reads and is not there, and the launch itself.
    ///
    /// # Errors
    /// `E0851` to `E0853` and `E0855`, and `E0854` where it would read what failed; nothing is planned then.
    pub fn launch(&mut self, name: &str, device: usize, accesses: &[Access]) -> Result<Plan, Diagnostic> {
        let mut plan = Plan::default();
        self.reserve(name, device, accesses, &mut plan)?;
        Ok(self.launch_reserved(name, device, accesses, &[], plan))
    }

    /// What makes the bytes that a launch on a device reads there, once they are on their way there.
    pub(crate) fn makers(&self, device: usize, accesses: &[Access]) -> Few {
        let reads = accesses.iter().filter(|a| a.mode.reads());
        let makers = reads.flat_map(|a| self.buffers[&a.buffer].before_read(Place::device(device), &a.range));
        makers.filter(|e| self.events.is_pending(*e)).collect()
    }

    /// A launch whose memory was reserved just now; it needs these events, too.
    pub(crate) fn launch_reserved(
        &mut self,
        name: &str,
        device: usize,
        accesses: &[Access],
        others: &[Event],
        mut plan: Plan,
    ) -> Plan {
        let at = Place::device(device);
        let accesses = disjoint(accesses);
        for a in accesses.iter().filter(|a| a.mode.reads()) {
            self.fetch(a.buffer, at, &a.range, &mut plan);
        }
        let (mut needs, mut after) = (Few::from_slice(others), Few::new());
        for a in &accesses {
            let b = &self.buffers[&a.buffer];
            if a.mode.reads() {
                needs.extend(b.before_read(at, &a.range));
            }
            if a.mode.writes() {
                after.extend(b.before_write(at, &a.range));
            }
        }
        let stream = self.streams[device].launch([&needs, &after], &self.events);
        let name = self.events.named(name);
        let (event, waits) = self.events.add(Arc::clone(&name), stream, needs, &after);
        let replaces = self.streams[device].given(stream, event, name, &accesses);
        let events = &self.events;
        for a in &accesses {
            let b = self.buffers.get_mut(&a.buffer).expect("it was looked at above");
            match a.mode.writes() {
                true => b.write(at, &a.range, Some(event), true),
                false => b.read(at, &a.range, event, &|e| events.stream(e).is_none_or(|s| s == stream)),
            }
        }
        self.counts.launches += 1;
        plan.actions.push(Action::Launch { event, stream, after: waits, replaces });
        plan.event = Some(event);
        plan
    }

    /// Before an access of the host: copies of what it reads and is not there, and what it waits for. Once these have
    /// ended, [`Host::accessed`] says whether the host may go on.
    ///
    /// # Errors
    /// `E0851`, `E0852`, and `E0854` where a launch failed that should have written what is read; nothing is planned
    /// then.
    pub fn access(&mut self, access: &Access) -> Result<Plan, Diagnostic> {
        self.possible("the host", access)?;
        let mut plan = Plan::default();
        if access.mode.reads() {
            self.fetch(access.buffer, Place::HOST, &access.range, &mut plan);
        }
        let b = &self.buffers[&access.buffer];
        plan.wait = match access.mode.writes() {
            true => b.before_write(Place::HOST, &access.range).collect(),
            false => b.before_read(Place::HOST, &access.range).collect(),
        };
        self.only_pending(&mut plan.wait);
        Ok(plan)
    }

    /// All that an access waited for has ended: from now to the next launch or access the host has the range to
    /// itself. What it says to write counts as written.
    ///
    /// # Errors
    /// `E0854`, with the launch that failed first, where it should have written what is read.
    pub fn accessed(&mut self, access: &Access) -> Result<(), Diagnostic> {
        self.possible("the host", access)?;
        if access.mode.writes() {
            let b = self.buffers.get_mut(&access.buffer).expect("it was looked at above");
            b.write(Place::HOST, &access.range, None, true);
        }
        Ok(())
    }

    /// Gives a buffer's memory back, everywhere; the host's once the plan's events have ended.
    pub fn release(&mut self, buffer: BufferId) -> Plan {
        let mut plan = Plan::default();
        for n in 0..self.devices.len() {
            self.free(Place::device(n), buffer, &mut plan);
        }
        if let Some(b) = self.buffers.remove(&buffer) {
            plan.wait = b.before_write(Place::HOST, &(0..b.pieces.len())).collect();
            self.only_pending(&mut plan.wait);
        }
        plan
    }

    /// An action has completed, or was skipped in its turn.
    pub fn done(&mut self, event: Event) {
        self.events.done(event);
    }

    /// Forgets what no longer matters, so that the state of buffers stays small; an executor calls it now and then.
    pub fn tidy(&mut self) {
        let events = &self.events;
        let pending = |e: Event| events.is_pending(e);
        let failed = |e: Event| events.failure(e).is_some();
        self.buffers.values_mut().for_each(|b| b.forget(&pending, &failed));
        let buffers = &self.buffers;
        self.events.keep_failures(&|e| buffers.values().any(|b| b.mentions(&|m| *m == e)));
    }

    /// An action has ended badly. What needs what it should have written will not happen either: [`Events::failure`]
    /// says so, and an executor then calls [`Host::done`] in the action's turn without doing it.
    pub fn failed(&mut self, event: Event, why: &str) {
        self.fail(event, why);
        self.events.done(event);
    }

    /// An action will not be done; it ends in its turn all the same ([`Host::done`]).
    pub fn refuse(&mut self, event: Event, why: &str) {
        self.fail(event, why);
    }

    /// Whether an action that has ended went well.
    ///
    /// # Errors
    /// `E0854` with what failed first.
    pub fn outcome(&self, event: Event) -> Result<(), Diagnostic> {
        self.events.failure(event).map_or(Ok(()), |f| Err(failed(f, &(0..0))))
    }

    fn fail(&mut self, event: Event, why: &str) {
        let failed = self.events.fail(event, why);
        self.buffers.values_mut().for_each(|b| b.unwritten(&failed));
    }

    /// A device is lost: it runs nothing any more, and data that only it held is lost. Its actions fail,
    /// and end in their turn as those after [`Host::failed`] do.
    pub fn lost(&mut self, device: usize, why: &str) {
        // Kernels take devices with them more often than copies do: these are blamed for what nothing else explains.
        let (launches, copies) =
            self.events.of_device(device as u32).into_iter().partition(|e| e.1.is_launch());
        let all: [Vec<_>; 2] = [launches, copies];
        for (e, _) in all.into_iter().flatten() {
            self.fail(e, why);
        }
        self.lost[device] = true;
        let at = Place::device(device);
        self.buffers.values_mut().for_each(|b| b.forsake(at));
    }

    /// The buffers that such events write or read.
    pub(crate) fn users(&self, events: &dyn Fn(&Event) -> bool) -> Vec<BufferId> {
        self.buffers.iter().filter(|(_, b)| b.mentions(events)).map(|(id, _)| *id).collect()
    }

    /// Copies what is not current at a place to it.
    fn fetch(&mut self, id: BufferId, to: Place, range: &Range<u64>, plan: &mut Plan) {
        let b = &self.buffers[&id];
        if b.shared {
            return;
        }
        let mut missing: Vec<(Place, Vec<Range<u64>>)> = Vec::new();
        for (piece, copies) in b.pieces.of(range) {
            if copies[to.index()].valid {
                continue;
            }
            let valid = |p: &Place| copies[p.index()].valid;
            let Some(from) = self.sources(to).into_iter().find(valid) else { continue };
            match missing.iter_mut().find(|m| m.0 == from) {
                Some(m) => m.1.push(piece),
                None => missing.push((from, vec![piece])),
            }
        }
        for (from, pieces) in missing {
            for piece in joined(pieces) {
                if self.direct(from, to) {
                    self.copy(id, from, to, piece, plan);
                } else {
                    self.copy(id, from, Place::HOST, piece.clone(), plan);
                    self.copy(id, Place::HOST, to, piece, plan);
                }
            }
        }
    }

    /// From where bytes are taken, best first: the host, devices that can be read directly, the rest through the host.
    fn sources(&self, to: Place) -> Vec<Place> {
        let devices = (0..self.devices.len()).map(Place::device).filter(|p| *p != to);
        let (direct, rest): (Vec<Place>, Vec<Place>) = devices.partition(|p| self.direct(*p, to));
        std::iter::once(Place::HOST).filter(|p| *p != to).chain(direct).chain(rest).collect()
    }

    fn direct(&self, from: Place, to: Place) -> bool {
        match (from.number(), to.number()) {
            (Some(from), Some(to)) => self.devices[to].peers.contains(&from),
            _ => true,
        }
    }

    /// One copy, whose bytes are then current in both places.
    pub(crate) fn copy(&mut self, id: BufferId, from: Place, to: Place, range: Range<u64>, plan: &mut Plan) {
        let b = self.buffers.get_mut(&id).expect("a buffer that is there");
        let needs: Few = b.before_read(from, &range).collect();
        let after: Few = b.before_write(to, &range).collect();
        let bytes = range.end - range.start;
        let stream: Stream = match (from.number(), to.number()) {
            (Some(from), Some(to)) => self.streams[to].across(from),
            (None, Some(to)) => self.streams[to].up(),
            (Some(from), None) => self.streams[from].down(),
            (None, None) => return,
        };
        let what =
            format!("the copy of {bytes} bytes {} {}", towards(to), device_of(&self.devices, from, to));
        let (event, waits) = self.events.add(what.into(), stream, needs, &after);
        let events = &self.events;
        let b = self.buffers.get_mut(&id).expect("a buffer that is there");
        b.read(from, &range, event, &|e| events.stream(e).is_none_or(|s| s == stream));
        b.write(to, &range, Some(event), false);
        self.counts.copies += 1;
        match (from.number(), to.number()) {
            (None, _) => self.counts.to_device_bytes += bytes,
            (_, None) => self.counts.from_device_bytes += bytes,
            _ => self.counts.between_bytes += bytes,
        }
        plan.actions.push(Action::Copy { event, buffer: id, from, to, range, stream, after: waits });
    }

    /// Whether an access can be planned.
    fn possible(&self, who: &str, a: &Access) -> Result<(), Diagnostic> {
        let Some(b) = self.buffers.get(&a.buffer) else {
            return Err(Diagnostic::error(codes::PART, format!("{who} uses a buffer that was released")));
        };
        let Range { start, end } = a.range;
        if start > end || end > b.pieces.len() {
            let text = format!("{who} uses bytes {start} to {end} of a buffer of {}", b.pieces.len());
            return Err(Diagnostic::error(codes::PART, text));
        }
        if !a.mode.reads() {
            return Ok(());
        }
        for (piece, copies) in b.pieces.of(&a.range) {
            if copies.iter().any(|c| c.valid) {
                continue;
            }
            if let Some(f) = copies.iter().find_map(|c| self.events.failure(c.written?)) {
                return Err(failed(f, &piece));
            }
            let text = format!("{who} reads bytes {} to {}, which are uninitialized", piece.start, piece.end);
            if self.lost.iter().any(|l| *l) {
                let d = Diagnostic::error(codes::LOST, text);
                return Err(d.note("they may have been on the device that was lost"));
            }
            return Err(Diagnostic::error(codes::UNDEFINED, text));
        }
        Ok(())
    }

    pub(crate) fn only_pending(&self, events: &mut Vec<Event>) {
        events.sort_unstable();
        events.dedup();
        events.retain(|e| self.events.is_pending(*e));
    }
}

fn failed(f: &Failure, piece: &Range<u64>) -> Diagnostic {
    let d = Diagnostic::error(codes::FAILED, format!("{} failed: {}", f.name, f.why));
    match piece.is_empty() {
        true => d,
        false => d.note(format!(
            "bytes {} to {} should have been written by it or after it",
            piece.start, piece.end
        )),
    }
}

fn towards(to: Place) -> &'static str {
    if to == Place::HOST { "from" } else { "to" }
}

fn device_of(devices: &[Device], from: Place, to: Place) -> String {
    let n = to.number().or(from.number()).unwrap_or(0);
    format!("`{}`", devices[n].name)
}

/// The same accesses with every byte in one only: what is read by one and written by another is both. A buffer of
/// which no byte is used is not there: its memory is not needed.
fn disjoint(accesses: &[Access]) -> Accesses {
    let meet = |a: &Access, b: &Access| {
        a.buffer == b.buffer && a.range.start.max(b.range.start) < a.range.end.min(b.range.end)
    };
    let mut apart = Accesses::new();
    for a in accesses.iter().filter(|a| !a.range.is_empty()) {
        if apart.iter().any(|b| meet(a, b)) {
            return split(accesses);
        }
        apart.push(a.clone());
    }
    apart
}

fn split(accesses: &[Access]) -> Accesses {
    let mut buffers: BTreeMap<BufferId, Vec<&Access>> = BTreeMap::new();
    for a in accesses {
        buffers.entry(a.buffer).or_default().push(a);
    }
    let mut out = Accesses::new();
    for (buffer, all) in buffers {
        let mut ends: Vec<u64> = all.iter().flat_map(|a| [a.range.start, a.range.end]).collect();
        ends.sort_unstable();
        ends.dedup();
        for w in ends.windows(2) {
            let here = all.iter().filter(|a| a.range.start <= w[0] && w[1] <= a.range.end);
            let (mut reads, mut writes) = (false, false);
            here.for_each(|a| (reads, writes) = (reads || a.mode.reads(), writes || a.mode.writes()));
            let mode = match (reads, writes) {
                (false, false) => continue,
                (true, false) => Mode::Read,
                (false, true) => Mode::Write,
                (true, true) => Mode::ReadWrite,
            };
            match out.last_mut() {
                Some(o) if o.buffer == buffer && o.mode == mode && o.range.end == w[0] => o.range.end = w[1],
                _ => out.push(Access { buffer, range: w[0]..w[1], mode }),
            }
        }
    }
    out
}

/// Neighbours as one range.
pub(crate) fn joined(ranges: Vec<std::ops::Range<u64>>) -> Vec<std::ops::Range<u64>> {
    let mut out: Vec<std::ops::Range<u64>> = Vec::new();
    for r in ranges {
        match out.last_mut() {
            Some(last) if last.end == r.start => last.end = r.end,
            _ => out.push(r),
        }
    }
    out
}
