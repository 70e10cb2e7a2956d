//! `lathe run` and `lathe bench`: arrays in and out, and what is reported.

use crate::common::{Folder, examples, load, parsed, save};
use lathe::{Array, npy};
use serde_json::Value;

const SMALL: &str = "-D M=5 -D N=7 -D K=3";

fn gemm() -> String {
    format!("{}/gemm.lathe:gemm", examples())
}

#[test]
fn arrays_come_from_files_and_go_to_files() {
    let f = Folder::new();
    save(&f, "a.npy", &[2, 3], &[1., 2., 3., 4., 5., 6.]);
    save(&f, "b.npy", &[3, 2], &[7., 8., 9., 10., 11., 12.]);
    for strategy in ["naive", "fast"] {
        let line = format!(
            "run {} -i A=a.npy -i B=b.npy -o C=c.npy --strategy {strategy} --check --threads 2",
            gemm()
        );
        let d = f.ok(&line);
        assert_eq!(load(&f, "c.npy"), [58., 64., 139., 154.]);
        assert_eq!(npy::read(&f.path("c.npy")).expect("an array").shape(), [2, 2]);
        assert!(d.stdout.is_empty() && d.stderr.contains("verified against the interpreter"), "{}", d.stderr);
        assert!(!d.stderr.contains("random"), "{}", d.stderr);
    }
}

#[test]
fn fortran_order_and_big_endian_files_are_read() {
    let f = Folder::new();
    let header = |order: &str, fortran: &str| {
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        let text = format!("{{'descr': '{order}f4', 'fortran_order': {fortran}, 'shape': (2, 3), }}\n");
        out.extend((text.len() as u16).to_le_bytes());
        out.extend(text.bytes());
        out
    };
    let mut big = header(">", "False");
    [1f32, 2., 3., 4., 5., 6.].iter().for_each(|v| big.extend(v.to_be_bytes()));
    f.write("big.npy", big);
    let mut fortran = header("<", "True");
    [1f32, 4., 2., 5., 3., 6.].iter().for_each(|v| fortran.extend(v.to_le_bytes()));
    f.write("fortran.npy", fortran);
    save(&f, "b.npy", &[3, 2], &[7., 8., 9., 10., 11., 12.]);
    for file in ["big.npy", "fortran.npy"] {
        f.ok(&format!("run {} -i A={file} -i B=b.npy -o C=c.npy", gemm()));
        assert_eq!(load(&f, "c.npy"), [58., 64., 139., 154.], "{file}");
    }
}

#[test]
fn the_report_has_every_field_and_nothing_else_is_printed() {
    let f = Folder::new();
    let d =
        f.ok(&format!("run {} {SMALL} --check --json --threads 1 --strategy packed --param nc=512", gemm()));
    let v: Value = serde_json::from_str(&d.stdout).expect("one JSON object");
    for field in ["compile_s", "median_s", "min_s", "max_s", "gflops", "gbytes_per_s"] {
        assert!(v[field].as_f64().is_some_and(|x| x > 0.0), "{field}: {}", v[field]);
    }
    assert_eq!(v["kernel"], "gemm");
    assert_eq!((&v["strategy"], &v["strategy_source"]), (&"packed".into(), &"requested".into()));
    assert_eq!(v["params"]["nc"], 512);
    assert_eq!((&v["sizes"]["M"], &v["sizes"]["N"], &v["sizes"]["K"]), (&5.into(), &7.into(), &3.into()));
    assert_eq!((&v["threads"], &v["engine"], &v["runs"]), (&1.into(), &"llvm".into(), &1.into()));
    assert_eq!((&v["check"]["against"], &v["check"]["ok"]), (&"interpreter".into(), &true.into()));
    assert!(v["check"]["max_abs_error"].is_number() && v["check"]["max_rel_error"].is_number());
    for count in ["by_dependence", "by_rule", "tested", "by_check", "by_declaration", "trusted"] {
        assert!(v["evidence"][count].is_u64(), "{count}");
    }
    assert!(v["evidence"]["by_dependence"].as_u64() > Some(0));
    let fast = f.ok(&format!("run {} {SMALL} --json", gemm())).stdout;
    let v: Value = serde_json::from_str(&fast).expect("one JSON object");
    assert_eq!((&v["strategy_source"], &v["check"]), (&v["strategy"], &Value::Null));
    // The reason names all that it was chosen from.
    for name in ["fast", "auto", "naive"] {
        assert!(v["strategy_reason"].as_str().is_some_and(|r| r.contains(name)), "{v}");
    }
}

