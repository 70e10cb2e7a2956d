//! The diagnostics of the store, of workers, and of cost functions.

use lathe_diagnostics::{Code, CodeInfo};

/// The store's file cannot be opened or made.
pub const STORE_OPEN: Code = Code("E1070");
/// The file is not a store.
pub const STORE_FOREIGN: Code = Code("E1071");
/// Another process keeps the store to itself.
pub const STORE_LOCKED: Code = Code("E1072");
/// The store cannot be written.
pub const STORE_READ_ONLY: Code = Code("E1073");
/// The store was written by a newer version.
pub const STORE_FUTURE: Code = Code("E1074");
/// The store's content makes no sense.
pub const STORE_DAMAGED: Code = Code("E1075");
/// Anything else that SQLite refuses (a full disk).
pub const STORE_FAILED: Code = Code("E1076");
/// What is to be imported is not an export.
pub const IMPORT: Code = Code("E1077");
/// No entry of that name.
pub const NO_ENTRY: Code = Code("E1078");
/// A worker process cannot be started, or does not speak the protocol.
pub const WORKER: Code = Code("E1080");
/// A script cannot be run.
pub const SCRIPT: Code = Code("E1081");
/// Gold data that cannot be read or compared.
pub const GOLD: Code = Code("E1082");

pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: STORE_OPEN,
        title: "the store of results cannot be opened",
        explanation: "The file of the store, or its folder, cannot be read or created. The store is in \
                      the user's data folder; `--store PATH` or the variable LATHE_STORE sets another path.",
        wrong: "lathe tune --list --store /proc/results.sqlite",
        right: "lathe tune --list --store results.sqlite",
    },
    CodeInfo {
        code: STORE_FOREIGN,
        title: "the file is not a store of results",
        explanation: "The file is not a SQLite database, or is one of another program. It is left unchanged.",
        wrong: "lathe tune --list --store picture.png",
        right: "lathe tune --list --store results.sqlite",
    },
    CodeInfo {
        code: STORE_LOCKED,
        title: "the store is locked",
        explanation: "Another process has held the store locked for longer than the timeout. Measurements \
                      are kept in memory until the store is free, and reported if that never happens.",
        wrong: "sqlite3 results.sqlite 'BEGIN EXCLUSIVE' …   # left open in another terminal",
        right: "close the other program, and run the command again",
    },
    CodeInfo {
        code: STORE_READ_ONLY,
        title: "the store cannot be written",
        explanation: "The file of the store or its folder is read-only. Its results can be listed and used, but \
                      nothing can be added.",
        wrong: "lathe tune gemm.lathe --store /mnt/readonly/results.sqlite",
        right: "lathe tune gemm.lathe --store results.sqlite",
    },
    CodeInfo {
        code: STORE_FUTURE,
        title: "the store is from a newer version",
        explanation: "The store's layout is newer than this program supports. It is left unchanged; a newer program \
                      can read and write it, and export it as JSON.",
        wrong: "lathe tune --list   # of an older installation",
        right: "lathe tune --list   # of the newest installation",
    },
    CodeInfo {
        code: STORE_DAMAGED,
        title: "the store is damaged",
        explanation: "SQLite finds the file inconsistent: it was overwritten, cut off, or the disk failed. Nothing is \
                      deleted: move the file away, and recover what is readable with `sqlite3 FILE .recover`.",
        wrong: "head -c 5000 results.sqlite > cut.sqlite ; lathe tune --list --store cut.sqlite",
        right: "cp results.sqlite whole.sqlite ; lathe tune --list --store whole.sqlite",
    },
    CodeInfo {
        code: STORE_FAILED,
        title: "the store cannot be used",
        explanation: "SQLite refused an operation for another reason, for example a full disk; the message says which.",
        wrong: "lathe tune gemm.lathe   # on a full disk",
        right: "lathe tune gemm.lathe --store /mnt/empty/results.sqlite",
    },
    CodeInfo {
        code: IMPORT,
        title: "not an export of a store",
        explanation: "`lathe tune --import` reads what `lathe tune --export` writes: one JSON object with the layout's \
                      version and a list of entries. If any part of it is invalid, nothing is imported.",
        wrong: "echo '{}' > results.json ; lathe tune --import results.json",
        right: "lathe tune --export results.json ; lathe tune --import results.json",
    },
    CodeInfo {
        code: NO_ENTRY,
        title: "no such entry in the store",
        explanation: "Entries are named by the beginning of their key, as `lathe tune --list` prints it; it must \
                      match exactly one entry.",
        wrong: "lathe tune --show zzzz",
        right: "lathe tune --list",
    },
    CodeInfo {
        code: WORKER,
        title: "a worker process cannot be used",
        explanation: "Configurations are measured in a separate process, so that a crash or a hang affects \
                      only one configuration. That process cannot be started, or ends before it was given anything to measure.",
        wrong: "ulimit -u 1 ; lathe tune gemm.lathe",
        right: "lathe tune gemm.lathe",
    },
    CodeInfo {
        code: SCRIPT,
        title: "a script cannot be run",
        explanation: "The compile or run script does not exist, has no permission to run, or has no interpreter.",
        wrong: "chmod -x run.sh ; lathe tune program.json",
        right: "chmod +x run.sh ; lathe tune program.json",
    },
    CodeInfo {
        code: GOLD,
        title: "gold data cannot be used",
        explanation: "The file of results that every configuration must reproduce cannot be read as numbers, one per \
                      word.",
        wrong: "echo 'one two' > gold.txt",
        right: "echo '1.0 2.0' > gold.txt",
    },
];
