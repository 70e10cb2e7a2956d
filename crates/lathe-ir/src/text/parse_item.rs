//! Parsing items: structs, operators, functions and their parameters.

use super::parse::{MAX_LEAVES, Parsed, Parser};
use super::print::largest_id;
use crate::buffer::{Buffer, Space};
use crate::codes;
use crate::expr::Expr;
use crate::func::{Function, Mode, Param, ParamKind, Stage};
use crate::ids::{Binder, BufId, VarId};
use crate::layout::{Layout, LayoutStep};
use crate::module::{CombineOp, Module};
use crate::stmt::Stmt;
use crate::types::{Name, StructType, Type};
use lathe_diagnostics::Span;
use lathe_syntax::{Expressions, Rules};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

impl Parser<'_> {
    pub(super) fn items(&mut self) {
        while !self.ended() {
            let start = self.at;
            self.item_begins();
            self.begins_line(0);
            let done = if self.take("struct") {
                self.structure()
            } else if self.take("op") {
                self.op()
            } else if self.take("global") {
                self.global()
            } else if self.take("extern") {
                self.external()
            } else if self.take("func") {
                self.function()
            } else if self.take("derivative") {
                self.derivative()
            } else {
                self.expected("`func`, `extern`, `global`, `op`, `struct` or `derivative`")
            };
            if let Err(d) = done {
                self.report(d);
                if self.at == start {
                    self.advance();
                }
                self.skip_item();
            }
        }
    }

    /// Items begin with a reserved word, which stands nowhere else.
    pub(crate) fn at_item(&self) -> bool {
        let item = ["func", "extern", "op", "struct", "derivative"].into_iter().any(|w| self.is(w));
        // A space is named so, too.
        item || (self.is("global") && self.newline())
    }

    /// Skips the rest of the item.
    pub(crate) fn skip_item(&mut self) {
        while !self.ended() && !self.at_item() {
            self.advance();
        }
    }

    pub(crate) fn statement_ends(&mut self) {
        self.shared.clear();
        // Clearing costs what the largest statement took, so large tables are dropped instead.
        if self.heights.capacity() > 256 {
            self.heights = HashMap::new();
        }
        self.heights.clear();
    }

    pub(super) fn insert<T>(
        &mut self,
        name: &Name,
        span: Span,
        item: T,
        map: impl FnOnce(&mut Module) -> &mut BTreeMap<Name, T>,
    ) -> Parsed<()> {
        if map(&mut self.module).insert(name.clone(), item).is_some() {
            return self.wrong(codes::BOUND_TWICE, span, format!("`{name}` is declared twice"));
        }
        Ok(())
    }

    fn structure(&mut self) -> Parsed<()> {
        let span = self.span();
        let name = self.ident("the name of a struct")?;
        let mut names = HashSet::new();
        let fields = self.listed("{", "}", |p| {
            let at = p.span();
            let field = p.ident("the name of a field")?;
            if !names.insert(field.clone()) {
                return p.wrong(codes::BOUND_TWICE, at, format!("two fields are named `{field}`"));
            }
            p.expect(":")?;
            Ok((field, p.ty()?))
        })?;
        let leaves = fields.iter().fold(0u64, |n, f| n.saturating_add(self.count_leaves(&f.1)));
        if leaves > MAX_LEAVES {
            let what = format!("this struct has more than {MAX_LEAVES} scalars");
            return self.wrong(codes::TOO_DEEP, span, what);
        }
        self.leaves.insert(name.clone(), leaves.max(1));
        let item = Arc::new(StructType { name: name.clone(), fields });
        self.insert(&name, span, item, |m| &mut m.structs)
    }

    fn op(&mut self) -> Parsed<()> {
        let span = self.span();
        let name = self.ident("the name of an operator")?;
        self.expect("(")?;
        let a = self.binder_name("@", "the name of the first operand")?;
        self.expect(",")?;
        let b = self.binder_name("@", "the name of the second operand")?;
        self.expect(")")?;
        self.expect(":")?;
        let ty = self.ty()?;
        self.scope.bind_buf(BufId(a.1), &a.0, &ty);
        self.scope.bind_buf(BufId(b.1), &b.0, &ty);
        let associative = self.take("associative");
        let commutative = self.take("commutative");
        let mut identity = None;
        if self.take("identity") {
            identity = Some(self.inside("(", ")", Parser::rooted)?);
        }
        self.begins_line(1);
        self.expect("=")?;
        let body = self.rooted()?;
        let (a, b) = (BufId(a.1), BufId(b.1));
        let item = CombineOp { name: name.clone(), ty, a, b, body, associative, commutative, identity };
        self.insert(&name, span, item, |m| &mut m.ops)
    }

    fn rooted(&mut self) -> Parsed<Expr> {
        self.statement_ends();
        self.with_bindings(1)?;
        self.expr()
    }

    /// `(sizes)(params)`
    pub(super) fn signature(&mut self) -> Parsed<(Vec<Binder>, Vec<Param>)> {
        let sizes = self.listed("(", ")", |p| {
            let b = p.binder("the name of a size")?;
            p.scope.bind_var(&b);
            Ok(b)
        })?;
        Ok((sizes, self.listed("(", ")", Parser::param)?))
    }

    fn function(&mut self) -> Parsed<()> {
        let span = self.span();
        let name = self.ident("the name of a function")?;
        let (sizes, params) = self.signature()?;
        let summary = if self.take("effects") { Some(self.summary()?) } else { None };
        let mut stage = Stage::Plain;
        if self.take("stage") {
            let at = self.span();
            stage = match &*self.ident("a stage")? {
                "plain" => Stage::Plain,
                "scheduled" => Stage::Scheduled,
                "machine" => Stage::Machine,
                other => {
                    let what = format!("`{other}` is not a stage (stages: plain, scheduled, machine)");
                    return self.wrong(codes::SYNTAX, at, what);
                }
            };
        }
        let mut next_id = None;
        if self.take("next") {
            next_id = Some(self.number32("the counter")?);
        }
        let result = if self.take("=") { Some(self.rooted()?) } else { None };
        let body = if self.is("{") || result.is_none() { self.braces()? } else { Stmt::empty() };
        let mut f = Function { name: name.clone(), sizes, params, result, body, stage, summary, next_id: 0 };
        f.next_id = next_id.unwrap_or_else(|| largest_id(&f).map_or(0, |n| n.saturating_add(1)));
        self.insert(&name, span, f, |m| &mut m.functions)
    }

    pub(super) fn param(&mut self) -> Parsed<Param> {
        // The kind of number says which kind of parameter it is only when one is given.
        let sigil = if self.is_at(1, "@") { "@" } else { "%" };
        let (name, id) = self.binder_name(sigil, "the name of a parameter")?;
        self.expect(":")?;
        let mode = if self.take("in") {
            Mode::In
        } else if self.take("out") {
            Mode::Out
        } else if self.take("inout") {
            Mode::InOut
        } else {
            return self.expected("`in`, `out` or `inout`");
        };
        let at = self.span();
        let elem = self.ty()?;
        let kind = if self.is("[") {
            ParamKind::Array(self.buffer_rest(BufId(id), name, elem)?)
        } else {
            match elem.scalar() {
                Some(ty) => {
                    let b = Binder { id: VarId(id), name, ty };
                    self.scope.bind_var(&b);
                    ParamKind::Scalar(b)
                }
                None => {
                    let what = format!("a parameter of type {elem} is an array: `{elem}[]`");
                    return self.wrong(codes::SYNTAX, at, what);
                }
            }
        };
        let alias = if self.take("alias") { Some(self.ident("an alias class")?) } else { None };
        Ok(Param { kind, mode, alias })
    }

    /// `[extents] [space] [layout …]`; binds the buffer.
    pub(crate) fn buffer_rest(&mut self, id: BufId, name: Name, elem: Type) -> Parsed<Arc<Buffer>> {
        let extents = self.listed("[", "]", Parser::expr)?;
        let mut space = Space::Host;
        if let Some(s) = self.space() {
            space = s;
            self.advance();
        }
        let layout = if self.take("layout") { self.layout()? } else { Layout::row_major() };
        self.scope.bind_buf(id, &name, &elem);
        Ok(Arc::new(Buffer { id, name, elem, extents, space, layout }))
    }

    /// The space that is named here.
    pub(super) fn space(&self) -> Option<Space> {
        Space::from_name(self.word())
    }

    fn layout(&mut self) -> Parsed<Layout> {
        const DIM: u64 = 255;
        let mut steps = Vec::new();
        loop {
            let word = self.word();
            if !matches!(word, "permute" | "tile" | "pad" | "swizzle" | "distribute") {
                break;
            }
            self.advance();
            if word == "permute" {
                let order = self.listed("(", ")", |p| Ok(p.number("a dimension", DIM)? as usize))?;
                steps.push(LayoutStep::Permute(order));
                continue;
            }
            self.expect("(")?;
            let dim = self.number("a dimension", DIM)? as usize;
            self.expect(",")?;
            steps.push(match word {
                "tile" => LayoutStep::Tile { dim, size: self.number("a size", u64::MAX)? },
                "pad" => LayoutStep::Pad { dim, multiple: self.number("a multiple", u64::MAX)? },
                "swizzle" => {
                    let by = self.number("a dimension", DIM)? as usize;
                    self.expect(",")?;
                    LayoutStep::Swizzle { dim, by, modulus: self.number("a modulus", u64::MAX)? }
                }
                _ => LayoutStep::Distribute { dim, over: self.ident("the name of a loop")? },
            });
            self.expect(")")?;
        }
        if steps.is_empty() {
            return self.expected("`permute`, `tile`, `pad`, `swizzle` or `distribute`");
        }
        Ok(Layout { steps })
    }
}
