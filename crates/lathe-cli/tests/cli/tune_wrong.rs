//! `lathe tune` with what is wrong: lines, forms, scripts, stores.

use crate::common::{Folder, form, parsed, script};
use crate::tune::{KERNEL, source};
use serde_json::json;

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
    assert_eq!(source(&f, "-D N=64 --threads 1"), "chosen");
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
        ("tune --list --space p.json", "E1088"),
        (&format!("{k} --strategy nothing"), "E0903"),
        (&format!("{k} --strategy fixed"), "E1085"),
        (&format!("{k} --strategy naive"), "E1085"),
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
    f.fails("tune closed.json --gold gold --tolerance nan", 1, "E1088");
    // Negative numbers are a score where the program writes them itself.
    script(&f, "score.sh", "echo -$T > cost");
    form(
        &f,
        "score.json",
        &json!({ "tuning_parameters": one, "run_script": "score.sh", "cost_file": "cost" }),
    );
    assert_eq!(parsed(&f.ok("tune score.json --negative-costs --json"))["costs"], json!([-2.0]));
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
        assert_ne!(parsed(&d)["strategy_source"], json!("stored"));
        assert!(d.stderr.contains("E107"), "{}", d.stderr);
        assert_eq!(std::fs::read(f.path("results.sqlite")).expect("the store"), content);
    }
}

#[test]
fn one_odd_number_of_costs_makes_one_configuration_invalid() {
    let f = Folder::new();
    script(&f, "run.sh", "if [ $M = 7 ]; then echo 3,4; else echo $M; fi > cost");
    let parameters = json!([{ "name": "M", "range": "interval<int>(1, 24)" }]);
    form(
        &f,
        "p.json",
        &json!({ "tuning_parameters": parameters, "run_script": "run.sh", "cost_file": "cost" }),
    );
    // The second time from the store.
    for _ in 0..2 {
        let v = parsed(&f.ok("tune p.json --technique exhaustive --json"));
        assert_eq!(
            (&v["evaluations"], &v["valid"], &v["params"]["M"]),
            (&json!(24), &json!(23), &json!(1)),
            "{v}"
        );
        assert_eq!(v["stopped"], json!("exhausted"), "{v}");
        let invalid = &v["invalid"]["notanumber"];
        assert_eq!(invalid["count"], json!(1), "{v}");
        assert!(invalid["first"].as_str().is_some_and(|t| t.contains("M = 7")), "{v}");
    }
    // No configuration has what this order needs.
    f.fails("tune p.json --fresh --order c1+c3", 1, "E1043");
}
