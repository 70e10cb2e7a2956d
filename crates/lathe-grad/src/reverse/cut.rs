//! What is kept for the reverse sweep, and what is computed again from it: a minimum cut.
//!
//! By itself, the reverse sweep keeps the elements that were overwritten, and computes all else from them. But what it
//! needs may be a value that is smaller than what it is made of: one value of several arrays, or one for every row of
//! something that has columns, too. So the expressions that a first version of the reverse sweep asked for are the sinks
//! of a network, the tapes that it made are the sources, and the nodes are the values in between, with the bytes that
//! keeping them for every iteration takes. Local arrays of an iteration, which are computed again, lead to the values that
//! are written to them. The nodes of a minimum cut are what the second version keeps (Moses et al., "Reverse-Mode Automatic
//! Differentiation and Optimization of GPU Kernels via Enzyme", 2021, section 4.2, where the weights are numbers of values).

use super::Reverse;
use super::restore::{Asked, When};
use super::tape::Tape;
use crate::node::ScopeId;
use crate::{Kept, bytes};
use lathe_graph::Network;
use lathe_ir::build::load;
use lathe_ir::{BufId, Expr, ExprKind, VarId};
use std::collections::{HashMap, HashSet};

/// A value at a site that is kept: the number of the site, the value, and where it is evaluated.
pub type Value = (usize, Option<Expr>, Expr);

/// More nodes than any program that was written by somebody has.
const MAX_NODES: usize = 20_000;

impl Reverse<'_> {
    /// The values to keep besides tapes of elements; none where that would not be less.
    pub fn cut(&mut self, asked: &[Asked], sizes: &HashMap<VarId, i64>) -> HashSet<Value> {
        let (graph, values) = self.network(asked, sizes);
        let cut = if graph.nodes() > MAX_NODES { None } else { graph.minimum_cut() };
        cut.into_iter().flatten().filter_map(|n| values[n].clone()).collect()
    }

    /// The network, and what its nodes are; tapes are no values.
    fn network(&mut self, asked: &[Asked], sizes: &HashMap<VarId, i64>) -> (Network, Vec<Option<Value>>) {
        let mut b = Builder {
            r: self,
            sizes,
            graph: Network::default(),
            values: Vec::new(),
            nodes: HashMap::new(),
            done: HashSet::new(),
            tapes: HashMap::new(),
            locals: Vec::new(),
            clean: HashMap::new(),
        };
        let mut made: HashMap<BufId, Vec<usize>> = HashMap::new();
        for a in asked {
            if !b.r.is_behind(&a.site, a.when) {
                continue;
            }
            if b.graph.nodes() > MAX_NODES {
                break;
            }
            let Some(n) = b.value(a, &a.value) else { continue };
            if a.into.is_empty() {
                b.graph.sink(n);
            }
            a.into.iter().for_each(|x| made.entry(*x).or_default().push(n));
        }
        for (n, array) in std::mem::take(&mut b.locals) {
            for from in made.get(&array).into_iter().flatten() {
                b.graph.edge(*from, n);
            }
        }
        (b.graph, b.values)
    }

    /// What would be kept if every value that is read and gone were kept where it is read; `None` where their number is data.
    pub fn everything(&mut self, asked: &[Asked]) -> Option<Vec<Kept>> {
        let (tapes, counters) = (self.tapes.len(), self.counters.len());
        let mut seen: HashSet<(usize, Expr)> = HashSet::new();
        let mut out = Some(Vec::new());
        for a in asked.iter().filter(|a| a.when == When::Back) {
            for x in lathe_ir::visit::loads_of(&a.value) {
                let Some(scope) = x.view.buffer().and_then(|b| self.scope_of.get(&b)).copied() else {
                    continue;
                };
                let gone = scope != 0 || self.overwritten(&a.site, &x, When::Back).is_some();
                if !gone || !seen.insert((a.site.id, load(x.clone()))) {
                    continue;
                }
                let tape = self.tape_of_all(&a.site, &a.dims, &load(x.clone()));
                let kept = tape.map(|t| self.kept_by(&t));
                out = out.zip(kept).map(|(mut all, k)| {
                    all.push(k);
                    all
                });
            }
        }
        self.tapes.truncate(tapes);
        self.counters.truncate(counters);
        out
    }
}

struct Builder<'r, 'a, 's> {
    r: &'r mut Reverse<'a>,
    sizes: &'s HashMap<VarId, i64>,
    graph: Network,
    values: Vec<Option<Value>>,
    nodes: HashMap<Value, usize>,
    /// What was looked at, at which time.
    done: HashSet<(usize, When)>,
    tapes: HashMap<BufId, usize>,
    /// Nodes that read arrays local to an iteration.
    locals: Vec<(usize, BufId)>,
    /// Whether a value is one of the primal, by its address.
    clean: HashMap<usize, bool>,
}

