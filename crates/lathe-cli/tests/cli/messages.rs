//! What messages say: which strategy, which type was declared and which found, nothing that leads back to where it was
//! given, and no more of a line than can be read.

use crate::common::{Folder, parsed};
use lathe::{Array, npy};

#[test]
fn funs_that_cannot_run_are_not_passed_over() {
    let f = Folder::new();
    let helper =
        "fun dot(p: (f32[N], f32[N])) -> f32 = zip(p.0, p.1) |> map(|(a, b)| a * b) |> reduce(add, 0)\n";
    f.write("f.lathe", format!("{helper}fun norm(xs: f32[N]) -> f32 = dot((xs, xs))\n"));
    let d = f.ok("check f.lathe");
    assert!(d.stderr.contains("1 kernel, 1 fun used by others"), "{}", d.stderr);
    f.fails("run f.lathe:dot -D N=4", 1, "E1113");
    // A strategy for it would never be looked at.
    f.write("f.lathe", format!("{helper}strategy s for dot = topDown(nonsense)\n"));
    let d = f.fails("check f.lathe", 1, "E1113");
    assert!(d.stderr.contains("`s`") && d.stderr.contains("FAILED"), "{}", d.stderr);
    // What nothing uses, and nobody can run: that is said, with the reason.
    f.write("f.lathe", format!("{helper}fun id(x: f32[N]) -> f32[N] = x |> map(|a| a + 1)\n"));
    let d = f.ok("check f.lathe");
    assert!(d.stderr.contains("E1113") && d.stderr.contains("`dot`"), "{}", d.stderr);
    let file = &parsed(&f.ok("check f.lathe --json"))["files"][0];
    assert_eq!((&file["helpers"], &file["unused"]), (&0.into(), &1.into()));
    // Whatever the translation does not do, `check` says, as `run` does.
    f.write("f.lathe", "fun f(xs: f32[N]) -> f32[2] = xs |> scan(add, 0) |> slide(2, N) |> join\n");
    let (run, check) = (f.lathe("run f.lathe -D N=4"), f.lathe("check f.lathe"));
    assert_eq!(run.status, check.status, "{}{}", run.stderr, check.stderr);
}

#[test]
fn refusals_name_the_strategy() {
    let f = Folder::new();
    let fun = "fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x * x)\n";
    for (steps, code) in [
        ("lower", "E1111"),
        ("lower ; lower", "E1116"),
        ("lowerToC ; lower ; split(q, 4)", "E0621"),
        ("splitJoin(4)", "E0611"),
    ] {
        f.write("f.lathe", format!("{fun}strategy mine for f = {steps}\n"));
        for line in ["check f.lathe", "run f.lathe -s mine -D N=8", "explain f.lathe -s mine"] {
            let d = f.fails(line, 1, code);
            assert!(d.stderr.contains("`mine`") && d.stderr.contains(steps), "{}", d.stderr);
        }
    }
    f.write(
        "k.lathe",
        "kernel k(A: f32[N]) -> (B: f32[N]) { B[i] = A[i] }\nstrategy mine for k = split(q, 4)\n",
    );
    assert!(f.fails("check k.lathe", 1, "E0621").stderr.contains("`mine`"));
}

#[test]
fn found_types_are_told_from_declared_ones() {
    let f = Folder::new();
    for (fun, code, declared, found) in [
        ("(xs: f32[N]) -> f32[N + 1] = xs |> map(|x| x * x)", "E1103", "f32[N + 1]", "f32[N]"),
        ("(xs: f32[N, M]) -> f32[M, N] = xs", "E1103", "f32[M, N]", "f32[N, M]"),
        ("(xs: f32[N]) -> i32[N] = xs |> map(|x| x * x)", "E1104", "i32[N]", "f32[N]"),
        ("(xs: f32[N]) -> f32 = xs |> map(|x| x)", "E1104", "f32", "f32[N]"),
    ] {
        f.write("f.lathe", format!("fun f{fun}\n"));
        let d = f.fails("check f.lathe", 1, code);
        assert!(d.stderr.contains(&format!("`{declared}`")), "{}", d.stderr);
        assert!(d.stderr.contains(&format!("`{found}`")), "{}", d.stderr);
    }
}

