//! The types of the primitives, with fresh unknowns for what each use may choose.

use crate::facts::Fact;
use crate::nat::Nat;
use crate::prim::{FoldKind, Prim};
use crate::solve::{Class, Solver};
use crate::types::Type;
use lathe_ir::{BinOp, MathFn, Scalar, UnOp};

/// One instance of a primitive's type. What its sizes must satisfy becomes an obligation of the solver.
pub fn scheme(p: &Prim, s: &mut Solver) -> Type {
    let array = |n: &Nat, t: &Type| Type::array(n.clone(), t.clone());
    let fun = |a: &Type, b: &Type| Type::fun(a.clone(), b.clone());
    let one = Nat::constant(1);
    match p {
        Prim::Id => {
            let d = s.data();
            fun(&d, &d)
        }
        Prim::Unary(op) => {
            let d = s.ty(match op {
                UnOp::Neg => Class::Number,
                UnOp::Not => Class::Logical,
            });
            fun(&d, &d)
        }
        Prim::Binary(op) => {
            use BinOp::*;
            let d = s.ty(match op {
                Div => Class::Float,
                FloorDiv | FloorMod | TruncDiv | TruncRem | Shl | Shr => Class::Integer,
                And | Or | Xor => Class::Logical,
                Eq | Ne => Class::Scalar,
                Add | Sub | Mul | Min | Max | Lt | Le | Gt | Ge => Class::Number,
            });
            let to = if op.is_comparison() { Scalar::Bool.into() } else { d.clone() };
            Type::funs([d.clone(), d], to)
        }
        Prim::Math(f) => {
            let d = s.ty(if *f == MathFn::Abs { Class::Number } else { Class::Float });
            Type::funs(vec![d.clone(); f.arity()], d)
        }
        Prim::Cast(to) => Type::fun(s.ty(Class::Single), Type::scalar(*to)),
        Prim::Select => {
            let d = s.data();
            Type::funs([Scalar::Bool.into(), d.clone(), d.clone()], d)
        }
        Prim::Tuple(n) => {
            let parts: Vec<Type> = (0..*n).map(|_| s.data()).collect();
            Type::funs(parts.clone(), Type::tuple(parts))
        }
        Prim::Proj(i, n) => {
            let parts: Vec<Type> = (0..*n).map(|_| s.data()).collect();
            let to = parts.get(*i).cloned().unwrap_or_else(|| s.data());
            Type::fun(Type::tuple(parts), to)
        }
        Prim::NatValue(_) => Scalar::Index.into(),
        Prim::AsIndex(n) => Type::fun(Scalar::Index.into(), Type::index(n.clone())),

        Prim::Map(_) | Prim::MapVec(Some(_)) => {
            let (n, a, b) = (s.nat(), s.data(), s.data());
            Type::funs([fun(&a, &b), array(&n, &a)], array(&n, &b))
        }
        Prim::MapVec(None) => {
            let (n, a, b) = (s.nat(), s.data(), s.data());
            Type::funs([fun(&a, &b), Type::vector(n.clone(), a)], Type::vector(n, b))
        }
        Prim::Reduce(FoldKind::High, _) => {
            let (n, d) = (s.nat(), s.data());
            Type::funs([Type::funs([d.clone(), d.clone()], d.clone()), d.clone(), array(&n, &d)], d)
        }
        Prim::Reduce(..) => {
            let (n, acc, d) = (s.nat(), s.data(), s.data());
            let op = Type::funs([acc.clone(), d.clone()], acc.clone());
            Type::funs([op, acc.clone(), array(&n, &d)], acc)
        }
        Prim::Scan(kind) => {
            let (n, acc) = (s.nat(), s.data());
            let d = if *kind == FoldKind::High { acc.clone() } else { s.data() };
            let op = Type::funs([acc.clone(), d.clone()], acc.clone());
            Type::funs([op, acc.clone(), array(&n, &d)], array(&n, &acc))
        }
        Prim::Iterate(times, _) => {
            s.oblige(Fact::AtMost(Nat::zero(), times.clone()));
            let d = s.data();
            Type::funs([fun(&d, &d), d.clone()], d)
        }

        Prim::Zip => {
            let (n, a, b) = (s.nat(), s.data(), s.data());
            Type::funs([array(&n, &a), array(&n, &b)], array(&n, &Type::pair(a, b)))
        }
        Prim::Unzip => {
            let (n, a, b) = (s.nat(), s.data(), s.data());
            let to = Type::pair(array(&n, &a), array(&n, &b));
            Type::fun(array(&n, &Type::pair(a, b)), to)
        }
        Prim::Split(m) => {
            let (k, d) = (s.nat(), s.data());
            s.oblige(Fact::AtMost(one, m.clone()));
            Type::fun(array(&k.times(m), &d), array(&k, &array(m, &d)))
        }
        Prim::Join => {
            let (n, m, d) = (s.nat(), s.nat(), s.data());
            Type::fun(array(&n, &array(&m, &d)), array(&n.times(&m), &d))
        }
        Prim::Transpose => {
            let (n, m, d) = (s.nat(), s.nat(), s.data());
            Type::fun(array(&n, &array(&m, &d)), array(&m, &array(&n, &d)))
        }
        Prim::Slide(size, step) => {
            let (k, d) = (s.nat(), s.data());
            s.oblige(Fact::AtMost(one, step.clone()));
            s.oblige(Fact::AtMost(Nat::zero(), k.clone()));
            // The last window ends where the array does.
            let n = k.times(step).plus(size).minus(step);
            Type::fun(array(&n, &d), array(&k, &array(size, &d)))
        }
        Prim::Pad(l, r, _) => {
            let (n, d) = (s.nat(), s.data());
            pads(s, l, r);
            Type::fun(array(&n, &d), array(&l.plus(&n).plus(r), &d))
        }
        Prim::PadValue(l, r) => {
            let (n, d) = (s.nat(), s.data());
            pads(s, l, r);
            Type::funs([d.clone(), array(&n, &d)], array(&l.plus(&n).plus(r), &d))
        }
        Prim::PadWith(l, r) => {
            let (n, d) = (s.nat(), s.data());
            pads(s, l, r);
            let h = Type::funs([Scalar::Index.into(), Scalar::Index.into()], d.clone());
            Type::funs([h, array(&n, &d)], array(&l.plus(&n).plus(r), &d))
        }
        Prim::Take(m) => {
            let (k, d) = (s.nat(), s.data());
            s.oblige(Fact::AtMost(Nat::zero(), k.clone()));
            s.oblige(Fact::AtMost(Nat::zero(), m.clone()));
            Type::fun(array(&m.plus(&k), &d), array(m, &d))
        }
        Prim::Drop(m) => {
            let (k, d) = (s.nat(), s.data());
            s.oblige(Fact::AtMost(Nat::zero(), k.clone()));
            s.oblige(Fact::AtMost(Nat::zero(), m.clone()));
            Type::fun(array(&m.plus(&k), &d), array(&k, &d))
        }
        Prim::Concat => {
            let (n, m, d) = (s.nat(), s.nat(), s.data());
            Type::funs([array(&n, &d), array(&m, &d)], array(&n.plus(&m), &d))
        }
        Prim::Gather => {
            let (n, m, d) = (s.nat(), s.nat(), s.data());
            let f = Type::fun(Type::index(n.clone()), Type::index(m.clone()));
            Type::funs([f, array(&m, &d)], array(&n, &d))
        }
        Prim::Scatter => {
            let (n, d) = (s.nat(), s.data());
            let f = Type::fun(Type::index(n.clone()), Type::index(n.clone()));
            Type::funs([f, array(&n, &d)], array(&n, &d))
        }
        Prim::Reorder => {
            let (n, d) = (s.nat(), s.data());
            let f = Type::fun(Type::index(n.clone()), Type::index(n.clone()));
            Type::funs([f.clone(), f, array(&n, &d)], array(&n, &d))
        }
        Prim::Generate(n) => {
            let d = s.data();
            s.oblige(Fact::AtMost(Nat::zero(), n.clone()));
            Type::fun(Type::fun(Type::index(n.clone()), d.clone()), array(n, &d))
        }
        Prim::At => {
            let (n, d) = (s.nat(), s.data());
            Type::funs([Type::index(n.clone()), array(&n, &d)], d)
        }
        Prim::AtNat(i) => {
            let (n, d) = (s.nat(), s.data());
            s.oblige(Fact::AtMost(Nat::zero(), i.clone()));
            s.oblige(Fact::AtMost(i.plus(&one), n.clone()));
            Type::fun(array(&n, &d), d)
        }

        Prim::AsVector(m) => {
            let (k, d) = (s.nat(), s.data());
            s.oblige(Fact::AtMost(one, m.clone()));
            Type::fun(array(&k.times(m), &d), array(&k, &Type::vector(m.clone(), d.clone())))
        }
        Prim::AsScalar => {
            let (n, m, d) = (s.nat(), s.nat(), s.data());
            Type::fun(array(&n, &Type::vector(m.clone(), d.clone())), array(&n.times(&m), &d))
        }
        Prim::VectorFromScalar(m) => {
            let d = s.data();
            Type::fun(d.clone(), Type::vector(m.clone(), d))
        }

        Prim::Let | Prim::ToMem(_) => {
            let (a, b) = (s.data(), s.data());
            Type::funs([a.clone(), fun(&a, &b)], b)
        }
        Prim::CircularBuffer(alloc, size) => {
            let (n, a, b) = (s.nat(), s.data(), s.data());
            s.oblige(Fact::AtMost(size.clone(), alloc.clone()));
            let windows = array(&n, &array(size, &b));
            Type::funs([fun(&a, &b), array(&n.plus(size).minus(&one), &a)], windows)
        }
        Prim::RotateValues(size) => {
            let (n, d) = (s.nat(), s.data());
            let windows = array(&n, &array(size, &d));
            Type::funs([fun(&d, &d), array(&n.plus(size).minus(&one), &d)], windows)
        }
    }
}

fn pads(s: &mut Solver, l: &Nat, r: &Nat) {
    s.oblige(Fact::AtMost(Nat::zero(), l.clone()));
    s.oblige(Fact::AtMost(Nat::zero(), r.clone()));
}
