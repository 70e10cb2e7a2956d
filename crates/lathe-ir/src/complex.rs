//! Complex numbers as expressions over their parts.
//!
//! A complex type is a struct of two floats ([`Type::complex`]), and its arithmetic is written out here, where trees are
//! made; so engines, steps, checker and derivatives meet nothing but floats. Special values:
//!
//! * `*` is `(a c - b d) + (a d + b c) i`, as numpy has it; Annex G of C99 recovers infinities where this gives NaN.
//! * `/` is Smith's method (R. L. Smith, *Algorithm 116: Complex division*, CACM 1962), with numpy's rule for 0.
//! * A real operand has no imaginary part (Annex G of C99), so `inf * (1 + 0i)` is `inf + NaN i` only if both are complex.
//! * `abs`, `sqrt` and `log` do not overflow on the way. `sqrt`, `log` and `arg` have their cuts along the negative real
//!   axis, and the sign of a zero imaginary part tells the side.

use crate::build::{add, aggregate, and, binary, field, float, lt, math, mul, neg, not, or, select, sub};
use crate::expr::Expr;
use crate::ops::{BinOp, MathFn};
use crate::types::{Scalar, Type};

/// A complex number by its parts, which are of one type: `f32` or `f64`.
#[derive(Clone, Debug)]
pub struct Complex {
    pub re: Expr,
    pub im: Expr,
}

/// A function of one complex number that is a complex number.
pub type Function = fn(&Complex) -> Complex;

/// Those that have names.
pub const FUNCTIONS: [(&str, Function); 13] = [
    ("conj", Complex::conj),
    ("exp", Complex::exp),
    ("log", Complex::log),
    ("sqrt", Complex::sqrt),
    ("sin", Complex::sin),
    ("cos", Complex::cos),
    ("tan", Complex::tan),
    ("sinh", Complex::sinh),
    ("cosh", Complex::cosh),
    ("tanh", Complex::tanh),
    ("square", Complex::square),
    ("reciprocal", Complex::reciprocal),
    ("sign", Complex::sign),
];

fn m1(f: MathFn, a: &Expr) -> Expr {
    math(f, vec![a.clone()])
}

fn m2(f: MathFn, a: &Expr, b: &Expr) -> Expr {
    math(f, vec![a.clone(), b.clone()])
}

fn scalar(e: &Expr) -> Scalar {
    e.ty().scalar().unwrap_or(Scalar::F64)
}

fn div(a: Expr, b: Expr) -> Expr {
    binary(BinOp::Div, a, b)
}

fn eq(a: &Expr, v: f64) -> Expr {
    binary(BinOp::Eq, a.clone(), float(scalar(a), v))
}

fn less(a: &Expr, v: f64) -> Expr {
    lt(a.clone(), float(scalar(a), v))
}

fn greater(a: &Expr, v: f64) -> Expr {
    lt(float(scalar(a), v), a.clone())
}

fn is_nan(a: &Expr) -> Expr {
    binary(BinOp::Ne, a.clone(), a.clone())
}

fn is_inf(a: &Expr) -> Expr {
    eq(&m1(MathFn::Abs, a), f64::INFINITY)
}

/// Below 0, or -0.
fn is_negative(a: &Expr) -> Expr {
    let one = float(scalar(a), 1.0);
    or(less(a, 0.0), and(eq(a, 0.0), less(&div(one, a.clone()), 0.0)))
}

/// The magnitude of `a` with the sign of `b`, for `a` that is not negative.
fn with_sign(a: Expr, b: &Expr) -> Expr {
    select(is_negative(b), neg(a.clone()), a)
}

impl Complex {
    /// The parts of a value of a complex type.
    pub fn of(e: &Expr) -> Complex {
        Complex { re: field(e.clone(), 0), im: field(e.clone(), 1) }
    }

    pub fn real(re: Expr) -> Complex {
        let im = float(scalar(&re), 0.0);
        Complex { re, im }
    }

    /// As a value of a complex type; `None` if no complex type has these parts.
    pub fn value(self) -> Option<Expr> {
        Some(aggregate(Type::complex(self.re.ty().scalar()?)?, vec![self.re, self.im]))
    }

    fn constant(&self, v: f64) -> Expr {
        float(scalar(&self.re), v)
    }

    /// By values of the part's type: `f64`, or else `f32`.
    fn by_type<T>(&self, of_f32: T, of_f64: T) -> T {
        if scalar(&self.re) == Scalar::F64 { of_f64 } else { of_f32 }
    }

    fn map(&self, f: impl Fn(&Expr) -> Expr) -> Complex {
        Complex { re: f(&self.re), im: f(&self.im) }
    }

    pub fn neg(&self) -> Complex {
        self.map(|x| neg(x.clone()))
    }

