//! Homomorphisms on the command line: `auto`, `mdh(…)`, models, `.mdh` files, pictures.

use crate::common::{Folder, examples};
use lathe::{Array, npy};
use serde_json::Value;

const MATMUL: &str = "kernel matmul(A: f32[I, K], B: f32[K, J]) -> (C: f32[I, J]) {\n    C[i, j] = sum[k](A[i, k] * B[k, j])\n}\n";

const SIZES: &str = "-D I=24 -D J=40 -D K=16";

#[test]
fn a_kernel_without_a_strategy_gets_one_and_says_so() {
    let f = Folder::new();
    f.write("m.lathe", MATMUL);
    let d = f.ok(&format!("run m.lathe {SIZES} --check --json"));
    let v: Value = serde_json::from_str(&d.stdout).expect("JSON");
    assert_eq!(
        (&v["strategy"], &v["strategy_source"], &v["check"]["ok"]),
        (&"auto".into(), &"auto".into(), &true.into())
    );
    let d = f.ok(&format!("explain m.lathe {SIZES}"));
    for text in [
        "auto when I == 24",
        "sizes baked in: I = 24, J = 40, K = 16",
        "mdh(of: C, model: cpu",
        "which are, after",
        "auto otherwise",
    ] {
        assert!(d.stdout.contains(text), "{text}\n{}", d.stdout);
    }
    let v: Value =
        serde_json::from_str(&f.ok(&format!("explain m.lathe {SIZES} --json")).stdout).expect("JSON");
    let taken = &v["versions"][0]["decisions"];
    let chosen = &taken["computes"][0];
    assert!(taken["seconds"].as_f64().is_some() && chosen["compute"] == "C", "{taken}");
    // The step that it prints says the same.
    let step = chosen["step"].as_str().expect("a step");
    f.write("said.lathe", format!("{MATMUL}strategy said for matmul = {step}\n"));
    f.ok("fmt said.lathe");
    let again = f.ok(&format!("explain said.lathe -s said {SIZES} --json"));
    let v: Value = serde_json::from_str(&again.stdout).expect("JSON");
    let said = &v["versions"][0]["decisions"];
    assert_eq!((&said["strategy"], &said["computes"][0]["fixed"]), (&taken["strategy"], &chosen["entries"]));
    // Code for all sizes: the version for these and the loops as written.
    assert!(f.ok(&format!("emit m.lathe -s auto {SIZES} --to tree")).stdout.contains("if I == 24"));
    let d = f.ok("run m.lathe -s naive -D I=3 -D J=4 -D K=5 --check");
    assert!(!d.stderr.contains("note:"), "{}", d.stderr);
}

#[test]
fn what_cannot_be_decided_is_said() {
    let f = Folder::new();
    f.write("g.lathe", "kernel g(x: f32[N], at: i32[N]) -> (y: f32[N]) { y[i] = x[at[i]] }\n");
    let d = f.ok("run g.lathe -D N=30 --check");
    assert!(d.stderr.contains("note: auto") && d.stderr.contains("E1205"), "{}", d.stderr);
    f.write("m.lathe", MATMUL);
    let d = f.ok("explain m.lathe -s auto");
    assert!(d.stderr.contains("decisions are for any sizes, as for I = 1024"), "{}", d.stderr);
    f.write("wrong.lathe", format!("{MATMUL}strategy s for matmul = mdh(parts.i.COR: 2, parts.x.COR: 2)\n"));
    let d = f.fails(&format!("run wrong.lathe -s s {SIZES}"), 1, "E1204");
    assert!(d.stderr.contains("parts.x.COR: 2") && d.stderr.contains("i, j, k"), "{}", d.stderr);
    f.fails("check wrong.lathe", 1, "E1204");
}

