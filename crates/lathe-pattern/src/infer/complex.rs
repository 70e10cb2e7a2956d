//! Complex numbers in funs.
//!
//! They are there while types are found. A typed term has pairs of parts in their place, and operators on them are
//! written out ([`lathe_ir::complex`]), so rules, laws and strategies meet nothing but pairs of floats; only the memory of
//! parameters and results knows more ([`Program::declared`](crate::Program)).

use super::*;
use crate::make;
use lathe_ir::complex::{Complex, FUNCTIONS};
use lathe_ir::{BinOp, Expr, ExprKind, MathFn, UnOp, VarId, build};

/// A function of the parts of its arguments.
enum Parts {
    Complex(Complex),
    Real(Expr),
}

impl Infer<'_> {
    /// The function of a name that only complex numbers have, or `abs`: what it gives depends on what is found.
    pub(super) fn complex_function(&mut self, name: &Name, args: &[&Ast], span: Span) -> Option<Elab> {
        let own = |n: &str| MathFn::from_name(n).is_none() && FUNCTIONS.iter().any(|f| f.0 == n);
        if &**name == "abs" && args.len() == 1 {
            let (of, is) = (self.s.ty(Class::Number), self.s.ty(Class::Number));
            self.magnitudes.push((of.clone(), is.clone(), span));
            let kind = ElabKind::Prim(Prim::Math(MathFn::Abs));
            return Some(Elab { kind, ty: Type::fun(of, is), span });
        }
        if !matches!(&**name, "complex" | "real" | "imag" | "arg" | "angle" | "c64" | "c128") && !own(name) {
            return None;
        }
        let part = self.s.ty(Class::Float);
        let complex = Type::complex(part.clone());
        let ty = match &**name {
            "complex" => Type::funs([part.clone(), part], complex),
            "real" | "imag" | "arg" | "angle" => Type::fun(complex, part),
            "c64" => Type::fun(self.s.ty(Class::Single), Type::complex(Scalar::F32.into())),
            "c128" => Type::fun(self.s.ty(Class::Single), Type::complex(Scalar::F64.into())),
            _ => Type::fun(complex.clone(), complex),
        };
        Some(Elab { kind: ElabKind::Complex(name.clone()), ty, span })
    }

    /// What `abs` gives: the type of the parts of a complex number, and of all else that of the argument. Unknown
    /// arguments wait, if there may be more to know.
    pub(super) fn known_magnitudes(&mut self, all: bool) -> Result<(), Diagnostic> {
        let mut wait = Vec::new();
        for (of, is, span) in std::mem::take(&mut self.magnitudes) {
            match self.s.head(&of).kind().clone() {
                TypeKind::Complex(part) => self.unify(&is, &part, span, "the magnitude")?,
                TypeKind::Meta(_) if !all => wait.push((of, is, span)),
                _ => self.unify(&is, &of, span, "the magnitude")?,
            }
        }
        self.magnitudes = wait;
        Ok(())
    }

    /// The type of the parts, if it is a complex type.
    pub(super) fn complex_part(&self, t: &Type) -> Option<Scalar> {
        part_of(&self.s.known(t))
    }

    /// An operator on a complex number and a literal that is not imaginary, which then has no imaginary part at all, as in
    /// kernels; `f` is applied to the left operand.
    pub(super) fn beside_literal(
        &self,
        f: &Elab,
        right: &Elab,
        depth: u32,
    ) -> Result<Option<Term>, Diagnostic> {
        let ElabKind::App(op, left) = &f.kind else { return Ok(None) };
        let ElabKind::Prim(Prim::Binary(op)) = &op.kind else { return Ok(None) };
        let Some(part) = self.complex_part(&left.ty) else { return Ok(None) };
        let number = |e: &Elab| match e.kind {
            ElabKind::Int(v) => Some(v as f64),
            ElabKind::Float(v) => Some(v),
            _ => None,
        };
        let (z, real, first) = match (number(left), number(right)) {
            (None, Some(v)) => (&**left, v, false),
            (Some(v), None) => (right, v, true),
            _ => return Ok(None),
        };
        let made = written_out(&[self.s.known(&z.ty)], |args| {
            let [Parts::Complex(z)] = args else { return None };
            let real = build::float(part, real);
            Some(Parts::Complex(match (op, first) {
                (BinOp::Mul, _) => z.scale(&real),
                (BinOp::Add, _) => z.add_real(&real),
                (BinOp::Sub, false) => z.sub_real(&real),
                (BinOp::Sub, true) => z.neg().add_real(&real),
                (BinOp::Div, false) => z.div_real(&real),
                // The number comes first, or parts are compared.
                _ => return None,
            }))
        });
        let Some(made) = made else { return Ok(None) };
        Ok(Some(Term::app(made, self.finish(z, depth)?)))
    }

    /// What was found, complex numbers as they are.
    pub(super) fn declared_at(&self, e: &Elab) -> Result<Type, Diagnostic> {
        self.known(&e.ty, e.span)?;
        Ok(self.s.known(&e.ty))
    }
}

