//! Serial code and the entry.

use crate::common::*;

pub const GEMM: &str = "
func gemm(M, N, K)(A: in f32[M, K], B: in f32[K, N], C: out f32[M, N]) stage scheduled {
  for i in 0..M {
    for j in 0..N {
      'C.init'[i, j]: C[i, j]! = 0.0:f32
      for k in 0..K { 'C'[i, j, k]: C[i, j]! sum= A[i, k]! * B[k, j]! licensed contract }
    }
  }
}";

pub fn gemm_reference(a: &Tensor, b: &Tensor) -> Vec<f32> {
    let (m, k, n) = (a.shape[0] as usize, a.shape[1] as usize, b.shape[1] as usize);
    let (a, b) = (a.as_f32(), b.as_f32());
    let at = |i: usize, j: usize| (0..k).fold(0f32, |s, x| a[i * k + x].mul_add(b[x * n + j], s));
    (0..m * n).map(|p| at(p / n, p % n)).collect()
}

#[test]
fn naive_gemm_with_any_strides() {
    let c = compile(GEMM);
    for (m, n, k) in [(5, 7, 3), (1, 1, 1), (0, 3, 2), (3, 4, 0)] {
        let a = Tensor::f32(&[m, k], |i| i as f32 * 0.37 - 1.0);
        let b = Tensor::f32(&[k, n], |i| 2.0 - i as f32 * 0.11);
        let want = gemm_reference(&a, &b);
        for (sa, sb) in
            [(vec![k, 1], vec![n, 1]), (vec![-k - 1, 1], vec![1, k]), (vec![3 * k, 3], vec![-2 * n, -2])]
        {
            let (mut a, mut b) = (a.strided(&sa), b.strided(&sb));
            let mut out = Tensor::f32(&[m, n], |_| f32::NAN);
            assert_eq!(call(&c, &mut [&mut a, &mut b, &mut out]), 0);
            assert_eq!(out.as_f32(), want, "{m} {n} {k} {sa:?} {sb:?}");
        }
    }
}
