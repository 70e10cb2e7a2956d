//! Vector loops: masks, gathers, lanes that differ.

use crate::common::*;
use lathe_abi::status;
use lathe_engine::Options;

#[test]
fn masks_of_every_length() {
    let c = compile(
        "func f(N)(A: in f32[N], B: inout f32[N + 8]) {
           for i in 0..N vector(8) { 'B'[i]: B[i]! = A[i]! * 2.0:f32 }
         }",
    );
    for n in 0..=8 {
        let mut a = Tensor::f32(&[n], |i| i as f32 + 1.0);
        let mut b = Tensor::f32(&[n + 8], |_| -1.0);
        assert_eq!(call(&c, &mut [&mut a, &mut b]), 0);
        let want = |i: usize| if (i as i64) < n { (i as f32 + 1.0) * 2.0 } else { -1.0 };
        assert_eq!(b.as_f32(), (0..n as usize + 8).map(want).collect::<Vec<_>>(), "{n}");
    }
}

/// Without registers for masks, vectors whose lanes all run go without; the last one is masked. The same bits on every
/// instruction set.
#[test]
fn vectors_that_do_not_fill_on_every_instruction_set() {
    let text = "func f(N)(A: in f32[N], B: inout f32[N + 8]) {
      for o in 0..(N + 7) // 8 { for i in 0..min(8, N - 8 * o) vector(8) {
        'B'[o, i]: B[8 * o + i]! = A[8 * o + i]! * 2.0:f32
      } }
    }";
    let mut ran = 0;
    for name in ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"] {
        let machine = lathe_target::Machine::find(name).expect("a machine");
        let options = Options { target: Some(machine.code.clone()), ..Options::default() };
        let masked = emit(text, "llvm", &options).matches("llvm.masked.store").count();
        let plain = emit(text, "llvm", &options).matches("store <8 x float>").count();
        assert!(masked > 0 && (plain > 0) != has_masks(&machine), "{name}: {masked} masked, {plain} plain");
        if !machine.lacking_here().is_empty() {
            continue;
        }
        ran += 1;
        let c = Compiled::of(text, &options);
        for n in [0, 1, 7, 8, 9, 16, 37] {
            let mut a = Tensor::f32(&[n], |i| i as f32 + 1.0);
            let mut b = Tensor::f32(&[n + 8], |_| -1.0);
            assert_eq!(call(&c, &mut [&mut a, &mut b]), 0);
            let want = |i: usize| if (i as i64) < n { (i as f32 + 1.0) * 2.0 } else { -1.0 };
            assert_eq!(b.as_f32(), (0..n as usize + 8).map(want).collect::<Vec<_>>(), "{name} {n}");
        }
    }
    assert!(ran > 0);
}

fn has_masks(m: &lathe_target::Machine) -> bool {
    m.masks == lathe_target::Masks::Cheap
}

/// Rows of a local buffer that end within a vector: masks of known lanes, next to rows and inside of them.
#[test]
fn rows_that_end_within_vectors() {
    let c = compile(
        "func f(K)(A: in i64[K, 5], B: in i64[3, K], C: inout i64[3, 5]) {
           alloc T: i64[3, 5] register
           for r in 0..3 unrolled { for i in 0..5 vector(8) { 'T'[r, i]: T[r, i]! = 10 } }
           for r in 0..3 unrolled { for i in 0..2 vector(8) { 'T.2'[r, i]: T[r, i]! = 20 } }
           for k in 0..K { for r in 0..3 unrolled { for i in 0..5 vector(8) {
             'S'[r, i, k]: T[r, i]! sum= A[k, i]! * B[r, k]! licensed
           } } }
           for r in 0..3 unrolled { for i in 0..5 vector(8) { 'C'[r, i]: C[r, i]! = T[r, i]! } }
         }",
    );
    for k in [0i64, 1, 4] {
        let mut a = Tensor::i64(&[k, 5], |i| i as i64 - 3);
        let mut b = Tensor::i64(&[3, k], |i| 2 * i as i64 + 1);
        let mut d = Tensor::i64(&[3, 5], |_| -1);
        assert_eq!(call(&c, &mut [&mut a, &mut b, &mut d]), 0);
        let sum = |r: i64, i: i64| (0..k).map(|x| (5 * x + i - 3) * (2 * (r * k + x) + 1)).sum::<i64>();
        let want = |n: i64| sum(n / 5, n % 5) + if n % 5 < 2 { 20 } else { 10 };
        assert_eq!(d.as_i64(), (0..15).map(want).collect::<Vec<_>>(), "{k}");
    }
}

