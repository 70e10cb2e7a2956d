//! One loop has several names: its own, and those that a label narrows. Rules of several loops are refused where two of
//! their names denote one loop; rules of one loop do the same under every name.

use crate::support::*;
use lathe_transform::codes;

/// Two nests of the same names, a reduction between loops, and a label in each.
const NESTS: &str = "
func f(M, N, K)(A: in i32[M, K], B: in i32[K, N], C: inout i32[M, N], D: inout i32[M, N]) stage plain {
  for i in 0..M { for j in 0..N { 's'[i, j]: C[i, j] = 0:i32
    for k in 0..K { 'u'[i, j, k]: C[i, j] sum= A[i, k] * B[k, j] licensed } } }
  for p in 0..M { for q in 0..N { 'v'[p, q]: D[p, q] = C[p, q] + D[p, q] } }
}";

fn code(text: &str) -> Option<lathe_diagnostics::Code> {
    run(&parse(NESTS), text).err().map(|r| r.diagnostic.code)
}

#[test]
fn two_names_of_one_loop_are_refused() {
    let refused = [
        "reorder(k, i, s.i)",
        "reorder(s.i, i)",
        "reorder(i, i)",
        "reorder(u.i, k, s.i)",
        "reorder(s.j, j, i)",
        "tile(i: 2, u.i: 2, j: 2)",
        "tile(i: 2, i: 2)",
        "tile(v.p: 2, q: 2, p: 2)",
        "tile(s.i: 4, u.i: 4)",
        "reorder(k, i, s.i) @ stmt(u)",
        "reorder(i, u.i) @ loop(i)",
        "tile(p: 2, v.p: 2) @ loop(p)",
        "split(i, 2) ; reorder(i.i, s.i.i, i.o)",
    ];
    for text in refused {
        assert_eq!(code(text), Some(codes::ARGUMENT), "{text}");
    }
    // Two names for two loops, and both names of one loop in an expression, are as good as any.
    let sizes: &[&[i64]] = &[&[3, 5, 2], &[0, 2, 2], &[1, 1, 1], &[4, 4, 0]];
    for text in [
        "reorder(u.k, s.j)",
        "tile(v.p: 2, q: 2)",
        "remap(a: p + q, b: v.q)",
        "remap(a: p + q + v.q - q, b: q)",
    ] {
        check(NESTS, text, sizes);
    }
}

#[test]
fn every_rule_takes_every_spelling() {
    let names = ["i", "s.i", "u.i", "j", "u.j", "k", "u.k", "p", "v.p", "q", "v.q"];
    let one = |l: &str| {
        vec![
            format!("split({l}, 2)"),
            format!("split({l}, 2, {l}, {l})"),
            format!("split({l}, 2, x, x) ; tile(x: 2)"),
            format!("unroll({l}, 2)"),
            format!("unroll_and_jam({l}, 2)"),
            format!("vectorize({l}, 4)"),
            format!("parallel({l})"),
            format!("reverse({l})"),
            format!("shift({l}, 3)"),
            format!("cut({l}, 1)"),
            format!("peel({l})"),
            format!("separate({l})"),
            format!("fission({l}, 1)"),
            format!("remap({l}: {l})").replace("remap(s.", "remap(").replace("remap(u.", "remap("),
            format!("stage(C, at: {l})"),
            format!("accumulate(C, at: {l})"),
            format!("privatize(C, {l})"),
            format!("factor(C, {l})"),
        ]
    };
    let two = |a: &str, b: &str| {
        vec![
            format!("reorder({a}, {b})"),
            format!("tile({a}: 2, {b}: 3)"),
            format!("fuse({a}, {b})"),
            format!("reorder({a}, {b}) @ stmt(u)"),
            format!("privatize(C, {a}, at: {b})"),
            format!("prefetch(A, at: {a}, within: {b})"),
        ]
    };
    let pairs = names.iter().flat_map(|a| names.iter().flat_map(move |b| two(a, b)));
    let all: Vec<String> = names.iter().flat_map(|l| one(l)).chain(pairs).collect();
    let module = parse(NESTS);
    let (mut accepted, mut refused) = (0, 0);
    for text in &all {
        match run(&module, text) {
            Ok((f, _)) => {
                accepted += 1;
                [[3, 5, 2], [0, 2, 2], [1, 1, 1]].iter().for_each(|s| same(&module, &f, s));
            }
            Err(r) => {
                refused += 1;
                assert_ne!(r.diagnostic.code, codes::ILL_FORMED, "{text}: {}", r.diagnostic);
            }
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
}
