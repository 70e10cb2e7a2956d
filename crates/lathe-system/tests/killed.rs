//! What is left of a run when the process that watches it is killed: nothing.
//!
//! This program is both: called with an argument it watches a run, else it kills the one that it called.

use lathe_system::process::{Limits, run};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A child in the background, one that left the session, and one whose parent is gone, too; then the program itself.
const PROGRAM: &str = "
    mark() { sleep 1000 & echo $! >> pids; wait; }
    mark &
    setsid sh -c 'echo $$ >> pids; sleep 1000; :' >/dev/null 2>&1 &
    (setsid sh -c '(sleep 1000 & echo $! >> pids; wait) &' >/dev/null 2>&1)
    echo $$ >> pids
    sleep 1000
";

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next() {
        Some(folder) if folder.starts_with('/') => watch(Path::new(&folder)),
        _ => nothing_outlives_a_killed_process(),
    }
}

fn watch(folder: &Path) {
    let mut program = Command::new("sh");
    program.args(["-c", PROGRAM]).current_dir(folder);
    run(program, Limits::default(), Duration::from_secs(100), 0).expect("a shell");
}

/// Whether a process is there and has not ended.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn nothing_outlives_a_killed_process() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let me = std::env::current_exe().expect("this program");
    let mut watcher = Command::new(me).arg(dir.path()).spawn().expect("this program");
    let pids = || -> Vec<String> {
        let text = std::fs::read_to_string(dir.path().join("pids")).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    };
    until("the program starts four processes", || pids().len() == 4 && pids().iter().all(|p| lives(p)));
    watcher.kill().expect("it runs");
    watcher.wait().expect("it was killed");
    until("all of them end", || !pids().iter().any(|p| lives(p)));
}
