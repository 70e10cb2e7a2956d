//! Graphs of numbers. Minimum cuts: the nodes of least total weight that every path from a source to a sink goes through.
//!
//! What is to be kept of a computation, so that the rest can be computed again, is such a cut; so is what lives across a
//! barrier at which a kernel is split. By maximum flow, with every node as an edge from its entry to its exit (Ford and
//! Fulkerson, "Maximal Flow through a Network", 1956), which is found by blocking flows (Dinic, 1970).

use std::collections::VecDeque;

/// A graph whose nodes have weights.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// `None`: the node cannot be cut.
    weights: Vec<Option<u64>>,
    edges: Vec<(usize, usize)>,
    sources: Vec<usize>,
    sinks: Vec<usize>,
}

impl Network {
    /// Adds a node, and returns its number. `None`: it cannot be cut.
    pub fn node(&mut self, weight: Option<u64>) -> usize {
        self.weights.push(weight);
        self.weights.len() - 1
    }

    /// Adds an edge between two nodes.
    pub fn edge(&mut self, from: usize, to: usize) {
        self.edges.push((from, to));
    }

    /// Every path begins at a source, which may be cut itself.
    pub fn source(&mut self, node: usize) {
        self.sources.push(node);
    }

    /// Every path ends at a sink, which may be cut itself.
    pub fn sink(&mut self, node: usize) {
        self.sinks.push(node);
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.weights.len()
    }

    /// A cut of least weight, in ascending order; of several, the one that is closest to the sources. `None` where a
    /// path has no node that can be cut.
    pub fn minimum_cut(&self) -> Option<Vec<usize>> {
        // More than all nodes together weigh.
        let unlimited = self.weights.iter().flatten().map(|w| u128::from(*w)).sum::<u128>() + 1;
        let count = self.weights.len();
        let (enter, exit) = (|n: usize| 2 * n, |n: usize| 2 * n + 1);
        let (source, sink) = (2 * count, 2 * count + 1);
        let mut flow = Flow::new(2 * count + 2);
        for (n, w) in self.weights.iter().enumerate() {
            flow.edge(enter(n), exit(n), w.map_or(unlimited, u128::from));
        }
        for (a, b) in &self.edges {
            flow.edge(exit(*a), enter(*b), unlimited);
        }
        self.sources.iter().for_each(|n| flow.edge(source, enter(*n), unlimited));
        self.sinks.iter().for_each(|n| flow.edge(exit(*n), sink, unlimited));
        if flow.maximum(source, sink, unlimited) >= unlimited {
            return None;
        }
        let reached = flow.levels(source);
        let is_cut = |n: &usize| reached[enter(*n)].is_some() && reached[exit(*n)].is_none();
        Some((0..count).filter(is_cut).collect())
    }
}

/// Edges in pairs: each is followed by the one that takes its flow back.
struct Flow {
    /// Numbers of edges, by where they begin.
    out: Vec<Vec<usize>>,
    to: Vec<usize>,
    left: Vec<u128>,
}

impl Flow {
    fn new(nodes: usize) -> Flow {
        Flow { out: vec![Vec::new(); nodes], to: Vec::new(), left: Vec::new() }
    }

    fn edge(&mut self, from: usize, to: usize, capacity: u128) {
        for (a, b, c) in [(from, to, capacity), (to, from, 0)] {
            self.out[a].push(self.to.len());
            self.to.push(b);
            self.left.push(c);
        }
    }

    /// How many edges with capacity left lead to each node.
    fn levels(&self, source: usize) -> Vec<Option<usize>> {
        let mut level = vec![None; self.out.len()];
        level[source] = Some(0);
        let mut queue = VecDeque::from([source]);
        while let Some(n) = queue.pop_front() {
            for e in self.out[n].iter().filter(|e| self.left[**e] > 0) {
                if level[self.to[*e]].is_none() {
                    level[self.to[*e]] = level[n].map(|l| l + 1);
                    queue.push_back(self.to[*e]);
                }
            }
        }
        level
    }

    /// The flow from source to sink, or `limit` if it is not less.
    fn maximum(&mut self, source: usize, sink: usize, limit: u128) -> u128 {
        let mut total = 0;
        loop {
            let level = self.levels(source);
            if level[sink].is_none() {
                return total;
            }
            // The edge that each node tries next.
            let mut next = vec![0; self.out.len()];
            while let Some(pushed) = self.augment(source, sink, &level, &mut next) {
                total += pushed;
                if total >= limit {
                    return limit;
                }
            }
        }
    }

