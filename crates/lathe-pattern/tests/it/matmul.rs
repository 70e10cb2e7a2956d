//! The seven versions of the product, one program, never edited.

use crate::support::agree_on;
use lathe_pattern::check::check;
use lathe_pattern::library::{apply, definitions};
use lathe_pattern::{Program, eval::sizes, language::TermState, program};
use lathe_strategy::{parse_definitions, parse_strategy};

const MM: &str = "
fun dot(xs: f32[K], ys: f32[K]) -> f32 = zip(xs, ys) |> map(|(x, y)| x * y) |> reduce(add, 0)
fun mm(a: f32[M, K], b: f32[K, N]) -> f32[M, N] = a |> map(|row| transpose(b) |> map(|col| dot(row, col)))
";

/// `b` is the block of the output, `k` that of the reduction.
const VERSIONS: &str = "
strategy blocks(b, k) =
    baseline ; (tile(b, b) @ outermost(mapNest(2))) ;; (split(k) @ innermost(appliedReduce))
strategy blocking(b, k) = blocks(b, k) ;; reorder(1, 2, 5, 6, 3, 4)
strategy vectorized(b, k) = blocking(b, k) ;; (vectorize(b) @ innermost(appliedMap))
strategy loopPerm(b, k) =
    blocks(b, k) ;; reorder(1, 2, 5, 3, 6, 4) ;; (vectorize(b) @ innermost(isApp(isApp(isMap))))
strategy packB(b) =
    packBlocks(b, isApp(isTranspose)) ; function(argument(copyElements ; (function(function(toMapCpu)) @ outermost(isApp(isApp(isMapSeq)))) ; bottomUp(vectorize(b)) ; DFNF))
strategy arrayPacking(b, k) = loopPerm(b, k) ;; (packB(b) @ inLambda)
strategy cacheBlocks(b, k) = arrayPacking(b, k) ;; (unroll @ innermost(isReduce))
strategy parallelized(b, k) = cacheBlocks(b, k) ;; ((function(function(parallel)) @ outermost(computingMap)) @ outermost(isApp(isApp(isToMem))))
";

/// The name of the loop that a line opens.
fn loop_name(line: &str) -> Option<&str> {
    line.trim().strip_prefix("for ")?.split([' ', '%']).next()
}

fn version(p: &Program, s: &str) -> (Program, u64, usize) {
    let more = parse_definitions(VERSIONS).unwrap_or_else(|d| panic!("{d}"));
    let s = parse_strategy(s).unwrap();
    let out = apply(&s, &more, &p.term, TermState::new(&p.facts))
        .unwrap_or_else(|r| panic!("{s}: {}", r.diagnostic));
    let q = p.with_term(out.tree, out.state.facts.all().to_vec());
    check(&q.facts, &q.term, &[]).unwrap_or_else(|d| panic!("{s}: {d}"));
    (q, out.steps, out.trace.len())
}

#[test]
fn item_44_seven_versions_agree() {
    let p = program(MM).unwrap();
    assert!(definitions().len() > 20);
    for v in [
        "baseline",
        "blocking(4, 2)",
        "vectorized(4, 2)",
        "loopPerm(4, 2)",
        "arrayPacking(4, 2)",
        "cacheBlocks(4, 2)",
        "parallelized(4, 2)",
    ] {
        let (q, steps, rules) = version(&p, &format!("{v} ;; lowerToC"));
        assert!(steps > 0 && rules > 0);
        agree_on(&q, &sizes([("M", 8), ("K", 6), ("N", 4)]), 3);
        let t = lathe_ir::text::print_module(&crate::support::lowered(&q));
        let (vector, cpu) = (t.matches("vector(4)").count(), t.matches(" cpu").count());
        match v {
            "baseline" | "blocking(4, 2)" => assert_eq!((vector, cpu), (0, 0), "{v}: {t}"),
            "vectorized(4, 2)" | "loopPerm(4, 2)" => assert_eq!((vector, cpu), (1, 0), "{v}: {t}"),
            "parallelized(4, 2)" => assert!(vector == 2 && cpu == 2 && t.contains("unrolled"), "{v}: {t}"),
            _ => assert!(vector == 2 && cpu == 1, "{v}: {t}"),
        }
        // What was packed is read lane by lane.
        if t.contains("stored") {
            let lanes: Vec<&str> =
                t.lines().filter(|l| l.contains("vector(4)")).filter_map(loop_name).collect();
            let reads: Vec<&str> = t.split("stored[").skip(1).filter_map(|s| s.split(']').next()).collect();
            let last = reads.last().and_then(|r| r.rsplit(", ").next());
            assert!(lanes.last().copied() == last, "{v}: {lanes:?} {reads:?}: {t}");
        }
    }
}

#[test]
fn item_46_rewriting_takes_few_steps() {
    let p = program(MM).unwrap();
    let (_, steps, _) = version(&p, "parallelized(32, 4) ;; lowerToC");
    // The published version takes about 63,000.
    assert!(steps < 20_000, "{steps}");
}
