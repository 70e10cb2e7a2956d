//! What is not differentiated says so, by code.

use crate::common::{Draw, derive, inputs, kernel, run, sizes_of};
use lathe_grad::{Mode, Request, codes, differentiate};
use lathe_ir::interp::ArrayValue;

fn refused(text: &str, mode: Mode, code: lathe_diagnostics::Code) -> lathe_diagnostics::Diagnostic {
    let (m, f) = kernel(text);
    match derive(&m, &f, mode) {
        Ok(d) => panic!("differentiated:\n{}", lathe_ir::text::print_function(&d.func)),
        Err(d) => {
            assert_eq!(d.code, code, "{d}");
            d
        }
    }
}

#[test]
fn steps_are_refused_with_the_path_or_allowed() {
    let text = "kernel k(x: f32[N]) -> (y: f32[N]) {
        var t: f32[N]
        t[i] = floor(x[i]) * 2
        y[i] = t[i] + x[i] * x[i]
    }";
    for mode in [Mode::Forward, Mode::Reverse] {
        let d = refused(text, mode, codes::STEP);
        assert!(d.notes.iter().any(|n| n.contains("x → t → y")), "{d}");
    }
    let (m, f) = kernel(text);
    let request = Request { allow_steps: true, ..Request::new(Mode::Reverse, "g") };
    let g = differentiate(&m, &f, &request).expect("allowed").func;
    let at = sizes_of(&g, &[("N", 3)]);
    let mut x = inputs(&g, &at, Draw::default());
    x.insert("y_bar".into(), ArrayValue::from_f32(&[3], &[1.0, 1.0, 1.0]));
    x.insert("x".into(), ArrayValue::from_f32(&[3], &[0.5, 1.5, -2.0]));
    assert_eq!(run(&m, &g, &x, &at)["x_bar"].to_f32_vec(), [1.0, 3.0, -4.0]);
}

#[test]
fn subscripts_and_casts_of_differentiated_values_are_steps() {
    let text = "kernel k(x: f32[N], t: f32[M]) -> (y: f32[N]) {
        for i in 0..N { y[i] = t[min(max(i32(x[i]), 0), i32(M) - 1)] }
    }";
    refused(text, Mode::Reverse, codes::STEP);
    // The table alone is differentiated: the subscript is data.
    let (m, f) = kernel(text);
    let request = Request { wrt: vec!["t".into()], ..Request::new(Mode::Reverse, "g") };
    assert!(differentiate(&m, &f, &request).is_ok());
}

#[test]
fn reverse_mode_of_while_is_refused_and_forward_mode_is_not() {
    let text = "kernel k(x: inout f32) { while x < 10 { x = x * x + 1 } }";
    refused(text, Mode::Reverse, codes::UNSUPPORTED);
    let (m, f) = kernel(text);
    assert!(derive(&m, &f, Mode::Forward).is_ok());
}

#[test]
fn names_must_fit() {
    let (m, f) = kernel("kernel k(x: f32[N], n: i32) -> (y: f32[N]) { y[i] = x[i] * f32(n) }");
    for (wrt, of) in [("z", "y"), ("n", "y"), ("y", "y"), ("x", "x"), ("x", "n")] {
        let request =
            Request { wrt: vec![wrt.into()], of: vec![of.into()], ..Request::new(Mode::Reverse, "g") };
        let d = differentiate(&m, &f, &request).expect_err("no such name");
        assert_eq!(d.code, codes::NAME);
    }
    let twice = Request { wrt: vec!["x".into(), "x".into()], ..Request::new(Mode::Forward, "g") };
    assert_eq!(differentiate(&m, &f, &twice).expect_err("twice").code, codes::NAME);
    let (m, f) = kernel("kernel k(n: i32[N]) -> (y: i32[N]) { y[i] = n[i] }");
    assert_eq!(derive(&m, &f, Mode::Forward).expect_err("integers").code, codes::NAME);
}

#[test]
fn tapes_whose_size_the_kernel_computes_are_refused() {
    let text = "kernel k(x: f32[N], n: i32[N]) -> (y: f32[N]) {
        var m: i32[N]
        m[i] = n[i] + 1
        for i in 0..N { y[i] = 1.0
            for j in 0..index(m[i]) { y[i] = y[i] * x[i] * y[i] }
        }
    }";
    refused(text, Mode::Reverse, codes::TAPE);
}

#[test]
fn ties_go_to_the_first() {
    let (m, f) = kernel("kernel k(x: f32[N]) -> (y: f32) { y = max[i](x[i]) }");
    let g = derive(&m, &f, Mode::Reverse).expect("a derivative").func;
    let at = sizes_of(&g, &[("N", 4)]);
    let mut x = inputs(&g, &at, Draw::default());
    x.insert("y_bar".into(), ArrayValue::from_f64(lathe_ir::Scalar::F32, &[], &[1.0]));
    let mut grad = |values: [f32; 4]| {
        x.insert("x".into(), ArrayValue::from_f32(&[4], &values));
        run(&m, &g, &x, &at)["x_bar"].to_f32_vec()
    };
    assert_eq!(grad([1.0, 3.0, 3.0, 2.0]), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(grad([1.0, f32::NAN, 3.0, f32::NAN]), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(grad([f32::NEG_INFINITY; 4]), [1.0, 0.0, 0.0, 0.0]);
    let none = sizes_of(&g, &[("N", 0)]);
    x.insert("x".into(), ArrayValue::from_f32(&[0], &[]));
    assert!(run(&m, &g, &x, &none)["x_bar"].is_empty());
}

#[test]
fn products_with_zeros() {
    let (m, f) = kernel("kernel k(x: f32[N]) -> (y: f32) { y = prod[i](x[i]) }");
    let g = derive(&m, &f, Mode::Reverse).expect("a derivative").func;
    let at = sizes_of(&g, &[("N", 3)]);
    let mut x = inputs(&g, &at, Draw::default());
    x.insert("y_bar".into(), ArrayValue::from_f64(lathe_ir::Scalar::F32, &[], &[1.0]));
    for (values, want) in [
        ([2.0, 0.0, 3.0], [0.0, 6.0, 0.0]),
        ([0.0, 0.0, 3.0], [0.0; 3]),
        ([2.0, 5.0, 3.0], [15.0, 6.0, 10.0]),
    ] {
        x.insert("x".into(), ArrayValue::from_f32(&[3], &values));
        assert_eq!(run(&m, &g, &x, &at)["x_bar"].to_f32_vec(), want);
    }
}
