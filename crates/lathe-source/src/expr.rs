//! Expressions: C text for values, with temporaries for what is used more than once.

pub(crate) mod arith;

use crate::emit::{Buf, Emitter, Place, Result, Val, fallback, ill_formed, not_in_registers, unsupported};
use crate::helpers::{memory_type, unsigned_type};
use crate::writer::{bare, is_atom};
use lathe_diagnostics::Places;
use lathe_ir::build::{add, index, mul};
use lathe_ir::math::expand_expr;
use lathe_ir::scalar::of_f64;
use lathe_ir::visit::walk_expr;
use lathe_ir::{Access, BinOp, Expr, ExprKind, MathFn, Scalar, Type, UnOp};
use std::collections::HashMap;

impl Emitter<'_> {
    /// Begins a statement: counts uses, and forgets values, since memory may have changed.
    pub fn begin(&mut self, exprs: &[&Expr]) {
        let f = self.frame();
        f.memo.iter_mut().for_each(HashMap::clear);
        f.uses.clear();
        for e in exprs {
            self.count_uses(e);
        }
    }

    /// Adds the uses of an expression that the statement evaluates.
    fn count_uses(&mut self, e: &Expr) {
        fn count(e: &Expr, uses: &mut HashMap<Expr, u32>) {
            let n = uses.entry(e.clone()).or_insert(0);
            *n += 1;
            if *n == 1 {
                for c in e.children() {
                    count(c, uses);
                }
            }
        }
        count(e, &mut self.frame().uses);
    }

    /// The value of an expression; statements that it needs are written before.
    pub fn expr(&mut self, e: &Expr) -> Result<Val> {
        match e.kind() {
            ExprKind::Bool(v) => return Ok(Val::scalar(if *v { "1" } else { "0" })),
            ExprKind::Int(v) => return Ok(Val::scalar(integer(scalar_of(e)?, *v))),
            ExprKind::Float(v) => return Ok(Val::scalar(float(scalar_of(e)?, v.get()))),
            ExprKind::Var(v) => return self.var(*v),
            _ => {}
        }
        if let Some(known) = self.frame().memo.iter().rev().find_map(|m| m.get(e)) {
            return Ok(known.clone());
        }
        let v = self.compute(e)?;
        if self.frame().uses.get(e).is_some_and(|n| *n > 1) {
            let v = self.named(v, e.ty())?;
            let f = self.frame();
            if let Some(layer) = f.memo.last_mut() {
                layer.insert(e.clone(), v.clone());
            }
            return Ok(v);
        }
        Ok(v)
    }

    /// A value that is the same in all lanes.
    pub fn uniform(&mut self, e: &Expr) -> Result<String> {
        let v = self.expr(e)?;
        if v.lanes { Err(fallback()) } else { Ok(v.text) }
    }

    /// The value in a constant of its own, unless it is a name or a number already.
    pub fn named(&mut self, v: Val, ty: &Type) -> Result<Val> {
        if is_atom(&v.text) {
            return Ok(v);
        }
        let t = if v.lanes { self.lanes_type(ty)? } else { self.element_type(ty)? };
        let name = self.names.fresh("t");
        self.line(format!("const {t} {name} = {};", bare(&v.text)));
        Ok(Val { text: name, lanes: v.lanes })
    }

    fn compute(&mut self, e: &Expr) -> Result<Val> {
        match e.kind() {
            ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) => self.expr(e),
            ExprKind::Unary(op, a) => {
                let s = self.arithmetic_of(e, scalar_of(a)?);
                let v = self.expr(a)?;
                if v.lanes { self.lanes_unary(*op, s, &v) } else { Ok(Val::scalar(unary(*op, s, &v.text)?)) }
            }
            ExprKind::Binary(op, a, b) => {
                let s = self.arithmetic_of(e, scalar_of(a)?);
                let (x, y) = (self.expr(a)?, self.expr(b)?);
                if x.lanes || y.lanes {
                    return self.lanes_binary(*op, s, &x, &y, b.as_int());
                }
                let apart = *op == BinOp::Sub && s.is_float() && self.device.is_none();
                let mut text = |of: &Expr, text: String| match of.kind() {
                    ExprKind::Binary(BinOp::Mul, ..) if apart => {
                        format!("{}({})", self.helpers.rounded(), bare(&text))
                    }
                    _ => text,
                };
                let (x, y) = (text(a, x.text), text(b, y.text));
                self.binary(*op, s, x, y, b.as_int())
            }
            ExprKind::Select(c, a, b) => self.select(e, c, a, b),
            ExprKind::Cast(a) => {
                let (from, to) = (scalar_of(a)?, scalar_of(e)?);
                let v = self.expr(a)?;
                if v.lanes {
                    self.lanes_cast(from, to, &v)
                } else {
                    Ok(Val::scalar(self.cast(from, to, &v.text)))
                }
            }
            ExprKind::Bitcast(a) => {
                let (from, to) = (scalar_of(a)?, scalar_of(e)?);
                if from.bits() != to.bits() {
                    return Err(ill_formed("a bitcast between widths"));
                }
                let v = self.expr(a)?;
                if v.lanes {
                    self.lanes_bitcast(from, to, &v)
                } else {
                    Ok(Val::scalar(self.bitcast(from, to, &v.text)))
                }
            }
            ExprKind::Math(f, args) => {
                let s = scalar_of(e)?;
                if !f.is_exact() {
                    let expanded = expand_expr(e);
                    if expanded == *e {
                        return Err(unsupported(
                            format!("the function `{}` of {s}", f.name()),
                            &Places::none(),
                        ));
                    }
                    self.count_uses(&expanded);
                    return self.expr(&expanded);
                }
                let mut vals = Vec::new();
                for a in args {
                    vals.push(self.expr(a)?);
                }
                if vals.iter().any(|v| v.lanes) {
                    return self.lanes_math(*f, s, &vals);
                }
                self.math(*f, s, vals)
            }
            ExprKind::Load(a) => self.load(a),
            ExprKind::Address(a) => Err(unsupported("the address of an element", &a.places)),
            ExprKind::Aggregate(parts) => {
                let ty = self.element_type(e.ty())?;
                let mut texts = Vec::new();
                for p in parts {
                    let v = self.uniform(p)?;
                    texts.push(v);
                }
                let array = matches!(e.ty(), Type::Array(..) | Type::Vector(..));
                if self.device.is_some_and(|d| d.language == crate::device::language::Language::Cuda) {
                    return self.aggregate_in_cpp(&ty, &e.ty().fields(), &texts, array);
                }
                let inner = texts.join(", ");
                Ok(Val::scalar(if array {
                    format!("(({ty}){{{{{inner}}}}})")
                } else {
                    format!("(({ty}){{{inner}}})")
                }))
            }
            ExprKind::Field(a, i) => {
                let v = self.uniform(a)?;
                Ok(Val::scalar(format!("{v}{}", Emitter::component(a.ty(), *i))))
            }
            ExprKind::Call(..) => Err(ill_formed("a call that is gone after lowering")),
        }
    }

    /// C++ has no compound literals, and narrows nothing in braces by itself.
    fn aggregate_in_cpp(&mut self, ty: &str, fields: &[Type], texts: &[String], array: bool) -> Result<Val> {
        let mut parts = Vec::new();
        for (t, text) in fields.iter().zip(texts) {
            parts.push(format!("({})({})", self.element_type(t)?, bare(text)));
        }
        let inner = parts.join(", ");
        Ok(Val::scalar(if array { format!("{ty}{{{{{inner}}}}}") } else { format!("{ty}{{{inner}}}") }))
    }

    /// Lazy where a branch could fail or read out of bounds.
    /// The arithmetic of an operation: that of its operands' type. An `index` operation in an arm of `select`, which may be
    /// evaluated where its value is not wanted, wraps unless it is known to fit.
    fn arithmetic_of(&self, e: &Expr, s: Scalar) -> Scalar {
        let wraps = s == Scalar::Index && self.lazy > 0 && e.ty().is_index() && !self.ranges.fits(e);
        if wraps { Scalar::I64 } else { s }
    }

    fn select(&mut self, e: &Expr, c: &Expr, a: &Expr, b: &Expr) -> Result<Val> {
        let cond = self.expr(c)?;
        if cond.lanes {
            if !(is_safe(a) && is_safe(b)) {
                return Err(fallback());
            }
            let (x, y) = (self.expr(a)?, self.expr(b)?);
            return self.lanes_select(&cond, scalar_of(e)?, &x, &y);
        }
        if is_safe(a) && is_safe(b) {
            self.lazy += 1;
            let arms = (self.expr(a), self.expr(b));
            self.lazy -= 1;
            let (x, y) = (arms.0?, arms.1?);
            if x.lanes || y.lanes {
                let s = scalar_of(e)?;
                let (x, y) = (self.widened(&x, s)?, self.widened(&y, s)?);
                let (x, y) = (self.named(x, e.ty())?, self.named(y, e.ty())?);
                return Ok(Val { text: format!("({} ? {} : {})", cond.text, x.text, y.text), lanes: true });
            }
            return Ok(Val::scalar(format!("({} ? {} : {})", cond.text, x.text, y.text)));
        }
        if self.lanes.is_some() {
            return Err(fallback());
        }
        let t = self.element_type(e.ty())?;
        let name = self.names.fresh("t");
        self.line(format!("{t} {name};"));
        self.open(format!("if ({}) {{", bare(&cond.text)));
        let x = self.uniform(a)?;
        self.line(format!("{name} = {};", bare(&x)));
        self.close("} else {");
        let y = self.uniform(b)?;
        self.line(format!("{name} = {};", bare(&y)));
        self.close("}");
        Ok(Val::scalar(name))
    }

    fn load(&mut self, a: &Access) -> Result<Val> {
        let b = self.buf_of(a)?;
        if self.lanes.is_some() && self.varies(&a.indices) {
            return self.lanes_load(&b, &a.indices, a);
        }
        let at = self.element(&b, &a.indices)?;
        Ok(Val::scalar(at))
    }

    /// The C text of an element: `A[i * A_s0 + j]`.
    pub fn element(&mut self, b: &Buf, indices: &[Expr]) -> Result<String> {
        let offset = self.offset(b, indices)?;
        Ok(format!("{}[{}]", b.name, bare(&offset)))
    }

    /// Elements from the one with all subscripts 0.
    pub fn offset(&mut self, b: &Buf, indices: &[Expr]) -> Result<String> {
        match &b.storage {
            Place::Param { strides, .. } => {
                if indices.len() != strides.len() {
                    return Err(ill_formed(format!("{} subscripts on `{}`", indices.len(), b.decl.name)));
                }
                let mut terms = Vec::new();
                for (i, s) in indices.iter().zip(strides) {
                    let text = self.uniform(i)?;
                    if text == "0" {
                        continue;
                    }
                    let s = self.stride(b, s);
                    let sum = ["*", "+", "-"];
                    terms.push(match s.as_str() {
                        "1" => operand(&text, if terms.is_empty() { &sum } else { &sum[..2] }).to_string(),
                        s => format!("{} * {s}", operand(&text, &["*"])),
                    });
                }
                Ok(if terms.is_empty() { "0".to_string() } else { terms.join(" + ") })
            }
            Place::Local { strides } => {
                let terms = indices.iter().zip(strides);
                let sum = terms.fold(index(0), |sum, (i, s)| add(sum, mul(i.clone(), s.clone())));
                self.uniform(&sum)
            }
            Place::Registers { .. } => Err(not_in_registers()),
        }
    }
}

