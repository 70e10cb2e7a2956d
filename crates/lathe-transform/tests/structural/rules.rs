//! Rules that change the structure of loops: each works, is refused where it must be, and keeps results.

use crate::support::*;

const GEMM: &str = "
func gemm(M, N, K)(A: in i32[M, K], B: in i32[K, N], C: out i32[M, N]) stage plain {
  compute 'C' over i in 0..M, j in 0..N, k in 0..K reduce(sum) { C[i, j] = A[i, k] * B[k, j] }
}";

const COPY: &str = "
func copy(N)(A: in i32[N], B: out i32[N]) stage plain {
  compute 'B' over i in 0..N { B[i] = A[i] + 1:i32 }
}";

const TWO: &str = "
func two(N)(A: in i32[N], B: out i32[N], C: out i32[N]) stage plain {
  for i in 0..N { 'B'[i]: B[i] = A[i] * 2:i32 }
  for i in 0..N { 'C'[i]: C[i] = B[i] + A[i] }
}";

/// In place: every element needs its left neighbour.
const PREFIX: &str = "
func prefix(N)(A: inout i32[N]) stage plain {
  for i in 1..N { 'A'[i]: A[i] = A[i] + A[i - 1] }
}";

const SEIDEL: &str = "
func seidel(T, N)(w: in i32[T], u: inout i32[N]) stage plain {
  for t in 0..T { for x in 1..N - 1 { 'u'[t, x]: u[x] = u[x - 1] + u[x] + u[x + 1] } }
}";

const SIZES: &[&[i64]] = &[&[0], &[1], &[7], &[8], &[13], &[64]];
const SIZES3: &[&[i64]] =
    &[&[5, 7, 3], &[1, 1, 1], &[0, 3, 2], &[3, 0, 2], &[3, 2, 0], &[8, 16, 4], &[11, 13, 5]];

#[test]
fn open_makes_loops_named_after_indices() {
    let f = check(GEMM, "id", SIZES3);
    let text = show(&f);
    assert!(text.contains("for i in 0..M") && text.contains("'C.init'[i, j]"), "{text}");
}

#[test]
fn open_scans_and_reductions_without_identity() {
    let scan = "
func scan(M, N)(A: in i32[M, N], B: out i32[M, N]) stage plain {
  compute 'B' over i in 0..M, s in 0..N scan(sum) { B[i, s] = A[i, s] }
}";
    check(scan, "id", &[&[3, 5], &[1, 1], &[0, 4], &[4, 0]]);
    let arg = "
func arg(M, N)(A: in f32[M, N], V: out f32[M], I: out index[M]) stage plain {
  compute 'V' over i in 0..M, k in 0..N reduce(argmax) { V[i], I[i] = A[i, k], k }
}";
    check(
        &arg.replace("V[i], I[i] = A[i, k], k", "{V[i], I[i]} = {A[i, k], k}"),
        "id",
        &[&[3, 5], &[1, 1], &[0, 4]],
    );
    let update = "
func update(M, N)(A: in i32[M, N], B: inout i32[M]) stage plain {
  compute 'B' over i in 0..M, k in 0..N reduce(max) { B[i] sum= A[i, k] }
}";
    check(update, "id", &[&[3, 5], &[2, 1]]);
}

#[test]
fn open_guards_and_first_elements() {
    let op = "
op second(a, b): i32 associative = b[]
func last(M, N)(A: in i32[M, N], B: out i32[M]) stage plain {
  compute 'B' over i in 0..M, k in 0..N reduce(second) { B[i] = A[i, k] if GUARD }
}";
    check(&op.replace(" if GUARD", ""), "id", &[&[3, 5], &[1, 1], &[0, 4]]);
    check(&op.replace("GUARD", "k < 3"), "id", &[&[3, 5], &[1, 1], &[0, 4]]);
    let module = parse(&op.replace(" if GUARD", ""));
    let f = apply(&module, "id");
    let mut args = arguments(only(&module), &[2, 0], 1);
    let failed = lathe_ir::interp::run(&module, &f, &mut args, &Default::default());
    assert!(failed.is_err(), "reducing nothing without identity fails the call");
}

#[test]
fn split_is_exact_for_every_extent() {
    for factor in ["1", "3", "8", "100"] {
        check(COPY, &format!("split(i, {factor})"), SIZES);
    }
    check(COPY, "split(i, 8) ; split(i.i, 3) ; split(i.o, 2, a, b)", SIZES);
}

