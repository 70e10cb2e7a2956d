//! `lathe tune` on kernels, and its store.

use crate::common::{Folder, examples, form, parsed, script};
use serde_json::{Value, json};

/// A kernel with strategies to search.
pub const KERNEL: &str = "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }
strategy s(t = 8 in 8..=32 step 8, u = 4 in 4..=8 step 4 where divides(u, t)) for f = split(i, t) ; split(i.i, u)
strategy other(t = 16 in 8..=16 step 8) for f = split(i, t)
strategy fast for f = if N <= 10 then other else s
";

/// Whether a run took its strategy from the store, was told it, or chose it.
pub fn source(f: &Folder, sizes: &str) -> &'static str {
    let v = parsed(&f.ok(&format!("run f.lathe {sizes} --json")));
    match v["strategy_source"].as_str().expect("a source") {
        "stored" => "stored",
        "requested" => "requested",
        "fast" | "auto" | "naive" => "chosen",
        other => panic!("nobody asked for `{other}`"),
    }
}

#[test]
fn a_tuned_kernel_runs_with_its_winner_and_nothing_else_does() {
    let f = Folder::new();
    f.write("f.lathe", KERNEL);
    assert_eq!(source(&f, "-D N=100 --threads 1"), "chosen");
    let v = parsed(&f.ok("tune f.lathe -D N=100 --threads 1 --budget 20s --json --plot p.svg"));
    // All six pairs of which one divides the other are measured; `fast` takes `s` for this size.
    assert_eq!((&v["strategy"], &v["evaluations"], &v["valid"]), (&json!("s"), &json!(8), &json!(8)), "{v}");
    assert_eq!((&v["stopped"], &v["check"]["ok"]), (&json!("exhausted"), &json!(true)), "{v}");
    assert!(v["default_s"].as_f64().is_some() && v["median_s"].as_f64().is_some_and(|s| s > 0.0), "{v}");
    let plot = f.read("p.svg");
    assert!(plot.contains("8 configurations") && plot.contains("0 invalid"), "{plot}");
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
        assert_eq!(source(&f, other), "chosen", "{other}");
    }
    assert_eq!(source(&f, "-D N=100 --threads 1 --strategy fast"), "requested");
    // A comment changes nothing, another strategy or kernel does.
    f.write("f.lathe", format!("# a comment\n{KERNEL}"));
    assert_eq!(source(&f, "-D N=100 --threads 1"), "stored");
    f.write("f.lathe", KERNEL.replace("split(i.i, u)", "split(i.o, u)"));
    assert_eq!(source(&f, "-D N=100 --threads 1"), "chosen");
    f.write("f.lathe", KERNEL.replace("2 * A", "3 * A"));
    assert_eq!(source(&f, "-D N=100 --threads 1"), "chosen");
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
    assert_eq!(source(&f, "-D N=64 --threads 1"), "chosen");
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
    // Blocks must divide the sizes of a pattern: what only the call would notice is seen beforehand, too.
    let sizes = "--strategy blocking -D M=96 -D N=32 -D K=8 --threads 1";
    let v = parsed(&f.ok(&format!("tune {}/patterns/matmul.lathe:mm {sizes} --json", examples())));
    assert_eq!((&v["evaluations"], &v["valid"]), (&json!(24), &json!(9)), "{v}");
    assert_eq!(v["invalid"]["refused"]["count"], json!(15), "{v}");
    assert_eq!(v["invalid"].as_object().map(|m| m.len()), Some(1), "{v}");
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
    assert_eq!(source(&f, kernel), "chosen");
    assert_eq!(source(&f, &format!("{kernel} --input A=b.npy")), "stored");
    assert_eq!(source(&f, &format!("{kernel} --input A=c.npy")), "chosen");
    let v = parsed(&f.ok(&format!("tune f.lathe {kernel} {tuned}")));
    assert_eq!((&v["known"], &v["began_with"]), (&json!(0), &json!([["data"]])), "{v}");
    assert_eq!(source(&f, &format!("{kernel} --input A=c.npy")), "stored");
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
    assert_eq!(source(&f, "-D M=24 -D N=24 --threads 1"), "chosen");
    // The terms of the fun, and the strategies of its file, are part of what was tuned.
    f.write("f.lathe", FUN.replace("c * v", "v * c"));
    assert_eq!(source(&f, sizes), "chosen");
    f.write("f.lathe", FUN.replace("isInnermost ; isSerial", "isSerial ; isInnermost"));
    assert_eq!(source(&f, sizes), "chosen");
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
