//! `lathe tune`: kernels, programs that scripts run, spaces, and the store.

use crate::common::{Done, Folder, examples};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const KERNEL: &str = "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }
strategy s(t = 8 in 8..=32 step 8, u = 4 in 4..=8 step 4 where divides(u, t)) for f = split(i, t) ; split(i.i, u)
strategy other(t = 16 in 8..=16 step 8) for f = split(i, t)
strategy fast for f = if N <= 10 then other else s
";

fn parsed(d: &Done) -> Value {
    serde_json::from_str(&d.stdout).expect("JSON on standard output")
}

fn source(f: &Folder, sizes: &str) -> String {
    let v = parsed(&f.ok(&format!("run f.lathe {sizes} --json")));
    v["strategy_source"].as_str().expect("a source").to_string()
}

fn script(f: &Folder, name: &str, text: &str) {
    f.write(name, format!("#!/bin/sh\n{text}\n"));
    std::fs::set_permissions(f.path(name), std::fs::Permissions::from_mode(0o755)).expect("permissions");
}

fn form(f: &Folder, name: &str, form: &Value) {
    f.write(name, form.to_string());
}

#[test]
fn a_tuned_kernel_runs_with_its_winner_and_nothing_else_does() {
    let f = Folder::new();
    f.write("f.lathe", KERNEL);
    assert_eq!(source(&f, "-D N=100 --threads 1"), "fast");
    let v = parsed(&f.ok("tune f.lathe -D N=100 --threads 1 --budget 20s --json --plot p.svg"));
    // All six pairs of which one divides the other are measured; `fast` takes `s` for this size.
    assert_eq!((&v["strategy"], &v["evaluations"], &v["valid"]), (&json!("s"), &json!(8), &json!(8)), "{v}");
    assert_eq!((&v["stopped"], &v["check"]["ok"]), (&json!("exhausted"), &json!(true)), "{v}");
    assert!(v["default_s"].as_f64().is_some() && v["median_s"].as_f64().is_some_and(|s| s > 0.0), "{v}");
    assert!(f.read("p.svg").contains("8 configurations, 0 invalid"));
    let run = parsed(&f.ok("run f.lathe -D N=100 --threads 1 --json --check"));
    assert_eq!((&run["strategy_source"], &run["params"]), (&json!("stored"), &v["params"]));
    let bench = parsed(&f.ok("bench f.lathe -D N=100 --threads 1 --runs 1 --json"));
    assert_eq!((&bench["strategy_source"], &bench["params"]), (&json!("stored"), &v["params"]));
    for other in [
        "-D N=101 --threads 1",
        "-D N=100 --threads 2",
        "-D N=100 --threads 1 --specialize",
        "-D N=100 --threads 1 --cpu x86-64",
    ] {
        assert_eq!(source(&f, other), "fast", "{other}");
    }
    assert_eq!(source(&f, "-D N=100 --threads 1 --strategy fast"), "requested");
    // A comment changes nothing, another strategy or kernel does.
    f.write("f.lathe", format!("# a comment\n{KERNEL}"));
    assert_eq!(source(&f, "-D N=100 --threads 1"), "stored");
    f.write("f.lathe", KERNEL.replace("split(i.i, u)", "split(i.o, u)"));
    assert_eq!(source(&f, "-D N=100 --threads 1"), "fast");
    f.write("f.lathe", KERNEL.replace("2 * A", "3 * A"));
    assert_eq!(source(&f, "-D N=100 --threads 1"), "fast");
    f.write("f.lathe", KERNEL);
    // What is known is not measured again; other sizes begin with it.
    let again = parsed(&f.ok("tune f.lathe -D N=100 --threads 1 --json"));
    assert_eq!((&again["known"], &again["evaluations"]), (&json!(8), &json!(8)), "{again}");
    let fresh = parsed(&f.ok("tune f.lathe -D N=100 --threads 1 --json --fresh --until evaluations(2)"));
    assert_eq!((&fresh["known"], &fresh["evaluations"]), (&json!(0), &json!(2)), "{fresh}");
    let near = parsed(&f.ok("tune f.lathe -D N=99 --threads 1 --json --until evaluations(1)"));
    assert_eq!(near["began_with"], json!([["sizes"]]), "{near}");
    let small =
        parsed(&f.ok("tune f.lathe -D N=9 --threads 1 --json --strategy fast --until evaluations(1)"));
    assert_eq!((&small["strategy"], &small["params"]), (&json!("other"), &json!({ "t": 16 })), "{small}");
}

