//! The emitted file as a C programmer meets it: no warnings, no other files, callable by itself.

use lathe_diagnostics::FileId;
use lathe_ir::text::parse_module;
use lathe_source::{Style, emit_c, header, symbol};
use std::path::Path;
use std::process::Command;

const GEMM: &str = "func gemm(M, N, K)(A: in f32[M, K], B: in f32[K, N], C: out f32[M, N]) stage scheduled {
  for io in 0..(M + 3) // 4 cpu {
    prefetch A[4 * io + 4, K + 7]
    alloc P: f32[K, 4] host layout permute(1, 0)
    for k in 0..K { for i in 0..min(4, M - 4 * io) { 'copy(A)'[k, i]: P[k, i] = A[4 * io + i, k] } }
    for i in 0..min(4, M - 4 * io) { for jo in 0..(N + 15) // 16 {
      for j in 16 * jo..min(16 * jo + 16, N) vector(16) {
        'C.init'[i, j]: C[4 * io + i, j] = 0.0:f32
        for k in 0..K { 'C'[i, j, k]: C[4 * io + i, j] sum= P[k, i] * B[k, j] licensed contract }
      }
    } }
  }
}";

/// A little of everything, so that most helpers are compiled.
const MIXED: &str = "struct P { v: f32, i: i64 }
op better(a, b): P associative commutative identity(P(-inf:f32, 0:i64)) = select(a[].v >= b[].v, a[], b[])
func mixed(N)(x: in f16, A: in f64[N], I: in i32[N], B: out f32[N], best: out P[], H: inout f16[N]) stage scheduled {
  check N < 1000, \"E9001\", \"too many */ elements\"
  'best'[]: best[] = P(-inf:f32, 0:i64)
  for i in 0..N cpu {
    let c: i64 = i64(A[i]) // i64(I[i])
    'B'[i]: B[i] = select(i > 0, f32(A[i - 1]), exp(f32(x))) + f32(c % 3:i64)
    'H'[i]: H[i] = max(H[i], f16(c)) * x
  }
  for jo in 0..(N + 7) // 8 { prefetch I[8 * jo + 64] for j in 8 * jo..min(8 * jo + 8, N) vector(8) {
    'B.2'[j]: B[j] = min(B[j], sqrt(f32(A[N - 1 - j]))) + f32(I[j] * I[j]) nontemporal
  } }
  for i in 0..N { 'best.2'[i]: best[] better= P(B[i], i64(i)) }
}";

fn emit(text: &str) -> lathe_source::CSource {
    let m = parse_module(FileId(0), text).unwrap_or_else(|d| panic!("{d:#?}"));
    emit_c(&m, m.functions.values().next().unwrap(), &Style::default()).unwrap_or_else(|d| panic!("{d}"))
}

fn compile(compiler: &str, flags: &[&str], input: &Path, output: &Path) -> Option<String> {
    let libraries: &[&str] = if flags.contains(&"-c") { &[] } else { &["-lm"] };
    let out =
        Command::new(compiler).args(flags).arg("-o").arg(output).arg(input).args(libraries).output().ok()?;
    Some(format!(
        "{}{}",
        if out.status.success() { "" } else { "failed\n" },
        String::from_utf8_lossy(&out.stderr)
    ))
}

#[test]
fn no_compiler_warns() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for (name, text) in [("gemm", GEMM), ("mixed", MIXED)] {
        let input = dir.path().join(format!("{name}.c"));
        let output = dir.path().join(format!("{name}.o"));
        std::fs::write(&input, emit(text).source).unwrap();
        let common = [
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-ffp-contract=off",
            "-c",
            "-DLATHE_STANDALONE",
        ];
        for (compiler, extra) in [
            ("cc", &["-O3", "-march=native", "-fopenmp"][..]),
            ("cc", &["-O1"][..]),
            ("cc", &["-O0", "-mno-avx"][..]),
            ("clang-22", &["-O1", "-march=native"][..]),
            ("clang-22", &["-O1"][..]),
        ] {
            let flags: Vec<&str> = common.iter().chain(extra).copied().collect();
            let Some(said) = compile(compiler, &flags, &input, &output) else { continue };
            assert_eq!(said, "", "{compiler} {extra:?} on {name}");
            seen += 1;
        }
    }
    assert!(seen > 0, "these tests need a C compiler");
}

