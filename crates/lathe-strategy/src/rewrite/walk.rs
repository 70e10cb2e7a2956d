//! Going through a tree, and taking back what led nowhere.

use super::*;

/// No tree that fits in what [`Node::outgrown`] allows is deeper.
const FARTHEST: usize = 4000;

impl<N: Node> Engine<'_, N> {
    /// `s <+ one(topDown(s))`
    pub(super) fn top_down(&mut self, s: &Shared<N>, t: &N) -> Result<N, Stop> {
        let key = t.address().map(|a| (Rc::as_ptr(s) as *const u8 as usize, a));
        if self.reasons.is_none() && key.is_some_and(|k| self.nowhere.contains(&k)) {
            return Err(Stop::Failed);
        }
        if let Some(new) = self.attempt(s, t)? {
            return Ok(new);
        }
        for k in 0..t.arity() {
            let n = t.visited(k);
            match self.at_child_of(t, n, &mut |e, c| e.top_down(s, c)) {
                Ok(new) => return self.success(new),
                Err(Stop::Failed) => {}
                Err(fatal) => return Err(fatal),
            }
        }
        if let Some(k) = key {
            self.nowhere.insert(k);
            self.alive.push(t.clone());
        }
        Err(Stop::Failed)
    }

    /// `one(bottomUp(s)) <+ s`
    pub(super) fn bottom_up(&mut self, s: &Shared<N>, t: &N) -> Result<N, Stop> {
        for k in 0..t.arity() {
            let n = t.visited(k);
            match self.at_child_of(t, n, &mut |e, c| e.bottom_up(s, c)) {
                Ok(new) => return self.success(new),
                Err(Stop::Failed) => {}
                Err(fatal) => return Err(fatal),
            }
        }
        match self.attempt(s, t)? {
            Some(new) => Ok(new),
            None => Err(Stop::Failed),
        }
    }

    /// The last success; coming back to a tree that was seen before is no end.
    pub(super) fn repeat(&mut self, t: &N, once: &mut Once<Self, N>) -> Result<N, Stop> {
        let mut t = t.clone();
        let mut seen: HashMap<u64, usize> = HashMap::from([(t.hash(), self.trace.len())]);
        while let Some(new) = once(self, &t)? {
            self.count()?;
            t = new;
            if let Some(how) = t.outgrown() {
                return Err(self.endless(&how));
            }
            if let Some(since) = seen.insert(t.hash(), self.trace.len()) {
                let rules: Vec<String> = self.trace[since.min(self.trace.len())..]
                    .iter()
                    .take(8)
                    .map(|a| format!("`{}`", a.rule))
                    .collect();
                let what = if rules.is_empty() {
                    "what is repeated changes nothing".to_string()
                } else {
                    format!("{} lead back to the same place", rules.join(" → "))
                };
                let text = format!("the strategy does not end: {what}");
                let help = "`repeat(s)` ends when `s` fails";
                return Err(self.mistake(codes::DIVERGES, text, None, Some(help)));
            }
        }
        Ok(t)
    }

    pub(super) fn at_child(&mut self, s: &Shared<N>, t: &N, n: usize) -> Result<N, Stop> {
        self.at_child_of(t, n, &mut |e, c| e.run(s, c))
    }

    pub(super) fn at_child_of(
        &mut self,
        t: &N,
        n: usize,
        f: &mut dyn FnMut(&mut Self, &N) -> Result<N, Stop>,
    ) -> Result<N, Stop> {
        let Some(c) = t.child(n) else { return Err(Stop::Failed) };
        if self.path.len() >= FARTHEST {
            return Err(self.endless(&format!("it goes {FARTHEST} levels down a tree that it makes deeper")));
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
    pub(super) fn attempt(&mut self, s: &Code<N>, t: &N) -> Result<Option<N>, Stop> {
        // Single rules leave nothing behind when they fail.
        if matches!(s, Code::Id | Code::Predicate(..)) {
            return match self.run(s, t) {
                Ok(new) => Ok(Some(new)),
                Err(Stop::Failed) => Ok(None),
                Err(fatal) => Err(fatal),
            };
        }
        let (marks, callers, path) = (self.marks(), self.callers.len(), self.path.len());
        match self.run(s, t) {
            Ok(new) => Ok(Some(new)),
            Err(Stop::Failed) => {
                self.undo(marks);
                self.callers.truncate(callers);
                self.path.truncate(path);
                Ok(None)
            }
            Err(fatal) => Err(fatal),
        }
    }

    pub(super) fn attempt_child(&mut self, s: &Shared<N>, t: &N, n: usize) -> Result<Option<N>, Stop> {
        let marks = self.marks();
        match self.at_child(s, t, n) {
            Ok(new) => Ok(Some(new)),
            Err(Stop::Failed) => {
                self.undo(marks);
                Ok(None)
            }
            Err(fatal) => Err(fatal),
        }
    }

    /// Whether a strategy would apply; nothing stays of it.
    pub(super) fn probe(&mut self, s: &Shared<N>, t: &N) -> Result<bool, Stop> {
        let marks = self.marks();
        let applies = self.attempt(s, t)?.is_some();
        self.undo(marks);
        Ok(applies)
    }
}
