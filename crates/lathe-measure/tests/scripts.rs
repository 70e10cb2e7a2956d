//! Programs that are tuned through scripts: what they are given, and every way in which they fail.

use lathe_measure::codes;
use lathe_measure::cost::{Comparator, CostFunction, Gold, Sample, Scripts};
use lathe_measure::worker::{Fault, Rule};
use lathe_space::formats::Script;
use lathe_space::{Value, Values};
use lathe_system::process::Limits;
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
    script(dir.path(), "secret", "1", 0o644);
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
            "2:\nfirst\nbad 3",
        ),
        (new("exit T"), Why::Runtime, "3"),
        (new("kill -SEGV $$"), Why::Runtime, ""),
        (timed("sleep 50"), Why::Timeout, "0.1 s"),
        (Scripts { limits: Limits { memory: Some(256 << 20) }, ..new(eater) }, Why::Memory, ""),
        (with("true"), Why::Runtime, ""),
        (with("echo fast > c"), Why::NotANumber, "`fast`"),
        (with("echo > c"), Why::NotANumber, ""),
        (with("echo -1 > c"), Why::NotANumber, "-1"),
        (with("mkfifo c"), Why::Runtime, ""),
        (with("mkdir c"), Why::Runtime, ""),
        (with("ln -s $LATHE_FOLDER/secret c"), Why::Runtime, ""),
        (with("yes 1, | head -c 100000 > c"), Why::Runtime, ""),
        (with("printf '\\377\\376' > c"), Why::Runtime, ""),
        (gold("echo 1 3", None), Why::Wrong, "3"),
        (gold("echo 1", None), Why::Wrong, "1"),
        (gold("true", Some("out")), Why::Wrong, "`out`"),
        (gold("echo lies > out", Some("out")), Why::Wrong, "`lies`"),
        (gold("mkfifo out", Some("out")), Why::Wrong, ""),
        (gold("yes 1 | head -c 5000000", None), Why::Wrong, ""),
        (gold("yes 1 | head -c 5000000 > out", Some("out")), Why::Wrong, ""),
    ] {
        let name = s.run.clone();
        let i = invalid(s);
        assert_eq!(i.why, why, "{name:?}: {i}");
        assert!(i.message.contains(text), "{name:?}: {i}");
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
        ("closed.sh", "closed.sh"),
        ("./closed.sh", "closed.sh"),
        ("./nowhere", "nowhere"),
        ("nowhere.sh", "nowhere.sh"),
        (" ", ""),
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

/// How long a run takes says nothing about a cost that it states itself.
#[test]
fn slow_runs_with_a_low_cost_are_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let run = "[ $T = 1 ] || sleep 2; echo $((10 - T)) > c";
    let s = Scripts { rule: Rule::once(), cost_file: Some("c".into()), ..Scripts::new(dir.path(), run) };
    let mut cost = s.prepare().unwrap();
    let first = cost.measure(&values(1), None).unwrap().cost;
    assert_eq!(cost.measure(&values(2), Some(&first)).unwrap().cost, 8.0.into());
}

#[test]
fn negative_costs_are_for_those_who_ask_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let s = Scripts {
        rule: Rule::once(),
        cost_file: Some("c".into()),
        ..Scripts::new(dir.path(), "echo -2 > c")
    };
    assert!(measure(s.clone(), 1).is_err());
    assert_eq!(measure(Scripts { negative: true, ..s }, 1).unwrap().cost, (-2.0).into());
}

#[test]
fn programs_that_write_their_cost_are_repeated() {
    let dir = tempfile::tempdir().unwrap();
    // Runs of one configuration see what earlier ones left, but for the cost.
    let run = "echo x >> count; set -- $(wc -l count); echo $((10 / $1)) > c";
    let rule = Rule { warmup: 0, min: 5, max: 5, ..Rule::default() };
    let s = Scripts { rule, cost_file: Some("c".into()), ..Scripts::new(dir.path(), run) };
    let sample = measure(s, 1).unwrap();
    assert_eq!((sample.cost.first(), sample.runs), (3.0, 5));
    assert!(!dir.path().join("count").exists());
}

/// What the compile step makes is what runs, also where an older one lies in the program's folder.
#[test]
fn programs_that_the_compile_step_makes_are_run() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let compile = "printf '#!/bin/sh\\necho T \"$@\" > c\\n' > bin/prog; chmod +x bin/prog";
    std::fs::create_dir(d.join("bin")).unwrap();
    let new = |run: Script| Scripts {
        rule: Rule::once(),
        compile: Some(compile.into()),
        cost_file: Some("c".into()),
        ..Scripts::new(d, run)
    };
    let list = |words: &[&str]| Script::List(words.iter().map(|w| w.to_string()).collect());
    for old in [None, Some(&b"\xff\xfe old machine code"[..]), Some(b"#!/bin/sh\necho 99 > c\n")] {
        if let Some(text) = old {
            std::fs::write(d.join("bin/prog"), text).unwrap();
            std::fs::set_permissions(d.join("bin/prog"), PermissionsExt::from_mode(0o755)).unwrap();
        }
        assert_eq!(measure(new("./bin/prog".into()), 3).unwrap().cost, 3.0.into());
        assert_eq!(measure(new("bin/prog ,8".into()), 3).unwrap().cost, (3.0, 8.0).into());
        assert_eq!(measure(new(list(&["./bin/prog", ",", "T"])), 3).unwrap().cost, (3.0, 3.0).into());
        let still = std::fs::read(d.join("bin/prog")).ok();
        assert_eq!(still.as_deref(), old, "the folder itself is not written");
    }
    let i = invalid(Scripts { compile: Some("true".into()), ..new("./none".into()) });
    assert_eq!((i.why, i.message.contains("`none`")), (Why::Compile, true), "{i}");
    // Nothing could make it.
    for wrong in [new("/nowhere/prog".into()), Scripts { compile: None, ..new(list(&["./none"])) }] {
        assert_eq!(wrong.prepare().unwrap_err().code, codes::SCRIPT);
    }
    assert!(measure(Scripts { compile: None, cost_file: None, ..new(list(&["true"])) }, 1).is_ok());
}