fn part_of(t: &Type) -> Option<Scalar> {
    match t.kind() {
        TypeKind::Complex(p) => p.as_scalar(),
        _ => None,
    }
}

/// A number by its parts.
pub(super) fn literal(part: Scalar, v: [f64; 2]) -> Term {
    pair(v.map(|v| Term::lit(ScalarValue::float(part, v))), part)
}

fn pair(parts: [Term; 2], part: Scalar) -> Term {
    make::applied(Prim::Tuple(2), &parts, Type::pair(part.into(), part.into()))
}

/// A scalar operator whose operands or result are complex, written out; `None` for all other primitives.
///
/// # Errors
/// Operators that complex numbers do not have.
pub(super) fn primitive(p: &Prim, ty: &Type, span: Span) -> Result<Option<Term>, Diagnostic> {
    if !matches!(p, Prim::Unary(_) | Prim::Binary(_) | Prim::Math(_) | Prim::Cast(_)) {
        return Ok(None);
    }
    let (from, to) = signature(ty);
    if !from.iter().chain([&to]).any(|t| part_of(t).is_some()) {
        return Ok(None);
    }
    let done = written_out(&from, |args| {
        use Parts::{Complex as C, Real as R};
        let numbers = args.iter().map(|a| if let C(z) = a { Some(z.clone()) } else { None });
        let numbers = numbers.collect::<Option<Vec<_>>>()?;
        Some(match (p, numbers.as_slice()) {
            (Prim::Unary(UnOp::Neg), [z]) => C(z.neg()),
            (Prim::Binary(BinOp::Add), [z, w]) => C(z.add(w)),
            (Prim::Binary(BinOp::Sub), [z, w]) => C(z.sub(w)),
            (Prim::Binary(BinOp::Mul), [z, w]) => C(z.mul(w)),
            (Prim::Binary(BinOp::Div), [z, w]) => C(z.div(w)),
            (Prim::Binary(BinOp::Eq), [z, w]) => R(z.equal(w)),
            (Prim::Binary(BinOp::Ne), [z, w]) => R(build::not(z.equal(w))),
            (Prim::Math(MathFn::Abs), [z]) if part_of(&to).is_none() => R(z.abs()),
            (Prim::Math(f), [z]) => C(FUNCTIONS.iter().find(|n| n.0 == f.name())?.1(z)),
            _ => return None,
        })
    });
    match done {
        Some(t) => Ok(Some(t)),
        None => {
            let d = Diagnostic::error(codes::TYPES, format!("complex numbers have no `{}`", p.name()));
            Err(d.at(span, format!("here it is `{ty}`")).help(match p {
                Prim::Cast(_) => "`real(z)` and `imag(z)` are the parts, `abs(z)` is the magnitude",
                Prim::Math(MathFn::Abs) => "the magnitude is a real number: `|z| abs(z)`",
                _ => "they have `+`, `-`, `*`, `/`, `==` and `!=`, and no order",
            }))
        }
    }
}

