//! Rules are decided: right ones are accepted, the library's are proved, and mutants of right ones (one rare value, one
//! special value, one type, one position) are refused.

use lathe_diagnostics::{Diagnostic, FileId, Span};
use lathe_pattern::decide::{Decision, decide_rule, proves};
use lathe_pattern::rules::{EQUATIONS, STATED, parse_equations};
use lathe_strategy::{Entry, StepArg};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Each rule is decided once.
fn decided(text: &str) -> Result<Decision, Diagnostic> {
    static KNOWN: Mutex<BTreeMap<String, Result<Decision, Diagnostic>>> = Mutex::new(BTreeMap::new());
    let lock = || KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = lock().get(text) {
        return known.clone();
    }
    let rule = parse_equations(text).unwrap_or_else(|d| panic!("{text}: {d}")).remove(0);
    let out = decide_rule(&rule, Span::new(FileId(0), 0, 1));
    lock().insert(text.to_string(), out.clone());
    out
}

/// Right rules of scalars whose sides take every value of their type: where a mutant differs, so do the sides.
const SCALARS: [(&str, &str, &str); 12] = [
    ("x", "neg(neg(x))", "x"),
    ("x, y", "x + y", "y + x"),
    ("x, y", "x * y", "y * x"),
    ("x, y, z", "select(not (x < y), z, x)", "select(x < y, x, z)"),
    ("x", "x * 1", "x"),
    ("x", "x - 0", "x"),
    ("x, y", "select(x < y, x, y)", "select(y > x, x, y)"),
    ("x, y, z", "select(x < y, z, x)", "select(y > x, z, x)"),
    ("x, y", "min(x, y)", "min(y, x)"),
    ("x, y, z", "select(x == y, z, y)", "select(y == x, z, y)"),
    ("x", "x / 1.0", "x"),
    ("x", "fst((x, x))", "x"),
];

/// Right rules of arrays, for all functions and sizes.
const ARRAYS: [(&str, &str, &str); 16] = [
    ("f, g", "map(g) >> map(f)", "map(g >> f)"),
    ("f, g", "map(|x| f(g(x)))", "map(g) >> map(f)"),
    ("f, N", "map(f)", "split(N) >> map(map(f)) >> join"),
    ("f", "transpose >> map(map(f))", "map(map(f)) >> transpose"),
    ("f, N", "split(N) >> map(map(f))", "map(f) >> split(N)"),
    ("f", "join >> map(f)", "map(map(f)) >> join"),
    ("f, A, B", "map(f) >> slide(A, B)", "slide(A, B) >> map(map(f))"),
    ("f, A", "map(f) >> slide(A, 1)", "circularBuffer(A, A, f)"),
    ("f, x, y", "map(f, concat(x, y))", "concat(map(f, x), map(f, y))"),
    ("x, y", "map(|p| (p.1, p.0), zip(x, y))", "zip(y, x)"),
    ("f, x, y", "zip(map(f, x), y)", "map(|p| (f(p.0), p.1), zip(x, y))"),
    ("f, o, z", "map(f) >> reduceSeq(o, z)", "reduceSeq(|a, y| o(a, f(y)), z)"),
    ("o, z, N", "reduceSeq(o, z)", "split(N) >> reduceSeq(|a, c| reduceSeq(o, a, c), z)"),
    ("x", "x |> transpose |> transpose", "x"),
    ("f, N", "map(f) >> take(N)", "take(N) >> map(f)"),
    ("x", "x |> pad(1, 1, clamp) |> drop(1) |> take(4)", "x |> pad(0, 1, clamp) |> take(4)"),
];

fn rule((metas, left, right): (&str, &str, &str)) -> String {
    format!("rule r({metas}): {left} => {right}")
}