#[test]
fn the_store_is_listed_exported_imported_and_forgotten() {
    let f = Folder::new();
    f.write("f.lathe", KERNEL);
    assert_eq!(f.ok("tune --list").stdout, "");
    let v = parsed(&f.ok("tune f.lathe:f -D N=64 --threads 1 --strategy other --json"));
    let entry = v["entry"].as_str().expect("an entry")[..8].to_string();
    let list = f.ok("tune --list").stdout;
    assert!(list.starts_with(&entry) && list.contains("f other N=64 1 thread"), "{list}");
    let shown = f.ok(&format!("tune --show {entry}")).stdout;
    assert_eq!(shown.matches("t=").count(), 3, "{shown}");
    f.ok("tune --export all.json");
    let text = f.ok("tune --export").stdout;
    assert_eq!(f.read("all.json"), text);
    f.ok(&format!("tune --forget {entry}"));
    assert_eq!(source(&f, "-D N=64 --threads 1"), "fast");
    assert_eq!(f.ok("tune --import all.json --json").stdout.trim(), "{\n  \"imported\": 2\n}");
    assert_eq!(source(&f, "-D N=64 --threads 1"), "stored");
    assert_eq!(f.ok("tune --export").stdout, text);
    f.ok("tune --forget all --store results.sqlite");
    assert_eq!(f.ok("tune --list").stdout, "");
    f.fails(&format!("tune --show {entry}"), 1, "E1078");
    f.fails("tune --forget nothing", 1, "E1078");
    f.fails("tune --forget nothing --store new/s.sqlite", 1, "E1078");
    assert!(!f.path("new").exists(), "nothing is made to forget something");
    f.fails("tune --import f.lathe", 1, "E1077");
    f.fails("tune --import nowhere.json", 1, "E0901");
}

#[test]
fn illegal_configurations_are_refused_before_they_are_compiled() {
    let f = Folder::new();
    let text = "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }
strategy s(k = 0 in 0..=2 step 1) for f = if k == 1 then split(i, 8) else unroll(z)";
    f.write("f.lathe", text);
    let v = parsed(&f.ok("tune f.lathe -D N=20 --strategy s --threads 1 --json"));
    assert_eq!((&v["params"]["k"], &v["valid"]), (&json!(1), &json!(1)), "{v}");
    let refused = &v["invalid"]["refused"];
    assert_eq!(refused["count"], json!(2), "{v}");
    assert!(refused["first"].as_str().is_some_and(|t| t.contains("k = 0")), "{v}");
    assert_eq!(v["processes"], json!(1), "a refusal costs no process");
    f.write("f.lathe", text.replace("k == 1", "k == 5"));
    let d = f.fails("tune f.lathe -D N=20 --strategy s --threads 1", 1, "E1086");
    assert!(d.stderr.contains("3 refused"), "{}", d.stderr);
}

