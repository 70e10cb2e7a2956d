//! Vector loops: masks, gathers, lanes that differ.

use crate::common::*;
use lathe_abi::status;
use lathe_engine::Options;

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

/// Up or down, in vectors of less than a register to several, of an array that ends with the last lane; no gathers up to four apart.
#[test]
fn lanes_a_few_elements_apart() {
    let mut ran = 0;
    for name in ["x86-64", "x86-64-v3", "x86-64-v4"] {
        let machine = lathe_target::Machine::find(name).expect("a machine");
        let target = Some(machine.code.clone());
        let options = Options { target, unit_strides_only: true, ..Options::default() };
        for (ty, width, apart) in ["i64", "i32"]
            .into_iter()
            .flat_map(|ty| [2, 4, 8, 16, 32].into_iter().flat_map(move |w| (2..6).map(move |s| (ty, w, s))))
        {
            let last = (width - 1) * apart;
            let text = format!(
                "func f()(A: in {ty}[{0}], B: inout {ty}[{width}], C: inout {ty}[{width}]) {{
                   for i in 0..{width} vector({width}) {{
                     'B'[i]: B[i]! = A[{apart} * i]!
                     'C'[i]: C[i]! = A[{last} - {apart} * i]!
                   }}
                 }}",
                last + 1
            );
            let gathers = emit(&text, "llvm", &options).matches("call <").count();
            assert_eq!(gathers > 0, apart > 4, "{name}: {ty}, {width} lanes, {apart} apart");
            if !machine.lacking_here().is_empty() {
                continue;
            }
            ran += 1;
            let c = Compiled::of(&text, &options);
            let want: Vec<i64> = (0..width).map(|i| 7 + i * apart).collect();
            let down: Vec<i64> = want.iter().rev().copied().collect();
            let of = |n: i64, f: fn(usize) -> i64| match ty {
                "i64" => Tensor::i64(&[n], f),
                _ => Tensor::i32(&[n], |i| f(i) as i32),
            };
            let (mut a, mut b, mut d) = (of(last + 1, |i| 7 + i as i64), of(width, |_| 0), of(width, |_| 0));
            assert_eq!(call(&c, &mut [&mut a, &mut b, &mut d]), 0);
            let values = |t: &Tensor| match ty {
                "i64" => t.as_i64(),
                _ => t.as_i32().into_iter().map(i64::from).collect(),
            };
            assert_eq!((values(&b), values(&d)), (want, down), "{name}: {ty}, {width} lanes, {apart} apart");
        }
    }
    assert!(ran > 0);
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
