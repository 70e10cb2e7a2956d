//! Walking and rebuilding: one helper for every kind of traversal, so that passes stay short.

mod memo;

use crate::buffer::{Buffer, Space};
pub use crate::expr::walk_expr;
use crate::expr::{Access, Expr, ExprKind, View};
use crate::func::{Function, ParamKind};
use crate::ids::{Binder, BufId, VarId};
use crate::stmt::{AccessMode, BinderRole, Executor, PartMap, Stmt};
pub use memo::{Memo, distinct_operands, fold, operands};
use rustc_hash::FxHashMap;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A place in a tree: positions in [`Stmt::children`], from the root.
pub type Path = Vec<usize>;

/// The statement at a path.
pub fn at<'a>(root: &'a Stmt, path: &[usize]) -> Option<&'a Stmt> {
    path.iter().try_fold(root, |s, i| s.child(*i))
}

/// The tree with the statement at a path replaced; shares everything beside the path.
pub fn replace_at(root: &Stmt, path: &[usize], new: Stmt) -> Option<Stmt> {
    let Some((first, rest)) = path.split_first() else { return Some(new) };
    let child = replace_at(root.child(*first)?, rest, new)?;
    Some(root.with_child(*first, child))
}

/// Pre-order walk with paths; `f` returns whether to descend.
pub fn walk(root: &Stmt, f: &mut impl FnMut(&Stmt, &[usize]) -> bool) {
    fn go(s: &Stmt, path: &mut Path, f: &mut impl FnMut(&Stmt, &[usize]) -> bool) {
        if f(s, path) {
            for (i, c) in s.children().enumerate() {
                path.push(i);
                go(c, path, f);
                path.pop();
            }
        }
    }
    go(root, &mut Vec::new(), f);
}

/// Whether a nest leaves lanes and copies of iterations to a compiler below: its loops are serial or of threads, its
/// arrays in memory. Such a compiler may do with it what it does with loops in C.
pub fn leaves_lanes(nest: &Stmt) -> bool {
    let mut all = true;
    walk(nest, &mut |s, _| {
        all &= s.as_loop().is_none_or(|l| matches!(l.exec, Executor::Serial | Executor::Cpu));
        all &= s.allocated().is_none_or(|b| b.space == Space::Host || b.extents.is_empty());
        all
    });
    all
}

/// Bottom-up rebuild of statements; sharing is kept where nothing changed.
pub fn map_stmts(root: &Stmt, f: &mut impl FnMut(Stmt) -> Stmt) -> Stmt {
    let new: Vec<Stmt> = root.children().map(|c| map_stmts(c, f)).collect();
    let same = root.children().zip(&new).all(|(a, b)| a.ptr_eq(b));
    f(if same { root.clone() } else { root.with_children(new) })
}

/// Applies `f` to every expression that is directly in any statement of the tree.
pub fn map_exprs(root: &Stmt, f: &mut impl FnMut(&Expr) -> Expr) -> Stmt {
    map_stmts(root, &mut |s| {
        let old: Vec<Expr> = s.exprs().into_iter().cloned().collect();
        let new: Vec<Expr> = old.iter().map(&mut *f).collect();
        if old == new { s } else { s.with_exprs(new) }
    })
}

/// Bottom-up rebuild of an expression, each shared node once.
pub fn map_expr(e: &Expr, f: &mut impl FnMut(Expr) -> Expr) -> Expr {
    fn go(e: &Expr, memo: &mut FxHashMap<usize, Expr>, f: &mut impl FnMut(Expr) -> Expr) -> Expr {
        let shared = e.is_shared();
        if let Some(done) = Some(&*memo).filter(|_| shared).and_then(|memo| memo.get(&e.address())) {
            return done.clone();
        }
        let old = e.children();
        let new: Vec<Expr> = old.iter().map(|c| go(c, memo, f)).collect();
        let same = old.iter().zip(&new).all(|(a, b)| a.address() == b.address());
        let out = if same { e.clone() } else { e.with_children(new) };
        // Folding may leave a variable or load that was rewritten already (`(x + 2) - 2`): not twice.
        let leaf = |x: &Expr| matches!(x.kind(), ExprKind::Var(_) | ExprKind::Load(_) | ExprKind::Address(_));
        let done = !same && leaf(&out) && !leaf(e);
        let out = if done { out } else { f(out) };
        if shared {
            memo.insert(e.address(), out.clone());
        }
        out
    }
    go(e, &mut FxHashMap::default(), f)
}

