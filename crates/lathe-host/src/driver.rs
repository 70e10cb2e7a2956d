//! What a driver does: the interface between plans and devices.
//!
//! An [`Executor`](crate::Executor) gives the actions of plans to a driver, which starts them and returns. Every action
//! ends in a mark; a driver says whether a mark was reached, and what went wrong before it. A driver decides nothing
//! about order or copies: it starts what it is given after the marks that it is given.

use crate::plan::Stream;
use std::ops::Range;

/// What is left of a device after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// There is no memory for what was asked; nothing changed.
    Memory,
    /// This action was not done, or not in full; others go on.
    Failed,
    /// The device does nothing any more.
    Lost,
}

/// Why a device did not do what it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// In the words of the driver.
    pub text: String,
}

impl Fault {
    pub fn new(kind: FaultKind, text: impl Into<String>) -> Fault {
        Fault { kind, text: text.into() }
    }
}

/// One end of a copy.
#[derive(Debug)]
pub enum Side<'a, H, M> {
    Host(&'a H),
    /// The memory of a device, with its number.
    Device(usize, &'a M),
}

/// When something ran, in seconds by one clock of the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub start: f64,
    pub end: f64,
}

/// All devices of an executor; they have numbers from 0. Actions of one [`Stream`] run in the order in which they were
/// given, each after the marks that it is given besides, which may be those of other devices.
pub trait Driver {
    /// Memory on a device.
    type Memory;
    /// Memory of the host for a whole buffer, which copies may use while the host does other things.
    type Host;
    /// The end of an action.
    type Mark: Clone;
    /// What a launch starts.
    type Work: ?Sized;

    /// Memory of so many bytes on a device.
    ///
    /// # Errors
    /// [`FaultKind::Memory`] where there is none.
    fn allocate(&mut self, device: usize, bytes: u64) -> Result<Self::Memory, Fault>;

    /// The host's memory of a buffer as a device sees it, for buffers that all places share.
    ///
    /// # Errors
    /// Where the device does not see it.
    fn attach(&mut self, device: usize, host: &Self::Host) -> Result<Self::Memory, Fault>;

    /// A device need not see the host's memory of a buffer any more.
    fn detach(&mut self, device: usize, memory: Self::Memory);

    /// Gives memory back that nothing uses any more.
    fn free(&mut self, device: usize, memory: Self::Memory);

    /// Starts a copy of a range of bytes; both sides have memory for the whole buffer.
    ///
    /// # Errors
    /// What the driver refuses.
    fn copy(
        &mut self,
        stream: Stream,
        after: &[Self::Mark],
        from: Side<'_, Self::Host, Self::Memory>,
        to: Side<'_, Self::Host, Self::Memory>,
        range: &Range<u64>,
    ) -> Result<Self::Mark, Fault>;

    /// Starts a kernel, on the memory of each buffer that it uses (none where no byte is used). Where it `replaces` the
    /// launch before it in its stream, nobody minds if that one is said to have ended only once this one has: a driver saves
    /// the mark between the two.
    ///
    /// # Errors
    /// What the driver refuses.
    fn launch(
        &mut self,
        stream: Stream,
        after: &[Self::Mark],
        work: &Self::Work,
        memory: &[Option<&Self::Memory>],
        replaces: bool,
    ) -> Result<Self::Mark, Fault>;

    /// A mark behind what the stream was given, and behind other marks.
    ///
    /// # Errors
    /// What the driver refuses.
    fn mark(&mut self, stream: Stream, after: &[Self::Mark]) -> Result<Self::Mark, Fault>;

    /// Whether a mark was reached.
    ///
    /// # Errors
    /// What went wrong with its action.
    fn ended(&mut self, mark: &Self::Mark) -> Result<bool, Fault>;

    /// Waits until a mark was reached.
    ///
    /// # Errors
    /// What went wrong with its action; [`FaultKind::Lost`] where it takes longer than the driver allows.
    fn wait(&mut self, mark: &Self::Mark) -> Result<(), Fault>;

    /// A device is lost: nothing is asked of it any more, and what lies there stays there.
    fn lost(&mut self, _device: usize) {}

    /// When the action of a mark that was reached ran; none where times are not taken.
    fn interval(&mut self, mark: &Self::Mark) -> Option<Interval>;
}
