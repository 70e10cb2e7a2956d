//! High-level programs made low-level by strategies, translated, and run.

use crate::support::agree_on;
use lathe_pattern::library::{LIBRARY, transform};
use lathe_pattern::{eval::sizes, program};
use lathe_strategy::parse_definitions;

/// Evaluator and interpreter agree after the strategy; the tree's text.
fn after(text: &str, strategy: &str, s: &[(&str, i64)]) -> String {
    let p = program(text).unwrap_or_else(|d| panic!("{text}: {d}"));
    let (q, _) = transform(&p, strategy).unwrap_or_else(|d| panic!("{strategy}: {d}"));
    lathe_pattern::check::check(&q.facts, &q.term, &[]).unwrap_or_else(|d| panic!("{d}"));
    agree_on(&q, &sizes(s.iter().copied()), 7);
    lathe_ir::text::print_module(&crate::support::lowered(&q))
}

const MM: &str = "
fun dot(xs: f32[K], ys: f32[K]) -> f32 = zip(xs, ys) |> map(|(x, y)| x * y) |> reduce(add, 0)
fun mm(a: f32[M, K], b: f32[K, N]) -> f32[M, N] = a |> map(|row| transpose(b) |> map(|col| dot(row, col)))
";

#[test]
fn the_library_reads() {
    let d = parse_definitions(LIBRARY).unwrap_or_else(|d| panic!("{d}"));
    assert!(d.len() >= 20);
}

#[test]
fn item_44_baseline_is_two_loops_around_one() {
    let t = after(MM, "baseline ; lowerToC", &[("M", 3), ("K", 4), ("N", 5)]);
    assert_eq!((t.matches("for ").count(), t.matches("alloc").count()), (3, 1), "{t}");
}

#[test]
fn item_38_hoisted_reductions_keep_their_meaning() {
    let rows = "fun f(x: f32[N, M]) -> f32[N] = x |> map(|r| r |> reduce(add, 0))";
    let t = after(rows, "topDown(hoist) ; lowerToC", &[("N", 3), ("M", 4)]);
    assert!(t.contains("alloc acc: f32[N]"), "{t}");
    after(
        "fun f(x: f32[N, M], z: f32[N]) -> f32[N] = zip(x, z) |> map(|(r, s)| r |> reduce(add, s))",
        "topDown(hoist) ; lowerToC",
        &[("N", 3), ("M", 4)],
    );
    after(
        "fun f(x: f32[N, M], z: f32[M]) -> f32[N] = x |> map(|r| zip(z, r) |> map(|(u, v)| u - 2 * v) |> reduce(add, 0))",
        "DFNF ; topDown(fuseReduceMap) ; topDown(hoist) ; lowerToC",
        &[("N", 3), ("M", 4)],
    );
}

#[test]
fn reductions_that_start_from_their_place_accumulate_there() {
    let t = after(
        "fun f(x: f32[N]) -> f32 where N % 4 == 0 = x |> reduce(add, 0)",
        "topDown(split(4)) ; lowerToC",
        &[("N", 12)],
    );
    assert_eq!((t.matches("alloc").count(), t.matches("for ").count()), (1, 2), "{t}");
    let t = after(
        "fun f(x: f32[M, N]) -> f32[M] where N % 4 == 0 = x |> map(|r| r |> reduce(add, 0))",
        "topDown(hoist) ; topDown(split(4) @ function) ; lowerToC",
        &[("N", 8), ("M", 3)],
    );
    assert_eq!(t.matches("alloc").count(), 1, "{t}");
}

#[test]
fn item_44_blocked_products_agree() {
    let s = [("M", 8), ("K", 8), ("N", 8)];
    let t = after(MM, "baseline ; tile(4, 4) @ outermost(mapNest(2)) ; DFNF ; lowerToC", &s);
    assert_eq!(t.matches("for ").count(), 5, "{t}");
    let blocked = "baseline ; tile(4, 4) @ outermost(mapNest(2)) ;; split(4) @ innermost(isApp(isApp(isReduce))) ; lowerToC";
    let t = after(MM, blocked, &s);
    assert_eq!((t.matches("for ").count(), t.matches("alloc").count()), (6, 1), "{t}");
}

