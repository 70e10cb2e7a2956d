//! `lathe tune` on programs and tables as they are found in the wild.

use crate::common::{Folder, done, form, parsed, script};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

fn one(range: Value) -> Value {
    json!([{ "name": "T", "range": range }])
}

#[test]
fn a_slow_run_with_the_least_cost_wins() {
    let f = Folder::new();
    script(&f, "run.sh", "[ $T != 7 ] || sleep 1.5; echo $(((T - 7) * (T - 7) + 1)) > cost");
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": one(json!("interval<int>(1, 9)")), "run_script": "run.sh", "cost_file": "cost" }),
    );
    let v = parsed(&f.ok("tune p.json --json --technique exhaustive"));
    assert_eq!((&v["params"]["T"], &v["valid"]), (&json!(7), &json!(9)), "{v}");
}

#[test]
fn costs_below_zero_are_refused_unless_they_are_meant() {
    let f = Folder::new();
    script(&f, "run.sh", "echo $((T - 3)) > cost");
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": one(json!([1, 2, 3, 4, 5])), "run_script": "run.sh", "cost_file": "cost" }),
    );
    let v = parsed(&f.ok("tune p.json --json"));
    assert_eq!((&v["params"]["T"], &v["invalid"]["notanumber"]["count"]), (&json!(3), &json!(2)), "{v}");
    let v = parsed(&f.ok("tune p.json --json --negative-costs"));
    assert_eq!((&v["params"]["T"], &v["known"]), (&json!(1), &json!(0)), "{v}");
    // What is recorded is no better.
    f.ok("tune p.json --negative-costs --t4 t4.json");
    let v = parsed(&f.ok("tune p.json --recorded t4.json --negative-costs --json"));
    assert_eq!(v["params"]["T"], json!(1), "{v}");
    let d = f.lathe("tune p.json --recorded t4.json --json");
    assert!(d.status == 1 || parsed(&d)["params"]["T"] == json!(3), "{} {}", d.stdout, d.stderr);
}

#[test]
fn truth_values_are_numbers_for_c() {
    let f = Folder::new();
    f.write(
        "prog.c",
        "#include <stdio.h>\nint main(void) {\n#if FAST && !SAFE\n  puts(\"1\");\n#else\n  puts(\"2\");\n#endif\n  return 0;\n}\n",
    );
    let both =
        json!([{ "name": "FAST", "range": [true, false] }, { "name": "SAFE", "range": [true, false] }]);
    // What the compile step makes is what runs; a list needs no shell.
    for (compile, run) in [
        (json!(["cc", "prog.c", "-o", "prog"]), json!("./prog > cost")),
        (
            json!("cc prog.c -o prog && printf '#!/bin/sh\\n./prog > cost\\n' > go && chmod +x go"),
            json!("./go"),
        ),
        (
            json!(
                "cc -DALSO=FAST prog.c -o prog && printf '#!/bin/sh\\n./prog > cost\\n' > go && chmod +x go"
            ),
            json!(["./go"]),
        ),
    ] {
        form(
            &f,
            "p.json",
            &json!({ "tuning_parameters": both, "program_source": "prog.c", "compile_script": compile,
                     "run_script": run, "cost_file": "cost" }),
        );
        let v = parsed(&f.ok("tune p.json --json"));
        assert_eq!((&v["params"], &v["valid"]), (&json!({ "FAST": true, "SAFE": false }), &json!(4)), "{v}");
    }
    assert!(!f.path("prog").exists() && !f.path("cost").exists());
}

#[test]
fn all_that_a_compiler_says_is_kept() {
    let f = Folder::new();
    script(
        &f,
        "compile.sh",
        "echo 'prog.c:1:1: error: no tile' >&2; echo 'compilation terminated.' >&2; exit 1",
    );
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": one(json!([1, 2])), "compile_script": "compile.sh", "run_script": "true" }),
    );
    let d = f.fails("tune p.json", 1, "E1086");
    assert!(d.stderr.contains("prog.c:1:1") && d.stderr.contains("terminated"), "{}", d.stderr);
}

