//! Storage rules: what they accept computes the same, what they refuse says why.

use crate::common::*;

const DOT: &str = "
func dot(N)(x: in i64[N], y: in i64[N], s: out i64[]) stage plain {
  's.init'[]: s[]! = 0:i64
  for i in 0..N { 's'[i]: s[]! sum= x[i]! * y[i]! licensed }
}";

#[test]
fn a_sum_is_split_into_lanes() {
    let m = parse(DOT);
    all_sizes(&m, "dot", "split(i, 16); factor(s, i.i); vectorize(i.i, 4)", &["N"]);
    let f = all_sizes(
        &m,
        "dot",
        "split(i, 16); factor(s, i.i, space: register, name: acc); unroll(s.combine.p)",
        &["N"],
    );
    assert!(show(&f).contains("alloc acc"), "{}", show(&f));
}

/// Lanes are combined with lanes; what has no identity, an order, or no constant number of parts, is not.
#[test]
fn partial_results_are_combined_in_halves() {
    let m = parse(DOT);
    let steps = "split(i, 16); factor(s, i.i, combine: tree); vectorize(i.i, 8); vectorize(s.halve.p, 8)";
    let f =
        all_sizes(&m, "dot", &format!("{steps}; vectorize(s.halve2.p, 4); vectorize(s.halve3.p, 2)"), &["N"]);
    for label in ["'s.halve'", "'s.halve4'", "s.p[0]"] {
        assert!(show(&f).contains(label), "{label}: {}", show(&f));
    }
    // Numbers that are not even leave one over.
    for parts in [1, 2, 3, 5, 7, 12] {
        all_sizes(&m, "dot", &format!("split(i, {parts}); factor(s, i.i, combine: tree)"), &["N"]);
    }
    assert_eq!(refusal(&m, "dot", "factor(s, i, combine: tree)"), "E0624");
    let m = parse(
        "op left(a, b): i64 associative identity(0:i64) = a[] + b[]
        func f(N)(x: in i64[N], s: out i64[]) stage plain {
          's.init'[]: s[]! = 0:i64
          for i in 0..N { 's'[i]: s[]! left= x[i]! licensed }
        }",
    );
    assert_eq!(refusal(&m, "f", "split(i, 4); factor(s, i.o, at: i.o, combine: tree)"), "E0624");
}

#[test]
fn a_sum_is_split_among_threads_with_accumulators_kept_in_registers() {
    let m = parse(DOT);
    let steps = "split(i, 16); privatize(s, i.o, name: sp); accumulate(sp, at: i.i); parallel(i.o)";
    let f = all_sizes(&m, "dot", steps, &["N"]);
    assert!(show(&f).contains("cpu"), "{}", show(&f));
}

#[test]
fn chunks_and_lanes_together() {
    let m = parse(DOT);
    let steps = "split(i, 32); privatize(s, i.o); split(i.i, 8); factor(s.p, i.i.i); parallel(i.o); vectorize(i.i.i, 8)";
    all_sizes(&m, "dot", steps, &["N"]);
}

#[test]
fn values_are_computed_in_a_nest_of_their_own() {
    let m = parse(MLP);
    let sizes = ["M", "N", "K"];
    let f =
        all_sizes(&m, "mlp", "materialize(T); reorder(T.map.k, T.map.j, T.map.i); reorder(T.k, T.i)", &sizes);
    assert!(show(&f).contains("'T.map'"), "{}", show(&f));
    all_sizes(
        &m,
        "mlp",
        "materialize(C, name: V); split(C.map.j, 8); parallel(C.map.i); reorder(C.j, C.i)",
        &sizes,
    );
    assert_eq!(refusal(&m, "mlp", "split(T.k, 4); materialize(T)"), "E0624");
    let m = parse(
        "func f(N)(A: inout i64[N], n: in i64[]) stage plain {
        for i in 1..N { 'A'[i]: A[i]! = A[i - 1]! }
        for j in 0..N { if A[j]! > 0:i64 { 'B'[j]: A[j]! = n[]! } }
    }",
    );
    assert_eq!(refusal(&m, "f", "materialize(A)"), "E0624");
    assert_eq!(refusal(&m, "f", "materialize(B)"), "E0624");
}

