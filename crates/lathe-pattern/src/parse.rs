//! The text of terms, types, funs and rules.

use crate::ast::{Ast, AstKind, FunAst, FunParam, HEIGHT, LamParam, Pattern, RuleAst};
use crate::codes;
use crate::lex::{Tok, Token, lex};
use crate::nat::Nat;
use crate::types::{Kind, Type, TypeKind};
use lathe_diagnostics::{Diagnostic, FileId, Span};
use lathe_ir::{BinOp, Name, Scalar, UnOp};
use std::ops::Range;

/// Brackets, lambdas and operators may nest so deep.
const DEPTH: usize = 200;

/// One term. Spans count from the start of the text.
pub fn parse_term(text: &str) -> Result<Ast, Diagnostic> {
    parse_term_in(FileId(0), text)
}

/// One term of a file.
pub fn parse_term_in(file: FileId, text: &str) -> Result<Ast, Diagnostic> {
    let mut p = Parser::new(file, text)?;
    let e = p.expr()?;
    p.end()?;
    Ok(e)
}

/// One type.
pub fn parse_type(text: &str) -> Result<Type, Diagnostic> {
    let mut p = Parser::new(FileId(0), text)?;
    let t = p.ty()?;
    p.end()?;
    Ok(t)
}

/// A size.
pub fn parse_nat(text: &str) -> Result<Nat, Diagnostic> {
    nat_of(&parse_term(text)?)
}

/// Funs, one after the other.
pub fn parse_funs(file: FileId, text: &str) -> Result<Vec<FunAst>, Diagnostic> {
    let mut p = Parser::new(file, text)?;
    let mut out = Vec::new();
    while p.peek() != &Tok::End {
        out.push(p.fun()?);
    }
    Ok(out)
}

/// Rules, one after the other.
pub fn parse_rules(file: FileId, text: &str) -> Result<Vec<RuleAst>, Diagnostic> {
    let mut p = Parser::new(file, text)?;
    let mut out = Vec::new();
    while p.peek() != &Tok::End {
        out.push(p.rule()?);
    }
    Ok(out)
}

/// The fun that a part of a file is; places are those in the file.
pub fn parse_fun_at(file: FileId, text: &str, part: Range<usize>) -> Result<FunAst, Diagnostic> {
    let mut p = Parser::of_part(file, text, part)?;
    let f = p.fun()?;
    p.end()?;
    Ok(f)
}

/// The rule that a part of a file is; places are those in the file.
pub fn parse_rule_at(file: FileId, text: &str, part: Range<usize>) -> Result<RuleAst, Diagnostic> {
    let mut p = Parser::of_part(file, text, part)?;
    let r = p.rule()?;
    p.end()?;
    Ok(r)
}

/// The size that an expression over sizes says.
pub fn nat_of(e: &Ast) -> Result<Nat, Diagnostic> {
    let wrong = || {
        Diagnostic::error(codes::ARGUMENTS, "this is no size")
            .at(e.span, "sizes are made of names, numbers, `+ - * //` and `%`")
    };
    Ok(match &*e.kind {
        AstKind::Name(n) => Nat::var(n),
        AstKind::Int(v) => Nat::constant(*v),
        AstKind::Unary(UnOp::Neg, a) => nat_of(a)?.scaled(-1),
        AstKind::Binary(op, a, b) => {
            let (a, b) = (nat_of(a)?, nat_of(b)?);
            match op {
                BinOp::Add => a.plus(&b),
                BinOp::Sub => a.minus(&b),
                BinOp::Mul => a.times(&b),
                BinOp::FloorDiv => a.floor_div(&b),
                BinOp::FloorMod => a.modulo(&b),
                _ => return Err(wrong()),
            }
        }
        _ => return Err(wrong()),
    })
}

/// A part of a file without comments, and with one blank between tokens: the same for texts that mean the same.
pub fn normalized(file: FileId, text: &str, part: Range<usize>) -> Result<String, Diagnostic> {
    let tokens = lex(file, text, part)?;
    let words = tokens.iter().map(|t| &text[t.span.start as usize..t.span.end as usize]);
    Ok(words.collect::<Vec<_>>().join(" ").trim_end().to_string())
}

pub(crate) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Types that dependent functions take.
    data_vars: Vec<Name>,
}

/// Operators from loosest to tightest below `not`; comparisons do not chain.
const LEVELS: [&[(&str, BinOp)]; 3] = [
    &[
        ("==", BinOp::Eq),
        ("!=", BinOp::Ne),
        ("<=", BinOp::Le),
        (">=", BinOp::Ge),
        ("<", BinOp::Lt),
        (">", BinOp::Gt),
    ],
    &[("+", BinOp::Add), ("-", BinOp::Sub)],
    &[("*", BinOp::Mul), ("//", BinOp::FloorDiv), ("/", BinOp::Div), ("%", BinOp::FloorMod)],
];