/// As a user who may not write what is read-only: for root nothing is.
fn unprivileged(f: &Folder, line: &str) -> Command {
    let mine = f.command(line);
    if std::fs::File::options().write(true).open("/proc/1/environ").is_err() {
        return mine;
    }
    let mut c = Command::new("setpriv");
    c.args(["--bounding-set", "-dac_override,-dac_read_search", "--"])
        .arg(mine.get_program())
        .args(mine.get_args());
    c.current_dir(f.path("."));
    c.envs(mine.get_envs().filter_map(|(n, v)| Some((n, v?))));
    c
}

#[test]
fn read_only_scripts_and_sources_are_written_anew_each_time() {
    let f = Folder::new();
    script(&f, "run.sh", "cp src/data cost");
    std::fs::create_dir(f.path("src")).expect("a folder");
    f.write("src/data", "T");
    for (name, mode) in [("run.sh", 0o555), ("src/data", 0o444)] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(f.path(name), mode).expect("permissions");
    }
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": one(json!([3, 2, 1])), "program_source": "src/data", "run_script": "run.sh",
                 "cost_file": "cost" }),
    );
    let d = done(unprivileged(&f, "tune p.json --json").output().expect("lathe starts"));
    assert_eq!(d.status, 0, "{}", d.stderr);
    let v = parsed(&d);
    assert_eq!((&v["params"]["T"], &v["valid"]), (&json!(1), &json!(3)), "{v}");
}

#[test]
fn programs_that_write_their_cost_are_repeated() {
    let f = Folder::new();
    script(&f, "run.sh", "echo x >> n; set -- $(wc -l n); echo $((T + 9 / $1)) > cost");
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": one(json!([1, 2])), "run_script": "run.sh", "cost_file": "cost" }),
    );
    let v = parsed(&f.ok("tune p.json --json"));
    assert_eq!(v["costs"], json!([10.0]), "{v}");
    let v = parsed(&f.ok("tune p.json --json --runs 3 --t4 t4.json"));
    assert_eq!((&v["costs"], &v["known"]), (&json!([5.0]), &json!(0)), "{v}");
    let t4: Value = serde_json::from_str(&f.read("t4.json")).expect("JSON");
    assert_eq!(t4["results"][0]["times"]["runtimes"].as_array().map(Vec::len), Some(3), "{t4}");
    f.write("k.lathe", "kernel k(A: f32[N]) -> (B: f32[N]) { B[i] = A[i] }");
    f.fails("tune k.lathe --runs 3", 1, "E1088");
}

#[test]
fn recorded_searches_tell_how_long_compiling_took() {
    let f = Folder::new();
    script(&f, "compile.sh", "sleep 0.2; [ $T != 2 ]");
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": one(json!([1, 2])), "compile_script": "compile.sh", "run_script": "true" }),
    );
    f.ok("tune p.json --t4 t4.json");
    let t4: Value = serde_json::from_str(&f.read("t4.json")).expect("JSON");
    for r in t4["results"].as_array().expect("results") {
        assert!(r["times"]["compilation"].as_f64().is_some_and(|t| t >= 200.0), "{r}");
    }
}

/// The tables of the benchmark hub, as they are: the space in T1, the results packed.
#[test]
fn packed_tables_of_the_hub_are_searched() {
    let f = Folder::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let space = here.join("../lathe-space/tests/data/convolution_space_T1.json");
    let table = here.join("tests/data/convolution_A100_T4.json.gz");
    let line = format!("tune {} --recorded {} --json --seed 1", space.display(), table.display());
    let all = parsed(&f.ok(&format!("{line} --technique exhaustive")));
    assert_eq!(all["evaluations"], json!(4362), "{all}");
    let some = parsed(&f.ok(&format!("{line} --until evaluations(200)")));
    let cost = |v: &Value| v["costs"][0].as_f64().expect("a cost");
    assert!(cost(&some) >= cost(&all) && cost(&some) < 1.5 * cost(&all), "{} {}", cost(&some), cost(&all));
    f.write("cut.gz", &std::fs::read(&table).expect("a table")[..10_000]);
    f.fails(&format!("tune {} --recorded cut.gz", space.display()), 1, "E0901");
}