impl Builder<'_, '_, '_> {
    /// The node of a value; `None` if it is read from nothing.
    fn value(&mut self, a: &Asked, e: &Expr) -> Option<usize> {
        if matches!(e.kind(), ExprKind::Var(_)) {
            return None;
        }
        let children = e.children();
        let is_load = matches!(e.kind(), ExprKind::Load(_));
        if children.is_empty() && !is_load {
            return None;
        }
        let key = (a.site.id, a.under.clone(), e.clone());
        let n = match self.nodes.get(&key) {
            Some(n) => *n,
            None => {
                let weight = self.weight(a, e);
                let n = self.graph.node(weight);
                self.values.push(Some(key.clone()));
                self.nodes.insert(key, n);
                n
            }
        };
        if !self.done.insert((n, a.when)) {
            return Some(n);
        }
        if let ExprKind::Load(x) = e.kind()
            && let Some(b) = x.view.buffer()
            && let Some(scope) = self.r.scope_of.get(&b).copied()
            && self.r.again(&a.site, x, a.when).is_none()
        {
            if a.site.depth(scope) > a.site.depth(self.r.home(&a.site)) {
                self.locals.push((n, b));
            } else if let Some(scope) = self.r.overwritten(&a.site, x, a.when) {
                let tape = self.tape(a, x, scope);
                self.graph.edge(tape, n);
            }
        }
        for c in children {
            if let Some(from) = self.value(a, c) {
                self.graph.edge(from, n);
            }
        }
        Some(n)
    }

    /// The tape that the elements come from.
    fn tape(&mut self, a: &Asked, x: &lathe_ir::Access, scope: ScopeId) -> usize {
        let read = self.r.taped(&a.site, &a.dims, x, a.under.as_ref(), a.when, scope).ok();
        let buffer = read.as_ref().and_then(|e| match e.kind() {
            ExprKind::Load(t) => t.view.buffer(),
            _ => None,
        });
        if let Some(known) = buffer.and_then(|b| self.tapes.get(&b)) {
            return *known;
        }
        let tape = self.r.tapes.iter().find(|t| Some(t.buffer.id) == buffer);
        // One that keeps the same values is the same.
        let same =
            |t: &Tape, b: &BufId| self.r.tapes.iter().any(|o| o.buffer.id == *b && self.r.is_one(t, o));
        let known =
            self.tapes.iter().filter(|(b, _)| tape.is_some_and(|t| same(t, b))).map(|(_, n)| *n).min();
        if let Some(n) = known {
            self.tapes.extend(buffer.map(|b| (b, n)));
            return n;
        }
        let kept = tape.map(|t| self.r.kept_by(t));
        let weight = kept.and_then(|k| bytes::weight(&bytes::total(&[k]), self.sizes));
        let n = self.graph.node(weight);
        self.values.push(None);
        self.graph.source(n);
        self.tapes.extend(buffer.map(|b| (b, n)));
        n
    }

    /// What a value weighs that may be kept.
    fn weight(&mut self, a: &Asked, e: &Expr) -> Option<u64> {
        let fits = e.ty().scalar().is_some_and(|s| s.is_float() || s.is_int());
        // An element of an array that outlives all iterations of the scope that keeps values has its tape.
        let home = self.r.home(&a.site);
        let outlives = |s: &ScopeId| a.site.depth(*s) <= a.site.depth(home);
        let outer = matches!(e.kind(), ExprKind::Load(x)
            if x.view.buffer().is_none_or(|b| self.r.scope_of.get(&b).is_none_or(outlives)));
        if !fits || outer || self.r.volatile.contains(&a.site.id) || !self.is_clean(e) {
            return None;
        }
        let tape: Tape = self.r.new_tape(&a.site, &a.dims, e, a.under.as_ref(), home).ok()?;
        bytes::weight(&bytes::total(&[self.r.kept_by(&tape)]), self.sizes)
    }

    /// Whether a value is one of the primal: no cotangent is in it.
    fn is_clean(&mut self, e: &Expr) -> bool {
        if let Some(known) = self.clean.get(&e.address()) {
            return *known;
        }
        let own = match e.kind() {
            ExprKind::Var(v) => !e.ty().is_float() || self.r.constants.contains(v),
            ExprKind::Load(x) => x.view.buffer().is_some_and(|b| self.r.scope_of.contains_key(&b)),
            _ => true,
        };
        let clean = own && e.children().into_iter().all(|c| self.is_clean(c));
        self.clean.insert(e.address(), clean);
        clean
    }
}
