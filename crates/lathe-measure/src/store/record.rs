//! Writing and reading sessions, evaluations and winners.

use super::{Key, Store};
use lathe_diagnostics::Diagnostic;
use lathe_space::Values;
use lathe_tune::{Invalid, Why};
use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What measuring gave: the costs (one, or several objectives), and how sure the first one is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub costs: Vec<f64>,
    /// 95 % interval of the first cost, where it was measured more than once.
    pub interval: Option<(f64, f64)>,
    pub runs: u64,
}

/// A configuration has costs, or is invalid for a reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Measured(Measured),
    Invalid(Invalid),
}

/// One tested configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Milliseconds since 1970.
    pub at: i64,
    pub configuration: Values,
    pub outcome: Outcome,
    /// The point of the search space's cube, where a technique works in it.
    pub coordinates: Option<Vec<f64>>,
    /// Seconds that compiling and running took.
    pub measured_s: f64,
    /// Seconds of search and bookkeeping before it.
    pub search_s: f64,
}

/// The best configuration of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    pub at: i64,
    pub configuration: Values,
    pub measured: Measured,
    /// What its result was compared with.
    pub checked: Option<String>,
}

/// How a run of the tuner was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionInfo {
    pub technique: String,
    pub seed: u64,
}

/// A run of the tuner that is being recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session(pub(super) i64);

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

/// A name that no other session has, on any machine.
fn uid() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let host = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    super::hash_of(&[&nanos.to_string(), &std::process::id().to_string(), &count.to_string(), &host])
}

impl Evaluation {
    /// An evaluation that ends now.
    pub fn new(configuration: Values, outcome: Outcome) -> Evaluation {
        let at = now();
        Evaluation { at, configuration, outcome, coordinates: None, measured_s: 0.0, search_s: 0.0 }
    }
}

impl Winner {
    /// A winner found now.
    pub fn new(configuration: Values, measured: Measured, checked: Option<String>) -> Winner {
        Winner { at: now(), configuration, measured, checked }
    }
}

impl Store {
    /// Begins the record of a run of the tuner.
    ///
    /// # Errors
    /// What the store refuses.
    pub fn begin(&self, key: &Key, info: &SessionInfo) -> Result<Session, Diagnostic> {
        let key = self.key_id(key)?;
        self.insert_session(key, &uid(), now(), None, info, None)
    }

    /// Ends it, and says why it ended.
    ///
    /// # Errors
    /// What the store refuses.
    pub fn end(&self, session: Session, stopped: &str) -> Result<(), Diagnostic> {
        self.run(
            "UPDATE sessions SET ended = ?2, stopped = ?3 WHERE id = ?1",
            params![session.0, now(), stopped],
        )
        .map(drop)
    }

