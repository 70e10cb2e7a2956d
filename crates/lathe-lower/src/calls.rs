//! Calls: the called function's body in place of the call. Its arrays become views of the caller's, so that an engine
//! knows neither frames nor arguments.
//!
//! What is passed by value is evaluated once, where the call stands, whether the called function uses it or not: an
//! argument may divide by zero.

use lathe_diagnostics::Places;
use lathe_ir::build::{divides, load, var};
use lathe_ir::stmt::{AccessMode, Arg, PartMap};
use lathe_ir::visit::{fold, loads_of, map_expr, map_stmts, refresh, walk};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Expr, ExprKind, Function, Module, Name, ParamKind, Scalar, Stmt, StmtKind,
    Type, VarId, View,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The function without calls. Calls of functions that the module does not have, and of those that call themselves,
/// stay.
pub fn inline(module: &Module, func: &Function) -> Function {
    let all = module.functions.values().map(|f| f.next_id);
    let mut i = Inliner {
        module,
        next_id: all.fold(func.next_id, u32::max),
        bufs: HashMap::new(),
        around: vec![func.name.clone()],
    };
    i.bufs.extend(func.params.iter().filter_map(|p| p.array()).map(|b| (b.id, b.clone())));
    let body = i.stmt(&func.body);
    Function { body, next_id: i.next_id, ..func.clone() }
}

struct Inliner<'m> {
    module: &'m Module,
    /// Above every number in the module.
    next_id: u32,
    /// Declarations of the buffers that may be passed.
    bufs: HashMap<BufId, Arc<Buffer>>,
    /// Functions whose bodies are being written, outermost first.
    around: Vec<Name>,
}

impl Inliner<'_> {
    fn stmt(&mut self, s: &Stmt) -> Stmt {
        walk(s, &mut |s, _| {
            self.bufs.extend(s.allocated().map(|b| (b.id, b.clone())));
            true
        });
        map_stmts(s, &mut |s| {
            let old: Vec<Expr> = s.exprs().into_iter().cloned().collect();
            let new: Vec<Expr> = old.iter().map(|e| self.expr(e)).collect();
            let s = if old == new { s } else { s.with_exprs(new) };
            let StmtKind::Call { function, args } = s.kind() else { return s };
            self.call(function, args, s.places()).unwrap_or(s)
        })
    }

    fn expr(&mut self, e: &Expr) -> Expr {
        map_expr(e, &mut |x| match x.kind() {
            ExprKind::Call(name, args) => self.value(name, args).unwrap_or(x),
            _ => x,
        })
    }

    /// A function of the module that may be written here.
    fn callee(&self, name: &Name) -> Option<Function> {
        self.module.functions.get(name).filter(|f| !self.around.contains(&f.name)).cloned()
    }

    /// A pure function's value. It has no statements.
    fn value(&mut self, name: &Name, args: &[Expr]) -> Option<Expr> {
        let f = self.callee(name)?;
        let result = f.result.as_ref()?;
        let mut formals = Formals::default();
        for (p, a) in f.params.iter().zip(args) {
            let ParamKind::Scalar(b) = &p.kind else { return None };
            formals.vars.insert(b.id, a.clone());
        }
        let unused = |a: &&Expr| divides(a) && !always(result, &formals, a);
        let parts: Vec<Expr> = args.iter().filter(unused).cloned().collect();
        let value = formals.expr(result);
        self.around.push(f.name.clone());
        let value = self.expr(&value);
        self.around.pop();
        if parts.is_empty() {
            return Some(value);
        }
        let parts: Vec<Expr> = [value.clone()].into_iter().chain(parts).collect();
        let ty = Type::Tuple(parts.iter().map(|p| p.ty().clone()).collect());
        let all = Expr::new(ExprKind::Aggregate(parts), ty);
        Some(Expr::new(ExprKind::Field(all, 0), value.ty().clone()))
    }

    /// What a called function does.
    fn call(&mut self, name: &Name, args: &[Arg], places: &Places) -> Option<Stmt> {
        let f = self.callee(name)?;
        let mut formals = Formals::default();
        let mut around: Vec<(Binder, Expr)> = Vec::new();
        for (p, a) in f.params.iter().zip(args) {
            match (&p.kind, a) {
                (ParamKind::Scalar(b), Arg::Value(x)) => {
                    let bound = self.bind(&b.name, x, &mut around);
                    formals.vars.insert(b.id, bound);
                }
                (ParamKind::Array(b), Arg::View(v)) => {
                    // A size is the extent that it stands for alone.
                    if let Some(decl) = v.as_buffer().and_then(|id| self.bufs.get(&id)).cloned() {
                        for (x, extent) in b.extents.iter().zip(&decl.extents) {
                            let extent = self.expr(extent);
                            x.as_var().map(|id| formals.vars.entry(id).or_insert(extent));
                        }
                    }
                    let view = v.map_exprs(&mut |e| match loads_of(e).is_empty() && !divides(e) {
                        true => e.clone(),
                        false => self.bind("first", e, &mut around),
                    });
                    formals.views.insert(b.id, view);
                }
                _ => return None,
            }
        }
        if f.sizes.iter().any(|s| !formals.vars.contains_key(&s.id)) {
            return None;
        }
        let body = formals.child(&refresh(&f.body, &mut self.next_id));
        self.around.push(f.name.clone());
        let body = self.stmt(&body);
        self.around.pop();
        Some(around.into_iter().rev().fold(body, |body, (binder, value)| {
            Stmt::new(StmtKind::Let { binder, value, body }, places.clone())
        }))
    }

    /// A variable for a scalar that is evaluated where the call stands.
    fn bind(&mut self, name: &str, value: &Expr, around: &mut Vec<(Binder, Expr)>) -> Expr {
        let ty = value.ty().scalar().unwrap_or(Scalar::Index);
        let binder = Binder { id: VarId(self.next_id), name: name.into(), ty };
        self.next_id += 1;
        let bound = var(&binder);
        around.push((binder, value.clone()));
        bound
    }
}

