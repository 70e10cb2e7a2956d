//! Floats with a bound on the difference between two evaluations: running error analysis (Higham, Accuracy
//! and Stability of Numerical Algorithms, sections 3.3 and 4.2).
//!
//! An evaluation is what the program says, or the same with sums in another order, products added with one rounding,
//! or equations of the author applied. Every one of them is within `error` of `value`; where nothing of that kind was
//! done to a number and to what it is made of, it is the `same` in all.

use lathe_ir::{BinOp, MathFn, Scalar, UnOp, scalar};

/// A float, and how far any evaluation may be from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Approx {
    /// Of the type that it has in the program where it is exact; else in the middle of what evaluations give.
    pub value: f64,
    pub error: f64,
    /// Every evaluation gives the same bits.
    pub same: bool,
}

/// What rounding to a type costs.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    ty: Scalar,
    /// Half the distance of 1 from the next number.
    pub unit: f64,
    /// The smallest number above 0.
    tiny: f64,
    pub largest: f64,
}

/// Math functions that are not exact are computed from expansions, which are this many units off at most.
const EXPANSION: f64 = 8.0;

impl Format {
    /// `None` for what is not a float.
    pub fn of(ty: Scalar) -> Option<Format> {
        let (digits, least, most) = match ty {
            Scalar::F16 => (11, -24, 16),
            Scalar::Bf16 => (8, -133, 128),
            Scalar::F32 => (24, -149, 128),
            Scalar::F64 => (53, -1074, 1024),
            _ => return None,
        };
        let unit = 2f64.powi(-digits);
        let largest = (2.0 - 2.0 * unit) * 2f64.powi(most - 1);
        Some(Format { ty, unit, tiny: f64::from_bits(1).max(2f64.powi(least)), largest })
    }

    /// The nearest number of the type.
    pub fn round(&self, v: f64) -> f64 {
        scalar::to_f64(self.ty, scalar::of_f64(self.ty, v))
    }

    /// The result of an operation that rounds: its value before, and what its operands' errors make of it.
    fn rounded(&self, value: f64, propagated: f64, same: bool) -> Approx {
        if !value.is_finite() || propagated.is_nan() {
            // Infinite in every evaluation if its operands are exact.
            let error = if propagated == 0.0 { 0.0 } else { f64::INFINITY };
            return Approx { value, error, same };
        }
        let error =
            propagated + self.unit * (value.abs() + propagated) + self.tiny + f64::EPSILON * value.abs();
        let overflows = value.abs() + error > self.largest;
        Approx { value, error: if overflows { f64::INFINITY } else { error }, same }
    }
}

/// A factor times an error; an exact operand costs nothing, whatever the factor.
fn times(factor: f64, error: f64) -> f64 {
    if error == 0.0 { 0.0 } else { factor.abs() * error }
}

impl Approx {
    /// An exact number.
    pub fn exact(value: f64) -> Approx {
        Approx { value, error: 0.0, same: true }
    }

    /// An unknown number.
    pub fn unknown() -> Approx {
        Approx { value: 0.0, error: f64::INFINITY, same: false }
    }

    fn is_exact(&self) -> bool {
        self.same && self.error == 0.0
    }

    /// Whether two evaluations may differ as much as these two values do.
    pub fn admits(&self, a: f64, b: f64) -> bool {
        if a == b || (a.is_nan() && b.is_nan()) {
            return true;
        }
        // Each of them is within the error of the value.
        !self.same && (a - b).abs() <= 2.0 * self.error
    }

    /// The smallest and the largest value that it may have.
    fn ends(&self) -> (f64, f64) {
        (self.value - self.error, self.value + self.error)
    }

    /// Either of two numbers.
    pub fn either(a: Approx, b: Approx) -> Approx {
        let apart = if a.value == b.value { 0.0 } else { (a.value - b.value).abs() };
        Approx { value: a.value, error: a.error.max(apart + b.error), same: false }
    }
}

