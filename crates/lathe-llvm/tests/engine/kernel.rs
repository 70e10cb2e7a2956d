//! Packed, blocked matrix product: the inner loop is what an expert would write.

use crate::common::*;
use lathe_engine::Options;

/// 8 x 32 register tile over packed panels, rows of A contiguous per panel.
const KERNEL: &str = "
func kernel(K)(A: in f32[K, 8], B: in f32[K, 32], C: inout f32[8, 32]) stage scheduled {
  alloc acc: f32[8, 32] register
  for i in 0..8 unrolled { for j.o in 0..2 unrolled { for j in 0..16 vector(16) {
    'load'[i, j.o * 16 + j]: acc[i, j.o * 16 + j]! = C[i, j.o * 16 + j]!
  } } }
  for k in 0..K {
    for i in 0..8 unrolled { for j.o in 0..2 unrolled { for j in 0..16 vector(16) {
      'C'[i, j.o * 16 + j, k]: acc[i, j.o * 16 + j]! sum= A[k, i]! * B[k, j.o * 16 + j]! licensed contract
    } } }
  }
  for i in 0..8 unrolled { for j.o in 0..2 unrolled { for j in 0..16 vector(16) {
    'store'[i, j.o * 16 + j]: C[i, j.o * 16 + j]! = acc[i, j.o * 16 + j]!
  } } }
}";

#[test]
fn register_tiles_stay_in_registers() {
    let target = lathe_target::Machine::find("skylake-avx512").expect("a machine").code;
    let options = Options { target: Some(target), unit_strides_only: true, ..Options::default() };
    let asm = emit(KERNEL, "asm", &options);
    if std::env::var("SHOW").is_ok() {
        eprintln!("{}\n{asm}", emit(KERNEL, "llvm", &options));
    }
    let fused = asm.lines().filter(|l| l.contains("vfmadd") && l.contains("zmm")).count();
    assert_eq!(fused, 16, "{asm}");
    assert!(
        !asm.contains("%rsp") || !asm.lines().any(|l| l.contains("zmm") && l.contains("(%rsp)")),
        "{asm}"
    );
}

/// Packed panels, blocks in `k`, row blocks on threads, and every edge.
pub const BLOCKED: &str = "
func gemm(M, N, K)(A: in f32[M, K], B: in f32[K, N], C: out f32[M, N]) stage scheduled {
  for i.o in 0..(M + 63) // 64 cpu {
    for i in 0..min(64, M - 64 * i.o) { for j.o in 0..(N + 15) // 16 { for j in 0..min(16, N - 16 * j.o) vector(16) {
      'C.init'[64 * i.o + i, 16 * j.o + j]: C[64 * i.o + i, 16 * j.o + j]! = 0.0:f32
    } } }
  }
  for k.o in 0..(K + 31) // 32 {
    alloc P: f32[32, N] host layout tile(1, 32) permute(1, 0, 2)
    for j.o in 0..(N + 31) // 32 cpu { for k in 0..min(32, K - 32 * k.o) {
      for j.i.o in 0..2 unrolled { for j in 0..min(16, N - 32 * j.o - 16 * j.i.o) vector(16) {
        'copy(B)'[k, 32 * j.o + 16 * j.i.o + j]: P[k, 32 * j.o + 16 * j.i.o + j]! = B[32 * k.o + k, 32 * j.o + 16 * j.i.o + j]!
      } }
    } }
    for i.o in 0..(M + 63) // 64 cpu {
      alloc Q: f32[64, 32] stack layout tile(0, 8) permute(0, 2, 1)
      for i in 0..min(64, M - 64 * i.o) { for k in 0..min(32, K - 32 * k.o) {
        'copy(A)'[i, k]: Q[i, k]! = A[64 * i.o + i, 32 * k.o + k]!
      } }
      for j.o in 0..(N + 31) // 32 { for i.i.o in 0..min(8, (M - 64 * i.o + 7) // 8) {
        alloc acc: f32[8, 32] register
        for i in 0..min(8, M - 64 * i.o - 8 * i.i.o) unrolled { for j.i.o in 0..2 unrolled { for j in 0..min(16, N - 32 * j.o - 16 * j.i.o) vector(16) {
          'load'[i, j]: acc[i, 16 * j.i.o + j]! = C[64 * i.o + 8 * i.i.o + i, 32 * j.o + 16 * j.i.o + j]!
        } } }
        for k in 0..min(32, K - 32 * k.o) {
          for i in 0..min(8, M - 64 * i.o - 8 * i.i.o) unrolled { for j.i.o in 0..2 unrolled { for j in 0..min(16, N - 32 * j.o - 16 * j.i.o) vector(16) {
            'C'[i, j, k]: acc[i, 16 * j.i.o + j]! sum= Q[8 * i.i.o + i, k]! * P[k, 32 * j.o + 16 * j.i.o + j]! licensed contract
          } } }
        }
        for i in 0..min(8, M - 64 * i.o - 8 * i.i.o) unrolled { for j.i.o in 0..2 unrolled { for j in 0..min(16, N - 32 * j.o - 16 * j.i.o) vector(16) {
          'store'[i, j]: C[64 * i.o + 8 * i.i.o + i, 32 * j.o + 16 * j.i.o + j]! = acc[i, 16 * j.i.o + j]!
        } } }
      } }
    }
  }
}";

#[test]
fn blocked_gemm_with_every_edge() {
    let c = compile(BLOCKED);
    if std::env::var("SHOW").is_ok() {
        eprintln!("{:?}", c.object.times);
    }
    for (m, n, k) in [(70, 50, 40), (64, 64, 32), (1, 1, 1), (0, 5, 3), (9, 33, 65), (65, 16, 0)] {
        let mut a = Tensor::f32(&[m, k], |i| (i % 23) as f32 * 0.37 - 1.0);
        let mut b = Tensor::f32(&[k, n], |i| 2.0 - (i % 17) as f32 * 0.11);
        let want = crate::serial::gemm_reference(&a, &b);
        let mut out = Tensor::f32(&[m, n], |_| f32::NAN);
        assert_eq!(call(&c, &mut [&mut a, &mut b, &mut out]), 0);
        assert_eq!(out.as_f32(), want, "{m} {n} {k}");
    }
}