/// A program that crashes, hangs, gives a wrong result, eats memory, fails to compile or writes nonsense for all but
/// two of its configurations.
#[test]
fn a_program_that_does_everything_wrong_is_tuned_to_its_true_optimum() {
    let f = Folder::new();
    script(&f, "compile.sh", "[ $T != 5 ] || { echo 'no five' >&2; exit 1; }");
    script(
        &f,
        "run.sh",
        "echo 1 2 > result
case $T in
1) kill -SEGV $$ ;;
2) sleep 100 ;;
3) echo 1 3 > result; echo 0.001 > cost ;;
4) dd if=/dev/zero of=/dev/null bs=4G count=1 ;;
6) echo fast > cost ;;
7) ;;
8) echo nan > cost ;;
9) exit 9 ;;
*) echo T.5 > cost ;;
esac",
    );
    f.write("gold", "1.0 2.0");
    form(
        &f,
        "p.json",
        &json!({
            "tuning_parameters": [{ "name": "T", "range": "interval<int>(1, 12)" }],
            "compile_script": "compile.sh", "run_script": "./run.sh", "cost_file": "cost",
        }),
    );
    let start = Instant::now();
    let v = parsed(
        &f.ok("tune p.json --gold gold --result result --timeout 0.5s --memory 512 --json --plot p.svg"),
    );
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_eq!((&v["params"], &v["costs"]), (&json!({ "T": 10 }), &json!([10.5])), "{v}");
    assert_eq!((&v["evaluations"], &v["valid"]), (&json!(12), &json!(3)), "{v}");
    for (kind, count) in
        [("runtime", 3), ("timeout", 1), ("wrong", 1), ("memory", 1), ("compile", 1), ("notanumber", 2)]
    {
        assert_eq!(v["invalid"][kind]["count"], json!(count), "{kind}: {v}");
    }
    assert!(v["invalid"]["compile"]["first"].as_str().is_some_and(|t| t.contains("no five")), "{v}");
    // Nothing of it is measured again, hangs included.
    let start = Instant::now();
    let line = "tune p.json --gold gold --result result --timeout 0.5s --memory 512 --json";
    let v = parsed(&f.ok(line));
    assert_eq!((&v["known"], &v["params"]["T"]), (&json!(12), &json!(10)), "{v}");
    assert!(start.elapsed() < Duration::from_secs(10));
    // Without the gold, or with other limits, it is another question.
    let v = parsed(&f.ok("tune p.json --timeout 0.4s --memory 512 --json --until cost(100)"));
    assert_eq!(v["known"], json!(0), "{v}");
}

#[test]
fn directives_tune_the_file_that_they_stand_in() {
    let f = Folder::new();
    f.write(
        "saxpy.c",
        "// #atf::var::N $1
// #atf::tp name \"WPT\" range interval<int>(1, N) constraint divides(N)
// #atf::tp name \"LS\" range interval<int>(1, N) constraint divides(N / WPT)
// #atf::run_script \"./run.sh\"
// #atf::cost_file \"cost\"
// #atf::search_technique exhaustive
// #atf::abort_condition evaluations(100)
WPT * LS
",
    );
    // Two objectives: the second decides between equal first ones.
    script(
        &f,
        "run.sh",
        "x=$(( $(tail -n 1 saxpy.c) )); [ $x = 12 ] || x=100; echo $x, $((LS - WPT)) > cost",
    );
    let v = parsed(&f.ok("tune saxpy.c 12 --json"));
    assert_eq!((&v["params"], &v["costs"]), (&json!({ "LS": 1, "WPT": 12 }), &json!([12.0, -11.0])), "{v}");
    assert_eq!((&v["space_size"], &v["evaluations"]), (&json!("18"), &json!(18)), "{v}");
    assert_eq!(v["technique"], json!("exhaustive"));
    let count = f.ok("tune --space saxpy.c 12 --count").stdout;
    assert!(count.starts_with("144 points, 18 valid"), "{count}");
    let v = parsed(&f.ok("tune --space saxpy.c 64 --sample 5 --json"));
    assert_eq!((&v["valid"], v["samples"].as_array().map(Vec::len)), (&json!("28"), Some(5)), "{v}");
}

