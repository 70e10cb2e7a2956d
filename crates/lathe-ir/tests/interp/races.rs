//! Races found and not found, in one run.

use super::helpers::*;
use lathe_ir::build::{add, float, index, mul};
use lathe_ir::interp::ArrayValue;
use lathe_ir::stmt::{AtomicOp, Executor};
use lathe_ir::{Mode, ReduceOp, Scalar, Space, Stmt, StmtKind};

fn zeros(shape: &[usize]) -> ArrayValue {
    ArrayValue::zeros(Scalar::F32.into(), shape)
}

fn one() -> lathe_ir::Expr {
    float(Scalar::F32, 1.0)
}

#[test]
fn neighbours_conflict_and_name_both_instances() {
    let mut m = Maker::new();
    let a = m.param("A", Mode::InOut, Scalar::F32, vec![index(8)]);
    let i = m.var("i");
    let value = get(&a, vec![add(v(&i), index(1))]);
    let body = store("S", vec![v(&i)], at(&a, vec![v(&i)]), value);
    for exec in [Executor::Cpu, Executor::Vector(8), Executor::Team] {
        m.f.body = for_in(exec, &i, index(0), index(7), body.clone());
        let e = m.has_race(&mut [zeros(&[8])]).expect("a race");
        assert!(e.diagnostic.message.contains("`S[0]` and `S[1]` on `A[1]`"), "{e}");
    }
    for exec in [Executor::Serial, Executor::Unrolled] {
        m.f.body = for_in(exec, &i, index(0), index(7), body.clone());
        assert!(m.has_race(&mut [zeros(&[8])]).is_none());
    }
    // One iteration has nobody to race with.
    m.f.body = for_in(Executor::Cpu, &i, index(0), index(1), body);
    assert!(m.has_race(&mut [zeros(&[8])]).is_none());
}

#[test]
fn consecutive_loops_are_ordered_and_nested_ones_are_not() {
    let mut m = Maker::new();
    let a = m.param("A", Mode::InOut, Scalar::F32, vec![index(4)]);
    let c = m.param("C", Mode::InOut, Scalar::F32, vec![index(4)]);
    let (i, j, k) = (m.var("i"), m.var("j"), m.var("k"));
    let write = store("A", vec![v(&i)], at(&a, vec![v(&i)]), one());
    let back = lathe_ir::build::sub(index(3), v(&j));
    let read = store("C", vec![v(&j)], at(&c, vec![v(&j)]), get(&a, vec![back]));
    let both = Stmt::seq([parallel(&i, index(4), write), parallel(&j, index(4), read)]);
    m.f.body = both.clone();
    assert!(m.has_race(&mut [zeros(&[4]), zeros(&[4])]).is_none());
    // The same twice in parallel: all of it conflicts.
    m.f.body = parallel(&k, index(2), both.clone());
    assert!(m.has_race(&mut [zeros(&[4]), zeros(&[4])]).is_some());
    m.f.body = serial(&k, index(2), both);
    assert!(m.has_race(&mut [zeros(&[4]), zeros(&[4])]).is_none());
}

#[test]
fn reductions_are_not_exempt_but_atomics_are() {
    let mut m = Maker::new();
    let a = m.param("A", Mode::InOut, Scalar::F32, vec![]);
    let i = m.var("i");
    m.f.body = parallel(&i, index(3), reduce("A", vec![v(&i)], ReduceOp::Sum, at(&a, vec![]), one()));
    assert!(m.has_race(&mut [zeros(&[])]).is_some());
    let op = AtomicOp::Update(ReduceOp::Sum, one());
    let atomic = Stmt::of(StmtKind::Atomic(atomic("A", vec![v(&i)], at(&a, vec![]), op, None)));
    m.f.body = parallel(&i, index(3), atomic.clone());
    assert!(m.has_race(&mut [zeros(&[])]).is_none());
    // An atomic and a plain access conflict.
    let j = m.var("j");
    let c = m.buffer("c", Space::Stack, Scalar::F32, vec![]);
    let read = alloc(&c, store("c", vec![v(&i)], at(&c, vec![]), get(&a, vec![])));
    m.f.body = parallel(&i, index(3), Stmt::seq([atomic, read]));
    assert!(m.has_race(&mut [zeros(&[])]).is_some());
    let _ = j;
}

