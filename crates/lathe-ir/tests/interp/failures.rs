//! What a run refuses, and how it says so.

use super::helpers::*;
use lathe_ir::build::{add, binary, cast, eq, float, index, int, lt, mul, select, sub};
use lathe_ir::interp::{ArrayValue, Options, codes, unwritten};
use lathe_ir::stmt::Executor;
use lathe_ir::{BinOp, Mode, ReduceOp, Scalar, Space, Stmt, StmtKind, Type};

fn vector(values: &[f32]) -> ArrayValue {
    ArrayValue::from_f32(&[values.len()], values)
}

#[test]
fn subscripts_out_of_bounds_name_instance_and_element() {
    for (shift, text) in [(1, "`C[3]` reads `A[4]`"), (-1, "`C[0]` reads `A[-1]`")] {
        let mut m = Maker::new();
        let n = m.size("N");
        let a = m.param("A", Mode::In, Scalar::F32, vec![n.clone()]);
        let c = m.param("C", Mode::Out, Scalar::F32, vec![n.clone()]);
        let i = m.var("i");
        let value = get(&a, vec![add(v(&i), index(shift))]);
        m.f.body = serial(&i, n, store("C", vec![v(&i)], at(&c, vec![v(&i)]), value));
        let mut args = [vector(&[1.0, 2.0, 3.0, 4.0]), ArrayValue::undefined(Type::F32, &[4])];
        let e = m.fails(&mut args, codes::OUT_OF_BOUNDS);
        assert!(e.diagnostic.message.contains(text), "{e}");
        assert_eq!(e.label.as_deref(), Some("C"));
        // Nothing happens on empty arrays.
        m.go(&mut [vector(&[]), ArrayValue::undefined(Type::F32, &[0])]);
    }
}

#[test]
fn selects_guard_their_branches() {
    let mut m = Maker::new();
    let n = m.size("N");
    let a = m.param("A", Mode::In, Scalar::F32, vec![n.clone()]);
    let c = m.param("C", Mode::Out, Scalar::F32, vec![n.clone()]);
    let i = m.var("i");
    let next = add(v(&i), index(1));
    let guarded = select(lt(next.clone(), n.clone()), get(&a, vec![next]), float(Scalar::F32, 9.0));
    m.f.body = serial(&i, n, store("C", vec![v(&i)], at(&c, vec![v(&i)]), guarded));
    let mut args = [vector(&[1.0, 2.0, 3.0]), ArrayValue::undefined(Type::F32, &[3])];
    m.go(&mut args);
    assert_eq!(args[1].to_f32_vec(), [2.0, 3.0, 9.0]);
}

#[test]
fn deep_chains_of_lazy_selects_stay_small() {
    let mut m = Maker::new();
    let n = m.size("N");
    let a = m.param("A", Mode::In, Scalar::I64, vec![n.clone()]);
    let c = m.param("C", Mode::Out, Scalar::I64, vec![]);
    let mut e = get(&a, vec![index(0)]);
    for _ in 0..60 {
        let one = int(Scalar::I64, 1);
        let odd = eq(binary(BinOp::And, e.clone(), one.clone()), one.clone());
        let other = binary(BinOp::FloorDiv, e.clone(), get(&a, vec![index(1)]));
        e = select(odd, add(mul(e.clone(), int(Scalar::I64, 3)), one), other);
    }
    m.f.body = store("C", vec![], at(&c, vec![]), e);
    let mut args = [ArrayValue::from_i64(Scalar::I64, &[2], &[27, 2]), ArrayValue::undefined(Type::I64, &[])];
    m.go(&mut args);
    let want = (0..60).fold(27i64, |e, _| if e % 2 == 1 { 3 * e + 1 } else { e / 2 });
    assert_eq!(args[1].to_i64_vec(), [want]);
}

#[test]
fn undefined_cells_may_not_be_read() {
    let mut m = Maker::new();
    let n = m.size("N");
    let c = m.param("C", Mode::Out, Scalar::F32, vec![n.clone()]);
    let i = m.var("i");
    m.f.body =
        serial(&i, n, reduce("C", vec![v(&i)], ReduceOp::Sum, at(&c, vec![v(&i)]), float(Scalar::F32, 1.0)));
    // What an output held before does not count.
    let e = m.fails(&mut [vector(&[0.0, 0.0])], codes::UNINITIALIZED);
    assert!(e.diagnostic.message.contains("`C[0]` reads `C[0]`"), "{e}");

    let t = m.buffer("t", Space::Stack, Scalar::F32, vec![index(2)]);
    let first = store("s", vec![], at(&t, vec![index(0)]), float(Scalar::F32, 1.0));
    let then = store("C", vec![], at(&c, vec![index(0)]), get(&t, vec![index(1)]));
    m.f.body = alloc(&t, Stmt::seq([first, then]));
    m.fails(&mut [vector(&[0.0])], codes::UNINITIALIZED);
}

