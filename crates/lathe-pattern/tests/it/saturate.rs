//! Equality saturation with sketches as goals.

use crate::support::{agree_on, arguments};
use lathe_pattern::check::{check, same_type};
use lathe_pattern::library::{definitions, transform, vocabulary};
use lathe_pattern::{Program, eval::evaluate, eval::sizes, language::TermState, program};
use lathe_strategy::rewrite::{evidence, replay_nodes};
use lathe_strategy::{Context, Definitions};

const MM: &str = "
fun dot(xs: f32[K], ys: f32[K]) -> f32 = zip(xs, ys) |> map(|(x, y)| x * y) |> reduce(add, 0)
fun mm(a: f32[M, K], b: f32[K, N]) -> f32[M, N] = a |> map(|row| transpose(b) |> map(|col| dot(row, col)))
";

/// Nested loops around the product that is added.
fn nest(loops: &[&str]) -> String {
    let inside = "contains(add(?, mul))".to_string();
    loops.iter().rev().fold(inside, |s, l| match l.strip_suffix(')') {
        Some(open) => format!("contains({open}, {s}))"),
        None => format!("contains({l}({s}))"),
    })
}

/// Found, of the same type and value, by steps that can be replayed; what it is, and the rules.
fn reached(text: &str, strategy: &str, s: &[(&str, i64)]) -> (Program, Vec<String>) {
    let p = program(text).unwrap();
    let (q, out) = transform(&p, strategy).unwrap_or_else(|d| panic!("{strategy}: {d}"));
    check(&q.facts, &q.term, &[]).unwrap_or_else(|d| panic!("{strategy}: {d}"));
    assert!(same_type(&q.facts, q.term.ty(), p.term.ty()));
    let s = sizes(s.iter().copied());
    let args = arguments(&p, &s, 3);
    assert_eq!(evaluate(&p, &s, &args).unwrap(), evaluate(&q, &s, &args).unwrap(), "{}", q.term);
    let rules: Vec<String> = out.trace.iter().map(|a| a.rule.clone()).collect();
    if !rules.iter().any(|r| r == "reach") {
        let record = evidence(&p.term, &out.trace, &lathe_strategy::Obligation::equation);
        let definitions = Definitions::new(definitions());
        let context = Context::new(&definitions, None, &|_: &str| None);
        let again = replay_nodes(&context, &vocabulary(), &p.term, TermState::new(&p.facts), &record)
            .unwrap_or_else(|r| panic!("{}", r.diagnostic));
        assert_eq!(again.tree, q.term);
    }
    (q, rules)
}

