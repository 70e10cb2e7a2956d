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
    assert!(f.fails("check loops.lathe", 1, "E0621").stderr.contains("`i`"));
    // One bad file does not hide the others.
    let d = f.lathe("check nowhere.lathe f.lathe --json");
    let v: Value = serde_json::from_str(&d.stdout).expect("JSON");
    assert_eq!((d.status, &v["ok"], &v["files"][1]["ok"]), (1, &false.into(), &true.into()));
}

#[test]
fn strategies_for_any_kernel_are_checked_too() {
    let f = Folder::new();
    let two = "kernel a(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\n\
               kernel b(A: f32[N]) -> (B: f32[N]) { B[j] = 2 * A[j] }\n";
    f.write("fits.lathe", format!("{two}strategy lanes = vectorize(j, 16)\n"));
    let v: Value = serde_json::from_str(&f.ok("check fits.lathe --json").stdout).expect("JSON");
    assert_eq!(v["files"][0]["strategies"], 3);
    f.write("fits_nowhere.lathe", format!("{two}strategy lanes = vectorize(k, 16)\n"));
    let d = f.fails("check fits_nowhere.lathe", 1, "E0913");
    assert!(d.stderr.contains("`lanes`") && d.stderr.contains("E0621"), "{}", d.stderr);
    // What takes arguments is checked where it is called.
    let open = format!("{two}strategy lanes(l) = vectorize(l, 16)\n");
    f.write("uncalled.lathe", &open);
    assert!(f.ok("check uncalled.lathe").stderr.contains("nothing calls it"));
    f.write("called.lathe", format!("{open}strategy fast for a = lanes(i)\n"));
    assert!(!f.ok("check called.lathe").stderr.contains("E0913"));
    f.write("badly.lathe", format!("{open}strategy fast for a = lanes(k)\n"));
    f.fails("check badly.lathe", 1, "E0621");
}

#[test]
fn messages_say_what_to_write() {
    let f = Folder::new();
    let dot = "kernel dot(x: f32[N], y: f32[N]) -> (s: f32) { s = sum[k](x[k] * y[k]) }\n";
    for (steps, code, says) in [
        ("interchange(k)", "E0605", "called `reorder` here"),
        ("strip_mine(k, 8)", "E0605", "called `split` here"),
        ("simd(k, 8)", "E0605", "called `vectorize` here"),
        ("cache_read(x)", "E0605", "called `stage` here"),
        ("vectorise(k, 8)", "E0605", "did you mean `vectorize`?"),
        ("vectorize(k, 16)", "E0623", "`split(k, 16) ; factor(s, k.i)`"),
        ("split(k, 64) ; parallel(k.o)", "E0623", "`privatize(s, k.o)`"),
    ] {
        f.write("dot.lathe", format!("{dot}strategy fast for dot = {steps}\n"));
        let d = f.fails("check dot.lathe", 1, code);
        assert!(d.stderr.contains(says), "{steps}: {}", d.stderr);
        // Notes are separate from the help.
        assert!(!d.stderr.contains(": note"), "{}", d.stderr);
    }
    // One mistake, one message.
    f.write("half.lathe", "kernel h(A: f32[N]) -> (B: f32[N]) {\n    B[i] =\n}\n");
    f.fails("check half.lathe", 1, "E0105");
    // Relations of steps that make storage are told, too.
    let d = f.ok(&format!("explain {}/blur.lathe --strategy fast", examples()));
    assert!(!d.stdout.contains("ByRule") && d.stdout.contains("H recomputation: { H["), "{}", d.stdout);
}

#[test]
fn tests_are_run_in_machine_code() {
    let f = Folder::new();
    // Only the code of the strategy adds in another order.
    let text = "kernel s(x: f32[N]) -> (s: f32) { s = sum[k](x[k]) }\n\
                strategy fast for s = split(k, 16) ; factor(s, k.i) ; vectorize(k.i, 16)\n\
                test \"sum\" for s { N = 1000\n x = random(1)\n expect { s = 0\n for k in 0..N { s = s + x[k] } } }";
    f.write("s.lathe", text);
    let d = f.fails("check s.lathe", 1, "E0909");
    assert!(d.stderr.contains("`fast`"), "{}", d.stderr);
    f.write("s.lathe", text.replace("} } }", "} } within 1e-4 }"));
    f.ok("check s.lathe");
}

#[test]
fn every_step_is_explained() {
    let f = Folder::new();
    f.write("f.lathe", DOUBLE);
    let d = f.ok("explain f.lathe --strategy fast");
    assert!(d.stdout.contains("tile(") && d.stdout.contains("by-rule:"), "{}", d.stdout);
    let d = f.ok("explain f.lathe --strategy fast --diff");
    assert!(d.stdout.contains("       + ") && d.stdout.contains("       - "), "{}", d.stdout);
    let v: Value =
        serde_json::from_str(&f.ok("explain f.lathe --strategy fast --json").stdout).expect("JSON");
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
        let d = f.ok(&format!("emit f.lathe --strategy fast --to {form}"));
        assert!(d.stdout.contains(has) && d.stderr.is_empty(), "{form}: {}{}", d.stdout, d.stderr);
        f.ok(&format!("emit f.lathe --strategy fast --to {form} -o out.{form}"));
        assert_eq!(f.read(&format!("out.{form}")), d.stdout, "{form}");
    }
    f.ok("emit f.lathe --strategy fast --to object -o f.o");
    assert!(std::fs::read(f.path("f.o")).expect("an object").len() > 100);
    assert!(f.read("f.h").contains("LATHE_ABI") && f.path("out.h").exists());
    assert!(f.ok("emit f.lathe --strategy fast --to tree --specialize -D N=40").stdout.contains("f32[40]"));
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

