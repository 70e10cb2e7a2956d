//! What SQLite refuses, as diagnostics of the user's language.

use super::layout::{LAYOUT, Problem};
use crate::codes;
use lathe_diagnostics::Diagnostic;
use rusqlite::ErrorCode;
use std::path::Path;

pub(super) fn of(path: &Path, problem: Problem) -> Diagnostic {
    let file = path.display();
    let e = match problem {
        Problem::Foreign => return foreign(path, "it is a database of another program"),
        Problem::Future(v) => {
            let text =
                format!("the store `{file}` has layout {v}; this program supports layouts up to {LAYOUT}");
            return Diagnostic::error(codes::STORE_FUTURE, text)
                .help("use the newer program, or another store: --store PATH");
        }
        Problem::Strange(why) => return damaged(path, &why),
        Problem::Sqlite(e) => e,
    };
    match e.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => foreign(path, "it is not a SQLite database"),
        Some(ErrorCode::DatabaseCorrupt) => damaged(path, &e.to_string()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            let text = format!("the store `{file}` is locked by another process");
            Diagnostic::error(codes::STORE_LOCKED, text)
                .help("wait for the other process, or use another store: --store PATH")
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            Diagnostic::error(codes::STORE_READ_ONLY, format!("the store `{file}` cannot be written"))
                .help("give the folder and the file write permission, or use another store: --store PATH")
        }
        Some(ErrorCode::OperationInterrupted) => {
            damaged(path, "an operation on it takes too long for a store of this size")
        }
        Some(ErrorCode::CannotOpen) => cannot_open(path, &e.to_string()),
        _ => Diagnostic::error(codes::STORE_FAILED, format!("the store `{file}`: {e}")),
    }
}

fn foreign(path: &Path, why: &str) -> Diagnostic {
    let text = format!("`{}` is not a store of results: {why}", path.display());
    Diagnostic::error(codes::STORE_FOREIGN, text).help("it was not changed; use another file: --store PATH")
}

pub(super) fn damaged(path: &Path, why: &str) -> Diagnostic {
    Diagnostic::error(codes::STORE_DAMAGED, format!("the store `{}` is damaged", path.display()))
        .note(why.to_string())
        .help("nothing was deleted: move the file away; `sqlite3 FILE .recover` saves what can be read")
}

pub(super) fn cannot_open(path: &Path, why: &str) -> Diagnostic {
    Diagnostic::error(codes::STORE_OPEN, format!("the store `{}` cannot be opened: {why}", path.display()))
        .help("use another path: --store PATH, or the variable LATHE_STORE")
}
