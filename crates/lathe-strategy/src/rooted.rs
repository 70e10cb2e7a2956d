//! Trees whose rules need the root, as trees that [`crate::rewrite()`] can walk: a node is the whole tree with a
//! path to where it stands. So loop trees have every combinator and traversal that terms have.

use crate::evidence::Evidence;
use crate::node::{Entry, Node, Vocabulary, Why};
use crate::syntax::{ArgValue, Argument, Strategy};
use crate::tree::{StepArg, Tree};
use std::rc::Rc;

/// What was done: the evidence of each step and the tree before it. Copies are cheap, since every choice of a
/// traversal makes one.
pub struct Log<T>(Option<Rc<Done<T>>>);

struct Done<T> {
    evidence: Evidence,
    before: Rc<T>,
    earlier: Log<T>,
}

impl<T> Clone for Log<T> {
    fn clone(&self) -> Log<T> {
        Log(self.0.clone())
    }
}

impl<T> Default for Log<T> {
    fn default() -> Log<T> {
        Log(None)
    }
}

impl<T> Log<T> {
    fn and(&self, evidence: Evidence, before: Rc<T>) -> Log<T> {
        Log(Some(Rc::new(Done { evidence, before, earlier: self.clone() })))
    }

    /// The steps in order, each with the tree before it.
    pub fn steps(&self) -> Vec<(&Evidence, &T)> {
        let (mut out, mut here) = (Vec::new(), &self.0);
        while let Some(d) = here {
            out.push((&d.evidence, &*d.before));
            here = &d.earlier.0;
        }
        out.reverse();
        out
    }
}

/// A place in a tree.
#[derive(Clone)]
pub struct Rooted<T> {
    pub tree: Rc<T>,
    pub path: Vec<usize>,
}

impl<T: Tree> Rooted<T> {
    pub fn new(tree: T) -> Rooted<T> {
        Rooted { tree: Rc::new(tree), path: Vec::new() }
    }
}

impl<T: Tree> Node for Rooted<T> {
    type State = Log<T>;

    fn arity(&self) -> usize {
        self.tree.arity(&self.path)
    }

    fn child(&self, n: usize) -> Option<Rooted<T>> {
        if n >= self.arity() {
            return None;
        }
        let mut path = self.path.clone();
        path.push(n);
        Some(Rooted { tree: self.tree.clone(), path })
    }

    /// The edit is in the tree already: only the place goes back up.
    fn with_child(&self, _: usize, new: Rooted<T>) -> Rooted<T> {
        Rooted { tree: new.tree, path: self.path.clone() }
    }

    fn hash(&self) -> u64 {
        self.path.iter().fold(self.tree.hash(), |h, n| h.rotate_left(7) ^ (*n as u64 + 1))
    }

    fn address(&self) -> Option<usize> {
        None
    }

    fn same(&self, o: &Rooted<T>) -> bool {
        self.path == o.path && self.tree.hash() == o.tree.hash()
    }

    /// Rules are applied to the whole tree.
    fn cost(&self) -> u64 {
        self.tree.size()
    }

    fn show(&self) -> String {
        let path: Vec<String> = self.path.iter().map(usize::to_string).collect();
        format!("the tree at [{}]", path.join(", "))
    }
}

/// The rules and predicates of a kind of tree, for its places, and the ways to places by name: `loop(i)` and
/// `stmt(C)` are the first of that name from here on, `body` is what is inside.
pub fn vocabulary<T: Tree + 'static>(tree: &T) -> Vocabulary<Rooted<T>> {
    let mut v = Vocabulary::default();
    for name in tree.rules() {
        let rule = move |n: &Rooted<T>, done: &mut Log<T>, args: &[StepArg]| {
            let (new, mut e) = n
                .tree
                .apply(name, &n.path, args)
                .map_err(|r| Why::Condition(r.diagnostic.message.clone()))?;
            e.args = args.iter().map(StepArg::to_string).collect();
            e.path.clone_from(&n.path);
            e.before = n.tree.digest();
            e.after = new.digest();
            *done = done.and(e, n.tree.clone());
            Ok(Rooted { tree: Rc::new(new), path: n.path.clone() })
        };
        v.add(name, Entry::Rule(Rc::new(rule)));
    }
    for name in tree.predicates() {
        let holds = move |n: &Rooted<T>, args: &[StepArg]| n.tree.holds(name, &n.path, args);
        v.add(name, Entry::Predicate(Rc::new(holds)));
    }
    v.location("body", |n: &Rooted<T>| (n.arity() == 1).then_some(0));
    for (place, is) in [("loop", "isLoop"), ("stmt", "isStmt")] {
        v.expands(place, move |args| match args {
            [name, step] => {
                let there =
                    Strategy::Call { name: is.to_string(), args: vec![name.clone()], span: name.span };
                let step = step.value.as_strategy(step.span).ok_or("a step is wanted")?;
                let both = ArgValue::Strategy(Box::new(Strategy::Seq(vec![there, step])));
                let args = vec![Argument { name: None, value: both, span: None }];
                Ok(Strategy::Call { name: "topDown".to_string(), args, span: None })
            }
            _ => Err(format!("write `s @ {place}(name)`")),
        });
    }
    v
}
