//! The prologue: every check fails with its number, and failures give memory back.

use crate::common::*;
use lathe_abi::{CheckKind, status};
use lathe_engine::{Engine, Object, Options};
use lathe_llvm::Llvm;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// Tests that count allocations take turns.
static TURN: Mutex<()> = Mutex::new(());

const SUM: &str = "
func f(N, M)(A: in f32[N, M], B: in f32[N + 1], s: in f32, C: out f32[N]) {
  check s > 0.0:f32, \"positive\", \"s must be positive\"
  for i in 0..N {
    alloc T: f32[M] host
    for j in 0..M { 't'[i, j]: T[j]! = A[i, j]! * s }
    check B[i]! >= 0.0:f32, \"negative\", \"B must not be negative\"
    'C'[i]: C[i]! = B[i]!
    for j in 0..M { 'C.2'[i, j]: C[i]! sum= T[j]! }
  }
}";

struct Args {
    a: Tensor,
    b: Tensor,
    s: Tensor,
    c: Tensor,
}

fn args() -> Args {
    Args {
        a: Tensor::f32(&[3, 4], |i| i as f32),
        b: Tensor::f32(&[4], |i| i as f32),
        s: Tensor::f32(&[], |_| 2.0),
        c: Tensor::f32(&[3], |_| 0.0),
    }
}

fn number(c: &Compiled, kind: CheckKind) -> i32 {
    c.object.checks.iter().position(|k| *k == kind).expect("the check is in the table") as i32 + 1
}

fn user(code: &str, message: &str) -> CheckKind {
    CheckKind::User { code: code.into(), message: message.into() }
}

#[test]
fn every_check_fails_with_its_number() {
    let _turn = TURN.lock().expect("no test panicked");
    let c = compile(SUM);
    let run = |change: &dyn Fn(&mut Args)| {
        let mut a = args();
        change(&mut a);
        let before = LIVE.load(Ordering::SeqCst);
        let status = call(&c, &mut [&mut a.a, &mut a.b, &mut a.s, &mut a.c]);
        assert_eq!(LIVE.load(Ordering::SeqCst), before, "scratch memory is given back");
        (status, a.c.as_f32())
    };
    assert_eq!(run(&|_| {}), (0, vec![12.0, 45.0, 78.0]));
    let fails = |change: &dyn Fn(&mut Args), kind: CheckKind| assert_eq!(run(change).0, number(&c, kind));
    fails(&|a| a.a.dtype = lathe_abi::dtype::I32, CheckKind::Dtype { param: 0 });
    fails(&|a| a.s.elem = 8, CheckKind::Dtype { param: 2 });
    fails(&|a| a.b = Tensor::f32(&[4, 1], |_| 0.0), CheckKind::Rank { param: 1 });
    fails(&|a| a.a.shape[1] = -1, CheckKind::Size { param: 0, dim: 1 });
    fails(&|a| a.a.shape[0] = i64::MAX, CheckKind::Size { param: 0, dim: 0 });
    fails(&|a| a.a.strides[0] = i64::MIN, CheckKind::Size { param: 0, dim: 0 });
    fails(&|a| a.b.shape[0] = 3, CheckKind::Shape { param: 1, dim: 0 });
    fails(&|a| a.c.shape[0] = 2, CheckKind::Shape { param: 3, dim: 0 });
    fails(&|a| a.s = Tensor::f32(&[], |_| -2.0), user("positive", "s must be positive"));
    fails(&|a| a.s = Tensor::f32(&[], |_| f32::NAN), user("positive", "s must be positive"));
    fails(&|a| a.b = Tensor::f32(&[4], |i| 1.0 - i as f32), user("negative", "B must not be negative"));
    NO_MEMORY.store(1, Ordering::SeqCst);
    assert_eq!(run(&|_| {}).0, status::OUT_OF_MEMORY);
    NO_MEMORY.store(0, Ordering::SeqCst);
}