/// Whether an expression evaluates the parameter that stands for an argument, whatever its conditions are.
fn always(e: &Expr, formals: &Formals, arg: &Expr) -> bool {
    fold(e, &mut |e, parts: Vec<bool>| match e.kind() {
        ExprKind::Var(v) => formals.vars.get(v) == Some(arg),
        // The condition is.
        ExprKind::Select(..) => parts.first() == Some(&true),
        _ => parts.contains(&true),
    })
}

/// What the parameters of a called function stand for.
#[derive(Default)]
struct Formals {
    vars: HashMap<VarId, Expr>,
    views: HashMap<BufId, View>,
}

impl Formals {
    fn through(&self, v: &View) -> View {
        match v {
            View::Buffer(id) => self.views.get(id).unwrap_or(v).clone(),
            View::Slice { base, offsets, steps } => {
                let base = Box::new(self.through(base));
                View::Slice { base, offsets: offsets.clone(), steps: steps.clone() }
            }
            View::Reshape { base, extents } => {
                View::Reshape { base: Box::new(self.through(base)), extents: extents.clone() }
            }
            View::Reinterpret { base, elem, align } => {
                View::Reinterpret { base: Box::new(self.through(base)), elem: elem.clone(), align: *align }
            }
            View::Deref { .. } | View::Global(_) => v.clone(),
        }
    }
}

impl PartMap for Formals {
    fn expr(&mut self, e: &Expr) -> Expr {
        map_expr(e, &mut |x| match x.kind() {
            ExprKind::Var(v) => self.vars.get(v).cloned().unwrap_or(x),
            ExprKind::Load(a) => load(Access { view: self.through(&a.view), ..a.clone() }),
            ExprKind::Address(a) => {
                lathe_ir::build::address(Access { view: self.through(&a.view), ..a.clone() })
            }
            _ => x,
        })
    }

    fn access(&mut self, a: &Access, _: AccessMode) -> Access {
        let a = a.map_exprs(&mut |e| self.expr(e));
        Access { view: self.through(&a.view), ..a }
    }

    fn view(&mut self, v: &View, _: AccessMode) -> View {
        let v = v.map_exprs(&mut |e| self.expr(e));
        self.through(&v)
    }

    fn child(&mut self, s: &Stmt) -> Stmt {
        s.map_parts(self)
    }
}
