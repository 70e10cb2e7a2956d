//! Whatever is wrong with the input, there is one clear error and a documented exit status, and never a panic.

use crate::common::{Folder, examples};
use lathe::{Array, npy};

fn gemm() -> String {
    format!("run {}/gemm.lathe:gemm --strategy naive", examples())
}

#[test]
fn wrong_sources() {
    let f = Folder::new();
    for (text, code) in [
        ("kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = A[i]", "E01"),
        ("kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = A[i] + true }", "E02"),
        ("kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = A[j] }", "E0213"),
        ("kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = A[i + 1] }", "E0501"),
        (
            "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\nstrategy naive for f = split(B.z, 8)",
            "E0621",
        ),
        ("", "E0902"),
        // Strategies that the library makes would call these.
        ("kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\nstrategy open = id", "E0202"),
        ("kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\nstrategy split(a, b) for f = id", "E0202"),
        ("kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\nstrategy mdh = fail(\"mine\")", "E0202"),
        ("kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\nstrategy try(s) = s", "E0202"),
        ("kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\nstrategy id for f = parallel(i)", "E0202"),
    ] {
        f.write("f.lathe", text);
        f.fails("run f.lathe -D N=4", 1, code);
    }
    // The library's strategies for funs are made of these; of others they are not, so that a file has its own.
    let fun = "fun f(x: f32[N]) -> f32[N] = x |> map(|a| a + 1) |> map(|a| a * 2)";
    for own in ["DFNF = id", "topDown(s) = s", "betaReduction = id", "mapFission for f = id", "lowerToC = id"]
    {
        f.write("f.lathe", format!("{fun}\nstrategy {own}"));
        f.fails("run f.lathe -D N=4", 1, "E0202");
    }
    for own in [
        "baseline for f = DFNF",
        "parallelAll = id",
        "parallel for f = DFNF",
        "naive for f = CNF ; lowerToC",
        "mine = DFNF",
    ] {
        f.write("f.lathe", format!("{fun}\nstrategy {own}"));
        f.ok("run f.lathe -D N=4 --check");
    }
    f.write("f.lathe", "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\nstrategy swap = parallel(i)");
    f.ok("run f.lathe -D N=4 -s swap");
    f.write("f.lathe", [0xff, 0xfe, 0]);
    f.fails("run f.lathe -D N=4", 1, "E0901");
    f.fails("run nowhere.lathe", 1, "E0901");
    f.fails("run .", 1, "E0901");
    f.fails(&format!("run {}/gemm.lathe:nothing", examples()), 1, "E0902");
}

#[test]
fn wrong_sizes() {
    let f = Folder::new();
    for (sizes, code) in [
        ("-D M=4 -D N=4", "E0904"),
        ("-D M=4 -D N=4 -D K=4 -D Z=4", "E0904"),
        ("-D M=4 -D N=4 -D K=four", "E0904"),
        ("-D M=4 -D N=4 -D K=-4", "E0904"),
        ("-D M=4 -D N=4 -D K=99999999999999999999", "E0904"),
        ("-D M=4 -D N=4 -D K=4 -D K=5", "E0911"),
        ("-D M=4000000000 -D N=4000000000 -D K=4000000000", "E0801"),
        ("-D M=9223372036854775807 -D N=9223372036854775807 -D K=1", "E0801"),
        ("-D M=2000000 -D N=2000000 -D K=1", "E0802"),
    ] {
        f.fails(&format!("{} {sizes}", gemm()), 1, code);
    }
}