const SCALED: &str = "func scaled(M, K)(a: in i64[], A: in i64[M, K], B: in i64[K, 6], C: out i64[M, 6]) stage plain {
    compute 'C' over i in 0..M, j in 0..6, k in 0..K reduce(sum) { C[i, j] = a[] * A[i, k] * B[k, j] + (A[i, k] - a[]) }
}";

#[test]
fn what_a_loop_does_not_change_is_computed_before() {
    let m = parse(SCALED);
    let f = all_sizes(&m, "scaled", "open(); hoist(C, C.j); reorder(C.map.k, C.map.i)", &["M", "K"]);
    assert!(show(&f).contains("'C.map2'"), "{}", show(&f));
    all_sizes(
        &m,
        "scaled",
        "open(); hoist(C, C.j, name: S); split(C.map.k, 4); parallel(C.map.i)",
        &["M", "K"],
    );
    // All that is more than a load depends on `i`; blocks of a loop make no box.
    assert_eq!(refusal(&m, "scaled", "open(); hoist(C, C.i)"), "E0624");
    assert_eq!(refusal(&m, "scaled", "open(); split(C.j, 4); hoist(C, C.j.i)"), "E0624");
}

#[test]
fn arrays_shrink_to_what_an_iteration_uses() {
    let m = parse(
        "func f(N, M)(A: in i64[N, M], B: out i64[N, M], C: out i64[N]) stage plain {
        alloc T: i64[N, M]
        alloc s: i64[N]
        for i in 0..N {
          's.init'[i]: s[i]! = 0:i64
          for j in 0..M { 'T'[i, j]: T[i, j]! = A[i, j]! * 3:i64 }
        }
        for i in 0..N { for j in 0..M { 's'[i, j]: s[i]! sum= T[i, j]! licensed } }
        for i in 0..N {
          for j in 0..M { 'B'[i, j]: B[i, j]! = T[i, j]! - s[i]! }
          'C'[i]: C[i]! = s[i]!
        } }",
    );
    let blocks = "split(T.i, 4); split(s.i, 4); split(B.i, 4); fuse(T.i.o, s.i.o); fuse(s.i.o, B.i.o)";
    let steps =
        format!("{blocks}; localize(T, at: T.i.o); localize(s, at: T.i.o, space: stack); parallel(T.i.o)");
    let f = all_sizes(&m, "f", &steps, &["N", "M"]);
    assert!(show(&f).contains("alloc s") || show(&f).contains("alloc s: i64[4] stack"), "{}", show(&f));
    for (steps, code) in [
        ("localize(T, at: T.i)", "E0624"),
        ("localize(A, at: T.i)", "E0624"),
        (&*format!("{blocks}; localize(s, at: s.i.i)"), "E0624"),
        ("fuse(T.i, s.i); fuse(s.i, B.i); set_layout(T, permute(1, 0)); localize(T, at: T.i)", "E0624"),
    ] {
        assert_eq!(refusal(&m, "f", steps), code, "{steps}");
    }
    // What an earlier iteration wrote.
    let m = parse(
        "func f(N)(A: in i64[N], B: out i64[N]) stage plain {
        alloc T: i64[N + 1]
        'T.init'[]: T[0]! = 0:i64
        for i in 0..N { 'T'[i]: T[i + 1]! = A[i]!  'B'[i]: B[i]! = T[i]! } }",
    );
    assert_eq!(refusal(&m, "f", "localize(T, at: i)"), "E0624");
}

