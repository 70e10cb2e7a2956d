//! The surroundings of a subtree: what is bound, known and in force there.

use lathe_ir::{
    Binder, BufId, Buffer, Executor, Expr, Function, Module, Name, ParamKind, Stmt, StmtKind, VarId,
};
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
    /// A binder about whose value nothing is known (`old` of an atomic).
    Opaque(&'a Binder),
    /// The condition held when the current iteration began.
    While(&'a Expr),
    Alloc(&'a Arc<Buffer>),
    /// A fact in force, and who says so.
    Fact(&'a Expr, &'a Name),
    /// A fact that a `check` before this place established.
    Checked(&'a Expr),
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
            match here.children().get(*position) {
                Some(child) => here = child,
                None => break,
            }
        }
        env
    }

    /// Goes from a statement to its child at a position: adds what the statement binds, and the facts
    /// that its earlier children establish.
    pub fn enter(&mut self, s: &'a Stmt, position: usize) {
        match s.kind() {
            StmtKind::Seq(list) => {
                for earlier in list.iter().take(position) {
                    self.pass(earlier);
                }
            }
            StmtKind::Let { binder, value, .. } => self.items.push(Item::Let(binder, value)),
            StmtKind::Loop(l) => self.items.push(Item::Loop {
                binder: &l.binder,
                lo: &l.lo,
                hi: &l.hi,
                step: l.step,
                exec: &l.exec,
            }),
            StmtKind::If { cond, .. } => self.items.push(Item::Cond(cond, position == 0)),
            StmtKind::While { cond, .. } => self.items.push(Item::While(cond)),
            StmtKind::Alloc { buffer, .. } => self.items.push(Item::Alloc(buffer)),
            StmtKind::Atomic(a) => self.items.extend(a.old.as_ref().map(Item::Opaque)),
            StmtKind::Async { token, .. } => self.items.push(Item::Opaque(token)),
            _ => {}
        }
    }

    /// Goes past a statement: its `check` or `assume` holds from here on.
    pub fn pass(&mut self, s: &'a Stmt) {
        match s.kind() {
            StmtKind::Assume { fact, provenance } => self.items.push(Item::Fact(fact, provenance)),
            StmtKind::Check { cond, .. } => self.items.push(Item::Checked(cond)),
            _ => {}
        }
    }

    /// Bounds `lo..hi` of a loop variable in scope.
    pub fn var_bounds(&self, v: VarId) -> Option<(Option<&'a Expr>, Option<&'a Expr>)> {
        self.items.iter().find_map(|i| match i {
            Item::Loop { binder, lo, hi, .. } if binder.id == v => Some((Some(*lo), Some(*hi))),
            _ => None,
        })
    }

    /// The value of a `let` in scope.
    pub fn var_value(&self, v: VarId) -> Option<&'a Expr> {
        self.items.iter().find_map(|i| match i {
            Item::Let(b, value) if b.id == v => Some(*value),
            _ => None,
        })
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

    /// Facts in force, with their provenance, for evidence.
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
