//! Code that this process compiled is taken again where everything that it depends on is the same, and nowhere else.

use crate::common::*;
use lathe_engine::{Engine, Options};
use lathe_llvm::Llvm;
use std::sync::{Mutex, PoisonError};

/// What is kept belongs to the process.
static ALONE: Mutex<()> = Mutex::new(());

fn scale(name: &str, ty: &str, tile: i64, by: &str) -> String {
    format!(
        "func {name}(N)(A: in {ty}[N], B: out {ty}[N]) stage scheduled {{
           for o in 0..(N + {}) // {tile} cpu {{ for i in 0..min({tile}, N - {tile} * o) {{
             'B'[{tile} * o + i]: B[{tile} * o + i]! = A[{tile} * o + i]! * {by}:{ty}
           }} }}
         }}",
        tile - 1
    )
}

/// How many modules LLVM compiles for a function.
fn compiled(text: &str, options: &Options) -> usize {
    let (module, func) = parse(text);
    let object = Llvm.compile(&module, &func, options).unwrap_or_else(|d| panic!("{d}\n{text}"));
    object.times.iter().filter(|t| t.0 == "code").count()
}

#[test]
fn only_what_changed_is_compiled() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Llvm.forget();
    let unit = Options { unit_strides_only: true, ..Options::default() };
    let base = scale("kept", "f32", 8, "3.0");
    assert_eq!(compiled(&base, &unit), 2, "the entry and the body");
    assert_eq!(compiled(&base, &unit), 0);
    assert_eq!(compiled(&scale("kept", "f32", 16, "3.0"), &unit), 1, "another tile is another body");
    assert_eq!(compiled(&scale("kept", "f32", 8, "5.0"), &unit), 1, "another number is another body");
    assert_eq!(compiled(&scale("kept", "f64", 8, "3.0"), &unit), 2, "another type is another kernel");
    assert_eq!(compiled(&scale("other", "f32", 8, "3.0"), &unit), 2, "so is another name");
    assert_eq!(compiled(&base, &Options { opt_level: 1, ..unit.clone() }), 2, "and another level");
    let fewer = Options { features: Some("+sse4.2,+avx".to_string()), ..unit.clone() };
    assert_eq!(compiled(&base, &fewer), 2, "and another processor");
    assert_eq!(compiled(&base, &Options::default()), 2, "any strides: another entry and one more body");
    assert_eq!(compiled(&base, &unit), 0);
    Llvm.forget();
    assert_eq!(compiled(&base, &unit), 2);
}

#[test]
fn what_is_taken_again_computes_what_it_is_for() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Llvm.forget();
    for round in 0..2 {
        for (tile, by) in [(8, "3.0"), (16, "3.0"), (8, "5.0")] {
            let c = compile(&scale("scale", "f32", tile, by));
            let factor: f32 = by.parse().expect("a number");
            let mut a = Tensor::f32(&[21], |i| i as f32);
            let mut b = Tensor::f32(&[21], |_| 0.0);
            assert_eq!(call(&c, &mut [&mut a, &mut b]), 0);
            let want: Vec<f32> = (0..21).map(|i| i as f32 * factor).collect();
            assert_eq!(b.as_f32(), want, "round {round}, tile {tile}");
        }
    }
}

#[test]
fn damaged_code_in_parts_is_refused() {
    let (module, func) = parse(&scale("scale", "f32", 8, "3.0"));
    let object = Llvm.compile(&module, &func, &Options::default()).expect("code");
    assert!(Llvm.load(&object, &func).is_ok());
    let n = object.bytes.len();
    for cut in [0, 5, 14, 20, 40, n / 2, n - 1] {
        let bytes = object.bytes[..cut].to_vec();
        assert!(Llvm.load(&lathe_engine::Object { bytes, ..object.clone() }, &func).is_err(), "cut at {cut}");
    }
}
