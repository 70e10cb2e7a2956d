//! Attacks on the tuner, and by programs that it runs: masks of new files, files of others, shells, daemons, pipes.

use crate::common::{Folder, done, form, parsed, script};
use serde_json::json;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs `lathe` below a shell that sets something up.
fn below(f: &Folder, setup: &str, line: &str) -> crate::common::Done {
    let mine = f.command(line);
    let mut c = Command::new("sh");
    c.arg("-c").arg(format!("{setup}; exec \"$0\" \"$@\"")).arg(mine.get_program()).args(mine.get_args());
    c.current_dir(f.path(".")).envs(mine.get_envs().filter_map(|(n, v)| Some((n, v?))));
    done(c.output().expect("a shell"))
}

#[test]
fn whatever_the_mask_nobody_else_enters_the_folders_of_a_search() {
    let f = Folder::new();
    let seen = f.path("seen").display().to_string();
    script(&f, "run.sh", &format!("stat -c %a . .. >> {seen}; echo 1 > cost"));
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": [{ "name": "T", "range": [1, 2] }], "run_script": "run.sh", "cost_file": "cost" }),
    );
    let d = below(&f, "umask 000", "tune p.json --fresh");
    assert_eq!(d.status, 0, "{}", d.stderr);
    // The folder around all others.
    let modes = f.read("seen");
    assert!(modes.lines().count() == 4 && modes.lines().skip(1).step_by(2).all(|m| m == "700"), "{modes}");
    // A place where others can exchange our folders is not used.
    std::fs::create_dir(f.path("open")).expect("a folder");
    let d = below(&f, "chmod 777 open; TMPDIR=$PWD/open; export TMPDIR", "tune p.json --fresh");
    assert!(d.status == 1 && d.stderr.starts_with("E1081") && d.stderr.contains("TMPDIR"), "{}", d.stderr);
    // A name that looks like an option is a folder like any other.
    std::fs::create_dir(f.path("-x")).expect("a folder");
    let d = below(&f, "TMPDIR=-x; export TMPDIR", "tune p.json --fresh");
    assert_eq!(d.status, 0, "{}", d.stderr);
}

#[test]
fn files_that_stand_elsewhere_are_neither_removed_nor_believed() {
    let f = Folder::new();
    let other = Folder::new();
    other.write("cost", "0.5");
    f.write("out.txt", "mine");
    f.write("result", "1 2");
    f.write("gold", "1 2");
    let parameters = json!([{ "name": "T", "range": [1, 2] }]);
    let new = |name: &str, cost: &str, run: &str| {
        script(&f, "run.sh", run);
        form(
            &f,
            name,
            &json!({ "tuning_parameters": parameters, "run_script": "run.sh", "cost_file": cost }),
        );
    };
    let elsewhere = other.path("cost").display().to_string();
    new("p.json", &elsewhere, "true");
    f.fails("tune p.json", 1, "E1081");
    assert_eq!(other.read("cost"), "0.5");
    // A link that leads to it is not followed, whoever made it.
    symlink(other.path("cost"), f.path("linked")).expect("a link");
    new("q.json", "linked", "true");
    f.fails("tune q.json", 1, "E1086");
    new("r.json", "cost", &format!("ln -s {elsewhere} cost"));
    f.fails("tune r.json", 1, "E1086");
    assert_eq!(other.read("cost"), "0.5");
    // What the program writes stays in its own folder; a result that it does not write is none.
    new("s.json", "cost", "echo new > out.txt; echo $T > cost; [ $T = 2 ] || echo 1 2 > result");
    let v = parsed(&f.ok("tune s.json --gold gold --result result --json"));
    assert_eq!((&v["params"]["T"], &v["invalid"]["wrong"]["count"]), (&json!(1), &json!(1)), "{v}");
    assert_eq!(f.read("out.txt"), "mine");
    f.fails(&format!("tune s.json --gold gold --result {elsewhere}"), 1, "E1081");
}

