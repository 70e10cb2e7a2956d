//! Items: `use`, `struct`, `op`, `fun`, `rule`, and the types and parameters that kernels share.

use super::Parser;
use crate::ast::{Derivative, Expr, ExprKind, Ident, Item, Op, Param, Strategy, Struct, Type, TypeKind};
use crate::codes;
use lathe_syntax::{Expressions, Read, Rules, Tok};

/// The most parameters of a kernel: its checks compare each array with each output.
const MOST_PARAMETERS: usize = 500;
/// What a file consists of.
const AN_ITEM: &str = "an item (`kernel`, `strategy`, `test`, …)";

impl Parser<'_> {
    pub(super) fn file(&mut self) -> crate::ast::File {
        let mut items = Vec::new();
        while !self.ended() {
            let start = self.at;
            let mut wrong = None;
            match self.item() {
                Ok(item) => items.push(item),
                Err(d) => wrong = Some(d),
            }
            if let Some(d) = wrong {
                self.errors.push(d);
                if self.at == start {
                    self.advance();
                }
            } else if !self.at_item() {
                self.errors.push(self.unexpected(AN_ITEM));
            }
            self.skip_item();
        }
        crate::ast::File { items }
    }

    fn item(&mut self) -> Read<Item> {
        let start = self.span();
        let doc = self.doc();
        let Tok::Word(word) = self.peek() else { return self.expected(AN_ITEM) };
        match word {
            "use" => {
                self.advance();
                let file = self.string("a file's name in quotes")?;
                Ok(Item::Use { file, span: self.since(start) })
            }
            "struct" => self.structure().map(Item::Struct),
            "op" => self.op().map(Item::Op),
            "kernel" if self.is_at(2, "=") => self.derived(doc).map(Item::Derived),
            "kernel" => self.kernel(doc).map(Item::Kernel),
            "fun" => lathe_pattern::parse::fun(self).map(|f| Item::Fun(f, doc)),
            "derivative" => self.derivative().map(Item::Derivative),
            "rule" => lathe_pattern::parse::rule(self).map(Item::Rule),
            "strategy" => self.strategy().map(Item::Strategy),
            "test" => self.test().map(Item::Test),
            _ => self.expected(AN_ITEM),
        }
    }

    /// `derivative f = g`
    fn derivative(&mut self) -> Read<Derivative> {
        let start = self.span();
        self.advance();
        let of = self.ident("the kernel whose derivative is given")?;
        self.expect("=")?;
        let rule = self.ident("the kernel that computes it")?;
        Ok(Derivative { of, rule, span: self.since(start) })
    }

    fn strategy(&mut self) -> Read<Strategy> {
        let read = lathe_strategy::parse::definition(self)?;
        let definition = read.definition;
        let name = Ident { text: definition.name.clone(), span: read.name };
        let target = definition.target.clone().zip(read.target).map(|(text, span)| Ident { text, span });
        Ok(Strategy { definition, name, target })
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
    fn structure(&mut self) -> Read<Struct> {
        self.advance();
        let name = self.ident("the struct's name")?;
        let fields = self.listed("{", "}", |p| {
            let name = p.ident("a field's name")?;
            p.expect(":")?;
            Ok((name, p.ty()?))
        })?;
        Ok(Struct { name, fields })
    }

    fn op(&mut self) -> Read<Op> {
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
            body: Expr { kind: ExprKind::Error, span: self.span(), height: 1 },
        };
        loop {
            if self.take("associative") {
                op.associative = true;
            } else if self.take("commutative") {
                op.commutative = true;
            } else if self.take("identity") {
                op.identity = Some(self.inside("(", ")", Self::expr)?);
            } else {
                break;
            }
        }
        self.expect("=")?;
        op.body = self.expr()?;
        Ok(op)
    }

    pub(super) fn params(&mut self) -> Read<Vec<Param>> {
        let open = self.span();
        let params = self.listed("(", ")", |p| {
            let name = p.ident("a parameter's name")?;
            p.expect(":")?;
            let inout = p.take("inout");
            Ok(Param { name, inout, ty: p.ty()? })
        })?;
        if params.len() > MOST_PARAMETERS {
            let text = format!("{} parameters are too many", params.len());
            let mark = format!("at most {MOST_PARAMETERS}");
            let d = self.error(codes::NESTING, text, self.since(open), mark);
            return Err(d.help("put what is alike into one array with one more dimension"));
        }
        Ok(params)
    }

    pub(super) fn ty(&mut self) -> Read<Type> {
        let start = self.span();
        let kind = if self.is("(") {
            TypeKind::Tuple(self.listed("(", ")", Self::ty)?)
        } else {
            let name: Ident = self.ident("a type's name")?;
            let args = if self.is("<") { self.listed("<", ">", Self::sum)? } else { Vec::new() };
            TypeKind::Name(name, args)
        };
        let extents = if self.is("[") { Some(self.listed("[", "]", Self::expr)?) } else { None };
        let span = self.since(start);
        if self.is("[") {
            let text = "a type has one pair of brackets";
            let d = self.error(codes::EXPECTED, text, self.span(), "second pair");
            return Err(d.help("write all extents in one pair: `f32[N, K]`"));
        }
        Ok(Type { kind, extents, span })
    }
}