    /// Records one evaluation; it is safe once this returns.
    ///
    /// # Errors
    /// What the store refuses.
    pub fn record(&self, session: Session, e: &Evaluation) -> Result<(), Diagnostic> {
        let configuration = json(&e.configuration);
        let (costs, interval, runs, reason) = match &e.outcome {
            Outcome::Measured(m) => (Some(json(&m.costs)), m.interval, m.runs, None),
            Outcome::Invalid(i) => (None, None, 0, Some(json(i))),
        };
        let coordinates = e.coordinates.as_ref().map(json);
        self.run(
            "INSERT INTO evaluations (session, at, configuration, costs, low, high, runs, reason, coordinates,
                                      measured_s, search_s)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                session.0,
                e.at,
                configuration,
                costs,
                interval.map(|i| i.0),
                interval.map(|i| i.1),
                runs as i64,
                reason,
                coordinates,
                e.measured_s,
                e.search_s
            ],
        )
        .map(drop)
    }

    /// Keeps a winner, unless another process found a better one meanwhile. `seen` is the winner that this
    /// run compared its own with: that one is replaced whatever its cost was when it was stored.
    ///
    /// # Errors
    /// What the store refuses.
    pub fn win(&self, key: &Key, w: &Winner, seen: Option<&Winner>) -> Result<(), Diagnostic> {
        let key = self.key_id(key)?;
        self.run(
            "INSERT INTO winners (key, at, configuration, costs, low, high, runs, checked)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (key) DO UPDATE SET at = ?2, configuration = ?3, costs = ?4, low = ?5, high = ?6,
                                             runs = ?7, checked = ?8
             WHERE json_extract(?4, '$[0]') < json_extract(winners.costs, '$[0]')
                OR (winners.configuration = ?9 AND winners.at = ?10)",
            params![
                key,
                w.at,
                json(&w.configuration),
                json(&w.measured.costs),
                w.measured.interval.map(|i| i.0),
                w.measured.interval.map(|i| i.1),
                w.measured.runs as i64,
                w.checked,
                seen.map(|s| json(&s.configuration)),
                seen.map(|s| s.at)
            ],
        )
        .map(drop)
    }

    /// The winner of exactly this key.
    ///
    /// # Errors
    /// What the store refuses, or a damaged row.
    pub fn winner(&self, key: &Key) -> Result<Option<Winner>, Diagnostic> {
        let id = self.find(&key.digest())?;
        id.map_or(Ok(None), |id| self.winner_of(id))
    }

    /// The winners of a program for exactly these sizes, types, device, threads and compiler, under whatever
    /// strategy; the best first. `of` gives all parts but the strategy's.
    ///
    /// # Errors
    /// What the store refuses, or a damaged row.
    pub fn winners(&self, of: &Key) -> Result<Vec<(Key, Winner)>, Diagnostic> {
        self.winners_but_for(of, &["strategy", "parameters"])
    }

    /// As [`Store::winners`], for any sizes.
    ///
    /// # Errors
    /// As [`Store::winners`].
    pub fn winners_of_all_sizes(&self, of: &Key) -> Result<Vec<(Key, Winner)>, Diagnostic> {
        self.winners_but_for(of, &["strategy", "parameters", "sizes"])
    }

    /// Winners whose keys differ in nothing but these parts.
    fn winners_but_for(&self, of: &Key, parts: &[&str]) -> Result<Vec<(Key, Winner)>, Diagnostic> {
        let mut out = Vec::new();
        for (id, key) in self.keys("WHERE program = ?1 ORDER BY id", params![of.program_hash])? {
            let same = key.differences(of).iter().all(|d| parts.contains(d));
            if same && let Some(w) = self.winner_of(id)? {
                out.push((key, w));
            }
        }
        out.sort_by(|a, b| order(&a.1.measured.costs, &b.1.measured.costs));
        Ok(out)
    }

    /// All evaluations of exactly this key, of all its sessions, in order.
    ///
    /// # Errors
    /// What the store refuses, or a damaged row.
    pub fn evaluations(&self, key: &Key) -> Result<Vec<Evaluation>, Diagnostic> {
        let Some(id) = self.find(&key.digest())? else { return Ok(Vec::new()) };
        self.rows(
            "SELECT at, configuration, costs, low, high, runs, reason, coordinates, measured_s, search_s
             FROM evaluations WHERE session IN (SELECT id FROM sessions WHERE key = ?1) ORDER BY id",
            params![id],
            evaluation,
        )
    }

    pub(super) fn evaluations_of(&self, session: i64) -> Result<Vec<Evaluation>, Diagnostic> {
        self.rows(
            "SELECT at, configuration, costs, low, high, runs, reason, coordinates, measured_s, search_s
             FROM evaluations WHERE session = ?1 ORDER BY id",
            params![session],
            evaluation,
        )
    }

    pub(super) fn winner_of(&self, key: i64) -> Result<Option<Winner>, Diagnostic> {
        let found = self.rows(
            "SELECT at, configuration, costs, low, high, runs, checked FROM winners WHERE key = ?1",
            params![key],
            |r| {
                let measured = Measured {
                    costs: from_json(&r.get::<_, String>(2)?)?,
                    interval: interval(r.get(3)?, r.get(4)?),
                    runs: r.get::<_, i64>(5)? as u64,
                };
                let configuration = from_json(&r.get::<_, String>(1)?)?;
                Ok(Winner { at: r.get(0)?, configuration, measured, checked: r.get(6)? })
            },
        )?;
        Ok(found.into_iter().next())
    }

    pub(super) fn insert_session(
        &self,
        key: i64,
        uid: &str,
        started: i64,
        ended: Option<i64>,
        info: &SessionInfo,
        stopped: Option<&str>,
    ) -> Result<Session, Diagnostic> {
        self.run(
            "INSERT INTO sessions (uid, key, started, ended, technique, seed, stopped)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![uid, key, started, ended, info.technique, info.seed as i64, stopped],
        )?;
        Ok(Session(self.connection.last_insert_rowid()))
    }

    /// The row of a key; made if it is new.
    pub(super) fn key_id(&self, key: &Key) -> Result<i64, Diagnostic> {
        let digest = key.digest();
        if let Some(id) = self.find(&digest)? {
            return Ok(id);
        }
        self.run(
            "INSERT INTO keys (digest, key, program, strategy) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
            params![digest, json(key), key.program_hash, key.strategy_hash],
        )?;
        self.find(&digest)?.ok_or_else(|| self.nonsense("a key that was just written is not there"))
    }

    pub(super) fn find(&self, digest: &str) -> Result<Option<i64>, Diagnostic> {
        self.watch.begin();
        self.connection
            .prepare_cached("SELECT id FROM keys WHERE digest = ?1")
            .and_then(|mut s| s.query_row([digest], |r| r.get(0)).optional())
            .map_err(|e| self.sqlite(e))
    }

    /// Rows of keys; `which` follows the table's name.
    pub(super) fn keys(
        &self,
        which: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<(i64, Key)>, Diagnostic> {
        self.rows(&format!("SELECT id, key FROM keys {which}"), params, |r| {
            Ok((r.get(0)?, from_json(&r.get::<_, String>(1)?)?))
        })
    }

    pub(super) fn rows<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&Row) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Diagnostic> {
        self.watch.begin();
        self.connection
            .prepare_cached(sql)
            .and_then(|mut s| s.query_map(params, read)?.collect())
            .map_err(|e| self.unreadable(e))
    }

    pub(super) fn run(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize, Diagnostic> {
        self.watch.begin();
        self.connection.prepare_cached(sql).and_then(|mut s| s.execute(params)).map_err(|e| self.sqlite(e))
    }

    fn unreadable(&self, e: rusqlite::Error) -> Diagnostic {
        match e {
            rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::InvalidColumnType(..) => {
                self.nonsense(&e.to_string())
            }
            e => self.sqlite(e),
        }
    }
}