#[test]
fn wrong_options() {
    let f = Folder::new();
    let text = "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\n\
                strategy fast(t = 8 in 8..=64 step 8) for f = split(i, t)";
    f.write("f.lathe", text);
    let sized = "run f.lathe -D N=4";
    f.ok(&format!("{sized} --param t=64 --check"));
    for (options, code) in [
        ("--strategy fastest", "E0903"),
        ("--param t=72", "E0602"),
        ("--param t=9", "E0602"),
        ("--param nonsense=1", "E0601"),
        ("--param t=8 --param t=16", "E0911"),
        ("--input Z=a.npy", "E0906"),
        ("--input B=b.npy", "E0906"),
        ("--input A=nowhere.npy", "E0803"),
        ("--output A=a.npy", "E0907"),
        ("--threads 1000000", "E0818"),
        ("--cpu nonsense", "E0703"),
    ] {
        f.fails(&format!("{sized} {options}"), 1, code);
    }
    for usage in [
        format!("{sized} --threads 0"),
        format!("{sized} --threads -1"),
        format!("{sized} --engine abacus"),
        format!("{sized} -D M"),
        format!("bench {}/gemm.lathe:gemm --runs 0", examples()),
        "run".to_string(),
        "frobnicate".to_string(),
        String::new(),
        "--explain E9999".to_string(),
    ] {
        let d = f.lathe(&usage);
        assert_eq!(d.status, 2, "lathe {usage}\n{}", d.stderr);
        assert!(d.stdout.is_empty() && !d.stderr.is_empty() && !d.stderr.contains("panicked"));
    }
    // Code for another CPU is refused where it is run (3), or it runs; it is always emitted.
    let d = f.lathe(&format!("{sized} --cpu graniterapids"));
    assert!(d.status == 0 || (d.status == 3 && d.stderr.starts_with("E0910")), "{}", d.stderr);
    f.ok("emit f.lathe --to asm --cpu graniterapids");
    f.fails(&format!("emit {}/gemm.lathe:gemm --to cuda -s fast", examples()), 1, "E0701");
    f.fails(&format!("emit {}/gemm.lathe:gemm --to launches -s naive", examples()), 1, "E0846");
    f.fails(&format!("emit {}/gemm.lathe:gemm --to cubin -s naive", examples()), 1, "E0907");
    f.fails(&format!("{sized} --device cuda:99"), 3, "E0823");
    f.fails(&format!("{sized} --device opencl:15"), 3, "E0841");
    f.fails(&format!("{sized} --device opencl --engine c"), 3, "E0823");
    f.fails(&format!("emit {}/gemm.lathe:gemm --to tree -s fast -D N=4", examples()), 1, "E0904");
    f.fails(&format!("emit {}/gemm.lathe:gemm --to object", examples()), 1, "E0907");
    f.fails(&format!("emit {}/gemm.lathe:gemm --to c -o gemm.h", examples()), 1, "E0907");
}

fn header(descr: &str, shape: &str, data: usize) -> Vec<u8> {
    let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.bytes());
    out.resize(out.len() + data, 0);
    out
}

#[test]
fn wrong_arrays() {
    let f = Folder::new();
    for (name, bytes, code) in [
        ("empty", Vec::new(), "E0804"),
        ("noise", b"noise that is not an array".to_vec(), "E0804"),
        ("cut header", header("'<f4'", "(4, 4)", 0)[..30].to_vec(), "E0804"),
        ("cut data", header("'<f4'", "(4, 4)", 63), "E0806"),
        ("too long", header("'<f4'", "(4, 4)", 65), "E0806"),
        ("objects", header("'|O'", "(4, 4)", 64), "E0805"),
        ("records", header("[('x', '<f4')]", "(4, 4)", 64), "E0906"),
        ("complex", header("'<c8'", "(4, 4)", 128), "E0906"),
        ("wide complex", header("'<c32'", "(4, 4)", 512), "E0805"),
        ("overflow", header("'<f4'", "(4611686018427387904, 4611686018427387904)", 64), "E0801"),
        ("huge", header("'<f4'", "(1000000, 1000000)", 64), "E0806"),
        ("negative", header("'<f4'", "(-4, 4)", 64), "E0804"),
        ("dtype", header("'<f8'", "(4, 4)", 128), "E0906"),
        ("rank", header("'<f4'", "(16,)", 64), "E0906"),
    ] {
        f.write("a.npy", bytes);
        let d = f.fails(&format!("{} -i A=a.npy -D N=4", gemm()), 1, code);
        assert!(d.stderr.contains("a.npy"), "{name}: {}", d.stderr);
    }
    f.write("a.npy", header("'<f4'", "(4, 5)", 80));
    f.write("b.npy", header("'<f4'", "(4, 4)", 64));
    f.fails(&format!("{} -i A=a.npy -i B=b.npy", gemm()), 1, "E0904");
    f.fails(&format!("{} -i A=a.npy -D N=4 -D K=6", gemm()), 1, "E0904");
}

#[test]
fn subscripts_from_data_are_checked() {
    let f = Folder::new();
    f.write("g.lathe", "kernel g(A: f32[N], X: i32[M]) -> (B: f32[M]) { B[i] = A[X[i]] }");
    let x = Array::from_slice(&[3], &[0i32, 4, 1]).expect("an array");
    npy::write(&f.path("x.npy"), &x).expect("a file");
    f.ok("run g.lathe -i X=x.npy -D N=5 --check");
    f.write("b.npy", "old");
    f.fails("run g.lathe -s naive -i X=x.npy -D N=4 -o B=b.npy", 1, "E0814");
    assert_eq!(f.read("b.npy"), "old");
}

