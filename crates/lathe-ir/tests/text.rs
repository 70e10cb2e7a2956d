//! The text form: what is printed is read back, and what is wrong is said, all of it.

use lathe_diagnostics::{Diagnostic, FileId};
use lathe_ir::text::{Ids, format, parse_module, print_function, print_function_with, print_module};
use lathe_ir::verify::verify;
use lathe_ir::{
    BinOp, Expr, ExprKind, Module, Scalar, Stmt, StmtKind, Type, UnOp, VarId, build, structural_hash,
};
use random::Rng;

mod random;

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
    // The formatter leaves what was printed, and makes the same module of what people write.
    assert_eq!(format(&printed).as_deref(), Ok(&*printed));
    assert_eq!(parse(&format(text).expect("it parses")), m);
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
global counter: i32[] = zero

global table: f32[2] constant = {1.0:f32, nan:f32}

extern draw(N)(x: out f32[N]) effects (write x[0..N], read global(counter), write class(heap), io) meaning f

extern erf()(x: in f64) -> f64 effects ()

func statements(N)(A: inout f32[N] alias xs, B: inout f32[N] alias xs, H: inout i32[N] global layout tile(0, 8) permute(1, 0), M: inout f32[], I: inout index[]) stage machine {
  seq { }
  seq { wait %9 }
  seq { let x: index = 1 seq { } }
  let x: f32 = 1.0:f32 { 'a'[0]: A[0] = x }
  let y: f32 = 2.0:f32 { }
  alloc t: f32[8, 8] register layout permute(1, 0) tile(0, 4) pad(1, 3) swizzle(0, 1, 8) distribute(0, lane) { }
  alloc u: f32[4] stack
  for i in 0..N unrolled { }
  for i: i32 in 0:i32..4:i32 step 2 vector(8) { for j in 0..1 team { for j in 0..1 device { for j in 0..1 node { for j in 0..N level(block) { barrier j barrier j (shared, global) } } } } }
  if N > 0 { } else { }
  if N > 0 { 'x.y z'[N, 1]: A[N] = 0.0:f32 nontemporal } else if N > 1 { wait %9 pending 3 }
  while A[0] > 0.0:f32 { 'a.2': A[0] = 0.0:f32 }
  'm'[]: {M[], I[]} argmax= {A[0], N} licensed
  'm': M[] `sum`= A[1]
  'm': M[] better= A[1]
  'm': {} sum= {}
  'm': M[] sum= {A[0], A[1]} contract
  assume N % 8 == 0, "user"
  prefetch H[N + 8]
  atomic 'h'[N]: H[N] sum= 1:i32 relaxed scope device
  atomic 'h'[N]: H[N] max= 1:i32 acqrel scope block as old { check old > 0:i32, "a", "b" }
  atomic 'h'[N]: H[N] max= 1:i32 seqcst scope block { wait %9 }
  atomic 'h'[N]: H[N] max= 1:i32 acquire scope block as old2: i32
  atomic 'h.2'[N]: H[N] load acquire scope system as seen: i32
  atomic 'h.3': H[N] store seen + 1:i32 release scope block
  atomic 'h.4': H[N] exchange seen + 1:i32 acqrel scope block as load: i32
  atomic 'h.5': H[N] compare load exchange seen seqcst scope system
  token u { async u { call f() } wait u }
  token t
  async t { call f() }
  wait t pending 1
  wait t
  call f(N, &A, &slice(B, [N - 1], [-1]), &global(counter))
  'g': global(table):f32[address(A[1]) // 4:u64] = slice(global(table), [1], [1]):f32[0] + deref(address(global(counter):i32[]), heap):f32[1]
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

#[test]
fn random_modules_round_trip() {
    for seed in 0..400 {
        let m = random::module(seed);
        let printed = print_module(&m);
        let again = match parse_module(FileId(0), &printed) {
            Ok(again) => again,
            Err(errors) => panic!("seed {seed}:\n{printed}\n{}", show(&errors, &printed)),
        };
        assert_eq!(print_module(&again), printed, "seed {seed}");
        assert_eq!(again, m, "seed {seed}:\n{printed}");
        // Random trees are rarely right, but the verifier takes them all.
        assert_eq!(verify(&again).is_empty(), verify(&m).is_empty(), "seed {seed}");
        for (name, f) in &m.functions {
            // Unlike equality, the hash looks at the names and types of binders.
            assert_eq!(structural_hash(&again.functions[name]), structural_hash(f), "seed {seed}");
        }
    }
}

#[test]
fn hidden_numbers_change_nothing_but_numbers() {
    let m = parse(GEMM);
    let mut f = m.functions["gemm"].clone();
    f.next_id = 20;
    f.body = lathe_ir::visit::refresh(&f.body, &mut f.next_id);
    assert!(print_function(&f).contains("for i%20 in 0..M cpu"), "{}", print_function(&f));
    assert_eq!(print_function_with(&f, Ids::Hidden), GEMM);
}

#[test]
fn shared_expressions_are_written_once_and_stay_shared() {
    let n = build::var_id(VarId(0), Scalar::Index);
    let mut e = n.clone();
    for _ in 0..40 {
        e = Expr::new(ExprKind::Binary(BinOp::Mul, e.clone(), e.clone()), Type::INDEX);
    }
    let mut f = parse("func f(N)() { check N > 0, \"\", \"\" }").functions["f"].clone();
    let cond = Expr::new(ExprKind::Binary(BinOp::Lt, n, e.clone()), Type::BOOL);
    f.body = Stmt::of(StmtKind::Check { cond, code: "".into(), message: "".into() });
    let printed = print_function(&f);
    assert!(printed.len() < 2000, "{printed}");
    let again = parse(&printed).functions["f"].clone();
    // Comparing the trees themselves would take forever.
    assert_eq!(structural_hash(&again), structural_hash(&f));
    assert_eq!(print_function(&again), printed);
    let mut nodes = 0;
    again.body.exprs().iter().for_each(|e| lathe_ir::visit::walk_expr(e, &mut |_| nodes += 1));
    assert!(nodes < 300, "{nodes} nodes");
}

#[test]
fn high_expressions_and_long_blocks_round_trip() {
    let deep = |op: &str, n: usize| {
        let m = parse("func f(N)() { check N == N, \"\", \"\" }");
        let mut f = m.functions["f"].clone();
        let x = build::var_id(VarId(0), Scalar::Index);
        let mut e = x.clone();
        for _ in 0..n {
            e = match op {
                "left" => Expr::new(ExprKind::Binary(BinOp::Sub, e, x.clone()), Type::INDEX),
                "right" => Expr::new(ExprKind::Binary(BinOp::Sub, x.clone(), e), Type::INDEX),
                _ => Expr::new(ExprKind::Unary(UnOp::Neg, e), Type::INDEX),
            };
        }
        let cond = Expr::new(ExprKind::Binary(BinOp::Lt, x, e), Type::BOOL);
        f.body = Stmt::of(StmtKind::Check { cond, code: "".into(), message: "".into() });
        let printed = print_function(&f);
        assert_eq!(parse(&printed).functions["f"], f);
    };
    for op in ["left", "right", "neg"] {
        deep(op, 1000);
    }
    let lets: String = (0..1000).map(|i| format!("let x{i}: index = N\nalloc b{i}: f32[x{i}]\n")).collect();
    let text = format!("func f(N)() {{\n{lets}}}\n");
    let m = parse(&text);
    assert_eq!(verify(&m), []);
    assert_eq!(parse(&print_module(&m)), m);
}

#[test]
fn what_the_limits_allow_can_be_walked() {
    let lets: String = (0..4096).map(|i| format!("let x{i}: index = N\n")).collect();
    let sum = format!("check N{} == 0, \"\", \"\"", " + N".repeat(3999));
    for body in [lets, sum] {
        let m = parse(&format!("func f(N)() {{\n{body}}}\n"));
        assert_eq!(verify(&m), []);
        print_module(&m);
        lathe_ir::visit::map_exprs(&m.functions["f"].body, &mut |e| lathe_ir::visit::map_expr(e, &mut |e| e));
    }
}

#[test]
fn several_errors_are_found_in_one_run() {
    let text = "func f(N)(A: out f32[N]) {\n  'A'[0]: A[0] = 1.0\n  for i in 0..n {\n    'A'[i]: A[i] = B[i]\n  }\n  \
                let x: index =\n  check x > 0, 1, \"m\"\n}\nfunc g( {\n}\nfunc h()() { 'A'[0] }\n";
    let errors = parse_module(FileId(0), text).expect_err("a broken text");
    let lines: Vec<usize> =
        errors.iter().map(|d| text[..d.marks[0].span.start as usize].matches('\n').count() + 1).collect();
    assert_eq!(lines, [2, 3, 4, 7, 7, 9, 11], "{}", show(&errors, text));
}

#[test]
fn no_text_makes_the_parser_panic() {
    let seeds = [GEMM.to_string(), ALL.to_string(), print_module(&random::module(1))];
    let mut rng = Rng(7);
    for round in 0..6000 {
        let text = &seeds[round % seeds.len()];
        let mut bytes = text.clone().into_bytes();
        for _ in 0..=rng.below(6) {
            let at = rng.below(bytes.len());
            match rng.below(4) {
                0 => bytes[at] = b"(){}[]'\"`%@$.:=-0aN\n\\!~"[rng.below(23)],
                1 => drop(bytes.remove(at)),
                2 => {
                    let from = rng.below(bytes.len());
                    let len = rng.below(20).min(bytes.len() - from);
                    let piece = bytes[from..from + len].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ => bytes[at] = rng.next() as u8,
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match parse_module(FileId(0), &text) {
            Ok(m) => {
                // Whatever is accepted is a tree that can be verified and printed.
                let _ = verify(&m);
                let printed = print_module(&m);
                assert_eq!(print_module(&parse(&printed)), printed);
            }
            Err(errors) => {
                assert!(!errors.is_empty());
                for m in errors.iter().flat_map(|d| &d.marks) {
                    assert!(m.span.start <= m.span.end && m.span.end as usize <= text.len(), "{text}");
                }
            }
        }
    }
}

#[test]
fn nesting_has_a_limit_instead_of_a_stack_overflow() {
    let many = |s: &str| s.repeat(100_000);
    for text in [
        format!("func f()() {{ check {}", many("(")),
        format!("func f()() {{ check {}", many("-")),
        format!("func f()() {{ check {}", many("not(")),
        format!("func f()() {{ check 1{}", many(" + 1")),
        format!("func f()() {{ check A[{}", many("A[")),
        format!("func f()() {{ call g(&{}", many("slice(")),
        format!("func f()() {{ {}", many("if true {")),
        format!("func f()() {{ {}", many("if true {} else ")),
        format!("func f()() {{ {}", many("let x: index = 1 {")),
        format!("func f(x: {}", many("(")),
        format!("struct S {{ x: {}", many("array<")),
        format!("struct S {{ x: {}", many("array<array<f32, 0>, 4294967295>")),
    ] {
        assert!(parse_module(FileId(0), &text).is_err());
    }
    let scopes = many("let x: index = 1\n");
    let errors = parse_module(FileId(0), &format!("func f()() {{ {scopes} }}")).expect_err("too many");
    assert!(errors.len() <= 2, "{errors:?}");
    let doubling: String = (0..80).map(|i| format!("struct S{} {{ a: S{i}, b: S{i} }}\n", i + 1)).collect();
    assert!(parse_module(FileId(0), &format!("struct S0 {{ a: f32 }}\n{doubling}")).is_err());
}
