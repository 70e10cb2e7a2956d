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

#[test]
fn a_negated_value_of_all_lanes_is_broadcast_as_it_is_loaded() {
    let target = lathe_target::Machine::find("skylake-avx512").expect("a machine").code;
    let options = Options { target: Some(target), unit_strides_only: true, ..Options::default() };
    for product in ["-A[k, i]! * B[k, j.o * 16 + j]!", "B[k, j.o * 16 + j]! * -A[k, i]!"] {
        let asm = emit(&KERNEL.replace("A[k, i]! * B[k, j.o * 16 + j]!", product), "asm", &options);
        let lines = |of: &[&str]| asm.lines().filter(|l| of.iter().all(|o| l.contains(o))).count();
        assert_eq!(lines(&["vfnmadd", "zmm"]), 16, "{asm}");
        // Each row's value comes from memory, by a broadcast of its own or in the instruction.
        let (broadcasts, from_registers) = (lines(&["vbroadcastss", "("]), lines(&["vbroadcastss", "%xmm"]));
        assert!(broadcasts + lines(&["vfnmadd", "{1to16}"]) >= 8, "{asm}");
        assert_eq!((from_registers, lines(&["vxorps"])), (0, 0), "{asm}");
    }
}

#[test]
fn vectors_in_the_frame_lie_within_lines() {
    let target = lathe_target::Machine::find("x86-64-v3").expect("a machine").code;
    let options = Options { target: Some(target), unit_strides_only: true, ..Options::default() };
    // 32 sums of eight lanes, for 16 registers.
    let asm = emit(KERNEL, "asm", &options);
    let of = |what: &[&str]| asm.lines().filter(|l| what.iter().all(|w| l.contains(w))).count();
    assert!(of(&["ymm", "(%rsp)"]) > 0, "{asm}");
    assert!(of(&["andq", "$-32, %rsp"]) > 0, "{asm}");
    assert_eq!(of(&["vmovups", "(%rsp)"]), 0, "{asm}");
}