const RESERVED: [&str; 27] = [
    "kernel", "fun", "struct", "op", "rule", "strategy", "use", "test", "for", "in", "where", "step", "let",
    "var", "if", "then", "else", "while", "assume", "inout", "and", "or", "not", "true", "false", "nat",
    "data",
];

impl Parser {
    pub fn new(file: FileId, text: &str) -> Result<Parser, Diagnostic> {
        Parser::of_part(file, text, 0..text.len())
    }

    fn of_part(file: FileId, text: &str, part: Range<usize>) -> Result<Parser, Diagnostic> {
        Ok(Parser { tokens: lex(file, text, part)?, at: 0, depth: 0, data_vars: Vec::new() })
    }

    fn token(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn peek(&self) -> &Tok {
        &self.token().tok
    }

    fn span(&self) -> Span {
        self.token().span
    }

    /// The end of the token before.
    fn since(&self, start: Span) -> Span {
        if self.at == 0 { start } else { start.to(self.tokens[self.at - 1].span) }
    }

    fn error<T>(&self, wanted: &str) -> Result<T, Diagnostic> {
        let got = match self.peek() {
            Tok::Name(n) => format!("`{n}`"),
            Tok::Int(v) => format!("`{v}`"),
            Tok::Float(v) => format!("`{v}`"),
            Tok::Sign(s) => format!("`{s}`"),
            Tok::End => "the end".to_string(),
        };
        Err(Diagnostic::error(codes::SYNTAX, format!("{wanted} is missing, here is {got}"))
            .at(self.span(), format!("expected {wanted}")))
    }

    fn sign(&mut self, s: &str) -> bool {
        let yes = matches!(self.peek(), Tok::Sign(t) if *t == s);
        if yes {
            self.at += 1;
        }
        yes
    }

    fn expect(&mut self, s: &str) -> Result<(), Diagnostic> {
        if self.sign(s) { Ok(()) } else { self.error(&format!("`{s}`")) }
    }

    fn word(&mut self, w: &str) -> bool {
        let yes = matches!(self.peek(), Tok::Name(n) if n == w);
        if yes {
            self.at += 1;
        }
        yes
    }

    fn name(&mut self) -> Result<Name, Diagnostic> {
        match self.peek() {
            Tok::Name(n) if !RESERVED.contains(&n.as_str()) => {
                let n = Name::from(n.as_str());
                self.at += 1;
                Ok(n)
            }
            _ => self.error("a name"),
        }
    }

    pub fn end(&self) -> Result<(), Diagnostic> {
        if self.peek() == &Tok::End { Ok(()) } else { self.error("the end") }
    }

    fn list<T>(
        &mut self,
        close: &str,
        one: &mut dyn FnMut(&mut Parser) -> Result<T, Diagnostic>,
    ) -> Result<Vec<T>, Diagnostic> {
        let mut out = Vec::new();
        while !self.sign(close) {
            out.push(one(self)?);
            if !self.sign(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(out)
    }

    /// Long chains nest as deep as brackets do.
    fn low(&self, e: Ast) -> Result<Ast, Diagnostic> {
        if e.height <= HEIGHT {
            return Ok(e);
        }
        let d = Diagnostic::error(codes::SYNTAX, format!("the term nests deeper than {HEIGHT}"));
        Err(d.at(e.span, "here").help("make funs of its parts, and store what lies between"))
    }

    /// Guards against running out of stack.
    fn deeper<T>(&mut self, f: impl FnOnce(&mut Parser) -> Result<T, Diagnostic>) -> Result<T, Diagnostic> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Diagnostic::error(codes::SYNTAX, format!("nested deeper than {DEPTH}"))
                .at(self.span(), "here"));
        }
        let out = f(self);
        self.depth -= 1;
        out
    }

    pub fn expr(&mut self) -> Result<Ast, Diagnostic> {
        self.deeper(|p| {
            let start = p.span();
            if p.sign("|") {
                return p.lambda(start);
            }
            if p.word("let") {
                let pattern = p.pattern()?;
                p.expect("=")?;
                let value = p.expr()?;
                if !p.word("in") {
                    return p.error("`in`");
                }
                let body = p.expr()?;
                return Ok(Ast::new(AstKind::Let(pattern, value, body), p.since(start)));
            }
            let mut e = p.composition()?;
            while p.sign("|>") {
                let f = if matches!(p.peek(), Tok::Sign("|")) { p.expr()? } else { p.composition()? };
                let span = p.since(start);
                // Into the call, so that `x |> f(a)` reads as `f(a, x)`.
                e = match *f.kind {
                    AstKind::Call(g, mut args) => {
                        args.push(e);
                        Ast::new(AstKind::Call(g, args), span)
                    }
                    _ => Ast::new(AstKind::Call(f, vec![e]), span),
                };
                e = p.low(e)?;
            }
            Ok(e)
        })
    }

