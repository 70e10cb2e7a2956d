//! Aggregates, operators, views, layouts, threads.

use crate::common::*;

#[test]
fn threads_nest_and_failures_come_back() {
    let c = compile(
        "func f(M, N)(A: in f32[M, N], p: in bool, k: in index, B: out f32[M, N], S: out f32[M]) {
           alloc shared: f32[4] stack
           's': shared[2]! = 3.0:f32
           for i in 0..M cpu {
             alloc sum: f32[] register
             'sum'[i]: sum[]! = 0.0:f32
             for j in 0..N step 2 cpu {
               for u in 0..min(2, N - j) {
                 check A[i, j + u]! < 100.0:f32, \"large\", \"too large\"
                 'B'[i, j]: B[i, j + u]! = select(p, A[i, j + u]! * shared[k]!, 0.0:f32)
               }
             }
             for j in 0..N { 'sum.2'[i, j]: sum[]! sum= B[i, j]! }
             'S'[i]: S[i]! = sum[]!
           }
         }",
    );
    let run = |m: i64, n: i64, last: f32| {
        let count = (m * n) as usize;
        let mut a = Tensor::f32(&[m, n], |i| if i + 1 == count { last } else { i as f32 });
        let mut p = scalar(lathe_ir::Scalar::Bool, &[1]);
        let mut k = scalar(lathe_ir::Scalar::Index, &2i64.to_ne_bytes());
        let mut b = Tensor::f32(&[m, n], |_| 0.0);
        let mut s = Tensor::f32(&[m], |_| -1.0);
        (call(&c, &mut [&mut a, &mut p, &mut k, &mut b, &mut s]), b.as_f32(), s.as_f32())
    };
    let (status, b, s) = run(3, 5, 14.0);
    assert_eq!(status, 0);
    assert_eq!(b, (0..15).map(|i| 3.0 * i as f32).collect::<Vec<_>>());
    assert_eq!(s, [30.0, 105.0, 180.0]);
    assert_eq!(run(0, 5, 0.0).0, 0);
    let status = run(3, 5, 1000.0).0;
    assert!(matches!(c.object.checks[status as usize - 1], lathe_abi::CheckKind::User { .. }));
}

#[test]
fn stores_past_the_caches_are_exact_at_any_alignment() {
    let c = compile(
        "func f(N)(A: in f64[N], B: out f64[N]) {
           for o in 0..(N + 7) // 8 cpu { for i in 0..min(8, N - 8 * o) vector(8) {
             'B'[i]: B[8 * o + i]! = A[8 * o + i]! nontemporal
           } }
           for o in 0..N // 8 { for i in 0..8 vector(8) { 'B.2'[i]: B[8 * o + i]! = A[8 * o + i]! + 1.0:f64 nontemporal } }
         }",
    );
    for n in [0i64, 7, 8, 30] {
        let value = |i: usize| (i as f64).to_ne_bytes();
        let bytes = (0..n as usize).flat_map(value).collect();
        let mut a = Tensor::of(lathe_abi::dtype::F64, 8, &[n], bytes);
        for shift in 0..9 {
            let mut b = Tensor { first: shift * 8, bytes: vec![0; (n as usize + 16) * 8], ..a.clone() };
            assert_eq!(call(&c, &mut [&mut a, &mut b]), 0);
            let whole = n as usize / 8 * 8;
            let want = |i: usize| if i < whole { i as f64 + 1.0 } else { i as f64 };
            let want: Vec<Vec<u8>> = (0..n as usize).map(|i| want(i).to_ne_bytes().to_vec()).collect();
            assert_eq!(b.elements(), want);
        }
    }
}

/// Neither LLVM's middle nor its end makes a branch of a choice between constants that depends on data.
#[test]
fn choices_of_constants_are_no_branches() {
    let text = "func f()(x: in i32[], z: in i32[], y: inout i32[]) stage plain { \
                'y'[]: y[]! = y[]! * 5:i32 + select(x[]! == z[]!, 3:i32, -3:i32) }";
    let options = lathe_engine::Options::default();
    assert!(emit(text, "llvm", &options).contains("!unpredictable"));
}

