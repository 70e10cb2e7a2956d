//! Going through a tree, and taking back what led nowhere.

use super::*;

/// No tree that fits in what [`Node::outgrown`] allows is deeper.
const FARTHEST: usize = 4000;

impl<N: Node> Engine<'_, N> {
    pub(super) fn walk(&mut self, walk: Walk, s: &Shared<N>, t: &N) -> Result<N, Stop> {
        match walk {
            Walk::Not => match self.probe(s, t)? {
                Ok(_) => self.refused("not", Why::Shape("the strategy applies"), None, t),
                Err(_) => self.success(t.clone()),
            },
            Walk::Where => match self.probe(s, t)? {
                Ok(_) => self.success(t.clone()),
                Err(why) => Err(Stop::Failed(why)),
            },
            Walk::One => {
                let new = self.first(0..t.arity(), &mut |e, k| e.attempt_child(s, t, t.visited(k)))?;
                self.success(new)
            }
            Walk::All => {
                let mut out = t.clone();
                for k in 0..t.arity() {
                    out = self.at_child(s, &out, t.visited(k))?;
                }
                self.success(out)
            }
            Walk::Some => {
                let (mut out, mut any, mut why) = (t.clone(), false, None);
                for k in 0..t.arity() {
                    match self.attempt_child(s, &out, t.visited(k))? {
                        Ok(new) => (out, any) = (new, true),
                        Err(w) => why = explain::more(why, w),
                    }
                }
                if any { self.success(out) } else { Err(Stop::Failed(why)) }
            }
            Walk::TopDown => self.top_down(s, t),
            Walk::BottomUp => self.bottom_up(s, t),
            Walk::AllTopDown | Walk::AllBottomUp | Walk::TryAll => self.everywhere(walk, s, t),
            Walk::Normalize => self.repeat(t, &mut |e, t| e.attempt_by(|e| e.top_down(s, t))),
        }
    }

    /// A strategy at every place, from outside or from inside. Steps may take children away.
    fn everywhere(&mut self, walk: Walk, s: &Shared<N>, t: &N) -> Result<N, Stop> {
        let mut out = if matches!(walk, Walk::AllTopDown) { self.run(s, t)? } else { t.clone() };
        let before = out.clone();
        for k in 0..before.arity() {
            if k >= out.arity() {
                break;
            }
            out = self.at_child_of(&out, before.visited(k), |e, c| e.everywhere(walk, s, c))?;
        }
        if matches!(walk, Walk::AllTopDown) {
            return self.success(out);
        }
        self.steps += 1;
        if matches!(walk, Walk::AllBottomUp) {
            return self.run(s, &out);
        }
        let done = self.attempt(s, &out)?;
        done.or_else(|_| self.success(out))
    }

    /// The first success.
    pub(super) fn first<I>(
        &mut self,
        of: impl Iterator<Item = I>,
        attempt: &mut dyn FnMut(&mut Self, I) -> Tried<N>,
    ) -> Result<N, Stop> {
        let mut why = None;
        for one in of {
            match attempt(self, one)? {
                Ok(new) => return Ok(new),
                Err(w) => why = explain::more(why, w),
            }
        }
        Err(Stop::Failed(why))
    }

    /// `s <+ one(topDown(s))`
    pub(super) fn top_down(&mut self, s: &Shared<N>, t: &N) -> Result<N, Stop> {
        let key = t.address().map(|a| (Rc::as_ptr(s) as *const u8 as usize, a));
        if !self.explain && key.is_some_and(|k| self.nowhere.contains(&k)) {
            return Err(Stop::Failed(None));
        }
        let mut why = match self.attempt(s, t)? {
            Ok(new) => return Ok(new),
            Err(why) => why,
        };
        for k in 0..t.arity() {
            match self.at_child_of(t, t.visited(k), |e, c| e.top_down(s, c)) {
                Ok(new) => return self.success(new),
                Err(Stop::Failed(w)) => why = explain::more(why, w),
                Err(fatal) => return Err(fatal),
            }
        }
        if let Some(k) = key {
            self.nowhere.insert(k);
            self.alive.push(t.clone());
        }
        Err(Stop::Failed(why))
    }

    /// `one(bottomUp(s)) <+ s`
    pub(super) fn bottom_up(&mut self, s: &Shared<N>, t: &N) -> Result<N, Stop> {
        let mut why = None;
        for k in 0..t.arity() {
            match self.at_child_of(t, t.visited(k), |e, c| e.bottom_up(s, c)) {
                Ok(new) => return self.success(new),
                Err(Stop::Failed(w)) => why = explain::more(why, w),
                Err(fatal) => return Err(fatal),
            }
        }
        self.attempt(s, t)?.map_err(|w| Stop::Failed(explain::more(why, w)))
    }

    /// The last success; coming back to a tree that was seen before is no end. At a place by name it ends, too, where
    /// nothing changes.
    pub(super) fn repeat(&mut self, t: &N, once: &mut Once<Self, N>) -> Result<N, Stop> {
        let (mut t, mut hash) = (t.clone(), t.hash());
        let mut seen: HashMap<u64, usize> = HashMap::from([(hash, self.trace.len())]);
        loop {
            let before = self.marks();
            let Ok(new) = once(self, &t)? else { return Ok(t) };
            if t.focused() && new.hash() == hash {
                self.undo(before);
                return Ok(t);
            }
            self.count()?;
            (hash, t) = (new.hash(), new);
            if let Some(how) = t.outgrown() {
                return Err(self.endless(&how));
            }
            if let Some(since) = seen.insert(hash, self.trace.len()) {
                let rules: Vec<String> = self.trace[since.min(self.trace.len())..]
                    .iter()
                    .take(8)
                    .map(|a| format!("`{}`", a.rule))
                    .collect();
                let what = if rules.is_empty() {
                    "the repeated strategy changes nothing".to_string()
                } else {
                    format!("{} return to the same tree", rules.join(" → "))
                };
                let text = format!("the strategy does not terminate: {what}");
                let help = "`repeat(s)` stops when `s` fails";
                return Err(self.mistake(codes::DIVERGES, text, None, Some(help)));
            }
        }
    }

    pub(super) fn at_child(&mut self, s: &Code<N>, t: &N, n: usize) -> Result<N, Stop> {
        self.at_child_of(t, n, |e, c| e.run(s, c))
    }

    pub(super) fn at_child_of(
        &mut self,
        t: &N,
        n: usize,
        f: impl FnOnce(&mut Self, &N) -> Result<N, Stop>,
    ) -> Result<N, Stop> {
        let Some(c) = t.child(n) else { return Err(Stop::Failed(None)) };
        if self.path.len() >= FARTHEST {
            return Err(
                self.endless(&format!("it descends {FARTHEST} levels into a tree that it keeps deepening"))
            );
        }
        self.path.push(n);
        let out = f(self, &c);
        self.path.pop();
        let new = out?;
        let same = c.address().is_some() && new.address() == c.address();
        Ok(if same { t.clone() } else { t.with_child(n, new) })
    }

    pub(super) fn marks(&self) -> (usize, N::State) {
        (self.trace.len(), self.state.clone())
    }

    pub(super) fn undo(&mut self, marks: (usize, N::State)) {
        self.trace.truncate(marks.0);
        self.state = marks.1;
    }

    /// On failure everything is as before.
    pub(super) fn attempt(&mut self, s: &Code<N>, t: &N) -> Tried<N> {
        // Single steps that change nothing leave nothing behind when they fail.
        if matches!(s, Code::Id | Code::Predicate(..)) {
            return caught(self.run(s, t));
        }
        self.attempt_by(|e| e.run(s, t))
    }

    pub(super) fn attempt_child(&mut self, s: &Shared<N>, t: &N, n: usize) -> Tried<N> {
        self.attempt_by(|e| e.at_child(s, t, n))
    }

    fn attempt_by(&mut self, f: impl FnOnce(&mut Self) -> Result<N, Stop>) -> Tried<N> {
        let (marks, callers, path) = (self.marks(), self.callers.len(), self.path.len());
        let result = caught(f(self))?;
        if result.is_err() {
            self.undo(marks);
            self.callers.truncate(callers);
            self.path.truncate(path);
        }
        Ok(result)
    }

    /// Whether a strategy would apply; nothing stays of it.
    pub(super) fn probe(&mut self, s: &Shared<N>, t: &N) -> Tried<N> {
        let marks = self.marks();
        let applies = self.attempt(s, t)?;
        self.undo(marks);
        Ok(applies)
    }
}

fn caught<T>(result: Result<T, Stop>) -> Result<Result<T, Reasons>, Stop> {
    match result {
        Err(Stop::Failed(why)) => Ok(Err(why)),
        Err(fatal) => Err(fatal),
        Ok(done) => Ok(Ok(done)),
    }
}
