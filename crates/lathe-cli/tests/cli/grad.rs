//! `lathe grad`, and passes of the optimizer in `lathe opt`.

use crate::common::{Folder, examples, parsed};

const GEMM: &str =
    "kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }";

#[test]
fn a_derivative_is_printed_checked_and_reported() {
    let f = Folder::new();
    f.write("g.lathe", GEMM);
    let d = f.ok("grad g.lathe --check");
    assert!(d.stdout.starts_with("func gemm_vjp") && d.stdout.contains("A_bar"), "{}", d.stdout);
    let r = parsed(&f.ok("grad g.lathe --check --json --wrt B -o d.tree"));
    assert_eq!(r["wrt"], serde_json::json!(["B"]));
    assert_eq!(r["of"], serde_json::json!(["C"]));
    assert_eq!(r["mode"], "reverse");
    assert_eq!(r["check"]["ok"], true);
    assert_eq!(r["tape_bytes"]["value"], 0);
    assert_eq!(r["accumulation"]["plain"], 1);
    // What was written is a tree like any other.
    f.ok("run d.tree -D M=4 -D N=5 -D K=3 --check");
    let r = parsed(&f.ok("grad g.lathe --mode forward --check --json -D M=3 -D N=2 -D K=5"));
    assert_eq!(r["derivative"], "gemm_jvp");
}

#[test]
fn derivatives_in_files_are_kernels() {
    let f = Folder::new();
    f.write(
        "g.lathe",
        format!("{GEMM}\nkernel d = vjp(gemm, wrt: (A))\nkernel e = jvp(d)\nstrategy s for d = parallel(i)"),
    );
    f.ok("run g.lathe:d -D M=9 -D N=8 -D K=7 --check");
    f.ok("run g.lathe:d -D M=9 -D N=8 -D K=7 --check --strategy s");
    f.ok("run g.lathe:e -D M=9 -D N=8 -D K=7 --check");
    f.ok("grad g.lathe:d --check");
    f.write("h.lathe", format!("{GEMM}\nkernel d = vjp(gem)"));
    f.fails("check h.lathe", 1, "E0902");
    f.write("h.lathe", format!("{GEMM}\nkernel d = vjp(d)"));
    f.fails("check h.lathe", 1, "E0902");
    f.write("h.lathe", format!("{GEMM}\nkernel d = vjp(gemm, wrt: (C))"));
    f.fails("check h.lathe", 1, "E1303");
}

#[test]
fn derivatives_of_generic_kernels_are_generic() {
    let f = Folder::new();
    f.write(
        "g.lathe",
        "kernel k<T in {f32, f64}>(x: T[N]) -> (y: T[N]) { y[i] = exp(x[i]) }
         kernel e = jvp(d)
         kernel d = vjp(k)
         strategy s for d = vector(T)
         kernel r<T in {f32, f64}>(x: T[N], y_bar: T[N]) -> (x_bar: T[N]) { x_bar[i] = y_bar[i] * exp(x[i]) }
         derivative k = r",
    );
    for (chosen, kernel) in [("", "d"), ("-D T=f64", "d_f64"), ("-D T=f32", "d")] {
        let r = parsed(&f.ok(&format!("run g.lathe:d -D N=9 --check --json {chosen}")));
        assert_eq!(r["kernel"], kernel, "{r}");
        f.ok(&format!("run g.lathe:e -D N=9 --check {chosen}"));
    }
    f.ok("grad g.lathe:d -D T=f64 --check");
    f.fails("run g.lathe:d -D N=9 -D T=f16", 1, "E0902");
}

/// The derivative of `k`, with one more parameter than it has.
const SQUARES: &str = "kernel k(x: f64[N]) -> (y: f64[N]) { y[i] = x[i] * x[i] }
kernel g(x: f64[M], y_bar: f64[M]) -> (x_bar: f64[M]) { x_bar[i] = 2.0 * y_bar[i] * x[i] }";

