//! External functions, called by the code of every engine: what they get, what they write, what is said where they fail or
//! are missing.

use crate::support::parse;
use lathe_abi::{Array as Descriptor, Runtime, dtype, status};
use lathe_ir::Type;
use lathe_runtime::{ArgView, Array, Engine, Kernel, Limits, Options, Pool, compile, externals};
use std::time::Duration;

/// The numbers of a descriptor, and where each of its elements lies.
unsafe fn elements(a: &Descriptor) -> Vec<*mut f64> {
    assert!(a.dtype == dtype::F64 && a.elem_bytes == 8, "{a:?}");
    let at = |from: *const i64, d: u32| unsafe { *from.add(d as usize) };
    let mut out = vec![0i64];
    for d in 0..a.rank {
        let (n, s) = (at(a.shape, d), at(a.strides, d));
        out = out.iter().flat_map(|o| (0..n).map(move |k| o + k * s)).collect();
    }
    out.into_iter().map(|o| a.data.cast::<f64>().wrapping_offset(o as isize)).collect()
}

/// y[i] = x[i]² + i
unsafe extern "C" fn ramp(_: *const Runtime, args: *const Descriptor) -> i32 {
    let (x, y) = unsafe { (elements(&*args), elements(&*args.add(1))) };
    assert_eq!(x.len(), y.len());
    for (i, (x, y)) in x.iter().zip(&y).enumerate() {
        unsafe { y.write(x.read() * x.read() + i as f64) };
    }
    0
}

/// t += Σ A · f + n, with scalars of two types; fails for n < 0.
unsafe extern "C" fn total(_: *const Runtime, args: *const Descriptor) -> i32 {
    let arg = |k: usize| unsafe { &*args.add(k) };
    assert!(arg(1).dtype == dtype::F32 && arg(1).rank == 0 && arg(2).dtype == dtype::I32);
    let (f, n) = unsafe { (*arg(1).data.cast::<f32>(), *arg(2).data.cast::<i32>()) };
    if n < 0 {
        return 7;
    }
    let sum: f64 = unsafe { elements(arg(0)) }.iter().map(|p| unsafe { p.read() }).sum();
    let t = unsafe { elements(arg(3)) };
    unsafe { t[0].write(t[0].read() + sum * f64::from(f) + f64::from(n)) };
    0
}

unsafe extern "C" fn none(_: *const Runtime, _: *const Descriptor) -> i32 {
    status::OK
}

const DECLARED: &str = "extern ramp(N)(x: in f64[N], y: out f64[N]) effects (read x[0..N], write y[0..N])
extern total(M, N)(A: in f64[M, N], f: in f32, n: in i32, t: inout f64[]) effects (read A, read t, write t, fail)
extern none()() effects (io)
";

fn give() {
    // SAFETY: they keep to what is declared of them.
    unsafe {
        externals::give("ramp", ramp);
        externals::give("total", total);
        externals::give("none", none);
    }
}

fn kernels(text: &str) -> Vec<(Engine, Kernel)> {
    give();
    let (m, f) = parse(&format!("{text}\n{DECLARED}"));
    let errors = lathe_ir::verify::verify(&m);
    assert!(errors.is_empty(), "{}", errors[0]);
    Engine::ALL.iter().map(|e| (*e, compile(*e, &m, &f, &Options::default()).unwrap())).collect()
}

fn array(shape: &[i64], values: impl Fn(usize) -> f64) -> Array {
    let mut a = Array::zeros(Type::F64, shape).unwrap();
    for (at, c) in a.bytes_mut().chunks_exact_mut(8).enumerate() {
        c.copy_from_slice(&values(at).to_ne_bytes());
    }
    a
}

fn call(k: &Kernel, arrays: &mut [Array], threads: usize) -> Result<(), lathe_diagnostics::Diagnostic> {
    let mut views: Vec<ArgView> = arrays.iter_mut().map(Array::view_mut).collect();
    k.call(&Pool::new(threads).unwrap(), &mut views)
}

