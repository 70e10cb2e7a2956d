//! A block as a flat list: a `let` or a local array is an entry like any statement, in scope in what follows it.
//!
//! Numbers are unique, so a scope that ends later than it did captures nothing. A block may hold thousands of entries:
//! they are not nesting here.

use super::{Stmt, StmtKind};
use crate::buffer::Buffer;
use crate::expr::Expr;
use crate::ids::Binder;
use lathe_diagnostics::Places;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum Item {
    Let(Binder, Expr, Places),
    Alloc(Arc<Buffer>, Places),
    /// Anything else.
    Do(Stmt),
}

impl Item {
    /// The entry as a statement; a `let` or local array has an empty body.
    pub fn alone(&self) -> Stmt {
        rebuilt(vec![self.clone()])
    }
}

pub fn flat(s: &Stmt) -> Vec<Item> {
    let mut out = Vec::new();
    // Statements that are still to come, the next one last.
    let mut left = vec![s.clone()];
    while let Some(s) = left.pop() {
        if let Some(list) = s.as_seq() {
            left.extend(list.iter().rev().cloned());
        } else if let Some((binder, value, body)) = s.as_let() {
            out.push(Item::Let(binder.clone(), value.clone(), s.places().clone()));
            left.push(body.clone());
        } else if let Some((buffer, body)) = s.as_alloc() {
            out.push(Item::Alloc(buffer.clone(), s.places().clone()));
            left.push(body.clone());
        } else {
            out.push(Item::Do(s));
        }
    }
    out
}

pub fn rebuilt(items: Vec<Item>) -> Stmt {
    let mut rest: Vec<Stmt> = Vec::new();
    let around = |rest: &mut Vec<Stmt>| {
        rest.reverse();
        Stmt::seq(std::mem::take(rest))
    };
    for item in items.into_iter().rev() {
        match item {
            Item::Do(s) => rest.push(s),
            Item::Let(binder, value, places) => {
                let body = around(&mut rest);
                rest.push(Stmt::new(StmtKind::Let { binder, value, body }, places));
            }
            Item::Alloc(buffer, places) => {
                let body = around(&mut rest);
                rest.push(Stmt::new(StmtKind::Alloc { buffer, body }, places));
            }
        }
    }
    around(&mut rest)
}

/// The statement with every block in it mapped, inner ones first; a block is what a loop, a branch, or anything else
/// that is not a `let`, local array or sequence holds. The outermost one is the statement itself.
pub fn map_blocks(s: &Stmt, f: &mut impl FnMut(Vec<Item>) -> Vec<Item>) -> Stmt {
    let items = flat(s).into_iter().map(|i| match i {
        Item::Do(s) => Item::Do(map_inside(&s, f)),
        other => other,
    });
    let items = items.collect();
    rebuilt(f(items))
}

/// The same for the blocks that a statement holds.
pub fn map_inside(s: &Stmt, f: &mut impl FnMut(Vec<Item>) -> Vec<Item>) -> Stmt {
    if s.children().len() == 0 {
        return s.clone();
    }
    let children = s.children().map(|c| map_blocks(c, f)).collect();
    s.with_children(children)
}