#[test]
fn files_give_derivatives() {
    let f = Folder::new();
    f.write("k.lathe", format!("{SQUARES}\nkernel d = vjp(k)\nkernel e = jvp(d)\nderivative k = g"));
    let r = parsed(&f.ok("grad k.lathe:k --check --json"));
    assert_eq!(r["rule"], serde_json::json!({"name": "g", "evidence": "tested"}), "{r}");
    assert!(f.ok("grad k.lathe:k").stderr.contains("given by g: tested"));
    // There is none of forward mode.
    let r = parsed(&f.ok("grad k.lathe:k --check --json --mode forward"));
    assert_eq!(r["rule"], serde_json::Value::Null);
    for k in ["d", "e", "g"] {
        let size = if k == "g" { "M" } else { "N" };
        f.ok(&format!("run k.lathe:{k} -D {size}=9 --check"));
    }
    f.ok("grad k.lathe:d --check");
    // What has no derivative of its own is believed.
    f.write(
        "s.lathe",
        "kernel k(x: f64[N]) -> (y: f64[N]) { y[i] = floor(x[i]) }
         kernel through(x: f64[N], y_bar: f64[N]) -> (x_bar: f64[N]) { x_bar[i] = y_bar[i] }
         derivative k = through
         kernel d = vjp(k, value: true)",
    );
    let r = parsed(&f.ok("grad s.lathe:k --json"));
    assert_eq!(r["rule"]["evidence"], "declared");
    f.ok("run s.lathe:d -D N=5 --check");
}

#[test]
fn derivatives_that_files_give_are_decided() {
    let f = Folder::new();
    let refused = |text: &str, code: &str| {
        f.write("k.lathe", text);
        f.fails("check k.lathe", 1, code);
    };
    let wrong = SQUARES.replace("2.0", "3.0");
    refused(&format!("{wrong}\nderivative k = g"), "E1307");
    refused(&format!("{SQUARES}\nderivative k = g\nderivative k = g"), "E1307");
    refused(&format!("{SQUARES}\nderivative k = h"), "E0902");
    refused(&format!("{SQUARES}\nderivative h = g"), "E0902");
    refused(&format!("{SQUARES}\nkernel d = vjp(k)\nderivative k = d"), "E0902");
    for (old, new) in [
        ("x_bar: f64[M]", "z_bar: f64[M]"),
        ("y_bar: f64[M]", "y_bar: f32[M]"),
        ("x: f64[M], y_bar", "x: f64[M], n: i32, y_bar"),
    ] {
        let text = SQUARES.replace(old, new);
        let text = if new.starts_with('z') { text.replace("x_bar[i]", "z_bar[i]") } else { text };
        let text = if new.contains("f32") { text.replace("y_bar[i]", "f64(y_bar[i])") } else { text };
        refused(&format!("{text}\nderivative k = g"), "E1307");
    }
    // A file that is formatted stays what it is.
    f.write("k.lathe", format!("{SQUARES}\nderivative   k=g"));
    f.ok("fmt k.lathe");
    assert!(f.read("k.lathe").ends_with("derivative k = g\n"), "{}", f.read("k.lathe"));
}

#[test]
fn trees_give_derivatives() {
    let f = Folder::new();
    let text = "func k(N)(x: in f64[N], y: out f64[N]) stage plain {
          compute 'y' over i in 0..N { y[i] = x[i] * x[i] }
        }
        func g(N)(x: in f64[N], y_bar: in f64[N], x_bar: out f64[N]) stage plain {
          compute 'x_bar' over i in 0..N { x_bar[i] = 2.0:f64 * y_bar[i] * x[i] }
        }
        derivative k = g";
    f.write("k.tree", text);
    let r = parsed(&f.ok("grad k.tree:k --json"));
    assert_eq!(r["rule"]["evidence"], "tested");
    f.write("w.tree", text.replace("2.0", "4.0"));
    f.fails("grad w.tree:k", 1, "E1307");
    f.write("m.tree", text.replace("derivative k = g", "derivative k = h"));
    f.fails("grad m.tree:k", 1, "E0344");
}