pub fn scalar_of(e: &Expr) -> Result<Scalar> {
    e.ty().scalar().ok_or_else(|| ill_formed(format!("a scalar is expected, not {}", e.ty())))
}

pub fn no_operator(op: BinOp, s: Scalar) -> lathe_diagnostics::Diagnostic {
    ill_formed(format!("`{}` is not defined on {s}", op.symbol()))
}

/// The name of the compiler's function without its suffix.
pub fn exact_name(f: MathFn) -> Option<&'static str> {
    Some(match f {
        MathFn::Abs => "fabs",
        MathFn::Sqrt => "sqrt",
        MathFn::Fma => "fma",
        MathFn::Floor => "floor",
        MathFn::Ceil => "ceil",
        MathFn::Round => "rint",
        MathFn::Trunc => "trunc",
        _ => return None,
    })
}

/// Whether the branch of a `select` may be evaluated though it is not taken.
pub fn is_safe(e: &Expr) -> bool {
    let mut safe = true;
    walk_expr(e, &mut |x| match x.kind() {
        ExprKind::Load(_) | ExprKind::Call(..) => safe = false,
        ExprKind::Binary(BinOp::FloorDiv | BinOp::FloorMod | BinOp::TruncDiv | BinOp::TruncRem, _, d) => {
            safe &= d.as_int().is_some_and(|d| d != 0 && d != -1);
        }
        ExprKind::Math(MathFn::Abs, _) if x.ty().is_index() => safe = false,
        _ => {}
    });
    safe
}

