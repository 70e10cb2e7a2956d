//! Parsing items other than functions: globals, external functions, declared effects.

use super::parse::{Parsed, Parser};
use crate::buffer::Space;
use crate::codes;
use crate::expr::Expr;
use crate::module::{External, Global, Init};
use crate::stmt::Effects;
use crate::summary::{Base, Summary, Touch, TouchMode};
use lathe_syntax::{Expressions, Rules};

impl Parser<'_> {
    /// `global name: T[extents] [space] [alias C] [= zero | = {v, …}]`
    pub(super) fn global(&mut self) -> Parsed<()> {
        let span = self.span();
        let name = self.ident("the name of a global")?;
        self.expect(":")?;
        let elem = self.ty()?;
        let extents = self.listed("[", "]", |p| p.number("an extent", i64::MAX as u64))?;
        let mut space = Space::Host;
        // At the beginning of a line `global` is the next one.
        if let Some(s) = self.space().filter(|_| !self.newline()) {
            space = s;
            self.advance();
        }
        let alias = if self.take("alias") { Some(self.ident("an alias class")?) } else { None };
        let init = if !self.take("=") {
            Init::Undefined
        } else if self.take("zero") {
            Init::Zero
        } else {
            Init::Values(self.listed("{", "}", Parser::constant)?)
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
        let name = self.ident("the name of an external function")?;
        let (sizes, params) = self.signature()?;
        let result = if self.take("->") { Some(self.ty()?) } else { None };
        self.expect("effects")?;
        let summary = self.summary()?;
        let meaning = match self.take("meaning") {
            true => Some(self.ident("the name of a function")?),
            false => None,
        };
        let item = External { name: name.clone(), sizes, params, result, summary, meaning };
        self.insert(&name, span, item, |m| &mut m.externals)
    }

    /// `derivative f = g`
    pub(super) fn derivative(&mut self) -> Parsed<()> {
        let of = self.ident("the name of a function")?;
        self.expect("=")?;
        let rule = self.ident("the name of a function")?;
        self.module.derivatives.entry(of).or_default().push(rule);
        Ok(())
    }

    /// `(read x[0..N], reduce(sum) y, write global(g), read class(C), fail, io)`
    pub(super) fn summary(&mut self) -> Parsed<Summary> {
        let mut out = Summary::default();
        let touches = self.listed("(", ")", |p| {
            let (span, word) = (p.span(), p.word());
            if word.is_empty() {
                return p.expected("an effect");
            }
            p.advance();
            let mode = match word {
                "read" => TouchMode::Read,
                "write" => TouchMode::Write,
                "reduce" => TouchMode::Reduce(p.inside("(", ")", Parser::op_name)?),
                _ => {
                    return match Effects::from_name(word) {
                        Some(e) => Ok((None, e)),
                        None => {
                            let names: Vec<&str> = Effects::NAMES.iter().map(|n| n.1).collect();
                            let what = format!(
                                "`{word}` is not an effect (effects: read, write, reduce, {})",
                                names.join(", ")
                            );
                            p.wrong(codes::SYNTAX, span, what)
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
        let base = if self.take("global") {
            Base::Global(self.inside("(", ")", |p| p.ident("the name of a global"))?)
        } else if self.is("class") && self.is_at(1, "(") {
            self.advance();
            Base::Class(self.inside("(", ")", |p| p.ident("an alias class"))?)
        } else {
            Base::Param(self.buf_ref(self.span())?)
        };
        let region = match self.is("[") {
            true => Some(self.listed("[", "]", |p| {
                p.statement_ends();
                p.range()
            })?),
            false => None,
        };
        Ok(Touch { base, mode, region })
    }
}
