//! A short way to write trees in tests.

use lathe_ir::build::{index, var};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Executor, Expr, Function, Label, Layout, Loop, Mode, Module, Param,
    ParamKind, Reduce, ReduceOp, Scalar, Space, Stage, Stmt, StmtKind, Store, Type,
};
use std::sync::Arc;

/// A function under construction: sizes and arrays first, then a body.
pub struct Kit {
    pub func: Function,
}

impl Kit {
    pub fn new(sizes: &[&str]) -> Kit {
        let mut func = Function::empty("f", Stage::Plain);
        for s in sizes {
            let b = func.fresh_var(s, Scalar::Index);
            func.sizes.push(b);
        }
        Kit { func }
    }

    pub fn size(&self, n: usize) -> Expr {
        var(&self.func.sizes[n])
    }

    pub fn array(&mut self, name: &str, extents: Vec<Expr>, mode: Mode) -> BufId {
        self.typed_array(name, extents, mode, Type::F32)
    }

    pub fn typed_array(&mut self, name: &str, extents: Vec<Expr>, mode: Mode, elem: Type) -> BufId {
        let id = self.func.fresh_buf();
        let buffer =
            Buffer { id, name: name.into(), elem, extents, space: Space::Host, layout: Layout::row_major() };
        self.func.params.push(Param { kind: ParamKind::Array(Arc::new(buffer)), mode, alias: None });
        id
    }

    pub fn scalar(&mut self, name: &str) -> Expr {
        let b = self.func.fresh_var(name, Scalar::Index);
        let e = var(&b);
        self.func.params.push(Param { kind: ParamKind::Scalar(b), mode: Mode::In, alias: None });
        e
    }

    pub fn binder(&mut self, name: &str) -> Binder {
        self.func.fresh_var(name, Scalar::Index)
    }

    pub fn with_body(&self, body: Stmt) -> (Module, Function) {
        let func = Function { body, ..self.func.clone() };
        (Module::default(), func)
    }
}

pub fn access(b: BufId, indices: Vec<Expr>) -> Access {
    Access::buffer(b, Type::F32, indices)
}

pub fn load(b: BufId, indices: Vec<Expr>) -> Expr {
    lathe_ir::build::load(access(b, indices))
}

pub fn store(label: &str, instance: Vec<Expr>, b: BufId, indices: Vec<Expr>, value: Expr) -> Stmt {
    Stmt::of(StmtKind::Store(Store {
        label: Label::new(label),
        instance,
        target: access(b, indices),
        value,
        nontemporal: false,
    }))
}

pub fn reduce(
    label: &str,
    instance: Vec<Expr>,
    b: BufId,
    indices: Vec<Expr>,
    value: Expr,
    licence: bool,
) -> Stmt {
    Stmt::of(StmtKind::Reduce(Reduce {
        label: Label::new(label),
        instance,
        op: ReduceOp::Sum,
        targets: vec![access(b, indices)],
        values: vec![value],
        licence,
        contract: false,
    }))
}

pub fn for_exec(b: &Binder, lo: Expr, hi: Expr, exec: Executor, body: Stmt) -> Stmt {
    Stmt::of(StmtKind::Loop(Loop { binder: b.clone(), lo, hi, step: 1, exec, body }))
}

pub fn for_(b: &Binder, lo: Expr, hi: Expr, body: Stmt) -> Stmt {
    for_exec(b, lo, hi, Executor::Serial, body)
}

pub fn if_(cond: Expr, then: Stmt) -> Stmt {
    Stmt::of(StmtKind::If { cond, then, other: None })
}

pub fn k(v: i64) -> Expr {
    index(v)
}
