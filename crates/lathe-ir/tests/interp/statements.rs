//! Statements and scalars.

use super::helpers::*;
use lathe_ir::build::{add, aggregate, cast, field, float, index, int, load, lt, math, mul, sub, var};
use lathe_ir::interp::{ArrayValue, Counts, Options};
use lathe_ir::stmt::{Atomic, AtomicOp, Reduce};
use lathe_ir::{
    Label, MathFn, Mode, Param, ParamKind, ReduceOp, Scalar, Space, Stmt, StmtKind, StructType, Type,
};
use std::sync::Arc;

#[test]
fn let_if_while_and_local_buffers() {
    let mut m = Maker::new();
    let c = m.param("C", Mode::Out, Scalar::Index, vec![]);
    let limit = m.f.fresh_var("limit", Scalar::Index);
    m.f.params.insert(0, Param { kind: ParamKind::Scalar(limit.clone()), mode: Mode::In, alias: None });
    let t = m.buffer("t", Space::Register, Scalar::Index, vec![]);
    let double = m.var("d");
    let grow = Stmt::of(StmtKind::Let {
        binder: double.clone(),
        value: mul(get(&t, vec![]), index(2)),
        body: Stmt::of(StmtKind::If {
            cond: lt(v(&double), index(20)),
            then: store("t", vec![], at(&t, vec![]), v(&double)),
            other: Some(store("t", vec![], at(&t, vec![]), add(v(&double), index(1000)))),
        }),
    });
    let go = StmtKind::While { cond: lt(get(&t, vec![]), var(&limit)), body: grow };
    m.f.body = alloc(
        &t,
        Stmt::seq([
            store("t", vec![], at(&t, vec![]), index(1)),
            Stmt::of(go),
            store("C", vec![], at(&c, vec![]), get(&t, vec![])),
        ]),
    );
    for (limit, want) in [(5, 8), (100, 1032), (0, 1)] {
        let mut args =
            [ArrayValue::from_i64(Scalar::Index, &[], &[limit]), ArrayValue::undefined(Type::INDEX, &[])];
        m.go(&mut args);
        assert_eq!(args[1].to_i64_vec(), [want]);
    }
}

#[test]
fn structs_are_values() {
    let fields = vec![("v".into(), Type::F32), ("i".into(), Type::I64)];
    let pair = Type::Struct(Arc::new(StructType { name: "P".into(), fields }));
    let mut m = Maker::new();
    let n = m.size("N");
    let a = m.param("A", Mode::InOut, pair.clone(), vec![n.clone()]);
    let i = m.var("i");
    let old = get(&a, vec![v(&i)]);
    let new = aggregate(
        pair.clone(),
        vec![add(field(old.clone(), 0), float(Scalar::F32, 0.5)), sub(field(old, 1), int(Scalar::I64, 1))],
    );
    m.f.body = serial(&i, n, store("A", vec![v(&i)], at(&a, vec![v(&i)]), new));
    let mut array = ArrayValue::zeros(pair, &[2]);
    array.set_leaf(1, 1, 41);
    let mut args = [array];
    m.go(&mut args);
    assert_eq!(args[0].leaf(1, 0).map(|s| s.to_f64()), Some(0.5));
    assert_eq!(args[0].leaf(1, 1).map(|s| s.to_i64()), Some(40));
}

#[test]
fn contraction_adds_products_with_one_rounding() {
    for contract in [false, true] {
        let mut m = Maker::new();
        let a = m.param("A", Mode::In, Scalar::F32, vec![index(2)]);
        let c = m.param("C", Mode::InOut, Scalar::F32, vec![]);
        let value = mul(get(&a, vec![index(0)]), get(&a, vec![index(1)]));
        m.f.body = Stmt::of(StmtKind::Reduce(Reduce {
            label: Label::new("C"),
            instance: vec![],
            op: ReduceOp::Sum,
            targets: vec![at(&c, vec![])],
            values: vec![value],
            licence: true,
            contract,
        }));
        let (x, y, z) = (1.000_000_1f32, 0.999_999_9f32, -1.0f32);
        let mut args = [ArrayValue::from_f32(&[2], &[x, y]), ArrayValue::from_f32(&[], &[z])];
        let options = Options { count: true, ..Options::default() };
        let counts = m.run(&mut args, &options).expect("it runs");
        let want = if contract { x.mul_add(y, z) } else { z + x * y };
        assert_eq!(args[1].to_f32_vec(), [want]);
        let expected = Counts { flops: 2, int_ops: 0, loads: 3, stores: 1, bytes_read: 12, bytes_written: 4 };
        assert_eq!(counts, expected);
    }
}

#[test]
fn atomics_give_the_old_value() {
    let mut m = Maker::new();
    let a = m.param("A", Mode::InOut, Scalar::I32, vec![]);
    let c = m.param("C", Mode::Out, Scalar::I32, vec![index(3)]);
    let (i, old) = (m.var("i"), m.f.fresh_var("old", Scalar::I32));
    let op = AtomicOp::Update(ReduceOp::Sum, int(Scalar::I32, 5));
    let body = store("C", vec![v(&i)], at(&c, vec![v(&i)]), var(&old));
    let atomic =
        StmtKind::Atomic(Atomic { body, ..atomic("A", vec![v(&i)], at(&a, vec![]), op, Some(&old)) });
    m.f.body = serial(&i, index(3), Stmt::of(atomic));
    let mut args = [ArrayValue::from_i64(Scalar::I32, &[], &[1]), ArrayValue::undefined(Type::I32, &[3])];
    m.go(&mut args);
    assert_eq!(args[1].to_i64_vec(), [1, 6, 11]);
    assert_eq!(args[0].to_i64_vec(), [16]);
}

#[test]
fn narrow_floats_round_after_each_operation() {
    let mut m = Maker::new();
    let a = m.param("A", Mode::In, Scalar::F16, vec![index(2)]);
    let c = m.param("C", Mode::Out, Scalar::F32, vec![]);
    let (x, y) = (get(&a, vec![index(0)]), get(&a, vec![index(1)]));
    let e = sub(add(x.clone(), y), x);
    m.f.body = store("C", vec![], at(&c, vec![]), cast(Type::F32, e));
    let mut args =
        [ArrayValue::from_f64(Scalar::F16, &[2], &[2048.0, 1.0]), ArrayValue::undefined(Type::F32, &[])];
    m.go(&mut args);
    assert_eq!(args[1].to_f64_vec(), [0.0]);
}

#[test]
fn shared_math_is_computed_once() {
    let mut m = Maker::new();
    let a = m.param("A", Mode::In, Scalar::F32, vec![]);
    let c = m.param("C", Mode::Out, Scalar::F32, vec![]);
    let options = Options { count: true, ..Options::default() };
    let mut flops = Vec::new();
    for twice in [false, true] {
        let e = math(MathFn::Exp, vec![load(at(&a, vec![]))]);
        let again = math(MathFn::Exp, vec![load(at(&a, vec![]))]);
        m.f.body = store("C", vec![], at(&c, vec![]), if twice { mul(e, again) } else { e });
        let mut args = [ArrayValue::from_f32(&[], &[1.0]), ArrayValue::undefined(Type::F32, &[])];
        flops.push(m.run(&mut args, &options).expect("it runs").flops);
    }
    assert_eq!(flops[1], flops[0] + 1);
}
