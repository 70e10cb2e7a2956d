//! A store is a file that anyone may have written: what SQLite is told so that no content of it runs, writes elsewhere,
//! or keeps it busy, and what is looked at before any of it is used.

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest that one operation may take, beside waiting for other processes.
const LONGEST: Duration = Duration::from_secs(60);

/// The largest text of a row: a configuration of many parameters.
const TEXT: i32 = 64 << 20;

/// After so many steps of SQLite's machine the time is looked at.
const STEPS: i32 = 10_000;

/// Ends operations that take too long.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    since: Instant,
    /// Of the operation that runs, in milliseconds since then.
    started: Arc<AtomicU64>,
}

impl Watch {
    /// An operation begins.
    pub fn begin(&self) {
        self.started.store(self.now(), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn over(&self) -> bool {
        let spent = self.now().saturating_sub(self.started.load(Ordering::Relaxed));
        Duration::from_millis(spent) > LONGEST
    }
}

/// Prepares a connection that was just opened.
pub(super) fn guard(c: &Connection) -> rusqlite::Result<Watch> {
    for (what, on) in [
        // The schema cannot be written around SQLite's own statements, and what is in it is not trusted.
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        // We have neither.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
    ] {
        c.set_db_config(what, on)?;
    }
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, TEXT),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
        (Limit::SQLITE_LIMIT_COLUMN, 100),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 10),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        // Deleting a key deletes its sessions and their evaluations.
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 5),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        c.set_limit(limit, most)?;
    }
    let watch = Watch { since: Instant::now(), started: Arc::default() };
    let mine = watch.clone();
    c.progress_handler(STEPS, Some(move || mine.over()))?;
    // Sizes of cells are compared with their pages before they are used; the file is read, not mapped, so that one that
    // is cut meanwhile is an error and no crash.
    c.execute_batch("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;")?;
    watch.begin();
    Ok(watch)
}

/// Whether a path can be a store at all: SQLite would wait for a pipe, and read a device without end.
pub(super) fn regular(path: &Path) -> std::io::Result<()> {
    match path.metadata() {
        Ok(m) if m.is_file() => Ok(()),
        Ok(m) if m.is_dir() => Err(std::io::Error::other("it is a folder")),
        Ok(_) => Err(std::io::Error::other("it is not a regular file")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}
