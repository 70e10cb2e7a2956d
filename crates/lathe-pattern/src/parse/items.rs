//! Types, funs and rules.

use super::{Parser, nat_of};
use crate::ast::{Ast, FunAst, FunParam, RuleAst};
use crate::codes;
use crate::types::{Type, TypeKind};
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::{Name, Scalar};
use lathe_syntax::{Expressions, Operator, Read, Rules};

/// Conditions are joined by `and`; between them stand commas.
const AND: u8 = Operator::And.precedence();

impl Parser<'_, '_> {
    pub fn ty(&mut self) -> Read<Type> {
        let from = self.deeper(Parser::ty_atom)?;
        if self.take("->") {
            return Ok(Type::fun(from, self.deeper(Parser::ty)?));
        }
        Ok(from)
    }

    fn ty_atom(&mut self) -> Read<Type> {
        let span = self.span();
        let elem = if self.is("(") {
            let (mut parts, comma) = self.tuple(Parser::ty)?;
            match parts.len() {
                0 => return Err(self.error(codes::SYNTAX, "no type", self.since(span), "nothing")),
                1 if !comma => parts.remove(0),
                _ => Type::tuple(parts),
            }
        } else {
            let n = self.ident()?;
            match (&*n, Scalar::from_name(&n)) {
                (_, Some(s)) => Type::scalar(s),
                ("c64", _) => Type::complex(Scalar::F32.into()),
                ("c128", _) => Type::complex(Scalar::F64.into()),
                ("idx", _) => {
                    // A comparison would end at `>`.
                    Type::index(self.inside("<", ">", |p| nat_of(&p.sum()?))?)
                }
                ("vector", _) => {
                    let (elem, lanes) = self.inside("<", ">", |p| {
                        let elem = p.ty()?;
                        p.expect(",")?;
                        Ok((elem, nat_of(&p.sum()?)?))
                    })?;
                    Type::vector(lanes, elem)
                }
                _ if self.data_vars.contains(&n) => Type::new(TypeKind::Var(n)),
                _ => {
                    return Err(Diagnostic::error(codes::UNKNOWN, format!("there is no type `{n}`"))
                        .at(span, "unknown type")
                        .help("types are scalars, complex numbers `c64` and `c128`, `idx<N>`, tuples `(f32, i32)`, and arrays of these: `f32[N]`"));
                }
            }
        };
        if !self.is("[") {
            return Ok(elem);
        }
        let sizes = self.listed("[", "]", |p| nat_of(&p.term()?))?;
        Ok(Type::nested(&sizes, elem))
    }

    /// The word that an item begins with, and its name.
    fn named(&mut self, word: &str) -> Read<(Name, Span)> {
        self.expect(word)?;
        let span = self.span();
        Ok((self.ident()?, span))
    }

    pub fn fun(&mut self) -> Read<FunAst> {
        let start = self.span();
        let (name, name_span) = self.named("fun")?;
        let types = if self.is("<") {
            self.listed("<", ">", |p| {
                let span = p.span();
                Ok((p.ident()?, span))
            })?
        } else {
            Vec::new()
        };
        let known = self.data_vars.len();
        self.data_vars.extend(types.iter().map(|t| t.0.clone()));
        let params = self.listed("(", ")", |p| {
            let span = p.span();
            let name = p.ident()?;
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
        let body = self.term()?;
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
    fn conditions(&mut self) -> Read<Vec<Ast>> {
        let mut out = Vec::new();
        if self.take("where") {
            loop {
                out.push(self.climb(AND)?);
                if !self.take(",") {
                    break;
                }
            }
        }
        Ok(out)
    }

    /// `rule name(f, g) rounds: left => right where c`
    pub fn rule(&mut self) -> Read<RuleAst> {
        let start = self.span();
        let (name, name_span) = self.named("rule")?;
        let metas = if self.is("(") { self.listed("(", ")", |p| p.ident())? } else { Vec::new() };
        let rounds = self.take("rounds");
        self.expect(":")?;
        let left = self.term()?;
        self.expect("=>")?;
        let right = self.term()?;
        let conditions = self.conditions()?;
        Ok(RuleAst { name, name_span, metas, rounds, left, right, conditions, span: self.since(start) })
    }
}