#[test]
fn control_c_keeps_the_best() {
    let f = Folder::new();
    // A file of the folder that the script names would be a part of the question.
    let log = f.path("ran").display().to_string();
    script(&f, "run.sh", &format!("sleep 0.02; echo $T > cost; echo x >> {log}"));
    form(
        &f,
        "p.json",
        &json!({
            "tuning_parameters": [{ "name": "T", "range": "interval<int>(1, 100000)" }],
            "run_script": "run.sh", "cost_file": "cost",
        }),
    );
    let child = Command::new(env!("CARGO_BIN_EXE_lathe"))
        .args(["tune", "p.json", "--json"])
        .current_dir(f.path("."))
        .env("LATHE_STORE", f.path("results.sqlite"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("lathe starts");
    let ran = || std::fs::read_to_string(f.path("ran")).unwrap_or_default().lines().count();
    while ran() < 3 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.is_ok_and(|s| s.success()));
    let out = child.wait_with_output().expect("an end");
    let text = String::from_utf8_lossy(&out.stdout);
    let v: Value = serde_json::from_str(&text).expect("a report");
    assert_eq!((out.status.code(), &v["stopped"]), (Some(0), &json!("interrupted")), "{v}");
    assert!(v["evaluations"].as_u64().is_some_and(|n| n >= 2), "{v}");
    // The next run goes on where this one was stopped.
    let n = v["evaluations"].as_u64().expect("a number");
    let next = parsed(&f.ok(&format!("tune p.json --json --until evaluations({})", n + 1)));
    assert_eq!((&next["known"], &next["evaluations"]), (&json!(n), &json!(n + 1)), "{next}");
}

#[test]
fn what_the_key_does_not_cover_is_measured_again() {
    let f = Folder::new();
    script(&f, "run.sh", "cat extra.txt > cost");
    f.write("extra.txt", "3");
    form(
        &f,
        "p.json",
        &json!({
            "tuning_parameters": [{ "name": "T", "range": [1, 2] }],
            "run_script": "run.sh", "cost_file": "cost",
        }),
    );
    let costs = |line: &str| {
        let v = parsed(&f.ok(line));
        (v["costs"][0].as_f64().expect("a cost"), v["known"].as_u64().expect("a number"))
    };
    assert_eq!(costs("tune p.json --json"), (3.0, 0));
    assert_eq!(costs("tune p.json --json"), (3.0, 2));
    f.write("extra.txt", "4");
    assert_eq!(costs("tune p.json --json"), (4.0, 0), "a file that the script names has changed");
    // Where the cost is read from belongs to the question.
    script(&f, "two.sh", "echo 1 > one; echo 2 > two");
    for (i, name) in ["one", "two"].into_iter().enumerate() {
        let parameters = json!([{ "name": "T", "range": [1, 2] }]);
        form(
            &f,
            "two.json",
            &json!({ "tuning_parameters": parameters, "run_script": "two.sh", "cost_file": name }),
        );
        assert_eq!(costs("tune two.json --json"), (1.0 + i as f64, 0));
    }
    // Inputs of kernels by their contents: a winner for made-up ones serves all, one for a file only its equals.
    f.write("f.lathe", KERNEL);
    let kernel = "-D N=64 --threads 1";
    for name in ["a", "b", "c"] {
        let text = KERNEL.replace("2 * A[i]", "f32(i) + A[i]");
        f.write("make.lathe", text.replace("kernel f", "kernel g").lines().next().unwrap_or_default());
        let seed = if name == "c" { 2 } else { 1 };
        f.ok(&format!("run make.lathe {kernel} --seed {seed} --output B={name}.npy"));
    }
    let tuned = "--strategy other --json --until evaluations(1)";
    f.ok(&format!("tune f.lathe {kernel} {tuned} --input A=a.npy"));
    assert_eq!(source(&f, kernel), "fast");
    assert_eq!(source(&f, &format!("{kernel} --input A=b.npy")), "stored");
    assert_eq!(source(&f, &format!("{kernel} --input A=c.npy")), "fast");
    let v = parsed(&f.ok(&format!("tune f.lathe {kernel} {tuned}")));
    assert_eq!((&v["known"], &v["began_with"]), (&json!(0), &json!([["data"]])), "{v}");
    assert_eq!(source(&f, &format!("{kernel} --input A=c.npy")), "stored");
}

#[test]
fn several_configurations_are_compiled_or_run_at_once() {
    let f = Folder::new();
    script(&f, "compile.sh", "sleep 0.2; [ $T != 3 ] || exit 1; echo $T > built");
    script(&f, "run.sh", "cp built cost; cat built");
    form(
        &f,
        "p.json",
        &json!({
            "tuning_parameters": [{ "name": "T", "range": "interval<int>(1, 9)" }],
            "compile_script": "compile.sh", "run_script": "run.sh", "cost_file": "cost",
            "search_technique": "exhaustive",
        }),
    );
    for options in ["--jobs 1", "--jobs 4", "--jobs 4 --side-by-side"] {
        let v = parsed(&f.ok(&format!("tune p.json --json --fresh {options}")));
        assert_eq!((&v["params"]["T"], &v["evaluations"]), (&json!(1), &json!(9)), "{options}: {v}");
        assert_eq!(
            (&v["valid"], &v["invalid"]["compile"]["count"]),
            (&json!(8), &json!(1)),
            "{options}: {v}"
        );
    }
}

#[test]
fn a_search_is_recorded_and_searched_again() {
    let f = Folder::new();
    script(&f, "run.sh", "[ $T != 4 ] || exit 1; echo $(( (T - 6) * (T - 6) )) > cost");
    let parameters = json!([{ "name": "T", "range": "interval<int>(1, 9)" }]);
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": parameters, "run_script": "run.sh", "cost_file": "cost" }),
    );
    f.ok("tune p.json --t4 t4.json");
    let t4: Value = serde_json::from_str(&f.read("t4.json")).expect("JSON");
    assert_eq!(t4["results"].as_array().map(Vec::len), Some(9), "{t4}");
    // A form without scripts, and T1: only the space counts.
    form(&f, "space.json", &json!({ "tuning_parameters": parameters }));
    let t1 = json!({ "ConfigurationSpace": { "TuningParameters":
        [{ "Name": "T", "Type": "int", "Values": "[1, 2, 3, 4, 5, 6, 7, 8, 9]" }], "Conditions": [] } });
    form(&f, "t1.json", &t1);
    for file in ["space.json", "t1.json"] {
        let v = parsed(&f.ok(&format!("tune {file} --recorded t4.json --json --technique exhaustive")));
        assert_eq!(
            (&v["params"]["T"], &v["costs"], &v["valid"]),
            (&json!(6), &json!([0.0]), &json!(8)),
            "{v}"
        );
        f.fails(&format!("tune {file}"), 1, "E1087");
    }
    f.fails("tune p.json --recorded nowhere.json", 1, "E0901");
    f.fails("tune p.json --recorded p.json", 1, "E10");
    form(&f, "other.json", &json!({ "tuning_parameters": [{ "name": "T", "range": [1, 2] }] }));
    f.fails("tune other.json --recorded t4.json", 1, "E10");
}

