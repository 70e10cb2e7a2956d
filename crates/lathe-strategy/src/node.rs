//! Trees whose sub-trees are trees: what the engine of [`mod@crate::rewrite`] needs to know of them, and the
//! rules, predicates and locations of one kind of tree. A place in a tree whose rules need the root is a tree, too
//! ([`Rooted`](crate::Rooted)).
//!
//! Rules, predicates and strategies have one type: a strategy that changes nothing is a predicate, and a
//! rule is a strategy of one step. A kind of tree says what its one-level steps are called (`body`,
//! `function`, …); everything else comes with the engine.

use crate::evidence::Refusal;
use crate::syntax::{Argument, Strategy};
use crate::tree::{Location, StepArg};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// A tree, or a sub-tree: they are of one type. Copies are cheap.
pub trait Node: Clone {
    /// What rules know and learn besides the tree; undone when a step is undone.
    type State: Clone;

    fn arity(&self) -> usize;

    fn child(&self, n: usize) -> Option<Self>;

    /// With another child in place of the `n`-th.
    fn with_child(&self, n: usize, new: Self) -> Self;

    /// The `k`-th child that `one`, `some` and `all` visit. The order is observable.
    fn visited(&self, k: usize) -> usize {
        k
    }

    /// Equal trees have equal hashes, in every process.
    fn hash(&self) -> u64;

    /// Identity of a shared node while it lives, if it has one; equal addresses mean equal trees.
    fn address(&self) -> Option<usize>;

    fn same(&self, o: &Self) -> bool;

    /// Larger than any tree that a strategy should make, and how: what is repeated without end stops here.
    fn outgrown(&self) -> Option<String> {
        None
    }

    /// What a step costs that looks at the whole tree, in nodes; 0 where steps look at their place only.
    fn cost(&self) -> u64 {
        0
    }

    /// Rules refuse with diagnostics of their own, and find their place by its name each time, since steps may move it:
    /// so it is with a [`Rooted`](crate::Rooted) tree outside of traversals.
    fn focused(&self) -> bool {
        false
    }

    /// The places of a name from here on: one where this is [`focused`](Node::focused), else all, outer ones first.
    ///
    /// # Errors
    /// Where there is none; where there are several and one is wanted.
    fn places(&self, location: &Location) -> Result<Vec<Self>, Why> {
        Err(Why::Condition(format!("there is no `{location}` here")))
    }

    /// The place that a traversal begins at: it stays where it is.
    fn fixed(&self) -> Self {
        self.clone()
    }

    /// What a strategy gave at a part of this or at a place from here on, seen from here.
    fn back(&self, new: Self) -> Self {
        new
    }

    /// For people.
    fn show(&self) -> String;

    /// The [`digest`](crate::digest) of its text.
    fn digest(&self) -> String {
        crate::tree::digest(&self.show())
    }
}

/// Why a rule does not apply here.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// Another shape.
    Shape(&'static str),
    /// The shape fits, but a condition does not hold.
    Condition(String),
    /// A condition does not hold, and the rule tells it in full.
    Refused(Refusal),
    /// The call itself is wrong: no choice makes up for it.
    Mistake(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Shape(s) => f.write_str(s),
            Why::Condition(s) | Why::Mistake(s) => f.write_str(s),
            Why::Refused(r) => f.write_str(&r.diagnostic.message),
        }
    }
}

pub type RuleFn<N> = Rc<dyn Fn(&N, &mut <N as Node>::State, &[StepArg]) -> Result<N, Why>>;
pub type PredicateFn<N> = Rc<dyn Fn(&N, &[StepArg]) -> bool>;
/// A rule that asks where a strategy applies.
pub type TestedFn<N> =
    Rc<dyn Fn(&N, &mut <N as Node>::State, &mut dyn FnMut(&N) -> bool, &[StepArg]) -> Result<N, Why>>;
/// The child that a one-level location means, if the node has it.
pub type IntoFn<N> = Rc<dyn Fn(&N, &[StepArg]) -> Option<usize>>;
/// A rule that looks for a tree by trying moves; its arguments are data.
pub type SearchFn<N> = Rc<dyn Fn(&N, &[StepArg], &mut dyn Moves<N>) -> Result<N, Why>>;
pub type MacroFn = Rc<dyn Fn(&[Argument]) -> Result<Strategy, String>>;
/// A strategy made of the arguments of a call and of the tree that it is applied to.
pub type HereFn<N> = Rc<dyn Fn(&N, &[StepArg]) -> Result<Strategy, Why>>;

