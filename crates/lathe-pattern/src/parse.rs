//! The text of terms, types, funs and rules.

mod items;
mod terms;

use crate::ast::{Ast, AstKind, FunAst, HEIGHT, RuleAst};
use crate::codes;
use crate::lex::{Tok, Token, lex};
use crate::nat::Nat;
use crate::types::Type;
use lathe_diagnostics::{Diagnostic, FileId, Span};
use lathe_ir::{BinOp, Name, UnOp};
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

    /// After `(`: the one thing in brackets, or the parts of a tuple.
    fn parts<T>(
        &mut self,
        one: &mut dyn FnMut(&mut Parser) -> Result<T, Diagnostic>,
    ) -> Result<Result<T, Vec<T>>, Diagnostic> {
        let first = one(self)?;
        if !self.sign(",") {
            return self.expect(")").map(|()| Ok(first));
        }
        let rest = self.list(")", one)?;
        Ok(Err(std::iter::once(first).chain(rest).collect()))
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
}