#[test]
fn models_come_by_name_and_from_files() {
    let f = Folder::new();
    f.write("m.lathe", MATMUL);
    let explained = f.ok(&format!("explain m.lathe -s auto --model openmp {SIZES}"));
    assert!(explained.stdout.contains("model: openmp"), "{}", explained.stdout);
    f.write(
        "own.json",
        r#"{ "name": "own", "memories": [{ "layer": "BIG" }, { "layer": "NEAR", "implicit": true }], "cores": [{ "layer": "HANDS", "executor": "cpu" }] }"#,
    );
    f.write(
        "s.lathe",
        format!("{MATMUL}strategy s for matmul = mdh(model: \"own.json\", parts.i.HANDS: 2)\n"),
    );
    let d = f.ok(&format!("explain s.lathe -s s {SIZES}"));
    assert!(d.stdout.contains("HANDS.x") && d.stdout.contains("1 of "), "{}", d.stdout);
    f.ok(&format!("run s.lathe -s s {SIZES} --check"));
    f.fails(&format!("explain s.lathe -s auto --model nowhere.json {SIZES}"), 1, "E1202");
    let broken = f.write("broken.json", "{ \"name\": 3 }");
    f.fails(&format!("run m.lathe -s s --model {broken} {SIZES}"), 1, "E0903");
}

#[test]
fn a_user_adds_a_machine_by_a_file() {
    let f = Folder::new();
    f.write("m.lathe", MATMUL);
    let file = format!("{}/machines/cellar.toml", examples());
    // Strategies ask for its facts, code is made for its processor.
    f.write(
        "facts.lathe",
        format!(
            "{MATMUL}strategy s for matmul = if turbo then split(k, 4) else split(i, l2_bytes / 65536)\n"
        ),
    );
    let d = f.ok(&format!("explain facts.lathe -s s --cpu {file}"));
    assert!(d.stdout.contains("split(i, 32)"), "{}", d.stdout);
    f.fails("explain facts.lathe -s s --cpu x86-64-v3", 1, "E0607");
    let asm = f.ok(&format!("emit m.lathe -s auto {SIZES} --to asm --cpu {file}")).stdout;
    assert!(asm.contains("ymm") && !asm.contains("zmm"), "{asm}");
    // Its levels are those of decisions that name no others.
    let pads = format!("{}/machines/scratchpads.toml", examples());
    let d = f.ok(&format!("explain m.lathe -s auto --model {pads} {SIZES}"));
    assert!(d.stdout.contains("on scratchpads") && d.stdout.contains("LANE"), "{}", d.stdout);
    f.ok(&format!("run m.lathe -s auto --model {pads} {SIZES} --check"));
}

#[test]
fn machine_files_that_are_wrong_are_refused() {
    let f = Folder::new();
    f.write("m.lathe", MATMUL);
    for (name, text, code) in [
        ("newer.toml", "format = 2\nname = \"m\"\nbase = \"cpu\"", "E1201"),
        ("unversioned.toml", "name = \"m\"\nbase = \"cpu\"", "E1201"),
        ("garbage.toml", "\u{0}\u{1}[[[", "E1201"),
        ("fact.toml", "format = 1\nname = \"m\"\nbase = \"cpu\"\n[facts]\nl4_bytes = 1", "E1202"),
        // Levels without a processor, as older versions wrote them: there is nothing to make code for.
        (
            "levels.json",
            r#"{ "name": "m", "memories": [{ "layer": "M" }], "cores": [{ "layer": "C", "executor": "cpu" }] }"#,
            "E0703",
        ),
        // Compilers end the process on some names that they do not know.
        (
            "processor.toml",
            "format = 1\nname = \"m\"\nbase = \"cpu\"\n[code]\narch = \"x86_64\"\ntriple = \"x86_64-unknown-linux-gnu\"\ncpu = \"help\"",
            "E0703",
        ),
        (
            "features.toml",
            "format = 1\nname = \"m\"\nbase = \"cpu\"\n[code]\narch = \"x86_64\"\ntriple = \"x86_64-unknown-linux-gnu\"\ncpu = \"x86-64\"\nfeatures = \"+help\"",
            "E0703",
        ),
    ] {
        f.write(name, text);
        f.fails(&format!("emit m.lathe -s naive --to asm --cpu {name}"), 1, code);
    }
    f.fails("emit m.lathe -s naive --to asm --cpu nowhere.toml", 1, "E0703");
    f.fails("emit m.lathe -s naive --to asm --cpu h200", 1, "E0703");
}