#[test]
fn split_drops_the_minimum_where_it_divides() {
    let text =
        show(&check(&COPY.replace("0..N", "0..N * 16").replace("[N]", "[N * 16]"), "split(i, 8)", &[&[3]]));
    assert!(!text.contains("min("), "{text}");
    let text = show(&check(
        &COPY.replace("0..N", "0..64").replace("[N]", "[64]").replace("copy(N)", "copy()"),
        "split(i, 8)",
        &[&[]],
    ));
    assert!(!text.contains("min(") && text.contains("0..8"), "{text}");
}

#[test]
fn split_is_refused_with_advice() {
    let m = parse(COPY);
    assert_eq!(refused(&m, "split(j, 8)"), "E0621");
    assert_eq!(refused(&m, "split(i, 0)"), "E0620");
    assert_eq!(refused(&m, "split(i)"), "E0620");
    assert_eq!(refused(&m, "vectorize(i, 8) ; split(i.i, 2)"), "E0624");
}

#[test]
fn tile_and_reorder_distribute_statements_between_loops() {
    let f = check(GEMM, "tile(i: 4, j: 3) ; reorder(i.o, j.o, k, i.i, j.i)", SIZES3);
    let text = show(&f);
    let k = text.find("for k").expect("a loop k");
    assert!(text.find("'C.init'").expect("the init") < k, "{text}");
    assert_eq!(text.matches("for i.o").count(), 1, "the loops over tiles stay shared\n{text}");
    check(GEMM, "reorder(k, j, i)", SIZES3);
    check(GEMM, "tile(i: 4, j: 3, k: 2)", SIZES3);
    check(GEMM, "tile(k: 2, i: 4)", SIZES3);
}

#[test]
fn reorder_moves_conditions_inward() {
    let tile = "
func tile(N)(A: in i32[N, N], B: out i32[N, N]) stage scheduled {
  for i in 0..5 {
    if i < N { for j in 0..5 { if j < N and i < 4 { for k in 0..2 { if 2 * j + k < N { 'B'[i, j, k]: B[i, 2 * j + k] = A[2 * j + k, i] } } } } }
  }
}";
    for order in ["k, i", "k, j, i", "j, k", "i, k, j"] {
        let f = check(tile, &format!("reorder({order})"), &[&[0], &[1], &[4], &[7]]);
        assert_eq!(show(&f).matches("if ").count(), 3);
    }
    // What reads arrays, and bounds that fail where the condition is false, stay.
    let reads = tile.replace("i < N {", "A[i, i] == 0:i32 {");
    assert_eq!(refused(&parse(&reads), "reorder(j, i)"), "E0624");
    let bound = tile.replace("for j in 0..5", "for j in 0..7 // N");
    assert_eq!(refused(&parse(&bound), "reorder(j, i)"), "E0624");
}

#[test]
fn reorder_refuses_what_changes_the_result() {
    assert_eq!(refused(&parse(SEIDEL), "reorder(x, t)"), "E0623");
    assert_eq!(refused(&parse(SEIDEL), "tile(t: 4, x: 4)"), "E0623");
    assert_eq!(refused(&parse(TWO), "reorder(B.i, C.i)"), "E0624");
    let triangle = "
func tri(N)(A: inout i32[N, N]) stage plain {
  for i in 0..N { for j in 0..i { 'A'[i, j]: A[i, j] = 0:i32 } }
}";
    assert_eq!(refused(&parse(triangle), "reorder(j, i)"), "E0624");
    check(triangle, "tile(i: 3, j: 2)", &[&[0], &[1], &[7]]);
    check(triangle, "remap(j: j, i: i)", &[&[0], &[1], &[7]]);
}

#[test]
fn skewed_tiles_of_a_stencil_in_place() {
    let f = check(
        SEIDEL,
        "remap(t: t, x: x + t) ; tile(t: 3, x: 4)",
        &[&[5, 9], &[1, 3], &[0, 5], &[7, 2], &[8, 21]],
    );
    assert!(show(&f).contains("for t.o"), "{}", show(&f));
    check(SEIDEL, "remap(a: t // 2, b: (x + t) // 3, t: t, x: x)", &[&[5, 9], &[1, 3], &[4, 6]]);
    check(SEIDEL, "remap(w: 2 * t + x, t: t) ; parallel(t)", &[&[5, 9], &[4, 6]]);
    assert_eq!(refused(&parse(SEIDEL), "remap(t: t, x: x + t) ; parallel(x)"), "E0623");
    assert_eq!(refused(&parse(SEIDEL), "remap(t: t, x: t)"), "E0624");
    assert_eq!(refused(&parse(SEIDEL), "remap(t: t + x, x: 2 * t + 2 * x)"), "E0624");
    assert_eq!(refused(&parse(SEIDEL), "remap(q: x // 2, t: t)"), "E0624");
}

