//! Attacks through files and places that others can write, on the real command: masks of new files, links that flip,
//! entries of the cache that change names, pipes and devices, escapes in names, compilers that hang, closed outputs.

use crate::common::{Done, Folder, done, parsed};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DOUBLE: &str = "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\n";

fn allow(path: impl AsRef<Path>, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permissions");
}

fn program(f: &Folder, name: &str, text: &str) -> PathBuf {
    f.write(name, format!("#!/bin/sh\n{text}\n"));
    allow(f.path(name), 0o755);
    f.path(name)
}

fn with(f: &Folder, line: &str, env: &[(&str, &Path)]) -> Done {
    let mut c = f.command(line);
    c.envs(env.iter().map(|(n, v)| (*n, v.as_os_str())));
    done(c.output().expect("lathe starts"))
}

fn fifo(path: PathBuf) {
    assert!(Command::new("mkfifo").arg(path).status().is_ok_and(|s| s.success()));
}

/// The compiler sees the folder as it is while code is made in it.
#[test]
fn code_is_compiled_where_nobody_else_can_write() {
    let f = Folder::new();
    f.write("f.lathe", DOUBLE);
    let seen = f.path("seen").display().to_string();
    let cc = program(
        &f,
        "spy",
        &format!(
            "for a; do case $a in */kernel.so) stat -c %a $(dirname $a) >> {seen} ;; esac; done; exec cc \"$@\""
        ),
    );
    let run = |setup: &str| {
        let mine = f.command("run f.lathe -D N=8 --engine c --check");
        let mut c = Command::new("sh");
        c.arg("-c").arg(format!("{setup}; exec \"$0\" \"$@\"")).arg(mine.get_program()).args(mine.get_args());
        c.current_dir(f.path(".")).envs(mine.get_envs().filter_map(|(n, v)| Some((n, v?)))).env("CC", &cc);
        // What was compiled before would be loaded.
        c.env("LATHE_CACHE", "");
        done(c.output().expect("a shell"))
    };
    for mask in ["000", "022", "077"] {
        let d = run(&format!("umask {mask}"));
        assert_eq!(d.status, 0, "{mask}: {}", d.stderr);
    }
    assert!(
        f.read("seen").lines().count() >= 3 && f.read("seen").lines().all(|m| m == "700"),
        "{}",
        f.read("seen")
    );
    // A name that looks like an option; a place where others can exchange folders.
    std::fs::create_dir(f.path("-o")).expect("a folder");
    assert_eq!(run("TMPDIR=-o; export TMPDIR").status, 0);
    std::fs::create_dir(f.path("open")).expect("a folder");
    let d = run("chmod 777 open; TMPDIR=$PWD/open; export TMPDIR");
    assert!(d.status == 1 && d.stderr.starts_with("E0820") && d.stderr.contains("TMPDIR"), "{}", d.stderr);
    for place in [".", "-o", "open"] {
        let left = std::fs::read_dir(f.path(place)).expect("a folder").flatten();
        let left: Vec<_> = left.filter(|e| e.file_name().to_string_lossy().starts_with("lathe-")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn compilers_with_blanks_in_their_names_and_compilers_that_hang() {
    let f = Folder::new();
    f.write("f.lathe", DOUBLE);
    std::fs::create_dir(f.path("my compilers")).expect("a folder");
    let cc = program(&f, "my compilers/the cc", "exec cc \"$@\"");
    let line = "run f.lathe -D N=8 --engine c --check";
    for command in
        [cc.display().to_string(), format!("{} -O0", cc.display()), format!("'{}' -O0", cc.display())]
    {
        let d = with(&f, line, &[("CC", Path::new(&command))]);
        assert_eq!(d.status, 0, "{command}: {}", d.stderr);
    }
    let mark = f.path("mark").display().to_string();
    let cc = program(&f, "hang", &format!("(sleep 3; touch {mark}) & sleep 100"));
    let start = Instant::now();
    let d = with(&f, line, &[("CC", &cc), ("LATHE_CC_SECONDS", Path::new("0.5"))]);
    assert!(d.status == 1 && d.stderr.starts_with("E0820") && d.stderr.contains("0.5 s"), "{}", d.stderr);
    assert!(start.elapsed() < Duration::from_secs(20));
    let d = with(&f, line, &[("LATHE_CC_SECONDS", Path::new("soon"))]);
    assert!(
        d.status == 1 && d.stderr.contains("LATHE_CC_SECONDS") && d.stderr.contains("`soon`"),
        "{}",
        d.stderr
    );
    // `doctor` asks the compiler, too.
    std::thread::sleep(Duration::from_millis(2700));
    assert!(!f.path("mark").exists(), "what the compiler started went on");
}

#[test]
fn names_of_c_are_names_like_others() {
    let f = Folder::new();
    let text = "kernel NAME(int64_t: f32[N], uint32_t: f32[N], INT64_MAX: f32[N], size_t: f32[N]) -> (NULL: f32[N], free: f32[N]) {
    NULL[restrict] = int64_t[restrict] + uint32_t[restrict] * INT64_MAX[restrict]
    free[restrict] = sqrt(abs(size_t[restrict])) + NULL[restrict]
}
strategy fast for NAME = vectorize(restrict, 8)";
    for name in
        ["int64_t", "memcpy", "memset", "main", "sqrtf", "double", "lathe_array", "NULL", "exit", "index"]
    {
        f.write("n.lathe", text.replace("NAME", name));
        for engine in ["c", "llvm"] {
            let d = f.ok(&format!("run n.lathe:{name} -s fast -D N=100 --engine {engine} --check --json"));
            assert_eq!(parsed(&d)["check"]["ok"], serde_json::json!(true), "{name} {engine}");
        }
        // What is emitted can be compiled and linked with its header.
        f.ok(&format!("emit n.lathe:{name} -s fast --to c -o k.c"));
        f.ok(&format!("emit n.lathe:{name} -s fast --to header -o k.h"));
        f.ok(&format!("emit n.lathe:{name} -s fast --to object -o k.o"));
        let header = f.read("k.h");
        let call = header
            .lines()
            .find_map(|l| l.split("int32_t ").nth(1)?.split_once("_call("))
            .expect("a call")
            .0
            .to_string();
        f.write(
            "m.c",
            format!(
                "#define LATHE_STANDALONE\n#include \"k.h\"\nint main(void) {{ return {call}_call == 0; }}\n"
            ),
        );
        for part in ["k.c", "k.o"] {
            let out = Command::new("cc")
                .args(["-march=native", "m.c", part, "-lm", "-o", "m"])
                .current_dir(f.path("."))
                .output();
            let out = out.expect("a compiler");
            assert!(out.status.success(), "{name} {part}: {}", String::from_utf8_lossy(&out.stderr));
        }
    }
}

#[test]
fn the_cache_is_ones_own_and_its_entries_are_what_they_say() {
    let f = Folder::new();
    f.write("f.lathe", DOUBLE);
    f.write("g.lathe", DOUBLE.replace("2 *", "3 *"));
    f.write("photo.bin", vec![7; 1000]);
    let cache = f.path("cache");
    let run = |file: &str, folder: &Path| {
        let d = with(&f, &format!("run {file} -D N=8 --seed 1 --check"), &[("LATHE_CACHE", folder)]);
        assert_eq!(d.status, 0, "{}", d.stderr);
        d.stderr
    };
    let entries = || -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = std::fs::read_dir(cache.join("compiled-2"))
            .expect("entries")
            .map(|e| e.expect("one").path())
            .collect();
        all.retain(|p| p.extension().is_some_and(|e| e == "bin"));
        all.sort();
        all
    };
    run("f.lathe", &cache);
    let first = entries();
    run("g.lathe", &cache);
    let second: Vec<PathBuf> = entries().into_iter().filter(|p| !first.contains(p)).collect();
    assert!(!first.is_empty() && !second.is_empty());
    // One kernel's code under the other's name, as a copy and as a link: `--check` would see it run.
    for a in &second {
        for b in &first {
            std::fs::copy(a, b).expect("a copy");
        }
        run("f.lathe", &cache);
    }
    for b in &first {
        std::fs::remove_file(b).expect("an entry");
        symlink(&second[0], b).expect("a link");
    }
    run("f.lathe", &cache);
    // A folder that others can write is not used, and the user is told.
    allow(cache.join("compiled-2"), 0o777);
    let said = run("f.lathe", &cache);
    assert!(said.contains("note:") && said.contains("other users"), "{said}");
    allow(cache.join("compiled-2"), 0o700);
    assert!(!run("f.lathe", &cache).contains("other users"));
    // Over the limit, nothing that is not ours is removed.
    let mut c = f.command("run f.lathe -D N=8");
    c.env("LATHE_CACHE", f.path(".")).env("LATHE_CACHE_BYTES", "5000");
    assert!(c.output().is_ok_and(|o| o.status.success()));
    assert!(f.path("photo.bin").exists());
    let mut c = f.command("run f.lathe -D N=8");
    let d =
        done(c.env("LATHE_CACHE", &cache).env("LATHE_CACHE_BYTES", "plenty").output().expect("lathe starts"));
    assert!(d.status == 0 && d.stderr.contains("LATHE_CACHE_BYTES is `plenty`"), "{}", d.stderr);
}

/// A link in a folder of somebody else flips between a good and a bad cache while the command runs.
#[test]
fn a_link_that_flips_gets_no_code_run() {
    let f = Folder::new();
    f.write("f.lathe", DOUBLE);
    f.write("g.lathe", DOUBLE.replace("2 *", "3 *"));
    for (file, cache) in [("f.lathe", "good"), ("g.lathe", "bad")] {
        assert_eq!(with(&f, &format!("run {file} -D N=8"), &[("LATHE_CACHE", &f.path(cache))]).status, 0);
    }
    // The bad one has the entries of the other kernel under this one's names.
    let names: Vec<_> = std::fs::read_dir(f.path("good/compiled-2"))
        .expect("entries")
        .flatten()
        .map(|e| e.file_name())
        .collect();
    let evil: Vec<_> =
        std::fs::read_dir(f.path("bad/compiled-2")).expect("entries").flatten().map(|e| e.path()).collect();
    for e in evil.iter().filter(|e| e.extension().is_some_and(|e| e == "bin")) {
        for n in names.iter().filter(|n| n.to_string_lossy().ends_with(".bin")) {
            std::fs::copy(e, f.path("bad/compiled-2").join(n)).expect("a copy");
        }
    }
    let link = f.path("link");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut n = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let new = f.path(&format!("new{n}"));
                let _ = symlink(f.path(["good", "bad"][n % 2]), &new);
                let _ = std::fs::rename(&new, &link);
                n += 1;
            }
        });
        for _ in 0..40 {
            let d = with(&f, "run f.lathe -D N=8 --check", &[("LATHE_CACHE", &link)]);
            assert_eq!(d.status, 0, "{}", d.stderr);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn pipes_and_devices_are_read_by_nobody() {
    let f = Folder::new();
    f.write("f.lathe", DOUBLE);
    fifo(f.path("pipe"));
    f.write("use.lathe", "use \"pipe\"\n");
    f.write("zero.lathe", "use \"/dev/zero\"\n");
    let start = Instant::now();
    for (line, code) in [
        ("run pipe", "E0901"),
        ("check pipe", "E0901"),
        ("check use.lathe", "E0"),
        ("check zero.lathe", "E0"),
        ("fmt pipe", "E0901"),
        ("opt pipe --step open", "E0901"),
        ("run f.lathe -D N=8 --input A=pipe", "E0803"),
        ("run f.lathe -D N=8 --input A=/dev/zero", "E0803"),
        ("tune pipe", "E0901"),
        ("tune /dev/zero", "E0901"),
        ("tune --space pipe", "E0901"),
        ("tune --import pipe", "E0901"),
        ("tune --import /dev/zero", "E0901"),
        ("tune --list --store pipe", "E1070"),
        ("tune --list --store /dev/zero", "E1070"),
        ("run f.lathe -D N=8 --model pipe", "E12"),
    ] {
        let d = f.lathe(line);
        assert!(d.status == 1 && d.stderr.starts_with(code), "{line}: {}", d.stderr);
    }
    assert!(start.elapsed() < Duration::from_secs(60));
    // A cache whose entry is a pipe is a cache without it.
    std::fs::create_dir_all(f.path("c")).expect("a folder");
    assert_eq!(with(&f, "run f.lathe -D N=8", &[("LATHE_CACHE", &f.path("c"))]).status, 0);
    for e in std::fs::read_dir(f.path("c/compiled-2")).expect("entries").flatten() {
        if e.path().extension().is_some_and(|e| e == "bin") {
            std::fs::remove_file(e.path()).expect("an entry");
            fifo(e.path());
        }
    }
    assert_eq!(with(&f, "run f.lathe -D N=8 --check", &[("LATHE_CACHE", &f.path("c"))]).status, 0);
}

/// Characters that a terminal obeys, in every place that comes from a file.
#[test]
fn escapes_are_shown_and_not_sent() {
    const EVIL: &str = "\u{1b}]0;owned\u{7}\u{1b}[31m\u{9b}2J\u{202e}";
    let f = Folder::new();
    let name = format!("{EVIL}.lathe");
    f.write(&name, format!("kernel f(A: f32[N]) -> (B: f32[N]) {{ B[i] = {EVIL} }} # {EVIL}\n"));
    f.write("t.lathe", format!("test \"{EVIL}\" {{ f }}\n{DOUBLE}"));
    f.write(
        "p.json",
        serde_json::json!({
            "tuning_parameters": [{ "name": format!("T{EVIL}"), "range": ["a", EVIL] }],
            "run_script": format!("printf '%s' '{EVIL}' >&2; exit 1"),
        })
        .to_string(),
    );
    f.write(
        "q.json",
        serde_json::json!({
            "tuning_parameters": [{ "name": "T", "range": ["a", EVIL] }], "run_script": "true",
        })
        .to_string(),
    );
    f.write("r.json", format!("{{ \"{EVIL}\": 1 }}"));
    let clean = |what: &str, text: &str| {
        let bad = text.chars().find(|c| (c.is_control() && *c != '\n' && *c != '\t') || *c == '\u{202e}');
        assert_eq!(bad, None, "{what}: {text:?}");
    };
    let run = |words: &[&str]| {
        let mut c = f.command("");
        let d = done(c.args(words).output().expect("lathe starts"));
        clean(&words.join(" "), &d.stderr);
        clean(&words.join(" "), &d.stdout);
        d
    };
    assert!(run(&["check", &name]).stderr.contains('␛'));
    run(&["run", &name]);
    run(&["fmt", "--check", &name]);
    run(&["check", "t.lathe"]);
    run(&["run", EVIL]);
    run(&["run", "t.lathe", "-D", &format!("{EVIL}=3")]);
    run(&["run", "t.lathe", "-s", EVIL]);
    assert!(run(&["tune", "p.json"]).stderr.contains('␛'));
    run(&["tune", "q.json"]);
    run(&["tune", "r.json"]);
    assert!(run(&["tune", "--list"]).stdout.contains("q.json"));
    let list = run(&["tune", "--list", "--json"]);
    for e in
        serde_json::from_str::<serde_json::Value>(&list.stdout).expect("JSON").as_array().expect("entries")
    {
        run(&["tune", "--show", e["digest"].as_str().expect("a name")]);
    }
    run(&["tune", "--show", EVIL]);
    run(&["tune", "--space", "q.json", "--sample", "20"]);
    run(&["--explain", EVIL]);
}

#[test]
fn closed_outputs_and_names_that_are_no_text_are_no_defects() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let f = Folder::new();
    f.write("f.lathe", DOUBLE);
    f.write("bad.lathe", "kernel");
    let odd = OsStr::from_bytes(b"f\xff.lathe");
    std::fs::write(f.path(".").join(odd), DOUBLE).expect("a file");
    let sane = |c: &mut Command| {
        let out = c.output().expect("lathe starts");
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code().is_some_and(|s| s < 100), "{c:?}: {:?} {text}", out.status);
        assert!(!["panicked", "defect", "bug in Lathe"].iter().any(|w| text.contains(w)), "{c:?}: {text}");
    };
    for line in [
        "run f.lathe -D N=8",
        "check f.lathe",
        "check bad.lathe",
        "explain f.lathe",
        "doctor",
        "tune --list",
        "bench f.lathe -D N=8 --runs 1",
        "run f.lathe -D N=8 --json",
        "",
    ] {
        for (out, err) in [(true, false), (false, true), (true, true)] {
            let closed = || {
                let (reader, writer) = std::io::pipe().expect("a pipe");
                drop(reader);
                Stdio::from(writer)
            };
            let mut c = f.command(line);
            c.stdout(if out { closed() } else { Stdio::null() }).stderr(if err {
                closed()
            } else {
                Stdio::null()
            });
            let status = c.status().expect("lathe starts");
            assert!(status.code().is_some_and(|s| s < 100), "{line} {out} {err}: {status:?}");
        }
    }
    for command in ["run", "check", "fmt", "opt", "tune"] {
        sane(f.command(command).arg(odd));
    }
    sane(f.command("run f.lathe -D N=8 --output").arg(OsStr::from_bytes(b"B=\xff.npy")));
    for name in ["CC", "LATHE_CACHE", "LATHE_STORE", "LATHE_CACHE_BYTES", "TMPDIR", "NO_COLOR"] {
        sane(f.command("run f.lathe -D N=8 --engine c").env(name, OsStr::from_bytes(b"\xff\xfe")));
        sane(f.command("doctor").env(name, OsStr::from_bytes(b"\xff\xfe")));
    }
}
