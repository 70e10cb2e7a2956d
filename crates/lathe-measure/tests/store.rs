//! The store under several processes, kills, and files that are not what they should be.

use lathe_measure::codes;
use lathe_measure::store::{Evaluation, Key, Measured, Outcome, SessionInfo, Store, Winner};
use lathe_space::{Value, Values};
use lathe_tune::{Invalid, Why};
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

fn configuration(i: i64) -> Values {
    [("i".to_string(), Value::Int(i))].into()
}

fn measured(cost: f64) -> Measured {
    Measured { costs: vec![cost], interval: Some((cost, cost)), runs: 3 }
}

fn key(n: i64) -> Key {
    let sizes = [("N".to_string(), Value::Int(n))].into();
    Key { program: "f".into(), program_hash: "p".into(), strategy_hash: "s".into(), sizes, ..Key::default() }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("deep/inside/results.sqlite");
    (dir, path)
}

#[test]
fn a_result_is_found_under_its_key_only() {
    let (_dir, path) = folder();
    assert!(Store::open_to_read(&path).unwrap().is_none());
    let store = Store::open(&path).unwrap();
    let session = store.begin(&key(8), &SessionInfo::default()).unwrap();
    let good = Evaluation {
        coordinates: Some(vec![0.5, 1.0]),
        measured_s: 0.25,
        ..Evaluation::new(configuration(1), Outcome::Measured(measured(0.5)))
    };
    let bad = Evaluation::new(configuration(2), Outcome::Invalid(Invalid::new(Why::Timeout, "too long")));
    store.record(session, &good).unwrap();
    store.record(session, &bad).unwrap();
    store.end(session, "interrupted").unwrap();
    let winner = Winner::new(configuration(1), measured(0.5), Some("interpreter".into()));
    store.win(&key(8), &winner, None).unwrap();
    let again = Store::open_to_read(&path).unwrap().unwrap();
    assert_eq!(again.evaluations(&key(8)).unwrap(), vec![good, bad]);
    assert_eq!(again.winner(&key(8)).unwrap().unwrap(), winner);
    assert_eq!(again.winner(&key(9)).unwrap(), None);
    assert_eq!(again.evaluations(&key(9)).unwrap(), vec![]);
    assert_eq!(again.winners(&key(8)).unwrap().len(), 1);
    assert_eq!(again.winners(&key(9)).unwrap().len(), 0);
}

#[test]
fn near_misses_are_offered_the_nearest_first() {
    let (_dir, path) = folder();
    let store = Store::open(&path).unwrap();
    for n in [1024, 64, 2048] {
        store.win(&key(n), &Winner::new(configuration(n), measured(1.0), None), None).unwrap();
    }
    let elsewhere = Key { threads: 2, ..key(1000) };
    store.win(&elsewhere, &Winner::new(configuration(7), measured(1.0), None), None).unwrap();
    let other = Key { program_hash: "q".into(), ..key(1000) };
    store.win(&other, &Winner::new(configuration(8), measured(1.0), None), None).unwrap();
    let near = store.near(&key(1000)).unwrap();
    let found: Vec<_> = near.iter().map(|n| (n.winner.configuration.clone(), n.differs.clone())).collect();
    let expected = [(7, "threads"), (1024, "sizes"), (2048, "sizes"), (64, "sizes")]
        .map(|(i, d)| (configuration(i), vec![d]));
    assert_eq!(found, expected);
}

#[test]
fn a_worse_winner_of_another_process_replaces_nothing() {
    let (_dir, path) = folder();
    let store = Store::open(&path).unwrap();
    let old = Winner::new(configuration(1), measured(0.5), None);
    store.win(&key(1), &old, None).unwrap();
    let worse = Winner::new(configuration(2), measured(0.75), None);
    store.win(&key(1), &worse, None).unwrap();
    assert_eq!(store.winner(&key(1)).unwrap().unwrap(), old);
    // A run that measured both side by side knows better than the old number.
    store.win(&key(1), &worse, Some(&old)).unwrap();
    assert_eq!(store.winner(&key(1)).unwrap().unwrap(), worse);
}