    fn lambda(&mut self, start: Span) -> Result<Ast, Diagnostic> {
        let (params, known) = (self.list("|", &mut |p| p.lam_param())?, self.data_vars.len());
        if params.is_empty() {
            return self.error("a parameter");
        }
        for p in &params {
            if let LamParam::Dep(Kind::Data, x) = p {
                self.data_vars.push(x.clone());
            }
        }
        let body = self.expr();
        self.data_vars.truncate(known);
        Ok(Ast::new(AstKind::Lam(params, body?), self.since(start)))
    }

    fn lam_param(&mut self) -> Result<LamParam, Diagnostic> {
        let pattern = self.pattern()?;
        if !self.sign(":") {
            return Ok(LamParam::Data(pattern, None));
        }
        if let Pattern::Name(n) = &pattern {
            if self.word("nat") {
                return Ok(LamParam::Dep(Kind::Nat, n.clone()));
            }
            if self.word("data") {
                return Ok(LamParam::Dep(Kind::Data, n.clone()));
            }
        }
        Ok(LamParam::Data(pattern, Some(self.ty()?)))
    }

    fn pattern(&mut self) -> Result<Pattern, Diagnostic> {
        if self.sign("(") {
            let parts = self.deeper(|p| p.list(")", &mut |p| p.pattern()))?;
            return Ok(Pattern::Tuple(parts));
        }
        let n = self.name()?;
        Ok(if &*n == "_" { Pattern::Any } else { Pattern::Name(n) })
    }

    fn composition(&mut self) -> Result<Ast, Diagnostic> {
        let start = self.span();
        let mut e = self.disjunction()?;
        loop {
            if self.sign(">>") {
                let g = self.disjunction()?;
                e = self.low(Ast::new(AstKind::Then(e, g), self.since(start)))?;
            } else if self.sign("<<") {
                let g = self.disjunction()?;
                e = self.low(Ast::new(AstKind::Then(g, e), self.since(start)))?;
            } else {
                return Ok(e);
            }
        }
    }

    fn disjunction(&mut self) -> Result<Ast, Diagnostic> {
        let start = self.span();
        let mut e = self.conjunction()?;
        while self.word("or") {
            let b = self.conjunction()?;
            e = self.low(Ast::new(AstKind::Binary(BinOp::Or, e, b), self.since(start)))?;
        }
        Ok(e)
    }

    fn conjunction(&mut self) -> Result<Ast, Diagnostic> {
        let start = self.span();
        let mut e = self.negation()?;
        while self.word("and") {
            let b = self.negation()?;
            e = self.low(Ast::new(AstKind::Binary(BinOp::And, e, b), self.since(start)))?;
        }
        Ok(e)
    }

    fn negation(&mut self) -> Result<Ast, Diagnostic> {
        let start = self.span();
        if self.word("not") {
            let e = self.deeper(Parser::negation)?;
            return Ok(Ast::new(AstKind::Unary(UnOp::Not, e), self.since(start)));
        }
        self.binary(0)
    }

    fn binary(&mut self, level: usize) -> Result<Ast, Diagnostic> {
        let Some(ops) = LEVELS.get(level) else { return self.unary() };
        let start = self.span();
        let mut e = self.binary(level + 1)?;
        while let Some((_, op)) = ops.iter().find(|o| matches!(self.peek(), Tok::Sign(s) if *s == o.0)) {
            self.at += 1;
            let b = self.binary(level + 1)?;
            e = self.low(Ast::new(AstKind::Binary(*op, e, b), self.since(start)))?;
            if level == 0 {
                break;
            }
        }
        Ok(e)
    }

    fn unary(&mut self) -> Result<Ast, Diagnostic> {
        let start = self.span();
        if self.sign("-") {
            let e = self.deeper(Parser::unary)?;
            let kind = match *e.kind {
                AstKind::Int(v) => AstKind::Int(v.wrapping_neg()),
                AstKind::Float(v) => AstKind::Float(-v),
                _ => AstKind::Unary(UnOp::Neg, e),
            };
            return Ok(Ast::new(kind, self.since(start)));
        }
        let mut e = self.atom()?;
        loop {
            let kind = if self.sign("(") {
                AstKind::Call(e, self.list(")", &mut |p| p.expr())?)
            } else if self.sign("[") {
                AstKind::Index(e, self.list("]", &mut |p| p.expr())?)
            } else if self.sign(".") {
                let Tok::Int(n) = *self.peek() else { return self.error("the number of a part") };
                self.at += 1;
                AstKind::Part(e, usize::try_from(n).unwrap_or(usize::MAX))
            } else {
                return Ok(e);
            };
            e = self.low(Ast::new(kind, self.since(start)))?;
        }
    }