    pub fn conj(&self) -> Complex {
        Complex { re: self.re.clone(), im: neg(self.im.clone()) }
    }

    pub fn add(&self, o: &Complex) -> Complex {
        Complex { re: add(self.re.clone(), o.re.clone()), im: add(self.im.clone(), o.im.clone()) }
    }

    pub fn sub(&self, o: &Complex) -> Complex {
        Complex { re: sub(self.re.clone(), o.re.clone()), im: sub(self.im.clone(), o.im.clone()) }
    }

    pub fn mul(&self, o: &Complex) -> Complex {
        let times = |a: &Expr, b: &Expr| mul(a.clone(), b.clone());
        Complex {
            re: sub(times(&self.re, &o.re), times(&self.im, &o.im)),
            im: add(times(&self.re, &o.im), times(&self.im, &o.re)),
        }
    }

    /// Times a real number.
    pub fn scale(&self, by: &Expr) -> Complex {
        self.map(|x| mul(x.clone(), by.clone()))
    }

    /// By a real number.
    pub fn div_real(&self, by: &Expr) -> Complex {
        self.map(|x| div(x.clone(), by.clone()))
    }

    pub fn add_real(&self, r: &Expr) -> Complex {
        Complex { re: add(self.re.clone(), r.clone()), im: self.im.clone() }
    }

    pub fn sub_real(&self, r: &Expr) -> Complex {
        Complex { re: sub(self.re.clone(), r.clone()), im: self.im.clone() }
    }

    pub fn div(&self, o: &Complex) -> Complex {
        let (c, d) = (&o.re, &o.im);
        let first = not(lt(m1(MathFn::Abs, c), m1(MathFn::Abs, d)));
        // The part of larger magnitude, and the other one.
        let (p, q) =
            (select(first.clone(), c.clone(), d.clone()), select(first.clone(), d.clone(), c.clone()));
        let (a, b) = (
            select(first.clone(), self.re.clone(), self.im.clone()),
            select(first.clone(), self.im.clone(), self.re.clone()),
        );
        let zero = and(eq(&p, 0.0), eq(&q, 0.0));
        let ratio = div(q.clone(), p.clone());
        let scale = div(self.constant(1.0), add(p.clone(), mul(q, ratio.clone())));
        let re = mul(add(a.clone(), mul(b.clone(), ratio.clone())), scale.clone());
        let im = mul(sub(b, mul(a, ratio)), scale);
        let im = select(first, im.clone(), neg(im));
        // Both parts are 0: infinities, or NaN.
        let by = m1(MathFn::Abs, &p);
        Complex {
            re: select(zero.clone(), div(self.re.clone(), by.clone()), re),
            im: select(zero, div(self.im.clone(), by), im),
        }
    }

    pub fn equal(&self, o: &Complex) -> Expr {
        let same = |a: &Expr, b: &Expr| binary(BinOp::Eq, a.clone(), b.clone());
        and(same(&self.re, &o.re), same(&self.im, &o.im))
    }

    /// The magnitude.
    pub fn abs(&self) -> Expr {
        m2(MathFn::Hypot, &self.re, &self.im)
    }

    /// The angle, in -π..=π.
    pub fn arg(&self) -> Expr {
        m2(MathFn::Atan2, &self.im, &self.re)
    }

    pub fn square(&self) -> Complex {
        self.mul(self)
    }

    pub fn reciprocal(&self) -> Complex {
        Complex::real(self.constant(1.0)).div(self)
    }

    /// `z / abs(z)`, and 0 of 0.
    pub fn sign(&self) -> Complex {
        let by = self.abs();
        let zero = eq(&by, 0.0);
        self.map(|x| select(zero.clone(), self.constant(0.0), div(x.clone(), by.clone())))
    }

    pub fn is_nan(&self) -> Expr {
        or(is_nan(&self.re), is_nan(&self.im))
    }

    pub fn is_inf(&self) -> Expr {
        or(is_inf(&self.re), is_inf(&self.im))
    }

    pub fn is_finite(&self) -> Expr {
        let finite = |x: &Expr| less(&m1(MathFn::Abs, x), f64::INFINITY);
        and(finite(&self.re), finite(&self.im))
    }

