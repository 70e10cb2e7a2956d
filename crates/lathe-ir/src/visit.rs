//! Walking and rebuilding: one helper for every kind of traversal, so that passes stay short.

use crate::expr::{Access, Expr, ExprKind, View};
use crate::ids::{Binder, BufId, VarId};
use crate::stmt::{Stmt, StmtKind};
use std::collections::{HashMap, HashSet};

/// A place in a tree: positions in [`Stmt::children`], from the root.
pub type Path = Vec<usize>;

/// The statement at a path.
pub fn at<'a>(root: &'a Stmt, path: &[usize]) -> Option<&'a Stmt> {
    path.iter().try_fold(root, |s, i| s.children().get(*i).copied())
}

/// The tree with the statement at a path replaced; shares everything beside the path.
pub fn replace_at(root: &Stmt, path: &[usize], new: Stmt) -> Option<Stmt> {
    let Some((first, rest)) = path.split_first() else { return Some(new) };
    let mut children: Vec<Stmt> = root.children().into_iter().cloned().collect();
    let child = children.get(*first)?;
    children[*first] = replace_at(child, rest, new)?;
    Some(root.with_children(children))
}

/// Pre-order walk with paths; `f` returns whether to descend.
pub fn walk(root: &Stmt, f: &mut impl FnMut(&Stmt, &[usize]) -> bool) {
    fn go(s: &Stmt, path: &mut Path, f: &mut impl FnMut(&Stmt, &[usize]) -> bool) {
        if f(s, path) {
            for (i, c) in s.children().into_iter().enumerate() {
                path.push(i);
                go(c, path, f);
                path.pop();
            }
        }
    }
    go(root, &mut Vec::new(), f);
}

/// Bottom-up rebuild of statements; sharing is kept where nothing changed.
pub fn map_stmts(root: &Stmt, f: &mut impl FnMut(Stmt) -> Stmt) -> Stmt {
    let old = root.children();
    let new: Vec<Stmt> = old.iter().map(|c| map_stmts(c, f)).collect();
    let same = old.iter().zip(&new).all(|(a, b)| a.ptr_eq(b));
    f(if same { root.clone() } else { root.with_children(new) })
}

/// Applies `f` to every expression that stands directly in any statement of the tree.
pub fn map_exprs(root: &Stmt, f: &mut impl FnMut(&Expr) -> Expr) -> Stmt {
    map_stmts(root, &mut |s| {
        let old: Vec<Expr> = s.exprs().into_iter().cloned().collect();
        let new: Vec<Expr> = old.iter().map(&mut *f).collect();
        if old == new { s } else { s.with_exprs(new) }
    })
}

/// Bottom-up rebuild of an expression, each shared node once.
pub fn map_expr(e: &Expr, f: &mut impl FnMut(Expr) -> Expr) -> Expr {
    fn go(e: &Expr, memo: &mut HashMap<usize, Expr>, f: &mut impl FnMut(Expr) -> Expr) -> Expr {
        if let Some(done) = memo.get(&e.address()) {
            return done.clone();
        }
        let old = e.children();
        let new: Vec<Expr> = old.iter().map(|c| go(c, memo, f)).collect();
        let same = old.iter().zip(&new).all(|(a, b)| a.address() == b.address());
        let out = if same { e.clone() } else { e.with_children(new) };
        // Folding may leave a variable or load that was rewritten already (`(x + 2) - 2`): not twice.
        let leaf = |x: &Expr| matches!(x.kind(), ExprKind::Var(_) | ExprKind::Load(_));
        let done = !same && leaf(&out) && !leaf(e);
        let out = if done { out } else { f(out) };
        memo.insert(e.address(), out.clone());
        out
    }
    go(e, &mut HashMap::new(), f)
}