/// An operation on floats of a type; `None` for one that floats do not have. `inexact`: other evaluations may round
/// it differently.
pub fn binary(op: BinOp, ty: Scalar, a: Approx, b: Approx, inexact: bool) -> Option<Approx> {
    let f = Format::of(ty)?;
    let same = a.same && b.same;
    if matches!(op, BinOp::Min | BinOp::Max) {
        let bits = scalar::binary(op, ty, scalar::of_f64(ty, a.value), scalar::of_f64(ty, b.value)).ok()?;
        return Some(Approx { value: scalar::to_f64(ty, bits), error: a.error.max(b.error), same });
    }
    if a.is_exact() && b.is_exact() && !inexact {
        let bits = scalar::binary(op, ty, scalar::of_f64(ty, a.value), scalar::of_f64(ty, b.value)).ok()?;
        return Some(Approx::exact(scalar::to_f64(ty, bits)));
    }
    let same = same && !inexact;
    let (x, y) = (a.value, b.value);
    Some(match op {
        BinOp::Add => f.rounded(x + y, a.error + b.error, same),
        BinOp::Sub => f.rounded(x - y, a.error + b.error, same),
        BinOp::Mul => f.rounded(x * y, times(x, b.error) + times(y, a.error) + times(a.error, b.error), same),
        BinOp::Div if b.error == 0.0 => {
            let error = if a.error == 0.0 { 0.0 } else { a.error / y.abs() };
            f.rounded(x / y, error, same)
        }
        BinOp::Div if b.error < y.abs() => {
            f.rounded(x / y, (a.error + (x / y).abs() * b.error) / (y.abs() - b.error), same)
        }
        BinOp::Div => Approx { value: x / y, error: f64::INFINITY, same },
        _ => return None,
    })
}

/// What a comparison of floats gives in every evaluation; `None` where rounding decides.
pub fn compare(op: BinOp, a: Approx, b: Approx) -> Option<bool> {
    let exact = a.error == 0.0 && b.error == 0.0;
    let ((la, ha), (lb, hb)) = (a.ends(), b.ends());
    if !(exact || ha < lb || hb < la) {
        return None;
    }
    let (x, y) = (a.value, b.value);
    Some(match op {
        BinOp::Eq => x == y,
        BinOp::Ne => x != y,
        BinOp::Lt => x < y,
        BinOp::Le => x <= y,
        BinOp::Gt => x > y,
        BinOp::Ge => x >= y,
        _ => return None,
    })
}

/// Negation.
pub fn unary(op: UnOp, a: Approx) -> Option<Approx> {
    (op == UnOp::Neg).then_some(Approx { value: -a.value, ..a })
}

/// `a * b + c`, with one rounding.
pub fn fma(ty: Scalar, a: Approx, b: Approx, c: Approx, inexact: bool) -> Option<Approx> {
    let f = Format::of(ty)?;
    if a.is_exact() && b.is_exact() && c.is_exact() && !inexact {
        let bits = |v: Approx| scalar::of_f64(ty, v.value);
        return Some(Approx::exact(scalar::to_f64(ty, scalar::fma(ty, bits(a), bits(b), bits(c)))));
    }
    let (x, y) = (a.value, b.value);
    let product = times(x, b.error) + times(y, a.error) + times(a.error, b.error);
    Some(f.rounded(x.mul_add(y, c.value), product + c.error, a.same && b.same && c.same && !inexact))
}

