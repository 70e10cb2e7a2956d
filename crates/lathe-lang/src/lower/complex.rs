//! Complex numbers in expressions: arithmetic and functions become expressions over the parts (`lathe_ir::complex`), so
//! that nothing after this knows of them but the types of arrays.

use super::expr::Val;
use super::scope::Cx;
use crate::ast::{self, BinOp as B};
use crate::codes;
use lathe_diagnostics::Span;
use lathe_ir::complex::{self, Complex};
use lathe_ir::{Expr, MathFn, Scalar, Type, build};

/// Functions that there are for complex numbers besides those of the parts' types.
const PARTS: [&str; 5] = ["conj", "real", "imag", "arg", "angle"];

/// Whole exponents up to here are written out as products.
const MOST_FACTORS: i64 = 64;

/// An operand: real ones have no imaginary part.
enum Operand {
    Real(Expr),
    Complex(Complex),
}

impl Val {
    /// Whether it is a complex number, or the literal of one.
    pub fn is_complex(&self) -> bool {
        match self {
            Val::Imaginary(_) => true,
            Val::Expr(e) => e.ty().complex_part().is_some(),
            Val::Int(_) | Val::Large(_) | Val::Float(_) => false,
        }
    }

    /// A literal as a number of a complex type; `None` if it is no literal.
    pub fn literal(&self, part: Scalar) -> Option<Complex> {
        let of = |re: f64, im: f64| Some(Complex { re: build::float(part, re), im: build::float(part, im) });
        match self {
            Val::Int(v) => of(*v as f64, 0.0),
            Val::Large(v) => of(*v as f64, 0.0),
            Val::Float(v) => of(*v, 0.0),
            Val::Imaginary(v) => of(0.0, *v),
            Val::Expr(_) => None,
        }
    }

    /// The type of its parts, if it has one.
    fn part(&self) -> Option<Scalar> {
        match self {
            Val::Expr(e) => e.ty().complex_part().or_else(|| e.ty().scalar()),
            _ => None,
        }
    }
}

