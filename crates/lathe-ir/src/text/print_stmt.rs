//! Printing statements.

use super::print::Printer;
use super::scope::name_text;
use crate::expr::{Access, Expr};
use crate::ids::{BufId, Label, VarId};
use crate::ops::ReduceOp;
use crate::stmt::{Arg, AtomicOp, Combine, Compute, Executor, Loop, MemoryOrder, Stmt, StmtKind};
use lathe_syntax::quote;
use std::fmt::Write;

/// What a block takes out of scope where it ends.
enum Bound {
    Var(VarId),
    Buf(BufId),
}

pub(crate) fn order_name(o: MemoryOrder) -> &'static str {
    match o {
        MemoryOrder::Relaxed => "relaxed",
        MemoryOrder::Acquire => "acquire",
        MemoryOrder::Release => "release",
        MemoryOrder::AcqRel => "acqrel",
        MemoryOrder::SeqCst => "seqcst",
        MemoryOrder::InOrder => "inorder",
    }
}

pub(crate) const ORDERS: [MemoryOrder; 6] = [
    MemoryOrder::Relaxed,
    MemoryOrder::Acquire,
    MemoryOrder::Release,
    MemoryOrder::AcqRel,
    MemoryOrder::SeqCst,
    MemoryOrder::InOrder,
];

impl Printer {
    pub(crate) fn braces(&mut self, s: &Stmt) {
        self.in_braces(|p| p.block(s));
    }

    fn in_braces(&mut self, f: impl FnOnce(&mut Printer)) {
        self.out.push('{');
        self.indent += 1;
        let before = self.out.len();
        f(self);
        self.indent -= 1;
        if self.out.len() > before {
            self.line();
        }
        self.out.push('}');
    }

    /// A statement as the content of braces: each of its parts on a line of its own. Scopes that reach
    /// to the end of the block are unrolled into it (a loop, so that long chains of them do not
    /// recurse deeply).
    pub(crate) fn block(&mut self, s: &Stmt) {
        self.statements(as_block(s));
    }

    fn statements(&mut self, list: &[Stmt]) {
        let mut bound = Vec::new();
        let mut rest = list;
        while let Some((last, init)) = rest.split_last() {
            for s in init {
                self.stmt(s);
            }
            let Some(body) = last.rest_of_block() else {
                self.stmt(last);
                break;
            };
            self.line();
            self.opener(last, &mut bound);
            rest = as_block(body);
        }
        self.leave(bound);
    }

    fn leave(&mut self, bound: Vec<Bound>) {
        for b in bound.into_iter().rev() {
            match b {
                Bound::Var(v) => self.scope.unbind_var(v),
                Bound::Buf(b) => self.scope.unbind_buf(b),
            }
        }
    }

    /// `let`, `alloc` or `atomic` without the body; binds what it binds.
    fn opener(&mut self, s: &Stmt, bound: &mut Vec<Bound>) {
        self.share(&s.exprs());
        match s.kind() {
            StmtKind::Let { binder, value, .. } => {
                self.out.push_str("let ");
                self.var_binder(binder.id, &binder.name);
                let _ = write!(self.out, ": {} = ", binder.ty);
                self.expr(value, 0);
                self.scope.bind_var(binder);
                bound.push(Bound::Var(binder.id));
            }
            StmtKind::Alloc { buffer, .. } => {
                self.out.push_str("alloc ");
                self.buffer(buffer, None);
                self.scope.bind_buf(buffer.id, &buffer.name, &buffer.elem);
                bound.push(Bound::Buf(buffer.id));
            }
            StmtKind::Atomic(a) => {
                self.out.push_str("atomic ");
                self.label(&a.label, &a.instance);
                self.access(&a.target);
                self.atomic_op(&a.op);
                let _ = write!(self.out, " {} scope {}", order_name(a.order), name_text(&a.scope));
                if let Some(old) = &a.old {
                    self.out.push_str(" as ");
                    self.binder(old);
                    self.scope.bind_var(old);
                    bound.push(Bound::Var(old.id));
                }
            }
            StmtKind::Token { token, .. } => {
                self.out.push_str("token ");
                self.binder(token);
                self.scope.bind_var(token);
                bound.push(Bound::Var(token.id));
            }
            _ => {}
        }
    }

