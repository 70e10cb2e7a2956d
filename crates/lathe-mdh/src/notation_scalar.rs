//! Expressions of the notation: subscripts, operators, and scalar functions over the accesses in order.

use crate::codes;
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::{BinOp, Binder, Expr, ExprKind, MathFn, Module, Scalar, Type, build};
use lathe_poly::Linear;
use lathe_space::{BinOp as Op, Expr as Text, UnOp, Value};

/// A subscript: sums of indices with constant factors. `names` call the indices here.
///
/// # Errors
/// Why it is none.
pub fn index_expr(
    written: &Text,
    names: &[String],
    indices: &[Binder],
    sizes: &[Binder],
) -> Result<Expr, String> {
    fn go(e: &Text, name: &dyn Fn(&str) -> Option<Expr>) -> Result<Expr, String> {
        Ok(match e {
            Text::Value(Value::Int(v)) if v.abs() < 1 << 40 => build::index(*v),
            Text::Name(n) => name(n).ok_or_else(|| format!("`{n}` is not an index"))?,
            Text::Unary(UnOp::Neg, a) => build::neg(go(a, name)?),
            Text::Binary(op, a, b) => {
                let (a, b) = (go(a, name)?, go(b, name)?);
                match op {
                    Op::Add => build::add(a, b),
                    Op::Sub => build::sub(a, b),
                    Op::Mul => build::mul(a, b),
                    _ => return Err(format!("`{}` is not affine", op.symbol())),
                }
            }
            other => return Err(format!("`{other}` is not a subscript")),
        })
    }
    let name = |n: &str| {
        let index = names.iter().position(|x| x == n).and_then(|d| indices.get(d));
        index.or_else(|| sizes.iter().find(|s| &*s.name == n)).map(build::var)
    };
    go(written, &name)
}

/// The smallest and the largest value of an affine subscript over the whole box, as forms over sizes.
pub fn ends(
    e: &Expr,
    (indices, extents): (&[Binder], &[Binder]),
    sizes: &[Binder],
) -> Option<(Linear, Linear)> {
    let form = Linear::of(e);
    let (mut low, mut high) = (Linear::constant(form.constant), Linear::constant(form.constant));
    for (atom, c) in &form.terms {
        let last = match indices.iter().position(|b| Some(b.id) == atom.as_var()) {
            Some(d) => Linear::of(&build::sub(build::var(&extents[d]), build::index(1))),
            None if sizes.iter().any(|s| Some(s.id) == atom.as_var()) => {
                let size = Linear::of(atom);
                (low, high) = (low.plus(&size, *c)?, high.plus(&size, *c)?);
                continue;
            }
            None => return None,
        };
        if *c > 0 {
            high = high.plus(&last, *c)?;
        } else {
            low = low.plus(&last, *c)?;
        }
    }
    Some((low, high))
}

/// Whether a form over sizes is 0 or more whatever they are.
pub fn never_negative(form: &Linear) -> bool {
    form.constant >= 0 && form.terms.iter().all(|(_, c)| *c >= 0)
}

/// The larger of two extents: where one is the larger for all sizes, that one itself.
pub fn larger(a: Expr, b: Expr) -> Expr {
    let above = |a: &Expr, b: &Expr| Linear::of(a).minus(&Linear::of(b)).is_some_and(|d| never_negative(&d));
    if above(&a, &b) {
        a
    } else if above(&b, &a) {
        b
    } else {
        build::max(a, b)
    }
}

/// Whether subscripts, whose smallest values are `low`, reach every element of a buffer that is as large as they need:
/// each runs through its dimension by an index of its own, forwards or backwards, or is the only element.
pub fn covers(subscripts: &[Expr], low: &[Linear], indices: &[Binder]) -> bool {
    let mut used = Vec::new();
    subscripts.iter().zip(low).all(|(e, low)| {
        let form = Linear::of(e);
        let mut own = form.terms.iter().filter_map(|(atom, c)| {
            let v = indices.iter().position(|b| Some(b.id) == atom.as_var())?;
            Some((v, *c))
        });
        match (own.next(), own.next()) {
            (None, _) => low.as_constant() == Some(0),
            (Some((v, 1 | -1)), None) if !used.contains(&v) => {
                used.push(v);
                low.as_constant() == Some(0)
            }
            _ => false,
        }
    })
}

/// What scalar functions see.
pub struct Scalars<'a> {
    /// One per access of the inputs, in order.
    pub loads: &'a [Expr],
    pub indices: &'a [Binder],
    /// Structs.
    pub declared: &'a Module,
}