#[test]
fn diamonds_of_a_wave() {
    let wave = "
func wave(T, N)(u: inout i32[T, N]) stage plain {
  for t in 1..T { for x in 1..N - 1 { 'u'[t, x]: u[t, x] = u[t - 1, x - 1] + u[t - 1, x + 1] } }
}";
    check(wave, "remap(p: (t + x) // 4, q: (t - x) // 4, t: t, x: x)", &[&[5, 9], &[9, 6], &[2, 3]]);
    check(wave, "remap(p: t + x, q: t - x)", &[&[5, 9], &[6, 6]]);
    assert_eq!(refused(&parse(wave), "remap(q: x, p: t)"), "E0623");
}

#[test]
fn fission_and_fusion() {
    check(GEMM, "fission(C.init)", SIZES3);
    check(GEMM, "fission(C.init, at: j)", SIZES3);
    check(GEMM, "fission(j, 1)", SIZES3);
    check(TWO, "fuse(B.i, C.i) ; split(i, 4)", SIZES);
    check(TWO, "fuse(i) ; fission(i, after: B)", SIZES);
    let later = TWO.replace("C[i] = B[i] + A[i]", "C[i] = B[N - 1 - i]");
    assert_eq!(refused(&parse(&later), "fuse(i)"), "E0623");
    let other = TWO.replacen("0..N", "0..N - 1", 1);
    assert_eq!(refused(&parse(&other), "fuse(i)"), "E0624");
    check(&TWO.replace("B[i] + A[i]", "A[i]"), "shift(C.i, 2) ; shift(C.i, 0 - 2) ; fuse(i)", SIZES);
    let carried = "
func carried(N)(A: inout i32[N], B: inout i32[N]) stage plain {
  for i in 1..N { 'A'[i]: A[i] = B[i - 1]  'B'[i]: B[i] = A[i - 1] }
}";
    assert_eq!(refused(&parse(carried), "fission(i, after: A)"), "E0623");
}

#[test]
fn unrolling() {
    check(COPY, "unroll(i, 4)", SIZES);
    check(COPY, "split(i, 8) ; separate(i.o) ; unroll(i.i)", SIZES);
    check(GEMM, "unroll_and_jam(i, 3)", SIZES3);
    check(GEMM, "unroll_and_jam(i, 2) ; unroll_and_jam(j, 3)", SIZES3);
    // Local arrays of an iteration are one per copy.
    let prefixes = "func prefixes(M, N)(A: in i64[M, N], B: out i64[M, N]) stage plain {
        for i in 0..M {
          alloc run: i64[] register
          'run.init'[i]: run[]! = i64(i)
          for k in 0..N {
            'run'[i, k]: run[]! sum= A[i, k]!
            'B'[i, k]: B[i, k]! = run[]!
          }
        } }";
    let jammed =
        show(&check(prefixes, "unroll_and_jam(i, 3)", &[&[5, 7], &[0, 3], &[3, 0], &[1, 1], &[9, 2]]));
    assert!(jammed.contains(": i64[3] register"), "{jammed}");
    assert_eq!(refused(&parse(COPY), "unroll(i)"), "E0624");
    assert_eq!(refused(&parse(SEIDEL), "unroll_and_jam(t, 2)"), "E0623");
}

#[test]
fn vectors() {
    let f = check(COPY, "vectorize(i, 4)", SIZES);
    assert!(show(&f).contains("vector(4)"), "{}", show(&f));
    check(COPY, "vectorize(i, 4, tail: separate)", SIZES);
    check(COPY, "split(i, 16) ; vectorize(i.i, 16)", SIZES);
    check(
        GEMM,
        "tile(i: 4, j: 8) ; reorder(i.o, j.o, k, i.i, j.i) ; vectorize(j.i, 8) ; parallel(i.o)",
        SIZES3,
    );
    assert_eq!(refused(&parse(PREFIX), "vectorize(i, 4)"), "E0623");
    assert_eq!(refused(&parse(GEMM), "vectorize(k, 4)"), "E0623");
    assert_eq!(refused(&parse(COPY), "vectorize(i, 5)"), "E0620");
    assert_eq!(refused(&parse(COPY), "vectorize(i, 4, tail: odd)"), "E0620");
}

#[test]
fn threads() {
    check(GEMM, "parallel(i)", SIZES3);
    check(COPY, "parallel(i) ; serial(i) ; split(i, 3)", SIZES);
    assert_eq!(refused(&parse(PREFIX), "parallel(i)"), "E0623");
    assert_eq!(refused(&parse(GEMM), "parallel(k)"), "E0623");
}

