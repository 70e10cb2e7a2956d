//! Parsing expressions, accesses and views. Nothing is folded: the tree is the one that was printed.

use super::lex::Tok;
use super::parse::{Failed, Parsed, Parser};
use super::print_expr::{natural_type, strength};
use super::{MAX_DEPTH, MAX_HEIGHT};
use crate::codes;
use crate::expr::{Access, Expr, ExprKind, F64Bits, Status, View};
use crate::ids::{BufId, VarId};
use crate::ops::{BinOp, MathFn, UnOp};
use crate::types::{Name, Scalar, Type};
use lathe_diagnostics::{Diagnostic, Places, Span};

impl Parser {
    pub(crate) fn expr(&mut self) -> Parsed<Expr> {
        self.infix(0)
    }

    /// `with $1 = e, $2 = e in`, if it is there; the names hold until the statement ends.
    pub(crate) fn with_bindings(&mut self) -> Parsed<()> {
        if !self.eat_word("with") {
            return Ok(());
        }
        loop {
            self.expect("$")?;
            let at = self.span();
            let n = self.number("the number of a shared expression", u64::from(u32::MAX))? as u32;
            self.expect("=")?;
            let e = self.expr()?;
            if self.shared.insert(n, e).is_some() {
                let _ = self.error::<()>(codes::BOUND_TWICE, at, format!("`${n}` is bound twice"));
            }
            if !self.eat(",") {
                return self.expect_word("in");
            }
        }
    }

    /// The one constructor: checks how high expressions grow, since everything that walks them recurses.
    fn make(&mut self, span: Span, kind: ExprKind, ty: Type) -> Parsed<Expr> {
        let e = Expr::new(kind, ty);
        let height = e
            .children()
            .iter()
            .map(|c| self.heights.get(&c.address()).copied().unwrap_or(0) + 1)
            .max()
            .unwrap_or(0);
        if height > MAX_HEIGHT {
            let what = format!("this expression is more than {MAX_HEIGHT} operations high");
            return self.error(codes::TOO_DEEP, span, what);
        }
        self.heights.insert(e.address(), height);
        Ok(e)
    }

    /// A node of the type that its operands imply.
    fn natural(&mut self, start: Span, kind: ExprKind) -> Parsed<Expr> {
        let span = self.span_from(start);
        match natural_type(&kind, &Type::Tuple(Vec::new().into())) {
            Some(ty) => self.make(span, kind, ty),
            None => {
                self.error(codes::SYNTAX, span, "the type of this expression must be given, as in `(e):f32`")
            }
        }
    }

    fn infix_op(&self) -> Option<(BinOp, u8)> {
        let text = match self.peek() {
            Tok::Punct(p) => *p,
            Tok::Name { text, quoted: false } if text == "and" => "and",
            Tok::Name { text, quoted: false } if text == "or" => "or",
            _ => return None,
        };
        BinOp::ALL.into_iter().find(|op| op.symbol() == text).and_then(|op| Some((op, strength(op)?)))
    }