#[test]
fn files_in_the_notation_of_the_thesis_are_taken_by_every_command() {
    let f = Folder::new();
    let file = format!("{}/mdh/linear_algebra.mdh", examples());
    f.ok(&format!("check {file}"));
    let d = f.ok(&format!("run {file}:matmul {SIZES} --check"));
    assert!(d.stderr.contains("strategy auto") && d.stderr.contains("verified"), "{}", d.stderr);
    assert!(f.ok(&format!("explain {file}:matvec -D I=8 -D K=9")).stdout.contains("decisions for w"));
    assert!(f.ok(&format!("emit {file}:dot --to c")).stdout.contains("int32_t dot"));
    f.ok(&format!("bench {file}:dot -D K=1000 --runs 2"));
    f.ok(&format!("tune {file}:dot -D K=512 --until evaluations(3) --technique random"));
    f.write(
        "wrong.mdh",
        "f<N in IN> := out_view<f32>( O:(i)->(i) ) o md_hom<N>( id, (++,+) ) o inp_view<f32>( I:(i)->(i) )",
    );
    assert!(f.fails("run wrong.mdh -D N=3", 1, "E1221").stderr.contains("wrong.mdh:1"));
}

#[test]
fn decisions_are_drawn() {
    let f = Folder::new();
    f.write("m.lathe", MATMUL);
    f.ok(&format!("explain m.lathe -s auto {SIZES} --picture m.svg"));
    let svg = f.read("m.svg");
    assert!(svg.starts_with("<svg") && svg.contains("C on cpu") && svg.contains("data-runs=\"cores\""));
    // For devices, too, whose code generation is not implemented yet.
    f.write(
        "d.lathe",
        format!(
            "{MATMUL}strategy s for matmul = mdh(model: cuda, tiles: full, parts.i.SMX: 4, parts.j.CC: 8)\n"
        ),
    );
    f.lathe(&format!("explain d.lathe -s s {SIZES} --picture d.svg"));
    assert!(f.read("d.svg").contains("SMX.x"));
    f.fails(&format!("explain m.lathe -s naive --specialize {SIZES} --picture n.svg"), 1, "E0914");
}

/// Trees for devices are made, explained and emitted as text, and run on CPUs, too.
#[test]
fn decisions_for_devices_become_trees_that_all_engines_run() {
    let f = Folder::new();
    f.write(
        "d.lathe",
        format!(
            "{MATMUL}strategy s for matmul = mdh(model: cuda, tiles: partial, parts.i.SMX: 4, parts.j.CC: 8, S3.A: \"SM\")\n"
        ),
    );
    let tree = f.ok(&format!("emit d.lathe -s s {SIZES} --to tree")).stdout;
    assert!(
        tree.contains("level(grid)") && tree.contains("level(block)") && tree.contains("shared"),
        "{tree}"
    );
    for engine in ["llvm", "c"] {
        let d = f.ok(&format!("run d.lathe -s s {SIZES} --engine {engine} --check --json"));
        assert!(d.stdout.contains("\"ok\": true"), "{}", d.stdout);
    }
    let d = f.ok(&format!("run d.lathe -s s {SIZES} --engine interpreter --check --json"));
    assert!(
        d.stdout.contains("\"engine\": \"interpreter\"") && d.stdout.contains("\"ok\": true"),
        "{}",
        d.stdout
    );
}

