//! Expressions: names, types, literals, operators.
//!
//! A literal has no type of its own: it takes that of the other operand, or of what the value is for (the
//! *hint*). Nothing else is converted implicitly, except that subscripts and bounds take any integer type.

use super::range::Bound;
use super::reduction::REDUCERS;
use super::scope::{Cx, Entity, place};
use crate::ast::{self, BinOp as B, ExprKind as K, Ident, Subscript};
use crate::codes;
use lathe_diagnostics::Span;
use lathe_diagnostics::nearest;
use lathe_ir::{Access, BinOp, Expr, Scalar, Type, build};

/// A lowered expression, or a literal that waits for its type.
#[derive(Clone, Debug)]
pub enum Val {
    Expr(Expr),
    Int(i64),
    /// An integer that only `u64` has, and floats.
    Large(u64),
    Float(f64),
    /// So many times the imaginary unit.
    Imaginary(f64),
}

impl Cx<'_> {
    /// An expression whose type is settled: by itself, by the hint, or by default (`index`, `f32`).
    pub fn expr(&mut self, e: &ast::Expr, hint: Option<&Type>) -> Option<Expr> {
        match self.val(e, hint)? {
            Val::Expr(x) => Some(x),
            v => {
                let default = match (hint, &v) {
                    (Some(t), _) => t.clone(),
                    (None, Val::Int(_) | Val::Large(_)) => Type::INDEX,
                    (None, Val::Imaginary(_)) => Type::complex(Scalar::F32)?,
                    (None, _) => Type::F32,
                };
                self.coerce(v, &default, e.span)
            }
        }
    }

    /// An expression of exactly one type.
    pub fn expr_as(&mut self, e: &ast::Expr, ty: &Type) -> Option<Expr> {
        let v = self.val(e, Some(ty))?;
        self.coerce(v, ty, e.span)
    }

    /// A subscript or bound: any integer, as `index`.
    pub fn index_expr(&mut self, e: &ast::Expr) -> Option<Expr> {
        let x = self.expr(e, Some(&Type::INDEX))?;
        if x.ty().is_int() {
            return Some(build::cast(Type::INDEX, x));
        }
        let message = format!("subscripts and bounds are integers, this is `{}`", x.ty());
        self.error(codes::MISMATCH, message, e.span, format!("is `{}`", x.ty()));
        self.help("convert it: `index(…)` rounds to zero");
        None
    }

    /// Gives a literal its type; checks that anything else has it.
    pub fn coerce(&mut self, v: Val, ty: &Type, span: Span) -> Option<Expr> {
        let scalar = ty.scalar();
        match (v, scalar) {
            (Val::Expr(e), _) if e.ty() == ty => Some(e),
            (Val::Expr(e), _) => {
                self.error(
                    codes::MISMATCH,
                    format!("expected `{ty}`, found `{}`", e.ty()),
                    span,
                    format!("is `{}`", e.ty()),
                );
                if ty.scalar().is_some() && e.ty().complex_part().is_some() {
                    self.help("take a part, or the magnitude: `z.re`, `z.im`, `abs(z)`");
                } else if (scalar.is_some() || ty.complex_part().is_some())
                    && (e.ty().scalar().is_some() || e.ty().complex_part().is_some())
                {
                    self.help(format!("nothing is converted implicitly: write `{ty}(…)`"));
                }
                None
            }
            (v, _) if ty.complex_part().is_some() => v.literal(ty.complex_part()?)?.value(),
            (Val::Int(v), Some(s)) if s.is_float() => Some(build::float(s, v as f64)),
            (Val::Large(v), Some(s)) if s.is_float() => Some(build::float(s, v as f64)),
            (Val::Float(v), Some(s)) if s.is_float() => Some(build::float(s, v)),
            (Val::Int(v), Some(s)) if s.is_int() => {
                let fits = build::wrap(s, v) == v && (s.is_signed() || v >= 0);
                if !fits {
                    return self.out_of_range(v, s, span);
                }
                Some(build::int(s, v))
            }
            // The tree holds the bits.
            (Val::Large(v), Some(Scalar::U64)) => Some(build::int(Scalar::U64, v as i64)),
            (Val::Large(v), Some(s)) if s.is_int() => self.out_of_range(v, s, span),
            (Val::Float(v), Some(s)) if s.is_int() => {
                let shown = if v.is_nan() { "nan".to_string() } else { format!("{v:?}") };
                self.error(
                    codes::LITERAL,
                    format!("expected `{s}`, found the float {shown}"),
                    span,
                    "not an integer",
                );
                self.help(if v.is_finite() {
                    format!("write an integer, or round: `{s}({v:?})`; integers divide with `//`")
                } else {
                    "`inf` and `nan` are floats only".to_string()
                });
                None
            }
            (Val::Imaginary(v), Some(_)) => {
                self.error(codes::LITERAL, format!("expected `{ty}`, found {v:?}i"), span, "imaginary");
                self.help("an imaginary literal is of `c64` or `c128`");
                None
            }
            _ => {
                self.error(codes::LITERAL, format!("expected `{ty}`, found a number"), span, "a number");
                if scalar == Some(Scalar::Bool) {
                    self.help("write `true` or `false`");
                }
                None
            }
        }
    }

    fn out_of_range(&mut self, v: impl std::fmt::Display, ty: Scalar, span: Span) -> Option<Expr> {
        self.error(codes::LITERAL, format!("the literal {v} does not fit `{ty}`"), span, "out of range");
        None
    }

    /// Brings two operands to one type.
    pub fn unify(&mut self, a: Val, b: Val, hint: Option<&Type>, at: (Span, Span)) -> Option<(Expr, Expr)> {
        let imaginary = matches!(a, Val::Imaginary(_)) || matches!(b, Val::Imaginary(_));
        let ty = match (&a, &b, hint) {
            (Val::Expr(x), _, _) | (_, Val::Expr(x), _) => x.ty().clone(),
            (_, _, Some(t)) => t.clone(),
            _ if imaginary => Type::complex(Scalar::F32)?,
            (Val::Int(_), Val::Int(_), None) => Type::INDEX,
            _ => Type::F32,
        };
        if let (Val::Expr(x), Val::Expr(y)) = (&a, &b)
            && x.ty() != y.ty()
        {
            let message = format!("the operands have different types: `{}` and `{}`", x.ty(), y.ty());
            self.errors.push(
                lathe_diagnostics::Diagnostic::error(codes::MISMATCH, message)
                    .at(at.1, format!("is `{}`", y.ty()))
                    .at(at.0, format!("is `{}`", x.ty())),
            );
            if x.ty().scalar().is_some() && y.ty().scalar().is_some() {
                // Cast the one that loses nothing.
                let other = (y.ty().is_float() && !x.ty().is_float()) || y.ty().is_index();
                let to = if other { y.ty() } else { x.ty() };
                let help = format!("nothing is converted implicitly: cast one of them with `{to}(…)`");
                self.help(help);
            }
            return None;
        }
        let x = self.coerce(a, &ty, at.0);
        let y = self.coerce(b, &ty, at.1);
        Some((x?, y?))
    }

    pub fn val(&mut self, e: &ast::Expr, hint: Option<&Type>) -> Option<Val> {
        match &e.kind {
            K::Int(v) => Some(Val::Int(*v)),
            K::Large(v) => Some(Val::Large(*v)),
            K::Float(v) => Some(Val::Float(*v)),
            K::Imaginary(v) => Some(Val::Imaginary(*v)),
            K::Bool(v) => Some(Val::Expr(build::boolean(*v))),
            K::Name(n) => self.name(n, e.span).map(Val::Expr),
            K::Unary(op, a) => self.unary(*op, a, hint),
            K::Binary(op, a, b) => self.binary(*op, a, b, hint, e.span),
            K::Call(f, args) => self.call(f, args, hint, e.span),
            K::Index(a, subs) => self.element(a, subs, e.span).map(Val::Expr),
            K::Field(a, name) => {
                let x = self.expr(a, None)?;
                self.field(x, name).map(Val::Expr)
            }
            K::Component(a, n, at) => {
                let x = self.expr(a, None)?;
                if let Type::Tuple(ts) = x.ty()
                    && (*n as usize) < ts.len()
                {
                    return Some(Val::Expr(build::field(x, *n)));
                }
                self.error(
                    codes::FIELD,
                    format!("`{}` has no component {n}", x.ty()),
                    *at,
                    "no such component",
                );
                None
            }
            K::Tuple(parts) => {
                let hints = match hint {
                    Some(Type::Tuple(ts)) if ts.len() == parts.len() => ts.to_vec(),
                    _ => Vec::new(),
                };
                let out: Option<Vec<Expr>> =
                    parts.iter().enumerate().map(|(i, p)| self.expr(p, hints.get(i))).collect();
                let out = out?;
                if out.is_empty() {
                    self.error(codes::NOT_YET, "there is no empty tuple", e.span, "no component");
                    return None;
                }
                let ty = Type::Tuple(out.iter().map(|x| x.ty().clone()).collect());
                Some(Val::Expr(build::aggregate(ty, out)))
            }
            K::List(_) => {
                self.error(codes::NOT_YET, "lists stand only for data in tests", e.span, "a list");
                None
            }
            K::Block(lets, value) => self.named(lets, value, hint, e.span),
            K::Error => None,
        }
    }

    fn name(&mut self, n: &str, span: Span) -> Option<Expr> {
        if let Some(i) = self.active(n) {
            return Some(build::var(&self.st.indices[i].binder));
        }
        match self.lookup(n).cloned() {
            Some(Entity::Size(b) | Entity::Value(b, _)) => Some(build::var(&b)),
            Some(Entity::Named(e, _)) => Some(e),
            Some(Entity::Array { buffer, .. }) => {
                if !buffer.extents.is_empty() {
                    let message = format!("`{n}` is an array, not a value");
                    self.error(codes::RANK, message, span, "needs subscripts");
                    // By the indices that are in scope, the innermost last.
                    let rank = buffer.extents.len();
                    let active: Vec<String> = self.st.active.iter().map(|a| a.0.clone()).collect();
                    let usual = ["i", "j", "k", "l"].map(String::from);
                    let subs = if active.len() < rank {
                        &usual[..rank.min(4)]
                    } else {
                        &active[active.len() - rank..]
                    };
                    self.help(format!("say which element: `{n}[{}]`", subs.join(", ")));
                    return None;
                }
                Some(build::load(Access::buffer(buffer.id, buffer.elem.clone(), vec![]).at(place(span))))
            }
            None => {
                if self.st.index_notation && self.st.in_subscript > 0 {
                    let message = format!("the index `{n}` is only on the right of `=`");
                    self.error(codes::RIGHT_ONLY, message, span, "not on the left, and nothing reduces it");
                    self.help(format!("say how it is reduced: `sum[{n}](…)`"));
                } else {
                    self.unknown(n, span, None);
                }
                None
            }
        }
    }

    fn unary(&mut self, op: ast::UnOp, a: &ast::Expr, hint: Option<&Type>) -> Option<Val> {
        let v = self.val(a, hint)?;
        match (op, v) {
            (ast::UnOp::Neg, Val::Int(v)) => Some(match v.checked_neg() {
                Some(v) => Val::Int(v),
                // 2^63 is what the type says.
                None if hint.is_some_and(Type::is_float) => Val::Float(-(v as f64)),
                None => {
                    let ty = hint.and_then(Type::scalar).filter(|s| s.is_int()).unwrap_or(Scalar::Index);
                    Val::Expr(build::neg(build::int(ty, v)))
                }
            }),
            (ast::UnOp::Neg, Val::Large(v)) if hint.is_some_and(Type::is_float) => {
                Some(Val::Float(-(v as f64)))
            }
            (ast::UnOp::Neg, v @ Val::Large(_)) => {
                let e = self.coerce(v, hint.unwrap_or(&Type::INDEX), a.span)?;
                Some(Val::Expr(build::neg(e)))
            }
            (ast::UnOp::Neg, Val::Float(v)) => Some(Val::Float(-v)),
            (ast::UnOp::Neg, Val::Imaginary(v)) => Some(Val::Imaginary(-v)),
            (ast::UnOp::Neg, Val::Expr(e)) => {
                if let Some(e) = self.negative(&e) {
                    return Some(Val::Expr(e));
                }
                if e.ty().is_int() || e.ty().is_float() {
                    return Some(Val::Expr(build::neg(e)));
                }
                self.operator("-", e.ty().clone(), a.span)
            }
            (ast::UnOp::Not, Val::Expr(e)) => {
                if e.ty().is_bool() || e.ty().is_int() {
                    return Some(Val::Expr(build::not(e)));
                }
                self.operator("not", e.ty().clone(), a.span)
            }
            (ast::UnOp::Not, _) => {
                self.error(codes::OPERATOR, "`not` of a number", a.span, "not a truth value");
                None
            }
        }
    }

    pub fn operator<T>(&mut self, op: &str, ty: Type, span: Span) -> Option<T> {
        self.error(codes::OPERATOR, format!("`{op}` is not defined for `{ty}`"), span, format!("is `{ty}`"));
        if ty.complex_part().is_some() {
            self.help_complex(op);
        } else if matches!(ty, Type::Struct(_) | Type::Tuple(_)) {
            self.help("use its components: `p.name` or `p.0`");
        }
        None
    }

    fn binary(
        &mut self,
        op: B,
        a: &ast::Expr,
        b: &ast::Expr,
        hint: Option<&Type>,
        span: Span,
    ) -> Option<Val> {
        let hint = match op {
            B::Or | B::And => Some(&Type::BOOL),
            B::Eq | B::Ne | B::Lt | B::Le | B::Gt | B::Ge => None,
            _ => hint,
        };
        // A literal-like operand learns its type from the other one.
        let (x, y) = if flexible(a) && !flexible(b) {
            let y = self.val(b, hint);
            let x = self.val(a, type_of(&y).as_ref().or(hint));
            (x, y)
        } else {
            let x = self.val(a, hint);
            let y = self.val(b, type_of(&x).as_ref().or(hint));
            (x, y)
        };
        let (x, y) = (x?, y?);
        if let Some(v) = fold(op, &x, &y) {
            return Some(v);
        }
        if x.is_complex() || y.is_complex() {
            return self.complex_binary(op, (x, y), hint, (a.span, b.span), span);
        }
        let Some((x, y)) = self.unify(x, y, hint, (a.span, b.span)) else {
            if matches!(op, B::And | B::Or) {
                // No conversion would make truth values of both.
                self.help("compare what is a number: `a != 0`");
            }
            return None;
        };
        let ty = x.ty().clone();
        let numeric = ty.is_int() || ty.is_float();
        let ok = match op {
            B::Or | B::And => ty.is_bool(),
            B::Eq | B::Ne => numeric || ty.is_bool(),
            B::Lt | B::Le | B::Gt | B::Ge | B::Add | B::Sub | B::Mul => numeric,
            B::Div => ty.is_float(),
            B::FloorDiv | B::Mod => ty.is_int(),
        };
        if ok {
            return Some(Val::Expr(build::binary(BinOp::from(op), x, y)));
        }
        match op {
            B::Div if ty.is_int() => {
                self.error(codes::INT_DIV, "`/` on integers", span, format!("the operands are `{ty}`"));
                self.help("`//` rounds down; for a fraction cast first: `f32(a) / f32(b)`");
                None
            }
            B::FloorDiv if ty.is_float() => {
                self.error(codes::OPERATOR, "`//` on floats", span, format!("the operands are `{ty}`"));
                self.help("write `floor(a / b)`");
                None
            }
            B::Mod if ty.is_float() => {
                self.error(codes::OPERATOR, "`%` on floats", span, format!("the operands are `{ty}`"));
                self.help("write `floormod(a, b)`");
                None
            }
            B::And | B::Or if ty.is_float() => {
                self.error(codes::OPERATOR, "`and` and `or` are for truth values", span, format!("`{ty}`"));
                self.help("compare: `a != 0`");
                None
            }
            B::And | B::Or if ty.is_int() => {
                self.error(codes::OPERATOR, "`and` and `or` are for truth values", span, format!("`{ty}`"));
                self.help("on integers write `bitand(a, b)`, `bitor(a, b)`");
                None
            }
            _ => self.operator(op.symbol(), ty, span),
        }
    }

    /// `A[i, j]`; an indexed name that is a reduction needs its argument.
    fn element(&mut self, base: &ast::Expr, subs: &[Subscript], span: Span) -> Option<Expr> {
        let Some(name) = base.as_name() else {
            self.error(codes::RANK, "only arrays have subscripts", base.span, "not an array's name");
            return None;
        };
        if REDUCERS.contains(&name) && self.lookup(name).is_none() {
            let message = format!("the reduction `{name}` has no argument");
            self.error(codes::REDUCTION, message, span, "nothing to reduce");
            self.help(format!("write `{name}[k](…)`"));
            return None;
        }
        let a = self.access(name, base.span, subs, span, true)?;
        Some(build::load(a))
    }

    /// An access of an array; `read` ones take part in range inference here.
    pub fn access(
        &mut self,
        name: &str,
        at: Span,
        subs: &[Subscript],
        span: Span,
        read: bool,
    ) -> Option<Access> {
        let buffer = match self.lookup(name).cloned() {
            Some(Entity::Array { buffer, .. }) => buffer,
            Some(_) => {
                self.error(codes::RANK, format!("`{name}` is a single value"), at, "has no subscripts");
                return None;
            }
            None if self.active(name).is_some() => {
                self.error(
                    codes::RANK,
                    format!("`{name}` is an index, not an array"),
                    at,
                    "has no subscripts",
                );
                return None;
            }
            None => {
                self.unknown(
                    name,
                    at,
                    Some(format!("an array is a parameter, or declared: `var {name}: f32[…]`")),
                );
                return None;
            }
        };
        if buffer.extents.len() != subs.len() {
            let message = format!(
                "`{name}` has {} dimensions, here are {} subscripts",
                buffer.extents.len(),
                subs.len()
            );
            self.error(codes::RANK, message, span, "wrong number of subscripts");
            if let Some(first) = self.declared_at(name)
                && let Some(d) = self.errors.last_mut()
            {
                d.marks.push(lathe_diagnostics::Mark { span: first, text: "declared here".into() });
            }
            return None;
        }
        let mut indices = Vec::new();
        for (s, extent) in subs.iter().zip(&buffer.extents) {
            let Subscript::Expr(s) = s else {
                self.error(codes::RANK, "a range in a subscript", span, "ranges belong in `where`");
                return None;
            };
            self.st.in_subscript += 1;
            let i = self.index_expr(s);
            self.st.in_subscript -= 1;
            let i = i?;
            if read {
                let guarded = !self.st.guards.is_empty();
                self.st.bounds.push(Bound {
                    subscript: i.clone(),
                    extent: extent.clone(),
                    guarded,
                    span: s.span,
                });
            }
            indices.push(i);
        }
        Some(Access::buffer(buffer.id, buffer.elem.clone(), indices).at(place(span)))
    }

    fn field(&mut self, x: Expr, name: &Ident) -> Option<Expr> {
        // numpy's names.
        match (&*name.text, x.ty().complex_part()) {
            ("real", Some(_)) => return Some(build::field(x, 0)),
            ("imag", Some(_)) => return Some(build::field(x, 1)),
            _ => {}
        }
        if let Type::Struct(s) = x.ty() {
            if let Some(i) = s.fields.iter().position(|f| *f.0 == *name.text) {
                return Some(build::field(x, i as u32));
            }
            let near = nearest(&name.text, s.fields.iter().map(|f| &*f.0));
            let fields: Vec<String> = s.fields.iter().map(|f| format!("`{}`", f.0)).collect();
            let message = format!("`{}` has no field `{}`", s.name, name.text);
            self.error(codes::FIELD, message, name.span, "no such field");
            self.help(match near {
                Some(n) => format!("did you mean `{n}`?"),
                None => format!("its fields are {}", fields.join(", ")),
            });
            return None;
        }
        self.error(codes::FIELD, format!("`{}` has no fields", x.ty()), name.span, "not a struct");
        None
    }
}

