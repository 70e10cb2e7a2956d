//! The longest chain of actions that wait for one another: what devices take that are fast enough otherwise.

use lathe_host::{Access, Action, BufferId, Device, Event, Host, Mode, Place, Stream};
use std::collections::HashMap;
use std::ops::Range;

/// When the actions of plans end that run as soon as their streams and events allow.
#[derive(Default)]
struct Clock {
    ends: HashMap<Event, u64>,
    streams: HashMap<Stream, u64>,
}

impl Clock {
    /// `cost`: of a copy between devices, and of the launch.
    fn run(&mut self, actions: &[Action], cost: (u64, u64)) {
        for a in actions {
            let (event, stream, after, takes) = match a {
                Action::Copy { event, stream, after, from, to, .. } => {
                    let far = *from == Place::HOST || *to == Place::HOST;
                    (event, stream, after, if far { 0 } else { cost.0 })
                }
                Action::Launch { event, stream, after, .. } => (event, stream, after, cost.1),
                _ => continue,
            };
            let before = after.iter().map(|e| self.ends[e]).max().unwrap_or(0);
            let last = self.streams.entry(*stream).or_default();
            *last = before.max(*last) + takes;
            self.ends.insert(*event, *last);
        }
    }

    fn end(&self) -> u64 {
        self.ends.values().copied().max().unwrap_or(0)
    }
}

fn host(devices: usize) -> Host {
    let one = |n: usize| Device {
        name: format!("fake {n}"),
        bytes: None,
        streams: 8,
        peers: (0..devices).filter(|p| *p != n).collect(),
    };
    Host::new((0..devices).map(one).collect())
}

fn access(buffer: BufferId, range: Range<u64>, mode: Mode) -> Access {
    Access { buffer, range, mode }
}

const ROWS: u64 = 10;

/// Rows of a grid on each device; every step reads one more row on each side: a kernel, then both halos of all devices at once,
/// and nothing else waits.
#[test]
fn halos_of_both_sides_arrive_at_once() {
    for devices in [2, 3, 5u64] {
        let (mut host, mut clock) = (host(devices as usize), Clock::default());
        let len = devices * ROWS;
        let (mut now, mut next) = (host.buffer(len, true), host.buffer(len, true));
        let steps = 12;
        for _ in 0..steps {
            for d in 0..devices {
                let (lo, hi) = (d * ROWS, (d + 1) * ROWS);
                let halo = lo.saturating_sub(1)..(hi + 1).min(len);
                let parts = [access(next, lo..hi, Mode::Write), access(now, halo, Mode::Read)];
                let plan = host.launch("step", d as usize, &parts).expect("a launch");
                clock.run(&plan.actions, (3, 10));
            }
            std::mem::swap(&mut now, &mut next);
        }
        assert_eq!(clock.end(), steps * 10 + (steps - 1) * 3, "{devices} devices");
        assert_eq!(host.counts().between_bytes, (steps - 1) * 2 * (devices - 1));
    }
}

/// The first and the last row of each device come before the rows between them, which need no halo: their copies take no time
/// at all.
#[test]
fn halos_move_while_the_rows_between_are_computed() {
    let devices = 4u64;
    let (mut host, mut clock) = (host(devices as usize), Clock::default());
    let len = devices * ROWS;
    let (mut now, mut next) = (host.buffer(len, true), host.buffer(len, true));
    let steps = 12;
    for _ in 0..steps {
        for (part, takes) in [(0..1, 1), (ROWS - 1..ROWS, 1), (1..ROWS - 1, 10)] {
            for d in 0..devices {
                let (lo, hi) = (d * ROWS + part.start, d * ROWS + part.end);
                let halo = lo.saturating_sub(1)..(hi + 1).min(len);
                let parts = [access(next, lo..hi, Mode::Write), access(now, halo, Mode::Read)];
                let plan = host.launch("step", d as usize, &parts).expect("a launch");
                clock.run(&plan.actions, (3, takes));
            }
        }
        std::mem::swap(&mut now, &mut next);
    }
    // At most one of the small kernels is on the way of the large ones.
    assert!(clock.end() <= steps * 11, "{}", clock.end());
}

/// What is copied to a device does not wait for what arrives from its neighbours.
#[test]
fn bytes_of_the_host_do_not_wait_for_those_of_devices() {
    let mut host = host(3);
    let (a, b, c) = (host.buffer(8, false), host.buffer(8, true), host.buffer(8, false));
    let mut streams = Vec::new();
    host.launch("a", 0, &[access(a, 0..8, Mode::Write)]).expect("a launch");
    host.launch("c", 2, &[access(c, 0..8, Mode::Write)]).expect("a launch");
    let all = [a, b, c].map(|x| access(x, 0..8, Mode::Read));
    for action in host.launch("use", 1, &all).expect("a launch").actions {
        if let Action::Copy { stream, .. } = action {
            assert!(!stream.is_launch() && !streams.contains(&stream), "{stream:?}");
            streams.push(stream);
        }
    }
    assert_eq!(streams.len(), 3);
}
