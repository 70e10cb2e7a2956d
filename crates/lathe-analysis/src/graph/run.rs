//! One tree while it is followed: what slots hold, and what is asked where.

use super::term::{Graph, Key, Slot, Term, What};
use crate::memory::{Memory, Place};
use lathe_ir::{BufId, Buffer, Function, Module, Name, VarId, build, visit};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// What decides whether a place is reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// An iteration of `lo..hi`.
    Loop(VarId, Term, Term),
    While(Term),
    Branch(Term, bool),
}

/// Where something is evaluated: which iterations and branches, and what may have failed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub region: usize,
    pub world: Term,
}

/// A tree while it is followed.
pub(super) struct Run<'g, 'm> {
    pub graph: &'g mut Graph,
    pub module: &'m Module,
    pub memory: Memory,
    pub vars: HashMap<VarId, Term>,
    /// Functions whose values are followed.
    pub calls: Vec<Name>,
    pub arrays: HashMap<BufId, Arc<Buffer>>,
    /// Slots of local arrays.
    pub local: HashSet<Slot>,
    pub content: BTreeMap<Slot, Term>,
    /// Places, and where each of them is in `regions`.
    pub regions: Vec<Vec<Step>>,
    numbers: HashMap<Vec<Step>, usize>,
    here: Vec<usize>,
    /// Where in `here` the statement is, of which an expression is a part.
    depth: usize,
    /// The world where the statement began.
    world: Term,
    /// What must exist, and where that is asked.
    pub asked: HashMap<Term, Vec<Asked>>,
    order: Vec<(Term, Asked)>,
    /// What exists, of what may fail.
    exists: Vec<HashSet<Term>>,
    /// The world before each loop.
    pub worlds: HashMap<Key, Term>,
    /// What loops without an order write.
    pub unordered: BTreeSet<(VarId, Slot)>,
    pub parallel: Vec<(VarId, HashSet<BufId>)>,
    pub whiles: usize,
    /// What statements write, by their addresses.
    pub writes: HashMap<usize, Rc<BTreeSet<Slot>>>,
    pub statements: usize,
}

impl<'g, 'm> Run<'g, 'm> {
    /// Follows a function from beginning to end.
    pub fn of(graph: &'g mut Graph, module: &'m Module, func: &Function) -> Run<'g, 'm> {
        let mut arrays: HashMap<BufId, Arc<Buffer>> =
            func.params.iter().filter_map(|p| p.array()).map(|b| (b.id, b.clone())).collect();
        let mut local = HashSet::new();
        visit::walk(&func.body, &mut |s, _| {
            local.extend(s.allocated().map(|b| Slot::Memory(Place::Buffer(b.id))));
            arrays.extend(s.allocated().map(|b| (b.id, b.clone())));
            true
        });
        let world = graph.make(What::Initial(Slot::World), Vec::new());
        let mut run = Run {
            graph,
            module,
            memory: Memory::of(func),
            vars: HashMap::new(),
            calls: Vec::new(),
            arrays,
            local,
            content: BTreeMap::new(),
            regions: vec![Vec::new()],
            numbers: HashMap::from([(Vec::new(), 0)]),
            here: vec![0],
            depth: 0,
            world,
            asked: HashMap::new(),
            order: Vec::new(),
            exists: vec![HashSet::new()],
            worlds: HashMap::new(),
            unordered: BTreeSet::new(),
            parallel: Vec::new(),
            whiles: 0,
            writes: HashMap::new(),
            statements: 0,
        };
        run.block(&func.body);
        run
    }

    /// A statement begins.
    pub fn begin(&mut self) {
        self.depth = self.here.len() - 1;
        self.world = self.content(Slot::World);
        self.statements += 1;
    }

    /// What is asked, in the order in which it was found.
    pub fn demands(&self) -> &[(Term, Asked)] {
        &self.order
    }

    pub fn content(&mut self, slot: Slot) -> Term {
        match self.content.get(&slot) {
            Some(t) => *t,
            None => self.graph.make(What::Initial(slot), Vec::new()),
        }
    }

    pub fn set(&mut self, slot: Slot, t: Term) {
        self.content.insert(slot, t);
        if let Slot::Memory(Place::Buffer(b)) = slot {
            // Arrays that an iteration has for itself are nobody else's.
            self.unordered.extend(self.parallel.iter().filter(|p| !p.1.contains(&b)).map(|p| (p.0, slot)));
        } else if slot == Slot::Memory(Place::Shared) {
            self.unordered.extend(self.parallel.iter().map(|p| (p.0, slot)));
        }
    }

    pub fn region(&self) -> usize {
        self.here.last().copied().unwrap_or(0)
    }

    pub fn enter(&mut self, step: Step) {
        let mut path = self.regions[self.region()].clone();
        path.push(step);
        let next = self.regions.len();
        let n = *self.numbers.entry(path.clone()).or_insert(next);
        if n == next {
            self.regions.push(path);
        }
        self.here.push(n);
        self.exists.push(HashSet::new());
    }

    pub fn leave(&mut self) {
        self.here.pop();
        self.exists.pop();
    }

    /// Something must exist where it is evaluated: an element, a number.
    pub fn demand(&mut self, t: Term) {
        let asked = Asked { region: self.region(), world: self.world };
        let all = self.asked.entry(t).or_default();
        if !all.contains(&asked) {
            all.push(asked);
            self.order.push((t, asked));
        }
    }

    /// A value must exist, or the call fails.
    pub fn need(&mut self, t: Term) {
        // Within one statement, conditions say where it is evaluated.
        let (path, known) = (self.regions[self.region()].clone(), self.regions[self.here[self.depth]].len());
        let mut asked = t;
        for step in path[known..].iter().rev() {
            if let Step::Branch(c, holds) = step {
                let holds = self.graph.make(What::Value(build::boolean(*holds)), Vec::new());
                asked = self.graph.make(What::Choice, vec![*c, asked, holds]);
            }
        }
        if self.exists.iter().any(|known| known.contains(&t) || known.contains(&asked)) {
            return;
        }
        self.exists[self.depth].insert(asked);
        let world = self.content(Slot::World);
        let world = self.needing(world, asked);
        self.set(Slot::World, world);
    }

    /// Needs without anything between them have no order.
    fn needing(&mut self, world: Term, t: Term) -> Term {
        let node = self.graph.node(world).clone();
        if self.graph.is_spent() {
            return world;
        }
        match (&node.what, node.of.as_slice()) {
            (What::Need, [_, known]) if *known == t => world,
            (What::Need, [before, known]) if *known > t => {
                let before = self.needing(*before, t);
                self.graph.make(What::Need, vec![before, *known])
            }
            _ => self.graph.make(What::Need, vec![world, t]),
        }
    }
}
