//! Normal forms: formulas that are equal for a simple reason become the same formula.
//!
//! Integers are polynomials modulo a power of two over what is neither a sum nor a product; floats only what IEEE
//! arithmetic gives bit for bit (NaN payloads aside): operands of `+` and `*` commute, signs move, `x + x` is
//! `x * 2`. What a normal form says holds where the formula has a value; it may have one at more places.

mod casts;
mod floats;
mod logic;

use crate::formula::{Formulas, Id, Node, Op};
use crate::poly::Poly;
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{BinOp, MathFn, Scalar, UnOp};
use std::collections::HashMap;

/// Normal forms of the formulas of one arena.
#[derive(Default)]
pub struct Normal {
    done: HashMap<Id, Id>,
    polys: HashMap<Id, Poly>,
}

impl Normal {
    pub fn of(&mut self, f: &mut Formulas, id: Id) -> Id {
        for part in f.under(&[id]) {
            if !self.done.contains_key(&part) {
                let n = self.node(f, part);
                self.done.insert(part, n);
                self.done.insert(n, n);
            }
        }
        self.done[&id]
    }

    /// That of a node, that of its parts being known.
    fn node(&mut self, f: &mut Formulas, id: Id) -> Id {
        let Node { op, ty } = f.get(id).clone();
        let parts: Vec<Id> = f.parts(id).iter().map(|p| self.done[p]).collect();
        match op {
            Op::Var(_) | Op::Const(_) => id,
            Op::Unary(UnOp::Neg, _) if ty.is_float() => floats::neg(f, parts[0]),
            Op::Unary(UnOp::Not, _) if ty == Scalar::Bool => f.not(parts[0]),
            Op::Unary(o, _) => {
                // -x, and ~x = -x - 1.
                let start = Poly::constant(ty, if o == UnOp::Not { u64::MAX } else { 0 });
                let x = self.poly(f, parts[0]);
                self.sum(f, start.plus(u64::MAX, &x)).unwrap_or_else(|| f.with_parts(id, &parts))
            }
            Op::Binary(o, ..) if o.is_comparison() => self.compare(f, o, parts[0], parts[1]),
            Op::Binary(o, ..) if ty.is_float() => floats::binary(f, o, parts[0], parts[1]),
            Op::Binary(o, ..) if ty == Scalar::Bool => logic::binary(f, o, parts[0], parts[1]),
            Op::Binary(o, ..) => self.integer(f, o, parts[0], parts[1]),
            Op::Cast(_) => self.cast(f, ty, parts[0]),
            Op::Bitcast(_) => match f.get(parts[0]).op {
                Op::Bitcast(b) if f.ty(b) == ty => b,
                _ => f.with_parts(id, &parts),
            },
            Op::Math(g, _) => self.math(f, g, &parts, ty),
            Op::Select(..) => logic::select(f, parts[0], parts[1], parts[2]),
            Op::Apply(..) => f.with_parts(id, &parts),
            Op::Fits(o, ..) => {
                let (a, b) = (parts[0], parts[1]);
                let (a, b) = if matches!(o, BinOp::Add | BinOp::Mul) && b < a { (b, a) } else { (a, b) };
                f.fits(o, a, b)
            }
        }
    }

    /// A normal integer as a polynomial.
    fn poly(&mut self, f: &Formulas, id: Id) -> Poly {
        if let Some(p) = self.polys.get(&id) {
            return p.clone();
        }
        match f.value(id) {
            Some(v) => Poly::constant(v.ty, v.bits),
            None => Poly::atom(f.ty(id), id),
        }
    }

    fn sum(&mut self, f: &mut Formulas, p: Option<Poly>) -> Option<Id> {
        let p = p?;
        let id = p.formula(f);
        self.polys.insert(id, p);
        Some(id)
    }

