//! What users write themselves: patterns as funs that take funs, orders of loops by name, strategies over strategies.

use crate::support::agree_on;
use lathe_pattern::eval::sizes;
use lathe_pattern::library::transform;
use lathe_pattern::{Program, Term, TermKind, program};

const STENCIL: &str = "
fun map2<S, T>(f: S -> T, x: S[N, M]) -> T[N, M] = x |> map(map(f))
fun pad2<T>(x: T[N, M]) -> T[N + 2, M + 2] = x |> map(pad(1, 1, clamp)) |> pad(1, 1, clamp)
fun slide2<T>(x: T[N + 2, M + 2]) -> T[N, M, 3, 3] = x |> map(slide(3, 1)) |> slide(3, 1) |> map(transpose)
fun stencil2<S, T>(f: S[3, 3] -> T, x: S[N, M]) -> T[N, M] = map2(f, slide2(pad2(x)))
";

const CROSS: &str = "w[0][1] + w[1][0] + w[1][2] + w[2][1] - 4 * w[1][1]";

/// The program as it stands gives what the evaluator says.
fn agree(text: &str, at: &[(&str, i64)]) {
    let p = program(text).unwrap_or_else(|d| panic!("{text}: {d}"));
    naively(&p, at);
}

fn naively(p: &Program, at: &[(&str, i64)]) {
    let (p, _) = transform(p, "naive").unwrap_or_else(|d| panic!("{}: {d}", p.term));
    for seed in 1..4 {
        agree_on(&p, &sizes(at.iter().copied()), seed);
    }
}

/// A stencil of a user's own patterns is the one that is written out, at several types.
#[test]
fn patterns_of_users_are_written_in_place() {
    for ty in ["f32", "i32", "f64"] {
        let own = format!("{STENCIL}fun f(x: {ty}[N, M]) -> {ty}[N, M] = stencil2(|w| {CROSS}, x)");
        agree(&own, &[("N", 4), ("M", 5)]);
        agree(&own, &[("N", 1), ("M", 1)]);
        let plain = format!(
            "fun f(x: {ty}[N, M]) -> {ty}[N, M] = x |> map(pad(1, 1, clamp)) |> pad(1, 1, clamp) \
             |> map(slide(3, 1)) |> slide(3, 1) |> map(transpose) |> map(map(|w| {CROSS}))"
        );
        let normal = |text: &str| {
            let p = program(text).unwrap_or_else(|d| panic!("{text}: {d}"));
            transform(&p, "BENF").unwrap_or_else(|d| panic!("{d}")).0.term
        };
        assert_eq!(normal(&own).to_string(), normal(&plain).to_string());
    }
    // One fun at two types, a fun by its name, and types that change.
    agree(
        &format!(
            "{STENCIL}fun up(x: f32) -> f64 = f64(x) + 1\n\
             fun f(x: f32[N, M]) -> (f64[N, M], f32[N, M]) = (map2(up, x), map2(|v| v + 2, x))"
        ),
        &[("N", 2), ("M", 3)],
    );
}

fn refusal(text: &str) -> &'static str {
    match program(text) {
        Ok(p) => panic!("{text} is {}", p.term.ty()),
        Err(d) => d.code.0,
    }
}

#[test]
fn misuse_of_patterns_of_users_is_refused() {
    for (fun, code) in [
        ("fun f(x: f32[N]) -> f32[N] = map2(|v| v + 1, x)", "E1104"),
        ("fun f(x: f32[N, M]) -> f32[N, M] = stencil2(|w| w[1], x)", "E1104"),
        ("fun f(x: f32[N, M]) -> f32[N, M] = map2(x, x)", "E1104"),
        // Nothing says what `q` is.
        ("fun g<T>(h: T -> f32, x: f32[N]) -> f32[N] = x\nfun f(x: f32[N]) -> f32[N] = g(|q| 1, x)", "E1106"),
        // An open type is not known to be a number.
        ("fun f<T>(x: T[N]) -> T[N] = x |> map(|v| v + 1)", "E1104"),
        ("fun f(x: T[N]) -> T[N] = x", "E1102"),
        ("fun f<T>(x: f32[N]) -> f32[N] = x", "E1106"),
        ("fun f<T, T>(x: T[N]) -> T[N] = x", "E1108"),
        ("fun f<f32>(x: f32[N]) -> f32[N] = x", "E1108"),
        ("fun f<N>(x: N[N]) -> N[N] = x", "E1108"),
    ] {
        assert_eq!(refusal(&format!("{STENCIL}{fun}")), code, "{fun}");
    }
    // They are not kernels by themselves.
    for f in ["fun f<T>(x: T[N]) -> T[N] = x", "fun f(g: f32 -> f32, x: f32) -> f32 = g(x)"] {
        let p = program(f).unwrap_or_else(|d| panic!("{d}"));
        assert_eq!(p.helps().expect(f).code.0, "E1105");
    }
    assert!(program("fun f(x: f32[N]) -> f32[N] = x").is_ok_and(|p| p.helps().is_none()));
}