    fn infix(&mut self, level: u8) -> Parsed<Expr> {
        let start = self.span();
        let mut left = self.unary()?;
        let mut compared = false;
        while let Some((op, s)) = self.infix_op() {
            if s < level {
                break;
            }
            if op.is_comparison() && std::mem::replace(&mut compared, true) {
                return self.error(codes::SYNTAX, self.span(), "comparisons do not chain: use parentheses");
            }
            compared = op.is_comparison() || (compared && s >= 3);
            self.bump();
            let right = self.infix(s + 1)?;
            left = self.natural(start, ExprKind::Binary(op, left, right))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let start = self.span();
        if !self.at("-") {
            return self.postfix();
        }
        if matches!(self.token(1).tok, Tok::Int(_) | Tok::Float(_)) || self.number_word(1) {
            return self.postfix();
        }
        self.nested(|p| {
            p.bump();
            let a = p.unary()?;
            p.natural(start, ExprKind::Unary(UnOp::Neg, a))
        })
    }

    fn number_word(&self, ahead: usize) -> bool {
        matches!(&self.token(ahead).tok, Tok::Name { text, quoted: false } if text == "inf" || text == "nan")
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let mut e = self.primary()?;
        while self.at(".") {
            self.bump();
            match self.peek().clone() {
                Tok::Int(_) => {
                    let n = self.number("the number of a component", u64::from(u32::MAX))? as u32;
                    e = self.project(start, e, n)?;
                }
                Tok::Name { text, quoted } => {
                    let at = self.span();
                    self.bump();
                    let fields: Vec<&str> =
                        if quoted { vec![text.as_str()] } else { text.split('.').collect() };
                    for field in fields {
                        let found = match e.ty() {
                            Type::Struct(s) => s.fields.iter().position(|f| &*f.0 == field),
                            _ => None,
                        };
                        let Some(i) = found else {
                            let what = format!("{} has no field `{field}`", e.ty());
                            return self.error(codes::UNKNOWN_NAME, at, what);
                        };
                        e = self.project(start, e, i as u32)?;
                    }
                }
                _ => return self.expected("a field"),
            }
        }
        Ok(e)
    }

    fn project(&mut self, start: Span, e: Expr, i: u32) -> Parsed<Expr> {
        if e.ty().fields().len() <= i as usize {
            let what = format!("{} has no component {i}", e.ty());
            return self.error(codes::UNKNOWN_NAME, self.span_from(start), what);
        }
        self.natural(start, ExprKind::Field(e, i))
    }

    /// `:T`, if it is there.
    fn ascription(&mut self) -> Parsed<Option<Type>> {
        if self.eat(":") { Ok(Some(self.ty()?)) } else { Ok(None) }
    }

    /// An expression of which the natural type may be overridden.
    fn ascribed(&mut self, start: Span, kind: ExprKind, said: &Type) -> Parsed<Expr> {
        let ty = self.ascription()?.or_else(|| natural_type(&kind, said));
        let span = self.span_from(start);
        match ty {
            Some(ty) => self.make(span, kind, ty),
            None => {
                self.error(codes::SYNTAX, span, "this expression must say its type, as in `call f(x):f32`")
            }
        }
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let start = self.span();
        match self.peek().clone() {
            Tok::Int(_) | Tok::Float(_) => self.literal(),
            Tok::Punct("-") => self.literal(),
            Tok::Punct("(") => self.nested(|p| p.parenthesized(start)),
            Tok::Punct("$") => {
                self.bump();
                let n = self.number("the number of a shared expression", u64::from(u32::MAX))? as u32;
                match self.shared.get(&n) {
                    Some(e) => Ok(e.clone()),
                    None => {
                        let help = format!("bind it before the statement: `with ${n} = … in`");
                        self.unknown(self.span_from(start), "shared expression", &format!("${n}"), help)
                    }
                }
            }
            Tok::Punct("%") => {
                self.bump();
                let n = self.number("the number of a variable", u64::from(u32::MAX))? as u32;
                let id = VarId(n);
                let known = self.scope.var(id).map(|v| Type::Scalar(v.1));
                match self.ascription()?.or(known) {
                    Some(ty) => self.make(self.span_from(start), ExprKind::Var(id), ty),
                    None => {
                        let help = format!("a variable that is not in scope says its type: `%{n}:index`");
                        self.unknown(self.span_from(start), "variable", &format!("%{n}"), help)
                    }
                }
            }
            Tok::Punct("@") => self.load(start),
            Tok::Name { quoted: false, text } if matches!(text.as_str(), "true" | "false") => {
                self.bump();
                self.ascribed(start, ExprKind::Bool(text == "true"), &Type::BOOL)
            }
            Tok::Name { quoted: false, .. } if self.number_word(0) => self.literal(),
            Tok::Name { quoted: false, text } if text == "call" => {
                self.bump();
                let f = Name::from(self.name("the name of a function")?);
                let args = self.args()?;
                self.ascribed(start, ExprKind::Call(f, args), &Type::BOOL)
            }
            Tok::Name { .. } if !self.at_keyword() => self.named(start),
            _ => self.expected("an expression"),
        }
    }

    /// `(e)`, `(e):T`, or a tuple.
    fn parenthesized(&mut self, start: Span) -> Parsed<Expr> {
        self.expect("(")?;
        let mut parts = Vec::new();
        let mut comma = false;
        while !self.eat(")") {
            parts.push(self.expr()?);
            comma = self.eat(",");
            if !comma && !self.at(")") {
                return self.expected("`,` or `)`");
            }
        }
        if let ([e], false) = (parts.as_slice(), comma) {
            let e = e.clone();
            return match self.ascription()? {
                Some(ty) => self.make(self.span_from(start), e.kind().clone(), ty),
                None => Ok(e),
            };
        }
        let tuple = Type::Tuple(Vec::new().into());
        self.ascribed(start, ExprKind::Aggregate(parts), &tuple)
    }

    fn args(&mut self) -> Parsed<Vec<Expr>> {
        self.nested(|p| {
            p.expect("(")?;
            p.list(")", Parser::expr)
        })
    }

    /// What begins with a name: a call, a variable, or a load.
    fn named(&mut self, start: Span) -> Parsed<Expr> {
        let Tok::Name { text, quoted } = self.peek().clone() else { return self.expected("a name") };
        let typed = !quoted && matches!(text.as_str(), "bitcast" | "cast" | "array" | "vector");
        if typed && self.at_ahead(1, "<") {
            return self.typed_call(start, &text);
        }
        if self.at_ahead(1, "(") {
            if !quoted && matches!(text.as_str(), "slice" | "reshape" | "reinterpret" | "deref") {
                return self.load(start);
            }
            return self.call(start, &text, quoted);
        }
        if self.at_ahead(1, "[") || (self.at_ahead(1, "@") && self.token(1).glued) {
            return self.load(start);
        }
        let id = self.var_ref()?;
        let Some((_, known)) = self.scope.var(id) else {
            return self.unknown(start, "variable", &text, String::new());
        };
        let known = Type::Scalar(*known);
        let ty = self.ascription()?.unwrap_or(known);
        if self.at("[") {
            // `A:f32[i]`: the name was a buffer's after all. Only reached when a variable has it too.
            return self.expected("an operator (a buffer of another element type is written `A@3:f32[i]`)");
        }
        self.make(self.span_from(start), ExprKind::Var(id), ty)
    }

    fn typed_call(&mut self, start: Span, word: &str) -> Parsed<Expr> {
        if matches!(word, "array" | "vector") {
            let ty = self.ty()?;
            let args = self.args()?;
            return self.make(self.span_from(start), ExprKind::Aggregate(args), ty);
        }
        self.bump();
        self.expect("<")?;
        let ty = self.ty()?;
        self.expect(">")?;
        let a = self.arguments::<1>(start, word)?;
        let [a] = a;
        let kind = if word == "cast" { ExprKind::Cast(a) } else { ExprKind::Bitcast(a) };
        self.make(self.span_from(start), kind, ty)
    }

    /// Exactly `N` arguments.
    fn arguments<const N: usize>(&mut self, start: Span, name: &str) -> Parsed<[Expr; N]> {
        let args = self.args()?;
        let n = args.len();
        match <[Expr; N]>::try_from(args) {
            Ok(a) => Ok(a),
            Err(_) => {
                let span = self.span_from(start);
                self.error(codes::SYNTAX, span, format!("`{name}` takes {N} arguments, not {n}"))
            }
        }
    }

    fn call(&mut self, start: Span, name: &str, quoted: bool) -> Parsed<Expr> {
        self.bump();
        if !quoted {
            if let Some(s) = Scalar::from_name(name) {
                let [a] = self.arguments(start, name)?;
                return self.make(self.span_from(start), ExprKind::Cast(a), s.into());
            }
            if name == "not" {
                let [a] = self.arguments(start, name)?;
                return self.ascribed(start, ExprKind::Unary(UnOp::Not, a), &Type::BOOL);
            }
            if name == "select" {
                let [c, a, b] = self.arguments(start, name)?;
                return self.ascribed(start, ExprKind::Select(c, a, b), &Type::BOOL);
            }
            let infix = BinOp::ALL.into_iter().find(|op| op.symbol() == name && strength(*op).is_none());
            if let Some(op) = infix {
                let [a, b] = self.arguments(start, name)?;
                return self.ascribed(start, ExprKind::Binary(op, a, b), &Type::BOOL);
            }
            if let Some(f) = MathFn::from_name(name) {
                let args = self.args()?;
                return self.ascribed(start, ExprKind::Math(f, args), &Type::BOOL);
            }
        }
        if let Some(s) = self.module.structs.get(name) {
            let ty = Type::Struct(s.clone());
            let args = self.args()?;
            return self.make(self.span_from(start), ExprKind::Aggregate(args), ty);
        }
        let help = format!("a function of the module is called by `call {name}(…):T`");
        self.unknown(start, "operation or struct", name, help)
    }

    /// A number with its sign and type.
    fn literal(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let negative = self.eat("-");
        match self.peek().clone() {
            Tok::Int(text) => {
                self.bump();
                let ty = self.ascription()?.unwrap_or(Type::INDEX);
                let span = self.span_from(start);
                if let Some(s) = ty.scalar().filter(|s| s.is_float()) {
                    let what = format!("a float has a point or an exponent: `{text}.0:{s}`");
                    return self.error(codes::BAD_NUMBER, span, what);
                }
                let magnitude = match text.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => text.parse::<u64>(),
                };
                let wide = magnitude.map_or(i128::MAX, i128::from) * if negative { -1 } else { 1 };
                let unsigned = ty.scalar() == Some(Scalar::U64);
                let v = wide as i64;
                // Narrower types are the verifier's business: this is about what the tree can hold.
                let fits = if unsigned { u64::try_from(wide).is_ok() } else { i128::from(v) == wide };
                if !fits {
                    let sign = if negative { "-" } else { "" };
                    let what = format!("{sign}{text} does not fit 64 bits");
                    return self.error(codes::BAD_NUMBER, span, what);
                }
                self.make(span, ExprKind::Int(v), ty)
            }
            Tok::Float(text) => {
                self.bump();
                let ty = self.float_type(start)?;
                let v = read_float(&text, ty.scalar());
                let v = if negative { -v } else { v };
                if v.is_infinite() {
                    let what = format!("{text} is too large for {ty}; infinity is `inf:{ty}`");
                    return self.error(codes::BAD_NUMBER, self.span_from(start), what);
                }
                self.make(self.span_from(start), ExprKind::Float(v.into()), ty)
            }
            Tok::Name { text, .. } if text == "inf" => {
                self.bump();
                let ty = self.float_type(start)?;
                let v = if negative { f64::NEG_INFINITY } else { f64::INFINITY };
                self.make(self.span_from(start), ExprKind::Float(v.into()), ty)
            }
            Tok::Name { text, .. } if text == "nan" => {
                self.bump();
                let mut bits = f64::NAN.to_bits();
                if self.eat("(") {
                    bits = self.nan_bits()?;
                    self.expect(")")?;
                }
                if negative {
                    bits |= 1 << 63;
                }
                let ty = self.float_type(start)?;
                self.make(self.span_from(start), ExprKind::Float(F64Bits(bits)), ty)
            }
            _ => self.expected("a number"),
        }
    }