    fn atom(&mut self) -> Result<Ast, Diagnostic> {
        let start = self.span();
        let kind = match self.peek().clone() {
            Tok::Int(v) => {
                self.at += 1;
                AstKind::Int(v)
            }
            Tok::Float(v) => {
                self.at += 1;
                AstKind::Float(v)
            }
            Tok::Name(n) if n == "true" || n == "false" => {
                self.at += 1;
                AstKind::Bool(n == "true")
            }
            Tok::Name(_) => AstKind::Name(self.name()?),
            Tok::Sign("(") => {
                self.at += 1;
                let mut parts = vec![self.expr()?];
                let mut tuple = false;
                while self.sign(",") {
                    tuple = true;
                    if matches!(self.peek(), Tok::Sign(")")) {
                        break;
                    }
                    parts.push(self.expr()?);
                }
                self.expect(")")?;
                if !tuple {
                    return Ok(parts.remove(0));
                }
                AstKind::Tuple(parts)
            }
            _ => return self.error("a term"),
        };
        Ok(Ast::new(kind, self.since(start)))
    }

    pub fn ty(&mut self) -> Result<Type, Diagnostic> {
        let from = self.deeper(Parser::ty_atom)?;
        if self.sign("->") {
            return Ok(Type::fun(from, self.deeper(Parser::ty)?));
        }
        Ok(from)
    }

    fn ty_atom(&mut self) -> Result<Type, Diagnostic> {
        let span = self.span();
        let elem = if self.sign("(") {
            let mut parts = vec![self.ty()?];
            let mut tuple = false;
            while self.sign(",") {
                tuple = true;
                if matches!(self.peek(), Tok::Sign(")")) {
                    break;
                }
                parts.push(self.ty()?);
            }
            self.expect(")")?;
            if tuple { Type::tuple(parts) } else { parts.remove(0) }
        } else {
            let n = self.name()?;
            match (&*n, Scalar::from_name(&n)) {
                (_, Some(s)) => Type::scalar(s),
                ("idx", _) => {
                    self.expect("<")?;
                    // A comparison would end at `>`.
                    let size = nat_of(&self.binary(1)?)?;
                    self.expect(">")?;
                    Type::index(size)
                }
                ("vector", _) => {
                    self.expect("<")?;
                    let elem = self.ty()?;
                    self.expect(",")?;
                    let lanes = nat_of(&self.binary(1)?)?;
                    self.expect(">")?;
                    Type::vector(lanes, elem)
                }
                _ if self.data_vars.contains(&n) => Type::new(TypeKind::Var(n)),
                _ => {
                    return Err(Diagnostic::error(codes::UNKNOWN, format!("there is no type `{n}`"))
                        .at(span, "unknown type"));
                }
            }
        };
        if !self.sign("[") {
            return Ok(elem);
        }
        let sizes = self.list("]", &mut |p| nat_of(&p.expr()?))?;
        Ok(Type::nested(&sizes, elem))
    }

    pub fn fun(&mut self) -> Result<FunAst, Diagnostic> {
        let start = self.span();
        if !self.word("fun") {
            return self.error("`fun`");
        }
        let name_start = self.span();
        let name = self.name()?;
        let name_span = self.since(name_start);
        self.expect("(")?;
        let params = self.list(")", &mut |p| {
            let span = p.span();
            let name = p.name()?;
            p.expect(":")?;
            let ty = p.ty()?;
            Ok(FunParam { name, ty, span: p.since(span) })
        })?;
        self.expect("->")?;
        let result_start = self.span();
        let result = self.ty()?;
        let result_span = self.since(result_start);
        let facts = self.conditions()?;
        self.expect("=")?;
        let body = self.expr()?;
        Ok(FunAst { name, name_span, params, result, result_span, facts, body, span: self.since(start) })
    }

    /// `where c, d`, if it is there.
    fn conditions(&mut self) -> Result<Vec<Ast>, Diagnostic> {
        let mut out = Vec::new();
        if self.word("where") {
            loop {
                out.push(self.conjunction()?);
                if !self.sign(",") {
                    break;
                }
            }
        }
        Ok(out)
    }

    /// `rule name(f, g): left => right where c`
    pub fn rule(&mut self) -> Result<RuleAst, Diagnostic> {
        let start = self.span();
        if !self.word("rule") {
            return self.error("`rule`");
        }
        let name_start = self.span();
        let name = self.name()?;
        let name_span = self.since(name_start);
        let metas = if self.sign("(") { self.list(")", &mut |p| p.name())? } else { Vec::new() };
        self.expect(":")?;
        let left = self.expr()?;
        self.expect("=>")?;
        let right = self.expr()?;
        let conditions = self.conditions()?;
        Ok(RuleAst { name, name_span, metas, left, right, conditions, span: self.since(start) })
    }
}
