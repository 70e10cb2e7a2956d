//! Launches that fail: what needs them fails with them, everything else goes on, and the host is told which it was.

use crate::fake::{Fake, mix};
use lathe_host::simulated::Ending;
use lathe_host::{Access, BufferId, Device, Mode, codes};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn device(n: usize) -> Device {
    Device { name: format!("fake {n}"), bytes: None, streams: 2, peers: Vec::new() }
}

/// A byte is worth something, or a launch that failed should have made it: its name.
type Byte = Result<u8, String>;

#[test]
fn what_failed_is_told_where_it_is_read_and_nowhere_else() {
    let (mut told, mut read) = (0, 0);
    for seed in 0..crate::cases() {
        let mut r = ChaCha8Rng::seed_from_u64(seed);
        let mut fake = Fake::new((0..2).map(device).collect(), seed);
        let mut model: Vec<(BufferId, Vec<Byte>)> = (0..3)
            .map(|_| {
                let data: Vec<u8> = (0..12).map(|_| r.r#gen()).collect();
                (fake.buffer(12, Some(&data)), data.into_iter().map(Ok).collect())
            })
            .collect();
        let mut last = None;
        for step in 0..25u64 {
            let n = r.gen_range(0..3);
            let (a, b) = (r.gen_range(0..=12u64), r.gen_range(0..=12u64));
            let range = a.min(b)..a.max(b);
            let here = range.start as usize..range.end as usize;
            if r.gen_bool(0.3) {
                let want: Result<Vec<u8>, String> = model[n].1[here].iter().cloned().collect();
                match (fake.read(model[n].0, range), want) {
                    (Ok(got), Ok(want)) => assert_eq!(got, want, "seed {seed}, step {step}"),
                    (Err(d), Err(name)) => {
                        assert!(d.code == codes::FAILED && d.message.contains("launch "), "{d}, by {name}");
                        told += 1;
                    }
                    (got, want) => panic!("seed {seed}, step {step}: {got:?}, but {want:?}"),
                }
                read += 1;
                continue;
            }
            // Some are what was launched last once more, whose end may be told with that of this one.
            let again = last.take().filter(|_| r.gen_bool(0.5));
            let (n, range, m, name) =
                again.unwrap_or_else(|| (n, range, r.gen_range(0..3), format!("launch {step}")));
            last = Some((n, range.clone(), m, name.clone()));
            let here = range.start as usize..range.end as usize;
            let accesses = [
                Access { buffer: model[n].0, range: range.clone(), mode: Mode::Read },
                Access { buffer: model[m].0, range: 0..6, mode: Mode::Write },
            ];
            let fails = r.gen_bool(0.15);
            let ending = if fails { Ending::Fault } else { Ending::Well };
            // What a launch both reads and writes, it reads first.
            let seen: Result<Vec<u8>, String> = model[n].1[here].iter().cloned().collect();
            match fake.launch(&name, r.gen_range(0..2), &accesses, step, ending) {
                Ok(_) => {
                    let made = |i: u64| match (&seen, fails) {
                        (Err(first), _) => Err(first.clone()),
                        (_, true) => Err(name.clone()),
                        (Ok(seen), false) => Ok(mix(step, seen, i)),
                    };
                    (0..6).for_each(|i| model[m].1[i as usize] = made(i));
                }
                // It is known by now that what it reads was not made.
                Err(d) => assert!(d.code == codes::FAILED && seen.is_err(), "seed {seed}, step {step}: {d}"),
            }
        }
        fake.finish();
    }
    assert!(told > crate::cases() / 4 && read > 4 * told, "{told} of {read}");
}

/// A kernel that takes its device with it, and one that does not end: the others go on, and what the host has stays.
#[test]
fn devices_that_do_nothing_any_more_are_left_alone() {
    for (seed, ending) in (0..20).flat_map(|s| [(s, Ending::Loss), (s, Ending::Never)]) {
        let mut fake = Fake::new((0..2).map(device).collect(), seed);
        let ids: Vec<BufferId> = (0..3u8).map(|n| fake.buffer(4, Some(&[n; 4]))).collect();
        let access = |n: usize, mode| Access { buffer: ids[n], range: 0..4, mode };
        fake.launch("fine", 1, &[access(1, Mode::ReadWrite)], 1, Ending::Well).expect("a launch");
        fake.launch("bad", 0, &[access(0, Mode::Read), access(2, Mode::Write)], 1, ending).expect("a launch");
        let d = fake.read(ids[2], 0..4).expect_err("it was not written");
        assert!(d.code == codes::FAILED && d.message.contains("bad"), "seed {seed}: {d}");
        assert_eq!(fake.read(ids[0], 0..4).expect("the host has it"), [0; 4]);
        fake.read(ids[1], 0..4).expect("the other device goes on");
        let d = fake.launch("after", 0, &[access(0, Mode::Read)], 1, Ending::Well).expect_err("no device");
        assert_eq!(d.code, codes::LOST);
        fake.launch("after", 1, &[access(0, Mode::Read), access(2, Mode::Write)], 1, Ending::Well)
            .expect("a launch");
        fake.read(ids[2], 0..4).expect("it was written again");
        fake.finish();
    }
}

/// A driver that has no memory where the plan says that there is some: what is kept goes first; then the launch is refused,
/// and nothing has changed.
#[test]
fn memory_that_a_driver_does_not_have() {
    let mut fake = Fake::new(vec![Device { bytes: Some(64), ..device(0) }], 1);
    let ids: Vec<BufferId> = [20, 24, 22]
        .into_iter()
        .zip(0u8..)
        .map(|(len, n)| fake.buffer(len, Some(&vec![n; len as usize])))
        .collect();
    let access = |n: usize, mode| Access { buffer: ids[n], range: 0..20, mode };
    fake.launch("first", 0, &[access(0, Mode::ReadWrite)], 1, Ending::Well).expect("a launch");
    let gone = fake.buffer(21, None);
    fake.launch("gone", 0, &[Access { buffer: gone, range: 0..21, mode: Mode::Write }], 1, Ending::Well)
        .expect("a launch");
    fake.release(gone);
    fake.executor.driver().refuse = 1;
    fake.launch("second", 0, &[access(2, Mode::ReadWrite)], 1, Ending::Well)
        .expect("what was kept makes room");
    let first = fake.read(ids[0], 0..20).expect("it was written");
    fake.executor.driver().refuse = 9;
    let d = fake.launch("third", 0, &[access(0, Mode::Read), access(1, Mode::ReadWrite)], 1, Ending::Well);
    assert_eq!(d.expect_err("no memory").code, codes::MEMORY);
    assert_eq!(fake.read(ids[1], 0..20).expect("the host has it"), [1; 20]);
    assert_eq!(fake.read(ids[0], 0..20).expect("it was written"), first);
    fake.executor.driver().refuse = 0;
    fake.launch("third", 0, &[access(0, Mode::Read), access(1, Mode::ReadWrite)], 1, Ending::Well)
        .expect("a launch");
    fake.finish();
}

#[test]
fn a_device_that_is_lost_takes_only_what_nobody_else_has() {
    let mut fake = Fake::new((0..2).map(device).collect(), 1);
    let (a, b) = (fake.buffer(4, Some(&[1, 2, 3, 4])), fake.buffer(4, Some(&[5, 6, 7, 8])));
    let read = |buffer| Access { buffer, range: 0..4, mode: Mode::Read };
    let write = |buffer| Access { buffer, range: 0..2, mode: Mode::Write };
    fake.launch("first", 0, &[read(a), write(b)], 1, Ending::Well).expect("a launch");
    fake.executor.driver().lose(0, "it fell off the bus");
    assert_eq!(fake.read(a, 0..4).expect("the host has it"), [1, 2, 3, 4]);
    assert_eq!(fake.read(b, 2..4).expect("the host has it"), [7, 8]);
    let d = fake.read(b, 0..4).expect_err("half of it is gone");
    assert!([codes::LOST, codes::FAILED].contains(&d.code), "{d}");
    assert_eq!(
        fake.launch("second", 0, &[read(a)], 1, Ending::Well).expect_err("no device").code,
        codes::LOST
    );
    assert_eq!(
        fake.launch("second", 7, &[read(a)], 1, Ending::Well).expect_err("no device").code,
        codes::LOST
    );
    fake.write(b, 0, &[9, 9]).expect("it can be written again");
    fake.launch("third", 1, &[read(b), Access { mode: Mode::ReadWrite, ..read(a) }], 1, Ending::Well)
        .expect("goes on");
    assert_eq!(fake.read(b, 0..4).expect("whole again"), [9, 9, 7, 8]);
    fake.read(a, 0..4).expect("made by the other device");
    fake.finish();
}
