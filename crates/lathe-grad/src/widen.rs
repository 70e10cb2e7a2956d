//! A function with all floats in f64, for central differences.

use lathe_ir::stmt::{AccessMode, PartMap};
use lathe_ir::{
    Access, Binder, Buffer, Expr, ExprKind, Function, Module, ParamKind, Scalar, Stmt, StructType, Type,
    build,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The function and its module with every float type replaced by `f64`.
pub fn widened(module: &Module, func: &Function) -> (Module, Function) {
    let mut out = module.clone();
    for s in out.structs.values_mut() {
        *s = wide_struct(s);
    }
    for op in out.ops.values_mut() {
        op.ty = wide(&op.ty);
        op.body = expr(&op.body);
        op.identity = op.identity.as_ref().map(expr);
    }
    out.functions = module.functions.iter().map(|(n, f)| (n.clone(), function(f))).collect();
    (out, function(func))
}

fn function(f: &Function) -> Function {
    let mut f = f.clone();
    for p in &mut f.params {
        p.kind = match &p.kind {
            ParamKind::Array(b) => ParamKind::Array(buffer(b)),
            ParamKind::Scalar(b) => ParamKind::Scalar(Binder { ty: wide_scalar(b.ty), ..b.clone() }),
        };
    }
    f.result = f.result.as_ref().map(expr);
    f.body = Wide.child(&f.body);
    f
}

fn wide_scalar(s: Scalar) -> Scalar {
    if s.is_float() { Scalar::F64 } else { s }
}

fn wide_struct(s: &Arc<StructType>) -> Arc<StructType> {
    let fields = s.fields.iter().map(|(n, t)| (n.clone(), wide(t))).collect();
    Arc::new(StructType { name: s.name.clone(), fields })
}

/// The type with every float in it replaced by `f64`.
pub fn wide(t: &Type) -> Type {
    match t {
        _ if t.complex_part().is_some() => Type::complex(Scalar::F64).unwrap_or_else(|| t.clone()),
        Type::Scalar(s) => wide_scalar(*s).into(),
        Type::Tuple(ts) => Type::Tuple(ts.iter().map(wide).collect()),
        Type::Struct(s) => Type::Struct(wide_struct(s)),
        Type::Array(t, n) => Type::Array(Arc::new(wide(t)), *n),
        Type::Vector(s, n) => Type::Vector(wide_scalar(*s), *n),
    }
}

fn buffer(b: &Arc<Buffer>) -> Arc<Buffer> {
    let extents = b.extents.iter().map(expr).collect();
    Arc::new(Buffer { elem: wide(&b.elem), extents, ..(**b).clone() })
}

fn expr(e: &Expr) -> Expr {
    // From the leaves up; a node whose parts became wider is rebuilt by its kind.
    fn go(e: &Expr, memo: &mut HashMap<usize, Expr>) -> Expr {
        if let Some(done) = memo.get(&e.address()) {
            return done.clone();
        }
        let out = match e.kind() {
            ExprKind::Float(v) => build::float(wide_scalar(e.ty().scalar().unwrap_or(Scalar::F64)), v.get()),
            ExprKind::Var(v) => Expr::new(ExprKind::Var(*v), wide(e.ty())),
            ExprKind::Load(a) => {
                let a = a.map_exprs(&mut |x| go(x, memo));
                build::load(Access { elem: wide(&a.elem), ..a })
            }
            ExprKind::Cast(a) => build::cast(wide(e.ty()), go(a, memo)),
            ExprKind::Math(f, es) => build::math(*f, es.iter().map(|x| go(x, memo)).collect()),
            ExprKind::Aggregate(es) => {
                build::aggregate(wide(e.ty()), es.iter().map(|x| go(x, memo)).collect())
            }
            ExprKind::Call(f, es) => {
                let es = es.iter().map(|x| go(x, memo)).collect();
                Expr::new(ExprKind::Call(f.clone(), es), wide(e.ty()))
            }
            ExprKind::Bitcast(_) => e.clone(),
            _ => e.with_children(e.children().into_iter().map(|x| go(x, memo)).collect()),
        };
        memo.insert(e.address(), out.clone());
        out
    }
    go(e, &mut HashMap::new())
}

struct Wide;

impl PartMap for Wide {
    fn expr(&mut self, e: &Expr) -> Expr {
        expr(e)
    }

    fn access(&mut self, a: &Access, _: AccessMode) -> Access {
        Access { elem: wide(&a.elem), ..a.map_exprs(&mut |e| expr(e)) }
    }

    fn binder(&mut self, b: &Binder, _: lathe_ir::stmt::BinderRole) -> Binder {
        Binder { ty: wide_scalar(b.ty), ..b.clone() }
    }

    fn buffer(&mut self, b: &Arc<Buffer>) -> Arc<Buffer> {
        buffer(b)
    }

    fn child(&mut self, s: &Stmt) -> Stmt {
        s.map_parts(self)
    }
}