#[test]
fn empty_extents_run() {
    let f = Folder::new();
    for sizes in ["-D M=0 -D N=7 -D K=3", "-D M=5 -D N=0 -D K=3", "-D M=1 -D N=1 -D K=1"] {
        f.ok(&format!("run {} {sizes} --check", gemm()));
    }
    f.ok(&format!("run {} -D M=5 -D N=7 -D K=0 --check -o C=c.npy", gemm()));
    assert_eq!(load(&f, "c.npy"), [0.0; 35]);
}

#[test]
fn specialized_code_and_the_c_engine_give_the_same() {
    let f = Folder::new();
    for (how, out) in [("", "a.npy"), ("--specialize", "b.npy"), ("--engine c", "c.npy")] {
        if how.contains("--engine c") && std::process::Command::new("cc").arg("--version").output().is_err() {
            continue;
        }
        f.ok(&format!("run {} {SMALL} --strategy naive --check --seed 4 {how} -o C={out}", gemm()));
        assert_eq!(load(&f, out), load(&f, "a.npy"), "{how}");
    }
}

/// Sizes that are baked in decide the conditions of a strategy, so that one version is left.
#[test]
fn specialization_chooses_the_version() {
    let f = Folder::new();
    let text = "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\n\
                strategy fast for f = if N <= 10 then id else split(i, 8)";
    f.write("f.lathe", text);
    for n in [3, 10, 11, 64] {
        f.ok(&format!("run f.lathe -D N={n} --check"));
        f.ok(&format!("run f.lathe -D N={n} --check --specialize"));
        let tree = f.ok(&format!("emit f.lathe --to tree --strategy fast --specialize -D N={n}")).stdout;
        assert_eq!((tree.matches("func f").count(), tree.contains("i.o")), (1, n > 10), "{tree}");
        assert!(!f.ok(&format!("emit f.lathe --to c --specialize -D N={n}")).stdout.is_empty());
    }
}

#[test]
fn more_threads_than_processors_are_told() {
    let f = Folder::new();
    let most = std::thread::available_parallelism().expect("is known").get();
    for (threads, told) in [(most, false), (most + 3, true)] {
        let d = f.ok(&format!("run {} {SMALL} --threads {threads} --check", gemm()));
        assert_eq!(d.stderr.contains(&format!("{threads} threads share")), told, "{}", d.stderr);
    }
}

/// A strategy that nobody asked for and that baked sizes refuse does not run, and it is said; one that is asked for is an
/// error.
#[test]
fn a_default_that_sizes_refuse_is_replaced() {
    let f = Folder::new();
    let text = "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\n\
                strategy fast for f = split(i, 8) ; unroll(i.i)";
    f.write("f.lathe", text);
    let run = f.ok("run f.lathe -D N=5 --specialize --check");
    assert!(run.stderr.contains("`fast` is refused for these sizes (E06"), "{}", run.stderr);
    assert!(!f.ok("run f.lathe -D N=16 --specialize --check").stderr.contains("is refused"));
    f.fails("run f.lathe -D N=5 --specialize --strategy fast", 1, "E06");
}

/// Without sizes, emitted code holds all versions and decides at each call.
#[test]
fn emitted_code_holds_all_versions() {
    let f = Folder::new();
    let text = "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\n\
                strategy fast(t = 8 where divides(2, N)) for f =\n\
                if N <= 10 then id else if ceil_div(N, 2) % 3 == 0 then vectorize(i, 8) else split(i, t)";
    f.write("f.lathe", text);
    let c = f.ok("emit f.lathe --to c --strategy fast").stdout;
    assert!(c.contains("the strategy is for sizes with divides(2, N)"), "{c}");
    for form in ["llvm", "asm", "header"] {
        assert!(!f.ok(&format!("emit f.lathe --to {form} --strategy fast")).stdout.is_empty());
    }
    f.write("f.lathe", text.replace("N <= 10", "is_power_of_two(N)"));
    f.fails("emit f.lathe --to c --strategy fast", 1, "E0912");
}