/// The seven that once passed.
#[test]
fn rules_that_random_small_values_do_not_refute_are_refused() {
    for text in [
        "rule r(x): x - x => 0",
        "rule r(x): floor(x) => x",
        "rule r(x, y): max(x, y) => select(x > y, x, y)",
        "rule r(x): (x + x) // 2 => x",
        "rule r(x): i64(i32(x)) => x",
        "rule r(x): sqrt(x * x) => abs(x)",
        "rule r(x): select(x == 37, 0, x) => x",
        "rule r(f): map(f) => map(f) >> map(|x| select(x == 37, 0, x))",
        // Few instances have one type on both sides.
        "rule r(N): take(N) >> map(|x| x + 0.0) => map(|x| x)",
        "rule r(N): drop(N) => map(|x| x + 0.0)",
        "rule r(N): slide(N, 1) >> map(|w| reduce(|a, b| a + b, 0, w)) => map(|x| x)",
        // The left side has no value for zero, and uses it.
        "rule r(x): x % x => 0",
        "rule r(x): x // x => 1",
        "rule r(x): 0 // x => 0",
        "rule r(x): i8(x) // i8(x) => i8(1)",
        "rule r(x, y): select(x // y == x // y, 1, 0) => 1",
    ] {
        let d = decided(text).expect_err(text);
        assert_eq!(d.code.0, "E1117", "{text}: {d}");
        assert!(!d.notes.is_empty(), "{text}: {d}");
    }
}

/// A literal of a pattern is one value: zeros have signs, and large integers are not rounded.
#[test]
fn literals_of_patterns_are_exact() {
    for (text, source) in [
        ("rule r(x): x - 0.0 => x", "fun f(x: f64[N]) -> f64[N] = x |> map(|v| v - (neg(0.0)))"),
        (
            "rule r(x): bitxor(x, 9007199254740992) => x",
            "fun f(x: i64[N]) -> i64[N] = x |> map(|v| bitxor(v, 9007199254740993))",
        ),
    ] {
        let p = lathe_pattern::program(&source.replace("bitxor", "xor")).unwrap_or_else(|d| panic!("{d}"));
        let e = parse_equations(&text.replace("bitxor", "xor")).expect("a rule").remove(0);
        let facts = lathe_pattern::Facts::default();
        let found =
            p.term.any(&mut |t| e.apply(t, &mut lathe_pattern::language::TermState::new(&facts)).is_ok());
        assert!(!found, "{text} on {source}");
    }
}

#[test]
fn right_rules_are_accepted_and_proved() {
    let mut tested = Vec::new();
    for r in SCALARS.into_iter().chain(ARRAYS) {
        let text = rule(r);
        match decided(&text) {
            Ok(d) if d.is_proved() => {}
            Ok(d) => tested.push(format!("{text}: {d}")),
            Err(d) => panic!("{text}: {d}"),
        }
    }
    assert!(tested.is_empty(), "{tested:#?}");
}

/// Every equation of the library holds for all sizes, types and values.
#[test]
fn equations_of_the_library_are_proved() {
    for line in EQUATIONS.lines().filter(|l| l.starts_with("rule ")) {
        let d = decided(line).unwrap_or_else(|d| panic!("{line}: {d}"));
        assert!(d.is_proved(), "{line}: {d}");
    }
}

/// Those of the binomial filter change rounding, and say so.
#[test]
fn rules_of_the_examples_are_accepted() {
    let text = include_str!("../../../../examples/patterns/binomial.lathe");
    let rules: String = text
        .split("\n\n")
        .flat_map(|part| part.split_once("rule ").map(|r| format!("rule {}\n", r.1)))
        .collect();
    let all = parse_equations(&rules).unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(all.len(), 4);
    for e in all {
        let d = decide_rule(&e, Span::new(FileId(0), 0, 1)).unwrap_or_else(|d| panic!("{}: {d}", e.name));
        assert_eq!(d.is_proved(), !e.rounds, "{}: {d}", e.name);
    }
}