#[test]
fn a_c_program_calls_the_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let c = emit(GEMM);
    std::fs::write(dir.path().join("gemm.c"), &c.source).unwrap();
    std::fs::write(dir.path().join("gemm.h"), &c.header).unwrap();
    let main = r#"
#define LATHE_STANDALONE
#include "gemm.h"
#include <stdio.h>

int main(void) {
    float a[5 * 3], b[3 * 18], c[5 * 18], *last = &c[5 * 18 - 1];
    for (int i = 0; i < 15; i++) a[i] = (float)i;
    for (int i = 0; i < 54; i++) b[i] = (float)(i % 7);
    int64_t sa[] = {5, 3}, ta[] = {3, 1}, sb[] = {3, 18}, tb[] = {18, 1}, sc[] = {5, 18}, tc[] = {18, 1};
    lathe_array A = {a, sa, ta, LATHE_F32, 2, 4}, B = {b, sb, tb, LATHE_F32, 2, 4};
    lathe_array C = {c, sc, tc, LATHE_F32, 2, 4};
    if (gemm_call(&A, &B, &C) != LATHE_OK) return 1;
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 18; j++) {
            float want = 0;
            for (int k = 0; k < 3; k++) want += a[i * 3 + k] * b[k * 18 + j];
            if (c[i * 18 + j] != want) return 2;
        }
    /* Backwards through memory: the body for any strides. */
    int64_t back[] = {-18, -1};
    lathe_array R = {last, sc, back, LATHE_F32, 2, 4};
    float first = c[0];
    if (gemm_call(&A, &B, &R) != LATHE_OK || *last != first) return 3;
    sb[0] = 4;
    printf("%d", gemm_call(&A, &B, &C));
    return 0;
}
"#;
    let input = dir.path().join("main.c");
    std::fs::write(&input, main).unwrap();
    let program = dir.path().join("main");
    let kernel = dir.path().join("gemm.c");
    let flags = [
        "-std=gnu11",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "-ffp-contract=off",
        "-fopenmp",
        kernel.to_str().unwrap(),
    ];
    assert_eq!(compile("cc", &flags, &input, &program).expect("a C compiler"), "");
    let out = Command::new(&program).output().unwrap();
    assert_eq!(out.status.code(), Some(0));
    // The number of the check that failed: the extent 4 of dimension 0 of B is not K.
    let number: usize = String::from_utf8_lossy(&out.stdout).parse().unwrap();
    assert_eq!(c.checks[number - 1], lathe_abi::CheckKind::Shape { param: 1, dim: 0 });
}

#[test]
fn the_text_is_for_people() {
    let c = emit(GEMM).source;
    for line in [
        "static int32_t gemm_unit(const lathe_runtime *rt, const lathe_array *args) {",
        "    const float *restrict A = args[0].data;",
        "/* Iterations begin..end of the parallel loop `io`. */",
        " * args[1]  in B: f32[K, N]",
    ] {
        assert!(c.contains(line), "{line} is missing in\n{c}");
    }
}

#[test]
fn what_c_does_not_get_is_refused_by_name() {
    for (body, words) in [
        ("for i in 0..8 vector(8) { atomic 'h'[i]: A[0] sum= 1.0:f32 relaxed scope device }", ""),
        ("for i in 0..N team { barrier i }", "team"),
        ("compute 'A' over i in 0..N { A[i] = 0.0:f32 }", "`A`"),
        ("'A': A[0] = reinterpret(A, f32, 4)[0]", ""),
    ] {
        let text = format!("func f(N)(A: inout f32[N]) {{ {body} }}");
        let m = parse_module(FileId(0), &text).unwrap_or_else(|d| panic!("{text}: {d:#?}"));
        let d = emit_c(&m, &m.functions["f"], &Style::default()).expect_err(&text);
        assert!(d.code.0 == "E0701" && d.message.contains(words), "{text}: {d}");
    }
    let m = parse_module(FileId(0), "func `for`()(`x y`: inout f32[]) { 'x': `x y`[] = 1.0:f32 }").unwrap();
    let f = &m.functions["for"];
    assert_eq!(symbol(f), "for_2");
    assert!(header(f).unwrap().contains("int32_t for_2_call(const lathe_array *x_y)"));
}
