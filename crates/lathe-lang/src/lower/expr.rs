//! Expressions: names, types, literals, and the marking of reductions.
//!
//! A literal has no type of its own: it takes that of the other operand, or of what the value is for (the
//! *hint*). Nothing else is converted implicitly, except that subscripts and bounds take any integer type.

use super::range::Bound;
use super::scope::{Cx, Entity, Index, Reduction, place};
use crate::ast::{self, BinOp as B, CallArg, ExprKind as K, Ident, Subscript};
use crate::codes;
use crate::suggest::nearest;
use lathe_diagnostics::Span;
use lathe_ir::{Access, BinOp, Expr, ExprKind, MathFn, ReduceOp, Scalar, Type, build};

/// A lowered expression, or a literal that waits for its type.
#[derive(Clone, Debug)]
pub enum Val {
    Expr(Expr),
    Int(i64),
    Float(f64),
}

/// Names of the operators that reduce.
pub const REDUCERS: [&str; 8] = ["sum", "prod", "min", "max", "any", "all", "argmin", "argmax"];

/// Functions of two integers (or booleans) without a symbol.
const BITS: [(&str, BinOp); 7] = [
    ("bitand", BinOp::And),
    ("bitor", BinOp::Or),
    ("bitxor", BinOp::Xor),
    ("shl", BinOp::Shl),
    ("shr", BinOp::Shr),
    ("tdiv", BinOp::TruncDiv),
    ("trem", BinOp::TruncRem),
];

