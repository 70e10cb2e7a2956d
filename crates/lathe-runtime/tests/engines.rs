//! Every engine against the interpreter, bit for bit.

mod support;

use lathe_ir::Scalar;
use lathe_runtime::Engine;
use support::agree_with;

/// Every engine, one and two threads, dense and strided, against the interpreter.
fn agree(text: &str, sizes: &[&[i64]]) {
    agree_with(Engine::ALL, &[false, true], 2, text, sizes);
}

#[test]
fn naive_gemm() {
    agree(
        "func gemm(M, N, K)(A: in f32[M, K], B: in f32[K, N], C: out f32[M, N]) stage scheduled {
  for i in 0..M cpu {
    for j in 0..N {
      'C.init'[i, j]: C[i, j] = 0.0:f32
      for k in 0..K {
        'C'[i, j, k]: C[i, j] sum= A[i, k] * B[k, j] licensed contract
      }
    }
  }
}",
        &[&[3, 5, 7], &[1, 1, 1], &[0, 4, 4], &[4, 0, 3], &[4, 3, 0], &[17, 19, 23]],
    );
}

/// Expressions of `Sa[i]`, `Sb[N - 1 - i]` and so on, each into arrays of its own: once in a serial
/// loop, once in whole vectors with a last one that has lanes masked off. The C engine alone, without
/// much optimization, to keep compilation short; the LLVM engine has such a test of its own.
fn elementwise_agrees(name: &str, ty: Scalar, exprs: &[(String, Scalar)]) {
    let each = |f: &dyn Fn(usize, &str, Scalar) -> String| -> String {
        exprs.iter().enumerate().map(|(i, (e, t))| f(i, e, *t)).collect()
    };
    let outs = each(&|i, _, t| format!(", o{i}: out {t}[N], v{i}: out {t}[N]"));
    let serial = each(&|i, e, _| format!("    'o{i}'[i]: o{i}[i] = {e}\n"));
    let vector = each(&|i, e, _| format!("    'v{i}'[i]: v{i}[i] = {e}\n"));
    let text = format!(
        "func {name}(N)(Sa: in {ty}[N], Sb: in {ty}[N], Sc: in {ty}[N]{outs}) stage scheduled {{\n  \
         for i in 0..N {{\n{serial}  }}\n  \
         for j in 0..(N + 15) // 16 {{\n  for i in 16 * j..min(16 * j + 16, N) vector(16) {{\n{vector}  }}\n  }}\n}}\n"
    );
    agree_with(&[Engine::C], &[false], 0, &text, &[&[39], &[1], &[0]]);
}

#[test]
fn float_operators() {
    for t in [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16] {
        let (x, y, z) = ("Sa[i]", "Sb[N - 1 - i]", "Sc[i]");
        let mut e: Vec<(String, Scalar)> = Vec::new();
        for op in ["+", "-", "*", "/"] {
            e.push((format!("{x} {op} {y}"), t));
        }
        for op in ["<", "<=", "==", "!=", ">", ">="] {
            e.push((format!("select({x} {op} {y}, {x}, {z})"), t));
            e.push((format!("{x} {op} {y}"), Scalar::Bool));
        }
        for f in ["min", "max"] {
            e.push((format!("{f}({x}, {y})"), t));
        }
        for f in ["abs", "sqrt", "floor", "ceil", "round", "trunc"] {
            e.push((format!("{f}({x})"), t));
        }
        e.push((format!("fma({x}, {y}, {z})"), t));
        e.push((format!("-{x}"), t));
        elementwise_agrees(&format!("floats_{t}"), t, &e);
    }
}

#[test]
fn integer_operators() {
    use Scalar::{I8, I32, I64, Index, U16, U32, U64};
    for t in [I8, I32, I64, Index, U16, U32, U64] {
        // Subscript arithmetic must not overflow; its operands are small.
        let (x, y) = if t == Scalar::Index {
            ("shr(Sa[i], 40)", "shr(Sb[N - 1 - i], 40)")
        } else {
            ("Sa[i]", "Sb[N - 1 - i]")
        };
        let c = |v: i64| if t == Scalar::Index { format!("{v}") } else { format!("{v}:{t}") };
        let nonzero = format!("select({y} == {}, {}, {y})", c(0), c(3));
        let mut e: Vec<(String, Scalar)> = Vec::new();
        for op in ["+", "-", "*"] {
            e.push((format!("{x} {op} {y}"), t));
        }
        for op in ["//", "%"] {
            e.push((format!("{x} {op} {nonzero}"), t));
            e.push((format!("{x} {op} {}", c(8)), t));
            e.push((format!("{x} {op} {}", c(7)), t));
        }
        for f in ["tdiv", "trem"] {
            e.push((format!("{f}({x}, {nonzero})"), t));
        }
        for f in ["min", "max", "xor"] {
            e.push((format!("{f}({x}, {y})"), t));
        }
        e.push((format!("{x} and {y}"), t));
        e.push((format!("{x} or {y}"), t));
        if t != Scalar::Index {
            e.push((format!("shl({x}, {y})"), t));
            e.push((format!("shl({x}, {})", c(3)), t));
        }
        e.push((format!("shr({x}, {y})"), t));
        e.push((format!("shr({x}, {})", c(2)), t));
        for op in ["<", "<=", "==", "!=", ">", ">="] {
            e.push((format!("{x} {op} {y}"), Scalar::Bool));
        }
        e.push((format!("not({x})"), t));
        if t.is_signed() {
            e.push((format!("-{x}"), t));
            e.push((format!("abs({x})"), t));
        }
        elementwise_agrees(&format!("ints_{t}"), t, &e);
    }
}

