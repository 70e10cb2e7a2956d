//! Searches: rules that try strategies on trees of their own making, and end with a tree, or with the steps
//! that lead to it.

use super::*;
use crate::node::{Moves, SearchFn};

/// What a search gave, by the tree and the call.
pub(super) type Found<N> = HashMap<(u64, String), Result<Done<N>, Why>>;

/// A tree, what was learnt, the steps to it (from the place of the search), and their number.
type Done<N> = (N, <N as Node>::State, Vec<Applied<N>>, u64);

/// A search that a strategy calls.
pub(super) struct Search<N: Node> {
    pub step: Step,
    /// The call as it is written, for finding its result again.
    pub call: String,
    pub run: SearchFn<N>,
    pub moves: Vec<Shared<N>>,
}

impl<N: Node> Engine<'_, N> {
    pub(super) fn search(&mut self, s: &Search<N>, t: &N) -> Result<N, Stop> {
        self.count()?;
        let Step { name, span, .. } = &s.step;
        let key = (t.hash(), s.call.clone());
        let known = self.searched.borrow().get(&key).cloned();
        let result = match known {
            Some(r) => r,
            None => {
                let r = self.look(s, t)?;
                self.searched.borrow_mut().insert(key, r.clone());
                r
            }
        };
        match result {
            Ok((tree, state, trace, steps)) => {
                let here = self.path.clone();
                let placed = |a: Applied<N>| Applied { path: [here.clone(), a.path].concat(), ..a };
                self.trace.extend(trace.into_iter().map(placed));
                self.state = state;
                self.steps += steps;
                self.success(tree)
            }
            // A search looks at whatever tree it is given: why it found nothing is a condition.
            Err(Why::Shape(why)) => self.refused(name, Why::Condition(why.to_string()), *span, t),
            Err(why) => self.refused(name, why, *span, t),
        }
    }

    /// The search itself, as if the tree were the root.
    fn look(&mut self, s: &Search<N>, t: &N) -> Result<Result<Done<N>, Why>, Stop> {
        let (marks, before) = (self.marks(), self.steps);
        let path = std::mem::take(&mut self.path);
        let explain = std::mem::take(&mut self.explain);
        let mut tries = Tries { engine: self, moves: &s.moves, stop: None };
        let found = (s.run)(t, &s.step.args, &mut tries);
        let stop = tries.stop;
        self.path = path;
        self.explain = explain;
        let mut trace = self.trace.split_off(marks.0);
        let state = self.state.clone();
        self.undo(marks);
        let steps = std::mem::replace(&mut self.steps, before) - before;
        if let Some(stop) = stop {
            return Err(stop);
        }
        Ok(found.map(|tree| {
            // A tree without steps to it: the search is the step.
            let last = trace.iter().fold(t.clone(), |t, a| replace_at(&t, &a.path, &a.after));
            if !last.same(&tree) {
                trace = vec![s.step.applied(None, Vec::new(), t, &tree)];
            }
            (tree, state, trace, steps)
        }))
    }
}

struct Tries<'e, 'a, N: Node> {
    engine: &'e mut Engine<'a, N>,
    moves: &'e [Shared<N>],
    stop: Option<Stop>,
}

impl<N: Node> Tries<'_, '_, N> {
    /// On failure everything is as before.
    fn run(&mut self, n: usize, t: &N, path: &[usize]) -> Option<N> {
        let code = self.moves.get(n)?.clone();
        let marks = self.engine.marks();
        match self.engine.at_path(&code, t, path) {
            Ok(new) => Some(new),
            Err(stop) => {
                self.engine.undo(marks);
                self.engine.path.clear();
                if matches!(stop, Stop::Fatal(_)) {
                    self.stop.get_or_insert(stop);
                }
                None
            }
        }
    }
}

impl<N: Node> Moves<N> for Tries<'_, '_, N> {
    fn count(&self) -> usize {
        self.moves.len()
    }

    fn attempt(&mut self, n: usize, t: &N, state: &mut N::State) -> Option<N> {
        if self.stop.is_some() {
            return None;
        }
        let marks = self.engine.marks();
        let steps = self.engine.steps;
        self.engine.state = state.clone();
        let new = self.run(n, t, &[]);
        if new.is_some() {
            *state = self.engine.state.clone();
        }
        self.engine.undo(marks);
        self.engine.steps = steps;
        // What was tried lives no longer than this: addresses may come again.
        self.engine.nowhere.clear();
        self.engine.alive.clear();
        new
    }

    fn step(&mut self, n: usize, t: &N, path: &[usize]) -> Option<N> {
        if self.stop.is_some() {
            return None;
        }
        self.run(n, t, path)
    }

    fn state(&self) -> N::State {
        self.engine.state.clone()
    }

    fn learn(&mut self, state: &N::State) {
        self.engine.state = state.clone();
    }

    fn stopped(&self) -> bool {
        self.stop.is_some()
    }
}

impl<N: Node> Engine<'_, N> {
    fn at_path(&mut self, code: &Shared<N>, t: &N, path: &[usize]) -> Result<N, Stop> {
        match path.split_first() {
            None => self.run(code, t),
            Some((first, rest)) => self.at_child_of(t, *first, |e, c| e.at_path(code, c, rest)),
        }
    }
}
