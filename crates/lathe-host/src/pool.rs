//! Memory of a device that was given back and is kept, since drivers take long to allocate.

use crate::Event;
use std::collections::BTreeMap;

/// The blocks of one device, in use or kept.
#[derive(Debug)]
pub(crate) struct Pool<M> {
    /// Bytes that all blocks may take together; `None`: no bound.
    pub bound: Option<u64>,
    /// Of all blocks.
    held: u64,
    /// By size.
    kept: BTreeMap<u64, Vec<M>>,
    /// What is given back once these have ended.
    waiting: Vec<Waiting<M>>,
}

#[derive(Debug)]
struct Waiting<M> {
    events: Vec<Event>,
    size: u64,
    memory: M,
}

/// Memory of a buffer on a device.
pub(crate) struct Block<M> {
    pub memory: M,
    /// None for memory of the host that a device sees.
    pub size: Option<u64>,
}

/// The size of the block for so many bytes: from a page on with three significant bits, so that few sizes are kept apart
/// and at most an eighth is unused.
pub(crate) fn size_of_block(bytes: u64) -> u64 {
    if bytes < 4096 {
        return bytes;
    }
    let step = (1u64 << bytes.ilog2()) >> 3;
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

impl<M> Pool<M> {
    pub fn new(bound: Option<u64>) -> Pool<M> {
        Pool { bound, held: 0, kept: BTreeMap::new(), waiting: Vec::new() }
    }

    /// A block that is kept for this size.
    pub fn take(&mut self, size: u64) -> Option<M> {
        let kept = self.kept.get_mut(&size)?;
        let memory = kept.pop();
        if kept.is_empty() {
            self.kept.remove(&size);
        }
        memory
    }

    /// Whether a new block of this size stays within the bound.
    pub fn fits(&self, size: u64) -> bool {
        self.bound.is_none_or(|b| self.held.saturating_add(size) <= b)
    }

    /// The driver allocated a block.
    pub fn allocated(&mut self, size: u64) {
        self.held += size;
    }

    /// A block is not used any more once these events have ended.
    pub fn give(&mut self, size: u64, memory: M, events: Vec<Event>) {
        match events.is_empty() {
            true => self.kept.entry(size).or_default().push(memory),
            false => self.waiting.push(Waiting { events, size, memory }),
        }
    }

    /// Keeps the blocks whose events have ended.
    pub fn settle(&mut self, pending: &dyn Fn(Event) -> bool) {
        let (over, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|w| !w.events.iter().any(|e| pending(*e)));
        self.waiting = waiting;
        for w in over {
            self.kept.entry(w.size).or_default().push(w.memory);
        }
    }

    /// Whether every block is in use.
    pub fn is_idle(&self) -> bool {
        self.kept.is_empty() && self.waiting.is_empty()
    }

    /// The events that the block waits for which was given back first.
    pub fn first(&self) -> Option<Vec<Event>> {
        self.waiting.first().map(|w| w.events.clone())
    }

    /// Takes everything out that is kept: the driver gets it back.
    pub fn clear(&mut self) -> Vec<M> {
        let kept = std::mem::take(&mut self.kept);
        self.held -= kept.iter().map(|(size, m)| size * m.len() as u64).sum::<u64>();
        kept.into_values().flatten().collect()
    }

    /// Everything, with what waits.
    pub fn clear_all(&mut self) -> Vec<M> {
        self.settle(&|_| false);
        self.clear()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_waste_at_most_an_eighth() {
        for bytes in (0..70_000).chain([u64::from(u32::MAX), (80 << 30) + 1]) {
            let size = size_of_block(bytes);
            assert!(size >= bytes && size - bytes <= bytes / 8, "{bytes}: {size}");
            assert_eq!(size_of_block(size), size);
        }
        assert_eq!(size_of_block(u64::MAX), u64::MAX);
    }

    #[test]
    fn what_is_given_back_is_taken_again_once_nothing_uses_it() {
        let mut pool = Pool::new(Some(100));
        assert!(pool.fits(100) && !pool.fits(101));
        pool.allocated(60);
        assert!(pool.take(60).is_none() && !pool.fits(41));
        pool.give(60, 'a', vec![Event(3), Event(4)]);
        pool.settle(&|e| e == Event(4));
        assert!(pool.take(60).is_none());
        assert_eq!(pool.first(), Some(vec![Event(3), Event(4)]));
        pool.settle(&|_| false);
        assert_eq!((pool.take(40), pool.take(60), pool.take(60)), (None, Some('a'), None));
        pool.give(60, 'a', Vec::new());
        assert_eq!(pool.clear(), ['a']);
        assert!(pool.fits(100));
    }
}