#[test]
fn written_arrays_overlap_nothing_else() {
    let text = |alias: &str| {
        format!(
            "func f(N)(A: in f32[N]{alias}, B: in f32[N], C: inout f32[N]{alias}) {{
               for i in 0..N {{ 'C'[i]: C[i]! = A[i]! + B[i]! }}
             }}"
        )
    };
    let mut memory = Tensor::f32(&[64], |i| i as f32);
    let base = memory.descriptor();
    let at = |first: i64, n: &'static [i64], strides: &'static [i64]| lathe_abi::Array {
        data: base.data.cast::<f32>().wrapping_offset(first as isize).cast(),
        shape: n.as_ptr(),
        strides: strides.as_ptr(),
        ..base
    };
    let (plain, aliased) = (compile(&text("")), compile(&text(" alias x")));
    let run = |c: &Compiled, args: [lathe_abi::Array; 3]| {
        // SAFETY: all arrays lie inside `memory`.
        unsafe { c.run(&runtime(), &args) }
    };
    let overlap = |a, b| number(&plain, CheckKind::Overlap { a, b });
    let (a, b) = (at(0, &[8], &[1]), at(8, &[8], &[1]));
    assert_eq!(run(&plain, [a, b, at(16, &[8], &[1])]), 0);
    assert_eq!(run(&plain, [a, a, at(16, &[8], &[1])]), 0, "inputs may overlap");
    assert_eq!(run(&plain, [a, b, at(7, &[8], &[1])]), overlap(0, 2));
    assert_eq!(run(&plain, [a, b, at(15, &[8], &[1])]), overlap(1, 2));
    assert_eq!(run(&plain, [a, b, at(23, &[8], &[-1])]), 0);
    assert_eq!(run(&plain, [a, b, at(22, &[8], &[-1])]), overlap(1, 2));
    assert_eq!(
        run(&plain, [at(0, &[0], &[1]), at(8, &[0], &[1]), at(0, &[0], &[1])]),
        0,
        "nothing overlaps nothing"
    );
    assert_eq!(run(&aliased, [a, b, at(0, &[8], &[1])]), 0);
}

/// Many parameters are compared by a loop over a table.
#[test]
fn each_pair_of_many_arrays_is_compared() {
    const ARRAYS: usize = 11;
    let params: Vec<String> =
        (0..ARRAYS).map(|p| format!("A{p}: {} f32[N]", if p < 3 { "in" } else { "inout" })).collect();
    let c = compile(&format!(
        "func f(N)({}) {{ for i in 0..N {{ 'A'[i]: A3[i]! = A0[i]! }} }}",
        params.join(", ")
    ));
    let mut memory = Tensor::f32(&[8 * ARRAYS as i64 + 8], |i| i as f32);
    let base = memory.descriptor();
    let (n, one) = ([8i64], [1i64]);
    let at = |first: usize| lathe_abi::Array {
        data: base.data.cast::<f32>().wrapping_add(first).cast(),
        shape: n.as_ptr(),
        strides: one.as_ptr(),
        ..base
    };
    let apart: Vec<_> = (0..ARRAYS).map(|p| at(8 * p)).collect();
    // SAFETY: all arrays lie inside `memory`.
    let run = |args: &[lathe_abi::Array]| unsafe { c.run(&runtime(), args) };
    assert_eq!(run(&apart), 0);
    for b in 0..ARRAYS {
        for a in 0..b {
            let mut args = apart.clone();
            args[a] = at(8 * ARRAYS);
            args[b] = at(8 * ARRAYS - 7);
            args[ARRAYS - 1] = if b == ARRAYS - 1 { args[b] } else { at(8 * b) };
            let want = if b < 3 { 0 } else { number(&c, CheckKind::Overlap { a, b }) };
            assert_eq!(run(&args), want, "{a} and {b}");
        }
    }
}

#[test]
fn unit_strides_only_refuses_others() {
    let text = "func f(N)(A: in f32[N], C: out f32[N]) { for i in 0..N { 'C'[i]: C[i]! = A[i]! } }";
    let c = Compiled::of(text, &Options { unit_strides_only: true, ..Default::default() });
    let a = Tensor::f32(&[5], |i| i as f32);
    let mut out = Tensor::f32(&[5], |_| 0.0);
    assert_eq!(call(&c, &mut [&mut a.strided(&[2]), &mut out]), status::STRIDES);
    assert_eq!(call(&c, &mut [&mut a.clone(), &mut out]), 0);
    assert_eq!(out.as_f32(), a.as_f32());
}

#[test]
fn objects_load_again() {
    let (_, func) = parse(SUM);
    let c = compile(SUM);
    let again = Object::from_bytes(&c.object.to_bytes()).expect("what was written");
    let code = Llvm.load(&again, &func).expect("it loads");
    let mut a = args();
    let descriptors = [&mut a.a, &mut a.b, &mut a.s, &mut a.c].map(Tensor::descriptor);
    // SAFETY: the descriptors describe live memory.
    let status = unsafe { code.call(&runtime(), &descriptors) };
    assert_eq!(status, Ok(0));
    assert_eq!(a.c.as_f32(), [12.0, 45.0, 78.0]);
    let bytes = &again.bytes;
    for (bytes, symbol) in [(&b"junk"[..], "f"), (&[][..], "f"), (&bytes[..100], "f"), (&bytes[..], "g")] {
        let bad = Object { bytes: bytes.to_vec(), symbol: symbol.into(), ..again.clone() };
        let refused = Llvm.load(&bad, &func).err().expect("nothing to load");
        assert_eq!(refused.code.0, "E0705", "{refused}");
    }
}