/// What each engine leaves in the last array.
fn results(text: &str, arrays: impl Fn() -> Vec<Array>, want: &[f64]) {
    for (engine, k) in kernels(text) {
        let mut arrays = arrays();
        call(&k, &mut arrays, 2).unwrap_or_else(|d| panic!("{engine}: {d}"));
        let got = arrays.last().unwrap().to_vec::<f64>().unwrap();
        assert_eq!(got, want, "{engine}");
    }
}

#[test]
fn whole_arrays_and_local_ones_in_any_memory() {
    // Local arrays would be in registers; of constant size, and of one that is known at the call.
    for (space, extent) in [("host", "N"), ("stack", "5"), ("register", "5")] {
        let text = format!(
            "func f(N)(x: in f64[N], s: out f64[N]) stage scheduled {{
               check N == 5, \"E1\", \"five\"
               alloc y: f64[{extent}] {space}
               alloc z: f64[{extent}] {space}
               call none()
               for i in 0..5 {{ 'z'[i]: z[i] = x[i] + 1.0:f64 }}
               call ramp(&z, &y)
               for i in 0..5 {{ 's'[i]: s[i] = y[i] * 2.0:f64 }}
             }}"
        );
        let want: Vec<f64> = (0..5).map(|i| 2.0 * ((i as f64 + 1.0).powi(2) + i as f64)).collect();
        results(&text, || vec![array(&[5], |i| i as f64), array(&[5], |_| 0.0)], &want);
    }
    let empty = "func f(N)(x: in f64[N], s: out f64[N]) stage scheduled { call ramp(&x, &s) }";
    results(empty, || vec![array(&[0], |_| 0.0), array(&[0], |_| 0.0)], &[]);
    results(empty, || vec![array(&[1], |_| 3.0), array(&[1], |_| 0.0)], &[9.0]);
}

#[test]
fn strides_of_arguments_are_passed_on() {
    let text = "func f(N)(x: in f64[N], s: out f64[N]) stage scheduled { call ramp(&x, &s) }";
    for (engine, k) in kernels(text) {
        for stride in [2i64, -1, -3] {
            let mut x = Array::with_strides(Type::F64, &[4], &[stride]).unwrap();
            let values: Vec<f64> = (0..4).map(|i| f64::from(i) - 1.5).collect();
            (0..4i64).for_each(|i| assert!(x.set(&[i], values[i as usize])));
            let mut s = Array::with_strides(Type::F64, &[4], &[-stride]).unwrap();
            let mut views = [x.view_mut(), s.view_mut()];
            k.call(&Pool::new(1).unwrap(), &mut views).unwrap();
            let want: Vec<f64> = values.iter().zip(0..).map(|(x, i)| x * x + f64::from(i)).collect();
            assert_eq!(s.to_vec::<f64>().unwrap(), want, "{engine} {stride}");
        }
    }
}

#[test]
fn slices_and_scalars_in_loops_on_threads() {
    // Rows two by two of a matrix, each with a scalar that the iteration computes.
    let text = "func f(M, N)(A: in f64[M, N], t: inout f64[M]) stage scheduled {
      for i in 0..M cpu {
        alloc row: f64[2, N] host
        alloc sum: f64[] register
        for j in 0..N { 'row'[i, j]: row[0, j] = A[i, j] }
        for j in 0..N { 'row.2'[i, j]: row[1, j] = A[i, N - 1 - j] }
        'sum'[i]: sum[] = t[i]
        call total(&row, f32(i), i32(i) + 1:i32, &sum)
        't'[i]: t[i] = sum[]
      }
    }";
    let a = |k: usize| (k * k % 7) as f64;
    let want: Vec<f64> = (0..9)
        .map(|i| {
            let sum: f64 = (0..3).map(|j| a(i * 3 + j)).sum();
            100.0 + 2.0 * sum * i as f64 + i as f64 + 1.0
        })
        .collect();
    results(text, || vec![array(&[9, 3], a), array(&[9], |_| 100.0)], &want);
    let slice = "func f(N, K)(x: in f64[K], w: in f64[N], s: inout f64[K]) stage scheduled {
      check K == 2 * N + 1, \"E1\", \"twice\"
      alloc y: f64[N]
      call ramp(&w, &y)
      call ramp(&slice(x, [1], [2]), &y)
      for i in 0..N { 's'[i]: s[i] = y[i] }
    }";
    // Nobody says how long a slice is but the whole array beside it.
    let want: Vec<f64> =
        (0..4).map(|i| (2.0 * f64::from(i) + 1.0).powi(2) + f64::from(i)).chain([0.0; 5]).collect();
    let arrays = || vec![array(&[9], |k| k as f64), array(&[4], |_| 1.0), array(&[9], |_| 0.0)];
    results(slice, arrays, &want);
}