#[test]
fn rules_may_hold_up_to_rounding_if_they_say_so() {
    for (metas, left, right) in [
        ("x, y, z", "(x + y) + z", "x + (y + z)"),
        ("x, y", "x * x + 2 * x * y + y * y", "(x + y) * (x + y)"),
        ("o, z, N", "reduce(o, z)", "split(N) >> map(reduce(o, z)) >> reduce(o, z)"),
    ] {
        let d = decided(&rule((metas, left, right))).expect_err(left);
        assert_eq!(d.code.0, "E1117");
        assert!(d.help.as_deref().is_some_and(|h| h.contains("rounds")), "{left}: {d}");
        let d = decided(&format!("rule r({metas}) rounds: {left} => {right}"))
            .unwrap_or_else(|d| panic!("{left}: {d}"));
        assert!(!d.is_proved() && d.rounds, "{left}: {d}");
        assert_eq!(d.laws, left.contains("reduce"), "{left}: {d}");
    }
    // Rounding does not excuse what is wrong.
    for text in [
        "rule r(x, y) rounds: x - y => y - x",
        "rule r(x) rounds: x * 1.001 => x",
        "rule r(x) rounds: select(x == 37.5, 0.0, x) => x",
        "rule r(x) rounds: x - x => 0",
    ] {
        let d = decided(text);
        assert!(d.as_ref().is_err_and(|d| d.code.0 == "E1117") || text.contains("x - x"), "{text}: {d:?}");
    }
}

/// What may have no value is not made of what has one.
#[test]
fn rules_that_compute_more_than_they_need_are_not_proved() {
    for text in [
        "rule r(f, N): take(N) >> map(f) => map(f) >> take(N)",
        "rule r(f, A): slide(A, 9) >> map(map(f)) => map(f) >> slide(A, 9)",
    ] {
        let d = decided(text).unwrap_or_else(|d| panic!("{text}: {d}"));
        assert!(!d.is_proved(), "{text}: {d}");
    }
    for text in
        ["rule r(x): x => select(1 // x == 1 // x, x, x)", "rule r(x, y): x + y => x + y + 0 * (y // x)"]
    {
        assert_eq!(decided(text).expect_err(text).code.0, "E1117", "{text}");
    }
}

/// A rule that relies on the laws of an operator is refused where it does not have them.
#[test]
fn laws_of_operators_are_asked_for_where_a_rule_is_applied() {
    let rules = "rule halves(o, z, N) rounds: reduce(o, z) => split(N) >> map(reduce(o, z)) >> reduce(o, z)";
    let e = parse_equations(rules).expect("a rule").remove(0);
    let d = decided(rules).unwrap_or_else(|d| panic!("{d}"));
    let mut words = lathe_pattern::library::vocabulary();
    lathe_pattern::library::add_decided(&mut words, [(e, d)]);
    let definitions = lathe_strategy::Definitions::new(lathe_pattern::library::definitions());
    let none = |_: &str| None;
    let context = lathe_strategy::Context::new(&definitions, None, &none);
    let strategy = lathe_strategy::parse_strategy("topDown(halves(4))").expect("a strategy");
    for (op, right) in [
        ("add, 0", true),
        ("|a, b| a + b, 0", true),
        ("|a, b| b + a, 0", true),
        ("max, -inf", true),
        ("add, 1", false),
        ("sub, 0", false),
        ("|a, b| min(a + b, 100.0), 0", false),
        ("|a, b| select(a == 37.0, b, a + b), 0", false),
    ] {
        let op = op.replace("-inf", "neg(1.0 / 0.0)");
        let p = lathe_pattern::program(&format!("fun f(x: f32[N]) -> f32 = x |> reduce({op})"))
            .unwrap_or_else(|d| panic!("{op}: {d}"));
        let state = lathe_pattern::language::TermState::new(&p.facts);
        let out = lathe_strategy::rewrite(&context, &words, &strategy, p.term.clone(), state);
        assert_eq!(out.is_ok(), right, "{op}: {:?}", out.err().map(|r| r.diagnostic.to_string()));
    }
}