/// What a later iteration reads, once per line: of vectors in front of them, of what depends on the loop only.
#[test]
fn what_is_read_later_is_asked_for() {
    let m = parse(
        "func f(M, N)(A: in i64[M, N], x: in i64[N], y: out i64[M]) stage plain {
           compute 'y' over i in 0..M, j in 0..N reduce(sum) { y[i]! = A[i, j]! * x[j]! }
         }
         func g(M)(A: in i64[M], p: in index[M], y: out i64[M]) stage plain {
           for i in 0..M { 'y'[i]: y[i]! = A[p[i]!] }
         }
         func s(M)(A: in i64[M], y: out i64[M]) stage plain {
           alloc a: i64[] register {
             'y.init'[]: a[]! = 0:i64
             for i in 0..M { 'y'[i]: a[]! sum= A[i]! licensed 'y.store'[i]: y[i]! = a[]! }
           } }",
    );
    let lanes = "open(); split(j, 16); factor(y, j.i); vectorize(j.i, 8)";
    for (steps, wanted) in [
        ("prefetch(A, at: i)", vec!["prefetch A[i + 1, j.o * 16 + j.i.o * 8]"]),
        ("prefetch(A, at: j.o, ahead: 4)", vec!["prefetch A[i, j.o * 16 + j.i.o * 8 + 64]"]),
        ("prefetch(x, at: j.o)", vec!["prefetch x[j.o * 16 + j.i.o * 8 + 16]"]),
        ("prefetch(A, at: i, within: j.i.o)", vec!["prefetch A[i + 1, "]),
        ("parallel(i); prefetch(A, at: j.o); split(j.o, 3)", vec!["prefetch A["]),
    ] {
        let f = all_sizes(&m, "f", &format!("{lanes}; {steps}"), &["M", "N"]);
        let text = show(&f);
        assert_eq!(text.matches("prefetch ").count(), wanted.len(), "{text}");
        wanted.iter().for_each(|w| assert!(text.contains(w), "{w} in {text}"));
    }
    // Two lines per vector of 16 numbers.
    let f = all_sizes(&m, "s", "split(i, 64); inscan(a, i.i, 16); prefetch(A, at: i.o)", &["M"]);
    for w in ["A[i.o * 64 + i.i.o * 16 + 64]", "A[i.o * 64 + i.i.o * 16 + 72]"] {
        assert!(show(&f).contains(&format!("prefetch {w}")), "{}", show(&f));
    }
    let at = |steps: &str| format!("{lanes}; {steps}");
    for (func, steps, code) in [
        ("f", at("prefetch(x, at: i)"), "E0624"),
        ("f", at("parallel(i); prefetch(A, at: i)"), "E0625"),
        ("f", at("prefetch(y.p, at: j.o)"), "E0625"),
        ("f", at("prefetch(A, at: j.o, within: i)"), "E0624"),
        ("g", "prefetch(A, at: i)".to_string(), "E0625"),
    ] {
        assert_eq!(refusal(&m, func, &steps), code, "{steps}");
    }
}

#[test]
fn cores_of_devices_lie_in_one_another() {
    let m = parse(MLP);
    let sizes = ["M", "N", "K"];
    let tiles = "split(T.i, 4); split(T.j, 8); reorder(T.i.o, T.j.o, T.k, T.i.i, T.j.i)";
    let steps = format!(
        "{tiles}; stage(A, at: T.k, space: shared); bind(T.i.o, grid); bind(T.j.o, grid); bind(T.i.i, block); bind(T.j.i, block)"
    );
    let f = all_sizes(&m, "mlp", &steps, &sizes);
    assert!(show(&f).contains("level(grid)") && show(&f).contains("shared"), "{}", show(&f));
    assert_eq!(refusal(&m, "mlp", &format!("{tiles}; bind(T.k, block)")), "E0623");
    for (steps, code) in [
        ("bind(U.i, block); bind(U.j, grid)", "E0624"),
        ("bind(U.j, grid); bind(U.i, block)", "E0624"),
        ("vectorize(U.i, 8); bind(U.j, lane)", "E0624"),
        ("bind(U.i, floor)", "E0620"),
    ] {
        assert_eq!(refusal(&m, "mlp", steps), code, "{steps}");
    }
}

/// An output that the statement itself begins has no value to copy in.
#[test]
fn what_is_not_computed_yet_is_not_copied() {
    let f = |cond: &str, other: &str| {
        parse(&format!(
            "func f(N)(x: in i64[N], y: out i64[N]) stage plain {{
            for t in 0..1 {{
              for i in 0..N {{ if {cond} {{ 'y.init'[t, i]: y[i]! = 0:i64 }} else {{ 'y.b'[t, i]: y[{other}]! = 1:i64 }} }}
              for i in 0..N {{ 'y'[t, i]: y[i]! sum= x[i]! licensed }}
            }} }}"
        ))
    };
    assert_eq!(refusal(&f("x[i]! > 0:i64", "N - 1 - i"), "f", "stage(y, at: t)"), "E0625");
    // What both branches write is written.
    all_sizes(&f("i > 0", "i"), "f", "stage(y, at: t)", &["N"]);
    all_sizes(&f("x[i]! > 0:i64", "i"), "f", "stage(y, at: t)", &["N"]);
}

