//! What is proved, what is refuted, and what is only tested.

use crate::decide::{Equality, Proof, Question, Verdict, decide};
use crate::formula::{Formulas, Id, Op};
use crate::rounding::decide_rounding;
use crate::tests::cases;
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{BinOp, MathFn, Scalar};

/// Formulas as they are written.
struct Text(Formulas, Scalar);

impl Text {
    fn x(&mut self) -> Id {
        self.0.var(0, self.1)
    }
    fn y(&mut self) -> Id {
        self.0.var(1, self.1)
    }
    fn c(&mut self, v: f64) -> Id {
        let ty = self.1;
        let v = if ty.is_float() { ScalarValue::float(ty, v) } else { ScalarValue::int(ty, v as i64) };
        self.0.constant(v)
    }
    fn op(&mut self, op: BinOp, a: Id, b: Id) -> Id {
        let ty = if op.is_comparison() { Scalar::Bool } else { self.0.ty(a) };
        self.0.add(Op::Binary(op, a, b), ty)
    }
    fn math(&mut self, g: MathFn, a: Id) -> Id {
        let ty = self.0.ty(a);
        self.0.add(Op::Math(g, vec![a]), ty)
    }
    fn cast(&mut self, ty: Scalar, a: Id) -> Id {
        self.0.add(Op::Cast(a), ty)
    }
}

type Sides = fn(&mut Text) -> (Id, Id);

fn verdict(ty: Scalar, sides: Sides) -> Verdict {
    let mut t = Text(Formulas::default(), ty);
    let pair = sides(&mut t);
    decide(&mut t.0, &Question { given: Vec::new(), pairs: vec![pair], equality: Equality::Bits })
}

use BinOp::*;
use Scalar::*;

const INTEGERS: [Scalar; 8] = [I8, I16, I32, I64, U8, U16, U32, U64];
const FLOATS: [Scalar; 4] = [F16, Bf16, F32, F64];

#[test]
fn what_holds_for_integers_is_proved() {
    let all: [(&str, Sides); 9] = [
        ("x * y = y * x", |t| (op(t, Mul, 0), op(t, Mul, 1))),
        ("(x + y) * (x - y) = x * x - y * y", |t| {
            let (x, y) = (t.x(), t.y());
            let (s, d) = (t.op(Add, x, y), t.op(Sub, x, y));
            let (a, b) = (t.op(Mul, x, x), t.op(Mul, y, y));
            (t.op(Mul, s, d), t.op(Sub, a, b))
        }),
        ("x - x = 0", |t| {
            let x = t.x();
            (t.op(Sub, x, x), t.c(0.0))
        }),
        ("(x // y) * y + x % y = x", |t| {
            let (x, y) = (t.x(), t.y());
            let (q, r) = (t.op(FloorDiv, x, y), t.op(FloorMod, x, y));
            let p = t.op(Mul, q, y);
            (t.op(Add, p, r), x)
        }),
        ("min(x, y) + max(x, y) = x + y", |t| {
            let (x, y) = (t.x(), t.y());
            let (a, b) = (t.op(Min, x, y), t.op(Max, x, y));
            (t.op(Add, a, b), t.op(Add, x, y))
        }),
        ("x % 8 = x & 7", |t| {
            let (x, eight, seven) = (t.x(), t.c(8.0), t.c(7.0));
            (t.op(FloorMod, x, eight), t.op(And, x, seven))
        }),
        ("(x ^ y) ^ y = x", |t| {
            let (x, y) = (t.x(), t.y());
            let a = t.op(Xor, x, y);
            (t.op(Xor, a, y), x)
        }),
        ("x + y = (x | y) + (x & y)", |t| {
            let (x, y) = (t.x(), t.y());
            let (a, b) = (t.op(Or, x, y), t.op(And, x, y));
            (t.op(Add, x, y), t.op(Add, a, b))
        }),
        ("i16(x * y) = i16(x) * i16(y), of types with more bits", |t| {
            if t.1.bits() < 16 {
                t.1 = I32;
            }
            let (x, y) = (t.x(), t.y());
            let p = t.op(Mul, x, y);
            let (a, b) = (t.cast(I16, x), t.cast(I16, y));
            (t.cast(I16, p), t.op(Mul, a, b))
        }),
    ];
    fn op(t: &mut Text, o: BinOp, turned: u32) -> Id {
        let (x, y) = (t.x(), t.y());
        if turned == 0 { t.op(o, x, y) } else { t.op(o, y, x) }
    }
    for (name, sides) in all {
        for ty in INTEGERS {
            let v = verdict(ty, sides);
            assert!(matches!(v, Verdict::Proved(_)), "{name} for {ty}: {v:?}");
        }
    }
}

