//! Simulated devices: memory of their own, actions that take time and end in any order that streams and marks allow, a
//! bounded size, and faults on demand.
//!
//! They see what real devices hide: two actions at once on common bytes, memory that is given back while it is used, and
//! memory of the host that someone uses while a copy does.

use crate::driver::{Driver, Fault, FaultKind, Interval, Side};
use crate::plan::{Access, Stream};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// What kernels compute: each byte that one writes is a mixture of its place, of all that the kernel reads, and of a number.
pub fn mix(seed: u64, read: &[u8], place: u64) -> u8 {
    let mut h = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place;
    for b in read {
        h = (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
    }
    (h >> 24) as u8
}

/// How a kernel ends badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Well,
    /// A fault that leaves the device usable; what it writes is anything.
    Fault,
    /// The device is lost with it.
    Loss,
    /// It does not end.
    Never,
}

/// A kernel: it reads and writes what the launch says.
#[derive(Clone, Debug)]
pub struct Work {
    pub seed: u64,
    pub accesses: Vec<Access>,
    pub ending: Ending,
}

/// Memory of a device or of the host, by number.
pub type Id = u64;

#[derive(Clone, Debug)]
enum Kind {
    Nothing,
    Copy,
    Kernel { seed: u64, ending: Ending },
}

/// A part of some memory, and whether it is written.
#[derive(Clone, Debug)]
struct Part {
    memory: Id,
    range: Range<u64>,
    reads: bool,
    writes: bool,
}

#[derive(Clone, Debug)]
struct Op {
    mark: u64,
    after: Vec<u64>,
    kind: Kind,
    parts: Vec<Part>,
    /// What it read when it began.
    read: Vec<u8>,
}

/// Devices that are simulated by one driver.
pub struct Simulated {
    bounds: Vec<Option<u64>>,
    lost: Vec<Option<String>>,
    /// Bytes, and the device that has them.
    memory: BTreeMap<Id, (Option<usize>, Vec<u8>)>,
    queues: BTreeMap<Stream, VecDeque<Op>>,
    running: BTreeMap<Stream, Op>,
    /// How actions ended, by their marks.
    outcomes: BTreeMap<u64, Option<Fault>>,
    /// The newest mark of each stream.
    newest: BTreeMap<Stream, u64>,
    /// Launches whose ends are told with that of a launch which replaced them.
    with: BTreeMap<u64, u64>,
    random: ChaCha8Rng,
    next: u64,
    clock: f64,
    /// So many allocations are refused though there is room.
    pub refuse: u32,
}

impl Simulated {
    /// Devices with so much memory each (`None`: without bound); the seed decides in which order things happen.
    pub fn new(bounds: Vec<Option<u64>>, seed: u64) -> Simulated {
        Simulated {
            lost: vec![None; bounds.len()],
            bounds,
            memory: BTreeMap::new(),
            queues: BTreeMap::new(),
            running: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            newest: BTreeMap::new(),
            with: BTreeMap::new(),
            random: ChaCha8Rng::seed_from_u64(seed),
            next: 0,
            clock: 0.0,
            refuse: 0,
        }
    }

    /// Memory of the host with these bytes, or with bytes that mean nothing.
    pub fn host(&mut self, bytes: u64, data: Option<&[u8]>) -> Id {
        let data = data.map_or_else(|| self.junk(bytes), <[u8]>::to_vec);
        self.insert(None, data)
    }

    /// Bytes of the host's memory. Nothing that is under way may write them.
    pub fn read(&self, host: Id, range: &Range<u64>) -> Vec<u8> {
        self.unused(host, range, false);
        self.memory[&host].1[range.start as usize..range.end as usize].to_vec()
    }

    /// Writes bytes of the host's memory. Nothing that is under way may use them.
    pub fn write(&mut self, host: Id, at: u64, data: &[u8]) {
        self.unused(host, &(at..at + data.len() as u64), true);
        let memory = &mut self.memory.get_mut(&host).expect("memory of the host").1;
        memory[at as usize..][..data.len()].copy_from_slice(data);
    }

    /// The next action of a device finds it gone.
    pub fn lose(&mut self, device: usize, why: &str) {
        self.lost[device] = Some(why.to_string());
        let here = |s: &Stream| s.device as usize == device;
        self.queues.retain(|s, _| !here(s));
        self.running.retain(|s, _| !here(s));
        self.memory.retain(|_, m| m.0 != Some(device));
    }

    /// Lets some time pass.
    pub fn pass(&mut self, most: u32) {
        for _ in 0..self.random.gen_range(0..most) {
            self.step();
        }
    }

    /// How many actions have not ended.
    pub fn under_way(&self) -> usize {
        self.running.len() + self.queues.values().map(VecDeque::len).sum::<usize>()
    }

    /// Bytes that a device holds.
    pub fn held(&self, device: usize) -> u64 {
        self.memory.values().filter(|m| m.0 == Some(device)).map(|m| m.1.len() as u64).sum()
    }

