//! Types, funs and rules.

use super::{Parser, nat_of};
use crate::ast::{Ast, FunAst, FunParam, RuleAst};
use crate::codes;
use crate::types::{Type, TypeKind};
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::{Name, Scalar};

impl Parser {
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
            self.parts(&mut |p| p.ty())?.unwrap_or_else(Type::tuple)
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
                        .at(span, "unknown type")
                        .help(
                            "types are scalars, `idx<N>`, tuples `(f32, i32)`, and arrays of these: `f32[N]`",
                        ));
                }
            }
        };
        if !self.sign("[") {
            return Ok(elem);
        }
        let sizes = self.list("]", &mut |p| nat_of(&p.expr()?))?;
        Ok(Type::nested(&sizes, elem))
    }

    /// The word that an item begins with, and its name.
    fn named(&mut self, word: &str) -> Result<(Name, Span), Diagnostic> {
        if !self.word(word) {
            return self.error(&format!("`{word}`"));
        }
        let span = self.span();
        Ok((self.name()?, span))
    }

    pub fn fun(&mut self) -> Result<FunAst, Diagnostic> {
        let start = self.span();
        let (name, name_span) = self.named("fun")?;
        let types = if self.sign("<") {
            self.list(">", &mut |p| {
                let span = p.span();
                Ok((p.name()?, span))
            })?
        } else {
            Vec::new()
        };
        let known = self.data_vars.len();
        self.data_vars.extend(types.iter().map(|t| t.0.clone()));
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
        self.data_vars.truncate(known);
        Ok(FunAst {
            name,
            name_span,
            types,
            params,
            result,
            result_span,
            facts,
            body,
            span: self.since(start),
        })
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

    /// `rule name(f, g) rounds: left => right where c`
    pub fn rule(&mut self) -> Result<RuleAst, Diagnostic> {
        let start = self.span();
        let (name, name_span) = self.named("rule")?;
        let metas = if self.sign("(") { self.list(")", &mut |p| p.name())? } else { Vec::new() };
        let rounds = self.word("rounds");
        self.expect(":")?;
        let left = self.expr()?;
        self.expect("=>")?;
        let right = self.expr()?;
        let conditions = self.conditions()?;
        Ok(RuleAst { name, name_span, metas, rounds, left, right, conditions, span: self.since(start) })
    }
}