#[test]
fn unwritten_outputs_are_named() {
    let mut m = Maker::new();
    let n = m.size("N");
    let c = m.param("C", Mode::Out, Scalar::F32, vec![n.clone(), index(2)]);
    let i = m.var("i");
    m.f.body = serial(&i, n, store("C", vec![], at(&c, vec![v(&i), index(0)]), float(Scalar::F32, 1.0)));
    let mut args = [ArrayValue::undefined(Type::F32, &[2, 2])];
    m.go(&mut args);
    let d = unwritten(&m.f, &args).expect_err("C[0, 1] is not written");
    assert_eq!((d.code, d.message.contains("C[0, 1]")), (codes::UNWRITTEN, true));
}

#[test]
fn arithmetic_without_value() {
    let mut m = Maker::new();
    let a = m.param("A", Mode::In, Scalar::I32, vec![]);
    let c = m.param("C", Mode::Out, Scalar::I32, vec![]);
    let ten = int(Scalar::I32, 10);
    m.f.body = store("C", vec![], at(&c, vec![]), binary(BinOp::FloorMod, ten, get(&a, vec![])));
    let mut args = [ArrayValue::from_i64(Scalar::I32, &[], &[0]), ArrayValue::undefined(Type::I32, &[])];
    m.fails(&mut args, codes::DIVISION_BY_ZERO);
    args[0] = ArrayValue::from_i64(Scalar::I32, &[], &[-3]);
    m.go(&mut args);
    assert_eq!(args[1].to_i64_vec(), [-2]);

    let wide = mul(cast(Type::INDEX, get(&a, vec![])), index(i64::MAX));
    m.f.body = store("C", vec![], at(&c, vec![]), cast(Type::I32, wide));
    m.fails(&mut args, codes::INDEX_OVERFLOW);
}

#[test]
fn checks_assumptions_widths_and_limits() {
    let mut m = Maker::new();
    let n = m.size("N");
    let c = m.param("C", Mode::InOut, Scalar::F32, vec![n.clone()]);
    let i = m.var("i");
    let body = store("C", vec![v(&i)], at(&c, vec![v(&i)]), float(Scalar::F32, 1.0));
    let mut args = [vector(&[0.0; 5])];

    let cond = lt(n.clone(), index(4));
    let (code, message) = ("small".into(), "N must be small".into());
    m.f.body = Stmt::of(StmtKind::Check { cond: cond.clone(), code, message });
    let e = m.fails(&mut args, codes::CHECK_FAILED);
    assert_eq!(e.check.as_deref(), Some("small"));
    m.f.body = Stmt::of(StmtKind::Assume { fact: cond, provenance: "the user".into() });
    m.fails(&mut args, codes::ASSUMPTION);

    m.f.body = for_in(Executor::Vector(4), &i, index(0), n.clone(), body.clone());
    m.fails(&mut args, codes::VECTOR_WIDTH);
    m.f.body = for_in(Executor::Vector(4), &i, index(1), n.clone(), body);
    m.go(&mut args);
    assert_eq!(args[0].to_f32_vec(), [0.0, 1.0, 1.0, 1.0, 1.0]);

    let forever = StmtKind::While { cond: lt(index(0), n.clone()), body: Stmt::empty() };
    m.f.body = Stmt::of(forever);
    let limited = Options { max_steps: Some(1000), ..Options::default() };
    m.fails_with(&mut args, codes::LIMIT, &limited);

    let huge = m.buffer("t", Space::Host, Scalar::F32, vec![mul(n.clone(), index(1 << 40)), n.clone()]);
    m.f.body = alloc(&huge, Stmt::empty());
    m.fails(&mut args, codes::MEMORY);
    let negative = m.buffer("t", Space::Host, Scalar::F32, vec![sub(n, index(6))]);
    m.f.body = alloc(&negative, Stmt::empty());
    m.fails(&mut args, codes::MEMORY);
}

#[test]
fn arguments_must_fit() {
    let mut m = Maker::new();
    let n = m.size("N");
    m.param("A", Mode::In, Scalar::F32, vec![n.clone()]);
    m.param("B", Mode::In, Scalar::F32, vec![add(mul(n, index(2)), index(1))]);
    m.go(&mut [vector(&[0.0; 2]), vector(&[0.0; 5])]);
    let wrong = [
        vec![vector(&[0.0; 2])],
        vec![vector(&[0.0; 2]), vector(&[0.0; 4])],
        vec![vector(&[0.0; 2]), ArrayValue::zeros(Type::F64, &[5])],
        vec![vector(&[0.0; 2]), ArrayValue::zeros(Type::F32, &[5, 1])],
    ];
    for mut args in wrong {
        m.fails(&mut args, codes::ARGUMENTS);
    }
}
