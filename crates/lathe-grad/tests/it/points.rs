//! Derivatives at points that no difference reaches: jumps, ties, zeros; and what a refusal quotes.

use crate::common::{derive, drawn, given, kernel, run};
use lathe_grad::{Mode, Request, codes, differentiate};
use lathe_ir::interp::ArrayValue;

#[test]
fn steps_are_refused_with_the_path_or_allowed() {
    let text = "kernel k(x: f32[N]) -> (y: f32[N]) {
        var t: f32[N]
        t[i] = floor(x[i]) * 2
        y[i] = t[i] + x[i] * x[i]
    }";
    let (m, f) = kernel(text);
    for mode in [Mode::Forward, Mode::Reverse] {
        let d = derive(&m, &f, mode).expect_err("a step");
        assert_eq!(d.code, codes::STEP, "{d}");
        assert!(d.notes.iter().any(|n| n.contains("x → t → y")), "{d}");
    }
    let request = Request { allow_steps: true, ..Request::new(Mode::Reverse, "g") };
    let g = differentiate(&m, &f, &request).expect("allowed").func;
    let at = given("N=3");
    let mut x = drawn(&g, &at);
    x.insert("y_bar".into(), ArrayValue::from_f32(&[3], &[1.0, 1.0, 1.0]));
    x.insert("x".into(), ArrayValue::from_f32(&[3], &[0.5, 1.5, -2.0]));
    assert_eq!(run(&m, &g, &x, &at)["x_bar"].to_f32_vec(), [1.0, 3.0, -4.0]);
}

#[test]
fn ties_go_to_the_first() {
    let (m, f) = kernel("kernel k(x: f32[N]) -> (y: f32) { y = max[i](x[i]) }");
    let g = derive(&m, &f, Mode::Reverse).expect("a derivative").func;
    let at = given("N=4");
    let mut x = drawn(&g, &at);
    x.insert("y_bar".into(), ArrayValue::from_f64(lathe_ir::Scalar::F32, &[], &[1.0]));
    let mut grad = |values: [f32; 4]| {
        x.insert("x".into(), ArrayValue::from_f32(&[4], &values));
        run(&m, &g, &x, &at)["x_bar"].to_f32_vec()
    };
    assert_eq!(grad([1.0, 3.0, 3.0, 2.0]), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(grad([1.0, f32::NAN, 3.0, f32::NAN]), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(grad([f32::NEG_INFINITY; 4]), [1.0, 0.0, 0.0, 0.0]);
    let none = given("N=0");
    x.insert("x".into(), ArrayValue::from_f32(&[0], &[]));
    assert!(run(&m, &g, &x, &none)["x_bar"].is_empty());
}

#[test]
fn products_with_zeros() {
    let (m, f) = kernel("kernel k(x: f32[N]) -> (y: f32) { y = prod[i](x[i]) }");
    let g = derive(&m, &f, Mode::Reverse).expect("a derivative").func;
    let at = given("N=3");
    let mut x = drawn(&g, &at);
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

/// Forward over reverse: snapshots have tangents like all other arrays.
#[test]
fn second_derivatives_go_through_checkpoints() {
    let (m, f) = kernel(
        "kernel k(u: inout f64[N], T: i32) {
            for t in 0..T { for i in 1..N { u[i] = u[i] * (1 - 0.3 * u[i] * u[i - 1]) } }
        }",
    );
    let at = given("N=4 T=7");
    let second = |checkpoints: Option<u16>| {
        let checkpoints = checkpoints.and_then(std::num::NonZeroU16::new);
        let ask = Request { checkpoints, ..Request::new(Mode::Reverse, "g") };
        let g = differentiate(&m, &f, &ask).expect("a derivative").func;
        let h = derive(&m, &g, Mode::Forward).expect("its derivative").func;
        run(&m, &h, &drawn(&h, &at), &at)
    };
    let all = second(None);
    for n in [1, 2, 5, 20] {
        let few = second(Some(n));
        for (name, a) in &all {
            assert_eq!(a.to_f64_vec(), few[name].to_f64_vec(), "{name} with {n}");
        }
    }
}
