//! Random orders, barriers, asynchronous bodies.

use super::helpers::*;
use lathe_ir::build::{add, eq, float, index, int, mul, sub};
use lathe_ir::interp::{ArrayValue, Options, codes};
use lathe_ir::{Mode, ReduceOp, Scalar, Space, Stmt, StmtKind, Type};

/// Every thread writes its cell of a shared buffer, then, after a barrier, reads its neighbour's.
fn rotate(with_barrier: bool) -> Maker {
    let mut m = Maker::new();
    let n = m.size("N");
    let c = m.param("C", Mode::Out, Scalar::I32, vec![n.clone()]);
    let t = m.buffer("t", Space::Shared, Scalar::I32, vec![n.clone()]);
    let i = m.var("i");
    let next = lathe_ir::build::floor_mod(add(v(&i), index(1)), n.clone());
    let mut body = vec![store(
        "t",
        vec![v(&i)],
        at(&t, vec![v(&i)]),
        lathe_ir::build::cast(Type::I32, mul(v(&i), index(10))),
    )];
    if with_barrier {
        body.push(barrier(&i));
    }
    body.push(store("C", vec![v(&i)], at(&c, vec![v(&i)]), get(&t, vec![next])));
    m.f.body = alloc(&t, parallel(&i, n, Stmt::seq(body)));
    m
}

#[test]
fn barriers_hold_in_every_order() {
    let m = rotate(true);
    for n in [0, 1, 2, 7] {
        let want: Vec<i64> = (0..n).map(|i| (i + 1) % n * 10).collect();
        let mut args = [ArrayValue::undefined(Type::I32, &[n as usize])];
        m.go(&mut args);
        assert_eq!(args[0].to_i64_vec(), want);
        for seed in 0..20 {
            m.run(&mut args, &seeded(seed)).expect("it runs");
            assert_eq!(args[0].to_i64_vec(), want);
        }
        assert!(m.has_race(&mut args).is_none());
    }
    let mut args = [ArrayValue::undefined(Type::I32, &[5])];
    // Without the barrier the first iteration reads what nobody wrote yet.
    rotate(false).fails(&mut args, codes::UNINITIALIZED);
}

#[test]
fn barriers_in_serial_loops_inside() {
    // Threads shift a value along, one step per barrier-separated round.
    let mut m = Maker::new();
    let a = m.param("A", Mode::InOut, Scalar::I32, vec![index(6)]);
    let t = m.buffer("t", Space::Shared, Scalar::I32, vec![index(6)]);
    let (i, k) = (m.var("i"), m.var("k"));
    let from = lathe_ir::build::floor_mod(add(v(&i), index(1)), index(6));
    let round = Stmt::seq([
        store("t", vec![v(&k), v(&i)], at(&t, vec![v(&i)]), get(&a, vec![from])),
        barrier(&i),
        store("A", vec![v(&k), v(&i)], at(&a, vec![v(&i)]), get(&t, vec![v(&i)])),
        barrier(&i),
    ]);
    m.f.body = alloc(&t, parallel(&i, index(6), serial(&k, index(4), round)));
    for seed in 0..10 {
        let mut args = [ArrayValue::from_i64(Scalar::I32, &[6], &[0, 1, 2, 3, 4, 5])];
        m.run(&mut args, &seeded(seed)).expect("it runs");
        assert_eq!(args[0].to_i64_vec(), [4, 5, 0, 1, 2, 3]);
        assert!(m.has_race(&mut args).is_none());
    }
}

#[test]
fn barriers_of_an_outer_loop_reach_into_an_inner_one() {
    let mut m = Maker::new();
    let c = m.param("C", Mode::Out, Scalar::I32, vec![index(3), index(4)]);
    let t = m.buffer("t", Space::Shared, Scalar::I32, vec![index(3), index(4)]);
    let (y, x) = (m.var("y"), m.var("x"));
    let number = add(mul(v(&y), index(4)), v(&x));
    let opposite = vec![sub(index(2), v(&y)), sub(index(3), v(&x))];
    let body = Stmt::seq([
        store("t", vec![v(&y), v(&x)], at(&t, vec![v(&y), v(&x)]), lathe_ir::build::cast(Type::I32, number)),
        barrier(&y),
        store("C", vec![v(&y), v(&x)], at(&c, vec![v(&y), v(&x)]), get(&t, opposite)),
    ]);
    m.f.body = alloc(&t, parallel(&y, index(3), parallel(&x, index(4), body)));
    let mut args = [ArrayValue::undefined(Type::I32, &[3, 4])];
    for seed in 0..10 {
        m.run(&mut args, &seeded(seed)).expect("it runs");
        assert_eq!(args[0].to_i64_vec(), (0..12).rev().collect::<Vec<_>>());
    }
    assert!(m.has_race(&mut args).is_none());
}