#[test]
fn strategies_are_measured_side_by_side() {
    let f = Folder::new();
    let d = f.ok(&format!("bench {} {SMALL} --runs 2 --strategy naive,fast --json --check", gemm()));
    let v: Value = serde_json::from_str(&d.stdout).expect("one JSON value");
    let names: Vec<_> = v.as_array().expect("a list").iter().map(|r| &r["strategy"]).collect();
    assert_eq!(names, ["naive", "fast"]);
    for r in v.as_array().expect("a list") {
        assert_eq!((&r["runs"], &r["check"]["ok"]), (&2.into(), &true.into()));
    }
    let d = f.ok(&format!("bench {} {SMALL} --runs 2 --strategy naive,fast", gemm()));
    assert!(d.stdout.is_empty() && d.stderr.contains("× as fast as naive"), "{}", d.stderr);
}

/// Every call of `bench` is on the same inputs, and every round is compared.
#[test]
fn every_round_is_checked_on_the_same_inputs() {
    let f = Folder::new();
    let text = "kernel grow(u: inout f32[N], c: f32) -> (s: f32) { u[i] = 1e6 * u[i] + c\n s = sum[k](u[k]) }\n\
                strategy fast for grow = split(s.k, 8) ; factor(s, s.k.i) ; vectorize(s.k.i, 8)";
    f.write("g.lathe", text);
    let v = parsed(&f.ok("bench g.lathe -D N=100 --runs 3 --strategy naive,fast --check --json"));
    for r in v.as_array().expect("a list") {
        let check = &r["check"];
        // One before anything is timed, two that warm up, three that count.
        assert_eq!((&check["calls"], &check["ok"]), (&6.into(), &true.into()), "{check}");
        assert!(check["max_abs_error"].as_f64().is_some_and(|e| e < 1e6), "{check}");
        assert_eq!((&check["elements"], &check["undecided"]), (&101.into(), &0.into()), "{check}");
    }
    assert_eq!((&v[0]["check"]["same_bits"], &v[1]["check"]["same_bits"]), (&true.into(), &false.into()));
    let d = f.ok("bench g.lathe -D N=100 --runs 1 --check");
    assert!(d.stderr.contains("verified against the interpreter, 4 calls"), "{}", d.stderr);
    // A fact that does not hold is found before anything runs.
    f.write("a.lathe", "kernel k(x: f32[N], p: index[R]) -> (y: f32[R]) { for r in 0..R { assume(p[r] >= 0 and p[r] < N)\n y[r] = x[p[r]] } }");
    npy::write(&f.path("p.npy"), &Array::from_slice(&[1], &[7i64]).expect("an array")).expect("a file");
    f.fails("bench a.lathe -D N=5 -i p=p.npy --check --runs 1", 1, "E0405");
}