/// From `mm` through two intermediate sketches; `last` is the order of the loops in the end.
fn product(b: i64, k: i64, last: &[&str]) -> String {
    let (m, n, r) = (format!("map(M // {b})"), format!("map(N // {b})"), format!("reduce(K // {k})"));
    let (tile, chunk) = (format!("map({b})"), format!("reduce({k})"));
    let pick = |l: &&str| match *l {
        "m" => m.clone(),
        "n" => n.clone(),
        "r" => r.clone(),
        "tile" => tile.clone(),
        _ => chunk.clone(),
    };
    let sketch = |l: &[&str]| {
        let all: Vec<String> = l.iter().map(pick).collect();
        nest(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let split = sketch(&["m", "tile", "n", "tile", "r", "chunk"]);
    let outer = sketch(&["m", "n", "tile", "tile", "r", "chunk"]);
    let last = sketch(last);
    format!(
        "DFNF ; reach({split}, fuseReduceMap, splitJoin({b}), splitReduceSeq({k})) ;
         reach({outer}, mapFission, exchangeMaps) ; reach({last}, liftReduce) ; cleanup ;; lowerToC"
    )
}

const BLOCKED: [&str; 6] = ["m", "n", "r", "chunk", "tile", "tile"];
const PERMUTED: [&str; 6] = ["m", "n", "r", "tile", "chunk", "tile"];

#[test]
fn blocked_and_permuted_products_are_found() {
    for (order, loops) in [(BLOCKED, "y row col"), (PERMUTED, "row y col")] {
        let strategy = product(4, 2, &order);
        let s = [("M", 8), ("K", 6), ("N", 4)];
        let (q, rules) = reached(MM, &strategy, &s);
        // By the rules that one would have written, and no others.
        assert!(!rules.iter().any(|r| r == "reach"), "{rules:?}");
        for r in ["splitJoin", "splitReduceSeq", "exchangeMaps", "liftReduce"] {
            assert!(rules.iter().any(|x| x == r), "{rules:?}");
        }
        agree_on(&q, &sizes(s), 3);
        let t = lathe_ir::text::print_module(&crate::support::lowered(&q));
        assert_eq!(t.matches("alloc").count(), 1, "{t}");
        let inside = t.split("sum=").next().unwrap();
        let names: Vec<&str> =
            inside.lines().filter_map(|l| l.trim().strip_prefix("for ")?.split([' ', '%']).next()).collect();
        assert_eq!(names[names.len() - 3..].join(" "), loops, "{t}");
        assert!(t.contains("check K % 2 == 0"), "{t}");
    }
    // As published.
    reached(MM, &product(32, 4, &BLOCKED), &[("M", 32), ("K", 8), ("N", 64)]);
}

#[test]
fn one_sketch_on_the_way_is_enough() {
    let outer = nest(&["map(M // 4)", "map(N // 4)", "map(4)", "map(4)", "reduce(K // 2)", "reduce(2)"]);
    let last = nest(&["map(M // 4)", "map(N // 4)", "reduce(K // 2)", "map(4)", "reduce(2)", "map(4)"]);
    let all = "fuseReduceMap, splitJoin(4), splitReduceSeq(2), mapFission, exchangeMaps";
    let strategy = format!("DFNF ; reach({outer}, {all}) ; reach({last}, liftReduce) ; cleanup ;; lowerToC");
    reached(MM, &strategy, &[("M", 4), ("K", 4), ("N", 8)]);
}

#[test]
fn sketches_say_operators_choices_and_open_places() {
    let text = "fun f(x: f32[N]) -> f32[N] = x |> map(|v| v + 1) |> map(|v| v * 2)";
    let s = [("N", 8)];
    let shows = |strategy: &str| reached(text, strategy, &s).0.term.to_string();
    assert_eq!(shows("DFNF ; reach(scan or map(_ * 2, ?), mapFusion)").matches("map").count(), 2);
    assert_eq!(shows("DFNF ; reach(map((? + ?) * ?), mapFusion)"), "|x| x |> map(|x1| (x1 + 1.0) * 2.0)");
    let split = shows("DFNF ; reach(join(map(map(4, ?), split(4))), splitJoin(4), mapFusion)");
    assert!(split.contains("split(4)"), "{split}");
    // The length of the array, and that of its elements.
    assert!(
        shows("DFNF ; reach(contains(map(N // 2, contains(map(2, add)))), splitJoin(2))")
            .contains("split(2)")
    );
    // What is wanted is there already.
    assert_eq!(shows("DFNF ; reach(?)").matches("map").count(), 2);
}

#[test]
fn the_cost_decides_between_terms_that_fit() {
    let text = "fun f(x: f32[N, M]) -> f32[N, M] = x |> map(map(|v| v + 1))";
    let s = [("N", 2), ("M", 4)];
    let goal = "contains(map(contains(map(contains(add)))))";
    let strategy =
        format!("DFNF ; body(addId ; idToTranspose) ;; reach({goal}, cost: size, transposeTranspose)");
    assert!(reached(text, &strategy, &s).0.term.to_string().contains("transpose(transpose("));
    // A round more, and the smaller term is known.
    let strategy = "DFNF ; body(addId ; idToTranspose) ;; reach(contains(map), after: 1, transposeTranspose)";
    assert!(!reached(text, strategy, &s).0.term.to_string().contains("transpose"));
    let dear = "DFNF ; body(addId ; idToTranspose) ;; reach(contains(map), after: 2, cost: weights(map(100)), transposeTranspose, splitJoin(2))";
    assert!(!reached(text, dear, &s).0.term.to_string().contains("split"));
}

#[test]
fn what_is_not_reached_is_told() {
    let p = program(MM).unwrap();
    let fails = |s: &str| {
        let d = transform(&p, s).unwrap_err();
        assert_eq!(d.code.0, "E0611", "{d}");
        d.to_string()
    };
    let blocked = nest(&["map(M // 4)", "map(4)", "map(N // 4)"]);
    fails(&format!("DFNF ; reach({blocked}, mapFusion)"));
    fails(&format!("DFNF ; reach({blocked}, nodes: 500, splitJoin(2))"));
    fails(&format!("DFNF ; reach({blocked}, rounds: 1, splitJoin(4), splitJoin(2))"));
    let d = fails("DFNF ; reach(contains(map(M // 4, contains(scan))), splitJoin(4), nodes: 60)");
    // How much it had, and the best that was reached.
    assert!(d.contains("60") && d.contains("`contains(map(M // 4"), "{d}");
    for (bad, code) in [
        ("reach(contains(mapp), splitJoin(4))", "E0606"),
        ("reach(contains(), splitJoin(4))", "E0606"),
        ("reach(true, splitJoin(4))", "E0606"),
        ("reach(?, speed: 3, splitJoin(4))", "E0606"),
        ("reach(?, nodes: 0, splitJoin(4))", "E0606"),
        ("reach()", "E0606"),
        ("reach(contains(scan), splitJoinn(4))", "E0605"),
    ] {
        assert_eq!(transform(&p, bad).unwrap_err().code.0, code, "{bad}");
    }
    // It can be caught, and nothing stays of it.
    let (q, _) = transform(&p, "try(reach(contains(scan), fuseReduceMap)) ; try(fail)").unwrap();
    assert_eq!(q.term, p.term);
}
