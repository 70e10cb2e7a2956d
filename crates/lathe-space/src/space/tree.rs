//! A group's tree: the valid values of its parameters, with common subtrees stored once.
//!
//! Every parameter of the group is a level. A level's nodes are alternatives: a node lists the values that are
//! possible below one choice of earlier values, and with each value the nodes of the levels that hang below it.
//! Levels below one value that do not depend on each other hang beside each other, so their choices multiply
//! (an AND/OR graph in the sense of Dechter and Mateescu). The thesis's chain of trees is the case in which each
//! level has one level below it and nothing is shared.

use super::count::Count;

/// One level. Edges are the values of all nodes, one node after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Level<C> {
    /// The declared parameter.
    pub param: usize,
    /// The level that this one hangs below, and as which of its children.
    pub parent: Option<(usize, usize)>,
    /// The levels below, in order.
    pub children: Vec<usize>,
    /// The only node has all `n` values of the parameter, and nothing is below: no list is stored.
    pub full: Option<u32>,
    /// Node `i` has the edges `starts[i]..starts[i + 1]`.
    pub starts: Vec<u32>,
    /// Per edge the number of the value, ascending within a node.
    pub values: Vec<u32>,
    /// Per edge the configurations of the node up to and with this edge; empty where nothing is below.
    pub below: Vec<C>,
    /// Per edge one node for each child.
    pub kids: Vec<u32>,
}

impl<C: Count> Level<C> {
    /// The number of edges of a node.
    pub fn degree(&self, node: u32) -> u32 {
        let i = node as usize;
        self.full.unwrap_or_else(|| self.starts[i + 1] - self.starts[i])
    }

    fn start(&self, node: u32) -> usize {
        if self.full.is_some() { 0 } else { self.starts[node as usize] as usize }
    }

    /// The number of the value of edge `k` of a node.
    pub fn value(&self, node: u32, k: u32) -> u32 {
        if self.full.is_some() { k } else { self.values[self.start(node) + k as usize] }
    }

    /// The edge with a value.
    pub fn edge_of(&self, node: u32, value: u32) -> Option<u32> {
        if let Some(n) = self.full {
            return (value < n).then_some(value);
        }
        let start = self.start(node);
        let edges = &self.values[start..start + self.degree(node) as usize];
        edges.binary_search(&value).ok().map(|k| k as u32)
    }

    /// The configurations below the first `k` edges of a node.
    pub fn before(&self, node: u32, k: u32) -> C {
        if self.children.is_empty() {
            C::from_len(k)
        } else if k == 0 {
            C::zero()
        } else {
            self.below[self.start(node) + k as usize - 1].clone()
        }
    }

    /// The configurations below a node.
    pub fn total(&self, node: u32) -> C {
        self.before(node, self.degree(node))
    }

    /// The edge that configuration `at` of the node is below.
    fn edge_at(&self, node: u32, at: &C) -> u32 {
        if self.children.is_empty() {
            return at.position();
        }
        let start = self.start(node);
        let below = &self.below[start..start + self.degree(node) as usize];
        below.partition_point(|b| b <= at) as u32
    }

    /// The node of child number `slot` below edge `k` of a node.
    pub fn kid(&self, node: u32, k: u32, slot: usize) -> u32 {
        self.kids[(self.start(node) + k as usize) * self.children.len() + slot]
    }

    fn bytes(&self) -> usize {
        let words = self.starts.len() + self.values.len() + self.kids.len();
        let counts: usize = self.below.iter().map(|c| size_of::<C>() + c.heap()).sum();
        size_of::<Self>() + self.children.len() * 8 + words * 4 + counts
    }
}

/// The tree of one group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tree<C> {
    pub levels: Vec<Level<C>>,
    /// The levels that hang below nothing.
    pub roots: Vec<usize>,
    pub total: C,
}

/// A configuration of a group: at each level the node that was reached and the edge taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    pub nodes: Vec<u32>,
    pub edges: Vec<u32>,
}