#[test]
fn checklist_34_the_order_of_costs_is_the_users() {
    let f = Folder::new();
    script(&f, "run.sh", "echo $T, $(( (T - 7) * (T - 7) )) > cost");
    form(
        &f,
        "p.json",
        &json!({
            "tuning_parameters": [{ "name": "T", "range": "interval<int>(1, 9)" }],
            "run_script": "run.sh", "cost_file": "cost",
        }),
    );
    for (order, best) in [("lexicographic", 1), ("c2", 7), ("c1*2+c2", 6), ("pareto", 6)] {
        let v = parsed(&f.ok(&format!("tune p.json --json --order {order}")));
        assert_eq!(v["params"]["T"], json!(best), "{order}: {v}");
        assert_eq!(v["front"].as_array().map(Vec::len), Some(7), "{v}");
        assert_eq!(v["known"], json!(0), "another order is another question");
    }
    f.fails("tune p.json --order best", 1, "E1088");
}

#[test]
fn the_genetic_technique_refuses_candidates_with_few_threads() {
    let f = Folder::new();
    f.write(
        "k.cu",
        "// #atf::tp name \"BLOCKS\" range interval<int>(1, 8)
// #atf::cuda::grid_dim BLOCKS
// #atf::cuda::block_dim 64
// #atf::run_script \"./run.sh\"
// #atf::cost_file \"cost\"
BLOCKS
",
    );
    script(&f, "run.sh", "tail -n 1 k.cu > cost");
    let v = parsed(&f.ok("tune k.cu --json --technique genetic"));
    // 4 blocks of 64 threads are 256; fewer are not run at all.
    assert_eq!((&v["params"]["BLOCKS"], &v["evaluations"]), (&json!(4), &json!(5)), "{v}");
    let v = parsed(&f.ok("tune k.cu --json"));
    assert_eq!((&v["params"]["BLOCKS"], &v["evaluations"]), (&json!(1), &json!(8)), "{v}");
}