/// Each of `n` functions applies the next one twice.
fn doubling(n: usize) -> String {
    let f = (0..n).fold("|z| z * v".to_string(), |f, k| format!("|x{k}| twice({f}, x{k})"));
    format!(
        "fun twice(f: f32 -> f32, x: f32) -> f32 = f(f(x))\n\
         fun f(x: f32[N]) -> f32[N] = x |> map(|v| v |> ({f}))"
    )
}

/// Texts of a few lines that stand for terms of any size are refused, wherever they grow.
#[test]
fn functions_that_double_one_another_are_refused() {
    agree(&doubling(3), &[("N", 2)]);
    // Numbers that are used twice are bound, and come to be written out in the normal form only.
    let squares = |n: usize| {
        let e = (0..n).fold("v".to_string(), |e, _| format!("square({e})"));
        format!("fun square(x: f32) -> f32 = x * x\nfun f(x: f32[N]) -> f32[N] = x |> map(|v| {e})")
    };
    agree(&squares(4), &[("N", 2)]);
    for (text, code) in [(doubling(40), "E1101"), (squares(40), "E0606")] {
        let refused = match program(&text) {
            Err(d) => d,
            Ok(p) => transform(&p, "DFNF").map(|_| ()).expect_err("too large"),
        };
        assert_eq!(refused.code.0, code, "{refused}");
    }
}

#[test]
fn funs_with_open_types_print_and_parse() {
    for text in STENCIL.lines().filter(|l| l.starts_with("fun")).take(3) {
        let p = program(text).unwrap_or_else(|d| panic!("{d}"));
        let again = lathe_pattern::print::print_fun(&p);
        assert_eq!(program(&again).unwrap_or_else(|d| panic!("{again}: {d}")).term, p.term, "{again}");
    }
}

#[test]
fn loops_are_reordered_by_the_names_of_parameters() {
    let text = "fun f(x: f32[M, N, K]) -> f32[M, N, K] = x |> map(|i| i |> map(|j| j |> map(|k| k + 1)))";
    let p = program(text).unwrap_or_else(|d| panic!("{d}"));
    let apply = |s: &str| transform(&p, s).unwrap_or_else(|d| panic!("{s}: {d}")).0;
    for (names, numbers) in [("j, i", "2, 1"), ("k, i, j", "3, 1, 2"), ("i, k, j", "1, 3, 2"), ("i", "1")] {
        let term = |l: &str| apply(&format!("DFNF ; reorder({l})")).term;
        assert_eq!(term(names), term(numbers), "{names}");
    }
    // Loops keep their names: what was reordered can be reordered again, and is then what it was but for layout.
    let there = apply("DFNF ; reorder(j, i, k) ; reorder(i, j, k) ; normalize(transposeTranspose)");
    assert_eq!(loops(&there), ["i", "j", "k"]);
    assert_eq!(loops(&apply("DFNF ; reorder(k, i, j)")), ["k", "i", "j"]);
    let refused = |s: &str| transform(&p, s).map(|_| ()).expect_err(s).code.0;
    assert_eq!(refused("DFNF ; reorder(i, q)"), "E0611");
    assert_eq!(refused("DFNF ; reorder(i, k)"), "E0611");
    for mistake in ["reorder(i, 2)", "reorder(i, i)", "reorder()", "reorder(1, 3)", "reorder(1, 1)"] {
        assert_eq!(refused(&format!("DFNF ; {mistake}")), "E0606", "{mistake}");
    }
}

/// The nest whose loops have the names is reordered, not one above it that could be.
#[test]
fn names_choose_the_nest() {
    let p = program(
        "fun f(x: f32[M, N, K]) -> f32[M, N, K] = x |> map(|a| a |> transpose |> map(|b| b |> map(|c| c + 1)) |> transpose)",
    );
    let p = p.unwrap_or_else(|d| panic!("{d}"));
    let (q, out) = transform(&p, "DFNF ; reorder(c, b)").unwrap_or_else(|d| panic!("{d}"));
    let exchanged: Vec<&[usize]> =
        out.trace.iter().filter(|a| a.rule == "exchangeMaps").map(|a| &*a.path).collect();
    assert_eq!(exchanged.len(), 1);
    assert!(exchanged[0].len() > 3, "inside of `a`: {exchanged:?}");
    naively(&q, &[("M", 2), ("N", 3), ("K", 4)]);
}