#[test]
fn conversions() {
    for from in Scalar::ALL {
        let e: Vec<(String, Scalar)> = Scalar::ALL
            .into_iter()
            .filter(|to| !(from == Scalar::U64 && *to == Scalar::Index) && *to != from)
            .map(|to| (format!("cast<{to}>(Sa[i])"), to))
            .chain(
                Scalar::ALL
                    .into_iter()
                    .filter(|to| to.bits() == from.bits() && *to != from)
                    .map(|to| (format!("bitcast<{to}>(Sa[i])"), to)),
            )
            .collect();
        elementwise_agrees(&format!("casts_{from}"), from, &e);
    }
}

#[test]
fn math_functions() {
    for t in [Scalar::F32, Scalar::F64] {
        let mut e: Vec<(String, Scalar)> =
            ["exp", "exp2", "log", "log2", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "atan"]
                .iter()
                .map(|f| (format!("{f}(Sa[i])"), t))
                .collect();
        e.push(("pow(Sa[i], Sb[N - 1 - i])".into(), t));
        e.push(("atan2(Sa[i], Sb[N - 1 - i])".into(), t));
        elementwise_agrees(&format!("math_{t}"), t, &e);
    }
}

#[test]
fn scheduled_gemm() {
    agree(
        "func gemm(M, N, K)(A: in f32[M, K], B: in f32[K, N], C: out f32[M, N]) stage scheduled {
  for io in 0..(M + 3) // 4 cpu {
    alloc P: f32[K, 4] host layout permute(1, 0)
    for k in 0..K { for i in 0..min(4, M - 4 * io) { 'copy(A)'[k, i]: P[k, i] = A[4 * io + i, k] } }
    for jo in 0..(N + 31) // 32 {
      alloc acc: f32[4, 32] register
      for i in 0..4 unrolled { for v in 0..2 unrolled { for j in 16 * v..16 * v + 16 vector(16) {
        'C.init'[i, j]: acc[i, j] = 0.0:f32
      } } }
      for k in 0..K { prefetch B[k + 9, 32 * jo] for i in 0..4 unrolled { prefetch A[4 * io + i + 100, k + 9] for v in 0..2 unrolled {
        for j in 16 * v..min(16 * v + 16, N - 32 * jo) vector(16) {
          if 4 * io + i < M { 'C'[i, j, k]: acc[i, j] sum= P[k, i] * B[k, 32 * jo + j] licensed contract }
        }
      } } }
      for i in 0..min(4, M - 4 * io) { for j in 0..min(32, N - 32 * jo) {
        'C.out'[i, j]: C[4 * io + i, 32 * jo + j] = acc[i, j] nontemporal
      } }
    }
  }
}",
        &[&[9, 37, 5], &[4, 32, 3], &[1, 1, 1], &[0, 5, 5], &[5, 0, 2], &[3, 5, 0]],
    );
}

#[test]
fn stencils_and_gathers_in_vectors() {
    agree(
        "func stencil(N)(a: f64, A: in f64[N, N], I: in i32[N], B: inout f64[N, N], T: out f64[N]) stage scheduled {
  for i in 1..N - 1 cpu { for jo in 0..(N + 5) // 8 { for j in 8 * jo + 1..min(8 * jo + 9, N - 1) vector(8) {
    let c: f64 = a * A[i, j]
    'B'[i, j]: B[i, j] = select(c < 0.0:f64, c, A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[j, i + 1]) nontemporal
  } } }
  for jo in 0..(N + 7) // 8 { for j in 8 * jo..min(8 * jo + 8, N) vector(8) {
    'T.init'[j]: T[j] = 0.0:f64
    for k in 0..N { 'T'[j, k]: T[j] max= A[index(I[j]), k] + f64(j) }
    if a > 0.0:f64 { 'T.2'[j]: T[j] sum= A[0, j // 2] } else { 'T.3'[j]: T[j] sum= a }
  } }
}"
        .replace("(a: f64,", "(a: in f64,")
        .as_str(),
        &[&[13], &[1], &[2], &[3], &[26]],
    );
}

