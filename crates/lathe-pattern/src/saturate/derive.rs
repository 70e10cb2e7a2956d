//! From what an e-graph knows to the steps of a strategy: the e-graph says that two terms are equal, and a
//! small search with the same moves says how. Where the heads of the two terms are the same, their parts are
//! brought together one by one; where they differ, some move must apply there, perhaps after a few others.

use super::graph::{Graph, class_of};
use crate::language::TermState;
use crate::normal::data_flow;
use crate::term::{Term, TermKind};
use egg::Id;
use lathe_strategy::Moves;
use std::collections::HashMap;

/// So many moves one after the other at one place.
const DEPTH: usize = 4;
/// The most moves that are tried.
const TRIES: usize = 300_000;

/// What a move made of a term, with its number.
pub type Application = (Term, Term, usize);

/// A move and where it applies.
type Step = (usize, Vec<usize>);

struct Search<'a> {
    graph: &'a Graph,
    moves: &'a mut dyn Moves<Term>,
    count: usize,
    state: TermState,
    tries: usize,
    /// With so many moves at one place these two do not meet.
    apart: HashMap<(u64, u64), usize>,
    /// What was applied in the search, by class.
    applied: HashMap<Id, Vec<&'a Application>>,
    /// What moves make of terms.
    made: HashMap<(u64, usize), Option<Term>>,
}

/// Runs the moves that lead from a term to another one of the same class, as steps of the strategy; the term
/// that they give is the other one up to the spelling of types. `None`: no short way was found.
pub fn derive(
    graph: &Graph,
    applied: &[Application],
    state: TermState,
    moves: &mut dyn Moves<Term>,
    given: &Term,
    found: &Term,
) -> Option<Term> {
    let normal = moves.count().checked_sub(1)?;
    let mut by_class: HashMap<Id, Vec<&Application>> = HashMap::new();
    for a in applied {
        by_class.entry(class_of(graph, &a.0)?).or_default().push(a);
    }
    let start = data_flow(given);
    let mut steps = Vec::new();
    let mut s = Search {
        graph,
        count: normal,
        moves,
        state,
        tries: 0,
        apart: HashMap::new(),
        applied: by_class,
        made: HashMap::new(),
    };
    let met = (1..=DEPTH).any(|d| {
        steps.clear();
        s.go(&start, found, d, &mut Vec::new(), &mut steps)
    });
    if !met {
        return None;
    }
    let moves = s.moves;
    let mut t = moves.step(normal, given, &[])?;
    for (n, path) in steps {
        t = moves.step(n, &t, &path)?;
        let here = t.at(&path)?;
        if *here != data_flow(here) {
            t = moves.step(normal, &t, &path)?;
        }
    }
    Some(t)
}

impl Search<'_> {
    fn go(&mut self, s: &Term, f: &Term, depth: usize, path: &mut Vec<usize>, out: &mut Vec<Step>) -> bool {
        if s == f {
            return true;
        }
        let key = (s.structural_hash(), f.structural_hash());
        if self.apart.get(&key).is_some_and(|d| *d >= depth) || self.tries > TRIES {
            return false;
        }
        let (class, wanted) = (class_of(self.graph, s), class_of(self.graph, f));
        if class.is_some() && wanted.is_some() && class != wanted {
            return false;
        }
        let before = out.len();
        if self.parts(s, f, DEPTH.min(depth + 1), path, out) {
            return true;
        }
        out.truncate(before);
        if depth > 0 {
            // Those first that lead to the wanted head.
            let mut made: Vec<(usize, Term)> =
                (0..self.count).filter_map(|n| Some((n, self.make(n, s)?))).collect();
            made.sort_by_key(|(_, t)| !same_head(t, f));
            for (n, t) in made {
                out.push((n, path.clone()));
                if self.go(&t, f, depth - 1, path, out) {
                    return true;
                }
                out.truncate(before);
            }
            // A move that applies once the parts have another form.
            let known = class.or(wanted).and_then(|c| self.applied.get(&c)).cloned().unwrap_or_default();
            for (from, to, n) in known.into_iter().filter(|a| a.0 != *s && same_head(&a.1, f)) {
                if self.parts(s, from, depth, path, out) {
                    out.push((*n, path.clone()));
                    if self.go(to, f, depth - 1, path, out) {
                        return true;
                    }
                }
                out.truncate(before);
            }
        }
        self.apart.insert(key, depth);
        false
    }

    /// The same head: the parts one by one.
    fn parts(
        &mut self,
        s: &Term,
        f: &Term,
        depth: usize,
        path: &mut Vec<usize>,
        out: &mut Vec<Step>,
    ) -> bool {
        if !same_head(s, f) {
            return false;
        }
        match (s.kind(), f.kind()) {
            (TermKind::App(..), TermKind::App(..)) => {
                let (Some((_, a)), Some((_, b))) = (s.spine(), f.spine()) else { return false };
                let (a, b) = (owned(a), owned(b));
                let last = a.len() - 1;
                (0..a.len()).all(|k| {
                    let length = path.len();
                    path.extend(std::iter::repeat_n(0, last - k));
                    path.push(1);
                    let met = self.go(&a[k], &b[k], depth, path, out);
                    path.truncate(length);
                    met
                })
            }
            (TermKind::Lam(_, a), TermKind::Lam(_, b)) => {
                path.push(0);
                let met = self.go(a, b, depth, path, out);
                path.pop();
                met
            }
            _ => true,
        }
    }

    fn make(&mut self, n: usize, t: &Term) -> Option<Term> {
        let key = (t.structural_hash(), n);
        if let Some(known) = self.made.get(&key) {
            return known.clone();
        }
        self.tries += 1;
        let mut state = self.state.clone();
        let new = self.moves.attempt(n, t, &mut state).map(|t| data_flow(&t)).filter(|new| new != t);
        self.made.insert(key, new.clone());
        new
    }
}

fn owned(v: Vec<&Term>) -> Vec<Term> {
    v.into_iter().cloned().collect()
}

/// The same operator, lambda, variable or number; types may be spelled otherwise.
fn same_head(a: &Term, b: &Term) -> bool {
    match (a.kind(), b.kind()) {
        (TermKind::App(..), TermKind::App(..)) => match (a.spine(), b.spine()) {
            (Some((p, x)), Some((q, y))) => p == q && x.len() == y.len(),
            _ => false,
        },
        (TermKind::Lam(..), TermKind::Lam(..)) => true,
        (TermKind::Bound(i), TermKind::Bound(j)) => i == j,
        (TermKind::Free(a), TermKind::Free(b)) => a == b,
        (TermKind::Lit(a), TermKind::Lit(b)) => a == b,
        (TermKind::Prim(p), TermKind::Prim(q)) => p == q,
        _ => false,
    }
}