    fn nan_bits(&mut self) -> Parsed<u64> {
        let bits = match self.peek() {
            Tok::Int(t) => t.strip_prefix("0x").and_then(|h| u64::from_str_radix(h, 16).ok()),
            _ => None,
        };
        match bits.filter(|b| f64::from_bits(*b).is_nan()) {
            Some(b) => {
                self.bump();
                Ok(b)
            }
            None => self.expected("the bits of a NaN, as in `nan(0x7ff8000000000001)`"),
        }
    }

    fn float_type(&mut self, start: Span) -> Parsed<Type> {
        if !self.at(":") {
            let span = self.span_from(start);
            self.report(
                Diagnostic::error(codes::BAD_NUMBER, "a float must say its type")
                    .at(span, "here")
                    .help("write `0.5:f32`, `0.5:f64`, …"),
            );
            return Err(Failed);
        }
        self.bump();
        let at = self.span();
        match self.ty()? {
            t if t.is_float() => Ok(t),
            t => self.error(codes::BAD_NUMBER, at, format!("{t} is no float type")),
        }
    }

    // Names of variables and buffers, accesses.

    /// `i`, `i%12`, or `%12` whatever is in scope.
    pub(crate) fn var_ref(&mut self) -> Parsed<VarId> {
        let start = self.span();
        if self.eat("%") {
            return Ok(VarId(self.number("the number of a variable", u64::from(u32::MAX))? as u32));
        }
        let name = self.name("a variable")?;
        if self.at("%")
            && self.token(0).glued
            && self.token(1).glued
            && matches!(self.token(1).tok, Tok::Int(_))
        {
            self.bump();
            let n = self.number("the number of a variable", u64::from(u32::MAX))? as u32;
            let id = VarId(n);
            if self.scope.var(id).is_some_and(|v| *v.0 == *name) {
                return Ok(id);
            }
            let help = format!("the remainder is written with spaces: `{name} % {n}`");
            return self.unknown(self.span_from(start), "variable", &format!("{name}%{n}"), help);
        }
        match self.scope.find_var(&name) {
            Some(id) => Ok(id),
            None => {
                let help = match self.scope.find_buf(&name) {
                    Some(_) => format!("`{name}` is a buffer: an access has brackets, `{name}[]`"),
                    None => format!("bind it: a size, a parameter, `let {name}: T = …` or `for {name} in …`"),
                };
                self.unknown(self.span_from(start), "variable", &name, help)
            }
        }
    }