/// Nobody gave the nest lanes or copies of iterations: LLVM's own passes make lanes of it. One with such a schedule keeps it.
#[test]
fn loops_without_a_schedule_become_vectors() {
    let text = |stage: &str| {
        format!(
            "func f(N)(A: in f32[N], B: inout f32[N]) stage {stage} {{ for i in 0..N {{ 'B'[i]: B[i]! = A[i]! + 1.0:f32 }} }}"
        )
    };
    let target = lathe_target::Machine::find("x86-64-v3").expect("a machine").code;
    let options = lathe_engine::Options { target: Some(target), ..lathe_engine::Options::default() };
    assert!(emit(&text("plain"), "llvm", &options).contains("fadd <8 x float>"));
    assert!(emit(&text("scheduled"), "llvm", &options).contains("fadd <8 x float>"));
    let unrolled = "func f(N)(A: in f32[N, 3], B: inout f32[N, 3]) stage scheduled { for i in 0..N { for j in 0..3 unrolled { \
                    'B'[i, j]: B[i, j]! = A[i, j]! + 1.0:f32 } } }";
    assert!(!emit(unrolled, "llvm", &options).contains("fadd <8"));
    // Sums keep their order: lanes would add up in another one.
    let sum = "func f(N)(A: in f32[N], s: inout f32[]) stage plain { for i in 0..N { 's'[i]: s[]! sum= A[i]! licensed } }";
    assert!(!emit(sum, "llvm", &options).contains("fadd <"));
}

/// Beside a nest in lanes in one loop around, one that nobody scheduled gets lanes from LLVM; what the lanes leave over does not.
#[test]
fn nests_beside_nests_in_lanes_are_nobodys() {
    let text = |second: &str| {
        format!(
            "func f(N)(A: inout f32[N, 64], B: inout f64[N, 64]) stage scheduled {{
               for t in 0..9 {{
                 for i in 0..N {{ for o in 0..8 {{ for j in 0..8 vector(8) {{ 'a'[t, i, o, j]: A[i, o * 8 + j]! = A[i, o * 8 + j]! * 2.0:f32 }} }} }}
                 {second}
               }}
             }}"
        )
    };
    let target = lathe_target::Machine::find("x86-64-v3").expect("a machine").code;
    let options = lathe_engine::Options { target: Some(target), ..lathe_engine::Options::default() };
    let own = "for i in 0..N { for j in 0..64 { 'b'[t, i, j]: B[i, j]! = B[i, j]! + 1.0:f64 } }";
    let lanes = |text: &str| emit(text, "llvm", &options).contains("fadd <4 x double>");
    assert!(lanes(&text(own)));
    // As statements that the first nest has in lanes, or on what is near the core.
    assert!(!lanes(&text(&own.replace("'b'[t, i, j]", "'a'[t, i, j, 0]"))));
    let near = "for i in 0..N { alloc S: f64[64] stack
      for j in 0..64 { 's'[t, i, j]: S[j]! = B[i, j]! + 1.0:f64 } for j in 0..64 { 'b'[t, i, j]: B[i, j]! = S[j]! } }";
    assert!(!lanes(&text(near)));
}

/// What fills up the end of an array that lanes write belongs to these, if the array is the function's own; others are nests of their own.
#[test]
fn filling_up_copies_belongs_to_them() {
    let text = |array: &str, before: &str, from: &str| {
        format!(
            "func f(N, L)(X: inout f32[N], Z: in f32[L], B: inout f32[N]) stage scheduled {{
               for t in 0..9 {{ {before}
                 for j in 0..16 vector(16) {{ 'c'[t, j]: {array}[j]! = B[j]! }}
                 for j in {from}..N {{ 'p'[t, j]: {array}[j]! = 0.0:f32 }}
                 for j in 0..16 vector(16) {{ 'b'[t, j]: B[j]! = {array}[j]! + 1.0:f32 }}
               }}
             }}"
        )
    };
    let options = lathe_engine::Options::default();
    let is_nobodys = |array: &str, before: &str, from: &str| {
        emit(&text(array, before, from), "llvm", &options).contains("@llvm.memset")
    };
    let local = "alloc S: f32[N]";
    assert!(is_nobodys("X", "", "L"));
    assert!(is_nobodys("S", local, "16"));
    assert!(!is_nobodys("S", local, "L"));
}
