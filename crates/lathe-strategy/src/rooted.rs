//! Trees whose rules need the root, as trees that [`crate::rewrite()`] can walk: a node is the whole tree with a
//! path to where it is. So loop trees have every combinator and traversal that terms have.

use crate::codes;
use crate::evidence::{Evidence, Refusal};
use crate::node::{Entry, Node, Vocabulary, Why};
use crate::tree::{Location, StepArg, Tree};
use lathe_diagnostics::Diagnostic;
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
    /// Locations in force, outermost first, each with where it was found last.
    focus: Rc<Vec<(Location, Vec<usize>)>>,
    /// Where a traversal has come to. Elsewhere it is the innermost location that says where.
    path: Option<Vec<usize>>,
}

impl<T: Tree> Rooted<T> {
    pub fn new(tree: T) -> Rooted<T> {
        Rooted { tree: Rc::new(tree), focus: Rc::default(), path: None }
    }

    /// Where the innermost location was last.
    fn last(&self) -> &[usize] {
        self.path.as_deref().or(self.focus.last().map(|f| &*f.1)).unwrap_or_default()
    }

    /// With the locations where they are now: steps before may have moved them. A place that cannot be found any more
    /// (a loop that was renamed) is where it was last.
    fn found(&self) -> Rooted<T> {
        if self.path.is_some() || self.focus.is_empty() {
            return self.clone();
        }
        let mut focus: Vec<(Location, Vec<usize>)> = Vec::new();
        for (location, last) in &*self.focus {
            let within = focus.last().map_or(&[][..], |f| &f.1);
            let path = match self.locate(location, within).as_deref() {
                Ok([one]) => one.clone(),
                _ => last.clone(),
            };
            focus.push((location.clone(), path));
        }
        Rooted { focus: Rc::new(focus), ..self.clone() }
    }

    /// The paths to a location. Of equally deep places the first in the text.
    fn locate(&self, location: &Location, within: &[usize]) -> Result<Vec<Vec<usize>>, Refusal> {
        let best = match location {
            Location::Outermost(l) => self.locate(l, within)?.into_iter().min_by_key(Vec::len),
            Location::Innermost(l) => self.locate(l, within)?.into_iter().rev().max_by_key(Vec::len),
            l => return self.tree.locate(l, within),
        };
        Ok(best.into_iter().collect())
    }
}

impl<T: Tree> Node for Rooted<T> {
    type State = Log<T>;

    fn arity(&self) -> usize {
        self.tree.arity(self.last())
    }

    fn child(&self, n: usize) -> Option<Rooted<T>> {
        if n >= self.arity() {
            return None;
        }
        let mut path = self.last().to_vec();
        path.push(n);
        Some(Rooted { path: Some(path), ..self.clone() })
    }

    fn with_child(&self, _: usize, new: Rooted<T>) -> Rooted<T> {
        self.back(new)
    }

    fn hash(&self) -> u64 {
        self.last().iter().fold(self.tree.hash(), |h, n| h.rotate_left(7) ^ (*n as u64 + 1))
    }

    fn address(&self) -> Option<usize> {
        None
    }

    fn same(&self, o: &Rooted<T>) -> bool {
        self.last() == o.last() && self.tree.hash() == o.tree.hash()
    }

    /// Rules are applied to the whole tree.
    fn cost(&self) -> u64 {
        self.tree.size()
    }

    fn focused(&self) -> bool {
        self.path.is_none()
    }

    fn places(&self, location: &Location) -> Result<Vec<Rooted<T>>, Why> {
        let refused = |d: Diagnostic| Why::Refused(Refusal::new("@", d));
        let found = self.locate(location, self.last()).map_err(Why::Refused)?;
        if found.is_empty() {
            let text = format!("there is no `{location}` here");
            return Err(refused(Diagnostic::error(codes::LOCATION, text)));
        }
        if self.path.is_some() {
            return Ok(found.into_iter().map(|p| Rooted { path: Some(p), ..self.clone() }).collect());
        }
        let [path] = &found[..] else {
            let d =
                Diagnostic::error(codes::LOCATION, format!("`{location}` matches {} places", found.len()));
            return Err(refused(d.help(format!(
                "write `outermost({location})` or `innermost({location})`, or narrow the name"
            ))));
        };
        let mut focus = (*self.focus).clone();
        focus.push((location.clone(), path.clone()));
        Ok(vec![Rooted { focus: Rc::new(focus), ..self.clone() }])
    }

    fn fixed(&self) -> Rooted<T> {
        let found = self.found();
        Rooted { path: Some(found.last().to_vec()), ..found }
    }

    /// The edit is in the tree already: only the place goes back.
    fn back(&self, new: Rooted<T>) -> Rooted<T> {
        let mut focus = new.focus;
        if focus.len() > self.focus.len() {
            Rc::make_mut(&mut focus).truncate(self.focus.len());
        }
        Rooted { tree: new.tree, focus, path: self.path.clone() }
    }

    fn show(&self) -> String {
        let path: Vec<String> = self.last().iter().map(usize::to_string).collect();
        format!("the tree at [{}]", path.join(", "))
    }
}

/// The rules and predicates of a kind of tree, for its places; `body` is what is inside.
pub fn vocabulary<T: Tree + 'static>(tree: &T) -> Vocabulary<Rooted<T>> {
    let mut v = Vocabulary::default();
    for name in tree.rules() {
        v.rule(name, move |n: &Rooted<T>, done, args| {
            let n = n.found();
            let (new, mut e) = n.tree.apply(name, n.last(), args).map_err(Why::Refused)?;
            e.args = args.iter().map(StepArg::to_string).collect();
            e.path = n.last().to_vec();
            // The tree before it is what the last step left.
            e.before = done.0.as_ref().map_or_else(|| n.tree.digest(), |d| d.evidence.after.clone());
            e.after = new.digest();
            *done = done.and(e, n.tree.clone());
            Ok(Rooted { tree: Rc::new(new), ..n })
        });
    }
    for name in tree.predicates() {
        let holds = move |n: &Rooted<T>, args: &[StepArg]| n.tree.holds(name, n.found().last(), args);
        v.add(name, Entry::Predicate(Rc::new(holds)));
    }
    v.location("body", |n: &Rooted<T>| (n.arity() == 1).then_some(0));
    v
}
