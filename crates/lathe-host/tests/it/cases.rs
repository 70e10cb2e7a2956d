//! What plans look like.

use crate::fake::Fake;
use lathe_host::simulated::Ending;
use lathe_host::{Access, Action, BufferId, Device, Host, Mode, Place, codes};
use std::ops::Range;

fn device(peers: &[usize], bytes: Option<u64>) -> Device {
    Device { name: "fake".into(), bytes, streams: 4, peers: peers.to_vec() }
}

fn access(buffer: BufferId, range: Range<u64>, mode: Mode) -> Access {
    Access { buffer, range, mode }
}

fn copies(actions: &[Action]) -> Vec<(Place, Place, Range<u64>)> {
    let one = |a: &Action| match a {
        Action::Copy { from, to, range, .. } => Some((*from, *to, range.clone())),
        _ => None,
    };
    actions.iter().filter_map(one).collect()
}

/// The reduction of the thesis: each device reads a chunk and writes a part of the result.
#[test]
fn chunks_of_one_buffer_are_moved_once_and_come_back_once() {
    let mut fake = Fake::new(vec![device(&[], None); 4], 3);
    let data: Vec<u8> = (0..64).collect();
    let (input, output) = (fake.buffer(64, Some(&data)), fake.buffer(8, None));
    for d in 0..4u64 {
        let parts =
            [access(output, 2 * d..2 * d + 2, Mode::Write), access(input, 16 * d..16 * d + 16, Mode::Read)];
        for _ in 0..3 {
            fake.launch("sum", d as usize, &parts, 5, Ending::Well).expect("a launch");
        }
    }
    fake.read(output, 0..8).expect("all of it was written");
    fake.read(output, 0..8).expect("it is here now");
    fake.read(input, 0..64).expect("it never left");
    let c = fake.executor.counts();
    assert_eq!((c.to_device_bytes, c.from_device_bytes, c.copies, c.launches), (64, 8, 8, 12));
    fake.finish();
}

#[test]
fn independent_launches_run_side_by_side_and_dependent_ones_in_order() {
    let mut host = Host::new(vec![device(&[], None)]);
    let ids: Vec<BufferId> = (0..4).map(|_| host.buffer(8, false)).collect();
    let stream = |plan: &lathe_host::Plan| match plan.actions.last() {
        Some(Action::Launch { stream, after, .. }) => (*stream, after.clone()),
        other => panic!("no launch: {other:?}"),
    };
    let write = |b: usize| [access(ids[b], 0..8, Mode::Write)];
    let first = host.launch("a", 0, &write(0)).expect("a launch");
    let second = host.launch("b", 0, &write(1)).expect("a launch");
    assert_ne!(stream(&first).0, stream(&second).0);
    assert!(stream(&second).1.is_empty());
    // One that needs both follows the later and waits for the earlier.
    let both = [access(ids[0], 0..8, Mode::Read), access(ids[1], 4..8, Mode::Read), write(2)[0].clone()];
    let third = host.launch("c", 0, &both).expect("a launch");
    assert_eq!(stream(&third).0, stream(&second).0);
    assert_eq!(stream(&third).1, [first.event.expect("an event")]);
    // Readers run side by side; who overwrites waits for both.
    let reader = [access(ids[0], 0..4, Mode::Read)];
    let fourth = host.launch("d", 0, &reader).expect("a launch");
    let fifth = host.launch("e", 0, &write(0)).expect("a launch");
    let waits: Vec<_> = stream(&fifth).1.into_iter().chain([fourth.event.expect("an event")]).collect();
    assert!(waits.contains(&third.event.expect("an event")), "{waits:?}");
}

#[test]
fn devices_that_see_each_other_need_no_host() {
    let mut host = Host::new(vec![device(&[1], None), device(&[], None), device(&[], None)]);
    let b = host.buffer(8, false);
    host.launch("make", 1, &[access(b, 0..8, Mode::Write)]).expect("a launch");
    let plan = host.launch("use", 0, &[access(b, 0..8, Mode::Read)]).expect("a launch");
    assert_eq!(copies(&plan.actions), [(Place::device(1), Place::device(0), 0..8)]);
    assert!(!host.is_current(b, &(0..8), Place::HOST));
    // The third sees neither.
    let plan = host.launch("use", 2, &[access(b, 0..8, Mode::Read)]).expect("a launch");
    assert_eq!(copies(&plan.actions).len(), 2);
    assert!(host.is_current(b, &(0..8), Place::HOST) && host.is_current(b, &(0..8), Place::device(0)));
}

#[test]
fn a_full_device_gives_up_what_was_used_the_longest_ago() {
    let mut host = Host::new(vec![device(&[], Some(20))]);
    let ids: Vec<BufferId> = (0..3).map(|_| host.buffer(8, true)).collect();
    host.launch("a", 0, &[access(ids[0], 0..8, Mode::ReadWrite)]).expect("a launch");
    host.launch("b", 0, &[access(ids[1], 0..8, Mode::Read)]).expect("a launch");
    let plan = host.launch("c", 0, &[access(ids[2], 0..8, Mode::Read)]).expect("a launch");
    assert_eq!(plan.evicted, [(Place::device(0), ids[0])]);
    // Only the device had it, so it was written back.
    assert_eq!(copies(&plan.actions)[0], (Place::device(0), Place::HOST, 0..8));
    let plan = host.launch("d", 0, &[access(ids[0], 0..4, Mode::Read)]).expect("a launch");
    assert_eq!(plan.evicted, [(Place::device(0), ids[1])]);
    assert_eq!(copies(&plan.actions), [(Place::HOST, Place::device(0), 0..4)]);
    let all: Vec<Access> = ids.iter().map(|b| access(*b, 0..8, Mode::Read)).collect();
    let d = host.launch("e", 0, &all).expect_err("24 bytes on 20");
    assert!(d.code == codes::MEMORY && d.message.contains("24") && d.message.contains("20"), "{d}");
}