/// Where the loop that writes may be empty, the box must hold what was there before.
#[test]
fn a_box_keeps_what_an_empty_loop_does_not_write() {
    for mode in ["inout", "out"] {
        let text = format!(
            "func f(M, N)(x: in i64[M], y: {mode} i64[N]) stage plain {{
            {}
            for i in 0..N {{ for j in 0..M {{ 'y'[i, j]: y[i]! = x[j]! }} }} }}",
            if mode == "out" { "for k in 0..N { 'y.0'[k]: y[k]! = 7:i64 }" } else { "" }
        );
        let m = parse(&text);
        all_sizes(&m, "f", "stage(y, at: i)", &["M", "N"]);
        all_sizes(&m, "f", "split(i, 4); stage(y, at: i.o, space: stack)", &["M", "N"]);
    }
    // Rows that no iteration of the inner loop runs for are not read either.
    let m = parse(
        "func g(M, N)(x: in i64[M], y: inout i64[N]) stage plain {
        for i in 0..M { for j in i..min(i + 2, N) { 'y'[i, j]: y[j]! = y[j]! + x[i]! } } }",
    );
    all_sizes(&m, "g", "stage(y, at: i)", &["M", "N"]);
}

#[test]
fn what_has_no_licence_stays() {
    let m = parse(&DOT.replace(" licensed", ""));
    assert_eq!(refusal(&m, "dot", "split(i, 16); factor(s, i.i)"), "E0624");
    let m = parse(
        "func f(N)(x: in i64[N], s: inout i64[]) stage plain {
        for i in 0..N { 's'[i]: s[]! sum= x[i]! licensed  't'[i]: s[]! max= x[i]! licensed } }",
    );
    assert_eq!(refusal(&m, "f", "factor(s, i)"), "E0624");
    let m = parse(DOT);
    assert_eq!(refusal(&m, "dot", "factor(s, i, space: stack)"), "E0624");
}

/// A remainder beside the loop has no number to keep its partial result under.
#[test]
fn copies_of_a_reduction_beside_the_loop() {
    let m = parse(
        "func f(M, N)(A: in i64[M, N], s: out i64[]) stage plain {
        's.init'[]: s[]! = 0:i64
        for i in 0..M { for j in 0..N { 's'[i, j]: s[]! sum= A[i, j]! licensed } } }",
    );
    let steps = "split(j, 4); separate(j.o)";
    all_sizes(&m, "f", &format!("{steps}; privatize(s, j.o)"), &["M", "N"]);
    assert_eq!(refusal(&m, "f", &format!("{steps}; privatize(s, j.o, at: i)")), "E0624");
}

#[test]
fn a_histogram_is_private_to_chunks() {
    let m = parse(
        "func hist(N, B)(X: in i64[N], H: inout i64[B]) stage plain {
        for i in 0..N { 'H'[i]: H[index(X[i]!)]? sum= 1:i64 licensed } }",
    );
    let f = schedule(&m, "hist", "split(i, 10); privatize(H, i.o)");
    for n in [0, 1, 9, 10, 11, 35] {
        same(&m, "hist", &f, &[("N", n), ("B", 7)]);
    }
}

#[test]
fn rows_of_a_matrix_product_with_a_vector_have_lanes_of_their_own() {
    let m = parse("func mv(M, N)(A: in i64[M, N], x: in i64[N], y: out i64[M]) stage plain {
        for i in 0..M { 'y.init'[i]: y[i]! = 0:i64  for j in 0..N { 'y'[i, j]: y[i]! sum= A[i, j]! * x[j]! licensed } } }");
    all_sizes(&m, "mv", "split(j, 8); factor(y, j.i); vectorize(j.i, 8)", &["M", "N"]);
    all_sizes(
        &m,
        "mv",
        "fission(y.init); split(y.i, 4); split(j, 8); reorder(i.o, j.o, i.i, j.i); factor(y, j.i, at: j.o)",
        &["M", "N"],
    );
    all_sizes(&m, "mv", "accumulate(y, at: j)", &["M", "N"]);
    all_sizes(
        &m,
        "mv",
        "fission(y.init); split(y.i, 4); reorder(i.o, j, i.i); accumulate(y, at: j, pad: true); unroll(copy(y).0)",
        &["M", "N"],
    );
}