/// A product's loops after its reduction went outside, and in the tree that it becomes.
#[test]
fn reductions_keep_the_names_of_loops() {
    let mm = "fun f(a: f32[M, K], b: f32[K, N]) -> f32[M, N] = \
              a |> map(|row| transpose(b) |> map(|col| zip(row, col) |> map(|(x, y)| x * y) |> reduce(add, 0)))";
    let p = program(mm).unwrap_or_else(|d| panic!("{d}"));
    let apply = |s: &str| transform(&p, s).unwrap_or_else(|d| panic!("{s}: {d}")).0;
    let outside = apply("baseline ;; reorder(y, row, col)");
    assert_eq!(loops(&outside), ["y", "row", "col"]);
    assert_eq!(
        loops(&apply("baseline ;; reorder(row, y, col) ;; reorder(row, col, y)")),
        ["row", "col", "y"]
    );
    assert_eq!(
        loops(&apply("baseline ;; reorder(y, row, col) ;; reorder(row, y, col)")),
        ["row", "y", "col"]
    );
    let f = lathe_pattern::lower::lower(&apply("baseline ;; reorder(y, row, col) ;; lowerToC"));
    let tree = lathe_ir::text::print_function(&f.unwrap_or_else(|d| panic!("{d}")));
    let nest: Vec<&str> =
        tree.lines().filter_map(|l| l.trim().strip_prefix("for ")?.split(' ').next()).collect();
    assert!(nest.windows(3).any(|n| n == ["y", "row", "col"]), "{tree}");
}

/// The names of the first nest of several loops, from outside.
fn loops(p: &Program) -> Vec<String> {
    fn nest(t: &Term) -> Vec<String> {
        let f = match t.as_map() {
            Some((_, f, _)) => Some(f),
            None => t.as_reduce().and_then(|(_, op, ..)| op.as_lam()),
        };
        match f.map(Term::kind) {
            Some(TermKind::Lam(x, b)) => std::iter::once(x.to_string()).chain(nest(b)).collect(),
            _ => Vec::new(),
        }
    }
    let mut best = Vec::new();
    p.term.any(&mut |t| {
        let n = nest(t);
        if n.len() > best.len() {
            best = n;
        }
        false
    });
    best
}

/// Rewriting a strategy changes what it costs, and neither what it makes nor whether it fails.
#[test]
fn strategies_are_applied_to_strategies() {
    let p = program("fun f(x: f32[N]) -> f32[N] = x |> map(|v| v + 1) |> map(|v| 2 * v)").expect("a fun");
    let plain = "DFNF ; id ; topDown(mapFusion) ; id ; id";
    let (a, long) = transform(&p, plain).unwrap_or_else(|d| panic!("{d}"));
    let by = format!("rewritten(normalize(idSimplification), {plain})");
    let (b, short) = transform(&p, &by).unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(a.term, b.term);
    assert!(short.steps < long.steps, "{} steps, then {}", long.steps, short.steps);
    // A name is the strategy that it is defined as.
    let (c, named) = transform(&p, "rewritten(normalize(flatten <+ idSimplification), CNF)")
        .unwrap_or_else(|d| panic!("{d}"));
    let (d, own) = transform(&p, "CNF").unwrap_or_else(|d| panic!("{d}"));
    assert!(c.term == d.term && named.steps <= own.steps);
    let refused = |s: &str| transform(&p, s).map(|_| ()).expect_err(s).code.0;
    assert_eq!(refused("rewritten(normalize(failSimplification), fail <+ fail)"), "E0611");
    assert_eq!(refused("rewritten(flatten, id ; id)"), "E0611");
    assert_eq!(refused("rewritten(idSimplification)"), "E0605");
    assert_eq!(refused("rewritten(noSuchRule, id)"), "E0605");
    assert_eq!(refused("rewritten(1, id)"), "E0606");
}

/// Of the places where a traversal failed, the message names the one that came closest: the shape was there, and a
/// condition did not hold; of several, the outermost.
#[test]
fn a_failed_traversal_names_the_place_that_tells_most() {
    let p = program("fun f(x: f32[10, 6]) -> f32[10, 6] = x |> map(|r| r |> map(|v| v + 1))").expect("a fun");
    let d = transform(&p, "DFNF ; topDown(splitJoin(4))").map(|_| ()).expect_err("4 divides neither");
    assert_eq!(d.code.0, "E0611");
    assert!(d.message.contains("`splitJoin`") && d.message.contains("`10 % 4 == 0`"), "{d}");
}