#[test]
fn exports_are_imported_once() {
    let (_dir, path) = folder();
    let store = Store::open(&path).unwrap();
    for n in 0..3 {
        let session =
            store.begin(&key(n), &SessionInfo { technique: "random".into(), seed: u64::MAX }).unwrap();
        for i in 0..4 {
            let e = Evaluation::new(configuration(i), Outcome::Measured(measured(i as f64)));
            store.record(session, &e).unwrap();
        }
        store
            .win(&key(n), &Winner::new(configuration(0), measured(2.760273030429346e-7), None), None)
            .unwrap();
    }
    let text = serde_json::to_string(&store.export(None).unwrap()).unwrap();
    let (_other, path) = folder();
    let copy = Store::open(&path).unwrap();
    assert_eq!(copy.import(&text).unwrap(), 12);
    assert_eq!(copy.import(&text).unwrap(), 0);
    assert_eq!(copy.export(None).unwrap(), store.export(None).unwrap());
    for bad in ["", "{}", "[1]", r#"{"lathe_store":1,"entries":[{"key":{}}]}"#, "{\"lathe_store\":1}"] {
        assert_eq!(copy.import(bad).unwrap_err().code, codes::IMPORT, "{bad}");
    }
    assert_eq!(copy.import(r#"{"lathe_store":1000}"#).unwrap_err().code, codes::STORE_FUTURE);
    let digest = key(1).digest();
    assert_eq!(copy.show(&digest[..8]).unwrap().0.evaluations, 4);
    assert_eq!(copy.forget(Some(&digest[..8])).unwrap(), 1);
    assert_eq!(copy.list().unwrap().len(), 2);
    assert_eq!(copy.evaluations(&key(1)).unwrap(), vec![]);
    for name in [&digest[..8], "", "xyz", "%"] {
        assert_eq!(copy.show(name).unwrap_err().code, codes::NO_ENTRY, "{name}");
    }
    assert_eq!(copy.forget(None).unwrap(), 2);
}

/// The error of opening a file with this content; the file must stay as it is.
fn refused(content: &[u8]) -> lathe_diagnostics::Code {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("x.sqlite");
    std::fs::write(&path, content).unwrap();
    let error = Store::open(&path).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), content, "{error}");
    error.code
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    assert_eq!(
        refused(b"this is not a database at all, but long enough to look like a file"),
        codes::STORE_FOREIGN
    );
    assert_eq!(refused(&[0u8; 4096]), codes::STORE_FOREIGN);
    let (_dir, path) = folder();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE pictures (x)").unwrap();
    drop(other);
    assert_eq!(Store::open(&path).unwrap_err().code, codes::STORE_FOREIGN);
    assert_eq!(Store::open(Path::new("/proc/nowhere/x.sqlite")).unwrap_err().code, codes::STORE_OPEN);
    assert_eq!(Store::open(_dir.path()).unwrap_err().code, codes::STORE_OPEN);
}

#[test]
fn a_damaged_store_says_so() {
    let (_dir, path) = folder();
    let store = Store::open(&path).unwrap();
    let session = store.begin(&key(1), &SessionInfo::default()).unwrap();
    for i in 0..2000 {
        let e = Evaluation::new(configuration(i), Outcome::Measured(measured(1.0)));
        store.record(session, &e).unwrap();
    }
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    assert!(whole.len() > 50_000, "the log is not merged when the last connection closes");
    let mut garbage = whole.clone();
    garbage[4096..40_000].fill(0x5a);
    assert_eq!(refused(&garbage), codes::STORE_DAMAGED);
    assert_eq!(refused(&whole[..20_000]), codes::STORE_DAMAGED);
}

