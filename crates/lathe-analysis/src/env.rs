//! The surroundings of a subtree: what is bound, known and in force there.

use lathe_ir::stmt::{Enters, Establishes};
use lathe_ir::{Binder, BufId, Buffer, Executor, Expr, Function, Module, Name, ParamKind, Stmt, VarId};
use std::sync::Arc;

/// One enclosing binder, condition or fact, outermost first in [`Env::items`].
#[derive(Clone, Debug)]
pub enum Item<'a> {
    /// A symbolic size: not negative.
    Size(&'a Binder),
    /// A scalar parameter.
    Scalar(&'a Binder),
    Loop {
        binder: &'a Binder,
        lo: &'a Expr,
        hi: &'a Expr,
        step: i64,
        exec: &'a Executor,
    },
    /// A condition that has the given value here.
    Cond(&'a Expr, bool),
    Let(&'a Binder, &'a Expr),
    /// A binder with an unknown value (`old` of an atomic).
    Opaque(&'a Binder),
    /// The condition held when the current iteration began.
    While(&'a Expr),
    Alloc(&'a Arc<Buffer>),
    /// A fact in force, and its provenance.
    Fact(&'a Expr, &'a Name),
    /// A fact that a `check` before this place established.
    Checked(&'a Expr),
}

impl<'a> Item<'a> {
    /// What a statement adds around its child at a position.
    pub fn entering(s: &'a Stmt, position: usize) -> Option<Item<'a>> {
        Some(match s.enters(position) {
            Enters::Nothing => return None,
            Enters::Let(binder, value) => Item::Let(binder, value),
            Enters::Loop(l) => {
                Item::Loop { binder: &l.binder, lo: &l.lo, hi: &l.hi, step: l.step, exec: &l.exec }
            }
            Enters::Condition(cond, holds) => Item::Cond(cond, holds),
            Enters::While(cond) => Item::While(cond),
            Enters::Alloc(buffer) => Item::Alloc(buffer),
            Enters::Value(binder) => Item::Opaque(binder),
        })
    }

    /// The variable that it binds.
    pub fn binds(&self) -> Option<VarId> {
        match self {
            Item::Size(b)
            | Item::Scalar(b)
            | Item::Let(b, _)
            | Item::Opaque(b)
            | Item::Loop { binder: b, .. } => Some(b.id),
            Item::Cond(..) | Item::While(_) | Item::Alloc(_) | Item::Fact(..) | Item::Checked(_) => None,
        }
    }

    /// What a `check` or an `assume` says from there on.
    pub fn after(s: &'a Stmt) -> Option<Item<'a>> {
        s.establishes().map(|e| match e {
            Establishes::Checked(cond) => Item::Checked(cond),
            Establishes::Assumed(fact, provenance) => Item::Fact(fact, provenance),
        })
    }
}

/// The surroundings of a subtree: enclosing binders with bounds and conditions, sizes, facts.
/// Everything that is bound outside of the subtree counts as a parameter.
#[derive(Clone, Debug)]
pub struct Env<'a> {
    pub module: &'a Module,
    pub func: &'a Function,
    pub items: Vec<Item<'a>>,
}

impl<'a> Env<'a> {
    /// The surroundings of the whole body.
    pub fn root(module: &'a Module, func: &'a Function) -> Env<'a> {
        let mut items: Vec<Item> = func.sizes.iter().map(Item::Size).collect();
        for p in &func.params {
            match &p.kind {
                ParamKind::Scalar(b) => items.push(Item::Scalar(b)),
                ParamKind::Array(_) => {}
            }
        }
        Env { module, func, items }
    }

    /// The surroundings of the subtree at a path of the function's body. A path that leads nowhere
    /// gives the surroundings of the last statement on it.
    pub fn at(module: &'a Module, func: &'a Function, path: &[usize]) -> Env<'a> {
        let mut env = Env::root(module, func);
        let mut here = &func.body;
        for position in path {
            env.enter(here, *position);
            match here.child(*position) {
                Some(child) => here = child,
                None => break,
            }
        }
        env
    }

    /// Goes from a statement to its child at a position: adds what the statement binds, and the facts
    /// that its earlier children establish.
    pub fn enter(&mut self, s: &'a Stmt, position: usize) {
        s.as_seq().unwrap_or(&[]).iter().take(position).for_each(|earlier| self.pass(earlier));
        self.items.extend(Item::entering(s, position));
    }

    /// Goes past a statement: its `check` or `assume` holds from here on.
    pub fn pass(&mut self, s: &'a Stmt) {
        self.items.extend(Item::after(s));
    }
    pub fn is_size(&self, v: VarId) -> bool {
        self.func.sizes.iter().any(|b| b.id == v)
    }

    /// A buffer in scope: a parameter or an enclosing allocation.
    pub fn buffer(&self, id: BufId) -> Option<&'a Arc<Buffer>> {
        let local = self.items.iter().rev().find_map(|i| match i {
            Item::Alloc(b) if b.id == id => Some(*b),
            _ => None,
        });
        local.or_else(|| self.func.params.iter().filter_map(|p| p.array()).find(|b| b.id == id))
    }

    /// Facts in force, with their provenance.
    pub fn stated(&self) -> impl Iterator<Item = (&'a Expr, &'a Name)> {
        self.items.iter().filter_map(|i| match i {
            Item::Fact(e, who) => Some((*e, *who)),
            _ => None,
        })
    }

    /// The same as text.
    pub fn facts(&self) -> Vec<String> {
        let texts = self.items.iter().filter_map(|i| match i {
            Item::Fact(e, who) => Some(format!("{} ({who})", self.text(e))),
            _ => None,
        });
        texts.collect()
    }

    /// The name of a variable in scope.
    pub fn name(&self, v: VarId) -> Name {
        let found = self.items.iter().rev().find_map(|i| match i {
            Item::Size(b)
            | Item::Scalar(b)
            | Item::Let(b, _)
            | Item::Opaque(b)
            | Item::Loop { binder: b, .. }
                if b.id == v =>
            {
                Some(b.name.clone())
            }
            _ => None,
        });
        found.unwrap_or_else(|| Name::from(format!("v{}", v.0)))
    }

    /// A short text of an expression, for messages.
    pub fn text(&self, e: &Expr) -> String {
        crate::text::expr_text(e, &|v| self.name(v), &|b| self.buffer(b).map(|b| b.name.clone()))
    }
}
