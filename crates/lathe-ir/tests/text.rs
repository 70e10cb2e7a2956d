//! The text form: what is printed is read back, and what is wrong is said, all of it.

use lathe_diagnostics::{Diagnostic, FileId};
use lathe_ir::Module;
use lathe_ir::text::{parse_module, print_module};

fn parse(text: &str) -> Module {
    match parse_module(FileId(0), text) {
        Ok(m) => m,
        Err(errors) => panic!("{}\n{text}", show(&errors, text)),
    }
}

fn show(errors: &[Diagnostic], text: &str) -> String {
    let line = |d: &Diagnostic| {
        let at = d.marks.first().map_or(0, |m| m.span.start as usize).min(text.len());
        text.get(..at).unwrap_or("").matches('\n').count() + 1
    };
    errors.iter().map(|d| format!("line {}: {d}\n", line(d))).collect()
}

/// Reads, prints, and reads again; gives the printed text.
fn round_trip(text: &str) -> String {
    let m = parse(text);
    let printed = print_module(&m);
    let again = parse(&printed);
    assert_eq!(m, again, "{printed}");
    assert_eq!(printed, print_module(&again));
    printed
}

const GEMM: &str = "\
func gemm(M, N, K)(A: in f32[M, K], B: in f32[K, N], C: out f32[M, N]) stage scheduled {
  for i in 0..M cpu {
    for j in 0..N step 2 {
      'C.init'[i, j]: C[i, j]! = 0.0:f32
      for k in 0..K {
        'C'[i, j, k]: C[i, j] sum= A[i, k] * B[k, j] licensed contract
      }
    }
  }
}
";

#[test]
fn the_usual_form_is_canonical() {
    assert_eq!(round_trip(GEMM), GEMM);
}

const ALL: &str = r#"
struct P { v: f32, i: i64 }
struct Q { p: P, t: (f64, bool), a: array<f16, 3>, v: vector<i8, 4>, u: (index,), `x.y`: bf16 }
op better(a, b): P associative commutative identity(P(-inf:f32, 0:i64))
  = select(a[].v >= b[].v, a[], b[])
op first(x@7, y): f64 associative = x[]
func square()(x: in f32) stage plain = x * x
func both()(x: in f32) stage plain = (x, 1.5:f32) { check true, "c", "m" }
func literals()(o: out f32[]) {
  let a: i8 = -128:i8
  let b: u64 = 18446744073709551615:u64
  let c: i64 = -9223372036854775808:i64
  let d: f64 = 1.0e300:f64
  let e: f32 = -0.0:f32
  let f: f16 = 0.1:f16
  let g: bf16 = nan:bf16
  let h: f64 = nan(0x7ff8000000000001):f64
  let h: f64 = -nan:f64
  let i: f32 = 3.4028235e38:f32
  let j: f32 = -inf:f32
  let k: f64 = 4.9e-324:f64
  let l: f32 = 1.0e-45:f32
  let l: f32 = 16777216.0:f32
  let m: bool = true
  'o': o[] = 0.0:f32
}
func ops()(x: in f32, y: in f32, i: in index, j: in i32, p: in bool, A: in f32[8], S: in P[], T: in Q[2] global) stage machine next 99 {
  let a: f32 = (x + y) * (x - y) / -x - (x - (y - x))
  let b: bool = x < y and (p or not(p)) and (x == y) == p
  let c: index = i // 2 % 3 - (-(3)) * -i - -(-i)
  let d: i32 = min(max(j, 1:i32), xor(j, shl(j, shr(j, tdiv(j, trem(j, 2:i32))))))
  let e: f32 = select(p, fma(x, y, x), pow(x, exp(y))) + atan2(sigmoid(x), round(y))
  let f: f64 = f64(x) + cast<f64>(j) + f64(bitcast<f32>(j)) + f64(bool(j))
  let g: f32 = S[].v + P(x, 3:i64).v + (x, y).1 + (x,).0 + array<f32, 2>(x, y).0
  let h: f32 = T[1].p.v + f32(T[1].t.0) + f32(T[1].a.2) + f32(T[1].u.0) + f32(T[i].`x.y`)
  let k: f32 = call square(x):f32 * (call pair(x):(f32, f32)).1
  let l: f32 = A[i]! + A[i]? + A[i]~"the user" + slice(A, [i], [2])[1] + reshape(A, [2, 4])[0, i] + reinterpret(A, f32, 64)[0] + deref(i64(i), heap):f32[i]
  let m: f32 = %55:f32 + @3:f32[i] + (x + y):f32
  let `copy(A).i`: index = i
  let `for`: index = `copy(A).i`
  let i%70: index = i%2 + i%2
  let A%71: index = i
  alloc A@80: f32[i]
  let q: f32 = A@5[i] + A[A]
  check p, "E\"1", "no\nway"
}
func statements(N)(A: inout f32[N] alias xs, B: inout f32[N] alias xs, H: inout i32[N] global layout tile(0, 8) permute(1, 0), M: inout f32[], I: inout index[]) stage machine {
  seq { }
  seq { wait }
  seq { let x: index = 1 seq { } }
  let x: f32 = 1.0:f32 { 'a'[0]: A[0] = x }
  let y: f32 = 2.0:f32 { }
  alloc t: f32[8, 8] register layout permute(1, 0) tile(0, 4) pad(1, 3) swizzle(0, 1, 8) distribute(0, lane) { }
  alloc u: f32[4] stack
  for i in 0..N unrolled { }
  for i: i32 in 0:i32..4:i32 step 2 vector(8) { for j in 0..1 team { for j in 0..1 device { for j in 0..1 node { for j in 0..N level(block) { barrier j barrier j (shared, global) } } } } }
  if N > 0 { } else { }
  if N > 0 { 'x.y z'[N, 1]: A[N] = 0.0:f32 nontemporal } else if N > 1 { wait }
  while A[0] > 0.0:f32 { 'a.2': A[0] = 0.0:f32 }
  'm'[]: {M[], I[]} argmax= {A[0], N} licensed
  'm': M[] `sum`= A[1]
  'm': M[] better= A[1]
  'm': {} sum= {}
  'm': M[] sum= {A[0], A[1]} contract
  assume N % 8 == 0, "user"
  atomic 'h'[N]: H[N] sum= 1:i32 relaxed scope device
  atomic 'h'[N]: H[N] max= 1:i32 acqrel scope block as old { check old > 0:i32, "a", "b" }
  atomic 'h'[N]: H[N] max= 1:i32 seqcst scope block { wait }
  atomic 'h'[N]: H[N] max= 1:i32 acquire scope block as old2: i32
  async t { call f() }
  async v: i32 { }
  wait t, v
  call f(N, &A, &slice(B, [N - 1], [-1]))
  compute 'C' over i in 0..N, k in 0..i reduce(sum), s in 0..4 scan(sum) { A[i] = B[k] if k < i }
  compute 'C' { {M[], I[]} argmax= {A[0], N} }
  compute 'C' over k in 0..N reduce(better) { M[] better= A[k] }
  with $1 = N + N * N, $2 = $1 * $1 in
  check $2 + $2 == $1, "a", "b"
}
"#;

#[test]
fn every_kind_of_node_round_trips() {
    round_trip(ALL);
}