#[test]
fn a_locked_or_read_only_store_says_so() {
    let (_dir, path) = folder();
    let store = Store::open_waiting(&path, Duration::from_millis(30)).unwrap();
    let session = store.begin(&key(1), &SessionInfo::default()).unwrap();
    let e = Evaluation::new(configuration(1), Outcome::Measured(measured(1.0)));
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(store.record(session, &e).unwrap_err().code, codes::STORE_LOCKED);
    other.execute_batch("ROLLBACK").unwrap();
    store.record(session, &e).unwrap();
    let reading = Store::open_to_read(&path).unwrap().unwrap();
    assert_eq!(reading.begin(&key(2), &SessionInfo::default()).unwrap_err().code, codes::STORE_READ_ONLY);
    assert_eq!(reading.evaluations(&key(1)).unwrap().len(), 1);
}

/// Not a test by itself: looks into the store of [`a_store_in_a_folder_of_others_is_read`] as somebody else.
#[test]
fn reader() {
    let Ok(path) = std::env::var("LATHE_TEST_READ") else { return };
    let path = Path::new(&path);
    let found = Store::open_to_read(path).unwrap().unwrap();
    assert_eq!(found.evaluations(&key(1)).unwrap().len(), 3);
    assert_eq!(Store::open(path).unwrap_err().code, codes::STORE_READ_ONLY);
}

#[test]
fn a_store_in_a_folder_of_others_is_read() {
    let dir = tempfile::tempdir().expect("a folder");
    // Names that mean something in a URI.
    let path = dir.path().join("50% of #1?/results.sqlite");
    let store = Store::open(&path).unwrap();
    let session = store.begin(&key(1), &SessionInfo::default()).unwrap();
    for i in 0..3 {
        let e = Evaluation::new(configuration(i), Outcome::Measured(measured(1.0)));
        store.record(session, &e).unwrap();
    }
    drop(store);
    let allow = |p: &Path, mode| std::fs::set_permissions(p, Permissions::from_mode(mode)).unwrap();
    let inner = path.parent().unwrap();
    allow(&path, 0o444);
    allow(inner, 0o555);
    allow(dir.path(), 0o755);
    let exe = dir.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    let mut child = Command::new(&exe);
    child.args(["--exact", "reader"]).env("LATHE_TEST_READ", &path).stdout(Stdio::null());
    // The superuser may write anywhere; as nobody in particular the test means something there, too.
    if std::fs::metadata(dir.path()).unwrap().uid() == 0 {
        child.uid(65534).gid(65534);
    }
    // A process that another test starts at this moment may still have the copy open for writing.
    let status = loop {
        match child.status() {
            Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            status => break status.unwrap(),
        }
    };
    allow(inner, 0o755);
    assert!(status.success());
}

/// Not a test by itself: the process that [`killed_writers_lose_nothing`] starts and kills.
#[test]
fn writer() {
    let (Ok(path), Ok(id)) = (std::env::var("LATHE_TEST_STORE"), std::env::var("LATHE_TEST_WRITER")) else {
        return;
    };
    let id: i64 = id.parse().unwrap();
    let store = Store::open_waiting(Path::new(&path), Duration::from_secs(60)).unwrap();
    let session = store.begin(&key(id), &SessionInfo::default()).unwrap();
    let mut out = std::io::stdout();
    for i in 0.. {
        store
            .record(session, &Evaluation::new(configuration(i), Outcome::Measured(measured(i as f64))))
            .unwrap();
        writeln!(out, "committed {i}").unwrap();
        out.flush().unwrap();
    }
}

