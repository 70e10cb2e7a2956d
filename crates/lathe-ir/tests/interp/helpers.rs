//! Short ways to make functions and to run them.

use lathe_diagnostics::Code;
use lathe_ir::build::{index, load, var};
use lathe_ir::interp::{ArrayValue, Counts, Failure, Globals, Options, Order, Program, run};
use lathe_ir::stmt::{Atomic, AtomicOp, Combine, Compute, Dim, Executor, Loop, MemoryOrder, Reduce, Store};
use lathe_ir::{
    Access, Binder, BufId, Buffer, Expr, Function, Label, Layout, Mode, Module, Param, ParamKind, ReduceOp,
    Scalar, Space, Stage, Stmt, StmtKind, Type,
};
use std::sync::Arc;

/// A function under construction.
pub struct Maker {
    pub module: Module,
    pub f: Function,
}

impl Maker {
    pub fn new() -> Maker {
        let f = Function::empty("k", Stage::Scheduled);
        Maker { module: Module::default(), f }
    }

    pub fn size(&mut self, name: &str) -> Expr {
        let b = self.f.fresh_var(name, Scalar::Index);
        self.f.sizes.push(b.clone());
        var(&b)
    }

    pub fn var(&mut self, name: &str) -> Binder {
        self.f.fresh_var(name, Scalar::Index)
    }

    pub fn param(
        &mut self,
        name: &str,
        mode: Mode,
        elem: impl Into<Type>,
        extents: Vec<Expr>,
    ) -> Arc<Buffer> {
        let b = self.buffer(name, Space::Host, elem, extents);
        self.f.params.push(Param { kind: ParamKind::Array(b.clone()), mode, alias: None });
        b
    }

    pub fn buffer(
        &mut self,
        name: &str,
        space: Space,
        elem: impl Into<Type>,
        extents: Vec<Expr>,
    ) -> Arc<Buffer> {
        let id = self.f.fresh_buf();
        let layout = Layout::row_major();
        Arc::new(Buffer { id, name: name.into(), elem: elem.into(), extents, space, layout })
    }

    pub fn run(&self, args: &mut [ArrayValue], options: &Options) -> Result<Counts, Failure> {
        run(&self.module, &self.f, args, options).map(|o| o.counts)
    }

    /// The reference run.
    pub fn go(&self, args: &mut [ArrayValue]) {
        if let Err(e) = self.run(args, &Options::default()) {
            panic!("{e}");
        }
    }

    /// The failure of the reference run, which must have a code.
    pub fn fails(&self, args: &mut [ArrayValue], code: Code) -> Failure {
        self.fails_with(args, code, &Options::default())
    }

    pub fn fails_with(&self, args: &mut [ArrayValue], code: Code, options: &Options) -> Failure {
        match self.run(args, options) {
            Ok(_) => panic!("{code} expected"),
            Err(e) => {
                assert_eq!(e.diagnostic.code, code, "{e}");
                e
            }
        }
    }

    pub fn has_race(&self, args: &mut [ArrayValue]) -> Option<Failure> {
        let options = Options { races: true, ..Options::default() };
        match self.run(args, &options) {
            Ok(_) => None,
            Err(e) => {
                assert_eq!(e.diagnostic.code.0, "E0410", "{e}");
                Some(e)
            }
        }
    }
}

pub fn seeded(seed: u64) -> Options {
    Options { order: Order::Seed(seed), ..Options::default() }
}

pub fn at(b: &Buffer, indices: Vec<Expr>) -> Access {
    Access::buffer(b.id, b.elem.clone(), indices)
}

pub fn get(b: &Buffer, indices: Vec<Expr>) -> Expr {
    load(at(b, indices))
}

pub fn v(b: &Binder) -> Expr {
    var(b)
}

pub fn store(label: &str, instance: Vec<Expr>, target: Access, value: Expr) -> Stmt {
    let label = Label::new(label);
    Stmt::of(StmtKind::Store(Store { label, instance, target, value, nontemporal: false }))
}

pub fn reduce(label: &str, instance: Vec<Expr>, op: ReduceOp, target: Access, value: Expr) -> Stmt {
    let (targets, values) = (vec![target], vec![value]);
    let label = Label::new(label);
    Stmt::of(StmtKind::Reduce(Reduce {
        label,
        instance,
        op,
        targets,
        values,
        licence: true,
        contract: false,
    }))
}

pub fn for_in(exec: Executor, b: &Binder, lo: Expr, hi: Expr, body: Stmt) -> Stmt {
    Stmt::of(StmtKind::Loop(Loop { binder: b.clone(), lo, hi, step: 1, exec, body }))
}

pub fn serial(b: &Binder, hi: Expr, body: Stmt) -> Stmt {
    for_in(Executor::Serial, b, index(0), hi, body)
}

