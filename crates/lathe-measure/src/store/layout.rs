//! The tables, their version, and the way from every older version to this one.

use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Marks the file as ours in SQLite's header (`LATH`).
const APPLICATION: i32 = 0x4c41_5448;

/// What is wrong with a file.
#[derive(Debug)]
pub(super) enum Problem {
    Sqlite(rusqlite::Error),
    /// A database of another program.
    Foreign,
    /// Written by a newer version, with this layout.
    Future(i64),
    /// Ours by its header, and not by its content.
    Strange(String),
}

impl Problem {
    /// Whether the file or its folder may not be written.
    pub(super) fn is_permission(&self) -> bool {
        let code = if let Problem::Sqlite(e) = self { e.sqlite_error_code() } else { None };
        matches!(code, Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen))
    }
}

impl From<rusqlite::Error> for Problem {
    fn from(e: rusqlite::Error) -> Problem {
        Problem::Sqlite(e)
    }
}

/// Step `n` leads from layout `n` to layout `n + 1`. Steps are never changed once they are released.
const STEPS: &[&str] = &[
    // 1: keys, sessions, evaluations, winners.
    "CREATE TABLE keys (
        id INTEGER PRIMARY KEY,
        digest TEXT NOT NULL UNIQUE,
        key TEXT NOT NULL
    ) STRICT;
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY,
        uid TEXT NOT NULL UNIQUE,
        key INTEGER NOT NULL REFERENCES keys(id) ON DELETE CASCADE,
        started INTEGER NOT NULL,
        ended INTEGER,
        technique TEXT NOT NULL,
        seed INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE evaluations (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
        at INTEGER NOT NULL,
        configuration TEXT NOT NULL,
        costs TEXT,
        reason TEXT
    ) STRICT;
    CREATE INDEX evaluations_of_session ON evaluations(session);
    CREATE INDEX sessions_of_key ON sessions(key);
    CREATE TABLE winners (
        key INTEGER PRIMARY KEY REFERENCES keys(id) ON DELETE CASCADE,
        at INTEGER NOT NULL,
        configuration TEXT NOT NULL,
        costs TEXT NOT NULL
    ) STRICT;",
    // 2: how sure a cost is, where in the space, what it took; what a winner was checked against; near misses.
    "ALTER TABLE keys ADD COLUMN program TEXT NOT NULL DEFAULT '';
    ALTER TABLE keys ADD COLUMN strategy TEXT NOT NULL DEFAULT '';
    UPDATE keys SET program = coalesce(json_extract(key, '$.program_hash'), ''),
                    strategy = coalesce(json_extract(key, '$.strategy_hash'), '');
    CREATE INDEX keys_of_program ON keys(program, strategy);
    ALTER TABLE sessions ADD COLUMN stopped TEXT;
    ALTER TABLE evaluations ADD COLUMN low REAL;
    ALTER TABLE evaluations ADD COLUMN high REAL;
    ALTER TABLE evaluations ADD COLUMN runs INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE evaluations ADD COLUMN coordinates TEXT;
    ALTER TABLE evaluations ADD COLUMN measured_s REAL NOT NULL DEFAULT 0;
    ALTER TABLE evaluations ADD COLUMN search_s REAL NOT NULL DEFAULT 0;
    ALTER TABLE winners ADD COLUMN low REAL;
    ALTER TABLE winners ADD COLUMN high REAL;
    ALTER TABLE winners ADD COLUMN runs INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE winners ADD COLUMN checked TEXT;",
];

/// The layout that this program writes.
pub const LAYOUT: i64 = STEPS.len() as i64;

/// Everything that a database is declared to hold: kinds and names, with the words that declare each.
type Schema = BTreeMap<(String, String), Vec<String>>;

fn schema(c: &Connection) -> rusqlite::Result<Schema> {
    let mut all = c.prepare("SELECT type, name, coalesce(sql, '') FROM sqlite_schema")?;
    let row = |r: &rusqlite::Row| {
        let sql: String = r.get(2)?;
        Ok(((r.get(0)?, r.get(1)?), sql.split_whitespace().map(str::to_string).collect()))
    };
    all.query_map([], row)?.collect()
}

/// What a store of each layout holds, the first layout first.
static SCHEMAS: LazyLock<Vec<Schema>> = LazyLock::new(|| {
    let of = |layout: i64| -> rusqlite::Result<Schema> {
        let c = Connection::open_in_memory()?;
        upgrade(&c, 0, layout)?;
        schema(&c)
    };
    // Without memory for empty tables, no file is a store.
    (1..=LAYOUT).map(|layout| of(layout).unwrap_or_default()).collect()
});

