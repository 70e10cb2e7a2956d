//! Slices, reshapes, reinterpreted bytes, pointers.

use super::helpers::*;
use lathe_ir::build::{add, index, int, mul};
use lathe_ir::interp::{ArrayValue, codes};
use lathe_ir::{Access, Expr, Mode, Scalar, Type, View};

fn through(view: View, elem: Type, indices: Vec<Expr>) -> Access {
    Access { view, ..Access::buffer(lathe_ir::BufId(0), elem, indices) }
}

#[test]
fn slices_and_reshapes_are_subscripts() {
    let mut m = Maker::new();
    let a = m.param("A", Mode::In, Scalar::I32, vec![index(12)]);
    let c = m.param("C", Mode::Out, Scalar::I32, vec![index(3), index(2)]);
    let (i, j) = (m.var("i"), m.var("j"));
    let grid = View::Reshape { base: Box::new(View::Buffer(a.id)), extents: vec![index(3), index(4)] };
    let odd = View::Slice { base: Box::new(grid), offsets: vec![index(2), index(1)], steps: vec![-1, 2] };
    let e = lathe_ir::build::load(through(odd.clone(), Type::I32, vec![v(&i), v(&j)]));
    let body = store("C", vec![v(&i), v(&j)], at(&c, vec![v(&i), v(&j)]), e);
    m.f.body = serial(&i, index(3), serial(&j, index(2), body));
    let numbers: Vec<i64> = (0..12).collect();
    let mut args =
        [ArrayValue::from_i64(Scalar::I32, &[12], &numbers), ArrayValue::undefined(Type::I32, &[3, 2])];
    m.go(&mut args);
    assert_eq!(args[1].to_i64_vec(), [9, 11, 5, 7, 1, 3]);

    // Column 4 is outside of the reshape, although inside of the buffer.
    let e = lathe_ir::build::load(through(odd, Type::I32, vec![v(&i), add(v(&j), index(1))]));
    let body = store("C", vec![v(&i), v(&j)], at(&c, vec![v(&i), v(&j)]), e);
    m.f.body = serial(&i, index(3), serial(&j, index(2), body));
    m.fails(&mut args, codes::OUT_OF_BOUNDS);
}

#[test]
fn bytes_as_another_type() {
    let mut m = Maker::new();
    let a = m.param("A", Mode::InOut, Scalar::F32, vec![index(2), index(2)]);
    let i = m.var("i");
    let bits = |e: Type| View::Reinterpret { base: Box::new(View::Buffer(a.id)), elem: e, align: 4 };
    let flip = Type::Scalar(Scalar::U32);
    let target = through(bits(flip.clone()), flip.clone(), vec![v(&i)]);
    let old = lathe_ir::build::load(target.clone());
    let sign = int(Scalar::U32, 1 << 31);
    let new = lathe_ir::build::binary(lathe_ir::BinOp::Xor, old, sign);
    m.f.body = serial(&i, index(4), store("A", vec![v(&i)], target, new));
    let mut args = [ArrayValue::from_f32(&[2, 2], &[1.0, -2.0, 3.0, 0.0])];
    m.go(&mut args);
    assert_eq!(args[0].to_f32_vec(), [-1.0, 2.0, -3.0, 0.0]);
    // Two floats are one 64-bit number, of which there are two.
    let wide = Type::Scalar(Scalar::U64);
    let target = through(bits(wide.clone()), wide, vec![mul(v(&i), index(1))]);
    m.f.body = serial(&i, index(3), store("A", vec![v(&i)], target, int(Scalar::U64, 0)));
    m.fails(&mut args, codes::OUT_OF_BOUNDS);
}
