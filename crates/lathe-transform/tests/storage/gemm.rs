//! The strategy of a fast matrix product: blocked, packed, with accumulators in registers.

use crate::common::*;

const GEMM: &str = "
func gemm(M, N, K)(A: in i64[M, K], B: in i64[K, N], C: out i64[M, N]) stage plain {
  for i in 0..M {
    for j in 0..N {
      'C.init'[i, j]: C[i, j]! = 0:i64
      for k in 0..K { 'C'[i, j, k]: C[i, j]! sum= A[i, k]! * B[k, j]! licensed }
    }
  }
}";

const BLIS: &str = "
    fission(C.init)
    split(C.j, 48); split(k, 20); split(C.i, 12)
    reorder(j.o, k.o, i.o, i.i, k.i, j.i)
    split(j.i, 8); split(i.i, 4)
    reorder(j.o, k.o, i.o, j.i.o, i.i.o, k.i, i.i.i, j.i.i)
    stage(B, at: k.o, name: Bp, layout: tile(1, 8), layout: permute(1, 0, 2), pad: true)
    stage(A, at: i.o, name: Ap, layout: tile(0, 4), layout: permute(0, 2, 1), pad: true)
    accumulate(C, at: k.i, name: Cr, pad: true)
    pad(j.i.i); pad(i.i.i)";

/// What a machine wants on top: vectors, unrolled tiles, threads.
const MACHINE: &str = "
    unroll(i.i.i); vectorize(j.i.i, 4); unroll(j.i.i.o)
    unroll(copy(C).0); vectorize(copy(C).1, 4); unroll(copy(C).1.o)
    unroll(copy(C).out.0); vectorize(copy(C).out.1, 4); unroll(copy(C).out.1.o)
    vectorize(copy(B).1, 8)
    parallel(i.o)";

#[test]
fn packed_and_padded_micro_tiles_compute_the_product() {
    let m = parse(GEMM);
    let f = schedule(&m, "gemm", BLIS);
    for (mm, n, k) in
        [(5, 7, 11), (13, 70, 23), (37, 53, 41), (1, 1, 1), (12, 48, 20), (0, 5, 5), (5, 0, 5), (5, 5, 0)]
    {
        same(&m, "gemm", &f, &[("M", mm), ("N", n), ("K", k)]);
    }
}

#[test]
fn the_micro_kernel_is_vectorized_unrolled_and_run_by_threads() {
    let m = parse(GEMM);
    let f = schedule(&m, "gemm", &format!("{BLIS}{MACHINE}"));
    for (mm, n, k) in [(5, 7, 11), (37, 53, 41), (12, 48, 20)] {
        same(&m, "gemm", &f, &[("M", mm), ("N", n), ("K", k)]);
    }
}