/// Code that is kept is called with other sizes, too: these get decisions for any sizes.
#[test]
fn emitted_code_has_decisions_for_other_sizes() {
    let f = Folder::new();
    f.write("m.lathe", MATMUL);
    let tree = f.ok(&format!("emit m.lathe -s auto {SIZES} --to tree")).stdout;
    assert!(tree.matches("call matmul_").count() >= 2 && tree.matches("vector(").count() >= 2, "{tree}");
    let other = tree.split("\nfunc ").last().unwrap_or_default();
    assert!(other.contains("vector(") || other.contains(".r"), "{tree}");
    f.ok(&format!("emit m.lathe -s auto {SIZES} --to object -o m.o"));
    f.ok("emit m.lathe --to c");
}

/// What is wrong with homomorphisms and decisions is refused by rule and place, never run.
#[test]
fn wrong_homomorphisms_and_decisions_are_refused() {
    let f = Folder::new();
    let sum = "kernel k(x: f32[N]) -> (y: f32) { y = sum[i](x[i]) }\n";
    let minus = "op minus(a: f32, b: f32) -> f32 associative = a - b\n";
    for (kernel, step, code, word) in [
        // An operator that is not what it is declared to be, with the values that show it.
        (
            format!("{minus}kernel k(x: f32[N]) -> (y: f32) {{ y = minus[i](x[i]) }}\n"),
            "parts.i.COR: 2",
            "E1208",
            "minus",
        ),
        // Sparse and ragged.
        (
            "kernel k(x: f32[N], at: i32[N]) -> (y: f32[N]) { y[i] = x[at[i]] }\n".to_string(),
            "parts.i.COR: 2",
            "E1205",
            "`x`",
        ),
        (
            "kernel k(x: f32[N]) -> (y: f32[N]) { y[i] = sum[j in 0..i](x[j]) }\n".to_string(),
            "parts.i.COR: 2",
            "E1206",
            "ragged",
        ),
        (sum.to_string(), "parts.i.COR: 0", "E12", "COR"),
        (sum.to_string(), "tiles: full, parts.i.COR: 7", "E1211", "its extent 64"),
        (sum.to_string(), "parts.i.ELSEWHERE: 2", "E12", "ELSEWHERE"),
        (sum.to_string(), "D3.x: \"[MM] [MM] [MM] [MM] [MM] [MM] [CLOUD]\"", "E12", "CLOUD"),
        (sum.to_string(), "D4.x: \"[<2>] [<2>] [<2>] [<2>] [<2>] [<2>] [<2>]\"", "E12", "not a permutation"),
        (sum.to_string(), "D4.z: \"[<1>] [<1>] [<1>] [<1>] [<1>] [<1>] [<1>]\"", "E12", "z"),
        (sum.to_string(), "D1: \"[1] [1] [2] [3] [4] [5] [6]\"", "E1212", "rank"),
        (
            sum.to_string(),
            "model: cuda, D3.x: \"RM\", S3.x: \"RM\", parts.i.DEV: 1, parts.i.REG: 4096",
            "E12",
            "RM",
        ),
        (sum.to_string(), "model: cuda, tiles: partial, parts.i.CC: 2000", "E12", "1024"),
    ] {
        f.write("k.lathe", format!("{kernel}strategy s for k = mdh({step})\n"));
        for command in ["run", "explain"] {
            let d = f.fails(&format!("{command} k.lathe -s s -D N=64"), 1, code);
            assert!(d.stderr.contains(word), "mdh({step}): {}", d.stderr);
        }
    }
    for (views, operators, word) in [
        ("O:(i,j)->(i) ) o md_hom<N,M>( id, (++,++) ) o inp_view<f32>( I:(i,j)->(i,j)", "", "same element"),
        ("O:(i,j)->() ) o md_hom<N,M>( id, (+,max) ) o inp_view<f32>( I:(i,j)->(i,j)", "", "do not commute"),
        ("O:(i,j)->(i,j) ) o md_hom<N,M>( id, (++,+) ) o inp_view<f32>( I:(i,j)->(i,j)", "", "reduced"),
        ("O:(i,j)->(i,j) ) o md_hom<N,M>( id, (++,++) ) o inp_view<f32>( I:(i,j)->(i-1,j)", "", "below 0"),
    ] {
        f.write("w.mdh", format!("{operators}f<N,M in IN> := out_view<f32>( {views} )"));
        let d = f.lathe("run w.mdh -D N=4 -D M=5");
        assert_eq!(d.status, 1, "{views}: {}", d.stderr);
        assert!(d.stderr.starts_with("E") && d.stderr.contains(word), "{views}: {}", d.stderr);
        assert!(!d.stderr.contains("panicked") && d.stdout.is_empty(), "{views}: {}", d.stderr);
    }
}

