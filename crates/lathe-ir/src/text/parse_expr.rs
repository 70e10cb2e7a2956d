//! Parsing expressions, accesses and views. Nothing is folded: the tree is the one that was printed.

use super::parse::{Parsed, Parser};
use super::print_expr::{natural_type, strength};
use super::{MAX_DEPTH, MAX_HEIGHT};
use crate::codes;
use crate::expr::{Expr, ExprKind};
use crate::ids::VarId;
use crate::ops::{BinOp, MathFn, UnOp};
use crate::types::{Scalar, Type};
use lathe_diagnostics::{Diagnostic, Span};
use lathe_syntax::{Expressions, Operator, Rules, Sign, Tok, unquote};

impl<'a> Parser<'a> {
    /// `with $1 = e, $2 = e in`, if it is there; the names hold until the statement ends.
    pub(crate) fn with_bindings(&mut self, inside: usize) -> Parsed<()> {
        if !self.take("with") {
            return Ok(());
        }
        loop {
            self.expect("$")?;
            let at = self.span();
            let n = self.number32("the number of a shared expression")?;
            self.expect("=")?;
            let e = self.expr()?;
            if self.shared.insert(n, e).is_some() {
                let what = format!("`${n}` is bound twice");
                self.report(Diagnostic::error(codes::BOUND_TWICE, what).at(at, "here"));
            }
            if !self.take(",") {
                self.expect("in")?;
                self.begins_line(inside);
                return Ok(());
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
            return self.wrong(codes::TOO_DEEP, span, what);
        }
        self.heights.insert(e.address(), height);
        Ok(e)
    }

    /// A node of the type that its operands imply.
    fn natural(&mut self, span: Span, kind: ExprKind) -> Parsed<Expr> {
        match natural_type(&kind, &Type::Tuple(Vec::new().into())) {
            Some(ty) => self.make(span, kind, ty),
            None => self.wrong(
                codes::SYNTAX,
                span,
                "the type of this expression must be written, as in `(e):f32`",
            ),
        }
    }

    pub(super) fn number_word(&self, ahead: usize) -> bool {
        matches!(self.token(ahead).tok, Tok::Word("inf" | "nan"))
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let mut e = self.primary()?;
        while self.is(".") {
            self.advance();
            match self.peek() {
                Tok::Int(_) => {
                    let n = self.number32("the number of a component")?;
                    e = self.project(start, e, n)?;
                }
                Tok::Name(_) | Tok::Word(_) | Tok::Quoted('`', _) => {
                    let at = self.span();
                    let fields = match self.peek() {
                        Tok::Quoted(_, raw) => vec![unquote(raw)],
                        _ => self.word().split('.').map(str::to_string).collect(),
                    };
                    self.advance();
                    for field in fields {
                        let found = match e.ty() {
                            Type::Struct(s) => s.fields.iter().position(|f| *f.0 == *field),
                            _ => None,
                        };
                        let Some(i) = found else {
                            let what = format!("{} has no field `{field}`", e.ty());
                            return self.wrong(codes::UNKNOWN_NAME, at, what);
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
            return self.wrong(codes::UNKNOWN_NAME, self.since(start), what);
        }
        self.natural(self.since(start), ExprKind::Field(e, i))
    }

    /// `:T`, if it is there.
    pub(super) fn ascription(&mut self) -> Parsed<Option<Type>> {
        if !self.is(":") {
            return Ok(None);
        }
        self.joined();
        self.advance();
        self.ty().map(Some)
    }

    /// An expression of which the natural type may be overridden.
    pub(super) fn ascribed(&mut self, start: Span, kind: ExprKind, said: &Type) -> Parsed<Expr> {
        let ty = self.ascription()?.or_else(|| natural_type(&kind, said));
        let span = self.since(start);
        match ty {
            Some(ty) => self.make(span, kind, ty),
            None => self.wrong(codes::SYNTAX, span, "this expression needs a type, as in `call f(x):f32`"),
        }
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let start = self.span();
        match self.peek() {
            Tok::Int(_) | Tok::Float(_) => self.literal(),
            Tok::Sym("-") => self.literal(),
            Tok::Sym("(") => self.parenthesized(start),
            Tok::Sym("$") => {
                self.advance();
                let n = self.number32("the number of a shared expression")?;
                match self.shared.get(&n) {
                    Some(e) => Ok(e.clone()),
                    None => {
                        let help = format!("bind it before the statement: `with ${n} = … in`");
                        self.unknown(self.since(start), "shared expression", &format!("${n}"), help)
                    }
                }
            }
            Tok::Sym("%") => {
                self.advance();
                let n = self.number32("the number of a variable")?;
                let id = VarId(n);
                let known = self.scope.var(id).map(|v| Type::Scalar(v.1));
                match self.ascription()?.or(known) {
                    Some(ty) => self.make(self.since(start), ExprKind::Var(id), ty),
                    None => {
                        let help = format!("a variable that is not in scope needs a type: `%{n}:index`");
                        self.unknown(self.since(start), "variable", &format!("%{n}"), help)
                    }
                }
            }
            Tok::Sym("@") => self.load(start),
            Tok::Word("global") => self.load(start),
            Tok::Word(text @ ("true" | "false")) => {
                self.advance();
                self.ascribed(start, ExprKind::Bool(text == "true"), &Type::BOOL)
            }
            Tok::Word("inf" | "nan") => self.literal(),
            Tok::Word("call") => {
                self.advance();
                let f = self.ident("the name of a function")?;
                let args = self.args()?;
                self.ascribed(start, ExprKind::Call(f, args), &Type::BOOL)
            }
            Tok::Name(_) | Tok::Quoted('`', _) => self.named(start),
            _ => self.expected("an expression"),
        }
    }

    /// `(e)`, `(e):T`, or a tuple.
    fn parenthesized(&mut self, start: Span) -> Parsed<Expr> {
        let (parts, comma) = self.tuple(Parser::expr)?;
        if let ([e], false) = (parts.as_slice(), comma) {
            let e = e.clone();
            return match self.ascription()? {
                Some(ty) => self.make(self.since(start), e.kind().clone(), ty),
                None => Ok(e),
            };
        }
        let tuple = Type::Tuple(Vec::new().into());
        self.ascribed(start, ExprKind::Aggregate(parts), &tuple)
    }

    fn args(&mut self) -> Parsed<Vec<Expr>> {
        self.listed("(", ")", Parser::expr)
    }

    /// What begins with a name: a call, a variable, or a load.
    fn named(&mut self, start: Span) -> Parsed<Expr> {
        let word = self.word();
        if matches!(word, "bitcast" | "cast" | "array" | "vector") && self.is_at(1, "<") {
            return self.typed_call(start, word);
        }
        if self.is_at(1, "(") {
            if matches!(word, "slice" | "reshape" | "reinterpret" | "deref") {
                return self.load(start);
            }
            if self.take("address") {
                let a = self.inside("(", ")", Parser::access)?;
                return self.ascribed(start, ExprKind::Address(a), &Type::BOOL);
            }
            return self.call(start);
        }
        if self.is_at(1, "[") || (self.is_at(1, "@") && self.token(1).glued) {
            return self.load(start);
        }
        let id = self.var_ref()?;
        let Some((_, known)) = self.scope.var(id) else {
            return self.unknown(start, "variable", &format!("%{}", id.0), String::new());
        };
        let known = Type::Scalar(*known);
        let ty = self.ascription()?.unwrap_or(known);
        if self.is("[") {
            // `A:f32[i]`: the name was a buffer's after all. Only reached when a variable has it too.
            return self.expected("an operator (a buffer of another element type is written `A@3:f32[i]`)");
        }
        self.make(self.since(start), ExprKind::Var(id), ty)
    }

    fn typed_call(&mut self, start: Span, word: &str) -> Parsed<Expr> {
        if matches!(word, "array" | "vector") {
            let ty = self.ty()?;
            let args = self.args()?;
            return self.make(self.since(start), ExprKind::Aggregate(args), ty);
        }
        self.advance();
        self.joined();
        self.expect("<")?;
        let ty = self.ty()?;
        self.joined();
        self.expect(">")?;
        let a = self.arguments::<1>(start, word)?;
        let [a] = a;
        let kind = if word == "cast" { ExprKind::Cast(a) } else { ExprKind::Bitcast(a) };
        self.make(self.since(start), kind, ty)
    }

    /// Exactly `N` arguments.
    fn arguments<const N: usize>(&mut self, start: Span, name: &str) -> Parsed<[Expr; N]> {
        let args = self.args()?;
        let n = args.len();
        match <[Expr; N]>::try_from(args) {
            Ok(a) => Ok(a),
            Err(_) => {
                let span = self.since(start);
                self.wrong(codes::SYNTAX, span, format!("`{name}` takes {N} arguments, not {n}"))
            }
        }
    }

    fn call(&mut self, start: Span) -> Parsed<Expr> {
        let quoted = self.quoted();
        let name = self.ident("an operation")?;
        let name = &*name;
        if !quoted {
            if let Some(s) = Scalar::from_name(name) {
                let [a] = self.arguments(start, name)?;
                return self.make(self.since(start), ExprKind::Cast(a), s.into());
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
        let own = self.module.structs.get(name).cloned().map(Type::Struct);
        if let Some(ty) = own.or_else(|| Type::complex_named(name)) {
            let args = self.args()?;
            return self.make(self.since(start), ExprKind::Aggregate(args), ty);
        }
        let help = format!("call a function of the module with `call {name}(…):T`");
        self.unknown(start, "operation or struct", name, help)
    }
}

impl<'a> Expressions<'a> for Parser<'a> {
    type Expr = Expr;

    /// Here `not` is a call.
    const NOT: bool = false;

    fn operand(&mut self) -> Parsed<Expr> {
        self.postfix()
    }

    fn negative(&mut self) -> Parsed<Option<Expr>> {
        let number = matches!(self.token(1).tok, Tok::Int(_) | Tok::Float(_)) || self.number_word(1);
        if number { self.postfix().map(Some) } else { Ok(None) }
    }

    fn unary(&mut self, _: Sign, a: Expr, span: Span) -> Parsed<Expr> {
        self.natural(span, ExprKind::Unary(UnOp::Neg, a))
    }

    fn binary(&mut self, op: Operator, a: Expr, b: Expr, span: Span, right: usize) -> Parsed<Expr> {
        // `i - 1` is how the sum of `i` and -1 is written; the difference is `i - (1)`.
        let literal = self.is_number(right) && b.ty().is_index();
        let (op, b) = match b.as_int().filter(|c| literal && op == Operator::Sub && *c > 0) {
            Some(c) => (BinOp::Add, self.make(span, ExprKind::Int(-c), Type::INDEX)?),
            None => (BinOp::from(op), b),
        };
        self.natural(span, ExprKind::Binary(op, a, b))
    }
}

const _: () = assert!(MAX_DEPTH < MAX_HEIGHT as usize);