#[test]
fn as_many_samples_are_drawn_as_asked_for() {
    let f = Folder::new();
    form(&f, "p.json", &json!({ "tuning_parameters": one(json!("interval<int>(1, 100)")) }));
    let d = f.ok("tune --space p.json --sample 20000");
    assert_eq!(d.stdout.lines().count(), 20_001);
    let v = parsed(&f.ok("tune --space p.json --sample 20000 --json"));
    assert_eq!(v["samples"].as_array().map(Vec::len), Some(20_000));
    assert_eq!(f.lathe("tune --space p.json --sample 1000000000000").status, 2);
    for option in
        ["--recorded t4.json", "--technique random", "--plot p.svg", "--until evaluations(3)", "-D N=3"]
    {
        f.fails(&format!("tune --space p.json {option}"), 1, "E1088");
    }
}

#[test]
fn costs_within_a_tolerance_of_the_least_are_equal() {
    let f = Folder::new();
    // Within 5 % of each other, on both sides of any bucket's end.
    script(
        &f,
        "run.sh",
        "case $T in 1) c=1.0,9 ;; 2) c=1.04,5 ;; 3) c=1.049,4 ;; 4) c=1.06,1 ;; esac; echo $c > cost",
    );
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": one(json!([1, 2, 3, 4])), "run_script": "run.sh", "cost_file": "cost" }),
    );
    for (order, best) in [("lexicographic(0.05)", 3), ("lexicographic(0.045)", 2), ("lexicographic", 1)] {
        let v = parsed(&f.ok(&format!("tune p.json --json --order {order}")));
        assert_eq!(v["params"]["T"], json!(best), "{order}: {v}");
    }
}

/// Thousands of parameters, depended on or not: counted, drawn from, and searched.
#[test]
fn three_thousand_parameters() {
    let f = Folder::new();
    script(&f, "run.sh", "echo $((P0 + P2999)) > cost");
    for constraint in ["", "before"] {
        let all: Vec<Value> = (0..3000)
            .map(|i| {
                let mut p = json!({ "name": format!("P{i}"), "range": [0, 1, 2] });
                if i > 0 && constraint == "before" {
                    p["constraint"] = json!(format!("P{i} <= P{} + 1", i - 1));
                }
                p
            })
            .collect();
        form(
            &f,
            "p.json",
            &json!({ "tuning_parameters": all, "run_script": "run.sh", "cost_file": "cost",
                     "abort_condition": "evaluations(3)" }),
        );
        let start = std::time::Instant::now();
        let d = f.ok("tune --space p.json --sample 3");
        assert!(d.stdout.contains("3000 parameters"), "{:.200}", d.stdout);
        let v = parsed(&f.ok("tune p.json --json"));
        assert_eq!(v["evaluations"], json!(3));
        eprintln!("{constraint}: {:?}", start.elapsed());
    }
}

#[test]
fn a_killed_search_leaves_nothing_for_long() {
    let f = Folder::new();
    let scratch = Folder::new();
    script(&f, "run.sh", "echo $T > cost; sleep 0.02");
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": one(json!("interval<int>(1, 100000)")), "run_script": "run.sh", "cost_file": "cost" }),
    );
    let left = || -> BTreeSet<String> {
        let names = std::fs::read_dir(scratch.path(".")).expect("a folder").flatten();
        names.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
    };
    let mut old = BTreeSet::new();
    for (signal, leaves) in [("-KILL", 1), ("-HUP", 0), ("-TERM", 0), ("-KILL", 1)] {
        let mut child = f
            .command("tune p.json --fresh")
            .env("TMPDIR", scratch.path("."))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("lathe starts");
        // Until it runs programs in a folder of its own, and has removed what others left.
        let busy = |n: &String| scratch.path(n).join("work/cost").exists();
        while left().is_empty() || !left().is_disjoint(&old) || !left().iter().all(busy) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().is_ok_and(|s| s.success()));
        child.wait().expect("an end");
        old = left();
        assert_eq!(old.len(), leaves, "{signal}");
    }
    let mut last = f.command("tune p.json --until evaluations(1) --fresh");
    assert!(last.env("TMPDIR", scratch.path(".")).output().is_ok_and(|o| o.status.success()));
    assert!(left().is_empty());
}
