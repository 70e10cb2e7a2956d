//! Aggregates, operators, views, layouts, threads.

use crate::common::*;

const PAIRS: &str = "
struct P { tag: i8, v: f32, i: i64 }
op better(a, b): P associative commutative = select(a[].v >= b[].v, a[], b[])
";

/// Records of 16 bytes: tag at 0, v at 4, i at 8.
fn pairs(n: i64) -> Tensor {
    let record = |k: i64| {
        let mut r = vec![k as u8, 0xee, 0xee, 0xee];
        r.extend(((k * 37 % 11) as f32).to_ne_bytes());
        r.extend((k * 10).to_ne_bytes());
        r
    };
    Tensor::of(lathe_abi::dtype::AGGREGATE, 16, &[n], (0..n).flat_map(record).collect())
}

#[test]
fn structs_are_read_written_and_combined() {
    let text =
        |body: &str| format!("{PAIRS} func f(N)(A: in P[N], B: inout P[], V: out f32[N]) {{ {body} }}");
    let serial =
        compile(&text("for k in 0..N { 'V'[k]: V[k]! = A[k]!.v  'B'[k]: B[]! better= A[k]! licensed }"));
    let vector = compile(&text(
        "for k in 0..N vector(16) { 'V'[k]: V[k]! = A[k]!.v }
         for k in 0..N { 'B'[k]: B[]! better= P(A[k]!.tag, A[k]!.v, A[k]!.i) licensed }",
    ));
    for c in [serial, vector] {
        let (mut a, mut v) = (pairs(9), Tensor::f32(&[9], |_| 0.0));
        let mut b = pairs(1);
        b.shape.clear();
        assert_eq!(call(&c, &mut [&mut a, &mut b, &mut v]), 0);
        assert_eq!(v.as_f32(), (0..9).map(|k| (k * 37 % 11) as f32).collect::<Vec<_>>());
        assert_eq!((b.bytes[0], &b.bytes[8..16]), (8, &80i64.to_ne_bytes()[..]), "the largest is number 8");
        let best = (0..9).max_by_key(|k| k * 37 % 11).expect("some");
        assert_eq!(best, 8);
    }
}

#[test]
fn arg_reductions_take_the_first_and_prefer_nan() {
    let c = compile(
        "func f(N)(A: in f32[N], V: inout f32[], I: inout index[], W: inout f32[], J: inout index[]) {
           for k in 0..N { 'V'[k]: {V[]!, I[]!} argmin= {A[k]!, k} licensed
                           'W'[k]: {W[]!, J[]!} argmax= {A[k]!, k} licensed }
         }",
    );
    let run = |values: &[f32]| {
        let mut a = Tensor::f32(&[values.len() as i64], |i| values[i]);
        let mut v = [f32::INFINITY, f32::NEG_INFINITY].map(|x| Tensor::f32(&[], |_| x));
        let mut i = [(); 2].map(|()| {
            let mut t = Tensor::i64(&[], |_| i64::MAX);
            t.dtype = lathe_abi::dtype::INDEX;
            t
        });
        let ([v0, v1], [i0, i1]) = (&mut v, &mut i);
        assert_eq!(call(&c, &mut [&mut a, v0, i0, v1, i1]), 0);
        (i[0].as_i64()[0], i[1].as_i64()[0])
    };
    assert_eq!(run(&[3.0, 1.0, 1.0, 5.0, 5.0]), (1, 3));
    assert_eq!(run(&[3.0, f32::NAN, 1.0, f32::NAN]), (1, 1));
    assert_eq!(run(&[f32::INFINITY]), (0, 0));
}

