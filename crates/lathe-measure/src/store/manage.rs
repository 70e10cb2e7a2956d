//! Listing, showing, exporting, importing and forgetting entries.

use super::{Evaluation, Key, LAYOUT, SessionInfo, Store, Winner};
use crate::codes;
use lathe_diagnostics::Diagnostic;
use rusqlite::{TransactionBehavior, params};
use serde::{Deserialize, Serialize};

/// One key with how much is known about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    pub digest: String,
    pub key: Key,
    pub winner: Option<Winner>,
    pub sessions: u64,
    pub evaluations: u64,
}

/// A store, or a part of it, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// The layout that it was written from.
    pub lathe_store: i64,
    pub entries: Vec<ExportedEntry>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedEntry {
    pub key: Key,
    pub winner: Option<Winner>,
    pub sessions: Vec<ExportedSession>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedSession {
    /// No two sessions share it: what is imported twice is there once.
    pub uid: String,
    pub started: i64,
    pub ended: Option<i64>,
    pub info: SessionInfo,
    pub stopped: Option<String>,
    pub evaluations: Vec<Evaluation>,
}

impl Store {
    /// Every key of the store, in the order of their first use.
    ///
    /// # Errors
    /// What the store refuses, or a damaged row.
    pub fn list(&self) -> Result<Vec<Entry>, Diagnostic> {
        let keys = self.keys("ORDER BY id", [])?;
        keys.into_iter().map(|(id, key)| self.entry(id, key)).collect()
    }

    /// The one entry whose digest begins with `prefix`.
    ///
    /// # Errors
    /// `E1078` if there is none, or several.
    pub fn show(&self, prefix: &str) -> Result<(Entry, ExportedEntry), Diagnostic> {
        let (id, key) = self.one(prefix)?;
        Ok((self.entry(id, key.clone())?, self.exported(id, key)?))
    }

    /// The whole store, or the entry whose digest begins with `prefix`, to be written as JSON.
    ///
    /// # Errors
    /// As [`Store::show`].
    pub fn export(&self, prefix: Option<&str>) -> Result<Export, Diagnostic> {
        let keys = match prefix {
            Some(p) => vec![self.one(p)?],
            None => self.keys("ORDER BY id", [])?,
        };
        let entries = keys.into_iter().map(|(id, key)| self.exported(id, key)).collect::<Result<_, _>>()?;
        Ok(Export { lathe_store: LAYOUT, entries })
    }

    /// Adds an export's sessions and winners: all of it, or on an error nothing. Returns the number of
    /// evaluations that are new.
    ///
    /// # Errors
    /// `E1077` for a text that is not an export; `E1074` for one of a newer layout; what the store refuses.
    pub fn import(&self, text: &str) -> Result<usize, Diagnostic> {
        let bad = |why: String| {
            Diagnostic::error(codes::IMPORT, format!("this is not an export of a store: {why}"))
                .help("import what `lathe tune --export` wrote")
        };
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
        match value.get("lathe_store").and_then(serde_json::Value::as_i64) {
            Some(v) if v > LAYOUT => return Err(self.failed(super::layout::Problem::Future(v))),
            Some(v) if v > 0 => {}
            _ => return Err(bad("it has no `lathe_store` with a layout version".to_string())),
        }
        let export: Export = serde_json::from_value(value).map_err(|e| bad(e.to_string()))?;
        let t = rusqlite::Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .map_err(|e| self.sqlite(e))?;
        let mut added = 0;
        for e in &export.entries {
            let key = self.key_id(&e.key)?;
            for s in &e.sessions {
                let known = self.rows("SELECT 1 FROM sessions WHERE uid = ?1", [&s.uid], |_| Ok(()))?;
                if !known.is_empty() {
                    continue;
                }
                let session =
                    self.insert_session(key, &s.uid, s.started, s.ended, &s.info, s.stopped.as_deref())?;
                for evaluation in &s.evaluations {
                    self.record(session, evaluation)?;
                    added += 1;
                }
            }
            if let Some(w) = &e.winner {
                self.win(&e.key, w, None)?;
            }
        }
        t.commit().map_err(|e| self.sqlite(e))?;
        Ok(added)
    }

    /// Removes the entry whose digest begins with `prefix`, or, with `None`, all. Returns how many.
    ///
    /// # Errors
    /// As [`Store::show`].
    pub fn forget(&self, prefix: Option<&str>) -> Result<usize, Diagnostic> {
        match prefix {
            Some(p) => {
                let (id, _) = self.one(p)?;
                self.run("DELETE FROM keys WHERE id = ?1", params![id])
            }
            None => self.run("DELETE FROM keys", []),
        }
    }

    fn one(&self, prefix: &str) -> Result<(i64, Key), Diagnostic> {
        let none = |text: String| {
            Err(Diagnostic::error(codes::NO_ENTRY, text).help("`lathe tune --list` prints the entries"))
        };
        let hex = !prefix.is_empty() && prefix.chars().all(|c| c.is_ascii_hexdigit());
        if !hex {
            return none(format!("`{prefix}` is not the beginning of an entry's name"));
        }
        let pattern = format!("{}%", prefix.to_ascii_lowercase());
        let mut found = self.keys("WHERE digest LIKE ?1 ORDER BY id", [pattern])?;
        match (found.pop(), found.len()) {
            (Some(only), 0) => Ok(only),
            (None, _) => none(format!("the store has no entry `{prefix}`")),
            (Some(_), n) => none(format!("{} entries begin with `{prefix}`", n + 1)),
        }
    }

    fn entry(&self, id: i64, key: Key) -> Result<Entry, Diagnostic> {
        let counts = self.rows(
            "SELECT (SELECT count(*) FROM sessions WHERE key = ?1),
                    (SELECT count(*) FROM evaluations WHERE session IN
                        (SELECT id FROM sessions WHERE key = ?1))",
            params![id],
            |r| Ok((r.get::<_, i64>(0)? as u64, r.get::<_, i64>(1)? as u64)),
        )?;
        let (sessions, evaluations) = counts.first().copied().unwrap_or_default();
        Ok(Entry { digest: key.digest(), winner: self.winner_of(id)?, key, sessions, evaluations })
    }

    fn exported(&self, id: i64, key: Key) -> Result<ExportedEntry, Diagnostic> {
        let rows = self.rows(
            "SELECT id, uid, started, ended, technique, seed, stopped FROM sessions WHERE key = ?1 ORDER BY id",
            params![id],
            |r| {
                let info = SessionInfo { technique: r.get(4)?, seed: r.get::<_, i64>(5)? as u64 };
                let session = ExportedSession {
                    uid: r.get(1)?,
                    started: r.get(2)?,
                    ended: r.get(3)?,
                    info,
                    stopped: r.get(6)?,
                    evaluations: Vec::new(),
                };
                Ok((r.get::<_, i64>(0)?, session))
            },
        )?;
        let mut sessions = Vec::new();
        for (id, mut s) in rows {
            s.evaluations = self.evaluations_of(id)?;
            sessions.push(s);
        }
        Ok(ExportedEntry { key, winner: self.winner_of(id)?, sessions })
    }
}