#[test]
fn comments_before_kernels_and_funs_are_kept_and_explained() {
    let f = Folder::new();
    let text = "# Every number twice.\n# In order.\nfun f(x:f32[N])->f32[N] = x |> map(|v| v+v)\n\n# Nothing.\nkernel g(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] }\n";
    f.write("f.lathe", text);
    f.ok("fmt f.lathe");
    let laid_out = f.read("f.lathe");
    assert!(laid_out.starts_with(
        "# Every number twice.\n# In order.\nfun f(x: f32[N]) -> f32[N] = x |> map(|v| v + v)\n"
    ));
    let d = f.ok("explain f.lathe:f");
    assert!(d.stdout.starts_with("# Every number twice.\n# In order.\nnaive:\n"), "{}", d.stdout);
    assert!(f.ok("explain f.lathe:g").stdout.starts_with("# Nothing.\n"));
    let v: Value = serde_json::from_str(&f.ok("explain f.lathe:f --json").stdout).expect("JSON");
    assert_eq!(v["doc"], "Every number twice.\nIn order.");
}

/// Trees are laid out as they are printed, with their comments; a file with errors is left alone.
#[test]
fn trees_are_formatted() {
    let f = Folder::new();
    let text = "# Twice.\nfunc k(N)( x:in f32[N],y : out f32[N] ) { # each\n for i in 0..N{'y'[i]:y[i]=x[i]+x[i] }\n# done\n}";
    f.write("k.tree", text);
    let d = f.lathe("fmt --check k.tree");
    assert_eq!((d.status, &*d.stdout), (1, "k.tree\n"), "{}", d.stderr);
    assert_eq!(f.read("k.tree"), text);
    f.ok("fmt k.tree");
    let want = "# Twice.\nfunc k(N)(x: in f32[N], y: out f32[N]) {  # each\n  for i in 0..N {\n    'y'[i]: y[i] = x[i] + x[i]\n  }\n  # done\n}\n";
    assert_eq!(f.read("k.tree"), want);
    f.ok("fmt --check k.tree");
    f.ok("run k.tree -D N=4 --check");
    f.write("bad.tree", "func k(N)(x: in f32[N]) { for }");
    f.fails("fmt bad.tree", 1, "E03");
    assert_eq!(f.read("bad.tree"), "func k(N)(x: in f32[N]) { for }");
}

/// What `lathe emit` wrote, and what nobody but the interpreter runs.
#[test]
fn trees_are_targets() {
    let f = Folder::new();
    f.write("f.lathe", DOUBLE);
    f.ok("emit f.lathe --to tree --strategy naive -o f.tree");
    f.ok("check f.tree");
    for engine in ["interpreter", "c"] {
        let run = f.ok(&format!("run f.tree -D N=5 --engine {engine} --check"));
        assert!(run.stderr.contains("verified"), "{}", run.stderr);
    }
    assert!(f.ok("explain f.tree").stdout.contains("open()"));
    assert!(f.ok("emit f.tree --to c").stdout.contains("int32_t f("));
    f.ok("bench f.tree -D N=5 --engine interpreter --runs 3 -s naive");
    assert!(f.ok("opt f.lathe --step split(i,8)").stdout.contains("i.o"));
    assert!(f.ok("opt f.tree:f").stdout.contains("func f"));
    // Threads that wait for one another, a helper that is not a target, and a global.
    f.write(
        "d.tree",
        "global count: i32[] = zero
        func bump()(n: in i32) stage machine { 'c': global(count)[] = global(count)[] + n }
        # Each thread adds its neighbour's value.
        func k(N)(x: in i32[N], y: out i32[N]) stage machine {
          call bump(1:i32)
          alloc s: i32[N]
          for t in 0..N team {
            's'[t]: s[t] = x[t]
            barrier t
            'y'[t]: y[t] = s[t] + s[(t + 1) % N]
          }
        }
        ",
    );
    let run = f.ok("run d.tree -D N=6 --engine interpreter");
    assert!(run.stderr.contains("engine interpreter"), "{}", run.stderr);
    assert!(f.ok("explain d.tree").stdout.contains("neighbour"));
    f.ok("check d.tree");
    f.fails("run d.tree -D N=6 --engine c", 1, "E0");
    f.fails("run d.tree:bump --engine interpreter", 1, "E0902");
    // What is not in bounds runs where every access is looked at.
    f.write(
        "g.tree",
        "func g(N)(x: in i32[N], y: out i32[N]) { for i in 0..N { 'y'[i]: y[i] = x[i + 1] } }\n",
    );
    f.fails("run g.tree -D N=4 --engine c", 1, "E05");
    f.fails("run g.tree -D N=4 --engine interpreter", 1, "E0401");
    f.fails("emit g.tree --to c", 1, "E05");
    f.write("bad.tree", "func f(");
    f.fails("run bad.tree", 1, "E03");
}