/// Tolerances are for each element, and for the outputs of their own expectation.
#[test]
fn tolerances_hide_nothing() {
    let f = Folder::new();
    let kernel = "kernel k(x: f32[N]) -> (y: f32[N], z: f32[N]) { y[i] = x[i]\n z[i] = x[i] }\n";
    for (expect, fails) in [
        ("expect y = [1e30, 2] within 1e-3\n expect z = [1e30, 2]", false),
        ("expect y = [1e30, 3] within 1e-3\n expect z = [1e30, 2]", true),
        ("expect y = [1e30, 2.001] within 1e-3\n expect z = [1e30, 2]", false),
        ("expect y = [1e30, 2] within 0.5\n expect z = [1e30, 2.001]", true),
        ("expect { y[i] = x[i] * 1.0001\n z[i] = x[i] * 1.0001 } within 1e-3", false),
        ("expect y = [inf, 2] within 1e-3\n expect z = [1e30, 2]", true),
    ] {
        f.write("k.lathe", format!("{kernel}test \"t\" for k {{ N = 2\n x = [1e30, 2]\n {expect} }}"));
        match fails {
            true => f.fails("check k.lathe", 1, "E0909"),
            false => f.ok("check k.lathe"),
        };
    }
    for within in ["inf", "nan", "1.0", "1e30"] {
        f.write("k.lathe", format!("{kernel}test \"t\" for k {{ N = 2\n x = [1, 2]\n expect y = [5, 5] within {within}\n expect z = [1, 2] }}"));
        f.fails("check k.lathe", 1, "E0223");
    }
    f.write(
        "k.lathe",
        format!("{kernel}test \"t\" for k {{ N = 1\n x = [1]\n expect y = [5] within -1\n expect z = [1] }}"),
    );
    f.fails("check k.lathe", 1, "E0105");
    // Integers that floats cannot tell apart.
    let text = "kernel k(n: i64) -> (y: i64) { y = n + 1 }\ntest \"t\" for k { n = 4503599627370496\n expect { y = 4503599627370496 } }";
    f.write(
        "k.lathe",
        text.replace("{ y = 4503599627370496 }", "{ y = 4503599627370496 * 4 }")
            .replace("n + 1", "n * 4 + 1"),
    );
    f.fails("check k.lathe", 1, "E0909");
}

#[test]
fn outputs_have_the_permissions_of_new_files_and_time_is_told() {
    let f = Folder::new();
    let d = f.ok(&format!("run {} {SMALL} --strategy naive --time-passes -o C=c.npy", gemm()));
    assert!(d.stderr.contains("strategy") && d.stderr.contains(" ms"), "{}", d.stderr);
    f.write("new", "");
    let mode = |name: &str| std::fs::metadata(f.path(name)).expect("a file").permissions();
    assert_eq!(mode("c.npy"), mode("new"));
}

#[test]
fn infinity_and_nan_are_written_in_kernels_and_funs() {
    let f = Folder::new();
    for ty in ["f16", "bf16", "f32", "f64"] {
        let text = format!(
            "kernel k(x: {ty}[N]) -> (low: {ty}, y: {ty}[N]) {{
                low = min(inf, min[i](x[i]))
                y[i] = select(x[i] > -inf and x[i] < inf, -inf, nan)
            }}
            fun g(x: {ty}[N]) -> {ty}[N] = x |> scan(max, -inf) |> map(|v| select(v < inf, v, nan))
            test \"none\" for k {{ N = 0\n x = constant(nan)\n expect low = inf\n expect y[i] = nan }}
            test \"some\" for k {{ N = 2\n x = [-inf, 1]\n expect low = -inf\n expect y = [nan, -inf] }}
            test \"up\" for g {{ N = 3\n x = [1, -inf, inf]\n expect out = [1, 1, nan] }}"
        );
        f.write("f.lathe", text);
        f.ok("check f.lathe");
        for engine in ["llvm", "c", "interpreter"] {
            for name in ["k", "g"] {
                f.ok(&format!("run f.lathe:{name} -D N=5 --engine {engine} --check"));
            }
        }
    }
    f.write("f.lathe", "kernel k(x: i32[N]) -> (y: i32[N]) { y[i] = x[i] + inf }");
    f.fails("check f.lathe", 1, "E0207");
    f.write("f.lathe", "kernel k(inf: i32[N]) -> (y: i32[N]) { y[i] = inf[i] }");
    f.fails("check f.lathe", 1, "E0105");
}

#[test]
fn element_types_are_chosen_like_sizes() {
    let f = Folder::new();
    for (chosen, kernel) in [("", "gemm"), ("-D T=f64", "gemm_f64"), ("-D T=f32", "gemm")] {
        let d = f.ok(&format!("run {} {SMALL} {chosen} --json --check", gemm()));
        let v: Value = serde_json::from_str(&d.stdout).expect("one JSON object");
        assert_eq!((&v["kernel"], &v["check"]["ok"]), (&kernel.into(), &true.into()));
    }
    for wrong in ["-D T=i32", "-D S=f32"] {
        f.fails(&format!("run {} {SMALL} {wrong}", gemm()), 1, "E0902");
    }
}

