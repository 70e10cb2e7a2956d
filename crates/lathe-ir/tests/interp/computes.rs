//! What computes mean: free, reduced and scanned dimensions, guards, updates, user operators.

use super::helpers::*;
use lathe_ir::build::{add, aggregate, binary, field, float, index, lt, mul};
use lathe_ir::interp::ArrayValue;
use lathe_ir::stmt::Combine;
use lathe_ir::{BinOp, CombineOp, Mode, ReduceOp, Scalar, Stmt, StmtKind, Type};
use std::sync::Arc;

fn stmt(c: lathe_ir::Compute) -> Stmt {
    Stmt::of(StmtKind::Compute(c))
}

#[test]
fn matrix_product_of_odd_sizes() {
    let mut m = Maker::new();
    let (sm, sn, sk) = (m.size("M"), m.size("N"), m.size("K"));
    let a = m.param("A", Mode::In, Scalar::F32, vec![sm.clone(), sk.clone()]);
    let b = m.param("B", Mode::In, Scalar::F32, vec![sk.clone(), sn.clone()]);
    let c = m.param("C", Mode::Out, Scalar::F32, vec![sm.clone(), sn.clone()]);
    let (i, j, k) = (m.var("i"), m.var("j"), m.var("k"));
    let dims = vec![
        dim(&i, sm, Combine::Concat),
        dim(&j, sn, Combine::Concat),
        dim(&k, sk, Combine::Reduce(ReduceOp::Sum)),
    ];
    let value = mul(get(&a, vec![v(&i), v(&k)]), get(&b, vec![v(&k), v(&j)]));
    m.f.body = stmt(compute(dims, vec![at(&c, vec![v(&i), v(&j)])], vec![value]));
    for (p, q, r) in [(3, 5, 7), (1, 1, 1), (2, 3, 0), (0, 2, 2)] {
        let x: Vec<f32> = (0..p * r).map(|t| t as f32 * 0.5 - 1.0).collect();
        let y: Vec<f32> = (0..r * q).map(|t| 2.0 - t as f32).collect();
        let mut args = [
            ArrayValue::from_f32(&[p, r], &x),
            ArrayValue::from_f32(&[r, q], &y),
            ArrayValue::undefined(Type::F32, &[p, q]),
        ];
        m.go(&mut args);
        for i in 0..p {
            for j in 0..q {
                let want = (0..r).fold(0f32, |s, k| s + x[i * r + k] * y[k * q + j]);
                assert_eq!(args[2].get(&[i, j]).unwrap().to_f64(), f64::from(want));
            }
        }
    }
}

#[test]
fn scans_store_every_prefix() {
    let mut m = Maker::new();
    let n = m.size("N");
    let a = m.param("A", Mode::In, Scalar::I32, vec![n.clone()]);
    let c = m.param("C", Mode::Out, Scalar::I32, vec![n.clone()]);
    let i = m.var("i");
    let dims = vec![dim(&i, n, Combine::Scan(ReduceOp::Sum))];
    m.f.body = stmt(compute(dims, vec![at(&c, vec![v(&i)])], vec![get(&a, vec![v(&i)])]));
    let mut args =
        [ArrayValue::from_i64(Scalar::I32, &[4], &[1, 2, 3, 4]), ArrayValue::undefined(Type::I32, &[4])];
    m.go(&mut args);
    assert_eq!(args[1].to_i64_vec(), [1, 3, 6, 10]);
}

#[test]
fn argmax_takes_the_first_and_nan_wins() {
    let mut m = Maker::new();
    let n = m.size("N");
    let a = m.param("A", Mode::In, Scalar::F32, vec![n.clone()]);
    let value = m.param("v", Mode::Out, Scalar::F32, vec![]);
    let position = m.param("p", Mode::Out, Scalar::Index, vec![]);
    let i = m.var("i");
    let dims = vec![dim(&i, n, Combine::Reduce(ReduceOp::ArgMax))];
    let targets = vec![at(&value, vec![]), at(&position, vec![])];
    m.f.body = stmt(compute(dims, targets, vec![get(&a, vec![v(&i)]), v(&i)]));
    let nan = f32::NAN;
    for (xs, want) in
        [(vec![1.0, 5.0, 5.0], 1), (vec![1.0, nan, 7.0, nan], 1), (vec![-3.0], 0), (vec![-0.0, 0.0], 0)]
    {
        let mut args = [
            ArrayValue::from_f32(&[xs.len()], &xs),
            ArrayValue::undefined(Type::F32, &[]),
            ArrayValue::undefined(Type::INDEX, &[]),
        ];
        m.go(&mut args);
        assert_eq!(args[2].to_i64_vec(), [want], "{xs:?}");
    }
}

#[test]
fn guards_and_updates() {
    let mut m = Maker::new();
    let n = m.size("N");
    let c = m.param("C", Mode::InOut, Scalar::F64, vec![n.clone()]);
    let i = m.var("i");
    let mut k = compute(
        vec![dim(&i, n.clone(), Combine::Concat)],
        vec![at(&c, vec![v(&i)])],
        vec![float(Scalar::F64, 10.0)],
    );
    k.guard = Some(lt(v(&i), index(2)));
    k.update = Some(ReduceOp::Sum);
    m.f.body = stmt(k);
    let mut args = [ArrayValue::from_f64(Scalar::F64, &[3], &[1.0, 2.0, 3.0])];
    m.go(&mut args);
    assert_eq!(args[0].to_f64_vec(), [11.0, 12.0, 3.0]);
}

/// Maximum prefix sum: pairs (sum, best) under an associative operator without identity.
#[test]
fn user_operators_on_pairs() {
    let mut m = Maker::new();
    let n = m.size("N");
    let a = m.param("A", Mode::In, Scalar::F64, vec![n.clone()]);
    let pair = Type::Tuple(Arc::from(vec![Type::F64, Type::F64]));
    let c = m.param("C", Mode::Out, pair.clone(), vec![]);
    let i = m.var("i");
    let (x, y) = (m.f.fresh_buf(), m.f.fresh_buf());
    let (ex, ey) = (zero_d(x, pair.clone()), zero_d(y, pair.clone()));
    let total = add(field(ex.clone(), 0), field(ey.clone(), 0));
    let best = binary(BinOp::Max, field(ex.clone(), 1), add(field(ex, 0), field(ey, 1)));
    let op = CombineOp {
        name: "mps".into(),
        ty: pair.clone(),
        a: x,
        b: y,
        body: aggregate(pair.clone(), vec![total, best]),
        associative: true,
        commutative: false,
        identity: None,
    };
    m.module.ops.insert("mps".into(), op);
    let e = get(&a, vec![v(&i)]);
    let dims = vec![dim(&i, n, Combine::Reduce(ReduceOp::User("mps".into())))];
    m.f.body = stmt(compute(dims, vec![at(&c, vec![])], vec![aggregate(pair.clone(), vec![e.clone(), e])]));
    let mut args =
        [ArrayValue::from_f64(Scalar::F64, &[4], &[1.0, 2.0, -7.0, 3.0]), ArrayValue::undefined(pair, &[])];
    m.go(&mut args);
    assert_eq!(args[1].leaf(0, 0).unwrap().to_f64(), -1.0);
    assert_eq!(args[1].leaf(0, 1).unwrap().to_f64(), 3.0);
    args[0] = ArrayValue::from_f64(Scalar::F64, &[0], &[]);
    m.fails(&mut args, lathe_ir::interp::codes::EMPTY_REDUCTION);
}