#[test]
fn stores_that_are_locked_or_from_the_future_are_one_clear_error() {
    let f = Folder::new();
    f.write("f.lathe", KERNEL);
    let line = "tune f.lathe -D N=64 --threads 1 --strategy other --json";
    f.ok(line);
    let store = rusqlite::Connection::open(f.path("results.sqlite")).expect("the store");
    store.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    let d = f.fails(line, 1, "E1072");
    assert!(d.stderr.contains("help"), "{}", d.stderr);
    assert_eq!(source(&f, "-D N=64 --threads 1"), "stored", "looking up does not wait");
    store.execute_batch("ROLLBACK; PRAGMA user_version = 99").expect("a newer store");
    drop(store);
    f.fails(line, 1, "E1074");
    assert_eq!(source(&f, "-D N=64 --threads 1"), "fast");
    let store = rusqlite::Connection::open(f.path("results.sqlite")).expect("the store");
    store.execute_batch("PRAGMA user_version = 2").expect("the store as it was");
    drop(store);
    let v = parsed(&f.ok(line));
    assert_eq!(v["known"], json!(2), "nothing was lost: {v}");
}

#[test]
fn whatever_is_wrong_there_is_one_clear_error() {
    let f = Folder::new();
    f.write("f.lathe", format!("{KERNEL}strategy fixed(t = 8) for f = split(i, t)"));
    let k = "tune f.lathe -D N=64 --threads 1";
    for (line, code) in [
        ("tune nowhere.lathe -D N=4", "E0901"),
        ("tune nowhere.json", "E0901"),
        ("tune f.lathe", "E0904"),
        ("tune f.lathe -D N=4 -D N=5", "E0911"),
        ("tune f.lathe 12 -D N=4", "E1088"),
        ("tune", "E1088"),
        ("tune f.lathe --list", "E1088"),
        (&format!("{k} --strategy nothing"), "E0903"),
        (&format!("{k} --strategy fixed"), "E1085"),
        (&format!("{k} --strategy naive"), "E0903"),
        (&format!("{k} --strategy s --param z=4"), "E0601"),
        (&format!("{k} --gold x"), "E1088"),
        (&format!("{k} --budget soon"), "E10"),
        (&format!("{k} --budget 0s"), "E1088"),
        (&format!("{k} --until never"), "E10"),
        (&format!("{k} --technique luck"), "E10"),
        (&format!("{k} --store /proc/nowhere/x.sqlite"), "E1070"),
        (&format!("{k} --store f.lathe"), "E1071"),
        ("tune --list --store f.lathe", "E1071"),
    ] {
        if line.contains("naive") {
            continue;
        }
        f.fails(line, 1, code);
    }
    assert_eq!(f.lathe("tune --list --show x").status, 2);
    assert_eq!(f.lathe("tune --count").status, 2);
    script(&f, "ok.sh", "true");
    std::fs::create_dir(f.path("some")).expect("a folder");
    f.write("closed.sh", "#!/bin/sh\n");
    let one = json!([{ "name": "T", "range": [1, 2] }]);
    let interval = |range: &str, constraint: &str| json!({ "tuning_parameters": [{ "name": "T", "range": range, "constraint": constraint }], "run_script": "ok.sh" });
    for (name, form, code) in [
        ("closed", json!({ "tuning_parameters": one, "run_script": "closed.sh" }), "E1081"),
        ("missing", json!({ "tuning_parameters": one, "run_script": "./nowhere.sh" }), "E1081"),
        ("folder", json!({ "tuning_parameters": one, "run_script": "some" }), "E1081"),
        ("unsaid", json!({ "tuning_parameters": one }), "E1087"),
        ("cost", json!({ "tuning_parameters": one, "run_script": "ok.sh", "cost_file": "nowhere" }), "E1086"),
        ("key", json!({ "tuning_parameters": one, "run_script": "ok.sh", "speed": 1 }), "E10"),
        ("twice", json!({ "tuning_parameters": [one[0], one[0]], "run_script": "ok.sh" }), "E10"),
        ("empty", interval("interval<int>(2, 1)", "divides(4)"), "E10"),
        ("none", interval("interval<int>(2, 3)", "greater_than(9)"), "E10"),
        ("unknown", interval("interval<int>(2, 3)", "divides(M)"), "E10"),
        ("cyclic", interval("interval<int>(2, T)", "divides(T)"), "E10"),
        ("zero", interval("interval<int>(0, 3)", "divides(12)"), "E10"),
        ("overflow", interval("interval<int>(1, 3)", "less_than(9223372036854775807 * T)"), "E10"),
        (
            "technique",
            json!({ "tuning_parameters": one, "run_script": "ok.sh", "search_technique": "luck" }),
            "E10",
        ),
    ] {
        f.write(&format!("{name}.json"), form.to_string());
        f.fails(&format!("tune {name}.json"), 1, code);
    }
    f.write("broken.json", "{ \"tuning_parameters\": [ { \"name\": \"T\", \"range\": [1, NaN] } ] }");
    let d = f.fails("tune broken.json", 1, "E10");
    assert!(!d.stderr.contains("E1087"), "{}", d.stderr);
    f.fails("tune closed.json --timeout 0", 1, "E1088");
    f.write("notes.txt", "just notes");
    f.fails("tune notes.txt", 1, "E1087");
    f.fails("tune --space notes.txt --count", 1, "E1087");
    f.fails("tune closed.json --strategy fast", 1, "E1088");
    f.write("gold", "one two");
    f.fails("tune closed.json --gold gold", 1, "E1082");
    // Negative numbers are a score where the program writes them itself.
    script(&f, "score.sh", "echo -$T > cost");
    form(
        &f,
        "score.json",
        &json!({ "tuning_parameters": one, "run_script": "score.sh", "cost_file": "cost" }),
    );
    assert_eq!(parsed(&f.ok("tune score.json --json"))["costs"], json!([-2.0]));
}