/// The strategies that a search may apply, anywhere and as often as it wants, by their number.
pub trait Moves<N: Node> {
    /// How many there are: those of the call, then those that the search itself asked for.
    fn count(&self) -> usize;

    /// What a move makes of a tree and of what is known; nothing of it is recorded.
    fn attempt(&mut self, n: usize, t: &N, state: &mut N::State) -> Option<N>;

    /// A move at a path, as a step of the strategy: recorded, and what it learns is kept.
    fn step(&mut self, n: usize, t: &N, path: &[usize]) -> Option<N>;

    /// What is known before the search.
    fn state(&self) -> N::State;

    /// What is known after a search whose moves are not steps.
    fn learn(&mut self, state: &N::State);

    /// A mistake or the end of the budget: nothing applies any more.
    fn stopped(&self) -> bool;
}

/// What a name means.
pub enum Entry<N: Node> {
    /// Rewrites.
    Rule(RuleFn<N>),
    /// Changes nothing.
    Predicate(PredicateFn<N>),
    /// Applies its last argument, a strategy, to one child.
    Into(IntoFn<N>),
    /// Rewrites, with its first argument, a strategy, as a test on sub-trees.
    Tested(TestedFn<N>),
    /// Looks for a tree. Its first argument and those with names are data, the others are moves; the rules
    /// that are named here are moves, too.
    Search(SearchFn<N>, &'static [&'static str]),
    /// Stands for another strategy, computed from its arguments.
    Macro(MacroFn),
    /// Stands for another strategy, computed from its arguments where it is applied.
    Here(HereFn<N>),
}

impl<N: Node> Clone for Entry<N> {
    fn clone(&self) -> Entry<N> {
        match self {
            Entry::Rule(f) => Entry::Rule(f.clone()),
            Entry::Predicate(f) => Entry::Predicate(f.clone()),
            Entry::Into(f) => Entry::Into(f.clone()),
            Entry::Tested(f) => Entry::Tested(f.clone()),
            Entry::Search(f, own) => Entry::Search(f.clone(), own),
            Entry::Macro(f) => Entry::Macro(f.clone()),
            Entry::Here(f) => Entry::Here(f.clone()),
        }
    }
}

/// The rules, predicates and locations of one kind of tree. Users add their own.
pub struct Vocabulary<N: Node> {
    entries: BTreeMap<String, Entry<N>>,
}

impl<N: Node> Clone for Vocabulary<N> {
    fn clone(&self) -> Vocabulary<N> {
        Vocabulary { entries: self.entries.clone() }
    }
}

impl<N: Node> Default for Vocabulary<N> {
    fn default() -> Vocabulary<N> {
        Vocabulary { entries: BTreeMap::new() }
    }
}

impl<N: Node> Vocabulary<N> {
    pub fn get(&self, name: &str) -> Option<&Entry<N>> {
        self.entries.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The names of the rules, in alphabetical order.
    pub fn rules(&self) -> Vec<&str> {
        self.entries.iter().filter(|e| matches!(e.1, Entry::Rule(_))).map(|e| e.0.as_str()).collect()
    }

    pub fn add(&mut self, name: &str, e: Entry<N>) {
        self.entries.insert(name.to_string(), e);
    }

    pub fn rule(
        &mut self,
        name: &str,
        f: impl Fn(&N, &mut N::State, &[StepArg]) -> Result<N, Why> + 'static,
    ) {
        self.add(name, Entry::Rule(Rc::new(f)));
    }

    pub fn predicate(&mut self, name: &str, f: impl Fn(&N) -> bool + 'static) {
        self.add(name, Entry::Predicate(Rc::new(move |n, _| f(n))));
    }

    pub fn location(&mut self, name: &str, f: impl Fn(&N) -> Option<usize> + 'static) {
        self.add(name, Entry::Into(Rc::new(move |n, _| f(n))));
    }

    /// A strategy made of the arguments of a call.
    pub fn expands(&mut self, name: &str, f: impl Fn(&[Argument]) -> Result<Strategy, String> + 'static) {
        self.add(name, Entry::Macro(Rc::new(f)));
    }
}