#[test]
fn other_versions_of_the_interface_are_refused() {
    let c = compile(SUM);
    let mut a = args();
    let descriptors = [&mut a.a, &mut a.b, &mut a.s, &mut a.c].map(Tensor::descriptor);
    let other = lathe_abi::Runtime { version: 1, ..runtime() };
    // SAFETY: the descriptors describe live memory.
    assert_eq!(unsafe { c.run(&other, &descriptors) }, status::ABI);
    assert_eq!(a.c.as_f32(), [0.0; 3]);
}

#[test]
fn sizes_follow_from_extents() {
    let text = "func f(N)(A: inout f32[N // 2]) { for i in 0..N // 2 { 'A'[i]: A[i]! = 0.0:f32 } }";
    let refused = refused(text, &Options::default());
    assert_eq!(refused.code.0, "E0701");
    assert!(refused.message.contains("`N`"), "{refused}");
}

#[test]
fn what_is_not_supported_is_named() {
    let bodies = [
        ("for i in 0..N team { 'A'[i]: A[i]! = 0.0:f32 }", "E0701", "`team`"),
        (
            "for i in 0..4 vector(4) { atomic 'A'[i]: A[i]! sum= 1.0:f32 relaxed scope system }",
            "E0701",
            "atomic",
        ),
        (
            "for i in 0..4 cpu { while A[0]! > 0.0:f32 { atomic 'A': A[0]! store 0.0:f32 relaxed scope system } }",
            "E0701",
            "while",
        ),
        ("compute 'A' over i in 0..N { A[i]! = 0.0:f32 }", "E0701", "compute `A`"),
        ("for i in 0..8 vector(8) { 'A'[i]: A[0]! sum= 1.0:f32 licensed }", "E0702", "`A`"),
        ("for i in 0..8 vector(8) { 'A'[i]: A[0]! = 1.0:f32 }", "E0702", "`A`"),
        ("for i in 0..9 vector(8) { 'A'[i]: A[i]! = 1.0:f32 }", "E0701", "9 iterations"),
        (
            "for i in 0..4 vector(4) { for j in 0..4 vector(4) { 'A'[i, j]: A[i + j]! = 1.0:f32 } }",
            "E0701",
            "vector loop `j`",
        ),
    ];
    for (body, code, name) in bodies {
        let refused = refused(&format!("func f(N)(A: inout f32[N]) {{ {body} }}"), &Options::default());
        assert_eq!(refused.code.0, code, "{refused}");
        assert!(refused.message.contains(name), "{refused}");
    }
}

#[test]
fn unknown_machines_are_refused() {
    let text = "func f(N)(A: inout f32[N]) { for i in 0..N { 'A'[i]: A[i]! = 0.0:f32 } }";
    let cpu = |name: &str| {
        let target = lathe_target::Machine::find(name).expect("a machine").code;
        Options { target: Some(target), ..Default::default() }
    };
    for (arch, cpu) in [("x86_64", "nonesuch"), ("m68k", "x86-64"), ("aarch64", "x86-64-v3")] {
        let target = lathe_target::Code {
            arch: arch.into(),
            cpu: cpu.into(),
            triple: format!("{arch}-unknown-linux-gnu"),
            ..Default::default()
        };
        let options = Options { target: Some(target), ..Default::default() };
        assert_eq!(refused(text, &options).code.0, "E0703", "{arch} {cpu}");
    }
    for features in ["avx512f", "+nonesuch", "-sse2", "+avx2,,+"] {
        let options = Options { features: Some(features.into()), ..Default::default() };
        assert_eq!(refused(text, &options).code.0, "E0703");
    }
    assert!(!emit(text, "asm", &cpu("x86-64-v3")).contains("zmm"));
}