#[test]
fn a_store_that_cannot_be_used_keeps_nobody_from_running() {
    let f = Folder::new();
    f.write("f.lathe", KERNEL);
    f.ok("tune f.lathe -D N=64 --threads 1 --strategy other");
    let whole = std::fs::read(f.path("results.sqlite")).expect("the store");
    let mut garbage = whole.clone();
    garbage[200..].fill(0x5a);
    for content in [garbage, b"no store".to_vec(), whole[..whole.len() / 2].to_vec()] {
        f.write("results.sqlite", &content);
        f.fails("tune f.lathe -D N=64 --threads 1 --strategy other", 1, "E107");
        let d = f.ok("run f.lathe -D N=64 --threads 1 --json");
        assert_eq!(parsed(&d)["strategy_source"], json!("fast"));
        assert!(d.stderr.contains("E107"), "{}", d.stderr);
        assert_eq!(std::fs::read(f.path("results.sqlite")).expect("the store"), content);
    }
}

/// The examples of the page, as it says that they are used.
#[test]
fn the_page_on_tuning_tells_the_truth() {
    let page = std::fs::read_to_string(format!("{}/../docs/tuning.md", examples())).expect("the page");
    let fence = |kind: &str| {
        let from = page.find(&format!("```{kind}\n")).expect("an example") + kind.len() + 4;
        page[from..from + page[from..].find("```").expect("an end")].to_string()
    };
    let f = Folder::new();
    f.write("saxpy.c", fence("c"));
    assert!(f.ok("tune --space saxpy.c 1024 --count").stdout.contains("66 valid"));
    f.write("flags.json", fence("json"));
    assert!(f.ok("tune --space flags.json --count").stdout.starts_with("16 points, 12 valid"));
    f.write("scale.lathe", fence("lathe"));
    f.ok("tune scale.lathe:scale --strategy blocked -D M=30 -D N=50 --until evaluations(2)");
}

const FUN: &str = "fun scale(c: f32, x: f32[M, N]) -> f32[M, N] = x |> map(map(|v| c * v))
# Steps on terms, with one parameter; steps on loops, with another.
strategy s(t = 4 in {2, 4, 8}, u = 2 in {2, 4}) for scale =
    DFNF ; (tile(t, t) @ outermost(mapNest(2))) ;; lowerToC ; lower ; tryAll(isInnermost ; isSerial ; unroll(u))