    fn atomic_op(&mut self, op: &AtomicOp) {
        let word = match op {
            AtomicOp::Load => " load",
            AtomicOp::Store(_) => " store ",
            AtomicOp::Exchange(_) => " exchange ",
            AtomicOp::CompareExchange { .. } => " compare ",
            AtomicOp::Update(op, _) => &format!(" {} ", op_text(op)),
        };
        self.out.push_str(word);
        match op {
            AtomicOp::Load => {}
            AtomicOp::Store(e) | AtomicOp::Exchange(e) | AtomicOp::Update(_, e) => self.expr(e, 0),
            AtomicOp::CompareExchange { expected, desired } => {
                self.expr(expected, 0);
                self.out.push_str(" exchange ");
                self.expr(desired, 0);
            }
        }
    }

    /// One statement on a line of its own.
    fn stmt(&mut self, s: &Stmt) {
        self.line();
        match s.kind() {
            StmtKind::Seq(v) => {
                self.out.push_str("seq ");
                self.in_braces(|p| p.statements(v));
            }
            StmtKind::Let { body, .. } | StmtKind::Alloc { body, .. } | StmtKind::Token { body, .. } => {
                let mut inner = Vec::new();
                self.opener(s, &mut inner);
                self.out.push(' ');
                self.braces(body);
                self.leave(inner);
            }
            StmtKind::Atomic(a) => {
                let mut inner = Vec::new();
                self.opener(s, &mut inner);
                if a.old.is_some() || !a.body.is_empty() {
                    self.out.push(' ');
                    self.braces(&a.body);
                }
                self.leave(inner);
            }
            StmtKind::Store(st) => {
                self.share(&s.exprs());
                self.label(&st.label, &st.instance);
                self.access(&st.target);
                self.out.push_str(" = ");
                self.expr(&st.value, 0);
                if st.nontemporal {
                    self.out.push_str(" nontemporal");
                }
            }
            StmtKind::Reduce(r) => {
                self.share(&s.exprs());
                self.label(&r.label, &r.instance);
                self.targets(&r.targets);
                let _ = write!(self.out, " {} ", op_text(&r.op));
                self.values(&r.values);
                if r.licence {
                    self.out.push_str(" licensed");
                }
                if r.contract {
                    self.out.push_str(" contract");
                }
            }
            StmtKind::Loop(l) => {
                self.share(&s.exprs());
                self.loop_(l);
            }
            StmtKind::If { cond, then, other } => {
                self.share(&s.exprs());
                self.out.push_str("if ");
                self.expr(cond, 0);
                self.out.push(' ');
                self.braces(then);
                if let Some(other) = other {
                    self.out.push_str(" else ");
                    self.braces(other);
                }
            }
            StmtKind::While { cond, body } => {
                self.share(&s.exprs());
                self.out.push_str("while ");
                self.expr(cond, 0);
                self.out.push(' ');
                self.braces(body);
            }
            StmtKind::Check { cond, code, message } => {
                self.share(&s.exprs());
                self.out.push_str("check ");
                self.expr(cond, 0);
                self.out.push_str(", ");
                self.text(code);
                self.out.push_str(", ");
                self.text(message);
            }
            StmtKind::Assume { fact, provenance } => {
                self.share(&s.exprs());
                self.out.push_str("assume ");
                self.expr(fact, 0);
                self.out.push_str(", ");
                self.text(provenance);
            }
            StmtKind::Prefetch(a) => {
                self.share(&s.exprs());
                self.out.push_str("prefetch ");
                self.access(a);
            }
            StmtKind::Barrier { of, spaces } => {
                let _ = write!(self.out, "barrier {}", self.scope.var_text(*of));
                if !spaces.is_empty() {
                    let names: Vec<&str> = spaces.iter().map(|s| s.name()).collect();
                    let _ = write!(self.out, " ({})", names.join(", "));
                }
            }
            StmtKind::Async { token, body } => {
                let _ = write!(self.out, "async {} ", self.scope.var_text(*token));
                self.braces(body);
            }
            StmtKind::Wait { token, pending } => {
                let _ = write!(self.out, "wait {}", self.scope.var_text(*token));
                if *pending > 0 {
                    let _ = write!(self.out, " pending {pending}");
                }
            }
            StmtKind::Call { function, args } => {
                self.share(&s.exprs());
                self.call_stmt(function, args);
            }
            StmtKind::Compute(c) => self.compute(c),
        }
    }