impl Scalars<'_> {
    fn fail<T>(&self, at: Span, message: String) -> Result<T, Diagnostic> {
        Err(Diagnostic::error(codes::NOTATION, message).at(at, "this scalar function"))
    }

    /// `*`, `+` and `id`.
    ///
    /// # Errors
    /// E1221 for another name, or types that do not fit.
    pub fn named(&self, f: &str, at: Span, wanted: &[Type]) -> Result<Vec<Expr>, Diagnostic> {
        let same = self.loads.windows(2).all(|w| w[0].ty() == w[1].ty());
        let value = match (f, self.loads) {
            ("id", [one]) => one.clone(),
            ("*" | "+", [first, rest @ ..]) if same && first.ty().scalar() != Some(Scalar::Bool) => {
                let op = if f == "*" { BinOp::Mul } else { BinOp::Add };
                rest.iter().fold(first.clone(), |a, b| build::binary(op, a, b.clone()))
            }
            ("*" | "+" | "id", _) => {
                return self.fail(at, format!("`{f}` is not defined on these {} accesses", self.loads.len()));
            }
            _ => {
                return self.fail(
                    at,
                    format!(
                        "`{}` is not a scalar function; write one, as in `(a,b) -> a * b`",
                        f.escape_debug()
                    ),
                );
            }
        };
        match wanted {
            [t] if t == value.ty() => Ok(vec![value]),
            _ => {
                self.fail(at, format!("`{f}` returns one `{}`, which does not match the outputs", value.ty()))
            }
        }
    }

    /// `(a,b) -> a * b`; more parameters than accesses are the indices (the thesis's `USE_MDA_INDICES`).
    ///
    /// # Errors
    /// E1221 for another number of parameters or results, and types that do not fit.
    pub fn written(
        &self,
        params: &[String],
        results: &[(Text, Span)],
        wanted: &[Type],
    ) -> Result<Vec<Expr>, Diagnostic> {
        let Some(at) = results.first().map(|r| r.1) else { return Ok(Vec::new()) };
        let mut known: Vec<Expr> = self.loads.to_vec();
        if params.len() == self.loads.len() + self.indices.len() {
            known.extend(self.indices.iter().map(build::var));
        }
        if params.len() != known.len() {
            let text = format!(
                "the scalar function has {} parameters for {} accesses",
                params.len(),
                self.loads.len()
            );
            return self.fail(at, text);
        }
        if results.len() != wanted.len() {
            let text = format!(
                "the scalar function has {} results for {} accesses of outputs",
                results.len(),
                wanted.len()
            );
            return self.fail(at, text);
        }
        let lookup = |n: &str| params.iter().position(|p| p == n).map(|k| known[k].clone());
        let mut out = Vec::new();
        for ((written, at), t) in results.iter().zip(wanted) {
            match value(written, &Names { lookup: &lookup, declared: self.declared }, Some(t)) {
                Ok(v) if v.ty() == t => out.push(v),
                Ok(v) => {
                    return self
                        .fail(*at, format!("`{written}` is a `{}`, but the output has `{t}`", v.ty()));
                }
                Err(why) => return self.fail(*at, why),
            }
        }
        Ok(out)
    }
}

/// What names in scalar functions stand for.
struct Names<'a> {
    lookup: &'a dyn Fn(&str) -> Option<Expr>,
    declared: &'a Module,
}

impl Names<'_> {
    /// `x`, `x.field`, `x.field.field`
    fn get(&self, name: &str) -> Result<Expr, String> {
        let mut parts = name.split('.');
        let first = parts.next().unwrap_or_default();
        let start = (self.lookup)(first)
            .ok_or_else(|| format!("`{first}` is not a parameter of the scalar function"))?;
        parts.try_fold(start, |e, part| {
            let Type::Struct(s) = e.ty().clone() else {
                return Err(format!("`{}` has no field `{part}`", e.ty()));
            };
            let at = s.fields.iter().position(|f| &*f.0 == part);
            at.map(|at| build::field(e, at as u32))
                .ok_or_else(|| format!("`{}` has no field `{part}`", s.name))
        })
    }
}