#[test]
fn parts_of_ranges() {
    check(COPY, "cut(i, 5) ; split(i, 2)", SIZES);
    check(COPY, "cut(i, N // 2)", SIZES);
    check(COPY, "peel(i, 3)", SIZES);
    check(COPY, "peel(i, 2, from: end)", SIZES);
    check(COPY, "reverse(i)", SIZES);
    check(PREFIX, "peel(i) ; cut(i, 4)", SIZES);
    assert_eq!(refused(&parse(PREFIX), "reverse(i)"), "E0623");
    assert_eq!(refused(&parse(COPY), "cut(i, q)"), "E0620");
    check(GEMM, "tile(i: 4, j: 4) ; reorder(i.o, j.o, k, i.i, j.i) ; separate(i.o) ; separate(j.o)", SIZES3);
}

#[test]
fn what_opens_closes_again() {
    for (text, sizes) in [(GEMM, SIZES3), (COPY, SIZES)] {
        let f = check(text, "split(i, 4)", sizes);
        assert!(!show(&f).contains("compute"), "{}", show(&f));
    }
    let f = check(COPY, "close ; open ; split(i, 4)", SIZES);
    assert!(show(&f).contains("i.o"), "{}", show(&f));
    // Steps begin with `open`; loops with an accumulator of their own are what translations give.
    let dot = "
func rows(M, N)(A: in i32[M, N], y: out i32[M], z: out i32[]) stage plain {
  for i in 0..M {
    alloc acc: i32[] register
    's'[i]: acc[] = 0:i32
    for j in 0..N { let v: i32 = A[i, j] * 2:i32  'r'[i, j]: acc[] sum= v + v }
    'y'[i]: y[i] = acc[]
  }
  alloc best: i32[] register
  'z.s'[]: best[] = 0:i32
  for i in 0..M { 'm'[i]: best[] max= y[i] }
  'z'[]: z[] = best[]
}";
    let sizes: &[&[i64]] = &[&[5, 7], &[1, 1], &[0, 3], &[3, 0], &[9, 16]];
    let f = check(dot, "close", sizes);
    let text = show(&f);
    assert!(text.contains("compute 'y' over i in 0..M") && text.contains("reduce(sum)"), "{text}");
    // The largest of nothing is not 0.
    assert!(!text.contains("reduce(max)"), "{text}");
    check(dot, "close(y) ; open ; split(j, 4) ; reorder(j.o, i)", sizes);
    assert_eq!(refused(&parse(dot), "close(z)"), "E0624");
    assert_eq!(refused(&parse(PREFIX), "close(A)"), "E0624");
}

/// Where a reduction would combine with the identity, it need not run.
#[test]
fn reductions_are_guarded_by_what_they_select() {
    let text = "
func f(N)(x: in i64[N], s: out i64[], t: out i64[]) stage plain {
  's.init'[]: s[]! = 0:i64
  't.init'[]: t[]! = 0:i64
  for i in 0..N {
    's'[i]: s[]! sum= select(x[i]! > 2:i64, x[i]! * x[i]!, 0:i64) licensed
    't'[i]: t[]! sum= select(x[i]! > 2:i64, x[i]! * x[i]!, 1:i64) licensed
  }
}";
    let f = check(text, "guard(s)", SIZES);
    assert!(show(&f).contains("if x[i]! > 2"), "{}", show(&f));
    assert_eq!(refused(&parse(text), "guard(t)"), "E0624");
    assert_eq!(refused(&parse(text), "guard(s.init)"), "E0624");
    let turned = text.replace("x[i]! * x[i]!, 0:i64", "0:i64, x[i]! * x[i]!");
    check(&turned, "guard(s)", SIZES);
}

/// What a result holds is what its reductions combined, in copies of it, too; what a caller passes may be anything.
#[test]
fn guards_know_what_results_hold() {
    let text = "
op far(a, b): i64 associative commutative identity(0:i64) = max(abs(a[]), abs(b[]))
func f(N)(x: in i64[N], s: out i64[]) stage plain {
  's.init'[]: s[]! = 0:i64
  for i in 0..N {
    's'[i]: s[]! far= select(x[i]! > 2:i64, x[i]!, 0:i64) licensed
  }
}";
    let staged = "split(i, 8) ; stage(s, at: i.o, space: register) ; guard(s)";
    assert!(show(&check(text, staged, SIZES)).contains("if x["));
    let passed = text.replace("s: out", "s: inout").replace("  's.init'[]: s[]! = 0:i64\n", "");
    assert_eq!(refused(&parse(&passed), "guard(s)"), "E1208");
    let filled = text.replace("s[]! = 0:i64", "s[]! = -1:i64");
    assert_eq!(refused(&parse(&filled), "guard(s)"), "E1208");
}
