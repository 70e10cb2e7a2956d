//! The actions that a host plans for drivers.

use crate::Event;
use std::ops::Range;

/// Where bytes lie: in the host's memory (0), or in that of a device (its number plus 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub(crate) u32);

impl Place {
    pub const HOST: Place = Place(0);

    /// The memory of the `n`-th device.
    pub fn device(n: usize) -> Place {
        Place(u32::try_from(n + 1).expect("fewer devices"))
    }

    /// The number of the device; `None` for the host.
    pub fn number(self) -> Option<usize> {
        (self.0 as usize).checked_sub(1)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A buffer: one array of bytes, wherever its parts lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub(crate) u64);

impl BufferId {
    /// In the order in which buffers were made.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A queue of a device, whose actions run one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    pub device: u32,
    pub number: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Read,
    /// Every byte of the range is overwritten: what it held is not needed. Bytes that are not are undefined afterwards.
    Write,
    ReadWrite,
}

impl Mode {
    pub fn reads(self) -> bool {
        self != Mode::Write
    }

    pub fn writes(self) -> bool {
        self != Mode::Read
    }
}

/// A part of a buffer that a launch or the host uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub buffer: BufferId,
    /// In bytes.
    pub range: Range<u64>,
    pub mode: Mode,
}

/// One thing that a driver does. Those of a plan are given to drivers in its order; each runs once the actions of its
/// stream that were given before have ended, and the events that it is `after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Memory for the whole buffer, before the next action that names both.
    Allocate { at: Place, buffer: BufferId, bytes: u64 },
    /// Bytes from one place to another; one of the two may be the host.
    Copy {
        event: Event,
        buffer: BufferId,
        from: Place,
        to: Place,
        range: Range<u64>,
        stream: Stream,
        after: Vec<Event>,
    },
    /// The kernel of the launch that the plan is for.
    ///
    /// Where it `replaces` the launch before it in its stream, whoever waits for that one may as well wait for this one:
    /// drivers need not tell the ends of the two apart.
    Launch { event: Event, stream: Stream, after: Vec<Event>, replaces: bool },
    /// The memory of a buffer is given back once these have ended.
    Free { at: Place, buffer: BufferId, after: Vec<Event> },
}

/// What a launch or an access of the host needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub actions: Vec<Action>,
    /// What the host waits for before it goes on.
    pub wait: Vec<Event>,
    /// The event of the launch.
    pub event: Option<Event>,
    /// What was evicted from which device, for a message to the user.
    pub evicted: Vec<(Place, BufferId)>,
}

impl Plan {
    pub(crate) fn clear(&mut self) {
        self.actions.clear();
        self.wait.clear();
        self.event = None;
        self.evicted.clear();
    }
}
