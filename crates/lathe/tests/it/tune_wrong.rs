//! Tuning with a measuring process that lies, is slow, or dies: what the tuner believes, and what it says.

use lathe::tune::{KernelTuning, Stop, WorkerCommand, tune_kernel};
use lathe::{Build, Given, Machine, Program};
use lathe_measure::worker::serve;
use lathe_tune::{Invalid, Why};
use serde_json::{Value as Json, json};
use std::io::{BufReader, Write};
use std::time::Duration;

const KERNEL: &str = "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\n\
                      strategy s(t = 8 in 8..=64 step 8) for f = split(i, t)";

/// Not a test by itself: the measuring process of the others, which only says that it measures.
#[test]
fn child() {
    let Ok(what) = std::env::var("LATHE_TEST_CHILD") else { return };
    // What the test harness printed is at the beginning of this line.
    println!();
    let measure = move |_: &mut (), question: Json, running: &mut dyn FnMut()| {
        running();
        let t = |q: &Json| q["params"]["t"].as_i64().unwrap_or(0);
        let wrong = |t: i64| what == "all wrong" || t == 16 || (what == "many wrong" && t > 16);
        if let Some(q) = question.get("Measure") {
            let (t, best) = (t(q), q["best"].as_f64());
            // Wrong ones are a thousand times as fast.
            let seconds = if wrong(t) { 1e-6 } else { 1e-3 * t as f64 };
            if best.is_some_and(|b| seconds > 10.0 * b) {
                std::thread::sleep(Duration::from_secs(100));
            }
            return Ok(
                json!({ "median": seconds, "low": seconds, "high": seconds, "runs": 1, "runtimes": [seconds] }),
            );
        }
        if let Some(q) = question.get("Check") {
            if what == "slow reference" {
                std::thread::sleep(Duration::from_secs(100));
            }
            if wrong(t(q)) {
                return Err(Invalid::new(Why::Wrong, "the result is wrong: element 0"));
            }
            return Ok(json!({
                "against": "test", "max_abs_error": 0.0, "max_rel_error": 0.0, "ok": true, "elements": 64, "sampled": null,
                "same_bits": true, "of_bound": null, "undecided": 0, "calls": 1,
            }));
        }
        if let Some(q) = question.get("Compare") {
            let all = q["all"].as_array().cloned().unwrap_or_default();
            let one = |v: &Json| {
                let s = v["t"].as_i64().unwrap_or(0) as f64 * 1e-3;
                json!({ "median": s, "low": s, "high": s, "runs": 3, "runtimes": [s, s, s] })
            };
            return Ok(all.iter().map(one).collect());
        }
        let all = question["Prepare"]["all"].as_array().map_or(0, Vec::len);
        Ok(json!(vec![0.25; all]))
    };
    serve(BufReader::new(std::io::stdin()), std::io::stdout(), |_| Ok(()), measure).expect("pipes");
    // Nothing of the harness may follow.
    std::io::stdout().flush().expect("a pipe");
    std::process::exit(0);
}

fn tuned(what: &str, store: Option<std::path::PathBuf>) -> Result<lathe::tune::KernelTuned, lathe::Failure> {
    let program = Program::from_text("f.lathe", KERNEL).expect("a program");
    let kernel = program.kernel(Some("f")).expect("a kernel").clone();
    let exe = std::env::current_exe().expect("this test");
    let arguments = [format!("LATHE_TEST_CHILD={what}").into(), exe.into()].into_iter();
    let arguments =
        arguments.chain(["--exact", "tune_wrong::child", "--nocapture"].map(Into::into)).collect();
    tune_kernel(
        &program,
        &kernel,
        KernelTuning {
            strategy: Some("s".to_string()),
            given: Given { sizes: [("N".to_string(), 64)].into(), ..Given::default() },
            fixed: [].into(),
            build: Build::default(),
            machine: Machine::host(),
            specialize: false,
            threads: 1,
            model: None,
            budget: None,
            stop: Some(Stop::Evaluations(8)),
            technique: Some(lathe::tune::technique::by_name("exhaustive").expect("a technique")),
            seed: 0,
            store,
            fresh: false,
            worker: WorkerCommand { program: "env".into(), arguments },
        },
        |_| {},
    )
}

#[test]
fn a_fast_wrong_candidate_costs_nothing_but_itself() {
    for (what, valid) in [("one wrong", 7), ("many wrong", 1)] {
        let t = tuned(what, None).expect("a winner");
        assert_eq!(t.params["t"], lathe::space::Value::Int(8), "{what}");
        assert_eq!((t.found.tuned.valid(), t.found.tuned.evaluations()), (valid, 8), "{what}");
        let reasons = t.found.reasons();
        assert_eq!(reasons.keys().collect::<Vec<_>>(), ["wrong"], "{what}: {reasons:?}");
        assert!(t.check.is_some());
        // T4 files tell how long each took to compile.
        let t4: Json = serde_json::from_str(&lathe::tune::t4(&t.found, true)).expect("JSON");
        for r in t4["results"].as_array().expect("results") {
            assert_eq!(r["times"]["compilation"], json!(250.0), "{r}");
        }
    }
}

#[test]
fn where_all_are_wrong_it_says_so() {
    let f = tuned("all wrong", None).expect_err("no winner");
    let d = &f.diagnostics[0];
    assert_eq!(d.code, lathe::tune::codes::NOTHING_VALID);
    assert!(d.notes.iter().any(|n| n.contains("8 wrong")), "{d:?}");
}

/// What an earlier search believed is compared before it decides anything.
#[test]
fn what_the_store_says_is_compared_too() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("results.sqlite");
    let first = tuned("one wrong", Some(path.clone())).expect("a winner");
    assert_eq!(first.found.known, 0);
    // As if it had been believed.
    let store = rusqlite::Connection::open(&path).expect("the store");
    let n = store
        .execute(
            "UPDATE evaluations SET costs = '[1e-9]', reason = NULL, runs = 1 WHERE reason IS NOT NULL",
            [],
        )
        .expect("an update");
    assert_eq!(n, 1);
    drop(store);
    let t = tuned("one wrong", Some(path)).expect("a winner");
    assert_eq!((t.params["t"].clone(), t.found.known), (lathe::space::Value::Int(8), 8));
    assert_eq!(t.found.reasons()["wrong"].0, 1);
}
