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
//! with those that are not ordered before it; atomics do not conflict with one another within their scope.
//!
//! Atomics that release and acquire order more than the structure of the program does: an acquiring one that
//! finds what a releasing one published adds an **edge** from the one to the other. Edges are asked only where
//! the structure gives no order.

use super::code::AtomicCode;
use std::rc::Rc;

/// Number of a strand; unique within a run.
pub type Strand = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Root,
    /// Iteration of the parallel loop instance of this number.
    Iteration(u32),
    /// The asynchronous body of this number.
    Async(u32),
}

/// One level of a position.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    pub strand: Strand,
    pub kind: Kind,
    /// Number of the executor of the loop that this is an iteration of; `u32::MAX` if it is none.
    pub executor: u32,
    /// Barriers of this loop instance passed so far, per space; 7 spaces fit.
    pub phases: [u32; 7],
    /// Asynchronous bodies started or awaited by this strand so far.
    pub steps: u32,
}

impl Level {
    pub fn new(strand: Strand, kind: Kind, executor: u32) -> Level {
        Level { strand, kind, executor, phases: [0; 7], steps: 0 }
    }
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
    /// Those that may write, then those that only read, with their scopes.
    atomics: [Vec<(u32, u32)>; 2],
    /// Releasing atomics whose value, or what followed from it by updates, the cell holds; with their scopes.
    released: Vec<(u32, u32)>,
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
    AtomicRead,
}

/// Two unordered accesses of one element: a race.
#[derive(Clone, Debug)]
pub struct Conflict {
    pub earlier: u32,
    pub earlier_touch: Touch,
}

/// All that is known about the order of a run.
#[derive(Default)]
pub struct Order {
    pub events: Vec<Event>,
    /// Where each asynchronous body was awaited, once it was.
    joined: Vec<Option<Position>>,
    /// From an event that released to one that acquired, in the order in which they were found.
    edges: Vec<(u32, u32)>,
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

    pub fn join(&mut self, body: u32, at: &Position) {
        let body = body as usize;
        if self.joined.len() <= body {
            self.joined.resize(body + 1, None);
        }
        if self.joined[body].is_none() {
            self.joined[body] = Some(at.clone());
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

    /// Whether event `p`, which ran earlier, is ordered before `q`: by structure, or through edges.
    fn ordered(&self, p: u32, q: u32, space: u8) -> bool {
        let position = |e: u32| &self.events[e as usize].position;
        // One event may stand for accesses at several times: that `p` ran before `q` is known, whatever their numbers.
        if self.before(position(p), position(q), space) {
            return true;
        }
        let direct = |p: u32, q: u32| p <= q && self.before(position(p), position(q), space);
        // Backwards from `q`: edges that end before what is known to be before it.
        let mut seen = vec![false; self.edges.len()];
        let mut open = vec![q];
        while let Some(end) = open.pop() {
            for (k, (from, to)) in self.edges.iter().enumerate().rev() {
                if !seen[k] && direct(*to, end) {
                    seen[k] = true;
                    if direct(p, *from) {
                        return true;
                    }
                    open.push(*from);
                }
            }
        }
        false
    }

    /// Whether two atomics are indivisible to one another: each runs in the scope of the other.
    fn in_scope(&self, (p, p_scope): (u32, u32), (q, q_scope): (u32, u32)) -> bool {
        let path = |e: u32| &self.events[e as usize].position;
        // What is around the loops that the scope names.
        let around = |e: u32, scope: u32| path(e).iter().position(|l| l.executor == scope).unwrap_or(0);
        let n = around(p, p_scope).max(around(q, q_scope));
        let same = path(p).iter().zip(path(q).iter()).take_while(|(a, b)| a.strand == b.strand).count();
        same >= n
    }

    /// Records an access by event `now`; the conflict, if there is one.
    pub fn touch(
        &mut self,
        history: &mut History,
        element: usize,
        (touch, atomic): (Touch, Option<AtomicCode>),
        now: u32,
        space: u8,
    ) -> Option<Conflict> {
        let cell = history.cells.get_mut(element)?;
        let scope = atomic.map_or(0, |a| a.scope);
        let ordered = |e: u32| self.ordered(e, now, space);
        let first = |list: &[u32], earlier_touch| {
            let earlier = list.iter().copied().find(|e| !ordered(*e))?;
            Some(Conflict { earlier, earlier_touch })
        };
        let first_atomic = |list: &[(u32, u32)], earlier_touch| {
            let apart = |e: (u32, u32)| atomic.is_none() || !self.in_scope(e, (now, scope));
            let earlier = list.iter().copied().find(|e| !ordered(e.0) && apart(*e))?.0;
            Some(Conflict { earlier, earlier_touch })
        };
        let writes = matches!(touch, Touch::Write | Touch::Atomic);
        let found = first(cell.write.as_slice(), Touch::Write)
            .or_else(|| first(&cell.reads, Touch::Read).filter(|_| writes))
            .or_else(|| first_atomic(&cell.atomics[0], Touch::Atomic))
            .or_else(|| first_atomic(&cell.atomics[1], Touch::AtomicRead).filter(|_| writes));
        if found.is_some() {
            return found;
        }
        // An access that is ordered after another stands for it from now on.
        let add = |list: &mut Vec<u32>| match list.last_mut() {
            Some(last) if *last == now || ordered(*last) => *last = now,
            _ => list.push(now),
        };
        let add_atomic = |list: &mut Vec<(u32, u32)>| match list.last_mut() {
            Some(last) if last.0 == now || ordered(last.0) => *last = (now, scope),
            _ => list.push((now, scope)),
        };
        match touch {
            Touch::Read => add(&mut cell.reads),
            Touch::Atomic => add_atomic(&mut cell.atomics[0]),
            Touch::AtomicRead => add_atomic(&mut cell.atomics[1]),
            Touch::Write => *cell = Cell { write: Some(now), ..Cell::default() },
        }
        match (touch, atomic) {
            (Touch::AtomicRead, Some(a)) if a.order.acquires() => {
                let seen = cell.released.iter().filter(|r| self.in_scope(**r, (now, scope)));
                let edges: Vec<(u32, u32)> = seen.map(|r| (r.0, now)).collect();
                self.edges.extend(edges);
            }
            (Touch::Atomic, Some(a)) => {
                if a.fresh {
                    cell.released.clear();
                }
                if a.order.releases() {
                    cell.released.push((now, scope));
                }
            }
            _ => {}
        }
        None
    }
}