    fn load(&mut self, start: Span) -> Parsed<Expr> {
        let a = self.access()?;
        self.ascribed(start, ExprKind::Load(a), &Type::BOOL)
    }

    pub(crate) fn access(&mut self) -> Parsed<Access> {
        let start = self.span();
        let (view, elem) = self.view()?;
        let elem = match self.ascription()?.or(elem) {
            Some(t) => t,
            None => {
                let span = self.span_from(start);
                self.report(
                    Diagnostic::error(codes::UNKNOWN_NAME, "the element type of this view is not known")
                        .at(span, "here")
                        .help("a buffer out of scope and a `deref` say it: `@3:f32[i]`"),
                );
                return Err(Failed);
            }
        };
        self.expect("[")?;
        let indices = self.nested(|p| p.list("]", Parser::expr))?;
        let status = if self.at("!") {
            self.bump();
            Status::Proved
        } else if self.eat("?") {
            Status::Checked
        } else if self.eat("~") {
            Status::Assumed(self.string("whose assumption it is, in quotes")?)
        } else {
            Status::Unproved
        };
        Ok(Access { view, indices, elem, status, places: Places::one(self.span_from(start)) })
    }

    /// A view, and its element type where the view implies one.
    pub(crate) fn view(&mut self) -> Parsed<(View, Option<Type>)> {
        let start = self.span();
        if self.eat("@") {
            let n = self.number("the number of a buffer", u64::from(u32::MAX))? as u32;
            let id = BufId(n);
            return Ok((View::Buffer(id), self.scope.buf(id).map(|b| b.1.clone())));
        }
        let word = match self.peek() {
            Tok::Name { text, quoted: false } if self.at_ahead(1, "(") => text.clone(),
            _ => String::new(),
        };
        match word.as_str() {
            "slice" | "reshape" | "reinterpret" | "deref" => self.nested(|p| {
                p.bump();
                p.expect("(")?;
                let out = p.view_args(&word)?;
                p.expect(")")?;
                Ok(out)
            }),
            _ => {
                let id = self.buf_ref(start)?;
                Ok((View::Buffer(id), self.scope.buf(id).map(|b| b.1.clone())))
            }
        }
    }

