//! One buffer: where its newest bytes lie, and who uses them.

use crate::Event;
use crate::pieces::Pieces;
use crate::plan::Place;
use smallvec::SmallVec;
use std::ops::Range;

/// The copy of a piece in one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copy {
    /// It holds the newest bytes, or will once what writes it has ended.
    pub valid: bool,
    /// What wrote this memory last, even where newer bytes lie elsewhere by now.
    pub written: Option<Event>,
    /// What has read this memory since: of each stream the last.
    pub read: SmallVec<[Event; 2]>,
}

/// What is known about a piece: one copy for each place.
pub(crate) type Copies = Vec<Copy>;

#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub pieces: Pieces<Copies>,
    /// Whether each place has memory for it; the host always has.
    pub allocated: Vec<bool>,
    /// When each place was last used, by a clock that counts accesses.
    pub used: Vec<u64>,
    /// All places use the memory of the host.
    pub shared: bool,
}

impl Buffer {
    /// On the host, whose bytes count if they are `defined`.
    pub(crate) fn new(len: u64, places: usize, defined: bool, shared: bool) -> Buffer {
        let mut copies = vec![Copy::default(); places];
        copies[Place::HOST.index()].valid = defined;
        let mut allocated = vec![false; places];
        allocated[Place::HOST.index()] = true;
        Buffer { pieces: Pieces::new(len, copies), allocated, used: vec![0; places], shared }
    }

    /// Where the memory of a place is.
    pub(crate) fn at(&self, place: Place) -> Place {
        if self.shared { Place::HOST } else { place }
    }

    /// Bytes that a place holds for it, if it holds it.
    pub(crate) fn bytes_at(&self, place: Place) -> u64 {
        if self.at(place) == place { self.pieces.len() } else { 0 }
    }

    /// What must have ended before `range` at a place can be read: what wrote it.
    pub(crate) fn before_read(&self, at: Place, range: &Range<u64>) -> impl Iterator<Item = Event> {
        let at = self.at(at);
        self.pieces.of(range).filter_map(move |(_, c)| c[at.index()].written)
    }

    /// What must have ended before `range` at a place can be overwritten: what wrote it, and all that read it.
    pub(crate) fn before_write(&self, at: Place, range: &Range<u64>) -> impl Iterator<Item = Event> {
        let at = self.at(at);
        let copies = self.pieces.of(range).map(move |(_, c)| &c[at.index()]);
        copies.flat_map(|c| c.written.into_iter().chain(c.read.iter().copied()))
    }

    /// An action reads the bytes at a place. `implied` says which events have ended once this one has.
    pub(crate) fn read(
        &mut self,
        at: Place,
        range: &Range<u64>,
        event: Event,
        implied: &dyn Fn(Event) -> bool,
    ) {
        let at = self.at(at);
        self.pieces.change(range, |_, c| {
            let read = &mut c[at.index()].read;
            read.retain(|e| !implied(*e));
            read.push(event);
        });
    }

    /// The bytes at a place are overwritten; they are the newest, alone (`new`) or beside others that are the same.
    pub(crate) fn write(&mut self, at: Place, range: &Range<u64>, event: Option<Event>, new: bool) {
        let at = self.at(at);
        self.pieces.change(range, |_, copies| {
            if new {
                copies.iter_mut().for_each(|c| c.valid = false);
            }
            copies[at.index()] = Copy { valid: true, written: event, read: SmallVec::new() };
        });
    }

    /// What ended needs no order any more, which lets pieces become one again; what failed is remembered where it should
    /// have written.
    pub(crate) fn forget(&mut self, pending: &dyn Fn(Event) -> bool, failed: &dyn Fn(Event) -> bool) {
        let all = 0..self.pieces.len();
        self.pieces.change(&all, |_, copies| {
            for c in copies {
                c.written = c.written.filter(|e| pending(*e) || failed(*e));
                c.read.retain(|e| pending(*e));
            }
        });
    }

    /// What these events should have written was not.
    pub(crate) fn unwritten(&mut self, failed: &[Event]) {
        let all = 0..self.pieces.len();
        self.pieces.change(&all, |_, copies| {
            for c in copies.iter_mut().filter(|c| c.written.is_some_and(|e| failed.contains(&e))) {
                c.valid = false;
            }
        });
    }

    /// A place and its memory are gone.
    pub(crate) fn forsake(&mut self, at: Place) {
        self.allocated[at.index()] = false;
        let all = 0..self.pieces.len();
        self.pieces.change(&all, |_, copies| copies[at.index()].valid = false);
    }

    pub(crate) fn mentions(&self, which: &dyn Fn(&Event) -> bool) -> bool {
        let all = 0..self.pieces.len();
        let one = |c: &Copy| c.written.iter().any(which) || c.read.iter().any(which);
        self.pieces.of(&all).flat_map(|p| p.1).any(one)
    }
}