/// A literal takes the type of the other operand, else the wanted one.
fn value(e: &Text, lookup: &Names, wanted: Option<&Type>) -> Result<Expr, String> {
    let number = |v: f64, whole: Option<i64>| {
        let s = wanted.and_then(Type::scalar).unwrap_or(Scalar::F32);
        match whole {
            _ if s.is_float() => Ok(build::float(s, v)),
            Some(i) if s.is_int() => Ok(build::int(s, i)),
            _ => Err(format!("`{v}` is not a `{s}`")),
        }
    };
    let literal = |e: &Text| {
        matches!(e, Text::Value(_)) || matches!(e, Text::Unary(_, a) if matches!(**a, Text::Value(_)))
    };
    let pair = |a: &Text, b: &Text, want: Option<&Type>| -> Result<(Expr, Expr), String> {
        let (x, y) = if literal(a) {
            let y = value(b, lookup, want)?;
            (value(a, lookup, Some(y.ty()))?, y)
        } else {
            let x = value(a, lookup, want)?;
            let y = value(b, lookup, Some(x.ty()))?;
            (x, y)
        };
        if x.ty() == y.ty() { Ok((x, y)) } else { Err(format!("`{e}` joins `{}` and `{}`", x.ty(), y.ty())) }
    };
    let wrong = |t: &Type| Err(format!("`{e}` is not defined on `{t}`"));
    Ok(match e {
        Text::Value(Value::Int(v)) => number(*v as f64, Some(*v))?,
        Text::Value(Value::Float(v)) => number(*v, None)?,
        Text::Value(Value::Bool(b)) => build::boolean(*b),
        Text::Value(Value::Str(s)) => return Err(format!("`{s}` is not a number")),
        Text::Name(n) => lookup.get(n)?,
        Text::Unary(op, a) => {
            let a = value(a, lookup, wanted)?;
            match op {
                UnOp::Neg if !a.ty().is_bool() => build::neg(a),
                UnOp::Not if a.ty().is_bool() => build::not(a),
                _ => return wrong(a.ty()),
            }
        }
        Text::Binary(op, a, b) => {
            let (a, b) = pair(a, b, if op.compares() { None } else { wanted })?;
            let (float, int, boolean) = (a.ty().is_float(), a.ty().is_int(), a.ty().is_bool());
            let bin = BinOp::from(*op);
            let fits = match op {
                Op::Add | Op::Sub | Op::Mul | Op::Lt | Op::Le | Op::Gt | Op::Ge => float || int,
                Op::Div => float,
                Op::FloorDiv | Op::Mod => int,
                Op::Eq | Op::Ne => true,
                Op::And | Op::Or => boolean,
            };
            if !fits {
                return wrong(a.ty());
            }
            match (bin, a.kind(), b.kind(), a.ty().scalar()) {
                // `-1.0 / 0.0` is how infinity is written.
                (BinOp::Div, ExprKind::Float(x), ExprKind::Float(y), Some(s)) => {
                    build::float(s, x.get() / y.get())
                }
                _ => build::binary(bin, a, b),
            }
        }
        Text::Call(f, args) => match (f.as_str(), args.as_slice()) {
            ("min" | "max", [a, b]) => {
                let (a, b) = pair(a, b, wanted)?;
                if a.ty().is_bool() {
                    return wrong(a.ty());
                }
                build::binary(if f == "min" { BinOp::Min } else { BinOp::Max }, a, b)
            }
            ("select", [c, a, b]) => {
                let c = value(c, lookup, None)?;
                let (a, b) = pair(a, b, wanted)?;
                if !c.ty().is_bool() {
                    return wrong(c.ty());
                }
                build::select(c, a, b)
            }
            (f, args) if lookup.declared.structs.contains_key(f) => {
                let s = lookup.declared.structs[f].clone();
                if args.len() != s.fields.len() {
                    return Err(format!("`{f}` has {} fields, not {}", s.fields.len(), args.len()));
                }
                let mut parts = Vec::new();
                for (a, (name, ty)) in args.iter().zip(&s.fields) {
                    let part = value(a, lookup, Some(ty))?;
                    if part.ty() != ty {
                        return Err(format!("the field `{name}` of `{f}` is a `{ty}`, not `{}`", part.ty()));
                    }
                    parts.push(part);
                }
                build::aggregate(Type::Struct(s), parts)
            }
            (f, [a]) if Scalar::from_name(f).is_some() => {
                let a = value(a, lookup, None)?;
                build::cast(Scalar::from_name(f).map_or(Type::F32, Type::from), a)
            }
            (f, args) => match MathFn::from_name(f) {
                Some(m) if m.arity() == args.len() => {
                    let args =
                        args.iter().map(|a| value(a, lookup, wanted)).collect::<Result<Vec<_>, _>>()?;
                    let first = args[0].ty().clone();
                    if !first.is_float() || args.iter().any(|a| *a.ty() != first) {
                        return wrong(&first);
                    }
                    build::math(m, args)
                }
                _ => return Err(format!("there is no function `{f}` with {} arguments", args.len())),
            },
        },
    })
}
