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

/// What the documentation says of kinks, in both modes.
#[test]
fn kinks_have_one_rule() {
    let (zero, two, inf) = (0.0, 2.0, f64::INFINITY);
    for (value, x, y, want) in [
        ("max(x[0], y[0])", 1.0, 1.0, [1.0, 0.0]),
        ("min(x[0], y[0])", 1.0, 1.0, [1.0, 0.0]),
        ("max(x[0], y[0])", -0.0, 0.0, [1.0, 0.0]),
        ("abs(x[0]) + y[0]", zero, two, [0.0, 1.0]),
        ("abs(x[0]) + y[0]", -0.0, two, [0.0, 1.0]),
        ("hypot(x[0], y[0])", zero, zero, [0.0, 0.0]),
        ("sqrt(x[0]) + y[0]", zero, two, [inf, 1.0]),
        ("pow(x[0], y[0])", zero, two, [0.0, 0.0]),
        ("pow(x[0], y[0])", zero, 1.0, [1.0, 0.0]),
        ("pow(x[0], y[0])", zero, zero, [0.0, 0.0]),
        ("pow(x[0], y[0])", 3.0, zero, [0.0, 3f64.ln()]),
        ("pow(x[0], y[0])", -2.0, two, [-4.0, f64::NAN]),
        ("select(x[0] < y[0], x[0], y[0] * 3)", 1.0, 1.0, [0.0, 3.0]),
    ] {
        let (m, f) = kernel(&format!("kernel k(x: f64[1], y: f64[1]) -> (z: f64[1]) {{ z[i] = {value} }}"));
        let at = given("N=1");
        let one = |v: f64| ArrayValue::from_f64(lathe_ir::Scalar::F64, &[1], &[v]);
        let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() < 1e-12;
        let g = derive(&m, &f, Mode::Reverse).expect("a derivative").func;
        let inputs = [("x", x), ("y", y), ("z_bar", 1.0)].map(|(n, v)| (n.to_string(), one(v)));
        let out = run(&m, &g, &inputs.into(), &at);
        let found = ["x_bar", "y_bar"].map(|n| out[n].to_f64_vec()[0]);
        assert!(same(found[0], want[0]) && same(found[1], want[1]), "{value} at {x}, {y}: {found:?}");
        // Forward mode, along one input at a time: infinities times 0 are NaN.
        for (n, along) in ["x", "y"].into_iter().enumerate() {
            let ask = Request { wrt: vec![along.into()], ..Request::new(Mode::Forward, "t") };
            let t = differentiate(&m, &f, &ask).expect("a derivative").func;
            let dot = format!("{along}_dot");
            let inputs = [("x", x), ("y", y), (&*dot, 1.0)].map(|(n, v)| (n.to_string(), one(v)));
            let found = run(&m, &t, &inputs.into(), &at)["z_dot"].to_f64_vec()[0];
            assert!(same(found, want[n]), "{value} at {x}, {y} along {along}: {found}");
        }
    }
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