/// A function that only complex numbers have.
pub(super) fn function(name: &str, ty: &Type, span: Span) -> Result<Term, Diagnostic> {
    let (from, to) = signature(ty);
    let done = written_out(&from, |args| {
        use Parts::{Complex as C, Real as R};
        Some(match (name, args) {
            ("complex", [R(re), R(im)]) => C(Complex { re: re.clone(), im: im.clone() }),
            ("real", [C(z)]) => R(z.re.clone()),
            ("imag", [C(z)]) => R(z.im.clone()),
            ("arg" | "angle", [C(z)]) => R(z.arg()),
            ("c64" | "c128", [of]) => {
                let part = part_of(&to)?;
                let cast = |e: &Expr| build::cast(part.into(), e.clone());
                C(match of {
                    R(re) => Complex::real(cast(re)),
                    C(z) => Complex { re: cast(&z.re), im: cast(&z.im) },
                })
            }
            (_, [C(z)]) => C(FUNCTIONS.iter().find(|f| f.0 == name)?.1(z)),
            _ => return None,
        })
    });
    done.ok_or_else(|| {
        Diagnostic::error(codes::TYPES, format!("`{name}` does not work on this")).at(span, format!("`{ty}`"))
    })
}

fn signature(ty: &Type) -> (Vec<Type>, Type) {
    let (mut from, mut to) = (Vec::new(), ty.clone());
    while let Some((a, b)) = to.as_fun().map(|(a, b)| (a.clone(), b.clone())) {
        from.push(a);
        to = b;
    }
    (from, to)
}

/// `|a, b| f(a, b)`, by what `f` makes of the parts.
fn written_out(from: &[Type], f: impl Fn(&[Parts]) -> Option<Parts>) -> Option<Term> {
    // Variables stand for the parts while the expression is built.
    let mut places: Vec<Term> = Vec::new();
    let mut part = |term: Term, s: Scalar| {
        places.push(term);
        build::var_id(VarId(places.len() as u32 - 1), s)
    };
    let mut args = Vec::new();
    for (n, t) in from.iter().enumerate() {
        let whole = Term::bound((from.len() - 1 - n) as u32, t.in_parts());
        args.push(match (part_of(t), t.kind()) {
            (Some(s), _) => {
                let re = part(make::project(0, whole.clone())?, s);
                Parts::Complex(Complex { re, im: part(make::project(1, whole)?, s) })
            }
            (None, TypeKind::Scalar(s)) => Parts::Real(part(whole, *s)),
            (None, TypeKind::Index(_)) => Parts::Real(part(whole, Scalar::Index)),
            _ => return None,
        });
    }
    let body = match f(&args)? {
        Parts::Real(e) => term(&e, &places)?,
        Parts::Complex(z) => {
            let s = z.re.ty().scalar()?;
            pair([term(&z.re, &places)?, term(&z.im, &places)?], s)
        }
    };
    let names = ["z", "w"];
    let params = from.iter().enumerate().rev();
    Some(params.fold(body, |b, (n, t)| Term::lam(names[n.min(1)], t.in_parts(), b)))
}

/// A scalar expression as a term.
fn term(e: &Expr, places: &[Term]) -> Option<Term> {
    let ty = e.ty().scalar()?;
    let of = |p: Prim, args: &[&Expr]| {
        let args = args.iter().map(|a| term(a, places)).collect::<Option<Vec<_>>>()?;
        Some(make::applied(p, &args, ty.into()))
    };
    match e.kind() {
        ExprKind::Var(v) => places.get(v.0 as usize).cloned(),
        ExprKind::Float(v) => Some(Term::lit(ScalarValue::float(ty, v.get()))),
        ExprKind::Bool(v) => Some(Term::lit(ScalarValue::boolean(*v))),
        ExprKind::Unary(op, a) => of(Prim::Unary(*op), &[a]),
        ExprKind::Binary(op, a, b) => of(Prim::Binary(*op), &[a, b]),
        ExprKind::Select(c, a, b) => of(Prim::Select, &[c, a, b]),
        ExprKind::Math(f, args) => of(Prim::Math(*f), &args.iter().collect::<Vec<_>>()),
        ExprKind::Cast(a) => of(Prim::Cast(ty), &[a]),
        _ => None,
    }
}