    fn label(&mut self, label: &Label, instance: &[Expr]) {
        self.out.push_str(&quote(label.as_str(), '\''));
        self.out.push('[');
        self.list(instance);
        self.out.push_str("]: ");
    }

    fn targets(&mut self, targets: &[Access]) {
        if let [one] = targets {
            self.access(one);
            return;
        }
        self.out.push('{');
        for (i, t) in targets.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.access(t);
        }
        self.out.push('}');
    }

    fn values(&mut self, values: &[Expr]) {
        if let [one] = values {
            self.expr(one, 0);
            return;
        }
        self.out.push('{');
        self.list(values);
        self.out.push('}');
    }

    fn loop_(&mut self, l: &Loop) {
        self.out.push_str("for ");
        self.binder(&l.binder);
        self.out.push_str(" in ");
        self.expr(&l.lo, 0);
        self.out.push_str("..");
        self.expr(&l.hi, 0);
        if l.step != 1 {
            let _ = write!(self.out, " step {}", l.step);
        }
        let exec = match &l.exec {
            Executor::Serial => String::new(),
            Executor::Unrolled => " unrolled".into(),
            Executor::Vector(w) => format!(" vector({w})"),
            Executor::InScan(w) => format!(" inscan({w})"),
            Executor::Cpu => " cpu".into(),
            Executor::Team => " team".into(),
            Executor::Device => " device".into(),
            Executor::Node => " node".into(),
            Executor::Level(n) => format!(" level({})", name_text(n)),
        };
        self.out.push_str(&exec);
        self.out.push(' ');
        self.scope.bind_var(&l.binder);
        self.braces(&l.body);
        self.scope.unbind_var(l.binder.id);
    }

    fn call_stmt(&mut self, function: &str, args: &[Arg]) {
        let _ = write!(self.out, "call {}(", name_text(function));
        for (i, a) in args.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            match a {
                Arg::Value(e) => self.expr(e, 0),
                Arg::View(v) => {
                    self.out.push('&');
                    self.view(v);
                }
            }
        }
        self.out.push(')');
    }

    fn compute(&mut self, c: &Compute) {
        self.shared.clear();
        let _ = write!(self.out, "compute {}", quote(c.label.as_str(), '\''));
        for (i, d) in c.dims.iter().enumerate() {
            self.out.push_str(if i == 0 { " over " } else { ", " });
            self.binder(&d.binder);
            self.out.push_str(" in ");
            self.expr(&d.lo, 0);
            self.out.push_str("..");
            self.expr(&d.hi, 0);
            match &d.combine {
                Combine::Concat => {}
                Combine::Reduce(op) => {
                    let _ = write!(self.out, " reduce({})", op_name(op));
                }
                Combine::Scan(op) => {
                    let _ = write!(self.out, " scan({})", op_name(op));
                }
            }
            self.scope.bind_var(&d.binder);
        }
        self.out.push(' ');
        self.in_braces(|p| {
            p.line();
            let mut roots: Vec<&Expr> = c.targets.iter().flat_map(|t| t.exprs()).collect();
            roots.extend(&c.values);
            roots.extend(&c.guard);
            p.share(&roots);
            p.targets(&c.targets);
            let op = c.update.as_ref().map_or("=".to_string(), op_text);
            let _ = write!(p.out, " {op} ");
            p.values(&c.values);
            if let Some(g) = &c.guard {
                p.out.push_str(" if ");
                p.expr(g, 0);
            }
        });
        c.dims.iter().rev().for_each(|d| self.scope.unbind_var(d.binder.id));
    }
}

/// What is between the braces: a sequence of one keeps its word.
fn as_block(s: &Stmt) -> &[Stmt] {
    s.as_seq().filter(|v| v.len() != 1).unwrap_or(std::slice::from_ref(s))
}

/// The name of an operator; a user's that is named like one of ours is quoted.
pub(crate) fn op_name(op: &ReduceOp) -> String {
    match op {
        ReduceOp::User(n) if !matches!(ReduceOp::from_name(n), ReduceOp::User(_)) => quote(n, '`'),
        ReduceOp::User(n) => name_text(n),
        op => op.name().to_string(),
    }
}

fn op_text(op: &ReduceOp) -> String {
    format!("{}=", op_name(op))
}