impl Cx<'_> {
    /// The parts of operands of which one is complex: what they are by themselves, or by what the value is for.
    fn part_of(&mut self, vals: &[(&Val, Span)], hint: Option<&Type>) -> Option<Scalar> {
        let known = vals.iter().filter_map(|(v, at)| Some((v.part()?, *at)));
        let known: Vec<(Scalar, Span)> = known.collect();
        let Some((part, first)) = known.first().copied() else {
            return Some(hint.and_then(Type::complex_part).unwrap_or(Scalar::F32));
        };
        if let Some((other, at)) = known.iter().find(|k| k.0 != part) {
            let message = format!("numbers of different precision: the parts are `{part}` and `{other}`");
            self.error(codes::MISMATCH, message, *at, format!("`{other}`"));
            if let Some(d) = self.errors.last_mut() {
                d.marks.push(lathe_diagnostics::Mark { span: first, text: format!("`{part}`") });
            }
            self.help("nothing is converted implicitly: cast one of them, with `c64(…)`, `c128(…)`, or the type of the parts");
            return None;
        }
        // Beside an imaginary literal.
        if !matches!(part, Scalar::F32 | Scalar::F64) {
            self.error(
                codes::MISMATCH,
                format!("there are no complex numbers with parts of type `{part}`"),
                first,
                format!("`{part}`"),
            );
            self.help("parts are `f32` or `f64`: cast it, with `f32(…)`, say");
            return None;
        }
        Some(part)
    }

    fn operand(&mut self, v: Val, part: Scalar, span: Span) -> Option<Operand> {
        match v {
            Val::Imaginary(_) => v.literal(part).map(Operand::Complex),
            Val::Expr(e) if e.ty().complex_part().is_some() => Some(Operand::Complex(Complex::of(&e))),
            v => self.coerce(v, &part.into(), span).map(Operand::Real),
        }
    }

    /// An operator of which one operand is complex.
    pub fn complex_binary(
        &mut self,
        op: B,
        (a, b): (Val, Val),
        hint: Option<&Type>,
        at: (Span, Span),
        span: Span,
    ) -> Option<Val> {
        use Operand::{Complex as C, Real as R};
        let ty = || if a.is_complex() { a.clone() } else { b.clone() };
        if !matches!(op, B::Add | B::Sub | B::Mul | B::Div | B::Eq | B::Ne) {
            let part = ty().part().or(hint.and_then(Type::complex_part)).unwrap_or(Scalar::F32);
            return self.operator(op.symbol(), Type::complex(part)?, span);
        }
        let part = self.part_of(&[(&a, at.0), (&b, at.1)], hint)?;
        let (x, y) = (self.operand(a, part, at.0), self.operand(b, part, at.1));
        let wide = |o: Operand| match o {
            R(r) => Complex::real(r),
            C(z) => z,
        };
        let z = match (op, x?, y?) {
            (B::Add, C(z), R(r)) | (B::Add, R(r), C(z)) => z.add_real(&r),
            (B::Add, x, y) => wide(x).add(&wide(y)),
            (B::Sub, C(z), R(r)) => z.sub_real(&r),
            (B::Sub, R(r), C(z)) => z.neg().add_real(&r),
            (B::Sub, x, y) => wide(x).sub(&wide(y)),
            (B::Mul, C(z), R(r)) | (B::Mul, R(r), C(z)) => z.scale(&r),
            (B::Mul, x, y) => wide(x).mul(&wide(y)),
            (B::Div, C(z), R(r)) => z.div_real(&r),
            (B::Div, x, y) => wide(x).div(&wide(y)),
            (op, x, y) => {
                let same = wide(x).equal(&wide(y));
                return Some(Val::Expr(if op == B::Eq { same } else { build::not(same) }));
            }
        };
        z.value().map(Val::Expr)
    }

    /// A function of the language's table, or one that is put together, of arguments of which one is complex.
    pub fn complex_function(
        &mut self,
        name: &str,
        vals: Vec<(Val, Span)>,
        hint: Option<&Type>,
        span: Span,
    ) -> Option<Expr> {
        let all: Vec<(&Val, Span)> = vals.iter().map(|(v, at)| (v, *at)).collect();
        // A whole number is an exponent as it is.
        let exponent = match (name, all.as_slice()) {
            ("pow", [_, (Val::Int(n), _)]) if n.abs() <= MOST_FACTORS => Some(*n),
            _ => None,
        };
        let part = self.part_of(&all[..if exponent.is_some() { 1 } else { all.len() }], hint)?;
        let mut parts = Vec::new();
        for (v, at) in vals {
            match self.operand(v, part, at)? {
                Operand::Real(r) => parts.push(Complex::real(r)),
                Operand::Complex(z) => parts.push(z),
            }
        }
        match (name, parts.as_slice(), exponent) {
            ("abs", [z], _) => Some(z.abs()),
            ("arg" | "angle", [z], _) => Some(z.arg()),
            ("real", [z], _) => Some(z.re.clone()),
            ("imag", [z], _) => Some(z.im.clone()),
            ("isnan", [z], _) => Some(z.is_nan()),
            ("isinf", [z], _) => Some(z.is_inf()),
            ("isfinite", [z], _) => Some(z.is_finite()),
            ("pow", [z, _], Some(n)) => z.powi(n).value(),
            ("pow", [z, w], None) => z.pow(w).value(),
            (name, [z], _) if let Some(f) = complex::function(name) => f(z).value(),
            _ => self.operator(name, Type::complex(part)?, span),
        }
    }

    /// `conj(z)`, `real(z)`, `imag(z)`, `arg(z)`, of real numbers, too; `None` if the name is none of them.
    pub fn part_function(
        &mut self,
        name: &str,
        args: &[&ast::Expr],
        hint: Option<&Type>,
        span: Span,
    ) -> Option<Option<Expr>> {
        PARTS.contains(&name).then(|| {
            self.arity(name, args, 1, span)?;
            let hint = match (name, hint) {
                ("conj", hint) => hint.cloned(),
                // Its argument may be complex.
                (_, Some(hint)) => hint.scalar().and_then(Type::complex),
                (_, None) => None,
            };
            let v = self.val(args[0], hint.as_ref())?;
            if v.is_complex() {
                return self.complex_function(name, vec![(v, args[0].span)], hint.as_ref(), span);
            }
            let real = hint.map_or(Type::F32, |h| h.complex_part().map_or(h, Type::from));
            let x = match v {
                Val::Expr(e) => e,
                v => self.coerce(v, &real, args[0].span)?,
            };
            let Some(part) = x.ty().scalar().filter(|s| s.is_float()) else {
                return self.operator(name, x.ty().clone(), span);
            };
            let zero = build::float(part, 0.0);
            Some(match name {
                "imag" => zero,
                "arg" | "angle" => build::math(MathFn::Atan2, vec![zero, x]),
                _ => x,
            })
        })
    }

    /// `c64(re, im)`, and casts: `c64(x)`.
    pub fn complex_cast(&mut self, to: &Type, args: &[&ast::Expr], span: Span) -> Option<Expr> {
        let part = to.complex_part()?;
        if let [re, im] = args {
            let (re, im) = (self.expr_as(re, &part.into()), self.expr_as(im, &part.into()));
            return Complex { re: re?, im: im? }.value();
        }
        self.arity(&to.to_string(), args, 1, span)?;
        let v = self.val(args[0], Some(to))?;
        if let Some(z) = v.literal(part) {
            return z.value();
        }
        let Val::Expr(e) = v else { return None };
        let cast = |x: Expr| build::cast(part.into(), x);
        match e.ty() {
            t if t.complex_part().is_some() => {
                let z = Complex::of(&e);
                Complex { re: cast(z.re), im: cast(z.im) }.value()
            }
            Type::Scalar(_) => Complex::real(cast(e)).value(),
            t => self.operator(&to.to_string(), t.clone(), span),
        }
    }

    /// The negative of a complex number; `None` for other types.
    pub fn negative(&self, e: &Expr) -> Option<Expr> {
        e.ty().complex_part()?;
        Complex::of(e).neg().value()
    }

    /// Says what to write instead of an operator that complex numbers do not have.
    pub fn help_complex(&mut self, op: &str) {
        let text = match op {
            "<" | "<=" | ">" | ">=" | "min" | "max" | "argmin" | "argmax" | "clip" => {
                "complex numbers have no order: compare `abs(z)`, `z.re` or `z.im`".to_string()
            }
            "//" | "%" | "and" | "or" | "not" => "complex numbers have `+ - * /`, `==` and `!=`".to_string(),
            op if Scalar::from_name(op).is_some() => {
                "take a part, or the magnitude: `z.re`, `z.im`, `abs(z)`".to_string()
            }
            _ => {
                let names: Vec<&str> = complex::FUNCTIONS.iter().map(|f| f.0).collect();
                format!(
                    "functions of complex numbers are `abs`, `arg`, `real`, `imag`, `pow`, {}",
                    names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
                )
            }
        };
        self.help(text);
    }

    /// `z *= w` writes what `z = z * w` does, where nothing is reduced: 1 times a number with an infinite part is no such
    /// number.
    pub fn times_itself(&self, target: &ast::Expr, value: &ast::Expr) -> Option<ast::Expr> {
        let base = match &target.kind {
            ast::ExprKind::Index(base, _) => base,
            _ => target,
        };
        let Some(super::scope::Entity::Array { buffer, .. }) = self.lookup(base.as_name()?) else {
            return None;
        };
        buffer.elem.complex_part()?;
        let kind = ast::ExprKind::Binary(B::Mul, Box::new(target.clone()), Box::new(value.clone()));
        let height = target.height.max(value.height).saturating_add(1);
        Some(ast::Expr { kind, span: value.span, height })
    }
}