#[test]
fn all_kinds_of_strides() {
    let c = compile(
        "func f(N)(A: in i64[N, N], R: in i64[N], S: inout i64[N], D: inout i64[N], X: inout i64[N]) {
           for o in 0..(N + 3) // 4 { for i in 0..min(4, N - 4 * o) vector(4) {
             'D'[i]: D[4 * o + i]! = A[4 * o + i, 4 * o + i]!
             'S'[i]: S[N - 1 - (4 * o + i)]! sum= R[N - 1 - (4 * o + i)]! + A[0, 0]! licensed
             'X'[i]: X[index(R[4 * o + i]!)]! = i64(i) + A[0, index(R[4 * o + i]!)]!
           } }
         }",
    );
    let n = 7i64;
    let a = Tensor::i64(&[n, n], |i| 100 + i as i64);
    let r = Tensor::i64(&[n], |i| (i as i64 * 3) % 7);
    for (sa, sr) in [(vec![n, 1], vec![1]), (vec![-1, -n], vec![-2]), (vec![2 * n, 2], vec![3])] {
        let (mut a, mut r) = (a.strided(&sa), r.strided(&sr));
        let mut s = Tensor::i64(&[n], |_| 5).strided(&sr);
        let mut d = Tensor::i64(&[n], |_| 0).strided(&sr);
        let mut x = Tensor::i64(&[n], |_| -1);
        assert_eq!(call(&c, &mut [&mut a, &mut r, &mut s, &mut d, &mut x]), 0);
        assert_eq!(d.as_i64(), (0..n).map(|i| 100 + i * n + i).collect::<Vec<_>>());
        assert_eq!(s.as_i64(), (0..n).map(|i| 5 + i * 3 % 7 + 100).collect::<Vec<_>>());
        let mut want = vec![0; 7];
        (0..n).for_each(|i| want[(i * 3 % 7) as usize] = i % 4 + 100 + i * 3 % 7);
        assert_eq!(x.as_i64(), want);
    }
}

#[test]
fn lanes_that_differ_are_masked() {
    // Reading A[-1] or A[N] would fault under a page end; here the values tell.
    let c = compile(
        "func f(N)(A: in i64[N], B: inout i64[N], C: inout i64[N]) {
           for i in 0..N vector(16) {
             'B'[i]: B[i]! = select(i > 0, A[i - 1]?, 7) + select(i + 1 < N, A[i + 1]?, 9)
             if A[i]! % 2 == 0 { 'C'[i]: C[i]! = 100 // A[i]! } else { if i > 3 { 'C.2'[i]: C[i]! = B[0]! } }
           }
         }"
        .replace("i64", "index")
        .as_str(),
    );
    let n = 13usize;
    let value = |i: usize| if i.is_multiple_of(3) { 2 * i as i64 + 2 } else { 2 * i as i64 + 1 };
    let index = |f: &dyn Fn(usize) -> i64| {
        let mut t = Tensor::i64(&[n as i64], f);
        t.dtype = lathe_abi::dtype::INDEX;
        t
    };
    let (mut a, mut b, mut c_) = (index(&value), index(&|_| 0), index(&|_| -1));
    assert_eq!(call(&c, &mut [&mut a, &mut b, &mut c_]), 0);
    let left = |i: usize| if i > 0 { value(i - 1) } else { 7 };
    let right = |i: usize| if i + 1 < n { value(i + 1) } else { 9 };
    let b_want: Vec<i64> = (0..n).map(|i| left(i) + right(i)).collect();
    assert_eq!(b.as_i64(), b_want);
    let c_want = |i: usize| match value(i) {
        v if v % 2 == 0 => 100 / v,
        _ if i > 3 => b_want[0],
        _ => -1,
    };
    assert_eq!(c_.as_i64(), (0..n).map(c_want).collect::<Vec<_>>());
}

#[test]
fn division_by_zero_counts_only_where_it_runs() {
    let text = |head: &str| {
        format!(
            "func f(N)(A: in i64[N], B: in i64[N], C: out i64[N]) {{
               {head} {{ 'C'[i]: C[i]! = select(B[i]! > -5:i64, A[i]! // B[i]!, A[i]! % 3:i64) }}
             }}"
        )
    };
    for head in ["for i in 0..N vector(8)", "for i in 0..N"] {
        let c = compile(&text(head));
        let a = Tensor::i64(&[6], |i| if i == 2 { i64::MIN } else { i as i64 - 3 });
        for (at, want) in [(6, 0), (3, status::DIVISION_BY_ZERO)] {
            let divisor = |i: usize| if i == at { 0 } else { [-1, 2, -1, 3, -7, -2][i] };
            let mut b = Tensor::i64(&[6], divisor);
            let mut out = Tensor::i64(&[6], |_| 0);
            assert_eq!(call(&c, &mut [&mut a.clone(), &mut b, &mut out]), want, "{head}");
            if want == 0 {
                assert_eq!(out.as_i64(), [3, -1, i64::MIN, 0, 1, -1]);
            }
        }
    }
}

#[test]
fn every_lane_has_its_own_registers_and_loops() {
    // Collatz: lanes leave the loop one by one.
    let c = compile(
        "func f(N)(A: in i64[N], B: out i64[N]) {
           for o in 0..(N + 7) // 8 { for i in 0..min(8, N - 8 * o) vector(8) {
             alloc x: i64[] register
             alloc t: i64[2] stack
             'x'[i]: x[]! = A[8 * o + i]!
             't'[i]: t[0]! = 0:i64
             't.1'[i]: t[1]! = 1:i64
             while x[]! != 1:i64 {
               'x.2'[i]: x[]! = select(x[]! % 2:i64 == 0:i64, x[]! // 2:i64, 3:i64 * x[]! + 1:i64)
               't.2'[i]: t[0]! sum= t[1]!
             }
             'B'[i]: B[8 * o + i]! = t[0]!
           } }
         }",
    );
    let n = 30i64;
    let mut a = Tensor::i64(&[n], |i| i as i64 + 1);
    let mut b = Tensor::i64(&[n], |_| 0);
    assert_eq!(call(&c, &mut [&mut a, &mut b]), 0);
    let steps = |mut x: i64| {
        let mut n = 0;
        while x != 1 {
            x = if x % 2 == 0 { x / 2 } else { 3 * x + 1 };
            n += 1;
        }
        n
    };
    assert_eq!(b.as_i64(), (1..=n).map(steps).collect::<Vec<_>>());
}