#[test]
fn reductions_of_every_kind() {
    agree(
        "struct P { v: f32, i: i64 }
op better(a, b): P associative commutative identity(P(-inf:f32, 0:i64)) = select(a[].v >= b[].v, a[], b[])
func reductions(N)(Sa: in f32[N], B: in i16[N], m: out f32[], p: out i16[], am: out f32[], ai: out index[], xm: out f32[], xi: out i32[], best: out P[], any: out bool[], all: out bool[], h: out f16[]) stage scheduled {
  'm'[]: m[] = inf:f32
  'p'[]: p[] = 1:i16
  'am'[]: am[] = inf:f32
  'ai'[]: ai[] = 1000
  'xm'[]: xm[] = -inf:f32
  'xi'[]: xi[] = 1000:i32
  'best'[]: best[] = P(-inf:f32, 0:i64)
  'any'[]: any[] = false
  'all'[]: all[] = true
  'h'[]: h[] = 0.0:f16
  for i in 0..N {
    'm.r'[i]: m[] min= Sa[i]
    'p.r'[i]: p[] prod= B[i]
    'am.r'[i]: {am[], ai[]} argmin= {Sa[i], i}
    'xm.r'[i]: {xm[], xi[]} argmax= {Sa[N - 1 - i], i32(N - 1 - i)}
    'best.r'[i]: best[] better= P(Sa[i], i64(i))
    'any.r'[i]: any[] any= B[i] > 6:i16
    'all.r'[i]: all[] all= B[i] > 6:i16
    'h.r'[i]: h[] sum= f16(B[i]) * 0.125:f16
  }
}",
        &[&[0], &[1], &[7], &[40]],
    );
}

#[test]
fn control_flow_and_local_arrays() {
    agree(
        "struct Q { p: (f32, bool), a: array<i16, 3>, `for`: f16 }
func square()(x: in f32) stage plain = x * x
func control(N)(A: in f32[N, N], q: inout Q[N], B: out f32[N], c: out i64[]) stage scheduled {
  'c'[]: c[] = 0:i64
  while c[] < 5:i64 { 'c.w'[]: c[] = c[] + 2:i64 }
  for i in 0..N cpu {
    alloc t: f32[N + 1, 3] host layout tile(0, 4) permute(1, 0, 2)
    alloc s: f32[4] stack
    for j in 0..N + 1 { for k in 0..3 unrolled { 't'[j, k]: t[j, k] = f32(j * 3 + k) } }
    for k in 0..4 { 's'[k]: s[k] = select(k < N, A[i, k], -1.0:f32) }
    let x: f32 = call square(s[0] + s[1]):f32
    if i % 3 == 0 { 'B'[i]: B[i] = x + t[i, 2] } else if i % 3 == 1 { 'B.2'[i]: B[i] = s[i % 4] } else {
      'B.3'[i]: B[i] = slice(A, [i, 0], [0, 1])[0, N - 1] + exp(x) * 0.5:f32
    }
    'q'[i]: q[i] = Q((B[i], x < 1.0:f32), array<i16, 3>(q[i].a.2, i16(i), q[i].a.0), q[i].`for` * 2.0:f16)
    for j in 0..N cpu { if j == i { 'B.4'[i, j]: B[i] sum= 1.0:f32 } }
  }
  for k in 0..N step 3 { 'B.5'[k]: B[k] = reshape(B, [N, 1])[k, 0] * 2.0:f32 }
  check N >= 0, \"E9999\", \"sizes\"
}",
        &[&[0], &[1], &[2], &[7], &[19]],
    );
}

#[test]
fn calls_are_written_in_place() {
    let text = "func a_main(N)(A: in f32[N], B: inout f32[N], C: inout f32[N + 2]) stage scheduled {
  call scaled(&A, N, 2.0:f32, &B)
  for i in 0..2 cpu { call shifted(&slice(A, [0], [1]), N, &slice(C, [2], [1]), i) }
}
func scaled(N)(x: in f32[N], n: in index, s: in f32, y: inout f32[N]) {
  for i in 0..n { 'y'[i]: y[i] = x[i] * s + call cube(x[i]):f32 }
}
func shifted()(x: in f32[100], n: in index, y: inout f32[100], at: in index) {
  for i in 0..n { if i % 2 == at { 'y'[i]: y[i] = x[i] } }
}
func cube()(x: in f32) stage plain = x * x * x
";
    agree(&text.replace("0..2 cpu", "0..2"), &[&[100]]);
    agree(text, &[&[100]]);
}

#[test]
fn loops_within_lanes_may_differ_between_them() {
    agree(
        "func ragged(N)(A: in f32[N, N], s: in i32[N], B: inout f32[N], C: inout f32[N]) stage scheduled {
  for i in 0..N {
    for j in 0..min(8, N - i) vector(8) {
      for k in 0..i + j { 'B'[i, j, k]: B[j] = B[j] * 0.5:f32 + A[i, k] }
      for k in j..N step 3 { for l in k..N - j { if A[k, l] > B[j] { 'C'[i, j, k, l]: C[j] = C[j] + A[l, j] } } }
      for k in index(s[j]) % 5..index(s[i]) % 7 { 'C.2'[i, j, k]: C[j] = C[j] * 0.25:f32 + f32(k) }
      for k in j..j + 3 unrolled { if k < N { 'C.3'[i, j, k]: C[j] = C[j] - A[i, k] } }
    }
  }
}",
        &[&[0], &[1], &[5], &[8], &[13]],
    );
}