/// What a message suggests is not refused with a suggestion to go back.
#[test]
fn helps_do_not_run_in_a_circle() {
    let f = Folder::new();
    let kernel = |body: &str| {
        f.write(
            "k.lathe",
            format!("kernel k(A: f32[N], M: f32[N, N]) -> (B: f32[N], s: f32) {{ {body} }}\n"),
        );
        f.lathe("check k.lathe").stderr
    };
    let text = kernel("s = 0\n B[i] = pow(A[i], i)");
    assert!(text.contains("`f32(…)`") && !text.contains("index(…)"), "{text}");
    assert!(kernel("s = 0\n B[i] = pow(A[i], f32(i))").contains("ok"));
    let text = kernel("B[i] = A[i]\n s = sum[k](A)");
    assert!(text.contains("`A[k]`"), "{text}");
    let text = kernel("s = 0\n B[i] = sum[k](M)");
    assert!(text.contains("`M[i, k]`"), "{text}");
    let text = kernel("s = 0\n B[i] = T[i]");
    assert!(text.contains("`var T: f32[…]`") && text.contains("E0201"), "{text}");
}

#[test]
fn long_lines_are_cut() {
    let f = Folder::new();
    let long =
        format!("kernel k(A: f32[N]) -> (B: f32[N]) {{ B[i] = {}A[i] + true }}", "A[i] + ".repeat(200));
    f.write("k.lathe", &long);
    let d = f.fails("check k.lathe", 1, "E0204");
    assert!(d.stderr.lines().all(|l| l.chars().count() <= 120), "{}", d.stderr);
    assert!(d.stderr.contains("k.lathe:1:") && d.stderr.contains("true"), "{}", d.stderr);
    // Two places of one line that lie far from each other.
    let text = format!("fun f(xs: f32[N]) -> f32[N + 1] = {}xs |> map(|x| x)\n", " ".repeat(5000));
    f.write("k.lathe", text);
    let d = f.fails("check k.lathe", 1, "E1103");
    assert!(d.stderr.lines().all(|l| l.chars().count() <= 120) && d.stderr.len() < 4000, "{}", d.stderr);
    // A message that quotes what is written.
    f.write("k.lathe", format!("kernel {}() {{ }} {}", "k".repeat(100_000), "§".repeat(1000)));
    let d = f.lathe("check k.lathe");
    assert!(d.status == 1 && d.stderr.len() < 200_000, "{}", d.stderr.len());
}

#[test]
fn byte_order_marks_are_no_text() {
    let f = Folder::new();
    let mark = "\u{feff}";
    f.write("k.lathe", format!("{mark}kernel k(A: f32[N]) -> (B: f32[N]) {{ B[i] = A[i] + q }}\n"));
    let d = f.fails("check k.lathe", 1, "E0201");
    assert!(d.stderr.contains("k.lathe:1:52"), "{}", d.stderr);
    f.write(
        "k.lathe",
        format!("{mark}use \"l.lathe\"\nkernel k(A: f32[N]) -> (B: f32[N]) {{ B[i] = A[i] }}\n"),
    );
    f.write("l.lathe", format!("{mark}strategy twice = id\n"));
    f.ok("check k.lathe");
    f.ok("fmt --check k.lathe l.lathe");
    f.write("m.mdh", format!("{mark}id<T in TYPE | N in IN> :=\n    out_view<T>( O:(i)->(i) ) o md_hom<N>( id, (++) ) o inp_view<T>( I:(i)->(i) )\n"));
    f.ok("run m.mdh -D N=4 --check");
    let tree = f.ok("emit k.lathe --to tree -s naive").stdout;
    f.write("t.tree", format!("{mark}{tree}"));
    f.ok("opt t.tree");
}

#[test]
#[cfg(target_os = "linux")]
fn files_without_end_are_not_read() {
    let f = Folder::new();
    f.write("k.lathe", "use \"/dev/zero\"\nkernel k(A: f32[N]) -> (B: f32[N]) { B[i] = A[i] }\n");
    f.fails("check k.lathe", 1, "E0111");
    f.fails("check /dev/zero", 1, "E0901");
    f.fails("opt /dev/zero", 1, "E0901");
    f.fails("fmt /dev/zero", 1, "E0901");
    let big = std::fs::File::create(f.path("big.lathe")).expect("a file");
    big.set_len(1 << 33).expect("a file with a hole");
    f.fails("check big.lathe", 1, "E0901");
    f.write("k.lathe", "use \"big.lathe\"\nkernel k(A: f32[N]) -> (B: f32[N]) { B[i] = A[i] }\n");
    f.fails("check k.lathe", 1, "E0111");
}