/// Visits every node of an expression, subscripts included, each shared node once.
pub fn walk_expr(e: &Expr, f: &mut impl FnMut(&Expr)) {
    fn go(e: &Expr, seen: &mut HashSet<usize>, f: &mut impl FnMut(&Expr)) {
        if seen.insert(e.address()) {
            f(e);
            for c in e.children() {
                go(c, seen, f);
            }
        }
    }
    go(e, &mut HashSet::new(), f);
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

/// Every load in an expression, loads in subscripts included.
pub fn loads_of(e: &Expr) -> Vec<Access> {
    let mut out = Vec::new();
    walk_expr(e, &mut |x| {
        if let ExprKind::Load(a) = x.kind() {
            out.push(a.clone());
        }
    });
    out
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

/// Rewrites every access (stores' targets and loads alike); `f` returns `None` to keep one.
pub fn map_accesses(s: &Stmt, f: &mut impl FnMut(&Access) -> Option<Access>) -> Stmt {
    let in_expr = |e: &Expr, f: &mut dyn FnMut(&Access) -> Option<Access>| {
        map_expr(e, &mut |x| match x.kind() {
            ExprKind::Load(a) => f(a).map_or(x, crate::build::load),
            _ => x,
        })
    };
    let s = map_stmts(s, &mut |s| {
        let old: Vec<Expr> = s.exprs().into_iter().cloned().collect();
        let new: Vec<Expr> = old.iter().map(|e| in_expr(e, f)).collect();
        if old == new { s } else { s.with_exprs(new) }
    });
    map_stmts(&s, &mut |s| {
        let kind = match s.kind() {
            StmtKind::Store(st) => match f(&st.target) {
                Some(target) => StmtKind::Store(crate::stmt::Store { target, ..st.clone() }),
                None => return s,
            },
            StmtKind::Reduce(r) => {
                let new: Vec<Option<Access>> = r.targets.iter().map(&mut *f).collect();
                if new.iter().all(Option::is_none) {
                    return s;
                }
                let targets =
                    new.into_iter().zip(&r.targets).map(|(n, o)| n.unwrap_or_else(|| o.clone())).collect();
                StmtKind::Reduce(crate::stmt::Reduce { targets, ..r.clone() })
            }
            StmtKind::Prefetch(a) => match f(a) {
                Some(a) => StmtKind::Prefetch(a),
                None => return s,
            },
            StmtKind::Atomic(a) => match f(&a.target) {
                Some(target) => StmtKind::Atomic(crate::stmt::Atomic { target, ..a.clone() }),
                None => return s,
            },
            StmtKind::Compute(c) => {
                let targets = c.targets.iter().map(|t| f(t).unwrap_or_else(|| t.clone())).collect();
                StmtKind::Compute(crate::stmt::Compute { targets, ..c.clone() })
            }
            _ => return s,
        };
        s.with_kind(kind)
    })
}

/// A copy of a statement whose binders and local buffers are all fresh; needed whenever code is
/// duplicated. Numbers are taken from `next_id` (a function's counter).
pub fn refresh(s: &Stmt, next_id: &mut u32) -> Stmt {
    let mut vars = HashMap::new();
    let mut bufs = HashMap::new();
    refresh_in(s, next_id, &mut vars, &mut bufs)
}

fn refresh_in(
    s: &Stmt,
    next_id: &mut u32,
    vars: &mut HashMap<VarId, VarId>,
    bufs: &mut HashMap<BufId, BufId>,
) -> Stmt {
    let mut fresh = |b: &Binder, vars: &mut HashMap<VarId, VarId>| {
        let id = VarId(*next_id);
        *next_id += 1;
        vars.insert(b.id, id);
        Binder { id, ..b.clone() }
    };
    // Bounds are outside the scope of the binder, and ids are unique, so one substitution serves both.
    let renamed = {
        let exprs: Vec<Expr> = s.exprs().into_iter().map(|e| rename(e, vars, bufs)).collect();
        s.with_exprs(exprs)
    };
    let kind = match renamed.kind() {
        StmtKind::Let { binder, value, body } => {
            StmtKind::Let { binder: fresh(binder, vars), value: value.clone(), body: body.clone() }
        }
        StmtKind::Loop(l) => {
            let binder = fresh(&l.binder, vars);
            StmtKind::Loop(crate::stmt::Loop { binder, ..l.clone() })
        }
        StmtKind::Async { token, body } => StmtKind::Async { token: fresh(token, vars), body: body.clone() },
        StmtKind::Atomic(a) => {
            let old = a.old.as_ref().map(|b| fresh(b, vars));
            let target = rename_access(&a.target, vars, bufs);
            StmtKind::Atomic(crate::stmt::Atomic { old, target, ..a.clone() })
        }
        StmtKind::Alloc { buffer, body } => {
            let id = BufId(*next_id);
            *next_id += 1;
            bufs.insert(buffer.id, id);
            let buffer = std::sync::Arc::new(crate::func::Buffer { id, ..(**buffer).clone() });
            StmtKind::Alloc { buffer, body: body.clone() }
        }
        StmtKind::Store(st) => StmtKind::Store(crate::stmt::Store {
            target: rename_access(&st.target, vars, bufs),
            ..st.clone()
        }),
        StmtKind::Prefetch(a) => StmtKind::Prefetch(rename_access(a, vars, bufs)),
        StmtKind::Reduce(r) => StmtKind::Reduce(crate::stmt::Reduce {
            targets: r.targets.iter().map(|t| rename_access(t, vars, bufs)).collect(),
            ..r.clone()
        }),
        StmtKind::Compute(c) => {
            let dims: Vec<_> = c
                .dims
                .iter()
                .map(|d| crate::stmt::Dim { binder: fresh(&d.binder, vars), ..d.clone() })
                .collect();
            let with = renamed.with_kind(StmtKind::Compute(crate::stmt::Compute { dims, ..c.clone() }));
            // Dimensions scope over the compute's own expressions: rename once more.
            let exprs: Vec<Expr> = with.exprs().into_iter().map(|e| rename(e, vars, bufs)).collect();
            let with = with.with_exprs(exprs);
            let StmtKind::Compute(c) = with.kind() else { return with };
            StmtKind::Compute(crate::stmt::Compute {
                targets: c.targets.iter().map(|t| rename_access(t, vars, bufs)).collect(),
                ..c.clone()
            })
        }
        StmtKind::Wait { tokens } => {
            StmtKind::Wait { tokens: tokens.iter().map(|t| vars.get(t).copied().unwrap_or(*t)).collect() }
        }
        StmtKind::Barrier { of, spaces } => {
            StmtKind::Barrier { of: vars.get(of).copied().unwrap_or(*of), spaces: spaces.clone() }
        }
        k => k.clone(),
    };
    let s = renamed.with_kind(kind);
    let children = s.children().into_iter().map(|c| refresh_in(c, next_id, vars, bufs)).collect();
    s.with_children(children)
}

fn rename_view(v: &View, bufs: &HashMap<BufId, BufId>) -> View {
    match v {
        View::Buffer(b) => View::Buffer(bufs.get(b).copied().unwrap_or(*b)),
        View::Slice { base, offsets, steps } => View::Slice {
            base: Box::new(rename_view(base, bufs)),
            offsets: offsets.clone(),
            steps: steps.clone(),
        },
        View::Reshape { base, extents } => {
            View::Reshape { base: Box::new(rename_view(base, bufs)), extents: extents.clone() }
        }
        View::Reinterpret { base, elem, align } => {
            View::Reinterpret { base: Box::new(rename_view(base, bufs)), elem: elem.clone(), align: *align }
        }
        View::Deref { .. } => v.clone(),
    }
}

/// Renames the buffer of an access; its expressions are renamed by [`rename`].
fn rename_access(a: &Access, _vars: &HashMap<VarId, VarId>, bufs: &HashMap<BufId, BufId>) -> Access {
    Access { view: rename_view(&a.view, bufs), ..a.clone() }
}

fn rename(e: &Expr, vars: &HashMap<VarId, VarId>, bufs: &HashMap<BufId, BufId>) -> Expr {
    if vars.is_empty() && bufs.is_empty() {
        return e.clone();
    }
    map_expr(e, &mut |x| match x.kind() {
        ExprKind::Var(v) => match vars.get(v) {
            Some(n) => Expr::new(ExprKind::Var(*n), x.ty().clone()),
            None => x,
        },
        ExprKind::Load(a) => crate::build::load(rename_access(a, vars, bufs)),
        _ => x,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{add, index, var_id};
    use crate::types::Scalar;

    #[test]
    fn a_substituted_variable_is_not_substituted_again() {
        let x = var_id(VarId(0), Scalar::Index);
        let map = HashMap::from([(VarId(0), add(x.clone(), index(2)))]);
        assert_eq!(substitute(&add(x.clone(), index(-2)), &map), x);
    }
}
