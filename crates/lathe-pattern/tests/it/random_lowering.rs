//! Random programs, lowered by random strategies: evaluator and interpreter agree.

use crate::support::{Random, agree_on};
use lathe_pattern::library::transform;
use lathe_pattern::print::print_fun;
use lathe_pattern::{check::check, eval::sizes, program};

/// A pipeline over rows and columns, with sizes as symbols.
fn random_text(r: &mut Random) -> String {
    let mut e = "xs".to_string();
    let mut flat = false;
    for _ in 0..1 + r.below(4) {
        let stage = if flat {
            [
                "map(|x| x * 2 + 1)",
                "scan(add, 0)",
                "pad(1, 1, clamp) |> slide(3, 1) |> map(|w| w |> reduce(add, 0))",
                "map(|x| max(x, 0))",
                "iterate(2, map(|x| x + 1))",
            ][r.below(5)]
        } else {
            match r.below(7) {
                0 => "map(map(|x| x * 2 + 1))",
                1 => "map(|row| row |> pad(1, 1, mirror) |> slide(3, 1) |> map(|w| w[0] - w[2]))",
                2 => "pad(1, 1, wrap) |> slide(3, 1) |> map(transpose) |> map(map(|w| w |> reduce(add, 0)))",
                3 => "map(|row| gather(|i: idx<N>| asIndex(N, N - 1 - index(i)), row))",
                4 => "map(|row| row |> scan(add, 0))",
                5 => "transpose |> map(map(|x| x + 1)) |> transpose",
                _ => {
                    flat = true;
                    "map(|row| row |> map(|x| x * x) |> reduce(add, 0))"
                }
            }
        };
        // `transpose` alone is a stage too.
        let stage = stage.replace("transpose |> map(map", "transpose(e) |> map(map");
        if stage.contains("(e)") {
            let rest = stage.trim_start_matches("transpose(e) |> ").trim_end_matches(" |> transpose");
            e = format!("transpose(transpose({e}) |> {rest})");
        } else {
            e = format!("{e} |> {stage}");
        }
    }
    let to = if flat { "f64[M]" } else { "f64[M, N]" };
    format!("fun f(xs: f64[M, N]) -> {to} where M % 2 == 0, N % 2 == 0 = {e}")
}

#[test]
fn random_programs_and_strategies_agree() {
    let mut r = Random(0xfeed_beef_1234_5677);
    let mut ran = 0;
    for round in 0..60 {
        let text = random_text(&mut r);
        let p = program(&text).unwrap_or_else(|d| panic!("{text}: {d}"));
        let first = [
            "id",
            "try(topDown(fuseReduceMap))",
            "RNF",
            "try(split(2) @ outermost(appliedMap))",
            "tryAll(hoist)",
            "try(innermost(appliedReduce, split(3)))",
            "try(tile(2, 2) @ outermost(mapNest(2)))",
            "try(topDown(tileStencil(4)))",
        ][r.below(8)];
        let last =
            ["id", "try(parallelOuter)", "tryAll(vectorizeMasked(4)) ; id", "try(bottomUp(vectorize(2)))"]
                [r.below(4)];
        let s = if last.contains("Masked") {
            format!("DFNF ; {first} ; naive")
        } else {
            format!("DFNF ; {first} ;; {last} ;; naive")
        };
        let (q, _) = transform(&p, &s).unwrap_or_else(|d| panic!("{s} on {text}: {d}"));
        check(&q.facts, &q.term, &[]).unwrap_or_else(|d| panic!("{s} on {text}: {d}"));
        // The text of any term is read as the same term.
        for x in [&p, &q] {
            let shown = print_fun(x);
            let again = program(&shown).unwrap_or_else(|d| panic!("{shown}: {d}"));
            assert_eq!(print_fun(&again), shown);
        }
        for (m, n) in [(2, 4), (4, 2), (6, 6)] {
            let s = sizes([("M", m), ("N", n)]);
            if q.facts.all().iter().all(|f| lathe_pattern::eval::holds(f, &s)) {
                agree_on(&q, &s, round + 1);
                ran += 1;
            }
        }
    }
    assert!(ran > 80, "{ran}");
}