#[test]
fn the_first_largest_element_is_found_in_parts() {
    let m = parse(
        "func am(N)(x: in i64[N], v: out i64[], p: out i64[]) stage plain {
        'v.init'[]: v[]! = -9223372036854775808:i64
        'p.init'[]: p[]! = 9223372036854775807:i64
        for i in 0..N { 'v'[i]: {v[]!, p[]!} argmax= {x[i]!, i64(i)} licensed } }",
    );
    all_sizes(&m, "am", "split(i, 8); factor(v, i.i)", &["N"]);
    all_sizes(&m, "am", "split(i, 8); privatize(v, i.o)", &["N"]);
}

const BLUR: &str = "
func blur(H, W)(A: in i64[H + 2, W + 2], B: out i64[H, W]) stage plain {
  alloc T: i64[H + 2, W]
  for y in 0..H + 2 { for x in 0..W { 'T'[y, x]: T[y, x]! = A[y, x]! + A[y, x + 1]! + A[y, x + 2]! } }
  for y in 0..H { for x in 0..W { 'B'[y, x]: B[y, x]! = T[y, x]! + T[y + 1, x]! * 2:i64 + T[y + 2, x]! } }
}";

#[test]
fn an_intermediate_image_is_computed_where_it_is_used() {
    let m = parse(BLUR);
    let f = all_sizes(&m, "blur", "split(B.y, 8); compute_at(T, y.o)", &["H", "W"]);
    assert_eq!(show(&f).matches("alloc").count(), 1, "{}", show(&f));
    all_sizes(&m, "blur", "compute_at(T, B.y)", &["H", "W"]);
    let steps =
        "split(B.y, 8); split(B.x, 16); reorder(y.o, x.o, y.i, x.i); compute_at(T, x.o); parallel(y.o)";
    let f = all_sizes(&m, "blur", steps, &["H", "W"]);
    assert!(show(&f).contains("alloc T@") && show(&f).contains("i64[10, 16] stack"), "{}", show(&f));
    let steps = "split(B.y, 8); split(B.x, 16); reorder(y.o, x.o, y.i, x.i); compute_at(T, x.o); vectorize(T.x, 8); vectorize(B.x.i, 8)";
    all_sizes(&m, "blur", steps, &["H", "W"]);
}

#[test]
fn an_intermediate_image_is_computed_again_at_each_use() {
    let m = parse(BLUR);
    let f = all_sizes(&m, "blur", "inline(T)", &["H", "W"]);
    assert!(!show(&f).contains("alloc"), "{}", show(&f));
}

const MLP: &str = "
func mlp(M, N, K)(A: in i64[M, K], B: in i64[K, N], b: in i64[N], C: out i64[M, N]) stage plain {
  alloc T: i64[M, N]
  alloc U: i64[M, N]
  for i in 0..M { for j in 0..N {
    'T.init'[i, j]: T[i, j]! = 0:i64
    for k in 0..K { 'T'[i, j, k]: T[i, j]! sum= A[i, k]! * B[k, j]! licensed }
  } }
  for i in 0..M { for j in 0..N { 'U'[i, j]: U[i, j]! = T[i, j]! + b[j]! } }
  for i in 0..M { for j in 0..N { 'C'[i, j]: C[i, j]! = max(U[i, j]!, 5:i64) } }
}";

#[test]
fn a_layer_of_a_network_is_fused() {
    let m = parse(MLP);
    all_sizes(&m, "mlp", "inline(U); split(C.i, 4); compute_at(T, i.o)", &["M", "N", "K"]);
    all_sizes(
        &m,
        "mlp",
        "inline(U); split(C.i, 4); split(C.j, 8); reorder(i.o, j.o, i.i, j.i); compute_at(T, j.o, space: stack)",
        &["M", "N", "K"],
    );
    assert_eq!(refusal(&m, "mlp", "inline(T)"), "E0624");
    assert_eq!(refusal(&m, "mlp", "compute_at(T, C.i)"), "E0624");
    assert_eq!(refusal(&m, "mlp", "inline(C)"), "E0624");
}

#[test]
fn what_is_overwritten_cannot_be_computed_later() {
    let m = parse(
        "func f(N)(A: inout i64[N], B: out i64[N]) stage plain {
        alloc T: i64[N]
        for i in 0..N { 'T'[i]: T[i]! = A[i]! * 2:i64 }
        for j in 0..N { 'A'[j]: A[j]! = 0:i64 }
        for k in 0..N { 'B'[k]: B[k]! = T[k]! + A[k]! }
    }",
    );
    for steps in ["inline(T)", "compute_at(T, k)"] {
        assert_eq!(refusal(&m, "f", steps), "E0623");
    }
    let steps = "split(k, 4); stage(A, at: k.o, name: As)";
    all_sizes(&m, "f", steps, &["N"]);
}

