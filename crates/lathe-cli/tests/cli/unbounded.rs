//! Input that asks for more work than anyone waits for: each ends soon, with a message.

use crate::common::Folder;

const COPY: &str = "kernel k(A: f32[N]) -> (B: f32[N]) { B[i] = A[i] }\n";
const MAP: &str = "fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x + 1)\n";

/// A text per number, one after the other.
fn many(n: usize, text: impl Fn(usize) -> String) -> String {
    (0..n).map(text).collect()
}

#[test]
fn strategies_that_grow_or_branch_without_end() {
    let f = Folder::new();
    let doubling = |first: &str| {
        let calls = many(60, |n| format!("strategy a{} = a{n} ; a{n}\n", n + 1));
        format!("{COPY}strategy a0 = {first}\n{calls}strategy s for k = a60\n")
    };
    for (text, code) in [
        (format!("{COPY}strategy s for k = repeat(peel(i))\n"), "E0608"),
        (format!("{COPY}strategy s for k = normalize(peel(i))\n"), "E0608"),
        (doubling("id"), "E0608"),
        (doubling("if N > 4 then id else try(peel(i))"), "E0608"),
        (doubling("split(i, 2)"), "E0621"),
        (doubling("reverse(i)"), "E0608"),
        (format!("{MAP}rule grow(x): x => x * 1\nstrategy s for f = normalize(grow) ; lowerToC\n"), "E0608"),
        (format!("{COPY}strategy s for k = unroll(i, 60000)\n"), "E0625"),
        (format!("{}strategy s for k = unroll(i)\n", COPY.replace('N', "60000")), "E0625"),
        (
            "kernel k(A: f32[N, 100, 100]) -> (B: f32[N, 100, 100]) { B[i, j, l] = A[i, j, l] }\n\
             strategy s for k = unroll(j) ; unroll(l)\n"
                .to_string(),
            "E0625",
        ),
    ] {
        f.write("k.lathe", &text);
        let d = f.lathe("check k.lathe");
        assert!(d.status == 1 && d.stderr.contains(code), "{}", d.stderr);
        let d = f.fails("explain k.lathe -s s", 1, code);
        assert!(d.stderr.len() < 5000, "{}", d.stderr);
    }
}

#[test]
fn many_alternatives() {
    let f = Folder::new();
    let all: Vec<String> = (0..20_000).map(|n| format!("split(q, {})", n + 2)).collect();
    f.write("k.lathe", format!("{COPY}strategy s for k = {}\n", all.join(" <+ ")));
    let d = f.fails("check k.lathe", 1, "E0621");
    assert!(d.stderr.len() < 5000 && d.stderr.contains("19999"), "{}", d.stderr);
}

#[test]
fn large_types() {
    let f = Folder::new();
    let kernel = "kernel k(A: S60[N]) -> (B: S60[N]) { B[i] = A[i] }\n";
    let doubling = many(60, |n| format!("struct S{} {{ a: S{n}, b: S{n} }}\n", n + 1));
    f.write("k.lathe", format!("struct S0 {{ x: f32, y: f32 }}\n{doubling}{kernel}"));
    assert!(f.lathe("check k.lathe").stderr.starts_with("E0106"));
    let nested = many(60, |n| format!("struct S{} {{ a: S{n} }}\n", n + 1));
    f.write("k.lathe", format!("struct S0 {{ x: f32, y: i8 }}\n{nested}{kernel}"));
    f.ok("run k.lathe -D N=5 --check");
    let deep = many(5000, |n| format!("struct S{} {{ a: S{n} }}\n", n + 1));
    f.write("k.lathe", format!("struct S0 {{ x: f32, y: i8 }}\n{deep}{kernel}"));
    assert!(f.lathe("check k.lathe").stderr.starts_with("E0106"));
    f.write("k.lathe", format!("kernel k(A: ({})[N]) -> (s: f32) {{ s = 0 }}\n", "f32, ".repeat(2000)));
    f.fails("check k.lathe", 1, "E0106");
}

#[test]
fn many_parameters() {
    let f = Folder::new();
    let params = many(3000, |n| format!("A{n}: f32[N], "));
    f.write("k.lathe", format!("kernel k({params}) -> (B: f32[N]) {{ B[i] = A0[i] + A2999[i] }}\n"));
    f.fails("check k.lathe", 1, "E0106");
    let params = many(3000, |n| format!("p{n} = 2 in 1..=4, "));
    f.write("k.lathe", format!("{COPY}strategy s({params}) for k = split(i, p0)\n"));
    f.ok("check k.lathe");
    f.ok("run k.lathe -s s -D N=9 --check");
}

#[test]
fn many_errors() {
    let f = Folder::new();
    let wrong = many(400, |n| format!("kernel k{n}(x: f32[N]) -> (y: f32[N]) {{ y[i] = q{n}[i] }}\n"));
    f.write("k.lathe", wrong);
    let errors = |d: &crate::common::Done| d.stderr.matches('×').count();
    let d = f.lathe("check k.lathe");
    assert!(d.status == 1 && errors(&d) == 20, "{}", d.stderr);
    assert!(d.stderr.contains("380"), "{}", d.stderr);
    // Programs that read them get all.
    assert_eq!(errors(&f.lathe("check k.lathe --json")), 400);
}