/// Mutants of right rules.
fn wrong_rules() -> Vec<String> {
    let mut out = Vec::new();
    let rare = ["37", "93", "77", "11"];
    for (k, (metas, left, right)) in SCALARS.into_iter().enumerate() {
        let first = metas.split(',').next().unwrap_or("x").trim();
        let float = left.contains("1.0");
        let mut add = |right: String| out.push(rule((metas, left, &right)));
        let number = |c: &str| if float { format!("{c}.5") } else { c.to_string() };
        for c in [rare[k % 4], rare[(k + 1) % 4]] {
            let c = number(c);
            // One rare value, of the result or of an argument.
            add(format!("select({right} == {c}, {right} + 1, {right})"));
            add(format!("select({first} == {c}, {right} - 1, {right})"));
            add(format!("{right} + select({first} == {c}, 1, 0)"));
            // Two at once.
            add(format!("select({first} > {c} and {first} < {c} + 2, {right} + 1, {right})"));
        }
        // One special value: the least, the greatest, NaN, a zero with a sign.
        if !float {
            add(format!("select({first} + 1 < {first}, {right} - 1, {right})"));
        }
        add(format!("select({first} - 1 > {first} or {first} + 1 == {first}, {right} * 2 + 1, {right})"));
        add(format!("select({first} * 3 // 3 == {first}, {right}, {right} + 1)")
            .replace("//", if float { "/" } else { "//" }));
        add(format!("max({right}, {})", if float { "-1000000.0" } else { "-100" }));
        add(format!("min({right}, {})", if float { "30000.0" } else { "120" }));
        // One type.
        add(format!("abs({right})"));
        add(format!("({right} + {right}) {} 2", if float { "/" } else { "//" }));
        add(format!("{right} + 1 - 1 + {}", if float { "0.001" } else { "(0 - 1) * (0 - 1)" }));
    }
    // Conversions there and back through what is narrower.
    let types = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"];
    for wide in types {
        for narrow in types {
            let bits =
                |t: &str| t.trim_start_matches(|c: char| c.is_alphabetic()).parse::<u32>().unwrap_or(16);
            if bits(narrow) < bits(wide)
                || (wide.starts_with('f') != narrow.starts_with('f')
                    && !narrow.starts_with('b')
                    && bits(narrow) <= bits(wide))
                    && wide != "bf16"
            {
                out.push(format!("rule r(x): {wide}({narrow}(x)) => x"));
            }
        }
    }
    for (metas, left, right) in ARRAYS {
        let tail = |t: &str| match right.contains("|>") {
            true => format!("{right} |> {t}"),
            false if metas.contains('x') => format!("({right}) |> {t}"),
            false => format!("{right} >> {t}"),
        };
        let mut add = |right: String| out.push(rule((metas, left, &right)));
        if right.contains("reduce") {
            add(right.replace(", z)", ", o(z, z))"));
            add(right.replace("reduceSeq(|a", "drop(1) >> reduceSeq(|a"));
            continue;
        }
        // One element: the last becomes the first, all go backwards, one stands for another.
        add(tail("pad(0, 1, clamp) |> drop(1)")
            .replace(">> pad(0, 1, clamp) |> drop(1)", ">> pad(0, 1, clamp) >> drop(1)"));
        add(tail("pad(1, 0, wrap) |> take(3)")
            .replace(">> pad(1, 0, wrap) |> take(3)", ">> pad(1, 0, wrap) >> take(3)"));
        if right.matches("map(f)").count() > 0 {
            add(right.replace("map(f)", "map(f) >> map(f)"));
            add(right.replace("map(f)", "map(|v| select(f(v) == 37, f(v) + 1, f(v)))"));
        }
        if right.contains("slide(A, B)") {
            add(right.replace("map(map(f))", "map(gather(|i| i)) >> map(transpose)"));
            add(right.replace("map(map(f))", "map(map(f) >> pad(0, 1, wrap) >> drop(1))"));
        }
    }
    out
}

/// Wrong in few places: sizes larger than others, a second rounding, a small constant, a narrower type on the way.
const RARELY_WRONG: [&str; 12] = [
    "rule r(xs, N, M): pad(N, M, mirror, xs) => pad(0, M, mirror, pad(N, 0, mirror, xs))",
    "rule r(x): f16(f32(x)) => f16(x)",
    "rule r(x): bf16(f32(x)) => bf16(x)",
    "rule r(x): f32(f64(i64(x))) => f32(i64(x))",
    "rule r(xs) rounds: reduceSeq(add, 0, xs) => reduceSeq(add, 0.000001, xs)",
    "rule r(xs) rounds: reduceSeq(add, 0, xs) => reduceSeq(add, 0.00000001, xs)",
    "rule r(xs) rounds: reduceSeq(add, 0, xs) => reduceSeq(add, 0, xs) + 0.00000001",
    "rule r(xs) rounds: reduceSeq(mul, 1, xs) => reduceSeq(mul, 1, xs) * (1.0 + 0.00000001)",
    "rule r(x) rounds: f64(f16(x)) => f64(x)",
    "rule r(x) rounds: f32(f16(x)) => f32(bf16(x))",
    "rule r(x) rounds: f64(f32(x)) => f64(x)",
    "rule r(x, y) rounds: f64(f32(x) + f32(y)) => f64(x) + f64(y)",
];

