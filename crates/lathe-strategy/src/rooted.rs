//! Trees whose rules need the root, as trees that [`crate::rewrite()`] can walk: a node is the whole tree with a
//! path to where it stands. So loop trees have every combinator and traversal that terms have.

use crate::evidence::Evidence;
use crate::node::{Entry, Node, Vocabulary, Why};
use crate::tree::{StepArg, Tree, hash_text};
use std::rc::Rc;

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
    /// What was done, with the evidence that the rules gave.
    type State = Vec<Evidence>;

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

    fn show(&self) -> String {
        let path: Vec<String> = self.path.iter().map(usize::to_string).collect();
        format!("the tree at [{}]", path.join(", "))
    }
}

/// The rules of a kind of tree, for its places.
pub fn vocabulary<T: Tree + 'static>(tree: &T) -> Vocabulary<Rooted<T>> {
    let mut v = Vocabulary::default();
    for name in tree.rules() {
        let rule = move |n: &Rooted<T>, done: &mut Vec<Evidence>, args: &[StepArg]| {
            let (new, mut e) = n
                .tree
                .apply(name, &n.path, args)
                .map_err(|r| Why::Condition(r.diagnostic.message.clone()))?;
            e.args = args.iter().map(StepArg::to_string).collect();
            e.path.clone_from(&n.path);
            e.before = hash_text(n.tree.hash());
            e.after = hash_text(new.hash());
            done.push(e);
            Ok(Rooted { tree: Rc::new(new), path: n.path.clone() })
        };
        v.add(name, Entry::Rule(Rc::new(rule)));
    }
    v
}
