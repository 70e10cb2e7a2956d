//! Launches that fail: what needs them fails with them, everything else goes on, and the host is told which it was.

use crate::fake::{Fake, mix};
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
            let m = r.gen_range(0..3);
            let accesses = [
                Access { buffer: model[n].0, range: range.clone(), mode: Mode::Read },
                Access { buffer: model[m].0, range: 0..6, mode: Mode::Write },
            ];
            let (name, fails) = (format!("launch {step}"), r.gen_bool(0.15));
            // What a launch both reads and writes, it reads first.
            let seen: Result<Vec<u8>, String> = model[n].1[here].iter().cloned().collect();
            match fake.launch(&name, r.gen_range(0..2), &accesses, step, fails) {
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

#[test]
fn a_device_that_is_lost_takes_only_what_nobody_else_has() {
    let mut fake = Fake::new((0..2).map(device).collect(), 1);
    let (a, b) = (fake.buffer(4, Some(&[1, 2, 3, 4])), fake.buffer(4, Some(&[5, 6, 7, 8])));
    let read = |buffer| Access { buffer, range: 0..4, mode: Mode::Read };
    let write = |buffer| Access { buffer, range: 0..2, mode: Mode::Write };
    fake.launch("first", 0, &[read(a), write(b)], 1, false).expect("a launch");
    fake.lose(0);
    assert_eq!(fake.read(a, 0..4).expect("the host has it"), [1, 2, 3, 4]);
    assert_eq!(fake.read(b, 2..4).expect("the host has it"), [7, 8]);
    let d = fake.read(b, 0..4).expect_err("half of it is gone");
    assert!([codes::LOST, codes::FAILED].contains(&d.code), "{d}");
    assert_eq!(fake.launch("second", 0, &[read(a)], 1, false).expect_err("no device").code, codes::LOST);
    assert_eq!(fake.launch("second", 7, &[read(a)], 1, false).expect_err("no device").code, codes::LOST);
    fake.write(b, 0, &[9, 9]).expect("it can be written again");
    fake.launch("third", 1, &[read(b), Access { mode: Mode::ReadWrite, ..read(a) }], 1, false)
        .expect("goes on");
    assert_eq!(fake.read(b, 0..4).expect("whole again"), [9, 9, 7, 8]);
    fake.read(a, 0..4).expect("made by the other device");
    fake.finish();
}