/// `check` accepts what some engine makes code of, and nothing else.
#[test]
fn what_no_engine_takes_is_refused() {
    let f = Folder::new();
    let text = "kernel s(y: f32[1]) -> (s: f32) { s = sum[k in 0..1](y[k]) }\nstrategy fast for s = vectorize(k, 16)\n";
    f.write("s.lathe", text);
    let (check, run) = (f.lathe("check s.lathe"), f.lathe("run s.lathe -s fast"));
    assert_eq!((check.status, run.status), (1, 1), "{}{}", check.stderr, run.stderr);
    assert!(check.stderr.starts_with("E0701") || check.stderr.starts_with("E0702"), "{}", check.stderr);
    // A size that no array tells: for other funs only.
    f.write("h.lathe", "fun edge(i: idx<N>) -> f32 = select(index(i) < N - 1, 1.0, 0.0)\nfun all(x: f32[N]) -> f32[N] = generate(N, edge)\n");
    let d = f.ok("check h.lathe");
    assert!(d.stderr.contains("1 kernel, 1 fun used by others"), "{}", d.stderr);
    // For a device that this build has no engine for: said, and no mistake of the author.
    f.write(
        "d.lathe",
        "kernel k(A: f32[N]) -> (B: f32[N]) { B[i] = A[i] }\nstrategy t for k = bind(i, node)\n",
    );
    let d = f.ok("check d.lathe");
    assert!(d.stderr.contains("E0701") && d.stderr.contains("ok"), "{}", d.stderr);
}

/// Steps that rely on a law that was only tested are counted wherever there is JSON.
#[test]
fn what_is_only_tested_is_counted() {
    let f = Folder::new();
    f.write(
        "s.lathe",
        "op lse(a: f64, b: f64) -> f64 associative commutative identity(-inf) = select(max(a, b) == -inf, -inf, \
         max(a, b) + log(exp(a - max(a, b)) + exp(b - max(a, b))))\n\
         kernel s(x: f64[N]) -> (s: f64) { s = lse[k](x[k]) }\n\
         strategy fast for s = split(k, 16) ; factor(s, k.i)\n",
    );
    let of_run = parsed(&f.ok("run s.lathe -s fast -D N=64 --json"))["evidence"]["tested"].clone();
    let of_check = parsed(&f.ok("check s.lathe --json"))["files"][0]["tested"].clone();
    assert!(of_run.as_u64() > Some(0), "{of_run}");
    assert_eq!(of_check, of_run);
}

/// A help leads to a program that is accepted, and says something else than what was given.
#[test]
fn helps_lead_on() {
    let f = Folder::new();
    let kernel = |body: &str| {
        let head = "kernel f(x: f32[N], n: index) -> (y: f32[N], z: bool[N])";
        format!("{head} {{ {body} }}")
    };
    let helped = |body: &str, code: &str, quoted: &str| {
        f.write("f.lathe", kernel(body));
        let d = f.fails("check f.lathe", 1, code);
        assert!(d.stderr.contains(quoted), "{}", d.stderr);
    };
    helped("z[i] = x[i] and true", "E0204", "`a != 0`");
    helped("z[i] = x[i] and x[i]", "E0206", "`a != 0`");
    helped("y[i] = x[i] % x[i]", "E0206", "`floormod(a, b)`");
    helped("for i in 0..N step n { y[i] = x[i] }", "E0219", "// s");
    helped("for i in 0..N step -1 { y[i] = x[i] }", "E0219", "- 1 - y");
    f.write("f.lathe", kernel("z[i] = x[i] != 0 and true\n y[i] = floormod(x[i], x[i])"));
    f.ok("check f.lathe");
    // Numbers of another type than the scalar's.
    npy::write(&f.path("n32.npy"), &Array::scalar(2i32).expect("an array")).expect("a file");
    npy::write(&f.path("n64.npy"), &Array::scalar(2i64).expect("an array")).expect("a file");
    let d = f.fails("run f.lathe -D N=4 -i n=n32.npy", 1, "E0906");
    assert!(d.stderr.contains("`i64`"), "{}", d.stderr);
    f.ok("run f.lathe -D N=4 -i n=n64.npy");
    // No step of the library is missing where the user's own is in the wrong place.
    let fun =
        "fun g(x: f32[N]) -> f32[N] = x |> map(|a| a + 1)\nstrategy mine = id\nstrategy all_of = auto\n";
    for after in ["auto", "mine ; auto", "mdh()", "all_of"] {
        f.write("g.lathe", format!("{fun}strategy q for g = lowerToC ; lower ; {after}\n"));
        f.fails("run g.lathe -s q -D N=4", 1, "E1116");
    }
    f.write("g.lathe", format!("{fun}strategy q for g = auto\n"));
    f.ok("run g.lathe -s q -D N=4 --check");
}
