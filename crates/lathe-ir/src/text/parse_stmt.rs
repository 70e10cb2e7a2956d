//! Parsing statements and blocks.

mod compute;

use super::MAX_SCOPES;
use super::lex::Tok;
use super::parse::{Failed, Parsed, Parser};
use super::print_stmt::{ORDERS, order_name};
use crate::codes;
use crate::expr::{Access, Expr};
use crate::func::Buffer;
use crate::ids::{Binder, BufId, Label, VarId};
use crate::ops::ReduceOp;
use crate::stmt::{
    Arg, Atomic, AtomicOp, Combine, Compute, Dim, Executor, Loop, Reduce, Stmt, StmtKind, Store,
};
use crate::types::Name;
use lathe_diagnostics::{Places, Span};
use std::sync::Arc;

/// A statement that scopes over the rest of its block, until that is known.
enum Opener {
    Let(Binder, Expr),
    Alloc(Arc<Buffer>),
    Atomic(Box<Atomic>),
    Token(Binder),
}

/// What a statement's text is: complete, or waiting for the rest of the block.
enum Piece {
    Whole(Stmt),
    Open(Opener),
}

enum Bound {
    Var(VarId),
    Buf(BufId),
}

fn block_of(mut list: Vec<Stmt>) -> Stmt {
    if list.len() == 1 { list.remove(0) } else { Stmt::of(StmtKind::Seq(list)) }
}

impl Opener {
    fn close(self, body: Stmt, places: Places) -> Stmt {
        let kind = match self {
            Opener::Let(binder, value) => StmtKind::Let { binder, value, body },
            Opener::Alloc(buffer) => StmtKind::Alloc { buffer, body },
            Opener::Atomic(a) => StmtKind::Atomic(Atomic { body, ..*a }),
            Opener::Token(token) => StmtKind::Token { token, body },
        };
        Stmt::new(kind, places)
    }
}

impl Parser {
    /// `{ … }` as one statement.
    pub(crate) fn braces(&mut self) -> Parsed<Stmt> {
        Ok(block_of(self.braces_list()?))
    }

    /// `{ … }` as the list of its statements. Goes on after an error inside, so that several are found.
    fn braces_list(&mut self) -> Parsed<Vec<Stmt>> {
        self.nested(|p| {
            p.expect("{")?;
            let mut bound = Vec::new();
            let list = p.block(&mut bound);
            for b in bound.into_iter().rev() {
                match b {
                    Bound::Var(v) => p.scope.unbind_var(v),
                    Bound::Buf(b) => p.scope.unbind_buf(b),
                }
            }
            p.expect("}")?;
            Ok(list)
        })
    }

    /// Statements up to the closing brace (or to where an item begins). A loop rather than a recursion
    /// over scopes, of which a block may hold thousands.
    fn block(&mut self, bound: &mut Vec<Bound>) -> Vec<Stmt> {
        let mut open: Vec<(Opener, Places, Vec<Stmt>)> = Vec::new();
        let mut list = Vec::new();
        while !self.at("}") && *self.peek() != Tok::Eof && !self.at_item() {
            self.statement_ends();
            let start = self.span();
            match self.statement(start, bound) {
                Ok(Piece::Whole(s)) => list.push(s),
                Ok(Piece::Open(_)) if self.scopes >= MAX_SCOPES => {
                    let what = format!("more than {MAX_SCOPES} scopes are open here");
                    let _ = self.error::<()>(codes::TOO_DEEP, start, what);
                    self.give_up();
                }
                Ok(Piece::Open(o)) => {
                    self.scopes += 1;
                    open.push((o, Places::one(self.span_from(start)), std::mem::take(&mut list)));
                }
                Err(Failed) => self.recover(start),
            }
        }
        self.scopes -= open.len();
        while let Some((o, places, mut before)) = open.pop() {
            before.push(o.close(block_of(list), places));
            list = before;
        }
        list
    }

    /// Skips the rest of the item, after an error that what follows would only repeat.
    fn give_up(&mut self) {
        while *self.peek() != Tok::Eof && !self.at_item() {
            self.bump();
        }
    }