#[test]
fn any_program_has_a_naive_lowering() {
    for (text, s) in [
        (
            "fun f(x: f32[N]) -> f32[N] = x |> map(|v| v + 1) |> scan(add, 0) |> map(|v| v * 2)",
            &[("N", 5)][..],
        ),
        ("fun f(x: f32[N, M]) -> f32[M, N] = transpose(x)", &[("N", 2), ("M", 3)]),
        (
            "fun f(x: f32[N]) -> f32[N] = x |> iterate(3, |y| y |> pad(1, 1, wrap) |> slide(3, 1) |> map(|w| w |> reduce(add, 0)))",
            &[("N", 5)],
        ),
        (
            "fun f(x: f32[N, M]) -> f32[N] = x |> map(|r| r |> map(|v| v * v) |> reduce(add, 0)) |> map(sqrt)",
            &[("N", 2), ("M", 3)],
        ),
        ("fun f(x: f32[N]) -> (f32[N], f32) = (x, x |> reduce(max, 0))", &[("N", 4)]),
        ("fun f(x: f32[N]) -> f32[N] = let s = x |> reduce(add, 0) in x |> map(|v| v * s)", &[("N", 4)]),
        (
            "fun f(x: f32[N]) -> f32[N] = let y = x |> map(|v| v + 1) in zip(y, gather(|i| asIndex(N, N - 1 - index(i)), y)) |> map(|(a, b)| a * b)",
            &[("N", 4)],
        ),
    ] {
        after(text, "naive", s);
    }
    after(MM, "naive", &[("M", 3), ("K", 0), ("N", 5)]);
    after(MM, "naive ; topDown(parallel)", &[("M", 3), ("K", 4), ("N", 5)]);
}

/// The loops of a nest, outermost first.
fn kinds(t: &lathe_pattern::Term) -> Vec<&'static str> {
    use lathe_pattern::language::computes;
    if let Some((_, f, xs)) = t.as_map() {
        if computes(f) {
            let inner = f.as_lam().map(kinds).unwrap_or_default();
            return [vec!["map"], inner].concat();
        }
        return kinds(xs);
    }
    if let Some((_, op, _, _)) = t.as_reduce() {
        let inner = op.as_lam().and_then(|b| b.as_lam()).map(kinds).unwrap_or_default();
        return [vec!["reduce"], inner].concat();
    }
    match (t.as_lam(), t.as_app()) {
        (Some(b), _) => kinds(b),
        (_, Some((f, a))) => {
            let inner = kinds(a);
            if inner.is_empty() { f.as_app().map(|f| kinds(f.1)).unwrap_or_default() } else { inner }
        }
        _ => Vec::new(),
    }
}

const BLOCKED: &str = "baseline ; tile(2, 2) @ outermost(mapNest(2)) ;; split(4) @ innermost(appliedReduce)";

#[test]
fn item_39_loops_are_reordered() {
    let p = program(MM).unwrap();
    let s = [("M", 4), ("K", 8), ("N", 4)];
    let order = |l: &str| {
        let (q, _) =
            transform(&p, &format!("{BLOCKED} ;; reorder({l})")).unwrap_or_else(|d| panic!("{l}: {d}"));
        lathe_pattern::check::check(&q.facts, &q.term, &[]).unwrap_or_else(|d| panic!("{d}"));
        let (m, r) = ("map", "reduce");
        after(MM, &format!("{BLOCKED} ;; reorder({l}) ; lowerToC"), &s);
        (kinds(&q.term), m, r)
    };
    let (k, m, r) = order("1, 2, 3, 4, 5, 6");
    assert_eq!(k, [m, m, m, m, r, r]);
    let (k, m, r) = order("1, 2, 5, 6, 3, 4");
    assert_eq!(k, [m, m, r, r, m, m]);
    let (k, m, r) = order("1, 2, 5, 3, 6, 4");
    assert_eq!(k, [m, m, r, m, r, m]);
    let d = transform(&p, &format!("{BLOCKED} ;; reorder(1, 2, 2, 3, 4, 5)")).unwrap_err();
    assert_eq!(d.code.0, "E0606", "{d}");
    assert!(transform(&p, &format!("{BLOCKED} ;; reorder(1, 2, 3, 4, 5, 6, 7)")).is_err());
}

