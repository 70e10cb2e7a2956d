//! Devices that are made up.

use lathe_diagnostics::Diagnostic;
use lathe_host::{Access, Action, BufferId, Device, Event, Host, Mode, Place, Plan, Stream};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// What a kernel does: each byte that it writes is a mixture of its place, of all that the kernel reads, and of a number.
pub fn mix(seed: u64, read: &[u8], place: u64) -> u8 {
    let mut h = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place;
    for b in read {
        h = (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
    }
    (h >> 24) as u8
}

#[derive(Clone, Debug)]
enum Work {
    Copy { buffer: BufferId, from: Place, to: Place, range: Range<u64> },
    Launch { at: Place, accesses: Vec<Access>, seed: u64, fails: bool },
}

#[derive(Clone, Debug)]
struct Op {
    event: Event,
    after: Vec<Event>,
    work: Work,
    /// What it read when it began.
    read: Vec<u8>,
}

/// The bytes that an action touches: where, which, and whether it writes them.
fn touched(work: &Work) -> Vec<(Place, BufferId, Range<u64>, bool)> {
    match work {
        Work::Copy { buffer, from, to, range } => {
            vec![(*from, *buffer, range.clone(), false), (*to, *buffer, range.clone(), true)]
        }
        Work::Launch { at, accesses, .. } => {
            let used = accesses.iter().filter(|a| !a.range.is_empty());
            used.map(|a| (*at, a.buffer, a.range.clone(), a.mode.writes())).collect()
        }
    }
}

pub struct Fake {
    pub host: Host,
    devices: Vec<Device>,
    memory: BTreeMap<(Place, BufferId), Vec<u8>>,
    queues: BTreeMap<Stream, VecDeque<Op>>,
    running: BTreeMap<Stream, Op>,
    random: ChaCha8Rng,
    /// Bytes that every device held at most.
    pub most: Vec<u64>,
}

impl Fake {
    pub fn new(devices: Vec<Device>, seed: u64) -> Fake {
        Fake {
            host: Host::new(devices.clone()),
            most: vec![0; devices.len()],
            devices,
            memory: BTreeMap::new(),
            queues: BTreeMap::new(),
            running: BTreeMap::new(),
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// A buffer with these bytes, or with bytes that mean nothing.
    pub fn buffer(&mut self, bytes: u64, data: Option<&[u8]>) -> BufferId {
        let id = self.host.buffer(bytes, data.is_some());
        let random = || self.random.r#gen();
        let junk: Vec<u8> = std::iter::repeat_with(random).take(bytes as usize).collect();
        self.memory.insert((Place::HOST, id), data.map_or(junk, <[u8]>::to_vec));
        id
    }

    pub fn launch(
        &mut self,
        name: &str,
        device: usize,
        accesses: &[Access],
        seed: u64,
        fails: bool,
    ) -> Result<Plan, Diagnostic> {
        let plan = self.host.launch(name, device, accesses)?;
        let work = Work::Launch { at: Place::device(device), accesses: accesses.to_vec(), seed, fails };
        self.take(&plan, Some(work));
        // Time passes, or does not.
        for _ in 0..self.random.gen_range(0..6) {
            self.step();
        }
        Ok(plan)
    }

    pub fn read(&mut self, buffer: BufferId, range: Range<u64>) -> Result<Vec<u8>, Diagnostic> {
        let access = Access { buffer, range: range.clone(), mode: Mode::Read };
        self.access(&access)?;
        Ok(self.memory[&(Place::HOST, buffer)][range.start as usize..range.end as usize].to_vec())
    }

    pub fn write(&mut self, buffer: BufferId, at: u64, data: &[u8]) -> Result<(), Diagnostic> {
        let range = at..at + data.len() as u64;
        self.access(&Access { buffer, range: range.clone(), mode: Mode::Write })?;
        let memory = self.memory.get_mut(&(Place::HOST, buffer)).expect("memory");
        memory[range.start as usize..range.end as usize].copy_from_slice(data);
        Ok(())
    }

    fn access(&mut self, access: &Access) -> Result<(), Diagnostic> {
        let plan = self.host.access(access)?;
        self.take(&plan, None);
        self.wait(&plan.wait);
        self.host.accessed(access)?;
        // Nothing that still runs touches what the host now has.
        let all = self.running.values().chain(self.queues.values().flatten());
        for (place, buffer, range, writes) in all.flat_map(|o| touched(&o.work)) {
            let meets = buffer == access.buffer
                && range.start.max(access.range.start) < range.end.min(access.range.end);
            assert!(
                !(place == Place::HOST && meets && (writes || access.mode.writes())),
                "the host may not use what is in use"
            );
        }
        Ok(())
    }

    pub fn release(&mut self, buffer: BufferId) {
        let plan = self.host.release(buffer);
        self.take(&plan, None);
        self.wait(&plan.wait);
        self.memory.remove(&(Place::HOST, buffer));
    }

    /// Until everything has ended.
    pub fn finish(&mut self) {
        while self.step() {}
        assert!(self.queues.values().all(VecDeque::is_empty), "waits for what never ends: {:?}", self.queues);
        assert_eq!(self.host.events().pending(), 0);
    }

    pub fn lose(&mut self, device: usize) {
        self.host.lost(device, "it fell off the bus");
        self.memory.retain(|(place, _), _| *place != Place::device(device));
    }

    fn take(&mut self, plan: &Plan, mut launch: Option<Work>) {
        for a in &plan.actions {
            match a {
                Action::Allocate { at, buffer, bytes } => {
                    let random = || self.random.r#gen();
                    let junk: Vec<u8> = std::iter::repeat_with(random).take(*bytes as usize).collect();
                    let old = self.memory.insert((*at, *buffer), junk);
                    assert!(old.is_none(), "allocated twice");
                    let n = at.number().expect("a device");
                    let held: u64 =
                        self.memory.iter().filter(|m| m.0.0 == *at).map(|m| m.1.len() as u64).sum();
                    assert!(self.devices[n].bytes.is_none_or(|b| held <= b), "more than the device has");
                    self.most[n] = self.most[n].max(held);
                }
                Action::Free { at, buffer, after } => {
                    self.wait(after);
                    let used = |o: &Op| touched(&o.work).iter().any(|t| (t.0, t.1) == (*at, *buffer));
                    let all = || self.running.values().chain(self.queues.values().flatten());
                    assert!(!all().any(used), "memory is given back while it is used");
                    assert!(self.memory.remove(&(*at, *buffer)).is_some(), "freed twice");
                }
                Action::Copy { event, buffer, from, to, range, stream, after } => {
                    let work = Work::Copy { buffer: *buffer, from: *from, to: *to, range: range.clone() };
                    self.push(*stream, *event, after, work);
                }
                Action::Launch { event, stream, after } => {
                    let work = launch.take().expect("one launch for a plan");
                    self.push(*stream, *event, after, work);
                }
            }
        }
    }

    fn push(&mut self, stream: Stream, event: Event, after: &[Event], work: Work) {
        let op = Op { event, after: after.to_vec(), work, read: Vec::new() };
        self.queues.entry(stream).or_default().push_back(op);
    }

    fn wait(&mut self, events: &[Event]) {
        while events.iter().any(|e| self.host.events().is_pending(*e)) {
            assert!(self.step(), "waits for what never ends");
        }
    }

    /// Lets one action begin or end; whether there was one.
    fn step(&mut self) -> bool {
        let over = |e: &Event| !self.host.events().is_pending(*e);
        let ready = |s: &Stream, q: &VecDeque<Op>| {
            !self.running.contains_key(s) && q.front().is_some_and(|o| o.after.iter().all(over))
        };
        let begin: Vec<Stream> = self.queues.iter().filter(|(s, q)| ready(s, q)).map(|(s, _)| *s).collect();
        let end: Vec<Stream> = self.running.keys().copied().collect();
        let n = begin.len() + end.len();
        if n == 0 {
            return false;
        }
        let k = self.random.gen_range(0..n);
        match begin.get(k) {
            Some(s) => self.begin(*s),
            None => self.end(end[k - begin.len()]),
        }
        if self.random.gen_bool(0.1) {
            self.host.tidy();
        }
        true
    }

    fn begin(&mut self, stream: Stream) {
        let mut op = self.queues.get_mut(&stream).and_then(VecDeque::pop_front).expect("one that is ready");
        if self.host.events().failure(op.event).is_some() {
            return self.host.done(op.event);
        }
        for other in self.running.values() {
            for a in touched(&op.work) {
                for b in touched(&other.work) {
                    let common = a.2.start.max(b.2.start) < a.2.end.min(b.2.end);
                    let race = (a.0, a.1) == (b.0, b.1) && common && (a.3 || b.3);
                    assert!(!race, "a race: {:?} and {:?}", op.work, other.work);
                }
            }
        }
        let part = |at: Place, b: BufferId, r: &Range<u64>| {
            self.memory[&(at, b)][r.start as usize..r.end as usize].to_vec()
        };
        op.read = match &op.work {
            Work::Copy { buffer, from, range, .. } => part(*from, *buffer, range),
            Work::Launch { at, accesses, .. } => {
                let reads = accesses.iter().filter(|a| a.mode.reads() && !a.range.is_empty());
                reads.flat_map(|a| part(*at, a.buffer, &a.range)).collect()
            }
        };
        self.running.insert(stream, op);
    }

    fn end(&mut self, stream: Stream) {
        let op = self.running.remove(&stream).expect("one that runs");
        // Its device was lost meanwhile.
        if self.host.events().failure(op.event).is_some() {
            return self.host.done(op.event);
        }
        match op.work {
            Work::Copy { buffer, to, range, .. } => {
                let memory = self.memory.get_mut(&(to, buffer)).expect("memory");
                memory[range.start as usize..range.end as usize].copy_from_slice(&op.read);
            }
            Work::Launch { at, accesses, seed, fails } => {
                for a in accesses.iter().filter(|a| a.mode.writes()) {
                    for i in a.range.clone() {
                        let v = if fails { self.random.r#gen() } else { mix(seed, &op.read, i) };
                        self.memory.get_mut(&(at, a.buffer)).expect("memory")[i as usize] = v;
                    }
                }
                if fails {
                    self.host.failed(op.event, "a fault");
                    return;
                }
            }
        }
        self.host.done(op.event);
    }
}