const JACOBI: &str = "
func jacobi(H, W)(A: in i64[H + 2, W + 2], B: out i64[H + 2, W + 2]) stage plain {
  for y in 0..H + 2 { for x in 0..W + 2 { 'B.b'[y, x]: B[y, x]! = A[y, x]! } }
  for y in 1..H + 1 { for x in 1..W + 1 {
    'B'[y, x]: B[y, x]! = A[y - 1, x]! + A[y + 1, x]! + A[y, x - 1]! + A[y, x + 1]! - A[y, x]! * 3:i64
  } }
}";

#[test]
fn a_stencil_is_staged_with_its_rim() {
    let m = parse(JACOBI);
    let tiles = "split(B.y, 8); split(B.x, 16); reorder(y.o, x.o, y.i, x.i)";
    let f = all_sizes(&m, "jacobi", &format!("{tiles}; stage(A, at: x.o, space: stack)"), &["H", "W"]);
    assert!(show(&f).contains("i64[10, 18] stack"), "{}", show(&f));
    all_sizes(
        &m,
        "jacobi",
        &format!("{tiles}; stage(B, at: x.o, space: stack); stage(A, at: y.o)"),
        &["H", "W"],
    );
    all_sizes(
        &m,
        "jacobi",
        &format!("{tiles}; stage(A, at: x.o, pad: true); stage(B, at: x.o); pad(x.i); pad(y.i)"),
        &["H", "W"],
    );
    all_sizes(&m, "jacobi", "vectorize(B.x, 8); nontemporal(B); reassociate(B)", &["H", "W"]);
    all_sizes(&m, "jacobi", "stage(A, at: B.y)", &["H", "W"]);
}

#[test]
fn padding_is_refused_where_it_would_have_an_effect() {
    let m = parse(JACOBI);
    let tiles = "split(B.x, 16)";
    assert_eq!(refusal(&m, "jacobi", &format!("{tiles}; pad(x.i)")), "E0626");
    assert_eq!(refusal(&m, "jacobi", &format!("{tiles}; stage(B, at: x.o); pad(x.i)")), "E0626");
    assert_eq!(
        refusal(&m, "jacobi", &format!("{tiles}; stage(B, at: x.o); stage(A, at: x.o); pad(x.i)")),
        "E0626"
    );
    assert_eq!(refusal(&m, "jacobi", "pad(B.x)"), "E0626");
}

#[test]
fn staging_is_refused_where_a_copy_could_go_wrong() {
    let m = parse(JACOBI);
    assert_eq!(refusal(&m, "jacobi", "stage(A, at: B.y, space: stack)"), "E0624");
    assert_eq!(refusal(&m, "jacobi", "split(B.x, 8); vectorize(x.i, 8); stage(A, at: x.i)"), "E0625");
    let m = parse(
        "func f(N)(A: in i64[N] alias c, B: out i64[N] alias c) stage plain {
        for i in 0..N { 'B'[i]: B[i]! = A[i]! } }",
    );
    assert_eq!(refusal(&m, "f", "split(i, 8); stage(A, at: i.o)"), "E0625");
    let m = parse(
        "func g(N)(I: in i64[N], A: in i64[N], B: out i64[N]) stage plain {
        for i in 0..N { 'B'[i]: B[index(I[i]!)]? = A[i]! } }",
    );
    assert_eq!(refusal(&m, "g", "split(i, 8); stage(B, at: i.o)"), "E0625");
    all_sizes(&parse(JACOBI), "jacobi", "split(B.y, 8); parallel(y.o); stage(A, at: y.o)", &["H", "W"]);
}

#[test]
fn an_update_in_place_keeps_its_order_in_a_copy() {
    let m = parse(
        "func gs(N)(A: inout i64[N + 2]) stage plain {
        for t in 0..3 { for i in 1..N + 1 { 'A'[t, i]: A[i]! = A[i - 1]! + A[i]! + A[i + 1]! } } }",
    );
    all_sizes(&m, "gs", "split(i, 8); stage(A, at: i.o, space: stack)", &["N"]);
    all_sizes(&m, "gs", "stage(A, at: t)", &["N"]);
    all_sizes(&m, "gs", "accumulate(A, at: t, space: host)", &["N"]);
}