pub fn type_of(v: &Option<Val>) -> Option<Type> {
    match v {
        Some(Val::Expr(e)) => Some(e.ty().clone()),
        _ => None,
    }
}

/// Made of literals only, so that its type comes from elsewhere?
pub fn flexible(e: &ast::Expr) -> bool {
    match &e.kind {
        K::Int(_) | K::Large(_) | K::Float(_) | K::Imaginary(_) => true,
        K::Unary(ast::UnOp::Neg, a) => flexible(a),
        K::Binary(op, a, b) => {
            matches!(op, B::Add | B::Sub | B::Mul | B::Div | B::FloorDiv | B::Mod)
                && flexible(a)
                && flexible(b)
        }
        K::Call(f, args) => match (f.as_name(), args.as_slice(), &f.kind) {
            (Some("select"), [_, a, b], _) => flexible(&a.value) && flexible(&b.value),
            (Some("abs"), [a], _) => flexible(&a.value),
            (None, [a], K::Index(base, _)) => base.as_name().is_some() && flexible(&a.value),
            _ => false,
        },
        _ => false,
    }
}

/// Arithmetic of literals. Rounding twice (to 64 bits, then to the type) is harmless for + - * /.
fn fold(op: B, a: &Val, b: &Val) -> Option<Val> {
    match (a, b) {
        (Val::Int(x), Val::Int(y)) => {
            let v = match op {
                B::Add => x.checked_add(*y),
                B::Sub => x.checked_sub(*y),
                B::Mul => x.checked_mul(*y),
                B::FloorDiv => build::fold_int(BinOp::FloorDiv, Scalar::Index, *x, *y),
                B::Mod => build::fold_int(BinOp::FloorMod, Scalar::I64, *x, *y),
                B::Div => return Some(Val::Float(*x as f64 / *y as f64)),
                _ => None,
            };
            v.map(Val::Int)
        }
        // Of these the type decides.
        (Val::Expr(_) | Val::Large(_) | Val::Imaginary(_), _)
        | (_, Val::Expr(_) | Val::Large(_) | Val::Imaginary(_)) => None,
        _ => {
            let of = |v: &Val| match v {
                Val::Int(v) => *v as f64,
                Val::Float(v) => *v,
                Val::Expr(_) | Val::Large(_) | Val::Imaginary(_) => f64::NAN,
            };
            let (x, y) = (of(a), of(b));
            Some(Val::Float(match op {
                B::Add => x + y,
                B::Sub => x - y,
                B::Mul => x * y,
                B::Div => x / y,
                _ => return None,
            }))
        }
    }
}