#[test]
fn uneven_and_misplaced_barriers_are_refused() {
    let mut m = Maker::new();
    let i = m.var("i");
    let some = StmtKind::If { cond: eq(v(&i), index(0)), then: barrier(&i), other: None };
    m.f.body = parallel(&i, index(3), Stmt::of(some));
    m.fails(&mut [], codes::BARRIER);
    m.f.body = serial(&i, index(3), barrier(&i));
    m.fails(&mut [], codes::BARRIER);
}

#[test]
fn reductions_are_shuffled() {
    let mut m = Maker::new();
    let n = m.size("N");
    let a = m.param("A", Mode::In, Scalar::F32, vec![n.clone()]);
    let c = m.param("C", Mode::InOut, Scalar::F32, vec![]);
    let i = m.var("i");
    let sum = reduce("C", vec![v(&i)], ReduceOp::Sum, at(&c, vec![]), get(&a, vec![v(&i)]));
    m.f.body = parallel(&i, n, sum);
    let values: Vec<f32> = (0..50).map(|k| 10f32.powi(k % 9 - 4)).collect();
    let mut seen = std::collections::HashSet::new();
    for seed in 0..20 {
        let mut args = [ArrayValue::from_f32(&[50], &values), ArrayValue::from_f32(&[], &[0.0])];
        m.run(&mut args, &seeded(seed)).expect("it runs");
        seen.insert(args[1].to_f32_vec()[0].to_bits());
    }
    assert!(seen.len() > 1, "every order gave the same sum");
}

/// `async { A = 1 }`, then `B = 2`, then the wait, then `C = A + B`.
fn overlapped(waits: bool) -> Maker {
    let mut m = Maker::new();
    let a = m.param("A", Mode::InOut, Scalar::I32, vec![]);
    let b = m.param("B", Mode::InOut, Scalar::I32, vec![]);
    let c = m.param("C", Mode::InOut, Scalar::I32, vec![]);
    let token = m.var("copy");
    let set = |l: &str, b: &lathe_ir::Buffer, k| store(l, vec![], at(b, vec![]), int(Scalar::I32, k));
    let mut body = vec![spawn(&token, set("A", &a, 1)), set("B", &b, 2)];
    if waits {
        body.push(wait(&token, 0));
    }
    body.push(store("C", vec![], at(&c, vec![]), add(get(&a, vec![]), get(&b, vec![]))));
    m.f.body = under(&token, body);
    m
}

#[test]
fn asynchronous_bodies_run_until_the_wait() {
    let zero = || ArrayValue::from_i64(Scalar::I32, &[], &[0]);
    let mut results = std::collections::HashSet::new();
    for seed in 0..30 {
        let mut args = [zero(), zero(), zero()];
        overlapped(true).run(&mut args, &seeded(seed)).expect("it runs");
        assert_eq!(args[2].to_i64_vec(), [3]);
        let mut args = [zero(), zero(), zero()];
        overlapped(false).run(&mut args, &seeded(seed)).expect("it runs");
        results.insert(args[2].to_i64_vec()[0]);
        assert_eq!(args[0].to_i64_vec(), [1]);
    }
    assert_eq!(results, [2, 3].into(), "both orders are found");
    assert!(overlapped(true).has_race(&mut [zero(), zero(), zero()]).is_none());
    let e = overlapped(false).has_race(&mut [zero(), zero(), zero()]).expect("a race");
    assert!(e.diagnostic.message.contains("`A` and `C`"), "{e}");
}

#[test]
fn local_buffers_do_not_outlive_their_block() {
    let mut m = Maker::new();
    let c = m.param("C", Mode::InOut, Scalar::F32, vec![]);
    let t = m.buffer("t", Space::Host, Scalar::F32, vec![index(1)]);
    let token = m.var("copy");
    let write = store("t", vec![], at(&t, vec![index(0)]), float(Scalar::F32, 1.0));
    m.f.body = under(&token, vec![alloc(&t, spawn(&token, write))]);
    let _ = c;
    let mut failed = 0;
    for seed in 0..20 {
        let mut args = [ArrayValue::from_f32(&[], &[0.0])];
        if let Err(e) = m.run(&mut args, &seeded(seed)) {
            assert_eq!(e.diagnostic.code, codes::STALE);
            failed += 1;
        }
    }
    assert!(failed > 0);
}

#[test]
fn one_seed_is_one_order() {
    let m = rotate(true);
    let mut args = [ArrayValue::undefined(Type::I32, &[9])];
    let counted = |seed| Options { count: true, ..seeded(seed) };
    let first = m.run(&mut args, &counted(3)).expect("it runs");
    assert_eq!(m.run(&mut args, &counted(3)).expect("it runs"), first);
}
