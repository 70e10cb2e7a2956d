//! Programs that are tuned through scripts: what they are given, and every way in which they fail.

use lathe_measure::codes;
use lathe_measure::cost::{Comparator, CostFunction, Gold, Sample, Scripts};
use lathe_measure::worker::{Fault, Limits, Rule};
use lathe_space::{Value, Values};
use lathe_tune::{Cost, Invalid, Why};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

fn values(t: i64) -> Values {
    [("T".to_string(), Value::Int(t)), ("FLAG".to_string(), Value::Str("-O2".into()))].into()
}

fn script(folder: &Path, name: &str, text: &str, mode: u32) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn measure(s: Scripts, t: i64) -> Result<Sample, Fault> {
    s.prepare().unwrap().measure(&values(t), None)
}

fn invalid(s: Scripts) -> Invalid {
    match measure(s, 3) {
        Err(Fault::Invalid(i)) => i,
        other => panic!("{other:?}"),
    }
}

#[test]
fn checklist_30_scripts_with_a_cost_file() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    script(d, "src/program.txt", "T * N, TT, 10-T", 0o644);
    script(d, "other.txt", "untouched T", 0o644);
    // The source with the values in it, the environment, and the files beside it.
    script(
        d,
        "compile.sh",
        "#!/bin/sh\n[ \"$T\" = T ] && [ $N = 7 ] && cat src/program.txt > built && cat other.txt >> built\n",
        0o755,
    );
    script(d, "run.sh", "#!/bin/sh\ncp built $LATHE_FOLDER/seen\necho \"T.5, $N\" > cost.txt\n", 0o755);
    script(d, "cost.txt", "stale", 0o644);
    let s = Scripts {
        source: Some("src/program.txt".into()),
        compile: Some("compile.sh".into()),
        cost_file: Some("cost.txt".into()),
        constants: [("N".to_string(), Value::Int(7))].into(),
        ..Scripts::new(d, "./run.sh")
    };
    let sample = measure(Scripts { rule: Rule::once(), ..s.clone() }, 3).unwrap();
    assert_eq!((sample.cost, sample.runs), ((3.5, 7.0).into(), 1));
    assert_eq!(std::fs::read_to_string(d.join("seen")).unwrap(), "3 * 7, TT, 10-3untouched T");
    assert_eq!(
        std::fs::read_to_string(d.join("cost.txt")).unwrap(),
        "stale",
        "the folder itself is not written"
    );
    assert!(!d.join("built").exists());
    let again =
        measure(Scripts { rule: Rule { min: 3, max: 3, warmup: 0, ..Rule::default() }, ..s }, 3).unwrap();
    assert_eq!((again.cost, again.runs, again.interval), ((3.5, 7.0).into(), 3, Some((3.5, 3.5))));
}

#[test]
fn checklist_30_time_is_the_cost_without_a_cost_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut cost =
        Scripts { rule: Rule::once(), ..Scripts::new(dir.path(), "sleep 0.0$T") }.prepare().unwrap();
    let (short, long) = (cost.measure(&values(1), None).unwrap(), cost.measure(&values(9), None).unwrap());
    assert!(short.cost.first() >= 0.01 && long.cost.first() >= 0.09, "{short:?} {long:?}");
}

#[test]
fn checklist_32_what_fails_is_invalid_for_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let new = |run: &str| Scripts { rule: Rule::once(), ..Scripts::new(dir.path(), run) };
    let with = |run: &str| Scripts { cost_file: Some("c".into()), ..new(run) };
    let timed = |run: &str| Scripts { first: Duration::from_millis(100), ..new(run) };
    let eater = "dd if=/dev/zero of=/dev/null bs=1G count=1";
    let gold = |text: &str, file: Option<&str>| Scripts {
        gold: Some((Gold::new(vec![1.0, 2.0], Comparator::Equal), file.map(Into::into))),
        ..new(text)
    };
    for (s, why, text) in [
        (
            Scripts { compile: Some("echo first >&2; echo 'bad T' >&2; exit 2".into()), ..new("true") },
            Why::Compile,
            "compiling failed: exit status 2: bad 3",
        ),
        (new("exit T"), Why::Runtime, "exit status 3"),
        (new("kill -SEGV $$"), Why::Runtime, "segmentation fault"),
        (timed("sleep 50"), Why::Timeout, "longer than 0.1 s"),
        (Scripts { limits: Limits { memory: Some(256 << 20) }, ..new(eater) }, Why::Memory, "out of memory"),
        (with("true"), Why::Runtime, "was not written"),
        (with("echo fast > c"), Why::NotANumber, "`fast`"),
        (with("echo > c"), Why::NotANumber, "cost file"),
        (with("printf '\\377\\376' > c"), Why::Runtime, "cost file"),
        (gold("echo 1 3", None), Why::Wrong, "result 1 is 3"),
        (gold("echo 1", None), Why::Wrong, "1 numbers"),
        (gold("true", Some("out")), Why::Wrong, "`out`"),
        (gold("echo lies > out", Some("out")), Why::Wrong, "`lies`"),
    ] {
        let name = s.run.clone();
        let i = invalid(s);
        assert_eq!(i.why, why, "{name}: {i}");
        assert!(i.message.contains(text), "{name}: {i}");
    }
    assert!(measure(gold("echo 1 2 > out", Some("out")), 3).is_ok());
    // NaN is the session's business: here it is a number that was written.
    assert!(measure(with("echo nan > c"), 3).unwrap().cost.first().is_nan());
}

#[test]
fn scripts_that_cannot_be_run_are_one_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    script(dir.path(), "closed.sh", "#!/bin/sh\n", 0o644);
    script(dir.path(), "no_interpreter.sh", "#!/nowhere/sh\n", 0o755);
    for (run, text) in [
        ("closed.sh", "may not be run"),
        ("./closed.sh", "may not be run"),
        ("./nowhere", "nowhere"),
        ("nowhere.sh", "nowhere.sh"),
        (" ", "script"),
    ] {
        let e = Scripts::new(dir.path(), run).prepare().unwrap_err();
        assert_eq!(e.code, codes::SCRIPT, "{run}");
        assert!(e.message.contains(text), "{run}: {e}");
    }
    let s = Scripts { source: Some("nowhere.c".into()), ..Scripts::new(dir.path(), "true") };
    assert_eq!(s.prepare().unwrap_err().code, codes::SCRIPT);
    assert_eq!(Scripts::new("/nowhere", "true").prepare().unwrap_err().code, codes::SCRIPT);
    match measure(Scripts::new(dir.path(), "no_interpreter.sh"), 1) {
        Err(Fault::Fatal(d)) => assert_eq!(d.code, codes::SCRIPT),
        other => panic!("{other:?}"),
    }
}

/// The limit of a run is derived from the fastest so far: a hang costs little once something good is known.
#[test]
fn time_limits_follow_the_best() {
    let dir = tempfile::tempdir().unwrap();
    let run = "[ $T = 1 ] || sleep 50";
    let mut cost =
        Scripts { rule: Rule::once(), first: Duration::from_secs(40), ..Scripts::new(dir.path(), run) }
            .prepare()
            .unwrap();
    let best = cost.measure(&values(1), None).unwrap().cost;
    let start = std::time::Instant::now();
    let Err(Fault::Invalid(i)) = cost.measure(&values(2), Some(&best)) else { panic!() };
    assert_eq!(i.why, Why::Timeout);
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(Cost::from(1.0).first(), 1.0);
}