#[test]
fn rules_that_are_rarely_wrong_are_refused() {
    for text in RARELY_WRONG {
        assert!(decided(text).is_err(), "{text}: {}", decided(text).unwrap());
    }
}

#[test]
fn mutants_of_right_rules_are_refused() {
    let all = wrong_rules();
    let (mut proved, mut tested, mut refused) = (Vec::new(), Vec::new(), 0);
    for text in &all {
        let Ok(rules) = parse_equations(text) else {
            refused += 1;
            continue;
        };
        match decide_rule(&rules[0], Span::new(FileId(0), 0, 1)) {
            Ok(d) if d.is_proved() => proved.push(text),
            Ok(d) => tested.push(format!("{text}: {d}")),
            Err(_) => refused += 1,
        }
    }
    assert!(all.len() >= 300, "{}", all.len());
    assert!(proved.is_empty(), "{proved:#?}");
    println!("{} wrong rules: {refused} refused, {} tested", all.len(), tested.len());
    assert!(100 * tested.len() <= all.len(), "{refused} refused, {} tested: {tested:#?}", tested.len());
}

/// The rules of the library that are code do what is stated of them, and that is proved.
#[test]
fn rules_that_are_code_do_what_is_stated_of_them() {
    let words = lathe_pattern::library::vocabulary();
    let mut wrong = Vec::new();
    for (name, how, text) in STATED.iter().filter(|s| !s.2.is_empty()) {
        let e = parse_equations(text).unwrap_or_else(|d| panic!("{name}: {d}")).remove(0);
        let d = decided(text).unwrap_or_else(|d| panic!("{name}: {d}"));
        if !how.is_empty() {
            continue;
        }
        if !d.is_proved() {
            wrong.push(format!("{name} is {d}"));
        }
        let Some(Entry::Rule(code)) = words.get(name) else { panic!("there is no rule `{name}`") };
        // The size of what is cut is that of the cut; lanes are so many.
        let sizes = if e.arguments.is_empty() { e.sizes() } else { e.arguments.clone() };
        let numbers: &[i64] = if *name == "vectorize" { &[1, 2, 3, 8, 16] } else { &[0] };
        for number in numbers {
            let args: Vec<StepArg> = sizes.iter().map(|n| argument(n, *number)).collect();
            match proves(&e, &|t, state| code(t, state, &args)) {
                Some(true) => {}
                Some(false) => wrong.push(format!("{name}: what the code makes is not seen to be equal")),
                None => wrong.push(format!("{name} does not apply to what is stated of it")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A size by its name, or a number that is not 0.
fn argument(n: &str, number: i64) -> StepArg {
    let value = match number {
        0 => lathe_space::Expr::Name(n.to_string()),
        n => lathe_space::Expr::Value(lathe_space::Value::Int(n)),
    };
    StepArg { name: None, value, span: None }
}

/// The table of all rules with why they hold, `docs/rules.md`, is up to date (`LATHE_BLESS=1` writes it).
#[test]
fn the_table_of_rules_is_up_to_date() {
    let mut out = String::from(
        "# Rules over terms, and why they hold\n\nMade by a test of `lathe-pattern`, which proves them. An equation is proved for all sizes, types and values; \
         of a rule\nthat is code, what it makes of such a term is proved to be equal to it.\n\n| rule | equation | why it holds |\n|---|---|---|\n",
    );
    let mut row = |name: &str, equation: &str, why: &str| {
        let equation = equation.split_once(':').map_or("", |e| e.1).trim().replace('|', "\\|");
        let equation = if equation.is_empty() { String::new() } else { format!("`{equation}`") };
        out += &format!("| `{name}` | {equation} | {why} |\n");
    };
    for line in EQUATIONS.lines().filter(|l| l.starts_with("rule ")) {
        let name = line["rule ".len()..].split(['(', ':']).next().unwrap_or("");
        row(name, line, &decided(line).unwrap_or_else(|d| panic!("{name}: {d}")).to_string());
    }
    let words = lathe_pattern::library::vocabulary();
    for (name, how, text) in STATED {
        assert!(words.get(name).is_some(), "there is no rule `{name}`");
        let why = match how.is_empty() {
            false => how.to_string(),
            true if text.is_empty() => "tested on random terms".to_string(),
            true => decided(text).unwrap_or_else(|d| panic!("{name}: {d}")).to_string(),
        };
        row(name, text, &why);
    }
    // None is missing.
    let kinds = ["parallel", "toMap", "toReduce", "toScan", "toIterate"];
    let known = |n: &str| {
        STATED.iter().any(|s| s.0 == n)
            || EQUATIONS.contains(&format!("rule {n}("))
            || EQUATIONS.contains(&format!("rule {n}:"))
            || kinds.iter().any(|k| n.starts_with(k))
    };
    let missing: Vec<&str> = words
        .names()
        .filter(|n| matches!(words.get(n), Some(Entry::Rule(_) | Entry::Tested(_))) && !known(n))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rules.md");
    if std::env::var_os("LATHE_BLESS").is_some() {
        std::fs::write(path, &out).expect("docs/rules.md");
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), out, "LATHE_BLESS=1 cargo test");
}

/// Laws are asked of what stands at the place of a literal, of a tuple or of a lambda, too; an operator of a pattern that
/// depends on what the rule binds has none.
#[test]
fn laws_are_asked_for_whatever_stands_in_the_pattern() {
    for (rule, fun, right) in [
        (
            "rule r(o): reduce(o, 0) => reduce(|a, b| o(b, a), 0)",
            "f(x: i32[N]) -> i32 = x |> reduce(|a, b| a * 2 - b, 0)",
            false,
        ),
        (
            "rule r(o): reduce(o, 0) => reduce(|a, b| o(b, a), 0)",
            "f(x: i32[N]) -> i32 = x |> reduce(add, 0)",
            true,
        ),
        (
            "rule r(o): scan(o, 0) => scan(|a, b| o(b, a), 0)",
            "f(x: i32[N]) -> i32[N] = x |> scan(|a, b| a * 2 - b, 0)",
            false,
        ),
        (
            "rule r(o): scan(o, 0) => scan(|a, b| o(b, a), 0)",
            "f(x: i32[N]) -> i32[N] = x |> scan(add, 0)",
            true,
        ),
        (
            "rule r(o, y, z): reduce(o, (y, z)) => reduce(|a, b| o(b, a), (y, z))",
            "f(x: (i32, i32)[N]) -> (i32, i32) = x |> reduce(|a, b| (a.0 * 2 - b.0, b.1 - a.1), (3, 4))",
            false,
        ),
    ] {
        let e = parse_equations(rule).expect("a rule").remove(0);
        let d = decided(rule).unwrap_or_else(|d| panic!("{rule}: {d}"));
        let proved = d.is_proved();
        let mut words = lathe_pattern::library::vocabulary();
        lathe_pattern::library::add_decided(&mut words, [(e, d)]);
        let definitions = lathe_strategy::Definitions::new(lathe_pattern::library::definitions());
        let none = |_: &str| None;
        let context = lathe_strategy::Context::new(&definitions, None, &none);
        let strategy = lathe_strategy::parse_strategy("topDown(r)").expect("a strategy");
        let p = lathe_pattern::program(&format!("fun {fun}")).unwrap_or_else(|d| panic!("{fun}: {d}"));
        let state = lathe_pattern::language::TermState::new(&p.facts);
        let out = lathe_strategy::rewrite(&context, &words, &strategy, p.term.clone(), state);
        assert_eq!(
            out.is_ok(),
            right && !proved,
            "{rule} on {fun}: {:?}",
            out.err().map(|r| r.diagnostic.to_string())
        );
    }
}