impl Cx<'_> {
    /// An expression whose type is settled: by itself, by the hint, or by default (`index`, `f32`).
    pub fn expr(&mut self, e: &ast::Expr, hint: Option<&Type>) -> Option<Expr> {
        match self.val(e, hint)? {
            Val::Expr(x) => Some(x),
            v => {
                let default = match (hint, &v) {
                    (Some(t), _) => t.clone(),
                    (None, Val::Int(_)) => Type::INDEX,
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
                if scalar.is_some() && e.ty().scalar().is_some() {
                    self.help(format!("nothing is converted implicitly: write `{ty}(…)`"));
                }
                None
            }
            (Val::Int(v), Some(s)) if s.is_float() => Some(build::float(s, v as f64)),
            (Val::Float(v), Some(s)) if s.is_float() => Some(build::float(s, v)),
            (Val::Int(v), Some(s)) if s.is_int() => {
                let fits = build::wrap(s, v) == v && (s.is_signed() || v >= 0);
                if !fits {
                    let message = format!("the literal {v} does not fit `{s}`");
                    self.error(codes::LITERAL, message, span, "out of range");
                    return None;
                }
                Some(build::int(s, v))
            }
            (Val::Float(v), Some(s)) if s.is_int() => {
                let message = format!("expected `{s}`, found the float {v:?}");
                self.error(codes::LITERAL, message, span, "not an integer");
                self.help(format!("write an integer, or round: `{s}({v:?})`; integers divide with `//`"));
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

    /// Brings two operands to one type.
    fn unify(&mut self, a: Val, b: Val, hint: Option<&Type>, at: (Span, Span)) -> Option<(Expr, Expr)> {
        let ty = match (&a, &b, hint) {
            (Val::Expr(x), _, _) | (_, Val::Expr(x), _) => x.ty().clone(),
            (_, _, Some(t)) => t.clone(),
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
                let to = if x.ty().is_float() || !y.ty().is_float() { x.ty() } else { y.ty() };
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
            K::Float(v) => Some(Val::Float(*v)),
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
            K::Lambda(..) | K::Pipe(..) | K::Compose(..) => {
                let message = "functional patterns are not available in kernels";
                self.error(codes::NOT_YET, message, e.span, "belongs in a `fun`");
                None
            }
            K::Error => None,
        }
    }

    fn name(&mut self, n: &str, span: Span) -> Option<Expr> {
        if let Some(i) = self.active(n) {
            return Some(build::var(&self.st.indices[i].binder));
        }
        match self.lookup(n).cloned() {
            Some(Entity::Size(b) | Entity::Value(b, _)) => Some(build::var(&b)),
            Some(Entity::Array { buffer, .. }) => {
                if !buffer.extents.is_empty() {
                    let message = format!("`{n}` is an array, not a value");
                    self.error(codes::RANK, message, span, "needs subscripts");
                    let subs: Vec<&str> =
                        ["i", "j", "k", "l"].into_iter().take(buffer.extents.len()).collect();
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
                    self.unknown(n, span);
                }
                None
            }
        }
    }

    fn unary(&mut self, op: ast::UnOp, a: &ast::Expr, hint: Option<&Type>) -> Option<Val> {
        let v = self.val(a, hint)?;
        match (op, v) {
            (ast::UnOp::Neg, Val::Int(v)) => Some(Val::Int(v.wrapping_neg())),
            (ast::UnOp::Neg, Val::Float(v)) => Some(Val::Float(-v)),
            (ast::UnOp::Neg, Val::Expr(e)) => {
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

    fn operator<T>(&mut self, op: &str, ty: Type, span: Span) -> Option<T> {
        self.error(codes::OPERATOR, format!("`{op}` is not defined for `{ty}`"), span, format!("is `{ty}`"));
        if matches!(ty, Type::Struct(_) | Type::Tuple(_)) {
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
        let (x, y) = self.unify(x, y, hint, (a.span, b.span))?;
        let ty = x.ty().clone();
        let numeric = ty.is_int() || ty.is_float();
        let (ir, ok) = match op {
            B::Or => (BinOp::Or, ty.is_bool()),
            B::And => (BinOp::And, ty.is_bool()),
            B::Eq => (BinOp::Eq, numeric || ty.is_bool()),
            B::Ne => (BinOp::Ne, numeric || ty.is_bool()),
            B::Lt => (BinOp::Lt, numeric),
            B::Le => (BinOp::Le, numeric),
            B::Gt => (BinOp::Gt, numeric),
            B::Ge => (BinOp::Ge, numeric),
            B::Add => (BinOp::Add, numeric),
            B::Sub => (BinOp::Sub, numeric),
            B::Mul => (BinOp::Mul, numeric),
            B::Div => (BinOp::Div, ty.is_float()),
            B::FloorDiv => (BinOp::FloorDiv, ty.is_int()),
            B::Mod => (BinOp::FloorMod, ty.is_int()),
        };
        if ok {
            return Some(Val::Expr(build::binary(ir, x, y)));
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
            B::And | B::Or if ty.is_int() => {
                self.error(codes::OPERATOR, "`and` and `or` are for truth values", span, format!("`{ty}`"));
                self.help("on integers write `bitand(a, b)`, `bitor(a, b)`");
                None
            }
            _ => self.operator(ir.symbol(), ty, span),
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
                self.unknown(name, at);
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

    fn call(&mut self, f: &ast::Expr, args: &[CallArg], hint: Option<&Type>, span: Span) -> Option<Val> {
        if let K::Index(base, subs) = &f.kind {
            return self.reduction(base, subs, args, hint, span).map(Val::Expr);
        }
        let Some(name) = f.as_name() else {
            self.error(codes::UNKNOWN, "this cannot be called", f.span, "not a function's name");
            return None;
        };
        if let Some((s, _)) = self.globals.structs.get(name) {
            let s = s.clone();
            return self.structure(&s, args, span).map(Val::Expr);
        }
        if let Some(named) = args.iter().find_map(|a| a.name.as_ref()) {
            let message = format!("`{name}` takes no named arguments");
            self.error(codes::ARGUMENTS, message, named.span, "a name");
            return None;
        }
        let args: Vec<&ast::Expr> = args.iter().map(|a| &a.value).collect();
        if let Some(s) = Scalar::from_name(name) {
            return self.cast(s, &args, span).map(Val::Expr);
        }
        match name {
            "select" => return self.select(&args, hint, span).map(Val::Expr),
            "min" | "max" => return self.min_max(name, &args, hint, span).map(Val::Expr),
            "xor" => {
                self.arity(name, &args, 2, span)?;
                let x = self.expr_as(args[0], &Type::BOOL);
                let y = self.expr_as(args[1], &Type::BOOL);
                return Some(Val::Expr(build::binary(BinOp::Xor, x?, y?)));
            }
            _ => {}
        }
        if let Some((_, op)) = BITS.iter().find(|(n, _)| *n == name) {
            self.arity(name, &args, 2, span)?;
            let x = self.val(args[0], hint);
            let y = self.val(args[1], type_of(&x).as_ref().or(hint));
            let (x, y) = self.unify(x?, y?, hint, (args[0].span, args[1].span))?;
            if !x.ty().is_int() {
                return self.operator(name, x.ty().clone(), span);
            }
            return Some(Val::Expr(build::binary(*op, x, y)));
        }
        if let Some(m) = MathFn::from_name(name) {
            return self.math(m, &args, hint, span).map(Val::Expr);
        }
        self.unknown_function(name, f.span);
        None
    }

    fn unknown_function(&mut self, name: &str, span: Span) {
        if self.globals.callables.iter().any(|c| c == name) {
            let message = format!("calling `{name}` in an expression is not available yet");
            self.error(codes::NOT_YET, message, span, "a kernel or fun");
            return;
        }
        if REDUCERS.contains(&name) || self.globals.ops.contains_key(name) {
            let message = format!("the reduction `{name}` does not say what it reduces");
            self.error(codes::REDUCTION, message, span, "no index");
            self.help(format!("write `{name}[k](…)`"));
            return;
        }
        if matches!(self.lookup(name), Some(Entity::Array { .. })) {
            self.error(codes::UNKNOWN, format!("the array `{name}` cannot be called"), span, "an array");
            self.help(format!("subscripts stand in brackets: `{name}[…]`"));
            return;
        }
        let known = MathFn::ALL.iter().map(|m| m.name()).chain(REDUCERS).chain(["select", "min", "max"]);
        let near = nearest(name, known.chain(self.globals.ops.keys().map(String::as_str)));
        self.error(codes::UNKNOWN, format!("unknown function `{name}`"), span, "no such function");
        match (name, near) {
            ("relu", _) => self.help("write `max(x, 0)`"),
            ("rsqrt", _) => self.help("write `1 / sqrt(x)`"),
            (_, Some(n)) => self.help(format!("did you mean `{n}`?")),
            _ => {}
        }
    }

    fn arity(&mut self, name: &str, args: &[&ast::Expr], n: usize, span: Span) -> Option<()> {
        if args.len() == n {
            return Some(());
        }
        let message =
            format!("`{name}` takes {n} argument{}, here are {}", if n == 1 { "" } else { "s" }, args.len());
        self.error(codes::ARGUMENTS, message, span, "wrong number of arguments");
        None
    }

    fn cast(&mut self, to: Scalar, args: &[&ast::Expr], span: Span) -> Option<Expr> {
        self.arity(to.name(), args, 1, span)?;
        let ty = Type::from(to);
        match self.val(args[0], Some(&ty))? {
            Val::Int(v) if to.is_int() => Some(build::int(to, v)),
            Val::Int(v) if to.is_float() => Some(build::float(to, v as f64)),
            Val::Float(v) if to.is_float() => Some(build::float(to, v)),
            Val::Float(v) => Some(build::cast(ty, build::float(Scalar::F64, v))),
            Val::Int(v) => Some(build::boolean(v != 0)),
            Val::Expr(e) if e.ty().scalar().is_some() => Some(build::cast(ty, e)),
            Val::Expr(e) => self.operator(to.name(), e.ty().clone(), span),
        }
    }

    fn select(&mut self, args: &[&ast::Expr], hint: Option<&Type>, span: Span) -> Option<Expr> {
        self.arity("select", args, 3, span)?;
        let c = self.expr_as(args[0], &Type::BOOL);
        let guard = c.clone().unwrap_or_else(|| build::boolean(true));
        let (first, second) = if flexible(args[1]) && !flexible(args[2]) { (2, 1) } else { (1, 2) };
        let mut vals = [None, None];
        let mut learnt = hint.cloned();
        for n in [first, second] {
            let g = if n == 1 { guard.clone() } else { build::not(guard.clone()) };
            self.st.guards.push(g);
            vals[n - 1] = self.val(args[n], learnt.as_ref());
            self.st.guards.pop();
            learnt = type_of(&vals[n - 1]).or(learnt);
        }
        let [a, b] = vals;
        let (a, b) = self.unify(a?, b?, hint, (args[1].span, args[2].span))?;
        Some(build::select(c?, a, b))
    }

    fn min_max(&mut self, name: &str, args: &[&ast::Expr], hint: Option<&Type>, span: Span) -> Option<Expr> {
        if args.len() < 2 {
            let message = format!("`{name}` takes at least two arguments");
            self.error(codes::ARGUMENTS, message, span, "too few arguments");
            self.help(format!("to reduce over an index write `{name}[k](…)`"));
            return None;
        }
        let op = if name == "min" { BinOp::Min } else { BinOp::Max };
        let mut learnt = hint.cloned();
        let mut vals: Vec<Option<Val>> = vec![None; args.len()];
        // What has a type first, so that literals learn it.
        let (late, early): (Vec<usize>, Vec<usize>) = (0..args.len()).partition(|i| flexible(args[*i]));
        for i in early.into_iter().chain(late) {
            vals[i] = self.val(args[i], learnt.as_ref());
            learnt = type_of(&vals[i]).or(learnt);
        }
        let mut vals = vals.into_iter();
        let mut acc = vals.next()??;
        for (i, v) in vals.enumerate() {
            let (x, y) = self.unify(acc, v?, learnt.as_ref(), (args[i].span, args[i + 1].span))?;
            if !x.ty().is_int() && !x.ty().is_float() {
                return self.operator(name, x.ty().clone(), span);
            }
            acc = Val::Expr(build::binary(op, x, y));
        }
        match acc {
            Val::Expr(e) => Some(e),
            v => self.coerce(v, &hint.cloned().unwrap_or(Type::F32), span),
        }
    }

    fn math(&mut self, m: MathFn, args: &[&ast::Expr], hint: Option<&Type>, span: Span) -> Option<Expr> {
        self.arity(m.name(), args, m.arity(), span)?;
        let mut learnt = hint.filter(|t| t.is_float() || m == MathFn::Abs).cloned();
        let mut vals = Vec::new();
        for a in args {
            let v = self.val(a, learnt.as_ref());
            learnt = type_of(&v).or(learnt);
            vals.push(v);
        }
        let ty = learnt.unwrap_or(Type::F32);
        let mut out = Vec::new();
        for (v, a) in vals.into_iter().zip(args) {
            out.push(self.coerce(v?, &ty, a.span));
        }
        let out: Option<Vec<Expr>> = out.into_iter().collect();
        let signed = ty.scalar().is_some_and(|s| s.is_int() && s.is_signed());
        if ty.is_float() || (m == MathFn::Abs && signed) {
            return Some(build::math(m, out?));
        }
        let e: Option<Expr> = self.operator(m.name(), ty.clone(), span);
        if ty.is_int() {
            self.help(format!("cast first: `{}(f32(…))`", m.name()));
        }
        e
    }

    fn structure(
        &mut self,
        s: &std::sync::Arc<lathe_ir::types::StructType>,
        args: &[CallArg],
        span: Span,
    ) -> Option<Expr> {
        let mut parts: Vec<Option<Expr>> = vec![None; s.fields.len()];
        let mut ok = true;
        for a in args {
            let Some(name) = &a.name else {
                let message = format!("fields of `{}` are given by name", s.name);
                self.error(codes::ARGUMENTS, message, a.value.span, "which field?");
                let fields: Vec<String> = s.fields.iter().map(|f| format!("{}: …", f.0)).collect();
                self.help(format!("write `{}({})`", s.name, fields.join(", ")));
                return None;
            };
            let Some(i) = s.fields.iter().position(|f| *f.0 == *name.text) else {
                let message = format!("`{}` has no field `{}`", s.name, name.text);
                self.error(codes::FIELD, message, name.span, "no such field");
                if let Some(n) = nearest(&name.text, s.fields.iter().map(|f| &*f.0)) {
                    self.help(format!("did you mean `{n}`?"));
                }
                ok = false;
                continue;
            };
            if parts[i].is_some() {
                let message = format!("the field `{}` is given twice", name.text);
                self.error(codes::ARGUMENTS, message, name.span, "again");
                ok = false;
            }
            parts[i] = self.expr_as(&a.value, &s.fields[i].1);
            ok &= parts[i].is_some();
        }
        if !ok {
            return None;
        }
        if let Some(i) = parts.iter().position(Option::is_none) {
            let message = format!("the field `{}` of `{}` is missing", s.fields[i].0, s.name);
            self.error(codes::ARGUMENTS, message, span, "incomplete");
            return None;
        }
        Some(build::aggregate(Type::Struct(s.clone()), parts.into_iter().flatten().collect()))
    }

    /// `sum[k, r in 0..3](e)` and `scan(sum)[i](e)`: a placeholder, and an entry in the statement's list.
    fn reduction(
        &mut self,
        base: &ast::Expr,
        subs: &[Subscript],
        args: &[CallArg],
        hint: Option<&Type>,
        span: Span,
    ) -> Option<Expr> {
        let (name, at, scan) = match &base.kind {
            K::Name(n) => (n.clone(), base.span, false),
            K::Call(f, ops) if f.as_name() == Some("scan") => match ops.as_slice() {
                [CallArg { name: None, value }] if value.as_name().is_some() => {
                    (value.as_name().unwrap_or("").to_string(), value.span, true)
                }
                _ => {
                    self.error(codes::SCAN, "`scan` takes an operator", base.span, "no operator");
                    self.help("write `scan(sum)[i](…)`");
                    return None;
                }
            },
            _ => {
                self.error(codes::UNKNOWN, "this cannot be called", base.span, "not a reduction");
                return None;
            }
        };
        if name == "scan" {
            self.error(codes::SCAN, "`scan` needs an operator", base.span, "which one?");
            self.help("write `scan(sum)[i](…)`");
            return None;
        }
        if matches!(self.lookup(&name), Some(Entity::Array { .. })) {
            self.error(codes::REDUCTION, format!("the array `{name}` cannot be called"), at, "an array");
            self.help("write `*` to multiply");
            return None;
        }
        let op = ReduceOp::from_name(&name);
        let user = match &op {
            ReduceOp::User(n) => match self.globals.ops.get(&**n) {
                Some((o, _)) => Some((o.ty.clone(), o.commutative, o.associative)),
                None => {
                    let known = REDUCERS.into_iter().chain(self.globals.ops.keys().map(String::as_str));
                    let near = nearest(n, known);
                    self.error(codes::REDUCTION, format!("unknown reduction `{n}`"), at, "no such operator");
                    self.help(match near {
                        Some(x) => format!("did you mean `{x}`?"),
                        None => format!("there are {}, and those declared with `op`", REDUCERS.join(", ")),
                    });
                    return None;
                }
            },
            _ => None,
        };
        let arg = matches!(op, ReduceOp::ArgMin | ReduceOp::ArgMax);
        if arg && (scan || subs.len() != 1) {
            let message = format!("`{name}` finds one index");
            self.error(codes::REDUCTION, message, span, if scan { "a scan" } else { "not one index" });
            return None;
        }
        if let Some((_, commutative, associative)) = &user
            && (!associative || (!scan && subs.len() > 1 && !commutative))
        {
            let (what, mark) = if *associative {
                ("commutative", "several indices")
            } else {
                ("associative", "a reduction")
            };
            self.error(codes::REDUCTION, format!("`{name}` is not declared {what}"), at, mark);
            self.help(format!("if it is, say so: `op {name}(…) -> … {what} … = …`"));
            return None;
        }
        let [CallArg { name: None, value }] = args else {
            let message = format!("the reduction `{name}` takes one argument");
            self.error(codes::ARGUMENTS, message, span, "not one argument");
            return None;
        };
        let active = self.st.active.len();
        let mut indices = Vec::new();
        let mut along = None;
        if scan {
            along = Some(self.scanned(subs, span)?);
        } else {
            if subs.is_empty() {
                self.error(codes::REDUCTION, format!("`{name}` has no index"), base.span, "reduces nothing");
                return None;
            }
            for s in subs {
                indices.push(self.reduced_index(s)?);
            }
            for i in &indices {
                let name = self.st.indices[*i].binder.name.to_string();
                self.st.active.push((name, *i));
            }
        }
        let hint = match (&user, arg) {
            (Some((ty, ..)), _) => Some(ty),
            (None, true) => None,
            (None, false) => hint,
        };
        // The body is guarded on its own.
        let body = self.expr(value, hint);
        self.st.active.truncate(active);
        let body = body?;
        let ty = body.ty().clone();
        let ok = match (&op, &user) {
            (_, Some((want, ..))) if ty != *want => {
                self.error(
                    codes::MISMATCH,
                    format!("`{name}` combines values of `{want}`"),
                    value.span,
                    format!("is `{ty}`"),
                );
                return None;
            }
            (_, Some(_)) => true,
            (ReduceOp::All | ReduceOp::Any, _) => ty.is_bool(),
            _ => ty.is_int() || ty.is_float(),
        };
        if !ok {
            return self.operator(&name, ty, value.span);
        }
        let ty = if arg { Type::I64 } else { ty };
        let guards = self.st.guards.clone();
        self.st.reductions.push(Reduction { op, indices, scan: along, body, guards, ty: ty.clone(), span });
        Some(placeholder(self.st.reductions.len() - 1, ty))
    }

    fn reduced_index(&mut self, s: &Subscript) -> Option<usize> {
        let (ident, bounds) = match s {
            Subscript::Range(r) => (r.index.clone(), r.bounds.as_ref()),
            Subscript::Expr(ast::Expr { kind: K::Name(n), span, .. }) => {
                (Ident { text: n.clone(), span: *span }, None)
            }
            Subscript::Expr(e) => {
                self.error(codes::REDUCTION, "a reduction is over indices", e.span, "not a name");
                self.help("write `sum[k](…)` or `sum[k in a..b](…)`");
                return None;
            }
        };
        if self.active(&ident.text).is_some() || self.lookup(&ident.text).is_some() {
            let message = format!("`{}` already has a meaning here", ident.text);
            self.error(codes::REUSED, message, ident.span, "reduced here");
            self.help("choose another name for the index");
            return None;
        }
        let bounds = match bounds {
            Some((lo, hi)) => Some((self.index_expr(lo)?, self.index_expr(hi)?)),
            None => None,
        };
        let binder = self.fresh_var(&ident.text, Scalar::Index);
        self.st.indices.push(Index { binder, span: ident.span, bounds });
        Some(self.st.indices.len() - 1)
    }

    /// The index of a scan: one that is free.
    fn scanned(&mut self, subs: &[Subscript], span: Span) -> Option<usize> {
        let [Subscript::Expr(ast::Expr { kind: K::Name(n), span: at, .. })] = subs else {
            self.error(codes::SCAN, "a scan runs along one index", span, "not one index");
            self.help("write `scan(sum)[i](…)`; the range of `i` follows from the left side, or `where`");
            return None;
        };
        match self.active(n) {
            Some(i) => Some(i),
            None => {
                self.error(
                    codes::SCAN,
                    format!("the scanned index `{n}` is not on the left"),
                    *at,
                    "stays free",
                );
                self.help(format!(
                    "a scan gives one value for each `{n}`: write `S[{n}] = scan(sum)[{n}](…)`"
                ));
                None
            }
        }
    }
}

/// Stands for a reduction until it has a home.
pub fn placeholder(n: usize, ty: Type) -> Expr {
    Expr::new(ExprKind::Call(format!("{PLACEHOLDER}{n}").into(), Vec::new()), ty)
}

/// No name of the language contains it.
const PLACEHOLDER: &str = "$reduction";

/// The number of the reduction that an expression stands for.
pub fn as_placeholder(e: &Expr) -> Option<usize> {
    match e.kind() {
        ExprKind::Call(name, _) => name.strip_prefix(PLACEHOLDER)?.parse().ok(),
        _ => None,
    }
}

fn type_of(v: &Option<Val>) -> Option<Type> {
    match v {
        Some(Val::Expr(e)) => Some(e.ty().clone()),
        _ => None,
    }
}

/// Made of literals only, so that its type comes from elsewhere?
fn flexible(e: &ast::Expr) -> bool {
    match &e.kind {
        K::Int(_) | K::Float(_) => true,
        K::Unary(ast::UnOp::Neg, a) => flexible(a),
        K::Binary(op, a, b) => {
            matches!(op, B::Add | B::Sub | B::Mul | B::Div | B::FloorDiv | B::Mod)
                && flexible(a)
                && flexible(b)
        }
        K::Call(f, args) => match (f.as_name(), args.as_slice(), &f.kind) {
            (Some("select"), [_, a, b], _) => flexible(&a.value) && flexible(&b.value),
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
                B::FloorDiv => build::fold_int(BinOp::FloorDiv, Scalar::I64, *x, *y),
                B::Mod => build::fold_int(BinOp::FloorMod, Scalar::I64, *x, *y),
                B::Div => return Some(Val::Float(*x as f64 / *y as f64)),
                _ => None,
            };
            v.map(Val::Int)
        }
        (Val::Expr(_), _) | (_, Val::Expr(_)) => None,
        _ => {
            let of = |v: &Val| match v {
                Val::Int(v) => *v as f64,
                Val::Float(v) => *v,
                Val::Expr(_) => f64::NAN,
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