/// What `auto` makes of a fun begins with another lowering than the program that results are compared with.
#[test]
fn schedules_of_funs_may_reassociate() {
    let f = Folder::new();
    f.write(
        "f.lathe",
        "fun dot(xs: f32[K], ys: f32[K]) -> f32 = zip(xs, ys) |> map(|(x, y)| x * y) |> reduce(add, 0)\n",
    );
    for k in [1, 3, 17, 200] {
        f.ok(&format!("run f.lathe:dot -s auto --check -D K={k}"));
    }
}

/// A scalar of any integer type moves a subscript.
#[test]
fn scalars_of_every_integer_type_move_subscripts() {
    let f = Folder::new();
    for ty in ["index", "i8", "i32", "i64", "u8", "u64"] {
        let at = if ty == "index" { "n + 2" } else { "index(n + 2)" };
        f.write(
            "k.lathe",
            format!(
                "kernel f(n: {ty}, y: inout f32[N]) {{ y[{at}] = 1 }}\n\
                 test \"t\" for f {{ N = 4; n = 1; y = constant(0); expect y = [0, 0, 0, 1] }}\n"
            ),
        );
        f.ok("check k.lathe");
        f.ok("run k.lathe:f -D N=4 -i n=1");
    }
}

/// Welford's combination of counts, means and squares: its counts are never negative, for the file and for steps.
#[test]
fn laws_hold_for_the_elements_that_are_combined() {
    let f = Folder::new();
    f.write(
        "w.lathe",
        "struct W { n: f64, m: f64, s: f64 }\n\
         op wf(a: W, b: W) -> W associative commutative identity(W(n: 0, m: 0, s: 0)) = select(a.n == 0, b, \
         select(b.n == 0, a, W(n: a.n + b.n, m: (a.n * a.m + b.n * b.m) / (a.n + b.n), \
         s: a.s + b.s + (b.m - a.m) * (b.m - a.m) * a.n * b.n / (a.n + b.n))))\n\
         kernel va(x: f64[N]) -> (n: f64, m: f64, s: f64) {\n  var w: W\n\
         w = wf[i](W(n: 1, m: x[i], s: 0))\n  n = w.n\n  m = w.m\n  s = w.s }\n\
         strategy f for va = split(w.i, 8) ; factor(w, i.i)\n",
    );
    f.ok("run w.lathe:va -s f -D N=37 --check");
}

/// Conditions between elements of other widths than what they choose, which GCC 12 makes wrong masks for.
#[test]
fn code_of_c_compilers_keeps_the_meaning_of_conditions() {
    let f = Folder::new();
    f.write(
        "k.lathe",
        "kernel f(x: i16[N], y: u32[N], z: u32[N]) -> (a: u64[N], b: f16[N], c: i16[N]) {
    a[i] = u64(7)
    b[i] = f16(f32(1e-7))
    c[i] = select(z[i] > y[i], i16(16), x[i])
}
strategy v for f = vectorize(a.i, 16) ; vectorize(b.i, 8, tail: separate) ; vectorize(c.i, 8, tail: separate)
",
    );
    for n in [5, 40, 100] {
        let d = f.ok(&format!("run k.lathe -s v --engine c -D N={n} --check"));
        assert!(d.stderr.contains("the same bits"), "{}", d.stderr);
    }
}

