//! What is wrong with an argument is said with names and numbers; nothing is written then.

use lathe_diagnostics::{Diagnostic, FileId};
use lathe_ir::Type;
use lathe_ir::text::parse_module;
use lathe_runtime::{ArgView, Array, Engine, Kernel, Options, Pool, compile};

const GEMM: &str = "func gemm(M, N, K)(a: in f32, A: in f32[M, K], B: in f32[K, N + 1], C: inout f32[M, N]) {
  check a < 100.0:f32, \"E9001\", \"the factor is too large\"
  for i in 0..M { for j in 0..N { for k in 0..K { 'C'[i, j, k]: C[i, j] sum= a * A[i, k] * B[k, j] } } }
}";

fn kernel(engine: Engine, text: &str) -> Kernel {
    let m = parse_module(FileId(0), text).unwrap();
    let f = m.functions.values().next().unwrap();
    compile(engine, &m, f, &Options::default()).unwrap()
}

fn kernels(text: &str) -> Vec<Kernel> {
    Engine::ALL.iter().map(|e| kernel(*e, text)).collect()
}

fn ones(shape: &[i64]) -> Array {
    let mut a = Array::zeros(Type::F32, shape).unwrap();
    a.bytes_mut().chunks_exact_mut(4).for_each(|c| c.copy_from_slice(&1.0f32.to_ne_bytes()));
    a
}

fn call(k: &Kernel, arrays: &mut [Array]) -> Result<(), Diagnostic> {
    let mut views: Vec<ArgView> = arrays.iter_mut().map(Array::view_mut).collect();
    k.call(&Pool::new(1).unwrap(), &mut views)
}

/// The message for four arguments, which must name all the words.
fn refused(k: &Kernel, arrays: Vec<Array>, code: &str, words: &[&str]) {
    let mut arrays = arrays;
    let d = call(k, &mut arrays).unwrap_err();
    assert_eq!(d.code.0, code, "{d}");
    let text = d.to_string();
    for w in words {
        assert!(text.contains(w), "`{w}` in: {text}");
    }
}

fn f(v: f32) -> Array {
    Array::scalar(v).unwrap()
}

#[test]
fn arguments_are_checked() {
    for k in kernels(GEMM) {
        let good = || vec![f(2.0), ones(&[3, 4]), ones(&[4, 6]), ones(&[3, 5])];
        let mut arrays = good();
        call(&k, &mut arrays).unwrap();
        assert!(arrays[3].to_vec::<f32>().unwrap().iter().all(|v| *v == 9.0));
        let with = |at: usize, a: Array| {
            let mut v = good();
            v[at] = a;
            v
        };
        refused(&k, vec![f(1.0)], "E0808", &["takes 4", "1 were given", "a, A, B, C"]);
        refused(
            &k,
            with(1, Array::zeros(Type::F64, &[3, 4]).unwrap()),
            "E0809",
            &["`A` is f32", "holds f64"],
        );
        refused(&k, with(0, Array::scalar(1.0f64).unwrap()), "E0809", &["`a` is f32"]);
        refused(&k, with(2, ones(&[24])), "E0810", &["`B` has 2 dimensions", "has 1"]);
        refused(&k, with(0, ones(&[1])), "E0810", &["`a` has 0"]);
        refused(&k, with(2, ones(&[5, 6])), "E0811", &["dimension 0 of `B` must have extent 4", "has 5"]);
        refused(&k, with(2, ones(&[4, 5])), "E0811", &["dimension 1 of `B` must have extent 6", "N = 5"]);
        refused(&k, with(3, ones(&[2, 5])), "E0811", &["`C`", "extent 3", "has 2"]);
        refused(&k, with(0, f(100.0)), "E0814", &["the factor is too large", "E9001"]);
        let zero = Array::with_strides(Type::F32, &[3, 5], &[5, 0]).unwrap();
        refused(&k, with(3, zero), "E0812", &["elements of `C`", "share memory"]);
        let empty = || vec![f(1.0), ones(&[0, 4]), ones(&[4, 1]), ones(&[0, 0])];
        call(&k, &mut empty()).unwrap();
    }
}

