//! Items: `use`, `struct`, `op`, `fun`, `rule`, and the types and parameters that kernels share.

use super::Parser;
use crate::ast::{Ident, Item, Op, Param, Struct, Type, TypeKind};
use crate::codes;
use crate::lexer::Tok;
use lathe_diagnostics::{Diagnostic, FileId};
use std::ops::Range;

/// The most parameters of a kernel: its checks compare each array with each output.
const MOST_PARAMETERS: usize = 500;

impl Parser<'_> {
    pub(super) fn file(&mut self) -> crate::ast::File {
        let mut items = Vec::new();
        while *self.peek() != Tok::End {
            let start = self.at;
            match self.item() {
                Some(item) => items.push(item),
                None => {
                    self.lines = false;
                    self.depth = 0;
                    if self.at == start {
                        self.advance();
                    }
                    self.skip_item();
                }
            }
            if !self.at_item() {
                self.expected("an item (`kernel`, `strategy`, `test`, …)");
                self.skip_item();
            }
        }
        crate::ast::File { items }
    }

    fn item(&mut self) -> Option<Item> {
        let start = self.span();
        let doc = self.doc();
        let Tok::Word(word) = self.peek() else {
            self.expected("an item (`kernel`, `strategy`, `test`, …)");
            return None;
        };
        let word = *word;
        match word {
            "use" => {
                self.advance();
                if let Tok::Str(file) = self.peek() {
                    let file = file.clone();
                    self.advance();
                    return Some(Item::Use { file, span: self.since(start) });
                }
                self.expected("a file's name in quotes");
                None
            }
            "struct" => self.structure().map(Item::Struct),
            "op" => self.op().map(Item::Op),
            "kernel" if self.is_at(2, "=") => self.derived(doc).map(Item::Derived),
            "kernel" => self.kernel(doc).map(Item::Kernel),
            "fun" => self.pattern_item(lathe_pattern::parse::parse_fun_at).map(|f| Item::Fun(f, doc)),
            "rule" => self.pattern_item(lathe_pattern::parse::parse_rule_at).map(Item::Rule),
            "strategy" => self.strategy().map(Item::Strategy),
            "test" => self.test().map(Item::Test),
            _ => {
                self.expected("an item (`kernel`, `strategy`, `test`, …)");
                None
            }
        }
    }

    /// The comment lines that end on the line before the item.
    fn doc(&self) -> String {
        let here: Vec<_> = self.comments.iter().filter(|c| c.before == self.at && c.own_line).collect();
        let mut lines = Vec::new();
        let mut below = self.span().start as usize;
        for c in here.iter().rev() {
            let gap = &self.text[c.span.end as usize..below];
            let text = &self.text[c.span.start as usize..c.span.end as usize];
            if gap.matches('\n').count() != 1 || text.starts_with("#:") {
                break;
            }
            lines.push(text.trim_start_matches('#').trim().to_string());
            below = c.span.start as usize;
        }
        lines.reverse();
        lines.join("\n")
    }

    /// `struct P { v: f32, i: i64 }`
    fn structure(&mut self) -> Option<Struct> {
        self.advance();
        let name = self.ident("the struct's name")?;
        let open = self.expect("{")?;
        let fields = self.nested(false, |p| {
            p.list("}", |p| {
                let name = p.ident("a field's name")?;
                p.expect(":")?;
                Some((name, p.ty()?))
            })
        })?;
        self.close("}", open)?;
        Some(Struct { name, fields })
    }

    fn op(&mut self) -> Option<Op> {
        self.advance();
        let name = self.ident("the operator's name")?;
        let params = self.params()?;
        self.expect("->")?;
        let result = self.ty()?;
        let mut op = Op {
            name,
            params,
            result,
            associative: false,
            commutative: false,
            identity: None,
            body: crate::ast::Expr { kind: crate::ast::ExprKind::Error, span: self.span(), height: 1 },
        };
        loop {
            if self.is_name("associative") {
                op.associative = true;
                self.advance();
            } else if self.is_name("commutative") {
                op.commutative = true;
                self.advance();
            } else if self.is_name("identity") {
                self.advance();
                let open = self.expect("(")?;
                op.identity = Some(self.nested(false, |p| p.expr())?);
                self.close(")", open)?;
            } else {
                break;
            }
        }
        self.expect("=")?;
        op.body = self.expr()?;
        Some(op)
    }

    /// A `fun` or `rule`: read by `lathe-pattern`, from the part of the text that it takes up.
    fn pattern_item<T>(
        &mut self,
        read: fn(FileId, &str, Range<usize>) -> Result<T, Diagnostic>,
    ) -> Option<T> {
        let start = self.span();
        self.advance();
        let first = self.at;
        while !self.at_item() {
            // The brackets of `fun name<T>`, `idx<N>` and `vector<f32, N>`; sizes have no comparisons.
            let opens = self.at == first || self.is_name("idx") || self.is_name("vector");
            if opens && self.is_at(1, "<") {
                self.advance();
                self.angles.push(self.at);
                while !self.at_item() && !self.is(">") {
                    self.advance();
                }
                if self.is(">") {
                    self.angles.push(self.at);
                }
            } else {
                self.advance();
            }
        }
        let part = start.start as usize..self.last_span().end as usize;
        read(start.file, self.text, part).map_err(|d| self.errors.push(d)).ok()
    }

    pub(super) fn params(&mut self) -> Option<Vec<Param>> {
        let open = self.expect("(")?;
        let params = self.nested(false, |p| {
            p.list(")", |p| {
                let name = p.ident("a parameter's name")?;
                p.expect(":")?;
                let inout = p.take("inout");
                Some(Param { name, inout, ty: p.ty()? })
            })
        })?;
        self.close(")", open)?;
        if params.len() > MOST_PARAMETERS {
            let span = self.since(open);
            let text = format!("{} parameters are too many", params.len());
            self.error(codes::NESTING, text, span, format!("at most {MOST_PARAMETERS}"));
            self.help("put what is alike into one array with one more dimension");
            return None;
        }
        Some(params)
    }

    pub(super) fn ty(&mut self) -> Option<Type> {
        let start = self.span();
        let kind = if self.is("(") {
            let open = self.expect("(")?;
            let types = self.nested(false, |p| p.list(")", |p| p.ty()))?;
            self.close(")", open)?;
            TypeKind::Tuple(types)
        } else {
            let name: Ident = self.ident("a type's name")?;
            let mut args = Vec::new();
            if self.is("<") {
                self.angles.push(self.at);
                let open = self.expect("<")?;
                args = self.nested(false, |p| p.list(">", |p| p.sum()))?;
                self.angles.push(self.at);
                self.close(">", open)?;
            }
            TypeKind::Name(name, args)
        };
        let mut extents = None;
        if self.is("[") {
            let open = self.expect("[")?;
            let list = self.nested(false, |p| p.list("]", |p| p.expr()))?;
            self.close("]", open)?;
            extents = Some(list);
        }
        let span = self.since(start);
        if self.is("[") {
            let here = self.span();
            self.error(codes::EXPECTED, "a type has one pair of brackets", here, "second pair");
            self.help("write all extents in one pair: `f32[N, K]`");
            return None;
        }
        Some(Type { kind, extents, span })
    }
}
