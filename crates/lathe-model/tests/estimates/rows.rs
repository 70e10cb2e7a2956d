//! What rows cost that lie in few sets of a cache, come one by one, or are on many pages.

use super::machine;
use lathe_diagnostics::FileId;
use lathe_ir::text::parse_module;
use lathe_model::{Estimate, estimates_with_sets, rows_apart};
use std::collections::BTreeMap;

fn with_sets(tree: &str, size: &str, value: i64) -> Estimate {
    let module = parse_module(FileId(0), tree).unwrap_or_else(|d| panic!("{d:?}"));
    let sizes = BTreeMap::from([(size.to_string(), value)]);
    estimates_with_sets(&module.functions["f"], &[sizes], &machine())[0]
}

/// A narrow part of rows with a power of two between them shares a few sets of the second cache, which then does not keep it.
#[test]
fn rows_that_lie_a_power_of_two_apart_share_sets() {
    let tree = "func f(N)(A: in f32[1000, N], x: inout f32[64]) stage scheduled {
      for t in 0..50 { for k in 0..1000 { for j in 0..64 { 'x'[t, k, j]: x[j]! = x[j]! + A[k, j]! } } } }";
    let cost = |n: i64| with_sets(tree, "N", n).traffic;
    assert!(cost(2048) > 1.5 * cost(2100), "{} {}", cost(2048), cost(2100));
    assert!(cost(2100) < 1.1 * cost(100), "{} {}", cost(2100), cost(100));
}

/// A line of each of many rows is waited for where a cache keeps none of them; rows that lie together are read ahead.
#[test]
fn lines_of_many_rows_come_one_by_one() {
    let tree = |inner: &str, outer: &str| {
        format!(
            "func f(N)(A: in f32[N, N], x: inout f32[16]) stage scheduled {{
      for {outer} {{ for {inner} {{ for v in 0..16 vector(16) {{ 'x'[b, k, v]: x[v]! = x[v]! + A[k, b * 16 + v]! }} }} }} }}"
        )
    };
    let alone = |tree: &str, n: i64| {
        let e = with_sets(tree, "N", n);
        assert!(e.cycles_beyond() >= e.cycles() && (e.alone > 0.0) == (e.cycles_beyond() > e.cycles()));
        e.alone
    };
    let down = tree("k in 0..N", "b in 0..N // 16");
    // Each line of the array once.
    let all = machine().costs.alone * (4000.0 * 4000.0 * 4.0) / 64.0;
    assert!((alone(&down, 4000) / all - 1.0).abs() < 0.01, "{} {all}", alone(&down, 4000));
    // Along the rows; a few rows; what the second cache keeps.
    assert_eq!(alone(&tree("b in 0..N // 16", "k in 0..N"), 4000), 0.0);
    assert_eq!(alone(&tree("k in 0..8", "b in 0..N // 16"), 4000), 0.0);
    assert_eq!(alone(&down, 64), 0.0);
}

/// A loop that goes through thousands of rows, a page each, finds none of their places when it is back at the first.
#[test]
fn thousands_of_rows_forget_their_pages() {
    let apart = |n: i64| {
        let tree = "func f(N)(A: inout f64[N, 2000]) stage scheduled {
      for j in 0..2000 { for b in 0..N // 8 { for v in 0..8 vector(8) { 'A'[j, b, v]: A[b * 8 + v, j]! = A[b * 8 + v, j]! * 2.0:f64 } } } }";
        let module = parse_module(FileId(0), tree).unwrap_or_else(|d| panic!("{d:?}"));
        rows_apart(&module.functions["f"], &BTreeMap::from([("N".to_string(), n)]), &machine())
    };
    assert_eq!(apart(1000), 0.0);
    assert!(apart(4096) > 0.0);
}

/// What is packed into more pages than the processor knows at once is looked up again by every loop that runs through all of it.
#[test]
fn pages_of_packed_rows_are_looked_up_again() {
    let tree = "func f(K)(x: inout f32[16], y: inout f32[100]) stage scheduled {
      alloc P: f32[K, 64] layout tile(1, 64) permute(1, 0, 2)
      for i in 0..100 { for k in 0..K { 'y'[i, k]: y[i]! = y[i]! + P[k, 3]! } } }";
    let pages = |k: i64| with_sets(tree, "K", k).pages;
    assert_eq!(pages(2048), 0.0);
    assert!(pages(8192) > 0.0 && pages(16384) > 1.5 * pages(8192), "{} {}", pages(8192), pages(16384));
}
