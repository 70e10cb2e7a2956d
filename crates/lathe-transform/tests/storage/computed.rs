//! What is copied or combined into was computed before, and what is between stays as it is.

use crate::common::*;

const NESTS: &str = "
func copy(N)(x: in i64[N], y: out i64[N]) stage plain {
  for b in 0..3 {
    for a in 0..(N - b * 2 + 5) // 6 {
      for c in 0..min(2, N - a * 6 - b * 2) {
        'y'[a * 6 + b * 2 + c]: y[a * 6 + b * 2 + c]! = x[a * 6 + b * 2 + c]!
      }
    }
  }
}
func fixed()(x: in i64[24], y: out i64[24]) stage plain {
  for i in 0..24 { 'y'[i]: y[i]! = x[i]! }
}
func sums(M, N)(A: in i64[M, N], y: out i64[M]) stage plain {
  for i in 0..M { 'y.init'[i]: y[i]! = 0:i64 }
  for ko in 0..(N + 2) // 3 {
    for b in 0..2 {
      for a in 0..(M - b + 1) // 2 {
        for ki in 0..min(3, N - ko * 3) {
          'y'[a * 2 + b, ko * 3 + ki]: y[a * 2 + b]! sum= A[a * 2 + b, ko * 3 + ki]! licensed
        }
      }
    }
  }
}
func most(M, N)(A: in i64[M, N], y: out i64[M]) stage plain {
  for i in 1..M { 'y.init'[i]: y[i]! = 0:i64 }
  for k in 0..N { for i in 0..M { if i > 0 { 'y'[i, k]: y[i]! sum= A[i, k]! licensed } } }
}
func chosen(N)(x: in i64[N], y: out i64[N]) stage plain {
  for a in 0..2 { for b in 0..N { if x[b]! > 3:i64 { 'y'[a, b]: y[b]! = x[b]! } } }
}
func window(N)(x: in i64[N + 2], y: out i64[N]) stage plain {
  for i in 0..N { 'y'[i]: y[i]! = x[i]! + x[i + 1]! + x[i + 2]! }
}
func later(N)(x: in i64[N], y: out i64[N], z: out i64[N]) stage plain {
  for t in 0..2 {
    for i in 0..N { if t == 1 { 'z'[t, i]: z[i]! = y[i]! } }
    for i in 0..N { 'y'[t, i]: y[i]! = x[i]! }
  }
}
func scanned(N, M)(A: in i64[N, M], s: out i64[N]) stage plain {
  alloc s.acc: i64[] register
  's.init'[]: s.acc[] = 0:i64
  for i in 0..N {
    for j in 0..M { 's'[i, j]: s.acc[] sum= A[i, j]! }
    's.store'[i]: s[i]! = s.acc[]
  }
}
";

/// Tiles of tiles, of which an iteration runs through every other one: the box that holds them has holes.
const HOLES: &str = "split(i, 12, i.a, i.q); split(i.q, 4, i.b, i.c); reorder(i.b, i.a, i.c)";

#[test]
fn boxes_with_holes_are_copied_without_what_lies_between() {
    let m = parse(NESTS);
    let sizes = ["N"];
    for steps in [
        "stage(y, at: b)",
        "stage(y, at: b); parallel(b)",
        "parallel(b); stage(y, at: b)",
        "stage(x, at: b); stage(y, at: b); stage(y.s, at: a)",
    ] {
        all_sizes(&m, "copy", steps, &sizes);
    }
    let f = schedule(&m, "fixed", &format!("{HOLES}; stage(y, at: i.b); parallel(i.b)"));
    assert!(show(&f).contains("copy(y).out") && !show(&f).contains("'copy(y)'"), "{}", show(&f));
    same(&m, "fixed", &f, &[]);
    // Which elements are written is up to the data: nothing is known of the others.
    assert_eq!(refusal(&m, "chosen", "stage(y, at: a)"), "E0625");
}

#[test]
fn what_several_statements_computed_is_copied() {
    let m = parse(NESTS);
    // The box of a window that was copied with its rim, from a copy that guards what it loads.
    let steps = "split(i, 8); split(i.i, 4); stage(x, at: i.o, space: register); stage(x.s, at: i.i.i)";
    all_sizes(&m, "window", steps, &["N"]);
    // What an iteration reads was written by the one before.
    all_sizes(&m, "later", "stage(x, at: t)", &["N"]);
    assert_eq!(refusal(&m, "later", "stage(y, at: t)"), "E0625");
}

#[test]
fn partial_results_are_added_to_what_has_a_value() {
    let m = parse(NESTS);
    for steps in
        ["privatize(y, ko); parallel(ko)", "factor(y, ki, at: b)", "factor(y, ki, at: ko); parallel(b)"]
    {
        all_sizes(&m, "sums", steps, &["M", "N"]);
    }
    assert_eq!(refusal(&m, "most", "split(k, 3); privatize(y, k.o)"), "E0624");
}

/// Values that a nest of their own computes: the sums are after it.
#[test]
fn sums_of_a_scan_may_read_local_arrays() {
    let m = parse(NESTS);
    for steps in [
        "materialize(s); prereduce(s)",
        "materialize(s); accumulate(A, at: s.map.i, space: host); prereduce(s)",
        "materialize(s); accumulate(A, at: s.map.i, space: host); prereduce(s); privatize(s.part, s.part.j)",
    ] {
        all_sizes(&m, "scanned", steps, &["N", "M"]);
    }
}