#[test]
fn what_does_not_hold_is_refuted() {
    let all: [(&str, &[Scalar], Sides); 11] = [
        ("x - x = 0", &FLOATS, |t| {
            let x = t.x();
            (t.op(Sub, x, x), t.c(0.0))
        }),
        ("floor(x) = x", &FLOATS, |t| {
            let x = t.x();
            (t.math(MathFn::Floor, x), x)
        }),
        ("max(x, y) = select(x > y, x, y)", &FLOATS, |t| {
            let (x, y) = (t.x(), t.y());
            let c = t.op(Gt, x, y);
            let s = t.0.add(Op::Select(c, x, y), t.1);
            (t.op(Max, x, y), s)
        }),
        ("(x + x) // 2 = x", &INTEGERS, |t| {
            let (x, two) = (t.x(), t.c(2.0));
            let s = t.op(Add, x, x);
            (t.op(FloorDiv, s, two), x)
        }),
        ("i64(i32(x)) = x", &[I64], |t| {
            let x = t.x();
            let n = t.cast(I32, x);
            (t.cast(I64, n), x)
        }),
        ("sqrt(x * x) = abs(x)", &FLOATS, |t| {
            let x = t.x();
            let s = t.op(Mul, x, x);
            (t.math(MathFn::Sqrt, s), t.math(MathFn::Abs, x))
        }),
        ("select(x == 37, 0, x) = x", &[I8, I64, U16, F16, F32, F64], |t| {
            let (x, k, zero) = (t.x(), t.c(37.0), t.c(0.0));
            let c = t.op(Eq, x, k);
            (t.0.add(Op::Select(c, zero, x), t.1), x)
        }),
        ("select(x * 3 == 111, 0, x) = x", &[I32, I64, U64, F32, F64], |t| {
            let (x, three, k, zero) = (t.x(), t.c(3.0), t.c(111.0), t.c(0.0));
            let p = t.op(Mul, x, three);
            let c = t.op(Eq, p, k);
            (t.0.add(Op::Select(c, zero, x), t.1), x)
        }),
        ("x * 0 = 0", &FLOATS, |t| {
            let (x, zero) = (t.x(), t.c(0.0));
            (t.op(Mul, x, zero), zero)
        }),
        ("x + 0 = x", &FLOATS, |t| {
            let (x, zero) = (t.x(), t.c(0.0));
            (t.op(Add, x, zero), x)
        }),
        ("x = x * y // y", &INTEGERS, |t| {
            let (x, y) = (t.x(), t.y());
            let p = t.op(Mul, x, y);
            (x, t.op(FloorDiv, p, y))
        }),
    ];
    for (name, types, sides) in all {
        for ty in types {
            let v = verdict(*ty, sides);
            assert!(matches!(v, Verdict::Refuted(_)), "{name} for {ty}: {v:?}");
        }
    }
}

