//! Evaluates math functions through the interpreter, that is, through their expansions.

use lathe_ir::build::{float, load, math, var};
use lathe_ir::interp::{ArrayValue, Options, run};
use lathe_ir::stmt::{Executor, Loop, Store};
use lathe_ir::{
    Access, Buffer, Expr, Function, Label, MathFn, Mode, Module, Param, ParamKind, Scalar, Space, Stage,
    Stmt, StmtKind,
};

/// The values of `make(arguments)` for each tuple of arguments (one column per argument), all of type `ty`.
pub fn evaluate(ty: Scalar, columns: &[Vec<f64>], make: &dyn Fn(&[Expr]) -> Expr) -> Vec<f64> {
    let mut f = Function::empty("f", Stage::Plain);
    let n = f.fresh_var("N", Scalar::Index);
    let i = f.fresh_var("i", Scalar::Index);
    f.sizes.push(n.clone());
    let mut buffers = Vec::new();
    for k in 0..=columns.len() {
        let id = f.fresh_buf();
        let b = Buffer::local(id, format!("b{k}"), ty.into(), vec![var(&n)], Space::Host);
        let mode = if k == columns.len() { Mode::Out } else { Mode::In };
        f.params.push(Param { kind: ParamKind::Array(b.clone()), mode, alias: None });
        buffers.push(b);
    }
    let at = |b: &Buffer| Access::buffer(b.id, b.elem.clone(), vec![var(&i)]);
    let args: Vec<Expr> = buffers[..columns.len()].iter().map(|b| load(at(b))).collect();
    let store = Store {
        label: Label::new("y"),
        instance: vec![var(&i)],
        target: at(&buffers[columns.len()]),
        value: make(&args),
        nontemporal: false,
    };
    let body = Stmt::of(StmtKind::Store(store));
    let (lo, hi) = (lathe_ir::build::index(0), var(&n));
    f.body =
        Stmt::of(StmtKind::Loop(Loop { binder: i.clone(), lo, hi, step: 1, exec: Executor::Serial, body }));
    let shape = [columns[0].len()];
    let mut values: Vec<ArrayValue> = columns.iter().map(|c| ArrayValue::from_f64(ty, &shape, c)).collect();
    values.push(ArrayValue::undefined(ty.into(), &shape));
    run(&Module::default(), &f, &mut values, &Options::default()).expect("the function runs");
    values[columns.len()].to_f64_vec()
}

pub fn apply(f: MathFn, ty: Scalar, columns: &[Vec<f64>]) -> Vec<f64> {
    evaluate(ty, columns, &|args| math(f, args.to_vec()))
}

/// One value.
pub fn at(f: MathFn, ty: Scalar, args: &[f64]) -> f64 {
    let columns: Vec<Vec<f64>> = args.iter().map(|a| vec![*a]).collect();
    apply(f, ty, &columns)[0]
}

/// A value as the type holds it.
pub fn rounded(ty: Scalar, v: f64) -> f64 {
    match float(ty, v).kind() {
        lathe_ir::ExprKind::Float(b) => b.get(),
        _ => v,
    }
}

/// A generator of test arguments.
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ (self.0 >> 29);
        x.wrapping_mul(0xBF58_476D_1CE4_E5B9) ^ (x >> 32)
    }

    pub fn between(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of any magnitude that the type has.
    pub fn any(&mut self, ty: Scalar) -> f64 {
        let v = match ty {
            Scalar::F32 => f64::from(f32::from_bits(self.bits() as u32)),
            _ => f64::from_bits(self.bits()),
        };
        if v.is_nan() { 0.0 } else { v }
    }
}
