//! What statements read and write, by whole arrays: what steps and passes ask before they move, merge or remove
//! anything. Parameters that may share memory are one place.

use lathe_ir::stmt::Effects;
use lathe_ir::{BufId, Expr, ExprKind, Function, Stmt, View, visit};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Memory that overlaps no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A local array, or a parameter without an alias class.
    Buffer(BufId),
    /// All parameters with an alias class, globals, and what pointers lead to.
    Shared,
}

#[derive(Clone, Debug, Default)]
pub struct Touched {
    pub reads: HashSet<Place>,
    pub writes: HashSet<Place>,
    /// Unknown accesses: a call, an atomic, synchronization.
    pub anything: bool,
}

impl Touched {
    pub fn reads(&self, p: Place) -> bool {
        self.anything || self.reads.contains(&p)
    }

    pub fn writes(&self, p: Place) -> bool {
        self.anything || self.writes.contains(&p)
    }

    /// Whether something that was read before may have another value afterwards.
    pub fn changes(&self, read: &HashSet<Place>) -> bool {
        !read.is_empty() && (self.anything || !self.writes.is_disjoint(read))
    }

    fn add(&mut self, other: &Touched) {
        self.reads.extend(&other.reads);
        self.writes.extend(&other.writes);
        self.anything |= other.anything;
    }
}

/// The answers for one function; every shared statement is looked at once.
pub struct Memory {
    aliased: HashSet<BufId>,
    /// The statement is held, so that its address stays its own.
    known: RefCell<HashMap<usize, (Stmt, Rc<Touched>)>>,
}

impl Memory {
    pub fn of(func: &Function) -> Memory {
        let aliased = func.params.iter().filter(|p| p.alias.is_some()).filter_map(|p| p.array());
        Memory { aliased: aliased.map(|b| b.id).collect(), known: RefCell::default() }
    }

    pub fn place(&self, v: &View) -> Place {
        match v.buffer() {
            Some(b) if !self.aliased.contains(&b) => Place::Buffer(b),
            _ => Place::Shared,
        }
    }

    /// What an expression reads.
    pub fn read_by(&self, e: &Expr) -> HashSet<Place> {
        let mut out = HashSet::new();
        visit::walk_expr(e, &mut |x| match x.kind() {
            ExprKind::Load(a) => {
                out.insert(self.place(&a.view));
            }
            // A pure function may read globals.
            ExprKind::Call(..) => {
                out.insert(Place::Shared);
            }
            _ => {}
        });
        out
    }

    /// What a statement touches with all that it holds.
    pub fn touched(&self, s: &Stmt) -> Rc<Touched> {
        if let Some((_, done)) = self.known.borrow().get(&s.address()) {
            return done.clone();
        }
        let mut out = self.own(s);
        for c in s.children() {
            out.add(&self.touched(c));
        }
        let out = Rc::new(out);
        self.known.borrow_mut().insert(s.address(), (s.clone(), out.clone()));
        out
    }

    /// The first statement that may change memory that was read.
    pub fn changing<'a>(
        &self,
        read: &HashSet<Place>,
        mut after: impl Iterator<Item = &'a Stmt>,
    ) -> Option<&'a Stmt> {
        after.find(|s| self.touched(s).changes(read))
    }

    /// The accesses of a statement itself.
    pub fn own(&self, s: &Stmt) -> Touched {
        let mut out = Touched::default();
        let unknown = Effects::SYNCHRONIZES.and(Effects::ATOMIC).and(Effects::IO);
        out.anything =
            Effects::NAMES.iter().any(|(e, _)| unknown.contains(*e) && s.own_effects().contains(*e));
        for e in s.evaluated() {
            out.reads.extend(self.read_by(e));
        }
        for (t, mode) in s.touches() {
            if mode.reads() {
                out.reads.insert(self.place(t.view()));
            }
            if mode.writes() {
                out.writes.insert(self.place(t.view()));
            }
        }
        out
    }
}