#[test]
fn derivatives_of_derivatives() {
    let f = Folder::new();
    let kernel = "kernel d0(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] * x[i] * x[i] }\n";
    let nested = many(39, |n| format!("kernel d{} = vjp(d{n})\n", n + 1));
    f.write("k.lathe", format!("{kernel}{nested}"));
    let d = f.lathe("check k.lathe");
    assert!(d.status == 1 && d.stderr.starts_with("E1305"), "{}", d.stderr);
}

/// Each is cheap; together they were not.
#[test]
fn many_kernels_and_many_rules() {
    let f = Folder::new();
    let kernels = many(300, |n| format!("kernel k{n}(x: f32[N]) -> (y: f32[N]) {{ y[i] = x[i] * {n} }}\n"));
    f.write("k.lathe", kernels);
    f.ok("check k.lathe");
    let rules = many(200, |n| format!("rule r{n}(a): a + {n} * 1 => a + 1 * {n}\n"));
    f.write("r.lathe", format!("{COPY}{rules}"));
    f.ok("check r.lathe");
}

#[test]
fn squares_of_squares() {
    let f = Folder::new();
    let squares = many(12, |n| format!("        let v{} = v{n} * v{n}\n", n + 1));
    let body = format!("        let v0 = n\n{squares}        y[i] = x[i] + f32(v12)\n");
    f.write(
        "k.lathe",
        format!("kernel k(n: index, x: f32[N]) -> (y: f32[N]) {{\n    for i in 0..N {{\n{body}    }}\n}}\n"),
    );
    f.ok("check k.lathe");
}

/// A chain of definitions that each use the one before twice: as many parts as links, and `2^links` ways to get to them.
fn chain(first: &str, link: &str) -> String {
    let links = many(59, |n| format!("let a{} = {}\n", n + 1, link.replace('@', &format!("a{n}"))));
    format!("let a0 = {first}\n{links}")
}

#[test]
fn chains_of_definitions() {
    let f = Folder::new();
    let kernel = |lets: &str, body: &str, strategy: &str| {
        format!(
            "kernel k(x: f32[N]) -> (y: f32[N]) {{\nfor i in 0..N {{\ny[i] = 0\n{lets}{body}\n}}\n}}\n\
             strategy s for k = {strategy}\n"
        )
    };
    let half = "(@ + @ // 2) // 2";
    for (first, link, body, strategy) in [
        ("i", "@ + @", "y[i] = x[min(max(a59, 0), N - 1)]", "split(i, 8)"),
        ("i", "min(@ + @, N - 1)", "y[i] = x[max(a59, 0)]", "parallel(i)"),
        ("i < 3", "(@ and i > 1) or not @", "if a59 { y[i] = x[i] }", "split(i, 8)"),
        ("i", "select(@ > 3, @ - 1, @ + 1)", "y[i] = x[max(0, min(a59, N - 1))]", "split(i, 8)"),
        ("x[i]", "select(@ > 0.5, @ * 0.5, @ + 1.0)", "y[i] = a59", "vectorize(i, 8)"),
        ("x[i]", "@ * @ + 0.5 * @", "y[i] += a59", "vectorize(i, 8)"),
        ("i", half, "y[i] = x[max(0, min(a59, N - 1))]", "split(i, 8)"),
    ] {
        f.write("k.lathe", kernel(&chain(first, link), body, strategy));
        let d = f.lathe("check k.lathe");
        assert!(d.status == 0 || d.stderr.starts_with('E'), "{link}: {}", d.stderr);
        assert!(d.stderr.len() < 20_000, "{link}");
        // A text of the tree has the chain once for each check of a link.
        let tree = f.ok("emit k.lathe:k --to tree -s s").stdout;
        assert!(tree.len() < 150_000, "{link}: {}", tree.len());
        f.write("k.tree", &tree);
        let again = f.ok("fmt k.tree --check");
        assert!(again.stderr.is_empty(), "{}", again.stderr);
    }
}

#[test]
fn loops_that_are_split_again_and_again() {
    let f = Folder::new();
    let steps: Vec<String> = (0..200).map(|n| format!("split(i{}, 2)", ".o".repeat(n))).collect();
    f.write("k.lathe", format!("{COPY}strategy s for k = {}\n", steps.join(" ; ")));
    let d = f.lathe("check k.lathe");
    assert!(d.status == 1 && d.stderr.contains("E06"), "{}", d.stderr);
}

#[test]
fn chains_of_choices() {
    let f = Folder::new();
    let chain = many(60, |n| format!("        let a{} = select(x[i] > {n}, a{n} + 1, a{n} * 2)\n", n + 1));
    f.write(
        "k.lathe",
        format!(
            "kernel k(x: i32[N], out: inout i32[N]) {{\n    for i in 0..N {{\n        let a0 = x[i]\n{chain}        \
             if a60 > 3 {{ out[i] = a60 }}\n    }}\n}}\nstrategy s for k = split(i, 8)\n"
        ),
    );
    f.ok("check k.lathe");
}
