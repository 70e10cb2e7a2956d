//! The cheapest term of a class that a sketch describes.

use super::graph::{Graph, Head};
use super::sketch::{Sketch, names};
use crate::facts::Facts;
use crate::term::{Term, TermKind};
use egg::Id;
use std::collections::{HashMap, HashSet, VecDeque};

/// What a node costs by itself; at least 1, so that a term costs more than its parts.
pub type Weight<'a> = dyn Fn(&Head) -> u64 + 'a;

/// How the cheapest term of a class is made.
#[derive(Clone)]
struct Choice {
    cost: u64,
    by: By,
}

#[derive(Clone)]
enum By {
    /// The node of the class, and which sketch each child is for.
    Node(usize, Vec<usize>),
    /// The same class by another sketch.
    Other(usize),
}

/// The sketches of a goal, parts before what is made of them, with the choices of each class.
struct Solver<'a> {
    graph: &'a Graph,
    facts: &'a Facts,
    weight: &'a Weight<'a>,
    classes: Vec<Id>,
    tables: Vec<HashMap<Id, Choice>>,
}

/// The cheapest term of a class that the sketch describes, if there is one.
pub fn cheapest(
    graph: &Graph,
    facts: &Facts,
    weight: &Weight,
    root: Id,
    goal: &Sketch,
) -> Option<(u64, Term)> {
    let mut classes: Vec<Id> = graph.classes().map(|c| c.id).collect();
    classes.sort();
    let mut s = Solver { graph, facts, weight, classes, tables: Vec::new() };
    s.fix(|s, c| s.nodes(c, |n| vec![0; n.children.len()]));
    let goal = s.solve(goal);
    let root = graph.find(root);
    let cost = s.tables[goal].get(&root)?.cost;
    Some((cost, s.term(goal, root)?))
}

impl Solver<'_> {
    /// Adds the table of a sketch; its number. Table 0 is that of `?`.
    fn solve(&mut self, sketch: &Sketch) -> usize {
        match sketch {
            Sketch::Any => 0,
            Sketch::Or(a, b) => {
                let (a, b) = (self.solve(a), self.solve(b));
                self.fix(|s, c| [a, b].into_iter().filter_map(|k| s.other(k, c)).collect())
            }
            Sketch::Number(v) => self.fix(|s, c| {
                let lit = |n: &super::graph::Op| match s.graph.analysis.get(n.head) {
                    Head::Leaf(t) => matches!(t.kind(), TermKind::Lit(x) if x.to_f64() == *v),
                    _ => false,
                };
                let nodes = s.graph[c].nodes.iter().enumerate().filter(|(_, n)| lit(n));
                nodes.filter_map(|(n, _)| s.node(c, n, Vec::new())).collect()
            }),
            Sketch::Contains(inner) => {
                let inner = self.solve(inner);
                let here = self.tables.len();
                self.fix(|s, c| {
                    let mut all: Vec<Choice> = s.other(inner, c).into_iter().collect();
                    for (n, node) in s.graph[c].nodes.iter().enumerate() {
                        for k in 0..node.children.len() {
                            let mut parts = vec![0; node.children.len()];
                            parts[k] = here;
                            all.extend(s.node(c, n, parts));
                        }
                    }
                    all
                })
            }
            Sketch::Op(name, sizes, inner) => {
                let inner: Vec<usize> = inner.iter().map(|s| self.solve(s)).collect();
                let here = self.tables.len();
                self.fix(|s, c| {
                    let mut all = Vec::new();
                    for (n, node) in s.graph[c].nodes.iter().enumerate() {
                        let count = node.children.len();
                        match s.graph.analysis.get(node.head) {
                            Head::Leaf(p)
                                if inner.len() <= count && names(name, sizes, p, count, s.facts) =>
                            {
                                let mut parts = vec![0; count];
                                parts[..inner.len()].copy_from_slice(&inner);
                                all.extend(s.node(c, n, parts));
                            }
                            // Of a function its body.
                            Head::Lam(..) => all.extend(s.node(c, n, vec![here])),
                            _ => {}
                        }
                    }
                    all
                })
            }
        }
    }

    fn nodes(&self, c: Id, parts: impl Fn(&super::graph::Op) -> Vec<usize>) -> Vec<Choice> {
        let nodes = self.graph[c].nodes.iter().enumerate();
        nodes.filter_map(|(n, node)| self.node(c, n, parts(node))).collect()
    }

    fn node(&self, c: Id, n: usize, parts: Vec<usize>) -> Option<Choice> {
        let node = &self.graph[c].nodes[n];
        let mut cost = (self.weight)(self.graph.analysis.get(node.head)).max(1);
        for (child, k) in node.children.iter().zip(&parts) {
            let table = self.tables.get(*k)?;
            cost = cost.saturating_add(table.get(&self.graph.find(*child))?.cost);
        }
        Some(Choice { cost, by: By::Node(n, parts) })
    }

    fn other(&self, k: usize, c: Id) -> Option<Choice> {
        Some(Choice { cost: self.tables[k].get(&c)?.cost, by: By::Other(k) })
    }

    /// A new table: the cheapest choices, until no class finds a cheaper one.
    fn fix(&mut self, choices: impl Fn(&Self, Id) -> Vec<Choice>) -> usize {
        let here = self.tables.len();
        self.tables.push(HashMap::new());
        let mut waiting: VecDeque<Id> = self.classes.iter().copied().collect();
        let mut waits: HashSet<Id> = waiting.iter().copied().collect();
        while let Some(c) = waiting.pop_front() {
            waits.remove(&c);
            let Some(best) = choices(self, c).into_iter().min_by_key(|c| c.cost) else { continue };
            let old = self.tables[here].get(&c).map_or(u64::MAX, |c| c.cost);
            if best.cost < old {
                self.tables[here].insert(c, best);
                for p in self.graph[c].parents() {
                    let p = self.graph.find(p);
                    if waits.insert(p) {
                        waiting.push_back(p);
                    }
                }
            }
        }
        here
    }

    /// Ends: the term of a choice costs more than its parts.
    fn term(&self, k: usize, c: Id) -> Option<Term> {
        match &self.tables[k].get(&c)?.by {
            By::Other(k) => self.term(*k, c),
            By::Node(n, parts) => {
                let node = &self.graph[c].nodes[*n];
                let children = node.children.iter().zip(parts);
                let children = children.map(|(child, k)| self.term(*k, self.graph.find(*child)));
                Some(self.graph.analysis.build(node.head, &children.collect::<Option<Vec<_>>>()?))
            }
        }
    }
}
