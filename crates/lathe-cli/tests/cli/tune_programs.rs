//! `lathe tune` on programs that scripts run.

use crate::common::{Folder, form, parsed, script};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
    // A negative cost is usually a mistake of the program's.
    let v = parsed(&f.ok("tune saxpy.c 12 --json"));
    assert_eq!((&v["costs"], &v["valid"]), (&json!([12.0, 1.0]), &json!(10)), "{v}");
    let v = parsed(&f.ok("tune saxpy.c 12 --json --negative-costs"));
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
    for (wrong, code) in [("best", "E1088"), ("c3", "E1086"), ("c1/0", "E1088")] {
        f.fails(&format!("tune p.json --order {wrong}"), 1, code);
    }
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
fn scripts_are_told_for_which_device_and_with_how_many_threads() {
    let f = Folder::new();
    let directives = "// #atf::var::N 36
// #atf::tp name \"WPT\" range interval<int>(1, N) constraint divides(N)
// #atf::ocl::platform \"some vendor\"
// #atf::ocl::device 1
// #atf::ocl::global_size N / WPT, 2
// #atf::ocl::local_size WPT + 1
// #atf::run_script \"./run.sh\"
// #atf::cost_file \"cost\"
";
    f.write("k.cl", directives);
    // The product of the three numbers; the sum where the device is another.
    script(
        &f,
        "run.sh",
        "set -- $LATHE_GLOBAL_SIZE $LATHE_LOCAL_SIZE
if [ \"$LATHE_PLATFORM $LATHE_DEVICE\" = 'some vendor 1' ]; then echo $(($1 * $2 * $3)); else echo $(($1 + $2 + $3)); fi > cost",
    );
    let v = parsed(&f.ok("tune k.cl --json"));
    assert_eq!((&v["params"]["WPT"], &v["costs"]), (&json!(36), &json!([74.0])), "{v}");
    f.write("k.cl", directives.replace("device 1", "device 2"));
    let v = parsed(&f.ok("tune k.cl --json"));
    assert_eq!(
        (&v["params"]["WPT"], &v["costs"], &v["known"]),
        (&json!(6), &json!([15.0]), &json!(0)),
        "{v}"
    );
}