fn unary(op: UnOp, s: Scalar, v: &str) -> Result<String> {
    Ok(match (op, s) {
        (UnOp::Neg, _) if s.is_float() || s == Scalar::Index => format!("(-{v})"),
        (UnOp::Not, Scalar::Bool) => format!("(!{v})"),
        (UnOp::Neg, _) if s.is_int() => format!("({})(0 - ({}){v})", memory_type(s), unsigned_type(s.bits())),
        (UnOp::Not, _) if s.is_int() => format!("({})(~{v})", memory_type(s)),
        _ => return Err(ill_formed(format!("{op:?} is not defined on {s}"))),
    })
}

/// An integer literal of its type.
pub fn integer(s: Scalar, v: i64) -> String {
    match s {
        Scalar::Index | Scalar::I64 if v == i64::MIN => "INT64_MIN".to_string(),
        Scalar::I32 if v == i64::from(i32::MIN) => "INT32_MIN".to_string(),
        Scalar::U64 => format!("UINT64_C({})", v as u64),
        Scalar::U32 => format!("{}u", v as u32),
        Scalar::I64 => format!("INT64_C({v})"),
        _ if v < 0 => format!("({v})"),
        _ => v.to_string(),
    }
}

/// A float literal: the shortest decimal that reads back as the same value, or the bits of one of 16 bits.
pub fn float(s: Scalar, v: f64) -> String {
    if s.bits() == 16 {
        return of_f64(s, v).to_string();
    }
    let suffix = if s == Scalar::F64 { "" } else { "f" };
    if v.is_nan() {
        return format!("__builtin_nan{suffix}(\"\")");
    }
    if v.is_infinite() {
        return format!("({}__builtin_inf{suffix}())", if v < 0.0 { "-" } else { "" });
    }
    let text = if s == Scalar::F64 { format!("{v:?}") } else { format!("{:?}", v as f32) };
    if v.is_sign_negative() { format!("({text}{suffix})") } else { format!("{text}{suffix}") }
}

/// An operand without its parentheses if nothing but the given operators stands inside them.
fn operand<'a>(text: &'a str, operators: &[&str]) -> &'a str {
    let inner = bare(text);
    if inner.len() == text.len() {
        return text;
    }
    let mut depth = 0i32;
    let mut fits = true;
    for word in inner.split(' ') {
        if depth == 0 && !word.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '(') {
            fits &= operators.contains(&word);
        }
        depth += word
            .chars()
            .map(|c| i32::from(c == '(' || c == '[') - i32::from(c == ')' || c == ']'))
            .sum::<i32>();
    }
    // A cast or a sign may begin the text.
    if fits && !inner.starts_with('(') && !inner.starts_with('-') { inner } else { text }
}
