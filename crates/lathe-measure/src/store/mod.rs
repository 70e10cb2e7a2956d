//! The store of tuning results: one SQLite file, shared by all processes of a user.
//!
//! Every result lies under a [`Key`] that names everything that it depends on; it is never given out for
//! anything else (`near` offers starting points, and says so). Each evaluation is a transaction of its own in
//! a write-ahead log: a process that is killed at any moment loses at most the evaluation it was about to
//! write, and several processes write at once.

mod error;
mod guard;
mod key;
mod layout;
mod manage;
mod near;
mod record;

pub use key::{Device, Key, hash_of, hash_of_bytes, hash_of_file};
pub use layout::LAYOUT;
pub use manage::{Entry, Export, ExportedEntry, ExportedSession};
pub use near::Near;
pub use record::{Evaluation, Measured, Outcome, Session, SessionInfo, Winner};

use crate::codes;
use lathe_diagnostics::Diagnostic;
use rusqlite::{Connection, OpenFlags};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An open store. Methods take `&self`; one store belongs to one thread.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    watch: guard::Watch,
}

/// How long another process is waited for.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Where the store lies: the given path, else `LATHE_STORE`, else the user's data folder
/// (`$XDG_DATA_HOME/lathe/results.sqlite`, `~/.local/share/lathe/results.sqlite`).
///
/// # Errors
/// `E1070` if there is no such folder to be found.
pub fn path(given: Option<&Path>) -> Result<PathBuf, Diagnostic> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(p) = given.map(Path::to_path_buf).or_else(|| set("LATHE_STORE")) {
        return Ok(p);
    }
    // A relative XDG_DATA_HOME is to be ignored (XDG base directory specification).
    let data = set("XDG_DATA_HOME").filter(|p| p.is_absolute());
    match data.or_else(|| set("HOME").map(|h| h.join(".local/share"))) {
        Some(folder) => Ok(folder.join("lathe/results.sqlite")),
        None => Err(Diagnostic::error(codes::STORE_OPEN, "the user has no data folder for the store")
            .help("set LATHE_STORE to the path of the store, or HOME")),
    }
}

impl Store {
    /// Opens a store for writing; makes it, and its folder, if it is not there; upgrades an older layout.
    ///
    /// # Errors
    /// `E1070` to `E1076`: what is wrong with the file. It is then left as it is.
    pub fn open(path: &Path) -> Result<Store, Diagnostic> {
        Store::open_waiting(path, PATIENCE)
    }