#[test]
fn failures_and_missing_functions_are_named() {
    let text = "func f()(x: in f64[2, 2], n: in i32, t: inout f64[]) stage scheduled { call total(&x, 1.0:f32, n, &t) }";
    for (engine, k) in kernels(text) {
        let arrays = |n: i32| vec![array(&[2, 2], |_| 1.0), Array::scalar(n).unwrap(), array(&[], |_| 0.0)];
        call(&k, &mut arrays(1), 1).unwrap_or_else(|d| panic!("{engine}: {d}"));
        let d = call(&k, &mut arrays(-1), 1).unwrap_err();
        assert!(
            d.code.0 == "E0827" && d.message.contains("`total`") && d.message.contains("`f`"),
            "{engine} {d}"
        );
        // A table that is missing is no crash.
        let mut arrays = arrays(1);
        let mut views: Vec<ArgView> = arrays.iter_mut().map(Array::view_mut).collect();
        let limits = Limits { time: Some(Duration::from_secs(60)), interrupt: None };
        k.call_within(&Pool::new(1).unwrap(), &mut views, &limits).unwrap();
    }
    let (m, f) = parse(
        "func f(N)(x: in f64[N], y: out f64[N]) stage scheduled { call unheard_of(&x, &y) }
         extern unheard_of(N)(x: in f64[N], y: out f64[N]) effects (read x, write y)",
    );
    for engine in Engine::ALL {
        let k = compile(*engine, &m, &f, &Options::default()).unwrap();
        let d = call(&k, &mut [array(&[2], |_| 0.0), array(&[2], |_| 0.0)], 1).unwrap_err();
        assert!(
            d.code.0 == "E0826" && d.message.contains("`unheard_of`") && d.help.is_some(),
            "{engine} {d}"
        );
    }
    for engine in Engine::devices() {
        let d = lathe_engine::accept(engine.name(), engine.capabilities(), &m, &f).unwrap_err();
        assert!(d.code.0 == "E0701" && d.to_string().contains("`unheard_of`"), "{d}");
    }
}

#[test]
fn what_compiled_code_cannot_call_is_refused() {
    let cases = [
        ("for i in 0..8 vector(8) { call ramp(&slice(x, [i], [1]), &slice(y, [i], [1])) }", "vector loop"),
        ("for i in 0..8 { 'y'[i]: y[i] = call erf(x[i]):f64 }", "value of the external function `erf`"),
        ("call ramp(&slice(x, [1], [1]), &slice(y, [0], [1]))", "size `N`"),
        ("call ramp(&reshape(x, [8]), &y)", "this view"),
    ];
    for (body, words) in cases {
        let text = format!(
            "func f()(x: in f64[8], y: inout f64[8]) stage scheduled {{ {body} }}
             extern erf()(x: in f64) -> f64 effects ()\n{DECLARED}"
        );
        let (m, f) = parse(&text);
        for engine in Engine::ALL.iter().filter(|e| **e != Engine::INTERPRETER) {
            let d = compile(*engine, &m, &f, &Options::default()).unwrap_err();
            assert!(d.code.0 == "E0701" && d.to_string().contains(words), "{engine} {d}");
        }
    }
}

