//! Scans: blocks and lanes of running values.

use crate::common::*;

const SCANS: &str = "
func scan(N)(x: in i64[N], s: out i64[N]) stage plain {
  alloc s.acc: i64[] register
  's.init'[]: s.acc[] = 0:i64
  for i in 0..N {
    's'[i]: s.acc[] sum= x[i]!
    's.store'[i]: s[i]! = s.acc[]
  }
}
func many(N, M)(A: in i64[N, M], s: out i64[N]) stage plain {
  alloc s.acc: i64[] register
  's.init'[]: s.acc[] = 0:i64
  for i in 0..N {
    for j in 0..M { 's'[i, j]: s.acc[] sum= A[i, j]! }
    's.store'[i]: s[i]! = s.acc[]
  }
}
func fed(N)(x: in i64[N], s: out i64[N]) stage plain {
  alloc s.acc: i64[] register
  's.init'[]: s.acc[] = 0:i64
  for i in 0..N {
    's.store'[i]: s[i]! = x[i]!
    's'[i]: s.acc[] sum= s[i]!
  }
}
";

/// Blocks of a scan start from what those before them add up to.
#[test]
fn blocks_of_a_scan_become_independent() {
    let m = parse(SCANS);
    let steps = "split(i, 5); prescan(s.acc, i.o)";
    all_sizes(&m, "scan", &format!("{steps}; parallel(i.o.total); parallel(i.o)"), &["N"]);
    all_sizes(&m, "many", &format!("{steps}; parallel(i.o.total); parallel(i.o)"), &["N", "M"]);
    // Blocks of a block, one block after the other.
    all_sizes(&m, "scan", "split(i, 6); split(i.i, 2); prescan(s.acc, i.i.o); parallel(i.i.o)", &["N"]);
    all_sizes(&m, "scan", "prescan(s.acc, i)", &["N"]);
    assert_eq!(refusal(&m, "scan", "split(i, 5); prescan(s, i.o)"), "E0624");
    assert_eq!(refusal(&m, "fed", "split(i, 5); prescan(s.acc, i.o)"), "E0624");
    assert_eq!(refusal(&m, "scan", &format!("{steps}; parallel(i.o); prescan(s.acc, i.o)")), "E0624");
}

/// Lanes of a scan combine in order: whole vectors of it, and what is left as it was.
#[test]
fn lanes_of_a_scan_combine_in_order() {
    let m = parse(SCANS);
    let tree = lathe_ir::text::print_function(&schedule(&m, "scan", "inscan(s.acc, i, 4)"));
    assert!(tree.contains("inscan(4)") && tree.contains("i.rest"), "{tree}");
    for steps in [
        "inscan(s.acc, i, 4)",
        "split(i, 5); inscan(s.acc, i.i, 2)",
        "split(i, 8); separate(i.o); inscan(s.acc, i.i, 8); nontemporal(s.store)",
        "split(i, 12); prescan(s.acc, i.o); inscan(s.run, i.i, 4); parallel(i.o)",
        "split(i, 12); inscan(s.acc, i.i, 4); prescan(s.acc, i.o); parallel(i.o)",
        "inscan(s.acc, i, 4); unroll(i.o, 2)",
        "inscan(s.acc, i, 4); serial(i.i); inscan(s.acc, i.i, 4)",
    ] {
        all_sizes(&m, "scan", steps, &["N"]);
    }
    assert_eq!(refusal(&m, "scan", "inscan(s.acc, i, 3)"), "E0620");
    assert_eq!(refusal(&m, "scan", "inscan(s, i, 4)"), "E0624");
    assert_eq!(refusal(&m, "fed", "inscan(s.acc, i, 4)"), "E0624");
    assert_eq!(refusal(&m, "scan", "split(i, 4); inscan(s.acc, i.o, 4)"), "E0624");
    assert_eq!(refusal(&m, "scan", "inscan(s.acc, i, 4); vectorize(i.o, 4)"), "E0624");
}

/// The running value of a scan lives through all iterations: none of them can start in the middle.
#[test]
fn a_scan_is_not_computed_in_pieces() {
    let m = parse(
        "func f(N)(x: in i64[N], y: out i64[N]) stage plain {
        alloc T: i64[N] {
          alloc acc: i64[] register {
            'T.init'[]: acc[]! = 0:i64
            for j in 0..N { 'T'[j]: acc[]! sum= x[j]! licensed  'T.store'[j]: T[j]! = acc[]! }
          }
          for i in 0..N { 'y'[i]: y[i]! = T[i]! * 2:i64 }
        } }",
    );
    assert_eq!(refusal(&m, "f", "split(i, 4); compute_at(T, i.o)"), "E0624");
    assert_eq!(refusal(&m, "f", "compute_at(T, i)"), "E0624");
}

/// Rows inside of a scan are reduced first, each for itself.
#[test]
fn what_is_scanned_is_reduced_before() {
    let m = parse(SCANS);
    let sizes = ["N", "M"];
    let f = all_sizes(&m, "many", "prereduce(s)", &sizes);
    let text = show(&f);
    assert!(text.contains("'s.part'") && text.contains("'s'[i, 0]: s.acc[] sum= s.part[i]"), "{text}");
    let lanes = "split(s.part.j, 4); factor(rows, s.part.j.i); vectorize(s.part.j.i, 4)";
    let steps = format!("prereduce(s, name: rows); {lanes}; parallel(s.part.i); split(s.i, 3)");
    all_sizes(&m, "many", &steps, &sizes);
    let blocks = "privatize(s.part, s.part.j); parallel(s.part.j); split(s.i, 3); prescan(s.acc, s.i.o)";
    all_sizes(&m, "many", &format!("prereduce(s); {blocks}; parallel(s.i.o)"), &sizes);
    all_sizes(&m, "many", "prereduce(s); reorder(s.part.j, s.part.i)", &sizes);
    assert_eq!(refusal(&m, "many", "split(j, 4); prereduce(s)"), "E0624");
    assert_eq!(refusal(&m, "scan", "prereduce(s)"), "E0624");
    assert_eq!(refusal(&m, "fed", "prereduce(s)"), "E0624");
}
