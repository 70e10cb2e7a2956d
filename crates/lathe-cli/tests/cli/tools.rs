//! `check`, `explain`, `emit`, `opt`, `fmt`, `doctor` and `--explain`.

use crate::common::{Folder, examples};
use serde_json::Value;

const DOUBLE: &str = "kernel f(A: f32[N]) -> (B: f32[N]) {\n    B[i] = 2 * A[i]\n}\n\nstrategy fast for f = tile(i: 8)\n\ntest \"twice\" for f {\n    N = 5\n    A = random(1)\n    expect B[i] = A[i] + A[i]\n}\n";

#[test]
fn a_file_is_checked_with_its_strategies_and_tests() {
    let f = Folder::new();
    f.write("f.lathe", DOUBLE);
    let d = f.ok("check f.lathe --json");
    let v: Value = serde_json::from_str(&d.stdout).expect("JSON");
    assert_eq!(
        (&v["ok"], &v["files"][0]["kernels"], &v["files"][0]["tests"]),
        (&true.into(), &1.into(), &1.into())
    );
    f.write("wrong.lathe", DOUBLE.replace("A[i] + A[i]", "A[i]"));
    let d = f.fails("check wrong.lathe", 1, "E0909");
    assert!(d.stderr.contains("B[0]") && d.stderr.contains("FAILED"), "{}", d.stderr);
    f.write("loops.lathe", DOUBLE.replace("tile(i: 8)", "tile(q: 8)"));
    assert!(f.fails("check loops.lathe", 1, "E0621").stderr.contains("there are: `i`"));
    // One bad file does not hide the others.
    let d = f.lathe("check nowhere.lathe f.lathe --json");
    let v: Value = serde_json::from_str(&d.stdout).expect("JSON");
    assert_eq!((d.status, &v["ok"], &v["files"][1]["ok"]), (1, &false.into(), &true.into()));
}

#[test]
fn every_step_is_explained() {
    let f = Folder::new();
    f.write("f.lathe", DOUBLE);
    let d = f.ok("explain f.lathe");
    assert!(d.stdout.contains("tile(") && d.stdout.contains("By"), "{}", d.stdout);
    let d = f.ok("explain f.lathe --strategy fast --diff");
    assert!(d.stdout.contains("       + ") && d.stdout.contains("       - "), "{}", d.stdout);
    let v: Value = serde_json::from_str(&f.ok("explain f.lathe --json").stdout).expect("JSON");
    assert_eq!((&v["kernel"], &v["strategy"]), (&"f".into(), &"fast".into()));
    let steps = v["versions"][0]["steps"].as_array().expect("steps");
    assert!(steps.iter().any(|s| s["rule"] == "tile" && s["obligations"].is_array()), "{steps:?}");
}

#[test]
fn code_is_emitted_in_every_form() {
    let f = Folder::new();
    f.write("f.lathe", DOUBLE);
    for (form, has) in
        [("tree", "func f"), ("llvm", "define"), ("asm", ".text"), ("c", "int32_t f("), ("header", "#ifndef")]
    {
        let d = f.ok(&format!("emit f.lathe --to {form}"));
        assert!(d.stdout.contains(has) && d.stderr.is_empty(), "{form}: {}{}", d.stdout, d.stderr);
        f.ok(&format!("emit f.lathe --to {form} -o out.{form}"));
        assert_eq!(f.read(&format!("out.{form}")), d.stdout, "{form}");
    }
    f.ok("emit f.lathe --to object -o f.o");
    assert!(std::fs::read(f.path("f.o")).expect("an object").len() > 100);
    assert!(f.read("f.h").contains("LATHE_ABI") && f.path("out.h").exists());
    assert!(f.ok("emit f.lathe --to tree --specialize -D N=40").stdout.contains("f32[40]"));
}

#[test]
fn steps_run_on_trees() {
    let f = Folder::new();
    f.write("f.lathe", DOUBLE);
    f.ok("emit f.lathe --to tree --strategy naive -o f.tree");
    let tree = f.ok("opt f.tree").stdout;
    assert!(tree.contains("func f"), "{tree}");
    f.write("again.tree", &tree);
    assert_eq!(f.ok("opt again.tree").stdout, tree);
    let split = f.ok("opt f.tree --step split(i,8)").stdout;
    assert!(split.contains("i.o") && split != tree, "{split}");
    f.fails("opt f.tree --step split(q,8)", 1, "E06");
    f.fails("opt f.tree --function g", 1, "E0902");
    f.fails("opt nowhere.tree", 1, "E0901");
    f.write("bad.tree", "func f(");
    assert_eq!(f.lathe("opt bad.tree").status, 1);
}

#[test]
fn files_are_formatted() {
    let f = Folder::new();
    f.write("f.lathe", DOUBLE.replace("    ", " ").replace("2 * A", "2*A"));
    let d = f.lathe("fmt --check f.lathe");
    assert_eq!((d.status, d.stdout.trim()), (1, "f.lathe"));
    f.ok("fmt f.lathe");
    let once = f.read("f.lathe");
    assert!(once.contains("2 * A[i]"), "{once}");
    f.ok("fmt f.lathe");
    assert_eq!(f.read("f.lathe"), once);
    f.ok("fmt --check f.lathe");
    let broken = "kernel f(A: f32[N]) -> (B: f32[N]) { B[i]=A[i]";
    f.write("broken.lathe", broken);
    f.fails("fmt broken.lathe f.lathe", 1, "E01");
    assert_eq!(f.read("broken.lathe"), broken);
    f.fails("fmt nowhere.lathe", 1, "E0901");
}

#[test]
fn examples_are_formatted() {
    let f = Folder::new();
    let mut line = "fmt --check".to_string();
    for e in std::fs::read_dir(examples()).expect("the examples").flatten() {
        if e.path().extension().is_some_and(|x| x == "lathe") {
            line += &format!(" {}", e.path().display());
        }
    }
    f.ok(&line);
}

#[test]
fn the_machine_and_the_codes_are_described() {
    let f = Folder::new();
    assert!(f.ok("doctor").stdout.contains("threads"));
    let v: Value = serde_json::from_str(&f.ok("doctor --json").stdout).expect("JSON");
    assert!(v["threads"].as_u64() > Some(0) && v["findings"].is_array());
    let d = f.ok("--explain e0904");
    assert!(d.stdout.starts_with("E0904: ") && d.stdout.contains("Wrong:"), "{}", d.stdout);
    assert!(f.ok("--help").stdout.contains("bench"));
}

#[test]
fn messages_have_colours_only_on_terminals() {
    let f = Folder::new();
    let mut c = std::process::Command::new(env!("CARGO_BIN_EXE_lathe"));
    let o = c.args(["run", "nowhere.lathe"]).current_dir(f.path(".")).output().expect("lathe starts");
    assert!(!o.stderr.contains(&0x1b));
    assert!(!f.lathe("run nowhere.lathe").stderr.contains('\u{1b}'));
}