#[test]
fn reorder_exchanges_every_pair_of_loops() {
    let s = [("M", 2), ("K", 3), ("N", 4)];
    for l in ["1, 2, 3", "2, 1, 3", "1, 3, 2", "3, 1, 2", "2, 3, 1", "3, 2, 1"] {
        after(MM, &format!("baseline ;; reorder({l}) ; lowerToC"), &s);
    }
    // Back and forth.
    after(MM, "baseline ;; reorder(3, 1, 2) ;; reorder(2, 1, 3) ; lowerToC", &s);
    let sums = "fun f(x: f32[M, N]) -> f32 = x |> map(|r| r |> reduce(add, 0)) |> reduce(add, 0)";
    after(sums, "baseline ; lowerToC", &s);
    // Not every operator lets two reductions change places.
    let text = "fun f(x: f32[N]) -> f32 where N % 4 == 0 = x |> reduce(|a, b| a - b, 0)";
    let d = transform(&program(text).unwrap(), "topDown(split(4)) ;; reorder(2, 1)").unwrap_err();
    assert_eq!(d.code.0, "E0611", "{d}");
    let text = "fun f(x: f32[N]) -> f32 where N % 4 == 0 = x |> reduce(add, 0)";
    after(text, "topDown(split(4)) ;; reorder(2, 1) ; lowerToC", &[("N", 8)]);
}

#[test]
fn item_40_storing_needs_no_edit_of_the_program() {
    let s = [("M", 3), ("K", 4), ("N", 5)];
    let t = after(MM, "baseline ; storeInMemory(isApp(isTranspose), copyElements) @ inLambda ; lowerToC", &s);
    assert!(t.contains("alloc stored: f32[N, K]"), "{t}");
    let p = program(MM).unwrap();
    let none = transform(&p, "storeInMemory(isApp(isJoin), copyElements) @ inLambda").unwrap_err();
    assert_eq!(none.code.0, "E0611", "{none}");
    // All uses are replaced.
    let twice = "fun f(x: f32[N, M]) -> f32[M] = zip(transpose(x), transpose(x)) |> map(|(a, b)| zip(a, b) |> map(|(u, v)| u * v) |> reduce(add, 0))";
    let (q, _) =
        transform(&program(twice).unwrap(), "storeInMemory(isApp(isTranspose), copyElements) @ inLambda")
            .unwrap();
    assert_eq!(q.term.to_string().matches("transpose").count(), 1, "{}", q.term);
}

#[test]
fn item_41_the_packed_buffer_has_blocks_of_rows() {
    let s = [("M", 4), ("K", 3), ("N", 8)];
    let t = after(MM, "baseline ; packBlocks(4, isApp(isTranspose)) @ inLambda ; lowerToC", &s);
    assert!(t.contains("alloc stored: f32[N // 4, K, 4]"), "{t}");
}

#[test]
fn item_42_parallel_lands_behind_what_is_stored() {
    let s = [("M", 4), ("K", 3), ("N", 8)];
    let packed = "baseline ; storeInMemory(isApp(isTranspose), copyElements ; topDown(toMapCpu)) @ inLambda";
    let t = after(
        MM,
        &format!("{packed} ; (parallel @ outermost(isMap)) @ outermost(isApp(isApp(isToMem))) ; lowerToC"),
        &s,
    );
    assert_eq!(t.matches(" cpu").count(), 2, "{t}");
}

#[test]
fn item_43_the_innermost_reduction_is_unrolled() {
    let p = program("fun f(x: f32[N, 8]) -> f32[N] = x |> map(|r| r |> reduce(add, 0))").unwrap();
    let (q, _) = transform(&p, "DFNF ; topDown(split(4)) ; unroll @ innermost(isReduce)")
        .unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(q.term.to_string().matches("reduceUnroll").count(), 1, "{}", q.term);
    after(
        "fun f(x: f32[N, 8]) -> f32[N] = x |> map(|r| r |> split(4) |> reduceSeq(|a, c| c |> reduceSeq(|a, y| a + y, a), 0))",
        "unroll @ innermost(isReduce) ; lowerToC",
        &[("N", 3)],
    );
    let open = program("fun f(x: f32[N]) -> f32 = x |> reduce(add, 0)").unwrap();
    assert_eq!(transform(&open, "unroll @ innermost(isReduce)").unwrap_err().code.0, "E0611");
}

#[test]
fn lift_item_34_overlapped_tiling_composes() {
    let f = "fun f(x: f32[N]) -> f32[N] where N % 4 == 0 = x |> pad(1, 1, clamp) |> slide(3, 1) |> map(|w| w |> reduce(add, 0))";
    let t = after(f, "DFNF ; topDown(tileStencil(6)) ; lowerToC", &[("N", 8)]);
    assert_eq!((t.matches("for ").count(), t.matches("alloc").count()), (3, 1), "{t}");
}