/// Indices that are part of arrays are data: a call with a bad one fails, on every engine.
#[test]
fn indices_in_arrays_are_checked() {
    let f = Folder::new();
    f.write(
        "k.lathe",
        "fun f(x: f32[N], p: idx<N>[M]) -> f32[M] = p |> map(|q| x[q])
fun g(x: f32[N], p: (idx<N>, f32)[M]) -> f32[M] = p |> map(|(q, v)| x[q] + v)
",
    );
    save(&f, "x.npy", &[4], &[1., 2., 3., 4.]);
    let index = |name: &str, data: &[i64]| {
        npy::write(&f.path(name), &Array::from_slice(&[3], data).expect("an array")).expect("a file");
    };
    index("good.npy", &[3, 0, 3]);
    index("below.npy", &[3, -1, 0]);
    index("above.npy", &[3, 4, 0]);
    index("far.npy", &[0, 1 << 55, -(1 << 60)]);
    for engine in ["llvm", "c", "interpreter"] {
        let d = f.ok(&format!("run k.lathe:f -i x=x.npy -i p=good.npy -o out=out.npy --engine {engine}"));
        assert_eq!(load(&f, "out.npy"), [4., 1., 4.], "{}", d.stderr);
        for bad in ["below", "above", "far"] {
            let line = format!("run k.lathe:f -i x=x.npy -i p={bad}.npy --engine {engine}");
            let d = f.fails(&line, 1, "E0814");
            assert!(d.stderr.contains("`p`"), "{engine}, {bad}: {}", d.stderr);
        }
    }
}

/// Failures of the interpreter show the user's own text, or none.
#[test]
fn failures_of_the_interpreter_have_their_places() {
    let f = Folder::new();
    let runs = |file: &str, args: &str, code: &str| {
        let d = f.fails(&format!("run {file} --engine interpreter {args}"), 1, code);
        assert!(!d.stderr.contains("prelude"), "{}", d.stderr);
        d.stderr
    };
    f.write(
        "oob.tree",
        "func f(N)(x: in f32[N], y: out f32[N]) stage plain {\n  for i in 0..N { 'y'[i]: y[i] = x[i + 1] }\n}\n",
    );
    assert!(runs("oob.tree", "-D N=4", "E0401").contains("oob.tree:2:"));
    // Of what is called, the name.
    f.write(
        "deep.tree",
        "func f()(n: in i64, y: out i64[]) stage scheduled {\n  call g(n, &y)\n}\n\
         func g()(n: in i64, y: out i64[]) stage scheduled {\n  alloc t: i64[] stack\n  call g(n - 1:i64, &t)\n  'y'[]: y[] = t[]\n}\n",
    );
    assert!(runs("deep.tree", "-i n=4", "E0409").contains("`g`"));
    f.write(
        "in.lathe",
        "kernel k(x: f64[N], p: index[R]) -> (y: f64[R]) { for r in 0..R { assume(p[r] >= 0 and p[r] < N)\n y[r] = x[p[r]] } }\n",
    );
    npy::write(&f.path("p.npy"), &Array::from_slice(&[2], &[0i64, 9]).expect("an array")).expect("a file");
    let shown = runs("in.lathe:k", "--trust-assumptions -D N=4 -i p=p.npy", "E0406");
    assert!(shown.contains("in.lathe:1:"), "{shown}");
}

/// Literals of funs and rules have all values of 64 bits.
#[test]
fn literals_of_funs_and_rules_have_64_bits() {
    let f = Folder::new();
    f.write(
        "k.lathe",
        "fun f(x: u64[N]) -> u64[N] = x |> map(|a| a + 18446744073709551615)
fun least(x: i64[N]) -> i64[N] = x |> map(|a| a + -9223372036854775808)
fun m(x: u64[N]) -> u64 = x |> reduce(min, 18446744073709551615)
rule whole(x): bitand(x, 18446744073709551615) => x
fun g(x: u64[N]) -> u64[N] = x |> map(|a| bitand(a, 18446744073709551615))
strategy s for g = topDown(whole) ; lowerToC
",
    );
    npy::write(&f.path("x.npy"), &Array::from_slice(&[2], &[0u64, 7]).expect("an array")).expect("a file");
    npy::write(&f.path("i.npy"), &Array::from_slice(&[2], &[0i64, 7]).expect("an array")).expect("a file");
    let of = |line: &str| {
        f.ok(&format!("run k.lathe:{line} --check -o out=out.npy"));
        npy::read(&f.path("out.npy")).expect("an array")
    };
    for engine in ["llvm", "c", "interpreter"] {
        let u = |line: &str| of(&format!("{line} -i x=x.npy --engine {engine}")).to_vec::<u64>();
        assert_eq!(u("f"), Some(vec![u64::MAX, 6]));
        assert_eq!(u("m"), Some(vec![0]));
        assert_eq!(u("g -s s"), Some(vec![0, 7]));
        let i = of(&format!("least -i x=i.npy --engine {engine}")).to_vec::<i64>();
        assert_eq!(i, Some(vec![i64::MIN, i64::MIN + 7]));
    }
}