#[test]
fn the_tape_is_counted_in_bytes() {
    let f = Folder::new();
    f.write(
        "k.lathe",
        "kernel k(u: inout f64[N], a: f64[T]) { for t in 0..T { for x in 0..N { u[x] = u[x] * u[x] * a[t] } } }",
    );
    let r = parsed(&f.ok("grad k.lathe --json -D N=10 -D T=3"));
    assert_eq!(r["tape_bytes"]["value"], 240, "{r}");
    let text = r["tape_bytes"]["expression"].as_str().expect("an expression");
    assert!(text.contains('N') && text.contains('T'), "{text}");
    assert_eq!(r["stored"].as_array().map(Vec::len), Some(1));
    // The factor of an iteration, too, which is computed again.
    assert_eq!(r["everything_bytes"]["value"], 264, "{r}");
    f.write(
        "t.lathe",
        "kernel t(u: inout f64[N], T: i32) { for t in 0..T { for x in 0..N { u[x] = u[x] * u[x] } } }",
    );
    let r = parsed(&f.ok("grad t.lathe --json -D N=10 -i T=3"));
    assert_eq!(r["tape_bytes"]["value"], 240, "{r}");
}

#[test]
fn few_states_of_a_loop_are_kept() {
    let f = Folder::new();
    let text = "kernel k(u: inout f64[N], a: f64[T]) {
        for t in 0..T { for x in 0..N { u[x] = u[x] * u[x] * a[t] } }
    }";
    f.write("k.lathe", format!("{text}\nkernel d = vjp(k, checkpoint: 3)"));
    let bytes = |option: &str| {
        let r =
            parsed(&f.ok(&format!("grad k.lathe:k --json --check -D N=10 -D T=90 --checkpoint {option}")));
        assert_eq!(r["check"]["ok"], true, "{r}");
        r["tape_bytes"]["value"].as_i64().expect("a number")
    };
    assert_eq!(bytes("none"), 7200);
    assert_eq!(bytes("revolve:3"), 240);
    assert_eq!(bytes("revolve:1"), 80);
    assert_eq!(bytes("1K"), 960);
    for (option, code) in [("79", "E1306"), ("revolve:0", "E0917"), ("few", "E0917"), ("9G9", "E0917")] {
        f.fails(&format!("grad k.lathe:k -D N=10 -D T=90 --checkpoint {option}"), 1, code);
    }
    f.fails("grad k.lathe:k --checkpoint 1000", 1, "E0917");
    f.ok("run k.lathe:d -D N=7 -D T=20 --check");
    // How often a loop runs, nobody knows before it does.
    f.write(
        "w.lathe",
        "kernel k(u: inout f64[N], e: inout f64, least: f64) {
             while e > least { for x in 1..N { u[x] = u[x] * (1 - 0.1 * u[x - 1] * e) } \n e = 0.9 * e }
         }
         kernel d = vjp(k, checkpoint: 4)",
    );
    let r =
        parsed(&f.ok("grad w.lathe:k --json --check -D N=10 -i e=1 -i least=0.001 --checkpoint revolve:4"));
    assert_eq!(r["tape_bytes"]["value"], 4 * (80 + 8), "{r}");
    for least in ["0.0001", "2.0"] {
        f.ok(&format!("run w.lathe:d -D N=10 -i e=1 -i least={least} --check"));
    }
    f.write("h.lathe", format!("{text}\nkernel d = vjp(k, checkpoint: 0)"));
    f.fails("check h.lathe", 1, "E0105");
}

/// Also where code is kept from an earlier process, without its tree.
#[test]
fn tapes_beyond_memory_are_refused_before_the_run() {
    let f = Folder::new();
    f.write(
        "k.lathe",
        "kernel k(u: inout f64[N], T: i32) { for t in 0..T { for x in 1..N { u[x] = u[x] * u[x - 1] } } }
         kernel d = vjp(k)",
    );
    for engine in ["llvm", "llvm", "interpreter"] {
        let d = f.fails(
            &format!("run k.lathe:d -D N=20001 -i T=2000000000 --engine {engine} --strategy naive"),
            1,
            "E0816",
        );
        for word in ["291.0 TiB", "320000000000000 bytes", "u.tape", "--checkpoint revolve:8"] {
            assert!(d.stderr.contains(word), "{word}: {}", d.stderr);
        }
    }
    f.ok("run k.lathe:d -D N=50 -i T=3 --check --strategy naive");
}

