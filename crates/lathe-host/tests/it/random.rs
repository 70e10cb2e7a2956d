//! Random programs of launches, copies in chunks and accesses of the host, against the same program run in its order on one
//! memory, and against the least number of bytes that must move, byte by byte.

use crate::fake::{Fake, mix};
use lathe_host::simulated::Ending;
use lathe_host::{Access, BufferId, Device, Mode, codes};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};

/// A byte: what it is worth, if anything, and where it is current: bit 0 for the host, bit n + 1 for a device. What all
/// places share is current everywhere.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Byte {
    value: Option<u8>,
    places: u64,
}

/// The program in its order, and the least that moves.
struct Model {
    devices: Vec<Device>,
    bytes: BTreeMap<BufferId, Vec<Byte>>,
    shared: BTreeSet<BufferId>,
    up: u64,
    down: u64,
    between: u64,
}

impl Model {
    /// Where a byte is current that was written at these places.
    fn places(&self, buffer: BufferId, written: u64) -> u64 {
        if self.shared.contains(&buffer) { u64::MAX } else { written }
    }

    /// A device needs a byte.
    fn fetch(&mut self, buffer: BufferId, i: usize, device: usize) {
        let b = &mut self.bytes.get_mut(&buffer).expect("a buffer")[i];
        let here = 2u64 << device;
        if b.places & here != 0 {
            return;
        }
        let peer = self.devices[device].peers.iter().any(|p| b.places & (2u64 << p) != 0);
        if b.places & 1 != 0 {
            self.up += 1;
        } else if peer {
            self.between += 1;
        } else {
            self.down += 1;
            self.up += 1;
            b.places |= 1;
        }
        b.places |= here;
    }
}

fn devices(r: &mut ChaCha8Rng) -> Vec<Device> {
    let count = r.gen_range(1..=3);
    let bytes = r.gen_bool(0.5).then(|| r.gen_range(30..60u64));
    let one = |n: usize, r: &mut ChaCha8Rng| Device {
        name: format!("fake {n}"),
        bytes,
        streams: r.gen_range(1..=4),
        peers: (0..count).filter(|p| *p != n && r.gen_bool(0.4)).collect(),
    };
    (0..count).map(|n| one(n, r)).collect()
}

fn part(r: &mut ChaCha8Rng, len: u64) -> std::ops::Range<u64> {
    if r.gen_bool(0.3) {
        return 0..len;
    }
    let (a, b) = (r.gen_range(0..=len), r.gen_range(0..=len));
    a.min(b)..a.max(b)
}

