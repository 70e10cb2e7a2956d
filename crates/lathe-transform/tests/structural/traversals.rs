//! The traversals, predicates and places of the strategy language on trees of loops.

use crate::support::*;
use lathe_ir::Function;
use lathe_strategy::{Context, Definitions, Evidence, parse_definitions, parse_strategy};

const GEMM: &str = "
func gemm(M, N, K)(A: in f32[M, K], B: in f32[K, N], C: out f32[M, N]) stage plain {
  compute 'C' over i in 0..M, j in 0..N, k in 0..K reduce(sum) { C[i, j] = A[i, k] * B[k, j] }
}";

const TWO: &str = "
func two(N, M)(A: in i32[N, M], B: out i32[N, M], C: out i32[N]) stage plain {
  compute 'B' over i in 0..N, j in 0..M { B[i, j] = A[i, j] * 2:i32 }
  compute 'C' over i in 0..N { C[i] = A[i, 0] + 1:i32 }
}";

fn traverse(text: &str, strategy: &str) -> Result<(Function, Vec<Evidence>), String> {
    let m = parse(text);
    let mine = parse_definitions(
        "strategy everywhere(s) = tryAll(s)
         strategy inLoops(s) = isLoop ; body(inLoops(s)) <+ s",
    );
    let definitions = Definitions::new(mine.unwrap());
    let facts = |_: &str| None;
    let context = Context::new(&definitions, None, &facts);
    let s = parse_strategy(strategy).unwrap_or_else(|d| panic!("{strategy}: {d}"));
    let (f, trace) =
        lathe_transform::run(&m, only(&m), &context, &s).map_err(|r| r.diagnostic.to_string())?;
    assert_eq!(trace.steps.len(), trace.trees.len());
    // What was done is evidence like any other.
    let again = lathe_transform::replay(&m, only(&m), &trace.steps).map_err(|r| r.diagnostic.to_string())?;
    assert_eq!(lathe_ir::structural_hash(&again), lathe_ir::structural_hash(&f), "{strategy}");
    Ok((f, trace.steps))
}

/// The loops after the strategy, with who runs them.
fn loops(text: &str, strategy: &str) -> Vec<String> {
    let (f, _) = traverse(text, strategy).unwrap_or_else(|d| panic!("{strategy}: {d}"));
    same(&parse(text), &f, &[5, 3]);
    let shown = show(&f);
    let lines = shown.lines().filter_map(|l| l.trim().strip_prefix("for "));
    let who = |l: &str| {
        let last = l.trim_end_matches(" {").split(' ').next_back().unwrap_or("").to_string();
        if last.chars().all(|c| c.is_alphabetic() || c == '(' || c == ')' || c.is_ascii_digit())
            && last != "N"
        {
            last
        } else {
            String::new()
        }
    };
    lines
        .map(|l| {
            let name = l.split([' ', '%']).next().unwrap_or("").to_string();
            match who(l).as_str() {
                w @ ("cpu" | "unrolled") => format!("{name} {w}"),
                w if w.starts_with("vector") => format!("{name} {w}"),
                _ => name,
            }
        })
        .collect()
}

#[test]
fn rules_apply_where_traversals_stop() {
    assert_eq!(loops(TWO, "id"), ["i", "j", "i"]);
    // The first loop from the root, the first from the leaves, the loop of a label, every loop.
    assert_eq!(loops(TWO, "topDown(split(4))"), ["i.o", "i.i", "j", "i"]);
    assert_eq!(loops(TWO, "bottomUp(split(4))"), ["i", "j.o", "j.i", "i"]);
    assert_eq!(loops(TWO, "split(4) @ outermost(isLoop(j))"), ["i", "j.o", "j.i", "i"]);
    assert_eq!(loops(TWO, "topDown(isStmt(C) ; split(4))"), ["i", "j", "i.o", "i.i"]);
    assert_eq!(
        loops(TWO, "tryAll(isInnermost ; vectorize(4))"),
        ["i", "j.o", "j.i vector(4)", "i.o", "i.i vector(4)"]
    );
    assert_eq!(loops(TWO, "everywhere(isInnermost ; unroll(2))").len(), 7);
    assert_eq!(loops(TWO, "some(parallel)"), ["i cpu", "j", "i cpu"]);
    assert_eq!(loops(TWO, "all(parallel)"), ["i cpu", "j", "i cpu"]);
    assert_eq!(loops(TWO, "one(parallel)"), ["i cpu", "j", "i"]);
    assert_eq!(loops(TWO, "one(body(parallel))"), ["i", "j cpu", "i"]);
    assert_eq!(loops(TWO, "parallel @ innermost(isSerial)"), ["i", "j cpu", "i"]);
    assert_eq!(loops(TWO, "normalize(isSerial ; not(isInnermost) ; parallel)"), ["i cpu", "j", "i"]);
}

#[test]
fn places_by_name_and_traversals_go_together() {
    assert_eq!(loops(TWO, "topDown(split(4)) @ stmt(C)"), ["i", "j", "i.o", "i.i"]);
    assert_eq!(loops(TWO, "one(split(j, 4) @ loop(i))"), ["i", "j.o", "j.i", "i"]);
    assert_eq!(loops(TWO, "topDown(split(2) @ stmt(C)) ; parallel(B.i)"), ["i cpu", "j", "i.o", "i.i"]);
    // Into loops as long as there are some: the position, not the name.
    let (f, steps) = traverse(GEMM, "body(split(4)) ; parallel(i)").unwrap();
    assert_eq!(steps.iter().map(|e| e.rule.as_str()).collect::<Vec<_>>(), ["open", "split", "parallel"]);
    assert!(show(&f).contains("j.o * 4 + j.i"), "{}", show(&f));
}

#[test]
fn what_does_not_apply_is_told() {
    let d = traverse(TWO, "topDown(isAlloc ; split(4))").unwrap_err();
    assert!(d.contains("isAlloc"), "{d}");
    // An order that must stay is kept: the reason is the rule's.
    let d = traverse(GEMM, "topDown(isLoop(k) ; parallel)").unwrap_err();
    assert!(d.contains("E0611") && d.contains("`parallel`"), "{d}");
    let (f, steps) = traverse(GEMM, "try(topDown(isLoop(k) ; parallel))").unwrap();
    assert_eq!((steps.len(), show(&f).contains("cpu")), (1, false));
    let d = traverse(TWO, "topDown(splitt(4))").unwrap_err();
    assert!(d.contains("E0605") && d.contains("`split`"), "{d}");
    let d = traverse(TWO, "split(4) @ outermst(isLoop)").unwrap_err();
    assert!(d.contains("E0609") || d.contains("E0605"), "{d}");
    let d = traverse(TWO, "topDown(repeat(id))").unwrap_err();
    assert!(d.contains("E0608"), "{d}");
    let d = traverse(TWO, "normalize(isLoop ; reverse ; reverse)").unwrap_err();
    assert!(d.contains("E0608"), "{d}");
}