/// A math function of one argument, or of two.
pub fn math(fun: MathFn, ty: Scalar, args: &[Approx], inexact: bool) -> Option<Approx> {
    let f = Format::of(ty)?;
    let a = *args.first()?;
    let (x, e) = (a.value, a.error);
    let all_same = args.iter().all(|a| a.same);
    if fun.is_exact() && args.len() == 1 && a.is_exact() && !(inexact && fun == MathFn::Sqrt) {
        let bits = scalar::exact_math(fun, ty, scalar::of_f64(ty, x)).ok()?;
        return Some(Approx::exact(scalar::to_f64(ty, bits)));
    }
    let steps = |g: fn(f64) -> f64| {
        let (lo, hi) = a.ends();
        let error = if g(lo) == g(hi) { 0.0 } else { e + 1.0 };
        Approx { value: g(x), error, same: a.same }
    };
    let same = all_same && !inexact;
    let grown = |value: f64, log: f64| if log == 0.0 { 0.0 } else { value.abs() * log.exp_m1() };
    let (value, propagated) = match fun {
        MathFn::Abs => return Some(Approx { value: x.abs(), error: e, same: a.same }),
        MathFn::Floor => return Some(steps(f64::floor)),
        MathFn::Ceil => return Some(steps(f64::ceil)),
        MathFn::Round => return Some(steps(f64::round_ties_even)),
        MathFn::Trunc => return Some(steps(f64::trunc)),
        MathFn::Fma => return fma(ty, a, *args.get(1)?, *args.get(2)?, inexact),
        MathFn::Sqrt => {
            let error = match e {
                0.0 => 0.0,
                e if e < x => e / (2.0 * (x - e).sqrt()),
                e => (x.abs() + e).sqrt(),
            };
            return Some(f.rounded(x.max(0.0).sqrt(), error, same));
        }
        MathFn::Exp => (x.exp(), grown(x.exp(), e)),
        MathFn::Exp2 => (x.exp2(), grown(x.exp2(), e * std::f64::consts::LN_2)),
        MathFn::Log => (x.ln(), relative(x, e)),
        MathFn::Log2 => (x.log2(), relative(x, e) / std::f64::consts::LN_2),
        MathFn::Expm1 => (x.exp_m1(), grown(x.exp(), e)),
        MathFn::Log1p => (x.ln_1p(), relative(1.0 + x, e)),
        MathFn::Log10 => (x.log10(), relative(x, e) / std::f64::consts::LN_10),
        MathFn::Sinh => (x.sinh(), times((x.abs() + e).cosh(), e)),
        MathFn::Cosh => (x.cosh(), times((x.abs() + e).sinh(), e)),
        MathFn::Asin => (x.asin(), steepest(1.0 - (x.abs() + e).powi(2), e, f64::sqrt)),
        MathFn::Acos => (x.acos(), steepest(1.0 - (x.abs() + e).powi(2), e, f64::sqrt)),
        MathFn::Asinh => (x.asinh(), e),
        MathFn::Acosh => (x.acosh(), steepest((x - e).powi(2) - 1.0, e, f64::sqrt)),
        MathFn::Atanh => (x.atanh(), steepest(1.0 - (x.abs() + e).powi(2), e, |v| v)),
        MathFn::Hypot => {
            let b = *args.get(1)?;
            (x.hypot(b.value), e + b.error)
        }
        MathFn::Sin => (x.sin(), e),
        MathFn::Cos => (x.cos(), e),
        MathFn::Tan => {
            // Between two poles it is steepest at one of the ends.
            let branch = |v: f64| (v / std::f64::consts::PI + 0.5).floor();
            let steep = (x - e).tan().abs().max((x + e).tan().abs());
            let pole = e > 0.0 && (branch(x - e) != branch(x + e) || steep > 1e6);
            (x.tan(), if pole { f64::INFINITY } else { times(1.0 + steep * steep, e) })
        }
        MathFn::Tanh => (x.tanh(), e),
        MathFn::Sigmoid => (1.0 / (1.0 + (-x).exp()), e / 4.0),
        MathFn::Erf => (erf(x), e * std::f64::consts::FRAC_2_SQRT_PI),
        MathFn::Atan => (x.atan(), e),
        MathFn::Pow => {
            let b = *args.get(1)?;
            let value = x.powf(b.value);
            let log = times(b.value, relative(x, e)) + times(x.abs().ln().abs() + relative(x, e), b.error);
            (value, if x <= 0.0 && e + b.error > 0.0 { f64::INFINITY } else { grown(value, log) })
        }
        MathFn::Atan2 => {
            let b = *args.get(1)?;
            let (both, far) = (e + b.error, x.hypot(b.value));
            let cut = b.value <= b.error && x.abs() <= e;
            let error = match both {
                0.0 => 0.0,
                _ if cut || both >= far => f64::INFINITY,
                _ => both / (far - both),
            };
            (x.atan2(b.value), error)
        }
    };
    let r = f.rounded(value, propagated, same);
    // What the expansion gives is near the function, and nearer than that is not known here.
    let slack = if value.is_finite() { EXPANSION * f.unit * value.abs().max(f.tiny) } else { 0.0 };
    Some(Approx { error: r.error + slack, ..r })
}

