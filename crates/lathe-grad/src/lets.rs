//! `let`s are eliminated: a float becomes a register, so that it has a shadow like any other element;
//! expressions over data that is never written are inlined. Other integers and conditions stay.

use lathe_ir::stmt::PartMap;
use lathe_ir::visit::{loads_of, map_expr, map_stmts, substitute_stmt};
use lathe_ir::{
    Access, BufId, Buffer, Expr, ExprKind, Function, Label, Mode, Space, Stmt, StmtKind, Store, Type, VarId,
    build,
};
use std::collections::{HashMap, HashSet};

/// The function without `let`s of floats and of pure values.
pub fn without_lets(func: &Function) -> Function {
    let mut out = func.clone();
    let inputs = func.params.iter().filter(|p| p.mode == Mode::In && p.alias.is_none());
    let inputs = inputs.filter_map(|p| p.array()).map(|b| b.id).collect();
    let mut lets = Lets { func: &mut out, values: HashMap::new(), inputs, instance: Vec::new() };
    let body = lets.child(&func.body);
    out.body = body;
    out
}

/// The function without `let`s of other variables and of numbers, which arguments of calls become.
pub fn without_copies(func: &Function) -> Function {
    let body = map_stmts(&func.body, &mut |s| match s.as_let() {
        Some((binder, value, body)) if value.as_var().is_some() || value.children().is_empty() => {
            match value.kind() {
                // Memory may be written in between.
                ExprKind::Load(_) => s,
                _ => substitute_stmt(body, &HashMap::from([(binder.id, value.clone())])),
            }
        }
        _ => s,
    });
    Function { body, ..func.clone() }
}

struct Lets<'f> {
    func: &'f mut Function,
    values: HashMap<VarId, Expr>,
    /// Arrays that are never written.
    inputs: HashSet<BufId>,
    /// The loops around.
    instance: Vec<Expr>,
}

impl PartMap for Lets<'_> {
    fn expr(&mut self, e: &Expr) -> Expr {
        if self.values.is_empty() {
            return e.clone();
        }
        map_expr(e, &mut |x| match x.kind() {
            ExprKind::Var(v) => self.values.get(v).cloned().unwrap_or(x),
            _ => x,
        })
    }

    fn child(&mut self, s: &Stmt) -> Stmt {
        if let Some(l) = s.as_loop() {
            self.instance.push(build::var(&l.binder));
            let out = s.map_parts(self);
            self.instance.pop();
            return out;
        }
        let Some((binder, value, body)) = s.as_let() else { return s.map_parts(self) };
        let value = self.expr(value);
        if binder.ty.is_float() {
            let elem = Type::from(binder.ty);
            let buffer = Buffer::local(
                self.func.fresh_buf(),
                binder.name.clone(),
                elem.clone(),
                Vec::new(),
                Space::Register,
            );
            let target = Access::buffer(buffer.id, elem, Vec::new()).at(s.places().clone());
            self.values.insert(binder.id, build::load(target.clone()));
            let (label, instance) = (Label::new(&*binder.name), self.instance.clone());
            let store = StmtKind::Store(Store::new(label, instance, target, value));
            let body = Stmt::seq([s.with_kind(store), self.child(body)]);
            return s.with_kind(StmtKind::Alloc { buffer, body });
        }
        if loads_of(&value).iter().all(|a| a.view.buffer().is_some_and(|b| self.inputs.contains(&b))) {
            self.values.insert(binder.id, value);
            return self.child(body);
        }
        let body = self.child(body);
        s.with_kind(StmtKind::Let { binder: binder.clone(), value, body })
    }
}