#[test]
fn random_programs_do_what_they_do_in_their_order() {
    let (mut evictions, mut refused, mut moved) = (0, 0, 0);
    for seed in 0..crate::cases() {
        let mut r = ChaCha8Rng::seed_from_u64(seed);
        let devices = devices(&mut r);
        let mut fake = Fake::new(devices.clone(), seed);
        let mut model =
            Model { devices, bytes: BTreeMap::new(), shared: BTreeSet::new(), up: 0, down: 0, between: 0 };
        let mut ids: Vec<BufferId> = Vec::new();
        let mut last: Option<Launched> = None;
        for step in 0..r.gen_range(5..40u64) {
            match r.gen_range(0..10) {
                0 => make(&mut r, &mut fake, &mut model, &mut ids),
                1 if ids.len() > 1 => {
                    let id = ids.swap_remove(r.gen_range(0..ids.len()));
                    fake.release(id);
                    model.bytes.remove(&id);
                    last = last.filter(|l| l.1.iter().all(|a| a.buffer != id));
                }
                _ if ids.is_empty() => make(&mut r, &mut fake, &mut model, &mut ids),
                2 | 3 => read(&mut r, &mut fake, &mut model, &ids, seed),
                4 => {
                    let id = ids[r.gen_range(0..ids.len())];
                    let range = part(&mut r, model.bytes[&id].len() as u64);
                    let data: Vec<u8> = range.clone().map(|_| r.r#gen()).collect();
                    fake.write(id, range.start, &data).expect("writes are possible");
                    let places = model.places(id, 1);
                    for (i, v) in range.zip(data) {
                        model.bytes.get_mut(&id).expect("a buffer")[i as usize] =
                            Byte { value: Some(v), places };
                    }
                }
                _ => {
                    refused +=
                        u32::from(!launch(&mut r, &mut fake, &mut model, &ids, (seed, step), &mut last))
                }
            }
        }
        for id in ids {
            let len = model.bytes[&id].len() as u64;
            let want: Option<Vec<u8>> = model.bytes[&id].iter().map(|b| b.value).collect();
            if let Some(want) = want {
                count_read(&mut model, id, 0..len);
                assert_eq!(fake.read(id, 0..len).expect("it is defined"), want, "seed {seed}");
            }
        }
        fake.finish();
        let c = fake.executor.counts();
        evictions += c.evictions;
        if c.evictions == 0 {
            let got = (c.to_device_bytes, c.from_device_bytes, c.between_bytes);
            assert_eq!(got, (model.up, model.down, model.between), "seed {seed}: not the least");
            moved += model.up + model.down + model.between;
        }
    }
    // The programs do what they are for.
    let refused = u64::from(refused);
    let least = crate::cases() / 10;
    assert!(
        evictions > least && moved > crate::cases() && refused > least,
        "{evictions} evictions, {moved} bytes, {refused} refusals"
    );
}

fn make(r: &mut ChaCha8Rng, fake: &mut Fake, model: &mut Model, ids: &mut Vec<BufferId>) {
    let len = r.gen_range(0..40u64);
    let data: Option<Vec<u8>> = r.gen_bool(0.8).then(|| (0..len).map(|_| r.r#gen()).collect());
    let id = if r.gen_bool(0.1) {
        let id = fake.shared(len, data.as_deref());
        model.shared.insert(id);
        id
    } else {
        fake.buffer(len, data.as_deref())
    };
    let places = model.places(id, 1);
    let byte = |i: u64| match &data {
        Some(d) => Byte { value: Some(d[i as usize]), places },
        None => Byte { value: None, places: 0 },
    };
    model.bytes.insert(id, (0..len).map(byte).collect());
    ids.push(id);
}

fn count_read(model: &mut Model, id: BufferId, range: std::ops::Range<u64>) {
    for i in range {
        let b = &mut model.bytes.get_mut(&id).expect("a buffer")[i as usize];
        model.down += u64::from(b.places & 1 == 0);
        b.places |= 1;
    }
}

fn read(r: &mut ChaCha8Rng, fake: &mut Fake, model: &mut Model, ids: &[BufferId], seed: u64) {
    let id = ids[r.gen_range(0..ids.len())];
    let range = part(r, model.bytes[&id].len() as u64);
    let bytes = &model.bytes[&id][range.start as usize..range.end as usize];
    let want: Option<Vec<u8>> = bytes.iter().map(|b| b.value).collect();
    match (fake.read(id, range.clone()), want) {
        (Ok(got), Some(want)) => {
            assert_eq!(got, want, "seed {seed}");
            count_read(model, id, range);
        }
        (Err(d), None) => assert_eq!(d.code, codes::UNDEFINED, "seed {seed}"),
        (got, want) => panic!("seed {seed}: {got:?}, but {want:?}"),
    }
}

/// A device, and what a launch there used.
type Launched = (usize, Vec<Access>);

/// Whether it was possible. Some are what was launched last once more.
fn launch(
    r: &mut ChaCha8Rng,
    fake: &mut Fake,
    model: &mut Model,
    ids: &[BufferId],
    (seed, step): (u64, u64),
    last: &mut Option<Launched>,
) -> bool {
    let again = last.take().filter(|_| r.gen_bool(0.3));
    let device = again.as_ref().map_or_else(|| r.gen_range(0..model.devices.len()), |l| l.0);
    let mut accesses: Vec<Access> = again.map(|l| l.1).unwrap_or_default();
    let fresh = if accesses.is_empty() { r.gen_range(1..=4) } else { 0 };
    for _ in 0..fresh {
        let buffer = ids[r.gen_range(0..ids.len())];
        let mode = [Mode::Read, Mode::Read, Mode::Write, Mode::ReadWrite][r.gen_range(0..4)];
        accesses.push(Access { buffer, range: part(r, model.bytes[&buffer].len() as u64), mode });
    }
    let at = |a: &Access| a.range.start as usize..a.range.end as usize;
    let undefined = accesses
        .iter()
        .any(|a| a.mode.reads() && model.bytes[&a.buffer][at(a)].iter().any(|b| b.value.is_none()));
    let mut used: Vec<BufferId> = accesses.iter().filter(|a| !a.range.is_empty()).map(|a| a.buffer).collect();
    used.sort_unstable();
    used.dedup();
    let size: u64 =
        used.iter().filter(|b| !model.shared.contains(b)).map(|b| model.bytes[b].len() as u64).sum();
    let large = model.devices[device].bytes.is_some_and(|b| size > b);
    match fake.launch("kernel", device, &accesses, seed ^ step, Ending::Well) {
        Err(d) => {
            let code = if undefined { codes::UNDEFINED } else { codes::MEMORY };
            assert!((undefined || large) && d.code == code, "seed {seed}, step {step}: {d}");
            return false;
        }
        Ok(_) => assert!(!undefined && !large, "seed {seed}, step {step}: accepted"),
    }
    let mut seen: Vec<u8> = Vec::new();
    for a in accesses.iter().filter(|a| a.mode.reads()) {
        seen.extend(model.bytes[&a.buffer][at(a)].iter().filter_map(|b| b.value));
        at(a).for_each(|i| model.fetch(a.buffer, i, device));
    }
    *last = Some((device, accesses.clone()));
    for a in accesses.iter().filter(|a| a.mode.writes()) {
        let places = model.places(a.buffer, 2u64 << device);
        for i in at(a) {
            let value = Some(mix(seed ^ step, &seen, i as u64));
            model.bytes.get_mut(&a.buffer).expect("a buffer")[i] = Byte { value, places };
        }
    }
    true
}
