//! Parsing what stands beside functions: globals, external functions, declared effects.

use super::lex::Tok;
use super::parse::{Parsed, Parser};
use crate::codes;
use crate::expr::Expr;
use crate::func::Space;
use crate::module::{External, Global, Init};
use crate::stmt::Effects;
use crate::summary::{Base, Summary, Touch, TouchMode};
use crate::types::Name;

impl Parser {
    /// `global name: T[extents] [space] [alias C] [= zero | = {v, …}]`
    pub(super) fn global(&mut self) -> Parsed<()> {
        let span = self.span();
        let name = Name::from(self.name("the name of a global")?);
        self.expect(":")?;
        let elem = self.ty()?;
        self.expect("[")?;
        let extents = self.list("]", |p| p.number("an extent", i64::MAX as u64))?;
        let mut space = Space::Host;
        // At the beginning of a line `global` is the next one.
        if let Some(s) = self.space().filter(|_| !self.token(0).first) {
            space = s;
            self.bump();
        }
        let alias =
            if self.eat_word("alias") { Some(Name::from(self.name("an alias class")?)) } else { None };
        let init = if !self.eat("=") {
            Init::Undefined
        } else if self.eat_word("zero") {
            Init::Zero
        } else {
            self.expect("{")?;
            Init::Values(self.nested(|p| p.list("}", Parser::constant))?)
        };
        let item = Global { name: name.clone(), elem, extents, space, init, alias };
        self.insert(&name, span, item, |m| &mut m.globals)
    }

    fn constant(&mut self) -> Parsed<Expr> {
        self.statement_ends();
        self.expr()
    }

    /// `extern name(sizes)(params) [-> T] effects (…) [meaning f]`
    pub(super) fn external(&mut self) -> Parsed<()> {
        let span = self.span();
        let name = Name::from(self.name("the name of an external function")?);
        self.expect("(")?;
        let sizes = self.list(")", |p| {
            let b = p.binder("the name of a size")?;
            p.scope.bind_var(&b);
            Ok(b)
        })?;
        self.expect("(")?;
        let params = self.list(")", Parser::param)?;
        let result = if self.eat("->") { Some(self.ty()?) } else { None };
        self.expect_word("effects")?;
        let summary = self.summary()?;
        let meaning = match self.eat_word("meaning") {
            true => Some(Name::from(self.name("the name of a function")?)),
            false => None,
        };
        let item = External { name: name.clone(), sizes, params, result, summary, meaning };
        self.insert(&name, span, item, |m| &mut m.externals)
    }

    /// `(read x[0..N], reduce(sum) y, write global(g), read class(C), fail, io)`
    pub(super) fn summary(&mut self) -> Parsed<Summary> {
        self.expect("(")?;
        let mut out = Summary::default();
        let touches = self.list(")", |p| {
            let span = p.span();
            let word = match p.peek() {
                Tok::Name { text, quoted: false } => text.clone(),
                _ => return p.expected("an effect"),
            };
            p.bump();
            let mode = match word.as_str() {
                "read" => TouchMode::Read,
                "write" => TouchMode::Write,
                "reduce" => {
                    p.expect("(")?;
                    let op = p.op_name()?;
                    p.expect(")")?;
                    TouchMode::Reduce(op)
                }
                _ => {
                    return match Effects::from_name(&word) {
                        Some(e) => Ok((None, e)),
                        None => {
                            let names: Vec<&str> = Effects::NAMES.iter().map(|n| n.1).collect();
                            let what = format!(
                                "`{word}` is no effect (there are read, write, reduce, {})",
                                names.join(", ")
                            );
                            p.error(codes::SYNTAX, span, what)
                        }
                    };
                }
            };
            Ok((Some(p.touch(mode)?), Effects::NONE))
        })?;
        for (touch, effects) in touches {
            out.touches.extend(touch);
            out.effects = out.effects.and(effects);
        }
        Ok(out)
    }

    fn touch(&mut self, mode: TouchMode) -> Parsed<Touch> {
        let base = if self.at_word("global") {
            self.bump();
            self.expect("(")?;
            let name = Name::from(self.name("the name of a global")?);
            self.expect(")")?;
            Base::Global(name)
        } else if self.at_word("class") && self.at_ahead(1, "(") {
            self.bump();
            self.expect("(")?;
            let name = Name::from(self.name("an alias class")?);
            self.expect(")")?;
            Base::Class(name)
        } else {
            Base::Param(self.buf_ref(self.span())?)
        };
        let region = match self.eat("[") {
            true => Some(self.nested(|p| {
                p.list("]", |p| {
                    p.statement_ends();
                    p.range()
                })
            })?),
            false => None,
        };
        Ok(Touch { base, mode, region })
    }
}