#[test]
fn strings_of_a_form_are_words_and_no_commands() {
    let f = Folder::new();
    f.write("x", "");
    let pwned = f.path("pwned").display().to_string();
    let attacks = [
        format!("; touch {pwned}"),
        format!("$(touch {pwned})"),
        format!("`touch {pwned}`"),
        format!("'; touch {pwned}; '"),
    ];
    let parameters = json!([{ "name": "FLAG", "range": attacks }]);
    script(&f, "run.sh", "echo FLAG \"FLAG\" 'FLAG' > said; echo 1 > cost");
    for run in [
        json!("run.sh"),
        json!("echo FLAG \"FLAG\" 'FLAG'; echo 1 > cost"),
        json!(["sh", "-c", "echo \"$FLAG\"; echo 1 > cost"]),
    ] {
        form(
            &f,
            "p.json",
            &json!({ "tuning_parameters": parameters, "run_script": run, "cost_file": "cost" }),
        );
        let v = parsed(&f.ok("tune p.json --json"));
        assert_eq!(v["valid"], json!(4), "{v}");
        assert!(!f.path("pwned").exists(), "{run}");
    }
}

#[test]
fn daemons_end_with_the_time_limit() {
    let f = Folder::new();
    let mark = |n: &str| f.path(n).display().to_string();
    // Two that leave the process group: one of a run that hangs, one of a run that ends well.
    script(
        &f,
        "run.sh",
        &format!(
            "setsid sh -c '(sleep 2; touch {}'$T') >/dev/null 2>&1 &' >/dev/null 2>&1; [ $T = 1 ] || sleep 100; echo 1 > cost",
            mark("mark")
        ),
    );
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": [{ "name": "T", "range": [1, 2] }], "run_script": "run.sh", "cost_file": "cost" }),
    );
    let v = parsed(&f.ok("tune p.json --json --timeout 0.5s"));
    assert_eq!(v["invalid"]["timeout"]["count"], json!(1), "{v}");
    std::thread::sleep(Duration::from_millis(2300));
    assert!(!f.path("mark1").exists() && !f.path("mark2").exists());
}

#[test]
fn pipes_and_devices_are_no_results() {
    let f = Folder::new();
    script(
        &f,
        "run.sh",
        "case $T in 1) mkfifo cost ;; 2) ln -s /dev/zero cost ;; 3) mkdir cost ;; 4) yes 1, | head -c 200000 > cost ;; 5) echo 5 > cost ;; esac",
    );
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": [{ "name": "T", "range": [1, 2, 3, 4, 5] }], "run_script": "run.sh", "cost_file": "cost" }),
    );
    let start = Instant::now();
    let v = parsed(&f.ok("tune p.json --json"));
    assert_eq!((&v["params"]["T"], &v["valid"]), (&json!(5), &json!(1)), "{v}");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_a_run_leaves_behind_is_no_part_of_its_time() {
    let f = Folder::new();
    let run = "sh -c '(sleep 100 &) ; echo T'";
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": [{ "name": "T", "range": [1, 2] }], "run_script": run }),
    );
    let v = parsed(&f.ok("tune p.json --fresh --timeout 60s --json"));
    assert_eq!((&v["valid"], &v["stopped"]), (&json!(2), &json!("exhausted")), "{v}");
    assert!(v["costs"][0].as_f64().is_some_and(|c| c < 30.0), "{v}");
}

#[test]
#[cfg(target_os = "linux")]
fn nothing_outlives_a_search_that_is_killed() {
    let f = Folder::new();
    let pids = f.path("pids").display().to_string();
    let daemon = "setsid sh -c 'echo $$ >> PIDS; exec sleep 300' >/dev/null 2>&1 &".replace("PIDS", &pids);
    script(&f, "run.sh", &format!("{daemon}\nsleep 300 & echo $! >> {pids}\necho $$ >> {pids}\nsleep 300"));
    let parameters = json!([{ "name": "T", "range": [1, 2] }]);
    form(&f, "p.json", &json!({ "tuning_parameters": parameters, "run_script": "run.sh" }));
    let mut search = f.command("tune p.json --fresh").spawn().expect("lathe");
    let lives = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    };
    let start = Instant::now();
    let until = |what: &str, holds: &dyn Fn(&[&str]) -> bool| {
        while !holds(&std::fs::read_to_string(&pids).unwrap_or_default().lines().collect::<Vec<_>>()) {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    until("three processes run", &|all| all.len() == 3 && all.iter().all(|p| lives(p)));
    search.kill().expect("it runs");
    search.wait().expect("it was killed");
    until("all of them end", &|all| !all.iter().any(|p| lives(p)));
}