#[test]
fn layouts_and_spaces_of_local_buffers_change_nothing() {
    let m = parse(JACOBI);
    let steps = "split(B.y, 8); split(B.x, 16); reorder(y.o, x.o, y.i, x.i); stage(A, at: x.o, name: As)";
    let more = "set_layout(As, tile(1, 4), permute(1, 0, 2)); promote(As, space: stack)";
    let f = all_sizes(&m, "jacobi", &format!("{steps}; {more}"), &["H", "W"]);
    assert!(show(&f).contains("stack layout tile(1, 4) permute(1, 0, 2)"), "{}", show(&f));
    for (step, code) in [
        ("set_layout(As, tile(2, 4))", "E0620"),
        ("set_layout(As, permute(0, 0))", "E0620"),
        ("set_layout(As, swirl(0))", "E0620"),
        ("set_layout(A, permute(1, 0))", "E0625"),
        ("promote(As, space: cellar)", "E0620"),
    ] {
        assert_eq!(refusal(&m, "jacobi", &format!("{steps}; {step}")), code, "{steps}");
    }
}

#[test]
fn products_that_are_added_are_fused() {
    let m = parse("func f(N)(A: in f32[N], B: in f32[N], s: inout f32[], C: out f32[N]) stage plain {
        for i in 0..N { 's'[i]: s[]! sum= A[i]! * B[i]! licensed  'C'[i]: C[i]! = A[i]! * B[i]! - B[i]! * A[i]! + 1.0:f32 } }");
    let f = schedule(&m, "f", "fma(s); fma(C)");
    assert!(show(&f).contains("licensed contract") && show(&f).contains("fma("), "{}", show(&f));
    // Models that price it first look at the same statements, and at no others.
    let body = |steps: &str| schedule(&m, "f", steps).body;
    let plain = &m.functions.values().next().expect("a function").body;
    let priced = |labels: &[&str]| lathe_transform::storage::with_fma(plain, |l| labels.contains(&l));
    assert_eq!(priced(&["s", "C"]), body("fma(s); fma(C)"));
    assert_eq!(priced(&["s"]), body("fma(s)"));
    assert_eq!(priced(&[]), *plain);
    assert_eq!(refusal(&m, "f", "fma(s); fma(s)"), "E0624");
    assert_eq!(refusal(&m, "f", "nontemporal(s)"), "E0624");
    assert_eq!(refusal(&m, "f", "reassociate(C)"), "E0624");
    let m = parse(DOT);
    assert_eq!(refusal(&m, "dot", "fma(s)"), "E0624");
}

#[test]
fn evidence_names_what_was_made_and_why_it_is_legal() {
    let m = parse(DOT);
    let f = schedule(&m, "dot", "split(i, 16)");
    let e = step(&m, &f, "factor(s, i.i)").expect("legal").evidence;
    assert_eq!(e.reassociates, ["s"]);
    assert!(e.buffers[0].to_string() == "s.p[16] in stack", "{:?}", e.buffers);
    assert!(
        e.relations.iter().any(|r| r.label == "s.combine" && r.kind == lathe_strategy::evidence::Kind::New)
    );
    assert!(e.obligations.iter().any(|o| o.to_string().contains("commutative")));
}

/// What is computed before must not change on the way, under another name either.
#[test]
fn values_of_what_may_alias_are_not_computed_before() {
    let m = parse(
        "func f(N, M)(A: in i64[N, M] alias c, B: inout i64[N] alias c) stage plain {
           for i in 0..N { for j in 0..M { 'B'[i, j]: B[i]! sum= A[i, j]! licensed } }
         }",
    );
    for rule in ["materialize(B)", "prereduce(B)"] {
        assert_eq!(refusal(&m, "f", rule), "E0624");
    }
}

const APART: &str = "
func apart(N)(x: in i64[N], s: out i64[N]) stage plain {
  for a in 0..4 {
    for b in 0..(N - a + 3) // 4 {
      's'[a + b * 4]: s[a + b * 4]! = x[a + b * 4]!
    }
  }
}";

/// Tiles whose parts lie apart are copied without what lies between.
#[test]
fn boxes_with_steps_are_copied() {
    let m = parse(APART);
    for steps in ["stage(s, at: a)", "stage(x, at: a); stage(s, at: a)", "stage(s, at: a); parallel(a)"] {
        all_sizes(&m, "apart", steps, &["N"]);
    }
}
