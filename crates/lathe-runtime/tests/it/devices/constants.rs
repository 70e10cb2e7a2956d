//! Constant arrays of the module in kernels.

use super::{agree, compiles, opencl};
use crate::support::parse;
use lathe_ir::text::parse_module;
use lathe_runtime::{Engine, Options};

#[test]
fn kernels_read_constant_arrays() {
    agree(
        "global weights: f32[3, 3] constant = {1.0:f32, -0.0:f32, nan:f32, 4.0:f32, inf:f32, -2.5:f32, 1e-42:f32, 8.0:f32, -inf:f32}
global steps: i64[4] constant = {-9223372036854775808:i64, 9223372036854775807:i64, -1:i64, 0:i64}
global flags: bool[2] constant = {true, false}
global small: i8[3] constant = {-128:i8, 127:i8, -1:i8}
global fine: f64[2] constant = {-0.1:f64, nan:f64}
func read(N)(A: in f32[N], B: out f32[N, 3], C: out i64[N], D: out f64[N]) stage scheduled {
  for g in 0..N level(grid) {
    for t in 0..3 level(block) {
      'B'[g, t]: B[g, t] = select(global(flags)[t % 2], A[g] * global(weights)[g % 3, t], global(weights)[t, g % 3])
    }
  }
  for g in 0..N level(grid) {
    'C'[g]: C[g] = xor(global(steps)[g % 4], i64(global(small)[g % 3]))
    'D'[g]: D[g] = global(fine)[g % 2]
  }
}",
        &[&[0], &[1], &[13]],
    );
}

#[test]
fn constants_of_half_types_and_structs() {
    agree(
        "struct Tap { w: f32, at: i8, on: bool, part: array<f64, 2> }
struct Pair { a: f16, b: f16 }
global halves: f16[4] constant = {0.1:f16, -0.0:f16, 65504.0:f16, inf:f16}
global short: bf16[3] constant = {0.1:bf16, -3.0e38:bf16, 1e-40:bf16}
global taps: Tap[3] constant = {Tap(0.5:f32, -1:i8, true, array<f64, 2>(1.0:f64, 2.0:f64)), Tap(-0.25:f32, 0:i8, false, array<f64, 2>(nan:f64, -inf:f64)), Tap(2.0:f32, 1:i8, true, array<f64, 2>(0.1:f64, -0.0:f64))}
global pairs: Pair[2] constant = {Pair(1.5:f16, -0.1:f16), Pair(6e-8:f16, 2.0:f16)}
global empty: Tap[2, 2] constant = zero
func read(N)(A: in f32[N + 2], B: out f32[N], C: out f16[N], D: out f64[N], E: out f32[N], F: out Tap[N]) stage scheduled {
  for g in 0..N level(grid) {
    'B'[g]: B[g] = select(global(taps)[g % 3].on, A[g + index(global(taps)[g % 3].at) % 2] * global(taps)[g % 3].w, A[g])
    'C'[g]: C[g] = global(halves)[g % 4] * global(pairs)[g % 2].b
    'D'[g]: D[g] = global(taps)[g % 3].part.1 + f64(global(pairs)[g % 2].a) + global(empty)[g % 2, 1].part.0
    'E'[g]: E[g] = f32(global(short)[g % 3]) + f32(global(halves)[g % 4])
    'F'[g]: F[g] = global(taps)[g % 3]
  }
}",
        &[&[0], &[1], &[13]],
    );
}

/// What is beyond constant memory is in global memory, where the language has arrays there.
#[test]
fn large_arrays_and_those_that_may_be_written() {
    let large = |more: &str| {
        format!(
            "global a: f64[8000] constant = zero
global b: f32[{more}] constant = zero
func large(N)(A: out f64[N]) stage scheduled {{
  for g in 0..N level(grid) {{ 'A'[g]: A[g] = global(a)[g % 8000] + f64(global(b)[g % 7]) }}
}}"
        )
    };
    let [cuda, _] = Engine::devices();
    let source = |engine: Engine, text: &str, form: &str| {
        let (m, f) = parse(text);
        engine.emit(&m, &f, form, &Options::default()).map(|b| String::from_utf8(b).expect("text"))
    };
    for (n, beyond) in [("384", false), ("385", true)] {
        let (text, (m, f)) = (large(n), parse(&large(n)));
        let c = source(cuda, &text, "cuda").expect("kernels");
        assert_eq!(c.contains("static __device__ const uint32_t b_bits"), beyond, "{c}");
        assert!(c.contains("static __constant__ uint64_t a_bits"), "{c}");
        compiles(&m, &f);
        match source(opencl(), &text, "opencl") {
            Ok(c) => assert!(!beyond && c.contains("__constant uint32_t b_bits"), "{c}"),
            Err(d) => {
                assert!(beyond && d.code.0 == "E0701", "{d}");
                assert!(["1540", "1536", "65536"].iter().all(|n| d.message.contains(n)), "{d}");
            }
        }
    }
    let (m, f) = parse(
        "global a: i32[2] = {1:i32, 2:i32}
func other(N)(A: out i32[N]) stage scheduled {
  for g in 0..N level(grid) { 'A'[g]: A[g] = global(a)[g % 2] }
}",
    );
    for (engine, form) in [(cuda, "cuda"), (opencl(), "opencl")] {
        let d = engine.emit(&m, &f, form, &Options::default()).expect_err("it may be written");
        assert!(d.code.0 == "E0701" && d.message.contains("`a`"), "{d}");
    }
    let wrong = "global a: i32[2] constant = {1:i32, 2:i32}
func other(N)(A: out i32[N]) stage scheduled {
  for g in 0..N level(grid) { 'A'[g]: A[g] = 1:i32 'a'[g]: global(a)[0] = A[g] }
}";
    let m = parse_module(lathe_diagnostics::FileId(0), wrong).expect("a tree");
    let wrong = lathe_ir::verify::verify(&m);
    assert!(wrong.iter().any(|d| d.message.contains("`a`")), "{wrong:?}");
}