pub fn parallel(b: &Binder, hi: Expr, body: Stmt) -> Stmt {
    for_in(Executor::Cpu, b, index(0), hi, body)
}

pub fn dim(b: &Binder, hi: Expr, combine: Combine) -> Dim {
    Dim { binder: b.clone(), lo: index(0), hi, combine }
}

pub fn compute(dims: Vec<Dim>, targets: Vec<Access>, values: Vec<Expr>) -> Compute {
    Compute { label: Label::new("C"), dims, targets, values, guard: None, update: None }
}

pub fn alloc(buffer: &Arc<Buffer>, body: Stmt) -> Stmt {
    Stmt::of(StmtKind::Alloc { buffer: buffer.clone(), body })
}

pub fn barrier(of: &Binder) -> Stmt {
    Stmt::of(StmtKind::Barrier { of: of.id, spaces: Vec::new() })
}

/// A token, and what runs under it.
pub fn under(token: &Binder, body: Vec<Stmt>) -> Stmt {
    Stmt::of(StmtKind::Token { token: token.clone(), body: Stmt::seq(body) })
}

pub fn spawn(token: &Binder, body: Stmt) -> Stmt {
    Stmt::of(StmtKind::Async { token: token.id, body })
}

pub fn wait(token: &Binder, pending: u32) -> Stmt {
    Stmt::of(StmtKind::Wait { token: token.id, pending })
}

pub fn atomic(
    label: &str,
    instance: Vec<Expr>,
    target: Access,
    op: AtomicOp,
    old: Option<&Binder>,
) -> Atomic {
    let (label, order, scope) = (Label::new(label), MemoryOrder::Relaxed, "system".into());
    Atomic { label, instance, target, op, order, scope, old: old.cloned(), body: Stmt::empty() }
}

pub fn zero_d(id: BufId, elem: Type) -> Expr {
    load(Access::buffer(id, elem, vec![]))
}

/// A module in text, whose function `k` is run.
pub struct Text(Module);

impl Text {
    pub fn new(text: impl AsRef<str>) -> Text {
        let text = text.as_ref();
        let file = lathe_diagnostics::FileId(0);
        let module = lathe_ir::text::parse_module(file, text).unwrap_or_else(|e| panic!("{text}\n{}", e[0]));
        let wrong = lathe_ir::verify::verify(&module);
        assert!(wrong.is_empty(), "{text}\n{}", wrong[0]);
        Text(module)
    }

    /// The same with a number in the place of a size.
    pub fn with_size(mut self, name: &str, value: i64) -> Text {
        let f = self.0.functions.get_mut("k").expect("a function `k`");
        let size = f.size(name).expect("such a size").id;
        f.sizes.retain(|s| s.id != size);
        f.body = lathe_ir::visit::substitute_stmt(&f.body, &[(size, index(value))].into());
        self
    }

    fn run(&self, args: &mut [ArrayValue], order: Order) -> Result<(), Failure> {
        let options = Options { order, races: true, max_steps: Some(10_000), ..Options::default() };
        run(&self.0, &self.0.functions["k"], args, &options).map(drop)
    }

    /// A call that finds globals as the last one left them.
    pub fn call(&self, args: &mut [ArrayValue], globals: &mut Globals) -> Result<(), Failure> {
        let program = Program::new(&self.0, &self.0.functions["k"], Order::Reference, true)?;
        program.run_with(args, globals, &Options::default()).map(drop)
    }

    pub fn globals(&self) -> Globals {
        Globals::of(&self.0).unwrap_or_else(|e| panic!("{e}"))
    }

    fn orders() -> impl Iterator<Item = Order> {
        std::iter::once(Order::Reference).chain((0..20).map(Order::Seed))
    }

    /// The results of runs in many orders, in none of which a race is found.
    pub fn agree(&self, args: impl Fn() -> Vec<ArrayValue>) -> Vec<Vec<ArrayValue>> {
        let one = |order| {
            let mut args = args();
            self.run(&mut args, order).unwrap_or_else(|e| panic!("{order:?}: {e}"));
            args
        };
        Text::orders().map(one).collect()
    }

    /// Every order shows a race, or else reads what was never written for it.
    pub fn races(&self, args: Vec<ArrayValue>) -> Failure {
        let one = |order| {
            let e = self.run(&mut args.clone(), order).expect_err("a race");
            let codes = [lathe_ir::interp::codes::RACE, lathe_ir::interp::codes::UNINITIALIZED];
            let known = if order == Order::Reference { &codes[..1] } else { &codes[..] };
            assert!(known.contains(&e.diagnostic.code), "{order:?}: {e}");
            e
        };
        Text::orders().map(one).last().expect("an order")
    }

    /// The code with which the reference run fails.
    pub fn fails(&self, mut args: Vec<ArrayValue>) -> Code {
        self.run(&mut args, Order::Reference).expect_err("a failure").diagnostic.code
    }
}
