//! Parsing statements and blocks.

mod compute;

use super::MAX_SCOPES;
use super::parse::{Parsed, Parser};
use super::print_stmt::{ORDERS, order_name};
use crate::buffer::Buffer;
use crate::codes;
use crate::expr::{Access, Expr};
use crate::ids::{Binder, BufId, Label, VarId};
use crate::ops::ReduceOp;
use crate::stmt::{
    Arg, Atomic, AtomicOp, Combine, Compute, Dim, Executor, Loop, Reduce, Stmt, StmtKind, Store,
};
use lathe_diagnostics::{Diagnostic, Places, Span};
use lathe_syntax::{Expressions, Rules, Tok, unquote};
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

impl Parser<'_> {
    /// `{ … }` as one statement.
    pub(crate) fn braces(&mut self) -> Parsed<Stmt> {
        Ok(block_of(self.braces_list()?))
    }

    /// `{ … }` as the list of its statements. Continues after an error inside, so that several are reported.
    fn braces_list(&mut self) -> Parsed<Vec<Stmt>> {
        let open = self.at;
        let list = self.inside("{", "}", |p| {
            let mut bound = Vec::new();
            let list = p.block(&mut bound);
            for b in bound.into_iter().rev() {
                match b {
                    Bound::Var(v) => p.scope.unbind_var(v),
                    Bound::Buf(b) => p.scope.unbind_buf(b),
                }
            }
            Ok(list)
        })?;
        let close = self.at - 1;
        self.outline.blocks.push((open, close));
        Ok(list)
    }

    /// Statements up to the closing brace (or to where an item begins). A loop rather than a recursion
    /// over scopes, of which a block may hold thousands.
    fn block(&mut self, bound: &mut Vec<Bound>) -> Vec<Stmt> {
        let mut open: Vec<(Opener, Places, Vec<Stmt>)> = Vec::new();
        let mut list = Vec::new();
        while !self.is("}") && !self.ended() && !self.at_item() {
            self.statement_ends();
            self.begins_line(0);
            let start = self.span();
            match self.statement(start, bound) {
                Ok(Piece::Whole(s)) => list.push(s),
                Ok(Piece::Open(_)) if self.scopes >= MAX_SCOPES => {
                    let what = format!("more than {MAX_SCOPES} scopes are open here");
                    self.report(Diagnostic::error(codes::TOO_DEEP, what).at(start, "here"));
                    // What follows would only repeat it.
                    self.skip_item();
                }
                Ok(Piece::Open(o)) => {
                    self.scopes += 1;
                    open.push((o, Places::one(self.since(start)), std::mem::take(&mut list)));
                }
                Err(d) => {
                    self.report(d);
                    self.recover(start);
                }
            }
        }
        self.scopes -= open.len();
        while let Some((o, places, mut before)) = open.pop() {
            before.push(o.close(block_of(list), places));
            list = before;
        }
        list
    }

    /// Skips to what can only be the next statement of the block.
    fn recover(&mut self, start: Span) {
        if self.span() == start {
            self.advance();
        }
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Tok::End => return,
                Tok::Sym("{") => depth += 1,
                Tok::Sym("}") => {
                    if depth == 0 {
                        return;
                    }
                    depth -= 1;
                }
                _ if self.at_item() => return,
                Tok::Quoted('\'', _) | Tok::Word(_) if depth == 0 && self.newline() => return,
                _ => {}
            }
            self.advance();
        }
    }

    fn statement(&mut self, start: Span, bound: &mut Vec<Bound>) -> Parsed<Piece> {
        self.with_bindings(0)?;
        if let Tok::Quoted('\'', _) = self.peek() {
            return self.update(start).map(Piece::Whole);
        }
        let word = self.word();
        let known = matches!(
            word,
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
        self.advance();
        let kind = match word {
            "let" => {
                let (name, id) = self.binder_name("%", "the name of a variable")?;
                self.expect(":")?;
                let ty = self.scalar()?;
                let id = VarId(id);
                let binder = Binder { id, name, ty };
                let value = match self.take("=").then(|| self.expr()) {
                    Some(Ok(value)) => value,
                    failed => {
                        // The name is known all the same: no messages about its uses.
                        self.scope.bind_var(&binder);
                        bound.push(Bound::Var(id));
                        return Err(failed.and_then(Result::err).unwrap_or_else(|| self.unexpected("`=`")));
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
                let at = self.since(start);
                let kind = StmtKind::While { cond, body: self.braces()? };
                return Ok(Piece::Whole(Stmt::new(kind, Places::one(at))));
            }
            "seq" => StmtKind::Seq(self.braces_list()?),
            "check" => {
                let cond = self.expr()?;
                self.expect(",")?;
                let code = self.text("the code of the check, in quotes")?;
                self.expect(",")?;
                StmtKind::Check { cond, code, message: self.text("the message of the check, in quotes")? }
            }
            "assume" => {
                let fact = self.expr()?;
                self.expect(",")?;
                StmtKind::Assume { fact, provenance: self.text("who claims it, in quotes")? }
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
                let at = self.since(start);
                let body = self.braces()?;
                return Ok(Piece::Whole(Stmt::new(StmtKind::Async { token, body }, Places::one(at))));
            }
            "wait" => {
                let token = self.var_ref()?;
                let pending = match self.take("pending") {
                    true => self.number32("how many bodies may be pending")?,
                    false => 0,
                };
                StmtKind::Wait { token, pending }
            }
            "call" => {
                let function = self.ident("the name of a function")?;
                let args = self.listed("(", ")", |p| {
                    if p.take("&") { Ok(Arg::View(p.view()?.0)) } else { Ok(Arg::Value(p.expr()?)) }
                })?;
                StmtKind::Call { function, args }
            }
            _ => return self.compute(start),
        };
        Ok(Piece::Whole(Stmt::new(kind, Places::one(self.since(start)))))
    }

    /// A scope's body: its own braces, or the rest of the block.
    fn opened(
        &mut self,
        start: Span,
        opener: Opener,
        binds: Option<Bound>,
        bound: &mut Vec<Bound>,
    ) -> Parsed<Piece> {
        if !self.is("{") {
            bound.extend(binds);
            return Ok(Piece::Open(opener));
        }
        let at = self.since(start);
        let body = self.braces();
        match binds {
            Some(Bound::Var(v)) => self.scope.unbind_var(v),
            Some(Bound::Buf(b)) => self.scope.unbind_buf(b),
            None => {}
        }
        Ok(Piece::Whole(opener.close(body?, Places::one(at))))
    }

    fn label_name(&mut self) -> Parsed<Label> {
        let Tok::Quoted('\'', raw) = self.peek() else { return self.expected("a label in single quotes") };
        self.advance();
        Ok(Label::new(unquote(raw)))
    }

    /// `'L'[instance]:`
    fn label(&mut self) -> Parsed<(Label, Vec<Expr>)> {
        let label = self.label_name()?;
        let instance = if self.is("[") { self.listed("[", "]", Parser::expr)? } else { Vec::new() };
        self.expect(":")?;
        Ok((label, instance))
    }

    /// `OP=`, the `=` touching.
    fn op_assign(&mut self) -> Parsed<ReduceOp> {
        let op = self.op_name()?;
        self.joined();
        self.expect("=")?;
        Ok(op)
    }

    pub(super) fn op_name(&mut self) -> Parsed<ReduceOp> {
        let quoted = self.quoted();
        let name = self.ident("an operator")?;
        Ok(if quoted { ReduceOp::User(name) } else { ReduceOp::from_name(&name) })
    }

    fn some<T>(&mut self, mut one: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        if self.is("{") { self.listed("{", "}", one) } else { Ok(vec![one(self)?]) }
    }

    /// A store or a reduction.
    fn update(&mut self, start: Span) -> Parsed<Stmt> {
        let (label, instance) = self.label()?;
        let mut targets: Vec<Access> = self.some(Parser::access)?;
        let kind = if self.is("=") {
            if targets.len() != 1 {
                return self.wrong(codes::SYNTAX, self.span(), "a store has one target");
            }
            self.advance();
            let value = self.expr()?;
            let nontemporal = self.take("nontemporal");
            StmtKind::Store(Store { label, instance, target: targets.remove(0), value, nontemporal })
        } else {
            let op = self.op_assign()?;
            let values = self.some(Parser::expr)?;
            let licence = self.take("licensed");
            let contract = self.take("contract");
            StmtKind::Reduce(Reduce { label, instance, op, targets, values, licence, contract })
        };
        Ok(Stmt::new(kind, Places::one(self.since(start))))
    }

    fn atomic(&mut self, start: Span, bound: &mut Vec<Bound>) -> Parsed<Piece> {
        let (label, instance) = self.label()?;
        let target = self.access()?;
        let op = self.atomic_op()?;
        let at = self.span();
        let order = self.ident("a memory order")?;
        let Some(order) = ORDERS.into_iter().find(|o| order_name(*o) == &*order) else {
            let names = ORDERS.map(order_name).join(", ");
            return self.wrong(
                codes::SYNTAX,
                at,
                format!("`{order}` is not a memory order (memory orders: {names})"),
            );
        };
        self.expect("scope")?;
        let scope = self.ident("a scope")?;
        let old = if self.take("as") { Some(self.binder("the name of the old value")?) } else { None };
        let a = Atomic { label, instance, target, op, order, scope, old, body: Stmt::empty() };
        let binds = a.old.as_ref().map(|b| Bound::Var(b.id));
        if let Some(b) = &a.old {
            self.scope.bind_var(b);
        }
        if a.old.is_none() && !self.is("{") {
            let places = Places::one(self.since(start));
            return Ok(Piece::Whole(Stmt::new(StmtKind::Atomic(a), places)));
        }
        self.opened(start, Opener::Atomic(Box::new(a)), binds, bound)
    }

    /// `load`, `store v`, `exchange v`, `compare v exchange w`, or `OP= v`.
    fn atomic_op(&mut self) -> Parsed<AtomicOp> {
        // An operator of that name is followed by `=`.
        if self.is_at(1, "=") {
            let op = self.op_assign()?;
            return Ok(AtomicOp::Update(op, self.expr()?));
        }
        if self.take("load") {
            Ok(AtomicOp::Load)
        } else if self.take("store") {
            Ok(AtomicOp::Store(self.expr()?))
        } else if self.take("exchange") {
            Ok(AtomicOp::Exchange(self.expr()?))
        } else if self.take("compare") {
            let expected = self.expr()?;
            self.expect("exchange")?;
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
        let at = self.since(start);
        if header.is_err() {
            // The body is still worth reading, with the variable bound.
            while !matches!(self.peek(), Tok::Sym("{" | "}") | Tok::End) && !self.newline() {
                self.advance();
            }
        }
        if !self.is("{") {
            return Err(header.err().unwrap_or_else(|| self.unexpected("`{`")));
        }
        self.scope.bind_var(&binder);
        let body = self.braces();
        self.scope.unbind_var(binder.id);
        let (lo, hi, step, exec) = header?;
        let kind = StmtKind::Loop(Loop { binder, lo, hi, step, exec, body: body? });
        Ok(Piece::Whole(Stmt::new(kind, Places::one(at))))
    }

    fn loop_header(&mut self) -> Parsed<(Expr, Expr, i64, Executor)> {
        self.expect("in")?;
        let (lo, hi) = self.range()?;
        let step = if self.take("step") { self.signed_number("a step")? } else { 1 };
        let exec = if self.at_word() { self.executor()? } else { Executor::Serial };
        Ok((lo, hi, step, exec))
    }

    fn executor(&mut self) -> Parsed<Executor> {
        let at = self.span();
        let name = self.ident("an executor")?;
        Ok(match &*name {
            "serial" => Executor::Serial,
            "unrolled" => Executor::Unrolled,
            "cpu" => Executor::Cpu,
            "team" => Executor::Team,
            "device" => Executor::Device,
            "node" => Executor::Node,
            "vector" | "inscan" => {
                let w = self.inside("(", ")", |p| p.number32("a number of lanes"))?;
                if &*name == "vector" { Executor::Vector(w) } else { Executor::InScan(w) }
            }
            "level" => Executor::Level(self.inside("(", ")", |p| p.ident("the level of a target"))?),
            other => {
                let what = format!(
                    "`{other}` is not an executor (executors: serial, unrolled, vector(n), inscan(n), cpu, team, device, node \
                     and level(name))"
                );
                return self.wrong(codes::SYNTAX, at, what);
            }
        })
    }

    fn if_(&mut self, start: Span) -> Parsed<Piece> {
        let cond = self.expr()?;
        let at = self.since(start);
        let then = self.braces()?;
        let other = if !self.take("else") {
            None
        } else if self.is("if") {
            let inner = self.span();
            self.statement_ends();
            self.advance();
            match self.deeper(|p| p.if_(inner))? {
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
        if self.is("(") {
            spaces = self.listed("(", ")", |p| {
                let Some(space) = p.space() else { return p.expected("a space") };
                p.advance();
                Ok(space)
            })?;
        }
        Ok(StmtKind::Barrier { of, spaces })
    }
}