#[test]
fn what_a_configuration_wrote_is_gone_before_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    script(d, "data", "7", 0o644);
    // Only the first makes a program, and damages its input.
    let compile = "[ $T != 1 ] || { echo 'echo 1' > prog; echo 0 > data; }";
    let s = Scripts {
        rule: Rule::once(),
        compile: Some(compile.into()),
        cost_file: Some("c".into()),
        ..Scripts::new(d, "cat data > c; [ ! -e prog ] || sh prog > c")
    };
    let mut cost = s.prepare().unwrap();
    assert_eq!(cost.measure(&values(1), None).unwrap().cost, 1.0.into());
    assert_eq!(cost.measure(&values(2), None).unwrap().cost, 7.0.into());
    assert_eq!(std::fs::read_to_string(d.join("data")).unwrap(), "7");
}

/// The attack: files of the user that have the names of outputs, or are reached through them.
#[test]
fn files_elsewhere_are_neither_removed_nor_written_nor_believed() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path().join("program");
    let other = dir.path().join("elsewhere");
    for f in [&d, &other] {
        std::fs::create_dir(f).unwrap();
    }
    script(&other, "cost", "0", 0o644);
    script(&d, "out.txt", "mine", 0o644);
    script(&d, "result", "1 2", 0o644);
    std::os::unix::fs::symlink(&other, d.join("linked")).unwrap();
    let precious = || std::fs::read_to_string(other.join("cost")).unwrap();
    let new = |run: &str, cost: &Path| Scripts {
        rule: Rule::once(),
        cost_file: Some(cost.into()),
        ..Scripts::new(&d, run)
    };
    for cost in [other.join("cost"), "../elsewhere/cost".into(), "".into(), ".".into()] {
        assert_eq!(new("true", &cost).prepare().unwrap_err().code, codes::SCRIPT, "{cost:?}");
    }
    // Through a link of the folder, which is a real folder where the program runs.
    let i = invalid(new("true", Path::new("linked/cost")));
    assert_eq!(i.why, Why::Runtime, "{i}");
    assert_eq!(precious(), "0");
    assert_eq!(measure(new("echo 5 > linked/cost", Path::new("linked/cost")), 1).unwrap().cost, 5.0.into());
    // Through a link that the program makes.
    let swap = format!("rm -rf linked; ln -s {} linked", other.display());
    let mut cost = new(&swap, Path::new("linked/cost")).prepare().unwrap();
    for _ in 0..2 {
        let Err(Fault::Invalid(i)) = cost.measure(&values(1), None) else { panic!() };
        assert_eq!(i.why, Why::Runtime, "{i}");
    }
    assert_eq!(precious(), "0");
    // A file that is in the folder is not written through, and a result of an earlier run is none.
    let s = Scripts {
        gold: Some((Gold::new(vec![1.0, 2.0], Comparator::Equal), Some("result".into()))),
        ..new("echo new > out.txt; echo 1 > c", Path::new("c"))
    };
    assert_eq!(invalid(s.clone()).why, Why::Wrong);
    assert_eq!(std::fs::read_to_string(d.join("out.txt")).unwrap(), "mine");
    let mut cost =
        Scripts { run: "[ $T != 1 ] || echo 1 2 > result; echo 1 > c".into(), ..s }.prepare().unwrap();
    assert!(cost.measure(&values(1), None).is_ok());
    assert!(cost.measure(&values(2), None).is_err(), "it wrote nothing");
}

#[test]
fn strings_are_words_for_the_shell() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    script(
        d,
        "run.sh",
        "#!/bin/sh\nprintf '%s\\n' FLAG > seen\necho \"FLAG\" 'FLAG' >> seen\n# FLAG\ncp seen $LATHE_FOLDER",
        0o755,
    );
    for run in ["./run.sh".into(), Script::from("printf '%s\\n' FLAG > $LATHE_FOLDER/seen")] {
        for attack in
            ["; touch $LATHE_FOLDER/pwned", "$(touch $LATHE_FOLDER/pwned)", "' | touch $LATHE_FOLDER/pwned '"]
        {
            let s = Scripts { rule: Rule::once(), ..Scripts::new(d, run.clone()) };
            let values: Values = [("FLAG".to_string(), Value::Str(attack.into()))].into();
            s.prepare().unwrap().measure(&values, None).unwrap();
            assert!(!d.join("pwned").exists(), "{run:?} {attack}");
            assert!(std::fs::read_to_string(d.join("seen")).unwrap().contains("LATHE_FOLDER/pwned"));
        }
    }
}
