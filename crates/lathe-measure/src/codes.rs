//! The diagnostics of the store, of workers, and of cost functions.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// The file of the store, or its folder, cannot be read or created. The store is in the user's data folder;
    /// `--store PATH` or the variable LATHE_STORE sets another path.
    STORE_OPEN = Code("E1070"), "the store of results cannot be opened",
        wrong: "lathe tune --list --store /proc/results.sqlite",
        right: "lathe tune --list --store results.sqlite";

    /// The file is not a SQLite database, or is one of another program. It is left unchanged.
    STORE_FOREIGN = Code("E1071"), "the file is not a store of results",
        wrong: "lathe tune --list --store picture.png",
        right: "lathe tune --list --store results.sqlite";

    /// Another process has held the store locked for longer than the timeout. Measurements are kept in memory
    /// until the store is free, and reported if that never happens.
    STORE_LOCKED = Code("E1072"), "the store is locked",
        wrong: "sqlite3 results.sqlite 'BEGIN EXCLUSIVE' …   # left open in another terminal",
        right: "close the other program, and run the command again";

    /// The file of the store or its folder is read-only. Its results can be listed and used, but nothing can be
    /// added.
    STORE_READ_ONLY = Code("E1073"), "the store cannot be written",
        wrong: "lathe tune gemm.lathe --store /mnt/readonly/results.sqlite",
        right: "lathe tune gemm.lathe --store results.sqlite";

    /// The store's layout is newer than this program supports. It is left unchanged; a newer program can read
    /// and write it, and export it as JSON.
    STORE_FUTURE = Code("E1074"), "the store is from a newer version",
        wrong: "lathe tune --list   # of an older installation",
        right: "lathe tune --list   # of the newest installation";

    /// SQLite finds the file inconsistent: it was overwritten, cut off, or the disk failed. Nothing is deleted:
    /// move the file away, and recover what is readable with `sqlite3 FILE .recover`.
    STORE_DAMAGED = Code("E1075"), "the store is damaged",
        wrong: "head -c 5000 results.sqlite > cut.sqlite ; lathe tune --list --store cut.sqlite",
        right: "cp results.sqlite whole.sqlite ; lathe tune --list --store whole.sqlite";

    /// SQLite refused an operation for another reason, for example a full disk; the message says which.
    STORE_FAILED = Code("E1076"), "the store cannot be used",
        wrong: "lathe tune gemm.lathe   # on a full disk",
        right: "lathe tune gemm.lathe --store /mnt/empty/results.sqlite";

    /// `lathe tune --import` reads what `lathe tune --export` writes: one JSON object with the layout's version
    /// and a list of entries. If any part of it is invalid, nothing is imported.
    IMPORT = Code("E1077"), "not an export of a store",
        wrong: "echo '{}' > results.json ; lathe tune --import results.json",
        right: "lathe tune --export results.json ; lathe tune --import results.json";

    /// Entries are named by the beginning of their key, as `lathe tune --list` prints it; it must match exactly
    /// one entry.
    NO_ENTRY = Code("E1078"), "no such entry in the store",
        wrong: "lathe tune --show zzzz",
        right: "lathe tune --list";

    /// Configurations are measured in a separate process, so that a crash or a hang affects only one
    /// configuration. That process cannot be started, or ends before it was given anything to measure.
    WORKER = Code("E1080"), "a worker process cannot be used",
        wrong: "ulimit -u 1 ; lathe tune gemm.lathe",
        right: "lathe tune gemm.lathe";

    /// The compile or run script does not exist, has no permission to run, or has no interpreter.
    SCRIPT = Code("E1081"), "a script cannot be run",
        wrong: "chmod -x run.sh ; lathe tune program.json",
        right: "chmod +x run.sh ; lathe tune program.json";

    /// The file of results that every configuration must reproduce cannot be read as numbers, one per word.
    GOLD = Code("E1082"), "gold data cannot be used",
        wrong: "echo 'one two' > gold.txt",
        right: "echo '1.0 2.0' > gold.txt";
}