    fn integer(&mut self, f: &mut Formulas, op: BinOp, a: Id, b: Id) -> Id {
        use BinOp::*;
        let ty = f.ty(a);
        let (x, y) = (self.poly(f, a), self.poly(f, b));
        let one = |v: Option<ScalarValue>| v.is_some_and(|v| v.bits == 1);
        let sum = match op {
            Add => x.plus(1, &y),
            Sub => x.plus(u64::MAX, &y),
            Mul => x.times(&y),
            Shl => f.value(b).and_then(|by| {
                let by = by.bits % u64::from(ty.bits());
                x.times(&Poly::constant(ty, 1 << by))
            }),
            FloorDiv | TruncDiv if one(f.value(b)) => return a,
            // a % b = a - b * (a // b), in the arithmetic of the type
            FloorMod | TruncRem => {
                let by = if op == FloorMod { FloorDiv } else { TruncDiv };
                let q = self.integer(f, by, a, b);
                let q = self.poly(f, q);
                y.times(&q).and_then(|p| x.plus(u64::MAX, &p))
            }
            _ => None,
        };
        if let Some(id) = self.sum(f, sum) {
            return id;
        }
        match op {
            Min | Max | And | Or | Xor => logic::many(f, op, a, b),
            Mul if b < a => f.binary(Mul, b, a),
            Add if b < a => f.binary(Add, b, a),
            // Towards zero and down are the same without signs.
            TruncDiv if !ty.is_signed() => self.integer(f, FloorDiv, a, b),
            FloorDiv => match power_of_two(f.value(b)) {
                Some(k) => {
                    let by = f.int(ty, i64::from(k));
                    f.binary(Shr, a, by)
                }
                None => f.binary(op, a, b),
            },
            _ => f.binary(op, a, b),
        }
    }

    fn compare(&mut self, f: &mut Formulas, op: BinOp, a: Id, b: Id) -> Id {
        use BinOp::*;
        let ty = f.ty(a);
        match op {
            Gt => return self.compare(f, Lt, b, a),
            Ge => return self.compare(f, Le, b, a),
            Ne => {
                let eq = self.compare(f, Eq, a, b);
                return f.not(eq);
            }
            _ => {}
        }
        if ty.is_float() {
            return floats::compare(f, op, a, b);
        }
        if ty == Scalar::Bool {
            return logic::compare(f, op, a, b);
        }
        match op {
            Eq => {
                let (x, y) = (self.poly(f, a), self.poly(f, b));
                let Some(d) = x.plus(u64::MAX, &y).map(Poly::without_sign) else {
                    return f.binary(Eq, a.min(b), a.max(b));
                };
                if let Some(c) = d.as_constant() {
                    return f.boolean(c == 0);
                }
                let d = d.formula(f);
                let zero = f.int(ty, 0);
                f.binary(Eq, d, zero)
            }
            Lt if a == b => f.boolean(false),
            Lt => f.binary(Lt, a, b),
            _ => {
                let lt = self.compare(f, Lt, b, a);
                f.not(lt)
            }
        }
    }

    fn math(&mut self, f: &mut Formulas, g: MathFn, args: &[Id], ty: Scalar) -> Id {
        use MathFn::*;
        let inner = f.get(args[0]).op.clone();
        match (g, &inner) {
            (Abs, _) if ty.is_int() && !ty.is_signed() => args[0],
            (Abs, Op::Unary(UnOp::Neg, a)) if ty.is_float() => f.add(Op::Math(Abs, vec![*a]), ty),
            (Abs, Op::Math(Abs, _)) if ty.is_float() => args[0],
            // What is whole stays as it is.
            (Floor | Ceil | Round | Trunc, Op::Math(Floor | Ceil | Round | Trunc, _)) => args[0],
            (Floor | Ceil | Round | Trunc, Op::Cast(a)) if !f.ty(*a).is_float() => args[0],
            (Fma, _) => {
                let (a, b) = (args[0].min(args[1]), args[0].max(args[1]));
                f.add(Op::Math(Fma, vec![a, b, args[2]]), ty)
            }
            _ => f.add(Op::Math(g, args.to_vec()), ty),
        }
    }
}

fn power_of_two(v: Option<ScalarValue>) -> Option<u32> {
    let v = v?;
    let positive = !v.ty.is_signed() || v.bits as i64 > 0;
    (positive && v.bits.is_power_of_two()).then(|| v.bits.trailing_zeros())
}