/// Sizes that are not an extent by themselves follow from one another; what they leave over is a wrong shape.
#[test]
fn sizes_follow_from_extents() {
    let text =
        "func s(N, M, P)(A: inout f32[4 * N - M + 3], B: in f32[9 - 2 * M], C: in f32[N + P - 1 + N]) {
  for i in 0..4 * N - M + 3 { 'A'[i]: A[i]! = f32(N * 100 + M * 10 + P) }
}";
    for k in kernels(text) {
        for (n, m, p) in [(1, 0, 1), (0, 3, 1), (0, 1, 4), (5, 4, 9), (1, 2, 0)] {
            let extents = [4 * n - m + 3, 9 - 2 * m, 2 * n + p - 1];
            let mut arrays = extents.map(|e| ones(&[e]));
            call(&k, &mut arrays).unwrap();
            let want = (n * 100 + m * 10 + p) as f32;
            assert!(arrays[0].to_vec::<f32>().unwrap().iter().all(|v| *v == want), "{n} {m} {p}");
            for (at, by) in [(0, -1), (0, 1), (1, -1), (1, 1), (1, 1000)] {
                let mut wrong = extents;
                wrong[at] = (wrong[at] + by).max(0);
                if wrong == extents {
                    continue;
                }
                // Which extents are possible, and what sizes they mean.
                refused(
                    &k,
                    wrong.map(|e| ones(&[e])).into(),
                    "E0811",
                    &["dimension 0", "pass an array of extent"],
                );
            }
        }
    }
}

#[test]
fn memory_is_not_shared() {
    for k in kernels(GEMM) {
        let (a, shape_a, strides_a) = (2.0f32, [2, 2], [2, 1]);
        let b = [1.0f32; 8];
        let (shape_b, strides_b) = ([2, 3], [3, 1]);
        let mut c = [0.0f32; 8];
        let pool = Pool::new(1).unwrap();
        // The same memory lent twice is only possible through raw descriptors.
        let view_b = ArgView::from_slice(&b, 0, &shape_b, &strides_b).unwrap();
        let view_a = ArgView::from_slice(&b, 0, &shape_a, &strides_a).unwrap();
        let view_c = ArgView::from_slice_mut(&mut c, 0, &shape_a, &strides_a).unwrap();
        k.call(&pool, &mut [ArgView::scalar(&a), view_a, view_b, view_c]).unwrap();
        assert_eq!(c[..4], [4.0; 4]);
        let table = pool.runtime();
        let views = [
            ArgView::scalar(&a),
            ArgView::from_slice(&c, 0, &shape_a, &strides_a).unwrap(),
            ArgView::from_slice(&b, 0, &shape_b, &strides_b).unwrap(),
            ArgView::from_slice(&c, 3, &shape_a, &strides_a).unwrap(),
        ];
        let raw: Vec<lathe_abi::Array> = views.iter().map(|v| *v.raw()).collect();
        // SAFETY: valid descriptors; the overlap makes the kernel return before it writes.
        let status = unsafe { k.code().call(&table, &raw) }.unwrap();
        let check = &k.checks()[usize::try_from(status - 1).unwrap()];
        assert_eq!(*check, lathe_abi::CheckKind::Overlap { a: 1, b: 3 });
        // A view for reading is not an output.
        let mut views = views;
        let d = k.call(&pool, &mut views).unwrap_err();
        assert!(d.code.0 == "E0822" && d.message.contains("`C`"), "{d}");
    }
}

