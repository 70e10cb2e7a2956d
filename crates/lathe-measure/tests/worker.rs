//! Workers that crash, hang, eat memory, lie about the protocol, or die between two questions.

use lathe_measure::codes;
use lathe_measure::worker::{Fault, Patience, Spec, Worker, serve};
use lathe_system::process::Limits;
use lathe_tune::{Invalid, Why};
use serde_json::{Value as Json, json};
use std::io::{BufReader, Write};
use std::time::Duration;

/// Not a test by itself: the child of the others.
#[test]
fn child() {
    if std::env::var_os("LATHE_TEST_CHILD").is_none() {
        return;
    }
    // What the test harness printed is at the beginning of this line.
    println!();
    let start = |setup: Json| {
        if setup == json!("refuse") {
            return Err(
                lathe_diagnostics::Diagnostic::error(codes::WORKER, "no such kernel").help("look again")
            );
        }
        Ok(setup)
    };
    let measure = |setup: &mut Json, question: Json, running: &mut dyn FnMut()| {
        match question.as_str().unwrap_or_default() {
            "crash" => std::process::abort(),
            "exit" => std::process::exit(7),
            "hang" => std::thread::sleep(Duration::from_secs(100)),
            "hang running" => {
                running();
                std::thread::sleep(Duration::from_secs(100));
            }
            "slow compile" => {
                std::thread::sleep(Duration::from_millis(300));
                running();
            }
            "eat" => {
                let mut all: Vec<Vec<u8>> = Vec::new();
                loop {
                    all.push(vec![1; 64 << 20]);
                }
            }
            "noise" => println!("the measured program prints {{\"this\""),
            "refuse" => return Err(Invalid::new(Why::Refused, "the tile does not fit")),
            _ => running(),
        }
        Ok(json!([setup.clone(), question]))
    };
    serve(BufReader::new(std::io::stdin()), std::io::stdout(), start, measure).unwrap();
    // Nothing of the harness may follow.
    std::io::stdout().flush().unwrap();
    std::process::exit(0);
}

fn worker(setup: Json) -> Worker {
    let exe = std::env::current_exe().unwrap();
    Worker::new(Spec {
        program: "env".into(),
        arguments: [
            "LATHE_TEST_CHILD=1".into(),
            exe.into(),
            "--exact".into(),
            "child".into(),
            "--nocapture".into(),
        ]
        .into(),
        setup,
        limits: Limits { memory: Some(2 << 30) },
        starting: Duration::from_secs(30),
    })
}

/// Only what hangs may meet a limit, however busy the machine is.
const PATIENCE: Patience = Patience { compile: Duration::from_secs(120), run: Duration::from_secs(120) };

fn invalid(w: &mut Worker, question: &str, patience: Patience) -> Invalid {
    match w.ask(&json!(question), patience) {
        Err(Fault::Invalid(i)) => i,
        other => panic!("{question}: {other:?}"),
    }
}

#[test]
fn whatever_a_configuration_does_the_next_is_measured() {
    let mut w = worker(json!("gemm"));
    let answer = |q: &str| Ok(json!(["gemm", q]));
    assert_eq!(w.ask(&json!("a"), PATIENCE), answer("a"));
    assert_eq!(w.ask(&json!("noise"), PATIENCE), answer("noise"));
    let i = invalid(&mut w, "refuse", PATIENCE);
    assert_eq!((i.why, i.message.as_str()), (Why::Refused, "the tile does not fit"));
    assert_eq!(w.starts(), 1, "none of that costs a process");
    let i = invalid(&mut w, "crash", PATIENCE);
    assert_eq!(i.why, Why::Runtime);
    let i = invalid(&mut w, "exit", PATIENCE);
    assert_eq!(i.why, Why::Runtime, "{i}");
    let i = invalid(&mut w, "eat", PATIENCE);
    assert_eq!(i.why, Why::Memory, "{i}");
    let i = invalid(&mut w, "hang running", Patience { run: Duration::from_millis(200), ..PATIENCE });
    assert!(i.why == Why::Timeout && i.message.contains("0.2 s"), "{i}");
    let short = Patience { compile: Duration::from_millis(150), ..PATIENCE };
    assert_eq!(invalid(&mut w, "hang", short).why, Why::Timeout);
    // Compiling has a limit of its own.
    assert_eq!(w.ask(&json!("slow compile"), PATIENCE), answer("slow compile"));
    assert_eq!(w.starts(), 6);
}

#[test]
fn a_worker_that_cannot_work_says_why() {
    let fatal = |mut w: Worker| match w.ask(&json!(1), PATIENCE) {
        Err(Fault::Fatal(d)) => d,
        other => panic!("{other:?}"),
    };
    let d = fatal(worker(json!("refuse")));
    assert_eq!(
        (d.code, d.message.as_str(), d.help.as_deref()),
        (codes::WORKER, "no such kernel", Some("look again"))
    );
    let spec = |program: &str, argument: &str| Spec {
        program: program.into(),
        arguments: vec!["-c".into(), argument.into()],
        setup: Json::Null,
        limits: Limits::default(),
        starting: Duration::from_millis(200),
    };
    assert_eq!(fatal(Worker::new(spec("/nowhere", ""))).code, codes::WORKER);
    for script in ["exit 3", "sleep 10", "echo hello; exit 0", "read x; exit 0"] {
        assert_eq!(fatal(Worker::new(spec("sh", script))).code, codes::WORKER, "{script}");
    }
}

#[test]
fn a_worker_that_died_between_two_questions_is_replaced() {
    let script = r#"read x; echo '{"done":{"id":0,"body":null}}'; read line; id=${line#*\"id\":}; id=${id%%,*}
        echo "{\"done\":{\"id\":$id,\"body\":$$}}""#;
    let mut w = Worker::new(Spec {
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
        setup: Json::Null,
        limits: Limits::default(),
        starting: Duration::from_secs(10),
    });
    let first = w.ask(&json!(1), PATIENCE).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let second = w.ask(&json!(2), PATIENCE).unwrap();
    assert_ne!(first, second);
    assert_eq!(w.starts(), 2);
}