#[test]
fn tuning_searches_what_is_free_from_what_was_chosen() {
    let f = Folder::new();
    f.write("m.lathe", format!("{MATMUL}strategy rows for matmul = mdh(parts.i.COR: 2)\n"));
    let d = f.ok(&format!("tune m.lathe -s rows {SIZES} --until evaluations(4) --json"));
    let v: Value = serde_json::from_str(&d.stdout).expect("JSON");
    assert_eq!(v["strategy"], "rows");
    let params = v["params"].as_object().expect("parameters");
    assert!(params.keys().any(|k| k.starts_with("parts.")), "{params:?}");
    let d = f.ok(&format!("run m.lathe {SIZES} --check --json"));
    let v: Value = serde_json::from_str(&d.stdout).expect("JSON");
    assert_eq!((&v["strategy"], &v["strategy_source"]), (&"rows".into(), &"stored".into()));
}

#[test]
fn index_functions_use_sizes_and_results_are_several() {
    let f = Folder::new();
    let one = |out: &str, inp: &str| {
        format!(
            "k<T in TYPE | N in IN> :=\n  out_view<T>( O:{out} ) o md_hom<N>( id, (++) ) o inp_view<T>( I:{inp} )\n"
        )
    };
    let of = "(i)->(i)";
    let data: Vec<f32> = (0..12u8).map(f32::from).collect();
    npy::write(&f.path("six.npy"), &Array::from_slice(&[6], &data[..6]).expect("an array")).expect("a file");
    npy::write(&f.path("twelve.npy"), &Array::from_slice(&[12], &data).expect("an array")).expect("a file");
    for (text, input, want) in [
        (one(of, "(i)->(N-1-i)"), "six", [5f32, 4.0, 3.0, 2.0, 1.0, 0.0]),
        (one("(i)->(N-1-i)", of), "six", [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]),
        (one(of, "(i)->(i+N)"), "twelve", [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]),
    ] {
        f.write("k.mdh", text);
        for strategy in ["naive", "auto"] {
            f.ok(&format!("run k.mdh -s {strategy} -i I={input}.npy -o O=o.npy --check"));
            let got = npy::read(&f.path("o.npy")).expect("the result");
            let got: Vec<f32> = (0..6i64).map(|k| got.get(&[k]).expect("an element")).collect();
            assert_eq!(got, want, "{strategy}");
        }
    }
    for (out, from) in
        [("(i)->(2*i)", of), ("(i)->(i,i)", of), ("(i)->(i+1)", of), ("(i)->(i+N)", "(i)->(N-1-i)")]
    {
        f.write("k.mdh", one(out, from));
        for n in [0, 1, 2, 7] {
            for strategy in ["naive", "auto"] {
                f.ok(&format!("run k.mdh -s {strategy} -D N={n} --check"));
            }
        }
    }
    for inp in ["(i)->(i-N)", "(i)->(i-1)", "(i)->(N-2-i)"] {
        f.write("k.mdh", one(of, inp));
        f.fails("run k.mdh -D N=4", 1, "E1210");
    }
    f.write(
        "k.mdh",
        "k<T in TYPE | N,M in IN> :=\n  out_view<T,T>( A:(i,j)->(i), B:(i,j)->(i) )\n  \
         o md_hom<N,M>( (x)->(x, x*x), (++,+) ) o inp_view<T>( I:(i,j)->(i,j) )\n",
    );
    for strategy in ["naive", "auto"] {
        f.ok(&format!("run k.mdh -s {strategy} -D N=5 -D M=37 --check"));
    }
}
