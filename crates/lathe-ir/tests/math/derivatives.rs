//! Derivatives against differences.

use super::helpers::evaluate;
use lathe_ir::build::math;
use lathe_ir::math::derivative;
use lathe_ir::{MathFn, Scalar};

#[test]
fn derivatives_are_slopes() {
    let points = [[0.3, 1.7, 0.2], [1.4, 0.6, -1.0], [2.6, 2.2, 3.0]];
    for f in MathFn::ALL {
        for which in 0..f.arity() {
            for p in &points {
                // Within the domain.
                let p = match f {
                    MathFn::Asin | MathFn::Acos | MathFn::Atanh => &[p[0] / 3.0, p[1], p[2]],
                    MathFn::Acosh => &[p[0] + 1.0, p[1], p[2]],
                    _ => p,
                };
                let value = |shift: f64| {
                    let column = |k: usize| vec![p[k] + if k == which { shift } else { 0.0 }];
                    let columns: Vec<Vec<f64>> = (0..f.arity()).map(column).collect();
                    evaluate(Scalar::F64, &columns, &|a| math(f, a.to_vec()))[0]
                };
                let slope = (value(1e-5) - value(-1e-5)) / 2e-5;
                let columns: Vec<Vec<f64>> = (0..f.arity()).map(|k| vec![p[k]]).collect();
                let by_table =
                    evaluate(Scalar::F64, &columns, &|a| derivative(f, a, which).expect("a derivative"))[0];
                let off = (slope - by_table).abs() / slope.abs().max(1.0);
                assert!(off < 1e-7, "{} by {which} at {p:?}: {by_table}, not {slope}", f.name());
            }
        }
    }
}

#[test]
fn kinks_give_numbers() {
    let one =
        |f: MathFn, x: f64| evaluate(Scalar::F64, &[vec![x]], &|a| derivative(f, a, 0).expect("one"))[0];
    assert_eq!([one(MathFn::Abs, 0.0), one(MathFn::Abs, -2.0), one(MathFn::Abs, 3.0)], [0.0, -1.0, 1.0]);
    let pow = |x: f64, y: f64, which: usize| {
        evaluate(Scalar::F64, &[vec![x], vec![y]], &|a| derivative(MathFn::Pow, a, which).expect("one"))[0]
    };
    assert_eq!(pow(0.0, 0.0, 0), 0.0);
    assert_eq!(pow(0.0, 2.0, 1), 0.0);
    assert_eq!(pow(0.0, 2.0, 0), 0.0);
}