/// Subscripts that data names are checked in vectors, by threads where the kernel has some: the first and the last,
/// and what vectors and blocks leave over.
#[test]
fn checks_before_a_kernel_find_every_element() {
    let whole = "for e in 0..N { check 0 <= index(x[e]!) and index(x[e]!) < B, \"bounds\", \"outside\" }";
    // As `split` leaves them.
    let split = "for o in 0..(N + 99) // 100 { for e in 0..min(100, N - 100 * o) {
      check 0 <= index(x[100 * o + e]!) and index(x[100 * o + e]!) < B, \"bounds\", \"outside\" } }";
    // Rows of one length, of which threads take as many as make a block, and a row that is more than a block.
    let rows = |n: usize| {
        format!(
            "for r in 0..N // {n} {{ for e in 0..{n} {{
      check 0 <= index(x[{n} * r + e]!) and index(x[{n} * r + e]!) < B, \"bounds\", \"outside\" }} }}
      for e in N // {n} * {n}..N {{ check 0 <= index(x[e]!) and index(x[e]!) < B, \"bounds\", \"outside\" }}"
        )
    };
    let (short, long) = (rows(7), rows(40_000));
    for (exec, checks) in [
        ("", whole),
        (" cpu", whole),
        ("", split),
        (" cpu", split),
        ("", &short),
        (" cpu", &short),
        (" cpu", &long),
    ] {
        let text = format!(
            "
func f(N, B)(x: in i32[N], h: out i32[B]) {{
  for b in 0..B {{ 'h'[b]: h[b]! = 0:i32 }}
  {checks}
  for b in 0..B{exec} {{ 'h.2'[b]: h[b]! = 7:i32 }}
}}"
        );
        let c = compile(&text);
        let failed = number(&c, user("bounds", "outside"));
        for n in [0usize, 1, 31, 33, 65_540] {
            let run = |bad: Option<(usize, i32)>| {
                let value = |i: usize| bad.filter(|b| b.0 == i).map_or((i % 5) as i32, |b| b.1);
                let mut x = Tensor::i32(&[n as i64], value);
                let mut h = Tensor::i32(&[5], |_| 0);
                (call(&c, &mut [&mut x, &mut h]), h.as_i32())
            };
            assert_eq!(run(None), (0, vec![7; 5]), "{n}");
            for at in [0, n / 2, n.saturating_sub(1)].into_iter().filter(|at| *at < n) {
                for value in [-1, 5] {
                    assert_eq!(run(Some((at, value))), (failed, vec![0; 5]), "{n}, {value} at {at}");
                }
            }
        }
    }
}

/// A function of many nests, each a function of its own (but loops inside of lanes): what they compute, and that a check
/// which fails in any of them ends all and gives every local array back.
#[test]
fn many_nests_fail_as_one() {
    let _turn = TURN.lock().expect("no test panicked");
    for nests in [3i64, 40] {
        let mut text =
            String::from("func f(N, M)(A: in i32[N, M], B: in i32[64], s: in i32, C: out i32[N, M]) {\n");
        for k in 0..nests {
            let before = if k == 0 { "A".to_string() } else { format!("T{}", k - 1) };
            text += &format!(
                "  let x{k}: i32 = s + {k}:i32\n  alloc T{k}: i32[N, M] host\n  for i in 0..N {{\n    \
                 check B[{k}]! >= i32(i), \"small\", \"element {k} is too small\"\n    \
                 for j in 0..M {{ 't{k}'[i, j]: T{k}[i, j]! = {before}[i, j]! + x{k} }}\n  }}\n"
            );
        }
        let last = nests - 1;
        text += &format!(
            "  for j in 0..min(M, 4) vector(4) {{\n    for i in 0..N {{ 'C'[i, j]: C[i, j]! = T{last}[i, j]! }}\n  }}\n}}"
        );
        let c = compile(&text);
        let ints = |shape: &[i64], of: &dyn Fn(usize) -> i32| Tensor::i32(shape, of);
        let run = |bad: Option<i64>, n: i64| {
            let mut a = ints(&[n, 3], &|i| i as i32);
            let mut b = ints(&[64], &|i| if Some(i as i64) == bad { 1 } else { 9 });
            let (mut s, mut out) = (ints(&[], &|_| 2), ints(&[n, 3], &|_| -1));
            let before = LIVE.load(Ordering::SeqCst);
            let status = call(&c, &mut [&mut a, &mut b, &mut s, &mut out]);
            assert_eq!(LIVE.load(Ordering::SeqCst), before, "scratch memory is given back");
            (status, out.as_i32())
        };
        let sum = (2 * nests + nests * (nests - 1) / 2) as i32;
        let (status, out) = run(None, 4);
        assert_eq!((status, out), (0, (0..12).map(|i| i + sum).collect()));
        assert_eq!(run(None, 0), (0, Vec::new()));
        for bad in 0..nests {
            let want = number(&c, user("small", &format!("element {bad} is too small")));
            assert_eq!(run(Some(bad), 4).0, want, "{nests} nests, {bad}");
            assert_eq!(run(Some(bad), 2).0, 0);
        }
    }
}
