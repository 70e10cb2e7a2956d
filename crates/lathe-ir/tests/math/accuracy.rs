//! The errors that the table states hold.

use super::helpers::*;
use lathe_ir::math::{entry, error_in_ulp};
use lathe_ir::{MathFn, Scalar};

/// An error function of its own: a series of positive terms, and a continued fraction. The series
/// loses digits as the argument grows, the tail of the fraction gains them.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    let v = if a < 1.0 {
        let (mut term, mut sum, mut n) = (a, a, 0.0);
        while term > sum * 1e-18 {
            n += 1.0;
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
        }
        std::f64::consts::FRAC_2_SQRT_PI * (-a * a).exp() * sum
    } else {
        let tail = (1..200).rev().fold(0.0, |f, k| f64::from(k) / 2.0 / (a + f));
        1.0 - (-a * a).exp() / (a + tail) / std::f64::consts::PI.sqrt()
    };
    v.copysign(x)
}

fn reference(f: MathFn, a: &[f64]) -> f64 {
    let x = a[0];
    match f {
        MathFn::Exp => x.exp(),
        MathFn::Exp2 => x.exp2(),
        MathFn::Log => x.ln(),
        MathFn::Log2 => x.log2(),
        MathFn::Sin => x.sin(),
        MathFn::Cos => x.cos(),
        MathFn::Tan => x.tan(),
        MathFn::Tanh => x.tanh(),
        MathFn::Sigmoid if x < -40.0 => x.exp(),
        MathFn::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        MathFn::Erf => erf(x),
        MathFn::Atan => x.atan(),
        MathFn::Atan2 => x.atan2(a[1]),
        MathFn::Pow => x.powf(a[1]),
        MathFn::Expm1 => x.exp_m1(),
        MathFn::Log1p => x.ln_1p(),
        MathFn::Log10 => x.log10(),
        MathFn::Sinh => x.sinh(),
        MathFn::Cosh => x.cosh(),
        MathFn::Asin => x.asin(),
        MathFn::Acos => x.acos(),
        MathFn::Asinh if x.abs() < 1e9 => x.asinh(),
        MathFn::Asinh => (x.abs().ln() + std::f64::consts::LN_2).copysign(x),
        // No digits are lost near 1.
        MathFn::Acosh if x < 1e9 => 2.0 * ((x - 1.0) / 2.0).sqrt().asinh(),
        MathFn::Acosh => x.ln() + std::f64::consts::LN_2,
        // By the difference of the logarithms, where none is lost.
        MathFn::Atanh if x.abs() > 0.5 => 0.5 * ((1.0 + x).ln() - (1.0 - x).ln()),
        MathFn::Atanh => 0.5 * (x.ln_1p() - (-x).ln_1p()),
        MathFn::Hypot => x.hypot(a[1]),
        _ => unreachable!("exact functions are not here"),
    }
}

/// Arguments where something could go wrong, and many random ones.
fn arguments(f: MathFn, ty: Scalar, count: usize) -> Vec<Vec<f64>> {
    let mut r = Random(f as u64 * 77 + 5);
    let trigonometric = matches!(f, MathFn::Sin | MathFn::Cos | MathFn::Tan);
    let mut special = vec![0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, -1e-310, 88.7, -103.9, 709.7, -745.1, 1e-20];
    special.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e10, -3e8, 0.41421357, 1e-45, 5e-324]);
    for k in 1..60 {
        special.push(f64::from(k) * std::f64::consts::FRAC_PI_2);
        special.push(1.0 + f64::from(k - 30) * 1e-7);
    }
    let draw = |r: &mut Random, k: usize| match k % 5 {
        0 => r.any(ty),
        1 => r.between(-1.5, 1.5),
        2 => r.between(-12.0, 12.0),
        3 => r.between(-750.0, 750.0) * if ty == Scalar::F32 { 0.15 } else { 1.0 },
        _ => r.between(0.0, 3.0) * 10f64.powf(r.between(-6.0, 6.0)),
    };
    let mut rows = Vec::new();
    for k in 0..count {
        let mut row: Vec<f64> = (0..f.arity()).map(|_| draw(&mut r, k)).collect();
        if let Some(s) = special.get(k) {
            row[0] = *s;
        }
        if f == MathFn::Pow {
            // Exponents that keep the result in range, half of the time.
            row[0] = if k % 3 == 0 { row[0] } else { row[0].abs() };
            if k % 2 == 0 && row[0] > 0.0 {
                row[1] = r.between(-1050.0, 1050.0) / row[0].log2().abs().max(1e-300)
                    * if ty == Scalar::F32 { 0.14 } else { 1.0 };
            } else if k % 7 == 0 {
                row[1] = row[1].round();
            }
        }
        if trigonometric && row[0].abs() >= 2f64.powi(50) {
            row[0] = r.between(-1e9, 1e9);
        }
        rows.push(row.into_iter().map(|v| rounded(ty, v)).collect());
    }
    rows
}