/// Lexicographic; NaN comes last.
fn order(a: &[f64], b: &[f64]) -> std::cmp::Ordering {
    let differ = a.iter().zip(b).map(|(x, y)| x.total_cmp(y)).find(|o| o.is_ne());
    differ.unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn evaluation(r: &Row) -> rusqlite::Result<Evaluation> {
    let outcome = match (r.get::<_, Option<String>>(2)?, r.get::<_, Option<String>>(6)?) {
        (Some(costs), None) => Outcome::Measured(Measured {
            costs: from_json(&costs)?,
            interval: interval(r.get(3)?, r.get(4)?),
            runs: r.get::<_, i64>(5)? as u64,
        }),
        // The first layout knew only the message.
        (_, reason) => {
            let reason = reason.unwrap_or_default();
            let message = || Invalid::new(Why::Runtime, reason.clone());
            Outcome::Invalid(serde_json::from_str(&reason).unwrap_or_else(|_| message()))
        }
    };
    let coordinates = r.get::<_, Option<String>>(7)?.map(|t| from_json(&t)).transpose()?;
    Ok(Evaluation {
        at: r.get(0)?,
        configuration: from_json(&r.get::<_, String>(1)?)?,
        outcome,
        coordinates,
        measured_s: r.get(8)?,
        search_s: r.get(9)?,
    })
}

fn interval(low: Option<f64>, high: Option<f64>) -> Option<(f64, f64)> {
    low.zip(high)
}

fn json(v: &impl Serialize) -> String {
    // What is stored are numbers, texts, lists and maps with texts as keys: all of them have a JSON form.
    serde_json::to_string(v).unwrap_or_default()
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text)
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(e)))
}