    /// Sends what one path can take.
    fn augment(
        &mut self,
        source: usize,
        sink: usize,
        level: &[Option<usize>],
        next: &mut [usize],
    ) -> Option<u128> {
        let mut path: Vec<usize> = Vec::new();
        let mut here = source;
        while here != sink {
            match self.out[here].get(next[here]) {
                Some(e) if self.left[*e] > 0 && level[self.to[*e]] == level[here].map(|l| l + 1) => {
                    path.push(*e);
                    here = self.to[*e];
                }
                Some(_) => next[here] += 1,
                None => {
                    // A dead end: back along the edge that led here.
                    let back = path.pop()?;
                    here = self.to[back ^ 1];
                    next[here] += 1;
                }
            }
        }
        let pushed = path.iter().map(|e| self.left[*e]).min()?;
        for e in path {
            self.left[e] -= pushed;
            self.left[e ^ 1] += pushed;
        }
        Some(pushed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    fn random(seed: u64) -> Network {
        let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
        let mut g = Network::default();
        let n = 1 + number(&mut s, 9) as usize;
        for _ in 0..n {
            let weight = (number(&mut s, 5) > 0).then(|| number(&mut s, 7));
            g.node(weight);
        }
        for _ in 0..number(&mut s, 3 * n as u64) {
            // Cycles, too.
            let (a, b) = (number(&mut s, n as u64) as usize, number(&mut s, n as u64) as usize);
            g.edge(a, b);
        }
        for _ in 0..1 + number(&mut s, 2) {
            g.source(number(&mut s, n as u64) as usize);
            g.sink(number(&mut s, n as u64) as usize);
        }
        g
    }

    /// Whether a path from a source to a sink avoids all nodes of a set.
    fn passes(g: &Network, cut: u32) -> bool {
        let open = |n: usize| cut >> n & 1 == 0;
        let mut seen: Vec<usize> = g.sources.iter().copied().filter(|n| open(*n)).collect();
        let mut at = 0;
        while at < seen.len() {
            let next = g.edges.iter().filter(|e| e.0 == seen[at] && open(e.1)).map(|e| e.1);
            let next: Vec<usize> = next.filter(|n| !seen.contains(n)).collect();
            seen.extend(next);
            at += 1;
        }
        g.sinks.iter().any(|n| seen.contains(n))
    }

    /// The least weight of all sets of nodes that leave no path.
    fn by_trying(g: &Network) -> Option<u64> {
        let sets = 0..1u32 << g.nodes();
        let weight = |cut: u32| {
            (0..g.nodes()).filter(|n| cut >> n & 1 == 1).map(|n| g.weights[n]).sum::<Option<u64>>()
        };
        sets.filter(|cut| !passes(g, *cut)).filter_map(weight).min()
    }

    #[test]
    fn cuts_are_minimal() {
        let cases = std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
        for seed in 0..cases {
            let g = random(seed);
            let found = g.minimum_cut();
            let set = found.as_ref().map(|c| c.iter().fold(0u32, |all, n| all | 1 << n));
            assert!(set.is_none_or(|cut| !passes(&g, cut)), "a path is left: {g:?} {found:?}");
            let weight = found.as_ref().map(|c| c.iter().filter_map(|n| g.weights[*n]).sum::<u64>());
            assert_eq!(weight, by_trying(&g), "{g:?} {found:?}");
        }
    }

    #[test]
    fn of_equal_cuts_the_first_is_taken() {
        let mut g = Network::default();
        let all: Vec<usize> = [8, 8, 9].into_iter().map(|w| g.node(Some(w))).collect();
        g.edge(all[0], all[1]);
        g.edge(all[1], all[2]);
        g.source(all[0]);
        g.sink(all[2]);
        assert_eq!(g.minimum_cut(), Some(vec![0]));
        assert_eq!(Network::default().minimum_cut(), Some(Vec::new()));
    }

    #[test]
    fn large_weights_do_not_overflow() {
        let mut g = Network::default();
        let sink = g.node(None);
        g.sink(sink);
        for _ in 0..4 {
            let n = g.node(Some(u64::MAX));
            g.source(n);
            g.edge(n, sink);
        }
        assert_eq!(g.minimum_cut(), Some(vec![1, 2, 3, 4]));
    }
}