#[test]
fn opt_gives_an_object() {
    let f = Folder::new();
    f.write("k.lathe", "kernel k(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] }\n");
    let plain = f.ok("opt k.lathe:k --passes dce").stdout;
    let told = f.ok("opt k.lathe:k --passes dce --json").stdout;
    let told: serde_json::Value = serde_json::from_str(&told).expect("one object");
    assert_eq!((told["function"].as_str(), told["tree"].as_str()), (Some("k"), Some(plain.as_str())));
}

const LONG: &str = "kernel long(n: i64) -> (x: i64[64]) {
    for k in 0..64 { x[k] = 0 }
    for i in 0..index(n) { for j in 0..index(n) { for k in 0..64 { x[k] = x[k] * 3 + i64(j) } } }
}";

#[test]
fn runs_have_a_time_limit() {
    let f = Folder::new();
    f.write("long.lathe", LONG);
    for engine in ["llvm", "c", "interpreter"] {
        let line = |n: u64| {
            format!("run long.lathe -i n={n} --time-limit 0.2 --engine {engine} --strategy naive -o x=x.npy")
        };
        f.ok(&line(0));
        std::fs::remove_file(f.path("x.npy")).expect("an output");
        let d = f.fails(&line(1 << 40), 1, "E0825");
        assert!(d.stderr.contains("0.2"), "{}", d.stderr);
        assert!(!f.path("x.npy").exists(), "what is unspecified was written");
    }
    for wrong in ["0", "-1", "soon", "inf", "NaN"] {
        let d = f.lathe(&format!("run long.lathe -i n=1 --time-limit={wrong}"));
        assert!(d.status == 2 && d.stderr.contains("--time-limit"), "{wrong}: {}", d.stderr);
    }
}

/// A shell says 130 for this, and ends a script.
#[test]
fn ctrl_c_ends_a_run_as_it_ends_any_command() {
    use std::os::unix::process::ExitStatusExt;
    let f = Folder::new();
    f.write("long.lathe", LONG);
    let lathe = f.command(&format!("run long.lathe -i n={} --strategy naive", 1u64 << 40));
    // Programs that were started in the background may ignore the signal, and so do those that they start.
    let mut run = std::process::Command::new("env");
    run.arg("--default-signal=INT").arg(lathe.get_program()).args(lathe.get_args());
    run.envs(lathe.get_envs().filter_map(|(name, value)| Some((name, value?))));
    run.current_dir(lathe.get_current_dir().expect("a folder"));
    let mut run = run.stderr(std::process::Stdio::null()).spawn().expect("lathe starts");
    // Whether it compiles or runs by now plays no part.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let killed = std::process::Command::new("kill").args(["-INT", &run.id().to_string()]).status();
    assert!(killed.is_ok_and(|s| s.success()));
    assert_eq!(run.wait().expect("it ends").signal(), Some(2));
}

/// `tileSlideRest` from the term to machine code: as many whole tiles as there are, and the windows that are left.
#[test]
fn neighbourhoods_in_tiles_and_what_is_left_of_them() {
    let f = Folder::new();
    f.write(
        "k.lathe",
        "fun f(x: i32[N]) -> i32[N - 2] = x |> slide(3, 1) |> map(|w| w |> reduce(|a, b| a + b, 0))\n\
         strategy s for f = DFNF ; topDown(tileStencilRest(5)) ; lowerToC\n",
    );
    assert!(f.ok("explain k.lathe -s s").stdout.contains("tileSlideRest"));
    for n in [2, 3, 5, 6, 8, 23] {
        f.ok(&format!("run k.lathe:f -s s -D N={n} --check"));
    }
}