fn worst(f: MathFn, ty: Scalar, count: usize) -> (f64, Vec<f64>, f64) {
    let rows = arguments(f, ty, count);
    let columns: Vec<Vec<f64>> = (0..f.arity()).map(|c| rows.iter().map(|r| r[c]).collect()).collect();
    let got = apply(f, ty, &columns);
    let mut worst = (0.0, Vec::new(), 0.0);
    for (row, g) in rows.into_iter().zip(got) {
        let e = error_in_ulp(ty, g, reference(f, &row));
        if e > worst.0 {
            worst = (e, row, g);
        }
    }
    worst
}

#[test]
fn errors_are_as_stated() {
    let count = 20_000;
    let mut bad = Vec::new();
    for f in MathFn::ALL.into_iter().filter(|f| !f.is_exact()) {
        let row = entry(f).expect("every function has a row");
        // Against `f64` the reference itself may be off by 1, and where it sums, by more.
        let slack = match f {
            MathFn::Erf => 8.0,
            MathFn::Sigmoid => 3.0,
            MathFn::Asinh | MathFn::Acosh | MathFn::Atanh => 2.0,
            _ => 1.0,
        };
        for (ty, bound) in [(Scalar::F32, row.ulp_f32), (Scalar::F64, row.ulp_f64 + slack)] {
            let (e, args, got) = worst(f, ty, count);
            if e > bound {
                let want = reference(f, &args);
                bad.push(format!("{} on {ty} is off by {e:.2} at {args:?}: {got:e}, not {want:e}", f.name()));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn narrow_floats_go_through_f32() {
    for ty in [Scalar::F16, Scalar::Bf16] {
        for f in [MathFn::Exp, MathFn::Log, MathFn::Sin, MathFn::Tanh] {
            for x in [0.1, 0.7, 1.5, 3.25] {
                let x = rounded(ty, x);
                let e = error_in_ulp(ty, at(f, ty, &[x]), reference(f, &[x]));
                assert!(e <= 0.51, "{} on {ty} at {x}: {e}", f.name());
            }
        }
    }
}

/// Values of the error function to 30 digits, rounded.
const ERF: &[(f64, f64)] = &[
    (0.001, 0.0011283787909692365),
    (0.1, 0.1124629160182849),
    (0.5, 0.5204998778130465),
    (0.9999971, 0.8426995891344813),
    (1.0, 0.8427007929497149),
    (1.0231721108702216, 0.8520985603935123),
    (2.2409142137418847, 0.9984710467834097),
    (1e-300, 1.1283791670955126e-300),
    (0.23796462709189137, 0.26353088064784713),
    (0.5442292252959519, 0.5584962316331914),
    (0.36995516654807925, 0.39916186668189435),
    (0.6039200385961945, 0.6069348526997445),
    (0.625720304108054, 0.623790586436904),
    (0.06552885923981311, 0.07383570024510601),
    (0.013167991554874137, 0.014857628586916583),
    (0.83746908209646, 0.7637294659030408),
    (0.25935401432800764, 0.2862183382893551),
    (0.23433096104669637, 0.25965312111113326),
    (0.9956448355104628, 0.840885046578517),
    (0.47026350752244794, 0.493983424746737),
    (5.098661111244505, 0.9999999999994429),
    (3.3341307226267416, 0.9999975849440252),
    (4.131433888666393, 0.9999999948647736),
    (1.7380204777152675, 0.9860260420436868),
    (4.110817225597424, 0.9999999938846887),
    (5.253422005002155, 0.999999999999891),
    (3.563587930878177, 0.9999995336754395),
    (4.632134095387302, 0.9999999999427807),
    (4.289916229311004, 0.9999999986956298),
    (1.3137540473122868, 0.9368208728373634),
    (4.715328206805405, 0.9999999999741536),
    (3.8963879563634563, 0.999999964182762),
];

#[test]
fn erf_agrees_with_stored_values() {
    let xs: Vec<f64> = ERF.iter().map(|p| p.0).collect();
    let bound = entry(MathFn::Erf).expect("a row").ulp_f64;
    for ((x, want), got) in ERF.iter().zip(apply(MathFn::Erf, Scalar::F64, &[xs])) {
        let e = error_in_ulp(Scalar::F64, got, *want);
        assert!(e <= bound + 0.5, "erf is off by {e} at {x}");
    }
}