    fn junk(&mut self, bytes: u64) -> Vec<u8> {
        (0..bytes).map(|_| self.random.r#gen()).collect()
    }

    fn insert(&mut self, device: Option<usize>, data: Vec<u8>) -> Id {
        self.next += 1;
        self.memory.insert(self.next, (device, data));
        self.next
    }

    fn parts_under_way(&self) -> impl Iterator<Item = &Part> {
        self.running.values().chain(self.queues.values().flatten()).flat_map(|o| &o.parts)
    }

    fn unused(&self, memory: Id, range: &Range<u64>, writes: bool) {
        for p in self.parts_under_way().filter(|p| p.memory == memory && meet(&p.range, range)) {
            assert!(!(p.writes || writes), "the host uses what an action does: {range:?}, {p:?}");
        }
    }

    fn push(&mut self, stream: Stream, after: &[u64], kind: Kind, parts: Vec<Part>) -> Result<u64, Fault> {
        if let Some(why) = &self.lost[stream.device as usize] {
            return Err(Fault::new(FaultKind::Lost, why.clone()));
        }
        let parts: Vec<Part> = parts.into_iter().filter(|p| !p.range.is_empty()).collect();
        for p in &parts {
            assert!(self.memory.contains_key(&p.memory), "an action uses memory that is gone: {p:?}");
        }
        self.next += 1;
        let after = after.iter().map(|m| self.told_with(*m)).collect();
        let op = Op { mark: self.next, after, kind, parts, read: Vec::new() };
        let mark = op.mark;
        self.queues.entry(stream).or_default().push_back(op);
        self.newest.insert(stream, mark);
        self.pass(4);
        Ok(mark)
    }

    /// Lets one action begin or end; whether there was one.
    fn step(&mut self) -> bool {
        let live: Vec<u64> =
            self.running.values().chain(self.queues.values().flatten()).map(|o| o.mark).collect();
        let ready = |s: &Stream, q: &VecDeque<Op>| {
            !self.running.contains_key(s)
                && q.front().is_some_and(|o| !o.after.iter().any(|m| live.contains(m)))
        };
        let begin: Vec<Stream> = self.queues.iter().filter(|(s, q)| ready(s, q)).map(|(s, _)| *s).collect();
        let never = |o: &Op| matches!(o.kind, Kind::Kernel { ending: Ending::Never, .. });
        let end: Vec<Stream> = self.running.iter().filter(|(_, o)| !never(o)).map(|(s, _)| *s).collect();
        let n = begin.len() + end.len();
        if n == 0 {
            return false;
        }
        self.clock += 1e-6;
        let k = self.random.gen_range(0..n);
        match begin.get(k) {
            Some(s) => self.begin(*s),
            None => self.end(end[k - begin.len()]),
        }
        true
    }

    fn begin(&mut self, stream: Stream) {
        let mut op = self.queues.get_mut(&stream).and_then(VecDeque::pop_front).expect("one that is ready");
        if op.parts.iter().any(|p| !self.memory.contains_key(&p.memory)) {
            let fault = Fault::new(FaultKind::Failed, "it uses memory of a device that is lost");
            self.outcomes.insert(op.mark, Some(fault));
            return;
        }
        for other in self.running.values() {
            for a in &op.parts {
                for b in other.parts.iter().filter(|b| b.memory == a.memory && meet(&a.range, &b.range)) {
                    assert!(!(a.writes || b.writes), "a race: {op:?} and {other:?}");
                }
            }
        }
        let bytes =
            |p: &Part| self.memory[&p.memory].1[p.range.start as usize..p.range.end as usize].to_vec();
        op.read = op.parts.iter().filter(|p| p.reads).flat_map(bytes).collect();
        self.running.insert(stream, op);
    }

    fn end(&mut self, stream: Stream) {
        let op = self.running.remove(&stream).expect("one that runs");
        let mut fault = None;
        let gone = |p: &Part| !self.memory.contains_key(&p.memory);
        if op.parts.iter().any(gone) {
            fault = Some(Fault::new(FaultKind::Failed, "it uses memory of a device that is lost"));
            self.outcomes.insert(op.mark, fault);
            return;
        }
        for p in op.parts.iter().filter(|p| p.writes) {
            for (k, i) in p.range.clone().enumerate() {
                let value = match op.kind {
                    Kind::Kernel { ending: Ending::Fault, .. } => self.random.r#gen(),
                    Kind::Kernel { seed, .. } => mix(seed, &op.read, i),
                    Kind::Copy | Kind::Nothing => op.read[k],
                };
                self.memory.get_mut(&p.memory).expect("memory of an action").1[i as usize] = value;
            }
        }
        match op.kind {
            Kind::Kernel { ending: Ending::Fault, .. } => {
                fault = Some(Fault::new(FaultKind::Failed, "a fault"))
            }
            Kind::Kernel { ending: Ending::Loss, .. } => {
                self.lose(stream.device as usize, "an illegal access");
                fault = Some(Fault::new(FaultKind::Lost, "an illegal access"));
            }
            _ => {}
        }
        self.outcomes.insert(op.mark, fault);
    }

    /// The mark with which the end of an action is told.
    fn told_with(&self, mark: u64) -> u64 {
        let mut last = mark;
        while let Some(next) = self.with.get(&last) {
            last = *next;
        }
        last
    }

    fn is_live(&self, mark: u64) -> bool {
        self.running.values().chain(self.queues.values().flatten()).any(|o| o.mark == mark)
    }
}

fn meet(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

fn part(memory: Id, range: &Range<u64>, reads: bool, writes: bool) -> Part {
    Part { memory, range: range.clone(), reads, writes }
}

impl Driver for Simulated {
    type Memory = Id;
    type Host = Id;
    /// With the number of its device.
    type Mark = (usize, u64);
    type Work = Work;

    fn allocate(&mut self, device: usize, bytes: u64) -> Result<Id, Fault> {
        if let Some(why) = &self.lost[device] {
            return Err(Fault::new(FaultKind::Lost, why.clone()));
        }
        if self.refuse > 0 {
            self.refuse -= 1;
            return Err(Fault::new(FaultKind::Memory, "out of memory"));
        }
        let held = self.held(device) + bytes;
        assert!(self.bounds[device].is_none_or(|b| held <= b), "{held} bytes are more than the device has");
        let junk = self.junk(bytes);
        Ok(self.insert(Some(device), junk))
    }

    fn attach(&mut self, _: usize, host: &Id) -> Result<Id, Fault> {
        Ok(*host)
    }

    fn detach(&mut self, _: usize, _: Id) {}

    fn free(&mut self, device: usize, memory: Id) {
        assert!(!self.parts_under_way().any(|p| p.memory == memory), "memory is given back while it is used");
        match self.memory.get(&memory) {
            Some((Some(d), _)) if *d == device => drop(self.memory.remove(&memory)),
            other => assert!(self.lost[device].is_some(), "freed twice: {other:?}"),
        }
    }

    fn copy(
        &mut self,
        stream: Stream,
        after: &[(usize, u64)],
        from: Side<'_, Id, Id>,
        to: Side<'_, Id, Id>,
        range: &Range<u64>,
    ) -> Result<(usize, u64), Fault> {
        let id = |s: &Side<'_, Id, Id>| match s {
            Side::Host(m) | Side::Device(_, m) => **m,
        };
        let parts = vec![part(id(&from), range, true, false), part(id(&to), range, false, true)];
        let after: Vec<u64> = after.iter().map(|m| m.1).collect();
        Ok((stream.device as usize, self.push(stream, &after, Kind::Copy, parts)?))
    }

    fn launch(
        &mut self,
        stream: Stream,
        after: &[(usize, u64)],
        work: &Work,
        memory: &[Option<&Id>],
        replaces: bool,
    ) -> Result<(usize, u64), Fault> {
        let one =
            |(a, m): (&Access, &Option<&Id>)| m.map(|m| part(*m, &a.range, a.mode.reads(), a.mode.writes()));
        let parts = work.accesses.iter().zip(memory).filter_map(one).collect();
        let after: Vec<u64> = after.iter().map(|m| m.1).collect();
        let kind = Kind::Kernel { seed: work.seed, ending: work.ending };
        let before = self.newest.get(&stream).copied().filter(|_| replaces && self.random.gen_bool(0.8));
        let mark = self.push(stream, &after, kind, parts)?;
        self.with.extend(before.map(|b| (b, mark)));
        Ok((stream.device as usize, mark))
    }

    fn mark(&mut self, stream: Stream, after: &[(usize, u64)]) -> Result<(usize, u64), Fault> {
        let after: Vec<u64> = after.iter().map(|m| m.1).collect();
        Ok((stream.device as usize, self.push(stream, &after, Kind::Nothing, Vec::new())?))
    }

    fn ended(&mut self, mark: &(usize, u64)) -> Result<bool, Fault> {
        self.pass(3);
        let told = self.outcomes.contains_key(&self.told_with(mark.1)) || self.lost[mark.0].is_some();
        match self.outcomes.get(&mark.1).filter(|_| told) {
            Some(Some(fault)) => Err(fault.clone()),
            Some(None) => Ok(true),
            None => match &self.lost[mark.0] {
                Some(why) => Err(Fault::new(FaultKind::Lost, why.clone())),
                None => Ok(false),
            },
        }
    }

    fn wait(&mut self, mark: &(usize, u64)) -> Result<(), Fault> {
        while self.is_live(self.told_with(mark.1)) {
            if !self.step() {
                let never = |o: &Op| matches!(o.kind, Kind::Kernel { ending: Ending::Never, .. });
                assert!(self.running.values().any(never), "waits for what never ends: {:?}", self.queues);
                let device = self.running.iter().find(|(_, o)| never(o)).map(|(s, _)| s.device as usize);
                self.lose(device.unwrap_or(mark.0), "a kernel does not end");
            }
        }
        self.ended(mark).map(|_| ())
    }

    fn interval(&mut self, _: &(usize, u64)) -> Option<Interval> {
        Some(Interval { start: self.clock, end: self.clock })
    }
}