    fn view_args(&mut self, word: &str) -> Parsed<(View, Option<Type>)> {
        if word == "deref" {
            let pointer = Box::new(self.expr()?);
            self.expect(",")?;
            let class = Name::from(self.name("an alias class")?);
            return Ok((View::Deref { pointer, class }, None));
        }
        let (base, elem) = self.view()?;
        let base = Box::new(base);
        self.expect(",")?;
        if word == "reinterpret" {
            let elem = self.ty()?;
            self.expect(",")?;
            let align = self.number("an alignment", u64::from(u32::MAX))? as u32;
            return Ok((View::Reinterpret { base, elem: elem.clone(), align }, Some(elem)));
        }
        self.expect("[")?;
        let list = self.list("]", Parser::expr)?;
        if word == "reshape" {
            return Ok((View::Reshape { base, extents: list }, elem));
        }
        self.expect(",")?;
        self.expect("[")?;
        let steps = self.list("]", |p| p.signed("a step"))?;
        Ok((View::Slice { base, offsets: list, steps }, elem))
    }

    fn buf_ref(&mut self, start: Span) -> Parsed<BufId> {
        let name = self.name("a buffer")?;
        if self.at("@") && self.token(0).glued {
            self.bump();
            let n = self.number("the number of a buffer", u64::from(u32::MAX))? as u32;
            let id = BufId(n);
            if self.scope.buf(id).is_some_and(|b| *b.0 == *name) {
                return Ok(id);
            }
            let help = format!("a buffer that is not in scope is written `@{n}:T`");
            return self.unknown(self.span_from(start), "buffer", &format!("{name}@{n}"), help);
        }
        match self.scope.find_buf(&name) {
            Some(id) => Ok(id),
            None => {
                let help = format!("bind it: a parameter, or `alloc {name}: T[…]`");
                self.unknown(self.span_from(start), "buffer", &name, help)
            }
        }
    }
}

/// Reads a float in the precision of its type, so that nothing is rounded twice.
fn read_float(text: &str, ty: Option<Scalar>) -> f64 {
    let wide = text.parse::<f64>().unwrap_or(f64::NAN);
    match ty {
        Some(Scalar::F32) => f64::from(text.parse::<f32>().unwrap_or(f32::NAN)),
        Some(Scalar::F16) => half::f16::from_f64(wide).to_f64(),
        Some(Scalar::Bf16) => half::bf16::from_f64(wide).to_f64(),
        _ => wide,
    }
}

const _: () = assert!(MAX_DEPTH < MAX_HEIGHT as usize);
