//! The terms that stand for a class when a move is tried on it.

use super::graph::{Graph, Head};
use crate::term::Term;
use egg::Id;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The most terms that a class offers.
const OFFERS: usize = 64;

/// For each class, terms in which a chain of so many nodes is chosen freely and all else is smallest.
/// Lambdas do not count: a move on `map(|x| map(…))` looks at two maps.
pub struct Offers {
    depth: usize,
    known: HashMap<(Id, usize), Rc<Vec<Term>>>,
}

impl Offers {
    pub fn new(depth: usize) -> Offers {
        Offers { depth, known: HashMap::new() }
    }

    pub fn all(&mut self, g: &Graph, c: Id) -> Rc<Vec<Term>> {
        self.of(g, c, self.depth)
    }

    fn of(&mut self, g: &Graph, c: Id, depth: usize) -> Rc<Vec<Term>> {
        let c = g.find(c);
        if let Some(v) = self.known.get(&(c, depth)) {
            return v.clone();
        }
        let mut out: Vec<Term> = Vec::new();
        let mut seen: HashSet<Term> = HashSet::new();
        let mut offer = |t: Term| {
            if seen.insert(t.clone()) {
                out.push(t);
            }
        };
        if depth == 0 {
            offer(g[c].data.clone());
        } else {
            let mut nodes: Vec<_> = g[c].nodes.iter().collect();
            nodes.sort();
            for node in nodes {
                let best: Vec<Term> = node.children.iter().map(|c| g[g.find(*c)].data.clone()).collect();
                offer(g.analysis.build(node.head, &best));
                let below = match g.analysis.get(node.head) {
                    Head::Lam(..) => depth,
                    Head::Leaf(_) | Head::Apply => depth - 1,
                };
                for (k, child) in node.children.iter().enumerate() {
                    for t in self.of(g, *child, below).iter() {
                        let mut parts = best.clone();
                        parts[k] = t.clone();
                        offer(g.analysis.build(node.head, &parts));
                    }
                }
            }
        }
        // Small ones first: moves on large ones are rarely useful.
        out.sort_by_key(|t| (t.size(), t.structural_hash()));
        out.truncate(OFFERS);
        let out = Rc::new(out);
        // Most are asked for once at the full depth.
        if depth < self.depth {
            self.known.insert((c, depth), out.clone());
        }
        out
    }
}