#[test]
fn floats_are_proved_as_far_as_bits_go() {
    let all: [(&str, Sides); 5] = [
        ("x + y = y + x", |t| {
            let (x, y) = (t.x(), t.y());
            (t.op(Add, x, y), t.op(Add, y, x))
        }),
        ("x - y = -(y) + x", |t| {
            let (x, y) = (t.x(), t.y());
            let n = t.0.add(Op::Unary(lathe_ir::UnOp::Neg, y), t.1);
            (t.op(Sub, x, y), t.op(Add, n, x))
        }),
        ("x / 2 = x * 0.5", |t| {
            let (x, two, half) = (t.x(), t.c(2.0), t.c(0.5));
            (t.op(Div, x, two), t.op(Mul, x, half))
        }),
        ("max(x, y) = max(y, x)", |t| {
            let (x, y) = (t.x(), t.y());
            (t.op(Max, x, y), t.op(Max, y, x))
        }),
        ("select(x < y, x, y) = select(y > x, x, y)", |t| {
            let (x, y) = (t.x(), t.y());
            let (c, d) = (t.op(Lt, x, y), t.op(Gt, y, x));
            (t.0.add(Op::Select(c, x, y), t.1), t.0.add(Op::Select(d, x, y), t.1))
        }),
    ];
    for (name, sides) in all {
        for ty in FLOATS {
            let v = verdict(ty, sides);
            assert!(matches!(v, Verdict::Proved(_)), "{name} for {ty}: {v:?}");
        }
    }
    // Of one variable with 16 bits all values are tried; more bits are only tested.
    let whole: Sides = |t| {
        let x = t.x();
        let (f, c) = (t.math(MathFn::Floor, x), t.math(MathFn::Ceil, x));
        let same = t.op(Eq, f, c);
        (t.0.add(Op::Select(same, f, x), t.1), x)
    };
    assert!(matches!(verdict(F16, whole), Verdict::Proved(Proof::AllValues)));
    assert!(matches!(verdict(F64, whole), Verdict::Tested(_)));
}

#[test]
fn rounding_is_told_from_what_is_wrong() {
    let mut t = Text(Formulas::default(), F32);
    let (x, y) = (t.x(), t.y());
    let (xx, xy, yy) = (t.op(Mul, x, x), t.op(Mul, x, y), t.op(Mul, y, y));
    let (two, almost) = (t.c(2.0), t.c(2.0001));
    let sum = t.op(Add, x, y);
    let square = t.op(Mul, sum, sum);
    for (factor, holds) in [(two, true), (almost, false)] {
        let middle = t.op(Mul, factor, xy);
        let left = t.op(Add, xx, middle);
        let left = t.op(Add, left, yy);
        let q = Question { given: Vec::new(), pairs: vec![(left, square)], equality: Equality::Bits };
        assert!(matches!(decide(&mut t.0, &q), Verdict::Refuted(_)));
        assert_eq!(matches!(decide_rounding(&t.0, &q, 1), Verdict::Tested(_)), holds);
    }
    // What loses a NaN does not only round.
    let (zero, d) = (t.c(0.0), t.op(Sub, x, x));
    let q = Question { given: Vec::new(), pairs: vec![(d, zero)], equality: Equality::Bits };
    assert!(matches!(decide_rounding(&t.0, &q, 1), Verdict::Refuted(_)));
}

/// One value of a right equation changed: no proof of what is wrong.
#[test]
fn no_rare_value_is_proved_away() {
    let mut draw = crate::sample::Draw(99);
    let mut missed = Vec::new();
    let all = cases(150);
    for n in 0..all {
        let ty = [INTEGERS.as_slice(), &FLOATS].concat()[draw.below(12)];
        let mut t = Text(Formulas::default(), ty);
        let (x, y) = (t.x(), t.y());
        let op = [Add, Mul, Min, Max][draw.below(4)];
        let (left, right) = (t.op(op, x, y), t.op(op, y, x));
        let rare = ScalarValue { ty, bits: crate::sample::any(ty, draw.next()) };
        if ty.is_float() && rare.to_f64().is_nan() {
            continue;
        }
        let rare = t.0.constant(rare);
        let of = if draw.below(2) == 0 { x } else { left };
        let hit = t.op(Eq, of, rare);
        let one = t.c(1.0);
        let other = if ty.is_float() {
            t.0.add(Op::Unary(lathe_ir::UnOp::Neg, right), ty)
        } else {
            t.op(Add, right, one)
        };
        let wrong = t.0.add(Op::Select(hit, other, right), ty);
        let q = Question { given: Vec::new(), pairs: vec![(left, wrong)], equality: Equality::Bits };
        match decide(&mut t.0, &q) {
            Verdict::Refuted(_) => {}
            Verdict::Proved(p) => panic!("{n}: {op:?} of {ty} proved by {p}"),
            v => missed.push((n, ty, op, v)),
        }
    }
    assert!(missed.len() * 50 <= all, "{} of {all} missed: {missed:?}", missed.len());
}