impl<C: Count> Tree<C> {
    /// The stored edges; a level stored as its range counts one.
    pub fn nodes(&self) -> usize {
        self.levels.iter().map(|l| if l.full.is_some() { 1 } else { l.values.len() }).sum()
    }

    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.levels.iter().map(Level::bytes).sum::<usize>()
    }

    /// Goes down all levels; `choose` gets the level and its node, and says which edge to take.
    pub fn descend(&self, mut choose: impl FnMut(usize, u32) -> Option<u32>) -> Option<Path> {
        let mut path = Path { nodes: vec![0; self.levels.len()], edges: vec![0; self.levels.len()] };
        for (l, level) in self.levels.iter().enumerate() {
            let node = match level.parent {
                None => 0,
                Some((p, slot)) => self.levels[p].kid(path.nodes[p], path.edges[p], slot),
            };
            let k = choose(l, node)?;
            path.nodes[l] = node;
            path.edges[l] = k;
        }
        Some(path)
    }

    /// The path of configuration `index`, which is below `total`. Levels further right count faster.
    pub fn path(&self, index: C) -> Path {
        let mut path = Path { nodes: vec![0; self.levels.len()], edges: vec![0; self.levels.len()] };
        self.visit(index, |l, node, k| {
            path.nodes[l] = node;
            path.edges[l] = k;
        });
        path
    }

    /// Calls `f` with each level, node and edge of the path of configuration `index`.
    pub fn visit(&self, index: C, mut f: impl FnMut(usize, u32, u32)) {
        // Per level the node, and the configuration of it.
        scratch(self.levels.len(), (0u32, C::zero()), |at| {
            let mut left = index;
            for r in self.roots.iter().copied().rev() {
                let (q, d) = left.div_rem(&self.levels[r].total(0));
                at[r].1 = d;
                left = q;
            }
            for (l, level) in self.levels.iter().enumerate() {
                let node = at[l].0;
                let k = level.edge_at(node, &at[l].1);
                f(l, node, k);
                let Some((first, others)) = level.children.split_first() else { continue };
                let mut left = at[l].1.minus(&level.before(node, k));
                for (slot, c) in others.iter().enumerate().rev() {
                    let kid = level.kid(node, k, slot + 1);
                    let (q, d) = left.div_rem(&self.levels[*c].total(kid));
                    at[*c] = (kid, d);
                    left = q;
                }
                at[*first] = (level.kid(node, k, 0), left);
            }
        });
    }

    /// The inverse of [`Tree::path`].
    pub fn index(&self, path: &Path) -> C {
        let mut at: Vec<C> = vec![C::zero(); self.levels.len()];
        for (l, level) in self.levels.iter().enumerate().rev() {
            let (node, k) = (path.nodes[l], path.edges[l]);
            let mut inner = C::zero();
            for (slot, c) in level.children.iter().enumerate() {
                inner = join(&inner, &self.levels[*c].total(level.kid(node, k, slot)), &at[*c]);
            }
            at[l] = join(&level.before(node, k), &C::one(), &inner);
        }
        let mut index = C::zero();
        for r in self.roots.iter().copied() {
            index = join(&index, &self.levels[r].total(0), &at[r]);
        }
        index
    }

    /// The path through given values, if it is there.
    pub fn find(&self, value: impl Fn(usize) -> u32) -> Option<Path> {
        self.descend(|l, node| {
            let level = &self.levels[l];
            level.edge_of(node, value(level.param))
        })
    }

    /// A path through the values nearest to wanted ones. `distance` of a value from the wanted one is at least
    /// 1 for each that differs. The least sum of distances is found unless the search takes too long; then what
    /// was found first.
    pub fn nearest(&self, distance: &dyn Fn(usize, u32) -> f64) -> Option<Path> {
        if self.levels.len() > DEEP {
            return self.descend(|l, node| {
                let level = &self.levels[l];
                let far = |k: &u32| distance(level.param, level.value(node, *k));
                (0..level.degree(node)).min_by(|a, b| far(a).total_cmp(&far(b)))
            });
        }
        let mut search = Nearest { tree: self, distance, known: Default::default(), budget: 5_000 };
        for r in &self.roots {
            search.best(*r, 0);
        }
        self.descend(|l, node| search.known.get(&(l, node)).map(|b| b.0))
    }
}

/// With more levels the search for the nearest takes the nearest value at each level.
const DEEP: usize = 500;

/// `a * total + b`; what fits the whole fits each part.
fn join<C: Count>(a: &C, total: &C, b: &C) -> C {
    a.times(total).and_then(|v| v.plus(b)).unwrap_or_else(C::zero)
}

/// Calls `f` with `n` copies of a value, on the stack if they are few.
fn scratch<T: Clone>(n: usize, value: T, f: impl FnOnce(&mut [T])) {
    const FEW: usize = 12;
    if n <= FEW {
        let mut all: [T; FEW] = std::array::from_fn(|_| value.clone());
        f(&mut all[..n]);
    } else {
        f(&mut vec![value; n]);
    }
}

/// The search of [`Tree::nearest`]: the best edge and its distance per level and node.
struct Nearest<'a, C> {
    tree: &'a Tree<C>,
    distance: &'a dyn Fn(usize, u32) -> f64,
    known: std::collections::HashMap<(usize, u32), (u32, f64)>,
    /// Edges that may still be looked at before only the nearest is taken.
    budget: u32,
}

impl<C: Count> Nearest<'_, C> {
    fn best(&mut self, l: usize, node: u32) -> f64 {
        if let Some((_, d)) = self.known.get(&(l, node)) {
            return *d;
        }
        let level = &self.tree.levels[l];
        let leaf = level.children.is_empty();
        let mut edges: Vec<(f64, u32)> = (0..level.degree(node))
            .map(|k| ((self.distance)(level.param, level.value(node, k)), k))
            .collect();
        let first = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if leaf {
            let near = edges.into_iter().min_by(first).unwrap_or((0.0, 0));
            self.known.insert((l, node), (near.1, near.0));
            return near.0;
        }
        edges.sort_by(first);
        let mut best = (0, f64::INFINITY);
        for (d, k) in edges {
            if d >= best.1 || (self.budget == 0 && best.1.is_finite()) {
                break;
            }
            self.budget = self.budget.saturating_sub(1);
            let tree = self.tree;
            let children = &tree.levels[l].children;
            let sum = (0..children.len())
                .map(|slot| self.best(children[slot], tree.levels[l].kid(node, k, slot)))
                .fold(d, |a, b| a + b);
            if sum < best.1 {
                best = (k, sum);
            }
        }
        self.known.insert((l, node), best);
        best.1
    }
}