/// An error over the least that the reciprocal of the derivative is between the ends; at the edge of the function's
/// domain nothing is known.
fn steepest(least: f64, e: f64, of: fn(f64) -> f64) -> f64 {
    match e {
        0.0 => 0.0,
        e if least > 0.0 => e / of(least),
        _ => f64::INFINITY,
    }
}

/// `e / (x - e)`: how far the logarithm moves.
fn relative(x: f64, e: f64) -> f64 {
    match e {
        0.0 => 0.0,
        e if e < x.abs() => e / (x.abs() - e),
        _ => f64::INFINITY,
    }
}

/// The error function (Abramowitz and Stegun): the series 7.1.5 near 0, elsewhere the continued fraction 7.1.14.
fn erf(x: f64) -> f64 {
    if x.abs() < 2.5 {
        let (mut sum, mut term) = (x, x);
        for n in 1..80 {
            term *= -x * x / n as f64;
            sum += term / (2 * n + 1) as f64;
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    let a = x.abs();
    let mut fraction = 0.0;
    for n in (1..60).rev() {
        fraction = n as f64 / 2.0 / (a + fraction);
    }
    let complement = (-a * a).exp() / ((a + fraction) * std::f64::consts::PI.sqrt());
    (1.0 - complement).copysign(x)
}

/// A conversion to another type of floats.
pub fn to_float(from: Scalar, to: Scalar, a: Approx) -> Option<Approx> {
    let (f, g) = (Format::of(from)?, Format::of(to)?);
    if a.is_exact() || f.unit >= g.unit && f.largest <= g.largest {
        let value = if a.is_exact() { g.round(a.value) } else { a.value };
        return Some(Approx { value, ..a });
    }
    Some(g.rounded(a.value, a.error, a.same))
}

/// Terms that are combined in an order that is not known.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    product: bool,
    value: f64,
    /// Errors of the terms.
    error: f64,
    /// Sum of the terms' magnitudes with their errors; for products their product.
    size: f64,
    /// Products of what is above 1, and of what is below.
    range: (f64, f64),
    /// Terms that change the result.
    n: f64,
    same: bool,
}

impl Terms {
    pub fn sum() -> Terms {
        Terms { product: false, value: 0.0, error: 0.0, size: 0.0, range: (1.0, 1.0), n: 0.0, same: true }
    }

    pub fn product() -> Terms {
        Terms { product: true, value: 1.0, size: 1.0, ..Terms::sum() }
    }

    pub fn is_product(&self) -> bool {
        self.product
    }

    pub fn add(&mut self, t: Approx) {
        let size = t.value.abs() + t.error;
        self.same &= t.same;
        if self.product {
            self.value *= t.value;
            self.size *= size;
            self.range.0 *= size.max(1.0);
            self.range.1 *= t.value.abs().min(1.0);
            self.error += t.error;
            self.n += f64::from(u8::from(size != 1.0));
        } else {
            self.value += t.value;
            self.size += size;
            self.error += t.error;
            self.n += f64::from(u8::from(size != 0.0));
        }
    }

    /// The result in any order, with intermediate results of a type.
    pub fn result(&self, ty: Scalar) -> Option<Approx> {
        let f = Format::of(ty)?;
        let value = self.value;
        // One term is not rounded, and infinite terms have the same sum in every order.
        if self.n <= 1.0 || (!self.value.is_finite() && self.error == 0.0) {
            return Some(Approx { value, error: self.error, same: self.same });
        }
        // (1 + u)^n - 1, which is below n u / (1 - n u) and never negative.
        let grown = (self.n * f.unit).exp_m1();
        let error = if self.product {
            let flushed = self.range.1 < f.tiny / f.unit && self.value != 0.0;
            let all = self.size * (1.0 + grown) - self.value.abs();
            if flushed { self.size * (2.0 + grown) } else { all.max(0.0) }
        } else {
            self.error + grown * self.size + self.n * f.tiny
        };
        // The value itself is a sum of floats, of the largest type.
        let error = error + self.n * f64::EPSILON * self.size;
        let largest = if self.product { self.range.0 * (1.0 + grown) } else { self.size * (1.0 + grown) };
        let error = if largest > f.largest || error.is_nan() { f64::INFINITY } else { error };
        Some(Approx { value, error, same: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_runtime::fill::Random;

    const FLOATS: [Scalar; 4] = [Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::F64];

    #[test]
    fn formats_are_those_of_the_types() {
        for ty in FLOATS {
            let f = Format::of(ty).unwrap();
            assert_eq!(f.round(f.largest), f.largest, "{ty}");
            let beyond = f.largest * (1.0 + 2.0 * f.unit);
            assert_eq!(f.round(beyond), f64::INFINITY, "{ty}");
            assert_eq!((f.round(f.tiny), f.round(f.tiny / 2.0)), (f.tiny, 0.0), "{ty}");
            assert_eq!(
                (f.round(1.0 + 2.0 * f.unit), f.round(1.0 + f.unit)),
                (1.0 + 2.0 * f.unit, 1.0),
                "{ty}"
            );
        }
    }

    /// A random number of a type: of every magnitude.
    fn draw(r: &mut Random, ty: Scalar) -> f64 {
        let v = r.unit() * 2f64.powi(r.below(24) as i32 - 12);
        Format::of(ty).unwrap().round(v)
    }

    /// Sums and products of random terms in random orders, rounded at every step, stay within the bound.
    #[test]
    fn every_order_is_within_the_bound() {
        let mut r = Random::new(5);
        for case in 0..4000 {
            let ty = FLOATS[case % 4];
            let product = case % 3 == 0;
            let n = 1 + r.below(if product { 6 } else { 300 }) as usize;
            let op = if product { BinOp::Mul } else { BinOp::Add };
            let mut terms: Vec<f64> = (0..n).map(|_| draw(&mut r, ty)).collect();
            let mut all = if product { Terms::product() } else { Terms::sum() };
            terms.iter().for_each(|t| all.add(Approx::exact(*t)));
            let bound = all.result(ty).unwrap();
            let mut results = Vec::new();
            for _ in 0..4 {
                // Pairs from random places, as a tree of any shape.
                let mut left = terms.clone();
                while left.len() > 1 {
                    let a = left.swap_remove(r.below(left.len() as u64) as usize);
                    let b = left.swap_remove(r.below(left.len() as u64) as usize);
                    let bits = scalar::binary(op, ty, scalar::of_f64(ty, a), scalar::of_f64(ty, b)).unwrap();
                    left.push(scalar::to_f64(ty, bits));
                }
                results.push(left[0]);
                terms.reverse();
            }
            for a in &results {
                assert!(results.iter().all(|b| bound.admits(*a, *b)), "{ty} {bound:?} {results:?}");
                assert!(
                    (a - bound.value).abs() <= bound.error || !a.is_finite() || n == 1,
                    "{ty} {bound:?} {a}"
                );
            }
        }
    }

    /// The bound is of use: for sums of positive numbers it is a few units per term.
    #[test]
    fn bounds_are_no_larger_than_they_must_be() {
        let mut all = Terms::sum();
        (0..1000).for_each(|_| all.add(Approx::exact(1.0 / 3.0)));
        let r = all.result(Scalar::F32).unwrap();
        assert!(r.error < 1100.0 * 2f64.powi(-24) * 334.0, "{r:?}");
        // One huge term does not hide what happens elsewhere.
        let mut big = Terms::sum();
        big.add(Approx::exact(1e30));
        assert_eq!(big.result(Scalar::F32).unwrap().error, 0.0);
    }

    /// Operations on numbers that are off by up to their error give numbers that are off by up to theirs.
    #[test]
    fn errors_propagate() {
        let mut r = Random::new(9);
        let ops = [BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::Div, BinOp::Min, BinOp::Max];
        let funs = [
            MathFn::Exp,
            MathFn::Exp2,
            MathFn::Log,
            MathFn::Log2,
            MathFn::Sin,
            MathFn::Cos,
            MathFn::Tan,
            MathFn::Tanh,
            MathFn::Sigmoid,
            MathFn::Erf,
            MathFn::Pow,
            MathFn::Atan,
            MathFn::Atan2,
            MathFn::Sqrt,
            MathFn::Floor,
            MathFn::Abs,
            MathFn::Trunc,
            MathFn::Expm1,
            MathFn::Log1p,
            MathFn::Log10,
            MathFn::Sinh,
            MathFn::Cosh,
            MathFn::Asin,
            MathFn::Acos,
            MathFn::Asinh,
            MathFn::Acosh,
            MathFn::Atanh,
            MathFn::Hypot,
        ];
        for case in 0..20_000 {
            let ty = FLOATS[case % 4];
            let f = Format::of(ty).unwrap();
            let some = |r: &mut Random| {
                let v = f.round(8.0 * draw(r, ty));
                let error = v.abs() * f.unit * (r.unit() + 1.0) * 4.0;
                // Another evaluation of it.
                let other = f.round(v + error * r.unit());
                (Approx { value: v, error: error.max((other - v).abs()), same: false }, other)
            };
            let ((a, x), (b, y)) = (some(&mut r), some(&mut r));
            let (bits, back) = (|v| scalar::of_f64(ty, v), |b| scalar::to_f64(ty, b));
            let op = ops[case % ops.len()];
            let got = binary(op, ty, a, b, true).unwrap();
            let other = back(scalar::binary(op, ty, bits(x), bits(y)).unwrap());
            assert!(
                (other - got.value).abs() <= got.error || other == got.value,
                "{op:?} {ty} {a:?} {b:?} {other} {got:?}"
            );
            let fun = funs[case % funs.len()];
            let (got, other) = match fun.arity() {
                2 => (math(fun, ty, &[a, b], true), reference(fun, x, y)),
                _ => (math(fun, ty, &[a], true), reference(fun, x, 0.0)),
            };
            let (got, other) = (got.unwrap(), f.round(other));
            let fine = (other - got.value).abs() <= got.error
                || other == got.value
                || other.is_nan()
                || got.error.is_infinite();
            assert!(fine, "{fun:?} {ty} {a:?} {b:?} {x} {y}: {other} {got:?}");
        }
    }

    fn reference(f: MathFn, x: f64, y: f64) -> f64 {
        match f {
            MathFn::Exp => x.exp(),
            MathFn::Exp2 => x.exp2(),
            MathFn::Log => x.ln(),
            MathFn::Log2 => x.log2(),
            MathFn::Sin => x.sin(),
            MathFn::Cos => x.cos(),
            MathFn::Tan => x.tan(),
            MathFn::Tanh => x.tanh(),
            MathFn::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            MathFn::Erf => erf(x),
            MathFn::Pow => x.powf(y),
            MathFn::Atan => x.atan(),
            MathFn::Atan2 => x.atan2(y),
            MathFn::Sqrt => x.sqrt(),
            MathFn::Floor => x.floor(),
            MathFn::Trunc => x.trunc(),
            MathFn::Expm1 => x.exp_m1(),
            MathFn::Log1p => x.ln_1p(),
            MathFn::Log10 => x.log10(),
            MathFn::Sinh => x.sinh(),
            MathFn::Cosh => x.cosh(),
            MathFn::Asin => x.asin(),
            MathFn::Acos => x.acos(),
            MathFn::Asinh => x.asinh(),
            MathFn::Acosh => x.acosh(),
            MathFn::Atanh => x.atanh(),
            MathFn::Hypot => x.hypot(y),
            _ => x.abs(),
        }
    }

    #[test]
    fn comparisons_that_rounding_decides_are_not_decided() {
        let (a, b) = (Approx { value: 1.0, error: 0.1, same: false }, Approx::exact(1.05));
        assert_eq!(compare(BinOp::Lt, a, b), None);
        assert_eq!(compare(BinOp::Lt, a, Approx::exact(1.2)), Some(true));
        assert_eq!(compare(BinOp::Eq, b, b), Some(true));
        assert!((erf(0.5) - 0.520_499_877_813_046_5).abs() < 1e-15);
        assert!((erf(3.0) - 0.999_977_909_503_001_4).abs() < 1e-15);
    }
}