    /// `exp(re) (cos im + i sin im)`. Where `exp(re)` overflows and the result need not, it is scaled; `re - shift` is
    /// exact there.
    pub fn exp(&self) -> Complex {
        let shift = self.by_type(80.0, 700.0);
        let large = greater(&self.re, shift);
        let from = select(large.clone(), sub(self.re.clone(), self.constant(shift)), self.re.clone());
        let e = m1(MathFn::Exp, &from);
        let scale = select(large, self.constant(f64::exp(shift)), self.constant(1.0));
        let part = |x: Expr| mul(mul(e.clone(), x), scale.clone());
        let (re, im) = (part(m1(MathFn::Cos, &self.im)), part(m1(MathFn::Sin, &self.im)));
        // exp(-inf) is 0 in any direction, and of an infinity without direction the imaginary part is unknown.
        let low = and(eq(&self.re, f64::NEG_INFINITY), not(less(&m1(MathFn::Abs, &self.im), f64::INFINITY)));
        let high = and(eq(&self.re, f64::INFINITY), not(less(&m1(MathFn::Abs, &self.im), f64::INFINITY)));
        let real = eq(&self.im, 0.0);
        let zero = self.constant(0.0);
        let re = select(high, self.constant(f64::INFINITY), select(real.clone(), mul(e, scale), re));
        Complex {
            re: select(low.clone(), zero.clone(), re),
            im: select(low, zero, select(real, self.im.clone(), im)),
        }
    }

    /// `log(abs z) + i arg z`; near magnitude 1 by `log1p`, and scaled where `abs` would overflow or be inexact.
    pub fn log(&self) -> Complex {
        let (x, y) = (m1(MathFn::Abs, &self.re), m1(MathFn::Abs, &self.im));
        let above = lt(x.clone(), y.clone());
        let (most, least) = (select(above.clone(), y.clone(), x.clone()), select(above, x, y));
        let (limit, tiny, up) =
            self.by_type((1.5e38, 1.2e-38, 2f64.powi(60)), (8.9e307, 2.3e-308, 2f64.powi(200)));
        let (big, small) = (greater(&most, limit), less(&most, tiny));
        let factor = select(
            big.clone(),
            self.constant(0.5),
            select(small.clone(), self.constant(up), self.constant(1.0)),
        );
        let scaled = m2(MathFn::Hypot, &mul(most.clone(), factor.clone()), &mul(least.clone(), factor));
        let back = select(
            big,
            self.constant(std::f64::consts::LN_2),
            select(small, self.constant(-up.ln()), self.constant(0.0)),
        );
        let one = self.constant(1.0);
        let near = and(greater(&scaled, 0.71), less(&scaled, 1.73));
        let off = math(
            MathFn::Fma,
            vec![sub(most.clone(), one.clone()), add(most, one), mul(least.clone(), least)],
        );
        let close = mul(m1(MathFn::Log1p, &off), self.constant(0.5));
        Complex { re: select(near, close, add(m1(MathFn::Log, &scaled), back)), im: self.arg() }
    }

    /// The root with a real part of at least 0, as FreeBSD's `csqrt` finds it: the real part from the sum that does not
    /// cancel, the other by division; scaled where the sum would overflow.
    pub fn sqrt(&self) -> Complex {
        let (a, b) = (&self.re, &self.im);
        let limit = self.by_type(1.4e38, 7.4e307);
        let huge = |x: &Expr| greater(&m1(MathFn::Abs, x), limit);
        let tiny = self.by_type(1e-36, 1e-300);
        let small = |x: &Expr| less(&m1(MathFn::Abs, x), tiny);
        let (scaled, raised) = (or(huge(a), huge(b)), and(small(a), small(b)));
        let (up, back) = self.by_type((2f64.powi(60), 2f64.powi(-30)), (2f64.powi(200), 2f64.powi(-100)));
        let by = |down: f64, up: f64, one: f64| {
            let rest = select(raised.clone(), self.constant(up), self.constant(one));
            select(scaled.clone(), self.constant(down), rest)
        };
        let (factor, after) = (by(0.25, up, 1.0), by(2.0, back, 1.0));
        let (x, y) = (mul(a.clone(), factor.clone()), mul(b.clone(), factor));
        let size = m2(MathFn::Hypot, &x, &y);
        let half = self.constant(0.5);
        let t = m1(MathFn::Sqrt, &mul(add(m1(MathFn::Abs, &x), size), half));
        let other = div(m1(MathFn::Abs, &y), mul(self.constant(2.0), t.clone()));
        let left = less(a, 0.0);
        let re = mul(select(left.clone(), other.clone(), t.clone()), after.clone());
        let im = with_sign(mul(select(left, t, other), after), b);
        // Zero keeps its imaginary part; infinities have directions of their own.
        let (zero, inf) = (self.constant(0.0), self.constant(f64::INFINITY));
        let nothing = and(eq(a, 0.0), eq(b, 0.0));
        let nan = mul(b.clone(), zero.clone());
        let minus = eq(a, f64::NEG_INFINITY);
        let plus = eq(a, f64::INFINITY);
        let finite_re = select(plus.clone(), inf.clone(), select(minus.clone(), m1(MathFn::Abs, &nan), re));
        let still = select(is_nan(b), b.clone(), with_sign(zero.clone(), b));
        let finite_im = select(plus, still, select(minus, with_sign(inf.clone(), b), im));
        Complex {
            re: select(is_inf(b), inf, select(nothing.clone(), zero, finite_re)),
            im: select(or(is_inf(b), nothing), b.clone(), finite_im),
        }
    }

