//! Zeros, infinities, NaN: as in C.

use super::helpers::at;
use lathe_ir::{MathFn, Scalar};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn same(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || (a == b && a.is_sign_negative() == b.is_sign_negative())
}

#[test]
fn ends_of_the_domains() {
    let cases: &[(MathFn, f64, f64)] = &[
        (MathFn::Exp, INF, INF),
        (MathFn::Exp, -INF, 0.0),
        (MathFn::Exp, -0.0, 1.0),
        (MathFn::Exp2, -INF, 0.0),
        (MathFn::Exp2, 10.0, 1024.0),
        (MathFn::Log, 0.0, -INF),
        (MathFn::Log, -0.0, -INF),
        (MathFn::Log, -1.0, NAN),
        (MathFn::Log, -INF, NAN),
        (MathFn::Log, INF, INF),
        (MathFn::Log, 1.0, 0.0),
        (MathFn::Log2, 8.0, 3.0),
        (MathFn::Log2, 0.125, -3.0),
        (MathFn::Sin, -0.0, -0.0),
        (MathFn::Sin, INF, NAN),
        (MathFn::Sin, 2e20, NAN),
        (MathFn::Cos, 0.0, 1.0),
        (MathFn::Cos, -INF, NAN),
        (MathFn::Tan, -0.0, -0.0),
        (MathFn::Tanh, INF, 1.0),
        (MathFn::Tanh, -INF, -1.0),
        (MathFn::Tanh, -0.0, -0.0),
        (MathFn::Sigmoid, -INF, 0.0),
        (MathFn::Sigmoid, INF, 1.0),
        (MathFn::Sigmoid, 0.0, 0.5),
        (MathFn::Erf, -INF, -1.0),
        (MathFn::Erf, -0.0, -0.0),
        (MathFn::Atan, -0.0, -0.0),
        (MathFn::Expm1, -0.0, -0.0),
        (MathFn::Expm1, INF, INF),
        (MathFn::Expm1, -INF, -1.0),
        (MathFn::Log1p, -0.0, -0.0),
        (MathFn::Log1p, -1.0, -INF),
        (MathFn::Log1p, -1.5, NAN),
        (MathFn::Log1p, INF, INF),
        (MathFn::Log10, 1000.0, 3.0),
        (MathFn::Log10, 0.0, -INF),
        (MathFn::Log10, -1.0, NAN),
        (MathFn::Log10, 1.0, 0.0),
        (MathFn::Sinh, -0.0, -0.0),
        (MathFn::Sinh, -INF, -INF),
        (MathFn::Cosh, -INF, INF),
        (MathFn::Cosh, 0.0, 1.0),
        (MathFn::Asin, -0.0, -0.0),
        (MathFn::Asin, 1.5, NAN),
        (MathFn::Acos, 1.0, 0.0),
        (MathFn::Acos, -1.5, NAN),
        (MathFn::Asinh, -0.0, -0.0),
        (MathFn::Asinh, -INF, -INF),
        (MathFn::Acosh, 1.0, 0.0),
        (MathFn::Acosh, 0.5, NAN),
        (MathFn::Acosh, -1e30, NAN),
        (MathFn::Acosh, INF, INF),
        (MathFn::Atanh, -0.0, -0.0),
        (MathFn::Atanh, 1.0, INF),
        (MathFn::Atanh, -1.0, -INF),
        (MathFn::Atanh, 1.5, NAN),
    ];
    for ty in [Scalar::F32, Scalar::F64] {
        for (f, x, want) in cases {
            let got = at(*f, ty, &[*x]);
            assert!(same(got, *want), "{} of {x} on {ty}: {got}, not {want}", f.name());
        }
        for f in MathFn::ALL.into_iter().filter(|f| f.arity() == 1) {
            assert!(at(f, ty, &[NAN]).is_nan(), "{} of NaN", f.name());
        }
    }
}

#[test]
fn two_arguments_as_in_c() {
    let values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, INF, -INF, NAN, 1e30, -1e30];
    for ty in [Scalar::F32, Scalar::F64] {
        for x in values {
            for y in values {
                let narrow = |v: f64| if ty == Scalar::F32 { f64::from(v as f32) } else { v };
                let (got, want) = (at(MathFn::Pow, ty, &[x, y]), narrow(narrow(x).powf(narrow(y))));
                let close = (got - want).abs() <= want.abs() * 1e-6;
                assert!(same(got, want) || close, "pow({x}, {y}) on {ty}: {got}, not {want}");
                let (got, want) = (at(MathFn::Atan2, ty, &[x, y]), x.atan2(y));
                let close = (got - want).abs() <= want.abs() * 1e-6 && want != 0.0;
                assert!(same(got, want) || close, "atan2({x}, {y}) on {ty}: {got}, not {want}");
                let (got, want) = (at(MathFn::Hypot, ty, &[x, y]), x.hypot(y));
                let close = (got - want).abs() <= want.abs() * 1e-6;
                assert!(same(got, want) || close, "hypot({x}, {y}) on {ty}: {got}, not {want}");
            }
        }
    }
}