/// Variables that occur in an expression.
pub fn vars_of(e: &Expr) -> HashSet<VarId> {
    let mut out = HashSet::new();
    walk_expr(e, &mut |x| {
        if let ExprKind::Var(v) = x.kind() {
            out.insert(*v);
        }
    });
    out
}

/// Whether a variable occurs in an expression.
pub fn mentions(e: &Expr, v: VarId) -> bool {
    let mut found = false;
    walk_expr(e, &mut |x| found |= matches!(x.kind(), ExprKind::Var(w) if *w == v));
    found
}

/// Every load in an expression, loads in subscripts included.
pub fn loads_of(e: &Expr) -> Vec<Access> {
    let mut out = Vec::new();
    for_each_load(e, &mut |a| out.push(a.clone()));
    out
}

/// Gives every load in an expression, loads in subscripts included.
pub fn for_each_load(e: &Expr, f: &mut impl FnMut(&Access)) {
    walk_expr(e, &mut |x| {
        if let ExprKind::Load(a) = x.kind() {
            f(a);
        }
    });
}

/// The buffers that a statement or what it holds makes.
pub fn local_buffers(s: &Stmt) -> HashSet<BufId> {
    let mut out = HashSet::new();
    walk(s, &mut |s, _| {
        out.extend(s.allocated().map(|b| b.id));
        true
    });
    out
}

/// Whether an expression takes the address of an element.
pub fn takes_address(e: &Expr) -> bool {
    let mut found = false;
    walk_expr(e, &mut |x| found |= matches!(x.kind(), ExprKind::Address(_)));
    found
}

/// Substitutes variables in an expression.
pub fn substitute(e: &Expr, map: &HashMap<VarId, Expr>) -> Expr {
    map_expr(e, &mut |x| match x.kind() {
        ExprKind::Var(v) => map.get(v).cloned().unwrap_or(x),
        _ => x,
    })
}

/// Substitutes variables everywhere in a statement, instance vectors included.
pub fn substitute_stmt(s: &Stmt, map: &HashMap<VarId, Expr>) -> Stmt {
    map_exprs(s, &mut |e| substitute(e, map))
}

/// Rewrites every access of a statement and all that it holds, elements that statements name themselves and loads
/// alike; `f` returns `None` to keep one. Of an access, those in its own subscripts come first. Views that are given
/// to calls are not accesses.
pub fn map_accesses(s: &Stmt, f: &mut impl FnMut(&Access) -> Option<Access>) -> Stmt {
    struct Accesses<'f, F>(&'f mut F);
    impl<F: FnMut(&Access) -> Option<Access>> PartMap for Accesses<'_, F> {
        fn expr(&mut self, e: &Expr) -> Expr {
            map_expr(e, &mut |x| match x.kind() {
                ExprKind::Load(a) => (self.0)(a).map_or(x, crate::build::load),
                ExprKind::Address(a) => (self.0)(a).map_or(x, crate::build::address),
                _ => x,
            })
        }

        fn access(&mut self, a: &Access, _: AccessMode) -> Access {
            let a = a.map_exprs(&mut |e| self.expr(e));
            (self.0)(&a).unwrap_or(a)
        }
    }
    map_stmts(s, &mut |s| s.map_changed(&mut Accesses(&mut *f)))
}

/// As [`map_accesses`], for elements that statements name themselves; loads stay.
pub fn map_named(s: &Stmt, f: &mut impl FnMut(&Access) -> Option<Access>) -> Stmt {
    struct Named<'f, F>(&'f mut F);
    impl<F: FnMut(&Access) -> Option<Access>> PartMap for Named<'_, F> {
        fn access(&mut self, a: &Access, _: AccessMode) -> Access {
            (self.0)(a).unwrap_or_else(|| a.clone())
        }
    }
    map_stmts(s, &mut |s| s.map_changed(&mut Named(&mut *f)))
}