/// Whether a database holds what a store of this layout holds, and nothing else: no view that stands for a table, no
/// trigger, no table or column that is computed.
fn only_ours(c: &Connection, layout: i64) -> Result<(), Problem> {
    let ours = usize::try_from(layout - 1).ok().and_then(|i| SCHEMAS.get(i)).ok_or(Problem::Foreign)?;
    let found = schema(c)?;
    let other = found.iter().find(|(name, words)| ours.get(name) != Some(words));
    if let Some(((kind, name), _)) = other {
        return Err(Problem::Strange(format!("it has an unexpected {kind} `{name}`")));
    }
    match ours.keys().find(|name| !found.contains_key(name)) {
        Some((kind, name)) => Err(Problem::Strange(format!("the {kind} `{name}` is missing"))),
        None => Ok(()),
    }
}

/// The layout of a file; `None` if it holds nothing at all.
pub(super) fn version(c: &Connection) -> Result<Option<i64>, Problem> {
    // All of it at one moment: another process may be making the tables.
    c.execute_batch("SAVEPOINT version")?;
    let found = version_now(c);
    c.execute_batch("RELEASE version")?;
    found
}

fn version_now(c: &Connection) -> Result<Option<i64>, Problem> {
    let number = |name: &str| c.query_row(&format!("PRAGMA {name}"), [], |r| r.get::<_, i64>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    let tables: i64 = c.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
    match (application, version, tables) {
        (0, 0, 0) => Ok(None),
        (a, v, _) if a == i64::from(APPLICATION) && v > LAYOUT => Err(Problem::Future(v)),
        (a, v, _) if a == i64::from(APPLICATION) && v > 0 => only_ours(c, v).map(|()| Some(v)),
        _ => Err(Problem::Foreign),
    }
}

/// Makes or upgrades the tables. What is not ours is not touched.
pub(super) fn prepare(c: &Connection, patience: Duration) -> Result<(), Problem> {
    version(c)?;
    write_ahead(c, patience)?;
    // NORMAL survives a killed process; only a power cut may lose the newest evaluations, never the store.
    c.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;")?;
    if version(c)? == Some(LAYOUT) {
        return Ok(());
    }
    let t = rusqlite::Transaction::new_unchecked(c, TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    let from = version(&t)?.unwrap_or(0);
    upgrade(&t, from, LAYOUT)?;
    t.commit()?;
    Ok(())
}

fn upgrade(c: &Connection, from: i64, to: i64) -> rusqlite::Result<()> {
    for step in STEPS.iter().take(to as usize).skip(from as usize) {
        c.execute_batch(step)?;
    }
    c.execute_batch(&format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {to};"))
}

/// Switching to a write-ahead log needs the file for a moment, and SQLite does not wait for it by itself.
fn write_ahead(c: &Connection, patience: Duration) -> Result<(), Problem> {
    let start = Instant::now();
    loop {
        let mode = c.query_row("PRAGMA journal_mode = WAL", [], |r| r.get::<_, String>(0));
        match mode {
            Ok(_) => return Ok(()),
            Err(e)
                if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && start.elapsed() < patience =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Key, Store};

    #[test]
    fn an_old_layout_is_upgraded_with_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.sqlite");
        let key = Key { program_hash: "p".into(), strategy_hash: "s".into(), ..Key::default() };
        let c = Connection::open(&path).unwrap();
        upgrade(&c, 0, 1).unwrap();
        let json = serde_json::to_string(&key).unwrap();
        c.execute("INSERT INTO keys (digest, key) VALUES (?1, ?2)", (key.digest(), json)).unwrap();
        c.execute_batch(
            "INSERT INTO sessions (uid, key, started, technique, seed) VALUES ('u', 1, 5, 'random', 7);
             INSERT INTO evaluations (session, at, configuration, costs) VALUES (1, 6, '{\"t\":8}', '[0.5]');
             INSERT INTO evaluations (session, at, configuration, reason) VALUES (1, 7, '{\"t\":9}', 'no');
             INSERT INTO winners (key, at, configuration, costs) VALUES (1, 6, '{\"t\":8}', '[0.5]');",
        )
        .unwrap();
        drop(c);
        let reading = Store::open_to_read(&path).unwrap().unwrap();
        assert_eq!(reading.winner(&key).unwrap().unwrap().measured.costs, vec![0.5]);
        let store = Store::open(&path).unwrap();
        assert_eq!(version(&store.connection).unwrap(), Some(LAYOUT));
        assert_eq!(store.evaluations(&key).unwrap().len(), 2);
        let other = Key { threads: 9, ..key };
        assert_eq!(store.near(&other).unwrap().len(), 1);
    }

    #[test]
    fn a_future_layout_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("future.sqlite");
        drop(Store::open(&path).unwrap());
        let c = Connection::open(&path).unwrap();
        c.execute_batch("PRAGMA user_version = 99").unwrap();
        drop(c);
        for e in [Store::open(&path).unwrap_err(), Store::open_to_read(&path).unwrap_err()] {
            assert_eq!(e.code, crate::codes::STORE_FUTURE, "{e}");
        }
    }
}