#[test]
fn scalars_that_are_subscripts_are_checked() {
    let f = Folder::new();
    let text = "kernel pick(x: f32[N], n: index) -> (y: f32) { y = x[n] }\n\
                kernel slice(x: f32[N], n: i64) -> (y: f32[K]) { y[i] = x[2 * i + index(n)] }\n\
                strategy fast for slice = vectorize(i, 16) ; parallel(i.o)";
    f.write("s.lathe", text);
    for engine in ["llvm", "c", "interpreter"] {
        for run in ["run s.lathe:pick -D N=5", "run s.lathe:slice -D N=50 -D K=20"] {
            let run = format!("{run} --engine {engine}");
            // A made-up scalar is one that fits.
            let d = f.ok(&format!("{run} --check --json"));
            assert!(d.stdout.contains("random subscript below"), "{}", d.stdout);
            f.ok(&format!("{run} --input n=0"));
            for bad in ["-1", "50", "9223372036854775807", "-9223372036854775808"] {
                // Where it is checked is shown.
                let d = f.fails(&format!("{run} --input n={bad}"), 1, "E0814");
                assert!(d.stderr.contains("[s.lathe:"), "{}", d.stderr);
            }
        }
    }
}

#[test]
fn stated_facts_are_checked_unless_they_are_trusted() {
    let f = Folder::new();
    let text = "kernel pick(x: f32[N], n: index) -> (y: f32) { assume(n >= 0 and n < N)\n y = x[n] }\n\
                kernel trust(x: f32[N], p: index[R]) -> (y: f32[R]) {\n\
                for r in 0..R { assume(p[r] >= 0 and p[r] < N)\n y[r] = x[p[r]] } }";
    f.write("a.lathe", text);
    let p = Array::from_slice(&[3], &[0i64, 1 << 40, 1]).expect("an array");
    npy::write(&f.path("p.npy"), &p).expect("a file");
    for engine in ["llvm", "c", "interpreter"] {
        f.fails(&format!("run a.lathe:pick -D N=5 -i n=1000000000000 --engine {engine}"), 1, "E0814");
        let d = f.ok(&format!("run a.lathe:pick -D N=5 -i n=4 --engine {engine}"));
        assert!(d.stderr.contains("checked at the call"), "{}", d.stderr);
        f.fails(&format!("run a.lathe:trust -D N=5 -i p=p.npy --engine {engine}"), 1, "E0814");
        let d = f.ok(&format!("run a.lathe:trust -D N=5 -D R=4 --engine {engine} --json"));
        assert!(d.stdout.contains("\"by_declaration\": 0"), "{}", d.stdout);
        // Before anything else runs.
        let trusting = format!("--trust-assumptions --check --engine {engine}");
        f.fails(&format!("run a.lathe:trust -D N=5 -i p=p.npy {trusting}"), 1, "E0814");
        let d = f.ok(&format!("run a.lathe:trust -D N=5 -D R=4 {trusting} --json"));
        assert!(d.stdout.contains("\"by_declaration\": 1"), "{}", d.stdout);
    }
    let d = f.ok("explain a.lathe:trust --json");
    assert!(!d.stdout.contains("by-declaration"), "{}", d.stdout);
    let d = f.ok("explain a.lathe:trust --trust-assumptions --json");
    assert!(d.stdout.contains("by-declaration"), "{}", d.stdout);
}

#[test]
fn what_cannot_be_written_stays_as_it_was() {
    let f = Folder::new();
    let sized = format!("{} -D M=4 -D N=4 -D K=4", gemm());
    f.fails(&format!("{sized} -o C=nowhere/c.npy"), 1, "E0807");
    std::fs::create_dir(f.path("folder")).expect("a folder");
    f.fails(&format!("{sized} -o C=folder"), 1, "E0807");
    f.write("old.npy", "old");
    let mut p = std::fs::metadata(f.path("old.npy")).expect("a file").permissions();
    p.set_readonly(true);
    std::fs::set_permissions(f.path("old.npy"), p).expect("permissions");
    f.fails(&format!("{sized} -o C=old.npy"), 1, "E0807");
    f.fails(&format!("emit {}/gemm.lathe:gemm --to tree -o old.npy", examples()), 1, "E0907");
    f.fails(&format!("emit {}/gemm.lathe:gemm --to tree -o folder", examples()), 1, "E0907");
    assert_eq!(f.read("old.npy"), "old");
    let all = std::fs::read_dir(f.path(".")).expect("a folder").map(|e| e.expect("an entry").file_name());
    let left: Vec<_> = all.filter(|n| n != "cache").collect();
    assert_eq!(left.len(), 2, "files are left behind: {left:?}");
}