#[test]
fn what_is_wrong_is_refused_and_changes_nothing() {
    let mut host = Host::new(vec![device(&[], None)]);
    let (a, gone) = (host.buffer(8, false), host.buffer(8, true));
    host.release(gone);
    let try_ = |host: &mut Host, x: Access| host.launch("k", 0, &[x]).expect_err("it is wrong").code;
    assert_eq!(try_(&mut host, access(a, 0..8, Mode::Read)), codes::UNDEFINED);
    assert_eq!(try_(&mut host, access(a, 0..9, Mode::Write)), codes::PART);
    assert_eq!(try_(&mut host, access(a, u64::MAX..u64::MAX, Mode::Write)), codes::PART);
    #[expect(clippy::reversed_empty_ranges)]
    let reversed = 5..3;
    assert_eq!(try_(&mut host, access(a, reversed, Mode::Write)), codes::PART);
    assert_eq!(try_(&mut host, access(gone, 0..8, Mode::Read)), codes::PART);
    assert_eq!(host.access(&access(a, 0..1, Mode::ReadWrite)).expect_err("undefined").code, codes::UNDEFINED);
    assert_eq!(host.counts(), lathe_host::Counts::default());
    // Nothing of nothing is always there.
    host.launch("k", 0, &[access(a, 3..3, Mode::Read)]).expect("an empty part");
    host.access(&access(a, 8..8, Mode::Read)).expect("an empty part");
}

/// Order that is over is forgotten: many launches take no more memory than few.
#[test]
fn the_state_stays_small() {
    let mut fake = Fake::new(vec![device(&[], None); 2], 9);
    let b = fake.buffer(64, Some(&[0; 64]));
    let mut sizes = Vec::new();
    for n in 0..6000u64 {
        let start = n % 60;
        let part = [access(b, start..start + 4, Mode::ReadWrite)];
        fake.launch("k", (n % 2) as usize, &part, n, Ending::Well).expect("a launch");
        if n == 200 || n == 5999 {
            fake.finish();
            fake.executor.poll();
            sizes.push(format!("{:?}", fake.executor.host()).len());
        }
    }
    assert!(sizes[1] <= sizes[0] + sizes[0] / 4, "{sizes:?}");
}

/// A launch like the one before it replaces it; one that leaves something of it for others does not.
#[test]
fn launches_that_use_the_same_again_replace_one_another() {
    let mut host = Host::new(vec![device(&[], None)]);
    let (x, y) = (host.buffer(8, true), host.buffer(8, true));
    let mut replaces = |name: &str, accesses: &[Access]| match host
        .launch(name, 0, accesses)
        .expect("a launch")
        .actions
        .last()
    {
        Some(Action::Launch { replaces, .. }) => *replaces,
        other => panic!("no launch: {other:?}"),
    };
    let both = [access(y, 0..8, Mode::ReadWrite), access(x, 0..8, Mode::Read)];
    assert!(!replaces("a", &both));
    assert!(replaces("a", &both));
    assert!(!replaces("b", &both), "a failure would have the wrong name");
    // The part of `y` that this one leaves alone could be waited for without it.
    assert!(!replaces("b", &[access(y, 0..4, Mode::ReadWrite), access(x, 0..8, Mode::Read)]));
    assert!(replaces("b", &both));
    assert!(!replaces("b", &[access(y, 0..8, Mode::Read), access(x, 0..8, Mode::Read)]));
}

/// Launches on several devices at once: all copies come first, and where one cannot start none does.
#[test]
fn launches_together_start_all_or_none() {
    use lathe_host::simulated::Work;
    for seed in 0..40 {
        let mut fake = Fake::new(vec![device(&[], None); 3], seed);
        let b = fake.buffer(12, Some(&[7; 12]));
        let part = |d: u64| [access(b, 4 * d..4 * d + 4, Mode::ReadWrite)];
        let parts: Vec<[Access; 1]> = (0..3).map(part).collect();
        let work = |d: usize| Work { seed: 5, accesses: parts[d].to_vec(), ending: Ending::Well };
        let works = [work(0), work(1), work(2)];
        let all: Vec<(usize, &[Access], &Work)> = (0..3).map(|d| (d, &parts[d][..], &works[d])).collect();
        let events = fake.executor.launch_together("all", &all).expect("launches");
        assert_eq!(events.len(), 3);
        let first = fake.read(b, 0..12).expect("they ended");
        assert_ne!(first, [7; 12]);
        // The second device's part cannot be made: nothing happens to the others.
        fake.launch("bad", 1, &parts[1], 1, Ending::Fault).expect("a launch");
        let started = fake.executor.launch_together("all", &all);
        match started {
            Ok(_) => {
                for d in 0..3u64 {
                    let told = fake.read(b, 4 * d..4 * d + 4).expect_err("it was not made");
                    assert_eq!(told.code, codes::FAILED);
                }
            }
            Err(d) => assert_eq!(d.code, codes::FAILED),
        }
        fake.finish();
    }
}
