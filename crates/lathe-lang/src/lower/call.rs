//! Calls: casts, `select`, functions of the math table, structs.

use super::expr::{Val, flexible, type_of};
use super::numpy;
use super::reduction::REDUCERS;
use super::scope::{Cx, Entity};
use crate::ast::{self, CallArg, ExprKind as K};
use crate::codes;
use lathe_diagnostics::Span;
use lathe_diagnostics::nearest;
use lathe_ir::{BinOp, Expr, MathFn, Scalar, Type, build};

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

/// Whether kernels have a function of this name that nobody declares.
pub(super) fn built_in(name: &str) -> bool {
    let own = numpy::own_name(name);
    ["select", "min", "max", "xor"].contains(&own)
        || Scalar::from_name(own).is_some()
        || Type::complex_named(own).is_some()
        || BITS.iter().any(|b| b.0 == own)
        || MathFn::from_name(own).is_some()
        || numpy::names().any(|n| n == own)
}

impl Cx<'_> {
    pub fn call(&mut self, f: &ast::Expr, args: &[CallArg], hint: Option<&Type>, span: Span) -> Option<Val> {
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
        let complex = Type::complex_named(name);
        if let Some(Type::Struct(s)) = &complex
            && args.iter().any(|a| a.name.is_some())
        {
            return self.structure(s, args, span).map(Val::Expr);
        }
        if let Some(named) = args.iter().find_map(|a| a.name.as_ref()) {
            let message = format!("`{name}` takes no named arguments");
            self.error(codes::ARGUMENTS, message, named.span, "a name");
            return None;
        }
        let args: Vec<&ast::Expr> = args.iter().map(|a| &a.value).collect();
        if self.globals.funs.contains_key(name) && built_in(name) {
            let message = format!("`{name}` is built in, and a fun of the file");
            self.error(codes::DUPLICATE, message, f.span, "which one?");
            self.help("rename the fun");
            return None;
        }
        let name = numpy::own_name(name);
        if let Some(done) = self.composed(name, &args, hint, span) {
            return done.map(Val::Expr);
        }
        if let Some(s) = Scalar::from_name(name) {
            return self.cast(s, &args, span).map(Val::Expr);
        }
        if let Some(to) = complex {
            return self.complex_cast(&to, &args, span).map(Val::Expr);
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
            return self.math(m, &args, hint, span);
        }
        if let Some(fun) = self.globals.funs.get(name) {
            return self.inlined(name, fun, &args, span).map(Val::Expr);
        }
        if let Some(done) = self.part_function(name, &args, hint, span) {
            return done.map(Val::Expr);
        }
        self.unknown_function(name, f.span);
        None
    }

    fn unknown_function(&mut self, name: &str, span: Span) {
        if self.globals.callables.iter().any(|c| c == name) {
            let message = format!("calling `{name}` in an expression is not available yet");
            self.error(codes::NOT_YET, message, span, "a kernel, or a fun on arrays");
            self.help(
                "expressions call funs that take scalars and give an expression of them; kernels are called as \
                 statements, `y = norm(x)`",
            );
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
        let known = MathFn::ALL
            .iter()
            .map(|m| m.name())
            .chain(REDUCERS)
            .chain(numpy::names())
            .chain(["select", "min", "max"]);
        let near = nearest(name, known.chain(self.globals.ops.keys().map(String::as_str)));
        self.error(codes::UNKNOWN, format!("unknown function `{name}`"), span, "no such function");
        match (name, near) {
            ("absolute", _) => self.help("write `abs(x)`"),
            (_, Some(n)) => self.help(format!("did you mean `{n}`?")),
            _ => {}
        }
    }

    pub(super) fn arity(&mut self, name: &str, args: &[&ast::Expr], n: usize, span: Span) -> Option<()> {
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
        let v = self.val(args[0], Some(&ty))?;
        match v {
            Val::Int(v) if to.is_int() => Some(build::int(to, v)),
            Val::Int(v) if to.is_float() => Some(build::float(to, v as f64)),
            Val::Large(_) if to.is_int() && to != Scalar::U64 && to.bits() == 64 => {
                self.coerce(v, &ty, args[0].span)
            }
            Val::Large(v) if to.is_int() => Some(build::int(to, v as i64)),
            Val::Large(v) if to.is_float() => Some(build::float(to, v as f64)),
            Val::Large(_) => Some(build::boolean(true)),
            Val::Float(v) if to.is_float() => Some(build::float(to, v)),
            Val::Float(v) => Some(build::cast(ty, build::float(Scalar::F64, v))),
            Val::Imaginary(_) => self.operator(to.name(), Type::complex(Scalar::F32)?, span),
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

    fn math(&mut self, m: MathFn, args: &[&ast::Expr], hint: Option<&Type>, span: Span) -> Option<Val> {
        self.arity(m.name(), args, m.arity(), span)?;
        let mut learnt = hint.filter(|t| t.is_float() || m == MathFn::Abs && t.is_int()).cloned();
        let mut vals = Vec::new();
        for a in args {
            let v = self.val(a, learnt.as_ref());
            learnt = type_of(&v).or(learnt);
            vals.push(v);
        }
        if vals.iter().flatten().any(Val::is_complex) {
            let vals =
                vals.into_iter().zip(args).map(|(v, a)| Some((v?, a.span))).collect::<Option<Vec<_>>>()?;
            return self.complex_function(m.name(), vals, hint, span).map(Val::Expr);
        }
        // A literal stays one, as behind a sign.
        let ty = match (m, vals.as_slice()) {
            (MathFn::Abs, [Some(Val::Float(v))]) if learnt.is_none() => return Some(Val::Float(v.abs())),
            (MathFn::Abs, [Some(Val::Int(v))]) if learnt.is_none() => match v.checked_abs() {
                Some(v) => return Some(Val::Int(v)),
                None => Type::INDEX,
            },
            _ => learnt.unwrap_or(Type::F32),
        };
        // One message for what is no float, instead of one that asks for its type elsewhere.
        let types: Vec<Option<Type>> = vals.iter().map(type_of).collect();
        let wrong = types.iter().position(|t| t.as_ref().is_some_and(|t| !t.is_float()));
        if let Some((n, t)) = wrong.filter(|_| args.len() > 1).and_then(|n| Some((n, types[n].clone()?))) {
            let out: Option<Val> = self.operator(m.name(), t.clone(), args[n].span);
            if t.is_int() {
                let float = types.into_iter().flatten().find(Type::is_float).unwrap_or(Type::F32);
                self.help(format!("cast it: `{float}(…)`"));
            }
            return out;
        }
        let mut out = Vec::new();
        for (v, a) in vals.into_iter().zip(args) {
            out.push(self.coerce(v?, &ty, a.span));
        }
        let out: Option<Vec<Expr>> = out.into_iter().collect();
        let signed = ty.scalar().is_some_and(|s| s.is_int() && s.is_signed());
        if ty.is_float() || (m == MathFn::Abs && signed) {
            return Some(Val::Expr(build::math(m, out?)));
        }
        let e: Option<Val> = self.operator(m.name(), ty.clone(), span);
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
}