#[test]
fn private_buffers_and_common_reads_are_fine() {
    let mut m = Maker::new();
    let a = m.param("A", Mode::In, Scalar::F32, vec![]);
    let c = m.param("C", Mode::InOut, Scalar::F32, vec![index(5)]);
    let t = m.buffer("t", Space::Stack, Scalar::F32, vec![]);
    let i = m.var("i");
    let body = alloc(
        &t,
        Stmt::seq([
            store("t", vec![v(&i)], at(&t, vec![]), mul(get(&a, vec![]), get(&a, vec![]))),
            store("C", vec![v(&i)], at(&c, vec![v(&i)]), get(&t, vec![])),
        ]),
    );
    m.f.body = parallel(&i, index(5), body);
    assert!(m.has_race(&mut [zeros(&[]), zeros(&[5])]).is_none());
    // The same buffer around the loop is shared.
    let inner = Stmt::seq([
        store("t", vec![v(&i)], at(&t, vec![]), get(&a, vec![])),
        store("C", vec![v(&i)], at(&c, vec![v(&i)]), get(&t, vec![])),
    ]);
    m.f.body = alloc(&t, parallel(&i, index(5), inner));
    assert!(m.has_race(&mut [zeros(&[]), zeros(&[5])]).is_some());
}

#[test]
fn a_write_after_many_reads_conflicts_with_one_of_them() {
    let mut m = Maker::new();
    let a = m.param("A", Mode::InOut, Scalar::F32, vec![]);
    let c = m.param("C", Mode::InOut, Scalar::F32, vec![index(5)]);
    let i = m.var("i");
    let read = store("C", vec![v(&i)], at(&c, vec![v(&i)]), get(&a, vec![]));
    let last = lathe_ir::build::eq(v(&i), index(4));
    let write =
        StmtKind::If { cond: last, then: store("A", vec![v(&i)], at(&a, vec![]), one()), other: None };
    m.f.body = parallel(&i, index(5), Stmt::seq([read, Stmt::of(write)]));
    let e = m.has_race(&mut [zeros(&[]), zeros(&[5])]).expect("a race");
    assert!(e.diagnostic.message.contains("`C[0]` and `A[4]` on `A[]`"), "{e}");
}

#[test]
fn barriers_order_only_the_spaces_they_name() {
    for (spaces, racy) in [(vec![Space::Shared], true), (vec![Space::Host], false), (vec![], false)] {
        let mut m = Maker::new();
        let a = m.param("A", Mode::InOut, Scalar::F32, vec![index(4)]);
        let c = m.param("C", Mode::InOut, Scalar::F32, vec![index(4)]);
        let i = m.var("i");
        let back = lathe_ir::build::sub(index(3), v(&i));
        m.f.body = parallel(
            &i,
            index(4),
            Stmt::seq([
                store("A", vec![v(&i)], at(&a, vec![v(&i)]), one()),
                Stmt::of(StmtKind::Barrier { of: i.id, spaces }),
                store("C", vec![v(&i)], at(&c, vec![v(&i)]), get(&a, vec![back])),
            ]),
        );
        assert_eq!(m.has_race(&mut [zeros(&[4]), zeros(&[4])]).is_some(), racy);
    }
}

#[test]
fn tokens_order_bodies_among_each_other() {
    for first_waits in [false, true] {
        let mut m = Maker::new();
        let a = m.param("A", Mode::InOut, Scalar::F32, vec![]);
        let (s, t) = (m.var("s"), m.var("t"));
        let write = |l: &str| store(l, vec![], at(&a, vec![]), one());
        let mut body = vec![spawn(&s, write("first"))];
        if first_waits {
            body.push(wait(&s, 0));
        }
        body.push(under(&t, vec![spawn(&t, write("second"))]));
        m.f.body = Stmt::seq([under(&s, body), write("last")]);
        assert_eq!(m.has_race(&mut [zeros(&[])]).is_none(), first_waits);
    }
}