#[test]
fn passes_make_the_gradient_of_a_norm_linear() {
    let f = Folder::new();
    f.write(
        "n.lathe",
        "kernel norm(x: f64[N]) -> (y: f64[N]) { for i in 0..N { var s: f64
            s = sum[j](x[j] * x[j])
            y[i] = x[i] / sqrt(s) } }",
    );
    let r = parsed(&f.ok("grad n.lathe --check --json --passes licm:dse,dce"));
    assert_eq!(r["passes"]["before"], serde_json::json!(["licm"]));
    assert_eq!(r["passes"]["after"], serde_json::json!(["dse", "dce"]));
    assert_eq!(r["check"]["ok"], true);
    let d = f.ok("opt n.lathe --passes licm,dce");
    assert!(d.stdout.contains("if 0 < N"), "{}", d.stdout);
    f.fails("opt n.lathe --passes licm,magic", 1, "E0620");
    f.fails("grad n.lathe --passes magic", 1, "E0620");
}

#[test]
fn derivatives_are_made_with_and_without_raise_and_tidy() {
    let f = Folder::new();
    f.write(
        "g.lathe",
        "kernel spread(x: f64[N], w: f64[N]) -> (y: f64[N]) {
            for i in 0..N { y[i] = 0 }
            for i in 0..N { for j in 0..N { y[i] += exp(w[j]) * x[j] } } }",
    );
    let made = |passes: &str| {
        let r = parsed(&f.ok(&format!("grad g.lathe --value --check --json --passes {passes} -o d.tree")));
        assert_eq!(r["check"]["ok"], true, "{passes}: {r}");
        f.read("d.tree")
    };
    let usual = made("inline,licm,raise:tidy,cse,forward,cse,dse,dce,promote");
    assert_eq!(usual, {
        f.ok("grad g.lathe --value -o d.tree");
        f.read("d.tree")
    });
    // The adjoint of a sum is one; what is reversed as it stands adds up in loops.
    let (both, raised, tidied, none) = (made("raise:tidy"), made("raise:"), made(":tidy"), made(":"));
    let sum = "compute 'y.2.bar'";
    assert!(raised.contains(sum) && both.contains(sum), "{raised} {both}");
    assert!(!none.contains(sum) && !tidied.contains(sum), "{none} {tidied}");
    assert!(both != raised, "{both}");
    for wrong in ["raise,licm", "tidy", ":raise", ":dce,tidy", "raise,raise:"] {
        f.fails(&format!("grad g.lathe --passes {wrong}"), 1, "E0620");
    }
}

#[test]
fn derivatives_of_recursive_functions_are_whole_trees() {
    let f = Folder::new();
    let text = "func power()(x: in f64, n: in i32, y: out f64[]) stage plain {
      if n < 1:i32 { 'one'[]: y[] = 1.0:f64 } else {
        alloc t: f64[]
        call power(x, n - 1:i32, &t)
        'y'[]: y[] = x * t[]
      }
    }\n";
    f.write("power.tree", text);
    let r = parsed(&f.ok("grad power.tree --check --json -D n=4"));
    assert_eq!(r["check"]["ok"], true);
    f.ok("grad power.tree --mode forward --check -D n=4");
    f.ok("grad power.tree -o d.tree");
    f.ok("check d.tree");
    let whole = f.read("d.tree");
    for name in ["power_vjp", "power.vjp", "power"] {
        assert!(whole.contains(&format!("func {name}()")), "{whole}");
    }
}

