//! Terms, by precedence climbing.

use super::Parser;
use crate::ast::{Ast, AstKind, LamParam, Pattern};
use crate::lex::Tok;
use crate::types::Kind;
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::{BinOp, UnOp};

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

impl Parser {
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

    pub(super) fn conjunction(&mut self) -> Result<Ast, Diagnostic> {
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

    pub(super) fn binary(&mut self, level: usize) -> Result<Ast, Diagnostic> {
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
                match self.parts(&mut |p| p.expr())? {
                    Ok(inside) => return Ok(inside),
                    Err(parts) => AstKind::Tuple(parts),
                }
            }
            _ => return self.error("a term"),
        };
        Ok(Ast::new(kind, self.since(start)))
    }
}