    /// Skips to what can only be the next statement of the block.
    fn recover(&mut self, start: Span) {
        if self.span() == start {
            self.bump();
        }
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Tok::Eof => return,
                Tok::Punct("{") => depth += 1,
                Tok::Punct("}") => {
                    if depth == 0 {
                        return;
                    }
                    depth -= 1;
                }
                _ if self.at_item() => return,
                Tok::Label(_) if depth == 0 && self.token(0).first => return,
                Tok::Name { .. } if depth == 0 && self.token(0).first && self.at_keyword() => return,
                _ => {}
            }
            self.bump();
        }
    }

    fn statement(&mut self, start: Span, bound: &mut Vec<Bound>) -> Parsed<Piece> {
        self.with_bindings()?;
        if let Tok::Label(_) = self.peek() {
            return self.update(start).map(Piece::Whole);
        }
        let word = match self.peek() {
            Tok::Name { text, quoted: false } => text.clone(),
            _ => return self.expected("a statement"),
        };
        let known = matches!(
            word.as_str(),
            "let"
                | "alloc"
                | "atomic"
                | "for"
                | "if"
                | "while"
                | "seq"
                | "check"
                | "assume"
                | "barrier"
                | "prefetch"
                | "token"
                | "async"
                | "wait"
                | "call"
                | "compute"
        );
        if !known {
            return self.expected("a statement");
        }
        self.bump();
        let kind = match word.as_str() {
            "let" => {
                let (name, id) = self.binder_name("%", "the name of a variable")?;
                self.expect(":")?;
                let ty = self.scalar()?;
                let id = VarId(id);
                let binder = Binder { id, name, ty };
                let value = match self.eat("=").then(|| self.expr()) {
                    Some(Ok(value)) => value,
                    failed => {
                        // The name is known all the same: no messages about its uses.
                        self.scope.bind_var(&binder);
                        bound.push(Bound::Var(id));
                        return if failed.is_none() { self.expected("`=`") } else { Err(Failed) };
                    }
                };
                self.scope.bind_var(&binder);
                return self.opened(start, Opener::Let(binder, value), Some(Bound::Var(id)), bound);
            }
            "alloc" => {
                let (name, id) = self.binder_name("@", "the name of a buffer")?;
                self.expect(":")?;
                let elem = self.ty()?;
                let buffer = self.buffer_rest(BufId(id), name, elem)?;
                return self.opened(start, Opener::Alloc(buffer), Some(Bound::Buf(BufId(id))), bound);
            }
            "atomic" => return self.atomic(start, bound),
            "for" => return self.for_loop(start),
            "if" => return self.if_(start),
            "while" => {
                let cond = self.expr()?;
                let at = self.span_from(start);
                let kind = StmtKind::While { cond, body: self.braces()? };
                return Ok(Piece::Whole(Stmt::new(kind, Places::one(at))));
            }
            "seq" => StmtKind::Seq(self.braces_list()?),
            "check" => {
                let cond = self.expr()?;
                self.expect(",")?;
                let code = self.string("the code of the check, in quotes")?;
                self.expect(",")?;
                StmtKind::Check { cond, code, message: self.string("the message of the check, in quotes")? }
            }
            "assume" => {
                let fact = self.expr()?;
                self.expect(",")?;
                StmtKind::Assume { fact, provenance: self.string("who says so, in quotes")? }
            }
            "barrier" => self.barrier()?,
            "prefetch" => StmtKind::Prefetch(self.access()?),
            "token" => {
                let token = self.binder("the name of a token")?;
                self.scope.bind_var(&token);
                let binds = Some(Bound::Var(token.id));
                return self.opened(start, Opener::Token(token), binds, bound);
            }
            "async" => {
                let token = self.var_ref()?;
                let at = self.span_from(start);
                let body = self.braces()?;
                return Ok(Piece::Whole(Stmt::new(StmtKind::Async { token, body }, Places::one(at))));
            }
            "wait" => {
                let token = self.var_ref()?;
                let pending = match self.eat_word("pending") {
                    true => self.number("how many bodies may be pending", u64::from(u32::MAX))? as u32,
                    false => 0,
                };
                StmtKind::Wait { token, pending }
            }
            "call" => {
                let function = Name::from(self.name("the name of a function")?);
                self.expect("(")?;
                let args = self.list(")", |p| {
                    if p.eat("&") { Ok(Arg::View(p.view()?.0)) } else { Ok(Arg::Value(p.expr()?)) }
                })?;
                StmtKind::Call { function, args }
            }
            _ => return self.compute(start),
        };
        Ok(Piece::Whole(Stmt::new(kind, Places::one(self.span_from(start)))))
    }

    /// A scope's body: its own braces, or the rest of the block.
    fn opened(
        &mut self,
        start: Span,
        opener: Opener,
        binds: Option<Bound>,
        bound: &mut Vec<Bound>,
    ) -> Parsed<Piece> {
        if !self.at("{") {
            bound.extend(binds);
            return Ok(Piece::Open(opener));
        }
        let at = self.span_from(start);
        let body = self.braces();
        match binds {
            Some(Bound::Var(v)) => self.scope.unbind_var(v),
            Some(Bound::Buf(b)) => self.scope.unbind_buf(b),
            None => {}
        }
        Ok(Piece::Whole(opener.close(body?, Places::one(at))))
    }

    /// `'L'[instance]:`
    fn label(&mut self) -> Parsed<(Label, Vec<Expr>)> {
        let Tok::Label(text) = self.peek() else { return self.expected("a label in single quotes") };
        let label = Label::new(text);
        self.bump();
        let instance = if self.eat("[") { self.list("]", Parser::expr)? } else { Vec::new() };
        self.expect(":")?;
        Ok((label, instance))
    }

    /// `OP=`, the `=` touching.
    fn op_assign(&mut self) -> Parsed<ReduceOp> {
        let op = self.op_name()?;
        self.expect("=")?;
        Ok(op)
    }

    pub(super) fn op_name(&mut self) -> Parsed<ReduceOp> {
        let quoted = matches!(self.peek(), Tok::Name { quoted: true, .. });
        let name = self.name("an operator")?;
        Ok(if quoted { ReduceOp::User(Name::from(name)) } else { ReduceOp::from_name(&name) })
    }

    fn some<T>(&mut self, one: fn(&mut Parser) -> Parsed<T>) -> Parsed<Vec<T>> {
        if self.eat("{") { self.list("}", one) } else { Ok(vec![one(self)?]) }
    }

    /// A store or a reduction.
    fn update(&mut self, start: Span) -> Parsed<Stmt> {
        let (label, instance) = self.label()?;
        let mut targets: Vec<Access> = self.some(Parser::access)?;
        let kind = if self.at("=") {
            if targets.len() != 1 {
                return self.error(codes::SYNTAX, self.span(), "a store has one target");
            }
            self.bump();
            let value = self.expr()?;
            let nontemporal = self.eat_word("nontemporal");
            StmtKind::Store(Store { label, instance, target: targets.remove(0), value, nontemporal })
        } else {
            let op = self.op_assign()?;
            let values = self.some(Parser::expr)?;
            let licence = self.eat_word("licensed");
            let contract = self.eat_word("contract");
            StmtKind::Reduce(Reduce { label, instance, op, targets, values, licence, contract })
        };
        Ok(Stmt::new(kind, Places::one(self.span_from(start))))
    }

    fn atomic(&mut self, start: Span, bound: &mut Vec<Bound>) -> Parsed<Piece> {
        let (label, instance) = self.label()?;
        let target = self.access()?;
        let op = self.atomic_op()?;
        let at = self.span();
        let order = self.name("an order of memory")?;
        let Some(order) = ORDERS.into_iter().find(|o| order_name(*o) == order) else {
            let names = ORDERS.map(order_name).join(", ");
            return self.error(
                codes::SYNTAX,
                at,
                format!("`{order}` is no order of memory (there are {names})"),
            );
        };
        self.expect_word("scope")?;
        let scope = Name::from(self.name("a scope")?);
        let old = if self.eat_word("as") { Some(self.binder("the name of the old value")?) } else { None };
        let a = Atomic { label, instance, target, op, order, scope, old, body: Stmt::empty() };
        let binds = a.old.as_ref().map(|b| Bound::Var(b.id));
        if let Some(b) = &a.old {
            self.scope.bind_var(b);
        }
        if a.old.is_none() && !self.at("{") {
            let places = Places::one(self.span_from(start));
            return Ok(Piece::Whole(Stmt::new(StmtKind::Atomic(a), places)));
        }
        self.opened(start, Opener::Atomic(Box::new(a)), binds, bound)
    }

    /// `load`, `store v`, `exchange v`, `compare v exchange w`, or `OP= v`.
    fn atomic_op(&mut self) -> Parsed<AtomicOp> {
        // An operator of that name is followed by `=`.
        if self.at_ahead(1, "=") {
            let op = self.op_assign()?;
            return Ok(AtomicOp::Update(op, self.expr()?));
        }
        if self.eat_word("load") {
            Ok(AtomicOp::Load)
        } else if self.eat_word("store") {
            Ok(AtomicOp::Store(self.expr()?))
        } else if self.eat_word("exchange") {
            Ok(AtomicOp::Exchange(self.expr()?))
        } else if self.eat_word("compare") {
            let expected = self.expr()?;
            self.expect_word("exchange")?;
            Ok(AtomicOp::CompareExchange { expected, desired: self.expr()? })
        } else {
            self.expected("`load`, `store`, `exchange`, `compare` or an operator with `=`")
        }
    }

    pub(super) fn range(&mut self) -> Parsed<(Expr, Expr)> {
        let lo = self.expr()?;
        self.expect("..")?;
        Ok((lo, self.expr()?))
    }

    fn for_loop(&mut self, start: Span) -> Parsed<Piece> {
        let binder = self.binder("the name of a loop")?;
        let header = self.loop_header();
        let at = self.span_from(start);
        if header.is_err() {
            // The body is still worth reading, with the variable bound.
            while !matches!(self.peek(), Tok::Punct("{" | "}") | Tok::Eof) && !self.token(0).first {
                self.bump();
            }
        }
        if !self.at("{") {
            return if header.is_err() { Err(Failed) } else { self.expected("`{`") };
        }
        self.scope.bind_var(&binder);
        let body = self.braces();
        self.scope.unbind_var(binder.id);
        let (lo, hi, step, exec) = header?;
        let kind = StmtKind::Loop(Loop { binder, lo, hi, step, exec, body: body? });
        Ok(Piece::Whole(Stmt::new(kind, Places::one(at))))
    }

    fn loop_header(&mut self) -> Parsed<(Expr, Expr, i64, Executor)> {
        self.expect_word("in")?;
        let (lo, hi) = self.range()?;
        let step = if self.eat_word("step") { self.signed("a step")? } else { 1 };
        let exec = match self.peek() {
            Tok::Name { .. } => self.executor()?,
            _ => Executor::Serial,
        };
        Ok((lo, hi, step, exec))
    }

    fn executor(&mut self) -> Parsed<Executor> {
        let at = self.span();
        let name = self.name("an executor")?;
        Ok(match name.as_str() {
            "serial" => Executor::Serial,
            "unrolled" => Executor::Unrolled,
            "cpu" => Executor::Cpu,
            "team" => Executor::Team,
            "device" => Executor::Device,
            "node" => Executor::Node,
            "vector" | "inscan" => {
                self.expect("(")?;
                let w = self.number("a number of lanes", u64::from(u32::MAX))? as u32;
                self.expect(")")?;
                if name == "vector" { Executor::Vector(w) } else { Executor::InScan(w) }
            }
            "level" => {
                self.expect("(")?;
                let n = Name::from(self.name("the level of a target")?);
                self.expect(")")?;
                Executor::Level(n)
            }
            other => {
                let what = format!(
                    "`{other}` is no executor (there are serial, unrolled, vector(n), inscan(n), cpu, team, device, node \
                     and level(name))"
                );
                return self.error(codes::SYNTAX, at, what);
            }
        })
    }

    fn if_(&mut self, start: Span) -> Parsed<Piece> {
        let cond = self.expr()?;
        let at = self.span_from(start);
        let then = self.braces()?;
        let other = if !self.eat_word("else") {
            None
        } else if self.at_word("if") {
            let inner = self.span();
            self.statement_ends();
            self.bump();
            match self.nested(|p| p.if_(inner))? {
                Piece::Whole(s) => Some(s),
                Piece::Open(_) => None,
            }
        } else {
            Some(self.braces()?)
        };
        Ok(Piece::Whole(Stmt::new(StmtKind::If { cond, then, other }, Places::one(at))))
    }

    fn barrier(&mut self) -> Parsed<StmtKind> {
        let of = self.var_ref()?;
        let mut spaces = Vec::new();
        if self.eat("(") {
            spaces = self.list(")", |p| {
                let Some(space) = p.space() else { return p.expected("a space") };
                p.bump();
                Ok(space)
            })?;
        }
        Ok(StmtKind::Barrier { of, spaces })
    }
}