#[test]
fn failures_inside_are_told() {
    let text = "func g(N)(a: in i32[N], n: in i64, c: out i32[N]) {
  for i in 0..N cpu { alloc t: i32[index(n), index(n)] { 't'[i]: t[0, 0] = 7:i32 'c'[i]: c[i] = t[0, 0] // a[i] } }
}";
    for k in kernels(text) {
        let args = |a: &[i32], n: i64| {
            let len = a.len() as i64;
            let c = Array::from_slice(&[len], &vec![0i32; a.len()]).unwrap();
            vec![Array::from_slice(&[len], a).unwrap(), Array::scalar(n).unwrap(), c]
        };
        let mut good = args(&[1, 2, -2], 3);
        call(&k, &mut good).unwrap();
        assert_eq!(good[2].to_vec::<i32>().unwrap(), [7, 3, -4]);
        refused(&k, args(&[1, 0], 3), "E0815", &["divided an integer by zero"]);
        // The interpreter says what it says of every run.
        let overflow = if k.entry().is_some() { "E0817" } else { "E0408" };
        refused(&k, args(&[1], 1 << 40), overflow, &[]);
        refused(&k, args(&[1], 1 << 30), "E0816", &["`t` takes", "the machine has"]);
        call(&k, &mut args(&[], 1 << 30)).unwrap();
    }
}

/// Systems grant more than there is: what local arrays take together is known before anything is written.
#[test]
fn local_arrays_beyond_memory_are_refused_before_the_run() {
    let text = "func g(N)(n: in i32, steps: in i64, x: in f64[2 * N], c: inout f64[1]) {
  'c'[]: c[0] = 1.0:f64
  let rows: index = index(n) * 2 {
    if 5:i32 < n {
      alloc u.tape: f64[rows, N] { alloc s: f64[max(N - 1000, 0)] { 'u'[]: u.tape[0, 0] = x[0] 'c.2'[]: c[0] = u.tape[0, 0] } }
    }
    for t in 0..index(steps) {
      alloc v: f32[rows - N, rows] { if t == 0 { 'v'[t]: v[0, 0] = 2.0:f32 'c.3'[t]: c[0] = f64(v[0, 0]) } }
    }
  }
}";
    for k in kernels(text) {
        let args = |n: i32, steps: i64| {
            let (n, steps) = (Array::scalar(n).unwrap(), Array::scalar(steps).unwrap());
            vec![n, steps, Array::zeros(Type::F64, &[2002]).unwrap(), Array::zeros(Type::F64, &[1]).unwrap()]
        };
        let words = [
            "needs 15.6 TiB",
            "17197049053192 bytes",
            "max(index(n) * 2, 0) * 8 * N = 17197049053184 bytes",
            "checkpoint",
        ];
        let mut beyond = args(1 << 30, 0);
        let d = call(&k, &mut beyond).unwrap_err();
        assert_eq!(beyond[3].to_vec::<f64>().unwrap(), [0.0], "nothing ran");
        let text = d.to_string();
        assert!(words.iter().all(|w| text.contains(w)) && !text.contains("`v`"), "{text}");
        assert_eq!(d.code.0, "E0816");
        // Of what runs one after the other, the larger one counts.
        refused(&k, args((1 << 20) - 500, 1), "E0816", &["needs 16.0 TiB", "`v` takes"]);
        for few in [args(5, 0), args(6, 0), args(500, 0), args(1000, 3)] {
            let mut few = few;
            call(&k, &mut few).unwrap();
        }
    }
}

#[test]
fn what_cannot_be_compiled_is_told() {
    let m = parse_module(
        FileId(0),
        "func f()(M: inout f32[]) { token t { async t { 'M': M[] = 0.0:f32 } wait t } }",
    )
    .unwrap();
    let d = compile(Engine::C, &m, &m.functions["f"], &Options::default()).unwrap_err();
    assert!(d.code.0 == "E0701" && d.message.contains("asynchronous"), "{d}");
    let m = parse_module(FileId(0), "func f()(M: out f32[]) { 'M': M[] = 0.0:f32 }").unwrap();
    let target = lathe_target::Code { cpu: "no-such-processor".into(), ..Default::default() };
    let options = Options { target: Some(target), ..Options::default() };
    let d = compile(Engine::C, &m, &m.functions["f"], &options).unwrap_err();
    assert!(d.code.0 == "E0820" && d.notes.iter().any(|n| n.contains("no-such-processor")), "{d}");
}