#[test]
fn a_meaning_runs_where_no_function_is_given() {
    let text = "func f(N)(x: in f64[N], y: out f64[N]) stage scheduled { call meant(&x, &y) }
      func body(N)(x: in f64[N], y: out f64[N]) stage scheduled { for i in 0..N { 'y'[i]: y[i] = 5.0:f64 } }
      extern meant(N)(x: in f64[N], y: out f64[N]) effects (read x, write y) meaning body";
    let (m, _) = parse(text);
    let f = m.functions["f"].clone();
    let run = |engine: Engine| {
        let k = compile(engine, &m, &f, &Options::default()).unwrap();
        let mut arrays = [array(&[2], |_| 2.0), array(&[2], |_| 0.0)];
        call(&k, &mut arrays, 1).unwrap();
        arrays[1].to_vec::<f64>().unwrap()
    };
    for engine in Engine::ALL {
        assert_eq!(run(*engine), [5.0, 5.0], "{engine}");
    }
    // SAFETY: as above.
    unsafe { externals::give("meant", ramp) };
    for engine in Engine::ALL {
        // The interpreter is asked what the tree means.
        let want = if *engine == Engine::INTERPRETER { [5.0, 5.0] } else { [4.0, 5.0] };
        assert_eq!(run(*engine), want, "{engine}");
    }
}

/// The interpreter holds functions to what they declare.
#[test]
fn writes_that_are_not_declared_are_found() {
    let (m, f) = parse(
        "func f()(x: in f64[4], y: inout f64[4]) stage scheduled { call ramps(&x, &y) }
         extern ramps(N)(x: in f64[N], y: inout f64[N]) effects (read x[0..N], write y[0..2])",
    );
    // SAFETY: as above; what it writes is not declared, but is there.
    unsafe { externals::give("ramps", ramp) };
    let k = compile(Engine::INTERPRETER, &m, &f, &Options::default()).unwrap();
    let d = call(&k, &mut [array(&[4], |_| 1.0), array(&[4], |_| 0.0)], 1).unwrap_err();
    assert!(d.code.0 == "E0417" && d.to_string().contains("ramps"), "{d}");
}

#[test]
fn libraries_are_linked_by_names() {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("twice.c"), folder.path().join("libtwice.so"));
    let (m, f) = parse(
        "func f(N)(x: in f64[N], y: out f64[N]) stage scheduled { call twice(&x, &y) }
         extern twice(N)(x: in f64[N], y: out f64[N]) effects (read x, write y)",
    );
    let header = Engine::C.emit(&m, &f, "header", &Options::default()).unwrap();
    std::fs::write(folder.path().join("f.h"), header).unwrap();
    let text = "#include \"f.h\"\n\
        int32_t lathe_twice(const lathe_runtime *rt, const lathe_array *args) {\n\
          double *scratch = rt->alloc(rt->ctx, 8);\n\
          if (!scratch || args[0].dtype != LATHE_F64) return LATHE_OUT_OF_MEMORY;\n\
          *scratch = 2.0;\n\
          for (int64_t i = 0; i < args[0].shape[0]; i++)\n\
            ((double *)args[1].data)[i * args[1].strides[0]] =\n\
              *scratch * ((const double *)args[0].data)[i * args[0].strides[0]];\n\
          rt->free(rt->ctx, scratch);\n\
          return LATHE_OK;\n}\n";
    std::fs::write(&source, text).unwrap();
    let mut cc = std::process::Command::new("cc");
    let built = cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.expect("a C compiler").success());
    externals::link(&library).unwrap();
    for engine in Engine::ALL.iter().filter(|e| **e != Engine::INTERPRETER) {
        let k = compile(*engine, &m, &f, &Options::default()).unwrap();
        let mut arrays = [array(&[3], |i| i as f64), array(&[3], |_| 0.0)];
        call(&k, &mut arrays, 1).unwrap();
        assert_eq!(arrays[1].to_vec::<f64>().unwrap(), [0.0, 2.0, 4.0], "{engine}");
    }
    assert!(!externals::given("sin"), "functions of the C library are not external ones");
    let d = externals::link(&source).unwrap_err();
    assert!(d.code.0 == "E0826" && d.message.contains("twice.c"), "{d}");
}
