//! Detection of races in one run, by happens-before.
//!
//! Every access has a **position**: the path of strands from the root of the run to the one that made
//! it. A strand is the root, one iteration of a parallel loop, or one asynchronous body; a path level
//! also tells how many barriers of its loop the iteration has passed (per memory space) and how many
//! asynchronous bodies the strand has started or awaited so far. Two positions are compared at the
//! first level where they differ (the idea of dynamic program structure trees, extended by barriers
//! and tokens), so no vector clocks are needed and a loop may have any number of iterations.
//!
//! Per cell the last write, the reads since, and the atomics since are kept. A new access conflicts
//! with those that are not ordered before it.

use std::rc::Rc;

/// Number of a strand; unique within a run.
pub type Strand = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Root,
    /// Iteration of the parallel loop instance of this number.
    Iteration(u32),
    /// An asynchronous body with this token.
    Async(u32),
}

/// One level of a position.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    pub strand: Strand,
    pub kind: Kind,
    /// Barriers of this loop instance passed so far, per space; 7 spaces fit.
    pub phases: [u32; 7],
    /// Asynchronous bodies started or awaited by this strand so far.
    pub steps: u32,
}

pub type Position = Rc<[Level]>;

/// One executed statement instance.
#[derive(Clone, Debug)]
pub struct Event {
    pub position: Position,
    pub routine: u32,
    pub site: u32,
    /// The instance vector, where it could be computed.
    pub instance: Option<Box<[i64]>>,
    pub loops: Box<[i64]>,
}

/// Accesses of one cell that later ones may conflict with, as numbers of events.
#[derive(Clone, Debug, Default)]
struct Cell {
    write: Option<u32>,
    reads: Vec<u32>,
    atomics: Vec<u32>,
}

#[derive(Default)]
pub struct History {
    cells: Vec<Cell>,
}

impl History {
    pub fn reset(&mut self, elements: usize) {
        self.cells.clear();
        self.cells.resize(elements, Cell::default());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    Read,
    Write,
    Atomic,
}

/// Two accesses of one element that nothing orders.
#[derive(Clone, Debug)]
pub struct Conflict {
    pub earlier: u32,
    pub earlier_touch: Touch,
}

/// All that is known about the order of a run.
#[derive(Default)]
pub struct Order {
    pub events: Vec<Event>,
    /// Where each token was awaited, once it was.
    joined: Vec<Option<Position>>,
    next_strand: Strand,
    next_instance: u32,
}

impl Order {
    pub fn new_strand(&mut self) -> Strand {
        self.next_strand += 1;
        self.next_strand
    }

    /// A number for a run of a parallel loop.
    pub fn new_instance(&mut self) -> u32 {
        self.next_instance += 1;
        self.next_instance
    }

    pub fn join(&mut self, token: u32, at: &Position) {
        let token = token as usize;
        if self.joined.len() <= token {
            self.joined.resize(token + 1, None);
        }
        if self.joined[token].is_none() {
            self.joined[token] = Some(at.clone());
        }
    }

    /// Whether `p`, which ran earlier in this run, is ordered before `q` in every legal run.
    /// `space` is the bit of the accessed buffer's space.
    pub fn before(&self, p: &Position, q: &Position, space: u8) -> bool {
        let mut p = p;
        // What an asynchronous body did is ordered before `q` through the wait for it alone.
        loop {
            let common = p.iter().zip(q.iter()).take_while(|(a, b)| a.strand == b.strand).count();
            let token = p[common..].iter().find_map(|l| match l.kind {
                Kind::Async(t) => Some(t),
                _ => None,
            });
            match token {
                None => break,
                Some(t) => match self.joined.get(t as usize) {
                    Some(Some(wait)) => p = wait,
                    _ => return false,
                },
            }
        }
        let k = space.trailing_zeros() as usize;
        for (n, a) in p.iter().enumerate() {
            let Some(b) = q.get(n) else { return true };
            if a.strand == b.strand {
                if a.phases[k] < b.phases[k] {
                    return true;
                }
                continue;
            }
            // The strands below the same parent: `a` is an iteration.
            return match (a.kind, b.kind) {
                (Kind::Iteration(x), Kind::Iteration(y)) => x != y || a.phases[k] < b.phases[k],
                (_, Kind::Async(_)) => p[n - 1].steps < q[n - 1].steps,
                _ => true,
            };
        }
        // `p` is in a strand around `q`'s.
        match q.get(p.len()).map(|l| l.kind) {
            Some(Kind::Async(_)) => p[p.len() - 1].steps < q[p.len() - 1].steps,
            _ => true,
        }
    }

    /// Records an access by event `now`; the conflict, if there is one.
    pub fn touch(
        &self,
        history: &mut History,
        element: usize,
        touch: Touch,
        now: u32,
        space: u8,
    ) -> Option<Conflict> {
        let cell = history.cells.get_mut(element)?;
        let at = &self.events[now as usize].position;
        let ordered = |e: u32| self.before(&self.events[e as usize].position, at, space);
        let unordered = |list: &[u32]| list.iter().copied().find(|e| !ordered(*e));
        let conflict = |e: Option<u32>, earlier_touch| e.map(|earlier| Conflict { earlier, earlier_touch });
        let mut found = conflict(cell.write.filter(|w| !ordered(*w)), Touch::Write);
        if touch != Touch::Read {
            found = found.or_else(|| conflict(unordered(&cell.reads), Touch::Read));
        }
        if touch != Touch::Atomic {
            found = found.or_else(|| conflict(unordered(&cell.atomics), Touch::Atomic));
        }
        if found.is_some() {
            return found;
        }
        // An access that is ordered after another stands for it from now on.
        let add = |list: &mut Vec<u32>| match list.last_mut() {
            Some(last) if *last == now || ordered(*last) => *last = now,
            _ => list.push(now),
        };
        match touch {
            Touch::Read => add(&mut cell.reads),
            Touch::Atomic => add(&mut cell.atomics),
            Touch::Write => {
                cell.write = Some(now);
                cell.reads.clear();
                cell.atomics.clear();
            }
        }
        None
    }
}