    /// As [`Store::open`], with another patience for other processes.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_waiting(path: &Path, patience: Duration) -> Result<Store, Diagnostic> {
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|e| error::cannot_open(path, &e.to_string()))?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let store = Store::connect(path, flags, patience)?;
        store.prepare(patience)?;
        Ok(store)
    }

    /// Opens a copy of a file's bytes in memory, to look results up; `None` if it holds nothing. What is written to it
    /// is written nowhere else.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Option<Store>, Diagnostic> {
        let path = Path::new(":memory:");
        let failed = |e| error::of(path, layout::Problem::Sqlite(e));
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_in_memory_with_flags(flags).map_err(failed)?;
        if !bytes.is_empty() {
            let mut bytes = bytes.to_vec();
            // Databases in memory have no write-ahead log: both versions of the format are those of files without one
            // ("Database File Format", 1.3.3).
            for version in bytes.iter_mut().skip(18).take(2).filter(|v| **v == 2) {
                *version = 1;
            }
            connection
                .deserialize_read_exact("main", bytes.as_slice(), bytes.len(), false)
                .map_err(failed)?;
        }
        let store = Store::guarded(connection, path)?;
        match layout::version(&store.connection).map_err(|e| store.failed(e))? {
            Some(v) if v < LAYOUT => {
                store.prepare(PATIENCE)?;
                Ok(Some(store))
            }
            Some(_) => Ok(Some(store)),
            None => Ok(None),
        }
    }

    /// Makes or upgrades the tables, and looks for damage before anything is added: opening for writing does it.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn prepare(&self, patience: Duration) -> Result<(), Diagnostic> {
        self.watch.begin();
        layout::prepare(&self.connection, patience).map_err(|e| self.failed(e))?;
        self.check()
    }

    /// Opens a store to look results up; `None` if there is none. Nothing is written.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_to_read(path: &Path) -> Result<Option<Store>, Diagnostic> {
        if !path.exists() {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut store = Store::connect(path, flags, PATIENCE)?;
        let mut version = layout::version(&store.connection);
        if version.as_ref().is_err_and(layout::Problem::is_permission) && !has_log(path) {
            // Reading, too, makes files beside the store, and this folder is not ours. Without a log nobody is
            // writing, and the file can be read as it is.
            let uri = format!("file:{}?immutable=1", escaped(path));
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            let connection = Connection::open_with_flags(uri, flags).map_err(|e| store.sqlite(e))?;
            store = Store::guarded(connection, path)?;
            version = layout::version(&store.connection);
        }
        match version {
            Ok(Some(v)) if v < LAYOUT => {
                // Looking up in an older layout: upgraded first, since it is ours.
                drop(store);
                Store::open(path).map(Some)
            }
            Ok(Some(_)) => Ok(Some(store)),
            Ok(None) => Ok(None),
            Err(e) => Err(store.failed(e)),
        }
    }

    fn connect(path: &Path, flags: OpenFlags, patience: Duration) -> Result<Store, Diagnostic> {
        guard::regular(path).map_err(|e| error::cannot_open(path, &e.to_string()))?;
        let failed = |e| error::of(path, layout::Problem::Sqlite(e));
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        let store = Store::guarded(connection, path)?;
        store.connection.busy_timeout(patience).map_err(|e| store.sqlite(e))?;
        Ok(store)
    }

    fn guarded(connection: Connection, path: &Path) -> Result<Store, Diagnostic> {
        let watch = guard::guard(&connection).map_err(|e| error::of(path, layout::Problem::Sqlite(e)))?;
        let store = Store { connection, path: path.to_path_buf(), watch };
        store.connection.set_prepared_statement_cache_capacity(32);
        Ok(store)
    }

    /// Damage is found before anything is added to it. Large stores are checked where they are read only.
    fn check(&self) -> Result<(), Diagnostic> {
        const PAGES: i64 = 20_000;
        self.watch.begin();
        let pages: i64 =
            self.connection.query_row("PRAGMA page_count", [], |r| r.get(0)).map_err(|e| self.sqlite(e))?;
        if pages > PAGES {
            return Ok(());
        }
        let verdict: String = self
            .connection
            .query_row("PRAGMA quick_check(1)", [], |r| r.get(0))
            .map_err(|e| self.sqlite(e))?;
        if verdict == "ok" { Ok(()) } else { Err(error::damaged(&self.path, &verdict)) }
    }

    /// Where the store lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn sqlite(&self, e: rusqlite::Error) -> Diagnostic {
        self.failed(layout::Problem::Sqlite(e))
    }

    fn failed(&self, p: layout::Problem) -> Diagnostic {
        error::of(&self.path, p)
    }

    /// A value of a column that does not read as what was written.
    fn nonsense(&self, what: &str) -> Diagnostic {
        error::damaged(&self.path, what)
    }
}

/// Whether a write-ahead log with something in it lies beside the store.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    // What cannot be looked at might be one.
    std::fs::metadata(log).map_or_else(|e| e.kind() != std::io::ErrorKind::NotFound, |m| m.len() > 0)
}

/// A path as a part of a URI.
fn escaped(path: &Path) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-~".contains(&b);
    let bytes = path.as_os_str().as_bytes().iter();
    bytes.map(|b| if plain(*b) { char::from(*b).to_string() } else { format!("%{b:02X}") }).collect()
}
