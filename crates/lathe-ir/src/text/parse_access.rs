//! Parsing names of variables and buffers, accesses and views.

use super::parse::{Parsed, Parser};
use crate::codes;
use crate::expr::{Access, Expr, ExprKind, Status, View};
use crate::ids::{BufId, VarId};
use crate::types::Type;
use lathe_diagnostics::{Diagnostic, Places, Span};
use lathe_syntax::{Expressions, Rules, Tok};

impl Parser<'_> {
    /// `i`, `i%12`, or `%12` whatever is in scope.
    pub(crate) fn var_ref(&mut self) -> Parsed<VarId> {
        let start = self.span();
        if self.take("%") {
            return Ok(VarId(self.number32("the number of a variable")?));
        }
        let name = self.ident("a variable")?;
        if self.is("%")
            && self.token(0).glued
            && self.token(1).glued
            && matches!(self.token(1).tok, Tok::Int(_))
        {
            self.advance();
            let n = self.number32("the number of a variable")?;
            let id = VarId(n);
            if self.scope.var(id).is_some_and(|v| *v.0 == *name) {
                return Ok(id);
            }
            let help = format!("the remainder is written with spaces: `{name} % {n}`");
            return self.unknown(self.since(start), "variable", &format!("{name}%{n}"), help);
        }
        match self.scope.find_var(&name) {
            Some(id) => Ok(id),
            None => {
                let help = match self.scope.find_buf(&name) {
                    Some(_) => format!("`{name}` is a buffer: an access has brackets, `{name}[]`"),
                    None => format!("bind it: a size, a parameter, `let {name}: T = …` or `for {name} in …`"),
                };
                self.unknown(self.since(start), "variable", &name, help)
            }
        }
    }

    pub(super) fn load(&mut self, start: Span) -> Parsed<Expr> {
        let a = self.access()?;
        self.ascribed(start, ExprKind::Load(a), &Type::BOOL)
    }

    pub(crate) fn access(&mut self) -> Parsed<Access> {
        let start = self.span();
        let (view, elem) = self.view()?;
        let elem = match self.ascription()?.or(elem) {
            Some(t) => t,
            None => {
                let span = self.since(start);
                let d = Diagnostic::error(codes::UNKNOWN_NAME, "the element type of this view is not known");
                let help =
                    "a buffer out of scope, a `deref` and a global of another module need one: `@3:f32[i]`";
                return Err(d.at(span, "here").help(help));
            }
        };
        let indices = self.listed("[", "]", Parser::expr)?;
        let status = if self.take("!") {
            Status::Proved
        } else if self.take("?") {
            Status::Checked
        } else if self.take("~") {
            Status::Assumed(self.text("who makes the assumption, in quotes")?)
        } else {
            Status::Unproved
        };
        Ok(Access { view, indices, elem, status, places: Places::one(self.since(start)) })
    }

    /// A view, and its element type where the view implies one.
    pub(crate) fn view(&mut self) -> Parsed<(View, Option<Type>)> {
        let start = self.span();
        if self.take("@") {
            let n = self.number32("the number of a buffer")?;
            let id = BufId(n);
            return Ok((View::Buffer(id), self.scope.buf(id).map(|b| b.1.clone())));
        }
        let word = if self.is_at(1, "(") { self.word() } else { "" };
        match word {
            "slice" | "reshape" | "reinterpret" | "deref" | "global" => {
                self.advance();
                self.inside("(", ")", |p| p.view_args(word))
            }
            _ => {
                let id = self.buf_ref(start)?;
                Ok((View::Buffer(id), self.scope.buf(id).map(|b| b.1.clone())))
            }
        }
    }

    fn view_args(&mut self, word: &str) -> Parsed<(View, Option<Type>)> {
        if word == "global" {
            let name = self.ident("the name of a global")?;
            let elem = self.module.globals.get(&name).map(|g| g.elem.clone());
            return Ok((View::Global(name), elem));
        }
        if word == "deref" {
            let pointer = Box::new(self.expr()?);
            self.expect(",")?;
            let class = self.ident("an alias class")?;
            return Ok((View::Deref { pointer, class }, None));
        }
        let (base, elem) = self.view()?;
        let base = Box::new(base);
        self.expect(",")?;
        if word == "reinterpret" {
            let elem = self.ty()?;
            self.expect(",")?;
            let align = self.number32("an alignment")?;
            return Ok((View::Reinterpret { base, elem: elem.clone(), align }, Some(elem)));
        }
        let list = self.listed("[", "]", Parser::expr)?;
        if word == "reshape" {
            return Ok((View::Reshape { base, extents: list }, elem));
        }
        self.expect(",")?;
        let steps = self.listed("[", "]", |p| p.signed_number("a step"))?;
        Ok((View::Slice { base, offsets: list, steps }, elem))
    }

    pub(super) fn buf_ref(&mut self, start: Span) -> Parsed<BufId> {
        let name = self.ident("a buffer")?;
        if self.is("@") && self.token(0).glued {
            self.advance();
            let n = self.number32("the number of a buffer")?;
            let id = BufId(n);
            if self.scope.buf(id).is_some_and(|b| *b.0 == *name) {
                return Ok(id);
            }
            let help = format!("a buffer that is not in scope is written `@{n}:T`");
            return self.unknown(self.since(start), "buffer", &format!("{name}@{n}"), help);
        }
        match self.scope.find_buf(&name) {
            Some(id) => Ok(id),
            None => {
                let help = format!("bind it: a parameter, or `alloc {name}: T[…]`");
                self.unknown(self.since(start), "buffer", &name, help)
            }
        }
    }
}
