//! Parsing expressions, accesses and views. Nothing is folded: the tree is the one that was printed.

use super::lex::Tok;
use super::parse::{Parsed, Parser};
use super::print_expr::{natural_type, strength};
use super::{MAX_DEPTH, MAX_HEIGHT};
use crate::codes;
use crate::expr::{Expr, ExprKind};
use crate::ids::VarId;
use crate::ops::{BinOp, MathFn, UnOp};
use crate::types::{Name, Scalar, Type};
use lathe_diagnostics::Span;

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
    pub(super) fn make(&mut self, span: Span, kind: ExprKind, ty: Type) -> Parsed<Expr> {
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
            let at = self.span();
            let literal = matches!(self.peek(), Tok::Int(_));
            let right = self.infix(s + 1)?;
            // `i - 1` is how the sum of `i` and -1 is written; the difference is `i - (1)`.
            let (op, right) = match right.as_int().filter(|_| literal && right.ty().is_index()) {
                Some(c) if op == BinOp::Sub && c > 0 => {
                    (BinOp::Add, self.make(at, ExprKind::Int(-c), Type::INDEX)?)
                }
                _ => (op, right),
            };
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

    pub(super) fn number_word(&self, ahead: usize) -> bool {
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
    pub(super) fn ascription(&mut self) -> Parsed<Option<Type>> {
        if self.eat(":") { Ok(Some(self.ty()?)) } else { Ok(None) }
    }

    /// An expression of which the natural type may be overridden.
    pub(super) fn ascribed(&mut self, start: Span, kind: ExprKind, said: &Type) -> Parsed<Expr> {
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
            Tok::Name { quoted: false, text } if text == "global" => self.load(start),
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
            if !quoted && text == "address" {
                self.bump();
                self.expect("(")?;
                let a = self.nested(Parser::access)?;
                self.expect(")")?;
                return self.ascribed(start, ExprKind::Address(a), &Type::BOOL);
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
}

const _: () = assert!(MAX_DEPTH < MAX_HEIGHT as usize);