#[test]
fn views_and_layouts_say_where_elements_lie() {
    let c = compile(
        "func f(M, N)(A: in f32[M, N], B: out f32[M, N]) {
           alloc T: f32[M, N] host layout tile(1, 4) permute(1, 0, 2) pad(1, 3)
           alloc L: f32[M * N] host
           for i in 0..M { for j.o in 0..(N + 3) // 4 { for j in 0..min(4, N - 4 * j.o) vector(4) {
             'T'[i, j]: T[i, 4 * j.o + j]! = A[i, 4 * j.o + j]!
             'L'[i, j]: reshape(L, [M, N])[i, 4 * j.o + j]! = A[i, 4 * j.o + j]!
           } } }
           for i in 0..M { for j in 0..N {
             'B'[i, j]: B[i, j]! = slice(T, [1, 0], [-1, 1])[1 - i, j]! + slice(L, [N * i], [1])[j]!
           } }
         }",
    );
    for (m, n) in [(3, 10), (1, 1), (2, 4), (5, 0)] {
        let mut a = Tensor::f32(&[m, n], |i| i as f32);
        let mut b = Tensor::f32(&[m, n], |_| f32::NAN);
        assert_eq!(call(&c, &mut [&mut a, &mut b]), 0);
        assert_eq!(b.as_f32(), (0..m * n).map(|i| 2.0 * i as f32).collect::<Vec<_>>());
    }
}

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
fn called_functions_are_written_in_place() {
    let c = compile(
        "func norm2()(x: in f32, y: in f32) stage plain = x * x + y * y
         func z(N)(A: in f32[N], B: out f32[N]) {
           for i in 0..N vector(8) { 'B'[i]: B[i]! = call norm2(A[i]!, 2.0:f32):f32 + call norm2(1.0:f32, A[0]!):f32 }
         }",
    );
    let mut a = Tensor::f32(&[5], |i| i as f32 + 1.0);
    let mut b = Tensor::f32(&[5], |_| 0.0);
    assert_eq!(call(&c, &mut [&mut a, &mut b]), 0);
    assert_eq!(b.as_f32(), (1..=5).map(|i| (i * i) as f32 + 6.0).collect::<Vec<_>>());
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

#[test]
fn calls_for_effect_nest() {
    let c = compile(
        "func add(N)(X: in f32[N], Y: inout f32[N], s: in f32) {
           for i in 0..N vector(8) { 'Y'[i]: Y[i]! sum= s * X[i]! licensed }
         }
         func row(P, Q)(A: in f32[P, Q], T: inout f32[Q], i: in index) {
           alloc R: f32[Q] host
           for j in 0..Q { 'R'[j]: R[j]! = A[i, j]! }
           call add(&R, &T, f32(i) + 1.0:f32)
         }
         func z(M, N)(A: in f32[M, N], T: inout f32[N]) {
           for i in 0..M { call row(&A, &T, i) }
         }",
    );
    let mut a = Tensor::f32(&[3, 5], |i| i as f32);
    let mut t = Tensor::f32(&[5], |_| 100.0);
    assert_eq!(call(&c, &mut [&mut a, &mut t]), 0);
    assert_eq!(t.as_f32(), (0..5).map(|j| 100.0 + (6 * j + 5 * 2 + 10 * 3) as f32).collect::<Vec<_>>());
}

/// Local arrays of structs lie field by field, so that lanes find neighbours: over parts of vectors, by subscripts
/// that jump, inside of lanes, and shared by threads.
#[test]
fn local_structs_in_lanes() {
    use lathe_ir::interp::ArrayValue;
    use lathe_ir::scalar::ScalarValue;
    use lathe_ir::{Scalar, Type};
    let body = |exec: &str| {
        format!(
            "{PAIRS} func f(N)(A: in P[N, 13], B: inout P[13], C: inout P[13]) {{
           alloc T: P[13] stack
           for i in 0..13 vector(16) {{ 'T'[i]: T[i]! = P(A[0, i]!.tag, -1.0:f32, 0:i64) }}
           for k in 0..N {{ for i in 0..13 vector(16) {{ 'S'[k, i]: T[i]! better= A[k, i]! licensed }} }}
           for k in 0..N {{ for i in 0..13 vector(16) {{
             if A[k, i]!.v > 5.0:f32 {{ 'G'[k, i]: T[i]! better= P(A[k, i]!.tag, A[k, i]!.v + 1.0:f32, 3:i64) licensed }}
           }} }}
           for i in 0..7{exec} {{ 'B'[i]: B[i]! = T[2 * i]! }}
           for i in 0..6 vector(8) {{ 'B.2'[i]: B[i + 7]! = T[2 * i + 1]! }}
           for i in 0..13 vector(16) {{ alloc L: P[2] register 'L'[i]: L[1]! = T[12 - i]! 'C'[i]: C[i]! = L[1]! }}
         }}"
        )
    };
    let (module, _) = parse(&body(""));
    let ty = module.functions["f"].params[0].array().expect("an array").elem.clone();
    let rows = |shape: &[usize]| {
        let mut x = ArrayValue::zeros(ty.clone(), shape);
        for at in 0..x.len() {
            x.set_leaf(at, 0, ScalarValue::int(Scalar::I8, (at % 100) as i64).bits);
            x.set_leaf(at, 1, ScalarValue::float(Scalar::F32, (at * 37 % 11) as f64).bits);
            x.set_leaf(at, 2, ScalarValue::int(Scalar::I64, at as i64 * 1000).bits);
        }
        x
    };
    assert!(matches!(ty, Type::Struct(..)));
    for exec in ["", " cpu"] {
        for n in [1, 5] {
            crate::oracle::agree(&body(exec), &[rows(&[n, 13]), rows(&[13]), rows(&[13])]);
        }
    }
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

#[test]
fn prefetches_after_branches_use_nothing_of_them() {
    let c = compile(
        "func f(N)(A: in f32[N], B: inout f32[N], c: in i32) {
           for i in 0..N {
             if c == 1:i32 { 'B'[i]: B[i]! = A[N - 1 - i]! + 1.0:f32 }
             prefetch A[N - 1 - i]!
           }
         }",
    );
    for take in [0, 1] {
        let (mut a, mut b) = (Tensor::f32(&[5], |i| i as f32), Tensor::f32(&[5], |_| 9.0));
        let mut flag = scalar(lathe_ir::Scalar::I32, &i32::to_ne_bytes(take));
        assert_eq!(call(&c, &mut [&mut a, &mut b, &mut flag]), 0);
        let want = if take == 1 { [5.0, 4.0, 3.0, 2.0, 1.0] } else { [9.0; 5] };
        assert_eq!(b.as_f32(), want);
    }
}
