//! What a search knows from the store, and what it adds to it.

use lathe_diagnostics::Diagnostic;
use lathe_measure::codes::STORE_LOCKED;
use lathe_measure::store::{Evaluation, Key, Session, SessionInfo, Store, Winner};
use lathe_space::Values;
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a store that did not take an evaluation is left alone.
const REST: Duration = Duration::from_secs(10);

/// The store's part in a search. Without a store it keeps nothing.
#[derive(Debug, Default)]
pub struct Record {
    open: Option<(Store, Session, Key)>,
    /// Evaluations of earlier searches of the same key, by configuration; of several the newest.
    known: HashMap<String, Evaluation>,
    /// Their configurations, in the order in which they were measured.
    pub order: Vec<Values>,
    /// The winner of earlier searches.
    pub old: Option<Winner>,
    /// Winners for other sizes, devices or threads: where to begin.
    pub near: Vec<lathe_measure::store::Near>,
    /// Not written yet, since the store was locked.
    unwritten: Vec<Evaluation>,
    tried: Option<Instant>,
    /// Why something could not be written.
    pub trouble: Option<Diagnostic>,
}

/// How many starting points are taken over from other keys.
const NEAR: usize = 3;

impl Record {
    /// Opens the store at `path`, and begins a search of `key` in it. Of what is known, `use_it` says what is used.
    ///
    /// # Errors
    /// What the store refuses.
    pub fn open(
        path: &Path,
        key: &Key,
        info: &SessionInfo,
        use_it: impl Fn(&Evaluation) -> bool,
    ) -> Result<Record, Diagnostic> {
        let store = Store::open(path)?;
        let (mut known, mut order) = (HashMap::new(), Vec::new());
        for e in store.evaluations(key)?.into_iter().filter(|e| use_it(e)) {
            let configuration = e.configuration.clone();
            if known.insert(text(&configuration), e).is_none() {
                order.push(configuration);
            }
        }
        let old = store.winner(key)?;
        let mut near = store.near(key)?;
        near.truncate(NEAR);
        let session = store.begin(key, info)?;
        Ok(Record { open: Some((store, session, key.clone())), known, order, old, near, ..Record::default() })
    }

    /// What an earlier search of the same key measured.
    pub fn known(&self, configuration: &Values) -> Option<&Evaluation> {
        if self.known.is_empty() { None } else { self.known.get(&text(configuration)) }
    }

    /// Writes an evaluation; a store that is locked gets it later.
    pub fn add(&mut self, e: Evaluation) {
        if self.open.is_none() {
            return;
        }
        self.unwritten.push(e);
        if self.tried.is_none_or(|t| t.elapsed() >= REST) {
            self.write();
        }
    }

    fn write(&mut self) {
        let Some((store, session, _)) = &self.open else { return };
        while let Some(e) = self.unwritten.first() {
            if let Err(d) = store.record(*session, e) {
                self.trouble = Some(d);
                self.tried = Some(Instant::now());
                return;
            }
            self.unwritten.remove(0);
        }
        // What was only locked is written now.
        if self.trouble.as_ref().is_some_and(|d| d.code == STORE_LOCKED) {
            self.trouble = None;
        }
        self.tried = None;
    }

    /// Ends the search, with its winner if it found one.
    pub fn end(&mut self, stopped: &str, winner: Option<&Winner>) {
        self.write();
        let Some((store, session, key)) = &self.open else { return };
        let done = store.end(*session, stopped).and_then(|()| match winner {
            Some(w) => store.win(key, w, self.old.as_ref()),
            None => Ok(()),
        });
        if let Err(d) = done {
            self.trouble.get_or_insert(d);
        }
    }

    /// The key's name in the store.
    pub fn digest(&self) -> Option<String> {
        self.open.as_ref().map(|o| o.2.digest())
    }
}

fn text(configuration: &Values) -> String {
    serde_json::to_string(configuration).unwrap_or_default()
}