/// Wrong funs, rules and strategies: an error with the place and the reason, by every command that needs them.
#[test]
fn wrong_funs_rules_and_strategies() {
    const MAP: &str = "fun f(x: f32[N]) -> f32[N] = x |> map(|v| v + 1)\n";
    let f = Folder::new();
    for (name, text, code, says) in [
        (
            "sizes that differ",
            "fun f(x: f32[N], y: f32[M]) -> f32[N] = zip(x, y) |> map(|(a, b)| a + b)",
            "E1103",
            "`N`",
        ),
        ("too many parameters", "fun f(x: f32[N]) -> f32[N] = x |> map(|a, b| a + b)", "E1105", ""),
        ("no size", "fun f(x: f32[N]) -> f32[N] = split(x)", "E1108", "`split`"),
        ("no divisor", "fun f(x: f32[8]) -> f32[8] = x |> split(3) |> join", "E1107", "3"),
        ("stored function", "fun f(x: (f32 -> f32)[N]) -> f32[N] = x |> map(|v| v(1))", "E1105", ""),
        ("recursion", "fun f(x: f32[N]) -> f32[N] = f(x)", "E1102", "`f`"),
        ("cut off", "fun f(x: f32[N]) -> f32[N] = x |> map(|v| v +", "E1101", ""),
        ("float for an integer", "fun f(x: i32[N]) -> i32[N] = x |> map(|v| v + inf)", "E1104", ""),
    ] {
        f.write("f.lathe", text);
        for command in
            ["check f.lathe", "run f.lathe -D N=4 -D M=4", "explain f.lathe", "emit f.lathe --to c"]
        {
            let d = f.fails(command, 1, code);
            assert!(d.stderr.contains(says) && d.stderr.contains("f.lathe:1"), "{name}: {}", d.stderr);
        }
    }
    for (name, rule, code, says) in [
        ("type", "rule r(g): map(g) => map(g) >> reduce(add, 0)", "E1115", ""),
        ("scope", "rule r(x): x + 1 => map(|y| x + y)", "E1115", ""),
        ("value", "rule r(x): x - x => 0", "E1117", ""),
        ("unbound", "rule r(x, y): x + 1 => x + y", "E1108", "`y`"),
    ] {
        f.write("f.lathe", format!("{MAP}{rule}"));
        let d = f.lathe("check f.lathe");
        assert_eq!(d.status, 1, "{name}");
        assert!(d.stderr.starts_with(code) && d.stderr.contains(says), "{name}: {}", d.stderr);
        assert!(d.stderr.contains("f.lathe:2"), "{name}: {}", d.stderr);
    }
    for (strategy, code, says) in [
        ("DFNF ; topDown(splitJoin(0))", "E0606", "0"),
        ("repeat(id)", "E0608", ""),
        ("s", "E0608", "`s` → `s`"),
        ("repeat(etaReduction <+ etaAbstraction)", "E0608", "`etaAbstraction`"),
        ("normalize(addId)", "E0608", "`addId`"),
        ("allTopDown(try(addId))", "E0608", "`addId`"),
        ("DFNF ; normalize(splitJoin(1))", "E0608", "`splitJoin`"),
        ("normalize(doubles)", "E0608", "`doubles`"),
        ("DFNF ; (vectorize(4) @ outermost(isReduce))", "E0611", "`isReduce`"),
        ("DFNF ; (tile(4, 4) @ outermost(mapNest(2)))", "E0611", "mapNest(2)"),
        ("nowhere(3) @ outermost(isMap)", "E0605", "`nowhere`"),
        ("lowerToC ; lower ; vectorize(q, 4)", "E0621", "`q`"),
        ("lower", "E1111", ""),
        ("DFNF ; reach(contains(reduce), splitJoin(4))", "E0611", ""),
        ("DFNF ; reach(mapp, splitJoin(4))", "E0606", "`mapp`"),
    ] {
        let rule = "rule doubles(x) rounds: x + 1 => (x + 1) + (x + 1) - (x + 1)\n";
        f.write("f.lathe", format!("{MAP}{rule}strategy s for f = {strategy}\n"));
        for command in ["explain f.lathe -s s", "run f.lathe -s s -D N=8"] {
            let d = f.fails(command, 1, code);
            assert!(d.stderr.contains(says) && d.stderr.contains("[f.lathe:"), "{strategy}: {}", d.stderr);
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn standard_output_that_is_full_or_closed() {
    let f = Folder::new();
    let lathe = |out: std::process::Stdio| {
        let mut c = std::process::Command::new(env!("CARGO_BIN_EXE_lathe"));
        c.args(["explain", &format!("{}/gemm.lathe:gemm", examples()), "--strategy", "naive", "--diff"]);
        c.current_dir(f.path(".")).stdout(out).output().expect("lathe starts")
    };
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let d = lathe(full.into());
    assert_eq!(d.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&d.stderr).starts_with("E0907"));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let d = lathe(writer.into());
    assert_eq!((d.status.code(), d.stderr.len()), (Some(0), 0));
}
