//! `break`: a loop that it can end is a `while` that asks a flag, and what comes after a statement that may break runs if
//! the flag still stands.

use super::scope::{Cx, Entity, place};
use crate::ast::{self, Ident};
use crate::codes;
use lathe_diagnostics::Span;
use lathe_ir::names::Role;
use lathe_ir::stmt::block::{Item, rebuilt};
use lathe_ir::{Access, Buffer, Expr, Scalar, Space, Stmt, StmtKind, Store, build};
use std::sync::Arc;

impl Cx<'_> {
    /// A scalar of the loop's own.
    fn cell(&mut self, name: &str, ty: Scalar) -> Arc<Buffer> {
        self.buffer(name, ty.into(), Vec::new(), Space::Register)
    }

    fn set(&mut self, cell: &Buffer, value: Expr, span: Span) -> Item {
        let label = self.label(None, &cell.name);
        let target = Access::buffer(cell.id, cell.elem.clone(), Vec::new()).at(place(span));
        let instance = self.loops.iter().map(build::var).collect();
        let store = Store::new(label, instance, target, value);
        Item::Do(Stmt::new(StmtKind::Store(store), place(span)))
    }

    /// The statements of a loop that they may end, and the flag that says whether they did not.
    fn escaping(&mut self, name: &str, body: impl FnOnce(&mut Self) -> Stmt) -> (Arc<Buffer>, Stmt) {
        let flag = self.cell(&Role::Goes.of(name), Scalar::Bool);
        let outer = self.escape.replace(flag.clone());
        let body = body(self);
        self.escape = outer;
        (flag, body)
    }

    /// The statements of a loop that they do not end.
    pub(super) fn unbroken(&mut self, body: &[ast::Stmt]) -> Stmt {
        let outer = self.escape.take();
        let body = self.block(body);
        self.escape = outer;
        body
    }

    /// `while c { … break … }`
    pub(super) fn while_until(&mut self, cond: Expr, body: &[ast::Stmt], span: Span) -> Vec<Item> {
        let (flag, body) = self.escaping("while", |cx| cx.block(body));
        // A condition is not asked again once the loop has ended.
        let cond = build::select(get(&flag), cond, build::boolean(false));
        let start = self.set(&flag, build::boolean(true), span);
        let run = Stmt::new(StmtKind::While { cond, body }, place(span));
        vec![Item::Do(rebuilt(vec![Item::Alloc(flag, place(span)), start, Item::Do(run)]))]
    }

    /// `for v in lo..hi step s { … break … }`
    pub(super) fn for_until(
        &mut self,
        var: &Ident,
        (lo, hi): (Expr, Expr),
        step: i64,
        body: &[ast::Stmt],
        span: Span,
    ) -> Vec<Item> {
        let at = self.cell(&Role::Next.of(&var.text), Scalar::Index);
        let end = self.fresh_var(&Role::End.of(&var.text), Scalar::Index);
        let binder = self.fresh_var(&var.text, Scalar::Index);
        let (flag, body) = self.escaping(&var.text, |cx| {
            cx.scopes.push(Default::default());
            cx.declare(var, Entity::Value(binder.clone(), "a loop's variable"));
            let body = cx.block(body);
            cx.scopes.pop();
            body
        });
        let v = build::var(&binder);
        // The last iteration may be so near to the largest integer that there is no next one.
        let room = build::le(v.clone(), build::index(i64::MAX - step));
        let next = build::select(room, build::add(v, build::index(step)), build::var(&end));
        let advance = rebuilt(vec![self.set(&at, next, span)]);
        let advance = StmtKind::If { cond: get(&flag), then: advance, other: None };
        let body = rebuilt(vec![
            Item::Let(binder, get(&at), place(span)),
            Item::Do(body),
            Item::Do(Stmt::new(advance, place(span))),
        ]);
        let more = build::lt(get(&at), build::var(&end));
        let cond = build::select(get(&flag), more, build::boolean(false));
        let start = [self.set(&at, lo, span), self.set(&flag, build::boolean(true), span)];
        let mut all = vec![
            Item::Let(end, hi, place(span)),
            Item::Alloc(at, place(span)),
            Item::Alloc(flag, place(span)),
        ];
        all.extend(start);
        all.push(Item::Do(Stmt::new(StmtKind::While { cond, body }, place(span))));
        vec![Item::Do(rebuilt(all))]
    }

    /// `break`
    pub(super) fn escape(&mut self, span: Span) -> Option<Vec<Item>> {
        let Some(flag) = self.escape.clone() else {
            self.error(codes::BREAK, "`break` is in no loop", span, "would end nothing");
            self.help("`break` ends the `for` or `while` that it stands in");
            return None;
        };
        Some(vec![self.set(&flag, build::boolean(false), span)])
    }

    /// What comes after a statement that may end the loop.
    pub(super) fn unless_ended(&mut self, rest: &[ast::Stmt]) -> Option<Item> {
        let cond = get(self.escape.as_ref()?);
        let span = rest.first()?.span;
        let then = self.block(rest);
        Some(Item::Do(Stmt::new(StmtKind::If { cond, then, other: None }, place(span))))
    }
}

fn get(cell: &Buffer) -> Expr {
    build::load(Access::buffer(cell.id, cell.elem.clone(), Vec::new()))
}