    /// `sinh(a + bi) = sinh a cos b + i cosh a sin b`; a part that is 0 stays 0 beside an infinity.
    pub fn sinh(&self) -> Complex {
        let (a, b) = (&self.re, &self.im);
        let re = mul(m1(MathFn::Sinh, a), m1(MathFn::Cos, b));
        let im = mul(m1(MathFn::Cosh, a), m1(MathFn::Sin, b));
        Complex { re: select(eq(a, 0.0), a.clone(), re), im: select(eq(b, 0.0), b.clone(), im) }
    }

    /// `cosh(a + bi) = cosh a cos b + i sinh a sin b`
    pub fn cosh(&self) -> Complex {
        let (a, b) = (&self.re, &self.im);
        let re = mul(m1(MathFn::Cosh, a), m1(MathFn::Cos, b));
        let im = mul(m1(MathFn::Sinh, a), m1(MathFn::Sin, b));
        let none = or(eq(a, 0.0), eq(b, 0.0));
        let zero = select(
            binary(BinOp::Xor, is_negative(a), is_negative(b)),
            self.constant(-0.0),
            self.constant(0.0),
        );
        Complex { re, im: select(none, zero, im) }
    }

    /// By W. Kahan, *Branch cuts for complex elementary functions* (1987); beyond ±22 (±11) the real part is 1.
    pub fn tanh(&self) -> Complex {
        let (a, b) = (&self.re, &self.im);
        let far = greater(&m1(MathFn::Abs, a), self.by_type(11.0, 22.0));
        let one = self.constant(1.0);
        let (t, s) = (m1(MathFn::Tan, b), m1(MathFn::Sinh, a));
        let beta = add(one.clone(), mul(t.clone(), t.clone()));
        let square = mul(s.clone(), s.clone());
        let rho = m1(MathFn::Sqrt, &add(one.clone(), square.clone()));
        let below = add(one.clone(), mul(beta.clone(), square));
        let near = Complex { re: div(mul(mul(beta, rho), s), below.clone()), im: div(t, below) };
        let fade = m1(MathFn::Exp, &mul(self.constant(-2.0), m1(MathFn::Abs, a)));
        let turn = mul(m1(MathFn::Sin, b), m1(MathFn::Cos, b));
        let beyond = mul(mul(self.constant(4.0), turn), fade);
        let beyond = select(is_inf(b), self.constant(0.0), beyond);
        Complex {
            re: select(far.clone(), with_sign(one, a), near.re),
            im: select(far, select(eq(b, 0.0), b.clone(), beyond), near.im),
        }
    }

    /// `i z`
    fn turned(&self) -> Complex {
        Complex { re: neg(self.im.clone()), im: self.re.clone() }
    }

    /// `-i z`
    fn turned_back(&self) -> Complex {
        Complex { re: self.im.clone(), im: neg(self.re.clone()) }
    }

    pub fn sin(&self) -> Complex {
        self.turned().sinh().turned_back()
    }

    pub fn cos(&self) -> Complex {
        self.turned().cosh()
    }

    pub fn tan(&self) -> Complex {
        self.turned().tanh().turned_back()
    }

    /// A power with a whole exponent, by squaring.
    pub fn powi(&self, n: i64) -> Complex {
        let mut left = n.unsigned_abs();
        let (mut square, mut product) = (self.clone(), None::<Complex>);
        while left > 0 {
            if left & 1 == 1 {
                product = Some(product.map_or_else(|| square.clone(), |p| p.mul(&square)));
            }
            left >>= 1;
            if left > 0 {
                square = square.square();
            }
        }
        match product {
            None => Complex::real(self.constant(1.0)),
            Some(p) if n < 0 => p.reciprocal(),
            Some(p) => p,
        }
    }

    /// `exp(w log z)`; 1 for `w = 0`, and of 0 it is 0 where the real part of `w` is positive, else NaN.
    pub fn pow(&self, w: &Complex) -> Complex {
        let one = and(eq(&w.re, 0.0), eq(&w.im, 0.0));
        let zero = and(eq(&self.re, 0.0), eq(&self.im, 0.0));
        let positive = greater(&w.re, 0.0);
        let general = w.mul(&self.log()).exp();
        let at_zero = select(positive, self.constant(0.0), self.constant(f64::NAN));
        let part = |of: Expr, at_one: f64| {
            select(one.clone(), self.constant(at_one), select(zero.clone(), at_zero.clone(), of))
        };
        Complex { re: part(general.re, 1.0), im: part(general.im, 0.0) }
    }
}

/// A function by its name.
pub fn function(name: &str) -> Option<Function> {
    FUNCTIONS.iter().find(|f| f.0 == name).map(|f| f.1)
}
