//! Terms: lambdas, pipes and compositions around the expressions that all texts share.

use super::Parser;
use crate::ast::{Ast, AstKind, LamParam, Pattern};
use crate::codes;
use crate::types::Kind;
use lathe_diagnostics::Span;
use lathe_ir::UnOp;
use lathe_syntax::{Expressions, Number, Operator, Read, Rules, Sign, Tok};

impl Parser<'_, '_> {
    pub fn term(&mut self) -> Read<Ast> {
        let start = self.span();
        if self.is("|") {
            return self.deeper(Parser::lambda);
        }
        if self.is("let") {
            return self.deeper(Parser::binding);
        }
        let mut e = self.composition()?;
        while self.take("|>") {
            let f = if self.is("|") { self.term()? } else { self.composition()? };
            let span = self.since(start);
            // Into the call, so that `x |> f(a)` reads as `f(a, x)`.
            e = match *f.kind {
                AstKind::Call(g, mut args) => {
                    args.push(e);
                    Ast::new(AstKind::Call(g, args), span)
                }
                _ => Ast::new(AstKind::Call(f, vec![e]), span),
            };
            e = self.low(e)?;
        }
        Ok(e)
    }

    /// `let p = e in b`
    fn binding(&mut self) -> Read<Ast> {
        let start = self.expect("let")?;
        let pattern = self.pattern()?;
        self.expect("=")?;
        let value = self.term()?;
        self.expect("in")?;
        let body = self.term()?;
        Ok(Ast::new(AstKind::Let(pattern, value, body), self.since(start)))
    }

    /// `|x, (y, z), n: nat, v: f32| body`
    fn lambda(&mut self) -> Read<Ast> {
        let start = self.span();
        let (params, known) = (self.listed("|", "|", |p| p.lam_param())?, self.data_vars.len());
        if params.is_empty() {
            return self.expected("a parameter");
        }
        for p in &params {
            if let LamParam::Dep(Kind::Data, x) = p {
                self.data_vars.push(x.clone());
            }
        }
        let body = self.term();
        self.data_vars.truncate(known);
        Ok(Ast::new(AstKind::Lam(params, body?), self.since(start)))
    }

    fn lam_param(&mut self) -> Read<LamParam> {
        let pattern = self.pattern()?;
        if !self.take(":") {
            return Ok(LamParam::Data(pattern, None));
        }
        if let Pattern::Name(n) = &pattern {
            if self.take("nat") {
                return Ok(LamParam::Dep(Kind::Nat, n.clone()));
            }
            if self.take("data") {
                return Ok(LamParam::Dep(Kind::Data, n.clone()));
            }
        }
        Ok(LamParam::Data(pattern, Some(self.ty()?)))
    }

    fn pattern(&mut self) -> Read<Pattern> {
        if self.is("(") {
            return Ok(Pattern::Tuple(self.listed("(", ")", |p| p.pattern())?));
        }
        let n = self.ident()?;
        Ok(if &*n == "_" { Pattern::Any } else { Pattern::Name(n) })
    }

    fn composition(&mut self) -> Read<Ast> {
        let start = self.span();
        let mut e = self.expr()?;
        loop {
            if self.take(">>") {
                let g = self.expr()?;
                e = self.low(Ast::new(AstKind::Then(e, g), self.since(start)))?;
            } else if self.take("<<") {
                let g = self.expr()?;
                e = self.low(Ast::new(AstKind::Then(g, e), self.since(start)))?;
            } else {
                return Ok(e);
            }
        }
    }

    fn atom(&mut self) -> Read<Ast> {
        let start = self.span();
        let kind = match self.peek() {
            Tok::Sym("(") => {
                let (mut parts, comma) = self.tuple(Parser::term)?;
                match parts.len() {
                    0 => return Err(self.error(codes::SYNTAX, "no term", self.since(start), "nothing")),
                    1 if !comma => return Ok(parts.remove(0)),
                    _ => AstKind::Tuple(parts),
                }
            }
            Tok::Name(_) => AstKind::Name(self.ident()?),
            Tok::Word(word @ ("true" | "false")) => {
                self.advance();
                AstKind::Bool(word == "true")
            }
            Tok::Int(digits) if let Ok(v) = digits.parse::<u64>() => {
                self.advance();
                AstKind::Int(v.into())
            }
            _ if let Some(v) = self.imaginary()? => AstKind::Imaginary(v),
            _ => match self.numeral(false)? {
                Some(Number::Int(v)) => AstKind::Int(v.into()),
                Some(Number::Float(v)) => AstKind::Float(v),
                None => return self.expected("a term"),
            },
        };
        Ok(Ast::new(kind, self.since(start)))
    }
}

impl<'a> Expressions<'a> for Parser<'_, 'a> {
    type Expr = Ast;

    fn operand(&mut self) -> Read<Ast> {
        let start = self.span();
        let mut e = self.atom()?;
        loop {
            let kind = if self.is("(") {
                AstKind::Call(e, self.listed("(", ")", Parser::term)?)
            } else if self.is("[") {
                AstKind::Index(e, self.listed("[", "]", Parser::term)?)
            } else if self.take(".") {
                let Tok::Int(n) = self.peek() else { return self.expected("the number of a component") };
                self.advance();
                AstKind::Part(e, n.parse().unwrap_or(usize::MAX))
            } else {
                return Ok(e);
            };
            e = self.low(Ast::new(kind, self.since(start)))?;
        }
    }

    fn unary(&mut self, sign: Sign, a: Ast, span: Span) -> Read<Ast> {
        let kind = match (sign, *a.kind) {
            (Sign::Neg, AstKind::Int(v)) => AstKind::Int(-v),
            (Sign::Neg, AstKind::Float(v)) => AstKind::Float(-v),
            (Sign::Neg, kind) => AstKind::Unary(UnOp::Neg, Ast { kind: Box::new(kind), ..a }),
            (Sign::Not, kind) => AstKind::Unary(UnOp::Not, Ast { kind: Box::new(kind), ..a }),
        };
        Ok(Ast::new(kind, span))
    }

    fn binary(&mut self, op: Operator, a: Ast, b: Ast, span: Span, _: usize) -> Read<Ast> {
        self.low(Ast::new(AstKind::Binary(op.into(), a, b), span))
    }
}