/// A copy of a statement whose binders and local buffers are all fresh; needed whenever code is
/// duplicated. Numbers are taken from `next_id` (a function's counter).
pub fn refresh(s: &Stmt, next_id: &mut u32) -> Stmt {
    Fresh { next_id, vars: HashMap::new(), bufs: HashMap::new() }.child(s)
}

/// As [`refresh`], for a body that is moved from one function to another with as many parameters: what it says of
/// parameters and sizes becomes what the other one calls them.
pub fn refresh_into(from: &Function, into: &Function, next_id: &mut u32) -> Stmt {
    let (mut vars, mut bufs) = (HashMap::new(), HashMap::new());
    for (a, b) in from.params.iter().zip(&into.params) {
        match (&a.kind, &b.kind) {
            (ParamKind::Array(a), ParamKind::Array(b)) => drop(bufs.insert(a.id, b.id)),
            (ParamKind::Scalar(a), ParamKind::Scalar(b)) => drop(vars.insert(a.id, b.id)),
            _ => {}
        }
    }
    vars.extend(from.sizes.iter().filter_map(|s| Some((s.id, into.size(&s.name)?.id))));
    Fresh { next_id, vars, bufs }.child(&from.body)
}

struct Fresh<'n> {
    next_id: &'n mut u32,
    vars: HashMap<VarId, VarId>,
    bufs: HashMap<BufId, BufId>,
}

impl Fresh<'_> {
    fn next(&mut self) -> u32 {
        *self.next_id += 1;
        *self.next_id - 1
    }

    fn buffer_of(&self, v: &View) -> View {
        v.map_buffer(&mut |b| self.bufs.get(&b).copied().unwrap_or(b))
    }
}

// Numbers are unique, so what is bound further in cannot be meant further out.
impl PartMap for Fresh<'_> {
    fn expr(&mut self, e: &Expr) -> Expr {
        if self.vars.is_empty() && self.bufs.is_empty() {
            return e.clone();
        }
        map_expr(e, &mut |x| match x.kind() {
            ExprKind::Var(v) => match self.vars.get(v) {
                Some(n) => Expr::new(ExprKind::Var(*n), x.ty().clone()),
                None => x,
            },
            ExprKind::Load(a) => crate::build::load(Access { view: self.buffer_of(&a.view), ..a.clone() }),
            ExprKind::Address(a) => {
                crate::build::address(Access { view: self.buffer_of(&a.view), ..a.clone() })
            }
            _ => x,
        })
    }

    fn access(&mut self, a: &Access, _: AccessMode) -> Access {
        let a = a.map_exprs(&mut |e| self.expr(e));
        Access { view: self.buffer_of(&a.view), ..a }
    }

    fn view(&mut self, v: &View, _: AccessMode) -> View {
        let v = v.map_exprs(&mut |e| self.expr(e));
        self.buffer_of(&v)
    }

    fn variable(&mut self, v: VarId) -> VarId {
        self.vars.get(&v).copied().unwrap_or(v)
    }

    fn binder(&mut self, b: &Binder, _: BinderRole) -> Binder {
        let id = VarId(self.next());
        self.vars.insert(b.id, id);
        Binder { id, ..b.clone() }
    }

    fn buffer(&mut self, b: &Arc<Buffer>) -> Arc<Buffer> {
        let extents = b.extents.iter().map(|e| self.expr(e)).collect();
        let id = BufId(self.next());
        self.bufs.insert(b.id, id);
        Arc::new(Buffer { id, extents, ..(**b).clone() })
    }

    fn child(&mut self, s: &Stmt) -> Stmt {
        s.map_parts(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{add, int, var_id};
    use crate::types::Scalar::I64;

    #[test]
    fn a_substituted_variable_is_not_substituted_again() {
        let x = var_id(VarId(0), I64);
        let map = HashMap::from([(VarId(0), add(x.clone(), int(I64, 2)))]);
        assert_eq!(substitute(&add(x.clone(), int(I64, -2)), &map), x);
    }
}