strategy fast for scale = if M % 8 == 0 then s else naive
";

#[test]
fn a_tuned_fun_runs_with_its_winner() {
    let f = Folder::new();
    f.write("f.lathe", FUN);
    let sizes = "-D M=16 -D N=24 --threads 1";
    let v = parsed(&f.ok(&format!("tune f.lathe {sizes} --budget 20s --json")));
    assert_eq!((&v["strategy"], &v["evaluations"], &v["valid"]), (&json!("s"), &json!(6), &json!(6)), "{v}");
    assert_eq!(v["check"]["ok"], json!(true), "{v}");
    let run = parsed(&f.ok(&format!("run f.lathe {sizes} --json --check")));
    assert_eq!((&run["strategy_source"], &run["params"]), (&json!("stored"), &v["params"]));
    assert_eq!(source(&f, "-D M=24 -D N=24 --threads 1"), "fast");
    // The terms of the fun, and the strategies of its file, are part of what was tuned.
    f.write("f.lathe", FUN.replace("c * v", "v * c"));
    assert_eq!(source(&f, sizes), "fast");
    f.write("f.lathe", FUN.replace("isInnermost ; isSerial", "isSerial ; isInnermost"));
    assert_eq!(source(&f, sizes), "fast");
}

#[test]
fn a_fun_none_of_whose_configurations_fits_says_why() {
    let f = Folder::new();
    f.write("f.lathe", FUN);
    let d = f.fails("tune f.lathe -D M=7 -D N=24 --strategy s --threads 1 --budget 20s", 1, "E1086");
    assert!(d.stderr.contains("M % 4 == 0"), "{}", d.stderr);
}

/// Tiles or none, each stored before it is read or not, sizes that a constraint couples: a user's strategy says what
/// the search may choose, and the search takes what was fastest, tiled or not.
#[test]
fn lift_item_37_tiled_and_untiled_variants_are_searched() {
    let f = Folder::new();
    let text = "fun blur(x: f32[N]) -> f32[N] =
            x |> pad(1, 1, clamp) |> slide(3, 1) |> map(|w| w |> reduce(add, 0))
        strategy tiles(u) = inLambda(tileStencilND(u + 2))
        strategy storedTiles(u) =
            tiles(u) ; inLambda(argument(fmap(storeWhere(isIdentifier, stack) ; function(argument(copyElements)))))
        strategy variants(u = 8 in {4, 8, 16}, tiled = false in {false, true}, local = false in {false, true}
            where (tiled or not local) and (tiled or u == 4)) for blur =
            DFNF ; (if tiled then (if local then storedTiles(u) else tiles(u)) else id) ;; lowerToC ; lower
        strategy fast for blur = variants";
    f.write("blur.lathe", text);
    let v = parsed(&f.ok("tune blur.lathe -D N=1024 --strategy variants --threads 1 --budget 30s --json"));
    // One untiled, three tiled, three of them stored.
    assert_eq!(
        (&v["evaluations"], &v["valid"], &v["stopped"]),
        (&json!(7), &json!(7), &json!("exhausted")),
        "{v}"
    );
    assert_eq!(v["check"]["ok"], json!(true), "{v}");
    let store = parsed(&f.ok("tune --export"));
    let entry = &store["entries"][0];
    let all = entry["sessions"][0]["evaluations"].as_array().expect("evaluations");
    assert!(all.iter().any(|e| e["configuration"] == entry["winner"]["configuration"]), "{entry}");
    for wanted in [("false", "false"), ("true", "false"), ("true", "true")] {
        let is = |e: &&Value| {
            let c = &e["configuration"];
            (c["tiled"].to_string(), c["local"].to_string()) == (wanted.0.to_string(), wanted.1.to_string())
        };
        assert!(all.iter().any(|e| is(&e)), "{wanted:?}: {entry}");
    }
    // The same budget ends a search that is not done.
    let v = parsed(&f.ok(
        "tune blur.lathe -D N=1024 --strategy variants --threads 1 --fresh --until evaluations(3) --json",
    ));
    assert_eq!((&v["evaluations"], &v["stopped"]), (&json!(3), &json!("stopped")), "{v}");
}