/// What both branches write in a loop over directions is written.
#[test]
fn conditions_on_data_have_derivatives_in_several_directions() {
    let f = Folder::new();
    let kernel = "kernel k(x: f64[N], c: f64) -> (y: f64[N]) {
    for i in 0..N {
        if x[i] > c {
            if x[i] > 2.0 * c { y[i] = x[i] * x[i] } else { y[i] = c * x[i] }
        } else { y[i] = sin(x[i]) }
    }
}
kernel k_jvp = jvp(k, directions: K)
kernel k_vjp = vjp(k, directions: K)
kernel k_hvp = hvp(k, directions: K)\n";
    f.write("k.lathe", kernel);
    f.ok("check k.lathe");
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let f = Folder::new();
    f.write("g.lathe", GEMM);
    f.fails("grad g.lathe --accumulate atomic --deterministic", 1, "E1302");
    // There is no loop.
    f.fails("grad g.lathe --checkpoint revolve:4", 1, "E1306");
    f.fails("grad g.lathe --wrt Z", 1, "E1303");
    f.fails("grad g.lathe -o g.lathe", 1, "E0907");
    f.write("s.lathe", "kernel s(x: f32[N]) -> (y: f32[N]) { y[i] = floor(x[i]) * x[i] }");
    f.fails("grad s.lathe", 1, "E1301");
    f.ok("grad s.lathe --allow steps");
}

/// Index arrays whose elements many iterations share, and a value that all do.
const SHARED: &str = "kernel k(X: i32[N], w: f64[7], c: f64[1]) -> (y: f64[N]) {
    for i in 0..N { y[i] = sin(w[X[i] % 7] * w[i % 7]) * c[0] }
}";

#[test]
fn cotangents_add_up_in_threads() {
    let f = Folder::new();
    f.write("k.lathe", SHARED.replace("X[i] % 7", "max(0, X[i]) % 7"));
    let counts = |options: &str| {
        let r = parsed(&f.ok(&format!("grad k.lathe --check --json {options}")));
        let of = |n: &str| r["accumulation"][n].as_u64().expect("a number");
        [of("plain"), of("reduction"), of("private"), of("atomic")]
    };
    assert_eq!(counts("--accumulate plain")[1..], [0, 0, 0]);
    // Threads take longer to start than that.
    assert_eq!(counts("--accumulate atomic -D N=9"), [0; 4]);
    assert_eq!(counts("--accumulate atomic -D N=3000")[1..3], [0, 0]);
    assert!(counts("--accumulate atomic -D N=3000")[3] >= 2);
    assert!(counts("--accumulate auto -D N=3000")[2] >= 1);
    assert!(counts("--accumulate private -D N=3000")[3] == 0);
    let repeated = std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2u64);
    // What `auto` does with what is left in order depends on no number of threads, either.
    let same = [
        "--deterministic",
        "--accumulate reduce --deterministic",
        "--accumulate plain --deterministic",
        "--accumulate private",
    ];
    for options in same {
        f.ok(&format!("grad k.lathe {options} -D N=6000 -o d.tree"));
        let mut first: Option<Vec<Vec<u8>>> = None;
        for n in 0..4 * repeated {
            let threads = [1, 2, 8, 64][n as usize % 4];
            f.ok(&format!("run d.tree -D N=6000 --threads {threads} -o w_bar=w.npy -o c_bar=c.npy --check"));
            let read = ["w.npy", "c.npy"].map(|p| std::fs::read(f.path(p)).expect("a result")).to_vec();
            assert!(first.get_or_insert_with(|| read.clone()) == &read, "{options} on {threads} threads");
        }
    }
    f.ok("grad k.lathe --accumulate atomic -o a.tree");
    f.ok("run a.tree -D N=6000 --threads 8 --check");
    f.ok("grad k.lathe --accumulate auto --runs 2 -D N=600");
}

#[test]
fn examples_are_measured() {
    let f = Folder::new();
    let r = parsed(&f.ok(&format!(
        "grad {}/gradients/least_squares.lathe:least_squares --wrt x --runs 2 --json -D M=40 -D N=30",
        examples()
    )));
    assert!(r["ratio"].as_f64().is_some_and(|v| v > 0.0), "{r}");
}