/// Four processes write; each is killed at a random moment and started anew, until all together have committed
/// `LATHE_CASES` (else 200) evaluations. Every one that was committed must be there, in order, and no other.
#[test]
fn killed_writers_lose_nothing() {
    let cases = std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200).min(1000u64);
    let (_dir, path) = folder();
    let mut id = 0;
    let (mut done, mut lives) = (0u64, Vec::new());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    while done < cases {
        let mut children = Vec::new();
        for _ in 0..4 {
            id += 1;
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "writer", "--nocapture"])
                .env("LATHE_TEST_STORE", &path)
                .env("LATHE_TEST_WRITER", id.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            children.push((id, child));
        }
        for (id, mut child) in children {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let lines = (random >> 33) % 40;
            let mut out = BufReader::new(child.stdout.take().unwrap());
            let mut last = -1;
            let mut line = String::new();
            while (last + 1) < lines as i64 {
                line.clear();
                assert!(out.read_line(&mut line).unwrap() > 0, "writer {id} ended by itself");
                if let Some(n) =
                    line.trim().rsplit("committed ").next().filter(|_| line.contains("committed"))
                {
                    last = n.parse().unwrap();
                }
            }
            child.kill().unwrap();
            child.wait().unwrap();
            // What it managed to say before the kill.
            for line in out.lines().map_while(Result::ok) {
                last = line.strip_prefix("committed ").and_then(|n| n.parse().ok()).unwrap_or(last);
            }
            done += (last + 1) as u64;
            lives.push((id, last));
        }
    }
    let store = Store::open(&path).unwrap();
    for (id, last) in lives {
        let found: Vec<i64> = store
            .evaluations(&key(id))
            .unwrap()
            .iter()
            .map(|e| match e.configuration["i"] {
                Value::Int(i) => i,
                _ => -1,
            })
            .collect();
        let all: Vec<i64> = (0..found.len() as i64).collect();
        assert_eq!(found, all, "writer {id}");
        // The one that was being written when the kill came may be there, too.
        assert!(found.len() as i64 == last + 1 || found.len() as i64 == last + 2, "writer {id}: {last}");
    }
}

/// The attacks: a database that looks like a store and holds more, or computes where a store has data.
#[test]
fn stores_that_others_made_hang_and_run_nothing() {
    const ENDLESS: &str = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT";
    for attack in [
        format!(
            "DROP TABLE winners; CREATE VIEW winners AS {ENDLESS} x AS key, x AS at, x AS configuration, x AS costs FROM c"
        ),
        format!("CREATE VIEW more AS {ENDLESS} x FROM c"),
        "CREATE TRIGGER t AFTER INSERT ON sessions BEGIN DELETE FROM keys; END".to_string(),
        "ALTER TABLE keys ADD COLUMN c TEXT AS (hex(zeroblob(1000000)))".to_string(),
        "CREATE TABLE more (x)".to_string(),
        "CREATE INDEX i ON keys(hex(key))".to_string(),
        // Under the names of ours.
        "DROP INDEX sessions_of_key; CREATE INDEX sessions_of_key ON sessions(hex(zeroblob(1000000)))"
            .to_string(),
        "DROP TABLE winners; CREATE TABLE winners (key, at, configuration, costs CHECK (costs > 0))"
            .to_string(),
        "DROP TABLE winners; CREATE VIRTUAL TABLE winners USING fts5(key, at, configuration, costs)"
            .to_string(),
        "DROP TABLE winners".to_string(),
    ] {
        let (_dir, path) = folder();
        drop(Store::open(&path).unwrap());
        let c = rusqlite::Connection::open(&path).unwrap();
        c.execute_batch(&attack).unwrap();
        drop(c);
        let start = std::time::Instant::now();
        let bytes = std::fs::read(&path).unwrap();
        for e in [
            Store::open(&path).unwrap_err(),
            Store::open_to_read(&path).unwrap_err(),
            Store::from_bytes(&bytes).unwrap_err(),
        ] {
            assert_eq!(e.code, codes::STORE_DAMAGED, "{attack}: {e}");
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{attack}");
    }
}

#[test]
fn pipes_devices_and_folders_are_no_stores() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [pipe.as_path(), dir.path(), Path::new("/dev/zero"), Path::new("/dev/full")] {
        for e in [Store::open(path).unwrap_err(), Store::open_to_read(path).unwrap_err()] {
            assert_eq!(e.code, codes::STORE_OPEN, "{path:?}: {e}");
        }
    }
}
