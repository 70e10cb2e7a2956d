//! The search: moves are tried on all classes until a term fits the sketch, nothing is new, or a limit is met.

use super::derive::{Application, derive};
use super::graph::{self, Graph, Heads};
use super::offers::Offers;
use super::options::Options;
use super::reach::cheapest;
use super::sketch::Sketch;
use crate::facts::Facts;
use crate::normal::data_flow;
use crate::term::Term;
use egg::{EGraph, Id};
use lathe_strategy::{Moves, StepArg, Why};
use std::collections::HashSet;
use std::time::Instant;

/// `reach(sketch, …)`: see the module.
pub(super) fn search(t: &Term, args: &[StepArg], moves: &mut dyn Moves<Term>) -> Result<Term, Why> {
    let goal = match args.first() {
        Some(a) if a.name.is_none() => Sketch::read(&a.value).map_err(Why::Mistake)?,
        _ => return Err(Why::Mistake("a sketch comes first".to_string())),
    };
    let options = Options::read(args).map_err(Why::Mistake)?;
    // The last move is the normal form itself.
    let count = moves.count().saturating_sub(1);
    let start = data_flow(t);
    let mut state = moves.state();
    let graph: Graph = EGraph::new(Heads::default());
    let mut run = Run {
        graph,
        options: &options,
        tried: HashSet::new(),
        applied: Vec::new(),
        since: Instant::now(),
        // Terms that only grow lead nowhere.
        largest: 4 * start.size() + 200,
    };
    let first = graph::add(&mut run.graph, &start);
    let (mut rounds, mut extra) = (0, options.after);
    let why = loop {
        let found = run.fits(first, &goal, &state.facts);
        let mut end = run.limit().or((rounds == options.rounds).then(|| format!("after {rounds} rounds")));
        if found.is_none() || extra > 0 {
            if found.is_some() {
                extra -= 1;
            }
            if end.is_none() {
                rounds += 1;
                match run.round(count, &mut state, moves) {
                    Ok(true) => continue,
                    Ok(false) => end = Some("no rule gives anything new".to_string()),
                    Err(limit) => end = Some(limit),
                }
            }
        }
        if moves.stopped() {
            return Err(Why::Condition("stopped".to_string()));
        }
        match (found, end) {
            (Some(found), _) => {
                if let Some(derived) = derive(&run.graph, &run.applied, state.clone(), moves, t, &found) {
                    return Ok(derived);
                }
                // The search is the step, and relies on all that its moves did.
                moves.learn(&state);
                return Ok(found);
            }
            (None, end) => break end.unwrap_or_default(),
        }
    };
    let facts = state.facts.clone();
    Err(Why::Condition(run.explain(first, &goal, &facts, &why)))
}

/// The part of its time in which a search looks for the goal, and that after which it stops working out how far it
/// came: the last step of each may take long, too.
const LOOKING: f64 = 0.6;
const SAYING: f64 = 0.75;

struct Run<'a> {
    graph: Graph,
    options: &'a Options,
    /// Terms on which moves were tried.
    tried: HashSet<(u64, usize)>,
    applied: Vec<Application>,
    since: Instant,
    largest: u32,
}

impl Run<'_> {
    fn fits(&self, root: Id, goal: &Sketch, facts: &Facts) -> Option<Term> {
        cheapest(&self.graph, facts, &|h| self.options.weight(h), root, goal).map(|c| c.1)
    }

    fn limit(&self) -> Option<String> {
        let (nodes, o) = (self.graph.total_size(), self.options);
        if nodes > o.nodes {
            return Some(format!("the limit of {} nodes is reached", o.nodes));
        }
        self.used(LOOKING).then(|| format!("the limit of {} s is reached", o.time.as_secs()))
    }

    /// Whether this part of the time is over.
    fn used(&self, part: f64) -> bool {
        self.since.elapsed() > self.options.time.mul_f64(part)
    }

    /// Tries every move on every class; whether anything was learnt.
    fn round(
        &mut self,
        count: usize,
        state: &mut crate::language::TermState,
        moves: &mut dyn Moves<Term>,
    ) -> Result<bool, String> {
        let mut classes: Vec<Id> = self.graph.classes().map(|c| c.id).collect();
        classes.sort();
        let mut offers = Offers::new(self.options.depth);
        let mut found: Vec<Application> = Vec::new();
        for c in classes {
            for t in offers.all(&self.graph, c).iter() {
                for n in 0..count {
                    if !self.tried.insert((t.structural_hash(), n)) {
                        continue;
                    }
                    let Some(new) = moves.attempt(n, t, state) else { continue };
                    let new = data_flow(&new);
                    if new != *t && new.size() <= self.largest {
                        found.push((t.clone(), new, n));
                    }
                }
            }
            if moves.stopped() {
                break;
            }
            if let Some(limit) = self.limit() {
                return Err(limit);
            }
        }
        let before = (self.graph.total_size(), self.graph.number_of_classes());
        for (t, new, n) in found {
            let (a, b) = (graph::add(&mut self.graph, &t), graph::add(&mut self.graph, &new));
            self.graph.union(a, b);
            self.applied.push((t, new, n));
            if let Some(limit) = self.limit() {
                self.graph.rebuild();
                return Err(limit);
            }
        }
        self.graph.rebuild();
        Ok(before != (self.graph.total_size(), self.graph.number_of_classes()))
    }

    /// What was reached, and what was not.
    fn explain(&self, root: Id, goal: &Sketch, facts: &Facts, why: &str) -> String {
        // The more of it is open the sooner it is reached.
        let (mut least, mut most, mut best) = (0, goal.depth(), None);
        while least < most && !self.used(SAYING) {
            let middle = least + (most - least) / 2;
            let part = goal.cut(middle);
            match self.fits(root, &part, facts) {
                Some(t) => {
                    best = Some((part, t));
                    least = middle + 1;
                }
                None => most = middle,
            }
        }
        let text = format!("`{goal}` was not reached: {why}");
        match best {
            Some((s, t)) if s != Sketch::Any => {
                format!("{text}; the best reached is `{s}`, by `{}`", short(&t.to_string()))
            }
            _ => format!("{text}; no part of it was reached"),
        }
    }
}

fn short(s: &str) -> String {
    match s.char_indices().nth(300) {
        Some((n, _)) => format!("{}…", &s[..n]),
        None => s.to_string(),
    }
}
