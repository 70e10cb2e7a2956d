//! Reductions: `x op= e` as the store of what the operator makes of the old value and the new one.
//!
//! Whose order may change was used before this; what is left is arithmetic. Loops whose lanes combine in order keep
//! theirs, which say what the lanes do with one another.

use lathe_diagnostics::Places;
use lathe_ir::build::{load, var};
use lathe_ir::reduce::{adds_products, combine, contracted};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Executor, Expr, Function, Layout, Module, Reduce, ReduceOp, Space, Stmt,
    StmtKind, Store, VarId,
};
use std::sync::Arc;

/// The function without `reduce` statements but in loops whose lanes combine in order.
pub fn as_stores(module: &Module, func: &Function) -> Function {
    let mut next_id = func.next_id;
    let body = within(module, &func.body, &mut next_id, &|_| false);
    Function { body, next_id, ..func.clone() }
}

/// A statement without `reduce` statements, as [`as_stores`], but in those that `keep` says.
pub fn within(module: &Module, s: &Stmt, next_id: &mut u32, keep: &dyn Fn(&Stmt) -> bool) -> Stmt {
    if keep(s) {
        return s.clone();
    }
    if let Some(r) = s.as_reduce() {
        return stores(module, r, s.places(), next_id).unwrap_or_else(|| s.clone());
    }
    if s.as_loop().is_some_and(|l| matches!(l.exec, Executor::InScan(_))) {
        return s.clone();
    }
    let new: Vec<Stmt> = s.children().map(|c| within(module, c, next_id, keep)).collect();
    let same = s.children().zip(&new).all(|(a, b)| a.ptr_eq(b));
    if same { s.clone() } else { s.with_children(new) }
}

/// One of them; `None` if its operator is not defined on its targets.
pub fn stores(module: &Module, r: &Reduce, places: &Places, next_id: &mut u32) -> Option<Stmt> {
    let news = combined(module, r)?;
    let store = |target: &Access, value: Expr| {
        let (label, instance) = (r.label.clone(), r.instance.clone());
        let store = Store::new(label, instance, target.clone(), value);
        Stmt::new(StmtKind::Store(store), places.clone())
    };
    if let ([target], [new]) = (&r.targets[..], &news[..]) {
        return Some(store(target, new.clone()));
    }
    // Every value has a name of its own, so that the first store does not change what the second one reads.
    let mut named: Vec<Box<dyn FnOnce(Stmt) -> StmtKind>> = Vec::new();
    let mut values = Vec::new();
    for (new, target) in news.into_iter().zip(&r.targets) {
        let id = *next_id;
        *next_id += 1;
        let name = format!("{}.new", r.label);
        if let Some(ty) = new.ty().scalar() {
            let binder = Binder { id: VarId(id), name: name.into(), ty };
            values.push(var(&binder));
            named.push(Box::new(|body| StmtKind::Let { binder, value: new, body }));
        } else {
            let (elem, layout) = (target.elem.clone(), Layout::row_major());
            let (id, space) = (BufId(id), Space::Register);
            let at = Access::buffer(id, elem.clone(), Vec::new());
            let first = store(&at, new);
            values.push(load(at));
            let buffer = Arc::new(Buffer { id, name: name.into(), elem, extents: Vec::new(), space, layout });
            named.push(Box::new(|rest| StmtKind::Alloc { buffer, body: Stmt::seq([first, rest]) }));
        }
    }
    let all = Stmt::seq(r.targets.iter().zip(values).map(|(t, v)| store(t, v)));
    Some(named.into_iter().rev().fold(all, |all, around| Stmt::new(around(all), places.clone())))
}

/// The new values of the targets.
fn combined(module: &Module, r: &Reduce) -> Option<Vec<Expr>> {
    let olds: Vec<Expr> = r.targets.iter().cloned().map(load).collect();
    if let ([old], [value]) = (&olds[..], &r.values[..])
        && r.contract
        && r.op == ReduceOp::Sum
        && adds_products(value)
    {
        return Some(vec![contracted(old.clone(), value)]);
    }
    combine(module, &r.op, &olds, &r.values)
}
